/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A modify of a QP, as every driver makes it. A driver fills the request from its own types, checks
 * it, resolves the path, fills in the path's table entries, and executes it.
 */
#ifndef SIRDMA_HW_QP_MODIFY_H
#define SIRDMA_HW_QP_MODIFY_H

#include "hw.h"
#include "path.h"
#include "qp_attr.h"

struct sirdma_qp_modify {
	enum sirdma_qp_type type;
	u32 qpn;
	/* The QP as the device has it now. */
	u32 cur;
	u32 cur_dest_qpn;
	/*
	 * The request. Its numbers are those of the verbs API, as they came from the application.
	 */
	u32 mask; /* SIRDMA_QP_* */
	u32 qp_state;
	u32 cur_qp_state;
	u32 access_flags;
	u32 path_mtu; /* enum ib_mtu */
	u32 path_mig_state;
	u32 port_num;
	u32 pkey_index;
	struct sirdma_path path; /* with SIRDMA_QP_AV */
	u32 port_mtu; /* enum ib_mtu: the largest path MTU that the port carries */

	/* The result of a check. */
	enum sirdma_qp_state next;
	u32 apply; /* SIRDMA_QP_*: mask, and the attributes that the transition sets besides */
	struct sirdma_qp_attr attr; /* sgid_idx and arp_idx are the driver's to fill */
	const char *bad; /* after a check that failed: the attribute */
	const char *why; /* and the fault of the attribute, for a log line */
};

/*
 * struct ib_qp_attr and struct ibv_qp_attr are two types whose fields have the same
 * names. An enumeration may hold any number there, so it is copied as a number.
 */
#define SIRDMA_QP_MODIFY_FROM_VERBS(mod, verbs) \
	do { \
		memcpy(&(mod)->qp_state, &(verbs)->qp_state, sizeof(u32)); \
		memcpy(&(mod)->cur_qp_state, &(verbs)->cur_qp_state, sizeof(u32)); \
		memcpy(&(mod)->path_mtu, &(verbs)->path_mtu, sizeof(u32)); \
		memcpy(&(mod)->path_mig_state, &(verbs)->path_mig_state, sizeof(u32)); \
		(mod)->access_flags = (u32)(verbs)->qp_access_flags; \
		(mod)->port_num = (verbs)->port_num; \
		(mod)->pkey_index = (verbs)->pkey_index; \
		SIRDMA_QP_ATTR_FROM_VERBS(&(mod)->attr, verbs); \
	} while (0)

/*
 * Check transition, attributes, ranges and path. Returns 0, -EINVAL, or -EOPNOTSUPP for a feature
 * that the interface defines and this device does not offer. The caller may repeat the check with
 * another current state.
 */
int sirdma_qp_modify_check(const struct sirdma_hw_caps *caps, struct sirdma_qp_modify *mod);
/*
 * Read the QP's state from the device, which may have moved it to SQE or ERR by itself. @ctx is
 * memory for a context, and @ctx_pa its DMA address; here and in sirdma_qp_modify_execute().
 */
int sirdma_qp_modify_read(struct sirdma_hw *hw, struct sirdma_qp_modify *mod,
			  struct sirdma_qp_ctx *ctx, u64 ctx_pa);
/*
 * Modify the QP as the request says, which was checked. If the QP leaves the state that it was
 * checked for, the function checks and tries again. Returns 0, the errno of that check with
 * mod->bad set, or the errno of the command with mod->bad NULL. Nothing has changed when it fails.
 */
int sirdma_qp_modify_execute(struct sirdma_hw *hw, struct sirdma_qp_modify *mod,
			     struct sirdma_qp_ctx *ctx, u64 ctx_pa);

#define SIRDMA_MAX_PATH_MTU 5u /* enum ib_mtu: 4096 bytes */
/* The largest path MTU (enum ib_mtu) whose packets fit an L3 MTU of @bytes. 0: there is none. */
u32 sirdma_path_mtu_of_port(u32 bytes);

#endif
