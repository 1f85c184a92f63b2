/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "sysfs_tree.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/sysmacros.h>

#include <sirdma/abi.h>
#include <sirdma/regs.h>

#include "environment.hpp"
#include "text.hpp"

namespace sirdma::cli
{

namespace
{

/* Version of the uverbs command interface; libibverbs accepts no other. */
constexpr char uverbs_abi[] = "6";
/* Version of the umad interface. libibumad asks for it before it looks for devices. */
constexpr char umad_abi[] = "5";

/* A folder of files with one line each. error() is the error of the first failure. */
class Folder {
public:
	explicit Folder(std::filesystem::path path) : path_(std::move(path)) {}

	Folder &file(const std::string &name, const std::string &line)
	{
		const auto path = path_ / name;
		std::error_code error;

		std::filesystem::create_directories(path.parent_path(), error);
		std::ofstream out(path);

		out << line << '\n';
		out.close();
		if (!out && !error_)
			error_ = errno ? errno : EIO;
		return *this;
	}

	int error() const { return error_; }

private:
	const std::filesystem::path path_;
	int error_ = 0;
};

int write_device(const std::string &path, const TreeDevice &device)
{
	char hw_rev[16];
	Folder folder(path);

	snprintf(hw_rev, sizeof(hw_rev), "0x%x", SIRDMA_HW_VERSION);
	folder.file("node_type", "1: CA")
		.file("node_guid", guid_text(device.guid))
		.file("sys_image_guid", guid_text(device.guid))
		.file("node_desc", twin::device_name)
		.file("hca_type", twin::hca_type)
		.file("hw_rev", hw_rev)
		.file("fw_ver", "2.0.0");
	folder.file("ports/1/state", "4: ACTIVE")
		.file("ports/1/phys_state", "5: LinkUp")
		.file("ports/1/link_layer", "Ethernet")
		.file("ports/1/rate", twin::port_rate)
		.file("ports/1/lid", "0x0")
		.file("ports/1/lid_mask_count", "0")
		.file("ports/1/sm_lid", "0x0")
		.file("ports/1/sm_sl", "0")
		.file("ports/1/cap_mask", "0x04010000")
		.file("ports/1/pkeys/0", "0xffff");
	/*
	 * libibverbs reads the type of every GID of the table, also the type of the zero GIDs,
	 * which it skips.
	 */
	for (unsigned i = 0; i < twin::gid_table_len; ++i) {
		const std::string index = std::to_string(i);
		const uint8_t none[sizeof(device.gid)] = {};

		folder.file("ports/1/gids/" + index,
			    hex_groups(i ? none : device.gid, sizeof(none)))
			.file("ports/1/gid_attrs/types/" + index, twin::gid_type);
	}
	if (!device.netdev.empty())
		folder.file("ports/1/gid_attrs/ndevs/0", device.netdev);
	return folder.error();
}

} // namespace

int write_sysfs_tree(const std::string &classes, const std::vector<TreeDevice> &devices,
		     dev_t device_node)
{
	const std::string by_name = classes + "/infiniband/";
	Folder verbs(classes + "/infiniband_verbs");

	Folder mad(classes + "/infiniband_mad");

	verbs.file("abi_version", uverbs_abi);
	mad.file("abi_version", umad_abi);
	for (size_t i = 0; i < devices.size(); ++i) {
		const std::string name = twin::device_name + std::to_string(i);
		const std::string uverbs = "uverbs" + std::to_string(i);

		verbs.file(uverbs + "/ibdev", name)
			.file(uverbs + "/abi_version", std::to_string(SIRDMA_ABI_VERSION))
			.file(uverbs + "/dev", std::to_string(major(device_node)) + ":" +
						       std::to_string(minor(device_node)));
		if (const int err = write_device(by_name + name, devices[i]))
			return err;
	}
	return verbs.error() ? verbs.error() : mad.error();
}

} // namespace sirdma::cli
