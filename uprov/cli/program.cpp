/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "program.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <pwd.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace sirdma::cli
{

namespace
{

bool is_executable(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st))
		return false;
	if (!S_ISREG(st.st_mode)) {
		errno = EACCES;
		return false;
	}
	return !access(path.c_str(), X_OK);
}

/* The architecture of this program, and so of the libraries beside it. */
ElfW(Half) own_machine()
{
	std::ifstream self("/proc/self/exe", std::ios::binary);
	ElfW(Ehdr) header{};

	self.read(reinterpret_cast<char *>(&header), sizeof(header));
	return header.e_machine;
}

bool is_privileged(const std::string &path)
{
	struct stat st;

	if (stat(path.c_str(), &st))
		return false;
	if ((st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	    (st.st_mode & S_ISGID && st.st_gid != getegid()))
		return true;
	/* With file capabilities the loader ignores the environment, except for root. */
	return geteuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

} // namespace

std::string find_program(const std::string &name)
{
	if (name.find('/') != std::string::npos)
		return is_executable(name) ? name : std::string();

	const char *path = getenv("PATH");
	std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");

	for (std::string folder; std::getline(folders, folder, ':');) {
		std::string candidate = (folder.empty() ? "." : folder) + "/" + name;

		if (is_executable(candidate))
			return candidate;
	}
	errno = ENOENT;
	return {};
}

std::string login_shell()
{
	const char *shell = getenv("SHELL");

	if (shell && *shell)
		return shell;
	const passwd *user = getpwuid(geteuid());
	return user && *user->pw_shell ? user->pw_shell : "/bin/sh";
}

Preload can_preload(const std::string &path)
{
	std::ifstream file(path, std::ios::binary);
	ElfW(Ehdr) header{};

	if (is_privileged(path))
		return Preload::is_privileged;
	/* A file that is not ELF is a script, run by an interpreter that is not checked here. */
	if (!file.read(reinterpret_cast<char *>(&header), sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
		return Preload::possible;
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != own_machine())
		return Preload::is_foreign;

	for (unsigned i = 0; i < header.e_phnum; ++i) {
		ElfW(Phdr) segment{};

		file.seekg(static_cast<std::streamoff>(header.e_phoff +
						       uint64_t{i} * header.e_phentsize));
		if (!file.read(reinterpret_cast<char *>(&segment), sizeof(segment)))
			break;
		if (segment.p_type == PT_INTERP)
			return Preload::possible;
	}
	return Preload::is_static;
}

} // namespace sirdma::cli
