# Two commands, each complete on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

CORE := .venv-core/bin
CORE_STAMP := .venv-core/.installed
# One thread a worker: the workers of pytest would fight for the cores with those of BLAS and torch.
PYTEST_OPTIONS := -n auto --dist worksteal
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: demo demo-paper docs test test-core test-full test-all lint types chromium benchmarks clean

demo: $(CORE_STAMP)
	$(CORE)/positively demo
	@echo "The method of the paper, on a network (installs torch): make demo-paper"

demo-paper: $(STAMP)
	$(BIN)/positively demo --paper

# The core where torch is not installed, then what needs torch.
test: lint types docs test-core test-full

# Everything, the core with torch beside it too, and what takes minutes.
test-all: lint types docs test-core chromium
	$(BIN)/pytest $(PYTEST_OPTIONS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/mypy

# The documentation, in site/; a broken link or docstring is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

test-core: $(CORE_STAMP) chromium
	$(CORE)/pytest $(PYTEST_OPTIONS) tests/core

test-full: $(STAMP)
	$(BIN)/pytest $(PYTEST_OPTIONS) -m "not slow" --ignore tests/core

# The review page is tested in a real browser. Where there is none and none can be installed, those tests are skipped.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
		echo "No chromium: the tests of the review page in a browser are skipped."

benchmarks: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[peers]'
	$(BIN)/python -m benchmarks

$(STAMP): EXTRAS := dev
$(CORE_STAMP): EXTRAS := offline,parquet,xlsx,test

$(STAMP) $(CORE_STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; call: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --upgrade pip
	$(@D)/bin/python -m pip install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

clean:
	rm -rf .venv .venv-core runs positively-demo build site *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
