// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Streams over SMC-R sockets (AF_SMC), all data checked, and that they are SMC-R of a given device
 * and not the TCP connection that SMC falls back to.
 *
 *	smc_check -u EID							add a user EID
 *	smc_check -d DEVICE -a ADDRESS [-p PORT] [-b BYTES]			server
 *	smc_check -c SERVER -d DEVICE -a ADDRESS [-p PORT] [-b BYTES]
 *		  [-n RECORDS] [-l BYTES] [-s SEED]				client
 *
 * The client sends records of 1 to -l bytes (1 MiB) without waiting for what the server sends back:
 * as many bytes, of the next seed. -b is the size of the socket's buffers, and so of the memory that
 * the peer writes to. SMC-R version 2, the one for RoCEv2, is used by hosts that have a user EID in
 * common. The exit status is 1 when anything was wrong.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <linux/smc.h>
#include <linux/smc_diag.h>
#include <linux/sock_diag.h>

#include "pattern.h"

enum { LENGTH_MAX = 1 << 20, TIMEOUT = 60 };
#ifndef AF_SMC
#define AF_SMC 43
#endif

struct record {
	uint64_t seed, length; /* an empty one is the last */
};

static const char *device;
static unsigned long long records = 100;
static uint64_t seed = 1, length_max = LENGTH_MAX;
static int buffer;

static void die(const char *what)
{
	fprintf(stderr, "smc_check: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void compare(const uint8_t *got, uint64_t of, size_t length)
{
	for (size_t i = 0; i < length; i += 8) {
		uint64_t x = pattern_word(of, i);
		if (memcmp(got + i, &x, length - i < 8 ? length - i : 8)) {
			fprintf(stderr, "smc_check: a record of %zu bytes is wrong at %zu\n",
				length, i);
			exit(1);
		}
	}
}

static void send_all(int fd, const void *data, size_t length)
{
	for (const uint8_t *at = data; length;) {
		ssize_t did = send(fd, at, length, MSG_NOSIGNAL);
		if (did <= 0)
			die("send");
		at += did;
		length -= did;
	}
}

static void receive_all(int fd, void *data, size_t length)
{
	for (uint8_t *at = data; length;) {
		ssize_t did = recv(fd, at, length, 0);
		if (!did)
			errno = ECONNRESET;
		if (did <= 0)
			die("recv");
		at += did;
		length -= did;
	}
}

/* ---- netlink */

static struct nlattr *attribute(void *from, size_t length, int type)
{
	for (uint8_t *at = from; length >= sizeof(struct nlattr);) {
		struct nlattr *a = (struct nlattr *)at;
		size_t whole = NLA_ALIGN(a->nla_len);
		if (a->nla_len < sizeof(*a) || a->nla_len > length)
			break;
		if ((a->nla_type & NLA_TYPE_MASK) == type)
			return a;
		if (whole >= length)
			break;
		at += whole;
		length -= whole;
	}
	return NULL;
}

struct request {
	struct nlmsghdr nlh;
	struct genlmsghdr genl;
	struct nlattr attr;
	char value[64];
};

/* A request of generic netlink with one string; the answer is put in its place. */
static void genl(int fd, struct request *q, int family, int command, int type, const char *value,
		 size_t length)
{
	*q = (struct request){.nlh = {.nlmsg_type = family,
				      .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
			      .genl = {.cmd = command, .version = 1},
			      .attr = {.nla_len = NLA_HDRLEN + length, .nla_type = type}};
	memcpy(q->value, value, length);
	q->nlh.nlmsg_len = NLMSG_HDRLEN + GENL_HDRLEN + NLA_ALIGN(q->attr.nla_len);
	if (send(fd, q, q->nlh.nlmsg_len, 0) < 0)
		die("netlink");
}

static void add_eid(const char *eid)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC), family = 0;
	char name[SMC_MAX_EID_LEN + 1];
	uint8_t reply[8192];
	struct request q;

	if (fd < 0)
		die("netlink socket");
	genl(fd, &q, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, SMC_GENL_FAMILY_NAME,
	     sizeof(SMC_GENL_FAMILY_NAME));
	for (int ended = 0; !ended;) {
		ssize_t got = recv(fd, reply, sizeof(reply), 0);
		if (got < 0)
			die("netlink");
		for (struct nlmsghdr *n = (void *)reply; NLMSG_OK(n, got); n = NLMSG_NEXT(n, got)) {
			if (n->nlmsg_type == NLMSG_ERROR) {
				errno = -((struct nlmsgerr *)NLMSG_DATA(n))->error;
				if (errno)
					die(SMC_GENL_FAMILY_NAME);
				ended = 1;
				continue;
			}
			struct nlattr *a = attribute((uint8_t *)NLMSG_DATA(n) + GENL_HDRLEN,
						     NLMSG_PAYLOAD(n, GENL_HDRLEN),
						     CTRL_ATTR_FAMILY_ID);
			if (a)
				family = *(uint16_t *)(a + 1);
		}
	}
	/* It is padded with blanks. */
	snprintf(name, sizeof(name), "%-*s", SMC_MAX_EID_LEN, eid);
	genl(fd, &q, family, SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY, name, sizeof(name));
	if (recv(fd, reply, sizeof(reply), 0) < 0)
		die("netlink");
	errno = -((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)reply))->error;
	if (errno)
		die(eid);
	close(fd);
}

/* The socket's own entry in the list of SMC sockets must name our device. */
static void must_be_smcr(int fd)
{
	struct {
		struct nlmsghdr nlh;
		struct smc_diag_req req;
	} q = {.nlh = {.nlmsg_len = sizeof(q),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
	       .req = {.diag_family = AF_SMC, .diag_ext = 1 << (SMC_DIAG_LGRINFO - 1)}};
	uint8_t reply[65536];
	int diag = socket(AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), found = 0;
	struct stat is;

	if (diag < 0 || fstat(fd, &is) || send(diag, &q, sizeof(q), 0) < 0)
		die("sock_diag");
	for (int ended = 0; !ended;) {
		ssize_t got = recv(diag, reply, sizeof(reply), 0);
		if (got < 0)
			die("sock_diag");
		for (struct nlmsghdr *n = (void *)reply; NLMSG_OK(n, got); n = NLMSG_NEXT(n, got)) {
			struct smc_diag_msg *m = NLMSG_DATA(n);
			struct nlattr *a;
			if (n->nlmsg_type == NLMSG_DONE || n->nlmsg_type == NLMSG_ERROR) {
				ended = 1;
				break;
			}
			if (m->diag_inode != is.st_ino)
				continue;
			found = 1;
			size_t header = NLMSG_ALIGN(sizeof(*m));
			if (m->diag_mode != SMC_DIAG_MODE_SMCR) {
				struct smc_diag_fallback why = {0};
				a = attribute((uint8_t *)m + header, NLMSG_PAYLOAD(n, header),
					      SMC_DIAG_FALLBACK);
				if (a)
					memcpy(&why, a + 1, sizeof(why));
				fprintf(stderr, "smc_check: mode %u, reason %#x, the peer's %#x\n",
					m->diag_mode, why.reason, why.peer_diagnosis);
				exit(1);
			}
			a = attribute((uint8_t *)m + header, NLMSG_PAYLOAD(n, header),
				      SMC_DIAG_LGRINFO);
			const char *name =
				a ? (char *)((struct smc_diag_lgrinfo *)(a + 1))->lnk[0].ibname :
				    "none";
			if (strcmp(name, device)) {
				fprintf(stderr, "smc_check: the link is of device %s, not %s\n",
					name, device);
				exit(1);
			}
		}
	}
	close(diag);
	if (!found) {
		errno = ENOENT;
		die("the socket is not in the list");
	}
}

/* ---- streams */

static int open_socket(void)
{
	struct timeval timeout = {TIMEOUT, 0};
	int fd = socket(AF_SMC, SOCK_STREAM, 0), on = 1;

	if (fd < 0)
		die("socket");
	if (buffer && (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) ||
		       setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer))))
		die("buffers");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)))
		die("setsockopt");
	return fd;
}

static void *serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint8_t *data = malloc(LENGTH_MAX);
	struct record r;
	unsigned long long bytes = 0;

	if (!data)
		die("memory");
	must_be_smcr(fd);
	for (;;) {
		receive_all(fd, &r, sizeof(r));
		if (r.length > LENGTH_MAX) {
			fprintf(stderr, "smc_check: a header is wrong\n");
			exit(1);
		}
		receive_all(fd, data, r.length);
		compare(data, r.seed, r.length);
		bytes += r.length;
		r.seed++;
		send_all(fd, &r, sizeof(r));
		pattern_fill(data, r.seed, r.length);
		send_all(fd, data, r.length);
		if (!r.length)
			break;
	}
	/* The client closes first, so that the port is free at once. */
	if (recv(fd, data, 1, 0))
		die("the client does not close");
	close(fd);
	free(data);
	printf("smc_check: a client sent %llu bytes\n", bytes);
	fflush(stdout);
	return NULL;
}

static void listen_at(const struct sockaddr_in *own)
{
	int fd = open_socket();
	pthread_t thread;

	if (bind(fd, (struct sockaddr *)own, sizeof(*own)) || listen(fd, 16))
		die("listen");
	printf("smc_check: ready\n");
	fflush(stdout);
	for (;;) {
		int client = accept(fd, NULL, NULL);
		if (client < 0) {
			if (errno == EAGAIN)
				continue;
			die("accept");
		}
		errno = pthread_create(&thread, NULL, serve, (void *)(intptr_t)client);
		if (errno)
			die("pthread_create");
		pthread_detach(thread);
	}
}

/* The sender and the receiver of the client make the same records from the same seed. */
static struct record next_record(uint64_t *state, uint64_t index)
{
	struct record r = {random_below(state, 1ull << 40),
			   (1ull << random_below(state, 21)) + random_below(state, 64)};

	if (r.length > length_max)
		r.length = length_max;
	if (index == records)
		r.length = 0;
	return r;
}

static void *sender(void *arg)
{
	int fd = (int)(intptr_t)arg;
	uint8_t *data = malloc(LENGTH_MAX);
	uint64_t state = seed;

	if (!data)
		die("memory");
	for (uint64_t i = 0; i <= records; i++) {
		struct record r = next_record(&state, i);
		send_all(fd, &r, sizeof(r));
		pattern_fill(data, r.seed, r.length);
		send_all(fd, data, r.length);
	}
	free(data);
	return NULL;
}

static void exchange(const struct sockaddr_in *own, const struct sockaddr_in *server)
{
	int fd = open_socket();
	uint8_t *data = malloc(LENGTH_MAX);
	unsigned long long bytes = 0;
	uint64_t state = seed;
	pthread_t thread;

	if (!data)
		die("memory");
	if (bind(fd, (struct sockaddr *)own, sizeof(*own)))
		die("bind");
	if (connect(fd, (struct sockaddr *)server, sizeof(*server)))
		die("connect");
	must_be_smcr(fd);
	errno = pthread_create(&thread, NULL, sender, (void *)(intptr_t)fd);
	if (errno)
		die("pthread_create");
	for (uint64_t i = 0; i <= records; i++) {
		struct record expected = next_record(&state, i), r;
		receive_all(fd, &r, sizeof(r));
		if (r.seed != expected.seed + 1 || r.length != expected.length) {
			fprintf(stderr, "smc_check: a header is wrong\n");
			exit(1);
		}
		receive_all(fd, data, r.length);
		compare(data, r.seed, r.length);
		bytes += r.length;
	}
	pthread_join(thread, NULL);
	close(fd);
	free(data);
	printf("smc_check: %llu records, %llu bytes each way\n", records, bytes);
}

int main(int argc, char **argv)
{
	struct sockaddr_in own = {.sin_family = AF_INET}, server = {.sin_family = AF_INET};
	uint16_t port = 4000;
	int opt, is_client = 0, has_own = 0;

	while ((opt = getopt(argc, argv, "u:d:a:c:p:b:n:l:s:")) != -1) {
		switch (opt) {
		case 'u':
			add_eid(optarg);
			return 0;
		case 'd':
			device = optarg;
			break;
		case 'a':
			has_own = inet_pton(AF_INET, optarg, &own.sin_addr) == 1;
			break;
		case 'c':
			is_client = inet_pton(AF_INET, optarg, &server.sin_addr) == 1;
			break;
		case 'p':
			port = (uint16_t)strtoul(optarg, NULL, 0);
			break;
		case 'b':
			buffer = (int)strtoul(optarg, NULL, 0);
			break;
		case 'n':
			records = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			length_max = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (optind != argc || !device || !has_own || !seed || !length_max ||
	    length_max > LENGTH_MAX)
		return 2;
	if (is_client) {
		server.sin_port = htons(port);
		exchange(&own, &server);
	} else {
		own.sin_port = htons(port);
		listen_at(&own);
	}
	return 0;
}
