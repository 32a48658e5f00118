"""HierarchyDisplay: what it draws of a tree of labels."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("Agg")
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.plotting import HierarchyDisplay


def test_likely_labels_and_their_ancestors_are_drawn():
    edges = [("dog", "animal"), ("cat", "animal"), ("poodle", "dog"), ("rose", "plant"), ("dog", "pet")]
    hierarchy = Hierarchy.from_edges(edges)
    given = {"animal": 0.9, "pet": 0.6, "dog": 0.6, "cat": 0.2, "poodle": 0.01, "plant": 0.04, "rose": 0.03}
    display = HierarchyDisplay(hierarchy, [given[name] for name in hierarchy.labels]).plot()
    names = [display.labels[j] for j in display.shown_labels_]
    assert names == ["animal", "dog", "cat", "pet"] and len(display.lines_) == 3
    assert [text.get_text() for text in display.texts_] == ["animal  0.90", "dog  0.60", "cat  0.20", "pet  0.60"]
    assert [display.labels[j] for j in display.plot(min_probability=0.0).shown_labels_][-2:] == ["plant", "rose"]
    assert len(display.plot(max_labels=1).shown_labels_) == 1
    assert len(display.plot(min_probability=1.0).shown_labels_) == 0


def test_the_labels_of_a_sample_are_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    hierarchy = Hierarchy.from_edges([("dog", "animal"), ("cat", "animal"), ("rose", "plant")])
    Y = hierarchy.binarize([[n for n, on in zip(("dog", "cat", "rose"), row > 0.3) if on] for row in X])
    model = make_pipeline(StandardScaler(), MultilabelLPSparseMAP(constraints=[hierarchy])).fit(X, Y)
    display = HierarchyDisplay.from_estimator(model, X[:1])
    np.testing.assert_array_equal(display.probabilities, model.predict_proba(X[:1])[0])
    np.testing.assert_array_equal(display.predicted, model.predict(X[:1])[0] > 0)
    np.testing.assert_array_equal(HierarchyDisplay.from_estimator(model, X[0]).probabilities, display.probabilities)
    with pytest.raises(ValueError, match="x is a sequence of samples, 100 in all"):
        HierarchyDisplay.from_estimator(model, X)
    with pytest.raises(ValueError, match="no Hierarchy among its constraints"):
        HierarchyDisplay.from_estimator(MultilabelLPSparseMAP().fit(X, Y), X[:1])


@pytest.mark.parametrize(
    "hierarchy, probabilities, predicted, message",
    [
        (Hierarchy([None, 0]), [0.5], None, "probabilities have shape .1,.; there are 2 labels"),
        (Hierarchy([None, 0]), [0.5, 1.5], None, "must be from 0 to 1"),
        (Hierarchy([None, 0]), [0.5, 0.5], [1], "predicted has shape .1,."),
        (Hierarchy({"a": "b"}), [0.5, 0.5], None, "the hierarchy is a dict"),
    ],
)
def test_wrong_hierarchies_are_refused(hierarchy, probabilities, predicted, message):
    with pytest.raises(ValueError, match=message):
        HierarchyDisplay(hierarchy, probabilities, predicted)
