/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "libraries.hpp"

#include <filesystem>
#include <unistd.h>

namespace sirdma::cli
{

std::string find_library(const char *name)
{
	std::error_code ignored;
	const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);

	for (const char *folder : {SIRDMA_LIBDIR, SIRDMA_BUILD_LIBDIR}) {
		const auto path = self.parent_path() / folder / name;

		if (!access(path.c_str(), R_OK))
			return std::filesystem::canonical(path, ignored).string();
	}
	return {};
}

} // namespace sirdma::cli
