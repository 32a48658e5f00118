"""StructuredPipeline hands through what its last step can do."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from test_structured import make_chains

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import OnRows, TemplateVectorizer
from sklearn_sparsemap.pipeline import StructuredPipeline, make_structured_pipeline

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
    with pytest.raises(AttributeError, match="partial_fit"):
        fresh.partial_fit(WORDS, TAGS, classes=["D", "N", "V"])
    fitted = fresh.fit(WORDS, TAGS)
    before = fitted[0].get_feature_names_out().tolist()
    assert fitted.partial_fit(WORDS, TAGS)[0].get_feature_names_out().tolist() == before
    X, y = make_chains()
    scaled = make_structured_pipeline(OnRows(StandardScaler()), StructuredSparseMAPClassifier("chain"))
    for part in (slice(20), slice(20, 40)):
        scaled.partial_fit(X[part], y[part], classes=["x", "y", "z"])
    assert np.allclose(scaled[0].transform(X).values, OnRows(StandardScaler()).fit_transform(X).values)
