# Each target does everything it needs on a machine with Linux, Python 3.11+, gcc, make and a
# package index.
#
#   make demo        a real stream through the log, with the writer killed on the way
#   make test        the tests                     make test-long   those that take minutes
#   make test-core   those of the core alone; DISK=1 keeps the folders of all tests on the disk
#   make simulate    runs of the whole system in one process: SEEDS=300 FIRST=0 WORKERS=1
#                    JSON=figures.json; SEED=17 prints the story of one
#   make outbox      kills of applications and relays of an outbox on a PostgreSQL of its own
#                    (installs postgresql if it may)
#   make faults      kills, power cuts, failing calls, simulated systems, hostile bytes: 15 minutes
#   make soak        a mixed load for an hour, in which nothing may grow: MINUTES=60
#   make asan        a part of the tests, and threads at random, with the address sanitizer
#   make fuzz        fuzzes all readers of bytes, guided by coverage (installs clang if it may):
#                    FUZZ_SECONDS=60 JSON=figures.json
#   make mutants     puts faults into copies of the code: each must fail its test: JSON=figures.json
#   make lint        all checks of style and types
#   make docs        the documentation as pages, in build/site/index.html, with llms.txt and the
#                    manual page commitlog.1
#   make site        keeps the pages of this version beside those of others: SITE=build/docs
#   make kafka-tools fetches the jars of Kafka for the tests of mirrors (needs mvn)
#   make model       searches a model of the write protocol exhaustively (installs spin if it may)
#   make build       the virtual environment and the kernel
#   make wheels      a tested wheel for each interpreter here, in dist; PYTHONS names others
#   make release     checks version, changelog and tag, makes the wheels, and checks dist
#   make bench       the benchmarks
#   make instructions counts instructions of the hot paths (needs valgrind)
#   make bench-peers commitlog beside other stores: ROWS=burst,sync PEERS=chronicle TURNS=5
#   make defects     runs small scripts, each of which prints what it expects and what it sees:
#                    DEFECTS=folder with a run.sh, NAMES=script.py
#   make screenshots takes the pictures of docs/images: site, benchmark page, top (needs Chromium)
#   make clean       removes what was built        make distclean   and the virtual environment
#
# PYTHON names the interpreter to start from: make test PYTHON=python3.12

ifndef PYTHON
PYTHON := $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && \
		echo "$$python" && exit; done; echo python3)
endif
# Some interpreters were built by another compiler and would ask for it; an explicit CC still wins.
ifeq ($(origin CC),default)
CC := gcc
endif
export CC
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
unexport PYTHONPATH
unexport PYTHONHOME
# Without bytecode, pytest rewrites each test file and each interpreter compiles the package, every
# time.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
NOT_INSTALLED := { echo "make: pip could not install what constraints.txt names: see its message" \
	"above; without a network, set PIP_INDEX_URL to an index" >&2; exit 1; }
KERNEL := $(wildcard $(addprefix commitlog/_kernel/*.,pyx pxd pxi) commitlog/_kernel/c/*.[ch] \
	$(addprefix commitlog/topics/compiled/*.,pyx pxi) \
	$(addprefix commitlog/queues/compiled/*.,pyx pxi c h))
C_FILES := $(filter %.c %.h,$(KERNEL)) $(wildcard commitlog/include/*/*.h bench/*/*.c) \
	$(wildcard examples/*/*.c tests/*.[ch] tests/*/*.[ch])
# The stamps carry the checkout's path, because a virtual environment that was moved still points to
# where it was.
HERE := $(shell pwd -P | cksum | cut -d ' ' -f 1)
BASE := .venv/.base-$(HERE)
DEPENDENCIES := .venv/.dependencies-$(HERE)
INSTALLED := .venv/.installed-$(HERE)
# commitlog/_kernel holds one kernel: the release kernel, or with COMMITLOG_ASSERT=1, which
# `make test` sets, one with assertions.
KERNELS := .venv/.built-$(HERE) .venv/.asserts-$(HERE)
BUILT := $(word $(if $(COMMITLOG_ASSERT),2,1),$(KERNELS))

.PHONY: help demo test test-core test-long simulate outbox faults fault-tools kafka-tools soak \
	asan fuzz mutants lint docs site model build asserts wheels release bench bench-peers defects \
	screenshots instructions clean distclean check FORCE
.DELETE_ON_ERROR:

help:
	@sed -n '/^#   make/s/^#   //p' Makefile

demo: build
	@$(BIN)/python demo/demo.py

# The folders and files with tests of the core; in them, the mark `wing` is on what needs more.
CORE_TESTS := $(addprefix tests/,_kernel allocation base capi contracts flush log multiprocess \
	pool recovery repair retention segment source stage tail \
	$(addprefix test_,$(addsuffix .py,bad_input errors held_appends interrupts options reentry \
	sequences stats unwritable)))
SPREAD := --workers auto
# The folders of most tests are in memory, unless DISK is set.
MEMORY := $(if $(DISK),,--in-memory)

test: asserts $(DEPENDENCIES)
	@$(BIN)/python -m pytest $(SPREAD) $(MEMORY)

test-core: asserts $(DEPENDENCIES)
	@$(BIN)/python -m pytest $(SPREAD) $(MEMORY) --no-wings $(CORE_TESTS)

test-long: asserts $(DEPENDENCIES)
	@$(BIN)/python -m pytest -m long --timeout 1800

simulate: asserts $(DEPENDENCIES)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--replay $(SEED) --shrink,--seeds \
		$(or $(SEEDS),300) --first $(or $(FIRST),0) --workers $(or $(WORKERS),1)) \
		$(if $(JSON),--json $(JSON))

outbox: asserts $(DEPENDENCIES)
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing postgresql with apt-get ..." && apt-get update -qq && \
		apt-get install -qq --no-install-recommends postgresql >/dev/null; } || true
	@$(BIN)/python -m pytest -m "long or not long" --timeout 1800 tests/outbox

# What fuzzing and power cuts need; a leg says what it still lacks. libFuzzer is a part of clang's
# runtime, and atheris has wheels for CPython 3.11 to 3.13 on x86-64.
FAULT_PACKAGES := clang libclang-rt-dev e2fsprogs xfsprogs btrfs-progs

fault-tools: $(DEPENDENCIES)
	@(for tool in clang mkfs.ext4 mkfs.xfs mkfs.btrfs; do command -v "$$tool" || exit 1; done) \
		>/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing $(FAULT_PACKAGES) with apt-get ..." && apt-get update -qq && \
		apt-get install -qq --no-install-recommends $(FAULT_PACKAGES) >/dev/null; } || true
	@$(BIN)/python -c 'import atheris' 2>/dev/null || \
		$(BIN)/python -m pip install --quiet atheris==3.0.0 || true

# A line for each leg: its name, and its command. What a leg lacks, it says, and fails; the others
# run nevertheless. COMMITLOG_LONG is the share of the long tests.
FAULTS := build/faults
LEG := $(BIN)/python -m tests.leg $(FAULTS)
# Some legs alone: make faults LEGS="kills cuts".
LEGS := kills images rounds outbox mirror calls cuts simulation fuzzing mutants
leg = $(if $(filter $1,$(LEGS)),$(LEG) $1,:)
LONG_TESTS := $(BIN)/python -m pytest -q -m long -p no:cacheprovider $(SPREAD)
KILLS := $(addprefix tests/,faults/test_kill.py faults/test_killed_neighbours.py \
	faults/test_exactly_once.py multiprocess/test_random_kills.py \
	multiprocess/test_producer_kills.py)
IMAGES := $(addprefix tests/faults/,test_power_cut.py test_bit_flips.py)

faults: asserts $(DEPENDENCIES) fault-tools
	@rm -rf $(FAULTS)
	@$(call leg,kills) env COMMITLOG_LONG=0.1 $(LONG_TESTS) $(KILLS)
	@$(call leg,images) env COMMITLOG_LONG=0.1 $(LONG_TESTS) $(IMAGES)
	@$(call leg,rounds) env COMMITLOG_ROUNDS=15 $(LONG_TESTS) tests/faults/replication/test_rounds.py
	@$(call leg,outbox) $(BIN)/python -m tests.outbox.kills --kills 50 --json $(FAULTS)/outbox.json
	@$(call leg,mirror) $(BIN)/python -m tests.mirror.kills --kills 20 --json $(FAULTS)/mirror.json
	@$(call leg,calls) $(BIN)/python -m tests.faults.calls --tenth today --json $(FAULTS)/calls.json
	@$(call leg,cuts) $(BIN)/python -m tests.faults.device --cuts 100 --json $(FAULTS)/cuts.json
	@$(call leg,simulation) $(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),300) --workers 2 \
		--json $(FAULTS)/simulation.json
	@$(call leg,fuzzing) $(BIN)/python -m tests.fuzzing --seconds 60 --json $(FAULTS)/fuzzing.json
	@$(call leg,mutants) $(BIN)/python -m tests.mutants --quick --third today \
		--json $(FAULTS)/mutants.json
	@$(LEG)

# The jars come from Maven's repository, which a mirror of it in ~/.m2/settings.xml may stand for.
KAFKA_VERSION := 4.1.0

kafka-tools: build/kafka/kafka_2.13-$(KAFKA_VERSION).jar

build/kafka/kafka_2.13-$(KAFKA_VERSION).jar:
	@command -v mvn >/dev/null && command -v java >/dev/null || { echo "make: Kafka needs mvn" \
		"and java 17 (Debian, Ubuntu: apt install maven openjdk-17-jre-headless)" >&2; exit 1; }
	@mvn --batch-mode --quiet dependency:copy-dependencies --file tests/mirror/pom.xml \
		-DoutputDirectory=$(CURDIR)/build/kafka -DincludeScope=runtime || { echo "make: mvn could" \
		"not fetch Kafka $(KAFKA_VERSION): see its message above" >&2; exit 1; }

soak: asserts $(DEPENDENCIES)
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60) --json build/soak.json

asan: build $(DEPENDENCIES)
	@rm -rf build/asan && mkdir -p build/asan && cp -r commitlog tests examples bench demo setup.py \
		pyproject.toml README.md LICENSE build/asan
	@find build/asan/commitlog -name '*.so' -delete
	@echo "Building the kernel with the address sanitizer ..."
	@cd build/asan && COMMITLOG_ASSERT=1 \
		CFLAGS="-fsanitize=address -g -O1 -fno-omit-frame-pointer" LDFLAGS="-fsanitize=address" \
		$(CURDIR)/$(BIN)/python setup.py --quiet build_ext --inplace
	@cd build/asan && export PYTHONPATH="$$PWD" PYTHONMALLOC=malloc \
		LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" ASAN_OPTIONS=detect_leaks=0:handle_segv=0 && \
		$(CURDIR)/$(BIN)/python -m pytest --timeout 1800 tests/_kernel/test_collection.py \
		tests/tail/test_direction.py tests/tail/test_batch.py tests/tail/test_idle.py \
		tests/topics tests/capi tests/log/test_commit_log.py && \
		$(CURDIR)/$(BIN)/python -m tests.stress stressed 1 60 --no-fork

fuzz: asserts $(DEPENDENCIES) fault-tools
	@$(BIN)/python -m tests.fuzzing --seconds $(or $(FUZZ_SECONDS),60) $(if $(JSON),--json $(JSON))

mutants: asserts $(DEPENDENCIES)
	@$(BIN)/python -m tests.mutants $(if $(JSON),--json $(JSON))

bench: build $(DEPENDENCIES)
	@$(BIN)/python -m bench

bench-peers: build $(DEPENDENCIES)
	@$(BIN)/python -m bench.peers --rows "$(ROWS)" --peers "$(PEERS)" --turns $(or $(TURNS),5) \
		$(if $(LIST),--list) --home "$(or $(PEERS_HOME),.peers)"

defects: build $(DEPENDENCIES)
	@[ -n "$(DEFECTS)" ] || { \
		echo "make: name the folder of the scripts: make defects DEFECTS=..." >&2; exit 1; }
	@bash "$(DEFECTS)/run.sh" $(NAMES)

screenshots: docs
	@$(BIN)/python docs/site/screenshots.py $(PAGE)

instructions: $(DEPENDENCIES)
	@$(BIN)/python -m bench.instructions --check

lint: build $(DEPENDENCIES)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python -m mypy --strict commitlog tests/typing/program.py
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/python -m pyright
	@$(BIN)/python -m mypy.stubtest commitlog._kernel commitlog.topics.compiled \
		commitlog.queues.compiled --concise \
		--ignore-disjoint-bases --allowlist tests/typing/stubtest.txt
	@PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint commitlog
	@$(if $(C_FILES),$(BIN)/clang-format --dry-run -Werror $(C_FILES))

docs: build $(DEPENDENCIES)
	@$(BIN)/sphinx-build -E -q -W --keep-going -c docs/site docs build/site
	@echo "The documentation is in build/site/index.html."

site: docs
	@$(BIN)/python docs/site/publish.py "$(or $(SITE),build/docs)"

model:
	@command -v spin >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing spin with apt-get ..." && \
		{ apt-get install -qq --no-install-recommends spin >/dev/null 2>&1 || { \
		apt-get update -qq && \
		apt-get install -qq --no-install-recommends spin >/dev/null; }; }; } || { \
		echo "make: spin is missing: install it (Debian, Ubuntu: apt-get install spin;" \
		"others: https://spinroot.com)" >&2; exit 1; }
	@$(PYTHON) model/check.py

build: $(BUILT) $(INSTALLED)

asserts:
	@$(MAKE) --no-print-directory COMMITLOG_ASSERT=1 build

wheels: $(DEPENDENCIES)
	@$(BIN)/python wheels/build.py $(PYTHONS)

release: $(DEPENDENCIES)
	@$(BIN)/python wheels/release.py
	@rm -rf dist
	@$(MAKE) --no-print-directory wheels
	@$(BIN)/python wheels/release.py --dist dist

$(BUILT): $(BASE) $(KERNEL) setup.py
	@echo "Building the kernel$(if $(COMMITLOG_ASSERT), with assertions) ..."
	@rm -f $(KERNELS)
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

# pip finds the kernel built.
$(INSTALLED): pyproject.toml | $(BUILT)
	@echo "Installing commitlog into .venv, editable, and what it needs ..."
	@$(PIP) --no-build-isolation --editable '.[cli,arrow]' || $(NOT_INSTALLED)
	@touch $@

$(BASE): constraints.txt
	@$(MAKE) --no-print-directory check
	@echo "Creating .venv with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) Cython setuptools || $(NOT_INSTALLED)
	@touch $@

# What tests, checks, benchmarks and the extras need, too.
$(DEPENDENCIES): $(BASE)
	@echo "Installing every pinned dependency ..."
	@$(PIP) --requirement constraints.txt || $(NOT_INSTALLED)
	@touch $@

# An interpreter that was upgraded or removed leaves a virtual environment that cannot start.
ifneq ($(shell $(BIN)/python -c 'print("usable")' 2>/dev/null),usable)
$(BASE): FORCE
endif

check:
	@missing=0; lacks() { echo "make: $$*" >&2; missing=1; }; \
	[ "$$(uname -s)" = Linux ] || \
		lacks "commitlog runs on Linux only: this is $$(uname -s); use a Linux machine"; \
	case "$$(uname -m)" in x86_64|aarch64) ;; *) \
		lacks "commitlog runs on x86_64 and aarch64 only: this is $$(uname -m)" ;; esac; \
	if ! command -v $(PYTHON) >/dev/null; then \
		lacks "$(PYTHON) is missing: install Python 3.11 or newer" \
			"(Debian, Ubuntu: apt install python3), or name one: make PYTHON=..."; \
	elif ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		lacks "$$($(PYTHON) --version) is too old: install Python 3.11 or newer," \
			"or name one: make PYTHON=python3.11"; \
	else \
		$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
			lacks "$(PYTHON) cannot create virtual environments: install its venv package" \
				"(Debian, Ubuntu: apt install python3-venv)"; \
		[ -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || \
			lacks "the headers of $(PYTHON) are missing: install them" \
				"(Debian, Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel)"; \
	fi; \
	if ! command -v $(firstword $(CC)) >/dev/null; then \
		lacks "$(firstword $(CC)) is missing: install it" \
			"(Debian, Ubuntu: apt install gcc libc6-dev; Fedora: dnf install gcc)"; \
	elif ! echo '#include <stdlib.h>' | $(CC) -fsyntax-only -x c - 2>/dev/null; then \
		lacks "the C library's headers are missing: install them" \
			"(Debian, Ubuntu: apt install libc6-dev; Fedora: dnf install glibc-devel)"; \
	fi; \
	exit $$missing

clean:
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f .venv/.installed-* .venv/.built-* .venv/.asserts-* commitlog/_kernel/*.so \
		commitlog/topics/compiled/*.so
	@find commitlog tests bench demo examples -type d -name __pycache__ -exec rm -rf {} + \
		2>/dev/null || true

distclean: clean
	@rm -rf .venv
