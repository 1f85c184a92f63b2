/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The operations of the shim for rdma_cm: see entry.hpp. */
#include "cm/entry.hpp"

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cm/service.hpp"
#include "no_cancel.hpp"

namespace sirdma::twin::cm
{

int open_channel() noexcept
{
	const NoCancel no_cancel;
	Service *service = Service::of_process();

	if (!service)
		return -1;

	const int file = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	if (file < 0)
		return -1;
	if (const int err = service->agent().open_channel(file)) {
		::close(file);
		errno = err;
		return -1;
	}
	return file;
}

void close_channel(int file) noexcept
{
	const NoCancel no_cancel;

	if (Service *service = Service::existing())
		service->agent().close_channel(file);
}

ssize_t command(int file, const void *bytes, size_t len) noexcept
{
	const NoCancel no_cancel;
	Service *service = Service::of_process();

	if (!service)
		return -ENOMEM;
	/* Do this without the agent's lock, which a device that fails to start takes as it ends. */
	Service::start_devices();
	return service->agent().command(file, bytes, len);
}

} // namespace sirdma::twin::cm
