# Every target sets up what it needs: python3.11, cargo (with clippy and rustfmt), gcc and make are all it assumes.
# A stamp file records each finished step, so that nothing is built twice.

PYTHON ?= python3.11
VENV := .venv
TF_VENV := .venv-tf
BIN := $(VENV)/bin
PIP_INSTALL := -m pip --disable-pip-version-check install --quiet --no-deps --require-hashes

ENV := $(VENV)/.locked
TF_ENV := $(TF_VENV)/.locked
BUILT := $(VENV)/.built

RUST_SOURCES := Cargo.toml Cargo.lock rust/Cargo.toml $(wildcard rust/build.rs) \
	$(shell find rust/src proto -type f 2>/dev/null)

# One interpreter for cargo and maturin: pyo3 is rebuilt whenever it changes.
export PYO3_PYTHON := $(abspath $(BIN)/python)

.DEFAULT_GOAL := help
.PHONY: help build demo serve test test-rust test-python check check-rust check-python fix bench docs lock clean
.DELETE_ON_ERROR:

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

build: $(BUILT) ## make the environment and the release extension, nothing else

demo: $(BUILT) ## serve two models, classify real files, measure, stay up
	$(BIN)/python -m poise.demo $(ARGS)

serve: $(BUILT) ## serve your own: make serve ARGS="NAME=PATH"
	$(BIN)/poise serve $(ARGS)

test: test-rust test-python ## all tests, Rust and Python

test-rust: $(ENV)
	cargo test --locked -p poise-core

test-python: $(BUILT) $(TF_ENV)
	POISE_TF_PYTHON=$(abspath $(TF_VENV)/bin/python) $(BIN)/python -m pytest $(ARGS)

check: check-rust check-python ## formatting, lints, types, stubs, import rules, licences

check-rust: $(ENV)
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --all-targets --features poise-core/python -- -D warnings
	$(BIN)/python tools/check_border.py
	$(BIN)/python tools/check_licences.py

check-python: $(BUILT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest --allowlist tools/stubtest_allowlist.txt poise._core
	$(BIN)/lint-imports
	$(BIN)/python tools/make_reference.py --check

fix: $(ENV) ## format, and mend what the linters can mend
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(BUILT) ## measure (benchmarks/README.md says how)
	$(BIN)/python benchmarks/run.py $(ARGS)

docs: $(BUILT) ## write docs/reference from the code
	$(BIN)/python tools/make_reference.py

lock: $(ENV) ## resolve requirements/*.in afresh
	$(BIN)/python tools/lock.py

clean: ## remove builds, environments and caches
	rm -rf target dist $(VENV) $(TF_VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -f src/poise/*.so

$(ENV): requirements/dev.txt
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python $(PIP_INSTALL) -r $<
	touch $@

$(TF_ENV): requirements/tfclient.txt
	$(PYTHON) -m venv --clear $(TF_VENV)
	$(TF_VENV)/bin/python $(PIP_INSTALL) -r $<
	touch $@

# Always a release build: a debug build must never be served, or measured, by accident.
$(BUILT): $(ENV) pyproject.toml $(RUST_SOURCES)
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pip --disable-pip-version-check install --quiet \
		--no-deps --no-build-isolation --editable .
	touch $@
