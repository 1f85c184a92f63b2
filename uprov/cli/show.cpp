/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "show.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <getopt.h>
#include <iomanip>
#include <iostream>
#include <nlohmann/json.hpp>

namespace sirdma::cli
{

namespace
{

using Json = nlohmann::ordered_json;

constexpr int exit_usage = 2;

constexpr char show_usage[] =
	R"(sirdma show [--json] [DEVICE[/PORT]]
  Lists the ports of all RDMA devices and their network interfaces, as vendors' ibdev2netdev.
sirdma show gids [--json] [DEVICE[/PORT]]
  Lists their GID tables, as vendors' show_gids.
  Under sirdma run, these are the devices of that run.
)";

using Row = std::vector<std::string>;

std::string or_dash(const std::string &text)
{
	return text.empty() ? "-" : text;
}

/*
 * Text for a terminal. The name of an interface may contain almost any byte: each byte that is not
 * printable ASCII becomes \xNN, so that no name can send the terminal a control sequence.
 */
std::string printable(const std::string &text)
{
	std::string out;
	char code[8];

	for (const char c : text) {
		if (c >= ' ' && c <= '~') {
			out += c;
			continue;
		}
		snprintf(code, sizeof(code), "\\x%02x", static_cast<unsigned char>(c));
		out += code;
	}
	return out;
}

/* Print @rows. Every column is as wide as its widest cell. The last column is not padded. */
void print_aligned(std::ostream &out, std::vector<Row> rows, int gap)
{
	std::vector<size_t> widths;

	for (Row &row : rows) {
		for (std::string &cell : row)
			cell = printable(cell);
		widths.resize(std::max(widths.size(), row.size()));
		for (size_t i = 0; i < row.size(); ++i)
			widths[i] = std::max(widths[i], row[i].size());
	}
	for (const Row &row : rows) {
		for (size_t i = 0; i + 1 < row.size(); ++i)
			out << std::left << std::setw(static_cast<int>(widths[i]) + gap) << row[i];
		out << row.back() << '\n';
	}
}

Json text_or_null(const std::string &text)
{
	return text.empty() ? Json() : Json(text);
}

template <typename Visit> void each_port(const std::vector<RdmaDevice> &devices, Visit visit)
{
	for (const RdmaDevice &device : devices)
		for (const RdmaPort &port : device.ports)
			visit(device, port);
}

/* Names in sysfs are bytes, not always UTF-8. */
void print_json(std::ostream &out, const Json &json)
{
	out << json.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

} // namespace

void print_ports(std::ostream &out, const std::vector<RdmaDevice> &devices)
{
	std::vector<Row> rows;

	each_port(devices, [&](const RdmaDevice &device, const RdmaPort &port) {
		const char *up = !port.netdev_up ? "(Unknown)" :
				 *port.netdev_up ? "(Up)" :
						   "(Down)";

		rows.push_back({device.name, "port", std::to_string(port.number), "==>",
				or_dash(port.netdev), up});
	});
	print_aligned(out, rows, 1);
}

void print_ports_json(std::ostream &out, const std::vector<RdmaDevice> &devices)
{
	Json list = Json::array();

	each_port(devices, [&](const RdmaDevice &device, const RdmaPort &port) {
		list.push_back({
			{"device", device.name},
			{"port", port.number},
			{"netdev", text_or_null(port.netdev)},
			{"netdev_up", port.netdev_up ? Json(*port.netdev_up) : Json()},
			{"state", text_or_null(port.state)},
			{"phys_state", text_or_null(port.phys_state)},
			{"link_layer", text_or_null(port.link_layer)},
			{"rate", text_or_null(port.rate)},
			{"node_type", text_or_null(device.node_type)},
			{"node_guid", text_or_null(device.node_guid)},
		});
	});
	print_json(out, list);
}

void print_gids(std::ostream &out, const std::vector<RdmaDevice> &devices)
{
	std::vector<Row> rows = {{"DEV", "PORT", "INDEX", "GID", "IPv4", "VER", "NETDEV"}};
	Row rule;

	for (const std::string &title : rows[0])
		rule.push_back(std::string(title.size(), '-'));
	rows.push_back(rule);
	each_port(devices, [&](const RdmaDevice &device, const RdmaPort &port) {
		for (const RdmaGid &gid : port.gids)
			rows.push_back({device.name, std::to_string(port.number),
					std::to_string(gid.index), gid.gid, gid.ipv4,
					or_dash(gid_version(device, port, gid)),
					or_dash(gid.netdev)});
	});
	print_aligned(out, rows, 2);
	out << "n_gids_found=" << rows.size() - 2 << '\n';
}

void print_gids_json(std::ostream &out, const std::vector<RdmaDevice> &devices)
{
	Json list = Json::array();

	each_port(devices, [&](const RdmaDevice &device, const RdmaPort &port) {
		for (const RdmaGid &gid : port.gids)
			list.push_back({
				{"device", device.name},
				{"port", port.number},
				{"index", gid.index},
				{"gid", gid.gid},
				{"ipv4", text_or_null(gid.ipv4)},
				{"version", text_or_null(gid_version(device, port, gid))},
				{"type", text_or_null(gid.type)},
				{"netdev", text_or_null(gid.netdev)},
			});
	});
	print_json(out, list);
}

bool select_devices(std::vector<RdmaDevice> &devices, const std::string &which)
{
	const size_t slash = which.find('/');
	const std::string name = which.substr(0, slash);

	std::erase_if(devices, [&](const RdmaDevice &device) { return device.name != name; });
	if (devices.empty() || slash == std::string::npos)
		return !devices.empty();
	std::erase_if(devices[0].ports, [&](const RdmaPort &port) {
		return std::to_string(port.number) != which.substr(slash + 1);
	});
	return !devices[0].ports.empty();
}

int show(int argc, char **argv)
{
	static constexpr option options[] = {
		{"json", no_argument, nullptr, 'j'}, {"help", no_argument, nullptr, 'h'}, {}};
	bool gids = false, json = false;
	std::string which;

	optind = 1;
	for (int c; (c = getopt_long(argc, argv, ":", options, nullptr)) != -1;) {
		if (c == 'h') {
			fputs(show_usage, stdout);
			return 0;
		}
		if (c != 'j') {
			fprintf(stderr, "sirdma show: no such option: '%s'\n", argv[optind - 1]);
			return exit_usage;
		}
		json = true;
	}
	if (optind < argc && !strcmp(argv[optind], "gids"))
		gids = true, ++optind;
	if (optind < argc)
		which = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "sirdma show: one argument too many: '%s'\n", argv[optind]);
		return exit_usage;
	}

	std::vector<RdmaDevice> devices = visible_devices();

	if (!which.empty() && !select_devices(devices, which)) {
		fprintf(stderr, "sirdma show: no such device or port: '%s'\n", which.c_str());
		return 1;
	}
	if (gids)
		(json ? print_gids_json : print_gids)(std::cout, devices);
	else
		(json ? print_ports_json : print_ports)(std::cout, devices);
	return std::cout.flush() ? 0 : 1;
}

} // namespace sirdma::cli
