/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The libraries that come into the program. */
#pragma once

#include <string>

namespace sirdma::cli
{

/* Its path, installed or in the build folder; empty when there is none. */
std::string find_library(const char *name);

} // namespace sirdma::cli
