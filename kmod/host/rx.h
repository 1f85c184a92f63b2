/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Receive: RoCEv2 datagrams taken from the netdev before the IP stack sees them. */
#ifndef SNIC_HOST_RX_H
#define SNIC_HOST_RX_H

struct snic_host;

int snic_rx_attach(struct snic_host *host);
/* When it returns, no packet is processed any more. */
void snic_rx_detach(struct snic_host *host);

#endif
