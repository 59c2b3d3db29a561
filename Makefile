# Everything sets itself up in .venv: a machine with Python >= 3.11 and make needs nothing else.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header

.PHONY: reproduction demo test test-all test-slow check bench bench-fidelity dist lock clean wheelhouse docs

demo: .venv/run
	rm -rf gridveil-demo
	$(BIN)/gridveil demo --out gridveil-demo

# The site, build/docs/index.html, to be opened as a file. Tutorials are run, and kept until they change.
docs: .venv/docs
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs build/docs

test: .venv/dev
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not gpu"

test-all: .venv/dev .venv/docs
	$(BIN)/python -m pytest -q -n 2 -m "not gpu"

# The slow rest alone: with `make test` before it, all of `make test-all`.
test-slow: .venv/dev .venv/docs
	$(BIN)/python -m pytest -q -n 2 -m "slow and not gpu"

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

# Peers are installed for it; torch, whose default build brings gigabytes of CUDA, is left to you: pip install torch torchdiffeq.
bench: .venv/bench
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/bench.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/detailed_gradient.py

# Every fit at the same epsilon, with its control beside it; on IEEE-30 100 draws per row, on ieee39 10, on IEEE-118 5; then releases
# without a trajectory, 1000 draws per row, and events that are not known. An hour or more.
bench-fidelity: .venv/dev
	$(BIN)/python benchmarks/fidelity.py
	$(BIN)/python benchmarks/fidelity_grids.py
	$(BIN)/python benchmarks/aggregates.py
	$(BIN)/python benchmarks/fidelity_events.py

# The page docs/reproduction.md, with 1000 runs per epsilon; ten minutes or more. Interrupted, it goes on where it stopped.
reproduction: .venv/run
	mkdir -p build
	$(BIN)/gridveil paper --runs 1000 --out build/reproduction --json > build/results.json
	cp build/results.json build/reproduction/fig?.png docs/reproduction/
	sed 's#(fig#(reproduction/fig#' build/reproduction/reproduction.md > docs/reproduction.md

# Wheel and sdist in dist/, checked as a package index does; the build backend is the locked one.
dist: .venv/dev
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m twine check --strict dist/*

# All that a machine without a network needs, for this platform or PLATFORM=win_amd64 PYTHON_VERSION=3.12, with EXTRAS=studio,xlsx
wheelhouse: .venv/run
	$(BIN)/python scripts/wheelhouse.py --platform "$(PLATFORM)" --python "$(PYTHON_VERSION)" --extras "$(EXTRAS)"

# Needs the network; the result names no index, so that any can serve it.
lock: .venv/dev
	$(BIN)/pip install -q uv
	$(COMPILE) --extra build --extra postgres --extra cases --extra xlsx --extra cgmes --extra comtrade --extra pandapower --extra studio --extra dev pyproject.toml -o requirements-dev.txt
	$(COMPILE) --extra build -c requirements-dev.txt pyproject.toml -o requirements.txt
	$(COMPILE) --extra build --extra docs -c requirements-dev.txt pyproject.toml -o requirements-docs.txt
	$(COMPILE) --extra bench -c requirements-dev.txt pyproject.toml -o requirements-bench.txt

clean:
	rm -rf .venv dist gridveil-demo

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gridveil needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv

# Not compiled: a demo imports a third of it, and the picture is there in half the processor time.
.venv/run: .venv/bin/python requirements.txt pyproject.toml
	$(BIN)/python -m pip install -q --no-compile --require-hashes -r requirements.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.venv/bench: .venv/dev requirements-bench.txt
	$(BIN)/python -m pip install -q --require-hashes -r requirements-bench.txt
	@touch $@

.venv/dev: .venv/run requirements-dev.txt
	$(BIN)/python -m pip install -q --require-hashes -r requirements-dev.txt
# What an import compiles may warn of others' code, and in tests a warning is an error.
	-@$(BIN)/python -W ignore -m compileall -qq -j 2 .venv/lib
	@touch $@

.venv/docs: .venv/run requirements-docs.txt
	$(BIN)/python -m pip install -q --require-hashes -r requirements-docs.txt
	@touch $@
