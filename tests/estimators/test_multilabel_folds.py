"""Folds of label sets: equal rows are spread over them, and small changes of the input change the model a little."""

import numpy as np
import pytest
from internals import _fit_curves, _softmax_slope, folds_of, minimum_of_curve, order_of_samples
from naive_multilabel import naive_curve
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.score_models import Network


def fold_numbers(X, Y, n_folds=3, known=None):
    order, found = order_of_samples(X, sparse.csr_array(Y, dtype=float), known), np.empty(len(Y), int)
    for number, (_, held) in enumerate(folds_of(np.arange(len(Y)), n_folds)):
        found[order[held]] = number
    return found


def draw(seed=0, n=900):
    X, Y = make_multilabel_classification(n, 20, n_classes=6, n_labels=2, random_state=seed)
    return X + np.random.default_rng(seed).normal(size=X.shape), Y


def test_the_last_digits_do_not_redraw_the_folds():
    X, Y = draw()
    folds, order = fold_numbers(X, Y), np.random.default_rng(0).permutation(len(Y))
    assert_array_equal(fold_numbers(X[order], Y[order]), folds[order])
    assert_array_equal(fold_numbers(sparse.csr_array(X), Y), folds)
    assert_array_equal(fold_numbers(X * (1.0 + 1e-15), Y), folds)
    assert (fold_numbers(X.astype(np.float32), Y) == folds).mean() > 0.99
    scaled = StandardScaler().fit_transform(X)
    assert_array_equal(fold_numbers(StandardScaler().fit_transform(X[order]), Y[order]), fold_numbers(scaled, Y)[order])
    # Rounding that depends on the place of a row, such as that of matrix products, does not part equal rows.
    which = np.repeat(np.arange(40), 9)
    noise = 1.0 + 1e-15 * np.random.default_rng(1).normal(size=(360, X.shape[1]))
    first, second = (
        np.concatenate([which[:, None], Y[:360], fold_numbers(rows, Y[:360])[:, None]], axis=1)
        for rows in (X[which], X[which] * noise)
    )
    assert_array_equal(*(each[np.lexsort(each.T)] for each in (first, second)))


@pytest.mark.parametrize("n_copies", [3, 30])
def test_equal_rows_are_spread_over_the_folds(n_copies):
    rng = np.random.default_rng(0)
    which = rng.permutation(np.repeat(np.arange(100), n_copies))
    X, Y = rng.normal(size=(100, 4))[which], (rng.random((len(which), 2)) < 0.3).astype(int)
    folds = fold_numbers(X, Y)
    assert_array_equal(np.unique(np.stack([which, folds]), axis=1, return_counts=True)[1], n_copies // 3)
    # The labels of equal rows do not determine the fold.
    means = np.array([Y[folds == k].mean(axis=0) for k in range(3)])
    assert np.ptp(means, axis=0).max() < 0.15
    known = rng.random(Y.shape) < 0.5
    assert np.ptp([known[fold_numbers(X, Y, known=known) == k].mean() for k in range(3)]) < 0.15


@pytest.mark.parametrize("loss", ["sparsemap", "logistic"])
def test_small_changes_of_the_input_change_probabilities_a_little(loss):
    for seed, score_model in enumerate(("auto", "linear", "linear")):
        X, Y = draw(seed, 150)
        order = np.random.default_rng(0).permutation(len(Y))
        for scaler in (StandardScaler(), MinMaxScaler()):
            model = make_pipeline(scaler, MultilabelLPSparseMAP(loss=loss, score_model=score_model))
            wanted = model.fit(X, Y).predict_proba(X)
            assert np.abs(model.fit(X[order], Y[order]).predict_proba(X) - wanted).max() < 1e-4
            assert np.abs(model.fit(X * (1.0 + 1e-15), Y).predict_proba(X) - wanted).max() < 1e-4
            short = X.astype(np.float32)
            assert np.abs(model.fit(short, Y).predict_proba(short) - wanted).max() < 1e-3


@pytest.mark.parametrize("loss", ["sparsemap", "logistic"])
def test_a_table_is_learned(loss):
    X = np.repeat(np.eye(12), 30, axis=0)
    Y = X.astype(int)
    for threshold in (0.5, "auto"):
        model = MultilabelLPSparseMAP(loss=loss, threshold=threshold).fit(X, Y)
        probabilities = model.predict_proba(X)
        assert probabilities[Y > 0].min() > 0.95 and probabilities[Y == 0].max() < 0.05
        for decision in ("auto", "observed_sets", "expected_f1", "threshold", "map"):
            assert_array_equal(model.set_params(decision=decision).predict(X), Y)


def test_categories_are_learned_as_well_as_by_one_vs_rest():
    scores = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = np.eye(3)[rng.integers(3, size=(2500, 4))].reshape(-1, 12)
        flips = rng.random((2500, 6)) < 0.1
        Y = ((X @ rng.normal(size=(12, 6)) > 0.0) ^ flips).astype(int)
        for model in (MultilabelLPSparseMAP(), OneVsRestClassifier(LogisticRegression())):
            model.fit(X[:1000], Y[:1000])
            P = np.where(Y[1000:] > 0, model.predict_proba(X[1000:]), 1.0 - model.predict_proba(X[1000:]))
            scores.append(np.log(P).mean())
    ours, theirs = np.mean(np.reshape(scores, (4, 2)), axis=0)
    assert ours > theirs - 0.002


def test_nearly_equal_losses_give_nearly_equal_strengths():
    for losses, place in (([5.0, 4.0, 4.0, 5.0], 1.5), ([4.0, 4.0, 5.0], 0.5), ([5.0, 4.0, 4.0], 1.5)):
        assert minimum_of_curve(losses) == pytest.approx(place)
        for k in range(len(losses)):
            for change in (-1e-6, 1e-6):
                changed = np.array(losses)
                changed[k] += change
                assert minimum_of_curve(changed) == pytest.approx(place, abs=1e-5)
    curves = [1.0], [2.0, 1.0], [1.0, 3.0, 3.5], [3.0, 2.0, 1.0]
    assert [minimum_of_curve(losses) for losses in curves] == [0, 1, 0, 2]
    # A loss that falls steadily has its minimum at the end.
    assert minimum_of_curve([9.0, 4.0, 1.0]) == 2.0
    assert minimum_of_curve([1.0, 4.0, 9.0]) == 0.0
    # The vertex of a parabola.
    assert minimum_of_curve([(k - 2.3) ** 2 for k in range(5)]) == pytest.approx(2.3)


def test_curves_reach_their_minimum_if_scores_contradict_the_prior():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(size=(100, 3)), 20.0 * rng.normal(size=(100, 3))], axis=1)
    gold = (rng.random(scores.shape) < [0.1, 0.5, 0.9] * 2).astype(float)
    gold[:, [1, 4]] = scores[:, [1, 4]] < 0.0
    gold[:, 5] = scores[:, 5] > 30.0
    weights = np.exp(rng.normal(scale=2.0, size=scores.shape))
    for prior in ((np.log(4.0), -2.0), (3.0, 20.0), (-3.0, -20.0)):
        own = tuple(np.array([value]) for value in prior)
        steepness, offsets = _fit_curves(scores, weights * gold, weights, own)
        for j in range(6):
            objective, wanted = naive_curve(scores[:, j], gold[:, j], weights[:, j], np.array(prior))
            assert objective([steepness[j], offsets[j]]) <= objective(wanted) * (1.0 + 1e-8) + 1e-8


def test_a_temperature_reaches_its_minimum_if_scores_contradict_the_labels():
    rng = np.random.default_rng(0)
    scores, gold = 30.0 * rng.normal(size=(200, 4)), np.eye(4)[rng.integers(4, size=200)]
    own = (scores * gold).sum(axis=1)

    def objective(slope):
        return np.logaddexp.reduce(slope * scores, axis=1).sum() - slope * own.sum() + 0.5 * np.log(slope) ** 2

    grid = np.exp(np.linspace(-12.0, 3.0, 3001))
    assert objective(_softmax_slope(scores, gold, np.ones((200, 1)))) <= min(map(objective, grid)) + 1e-9


@pytest.mark.parametrize(
    "params", [{"score_model": Network((10,))}, {"label_graph": "full"}, {"threshold": "auto", "loss": "hinge"}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_order_does_not_matter_to_networks(params):
    X, Y = draw(0, 300)
    order = np.random.default_rng(0).permutation(300)
    model = make_pipeline(StandardScaler(), MultilabelLPSparseMAP(random_state=0, max_iter=5, **params))
    wanted = model.fit(X, Y).predict_proba(X)
    assert np.abs(model.fit(X[order], Y[order]).predict_proba(X) - wanted).max() < 1e-6
    assert np.abs(model.fit(X.astype(np.float32), Y).predict_proba(X) - wanted).max() < 1e-3
