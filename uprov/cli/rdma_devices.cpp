/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "rdma_devices.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <net/if.h>

#include "config.hpp"
#include "identity.hpp"
#include "text.hpp"

namespace sirdma::cli
{

namespace
{

namespace fs = std::filesystem;

/*
 * The first line of a file. It is empty if the file cannot be read, as that of an unused GID index.
 */
std::string line_of(const fs::path &path)
{
	std::ifstream file(path);
	std::string line;

	std::getline(file, line);
	while (!line.empty() && isspace(static_cast<unsigned char>(line.back())))
		line.pop_back();
	return line;
}

/* The file says "4: ACTIVE": take ACTIVE. */
std::string word_of(const fs::path &path)
{
	const std::string line = line_of(path);
	const size_t colon = line.find(": ");

	return colon == std::string::npos ? line : line.substr(colon + 2);
}

/*
 * Names in @folder, in the order of the numbers in them. There are none if the folder does not
 * exist.
 */
std::vector<std::string> names_in(const fs::path &folder)
{
	std::vector<std::string> names;
	std::error_code error;

	for (fs::directory_iterator at(folder, error), end; !error && at != end;
	     at.increment(error))
		names.push_back(at->path().filename().string());
	std::sort(names.begin(), names.end(), [](const std::string &a, const std::string &b) {
		return strverscmp(a.c_str(), b.c_str()) < 0;
	});
	return names;
}

std::optional<unsigned> number_of(const std::string &name)
{
	const char *end = name.data() + name.size();
	unsigned number = 0;
	const auto [stop, error] = std::from_chars(name.data(), end, number);

	if (error != std::errc{} || stop != end)
		return {};
	return number;
}

/*
 * A loopback interface's operstate is "unknown" for ever; then the administrator's setting counts.
 */
std::optional<bool> netdev_is_up(const fs::path &sysfs, const std::string &netdev)
{
	const fs::path folder = sysfs / "class/net" / netdev;
	const std::string state = line_of(folder / "operstate");

	if (netdev.empty() || state.empty())
		return {};
	if (state != "unknown")
		return state == "up";
	return (strtoul(line_of(folder / "flags").c_str(), nullptr, 16) & IFF_UP) != 0;
}

/*
 * A PCI function names its interfaces below device/net. dev_port tells the interfaces apart. It has
 * no meaning if the function has one interface and the device has one port.
 */
std::string netdev_of_function(const fs::path &device, unsigned port)
{
	const std::vector<std::string> names = names_in(device / "device/net");
	const bool is_single = names.size() == 1 && names_in(device / "ports").size() == 1;

	for (const std::string &name : names) {
		const std::string at = line_of(device / "device/net" / name / "dev_port");

		if (is_single || at == std::to_string(port - 1))
			return name;
	}
	return {};
}

std::vector<RdmaGid> read_gids(const fs::path &folder)
{
	std::vector<RdmaGid> gids;

	for (const std::string &name : names_in(folder / "gids")) {
		RdmaGid gid{.gid = line_of(folder / "gids" / name)};
		const std::optional<unsigned> index = number_of(name);

		if (!index || gid.gid.find_first_not_of("0:") == std::string::npos)
			continue;
		gid.index = *index;
		gid.ipv4 = ipv4_of_gid(gid.gid);
		gid.type = line_of(folder / "gid_attrs/types" / name);
		gid.netdev = line_of(folder / "gid_attrs/ndevs" / name);
		gids.push_back(gid);
	}
	return gids;
}

RdmaPort read_port(const fs::path &sysfs, const fs::path &device, unsigned number)
{
	const fs::path folder = device / "ports" / std::to_string(number);
	RdmaPort port{
		.number = number,
		.state = word_of(folder / "state"),
		.phys_state = word_of(folder / "phys_state"),
		.link_layer = line_of(folder / "link_layer"),
		.rate = line_of(folder / "rate"),
		.gids = read_gids(folder),
	};

	/* The port's own interface has the first GIDs; those of its VLANs and so on follow. */
	for (const RdmaGid &gid : port.gids)
		if (port.netdev.empty())
			port.netdev = gid.netdev;
	if (port.netdev.empty())
		port.netdev = netdev_of_function(device, number);
	port.netdev_up = netdev_is_up(sysfs, port.netdev);
	return port;
}

/* The device that sirdma run's preload view offers at @addr. */
RdmaDevice twin_device(unsigned number, const twin::IpAddress &addr)
{
	const std::string netdev = twin::interface_name(addr);
	const std::string gid = hex_groups(addr.ip().b, sizeof(addr.ip().b));
	RdmaPort port{
		.number = 1,
		.state = "ACTIVE",
		.phys_state = "LinkUp",
		.link_layer = "Ethernet",
		.rate = twin::port_rate,
		.netdev = netdev,
		.netdev_up = netdev_is_up("/sys", netdev),
	};

	/* If there is no address, the process that opens the device chooses one. */
	if (!addr.any())
		port.gids.push_back({.index = 0,
				     .gid = gid,
				     .ipv4 = ipv4_of_gid(gid),
				     .type = twin::gid_type,
				     .netdev = netdev});
	return {.name = twin::device_name + std::to_string(number),
		.node_type = "CA",
		.node_guid = guid_text(twin::device_guid(addr)),
		.ports = {port}};
}

} // namespace

std::vector<RdmaDevice> sysfs_devices(const std::string &sysfs)
{
	std::vector<RdmaDevice> devices;

	for (const std::string &name : names_in(sysfs + "/class/infiniband")) {
		const fs::path folder = fs::path(sysfs) / "class/infiniband" / name;
		RdmaDevice device{.name = name,
				  .node_type = word_of(folder / "node_type"),
				  .node_guid = line_of(folder / "node_guid")};

		for (const std::string &port : names_in(folder / "ports"))
			if (const std::optional<unsigned> number = number_of(port))
				device.ports.push_back(read_port(sysfs, folder, *number));
		devices.push_back(device);
	}
	return devices;
}

std::vector<RdmaDevice> visible_devices()
{
	const char *view = getenv(twin::env_view);
	std::vector<RdmaDevice> devices;

	if (!view || strcmp(view, twin::view_preload) != 0)
		return sysfs_devices("/sys");
	for (unsigned i = 0; i < twin::device_count(); ++i)
		devices.push_back(twin_device(i, twin::Config::from_environment(i).addr));
	return devices;
}

std::string gid_version(const RdmaDevice &device, const RdmaPort &port, const RdmaGid &gid)
{
	if (device.node_type == "RNIC")
		return "iWARP";
	if (port.link_layer == "InfiniBand")
		return "IB";
	if (gid.type.empty())
		return {};
	return gid.type == twin::gid_type ? "v2" : "v1";
}

} // namespace sirdma::cli
