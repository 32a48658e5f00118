# What a contributor runs often. PYTHON=.venv/bin/python make doc
PYTHON ?= python

.PHONY: doc doc-quick serve test lint figures

doc:
	$(PYTHON) doc/build.py

doc-quick:
	$(PYTHON) doc/build.py --quick

serve:
	$(PYTHON) doc/build.py --quick --no-tests --serve

test:
	$(PYTHON) -m pytest

lint:
	$(PYTHON) -m ruff check .

# All figures of benchmarks/dashboard.md on this machine. An interrupted run goes on: make figures ARGS="--minutes 40"
figures:
	$(PYTHON) benchmarks/figures.py $(ARGS)
