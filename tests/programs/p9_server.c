// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A server of 9P2000.L over RDMA for the kernel's client (mount -t 9p -o trans=rdma): a folder and
 * the regular files and folders in it.
 *
 *	p9_server [-m MSIZE] [-p PORT] ADDRESS FOLDER
 *
 * Each connection has a thread, which answers requests in the order of their arrival. The client
 * connects with an RNR retry count of 0, so that a receive must be posted for everything it may
 * send: it sends up to DEPTH requests that are not answered yet.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum {
	DEPTH = 32, /* requests in flight: the default of the client's option rq= */
	RECEIVES = DEPTH + 4,
	FIDS = 4096,
	HEADER = 7,
	NAME = 256,
};

/* Requests of 9P2000.L; the number of a reply is greater by one. */
enum {
	RLERROR = 7,
	TSTATFS = 8,
	TLOPEN = 12,
	TLCREATE = 14,
	TGETATTR = 24,
	TSETATTR = 26,
	TREADDIR = 40,
	TFSYNC = 50,
	TMKDIR = 72,
	TRENAMEAT = 74,
	TUNLINKAT = 76,
	TVERSION = 100,
	TATTACH = 104,
	TFLUSH = 108,
	TWALK = 110,
	TREAD = 116,
	TWRITE = 118,
	TCLUNK = 120,
};

enum {
	SET_MODE = 1 << 0,
	SET_UID = 1 << 1,
	SET_GID = 1 << 2,
	SET_SIZE = 1 << 3,
	SET_ATIME = 1 << 4,
	SET_MTIME = 1 << 5,
	SET_ATIME_TO = 1 << 7,
	SET_MTIME_TO = 1 << 8,
};

/* A message that is read or written from front to back. An overrun is remembered and refused. */
struct message {
	uint8_t *data;
	uint32_t at, end;
	int bad;
};

struct fid {
	int used, path, io; /* path: an O_PATH descriptor; io: after an open, or -1 */
	DIR *dir;
};

struct arrival {
	int slot;
	uint32_t length;
};

struct connection {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* RECEIVES requests, then as many replies, each of msize */
	int free_replies[RECEIVES], num_free, num_arrived, gone;
	struct arrival arrived[RECEIVES]; /* requests that have no answer yet */
	uint32_t msize;
	struct fid fids[FIDS];
	unsigned long long requests, bytes_read, bytes_written;
	pthread_t thread;
};

static uint32_t msize_max = 1 << 20;
static int root;

static void die(const char *what)
{
	fprintf(stderr, "p9_server: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *take(struct message *m, uint32_t bytes)
{
	static uint8_t nothing[16];

	if (m->bad || bytes > m->end - m->at) {
		m->bad = 1;
		return bytes <= sizeof(nothing) ? nothing : NULL;
	}
	m->at += bytes;
	return m->data + m->at - bytes;
}

#define GET(bits) \
	static uint##bits##_t get##bits(struct message *m) \
	{ \
		uint##bits##_t value; \
		memcpy(&value, take(m, sizeof(value)), sizeof(value)); \
		return le##bits##toh(value); \
	} \
	static void put##bits(struct message *m, uint##bits##_t value) \
	{ \
		value = htole##bits(value); \
		memcpy(take(m, sizeof(value)), &value, sizeof(value)); \
	}
GET(16)
GET(32)
GET(64)

static void put8(struct message *m, uint8_t value)
{
	*(uint8_t *)take(m, 1) = value;
}

/* A component of a path; empty when it is too long or could lead out of the folder. */
static void get_name(struct message *m, char *name)
{
	uint16_t length = get16(m);
	char *from = take(m, length);

	name[0] = 0;
	if (!from || m->bad || length >= NAME || memchr(from, 0, length) ||
	    memchr(from, '/', length))
		return;
	memcpy(name, from, length);
	name[length] = 0;
	if (!strcmp(name, ".") || !strcmp(name, ".."))
		name[0] = 0;
}

static void put_string(struct message *m, const char *s)
{
	uint16_t length = strlen(s);

	put16(m, length);
	void *to = take(m, length);
	if (!m->bad)
		memcpy(to, s, length);
}

static void put_qid(struct message *m, const struct stat *is)
{
	put8(m, S_ISDIR(is->st_mode) ? 0x80 : S_ISLNK(is->st_mode) ? 2 : 0);
	put32(m, (uint32_t)(is->st_mtim.tv_sec * 1000003 + is->st_mtim.tv_nsec));
	put64(m, is->st_ino);
}

static int stat_of(int fd, struct stat *is)
{
	return fstatat(fd, "", is, AT_EMPTY_PATH) ? errno : 0;
}

static const char *proc_path(int fd, char *name)
{
	snprintf(name, NAME, "/proc/self/fd/%d", fd);
	return name;
}

static struct fid *fid_of(struct connection *c, uint32_t number)
{
	return number < FIDS && c->fids[number].used ? &c->fids[number] : NULL;
}

static struct fid *fid_new(struct connection *c, uint32_t number, int path)
{
	if (number >= FIDS || c->fids[number].used)
		return NULL;
	c->fids[number] = (struct fid){1, path, -1, NULL};
	return &c->fids[number];
}

static void fid_close(struct fid *f)
{
	if (f->dir)
		closedir(f->dir);
	if (f->io >= 0)
		close(f->io);
	close(f->path);
	f->used = 0;
}

/* ---- requests: each returns 0 or an errno, and has the reply's body written to OUT */

static int version(struct connection *c, struct message *in, struct message *out)
{
	uint32_t msize = get32(in);
	char name[NAME];

	get_name(in, name);
	if (msize > msize_max)
		msize = msize_max;
	if (msize < 4096)
		return EINVAL;
	for (int i = 0; i < FIDS; i++)
		if (c->fids[i].used)
			fid_close(&c->fids[i]);
	c->msize = msize;
	put32(out, msize);
	put_string(out, strcmp(name, "9P2000.L") ? "unknown" : name);
	return 0;
}

static int attach(struct connection *c, struct message *in, struct message *out)
{
	uint32_t number = get32(in);
	struct stat is;
	int path = openat(root, ".", O_PATH | O_DIRECTORY);

	if (path < 0)
		return errno;
	if (!fid_new(c, number, path)) {
		close(path);
		return EBADF;
	}
	int err = stat_of(path, &is);
	put_qid(out, &is);
	return err;
}

static int walk(struct connection *c, struct message *in, struct message *out)
{
	struct fid *from = fid_of(c, get32(in));
	uint32_t number = get32(in);
	uint16_t count = get16(in), done = 0;
	int path, next, err = 0;
	char name[NAME];
	struct stat is;

	if (!from)
		return EBADF;
	path = dup(from->path);
	if (path < 0)
		return errno;
	struct message count_at = *out;
	put16(out, 0);
	for (; done < count; done++) {
		get_name(in, name);
		next = name[0] ? openat(path, name, O_PATH | O_NOFOLLOW) : -1;
		err = next < 0 ? (name[0] ? errno : ENOENT) : stat_of(next, &is);
		if (next >= 0) {
			close(path);
			path = next;
		}
		if (err)
			break;
		put_qid(out, &is);
	}
	if (err && !done) {
		close(path);
		return err;
	}
	put16(&count_at, done);
	if (done < count) { /* a part of the names exists: the new fid is not made */
		close(path);
		return 0;
	}
	if (from == fid_of(c, number) && from->io < 0) {
		close(from->path);
		from->path = path;
	} else if (!fid_new(c, number, path)) {
		close(path);
		return EBADF;
	}
	return 0;
}

static int lopen(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint32_t flags = get32(in);
	char name[NAME];
	struct stat is;

	if (!f || f->io >= 0)
		return EBADF;
	/* Each write names its offset, so O_APPEND is the client's own. */
	f->io = open(proc_path(f->path, name), flags & (O_ACCMODE | O_TRUNC));
	if (f->io < 0)
		return errno;
	int err = stat_of(f->path, &is);
	put_qid(out, &is);
	put32(out, 0);
	return err;
}

static int lcreate(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	char name[NAME];
	struct stat is;
	int io, path;

	get_name(in, name);
	uint32_t flags = get32(in), mode = get32(in);
	if (!f || f->io >= 0 || !name[0])
		return EINVAL;
	io = openat(f->path, name, O_CREAT | O_NOFOLLOW | (flags & (O_ACCMODE | O_TRUNC | O_EXCL)),
		    mode & 07777);
	if (io < 0)
		return errno;
	path = openat(f->path, name, O_PATH | O_NOFOLLOW);
	if (path < 0) {
		int err = errno;
		close(io);
		return err;
	}
	close(f->path);
	f->path = path;
	f->io = io;
	int err = stat_of(path, &is);
	put_qid(out, &is);
	put32(out, 0);
	return err;
}

static int getattr(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint64_t mask = get64(in);
	struct stat is;
	int err = f ? stat_of(f->path, &is) : EBADF;

	if (err)
		return err;
	put64(out, mask & 0x7ff); /* the attributes of stat() */
	put_qid(out, &is);
	put32(out, is.st_mode);
	put32(out, is.st_uid);
	put32(out, is.st_gid);
	put64(out, is.st_nlink);
	put64(out, 0);
	put64(out, is.st_size);
	put64(out, is.st_blksize);
	put64(out, is.st_blocks);
	put64(out, is.st_atim.tv_sec);
	put64(out, is.st_atim.tv_nsec);
	put64(out, is.st_mtim.tv_sec);
	put64(out, is.st_mtim.tv_nsec);
	put64(out, is.st_ctim.tv_sec);
	put64(out, is.st_ctim.tv_nsec);
	for (int i = 0; i < 4; i++) /* time of birth, generation, version */
		put64(out, 0);
	return 0;
}

static int setattr(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint32_t valid = get32(in), mode = get32(in), uid = get32(in), gid = get32(in);
	uint64_t size = get64(in);
	struct timespec times[2];
	char name[NAME];

	for (int i = 0; i < 2; i++) {
		times[i].tv_sec = (time_t)get64(in);
		times[i].tv_nsec = (long)get64(in);
		if (!(valid & (i ? SET_MTIME : SET_ATIME)))
			times[i].tv_nsec = UTIME_OMIT;
		else if (!(valid & (i ? SET_MTIME_TO : SET_ATIME_TO)))
			times[i].tv_nsec = UTIME_NOW;
	}
	if (!f || in->bad)
		return EBADF;
	proc_path(f->path, name);
	if ((valid & SET_MODE && chmod(name, mode & 07777)) ||
	    (valid & (SET_UID | SET_GID) &&
	     chown(name, valid & SET_UID ? uid : (uid_t)-1, valid & SET_GID ? gid : (gid_t)-1)) ||
	    (valid & SET_SIZE && truncate(name, (off_t)size)) ||
	    (valid & (SET_ATIME | SET_MTIME) && utimensat(AT_FDCWD, name, times, 0)))
		return errno;
	return 0;
}

static int readdir_at(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint64_t offset = get64(in);
	uint32_t count = get32(in), start;
	struct message count_at = *out;
	struct dirent *entry;

	if (!f || f->io < 0)
		return EBADF;
	if (!f->dir) {
		int fd = dup(f->io);
		f->dir = fd < 0 ? NULL : fdopendir(fd);
		if (!f->dir)
			return errno;
	}
	seekdir(f->dir, (long)offset);
	put32(out, 0);
	start = out->at;
	while ((entry = readdir(f->dir))) {
		struct stat is = {.st_ino = entry->d_ino,
				  .st_mode = entry->d_type == DT_DIR ? S_IFDIR : S_IFREG};
		if (out->at - start + 13 + 8 + 1 + 2 + strlen(entry->d_name) > count)
			break;
		put_qid(out, &is);
		put64(out, (uint64_t)entry->d_off);
		put8(out, entry->d_type);
		put_string(out, entry->d_name);
	}
	put32(&count_at, out->at - start);
	return 0;
}

static int mkdir_in(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	char name[NAME];
	struct stat is;

	get_name(in, name);
	uint32_t mode = get32(in);
	if (!f || !name[0])
		return EINVAL;
	if (mkdirat(f->path, name, mode & 07777) ||
	    fstatat(f->path, name, &is, AT_SYMLINK_NOFOLLOW))
		return errno;
	put_qid(out, &is);
	return 0;
}

static int unlink_in(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	char name[NAME];

	get_name(in, name);
	uint32_t flags = get32(in);
	if (!f || !name[0])
		return EINVAL;
	return unlinkat(f->path, name, flags & AT_REMOVEDIR) ? errno : 0;
}

static int rename_in(struct connection *c, struct message *in, struct message *out)
{
	struct fid *from = fid_of(c, get32(in)), *to;
	char old[NAME], new[NAME];

	get_name(in, old);
	to = fid_of(c, get32(in));
	get_name(in, new);
	if (!from || !to || !old[0] || !new[0])
		return EINVAL;
	return renameat(from->path, old, to->path, new) ? errno : 0;
}

static int read_at(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint64_t offset = get64(in);
	uint32_t count = get32(in);
	struct message count_at = *out;

	if (!f || f->io < 0)
		return EBADF;
	put32(out, 0);
	if (count > out->end - out->at)
		count = out->end - out->at;
	ssize_t did = pread(f->io, out->data + out->at, count, (off_t)offset);
	if (did < 0)
		return errno;
	out->at += did;
	c->bytes_read += did;
	put32(&count_at, did);
	return 0;
}

static int write_at(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	uint64_t offset = get64(in);
	uint32_t count = get32(in);

	if (!f || f->io < 0)
		return EBADF;
	if (count != in->end - in->at)
		return EPROTO;
	ssize_t did = pwrite(f->io, in->data + in->at, count, (off_t)offset);
	if (did < 0)
		return errno;
	c->bytes_written += did;
	put32(out, did);
	return 0;
}

static int statfs_of(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));
	struct statfs is;

	if (!f)
		return EBADF;
	if (fstatfs(root, &is))
		return errno;
	put32(out, 0x01021997); /* V9FS_MAGIC */
	put32(out, is.f_bsize);
	put64(out, is.f_blocks);
	put64(out, is.f_bfree);
	put64(out, is.f_bavail);
	put64(out, is.f_files);
	put64(out, is.f_ffree);
	put64(out, 0);
	put32(out, is.f_namelen);
	return 0;
}

static int clunk(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));

	if (!f)
		return EBADF;
	fid_close(f);
	return 0;
}

static int sync_file(struct connection *c, struct message *in, struct message *out)
{
	struct fid *f = fid_of(c, get32(in));

	if (!f || f->io < 0)
		return EBADF;
	return fsync(f->io) ? errno : 0;
}

/* Requests are answered in order, so the old one has its answer. */
static int flush(struct connection *c, struct message *in, struct message *out)
{
	return 0;
}

static int (*const answers[256])(struct connection *c, struct message *in, struct message *out) = {
	[TSTATFS] = statfs_of,	 [TLOPEN] = lopen,     [TLCREATE] = lcreate,
	[TGETATTR] = getattr,	 [TSETATTR] = setattr, [TREADDIR] = readdir_at,
	[TFSYNC] = sync_file,	 [TMKDIR] = mkdir_in,  [TRENAMEAT] = rename_in,
	[TUNLINKAT] = unlink_in, [TVERSION] = version, [TATTACH] = attach,
	[TFLUSH] = flush,	 [TWALK] = walk,       [TREAD] = read_at,
	[TWRITE] = write_at,	 [TCLUNK] = clunk,
};

static int answer(struct connection *c, uint8_t type, struct message *in, struct message *out)
{
	return answers[type] ? answers[type](c, in, out) : EOPNOTSUPP;
}

/* ---- RDMA */

static void post_receive(struct connection *c, int slot)
{
	struct ibv_sge sge = {(uintptr_t)c->memory + (size_t)slot * msize_max, msize_max,
			      c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;

	errno = ibv_post_recv(c->id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_recv");
}

static void post_reply(struct connection *c, int slot, uint32_t length)
{
	struct ibv_sge sge = {(uintptr_t)c->memory + (size_t)(RECEIVES + slot) * msize_max, length,
			      c->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = RECEIVES + slot,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	errno = ibv_post_send(c->id->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
}

static void request(struct connection *c, int slot, uint32_t length)
{
	struct message in = {c->memory + (size_t)slot * msize_max, 0, length, 0};
	int reply = c->free_replies[--c->num_free];
	struct message out = {c->memory + (size_t)(RECEIVES + reply) * msize_max, HEADER, c->msize,
			      0};
	uint32_t size = get32(&in);
	uint8_t type = *(uint8_t *)take(&in, 1);
	uint16_t tag = get16(&in);
	int err = size == length && !in.bad ? answer(c, type, &in, &out) : EPROTO;

	if (!err && (in.bad || out.bad))
		err = EPROTO;
	if (err) {
		out.at = HEADER;
		out.bad = 0;
		put32(&out, err);
	}
	size = out.at;
	out.at = 0;
	put32(&out, size);
	put8(&out, err ? RLERROR : type + 1);
	put16(&out, tag);
	c->requests++;
	/* The client may send the next request as soon as it has this reply. */
	post_receive(c, slot);
	post_reply(c, reply, size);
}

static void completed(struct connection *c, const struct ibv_wc *wc)
{
	int is_request = wc->wr_id < RECEIVES;

	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			fprintf(stderr, "p9_server: a %s: %s\n", is_request ? "request" : "reply",
				ibv_wc_status_str(wc->status));
		c->gone = 1;
	} else if (is_request) {
		c->arrived[c->num_arrived++] = (struct arrival){(int)wc->wr_id, wc->byte_len};
	} else {
		c->free_replies[c->num_free++] = (int)wc->wr_id - RECEIVES;
	}
}

/* Answer what has arrived, as far as there is memory for replies: a reply has it until it is acknowledged. */
static void answer_arrived(struct connection *c)
{
	int count = 0;

	while (count < c->num_arrived && c->num_free) {
		request(c, c->arrived[count].slot, c->arrived[count].length);
		count++;
	}
	c->num_arrived -= count;
	memmove(c->arrived, c->arrived + count, sizeof(c->arrived[0]) * c->num_arrived);
}

/* Until the client leaves, which flushes what is posted. */
static void *serve(void *arg)
{
	struct connection *c = arg;
	struct ibv_wc wc[RECEIVES];
	struct ibv_cq *cq;
	void *context;
	int count;

	while (!c->gone) {
		if (ibv_get_cq_event(c->channel, &cq, &context))
			die("ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
		while (!c->gone && (count = ibv_poll_cq(cq, RECEIVES, wc))) {
			if (count < 0)
				die("ibv_poll_cq");
			for (int i = 0; i < count; i++)
				completed(c, &wc[i]);
			if (!c->gone)
				answer_arrived(c);
		}
	}
	return NULL;
}

static void accept_client(struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
	struct connection *c = calloc(1, sizeof(*c));
	struct rdma_conn_param param = {.responder_resources = asked->initiator_depth,
					.initiator_depth = asked->responder_resources,
					.rnr_retry_count = 7};
	size_t bytes = (size_t)2 * RECEIVES * msize_max;

	if (!c)
		die("memory");
	id->context = c;
	c->id = id;
	c->msize = msize_max;
	c->memory = aligned_alloc(4096, bytes);
	c->pd = ibv_alloc_pd(id->verbs);
	c->channel = ibv_create_comp_channel(id->verbs);
	c->cq = ibv_create_cq(id->verbs, 2 * RECEIVES, NULL, c->channel, 0);
	c->mr = c->memory && c->pd ? ibv_reg_mr(c->pd, c->memory, bytes, IBV_ACCESS_LOCAL_WRITE) :
				     NULL;
	if (!c->channel || !c->cq || !c->mr)
		die("resources");
	struct ibv_qp_init_attr attr = {.send_cq = c->cq,
					.recv_cq = c->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {RECEIVES, RECEIVES, 1, 1, 0}};
	if (rdma_create_qp(id, c->pd, &attr))
		die("rdma_create_qp");
	for (int i = 0; i < RECEIVES; i++) {
		post_receive(c, i);
		c->free_replies[c->num_free++] = i;
	}
	if (ibv_req_notify_cq(c->cq, 0) || rdma_accept(id, &param))
		die("rdma_accept");
	errno = pthread_create(&c->thread, NULL, serve, c);
	if (errno)
		die("pthread_create");
}

static void release_client(struct rdma_cm_id *id)
{
	struct connection *c = id->context;

	rdma_disconnect(id);
	pthread_join(c->thread, NULL);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	ibv_dereg_mr(c->mr);
	ibv_destroy_cq(c->cq);
	ibv_destroy_comp_channel(c->channel);
	ibv_dealloc_pd(c->pd);
	for (int i = 0; i < FIDS; i++)
		if (c->fids[i].used)
			fid_close(&c->fids[i]);
	printf("p9_server: a client left after %llu requests, %llu bytes read, %llu written\n",
	       c->requests, c->bytes_read, c->bytes_written);
	fflush(stdout);
	free(c->memory);
	free(c);
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(5640)};
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	int opt;

	while ((opt = getopt(argc, argv, "m:p:")) != -1) {
		switch (opt) {
		case 'm':
			msize_max = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			address.sin_port = htons(strtoul(optarg, NULL, 0));
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2 || msize_max < 4096 ||
	    inet_pton(AF_INET, argv[optind], &address.sin_addr) != 1)
		return 2;
	umask(0);
	root = open(argv[optind + 1], O_PATH | O_DIRECTORY);
	if (root < 0)
		die(argv[optind + 1]);
	if (!events || rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&address) || rdma_listen(listener, 8))
		die("rdma_listen");
	printf("p9_server: ready\n");
	fflush(stdout);
	while (!rdma_get_cm_event(events, &event)) {
		struct rdma_cm_id *id = event->id;
		struct rdma_conn_param asked = event->param.conn;
		int what = event->event, status = event->status;

		rdma_ack_cm_event(event);
		if (what == RDMA_CM_EVENT_CONNECT_REQUEST)
			accept_client(id, &asked);
		else if (what == RDMA_CM_EVENT_DISCONNECTED)
			release_client(id);
		else if (what != RDMA_CM_EVENT_ESTABLISHED && what != RDMA_CM_EVENT_TIMEWAIT_EXIT)
			fprintf(stderr, "p9_server: %s, status %d\n", rdma_event_str(what), status);
	}
	die("rdma_get_cm_event");
}
