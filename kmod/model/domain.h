/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Which queue pairs may use the regions of a protection domain: snic_domain_sync() visits these and no others. Where they
 * are many, and the port can tell that each hold of a port_lock that had begun has ended, it visits a part of them.
 *
 * A domain is a protection domain, or an XRC domain. Each queue pair is in the list of one: an XRC target in that of its
 * XRC domain, any other queue pair in that of its protection domain. The regions of a protection domain are also used by
 * queue pairs of other domains, its sources:
 *
 *   protection domain ─┬─▶ its queue pairs
 *                      └─▶ sources ─┬─▶ XRC domain with a shared receive queue of this protection domain ─▶ its targets
 *                                   └─▶ protection domain with a queue pair that receives by one ─▶ its queue pairs
 *
 * With each request an XRC target may use another queue of its XRC domain (xrc.h): no list changes by that.
 *
 * Commands, one at a time, and the reset change the lists. A queue pair or source leaves its list when it has no user any more.
 */
#ifndef SNIC_DOMAIN_H
#define SNIC_DOMAIN_H

#include "obj.h"

struct snic_dev;
struct snic_domain_source;
struct snic_qp;
struct snic_srq;

#define SNIC_DOMAIN_CHUNK 256 /* 4 KiB */
#define SNIC_DOMAIN_BUCKETS 1024 /* of sources */

struct snic_domain {
	struct snic_list_link *qps; /* snic_qp.domain_link */
	struct snic_list_link *sources; /* of a protection domain; private to domain.c */
};

/* Protection domains by their number, then XRC domains. */
struct snic_domains {
	u32 limit;
	struct port_hash_key key; /* of the buckets */
	struct snic_domain_source *
		*sources; /* [SNIC_DOMAIN_BUCKETS] by their two numbers; for commands only */
	struct snic_domain **chunks; /* [limit / CHUNK] of CHUNK domains, made on demand and kept */
};

int snic_domains_init(struct snic_dev *dev);
/* All lists are empty. */
void snic_domains_fini(struct snic_dev *dev);
/*
 * @qp, which does no work yet, is found from the return on. Returns false without memory; then snic_domain_remove_qp()
 * does nothing.
 */
bool snic_domain_add_qp(struct snic_qp *qp);
/* After snic_obj_drain() */
void snic_domain_remove_qp(struct snic_qp *qp);
/* The same for @srq, a queue of an XRC domain */
bool snic_domain_add_srq(struct snic_srq *srq);
void snic_domain_remove_srq(struct snic_srq *srq);
/*
 * Wait until each hold that had begun of the lock of a queue pair that may use a region of protection domain @pd has
 * ended. A queue pair that is added meanwhile sees all that the caller wrote before. Sleeps. A command that destroys a
 * queue pair or a source at which this call has stopped waits until it goes on.
 */
void snic_domain_sync(struct snic_dev *dev, u32 pd);

#endif
