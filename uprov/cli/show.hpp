/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "rdma_devices.hpp"

namespace sirdma::cli
{

/* Each port and its network interface, one line each, as vendors' ibdev2netdev prints them. */
void print_ports(std::ostream &out, const std::vector<RdmaDevice> &devices);
/* The same with more properties of each port, as a JSON array. */
void print_ports_json(std::ostream &out, const std::vector<RdmaDevice> &devices);
/* The GID tables, as vendors' show_gids prints them. */
void print_gids(std::ostream &out, const std::vector<RdmaDevice> &devices);
void print_gids_json(std::ostream &out, const std::vector<RdmaDevice> &devices);

/*
 * Keep those of @devices that @which names: DEVICE or DEVICE/PORT. Returns false if there is no
 * such device or port.
 */
bool select_devices(std::vector<RdmaDevice> &devices, const std::string &which);

/* sirdma show [gids]. Returns the exit status. */
int show(int argc, char **argv);

} // namespace sirdma::cli
