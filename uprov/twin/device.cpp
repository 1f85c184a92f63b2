/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "device.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

#include "cq.hpp"
#include "qp.hpp"
#include "verbs.hpp"

namespace sirdma::twin
{

namespace
{

using StartPoll = int (*)(ibv_cq_ex *, ibv_poll_cq_attr *);

/* The provider's; the same function for every CQ. */
std::atomic<StartPoll> provider_start_poll{nullptr};

Nic &nic_of(ibv_context *context) noexcept
{
	return *Device::of(context).nic;
}

int twin_poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc) noexcept
{
	if (const int n = poll_cq(cq, num_entries, wc))
		return n;
	nic_of(cq->context).poll();
	return poll_cq(cq, num_entries, wc);
}

int twin_start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr)
{
	const StartPoll start = provider_start_poll.load(std::memory_order_relaxed);

	if (const int err = start(cq, attr); err != ENOENT)
		return err;
	nic_of(cq->context).poll();
	return start(cq, attr);
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
	const int err = req_notify_cq(cq, solicited_only);

	nic_of(cq->context).expect_event();
	return err;
}

void twin_cq_event(ibv_cq *cq) noexcept
{
	cq_event(cq);
	CompletionChannel::of(cq->channel).taken();
}

void twin_async_event(ibv_context *context, ibv_async_event *) noexcept
{
	if (AsyncQueue *queue = Device::of(context).driver->async(context))
		queue->taken();
}

void run_qp(void *device, uint32_t qpn) noexcept
{
	static_cast<Nic *>(device)->run_qp(qpn);
}

ibv_qp *with_kick(ibv_qp *qp) noexcept
{
	if (qp)
		Qp::of(qp).queues().doorbell.kick().prepare_local(run_qp, &nic_of(qp->context),
								  qp->qp_num);
	return qp;
}

ibv_qp *twin_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	return with_kick(create_qp(pd, attr));
}

ibv_qp *twin_create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept
{
	return with_kick(create_qp_ex(context, attr));
}

void twin_free_context(ibv_context *context) noexcept
{
	Device::of(context).driver->close(context);
	free_context(context);
}

/* What differs from a device behind the kernel. */
constinit const verbs_context_ops twin_context_ops = [] {
	verbs_context_ops ops{};

	ops.cq_event = twin_cq_event;
	ops.create_cq_ex = twin_create_cq_ex;
	ops.create_qp = twin_create_qp;
	ops.create_qp_ex = twin_create_qp_ex;
	ops.free_context = twin_free_context;
	ops.poll_cq = twin_poll_cq;
	ops.req_notify_cq = twin_req_notify_cq;
	return ops;
}();

verbs_context *twin_alloc_context(ibv_device *device, int, void *private_data) noexcept
{
	/* Where a kernel device maps its doorbell page from. */
	const int fd = memfd_create("sirdma-doorbell", MFD_CLOEXEC);

	if (fd < 0)
		return nullptr;
	if (ftruncate(fd, sizeof(sirdma_db_page))) {
		close(fd);
		return nullptr;
	}

	verbs_context *context = alloc_context(device, fd, private_data);

	if (!context)
		return nullptr;
	if (const int err = Device::of(&context->context).driver->open(&context->context)) {
		free_context(&context->context);
		errno = err;
		return nullptr;
	}

	verbs_context_ops ops = twin_context_ops;

	/* The provider has no use for this one and its table no type. */
	ops.async_event = reinterpret_cast<verbs_unused_op>(twin_async_event);
	verbs_set_ops(context, &ops);
	return context;
}

/* The device lives as long as the process: its memory is not the library's. */
void twin_uninit_device(verbs_device *) noexcept {}

constexpr verbs_device_ops twin_device_ops = {
	.name = "sirdma-twin",
	.match_min_abi_version = SIRDMA_ABI_VERSION,
	.match_max_abi_version = SIRDMA_ABI_VERSION,
	.match_table = nullptr,
	.static_providers = nullptr,
	.match_device = nullptr,
	.alloc_context = twin_alloc_context,
	.import_context = nullptr,
	.alloc_device = nullptr,
	.uninit_device = twin_uninit_device,
};

/* Optional access flags are hints that this device may ignore. */
constexpr uint64_t core_support_optional_mr_access = 1;

void print_stats(Device &device) noexcept
{
	static constexpr const char *names[] = {
#define NAME(id, name) #name,
		SIRDMA_STATS(NAME)
#undef NAME
	};

	for (unsigned i = 0; i < SIRDMA_STAT_COUNT; ++i)
		if (const u64 n = device.nic->stat(static_cast<sirdma_stat>(i)))
			fprintf(stderr, "sirdma: %d: %-20s %llu\n", getpid(), names[i],
				static_cast<unsigned long long>(n));
}

struct ProcessDevice {
	std::mutex lock;
	Device *device = nullptr; /* never freed: threads of the application may outlive main() */
	pid_t pid = 0;
};

ProcessDevice &process() noexcept
{
	static ProcessDevice instance;

	return instance;
}

void at_exit() noexcept
{
	ProcessDevice &p = process();

	if (p.device && p.pid == getpid() && p.device->config.stats)
		print_stats(*p.device);
}

} // namespace

bool Device::owns(const ibv_context *context) noexcept
{
	return reinterpret_cast<const verbs_device *>(context->device)->ops == &twin_device_ops;
}

std::unique_ptr<Device> Device::create(const Config &config)
{
	auto device = std::make_unique<Device>();
	verbs_device &base = device->provider.base;

	device->config = config;
	device->provider.driver_id = SIRDMA_DRIVER_ID;
	base.ops = &twin_device_ops;
	base.refcount = 1;
	base.core_support = core_support_optional_mr_access;
	base.device.node_type = IBV_NODE_CA;
	base.device.transport_type = IBV_TRANSPORT_IB;
	strcpy(base.device.name, "sirdma0");
	strcpy(base.device.dev_name, "uverbs0");

	device->nic = Nic::create(config);
	if (!device->nic)
		return nullptr;
	device->driver = Driver::create(*device->nic);
	if (!device->driver)
		return nullptr;
	if (config.verbose) {
		const in_addr addr = device->nic->addr();
		char text[INET_ADDRSTRLEN];

		inet_ntop(AF_INET, &addr, text, sizeof(text));
		fprintf(stderr,
			"sirdma: %d: sirdma0 at %s, UDP port %u, IP MTU %u, view: preload\n",
			getpid(), text, SIRDMA_ROCE_UDP_PORT, device->nic->mtu());
	}
	return device;
}

Device::~Device()
{
	driver.reset();
	nic.reset();
}

Device *process_device()
{
	ProcessDevice &p = process();
	std::lock_guard hold(p.lock);

	/*
	 * A child has the memory of its parent's device but not its threads, and must
	 * not take its packets: it gets a device of its own.
	 */
	if (!p.device || p.pid != getpid()) {
		if (!p.pid)
			atexit(at_exit);
		p.pid = getpid();
		p.device = Device::create(Config::from_environment()).release();
	}
	return p.device;
}

} // namespace sirdma::twin
