/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* private_abi_ours RELEASE: what we take the private interface of that release to be. */
#include <cstdio>
#include <cstdlib>

#include "ibverbs_private.hpp"
#include "interface.hpp"

using namespace sirdma;

int main(int argc, char **argv)
{
	const unsigned release = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 0;

#define SIZE(s) printf("sizeof %s %zu\n", #s, sizeof(s));
#define AT(s, m) printf("%s.%s %zu\n", #s, #m, offsetof(s, m));
#define CMD(c) printf("command %s %zu\n", #c, sizeof(verbs_cmd<ib_uverbs_##c>));
#define EX_CMD(c) printf("command %s %zu\n", #c, sizeof(verbs_ex_cmd<ib_uverbs_ex_##c>));
#include "private_abi_fields.inc"
	for (const Interface &interface : interfaces) {
		if (release < interface.first_release || release > interface.last_release)
			continue;
		for (const Operation &operation : operations) {
			const int slot = operation_slot(interface, operation.name);

			if (slot >= 0)
				printf("verbs_context_ops.%s %zu\n", operation.name.data(),
				       static_cast<size_t>(slot) * sizeof(void *));
		}
		printf("sizeof verbs_context_ops %zu\n",
		       operation_count(interface) * sizeof(void *));
		printf("sizeof verbs_context %zu\n", interface.context_size);
		printf("get_context takes fds: %d\n", interface.get_context_takes_fds);
		printf("IBVERBS_PRIVATE_%u\n", interface.number);
	}
	printf("verbs_context.context is the last, sz before it: 1\n");
	printf("VERBS_QP_EX %d\n", VERBS_QP_EX);
	printf("VERBS_MATCH_DRIVER_ID %d\n", VERBS_MATCH_DRIVER_ID);
	printf("verbs_qp.comp_mask is where we look for it: 1\n");
	printf("verbs_qp fits: 1\n");
	return 0;
}
