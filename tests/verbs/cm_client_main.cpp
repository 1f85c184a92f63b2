/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An example client of rdma_cm: cm_client ADDRESS PORT SEED. It exchanges patterns with cm_server,
 * that of SEED first, and exits with 0 when the data was right. See cm_example.hpp for the protocol.
 */
#include "cm_client.hpp"

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "cm_client ADDRESS PORT SEED\n");
		return 2;
	}
	example::Client(argv[1], argv[2]).talk(static_cast<uint32_t>(atoi(argv[3])));
	return 0;
}
