/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A command of uverbs' ioctl interface, for commands whose driver part the library's own functions
 * take in a private format.
 */
#pragma once

#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/ioctl.h>
#include <type_traits>

#include <rdma/rdma_user_ioctl_cmds.h>

#include "context.hpp"

namespace sirdma
{

/* @N: the number of attributes that the caller adds. */
template <size_t N> class Ioctl {
public:
	/* The length of an attribute has 16 bits. */
	static constexpr size_t max_bytes = UINT16_MAX;

	Ioctl(uint16_t object, uint16_t method) noexcept
	{
		header().object_id = object;
		header().method_id = method;
	}

	/* An object that the command uses, or makes. */
	Ioctl &object(uint16_t attr, uint32_t handle) noexcept
	{
		add(attr, 0).data = handle;
		return *this;
	}

	Ioctl &new_object(uint16_t attr) noexcept { return object(attr, 0); }

	template <typename Value>
	Ioctl &in(uint16_t attr, std::type_identity_t<Value> value) noexcept
	{
		static_assert(sizeof(Value) <= sizeof(ib_uverbs_attr::data));
		memcpy(&add(attr, sizeof(Value)).data, &value, sizeof(Value));
		return *this;
	}

	/*
	 * The kernel reads @bytes bytes at @data, which must outlive the command; at most
	 * max_bytes.
	 */
	Ioctl &in_memory(uint16_t attr, const void *data, size_t bytes) noexcept
	{
		add(attr, bytes).data = reinterpret_cast<uintptr_t>(data);
		return *this;
	}

	/* The kernel fills @value, which must outlive the command. */
	template <typename Value> Ioctl &out(uint16_t attr, Value &value) noexcept
	{
		add(attr, sizeof(Value)).data = reinterpret_cast<uintptr_t>(&value);
		return *this;
	}

	/* Complete the command after its attributes, for a driver of @driver_id. */
	Ioctl &build(uint32_t driver_id) noexcept
	{
		header().length = static_cast<uint16_t>(
			sizeof(ib_uverbs_ioctl_hdr) + header().num_attrs * sizeof(ib_uverbs_attr));
		header().driver_id = driver_id;
		return *this;
	}

	/*
	 * Send the command, which was built. The kernel writes flags into the attributes: to send it
	 * again, send a copy. Returns 0, or -1 with errno.
	 */
	int send(int cmd_fd) noexcept { return ioctl(cmd_fd, RDMA_VERBS_IOCTL, &header()); }

	/* The same for a command that has no output: the kernel only reads it. */
	int send_again(int cmd_fd) const noexcept
	{
		return ioctl(cmd_fd, RDMA_VERBS_IOCTL, command_.data());
	}

	/*
	 * Build and send. Returns 0 or an errno; EOPNOTSUPP if the kernel does not know the
	 * command.
	 */
	int run(ibv_context *context) noexcept
	{
		if (!build(driver_id_of(context->device)).send(context->cmd_fd))
			return 0;
		return errno == EPROTONOSUPPORT || errno == ENOTTY ? EOPNOTSUPP : errno;
	}

	/* The handle of the object that the command made. */
	uint32_t object_of(uint16_t attr) noexcept
	{
		for (size_t i = 0; i < header().num_attrs; ++i)
			if (attrs()[i].attr_id == attr)
				return static_cast<uint32_t>(attrs()[i].data);
		return 0;
	}

private:
	ib_uverbs_ioctl_hdr &header() noexcept
	{
		return *reinterpret_cast<ib_uverbs_ioctl_hdr *>(command_.data());
	}

	ib_uverbs_attr *attrs() noexcept
	{
		return reinterpret_cast<ib_uverbs_attr *>(command_.data() +
							  sizeof(ib_uverbs_ioctl_hdr));
	}

	ib_uverbs_attr &add(uint16_t id, size_t bytes) noexcept
	{
		assert(header().num_attrs < N && bytes <= max_bytes);
		ib_uverbs_attr &attr = attrs()[header().num_attrs++];

		attr.attr_id = id;
		attr.len = static_cast<uint16_t>(bytes);
		attr.flags = UVERBS_ATTR_F_MANDATORY;
		return attr;
	}

	/* The header ends with an array of unknown length, so the two have no common type. */
	alignas(ib_uverbs_ioctl_hdr) std::array<
		uint8_t, sizeof(ib_uverbs_ioctl_hdr) + N * sizeof(ib_uverbs_attr)> command_{};
};

static_assert(sizeof(ib_uverbs_ioctl_hdr) % alignof(ib_uverbs_attr) == 0);

} // namespace sirdma
