# Two commands: `make demo` and `make test`. Each is complete on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export DAGSTER_HOME := $(CURDIR)/dagster_home
export DAGSTER_DISABLE_TELEMETRY := yes

.PHONY: help demo test check nightly studies anchors lint docs ui install clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

install: $(STAMP)  ## Create .venv with pinned versions

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed, this is $$($(PYTHON) -V): make PYTHON=python3.11"; exit 2; }
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt 'torch>=2.6'
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)  ## Synthesize a table and a clinic end to end; spends, until the ledger refuses; FRESH=1 starts over
	@$(BIN)/dp-synth demo $(if $(FRESH),--fresh) || test $$? -eq 3

# Files are handed out in the order of their folders, so that the long ones of tests/adversarial come first.
test: $(STAMP)  ## Run every test, two processes of one thread each
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: lint  ## Lint, types, and the tests that are fast: some three minutes, before each commit
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "(unit or architecture) and not slow"

nightly: $(STAMP)  ## Run every test on fresh noise, and the fuzzers and the distinguishing attacks at length: hours
	CHANCE=fresh OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "nightly or not nightly"

studies: $(STAMP)  ## Run what is missing of the studies of training, and write what they found into docs/studies.md
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.studies

anchors: $(STAMP)  ## Compare with other systems on public tables by other people's measures: hours; ANCHORS='--tables fair --epsilon 1'
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/anchors.py $(ANCHORS)

docs: $(STAMP)  ## Build the documentation; open build/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict -f docs/site/mkdocs.yml

lint: $(STAMP)  ## ruff, pyright and the walls (import-linter)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

ui: $(STAMP)  ## Open the Dagster UI on http://localhost:3000; another port: make ui PORT=4000
	$(BIN)/dg dev --port $(or $(PORT),3000)

clean:  ## Remove .venv and everything that was generated; privacy ledgers are kept
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find dagster_home -mindepth 1 -maxdepth 1 ! -name 'dagster*.yaml' ! -name 'ledger.db*' -exec rm -rf {} +
