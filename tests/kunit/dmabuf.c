// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Regions over DMA buffers of an exporter that counts what it is asked for. */
#include <kunit/test.h>
#include <linux/device.h>
#include <linux/dma-fence.h>
#include <linux/mm.h>

/* The module that is tested has the real one. */
#define sirdma_mr_create dmabuf_test_mr_create

#include "drv/dmabuf.c"

#define BYTES (4 * PAGE_SIZE)

static struct {
	void *memory;
	u32 attached;
	u32 mapped;
	u32 accessed; /* begun and not ended */
	int attach_err;
	int access_err;
	u32 misplaced; /* bytes from the beginning of a page */
} exporter;

int sirdma_mr_create(struct sirdma_dev *dev, struct sirdma_mr *mr,
		     const struct sirdma_region *region, u32 pd)
{
	return -EIO;
}

static int exporter_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	if (!exporter.attach_err)
		exporter.attached++;
	return exporter.attach_err;
}

static void exporter_detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	exporter.attached--;
}

static int exporter_pin(struct dma_buf_attachment *attachment)
{
	return 0;
}

static void exporter_unpin(struct dma_buf_attachment *attachment) {}

static struct sg_table *exporter_map_dma(struct dma_buf_attachment *attachment,
					 enum dma_data_direction dir)
{
	return ERR_PTR(-ENXIO);
}

static void exporter_unmap_dma(struct dma_buf_attachment *attachment, struct sg_table *table,
			       enum dma_data_direction dir)
{
}

static int exporter_begin(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	if (!exporter.access_err)
		exporter.accessed++;
	return exporter.access_err;
}

static int exporter_end(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	exporter.accessed--;
	return 0;
}

static int exporter_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	exporter.mapped++;
	iosys_map_set_vaddr(map, exporter.memory + exporter.misplaced);
	return 0;
}

static void exporter_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	exporter.mapped--;
}

static void exporter_release(struct dma_buf *dmabuf) {}

#define EXPORTER_OPS \
	.attach = exporter_attach, .detach = exporter_detach, .map_dma_buf = exporter_map_dma, \
	.unmap_dma_buf = exporter_unmap_dma, .begin_cpu_access = exporter_begin, \
	.end_cpu_access = exporter_end, .release = exporter_release

static const struct dma_buf_ops still_ops = {EXPORTER_OPS, .vmap = exporter_vmap,
					     .vunmap = exporter_vunmap};
static const struct dma_buf_ops moving_ops = {EXPORTER_OPS, .vmap = exporter_vmap,
					      .vunmap = exporter_vunmap, .pin = exporter_pin,
					      .unpin = exporter_unpin};
static const struct dma_buf_ops unmapped_ops = {EXPORTER_OPS};

struct fixture {
	struct sirdma_dev dev;
	struct sirdma_dmabuf_mr mr;
	struct sirdma_region region;
};

static struct dma_buf *export(struct kunit *test, const struct dma_buf_ops *ops)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *dmabuf;

	info.ops = ops;
	info.size = BYTES;
	info.flags = O_RDWR;
	info.priv = &exporter;
	dmabuf = dma_buf_export(&info);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, dmabuf);
	return dmabuf;
}

static int attach(struct kunit *test)
{
	struct fixture *f = test->priv;

	return sirdma_dmabuf_attach(&f->dev, &f->mr, &f->region);
}

static void expect_nothing_held(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, exporter.attached, 0u);
	KUNIT_EXPECT_EQ(test, exporter.mapped, 0u);
	KUNIT_EXPECT_EQ(test, exporter.accessed, 0u);
}

/* Exporters keep a buffer in place for those who are attached. */
static void region_is_attached_as_long_as_it_lasts(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->mr.dmabuf = export(test, &still_ops);
	KUNIT_EXPECT_EQ(test, attach(test), 0);
	KUNIT_EXPECT_EQ(test, exporter.attached, 1u);
	KUNIT_EXPECT_EQ(test, exporter.mapped, 1u);
	KUNIT_EXPECT_EQ(test, exporter.accessed, 1u);
	KUNIT_EXPECT_PTR_EQ(test, f->mr.map.vaddr, exporter.memory);
	sirdma_dmabuf_detach(&f->mr);
	expect_nothing_held(test);
	dma_buf_put(f->mr.dmabuf);
}

static void each_failure_undoes_what_was_done(struct kunit *test)
{
	/* The core warns of a mapping that fails, so that error is not among these. */
	int *errors[] = {&exporter.attach_err, &exporter.access_err};
	struct fixture *f = test->priv;
	u32 i;

	f->mr.dmabuf = export(test, &still_ops);
	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		*errors[i] = -EIO;
		KUNIT_EXPECT_EQ(test, attach(test), -EIO);
		*errors[i] = 0;
		expect_nothing_held(test);
	}
	exporter.misplaced = 64;
	KUNIT_EXPECT_EQ(test, attach(test), -EOPNOTSUPP);
	expect_nothing_held(test);
	dma_buf_put(f->mr.dmabuf);
}

/* A mapping in the kernel does not keep it in place, and its pages may be another's then. */
static void buffer_that_moves_is_refused(struct kunit *test)
{
	struct fixture *f = test->priv;

	f->mr.dmabuf = export(test, &moving_ops);
	KUNIT_EXPECT_EQ(test, attach(test), -EOPNOTSUPP);
	expect_nothing_held(test);
	dma_buf_put(f->mr.dmabuf);
	f->mr.dmabuf = export(test, &unmapped_ops);
	KUNIT_EXPECT_EQ(test, attach(test), -EOPNOTSUPP);
	expect_nothing_held(test);
	dma_buf_put(f->mr.dmabuf);
}

static const char *fence_name(struct dma_fence *fence)
{
	return "sirdma";
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = fence_name,
	.get_timeline_name = fence_name,
};

static DEFINE_SPINLOCK(fence_lock);

/* Who has a fence that is never signaled may not make the registration wait for it. */
static void buffer_with_a_fence_is_busy(struct kunit *test)
{
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL); /* the core frees it */
	struct fixture *f = test->priv;

	KUNIT_ASSERT_NOT_NULL(test, fence);
	dma_fence_init(fence, &fence_ops, &fence_lock, dma_fence_context_alloc(1), 1);
	f->mr.dmabuf = export(test, &still_ops);
	dma_resv_lock(f->mr.dmabuf->resv, NULL);
	KUNIT_EXPECT_EQ(test, dma_resv_reserve_fences(f->mr.dmabuf->resv, 1), 0);
	dma_resv_add_fence(f->mr.dmabuf->resv, fence, DMA_RESV_USAGE_READ);
	dma_resv_unlock(f->mr.dmabuf->resv);
	KUNIT_EXPECT_EQ(test, attach(test), -EBUSY);
	expect_nothing_held(test);
	dma_fence_signal(fence);
	KUNIT_EXPECT_EQ(test, attach(test), 0);
	sirdma_dmabuf_detach(&f->mr);
	expect_nothing_held(test);
	dma_fence_put(fence);
	dma_buf_put(f->mr.dmabuf);
}

static int dmabuf_init(struct kunit *test)
{
	struct fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	memset(&exporter, 0, sizeof(exporter));
	exporter.memory = (void *)__get_free_pages(GFP_KERNEL, 2);
	test->priv = f;
	if (!f || !exporter.memory)
		return -ENOMEM;
	device_initialize(&f->dev.ibdev.dev);
	f->region.length = BYTES;
	f->region.access = IB_ACCESS_LOCAL_WRITE;
	return 0;
}

static void dmabuf_exit(struct kunit *test)
{
	free_pages((unsigned long)exporter.memory, 2);
}

static struct kunit_case dmabuf_cases[] = {
	KUNIT_CASE(region_is_attached_as_long_as_it_lasts),
	KUNIT_CASE(each_failure_undoes_what_was_done),
	KUNIT_CASE(buffer_that_moves_is_refused),
	KUNIT_CASE(buffer_with_a_fence_is_busy),
	{},
};

static struct kunit_suite dmabuf_suite = {
	.name = "sirdma_dmabuf",
	.init = dmabuf_init,
	.exit = dmabuf_exit,
	.test_cases = dmabuf_cases,
};
kunit_test_suite(dmabuf_suite);
