/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/*
 * sirdma run: replace this process by a program with the twin. Returns only on failure, with an
 * exit status.
 */
int run(int argc, char **argv);

} // namespace sirdma::cli
