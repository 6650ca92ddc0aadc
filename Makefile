# Two commands do everything on a fresh machine:
#   make demo    runs the main job on sample documents with the demo model
#   make test    lint, types, fast tests, then the real chain (Spark + vLLM on the CPU)
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0+cpu
# Where pip's own indexes have no CPU build of torch, it is taken from here.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
OUTPUT ?= demo-output

BIN := $(VENV)/bin
# spark-submit looks for `python3` on the path, and so do Spark's workers: both must find the environment's.
export PATH := $(abspath $(BIN)):$(PATH)
export PYSPARK_PYTHON := $(abspath $(BIN))/python
export PYSPARK_DRIVER_PYTHON := $(abspath $(BIN))/python
# Without compiled modules each worker takes ten seconds longer to import vLLM and torch.
unexport PYTHONDONTWRITEBYTECODE
TESTS ?= tests
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile
FAST := not spark and not vllm and not slow and not gpu
SPARK := spark and not vllm and not slow and not gpu
CHAIN := vllm and not slow and not gpu
SLOW := slow and not vllm and not airflow and not gpu

.PHONY: demo test setup java lint types test-fast test-chain test-slow test-airflow test-serving test-notebooks \
  test-kill-real test-sweep clean help

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

demo: setup java ## run the main job on the sample receipts and show a few records
	$(BIN)/spark-submit jobs/extract.py \
	  --input pipeline/samples/receipts.jsonl --id-column id --schema schemas/receipts.py:Receipt \
	  --examples pipeline/samples/receipts_examples.jsonl --model demo --output $(OUTPUT)

test: lint types test-fast test-chain ## everything but the slow suites

setup: $(READY) ## virtual environment with the CPU engine

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "installing python3-venv"; $(call as_root,apt-get install -y -q python3-venv) && \
	  $(PYTHON) -m venv $(VENV); } || { echo "install the package python3-venv, then run again"; exit 1; }
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PIP) '$(TORCH)' 2>/dev/null || $(PIP) '$(TORCH)' --index-url $(TORCH_INDEX)
	@$(PIP) -r requirements.lock
	@$(PIP) --no-build-isolation --editable .
	@touch $@

java: ## check for Java 17 or newer; install it where that is allowed
	@command -v java >/dev/null && \
	  java -version 2>&1 | awk -F'"' '/version/ {split($$2, v, "."); exit !(v[1] >= 17)}' || { \
	  echo "installing Java 17"; $(call as_root,apt-get update -q) >/dev/null; \
	  $(call as_root,apt-get install -y -q openjdk-17-jre-headless) >/dev/null || \
	  $(call as_root,apt-get install -y -q default-jre-headless) >/dev/null || \
	  { echo "Java 17 or newer is missing; install it: apt-get install openjdk-17-jre-headless"; exit 1; }; }

lint: setup ## ruff
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup ## mypy --strict
	$(BIN)/mypy

test-fast: setup ## under a minute; no Spark, no vLLM
	$(BIN)/pytest -m "$(FAST)" --numprocesses auto

test-chain: setup java ## Spark, then the real chain: spark-submit, vLLM on the CPU, xgrammar, demo model
	$(BIN)/pytest -m "$(SPARK)" --numprocesses 2 --dist loadfile --durations 10
	$(BIN)/pytest -m "$(CHAIN)" --durations 15

test-slow: setup java ## kill trials, faults, a cluster, browser, packaging, Java readers
	$(BIN)/pytest -m "$(SLOW)" --numprocesses 2 --dist loadfile --durations 15 $(TESTS)

test-airflow: setup java ## the DAGs in a real Airflow, installed into an environment of its own
	$(BIN)/pytest -m airflow --durations 5

test-serving: setup java ## a real vLLM server with DSpark, its clients, GPUStack's own models
	$(BIN)/pytest -m "slow and not gpu" --durations 10 tests/test_serving.py tests/test_gpustack.py

test-notebooks: setup java ## the notebooks from the first cell to the last
	$(BIN)/pytest -m "slow and not gpu" --durations 5 tests/test_notebooks.py

test-kill-real: setup java ## worker and driver killed while the real engine works
	$(BIN)/pytest -m "slow and not gpu" --durations 5 tests/test_kill_real.py

test-sweep: setup java ## outputs with and without drafts over all labelled sets
	$(BIN)/pytest -m "slow and not gpu" --durations 5 tests/dspark/test_lossless.py tests/test_cases_engine.py

clean: ## remove the virtual environment and demo output
	rm -rf $(VENV) $(OUTPUT)

as_root = { [ "$$(id -u)" = 0 ] && $(1) || sudo -n $(1); }
