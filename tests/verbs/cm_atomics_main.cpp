/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Many requesters change the same two words by RDMA atomics at a time:
 *   cm_atomics serve ADDRESS PORT REQUESTERS COUNT
 *   cm_atomics request ADDRESS PORT COUNT
 * The server has the words. When all requesters are connected, each adds 1 to one word COUNT times by
 * FETCH_ADD, and to the other one COUNT times by CMP_SWAP, which it repeats until nobody was faster. The
 * server's own CPU does so too if the device is atomic against it (IBV_ATOMIC_GLOB). It exits with 0
 * when both sums are exact.
 */
#include <atomic>
#include <string>

#include <rdma/rdma_verbs.h>

#include "cm_example.hpp"

namespace
{

using namespace example;

struct alignas(64) Words {
	uint64_t added = 0, swapped = 0;
};

struct Key {
	uint64_t addr;
	uint32_t rkey;
};

constexpr uint8_t window = 4; /* atomics of a requester that are outstanding */

rdma_addrinfo *resolve(const char *address, const char *port, int flags)
{
	rdma_addrinfo hints{}, *found;

	hints.ai_flags = flags;
	hints.ai_port_space = RDMA_PS_TCP;
	check(!rdma_getaddrinfo(address, port, &hints, &found), "rdma_getaddrinfo");
	return found;
}

rdma_cm_id *endpoint(rdma_addrinfo *of)
{
	ibv_qp_init_attr init{};
	rdma_cm_id *id;

	init.qp_type = IBV_QPT_RC;
	init.cap.max_send_wr = init.cap.max_recv_wr = queue_depth;
	init.cap.max_send_sge = init.cap.max_recv_sge = 1;
	init.sq_sig_all = 1;
	check(!rdma_create_ep(&id, of, nullptr, &init), "rdma_create_ep");
	rdma_freeaddrinfo(of);
	return id;
}

rdma_conn_param parameters()
{
	rdma_conn_param param = conn_param();

	param.responder_resources = param.initiator_depth = window;
	return param;
}

/* Messages have no data: the first says that all are connected, the answer that its sender is done. */
void expect_message(rdma_cm_id *id)
{
	check(!rdma_post_recvv(id, nullptr, nullptr, 0), "rdma_post_recvv");
}

void await(rdma_cm_id *id, int (*next)(rdma_cm_id *, ibv_wc *))
{
	ibv_wc wc{};

	check(next(id, &wc) > 0, "a completion");
	if (wc.status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "a completion with status %d: %s\n", wc.status,
		ibv_wc_status_str(wc.status));
	exit(1);
}

void send_message(rdma_cm_id *id)
{
	check(!rdma_post_sendv(id, nullptr, nullptr, 0, 0), "rdma_post_sendv");
	await(id, rdma_get_send_comp);
}

/* What the requesters do, by the server's own CPU. */
void change_words(Words &words, uint64_t count)
{
	std::atomic_ref<uint64_t> added(words.added), swapped(words.swapped);

	for (uint64_t i = 0; i < count; ++i) {
		uint64_t seen = swapped.load();

		added.fetch_add(1);
		while (!swapped.compare_exchange_weak(seen, seen + 1)) {}
	}
}

bool has_cpu_atomics(ibv_context *context)
{
	ibv_device_attr attr;

	check(!ibv_query_device(context, &attr), "ibv_query_device");
	return attr.atomic_cap == IBV_ATOMIC_GLOB;
}

int serve(const char *address, const char *port, unsigned requesters, uint64_t count)
{
	rdma_cm_id *listener = endpoint(resolve(address, port, RAI_PASSIVE));
	std::vector<rdma_cm_id *> ids(requesters);
	std::vector<ibv_mr *> mrs(requesters);
	uint64_t sum = requesters * count;
	Words words;

	check(!rdma_listen(listener, static_cast<int>(requesters)), "rdma_listen");
	for (unsigned i = 0; i < requesters; ++i) {
		rdma_conn_param param = parameters();

		check(!rdma_get_request(listener, &ids[i]), "rdma_get_request");
		mrs[i] = ibv_reg_mr(ids[i]->pd, &words, sizeof(words),
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		check(mrs[i], "ibv_reg_mr");

		const Key key = {reinterpret_cast<uintptr_t>(&words), mrs[i]->rkey};

		param.private_data = &key;
		param.private_data_len = sizeof(key);
		expect_message(ids[i]);
		check(!rdma_accept(ids[i], &param), "rdma_accept");
	}
	for (auto *id : ids)
		send_message(id);
	if (has_cpu_atomics(ids[0]->verbs)) {
		change_words(words, count);
		sum += count;
	}
	for (auto *id : ids)
		await(id, rdma_get_recv_comp);
	for (unsigned i = 0; i < requesters; ++i) {
		rdma_disconnect(ids[i]);
		check(!ibv_dereg_mr(mrs[i]), "ibv_dereg_mr");
		rdma_destroy_ep(ids[i]);
	}
	rdma_destroy_ep(listener);
	printf("added %llu swapped %llu of %llu\n", static_cast<unsigned long long>(words.added),
	       static_cast<unsigned long long>(words.swapped),
	       static_cast<unsigned long long>(sum));
	return words.added != sum || words.swapped != sum;
}

class Requester {
public:
	Requester(const char *address, const char *port) : id_(endpoint(resolve(address, port, 0)))
	{
		rdma_conn_param param = parameters();

		mr_ = ibv_reg_mr(id_->pd, results_, sizeof(results_), IBV_ACCESS_LOCAL_WRITE);
		check(mr_, "ibv_reg_mr");
		expect_message(id_);
		check(!rdma_connect(id_, &param), "rdma_connect");
		if (id_->event->param.conn.private_data_len < sizeof(key_)) {
			fprintf(stderr, "the server names no region\n");
			exit(1);
		}
		memcpy(&key_, id_->event->param.conn.private_data, sizeof(key_));
		await(id_, rdma_get_recv_comp);
	}

	~Requester()
	{
		rdma_disconnect(id_);
		check(!ibv_dereg_mr(mr_), "ibv_dereg_mr");
		rdma_destroy_ep(id_);
	}

	Requester(const Requester &) = delete;
	Requester &operator=(const Requester &) = delete;

	/* Results of one requester's additions grow, since its requests are executed in order. */
	void add(uint64_t count)
	{
		uint64_t least = 0, posted = 0;

		for (uint64_t done = 0; done < count; ++done) {
			while (posted < count && posted - done < window)
				post(IBV_WR_ATOMIC_FETCH_AND_ADD, offsetof(Words, added), 1, 0,
				     posted++ % window);
			await(id_, rdma_get_send_comp);

			const uint64_t result = results_[done % window];

			if (result < least) {
				fprintf(stderr, "the word was %llu after it was %llu\n",
					static_cast<unsigned long long>(result),
					static_cast<unsigned long long>(least - 1));
				exit(1);
			}
			least = result + 1;
		}
	}

	/* Returns how often another one was faster. */
	uint64_t swap(uint64_t count)
	{
		uint64_t seen = 0, lost = 0;

		for (uint64_t done = 0; done < count;) {
			post(IBV_WR_ATOMIC_CMP_AND_SWP, offsetof(Words, swapped), seen, seen + 1,
			     0);
			await(id_, rdma_get_send_comp);
			if (results_[0] == seen) {
				++seen;
				++done;
			} else {
				seen = results_[0];
				++lost;
			}
		}
		return lost;
	}

	void finish() { send_message(id_); }

private:
	void post(ibv_wr_opcode opcode, size_t word, uint64_t compare_add, uint64_t swap,
		  uint64_t result)
	{
		ibv_sge sge = {.addr = reinterpret_cast<uintptr_t>(&results_[result]),
			       .length = sizeof(results_[0]),
			       .lkey = mr_->lkey};
		ibv_send_wr wr{}, *bad;

		wr.opcode = opcode;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = key_.addr + word;
		wr.wr.atomic.rkey = key_.rkey;
		wr.wr.atomic.compare_add = compare_add;
		wr.wr.atomic.swap = swap;
		check(!(errno = ibv_post_send(id_->qp, &wr, &bad)), "ibv_post_send");
	}

	rdma_cm_id *const id_;
	ibv_mr *mr_;
	Key key_{};
	uint64_t results_[window]{};
};

} // namespace

int main(int argc, char **argv)
{
	const std::string what = argc > 1 ? argv[1] : "";

	if (what == "serve" && argc == 6)
		return serve(argv[2], argv[3], static_cast<unsigned>(atoi(argv[4])),
			     strtoull(argv[5], nullptr, 0));
	if (what != "request" || argc != 5) {
		fprintf(stderr, "cm_atomics serve ADDRESS PORT REQUESTERS COUNT\n"
				"cm_atomics request ADDRESS PORT COUNT\n");
		return 2;
	}

	const uint64_t count = strtoull(argv[4], nullptr, 0);
	Requester requester(argv[2], argv[3]);

	requester.add(count);
	printf("lost %llu swaps\n", static_cast<unsigned long long>(requester.swap(count)));
	requester.finish();
	return 0;
}
