# Everything a contributor runs. A fresh machine needs Python 3.11 or later and Rust; the rest is set up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/stamps
MATRIX := .venv-matrix
# maturin installs into the environment that is active.
export VIRTUAL_ENV := $(abspath $(VENV))
# maturin calls pip, and so do we.
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles what it imports: a fraction of what is installed.
export PIP_COMPILE := 0
unexport PYTHONHOME PYTHONPATH CONDA_PREFIX

RUST := $(shell find rust -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
MATURIN := $(BIN)/maturin
PYTEST := $(BIN)/python -m pytest
# Side by side, a file of tests in one process. Three where tests also wait: for Spark, servers and syncs.
SIDE_BY_SIDE := --dist=loadfile --numprocesses
IN_ORDER := --no-loadscope-reorder
PYTHON_CODE := python tests tools examples benches
BENCHES := --manifest-path rust/benches/Cargo.toml
policy ?= in_doubt
seconds ?= 60
campaign ?=
home ?=
profile ?=
what ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# What a person starts runs in order; only set-up does two things at once.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif
.PHONY: help build shipped release wheels docs demo demo-broker check lint types test test-core test-fast test-engine test-extension test-spark test-all \
  set-up compiled engine-compiled engine-crashes engine-others test-engine-slow test-engine-shipped test-crash test-matrix test-oldest test-aarch64 campaign fuzz sanitize audit format \
  bench bench-brokers bench-spark wheel clean

help: ## what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(STAMP)/native ## build the extension, quickly, and install the package into .venv

shipped: $(STAMP)/release ## the same as it is shipped: slower to build, faster to run

demo: $(STAMP)/native $(STAMP)/demo $(STAMP)/java ## 6,046 real mails, a kill, a restart, everything again (policy=in_doubt|rerun)
	$(BIN)/python examples/demo --policy $(policy)

demo-broker: $(STAMP)/native $(STAMP)/demo $(STAMP)/dev ## the same mails through RabbitMQ (or SQS), a receiver killed five times
	$(BIN)/python -m examples.broker

check: lint types test-core ## before a commit: formats, lints, types, stubs, and the tests of rules and store

test: set-up $(STAMP)/native $(STAMP)/dev $(STAMP)/brokers ## rules, store and package, the engine's own tests, Spark
	@$(MAKE) --no-print-directory --jobs=2 test-fast engine-compiled
	@$(MAKE) --no-print-directory test-engine test-spark

test-all: test-engine-slow test-engine-shipped test-extension test-crash test-oldest ## the rest: crashes, campaign-like and slow tests, shipped thresholds

test-core: set-up $(STAMP)/native $(STAMP)/dev ## rules and store: under a minute
	$(PYTEST) $(SIDE_BY_SIDE) 2 tests/rules tests/store tests/binding -m "not spark and not slow and not crash and not benchmark"

test-fast: set-up $(STAMP)/native $(STAMP)/dev $(STAMP)/brokers ## rules, store, package: no Spark, nothing slow
	$(PYTEST) $(SIDE_BY_SIDE) 3 -m "not spark and not slow and not crash and not benchmark"

# Tests of the engine that are soon compiled and run.
QUICK_ENGINE_TESTS := bytes imports lifecycle objects
QUICK_ENGINE := cargo test --locked --package dochistory-core --all-features --lib $(QUICK_ENGINE_TESTS:%=--test %)
test-engine: $(STAMP)/venv ## the engine's own tests, the quick ones
	$(QUICK_ENGINE)

# While other tests wait for Spark, servers and syncs.
engine-compiled: $(STAMP)/venv
	@nice $(QUICK_ENGINE) --no-run --quiet

# All others.
SLOW_ENGINE_TESTS := $(filter-out $(QUICK_ENGINE_TESTS), \
  $(patsubst rust/core/tests/%.rs,%,$(patsubst %/main.rs,%.rs,$(wildcard rust/core/tests/*.rs rust/core/tests/*/main.rs))))
SLOW_ENGINE := cargo test --locked --package dochistory-core --all-features --no-fail-fast
test-engine-slow: $(STAMP)/venv ## the rest of the engine's own tests
	$(SLOW_ENGINE) $(SLOW_ENGINE_TESTS:%=--test %) --no-run
	@$(MAKE) --no-print-directory --jobs=2 engine-crashes engine-others

# One core is enough for the schedules of crashes, which take longest.
engine-crashes:
	$(SLOW_ENGINE) --test crash
engine-others:
	$(SLOW_ENGINE) $(patsubst %,--test %,$(filter-out crash,$(SLOW_ENGINE_TESTS)))

# Without feature `small`: segments, batches and logs get as large as they do for users.
SHIPPED_ENGINE_TESTS := beside crash faults lifecycle model staged values
test-engine-shipped: $(STAMP)/venv ## the engine's own tests at the thresholds that are shipped
	DOCHISTORY_SCHEDULES=2000 cargo test --locked --package dochistory-core --features testing --lib $(SHIPPED_ENGINE_TESTS:%=--test %)

# Where the library of this Python is, if it is one that programs can be linked to: Debian has it in python3-dev.
LIBPYTHON = $(shell $(BIN)/python -c 'import pathlib; from sysconfig import get_config_var as v; \
  p = pathlib.Path(v("LIBDIR"), v("LDLIBRARY")); print(p.parent if p.suffix == ".so" and p.exists() else "")')

test-extension: $(STAMP)/venv ## the extension's own tests, in Rust (want Python's shared library)
	@if test -n "$(LIBPYTHON)"; then LD_LIBRARY_PATH="$(LIBPYTHON)" cargo test --locked --profile quick --package dochistory-python --lib; \
	else echo "This Python has no shared library to link to (python3-dev): the extension's own tests are NOT RUN"; fi

test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER ?= aarch64-linux-gnu-gcc
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER ?= qemu-aarch64 -L /usr/aarch64-linux-gnu
test-aarch64: ## the engine's tests for the other processor, emulated (wants qemu-user and a cross gcc)
	cargo test --locked --package dochistory-core --all-features --target aarch64-unknown-linux-gnu --lib --test lifecycle

test-spark: $(STAMP)/native $(STAMP)/dev $(STAMP)/java $(STAMP)/spark-classes ## the Spark side
	$(PYTEST) $(SIDE_BY_SIDE) 3 $(IN_ORDER) -m "spark and not slow and not crash and not benchmark"

# Each Spark in an environment of its own, with the package as its users get it. They run on Java 17.
# A comma, for where it would end an argument.
, := ,
SPARKS := 3.5 4.0 4.1
test-matrix: $(SPARKS:%=test-matrix-%) ## what must hold on every Spark, on 3.5, 4.0 and 4.1

test-matrix-%: $(STAMP)/matrix-% $(STAMP)/java
	$(MATRIX)/$*/bin/python -m pytest tests/spark -m "matrix and not benchmark" -W ignore -p no:cacheprovider -o timeout=900

OLDEST := claim classify exactly_once delivery_shards
test-oldest: $(STAMP)/matrix-3.5 $(STAMP)/java ## what there is for Spark, quickly, on the oldest Spark that must run
	$(MATRIX)/3.5/bin/python -m pytest $(OLDEST:%=tests/spark/test_%.py) -m "matrix and not slow and not benchmark" -W ignore -p no:cacheprovider -o timeout=900

test-crash: $(STAMP)/release $(STAMP)/dev $(STAMP)/java $(STAMP)/spark-classes $(STAMP)/servers ## killed processes, the demo, anything long
	$(PYTEST) $(SIDE_BY_SIDE) 4 $(IN_ORDER) -m "(slow or crash) and not benchmark"

campaign: $(STAMP)/release $(STAMP)/dev ## try to break every promise, and print the report (campaign="--schedules 1000000 --load-seconds 600")
	$(BIN)/python -m tests.campaign $(campaign)

fuzz: ## every target under libFuzzer with AddressSanitizer (seconds=60 each; wants nightly Rust; installs cargo-fuzz if need be)
	@command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	cd rust && for target in $$(cargo +nightly fuzz list); do \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(seconds) -rss_limit_mb=2048 -print_final_stats=1 || exit 1; done

sanitize: ## the engine's tests under AddressSanitizer, and under Miri where that is installed (wants nightly Rust)
	RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize cargo +nightly test --locked --package dochistory-core \
	  --all-features --target x86_64-unknown-linux-gnu --lib --test lifecycle --test damage --test fuzz
	@if cargo +nightly miri --version >/dev/null 2>&1; then \
	  MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 CARGO_TARGET_DIR=target/miri \
	    cargo +nightly miri test --package dochistory-core --lib -- columns:: bytes:: key::uuid key::text filter::simd; \
	else echo "Miri is not installed for nightly Rust here (rustup component add --toolchain nightly miri rust-src): not run"; fi

audit: $(STAMP)/venv ## licences, bans and known vulnerabilities of all dependencies, as far as their data can be reached
	@command -v cargo-deny >/dev/null || cargo install --locked cargo-deny
	cargo deny check licenses bans sources
	@cargo deny check advisories || echo "NOT CHECKED, or found wanting: advisories of Rust packages (see above)"
	$(BIN)/python -m pip install pip-audit
	@$(BIN)/pip-audit --strict --progress-spinner off || \
	  echo "NOT CHECKED, or found wanting: vulnerabilities of Python packages (see above)"

lint: set-up $(STAMP)/dev
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
	cargo fmt $(BENCHES) --check
	cargo clippy --locked $(BENCHES) --target-dir target --benches -- -D warnings
	$(BIN)/ruff format --check $(wildcard $(PYTHON_CODE))
	$(BIN)/ruff check $(wildcard $(PYTHON_CODE))
	$(BIN)/python -m tools.prose --check

types: $(STAMP)/native $(STAMP)/dev
	$(BIN)/python -m tools.stub --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --mypy-config-file pyproject.toml dochistory._native

format: $(STAMP)/dev ## lay out Rust and Python sources
	cargo fmt --all
	cargo fmt $(BENCHES)
	$(BIN)/ruff check --fix-only --quiet $(wildcard $(PYTHON_CODE))
	$(BIN)/ruff format $(wildcard $(PYTHON_CODE))
	$(BIN)/python -m tools.prose

docs: $(STAMP)/native $(STAMP)/docs ## the documentation site, into out/site; strict, and without network
	$(BIN)/python -m tools.pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: $(STAMP)/release $(STAMP)/bench ## measure, next to the peers
	$(PYTEST) benches -m benchmark -o timeout=0 --benchmark-json=out/pytest-benchmark.json
	$(BIN)/python -m benches.amplification
	$(BIN)/python -m benches.lived --later 60
	$(BIN)/python -m benches.runner --runs 5 --budget 10 --wait 300
	$(BIN)/python -m benches.objects
	$(BIN)/python -m benches.objects_history
	$(BIN)/python -m benches.chart

bench-brokers: $(STAMP)/release $(STAMP)/bench $(STAMP)/java ## measure consumers, and receivers on a real RabbitMQ and Kafka
	$(BIN)/python -m benches.consumers
	$(BIN)/python -m benches.consumers_beside
	$(BIN)/python -m benches.brokers

bench-spark: $(STAMP)/release $(STAMP)/bench $(STAMP)/java ## measure the Spark side, next to Spark's own ways
	$(BIN)/python -m benches.spark
	$(BIN)/python -m benches.capacity

wheel: $(STAMP)/venv ## one wheel for this machine and every Python from 3.11 on, into dist/
	$(MATURIN) build --release --out dist

# The links of the package's page need the project's address: home=https://…/owner/project.
PACKAGE = $(BIN)/python -m tools.package $(if $(home),--home $(home)) $(if $(profile),--profile $(profile))
wheels: $(STAMP)/package ## wheels for Linux on x86-64 and aarch64, and for musl, checked, into dist/ (wants rustup's targets)
	$(PACKAGE) x86_64 aarch64 x86_64-musl

release: $(STAMP)/package ## what a release uploads: wheels and sdist, checked, in dist/ (what="sdist aarch64" home=https://…)
	$(PACKAGE) $(what)

clean: ## remove what was built; .venv too
	rm -rf $(VENV) $(MATRIX) target out dist

# --- set-up -----------------------------------------------------------------------------------------------------------

# The first time, compile while packages and brokers come: they mostly wait for the network.
set-up: $(STAMP)/venv
	@test -e $(STAMP)/dev || $(MAKE) --no-print-directory --jobs=2 compiled $(STAMP)/brokers

compiled: $(STAMP)/venv
	$(MATURIN) develop --profile quick --quiet --skip-install

$(STAMP)/venv:
	@command -v cargo >/dev/null || { echo "Rust is needed: there is no cargo on PATH (install rustup, or your system's rust)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1): try make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install 'maturin>=1.9,<2'
	@mkdir -p $(STAMP) && touch $@

# What the named groups and extras need, without the package itself. Kept apart from the build: sources change more often.
$(STAMP)/base $(STAMP)/demo $(STAMP)/dev $(STAMP)/bench $(STAMP)/docs $(STAMP)/package: $(STAMP)/%: pyproject.toml tools/requirements.py $(STAMP)/venv
	$(BIN)/python tools/requirements.py $(filter-out base,$*) > $@.txt
	$(BIN)/python -m pip install --requirement $@.txt
	@touch $@

$(STAMP)/wheel: $(RUST) $(shell find python -name '*.py') pyproject.toml $(STAMP)/venv
	rm -rf out/wheel
	$(MATURIN) build --release --quiet --out out/wheel
	@touch $@

# Else make would take it for something in between, remove it, and set all up again the next time.
.PRECIOUS: $(STAMP)/matrix-%

# Spark 3.5 wants NumPy 1, and that an older pyarrow.
$(STAMP)/matrix-%: $(STAMP)/wheel
	$(PYTHON) -m venv $(MATRIX)/$*
	$(MATRIX)/$*/bin/python -m pip install --force-reinstall --no-deps out/wheel/*.whl
	$(MATRIX)/$*/bin/python -m pip install 'pyspark[sql]~=$*.0' 'pandas>=2.2,<3' \
	  'pytest>=8.3' 'pytest-timeout>=2.3' 'moto[server]>=5.1' 'obstore>=0.12' $(if $(filter 3.5,$*),'numpy<2' 'pyarrow>=18$(,)<19' setuptools,'pyarrow>=18')
	@touch $@

# Spark starts in two thirds of the time with it. It needs the package, of any build.
$(STAMP)/spark-classes: tests/servers/spark_java.py $(STAMP)/dev $(STAMP)/java
	$(BIN)/python -m tests.servers.spark_java
	@touch $@

# Object stores that run on loopback, for the slow tests: by go, npm and cargo, into .venv/servers.
$(STAMP)/servers: tests/servers/objects.py $(STAMP)/dev
	$(BIN)/python -m tests.servers.objects
	@touch $@

# RabbitMQ, Kafka and Artemis, for a quick test each; and a Java, if there is none.
$(STAMP)/brokers: tests/servers/brokers.py $(STAMP)/dev
	$(BIN)/python -m tests.servers.brokers
	@touch $@

# Either build serves whatever needs the extension; what is measured or killed wants the one that is shipped.
$(STAMP)/native: $(RUST) $(STAMP)/base
	$(MATURIN) develop --profile quick --quiet
	@rm -f $(STAMP)/release
	@touch $@

$(STAMP)/release: $(RUST) $(STAMP)/base
	$(MATURIN) develop --release --quiet
	@touch $(STAMP)/native $@

# Spark needs a Java: the machine's own, or else one from a package.
FIND_JAVA = $(BIN)/python -W ignore::RuntimeWarning -m dochistory.spark.java
$(STAMP)/java: $(STAMP)/native $(STAMP)/demo
	@$(FIND_JAVA) || { \
	  $(BIN)/python tools/requirements.py jre > $@.txt && \
	  $(BIN)/python -m pip install --requirement $@.txt && \
	  $(FIND_JAVA); }
	@touch $@
