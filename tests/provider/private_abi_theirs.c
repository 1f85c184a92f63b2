/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stddef.h>
#include <stdio.h>

#include <infiniband/driver.h>

int main(void)
{
	size_t comp_mask = offsetof(struct verbs_qp, comp_mask);

#define SIZE(s) printf("sizeof %s %zu\n", #s, sizeof(struct s));
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(struct s, m));
#define CMD(c) printf("command %s %zu\n", #c, sizeof(struct ibv_##c));
#include "private_abi_fields.inc"
	printf("VERBS_QP_EX %d\n", VERBS_QP_EX);
	printf("VERBS_MATCH_DRIVER_ID %d\n", VERBS_MATCH_DRIVER_ID);
	printf("verbs_qp.comp_mask is where we write it: %d\n",
	       comp_mask == 344 || comp_mask == 352 || comp_mask == 360);
	printf("verbs_qp fits: %d\n", sizeof(struct verbs_qp) <= 376);
	return 0;
}
