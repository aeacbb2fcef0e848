# Two commands do everything: `make run` and `make test`. Both set up .venv on first use.
# `make help` lists the others: every target that has words after ##.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
# The tests of a file share a running federation, so a file stays with one process.
NETWORK = $(BIN)/python -m pytest -n 2 --dist loadfile -m "network and not long" tests/network

.PHONY: run help test test-fast test-network test-long lint fix bench docs clean

run: $(READY)  ## train a fair model on real data and leave a report
	$(BIN)/fairsilo train --data adult --epsilon 0.1 --out runs/adult

help:  ## what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: $(DEV) lint  ## everything that CI checks
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not network and not long"
	$(NETWORK)

test-fast: $(DEV)  ## of the tests those that are quick: no processes, no browser
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not (slow or long or network or process or browser)"

test-network: $(DEV)  ## of the tests only those that start Flower's processes on loopback
	$(NETWORK)

test-long: $(DEV)  ## the tests that `make test` leaves out because they take minutes
	$(BIN)/python -m pytest -m long

lint: $(DEV)  ## ruff and mypy, as `make test` runs them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(DEV)  ## what ruff can put right by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)  ## against other frameworks, each in an environment of its own under .bench
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.cpu
	$(BIN)/python -m benchmarks.bars

docs: $(DEV)  ## the documentation, in build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("fairsilo needs Python 3.11 or newer: make PYTHON=python3.11 ...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(DEV): pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(READY)

clean:  ## remove .venv and what the tools keep between runs
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
