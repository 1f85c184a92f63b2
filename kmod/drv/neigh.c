// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <linux/etherdevice.h>
#include <linux/jhash.h>
#include <linux/slab.h>
#include <net/netevent.h>

#include "device.h"
#include "hw/cqp_cmd.h"
#include "hw/limits.h"
#include "neigh.h"
#include "trace.h"

/* The kernel gives up on a neighbour after three requests, one second apart. */
#define RESOLVE_TIMEOUT (3 * HZ)
/*
 * A change of route raises no neighbour event, so the driver looks the route up again this often
 * meanwhile.
 */
#define RESOLVE_POLL (HZ / 4)
/* The driver confirms a neighbour, and notices a new gateway, about this often. */
#define REFRESH_PERIOD (5 * HZ)
/* A neighbour that fails this soon after a QP left RESET may be the one that the QP needs. */
#define EXPECT_TIME (10 * HZ)

static u32 sirdma_neigh_hash(const struct sirdma_ip *nexthop, int ifindex)
{
	return jhash(nexthop, sizeof(*nexthop), ifindex);
}

static struct net *sirdma_dev_net(struct sirdma_dev *dev)
{
	return dev_net(dev->ndev);
}

static bool sirdma_ip_equal(const struct sirdma_ip *a, const struct sirdma_ip *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static bool sirdma_route_key_equal(const struct sirdma_route_key *a,
				   const struct sirdma_route_key *b)
{
	return a->ifindex == b->ifindex && sirdma_ip_equal(&a->dst, &b->dst) &&
	       sirdma_ip_equal(&a->src, &b->src);
}

/* The caller holds hash_lock. Returns true when the entry became dirty. */
static bool sirdma_arp_set_mac(struct sirdma_arp *arp, const u8 *mac)
{
	if (ether_addr_equal_unaligned(arp->mac, mac))
		return false;
	ether_addr_copy(arp->mac, mac);
	arp->dirty = true;
	return true;
}

void sirdma_arp_copy_mac(struct sirdma_dev *dev, const struct sirdma_arp *arp, u8 *mac)
{
	spin_lock_bh(&dev->neighs.hash_lock);
	memcpy(mac, arp->mac, ETH_ALEN);
	spin_unlock_bh(&dev->neighs.hash_lock);
}

/*
 * The caller holds the lock. Program the entry if it is dirty. On failure it stays dirty, and the
 * next refresh tries again.
 */
static int sirdma_arp_sync(struct sirdma_dev *dev, struct sirdma_arp *arp)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	u8 mac[ETH_ALEN];
	bool dirty;
	int err;

	/* Clear the flag before the command, so that a change during the command is not lost. */
	spin_lock_bh(&table->hash_lock);
	dirty = arp->dirty;
	arp->dirty = false;
	ether_addr_copy(mac, arp->mac);
	spin_unlock_bh(&table->hash_lock);
	if (!dirty)
		return 0;
	err = sirdma_cqp_set_arp(&dev->hw, arp->idx, mac);
	trace_sirdma_arp_set(dev, arp->idx, &arp->key.dst, mac, err);
	if (err) {
		spin_lock_bh(&table->hash_lock);
		arp->dirty = true;
		spin_unlock_bh(&table->hash_lock);
		return err;
	}
	sirdma_count(&dev->counters, SIRDMA_COUNTER_NEIGH_MOVES);
	return 0;
}

static void sirdma_neigh_update(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, neighs.update);
	struct sirdma_neigh_table *table = &dev->neighs;
	struct sirdma_arp *arp;
	int bucket;

	mutex_lock(&table->lock);
	/* Membership only changes under the mutex, so the walk needs no hash_lock. */
	hash_for_each(table->hash, bucket, arp, node) {
		sirdma_arp_sync(dev, arp);
		cond_resched();
	}
	mutex_unlock(&table->lock);
}

/* The caller holds the lock. Look up the entry's next hop and MAC again. */
static void sirdma_arp_refresh(struct sirdma_dev *dev, struct sirdma_arp *arp)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	struct sirdma_nexthop hop;

	/* Without a route or an answer the old MAC stays, as the neighbour may come back. */
	if (!sirdma_route_lookup(sirdma_dev_net(dev), &arp->key, &hop)) {
		spin_lock_bh(&table->hash_lock);
		arp->nexthop = hop.ip;
		if (hop.valid)
			sirdma_arp_set_mac(arp, hop.mac);
		spin_unlock_bh(&table->hash_lock);
	}
	sirdma_arp_sync(dev, arp);
}

static void sirdma_neigh_refresh_work(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, neighs.refresh.work);
	struct sirdma_neigh_table *table = &dev->neighs;
	struct hlist_node *next;
	struct sirdma_arp *arp;
	int bucket;

	mutex_lock(&table->lock);
	hash_for_each_safe(table->hash, bucket, next, arp, node) {
		struct sirdma_ip old = arp->nexthop;

		cond_resched();
		sirdma_arp_refresh(dev, arp);
		if (sirdma_ip_equal(&old, &arp->nexthop))
			continue;
		/* The walk may meet the entry once more in its new bucket, which does no harm. */
		spin_lock_bh(&table->hash_lock);
		hash_del(&arp->node);
		hash_add(table->hash, &arp->node,
			 sirdma_neigh_hash(&arp->nexthop, arp->key.ifindex));
		spin_unlock_bh(&table->hash_lock);
	}
	if (table->count)
		queue_delayed_work(sirdma_rescue_wq, &table->refresh, REFRESH_PERIOD);
	mutex_unlock(&table->lock);
}

void sirdma_neigh_expect(struct sirdma_dev *dev)
{
	WRITE_ONCE(dev->neighs.expected, jiffies);
}

void sirdma_neigh_refresh(struct sirdma_dev *dev)
{
	mod_delayed_work(sirdma_rescue_wq, &dev->neighs.refresh, 0);
}

static bool sirdma_neigh_in_use(struct sirdma_dev *dev, const struct neighbour *neigh,
				const struct sirdma_ip *ip)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	struct sirdma_arp *arp;
	bool found = false;

	spin_lock_bh(&table->hash_lock);
	hash_for_each_possible(table->hash, arp, node, sirdma_neigh_hash(ip, neigh->dev->ifindex))
		found |= arp->key.ifindex == neigh->dev->ifindex &&
			 sirdma_ip_equal(&arp->nexthop, ip);
	spin_unlock_bh(&table->hash_lock);
	return found;
}

/* The kernel gave up on a neighbour. Report this if a QP uses the neighbour, or may be about to. */
static void sirdma_neigh_lost(struct sirdma_dev *dev, const struct neighbour *neigh,
			      const struct sirdma_ip *ip)
{
	if (!sirdma_neigh_in_use(dev, neigh, ip) &&
	    (time_after(jiffies, READ_ONCE(dev->neighs.expected) + EXPECT_TIME) ||
	     !sirdma_gid_on_interface(dev, neigh->dev)))
		return;
	sirdma_count(&dev->counters, SIRDMA_COUNTER_NEIGH_UNREACHABLE);
	ibdev_dbg(&dev->ibdev, "neighbour %pI6c on %s does not answer\n", ip, neigh->dev->name);
}

static void sirdma_neigh_changed(struct sirdma_dev *dev, const struct neighbour *neigh,
				 const struct sirdma_ip *ip)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	struct sirdma_arp *arp;
	bool dirty = false;
	u8 mac[ETH_ALEN];

	neigh_ha_snapshot((char *)mac, neigh, neigh->dev);
	if (!is_valid_ether_addr(mac))
		return;
	spin_lock_bh(&table->hash_lock);
	hash_for_each_possible(table->hash, arp, node, sirdma_neigh_hash(ip, neigh->dev->ifindex))
		if (arp->key.ifindex == neigh->dev->ifindex && sirdma_ip_equal(&arp->nexthop, ip))
			dirty |= sirdma_arp_set_mac(arp, mac);
	spin_unlock_bh(&table->hash_lock);
	if (dirty)
		queue_work(sirdma_rescue_wq, &table->update);
}

/*
 * Runs in atomic context, sometimes under locks of the neighbour code, so it only records the
 * change and leaves commands to table->update.
 */
static int sirdma_netevent(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct sirdma_dev *dev = container_of(nb, struct sirdma_dev, neighs.netevent);
	const struct neighbour *neigh = ptr;
	struct sirdma_ip ip;
	u8 state;

	if (event != NETEVENT_NEIGH_UPDATE || !net_eq(dev_net(neigh->dev), sirdma_dev_net(dev)) ||
	    neigh->dev->addr_len != ETH_ALEN || !sirdma_neigh_ip(neigh, &ip))
		return NOTIFY_DONE;

	state = READ_ONCE(neigh->nud_state);
	if (state & NUD_VALID)
		sirdma_neigh_changed(dev, neigh, &ip);
	else if (state & NUD_FAILED)
		sirdma_neigh_lost(dev, neigh, &ip);
	atomic_inc(&dev->neighs.events);
	wake_up_all(&dev->neighs.wait);
	return NOTIFY_DONE;
}

int sirdma_neigh_init(struct sirdma_dev *dev)
{
	struct sirdma_neigh_table *table = &dev->neighs;

	mutex_init(&table->lock);
	port_mutex_teach_lockdep(&table->lock);
	spin_lock_init(&table->hash_lock);
	hash_init(table->hash);
	init_waitqueue_head(&table->wait);
	atomic_set(&table->events, 0);
	table->expected = jiffies - EXPECT_TIME - 1;
	INIT_WORK(&table->update, sirdma_neigh_update);
	INIT_DELAYED_WORK(&table->refresh, sirdma_neigh_refresh_work);
	table->netevent.notifier_call = sirdma_netevent;
	return register_netevent_notifier(&table->netevent);
}

void sirdma_neigh_fini(struct sirdma_dev *dev)
{
	struct sirdma_neigh_table *table = &dev->neighs;

	unregister_netevent_notifier(&table->netevent);
	cancel_work_sync(&table->update);
	cancel_delayed_work_sync(&table->refresh);
}

/* Look up until the MAC is known or the time is over. */
static int sirdma_neigh_resolve(struct sirdma_dev *dev, const struct sirdma_route_key *key,
				struct sirdma_nexthop *hop)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	unsigned long deadline = jiffies + RESOLVE_TIMEOUT;
	bool asked = false;
	int seen, err;
	long left;

	for (;;) {
		seen = atomic_read(&table->events);
		err = sirdma_route_lookup(sirdma_dev_net(dev), key, hop);
		if (err) {
			sirdma_count(&dev->counters, SIRDMA_COUNTER_ROUTE_FAILURES);
			return err;
		}
		if (hop->valid)
			return 0;
		/* Ignore a failure from before this call: the lookup has asked again. */
		if (hop->failed && asked)
			return -EHOSTUNREACH;
		asked = true;
		left = deadline - jiffies;
		if (left <= 0) {
			sirdma_count(&dev->counters, SIRDMA_COUNTER_NEIGH_TIMEOUTS);
			return -ETIMEDOUT;
		}
		left = wait_event_interruptible_timeout(table->wait,
							atomic_read(&table->events) != seen,
							min_t(long, left, RESOLVE_POLL));
		if (left < 0)
			return -EINTR;
	}
}

/* The caller holds the lock. */
static struct sirdma_arp *sirdma_arp_find(struct sirdma_neigh_table *table,
					  const struct sirdma_route_key *key, kuid_t uid,
					  const struct sirdma_ip *nexthop)
{
	struct sirdma_arp *arp;

	hash_for_each_possible(table->hash, arp, node, sirdma_neigh_hash(nexthop, key->ifindex))
		if (uid_eq(arp->uid, uid) && sirdma_route_key_equal(&arp->key, key))
			return arp;
	return NULL;
}

/* The caller holds the lock. May @uid have one more entry (sirdma_share_is_fair())? */
static bool sirdma_arp_is_fair(struct sirdma_dev *dev, kuid_t uid)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	const u32 limit = dev->hw.arp_ids.limit;
	struct sirdma_arp *arp;
	u32 mine = 0;
	int bucket;

	/* While less than half of the entries are used, nobody has more than its share. */
	if (!uid_valid(uid) || table->count < limit / 2)
		return true;
	hash_for_each(table->hash, bucket, arp, node)
		mine += uid_eq(arp->uid, uid);
	if (sirdma_one_more_is_fair(limit, table->count, mine))
		return true;
	ibdev_dbg(&dev->ibdev,
		  "modify_qp: the user has %u ARP entries, and others need those left of %u\n",
		  mine, limit);
	return false;
}

/* The caller holds the lock. Enter @arp into the tables of device and driver. */
static int sirdma_arp_add(struct sirdma_dev *dev, struct sirdma_arp *arp,
			  const struct sirdma_route_key *key, const struct sirdma_nexthop *hop)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	int err;

	if (!sirdma_arp_is_fair(dev, arp->uid))
		return -ENOMEM;
	arp->key = *key;
	arp->nexthop = hop->ip;
	ether_addr_copy(arp->mac, hop->mac);
	err = sirdma_idpool_get(&dev->hw.arp_ids, &arp->idx);
	if (err)
		return err;
	err = sirdma_cqp_set_arp(&dev->hw, arp->idx, hop->mac);
	trace_sirdma_arp_set(dev, arp->idx, &key->dst, hop->mac, err);
	if (err)
		goto err_id;

	spin_lock_bh(&table->hash_lock);
	hash_add(table->hash, &arp->node, sirdma_neigh_hash(&arp->nexthop, key->ifindex));
	spin_unlock_bh(&table->hash_lock);
	/* The first refresh comes soon, for a neighbour that moved before the entry was hashed. */
	if (!table->count++)
		queue_delayed_work(sirdma_rescue_wq, &table->refresh, HZ);
	return 0;

err_id:
	sirdma_idpool_put(&dev->hw.arp_ids, arp->idx);
	return err;
}

struct sirdma_arp *sirdma_arp_get(struct sirdma_dev *dev, const struct sirdma_route_key *key,
				  kuid_t uid)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	struct sirdma_arp *arp, *fresh;
	struct sirdma_nexthop hop;
	int err;

	trace_sirdma_neigh_start(dev, key);
	err = sirdma_neigh_resolve(dev, key, &hop);
	trace_sirdma_neigh_done(dev, key, &hop, err);
	if (err)
		return ERR_PTR(err);

	/*
	 * Do this before taking the lock: a cgroup at its limit reclaims memory here, and must not
	 * keep other users waiting.
	 */
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return ERR_PTR(-ENOMEM);
	fresh->uid = uid;
	mutex_lock(&table->lock);
	arp = sirdma_arp_find(table, key, uid, &hop.ip);
	if (!arp) {
		arp = fresh;
		fresh = NULL;
		err = sirdma_arp_add(dev, arp, key, &hop);
		if (err)
			kfree(arp);
	} else {
		spin_lock_bh(&table->hash_lock);
		sirdma_arp_set_mac(arp, hop.mac);
		spin_unlock_bh(&table->hash_lock);
		err = sirdma_arp_sync(dev, arp);
	}
	if (!err)
		arp->users++;
	mutex_unlock(&table->lock);
	kfree(fresh);
	return err ? ERR_PTR(err) : arp;
}

void sirdma_arp_put(struct sirdma_dev *dev, struct sirdma_arp *arp)
{
	struct sirdma_neigh_table *table = &dev->neighs;
	int err;

	mutex_lock(&table->lock);
	if (--arp->users)
		goto unlock;
	spin_lock_bh(&table->hash_lock);
	hash_del(&arp->node);
	spin_unlock_bh(&table->hash_lock);
	table->count--;
	err = sirdma_cqp_clear_arp(&dev->hw, arp->idx);
	trace_sirdma_arp_clear(dev, arp->idx, &arp->key.dst, err);
	sirdma_idpool_put(&dev->hw.arp_ids, arp->idx);
	kfree(arp);
unlock:
	mutex_unlock(&table->lock);
}
