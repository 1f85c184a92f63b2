/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A ConnectX that exists in one process only, for the instructions of libmlx5's calls to be counted
 * without one (tests/bench/callcost.cpp). It is preloaded:
 *
 *	LD_PRELOAD=.../fake_mlx5 callcost mlx5_0 COUNT
 *
 * ibv_get_device_list() finds the one device mlx5_0. libmlx5 and libibverbs are those that are
 * installed; below them, the ioctl() of their commands and the mmap() of the doorbell pages are
 * answered here, as a kernel would that has a device with CQEs of version 1 (ConnectX-4 and later)
 * and doorbell pages of fixed number. The first queue pair on such a page has it for itself, so a
 * post takes no lock for it, as with the pages that newer kernels allocate for each queue pair.
 *
 * The device works in fake_device_progress(), which the program calls. Every queue pair is connected
 * to itself and does SEND, RDMA WRITE and RDMA READ of one buffer. Like the hardware, the device
 * puts a message of up to 32 bytes into the CQE of its receive if the queue pair was created so.
 */
#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <map>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/mlx5dv.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "ibverbs_private.hpp"

namespace
{

constexpr char name[] = "mlx5_0";
constexpr char node[] = "uverbs_fake_mlx5"; /* a file that is opened in place of a device node */
constexpr char node_path[] = "/dev/infiniband/uverbs_fake_mlx5";
constexpr uint32_t max_scattered = 32; /* bytes of a message in a CQE */

[[noreturn]] void die(const char *what)
{
	fprintf(stderr, "fake_mlx5: %s\n", what);
	_exit(1);
}

struct FakeCq {
	uint8_t *ring;
	uint32_t size; /* CQEs, a power of two */
	const __be32 *consumed; /* by the program, 24 bits */
	uint32_t produced = 0;
};

struct FakeQp {
	uint32_t number;
	mlx5_ib_create_qp rings;
	FakeCq *send_cq, *recv_cq;
	uint16_t sent = 0; /* blocks of 64 bytes */
	uint16_t received = 0;
};

struct FakeDriver {
	int fd = -1;
	const verbs_device_ops *ops = nullptr;
	uint32_t next_handle = 1;
	uint32_t own_register = 0; /* a doorbell register that a queue pair has for itself */
	std::map<uint32_t, FakeCq> cqs; /* by handle */
	std::map<uint32_t, FakeQp> qps;
};

FakeDriver &driver()
{
	static FakeDriver only;

	return only;
}

/* ---- the device */

template <typename T> T *at(uint64_t address)
{
	return reinterpret_cast<T *>(address);
}

void complete(FakeCq &cq, const mlx5_cqe64 &cqe)
{
	auto *slot = reinterpret_cast<mlx5_cqe64 *>(cq.ring +
						    (cq.produced & (cq.size - 1)) * sizeof(cqe));
	const uint8_t owner = !!(cq.produced & cq.size);

	if (((cq.produced - be32toh(*cq.consumed)) & 0xffffff) >= cq.size)
		die("a completion queue overflows");
	memcpy(slot, &cqe, sizeof(cqe) - 1);
	__atomic_store_n(&slot->op_own, static_cast<uint8_t>(cqe.op_own | owner), __ATOMIC_RELEASE);
	++cq.produced;
}

/* Returns false if there is no receive. */
bool receive(FakeQp &qp, const void *data, uint32_t len)
{
	const __be32 *doorbell = at<__be32>(qp.rings.db_addr);
	const uint16_t posted = static_cast<uint16_t>(be32toh(doorbell[MLX5_RCV_DBR]));
	const uint16_t index = qp.received & (qp.rings.rq_wqe_count - 1);
	const auto *place = at<mlx5_wqe_data_seg>(qp.rings.buf_addr +
						  (uint64_t{index} << qp.rings.rq_wqe_shift));
	mlx5_cqe64 cqe = {};

	if (posted == qp.received)
		return false;
	if (len > be32toh(place->byte_count))
		die("a receive is too small");
	cqe.op_own = MLX5_CQE_RESP_SEND << 4;
	if ((qp.rings.flags & MLX5_QP_FLAG_SCATTER_CQE) && len <= max_scattered) {
		memcpy(&cqe, data, len);
		cqe.op_own |= MLX5_INLINE_SCATTER_32;
	} else {
		memcpy(at<void>(be64toh(place->addr)), data, len);
	}
	cqe.srqn_uidx = htobe32(qp.rings.uidx);
	cqe.sop_drop_qpn = htobe32(qp.number);
	cqe.byte_cnt = htobe32(len);
	cqe.wqe_counter = htobe16(qp.received++);
	complete(*qp.recv_cq, cqe);
	return true;
}

/* Does the request at @ctrl; false if it must wait. */
bool execute(FakeQp &qp, const mlx5_wqe_ctrl_seg &ctrl)
{
	const uint8_t opcode = be32toh(ctrl.opmod_idx_opcode) & 0xff;
	const bool one_sided = opcode != MLX5_OPCODE_SEND;
	const auto *segments = reinterpret_cast<const uint8_t *>(&ctrl + 1);
	const auto *remote = reinterpret_cast<const mlx5_wqe_raddr_seg *>(segments);
	const auto *local = reinterpret_cast<const mlx5_wqe_data_seg *>(
		segments + (one_sided ? sizeof(*remote) : 0));
	const uint32_t len = be32toh(local->byte_count);
	void *const data = at<void>(be64toh(local->addr));
	mlx5_cqe64 cqe = {};

	if ((be32toh(ctrl.qpn_ds) & 0x3f) != (one_sided ? 3 : 2) || (len & MLX5_INLINE_SEG))
		die("a request has another form than one buffer");
	switch (opcode) {
	case MLX5_OPCODE_SEND:
		if (!receive(qp, data, len))
			return false;
		break;
	case MLX5_OPCODE_RDMA_WRITE:
		memcpy(at<void>(be64toh(remote->raddr)), data, len);
		break;
	case MLX5_OPCODE_RDMA_READ:
		memcpy(data, at<void>(be64toh(remote->raddr)), len);
		break;
	default:
		die("an opcode that is not done here");
	}
	if (!(ctrl.fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE))
		return true;
	cqe.op_own = MLX5_CQE_REQ << 4;
	cqe.srqn_uidx = htobe32(qp.rings.uidx);
	cqe.sop_drop_qpn = htobe32(uint32_t{opcode} << 24 | qp.number);
	cqe.byte_cnt = htobe32(len);
	cqe.wqe_counter = htobe16(qp.sent);
	complete(*qp.send_cq, cqe);
	return true;
}

void progress(FakeQp &qp)
{
	const uint64_t ring =
		qp.rings.buf_addr + (uint64_t{qp.rings.rq_wqe_count} << qp.rings.rq_wqe_shift);
	const __be32 *doorbell = at<__be32>(qp.rings.db_addr);

	while (qp.sent != static_cast<uint16_t>(be32toh(doorbell[MLX5_SND_DBR]))) {
		const uint32_t block = qp.sent & (qp.rings.sq_wqe_count - 1);

		if (!execute(qp, *at<mlx5_wqe_ctrl_seg>(ring + block * MLX5_SEND_WQE_BB)))
			return;
		++qp.sent; /* no request that is done here takes more than one block */
	}
}

/* ---- the kernel's commands */

/* A command as the library's ioctl() carries it. */
class Command {
public:
	explicit Command(ib_uverbs_ioctl_hdr *header) : header_(header) {}

	ib_uverbs_attr *find(uint16_t id) const
	{
		for (int i = 0; i < header_->num_attrs; ++i)
			if (header_->attrs[i].attr_id == id)
				return &header_->attrs[i];
		return nullptr;
	}

	/* An argument, filled up with zeros. */
	template <typename T> T in(uint16_t id) const
	{
		T value = {};
		const ib_uverbs_attr *attr = find(id);

		if (attr)
			memcpy(&value,
			       attr->len > sizeof(attr->data) ? at<void>(attr->data) : &attr->data,
			       std::min<size_t>(attr->len, sizeof(value)));
		return value;
	}

	template <typename T> void out(uint16_t id, const T &value) const
	{
		const ib_uverbs_attr *attr = find(id);

		if (!attr || !attr->len)
			return;
		memset(at<void>(attr->data), 0, attr->len);
		memcpy(at<void>(attr->data), &value, std::min<size_t>(attr->len, sizeof(value)));
	}

	bool is(uint16_t object, uint16_t method) const
	{
		return header_->object_id == object && header_->method_id == method;
	}

private:
	ib_uverbs_ioctl_hdr *const header_;
};

void get_context(const Command &command)
{
	const auto request = command.in<mlx5_ib_alloc_ucontext_req_v2>(UVERBS_ATTR_UHW_IN);
	ib_uverbs_get_context_resp core = {};
	mlx5_ib_alloc_ucontext_resp answer = {};

	/*
	 * The last registers belong to a queue pair each. The library counts 4 on a page, of which it uses
	 * the first 2.
	 */
	const uint32_t own = request.total_num_bfregs - request.num_low_latency_bfregs;

	driver().own_register = own / 2 * 4 + own % 2;
	core.async_fd = static_cast<uint32_t>(eventfd(0, EFD_CLOEXEC));
	core.num_comp_vectors = 1;
	answer.qp_tab_size = 1 << 18;
	answer.bf_reg_size = 512;
	answer.tot_bfregs = request.total_num_bfregs;
	answer.cache_line_size = 64;
	answer.max_sq_desc_sz = 1024;
	answer.max_rq_desc_sz = 512;
	answer.max_send_wqebb = 1 << 15;
	answer.max_recv_wr = 1 << 15;
	answer.max_srq_recv_wr = 1 << 15;
	answer.num_ports = 1;
	answer.response_length = sizeof(answer);
	answer.cqe_version = 1;
	answer.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
	answer.log_uar_size = 12;
	answer.num_uars_per_page = 1;
	command.out(UVERBS_ATTR_CORE_OUT, core);
	command.out(UVERBS_ATTR_UHW_OUT, answer);
}

ib_uverbs_query_device_resp device_answer()
{
	ib_uverbs_query_device_resp answer = {};

	answer.vendor_id = 0x2c9;
	answer.vendor_part_id = 4119;
	answer.max_qp = answer.max_cq = answer.max_mr = answer.max_pd = 1 << 16;
	answer.max_qp_wr = 1 << 15;
	answer.max_cqe = 1 << 22;
	answer.max_sge = answer.max_sge_rd = 30;
	answer.max_mr_size = UINT64_MAX;
	answer.max_qp_rd_atom = answer.max_qp_init_rd_atom = 16;
	answer.phys_port_cnt = 1;
	return answer;
}

void query_port(const Command &command)
{
	ib_uverbs_query_port_resp answer = {};

	answer.state = IBV_PORT_ACTIVE;
	answer.max_mtu = answer.active_mtu = IBV_MTU_1024;
	answer.gid_tbl_len = 1;
	answer.pkey_tbl_len = 1;
	answer.max_msg_sz = 1u << 30;
	answer.link_layer = IBV_LINK_LAYER_ETHERNET;
	command.out(UVERBS_ATTR_CORE_OUT, answer);
}

void create_cq(const Command &command, bool extended)
{
	const auto request = command.in<mlx5_ib_create_cq>(UVERBS_ATTR_UHW_IN);
	const uint32_t cqe = extended ?
				     command.in<ib_uverbs_ex_create_cq>(UVERBS_ATTR_CORE_IN).cqe :
				     command.in<ib_uverbs_create_cq>(UVERBS_ATTR_CORE_IN).cqe;
	/* The answer of the extended command begins with that of the other one. */
	ib_uverbs_ex_create_cq_resp core = {};
	mlx5_ib_create_cq_resp answer = {};

	if (request.cqe_size != sizeof(mlx5_cqe64))
		die("CQEs are not 64 bytes long");
	core.base.cq_handle = driver().next_handle++;
	core.base.cqe = cqe;
	core.response_length = sizeof(core);
	answer.cqn = core.base.cq_handle;
	driver().cqs[core.base.cq_handle] = {.ring = at<uint8_t>(request.buf_addr),
					     .size = cqe + 1,
					     .consumed = at<__be32>(request.db_addr)};
	command.out(UVERBS_ATTR_CORE_OUT, core);
	command.out(UVERBS_ATTR_UHW_OUT, answer);
}

int create_qp(const Command &command)
{
	const auto request = command.in<ib_uverbs_create_qp>(UVERBS_ATTR_CORE_IN);
	ib_uverbs_create_qp_resp core = {};
	mlx5_ib_create_qp_resp answer = {};
	FakeQp qp = {};

	if (request.qp_type != IBV_QPT_RC || request.is_srq)
		return EOPNOTSUPP;
	core.qp_handle = driver().next_handle++;
	core.qpn = core.qp_handle;
	core.max_send_wr = request.max_send_wr;
	core.max_recv_wr = request.max_recv_wr;
	core.max_send_sge = request.max_send_sge;
	core.max_recv_sge = request.max_recv_sge;
	core.max_inline_data = request.max_inline_data;
	answer.bfreg_index = driver().own_register;
	qp.number = core.qpn;
	qp.rings = command.in<mlx5_ib_create_qp>(UVERBS_ATTR_UHW_IN);
	qp.send_cq = &driver().cqs.at(request.send_cq_handle);
	qp.recv_cq = &driver().cqs.at(request.recv_cq_handle);
	driver().qps[core.qp_handle] = qp;
	command.out(UVERBS_ATTR_CORE_OUT, core);
	command.out(UVERBS_ATTR_UHW_OUT, answer);
	return 0;
}

int reg_mr(const Command &command)
{
	ib_uverbs_reg_mr_resp answer = {};

	answer.mr_handle = driver().next_handle++;
	answer.lkey = answer.rkey = answer.mr_handle << 8;
	command.out(UVERBS_ATTR_CORE_OUT, answer);
	return 0;
}

/* A command of the older kind, of which all fixed parts are known. Returns an errno. */
int write_command(const Command &command)
{
	const auto method = command.in<uint64_t>(UVERBS_ATTR_WRITE_CMD);

	switch (method) {
	case IB_USER_VERBS_CMD_GET_CONTEXT:
		get_context(command);
		return 0;
	case IB_USER_VERBS_CMD_QUERY_DEVICE:
		/* Without any argument this asks whether there are such commands. */
		if (!command.find(UVERBS_ATTR_CORE_OUT))
			return ENOSPC;
		command.out(UVERBS_ATTR_CORE_OUT, device_answer());
		return 0;
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE: {
		ib_uverbs_ex_query_device_resp answer = {};

		answer.base = device_answer();
		answer.response_length = sizeof(answer);
		command.out(UVERBS_ATTR_CORE_OUT, answer);
		return 0;
	}
	case IB_USER_VERBS_CMD_QUERY_PORT:
		query_port(command);
		return 0;
	case IB_USER_VERBS_CMD_ALLOC_PD:
		command.out(UVERBS_ATTR_CORE_OUT,
			    ib_uverbs_alloc_pd_resp{.pd_handle = driver().next_handle++});
		command.out(UVERBS_ATTR_UHW_OUT, mlx5_ib_alloc_pd_resp{.pdn = 1});
		return 0;
	case IB_USER_VERBS_CMD_REG_MR:
		return reg_mr(command);
	case IB_USER_VERBS_CMD_CREATE_CQ:
		create_cq(command, false);
		return 0;
	case IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_CREATE_CQ:
		create_cq(command, true);
		return 0;
	case IB_USER_VERBS_CMD_CREATE_QP:
		return create_qp(command);
	case IB_USER_VERBS_CMD_DESTROY_QP:
		driver().qps.erase(command.in<ib_uverbs_destroy_qp>(UVERBS_ATTR_CORE_IN).qp_handle);
		command.out(UVERBS_ATTR_CORE_OUT, ib_uverbs_destroy_qp_resp{});
		return 0;
	case IB_USER_VERBS_CMD_DESTROY_CQ:
		driver().cqs.erase(command.in<ib_uverbs_destroy_cq>(UVERBS_ATTR_CORE_IN).cq_handle);
		command.out(UVERBS_ATTR_CORE_OUT, ib_uverbs_destroy_cq_resp{});
		return 0;
	case IB_USER_VERBS_CMD_MODIFY_QP:
	case IB_USER_VERBS_CMD_DEREG_MR:
	case IB_USER_VERBS_CMD_DEALLOC_PD:
		return 0;
	default:
		fprintf(stderr, "fake_mlx5: no command %#llx\n",
			static_cast<unsigned long long>(method));
		return EOPNOTSUPP;
	}
}

int query_gid(const Command &command)
{
	ibv_gid_entry entry = {};

	entry.port_num = 1;
	entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	entry.gid.raw[10] = entry.gid.raw[11] = 0xff;
	entry.gid.raw[12] = 127;
	entry.gid.raw[15] = 1;
	command.out(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, entry);
	return 0;
}

/* EPROTONOSUPPORT lets the library use the command of the older kind, or do without. */
int command_errno(const Command &command)
{
	if (command.is(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE))
		return write_command(command);
	if (command.is(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY))
		return query_gid(command);
	return EPROTONOSUPPORT;
}

/* ---- what the libraries call */

bool is_ours(int fd)
{
	return fd >= 0 && fd == driver().fd;
}

int open_file(const char *path, int flags, mode_t mode)
{
	if (strcmp(path, node_path))
		return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
	driver().fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/null", flags, 0));
	return driver().fd;
}

mode_t mode_argument(int flags, va_list arguments)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

void *map(void *where, size_t len, int protection, int flags, int fd, off_t offset)
{
	if (is_ours(fd)) {
		/* A doorbell page, which nobody reads. */
		flags = MAP_PRIVATE | MAP_ANONYMOUS;
		fd = -1;
		offset = 0;
	}
	return reinterpret_cast<void *>(
		syscall(SYS_mmap, where, len, protection, flags, fd, offset));
}

/* As libibverbs does with a device that it found in sysfs. */
verbs_device *make_device()
{
	/* The library frees it. */
	verbs_sysfs_dev &found = *static_cast<verbs_sysfs_dev *>(calloc(1, sizeof(found)));

	strcpy(found.sysfs_name, node);
	strcpy(found.ibdev_name, name);
	found.abi_ver = MLX5_IB_UVERBS_ABI_VERSION;
	found.driver_id = RDMA_DRIVER_MLX5;
	found.node_type = IBV_NODE_CA;
	found.ibdev_idx = -1;
	found.num_ports = 1;

	verbs_device *device = driver().ops->alloc_device(&found);

	if (!device)
		die("libmlx5 allocates no device");
	device->ops = driver().ops;
	device->refcount = 1;
	device->sysfs = &found;
	device->device.node_type = IBV_NODE_CA;
	device->device.transport_type = IBV_TRANSPORT_IB;
	strcpy(device->device.name, name);
	strcpy(device->device.dev_name, node);
	return device;
}

} // namespace

extern "C" {

#define EXPORT __attribute__((visibility("default")))

EXPORT void fake_device_progress()
{
	for (auto &[handle, qp] : driver().qps)
		progress(qp);
}

/* Of libibverbs' private interface; libmlx5's constructor calls it. */
EXPORT void verbs_register_driver_34(const verbs_device_ops *ops)
{
	driver().ops = ops;
}

EXPORT ibv_device **ibv_get_device_list(int *count)
{
	auto **list = static_cast<ibv_device **>(calloc(2, sizeof(ibv_device *)));

	if (!dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL))
		die(dlerror());
	if (!driver().ops)
		die("libmlx5 does not register; is its libibverbs of rdma-core 28 to 56?");
	list[0] = &make_device()->device;
	if (count)
		*count = 1;
	return list;
}

EXPORT int open(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	const mode_t mode = mode_argument(flags, arguments);
	va_end(arguments);
	return open_file(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
	va_list arguments;

	va_start(arguments, flags);
	const mode_t mode = mode_argument(flags, arguments);
	va_end(arguments);
	return open_file(path, flags, mode);
}

EXPORT void *mmap(void *where, size_t len, int protection, int flags, int fd, off_t offset)
{
	return map(where, len, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *where, size_t len, int protection, int flags, int fd, off_t offset)
{
	return map(where, len, protection, flags, fd, offset);
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list arguments;

	va_start(arguments, request);
	void *const argument = va_arg(arguments, void *);
	va_end(arguments);
	if (!is_ours(fd))
		return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
	if (request != RDMA_VERBS_IOCTL) {
		errno = ENOTTY;
		return -1;
	}

	const int err = command_errno(Command(static_cast<ib_uverbs_ioctl_hdr *>(argument)));

	if (!err)
		return 0;
	errno = err;
	return -1;
}

} /* extern "C" */
