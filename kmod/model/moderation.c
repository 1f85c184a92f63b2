// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Moderation of completion queues. */
#include "moderation.h"

#include "cq.h"
#include "dev.h"

static void moderation_expired(struct port_timer *timer)
{
	struct snic_moderation *m = container_of(timer, struct snic_moderation, timer);
	struct snic_cq *cq = m->cq;
	u64 now = port_now_ns(m->dev->clock);
	bool solicited;

	port_lock(&cq->lock);
	/* The event for which the timer was armed may be gone, and another one wait instead. */
	if (m->waiting && now < m->due)
		port_timer_arm(&m->timer, m->due - now);
	else if (snic_moderation_end(m, &solicited))
		snic_cq_notify(m->dev, cq, solicited);
	port_unlock(&cq->lock);
}

struct snic_moderation *snic_moderation_create(struct snic_dev *dev, struct snic_cq *cq)
{
	struct snic_moderation *m = port_alloc_charged(sizeof(*m));

	if (!m)
		return NULL;
	m->dev = dev;
	m->cq = cq;
	port_timer_init(&m->timer, dev->clock, moderation_expired);
	return m;
}

void snic_moderation_destroy(struct snic_moderation *m)
{
	port_timer_cancel_sync(&m->timer);
	port_free(m);
}

bool snic_moderation_wait(struct snic_moderation *m, bool solicited)
{
	bool ignored;

	if (m->waiting + 1 >= m->count) {
		snic_moderation_end(m, &ignored);
		return false;
	}
	m->waiting++;
	m->solicited |= solicited;
	if (m->waiting == 1) {
		m->due = port_now_ns(m->dev->clock) + m->period_ns;
		port_timer_arm(&m->timer, m->period_ns);
	}
	return true;
}

bool snic_moderation_end(struct snic_moderation *m, bool *solicited)
{
	bool waited = m->waiting;

	*solicited = m->solicited;
	m->waiting = 0;
	m->solicited = false;
	if (waited)
		port_timer_cancel(&m->timer);
	return waited;
}
