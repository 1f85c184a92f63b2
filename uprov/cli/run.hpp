/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/* sirdma run: replace this process by a program with the twin. Returns an exit status, only on failure. */
int run(int argc, char **argv);

} // namespace sirdma::cli
