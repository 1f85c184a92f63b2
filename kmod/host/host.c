// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "host.h"

#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rculist.h>
#include <linux/sched/stat.h>
#include <linux/slab.h>
#include "addr.h"
#include "bus.h"
#include "calibrate.h"
#include "cpu.h"
#include "dev.h"
#include "fault.h"
#include "host/trace.h"
#include "local.h"
#include "rx.h"
#include "tx.h"

LIST_HEAD(snic_hosts);
static DEFINE_MUTEX(snic_hosts_lock); /* protects changes of snic_hosts */
struct workqueue_struct *snic_wq;

/*
 * Period of polling the send queue of a poster that does not wait: a kick costs the poster several
 * us. In an emulated guest 10 us gave 4 KiB messages 0.75 of the bandwidth, and 50, 100 and 200 us
 * the same.
 */
#define SQ_POLL_NS (50 * NSEC_PER_USEC)
/*
 * Length of a READ request, bytes: the burst that answers it at a path MTU of 1024 and above. READs of 1 MiB
 * between two devices of the emulated guest (tests/bench/run read_bw-1048576-veth) come at 152 to 160 MB/s,
 * and at 147 with requests of twice or half the length. Twins are better off with the longest requests: over
 * UDP READs come at 3.1 GB/s, and at 1.3 to 2.2 with these, because the helper thread, which answers most
 * requests, takes longer to wake than to send.
 */
#define READ_BYTES SNIC_BURST_DEFAULT

static struct snic_burst *snic_host_burst(struct snic_host *host)
{
	return snic_cpu_this()->burst;
}

static void snic_host_defer(struct snic_host *host, u32 qpn, bool background)
{
	if (background) {
		snic_defer_background(host, qpn);
		return;
	}
	snic_qpset_add(&host->deferred, qpn);
	snic_cpu_schedule_bh();
}

const struct snic_host_ops snic_kernel_host_ops = {
	.irq = snic_bus_irq,
	.room = snic_host_tx_room,
	.tx = snic_tx,
	.defer = snic_host_defer,
	.burst = snic_host_burst,
	.pull = snic_local_pull,
	.finish_kept = snic_local_finish_kept,
	.finish_kept_before = snic_local_finish_kept_before,
};

static bool snic_host_suits(const struct net_device *ndev)
{
	return ndev->type == ARPHRD_ETHER && ndev->addr_len == ETH_ALEN && !is_vlan_dev(ndev);
}

static bool snic_host_exists(const struct net_device *ndev)
{
	const struct snic_host *host;

	list_for_each_entry(host, &snic_hosts, node)
		if (host->ndev == ndev)
			return true;
	return false;
}

static struct snic_host *snic_host_alloc(struct net_device *ndev,
					 const struct sirdma_bus_config *config)
{
	struct snic_config full = {
		.max_qps = config->max_qps,
		.max_cqs = config->max_cqs,
		.max_srqs = config->max_srqs,
		.max_mrs = config->max_mrs,
		.max_pds = config->max_pds,
		.max_sds = config->max_sds,
		.max_ceqs = config->max_ceqs,
		.max_arp = config->max_arp,
		.max_sgids = config->max_sgids,
		.max_cqe = config->max_cqe,
		.sq_poll_ns = SQ_POLL_NS,
		.read_bytes = READ_BYTES,
	};
	struct snic_host *host;
	int err = -ENOMEM;

	host = kvzalloc(sizeof(*host), GFP_KERNEL);
	if (!host)
		return ERR_PTR(err);
	host->ndev = ndev;
	INIT_LIST_HEAD(&host->addrs);
	host->txqs = snic_txqs_create(host, full.max_qps);
	if (!host->txqs)
		goto err_free;
	err = snic_qpset_init(&host->deferred, full.max_qps);
	if (err)
		goto err_txqs;
	err = snic_qpset_init(&host->background, full.max_qps);
	if (err)
		goto err_deferred;
	kthread_init_work(&host->background_work, snic_background_work);
	INIT_WORK(&host->gsi_work, snic_gsi_work);
	err = snic_bus_init(host, full.max_ceqs + 1);
	if (err)
		goto err_background;
	ether_addr_copy(full.mac, ndev->dev_addr);
	host->dev = snic_dev_create(&full, &snic_kernel_host_ops, host, NULL, NULL);
	if (!host->dev) {
		err = -ENOMEM;
		goto err_bus;
	}
	return host;

err_bus:
	snic_bus_fini(host);
err_background:
	snic_qpset_fini(&host->background);
err_deferred:
	snic_qpset_fini(&host->deferred);
err_txqs:
	snic_txqs_destroy(host->txqs);
err_free:
	kvfree(host);
	return ERR_PTR(err);
}

/* From now on the host sends, delivers and defers nothing. */
static void snic_host_free(struct snic_host *host)
{
	snic_txqs_destroy(host->txqs);
	host->txqs = NULL; /* nothing is kept any more */
	snic_dev_destroy(host->dev);
	snic_bus_fini(host);
	snic_qpset_fini(&host->background);
	snic_qpset_fini(&host->deferred);
	kvfree(host);
}

__visible struct sirdma_bus *sirdma_bus_create(struct net_device *ndev,
					       const struct sirdma_bus_config *config)
{
	struct snic_host *host;
	int err;

	if (!snic_host_suits(ndev))
		return ERR_PTR(-EINVAL);
	mutex_lock(&snic_hosts_lock);
	if (snic_host_exists(ndev)) {
		err = -EBUSY;
		goto err_unlock;
	}
	host = snic_host_alloc(ndev, config);
	if (IS_ERR(host)) {
		err = PTR_ERR(host);
		goto err_unlock;
	}
	netdev_hold(ndev, &host->ndev_tracker, GFP_KERNEL);
	snic_host_update(&host->bus.base);
	err = snic_rx_attach(host);
	if (err)
		goto err_put;
	list_add_tail_rcu(&host->node, &snic_hosts);
	mutex_unlock(&snic_hosts_lock);
	return &host->bus.base;

err_put:
	netdev_put(ndev, &host->ndev_tracker);
	snic_host_free(host);
err_unlock:
	mutex_unlock(&snic_hosts_lock);
	return ERR_PTR(err);
}
EXPORT_SYMBOL_GPL(sirdma_bus_create);

void snic_host_destroy(struct sirdma_bus *bus)
{
	struct snic_host *host = snic_host_of(bus);
	struct net_device *ndev = host->ndev;
	netdevice_tracker tracker = host->ndev_tracker;

	snic_rx_detach(host);
	snic_addr_flush(host);
	mutex_lock(&snic_hosts_lock);
	list_del_rcu(&host->node);
	mutex_unlock(&snic_hosts_lock);
	/* From now on no other device delivers here, and no CPU runs deferred work of this one. */
	synchronize_rcu();
	kthread_cancel_work_sync(&host->background_work);
	cancel_work_sync(&host->gsi_work);
	snic_host_free(host);
	netdev_put(ndev, &tracker);
}

static void snic_host_choose(struct work_struct *work) {}

static DECLARE_WORK(snic_choose_work, snic_host_choose);

/*
 * Yields in a row of which one gives the CPU away. Where the scheduler takes the rest of a slice, 0.7 ms or more,
 * from whoever yields (Linux 7.3, measured), they make up for the period of the tick, 10 ms at most, that the
 * task that waits may have had in advance. Older schedulers may choose the caller each time.
 */
#define SNIC_YIELDS 20

/* How often the caller has lost the CPU. */
static unsigned long snic_host_switches(void)
{
	return current->nvcsw + current->nivcsw;
}

/*
 * For a machine with one CPU, when a packet has reached a queue pair of this machine during the caller's kick. A
 * receiver that sleeps was woken. A receiver that polls sees the message only when the caller's time slice
 * ends, and the caller most likely spends the slice polling for the answer. Neither of them makes a
 * system call then, so only this function can help. (ib_write_lat with 64 bytes, UML: 11 us; without this
 * 10 ms, a period of the tick.)
 *
 * Queueing work that does nothing makes the scheduler choose again among all runnable tasks. It chooses the
 * caller while that has had less than its share. So a caller whose queue pair takes turns with its peer
 * yields, unless it lost the CPU since @switches, or is about to, to a task that was woken. A caller that streams
 * does not yield, and keeps its share.
 */
static void snic_host_give_way(struct snic_host *host, u32 qpn, bool is_poster,
			       unsigned long switches)
{
	u32 i;

	might_sleep();
	/* yield() lets only tasks of the same real-time priority run, and ends the period of a SCHED_DEADLINE task. */
	if (is_poster && current->prio >= MAX_RT_PRIO && snic_qp_takes_turns(host->dev, qpn)) {
		if (need_resched())
			return;
		for (i = 0; i < SNIC_YIELDS && snic_host_switches() == switches; i++)
			yield();
		if (snic_host_switches() != switches)
			return;
	}
	queue_work(snic_wq, &snic_choose_work);
}

u8 snic_host_kick(struct sirdma_bus *bus, u32 qpn, u32 kicker)
{
	struct snic_host *host = snic_host_of(bus);
	unsigned long received = snic_cpu_received(), switches = snic_host_switches();
	bool known = true;

	trace_snic_kick(host->ndev, qpn);
	snic_enter();
	if (kicker)
		known = snic_qp_kick_by(host->dev, qpn, kicker);
	else
		snic_qp_kick(host->dev, qpn);
	snic_leave();
	/* Without a number it may be a worker of the driver that kicks. */
	if (num_online_cpus() == 1 && known && snic_cpu_received() != received &&
	    !single_task_running())
		snic_host_give_way(host, qpn, kicker, switches);
	return known;
}

void snic_host_update(struct sirdma_bus *bus)
{
	struct snic_host *host = snic_host_of(bus);
	struct net_device *ndev = host->ndev;

	snic_mac_set(host->dev, ndev->dev_addr);
	snic_link_set(host->dev, netif_running(ndev) && netif_carrier_ok(ndev), ndev->mtu);
}

static int __init snic_init(void)
{
	int err;

	snic_calibrate();
	snic_wq = alloc_workqueue("sirdma_nic_upkeep", WQ_UNBOUND | WQ_SYSFS, 0);
	if (!snic_wq)
		return -ENOMEM;
	err = snic_background_init();
	if (err)
		goto err_wq;
	err = snic_gsi_init();
	if (err)
		goto err_background;
	err = snic_cpu_init();
	if (err)
		goto err_gsi;
	err = snic_addr_init();
	if (err)
		goto err_cpu;
	snic_fault_init();
	return 0;

err_cpu:
	snic_cpu_exit();
err_gsi:
	snic_gsi_exit();
err_background:
	snic_background_exit();
err_wq:
	destroy_workqueue(snic_wq);
	return err;
}

static void __exit snic_exit(void)
{
	snic_fault_exit();
	snic_addr_exit();
	snic_cpu_exit();
	/* Charges that outlived their device are freed by RCU callbacks. */
	rcu_barrier();
	snic_gsi_exit();
	snic_background_exit();
	destroy_workqueue(snic_wq);
}

module_init(snic_init);
module_exit(snic_exit);
MODULE_DESCRIPTION("Software RoCEv2 NIC: the device");
MODULE_LICENSE("Dual BSD/GPL");
