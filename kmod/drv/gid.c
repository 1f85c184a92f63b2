// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "device.h"
#include "gid.h"
#include "health.h"
#include "hw/cqp_cmd.h"
#include "trace.h"

#define NO_VLAN 0xffff /* as rdma_read_gid_l2_fields() reports it */
/* A command that failed for lack of memory may succeed a second later. */
#define UPDATE_RETRY HZ

static int sirdma_sgid_program(struct sirdma_dev *dev, const struct sirdma_sgid *sgid,
			       const u8 *mac)
{
	struct sirdma_cqp_sgid_params params = {
		.idx = sirdma_sgid_index(dev, sgid),
		.ip = sgid->ip,
		.has_vlan = sgid->has_vlan,
		.vlan_id = sgid->vlan_id,
	};

	ether_addr_copy(params.mac, mac);
	return sirdma_cqp_set_sgid(&dev->hw, &params);
}

/* The caller holds the lock. Program the slot if it is dirty. On failure it stays dirty. */
static int sirdma_sgid_sync(struct sirdma_dev *dev, struct sirdma_sgid *sgid)
{
	struct sirdma_gid_table *table = &dev->gids;
	u8 mac[ETH_ALEN];
	bool dirty;
	int err;

	/* Clear the flag before the command, so that a change during the command is not lost. */
	spin_lock_bh(&table->mac_lock);
	dirty = sgid->dirty && sgid->present;
	sgid->dirty = false;
	ether_addr_copy(mac, sgid->mac);
	spin_unlock_bh(&table->mac_lock);
	if (!dirty)
		return 0;
	err = sirdma_sgid_program(dev, sgid, mac);
	trace_sirdma_gid_set(dev, sirdma_sgid_index(dev, sgid), &sgid->ip, mac, err);
	if (err) {
		spin_lock_bh(&table->mac_lock);
		sgid->dirty = true;
		spin_unlock_bh(&table->mac_lock);
	}
	return err;
}

static void sirdma_gid_update(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, gids.update.work);
	struct sirdma_gid_table *table = &dev->gids;
	bool failed = false;
	int i;

	mutex_lock(&table->lock);
	for (i = 0; i < SIRDMA_GID_SLOTS; i++)
		failed |= sirdma_sgid_sync(dev, &table->slots[i]) != 0;
	mutex_unlock(&table->lock);
	if (failed && !sirdma_dev_failed(dev))
		queue_delayed_work(sirdma_rescue_wq, &table->update, UPDATE_RETRY);
}

int sirdma_gid_init(struct sirdma_dev *dev)
{
	struct sirdma_gid_table *table = &dev->gids;

	BUILD_BUG_ON(sizeof(struct sirdma_ip) != sizeof(union ib_gid));
	table->slots = kcalloc(SIRDMA_GID_SLOTS, sizeof(*table->slots), GFP_KERNEL);
	if (!table->slots)
		return -ENOMEM;
	mutex_init(&table->lock);
	port_mutex_teach_lockdep(&table->lock);
	spin_lock_init(&table->mac_lock);
	spin_lock_init(&table->use_lock);
	INIT_DELAYED_WORK(&table->update, sirdma_gid_update);
	return 0;
}

void sirdma_gid_fini(struct sirdma_dev *dev)
{
	cancel_delayed_work_sync(&dev->gids.update);
	kfree(dev->gids.slots);
}

u16 sirdma_sgid_index(struct sirdma_dev *dev, const struct sirdma_sgid *sgid)
{
	return sgid - dev->gids.slots;
}

static bool sirdma_sgid_is_on(const struct sirdma_sgid *sgid, const struct sirdma_interface *on)
{
	return sgid->interface.ifindex == on->ifindex && sgid->interface.net == on->net;
}

static struct sirdma_interface sirdma_interface_of(const struct net_device *ndev)
{
	return (struct sirdma_interface){.net = dev_net(ndev), .ifindex = ndev->ifindex};
}

/*
 * The slot for a new address: the one to which QPs of the address still refer,
 * else the one with the core's index, else any free one.
 */
static struct sirdma_sgid *sirdma_sgid_find(struct sirdma_gid_table *table,
					    const struct sirdma_ip *ip,
					    const struct sirdma_interface *on, u32 preferred)
{
	struct sirdma_sgid *free = NULL;
	int i;

	for (i = 0; i < SIRDMA_GID_SLOTS; i++) {
		struct sirdma_sgid *sgid = &table->slots[i];

		if (sgid->present)
			continue;
		/* A slot that is not present gets no new users. */
		if (!smp_load_acquire(&sgid->users)) {
			if (!free || i == preferred)
				free = sgid;
			continue;
		}
		if (sirdma_sgid_is_on(sgid, on) && !memcmp(&sgid->ip, ip, sizeof(*ip)))
			return sgid;
	}
	return free;
}

static struct sirdma_interface sirdma_gid_interface(const struct ib_gid_attr *attr)
{
	struct sirdma_interface on = {};
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(attr->ndev);
	if (ndev)
		on = sirdma_interface_of(ndev);
	rcu_read_unlock();
	return on;
}

/*
 * The caller holds the lock. The MAC may have changed after it was read and before the notifier
 * could find the slot. The slot's interface is set now, so the notifier sees every later change.
 */
static void sirdma_sgid_recheck(struct sirdma_dev *dev, struct sirdma_sgid *sgid,
				const struct ib_gid_attr *attr)
{
	struct sirdma_gid_table *table = &dev->gids;
	u8 mac[ETH_ALEN];

	if (rdma_read_gid_l2_fields(attr, NULL, mac))
		return;
	spin_lock_bh(&table->mac_lock);
	if (!ether_addr_equal_unaligned(sgid->mac, mac)) {
		ether_addr_copy(sgid->mac, mac);
		sgid->dirty = true;
		mod_delayed_work(sirdma_rescue_wq, &table->update, 0);
	}
	spin_unlock_bh(&table->mac_lock);
}

/* The caller holds the lock. Make the core's index @index name @sgid; NULL: no slot. */
static void sirdma_gid_assign(struct sirdma_gid_table *table, u32 index, struct sirdma_sgid *sgid)
{
	unsigned long flags;

	spin_lock_irqsave(&table->use_lock, flags);
	table->by_gid[index] = sgid;
	spin_unlock_irqrestore(&table->use_lock, flags);
}

int sirdma_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct sirdma_dev *dev = to_sdev(attr->device);
	struct sirdma_gid_table *table = &dev->gids;
	struct sirdma_interface on = sirdma_gid_interface(attr);
	struct sirdma_sgid *sgid;
	u16 vlan = NO_VLAN;
	u8 mac[ETH_ALEN];
	struct sirdma_ip ip;
	int err;

	if (attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP || attr->index >= SIRDMA_GID_TABLE_LEN)
		return -EINVAL;
	err = rdma_read_gid_l2_fields(attr, &vlan, mac);
	if (err)
		return err;
	memcpy(&ip, &attr->gid, sizeof(ip));

	mutex_lock(&table->lock);
	sgid = sirdma_sgid_find(table, &ip, &on, attr->index);
	if (!sgid) {
		err = -ENOSPC;
		goto unlock;
	}
	sgid->ip = ip;
	sgid->has_vlan = vlan != NO_VLAN;
	sgid->vlan_id = sgid->has_vlan ? vlan : 0;
	err = sirdma_sgid_program(dev, sgid, mac);
	trace_sirdma_gid_set(dev, sirdma_sgid_index(dev, sgid), &ip, mac, err);
	if (err)
		goto unlock;

	spin_lock_bh(&table->mac_lock);
	sgid->interface = on;
	ether_addr_copy(sgid->mac, mac);
	sgid->dirty = false;
	spin_unlock_bh(&table->mac_lock);
	sgid->present = true;
	sirdma_gid_assign(table, attr->index, sgid);
	sirdma_sgid_recheck(dev, sgid, attr);
unlock:
	mutex_unlock(&table->lock);
	return err;
}

int sirdma_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct sirdma_dev *dev = to_sdev(attr->device);
	struct sirdma_gid_table *table = &dev->gids;
	struct sirdma_sgid *sgid;
	int err = 0;

	mutex_lock(&table->lock);
	sgid = table->by_gid[attr->index];
	if (sgid) {
		/*
		 * Do this even while QPs refer to the slot: there must be no traffic from an
		 * address that is gone.
		 */
		err = sirdma_cqp_clear_sgid(&dev->hw, sirdma_sgid_index(dev, sgid));
		trace_sirdma_gid_clear(dev, sirdma_sgid_index(dev, sgid), &sgid->ip,
				       READ_ONCE(sgid->users), err);
		sirdma_gid_assign(table, attr->index, NULL);
		sgid->present = false;
	}
	mutex_unlock(&table->lock);
	return err;
}

struct sirdma_sgid *sirdma_sgid_get(struct sirdma_dev *dev, const struct ib_gid_attr *attr)
{
	struct sirdma_gid_table *table = &dev->gids;
	struct sirdma_sgid *sgid;
	unsigned long flags;

	spin_lock_irqsave(&table->use_lock, flags);
	sgid = attr->index < SIRDMA_GID_TABLE_LEN ? table->by_gid[attr->index] : NULL;
	if (sgid)
		sgid->users++;
	else
		sgid = ERR_PTR(-EADDRNOTAVAIL);
	spin_unlock_irqrestore(&table->use_lock, flags);
	return sgid;
}

void sirdma_sgid_put(struct sirdma_dev *dev, struct sirdma_sgid *sgid)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->gids.use_lock, flags);
	/*
	 * When the count reaches 0, another address may get the slot. This pairs with
	 * sirdma_sgid_find().
	 */
	smp_store_release(&sgid->users, sgid->users - 1);
	spin_unlock_irqrestore(&dev->gids.use_lock, flags);
}

void sirdma_gid_mac_changed(struct sirdma_dev *dev, const struct net_device *ndev)
{
	struct sirdma_interface on = sirdma_interface_of(ndev);
	struct sirdma_gid_table *table = &dev->gids;
	int i;

	spin_lock_bh(&table->mac_lock);
	for (i = 0; i < SIRDMA_GID_SLOTS; i++) {
		struct sirdma_sgid *sgid = &table->slots[i];

		if (!sirdma_sgid_is_on(sgid, &on))
			continue;
		ether_addr_copy(sgid->mac, ndev->dev_addr);
		sgid->dirty = true;
	}
	spin_unlock_bh(&table->mac_lock);
	mod_delayed_work(sirdma_rescue_wq, &table->update, 0);
}

bool sirdma_gid_on_interface(struct sirdma_dev *dev, const struct net_device *ndev)
{
	struct sirdma_interface on = sirdma_interface_of(ndev);
	struct sirdma_gid_table *table = &dev->gids;
	bool found = false;
	int i;

	spin_lock_bh(&table->mac_lock);
	for (i = 0; i < SIRDMA_GID_SLOTS && !found; i++)
		found = sirdma_sgid_is_on(&table->slots[i], &on);
	spin_unlock_bh(&table->mac_lock);
	return found;
}
