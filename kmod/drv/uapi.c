// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "uapi.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/uverbs_std_types.h>

#include "dm.h"
#include "pd.h"
#include "qp.h"
#include "sirdma/abi.h"

#define UVERBS_MODULE_NAME sirdma
#include <rdma/uverbs_named_ioctl.h>

static_assert(SIRDMA_UVERBS_FIRST == 1u << UVERBS_ID_NS_SHIFT);

static int UVERBS_HANDLER(SIRDMA_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	const struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, SIRDMA_ATTR_DM_QUERY_HANDLE);
	struct sirdma_dm_resp resp;

	sirdma_dm_describe(ibdm, &resp);
	return uverbs_copy_to(attrs, SIRDMA_ATTR_DM_QUERY_RESP, &resp, sizeof(resp));
}

static int UVERBS_HANDLER(SIRDMA_METHOD_PD_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_pd *ibpd = uverbs_attr_get_obj(attrs, SIRDMA_ATTR_PD_QUERY_HANDLE);
	const struct sirdma_alloc_pd_resp resp = {.pd_id = to_spd(ibpd)->id};

	return uverbs_copy_to(attrs, SIRDMA_ATTR_PD_QUERY_RESP, &resp, sizeof(resp));
}

/*
 * uverbs looks up no object for this method, and copies only the command itself. The context stays
 * while the method runs, also when the device is removed: uverbs waits for its methods first.
 */
static int UVERBS_HANDLER(SIRDMA_METHOD_KICK)(struct uverbs_attr_bundle *attrs)
{
	const struct uverbs_attr *attr = uverbs_attr_get(attrs, SIRDMA_ATTR_KICK_QPN);
	struct ib_ucontext *ibuctx = ib_uverbs_get_ucontext(attrs);
	u32 qpn;

	if (IS_ERR(ibuctx))
		return PTR_ERR(ibuctx);
	if (IS_ERR(attr))
		return PTR_ERR(attr);
	memcpy(&qpn, &attr->ptr_attr.data, sizeof(qpn));
	return sirdma_kick(ibuctx, qpn);
}

ADD_UVERBS_ATTRIBUTES_SIMPLE(sirdma_dm_alloc, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(SIRDMA_ATTR_ALLOC_DM_RESP,
						 UVERBS_ATTR_STRUCT(struct sirdma_dm_resp, length),
						 UA_MANDATORY));

ADD_UVERBS_ATTRIBUTES_SIMPLE(
	sirdma_context_query, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
	UVERBS_ATTR_PTR_OUT(SIRDMA_ATTR_QUERY_CONTEXT_RESP,
			    UVERBS_ATTR_STRUCT(struct sirdma_alloc_ucontext_resp,
					       max_hw_srq_quanta),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(SIRDMA_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(SIRDMA_ATTR_DM_QUERY_HANDLE, UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(SIRDMA_ATTR_DM_QUERY_RESP,
						UVERBS_ATTR_STRUCT(struct sirdma_dm_resp, length),
						UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(SIRDMA_METHOD_PD_QUERY,
			    UVERBS_ATTR_IDR(SIRDMA_ATTR_PD_QUERY_HANDLE, UVERBS_OBJECT_PD,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(SIRDMA_ATTR_PD_QUERY_RESP,
						UVERBS_ATTR_TYPE(struct sirdma_alloc_pd_resp),
						UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD(SIRDMA_METHOD_KICK,
			    UVERBS_ATTR_PTR_IN(SIRDMA_ATTR_KICK_QPN, UVERBS_ATTR_TYPE(u32),
					       UA_MANDATORY));

ADD_UVERBS_METHODS(sirdma_device_extension, UVERBS_OBJECT_DEVICE,
		   &UVERBS_METHOD(SIRDMA_METHOD_KICK));
ADD_UVERBS_METHODS(sirdma_dm_extension, UVERBS_OBJECT_DM, &UVERBS_METHOD(SIRDMA_METHOD_DM_QUERY));
ADD_UVERBS_METHODS(sirdma_pd_extension, UVERBS_OBJECT_PD, &UVERBS_METHOD(SIRDMA_METHOD_PD_QUERY));

const struct uapi_definition sirdma_uapi[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &sirdma_dm_alloc),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &sirdma_dm_extension),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_PD, &sirdma_pd_extension),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &sirdma_context_query),
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DEVICE, &sirdma_device_extension),
	{},
};
