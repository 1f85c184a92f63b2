// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Multicast: who gets a copy, what is refused, and which limits hold.
#include "datagram.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <set>
#include <span>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbs
{
namespace
{

using namespace std::chrono_literals;

class Multicast : public VerbsTest {
protected:
	void SetUp() override
	{
		VerbsTest::SetUp();
		if (device().is_rxe() || peer().is_rxe())
			GTEST_SKIP() << "rdma_rxe joins no group by itself: nothing would arrive";
		if (!device().attr.max_mcast_grp) {
			End end = make_end(device());

			EXPECT_EQ(ibv_attach_mcast(end.qp.get(), &group_, 0), EOPNOTSUPP);
			GTEST_SKIP() << not_reported("max_mcast_grp");
		}
		group_ = own_group();
		a_ = make_end(device());
		b_ = make_end(peer());
		ASSERT_TRUE(a_.qp && b_.qp);
		ibv_ah_attr attr = address_of(device(), group_);
		to_group_ = Ah(ibv_create_ah(a_.pd, &attr));
		ASSERT_TRUE(to_group_) << std::strerror(errno);
		local_ = make_region(a_.pd, 4096);
		remote_ = make_region(b_.pd, 8192);
		own_ = make_region(a_.pd, 8192);
		ASSERT_TRUE(local_ && remote_ && own_);
		local_.fill(seed());
	}

	// A group of the IP version of the devices' addresses. Its end is this process's number: others
	// may use devices on the same netdev.
	static ibv_gid own_group()
	{
		const uint32_t number = htonl(0xef400000u | static_cast<uint32_t>(getpid()));
		ibv_gid gid = {};

		std::memcpy(gid.raw + 12, &number, sizeof(number));
		if (is_v4(device().gid)) {
			gid.raw[10] = gid.raw[11] = 0xff;
		} else {
			gid.raw[0] = 0xff;
			gid.raw[1] = 0x15;
		}
		return gid;
	}
	static End make_end(const Device &dev, ibv_pd *pd = nullptr, uint32_t key = qkey)
	{
		EndOptions options;

		options.type = IBV_QPT_UD;
		options.shared_pd = pd;
		End end = End::create(dev, options);

		EXPECT_TRUE(end.qp) << std::strerror(errno);
		if (end.qp) {
			EXPECT_EQ(start(end, key), 0);
		}
		return end;
	}
	int attach(const End &end) const { return ibv_attach_mcast(end.qp.get(), &group_, 0); }
	int detach(const End &end) const { return ibv_detach_mcast(end.qp.get(), &group_, 0); }
	void send(uint32_t length) const
	{
		ASSERT_EQ(post_to(a_, to_group_.get(), 0xffffff, {.sges = {local_.sge(0, length)}}),
			  0);
		expect_wc(a_.scq);
	}
	void expect_copy(const End &end, const Region &region, size_t at, uint32_t length) const
	{
		const ibv_wc wc = expect_wc(end.rcq);

		EXPECT_EQ(wc.byte_len, grh_bytes + length);
		EXPECT_EQ(wc.src_qp, a_.qp->qp_num);
		EXPECT_EQ(wc.wc_flags, static_cast<unsigned>(IBV_WC_GRH));
		check_grh(region.bytes(at, grh_bytes), device().gid, group_, length, false);
		EXPECT_TRUE(has_pattern(region.bytes(at + grh_bytes, length), seed()));
	}

	ibv_gid group_ = {};
	End a_, b_; // on device() and peer()
	Ah to_group_;
	Region local_, remote_, own_;
};

TEST_F(Multicast, EachMemberGetsACopy)
{
	const End second = make_end(peer(), b_.pd);

	ASSERT_TRUE(second.qp);
	ASSERT_EQ(attach(b_), 0);
	ASSERT_EQ(attach(second), 0);
	for (uint32_t length : {1u, 100u, 1024u}) {
		ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
		ASSERT_EQ(post_recv(second, {remote_.sge(4096, 4096)}), 0);
		send(length);
		expect_copy(b_, remote_, 0, length);
		expect_copy(second, remote_, 4096, length);
	}
	EXPECT_EQ(detach(second), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
	ASSERT_EQ(post_recv(second, {remote_.sge(4096, 4096)}), 0);
	send(50);
	expect_copy(b_, remote_, 0, 50);
	expect_quiet(second.rcq, 50ms);
	EXPECT_EQ(detach(b_), 0);
}

// So says IPoIB, which drops its own packets when it gets them.
TEST_F(Multicast, ASenderThatIsAMemberGetsItsOwn)
{
	const End other = make_end(device(), a_.pd);

	ASSERT_TRUE(other.qp);
	ASSERT_EQ(attach(a_), 0);
	ASSERT_EQ(attach(other), 0);
	ASSERT_EQ(attach(b_), 0);
	ASSERT_EQ(post_recv(a_, {own_.sge(0, 4096)}), 0);
	ASSERT_EQ(post_recv(other, {own_.sge(4096, 4096)}), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
	send(200);
	expect_copy(a_, own_, 0, 200);
	expect_copy(other, own_, 4096, 200);
	expect_copy(b_, remote_, 0, 200);
	for (const End *end :
	     {&static_cast<const End &>(a_), &other, &static_cast<const End &>(b_)})
		EXPECT_EQ(detach(*end), 0);
}

// The default if that is 0. To other destinations, in between, the route decides.
TEST_F(Multicast, TheHopLimitIsThatOfTheAddressHandle)
{
	const size_t at = is_v4(device().gid) ? 28 : 7;
	const auto arrives = [&](const ibv_gid &to, uint32_t qpn, uint8_t hop_limit) {
		ibv_ah_attr attr = address_of(device(), to);

		attr.grh.hop_limit = hop_limit;
		const Ah ah(ibv_create_ah(a_.pd, &attr));

		EXPECT_TRUE(ah) << std::strerror(errno);
		EXPECT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
		EXPECT_EQ(post_to(a_, ah.get(), qpn, {.sges = {local_.sge(0, 8)}}), 0);
		expect_wc(a_.scq);
		expect_wc(b_.rcq);
		return static_cast<int>(remote_.bytes(0, grh_bytes)[at]);
	};

	ASSERT_EQ(attach(b_), 0);
	for (uint8_t hop_limit : {3, 255, 1, 64}) {
		EXPECT_EQ(arrives(group_, 0xffffff, hop_limit), hop_limit);
		EXPECT_EQ(arrives(peer().gid, b_.qp->qp_num, 3), 64);
	}
	EXPECT_EQ(arrives(group_, 0xffffff, 0), 64);
	EXPECT_EQ(detach(b_), 0);
}

TEST_F(Multicast, AWrongQkeyIsDropped)
{
	const End wrong = make_end(peer(), b_.pd, qkey + 1);

	ASSERT_TRUE(wrong.qp);
	ASSERT_EQ(attach(wrong), 0);
	ASSERT_EQ(attach(b_), 0);
	ASSERT_EQ(post_recv(wrong, {remote_.sge(4096, 4096)}), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
	send(20);
	expect_copy(b_, remote_, 0, 20);
	expect_quiet(wrong.rcq, 50ms);
	EXPECT_EQ(detach(wrong), 0);
	EXPECT_EQ(detach(b_), 0);
}

TEST_F(Multicast, WhatIsNoGroupIsRefused)
{
	const End connected = End::create(peer());

	ASSERT_TRUE(connected.qp);
	EXPECT_EQ(ibv_attach_mcast(connected.qp.get(), &group_, 0), EINVAL) << "not of datagrams";
	EXPECT_EQ(ibv_attach_mcast(b_.qp.get(), &peer().gid, 0), EINVAL) << "not a group";
	EXPECT_EQ(detach(b_), EINVAL) << "not attached";
	ASSERT_EQ(attach(b_), 0);
	EXPECT_EQ(attach(b_), 0) << "twice is as once";
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
	ASSERT_EQ(post_recv(b_, {remote_.sge(0, 4096)}), 0);
	send(20);
	expect_copy(b_, remote_, 0, 20);
	expect_quiet(b_.rcq, 50ms);
	EXPECT_EQ(ibv_destroy_qp(b_.qp.get()), EBUSY) << "attached";
	EXPECT_EQ(detach(b_), 0);
	EXPECT_EQ(detach(b_), EINVAL);
}

std::string hex(std::span<const uint8_t> bytes, bool upper = false)
{
	std::string out;
	char two[3];

	for (const uint8_t byte : bytes) {
		std::snprintf(two, sizeof(two), upper ? "%02X" : "%02x", byte);
		out += two;
	}
	return out;
}

// Words of a line of /proc/net/@file that begins a netdev's part or is about it alone.
bool has_line(const char *file, const std::string &netdev, const std::string &word)
{
	std::ifstream in(std::string("/proc/net/") + file);
	std::string line;
	bool part = false;

	while (std::getline(in, line)) {
		const bool names = line.find(netdev + " ") != std::string::npos ||
				   line.find(netdev + ":") != std::string::npos;

		// Addresses of /proc/net/igmp follow the line of their netdev, behind tabs.
		part = names || (part && line.starts_with('\t'));
		if (part && line.find(word) != std::string::npos)
			return true;
	}
	return false;
}

// The netdevs of the device's addresses; none when they are in another network namespace.
std::set<std::string> netdevs_of(const Device &dev)
{
	const std::string folder =
		"/sys/class/infiniband/" + dev.name + "/ports/1/gid_attrs/ndevs/";
	std::set<std::string> names;

	for (int i = 0; i < dev.port_attr.gid_tbl_len; i++) {
		std::ifstream file(folder + std::to_string(i));
		std::string name;

		if (file >> name && std::ifstream("/sys/class/net/" + name + "/mtu"))
			names.insert(name);
	}
	return names;
}

// lo, on which devices in userspace may be, has no filter of addresses.
bool has_filter(const std::string &netdev)
{
	constexpr int loopback = 772; // ARPHRD_LOOPBACK
	std::ifstream file("/sys/class/net/" + netdev + "/type");
	int type = 0;

	return file >> type && type != loopback;
}

// A group as the kernel lists it: in /proc/net/@file, and its MAC in /proc/net/dev_mcast.
struct Listed {
	explicit Listed(const ibv_gid &group)
	{
		const bool v4 = is_v4(group);
		const uint8_t *end = group.raw + 12;
		const uint8_t swapped[] = {end[3], end[2], end[1], end[0]};
		const uint8_t low[] = {static_cast<uint8_t>(end[1] & 0x7f), end[2], end[3]};

		file = v4 ? "igmp" : "igmp6";
		word = v4 ? hex(swapped, true) : hex(group.raw);
		mac = v4 ? "01005e" + hex(low) : "3333" + hex({end, 4});
	}
	std::string file, word, mac;
};

// The netdevs that are members, or have the filter, though not @wanted; and the other way round.
std::string wrong(const Listed &group, const std::set<std::string> &netdevs, bool wanted)
{
	std::string names;

	for (const std::string &netdev : netdevs) {
		// Kernels without CONFIG_IP_MULTICAST have no such file.
		if (std::ifstream("/proc/net/" + group.file) &&
		    has_line(group.file.c_str(), netdev, group.word) != wanted)
			names += netdev + " in " + group.file + " ";
		if (has_filter(netdev) && has_line("dev_mcast", netdev, group.mac) != wanted)
			names += netdev + " in dev_mcast ";
	}
	return names;
}

void expect_members(const Listed &group, const std::set<std::string> &netdevs, bool wanted)
{
	// Newer kernels change the filters a moment later.
	EXPECT_TRUE(await_condition([&] { return wrong(group, netdevs, wanted).empty(); }))
		<< wrong(group, netdevs, wanted);
}

TEST_F(Multicast, NetdevsAreMembersWhileOneIsAttached)
{
	const Listed group(group_);
	const std::set<std::string> netdevs = netdevs_of(peer());

	if (netdevs.empty())
		GTEST_SKIP() << "its netdev is in another network namespace";
	expect_members(group, netdevs, false);
	ASSERT_EQ(attach(a_), 0);
	ASSERT_EQ(attach(b_), 0);
	expect_members(group, netdevs, true);
	EXPECT_EQ(detach(a_), 0);
	if (same_device()) {
		EXPECT_EQ(wrong(group, netdevs, true), "");
	}
	EXPECT_EQ(detach(b_), 0);
	expect_members(group, netdevs, false);
}

// Sets the MTU of a netdev; the old one returns with the object.
class Mtu {
public:
	Mtu(const std::string &netdev, int mtu)
	{
		netdev.copy(request_.ifr_name, IFNAMSIZ - 1);
		EXPECT_EQ(ioctl(socket_, SIOCGIFMTU, &request_), 0) << std::strerror(errno);
		old_ = request_.ifr_mtu;
		set(mtu);
	}
	~Mtu()
	{
		set(old_);
		close(socket_);
	}

private:
	void set(int mtu)
	{
		request_.ifr_mtu = mtu;
		EXPECT_EQ(ioctl(socket_, SIOCSIFMTU, &request_), 0) << std::strerror(errno);
	}

	int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int old_ = 0;
	ifreq request_ = {};
};

// A netdev whose MTU is too small for IPv6 loses its memberships, while addresses of IPv4 stay.
TEST_F(Multicast, MembershipsReturnWithIpv6)
{
	const std::set<std::string> netdevs = netdevs_of(peer());

	if (!options().change_mtu || netdevs.size() != 1)
		GTEST_SKIP() << "no netdev whose MTU may be changed";
	group_ = {};
	group_.raw[0] = 0xff;
	group_.raw[1] = 0x15;
	group_.raw[15] = 77;
	const Listed group(group_);

	ASSERT_EQ(attach(b_), 0);
	expect_members(group, netdevs, true);
	{
		const Mtu small(*netdevs.begin(), 1000);

		expect_members(group, netdevs, false);
	}
	expect_members(group, netdevs, true);
	EXPECT_EQ(detach(b_), 0);
	expect_members(group, netdevs, false);
}

TEST_F(Multicast, LimitsAreThoseReported)
{
	const ibv_device_attr &limits = peer().attr;
	std::vector<End> ends;

	EXPECT_EQ(limits.max_total_mcast_qp_attach,
		  limits.max_mcast_grp * limits.max_mcast_qp_attach);
	for (int i = 0; i <= limits.max_mcast_qp_attach; i++) {
		ends.push_back(make_end(peer(), b_.pd));
		ASSERT_TRUE(ends.back().qp);
		EXPECT_EQ(attach(ends.back()), i < limits.max_mcast_qp_attach ? 0 : ENOMEM) << i;
	}
	ends.pop_back();
	for (const End &end : ends)
		EXPECT_EQ(detach(end), 0);
}

// A group that no other test has
ibv_gid numbered(ibv_gid group, uint32_t number)
{
	number = htonl(0xef800000u | number);
	std::memcpy(group.raw + 12, &number, sizeof(number));
	return group;
}

// Attaches the queue pair to groups from number @first on until one is refused. Returns how many it got.
uint32_t attach_to_many(const End &end, const ibv_gid &group, uint32_t first)
{
	uint32_t count = 0;
	int err = 0;

	while (count < 1u << 16 && !err) {
		const ibv_gid next = numbered(group, first + count);

		err = ibv_attach_mcast(end.qp.get(), &next, 0);
		count += !err;
	}
	EXPECT_EQ(err, ENOMEM);
	return count;
}

void detach_from_many(const End &end, const ibv_gid &group, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; ++i) {
		const ibv_gid next = numbered(group, i);

		EXPECT_EQ(ibv_detach_mcast(end.qp.get(), &next, 0), 0) << i;
	}
}

TEST_F(Multicast, OneUserLeavesGroupsToAnother)
{
	constexpr uid_t nobody = 65534;
	constexpr uint32_t others = 1u << 16;
	int status = -1;

	if (getuid() || options().unpinned)
		GTEST_SKIP() << "users share a kernel's device, and only root can become another "
				"one";
	const uint32_t mine = attach_to_many(b_, group_, 0);
	EXPECT_LE(mine, static_cast<uint32_t>(peer().attr.max_mcast_grp));
	EXPECT_GT(mine, static_cast<uint32_t>(peer().attr.max_mcast_grp) / 2);
	const pid_t child = fork();
	if (!child) {
		if (setgid(nobody) || setuid(nobody))
			_exit(1);
		const auto own = Device::open(peer().name, {peer().gid_index, 4});
		if (!own)
			_exit(2);
		const End end = make_end(*own);
		const uint32_t theirs = end.qp ? attach_to_many(end, group_, others) : 0;

		detach_from_many(end, group_, others, theirs);
		_exit(theirs >= mine / 2 && theirs < mine ? 0 : 3);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "the other user's process";
	detach_from_many(b_, group_, 0, mine);
}

} // namespace
} // namespace verbs
