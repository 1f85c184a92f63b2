/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queue pairs: created over rings in the application's memory, modified by the
 * driver core's tables. A modify that fails changes nothing.
 */
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>
#include <vector>

#include <sirdma/roce.h>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

namespace
{

constexpr uint8_t default_hop_limit = 64;
constexpr uint32_t standard_mask = (IBV_QP_DEST_QPN << 1) - 1;
constexpr unsigned access_supported = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				      IBV_ACCESS_REMOTE_WRITE;
constexpr uint8_t sl_max = 7;

/* The device reads and writes it at its process address, while the command runs. */
struct alignas(SIRDMA_QP_CTX_ALIGN) QpContext : sirdma_qp_ctx {
	u64 addr() const noexcept { return reinterpret_cast<u64>(this); }
};

int reject(uint32_t qpn, uint32_t bit, const char *why, int err) noexcept
{
	port_warn("modify_qp %u: %s %s", qpn, sirdma_qp_attr_name(bit & -bit), why);
	return err;
}

/* An enumeration of the application's, which may hold any number: read as one. */
template <typename Enum> uint32_t number(const Enum &value) noexcept
{
	uint32_t out;

	static_assert(sizeof(value) == sizeof(out));
	memcpy(&out, &value, sizeof(out));
	return out;
}

sirdma_qp_attr to_core(const ibv_qp_attr &attr, sirdma_qp_state next) noexcept
{
	sirdma_qp_attr core{};

	SIRDMA_QP_ATTR_FROM_VERBS(&core, &attr);
	core.next = next;
	core.pkey = SIRDMA_DEFAULT_PKEY;
	core.path_mtu = sirdma_path_mtu_bytes(number(attr.path_mtu));
	return core;
}

bool is_v4_mapped(const ibv_gid &gid) noexcept
{
	static constexpr uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return !memcmp(gid.raw, prefix, sizeof(prefix));
}

/* The destination of nobody, in either IP version. */
bool is_unspecified(const ibv_gid &gid) noexcept
{
	const ibv_gid none{};
	const size_t from = is_v4_mapped(gid) ? 12 : 0;

	return !memcmp(gid.raw + from, none.raw + from, sizeof(none.raw) - from);
}

} // namespace

/* One modify on its way. */
struct Driver::Modify {
	DriverQp &qp;
	const ibv_qp_attr &attr;
	const uint32_t mask;
	sirdma_qp_state cur{};
	sirdma_qp_state next{};
	uint32_t dest_qpn = 0; /* now */
	sirdma_qp_attr core{};
};

DriverQp *Driver::find_qp(uint32_t qpn) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = qps_.find(qpn);

	return it == qps_.end() ? nullptr : it->second.get();
}

int Driver::create_qp(ibv_qp *ibqp, uint32_t pd, const QpRings &rings, const ibv_qp_cap &cap,
		      bool sig_all)
{
	Settle settle(nic_);
	std::unique_ptr<DriverQp> qp(new (std::nothrow) DriverQp);
	QpContext ctx{};
	u32 qpn = 0;

	if (!qp)
		return ENOMEM;
	if (const int err = sirdma_idpool_get(&hw_.qp_ids, &qpn))
		return -err;
	qp->id = qpn;
	qp->qp = ibqp;
	qp->async = async(ibqp->context);
	qp->cap = cap;
	qp->sig_all = sig_all;
	qp->pd = pd;

	ctx.compl_ctx = rings.compl_ctx;
	ctx.sq_addr = reinterpret_cast<u64>(rings.sq);
	ctx.rq_addr = reinterpret_cast<u64>(rings.rq);
	ctx.shadow_addr = reinterpret_cast<u64>(rings.shadow);
	ctx.sq_quanta = rings.sq_quanta;
	ctx.rq_wqes = rings.rq_wqes;
	ctx.rq_stride_shift = static_cast<u8>(rings.rq_shift);
	ctx.send_cq = ibqp->send_cq->handle;
	ctx.recv_cq = ibqp->recv_cq->handle;
	ctx.pd = pd;
	ctx.qp_type = SIRDMA_QPT_RC;
	ctx.queue_flags = SIRDMA_QPC_KICK | (sig_all ? SIRDMA_QPC_SIG_ALL : 0);
	{
		std::unique_lock hold(objects_lock_);

		if (!insert(qps_, qpn, std::move(qp))) {
			hold.unlock();
			sirdma_idpool_put(&hw_.qp_ids, qpn);
			return ENOMEM;
		}
		++pds_[pd].users;
	}
	if (const int err = sirdma_cqp_create_qp(&hw_, qpn, ctx.addr())) {
		{
			std::lock_guard hold(objects_lock_);
			qps_.erase(qpn);
			--pds_[pd].users;
		}
		sirdma_idpool_put(&hw_.qp_ids, qpn);
		return -err;
	}
	ibqp->qp_num = qpn;
	ibqp->handle = qpn;
	return 0;
}

int Driver::destroy_qp(uint32_t qpn, uint32_t &async) noexcept
{
	Settle settle(nic_);
	std::unique_ptr<DriverQp> qp;

	/* The device stops and drains the QP before it answers. */
	if (const int err = sirdma_cqp_destroy_qp(&hw_, qpn))
		return -err;
	{
		std::lock_guard hold(objects_lock_);
		auto node = qps_.extract(qpn);

		if (node.empty())
			return EINVAL;
		qp = std::move(node.mapped());
		--pds_[qp->pd].users;
	}
	qp->async->retract(qp->qp);
	async = qp->async_reported;
	sirdma_idpool_put(&hw_.qp_ids, qpn);
	return 0;
}

/* Everything but the path. */
int Driver::check_modify(Modify &m) noexcept
{
	const uint32_t qpn = m.qp.id;
	u32 bad = 0;

	if (m.mask & IBV_QP_CUR_STATE && number(m.attr.cur_qp_state) != m.cur)
		return reject(qpn, IBV_QP_CUR_STATE, "is another one", EINVAL);
	if (sirdma_qp_check_transition(SIRDMA_QPT_RC, m.cur, m.next, m.mask, &bad)) {
		if (!bad)
			port_warn("modify_qp %u: no transition from %s to %s", qpn,
				  sirdma_qp_state_name(m.cur), sirdma_qp_state_name(m.next));
		else
			reject(qpn, bad, bad & m.mask ? "is not allowed here" : "is missing", 0);
		return EINVAL;
	}
	if (m.mask & ~standard_mask)
		return reject(qpn, m.mask & ~standard_mask, "is not supported", EOPNOTSUPP);
	if (m.mask & (IBV_QP_ALT_PATH | IBV_QP_CAP))
		return reject(qpn, m.mask & (IBV_QP_ALT_PATH | IBV_QP_CAP), "is not supported",
			      EOPNOTSUPP);
	if (m.mask & IBV_QP_PATH_MIG_STATE && number(m.attr.path_mig_state) != IBV_MIG_MIGRATED)
		return reject(qpn, IBV_QP_PATH_MIG_STATE, "is not supported", EOPNOTSUPP);
	if (m.mask & IBV_QP_PORT && m.attr.port_num != 1)
		return reject(qpn, IBV_QP_PORT, "is not 1", EINVAL);
	if (m.mask & IBV_QP_PKEY_INDEX && m.attr.pkey_index)
		return reject(qpn, IBV_QP_PKEY_INDEX, "is not 0", EINVAL);
	if (m.mask & IBV_QP_ACCESS_FLAGS && m.attr.qp_access_flags & ~access_supported)
		return reject(qpn, IBV_QP_ACCESS_FLAGS, "is not supported", EOPNOTSUPP);
	if (m.mask & IBV_QP_PATH_MTU && number(m.attr.path_mtu) > port_mtu())
		return reject(qpn, IBV_QP_PATH_MTU, "does not fit the port", EINVAL);
	m.core = to_core(m.attr, m.next);
	if (sirdma_qp_check_attr(&m.core, m.mask & ~IBV_QP_AV, hw_.caps.max_ord, hw_.caps.max_ird,
				 &bad))
		return reject(qpn, bad, "is out of range", EINVAL);
	return m.mask & IBV_QP_AV ? check_path(m) : 0;
}

int Driver::check_path(Modify &m) noexcept
{
	const ibv_ah_attr &ah = m.attr.ah_attr;
	const uint32_t dest = m.mask & IBV_QP_DEST_QPN ? m.attr.dest_qp_num : m.dest_qpn;
	u32 bad = 0;

	if (ah.port_num != 1 || !ah.is_global || ah.sl > sl_max ||
	    ah.grh.sgid_index >= gid_table_len)
		return reject(m.qp.id, IBV_QP_AV, "needs port 1 and GID index 0", EINVAL);
	if (ah.grh.sgid_index)
		return reject(m.qp.id, IBV_QP_AV, "names an empty GID table entry", ENODATA);
	if (is_unspecified(ah.grh.dgid))
		return reject(m.qp.id, IBV_QP_AV, "has no destination", EINVAL);
	if (is_v4_mapped(ah.grh.dgid) != nic_.addr().is_v4())
		return reject(m.qp.id, IBV_QP_AV, "leads to an address of the other IP version",
			      EHOSTUNREACH);
	memcpy(m.core.dst_ip.b, ah.grh.dgid.raw, sizeof(m.core.dst_ip.b));
	m.core.flow_label = ah.grh.flow_label;
	m.core.udp_sport = sirdma_udp_sport(ah.grh.flow_label, m.qp.id, dest);
	/* Chosen by the route, as the kernel does it for RoCE: 0 is not one of an IP packet. */
	m.core.hop_limit = ah.grh.hop_limit ? ah.grh.hop_limit : default_hop_limit;
	m.core.traffic_class = ah.grh.traffic_class;
	m.core.vlan_prio = ah.sl;
	if (sirdma_qp_check_attr(&m.core, IBV_QP_AV, hw_.caps.max_ord, hw_.caps.max_ird, &bad))
		return reject(m.qp.id, IBV_QP_AV, "is out of range", EINVAL);
	return 0;
}

int Driver::run_modify(Modify &m) noexcept
{
	sirdma_cqp_modify_qp_params params{};
	QpContext ctx{};

	sirdma_qp_attr_to_ctx(&m.core, m.mask, &ctx);
	params.qpn = m.qp.id;
	params.ctx_pa = ctx.addr();
	params.cur = m.cur;
	params.next = m.next;
	params.check_cur = true;
	if (const int err = sirdma_cqp_modify_qp(&hw_, &params))
		return -err;
	if (m.mask & IBV_QP_PATH_MTU)
		m.qp.path_mtu = m.attr.path_mtu;
	if (m.mask & IBV_QP_AV)
		m.qp.av = m.attr.ah_attr;
	return 0;
}

int Driver::modify_qp(uint32_t qpn, const ibv_qp_attr &attr, uint32_t mask) noexcept
{
	Settle settle(nic_);
	DriverQp *qp = find_qp(qpn);
	QpContext now{};

	if (!qp)
		return EINVAL;
	std::lock_guard hold(qp->lock);

	/* The device may have moved it to SQE or ERR by itself. */
	if (const int err = sirdma_cqp_upload_ctx(&hw_, qpn, now.addr()))
		return -err;

	Modify m = {.qp = *qp, .attr = attr, .mask = mask};

	m.cur = static_cast<sirdma_qp_state>(now.state);
	if (mask & IBV_QP_STATE && number(attr.qp_state) > IBV_QPS_ERR)
		return reject(qpn, IBV_QP_STATE, "is unknown", EINVAL);
	m.next = mask & IBV_QP_STATE ? static_cast<sirdma_qp_state>(attr.qp_state) : m.cur;
	m.dest_qpn = now.dest_qpn;
	if (const int err = check_modify(m))
		return err;
	return run_modify(m);
}

int Driver::query_qp(uint32_t qpn, ibv_qp_attr &attr, ibv_qp_init_attr &init) noexcept
{
	Settle settle(nic_);
	DriverQp *qp = find_qp(qpn);
	QpContext ctx{};

	if (!qp)
		return EINVAL;
	std::lock_guard hold(qp->lock);

	if (const int err = sirdma_cqp_upload_ctx(&hw_, qpn, ctx.addr()))
		return -err;
	attr = {};
	attr.qp_state = attr.cur_qp_state = static_cast<ibv_qp_state>(ctx.state);
	attr.path_mtu = qp->path_mtu;
	attr.path_mig_state = IBV_MIG_MIGRATED;
	SIRDMA_QP_CTX_TO_VERBS(&attr, &ctx);
	attr.cap = qp->cap;
	attr.ah_attr = qp->av;
	attr.port_num = 1;

	init = {};
	init.qp_context = qp->qp->qp_context;
	init.send_cq = qp->qp->send_cq;
	init.recv_cq = qp->qp->recv_cq;
	init.cap = qp->cap;
	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = qp->sig_all;
	return 0;
}

void Driver::print_qps(const char *device) noexcept
{
	static constexpr struct {
		uint64_t bit;
		const char *name;
	} activities[] = {
		{SIRDMA_QPC_TIMER_RUNS, " timer"},  {SIRDMA_QPC_RNR_WAIT, " rnr"},
		{SIRDMA_QPC_TX_STALLED, " host"},   {SIRDMA_QPC_RUN_PENDING, " run"},
		{SIRDMA_QPC_RESP_PENDING, " owes"}, {SIRDMA_QPC_SQ_ASLEEP, " kick"},
	};
	std::vector<uint32_t> qpns;

	try {
		std::lock_guard hold(objects_lock_);
		for (const auto &entry : qps_)
			qpns.push_back(entry.first);
	} catch (const std::bad_alloc &) {
		fprintf(stderr, "sirdma: %d: %s: no memory to list its QPs\n", getpid(), device);
		return;
	}
	for (const uint32_t qpn : qpns) {
		QpContext ctx{};

		if (sirdma_cqp_upload_ctx(&hw_, qpn, ctx.addr()))
			continue;
		fprintf(stderr,
			"sirdma: %d: %s QP %u to %u: %s, unacknowledged from PSN %u to %u, next "
			"%u; "
			"expects %u, MSN %u; retries left %u, RNR retries left %u; busy with:",
			getpid(), device, qpn, ctx.dest_qpn, sirdma_qp_state_name(ctx.state),
			ctx.sq_una, ctx.sq_max, ctx.sq_psn, ctx.rq_psn, ctx.rq_msn, ctx.retry_left,
			ctx.rnr_left);
		for (const auto &active : activities)
			fputs(ctx.activity & active.bit ? active.name : "", stderr);
		fputc('\n', stderr);
	}
}

} // namespace sirdma::twin
