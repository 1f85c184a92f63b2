// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <net/addrconf.h>
#include <rdma/ib_user_verbs.h>

#include "ah.h"
#include "compat/ib_verbs.h"
#include "cq.h"
#include "device.h"
#include "dmabuf.h"
#include "events.h"
#include "fast_mr.h"
#include "health.h"
#include "identity.h"
#include "kflush.h"
#include "kverbs.h"
#include "mr.h"
#include "mw.h"
#include "netdev.h"
#include "params.h"
#include "pd.h"
#include "pma.h"
#include "port.h"
#include "qp.h"
#include "qp_modify.h"
#include "qp_query.h"
#include "restrack.h"
#include "sirdma/abi.h"
#include "sirdma/regs.h"
#include "srq.h"
#include "uapi.h"
#include "ucontext.h"
#include "xrcd.h"

DEFINE_COMPAT_CREATE_CQ(sirdma_create_cq_op, sirdma_create_cq)
DEFINE_COMPAT_REG_USER_MR(sirdma_reg_user_mr_op, sirdma_reg_user_mr)
DEFINE_COMPAT_REG_USER_MR_DMABUF(sirdma_reg_dmabuf_mr_op, sirdma_reg_dmabuf_mr)
DEFINE_COMPAT_RESIZE_CQ(sirdma_resize_cq_op, sirdma_resize_cq)
DEFINE_COMPAT_SRQ_DETAILS(sirdma_srq_details_ops, sirdma_fill_res_srq_entry);
DEFINE_COMPAT_PORT_EVENT(sirdma_port_event_ops, sirdma_report_port_event);

/*
 * Undo sirdma_dev_start(), but stop the health work first. The core calls this when no object
 * and no user is left.
 */
static void sirdma_dealloc_driver(struct ib_device *ibdev)
{
	struct sirdma_dev *dev = to_sdev(ibdev);

	sirdma_health_fini(dev);
	sirdma_kflush_fini(dev);
	sirdma_ah_fini(dev);
	sirdma_mcast_members_fini(dev);
	sirdma_neigh_fini(dev);
	sirdma_gid_fini(dev);
	sirdma_qpctx_fini(dev);
	sirdma_hw_remove(&dev->hw);
	dev->bus->ops->destroy(dev->bus);
	sirdma_odp_fini(dev);
	sirdma_dms_fini(&dev->dms);
	sirdma_users_fini(&dev->users);
	xa_destroy(&dev->srqs);
	xa_destroy(&dev->cqs);
	xa_destroy(&dev->qps);
	if (dev->irdma)
		sirdma_irdma_release();
}

static const struct ib_device_ops sirdma_dev_ops = {
	.owner = THIS_MODULE,
	.uverbs_abi_ver = SIRDMA_ABI_VERSION,
	.device_group = &sirdma_attr_group,

	.add_gid = sirdma_add_gid,
	.advise_mr = sirdma_advise_mr,
	.alloc_dm = sirdma_alloc_dm,
	.alloc_hw_port_stats = sirdma_alloc_hw_port_stats,
	.alloc_mr = sirdma_alloc_mr,
	.alloc_mw = sirdma_alloc_mw,
	.alloc_pd = sirdma_alloc_pd,
	.alloc_ucontext = sirdma_alloc_ucontext,
	.alloc_xrcd = sirdma_alloc_xrcd,
	.attach_mcast = sirdma_attach_mcast,
	.create_ah = sirdma_create_ah,
	.create_cq = sirdma_create_cq_op,
	.create_qp = sirdma_create_qp,
	.create_srq = sirdma_create_srq,
	.create_user_ah = sirdma_create_ah,
	.dealloc_dm = sirdma_dealloc_dm,
	.dealloc_driver = sirdma_dealloc_driver,
	.dealloc_mw = sirdma_dealloc_mw,
	.dealloc_pd = sirdma_dealloc_pd,
	.dealloc_ucontext = sirdma_dealloc_ucontext,
	.dealloc_xrcd = sirdma_dealloc_xrcd,
	.del_gid = sirdma_del_gid,
	.dereg_mr = sirdma_dereg_mr,
	.destroy_ah = sirdma_destroy_ah,
	.destroy_cq = sirdma_destroy_cq,
	.destroy_qp = sirdma_destroy_qp,
	.destroy_srq = sirdma_destroy_srq,
	.detach_mcast = sirdma_detach_mcast,
	.disassociate_ucontext = sirdma_disassociate_ucontext,
	.enable_driver = sirdma_enable_driver,
	.fill_res_cq_entry = sirdma_fill_res_cq_entry,
	.fill_res_mr_entry = sirdma_fill_res_mr_entry,
	.fill_res_qp_entry = sirdma_fill_res_qp_entry,
	.get_dev_fw_str = sirdma_get_fw_str,
	.get_dma_mr = sirdma_get_dma_mr,
	.get_hw_stats = sirdma_get_hw_stats,
	.get_link_layer = sirdma_get_link_layer,
	.get_port_immutable = sirdma_get_port_immutable,
	.map_mr_sg = sirdma_map_mr_sg,
	.mmap = sirdma_mmap,
	.mmap_free = sirdma_mmap_free,
	.modify_cq = sirdma_modify_cq,
	.modify_qp = sirdma_modify_qp,
	.modify_srq = sirdma_modify_srq,
	.poll_cq = sirdma_poll_cq,
	.post_recv = sirdma_post_recv,
	.post_send = sirdma_post_send,
	.post_srq_recv = sirdma_post_srq_recv,
	.process_mad = sirdma_process_mad,
	.query_ah = sirdma_query_ah,
	.query_device = sirdma_query_device,
	.query_pkey = sirdma_query_pkey,
	.query_port = sirdma_query_port,
	.query_qp = sirdma_query_qp,
	.query_srq = sirdma_query_srq,
	.query_ucontext = sirdma_query_ucontext,
	.reg_dm_mr = sirdma_reg_dm_mr,
	.reg_user_mr = sirdma_reg_user_mr_op,
	.reg_user_mr_dmabuf = sirdma_reg_dmabuf_mr_op,
	.req_notify_cq = sirdma_req_notify_cq,
	.rereg_user_mr = sirdma_rereg_user_mr,
	.COMPAT_RESIZE_CQ = sirdma_resize_cq_op,

	INIT_RDMA_OBJ_SIZE(ib_ah, sirdma_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, sirdma_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, sirdma_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, sirdma_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, sirdma_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, sirdma_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, sirdma_ucontext, ibuctx),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, sirdma_xrcd, ibxrcd),
};

static const struct ib_device_ops sirdma_identity_ops = {
	.driver_id = (enum rdma_driver_id)SIRDMA_DRIVER_ID,
};

static const struct ib_device_ops sirdma_irdma_identity_ops = {
	.driver_id = RDMA_DRIVER_IRDMA,
};

/* Create and start all that is behind the ib_device. */
static int sirdma_dev_start(struct sirdma_dev *dev)
{
	const struct sirdma_hw_config hw_config = {.num_ceqs = sirdma_params_num_ceqs()};
	struct sirdma_bus_config config;
	int err;

	if (dev->irdma) {
		err = sirdma_irdma_claim();
		if (err)
			return err;
	}
	sirdma_health_init(dev);
	sirdma_ah_init(dev);
	sirdma_kflush_init(dev);
	xa_init_flags(&dev->qps, XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->cqs, XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->srqs, XA_FLAGS_ACCOUNT);
	sirdma_users_init(&dev->users);
	sirdma_dms_init(&dev->dms);
	sirdma_odp_init(dev);
	sirdma_params_to_config(&config);
	dev->bus = sirdma_bus_create(dev->ndev, &config);
	if (IS_ERR(dev->bus)) {
		err = PTR_ERR(dev->bus);
		goto err_release;
	}
	err = sirdma_hw_probe(&dev->hw, dev->bus, &hw_config, &sirdma_events, dev);
	if (err)
		goto err_bus;
	err = sirdma_qpctx_init(dev);
	if (err)
		goto err_hw;
	err = sirdma_gid_init(dev);
	if (err)
		goto err_qpctx;
	err = sirdma_neigh_init(dev);
	if (err)
		goto err_gid;
	err = sirdma_mcast_members_init(dev);
	if (err)
		goto err_neigh;
	return 0;

err_neigh:
	sirdma_neigh_fini(dev);
err_gid:
	sirdma_gid_fini(dev);
err_qpctx:
	sirdma_qpctx_fini(dev);
err_hw:
	sirdma_hw_remove(&dev->hw);
err_bus:
	sirdma_health_fini(dev);
	dev->bus->ops->destroy(dev->bus);
err_release:
	if (dev->irdma)
		sirdma_irdma_release();
	return err;
}

static int sirdma_dev_register(struct sirdma_dev *dev, const char *name)
{
	struct ib_device *ibdev = &dev->ibdev;
	int err;

	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = dev->hw.cfg.num_ceqs;
	strscpy(ibdev->node_desc, "sirdma software RDMA NIC", sizeof(ibdev->node_desc));
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, dev->ndev->dev_addr);
	/* A provider that does not know SIRDMA_METHOD_KICK kicks by this command: sirdma_post_send(). */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND);
	/* A provider calls this if there may be a completion already when it arms: sirdma_req_notify_cq(). */
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	ibdev->driver_def = sirdma_uapi;

	err = ib_device_set_netdev(ibdev, dev->ndev, 1);
	if (err)
		return err;
	return ib_register_device(ibdev, name, dev->bus->dma_dev);
}

int sirdma_dev_add(const char *name, struct net_device *ndev, bool irdma)
{
	struct sirdma_dev *dev;
	int err;

	dev = ib_alloc_device(sirdma_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	dev->ndev = ndev;
	dev->irdma = irdma;
	err = sirdma_dev_start(dev);
	if (err)
		goto err_dealloc;
	/* From here on ib_dealloc_device() stops the device. */
	ib_set_device_ops(&dev->ibdev, &sirdma_dev_ops);
	ib_set_device_ops(&dev->ibdev, &sirdma_srq_details_ops);
	ib_set_device_ops(&dev->ibdev, &sirdma_port_event_ops);
	ib_set_device_ops(&dev->ibdev, irdma ? &sirdma_irdma_identity_ops : &sirdma_identity_ops);
	get_device(&dev->ibdev.dev);
	err = sirdma_dev_register(dev, name);
	if (err)
		goto err_put;
	/* The device may be unregistered by now: the reference keeps only its memory. */
	if (ib_device_try_get(&dev->ibdev)) {
		sirdma_health_start(dev);
		ib_device_put(&dev->ibdev);
	}
	put_device(&dev->ibdev.dev);
	return 0;

err_put:
	put_device(&dev->ibdev.dev);
err_dealloc:
	ib_dealloc_device(&dev->ibdev);
	return err;
}
