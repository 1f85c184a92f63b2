/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The libraries that sirdma run puts into the program: the shim and the twin. */
#pragma once

#include <string>

namespace sirdma::cli
{

/* Path of library @name, installed or in the build folder. It is empty if there is none. */
std::string find_library(const char *name);

} // namespace sirdma::cli
