/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Moderation of a completion queue. The event of an armed queue waits until a number of completions
 * have been written for which the queue was armed, or until a time has passed since the first of
 * them. The queue stays armed meanwhile.
 */
#ifndef SNIC_MODERATION_H
#define SNIC_MODERATION_H

#include "port/port.h"

struct snic_cq;
struct snic_dev;

/* The lock of the queue protects it. */
struct snic_moderation {
	struct port_timer timer; /* armed while an event waits */
	struct snic_dev *dev;
	struct snic_cq *cq;
	u64 due; /* the time when the event that waits is raised at the latest */
	u32 period_ns;
	u32 count; /* completions for one event; 0: no event waits */
	u32 waiting; /* completions since the event began to wait; 0: none waits */
	bool solicited; /* one of them is solicited */
};

/* Returns NULL if there is no memory. No event waits yet. */
struct snic_moderation *snic_moderation_create(struct snic_dev *dev, struct snic_cq *cq);
/* The caller does not hold the lock of the queue, which nobody uses any more. */
void snic_moderation_destroy(struct snic_moderation *m);
/*
 * A completion was written for which the queue is armed. Returns true if the event waits, and false
 * if it is due now.
 */
bool snic_moderation_wait(struct snic_moderation *m, bool solicited);
/*
 * No event waits any more. Returns true if one did; *solicited tells whether it was for a solicited
 * completion.
 */
bool snic_moderation_end(struct snic_moderation *m, bool *solicited);

#endif
