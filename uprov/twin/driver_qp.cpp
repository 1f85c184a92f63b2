/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * QPs. The application's memory contains their rings, and the tables of the driver core say how to
 * modify them. A modify that fails changes nothing.
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

/* The device reads and writes the context at its process address while a command runs. */
struct alignas(SIRDMA_QP_CTX_ALIGN) QpContext : sirdma_qp_ctx {
	u64 addr() const noexcept { return reinterpret_cast<u64>(this); }
};

int reject(const sirdma_qp_modify &mod, int err) noexcept
{
	port_warn("modify_qp %u: %s %s", mod.qpn, mod.bad, mod.why);
	return err;
}

} // namespace

DriverQp *Driver::find_qp(uint32_t qpn) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = qps_.find(qpn);

	return it == qps_.end() ? nullptr : it->second.get();
}

uint32_t &Driver::users_of(const DriverQp &qp) noexcept
{
	return qp.type == SIRDMA_QPT_XRC_TGT ? xrcds_[qp.xrcd].users : pds_[qp.pd].users;
}

int Driver::make_qp(ibv_qp *ibqp, std::unique_ptr<DriverQp> qp, sirdma_qp_create &create)
{
	QpContext ctx{};
	u32 qpn = 0;

	if (const int err = sirdma_idpool_get(&hw_.qp_ids, &qpn))
		return -err;
	qp->id = qpn;
	qp->cookie = sirdma_idpool_cookie(&hw_.qp_ids, qpn);
	qp->qp = ibqp;
	qp->async = async(ibqp->context);
	create.cookie = qp->cookie;
	sirdma_qp_create_to_ctx(&create, &ctx);
	{
		std::unique_lock hold(objects_lock_);
		uint32_t &users = users_of(*qp);

		if (!insert(qps_, qpn, std::move(qp))) {
			hold.unlock();
			sirdma_idpool_put(&hw_.qp_ids, qpn);
			return ENOMEM;
		}
		++users;
	}
	if (const int err = sirdma_cqp_create_qp(&hw_, qpn, ctx.addr())) {
		{
			std::lock_guard hold(objects_lock_);
			--users_of(*qps_[qpn]);
			qps_.erase(qpn);
		}
		sirdma_idpool_put(&hw_.qp_ids, qpn);
		return -err;
	}
	ibqp->qp_num = qpn;
	ibqp->handle = qpn;
	return 0;
}

int Driver::create_qp(ibv_qp *ibqp, uint32_t pd, const QpRings &rings, const ibv_qp_cap &cap,
		      bool sig_all)
{
	Settle settle(nic_);
	std::unique_ptr<DriverQp> qp(new (std::nothrow) DriverQp);
	const int type = sirdma_qp_type_from_verbs(ibqp->qp_type);

	if (type < 0 || (ibqp->srq && !sirdma_qp_may_share_rq(type)))
		return EOPNOTSUPP;
	if (!qp)
		return ENOMEM;
	qp->cap = cap;
	qp->sig_all = sig_all;
	qp->type = static_cast<sirdma_qp_type>(type);
	qp->pd = pd;

	sirdma_qp_create create{};

	create.type = qp->type;
	create.sig_all = sig_all;
	create.rq_shift = static_cast<u8>(rings.rq_shift);
	create.sq.addr = reinterpret_cast<u64>(rings.sq);
	create.sq.quanta = rings.sq_quanta;
	create.rq.addr = reinterpret_cast<u64>(rings.rq);
	create.rq.quanta = rings.rq_quanta;
	create.shadow = reinterpret_cast<u64>(rings.shadow);
	create.compl_ctx = rings.compl_ctx;
	create.send_cq = ibqp->send_cq->handle;
	/* An XRC initiator receives nothing. */
	create.recv_cq = (ibqp->recv_cq ? ibqp->recv_cq : ibqp->send_cq)->handle;
	create.srq = ibqp->srq ? ibqp->srq->handle : 0;
	create.pd = pd;
	return make_qp(ibqp, std::move(qp), create);
}

int Driver::create_target(ibv_qp *ibqp, uint32_t xrcd)
{
	Settle settle(nic_);
	std::unique_ptr<DriverQp> qp(new (std::nothrow) DriverQp);
	sirdma_qp_create create{};

	if (!qp)
		return ENOMEM;
	qp->type = create.type = SIRDMA_QPT_XRC_TGT;
	qp->xrcd = xrcd;
	{
		std::lock_guard hold(objects_lock_);
		create.xrcd = xrcds_[xrcd].number;
	}
	return make_qp(ibqp, std::move(qp), create);
}

int Driver::destroy_qp(uint32_t qpn, uint32_t &async) noexcept
{
	Settle settle(nic_);
	std::unique_ptr<DriverQp> qp;

	if (!find_qp(qpn))
		return ENOENT;
	if (is_attached(qpn))
		return EBUSY;
	nic_.close_qp(qpn);
	/* The device stops and drains the QP before it completes the command. */
	if (const int err = sirdma_cqp_destroy_qp(&hw_, qpn)) {
		open_qp(qpn);
		return -err;
	}
	{
		std::lock_guard hold(objects_lock_);
		auto node = qps_.extract(qpn);

		if (node.empty())
			return ENOENT;
		qp = std::move(node.mapped());
		--users_of(*qp);
	}
	qp->async->retract(qp->qp);
	async = qp->async_reported;
	sirdma_idpool_put(&hw_.qp_ids, qpn);
	return 0;
}

/*
 * Peers may access memory without the device by a queue pair in RTS that has not failed. Call this after
 * Adapter::close_qp().
 */
void Driver::open_qp(uint32_t qpn) noexcept
{
	QpContext ctx{};

	if (sirdma_cqp_upload_ctx(&hw_, qpn, ctx.addr()) || ctx.qp_type != SIRDMA_QPT_RC ||
	    ctx.state != SIRDMA_QPS_RTS)
		return;

	const u32 rights = le32_to_cpu(ctx.access);
	constexpr u32 answered = SIRDMA_ACCESS_REMOTE_READ | SIRDMA_ACCESS_REMOTE_ATOMIC;

	/* A responder that may not owe any answer refuses READs and atomics. */
	nic_.open_qp(qpn, le32_to_cpu(ctx.pd), ctx.ird ? rights : rights & ~answered);
}

int Driver::modify_qp(uint32_t qpn, const ibv_qp_attr &attr, uint32_t mask) noexcept
{
	const int unreachable = mask & IBV_QP_AV ? resolve(attr.ah_attr) : 0;
	Settle settle(nic_);
	DriverQp *qp = find_qp(qpn);
	sirdma_qp_modify mod{};
	QpContext ctx{};

	if (!qp)
		return ENOENT;
	if (mask & IBV_QP_AV && attr.ah_attr.grh.traffic_class & SIRDMA_ECN_MASK)
		nic_.need_headers();
	mod.type = qp->type;
	mod.qpn = qpn;
	mod.mask = mask;
	mod.port_mtu = port_mtu();
	mod.path = path_of(attr.ah_attr);
	SIRDMA_QP_MODIFY_FROM_VERBS(&mod, &attr);
	std::lock_guard hold(qp->lock);

	if (const int err = sirdma_qp_modify_read(&hw_, &mod, &ctx, ctx.addr()))
		return -err;
	if (const int err = sirdma_qp_modify_check(&hw_.caps, &mod))
		return reject(mod, -err);
	if (mask & IBV_QP_AV)
		if (const int err = check_route(attr.ah_attr, mod.why)) {
			mod.bad = sirdma_qp_attr_name(SIRDMA_QP_AV);
			return reject(mod, err);
		}
	if (unreachable)
		return unreachable;
	nic_.close_qp(qpn);

	const int err = sirdma_qp_modify_execute(&hw_, &mod, &ctx, ctx.addr());

	if (!(mask & IBV_QP_STATE) || attr.qp_state == IBV_QPS_RTS)
		open_qp(qpn);
	if (err)
		return mod.bad ? reject(mod, -err) : -err;
	if (mask & IBV_QP_PATH_MTU)
		qp->path_mtu = attr.path_mtu;
	if (mask & IBV_QP_AV)
		qp->av = attr.ah_attr;
	return 0;
}

int Driver::query_qp(uint32_t qpn, ibv_qp_attr &attr, ibv_qp_init_attr &init) noexcept
{
	Settle settle(nic_);
	DriverQp *qp = find_qp(qpn);
	QpContext ctx{};

	if (!qp)
		return ENOENT;
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
	init.srq = qp->qp->srq;
	init.cap = qp->cap;
	init.qp_type = qp->qp->qp_type;
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
