/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The file of a completion channel. A write of 8 bytes puts an event into it, a read of 8 bytes takes the
 * event. At most one event is in the file.
 *
 * It is an eventfd. To take back an event from an eventfd without waiting, preadv2() must know
 * RWF_NOWAIT for it: poll() and then read() could wait, because a thread of the application may read
 * the event in between. Linux before 5.8 and some sandboxes do not have that. There the file is a
 * datagram socket that is connected to itself, because recv() knows MSG_DONTWAIT everywhere.
 */
#pragma once

namespace sirdma::twin
{

/* Returns -1 with errno. */
int create_event_file() noexcept;
/* Take back the event in the file, without waiting. Returns false if there is none. */
bool take_back_event(int fd) noexcept;

} // namespace sirdma::twin
