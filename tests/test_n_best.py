"""The k best structures, by enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
from internals import replace
from registry import RANDOM
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import map_inference, n_best
from sklearn_sparsemap.factors import AtMost, FactorGraph, Or, Pair, StructureFactor
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import LinearChain, Matching, Subset


def as_key(structure):
    return tuple(np.ravel(structure).tolist())


@pytest.mark.parametrize("name", RANDOM)
def test_n_best_is_that_of_all_structures(name):
    rng, counted = np.random.default_rng(0), 0
    n = 120 if name in ("simplex", "chain", "tree", "matching", "subset") else 18
    for i in range(n):
        instance = RANDOM[name](rng, ties=i % 3 == 0, forbid=i % 2 == 0, scale=(0.1, 1.0, 30.0)[i % 3])
        structures, _, theta = instance.enumerate()
        allowed = theta > -np.inf
        k = int(rng.integers(1, 9))
        found = n_best(instance.structure, instance.scores, k, **instance.additional)
        expected = np.sort(theta[allowed])[::-1][:k]
        np.testing.assert_allclose([value for _, value in found], expected, rtol=1e-9, atol=1e-9)
        value_of = {as_key(s): v for s, v in zip(structures, theta, strict=True)}
        assert len({as_key(s) for s, _ in found}) == len(found)
        for structure, value in found:
            assert value_of[as_key(structure)] == pytest.approx(value, rel=1e-9, abs=1e-9)
            counted += 1
    assert counted > 1.2 * n


def test_n_best_of_many_samples_and_long_chains():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(n, 4)) for n in (3, 60)]
    T = rng.normal(size=(4, 4))
    found = n_best(LinearChain(), scores, 20, transitions=T)
    for own, best in zip(scores, found, strict=True):
        values = [value for _, value in best]
        assert values == sorted(values, reverse=True) and len(values) == 20
        assert values[0] == pytest.approx(map_inference(LinearChain(), own, transitions=T).value)


def test_what_is_refused():
    with pytest.raises(ValueError, match="k must be a positive int"):
        n_best(Subset(), [1.0], 0)
    with pytest.raises(ValueError, match=r"infeasible: scores\[1\]"):
        n_best(LinearChain(), [[[0.0]], [[-np.inf]]], 2)
    with pytest.raises(ValueError, match="infeasible: scores "):
        n_best(Subset(1), [-np.inf], 2)


def graph_of_everything(n, rng):
    """Return a graph of logic, pairs and a chain, and additional scores."""
    graph = FactorGraph()
    u = graph.variables((n, 2))
    graph.add(StructureFactor(LinearChain(), u, name="chain"), AtMost(u[:, 1], n - 1))
    graph.add(u[0, 1] >> ~u[1, 1], Pair(u[:-1, 0], u[1:, 0], name="pairs"))
    return graph, {"chain": {"transitions": rng.normal(size=(2, 2))}, "pairs": rng.normal(size=n - 1)}


def fits_everything(y):
    """Say if an assignment satisfies the factors of `graph_of_everything`."""
    return (y.sum(axis=1) == 1).all() and y[:, 1].sum() <= len(y) - 1 and not (y[0, 1] and y[1, 1])


def fits_logic(y):
    return y[0].any() and [1.0, -2.0, 1.5] @ y[:, 0] <= 1.0


def test_n_best_of_graphs_equals_enumeration():
    rng, n_compared = np.random.default_rng(0), 0
    for trial in range(24):
        if trial % 2:
            (graph, additional), is_allowed = graph_of_everything(3, rng), fits_everything
        else:
            graph, additional = FactorGraph(), {"p": rng.normal(size=2)}
            u = graph.variables((3, 2))
            graph.add(Or(u[0]), AtMost([1.0, -2.0, 1.5] @ u[:, 0], 1.0), Pair(u[0], u[1], name="p"))
            is_allowed = fits_logic
        scores = rng.normal(size=(3, 2))
        everything = [y for y in np.array(list(product((False, True), repeat=6))).reshape(-1, 3, 2) if is_allowed(y)]
        # Each assignment takes a search of its own, so a few trials list all of them.
        k = len(everything) + 2 if trial % 8 < 2 else int(rng.integers(1, 7))
        found = n_best(graph, scores, k, additional=additional)
        assert len(found) == min(k, len(everything))
        assert len({y.tobytes() for y, _ in found}) == len(found)
        totals = {y.tobytes(): total_of(scores, additional, y) for y in everything}
        for y, value in found:
            assert value == pytest.approx(totals[y.tobytes()], abs=1e-9)
        best = sorted(totals.values(), reverse=True)
        np.testing.assert_allclose([value for _, value in found], best[: len(found)], atol=1e-7)
        n_compared += len(found)
    assert n_compared > 100


def total_of(scores, additional, y):
    """Return the total score of an assignment, by its definition."""
    total = float(scores[y].sum())
    if "p" in additional:
        return total + float((additional["p"] * y[0] * y[1]).sum())
    path, transitions = y[:, 1].astype(int), additional["chain"]["transitions"]
    total += sum(transitions[a, b] for a, b in pairwise(path))
    return total + float((additional["pairs"] * y[:-1, 0] * y[1:, 0]).sum())


def test_n_best_of_graphs_in_lists():
    graph = FactorGraph()
    u = graph.variables(2)
    graph.add(Or(u))
    several = n_best(graph, [[1.0, 2.0], [-1.0, -2.0]], 5)
    assert [[y.tolist() for y, _ in best] for best in several] == [
        [[True, True], [False, True], [True, False]],
        [[True, False], [False, True], [True, True]],
    ]
    with pytest.raises(ValueError, match=r"infeasible: under scores\[1\]"):
        n_best(graph, [[1.0, 2.0], [-np.inf, -np.inf]], 2)


def test_wrong_keywords_of_graphs_are_named():
    graph = FactorGraph()
    graph.add(Or(graph.variables(2)))
    for function, arguments in ((n_best, (2,)), (map_inference, ())):
        with pytest.raises(TypeError, match=r"got 'p'\. Pass the scores of a graph by factor"):
            function(graph, [1.0, 2.0], *arguments, p=3.0)
        for name, wrong in (("tol", -1.0), ("tol", "small"), ("map_time_limit", 0.0), ("map_time_limit", "short")):
            with pytest.raises(ValueError, match=f"{name} must be a positive number; got {wrong!r}"):
                function(graph, [1.0, 2.0], *arguments, **{name: wrong})


def two_matchings(n):
    """Return a graph of two matchings over the same variables in another order, which is hard, and scores."""
    rng, graph = np.random.default_rng(0), FactorGraph()
    u, orders = graph.variables(n * n), (np.arange(n * n), rng.permutation(n * n))
    graph.add(*[StructureFactor(Matching(), u[order.reshape(n, n)]) for order in orders])
    return graph, rng.normal(size=n * n)


def test_a_search_that_ends_without_an_assignment_warns(monkeypatch):
    graph, scores = two_matchings(5)
    best = map_inference(graph, scores, map_time_limit=None)
    replace(monkeypatch, "inference", "MOST_NODES", 1)
    # No limit of time is no limit of relaxations either.
    again = map_inference(graph, scores, map_time_limit=None)
    assert again.value == best.value and again.bound - again.value <= 1e-9
    with pytest.warns(ConvergenceWarning, match=r"1 samples \(0\).*no assignment was found"):
        assert map_inference(graph, scores).value == -np.inf
    with pytest.warns(ConvergenceWarning, match="no assignment was found"):
        assert n_best(graph, scores, 2) == []
    with pytest.warns(ConvergenceWarning, match="no assignment was found"):
        normalized_regret(scores[None], np.zeros((1, 25)), graph)


def test_a_partition_searches_a_few_sets_at_once(monkeypatch):
    # All sets of a partition of 20,000 items together would need 3 GB.
    scores, sizes = np.random.default_rng(0).normal(size=30), []
    expected = n_best(Subset(2, 28), scores, 40)

    def counted(structure, problems, n_jobs):
        sizes.append(problems.scores.size)
        return search(structure, problems, n_jobs)

    search = replace(monkeypatch, "inference", "map_where_feasible", counted)
    replace(monkeypatch, "inference", "_MOST_SCORES", 100)
    found = n_best(Subset(2, 28), scores, 40)
    assert max(sizes) <= 100
    assert [(y.tolist(), value) for y, value in found] == [(y.tolist(), value) for y, value in expected]
