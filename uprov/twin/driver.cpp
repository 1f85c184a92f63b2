/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "driver.hpp"

#include <cerrno>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

#include <sirdma/abi.h>
#include <sirdma/roce.h>
#include <sirdma/shadow.h>
#include <sirdma/wqe.h>

#include "identity.hpp"
#include "settle.hpp"

namespace sirdma::twin
{

namespace
{

constexpr uint8_t width_4x = 2;
constexpr uint8_t speed_edr = 32;
constexpr uint8_t phys_link_up = 5;

static_assert(IBV_EVENT_CQ_ERR == 0 && IBV_EVENT_DEVICE_FATAL == 8 &&
	      IBV_EVENT_SRQ_LIMIT_REACHED == 15 &&
	      IBV_EVENT_QP_LAST_WQE_REACHED == 16); /* see sirdma_event_verbs_type() */

static_assert(SIRDMA_VERBS_DEVICE_CAPS == (IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_MEM_WINDOW |
					   IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW_TYPE_2B));
static_assert(SIRDMA_VERBS_PORT_CAPS == IBV_PORT_CM_SUP);
static_assert(SIRDMA_MAX_PATH_MTU == IBV_MTU_4096);
static_assert(SIRDMA_SRQ_MAX_WR == IBV_SRQ_MAX_WR && SIRDMA_SRQ_LIMIT == IBV_SRQ_LIMIT);

uint64_t dma(const void *memory) noexcept
{
	return reinterpret_cast<uintptr_t>(memory);
}

} // namespace

const sirdma_hw_events Driver::events = {
	.cq_event = on_cq_event,
	.async_event = on_async_event,
};

std::unique_ptr<Driver> Driver::create(Adapter &nic)
{
	std::unique_ptr<Driver> driver(new (std::nothrow) Driver(nic));
	const int err = driver ? driver->start() : -ENOMEM;

	if (err) {
		driver.reset();
		errno = -err;
		return nullptr;
	}
	return driver;
}

int Driver::start() noexcept
{
	Settle settle(nic_);
	const ibv_gid own = gid();
	sirdma_hw_config cfg{};
	sirdma_cqp_sgid_params sgid{};
	int err;

	cfg.num_ceqs = 1;
	/*
	 * Numbers tell the processes of one address apart; the order in which they are tried
	 * varies.
	 */
	cfg.first_qpn = std::max(nic_.first_qpn(), SIRDMA_FIRST_QPN);
	cfg.limit_qpn = nic_.limit_qpn();
	cfg.start_qpn = cfg.first_qpn + port_random_u32() % (cfg.limit_qpn - cfg.first_qpn);
	err = sirdma_hw_probe(&hw_, nic_.bus(), &cfg, &events, this);
	if (err)
		return err;
	probed_ = true;
	memcpy(sgid.ip.b, own.raw, sizeof(sgid.ip.b));
	memcpy(sgid.mac, nic_.mac(), sizeof(sgid.mac));
	err = sirdma_cqp_set_sgid(&hw_, &sgid);
	return err ? err : sirdma_cqp_set_arp(&hw_, 0, peer_mac);
}

Driver::~Driver()
{
	if (!probed_)
		return;
	sirdma_cqp_clear_arp(&hw_, 0);
	sirdma_cqp_clear_sgid(&hw_, 0);
	sirdma_hw_remove(&hw_);
}

/* Queries */

void Driver::describe(sirdma_alloc_ucontext_resp &answer) const noexcept
{
	sirdma_hw_context(&hw_, &answer);
}

uint32_t Driver::port_mtu() const noexcept
{
	return sirdma_path_mtu_of_port(nic_.mtu());
}

ibv_gid Driver::gid() const noexcept
{
	ibv_gid out;

	memcpy(out.raw, nic_.addr().ip().b, sizeof(out.raw));
	return out;
}

__be64 Driver::guid() const noexcept
{
	return htobe64(device_guid(nic_.addr()));
}

void Driver::query_device(ibv_device_attr &attr) noexcept
{
	sirdma_limits limits;

	sirdma_hw_limits(&hw_, &limits);
	attr = {};
	snprintf(attr.fw_ver, sizeof(attr.fw_ver), "%u.%u.0", SIRDMA_FW_MAJOR, SIRDMA_FW_MINOR);
	attr.node_guid = guid();
	attr.sys_image_guid = guid();
	SIRDMA_LIMITS_TO_VERBS(&attr, &limits);
	if (!nic_.has_groups())
		attr.max_mcast_grp = attr.max_mcast_qp_attach = attr.max_total_mcast_qp_attach = 0;
	attr.device_cap_flags = SIRDMA_VERBS_DEVICE_CAPS;
	attr.atomic_cap = IBV_ATOMIC_GLOB;
	attr.page_size_cap = SIRDMA_PAGE_SIZE;
	attr.max_sge = static_cast<int>(limits.max_sge);
	attr.phys_port_cnt = 1;
}

void Driver::query_port(ibv_port_attr &attr) noexcept
{
	sirdma_port_limits limits;

	attr = {};
	attr.state = IBV_PORT_ACTIVE;
	attr.phys_state = phys_link_up;
	sirdma_hw_port_limits(nic_.mtu(), &limits);
	SIRDMA_PORT_LIMITS_TO_VERBS(&attr, &limits);
	attr.gid_tbl_len = gid_table_len;
	attr.port_cap_flags = SIRDMA_VERBS_PORT_CAPS | IBV_PORT_IP_BASED_GIDS;
	attr.active_width = width_4x;
	attr.active_speed = speed_edr;
	attr.link_layer = IBV_LINK_LAYER_ETHERNET;
	attr.flags = IBV_QPF_GRH_REQUIRED;
}

/* Contexts */

int Driver::open(ibv_context *context)
{
	std::unique_ptr<AsyncQueue> queue = AsyncQueue::create();

	if (!queue)
		return errno;
	const int fd = queue->reader();
	std::lock_guard hold(objects_lock_);

	if (!insert(contexts_, context, std::move(queue))) {
		::close(fd);
		return ENOMEM;
	}
	context->async_fd = fd;
	return 0;
}

/*
 * Destroy every object for which @belongs returns true, without memory from the heap. An object
 * that cannot be destroyed is left.
 */
template <typename Table, typename Belongs, typename Destroy>
bool Driver::destroy_all(const Table &table, Belongs belongs, Destroy destroy) noexcept
{
	std::array<uint32_t, 1024> ids;
	size_t n, destroyed;

	do {
		n = destroyed = 0;
		{
			std::lock_guard hold(objects_lock_);
			for (auto it = table.begin(); it != table.end() && n < ids.size(); ++it)
				if (belongs(it->second))
					ids[n++] = it->first;
		}
		for (size_t i = 0; i < n; ++i)
			destroyed += !destroy(ids[i]);
	} while (destroyed);
	return !n;
}

void Driver::close(ibv_context *context) noexcept
{
	const auto of_qp = [=](const auto &qp) { return qp->qp->context == context; };
	const auto of_srq = [=](const auto &srq) { return srq->srq->context == context; };
	const auto of_cq = [=](const auto &cq) { return cq->cq->context == context; };
	const auto in_context = [=](const auto &domain) { return domain.context == context; };
	const auto of_number = [&](uint32_t pd) { return in_context(pds_.at(pd)); };
	const auto of_mr = [&](const DriverMr &mr) { return of_number(mr.pd); };
	const auto of_dm = [=](const DriverDm &dm) { return dm.context == context; };
	uint32_t comp, async;
	/* A failure does not end the loop: destroy the other objects as well. */
	const bool qps = destroy_all(qps_, of_qp, [&](uint32_t id) {
		detach_all(id);
		return destroy_qp(id, async);
	});
	const bool srqs =
		destroy_all(srqs_, of_srq, [&](uint32_t id) { return destroy_srq(id, async); });
	const bool cqs =
		destroy_all(cqs_, of_cq, [&](uint32_t id) { return destroy_cq(id, comp, async); });
	(void)destroy_all(mws_, of_number, [&](uint32_t id) { return dealloc_mw(id); });
	(void)destroy_all(mrs_, of_mr, [&](uint32_t id) { return dereg_mr(id); });
	(void)destroy_all(dms_, of_dm, [&](uint32_t id) { return free_dm(id); });
	(void)destroy_all(ahs_, of_number, [&](uint32_t id) { return destroy_ah(id); });
	(void)destroy_all(pds_, in_context, [&](uint32_t id) { return dealloc_pd(id); });
	(void)destroy_all(xrcds_, in_context, [&](uint32_t id) { return close_xrcd(id); });

	std::lock_guard hold(objects_lock_);
	const auto it = contexts_.find(context);

	if (it == contexts_.end())
		return;
	/*
	 * An object that could not be destroyed still reports to the context: leak the context, do
	 * not free it.
	 */
	if (!qps || !srqs || !cqs)
		(void)it->second.release();
	contexts_.erase(it);
}

AsyncQueue *Driver::async(ibv_context *context) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = contexts_.find(context);

	return it == contexts_.end() ? nullptr : it->second.get();
}

/* Protection domains */

int Driver::alloc_pd(ibv_context *context, uint32_t &pd)
{
	if (const int err = sirdma_idpool_get(&hw_.pd_ids, &pd))
		return -err;
	std::lock_guard hold(objects_lock_);
	if (insert(pds_, pd, DriverPd{.context = context, .users = 0}))
		return 0;
	sirdma_idpool_put(&hw_.pd_ids, pd);
	return ENOMEM;
}

int Driver::dealloc_pd(uint32_t pd) noexcept
{
	{
		std::lock_guard hold(objects_lock_);
		const auto it = pds_.find(pd);

		if (it == pds_.end())
			return ENOENT;
		if (it->second.users)
			return EBUSY;
		pds_.erase(it);
	}
	sirdma_idpool_put(&hw_.pd_ids, pd);
	return 0;
}

/* XRC domains */

int Driver::open_xrcd(ibv_context *context, int fd, int oflags, uint32_t &xrcd)
{
	DriverXrcd opened{.context = context};
	struct stat info;

	if (fd != -1) {
		if (fstat(fd, &info))
			return errno;
		opened.file = {.device = info.st_dev, .inode = info.st_ino, .exists = true};
	}
	std::lock_guard hold(objects_lock_);

	for (const auto &entry : xrcds_)
		if (opened.file.exists && entry.second.file == opened.file)
			opened.number = entry.second.number;
	/* The errors of uverbs. */
	if (opened.number && (oflags & O_EXCL))
		return EINVAL;
	if (!opened.number && fd != -1 && !(oflags & O_CREAT))
		return EAGAIN;
	const bool is_new = !opened.number;

	if (is_new)
		if (const int err = sirdma_idpool_get(&hw_.xrcd_ids, &opened.number))
			return -err;
	xrcd = next_key(xrcds_, last_xrcd_);
	if (insert(xrcds_, xrcd, opened))
		return 0;
	if (is_new)
		sirdma_idpool_put(&hw_.xrcd_ids, opened.number);
	return ENOMEM;
}

int Driver::close_xrcd(uint32_t xrcd) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = xrcds_.find(xrcd);

	if (it == xrcds_.end())
		return ENOENT;
	if (it->second.users)
		return EBUSY;
	const uint32_t number = it->second.number;

	xrcds_.erase(it);
	for (const auto &entry : xrcds_)
		if (entry.second.number == number)
			return 0;
	sirdma_idpool_put(&hw_.xrcd_ids, number);
	return 0;
}

/* Completion queues */

int Driver::add_cq(std::unique_ptr<DriverCq> cq)
{
	std::lock_guard hold(objects_lock_);

	if (cq->file) {
		auto channel = channels_.find(cq->file);

		if (channel == channels_.end()) {
			Fd file(fcntl(cq->file->fd, F_DUPFD_CLOEXEC, 3));

			if (!file)
				return errno;
			if (!insert(channels_, cq->file, std::move(file)))
				return ENOMEM;
			channel = channels_.find(cq->file);
		}
		++channel->second.users;
		cq->channel = &channel->second.events;
	}

	const uint32_t id = cq->id;
	ibv_comp_channel *file = cq->file;

	if (insert(cqs_, id, std::move(cq)))
		return 0;
	if (const auto channel = channels_.find(file);
	    channel != channels_.end() && !--channel->second.users)
		channels_.erase(channel);
	return ENOMEM;
}

/* No event finds the queue any more. Take back the events that the application has not read. */
std::unique_ptr<DriverCq> Driver::remove_cq(uint32_t id) noexcept
{
	std::lock_guard hold(objects_lock_);
	auto node = cqs_.extract(id);

	if (node.empty())
		return nullptr;
	std::unique_ptr<DriverCq> cq = std::move(node.mapped());

	cq->async->retract(cq->cq);
	if (cq->channel) {
		const auto channel = channels_.find(cq->file);

		cq->channel->retract(cq->cq);
		if (!--channel->second.users)
			channels_.erase(channel);
	}
	return cq;
}

int Driver::create_cq(ibv_context *context, ibv_cq *ibcq, ibv_comp_channel *channel,
		      const CqRings &rings)
{
	Settle settle(nic_);
	std::unique_ptr<DriverCq> cq(new (std::nothrow) DriverCq);
	sirdma_cqp_cq_params params{};
	const uint32_t id = [&] {
		u32 got = 0;
		return sirdma_idpool_get(&hw_.cq_ids, &got) ? 0 : got;
	}();

	if (!id)
		return ENOMEM;
	if (!cq) {
		sirdma_idpool_put(&hw_.cq_ids, id);
		return ENOMEM;
	}
	cq->id = id;
	cq->cookie = sirdma_idpool_cookie(&hw_.cq_ids, id);
	cq->cq = ibcq;
	cq->file = channel;
	cq->async = async(context);
	params.cookie = cq->cookie;
	if (const int err = add_cq(std::move(cq))) {
		sirdma_idpool_put(&hw_.cq_ids, id);
		return err;
	}
	params.cq_id = id;
	params.no_events = !channel;
	params.entries = rings.count;
	params.pa = dma(rings.elements);
	params.shadow_pa = dma(rings.shadow);
	params.timestamps = rings.timestamps;
	if (const int err = sirdma_cqp_create_cq(&hw_, &params)) {
		remove_cq(id);
		sirdma_idpool_put(&hw_.cq_ids, id);
		return -err;
	}
	ibcq->handle = id;
	return 0;
}

int Driver::resize_cq(uint32_t id, const void *elements, uint32_t count) noexcept
{
	Settle settle(nic_);
	sirdma_cqp_cq_params params{};

	params.cq_id = id;
	params.entries = count;
	params.pa = dma(elements);
	return -sirdma_cqp_resize_cq(&hw_, &params);
}

int Driver::moderate_cq(uint32_t id, uint32_t count, uint32_t period_us) noexcept
{
	Settle settle(nic_);

	return -sirdma_cqp_moderate_cq(&hw_, id, count, period_us);
}

void Driver::req_notify_cq(uint32_t id) noexcept
{
	Settle settle(nic_);

	sirdma_wr32(hw_.bus, SIRDMA_REG_CQARM, id);
}

int Driver::destroy_cq(uint32_t id, uint32_t &comp, uint32_t &async) noexcept
{
	Settle settle(nic_);

	{
		std::lock_guard hold(objects_lock_);
		if (!cqs_.contains(id))
			return ENOENT;
	}
	if (const int err = sirdma_cqp_destroy_cq(&hw_, id))
		return -err;

	const std::unique_ptr<DriverCq> cq = remove_cq(id);

	if (!cq)
		return ENOENT;
	comp = cq->comp_reported;
	async = cq->async_reported;
	sirdma_idpool_put(&hw_.cq_ids, id);
	return 0;
}

void Driver::cq_event_taken(const ibv_cq *cq) noexcept
{
	std::lock_guard hold(objects_lock_);
	const auto it = channels_.find(cq->channel);

	if (it != channels_.end())
		it->second.events.taken(cq);
}

/* Events */

namespace
{

/* The object of @cookie; null: the event came too late. */
template <typename Table> auto *by_cookie(const Table &table, u64 cookie) noexcept
{
	const auto it = table.find(sirdma_cookie_id(cookie));

	return it == table.end() || it->second->cookie != cookie ? nullptr : it->second.get();
}

} // namespace

void Driver::on_cq_event(void *ctx, u64 cookie)
{
	Driver &driver = *static_cast<Driver *>(ctx);
	std::lock_guard hold(driver.objects_lock_);
	DriverCq *cq = by_cookie(driver.cqs_, cookie);

	if (cq && cq->channel)
		cq->channel->post(cq->cq, &cq->comp_reported);
}

void Driver::on_async_event(void *ctx, const sirdma_async_event *ev)
{
	Driver &driver = *static_cast<Driver *>(ctx);
	std::lock_guard hold(driver.objects_lock_);

	const sirdma_event_class kind = sirdma_event_classify(ev);

	if (ev->overflow)
		port_warn("asynchronous events were lost");
	switch (kind) {
	case SIRDMA_EVENT_CQ_ERROR:
		if (DriverCq *cq = by_cookie(driver.cqs_, ev->cookie))
			cq->async->post(IBV_EVENT_CQ_ERR, cq->cq, &cq->async_reported);
		break;
	case SIRDMA_EVENT_DEVICE_FATAL:
		port_warn("the device failed: every command is refused from now on");
		for (const auto &entry : driver.contexts_)
			entry.second->post_device_fatal();
		break;
	case SIRDMA_EVENT_BAD_COMMAND:
		port_warn("the device reports error %#x", ev->code);
		break;
	case SIRDMA_EVENT_SRQ_LIMIT:
		if (DriverSrq *srq = by_cookie(driver.srqs_, ev->cookie))
			srq->async->post(IBV_EVENT_SRQ_LIMIT_REACHED, srq->srq,
					 &srq->async_reported);
		break;
	default: {
		const int type = sirdma_event_verbs_type(kind);
		DriverQp *qp = by_cookie(driver.qps_, ev->cookie);

		if (type >= 0 && qp)
			qp->async->post(static_cast<ibv_event_type>(type), qp->qp,
					&qp->async_reported);
		break;
	}
	}
}

} // namespace sirdma::twin
