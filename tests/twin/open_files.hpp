/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <cstddef>
#include <dirent.h>
#include <unistd.h>

namespace sirdma::twin::test
{

/* Files this process has open, and the same few entries more each time. */
inline size_t open_files()
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (readdir(dir))
		++n;
	closedir(dir);
	return n;
}

/*
 * Are there no more than @files, within 5 s? A helper thread opens some for a moment, and closes those of a dead
 * peer in its own time.
 */
inline bool no_more_files_than(size_t files)
{
	for (int ms = 0; open_files() > files; ++ms) {
		if (ms == 5000)
			return false;
		usleep(1000);
	}
	return true;
}

} // namespace sirdma::twin::test
