// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "mcast.h"

#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <rdma/ib_cache.h>

#include "device.h"
#include "health.h"
#include "hw/limits.h"
#include "hw/mcast.h"
#include "qp.h"

/* Each netdev that may be a member has at least one entry of the GID table. */
#define LINKS_MAX SIRDMA_GID_TABLE_LEN

struct sirdma_mcast_link {
	struct net_device *ndev; /* held; NULL: the entry is free */
	netdevice_tracker tracker;
	/*
	 * The netdev's IPv4 and IPv6 state, which has the memberships. Held; NULL: not looked up
	 * yet, or none.
	 */
	struct in_device *in_dev;
	struct inet6_dev *in6_dev;
	bool wanted; /* the netdev has an address of the device, and there is a group */
};

struct sirdma_membership {
	struct list_head node;
	struct sirdma_ip ip;
	/* The user that has it: of the first QP, which may be gone. INVALID_UID: a kernel consumer */
	kuid_t uid;
	bool ended; /* no queue pair is attached any more */
	DECLARE_BITMAP(joined, LINKS_MAX); /* links that have joined, by index of links[] */
};

/* The caller holds RTNL. Is anybody on the netdev a member of the group? */
static bool sirdma_group_has_members(const struct in_device *in_dev, __be32 addr)
{
	const struct ip_mc_list *im;

	for (im = rtnl_dereference(in_dev->mc_list); im; im = rtnl_dereference(im->next_rcu))
		if (im->multiaddr == addr)
			return true;
	return false;
}

/*
 * The caller holds RTNL. Returns -ENOMEM; other errors mean that the netdev does not take part in
 * this IP version.
 */
static int sirdma_group_join(struct net_device *ndev, const struct sirdma_ip *ip)
{
	const struct in6_addr *addr = (const struct in6_addr *)ip;
	struct in_device *in_dev;

	if (!ipv6_addr_v4mapped(addr))
		return IS_ENABLED(CONFIG_IPV6) && ipv6_mod_enabled() ? ipv6_dev_mc_inc(ndev, addr) :
								       -EAFNOSUPPORT;
	in_dev = __in_dev_get_rtnl(ndev);
	if (!in_dev)
		return -ENODEV;
	/* It does not say that it had no memory. Leaving would end the membership of another program then. */
	ip_mc_inc_group(in_dev, addr->s6_addr32[3]);
	return sirdma_group_has_members(in_dev, addr->s6_addr32[3]) ? 0 : -ENOMEM;
}

/* The caller holds RTNL. */
static void sirdma_group_leave(struct net_device *ndev, const struct sirdma_ip *ip)
{
	const struct in6_addr *addr = (const struct in6_addr *)ip;
	struct in_device *in_dev;

	if (!ipv6_addr_v4mapped(addr)) {
		if (IS_ENABLED(CONFIG_IPV6))
			ipv6_dev_mc_dec(ndev, addr);
		return;
	}
	/* A netdev without addresses has left its groups. */
	in_dev = __in_dev_get_rtnl(ndev);
	if (in_dev)
		ip_mc_dec_group(in_dev, addr->s6_addr32[3]);
}

/* The entry of @ndev. The function makes it if there is none; NULL: there is no room. */
static struct sirdma_mcast_link *sirdma_link_get(struct sirdma_mcast_members *members,
						 struct net_device *ndev)
{
	struct sirdma_mcast_link *link, *free = NULL;

	for (link = members->links; link < members->links + LINKS_MAX; link++) {
		if (link->ndev == ndev)
			return link;
		if (!link->ndev && !free)
			free = link;
	}
	if (free) {
		free->ndev = ndev;
		netdev_hold(ndev, &free->tracker, GFP_ATOMIC);
	}
	return free;
}

static void sirdma_link_release_v4(struct sirdma_mcast_link *link)
{
	if (link->in_dev)
		in_dev_put(link->in_dev);
	link->in_dev = NULL;
}

static void sirdma_link_release_v6(struct sirdma_mcast_link *link)
{
	if (IS_ENABLED(CONFIG_IPV6) && link->in6_dev)
		in6_dev_put(link->in6_dev);
	link->in6_dev = NULL;
}

static void sirdma_link_put(struct sirdma_mcast_link *link)
{
	sirdma_link_release_v4(link);
	sirdma_link_release_v6(link);
	netdev_put(link->ndev, &link->tracker);
	link->ndev = NULL;
}

/* Mark the netdevs that have an address of the device. */
static void sirdma_links_find(struct sirdma_dev *dev)
{
	struct sirdma_mcast_link *link;
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	int i;

	for (i = 0; i < SIRDMA_GID_TABLE_LEN; i++) {
		attr = rdma_get_gid_attr(&dev->ibdev, 1, i);
		if (IS_ERR(attr))
			continue;
		rcu_read_lock();
		ndev = rcu_dereference(attr->ndev);
		link = ndev ? sirdma_link_get(&dev->mcast, ndev) : NULL;
		if (link)
			link->wanted = true;
		rcu_read_unlock();
		rdma_put_gid_attr(attr);
	}
}

/*
 * The caller holds RTNL. @link's memberships of this IP version ended with the state that had them.
 */
static void sirdma_link_forget(struct sirdma_mcast_members *members,
			       const struct sirdma_mcast_link *link, bool v4)
{
	struct sirdma_membership *group;

	list_for_each_entry(group, &members->groups, node)
		if (ipv6_addr_v4mapped((const struct in6_addr *)&group->ip) == v4)
			__clear_bit(link - members->links, group->joined);
}

/*
 * The caller holds RTNL. A netdev gets a new in_device or inet6_dev, without members, when it is
 * moved to another namespace, or when its MTU was too small for the IP version.
 */
static void sirdma_link_refresh(struct sirdma_mcast_members *members,
				struct sirdma_mcast_link *link)
{
	struct in_device *in_dev = __in_dev_get_rtnl(link->ndev);
	struct inet6_dev *in6_dev = IS_ENABLED(CONFIG_IPV6) ? __in6_dev_get(link->ndev) : NULL;

	if (in_dev != link->in_dev) {
		sirdma_link_forget(members, link, true);
		sirdma_link_release_v4(link);
		link->in_dev = in_dev;
		if (in_dev)
			in_dev_hold(in_dev);
	}
	if (in6_dev != link->in6_dev) {
		sirdma_link_forget(members, link, false);
		sirdma_link_release_v6(link);
		link->in6_dev = in6_dev;
		if (in6_dev)
			in6_dev_hold(in6_dev);
	}
}

/* The caller holds RTNL. Make @link a member of the group, or end its membership. */
static int sirdma_membership_sync(struct sirdma_mcast_members *members,
				  struct sirdma_mcast_link *link, struct sirdma_membership *group)
{
	bool member = link->wanted && !group->ended;
	int nr = link - members->links;
	int err;

	if (member == test_bit(nr, group->joined))
		return 0;
	__change_bit(nr, group->joined);
	if (!member) {
		sirdma_group_leave(link->ndev, &group->ip);
		return 0;
	}
	err = sirdma_group_join(link->ndev, &group->ip);
	if (err)
		__clear_bit(nr, group->joined);
	return err == -ENOMEM ? err : 0;
}

/*
 * The caller holds the lock. Make the netdevs members of exactly the present groups. Returns
 * -ENOMEM if some memberships are missing.
 */
static int sirdma_mcast_sync(struct sirdma_dev *dev)
{
	struct sirdma_mcast_members *members = &dev->mcast;
	struct sirdma_membership *group, *next;
	struct sirdma_mcast_link *link;
	int err = 0;

	for (link = members->links; link < members->links + LINKS_MAX; link++)
		link->wanted = false;
	if (!list_empty(&members->groups))
		sirdma_links_find(dev);
	rtnl_lock();
	for (link = members->links; link < members->links + LINKS_MAX; link++) {
		if (!link->ndev)
			continue;
		sirdma_link_refresh(members, link);
		list_for_each_entry(group, &members->groups, node)
			err = sirdma_membership_sync(members, link, group) ?: err;
		if (!link->wanted)
			sirdma_link_put(link);
	}
	rtnl_unlock();
	list_for_each_entry_safe(group, next, &members->groups, node) {
		if (!group->ended)
			continue;
		list_del(&group->node);
		kfree(group);
	}
	return err;
}

/* The caller holds the lock. */
static struct sirdma_membership *sirdma_membership_find(struct sirdma_dev *dev,
							const struct sirdma_ip *ip)
{
	struct sirdma_membership *group;

	list_for_each_entry(group, &dev->mcast.groups, node)
		if (!memcmp(&group->ip, ip, sizeof(*ip)))
			return group;
	return NULL;
}

/* The caller holds the lock. */
static void sirdma_mcast_end(struct sirdma_dev *dev, const struct sirdma_ip *ip)
{
	struct sirdma_membership *group = sirdma_membership_find(dev, ip);

	if (group)
		group->ended = true;
	sirdma_mcast_sync(dev);
	/*
	 * The first call kept the netdevs, because the group was still listed. This one releases
	 * them.
	 */
	if (list_empty(&dev->mcast.groups))
		sirdma_mcast_sync(dev);
}

/* The caller holds the lock. May @uid have one more group (sirdma_share_is_fair())? */
static bool sirdma_mcast_is_fair(struct sirdma_dev *dev, kuid_t uid)
{
	const struct sirdma_membership *group;
	u32 used = 0, mine = 0;

	if (!uid_valid(uid))
		return true;
	list_for_each_entry(group, &dev->mcast.groups, node) {
		used++;
		mine += uid_eq(group->uid, uid);
	}
	if (sirdma_one_more_is_fair(dev->hw.caps.max_mcast_grps, used, mine))
		return true;
	ibdev_dbg(&dev->ibdev,
		  "attach_mcast: the user has %u groups, and others need those left of %u\n", mine,
		  dev->hw.caps.max_mcast_grps);
	return false;
}

/* The caller holds the lock. *fresh becomes the membership of group @ip. */
static int sirdma_mcast_join(struct sirdma_dev *dev, const struct sirdma_ip *ip,
			     struct sirdma_membership **fresh)
{
	struct sirdma_membership *group = *fresh;
	int err;

	*fresh = NULL;
	group->ip = *ip;
	list_add_tail(&group->node, &dev->mcast.groups);
	err = sirdma_mcast_sync(dev);
	if (err)
		sirdma_mcast_end(dev, ip);
	return err;
}

/* Returns -EDQUOT if the group is new and the user has its share of groups. */
static int sirdma_mcast_try_attach(struct sirdma_dev *dev, const struct sirdma_ip *ip,
				   const struct sirdma_qp *qp)
{
	const u32 qpn = qp->ibqp.qp_num;
	struct sirdma_membership *fresh;
	bool first, last;
	int err;

	/* This may reclaim memory of the cgroup, so no lock is held. */
	fresh = kzalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return -ENOMEM;
	fresh->uid = qp->uid;
	mutex_lock(&dev->mcast.lock);
	if (sirdma_ip_is_multicast(ip) && !sirdma_membership_find(dev, ip) &&
	    !sirdma_mcast_is_fair(dev, qp->uid)) {
		err = -EDQUOT;
		goto unlock;
	}
	err = sirdma_mcast_attach(&dev->hw, ip, qpn, &first);
	if (!err && first) {
		err = sirdma_mcast_join(dev, ip, &fresh);
		if (err && sirdma_mcast_detach(&dev->hw, ip, qpn, &last))
			sirdma_dev_fail(dev, err);
	}
unlock:
	mutex_unlock(&dev->mcast.lock);
	kfree(fresh);
	return err;
}

int sirdma_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct sirdma_dev *dev = to_sdev(ibqp->device);
	struct sirdma_ip ip;
	u32 tries = 0;
	int err;

	memcpy(&ip, gid, sizeof(ip));
	do {
		err = sirdma_mcast_try_attach(dev, &ip, to_sqp(ibqp));
	} while (sirdma_cqp_make_room(err, &tries));
	if (err == -EDQUOT)
		err = -ENOMEM;
	if (err)
		sirdma_refused(dev, "attach_mcast: QP %u to %pI6c: %d", ibqp->qp_num, gid->raw,
			       err);
	return err;
}

int sirdma_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct sirdma_dev *dev = to_sdev(ibqp->device);
	struct sirdma_ip ip;
	bool last;
	int err;

	memcpy(&ip, gid, sizeof(ip));
	mutex_lock(&dev->mcast.lock);
	err = sirdma_mcast_detach(&dev->hw, &ip, ibqp->qp_num, &last);
	if (last)
		sirdma_mcast_end(dev, &ip);
	mutex_unlock(&dev->mcast.lock);
	if (!err || err == -EINVAL)
		return err;
	/*
	 * The QP is detached here. If the device does not detach it, the device must not continue.
	 */
	sirdma_dev_fail(dev, err);
	return 0;
}

static void sirdma_mcast_sync_work(struct work_struct *work)
{
	struct sirdma_dev *dev = container_of(work, struct sirdma_dev, mcast.sync);

	mutex_lock(&dev->mcast.lock);
	/* The work repeats while users join groups and memory is short. */
	if (sirdma_mcast_sync(dev)) {
		sirdma_count(&dev->counters, SIRDMA_COUNTER_MCAST_FAILURES);
		ibdev_dbg(&dev->ibdev, "no memory to join all multicast groups\n");
	}
	mutex_unlock(&dev->mcast.lock);
}

static void sirdma_mcast_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct sirdma_dev *dev = container_of(handler, struct sirdma_dev, mcast.events);

	if (event->event == IB_EVENT_GID_CHANGE)
		sirdma_mcast_rejoin(dev);
}

void sirdma_mcast_rejoin(struct sirdma_dev *dev)
{
	queue_work(sirdma_upkeep_wq, &dev->mcast.sync);
}

int sirdma_mcast_members_init(struct sirdma_dev *dev)
{
	struct sirdma_mcast_members *members = &dev->mcast;

	members->links = kcalloc(LINKS_MAX, sizeof(*members->links), GFP_KERNEL);
	if (!members->links)
		return -ENOMEM;
	mutex_init(&members->lock);
	INIT_LIST_HEAD(&members->groups);
	INIT_WORK(&members->sync, sirdma_mcast_sync_work);
	INIT_IB_EVENT_HANDLER(&members->events, &dev->ibdev, sirdma_mcast_event);
	ib_register_event_handler(&members->events);
	return 0;
}

void sirdma_mcast_members_fini(struct sirdma_dev *dev)
{
	ib_unregister_event_handler(&dev->mcast.events);
	cancel_work_sync(&dev->mcast.sync);
	kfree(dev->mcast.links);
}
