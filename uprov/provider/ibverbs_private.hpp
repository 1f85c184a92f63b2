/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The interface of libibverbs for providers, of rdma-core 36 to 65. No distribution
 * installs its header, so this file declares the layouts that this provider needs and that
 * all these releases share. interface.hpp lists the differences between releases. The
 * assertions at the end check the layouts, and tests/provider/private_abi.sh compares them
 * with the original header, member by member.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

/*
 * A command: header and the kernel's fixed part, which the library fills in. Directly after it
 * comes the driver's private part (command.hpp).
 */
template <typename Core> struct alignas(8) verbs_cmd {
	ib_uverbs_cmd_hdr hdr;
	uint8_t core[sizeof(Core)];
};

/* The same for a command of the kernel's extended kind. */
template <typename Core> struct alignas(8) verbs_ex_cmd {
	ib_uverbs_cmd_hdr hdr;
	ib_uverbs_ex_cmd_hdr ex_hdr;
	uint8_t core[sizeof(Core)];
};

extern "C" {

struct verbs_device;
struct verbs_device_ops;

struct verbs_list_node {
	verbs_list_node *next;
	verbs_list_node *prev;
};

enum verbs_match_kind : uint8_t {
	VERBS_MATCH_SENTINEL = 0,
	VERBS_MATCH_PCI = 1,
	VERBS_MATCH_MODALIAS = 2,
	VERBS_MATCH_DRIVER_ID = 3,
};

/* An entry of a provider's match table, which ends with an entry of kind SENTINEL. */
struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias;
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	verbs_match_kind kind;
};

/* A device that the library found by RDMA netlink (ibdev_idx >= 0) or in sysfs. */
struct verbs_sysfs_dev {
	verbs_list_node entry;
	void *provider_data;
	const verbs_match_ent *match;
	unsigned int flags;
	char sysfs_name[IBV_SYSFS_NAME_MAX];
	dev_t sysfs_cdev;
	char ibdev_name[IBV_SYSFS_NAME_MAX];
	char ibdev_path[IBV_SYSFS_PATH_MAX];
	char modalias[512];
	uint64_t node_guid;
	uint32_t driver_id;
	ibv_node_type node_type;
	int ibdev_idx;
	uint32_t num_ports;
	uint32_t abi_ver;
	timespec time_created;
};

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const verbs_match_ent *match_table;
	const verbs_device_ops **static_providers;
	bool (*match_device)(verbs_sysfs_dev *sysfs_dev);
	verbs_context *(*alloc_context)(ibv_device *device, int cmd_fd, void *private_data);
	verbs_context *(*import_context)(ibv_device *device, int cmd_fd);
	verbs_device *(*alloc_device)(verbs_sysfs_dev *sysfs_dev);
	void (*uninit_device)(verbs_device *device);
};

struct verbs_device {
	ibv_device device;
	const verbs_device_ops *ops;
	int refcount; /* atomic in the library */
	verbs_list_node entry;
	verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

struct verbs_mr {
	ibv_mr mr;
	int mr_type; /* VERBS_MR_* */
	int access;
};

/*
 * enum ibv_mr_type. A region of another type than the first is no memory at the address mr.addr: the
 * library neither changes it by ibv_rereg_mr() nor protects that address from fork().
 */
enum {
	VERBS_MR_MEMORY = 0,
	VERBS_MR_IMPORTED = 2,
	VERBS_MR_DMABUF = 3,
};

struct verbs_xrcd {
	ibv_xrcd xrcd;
	uint32_t comp_mask;
	uint32_t handle;
};

struct verbs_srq {
	ibv_srq srq;
	ibv_srq_type srq_type;
	verbs_xrcd *xrcd;
	ibv_cq *cq;
	uint32_t srq_num;
};

/* verbs_qp.comp_mask */
enum { VERBS_QP_XRCD = 1 << 0, VERBS_QP_EX = 1 << 1 };

struct verbs_qp; /* its layout depends on the release: see qp.hpp */

using verbs_unused_op = void (*)();

/* The library's table of operations, whose layout depends on the release: see interface.hpp. */
struct verbs_context_ops;

} /* extern "C" */

/*
 * The operations of this provider: name, result, arguments. A null one keeps the library's
 * default.
 */
#define SIRDMA_VERBS_OPERATIONS(OP) \
	OP(advise_mr, int, ibv_pd *, ibv_advise_mr_advice, uint32_t flags, ibv_sge *, \
	   uint32_t count) \
	OP(alloc_dm, ibv_dm *, ibv_context *, ibv_alloc_dm_attr *) \
	OP(alloc_mw, ibv_mw *, ibv_pd *, ibv_mw_type) \
	OP(alloc_parent_domain, ibv_pd *, ibv_context *, ibv_parent_domain_init_attr *) \
	OP(alloc_pd, ibv_pd *, ibv_context *) \
	OP(alloc_td, ibv_td *, ibv_context *, ibv_td_init_attr *) \
	OP(async_event, void, ibv_context *, ibv_async_event *) \
	OP(attach_mcast, int, ibv_qp *, const ibv_gid *, uint16_t lid) \
	OP(bind_mw, int, ibv_qp *, ibv_mw *, ibv_mw_bind *) \
	OP(close_xrcd, int, ibv_xrcd *) \
	OP(cq_event, void, ibv_cq *) \
	OP(create_ah, ibv_ah *, ibv_pd *, ibv_ah_attr *) \
	OP(create_cq, ibv_cq *, ibv_context *, int cqe, ibv_comp_channel *, int comp_vector) \
	OP(create_cq_ex, ibv_cq_ex *, ibv_context *, ibv_cq_init_attr_ex *) \
	OP(create_qp, ibv_qp *, ibv_pd *, ibv_qp_init_attr *) \
	OP(create_qp_ex, ibv_qp *, ibv_context *, ibv_qp_init_attr_ex *) \
	OP(create_srq, ibv_srq *, ibv_pd *, ibv_srq_init_attr *) \
	OP(create_srq_ex, ibv_srq *, ibv_context *, ibv_srq_init_attr_ex *) \
	OP(dealloc_mw, int, ibv_mw *) \
	OP(dealloc_pd, int, ibv_pd *) \
	OP(dealloc_td, int, ibv_td *) \
	OP(dereg_mr, int, verbs_mr *) \
	OP(destroy_ah, int, ibv_ah *) \
	OP(destroy_cq, int, ibv_cq *) \
	OP(destroy_qp, int, ibv_qp *) \
	OP(destroy_srq, int, ibv_srq *) \
	OP(detach_mcast, int, ibv_qp *, const ibv_gid *, uint16_t lid) \
	OP(free_context, void, ibv_context *) \
	OP(free_dm, int, ibv_dm *) \
	OP(get_srq_num, int, ibv_srq *, uint32_t *srq_num) \
	OP(import_dm, ibv_dm *, ibv_context *, uint32_t handle) \
	OP(import_mr, ibv_mr *, ibv_pd *, uint32_t handle) \
	OP(import_pd, ibv_pd *, ibv_context *, uint32_t handle) \
	OP(modify_cq, int, ibv_cq *, ibv_modify_cq_attr *) \
	OP(modify_qp, int, ibv_qp *, ibv_qp_attr *, int attr_mask) \
	OP(modify_srq, int, ibv_srq *, ibv_srq_attr *, int attr_mask) \
	OP(open_qp, ibv_qp *, ibv_context *, ibv_qp_open_attr *) \
	OP(open_xrcd, ibv_xrcd *, ibv_context *, ibv_xrcd_init_attr *) \
	OP(poll_cq, int, ibv_cq *, int num_entries, ibv_wc *) \
	OP(post_recv, int, ibv_qp *, ibv_recv_wr *, ibv_recv_wr **bad_wr) \
	OP(post_send, int, ibv_qp *, ibv_send_wr *, ibv_send_wr **bad_wr) \
	OP(post_srq_recv, int, ibv_srq *, ibv_recv_wr *, ibv_recv_wr **bad_wr) \
	OP(query_device_ex, int, ibv_context *, const ibv_query_device_ex_input *, \
	   ibv_device_attr_ex *, size_t attr_size) \
	OP(query_port, int, ibv_context *, uint8_t port_num, ibv_port_attr *) \
	OP(query_qp, int, ibv_qp *, ibv_qp_attr *, int attr_mask, ibv_qp_init_attr *) \
	OP(query_rt_values, int, ibv_context *, ibv_values_ex *) \
	OP(query_srq, int, ibv_srq *, ibv_srq_attr *) \
	OP(reg_dm_mr, ibv_mr *, ibv_pd *, ibv_dm *, uint64_t offset, size_t length, \
	   unsigned int access) \
	OP(reg_dmabuf_mr, ibv_mr *, ibv_pd *, uint64_t offset, size_t length, uint64_t iova, \
	   int fd, int access) \
	OP(reg_mr, ibv_mr *, ibv_pd *, void *addr, size_t length, uint64_t hca_va, int access) \
	OP(req_notify_cq, int, ibv_cq *, int solicited_only) \
	OP(rereg_mr, int, verbs_mr *, int flags, ibv_pd *, void *addr, size_t length, int access) \
	OP(resize_cq, int, ibv_cq *, int cqe) \
	OP(unimport_dm, void, ibv_dm *) \
	OP(unimport_mr, void, ibv_mr *) \
	OP(unimport_pd, void, ibv_pd *)

struct Operations {
#define MEMBER(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
	SIRDMA_VERBS_OPERATIONS(MEMBER)
#undef MEMBER
};

extern "C" {

void *_verbs_init_and_alloc_context(ibv_device *device, int cmd_fd, size_t alloc_size,
				    verbs_context *context_offset, uint32_t driver_id);
void verbs_set_ops(verbs_context *context, const verbs_context_ops *ops);
void verbs_uninit_context(verbs_context *context);

/* A public symbol, of version IBVERBS_1.1. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* All functions return 0 or an errno. The first one has an additional argument since release 57. */
int ibv_cmd_get_context(verbs_context *, verbs_cmd<ib_uverbs_get_context> *cmd, size_t cmd_size,
			ib_uverbs_get_context_resp *, size_t resp_size);
int ibv_cmd_query_device_any(ibv_context *, const ibv_query_device_ex_input *, ibv_device_attr_ex *,
			     size_t attr_size, ib_uverbs_ex_query_device_resp *, size_t *resp_size);
int ibv_cmd_query_port(ibv_context *, uint8_t port_num, ibv_port_attr *,
		       verbs_cmd<ib_uverbs_query_port> *cmd, size_t cmd_size);
int ibv_cmd_alloc_pd(ibv_context *, ibv_pd *, verbs_cmd<ib_uverbs_alloc_pd> *cmd, size_t cmd_size,
		     ib_uverbs_alloc_pd_resp *, size_t resp_size);
int ibv_cmd_dealloc_pd(ibv_pd *);
int ibv_cmd_reg_mr(ibv_pd *, void *addr, size_t length, uint64_t hca_va, int access, verbs_mr *,
		   verbs_cmd<ib_uverbs_reg_mr> *cmd, size_t cmd_size, ib_uverbs_reg_mr_resp *,
		   size_t resp_size);
int ibv_cmd_rereg_mr(verbs_mr *, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
		     int access, ibv_pd *, verbs_cmd<ib_uverbs_rereg_mr> *cmd, size_t cmd_size,
		     ib_uverbs_rereg_mr_resp *, size_t resp_size);
int ibv_cmd_dereg_mr(verbs_mr *);
int ibv_cmd_alloc_mw(ibv_pd *, ibv_mw_type, ibv_mw *, verbs_cmd<ib_uverbs_alloc_mw> *cmd,
		     size_t cmd_size, ib_uverbs_alloc_mw_resp *, size_t resp_size);
int ibv_cmd_dealloc_mw(ibv_mw *);
int ibv_cmd_create_cq(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector, ibv_cq *,
		      verbs_cmd<ib_uverbs_create_cq> *cmd, size_t cmd_size,
		      ib_uverbs_create_cq_resp *, size_t resp_size);
int ibv_cmd_resize_cq(ibv_cq *, int cqe, verbs_cmd<ib_uverbs_resize_cq> *cmd, size_t cmd_size,
		      ib_uverbs_resize_cq_resp *, size_t resp_size);
int ibv_cmd_modify_cq(ibv_cq *, ibv_modify_cq_attr *, verbs_ex_cmd<ib_uverbs_ex_modify_cq> *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_cq(ibv_cq *);
int ibv_cmd_create_qp(ibv_pd *, ibv_qp *, ibv_qp_init_attr *, verbs_cmd<ib_uverbs_create_qp> *cmd,
		      size_t cmd_size, ib_uverbs_create_qp_resp *, size_t resp_size);
int ibv_cmd_create_qp_ex(ibv_context *, verbs_qp *, ibv_qp_init_attr_ex *,
			 verbs_cmd<ib_uverbs_create_qp> *cmd, size_t cmd_size,
			 ib_uverbs_create_qp_resp *, size_t resp_size);
int ibv_cmd_open_qp(ibv_context *, verbs_qp *, int qp_size, ibv_qp_open_attr *,
		    verbs_cmd<ib_uverbs_open_qp> *cmd, size_t cmd_size, ib_uverbs_create_qp_resp *,
		    size_t resp_size);
int ibv_cmd_open_xrcd(ibv_context *, verbs_xrcd *, int xrcd_size, ibv_xrcd_init_attr *,
		      verbs_cmd<ib_uverbs_open_xrcd> *cmd, size_t cmd_size,
		      ib_uverbs_open_xrcd_resp *, size_t resp_size);
int ibv_cmd_close_xrcd(verbs_xrcd *);
int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *, int attr_mask, ibv_qp_init_attr *,
		     verbs_cmd<ib_uverbs_query_qp> *cmd, size_t cmd_size);
int ibv_cmd_modify_qp(ibv_qp *, ibv_qp_attr *, int attr_mask, verbs_cmd<ib_uverbs_modify_qp> *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_qp(ibv_qp *);
int ibv_cmd_create_srq(ibv_pd *, ibv_srq *, ibv_srq_init_attr *,
		       verbs_cmd<ib_uverbs_create_srq> *cmd, size_t cmd_size,
		       ib_uverbs_create_srq_resp *, size_t resp_size);
int ibv_cmd_create_srq_ex(ibv_context *, verbs_srq *, ibv_srq_init_attr_ex *,
			  verbs_cmd<ib_uverbs_create_xsrq> *cmd, size_t cmd_size,
			  ib_uverbs_create_srq_resp *, size_t resp_size);
int ibv_cmd_modify_srq(ibv_srq *, ibv_srq_attr *, int attr_mask,
		       verbs_cmd<ib_uverbs_modify_srq> *cmd, size_t cmd_size);
int ibv_cmd_query_srq(ibv_srq *, ibv_srq_attr *, verbs_cmd<ib_uverbs_query_srq> *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_srq(ibv_srq *);
int ibv_cmd_create_ah(ibv_pd *, ibv_ah *, ibv_ah_attr *, ib_uverbs_create_ah_resp *,
		      size_t resp_size);
int ibv_cmd_destroy_ah(ibv_ah *);
int ibv_cmd_attach_mcast(ibv_qp *, const ibv_gid *, uint16_t lid);
int ibv_cmd_detach_mcast(ibv_qp *, const ibv_gid *, uint16_t lid);

} /* extern "C" */

namespace sirdma::private_abi
{

/*
 * struct verbs_qp is struct ibv_qp_ex, which grows (344 bytes to rdma-core 43, 360
 * since 47), then its comp_mask and a pointer.
 */
inline constexpr size_t qp_ex_size_min = 344;
inline constexpr size_t qp_size_max = 512;

/* The member wr_flush of the newer struct ibv_qp_ex, and its bit in send_ops_flags. */
inline constexpr size_t qp_ex_wr_flush = 352;
inline constexpr uint64_t qp_ex_with_flush = 1 << 11;
using WrFlush = void (*)(ibv_qp_ex *, uint32_t rkey, uint64_t remote_addr, size_t length,
			 uint8_t type, uint8_t level);

static_assert(sizeof(void *) != 8 ||
	      (offsetof(verbs_match_ent, kind) == 20 && sizeof(verbs_match_ent) == 24));
static_assert(sizeof(void *) != 8 ||
	      (offsetof(verbs_sysfs_dev, ibdev_path) == 176 &&
	       offsetof(verbs_sysfs_dev, driver_id) == 952 && sizeof(verbs_sysfs_dev) == 992));
static_assert(sizeof(void *) != 8 ||
	      (offsetof(verbs_device_ops, match_device) == 32 &&
	       offsetof(verbs_device_ops, uninit_device) == 64 && sizeof(verbs_device_ops) == 72));
static_assert(sizeof(void *) != 8 ||
	      (offsetof(verbs_device, sysfs) == 696 &&
	       offsetof(verbs_device, core_support) == 704 && sizeof(verbs_device) == 712));
static_assert(sizeof(void *) != 8 || (offsetof(verbs_mr, mr_type) == 48 && sizeof(verbs_mr) == 56));
static_assert(sizeof(verbs_cmd<ib_uverbs_get_context>) == 16 &&
	      sizeof(verbs_cmd<ib_uverbs_alloc_pd>) == 16);
static_assert(sizeof(verbs_cmd<ib_uverbs_query_port>) == 24 &&
	      sizeof(verbs_cmd<ib_uverbs_query_qp>) == 24);
static_assert(sizeof(verbs_cmd<ib_uverbs_reg_mr>) == 48 &&
	      sizeof(verbs_cmd<ib_uverbs_rereg_mr>) == 56);
static_assert(sizeof(verbs_cmd<ib_uverbs_alloc_mw>) == 24 && sizeof(ib_uverbs_alloc_mw_resp) == 8);
static_assert(sizeof(verbs_cmd<ib_uverbs_create_cq>) == 40 &&
	      sizeof(verbs_cmd<ib_uverbs_create_qp>) == 64);
static_assert(sizeof(verbs_cmd<ib_uverbs_resize_cq>) == 24 &&
	      sizeof(ib_uverbs_resize_cq_resp) == 8);
static_assert(sizeof(verbs_cmd<ib_uverbs_modify_qp>) == 120);
static_assert(sizeof(verbs_cmd<ib_uverbs_create_xsrq>) == 56 &&
	      sizeof(verbs_cmd<ib_uverbs_open_qp>) == 40 &&
	      sizeof(verbs_cmd<ib_uverbs_open_xrcd>) == 24);
static_assert(sizeof(void *) != 8 ||
	      (offsetof(verbs_xrcd, comp_mask) == 8 && sizeof(verbs_xrcd) == 16));
static_assert(sizeof(verbs_ex_cmd<ib_uverbs_ex_modify_cq>) == 40);
static_assert(sizeof(void *) != 8 || (offsetof(verbs_srq, srq_num) == sizeof(ibv_srq) + 24 &&
				      sizeof(verbs_srq) == sizeof(ibv_srq) + 32));
static_assert(sizeof(ib_uverbs_get_context_resp) == 8 && sizeof(ib_uverbs_create_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32 && sizeof(ib_uverbs_reg_mr_resp) == 12);

} // namespace sirdma::private_abi
