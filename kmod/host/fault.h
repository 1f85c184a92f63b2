/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault injection: the name of a netdev, written to /sys/kernel/debug/sirdma_nic/fault,
 * makes its device report a fault, as broken hardware would.
 */
#ifndef SNIC_HOST_FAULT_H
#define SNIC_HOST_FAULT_H

void snic_fault_init(void);
void snic_fault_exit(void);

#endif
