// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * An MPI program that checks every byte it receives: point to point, alltoall, allreduce, and
 * one-sided communication with fences and with locks.
 *
 *	mpi_check [ROUNDS [LARGEST]]	LARGEST: elements of the largest messages
 *
 * Rank 0 prints one line with the number of ranks, hosts and checks. The exit status is 1 when
 * anything was wrong. The scenarios compile it with the mpicc of each MPI.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long checks, wrong;

/*
 * The value of element i of the message from one rank to another in a round. It is below 2^31:
 * MPICH 4.0.2 compares unsigned elements as if they were signed (MPI_MAX of 2^32 - 1 and 1 is 1,
 * over TCP as well).
 */
static uint32_t pattern(int from, int to, int round, int i)
{
	uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)from * 40503u + (uint32_t)to * 9176u +
		     (uint32_t)round * 65537u;

	return (x ^ (x >> 15)) & 0x7fffffff;
}

static void expect(int is_right, const char *what, int round, int size)
{
	checks++;
	if (is_right)
		return;
	wrong++;
	fprintf(stderr, "rank %d: wrong data: %s, round %d, %d elements\n", rank, what, round,
		size);
}

static uint32_t *elements(int count)
{
	uint32_t *p = calloc(count > 0 ? count : 1, sizeof(*p));

	if (!p)
		MPI_Abort(MPI_COMM_WORLD, 2);
	return p;
}

static void fill(uint32_t *p, int from, int to, int round, int count)
{
	int i;

	for (i = 0; i < count; i++)
		p[i] = pattern(from, to, round, i);
}

static int holds(const uint32_t *p, int from, int to, int round, int count)
{
	int i;

	for (i = 0; i < count; i++)
		if (p[i] != pattern(from, to, round, i))
			return 0;
	return 1;
}

/* Each rank has a message to and from each other one in flight at once. */
static void check_messages(int round, int count)
{
	MPI_Request requests[2 * ranks];
	uint32_t *out = elements(count * ranks), *in = elements(count * ranks);
	int r;

	for (r = 0; r < ranks; r++)
		MPI_Irecv(in + r * count, count, MPI_UINT32_T, r, count % 1000, MPI_COMM_WORLD,
			  &requests[r]);
	for (r = 0; r < ranks; r++) {
		fill(out + r * count, rank, r, round, count);
		MPI_Isend(out + r * count, count, MPI_UINT32_T, r, count % 1000, MPI_COMM_WORLD,
			  &requests[ranks + r]);
	}
	MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
	for (r = 0; r < ranks; r++)
		expect(holds(in + r * count, r, rank, round, count), "message", round, count);
	free(out);
	free(in);
}

static void check_alltoall(int round, int count)
{
	uint32_t *out = elements(count * ranks), *in = elements(count * ranks);
	int r;

	for (r = 0; r < ranks; r++)
		fill(out + r * count, rank, r, round, count);
	MPI_Alltoall(out, count, MPI_UINT32_T, in, count, MPI_UINT32_T, MPI_COMM_WORLD);
	for (r = 0; r < ranks; r++)
		expect(holds(in + r * count, r, rank, round, count), "alltoall", round, count);
	free(out);
	free(in);
}

static void check_allreduce(int round, int count)
{
	uint32_t *out = elements(count), *sum = elements(count), *max = elements(count);
	int is_right = 1, i, r;

	fill(out, rank, 0, round, count);
	MPI_Allreduce(out, sum, count, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	MPI_Allreduce(out, max, count, MPI_UINT32_T, MPI_MAX, MPI_COMM_WORLD);
	for (i = 0; i < count && is_right; i++) {
		uint32_t want_sum = 0, want_max = 0, value;

		for (r = 0; r < ranks; r++) {
			value = pattern(r, 0, round, i);
			want_sum += value;
			want_max = value > want_max ? value : want_max;
		}
		is_right = sum[i] == want_sum && max[i] == want_max;
	}
	expect(is_right, "allreduce", round, count);
	free(out);
	free(sum);
	free(max);
}

/* Put to the next rank, get from it, and add to the window of every rank, with fences. */
static void check_fences(int round, int count)
{
	int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, i, r, is_right = 1;
	uint32_t *window, *put = elements(count), *got = elements(count);
	MPI_Win win;

	MPI_Win_allocate((MPI_Aint)count * sizeof(*window), sizeof(*window), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &window, &win);
	fill(put, rank, next, round, count);
	MPI_Win_fence(0, win);
	MPI_Put(put, count, MPI_UINT32_T, next, 0, count, MPI_UINT32_T, win);
	MPI_Win_fence(0, win);
	expect(holds(window, before, rank, round, count), "put", round, count);
	MPI_Win_fence(0, win);
	MPI_Get(got, count, MPI_UINT32_T, next, 0, count, MPI_UINT32_T, win);
	MPI_Win_fence(0, win);
	expect(holds(got, rank, next, round, count), "get", round, count);

	for (r = 0; r < ranks; r++)
		MPI_Accumulate(put, count, MPI_UINT32_T, r, 0, count, MPI_UINT32_T, MPI_SUM, win);
	MPI_Win_fence(0, win);
	for (i = 0; i < count && is_right; i++) {
		uint32_t want = pattern(before, rank, round, i);

		for (r = 0; r < ranks; r++)
			want += pattern(r, (r + 1) % ranks, round, i);
		is_right = window[i] == want;
	}
	expect(is_right, "accumulate", round, count);
	MPI_Win_free(&win);
	free(put);
	free(got);
}

/* All ranks draw tickets from a counter of rank 0, and write a slot of the last rank. */
static void check_locks(int round)
{
	uint64_t *window, one = 1, ticket, last = 0, mine = 1000u * (rank + 1) + round, got = 0;
	const int draws = 10, owner = ranks - 1;
	MPI_Win win;
	int i;

	MPI_Win_allocate((MPI_Aint)(ranks + 1) * sizeof(*window), sizeof(*window), MPI_INFO_NULL,
			 MPI_COMM_WORLD, &window, &win);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
	memset(window, 0, (ranks + 1) * sizeof(*window));
	MPI_Win_unlock(rank, win);
	MPI_Barrier(MPI_COMM_WORLD);

	for (i = 0; i < draws; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
		MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, 0, MPI_SUM, win);
		MPI_Win_unlock(0, win);
		expect(ticket >= last && ticket < (uint64_t)draws * ranks, "ticket", round, i);
		last = ticket + 1;
	}
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, owner, 0, win);
	MPI_Put(&mine, 1, MPI_UINT64_T, owner, 1 + rank, 1, MPI_UINT64_T, win);
	MPI_Win_flush(owner, win);
	MPI_Get(&got, 1, MPI_UINT64_T, owner, 1 + rank, 1, MPI_UINT64_T, win);
	MPI_Win_unlock(owner, win);
	expect(got == mine, "get after put", round, 1);
	MPI_Barrier(MPI_COMM_WORLD);

	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Get(&got, 1, MPI_UINT64_T, 0, 0, 1, MPI_UINT64_T, win);
	MPI_Win_unlock(0, win);
	expect(got == (uint64_t)draws * ranks, "sum of the tickets", round, draws);
	MPI_Win_free(&win);
}

/* The number of hosts that the ranks are on */
static int hosts(void)
{
	char name[MPI_MAX_PROCESSOR_NAME] = "", *names;
	int length, count = 0, i, j;

	names = calloc(ranks, sizeof(name));
	if (!names)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Get_processor_name(name, &length);
	MPI_Allgather(name, sizeof(name), MPI_CHAR, names, sizeof(name), MPI_CHAR, MPI_COMM_WORLD);
	for (i = 0; i < ranks; i++) {
		for (j = 0; j < i && strcmp(names + i * sizeof(name), names + j * sizeof(name));
		     j++)
			;
		count += j == i;
	}
	free(names);
	return count;
}

int main(int argc, char **argv)
{
	static const int sizes[] = {1, 1000, 5000, 70000, 300000};
	long mine[2], all[2] = {0, 0};
	int rounds = argc > 1 ? atoi(argv[1]) : 2, largest = argc > 2 ? atoi(argv[2]) : 300000;
	int on, round;
	size_t i;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	on = hosts();
	for (round = 0; round < rounds; round++) {
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= largest; i++) {
			check_messages(round, sizes[i]);
			check_alltoall(round, sizes[i]);
			check_allreduce(round, sizes[i]);
			check_fences(round, sizes[i]);
		}
		check_locks(round);
	}
	mine[0] = checks;
	mine[1] = wrong;
	MPI_Allreduce(mine, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("mpi_check: %d ranks on %d hosts, %ld checks, %ld wrong\n", ranks, on,
		       all[0], all[1]);
	MPI_Finalize();
	return all[1] != 0;
}
