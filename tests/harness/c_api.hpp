// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The portable C code as C++ tests see it. Standard headers come first, since
// port_user.h defines kernel-style macros; those that collide with C++ are
// undefined afterwards.
#pragma once

#include <errno.h>
#include <linux/types.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#ifndef _Static_assert
#define _Static_assert static_assert
#endif

extern "C" {
#include "port/port.h"
#include "sirdma/abi.h"
#include "sirdma/bus.h"
#include "sirdma/cqe.h"
#include "sirdma/cqp.h"
#include "sirdma/hmc.h"
#include "sirdma/qpctx.h"
#include "sirdma/roce.h"
#include "sirdma/shadow.h"
#include "sirdma/stats.h"
#include "sirdma/wqe.h"
#include "model/burst.h"
#include "model/cq.h"
#include "model/cqp.h"
#include "model/dev.h"
#include "model/eq.h"
#include "model/frame.h"
#include "model/hmc.h"
#include "model/kept.h"
#include "model/mr.h"
#include "model/obj.h"
#include "model/ring.h"
#include "model/packet.h"
#include "model/snic.h"
#include "model/super.h"
}

#undef min
#undef max
#undef min_t
#undef max_t
#undef likely
#undef unlikely
#undef fallthrough
