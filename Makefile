# Each target makes the virtual environment, installs and compiles what it needs, and nothing more.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := setup.py greedy_core/_kernel.pyx greedy_core/_graph.pyx $(wildcard greedy_core/native/*)

.PHONY: help serve test lint bench peers paper httpbench loadtest chaos sanitize race fuzz wheel-test clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

serve: $(VENV)/serve.stamp  ## serve the demo model on 127.0.0.1:8000
	$(BIN)/budgetrec demo

test: $(VENV)/test.stamp  ## run all tests
	sh deploy/install-packages.sh
	$(BIN)/python -m pytest

lint: $(VENV)/dev.stamp  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint greedy_core loadtests
	$(BIN)/mypy

bench: $(VENV)/dev.stamp  ## what a budget costs and buys, against the exact scan
	$(BIN)/python -m loadtests.index.bench $(ARGS)

peers: $(VENV)/peers.stamp  ## recall against time for our index and other libraries
	$(BIN)/python -m loadtests.index.peers $(ARGS)

paper: $(VENV)/dev.stamp  ## the paper's experiments and figures
	$(BIN)/python -m loadtests.index.paper $(ARGS)

httpbench: $(VENV)/peers.stamp  ## requests per second against a bare ASGI function and a peer
	sh deploy/install-packages.sh
	$(BIN)/python -m loadtests.http.bench $(ARGS)

loadtest: $(VENV)/dev.stamp  ## the service and a fleet under load; writes a report
	sh deploy/install-packages.sh
	$(BIN)/python -m loadtests.http $(ARGS)

chaos: $(VENV)/dev.stamp  ## faults of every kind against the service; a table of what was wrong
	$(BIN)/python -m loadtests.chaos $(ARGS)

sanitize: $(VENV)/test.stamp  ## the core's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	sh .ci/sanitize $(BIN)/python

race:  ## searches from many threads under ThreadSanitizer
	sh .ci/race

fuzz: $(VENV)/test.stamp  ## random arrays through the kernels (ARGS="SECONDS SEED"), random heads through the HTTP reader
	sh .ci/fuzz $(ARGS)
	$(BIN)/python -m loadtests.chaos.reader --millions 3

wheel-test: $(VENV)/test.stamp  ## build a wheel and run the core's tests against it, outside of the tree
	sh .ci/wheel-test $(BIN)/python

clean:  ## remove everything that was made
	rm -rf $(VENV) build dist *.egg-info .cache .hypothesis .pytest_cache .mypy_cache .ruff_cache
	rm -f greedy_core/_kernel.cpp greedy_core/_graph.cpp greedy_core/*.so
	find . -name __pycache__ -prune -exec rm -rf {} +

# ---- the environment -------------------------------------------------------------------------------------------

$(VENV)/bin/python:
	sh .ci/bootstrap $(PYTHON) $(VENV)

# An extra for each kind of work; the compiled part is made again when its sources change.

$(VENV)/serve.stamp: $(VENV)/bin/python pyproject.toml $(NATIVE)
	sh .ci/install $(VENV)
	@touch $@

$(VENV)/test.stamp: $(VENV)/bin/python pyproject.toml $(NATIVE)
	sh .ci/install $(VENV) '[test]'
	@touch $@ $(VENV)/serve.stamp

$(VENV)/dev.stamp: $(VENV)/bin/python pyproject.toml $(NATIVE)
	sh .ci/install $(VENV) '[dev]'
	@touch $@ $(VENV)/serve.stamp $(VENV)/test.stamp

$(VENV)/peers.stamp: $(VENV)/bin/python pyproject.toml $(NATIVE)
	sh .ci/install $(VENV) '[dev,peers]'
	@touch $@ $(VENV)/serve.stamp $(VENV)/test.stamp $(VENV)/dev.stamp
