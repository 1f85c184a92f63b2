// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Datagrams and remote memory access over Reliable Datagram Sockets on RDMA, all data checked.
 *
 *	rds_check -a ADDRESS [-p PORT]					server
 *	rds_check -c SERVER -a ADDRESS [-p PORT] [-n REQUESTS] [-s SEED]	client
 *
 *	client                                server
 *	ECHO: length, seed, data     ──────>  compares
 *	                             <──────  ECHO: data of the next seed
 *	PUT: length, seed, key       ──────>
 *	                             <──────  RDMA READ of the client's memory, then PUT; compares
 *	GET: length, seed, key       ──────>
 *	                             <──────  RDMA WRITE to the client's memory, then GET
 *
 * RDS reports an RDMA to its program when the peer has acknowledged the message with it, so the
 * message after an RDMA READ is fenced: it is not sent before the data is there. An RDMA without a
 * message is reported only after later messages.
 *
 * Up to WINDOW requests are under way at once. Lengths are from 1 byte to 1 MiB, of which an ECHO's
 * header is a part, and memory begins anywhere in a page. The exit status is 1 when anything was
 * wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/rds.h>

#include "pattern.h"

enum {
	LENGTH_MAX = 1 << 20, /* RDS_MAX_MSG_SIZE of the kernel: of a message, and of an RDMA */
	PAGE = 4096,
	WINDOW = 4, /* of a client */
	SLOTS = 64, /* of the server: remote memory access that has not completed */
	SOCKET_BUFFER = 32 << 20,
	TIMEOUT = 60, /* seconds without a message */
};
enum kind { ECHO, PUT, GET, KINDS };

struct header {
	uint64_t kind, slot, seed, length;
};
enum { ECHO_MAX = LENGTH_MAX - sizeof(struct header) };

struct slot {
	int used;
	struct header request;
	struct sockaddr_in client;
	rds_rdma_cookie_t key;
	uint8_t *memory;
	size_t skip; /* bytes of the first page that are not used */
};

static struct slot slots[SLOTS];
static int fd;
static uint64_t state;
static unsigned long long count[KINDS], bytes;
static uint8_t *message; /* LENGTH_MAX bytes */

static void die(const char *what)
{
	fprintf(stderr, "rds_check: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t any(uint64_t below)
{
	return random_below(&state, below);
}

static void compare(const uint8_t *got, uint64_t seed, size_t length, const char *what)
{
	size_t first = length, last = 0;
	uint64_t x = 0, zeroes = 0;

	for (size_t i = 0; i < length; i++) {
		x = i % 8 ? x >> 8 : pattern_word(seed, i);
		if (got[i] == (uint8_t)x)
			continue;
		if (first == length)
			first = i;
		last = i;
		zeroes += !got[i];
	}
	if (first < length) {
		fprintf(stderr,
			"rds_check: %s of %zu bytes at %#zx of a page: bytes %zu to %zu are wrong, "
			"%llu of them are 0\n",
			what, length, (uintptr_t)got % PAGE, first, last,
			(unsigned long long)zeroes);
		exit(1);
	}
	bytes += length;
}

/* Send a header with DATA bytes after it, and a control message unless TYPE is 0. */
static void send_to(const struct sockaddr_in *to, const struct header *h, size_t data, int type,
		    const void *control, size_t control_length)
{
	_Alignas(struct cmsghdr) uint8_t space[CMSG_SPACE(sizeof(struct rds_rdma_args))] = {0};
	struct iovec iov = {message, sizeof(*h) + data};
	struct msghdr msg = {.msg_name = (void *)to,
			     .msg_namelen = sizeof(*to),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};

	memcpy(message, h, sizeof(*h));
	if (type) {
		struct cmsghdr *c = (struct cmsghdr *)space;
		c->cmsg_level = SOL_RDS;
		c->cmsg_type = type;
		c->cmsg_len = CMSG_LEN(control_length);
		memcpy(CMSG_DATA(c), control, control_length);
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(control_length);
	}
	if (sendmsg(fd, &msg, 0) < 0)
		die(type ? "sendmsg with a control message" : "sendmsg");
}

struct received {
	struct header header;
	size_t data;
	struct sockaddr_in from;
	rds_rdma_cookie_t key;
	uint64_t completed; /* bits of slots */
};

/* One message, or completions of remote memory access. */
static struct received receive(void)
{
	_Alignas(struct cmsghdr) uint8_t space[1024];
	struct received r = {0};
	struct iovec iov = {message, LENGTH_MAX};
	struct msghdr msg = {.msg_name = &r.from,
			     .msg_namelen = sizeof(r.from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = space,
			     .msg_controllen = sizeof(space)};
	ssize_t length = recvmsg(fd, &msg, 0);

	if (length < 0)
		die("recvmsg");
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		struct rds_rdma_notify notify;
		if (c->cmsg_level != SOL_RDS)
			continue;
		if (c->cmsg_type == RDS_CMSG_RDMA_DEST) {
			memcpy(&r.key, CMSG_DATA(c), sizeof(r.key));
		} else if (c->cmsg_type == RDS_CMSG_RDMA_STATUS) {
			memcpy(&notify, CMSG_DATA(c), sizeof(notify));
			if (notify.status != RDS_RDMA_SUCCESS || notify.user_token >= SLOTS) {
				fprintf(stderr, "rds_check: RDMA ended with status %d\n",
					notify.status);
				exit(1);
			}
			r.completed |= 1ull << notify.user_token;
		}
	}
	if (r.completed && !length)
		return r;
	if ((size_t)length < sizeof(r.header)) {
		fprintf(stderr, "rds_check: a message of %zd bytes\n", length);
		exit(1);
	}
	memcpy(&r.header, message, sizeof(r.header));
	r.data = length - sizeof(r.header);
	if (r.header.kind >= KINDS || r.header.slot >= SLOTS || r.header.length > LENGTH_MAX ||
	    r.data != (r.header.kind == ECHO ? r.header.length : 0)) {
		fprintf(stderr, "rds_check: a header is wrong\n");
		exit(1);
	}
	return r;
}

static void open_socket(const char *address, uint16_t port)
{
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct timeval timeout = {TIMEOUT, 0};
	int buffer = SOCKET_BUFFER, transport = RDS_TRANS_IB;

	if (inet_pton(AF_INET, address, &own.sin_addr) != 1)
		exit(2);
	fd = socket(AF_RDS, SOCK_SEQPACKET, 0);
	if (fd < 0)
		die("socket");
	if (setsockopt(fd, SOL_RDS, SO_RDS_TRANSPORT, &transport, sizeof(transport)))
		die("no RDS over RDMA");
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof(buffer)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		die("setsockopt");
	if (bind(fd, (struct sockaddr *)&own, sizeof(own)))
		die("bind");
}

/* ---- server */

/* Start the transfer between our memory and the client's. */
static void transfer(struct slot *s, uint64_t token)
{
	struct header *h = &s->request;
	struct rds_iovec local[2] = {{(uintptr_t)s->memory + s->skip, h->length}};
	struct rds_rdma_args args = {.cookie = s->key,
				     .remote_vec = {0, h->length},
				     .local_vec_addr = (uintptr_t)local,
				     .nr_local = 1,
				     .flags = RDS_RDMA_NOTIFY_ME,
				     .user_token = token};

	/* The local memory is of one or of two parts. */
	if (h->length > 1 && any(2)) {
		local[0].bytes = 1 + any(h->length - 1);
		local[1] = (struct rds_iovec){local[0].addr + local[0].bytes,
					      h->length - local[0].bytes};
		args.nr_local = 2;
	}
	if (h->kind == PUT) {
		memset(s->memory, 0, s->skip + h->length);
		args.flags |= RDS_RDMA_FENCE;
	} else {
		pattern_fill(s->memory + s->skip, h->seed, h->length);
		args.flags |= RDS_RDMA_READWRITE;
	}
	send_to(&s->client, h, 0, RDS_CMSG_RDMA_ARGS, &args, sizeof(args));
}

static void transferred(struct slot *s)
{
	struct header *h = &s->request;

	if (h->kind == PUT)
		compare(s->memory + s->skip, h->seed, h->length, "what an RDMA READ brought");
	s->used = 0;
}

static void serve(void)
{
	printf("rds_check: ready\n");
	fflush(stdout);
	for (;;) {
		struct received r = receive();
		if (r.completed) {
			for (unsigned i = 0; i < SLOTS; i++)
				if (r.completed >> i & 1)
					transferred(&slots[i]);
			continue;
		}
		if (r.header.kind == ECHO) {
			compare(message + sizeof(r.header), r.header.seed, r.data, "a message");
			pattern_fill(message + sizeof(r.header), r.header.seed + 1, r.data);
			send_to(&r.from, &r.header, r.data, 0, NULL, 0);
			continue;
		}
		unsigned i = 0;
		while (i < SLOTS && slots[i].used)
			i++;
		if (i == SLOTS || !r.key) {
			fprintf(stderr, "rds_check: %s\n",
				r.key ? "too many requests" : "no key arrived");
			exit(1);
		}
		struct slot *s = &slots[i];
		s->used = 1;
		s->request = r.header;
		s->client = r.from;
		s->key = r.key;
		s->skip = any(PAGE);
		transfer(s, i);
	}
}

/* ---- client */

static void ask(const struct sockaddr_in *server, unsigned i, enum kind kind)
{
	struct slot *s = &slots[i];
	size_t length = (1ull << any(21)) + any(64), most = kind == ECHO ? ECHO_MAX : LENGTH_MAX;

	if (length > most)
		length = most;
	s->used = 1;
	s->request = (struct header){kind, i, any(1ull << 40), length};
	s->skip = any(PAGE);
	if (kind == ECHO) {
		pattern_fill(message + sizeof(struct header), s->request.seed, length);
		send_to(server, &s->request, length, 0, NULL, 0);
		return;
	}
	/* The memory of a GET is freed by the server's use of it, that of a PUT by us. */
	struct rds_get_mr_args map = {{(uintptr_t)s->memory + s->skip, length},
				      (uintptr_t)&s->key,
				      RDS_RDMA_READWRITE | RDS_RDMA_INVALIDATE |
					      (kind == GET ? RDS_RDMA_USE_ONCE : 0)};
	if (kind == PUT)
		pattern_fill(s->memory + s->skip, s->request.seed, length);
	else
		memset(s->memory, 0, s->skip + length);
	send_to(server, &s->request, 0, RDS_CMSG_RDMA_MAP, &map, sizeof(map));
}

static void answered(const struct received *r)
{
	struct slot *s = &slots[r->header.slot];
	struct header *h = &s->request;

	if (!s->used || memcmp(h, &r->header, sizeof(*h))) {
		fprintf(stderr, "rds_check: a reply to no request\n");
		exit(1);
	}
	if (h->kind == ECHO) {
		compare(message + sizeof(*h), h->seed + 1, h->length, "a reply");
	} else if (h->kind == GET) {
		compare(s->memory + s->skip, h->seed, h->length, "what an RDMA WRITE brought");
	} else {
		struct rds_free_mr_args args = {s->key, RDS_RDMA_INVALIDATE};
		bytes += h->length;
		if (setsockopt(fd, SOL_RDS, RDS_FREE_MR, &args, sizeof(args)))
			die("RDS_FREE_MR");
	}
	count[h->kind]++;
	s->used = 0;
}

static void request(const struct sockaddr_in *server, uint64_t requests)
{
	uint64_t sent = 0, done = 0;
	struct received r;

	/* Memory can be registered once a connection is there. */
	ask(server, 0, ECHO);
	r = receive();
	answered(&r);
	while (done < requests) {
		for (unsigned i = 0; i < WINDOW && sent < requests; i++) {
			if (slots[i].used)
				continue;
			ask(server, i, (enum kind)any(KINDS));
			sent++;
		}
		r = receive();
		answered(&r);
		done++;
	}
	printf("rds_check: %llu echoes, %llu puts, %llu gets, %llu bytes compared\n", count[ECHO],
	       count[PUT], count[GET], bytes);
}

int main(int argc, char **argv)
{
	struct sockaddr_in server = {.sin_family = AF_INET};
	uint64_t requests = 100, seed = 1;
	const char *own = NULL, *to = NULL;
	uint16_t port = 4000;
	int opt;

	while ((opt = getopt(argc, argv, "a:c:p:n:s:")) != -1) {
		switch (opt) {
		case 'a':
			own = optarg;
			break;
		case 'c':
			to = optarg;
			break;
		case 'p':
			port = (uint16_t)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			requests = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (!own || optind != argc || (to && inet_pton(AF_INET, to, &server.sin_addr) != 1))
		return 2;
	state = seed * 0x9e3779b97f4a7c15ull + 1;
	server.sin_port = htons(port);
	message = malloc(LENGTH_MAX);
	for (unsigned i = 0; i < (to ? WINDOW : SLOTS); i++) {
		slots[i].memory = aligned_alloc(PAGE, LENGTH_MAX + PAGE);
		if (!slots[i].memory || !message)
			die("memory");
	}
	open_socket(own, to ? 0 : port);
	if (to)
		request(&server, requests);
	else
		serve();
	return 0;
}
