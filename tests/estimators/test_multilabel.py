"""MultilabelLPSparseMAP: the estimator, its inference and its gradients, against slow twins."""

import pickle
from itertools import count, pairwise, product
from time import perf_counter
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from internals import (
    GRID,
    Adam,
    LabelGraph,
    LabelTask,
    NetworkModel,
    OneLabel,
    Tuning,
    label_losses,
    mutual_information_tree,
    read_constraints,
    read_edges,
    read_indicator,
    replace,
    strongest_pairs,
    threshold_scores,
)
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier, lp_sparsemap, map_inference
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.estimators import Monitor
from sklearn_sparsemap.factors import (
    AtLeast,
    AtMost,
    Budget,
    Exactly,
    Exclusive,
    FactorGraph,
    Hierarchy,
    Implies,
    Imply,
    Pair,
)
from sklearn_sparsemap.metrics import example_f1_score, example_f1_scorer
from sklearn_sparsemap.score_models import Network

pd = pytest.importorskip("pandas")

# Cross-validation puts the copies of a sample into several folds, as that of scikit-learn's estimators does.
WAIVED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "in cross-validation, sample_weight is not equivalent to repeating samples",
)

LOSSES = "sparsemap", "hinge", "logistic"


@parametrize_with_checks(
    [MultilabelLPSparseMAP(), MultilabelLPSparseMAP(score_model=LogisticRegression(max_iter=1000))],
    expected_failed_checks=lambda estimator: WAIVED if estimator.score_model == "auto" else {},
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_checks(estimator, check, monkeypatch):
    # Score models are compared on the first fold alone, which takes half the time.
    replace(monkeypatch, "estimators", "_MIN_COMPARED", 0)
    check(estimator)


def all_edges(n):
    return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)


def random_edges(n, rng):
    edges = all_edges(n)
    return edges[np.sort(rng.choice(len(edges), rng.integers(1, len(edges) + 1), replace=False))]


def random_constraints(n, rng):
    """Draw constraints that some set of labels satisfies."""
    while True:
        found = []
        for _ in range(rng.integers(1, 4)):
            labels = rng.permutation(n)[: rng.integers(2, n + 1)].tolist()
            k = int(rng.integers(0, len(labels) + 1))
            kind = rng.integers(5)
            kinds = AtMost(labels, k), AtLeast(labels, k), Exactly(labels, k), Exclusive(labels), Implies(*labels[:2])
            found.append(kinds[kind])
        resolved = read_constraints(found, np.arange(n))
        if any(satisfies(y, resolved) for y in product((0, 1), repeat=n)):
            return resolved


def satisfies(y, resolved):
    """Tell whether labels satisfy constraints, by what these say."""
    for constraint, _ in resolved:
        names = range(len(y)) if constraint.labels is None else constraint.labels
        count = sum(y[i] for i in names)
        if isinstance(constraint, Implies):
            right = y[constraint.a] <= y[constraint.b]
        elif isinstance(constraint, Exclusive):
            right = count <= 1
        elif isinstance(constraint, AtMost):
            right = count <= constraint.k
        elif isinstance(constraint, AtLeast):
            right = count >= constraint.k
        else:
            right = count == constraint.k
        if not right:
            return False
    return True


def best_labels(scores, edges, edge_scores, resolved):
    """Return the highest score of all label sets that satisfy the constraints."""
    best = -np.inf
    for y in product((0, 1), repeat=len(scores)):
        if satisfies(y, resolved):
            y = np.array(y)
            best = max(best, scores @ y + edge_scores @ (y[edges[:, 0]] * y[edges[:, 1]]))
    return best


def value_of(labels, scores, edges, edge_scores):
    return scores @ labels + edge_scores @ (labels[edges[:, 0]] * labels[edges[:, 1]])


# -- Inference -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_label_graphs_solve_lp_sparsemap(n, scale):
    rng = np.random.default_rng(n)
    edges = random_edges(n, rng)
    scores, edge_scores = rng.normal(size=(20, n)), scale * rng.normal(size=len(edges))
    found = LabelGraph(n, edges).solve(scores, edge_scores, tol=1e-11)
    graph = FactorGraph()
    u = graph.variables(n)
    graph.add(Pair(u[edges[:, 0]], u[edges[:, 1]], name="edges"))
    wanted = lp_sparsemap(graph, list(scores), additional={"edges": edge_scores}, tol=1e-11)
    assert_array_equal(found.marginals, [r.marginals for r in wanted])
    assert_allclose(found.objective, [r.objective for r in wanted], atol=1e-9)
    # Another method, which settles nothing.
    others = lp_sparsemap(graph, list(scores), additional={"edges": edge_scores}, tol=1e-10, solver="block")
    assert_allclose(found.marginals, [r.marginals for r in others], atol=2e-6)
    assert (found.gap >= -1e-12).all() and (found.gap <= 1e-11).all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_the_relaxation_of_map_is_solved(scale):
    rng = np.random.default_rng(0)
    n_integral = 0
    for n in (2, 5, 8):
        edges = random_edges(n, rng)
        scores, edge_scores = rng.normal(size=(10, n)), scale * rng.normal(size=len(edges))
        label_graph = LabelGraph(n, edges)
        found = label_graph.relax(scores, edge_scores)
        graph = FactorGraph()
        u = graph.variables(n)
        graph.add(Pair(u[edges[:, 0]], u[edges[:, 1]], name="edges"))
        wanted = map_inference(graph, list(scores), additional={"edges": edge_scores})
        assert (found.gap <= 1e-8).all()
        for row, result in enumerate(wanted):
            assert found.objective[row] >= result.value - 1e-8
            if result.integral:
                n_integral += 1
                assert_allclose(found.objective[row], result.value, atol=1e-8)
        chosen = label_graph.assign(scores, edge_scores)
        for row in range(len(scores)):
            best = best_labels(scores[row], edges, edge_scores, [])
            assert_allclose(value_of(chosen[row], scores[row], edges, edge_scores), best, atol=1e-8)
    assert n_integral > 10


def test_bounds_settle_labels_rightly():
    # Strong pairs among labels that are far from the decision, so that all rounds of the bounds matter.
    rng = np.random.default_rng(3)
    edges = all_edges(30)
    edge_scores = rng.normal(size=len(edges)) * (rng.random(len(edges)) < 0.1)
    scores = rng.normal(size=(30, 30)) - 1.0
    graph = LabelGraph(30, edges)
    found = graph.solve(scores, edge_scores, tol=1e-11)
    a = FactorGraph()
    u = a.variables(30)
    a.add(Pair(u[edges[:, 0]], u[edges[:, 1]], name="edges"))
    wanted = lp_sparsemap(a, list(scores), additional={"edges": edge_scores}, tol=1e-11)
    assert_array_equal(found.marginals, [r.marginals for r in wanted])
    # The certificate looks at all pairs, so it sees the multipliers of those that were settled.
    assert wanted.converged.all() and wanted.residual.max() <= 1e-11 and wanted.gap.max() <= 1e-10
    others = lp_sparsemap(a, list(scores), additional={"edges": edge_scores}, tol=1e-9, solver="block", max_iter=5000)
    assert_allclose(found.marginals, [r.marginals for r in others], atol=2e-6)
    # Most labels are settled: off or on exactly.
    assert np.isin(found.marginals, (0.0, 1.0)).mean() > 0.5


def test_constraints_mean_what_factors_mean():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(10, 5))
    edges, edge_scores = all_edges(5), rng.normal(size=10)
    resolved = read_constraints([AtMost(2), Implies(0, 1)], np.arange(5))
    found = LabelGraph(5, edges, resolved).solve(scores, edge_scores)
    graph = FactorGraph()
    u = graph.variables(5)
    graph.add(Budget(u, 2), Imply([u[0], u[1]]), Pair(u[edges[:, 0]], u[edges[:, 1]], name="edges"))
    wanted = lp_sparsemap(graph, list(scores), additional={"edges": edge_scores}, tol=1e-9)
    assert_allclose(found.marginals, [r.marginals for r in wanted], atol=1e-6)
    own = LabelGraph(5, edges, resolved).graph
    wanted = lp_sparsemap(own, list(scores), additional={"edges": edge_scores}, tol=1e-9)
    assert_array_equal(found.marginals, [r.marginals for r in wanted])


@pytest.mark.parametrize("seed", range(3))
def test_negated_pairs_are_settled_rightly(seed):
    # Each label replaced by its complement at random: the same problem, up to what pairs add to other scores.
    rng = np.random.default_rng(seed)
    n, edges = 12, all_edges(12)
    negated = rng.random((len(edges), 2)) < 0.4
    scores, edge_scores = 2.0 * rng.normal(size=(10, n)), 0.5 * rng.normal(size=len(edges))
    graph = FactorGraph()
    u = graph.variables(n)
    ends = [[~u[i] if off else u[i] for i, off in zip(edges[:, k], negated[:, k])] for k in (0, 1)]
    graph.add(Pair(*ends, name="edges"))
    # (1 - a) b = b - a b, and so on.
    signs = np.where(negated, -1.0, 1.0)
    own = scores.copy()
    for k in (0, 1):
        moved = signs[:, k] * edge_scores * negated[:, 1 - k]
        own += np.bincount(edges[:, k], moved, n)
    plain = LabelGraph(n, edges).solve(own, signs.prod(axis=1) * edge_scores, tol=1e-11)
    found = lp_sparsemap(graph, list(scores), additional={"edges": edge_scores}, tol=1e-11)
    assert_allclose([r.marginals for r in found], plain.marginals, atol=1e-8)
    constant = edge_scores @ negated.all(axis=1)
    assert_allclose(found.objective, plain.objective + constant, atol=1e-9)
    assert found.converged.all() and found.residual.max() <= 1e-10 and found.gap.max() <= 1e-9
    assert 0.2 < np.isin(plain.marginals, (0.0, 1.0)).mean() < 1.0
    best, other = (
        map_inference(g, list(s), additional={"edges": p})
        for g, s, p in (
            (graph, scores, edge_scores), (LabelGraph(n, edges).graph, own, signs.prod(axis=1) * edge_scores)
        )
    )  # fmt: skip
    assert_allclose([r.value for r in best], [r.value + constant for r in other], atol=1e-7)


def test_assignments_under_random_constraints_are_the_best():
    rng = np.random.default_rng(1)
    for _ in range(40):
        n = int(rng.integers(2, 6))
        edges = random_edges(n, rng)
        edge_scores, scores = rng.normal(size=len(edges)), 2.0 * rng.normal(size=(4, n))
        resolved = random_constraints(n, rng)
        graph = LabelGraph(n, edges, resolved)
        graph.check_feasible()
        chosen = graph.assign(scores, edge_scores)
        assert not graph.violated(chosen).any()
        for row in range(4):
            assert satisfies(chosen[row], resolved)
            best = best_labels(scores[row], edges, edge_scores, resolved)
            assert_allclose(value_of(chosen[row], scores[row], edges, edge_scores), best, atol=1e-6)


@pytest.mark.parametrize("kind", ["pairs", "constraints"])
def test_assignments_at_any_scale_of_the_scores(kind):
    rng = np.random.default_rng(4)
    edges = all_edges(8)
    resolved = read_constraints([AtMost(4), Exclusive([0, 1, 2])], np.arange(8)) if kind == "constraints" else []
    graph = LabelGraph(8, edges, resolved)
    for scale in (1e-8, 1e-3, 1e4):
        scores, edge_scores = scale * rng.normal(size=(5, 8)), scale * rng.normal(size=28)
        # One label is far more certain than the others.
        scores[2:, 7] = 1e4 * scale
        for row, chosen in enumerate(graph.assign(scores, edge_scores)):
            best = best_labels(scores[row], edges, edge_scores, resolved)
            assert_allclose(value_of(chosen, scores[row], edges, edge_scores), best, rtol=1e-9, atol=1e-7 * scale)


@pytest.mark.parametrize("rules", [[], [AtMost(15)]])
def test_a_time_limit_returns_the_best_that_was_found(rules):
    # Frustrated: nothing is settled, and the relaxation knows nothing.
    rng, n = np.random.default_rng(0), 45
    edges = all_edges(n)
    scores, edge_scores = 0.1 * rng.normal(size=(2, n)), rng.normal(size=len(edges))
    resolved = read_constraints(rules, np.arange(n))
    graph = LabelGraph(n, edges, resolved)
    rounded = graph.relax(scores, edge_scores).marginals > 0.5
    said = r"map_time_limit=0\.05 seconds for 2 samples \(0, 1\).* at most [0-9.]+"
    with pytest.warns(ConvergenceWarning, match=said):
        chosen = graph.assign(scores, edge_scores, map_time_limit=0.05)
    assert not graph.violated(chosen).any()
    for own, other, row in zip(chosen, rounded, scores):
        if satisfies(other, resolved):
            assert value_of(own, row, edges, edge_scores) >= value_of(other, row, edges, edge_scores)
    # And in a factor graph, whose result says how far from the best it may be.
    factors = FactorGraph()
    u = factors.variables(n)
    factors.add(Pair(u[edges[:, 0]], u[edges[:, 1]], name="edges"))
    with pytest.warns(ConvergenceWarning, match="map_time_limit=0.05 seconds for 1 samples"):
        found = map_inference(factors, scores[0], additional={"edges": edge_scores}, map_time_limit=0.05)
    assert found.value == pytest.approx(value_of(found.structure, scores[0], edges, edge_scores))
    assert found.value < found.bound and not found.integral
    with pytest.raises(ValueError, match="map_time_limit must be"):
        map_inference(factors, scores[0], additional={"edges": edge_scores}, map_time_limit=0)


@pytest.mark.parametrize("kind", ["random", "degenerate"])
def test_a_time_limit_covers_all_of_an_exact_map(kind):
    rng, n = np.random.default_rng(1), 42
    edges = all_edges(n)
    if kind == "random":
        scores, edge_scores = 0.1 * rng.normal(size=n), rng.normal(size=len(edges))
    else:
        # The relaxation is 1/2 everywhere, under any scale of these scores.
        edge_scores = rng.choice([-1.0, 1.0], size=len(edges))
        scores = -0.5 * np.bincount(edges.ravel(), edge_scores.repeat(2), n)
    graph = LabelGraph(n, edges).graph
    options = {"additional": {"edges": edge_scores}}
    (relaxed,) = LabelGraph(n, edges).relax(scores[None], edge_scores).marginals
    rounded = value_of(relaxed > 0.5, scores, edges, edge_scores)
    # Compiled before the clock starts.
    map_inference(graph, np.ones(n), **options | {"additional": {"edges": 0.0}})
    for limit in (1e-9, 0.5):
        began = perf_counter()
        with pytest.warns(ConvergenceWarning, match=r"for 1 samples \(0\)"):
            found = map_inference(graph, scores, map_time_limit=limit, **options)
        # Far from what the search would take; how far the limit is kept is for benchmarks.
        assert perf_counter() - began < 5.0
        assert found.value == pytest.approx(value_of(found.structure, scores, edges, edge_scores))
        assert rounded <= found.value < found.bound < np.inf and not found.integral


def test_a_model_passes_its_time_limit_on(data):
    X, Y = data
    model = quick(decision="map").fit(X, Y)
    assert (model.predict(X, map_time_limit=None) == model.predict(X)).all()
    seen = []
    none = np.zeros(Y.shape, bool)
    model._graph.assign = lambda scores, pairs, n_jobs, map_time_limit: seen.append(map_time_limit) or none
    model.predict(X, map_time_limit=0.5)
    assert seen == [0.5]
    with pytest.raises(ValueError, match="map_time_limit"):
        model.predict(X, map_time_limit=-1.0)


def test_one_label_is_the_simplex():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20, 4))
    found = OneLabel(4).solve(scores)
    graph = LabelGraph(4, np.zeros((0, 2), np.int64), read_constraints([Exactly(1)], np.arange(4)))
    assert_allclose(found.marginals, graph.solve(scores, np.zeros(0)).marginals, atol=1e-7)
    assert_allclose(found.objective, graph.solve(scores, np.zeros(0)).objective, atol=1e-7)


# -- Losses and training -------------------------------------------------------------------------------------------


def make_task(n_labels, kind, rng, X=None):
    gold = (rng.random((8, n_labels)) < 0.4).astype(float)
    if kind == "one label":
        gold = np.eye(n_labels)[rng.integers(n_labels, size=8)]
        graph = OneLabel(n_labels)
    elif kind == "constraints":
        resolved = read_constraints([AtMost(n_labels - 1), Implies(0, 1)], np.arange(n_labels))
        graph = LabelGraph(n_labels, all_edges(n_labels), resolved)
        gold[:, 1] = np.maximum(gold[:, 0], gold[:, 1])
        gold[gold.sum(axis=1) == n_labels, -1] = 0.0
    else:
        graph = LabelGraph(n_labels, all_edges(n_labels))
    X = rng.normal(size=(8, 5)) if X is None else X
    return X, graph, gold, rng.uniform(0.5, 2.0, size=8)


@pytest.mark.parametrize("kind", ["pairs", "constraints", "one label"])
@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
@pytest.mark.parametrize("loss", LOSSES)
def test_gradients_of_the_whole_model_are_differences(loss, hidden, kind):
    rng = np.random.default_rng(len(hidden))
    X, graph, gold, weights = make_task(4, kind, rng)
    task = LabelTask(graph, loss, 0.8, gold, weights)
    model = NetworkModel.initial([5, *hidden, 4], len(graph.edges), rng)
    for array in model.arrays:
        array[...] = 0.7 * rng.normal(size=array.shape)

    def mean_loss():
        return task.loss_gradient(model.scores(X), model.additional, None)[0] / weights.sum()

    layers, masks = model.forward(X)
    _, residuals, joined, n_inexact = task.loss_gradient(layers[-1], model.additional, None, mean=True)
    gradients = [*model.backward(layers, masks, residuals), joined]
    assert n_inexact == 0
    _, summed, joined_sum, _ = task.loss_gradient(layers[-1], model.additional, None)
    assert_allclose(summed, weights.sum() * residuals)
    assert_allclose(joined_sum, weights.sum() * joined)
    step = 1e-4
    for array, gradient in zip(model.arrays, gradients):
        for place in rng.permutation(array.size)[:12]:
            index = np.unravel_index(place, array.shape)
            kept = array[index]
            array[index] = kept + step
            above = mean_loss()
            array[index] = kept - step
            below = mean_loss()
            array[index] = kept
            difference = (above - below) / (2 * step)
            if loss == "logistic" and array is model.additional:
                assert gradient[index] == 0.0
            else:
                # Losses of sparse inference are once differentiable, the hinge almost everywhere.
                assert_allclose(gradient[index], difference, atol=2e-3 if loss == "hinge" else 5e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_not_negative_and_zero_at_certain_gold(loss):
    rng = np.random.default_rng(0)
    graph, gold = LabelGraph(4, all_edges(4)), (rng.random((30, 4)) < 0.5).astype(float)
    edge_scores = 0.3 * rng.normal(size=6)
    losses, *_ = label_losses(loss, 1.0, graph, rng.normal(size=(30, 4)), edge_scores, gold, np.ones(30))
    assert (losses >= 0).all() and losses.max() > 0.1
    sure = np.where(gold > 0, 50.0, -50.0)
    losses, residuals, joint, _ = label_losses(loss, 1.0, graph, sure, edge_scores, gold, np.ones(30))
    assert_allclose(losses, 0.0, atol=1e-6)
    assert_allclose(residuals, 0.0, atol=1e-9)
    assert_allclose(joint, 0.0, atol=1e-9)


def test_adam_is_the_plain_algorithm():
    rng = np.random.default_rng(0)
    features = sparse.random_array((9, 7), density=0.3, random_state=0, format="csr")
    weights, other = rng.normal(size=(7, 3)), rng.normal(size=4)
    plain = [weights.copy(), other.copy()]
    adam = Adam([weights, other])
    first, second = [np.zeros((7, 3)), np.zeros(4)], [np.zeros((7, 3)), np.zeros(4)]
    for step in range(1, 8):
        residuals, own = rng.normal(size=(9, 3)), rng.normal(size=4)
        adam.step([weights, other], [(features, residuals), own], [0.1, 0.01], [0.3, 0.0], n_jobs=2)
        for k, (g, rate, alpha) in enumerate([(features.T @ residuals, 0.1, 0.3), (own, 0.01, 0.0)]):
            g = g + alpha * plain[k]
            first[k] = 0.9 * first[k] + 0.1 * g
            second[k] = 0.999 * second[k] + 0.001 * g * g
            plain[k] = plain[k] - rate * first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
        assert_allclose(weights, plain[0], rtol=1e-12)
        assert_allclose(other, plain[1], rtol=1e-12)


def test_thresholds_are_tuned_for_example_f1():
    rng = np.random.default_rng(0)
    marginals = np.maximum(rng.random((40, 6)) - 0.4, 0.0)
    marginals[0] = 0.0
    marginals[1, 0] = GRID[30]
    gold = (rng.random((40, 6)) < 0.3).astype(float)
    gold[0] = 0.0
    scores, *_ = threshold_scores(marginals, gold, np.full(40, 1 / 40))
    for k in (0, 10, 30, 99):
        predicted = (marginals > GRID[k]).astype(int)
        assert_allclose(scores[k], example_f1_score(gold.astype(int), predicted))
    running = Tuning(["threshold"], decay=0.5)
    running.add(marginals[:20], gold[:20], np.ones(20))
    running.add(marginals[20:], gold[20:], np.ones(20))
    decayed, *_ = threshold_scores(marginals, gold, np.repeat([0.5, 1.0], 20))
    threshold, rule, value = running.best()
    assert rule == "threshold" and value == pytest.approx(decayed.max() / 30)
    # Of several thresholds that tie, the middle one.
    (tied,) = np.nonzero(decayed > decayed.max() - 1e-10)
    assert threshold == GRID[tied[len(tied) // 2]]


def test_the_tree_has_the_most_mutual_information():
    rng = np.random.default_rng(0)
    Y = (rng.random((200, 4)) < 0.4).astype(float)
    Y[:, 2] = np.where(rng.random(200) < 0.9, Y[:, 0], Y[:, 2])
    Y[:, 3] = np.where(rng.random(200) < 0.8, 1.0 - Y[:, 2], Y[:, 3])
    weights = rng.uniform(0.5, 1.5, size=200)

    def information(i, j):
        total = 0.0
        for a, b in product((0, 1), repeat=2):
            joint = weights[(Y[:, i] == a) & (Y[:, j] == b)].sum() / weights.sum()
            p, q = weights[Y[:, i] == a].sum() / weights.sum(), weights[Y[:, j] == b].sum() / weights.sum()
            total += joint * np.log(joint / (p * q))
        return total

    edges = mutual_information_tree(sparse.csr_array(Y), weights)
    found = sum(information(i, j) for i, j in edges)
    pairs = all_edges(4)
    best = 0.0
    for chosen in product((0, 1), repeat=len(pairs)):
        own = pairs[np.array(chosen, bool)]
        joined = sparse.coo_array((np.ones(len(own)), own.T), shape=(4, 4))
        if len(own) == 3 and sparse.csgraph.connected_components(joined, directed=False)[0] == 1:
            best = max(best, sum(information(i, j) for i, j in own))
    assert len(edges) == 3
    assert_allclose(found, best)
    ordered = sorted((information(i, j) for i, j in pairs), reverse=True)
    for most in (1, 4, 9):
        strongest = strongest_pairs(sparse.csr_array(Y), weights, most)
        assert_allclose(sum(information(i, j) for i, j in strongest), sum(ordered[:most]))
        assert strongest.tolist() == sorted(strongest.tolist()) and len(strongest) == min(most, 6)


def test_pairs_do_not_depend_on_the_size_of_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    Y, weights = sparse.csr_array((rng.random((60, 12)) < 0.3).astype(float)), rng.uniform(0.5, 1.5, size=60)
    found = []
    for cells in (1, 30, 2**16):
        replace(monkeypatch, "estimators", "_CELLS_OF_PAIRS", cells)
        found.append([mutual_information_tree(Y, weights), *(strongest_pairs(Y, weights, most) for most in (5, 40))])
    for one, other in pairwise(found):
        assert all(map(np.array_equal, one, other)) and [len(pairs) for pairs in one] == [11, 5, 40]


@pytest.mark.parametrize("loss", ["sparsemap", "hinge", "logistic"])
def test_losses_do_not_depend_on_the_size_of_blocks(loss, monkeypatch):
    rng = np.random.default_rng(0)
    scores, gold, weights = rng.normal(size=(9, 5)), rng.random((9, 5)) < 0.4, rng.uniform(0.5, 1.5, size=9)
    edges = all_edges(5)
    for own, known in ((edges[:0], None), (edges, None), (edges[:0], rng.random((9, 5)) < 0.7)):
        if (loss == "hinge" and known is not None) or (loss == "logistic" and len(own)):
            continue
        graph, pairs = LabelGraph(5, own), rng.normal(size=len(own))
        found = []
        for cells in (1, 12, 2**20):
            replace(monkeypatch, "_training", "_CELLS", cells)
            replace(monkeypatch, "_training", "_SOLVER_CELLS", cells)
            for as_gold in (gold, sparse.csr_array(gold)):
                task = LabelTask(graph, loss, 0.7, as_gold, weights, known=known)
                found.append(task.loss_gradient(scores, pairs, 1))
        for one, other in pairwise(found):
            assert_array_equal(one[1], other[1])
            assert_allclose(one[2], other[2], rtol=1e-12, atol=1e-14)
            assert one[0] == other[0] and one[3] == other[3] == 0


def test_a_full_graph_of_many_labels_is_sparse():
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((300, 250)) < 0.05).astype(float))
    edges = read_edges("full", np.arange(250), Y, np.ones(300))
    assert len(edges) == 750 and (edges[:, 0] < edges[:, 1]).all()
    tree = read_edges("full", np.arange(250), Y, np.ones(300), loops=False)
    assert_array_equal(tree, mutual_information_tree(Y, np.ones(300)))
    assert len(read_edges("full", np.arange(200), Y[:, :200], np.ones(300))) == 19_900


# -- The estimator -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(300, 20, n_classes=6, n_labels=2, random_state=0)
    return X / 10.0, Y


def quick(**params):
    """Make an estimator that learns by mini-batches, of all edges, and decides by the threshold alone."""
    common = {"solver": "adam", "alpha": 1e-4, "label_graph": "full", "decision": "threshold", "random_state": 0}
    return MultilabelLPSparseMAP(**{"max_iter": 30, "tol": 1e-2, **common, **params})


pytestmark = pytest.mark.filterwarnings("ignore:Adam was still improving")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("label_graph", ["full", "tree", None, [(0, 1), (3, 2)]])
def test_all_kinds_learn(data, loss, label_graph):
    X, Y = data
    model = quick(loss=loss, label_graph=label_graph, eta0=0.05).fit(X[:200], Y[:200])
    assert example_f1_score(Y[200:], model.predict(X[200:])) > 0.5
    n_edges = 0 if loss == "logistic" or label_graph is None else {"full": 15, "tree": 5}.get(str(label_graph), 2)
    assert model.edges_.shape == (n_edges, 2) and model.edge_scores_.shape == (n_edges,)
    assert (model.edges_[:, 0] < model.edges_[:, 1]).all()
    proba = model.predict_proba(X)
    assert proba.shape == Y.shape and (proba > 0).all() and (proba < 1).all()
    assert model.decision_function(X).shape == Y.shape


def test_network_sparse_input_and_threads_give_the_same(data):
    X, Y = data
    X = X * (X > 0.4)
    params = dict(score_model=Network((16,)), early_stopping=True, threshold="auto")
    one = quick(**params).fit(X, Y)
    two = quick(**params, n_jobs=2).fit(X, Y)
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert_array_equal(one.edge_scores_, two.edge_scores_)
    other = quick(**params).fit(sparse.csr_matrix(X), sparse.csr_matrix(Y))
    assert_allclose(other.predict_proba(sparse.csr_array(X)), one.predict_proba(X), atol=1e-6)
    again = pickle.loads(pickle.dumps(one))
    assert_array_equal(again.predict(X), one.predict(X))
    again.partial_fit(X[:50], Y[:50])
    assert len(one.validation_scores_) == len(one.loss_curve_) == one.n_iter_


def test_labels_that_go_together_are_learned():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    Y = np.zeros((600, 3), int)
    Y[:, 0] = X[:, 0] + 0.5 * rng.normal(size=600) > 0
    Y[:, 1] = Y[:, 0]
    Y[:, 2] = (X[:, 1] > 0) & (Y[:, 0] == 0)
    model = quick(edge_eta0=0.02, max_iter=50, tol=1e-3).fit(X, Y, classes=["cat", "pet", "dog"])
    strongest = model.strongest_edges(3)
    assert [edge[:2] for edge in model.strongest_edges(1, "attraction")] == [("cat", "pet")]
    repulsion = [score for _, _, score in model.strongest_edges(3, "repulsion")]
    assert repulsion and max(repulsion) < 0
    assert [abs(s) for *_, s in strongest] == sorted((abs(s) for *_, s in strongest), reverse=True)
    plain = clone(model).set_params(label_graph=None).fit(X, Y)
    assert model.score(X, Y) > plain.score(X, Y)


def test_constraints_hold_in_every_prediction(data):
    X, Y = data
    rng = np.random.default_rng(5)
    for loss in LOSSES:
        fitted = 0
        for _ in range(4):
            resolved = random_constraints(6, rng)
            right = np.array([satisfies(y, resolved) for y in Y])
            if right.sum() < 40:
                continue
            model = quick(constraints=[c for c, _ in resolved], loss=loss, max_iter=4)
            if right.all():
                model.fit(X, Y)
            else:
                with pytest.warns(UserWarning, match=f"the labels of {(~right).sum()} of 300 samples violate"):
                    model.fit(X, Y)
            assert model.n_violations_ == (~right).sum()
            fitted += 1
            rows = np.concatenate([X, 20 * rng.normal(size=(30, 20))])
            for decision in ("threshold", "map"):
                for row in model.set_params(decision=decision).predict(rows):
                    assert satisfies(row, resolved)
        assert fitted > 0, loss


def test_labels_by_name():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    Y = (X > 0).astype(int)
    Y[:, 1] |= Y[:, 0]
    names = ["rock", "music", "live"]
    model = quick(constraints=[Implies("rock", "music"), AtMost(["rock", "live"], 2)])
    model.set_params(label_graph=[("live", "rock")]).fit(X, Y, classes=names)
    assert model.classes_.tolist() == names
    assert model.edges_.tolist() == [[0, 2]]
    with pytest.raises(ValueError, match="names the label 'jazz', which does not exist; the labels are 'rock'"):
        clone(model).set_params(constraints=[Implies("jazz", "music")]).fit(X, Y, classes=names)


@pytest.mark.parametrize(
    "params, message",
    [
        ({"constraints": [AtLeast(4), AtMost(2), Implies(0, 1)]}, r"contradict each other: AtLeast\(4\), AtMost\(2\)$"),
        ({"constraints": [AtLeast(9)]}, r"AtLeast\(9\) asks for 9 of 6 labels"),
        ({"constraints": [Exclusive([0, 0])]}, "names 0 twice"),
        ({"constraints": [Exclusive([0, 7])]}, "names label 7, but there are 6 labels"),
        ({"constraints": "AtMost"}, r"constraints must be a list such as \[AtMost\(3\)\]"),
        ({"constraints": [3]}, "3 is no constraint on labels"),
        ({"label_graph": "star"}, "label_graph='star' is not one of"),
        ({"label_graph": [(0, 0)]}, "joins the label 0 with itself"),
        ({"label_graph": [(0, 1), (1, 0)]}, r"has the pair \[0, 1\] more than once"),
        ({"label_graph": [(0, 1, 2)]}, "an edge is a pair of labels"),
        ({"label_graph": 3}, "label_graph must be"),
        ({"loss": "crf"}, "The 'loss' parameter of MultilabelLPSparseMAP must be a str among .* Got 'crf' instead"),
        (
            {"alpha": -1},
            r"'alpha' parameter .* must be a float in the range \[0.0, inf\) or a str .*{'auto'}.* Got -1 ",
        ),
        ({"score_model": Network(dropout=1.0)}, r"'dropout' parameter .* must be a float in the range \[0.0, 1.0\)"),
        ({"threshold": 1.5}, r"'threshold' parameter .* {'auto'} or a float in the range \[0.0, 1.0\). Got 1.5"),
        ({"threshold": "best"}, "'threshold' parameter .* Got 'best'"),
        ({"constraints": [AtMost(["a"], 1)]}, "the labels are 0, 1, 2, 3, 4, ...; name them by `classes` of fit"),
        ({"label_graph": [(0, "b")]}, r"^label_graph\[0\] names the label 'b'"),
        ({"decision": "round"}, "'decision' parameter .* must be a str among .* Got 'round'"),
        ({"score_model": 5}, "score_model=5; it must be 'linear', 'network', 'trees', 'auto'"),
        ({"score_model": Network((0,))}, r"hidden_layer_sizes must hold positive ints; got \(0,\)"),
        ({"batch_size": 2.5}, r"'batch_size' parameter .* must be an int in the range \[1, inf\) or None"),
        ({"alpha": ("auto", 1.0)}, r"'alpha' parameter .* Got \('auto', 1.0\)"),
        ({"edge_alpha": -1.0}, "'edge_alpha' parameter .* Got -1.0"),
        ({"edge_eta0": 0.0}, "'edge_eta0' parameter .* Got 0.0"),
    ],
)
def test_wrong_parameters_are_refused(data, params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(*data)


@pytest.mark.parametrize(
    "classes, message",
    [(["a", "b"], "there are 6 labels, but names of shape"), (list("aabcde"), "two labels have the same name")],
)
def test_wrong_names_are_refused(data, classes, message):
    with pytest.raises(ValueError, match=message):
        quick().fit(*data, classes=classes)
    with pytest.raises(ValueError, match="classes name the columns of an indicator matrix"):
        quick().fit(data[0], data[1][:, 0], classes=[0, 1])


@pytest.mark.parametrize("dtype", [int, float])
def test_the_labels_of_the_caller_stay_as_they_are(dtype):
    data, indices, indptr = np.array([0, 1, 1, 0, 1], dtype), np.array([2, 0, 1, 2, 0]), np.array([0, 2, 4, 5, 5])
    Y = sparse.csr_array((data, indices, indptr), shape=(4, 3))
    copies = [array.copy() for array in (Y.data, Y.indices, Y.indptr)]
    found = read_indicator(Y)
    for array, copied in zip((Y.data, Y.indices, Y.indptr), copies):
        assert_array_equal(array, copied)
    assert_array_equal(found.toarray(), [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert found.nnz == 3


def test_wrong_data_is_refused(data):
    X, Y = data
    wrong = Y.copy()
    wrong[17, 2] = 5
    with pytest.raises(ValueError, match=r"Y\[17, 2\] is 5; an indicator matrix holds 0 and 1 only"):
        quick().fit(X, wrong)
    with pytest.raises(ValueError, match="MultiLabelBinarizer"):
        quick().fit(X, Y.astype(str))
    sets = [frozenset("abc"[i] for i in range(3) if row[i]) for row in Y]
    for several in (sets, [set(s) for s in sets], [sorted(s) for s in sets], np.array(sets), pd.Series(sets)):
        with pytest.raises(ValueError, match=r"y\[0\] is .*, a legacy multi-label .* use MultilabelLPSparseMAP"):
            StructuredSparseMAPClassifier().fit(X, several)
    with pytest.raises(ValueError, match="constraints are for indicator matrices"):
        quick(constraints=[AtMost(1)]).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="the labels of every sample violate"):
        quick(constraints=[Exactly(6)]).fit(X[Y.sum(axis=1) < 6], Y[Y.sum(axis=1) < 6])
    model = quick().fit(X, Y)
    with pytest.raises(ValueError, match="y was an indicator matrix in the first call"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="y has 5 labels, but the model was fitted with 6"):
        model.partial_fit(X, Y[:, :5])
    with pytest.raises(ValueError, match="X is a RaggedArray"):
        from sklearn_sparsemap import RaggedArray

        model.predict(RaggedArray(X, np.arange(len(X) + 1)))
    with pytest.raises(ValueError, match=r"score_model=Network\(.*\) differs from the fitted 'linear'"):
        clone(model).partial_fit(X, Y).set_params(score_model=Network((3,))).partial_fit(X, Y)


@pytest.mark.parametrize("score_model", ["linear", Network((3,), eta0=1e300)])
def test_divergence_names_a_parameter_that_there_is(data, score_model):
    X, Y = data
    model = quick(score_model=score_model, eta0=1e300, loss="hinge")
    with np.errstate(all="ignore"):
        for method in (model.fit, lambda X, Y: clone(model).partial_fit(X, Y).partial_fit(X, Y)):
            with pytest.raises(ValueError, match=r"training diverged: .* lower eta0"):
                method(X, Y)


def test_non_convergence_is_a_warning(data):
    X, Y = data
    with pytest.warns(ConvergenceWarning, match="Adam was still improving after max_iter=2"):
        MultilabelLPSparseMAP(solver="adam", max_iter=2).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match=r"L-BFGS did not converge \(it reached max_iter.*raise max_iter"):
        MultilabelLPSparseMAP(max_iter=2).fit(X, Y)


def test_a_stream_is_learned(data):
    X, Y = data
    model = MultilabelLPSparseMAP(eta0=0.02, threshold="auto", random_state=0)
    for start in range(0, 2000, 50):
        rows = np.arange(start, start + 50) % 250
        model.partial_fit(sparse.csr_matrix(X[rows]), sparse.csr_matrix(Y[rows]), classes=list("abcdef"))
    assert model.classes_.tolist() == list("abcdef")
    assert model.n_iter_ == len(model.loss_curve_) == 40
    assert 0 < model.threshold_ < 1
    assert example_f1_score(Y[250:], model.predict(X[250:])) > 0.5
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        model.partial_fit(X[:5], Y[:5], classes=list("abcdex"))


def test_what_cannot_change_in_a_stream(data, tmp_path):
    X, Y = data
    model = quick().partial_fit(X, Y)
    with pytest.raises(ValueError, match="constraints cannot change between calls"):
        clone(model).partial_fit(X, Y).set_params(constraints=[AtMost(6)]).partial_fit(X, Y)
    with pytest.raises(ValueError, match="loss='logistic', but the model was fitted with 'sparsemap'"):
        clone(model).partial_fit(X, Y).set_params(loss="logistic").partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"'threshold' parameter .* must be"):
        clone(model).partial_fit(X, Y).set_params(threshold="best").predict(X)
    joblib.dump(model, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_array_equal(mapped.predict(X), model.predict(X))
    mapped.partial_fit(X, Y)
    # Nothing that weighs anything.
    assert model.partial_fit(X, Y, sample_weight=1.0).n_iter_ == 2


def test_a_failed_fit_leaves_the_model_as_it_was(data):
    X, Y = data
    model = quick().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="indicator matrix holds 0 and 1"):
        model.fit(X[:, :2], 2 * Y)
    assert_array_equal(model.predict(X), before)


def test_early_stopping_with_few_samples(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"hold out the fraction 0\.99 of the samples, which is all 3"):
        quick(early_stopping=True, validation_fraction=0.99).fit(X[:3], Y[:3])
    for y in (np.arange(20) // 2, np.arange(20) // 19):
        model = quick(early_stopping=True).fit(X[:20], y)
        assert len(model.validation_scores_) == model.n_iter_ > 0


def test_training_goes_on_while_the_held_out_loss_falls():
    def end(scores, losses):
        """Return after how many epochs training stops, and which epoch's model is kept."""
        model, epochs = NetworkModel([np.zeros((1, 1))], [np.zeros(1)], np.zeros(0)), count()
        monitor = Monitor(
            SimpleNamespace(tol=1e-3, n_iter_no_change=3, _step_size=""),
            SimpleNamespace(iteration=lambda *arguments: False),
            lambda model: scores[next(epochs)], losses and (lambda model: losses[len(monitor.scores) - 1]),
        )  # fmt: skip
        monitor.learner = SimpleNamespace(
            model=lambda: model, expand=lambda model: model, step_name="epoch", max_iter=100
        )
        while not monitor.on_iteration(1.0):
            model.additional = np.full(1, len(monitor.scores) + 0.0)
        return len(monitor.scores), int(monitor.model().additional.sum())

    flat = [0.0] * 6 + [0.5, 0.4, 0.5, 0.3, 0.3, 0.3, 0.9]
    falling = [1.0 - 0.01 * i for i in range(6)] + [2.0] * 7
    assert end(flat, None) == (4, 0)
    assert end(flat, falling) == (10, 8)
    assert end(flat[3:], falling[6:]) == (7, 5)


def test_one_column_is_an_indicator_if_it_has_a_name(data):
    X, Y = data
    model = quick().fit(X, Y[:, :1], classes=["a"])
    assert model.predict(X).shape == (300, 1) and model.classes_.tolist() == ["a"]


def test_a_stream_with_constraints(data):
    X, Y = data
    model = quick(constraints=[AtMost([0, 1], 1)])
    wrong = Y[:, :2].sum(axis=1) == 2
    rule = rf"violate the constraints .*: AtMost\(\[0, 1\], 1\) \({wrong.sum()}\); correct"
    with pytest.warns(UserWarning, match=rule):
        model.partial_fit(X, Y)
    assert model.n_violations_ == wrong.sum() > 0
    # A mini-batch with nothing to learn from.
    with pytest.warns(UserWarning, match="violate the constraints"):
        model.partial_fit(X[wrong][:1], Y[wrong][:1])
    assert model.n_iter_ == 1


def test_which_threshold_serves_which_metric():
    X, Y = make_multilabel_classification(900, 30, n_classes=10, n_labels=3, random_state=0)
    X = StandardScaler().fit_transform(X)
    train, test = slice(600), slice(600, None)
    peer = OneVsRestClassifier(LogisticRegression()).fit(X[train], Y[train])
    sets, examples = [], []
    for threshold in (0.5, "auto"):
        models = [quick(max_iter=60, random_state=seed).set_params(threshold=threshold) for seed in range(2)]
        assert threshold == "auto" or models[0].threshold == MultilabelLPSparseMAP().threshold
        for model in models:
            model.fit(X[train], Y[train])
            assert model.threshold_ == 0.5 if threshold == 0.5 else model.threshold_ < 0.5
        sets.append(np.mean([model.score(X[test], Y[test]) for model in models]))
        examples.append(np.mean([example_f1_score(Y[test], model.predict(X[test])) for model in models]))
    assert sets[0] > peer.score(X[test], Y[test]) - 0.02
    assert sets[1] < sets[0] - 0.03 and examples[1] > examples[0]


def test_map_decides_as_the_threshold_in_the_middle():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    Y = (X[:, :3] + 0.3 * rng.normal(size=(400, 3)) > 0.3).astype(int)
    for loss in LOSSES:
        model = quick(loss=loss, label_graph=None, threshold=0.5, max_iter=60).fit(X, Y)
        by_threshold = model.predict(X)
        assert_array_equal(model.predict_proba(X) > 0.5, by_threshold)
        # Both parameters may be changed after `fit`.
        assert_array_equal(model.set_params(decision="map").predict(X), model.predict_marginals(X) > 0.5)
        assert model.set_params(decision="threshold", threshold=0.9).predict(X).sum() < by_threshold.sum()


def test_one_label_a_sample():
    X, y = load_digits(return_X_y=True)
    X = X[:600] / 16.0
    for loss in LOSSES:
        model = quick(loss=loss, max_iter=60).fit(X[:400], y[:400])
        assert model.score(X[400:], y[400:600]) > 0.8
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    stream = quick(eta0=0.01)
    for start in range(0, 400, 100):
        stream.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.arange(10))
    assert stream.score(X[400:], y[400:600]) > 0.6
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        quick().partial_fit(X, y[:600])


def test_zero_weights_leave_samples_out(data):
    X, Y = data
    weights = np.ones(300)
    weights[200:] = 0.0
    params = dict(threshold=0.5, max_iter=10, batch_size=300)
    model = quick(**params).fit(X, Y, sample_weight=weights)
    other = quick(**params).fit(X[:200], Y[:200])
    assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_in_grid_search_and_pipelines(data):
    X, Y = data
    counts = sparse.csr_matrix(np.round(10 * X))
    pipeline = make_pipeline(TfidfTransformer(), quick(max_iter=8))
    grid = GridSearchCV(
        pipeline,
        {"multilabellpsparsemap__alpha": [1e-4, 10.0], "multilabellpsparsemap__label_graph": ["full", "tree", None]},
        scoring=example_f1_scorer,
        cv=2,
        error_score="raise",
    ).fit(counts, Y)
    assert grid.best_params_["multilabellpsparsemap__alpha"] == 1e-4
    assert grid.best_estimator_.predict(counts).shape == Y.shape
    found = cross_val_predict(quick(max_iter=8), X, Y, cv=2, method="predict_proba")
    assert found.shape == Y.shape


def test_constraints_are_values():
    assert AtMost(["a"], 2) == AtMost(["a"], 2) != AtMost(["a"], 3)
    assert hash(Implies(0, 1)) == hash(Implies(0, 1))
    assert (
        repr(Exactly(1, labels=[0, 2])) == repr(Exactly([0, 2], 1)) == "Exactly([0, 2], 1)"
        and repr(Exactly(1)) == "Exactly(1)"
    )
    for make in (lambda: AtMost(-1), lambda: AtLeast(1.5), lambda: Exactly(True), lambda: Exclusive("ab")):
        with pytest.raises(ValueError):
            make()


def test_a_sample_far_from_the_others():
    """With edges, large scores raised an error of NumPy; a message about them named ``scores``."""
    X, Y = make_multilabel_classification(60, 4, n_classes=3, n_labels=1, random_state=0)
    X = StandardScaler().fit_transform(X)
    far = X.copy()
    far[5] *= 1e9
    model = MultilabelLPSparseMAP(label_graph="full", max_iter=3, random_state=0).fit(X, Y)
    assert_array_equal(np.delete(model.predict(far), 5, axis=0), np.delete(model.predict(X), 5, axis=0))
    marginals = model.predict_marginals(far)
    assert_allclose(np.delete(marginals, 5, axis=0), np.delete(model.predict_marginals(X), 5, axis=0), atol=1e-8)
    # The edges are negligible for this sample.
    assert_array_equal(marginals[5] == 1.0, far[5] @ model.coef_.T > 0.0)
    # At the vertex that scores of 1e18 favour, labels tie up to rounding.
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(40, 3)), rng.random((40, 4)) < 0.4
    with pytest.warns(UserWarning, match="left out"), pytest.warns(ConvergenceWarning):
        rules = [Implies(1, 0), AtMost([0, 2, 3], 2)]
        model = MultilabelLPSparseMAP(constraints=rules, score_model="linear", max_iter=3).fit(X, Y)
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, Y)
    X[5] = 1e18
    for act in (model.predict_marginals, sets.predict_set):
        with pytest.raises(ValueError, match=r"^the scores of X\[5\].* are so large.*Scale the features$"):
            act(X)


ONE_BY_ONE = {
    "no rules": {},
    "implications": {"constraints": [Implies(1, 0), Implies(2, 0)]},
    "a hierarchy": {"constraints": [Hierarchy([None, 0, 0])]},
    "edges": {"label_graph": "full", "max_iter": 3},
    "a map": {"constraints": [Implies(1, 0), AtMost(2)], "decision": "map"},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_a_sample_alone_is_predicted_as_in_a_batch(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X + rng.normal(size=X.shape) > 0.2).astype(int)
    Y[:, 0] |= Y[:, 1] | Y[:, 2]
    model = MultilabelLPSparseMAP(score_model="linear", random_state=0, **ONE_BY_ONE[name]).fit(X, Y)
    for method in (model.predict_proba, model.predict_marginals, model.decision_function, model.predict):
        alone = np.concatenate([method(X[i : i + 1]) for i in range(len(X))])
        np.testing.assert_allclose(alone, method(X), atol=1e-9)
