/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Measurements of the processor. */
#ifndef SNIC_HOST_CALIBRATE_H
#define SNIC_HOST_CALIBRATE_H

/* Measures at module load which way to sum ICRCs is fastest on this processor, and selects it. */
void snic_calibrate(void);

#endif
