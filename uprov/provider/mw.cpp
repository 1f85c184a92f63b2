/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "mw.hpp"

#include <cerrno>
#include <new>

#include <sirdma/qpctx.h>

#include "context.hpp"
#include "verbs.hpp"

namespace sirdma
{

namespace
{

constexpr unsigned key_bits = 0xff;
/* A window has no local rights. Other devices accept the flag, and rdma-core's own tests set it. */
constexpr unsigned known_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				 IBV_ACCESS_ZERO_BASED;

uint32_t rights_of(unsigned flags) noexcept
{
	return (flags & IBV_ACCESS_REMOTE_WRITE ? SIRDMA_ACCESS_REMOTE_WRITE : 0u) |
	       (flags & IBV_ACCESS_REMOTE_READ ? SIRDMA_ACCESS_REMOTE_READ : 0u) |
	       (flags & IBV_ACCESS_REMOTE_ATOMIC ? SIRDMA_ACCESS_REMOTE_ATOMIC : 0u);
}

/* The structure of the application. The provider knows more about it. */
bool is_zero_based(const ibv_mr *mr) noexcept
{
	return reinterpret_cast<const verbs_mr *>(mr)->access & IBV_ACCESS_ZERO_BASED;
}

} // namespace

int describe_bind(const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info,
		  sirdma_bind &bind) noexcept
{
	const auto flags = static_cast<unsigned>(info.mw_access_flags);

	if (!mw || (flags & ~known_flags))
		return EINVAL;
	/* Only a request that ends a binding names no region. */
	if (!info.mr && (info.addr || info.length))
		return EINVAL;
	/* IBTA o10-36.2.2. A window must lie in a region that is addressed as its memory. */
	if ((mw->type == IBV_MW_TYPE_1 && (flags & IBV_ACCESS_ZERO_BASED)) ||
	    (info.mr && is_zero_based(info.mr)))
		return EINVAL;
	bind = {
		.addr = info.addr,
		.length = info.length,
		.window = (mw->rkey & ~key_bits) | (rkey & key_bits),
		.region = info.mr ? info.mr->lkey : 0,
		.rights = rights_of(flags),
		.type1 = mw->type == IBV_MW_TYPE_1,
		.zero_based = (flags & IBV_ACCESS_ZERO_BASED) != 0,
	};
	return 0;
}

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) noexcept
{
	auto *mw = new (std::nothrow) ibv_mw{};

	if (!mw) {
		errno = ENOMEM;
		return nullptr;
	}
	if (const int err = commands(pd->context).alloc_mw(pd, type, mw)) {
		delete mw;
		errno = err;
		return nullptr;
	}
	return mw;
}

int dealloc_mw(ibv_mw *mw) noexcept
{
	if (const int err = commands(mw->context).dealloc_mw(mw))
		return err;
	delete mw;
	return 0;
}

/* A window of type 1. Its key changes now; when the bind fails, the application restores it. */
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind) noexcept
{
	ibv_send_wr wr{}, *bad = nullptr;

	if (mw->type != IBV_MW_TYPE_1)
		return EINVAL;
	wr.wr_id = bind->wr_id;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = bind->send_flags;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	if (const int err = post_send(qp, &wr, &bad))
		return err;
	mw->rkey = wr.bind_mw.rkey;
	return 0;
}

} // namespace sirdma
