/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A consumer in the kernel: two connected queue pairs of one device. The device is that of the
 * netdev below and has an address; see tests/accept/kunit.
 */
#ifndef SIRDMA_KUNIT_CONSUMER_H
#define SIRDMA_KUNIT_CONSUMER_H

#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

struct consumer {
	struct kunit *test;
	struct ib_device *ibdev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2]; /* a sends, b receives */
	struct ib_srq *srq;
	struct completion limit; /* the SRQ's event came */

	spinlock_t lock; /* protects what follows; held around posts, polls and requests */
	int caller; /* CPU of the poster between lock and unlock; -1 */
	u32 events;
	u32 events_in_call;
	u32 sends;
	u32 recvs;
	u32 flushed;
	u32 wrong; /* completions out of order, of the wrong kind or with the wrong data */
	u32 wanted; /* completions until done */
	bool rearm;
	struct completion done;
};

/* For suites: test->priv is a consumer with two queue pairs in RESET. */
int consumer_init(struct kunit *test);
void consumer_exit(struct kunit *test);
/* Connect the queue pairs to each other. */
void consumer_connect(struct kunit *test);
/* Make another PD, with two queue pairs. */
void consumer_make_qps(struct kunit *test, unsigned int pd_flags);
/* Make the queue pairs. @srq: what the second one receives from; NULL: a queue of its own. */
void consumer_make_qps_on(struct kunit *test, struct ib_srq *srq);
void consumer_destroy_qps(struct consumer *c);
/* Destroy the queue pairs, the SRQ and the PD. */
void consumer_free_qps(struct consumer *c);
/* The next completion, whatever it says. */
int consumer_next(struct consumer *c, struct ib_wc *wc);
/* The next @count completions, all of which are successful. */
void consumer_succeed(struct kunit *test, u32 count);
/* Post @wr to @qp; the status of its completion, which is the next one. */
enum ib_wc_status consumer_complete(struct kunit *test, struct ib_qp *qp,
				    const struct ib_send_wr *wr);
/* The same of a request of a, to or from @local. */
enum ib_wc_status consumer_rdma(struct kunit *test, enum ib_wr_opcode opcode, struct ib_sge local,
				u64 remote, u32 rkey);
int consumer_post_recvs(struct ib_qp *qp, u32 first, u32 count);

#endif
