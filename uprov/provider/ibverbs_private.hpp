/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The provider side of libibverbs, private interface 34 as of rdma-core 36 to 56
 * (34 and 35 carry the number too, but order struct verbs_context_ops otherwise).
 *
 * No distribution installs a header for it, so the layouts are declared here,
 * as facts, for C++ and only as far as this provider needs them. Everything
 * below is pinned by the assertions at the end and compared with the real
 * header, member by member, by tests/provider/private_abi.sh.
 *
 * One binary serves every library of this interface. Where two releases differ
 * (struct verbs_qp grew with struct ibv_qp_ex) only the common part is
 * declared; see QpBase in qp.hpp.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

/*
 * A command as the library wants it: header and the kernel's fixed part, which
 * the library fills in, then the driver's private part at the next address
 * (see command.hpp).
 */
template <typename Core> struct alignas(8) verbs_cmd {
	ib_uverbs_cmd_hdr hdr;
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

/* One line of a provider's match table; a line of kind SENTINEL ends it. */
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

/* A device the library found, by RDMA netlink (ibdev_idx >= 0) or in sysfs. */
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
	int mr_type;
	int access;
};

/* verbs_qp.comp_mask */
enum { VERBS_QP_XRCD = 1 << 0, VERBS_QP_EX = 1 << 1 };

/* An operation this provider leaves to the library's default. */
using verbs_unused_op = void (*)();

/* In the library's (alphabetical) order. Null members keep the default. */
struct verbs_context_ops {
	verbs_unused_op advise_mr;
	verbs_unused_op alloc_dm;
	verbs_unused_op alloc_mw;
	verbs_unused_op alloc_null_mr;
	ibv_pd *(*alloc_parent_domain)(ibv_context *, ibv_parent_domain_init_attr *);
	ibv_pd *(*alloc_pd)(ibv_context *);
	ibv_td *(*alloc_td)(ibv_context *, ibv_td_init_attr *);
	verbs_unused_op async_event;
	verbs_unused_op attach_counters_point_flow;
	verbs_unused_op attach_mcast;
	verbs_unused_op bind_mw;
	verbs_unused_op close_xrcd;
	void (*cq_event)(ibv_cq *);
	verbs_unused_op create_ah;
	verbs_unused_op create_counters;
	ibv_cq *(*create_cq)(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector);
	ibv_cq_ex *(*create_cq_ex)(ibv_context *, ibv_cq_init_attr_ex *);
	verbs_unused_op create_flow;
	verbs_unused_op create_flow_action_esp;
	ibv_qp *(*create_qp)(ibv_pd *, ibv_qp_init_attr *);
	ibv_qp *(*create_qp_ex)(ibv_context *, ibv_qp_init_attr_ex *);
	verbs_unused_op create_rwq_ind_table;
	verbs_unused_op create_srq;
	verbs_unused_op create_srq_ex;
	verbs_unused_op create_wq;
	verbs_unused_op dealloc_mw;
	int (*dealloc_pd)(ibv_pd *);
	int (*dealloc_td)(ibv_td *);
	int (*dereg_mr)(verbs_mr *);
	verbs_unused_op destroy_ah;
	verbs_unused_op destroy_counters;
	int (*destroy_cq)(ibv_cq *);
	verbs_unused_op destroy_flow;
	verbs_unused_op destroy_flow_action;
	int (*destroy_qp)(ibv_qp *);
	verbs_unused_op destroy_rwq_ind_table;
	verbs_unused_op destroy_srq;
	verbs_unused_op destroy_wq;
	verbs_unused_op detach_mcast;
	void (*free_context)(ibv_context *);
	verbs_unused_op free_dm;
	verbs_unused_op get_srq_num;
	verbs_unused_op import_dm;
	verbs_unused_op import_mr;
	verbs_unused_op import_pd;
	verbs_unused_op modify_cq;
	verbs_unused_op modify_flow_action_esp;
	int (*modify_qp)(ibv_qp *, ibv_qp_attr *, int attr_mask);
	verbs_unused_op modify_qp_rate_limit;
	verbs_unused_op modify_srq;
	verbs_unused_op modify_wq;
	verbs_unused_op open_qp;
	verbs_unused_op open_xrcd;
	int (*poll_cq)(ibv_cq *, int num_entries, ibv_wc *);
	int (*post_recv)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr **bad_wr);
	int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **bad_wr);
	verbs_unused_op post_srq_ops;
	verbs_unused_op post_srq_recv;
	int (*query_device_ex)(ibv_context *, const ibv_query_device_ex_input *,
			       ibv_device_attr_ex *, size_t attr_size);
	verbs_unused_op query_ece;
	int (*query_port)(ibv_context *, uint8_t port_num, ibv_port_attr *);
	int (*query_qp)(ibv_qp *, ibv_qp_attr *, int attr_mask, ibv_qp_init_attr *);
	verbs_unused_op query_qp_data_in_order;
	verbs_unused_op query_rt_values;
	verbs_unused_op query_srq;
	verbs_unused_op read_counters;
	verbs_unused_op reg_dm_mr;
	verbs_unused_op reg_dmabuf_mr;
	ibv_mr *(*reg_mr)(ibv_pd *, void *addr, size_t length, uint64_t hca_va, int access);
	int (*req_notify_cq)(ibv_cq *, int solicited_only);
	int (*rereg_mr)(verbs_mr *, int flags, ibv_pd *, void *addr, size_t length, int access);
	verbs_unused_op resize_cq;
	verbs_unused_op set_ece;
	verbs_unused_op unimport_dm;
	verbs_unused_op unimport_mr;
	verbs_unused_op unimport_pd;
};

/* The symbol carries the interface number: a library of another one refuses to load us. */
void verbs_register_driver_34(const verbs_device_ops *ops);

void *_verbs_init_and_alloc_context(ibv_device *device, int cmd_fd, size_t alloc_size,
				    verbs_context *context_offset, uint32_t driver_id);
void verbs_set_ops(verbs_context *context, const verbs_context_ops *ops);
void verbs_uninit_context(verbs_context *context);

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* All return 0 or an errno. */
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
int ibv_cmd_create_cq(ibv_context *, int cqe, ibv_comp_channel *, int comp_vector, ibv_cq *,
		      verbs_cmd<ib_uverbs_create_cq> *cmd, size_t cmd_size,
		      ib_uverbs_create_cq_resp *, size_t resp_size);
int ibv_cmd_destroy_cq(ibv_cq *);
int ibv_cmd_create_qp(ibv_pd *, ibv_qp *, ibv_qp_init_attr *, verbs_cmd<ib_uverbs_create_qp> *cmd,
		      size_t cmd_size, ib_uverbs_create_qp_resp *, size_t resp_size);
int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *, int attr_mask, ibv_qp_init_attr *,
		     verbs_cmd<ib_uverbs_query_qp> *cmd, size_t cmd_size);
int ibv_cmd_modify_qp(ibv_qp *, ibv_qp_attr *, int attr_mask, verbs_cmd<ib_uverbs_modify_qp> *cmd,
		      size_t cmd_size);
int ibv_cmd_destroy_qp(ibv_qp *);

} /* extern "C" */

namespace sirdma::private_abi
{

/*
 * Where ibv_qp_to_qp_ex() looks for VERBS_QP_EX: behind struct ibv_qp_ex, which
 * grew by wr_atomic_write in rdma-core 44 and by wr_flush in 47.
 */
inline constexpr size_t qp_comp_mask_offsets[] = {344, 352, 360};
inline constexpr size_t qp_size_max = 376;

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
static_assert(sizeof(verbs_context_ops) == 76 * sizeof(void *));
static_assert(sizeof(void *) != 8 || sizeof(verbs_context) == 648);
static_assert(sizeof(verbs_cmd<ib_uverbs_get_context>) == 16 &&
	      sizeof(verbs_cmd<ib_uverbs_alloc_pd>) == 16);
static_assert(sizeof(verbs_cmd<ib_uverbs_query_port>) == 24 &&
	      sizeof(verbs_cmd<ib_uverbs_query_qp>) == 24);
static_assert(sizeof(verbs_cmd<ib_uverbs_reg_mr>) == 48 &&
	      sizeof(verbs_cmd<ib_uverbs_rereg_mr>) == 56);
static_assert(sizeof(verbs_cmd<ib_uverbs_create_cq>) == 40 &&
	      sizeof(verbs_cmd<ib_uverbs_create_qp>) == 64);
static_assert(sizeof(verbs_cmd<ib_uverbs_modify_qp>) == 120);
static_assert(sizeof(ib_uverbs_get_context_resp) == 8 && sizeof(ib_uverbs_create_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32 && sizeof(ib_uverbs_reg_mr_resp) == 12);

} // namespace sirdma::private_abi
