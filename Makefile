# One entry point for people and CI. Needs Python 3.11 or newer, pip and make; everything else is
# installed into .venv, from the lock file, by the first target that needs it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Packages with Temporal's tool and, in it, a server: tests/server_versions has one for each version.
# The embedded server is the newest; the oldest is the one that docs/reference/versions.md names.
SERVERS ?= 1.29 1.30 1.31
OLDEST := 1.29
TOOLS := $(CURDIR)/$(VENV)/servers
# What servers may do differently: search, reset, add search attributes.
SERVER_TESTS := tests/workflow/test_visibility.py tests/workflow/test_lost_attributes.py tests/workflow/test_resets.py \
	tests/unit/cli/test_list_runs.py tests/unit/temporal/visibility tests/unit/cli/test_doctor.py::test_missing_attributes_are_told_and_then_added
# The certificates of the system, so that it works behind a proxy as pip does.
SYNC := UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv sync --quiet --locked --inexact --python $(BIN)/python
LOCK := pyproject.toml uv.lock
LOWEST := .venv-lowest
NEWEST := .venv-newest
# The newest temporalio, also a pre-release. TEMPORALIO= names another, such as a branch.
NEXT := .venv-temporalio-next
TEMPORALIO ?= temporalio>=1.35.0a0
NEXT_TESTS := tests/unit/worker tests/unit/temporal/payloads tests/unit/activities/heartbeats tests/replay \
	tests/workflow/test_blocked_loop.py tests/workflow/test_answers.py tests/workflow/test_plugin.py tests/workflow/test_archive.py \
	tests/unit/docs/test_upstream.py
# The package with LiteLLM's proxy, which the page on other model servers names.
LITELLM := $(CURDIR)/.venv-litellm
# The environments of the frameworks that benchmarks/peers compares with, which it makes itself.
PEERS := $(CURDIR)/.venv-peers
# The frameworks of docs/coming-from, which its programs run with.
COMING_FROM := $(CURDIR)/.venv-coming-from
# Packages that import the OpenAI Agents SDK, whose objects outlast takes.
SDK_PACKAGES := $(CURDIR)/.venv-sdk-packages
# The environment of each is .venv-VERSION.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
# What tests need beside the dependencies of the package.
EXTRAS := $(addprefix --extra ,blobs cli dev encrypt evals identity mcp mongodb monitor otel realtime redis search serve slack speed sqlalchemy viz)
LITELLM_TOOL := litellm[proxy]==1.106.2
# Phoenix, which shows traces of agents, and a collector that is built from its Go modules.
PHOENIX := $(CURDIR)/.venv-phoenix
PHOENIX_TOOL := arize-phoenix==20.26.1
COLLECTOR := tests/otel_backends/collector
OTELCOL := $(CURDIR)/$(VENV)/otelcol
# Renders the manifests of deploy/kubernetes.
KUSTOMIZE := v5.7.1
# What installs or builds for longer than this many seconds is given up, where there is such a tool.
LIMIT = $(if $(shell command -v timeout),timeout $(1))
# Checks rules of alerts; from Debian's package of Prometheus, which is only unpacked.
PROMTOOL := $(CURDIR)/$(VENV)/prometheus/usr/bin/promtool
# The package with the checks of accessibility that run in the browser.
# npm has certificates of its own, beside those of the file that other tools are told of.
NPM := $(if $(SSL_CERT_FILE),NODE_EXTRA_CA_CERTS=$(SSL_CERT_FILE)) npm
AXE := $(CURDIR)/$(VENV)/npm
AXE_TOOL := axe-core@4.14.1
# What npm installed, in a file that it writes itself: without the packages, the file is not there.
CLIENTS := tests/clients/node_modules/.package-lock.json
OIDC := tests/oidc_provider/node_modules/.package-lock.json
DIAGRAMS := docs/npm/node_modules/.package-lock.json
PAGES := examples/agui_chat/node_modules/.package-lock.json examples/vercel_chat/node_modules/.package-lock.json
# What the parts of `make check` print and cost; nightly and soak have folders of their own.
PARTS ?= $(CURDIR)/$(VENV)/check
# Runs a command, and writes what it costs to a file.
MEASURED = $(BIN)/python -m tests.gate run $(PARTS)
# What depends on other people's packages and servers more than on a commit.
NIGHTLY := pythons newest temporalio-next servers cluster restore otel-where-possible litellm-proxy coming-from sdk-packages deploy scan every-page every-host laws monitoring faults-sample
# What takes hours; with HOURS=, the load of a cluster alone.
SOAK := $(if $(HOURS),load,crash fuzz-longer mutate hunt load)
# `make check WITHOUT_NODE=1` leaves out what needs Node.js.
WITHOUT_NODE ?=

# Workers, servers and commands are processes of their own in many tests: each would compile the
# packages again if nothing kept what was compiled.
unexport PYTHONDONTWRITEBYTECODE
# The tests of a file stay together, since they share fixtures; each process has a server. Two processes
# keep two cores busy; the others begin with tests that wait for processes, servers and time.
PYTEST := $(BIN)/python -m tests.pool -n 2

.PHONY: help demo test test-full test-beyond browser every-page every-host chromium node clients cluster load deploy deploy-tools hunt faults faults-sample faults-packages older-server servers named-server litellm-proxy monitoring restore otel otel-where-possible mongo oidc lowest newest temporalio-next check check-beyond nightly soak lint types layers fmt packages coverage fuzz fuzz-longer laws crash mutate bench bench-peers coming-from sdk-packages docs site pythons release-check release record-release scan compose clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo ## watch a support desk survive kill -9, in this terminal and in a browser
	@$(BIN)/outlast demo $$(test -t 0 && test -t 1 && echo --desk)

test: $(VENV)/.test ## run the tests, but for the slowest; under three minutes
	@$(MEASURED)/test.json $(PYTEST) -w 2 -m "not full"

test-full: $(VENV)/.test ## run all tests
	@OUTLAST_LAWS=1 $(PYTEST) -w 3

cluster: $(VENV)/.test ## a deploy there and back under load: two desks, three workers, a server on PostgreSQL; needs Go and Debian's postgresql
	@$(BIN)/pytest -q -rs tests/cluster

load: $(VENV)/.test ## such a cluster for hours, with kills and deploys at random times, its memory and its ledger; HOURS=, SEED=
	@$(BIN)/python -m tests.cluster.soak --hours $(or $(HOURS),2) --seed $(or $(SEED),1)

hunt: $(VENV)/.test ## look for tests that fail at times; hours, in pieces: ROUNDS=rest,busy MINUTES=50 IN=tests/crash
	@$(BIN)/python -m tests.hunt $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MINUTES),--minutes $(MINUTES)) $(IN)

# Each part of a small production is a process in a network namespace. Packages that are missing are installed where
# they may be; rows that need what is not there are skipped, and say what it is.
faults: $(VENV)/.test faults-packages ## cut networks, full and slow disks, clocks that jump, no memory; ROWS="worker disk"; under 20 minutes, as root
	@$(BIN)/python -m tests.faults $(ROWS)

faults-sample: $(VENV)/.test ## the quick ones of these, on the embedded server
	@$(BIN)/python -m tests.faults --sample

faults-packages:
	@test -n "$$(ls /usr/lib/postgresql 2>/dev/null)" -a -n "$$(ls -d /usr/lib/*/faketime 2>/dev/null)" \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet=2 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends postgresql faketime >/dev/null; } \
		|| echo "make faults: PostgreSQL and libfaketime are not here and cannot be installed: apt-get install postgresql faketime"

older-server: server-$(OLDEST) ## what is searched for and reset, on the oldest server that is supported

servers: $(patsubst %,server-%,$(SERVERS)) ## the same on each older server; TESTS=tests/workflow for others

server-%: $(TOOLS)/%/.installed
	@$(TOOLS)/$*/bin/temporal --version
	@OUTLAST_TEMPORAL_CLI=$(TOOLS)/$*/bin/temporal $(BIN)/pytest -q -n 3 --dist loadfile $(or $(TESTS),$(SERVER_TESTS))

named-server: $(VENV)/.test ## the same on the server at OUTLAST_TEST_ADDRESS, whatever its database is
	@test -n "$$OUTLAST_TEST_ADDRESS" || { echo "say which server with OUTLAST_TEST_ADDRESS=127.0.0.1:7233"; exit 2; }
	@$(BIN)/pytest -q $(SERVER_TESTS)

litellm-proxy: $(VENV)/.test $(LITELLM)/.installed ## models behind a real LiteLLM proxy
	@OUTLAST_LITELLM=$(LITELLM)/bin/litellm $(BIN)/pytest -q tests/litellm_proxy

restore: $(VENV)/.test ## a Temporal server on PostgreSQL is restored from a backup; needs PostgreSQL and Go
	@$(BIN)/pytest -q -rs -m nightly tests/restore

coming-from: $(VENV)/.test $(COMING_FROM)/.installed ## the programs of docs/coming-from, with the frameworks that they are for
	@OUTLAST_COMING_FROM=$(COMING_FROM)/bin/python $(BIN)/pytest -q tests/coming_from

sdk-packages: $(VENV)/.test $(SDK_PACKAGES)/.installed ## objects of packages that are made for the OpenAI Agents SDK
	@OUTLAST_SDK_PACKAGES=$(SDK_PACKAGES)/bin/python $(BIN)/pytest -q tests/sdk_packages

otel: $(VENV)/.test $(PHOENIX)/.installed $(OTELCOL) ## traces in a real collector and a real Phoenix
	@OUTLAST_OTELCOL=$(OTELCOL) OUTLAST_PHOENIX=$(PHOENIX)/bin/phoenix $(BIN)/pytest -q tests/otel_backends

# The same in `nightly`: what cannot be installed or built here is left out, in plain words.
otel-where-possible: $(VENV)/.test
	@$(MAKE) --no-print-directory $(PHOENIX)/.installed $(OTELCOL) --keep-going || $(OTEL_LEFT_OUT)
	@collector=$$(test ! -x $(OTELCOL) || echo $(OTELCOL)); phoenix=$$(test ! -f $(PHOENIX)/.installed || echo $(PHOENIX)/bin/phoenix); \
		test -z "$$collector$$phoenix" || OUTLAST_OTELCOL=$$collector OUTLAST_PHOENIX=$$phoenix $(BIN)/pytest -q -rs tests/otel_backends

OTEL_LEFT_OUT := for missing in $(OTELCOL) $(PHOENIX)/.installed; do test -e $$missing \
	|| echo "LEFT OUT: tests with a real $$(case $$missing in $(OTELCOL)) echo collector, which could not be built;; *) echo Phoenix, which could not be installed;; esac); make otel says why"; done

monitoring: $(VENV)/.test $(PROMTOOL) ## every alert of deploy/monitoring, by planting its fault
	@OUTLAST_PROMTOOL=$(PROMTOOL) $(BIN)/pytest -q -rs tests/unit/monitor tests/workflow/test_monitor.py

$(PROMTOOL):
	@mkdir -p $(VENV)/prometheus
	@cd $(VENV)/prometheus && { apt-get download --quiet=2 prometheus 2>/dev/null || { apt-get update --quiet=2 && apt-get download --quiet=2 prometheus; }; } \
		&& dpkg -x prometheus_*.deb . || { echo "make monitoring: promtool cannot be installed here. It is in Debian's package prometheus"; exit 1; }

# Two of the four combinations of theme and width; `every-page` has all.
PAGE_TESTS := -n 2 --dist loadfile -m "not nightly" tests/browser
browser: $(VENV)/.browser $(OIDC) $(PAGES) site chromium ## the desk and the documentation in a real browser; installs Debian's Chromium
	@OUTLAST_BROWSER="$$(command -v chromium)" OUTLAST_AXE=$(AXE)/node_modules/axe-core/axe.min.js \
		$(BIN)/pytest -q $(PAGE_TESTS)

every-page: PAGE_TESTS := tests/browser/test_every_page.py
every-page: browser ## each page of the desk in both themes and at both widths

every-host: $(VENV)/.test ## whose objects runs get: every plan and every attack, in programs and in workers
	@$(BIN)/pytest -q -n 2 --dist loadfile tests/workflow/test_whose_objects.py tests/workflow/test_lost_objects.py tests/attacks/test_another_runs_objects.py

# A browser that is missing is a failure: these tests never pass without having run.
chromium:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet=2 \
		&& DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends chromium fonts-dejavu-core >/dev/null; } \
		|| { echo "make browser: there is no chromium, and it cannot be installed here. Install Debian's package: apt-get install chromium"; exit 1; }

deploy: $(VENV)/.lint deploy-tools ## the desk of the compose file as processes, behind both logins; and the manifests for Kubernetes
	@command -v nginx >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update --quiet=2 \
		&& RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --no-install-recommends nginx-light >/dev/null; } \
		|| echo "LEFT OUT: the login behind a proxy, since there is no nginx, and it cannot be installed here"
	@$(BIN)/pytest -q -rs tests/deploy

# kubectl renders as well as kustomize; where neither is there, it is built.
deploy-tools: $(VENV)/.test
	@command -v kubectl >/dev/null || test -x $(BIN)/kustomize || { command -v go >/dev/null \
		&& GOBIN=$(CURDIR)/$(BIN) $(call LIMIT,900) go install -trimpath sigs.k8s.io/kustomize/kustomize/v5@$(KUSTOMIZE); } \
		|| echo "LEFT OUT: the manifests for Kubernetes, since there is neither kubectl nor Go to build kustomize"

clients: $(VENV)/.test $(CLIENTS) ## the real npm clients of front ends before the desk
	@$(BIN)/pytest -q tests/clients

# What is quick and touches every dependency: its own environment, so that the usual one stays.
# Slow tests of the same packages find what these do; but for a run on a server, and a reload on save.
# What `newest` names of what it chose.
NAMED := temporalio|openai|aiohttp|pydantic|mcp|typer|rich|starlette|slack-sdk|obstore|redis|sqlalchemy|opentelemetry-sdk|cryptography|uvloop|httpx|pytest|protobuf

VERSION_TESTS := tests/unit/mcp tests/unit/models tests/unit/otel tests/unit/sessions tests/replay tests/architecture/test_dependencies.py
# Of agents and commands, what uses other packages; of the commands, one test of each kind runs on a server.
LOWEST_TESTS := $(VERSION_TESTS) tests/unit/cli/test_app.py tests/unit/cli/test_entry.py tests/unit/serve/test_pictures.py \
	$(patsubst %,tests/unit/agents/test_%.py,agent_output agent_tool agent_tool_input context context_codec context_encoding \
	func_schema function_schema handoff hosted_tools item_helpers live_context mcp_results model_settings output_info output_type \
	programs raw_items record_classes run_config session_memory stream_events strict_schema tool_output typed_events usage user_validators)
NEWEST_TESTS := $(VERSION_TESTS) tests/unit/agents tests/unit/cli

mongo: ## install a server in Java that speaks MongoDB's protocol, for the tests of its sessions
	@mvn -q -B -f tests/unit/sessions/mongo/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.mongo

oidc: $(OIDC) ## install a real OpenID Connect provider, at which the tests log in

node:
	@npm --version >/dev/null 2>&1 && node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null \
		|| { echo "Node.js 20 with npm is not installed. It is needed for pages in a browser, npm clients and logins at a real provider; make check WITHOUT_NODE=1 leaves these out."; exit 1; }

lowest: $(LOWEST)/.installed ## the tests with the oldest versions that pyproject.toml allows
	@$(LOWEST)/bin/python -m tests.pool -n 2 -w 0 --hypothesis-profile=versions -m "not full" $(LOWEST_TESTS)
	@$(LOWEST)/bin/python -m tests.pool -n 2 -w 0 -m "smoke or oldest" tests/unit/cli tests/workflow/test_answers.py

# Resolved anew each time: that a release of somebody else breaks outlast is to be seen. Prints what it chose.
newest: | $(BIN)/uv ## the same tests, and more, with the newest versions that pyproject.toml allows, whatever the lock says
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(NEWEST)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(NEWEST) $(BIN)/uv pip install --quiet --resolution highest \
		--editable '.[blobs,cli,dev,encrypt,evals,identity,mcp,mongodb,monitor,otel,realtime,redis,serve,slack,speed,sqlalchemy]' --group test
	@VIRTUAL_ENV=$(CURDIR)/$(NEWEST) $(BIN)/uv pip list --quiet --format freeze | grep -E '^($(NAMED))==' | tr '\n' ' '; echo
	@$(NEWEST)/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider --hypothesis-profile=versions -m "not full" $(NEWEST_TESTS)

# What of the SDK is private to it is what a release changes first. Prints the version that it chose.
temporalio-next: | $(BIN)/uv ## the tests of what temporalio does not promise, with its newest pre-release; TEMPORALIO=
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(NEXT)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(NEXT) $(BIN)/uv pip install --quiet --editable \
		'.[blobs,cli,dev,encrypt,evals,identity,mcp,mongodb,otel,realtime,redis,serve,slack,speed,sqlalchemy]' --group test '$(TEMPORALIO)'
	@VIRTUAL_ENV=$(CURDIR)/$(NEXT) $(BIN)/uv pip list --quiet --format freeze | grep '^temporalio'
	@$(NEXT)/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider --hypothesis-profile=versions -m "not full" $(NEXT_TESTS)

# A Python that is neither in the path nor pyenv's is named, and left out. PYTHONS= says which, also by path.
pythons: $(VENV)/.test ## what `make test` runs, with each version of Python that is on this machine; TESTS=
	@failed=; for name in $(PYTHONS); do \
		python=; for one in $$name $(HOME)/.pyenv/versions/*/bin/$$name; do $$one -c '' 2>/dev/null && python=$$one && break; done; \
		test -n "$$python" || { echo "$$name: NOT TESTED, it is not on this machine"; continue; }; \
		place=$(CURDIR)/.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		echo "$$($$python --version), in $${place##*/}"; \
		$(BIN)/uv venv --quiet --clear --python $$python $$place \
			&& UV_SYSTEM_CERTS=1 UV_PROJECT_ENVIRONMENT=$$place $(BIN)/uv sync --quiet --locked $(EXTRAS) --group test --compile-bytecode \
			&& $$place/bin/python -m tests.pool -n 2 -w 2 -m "not full" $(TESTS) || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "make pythons: failed with$$failed"; exit 1; }

# What `make test` has left out, and laws as often as they are worth it. `coverage` runs the tests of the
# loop, with all laws, and `types` those of types.
test-beyond: $(VENV)/.test
	@OUTLAST_LAWS=1 $(PYTEST) -w 3 -m "(full or law or installed) and not nightly" --ignore=tests/unit/loop --ignore=tests/architecture/test_user_types.py

check: ## everything that CI runs
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory check-beyond

# Three at a time, since some only wait: for a browser, for packages, for processes. The environment is
# complete before. The longest comes after them: beside Pyright, its busiest tests lost workflow tasks.
check-beyond: $(VENV)/.test ## what CI runs after make test
	@find $(PARTS) -type f ! -name test.json -delete 2>/dev/null || true
	@$(MAKE) --no-print-directory part-packages
	@$(MAKE) --no-print-directory -j 3 $(patsubst %,part-%,$(if $(WITHOUT_NODE),site,browser) types lowest coverage lint layers) \
		&& $(MAKE) --no-print-directory part-test-beyond; $(END_OF_PARTS)

nightly: export PARTS := $(CURDIR)/$(VENV)/nightly
soak: export PARTS := $(CURDIR)/$(VENV)/soak

nightly: $(VENV)/.test ## what depends on other people's packages: Pythons, servers, newest versions; at most an hour
	@rm -rf $(PARTS)
	@$(MAKE) --no-print-directory part-packages
	@$(MAKE) --no-print-directory -j 2 --keep-going $(patsubst %,part-%,$(if $(WITHOUT_NODE),$(filter-out every-page,$(NIGHTLY)),$(NIGHTLY))); \
		$(END_OF_PARTS)
	@$(OTEL_LEFT_OUT)

soak: $(VENV)/.test ## what takes hours: every kill, ten million random events, changes of the core, tests that fail at times, a cluster under load; HOURS=2 for that load alone
	@rm -rf $(PARTS)
	@$(MAKE) --no-print-directory --keep-going $(patsubst %,part-%,$(SOAK)); $(END_OF_PARTS)

packages: $(VENV)/.lint $(VENV)/.site deploy-tools
	@mvn -v >/dev/null 2>&1 && $(MAKE) --no-print-directory mongo || echo "without Maven, the tests of sessions in MongoDB are skipped"
	@if test -n "$(WITHOUT_NODE)"; then echo "without Node.js: no pages in a browser, no npm clients, no logins at a real provider"; \
		else $(MAKE) --no-print-directory $(VENV)/.browser $(OIDC) $(CLIENTS) $(PAGES) $(DIAGRAMS); fi

# A part of `check`, `nightly` or `soak`. Others still print when it has failed, so these repeat its failures at the end.
part-%:
	@mkdir -p $(PARTS)
	@{ $(MEASURED)/$*.json $(MAKE) --no-print-directory $* 2>&1 || touch $(PARTS)/$*.failed; } | tee $(PARTS)/$*.log
	@test ! -e $(PARTS)/$*.failed

# Ends with the exit code of what ran before it.
END_OF_PARTS = code=$$?; $(BIN)/python -m tests.gate report $(PARTS); test $$code = 0 || { $(NAME_FAILED_PARTS); exit 1; }

NAME_FAILED_PARTS = for failed in $(PARTS)/*.failed; do part=$$(basename $$failed .failed); \
	echo; echo "make $@: $$part failed; make $$part runs it alone. Its failures and its last lines:"; \
	grep -E "^(FAILED|ERROR) |error: " $(PARTS)/$$part.log | cut -c1-300 | tail -n 20; tail -n 5 $(PARTS)/$$part.log | cut -c1-300; done

# The packages are used in environments of their own; INSTALL_WITH=python3.13 names another Python.
release-check: $(VENV)/.test ## build the packages, use them in an empty environment, and go through release.yml without the network
	@$(BIN)/python -m tests.release.check $(if $(INSTALL_WITH),--python $(INSTALL_WITH))

release: $(VENV)/.test ## the same, and keep the packages, an SBOM, checksums and notes in dist/; TAG=v0.1.0 is compared
	@$(BIN)/python -m tests.release.check --out dist $(if $(TAG),--tag $(TAG))

record-release: $(VENV)/.test ## record what VERSION= leaves behind: histories, archives, exports, proofs, names
	@test -n "$(VERSION)" || { echo "say which with VERSION=unreleased, or the version of the package"; exit 2; }
	@$(BIN)/python -m tests.replay.record $(VERSION)

scan: $(VENV)/.test ## look for known vulnerabilities in the locked packages
	@$(BIN)/python -m tests.release.scan

lint: $(VENV)/.lint ## style and spelling
	@$(BIN)/ruff check .
	@$(BIN)/codespell docs outlast examples README.md CONTRIBUTING.md CODE_OF_CONDUCT.md SECURITY.md CHANGELOG.md
	@$(BIN)/ruff format --check .
	@UV_SYSTEM_CERTS=1 $(BIN)/uv lock --check --quiet

types: $(VENV)/.lint $(VENV)/.site ## static types, also of users' programs, and of the package as they install it
	@$(BIN)/pyright
	@$(BIN)/python -m tests.release.type_completeness
	@$(BIN)/pytest -q tests/architecture/test_user_types.py

layers: $(VENV)/.lint ## who imports whom
	@$(BIN)/lint-imports

fmt: $(VENV)/.lint ## format the code
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format .

coverage: $(VENV)/.test ## the loop's branch coverage, from its own tests: 100 % or it fails
	@OUTLAST_LAWS=1 $(BIN)/pytest -q tests/unit/loop --cov=outlast.loop --cov-branch --cov-fail-under=100 --cov-report=term-missing

fuzz: $(VENV)/.test ## check the laws of the loop after a million random events; for EVENTS=, SEED=
	@$(BIN)/python -m tests.laws.fuzz --events $(or $(EVENTS),1000000) --seed $(or $(SEED),1)

fuzz-longer: EVENTS := 10000000
fuzz-longer: fuzz

laws: $(VENV)/.test ## try every law with other examples each time; OUTLAST_LAWS=
	@OUTLAST_LAWS=$${OUTLAST_LAWS:-3} $(PYTEST) -w 1 -m law

crash: $(VENV)/.test ## kill the worker at every event of the run
	@$(BIN)/pytest -q tests/crash --every-event

mutate: $(VENV)/.mutation ## how many small changes the tests notice; AREAS="client cli" for some, each at most 20 minutes
	@$(BIN)/python -m tests.mutation $(AREAS)

bench: $(VENV)/.test bench-peers ## measure; see benchmarks/README.md
	@$(BIN)/python benchmarks/turns.py
	@$(BIN)/python benchmarks/model_call.py
	@$(BIN)/python benchmarks/startup.py
	@$(BIN)/python benchmarks/handoffs.py
	@$(BIN)/python benchmarks/in_memory.py
	@$(BIN)/python benchmarks/effects.py
	@$(BIN)/python benchmarks/streaming.py
	@$(BIN)/python benchmarks/spans.py
	@$(BIN)/python benchmarks/guarded.py
	@$(BIN)/python benchmarks/websocket.py
	@$(BIN)/python benchmarks/serve.py

bench-peers: $(VENV)/.bench ## compare with other frameworks: the short rows, about 15 minutes
	@$(BIN)/python -m benchmarks.peers --rows plain --turns 8,50,100 --throughput --starts 5 --out $(PEERS)/results.json

docs: $(VENV)/.test ## redraw the state diagram from the loop, and list the pages in docs/llms.txt
	@$(BIN)/python docs/state_diagram.py
	@$(BIN)/python docs/llms_text.py

site: $(VENV)/.site $(if $(WITHOUT_NODE),,$(DIAGRAMS)) ## build the documentation into site/, and check its links
	@WITHOUT_NODE=$(WITHOUT_NODE) $(BIN)/python docs/build_site.py $(VERSION)
	@test -z "$(WITHOUT_NODE)" || test -e $(DIAGRAMS) || echo "LEFT OUT: the site shows its diagrams as text, since they are drawn by a package of npm"

links: $(VENV)/.test ## ask other sites whether the pages that the documentation links to are there
	@$(BIN)/python docs/links.py

compose: ## check docker-compose.yml
	docker compose config --quiet

clean: ## remove what was installed
	rm -rf dist $(VENV) .venv-3.* $(LOWEST) $(NEWEST) $(NEXT) $(LITELLM) $(PHOENIX) $(COMING_FROM) $(SDK_PACKAGES) $(PEERS) .mongo .mutation tests/clients/node_modules tests/oidc_provider/node_modules docs/npm/node_modules site .pytest_cache .ruff_cache .hypothesis

$(BIN)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "outlast needs Python 3.11 or newer; say which with PYTHON=python3.11")'
	@echo "setting up .venv (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv

$(LOWEST)/.installed: pyproject.toml | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@echo openai-agents > $(LOWEST)/excludes.txt  # its own floors are above some of ours
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(LOWEST) $(BIN)/uv pip install --quiet --resolution lowest-direct --excludes $(LOWEST)/excludes.txt \
		--editable '.[blobs,cli,dev,encrypt,evals,identity,mcp,mongodb,otel,realtime,redis,serve,slack,speed,sqlalchemy]' --group test
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(CURDIR)/$(LOWEST) $(BIN)/uv pip install --quiet --no-deps 'openai-agents>=0.24,<1'
	@touch $@

$(LITELLM)/.installed: Makefile | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LITELLM)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(LITELLM) $(BIN)/uv pip install --quiet '$(LITELLM_TOOL)' \
		|| { echo "make litellm-proxy: cannot install $(LITELLM_TOOL). It needs the package index and 600 MB of disk."; exit 1; }
	@touch $@

$(COMING_FROM)/.installed: tests/coming_from/requirements.txt | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(COMING_FROM)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(COMING_FROM) $(BIN)/uv pip install --quiet --requirement tests/coming_from/requirements.txt
	@touch $@

$(SDK_PACKAGES)/.installed: tests/sdk_packages/requirements.txt pyproject.toml | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SDK_PACKAGES)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(SDK_PACKAGES) $(BIN)/uv pip install --quiet --editable '.[dev]' \
		--requirement tests/sdk_packages/requirements.txt \
		|| { echo "make sdk-packages: cannot install the packages. It needs the package index and 600 MB of disk."; exit 1; }
	@touch $@

$(PHOENIX)/.installed: Makefile | $(BIN)/uv
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(PHOENIX)
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(PHOENIX) $(call LIMIT,300) $(BIN)/uv pip install --quiet '$(PHOENIX_TOOL)' \
		|| { echo "make otel: cannot install $(PHOENIX_TOOL) in 5 minutes. It needs the package index and 700 MB of disk."; exit 1; }
	@touch $@

$(OTELCOL): $(COLLECTOR)/main.go $(COLLECTOR)/go.mod $(COLLECTOR)/go.sum | $(BIN)/uv
	@command -v go >/dev/null || { echo "make otel: the collector is built with Go 1.26 or newer. Install it, or leave make otel out."; exit 1; }
	@cd $(COLLECTOR) && $(call LIMIT,900) go build -trimpath -ldflags "-s -w" -o $@ . \
		|| { echo "make otel: cannot build the collector in 15 minutes. It needs Go 1.26 or newer, and the proxy of Go's modules."; exit 1; }

$(VENV)/.demo: $(LOCK) | $(BIN)/uv
	@$(SYNC) --extra cli --extra dev --extra serve
	@touch $@

$(VENV)/.test: $(LOCK) | $(BIN)/uv
	@$(SYNC) $(EXTRAS) --group test --compile-bytecode
	@touch $@ $(VENV)/.demo

$(VENV)/.bench: $(VENV)/.test
	@$(SYNC) --group test --group bench
	@touch $@

$(VENV)/.mutation: $(VENV)/.test
	@$(SYNC) --group test --group mutation
	@touch $@

$(VENV)/.browser: $(VENV)/.test Makefile | node
	@$(SYNC) --group test --group browser
	@$(NPM) install --silent --no-audit --no-fund --prefix $(AXE) $(AXE_TOOL) \
		|| { echo "make browser: npm cannot install $(AXE_TOOL). It needs npm, and the package index."; exit 1; }
	@touch $@

$(CLIENTS): tests/clients/package-lock.json | node
	@$(NPM) ci --silent --no-audit --no-fund --prefix tests/clients \
		|| { echo "make clients: npm cannot install tests/clients/package-lock.json. It needs the package index."; exit 1; }
	@touch $@

$(OIDC): tests/oidc_provider/package-lock.json | node
	@$(NPM) ci --silent --no-audit --no-fund --prefix tests/oidc_provider \
		|| { echo "make oidc: npm cannot install tests/oidc_provider/package-lock.json. It needs the package index."; exit 1; }
	@touch $@

$(DIAGRAMS): docs/npm/package-lock.json | node
	@$(NPM) ci --silent --no-audit --no-fund --prefix docs/npm \
		|| { echo "make site: npm cannot install docs/npm/package-lock.json. It needs the package index."; exit 1; }
	@touch $@

# Their tests build the pages.
$(PAGES): examples/%/node_modules/.package-lock.json: examples/%/package-lock.json | node
	@$(NPM) ci --silent --no-audit --no-fund --prefix examples/$* \
		|| { echo "make browser: npm cannot install $<. It needs the package index."; exit 1; }
	@touch $@

$(VENV)/.site: $(LOCK) | $(BIN)/uv
	@$(SYNC) --group docs
	@touch $@

# Kept, although only patterns name them.
.PRECIOUS: $(TOOLS)/%/.installed
$(TOOLS)/%/.installed: tests/server_versions/%.txt | $(VENV)/.test
	@$(PYTHON) -m venv $(TOOLS)/$*
	@$(TOOLS)/$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

$(VENV)/.lint: $(LOCK) | $(BIN)/uv
	@$(SYNC) $(EXTRAS) --group test --group lint --group browser --group mutation --group deploy --compile-bytecode
	@touch $@ $(VENV)/.demo $(VENV)/.test
