/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "port_words.hpp"

#include <cerrno>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_message.hpp"

namespace sirdma::twin
{

namespace
{

constexpr size_t file_bytes = 4096;
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

} // namespace

PortFile::~PortFile()
{
	if (words_)
		munmap(words_, file_bytes);
}

PortFile PortFile::create() noexcept
{
	Fd file(memfd_create("sirdma-port", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (!file || ftruncate(file.get(), file_bytes) || fcntl(file.get(), F_ADD_SEALS, seals))
		return {};
	return map(std::move(file));
}

/* The initial value of the words is zero, like new memory. */
PortFile PortFile::map(Fd file) noexcept
{
	const int has = fcntl(file.get(), F_GET_SEALS);
	PortFile port;
	struct stat st;

	if (has < 0 || (has & seals) != seals || fstat(file.get(), &st) ||
	    st.st_size != file_bytes) {
		errno = EINVAL;
		return port;
	}

	void *at = mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);

	if (at == MAP_FAILED && errno == EAGAIN)
		errno = ENOMEM; /* too much memory is locked; for callers EAGAIN is another error */
	if (at == MAP_FAILED)
		return port;
	(void)madvise(at, file_bytes, MADV_DONTFORK);
	port.file_ = std::move(file);
	port.words_ = std::launder(static_cast<PortWords *>(at));
	return port;
}

bool send_grant(int sock, const PortGrant &grant, const int (&files)[PortFiles::count]) noexcept
{
	return send_with_files(sock, &grant, sizeof(grant), files);
}

bool receive_grant(int sock, PortGrant &grant, PortFiles &files) noexcept
{
	Fd came[PortFiles::count];

	if (!receive_with_files(sock, &grant, sizeof(grant), came))
		return false;
	files.socket = std::move(came[0]);
	files.name = std::move(came[1]);
	files.words = std::move(came[2]);
	errno = EPROTO;
	return grant.magic == PortGrant::magic_value;
}

} // namespace sirdma::twin
