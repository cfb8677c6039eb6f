# SPDX-License-Identifier: Apache-2.0
# Each target sets up what it needs: a virtual environment in .venv, made with the newest Python there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: help setup demo test live slow rxe interop check types lint format bench wheel clean

BIN := .venv/bin
RXE_ENV := --env NICEMU_RXE=required --env NICEMU_JIT=0 --env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
RXE_PYTEST := -p no:cacheprovider --confcutdir=tests/rxe -o faulthandler_timeout=900
AT_ONCE := --numprocesses=auto --maxprocesses=4 --dist=worksteal
SOURCES := nicemu firmware host examples benchmarks tests

# Tests and NICs are hundreds of processes: each would compile the sources again.
export PYTHONDONTWRITEBYTECODE :=

help:            ## Show what make can do
	@sed -n 's/^\([a-z]*\):.*## */make \1 \t/p' $(MAKEFILE_LIST) | expand -t 16

setup: .venv/.with-tools ## Make .venv with nicemu and what its developers use

demo: .venv/.with-nicemu ## Run the main job
	$(BIN)/nicemu demo

test: .venv/.with-tools ## Run the tests but for processes (live), long ones (slow) and other kernels (rxe, interop)
	$(BIN)/nicemu compile-datapath
	$(BIN)/python -m pytest -q -m "not process and not interop and not slow" $(AT_ONCE)
	@echo "LEFT OUT: NICs and commands as processes (make live), the long tests (make slow), those against other kernels" \
	  "(make rxe, make interop), and what was skipped above"

live: .venv/.with-tools ## Run the tests that start NICs, switches and commands as processes
	$(BIN)/nicemu compile-datapath
	$(BIN)/python -m pytest -q -m "process and not interop and not slow" $(AT_ONCE)

slow: .venv/.with-tools ## Run the long tests: races over many rounds, searches, examples in full
	$(BIN)/nicemu compile-datapath
	$(BIN)/python -m pytest -q -m "slow and not interop and not rxe" -o faulthandler_timeout=1200 $(AT_ONCE)

rxe: .venv/.with-tools ## Run the tests on SoftRoCE, in a guest where this machine's kernel has none (OPTIONS="-k name")
	$(BIN)/nicemu vm run --only-if-needed --time-limit 1800 $(RXE_ENV) -- python -m pytest -q -m rxe $(RXE_PYTEST) tests/rxe $(OPTIONS)

interop: .venv/.with-tools ## Run the tests of our RoCEv2 engine against a guest's kernel rxe (OPTIONS="-k name")
	$(BIN)/nicemu compile-datapath
	$(BIN)/python -m pytest -q -m interop -o faulthandler_timeout=1200 tests/interop $(OPTIONS)

check: lint types test live slow wheel ## Run all that a change must pass

lint: .venv/.with-tools ## Check format, style and import floors
	$(BIN)/ruff format --check $(SOURCES) setup.py
	$(BIN)/ruff check $(SOURCES) setup.py
	$(BIN)/lint-imports --no-logo

types: .venv/.with-tools ## Check types
	$(BIN)/mypy --strict nicemu firmware host examples tests

format: .venv/.with-tools ## Format the sources, mend what can be mended
	$(BIN)/ruff format $(SOURCES) setup.py
	$(BIN)/ruff check --fix $(SOURCES) setup.py

bench: .venv/.with-tools ## Run every benchmark; each prints "name value unit" lines
	@for script in benchmarks/*.py; do echo "# $$script"; $(BIN)/python "$$script"; done

wheel: .venv/.with-tools ## Build the wheel, and try it in an environment of its own (TRY=demo: the demo too)
	tools/check_wheel dist $(TRY)

clean:           ## Remove the environment, the caches and what was built
	rm -rf .venv build dist nicemu.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.with-nicemu: pyproject.toml setup.py
	@tools/make_environment .venv
	@echo "installing nicemu and what it runs on into .venv"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@touch $@

.venv/.with-tools: .venv/.with-nicemu
	@echo "installing the tools of development into .venv"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@
