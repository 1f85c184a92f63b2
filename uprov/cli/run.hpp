/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/* sirdma run [OPTIONS] -- PROGRAM [ARGS…]: exit status; does not return when the program starts. */
int run(int argc, char **argv);

extern const char run_usage[];

} // namespace sirdma::cli
