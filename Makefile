# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# One line per target below "##" is what `make help` prints.

SHELL := /bin/bash
BUILD ?= build/user
SUITE ?= trixie

# The kernel to build for: the running one, else the newest whose headers are here.
KDIR ?= $(firstword $(wildcard /lib/modules/$(shell uname -r)/build) \
	$(shell ls -d /lib/modules/*/build /usr/src/linux-headers-*-amd64 2>/dev/null | sort -rV | head -1))

.PHONY: help demo test test-all kmod kmod-uml uprov install check bench bench-uml bench-twin clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: ## ibv_* programs between two processes here, then in a guest between sirdma and soft-RoCE; tables
	@BUILD=$(BUILD) scripts/demo $(SUITE)

test: ## everything CI runs: unit tests under sanitizers, oracles, User-Mode Linux, Debian 13 guest
	scripts/setup
	FRESH_SUITES=trixie FRESH_LACKS= SIRDMA_HOSTILE_SECONDS=15 SIRDMA_LINKS=shm scripts/test trixie

test-all: ## the same, and all of it in guests with Linux 6.1 (Debian 12) and the newest of Debian 13's backports
	scripts/setup
	ALSO="compilers rdma-core-65 pyverbs-65 twin-pyverbs" COMPILERS=all scripts/test trixie bookworm trixie-backports

kmod: ## kernel modules for KDIR, into build/kmod-RELEASE
	@[[ -n "$(KDIR)" ]] || { echo "no kernel headers found: install linux-headers-amd64 or say make kmod KDIR=..." >&2; exit 1; }
	@[[ "$(KDIR)" == */$$(uname -r)/build ]] || echo "note: not for the running kernel $$(uname -r) but for $(KDIR)"
	scripts/kmod-build $(KDIR)

kmod-uml: ## kernel modules for User-Mode Linux, into build/kmod-uml
	scripts/kmod-build "$$(vm/uml/build)" uml ARCH=um

uprov: ## the libibverbs provider, the userspace twin and the sirdma command, into BUILD (build/user)
	cmake -G Ninja -S uprov -B $(BUILD) -DCMAKE_INSTALL_PREFIX=/usr -DSIRDMA_TESTS=OFF -DSIRDMA_PROGRAMS=OFF
	ninja -C $(BUILD)

install: kmod uprov ## modules (with depmod), provider and its libibverbs.d entry, below DESTDIR
	scripts/install-modules "$$(scripts/kmod-build --release $(KDIR))" "$(DESTDIR)"
	DESTDIR=$(DESTDIR) cmake --install $(BUILD)

check: ## style and layering: checkpatch, sparse, clang-format, clang-tidy, purity, headers alone
	scripts/check

bench: ## sirdma beside soft-RoCE in a guest; table, build/bench/results.json, pictures; instructions of the provider's calls
	scripts/setup
	scripts/setup cost
	scripts/setup pictures
	tests/bench/instructions
	scripts/bench instructions
	scripts/bench twin
	scripts/bench guest
	scripts/bench counted
	tests/bench/picture

bench-uml: ## the same under User-Mode Linux, with uml- names
	scripts/setup
	scripts/setup pictures
	scripts/bench uml
	tests/bench/picture

bench-twin: ## the userspace twin beside UCX, libfabric, TCP, UDP sockets and memcpy, on this host
	scripts/setup
	scripts/bench twin

clean: ## remove build/ (downloaded and built guests stay in the cache, see vm/lib.sh)
	rm -rf build
