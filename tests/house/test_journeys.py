"""A call passes few functions, and few places ask which kind of problem they have. The figures only fall.

    python tests/house/test_journeys.py                        prints all figures
    python tests/house/test_journeys.py "fit of a chain"       prints the tree of that call as well

Functions are Python's, with lambdas and nested functions, and without comprehensions and kernels. A call runs once
before it is traced, so that nothing is compiled or imported then.
"""

import ast
import os
import re
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path

import numba
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    sparsemap,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import Budget, FactorGraph, Xor
from sklearn_sparsemap.structures import LinearChain

# The most that is allowed: functions, files, depth. If a figure falls, write the lower one here.
MOST = {
    "fit of a chain": (149, 28, 16),
    "predict of a chain": (35, 13, 8),
    "sparsemap, one array": (34, 11, 8),
    "lp_sparsemap, one graph": (32, 10, 8),
    "partial_fit of groups": (123, 31, 12),
    "fit of label sets": (154, 32, 13),
    "predict_set": (102, 24, 12),
}
MAX_QUESTIONS = 0
MAX_MIXINS_WITH_ONE_USER = 0
MAX_CLASS_NAMES_TWICE = 0

PACKAGE = Path(sys.modules["sklearn_sparsemap"].__file__).parent
COMPREHENSIONS = {"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}
SEE = 'python tests/house/test_journeys.py "{}" prints the tree of the call'


def make_call(name):
    """Return a function without parameters that makes one of the calls of the table."""
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(5, 4)) for _ in range(8)], [rng.integers(0, 3, 5) for _ in range(8)]
    chain = StructuredSparseMAPClassifier("chain", max_iter=3)
    if name == "fit of a chain":
        # A new estimator for each call, because making one is a part of it.
        return lambda: StructuredSparseMAPClassifier("chain", max_iter=3).fit(X, y)
    if name == "predict of a chain":
        chain.fit(X, y)
        return lambda: chain.predict(X)
    if name == "predict_set":
        sets = ConformalStructures(chain.fit(X, y), 0.8).conformalize(X, y)
        return lambda: sets.predict_set(X[:5])
    if name == "sparsemap, one array":
        scores, transitions = rng.normal(size=(5, 3)), np.zeros((3, 3))
        return lambda: sparsemap(LinearChain(), scores, transitions=transitions)
    if name == "lp_sparsemap, one graph":
        graph = FactorGraph()
        u = graph.variables(4)
        graph.add(Xor(u[:2]), Budget(u, 2))
        return lambda: lp_sparsemap(graph, [1.0, 0.5, 0.2, 0.3])
    features = rng.normal(size=(30, 6))
    if name == "partial_fit of groups":
        labels, groups = np.where(features[:, 0] > 0, "a", "b"), {"l": [0, 1, 2], "r": [3, 4, 5]}
        options = {"groups": groups, "budget": 1, "random_state": 0}
        return lambda: GroupLassoPerceptron(**options).partial_fit(features, labels, classes=["a", "b"])
    assert name == "fit of label sets"
    sets = rng.integers(0, 2, (30, 4))
    return lambda: MultilabelLPSparseMAP(score_model="linear", random_state=0, max_iter=2).fit(features, sets)


def trace(call):
    """Return (depth, file, function) of each call of a function of the package, in order."""
    root, passed, stack = str(PACKAGE) + os.sep, [], []

    def record(frame, event, _):
        if event == "call":
            code = frame.f_code
            counts = code.co_filename.startswith(root) and code.co_name not in COMPREHENSIONS
            stack.append(counts)
            if counts:
                file = code.co_filename.removeprefix(root).replace(os.sep, "/")
                passed.append((sum(stack), file, code.co_qualname))
        elif event == "return" and stack:
            stack.pop()

    previous = sys.getprofile()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return passed


def journey(name):
    """Return what a call of the table passes once everything is compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        call = make_call(name)
        call()
        return trace(call)


def figures(passed):
    """Return the number of functions, the number of files and the depth."""
    functions = {(file, function) for _, file, function in passed}
    return len(functions), len({file for file, _ in functions}), max(depth for depth, _, _ in passed)


def print_tree(passed):
    seen = set()
    for depth, file, function in passed:
        if (file, function) not in seen:
            print("  " * depth + f"{file}: {function}")
            seen.add((file, function))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="Python runs the kernels, which would count")
@pytest.mark.parametrize("name", MOST)
def test_a_call_is_short(name):
    counted = figures(journey(name))
    for figure, most, unit in zip(counted, MOST[name], ("functions", "files", "frames deep"), strict=True):
        assert 1 < figure <= most, f"{name}: {figure} {unit}, at most {most} are allowed; {SEE.format(name)}"


def test_all_functions_of_a_tree_are_counted():
    chain = [function for _, _, function in journey("sparsemap, one array")]
    assert "sparsemap" in chain and "LinearChain.dims" in chain


def lines_that_ask():
    """Return the lines outside factors, structures and inference that ask which kind of problem they have."""
    asks = re.compile(r"isinstance\([^)]*\b(FactorGraph|Structure)\b|\bis_flat\(")
    lines = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] not in ("factors", "structures", "inference"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if asks.search(line) and not line.lstrip().startswith("def "):
                    lines.append(f"{inside.as_posix()}:{number}")
    return lines


def classes():
    """Yield each class of the package: its name, the names of its bases and its file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
                yield node.name, bases, path.relative_to(PACKAGE).as_posix()


def mixins_with_one_user():
    uses = Counter(base for _, bases, _ in classes() for base in bases)
    # Stand-ins for type checkers are not mixins of this package.
    own = {name for name, _, file in classes() if name.endswith("Mixin") and file != "_core/sklearn_bases.py"}
    return sorted(name for name in own if uses[name] <= 1)


def class_names_twice():
    """Return the names of several classes, but for the losses, whose layers in PyTorch have the same names."""
    files = defaultdict(list)
    for name, _, file in classes():
        files[name].append(file)
    return {
        name: where
        for name, where in files.items()
        if len(where) > 1 and sorted(file.split("/")[0] for file in where) != ["losses", "torch"]
    }


def test_few_places_ask_which_kind_of_problem_they_have():
    asked = lines_that_ask()
    assert len(asked) <= MAX_QUESTIONS, asked


def test_few_mixins_have_one_user():
    mixins = mixins_with_one_user()
    assert len(mixins) <= MAX_MIXINS_WITH_ONE_USER, mixins


def test_few_class_names_occur_twice():
    twice = class_names_twice()
    assert len(twice) <= MAX_CLASS_NAMES_TWICE, twice


def main(names):
    for name in MOST:
        passed = journey(name)
        print(f'"{name}": {figures(passed)},')
        if name in names:
            print_tree(passed)
    for text, places, most in (
        ("places that ask which kind of problem they have", lines_that_ask(), MAX_QUESTIONS),
        ("mixins with one user", mixins_with_one_user(), MAX_MIXINS_WITH_ONE_USER),
        ("class names that occur twice", class_names_twice(), MAX_CLASS_NAMES_TWICE),
    ):
        print(f"{text}: {len(places)}, at most {most}: {', '.join(places)}")


if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - MOST.keys()
    if unknown:
        sys.exit(f"no call is named {unknown}; there are {list(MOST)}")
    main(sys.argv[1:])
