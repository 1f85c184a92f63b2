/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stddef.h>
#include <stdio.h>

#include <infiniband/driver.h>

typedef int get_context_plain(struct verbs_context *, struct ibv_get_context *, size_t,
			      struct ib_uverbs_get_context_resp *, size_t);

int main(void)
{
	size_t comp_mask = offsetof(struct verbs_qp, comp_mask);
	size_t context = offsetof(struct verbs_context, context);

#define SIZE(s) printf("sizeof %s %zu\n", #s, sizeof(struct s));
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(struct s, m));
#define CMD(c) printf("command %s %zu\n", #c, sizeof(struct ibv_##c));
#define EX_CMD(c) CMD(c)
#include "private_abi_fields.inc"
#include "operations.inc" /* private_abi.sh takes them from the header */
	printf("sizeof verbs_context_ops %zu\n", sizeof(struct verbs_context_ops));
	printf("sizeof verbs_context %zu\n", sizeof(struct verbs_context));
	printf("get_context takes fds: %d\n",
	       !__builtin_types_compatible_p(__typeof__(ibv_cmd_get_context), get_context_plain));
	printf("IBVERBS_PRIVATE_%d\n", IBVERBS_PABI_VERSION);
	printf("verbs_context.context is the last, sz before it: %d\n",
	       context + sizeof(struct ibv_context) == sizeof(struct verbs_context) &&
		       offsetof(struct verbs_context, sz) + sizeof(size_t) == context);
	printf("VERBS_QP_EX %d\n", VERBS_QP_EX);
	printf("VERBS_MATCH_DRIVER_ID %d\n", VERBS_MATCH_DRIVER_ID);
	printf("verbs_qp.comp_mask is where we look for it: %d\n",
	       comp_mask >= 344 && comp_mask < 512 && comp_mask % 8 == 0);
	printf("verbs_qp fits: %d\n", sizeof(struct verbs_qp) <= 512);
	return 0;
}
