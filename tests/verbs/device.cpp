// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "device.hpp"

#include <arpa/inet.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace verbs
{
namespace
{

constexpr uint8_t mapped_ipv4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_link_local(const ibv_gid &gid)
{
	return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

// A routable entry wins over a link-local one, whose value depends on the MAC address.
int find_gid(ibv_context *context, uint8_t port, int table_len, int family)
{
	int link_local = -1;

	for (int i = 0; i < table_len; i++) {
		ibv_gid_entry entry = {};
		if (ibv_query_gid_ex(context, port, static_cast<uint32_t>(i), &entry, 0))
			continue;
		if (entry.gid_type != IBV_GID_TYPE_ROCE_V2)
			continue;
		if (is_v4(entry.gid) != (family == 4))
			continue;
		if (!is_link_local(entry.gid))
			return i;
		if (link_local < 0)
			link_local = i;
	}
	return link_local;
}

Context open_by_name(const std::string &name)
{
	int count = 0;
	ibv_device **list = ibv_get_device_list(&count);
	Context context;

	for (int i = 0; list && i < count; i++) {
		if (name.empty() || name == ibv_get_device_name(list[i])) {
			context.reset(ibv_open_device(list[i]));
			if (!context)
				std::perror(("ibv_open_device " + name).c_str());
			break;
		}
	}
	if (!context)
		std::fprintf(stderr, "no RDMA device '%s' among %d\n", name.c_str(), count);
	if (list)
		ibv_free_device_list(list);
	return context;
}

} // namespace

bool is_v4(const ibv_gid &gid)
{
	return std::memcmp(gid.raw, mapped_ipv4, sizeof(mapped_ipv4)) == 0;
}

std::optional<ibv_gid> gid_of(const std::string &address)
{
	ibv_gid gid = {};

	if (inet_pton(AF_INET6, address.c_str(), gid.raw) == 1)
		return gid;
	std::memcpy(gid.raw, mapped_ipv4, sizeof(mapped_ipv4));
	if (inet_pton(AF_INET, address.c_str(), gid.raw + sizeof(mapped_ipv4)) == 1)
		return gid;
	return std::nullopt;
}

std::optional<Device> Device::open(const std::string &name, const GidChoice &choice)
{
	Device device;

	device.context = open_by_name(name);
	if (!device.context)
		return std::nullopt;
	ibv_context *context = device.context.get();
	device.name = ibv_get_device_name(context->device);
	if (int rc = ibv_query_device(context, &device.attr)) {
		std::fprintf(stderr, "%s: ibv_query_device: %s\n", device.name.c_str(),
			     std::strerror(rc));
		return std::nullopt;
	}
	if (int rc = ibv_query_port(context, device.port, &device.port_attr)) {
		std::fprintf(stderr, "%s: ibv_query_port: %s\n", device.name.c_str(),
			     std::strerror(rc));
		return std::nullopt;
	}
	device.gid_index =
		choice.index >= 0 ?
			choice.index :
			find_gid(context, device.port, device.port_attr.gid_tbl_len, choice.family);
	if (device.gid_index < 0) {
		std::fprintf(stderr, "%s: no RoCEv2 address of family IPv%d on port %d\n",
			     device.name.c_str(), choice.family, device.port);
		return std::nullopt;
	}
	if (ibv_query_gid(context, device.port, device.gid_index, &device.gid)) {
		std::fprintf(stderr, "%s: ibv_query_gid %d: %s\n", device.name.c_str(),
			     device.gid_index, std::strerror(errno));
		return std::nullopt;
	}
	return device;
}

uint32_t mtu_bytes(ibv_mtu mtu)
{
	return 128u << mtu;
}

ibv_qp_attr init_attr(const Device &device, const Link &link)
{
	ibv_qp_attr attr = {};
	attr.qp_state = IBV_QPS_INIT;
	attr.pkey_index = 0;
	attr.port_num = device.port;
	attr.qp_access_flags = static_cast<unsigned>(link.access);
	return attr;
}

ibv_qp_attr rtr_attr(const Device &device, const Address &remote, const Link &link)
{
	ibv_qp_attr attr = {};
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = link.mtu;
	attr.dest_qp_num = remote.qpn;
	attr.rq_psn = remote.psn;
	attr.max_dest_rd_atomic = link.max_dest_rd_atomic;
	attr.min_rnr_timer = link.min_rnr_timer;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = device.port;
	attr.ah_attr.grh.dgid = remote.gid;
	attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(device.gid_index);
	attr.ah_attr.grh.hop_limit = link.hop_limit;
	attr.ah_attr.grh.traffic_class = link.traffic_class;
	return attr;
}

ibv_qp_attr rts_attr(uint32_t psn, const Link &link)
{
	ibv_qp_attr attr = {};
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = psn;
	attr.timeout = link.timeout;
	attr.retry_cnt = link.retry_cnt;
	attr.rnr_retry = link.rnr_retry;
	attr.max_rd_atomic = link.max_rd_atomic;
	return attr;
}

Qp make_rc_qp(ibv_pd *pd, ibv_cq *cq, uint32_t depth)
{
	ibv_qp_init_attr init = {};

	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = 1;
	init.send_cq = init.recv_cq = cq;
	init.cap.max_send_wr = depth;
	init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	return Qp(ibv_create_qp(pd, &init));
}

int to_init(ibv_qp *qp, const Device &device, const Link &link)
{
	ibv_qp_attr attr = init_attr(device, link);
	return ibv_modify_qp(qp, &attr, init_mask);
}

int to_rtr(ibv_qp *qp, const Device &device, const Address &remote, const Link &link)
{
	ibv_qp_attr attr = rtr_attr(device, remote, link);
	return ibv_modify_qp(qp, &attr, mask_for(qp->qp_type, rtr_mask));
}

int to_rts(ibv_qp *qp, uint32_t psn, const Link &link)
{
	ibv_qp_attr attr = rts_attr(psn, link);
	return ibv_modify_qp(qp, &attr, mask_for(qp->qp_type, rts_mask));
}

static bool is_of_rxe(const ibv_qp *qp)
{
	Device device;

	return !ibv_query_device(qp->context, &device.attr) && device.is_rxe();
}

static ibv_qp_state state_of(ibv_qp *qp)
{
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};

	return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) ? IBV_QPS_UNKNOWN : attr.qp_state;
}

int to_state(ibv_qp *qp, ibv_qp_state state)
{
	ibv_qp_attr attr = {};
	attr.qp_state = state;
	int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	// An error that rdma_rxe's tasks meet meanwhile moves the queue pair from RESET to ERR.
	if (!err && state == IBV_QPS_RESET && is_of_rxe(qp) && state_of(qp) == IBV_QPS_ERR)
		err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	return err;
}

} // namespace verbs
