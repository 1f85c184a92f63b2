/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Transmit: bursts of the model become frames or local packets. */
#ifndef SNIC_HOST_TX_H
#define SNIC_HOST_TX_H

#include "model/snic.h"

struct sk_buff;

/* The model's callbacks: one asks whether the QP may send, the other sends. */
bool snic_host_tx_room(struct snic_host *host, u32 qpn);
u32 snic_tx(struct snic_host *host, struct snic_burst *burst);
/* Give a built frame to the netdev. No lock of the model is held. */
void snic_tx_xmit(struct snic_host *host, struct sk_buff *skb);

#endif
