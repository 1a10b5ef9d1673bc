# Two commands are enough: `make demo` and `make test`. Everything else is for people who work on the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: help setup demo test chaos check docs gpu-check format lock clean

help:
	@echo "make demo    tune twelve real PPO runs on this machine's CPU (about five minutes)"
	@echo "make test    run every test"
	@echo "make chaos   kill a hundred processes of a working service, and look what is left (an hour)"
	@echo "make check   lint, types, walls"
	@echo "make gpu-check  train on one NVIDIA GPU for a few minutes and write down what came of it"
	@echo "make setup   create $(VENV) from the lock files"
	@echo "make docs    write the pages under docs/reference from the code"
	@echo "make format  format the code"
	@echo "make lock    resolve the lock files again"

setup: $(VENV)/.ready

$(VENV)/.ready: requirements/install requirements/cpu.txt requirements/dev.txt requirements/models.txt pyproject.toml
	@PYTHON=$(PYTHON) VENV=$(VENV) sh requirements/install
	@touch $@

demo: setup
	@$(BIN)/autotune launch search_spaces/quickstart.yaml

# What starts engines, browsers and clusters, or looks at a clock, runs by itself after the rest.
ALONE := $(addprefix tests/,benchmarks deploy e2e execution trainer web)
TOGETHER := $(filter-out $(ALONE) tests/fixtures tests/__pycache__,$(patsubst %/,%,$(wildcard tests/*/)) $(wildcard tests/test_*.py))
test: setup
ifeq ($(PYTEST_ARGS),)
	@status=0; \
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations=20 $(TOGETHER) || status=1; \
	$(BIN)/python -m pytest --durations=30 $(ALONE) || status=1; \
	exit $$status
else
	@$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

# On a machine that has torch and transformers already: make gpu-check GPU_PYTHON=python3
GPU_PYTHON ?= $(BIN)/python
gpu-check:
	@$(GPU_PYTHON) benchmarks/gpu_check.py --check

# Needs PostgreSQL's programs; with another seed: make chaos CHAOS_SEED=2
CHAOS_KILLS ?= 100
CHAOS_SEED ?= 1
chaos: setup
	@CHAOS_KILLS=$(CHAOS_KILLS) CHAOS_SEED=$(CHAOS_SEED) $(BIN)/python -m pytest tests/e2e/chaos -s

docs: setup
	@$(BIN)/python docs/reference/generate.py

format: setup
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock:
	@sh requirements/lock

clean:
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis
