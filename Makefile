# Each target makes the virtual environment, installs and compiles what it needs, and nothing more.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WITH_BIN := PATH="$(CURDIR)/$(BIN):$$PATH"
# Written by npm when everything that the TypeScript client's package names is installed.
NODE   := clients/typescript/node_modules/.package-lock.json
NATIVE := setup.py $(wildcard greedy_core/*.pyx) $(wildcard greedy_core/native/*)

# Tests that look at the clock, or that want the machine for themselves, run one after the other; all others side by side.
TIMED := $(addprefix tests/,chaos cluster deploy $(addprefix service/,answering front models process telemetry))

.PHONY: help serve test lint bench peers paper httpbench loadtest cluster fleet chaos sanitize race fuzz wheel-test release client docs screenshots clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

serve: $(VENV)/serve.stamp  ## serve the demo model on 127.0.0.1:8000
	$(BIN)/budgetrec demo

test: $(VENV)/test.stamp $(NODE)  ## run all tests
	sh deploy/install-packages.sh
	$(BIN)/python -m pytest -n auto --dist loadfile $(TIMED:%=--ignore=%)
	$(BIN)/python -m pytest $(TIMED)

lint: $(VENV)/dev.stamp $(NODE)  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(WITH_BIN) cython-lint greedy_core loadtests
	$(BIN)/mypy
	REDOCLY_TELEMETRY=off $(WITH_BIN) clients/typescript/node_modules/.bin/redocly lint --config clients/redocly.yaml clients/openapi.json

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

cluster: $(VENV)/dev.stamp  ## shards on a real Ray: overhead, faults, batches; writes what the simulated fleet is fed with
	$(BIN)/python -m loadtests.cluster $(ARGS)

fleet: $(VENV)/dev.stamp  ## a simulated fleet of up to 1,000 shards and a billion items; tables for sizing
	$(BIN)/python -m loadtests.fleet $(ARGS)

chaos: $(VENV)/dev.stamp  ## faults of every kind against the service; a table of what was wrong
	$(BIN)/python -m loadtests.chaos $(ARGS)

sanitize: $(VENV)/test.stamp  ## the core's tests under AddressSanitizer and UndefinedBehaviorSanitizer
	sh .ci/sanitize $(BIN)/python

race:  ## searches from many threads under ThreadSanitizer
	sh .ci/race

fuzz: $(VENV)/test.stamp  ## random arrays through the kernels (ARGS="SECONDS SEED"), random heads through the HTTP reader
	sh .ci/fuzz $(ARGS)
	$(BIN)/python -m loadtests.chaos.reader --millions 3

wheel-test: $(VENV)/test.stamp  ## build sdist and wheels for each Python here, and try them without a compiler
	sh .ci/wheel-test $(BIN)/python

release: $(VENV)/test.stamp  ## the same, and keep in dist/ what a release consists of
	sh .ci/wheel-test $(BIN)/python dist

clean:  ## remove everything that was made
	rm -rf $(VENV) build dist *.egg-info .cache .hypothesis .pytest_cache .mypy_cache .ruff_cache
	rm -f greedy_core/_kernel.cpp greedy_core/_graph.cpp greedy_core/_fold_in.cpp greedy_core/*.so
	rm -rf clients/typescript/node_modules clients/typescript/dist
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

# Node and npm come with the test extra.
$(NODE): clients/typescript/package-lock.json | $(VENV)/test.stamp
	cd clients/typescript && $(WITH_BIN) npm ci --silent --no-audit --no-fund
	@touch $@

docs: $(VENV)/dev.stamp  ## the documentation site, in .cache/site
	cd docs && PYTHONPATH="$(CURDIR)" NO_MKDOCS_2_WARNING=1 "$(CURDIR)/$(BIN)/mkdocs" build --quiet --strict
	@echo "The site is in .cache/site: open index.html, or \`python3 -m http.server -d .cache/site\` for the search, too."

screenshots: $(VENV)/dev.stamp  ## the pictures of the page at /, light and dark, in docs/pages/pictures
	sh deploy/install-packages.sh
	$(BIN)/python docs/screenshots.py $(ARGS)

client: $(NODE)  ## make clients/openapi.json and the clients' types anew
	$(BIN)/python -m clients.openapi > clients/openapi.json
	$(BIN)/python -m clients.python_types > clients/python/budgetrec_client/types.py
	cd clients/typescript && $(WITH_BIN) npm run --silent types
	cd clients/typescript && $(WITH_BIN) npm run --silent build

$(VENV)/peers.stamp: $(VENV)/bin/python pyproject.toml $(NATIVE)
	sh .ci/install $(VENV) '[dev,peers]'
	@touch $@ $(VENV)/serve.stamp $(VENV)/test.stamp $(VENV)/dev.stamp
