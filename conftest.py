"""Modules whose docstrings cannot be tested, and the order of the files."""

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


# While the first of two processes compiles the solvers of structures, the second one runs files that hardly use them.
# In the order of their names, or with most tests first, both would compile the same.
FIRST = [
    *("test_solvers", "test_multilabel", "test_factors", "test_hierarchies", "test_rules", "test_multilabel_linear"),
    *("test_penalties", "test_features", "test_arcs", "test_cache", "test_packaging", "test_metrics", "test_datasets"),
]
# Processes of these use all kernels, which the other files have compiled by then.
LAST = ["test_compile_modes", "test_architecture"]


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="ten times as many draws in random sweeps")


def pytest_configure(config):
    # Else pytest-xdist orders the files by their number of tests.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(FIRST)} | {name: len(items) for name in LAST}
    items.sort(key=lambda item: places.get(item.path.stem, len(FIRST)))
