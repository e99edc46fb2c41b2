# `make demo` and `make test` do all the set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOWEST := .venv-lowest
LOWEST_TESTS := tests/laws/test_mass.py tests/laws/test_marginals.py tests/estimators tests/cli tests/io tests/sql

BROWSERS := chromium chromium-browser google-chrome
TSC := $(VENV)/node/node_modules/.bin/tsc

.PHONY: demo test lint types docs unit browser package lowest gallery clean

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/marginals demo

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# The site, into build/site; a broken link or an undocumented name is an error.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The explorer's page is tested in a browser, and its types by TypeScript, where both can be had.
browser: $(STAMP)
	@for name in $(BROWSERS); do command -v $$name > /dev/null && exit 0; done; \
	if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	  (apt-get update -qq && apt-get install -y -qq chromium) > $(VENV)/browser.log 2>&1 \
	    || echo "No browser could be installed ($(VENV)/browser.log): its tests are skipped."; \
	else echo "No browser found: the tests of the explorer's page are skipped."; fi
	@test -x $(TSC) || { command -v npm > /dev/null && \
	  npm install --silent --no-audit --no-fund --prefix $(VENV)/node typescript@5 > $(VENV)/node.log 2>&1; } \
	  || echo "TypeScript could not be installed: the types of the explorer's page are not checked."

unit: $(STAMP) browser
	$(BIN)/python -m pytest -n auto --dist worksteal

# The files of a release, in dist/. The tests build them too, and install the wheel without extras.
package: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

# The pictures of docs/gallery.md.
gallery: $(STAMP)
	$(BIN)/python gallery/render.py

# A part of the tests on the lowest supported versions, in an environment of its own. torch 2.6 comes
# with several GB of CUDA libraries.
lowest:
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet -c constraints-lowest.txt -e ".[arrow,causal,explore,plot,sql]" \
	  pytest hypothesis httpx
	$(LOWEST)/bin/python -m pytest -p no:cacheprovider -m "not slow" -W default $(LOWEST_TESTS)

clean:
	rm -rf $(VENV) $(LOWEST) dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis demo
