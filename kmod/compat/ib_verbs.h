/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Callbacks of struct ib_device_ops whose signature changed, and names that were added. */
#ifndef COMPAT_IB_VERBS_H
#define COMPAT_IB_VERBS_H

#include <linux/version.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

/* Since 6.2 the RDMA core knows the operations of IBTA annex A19. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define IB_WR_ATOMIC_WRITE 15
#define IB_WC_ATOMIC_WRITE 9
#define IB_WC_FLUSH 8
#define IB_DEVICE_FLUSH_GLOBAL BIT_ULL(38)
#define IB_DEVICE_ATOMIC_WRITE BIT_ULL(40)
#endif

/*
 * Since 6.11 create_cq is given the attribute bundle. DEFINE_COMPAT_CREATE_CQ(name, fn)
 * defines the callback name() that calls fn(cq, attr, attrs).
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define DEFINE_COMPAT_CREATE_CQ(name, fn) \
	static int name(struct ib_cq *cq, const struct ib_cq_init_attr *attr, \
			struct ib_udata *udata) \
	{ \
		return fn(cq, attr, udata ? rdma_udata_to_uverbs_attr_bundle(udata) : NULL); \
	}
#else
#define DEFINE_COMPAT_CREATE_CQ(name, fn) \
	static int name(struct ib_cq *cq, const struct ib_cq_init_attr *attr, \
			struct uverbs_attr_bundle *attrs) \
	{ \
		return fn(cq, attr, attrs); \
	}
#endif

/* In newer kernels the callback resize_cq has another name and takes an unsigned number. */
#ifdef COMPAT_HAVE_resize_user_cq
#define COMPAT_RESIZE_CQ resize_user_cq
#define DEFINE_COMPAT_RESIZE_CQ(name, fn) \
	static int name(struct ib_cq *cq, unsigned int cqe, struct ib_udata *udata) \
	{ \
		return fn(cq, cqe, udata); \
	}
#else
#define COMPAT_RESIZE_CQ resize_cq
#define DEFINE_COMPAT_RESIZE_CQ(name, fn) \
	static int name(struct ib_cq *cq, int cqe, struct ib_udata *udata) \
	{ \
		return fn(cq, cqe, udata); \
	}
#endif

/*
 * Since 6.4 a driver may add details of an SRQ to those of the RDMA core.
 * DEFINE_COMPAT_SRQ_DETAILS(ops, fn) defines the operations @ops with that one, where it exists.
 */
#ifdef COMPAT_HAVE_fill_res_srq_entry
#define DEFINE_COMPAT_SRQ_DETAILS(ops, fn) \
	static const struct ib_device_ops ops = {.fill_res_srq_entry = fn}
#else
#define DEFINE_COMPAT_SRQ_DETAILS(ops, fn) static const struct ib_device_ops ops = {}
#endif

/*
 * Since 6.14 the RDMA core raises port events itself, from its own notifier of netdevs, unless a
 * driver does so. DEFINE_COMPAT_PORT_EVENT(ops, fn) defines the operations @ops with that callback,
 * where it exists.
 */
#ifdef COMPAT_HAVE_report_port_event
#define DEFINE_COMPAT_PORT_EVENT(ops, fn) \
	static const struct ib_device_ops ops = {.report_port_event = fn}
#else
#define DEFINE_COMPAT_PORT_EVENT(ops, fn) static const struct ib_device_ops ops = {}
#endif

/*
 * Since 6.12 reg_user_mr_dmabuf is given the attribute bundle, and since 6.17 a DMA handle, too, which
 * no software device can use.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define DEFINE_COMPAT_REG_USER_MR_DMABUF(name, fn) \
	static struct ib_mr *name(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr, int fd, \
				  int access, struct ib_dmah *dmah, \
				  struct uverbs_attr_bundle *attrs) \
	{ \
		if (dmah) \
			return ERR_PTR(-EOPNOTSUPP); \
		return fn(pd, offset, length, virt_addr, fd, access); \
	}
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define DEFINE_COMPAT_REG_USER_MR_DMABUF(name, fn) \
	static struct ib_mr *name(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr, int fd, \
				  int access, struct uverbs_attr_bundle *attrs) \
	{ \
		return fn(pd, offset, length, virt_addr, fd, access); \
	}
#else
#define DEFINE_COMPAT_REG_USER_MR_DMABUF(name, fn) \
	static struct ib_mr *name(struct ib_pd *pd, u64 offset, u64 length, u64 virt_addr, int fd, \
				  int access, struct ib_udata *udata) \
	{ \
		return fn(pd, offset, length, virt_addr, fd, access); \
	}
#endif

/* Since 6.17 reg_user_mr is given a DMA handle, which no software device can use. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define DEFINE_COMPAT_REG_USER_MR(name, fn) \
	static struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr, \
				  int access, struct ib_dmah *dmah, struct ib_udata *udata) \
	{ \
		if (dmah) \
			return ERR_PTR(-EOPNOTSUPP); \
		return fn(pd, start, length, virt_addr, access, udata); \
	}
#else
#define DEFINE_COMPAT_REG_USER_MR(name, fn) \
	static struct ib_mr *name(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr, \
				  int access, struct ib_udata *udata) \
	{ \
		return fn(pd, start, length, virt_addr, access, udata); \
	}
#endif

#endif
