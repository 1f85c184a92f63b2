// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Remote memory access over libfabric as storage programs use it: small requests are sent eagerly,
 * the server moves the bulk by fi_read() (a PUT) and fi_write() (a GET), and all data are checked.
 *
 *	fabric_rma [-p PROVIDER] [-e msg|rdm] [-t SECONDS] [-s BYTES] -a ADDRESS [PORT]		server
 *	fabric_rma ... -c -a ADDRESS [PORT]							client
 *
 *	client                                server
 *	request: slot, address, key  ──────>
 *	                             <──────  fi_read or fi_write of up to -s bytes
 *	                             <──────  reply: checksum
 *
 * Requests take turns: memory of a pool that is registered once, the same memory registered for the
 * request alone, which a registration cache finds, and memory that is mapped for the request, often
 * at an address that had other pages before, so that a cache that misses munmap() shows wrong data.
 * The exit status is 1 when anything was wrong.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum { SLOTS = 8, MESSAGE_MAX = 1024, PADS = 512 };
enum kind { HELLO, PUT, GET, END };

struct message {
	uint64_t seq, kind, slot, length, address, key, sum, pad_length;
	uint8_t pad[PADS];
};
_Static_assert(sizeof(struct message) <= MESSAGE_MAX, "a message fits its buffer");

struct op {
	struct fi_context2 context; /* first: libfabric gives it back */
	enum { RECV, SEND, RMA } what;
	struct slot *slot;
};

/* One request at a time. */
struct slot {
	struct op recv, send, rma;
	struct message *in, *out, request; /* to the client: the reply */
	unsigned pending; /* completion of the send; to the client: the reply as well */
	int deferred; /* to the server: request waits until the last reply has left */
	uint8_t *bulk; /* of the pool */
	uint8_t *memory; /* of the client's request: bulk, or mapped for it */
	struct fid_mr *mr; /* of the request alone */
};

static struct fi_info *info;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fid_mr *pool_mr;
static fi_addr_t peer = FI_ADDR_UNSPEC;
static struct slot slots[SLOTS];
static struct op *waiting[3 * SLOTS]; /* that the provider had no room for */
static unsigned num_waiting, busy;
static uint64_t next_seq, requests, bytes, wrong, bulk_max = 1 << 20;
static int is_client, is_msg = 1, ended;
static double seconds = 2;

static void check(int64_t err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "fabric_rma: %s: %s\n", what, fi_strerror((int)-err));
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
	return x ^ x >> 29;
}

/* Buffers have room for whole words. */
static uint64_t fill(uint8_t *to, uint64_t length, uint64_t seed)
{
	uint64_t sum = 0, i, word;

	for (i = 0; i < length; i += sizeof(word)) {
		word = mix(seed << 32 | i);
		memcpy(to + i, &word, sizeof(word));
		sum = mix(sum ^ word);
	}
	return sum;
}

static uint64_t sum_of(const uint8_t *from, uint64_t length)
{
	uint64_t sum = 0, i, word;

	for (i = 0; i < length; i += sizeof(word)) {
		memcpy(&word, from + i, sizeof(word));
		sum = mix(sum ^ word);
	}
	return sum;
}

static void expect(int is_right, const char *what, uint64_t seq)
{
	if (is_right)
		return;
	wrong++;
	fprintf(stderr, "fabric_rma: wrong %s, request %" PRIu64 "\n", what, seq);
}

static int try_post(struct op *op)
{
	struct slot *s = op->slot;
	const struct message *r = &s->request;
	void *desc = fi_mr_desc(pool_mr);

	if (op->what == RECV)
		return fi_recv(ep, s->in, MESSAGE_MAX, desc, FI_ADDR_UNSPEC, op);
	if (op->what == SEND)
		return fi_send(ep, s->out, offsetof(struct message, pad) + s->out->pad_length, desc,
			       peer, op);
	if (r->kind == PUT)
		return fi_read(ep, s->bulk, r->length, desc, peer, r->address, r->key, op);
	return fi_write(ep, s->bulk, r->length, desc, peer, r->address, r->key, op);
}

static void post(struct op *op)
{
	const int err = try_post(op);

	if (err == -FI_EAGAIN)
		waiting[num_waiting++] = op;
	else
		check(err, "post");
}

static void send_message(struct slot *s)
{
	s->pending++;
	s->out->pad_length = s->out->seq % (PADS / 8) * 8;
	fill(s->out->pad, s->out->pad_length, s->out->seq);
	post(&s->send);
}

/* The client */

static void start(struct slot *s, enum kind kind)
{
	struct message *out = s->out;
	const uint64_t seq = next_seq++;

	*out = (struct message){.seq = seq, .kind = kind, .slot = s - slots};
	s->memory = s->bulk;
	out->key = fi_mr_key(pool_mr);
	out->length = (1 + mix(seq) % (bulk_max / 8)) * 8;
	if (kind != END && seq & 4) {
		s->memory = mmap(NULL, out->length, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		check(s->memory != MAP_FAILED ? 0 : -FI_ENOMEM, "mmap");
	}
	if (kind != END && seq & (2 | 4)) {
		check(fi_mr_reg(domain, s->memory, out->length, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
				seq, 0, &s->mr, NULL),
		      "fi_mr_reg");
		out->key = fi_mr_key(s->mr);
	}
	out->address = (uintptr_t)s->memory;
	if (kind == PUT)
		out->sum = fill(s->memory, out->length, seq);
	busy++;
	s->pending++; /* the reply */
	send_message(s);
}

static void finish(struct slot *s)
{
	const struct message *out = s->out, *reply = &s->request;

	expect(reply->seq == out->seq && reply->kind == out->kind, "reply", out->seq);
	if (out->kind == PUT)
		expect(reply->sum == out->sum, "data of a PUT", out->seq);
	if (out->kind == GET)
		expect(reply->sum == sum_of(s->memory, out->length), "data of a GET", out->seq);
	if (s->mr) {
		check(fi_close(&s->mr->fid), "fi_close");
		s->mr = NULL;
	}
	if (s->memory != s->bulk)
		munmap(s->memory, out->length);
	requests++;
	bytes += out->length;
	busy--;
	s->pending--;
	ended = out->kind == END;
}

/* The server */

static void take_request(struct slot *s)
{
	const struct message *m = &s->request;

	s->deferred = s->pending != 0;
	if (s->deferred)
		return;
	*s->out = (struct message){.seq = m->seq, .kind = m->kind, .slot = m->slot};
	if (m->kind == END) {
		send_message(s);
		return;
	}
	if (m->length > bulk_max)
		check(-FI_EMSGSIZE, "the client's -s is greater");
	if (m->kind == GET)
		s->out->sum = fill(s->bulk, m->length, m->seq);
	post(&s->rma);
}

static void moved(struct slot *s)
{
	const struct message *r = &s->request;

	if (r->kind == PUT) {
		s->out->sum = sum_of(s->bulk, r->length);
		expect(s->out->sum == r->sum, "data read", r->seq);
	}
	requests++;
	bytes += r->length;
	send_message(s);
}

static void received(struct slot *at)
{
	const struct message m = *at->in;
	uint8_t want[PADS];

	if (m.slot >= SLOTS || m.pad_length > PADS)
		check(-FI_EINVAL, "message");
	if (m.kind == HELLO) {
		/* It is from the client's own address, which follows. */
		if (!is_msg && fi_av_insert(av, m.pad, 1, &peer, 0, NULL) != 1)
			check(-FI_EINVAL, "fi_av_insert");
	} else {
		fill(want, m.pad_length, m.seq);
		expect(!memcmp(want, m.pad, m.pad_length), "message", m.seq);
		slots[m.slot].request = m;
		if (is_client)
			finish(&slots[m.slot]);
		else
			take_request(&slots[m.slot]);
	}
	post(&at->recv);
}

static void sent(struct slot *s)
{
	s->pending--;
	if (s->deferred)
		take_request(s);
	else if (!is_client && s->out->kind == END)
		ended = 1;
}

/* Take completions, and post what had no room. */
static void progress(void)
{
	struct fi_cq_err_entry failure = {0};
	struct fi_cq_entry done[16];
	const unsigned num = num_waiting;
	ssize_t n;
	unsigned i;

	num_waiting = 0;
	for (i = 0; i < num; i++)
		post(waiting[i]);
	n = fi_cq_read(cq, done, 16);
	if (n == -FI_EAVAIL) {
		fi_cq_readerr(cq, &failure, 0);
		check(-failure.err, "completion");
	}
	if (n != -FI_EAGAIN)
		check(n, "fi_cq_read");
	for (i = 0; n > 0 && i < n; i++) {
		struct op *op = done[i].op_context;

		if (op->what == RECV)
			received(op->slot);
		else if (op->what == RMA)
			moved(op->slot);
		else
			sent(op->slot);
	}
}

static void await_event(uint32_t want, struct fi_eq_cm_entry *entry)
{
	uint32_t event;

	check(fi_eq_sread(eq, &event, entry, sizeof(*entry), 30000, 0), "fi_eq_sread");
	check(event == want ? 0 : -FI_EOTHER, "unexpected event");
}

static void make_pool(void)
{
	const size_t part = 2 * MESSAGE_MAX + bulk_max, size = SLOTS * part;
	uint8_t *pool = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	int i;

	check(pool ? 0 : -FI_ENOMEM, "pool");
	check(fi_mr_reg(domain, pool, size,
			FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
			0, ~0u, 0, &pool_mr, NULL),
	      "fi_mr_reg");
	for (i = 0; i < SLOTS; i++, pool += part)
		slots[i] = (struct slot){.recv = {.what = RECV, .slot = &slots[i]},
					 .send = {.what = SEND, .slot = &slots[i]},
					 .rma = {.what = RMA, .slot = &slots[i]},
					 .in = (void *)pool,
					 .out = (void *)(pool + MESSAGE_MAX),
					 .bulk = pool + 2 * MESSAGE_MAX};
}

/* An endpoint that is enabled and has its receives posted. */
static void make_endpoint(struct fid_fabric *fabric)
{
	struct fi_cq_attr cq_attr = {.size = 16 * SLOTS, .format = FI_CQ_FORMAT_CONTEXT};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int i;

	check(fi_domain(fabric, info, &domain, NULL), "fi_domain");
	check(fi_cq_open(domain, &cq_attr, &cq, NULL), "fi_cq_open");
	check(fi_endpoint(domain, info, &ep, NULL), "fi_endpoint");
	check(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
	if (is_msg) {
		check(fi_ep_bind(ep, &eq->fid, 0), "fi_ep_bind");
	} else {
		check(fi_av_open(domain, &av_attr, &av, NULL), "fi_av_open");
		check(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
	}
	check(fi_enable(ep), "fi_enable");
	make_pool();
	for (i = 0; i < SLOTS; i++)
		post(&slots[i].recv);
}

static void serve(struct fid_fabric *fabric)
{
	struct fi_eq_cm_entry entry;
	struct fid_pep *pep;

	if (is_msg) {
		check(fi_passive_ep(fabric, info, &pep, NULL), "fi_passive_ep");
		check(fi_pep_bind(pep, &eq->fid, 0), "fi_pep_bind");
		check(fi_listen(pep), "fi_listen");
	} else {
		make_endpoint(fabric);
	}
	puts("fabric_rma: listening");
	fflush(stdout);
	if (is_msg) {
		await_event(FI_CONNREQ, &entry);
		info = entry.info;
		make_endpoint(fabric);
		check(fi_accept(ep, NULL, 0), "fi_accept");
		await_event(FI_CONNECTED, &entry);
	}
	while (!ended)
		progress();
}

static void run_client(struct fid_fabric *fabric)
{
	struct fi_eq_cm_entry entry;
	size_t length = PADS;
	double begun, end;
	int i;

	make_endpoint(fabric);
	if (is_msg) {
		check(fi_connect(ep, info->dest_addr, NULL, 0), "fi_connect");
		await_event(FI_CONNECTED, &entry);
	} else {
		check(fi_av_insert(av, info->dest_addr, 1, &peer, 0, NULL) == 1 ? 0 : -FI_EINVAL,
		      "fi_av_insert");
		*slots[0].out = (struct message){.kind = HELLO};
		check(fi_getname(&ep->fid, slots[0].out->pad, &length), "fi_getname");
		slots[0].out->pad_length = length;
		slots[0].pending++;
		post(&slots[0].send);
		/* Requests come after it. */
		while (slots[0].pending)
			progress();
	}
	begun = now();
	end = begun + seconds;
	while (busy || now() < end) {
		for (i = 0; i < SLOTS && now() < end; i++)
			if (!slots[i].pending)
				start(&slots[i], next_seq & 1 ? PUT : GET);
		progress();
	}
	printf("fabric_rma: %" PRIu64 " requests, %.1f MB/s, %" PRIu64 " wrong\n", requests,
	       bytes * 1e-6 / (now() - begun), wrong);
	start(&slots[0], END);
	while (!ended)
		progress();
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
	const char *address = NULL, *provider = NULL;
	struct fid_fabric *fabric;
	int c;

	while ((c = getopt(argc, argv, "a:ce:p:s:t:")) != -1) {
		switch (c) {
		case 'a':
			address = optarg;
			break;
		case 'c':
			is_client = 1;
			break;
		case 'e':
			is_msg = !strcmp(optarg, "msg");
			break;
		case 'p':
			provider = optarg;
			break;
		case 's':
			bulk_max = strtoull(optarg, NULL, 0) / 8 * 8;
			break;
		case 't':
			seconds = atof(optarg);
			break;
		default:
			return 2;
		}
	}
	if (!address || !hints || bulk_max < 64) {
		fputs("fabric_rma: see the head of its source\n", stderr);
		return 2;
	}
	hints->ep_attr->type = is_msg ? FI_EP_MSG : FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(provider ? provider :
					       is_msg	? "verbs" :
							  "verbs;ofi_rxm");
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED |
				      FI_MR_PROV_KEY;
	check(fi_getinfo(FI_VERSION(1, 15), address, optind < argc ? argv[optind] : "7471",
			 is_client ? 0 : FI_SOURCE, hints, &info),
	      "fi_getinfo");
	check(info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? 0 : -FI_ENOSYS, "virtual addresses");
	check(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
	check(fi_eq_open(fabric, &eq_attr, &eq, NULL), "fi_eq_open");
	if (is_client)
		run_client(fabric);
	else
		serve(fabric);
	if (!is_client)
		printf("fabric_rma: %" PRIu64 " requests served, %" PRIu64 " wrong\n", requests,
		       wrong);
	check(fi_close(&ep->fid), "fi_close");
	return wrong != 0;
}
