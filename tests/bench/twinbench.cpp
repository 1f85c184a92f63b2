/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Writes between two processes, each with the first device it sees. Both are
 * started with the same arguments; the one that comes second prints one figure.
 *   twinbench lat BYTES SECONDS NAME    half a round trip, us; the median of batches of 8
 *   twinbench lat-shared BYTES SECONDS NAME   the same between buffers that the other process can map
 *   twinbench rate LIST SECONDS NAME     messages of 8 bytes posted in lists, millions a second
 *   twinbench bw BYTES SECONDS NAME      MB/s of writes, 16 in flight; what arrived is compared
 *   twinbench memcpy BYTES SECONDS -   MB/s of copies between two buffers of that size
 */
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include <infiniband/verbs.h>

namespace
{

constexpr int depth = 256;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void die(const char *what)
{
	perror(what);
	exit(1);
}

void check(bool ok, const char *what)
{
	if (!ok)
		die(what);
}

/* Memory as it is best registered: of huge pages, where the machine has them. */
uint8_t *new_pages(size_t bytes)
{
	constexpr size_t huge = 2 << 20;

	bytes = (bytes + huge - 1) & ~(huge - 1);

	void *p = aligned_alloc(huge, bytes);

	check(p, "memory");
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0, bytes);
	return static_cast<uint8_t *>(p);
}

/* Memory of a file that cannot shrink: others may map it. */
uint8_t *new_shared_pages(size_t bytes)
{
	const int file = memfd_create("twinbench", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	check(file >= 0 && !ftruncate(file, static_cast<off_t>(bytes)) &&
		      !fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK),
	      "a file of memory");

	void *const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	check(p != MAP_FAILED, "memory");
	return static_cast<uint8_t *>(p);
}

struct Endpoint {
	ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn;
};

/* One end of the connection. */
class End {
public:
	End(int fd, size_t bytes, bool shared) : fd_(fd)
	{
		int n = 0;
		ibv_device **list = ibv_get_device_list(&n);

		check(list && n > 0, "no device");
		context_ = ibv_open_device(list[0]);
		check(context_, "ibv_open_device");
		pd_ = ibv_alloc_pd(context_);
		cq_ = ibv_create_cq(context_, depth, nullptr, nullptr, 0);
		memory = shared ? new_shared_pages(2 * bytes + 4096) : new_pages(2 * bytes + 4096);
		mr_ = ibv_reg_mr(pd_, memory, 2 * bytes + 4096,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

		ibv_qp_init_attr init{};

		init.send_cq = init.recv_cq = cq_;
		init.qp_type = IBV_QPT_RC;
		init.cap = {.max_send_wr = depth,
			    .max_recv_wr = 1,
			    .max_send_sge = 1,
			    .max_recv_sge = 1,
			    .max_inline_data = 16};
		qp_ = ibv_create_qp(pd_, &init);
		check(mr_ && cq_ && qp_, "verbs");
		connect();
	}

	/* @signaled: its completion is one poll() counts. */
	void post(size_t from, uint32_t bytes, unsigned count, bool signaled)
	{
		const unsigned flags = bytes <= 16 ? unsigned{IBV_SEND_INLINE} : 0;
		ibv_send_wr *bad;

		sge_ = {.addr = reinterpret_cast<uintptr_t>(memory + from),
			.length = bytes,
			.lkey = mr_->lkey};
		for (unsigned i = 0; i < count; ++i) {
			wrs_[i].opcode = IBV_WR_RDMA_WRITE;
			wrs_[i].sg_list = &sge_;
			wrs_[i].num_sge = 1;
			wrs_[i].wr.rdma = {.remote_addr = peer_.addr + offset, .rkey = peer_.rkey};
			wrs_[i].send_flags = flags;
			wrs_[i].next = i + 1 < count ? &wrs_[i + 1] : nullptr;
		}
		if (signaled)
			wrs_[count - 1].send_flags |= IBV_SEND_SIGNALED;
		check(!ibv_post_send(qp_, wrs_.data(), &bad), "ibv_post_send");
	}

	int poll()
	{
		ibv_wc wc;
		const int n = ibv_poll_cq(cq_, 1, &wc);

		if (n > 0 && wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		return n;
	}

	void wait(int completions)
	{
		while (completions)
			completions -= poll();
	}

	/* Both come here, or one died. */
	void meet()
	{
		char c = 0;

		check(write(fd_, &c, 1) == 1 && read(fd_, &c, 1) == 1, "the other process");
	}

	void say_done() { check(write(fd_, "", 1) == 1, "the other process"); }

	/* Meanwhile, serve. False when the other one ended its work. */
	bool other_works()
	{
		char c;

		for (int i = 0; i < 64; ++i)
			poll();
		return recv(fd_, &c, 1, MSG_DONTWAIT) < 0;
	}

	uint8_t *memory;
	size_t offset = 0; /* where at the peer */

private:
	void connect()
	{
		Endpoint mine = {};
		ibv_qp_attr attr{};
		ibv_port_attr port{};

		check(!ibv_query_gid(context_, 1, 0, &mine.gid) &&
			      !ibv_query_port(context_, 1, &port),
		      "ibv_query_gid");
		mine.addr = reinterpret_cast<uintptr_t>(memory);
		mine.rkey = mr_->rkey;
		mine.qpn = qp_->qp_num;
		check(write(fd_, &mine, sizeof(mine)) == sizeof(mine) &&
			      read(fd_, &peer_, sizeof(peer_)) == sizeof(peer_),
		      "the other process");
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		check(!ibv_modify_qp(qp_, &attr,
				     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					     IBV_QP_ACCESS_FLAGS),
		      "INIT");
		attr.qp_state = IBV_QPS_RTR;
		attr.path_mtu = port.active_mtu;
		attr.dest_qp_num = peer_.qpn;
		attr.max_dest_rd_atomic = 1;
		attr.min_rnr_timer = 12;
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = peer_.gid;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.port_num = 1;
		check(!ibv_modify_qp(qp_, &attr,
				     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					     IBV_QP_MIN_RNR_TIMER),
		      "RTR");
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 18; /* of a second: on a busy machine nothing may count as lost */
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		check(!ibv_modify_qp(qp_, &attr,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC),
		      "RTS");
		meet();
	}

	int fd_;
	ibv_context *context_;
	ibv_pd *pd_;
	ibv_cq *cq_;
	ibv_mr *mr_;
	ibv_qp *qp_;
	Endpoint peer_{};
	ibv_sge sge_{};
	std::array<ibv_send_wr, 64> wrs_{};
};

/*
 * The last byte of what comes tells the round. Every 32nd write is signaled, and
 * its completion taken with the next one's: nobody waits for acknowledgements.
 */
void one_way(End &end, uint32_t bytes, uint8_t round, unsigned n)
{
	/* The child writes what it read to where it came from. */
	end.memory[bytes - 1] = round;
	end.post(0, bytes, 1, n % 32 == 0);
}

void await_round(End &end, uint32_t bytes, uint8_t round)
{
	const volatile uint8_t *last = end.memory + end.offset + bytes - 1;

	while (*last != round)
		end.poll();
}

double latency(End &end, uint32_t bytes, double seconds, bool first)
{
	constexpr unsigned batch = 8;
	constexpr size_t page = 4096;
	const Clock::time_point start = Clock::now();
	std::vector<double> halves;
	unsigned n = 0;
	bool last = false;

	/* No cache line is both sent from and received in. */
	end.offset = (bytes + page - 1) / page * page;
	while (!last) {
		const Clock::time_point begin = Clock::now();

		for (unsigned i = 0; i < batch; ++i, ++n) {
			/* A round of 0 from the first one ends it. */
			last = first && i == batch - 1 && seconds_since(start) > seconds;

			const uint8_t round = last ? 0 : static_cast<uint8_t>(1 + n % 200);

			if (first) {
				one_way(end, bytes, round, n);
				await_round(end, bytes, round);
				continue;
			}

			const volatile uint8_t *seen = end.memory + end.offset + bytes - 1;
			const uint8_t before = n ? end.memory[bytes - 1] : 0;

			while (*seen == before && (n || !*seen))
				end.poll();
			last = !*seen;
			one_way(end, bytes, *seen, n);
			if (last)
				break;
		}
		halves.push_back(seconds_since(begin) / batch / 2 * 1e6);
	}
	std::nth_element(halves.begin(), halves.begin() + static_cast<long>(halves.size() / 2),
			 halves.end());
	return halves[halves.size() / 2];
}

/* To the @n-th processor we may use, as far as there are so many. */
void pin(int n)
{
	cpu_set_t allowed, one;

	check(!sched_getaffinity(0, sizeof(allowed), &allowed), "sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
		if (!CPU_ISSET(cpu, &allowed) || n--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		check(!sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
	}
}

/* A socket to the other process; the second one to come works as the first end. */
int find_other(const char *name, bool &first)
{
	sockaddr_un sa{};
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	const auto *at = reinterpret_cast<const sockaddr *>(&sa);

	sa.sun_family = AF_UNIX;
	snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "twinbench-%s", name);
	check(fd >= 0, "socket");
	first = !connect(fd, at, sizeof(sa));
	if (first)
		return fd;
	check(!bind(fd, at, sizeof(sa)) && !listen(fd, 1), "the name");

	const int other = accept(fd, nullptr, nullptr);

	check(other >= 0, "accept");
	close(fd);
	return other;
}

/* Groups of @count writes, the last of each signaled; work done a second. */
double flood(End &end, uint32_t bytes, unsigned list, unsigned lists, double seconds)
{
	const int groups = static_cast<int>(depth / (list * lists)) > 1 ? depth / (list * lists) :
									  1;
	const Clock::time_point start = Clock::now();
	uint64_t done = 0;
	int flying = 0;

	while (seconds_since(start) < seconds) {
		for (; flying < std::min(groups, 16); ++flying)
			for (unsigned i = 0; i < lists; ++i)
				end.post(0, bytes, list, i == lists - 1);
		end.wait(1);
		--flying;
		done += list * lists;
	}
	end.wait(flying);
	done += static_cast<uint64_t>(flying) * list * lists;
	return static_cast<double>(done) / seconds_since(start);
}

double copies(size_t bytes, double seconds)
{
	const uint8_t *from = new_pages(bytes);
	uint8_t *to = new_pages(bytes);
	const Clock::time_point start = Clock::now();
	uint64_t done = 0;

	while (seconds_since(start) < seconds) {
		memcpy(to, from, bytes);
		asm volatile("" ::"r"(to) : "memory");
		done += bytes;
	}
	return static_cast<double>(done) / seconds_since(start) / 1e6;
}

} // namespace

int main(int argc, char **argv)
{
	const std::string what = argc == 5 ? argv[1] : "";
	const unsigned amount = argc == 5 ? static_cast<unsigned>(atoi(argv[2])) : 0;
	const double seconds = argc == 5 ? atof(argv[3]) : 0;

	if (!amount ||
	    (what != "lat" && what != "lat-shared" && what != "rate" && what != "bw" &&
	     what != "memcpy") ||
	    (what == "rate" && amount > 64)) {
		fprintf(stderr, "twinbench lat|lat-shared|rate|bw|memcpy BYTES-OR-LIST SECONDS "
				"NAME\n");
		return 2;
	}
	if (what == "memcpy") {
		printf("%.1f\n", copies(amount, seconds));
		return 0;
	}

	bool first;
	const int other = find_other(argv[4], first);
	const uint32_t bytes = what == "rate" ? 8 : amount;

	pin(!first);

	End end(other, bytes, what == "lat-shared");
	double result = 0;

	if (what == "lat" || what == "lat-shared") {
		result = latency(end, bytes, seconds, first);
	} else if (first) {
		for (uint32_t i = 0; i < bytes; ++i)
			end.memory[i] = static_cast<uint8_t>(i * 7 + i / 251 + 1);

		const double rate = what == "rate" ?
					    flood(end, bytes, amount, 64 / amount, seconds) :
					    flood(end, bytes, 1, 1, seconds);

		result = what == "rate" ? rate / 1e6 : rate * bytes / 1e6;
	} else {
		while (end.other_works())
			;
		for (uint32_t i = 0; i < bytes; ++i)
			if (end.memory[i] != static_cast<uint8_t>(i * 7 + i / 251 + 1))
				return 1; /* the other one misses our answer */
		end.say_done();
		return 0;
	}
	/* The other process has got what it should. */
	end.meet();
	if (first)
		printf("%.3f\n", result);
	return 0;
}
