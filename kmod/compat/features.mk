# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# What the preprocessor, or sparse's, cannot find out about this kernel: whether a header declares a function, or exists, and
# whether there is an option that is not set.
declares = $(shell grep -qw $(1) $(srctree)/include/$(2) && echo -DCOMPAT_HAVE_$(1))
exists = $(if $(wildcard $(srctree)/include/$(1)),-DCOMPAT_HAVE_$(subst /,_,$(basename $(1))))
unset = $(shell grep -qsx ". CONFIG_$(1) is not set" $(objtree)/.config && echo -DCOMPAT_UNSET_$(1))

ccflags-y += $(call declares,ib_umem_get_va,rdma/ib_umem.h)
ccflags-y += $(call declares,fill_res_srq_entry,rdma/ib_verbs.h)
ccflags-y += $(call declares,report_port_event,rdma/ib_verbs.h)
ccflags-y += $(call declares,resize_user_cq,rdma/ib_verbs.h)
ccflags-y += $(call declares,gso_ipv4_max_size,linux/netdevice.h)
ccflags-y += $(call declares,hmm_dma_map,rdma/ib_umem_odp.h)
ccflags-y += $(call declares,hmm_range_fault_unlocked_timeout,linux/hmm.h)
ccflags-y += $(call exists,rdma/iter.h)
ccflags-y += $(call unset,PREEMPT_RT_NEEDS_BH_LOCK)
