/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device model on the links of this machine.
 *
 * Work runs to completion where it arises: a poster runs its queue, a poller
 * takes in packets. A helper thread does both for a process that does neither,
 * and leaves a process that polls alone.
 */
#pragma once

#include <thread>

#include "adapter.hpp"
#include "config.hpp"
#include "core.hpp"
#include "faults.hpp"
#include "neighbours.hpp"
#include "port_share.hpp"

namespace sirdma::twin
{

class Nic : public Adapter, private PacketSink {
public:
	/* Null with errno. */
	static std::unique_ptr<Nic> create(const Config &config);
	~Nic() override;

	u32 first_qpn() const noexcept override { return first_qpn_of(neighbours_->slot()); }
	u32 limit_qpn() const noexcept override { return first_qpn_of(neighbours_->slot() + 1); }

	u64 stat(sirdma_stat id) noexcept override;
	void run_qp(u32 qpn) noexcept override;
	void poll() noexcept override;
	void found(bool message) noexcept override;
	void expect_event() noexcept override;

private:
	Nic() = default;
	int start(const Config &config);
	bool open_links(const Config &config);
	bool open_free_address(uint32_t buffer);
	void help() noexcept;
	bool look_away() noexcept;
	u64 time_to_sleep() noexcept;
	void meet() noexcept;
	bool fall_asleep() noexcept;
	void wake_up() noexcept;
	bool serve(bool all) noexcept;
	bool owes() noexcept;
	u32 receive(bool all) noexcept;
	void deliver(const IpAddress &src, uint8_t *data, size_t len, bool icrc_ok,
		     bool more) noexcept;
	void datagram(const Path &path, uint8_t *data, size_t len, u32 index,
		      bool more) noexcept override;
	void packet(const IpAddress &src, uint8_t *data, size_t len, bool more) noexcept override;
	void packet(const IpAddress &src, const SuperPacket &super, bool more) noexcept override;
	void malformed() noexcept override;
	void end_turn() noexcept override;
	void wake() noexcept;
	TxScratch &scratch() noexcept;
	bool can_work() noexcept override;
	void wake_for_timers() noexcept;
	void flush() noexcept override;
	u32 transmit(snic_burst &burst) noexcept override;
	snic_burst *burst() noexcept override;
	bool pull(snic_seg_iter &it, void *to, u32 len) noexcept override;
	void revoke() noexcept override;

	LinkKind kind_{};
	std::unique_ptr<PcapWriter> pcap_;
	std::unique_ptr<Neighbours> neighbours_;
	std::unique_ptr<PortShare> port_;
	std::unique_ptr<UdpSender> sender_;
	port_clock *clock_ = nullptr;
	std::unique_ptr<std::atomic<TxScratch *>[]> scratch_; /* by port_cpu() */

	std::mutex
		rx_lock_; /* one receiver at a time keeps packets in order; protects what follows */
	std::unique_ptr<Faults> faults_;
	snic_rx_batch batch_{}; /* ends before rx_lock_ is dropped */
	IdFilter ids_;
	bool ids_count_ = true; /* segments that came together were numbered by their sender */
	u32 port_idle_ = 0; /* times since the port had something */
	u32 rounds_to_clock_ = 0;
	bool polled_ = false; /* a poller takes in what comes, not the helper */

	QpList stalled_; /* QPs the socket had no room for; under lists_lock_ */

	/* The helper. */
	std::thread helper_;
	Fd wake_fd_;
	std::atomic<bool> stop_{false};
	std::atomic<bool> helping_{false};
	std::atomic<u64> wakes_at_{0}; /* when the sleeping helper looks at the timers; 0: awake */
	std::atomic<bool> leaves_alone_{false}; /* it sleeps without an eye on the socket */
	u64 seen_polls_ = 0;
	u32 watch_ = 0; /* wakes until it leaves a process alone that polls */
	std::atomic<u64> polls_{0};
	std::atomic<u32> polls_since_arm_{0};
	std::atomic<bool> inside_{false}; /* of a call: a hint, where there are many threads */
	std::atomic<u64> rounds_{0}; /* in which packets came */
	std::atomic<u32> idle_polls_{0}; /* since then */
};

} // namespace sirdma::twin
