// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The context contract: who may call the device from where, and what runs in which
 * context. The host's bottom halves with a model that only looks around; lockdep
 * says whether a lock is taken in contexts that exclude each other.
 *
 * A module of its own, for it is the host whose other parts the other suites stand in for.
 */
#include <kunit/test.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include "compat/hrtimer.h"
#include "sirdma/bus.h"

/* Tracepoints belong to the module that is tested. */
#define SNIC_HOST_TRACE_H
#define trace_snic_reg_write(ndev, reg, val) ((void)(ndev), (void)(reg), (void)(val))
#define trace_snic_irq(ndev, index) ((void)(ndev), (void)(index))

/* The numbers of the backlog, as a test says; a kernel for one CPU has none. */
static struct {
	u32 tail;
	u32 head;
} backlog;
#include "host/backlog.h"
#define snic_backlog_tail(sd) ((void)(sd), backlog.tail)
#define snic_backlog_head(sd) ((void)(sd), backlog.head)

#include "host/bus.c"
#include "host/cpu.c"
#include "host/defer.c"
#include "host/napi.c"

#define MAX_QPS 256
#define VECTORS 2
#define PATIENCE_MS 20000

LIST_HEAD(snic_hosts);

/* Consumers hold it with interrupts off while they post; their handlers take it. */
static DEFINE_SPINLOCK(consumer_lock);
/* What the model holds while it works, as the lock of a queue pair. */
static DEFINE_SPINLOCK(model_lock);

static struct {
	struct snic_host host;
	atomic_t runs[MAX_QPS];
	atomic_t handled[VECTORS];
	u32 order[MAX_QPS]; /* numbers of QPs as they ran */
	atomic_t ran;
	atomic_t ran_in_task; /* of these, the runs outside the bottom half */
	atomic_t late; /* frames that waited */
	atomic_t wrong; /* calls in a context that the contract excludes */
	bool endless[VECTORS]; /* the handler never comes to an end of its events */
	bool forever; /* each run wants another, in the background or not */
	bool background;
	/* A second device, and what ran of each: QPs that left work, and QPs that waited for room. */
	struct snic_host other;
	bool waiters; /* QPs of both devices wait for room, always */
	u32 ran_of[2];
	u32 resumed_of[2];
} model;

static void look_around(void)
{
	unsigned long flags;

	if (in_hardirq() || irqs_disabled() || !in_softirq())
		atomic_inc(&model.wrong);
	/* Would never end, within a call of a consumer. */
	spin_lock_irqsave(&consumer_lock, flags);
	spin_unlock_irqrestore(&consumer_lock, flags);
}

void snic_qp_run(struct snic_dev *dev, u32 qpn)
{
	int n = atomic_inc_return(&model.ran) - 1;

	look_around();
	if (!in_serving_softirq())
		atomic_inc(&model.ran_in_task);
	spin_lock_bh(&model_lock);
	model.ran_of[dev == model.other.dev]++;
	if (n < MAX_QPS)
		model.order[n] = qpn;
	if (READ_ONCE(model.forever) && model.background) {
		snic_defer_background(&model.host, qpn);
	} else if (READ_ONCE(model.forever)) {
		snic_qpset_add(&model.host.deferred, qpn);
		snic_cpu_schedule_bh();
	}
	spin_unlock_bh(&model_lock);
	atomic_inc(&model.runs[qpn]);
}

void snic_qp_ring(struct snic_dev *dev, u32 qpn) {}

bool snic_txqs_has_waiters(const struct snic_txqs *all)
{
	return model.waiters;
}

bool snic_txqs_serve(struct snic_txqs *all, u64 end)
{
	model.resumed_of[all == model.other.txqs]++;
	return model.waiters;
}

u32 snic_reg_read(struct snic_dev *dev, u32 reg)
{
	return 0;
}

void snic_reg_write(struct snic_dev *dev, u32 reg, u32 val) {}
void snic_addr_sync(struct snic_host *host) {}
u8 snic_host_kick(struct sirdma_bus *bus, u32 qpn, u32 kicker)
{
	return true;
}
void snic_host_update(struct sirdma_bus *bus) {}
void snic_host_destroy(struct sirdma_bus *bus) {}
void snic_local_drop_cache(struct snic_cpu *cpu) {}

/* One frame in each poll. */
bool snic_rx_take_waiting(struct snic_cpu *cpu, u64 end)
{
	struct sk_buff *skb = snic_cpu_waiting_take(cpu);

	if (skb) {
		kfree_skb(skb);
		atomic_inc(&model.late);
	}
	return !skb_queue_empty(&cpu->waiting);
}

enum snic_txq_next snic_txq_drain(struct snic_txq *q, u32 *cost)
{
	return SNIC_TXQ_RELEASED;
}

static u32 handler(void *ctx, u32 vector, u32 budget)
{
	look_around();
	spin_lock_bh(&model_lock);
	spin_unlock_bh(&model_lock);
	atomic_inc(&model.handled[vector]);
	return READ_ONCE(model.endless[vector]) ? budget : 0;
}

static bool comes_true(atomic_t *counter, int least)
{
	unsigned long end = jiffies + msecs_to_jiffies(PATIENCE_MS);

	while (atomic_read(counter) < least && time_before(jiffies, end))
		usleep_range(50, 100);
	return atomic_read(counter) >= least;
}

static int context_init(struct kunit *test)
{
	struct sirdma_bus *bus = &model.host.bus.base;
	u32 i;

	memset(&model, 0, sizeof(model));
	KUNIT_ASSERT_EQ(test, snic_background_init(), 0);
	KUNIT_ASSERT_EQ(test, snic_gsi_init(), 0);
	KUNIT_ASSERT_EQ(test, snic_cpu_init(), 0);
	KUNIT_ASSERT_EQ(test, snic_qpset_init(&model.host.deferred, MAX_QPS), 0);
	KUNIT_ASSERT_EQ(test, snic_qpset_init(&model.host.background, MAX_QPS), 0);
	kthread_init_work(&model.host.background_work, snic_background_work);
	INIT_WORK(&model.host.gsi_work, snic_gsi_work);
	KUNIT_ASSERT_EQ(test, snic_bus_init(&model.host, VECTORS), 0);
	for (i = 0; i < VECTORS; i++)
		KUNIT_ASSERT_EQ(test, bus->ops->irq_request(bus, i, handler, NULL), 0);
	list_add_rcu(&model.host.node, &snic_hosts);
	test->priv = bus;
	return 0;
}

static void context_exit(struct kunit *test)
{
	WRITE_ONCE(model.forever, false);
	if (!test->priv)
		return;
	list_del_rcu(&model.host.node);
	synchronize_rcu();
	kthread_cancel_work_sync(&model.host.background_work);
	cancel_work_sync(&model.host.gsi_work);
	snic_bus_fini(&model.host);
	snic_qpset_fini(&model.host.background);
	snic_qpset_fini(&model.host.deferred);
	snic_cpu_exit();
	snic_gsi_exit();
	snic_background_exit();
	KUNIT_EXPECT_EQ(test, atomic_read(&model.wrong), 0);
}

/* What a consumer does under its lock, and whether the model ran meanwhile. */
static bool post(struct sirdma_bus *bus, u32 qpn)
{
	int before = atomic_read(&model.ran);
	unsigned long flags;
	bool ran;

	spin_lock_irqsave(&consumer_lock, flags);
	sirdma_doorbell(bus, qpn);
	ran = atomic_read(&model.ran) != before;
	spin_unlock_irqrestore(&consumer_lock, flags);
	return ran;
}

static void task_posts(struct kunit *test)
{
	struct sirdma_bus *bus = test->priv;

	KUNIT_EXPECT_FALSE(test, post(bus, 2));
	KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[2], 1));
	local_bh_disable();
	KUNIT_EXPECT_FALSE(test, post(bus, 3));
	KUNIT_EXPECT_EQ(test, atomic_read(&model.runs[3]), 0);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[3], 1));
}

struct poster {
	struct hrtimer timer;
	struct sirdma_bus *bus;
	u32 qpn;
	atomic_t posted;
	bool ran;
};

static enum hrtimer_restart poster_fire(struct hrtimer *timer)
{
	struct poster *poster = container_of(timer, struct poster, timer);

	poster->ran = post(poster->bus, poster->qpn);
	snic_cpu_schedule();
	atomic_inc(&poster->posted);
	return HRTIMER_NORESTART;
}

static void interrupt_posts(struct kunit *test)
{
	static const enum hrtimer_mode modes[] = {HRTIMER_MODE_REL_SOFT, HRTIMER_MODE_REL_HARD};
	static struct poster poster;
	u32 i;

	poster.bus = test->priv;
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		poster.qpn = 2 + i;
		atomic_set(&poster.posted, 0);
		hrtimer_setup(&poster.timer, poster_fire, CLOCK_MONOTONIC, modes[i]);
		hrtimer_start(&poster.timer, ns_to_ktime(100000), modes[i]);
		KUNIT_EXPECT_TRUE(test, comes_true(&poster.posted, 1));
		hrtimer_cancel(&poster.timer);
		KUNIT_EXPECT_FALSE(test, poster.ran);
		KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[poster.qpn], 1));
	}
}

/* The device's work for a management datagram is not done on the poster's CPU before it goes on. */
static void management_runs_in_a_task(struct kunit *test)
{
	static struct poster poster;
	struct sirdma_bus *bus = test->priv;

	post(bus, SIRDMA_GSI_QPN);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[SIRDMA_GSI_QPN], 1));
	KUNIT_EXPECT_EQ(test, atomic_read(&model.ran_in_task), 1);

	poster.bus = bus;
	poster.qpn = SIRDMA_GSI_QPN;
	atomic_set(&poster.posted, 0);
	hrtimer_setup(&poster.timer, poster_fire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&poster.timer, ns_to_ktime(100000), HRTIMER_MODE_REL_HARD);
	KUNIT_EXPECT_TRUE(test, comes_true(&poster.posted, 1));
	hrtimer_cancel(&poster.timer);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[SIRDMA_GSI_QPN], 2));
	KUNIT_EXPECT_EQ(test, atomic_read(&model.ran_in_task), 2);

	/* All others run in the bottom half. */
	KUNIT_EXPECT_FALSE(test, post(bus, SIRDMA_GSI_QPN + 1));
	KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[SIRDMA_GSI_QPN + 1], 1));
	KUNIT_EXPECT_EQ(test, atomic_read(&model.ran_in_task), 2);
}

/* A command raises its events with softirqs on, a received packet with them off. */
static void interrupts_wait_for_locks(struct kunit *test)
{
	u32 i;

	for (i = 1; i <= 100; i++) {
		snic_bus_irq(&model.host, 0);
		KUNIT_ASSERT_TRUE(test, comes_true(&model.handled[0], i));
	}
	spin_lock_bh(&model_lock);
	snic_bus_irq(&model.host, 1);
	snic_bus_irq(&model.host, 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&model.handled[1]), 0);
	spin_unlock_bh(&model_lock);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[1], 1));
}

struct raiser {
	struct hrtimer timer;
	atomic_t raised;
};

static enum hrtimer_restart raiser_fire(struct hrtimer *timer)
{
	struct raiser *raiser = container_of(timer, struct raiser, timer);

	snic_bus_irq(&model.host, 0);
	hrtimer_forward_now(timer, ns_to_ktime(20000));
	return atomic_inc_return(&raiser->raised) < 2000 ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/*
 * One raised by a softirq while a task raises one on the same CPU: both come, nobody waits for the
 * other.
 */
static void interrupts_of_task_and_softirq(struct kunit *test)
{
	static struct raiser raiser;
	int last;

	atomic_set(&raiser.raised, 0);
	hrtimer_setup(&raiser.timer, raiser_fire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	hrtimer_start(&raiser.timer, ns_to_ktime(1000), HRTIMER_MODE_REL_SOFT);
	while (atomic_read(&raiser.raised) < 2000) {
		snic_bus_irq(&model.host, 0);
		cond_resched();
	}
	hrtimer_cancel(&raiser.timer);
	last = atomic_read(&model.handled[0]);
	snic_bus_irq(&model.host, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[0], last + 1));
}

static void freed_interrupt_is_silent(struct kunit *test)
{
	struct sirdma_bus *bus = test->priv;

	snic_bus_irq(&model.host, 0);
	bus->ops->irq_free(bus, 0);
	atomic_set(&model.handled[0], 0);
	snic_bus_irq(&model.host, 0);
	snic_bus_irq(&model.host, 1);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[1], 1));
	KUNIT_EXPECT_EQ(test, atomic_read(&model.handled[0]), 0);
	KUNIT_EXPECT_EQ(test, bus->ops->irq_request(bus, 0, handler, NULL), 0);
	KUNIT_EXPECT_EQ(test, bus->ops->irq_request(bus, 0, handler, NULL), -EBUSY);
	snic_bus_irq(&model.host, 0);
	KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[0], 1));
}

static bool run_deferred(void)
{
	bool more;

	local_bh_disable();
	more = snic_defer_run(0);
	local_bh_enable();
	return more;
}

/* Without time left a call does the least there is: one queue pair, and the next one in turn. */
static void deferred_work_takes_turns(struct kunit *test)
{
	static const u32 qpns[] = {2, 3, 63, 64, 65, 130, 255};
	u32 i, n;

	for (i = 0; i < ARRAY_SIZE(qpns); i++)
		snic_qpset_add(&model.host.deferred, qpns[i]);
	for (n = 0; n < 3 * ARRAY_SIZE(qpns); n++) {
		KUNIT_ASSERT_TRUE(test, run_deferred());
		KUNIT_ASSERT_EQ(test, atomic_read(&model.ran), n + 1);
		KUNIT_ASSERT_EQ(test, model.order[n], qpns[n % ARRAY_SIZE(qpns)]);
		/* It wants to go on, as one that sends for ever. */
		snic_qpset_add(&model.host.deferred, model.order[n]);
	}
	while (run_deferred())
		;
	KUNIT_EXPECT_EQ(test, atomic_read(&model.ran), n + ARRAY_SIZE(qpns));
}

/*
 * Two devices with endless work of both kinds. Without time left a call runs one queue pair of one
 * device, and the next call goes on with the next kind or device.
 */
static void devices_take_turns(struct kunit *test)
{
	struct snic_host *other = &model.other;
	u32 n, total,
		*done[] = {&model.ran_of[0], &model.ran_of[1], &model.resumed_of[0],
			   &model.resumed_of[1]};
	u32 i;

	/* The model only compares them. */
	other->dev = (struct snic_dev *)other;
	other->txqs = (struct snic_txqs *)other;
	KUNIT_ASSERT_EQ(test, snic_qpset_init(&other->deferred, MAX_QPS), 0);
	list_add_tail_rcu(&other->node, &snic_hosts);
	model.waiters = true;
	local_bh_disable(); /* each CPU takes turns of its own */
	for (n = 1; n <= 10 * ARRAY_SIZE(done); n++) {
		for (i = 2; i < 6; i++) {
			snic_qpset_add(&model.host.deferred, i);
			snic_qpset_add(&other->deferred, i);
		}
		KUNIT_EXPECT_TRUE(test, snic_defer_run(0));
		for (total = 0, i = 0; i < ARRAY_SIZE(done); i++)
			total += *done[i];
		KUNIT_EXPECT_EQ(test, total, n);
	}
	local_bh_enable();
	for (i = 0; i < ARRAY_SIZE(done); i++)
		KUNIT_EXPECT_EQ(test, *done[i], 10);
	model.waiters = false;
	while (run_deferred())
		;
	list_del_rcu(&other->node);
	synchronize_rcu();
	snic_qpset_fini(&other->deferred);
}

/*
 * Events without end on one vector: it is called again and again, and the others are served beside
 * it.
 */
static void endless_events_leave_room(struct kunit *test)
{
	struct sirdma_bus *bus = test->priv;
	u32 i;

	WRITE_ONCE(model.endless[0], true);
	snic_bus_irq(&model.host, 0);
	for (i = 1; i <= 20; i++) {
		KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[0], 10 * i));
		snic_bus_irq(&model.host, 1);
		KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[1], i));
		sirdma_doorbell(bus, 2);
		KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[2], i));
	}
	/* Even then a vector can be freed. */
	bus->ops->irq_free(bus, 0);
}

/* Queue pairs that always have more to do, and a task that wants to do something else. */
static void endless_work_leaves_room(struct kunit *test, bool background)
{
	struct sirdma_bus *bus = test->priv;
	u32 i;

	model.background = background;
	WRITE_ONCE(model.forever, true);
	for (i = 2; i < MAX_QPS; i++) {
		if (background)
			snic_defer_background(&model.host, i);
		else
			sirdma_doorbell(bus, i);
	}
	for (i = 2; i < MAX_QPS; i++)
		KUNIT_EXPECT_TRUE(test, comes_true(&model.runs[i], 3));
	/* Interrupts are served beside it. */
	for (i = 1; i <= 20; i++) {
		snic_bus_irq(&model.host, 0);
		KUNIT_EXPECT_TRUE(test, comes_true(&model.handled[0], i));
	}
	WRITE_ONCE(model.forever, false);
}

static void endless_deferred_work_leaves_room(struct kunit *test)
{
	endless_work_leaves_room(test, false);
}

static void endless_background_work_leaves_room(struct kunit *test)
{
	endless_work_leaves_room(test, true);
}

#define BACKLOG_POLL 64 /* packets that one poll takes out: net.core.dev_weight */

/*
 * Polls until no packet up to @last is in the backlog, into which others put more than a poll takes
 * out.
 */
static u32 polls_until_passed(u32 last)
{
	u32 polls;

	for (polls = 0; polls < 100000 && !snic_cpu_passed(last, true); polls++) {
		backlog.tail += 2 * BACKLOG_POLL;
		backlog.head += BACKLOG_POLL;
		snic_cpu_note_backlog(snic_cpu_this());
	}
	return polls;
}

/* @packets of others and one of ours; the number of that one. */
static u32 enter_backlog(u32 packets)
{
	backlog.tail += packets + 1;
	return snic_cpu_backlog_tail();
}

/* Counters wrap around. */
static void begin_backlog(struct snic_cpu *cpu)
{
	backlog.tail = backlog.head = ~0u - 3;
	cpu->passed = cpu->passed_cells = backlog.head;
}

/* Packets of others precede it and follow it. */
static void the_backlog_is_past_a_frame_when_it_was_taken_out(struct kunit *test)
{
	static const u32 others[] = {0, BACKLOG_POLL - 1, BACKLOG_POLL, 300, 10000};
	struct sk_buff_head *queue;
	struct sk_buff frame = {};
	struct snic_cpu *cpu;
	u32 i, last;

	local_bh_disable();
	cpu = snic_cpu_this();
	queue = &this_cpu_ptr(&softnet_data)->process_queue;
	__skb_queue_tail(queue, &frame);
	for (i = 0; i < ARRAY_SIZE(others); i++) {
		begin_backlog(cpu);
		last = enter_backlog(others[i]);
		KUNIT_EXPECT_FALSE(test, snic_cpu_passed(last, true));
		KUNIT_EXPECT_EQ(test, polls_until_passed(last),
				DIV_ROUND_UP(others[i] + 1, BACKLOG_POLL));
	}
	last = enter_backlog(0);
	KUNIT_EXPECT_FALSE(test, snic_cpu_passed(last, true));
	__skb_unlink(&frame, queue);
	KUNIT_EXPECT_TRUE(test, snic_cpu_passed(last, true));
	cpu->passed = cpu->passed_cells = 0;
	local_bh_enable();
}

/* The receive hook leaves frames to the bottom half, which is polled until none waits. */
static void bottom_half_takes_all_frames_that_wait(struct kunit *test)
{
	struct snic_cpu *cpu;
	u32 waited, i;

	local_bh_disable();
	cpu = snic_cpu_this();
	waited = cpu->waited;
	KUNIT_EXPECT_EQ(test, cpu->taken, waited);
	for (i = 0; i < 3; i++)
		snic_cpu_waiting_add(cpu, alloc_skb(64, GFP_ATOMIC | __GFP_NOFAIL));
	KUNIT_EXPECT_EQ(test, cpu->waited, waited + 3);
	KUNIT_EXPECT_EQ(test, cpu->taken, waited);
	napi_schedule(&cpu->napi);
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, comes_true(&model.late, 3));
	KUNIT_EXPECT_EQ(test, cpu->taken, waited + 3);
}

/* A poll more: the first poll behind the backlog may come before that of the cell. */
static void frames_are_past_the_cells_of_tunnels(struct kunit *test)
{
	bool was = snic_cpu_cells;
	struct snic_cpu *cpu;
	u32 last;

	snic_cpu_cells = true;
	local_bh_disable();
	cpu = snic_cpu_this();
	begin_backlog(cpu);
	last = enter_backlog(300);
	KUNIT_EXPECT_EQ(test, polls_until_passed(last), DIV_ROUND_UP(301, BACKLOG_POLL) + 1);
	last = enter_backlog(0);
	KUNIT_EXPECT_TRUE_MSG(test, snic_cpu_passed(last, false), "it never was in the backlog");
	cpu->passed = cpu->passed_cells = 0;
	local_bh_enable();
	snic_cpu_cells = was;
}

/* The first queue that lingers: since the bottom half ran, half of all numbers may have passed. */
static void old_numbers_let_no_frame_pass(struct kunit *test)
{
	bool was = snic_cpu_cells;
	struct snic_txq q = {};
	struct snic_cpu *cpu;
	u32 last;

	snic_cpu_cells = true;
	local_bh_disable();
	cpu = snic_cpu_this();
	begin_backlog(cpu);
	backlog.tail = backlog.head += 3u << 30;
	last = enter_backlog(0);
	spin_lock(&cpu->lock);
	snic_cpu_linger(cpu, &q);
	list_del(&q.node);
	spin_unlock(&cpu->lock);
	snic_cpu_note_backlog(cpu);
	KUNIT_EXPECT_FALSE(test, snic_cpu_passed(last, true));
	KUNIT_EXPECT_EQ(test, polls_until_passed(last), 2);
	cpu->passed = cpu->passed_cells = 0;
	local_bh_enable();
	snic_cpu_cells = was;
}

static int no_poll(struct napi_struct *napi, int budget)
{
	return 0;
}

static void tunnels_are_noticed(struct kunit *test)
{
	struct net_device *ndev = alloc_netdev_dummy(0);
	struct netdev_notifier_info info = {.dev = ndev};
	struct napi_struct *cell = kunit_kzalloc(test, sizeof(*cell), GFP_KERNEL);
	bool was = snic_cpu_cells;

	KUNIT_ASSERT_NOT_NULL(test, ndev);
	KUNIT_ASSERT_NOT_NULL(test, cell);
	snic_cpu_cells = false;
	snic_cpu_netdev_event(NULL, NETDEV_REGISTER, &info);
	KUNIT_EXPECT_FALSE(test, snic_cpu_cells);
	netif_napi_add(ndev, cell, no_poll);
	snic_cpu_netdev_event(NULL, NETDEV_UP, &info);
	KUNIT_EXPECT_FALSE(test, snic_cpu_cells);
	snic_cpu_netdev_event(NULL, NETDEV_REGISTER, &info);
	KUNIT_EXPECT_TRUE(test, snic_cpu_cells);
	snic_cpu_cells = was;
	netif_napi_del(cell);
	free_netdev(ndev);
}

static struct kunit_case context_cases[] = {
	KUNIT_CASE(the_backlog_is_past_a_frame_when_it_was_taken_out),
	KUNIT_CASE(bottom_half_takes_all_frames_that_wait),
	KUNIT_CASE(frames_are_past_the_cells_of_tunnels),
	KUNIT_CASE(old_numbers_let_no_frame_pass),
	KUNIT_CASE(tunnels_are_noticed),
	KUNIT_CASE(task_posts),
	KUNIT_CASE(interrupt_posts),
	KUNIT_CASE(management_runs_in_a_task),
	KUNIT_CASE(interrupts_wait_for_locks),
	KUNIT_CASE(interrupts_of_task_and_softirq),
	KUNIT_CASE(freed_interrupt_is_silent),
	KUNIT_CASE(endless_events_leave_room),
	KUNIT_CASE(deferred_work_takes_turns),
	KUNIT_CASE(devices_take_turns),
	KUNIT_CASE(endless_deferred_work_leaves_room),
	KUNIT_CASE(endless_background_work_leaves_room),
	{},
};

static struct kunit_suite context_suite = {
	.name = "sirdma_context",
	.init = context_init,
	.exit = context_exit,
	.test_cases = context_cases,
};
kunit_test_suite(context_suite);

MODULE_DESCRIPTION("tests of sirdma_nic: the contexts it works in");
MODULE_LICENSE("GPL");
