/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device model on the links of this machine.
 *
 * Work runs to completion where it arises: a poster runs its queue, a poller
 * takes in packets. A helper thread does both for a process that does neither
 * (see helper.hpp).
 */
#pragma once

#include "adapter.hpp"
#include "answer_habit.hpp"
#include "answer_wait.hpp"
#include "cm/host.hpp"
#include "config.hpp"
#include "core.hpp"
#include "faults.hpp"
#include "groups.hpp"
#include "helper.hpp"
#include "neighbours.hpp"
#include "port_share.hpp"

namespace sirdma::twin
{

/*
 * Timers that are due wait until a poll of the receiver finds nothing: the packet that would
 * stop them may have come, while the process was stopped or had no processor. A peer that
 * sends without end does not hold them back for ever.
 */
class TimerHold {
public:
	/*
	 * Polls that find something while timers are due. They take in up to 8,192 datagrams, half
	 * of them of multicast groups; a socket buffer of 416 KiB, the most that users get by
	 * default, holds 554 small datagrams of 768 bytes each.
	 */
	static constexpr u32 polls_max = 512;

	/* @due: timers were due when the poll began; @got: what the poll has found. */
	bool may_fire(bool due, u32 got) noexcept
	{
		if (due && got && ++polls_ < polls_max)
			return false;
		polls_ = 0;
		return due;
	}
	bool waiting() const noexcept { return polls_; }

private:
	u32 polls_ = 0;
};

class Nic final : public Adapter, private PacketSink, private Helper::Device, private cm::Port {
public:
	/* Returns null with errno. */
	static std::unique_ptr<Nic> create(const Config &config);
	~Nic() override;

	u32 first_qpn() const noexcept override { return first_qpn_of(neighbours_->slot()); }
	u32 limit_qpn() const noexcept override { return first_qpn_of(neighbours_->slot() + 1); }

	u64 stat(sirdma_stat id) noexcept override;
	void run_qp(u32 qpn) noexcept override;
	bool poll() noexcept override;
	void found(bool message) noexcept override;
	void expect_event() noexcept override;
	void need_headers() noexcept override;
	void timers_armed() noexcept override { helper_.timers_armed(); }
	int resolve(const IpAddress &dst) noexcept override;
	bool has_groups() const noexcept override { return true; }
	int join(const IpAddress &group) noexcept override;
	void leave(const IpAddress &group) noexcept override;
	bool can_be_accessed() const noexcept override;
	void open_region(const AccessTable::Region &region) noexcept override;
	void close_region(u32 stag) noexcept override;
	void open_qp(u32 qpn, u32 pd, u32 rights) noexcept override;
	void close_qp(u32 qpn) noexcept override;
	cm::Port *cm_port() noexcept override { return this; }

private:
	/*
	 * So many polls while the helper sleeps show that the process polls, and does not only wait
	 * for an acknowledgement now and then. They take 0.2 ms or more. Not tuned.
	 */
	static constexpr u64 polls_without_helper = 4096;
	/*
	 * Time until a socket or ring without room is tried again, ns. The kernel sends a full buffer of its default size
	 * (212,992 bytes) in about this time at 1 GB/s.
	 */
	static constexpr u64 retry_stalled_ns = 200000;

	/*
	 * While it exists its thread may execute requests one-sided, and may have to wait for the memory of
	 * a peer. No lock is held, and no command runs.
	 */
	class MayAccess {
	public:
		explicit MayAccess(const Nic &nic) noexcept : ends_(nic.table_ && begin()) {}
		~MayAccess()
		{
			if (ends_)
				end();
		}
		MayAccess(const MayAccess &) = delete;
		MayAccess &operator=(const MayAccess &) = delete;

	private:
		static bool begin() noexcept;
		static void end() noexcept;

		const bool ends_;
	};

	Nic() = default;
	int start(const Config &config);
	bool open_links(const Config &config);
	bool open_free_address(uint32_t buffer);
	bool can_help() noexcept override;
	Helper::Files files() noexcept override;
	u64 ns_until_work() noexcept override;
	u64 ns_until_retry() noexcept override;
	bool fall_asleep() noexcept override;
	void wake_up() noexcept override;
	void manage(bool readable) noexcept override;
	void help() noexcept override;
	void linger(u32 qpn) noexcept override { push(lingering_, qpn); }
	void acknowledge_lingering() noexcept;
	[[gnu::noinline]] void await_answer() noexcept;
	[[gnu::noinline]] void note_post() noexcept;
	void answers_fail() noexcept;
	/* Who calls serve(), and why */
	enum class Effort : u32 {
		poll, /* a poll, which waits for nobody and looks at most things from time to time only */
		yielded, /* a poll that yielded its processor: it waits a little, and much time may have passed */
		ended, /* a poll after a peer has disconnected: it waits a little, and looks at everything */
		help, /* the helper, which knows that there is something: it waits, and looks at everything */
	};

	void try_to_receive(std::unique_lock<ShortLock> &receiving, Effort effort) noexcept;
	bool serve(Effort effort) noexcept;
	bool serve_for_poll(Effort effort) noexcept;
	[[gnu::noinline]] void receive_last() noexcept;
	bool owes() noexcept;
	bool port_is_next() noexcept;
	u32 receive(Effort effort, bool due) noexcept;
	void deliver(const Path &path, uint8_t *data, size_t len, bool icrc_ok, bool more) noexcept;
	void datagram(const Path &path, uint8_t *data, size_t len, u32 index,
		      bool more) noexcept override;
	bool verify(const Path &path, const uint8_t *data, size_t len, u32 index) noexcept;
	void management_datagram(const Path &path, uint8_t *data, size_t len, u32 index) noexcept;
	bool verify_management(const Path &path, const uint8_t *data, size_t len, u32 index,
			       sirdma_stat &why) noexcept;
	const IpAddress &address() const noexcept override { return addr_; }
	u32 slot() const noexcept override { return neighbours_->slot(); }
	u32 ip_mtu() const noexcept override { return mtu_; }
	void send(const IpAddress &dst, const sirdma_mad &mad) noexcept override;
	void note_end() noexcept override { peer_ended_.store(true, std::memory_order_release); }
	void packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
		    bool more) noexcept override;
	void stream(const IpAddress &src, const snic_stream &stream, uint8_t traffic_class,
		    bool more) noexcept override;
	bool ack_may_wait(bool more) const noexcept;
	void add_packet(const IpAddress &src, uint8_t *data, size_t len, uint8_t traffic_class,
			bool more) noexcept;
	void packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept override;
	void malformed() noexcept override;
	void end_batch() noexcept override;
	TxScratch &scratch() noexcept;
	/*
	 * A poll found nothing. Peers send their requests to a process that polls: it takes them in by
	 * itself. The helper is awake, or stays away, once it has seen that. If the process spins on its
	 * memory between polls, this needs many polls without the helper.
	 */
	void note_poll() noexcept
	{
		note_waited();
		if (table_ && (!helper_.process_spins() ||
			       helper_.polls() - seen_polls_.load(std::memory_order_relaxed) >
				       polls_without_helper))
			table_->note_poll();
	}
	void note_waited() noexcept
	{
		if (!waited_.load(std::memory_order_relaxed))
			waited_.store(true, std::memory_order_relaxed);
	}
	bool can_work() noexcept override;
	void flush() noexcept override;
	u32 transmit(snic_burst &burst) noexcept override;
	u32 transmit_parts(const snic_burst &burst) noexcept;
	u32 send(snic_burst &burst) noexcept;
	snic_burst *burst() noexcept override;
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept override;
	void finish_references() noexcept override;
	snic_one_sided_status one_sided_nowait(const snic_one_sided &request) noexcept override;
	bool one_sided(const snic_one_sided &request) noexcept override;
	bool kernel_pays() const noexcept;
	void qp_failed(u32 qpn) noexcept override;

	LinkKind kind_{};
	bool needs_packets_ =
		false; /* for captures or faults: neighbours send no super-packets and no streams */
	std::unique_ptr<PcapWriter> pcap_;
	std::unique_ptr<AccessTable> table_; /* null: no peer has access */
	std::unique_ptr<Neighbours> neighbours_;
	std::unique_ptr<PortShare> port_;
	std::unique_ptr<UdpSender> sender_;
	port_clock *clock_ = nullptr;
	bool started_ = false; /* the connection manager may know the device only then */
	std::atomic<u32> management_psn_{0};
	std::unique_ptr<std::atomic<TxScratch *>[]> scratch_; /* index: port_cpu() */

	ShortLock rx_lock_; /* one receiver at a time keeps the order; protects the members below */
	std::unique_ptr<Groups> groups_;
	std::atomic<u64> group_overruns_{0}; /* value that was last read under rx_lock_ */
	std::unique_ptr<Faults> faults_;
	snic_rx_batch batch_{}; /* this ends before rx_lock_ is dropped */
	/* The fields that all packets from neighbours have in common. Set by start(). */
	snic_rx_pkt neighbour_packet_{};
	IdFilter ids_;
	bool ids_count_ = true; /* the sender numbered the segments that came together */
	u32 port_idle_ = 0; /* number of receive calls since the last datagram */
	u64 port_looked_at_ = 0; /* ticks() */
	u32 polls_to_clock_ = 0;
	TimerHold timers_;
	bool polled_ = false; /* a poller receives, not the helper */

	/* See await_answer(). */
	AnswerWait answers_;
	std::atomic<u64> answers_awaited_{0}; /* see sirdma/stats.h */
	std::atomic<bool> peer_ended_{false}; /* the next poll looks at everything */
	/* Calls of serve() that received payload of requests, by pollers and by the helper. Written under rx_lock_. */
	std::atomic<u64> poller_payloads_{0}, helper_payloads_{0};
	std::atomic<u64> payloads_at_post_{
		0}; /* value of poller_payloads_ at the last post of a process that spins on its memory */
	std::atomic<u64> answered_at_{
		0}; /* when a poll returned after an answer, ticks(); 0: a post followed */

	AnswerHabit answer_habit_;

	/* See kernel_pays(). */
	std::atomic<bool> waited_{true}; /* a thread has polled since the last copy by the kernel */
	std::atomic<u64> accessed_at_{0}; /* its time, ticks() */
	std::atomic<u64> seen_polls_{0}; /* polls when the helper fell asleep last */

	QpList stalled_; /* QPs for which the socket had no room; protected by lists_lock_ */
	QpList lingering_; /* QPs that have received what nobody wants acknowledged soon */

	Helper helper_{*this}; /* stopped before the members above are destroyed */
};

} // namespace sirdma::twin
