"""What is left out of the tests of docstrings, and the order of the files."""

from importlib.util import find_spec

# Layers whose library is not installed, and the command, which is no module.
collect_ignore = ["sklearn_sparsemap/compile.py"]
collect_ignore_glob = [f"sklearn_sparsemap/{name}/*" for name in ("torch", "jax") if find_spec(name) is None]

# While the first of two processes compiles the solvers of structures, the second one runs files that hardly use them.
# In the order of their names, or with most tests first, both would compile the same.
FIRST = [
    *("test_solvers", "test_multilabel", "test_factors", "test_hierarchies", "test_rules", "test_multilabel_linear"),
    *("test_penalties", "test_features", "test_arcs", "test_cache", "test_packaging", "test_metrics", "test_datasets"),
]
# Processes of these use all kernels, which the other files have compiled by then.
LAST = ["test_compile_modes", "test_architecture"]


def pytest_configure(config):
    # Else pytest-xdist orders the files by their number of tests.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(FIRST)} | {name: len(items) for name in LAST}
    items.sort(key=lambda item: places.get(item.path.stem, len(FIRST)))
