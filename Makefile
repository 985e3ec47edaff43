# Every target does its own set-up: a fresh clone needs only make and Python 3.11 or newer.
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
BENCH := .venv-bench
# Bytecode is kept: without it each of hundreds of processes would compile the package again, and pytest every test.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# In the order that tests/conftest.py gives: by default, files with few tests, which are often long ones, would come last.
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup check format test test-quick records demo docs linkcheck bench build clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(INSTALLED)  ## make .venv with the committed versions; again only when they change

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt hatchling torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev,demo,docs,faiss,fast,figures,mcp,models,onnx]'
	@touch $@

check: setup  ## lint, format, types and the import order
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -q tests/contract/test_import_order.py

format: setup  ## rewrite the files the way `check` wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: check  ## check, then every test
	$(PYTEST) $(SIDE_BY_SIDE) --durations 25

test-quick: setup  ## every test that takes no more than two seconds: some minutes in all
	$(PYTEST) $(SIDE_BY_SIDE) -m "not slow"

records: setup  ## run one committed slice of each study again from nothing: one to two hours
	THEODOLITE_WHOLE_SLICE=1 $(PYTEST) -q tests/studies/test_committed_records.py

demo: setup  ## survey and repair real vectors
	$(BIN)/theodolite demo

SPHINX := OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going --fresh-env

docs: setup  ## the site in build/docs; runs every notebook, and a warning is an error
	$(SPHINX) --write-all docs build/docs

linkcheck: setup  ## ask for every external link of the site; needs the network
	$(SPHINX) --builder linkcheck -D nb_execution_mode=off docs build/links

# Apart from .venv: one of the peers needs torch.
$(BENCH)/.installed: pyproject.toml constraints.txt benchmarks/peers.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt hatchling
	$(BENCH)/bin/python -m pip install --quiet --constraint constraints.txt --no-build-isolation \
		--editable '.[demo,fast,models]' --requirement benchmarks/peers.txt
	@touch $@

bench: $(BENCH)/.installed  ## measure against peers and write docs/performance.md; ARGS="--quick" for a try
	$(BENCH)/bin/python benchmarks/run.py $(ARGS)

build: setup  ## wheel and sdist in dist/
	$(BIN)/python -m build --no-isolation

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(BENCH) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis theodolite-demo
