"""Modules whose docstrings cannot be tested."""

from importlib import import_module
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent / "sklearn_sparsemap"
# The command, which is no module, what tests import, which may need libraries of extras, and scripts that they check.
collect_ignore = ["sklearn_sparsemap/compile.py", "tests/cases", "tests/typing"]


def missing_library(module):
    """Return the name of a library that a module of the package needs and that is not installed, or None."""
    try:
        import_module(module)
    except ImportError as error:
        while error.__cause__ is not None:
            error = error.__cause__
        if isinstance(error, ModuleNotFoundError) and error.name.partition(".")[0] != PACKAGE.name:
            return error.name
        raise
    return None


def pytest_ignore_collect(collection_path):
    """Leave out the modules that need an extra which is not installed, wherever they are."""
    path = Path(collection_path)
    if path.suffix == ".py" and PACKAGE in path.parents and path.name != "compile.py":
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if missing_library(".".join(parts).removesuffix(".__init__")):
            return True
    return None


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="ten times as many random draws, all cells of matrices")
