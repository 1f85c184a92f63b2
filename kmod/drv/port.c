// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <net/addrconf.h>
#include <rdma/ib_mad.h>

#include "compat/ib_verbs.h"
#include "device.h"
#include "fast_mr.h"
#include "health.h"
#include "hw/limits.h"
#include "hw/qp_modify.h"
#include "mr.h"
#include "port.h"
#include "sirdma/abi.h"
#include "sirdma/roce.h"
#include "sirdma/wqe.h"

static_assert(SIRDMA_VERBS_DEVICE_CAPS == (IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_MEM_WINDOW |
					   IB_DEVICE_XRC | IB_DEVICE_MEM_WINDOW_TYPE_2B));
static_assert(SIRDMA_VERBS_DEVICE_FLUSH_GLOBAL == IB_DEVICE_FLUSH_GLOBAL);
static_assert(SIRDMA_VERBS_DEVICE_ATOMIC_WRITE == IB_DEVICE_ATOMIC_WRITE);
static_assert(SIRDMA_VERBS_PORT_CAPS == IB_PORT_CM_SUP);
static_assert(SIRDMA_MAX_PATH_MTU == IB_MTU_4096);

bool sirdma_port_is_up(const struct sirdma_dev *dev)
{
	return !sirdma_dev_failed(dev) && sirdma_rd32(dev->bus, SIRDMA_REG_LINK) & SIRDMA_LINK_UP;
}

static u32 sirdma_port_mtu_bytes(const struct sirdma_dev *dev)
{
	return SIRDMA_GET(SIRDMA_LINK_MTU, sirdma_rd32(dev->bus, SIRDMA_REG_LINK));
}

enum ib_mtu sirdma_port_mtu(const struct sirdma_dev *dev)
{
	return (enum ib_mtu)sirdma_path_mtu_of_port(sirdma_port_mtu_bytes(dev));
}

int sirdma_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibdev);
	struct sirdma_limits limits;

	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = (u64)SIRDMA_FW_MAJOR << 32 | SIRDMA_FW_MINOR;
	addrconf_addr_eui48((u8 *)&attr->sys_image_guid, dev->ndev->dev_addr);
	attr->device_cap_flags = SIRDMA_VERBS_DEVICE_CAPS | SIRDMA_VERBS_DEVICE_ATOMIC_WRITE;
	/* Before Linux 6.2 uverbs refuses the right of regions to be flushed. */
	if (IB_ACCESS_SUPPORTED & SIRDMA_VERBS_FLUSH_GLOBAL)
		attr->device_cap_flags |= SIRDMA_VERBS_DEVICE_FLUSH_GLOBAL;
	/* Consumers map by pages of the kernel, and no page list has blocks of 16 or 64 KiB. */
	if (PAGE_SIZE == SZ_4K)
		attr->device_cap_flags |= IB_DEVICE_MEM_MGT_EXTENSIONS;
	/*
	 * "rdma link delete" may remove the device. A local DMA key is the PD's, not the device's.
	 */
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	sirdma_odp_caps(dev, attr);
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->masked_atomic_cap = IB_ATOMIC_NONE;
	sirdma_hw_limits(&dev->hw, &limits);
	SIRDMA_LIMITS_TO_VERBS(attr, &limits);
	/* Of these, what one user may have */
	attr->max_ah = sirdma_av_one_user_limit(&dev->hw);
	attr->max_mcast_grp = DIV_ROUND_UP(attr->max_mcast_grp, 2);
	attr->max_total_mcast_qp_attach = attr->max_mcast_grp * attr->max_mcast_qp_attach;
	attr->max_dm_size = limits.max_dm_size;
	attr->max_send_sge = limits.max_sge;
	attr->max_recv_sge = limits.max_sge;
	attr->page_size_cap = SIRDMA_MR_PAGE_SIZES;
	attr->max_fast_reg_page_list_len = SIRDMA_FAST_MR_MAX_PAGES;
	attr->cq_caps.max_cq_moderation_count = SIRDMA_MAX_CQ_COUNT;
	attr->cq_caps.max_cq_moderation_period = SIRDMA_MAX_CQ_PERIOD;
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = SIRDMA_CLOCK_KHZ;
	return 0;
}

int sirdma_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct sirdma_dev *dev = to_sdev(ibdev);
	struct sirdma_port_limits limits;
	int err;

	err = ib_get_eth_speed(ibdev, port, &attr->active_speed, &attr->active_width);
	if (err)
		return err;

	attr->state = sirdma_port_is_up(dev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
							   IB_PORT_PHYS_STATE_DISABLED;
	sirdma_hw_port_limits(sirdma_port_mtu_bytes(dev), &limits);
	SIRDMA_PORT_LIMITS_TO_VERBS(attr, &limits);
	attr->gid_tbl_len = SIRDMA_GID_TABLE_LEN;
	attr->ip_gids = true;
	attr->port_cap_flags = SIRDMA_VERBS_PORT_CAPS;
	return 0;
}

int sirdma_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index >= SIRDMA_PKEY_TABLE_LEN)
		return -EINVAL;
	*pkey = SIRDMA_DEFAULT_PKEY;
	return 0;
}

int sirdma_get_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	immutable->pkey_tbl_len = SIRDMA_PKEY_TABLE_LEN;
	immutable->gid_tbl_len = SIRDMA_GID_TABLE_LEN;
	return 0;
}

enum rdma_link_layer sirdma_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

void sirdma_get_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%u.%u", SIRDMA_FW_MAJOR, SIRDMA_FW_MINOR);
}

/* A provider that cannot ask RDMA netlink for the driver id recognises the device by this. */
static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "SIRDMA\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "0x%x\n", SIRDMA_HW_VERSION);
}
static DEVICE_ATTR_RO(hw_rev);

static struct attribute *sirdma_attributes[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_hw_rev.attr,
	NULL,
};

const struct attribute_group sirdma_attr_group = {
	.attrs = sirdma_attributes,
};
