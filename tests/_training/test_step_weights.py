"""Weights of the steps of label sequences."""

import numpy as np
import pytest
from internals import StructureTask
from naive_step_weights import step_weighted_loss
from samples import make_chains
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import RaggedArray, StructuredGroupLasso, StructuredSparseMAPClassifier
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.structures import LinearChain, Segmentation

LENGTHS, M = [4, 1, 3, 2], 3


def small_task(loss, temperature=1.0, cost=None, seed=0):
    """Return a task with weights of steps, its scores, and the weights of the rows."""
    rng = np.random.default_rng(seed)
    indptr = np.cumsum([0, *LENGTHS])
    codes = rng.integers(M, size=indptr[-1])
    weights = rng.choice([0.0, 0.5, 1.0, 4.0], size=indptr[-1])
    weights[:4] = [1.0, 0.0, 4.0, 1.0]
    samples = np.array([1.0, 2.0, 0.5, 1.5])
    X = RaggedArray(np.zeros((indptr[-1], 1)), indptr)
    task = StructureTask(LinearChain(), X, M).learn(RaggedArray(codes, indptr), samples, loss, temperature, cost)
    task.step_weights = weights
    return task, codes, rng.normal(size=(indptr[-1], M)), rng.normal(size=task.n_additional)


def by_name(additional):
    square, start, end = np.split(additional, [M * M, M * M + M])
    return {"transitions": square.reshape(M, M), "start": start, "end": end}


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_those_of_the_twin_and_gradients_those_of_differences(loss):
    cost = 3.0 * np.abs(np.subtract.outer(np.arange(M), np.arange(M))) if loss == "hinge" else None
    task, codes, scores, additional = small_task(loss, 0.7, cost)

    def expected(scores, additional):
        return sum(
            weight * step_weighted_loss(
                loss, scores[a:b], by_name(additional), codes[a:b], task.step_weights[a:b], 0.7, cost
            )
            for weight, a, b in zip(task.weights, task.row_ptr, task.row_ptr[1:])
        )  # fmt: skip

    value, residuals, joined, n_inexact = task.loss_gradient(scores.copy(), additional, None)
    assert value == pytest.approx(expected(scores, additional), abs=1e-9) and n_inexact == 0
    assert np.allclose(residuals[task.step_weights == 0.0], 0.0, atol=1e-12)
    rng, step = np.random.default_rng(1), 1e-6
    for _ in range(8):
        d, e = rng.normal(size=scores.shape), rng.normal(size=additional.shape)
        sides = [expected(scores + s * d, additional + s * e) for s in (step, -step)]
        slope = (residuals * d).sum() + joined @ e
        assert (sides[0] - sides[1]) / (2.0 * step) == pytest.approx(slope, abs=1e-4)
        # The loss is convex.
        other = task.loss_gradient(scores + d, additional + e, None)[0]
        assert other >= value + slope - 1e-9
    part = task.take(np.array([2, 0]))
    rows = np.r_[5:8, 0:4]
    assert np.allclose(part.loss_gradient(scores[rows], additional, None)[1], residuals[rows], atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_transitions_the_loss_is_the_weighted_sum_of_the_steps(loss):
    task, codes, scores, additional = small_task(loss)
    flat = StructureTask(LinearChain(), RaggedArray(np.zeros((len(codes), 1)), np.arange(len(codes) + 1)), M)
    weights = task.step_weights * np.repeat(task.weights, LENGTHS)
    flat.learn(RaggedArray(codes, np.arange(len(codes) + 1)), weights, loss)
    found, expected = (each.loss_gradient(scores.copy(), 0.0 * additional, None) for each in (task, flat))
    assert found[0] == pytest.approx(expected[0], abs=1e-9)
    assert np.allclose(found[1], expected[1], atol=1e-7)


@pytest.mark.parametrize(
    "options",
    [{"loss": "crf"}, {}, {"solver": "adagrad"}, {"loss": "hinge", "solver": "mira"}, {"loss": "hinge"}],
    ids=["crf", "sparsemap", "adagrad", "mira", "hinge"],
)
def test_equal_weights_of_steps_are_the_weight_of_the_sample(options):
    X, y = make_chains(30)
    rng = np.random.default_rng(0)
    weights = rng.choice([0.3, 1.0, 2.0], size=len(X))
    steps = [np.full(len(labels), w) for labels, w in zip(y, weights)]
    model = StructuredSparseMAPClassifier("chain", max_iter=5, tol=0.0, random_state=0, **options)
    with pytest.warns(match="max_iter"):
        one, many = clone(model).fit(X, y, weights), clone(model).fit(X, y, steps)
    assert np.array_equal(one.coef_, many.coef_) and np.array_equal(one.transitions_, many.transitions_)
    one, many = (clone(model).partial_fit(X, y, ["x", "y", "z"], w) for w in (weights, RaggedArray.from_list(steps)))
    assert np.array_equal(one.coef_, many.coef_)
    # Weights that differ go through the other code; a tiny difference changes little.
    nearly = [w * (1.0 + 1e-12 * np.arange(len(w))) for w in steps]
    nearly = clone(model).partial_fit(X, y, ["x", "y", "z"], nearly)
    assert np.allclose(nearly.coef_, one.coef_, atol=1e-3)


def make_rare(n, seed, shift=1.2, lengths=(10, 30)):
    """Return taggers' data with 3 % entities, most of which cannot be told from other words with certainty."""
    rng = np.random.default_rng(seed)
    y = [np.where(rng.random(rng.integers(*lengths)) < 0.03, "E", "O") for _ in range(n)]
    X = [rng.normal(size=(len(labels), 6)) + shift * (labels == "E")[:, None] * (np.arange(6) < 2) for labels in y]
    return X, y


def entity_f1(model, X, y):
    predicted, gold = np.concatenate(model.predict(X)) == "E", np.concatenate(y) == "E"
    return 2.0 * (predicted & gold).sum() / max(1, predicted.sum() + gold.sum())


@pytest.mark.parametrize(
    ("loss", "solver"), [("sparsemap", "adagrad"), ("margin_sparsemap", "lbfgs"), ("hinge", "adagrad")]
)
def test_weights_of_steps_find_rare_entities(loss, solver):
    gains = []
    for seed in range(4):
        X, y = make_rare(150, seed)
        X_test, y_test = make_rare(150, seed + 100)
        model = StructuredSparseMAPClassifier("chain", loss, solver=solver, alpha=1e-3, tol=1e-2, random_state=0)
        by_class = clone(model).set_params(class_weight="balanced").fit(X, y)
        by_step = clone(model).fit(X, y, [np.where(labels == "E", 5.0, 1.0) for labels in y])
        gains.append(entity_f1(by_step, X_test, y_test) - entity_f1(by_class, X_test, y_test))
    assert min(gains) > 0.1 and np.mean(gains) >= 0.15


def test_weights_of_steps_go_everywhere():
    X, y = make_rare(60, 0)
    weights = [np.where(labels == "E", 5.0, 1.0) for labels in y]
    model = StructuredSparseMAPClassifier("chain", "crf", early_stopping=0.3, random_state=0, alpha=1e-2).fit(
        X, y, weights
    )
    n_steps = sum(map(len, y))
    expected = np.average(np.concatenate(model.predict(X)) == np.concatenate(y), weights=np.concatenate(weights))
    assert model.score(X, y, weights) == pytest.approx(expected) and n_steps
    # Forms of the weights, and samples without steps.
    plain = StructuredSparseMAPClassifier("chain", "crf", max_iter=200).fit(X, y, weights)
    as_objects = np.empty(len(weights), object)
    as_objects[:] = weights
    for form in (tuple(w.tolist() for w in weights), RaggedArray.from_list(weights), as_objects):
        assert np.array_equal(clone(plain).fit(X, y, form).coef_, plain.coef_)
    with pytest.warns(UserWarning, match="samples without steps are left out"):
        shorter = clone(plain).fit([X[0][:0], *X], [[], *y], [[], *weights])
    assert np.array_equal(shorter.coef_, plain.coef_)
    # Sequences of equal lengths may have a 2-D array. Weights of zero leave samples out.
    square, labels = np.stack([x[:10] for x in X]), np.stack([own[:10] for own in y])
    table = np.random.default_rng(0).choice([0.0, 1.0, 3.0], size=labels.shape)
    table[5] = 0.0
    rest = np.arange(len(X)) != 5
    fitted = [clone(plain).fit(square[kept], labels[kept], table[kept]) for kept in (rest, slice(None))]
    assert np.allclose(fitted[0].coef_, fitted[1].coef_, atol=1e-3)
    search = GridSearchCV(StructuredSparseMAPClassifier("chain", "crf", tol=0.1), {"alpha": [1e-2, 1.0]}, cv=2)
    assert search.fit(X, y, sample_weight=weights).best_estimator_.score(X, y) > 0.8
    segments = StructuredSparseMAPClassifier(Segmentation(40), "crf", tol=0.1).fit(X, y, weights)
    assert entity_f1(segments, X, y) > 0.2


def test_streams_may_mix_weights_of_steps_and_of_samples():
    X, y = make_rare(60, 1)
    weights = [np.where(labels == "E", 5.0, 1.0) for labels in y]
    for options in ({}, {"loss": "hinge", "solver": "mira"}, {"loss": "crf", "batch_size": 4}):
        model = StructuredSparseMAPClassifier("chain", **options)
        model.partial_fit(X[:20], y[:20], ["E", "O"], weights[:20]).partial_fit(X[20:40], y[20:40])
        model.partial_fit(X[40:], y[40:], sample_weight=weights[40:])
        assert model.n_iter_ == 3 and np.isfinite(model.coef_).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w[:-1], r"sample_weight has 4 entries for 5 samples"),
        (
            lambda w: [*w[:3], w[3][:-1], w[4]],
            r"sample_weight\[3\] has shape \(\d+,\), but X\[3\] has \d+ steps; give one",
        ),
        (lambda w: [*w[:4], 1.0], r"sample_weight\[4\] has shape \(\), but X\[4\] has \d+ steps; give one weight"),
        (lambda w: [-w[0], *w[1:]], r"sample_weight\[0\]\[0\] is -1.0; weights must be finite and not negative"),
        (lambda w: [w[0], w[1] * np.nan, *w[2:]], r"sample_weight\[1\]\[0\] is nan; weights"),
        (lambda w: [w[0], ["a"] * len(w[1]), *w[2:]], r"sample_weight\[1\] must be an array of numbers"),
        (lambda w: [0.0 * own for own in w], "all sample weights are zero"),
    ],
)
def test_invalid_weights_of_steps_name_the_sample(change, message):
    X, y = make_rare(5, 2)
    y[0][0] = "E"
    with pytest.raises(ValueError, match=message):
        StructuredSparseMAPClassifier("chain").fit(X, y, change([np.ones(len(labels)) for labels in y]))


def test_weights_of_steps_are_for_label_sequences_of_one_estimator():
    X, y = make_rare(5, 3)
    y[0][0] = "E"
    weights = [np.ones(len(labels)) + np.arange(len(labels)) for labels in y]
    with pytest.raises(ValueError, match="only StructuredSparseMAPClassifier learns from weights of steps"):
        StructuredGroupLasso("chain").fit(X, y, weights)
    tree = StructuredSparseMAPClassifier("tree")
    with pytest.raises(ValueError, match="for structures made of labels"):
        tree.fit([np.ones((6, 2))], [[0, 1]], [[1.0, 1.0]])
    hidden = [labels.tolist() for labels in y]
    hidden[1][0] = None
    with pytest.raises(ValueError, match="y has labels of None, and sample_weight has weights of steps"):
        StructuredSparseMAPClassifier("chain").fit(X, hidden, weights)
    with pytest.raises(ValueError, match="Sample weights must be 1D"):
        StructuredSparseMAPClassifier().fit(np.eye(4), [0, 1, 0, 1], np.ones((4, 2)))
