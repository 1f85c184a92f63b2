// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/etherdevice.h>
#include <rdma/ib_addr.h>

#include "ah.h"
#include "device.h"
#include "pd.h"
#include "sirdma/abi.h"
#include "ucontext.h"

/* Fill @params except for the source. Returns NULL, or what is wrong with @attr. */
static const char *sirdma_ah_check(const struct rdma_ah_attr *attr, struct sirdma_av_params *params)
{
	const struct ib_gid_attr *sgid_attr;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE)
		return "is not of RoCE";
	sirdma_path_from_verbs(attr, &params->path);
	sgid_attr = rdma_ah_read_grh(attr)->sgid_attr;
	if (!sgid_attr || sgid_attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP)
		return "has a GID that is not of RoCEv2";
	ether_addr_copy(params->mac, attr->roce.dmac);
	if (is_zero_ether_addr(params->mac))
		return "has no destination MAC";
	return sirdma_path_refusal(&params->path);
}

static enum sirdma_av_consumer sirdma_ah_consumer(const struct rdma_ah_init_attr *init,
						  const struct ib_udata *udata)
{
	if (udata)
		return SIRDMA_AV_USER;
	return init->flags & RDMA_CREATE_AH_SLEEPABLE ? SIRDMA_AV_KERNEL : SIRDMA_AV_ATOMIC;
}

static int sirdma_ah_make(struct sirdma_dev *dev, struct sirdma_ah *ah,
			  struct sirdma_av_params *params, enum sirdma_av_consumer who)
{
	bool low;
	int err;

	ah->sgid = sirdma_sgid_get(dev, rdma_ah_read_grh(&ah->attr)->sgid_attr);
	if (IS_ERR(ah->sgid))
		return PTR_ERR(ah->sgid);
	params->sgid_idx = sirdma_sgid_index(dev, ah->sgid);
	err = sirdma_av_create(&dev->hw, params, who, &ah->idx);
	low = who != SIRDMA_AV_USER && sirdma_av_low(&dev->hw);
	if (low)
		queue_work(sirdma_rescue_wq, &dev->ah_fill);
	/* The work is backing more vectors, or has done so since, or there are no more. */
	if (err == -ENOMEM && who == SIRDMA_AV_ATOMIC)
		err = low ? -EAGAIN : sirdma_av_create(&dev->hw, params, who, &ah->idx);
	if (err)
		sirdma_sgid_put(dev, ah->sgid);
	return err;
}

/* Count @ah for its consumer. Returns false if the consumer has more than its share. */
static bool sirdma_ah_count(struct sirdma_dev *dev, struct sirdma_ah *ah,
			    enum sirdma_av_consumer who, struct ib_udata *udata)
{
	u32 mine;

	ah->consumer_ahs = udata ? &sirdma_udata_to_uctx(udata)->user->ahs : &dev->kernel_ahs;
	mine = atomic_inc_return(ah->consumer_ahs) - 1;
	if (sirdma_av_is_fair(&dev->hw, who, mine))
		return true;
	atomic_dec(ah->consumer_ahs);
	sirdma_refused(dev, "create_ah: %s %u address handles, and others need those left of %u",
		       udata ? "the user has" : "the kernel has", mine, dev->hw.avs.limit);
	return false;
}

static int sirdma_ah_respond(const struct sirdma_ah *ah, struct ib_udata *udata)
{
	struct sirdma_create_ah_resp resp = {
		.ah_id = ah->idx,
	};

	return ib_copy_to_udata(udata, &resp, sizeof(resp));
}

int sirdma_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct sirdma_dev *dev = to_sdev(ibah->device);
	struct sirdma_av_params params = {.pd = to_spd(ibah->pd)->id};
	enum sirdma_av_consumer who = sirdma_ah_consumer(init, udata);
	struct sirdma_ah *ah = to_sah(ibah);
	const char *why;
	int err;

	if (udata && udata->outlen < sizeof(struct sirdma_create_ah_resp))
		return -EINVAL;
	why = sirdma_ah_check(init->ah_attr, &params);
	if (why) {
		sirdma_refused(dev, "create_ah: the address %s", why);
		return -EINVAL;
	}
	if (!sirdma_ah_count(dev, ah, who, udata))
		return -ENOMEM;
	ah->attr = *init->ah_attr;
	err = sirdma_ah_make(dev, ah, &params, who);
	ah->attr.grh.sgid_attr = NULL;
	if (err)
		atomic_dec(ah->consumer_ahs);
	if (err || !udata)
		return err;
	err = sirdma_ah_respond(ah, udata);
	if (err)
		sirdma_destroy_ah(ibah, RDMA_DESTROY_AH_SLEEPABLE);
	return err;
}

int sirdma_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct sirdma_dev *dev = to_sdev(ibah->device);
	struct sirdma_ah *ah = to_sah(ibah);

	sirdma_av_destroy(&dev->hw, ah->idx);
	sirdma_sgid_put(dev, ah->sgid);
	atomic_dec(ah->consumer_ahs);
	return 0;
}

int sirdma_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_sah(ibah)->attr;
	return 0;
}

static void sirdma_ah_fill(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, ah_fill);

	/* If there is no memory, the next address handle asks again. */
	sirdma_av_fill(&dev->hw);
}

void sirdma_ah_init(struct sirdma_dev *dev)
{
	INIT_WORK(&dev->ah_fill, sirdma_ah_fill);
}

void sirdma_ah_fini(struct sirdma_dev *dev)
{
	cancel_work_sync(&dev->ah_fill);
}
