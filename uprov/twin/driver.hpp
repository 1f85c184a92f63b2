/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The driver over the portable core, as kmod/drv is the kernel's: objects of
 * applications, their rights and their events. Integers are 0 or an errno.
 */
#pragma once

#include <cstring>
#include <vector>

#include <infiniband/verbs.h>

#include <sirdma/geometry.h>

#include "core.hpp"
#include "environment.hpp"
#include "events.hpp"
#include "adapter.hpp"

namespace sirdma::twin
{

/* Every destination's: UDP sockets resolve addresses themselves. */
inline constexpr uint8_t peer_mac[6] = {0x02, 0x53, 0, 0, 0, 0xff};

/* Into a table of objects; false when there is no memory for it. */
template <typename Table, typename Key, typename Value>
bool insert(Table &table, Key key, Value &&value) noexcept
{
	try {
		table.try_emplace(key, std::forward<Value>(value));
		return true;
	} catch (const std::bad_alloc &) {
		return false;
	}
}

struct DriverPd {
	ibv_context *context = nullptr;
	/* regions, windows, queue pairs, shared receive queues and address handles */
	uint32_t users = 0;
};

struct DriverChannel {
	explicit DriverChannel(Fd file) : events(std::move(file)) {}

	CompletionChannel events;
	uint32_t users = 0; /* completion queues */
};

struct DriverCq {
	uint32_t id = 0;
	uint64_t cookie = 0; /* see sirdma_idpool_cookie() */
	ibv_cq *cq = nullptr;
	ibv_comp_channel *file = nullptr;
	CompletionChannel *channel = nullptr; /* its events, while there is one */
	AsyncQueue *async = nullptr;
	uint32_t comp_reported = 0; /* under the channel's lock */
	uint32_t async_reported = 0; /* under the async queue's lock */
};

struct DriverQp {
	uint32_t id = 0;
	uint64_t cookie = 0;
	ibv_qp *qp = nullptr;
	AsyncQueue *async = nullptr;
	uint32_t async_reported = 0; /* under the async queue's lock */
	ibv_qp_cap cap{};
	bool sig_all = false;
	sirdma_qp_type type{};
	uint32_t pd = 0;
	std::mutex lock; /* one modify or query at a time; protects what follows */
	ibv_mtu path_mtu{};
	ibv_ah_attr av{};
};

struct DriverSrq {
	uint64_t cookie = 0;
	ibv_srq *srq = nullptr;
	AsyncQueue *async = nullptr;
	uint32_t async_reported = 0; /* under the async queue's lock */
	uint32_t pd = 0;
	uint32_t max_wr = 0;
	uint32_t max_sge = 0;
};

/* A shared receive queue, in memory of the application. */
struct SrqRing {
	const void *wqes;
	const void *shadow;
	uint32_t count; /* of WQEs */
	uint32_t shift;
	uint32_t max_wr;
	uint32_t max_sge;
};

/* A completion queue, in memory of the application. */
struct CqRings {
	const void *elements;
	const void *shadow;
	uint32_t count; /* of elements */
	bool timestamps;
};

/* Rings of a QP, in memory of the application. */
struct QpRings {
	const void *sq;
	const void *rq;
	const void *shadow;
	uint32_t sq_quanta;
	uint32_t rq_wqes;
	uint32_t rq_shift;
	uint64_t compl_ctx;
};

/* An attachment of a queue pair to a multicast group. As in the kernel, QP, LID and group identify it. */
struct DriverAttachment {
	uint32_t qpn;
	uint16_t lid;
	sirdma_ip ip;

	bool operator==(const DriverAttachment &other) const noexcept
	{
		return qpn == other.qpn && lid == other.lid && !memcmp(&ip, &other.ip, sizeof(ip));
	}
};

class Driver {
public:
	/* Null with errno. */
	static std::unique_ptr<Driver> create(Adapter &nic);
	~Driver();
	Driver(const Driver &) = delete;
	Driver &operator=(const Driver &) = delete;

	Adapter &nic() noexcept { return nic_; }

	void query_device(ibv_device_attr &attr) noexcept;
	void query_port(ibv_port_attr &attr) noexcept;
	ibv_gid gid() const noexcept;
	__be64 guid() const noexcept;
	uint32_t max_cq_elements() const noexcept;
	uint32_t port_mtu() const noexcept;

	int open(ibv_context *context);
	/* Destroys what the application left. */
	void close(ibv_context *context) noexcept;
	AsyncQueue *async(ibv_context *context) noexcept;

	int alloc_pd(ibv_context *context, uint32_t &pd);
	int dealloc_pd(uint32_t pd) noexcept;

	/* Nothing is pinned: the memory must stay mapped as long as the region is. */
	int reg_mr(uint32_t pd, const void *addr, uint64_t length, uint64_t iova, int access,
		   uint32_t &stag);
	/* EBUSY: windows are bound to it. */
	int dereg_mr(uint32_t stag) noexcept;
	int alloc_mw(uint32_t pd, ibv_mw_type type, uint32_t &stag);
	/* @stag: as it was allocated. EBUSY: a queue pair binds it at this very moment. */
	int dealloc_mw(uint32_t stag) noexcept;

	int create_cq(ibv_context *context, ibv_cq *cq, ibv_comp_channel *channel,
		      const CqRings &rings);
	/* The CQ gets the ring of @count elements at @elements. */
	int resize_cq(uint32_t id, const void *elements, uint32_t count) noexcept;
	/* The application read an event of it. */
	void cq_event_taken(uint32_t id) noexcept;
	/* @cq's events are counted in comp and async. */
	int destroy_cq(uint32_t id, uint32_t &comp, uint32_t &async) noexcept;

	int create_qp(ibv_qp *qp, uint32_t pd, const QpRings &rings, const ibv_qp_cap &cap,
		      bool sig_all);
	int modify_qp(uint32_t qpn, const ibv_qp_attr &attr, uint32_t mask) noexcept;
	int query_qp(uint32_t qpn, ibv_qp_attr &attr, ibv_qp_init_attr &init) noexcept;
	/* EBUSY: it is attached to a group. @async: events of it that were reported. */
	int destroy_qp(uint32_t qpn, uint32_t &async) noexcept;
	/* Attach a QP to a multicast group. With the same @lid again it changes nothing. */
	int attach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid);
	/* EINVAL: it is not attached. */
	int detach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid) noexcept;
	int create_srq(ibv_srq *srq, uint32_t pd, const SrqRing &ring);
	int arm_srq(uint32_t id, uint32_t limit) noexcept;
	int query_srq(uint32_t id, ibv_srq_attr &attr) noexcept;
	/* EBUSY: queue pairs use it. @async: events of it that were reported. */
	int destroy_srq(uint32_t id, uint32_t &async) noexcept;
	/* @index: of its address vector, by which it is destroyed. */
	int create_ah(uint32_t pd, const ibv_ah_attr &attr, uint32_t &index);
	int destroy_ah(uint32_t index) noexcept;
	/* On stderr, a line for each QP there is: where it stands and what it waits for. */
	void print_qps(const char *device) noexcept;

private:
	explicit Driver(Adapter &nic) noexcept : nic_(nic) {}
	int start() noexcept;
	template <typename Table, typename Belongs, typename Destroy>
	bool destroy_all(const Table &table, Belongs belongs, Destroy destroy) noexcept;
	int add_cq(std::unique_ptr<DriverCq> cq);
	std::unique_ptr<DriverCq> remove_cq(uint32_t id) noexcept;
	DriverQp *find_qp(uint32_t qpn) noexcept;
	/* The path that @ah describes. */
	static sirdma_path path_of(const ibv_ah_attr &ah) noexcept;
	/* 0 or an errno, and @why is what is wrong with the path. */
	int check_route(const ibv_ah_attr &ah, const char *&why) const noexcept;
	int resolve(const ibv_ah_attr &ah) noexcept;
	int run_modify(const sirdma_qp_modify &mod) noexcept;
	bool is_attached(uint32_t qpn) noexcept;
	void detach_all(uint32_t qpn) noexcept;
	int join(const sirdma_ip &ip, uint32_t qpn) noexcept;
	int leave(const sirdma_ip &ip, uint32_t qpn) noexcept;

	static void on_cq_event(void *ctx, u64 cq_ctx);
	static void on_async_event(void *ctx, const sirdma_async_event *ev);
	static const sirdma_hw_events events;

	Adapter &nic_;
	sirdma_hw hw_{};
	bool probed_ = false;
	std::mutex objects_lock_; /* protects the tables; held while an event is delivered */
	std::unordered_map<ibv_context *, std::unique_ptr<AsyncQueue>> contexts_;
	std::unordered_map<uint32_t, DriverPd> pds_;
	std::unordered_map<uint32_t, uint32_t> mrs_; /* stag to protection domain */
	std::unordered_map<uint32_t, uint32_t> mws_; /* the same */
	std::unordered_map<ibv_comp_channel *, DriverChannel> channels_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverCq>> cqs_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverQp>> qps_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverSrq>> srqs_;
	std::unordered_map<uint32_t, uint32_t> ahs_; /* address vector to protection domain */
	std::mutex attachments_lock_; /* one attach or detach at a time; protects what follows */
	std::vector<DriverAttachment> attachments_;
};

} // namespace sirdma::twin
