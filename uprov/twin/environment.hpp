/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the launcher tells the twin, through the environment of the program it
 * starts, and what both know of each other.
 */
#pragma once

namespace sirdma::twin
{

inline constexpr char env_addr[] = "SIRDMA_TWIN_ADDR"; /* one a device, by commas; empty: any */
inline constexpr char env_devices[] = "SIRDMA_TWIN_DEVICES";
inline constexpr char env_link[] = "SIRDMA_TWIN_LINK";
inline constexpr char env_view[] = "SIRDMA_TWIN_VIEW";
inline constexpr char env_mtu[] = "SIRDMA_TWIN_MTU";
inline constexpr char env_loss[] = "SIRDMA_TWIN_LOSS";
inline constexpr char env_corrupt[] = "SIRDMA_TWIN_CORRUPT";
inline constexpr char env_reorder[] = "SIRDMA_TWIN_REORDER";
inline constexpr char env_seed[] = "SIRDMA_TWIN_SEED";
inline constexpr char env_buffer[] = "SIRDMA_TWIN_BUFFER"; /* of sockets, bytes; 0: what there is */
inline constexpr char env_pcap[] = "SIRDMA_TWIN_PCAP";
inline constexpr char env_stats[] = "SIRDMA_TWIN_STATS";
inline constexpr char env_verbose[] = "SIRDMA_TWIN_VERBOSE";

inline constexpr unsigned devices_max = 64;
/* Devices are named by this and a number. */
inline constexpr char device_name[] = "sirdma";
/* Entries of the GID table; only the first is filled. */
inline constexpr unsigned gid_table_len = 16;
/* In the launcher's tree of sysfs: the file by which the twin knows its devices. */
inline constexpr char hca_type[] = "sirdma twin";
/* The libraries that come into the program, in one folder. */
inline constexpr char shim_library[] = "libsirdma-preload.so";
inline constexpr char twin_library[] = "libsirdma-twin.so";
/* Values of env_view. */
inline constexpr char view_sysfs[] = "sysfs"; /* the library finds devices itself */
inline constexpr char view_preload[] = "preload"; /* the shim takes the library's place */

} // namespace sirdma::twin
