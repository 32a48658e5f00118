"""StructuredPipeline hands through what its last step can do."""

import pickle

import numpy as np
import pytest
from samples import make_chains
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import DictVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import StructuredGroupLasso, StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.features import (
    ArcVectorizer,
    OnRows,
    RowUnion,
    TemplateVectorizer,
    TokenDictVectorizer,
    WordClusters,
    WordVectors,
)
from sklearn_sparsemap.pipeline import StructuredPipeline, make_structured_pipeline

pd = pytest.importorskip("pandas")
WORDS = [["the", "dog", "barks"], ["a", "cat"], ["a", "dog"], ["the", "cat", "barks"]] * 3
TAGS = [["D", "N", "V"], ["D", "N"], ["D", "N"], ["D", "N", "V"]] * 3


def tagger(**parameters):
    return make_structured_pipeline(
        TemplateVectorizer(["word[0]"], **parameters), StructuredSparseMAPClassifier("chain", max_iter=20, tol=1e-2)
    )


def test_methods_of_the_model_are_at_hand():
    pipeline = tagger().fit(WORDS, TAGS)
    features, model = pipeline[0].transform(WORDS), pipeline[-1]
    for name in ("predict_structures", "predict_marginals"):
        for a, b in zip(getattr(pipeline, name)(WORDS), getattr(model, name)(features), strict=True):
            assert all(np.array_equal(p, q) if name == "predict_marginals" else p[1] == q[1] for p, q in zip(a, b))
    loaded = pickle.loads(pickle.dumps(pipeline))
    assert all(np.array_equal(a, b) for a, b in zip(loaded.predict(WORDS), pipeline.predict(WORDS)))
    assert pipeline.score(WORDS, TAGS) == 1.0
    search = GridSearchCV(clone(pipeline), {"structuredsparsemapclassifier__alpha": [1e-3, 1e-1]}, cv=2)
    best = search.fit(WORDS, TAGS).best_estimator_
    assert isinstance(best, StructuredPipeline) and len(best.predict_structures(WORDS)) == len(WORDS)
    flat = make_structured_pipeline(StandardScaler(), StructuredSparseMAPClassifier(tol=1e-2))
    assert hasattr(pipeline, "predict_proba") and hasattr(flat, "predict_proba")
    assert flat.fit(np.eye(4), [0, 1, 0, 1]).predict_proba(np.eye(4)).shape == (4, 2)
    with pytest.raises(AttributeError, match="predict_structures"):
        make_structured_pipeline(StandardScaler()).predict_structures  # noqa: B018


def test_partial_fit_needs_steps_without_a_fit():
    pipeline = tagger(n_features=64)
    for _ in range(10):
        pipeline.partial_fit(WORDS, TAGS, classes=["D", "N", "V"])
    assert pipeline.score(WORDS, TAGS) == 1.0
    fresh = tagger()
    assert not hasattr(fresh, "partial_fit")
    message = r"partial_fit needs .* the step 'templatevectorizer' \(TemplateVectorizer\) .*: set n_features"
    with pytest.raises(AttributeError, match=message):
        fresh.partial_fit(WORDS, TAGS, classes=["D", "N", "V"])
    for cannot in (LogisticRegression(), StructuredGroupLasso("chain")):
        other = make_structured_pipeline(tagger(n_features=64)[0], cannot)
        with pytest.raises(AttributeError, match=f"'{type(cannot).__name__}' object has no attribute 'partial_fit'"):
            other.partial_fit(WORDS, TAGS)
    with pytest.raises(AttributeError, match="'LogisticRegression' object has no attribute 'predict_structures'"):
        make_structured_pipeline(tagger()[0], LogisticRegression()).predict_structures(WORDS)
    fitted = fresh.fit(WORDS, TAGS)
    before = fitted[0].get_feature_names_out().tolist()
    assert fitted.partial_fit(WORDS, TAGS)[0].get_feature_names_out().tolist() == before
    X, y = make_chains()
    scaled = make_structured_pipeline(OnRows(StandardScaler()), StructuredSparseMAPClassifier("chain"))
    for part in (slice(20), slice(20, 40)):
        scaled.partial_fit(X[part], y[part], classes=["x", "y", "z"])
    assert np.allclose(scaled[0].transform(X).values, OnRows(StandardScaler()).fit_transform(X).values)


VECTORIZERS = {
    "templates": TemplateVectorizer(["word[0]"]),
    "hashed templates": TemplateVectorizer(["word[0]"], n_features=16, dtype=np.float32),
    "dicts": TokenDictVectorizer(),
    "hashed dicts": TokenDictVectorizer(n_features=16),
    "rows": OnRows(DictVectorizer(sparse=False)),
    "vectors": WordVectors({"the": [1.0, 0.0], "dog": [0.5, 1.0]}, dtype=np.float32),
    "clusters": WordClusters({"the": [1.0, 0.0], "dog": [0.5, 1.0]}, 2, 1),
    "union": RowUnion([("dicts", TokenDictVectorizer()), ("rows", OnRows(DictVectorizer()))]),
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_sentences_without_tokens_are_predicted_alone(name):
    X = [[{"word": word} for word in words] for words in WORDS]
    chain = StructuredSparseMAPClassifier("chain", "crf", max_iter=20, tol=1e-2)
    model = make_structured_pipeline(clone(VECTORIZERS[name]), chain).fit(X, TAGS)
    together = {
        "predict": None,
        "predict_structures": None,
        "predict_n_best": 2,
        "predict_marginals": None,
        "sample": 1,
    }
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, TAGS)
    for n in (1, 2):
        empty = [[]] * n
        rows = model[0].transform(empty)
        assert rows.values.shape == (0, model[0].transform(X).values.shape[1]) and rows.lengths.tolist() == [0] * n
        assert rows.values.dtype == model[0].transform(X).values.dtype
        for method, argument in together.items():
            given = () if argument is None else (argument,)
            alone = getattr(model, method)(empty, *given)
            # As beside another sentence.
            beside = getattr(model, method)([*empty, X[0]], *given)
            assert len(alone) == n and len(beside) == n + 1
            assert all(repr(one) == repr(other) for one, other in zip(alone, beside, strict=False))
        assert [found.tolist() for found in model.predict(empty)] == [[]] * n
        with pytest.raises(ValueError, match="no sample has a step, so there is nothing to score"):
            model.score(empty, empty)
        assert model.score([*empty, *X], [*empty, *TAGS]) == model.score(X, TAGS)
        assert model.log_likelihood(empty, empty).tolist() == [0.0] * n
        assert [[(s.tolist(), value) for s, value in own] for own in sets.predict_set(empty)] == [[([], 0.0)]] * n
        assert sets.covers(empty, empty).tolist() == [True] * n
        assert sets.nonconformity([*empty, X[0]], [*empty, TAGS[0]]).tolist() == [
            *[0.0] * n, *sets.nonconformity(X[:1], TAGS[:1])
        ]  # fmt: skip
        assert repr(sets.predict_set([*empty, X[0]])[n:]) == repr(sets.predict_set(X[:1]))
    with pytest.raises(ValueError, match=r"X\[0\] has 0 steps, but y\[0\] has 1 labels"):
        sets.covers([[]], [["D"]])
    with pytest.raises(ValueError, match=r"X\[0\] has 0 steps, but y\[0\] has 1 labels"):
        model.score([[]], [["D"]])
    with pytest.raises(ValueError):
        clone(model).fit([[], []], [[], []])


def test_conformal_sets_leave_out_empty_sentences():
    model = tagger().fit(WORDS, TAGS)
    wanted = ConformalStructures(model, 0.5).conformalize(WORDS, TAGS)
    conformal = ConformalStructures(model, 0.5, risk="parts")
    with pytest.warns(UserWarning, match="samples without steps are left out: 2 of 14"):
        found = conformal.conformalize([[], *WORDS, []], [[], *TAGS, []])
    assert found.nonconformity_.tolist() == wanted.nonconformity_.tolist()
    assert len(found.groups_) == len(found.part_nonconformity_) == len(WORDS)
    assert found.missed([[], WORDS[0]], [[], TAGS[0]])[0] == 0.0
    n_classes = len(model[-1].classes_)
    assert [own.shape for own in found.predict_set([[], WORDS[0]])] == [(0, n_classes), (len(WORDS[0]), n_classes)]


def test_frozen_steps_of_a_stream_learn_nothing():
    X, y = make_chains()
    scaler = OnRows(StandardScaler()).fit(X)
    mean = scaler.transformer_.mean_.copy()
    stream = make_structured_pipeline(FrozenEstimator(scaler), StructuredSparseMAPClassifier("chain"))
    stream.partial_fit([x + 9.0 for x in X], y, classes=["x", "y", "z"])
    assert np.array_equal(scaler.transformer_.mean_, mean)
    frozen = StructuredPipeline([("scaler", scaler), ("model", FrozenEstimator(stream[-1]))])
    with pytest.raises(AttributeError, match="no effect on a FrozenEstimator"):
        frozen.partial_fit(X, y)


def test_conformal_targets_are_read_by_position():
    model = tagger().fit(WORDS, TAGS)
    conformal = ConformalStructures(model)
    samples, tags = [[], *WORDS[:4]], [[], *TAGS[:4]]
    series = pd.Series(tags, index=[3, 1, 4, 0, 2])
    assert conformal.nonconformity(samples, series).tolist() == conformal.nonconformity(samples, tags).tolist()


def test_sentences_without_words_have_no_tree():
    sentences, heads = [["a", "b"], ["c", "d"]], [[0, 1], [2, 0]]
    parser = make_structured_pipeline(ArcVectorizer(["distance"]), StructuredSparseMAPClassifier("tree", tol=1e-2))
    with pytest.raises(ValueError, match="no tokens"):
        parser.fit(sentences, heads).predict([[]])


def test_a_pipeline_is_one_file(tmp_path):
    X, y = [["the", "dog"], ["dogs", "bark"]], [["D", "N"], ["N", "V"]]
    model = make_structured_pipeline(
        TemplateVectorizer(["word[0]", "suffix2[0]"]), StructuredSparseMAPClassifier("chain")
    )
    with pytest.raises(NotFittedError):
        model.to_arrays()
    model.fit(X, y)
    np.savez(tmp_path / "model.npz", **model.to_arrays())
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        again = StructuredPipeline.from_arrays(arrays)
    assert [*again.named_steps] == [*model.named_steps]
    for own, found in zip(model.decision_function(X), again.decision_function(X)):
        np.testing.assert_array_equal(own, found)


def test_a_step_without_a_plain_form_is_named():
    X, y = make_chains(5)
    model = make_structured_pipeline(OnRows(StandardScaler()), StructuredSparseMAPClassifier("chain")).fit(X, y)
    with pytest.raises(ValueError, match=r"steps.*StandardScaler.*no plain form"):
        model.to_arrays()
