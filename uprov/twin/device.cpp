/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "device.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#include "cm/service.hpp"
#include "cq.hpp"
#include "nic.hpp"
#include "no_cancel.hpp"
#include "qp.hpp"
#include "verbs.hpp"

namespace sirdma::twin
{

namespace
{

using StartPoll = int (*)(ibv_cq_ex *, ibv_poll_cq_attr *);

/* The provider's start_poll(), which is the same for every CQ. */
std::atomic<StartPoll> provider_start_poll{nullptr};

/*
 * In a child the calls of the data path do not touch queues of the parent. A thread of the
 * parent may have locked them, and no thread in the child would unlock them.
 */

int twin_poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc) noexcept
{
	const Instance &device = Instance::of(cq->context);

	if (device.inherited()) [[unlikely]]
		return 0;

	int n = poll_cq(cq, num_entries, wc);

	if (!n && device.nic->poll())
		n = poll_cq(cq, num_entries, wc);
	if (n)
		/* Of a failed request the opcode is unknown. */
		device.nic->found(std::any_of(wc, wc + std::max(n, 0), [](const ibv_wc &done) {
			return done.status != IBV_WC_SUCCESS || done.opcode & IBV_WC_RECV;
		}));
	return n;
}

int twin_start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr)
{
	const StartPoll start = provider_start_poll.load(std::memory_order_relaxed);
	const Instance &device = Instance::of(cq->context);

	if (device.inherited()) [[unlikely]]
		return ENOENT;

	int err = start(cq, attr);

	if (err == ENOENT && device.nic->poll())
		err = start(cq, attr);
	if (!err)
		device.nic->found(true);
	return err;
}

ibv_cq_ex *twin_create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept
{
	ibv_cq_ex *cq = create_cq_ex(context, attr);

	if (cq) {
		provider_start_poll.store(cq->start_poll, std::memory_order_relaxed);
		cq->start_poll = twin_start_poll;
	}
	return cq;
}

int twin_req_notify_cq(ibv_cq *cq, int solicited_only) noexcept
{
	const Instance &device = Instance::of(cq->context);

	if (device.inherited()) [[unlikely]]
		return 0;

	const int err = req_notify_cq(cq, solicited_only);

	device.nic->expect_event();
	return err;
}

void twin_cq_event(ibv_cq *cq) noexcept
{
	const Instance &device = Instance::of(cq->context);

	if (device.inherited())
		return;
	cq_event(cq);
	device.driver->cq_event_taken(cq);
}

void twin_async_event(ibv_context *context, ibv_async_event *) noexcept
{
	const NoCancel no_cancel;
	const Instance &device = Instance::of(context);

	if (device.inherited())
		return;
	if (AsyncQueue *queue = device.driver->async(context))
		queue->taken();
}

int twin_post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr) noexcept
{
	return Instance::of(qp->context).inherited() ? 0 : post_send(qp, wr, bad_wr);
}

int twin_post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept
{
	return Instance::of(qp->context).inherited() ? 0 : post_recv(qp, wr, bad_wr);
}

void twin_wr_start(ibv_qp_ex *qp) noexcept
{
	/* After an error nothing is posted until the next start. */
	if (Instance::of(qp->qp_base.context).inherited()) [[unlikely]]
		Qp::of(qp).queues().send.fail(ENODEV);
	else
		wr_start(qp);
}

int twin_wr_complete(ibv_qp_ex *qp) noexcept
{
	return Instance::of(qp->qp_base.context).inherited() ? 0 : wr_complete(qp);
}

void twin_wr_abort(ibv_qp_ex *qp) noexcept
{
	if (!Instance::of(qp->qp_base.context).inherited()) [[likely]]
		wr_abort(qp);
}

/* The posting calls have already checked that the device is not a parent's. */
void run_qp(void *nic, uint32_t qpn) noexcept
{
	static_cast<Adapter *>(nic)->run_qp(qpn);
}

ibv_qp *with_kick(ibv_qp *qp) noexcept
{
	if (!qp)
		return nullptr;

	Adapter &nic = *Instance::of(qp->context).nic;

	Qp::of(qp).queues().send.doorbell.kick_by_call(run_qp, &nic, qp->qp_num);
	if (qp->qp_type == IBV_QPT_UD)
		nic.need_headers();
	return qp;
}

ibv_qp *twin_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	return with_kick(create_qp(pd, attr));
}

ibv_qp *twin_create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept
{
	ibv_qp *qp = with_kick(create_qp_ex(context, attr));

	if (qp && Qp::of(qp).ex.wr_start) {
		Qp::of(qp).ex.wr_start = twin_wr_start;
		Qp::of(qp).ex.wr_complete = twin_wr_complete;
		Qp::of(qp).ex.wr_abort = twin_wr_abort;
	}
	return qp;
}

int twin_destroy_qp(ibv_qp *qp) noexcept
{
	if (!Instance::of(qp->context).inherited())
		return destroy_qp(qp);
	/* Its CQs are not polled any more, so their CQEs need not be removed. */
	delete &Qp::of(qp);
	return 0;
}

void twin_free_context(ibv_context *context) noexcept
{
	const NoCancel no_cancel;
	const Instance &device = Instance::of(context);

	if (!device.inherited())
		device.driver->close(context);
	free_context(context);
}

/* The operations that differ from those of a kernel device. */
constinit const Operations twin_context_ops = [] {
	Operations ops{};

	ops.async_event = twin_async_event;
	ops.cq_event = twin_cq_event;
	ops.create_cq_ex = twin_create_cq_ex;
	ops.create_qp = twin_create_qp;
	ops.create_qp_ex = twin_create_qp_ex;
	ops.destroy_qp = twin_destroy_qp;
	ops.free_context = twin_free_context;
	ops.poll_cq = twin_poll_cq;
	ops.post_recv = twin_post_recv;
	ops.post_send = twin_post_send;
	ops.req_notify_cq = twin_req_notify_cq;
	return ops;
}();

/* A file from which the provider can map a doorbell page, as from a kernel device. */
int doorbell_file() noexcept
{
	const int fd = memfd_create("sirdma-doorbell", MFD_CLOEXEC);

	if (fd < 0 || !ftruncate(fd, sizeof(sirdma_db_page)))
		return fd;
	const int err = errno;

	close(fd);
	errno = err;
	return -1;
}

/*
 * The library writes commands to a device's file. The twin's own commands do not use the file.
 * Any other command must fail, but a write to the memory file would succeed.
 */
void refuse_commands(ibv_context &context, int device_fd) noexcept
{
	const int fd = device_fd >= 0 ? device_fd : open("/dev/full", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup3(fd, context.cmd_fd, O_CLOEXEC);
	close(fd);
}

verbs_context *twin_alloc_context(ibv_device *device, int device_fd, void *) noexcept
{
	const NoCancel no_cancel;
	const int err = reinterpret_cast<Device *>(device)->start();
	const int fd = err ? -1 : doorbell_file();

	if (fd < 0) {
		const int reason = err ? err : errno;

		if (device_fd >= 0)
			close(device_fd);
		errno = reason;
		return nullptr;
	}

	ibv_context *context = open_device(device, fd, twin_commands);

	if (!context) {
		const int reason = errno;

		if (device_fd >= 0)
			close(device_fd);
		errno = reason;
		return nullptr;
	}
	refuse_commands(*context, device_fd);

	int reason = set_operations(context, twin_context_ops);

	if (!reason)
		reason = Instance::of(context).driver->open(context);
	if (reason) {
		free_context(context);
		errno = reason;
		return nullptr;
	}
	return library_context(context);
}

/* Match a device that the launcher wrote into the sysfs tree of the library. */
bool twin_match_device(verbs_sysfs_dev *dev) noexcept
{
	const NoCancel no_cancel;
	char path[sizeof(dev->ibdev_path) + sizeof("/hca_type")];
	char value[sizeof(hca_type)] = {};

	snprintf(path, sizeof(path), "%s/hca_type", dev->ibdev_path);

	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	const ssize_t n = read(fd, value, sizeof(value) - 1);
	close(fd);
	return n == static_cast<ssize_t>(sizeof(value) - 1) && !strcmp(value, hca_type);
}

verbs_device *twin_alloc_device(verbs_sysfs_dev *dev) noexcept
{
	const NoCancel no_cancel;
	const unsigned index = static_cast<unsigned>(
		strtoul(dev->ibdev_name + strcspn(dev->ibdev_name, "0123456789"), nullptr, 10));
	try {
		auto *device = new Device(Config::from_environment(index), index);

		count_at_exit(*device);
		return &device->provider.base;
	} catch (const std::bad_alloc &) {
		errno = ENOMEM;
		return nullptr;
	}
}

/* Devices exist as long as the process, since threads of the application may outlive main(). */
void twin_uninit_device(verbs_device *) noexcept {}

constexpr verbs_device_ops twin_device_ops = {
	.name = "sirdma-twin",
	.match_min_abi_version = SIRDMA_ABI_VERSION,
	.match_max_abi_version = SIRDMA_ABI_VERSION,
	.match_table = nullptr,
	.static_providers = nullptr,
	.match_device = twin_match_device,
	.alloc_context = twin_alloc_context,
	.import_context = nullptr,
	.alloc_device = twin_alloc_device,
	.uninit_device = twin_uninit_device,
};

/*
 * This is for the sysfs view, in which the library finds the devices and looks for their provider.
 */
__attribute__((constructor)) void register_provider() noexcept
{
	register_driver(twin_device_ops);
}

/* Optional access flags are hints that this device may ignore. */
constexpr uint64_t core_support_optional_mr_access = 1;

/* The devices of the process. */
struct Devices {
	/*
	 * Protects the members below: one thread at a time creates or starts a device. A child
	 * resets it.
	 */
	std::mutex lock;
	Device *listed[devices_max] = {};
	unsigned num_listed = 0; /* 0 until all devices are created */
	std::atomic<Device *> counted{nullptr}; /* a fork at any point finds it valid */
	bool at_exit = false;
};

static_assert(std::is_trivially_destructible_v<Devices>);
constinit Devices all_devices;

Devices &devices() noexcept
{
	/* In a child this must precede taking the lock and opening files. */
	(void)port_process();
	return all_devices;
}

/*
 * Do this at load time: if a thread did this at first use, a fork meanwhile would leave the child
 * waiting for that thread.
 */
__attribute__((constructor)) void hook_fork() noexcept
{
	port_on_fork([] { new (&all_devices.lock) std::mutex; });
}

void at_exit() noexcept
{
	cm::Service *service = cm::Service::existing();
	bool stats = false;

	/* What was received is acknowledged before the peers hear that their connections end. */
	for (Device *device = devices().counted; device; device = device->next_counted)
		device->acknowledge();
	/* Connections end, as those of the kernel do when the process ends. */
	if (service)
		service->agent().finish();
	for (Device *device = devices().counted; device; device = device->next_counted) {
		device->finish();
		stats = stats || device->config.stats;
	}
	if (service && stats)
		service->agent().print_counters();
}

/*
 * The caller holds the lock of @all. In a child, @device may be in the list although the parent did
 * not finish adding it.
 */
void count_locked(Devices &all, Device &device) noexcept
{
	for (const Device *known = all.counted; known; known = known->next_counted)
		if (known == &device)
			return;
	if (!all.at_exit)
		atexit(at_exit);
	all.at_exit = true;
	device.next_counted = all.counted;
	all.counted.store(&device, std::memory_order_release);
}

} // namespace

bool Device::owns(const ibv_context *context) noexcept
{
	return reinterpret_cast<const verbs_device *>(context->device)->ops == &twin_device_ops;
}

Device::Device(const Config &wanted, unsigned index) : provider{}, config(wanted)
{
	verbs_device &base = provider.base;

	provider.driver_id = SIRDMA_DRIVER_ID;
	base.ops = &twin_device_ops;
	base.refcount = 1;
	base.core_support = core_support_optional_mr_access;
	base.device.node_type = IBV_NODE_CA;
	base.device.transport_type = IBV_TRANSPORT_IB;
	snprintf(base.device.name, sizeof(base.device.name), "%s%u", device_name, index);
	snprintf(base.device.dev_name, sizeof(base.device.dev_name), "uverbs%u", index);
}

Device::~Device()
{
	const NoCancel no_cancel;

	delete instance();
}

std::unique_ptr<Device> Device::create(const Config &config, unsigned index)
{
	auto device = std::make_unique<Device>(config, index);

	if (const int err = device->start()) {
		errno = err;
		return nullptr;
	}
	return device;
}

/* The caller holds the lock. */
int Device::drive(std::unique_ptr<Adapter> adapter)
{
	if (!adapter)
		return errno;

	auto next = std::make_unique<Instance>();

	next->nic = std::move(adapter);
	next->driver = Driver::create(*next->nic);
	if (!next->driver)
		return errno;
	nic = next->nic.get();
	driver = next->driver.get();
	/* The parent's instance remains, because contexts refer to it. */
	instance_.store(next.release(), std::memory_order_release);
	return 0;
}

int Device::start_locked() noexcept
{
	if (instance())
		return 0;
	if (for_good_)
		return ENODEV;
	try {
		if (const int err = drive(Nic::create(config)))
			return err;
	} catch (const std::bad_alloc &) {
		return ENOMEM;
	}
	if (config.verbose) {
		fprintf(stderr, "sirdma: %d: %s at %s, UDP port %u, IP MTU %u\n", getpid(),
			verbs()->name, nic->addr().text().c_str(), SIRDMA_ROCE_UDP_PORT,
			nic->mtu());
	}
	return 0;
}

int Device::start()
{
	const NoCancel no_cancel;
	std::lock_guard hold(devices().lock);

	return start_locked();
}

void Device::acknowledge() noexcept
{
	if (instance())
		nic->settle_all();
}

void Device::finish() noexcept
{
	if (!instance())
		return;
	acknowledge();
	if (config.stats)
		print_stats();
}

int Device::start_on(std::unique_ptr<Adapter> adapter)
{
	std::lock_guard hold(devices().lock);
	const int err = drive(std::move(adapter));

	if (!err)
		for_good_ = true;
	return err;
}

void Device::print_stats() noexcept
{
	static constexpr const char *names[] = {
#define NAME(id, name) #name,
		SIRDMA_STATS(NAME)
#undef NAME
	};

	for (unsigned i = 0; i < SIRDMA_STAT_COUNT; ++i)
		if (const u64 n = nic->stat(static_cast<sirdma_stat>(i)))
			fprintf(stderr, "sirdma: %d: %s %-20s %llu\n", getpid(), verbs()->name,
				names[i], static_cast<unsigned long long>(n));
	driver->print_qps(verbs()->name);
}

void count_at_exit(Device &device)
{
	Devices &all = devices();
	std::lock_guard hold(all.lock);

	count_locked(all, device);
}

std::vector<Device *> known_devices()
{
	std::vector<Device *> all;

	for (Device *device = devices().counted; device; device = device->next_counted)
		all.push_back(device);
	std::reverse(all.begin(), all.end());
	return all;
}

std::span<Device *const> process_devices()
{
	const NoCancel no_cancel;
	Devices &all = devices();
	std::lock_guard hold(all.lock);

	if (!all.num_listed) {
		const unsigned n = device_count();

		/* Keep the devices that were created, for the next attempt. */
		for (unsigned i = 0; i < n; ++i)
			if (!all.listed[i])
				all.listed[i] = new Device(Config::from_environment(i), i);
		for (unsigned i = 0; i < n; ++i)
			count_locked(all, *all.listed[i]);
		all.num_listed = n;
	}
	for (unsigned i = 0; i < all.num_listed; ++i) {
		if (const int err = all.listed[i]->start_locked()) {
			errno = err;
			return {};
		}
	}
	return {all.listed, all.num_listed};
}

} // namespace sirdma::twin
