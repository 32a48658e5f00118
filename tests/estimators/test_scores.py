"""`score` of structured estimators is one measure for all structures: the F1 of the chosen parts."""

from itertools import combinations

import numpy as np
import pytest
from registry import RANDOM, Instance
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import AtLeast, AtMost, Exactly, FactorGraph
from sklearn_sparsemap.metrics import flat_accuracy_score, parts_f1_score, unlabeled_attachment_score
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    LinearProgram,
    Matching,
    Path,
    Ranking,
    Subset,
)

N, P = 10, 4
WEIGHTS = np.random.default_rng(3).normal(size=P)
PATH = Path.grid(3, 3)


def pairs_in_order(gold, found, n_items):
    """Count the pairs of which the prediction ranks the same item higher as gold, and all pairs that gold orders."""
    place = {item: k for k, item in enumerate(found)}
    pairs = [(a, b) for k, a in enumerate(gold) for b in range(n_items) if b not in gold[: k + 1]]
    return sum(place.get(a, np.inf) < place.get(b, np.inf) for a, b in pairs), len(pairs)


@pytest.mark.parametrize("kind", RANDOM)
def test_agreement_counts_common_parts(kind):
    rng, n_compared = np.random.default_rng(0), 0
    for _ in range(30):
        instance = RANDOM[kind](rng)
        structures, indicators, _ = instance.enumerate()
        dims = instance.problem()[2]
        for i, j in rng.integers(0, len(structures), size=(10, 2)):
            gold, found = (np.array(structures[k]) if kind != "custom" else structures[k] for k in (i, j))
            if isinstance(instance.structure, Ranking):
                n_common, n = pairs_in_order(gold.tolist(), found.tolist(), len(instance.scores))
                expected = n_common, n, n
            else:
                u, v = (indicators[:, k] > 0 for k in (i, j))
                expected = (u & v).sum(), u.sum(), v.sum()
            assert instance.structure.agreement(gold, found, dims) == tuple(map(int, expected))
            n_compared += 1
    assert n_compared == 300


def of_size(k):
    def best(scores):
        return np.argsort(-scores, kind="stable")[:k]

    return best


def chosen_of(bounds):
    """Return the function that makes a graph of choices with these bounds, as an estimator takes it."""

    def graph(x):
        graph = FactorGraph()
        chosen = graph.variables(len(x))
        for factor in bounds(chosen):
            graph.add(factor)
        return graph

    return graph


CHOICES = {
    "Subset of three": Subset(3, 3),
    "Subset of at most three": Subset(0, 3),
    "LinearProgram": LinearProgram(A_eq=np.ones((1, N)), b_eq=[3.0], fixed_size=True),
    "LinearProgram of varying size": LinearProgram(A_eq=np.ones((1, N)), b_eq=[3.0]),
    "CustomStructure": CustomStructure(of_size(3), fixed_size=True),
    "graph of exactly three": chosen_of(lambda chosen: [Exactly(chosen, 3)]),
    "graph of at most three": chosen_of(lambda chosen: [AtMost(chosen, 3)]),
    "graph of three by two bounds": chosen_of(lambda chosen: [AtMost(chosen, 3), AtLeast(chosen, 3)]),
}


def choices(n_samples=40, noise=2.0):
    """Return samples of ten items each, of which the three with the highest noisy scores are chosen."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(N, P)) for _ in range(n_samples)]
    y = [np.isin(np.arange(N), np.argsort(-(x @ WEIGHTS + noise * rng.normal(size=N)))[:3]) for x in X]
    return X, y


def as_masks(found):
    """Return predicted choices as masks of the items."""
    return [each if np.asarray(each).dtype == bool else np.isin(np.arange(N), each) for each in found]


@pytest.mark.parametrize("name", CHOICES)
def test_score_is_the_f1_of_the_chosen_parts_whatever_fixes_their_number(name):
    X, y = choices()
    weights = np.random.default_rng(1).integers(0, 4, size=20)
    gold = [np.flatnonzero(own) for own in y] if name == "CustomStructure" else y
    model = StructuredSparseMAPClassifier(CHOICES[name], random_state=0, max_iter=30).fit(X[:20], gold[:20])
    masks = as_masks(model.predict(X[20:]))
    expected = parts_f1_score(y[20:], masks)
    assert 0.3 < expected < 0.95
    assert model.score(X[20:], gold[20:]) == pytest.approx(expected)
    weighted = parts_f1_score(y[20:], masks, sample_weight=weights)
    assert model.score(X[20:], gold[20:], sample_weight=weights) == pytest.approx(weighted)
    if all(each.sum() == 3 for each in masks):
        precision = np.mean([own[found].mean() for own, found in zip(y[20:], masks)])
        assert expected == pytest.approx(precision)


def test_a_model_that_never_chooses_a_part_of_gold_scores_zero():
    """Eight of ten absent parts are absent in the prediction, too; this is no merit of it."""
    X = [np.eye(N)] * 4
    y = [np.arange(N) == k for k in range(4)]
    model = StructuredSparseMAPClassifier(Subset(1, 1), random_state=0).fit(X, y)
    model.coef_ = np.array([np.where(np.arange(N) == 9, 5.0, -1.0)])
    assert model.score(X, y) == 0.0


def test_nothing_chosen_on_both_sides_scores_one():
    X, y = [np.ones((3, 2))] * 4, [np.zeros(3, bool)] * 4
    for structure in (Subset(0, 2), chosen_of(lambda chosen: [AtMost(chosen, 2)])):
        model = StructuredSparseMAPClassifier(structure, random_state=0).fit(X, y)
        assert not np.any(list(model.predict(X)))
        assert model.score(X, y) == 1.0


def test_pairs_of_a_matching_are_chosen_and_rows_without_a_partner_are_not():
    X, y = [np.random.default_rng(k).normal(size=(4, 1, 2)) for k in range(8)], [[0, -1, -1, -1]] * 8
    model = StructuredSparseMAPClassifier(Matching(), random_state=0).fit(X, y)
    found = model.predict(X)
    expected = np.mean([each[0] == 0 for each in found])
    assert model.score(X, y) == pytest.approx(expected)


def test_labels_heads_edges_and_orders_keep_their_measures():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, P)) for _ in range(20)]
    labels = [np.where(x @ WEIGHTS + rng.normal(size=6) > 0, "a", "b") for x in X]
    chain = StructuredSparseMAPClassifier("chain", random_state=0).fit(X[:10], labels[:10])
    assert chain.score(X, labels) == pytest.approx(flat_accuracy_score(labels, chain.predict(X)))
    arcs = [rng.normal(size=(12, P)) for _ in range(20)]
    heads = [np.array([0, rng.integers(0, 2), rng.integers(0, 3)]) for _ in arcs]
    tree = StructuredSparseMAPClassifier("tree", random_state=0).fit(arcs[:10], heads[:10])
    assert tree.score(arcs, heads) == pytest.approx(unlabeled_attachment_score(heads, tree.predict(arcs)))
    edges = [rng.normal(size=(len(PATH.edges), P)) for _ in range(20)]
    ways = [Instance(PATH, x @ WEIGHTS + rng.normal(size=len(x)), {}).enumerate() for x in edges]
    paths = [np.array(structures[int(np.argmax(values))], bool) for structures, _, values in ways]
    path = StructuredSparseMAPClassifier(PATH, random_state=0).fit(edges[:10], paths[:10])
    assert path.score(edges, paths) == pytest.approx(parts_f1_score(paths, list(path.predict(edges))))
    orders = [np.argsort(-(x @ WEIGHTS + rng.normal(size=6))) for x in X]
    ranking = StructuredSparseMAPClassifier(Ranking(), random_state=0).fit(X[:10], orders[:10])
    counts = [pairs_in_order(own.tolist(), found.tolist(), 6) for own, found in zip(orders, ranking.predict(X))]
    assert ranking.score(X, orders) == pytest.approx(np.sum(counts, axis=0)[0] / np.sum(counts, axis=0)[1])


def test_a_graph_of_categories_scores_the_fraction_of_correct_variables():
    def graph(x):
        graph = FactorGraph()
        graph.categorical(len(x), 3)
        return graph

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 3)) for _ in range(20)]
    y = [np.argmax(x + rng.normal(size=x.shape), axis=1) for x in X]
    model = StructuredSparseMAPClassifier(graph, random_state=0, max_iter=20).fit(X[:10], y[:10])
    assert model.score(X, y) == pytest.approx(np.mean([own == found for own, found in zip(y, model.predict(X))]))


@pytest.mark.filterwarnings("ignore:AdaGrad was still improving")
@pytest.mark.parametrize("name", ["Subset of three", "LinearProgram", "graph of exactly three"])
def test_early_stopping_watches_the_score(name):
    X, y = choices(30)
    model = StructuredSparseMAPClassifier(
        CHOICES[name], "hinge", solver="adagrad", max_iter=3, tol=10.0, random_state=0
    )
    given = clone(model).fit(X[:20], y[:20], X_val=X[20:], y_val=y[20:])
    assert max(given.validation_scores_) == pytest.approx(given.score(X[20:], y[20:]))
    held = clone(model).set_params(early_stopping=0.5).fit(X, y)
    _, rows = train_test_split(np.arange(30), test_size=0.5, random_state=np.random.RandomState(0).randint(2**31 - 1))
    score = held.score([X[i] for i in rows], [y[i] for i in rows])
    assert 0.3 < score < 1.0 and max(held.validation_scores_) == pytest.approx(score)


@pytest.mark.filterwarnings("ignore:AdaGrad was still improving")
def test_shards_are_scored_together():
    """The F1 of all held-out samples is not the mean of the F1 of shards, because shards choose different numbers."""
    X, y = choices(40)
    y = [own & (i % 2 == 0) for i, own in enumerate(y)]
    parts = [(X[k::4], y[k::4]) for k in range(4)]
    model = StructuredSparseMAPClassifier(Subset(0, 3), solver="adagrad", max_iter=2, random_state=0)
    mixing = ParameterMixing(model, n_shards=2, n_rounds=2, early_stopping=0.5, random_state=0).fit(parts)
    pairs = [(X[i::4] + X[j::4], y[i::4] + y[j::4]) for i, j in combinations(range(4), 2)]
    assert max(mixing.validation_scores_) in [pytest.approx(mixing.score(*pair)) for pair in pairs]


def test_a_head_of_another_tree_is_compared_as_it_is():
    assert DependencyTree().agreement([2, 1], [0, 1], np.array([2])) == (1, 2, 2)


def test_labels_without_weight_cannot_be_scored():
    X, y = [np.ones((2, 2)), np.zeros((1, 2))], [["a", "b"], [None]]
    model = StructuredSparseMAPClassifier("chain", random_state=0).fit(X[:1], y[:1])
    with pytest.raises(ValueError, match="have the weight 0; at least one must have a positive weight"):
        model.score(X, y, sample_weight=[0.0, 1.0])
