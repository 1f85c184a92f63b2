/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

namespace sirdma::cli
{

/* sirdma doctor: says what works here and what does not, and why. 0 when programs can be served. */
int doctor(int argc, char **argv);

} // namespace sirdma::cli
