# One obvious way to run everything. `make demo` and `make test` set themselves up in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := $(shell find native -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt)

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench docs validation calibration clean native setup

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## install railwright and its tools into .venv

$(VENV)/bin/python:
	@PYTHON=$(PYTHON) sh tools/prepare-machine.sh
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt $(SOURCES) | $(VENV)/bin/python
	@PYTHON=$(PYTHON) sh tools/prepare-machine.sh
	$(BIN)/python -m pip install --quiet --constraint constraints.txt scikit-build-core nanobind cmake ninja
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

native: $(STAMP) ## build the compiled engines again

demo: $(STAMP) ## the main job on a 128-GPU example
	$(BIN)/railwright run examples/rail-only-128.yaml -o out/rail-only-128

test: $(STAMP) ## all tests
	$(BIN)/python -m pytest -n auto

lint: $(STAMP) ## ruff, mypy --strict and the floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(STAMP) ## speed, as ratios measured in one run
	$(BIN)/python -m bench

docs: $(STAMP) ## the documentation site in site/
	$(BIN)/python -m pip install --quiet --constraint constraints.txt '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

calibration: $(STAMP) ## measure the goodput constants again with the packet engine
	$(BIN)/railwright doctor --calibration src/railwright/simulate/data/goodput.json

validation: $(STAMP) ## write docs/validation.md again from fresh runs
	$(BIN)/railwright doctor --validation docs/validation.md

clean: ## remove what was built
	rm -rf build out site $(VENV)
