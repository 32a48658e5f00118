"""The contract of score models, for each kind of model."""

from types import SimpleNamespace

import numpy as np
import pytest
from internals import ClassifierModel, LinearModel, NetworkModel, RegressorsModel, TreesModel, own_tree
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.tree import DecisionTreeRegressor

ScoreModel = LinearModel.__base__
rng = np.random.default_rng(0)
COEF = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.6)
HIDDEN = rng.normal(size=(6, 5))
LAST = rng.normal(size=(5, 4))
INTERCEPT = rng.normal(size=4)
ADDITIONAL = rng.normal(size=3)


def linear(X):
    return X @ COEF + INTERCEPT


def with_hidden_layer(X):
    return np.maximum(X @ HIDDEN + 1.0, 0.0) @ LAST + INTERCEPT


SAMPLES = rng.normal(size=(40, 6))
TREE = DecisionTreeRegressor(max_depth=3).fit(SAMPLES, SAMPLES @ COEF)


def by_tree(X):
    return TREE.predict(X) + INTERCEPT


# Fitted estimators of rows, whose scores are multiplied by 2.
FITTED = SimpleNamespace(constants=np.zeros(4), members=[], scores=lambda X: X @ COEF / 2.0)

# Each model, the function that it computes, its accuracy, and whether single features explain its scores.
MODELS = {
    "linear": (LinearModel(COEF, INTERCEPT, ADDITIONAL), linear, 1e-12, True),
    "sparse": (LinearModel(sparse.csr_array(COEF), INTERCEPT, ADDITIONAL), linear, 1e-12, True),
    "float32": (LinearModel(COEF, INTERCEPT, ADDITIONAL).astype(np.float32), linear, 1e-5, True),
    "no hidden layer": (NetworkModel([COEF], [INTERCEPT], ADDITIONAL), linear, 1e-12, True),
    "network": (NetworkModel([HIDDEN, LAST], [np.ones(5), INTERCEPT], ADDITIONAL), with_hidden_layer, 1e-12, False),
    "trees": (TreesModel.sum_of([own_tree(TREE, 1.0)], INTERCEPT, ADDITIONAL, 6), by_tree, 1e-12, False),
    "regressors": (RegressorsModel([TREE], [1.0], INTERCEPT, ADDITIONAL, 6), by_tree, 1e-12, False),
    "estimators of rows": (ClassifierModel(FITTED, 2.0, INTERCEPT, ADDITIONAL, 6), linear, 1e-12, False),
}


def test_each_score_model_has_a_case():
    kinds = {type(model) for model, *_ in MODELS.values()}
    absent = [kind.__name__ for kind in ScoreModel.__subclasses__() if kind not in kinds]
    assert not absent, f"add {absent} to MODELS"


@pytest.mark.parametrize("name", MODELS)
def test_score_models_have_one_contract(name):
    model, twin, accuracy, explains = MODELS[name]
    X = rng.normal(size=(7, 6)) * (rng.random((7, 6)) < 0.5)
    for form in (X, sparse.csr_array(X)):
        scores = [model.scores(form, n_jobs) for n_jobs in (None, 1, 2)]
        assert scores[0].dtype == np.float64
        assert_allclose(scores[0], twin(X), atol=accuracy)
        assert_array_equal(scores[0], scores[1])
        assert_array_equal(scores[0], scores[2])
    assert ("explain" in model.supports) == explains
    assert model.sizes == (6, 4, 3)
    assert model.dtype == (np.float32 if name == "float32" else np.float64)
    others = ADDITIONAL + 1.0
    changed = model.with_additional(others)
    assert type(changed) is type(model)
    assert_array_equal(changed.additional, others)
    assert_array_equal(changed.scores(X), model.scores(X))
    copy = model.copy()
    copy.additional[:] = 0.0
    assert_allclose(model.additional, ADDITIONAL, atol=accuracy)
