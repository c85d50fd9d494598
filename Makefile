# Two commands do everything on a fresh machine: `make test` and `make demo`.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Two busy OpenMP threads spin against each other on small tensors.
export OMP_NUM_THREADS ?= 1

.PHONY: help test lint types demo smoke golden scores bench bench-demo clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,lora,dev]"
	@touch $@

test: lint types  ## Install into .venv, then lint, type-check and run every test.
	$(BIN)/python -m pytest -q

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

demo: $(INSTALLED)  ## Train a small model from chance to a good player, in minutes.
	rm -rf runs/text-game-easy
	OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(BIN)/llm-gym train text-game-easy

smoke: $(INSTALLED)  ## One tiny iteration of a whole training run.
	rm -rf runs/text-game-easy-smoke
	$(BIN)/llm-gym train text-game-easy --smoke

golden: $(INSTALLED)  ## Rewrite the golden transcripts (a change that can move a score needs -vN).
	$(BIN)/python tests/golden.py

scores: $(INSTALLED)  ## Measure the scores that `llm-gym list` prints.
	$(BIN)/python benchmarks/suite_scores.py
	$(BIN)/python benchmarks/readme.py

bench: $(INSTALLED)  ## Measure speed, beside GEM and TextArena (installed apart) and bare engines.
	$(BIN)/python benchmarks/env_throughput.py
	$(BIN)/python benchmarks/algo.py
	$(BIN)/python benchmarks/rollout_throughput.py
	$(BIN)/python benchmarks/train_throughput.py
	$(BIN)/python benchmarks/readme.py

bench-demo: $(INSTALLED)  ## Run the demo with three seeds and write down how it went.
	$(BIN)/python benchmarks/demo.py
	$(BIN)/python benchmarks/readme.py

clean:  ## Remove what `make` created.
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache dist
