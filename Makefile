# Everything a checkout needs, from python3 (3.11+) and make alone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
BENCH  := $(VENV)/.ready-bench
ATTACK := $(VENV)/.ready-prove
# More than the cores: tests often wait for a server or a process to start.
JOBS   ?= 3
PYTEST ?=
PART   ?=
SEED   ?=
PROVE  ?=
# The programs of a PostgreSQL to test on besides the embedded one, such as /usr/lib/postgresql/14/bin, and the names of
# the servers to keep to (pg14, mariadb).  A MySQL or MariaDB that runs already: PENSTOCK_TEST_MYSQL=mysql://root@host/
PG_BIN ?=
SERVER ?=
# Tested versions of everything, of Python 3.11; CONSTRAINTS= takes the newest that pyproject.toml allows.
CONSTRAINTS ?= constraints.txt
# Some of the tests only: then coverage is not measured.
SOME    = $(strip $(PYTEST)$(SERVER))
# Penstock and the lowest versions of what it stands on, and the tests that are run with them.
LOWEST       := .venv-lowest
LOWEST_BIN   := $(LOWEST)/bin
LOWEST_READY := $(LOWEST)/.ready
LOWEST_EXTRAS := cloudevents,dashboard,django,embedded,fastapi,metrics,mysql,parquet,pydantic,sqlalchemy,sqs,tracing,watch
LOWEST_TOOLS := asyncpg boto3 fastapi hatchling httpx hypothesis mypy opentelemetry-sdk pymysql pytest pytest-asyncio pytest-timeout \
                pytest-xdist pyyaml ruff 'sqlalchemy[asyncio]'
LOWEST_TESTS ?= tests/unit tests/client tests/worker tests/tasks tests/integrations tests/observe tests/testing \
                tests/dashboard tests/sqs/test_actions.py tests/sqs/test_http.py tests/acceptance/test_cli.py tests/acceptance/test_transfer.py

# Programs that write files into the repository; each can tell whether its files are current.
GENERATORS := tools/grants.py tools/spark_reference.py tools/pipeline_reference.py tools/sql_reference.py tools/generate_sync.py tools/cli_reference.py tools/observe_reference.py tools/python_reference.py tools/sqs_model.py tools/sqs_compatibility.py tools/proof_page.py
CHECKED    := $(wildcard src bench prove tests tools examples)

.DEFAULT_GOAL := help
.PHONY: help venv demo test lint words types imports generated docs pytest coverage test-lowest prove long-tests bench dist \
        format clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY)  ## the virtual environment, made once

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Penstock needs Python 3.11 or later; name one with: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) \
	  || { rm -rf $(VENV); echo "python3 can't make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing Penstock and its tools (the first time takes a few minutes: Spark is large)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev,metrics,spark,tracing]' $(addprefix --constraint ,$(CONSTRAINTS))
	@touch $@

$(BENCH): $(READY)
	@echo "installing what the benchmarks compare with"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev,bench]' $(addprefix --constraint ,$(CONSTRAINTS))
	@! command -v npm > /dev/null || npm install --prefix bench/peers/node --no-package-lock --no-audit --no-fund --silent
	@touch $@

demo: $(READY)  ## an order stream on an embedded PostgreSQL, its archive and its report, in a minute
	@$(BIN)/penstock demo

test: lint words types imports generated docs pytest  ## everything that must hold before a change is merged

lint: $(READY)  ## ruff: rules and formatting
	@echo "ruff";  $(BIN)/ruff check --quiet $(CHECKED)
	@$(BIN)/ruff format --quiet --check $(CHECKED) || { echo "run: make format" >&2; exit 1; }

words: $(READY)
	@echo "plain words";  $(BIN)/python tools/plain_words.py

types: $(READY)  ## mypy, strict, on src
	@echo "mypy";  $(BIN)/mypy --no-error-summary

imports: $(READY)
	@echo "import-linter";  $(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }

generated: $(READY)
	@set -e; for tool in $(wildcard $(GENERATORS)); do echo "$$tool --check"; $(BIN)/python $$tool --check; done

pytest: $(READY)
	@sh tools/debian_packages.sh
	@# Compiled tests are kept: without them every worker compiles all tests again.
	@PATH="$(if $(PG_BIN),$(PG_BIN):)$$PATH" env -u PYTHONDONTWRITEBYTECODE \
	  $(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup $(if $(SOME),,-p tools.measured) $(addprefix --server ,$(SERVER)) $(PYTEST)
	@$(if $(SOME),,$(MAKE) --no-print-directory coverage)

coverage: $(READY)
	@cd build/coverage && ls data.* > /dev/null 2>&1 || { echo "nothing was measured: make pytest" >&2; exit 1; }
	@$(BIN)/coverage combine -q --keep
	@$(BIN)/coverage report --sort=cover > build/coverage/report.txt; status=$$?; \
	  echo "coverage of src, lines and branches (build/coverage/report.txt; which tests: tools/measured.py)"; \
	  grep -E '^TOTAL|fail-under' build/coverage/report.txt; exit $$status

docs: $(READY)  ## the documentation as a site, in build/site
	@echo "mkdocs"; NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }

$(ATTACK): $(READY)
	@echo "installing what the proof programme attacks with"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev,prove]' $(addprefix --constraint ,$(CONSTRAINTS)) \
	  || echo "not installed: the parts that want it say so" >&2
	@touch $@

prove: $(ATTACK)  ## faults survived, counted, each with a sabotaged twin (PART=server-kill SEED=7 for one)
	@sh tools/debian_packages.sh --prove
	@$(BIN)/python -m prove $(if $(PART),--part $(PART)) $(if $(SEED),--seed $(SEED)) $(PROVE)
	@$(BIN)/python tools/proof_page.py

long-tests: $(READY)  ## tests that take too long for every change, and every planted mutation
	@$(BIN)/python -m pytest -q -m prove --timeout 3600
	@$(BIN)/python tools/mutations.py

bench: $(BENCH)  ## Penstock and its peers in one run: a table, a plot, JSON
	@$(BIN)/python -m bench

$(LOWEST_READY): pyproject.toml tools/lowest_versions.py
	@echo "making $(LOWEST) with the lowest versions that pyproject.toml allows"
	@rm -rf $(LOWEST)
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST_BIN)/python tools/lowest_versions.py > $(LOWEST)/lowest.txt
	@$(LOWEST_BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[$(LOWEST_EXTRAS)]' $(LOWEST_TOOLS) \
	  --constraint $(LOWEST)/lowest.txt
	@touch $@

test-lowest: $(LOWEST_READY)  ## most tests of Python, without Spark, with the lowest versions of dependencies
	@# What old versions deprecate in each other is not ours to mend.
	@$(LOWEST_BIN)/pytest -q -n $(JOBS) --dist loadgroup -W ignore::DeprecationWarning $(LOWEST_TESTS) $(PYTEST)

dist: $(READY)  ## the source distribution and the wheel, in dist; the wheel is installed and asked for its version
	@rm -rf dist build/wheel
	@$(BIN)/python -m hatchling build -d dist
	@$(PYTHON) -m venv build/wheel
	@build/wheel/bin/python -m pip install -qq --disable-pip-version-check dist/*.whl
	@build/wheel/bin/penstock --version

format: $(READY)  ## ruff: mend what can be mended
	@$(BIN)/ruff check --quiet --fix $(CHECKED); $(BIN)/ruff format --quiet $(CHECKED)

clean:  ## forget the virtual environment and every cache
	@rm -rf $(VENV) $(LOWEST) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
