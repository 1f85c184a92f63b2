/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What depends on the processor is measured when the module is loaded. */
#ifndef SNIC_HOST_CALIBRATE_H
#define SNIC_HOST_CALIBRATE_H

/* Choose how ICRCs are summed. */
void snic_calibrate(void);

#endif
