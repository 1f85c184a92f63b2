/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The portable driver core and device model, as C++ sees them. Standard headers
 * come first: port_user.h defines names in the kernel's style.
 */
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

extern "C" {
#include "hw/access.h"
#include "hw/cqp_cmd.h"
#include "hw/event.h"
#include "hw/hw.h"
#include "hw/limits.h"
#include "hw/qp_attr.h"
#include "hw/qp_create.h"
#include "hw/qp_modify.h"
#include "hw/stag.h"
#include "model/frame.h"
#include "model/packet.h"
#include "model/snic.h"
#include "port/port.h"
}
