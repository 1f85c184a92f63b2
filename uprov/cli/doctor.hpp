/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/*
 * sirdma doctor: print which parts work on this machine, which do not, and why. Returns exit status
 * 0 if programs can be served.
 */
int doctor(int argc, char **argv);

} // namespace sirdma::cli
