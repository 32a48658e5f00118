"""Metadata routing of scikit-learn, and its two kinds of sparse arrays."""

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MultiLabelBinarizer

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.features import OnRows, TokenDictVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
CHAINS = [RNG.normal(size=(k, 3)) for k in RNG.integers(2, 5, 24)]
LABELS = [np.where(x[:, 0] + 0.8 * RNG.normal(size=len(x)) > 0.0, "b", "a").tolist() for x in CHAINS]
FLAT = RNG.normal(size=(24, 3))
SETS = (FLAT + 0.5 * RNG.normal(size=FLAT.shape) > 0.0).astype(int)
WEIGHTS = RNG.integers(0, 4, 24).astype(float)

ESTIMATORS = {
    "chain": (StructuredSparseMAPClassifier("chain", alpha=0.1, max_iter=20), CHAINS, LABELS),
    "group_lasso": (StructuredGroupLasso("chain", alpha=0.05, max_iter=20), CHAINS, LABELS),
    "perceptron": (GroupLassoPerceptron("chain", random_state=0), CHAINS, LABELS),
    "sets": (MultilabelLPSparseMAP(max_iter=10, random_state=0), FLAT, SETS),
}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def scores(model, X):
    """Return the scores of all labels of all samples."""
    return np.concatenate([np.ravel(each) for each in model.decision_function(X)])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_pipeline_hands_weights_to_the_estimator_that_requests_them(routing, name):
    model, X, y = ESTIMATORS[name]
    scale = MaxAbsScaler() if name == "sets" else OnRows(MaxAbsScaler())
    with_weights = make_pipeline(scale, clone(model).set_fit_request(sample_weight=True))
    found = with_weights.fit(X, y, sample_weight=WEIGHTS)
    scaled = clone(scale).fit_transform(X)
    alone = clone(model).fit(scaled, y, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(scores(found, X), scores(alone, scaled))
    assert not np.array_equal(scores(found, X), scores(clone(model).fit(scaled, y), scaled))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_weights_that_nobody_requests_are_refused_or_ignored(routing, name):
    model, X, y = ESTIMATORS[name]
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        GridSearchCV(clone(model), {"max_iter": [2]}, cv=2).fit(X, y, sample_weight=WEIGHTS)
    ignoring = clone(model).set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
    found = GridSearchCV(ignoring, {"max_iter": [2]}, cv=2).fit(X, y, sample_weight=WEIGHTS)
    unweighted = clone(model).set_params(max_iter=2).fit(X, y)
    np.testing.assert_array_equal(scores(found.best_estimator_, X), scores(unweighted, X))


@pytest.mark.parametrize("name", ["chain", "sets"])
def test_a_search_splits_weights_with_the_samples(routing, name):
    """The slow twin fits and scores each fold by hand."""
    model, X, y = ESTIMATORS[name]
    model = clone(model).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    pipeline = make_pipeline(MaxAbsScaler(), model) if name == "sets" else make_structured_pipeline(model)
    halves = np.arange(24) < 12
    splits = [(np.flatnonzero(halves), np.flatnonzero(~halves))]
    found = cross_validate(pipeline, X, y, cv=splits, params={"sample_weight": WEIGHTS})
    train, test = splits[0]
    own = [[each[i] for i in rows] if name == "chain" else each[rows] for rows in (train, test) for each in (X, y)]
    alone = clone(pipeline).fit(own[0], own[1], sample_weight=WEIGHTS[train])
    wanted = alone.score(own[2], own[3], sample_weight=WEIGHTS[test])
    assert found["test_score"] == [wanted]
    search = GridSearchCV(pipeline, {f"{pipeline.steps[-1][0]}__max_iter": [model.max_iter]}, cv=splits)
    assert search.fit(X, y, sample_weight=WEIGHTS).cv_results_["mean_test_score"] == [wanted]
    assert wanted != clone(pipeline).fit(own[0], own[1]).score(own[2], own[3])


def test_parameter_mixing_takes_weights_in_score_only(routing):
    X, y = CHAINS, LABELS
    learner = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0)
    mixing = ParameterMixing(learner, n_shards=2, n_rounds=2, random_state=0)
    folds = [(np.arange(12), np.arange(12, 24))]
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        cross_validate(mixing, X, y, cv=folds, params={"sample_weight": WEIGHTS})
    requesting = clone(mixing).set_score_request(sample_weight=True)
    found = cross_validate(requesting, X, y, cv=folds, params={"sample_weight": WEIGHTS}, return_estimator=True)
    (fitted,) = found["estimator"]
    assert found["test_score"] == [fitted.score(X[12:], y[12:], sample_weight=WEIGHTS[12:])]
    assert found["test_score"] != [fitted.score(X[12:], y[12:])]


def test_classes_are_routed_to_partial_fit(routing):
    model = StructuredSparseMAPClassifier("chain").set_partial_fit_request(classes=True, sample_weight=True)
    assert model.get_metadata_routing().partial_fit.requests == {
        "classes": True, "on_new_labels": None, "sample_weight": True
    }  # fmt: skip
    assert clone(model).get_metadata_routing().partial_fit.requests["classes"] is True


# -- Kinds of sparse arrays --------------------------------------------------------------------------------------------

SPARSE_KINDS = {"spmatrix": sparse.spmatrix, "sparray": sparse.sparray}


@pytest.mark.skipif("sparse_interface" not in sklearn.get_config(), reason="needs scikit-learn 1.9")
@pytest.mark.parametrize("kind", SPARSE_KINDS)
def test_both_kinds_of_sparse_arrays_give_equal_models(kind):
    texts = ["a dog barks", "the cat sat", "a cat", "the dog sat"] * 3
    named = [["dog"], ["cat"], ["cat", "any"], ["dog", "any"]] * 3
    sentences = [[{"word": word, "n": len(word)} for word in text.split()] for text in texts]
    tags = [["D" if word in ("a", "the") else "X" for word in text.split()] for text in texts]
    found = {}
    for own in ({}, {"sparse_interface": kind}):
        with sklearn.config_context(**own):
            Y = MultiLabelBinarizer(sparse_output=True).fit_transform(named)
            counts = CountVectorizer().fit_transform(texts)
            if own:
                assert isinstance(counts, SPARSE_KINDS[kind])
            sets = MultilabelLPSparseMAP(max_iter=5, random_state=0).fit(counts, Y)
            chain = make_structured_pipeline(
                TokenDictVectorizer(), OnRows(MaxAbsScaler()), StructuredSparseMAPClassifier("chain", max_iter=5)
            ).fit(sentences, tags)
            found[bool(own)] = sets.predict_proba(counts), np.concatenate(chain.predict_marginals(sentences))
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(one, other)
