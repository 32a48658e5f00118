# What a contributor runs often. PYTHON=.venv/bin/python make doc
PYTHON ?= python

.PHONY: doc doc-quick serve test lint

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
