# The project's commands. Each target makes the environment it needs in .venv.

PYTHON ?= python3
BENCH ?= log
EXAMPLES := word_count tweet_reach connected_components entity_resolution denormalisation customers linear_road scheduler
VENV := .venv
READY := $(VENV)/.ready
RUN := $(VENV)/bin/python
LOCK := build/lock
UV := uv==0.13.8

SHELL := bash
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo demo-log examples test test-long check format bench lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(READY) ## a flow on Spark, killed and started again: every record counts once
	@$(RUN) -m examples.demo

demo-log: $(READY) ## a tour of the log, half a minute
	@$(RUN) -m examples.demo_log

examples: $(READY) ## the small programs in examples/: what each computes, and its graph
	@for name in $(EXAMPLES); do echo; $(RUN) -m examples.$$name || exit 1; done

test: $(READY) ## every test that is not marked long, documents and doctests too
	@$(RUN) -m pytest -q -m "not long" --durations=20

test-long: $(READY) ## the tests marked long, then 20,000 runs of the crash check
	@$(RUN) -m pytest -q -m long --durations=20 --timeout=3600
	@$(RUN) -m tests.crash --runs 20000 --seed 1

check: $(READY) ## lint, format, types, layers, tidiness
	@echo "ruff check" && $(RUN) -m ruff check --quiet .
	@echo "ruff format --check" && $(RUN) -m ruff format --check --quiet .
	@echo "mypy --strict" && $(RUN) -m mypy --strict --no-error-summary $(wildcard src tests bench examples)
	@echo "lint-imports" && $(VENV)/bin/lint-imports
	@echo "tidy" && $(RUN) -m pytest -q tests/test_tidy.py

format: $(READY) ## format the code and mend what ruff can mend
	@$(RUN) -m ruff check --fix --quiet . ; $(RUN) -m ruff format .

bench: $(READY) ## measure: make bench BENCH=log
	@$(RUN) -m bench $(BENCH)

lock: ## write requirements.txt from pyproject.toml; UPGRADE=1 moves every pin
	@echo "locking with $(UV)"
	@$(PYTHON) -m venv $(LOCK) && $(LOCK)/bin/python -m pip install --quiet $(UV)
	@$(LOCK)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade) \
	  --extra kafka --extra redis --extra spark --extra testing --group dev --output-file requirements.txt pyproject.toml

clean: ## remove the environment and everything made
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Installing takes a while the first time, so it names each package as it comes.
$(READY): requirements.txt pyproject.toml
	@echo "making $(VENV)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@set -o pipefail; $(RUN) -m pip install --require-hashes -r requirements.txt \
	  | { grep --line-buffered -oE '^Collecting [^ ]+' || true; }
	@$(RUN) -m pip install --quiet --no-build-isolation --no-deps -e .
	@touch $(READY)
