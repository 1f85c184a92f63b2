// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "device.h"
#include "health.h"
#include "hw/limits.h"
#include "sirdma/abi.h"
#include "sirdma/wqe.h"
#include "ucontext.h"

struct sirdma_db_entry {
	struct rdma_user_mmap_entry entry;
	struct sirdma_bus_db db;
};

static struct sirdma_db_entry *to_db_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct sirdma_db_entry, entry);
}

static struct rdma_user_mmap_entry *sirdma_db_entry_insert(struct ib_ucontext *ibuctx)
{
	struct sirdma_bus *bus = to_sdev(ibuctx->device)->bus;
	struct sirdma_db_entry *db;

	db = kzalloc(sizeof(*db), GFP_KERNEL_ACCOUNT);
	if (!db)
		return NULL;
	if (bus->ops->db_alloc(bus, &db->db))
		goto err_free;
	if (rdma_user_mmap_entry_insert(ibuctx, &db->entry, PAGE_SIZE))
		goto err_db;
	return &db->entry;

err_db:
	bus->ops->db_free(bus, &db->db);
err_free:
	kfree(db);
	return NULL;
}

void sirdma_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct sirdma_bus *bus = to_sdev(entry->ucontext->device)->bus;
	struct sirdma_db_entry *db = to_db_entry(entry);

	bus->ops->db_free(bus, &db->db);
	kfree(db);
}

int sirdma_mmap(struct ib_ucontext *ibuctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	const struct sirdma_bus_db *db;
	pgprot_t prot = vma->vm_page_prot;
	int err;

	entry = rdma_user_mmap_entry_get(ibuctx, vma);
	if (!entry)
		return -EINVAL;
	db = &to_db_entry(entry)->db;
	if (db->is_io)
		prot = pgprot_noncached(prot);
	/* RAM is mapped as I/O as well, so that uverbs can unmap it when the device is removed. */
	err = rdma_user_mmap_io(ibuctx, vma, PHYS_PFN(db->phys), PAGE_SIZE, prot, entry);
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
	resp->max_pds = dev->hw.caps.max_pds;
	resp->max_qps = dev->hw.caps.max_qps;
	resp->wq_size = SIRDMA_MAX_WQ_QUANTA;
	resp->kernel_ver = SIRDMA_ABI_VERSION;
	/* CQ_RESIZE only makes the provider register a CQ's shadow area by itself. */
	resp->feature_flags = SIRDMA_FEATURE_RTS_AE | SIRDMA_FEATURE_CQ_RESIZE |
			      SIRDMA_FEATURE_ATOMICS;
	/* Only for providers that kick, which are ours: the CQEs of shared queues are not irdma's. */
	if (dev->ibdev.attrs.max_srq)
		resp->feature_flags |= SIRDMA_FEATURE_SRQ;
	resp->db_mmap_key = rdma_user_mmap_get_offset(uctx->db_entry);
	resp->max_hw_wq_frags = SIRDMA_MAX_SGE;
	resp->max_hw_read_sges = SIRDMA_MAX_READ_SGE;
	resp->max_hw_inline = SIRDMA_MAX_INLINE;
	resp->max_hw_rq_quanta = SIRDMA_MAX_WQ_QUANTA;
	resp->max_hw_wq_quanta = SIRDMA_MAX_WQ_QUANTA;
	resp->min_hw_cq_size = SIRDMA_MIN_CQ_ELEMENTS;
	resp->max_hw_cq_size = sirdma_max_cq_elements(&dev->hw);
	resp->max_hw_sq_chunk = SIRDMA_SQ_CHUNK_QUANTA;
	resp->hw_rev = SIRDMA_HW_REV_GEN2;
	resp->min_hw_wq_size = SIRDMA_MIN_WQ_QUANTA;
	resp->max_hw_srq_quanta = SIRDMA_MAX_SRQ_QUANTA;
	resp->comp_mask = SIRDMA_UCTX_MIN_HW_WQ_SIZE | SIRDMA_UCTX_MAX_HW_SRQ_QUANTA |
			  SIRDMA_UCTX_KICK | SIRDMA_UCTX_CQ_FLAGS;
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
	/* Shorter messages are those of GEN1 providers. */
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
	/*
	 * uverbs holds no reference to a driver whose contexts can outlive their
	 * device. A link may be deleted under its users, but the module stays.
	 */
	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	uctx->user = sirdma_user_get(&dev->users, current_uid());
	if (IS_ERR(uctx->user)) {
		err = PTR_ERR(uctx->user);
		goto err_module;
	}
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
err_module:
	module_put(THIS_MODULE);
	return err;
}

void sirdma_dealloc_ucontext(struct ib_ucontext *ibuctx)
{
	struct sirdma_ucontext *uctx = to_suctx(ibuctx);

	rdma_user_mmap_entry_remove(uctx->db_entry);
	sirdma_user_put(&to_sdev(ibuctx->device)->users, uctx->user);
	/*
	 * This may be the last reference, but the module's text stays until this function
	 * returns: removing the module unregisters the device, and uverbs lets that wait for
	 * every call of dealloc_ucontext.
	 */
	module_put(THIS_MODULE);
}

/* Empty: uverbs itself destroys the objects and removes the doorbell mapping. */
void sirdma_disassociate_ucontext(struct ib_ucontext *ibuctx) {}
