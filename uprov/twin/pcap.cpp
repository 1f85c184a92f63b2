/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "pcap.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace sirdma::twin
{

namespace
{

struct FileHeader {
	uint32_t magic = 0xa1b23c4d; /* nanoseconds */
	uint16_t major = 2;
	uint16_t minor = 4;
	uint32_t zone = 0;
	uint32_t accuracy = 0;
	uint32_t max_len = 65535;
	uint32_t link_type = 101; /* raw IP */
};

struct PacketHeader {
	uint32_t seconds;
	uint32_t nanoseconds;
	uint32_t captured;
	uint32_t length;
};

} // namespace

std::unique_ptr<PcapWriter> PcapWriter::create(const std::string &name)
{
	std::string path = name;

	if (const size_t at = path.find("%p"); at != std::string::npos)
		path.replace(at, 2, std::to_string(getpid()));

	FILE *file = fopen(path.c_str(), "wbe");

	if (!file) {
		fprintf(stderr, "sirdma: no capture, %s: %s\n", path.c_str(), strerror(errno));
		return nullptr;
	}

	const FileHeader header;

	fwrite(&header, sizeof(header), 1, file);
	fflush(file);
	return std::unique_ptr<PcapWriter>(new PcapWriter(file));
}

void PcapWriter::write(const Path &path, uint16_t id, const uint8_t *datagram, size_t len) noexcept
{
	uint8_t headers[headers_len_max];
	const size_t headers_len = path.headers_len();
	timespec now;

	put_headers(path, id, len, headers);
	clock_gettime(CLOCK_REALTIME, &now);

	const uint32_t length = static_cast<uint32_t>(headers_len + len);
	const PacketHeader header = {
		.seconds = static_cast<uint32_t>(now.tv_sec),
		.nanoseconds = static_cast<uint32_t>(now.tv_nsec),
		.captured = length,
		.length = length,
	};
	std::lock_guard hold(lock_);

	fwrite(&header, sizeof(header), 1, file_.get());
	fwrite(headers, sizeof(headers), 1, file_.get());
	fwrite(datagram, len, 1, file_.get());
	/* A process may be killed at any time: its capture is whole up to here. */
	fflush(file_.get());
}

void PcapWriter::write_unsummed(const Path &path, const uint8_t *datagram, size_t len) noexcept
{
	if (len < sizeof(sirdma_bth) + SIRDMA_ICRC_LEN)
		return;

	std::vector<uint8_t> copy(datagram, datagram + len);
	const size_t body = len - SIRDMA_ICRC_LEN;
	const uint32_t icrc = icrc_of(path, 0, copy.data(), len);

	memcpy(copy.data() + body, &icrc, sizeof(icrc));
	write(path, 0, copy.data(), len);
}

} // namespace sirdma::twin
