/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tracepoints: each step of registering memory and of modifying a QP, changes of
 * addresses and of the port, and the device's events.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sirdma

#if !defined(SIRDMA_DRV_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define SIRDMA_DRV_TRACE_H

#include <linux/tracepoint.h>
#include "device.h"
#include "hw/cqp_cmd.h"
#include "mr.h"
#include "neigh.h"
#include "qp_query.h"
#include "route.h"

#ifndef SIRDMA_TRACE_HELPERS
#define SIRDMA_TRACE_HELPERS
/* Events may come before the device has its name. */
static inline const char *sirdma_trace_name(const struct sirdma_dev *dev)
{
	const char *name = dev_name(&dev->ibdev.dev);

	return name ? name : "";
}
#endif

#define SIRDMA_DEV_ENTRY __array(char, dev, IB_DEVICE_NAME_MAX)
#define SIRDMA_DEV_ASSIGN strscpy(__entry->dev, sirdma_trace_name(sdev), IB_DEVICE_NAME_MAX)
#define SIRDMA_IP_ENTRY(field) __array(u8, field, 16)
#define SIRDMA_IP_ASSIGN(field, ip) memcpy(__entry->field, (ip)->b, 16)

TRACE_EVENT(sirdma_mr_pin,
	TP_PROTO(const struct sirdma_dev *sdev, u64 start, u64 length, int access, int err),
	TP_ARGS(sdev, start, length, access, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u64, start)
			 __field(u64, length)
			 __field(int, access)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->start = start;
		       __entry->length = length;
		       __entry->access = access;
		       __entry->err = err;),
	TP_printk("%s start=%#llx length=%llu access=%#x err=%d", __entry->dev, __entry->start,
		  __entry->length, __entry->access, __entry->err)
);

TRACE_EVENT(sirdma_mr_map,
	TP_PROTO(const struct sirdma_dev *sdev, const struct sirdma_mr *mr, u64 iova, int err),
	TP_ARGS(sdev, mr, iova, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u64, iova)
			 __field(u32, blocks)
			 __field(u32, first_pble)
			 __field(u8, shift)
			 __field(u8, level)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->iova = iova;
		       __entry->blocks = mr->pbl.count;
		       __entry->shift = mr->pbl.block_shift;
		       __entry->level = mr->pbl.level;
		       __entry->first_pble = !err && mr->pbl.level ?
					     sirdma_pbl_first(&mr->pbl) : 0;
		       __entry->err = err;),
	TP_printk("%s iova=%#llx blocks=%u of %lu bytes level=%u first_pble=%u err=%d",
		  __entry->dev, __entry->iova, __entry->blocks, BIT(__entry->shift),
		  __entry->level, __entry->first_pble, __entry->err)
);

TRACE_EVENT(sirdma_mr_register,
	TP_PROTO(const struct sirdma_dev *sdev, const struct sirdma_cqp_reg_mr_params *params),
	TP_ARGS(sdev, params),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, stag)
			 __field(u32, pd)
			 __field(u64, va)
			 __field(u64, len)
			 __field(u8, access)
			 __field(u8, level)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->stag = params->stag;
		       __entry->pd = params->pd;
		       __entry->va = params->va;
		       __entry->len = params->len;
		       __entry->access = params->access;
		       __entry->level = params->level;),
	TP_printk("%s stag=%#x pd=%u va=%#llx len=%llu access=%#x level=%u", __entry->dev,
		  __entry->stag, __entry->pd, __entry->va, __entry->len, __entry->access,
		  __entry->level)
);

DECLARE_EVENT_CLASS(sirdma_object_result,
	TP_PROTO(const struct sirdma_dev *sdev, u32 id, int err),
	TP_ARGS(sdev, id, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, id)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->id = id;
		       __entry->err = err;),
	TP_printk("%s id=%#x err=%d", __entry->dev, __entry->id, __entry->err)
);

DEFINE_EVENT(sirdma_object_result, sirdma_mr_registered,
	TP_PROTO(const struct sirdma_dev *sdev, u32 id, int err),
	TP_ARGS(sdev, id, err));
DEFINE_EVENT(sirdma_object_result, sirdma_mr_dealloc,
	TP_PROTO(const struct sirdma_dev *sdev, u32 id, int err),
	TP_ARGS(sdev, id, err));
DEFINE_EVENT(sirdma_object_result, sirdma_qp_destroy,
	TP_PROTO(const struct sirdma_dev *sdev, u32 id, int err),
	TP_ARGS(sdev, id, err));

TRACE_EVENT(sirdma_mr_unwound,
	TP_PROTO(const struct sirdma_dev *sdev, u64 start, u64 length, int err),
	TP_ARGS(sdev, start, length, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u64, start)
			 __field(u64, length)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->start = start;
		       __entry->length = length;
		       __entry->err = err;),
	TP_printk("%s start=%#llx length=%llu err=%d", __entry->dev, __entry->start,
		  __entry->length, __entry->err)
);

TRACE_EVENT(sirdma_qp_create,
	TP_PROTO(const struct sirdma_dev *sdev, u32 qpn, u32 sq_quanta, u32 rq_quanta, int err),
	TP_ARGS(sdev, qpn, sq_quanta, rq_quanta, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, qpn)
			 __field(u32, sq_quanta)
			 __field(u32, rq_quanta)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->qpn = qpn;
		       __entry->sq_quanta = sq_quanta;
		       __entry->rq_quanta = rq_quanta;
		       __entry->err = err;),
	TP_printk("%s qpn=%u sq_quanta=%u rq_quanta=%u err=%d", __entry->dev, __entry->qpn,
		  __entry->sq_quanta, __entry->rq_quanta, __entry->err)
);

TRACE_EVENT(sirdma_modify_path,
	TP_PROTO(const struct sirdma_dev *sdev, u32 qpn, const struct sirdma_route_key *key,
		 u32 gid_index, int err),
	TP_ARGS(sdev, qpn, key, gid_index, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, qpn)
			 __field(u32, gid_index)
			 SIRDMA_IP_ENTRY(src)
			 SIRDMA_IP_ENTRY(dst)
			 __field(int, ifindex)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(src, &key->src);
		       SIRDMA_IP_ASSIGN(dst, &key->dst);
		       __entry->qpn = qpn;
		       __entry->gid_index = gid_index;
		       __entry->ifindex = err ? 0 : key->ifindex;
		       __entry->err = err;),
	TP_printk("%s qpn=%u gid=%u src=%pI6c dst=%pI6c ifindex=%d err=%d", __entry->dev,
		  __entry->qpn, __entry->gid_index, __entry->src, __entry->dst,
		  __entry->ifindex, __entry->err)
);

TRACE_EVENT(sirdma_modify_qp,
	TP_PROTO(const struct sirdma_dev *sdev, u32 qpn, u32 cur, u32 next, u32 mask, int err),
	TP_ARGS(sdev, qpn, cur, next, mask, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, qpn)
			 __field(u32, cur)
			 __field(u32, next)
			 __field(u32, mask)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->qpn = qpn;
		       __entry->cur = cur;
		       __entry->next = next;
		       __entry->mask = mask;
		       __entry->err = err;),
	TP_printk("%s qpn=%u state %u -> %u mask=%#x err=%d", __entry->dev, __entry->qpn,
		  __entry->cur, __entry->next, __entry->mask, __entry->err)
);

TRACE_EVENT(sirdma_neigh_start,
	TP_PROTO(const struct sirdma_dev *sdev, const struct sirdma_route_key *key),
	TP_ARGS(sdev, key),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 SIRDMA_IP_ENTRY(src)
			 SIRDMA_IP_ENTRY(dst)
			 __field(int, ifindex)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(src, &key->src);
		       SIRDMA_IP_ASSIGN(dst, &key->dst);
		       __entry->ifindex = key->ifindex;),
	TP_printk("%s src=%pI6c dst=%pI6c ifindex=%d", __entry->dev, __entry->src, __entry->dst,
		  __entry->ifindex)
);

TRACE_EVENT(sirdma_neigh_done,
	TP_PROTO(const struct sirdma_dev *sdev, const struct sirdma_route_key *key,
		 const struct sirdma_nexthop *hop, int err),
	TP_ARGS(sdev, key, hop, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 SIRDMA_IP_ENTRY(dst)
			 SIRDMA_IP_ENTRY(nexthop)
			 __array(u8, mac, ETH_ALEN)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(dst, &key->dst);
		       SIRDMA_IP_ASSIGN(nexthop, &hop->ip);
		       memcpy(__entry->mac, hop->mac, ETH_ALEN);
		       __entry->err = err;),
	TP_printk("%s dst=%pI6c nexthop=%pI6c mac=%pM err=%d", __entry->dev, __entry->dst,
		  __entry->nexthop, __entry->mac, __entry->err)
);

DECLARE_EVENT_CLASS(sirdma_address_set,
	TP_PROTO(const struct sirdma_dev *sdev, u32 idx, const struct sirdma_ip *ip, const u8 *mac,
		 int err),
	TP_ARGS(sdev, idx, ip, mac, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, idx)
			 SIRDMA_IP_ENTRY(ip)
			 __array(u8, mac, ETH_ALEN)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(ip, ip);
		       memcpy(__entry->mac, mac, ETH_ALEN);
		       __entry->idx = idx;
		       __entry->err = err;),
	TP_printk("%s idx=%u ip=%pI6c mac=%pM err=%d", __entry->dev, __entry->idx, __entry->ip,
		  __entry->mac, __entry->err)
);

DEFINE_EVENT(sirdma_address_set, sirdma_arp_set,
	TP_PROTO(const struct sirdma_dev *sdev, u32 idx, const struct sirdma_ip *ip, const u8 *mac,
		 int err),
	TP_ARGS(sdev, idx, ip, mac, err));
DEFINE_EVENT(sirdma_address_set, sirdma_gid_set,
	TP_PROTO(const struct sirdma_dev *sdev, u32 idx, const struct sirdma_ip *ip, const u8 *mac,
		 int err),
	TP_ARGS(sdev, idx, ip, mac, err));

TRACE_EVENT(sirdma_arp_clear,
	TP_PROTO(const struct sirdma_dev *sdev, u32 idx, const struct sirdma_ip *ip, int err),
	TP_ARGS(sdev, idx, ip, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, idx)
			 SIRDMA_IP_ENTRY(ip)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(ip, ip);
		       __entry->idx = idx;
		       __entry->err = err;),
	TP_printk("%s idx=%u ip=%pI6c err=%d", __entry->dev, __entry->idx, __entry->ip,
		  __entry->err)
);

TRACE_EVENT(sirdma_gid_clear,
	TP_PROTO(const struct sirdma_dev *sdev, u32 idx, const struct sirdma_ip *ip, u32 users,
		 int err),
	TP_ARGS(sdev, idx, ip, users, err),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, idx)
			 SIRDMA_IP_ENTRY(ip)
			 __field(u32, users)
			 __field(int, err)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       SIRDMA_IP_ASSIGN(ip, ip);
		       __entry->idx = idx;
		       __entry->users = users;
		       __entry->err = err;),
	TP_printk("%s idx=%u ip=%pI6c users=%u err=%d", __entry->dev, __entry->idx, __entry->ip,
		  __entry->users, __entry->err)
);

TRACE_EVENT(sirdma_async_event,
	TP_PROTO(const struct sirdma_dev *sdev, const struct sirdma_async_event *ev),
	TP_ARGS(sdev, ev),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, code)
			 __field(u32, source)
			 __field(u32, id)
			 __field(u32, wqe_idx)
			 __field(u32, state)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->code = ev->code;
		       __entry->source = ev->source;
		       __entry->id = ev->id;
		       __entry->wqe_idx = ev->wqe_idx;
		       __entry->state = ev->state;),
	TP_printk("%s code=%#x source=%#x id=%u wqe=%u state=%u", __entry->dev, __entry->code,
		  __entry->source, __entry->id, __entry->wqe_idx, __entry->state)
);

TRACE_EVENT(sirdma_cq_event,
	TP_PROTO(const struct sirdma_dev *sdev, u32 id),
	TP_ARGS(sdev, id),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(u32, id)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->id = id;),
	TP_printk("%s cq=%u", __entry->dev, __entry->id)
);

TRACE_EVENT(sirdma_port,
	TP_PROTO(const struct sirdma_dev *sdev, bool up, u32 mtu),
	TP_ARGS(sdev, up, mtu),
	TP_STRUCT__entry(SIRDMA_DEV_ENTRY
			 __field(bool, up)
			 __field(u32, mtu)),
	TP_fast_assign(SIRDMA_DEV_ASSIGN;
		       __entry->up = up;
		       __entry->mtu = mtu;),
	TP_printk("%s %s mtu=%u", __entry->dev, __entry->up ? "up" : "down", __entry->mtu)
);

#endif

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH drv
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
