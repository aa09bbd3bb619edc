# Every target sets up what it needs in .venv, once; `make help` lists them. PYTHON=python3.12 picks another interpreter.

PYTHON ?= $(shell for p in python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
SCANS := srnn/lab/networks/scans
LIBRARIES := srnn/_C.so $(SCANS)/_C.so
SOURCES := pyproject.toml constraints.txt setup.py $(wildcard srnn/kernels/csrc/* $(SCANS)/csrc/*)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadfile  # one process per core; tests of a file share what they make
QUICK := not compile and not trac and not export and not ten_thousand

.PHONY: demo quick test slow backends triton triton-full gpu-compile faults crashes fuzz bench docs lint asan setup clean help
.DELETE_ON_ERROR:

demo: setup  ## a short benchmark, and training on three tasks of the paper
	@$(BIN)/srnn doctor
	@$(BIN)/srnn bench --quick
	@$(BIN)/srnn demo
	@echo
	@echo "The tables above show how many times faster than nn.GRU a training step is (record: results/bench-quick.json),"
	@echo "and the results next to the paper's. The same as a page, with curves: runs/demo/report/index.html"
	@echo "Next: $(BIN)/srnn report (the page of the records in results/), $(BIN)/srnn train --help, or 'make bench'."

quick: setup  ## tests of layer, kernels and checks, in under a minute
	@$(BIN)/pytest -q $(PARALLEL) --dist load -m 'not slow' -k '$(QUICK)' tests/test_layer.py tests/test_kernels.py tests/test_checks.py

test: lint  ## lint, the ABI check, and all tests except slow, faults and those of a GPU
	@for library in $(LIBRARIES); do \
		if [ -e $$library ]; then echo "abi: $$library may use only torch's stable ABI" && $(BIN)/torch-abi-audit --check torch $$library || exit 1; \
		else echo "abi: $$library is not built"; fi; done
	@echo "test: pytest"
	@$(BIN)/pytest -q $(PARALLEL) -m 'not slow and not faults and not interpreter and not gpu'

slow: setup  ## the slow tests: networks that learn, rehearsals of exhibits
	@$(BIN)/pytest -q $(PARALLEL) -m slow

# The other tests run the code for this processor. These run what other machines get.
backends: setup  ## the kernels without AVX2, scans split in time, layer and networks on pure PyTorch
	@SRNN_ISA=baseline $(BIN)/pytest -q $(PARALLEL) -k native tests/test_kernels.py
	@SRNN_SPLIT=3,4 $(BIN)/pytest -q $(PARALLEL) --dist load -k 'native and not compile and not trac and not export and not differences' tests/test_kernels.py
	@SRNN_BACKEND=torch $(BIN)/pytest -q $(PARALLEL) -m 'not slow' tests/test_layer.py tests/test_baselines.py

# Triton's kernels in its interpreter, which must be chosen before Python starts. The products of all shapes and options take long.
INTERPRETED := tests/test_interpreter.py tests/test_operators.py tests/test_kernels.py
PRODUCTS := states_and_gradients_equal or dtypes_equal_the_reference or awkward or short_cycles or finite_differences or ten_thousand \
	or gated_scan_equals or unwritten or split or every_integer or any_memory or initial_state
triton: setup  ## the Triton kernels in Triton's interpreter, in under five minutes on one core
	@TRITON_INTERPRET=1 $(BIN)/pytest -q -m 'interpreter and not slow' -k 'not ($(PRODUCTS))' $(INTERPRETED)
	@TRITON_INTERPRET=1 $(BIN)/pytest -q -m gpu tests/test_gpu.py  # what a GPU runs, at smaller sizes

triton-full: setup  ## the same with all shapes and options
	@TRITON_INTERPRET=1 $(BIN)/pytest -q $(PARALLEL) --dist load -m interpreter $(INTERPRETED)

# SAMPLE=1 takes a few kernels, less than a minute; REWRITE=1 writes tests/gpu/compiled.json and the table of docs/gpu.md.
gpu-compile: setup  ## compile the Triton kernels for six GPUs that need not be here (slow)
	@$(BIN)/python tests/gpu/compile.py $(SAMPLE:%=--sample) $(REWRITE:%=--rewrite)

# FILL=docs/faults.md writes the table of this run to that file.
faults: setup  ## thousands of killed processes, full disks and damaged files
	@SRNN_FAULTS=$(FILL) $(BIN)/pytest -q -s -m faults tests/test_faults.py tests/test_crashes.py

crashes: setup  ## crash every command at every file-system operation (slow)
	@$(BIN)/python tests/crashes --table docs/faults.md

# SEED=N repeats a run, SEED=N CASE=TARGET:NUMBER the batch in which it failed, ONLY=NAME takes some of the targets.
SECONDS ?= 60
fuzz: setup  ## random cases for scans, layers and file readers, against plain loops, for SECONDS=60
	@$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS) $(SEED:%=--seed %) $(CASE:%=--case %) $(ONLY:%=--only %)

# Public modules: what users import. pdoc reads the docstrings.
API := srnn srnn.onnx srnn.c srnn.decompositions srnn.errors srnn.lab srnn.lab.export srnn.lab.hub srnn.lab.sklearn srnn.lab.training.fit
docs: setup  ## API pages in build/docs
	@$(BIN)/pdoc --docformat google --no-show-source -o build/docs $(API)
	@echo "docs: build/docs/srnn.html"

bench: setup  ## measure speed and memory next to nn.RNN, nn.LSTM and nn.GRU
	@$(BIN)/srnn bench

lint: setup  ## ruff, mypy and import-linter
	@echo "lint: ruff, mypy, import-linter"
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo 2>&1

# Libraries of their own, in the tree that SRNN_LIBRARY expects. Python is not built with sanitizers, so they are preloaded.
TORCH = $(shell $(BIN)/python -c 'import torch; print(torch.__path__[0])')
SANITIZE := -fsanitize=address,undefined -fno-sanitize=vptr,alignment
CXX_ASAN = g++ -std=c++17 -O1 -g -fno-omit-frame-pointer -fPIC -shared $(SANITIZE) -fno-math-errno -fno-trapping-math -Wno-psabi \
	-DTORCH_TARGET_VERSION=0x020a000000000000 -I$(TORCH)/include -Isrnn/kernels/csrc -L$(TORCH)/lib
asan: setup  ## tests of both compiled libraries with sanitizers
	@echo "asan: building both libraries with sanitizers"
	@mkdir -p build/asan/$(SCANS)
	@$(CXX_ASAN) srnn/kernels/csrc/*.cpp -ltorch_cpu -o build/asan/srnn/_C.so
	@$(CXX_ASAN) $(SCANS)/csrc/*.cpp -ltorch_cpu -o build/asan/$(SCANS)/_C.so
	@SRNN_LIBRARY=build/asan SRNN_REQUIRE=native ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1 \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(BIN)/pytest -m 'not slow' -k '(native and not compile and not trac) or (test_scans and not compiled_graph) or (test_operators and not allocation)' \
		tests/test_kernels.py tests/test_scans.py tests/test_operators.py

setup: .venv/installed  ## set up .venv with srnn, its compiled libraries and all tools

.venv/torch: constraints.txt
	@test -n "$(PYTHON)" || { echo "setup: Python 3.11 or later was not found; name one with: make PYTHON=/path/to/python"; exit 1; }
	@echo "setup: a virtual environment in .venv, with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv .venv
	@echo "setup: torch and the build tools, the largest download"
	@$(BIN)/pip install -qq --constraint constraints.txt torch numpy setuptools
	@touch $@

.venv/installed: .venv/torch $(SOURCES)
	@echo "setup: srnn with its compiled libraries, its laboratory and its tools"
	@$(BIN)/pip install -qq --constraint constraints.txt --no-build-isolation --editable '.[lab,test,dev]'
	@for note in $(LIBRARIES:_C.so=_build_error.txt); do \
		test ! -e $$note || echo "setup: $${note%_build_error.txt}_C.so was not built: $$(cat $$note); plain PyTorch runs instead"; done
	@touch $@

clean:  ## remove the files of the build and the tools, except .venv
	rm -rf build dist srnn.egg-info $(LIBRARIES) $(LIBRARIES:_C.so=_build_error.txt) .venv/installed
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find srnn tests -name __pycache__ -prune -exec rm -rf {} +

help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18
