// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Which queue pairs may use the regions of a protection domain. */
#include "domain.h"

#include "dev.h"
#include "qp.h"
#include "srq.h"
#include "xrc.h"

/* Visits from one look at whether the processor is wanted, and at whether all holds have ended, to the next */
#define DOMAIN_BATCH 64
/*
 * At this visit a sync takes a mark. It ends as soon as all holds of locks that had begun by then have ended. That takes
 * as long as some hundreds of visits where processors are idle, and as thousands where they are busy (verbs_odp_cost).
 */
#define DOMAIN_VISITS 1024

/* A wait for the queue pairs that may use the regions of a protection domain */
struct domain_wait {
	struct snic_dev *dev;
	u32 pd;
	u32 visits; /* of queue pairs and sources */
	u64 mark; /* of all holds of locks, at visit DOMAIN_VISITS */
};

/* Queue pairs of domain obj.id may use regions of the protection domain in whose list this is. */
struct snic_domain_source {
	struct snic_obj obj;
	struct snic_list_link link;
	struct snic_domain_source *next; /* of its bucket */
	u32 pd; /* the protection domain in whose list this is */
	u32 count; /* why: shared queues of that XRC domain, or queue pairs of that protection domain */
};

static u32 domain_of_xrc(const struct snic_dev *dev, u32 xrcd)
{
	return dev->cfg.max_pds + xrcd;
}

static u32 domain_chunks(const struct snic_domains *domains)
{
	return (domains->limit + SNIC_DOMAIN_CHUNK - 1) / SNIC_DOMAIN_CHUNK;
}

int snic_domains_init(struct snic_dev *dev)
{
	struct snic_domains *domains = &dev->domains;

	port_hash_key_init(&domains->key);
	domains->limit = domain_of_xrc(dev, SIRDMA_MAX_XRCDS);
	domains->chunks = port_alloc(domain_chunks(domains) * sizeof(*domains->chunks));
	domains->sources = port_alloc(SNIC_DOMAIN_BUCKETS * sizeof(*domains->sources));
	return domains->chunks && domains->sources ? 0 : -ENOMEM;
}

void snic_domains_fini(struct snic_dev *dev)
{
	struct snic_domains *domains = &dev->domains;
	u32 i;

	port_free(domains->sources);
	if (!domains->chunks)
		return;
	for (i = 0; i < domain_chunks(domains); i++)
		port_free(domains->chunks[i]);
	port_free(domains->chunks);
}

/* Domain @number, or NULL if no domain near it was ever used */
static struct snic_domain *domain_at(struct snic_dev *dev, u32 number)
{
	struct snic_domain *chunk = port_rcu_deref(dev->domains.chunks[number / SNIC_DOMAIN_CHUNK]);

	return chunk ? &chunk[number % SNIC_DOMAIN_CHUNK] : NULL;
}

/* Domain @number, or NULL without memory */
static struct snic_domain *domain_make(struct snic_dev *dev, u32 number)
{
	struct snic_domain *chunk;

	if (!domain_at(dev, number)) {
		chunk = port_alloc(SNIC_DOMAIN_CHUNK * sizeof(*chunk));
		if (!chunk)
			return NULL;
		/* This store pairs with domain_at(): the chunk is zeroed before it is visible. */
		port_rcu_assign(dev->domains.chunks[number / SNIC_DOMAIN_CHUNK], chunk);
	}
	return domain_at(dev, number);
}

/* Writers: commands and the reset */

static void domain_link(struct snic_list_link **list, struct snic_list_link *link)
{
	snic_list_add(list, link);
	/*
	 * This pairs with the barrier of snic_domain_sync(): it finds the link, or what uses the link sees what was written
	 * before.
	 */
	smp_mb();
}

/* The link of a bucket that leads to the source @from of @pd. It leads to NULL if there is none. */
static struct snic_domain_source **source_link(struct snic_dev *dev, u32 pd, u32 from)
{
	/* The driver chooses the numbers, and applications which pairs of them there are. */
	u32 bucket = port_hash_4u32(&dev->domains.key, pd, from, 0, 0) % SNIC_DOMAIN_BUCKETS;
	struct snic_domain_source **link = &dev->domains.sources[bucket];

	while (*link && ((*link)->pd != pd || (*link)->obj.id != from))
		link = &(*link)->next;
	return link;
}

static bool source_add(struct snic_dev *dev, u32 pd, u32 from)
{
	struct snic_domain_source **link = source_link(dev, pd, from), *source = *link;
	struct snic_domain *domain;

	if (source) {
		source->count++;
		return true;
	}
	domain = domain_make(dev, pd);
	source = domain ? port_alloc_charged(sizeof(*source)) : NULL;
	if (!source)
		return false;
	snic_obj_init(&source->obj);
	source->obj.id = from;
	source->pd = pd;
	source->count = 1;
	*link = source;
	domain_link(&domain->sources, &source->link);
	return true;
}

static void source_remove(struct snic_dev *dev, u32 pd, u32 from)
{
	struct snic_domain_source **link = source_link(dev, pd, from), *source = *link;

	if (--source->count)
		return;
	*link = source->next;
	snic_obj_drain(&source->obj);
	snic_list_remove(&source->link);
	port_free_rcu(source, obj.rcu);
}

/* Does @qp receive into memory of another protection domain than its own? */
static bool qp_has_source(const struct snic_qp *qp)
{
	return !qp->xrc && qp->recv_pd != qp->pd;
}

bool snic_domain_add_qp(struct snic_qp *qp)
{
	struct snic_dev *dev = qp->dev;
	struct snic_domain *domain;

	domain = domain_make(dev, qp->xrc ? domain_of_xrc(dev, qp->xrc->domain) : qp->pd);
	if (!domain || (qp_has_source(qp) && !source_add(dev, qp->recv_pd, qp->pd)))
		return false;
	domain_link(&domain->qps, &qp->domain_link);
	return true;
}

void snic_domain_remove_qp(struct snic_qp *qp)
{
	if (!qp->domain_link.at)
		return;
	snic_list_remove(&qp->domain_link);
	if (qp_has_source(qp))
		source_remove(qp->dev, qp->recv_pd, qp->pd);
}

/* Readers */

/* May @qp use regions of protection domain @pd? An XRC target has the one of the queue that it uses at the moment. */
static bool qp_may_use(const struct snic_qp *qp, u32 pd)
{
	return qp->xrc || qp->pd == pd || qp->recv_pd == pd;
}

/* End a visit. Returns true if no lock is left to wait for. */
static bool wait_end_visit(struct domain_wait *wait)
{
	if (++wait->visits == DOMAIN_VISITS)
		wait->mark = port_lock_holders_mark();
	if (wait->visits % DOMAIN_BATCH)
		return false;
	port_cond_resched();
	return wait->visits > DOMAIN_VISITS && port_lock_holders_passed(wait->mark);
}

/*
 * Wait until each hold that had begun of the lock of a queue pair of domain @number that may use regions of the protection
 * domain has ended. Returns true if those of all other queue pairs have ended, too.
 */
static bool wait_for_domain(struct domain_wait *wait, u32 number)
{
	const size_t offset = offsetof(struct snic_qp, domain_link);
	struct snic_domain *domain = domain_at(wait->dev, number);
	struct snic_obj *obj, *next;
	struct snic_qp *qp;
	bool ended = false;

	for (obj = domain ? snic_list_get(&domain->qps, offset) : NULL; obj; obj = next) {
		qp = container_of(obj, struct snic_qp, obj);
		if (qp_may_use(qp, wait->pd)) {
			port_lock(&qp->lock);
			port_unlock(&qp->lock);
		}
		ended = wait_end_visit(wait);
		next = ended ? NULL : snic_list_get(&qp->domain_link.next, offset);
		snic_obj_put(obj);
	}
	return ended;
}

static void wait_for_sources(struct domain_wait *wait, struct snic_domain *domain)
{
	const size_t offset = offsetof(struct snic_domain_source, link);
	struct snic_domain_source *source;
	struct snic_obj *obj, *next;
	bool ended;

	for (obj = snic_list_get(&domain->sources, offset); obj; obj = next) {
		source = container_of(obj, struct snic_domain_source, obj);
		ended = wait_for_domain(wait, obj->id) || wait_end_visit(wait);
		next = ended ? NULL : snic_list_get(&source->link.next, offset);
		snic_obj_put(obj);
	}
}

void snic_domain_sync(struct snic_dev *dev, u32 pd)
{
	struct domain_wait wait = {.dev = dev, .pd = pd};
	struct snic_domain *domain;

	if (pd >= dev->cfg.max_pds)
		return;
	smp_mb(); /* the caller's writes come before the look at the lists: pairs with domain_link() */
	domain = domain_at(dev, pd);
	if (domain && !wait_for_domain(&wait, pd))
		wait_for_sources(&wait, domain);
	smp_mb(); /* what used memory, and is in no list any more, ended before: pairs with snic_obj_put() */
}

/* Shared queues of XRC domains */

bool snic_domain_add_srq(struct snic_srq *srq)
{
	struct snic_dev *dev = srq->rq.dev;

	return source_add(dev, srq->pd, domain_of_xrc(dev, srq->domain));
}

void snic_domain_remove_srq(struct snic_srq *srq)
{
	struct snic_dev *dev = srq->rq.dev;
	const u32 from = domain_of_xrc(dev, srq->domain);
	struct domain_wait wait = {.dev = dev, .pd = srq->pd};

	/* A target may use memory that it found until it releases its lock, after it has released the queue. */
	if ((*source_link(dev, srq->pd, from))->count == 1)
		(void)wait_for_domain(&wait, from);
	source_remove(dev, srq->pd, from);
}
