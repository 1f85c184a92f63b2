// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bus.h"

#include <linux/gfp.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include "addr.h"
#include "cpu.h"
#include "dev.h"
#include "host.h"
#include "model/snic.h"
#include "napi.h"
#include "host/trace.h"
#include "sirdma/roce.h"

/* Memory of dma_alloc(). DMA addresses of this bus are kernel virtual addresses. */
struct snic_block {
	struct list_head node;
	void *va; /* address that dma_alloc() returned */
	void *raw; /* address that the kernel allocated */
	unsigned int order; /* order of raw, if raw is pages */
	bool is_pages;
};

static u32 snic_bus_read32(struct sirdma_bus *bus, u32 reg)
{
	return snic_reg_read(snic_host_of(bus)->dev, reg);
}

static void snic_bus_write32(struct sirdma_bus *bus, u32 reg, u32 val)
{
	struct snic_host *host = snic_host_of(bus);

	trace_snic_reg_write(host->ndev, reg, val);
	/* The model sees, on any CPU, what the driver wrote to rings before the doorbell. */
	smp_wmb();
	switch (reg) {
	case SIRDMA_REG_CQPDB:
	case SIRDMA_REG_CCQPHIGH:
	case SIRDMA_REG_CTRL:
		might_sleep();
		snic_reg_write(host->dev, reg, val);
		snic_addr_sync(host);
		break;
	case SIRDMA_REG_PBLESYNC:
		/* It waits for the locks of a protection domain's queue pairs, and leaves no work behind. */
		might_sleep();
		snic_reg_write(host->dev, reg, val);
		break;
	default:
		snic_enter();
		snic_reg_write(host->dev, reg, val);
		snic_leave();
	}
}

static u64 snic_bus_align(u64 size)
{
	return clamp_t(u64, roundup_pow_of_two(size), PAGE_SIZE, SZ_2M);
}

static int snic_block_alloc(struct snic_block *block, u64 size, u64 align)
{
	/* No cgroup is charged: page lists of many users lie side by side in this memory. */
	gfp_t gfp = port_mutex_gfp(size) | __GFP_ZERO;
	unsigned int order = get_order(size);

	/*
	 * Under a port_mutex memory is not compacted, and without that reclaim hardly frees pages side by
	 * side. Those that are kept for interrupts are left alone.
	 */
	if (order)
		gfp = (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOMEMALLOC;

	/* Pages are aligned to their size, unless memory itself starts unaligned. */
	if (size <= SZ_2M) {
		block->raw = (void *)__get_free_pages(gfp, order);
		if (block->raw && IS_ALIGNED((unsigned long)block->raw, align)) {
			block->va = block->raw;
			block->order = order;
			block->is_pages = true;
			return 0;
		}
		free_pages((unsigned long)block->raw, order);
	}
	if (!order)
		return -ENOMEM;
	block->raw = __vmalloc(size + align - PAGE_SIZE,
			       port_mutex_gfp(size + align - PAGE_SIZE) | __GFP_ZERO);
	if (!block->raw)
		return -ENOMEM;
	block->va = PTR_ALIGN(block->raw, align);
	block->is_pages = false;
	return 0;
}

static void snic_block_free(struct snic_block *block)
{
	if (block->is_pages)
		free_pages((unsigned long)block->raw, block->order);
	else
		vfree(block->raw);
	kfree(block);
}

static int snic_bus_dma_alloc(struct sirdma_bus *base, u64 size, struct sirdma_dma_mem *mem)
{
	struct snic_bus *bus = &snic_host_of(base)->bus;
	struct snic_block *block;
	unsigned int scope;
	int err;

	if (!size || size > SZ_1G)
		return -ENOMEM;
	block = kzalloc(sizeof(*block), port_mutex_gfp(sizeof(*block)));
	if (!block)
		return -ENOMEM;
	scope = memalloc_noio_save();
	err = snic_block_alloc(block, PAGE_ALIGN(size), snic_bus_align(size));
	memalloc_noio_restore(scope);
	if (err) {
		kfree(block);
		return err;
	}
	mutex_lock(&bus->lock);
	list_add(&block->node, &bus->blocks);
	mutex_unlock(&bus->lock);
	mem->va = block->va;
	mem->pa = (uintptr_t)block->va;
	mem->size = size;
	return 0;
}

static void snic_bus_dma_free(struct sirdma_bus *base, struct sirdma_dma_mem *mem)
{
	struct snic_bus *bus = &snic_host_of(base)->bus;
	struct snic_block *block, *found = NULL;

	if (!mem->va)
		return;
	mutex_lock(&bus->lock);
	list_for_each_entry(block, &bus->blocks, node) {
		if (block->va == mem->va) {
			list_del(&block->node);
			found = block;
			break;
		}
	}
	mutex_unlock(&bus->lock);
	if (WARN_ON_ONCE(!found))
		return;
	snic_block_free(found);
	memset(mem, 0, sizeof(*mem));
}

void snic_bus_irq(struct snic_host *host, u32 index)
{
	if (index >= host->bus.base.num_vectors)
		return;
	snic_napi_schedule(&host->bus.vectors[index].napi);
}

static int snic_vector_poll(struct napi_struct *napi, int budget)
{
	struct snic_vector *vector = container_of(napi, struct snic_vector, napi);
	u64 start = ktime_get_ns();
	u32 done;

	trace_snic_irq(vector->host->ndev, vector->index);
	done = vector->fn(vector->ctx, vector->index, budget);
	return snic_napi_polled(napi, start, budget, done >= (u32)budget);
}

static int snic_bus_irq_request(struct sirdma_bus *base, u32 index, sirdma_irq_fn fn, void *ctx)
{
	struct snic_bus *bus = &snic_host_of(base)->bus;
	struct snic_vector *vector;
	int err = -EBUSY;

	if (index >= base->num_vectors || !fn)
		return -EINVAL;
	vector = &bus->vectors[index];
	mutex_lock(&bus->irq_lock);
	if (!vector->fn) {
		vector->ctx = ctx;
		vector->fn = fn;
		napi_enable(&vector->napi);
		err = 0;
	}
	mutex_unlock(&bus->irq_lock);
	return err;
}

static void snic_bus_irq_free(struct sirdma_bus *base, u32 index)
{
	struct snic_bus *bus = &snic_host_of(base)->bus;

	if (index >= base->num_vectors)
		return;
	mutex_lock(&bus->irq_lock);
	if (bus->vectors[index].fn) {
		napi_disable(&bus->vectors[index].napi);
		bus->vectors[index].fn = NULL;
	}
	mutex_unlock(&bus->irq_lock);
}

/*
 * Doorbells are RAM that the device does not read. A provider that kicks does not store to them
 * either: need_kick words tell it when to wake the device. Providers that do not kick have another
 * page (drv/doorbell.h).
 */
static int snic_bus_db_alloc(struct sirdma_bus *base, struct sirdma_bus_db *db)
{
	unsigned long page = get_zeroed_page(GFP_KERNEL_ACCOUNT);

	if (!page)
		return -ENOMEM;
	db->phys = virt_to_phys((void *)page);
	db->is_io = false;
	return 0;
}

static void snic_bus_db_free(struct sirdma_bus *base, const struct sirdma_bus_db *db)
{
	free_page((unsigned long)phys_to_virt(db->phys));
}

static void snic_bus_doorbell(struct sirdma_bus *base, u32 qpn)
{
	struct snic_host *host = snic_host_of(base);

	snic_qp_ring(host->dev, qpn);
	if (qpn == SIRDMA_GSI_QPN) {
		snic_defer_gsi(host);
		return;
	}
	snic_qpset_add(&host->deferred, qpn);
	snic_cpu_schedule();
}

static const struct sirdma_bus_ops snic_bus_ops = {
	.read32 = snic_bus_read32,
	.write32 = snic_bus_write32,
	.dma_alloc = snic_bus_dma_alloc,
	.dma_free = snic_bus_dma_free,
	.irq_request = snic_bus_irq_request,
	.irq_free = snic_bus_irq_free,
	.kick = snic_host_kick,
	.doorbell = snic_bus_doorbell,
	.db_alloc = snic_bus_db_alloc,
	.db_free = snic_bus_db_free,
	.link_update = snic_host_update,
	.destroy = snic_host_destroy,
};

int snic_bus_init(struct snic_host *host, u32 num_vectors)
{
	struct snic_bus *bus = &host->bus;
	u32 i;

	mutex_init(&bus->lock);
	port_mutex_teach_lockdep(&bus->lock);
	mutex_init(&bus->irq_lock);
	INIT_LIST_HEAD(&bus->blocks);
	bus->vectors = kvcalloc(num_vectors, sizeof(*bus->vectors), GFP_KERNEL);
	if (!bus->vectors)
		return -ENOMEM;
	for (i = 0; i < num_vectors; i++) {
		bus->vectors[i].host = host;
		bus->vectors[i].index = i;
		snic_napi_add(&bus->vectors[i].napi, snic_vector_poll);
	}
	bus->base.ops = &snic_bus_ops;
	bus->base.num_vectors = num_vectors;
	return 0;
}

void snic_bus_fini(struct snic_host *host)
{
	struct snic_bus *bus = &host->bus;
	struct snic_block *block, *next;
	u32 i;

	for (i = 0; i < bus->base.num_vectors; i++) {
		snic_bus_irq_free(&bus->base, i);
		snic_napi_del(&bus->vectors[i].napi);
	}
	synchronize_net();
	list_for_each_entry_safe(block, next, &bus->blocks, node) {
		pr_warn("sirdma_nic: %s: the driver left DMA memory behind\n", host->ndev->name);
		snic_block_free(block);
	}
	kvfree(bus->vectors);
}
