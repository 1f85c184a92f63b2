/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Destinations: of connected queue pairs, and address handles. */
#include <cerrno>
#include <cstring>

#include "driver.hpp"
#include "icrc.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

sirdma_path Driver::path_of(const ibv_ah_attr &ah) noexcept
{
	sirdma_path path{};

	memcpy(path.dst_ip.b, ah.grh.dgid.raw, sizeof(path.dst_ip.b));
	path.flow_label = ah.grh.flow_label;
	path.hop_limit = ah.grh.hop_limit;
	path.traffic_class = ah.grh.traffic_class;
	path.port_num = ah.port_num;
	path.sl = ah.sl;
	path.has_grh = ah.is_global;
	return path;
}

/* Check the path against the one address of this process. */
int Driver::check_route(const ibv_ah_attr &ah, const char *&why) const noexcept
{
	const sirdma_ip dst = path_of(ah).dst_ip;

	if (ah.grh.sgid_index >= gid_table_len) {
		why = "has a GID index beyond the table";
		return EINVAL;
	}
	if (ah.grh.sgid_index) {
		why = "names an empty GID table entry";
		return ENODATA;
	}
	if (sirdma_ip_is_v4(&dst) != nic_.addr().is_v4()) {
		why = "leads to an address of the other IP version";
		return EHOSTUNREACH;
	}
	return 0;
}

/* As in the kernel's RDMA core, wait for the neighbour. No lock is held. */
int Driver::resolve(const ibv_ah_attr &ah) noexcept
{
	const NoCancel no_cancel;
	const char *why;

	/* The checks that follow name the fault of such an address. */
	if (!ah.is_global || check_route(ah, why))
		return 0;

	const int err = nic_.resolve(IpAddress(path_of(ah).dst_ip));

	if (err)
		port_warn("the destination cannot be reached: errno %d", err);
	return err;
}

int Driver::create_ah(uint32_t pd, const ibv_ah_attr &attr, uint32_t &index)
{
	const int unreachable = resolve(attr);
	Settle settle(nic_);
	sirdma_av_params params{};
	u32 idx = 0;

	params.path = path_of(attr);
	params.pd = pd;
	memcpy(params.mac, peer_mac, sizeof(params.mac));

	const char *why = sirdma_path_refusal(&params.path);
	int err = why ? EINVAL : check_route(attr, why);

	if (err) {
		port_warn("create_ah: the address %s", why);
		return err;
	}
	if (unreachable)
		return unreachable;
	/*
	 * The device belongs to this process alone, so its one user may have all vectors. The
	 * kernel's driver leaves some to other users (sirdma_av_is_fair()).
	 */
	err = -sirdma_av_create(&hw_, &params, SIRDMA_AV_USER, &idx);
	if (err == ENOMEM)
		port_warn("create_ah: no address vector is left of %u", sirdma_av_user_limit(&hw_));
	if (err)
		return err;
	{
		std::lock_guard hold(objects_lock_);

		if (insert(ahs_, idx, pd)) {
			++pds_[pd].users;
			index = idx;
			return 0;
		}
	}
	sirdma_av_destroy(&hw_, idx);
	return ENOMEM;
}

int Driver::destroy_ah(uint32_t index) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = ahs_.find(index);

	if (it == ahs_.end())
		return ENOENT;
	sirdma_av_destroy(&hw_, index);
	--pds_[it->second].users;
	ahs_.erase(it);
	return 0;
}

} // namespace sirdma::twin
