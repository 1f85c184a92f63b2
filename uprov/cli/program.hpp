/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Find a program as a shell does, and whether a library can be preloaded into it. */
#pragma once

#include <string>

namespace sirdma::cli
{

/* Path of program @name. It is empty, with errno, if there is none. */
std::string find_program(const std::string &name);

/* Path of the user's shell. */
std::string login_shell();

enum class Preload {
	possible,
	is_static, /* the program has no dynamic loader */
	is_privileged, /* set-user-id or file capabilities: the loader ignores the environment */
	is_foreign, /* the program is for another architecture */
};

Preload can_preload(const std::string &path);

} // namespace sirdma::cli
