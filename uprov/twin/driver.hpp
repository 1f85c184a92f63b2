/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The driver over the portable core, as kmod/drv is the kernel's: objects of applications, their
 * rights and their events. Functions that return an integer return 0 or an errno.
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
#include "page_buffer.hpp"

namespace sirdma::twin
{

/* The MAC address of all destinations: UDP sockets resolve addresses themselves. */
inline constexpr uint8_t peer_mac[6] = {0x02, 0x53, 0, 0, 0, 0xff};

/* Insert an object into a table of objects. Returns false when there is no memory for it. */
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

/* The next free key of @table after @last, which becomes it. 0 is no key. */
template <typename Table> uint32_t next_key(const Table &table, uint32_t &last) noexcept
{
	while (!++last || table.contains(last))
		;
	return last;
}

struct DriverPd {
	ibv_context *context = nullptr;
	/* regions, windows, queue pairs, shared receive queues and address handles */
	uint32_t users = 0;
};

/* The file of an XRC domain. Contexts of this process that open it have one domain. */
struct XrcFile {
	dev_t device = 0;
	ino_t inode = 0;
	bool exists = false; /* the domain has a file */

	bool operator==(const XrcFile &) const noexcept = default;
};

/* An opened XRC domain. Only queues and queue pairs of this process belong to it. */
struct DriverXrcd {
	ibv_context *context = nullptr;
	uint32_t number = 0; /* of the domain, which several may have opened */
	XrcFile file{};
	uint32_t users = 0; /* targets and shared receive queues that were created by it */
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
	CompletionChannel *channel = nullptr; /* channel of its events, while there is one */
	AsyncQueue *async = nullptr;
	uint32_t comp_reported = 0; /* protected by the channel's lock */
	uint32_t async_reported = 0; /* protected by the lock of the async queue */
};

struct DriverQp {
	uint32_t id = 0;
	uint64_t cookie = 0;
	ibv_qp *qp = nullptr;
	AsyncQueue *async = nullptr;
	uint32_t async_reported = 0; /* protected by the lock of the async queue */
	ibv_qp_cap cap{};
	bool sig_all = false;
	sirdma_qp_type type{};
	uint32_t pd = 0;
	uint32_t xrcd = 0; /* key of the domain of an XRC target, which has no PD */
	std::mutex lock; /* one modify or query runs at a time; protects the members below */
	ibv_mtu path_mtu{};
	ibv_ah_attr av{};
};

struct DriverSrq {
	uint64_t cookie = 0;
	ibv_srq *srq = nullptr;
	AsyncQueue *async = nullptr;
	uint32_t async_reported = 0; /* protected by the lock of the async queue */
	uint32_t pd = 0;
	uint32_t xrcd = 0; /* key of its XRC domain; 0: it has none */
	uint32_t max_wr = 0;
	uint32_t max_sge = 0;
};

struct DriverMr {
	uint32_t pd = 0;
	uint32_t dm = 0; /* 0: the region is memory of the application */
	sirdma_region region{}; /* as the application registered it */
	SharedFile file{}; /* from which peers can map it */
	bool changing = false; /* a thread executes rereg_mr() or dereg_mr() */
};

/* Does the region have whatever memory the application has at its addresses, or none? */
inline bool is_on_demand(const sirdma_region &region) noexcept
{
	return region.access & SIRDMA_VERBS_ON_DEMAND;
}

/* All addresses of the process. */
inline bool is_implicit(const sirdma_region &region) noexcept
{
	return is_on_demand(region) && !region.start && region.length == ~u64{0};
}

struct DriverDm {
	ibv_context *context = nullptr;
	Fd file; /* of the memory, if peers can map it */
	PageBuffer memory;
	size_t length = 0; /* bytes that the application asked for */
	size_t bytes = 0; /* in whole pages */
	uint32_t users = 0; /* regions */
};

/* The arguments of ibv_rereg_mr(), by SIRDMA_REREG_*. */
struct MrChange {
	uint32_t flags;
	uint32_t pd;
	sirdma_region to;
};

/* A shared receive queue, in memory of the application. */
struct SrqRing {
	const void *wqes;
	const void *shadow;
	uint32_t count; /* number of WQEs */
	uint32_t shift;
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t xrcd; /* key of its XRC domain; 0: it has none */
	uint32_t cq; /* of its completions, in an XRC domain */
};

/* A completion queue, in memory of the application. */
struct CqRings {
	const void *elements;
	const void *shadow;
	uint32_t count; /* number of elements */
	bool timestamps;
};

/* Rings of a QP, in memory of the application. */
struct QpRings {
	const void *sq;
	const void *rq;
	const void *shadow;
	uint32_t sq_quanta;
	uint32_t rq_quanta;
	uint32_t rq_shift;
	uint64_t compl_ctx;
};

/*
 * An attachment of a queue pair to a multicast group. As in the kernel, QP, LID and group identify
 * it.
 */
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
	/* Returns null with errno. */
	static std::unique_ptr<Driver> create(Adapter &nic);
	~Driver();
	Driver(const Driver &) = delete;
	Driver &operator=(const Driver &) = delete;

	Adapter &nic() noexcept { return nic_; }

	void query_device(ibv_device_attr &attr) noexcept;
	void query_port(ibv_port_attr &attr) noexcept;
	ibv_gid gid() const noexcept;
	__be64 guid() const noexcept;
	/* Fill in the part of the answer that a provider gets from every device. */
	void describe(sirdma_alloc_ucontext_resp &answer) const noexcept;
	uint32_t port_mtu() const noexcept;

	int open(ibv_context *context);
	/* Destroy the objects that the application left. */
	void close(ibv_context *context) noexcept;
	AsyncQueue *async(ibv_context *context) noexcept;

	int alloc_pd(ibv_context *context, uint32_t &pd);
	int dealloc_pd(uint32_t pd) noexcept;

	/*
	 * Open an XRC domain, by @fd and @oflags as ibv_open_xrcd(). @xrcd gets the key by which it is
	 * named here.
	 */
	int open_xrcd(ibv_context *context, int fd, int oflags, uint32_t &xrcd);
	/* Returns EBUSY while there are targets or shared receive queues that were created by it. */
	int close_xrcd(uint32_t xrcd) noexcept;

	/*
	 * The memory is not pinned: it must stay mapped as long as the region exists, unless it is
	 * registered on demand.
	 */
	int reg_mr(uint32_t pd, const sirdma_region &region, uint32_t &stag);
	/*
	 * Change the region; its stag stays. All changes take effect at once, or none. Returns
	 * EBUSY if windows are bound to the region.
	 */
	int rereg_mr(uint32_t stag, const MrChange &change) noexcept;
	/* Returns EBUSY if windows are bound to the region. */
	int dereg_mr(uint32_t stag) noexcept;
	/* As ibv_advise_mr(): bring the pages of regions on demand. */
	int advise_mr(uint32_t pd, ibv_advise_mr_advice advice, bool flush,
		      std::span<const ibv_sge> sges) noexcept;
	/* @memory gets the address of the device memory, which stays until free_dm() or close(). */
	int alloc_dm(ibv_context *context, const ibv_alloc_dm_attr &attr, uint32_t &dm,
		     uint8_t *&memory);
	/* Returns EBUSY if regions are over the memory. */
	int free_dm(uint32_t dm) noexcept;
	int reg_dm_mr(uint32_t pd, uint32_t dm, uint64_t offset, uint64_t length, uint32_t access,
		      uint32_t &stag);
	int alloc_mw(uint32_t pd, ibv_mw_type type, uint32_t &stag);
	/*
	 * @stag is the stag as it was allocated. Returns EBUSY if a queue pair binds the window at
	 * this very moment.
	 */
	int dealloc_mw(uint32_t stag) noexcept;

	int create_cq(ibv_context *context, ibv_cq *cq, ibv_comp_channel *channel,
		      const CqRings &rings);
	/* Give the CQ the ring of @count elements at @elements. */
	int resize_cq(uint32_t id, const void *elements, uint32_t count) noexcept;
	/* Let events of the CQ wait for @count completions, and for @period_us at most. */
	int moderate_cq(uint32_t id, uint32_t count, uint32_t period_us) noexcept;
	/* Raise the event that the CQ's arm word requests, if there is such a completion already. */
	void req_notify_cq(uint32_t id) noexcept;
	/*
	 * The application read an event of the CQ. Another thread may have destroyed the CQ here,
	 * and now waits for the acknowledgement of the event.
	 */
	void cq_event_taken(const ibv_cq *cq) noexcept;
	/* comp and async get the number of @cq's events that were reported. */
	int destroy_cq(uint32_t id, uint32_t &comp, uint32_t &async) noexcept;

	int create_qp(ibv_qp *qp, uint32_t pd, const QpRings &rings, const ibv_qp_cap &cap,
		      bool sig_all);
	/* Create an XRC target. */
	int create_target(ibv_qp *qp, uint32_t xrcd);
	int modify_qp(uint32_t qpn, const ibv_qp_attr &attr, uint32_t mask) noexcept;
	int query_qp(uint32_t qpn, ibv_qp_attr &attr, ibv_qp_init_attr &init) noexcept;
	/*
	 * Returns EBUSY if the QP is attached to a group. @async gets the number of its events that
	 * were reported.
	 */
	int destroy_qp(uint32_t qpn, uint32_t &async) noexcept;
	/* Attach a QP to a multicast group. A second call with the same @lid changes nothing. */
	int attach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid);
	/* Returns EINVAL if the QP is not attached. */
	int detach_mcast(uint32_t qpn, const ibv_gid &gid, uint16_t lid) noexcept;
	int create_srq(ibv_srq *srq, uint32_t pd, const SrqRing &ring);
	int modify_srq(uint32_t id, const ibv_srq_attr &attr, uint32_t mask) noexcept;
	int query_srq(uint32_t id, ibv_srq_attr &attr) noexcept;
	/*
	 * Returns EBUSY if queue pairs use the queue. @async gets the number of its events that
	 * were reported.
	 */
	int destroy_srq(uint32_t id, uint32_t &async) noexcept;
	/* @index gets the index of the address vector, by which the handle is destroyed. */
	int create_ah(uint32_t pd, const ibv_ah_attr &attr, uint32_t &index);
	int destroy_ah(uint32_t index) noexcept;
	/* Print a line for each QP to stderr: its state and what it waits for. */
	void print_qps(const char *device) noexcept;

private:
	explicit Driver(Adapter &nic) noexcept : nic_(nic) {}
	int start() noexcept;
	template <typename Table, typename Belongs, typename Destroy>
	bool destroy_all(const Table &table, Belongs belongs, Destroy destroy) noexcept;
	int claim_mr(uint32_t stag, DriverMr &mr) noexcept;
	void release_mr(uint32_t stag, const DriverMr &mr, uint32_t former) noexcept;
	int change_mr(uint32_t stag, const MrChange &change, DriverMr &mr) noexcept;
	int use_pd(uint32_t pd) noexcept;
	int add_mr(DriverMr mr, uint32_t &stag);
	int put_mr(uint32_t stag, const DriverMr &mr, bool replace) noexcept;
	SharedFile file_of(const sirdma_region &region) noexcept;
	void open_region(uint32_t stag, const DriverMr &mr) noexcept;
	void open_qp(uint32_t qpn) noexcept;
	int advised(uint32_t pd, ibv_advise_mr_advice advice, const ibv_sge &sge,
		    sirdma_region &part) noexcept;
	int add_cq(std::unique_ptr<DriverCq> cq);
	std::unique_ptr<DriverCq> remove_cq(uint32_t id) noexcept;
	DriverQp *find_qp(uint32_t qpn) noexcept;
	int make_qp(ibv_qp *ibqp, std::unique_ptr<DriverQp> qp, sirdma_qp_create &create);
	/* The users of what the QP belongs to. The caller holds objects_lock_. */
	uint32_t &users_of(const DriverQp &qp) noexcept;
	/* The path that @ah describes. */
	static sirdma_path path_of(const ibv_ah_attr &ah) noexcept;
	/* Returns 0, or an errno with *why set to the fault of the path. */
	int check_route(const ibv_ah_attr &ah, const char *&why) const noexcept;
	int resolve(const ibv_ah_attr &ah) noexcept;
	bool is_attached(uint32_t qpn) noexcept;
	void detach_all(uint32_t qpn) noexcept;
	int join(const sirdma_ip &ip, uint32_t qpn) noexcept;
	int leave(const sirdma_ip &ip, uint32_t qpn) noexcept;

	static void on_cq_event(void *ctx, u64 cookie);
	static void on_async_event(void *ctx, const sirdma_async_event *ev);
	static const sirdma_hw_events events;

	Adapter &nic_;
	sirdma_hw hw_{};
	bool probed_ = false;
	std::mutex objects_lock_; /* protects the tables; held while an event is delivered */
	std::unordered_map<ibv_context *, std::unique_ptr<AsyncQueue>> contexts_;
	std::unordered_map<uint32_t, DriverPd> pds_;
	std::unordered_map<uint32_t, DriverXrcd> xrcds_;
	uint32_t last_xrcd_ = 0; /* key in xrcds_ */
	std::unordered_map<uint32_t, DriverMr> mrs_; /* by stag */
	std::unordered_map<uint32_t, DriverDm> dms_;
	uint64_t dm_bytes_ = 0; /* device memory of all contexts */
	uint32_t last_dm_ = 0;
	std::unordered_map<uint32_t, uint32_t> mws_; /* map from stag to protection domain */
	std::unordered_map<ibv_comp_channel *, DriverChannel> channels_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverCq>> cqs_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverQp>> qps_;
	std::unordered_map<uint32_t, std::unique_ptr<DriverSrq>> srqs_;
	std::unordered_map<uint32_t, uint32_t> ahs_; /* address vector to protection domain */
	std::mutex attachments_lock_; /* one attach or detach at a time; protects what follows */
	std::vector<DriverAttachment> attachments_;
};

} // namespace sirdma::twin
