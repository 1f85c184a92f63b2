/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The private entry points of a libibverbs, with nothing behind them. Places and
 * sizes are those of the real headers, given by the build: NUMBER, CONTEXT_SIZE,
 * WITH_FDS, MARK, and ALLOC_PD, POLL_CQ, REREG_MR in the table of operations.
 */
#include <stdlib.h>

#include <infiniband/verbs.h>

#include <sirdma/abi.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

typedef void operation(void);

const void *stub_registered;

void JOIN(verbs_register_driver_, NUMBER)(const void *ops)
{
	stub_registered = ops;
}

#ifdef MARK
int ibv_query_port_speed(struct ibv_context *context, uint32_t port_num, uint64_t *speed)
{
	return 0;
}
#endif

static struct ibv_context *public_part(void *context)
{
	return (void *)((char *)context + CONTEXT_SIZE - sizeof(struct ibv_context));
}

void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t size,
				    void *offset, uint32_t driver_id)
{
	char *memory = calloc(1, size);
	struct ibv_context *context = public_part(memory + (size_t)offset);

	((size_t *)context)[-1] = CONTEXT_SIZE;
	context->cmd_fd = cmd_fd;
	return memory;
}

void verbs_set_ops(void *context, operation *const *ops)
{
	struct ibv_context_ops *has = &public_part(context)->ops;

	has->_compat_alloc_pd = (void *(*)(void))ops[ALLOC_PD];
	has->poll_cq = (int (*)(struct ibv_cq *, int, struct ibv_wc *))ops[POLL_CQ];
	has->_compat_rereg_mr = (void *(*)(void))ops[REREG_MR];
}

void verbs_uninit_context(void *context) {}

/* The kernel's parts, and the driver's behind them. */
#define CMD_SIZE (16 + sizeof(struct sirdma_alloc_ucontext_req))
#define RESP_SIZE (8 + sizeof(struct sirdma_alloc_ucontext_resp))

/* 0 when it was called as the header says. */
#if WITH_FDS
int ibv_cmd_get_context(void *context, void *cmd, size_t cmd_size, void *fd_arr, void *resp,
			size_t resp_size)
{
	return fd_arr || cmd_size != CMD_SIZE || resp_size != RESP_SIZE ||
	       ((size_t *)public_part(context))[-1] != CONTEXT_SIZE;
}
#else
int ibv_cmd_get_context(void *context, void *cmd, size_t cmd_size, void *resp, size_t resp_size)
{
	return cmd_size != CMD_SIZE || resp_size != RESP_SIZE ||
	       ((size_t *)public_part(context))[-1] != CONTEXT_SIZE;
}
#endif

#define UNUSED(name) \
	int name(void) \
	{ \
		return -1; \
	}
UNUSED(ibv_cmd_query_device_any)
UNUSED(ibv_cmd_query_port)
UNUSED(ibv_cmd_alloc_pd)
UNUSED(ibv_cmd_dealloc_pd)
UNUSED(ibv_cmd_reg_mr)
UNUSED(ibv_cmd_rereg_mr)
UNUSED(ibv_cmd_dereg_mr)
UNUSED(ibv_cmd_alloc_mw)
UNUSED(ibv_cmd_dealloc_mw)
UNUSED(ibv_cmd_create_cq)
UNUSED(ibv_cmd_resize_cq)
UNUSED(ibv_cmd_modify_cq)
UNUSED(ibv_cmd_destroy_cq)
UNUSED(ibv_cmd_create_qp)
UNUSED(ibv_cmd_create_qp_ex)
UNUSED(ibv_cmd_open_qp)
UNUSED(ibv_cmd_query_qp)
UNUSED(ibv_cmd_modify_qp)
UNUSED(ibv_cmd_create_srq)
UNUSED(ibv_cmd_create_srq_ex)
UNUSED(ibv_cmd_modify_srq)
UNUSED(ibv_cmd_query_srq)
UNUSED(ibv_cmd_destroy_srq)
UNUSED(ibv_cmd_create_ah)
UNUSED(ibv_cmd_destroy_ah)
UNUSED(ibv_cmd_attach_mcast)
UNUSED(ibv_cmd_detach_mcast)
UNUSED(ibv_cmd_open_xrcd)
UNUSED(ibv_cmd_close_xrcd)
#ifndef INCOMPLETE
UNUSED(ibv_cmd_destroy_qp)
#endif
