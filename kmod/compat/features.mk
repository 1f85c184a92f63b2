# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What the preprocessor cannot find out: whether a header of this kernel declares a function.
declares = $(shell grep -qw $(1) $(srctree)/include/$(2) && echo -DCOMPAT_HAVE_$(1))

ccflags-y += $(call declares,ib_umem_get_va,rdma/ib_umem.h)
