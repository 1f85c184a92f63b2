// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// An opened RDMA device with one port and one RoCEv2 address chosen on it.
#pragma once

#include "verbs.hpp"

#include <optional>
#include <string>

namespace verbs
{

struct GidChoice {
	int index = -1; // -1: the first RoCEv2 entry of the family below
	int family = 4; // 4 or 6
};

struct Device {
	std::string name;
	Context context;
	ibv_device_attr attr = {};
	uint8_t port = 1;
	ibv_port_attr port_attr = {};
	int gid_index = -1;
	ibv_gid gid = {};

	// An error text goes to stderr; a device without a usable address is an error too.
	static std::optional<Device> open(const std::string &name, const GidChoice &choice);

	// Soft-RoCE reports this vendor id; it has no other public mark.
	bool is_rxe() const { return attr.vendor_id == 0xffffff; }
};

// The GID of an IPv4 or IPv6 address in text; nothing for other text.
std::optional<ibv_gid> gid_of(const std::string &address);
bool is_v4(const ibv_gid &gid);

// Bytes a path MTU stands for, and back.
uint32_t mtu_bytes(ibv_mtu mtu);

// How the two ends of a connection treat each other; defaults suit a link without losses.
struct Link {
	ibv_mtu mtu = IBV_MTU_1024;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	uint8_t timeout = 14; // 67 ms
	uint8_t retry_cnt = 7;
	uint8_t rnr_retry = 7; // for ever
	uint8_t min_rnr_timer = 1; // 10 us
	uint8_t max_rd_atomic = 1;
	uint8_t max_dest_rd_atomic = 1;
	uint8_t hop_limit = 64;
	uint8_t traffic_class = 0;
};

// What one end must know of the other.
struct Address {
	uint32_t qpn = 0;
	uint32_t psn = 0;
	ibv_gid gid = {};
};

// Attributes of each step of a connection, together with the masks the verbs specification asks for.
inline constexpr int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS;
inline constexpr int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

// What of it a type of queue pair does not have.
inline constexpr int reliable_mask = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
				     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_MAX_QP_RD_ATOMIC;
constexpr int mask_for(ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_RC:
		return mask;
	case IBV_QPT_XRC_SEND:
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	case IBV_QPT_XRC_RECV:
		return mask & ~(IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	default:
		return mask & ~reliable_mask;
	}
}

ibv_qp_attr init_attr(const Device &device, const Link &link);
ibv_qp_attr rtr_attr(const Device &device, const Address &remote, const Link &link);
ibv_qp_attr rts_attr(uint32_t psn, const Link &link);

// An RC queue pair that signals each request, of which it takes @depth at once, and one receive. Empty, with errno, if it cannot be made.
Qp make_rc_qp(ibv_pd *pd, ibv_cq *cq, uint32_t depth);

// Each returns ibv_modify_qp's result: 0 or an errno.
int to_init(ibv_qp *qp, const Device &device, const Link &link);
int to_rtr(ibv_qp *qp, const Device &device, const Address &remote, const Link &link);
int to_rts(ibv_qp *qp, uint32_t psn, const Link &link);
int to_state(ibv_qp *qp, ibv_qp_state state);

} // namespace verbs
