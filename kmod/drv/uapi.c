// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "uapi.h"

#include <rdma/ib_user_ioctl_cmds.h>

#include "sirdma/abi.h"

#define UVERBS_MODULE_NAME sirdma
#include <rdma/uverbs_named_ioctl.h>

static_assert(SIRDMA_UVERBS_FIRST == 1u << UVERBS_ID_NS_SHIFT);

ADD_UVERBS_ATTRIBUTES_SIMPLE(sirdma_dm_alloc, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC,
			     UVERBS_ATTR_PTR_OUT(SIRDMA_ATTR_ALLOC_DM_RESP,
						 UVERBS_ATTR_STRUCT(struct sirdma_dm_resp, length),
						 UA_MANDATORY));

const struct uapi_definition sirdma_uapi[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &sirdma_dm_alloc),
	{},
};
