// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A device that knows only its command queue, for tests of the driver core:
// commands succeed, fail, take their time, get lost or come back in the wrong
// slot as the test wants. Its memory checks every address it is given.
#pragma once

#include "c_api.hpp"

#include <condition_variable>
#include <cstdlib>

extern "C" {
#include "hw/cqp_cmd.h"
#include "hw/hw.h"
#include "hw/stag.h"
}

namespace sirdma::test
{

class FakeDevice {
public:
	struct Command {
		u32 idx;
		u32 op;
		sirdma_cqp_wqe wqe;
	};
	struct Reply {
		u32 status = 0; // major 31:16, minor 15:0
		u64 retval = 0;
		bool lost = false; // no completion ever
		u32 skew = 0; // added to the reported index
	};
	// Asked for each command; nothing: the device's own answer.
	using Script = std::function<std::optional<Reply>(const Command &)>;

	struct Options {
		u64 seed = 1;
		u32 max_sds = 8;
		u32 max_pbles = 8 * 262144;
		u32 max_ids = 1024;
		bool has_srqs = true;
		u32 num_vectors = 4;
		bool async = false; // commands run on a thread of the device
	};

	explicit FakeDevice(Options opts) : opts_(opts), rng_(opts.seed)
	{
		static const sirdma_bus_ops ops = {
			.read32 = [](sirdma_bus *b, u32 reg) { return self(b).read(reg); },
			.write32 = [](sirdma_bus *b, u32 reg, u32 val) { self(b).write(reg, val); },
			.dma_alloc = [](sirdma_bus *b, __u64 size,
					sirdma_dma_mem *mem) { return self(b).alloc(size, mem); },
			.dma_free = [](sirdma_bus *b, sirdma_dma_mem *mem) { self(b).free(mem); },
			.irq_request = [](sirdma_bus *b, u32 v, sirdma_irq_fn fn,
					  void *ctx) { return self(b).irq_request(v, fn, ctx); },
			.irq_free = [](sirdma_bus *b, u32 v) { self(b).irq_free(v); },
		};

		bus_.ops = &ops;
		bus_.num_vectors = opts.num_vectors;
		bus_.dev = this;
		irqs_ = std::vector<Irq>(opts.num_vectors);
		if (opts.async)
			worker_ = std::thread([this] { work(); });
	}
	FakeDevice() : FakeDevice(Options{}) {}
	~FakeDevice()
	{
		if (worker_.joinable()) {
			{
				std::lock_guard hold(wake_lock_);
				stop_ = true;
			}
			wake_.notify_all();
			worker_.join();
		}
		EXPECT_TRUE(blocks_.empty()) << blocks_.size() << " DMA blocks leaked";
		for (auto &irq : irqs_)
			EXPECT_EQ(irq.fn, nullptr) << "vector not freed";
		for (auto &[pa, block] : blocks_)
			std::free(block.va);
	}
	FakeDevice(const FakeDevice &) = delete;
	FakeDevice &operator=(const FakeDevice &) = delete;

	sirdma_bus *bus() { return &bus_; }
	void set_script(Script script)
	{
		std::lock_guard hold(run_);
		script_ = std::move(script);
	}
	// Async devices: take no further command until released; with @commands only so many.
	void hold(bool on) { allow(on ? 0 : UINT64_MAX); }
	void allow(u64 commands)
	{
		{
			std::lock_guard hold(wake_lock_);
			allowed_ = commands;
		}
		wake_.notify_all();
	}
	size_t dma_blocks()
	{
		std::lock_guard hold(mem_lock_);
		return blocks_.size();
	}
	u64 largest_block()
	{
		std::lock_guard hold(mem_lock_);
		u64 most = 0;
		for (auto &[pa, block] : blocks_)
			most = std::max(most, block.size);
		return most;
	}
	void set_dma_fail(std::function<bool(u64)> fail)
	{
		std::lock_guard hold(mem_lock_);
		dma_fail_ = std::move(fail);
	}

	// What the device reads at PBLE @idx: SD -> (cached) PD -> page.
	std::optional<u64> pble(u32 idx)
	{
		std::lock_guard hold(run_);
		u64 off = u64{idx} * 8;
		auto sd = sds_.find(static_cast<u32>(off >> 21));
		if (idx >= committed_ || sd == sds_.end())
			return std::nullopt;
		u64 base = sd->second & SIRDMA_SDDATA_ADDR;
		if (sd->second & SIRDMA_SDDATA_DIRECT)
			return load(base + (off & 0x1fffff));
		u32 pd = static_cast<u32>(off >> 12 & 511);
		auto cached = pds_.find({sd->first, pd});
		if (cached == pds_.end()) {
			u64 val = load(base + pd * 8);
			if (!(val & SIRDMA_PD_VALID))
				return std::nullopt;
			cached = pds_.emplace(std::pair{sd->first, pd}, val & SIRDMA_PD_ADDR).first;
		}
		return load(cached->second + (off & 4095));
	}
	bool sd_valid(u32 idx)
	{
		std::lock_guard hold(run_);
		return sds_.contains(idx);
	}
	bool sd_direct(u32 idx)
	{
		std::lock_guard hold(run_);
		return sds_.contains(idx) && (sds_[idx] & SIRDMA_SDDATA_DIRECT);
	}
	u64 executed() const { return executed_.load(); }
	u32 resets() const { return resets_.load(); }
	// A reset clears a fault.
	void set_status(u32 status) { status_ = status; }
	std::vector<Command> history()
	{
		std::lock_guard hold(run_);
		return history_;
	}
	void keep_history() { keep_ = true; }

	// One call of a handler; how many events it took.
	u32 call(u32 vector, u32 budget)
	{
		Irq &irq = irqs_[vector];
		std::lock_guard hold(*irq.running);

		EXPECT_FALSE(std::exchange(irq.entered, true)) << "handler called within itself";
		u32 done = irq.fn ? irq.fn(irq.ctx, vector, budget) : 0;
		irq.entered = false;
		return done;
	}
	// Events, as the device writes them; false when the queue is full.
	bool raise_ceqe(u32 ceq, u64 cookie, bool irq = true)
	{
		{
			std::lock_guard hold(run_);
			if (!post_ceqe(ceq, cookie))
				return false;
		}
		if (irq)
			deliver();
		else
			pending_irqs_ &= ~(1ull << SIRDMA_VECTOR_CEQ(ceq));
		return true;
	}
	bool raise_aeqe(u64 event_ctx, u64 val, bool irq = true)
	{
		{
			std::lock_guard hold(run_);
			Eq &q = aeq_;
			if (!q.entries || q.pending == q.entries)
				return false;
			auto *e = static_cast<sirdma_aeqe *>(at(q.pa + q.prod * 16ull, 16));
			val &= ~SIRDMA_AEQE_VALID;
			if (q.polarity)
				val |= SIRDMA_AEQE_VALID;
			e->event_ctx = event_ctx;
			__atomic_store_n(&e->val, val, __ATOMIC_RELEASE);
			q.advance();
			if (irq)
				pending_irqs_ |= 1;
		}
		deliver();
		return true;
	}
	void raise_irq(u32 vector)
	{
		pending_irqs_ |= 1ull << vector;
		deliver();
	}
	u32 aeq_pending()
	{
		std::lock_guard hold(run_);
		return aeq_.pending;
	}
	u32 ceq_pending(u32 id)
	{
		std::lock_guard hold(run_);
		return ceqs_[id].pending;
	}

private:
	struct Bus : sirdma_bus {
		FakeDevice *dev;
	};
	struct Block {
		void *va;
		u64 size;
	};
	struct Irq {
		sirdma_irq_fn fn = nullptr;
		void *ctx = nullptr;
		bool entered = false;
		std::unique_ptr<std::recursive_mutex> running =
			std::make_unique<std::recursive_mutex>();
	};
	struct Eq {
		u64 pa = 0;
		u32 entries = 0, prod = 0, pending = 0;
		bool polarity = true;

		void advance()
		{
			pending++;
			if (++prod == entries) {
				prod = 0;
				polarity = !polarity;
			}
		}
	};

	static FakeDevice &self(sirdma_bus *bus) { return *static_cast<Bus *>(bus)->dev; }

	int alloc(u64 size, sirdma_dma_mem *mem)
	{
		u64 bytes = (size + 4095) & ~4095ull;
		u64 align = std::clamp<u64>(std::bit_ceil(bytes), 4096, 2 << 20);
		std::lock_guard hold(mem_lock_);
		u64 pa;

		if (dma_fail_ && dma_fail_(size))
			return -ENOMEM;
		void *va = std::aligned_alloc(4096, bytes);
		memset(va, 0, bytes);
		do {
			pa = (rng_() >> 8) & ~(align - 1);
		} while (find(pa) || find(pa + bytes - 1));
		blocks_[pa] = {va, bytes};
		*mem = {.va = va, .pa = pa, .size = size};
		return 0;
	}
	void free(sirdma_dma_mem *mem)
	{
		std::lock_guard hold(mem_lock_);
		auto it = blocks_.find(mem->pa);

		if (it == blocks_.end() || it->second.va != mem->va) {
			ADD_FAILURE() << "free of memory that is not allocated";
			return;
		}
		std::free(mem->va);
		blocks_.erase(it);
		*mem = {};
	}
	Block *find(u64 pa, u64 *off = nullptr)
	{
		auto it = blocks_.upper_bound(pa);

		if (it == blocks_.begin())
			return nullptr;
		--it;
		if (pa - it->first >= it->second.size)
			return nullptr;
		if (off)
			*off = pa - it->first;
		return &it->second;
	}
	void *at(u64 pa, u64 len)
	{
		static u64 nowhere[1024];
		std::lock_guard hold(mem_lock_);
		u64 off;
		Block *block = find(pa, &off);

		if (!block || len > block->size - off) {
			ADD_FAILURE() << "device access to unmapped memory at 0x" << std::hex << pa;
			return nowhere;
		}
		return static_cast<u8 *>(block->va) + off;
	}
	u64 load(u64 pa)
	{
		return __atomic_load_n(static_cast<u64 *>(at(pa, 8)), __ATOMIC_ACQUIRE);
	}

	int irq_request(u32 vector, sirdma_irq_fn fn, void *ctx)
	{
		if (vector >= irqs_.size())
			return -EINVAL;
		std::lock_guard hold(*irqs_[vector].running);
		if (irqs_[vector].fn)
			return -EBUSY;
		irqs_[vector].fn = fn;
		irqs_[vector].ctx = ctx;
		return 0;
	}
	void irq_free(u32 vector)
	{
		std::lock_guard hold(*irqs_[vector].running);
		irqs_[vector].fn = nullptr;
	}
	static constexpr u32 irq_budget = 16;
	// Handlers run in whatever thread raised them, within its register access: the worst case.
	// What a handler raises itself is delivered when it has returned.
	void deliver()
	{
		static thread_local bool delivering;

		if (std::exchange(delivering, true))
			return;
		for (u64 pending; (pending = pending_irqs_.exchange(0));) {
			for (u32 v = 0; v < irqs_.size(); v++) {
				if ((pending >> v & 1) && call(v, irq_budget) == irq_budget)
					pending_irqs_ |= u64{1} << v;
			}
		}
		delivering = false;
	}

	u32 read(u32 reg)
	{
		switch (reg) {
		case SIRDMA_REG_ID:
			return SIRDMA_ID_MAGIC;
		case SIRDMA_REG_VERSION:
			return SIRDMA_HW_VERSION;
		case SIRDMA_REG_STATUS:
			return status_.load();
		case SIRDMA_REG_CCQPSTATUS:
			return ring_entries_ ? SIRDMA_CCQPSTATUS_DONE : 0;
		case SIRDMA_REG_CQPTAIL:
			return tail_reg_;
		case SIRDMA_REG_CQPERRCODES:
			return err_codes_;
		default:
			return 0;
		}
	}
	void write(u32 reg, u32 val)
	{
		switch (reg) {
		case SIRDMA_REG_CTRL:
			reset();
			break;
		case SIRDMA_REG_CCQPLOW:
			ctx_low_ = val;
			break;
		case SIRDMA_REG_CCQPHIGH:
			start(u64{val} << 32 | ctx_low_);
			break;
		case SIRDMA_REG_CQPDB:
			doorbell(val);
			break;
		case SIRDMA_REG_PMPDINV: {
			std::lock_guard hold(run_);
			pds_.erase({static_cast<u32>(SIRDMA_GET(SIRDMA_PMPDINV_SDIDX, val)),
				    static_cast<u32>(SIRDMA_GET(SIRDMA_PMPDINV_PDIDX, val))});
			break;
		}
		case SIRDMA_REG_CQARM: {
			std::lock_guard hold(run_);
			notify_ccq();
			break;
		}
		case SIRDMA_REG_CEQACK: {
			std::lock_guard hold(run_);
			consume(ceqs_[static_cast<u32>(SIRDMA_GET(SIRDMA_CEQACK_ID, val))],
				static_cast<u32>(SIRDMA_GET(SIRDMA_CEQACK_COUNT, val)));
			break;
		}
		case SIRDMA_REG_AEQALLOC: {
			std::lock_guard hold(run_);
			consume(aeq_, val);
			break;
		}
		default:
			ADD_FAILURE() << "write to register 0x" << std::hex << reg;
		}
		deliver();
	}
	void consume(Eq &q, u32 count)
	{
		EXPECT_GE(q.pending, count) << "more events acknowledged than written";
		q.pending -= std::min(q.pending, count);
	}

	void reset()
	{
		std::lock_guard hold(run_);

		resets_++;
		status_ = SIRDMA_STATUS_READY;
		ring_entries_ = 0;
		head_ = 0;
		tail_ = 0;
		polarity_ = true;
		tail_reg_ = 0;
		ccq_entries_ = 0;
		committed_ = 0;
		sds_.clear();
		pds_.clear();
		ceqs_.clear();
		aeq_ = {};
	}
	void start(u64 ctx_pa)
	{
		std::lock_guard hold(run_);
		auto *ctx = static_cast<sirdma_cqp_ctx *>(at(ctx_pa, sizeof(sirdma_cqp_ctx)));

		ring_pa_ = ctx->sq_base;
		ring_entries_ = ctx->sq_entries;
		EXPECT_EQ(ring_pa_ % 512, 0u);
		EXPECT_TRUE(std::has_single_bit(u32{ring_entries_}));
	}
	void doorbell(u32 head)
	{
		if (!opts_.async) {
			// Whoever executes takes what others announce meanwhile as well.
			head_ = head;
			std::lock_guard hold(run_);
			while (tail_ != head_)
				execute();
			return;
		}
		{
			std::lock_guard hold(wake_lock_);
			std::lock_guard hold2(run_);
			// Heads must arrive in order: never fewer commands outstanding than before.
			u32 mask = ring_entries_ - 1;
			EXPECT_GE((head - tail_) & mask, (head_ - tail_) & mask) << "doorbell went "
										    "backwards";
			head_ = head;
			rung_ = true;
		}
		wake_.notify_all();
	}
	void work()
	{
		std::unique_lock wake(wake_lock_);

		for (;;) {
			wake_.wait(wake, [&] { return stop_ || (rung_ && allowed_); });
			if (stop_)
				return;
			rung_ = false;
			wake.unlock();
			for (bool more = true; more;) {
				{
					std::lock_guard hold(run_);
					more = tail_ != head_ && allowed_;
					if (more) {
						allowed_--;
						execute();
					}
				}
				deliver();
			}
			wake.lock();
			if (!allowed_)
				rung_ = true;
		}
	}

	void execute()
	{
		Command cmd{.idx = tail_, .op = 0, .wqe = {}};
		auto *slot = static_cast<sirdma_cqp_wqe *>(at(ring_pa_ + tail_ * 64ull, 64));
		u64 hdr = __atomic_load_n(&slot->hdr, __ATOMIC_ACQUIRE);

		EXPECT_EQ(!!(hdr & SIRDMA_CQP_VALID), polarity_)
			<< "stale command in slot " << tail_;
		memcpy(&cmd.wqe, slot, sizeof(cmd.wqe));
		cmd.op = static_cast<u32>(SIRDMA_GET(SIRDMA_CQP_OPCODE, hdr));
		if (keep_)
			history_.push_back(cmd);
		executed_++;
		if (++tail_ == ring_entries_) {
			tail_ = 0;
			polarity_ = !polarity_;
		}
		std::optional<Reply> reply = script_ ? script_(cmd) : std::nullopt;
		bool create_ccq = false, destroy_ccq = false;
		if (!reply || (!reply->status && !reply->lost))
			perform(cmd, create_ccq, destroy_ccq);
		if (!reply)
			reply = Reply{};
		if (reply->lost)
			return;
		if (reply->status)
			err_codes_ = reply->status;
		tail_reg_ = static_cast<u32>(tail_ | (reply->status ? SIRDMA_CQPTAIL_OP_ERR : 0));
		if (ccq_entries_ && !create_ccq)
			post_ccqe(cmd, *reply);
		if (destroy_ccq)
			ccq_entries_ = 0;
	}
	void perform(const Command &cmd, bool &create_ccq, bool &destroy_ccq)
	{
		switch (cmd.op) {
		case SIRDMA_CQP_QUERY_FPM: {
			auto *q = static_cast<sirdma_fpm_query *>(
				at(cmd.wqe.w2, sizeof(sirdma_fpm_query)));
			*q = {};
			q->max_qps = q->max_cqs = q->max_mrs = q->max_pds = opts_.max_ids;
			q->max_srqs = opts_.has_srqs ? opts_.max_ids : 0;
			q->max_pbles = opts_.max_pbles;
			q->max_sds = opts_.max_sds;
			q->max_ceqs = opts_.num_vectors - 1;
			q->max_arp = q->max_sgids = 16;
			q->max_ird = q->max_ord = 16;
			q->max_cqe = 4096;
			break;
		}
		case SIRDMA_CQP_COMMIT_FPM: {
			auto *c = static_cast<sirdma_fpm_commit *>(
				at(cmd.wqe.w2, sizeof(sirdma_fpm_commit)));
			EXPECT_EQ(c->obj[SIRDMA_HMC_OBJ_PBLE].base, 0u);
			committed_ = c->obj[SIRDMA_HMC_OBJ_PBLE].count;
			break;
		}
		case SIRDMA_CQP_UPDATE_SDS:
			update_sd(cmd.wqe.w0, cmd.wqe.w1);
			update_sd(cmd.wqe.w4, cmd.wqe.w5);
			update_sd(cmd.wqe.w6, cmd.wqe.w7);
			for (u32 i = 0; i < SIRDMA_GET(SIRDMA_CQP_SDS_BUF_COUNT, cmd.wqe.hdr);
			     i++) {
				auto *e = static_cast<sirdma_sd_entry *>(
					at(cmd.wqe.w2 + i * 16ull, 16));
				update_sd(e->cmd, e->data);
			}
			break;
		case SIRDMA_CQP_CREATE_CQ:
			if (!(cmd.wqe.hdr & SIRDMA_CQP_CQ_IS_CCQ))
				break;
			ccq_entries_ = static_cast<u32>(SIRDMA_GET(SIRDMA_CQP_CQ_SIZE, cmd.wqe.w0));
			ccq_cookie_ = cmd.wqe.w1;
			ccq_pa_ = cmd.wqe.w4;
			ccq_shadow_ = cmd.wqe.w5;
			ccq_prod_ = 0;
			ccq_polarity_ = true;
			ccq_fired_ = ~0ull;
			create_ccq = true;
			break;
		case SIRDMA_CQP_DESTROY_CQ:
			destroy_ccq = SIRDMA_GET(SIRDMA_CQP_CQ_ID, cmd.wqe.hdr) == SIRDMA_CCQ_ID;
			break;
		case SIRDMA_CQP_CREATE_CEQ:
			ceqs_[static_cast<u32>(SIRDMA_GET(SIRDMA_CQP_CEQ_ID, cmd.wqe.hdr))] = {
				.pa = cmd.wqe.w4, .entries = static_cast<u32>(cmd.wqe.w0)};
			break;
		case SIRDMA_CQP_DESTROY_CEQ:
			ceqs_.erase(static_cast<u32>(SIRDMA_GET(SIRDMA_CQP_CEQ_ID, cmd.wqe.hdr)));
			break;
		case SIRDMA_CQP_CREATE_AEQ:
			aeq_ = {.pa = cmd.wqe.w4, .entries = static_cast<u32>(cmd.wqe.w0)};
			break;
		case SIRDMA_CQP_DESTROY_AEQ:
			aeq_ = {};
			break;
		case SIRDMA_CQP_GATHER_STATS: {
			auto *s = static_cast<u64 *>(at(cmd.wqe.w2, SIRDMA_STAT_COUNT * 8));
			EXPECT_EQ(cmd.wqe.w4, SIRDMA_STAT_COUNT * 8ull);
			for (u32 i = 0; i < SIRDMA_STAT_COUNT; i++)
				s[i] = 1000 + i;
			break;
		}
		default:
			break;
		}
	}
	void update_sd(u64 cmd, u64 data)
	{
		u32 idx = static_cast<u32>(SIRDMA_GET(SIRDMA_SDCMD_SDIDX, cmd));

		if (!(cmd & SIRDMA_SDCMD_VALID))
			return;
		EXPECT_TRUE(cmd & SIRDMA_SDCMD_WR);
		EXPECT_LT(idx, opts_.max_sds);
		std::erase_if(pds_, [&](auto &e) { return e.first.first == idx; });
		if (!(data & SIRDMA_SDDATA_VALID)) {
			EXPECT_TRUE(sds_.erase(idx)) << "SD " << idx << " was not valid";
			return;
		}
		EXPECT_FALSE(sds_.contains(idx)) << "SD " << idx << " is valid already";
		at(data & SIRDMA_SDDATA_ADDR, data & SIRDMA_SDDATA_DIRECT ? 2 << 20 : 4096);
		sds_[idx] = data;
	}
	void post_ccqe(const Command &cmd, const Reply &reply)
	{
		auto *e = static_cast<sirdma_ccqe *>(at(ccq_pa_ + ccq_prod_ * 32ull, 32));
		u64 hdr = SIRDMA_PREP(SIRDMA_CQE_WQEIDX, (cmd.idx + reply.skew) % ring_entries_) |
			  reply.status;

		if (reply.status)
			hdr |= SIRDMA_CQE_ERROR;
		if (ccq_polarity_)
			hdr |= SIRDMA_CQE_VALID;
		__atomic_store_n(&e->retval, reply.retval, __ATOMIC_RELAXED);
		e->op = SIRDMA_PREP(SIRDMA_CQP_OPCODE, cmd.op);
		__atomic_store_n(&e->hdr, hdr, __ATOMIC_RELEASE);
		if (++ccq_prod_ == ccq_entries_) {
			ccq_prod_ = 0;
			ccq_polarity_ = !ccq_polarity_;
		}
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		notify_ccq();
	}
	// One event for one arming, if there is something to see.
	void notify_ccq()
	{
		if (!ccq_entries_)
			return;
		auto *shadow = static_cast<sirdma_cq_shadow *>(at(ccq_shadow_, 64));
		u64 arm = __atomic_load_n(&shadow->arm, __ATOMIC_SEQ_CST);
		u64 cons = __atomic_load_n(&shadow->cons_idx, __ATOMIC_SEQ_CST);

		if (!(arm & SIRDMA_CQ_SHADOW_ARM_NEXT) || arm == ccq_fired_ || cons == ccq_prod_)
			return;
		ccq_fired_ = arm;
		post_ceqe(0, ccq_cookie_);
	}
	bool post_ceqe(u32 id, u64 cookie)
	{
		auto it = ceqs_.find(id);

		if (it == ceqs_.end() || it->second.pending == it->second.entries)
			return false;
		Eq &q = it->second;
		auto *e = static_cast<sirdma_ceqe *>(at(q.pa + q.prod * 8ull, 8));
		u64 val = SIRDMA_PREP(SIRDMA_CEQE_CQCTX, cookie);
		if (q.polarity)
			val |= SIRDMA_CEQE_VALID;
		__atomic_store_n(&e->val, val, __ATOMIC_RELEASE);
		q.advance();
		pending_irqs_ |= 1ull << SIRDMA_VECTOR_CEQ(id);
		return true;
	}

	Options opts_;
	std::mt19937_64 rng_;
	Bus bus_{};
	std::mutex mem_lock_; // memory
	std::map<u64, Block> blocks_;
	std::function<bool(u64)> dma_fail_;

	std::recursive_mutex run_; // the device's state, down to the event queues
	Script script_;
	u64 ring_pa_ = 0;
	std::atomic<u32> ring_entries_{0};
	std::atomic<u32> head_{0}; // also written without run_, by doorbells
	u32 ctx_low_ = 0, tail_ = 0;
	bool polarity_ = true;
	std::atomic<u32> tail_reg_{0}, err_codes_{0};
	u32 ccq_entries_ = 0, ccq_prod_ = 0;
	u64 ccq_cookie_ = 0, ccq_pa_ = 0, ccq_shadow_ = 0, ccq_fired_ = ~0ull;
	bool ccq_polarity_ = true;
	u32 committed_ = 0;
	std::map<u32, u64> sds_;
	std::map<std::pair<u32, u32>, u64> pds_; // cached page descriptors
	std::map<u32, Eq> ceqs_;
	Eq aeq_;
	std::vector<Command> history_;
	bool keep_ = false;

	std::atomic<u64> executed_{0};
	std::atomic<u32> resets_{0};
	std::atomic<u32> status_{SIRDMA_STATUS_READY};
	std::vector<Irq> irqs_;
	std::atomic<u64> pending_irqs_{0};

	std::mutex wake_lock_;
	std::condition_variable wake_;
	std::atomic<u64> allowed_{UINT64_MAX};
	bool rung_ = false, stop_ = false;
	std::thread worker_;
};

// Everything the driver core reports.
struct EventLog {
	std::mutex lock;
	std::vector<u64> cqs;
	std::vector<sirdma_async_event> async;
	std::function<void(u64)> on_cq;

	static const sirdma_hw_events *ops()
	{
		static const sirdma_hw_events events = {
			.cq_event =
				[](void *ctx, u64 cq) {
					auto *log = static_cast<EventLog *>(ctx);
					{
						std::lock_guard hold(log->lock);
						log->cqs.push_back(cq);
					}
					if (log->on_cq)
						log->on_cq(cq);
				},
			.async_event =
				[](void *ctx, const sirdma_async_event *ev) {
					auto *log = static_cast<EventLog *>(ctx);
					std::lock_guard hold(log->lock);
					log->async.push_back(*ev);
				},
		};
		return &events;
	}
	size_t count(sirdma_ae_code code)
	{
		std::lock_guard hold(lock);
		return static_cast<size_t>(std::count_if(async.begin(), async.end(), [&](auto &ev) {
			return ev.code == code;
		}));
	}
};

// sirdma_hw_config with defaults.
struct Config {
	u32 cqp_entries = 0;
	u32 num_ceqs = 0;
	u32 ceq_entries = 0;
	u32 aeq_entries = 0;
	u32 cmd_timeout_ms = 0;
	u32 first_qpn = 0;
	u32 limit_qpn = 0;
	u32 start_qpn = 0;

	operator sirdma_hw_config() const
	{
		return {cqp_entries,	num_ceqs,  ceq_entries, aeq_entries,
			cmd_timeout_ms, first_qpn, limit_qpn,	start_qpn};
	}
};

// The driver core brought up on a fake device.
class FakeHost {
public:
	explicit FakeHost(FakeDevice::Options opts = {}, Config config = {}) : dev(opts)
	{
		const sirdma_hw_config cfg = config;

		EXPECT_EQ(sirdma_hw_probe(&hw, dev.bus(), &cfg, EventLog::ops(), &log), 0);
	}
	~FakeHost() { sirdma_hw_remove(&hw); }
	FakeHost(const FakeHost &) = delete;
	FakeHost &operator=(const FakeHost &) = delete;

	FakeDevice dev;
	EventLog log;
	sirdma_hw hw{};
};

} // namespace sirdma::test
