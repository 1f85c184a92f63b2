/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "cq.hpp"

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include <sirdma/geometry.h>

#include "pd.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

/* Ring elements for @cqe completions, within the driver's limits. */
uint64_t ring_size(uint32_t cqe, const Limits &limits) noexcept
{
	return std::max<uint64_t>(sirdma_cq_elements(cqe),
				  std::max<uint32_t>(limits.min_cq_size, 4));
}

constexpr uint64_t timestamp_wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/* Fields of the extended poll that this device has. */
uint64_t supported_wc_flags(const Context &context) noexcept
{
	return context.cq_flags ? IBV_WC_STANDARD_FLAGS | timestamp_wc_flags :
				  uint64_t{IBV_WC_STANDARD_FLAGS};
}

/* Register @bytes of @ring, a multiple of pages, and @more bytes behind them. */
int register_ring(Context &context, const PageBuffer &ring, size_t bytes, size_t more,
		  std::unique_ptr<RingRegistration> &registration) noexcept
{
	sirdma_mem_reg_req what{};

	what.reg_type = SIRDMA_MEMREG_CQ;
	what.cq_pages = static_cast<uint16_t>(bytes / hw_page_size);
	registration.reset(new (std::nothrow) RingRegistration);
	if (!registration)
		return ENOMEM;
	return registration->open(&context.pd->base, ring, bytes + more, what);
}

} // namespace

Cq::Cq(PageBuffer ring, PageBuffer shadow, sirdma_cq_shadow *shadow_area, uint32_t size,
       bool locked) noexcept
	: CqBase{}, ring_(std::move(ring)), shadow_(std::move(shadow)), shadow_area_(shadow_area),
	  queue_({reinterpret_cast<sirdma_cqe *>(ring_.data()), size}, shadow_area, locked)
{
}

Cq::~Cq()
{
	if (domain_)
		domain_->users.fetch_sub(1);
}

int Cq::register_memory(Context &context) noexcept
{
	const size_t ring_bytes = round_to_pages(queue_.capacity() * sizeof(sirdma_cqe));

	if (const int err = register_ring(context, ring_, ring_bytes,
					  shadow_ ? 0 : SIRDMA_SHADOW_SIZE, ring_registration_))
		return err;
	if (!shadow_)
		return 0;

	sirdma_mem_reg_req what{};

	what.reg_type = SIRDMA_MEMREG_CQ;
	what.cq_pages = 1;
	return shadow_registration_.open(&context.pd->base, shadow_, SIRDMA_SHADOW_SIZE, what);
}

int Cq::create_in_kernel(Context &context, const ibv_cq_init_attr_ex &attr) noexcept
{
	CreateCqRequest req;
	CreateCqResponse resp;

	req.drv.user_cq_buf = reinterpret_cast<uintptr_t>(ring_.data());
	req.drv.user_shadow_area = reinterpret_cast<uintptr_t>(shadow_area_);
	if (attr.wc_flags & timestamp_wc_flags)
		req.drv.flags = SIRDMA_CQ_TIMESTAMPS;
	if (const int err = context.commands->create_cq(
		    &context.verbs, static_cast<int>(queue_.capacity()), attr.channel,
		    static_cast<int>(attr.comp_vector), &cq, req, resp))
		return err;
	cq.cqe = static_cast<int>(attr.cqe);
	queue_.attach(context.doorbell, resp.drv.cq_id, context.clears_arm);
	return 0;
}

Cq *Cq::create(Context &context, const ibv_cq_init_attr_ex &attr, bool locked) noexcept
{
	const uint64_t size = ring_size(attr.cqe, context.limits);

	if (attr.cqe < 1 || size > context.limits.max_cq_size) {
		errno = EINVAL;
		return nullptr;
	}

	const size_t ring_bytes = round_to_pages(size * sizeof(sirdma_cqe));
	const bool apart = context.cq_shadow_apart;
	const InChildren in_children = context.commands->rings_in_children;
	Pd *const domain = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? &Pd::of(attr.parent_domain) :
								       nullptr;
	PageBuffer ring = PageBuffer::ring(domain, RingKind::cq,
					   apart ? ring_bytes : ring_bytes + SIRDMA_SHADOW_SIZE,
					   in_children);
	PageBuffer shadow = apart ? PageBuffer::anonymous(SIRDMA_SHADOW_SIZE, in_children) :
				    PageBuffer{};

	if (!ring || (apart && !shadow))
		return nullptr;

	auto *area = reinterpret_cast<sirdma_cq_shadow *>(apart ? shadow.data() :
								  ring.data() + ring_bytes);
	auto *cq = new (std::nothrow)
		Cq(std::move(ring), std::move(shadow), area, static_cast<uint32_t>(size), locked);

	if (!cq) {
		errno = ENOMEM;
		return nullptr;
	}

	if (domain && domain->rings.alloc) {
		cq->domain_ = domain;
		domain->users.fetch_add(1);
	}
	int err = cq->register_memory(context);
	if (!err)
		err = cq->create_in_kernel(context, attr);
	if (err) {
		delete cq;
		errno = err;
		return nullptr;
	}
	return cq;
}

int Cq::resize(Context &context, uint32_t cqe) noexcept
{
	const uint64_t size = ring_size(cqe, context.limits);
	const size_t bytes = round_to_pages(size * sizeof(sirdma_cqe));

	if (cqe < 1 || size > context.limits.max_cq_size)
		return EINVAL;
	/* If the shadow area follows the ring, the ring cannot move. */
	if (!shadow_)
		return EOPNOTSUPP;

	const std::lock_guard one_at_a_time(resizing_);

	if (queue_.unread() > cqe)
		return EINVAL;

	PageBuffer ring =
		PageBuffer::ring(domain_, RingKind::cq, bytes, context.commands->rings_in_children);
	if (!ring)
		return errno;

	std::unique_ptr<sirdma_cqe[]> kept(new (std::nothrow)
						   sirdma_cqe[queue_.room_to_keep() + 1]{});
	std::unique_ptr<RingRegistration> registration;
	ResizeCqRequest req;

	if (!kept)
		return ENOMEM;
	if (const int err = register_ring(context, ring, bytes, 0, registration))
		return err;
	req.drv.user_cq_buffer = reinterpret_cast<uintptr_t>(ring.data());

	const auto change = [&] {
		return context.commands->resize_cq(&cq, static_cast<int>(size), req);
	};

	if (const int err = queue_.replace_ring({reinterpret_cast<sirdma_cqe *>(ring.data()), size},
						std::move(kept), change))
		return err;
	ring_registration_ = std::move(registration);
	ring_ = std::move(ring);
	cq.cqe = static_cast<int>(cqe);
	return 0;
}

ibv_cq *create_cq(ibv_context *ibctx, int cqe, ibv_comp_channel *channel, int comp_vector) noexcept
{
	Context &context = Context::of(ibctx);
	ibv_cq_init_attr_ex attr{};

	attr.cqe = cqe < 0 ? 0 : static_cast<uint32_t>(cqe);
	attr.channel = channel;
	attr.comp_vector = static_cast<uint32_t>(comp_vector);

	Cq *cq = Cq::create(context, attr, !context.single_threaded);

	return cq ? &cq->cq : nullptr;
}

ibv_cq_ex *create_cq_ex(ibv_context *ibctx, ibv_cq_init_attr_ex *attr) noexcept
{
	Context &context = Context::of(ibctx);
	constexpr uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	bool locked = !context.single_threaded;

	if ((attr->comp_mask & ~known) || (attr->wc_flags & ~supported_wc_flags(context)) ||
	    (flags & ~static_cast<uint32_t>(IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
		errno = EOPNOTSUPP;
		return nullptr;
	}
	if (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		locked = false;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) {
		if (!attr->parent_domain || !Pd::of(attr->parent_domain).contained) {
			errno = EINVAL;
			return nullptr;
		}
		locked = locked && Pd::of(attr->parent_domain).locked();
	}

	Cq *cq = Cq::create(context, *attr, locked);

	if (!cq)
		return nullptr;
	cq->enable_extended_poll(attr->wc_flags);
	return &cq->ex;
}

int modify_cq(ibv_cq *ibcq, ibv_modify_cq_attr *attr) noexcept
{
	return commands(ibcq->context).modify_cq(ibcq, attr);
}

int resize_cq(ibv_cq *ibcq, int cqe) noexcept
{
	return Cq::of(ibcq).resize(Context::of(ibcq->context),
				   cqe < 0 ? 0 : static_cast<uint32_t>(cqe));
}

int destroy_cq(ibv_cq *ibcq) noexcept
{
	if (const int err = commands(ibcq->context).destroy_cq(ibcq))
		return err;
	delete &Cq::of(ibcq);
	return 0;
}

int poll_cq(ibv_cq *ibcq, int num_entries, ibv_wc *wc) noexcept
{
	return num_entries > 0 ? Cq::of(ibcq).queue().poll(num_entries, wc) : 0;
}

int req_notify_cq(ibv_cq *ibcq, int solicited_only) noexcept
{
	if (Cq::of(ibcq).queue().arm(solicited_only != 0) && ibcq->channel)
		commands(ibcq->context).req_notify_cq(ibcq);
	return 0;
}

void cq_event(ibv_cq *ibcq) noexcept
{
	Cq::of(ibcq).queue().event_taken();
}

} // namespace sirdma
