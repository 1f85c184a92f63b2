/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <cstdio>

#include "ibverbs_private.hpp"

int main()
{
#define SIZE(s) printf("sizeof %s %zu\n", #s, sizeof(s));
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(s, m));
#define CMD(c) printf("command %s %zu\n", #c, sizeof(verbs_cmd<ib_uverbs_##c>));
#include "private_abi_fields.inc"
	printf("VERBS_QP_EX %d\n", VERBS_QP_EX);
	printf("VERBS_MATCH_DRIVER_ID %d\n", VERBS_MATCH_DRIVER_ID);
	printf("verbs_qp.comp_mask is where we write it: 1\n");
	printf("verbs_qp fits: 1\n");
	return 0;
}
