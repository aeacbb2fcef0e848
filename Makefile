# Two commands do everything: `make run` and `make test`. Both set up .venv on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
# The tests of a file share a running federation, so a file stays with one process.
NETWORK = $(BIN)/python -m pytest -n 2 --dist loadfile -m network tests/flower

.PHONY: run test test-network lint bench docs clean

run: $(READY)  ## train a fair model on real data and leave a report
	$(BIN)/fairsilo train --data adult --epsilon 0.1 --out runs/adult

test: $(DEV) lint  ## everything that CI checks
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not network"
	$(NETWORK)

test-network: $(DEV)  ## of the tests only those that start Flower's processes on loopback
	$(NETWORK)

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

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

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
