# Every target sets up what it needs in .venv, once; `make help` lists them. PYTHON=python3.12 picks another interpreter.

PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
SOURCES := pyproject.toml constraints.txt setup.py $(wildcard srnn/kernels/csrc/*)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PARALLEL := --numprocesses auto --maxprocesses 8  # one process per core

.PHONY: demo test slow backends faults bench lint asan setup clean help
.DELETE_ON_ERROR:

demo: setup  ## doctor, a short benchmark, and three problems of the paper learned before your eyes
	@$(BIN)/srnn doctor
	@$(BIN)/srnn bench --quick
	@$(BIN)/srnn demo
	@echo
	@echo "Look at two tables above: how many times faster than nn.GRU a training step is (record: results/bench-quick.json),"
	@echo "and what came out beside the paper. The same as a page, with curves: runs/demo/report/index.html"
	@echo "Next: $(BIN)/srnn report (the page of the records in results/), $(BIN)/srnn train --help, or 'make bench'."

test: lint  ## lint, the check of the library's ABI, and the tests but the slow ones and the faults
	@if [ -e srnn/_C.so ]; then echo "abi: the library may use only torch's stable ABI" && $(BIN)/torch-abi-audit --check torch srnn/_C.so; \
	else echo "abi: no compiled library to check"; fi
	@echo "test: pytest"
	@$(BIN)/pytest -q $(PARALLEL) -m 'not slow and not faults'

slow: setup  ## the slow tests: networks that learn, exhibits rehearsed
	@$(BIN)/pytest -q $(PARALLEL) -m slow

# "auto" is the compiled code for this processor: what others get is tested here.
backends: setup  ## the kernel as it runs without AVX2, layer and networks on plain PyTorch operations
	@SRNN_ISA=baseline $(BIN)/pytest -q $(PARALLEL) -k native tests/test_kernels.py
	@SRNN_BACKEND=torch $(BIN)/pytest -q $(PARALLEL) -m 'not slow' tests/test_layer.py tests/test_baselines.py

# FILL=docs/faults.md puts the table of this run into that file.
faults: setup  ## processes killed, disks filled, files damaged, by the thousand; says how many were survived
	@SRNN_FAULTS=$(FILL) $(BIN)/pytest -q -s -m faults tests/test_faults.py

bench: setup  ## speed and memory beside nn.RNN, nn.LSTM and nn.GRU; writes a record
	@$(BIN)/srnn bench

lint: setup  ## ruff, mypy and import-linter
	@echo "lint: ruff, mypy, import-linter"
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo 2>&1

# A library of its own, so that the one in use stays as it is. Python does not know of the sanitizers: they are preloaded.
TORCH = $(shell $(BIN)/python -c 'import torch; print(torch.__path__[0])')
SANITIZE := -fsanitize=address,undefined -fno-sanitize=vptr,alignment
asan: setup  ## the tests of the compiled kernels under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "asan: building the kernel with sanitizers"
	@mkdir -p build/asan
	@g++ -std=c++17 -O1 -g -fno-omit-frame-pointer -fPIC -shared $(SANITIZE) -fno-math-errno -fno-trapping-math -Wno-psabi \
		-DTORCH_TARGET_VERSION=0x020a000000000000 -I$(TORCH)/include srnn/kernels/csrc/*.cpp -L$(TORCH)/lib -ltorch_cpu \
		-o build/asan/_C.so
	@SRNN_LIBRARY=build/asan/_C.so SRNN_REQUIRE=native ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(BIN)/pytest -m 'not slow' -k '(native and not compiled and not traced) or test_scans' \
		tests/test_kernels.py tests/test_scans.py

setup: .venv/installed

.venv/torch: constraints.txt
	@test -n "$(PYTHON)" || { echo "setup: Python 3.11 or later was not found; name one with: make PYTHON=/path/to/python"; exit 1; }
	@echo "setup: a virtual environment in .venv, with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@echo "setup: torch and the build tools, the largest download"
	@$(BIN)/pip install -qq --constraint constraints.txt torch numpy setuptools
	@touch $@

.venv/installed: .venv/torch $(SOURCES)
	@echo "setup: srnn with its kernel, its laboratory and its tools"
	@$(BIN)/pip install -qq --constraint constraints.txt --no-build-isolation --editable '.[lab,test,dev]'
	@test ! -e srnn/_build_error.txt || echo "setup: no compiled kernel: $$(cat srnn/_build_error.txt); the plain PyTorch backend works"
	@touch $@

clean:  ## what the build and the tools left; .venv stays
	rm -rf build dist srnn.egg-info srnn/_C.so srnn/_build_error.txt .venv/installed
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find srnn tests -name __pycache__ -prune -exec rm -rf {} +

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
