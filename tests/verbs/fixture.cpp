// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "fixture.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace verbs
{

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void report_destroy_failure(const char *what, int rc) noexcept
{
	ADD_FAILURE() << what << ": " << std::strerror(rc > 0 ? rc : errno);
}

namespace
{

std::optional<Device> opened[2];

} // namespace

bool open_devices()
{
	const Options &o = options();
	opened[0] = Device::open(o.device, o.gid);
	if (!opened[0])
		return false;
	if (!o.peer_device.empty() && o.peer_device != opened[0]->name) {
		opened[1] = Device::open(o.peer_device, o.peer_gid);
		if (!opened[1])
			return false;
	}
	for (const auto &dev : opened)
		if (dev)
			fcntl(dev->context->async_fd, F_SETFL,
			      fcntl(dev->context->async_fd, F_GETFL) | O_NONBLOCK);
	return true;
}

const Device &device()
{
	return *opened[0];
}

const Device &peer()
{
	return opened[1] ? *opened[1] : *opened[0];
}

bool same_device()
{
	return !opened[1];
}

std::optional<ibv_gid> nobody()
{
	const std::optional<ibv_gid> gid = gid_of(options().unreachable);

	return gid && is_v4(*gid) == is_v4(peer().gid) ? gid : std::nullopt;
}

Region make_region(ibv_pd *pd, size_t length, int access)
{
	Region region;
	region.memory = Mapping::anonymous(std::max<size_t>(length, 1));
	if (!region.memory) {
		ADD_FAILURE() << "no memory for " << length << " bytes";
		return region;
	}
	region.mr.reset(ibv_reg_mr(pd, region.memory.data(), region.memory.size(), access));
	if (!region.mr)
		ADD_FAILURE() << "ibv_reg_mr of " << length << " bytes: " << std::strerror(errno);
	return region;
}

End End::create(const Device &dev, const EndOptions &options)
{
	static uint32_t psn_counter = 0;
	End end;

	end.dev = &dev;
	end.psn = (0xfffff0u + psn_counter++ * 0x10001u) &
		  0xffffffu; // some start close to the wrap
	if (!options.shared_pd)
		end.own_pd.reset(ibv_alloc_pd(dev.context.get()));
	end.pd = options.shared_pd ? options.shared_pd : end.own_pd.get();
	if (!end.pd)
		return end;
	if (!options.shared_cq) {
		const int send_room = options.cqe ? options.cqe :
						    static_cast<int>(options.send_wr) + 1;
		const int recv_room = options.cqe ? options.cqe :
						    static_cast<int>(options.recv_wr) + 1;
		end.send_cq.reset(ibv_create_cq(dev.context.get(), send_room, nullptr, nullptr, 0));
		end.recv_cq.reset(ibv_create_cq(dev.context.get(), recv_room, nullptr, nullptr, 0));
		if (!end.send_cq || !end.recv_cq)
			return end;
	}
	end.scq = options.shared_cq ? options.shared_cq : end.send_cq.get();
	end.rcq = options.shared_cq ? options.shared_cq : end.recv_cq.get();

	ibv_qp_init_attr init = {};
	init.qp_type = options.type;
	init.send_cq = end.scq;
	init.recv_cq = end.rcq;
	init.srq = options.srq;
	init.sq_sig_all = options.signal_all;
	init.cap.max_send_wr = options.send_wr;
	init.cap.max_recv_wr = options.recv_wr;
	init.cap.max_send_sge = options.send_sge;
	init.cap.max_recv_sge = options.recv_sge;
	init.cap.max_inline_data = options.inline_data;
	end.qp.reset(ibv_create_qp(end.pd, &init));
	end.cap = init.cap;
	return end;
}

Link default_link()
{
	Link link;
	link.mtu = std::min(device().port_attr.active_mtu, peer().port_attr.active_mtu);
	return link;
}

bool lacks(const Device &dev, int error)
{
	return dev.is_rxe() && (error == EOPNOTSUPP || error == ENOSYS || error == ENOTSUP);
}

std::string not_offered(const std::string &call, int error)
{
	return "not offered: " + call + ": " + std::strerror(error);
}

std::string not_reported(const std::string &attribute, uint64_t value)
{
	return "not offered: " + attribute + " is " + std::to_string(value);
}

void Pair::connect()
{
	ASSERT_EQ(to_init(a.qp.get(), *a.dev, link), 0);
	ASSERT_EQ(to_init(b.qp.get(), *b.dev, link), 0);
	ASSERT_EQ(to_rtr(a.qp.get(), *a.dev, b.address(), link), 0);
	ASSERT_EQ(to_rtr(b.qp.get(), *b.dev, a.address(), link), 0);
	ASSERT_EQ(to_rts(a.qp.get(), a.psn, link), 0);
	ASSERT_EQ(to_rts(b.qp.get(), b.psn, link), 0);
}

void Pair::reset()
{
	ASSERT_EQ(to_state(a.qp.get(), IBV_QPS_RESET), 0);
	ASSERT_EQ(to_state(b.qp.get(), IBV_QPS_RESET), 0);
}

int post(const End &end, SendSpec spec)
{
	ibv_send_wr wr = {};
	ibv_send_wr *bad = nullptr;

	wr.wr_id = spec.wr_id;
	wr.sg_list = spec.sges.data();
	wr.num_sge = static_cast<int>(spec.sges.size());
	wr.opcode = spec.op;
	wr.send_flags = spec.flags;
	if (spec.op == IBV_WR_SEND_WITH_INV || spec.op == IBV_WR_LOCAL_INV)
		wr.invalidate_rkey = spec.rkey;
	else
		wr.imm_data = htonl(spec.imm);
	if (is_atomic(spec.op)) {
		wr.wr.atomic.remote_addr = spec.remote_addr;
		wr.wr.atomic.rkey = spec.rkey;
		wr.wr.atomic.compare_add = spec.compare_add;
		wr.wr.atomic.swap = spec.swap;
	} else {
		wr.wr.rdma.remote_addr = spec.remote_addr;
		wr.wr.rdma.rkey = spec.rkey;
	}
	return ibv_post_send(end.qp.get(), &wr, &bad);
}

int post_recv(const End &end, std::vector<ibv_sge> sges, uint64_t wr_id)
{
	ibv_recv_wr wr = {};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	return ibv_post_recv(end.qp.get(), &wr, &bad);
}

int post_recv(ibv_srq *srq, std::vector<ibv_sge> sges, uint64_t wr_id)
{
	ibv_recv_wr wr = {};
	ibv_recv_wr *bad = nullptr;

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	return ibv_post_srq_recv(srq, &wr, &bad);
}

bool await_condition(const std::function<bool()> &condition, milliseconds limit)
{
	const auto deadline = steady_clock::now() + limit;
	while (!condition()) {
		if (steady_clock::now() > deadline)
			return false;
		sched_yield();
	}
	return true;
}

std::optional<ibv_wc> await(ibv_cq *cq, milliseconds limit)
{
	ibv_wc wc = {};
	int count = 0;
	if (!await_condition([&] { return (count = ibv_poll_cq(cq, 1, &wc)) != 0; }, limit))
		return std::nullopt;
	if (count < 0) {
		ADD_FAILURE() << "ibv_poll_cq returned " << count;
		return std::nullopt;
	}
	return wc;
}

bool ends_as(ibv_wc_status status, ibv_wc_status wanted)
{
	const bool of_responder = wanted == IBV_WC_REM_INV_REQ_ERR ||
				  wanted == IBV_WC_REM_ACCESS_ERR || wanted == IBV_WC_REM_OP_ERR;
	return status == wanted ||
	       (of_responder && options().lossy && status == IBV_WC_RETRY_EXC_ERR);
}

ibv_wc expect_wc(ibv_cq *cq, ibv_wc_status status, milliseconds limit)
{
	const std::optional<ibv_wc> wc = await(cq, limit);
	if (!wc) {
		ADD_FAILURE() << "no completion within " << limit.count() << " ms, expected "
			      << ibv_wc_status_str(status);
		ibv_wc none = {};
		none.wr_id = ~0ull;
		none.status = IBV_WC_GENERAL_ERR;
		return none;
	}
	EXPECT_TRUE(ends_as(wc->status, status))
		<< "got '" << ibv_wc_status_str(wc->status) << "' (vendor error 0x" << std::hex
		<< wc->vendor_err << "), expected '" << ibv_wc_status_str(status) << "'";
	return *wc;
}

void expect_quiet(ibv_cq *cq, milliseconds time)
{
	const std::optional<ibv_wc> wc = await(cq, time);
	if (wc)
		ADD_FAILURE() << "unexpected completion: wr_id " << wc->wr_id << " "
			      << ibv_wc_status_str(wc->status);
}

ibv_qp_attr query(ibv_qp *qp)
{
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};
	const int everything = (IBV_QP_DEST_QPN << 1) - 1;
	const int rc = ibv_query_qp(qp, &attr, everything, &init);
	EXPECT_EQ(rc, 0) << "ibv_query_qp: " << std::strerror(rc);
	return attr;
}

ibv_qp_state state_of(ibv_qp *qp)
{
	return query(qp).qp_state;
}

namespace
{

// Takes one event if there is one; hands it to `wanted` before acknowledging it.
bool take_event(const Device &dev, const std::function<bool(const ibv_async_event &)> &wanted)
{
	ibv_async_event event = {};
	if (ibv_get_async_event(dev.context.get(), &event))
		return false;
	const bool found = wanted(event);
	ibv_ack_async_event(&event);
	return found;
}

bool names_qp(ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

} // namespace

std::optional<ibv_event_type> await_qp_event(const Device &dev, ibv_qp *qp, milliseconds limit)
{
	std::optional<ibv_event_type> found;
	await_condition(
		[&] {
			return take_event(dev, [&](const ibv_async_event &event) {
				if (names_qp(event.event_type) && event.element.qp == qp)
					found = event.event_type;
				return found.has_value();
			});
		},
		limit);
	return found;
}

std::optional<ibv_event_type> await_cq_event(const Device &dev, ibv_cq *cq, milliseconds limit)
{
	std::optional<ibv_event_type> found;
	await_condition(
		[&] {
			return take_event(dev, [&](const ibv_async_event &event) {
				if (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq)
					found = event.event_type;
				return found.has_value();
			});
		},
		limit);
	return found;
}

std::optional<ibv_event_type> await_srq_event(const Device &dev, ibv_srq *srq, milliseconds limit)
{
	std::optional<ibv_event_type> found;
	await_condition(
		[&] {
			return take_event(dev, [&](const ibv_async_event &event) {
				if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
				    event.element.srq == srq)
					found = event.event_type;
				return found.has_value();
			});
		},
		limit);
	return found;
}

void drain_async(const Device &dev)
{
	bool any = true;
	while (any) {
		any = false;
		take_event(dev, [&](const ibv_async_event &) { return any = true; });
	}
}

testing::AssertionResult has_pattern(std::span<const std::byte> bytes, uint64_t seed,
				     uint64_t first)
{
	const std::optional<size_t> at = find_mismatch(bytes, seed, first);
	if (!at)
		return testing::AssertionSuccess();
	return testing::AssertionFailure()
	       << "byte " << *at << " of " << bytes.size() << " is 0x" << std::hex
	       << static_cast<int>(bytes[*at]) << " (pattern seed 0x" << seed << ")";
}

const char *op_name(ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_SEND:
		return "Send";
	case IBV_WR_SEND_WITH_IMM:
		return "SendImm";
	case IBV_WR_RDMA_WRITE:
		return "Write";
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WriteImm";
	case IBV_WR_RDMA_READ:
		return "Read";
	default:
		return "Other";
	}
}

bool takes_recv(ibv_wr_opcode op)
{
	return op == IBV_WR_SEND || op == IBV_WR_SEND_WITH_IMM || op == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_atomic(ibv_wr_opcode op)
{
	return op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

bool is_rdma(ibv_wr_opcode op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       op == IBV_WR_RDMA_READ;
}

namespace
{

ibv_wc_opcode send_wc_opcode(ibv_wr_opcode op)
{
	if (op == IBV_WR_RDMA_READ)
		return IBV_WC_RDMA_READ;
	return is_rdma(op) ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
}

void check_recv(const Pair &pair, const Transfer &transfer, uint32_t imm)
{
	const ibv_wc wc = expect_wc(pair.b.rcq);
	const bool has_imm = transfer.op != IBV_WR_SEND;

	EXPECT_EQ(wc.wr_id, 7u);
	EXPECT_EQ(wc.qp_num, pair.b.qp->qp_num);
	EXPECT_EQ(wc.byte_len, transfer.length);
	EXPECT_EQ(wc.opcode, transfer.op == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM :
									 IBV_WC_RECV);
	EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, has_imm);
	if (has_imm) {
		EXPECT_EQ(ntohl(wc.imm_data), imm);
	}
}

} // namespace

void run_transfer(const Pair &pair, const Region &local, const Region &remote,
		  const Transfer &transfer)
{
	static uint64_t counter = 0;
	const uint64_t source_seed = options().seed * 1000003 + ++counter;
	const uint64_t sink_seed = ~source_seed;
	const uint32_t imm = static_cast<uint32_t>(source_seed * 2654435761u);
	const bool reads = transfer.op == IBV_WR_RDMA_READ;
	const Region &source = reads ? remote : local;
	const Region &sink = reads ? local : remote;
	const size_t source_offset = reads ? transfer.remote_offset : transfer.local_offset;
	const size_t sink_offset = reads ? transfer.local_offset : transfer.remote_offset;

	SCOPED_TRACE(testing::Message()
		     << op_name(transfer.op) << " of " << transfer.length << " bytes from offset "
		     << source_offset << " to " << sink_offset << ", seed " << options().seed);
	source.fill(source_seed);
	sink.fill(sink_seed);
	if (takes_recv(transfer.op)) {
		const bool places = !is_rdma(transfer.op);
		ASSERT_EQ(post_recv(pair.b,
				    places ? std::vector{remote.sge(transfer.remote_offset,
								    transfer.length)} :
					     std::vector<ibv_sge>{},
				    7),
			  0);
	}
	ASSERT_EQ(post(pair.a, {.op = transfer.op,
				.sges = {local.sge(transfer.local_offset, transfer.length)},
				.wr_id = 5,
				.remote_addr = remote.address(transfer.remote_offset),
				.rkey = remote.mr->rkey,
				.imm = imm}),
		  0);
	const ibv_wc wc = expect_wc(pair.a.scq);
	EXPECT_EQ(wc.wr_id, 5u);
	EXPECT_EQ(wc.opcode, send_wc_opcode(transfer.op));
	EXPECT_EQ(wc.qp_num, pair.a.qp->qp_num);
	if (takes_recv(transfer.op))
		check_recv(pair, transfer, imm);
	const size_t end = sink_offset + transfer.length;
	EXPECT_TRUE(
		has_pattern(sink.bytes(sink_offset, transfer.length), source_seed, source_offset))
		<< "data";
	EXPECT_TRUE(has_pattern(sink.bytes(0, sink_offset), sink_seed)) << "before the data";
	EXPECT_TRUE(has_pattern(sink.bytes(end, sink.memory.size() - end), sink_seed, end))
		<< "after the data";
}

void VerbsTest::SetUp()
{
	const testing::TestInfo *info = testing::UnitTest::GetInstance()->current_test_info();
	seed_ = options().seed ^
		std::hash<std::string>()(std::string(info->test_suite_name()) + info->name());
	drain_async(device());
	if (!same_device())
		drain_async(peer());
}

Pair VerbsTest::make_pair(const EndOptions &a, const EndOptions &b, const Link &link)
{
	Pair pair;
	pair.link = link;
	pair.a = End::create(device(), a);
	EXPECT_NE(pair.a.qp, nullptr) << std::strerror(errno);
	pair.b = End::create(peer(), b);
	EXPECT_NE(pair.b.qp, nullptr) << std::strerror(errno);
	if (!pair.a.qp || !pair.b.qp)
		throw std::runtime_error("no queue pair to test with");
	pair.connect();
	return pair;
}

Pair VerbsTest::make_pair(const EndOptions &options, const Link &link)
{
	return make_pair(options, options, link);
}

ibv_qp_ex *VerbsTest::use_builder(Pair &pair, uint64_t send_ops)
{
	ibv_qp_init_attr_ex init = {};

	init.send_cq = pair.a.scq;
	init.recv_cq = pair.a.rcq;
	init.cap = {.max_send_wr = 8,
		    .max_recv_wr = 1,
		    .max_send_sge = 1,
		    .max_recv_sge = 1,
		    .max_inline_data = 0};
	init.qp_type = IBV_QPT_RC;
	init.pd = pair.a.pd;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.send_ops_flags = send_ops;
	pair.a.qp.reset(ibv_create_qp_ex(device().context.get(), &init));
	if (!pair.a.qp)
		return nullptr;
	pair.reset();
	pair.connect();
	return ibv_qp_to_qp_ex(pair.a.qp.get());
}

} // namespace verbs
