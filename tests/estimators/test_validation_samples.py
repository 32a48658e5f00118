"""Early stopping on the user's own validation samples, X_val and y_val of `fit`."""

import warnings

import numpy as np
import pytest
import sklearn
from samples import make_chains
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import DecisionFocusedRegressor, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import Subset

RNG = np.random.default_rng(0)
FLAT, FLAT_VAL = RNG.normal(size=(60, 5)), RNG.normal(size=(40, 5))


def labels_of(X):
    return np.where(X[:, 0] + X[:, 1] + np.random.default_rng(1).normal(size=len(X)) > 0.0, "b", "a")


def sets_of(X):
    return (X[:, :3] + np.random.default_rng(2).normal(size=(len(X), 3)) > 0.0).astype(int)


def values_of(X):
    return X @ np.arange(20.0).reshape(5, 4) + 10.0 * np.random.default_rng(3).normal(size=(len(X), 4))


CHAINS, CHAINS_VAL = make_chains(40), make_chains(30, seed=1)
# Estimator, training samples, validation samples.
CASES = {
    "chain, L-BFGS": (StructuredSparseMAPClassifier("chain", "crf"), CHAINS, CHAINS_VAL),
    "chain, AdaGrad": (StructuredSparseMAPClassifier("chain", solver="adagrad"), CHAINS, CHAINS_VAL),
    "labels": (StructuredSparseMAPClassifier(), (FLAT, labels_of(FLAT)), (FLAT_VAL, labels_of(FLAT_VAL))),
    "sets": (MultilabelLPSparseMAP(max_iter=60), (FLAT, sets_of(FLAT)), (FLAT_VAL, sets_of(FLAT_VAL))),
    "decisions": (DecisionFocusedRegressor(Subset(2, 2)), (FLAT, values_of(FLAT)), (FLAT_VAL, values_of(FLAT_VAL))),
    "decisions, AdaGrad": (
        DecisionFocusedRegressor(Subset(2, 2), "spo_plus"), (FLAT, values_of(FLAT)), (FLAT_VAL, values_of(FLAT_VAL))
    ),
}  # fmt: skip


@pytest.fixture(params=CASES)
def case(request):
    model, (X, y), (X_val, y_val) = CASES[request.param]
    return clone(model).set_params(random_state=0, n_iter_no_change=3), X, y, X_val, y_val


def weights(model):
    return model.coefs_[0] if isinstance(model, MultilabelLPSparseMAP) else model.coef_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_all_samples_are_learned_from_and_the_best_model_is_kept(case):
    model, X, y, X_val, y_val = case
    found = [clone(model).set_params(early_stopping=on).fit(X, y, X_val=X_val, y_val=y_val) for on in (False, True)]
    assert np.array_equal(weights(found[0]), weights(found[1]))
    first = found[0]
    best = int(np.argmax(first.validation_scores_))
    assert len(first.validation_scores_) == first.n_iter_ == len(first.loss_curve_)
    # Training stopped after three steps without a higher score, or had converged.
    assert first.n_iter_ - 1 - best <= 3 or isinstance(model, MultilabelLPSparseMAP)
    if not isinstance(model, MultilabelLPSparseMAP):
        assert first.score(X_val, y_val) == pytest.approx(max(first.validation_scores_))
    # The model is that of as many steps without validation samples.
    if isinstance(model, StructuredSparseMAPClassifier):
        plain = clone(model).set_params(max_iter=best + 1, tol=0.0).fit(X, y)
        assert np.array_equal(weights(plain), weights(first))
    # Other samples stop training elsewhere; a split holds samples out.
    held = clone(model).set_params(early_stopping=0.4).fit(X, y)
    assert not np.array_equal(weights(held), weights(first))


def test_messages_name_the_fault(case):
    model, X, y, X_val, y_val = case
    with pytest.raises(ValueError, match="X_val is given, but y_val is not; pass both, or neither"):
        model.fit(X, y, X_val=X_val)
    with pytest.raises(ValueError, match="y_val is given, but X_val is not"):
        model.fit(X, y, y_val=y_val)
    with pytest.raises(
        ValueError, match=r"early_stopping=0.2 holds out a fraction of the samples, but X_val and y_val"
    ):
        clone(model).set_params(early_stopping=0.2).fit(X, y, X_val=X_val, y_val=y_val)
    with pytest.raises(ValueError, match=r"X_val and y_val: .*(inconsistent|has 40 samples|different number)"):
        model.fit(X, y, X_val=X_val, y_val=y_val[:-1])
    narrow = [x[:, 1:] for x in X_val] if isinstance(X_val, list) else X_val[:, 1:]
    with pytest.raises(ValueError, match=r"X_val and y_val: X.* has \d features"):
        model.fit(X, y, X_val=narrow, y_val=y_val)
    assert not hasattr(model, "n_iter_") and not hasattr(model, "coef_")


def test_label_sets_calibrate_and_tune_on_validation_samples():
    _, (X, Y), (X_val, Y_val) = CASES["sets"]
    model = MultilabelLPSparseMAP(threshold="auto", decision="expected_f1", max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y, X_val=X_val, y_val=Y_val)
        more = clone(model).fit(X, Y, X_val=sparse.csr_array(X_val), y_val=np.where(Y_val[:, [0]] > 5, np.nan, Y_val))
    assert model.predict_proba(X_val).mean() == pytest.approx(Y_val.mean(), abs=0.05)
    np.testing.assert_allclose(more.coefs_[0], model.coefs_[0])
    with pytest.raises(ValueError, match=r"solver='lbfgs' .* cannot be used with X_val"):
        MultilabelLPSparseMAP(solver="lbfgs").fit(X, Y, X_val=X_val, y_val=Y_val)


def test_warm_starts_unknown_labels_and_weights_go_along():
    (X, y), (X_val, y_val) = CHAINS, CHAINS_VAL
    model = StructuredSparseMAPClassifier("chain", "crf", warm_start=True, random_state=0)
    model.fit(X, y, X_val=X_val, y_val=y_val)
    first = model.validation_scores_
    model.fit(X, y, np.linspace(0.5, 1.5, len(X)), X_val=X_val, y_val=y_val)
    assert model.validation_scores_[0] >= first[0]
    # Labels that do not occur in training are never predicted; None does not count.
    odd = [labels.tolist() for labels in y_val]
    odd[0][0] = "new"
    odd[1] = [None] * len(odd[1])
    model.set_params(warm_start=False).fit(X, y, X_val=[*X_val, X_val[0][:0]], y_val=[*odd, []])
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert max(model.validation_scores_) == pytest.approx(model.score(X_val, odd))
    assert clone(model).fit(X, y, X_val=X_val[:1], y_val=[["new"] * len(X_val[0])]).validation_scores_[0] == 0.0


def test_functions_of_samples_have_structures_for_validation_samples():
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(size=(30, 3)), rng.normal(size=(20, 3))
    X[:, 0], X_val[:, 0] = rng.integers(1, 4, 30), rng.integers(1, 4, 20)
    V, V_val = (np.abs(each @ rng.normal(size=(3, 5))) for each in (X, X_val))
    model = DecisionFocusedRegressor(lambda x: Subset(0, int(x[0])), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, V, X_val=X_val, y_val=V_val)
    own = [Subset(0, int(x[0])) for x in X_val]
    assert max(model.validation_scores_) == pytest.approx(-normalized_regret(V_val, model.predict(X_val), own))
    with pytest.raises(ValueError, match=r"X_val and y_val: the shapes are \(20, 3\) and \(20, 4\)"):
        model.fit(X, V, X_val=X_val, y_val=V_val[:, :4])


def test_pipelines_transform_validation_samples():
    _, (X, y), (X_val, y_val) = CASES["labels"]
    classifier = StructuredSparseMAPClassifier(solver="adagrad", random_state=0)
    scaler = StandardScaler().fit(X)
    expected = clone(classifier).fit(scaler.transform(X), y, X_val=scaler.transform(X_val), y_val=y_val)
    with sklearn.config_context(enable_metadata_routing=True):
        last = clone(classifier).set_fit_request(X_val=True, y_val=True)
        model = Pipeline([("scale", StandardScaler()), ("model", last)], transform_input=["X_val"])
        model.fit(X, y, X_val=X_val, y_val=y_val)
    np.testing.assert_allclose(model[-1].coef_, expected.coef_)
