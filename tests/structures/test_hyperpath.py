"""Derivations in directed acyclic hypergraphs, against enumeration and against other structures."""

import pickle

import numpy as np
import pytest
from derivative_cases import compare_derivatives
from naive_hyperpath import (
    all_derivations,
    bracketings,
    enumerate_derivations,
    has_repeats,
    random_derivable,
    random_hypergraph,
    target_of,
)
from registry import random_edges, random_hyperpath
from scipy.special import logsumexp, softmax

from sklearn_sparsemap import (
    StructuredSparseMAPClassifier,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.structures import Hyperpath, Path, Segmentation

BRACKETS = Hyperpath(*bracketings(4)[:2])


def trees_by_shape(shape):
    return bracketings({1: 2, 4: 3, 10: 4}[shape[0]])[:2]


def test_hypergraphs_have_the_results_of_all_their_derivations(draws):
    rng, n_graphs = np.random.default_rng(0), draws(300)
    counts = {"mixed": 0, "forbidden": 0, "unused": 0, "binary": 0, "ties": 0, "fixed": 0}
    for i in range(n_graphs):
        instance = random_hyperpath(rng, ties=i % 5 == 0, forbid=i % 3 == 0, scale=(0.3, 1.0, 10.0)[i % 7 % 3])
        structure, scores = instance.structure, instance.scores
        derivations, M, theta = instance.enumerate()
        allowed = theta > -np.inf
        found, value = map_inference(structure, scores)
        assert value == pytest.approx(theta.max(), abs=1e-9)
        assert theta[derivations.index(tuple(found))] == pytest.approx(value, abs=1e-9)
        gibbs = marginal_inference(structure, scores)
        np.testing.assert_allclose(gibbs.marginals, M @ softmax(theta), atol=1e-9)
        assert gibbs.log_partition == pytest.approx(logsumexp(theta), abs=1e-9)
        result = sparsemap(structure, scores)
        u = result.marginals
        # The optimum of the enumerated problem: feasible, and no derivation is better than the mean.
        reduced = theta - M.T @ u
        places = [derivations.index(tuple(own)) for own in result.structures]
        np.testing.assert_allclose(M[:, places] @ result.weights, u, atol=1e-9)
        gap = reduced[allowed].max() - reduced[places] @ result.weights
        assert result.converged and gap <= 1e-9 * max(1.0, np.abs(theta[allowed]).max())
        assert result.gap == pytest.approx(max(gap, 0.0), abs=1e-9)
        best = n_best(structure, scores, 4)
        expected = np.sort(theta[allowed])[::-1][:4]
        np.testing.assert_allclose([value for _, value in best], expected, atol=1e-9)
        assert len({tuple(own) for own, _ in best}) == len(best)
        np.testing.assert_allclose([theta[derivations.index(tuple(own))] for own, _ in best], expected, atol=1e-9)
        assert structure.fixed_size == (len({sum(own) for own in derivations}) == 1)
        counts["mixed"] += len(result.weights) > 1
        counts["forbidden"] += not allowed.all()
        counts["unused"] += not M.any(axis=1).all()
        counts["binary"] += bool((structure.tails[:, 0] != structure.tails[:, 1]).all())
        counts["ties"] += len(np.unique(theta[allowed])) < allowed.sum()
        counts["fixed"] += structure.fixed_size
    assert min(counts.values()) > n_graphs // 20, counts


def test_hypergraphs_in_which_a_derivation_could_have_a_node_twice_are_refused():
    rng, n_refused = np.random.default_rng(1), 0
    for _ in range(500):
        heads, tails, target = random_hypergraph(rng, int(rng.integers(2, 7)), int(rng.integers(1, 9)))
        is_refused = has_repeats(all_derivations(heads, tails, target_of(heads, tails, target)))
        if is_refused:
            with pytest.raises(ValueError, match=r"both tails of hyperarc .* make a copy of the node"):
                Hyperpath(heads, tails, target)
        else:
            Hyperpath(heads, tails, target)
        n_refused += is_refused
    assert 50 < n_refused < 400


def test_derivatives_are_those_of_finite_differences():
    assert compare_derivatives(random_hyperpath, 200, np.random.default_rng(2)) > 40


def test_hyperarcs_with_one_tail_are_the_edges_of_paths():
    rng = np.random.default_rng(3)
    for _ in range(200):
        edges, source, target = random_edges(rng, int(rng.integers(2, 7)), int(rng.integers(0, 9)))
        # Only the source may be given, so that derivations begin there.
        kept = np.array([True] * len(edges))
        while True:
            tails = edges[kept, 0]
            dead = kept & (edges[:, 0] != source) & ~np.isin(edges[:, 0], edges[kept, 1])
            dead |= kept & (edges[:, 1] == source)
            if not dead.any():
                break
            kept &= ~dead
        edges, tails = edges[kept], edges[kept, 0]
        path = Path(edges, source, target)
        own = Hyperpath(edges[:, 1], np.column_stack([tails, np.full(len(edges), -1)]), target)
        assert own.layout((len(edges),), {})[1][0] == path.layout((len(edges),), {})[1][0]
        scores = rng.normal(size=len(edges))
        np.testing.assert_array_equal(map_inference(own, scores).structure, map_inference(path, scores).structure)
        for infer in (sparsemap, marginal_inference):
            np.testing.assert_allclose(infer(own, scores).marginals, infer(path, scores).marginals, atol=1e-9)


def test_segmentations_are_hyperpaths():
    rng = np.random.default_rng(4)
    for n, longest, m in ((4, 2, 2), (6, 3, 2), (5, 5, 1)):
        structure = Segmentation(longest, parts="spans")
        scores, transitions = rng.normal(size=(n, longest, m)), rng.normal(size=(m, m))
        # Nodes (end, label) follow the start, node 0. A span has a hyperarc for each label before it.
        heads, tails, own, span_of = [], [], [], []
        for end in range(1, n + 1):
            for length in range(1, min(longest, end) + 1):
                for label in range(m):
                    begin = end - length
                    for last in range(m) if begin else [None]:
                        heads.append(1 + end * m + label)
                        tails.append([0 if last is None else 1 + begin * m + last, -1])
                        score = scores[begin, length - 1, label]
                        own.append(score if last is None else score + transitions[last, label])
                        span_of.append((begin, length - 1, label))
        final = 1 + (n + 1) * m
        for label in range(m):
            heads.append(final)
            tails.append([-1, 1 + n * m + label])
            own.append(0.0)
        hyperpath = Hyperpath(heads, tails)
        assert map_inference(hyperpath, own).value == pytest.approx(
            map_inference(structure, scores, transitions=transitions).value
        )
        expected = marginal_inference(structure, scores, transitions=transitions)
        found = marginal_inference(hyperpath, own)
        assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
        marginals = np.zeros_like(scores)
        for span, probability in zip(span_of, found.marginals):
            marginals[span] += probability
        np.testing.assert_allclose(marginals, expected.marginals, atol=1e-9)


def test_bracketings_are_those_of_the_recursion_over_spans():
    rng, n = np.random.default_rng(5), 12
    heads, tails, keys = bracketings(n, labels=2)
    scores = rng.normal(size=len(keys))
    score_of = dict(zip(keys, scores))
    inside, best = {}, {}
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            ways = [
                (inside[i, k] + inside[k, j] + score_of[i, k, j, a], best[i, k] + best[k, j] + score_of[i, k, j, a])
                for k in range(i + 1, j)
                for a in range(2)
            ]
            inside[i, j] = logsumexp([way[0] for way in ways]) if ways else 0.0
            best[i, j] = max(way[1] for way in ways) if ways else 0.0
    brackets = Hyperpath(heads, tails)
    gibbs = marginal_inference(brackets, scores)
    assert map_inference(brackets, scores).value == pytest.approx(best[0, n])
    assert gibbs.log_partition == pytest.approx(inside[0, n])
    assert gibbs.marginals.sum() == pytest.approx(n - 1)
    for k in rng.choice(len(scores), 5, replace=False):
        sides = [
            marginal_inference(brackets, scores + sign * 1e-5 * (np.arange(len(scores)) == k)).log_partition
            for sign in (1.0, -1.0)
        ]
        assert gibbs.marginals[k] == pytest.approx((sides[0] - sides[1]) / 2e-5, abs=1e-8)


def test_a_budget_holds_over_a_derivation():
    rng, n_changed = np.random.default_rng(10), 0
    derivations = [np.array(own) for own in enumerate_derivations(np.zeros(10), *bracketings(4)[:2])[0]]
    for _ in range(20):
        scores, tolls = rng.normal(size=10), rng.integers(0, 2, 10)
        limit = int(np.median([tolls @ own for own in derivations]))
        graph = FactorGraph()
        u = graph.variables(10)
        graph.add(StructureFactor(BRACKETS, u), Budget([u[k] for k in np.flatnonzero(tolls)], limit))
        best = max(own @ scores for own in derivations if tolls @ own <= limit)
        assert map_inference(graph, scores).value == pytest.approx(best)
        n_changed += best < max(own @ scores for own in derivations) - 1e-9
    assert n_changed > 3


def test_known_hyperarcs_leave_the_derivations_that_agree():
    rng, counts = np.random.default_rng(7), {"agree": 0, "none": 0, "in no derivation": 0}
    for _ in range(500):
        heads, tails, target, derivations = random_derivable(rng)
        structure, n = Hyperpath(heads, tails, target), len(heads)
        known = [None] * n
        for arc in rng.choice(n, min(n, 3), replace=False):
            known[arc] = [None, False, True][rng.integers(3)]
        agreeing = {
            tuple(own) for own in derivations if all(k is None or k == (arc in own) for arc, k in enumerate(known))
        }
        used = {arc for own in derivations for arc in own}
        if any(k and arc not in used for arc, k in enumerate(known)):
            with pytest.raises(ValueError, match="is in no derivation of node"):
                structure.forbidden_by(known, (n,))
            counts["in no derivation"] += 1
            continue
        forbidden = structure.forbidden_by(known, (n,))
        assert {tuple(own) for own in derivations if not forbidden[own].any()} == agreeing
        counts["agree" if agreeing else "none"] += 1
    assert min(counts.values()) > 50, counts
    for known, message in (([None], "there are 10 hyperarcs"), ([2] + [None] * 9, "is True, False or None; got 2")):
        with pytest.raises(ValueError, match=message):
            BRACKETS.forbidden_by(known, (10,))


@pytest.mark.parametrize("structure", [BRACKETS, Hyperpath(trees_by_shape)], ids=["arrays", "by shape"])
def test_estimators_learn_derivations(structure):
    rng, weights = np.random.default_rng(8), np.array([1.0, -1.0, 0.5])
    sizes = [10] * 40 if structure is BRACKETS else [10, 4] * 20
    X = [rng.normal(size=(size, 3)) for size in sizes]
    y = [map_inference(Hyperpath(*trees_by_shape((len(x),))), x @ weights).structure for x in X]
    for loss in ("sparsemap", "crf"):
        model = StructuredSparseMAPClassifier(structure, loss=loss).fit(X[:30], y[:30])
        assert model.score(X[30:], y[30:]) > 0.75
    # The root of the tree is known.
    known = [None] * 10
    known[9] = True
    (found,) = model.predict(X[:1], known=[known])
    assert found[9] and len(model.predict_n_best(X[:1], k=3)[0]) == 3
    # Files hold arrays, but no functions.
    given = {} if structure is BRACKETS else {"structure": structure}
    again = StructuredSparseMAPClassifier.from_arrays(model.to_arrays(), **given)
    assert again.structure == structure
    for found, expected in zip(again.predict(X), model.predict(X), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_samples_of_several_sizes_have_the_results_that_each_has_alone():
    rng, by_shape = np.random.default_rng(9), Hyperpath(trees_by_shape)
    scores = [rng.normal(size=n) for n in (4, 10, 1, 10)]
    for infer in (sparsemap, marginal_inference):
        alone = [infer(Hyperpath(*trees_by_shape(own.shape)), own).marginals for own in scores]
        for found, expected in zip(infer(by_shape, scores), alone, strict=True):
            np.testing.assert_array_equal(found.marginals, expected)
    assert [map_inference(by_shape, np.ones(n)).value for n in (1, 4, 10)] == [1.0, 2.0, 3.0]
    assert [len(found) for found in n_best(by_shape, scores, 6)] == [2, 5, 1, 5]


def test_it_is_a_value():
    other = pickle.loads(pickle.dumps(BRACKETS))
    assert other == BRACKETS != Hyperpath(*bracketings(3)[:2]) and len({other, BRACKETS}) == 1
    assert repr(BRACKETS) == "Hyperpath(10 hyperarcs)"
    assert repr(Hyperpath([1, 2], [[0, -1], [1, -1]], target=1)) == "Hyperpath(2 hyperarcs, target=1)"
    assert Hyperpath(trees_by_shape) == pickle.loads(pickle.dumps(Hyperpath(trees_by_shape)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hyperpath([[1]], [[0, -1]]), r"heads must be ints of shape \(n_arcs,\)"),
        (lambda: Hyperpath([], np.zeros((0, 2), int)), "heads must be ints"),
        (lambda: Hyperpath([1.0], [[0, -1]]), "heads must be ints"),
        (lambda: Hyperpath([1], None), r"tails must be ints of shape \(1, 2\)"),
        (lambda: Hyperpath([1], [[0]]), r"tails must be ints of shape \(1, 2\)"),
        (lambda: Hyperpath([1], [[0, 0.5]]), "tails must be ints"),
        (lambda: Hyperpath([1, -1], [[0, -1], [0, -1]]), r"heads\[1\] is negative"),
        (lambda: Hyperpath(np.array([2**63 + 2], np.uint64), [[0, -1]]), "heads has the node 9223372036854775810"),
        (lambda: Hyperpath(np.ma.masked_equal([1, 2], 2), [[0, -1], [1, -1]]), "heads is a masked array"),
        (lambda: BRACKETS.heads.__setitem__(0, 1), "read-only"),
        (lambda: BRACKETS.tails.__setitem__(0, 1), "read-only"),
        (lambda: Hyperpath([1], [[0, -2]]), r"tails\[0, 1\] is -2; a tail is a node, or -1 for none"),
        (
            lambda: Hyperpath([1], [[2, -1]]),
            "has the head 2, the last node, which is the target by default",
        ),
        (lambda: Hyperpath([1], [[0, -1]], target=7), "no hyperarc has the head 7 as target"),
        (lambda: Hyperpath([1], [[0, -1]], target=0), "no hyperarc has the head 0 as target"),
        (lambda: Hyperpath([1], [[0, -1]], target=True), "target must be a node"),
        (lambda: Hyperpath([1, 2, 1], [[0, -1], [1, -1], [0, 2]]), "has a cycle, (1 -> 2 -> 1|2 -> 1 -> 2)"),
        (lambda: Hyperpath([1, 3], [[1, -1], [0, -1]]), "has a cycle, 1 -> 1"),
        (lambda: Hyperpath([1, 2], [[0, -1], [1, 1]]), "both tails of hyperarc 1 lead to node 1"),
        (lambda: Hyperpath(trees_by_shape, [[0, -1]]), "omit tails"),
        (lambda: map_inference(Hyperpath(lambda shape: 3), [1.0]), "must return two arrays, heads and tails"),
        (lambda: map_inference(Hyperpath(lambda shape: ([1], [[0, -1]])), [1.0] * 2), "returned 1 hyperarcs"),
        (lambda: map_inference(BRACKETS, [1.0]), "this hypergraph has 10 hyperarcs, but there are 1 scores"),
        (lambda: map_inference(BRACKETS, [-np.inf] * 10), "infeasible"),
        (lambda: BRACKETS.encode([0, 1], BRACKETS.dims((10,), {})), "a derivation is 10 bools, or 0 and 1"),
        (lambda: BRACKETS.encode([1] + [0] * 9, BRACKETS.dims((10,), {})), r"\[0\] are no derivation of node 9"),
        (lambda: BRACKETS.encode([0] * 10, BRACKETS.dims((10,), {})), "are no derivation"),
        (lambda: BRACKETS.encode([1] * 10, BRACKETS.dims((10,), {})), "are no derivation"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
