/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/*
 * sirdma doctor: print what works on this machine, what does not, and why. The exit status: 0
 * when programs can be served.
 */
int doctor(int argc, char **argv);

} // namespace sirdma::cli
