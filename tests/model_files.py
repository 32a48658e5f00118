"""Small fitted estimators of all kinds, for tests of files; run as a script, it writes tests/data/models."""

import warnings
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import (
    DecisionFocusedRegressor,
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.factors import AtMost, FactorGraph, Hierarchy, Implies, Label, Pair
from sklearn_sparsemap.penalties import GroupOrder, GroupTree
from sklearn_sparsemap.structures import DependencyTree, LinearProgram, SequenceBudget, Subset

FILES = Path(__file__).parent / "data" / "models"


def row_graph(features):
    """Return a graph of a row of variables, whose neighbours are tied."""
    graph = FactorGraph()
    u = graph.variables(len(features))
    graph.add(Pair(u[:-1], u[1:], name="neighbours", tied=True))
    return graph


def draw():
    """Return data by their form: flat, chains, trees, matrices of labels, values of parts."""
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(30, 3))
    steps = [rng.normal(size=(k, 3)) for k in (3, 2, 4, 3, 5, 2)]
    return {
        "flat": (flat, np.where(flat[:, 0] > 0.0, "u", "v")),
        "numbers": (flat, (flat[:, 1] > 0.0) + 3),
        "mixed": (steps, [["a" if row[0] > 0.0 else 7 for row in x] for x in steps]),
        "chains": (steps, [["a" if row[0] > 0.0 else "b" for row in x] for x in steps]),
        "tags": (steps, [["B-x" if row[0] > 0.0 else "O" for row in x] for x in steps]),
        "subsets": (steps, [x[:, 0] > 0.0 for x in steps]),
        "trees": ([rng.normal(size=((n + 1) * n, 3)) for n in (2, 3)], [np.array([0, 1]), np.array([0, 1, 1])]),
        "sets": (flat, np.stack([flat[:, 0] > 0.0, (flat[:, :2] > 0.0).all(axis=1), flat[:, 2] > 0.3], axis=1) * 1),
        "values": (flat, flat @ rng.normal(size=(3, 4))),
    }


def models():
    """Return unfitted estimators: name -> (estimator, name of the data)."""
    chain, groups, sets = StructuredSparseMAPClassifier, GroupLassoPerceptron, MultilabelLPSparseMAP
    selected = {"budget": 1, "max_iter": 2, "debias_max_iter": 1, "random_state": 0}
    return {
        "flat": (chain(max_iter=5, loss=("hinge", np.ones((2, 2)) - np.eye(2))), "flat"),
        "numbers": (chain(max_iter=5, class_weight={3: 2.0}), "numbers"),
        "chain": (chain("chain", max_iter=5), "chains"),
        "constraints": (chain("chain", max_iter=5, constraints="bio"), "tags"),
        "mixed": (chain("chain", max_iter=5), "mixed"),
        "adagrad": (chain("chain", solver="adagrad", max_iter=2, random_state=0), "chains"),
        "sequence_budget": (chain(SequenceBudget(5), max_iter=3), "chains"),
        "subset": (chain(Subset(0, 3), max_iter=3), "subsets"),
        "tree": (chain(DependencyTree(projective=True), max_iter=3), "trees"),
        "graphs": (chain(row_graph, max_iter=3), "subsets"),
        "groups": (groups("chain", **selected), "chains"),
        "group_dict": (groups("chain", groups={"x": [0, 1], "y": [1, 2]}, **selected), "chains"),
        "group_order": (
            groups("chain", groups=GroupOrder([(0, 1), (1, 2)], columns=[[0], [1], [2]]), **selected),
            "chains",
        ),
        "group_tree": (groups("chain", groups=GroupTree([-1, 0, 0], [[0], [1], [2]]), **selected), "chains"),
        "group_lasso": (StructuredGroupLasso("chain", alpha=0.01, max_iter=50), "chains"),
        "sets": (sets(max_iter=5, random_state=0), "sets"),
        "network": (sets(hidden_layer_sizes=(4,), label_graph="full", max_iter=5, random_state=0), "sets"),
        "rules": (sets(constraints=[AtMost(3), Implies(~Label(0), ~Label(1))], max_iter=5, random_state=0), "sets"),
        "hierarchy": (sets(constraints=Hierarchy([-1, 0, -1]), max_iter=5, random_state=0), "sets"),
        "one_label": (sets(max_iter=5, threshold="auto", random_state=0), "flat"),
        "decisions": (DecisionFocusedRegressor(Subset(1, 2), max_iter=5), "values"),
        "program": (DecisionFocusedRegressor(LinearProgram([[1.0, 2.0, 1.0, 1.0]], [3.0]), max_iter=2), "values"),
    }


def fitted(name):
    """Return a fitted estimator, and its data: copies, which may be changed."""
    return deepcopy(_fitted(name))


@cache
def _fitted(name):
    model, data = models()[name]
    X, y = draw()[data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y), X, y


def predictions(model, X):
    """Return what a model predicts, as a flat list of arrays."""
    found = [model.predict(X)]
    for method in ("predict_marginals", "predict_proba", "decision_function", "predict_values"):
        if hasattr(model, method):
            found.append(getattr(model, method)(X))
    parts = [np.asarray(part) for each in found for part in (each if each.dtype == object else [each])]
    # Labels of several types as text, which a file can hold.
    return [np.array(list(map(repr, part))) if part.dtype == object else part for part in parts]


def write_files():
    """Write a file of each estimator, with its predictions."""
    FILES.mkdir(parents=True, exist_ok=True)
    for name in models():
        model, X, _ = fitted(name)
        np.savez_compressed(FILES / f"{name}.npz", **model.to_arrays())
        np.savez_compressed(FILES / f"{name}-predicted.npz", *predictions(model, X))


if __name__ == "__main__":
    write_files()
