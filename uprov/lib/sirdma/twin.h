/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA devices inside the process, joined by a fabric under a virtual clock, for
 * tests of applications: the same ibv_* calls send the same packets at the same
 * times in each run, and rules can drop, duplicate, delay and corrupt packets.
 *
 *   sirdma_fabric *fabric = sirdma_fabric_create(NULL);
 *   sirdma_device *device = sirdma_device_create(fabric, NULL);
 *   ibv_context *context = ibv_open_device(sirdma_device_verbs(device));
 *   … ibv_* calls as on any device, another device, a connection …
 *   sirdma_fabric_run_until_idle(fabric, SIRDMA_MS(1000));
 *
 * Link with -lsirdma before -libverbs (pkg-config --cflags --libs sirdma): while
 * fabrics have devices, ibv_get_device_list() and the queries of GIDs and
 * P_Keys are answered by them; everything else is the system's libibverbs.
 *
 * Time is in nanoseconds and begins at 0. It passes in sirdma_fabric_advance(),
 * sirdma_fabric_run_until_idle() and, if params.poll_ns is set, in polls that find
 * nothing. Posted work runs at once, packets arrive params.delay_ns later, timers
 * (retry, RNR) fire when they are due; a timer fires before a packet that is due at
 * the same time.
 * Waiting for an event in ibv_get_cq_event() lets no time pass: run the fabric first.
 *
 * Functions that return a pointer return NULL with errno set, functions that
 * return int return 0 or an errno. A fabric and all that is on it may be used by one
 * thread at a time; different fabrics are independent.
 */
#ifndef SIRDMA_TWIN_H
#define SIRDMA_TWIN_H

#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sirdma_fabric sirdma_fabric;
typedef struct sirdma_device sirdma_device;

#define SIRDMA_US(n) ((uint64_t)(n)*1000)
#define SIRDMA_MS(n) ((uint64_t)(n)*1000000)

struct sirdma_fabric_params {
	uint64_t seed; /* of QP numbers and keys that devices choose in this thread from now on */
	uint64_t delay_ns; /* time of a packet from sender to receiver, at least 1 */
	uint64_t poll_ns; /* time that passes in an ibv_poll_cq() without a result; 0: none */
};

/*
 * NULL means seed 1, a delay of 1000 ns, and 100 ns in an empty poll. Fails with ENOMEM or EINVAL.
 */
sirdma_fabric *sirdma_fabric_create(const struct sirdma_fabric_params *params);
/* Fails with EBUSY while the fabric has devices. */
int sirdma_fabric_destroy(sirdma_fabric *fabric);

uint64_t sirdma_fabric_now(const sirdma_fabric *fabric);
/* Let @ns pass: deliver the packets and fire the timers that are due by then. */
int sirdma_fabric_advance(sirdma_fabric *fabric, uint64_t ns);
/*
 * Let time pass until no packet is in flight and no timer is armed; a retry timer
 * whose request was answered meanwhile is not stopped, but expires. ETIMEDOUT when
 * exactly @max_ns have passed before that.
 */
int sirdma_fabric_run_until_idle(sirdma_fabric *fabric, uint64_t max_ns);

struct sirdma_device_params {
	const char *addr; /* IPv4 or IPv6 address, its GID; NULL: the first free from 10.0.0.1 on */
	uint32_t mtu; /* IP MTU in bytes, 1280 to 65535; 0: 4200, for a path MTU of 4096 */
};

/*
 * NULL means the defaults above. Fails with EADDRINUSE, EINVAL, ENOMEM, or ENOSYS for an unknown
 * libibverbs.
 */
sirdma_device *sirdma_device_create(sirdma_fabric *fabric,
				    const struct sirdma_device_params *params);
/* Fails with EBUSY while a context of the device is open. */
int sirdma_device_destroy(sirdma_device *device);
/* For ibv_open_device(). It lives as long as @device. */
struct ibv_device *sirdma_device_verbs(sirdma_device *device);
/* The only GID of the device, of index 0 on port 1. */
union ibv_gid sirdma_device_gid(const sirdma_device *device);
/* A counter by its name in `sirdma run --stats`, for example "retransmits". Fails with ENOENT. */
int sirdma_device_counter(sirdma_device *device, const char *name, uint64_t *value);

/* Opcodes of packets of reliable connections (IBTA vol. 1, 9.2.1). */
enum sirdma_opcode {
	SIRDMA_SEND_FIRST = 0x00,
	SIRDMA_SEND_MIDDLE = 0x01,
	SIRDMA_SEND_LAST = 0x02,
	SIRDMA_SEND_LAST_WITH_IMM = 0x03,
	SIRDMA_SEND_ONLY = 0x04,
	SIRDMA_SEND_ONLY_WITH_IMM = 0x05,
	SIRDMA_WRITE_FIRST = 0x06,
	SIRDMA_WRITE_MIDDLE = 0x07,
	SIRDMA_WRITE_LAST = 0x08,
	SIRDMA_WRITE_LAST_WITH_IMM = 0x09,
	SIRDMA_WRITE_ONLY = 0x0a,
	SIRDMA_WRITE_ONLY_WITH_IMM = 0x0b,
	SIRDMA_READ_REQUEST = 0x0c,
	SIRDMA_READ_RESPONSE_FIRST = 0x0d,
	SIRDMA_READ_RESPONSE_MIDDLE = 0x0e,
	SIRDMA_READ_RESPONSE_LAST = 0x0f,
	SIRDMA_READ_RESPONSE_ONLY = 0x10,
	SIRDMA_ACKNOWLEDGE =
		0x11, /* ACK and NAK; bits 6:5 of aeth_syndrome: 0 ACK, 1 RNR NAK, 3 NAK */
	SIRDMA_ATOMIC_ACKNOWLEDGE = 0x12,
	SIRDMA_COMPARE_SWAP = 0x13,
	SIRDMA_FETCH_ADD = 0x14,
	SIRDMA_FLUSH = 0x1c, /* this and the next: answered by SIRDMA_READ_RESPONSE_ONLY */
	SIRDMA_ATOMIC_WRITE = 0x1d,
	SIRDMA_ANY_OPCODE = -1,
};

/* A packet as it leaves its sender. */
struct sirdma_packet {
	uint64_t now; /* ns */
	const sirdma_device *from;
	const sirdma_device *to; /* NULL: no device has the address */
	uint32_t dest_qpn;
	uint32_t psn;
	uint8_t opcode;
	uint8_t aeth_syndrome; /* syndrome of a SIRDMA_ACKNOWLEDGE, else 0 */
	uint16_t length; /* number of bytes */
	const void *bytes; /* BTH, extended headers and payload, as on the wire */
};

enum sirdma_action {
	SIRDMA_PASS, /* the rule only counts the packet */
	SIRDMA_DROP,
	SIRDMA_DUPLICATE, /* a copy arrives delay_ns later */
	SIRDMA_DELAY, /* the packet arrives delay_ns later: later packets may overtake it */
	SIRDMA_CORRUPT, /* the packet arrives with a wrong ICRC */
};

/*
 * A packet matches a rule when it matches all members that are set. A rule counts
 * the packets that match it, and acts on @count of them from the @nth on. When
 * several rules would act on a packet, the one added first does.
 */
struct sirdma_rule {
	const sirdma_device *from; /* NULL: any sender */
	const sirdma_device *to; /* NULL: any receiver */
	int opcode; /* enum sirdma_opcode */
	int (*match)(const struct sirdma_packet *packet, void *context); /* NULL: any */
	void *context; /* argument of match */
	uint64_t nth; /* number of the first packet; the first one is 1; 0 means 1 */
	uint64_t count; /* 0: all packets from the nth on */
	enum sirdma_action action;
	uint64_t delay_ns;
};

/*
 * The number of the rule, from 0 on; -1 with errno (ENOMEM, EINVAL). match must not use the fabric.
 */
int sirdma_fabric_add_rule(sirdma_fabric *fabric, const struct sirdma_rule *rule);
/* How many packets rule @number acted on. Fails with EINVAL. */
int sirdma_fabric_rule_hits(const sirdma_fabric *fabric, int number, uint64_t *hits);
/* Remove all rules. The next one is number 0 again. */
void sirdma_fabric_clear_rules(sirdma_fabric *fabric);

#ifdef __cplusplus
} /* extern "C" */

#include <cerrno>
#include <memory>
#include <system_error>

/*
 * The same interface as classes that own the objects that they create. Constructors and add() throw
 * std::system_error.
 */
namespace sirdma
{

class Fabric {
public:
	explicit Fabric(const sirdma_fabric_params *params = nullptr)
		: fabric_(sirdma_fabric_create(params))
	{
		if (!fabric_)
			throw std::system_error(errno, std::generic_category(),
						"sirdma_fabric_create");
	}

	sirdma_fabric *get() const noexcept { return fabric_.get(); }
	uint64_t now() const noexcept { return sirdma_fabric_now(get()); }
	void advance(uint64_t ns) { sirdma_fabric_advance(get(), ns); }
	/* Returns false if packets or timers are left after @max_ns. */
	bool run_until_idle(uint64_t max_ns)
	{
		return !sirdma_fabric_run_until_idle(get(), max_ns);
	}

	int add(const sirdma_rule &rule)
	{
		const int number = sirdma_fabric_add_rule(get(), &rule);

		if (number < 0)
			throw std::system_error(errno, std::generic_category(),
						"sirdma_fabric_add_rule");
		return number;
	}
	uint64_t hits(int rule) const
	{
		uint64_t n = 0;

		sirdma_fabric_rule_hits(get(), rule, &n);
		return n;
	}

private:
	struct Destroy {
		void operator()(sirdma_fabric *fabric) const { sirdma_fabric_destroy(fabric); }
	};
	std::unique_ptr<sirdma_fabric, Destroy> fabric_;
};

/* The owner destroys the device before its fabric. */
class FabricDevice {
public:
	explicit FabricDevice(Fabric &fabric, const sirdma_device_params *params = nullptr)
		: device_(sirdma_device_create(fabric.get(), params))
	{
		if (!device_)
			throw std::system_error(errno, std::generic_category(),
						"sirdma_device_create");
	}

	sirdma_device *get() const noexcept { return device_.get(); }
	ibv_device *verbs() const noexcept { return sirdma_device_verbs(get()); }
	ibv_gid gid() const noexcept { return sirdma_device_gid(get()); }
	uint64_t counter(const char *name) const
	{
		uint64_t value = 0;

		if (const int err = sirdma_device_counter(get(), name, &value))
			throw std::system_error(err, std::generic_category(), name);
		return value;
	}

private:
	struct Destroy {
		void operator()(sirdma_device *device) const { sirdma_device_destroy(device); }
	};
	std::unique_ptr<sirdma_device, Destroy> device_;
};

} // namespace sirdma
#endif

#endif
