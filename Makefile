# `make run` and `make test` need Python 3.11 or newer, git and make; they make the rest themselves.
# Another interpreter: make run PYTHON=python3.13

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK ?=
GENERATED := docs/architecture.md docs/cli.md docs/format.md docs/json.md docs/library.md docs/sql.md docs/team.md docs/tools.md
GATED := src/unspool/format/*,src/unspool/read/*,src/unspool/graph/*

.PHONY: help install run quick test test-fast test-all check fix faults fuzz judge-fuzz judge-tools redact-cells claude spark payloads bench browser pictures clickhouse databases docs lock release clean
PKG ?=
.DELETE_ON_ERROR:

help: ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s%s\n", $$1, $$2 }' Makefile

install: $(VENV)/.base ## make .venv with everything that unspool needs; ./unspool is the command then

# Ctrl-C ends the server, and is no error. The demo has a data folder of its own, so none of it gets into yours.
run: $(VENV)/.base ## open it in the browser: your own sessions, or made-up ones if there are none
	@trap 'exit 0' INT; \
	if [ -d "$${CLAUDE_CONFIG_DIR:-$$HOME/.claude}/projects" ]; then \
	  $(BIN)/unspool serve; \
	else \
	  echo "No Claude Code sessions found here. Writing made-up ones to .demo ..." >&2; \
	  rm -rf .demo && $(BIN)/unspool demo .demo/config >&2 || exit 1; \
	  echo "One of these sessions needs you: the first page lists it at the top." >&2; \
	  UNSPOOL_HOME="$$PWD/.demo/data" $(BIN)/unspool serve --config-dir .demo/config; \
	fi

quick: $(VENV)/.dev ## run the fast tests, of one package with PKG=store; under a minute for each
	@UNSPOOL_PROFILE=quick $(BIN)/python -m pytest -q -n 2 -m 'not slow' $(if $(PKG),tests/$(PKG),tests --ignore=tests/browser --ignore=tests/claude --ignore=tests/faults)

# Without CI: everything but what is marked slow, in two processes. With CI, all of it, Spark (450 MB to fetch) and the
# engine of ClickHouse (150 MB) included, one suite after the other on each core.
test: browser judge-tools databases $(if $(CI),spark clickhouse test-all,test-fast) ## run the tests; with CI set also the slow ones and the coverage gate

test-fast:
	@$(BIN)/python -m pytest -q -n 2 -m 'not slow'

test-all:
	@$(BIN)/python -m scripts.test_suites
	@$(BIN)/coverage report --include='$(GATED)' --fail-under=95

browser: $(VENV)/.dev # Chromium and Firefox, which the tests drive; nothing to do where they are
	@$(BIN)/python -m tests.browser.chromium
	@$(BIN)/python -m tests.browser.firefox

check: $(VENV)/.dev ## format, lint, types, imports, generated docs; changes nothing
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/ruff check --quiet
	@$(BIN)/mypy
	@words=$$($(BIN)/lint-imports) || { echo "$$words"; exit 1; }
	@$(BIN)/cog -I . --check $(GENERATED)
	@$(BIN)/python -m scripts.man_page --check

fix: $(VENV)/.dev ## repair what `check` can repair and rewrite snapshots; then read the diff
	@$(BIN)/ruff check --fix --quiet || true
	@$(BIN)/ruff format --quiet
	@$(BIN)/cog -I . -r $(GENERATED)
	@$(BIN)/python -m scripts.man_page
	@$(BIN)/python -m pytest -q --inline-snapshot=create,fix || true

faults: $(VENV)/.dev ## kill 300 syncs at every step while files change, and compare what is left row by row
	@UNSPOOL_FAULTS=300 $(BIN)/python -m pytest -q tests/faults tests/client/test_kill.py

claude: $(VENV)/.dev ## ask every version of Claude Code that is listed; takes half an hour
	@UNSPOOL_CLAUDE=all $(BIN)/python -m pytest -q tests/claude

fuzz: $(VENV)/.dev ## run every command and page on damaged folders for SECONDS (an hour), and count tracebacks
	@$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),3600)

redact-cells: $(VENV)/.dev ## draw 200 secrets for each format, carrier and escaping, and count those that redaction misses
	@UNSPOOL_REDACT_VALUES=200 $(BIN)/python -m pytest -q tests/redact/test_cells.py

judge-fuzz: $(VENV)/.dev ## run RUNS (50000) allowed commands in three shells under strace, and compare with the judge
	@$(BIN)/python -m tests.permissions.differential --runs $(or $(RUNS),50000)

judge-tools: $(VENV)/.dev # strace and zsh, which that needs; installed only where CI is set
	@$(BIN)/python -m tests.permissions.differential.tools

databases: $(VENV)/.dev # Postgres and ClickHouse's server, which tests of `lake sink` start; installed only where CI is set
	@$(BIN)/python -m tests.collect.sinks.tools

clickhouse: $(VENV)-clickhouse/.ready ## fetch the engine of ClickHouse, which some tests of `lake sink` ask (150 MB)

spark: $(VENV)-spark/.ready ## fetch Spark, which some tests of the lake ask (450 MB, needs Java 17)

payloads: browser ## look for every payload behind every row, in a real browser; takes a quarter of an hour
	@UNSPOOL_PAYLOADS=all $(BIN)/python -m pytest -q tests/browser/test_payloads.py

bench: $(VENV)/.dev ## measure
	@$(BIN)/python -m bench

pictures: browser ## take the pictures of README and guide again
	@$(BIN)/python -m tests.browser.album

docs: $(VENV)-docs/.ready ## build the documentation site into .site; open .site/start.html
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --quiet --strict
	@echo "The site is built: open .site/start.html" >&2

LOCKED = uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
  --no-emit-index-url --no-emit-find-links $(LOCK)
COMPILE = $(LOCKED) requirements/build.in pyproject.toml

lock: ## pin the requirements again (needs uv); LOCK=--upgrade takes newer versions
	@$(COMPILE) --output-file requirements/base.txt --extra all
	@$(COMPILE) --output-file requirements/dev.txt --extra all requirements/dev.in
	@$(LOCKED) --output-file requirements/spark.txt requirements/spark.in
	@$(LOCKED) --no-deps --output-file requirements/clickhouse.txt requirements/clickhouse.in
	@$(LOCKED) --output-file requirements/docs.txt requirements/docs.in

release: $(VENV)/.dev ## set VERSION everywhere, build, try the wheel in a clean environment, commit and tag
	@$(BIN)/python -m scripts.release $(VERSION) $(URL)

clean: ## remove what make made
	@rm -rf $(VENV) $(VENV)-spark $(VENV)-clickhouse $(VENV)-docs .site .demo .bench .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
	@find src tests bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The environment. A stamp is newer than what it was made from, so a second run does nothing.
# An environment whose interpreter has gone, as after an upgrade of the system, is made again.

$(shell test -x $(BIN)/python || rm -f $(VENV)/.base $(VENV)/.dev)

# uv shows its own progress. Of what pip prints, one line for each package is shown: it takes a minute or more.
INSTALL = install() { \
  if uv --version >/dev/null 2>&1; then uv pip install --python $(BIN)/python "$$@"; \
  else { $(BIN)/python -m pip install --disable-pip-version-check --no-input "$$@" 2>&1; echo "exit $$?"; } | awk -f scripts/pip_progress.awk; fi; }

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "unspool needs Python 3.11 or newer; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Making $(VENV) with $$($(PYTHON) --version) ..." >&2
	@if uv --version >/dev/null 2>&1; then \
	  uv venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV); \
	else $(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }; fi

$(VENV)/.base: requirements/base.txt pyproject.toml $(BIN)/python
	@echo "Installing the libraries of unspool (320 MB in $(VENV)) ..." >&2
	@$(INSTALL); install --require-hashes -r requirements/base.txt
	@echo "Installing unspool itself ..." >&2
	@$(INSTALL); install --no-deps --no-build-isolation -e .
	@touch $@
	@echo "unspool is installed. Run it as ./unspool, or put it on PATH with: . $(BIN)/activate" >&2

$(VENV)/.dev: requirements/dev.txt $(VENV)/.base
	@echo "Installing what the tests and checks need ..." >&2
	@$(INSTALL); install --require-hashes -r requirements/dev.txt
	@touch $@

# The site, Spark and ClickHouse's engine have environments of their own: none is needed to run unspool. The files pin
# everything that is needed, so nothing else is looked for.
$(VENV)-%/.ready: requirements/%.txt
	@echo "Making $(VENV)-$* ..." >&2
	@if uv --version >/dev/null 2>&1; then \
	  uv venv --quiet --clear --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)-$* && \
	  uv pip install --quiet --python $(VENV)-$*/bin/python --no-deps --require-hashes -r requirements/$*.txt; \
	else \
	  $(PYTHON) -m venv --clear $(VENV)-$* && \
	  $(VENV)-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/$*.txt; \
	fi
	@touch $@
