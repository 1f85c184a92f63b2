/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast: the groups to which queue pairs are attached, and the groups that this host receives
 * for them.
 */
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "driver.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

/* The caller holds the lock of the attachments. */
int Driver::join(const sirdma_ip &ip, uint32_t qpn) noexcept
{
	bool first;
	int err = -sirdma_mcast_attach(&hw_, &ip, qpn, &first);

	if (err || !first)
		return err;
	err = nic_.join(IpAddress(ip));
	if (err)
		(void)leave(ip, qpn);
	return err;
}

/* The caller holds the lock of the attachments. */
int Driver::leave(const sirdma_ip &ip, uint32_t qpn) noexcept
{
	bool last;
	const int err = -sirdma_mcast_detach(&hw_, &ip, qpn, &last);

	if (last)
		nic_.leave(IpAddress(ip));
	return err;
}

int Driver::attach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid)
{
	Settle settle(nic_);
	const DriverQp *qp = find_qp(qpn);
	DriverAttachment wanted = {.qpn = qpn, .lid = lid, .ip = {}};

	memcpy(wanted.ip.b, gid.raw, sizeof(wanted.ip.b));
	if (!qp)
		return ENOENT;
	if (qp->type != SIRDMA_QPT_UD || !sirdma_ip_is_multicast(&wanted.ip))
		return EINVAL;

	std::lock_guard hold(attachments_lock_);

	if (std::find(attachments_.begin(), attachments_.end(), wanted) != attachments_.end())
		return 0;
	try {
		attachments_.push_back(wanted);
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	}

	const int err = join(wanted.ip, qpn);

	if (err) {
		attachments_.pop_back();
		port_warn("attach_mcast: QP %u to %s: %s", qpn, IpAddress(wanted.ip).text().c_str(),
			  strerror(err));
	}
	return err;
}

int Driver::detach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid) noexcept
{
	Settle settle(nic_);
	DriverAttachment given = {.qpn = qpn, .lid = lid, .ip = {}};

	memcpy(given.ip.b, gid.raw, sizeof(given.ip.b));

	std::lock_guard hold(attachments_lock_);
	const auto it = std::find(attachments_.begin(), attachments_.end(), given);

	if (it == attachments_.end())
		return EINVAL;
	attachments_.erase(it);
	return leave(given.ip, qpn);
}

bool Driver::is_attached(uint32_t qpn) noexcept
{
	std::lock_guard hold(attachments_lock_);

	return std::any_of(attachments_.begin(), attachments_.end(),
			   [=](const DriverAttachment &a) { return a.qpn == qpn; });
}

void Driver::detach_all(uint32_t qpn) noexcept
{
	Settle settle(nic_);
	std::lock_guard hold(attachments_lock_);

	for (const DriverAttachment &a : attachments_)
		if (a.qpn == qpn)
			(void)leave(a.ip, qpn);
	std::erase_if(attachments_, [=](const DriverAttachment &a) { return a.qpn == qpn; });
}

} // namespace sirdma::twin
