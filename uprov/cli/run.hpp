/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/* sirdma run: starts a program with the twin in it. Returns only what is wrong, as an exit status. */
int run(int argc, char **argv);

} // namespace sirdma::cli
