/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The sirdma command. */
#include <cstdio>
#include <cstring>

#include "doctor.hpp"
#include "run.hpp"
#include "show.hpp"

namespace
{

constexpr int exit_usage = 2;

constexpr char usage[] =
	R"(sirdma COMMAND [OPTIONS]

  run     start a program, or a shell, with RDMA devices; no module, no privilege
  doctor  say whether that works here, and how
  show    list RDMA devices with their network interfaces, or their GIDs

sirdma COMMAND --help tells more.
)";

} // namespace

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "run"))
		return sirdma::cli::run(argc - 1, argv + 1);
	if (!strcmp(command, "doctor"))
		return sirdma::cli::doctor(argc - 1, argv + 1);
	if (!strcmp(command, "show"))
		return sirdma::cli::show(argc - 1, argv + 1);
	if (!strcmp(command, "help") || !strcmp(command, "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (!*command)
		fputs("sirdma: no command; try --help\n", stderr);
	else
		fprintf(stderr, "sirdma: no such command: '%s'; try --help\n", command);
	return exit_usage;
}
