/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What each CPU owns: its burst buffer, its receive scratch, recycled buffers
 * of local packets, and the list of transmit queues it has to drain.
 *
 * The model transmits and raises interrupts under a QP lock, and handing a packet
 * to a netdev or to another QP, or calling an interrupt handler, may re-enter
 * the model. So both only queue; the same CPU drains the queues once no lock is
 * held: in snic_leave(), or in a tasklet, which runs when softirqs are enabled again.
 */
#ifndef SNIC_HOST_CPU_H
#define SNIC_HOST_CPU_H

#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include "model/burst.h"
#include "model/snic.h"

struct snic_txq;
struct snic_vector;

#define SNIC_RX_SEGS 96
#define SNIC_CACHE_SMALL 32
#define SNIC_CACHE_LARGE 8

/* Scratch of one receive; free again before anything is transmitted. */
struct snic_rx_scratch {
	struct snic_seg all[SNIC_RX_SEGS]; /* whole datagram behind the UDP header */
	struct snic_seg pkt[SNIC_RX_SEGS + 1]; /* one packet of it */
	u8 head[SNIC_RX_MIN_LINEAR]; /* its first bytes, when they straddle segments */
};

struct snic_cpu {
	spinlock_t lock; /* protects the lists and draining */
	struct list_head pending; /* struct snic_txq.node */
	struct list_head lingering; /* same: SNIC_TXQ_LINGER */
	struct list_head vectors; /* struct snic_vector.node */
	bool draining;
	bool in_work; /* in the tasklet; this CPU only */
	unsigned int entered; /* depth of snic_enter(); this CPU only, softirqs off */
	struct tasklet_struct work;
	/* Free lists of local packet buffers; this CPU only, softirqs off. */
	void *small[SNIC_CACHE_SMALL];
	void *large[SNIC_CACHE_LARGE];
	unsigned int nsmall;
	unsigned int nlarge;
	unsigned long received; /* packets given to models by this CPU; softirqs off */
	struct page_frag frag; /* super-packets are built here; softirqs off */
	struct snic_burst *burst;
	struct snic_rx_scratch *rx;
};

int snic_cpu_init(void);
void snic_cpu_exit(void);

/* This CPU's state; softirqs are off. */
struct snic_cpu *snic_cpu_this(void);
/* The state of a CPU the caller was just running on. */
struct snic_cpu *snic_cpu_any(void);

/*
 * Bracket for calls into the model: what the model transmits meanwhile is sent
 * before snic_leave() returns, and interrupt handlers are called if the caller
 * had softirqs enabled (else the tasklet does). Not to sleep in between.
 */
void snic_enter(void);
void snic_leave(void);

/* Make this CPU drain @q soon; softirqs are off. */
void snic_cpu_pend(struct snic_txq *q);
/* Make this CPU call the handler of @vector soon; softirqs are off. */
void snic_cpu_raise(struct snic_vector *vector);
/* Have deferred work of all hosts looked at soon. Any context but hard interrupts. */
void snic_cpu_schedule(void);

#endif
