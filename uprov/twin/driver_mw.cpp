/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory windows. Work requests bind them, which is between the application and the device. */
#include <cerrno>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

int Driver::alloc_mw(uint32_t pd, ibv_mw_type type, uint32_t &stag)
{
	Settle settle(nic_);
	sirdma_cqp_alloc_mw_params params{};

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return EINVAL;
	if (const int err = sirdma_stag_alloc(&hw_, &params.stag))
		return -err;
	params.pd = pd;
	params.type1 = type == IBV_MW_TYPE_1;
	if (const int err = sirdma_cqp_alloc_mw(&hw_, &params)) {
		sirdma_stag_free(&hw_, params.stag);
		return -err;
	}
	{
		std::lock_guard hold(objects_lock_);

		if (insert(mws_, params.stag, pd)) {
			++pds_[pd].users;
			stag = params.stag;
			return 0;
		}
	}
	if (!sirdma_cqp_dealloc_mw(&hw_, params.stag))
		sirdma_stag_free(&hw_, params.stag);
	return ENOMEM;
}

int Driver::dealloc_mw(uint32_t stag) noexcept
{
	Settle settle(nic_);

	{
		std::lock_guard hold(objects_lock_);
		if (!mws_.contains(stag))
			return ENOENT;
	}
	if (const int err = sirdma_cqp_dealloc_mw(&hw_, stag))
		return -err;
	{
		std::lock_guard hold(objects_lock_);
		const auto node = mws_.extract(stag);

		if (!node.empty())
			--pds_[node.mapped()].users;
	}
	sirdma_stag_free(&hw_, stag);
	return 0;
}

} // namespace sirdma::twin
