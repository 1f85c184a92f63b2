// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the suites need of the device model. */
#include "model/frame.c"
#include "model/icrc.c"
