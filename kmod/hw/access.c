// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Checks of the access rights and memory regions that applications ask for. */
#include "access.h"

#define SUPPORTED \
	(SIRDMA_VERBS_LOCAL_WRITE | SIRDMA_VERBS_REMOTE_WRITE | SIRDMA_VERBS_REMOTE_READ | \
	 SIRDMA_VERBS_REMOTE_ATOMIC | SIRDMA_VERBS_MW_BIND | SIRDMA_VERBS_FLUSH_GLOBAL)

/* The right of the device that each flag of the verbs API asks for. */
static const struct {
	u32 flag;
	u8 right;
} rights[] = {
	{SIRDMA_VERBS_LOCAL_WRITE, SIRDMA_ACCESS_LOCAL_WRITE},
	{SIRDMA_VERBS_REMOTE_WRITE, SIRDMA_ACCESS_REMOTE_WRITE},
	{SIRDMA_VERBS_REMOTE_READ, SIRDMA_ACCESS_REMOTE_READ},
	{SIRDMA_VERBS_REMOTE_ATOMIC, SIRDMA_ACCESS_REMOTE_ATOMIC},
	{SIRDMA_VERBS_FLUSH_GLOBAL, SIRDMA_ACCESS_REMOTE_FLUSH},
};

static u32 rights_of(u32 flags)
{
	u32 i, access = 0;

	for (i = 0; i < ARRAY_SIZE(rights); i++)
		if (flags & rights[i].flag)
			access |= rights[i].right;
	return access;
}

static bool wraps(u64 first, u64 length)
{
	return first + (length - 1) < first;
}

struct check {
	bool bad;
	int err;
	const char *why;
};

/* The errno of the first failed check, or 0. */
static int first_bad(const struct check *checks, u32 count, const char **why)
{
	u32 i;

	for (i = 0; i < count; i++) {
		if (checks[i].bad) {
			*why = checks[i].why;
			return checks[i].err;
		}
	}
	return 0;
}

int sirdma_region_access_check(u32 access, const char **why)
{
	const u32 remote_change = SIRDMA_VERBS_REMOTE_WRITE | SIRDMA_VERBS_REMOTE_ATOMIC;
	const struct check checks[] = {
		/* IBTA 10.6.3.1: remote write and remote atomics need local write. */
		{(access & remote_change) && !(access & SIRDMA_VERBS_LOCAL_WRITE), -EINVAL,
		 "remote writes and atomics need local writes"},
		{access & ~(SIRDMA_VERBS_ACCESS_KNOWN | SIRDMA_VERBS_ACCESS_OPTIONAL), -EINVAL,
		 "an access flag is unknown"},
		{access & ~(SUPPORTED | SIRDMA_VERBS_ZERO_BASED | SIRDMA_VERBS_ACCESS_OPTIONAL),
		 -EOPNOTSUPP, "an access flag is not supported"},
	};

	return first_bad(checks, ARRAY_SIZE(checks), why);
}

int sirdma_region_check(const struct sirdma_region *region, const char **why)
{
	const struct check checks[] = {
		{!region->length, -EINVAL, "no bytes"},
		{region->length > SIRDMA_MAX_MR_SIZE, -EINVAL, "longer than a region can be"},
		{wraps(region->start, region->length), -EINVAL, "the addresses wrap around"},
		{wraps(region->iova, region->length), -EINVAL, "the iova range wraps around"},
		/* The device maps whole blocks, of this size at least. */
		{(region->start ^ region->iova) & (SIRDMA_PAGE_SIZE - 1), -EINVAL,
		 "address and iova differ in their place in a page"},
	};
	int err = sirdma_region_access_check(region->access, why);

	return err ? err : first_bad(checks, ARRAY_SIZE(checks), why);
}

int sirdma_region_change(struct sirdma_region *region, u32 flags, const struct sirdma_region *to,
			 const char **why)
{
	const struct check checks[] = {
		{!flags, -EINVAL, "nothing is to change"},
		{flags & ~SIRDMA_REREG_KNOWN, -EOPNOTSUPP, "a change is unknown"},
	};
	struct sirdma_region next = flags & SIRDMA_REREG_TRANSLATION ? *to : *region;
	int err;

	next.access = flags & SIRDMA_REREG_ACCESS ? to->access : region->access;
	err = first_bad(checks, ARRAY_SIZE(checks), why);
	if (!err)
		err = sirdma_region_check(&next, why);
	if (!err)
		*region = next;
	return err;
}

u8 sirdma_region_rights(u32 access)
{
	u32 rights = SIRDMA_ACCESS_LOCAL_READ | rights_of(access);

	/* A window must lie in a region that is addressed as its memory, as on other devices. */
	if ((access & SIRDMA_VERBS_MW_BIND) && !(access & SIRDMA_VERBS_ZERO_BASED))
		rights |= SIRDMA_ACCESS_BIND_WINDOW;
	return (u8)rights;
}

/*
 * No region may be flushed for persistence, whatever its QP permits, and the flags that describe memory
 * say nothing of a QP. They change nothing, as on other devices.
 */
int sirdma_qp_access_check(u32 flags)
{
	return flags & ~(SIRDMA_VERBS_ACCESS_KNOWN | SIRDMA_VERBS_ACCESS_OPTIONAL) ? -EINVAL : 0;
}

u32 sirdma_qp_access_to_hw(u32 flags)
{
	return rights_of(flags & ~SIRDMA_VERBS_LOCAL_WRITE);
}

u32 sirdma_qp_access_from_hw(u32 access)
{
	u32 i, flags = 0;

	for (i = 0; i < ARRAY_SIZE(rights); i++)
		if (access & rights[i].right)
			flags |= rights[i].flag;
	if (flags & SIRDMA_VERBS_REMOTE_WRITE)
		flags |= SIRDMA_VERBS_LOCAL_WRITE;
	return flags;
}
