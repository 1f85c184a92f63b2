/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A process as in a sandbox: one system call fails there. */
#pragma once

#include <cstddef>
#include <iterator>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

namespace sirdma::test
{

/*
 * The system call @number (SYS_*) gives @error to this thread and its children from now on.
 * It cannot be taken back: call it in a child. False if there is no seccomp here.
 */
inline bool forbid_syscall(unsigned number, int error)
{
	sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const sock_fprog program = {.len = std::size(code), .filter = code};

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

} // namespace sirdma::test
