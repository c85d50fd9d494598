# Two commands do everything on a fresh machine: `make test` and `make demo`.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
comma := ,
MODEL ?= SmolLM2-135M-Instruct

# A worker for each core, and each begins with a run of files, whose fixtures it shares.
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

# Every process that a test starts would compile our code anew.
unexport PYTHONDONTWRITEBYTECODE

# Two busy OpenMP threads spin against each other on small tensors.
export OMP_NUM_THREADS ?= 1

.PHONY: help test test-slow test-all test-view test-ray test-vllm test-packages test-bridges test-exports test-pythons release-check lint types demo smoke golden scores size docs bench bench-demo bench-gpu harden chaos growth results-check lock platforms platforms-table clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# locks/ has versions and hashes for Linux, x86-64 and aarch64, Python 3.11 to 3.14. torch comes as
# builds with hashes of their own, so only its version is fixed. Elsewhere only versions are.
LOCKED := $(shell $(PYTHON) -c "import sys, platform; print(sys.platform == 'linux' \
    and platform.machine() in ('x86_64', 'aarch64') and (3, 11) <= sys.version_info < (3, 15))")
PIP := $(BIN)/python -m pip --quiet
TRAIN := $(VENV)/.train
DEV := $(VENV)/.dev

# $(call install,LOCK,EXTRAS): the packages of a lock, torch, and this checkout.
ifeq ($(LOCKED),True)
define install
$(PIP) install --no-deps --require-hashes --requirement locks/$(1).txt
$(PIP) install --constraint constraints.txt torch
$(PIP) install --no-deps --no-build-isolation --editable .
$(PIP) check
endef
else
define install
@echo "There is no lock for this machine: installing the versions of constraints.txt, without hashes."
$(PIP) install --upgrade pip
$(PIP) install --constraint constraints.txt --editable ".[$(2)]"
endef
endif

$(TRAIN): pyproject.toml constraints.txt locks/train.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,train,train)
	@touch $@

$(DEV): pyproject.toml constraints.txt locks/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(call install,dev,train$(comma)lora$(comma)dev)
	@touch $@

# uv resolves for machines that are not at hand; it is not needed to install.
.venv-uv/.installed:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip --quiet install uv
	@touch $@

lock: .venv-uv/.installed  ## Write the lock files anew, for every machine that they are for.
	.venv-uv/bin/python .ci/lock.py

platforms: .venv-uv/.installed  ## Can every extra be installed where docs/faq.md says it can?
	.venv-uv/bin/python .ci/platforms.py

platforms-table: .venv-uv/.installed  ## Write the table of docs/faq.md anew, in minutes.
	.venv-uv/bin/python .ci/platforms.py --write

test: lint types  ## Install into .venv, then lint, type-check and test, in minutes.
	$(PYTEST) -m "not slow"

test-slow: $(DEV)  ## The tests that take longer: every preset, learning, `kill -9`.
	$(PYTEST) -m slow --ignore tests/view --ignore tests/agents/trainer/on_ray \
	    --ignore tests/agents/trainer/processes/test_runs.py

test-all: test test-slow test-view  ## Every test.

# The browser is the system's: Debian's chromium. Playwright only drives it, and downloads none.
$(VENV)/.playwright: $(DEV)
	$(PIP) install --constraint constraints.txt playwright
	@touch $@

test-view: $(VENV)/.playwright  ## The viewer in a real Chromium (apt install chromium).
	$(BIN)/python -m pytest -q -m slow tests/view

$(VENV)/.ray: $(DEV)
	$(PIP) install --constraint constraints.txt ray
	@touch $@

test-ray: $(VENV)/.ray  ## A real Ray cluster on this machine, and learners over processes.
	$(BIN)/python -m pytest -q -m slow tests/agents/trainer/on_ray tests/agents/trainer/processes/test_runs.py

growth: $(DEV)  ## Two thousand updates of a small run: does its memory grow?
	$(BIN)/python -m tests.robustness.growth

chaos: $(VENV)/.ray  ## Kill players at random moments: is every episode counted once?
	$(BIN)/python -m tests.robustness.chaos

# Stages with packages of others. What does not exist for this machine is skipped with a sentence.
test-vllm:  ## Install vLLM for the CPU into a venv of its own, and test with it.
	$(PYTHON) .ci/stage.py vllm

test-bridges:  ## Install other suites into a venv of its own, and play them.
	$(PYTHON) .ci/stage.py bridges

test-exports:  ## Install other trainers into venvs of their own, and have them play.
	$(PYTHON) .ci/stage.py exports
	$(PYTHON) .ci/stage.py exports-verifiers

test-packages:  ## Install other environments into a venv of its own, and play them.
	$(PYTHON) .ci/stage.py packages

test-pythons:  ## Install and play the core with every other Python of this machine.
	$(PYTHON) .ci/pythons.py

release-check:  ## Build sdist and wheel, check them with twine, install them with every Python. URL=...
	$(PYTHON) .ci/release.py $(if $(URL),--url $(URL))

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

# On tensors as small as these two threads take as long as one, and half as many CPU seconds again.
demo: $(TRAIN)  ## Train a small model from chance to a good player, in minutes.
	rm -rf runs/text-game-easy
	OMP_NUM_THREADS=1 $(BIN)/llm-gym train text-game-easy

smoke: $(TRAIN)  ## One tiny iteration of a whole training run.
	rm -rf runs/text-game-easy-smoke
	$(BIN)/llm-gym train text-game-easy --smoke

golden: $(DEV)  ## Rewrite the golden transcripts (a change that can move a score needs -vN).
	$(BIN)/python tests/golden.py

scores: $(DEV)  ## Measure the scores that `llm-gym list` prints.
	$(BIN)/python -m benchmarks.envs.suite_scores
	$(BIN)/python -m benchmarks.pages

$(VENV)/.docs: $(DEV)
	$(PIP) install --constraint constraints.txt --editable ".[docs]"
	@touch $@

docs: $(VENV)/.docs  ## Build the site with its API reference into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -W ignore -m mkdocs build --strict --quiet

size: $(DEV)  ## Print how large the code base is, and how much runs before the first update.
	$(BIN)/python -m benchmarks.size

bench: $(DEV)  ## Measure speed, beside GEM and TextArena (installed apart) and bare engines.
	$(BIN)/python -m benchmarks.envs.throughput
	$(BIN)/python -m benchmarks.play.throughput
	$(BIN)/python -m benchmarks.envs.as_text
	$(BIN)/python -m benchmarks.pages

bench-gpu:  ## On a GPU, with the Python that has vLLM: playing. MODEL is a folder.
	$(PYTHON) -m benchmarks.play.throughput --engine vllm --model $(MODEL) --envs 32 256 \
	    --repeats 3 --place gpu --settings '{"gpu_memory_utilization": 0.5, "max_model_len": 2048}'

bench-demo: $(DEV)  ## Run the demo with three seeds and write down how it went.
	$(BIN)/python -m benchmarks.learn.demo
	$(BIN)/python -m benchmarks.lib.figures demo
	$(BIN)/python -m benchmarks.pages

harden: $(DEV)  ## Try to break it: hostile actions, files, servers, code; kills; full disks.
	$(BIN)/python -m tests.robustness.harden

results-check: $(DEV)  ## Find numbers in README and docs that no result file has.
	$(BIN)/python -m benchmarks.pages --check

clean:  ## Remove what `make` created.
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache dist
