/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef SNIC_QP_SIDE_H
#define SNIC_QP_SIDE_H

/* The requester and the responder of a queue pair. They wait for memory, and hosts keep their payload (kept.h), separately. */
enum snic_side { SNIC_REQUESTER, SNIC_RESPONDER, SNIC_SIDES };

#endif
