"""Best structures, likelihoods, samples and completions of fitted models."""

import pickle
from functools import partial

import numpy as np
import pytest
from internals import batch_of, draw_structures
from registry import RANDOM
from samples import make_chains
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier, marginal_inference, n_best
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Subset


@pytest.fixture(scope="module")
def chains():
    return make_chains(30)


@pytest.fixture(scope="module")
def crf(chains):
    return StructuredSparseMAPClassifier("chain", loss="crf", alpha=0.05, temperature=0.7).fit(*chains)


def enumerated(model, x, temperature):
    """Return all paths and their scores."""
    scores = model.decision_function([x])[0] / temperature
    additional = {name: a / temperature for name, a in model.additional_scores_.items()}
    best = n_best(LinearChain(), scores, 10**6, **additional)
    paths, values = zip(*best)
    return [tuple(model.classes_[p]) for p in paths], np.array(values)


def test_n_best_of_a_model(crf, chains):
    X = chains[0][:8]
    best, first = crf.predict_n_best(X, 3), crf.predict(X)
    for x, own, path in zip(X, best, first, strict=True):
        paths, values = enumerated(crf, x, 1.0)
        assert np.array_equal(own[0][0], path)
        assert [tuple(p) for p, _ in own] == paths[:3]
        assert np.allclose([v for _, v in own], values[:3])
    flat = StructuredSparseMAPClassifier().fit(np.vstack(chains[0]), np.concatenate(chains[1]))
    rows = np.vstack(X)
    ranked = flat.predict_n_best(rows, 9)
    order = flat.classes_[np.argsort(-flat.decision_function(rows), axis=1)]
    assert [[label for label, _ in own] for own in ranked] == order.tolist()


def test_log_likelihood_is_that_of_all_paths(crf, chains):
    X, y = chains[0][:8], [list(labels) for labels in chains[1][:8]]
    hidden = [[None if i % 2 else label for i, label in enumerate(labels)] for labels in y]
    found, partial = crf.log_likelihood(X, y), crf.log_likelihood(X, hidden)
    for i, x in enumerate(X):
        paths, values = enumerated(crf, x, 0.7)
        values = values - logsumexp(values)
        assert found[i] == pytest.approx(values[paths.index(tuple(y[i]))], abs=1e-9)
        fits = [all(h in (None, s) for h, s in zip(hidden[i], path)) for path in paths]
        assert partial[i] == pytest.approx(logsumexp(values[fits]), abs=1e-9)
    rng = np.random.default_rng(0)
    trees = [rng.normal(size=(4, 3, 2)) for _ in range(5)]
    heads = [np.array([0, 1, 2])] * 5
    tree = StructuredSparseMAPClassifier("tree", loss="crf").fit(trees, heads)
    score = sum(tree.decision_function(trees[:1])[0][h, m] for m, h in enumerate(heads[0]))
    log_partition = marginal_inference(DependencyTree(), tree.decision_function(trees[:1])[0]).log_partition
    assert tree.log_likelihood(trees, heads)[0] == pytest.approx(score - log_partition)
    flat = StructuredSparseMAPClassifier(loss="crf").fit(np.vstack(X), np.concatenate(y))
    p = flat.predict_proba(np.vstack(X))
    codes = np.searchsorted(flat.classes_, np.concatenate(y))
    assert np.allclose(flat.log_likelihood(np.vstack(X), np.concatenate(y)), np.log(p[np.arange(len(p)), codes]))


@pytest.mark.parametrize(
    "name",
    [
        "simplex", "chain", "budget", "exact budget", "tree", "projective single-root tree", "subset", "labelled tree",
        "segmentation", "spans", "open_ended", "warping", "global alignment",
    ],
)  # fmt: skip
def test_samples_come_from_the_gibbs_distribution(name):
    rng, compared = np.random.RandomState(0), 0
    draws = {"chain": 20_000, "simplex": 5000, "segmentation": 20_000, "spans": 20_000, "open_ended": 20_000}.get(
        name, 2000
    )
    for seed in range(6):
        instance = RANDOM[name](np.random.default_rng(seed), forbid=True)
        structures, _, theta = instance.enumerate()
        p = np.exp(theta - logsumexp(theta))
        problem, _, _ = batch_of(instance.structure, instance.scores, instance.additional)
        counts = dict.fromkeys([tuple(np.ravel(s).tolist()) for s in structures], 0)
        for drawn in draw_structures(instance.structure, problem[0], draws, rng):
            counts[tuple(np.ravel(drawn).tolist())] += 1
        error = np.array(list(counts.values())) - draws * p
        assert (np.abs(error) <= 5.0 * np.sqrt(draws * p * (1 - p)) + 1e-9 * draws).all()
        compared += len(p)
    assert compared > 20


def test_samples_of_a_model(crf, chains):
    X = chains[0][:4]
    first, again = (crf.sample(X, 3, random_state=0) for _ in range(2))
    assert [len(own) for own in first] == [3] * 4
    assert all(np.array_equal(a, b) for p, q in zip(first, again) for a, b in zip(p, q))
    known = [["x"] + [None] * (len(x) - 1) for x in X]
    assert all(path[0] == "x" for own in crf.sample(X, 20, random_state=0, known=known) for path in own)
    other = clone(crf).set_params(loss="sparsemap").fit(*chains)
    for call in (lambda: other.sample(X), lambda: other.log_likelihood(X, chains[1][:4])):
        with pytest.raises(ValueError, match="train with loss='crf'"):
            call()


def test_known_labels_stay_and_the_rest_is_the_best_completion(crf, chains):
    X, y = chains
    rng = np.random.default_rng(0)
    known = [[str(rng.choice(["x", "y", "z"])) if rng.random() < 0.4 else None for _ in labels] for labels in y]
    known[3] = None
    completed, marginals = crf.predict(X, known=known), crf.predict_marginals(X, known=known)
    few = crf.predict_structures(X, known=known)
    changed = 0
    for i, (x, path, own) in enumerate(zip(X, completed, known, strict=True)):
        own = [None] * len(path) if own is None else own
        paths, values = enumerated(crf, x, 0.7)
        fits = [p for p in range(len(paths)) if all(k in (None, s) for k, s in zip(own, paths[p]))]
        assert tuple(path) == paths[fits[0]]
        changed += fits[0] > 0
        p = np.exp(values[fits] - logsumexp(values[fits]))
        expected = sum(q * (np.array(paths[f])[:, None] == crf.classes_) for q, f in zip(p, fits))
        assert np.allclose(marginals[i], expected, atol=1e-9)
        assert all(k in (None, s) for structure, _ in few[i] for k, s in zip(own, structure))
    assert changed > 10
    loaded = pickle.loads(pickle.dumps(crf))
    assert all(np.array_equal(a, b) for a, b in zip(loaded.predict(X, known=known), completed, strict=True))
    for bad, message in (
        ([["x"]] * len(X), r"X\[0\] has \d steps, but known\[0\] has 1 labels"),
        ([["nope"] * len(x) for x in X], r"known\[0\] has the label 'nope', which is not in classes_"),
        (3, "known must be a sequence"),
    ):
        with pytest.raises(ValueError, match=message):
            crf.predict(X, known=bad)


def test_known_heads_and_partners():
    rng = np.random.default_rng(0)
    trees = [rng.normal(size=(4, 3, 2)) for _ in range(4)]
    tree = StructuredSparseMAPClassifier("tree").fit(trees, [np.array([0, 1, 2])] * 4)
    for known in ([2, None, None], [None, 3, None], [3, None, 0]):
        assert all(k in (None, h) for k, h in zip(known, tree.predict(trees[:1], known=[known])[0]))
    grids = [rng.normal(size=(3, 2, 2)) for _ in range(4)]
    matching = StructuredSparseMAPClassifier(Matching()).fit(grids, [np.array([0, -1, 1])] * 4)
    for known in ([1, None, None], [None, -1, None], [None, 1, 0]):
        assert all(k in (None, c) for k, c in zip(known, matching.predict(grids[:1], known=[known])[0]))
    with pytest.raises(ValueError, match=r"known\[0\]: the head of a word is None, or an int from 0 to 3; got 7"):
        tree.predict(trees[:1], known=[[7, None, None]])
    # Two words that are each other's head.
    for ask in (tree.predict, tree.predict_marginals, tree.predict_structures, partial(tree.predict_n_best, k=2)):
        with pytest.raises(ValueError, match=r"agrees with known\[1\]"):
            ask(trees[:2], known=[[2, None, None], [2, 1, None]])
    subset = StructuredSparseMAPClassifier(Subset()).fit([np.ones((2, 1))], [[True, False]])
    with pytest.raises(ValueError, match="trees without labels, matchings and hyperpaths; got Subset"):
        subset.predict([np.ones((2, 1))], known=[[None, True]])
    perceptron = GroupLassoPerceptron("tree", max_iter=2).fit(trees, [np.array([0, 1, 2])] * 4)
    assert perceptron.predict(trees[:1], known=[[2, None, None]])[0][0] == 2
    assert len(perceptron.predict_n_best(trees[:1], 16)[0]) == 16


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([["x", "new"]], r"y\[0\] has the label 'new', which is not in classes_"),
        ([["x"]], r"X\[0\] has 2 steps, but y\[0\] has 1 labels"),
        (["xy"], r"y\[0\] is 'xy'; it must be a sequence, one label for each step of X\[0\]"),
        ([["I-x", "B-x"]], r"agrees with y\[0\]; replace more entries by None"),
    ],
)
def test_messages_about_likelihoods_name_y(y, message):
    rows = [np.eye(2)]
    plain = StructuredSparseMAPClassifier("chain", "crf").fit(rows, [["x", "y"]])
    bio = StructuredSparseMAPClassifier("chain", "crf", constraints="bio").fit(rows, [["B-x", "I-x"]])
    with pytest.raises(ValueError, match=message) as error:
        (bio if "I-x" in y[0] else plain).log_likelihood(rows, y)
    assert "known" not in str(error.value) and "gold" not in str(error.value)
    # The argument `known` is still named by the other methods.
    with pytest.raises(ValueError, match=r"known\[0\]"):
        (bio if "I-x" in y[0] else plain).predict(rows, known=y)


def test_messages_about_likelihoods_of_trees_and_single_labels_name_y():
    tree = StructuredSparseMAPClassifier("tree", "crf").fit([np.eye(6)], [[0, 1]])
    for y in ([[2, 1]], [[0, -1]], [[0, None]], [[0]]):
        with pytest.raises(ValueError, match=r"^y\[0\]: ") as error:
            tree.log_likelihood([np.eye(6)], y)
        assert "gold" not in str(error.value)
    flat = StructuredSparseMAPClassifier(loss="crf").fit(np.eye(4), ["x", "y", "x", "y"])
    with pytest.raises(ValueError, match=r"y\[1\] has the label 'z', which is not in classes_"):
        flat.log_likelihood(np.eye(4)[:2], ["x", "z"])
