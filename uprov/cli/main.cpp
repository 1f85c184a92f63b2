/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The sirdma command. */
#include <cstdio>
#include <cstring>

#include "run.hpp"

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "run"))
		return sirdma::cli::run(argc - 1, argv + 1);

	const bool asked = !strcmp(command, "help") || !strcmp(command, "--help");

	fprintf(asked ? stdout : stderr, "%s", sirdma::cli::run_usage);
	return asked ? 0 : 125;
}
