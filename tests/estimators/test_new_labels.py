"""Streams in which labels come up later."""

import numpy as np
import pytest
from internals import replace
from samples import make_chains
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.structures import Segmentation

ADD = {"on_new_labels": "add"}


def streams(structure, kind="dense"):
    """Return two batches: the labels of the first are y and z, those of the second x, y and z."""
    X, y = make_chains(60, kind=kind)
    if structure == "auto":
        X = (sparse.vstack if kind == "csr" else np.vstack)(X)
        y = np.concatenate(y)
        first = np.flatnonzero(y != "x")
        return (X[first], y[first]), (X, y)
    first = [i for i, labels in enumerate(y) if "x" not in labels]
    return ([X[i] for i in first], [y[i] for i in first]), (X, y)


def renamed(y, names):
    if isinstance(y, np.ndarray):
        return np.array([names.get(label, label) for label in y.tolist()])
    return [[names.get(label, label) for label in labels.tolist()] for labels in y]


@pytest.mark.parametrize("structure", ["auto", "chain", Segmentation(9)])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("options", [{}, {"average": False}, {"loss": "hinge", "solver": "mira"}, {"loss": "crf"}])
def test_present_weights_stay_and_new_ones_are_zero(structure, kind, options, monkeypatch):
    (X, y), (X_all, y_all) = streams(structure, kind)
    model = StructuredSparseMAPClassifier(structure, **options).partial_fit(X, y, **ADD)
    assert model.classes_.tolist() == ["y", "z"]
    before = clone(model).set_training_state(model.get_training_state())
    with monkeypatch.context() as patch:
        # The labels are added before training.
        replace(patch, "estimators", "partial_fit_minibatch", lambda *args, **options: 0.0)
        model.partial_fit(X, y, classes=["x"], **ADD)
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert not model.coef_[0].any() and model.intercept_[0] == 0.0
    np.testing.assert_allclose(model.coef_[1:], before.coef_, rtol=1e-12)
    n_axes = {"durations": 1, "transitions": 2, "start": 1, "end": 1}
    for name, scores in before.additional_scores_.items():
        own = model.additional_scores_[name]
        np.testing.assert_allclose(own[(..., *[slice(1, None)] * n_axes[name])], scores, rtol=1e-12)
        assert not own[..., 0].any() and (name != "transitions" or not own[0].any())
    # The place of the new label among the others makes no difference.
    last = StructuredSparseMAPClassifier(structure, **options).partial_fit(X, y, **ADD)
    last.partial_fit(X_all, renamed(y_all, {"x": "zz"}), **ADD)
    first = (
        StructuredSparseMAPClassifier(structure, **options).partial_fit(X, y, **ADD).partial_fit(X_all, y_all, **ADD)
    )
    assert last.classes_.tolist() == ["y", "z", "zz"] and first.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(last.coef_, np.roll(first.coef_, -1, axis=0), atol=1e-9)
    np.testing.assert_allclose(last.intercept_, np.roll(first.intercept_, -1), atol=1e-9)
    for _ in range(5):
        first.partial_fit(X_all, y_all, **ADD)
    assert first.score(X_all, y_all) > 0.75
    assert first.get_training_state().n_steps == len(y) + 6 * len(y_all)


def test_after_fit_and_with_constraints():
    (X, y), (X_all, y_all) = streams("chain")
    model = StructuredSparseMAPClassifier("chain", constraints=[("x", "z")]).set_params(constraints=[("z", "y")])
    legal = [i for i, labels in enumerate(y_all) if "zy" not in "".join(labels)]
    own = [i for i, labels in enumerate(y) if "zy" not in "".join(labels)]
    model.fit([X[i] for i in own], [y[i] for i in own])
    coef = model.coef_.copy()
    model.partial_fit([X_all[i] for i in legal], [y_all[i] for i in legal], **ADD)
    assert model.classes_.tolist() == ["x", "y", "z"] and model.coef_.shape == (3, 4)
    assert np.isneginf(model.transitions_).tolist() == [[False] * 3, [False] * 3, [False, True, False]]
    assert coef.shape == (2, 4) and not any("zy" in "".join(labels) for labels in model.predict(X_all))


def test_new_labels_are_refused_unless_asked_for():
    (X, y), (X_all, y_all) = streams("chain")
    model = StructuredSparseMAPClassifier("chain").partial_fit(X, y, classes=["y", "z"])
    before = model.coef_.copy()
    with pytest.raises(ValueError, match="has the label 'x', which is not in classes"):
        model.partial_fit(X_all, y_all)
    with pytest.raises(ValueError, match="on_new_labels='grow' is not one of 'raise', 'add'"):
        model.partial_fit(X_all, y_all, on_new_labels="grow")
    with pytest.raises(ValueError, match="on_new_labels='add' is for structures made of labels"):
        StructuredSparseMAPClassifier("tree").partial_fit([np.zeros((2, 1, 3))], [[0]], **ADD)
    # An error after the labels were added leaves the model as it was.
    with pytest.raises(ValueError, match="X\\[0\\] has 3 features"):
        model.partial_fit([np.zeros((1, 3))], [["x"]], **ADD)
    assert model.classes_.tolist() == ["y", "z"]
    np.testing.assert_array_equal(model.coef_, before)
