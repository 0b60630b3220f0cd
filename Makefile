# make demo | test | soak | bench | lint | clean        PYTHON=python3.12 chooses, TRAIN=0 leaves torch out
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt
PYTHON ?=
TRAIN ?= 1
TRAINER := $(if $(filter-out 0,$(TRAIN)),.venv/.train)

.PHONY: help demo test soak bench lint clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   set up, then play graded episodes with faults, a snapshot and a rollback"
	@echo "make test   every test once, soaks at a fiftieth of their count"
	@echo "make soak   the soaks at their full count (long)"
	@echo "make bench  speeds"
	@echo "make lint   ruff, mypy, import contracts"
	@echo "make clean  remove what these made, .venv included"

demo: .venv/.core $(TRAINER)
	$(BIN)/agent-envs demo

test: .venv/.dev $(TRAINER)
	$(PYTEST) --numprocesses auto --override-ini 'norecursedirs=.* tests/benchmarks'

soak: .venv/.dev $(TRAINER)
	$(PYTEST) --full -m soak --override-ini 'norecursedirs=.* tests/benchmarks'

bench: .venv/.dev $(TRAINER)
	$(PYTEST) --capture=no tests/benchmarks

lint: .venv/.dev .venv/.train
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find agent_envs envs verifiers baselines tests -name __pycache__ -prune -exec rm -rf {} +

# Stamps: an install is done again when the project file or the pins have changed.
.venv/.core: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing agent-envs with what its environments need into .venv (about 80 MB)"
	$(INSTALL) --editable '.[code,sql,browser]'
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing agent-envs with what tests and checks need into .venv (about 150 MB)"
	$(INSTALL) --editable '.[dev,code,sql,browser,miniwob,docker]'
	@touch .venv/.core $@

# The trainer is worth having, not needed: without it everything else goes on.
.venv/.train: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the trainer needs into .venv: torch, about 250 MB where pip has a build for the CPU,"
	@echo "and several GB (minutes) where it has one for CUDA only. TRAIN=0 leaves it out."
	@$(INSTALL) --editable '.[train,hf]' || echo "No torch: going on without the trainer." \
		"To try again: rm $@, then the same make."
	@touch $@

$(BIN)/python:
	@.ci/venv "$(PYTHON)"
