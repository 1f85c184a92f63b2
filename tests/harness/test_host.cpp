// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "test_host.hpp"

#include "fabric.hpp"

namespace sirdma::test
{

const sirdma_bus_ops TestHost::bus_ops_ = {
	.read32 = bus_read,
	.write32 = bus_write,
	.dma_alloc = bus_alloc,
	.dma_free = bus_free,
	.irq_request = bus_irq_request,
	.irq_free = bus_irq_free,
};

const snic_host_ops TestHost::all_host_ops_ = {
	.irq = on_irq,
	.room = on_room,
	.tx = on_tx,
	.defer = on_defer,
	.burst = on_burst,
	.pull = on_pull,
	.finish_references = on_finish_references,
	.finish_kept = on_finish_kept,
	.finish_kept_before = on_finish_kept_before,
	.one_sided_nowait = on_one_sided_nowait,
	.one_sided = on_one_sided,
	.linger = on_linger,
};

TestHost::TestHost(const HostOptions &opts, std::shared_ptr<Clock> clock, Fabric *fabric)
	: opts_(opts), clock_(clock ? std::move(clock) : std::make_shared<Clock>()),
	  fabric_(fabric), dma_(opts.seed)
{
	bus_.ops = &bus_ops_;
	bus_.num_vectors = opts.cfg.max_ceqs + 1;
	bus_.host = this;
	dev_ = snic_dev_create(&opts_.cfg, &host_ops_, reinterpret_cast<snic_host *>(this),
			       dma_.port(), clock_->get());
	if (!dev_)
		throw std::runtime_error("snic_dev_create failed");
	snic_link_set(dev_, true, opts.mtu);
}

TestHost::~TestHost()
{
	stop_irq_thread();
	if (fabric_)
		fabric_->remove(this);
	snic_dev_destroy(dev_);
	for (auto &[pa, va] : blocks_) {
		dma_.unmap(pa);
		std::free(va);
	}
}

u32 TestHost::bus_read(sirdma_bus *bus, u32 reg)
{
	return snic_reg_read(self(bus).dev_, reg);
}

void TestHost::bus_write(sirdma_bus *bus, u32 reg, u32 val)
{
	smp_mb();
	snic_reg_write(self(bus).dev_, reg, val);
}

int TestHost::bus_alloc(sirdma_bus *bus, __u64 size, sirdma_dma_mem *mem)
{
	auto &host = self(bus);
	u64 bytes = (size + 4095) & ~4095ull;
	u64 align = std::clamp<u64>(std::bit_ceil(bytes), 4096, 2 << 20);

	{
		std::lock_guard hold(host.lock_);
		if (host.fail_after_ == 0)
			return -ENOMEM;
		if (host.fail_after_ > 0)
			host.fail_after_--;
	}
	void *va = std::aligned_alloc(4096, bytes);
	if (!va)
		return -ENOMEM;
	memset(va, 0, bytes);
	mem->va = va;
	mem->size = size;
	mem->pa = host.dma_.map(va, bytes, align);
	std::lock_guard hold(host.lock_);
	host.blocks_[mem->pa] = va;
	return 0;
}

void TestHost::bus_free(sirdma_bus *bus, sirdma_dma_mem *mem)
{
	auto &host = self(bus);
	void *va;

	{
		std::lock_guard hold(host.lock_);
		auto it = host.blocks_.find(mem->pa);
		if (it == host.blocks_.end()) {
			ADD_FAILURE() << "dma_free of a block that is not allocated";
			return;
		}
		va = it->second;
		host.blocks_.erase(it);
	}
	host.dma_.unmap(mem->pa);
	std::free(va);
	mem->va = nullptr;
	mem->pa = 0;
	mem->size = 0;
}

sirdma_dma_mem TestHost::alloc(u64 size)
{
	sirdma_dma_mem mem{};

	if (bus_alloc(&bus_, size, &mem) != 0)
		throw std::bad_alloc();
	return mem;
}

void TestHost::free(sirdma_dma_mem &mem)
{
	bus_free(&bus_, &mem);
}

size_t TestHost::dma_blocks()
{
	std::lock_guard hold(lock_);

	return blocks_.size();
}

int TestHost::bus_irq_request(sirdma_bus *bus, u32 vector, sirdma_irq_fn fn, void *ctx)
{
	auto &host = self(bus);

	if (vector >= bus->num_vectors || vector >= max_vectors)
		return -EINVAL;
	std::lock_guard hold(host.irqs_[vector].running);
	if (host.irqs_[vector].fn)
		return -EBUSY;
	host.irqs_[vector].fn = fn;
	host.irqs_[vector].ctx = ctx;
	return 0;
}

void TestHost::bus_irq_free(sirdma_bus *bus, u32 vector)
{
	auto &host = self(bus);
	std::lock_guard hold(host.irqs_[vector].running);

	host.irqs_[vector].fn = nullptr;
}

void TestHost::on_irq(snic_host *host, u32 vector)
{
	auto &h = self(host);

	if (vector >= h.bus_.num_vectors || vector >= max_vectors) {
		ADD_FAILURE() << "interrupt on vector " << vector << ", which does not exist";
		return;
	}
	h.raised_[vector]++;
	h.pending_ |= 1ull << vector;
}

bool TestHost::deliver_interrupts()
{
	u64 pending = pending_.exchange(0);
	bool any = false;

	while (pending) {
		u32 vector = static_cast<u32>(std::countr_zero(pending));
		Irq &irq = irqs_[vector];

		pending &= pending - 1;
		any = true;
		std::lock_guard hold(irq.running);
		if (irq.fn && irq.fn(irq.ctx, vector, opts_.irq_budget) == opts_.irq_budget)
			pending_ |= 1ull << vector;
	}
	return any;
}

void TestHost::start_irq_thread()
{
	irq_stop_ = false;
	irq_thread_ = std::thread([this] {
		while (!irq_stop_) {
			if (!deliver_interrupts())
				std::this_thread::sleep_for(std::chrono::microseconds(50));
		}
	});
}

void TestHost::stop_irq_thread()
{
	if (!irq_thread_.joinable())
		return;
	irq_stop_ = true;
	irq_thread_.join();
}

void TestHost::set_limits(const snic_limits &limits)
{
	std::lock_guard hold(lock_);

	limits_ = limits;
	longest_burst_ = 0;
}

u32 TestHost::longest_burst()
{
	std::lock_guard hold(lock_);

	return longest_burst_;
}

std::vector<u32> TestHost::set_room(bool room)
{
	std::lock_guard hold(lock_);
	auto waited = std::exchange(waiting_, {});

	room_ = room;
	stalled_.insert(stalled_.end(), waited.begin(), waited.end());
	return waited;
}

bool TestHost::on_room(snic_host *host, u32 qpn)
{
	auto &h = self(host);
	std::lock_guard hold(h.lock_);

	if (!h.room_)
		h.waiting_.push_back(qpn);
	return h.room_;
}

u32 TestHost::on_tx(snic_host *host, snic_burst *burst)
{
	auto &h = self(host);
	u32 accepted = std::min(burst->npkts, h.opts_.tx_room);

	u32 payload = 0;

	for (u32 i = 0; i < burst->npkts; i++)
		payload += burst->pkts[i].payload_len;
	{
		std::lock_guard hold(h.lock_);
		if (accepted < burst->npkts)
			h.stalled_.push_back(burst->qpn);
		h.longest_burst_ = std::max(h.longest_burst_, payload);
		burst->next = h.limits_;
	}
	if (h.fabric_)
		h.fabric_->transmit(h, *burst, accepted);
	if (snic_kept kept; h.keeps_ && snic_burst_keep(burst, &kept)) {
		h.kept_.push_back(kept);
		h.keeps_--;
	}
	return accepted;
}

void TestHost::drop_kept()
{
	for (snic_kept &kept : std::exchange(kept_, {}))
		snic_kept_put(&kept);
}

void TestHost::on_defer(snic_host *host, u32 qpn, bool background)
{
	auto &h = self(host);
	std::lock_guard hold(h.lock_);

	if (background && h.background_busy_)
		return;
	if (std::find(h.deferred_.begin(), h.deferred_.end(), qpn) == h.deferred_.end())
		h.deferred_.push_back(qpn);
}

void TestHost::ring(u32 qpn)
{
	snic_qp_ring(dev_, qpn);
	on_defer(reinterpret_cast<snic_host *>(this), qpn, false);
}

snic_burst *TestHost::on_burst(snic_host *)
{
	thread_local auto burst = std::make_unique<snic_burst>();
	thread_local auto copies = std::make_unique<u8[]>(SNIC_BURST_BYTES);

	burst->copies = copies.get();
	return burst.get();
}

void TestHost::on_linger(snic_host *host, u32 qpn)
{
	auto &h = self(host);
	std::lock_guard hold(h.lock_);

	h.lingering_.push_back(qpn);
}

void TestHost::acknowledge_lingering()
{
	for (u32 qpn : std::exchange(lingering_, {}))
		snic_qp_acknowledge(dev_, qpn);
}

bool TestHost::on_pull(snic_host *host, snic_seg_iter *it, void *to, u32 len)
{
	return self(host).fabric_->pull(*it, to, len);
}

bool TestHost::has_deferred()
{
	std::lock_guard hold(lock_);

	return !deferred_.empty() || !stalled_.empty();
}

bool TestHost::run_deferred()
{
	u32 qpn;
	bool resume;

	{
		std::lock_guard hold(lock_);
		resume = !stalled_.empty();
		auto &queue = resume ? stalled_ : deferred_;
		if (queue.empty())
			return false;
		qpn = queue.front();
		queue.pop_front();
	}
	if (resume)
		snic_tx_resume(dev_, qpn);
	else
		snic_qp_run(dev_, qpn);
	return true;
}

void TestHost::add_ip(const sirdma_ip &ip)
{
	if (fabric_)
		fabric_->add_ip(this, ip);
}

} // namespace sirdma::test
