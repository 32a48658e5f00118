"""score_model="auto": linear scores or another model, whichever is clearly better on held-out samples."""

import pickle

import numpy as np
import pytest
from internals import multilabel_solvers as solvers
from internals import replace
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.score_models import Network

# Few epochs are enough here.
QUICK = {"tol": 0.02, "max_iter": 30, "random_state": 0, "n_jobs": 1}


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


def sizes(model):
    """Return the sizes of the hidden layers of a fitted network."""
    return () if model.score_model_ == "linear" else model.score_model_.hidden_layer_sizes


def log_loss(Y, P):
    return -np.log(np.where(Y > 0, P, 1.0 - P)).mean()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args):
        raise AssertionError("a network was trained")

    replace(monkeypatch, "estimators", "epochs_of", refuse)


def test_a_network_is_chosen_if_labels_are_not_linear(curved):
    X, Y, model = curved
    assert sizes(model) == (300,)
    assert [coef.shape for coef in model.coefs_] == [(4, 300), (300, 3)]
    X_test, Y_test = (part[2000:] for part in make("curved", 3000))
    linear = MultilabelLPSparseMAP(score_model="linear").fit(X, Y)
    assert linear.score_model_ == "linear"
    assert log_loss(Y_test, model.predict_proba(X_test)) < 0.7 * log_loss(Y_test, linear.predict_proba(X_test))
    assert model.score(X_test, Y_test) > linear.score(X_test, Y_test) + 0.2


def test_it_is_the_network_that_may_be_asked_for(curved):
    X, Y, model = curved
    asked = MultilabelLPSparseMAP(score_model=model.score_model_, random_state=0, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="still improving"):
        asked.set_params(max_iter=model.n_iter_).fit(X, Y)
    np.testing.assert_array_equal(asked.decision_function(X), model.decision_function(X))
    assert (asked.alpha_, asked.n_iter_) == (model.alpha_, model.n_iter_)
    assert len(model.loss_curve_) == model.n_iter_
    assert np.abs(asked.predict_proba(X) - model.predict_proba(X)).max() < 0.1


@pytest.mark.parametrize(
    ("losses", "max_iter", "expected"),
    [
        # Linear scores, then the network after 30, 35, 40, ... epochs, in multiples of a common loss.
        ([1.0, 0.99, 0.98, 0.97, 0.96, 0.96, 0.97], None, 45),
        ([1.0, 0.99, 0.9899, 0.9898], None, 30),
        ([1.0, 0.99, 0.995, 0.98, 0.99, 0.985], None, 40),
        ([1.0, 0.99, 0.98], 33, 33),
        ([1.0, 0.99], 3, 3),
        ([1.0, 1.0], None, None),
        ([1.0, 1.01], None, None),
    ],
)
def test_the_network_trains_until_the_loss_no_longer_falls(monkeypatch, losses, max_iter, expected):
    left = iter(losses)

    def scripted(self, evidence):
        return np.full(len(evidence), next(left))

    monkeypatch.setattr(solvers.NetworkComparison, "_losses", scripted)
    X, Y = make("linear")
    model = MultilabelLPSparseMAP(**QUICK | {"max_iter": max_iter, "tol": 1.0}).fit(X, Y)
    assert next(left, None) is None
    assert sizes(model) == ((300,) if expected else ())
    assert expected is None or model.n_iter_ == expected


def test_losses_are_calibrated_on_the_other_half(curved):
    X, Y, _ = curved
    estimator = MultilabelLPSparseMAP(**QUICK)
    data, task = estimator._validate_fit(X, Y, None, None, first=True)
    unfitted = estimator._calibration
    linear = solvers.LBFGSCrossValidation(estimator, estimator._inference, data, task)
    linear.cross_validate()
    trial = solvers.NetworkComparison(linear)
    gold, n = trial.task.gold.astype(float), len(trial.held)
    evidence = np.random.default_rng(0).normal(size=gold.shape)
    found = trial._losses(evidence)
    for half in (0, 1):
        other = [i for i in range(n) if i % 2 != half]
        curves = unfitted.fit(evidence[other], gold[other], np.ones((len(other), 1)))
        for i in range(half, n, 2):
            (p,) = curves.probabilities(evidence[[i]])
            assert found[i] == pytest.approx(-np.log(np.where(gold[i] > 0, p, 1.0 - p)).sum())


def test_the_choice_does_not_depend_on_the_seed(monkeypatch):
    found = []
    replace(monkeypatch, "estimators", "least_gain", lambda gains, weights: found.append(gains.copy()) or 0.0)
    X, Y = make("curved")
    for seed in (0, 1):
        MultilabelLPSparseMAP(random_state=seed).fit(X, Y)
    np.testing.assert_array_equal(*found)


def test_linear_scores_are_chosen_if_they_are_as_good():
    X, Y = make("linear")
    model = MultilabelLPSparseMAP(**QUICK).fit(X, Y)
    linear = MultilabelLPSparseMAP(score_model="linear", **QUICK).fit(X, Y)
    assert model.score_model_ == "linear"
    np.testing.assert_array_equal(model.predict_proba(X), linear.predict_proba(X))
    np.testing.assert_array_equal(model.coefs_[0], linear.coefs_[0])


@pytest.mark.parametrize(
    "params",
    [{"loss": "hinge"}, {"label_graph": "full"}, {"solver": "adam"}, {"solver": "lbfgs"}],
    ids=str,
)
def test_without_the_choice_of_a_solver_scores_are_linear(params):
    X, Y = make("curved", 2000)
    assert MultilabelLPSparseMAP(**QUICK | {"tol": 0.1} | params).fit(X, Y).score_model_ == "linear"


def test_a_network_that_diverges_is_not_chosen():
    X, Y = make("curved")
    assert MultilabelLPSparseMAP(**QUICK).fit(X, Y).score_model_ == "linear"


@pytest.mark.parametrize("kind", ["sparse", "few samples", "many features", "many labels"])
def test_no_network_is_trained_for_sparse_wide_or_few_data(no_network, kind):
    X, Y = make("curved", 1999 if kind == "few samples" else 2000)
    if kind == "sparse":
        X = sparse.csr_array(X)
    if kind == "many features":
        X = np.hstack([X, np.random.default_rng(0).normal(size=(2000, 97))])
    if kind == "many labels":
        Y = np.hstack([Y] * 34)
    assert MultilabelLPSparseMAP(**QUICK).fit(X, Y).score_model_ == "linear"


def test_streams_are_linear(no_network):
    X, Y = make("curved")
    assert MultilabelLPSparseMAP(**QUICK).partial_fit(X, Y).score_model_ == "linear"
    model = MultilabelLPSparseMAP(**QUICK | {"tol": 0.1})
    assert model.fit_partitions([(X[:1000], Y[:1000]), (X[1000:], Y[1000:])]).score_model_ == "linear"


def test_a_chosen_network_is_trained_further(curved):
    X, Y, model = curved
    further = pickle.loads(pickle.dumps(model)).partial_fit(X[:500], Y[:500])
    assert sizes(further) == (300,)
    assert (further.coefs_[0] != model.coefs_[0]).any()
    with pytest.raises(ValueError, match=r"score_model='linear' differs from the fitted Network\(.*300,.*\)"):
        further.set_params(score_model="linear").partial_fit(X, Y)


def test_a_chosen_network_is_stored(curved):
    X, _, model = curved
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    restored = MultilabelLPSparseMAP.from_arrays(model.to_arrays())
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    assert sizes(restored) == (300,)
    assert clone(model).score_model == "auto"


@pytest.mark.parametrize(
    "kind", ["one label", "unknown", "unknown, threshold", "hierarchy", "weights", "threshold", "logistic"]
)
def test_networks_are_chosen_for_all_kinds_of_data(kind):
    X, Y = make("curved")
    params, weights = {}, None
    if kind == "one label":
        Y = Y @ [4, 2, 1]
    if kind.startswith("unknown"):
        Y = np.where(np.random.default_rng(1).random(Y.shape) < 0.5, Y, np.nan)
    if kind == "hierarchy":
        Y[:, 0] |= Y[:, 1]
        params["constraints"] = Hierarchy([None, 0, None])
    if kind == "weights":
        weights = np.random.default_rng(1).random(len(X))
    if kind.endswith("threshold"):
        params["threshold"] = "auto"
    if kind == "logistic":
        params["loss"] = "logistic"
    model = MultilabelLPSparseMAP(**QUICK | {"tol": 0.1} | params).fit(X, Y, weights)
    assert sizes(model) == (300,)
    assert np.isfinite(model.predict_proba(X)).all()
    model.predict(X)


def test_the_least_gain_is_two_standard_errors_below_the_mean():
    rng = np.random.default_rng(0)
    gains, weights = rng.normal(0.1, 1.0, size=50), rng.integers(1, 4, size=50).astype(float)
    least = gains.mean() - 2.0 * gains.std() / np.sqrt(50)
    assert solvers.least_gain(gains, np.ones(50)) == pytest.approx(least)
    mean = sum(w * g for w, g in zip(weights, gains, strict=True)) / sum(weights)
    variance = sum((w * (g - mean)) ** 2 for w, g in zip(weights, gains, strict=True)) / sum(weights) ** 2
    for scale in (1.0, 7.0):
        found = solvers.least_gain(scale * weights * gains, scale * weights)
        assert found == pytest.approx(mean - 2.0 * np.sqrt(variance))


def test_choosing_a_solver_trains_nothing(monkeypatch):
    X, Y = make("linear")

    def refuse(self, watch):
        raise AssertionError("a model is trained")

    for params in ({}, {"solver": "adam"}, {"score_model": Network((3,))}, {"label_graph": "full"}):
        estimator = MultilabelLPSparseMAP(**QUICK | params)
        data, task = estimator._validate_fit(X, Y, None, None, first=True)
        with monkeypatch.context() as patch:
            for learner in solvers.LBFGSLearner, solvers.OnlineLearner:
                patch.setattr(learner, "run", refuse)
            description = params.get("score_model")
            solver = solvers.choose_solver(estimator, estimator._inference, data, task, description)
            if not params:
                with pytest.raises(AssertionError, match="trained"):
                    solver.cross_validate()
        assert type(solver).__name__ == ("AdamTraining" if params else "LBFGSCrossValidation")


def test_dropout_continues_from_files():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    Y = (X[:, :2] > 0.3).astype(int)
    model = MultilabelLPSparseMAP(score_model=Network((8,), dropout=0.5), label_graph=None, random_state=3)
    for _ in range(3):
        model.partial_fit(X, Y)
    arrays = model.to_arrays()
    restored = MultilabelLPSparseMAP.from_arrays(arrays)
    np.testing.assert_array_equal(
        restored.partial_fit(X, Y).decision_function(X), model.partial_fit(X, Y).decision_function(X)
    )
