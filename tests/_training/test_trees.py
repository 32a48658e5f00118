"""Flat trees against the predictions of scikit-learn's, and models that are damaged."""

import pickle

import numpy as np
import pytest
from internals import RegressorsModel, TreesModel, own_tree, replace, trees_of
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

N_FEATURES = 6


def make_data(n_outputs=3, seed=0, n=300):
    """Return sparse features with many equal values, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)).round(1) * (rng.random((n, N_FEATURES)) < 0.6)
    return X, rng.normal(size=(n, n_outputs)) + X[:, :1]


def fit_trees(kind, X, Y, n_trees=4):
    return [kind(max_depth=5, min_samples_leaf=3, random_state=seed).fit(X, Y) for seed in range(n_trees)]


def model_of(trees, rate=0.1, n_additional=2, n_outputs=3):
    base = np.linspace(-1.0, 1.0, n_outputs)
    parts = [own_tree(tree, rate) for tree in trees]
    return TreesModel.sum_of(parts, base, np.arange(n_additional, dtype=float), N_FEATURES)


def sum_of_predictions(trees, model, X, rate=0.1):
    """Return the base plus the predictions of all trees, as scikit-learn computes them."""
    total = np.array([model.base] * len(X))
    for tree in trees:
        total += rate * tree.predict(X).reshape(total.shape)
    return total


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, ExtraTreeRegressor])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("cells", [None, 40])
def test_scores_are_the_sums_of_predictions_of_scikit_learn(kind, n_outputs, cells, monkeypatch):
    if cells is not None:
        # Blocks of a few rows.
        replace(monkeypatch, "_training", "_CELLS", cells)
    X, Y = make_data(n_outputs)
    trees = fit_trees(kind, X, Y)
    model = model_of(trees, n_outputs=n_outputs)
    assert model.sizes == (N_FEATURES, n_outputs, 2)
    # Values at thresholds, between them, and next to them as float32 and as float64.
    rows = [X, np.nextafter(X.astype(np.float32), np.float32(9.0)), np.nextafter(X, 9.0), -X]
    used = np.concatenate([tree.tree_.threshold[tree.tree_.feature >= 0] for tree in trees])
    rows.append(np.random.default_rng(0).choice(used, X.shape))
    for own in rows:
        wanted = sum_of_predictions(trees, model, own)
        wide = sparse.csr_array(own)
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        for form in (own, np.asfortranarray(own), own.astype(np.float32), sparse.csr_array(own), wide):
            for n_jobs in (1, 2):
                found = model.scores(form, n_jobs)
                assert found.dtype == np.float64
                assert_array_equal(found, wanted)
    assert_array_equal(model.scores(X[:0]), np.zeros((0, n_outputs)))


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_forests_are_the_mean_of_their_trees(kind):
    X, Y = make_data()
    forest = kind(5, max_depth=4, random_state=0).fit(X, Y)
    trees = trees_of(forest)
    model = TreesModel.sum_of([own_tree(tree, 1.0 / len(trees)) for tree in trees], np.zeros(3), np.zeros(0), 6)
    assert_allclose(model.scores(X), forest.predict(X), rtol=0, atol=1e-14)


def test_ensembles_that_are_no_mean_of_trees_are_not_flattened():
    X, Y = make_data()
    for regressor in (GradientBoostingRegressor(n_estimators=2), BaggingRegressor(n_estimators=2), Ridge()):
        assert trees_of(regressor.fit(X, Y[:, 0])) is None


def test_large_features_and_many_columns():
    X, Y = make_data()
    trees = fit_trees(DecisionTreeRegressor, X, Y)
    model = model_of(trees)
    large = np.array([1e300, -1e300, np.finfo(np.float32).max, 0.0, 1.0, -1.0]) * np.ones((2, 1))
    as_limit = np.clip(large, np.finfo(np.float32).min, np.finfo(np.float32).max)
    assert_array_equal(model.scores(large), sum_of_predictions(trees, model, as_limit))
    # Blocks of sparse rows have the columns of nodes only.
    far = 2**31 - 7
    moved = model.copy()
    moved.feature = np.where(model.feature < 0, -1, model.feature + far).astype(np.int32)
    moved.n_features = far + N_FEATURES
    moved.check()
    own = sparse.csr_array(X[:20])
    wide = sparse.csr_array((own.data, own.indices.astype(np.int64) + far, own.indptr), shape=(20, moved.n_features))
    assert_array_equal(moved.scores(wide), model.scores(X[:20]))


def test_a_model_without_trees_has_the_base_as_scores():
    model = TreesModel.sum_of([], np.array([1.0, 2.0]), np.zeros(0), N_FEATURES)
    X, _ = make_data()
    for form in (X, sparse.csr_array(X)):
        assert_array_equal(model.scores(form), np.tile([1.0, 2.0], (len(X), 1)))


def test_sums_of_models():
    X, Y = make_data()
    trees = fit_trees(DecisionTreeRegressor, X, Y)
    model = model_of(trees)
    zeros = np.zeros(3), np.zeros(0), N_FEATURES
    parts = [TreesModel.sum_of([own_tree(tree, 0.1) for tree in pair], *zeros) for pair in (trees[:1], trees[1:])]
    assert_array_equal(TreesModel.sum_of(parts, model.base, model.additional, 6).scores(X), model.scores(X))


def test_regressors_that_are_not_made_of_trees():
    X, Y = make_data()
    regressors = [Ridge().fit(X, Y), KNeighborsRegressor().fit(X, Y)]
    model = RegressorsModel(regressors, [0.5, 2.0], np.ones(3), np.zeros(2), N_FEATURES)
    assert model.sizes == (N_FEATURES, 3, 2)
    wanted = 1.0 + 0.5 * regressors[0].predict(X) + 2.0 * regressors[1].predict(X)
    assert_allclose(model.scores(X), wanted, rtol=1e-14)
    assert_array_equal(model.copy().scores(X), model.scores(X))
    single = RegressorsModel([Ridge().fit(X, Y[:, 0])], [1.0], np.zeros(1), np.zeros(0), N_FEATURES)
    assert single.scores(X).shape == (len(X), 1)


def test_copies_pickles_and_other_additional_scores():
    X, Y = make_data()
    model = model_of(fit_trees(DecisionTreeRegressor, X, Y))
    scores = model.scores(X)
    copy = model.copy()
    copy.values[:] = copy.additional[:] = 0.0
    assert_array_equal(model.scores(X), scores)
    assert_array_equal(pickle.loads(pickle.dumps(model)).scores(X), scores)
    other = model.with_additional(np.ones(2))
    assert_array_equal(other.additional, 1.0)
    assert_array_equal(model.additional, [0.0, 1.0])
    assert_array_equal(other.scores(X), scores)


def damage(state, name, value):
    """Return arguments of a model with another value of one of them."""
    return {**state, name: value(np.copy(state[name])) if callable(value) else value}


def at(place, value):
    """Return a function that assigns an entry of an array, and returns it."""

    def assign(array):
        array[place] = value
        return array

    return assign


DAMAGES = {
    "a child of itself": ("children", at((0, 0), 0)),
    "a child before its parent": ("children", at((1, 1), 0)),
    "a child that does not exist": ("children", at((0, 1), 10**6)),
    "a negative child": ("children", at((0, 0), -1)),
    "a column that does not exist": ("feature", at(0, N_FEATURES)),
    "a negative column": ("feature", at(0, -2)),
    "an inner node that has become a leaf": ("children", lambda a: np.full_like(a, -1)),
    "a root that does not exist": ("roots", at(0, 10**6)),
    "a negative root": ("roots", at(0, -1)),
    "fewer leaves": ("values", lambda a: a[:-1]),
    "no leaf": ("values", lambda a: a[:0]),
    "other outputs": ("values", lambda a: a[:, :2]),
    "values with one axis": ("values", np.ravel),
    "NaN in values": ("values", at((0, 0), np.nan)),
    "NaN in thresholds": ("threshold", at(0, np.nan)),
    "infinite base": ("base", at(0, np.inf)),
    "values of float32": ("values", lambda a: a.astype(np.float32)),
    "fewer thresholds": ("threshold", lambda a: a[:-1]),
    "fewer nodes": ("feature", lambda a: a[:-1]),
    "flat children": ("children", np.ravel),
    "three children": ("children", lambda a: np.hstack([a, a[:, :1]])),
    "columns as floats": ("feature", lambda a: a.astype(float)),
    "columns as int64 that wrap in int32": ("feature", lambda a: np.where(a < 0, a, a.astype(np.int64) + 2**32)),
    "children as unsigned integers": ("children", lambda a: a.astype(np.uint32)),
    "objects": ("feature", lambda a: a.astype(object)),
    "a list": ("feature", [1, 2]),
    "additional scores with two axes": ("additional", lambda a: a[:, None]),
    "features of text": ("n_features", "6"),
    "a negative number of features": ("n_features", -1),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_models_are_refused(name):
    X, Y = make_data()
    state = vars(model_of(fit_trees(DecisionTreeRegressor, X, Y)))
    damaged = damage(state, *DAMAGES[name])
    with pytest.raises(ValueError, match=r"trees|leaves"):
        TreesModel(**damaged)
    model = object.__new__(TreesModel)
    with pytest.raises(ValueError, match=r"trees|leaves"):
        model.__setstate__(damaged)


def test_no_damaged_entry_crashes_the_process():
    X, Y = make_data()
    rng = np.random.default_rng(0)
    state = vars(model_of(fit_trees(DecisionTreeRegressor, X, Y)))
    n_accepted = n_refused = 0
    for _ in range(300):
        name = rng.choice(["feature", "children", "roots"])
        array = state[name].copy()
        array.flat[rng.integers(array.size)] = rng.choice([-2, -1, 0, 1, 5, 6, 30, 60, 10**9])
        try:
            model = TreesModel(**{**state, name: array})
        except ValueError:
            n_refused += 1
            continue
        n_accepted += 1
        assert np.isfinite(model.scores(X)).all()
    assert n_accepted > 30
    assert n_refused > 100
