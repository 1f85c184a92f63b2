/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device model in this process: its bus, memory and interrupts. A derived class
 * transmits its packets and drives its timers.
 */
#pragma once

#include <cerrno>

#include "access_table.hpp"
#include "address.hpp"
#include "cm/host.hpp"
#include "core.hpp"
#include "process_memory.hpp"
#include "rendezvous.hpp"
#include "short_lock.hpp"

namespace sirdma::twin
{

class Adapter {
public:
	/* The owner destroys the driver first. */
	virtual ~Adapter();
	Adapter(const Adapter &) = delete;
	Adapter &operator=(const Adapter &) = delete;

	sirdma_bus *bus() noexcept { return &bus_; }

	const IpAddress &addr() const noexcept { return addr_; }

	/* The QP numbers that the device may use: [first, limit). */
	virtual u32 first_qpn() const noexcept { return 0; }
	virtual u32 limit_qpn() const noexcept { return qpns_per_slot; }

	uint32_t mtu() const noexcept { return mtu_; }

	const uint8_t *mac() const noexcept { return mac_; }

	/* The clock of the device; null: the real clock. */
	port_clock *device_clock() const noexcept { return device_clock_; }

	virtual u64 stat(sirdma_stat id) noexcept;

	/* A kick for QP @qpn. */
	virtual void run_qp(u32 qpn) noexcept = 0;
	/* A poll found no completion: receive packets. Returns true if there may be a completion now. */
	virtual bool poll() noexcept = 0;
	/*
	 * A poll found a completion. @message: it may belong to a received message, whose acknowledgement leaves now, or soon
	 * (answer_habit.hpp). Otherwise the poll may wait for the peer's answer (answer_wait.hpp), whose
	 * acknowledgement the next call sends, or the helper.
	 */
	virtual void found(bool /* message */) noexcept {}
	/* The application requested an event and may sleep until it comes. */
	virtual void expect_event() noexcept = 0;

	/*
	 * A queue pair needs the traffic class and hop limit of each packet: one for datagrams, for the GRH,
	 * or one whose packets may be marked (model/cnp.h).
	 */
	virtual void need_headers() noexcept {}

	/*
	 * Can the device send to @dst? The function waits for the neighbour; see next_hop.hpp.
	 * Returns 0 or an errno.
	 */
	virtual int resolve(const IpAddress & /* dst */) noexcept { return 0; }

	/* Can the device have multicast groups? */
	virtual bool has_groups() const noexcept { return false; }
	/* Receive datagrams to @group from now on. Returns 0 or an errno. */
	virtual int join(const IpAddress & /* group */) noexcept { return EOPNOTSUPP; }
	virtual void leave(const IpAddress & /* group */) noexcept {}

	/* May peers of this host access memory by themselves? Then it is best if they can map it. */
	virtual bool can_be_accessed() const noexcept { return false; }
	/*
	 * What peers of this host may access without the device (access_table.hpp): regions with
	 * remote rights, and queue pairs in RTS. When a close_*() has returned, no peer does any more.
	 */
	virtual void open_region(const AccessTable::Region & /* region */) noexcept {}
	virtual void close_region(u32 /* stag */) noexcept {}
	virtual void open_qp(u32 /* qpn */, u32 /* pd */, u32 /* rights */) noexcept {}
	virtual void close_qp(u32 /* qpn */) noexcept {}

	/* The device for the connection manager, or null if there is none. */
	virtual cm::Port *cm_port() noexcept { return nullptr; }

	/* Run deferred QPs and raised interrupts. The model must not call this. */
	void settle() noexcept;
	/* A call into the driver may have armed timers of the model. */
	virtual void timers_armed() noexcept {}
	/* settle() until nothing is deferred: the process ends. */
	void settle_all() noexcept;

protected:
	Adapter() = default;
	/* @clock must outlive the device. Returns 0 or an errno. */
	int create_device(const IpAddress &addr, uint32_t mtu, u32 max_qps, u32 window_bytes,
			  port_clock *clock, bool one_sided = false, bool lingers = false);
	/* The owner calls this before the links that carry the device's packets are destroyed. */
	void destroy_device() noexcept;

	/* snic_host_ops.tx: returns how many packets, from the first on, were sent. */
	virtual u32 transmit(snic_burst &burst) noexcept = 0;
	/*
	 * Returns false if this thread has no transmit buffer: its work is then deferred to the
	 * helper.
	 */
	virtual bool can_work() noexcept { return true; }
	/* Called after each call into the model. Send the packets that transmit() held back. */
	virtual void flush() noexcept {}
	/* The burst buffer of this thread. */
	virtual snic_burst *burst() noexcept = 0;
	/* snic_host_ops.pull */
	virtual bool pull(snic_seg_iter &, void *, u32) noexcept { return false; }
	virtual void finish_references() noexcept {}
	/* snic_host_ops.one_sided_nowait, .one_sided and .qp_failed */
	virtual snic_one_sided_status one_sided_nowait(const snic_one_sided &) noexcept
	{
		return SNIC_ONE_SIDED_REFUSED;
	}
	virtual bool one_sided(const snic_one_sided &) noexcept { return false; }
	virtual void qp_failed(u32 /* qpn */) noexcept {}
	/* snic_host_ops.linger, if the adapter was created with that */
	virtual void linger(u32 /* qpn */) noexcept {}

	/* A list of QPs. The count is also read without the lock. */
	struct QpList {
		std::vector<u32> qpns;
		std::atomic<u32> count{0};
	};
	bool pop(QpList &list, u32 &qpn) noexcept;
	void push(QpList &list, u32 qpn) noexcept;
	void remove(QpList &list, u32 qpn) noexcept;
	bool pending() noexcept;
	void defer(u32 qpn) noexcept { push(deferred_, qpn); }
	void kick_model(u32 qpn) noexcept;
	/* The two parts of settle(). Polls call them often, and usually there is nothing to do. */
	bool run_deferred() noexcept
	{
		if (!deferred_.count.load()) [[likely]]
			return false;
		run_all_deferred();
		return true;
	}
	void interrupt() noexcept
	{
		if (raised_.load()) [[unlikely]]
			call_handlers();
	}
	/* The model raised interrupt @vector: the next interrupt() calls its handler. */
	void raise(u32 vector) noexcept;

	IpAddress addr_;
	uint32_t mtu_ = 0;
	snic_dev *dev_ = nullptr;
	ShortLock lists_lock_; /* protects lists of QPs */

private:
	struct Bus : sirdma_bus {
		Adapter *self;
	};
	static constexpr u32 num_vectors = 2; /* asynchronous events, completion events */
	/*
	 * Events of one vector before the other one is served: the budget that the kernel gives one
	 * poll of an interrupt's bottom half (NAPI_POLL_WEIGHT).
	 */
	static constexpr u32 event_budget = 64;
	struct Vector {
		sirdma_irq_fn fn = nullptr;
		void *ctx = nullptr;
	};

	static Adapter &of(sirdma_bus *bus) noexcept { return *static_cast<Bus *>(bus)->self; }
	static Adapter &of(snic_host *host) noexcept { return *reinterpret_cast<Adapter *>(host); }

	static u32 bus_read(sirdma_bus *bus, u32 reg);
	static void bus_write(sirdma_bus *bus, u32 reg, u32 val);
	static int bus_alloc(sirdma_bus *bus, __u64 size, sirdma_dma_mem *mem);
	static void bus_free(sirdma_bus *bus, sirdma_dma_mem *mem);
	static int bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx);
	static void bus_irq_free(sirdma_bus *bus, u32 vector);
	static const sirdma_bus_ops bus_ops;

	void run_all_deferred() noexcept;
	void call_handlers() noexcept;
	void call_handler(u32 vector) noexcept;

	static void on_irq(snic_host *host, u32 vector);
	static u32 on_tx(snic_host *host, snic_burst *burst);
	static void on_defer(snic_host *host, u32 qpn, bool background);
	static snic_burst *on_burst(snic_host *host);
	static bool on_pull(snic_host *host, snic_seg_iter *it, void *to, u32 len);
	static void on_finish_references(snic_host *host);
	static bool on_one_sided(snic_host *host, const snic_one_sided *request);
	static snic_one_sided_status on_one_sided_nowait(snic_host *host,
							 const snic_one_sided *request);
	static void on_qp_failed(snic_host *host, u32 qpn);
	static void on_linger(snic_host *host, u32 qpn);
	static constexpr snic_host_ops make_host_ops(bool one_sided, bool lingers) noexcept;

	static const snic_host_ops host_ops[2][2]; /* [one_sided][lingers] */

	uint8_t mac_[6]{};
	port_clock *device_clock_ = nullptr;
	Bus bus_{};
	ProcessMemory dma_;

	std::shared_mutex vectors_lock_; /* protects vectors_; held shared while a handler runs */
	Vector vectors_[num_vectors];
	std::atomic<u32> raised_{0}; /* vectors whose handler is to be called */
	std::atomic<u32> running_{0}; /* vectors whose handler a thread runs */
	QpList deferred_; /* QPs for which snic_qp_run() is to be called again */
};

} // namespace sirdma::twin
