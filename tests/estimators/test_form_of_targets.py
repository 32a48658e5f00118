"""`predict` returns the form in which `fit` got the targets; one row of several as a target."""

import io

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, cross_val_score

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    RaggedArray,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    sparsemap,
)
from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Ranking, Simplex, Subset

RNG = np.random.default_rng(0)
CHAINS = RNG.normal(size=(6, 3, 2))


def schedule():
    graph = FactorGraph()
    shifts = graph.variables((2, 3), name="shifts")
    for row in shifts:
        graph.add(Xor(row))
    return graph


# Structure, features of six samples, and targets in one array.
CASES = {
    "labels of str": (LinearChain(), CHAINS, np.where(CHAINS[..., 0] > 0, "high", "low")),
    "labels of int": (LinearChain(), CHAINS, np.where(CHAINS[..., 0] > 0, 7, 3)),
    "labels of objects": (LinearChain(), CHAINS, np.where(CHAINS[..., 0] > 0, 7, 3).astype(object)),
    "trees": (DependencyTree(), RNG.normal(size=(6, 4, 3, 2)), np.tile([0, 1, 2], (6, 1))),
    "matchings": (Matching(), RNG.normal(size=(6, 2, 3, 2)), np.tile([0, 2], (6, 1))),
    "rankings": (Ranking(), CHAINS, np.tile([2, 0, 1], (6, 1))),
    "subsets": (Subset(1, 2), CHAINS, np.tile([False, True, False], (6, 1))),
    "subsets of 0 and 1": (Subset(1, 2), CHAINS, np.tile([0, 1, 0], (6, 1))),
    "schedules": (schedule(), RNG.normal(size=(6, 2, 3, 2)), np.tile(np.eye(2, 3, dtype=int), (6, 1, 1))),
    "one row": (Simplex(), CHAINS, np.array([0, 1, 1, 2, 0, 1])),
}


@pytest.mark.parametrize("case", CASES)
def test_targets_in_one_array_are_predicted_in_one_array(case):
    structure, X, y = CASES[case]
    model = StructuredSparseMAPClassifier(structure, loss="perceptron", random_state=0).fit(X, y)
    for samples in (X, X[:1], list(X)):
        found = model.predict(samples)
        assert found.shape == (len(samples), *y.shape[1:])
        kinds = {found.dtype.kind, y.dtype.kind}
        assert len(kinds) == 1 or kinds in ({"b", "i"}, {"i", "O"})
    from_list = StructuredSparseMAPClassifier(structure, loss="perceptron", random_state=0).fit(X, list(y)).predict(X)
    # Indices of rows are numbers, of which a list is as good as an array.
    assert from_list.shape == (len(X),)
    assert (from_list.dtype == object) == (case != "one row")
    for own, other in zip(model.predict(X), from_list, strict=True):
        np.testing.assert_array_equal(own, other)


def test_predictions_of_different_shapes_are_objects():
    X, y = CASES["labels of str"][1:]
    model = StructuredSparseMAPClassifier("chain", loss="perceptron", random_state=0).fit(X, y)
    found = model.predict([X[0], X[1][:2]])
    assert found.dtype == object and [own.shape for own in found] == [(3,), (2,)]
    assert model.predict([X[0][:2], X[1][:2]]).shape == (2, 2)


@pytest.mark.parametrize("kind", [GroupLassoPerceptron, StructuredGroupLasso])
def test_other_estimators_and_files_keep_the_form(kind):
    X, y = CASES["labels of int"][1:]
    model = kind("chain", max_iter=2) if kind is GroupLassoPerceptron else kind("chain", alpha=0.1)
    model.fit(X, y)
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    restored = kind.from_arrays(np.load(file))
    assert model.predict(X).shape == restored.predict(X).shape == y.shape


def candidates(n_samples=60, seed=1):
    """Questions with two to six candidates each, of which the best one under hidden weights is chosen."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(2, 7), 3)) for _ in range(n_samples)]
    return X, [int(np.argmax(x @ [2.0, -1.0, 0.5])) for x in X]


@pytest.mark.parametrize("loss", ["sparsemap", "crf", "hinge"])
def test_simplex_chooses_one_row_of_each_sample(loss):
    X, y = candidates()
    model = StructuredSparseMAPClassifier(Simplex(), loss=loss).fit(X[:40], y[:40])
    found = model.predict(X[40:])
    assert found.dtype.kind == "i" and found.shape == (20,)
    few = model.predict(X[40:43])
    assert few.dtype.kind == "i" and few.tolist() == found[:3].tolist()
    assert model.score(X[40:], y[40:]) == np.mean(found == y[40:]) > 0.8
    for x, own, marginals in zip(X[40:], found, model.predict_marginals(X[40:]), strict=True):
        scores = x @ model.coef_[0] + model.intercept_[0]
        assert own == np.argmax(scores)
        if loss != "crf":
            np.testing.assert_allclose(marginals, sparsemap(Simplex(), scores).marginals, atol=1e-9)
        else:
            np.testing.assert_allclose(marginals, np.exp(scores) / np.exp(scores).sum(), atol=1e-9)
    assert model.predict_n_best(X[40:41], 2)[0][0][0] == found[0]
    allowed = [{1}, None, 0, [0, 1]]
    chosen = model.predict(X[40:44], known=allowed)
    assert chosen[0] == 1 and chosen[1] == found[1] and chosen[2] == 0 and chosen[3] in (0, 1)
    with pytest.raises(ValueError, match=r"known\[0\]: the rows that may be chosen are ints from 0 to"):
        model.predict(X[40:41], known=[{99}])


def test_a_choice_learns_from_all_forms_of_samples():
    X, y = candidates()
    expected = StructuredSparseMAPClassifier(Simplex()).fit(X, y).predict(X)
    ragged = RaggedArray(np.concatenate(X), np.cumsum([0, *map(len, X)]))
    for samples in (ragged, [x.tolist() for x in X], [sparse.csr_array(x) for x in X], tuple(X)):
        model = StructuredSparseMAPClassifier(Simplex()).fit(samples, np.array(y))
        np.testing.assert_array_equal(model.predict(samples), expected)
    stream = StructuredSparseMAPClassifier(Simplex())
    stream.partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    restored = StructuredSparseMAPClassifier.from_arrays(stream.to_arrays())
    np.testing.assert_array_equal(restored.predict(X), stream.predict(X))
    scores = cross_val_score(StructuredSparseMAPClassifier(Simplex()), X, y, cv=KFold(3))
    assert scores.min() > 0.8
    # With one row for each sample, it is the structure of "auto".
    flat = StructuredSparseMAPClassifier(Simplex()).fit(np.eye(4), list("abab"))
    assert flat.predict(np.eye(4)).tolist() == list("abab")


def test_choices_keep_their_structure_without_samples():
    X, y = candidates(30)
    model = GroupLassoPerceptron(Simplex(), random_state=0).partial_fit(X, y).finalize()
    assert not hasattr(model, "predict_proba") and model.score(X, y) > 0.8
    series = pytest.importorskip("pandas").Series(X)
    found = StructuredSparseMAPClassifier(Simplex()).fit(series, y).predict(series)
    assert found.tolist() == StructuredSparseMAPClassifier(Simplex()).fit(X, y).predict(X).tolist()


def test_the_form_is_that_of_the_fit():
    X = [np.eye(2)[[0, 1, 0]]] * 4
    y = np.array([[0, 1, 0]] * 4)
    model = StructuredSparseMAPClassifier("chain").fit(X, y).partial_fit(X, list(y))
    assert model.predict(X).shape == (4, 3)


def test_wrong_choices_are_named():
    X, y = candidates(6)
    model = StructuredSparseMAPClassifier(Simplex())
    with pytest.raises(ValueError, match=r"y\[1\]: a choice is an int from 0 to"):
        model.fit(X, [0, 17, *y[2:]])
    with pytest.raises(ValueError, match=r"y\[0\]: a choice is an int from 0 to"):
        model.fit(X, [np.eye(len(x))[0] for x in X])
    for samples in (X, np.zeros((6, 2, 3)), RaggedArray(np.concatenate(X), np.cumsum([0, *map(len, X)]))):
        with pytest.raises(ValueError, match=r"several; name a structure.*Simplex\(\) to choose one row"):
            StructuredSparseMAPClassifier().fit(samples, y)
    with pytest.raises(ValueError, match=r"structure='simplex' is not.*Simplex\(\)"):
        StructuredSparseMAPClassifier("simplex").fit(X, y)
    with pytest.raises(ValueError, match=r"y\[0\]: a subset is . bools.*for the index of the only one, use Simplex"):
        StructuredSparseMAPClassifier(Subset(1, 1)).fit(X, y)
