# Only Python 3.11+ and make are assumed. PYTHON=python3.12 chooses another one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= 0
export JAX_PLATFORMS ?=

# A few tests of everything.
SMOKE := $(addprefix tests/,test_build.py test_smoke.py core/test_expression.py core/test_graph.py test_parity.py \
	ops/test_activations.py ops/test_operators.py ops/test_steps.py engine/test_tree_lstm.py \
	builders/test_vanilla_lstm.py trainers/test_adam.py programs/test_programs.py) \
	-k 'not (parity or programs) or graph. or params. or recursive or crf'

.PHONY: demo test check clean

demo: $(VENV)/demo
	$(BIN)/python examples/ast_treelstm.py

test: check
	$(BIN)/python -m pytest -n 2 -q

# The smoke tests, and those of the executor and of what JAX does not document, with
# another JAX, the oldest and the newest that pyproject.toml allows:
#   make test-jax JAX=0.10.0
#   make test-jax JAX=0.12.0.1 PYTHON=python3.13
INTERNALS := $(addprefix tests/engine/xla/test_,internals.py compiling.py live.py) \
	tests/engine/native
OTHER := $(VENV)-jax-$(JAX)
.PHONY: test-jax
test-jax:
	$(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check \
		-e . jax==$(JAX) jaxlib==$(JAX) pytest pytest-xdist hypothesis
	$(OTHER)/bin/python -m pytest -n 2 -q $(INTERNALS)
	$(OTHER)/bin/python -m pytest -n 2 -q $(SMOKE)

# By .clang-format; tables of opcodes and kernels are laid out by hand.
LAID_OUT := $(filter-out %/opcodes.h,$(wildcard $(addprefix dynetjax/engine/native/cpp/*.,cpp h inc)))

check: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(LAID_OUT)
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layering.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	touch $@

# The C++ is compiled into the checkout, and again where it has changed.
CPP := setup.py build_backend/backend.py $(wildcard dynetjax/engine/native/cpp/*)

$(VENV)/demo: $(VENV)/python pyproject.toml $(CPP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[progress]'
	touch $@

$(VENV)/test: $(VENV)/python pyproject.toml $(CPP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/demo

# BENCH='--seconds 5 --repeats 3' is quick; see benchmarks/README.md for the peers.
.PHONY: bench
bench: $(VENV)/demo
	$(BIN)/python benchmarks/run.py --out build/bench $(BENCH)

# What a GPU and a TPU would run, compiled without either: benchmarks/offline. For some
# tasks on one of them: DEVICES='--tasks lm64 --target h100'
.PHONY: devices
devices: $(VENV)/demo
	$(BIN)/python benchmarks/offline/report.py $(DEVICES)

# The interpreter under the sanitizers of the C++ compiler, in a copy of the package: first
# memory and undefined behaviour, then threads. Leaks are not looked for: Python has many.
SANITIZED := build/sanitize
, := ,
SANITIZE = rm -rf $(SANITIZED)/$@ && mkdir -p $(SANITIZED)/$@ && cp -r dynetjax $(SANITIZED)/$@ && \
	rm -f $(SANITIZED)/$@/dynetjax/engine/native/*.so && \
	$(CXX) $(1) -std=c++17 -O1 -g -fno-omit-frame-pointer -fno-math-errno -fno-trapping-math \
	-fno-strict-aliasing -fvisibility=hidden -fPIC -shared \
	-I$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))') \
	dynetjax/engine/native/cpp/*.cpp -o $(SANITIZED)/$@/dynetjax/engine/native/core.so
SANELY = PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(SANITIZED)/$@ \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/tests/data/threads.supp \
	LD_PRELOAD="$$($(CXX) -print-file-name=$(1)) $$($(CXX) -print-file-name=libstdc++.so)"
OF_NATIVE := pytest tests/engine/native tests/engine/plan/test_flat.py -p no:cacheprovider -q

.PHONY: sanitize memory threads
sanitize: memory threads

memory: $(VENV)/test
	$(call SANITIZE,-fsanitize=address$(,)undefined)
	$(call SANELY,libasan.so) $(BIN)/$(OF_NATIVE)
	$(call SANELY,libasan.so) $(BIN)/python tests/campaign.py --graphs 60 --seed 1 --xla 0
	$(call SANELY,libasan.so) $(BIN)/python tests/mutants.py --mutants 2000

# Without a random layout of memory, which the sanitizer cannot have.
threads: $(VENV)/test
	$(call SANITIZE,-fsanitize=thread)
	$(call SANELY,libtsan.so) setarch -R $(BIN)/$(OF_NATIVE) -k threads

clean:
	rm -rf $(VENV) $(VENV)-jax-* .jax_cache build *.egg-info
