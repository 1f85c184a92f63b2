/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A user context: the features of its provider, its doorbell page, its ring memory. */
#ifndef SIRDMA_DRV_UCONTEXT_H
#define SIRDMA_DRV_UCONTEXT_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

struct sirdma_doorbell;
struct sirdma_user;

/* Memory that the process of a context may map. */
struct sirdma_mmap_entry {
	struct rdma_user_mmap_entry entry;
	int (*map)(struct sirdma_mmap_entry *entry, struct ib_ucontext *ibuctx,
		   struct vm_area_struct *vma);
	void (*free)(struct sirdma_mmap_entry *entry); /* no process can map it any more */
};

struct sirdma_ucontext {
	struct ib_ucontext ibuctx;
	struct rdma_user_mmap_entry *db_entry;
	struct sirdma_doorbell *doorbell; /* for a provider that does not kick; else NULL */
	struct mutex ring_lock; /* protects rings and the use of each ring */
	struct list_head rings; /* list of struct sirdma_ring */
	struct sirdma_user *user;
	u32 kicker; /* number of the context, by which the device knows whose kicks a QP takes */
	bool kicks; /* the provider reads need_kick words and kicks */
	bool raw_attrs; /* cap.max_*_wr are the numbers that the application asked for */
};

static inline struct sirdma_ucontext *to_suctx(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct sirdma_ucontext, ibuctx);
}

static inline struct sirdma_ucontext *sirdma_udata_to_uctx(struct ib_udata *udata)
{
	return rdma_udata_to_drv_context(udata, struct sirdma_ucontext, ibuctx);
}

int sirdma_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata);
/* For a process that imports the context: what sirdma_alloc_ucontext() answered. */
int sirdma_query_ucontext(struct ib_ucontext *ibuctx, struct uverbs_attr_bundle *attrs);
void sirdma_dealloc_ucontext(struct ib_ucontext *ibuctx);
void sirdma_disassociate_ucontext(struct ib_ucontext *ibuctx);
int sirdma_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma);
void sirdma_mmap_free(struct rdma_user_mmap_entry *entry);

#endif
