# Two commands, each complete on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint types pytest chromium benchmarks clean

demo: $(STAMP)
	$(BIN)/positively demo

test: lint types pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(STAMP)
	$(BIN)/mypy

# One thread a worker: torch's own threads and pytest's workers would fight for the cores.
pytest: $(STAMP) chromium
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# The review page is tested in a real browser. Where there is none and none can be installed, those tests are skipped.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || \
		{ command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ] && \
			apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
		echo "No chromium: the tests of the review page in a browser are skipped."

benchmarks: $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[peers]'
	$(BIN)/python -m benchmarks

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; call: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf .venv runs build *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
