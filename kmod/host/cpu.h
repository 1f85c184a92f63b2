/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The resources that each CPU owns: a burst buffer, a receive scratch, recycled buffers of local
 * packets, and the list of transmit queues that it drains.
 *
 * The model transmits and raises interrupts under a QP lock, and handing a packet
 * to a netdev or to another QP, or calling an interrupt handler, may re-enter
 * the model. So snic_tx() only queues. The same CPU drains the queues once no lock
 * is held: in snic_leave(), or in its bottom half. Interrupts have bottom halves of
 * their own (bus.h).
 *
 * Contexts: a task that kicks a queue pair, and a softirq that receives a packet,
 * run the model themselves, between snic_enter() and snic_leave(). All others
 * (consumers in the kernel, destructors of skbs) schedule the bottom half.
 */
#ifndef SNIC_HOST_CPU_H
#define SNIC_HOST_CPU_H

#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/netdevice.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include "compat/napi.h"
#include "compat/softirq.h"
#include "model/burst.h"
#include "model/snic.h"

#ifdef COMPAT_SOFTIRQS_OVERLAP
#error "per-CPU state relies on softirqs that exclude each other: set CONFIG_PREEMPT_RT_NEEDS_BH_LOCK=y"
#endif

struct snic_local;
struct snic_txq;

/*
 * Segments of a received datagram; one in more pieces is made linear. The longest datagram that GRO
 * merges of frames of 1500 bytes has 45 of them, with a head and a fragment each.
 */
#define SNIC_RX_SEGS 96
/*
 * Buffers of packets to devices of this host that a CPU keeps, in place of freeing them. They bound
 * the memory that an idle CPU holds to 32 * SNIC_LOCAL_SMALL bytes and 8 allocations of
 * SNIC_LOCAL_ORDER. They were not tuned.
 */
#define SNIC_CACHE_SMALL 32
#define SNIC_CACHE_LARGE 8

/* Scratch memory of one receive. It is unused again before the model transmits. */
struct snic_rx_scratch {
	struct snic_seg all[SNIC_RX_SEGS]; /* whole datagram behind the UDP header */
	struct snic_seg pkt[SNIC_RX_SEGS + 1]; /* one packet of it */
	u8 head[SNIC_RX_MIN_LINEAR]; /* the first bytes of a packet, when they straddle segments */
};

struct snic_cpu {
	spinlock_t lock; /* protects the lists and draining */
	struct list_head pending; /* list of struct snic_txq.node */
	struct list_head lingering; /* same: SNIC_TXQ_LINGER */
	bool draining;
	unsigned int entered; /* depth of snic_enter(); this CPU only, softirqs off */
	/*
	 * Numbers of packets of this CPU's receive backlog (backlog.h); this CPU only, softirqs
	 * off.
	 */
	u32 passed; /* the last packet that had left it at the last poll */
	u32 passed_cells; /* the last packet that had left the cells of tunnels behind it, too */
	struct napi_struct napi; /* the bottom half */
	struct napi_soon soon; /* schedules it from any context */
	/* Free lists of local packet buffers; this CPU only, softirqs off. */
	void *small[SNIC_CACHE_SMALL];
	void *large[SNIC_CACHE_LARGE];
	unsigned int nsmall;
	unsigned int nlarge;
	/* The buffer that is being delivered, and the PSN of its packet; softirqs off */
	const struct snic_local *delivering;
	u32 psn;
	unsigned long received; /* packets given to models by this CPU; softirqs off */
	struct sk_buff_head waiting; /* received frames that the bottom half takes (rx.h) */
	u32 waited; /* frames ever put into @waiting, under its lock; the number wraps around */
	u32 taken; /* frames ever taken out of it, under its lock */
	u32 rx_cost; /* cost of the frames taken since @waiting was last empty; softirqs off */
	struct page_frag frag; /* frames are built here; softirqs off */
	struct snic_burst *burst;
	struct snic_rx_scratch *rx;
};

int snic_cpu_init(void);
void snic_cpu_exit(void);

/* Append @skb to the frames that wait for the bottom half. */
static inline void snic_cpu_waiting_add(struct snic_cpu *cpu, struct sk_buff *skb)
{
	unsigned long flags;

	spin_lock_irqsave(&cpu->waiting.lock, flags);
	__skb_queue_tail(&cpu->waiting, skb);
	WRITE_ONCE(cpu->waited, cpu->waited + 1);
	spin_unlock_irqrestore(&cpu->waiting.lock, flags);
}

/* Take @skb out of them. The caller holds the lock of @waiting. */
static inline void __snic_cpu_waiting_take(struct snic_cpu *cpu, struct sk_buff *skb)
{
	__skb_unlink(skb, &cpu->waiting);
	WRITE_ONCE(cpu->taken, cpu->taken + 1);
}

/* Take the next frame that waits, or NULL. */
static inline struct sk_buff *snic_cpu_waiting_take(struct snic_cpu *cpu)
{
	struct sk_buff *skb;
	unsigned long flags;

	spin_lock_irqsave(&cpu->waiting.lock, flags);
	skb = skb_peek(&cpu->waiting);
	if (skb)
		__snic_cpu_waiting_take(cpu, skb);
	spin_unlock_irqrestore(&cpu->waiting.lock, flags);
	return skb;
}

/* This CPU's state; softirqs are off. */
struct snic_cpu *snic_cpu_this(void);
struct snic_cpu *snic_cpu_of(int cpu);
/* How many packets the CPU on which the caller just ran has given to models. */
unsigned long snic_cpu_received(void);

/*
 * Brackets around calls into the model, by a task or a softirq. snic_leave() sends the bursts that
 * the model transmitted in between; the bottom half sends those that are too many for the caller.
 * The caller does not sleep in between.
 */
void snic_enter(void);
void snic_leave(void);

/* Make this CPU drain @q soon; softirqs are off. */
void snic_cpu_pend(struct snic_txq *q);
/* The number of the last packet that was put into this CPU's receive backlog. Softirqs are off. */
u32 snic_cpu_backlog_tail(void);
/*
 * Are the packets up to number @last past this CPU's receive backlog, and past the cells behind it?
 * They may still be in @waiting. @lingers: they were in the backlog when they had been sent.
 * Softirqs are off.
 */
bool snic_cpu_passed(u32 last, bool lingers);
/*
 * Schedule this CPU's bottom half, which runs deferred work of all hosts. For tasks with
 * interrupts on, and softirqs.
 */
void snic_cpu_schedule_bh(void);
/* The same for callers in any context. */
void snic_cpu_schedule(void);

#endif
