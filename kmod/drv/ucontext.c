// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "device.h"
#include "health.h"
#include "hw/limits.h"
#include "sirdma/abi.h"
#include "sirdma/wqe.h"
#include "ucontext.h"

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

static struct rdma_user_mmap_entry *sirdma_db_entry_insert(struct ib_ucontext *ibuctx)
{
	struct sirdma_bus *bus = to_sdev(ibuctx->device)->bus;
	struct sirdma_db_entry *db;

	db = kzalloc(sizeof(*db), GFP_KERNEL_ACCOUNT);
	if (!db)
		return NULL;
	db->base.map = sirdma_db_map;
	db->base.free = sirdma_db_free;
	if (bus->ops->db_alloc(bus, &db->db))
		goto err_free;
	if (rdma_user_mmap_entry_insert(ibuctx, &db->base.entry, PAGE_SIZE))
		goto err_db;
	return &db->base.entry;

err_db:
	bus->ops->db_free(bus, &db->db);
err_free:
	kfree(db);
	return NULL;
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
	/* A provider that does not read need_kick never wakes a sleeping device. */
	if (!(req->comp_mask & SIRDMA_UCTX_KICK)) {
		sirdma_refused(dev, "provider never kicks: use sirdma's own");
		return -EOPNOTSUPP;
	}
	return 0;
}

static void sirdma_uctx_fill_response(struct sirdma_dev *dev, struct sirdma_ucontext *uctx,
				      struct sirdma_alloc_ucontext_resp *resp)
{
	sirdma_hw_context(&dev->hw, resp);
	resp->max_pds = dev->hw.caps.max_pds;
	resp->max_qps = dev->hw.caps.max_qps;
	resp->wq_size = SIRDMA_MAX_WQ_QUANTA;
	/*
	 * Only providers that kick, which are ours, get this: the CQEs of shared queues differ from
	 * irdma's.
	 */
	if (dev->ibdev.attrs.max_srq)
		resp->feature_flags |= SIRDMA_FEATURE_SRQ;
	resp->db_mmap_key = rdma_user_mmap_get_offset(uctx->db_entry);
	resp->comp_mask |= SIRDMA_UCTX_KICK | SIRDMA_UCTX_RING_POOL;
	if (uctx->raw_attrs)
		resp->comp_mask |= SIRDMA_UCTX_USE_RAW_ATTR;
}

int sirdma_alloc_ucontext(struct ib_ucontext *ibuctx, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibuctx->device);
	struct sirdma_ucontext *uctx = to_suctx(ibuctx);
	struct sirdma_alloc_ucontext_resp resp = {};
	struct sirdma_alloc_ucontext_req req = {};
	int err;

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
	uctx->user = sirdma_user_get(&dev->users, current_uid());
	if (IS_ERR(uctx->user))
		return PTR_ERR(uctx->user);
	uctx->db_entry = sirdma_db_entry_insert(ibuctx);
	if (!uctx->db_entry) {
		err = -ENOMEM;
		goto err_user;
	}
	sirdma_uctx_fill_response(dev, uctx, &resp);
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (err)
		goto err_entry;
	return 0;

err_entry:
	rdma_user_mmap_entry_remove(uctx->db_entry);
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
	sirdma_user_put(&to_sdev(ibuctx->device)->users, uctx->user);
}

/*
 * A context outlives its device when a link is deleted or the module is removed: uverbs destroys the
 * objects, calls dealloc_ucontext and removes the doorbell mapping while the device is unregistered,
 * and calls no function of this module afterwards. So there is nothing to do here, and a context
 * holds no reference to the module.
 */
void sirdma_disassociate_ucontext(struct ib_ucontext *ibuctx) {}
