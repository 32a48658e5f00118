"""A parameter that is documented for one optimiser changes that optimiser's models, and no bit of the others'."""

from functools import cache

import numpy as np
import pytest
from samples import graph_of, make_rings
from sklearn.base import clone

from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:no group of features")

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(4, 3)) for _ in range(12)]
Y = [np.argmax(x + 0.5 * RNG.normal(size=(4, 3)), axis=1) for x in X]
FLAT = np.concatenate(X), np.concatenate(Y)
LABELS = FLAT[0], (FLAT[0] > 0.3).astype(int)
# Values that are not the default.
ADAGRAD = {"eta0": 0.5, "batch_size": 3}
MIRA = {"eta0": 0.01}
FOREIGN_STEP = {"eta0": 0.5, "batch_size": 3}
STEPS = {"average": False, "shuffle": False, "random_state": 7}
ONLINE = {**STEPS, "n_iter_no_change": 1}
HELD_OUT = {"validation_fraction": 0.3}
ADAM = {
    "edge_eta0": 0.1, "edge_alpha": 0.5, "batch_size": 5, "shuffle": False, "random_state": 7,
    "n_iter_no_change": 1, "validation_fraction": 0.3,
}  # fmt: skip
STRUCTURED = {"max_iter": 4, "tol": 0.0, "alpha": 0.01, "random_state": 0}
LASSO = {"max_iter": 2, "debias_max_iter": 2, "shrink_every": 5, "random_state": 0}


@cache
def rings():
    return make_rings(12, 0)


def structured(structure, **parameters):
    return StructuredSparseMAPClassifier(structure, **{**STRUCTURED, **parameters})


# Estimators, their data or a function that makes them, the parameters that must not matter, and those that must.
CASES = {
    "chain, lbfgs": (
        structured("chain", solver="lbfgs"), (X, Y), FOREIGN_STEP | ONLINE | HELD_OUT, {"alpha": 0.1},
    ),
    "chain, auto": (structured("chain"), (X, Y), FOREIGN_STEP | ONLINE | HELD_OUT, {"alpha": 0.1}),
    "chain, crf": (structured("chain", loss="crf"), (X, Y), FOREIGN_STEP | ONLINE | HELD_OUT, {"alpha": 0.1}),
    "multiclass, lbfgs": (structured("auto", solver="lbfgs"), FLAT, FOREIGN_STEP | ONLINE, {"alpha": 0.1}),
    "graphs, lbfgs": (structured(graph_of, solver="lbfgs"), rings, FOREIGN_STEP | ONLINE, {"alpha": 0.1}),
    "chain, adagrad": (structured("chain", solver="adagrad"), (X, Y), HELD_OUT, ADAGRAD | STEPS),
    "graphs, adagrad": (structured(graph_of, solver="adagrad"), rings, HELD_OUT, ADAGRAD),
    "chain, mira": (
        structured("chain", solver="mira", loss="hinge"), (X, Y), {"batch_size": 3, "alpha": 0.1} | HELD_OUT,
        MIRA | STEPS,
    ),
    "labels, lbfgs": (MultilabelLPSparseMAP(max_iter=5), LABELS, ADAM, {"alpha": 0.1}),
    "labels, lbfgs, threshold": (MultilabelLPSparseMAP(max_iter=5, threshold="auto"), LABELS, ADAM, {"alpha": 0.1}),
    "labels, adam": (
        MultilabelLPSparseMAP("full", max_iter=3, solver="adam", random_state=0, score_model="linear"), LABELS,
        HELD_OUT, ADAM.keys() - {"validation_fraction", "n_iter_no_change"},
    ),
    "groups, debiased by a loss": (
        GroupLassoPerceptron("chain", budget=2, debias="sparsemap", **LASSO), (X, Y), {"C": 0.01},
        {"eta0": 0.1, "debias_max_iter": 1},
    ),
    "groups, debiased by MIRA": (
        GroupLassoPerceptron("chain", budget=2, **LASSO), (X, Y), {"eta0": 0.5}, {"C": 0.01, "debias_max_iter": 1},
    ),
    "groups, not debiased": (
        GroupLassoPerceptron("chain", budget=2, debias=None, **LASSO), (X, Y),
        {"C": 0.01, "debias_max_iter": 1}, {"eta0": 0.1},
    ),
    "groups, none dropped": (
        GroupLassoPerceptron("chain", debias=None, **LASSO), (X, Y), {"C": 0.01, "debias_max_iter": 1},
        {"eta0": 0.1, "average": False},
    ),
}  # fmt: skip


def learned(estimator, data):
    """Return all numbers that a fit leaves, as bytes."""
    model = clone(estimator).fit(*data)._learned.model
    names = ("coefs", "intercepts", "edges") if hasattr(model, "coefs") else ("coef", "intercept", "additional")
    parts = [getattr(model, name) for name in names if hasattr(model, name)]
    arrays = [array for part in parts for array in (part if isinstance(part, list) else [part])]
    arrays = [array.toarray() if hasattr(array, "toarray") else np.asarray(array) for array in arrays]
    assert sum(array.size for array in arrays) > 3
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


@pytest.mark.parametrize("case", CASES)
def test_a_parameter_of_one_optimiser_changes_no_other(case):
    estimator, data, foreign, own = CASES[case]
    data = data() if callable(data) else data
    expected = learned(estimator, data)
    own = own if isinstance(own, dict) else {name: ADAM[name] for name in own}

    def changes(parameters):
        models = {name: clone(estimator).set_params(**{name: value}) for name, value in parameters.items()}
        return {name for name, model in models.items() if learned(model, data) != expected}

    assert learned(estimator, data) == expected
    assert changes(foreign) == set()
    # Else the comparison would not see anything.
    assert changes(own) == set(own)
