/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Find a program as a shell does, and whether a library can be preloaded into it. */
#pragma once

#include <string>

namespace sirdma::cli
{

/* Path of program @name; empty with errno when there is none. */
std::string find_program(const std::string &name);

/* Path of the user's shell. */
std::string login_shell();

enum class Preload {
	possible,
	is_static, /* no dynamic loader */
	is_privileged, /* set-user-id, set-group-id or file capabilities: the loader ignores the environment */
	is_foreign, /* another architecture */
};

Preload can_preload(const std::string &path);

} // namespace sirdma::cli
