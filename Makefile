# `make` alone lists what there is. Every target sets up what it needs; a second run reuses it.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH_VENV := .venv-bench
RUST_FILES := Cargo.toml Cargo.lock rust/py/Cargo.toml rust/core/Cargo.toml $(shell find rust/core/src rust/py/src -name '*.rs')
FUZZ_SECONDS ?= 20
ROUNDS ?= 50
JOBS ?= $(shell nproc)

.PHONY: help setup demo test test-rust test-python lint format bench bench-quick bench-rust bench-gate bench-growth bench-micro fuzz soak docs wheel \
  types audit check-package clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# --- set-up ---------------------------------------------------------------------------------------------------------

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "seekset needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@command -v cargo >/dev/null || { echo "seekset needs a Rust toolchain: https://rustup.rs" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

# What the demo needs, and what builds the extension: the rest, such as TensorFlow and Ray, waits until tests want it.
$(VENV)/.run: $(VENV)/.venv pyproject.toml
	$(BIN)/pip install --quiet 'maturin>=1.9,<2' 'click>=8.1' 'numpy>=1.26' 'rich>=13' --group demo
	@touch $@

$(VENV)/.tools: $(VENV)/.run
	$(BIN)/pip install --quiet --group test --group lint
	@touch $@

$(VENV)/.built: $(VENV)/.run $(RUST_FILES)
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	@touch $@

# bgzip is the oracle for .gzi files.
$(VENV)/.bgzip: $(VENV)/.venv
	@command -v bgzip >/dev/null \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq tabix >/dev/null; } \
	  || { echo "The tests compare with bgzip, which is not installed and could not be: install Debian's package tabix" >&2; exit 1; }
	@touch $@

setup: $(VENV)/.built $(VENV)/.tools ## Make .venv with everything, and build the extension into it

# --- the two commands -----------------------------------------------------------------------------------------------

demo: $(VENV)/.built ## See the main jobs end to end, on generated data
	$(BIN)/seekset demo

test: test-rust test-python ## Run all tests

test-rust: ## Run the Rust tests and doctests
	cargo test --workspace --locked --quiet

test-python: $(VENV)/.built $(VENV)/.tools $(VENV)/.bgzip ## Run the Python tests, doctests and documented examples
	$(BIN)/pytest -q -n $(JOBS)

# --- quality --------------------------------------------------------------------------------------------------------

lint: $(VENV)/.built $(VENV)/.tools ## Check formatting, lints, types and stubs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --package seekset-core --no-deps --quiet
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest seekset._core

format: $(VENV)/.tools ## Format all code
	cargo fmt --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

fuzz: ## Fuzz every parser for FUZZ_SECONDS each (with cargo-fuzz)
	@command -v cargo-fuzz >/dev/null || cargo install cargo-fuzz --locked --quiet
	cd rust/core/fuzz && for target in $$(RUSTC_BOOTSTRAP=1 cargo fuzz list --fuzz-dir .); do \
	  echo "== $$target"; mkdir -p corpus/$$target; \
	  RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir . --sanitizer none $$target corpus/$$target seeds/$$target \
	    -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048; \
	done

soak: $(VENV)/.built $(VENV)/.tools ## Kill and resume runs of `seekset embed` at random moments, ROUNDS times
	SEEKSET_ROUNDS=$(ROUNDS) $(BIN)/pytest -q -n $(JOBS) tests/distributed/test_kill_and_resume.py

# --- measurements ---------------------------------------------------------------------------------------------------

$(BENCH_VENV)/.tools: benches/python/requirements.txt
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_VENV)/bin/pip install --quiet --upgrade pip
	$(BENCH_VENV)/bin/pip install --quiet -r benches/python/requirements.txt
	@# Of these, the first asks for torch, CUDA and gigabytes besides, the second for an old numpy and every cloud's client.
	$(BENCH_VENV)/bin/pip install --quiet --no-deps 'bionemo-noodles>=0.1' 'mosaicml-streaming>=0.13'
	@touch $@

$(BENCH_VENV)/.built: $(BENCH_VENV)/.tools $(VENV)/.run $(RUST_FILES) $(shell find python -name '*.py')
	@# A wheel, because an editable install would share its extension with .venv.
	rm -rf $(BENCH_VENV)/wheel
	$(BIN)/maturin build --release --quiet --out $(BENCH_VENV)/wheel
	$(BENCH_VENV)/bin/pip install --quiet --force-reinstall --no-deps $(BENCH_VENV)/wheel/*.whl
	@touch $@

# The same flags for both, so that neither has the other build all anew.
BENCH_CARGO := cd benches/rust && RUSTFLAGS="-C target-cpu=native" cargo

bench-rust: ## Build the Rust side of the benchmarks (helicase beside the bare scan)
	$(BENCH_CARGO) build --release --locked --quiet

bench: $(BENCH_VENV)/.built bench-rust ## Measure beside the peers and cost against size; write results and pictures
	$(BENCH_VENV)/bin/python benches/python/run.py $(if $(REMARK),--remark "$(REMARK)")
	$(BENCH_VENV)/bin/python benches/python/growth.py $(if $(REMARK),--remark "$(REMARK)")

bench-quick: $(BENCH_VENV)/.built bench-rust ## The same on a twentieth of the data, without writing results
	$(BENCH_VENV)/bin/python benches/python/run.py --quick
	$(BENCH_VENV)/bin/python benches/python/growth.py --quick

bench-gate: $(BENCH_VENV)/.built bench-rust ## Compare ratios with recorded ones (CONTESTS="..."; RECORD=1 records)
	$(BENCH_VENV)/bin/python benches/python/gate.py $(foreach name,$(CONTESTS),--only $(name)) $(if $(RECORD),--record)

bench-growth: $(BENCH_VENV)/.built ## Measure cost against size over three decades
	$(BENCH_VENV)/bin/python benches/python/growth.py $(if $(REMARK),--remark "$(REMARK)")

bench-micro: ## Time the stages of the core by themselves, with criterion (ARGS="--quick gather")
	$(BENCH_CARGO) bench --locked -- $(ARGS)

# --- the rest -------------------------------------------------------------------------------------------------------

docs: $(VENV)/.built $(VENV)/.tools ## Build the documentation (site/) and the Rust docs (target/doc)
	$(BIN)/pip install --quiet --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc --package seekset-core --no-deps --quiet

wheel: $(VENV)/.run ## Build the abi3 wheel into target/wheels
	$(BIN)/maturin build --release

# --- releases -------------------------------------------------------------------------------------------------------

$(VENV)/.release: $(VENV)/.built $(VENV)/.tools
	$(BIN)/pip install --quiet --group release
	@touch $@

types: $(VENV)/.release ## List names whose types pyright has to guess, and how many it knows (mypy is in `make lint`)
	@# It ends with 1 below 100 %, which is not reached yet.
	$(BIN)/basedpyright --verifytypes seekset --ignoreexternal || true

audit: $(VENV)/.release ## Check licences, sources and known faults of what seekset depends on
	$(BIN)/python .ci/audit

check-package: $(VENV)/.release ## Build wheel and sdist, take them apart and use them in empty environments
	rm -rf target/package
	$(BIN)/maturin build --release --quiet --out target/package
	$(BIN)/maturin sdist --out target/package
	$(BIN)/twine check --strict target/package/*
	SEEKSET_DIST=target/package $(BIN)/pytest -q --timeout 1200 tests/packaging/check_package.py

clean: ## Remove what was built, downloaded and generated
	rm -rf $(VENV) $(BENCH_VENV) target site demo benches/data benches/rust/target rust/core/fuzz/target
	find python -name '*.so' -delete
