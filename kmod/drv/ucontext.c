// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/cred.h>
#include <linux/idr.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "device.h"
#include "doorbell.h"
#include "health.h"
#include "hw/limits.h"
#include "sirdma/abi.h"
#include "sirdma/wqe.h"
#include "ucontext.h"

/* Numbers of the contexts of all devices. No queue pair of a context exists when its number is freed. */
static DEFINE_IDA(sirdma_kickers);

struct sirdma_db_entry {
	struct sirdma_mmap_entry base;
	struct sirdma_bus_db db;
};

static struct sirdma_mmap_entry *to_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct sirdma_mmap_entry, entry);
}

static struct sirdma_db_entry *to_db_entry(struct sirdma_mmap_entry *entry)
{
	return container_of(entry, struct sirdma_db_entry, base);
}

static int sirdma_db_map(struct sirdma_mmap_entry *entry, struct ib_ucontext *ibuctx,
			 struct vm_area_struct *vma)
{
	const struct sirdma_bus_db *db = &to_db_entry(entry)->db;
	pgprot_t prot = vma->vm_page_prot;

	if (db->is_io)
		prot = pgprot_noncached(prot);
	/* RAM is mapped as I/O as well, so that uverbs can unmap it when the device is removed. */
	return rdma_user_mmap_io(ibuctx, vma, PHYS_PFN(db->phys), PAGE_SIZE, prot, &entry->entry);
}

static void sirdma_db_free(struct sirdma_mmap_entry *entry)
{
	struct sirdma_bus *bus = to_sdev(entry->entry.ucontext->device)->bus;
	struct sirdma_db_entry *db = to_db_entry(entry);

	bus->ops->db_free(bus, &db->db);
	kfree(db);
}

static int sirdma_db_entry_insert(struct ib_ucontext *ibuctx)
{
	struct sirdma_bus *bus = to_sdev(ibuctx->device)->bus;
	struct sirdma_db_entry *db;
	int err = -ENOMEM;

	db = kzalloc(sizeof(*db), GFP_KERNEL_ACCOUNT);
	if (!db)
		return err;
	db->base.map = sirdma_db_map;
	db->base.free = sirdma_db_free;
	err = bus->ops->db_alloc(bus, &db->db);
	if (err)
		goto err_free;
	err = rdma_user_mmap_entry_insert(ibuctx, &db->base.entry, PAGE_SIZE);
	if (err)
		goto err_db;
	to_suctx(ibuctx)->db_entry = &db->base.entry;
	return 0;

err_db:
	bus->ops->db_free(bus, &db->db);
err_free:
	kfree(db);
	return err;
}

static int sirdma_doorbell_insert(struct ib_ucontext *ibuctx)
{
	struct sirdma_doorbell *doorbell = sirdma_doorbell_create(ibuctx);

	if (IS_ERR(doorbell))
		return PTR_ERR(doorbell);
	to_suctx(ibuctx)->doorbell = doorbell;
	to_suctx(ibuctx)->db_entry = sirdma_doorbell_entry(doorbell);
	return 0;
}

void sirdma_mmap_free(struct rdma_user_mmap_entry *entry)
{
	to_mmap_entry(entry)->free(to_mmap_entry(entry));
}

int sirdma_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err;

	entry = rdma_user_mmap_entry_get(ibuctx, vma);
	if (!entry)
		return -EINVAL;
	err = to_mmap_entry(entry)->map(to_mmap_entry(entry), ibuctx, vma);
	rdma_user_mmap_entry_put(entry);
	return err;
}

static int sirdma_uctx_check_request(struct sirdma_dev *dev,
				     const struct sirdma_alloc_ucontext_req *req)
{
	if (req->userspace_ver < SIRDMA_ABI_MIN_USER_VERSION ||
	    req->userspace_ver > SIRDMA_ABI_VERSION) {
		sirdma_refused(dev, "provider speaks ABI %u, the driver %u to %u",
			       req->userspace_ver, SIRDMA_ABI_MIN_USER_VERSION, SIRDMA_ABI_VERSION);
		return -EINVAL;
	}
	/*
	 * Only irdma's own identity is meant for providers that do not kick. On another device such a
	 * provider is a mistake, and its doorbells would be slow.
	 */
	if (!(req->comp_mask & SIRDMA_UCTX_KICK) && !dev->irdma) {
		sirdma_refused(dev, "provider never kicks: use sirdma's own");
		return -EOPNOTSUPP;
	}
	return 0;
}

/* What irdma's provider interface has, and this device as well. */
#define SIRDMA_IRDMA_FEATURES \
	(SIRDMA_FEATURE_RTS_AE | SIRDMA_FEATURE_CQ_RESIZE | SIRDMA_FEATURE_ATOMICS)
#define SIRDMA_IRDMA_COMP_MASK (SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_MAX_HW_SRQ_QUANTA)

static void sirdma_uctx_fill_response(struct sirdma_dev *dev, struct sirdma_ucontext *uctx,
				      struct sirdma_alloc_ucontext_resp *resp)
{
	sirdma_hw_context(&dev->hw, resp);
	resp->max_pds = dev->hw.caps.max_pds;
	resp->max_qps = dev->hw.caps.max_qps;
	resp->wq_size = SIRDMA_MAX_WQ_QUANTA;
	resp->db_mmap_key = rdma_user_mmap_get_offset(uctx->db_entry);
	if (uctx->kicks) {
		resp->comp_mask |= SIRDMA_UCTX_KICK | SIRDMA_UCTX_RING_POOL |
				   SIRDMA_UCTX_KICK_METHOD;
		/* The CQEs of shared queues differ from irdma's. */
		if (dev->ibdev.attrs.max_srq)
			resp->feature_flags |= SIRDMA_FEATURE_SRQ;
	} else {
		resp->comp_mask &= SIRDMA_IRDMA_COMP_MASK;
		resp->feature_flags &= SIRDMA_IRDMA_FEATURES;
	}
	if (uctx->raw_attrs)
		resp->comp_mask |= SIRDMA_UCTX_USE_RAW_ATTR;
}

int sirdma_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibuctx->device);
	struct sirdma_ucontext *uctx = to_suctx(ibuctx);
	struct sirdma_alloc_ucontext_resp resp = {};
	struct sirdma_alloc_ucontext_req req = {};
	int err, kicker;

	if (sirdma_dev_failed(dev))
		return -EIO;
	/* A shorter message comes from a GEN1 provider. */
	if (udata->inlen < offsetofend(struct sirdma_alloc_ucontext_req, rsvd8) ||
	    udata->outlen < offsetofend(struct sirdma_alloc_ucontext_resp, rsvd2))
		return -EINVAL;

	err = ib_copy_from_udata(&req, udata, min(sizeof(req), udata->inlen));
	if (err)
		return err;
	err = sirdma_uctx_check_request(dev, &req);
	if (err)
		return err;

	mutex_init(&uctx->ring_lock);
	INIT_LIST_HEAD(&uctx->rings);
	uctx->raw_attrs = req.comp_mask & SIRDMA_UCTX_USE_RAW_ATTR;
	uctx->kicks = req.comp_mask & SIRDMA_UCTX_KICK;
	uctx->user = sirdma_user_get(&dev->users, sirdma_user_id());
	if (IS_ERR(uctx->user))
		return PTR_ERR(uctx->user);
	kicker = ida_alloc_min(&sirdma_kickers, 1, GFP_KERNEL_ACCOUNT);
	if (kicker < 0) {
		err = kicker;
		goto err_user;
	}
	uctx->kicker = kicker;
	err = uctx->kicks ? sirdma_db_entry_insert(ibuctx) : sirdma_doorbell_insert(ibuctx);
	if (err)
		goto err_kicker;
	sirdma_uctx_fill_response(dev, uctx, &resp);
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err)
		goto err_entry;
	return 0;

err_entry:
	rdma_user_mmap_entry_remove(uctx->db_entry);
err_kicker:
	ida_free(&sirdma_kickers, kicker);
err_user:
	sirdma_user_put(&dev->users, uctx->user);
	return err;
}

int sirdma_query_ucontext(struct ib_ucontext *ibuctx, struct uverbs_attr_bundle *attrs)
{
	struct sirdma_alloc_ucontext_resp resp = {};

	sirdma_uctx_fill_response(to_sdev(ibuctx->device), to_suctx(ibuctx), &resp);
	return uverbs_copy_to(attrs, SIRDMA_ATTR_QUERY_CONTEXT_RESP, &resp, sizeof(resp));
}

void sirdma_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
	struct sirdma_ucontext *uctx = to_suctx(ibuctx);

	rdma_user_mmap_entry_remove(uctx->db_entry);
	ida_free(&sirdma_kickers, uctx->kicker);
	sirdma_user_put(&to_sdev(ibuctx->device)->users, uctx->user);
}

/*
 * A context outlives its device when a link is deleted or the module is removed: uverbs destroys the
 * objects, calls dealloc_ucontext and removes the doorbell mapping while the device is unregistered,
 * and calls no function of this module afterwards. So there is nothing to do here, and a context
 * holds no reference to the module. (The mapping of a provider that does not kick stays, and holds
 * one: doorbell.h.)
 */
void sirdma_disassociate_ucontext(struct ib_ucontext *ibuctx) {}
