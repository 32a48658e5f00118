"""hidden_layer_sizes="auto": linear scores or a network, whichever is clearly better on held-out samples."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.estimators._multilabel import solvers
from sklearn_sparsemap.factors import Hierarchy

# Few epochs are enough here.
QUICK = {"tol": 0.02, "random_state": 0, "n_jobs": 1}


def make(kind, n_samples=2000, noise=0.3):
    """Draw three labels of four features: linear ones, or ones that depend on products and squares."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, 4))
    a, b, c, d = X.T
    scores = [a + b, b - c, c + d - 1.0] if kind == "linear" else [a * b, c * d, b * b - 1.0]
    return X, (np.stack(scores, axis=1) + noise * rng.normal(size=(n_samples, 3)) > 0.0).astype(int)


@pytest.fixture(scope="module")
def curved():
    X, Y = make("curved")
    return X, Y, MultilabelLPSparseMAP(**QUICK).fit(X, Y)


def log_loss(Y, P):
    return -np.log(np.where(Y > 0, P, 1.0 - P)).mean()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args):
        raise AssertionError("a network was trained")

    monkeypatch.setattr(solvers, "epochs_of", refuse)


def test_a_network_is_chosen_if_labels_are_not_linear(curved):
    X, Y, model = curved
    assert model.hidden_layer_sizes_ == (300,)
    assert [coef.shape for coef in model.coefs_] == [(4, 300), (300, 3)]
    X_test, Y_test = (part[2000:] for part in make("curved", 3000))
    linear = MultilabelLPSparseMAP(hidden_layer_sizes=()).fit(X, Y)
    assert linear.hidden_layer_sizes_ == ()
    assert log_loss(Y_test, model.predict_proba(X_test)) < 0.7 * log_loss(Y_test, linear.predict_proba(X_test))
    assert model.score(X_test, Y_test) > linear.score(X_test, Y_test) + 0.2


def test_it_is_the_same_as_the_network_that_is_asked_for(curved):
    X, Y, model = curved
    asked = MultilabelLPSparseMAP(hidden_layer_sizes=(300,), dropout=0.3, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(asked.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(asked.predict(X), model.predict(X))
    assert (asked.alpha_, asked.n_iter_, asked._rule) == (model.alpha_, model.n_iter_, model._rule)


def test_the_choice_does_not_depend_on_the_seed(monkeypatch):
    found = []
    monkeypatch.setattr(solvers, "in_errors", lambda gains, weights: found.append(gains.copy()) or 0.0)
    X, Y = make("curved")
    for seed in (0, 1):
        MultilabelLPSparseMAP(random_state=seed).fit(X, Y)
    np.testing.assert_array_equal(*found)


def test_linear_scores_are_chosen_if_they_are_as_good():
    X, Y = make("linear")
    model = MultilabelLPSparseMAP(**QUICK).fit(X, Y)
    linear = MultilabelLPSparseMAP(hidden_layer_sizes=(), **QUICK).fit(X, Y)
    assert model.hidden_layer_sizes_ == ()
    np.testing.assert_array_equal(model.predict_proba(X), linear.predict_proba(X))
    np.testing.assert_array_equal(model.coefs_[0], linear.coefs_[0])


@pytest.mark.parametrize(
    "params",
    [{"loss": "hinge", "max_iter": 200}, {"label_graph": "full"}, {"solver": "adam"}, {"solver": "lbfgs"}],
    ids=str,
)
def test_without_the_choice_of_a_solver_scores_are_linear(params):
    X, Y = make("curved", 2000)
    assert MultilabelLPSparseMAP(**QUICK | {"tol": 0.1} | params).fit(X, Y).hidden_layer_sizes_ == ()


@pytest.mark.parametrize("kind", ["sparse", "few samples", "many features"])
def test_no_network_is_trained_for_sparse_wide_or_few_data(no_network, kind):
    X, Y = make("curved", 1999 if kind == "few samples" else 2000)
    if kind == "sparse":
        X = sparse.csr_array(X)
    if kind == "many features":
        X = np.hstack([X, np.random.default_rng(0).normal(size=(2000, 97))])
    assert MultilabelLPSparseMAP(**QUICK).fit(X, Y).hidden_layer_sizes_ == ()


def test_streams_are_linear(no_network):
    X, Y = make("curved")
    assert MultilabelLPSparseMAP(**QUICK).partial_fit(X, Y).hidden_layer_sizes_ == ()
    model = MultilabelLPSparseMAP(max_iter=20, **QUICK | {"tol": 0.1})
    assert model.fit_partitions([(X[:1000], Y[:1000]), (X[1000:], Y[1000:])]).hidden_layer_sizes_ == ()


def test_a_chosen_network_is_trained_further(curved):
    X, Y, model = curved
    further = pickle.loads(pickle.dumps(model)).partial_fit(X[:500], Y[:500])
    assert further.hidden_layer_sizes_ == (300,)
    assert (further.coefs_[0] != model.coefs_[0]).any()
    with pytest.raises(ValueError, match=r"hidden_layer_sizes differ from the fitted model's, \(300,\)"):
        further.set_params(hidden_layer_sizes=()).partial_fit(X, Y)


def test_a_chosen_network_is_stored(curved):
    X, Y, model = curved
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    restored = MultilabelLPSparseMAP.from_arrays(model.to_arrays())
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    assert restored.hidden_layer_sizes_ == (300,)
    assert clone(model).hidden_layer_sizes == "auto"


@pytest.mark.parametrize("kind", ["one label", "unknown", "hierarchy", "weights", "threshold", "logistic"])
def test_networks_are_chosen_for_all_kinds_of_data(kind):
    X, Y = make("curved")
    params, weights = {}, None
    if kind == "one label":
        Y = Y @ [4, 2, 1]
    if kind == "unknown":
        Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.5, Y, np.nan)
    if kind == "hierarchy":
        Y[:, 0] |= Y[:, 1]
        params["constraints"] = Hierarchy([None, 0, None])
    if kind == "weights":
        weights = np.random.default_rng(1).random(len(X))
    if kind == "threshold":
        params["threshold"] = "auto"
    if kind == "logistic":
        params["loss"] = "logistic"
    model = MultilabelLPSparseMAP(**QUICK | {"tol": 0.1} | params).fit(X, Y, weights)
    assert model.hidden_layer_sizes_ == (300,)
    assert np.isfinite(model.predict_proba(X)).all()
    model.predict(X)


def test_in_errors_is_the_mean_over_its_standard_error():
    rng = np.random.default_rng(0)
    gains, weights = rng.normal(0.1, 1.0, size=50), rng.integers(1, 4, size=50).astype(float)
    ones = np.ones(50)
    assert solvers.in_errors(gains, ones) == pytest.approx(gains.mean() / (gains.std() / np.sqrt(50)))
    mean = sum(w * g for w, g in zip(weights, gains, strict=True)) / sum(weights)
    variance = sum((w * (g - mean)) ** 2 for w, g in zip(weights, gains, strict=True)) / sum(weights) ** 2
    assert solvers.in_errors(weights * gains, weights) == pytest.approx(mean / np.sqrt(variance))
    assert solvers.in_errors(7.0 * weights * gains, 7.0 * weights) == pytest.approx(mean / np.sqrt(variance))
    assert solvers.in_errors(np.zeros(3), np.ones(3)) == 0.0
