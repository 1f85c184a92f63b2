/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The environment variables by which the launcher configures the twin, and names that both
 * use.
 */
#pragma once

namespace sirdma::twin
{

inline constexpr char env_addr[] =
	"SIRDMA_TWIN_ADDR"; /* comma-separated, one for each device; empty: any address */
inline constexpr char env_devices[] = "SIRDMA_TWIN_DEVICES";
inline constexpr char env_link[] = "SIRDMA_TWIN_LINK";
inline constexpr char env_view[] = "SIRDMA_TWIN_VIEW";
inline constexpr char env_mtu[] = "SIRDMA_TWIN_MTU";
inline constexpr char env_loss[] = "SIRDMA_TWIN_LOSS";
inline constexpr char env_corrupt[] = "SIRDMA_TWIN_CORRUPT";
inline constexpr char env_reorder[] = "SIRDMA_TWIN_REORDER";
inline constexpr char env_seed[] = "SIRDMA_TWIN_SEED";
inline constexpr char env_buffer[] =
	"SIRDMA_TWIN_BUFFER"; /* socket buffers, bytes; 0: as much as the system permits */
inline constexpr char env_pcap[] = "SIRDMA_TWIN_PCAP";
inline constexpr char env_one_sided[] = "SIRDMA_TWIN_ONE_SIDED";
inline constexpr char env_stats[] = "SIRDMA_TWIN_STATS";
inline constexpr char env_verbose[] = "SIRDMA_TWIN_VERBOSE";
/*
 * The variables of options with a default: the launcher removes those that an outer run has set.
 * No option sets env_buffer, so that one stays.
 */
inline constexpr const char *env_options[] = {env_link,	   env_mtu,    env_loss, env_corrupt,
					      env_reorder, env_seed,   env_pcap, env_one_sided,
					      env_stats,   env_verbose};

inline constexpr unsigned devices_max = 64;
/* A device name is this prefix and a number. */
inline constexpr char device_name[] = "sirdma";
/* Entries of the GID table; only the first is filled. */
inline constexpr unsigned gid_table_len = 16;
/* The contents of hca_type in the launcher's sysfs tree. The twin recognizes its devices by it. */
inline constexpr char hca_type[] = "sirdma twin";
/* The properties of the twin's ports and GIDs that sysfs shows. */
inline constexpr char port_rate[] = "100 Gb/sec (4X EDR)";
inline constexpr char gid_type[] = "RoCE v2";
/* The libraries that are loaded into the program; both are in one folder. */
inline constexpr char shim_library[] = "libsirdma-preload.so";
inline constexpr char twin_library[] = "libsirdma-twin.so";
/* Values of env_view. */
inline constexpr char view_sysfs[] = "sysfs"; /* the library finds devices itself */
inline constexpr char view_preload[] = "preload"; /* the shim replaces the library */

} // namespace sirdma::twin
