# Only Python 3.11+ and make are assumed. PYTHON=python3.12 chooses another one.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0
export JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES ?= 0
export JAX_PLATFORMS ?=

# A copy in which mypyc has compiled what every node passes through, where it can.
NATIVE := build/native

.PHONY: demo test check native clean

demo: native
	PYTHONPATH=$(NATIVE) $(BIN)/python examples/ast_treelstm.py

test: check
	$(BIN)/python -m pytest -n 2 -q

check: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layering.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/demo: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[progress]'
	touch $@

$(VENV)/test: $(VENV)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/demo

# BENCH='--seconds 5 --repeats 3' is quick; see benchmarks/README.md for the peers.
.PHONY: bench
bench: native
	PYTHONPATH=$(CURDIR)/$(NATIVE) $(BIN)/python benchmarks/run.py --out build/bench $(BENCH)

native: $(NATIVE)/made

$(NATIVE)/made: $(VENV)/demo setup.py $(shell find dynetjax -name '*.py')
	rm -rf $(NATIVE) build/lib*
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(NATIVE) .
	touch $@

clean:
	rm -rf $(VENV) .jax_cache build *.egg-info
