# `make lab` and `make test` do all set-up they need, quickly where it is done and again where it is broken or half done.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TORCH_VERSION := 2.13.0
TORCH := torch==$(TORCH_VERSION)
VENV := .venv
BIN := $(VENV)/bin
NOTEBOOK := notebooks/01_explore.ipynb
CHROMIUM := /usr/bin/chromium
# JupyterLab refuses to run as root unless told; in a container there is often nobody else.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# Stamps are written last, so that an interrupted set-up is begun again; they are stale once pyproject.toml changes.
SETUP := $(VENV)/.lowerscope-setup
SETUP_TEST := $(VENV)/.lowerscope-setup-test

SOUND_PYTHON := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))

# A set-up is sound when torch runs and has its version, the package is the one of this checkout, and the rest is there. The
# rest is looked up, not imported: that would take longer than all else, and an error in our own source is not the set-up's.
IMPORTS := lowerscope lowerscope_widgets anywidget jupyterlab
IMPORTS_TEST := $(IMPORTS) executorch hypothesis nbclient notebook playwright pyright pytest ruff torchao transformers
define SOUND
import importlib.util, pathlib, sys, torch
assert torch.__version__.startswith("$(TORCH_VERSION)"), f"torch is {torch.__version__}"
found = {name: importlib.util.find_spec(name) for name in sys.argv[1:]}
missing = [name for name, spec in found.items() if spec is None]
assert not missing, f"missing: {missing}"
origin = pathlib.Path(found["lowerscope"].origin)
assert pathlib.Path("explorer").resolve() in origin.parents, f"lowerscope is the one of {origin}"
endef
export SOUND
VERIFY := $(BIN)/python -c "$$SOUND" $(IMPORTS)
VERIFY_TEST := $(BIN)/python -c "$$SOUND" $(IMPORTS_TEST)
PIP := $(BIN)/python -m pip

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: lab
lab: setup ## set up what is needed, then open JupyterLab on the first notebook
	$(BIN)/python -m jupyterlab $(AS_ROOT) --LabApp.default_url=/lab/tree/$(NOTEBOOK) $(ARGS)

# Widgets of this Lab follow what the watcher builds; it ends with the Lab.
.PHONY: live
live: setup ## the same Lab, whose open widgets follow every change of the front end
	node widgets/front-end/build.mjs --watch & trap "kill $$!" EXIT; \
	  LOWERSCOPE_LIVE="$(CURDIR)/widgets/front-end/build/live" $(MAKE) lab

.PHONY: test
test: setup-test chromium ## set up what the tests need, then run them; ARGS="-k name" goes to pytest
	$(BIN)/python -m pytest $(ARGS)

.PHONY: check
check: setup-test ## ruff, pyright and tsc
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m pyright
	cd widgets/front-end && npm run check

.PHONY: bench
bench: setup-test ## run the benchmarks, which print ratios
	for script in tests/benchmarks/bench_*.py; do $(BIN)/python "$$script" $(ARGS); done

.PHONY: outputs
outputs: setup-test ## run the notebooks and keep what they show; ARGS=06 runs one of them
	$(BIN)/python -m tests.notebooks.outputs $(ARGS)

.PHONY: bundle
bundle: setup ## build the widget's front end, where it is missing or stale

.PHONY: setup
setup: ## the environment in .venv, the package in it, and the bundle
	@$(VERIFY) 2>/dev/null || rm -f $(SETUP)
	@$(MAKE) $(SETUP)
	@$(BIN)/python widgets/hatch_build.py

.PHONY: setup-test
setup-test: ## the same, and what tests and checks need
	@$(VERIFY_TEST) 2>/dev/null || rm -f $(SETUP_TEST)
	@$(MAKE) $(SETUP_TEST)
	@$(BIN)/python widgets/hatch_build.py

.PHONY: clean
clean: ## remove what builds and tests made; .venv stays
	rm -rf dist tests/build tests/benchmarks/results widgets/lowerscope_widgets/static widgets/front-end/build
	rm -rf widgets/front-end/node_modules .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# No target of its own for a user, and so not among what `make help` lists: `make test` comes by here.
.PHONY: chromium
chromium:
	@if [ ! -x $(CHROMIUM) ]; then \
	  install="apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium"; \
	  if ! command -v apt-get >/dev/null; then false; \
	  elif [ "$$(id -u)" = 0 ]; then DEBIAN_FRONTEND=noninteractive sh -c "$$install"; \
	  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo DEBIAN_FRONTEND=noninteractive sh -c "$$install"; \
	  else false; fi || echo "The browser tests need $(CHROMIUM), which cannot be installed from here; they will fail until it is: apt-get install chromium."; \
	fi

$(SETUP): EXTRAS :=
$(SETUP): pyproject.toml
	$(environment)
	$(call install,$(VERIFY))
	@touch $@

$(SETUP_TEST): EXTRAS := [test,executorch,quantize]
$(SETUP_TEST): pyproject.toml
	$(environment)
	$(call install,$(VERIFY_TEST))
	@touch $(SETUP) $@

# A sound .venv is kept. One whose interpreter does not run holds nothing of use and is made anew.
define environment
	@if ! $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	    if $$python -c '$(SOUND_PYTHON)' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$${found:-}" ]; then echo "error: no Python 3.11 or newer with venv was found; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; fi; \
	  echo "$$found -m venv $(VENV)"; $$found -m venv --clear $(VENV); \
	fi
	@$(PIP) --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --upgrade
endef

# torch is asked for first and by its exact version, so that nothing else chooses another. A package that pip takes for
# installed though its files are not all there (a set-up that was interrupted) shows here, and all are laid down again.
define install
	$(PIP) install "$(TORCH)" "hatchling>=1.27"
	$(PIP) install --no-build-isolation "$(TORCH)" --editable ".$(EXTRAS)"
	@$(1) || { echo "repairing the environment"; \
	  $(PIP) install --force-reinstall --no-build-isolation "$(TORCH)" --editable ".$(EXTRAS)"; $(1); }
endef
