/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Shared receive queues over rings in the application's memory. */
#include <cerrno>
#include <new>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

int Driver::create_srq(ibv_srq *ibsrq, uint32_t pd, const SrqRing &ring)
{
	Settle settle(nic_);
	std::unique_ptr<DriverSrq> srq(new (std::nothrow) DriverSrq);
	sirdma_cqp_srq_params params{};
	u32 id = 0;

	if (!hw_.srq_ids.limit)
		return EOPNOTSUPP;
	if (!srq)
		return ENOMEM;
	if (const int err = sirdma_idpool_get(&hw_.srq_ids, &id))
		return -err;
	srq->cookie = sirdma_idpool_cookie(&hw_.srq_ids, id);
	srq->srq = ibsrq;
	srq->async = async(ibsrq->context);
	srq->pd = pd;
	srq->xrcd = ring.xrcd;
	srq->max_wr = ring.max_wr;
	srq->max_sge = ring.max_sge;
	params.srq_id = id;
	params.cookie = srq->cookie;
	params.wqes = ring.count;
	params.stride_shift = ring.shift;
	params.pd = pd;
	params.pa = reinterpret_cast<u64>(ring.wqes);
	params.shadow_pa = reinterpret_cast<u64>(ring.shadow);
	{
		std::unique_lock hold(objects_lock_);

		if (!insert(srqs_, id, std::move(srq))) {
			hold.unlock();
			sirdma_idpool_put(&hw_.srq_ids, id);
			return ENOMEM;
		}
		++pds_[pd].users;
		if (ring.xrcd) {
			++xrcds_[ring.xrcd].users;
			params.xrc = true;
			params.xrcd = xrcds_[ring.xrcd].number;
			params.cq_id = ring.cq;
		}
	}
	if (const int err = sirdma_cqp_create_srq(&hw_, &params)) {
		{
			std::lock_guard hold(objects_lock_);
			srqs_.erase(id);
			--pds_[pd].users;
			if (ring.xrcd)
				--xrcds_[ring.xrcd].users;
		}
		sirdma_idpool_put(&hw_.srq_ids, id);
		return -err;
	}
	ibsrq->handle = id;
	return 0;
}

int Driver::modify_srq(uint32_t id, const ibv_srq_attr &attr, uint32_t mask) noexcept
{
	Settle settle(nic_);
	const char *why = nullptr;

	{
		std::lock_guard hold(objects_lock_);
		const auto it = srqs_.find(id);

		if (it == srqs_.end())
			return ENOENT;
		const uint32_t max_wr = it->second->max_wr;

		if (const int err = sirdma_srq_modify_check(mask, attr.srq_limit, max_wr, &why)) {
			port_warn("modify_srq %u: limit %u of %u WQEs: %s", id, attr.srq_limit,
				  max_wr, why);
			return -err;
		}
	}
	return mask & IBV_SRQ_LIMIT ? -sirdma_cqp_arm_srq(&hw_, id, attr.srq_limit) : 0;
}

int Driver::query_srq(uint32_t id, ibv_srq_attr &attr) noexcept
{
	Settle settle(nic_);
	u32 limit = 0;

	if (const int err = sirdma_cqp_query_srq(&hw_, id, &limit))
		return -err;
	std::lock_guard hold(objects_lock_);
	const auto it = srqs_.find(id);

	if (it == srqs_.end())
		return ENOENT;
	attr = {
		.max_wr = it->second->max_wr,
		.max_sge = it->second->max_sge,
		.srq_limit = limit,
	};
	return 0;
}

int Driver::destroy_srq(uint32_t id, uint32_t &async) noexcept
{
	Settle settle(nic_);
	std::unique_ptr<DriverSrq> srq;

	{
		std::lock_guard hold(objects_lock_);
		if (!srqs_.contains(id))
			return ENOENT;
	}
	if (const int err = sirdma_cqp_destroy_srq(&hw_, id))
		return -err;
	{
		std::lock_guard hold(objects_lock_);
		auto node = srqs_.extract(id);

		if (node.empty())
			return ENOENT;
		srq = std::move(node.mapped());
		--pds_[srq->pd].users;
		if (srq->xrcd)
			--xrcds_[srq->xrcd].users;
	}
	srq->async->retract(srq->srq);
	async = srq->async_reported;
	sirdma_idpool_put(&hw_.srq_ids, id);
	return 0;
}

} // namespace sirdma::twin
