/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Register page of the device (BAR 0) and the doorbell page.
 *
 * All registers are 32 bits wide. Writing SIRDMA_REG_CQPDB may sleep: a software device
 * executes the commands in the task that writes it.
 */
#ifndef SIRDMA_REGS_H
#define SIRDMA_REGS_H

#include "bits.h"

#define SIRDMA_REG_ID 0x000 /* RO: SIRDMA_ID_MAGIC */
#define SIRDMA_REG_VERSION 0x004 /* RO: SIRDMA_HW_VERSION */
#define SIRDMA_REG_CTRL 0x008 /* WO: SIRDMA_CTRL_RESET */
#define SIRDMA_REG_STATUS 0x00c /* RO: SIRDMA_STATUS_* */
#define SIRDMA_REG_CCQPLOW 0x010 /* RW: CQP context address, low half */
#define SIRDMA_REG_CCQPHIGH 0x014 /* WO: high half; the write starts the CQP */
#define SIRDMA_REG_CCQPSTATUS 0x018 /* RO: SIRDMA_CCQPSTATUS_* */
#define SIRDMA_REG_CQPDB 0x01c /* WO: CQP head index; may sleep */
#define SIRDMA_REG_CQPTAIL 0x020 /* RO: SIRDMA_CQPTAIL_* */
#define SIRDMA_REG_CQPERRCODES 0x024 /* RO: major 31:16, minor 15:0 of the last failed command */
#define SIRDMA_REG_PMPDINV 0x028 /* WO: invalidate one cached HMC page descriptor */
#define SIRDMA_REG_AEQALLOC 0x02c /* WO: number of AEQEs the driver consumed */
#define SIRDMA_REG_CQARM 0x030 /* WO: CQ id; re-read the arm word of its shadow area */
#define SIRDMA_REG_WQEALLOC 0x034 /* WO: QP id; look at its send queue */
#define SIRDMA_REG_LINK 0x038 /* RO: SIRDMA_LINK_* */
#define SIRDMA_REG_MACLOW 0x03c /* RO: bytes 3..0 of the port MAC, byte 0 in bits 7:0 */
#define SIRDMA_REG_MACHIGH 0x040 /* RO: bytes 5..4 of the port MAC in bits 15:0 */
#define SIRDMA_REG_INT_MASK 0x044 /* RW: bit n masks vector n (0..31) */
#define SIRDMA_REG_CEQACK 0x048 /* WO: CEQ id 31:20, CEQEs consumed 19:0 */
#define SIRDMA_REG_PRQACK 0x04c /* WO: number of page requests the driver consumed */
/*
 * WO: the index of a protection domain. When the write has ended, no access to its regions that is
 * under way found a PBLE as it was before. It may sleep, waits for no memory and for no command, and
 * takes no longer than it takes to visit the queue pairs that may use those regions.
 */
#define SIRDMA_REG_PBLESYNC 0x050
#define SIRDMA_REG_SIZE 0x1000

#define SIRDMA_ID_MAGIC 0x4d445253u /* "SRDM" */
#define SIRDMA_HW_VERSION 0x00020000u /* generation 2, revision 0 */

#define SIRDMA_CTRL_RESET SIRDMA_BIT(0)

#define SIRDMA_STATUS_READY SIRDMA_BIT(0) /* reset is over */
#define SIRDMA_STATUS_FAULT SIRDMA_BIT(1) /* HMC or ring fault: reset needed */

#define SIRDMA_CCQPSTATUS_DONE SIRDMA_BIT(0) /* CQP accepted its context */
#define SIRDMA_CCQPSTATUS_ERR SIRDMA_BIT(31)

#define SIRDMA_CQPTAIL_WQTAIL SIRDMA_MASK(10, 0) /* next command to execute */
#define SIRDMA_CQPTAIL_OP_ERR SIRDMA_BIT(31) /* last command failed */

#define SIRDMA_PMPDINV_SDIDX SIRDMA_MASK(11, 0)
#define SIRDMA_PMPDINV_PDIDX SIRDMA_MASK(24, 16)

#define SIRDMA_LINK_UP SIRDMA_BIT(0)
#define SIRDMA_LINK_MTU SIRDMA_MASK(31, 16) /* L3 MTU of the port in bytes, 65535 = that or more */

#define SIRDMA_CEQACK_ID SIRDMA_MASK(31, 20)
#define SIRDMA_CEQACK_COUNT SIRDMA_MASK(19, 0)

/*
 * Doorbell page, mapped into a user context (irdma layout). It is RAM, so a store has no
 * effect by itself: need_kick words of the shadow areas tell the provider when to kick the
 * device, which then reads the rings (SIRDMA_REG_WQEALLOC). For providers that never kick the driver
 * watches the page, and catches the store that ends a pause (kmod/drv/doorbell.h).
 */
struct sirdma_db_page {
	__le32 wqe_alloc; /* QP id */
	__le32 rsvd0[15];
	__le32 cq_arm; /* CQ id */
	__le32 rsvd1[1007];
};
SIRDMA_SIZE_IS(struct sirdma_db_page, SIRDMA_PAGE_SIZE);
SIRDMA_OFFSET_IS(struct sirdma_db_page, cq_arm, 64);

#endif
