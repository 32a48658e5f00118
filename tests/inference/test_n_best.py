"""The k best structures, by enumeration."""

import sys
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from internals import replace
from numpy.testing import assert_allclose
from registry import RANDOM, Instance, draw
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, n_best
from sklearn_sparsemap.factors import AtMost, FactorGraph, Or, Pair, StructureFactor
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import (
    Alignment,
    DependencyTree,
    HeadAutomaton,
    LinearChain,
    Matching,
    Ranking,
    Segmentation,
    SequenceBudget,
    Subset,
)


def as_key(structure):
    return tuple(np.ravel(structure).tolist())


def check_list(instance, found, k):
    """Compare a list of structures with all structures of an instance; return its length."""
    structures, _, theta = instance.enumerate()
    expected = np.sort(theta[theta > -np.inf])[::-1][:k]
    values = [value for _, value in found]
    assert_allclose(values, expected, rtol=1e-9, atol=1e-9)
    assert values == sorted(values, reverse=True)
    value_of = {as_key(s): v for s, v in zip(structures, theta, strict=True)}
    assert len({as_key(s) for s, _ in found}) == len(found)
    assert_allclose([value_of[as_key(s)] for s, _ in found], values, rtol=1e-9, atol=1e-9)
    return len(found)


@pytest.mark.parametrize("name", RANDOM)
def test_n_best_is_that_of_all_structures(name, draws):
    rng, n, n_compared, n_complete = np.random.default_rng(0), draws(200), 0, 0
    for i in range(n):
        instance = RANDOM[name](rng, ties=i % 3 == 0, forbid=i % 2 == 0, scale=(0.1, 1.0, 30.0)[i % 3])
        k = int(rng.integers(1, 9)) if i % 4 else 10**12
        found = n_best(instance.structure, instance.scores, k, **instance.additional)
        n_compared += check_list(instance, found, k)
        # Ties are in the same order for each k.
        first = int(rng.integers(1, len(found) + 1))
        again = n_best(instance.structure, instance.scores, first, **instance.additional)
        assert [(as_key(s), v) for s, v in again] == [(as_key(s), v) for s, v in found[:first]]
        n_complete += len(found) < k
    assert n_compared > 1.2 * n and n_complete >= n // 4


def large_instances(rng, ties):
    """Yield problems with thousands of structures, of which long lists are compared."""
    yield Instance(LinearChain(), draw(rng, (6, 4), 1.0, ties), {"transitions": draw(rng, (4, 4), 1.0, ties)})
    yield Instance(SequenceBudget(3), draw(rng, (7, 3), 1.0, ties), {"transitions": draw(rng, (3, 3), 1.0, ties)})
    for projective in (False, True):
        for single_root in (False, True):
            yield Instance(DependencyTree(projective, single_root), draw(rng, (6, 5), 1.0, ties), {})
    yield Instance(Matching(), draw(rng, (6, 6), 1.0, ties), {})
    yield Instance(Matching(), draw(rng, (6, 4), 1.0, ties), {})
    yield Instance(Subset(2, 8), draw(rng, 11, 1.0, ties), {})
    yield Instance(Ranking(), draw(rng, 6, 1.0, ties), {})
    yield Instance(Ranking(3), draw(rng, 9, 1.0, ties), {})
    for kind in ("warping", "global", "local"):
        yield Instance(Alignment(kind), draw(rng, (5, 5), 1.0, ties), {})
    yield Instance(Segmentation(3), draw(rng, (6, 3), 1.0, ties), {"durations": draw(rng, (3, 3), 1.0, ties)})
    yield Instance(HeadAutomaton(), draw(rng, 9, 1.0, ties), {"siblings": draw(rng, (10, 10), 1.0, ties)})


@pytest.mark.parametrize("ties", [False, True])
def test_long_lists(ties, draws):
    # The queue of candidates drops those that are not needed, and grows.
    rng = np.random.default_rng(1)
    for _ in range(draws(1)):
        for instance in large_instances(rng, ties):
            for k in (150, 700):
                found = n_best(instance.structure, instance.scores, k, **instance.additional)
                assert check_list(instance, found, k) > 100


def test_n_best_of_many_samples_and_long_chains():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(n, 4)) for n in (3, 60, 1, 7, 60, 2)]
    T = rng.normal(size=(4, 4))
    found = n_best(LinearChain(), scores, 20, transitions=T)
    for own, best in zip(scores, found, strict=True):
        values = [value for _, value in best]
        assert values == sorted(values, reverse=True) and len(values) == min(20, 4 ** len(own))
        assert values[0] == pytest.approx(map_inference(LinearChain(), own, transitions=T).value)
        alone = n_best(LinearChain(), own, 20, transitions=T)
        assert [(as_key(s), v) for s, v in alone] == [(as_key(s), v) for s, v in best]


@pytest.mark.parametrize("structure", [LinearChain(), Matching(), DependencyTree(), Subset(1, 5), Ranking(2)])
def test_the_number_of_threads_changes_nothing(structure):
    rng = np.random.default_rng(2)
    shape_of = {LinearChain: lambda n: (n, 3), DependencyTree: lambda n: (n + 1, n), Matching: lambda n: (n, 5)}
    sizes = (3, 9, 5, 4, 8, 2, 6, 7) * 5
    scores = [np.round(rng.normal(size=shape_of.get(type(structure), int)(n))) for n in sizes]
    found = [n_best(structure, scores, 30, n_jobs=n_jobs) for n_jobs in (1, 2)]
    first, second = ([[(as_key(s), v) for s, v in best] for best in lists] for lists in found)
    assert first == second


def test_masks_do_not_cost_digits():
    rng, masks = np.random.default_rng(3), (-1e10, -1e30, float(np.finfo(np.float32).min))
    for trial in range(36):
        # Every path has a masked state, and some have masked transitions.
        scores, T = np.round(rng.normal(size=(5, 3)), 2), np.round(rng.normal(size=(3, 3)), 2)
        scores[2], T[rng.random((3, 3)) < 0.2] = masks[trial % 3], masks[trial // 3 % 3]
        additional = {"transitions": T} if trial % 2 else {}
        found = n_best(LinearChain(), scores, 1000, **additional)
        totals = []
        for path, _ in found:
            terms = [*scores[np.arange(5), path], *(T[a, b] for a, b in pairwise(path) if additional)]
            totals.append(sum(map(Fraction, terms)))
        assert len({as_key(path) for path, _ in found}) == 3**5
        assert all(a - b >= Fraction(-1e-12) for a, b in pairwise(totals))
        assert_allclose([value for _, value in found], list(map(float, totals)), rtol=1e-12)


def test_known_parts_hold_in_all_structures():
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(n, 4)) for n in (3, 5, 4, 6)]
    y = [rng.integers(3, size=len(x)) for x in X]
    model = StructuredSparseMAPClassifier("chain", max_iter=5, tol=10.0).fit(X, y)
    known = [[None, 2, *[None] * (len(x) - 2)] for x in X]
    best = model.predict_n_best(X, 500, known=known)
    everything = model.predict_n_best(X, 5000)
    for x, own, complete in zip(X, best, everything, strict=True):
        assert len(own) == min(500, 3 ** (len(x) - 1)) and len(complete) == 3 ** len(x)
        expected = [value for path, value in complete if path[1] == 2]
        assert all(path[1] == 2 for path, _ in own)
        assert_allclose([value for _, value in own], expected[:500], atol=1e-9)


MEMORY = """
import resource
import numpy as np
from sklearn_sparsemap import n_best
from sklearn_sparsemap.structures import *
rng = np.random.default_rng(0)
cases = [
    (Subset(), (9,), (20_000,)), (LinearChain(), (3, 4), (5_000, 4)), (Matching(), (3, 3), (50, 400)),
    (DependencyTree(projective=True), (4, 3), (141, 140)), (Ranking(5), (9,), (20_000,)),
]
for structure, small, large in cases:
    n_best(structure, rng.normal(size=small), 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for structure, small, large in cases:
    assert len(n_best(structure, rng.normal(size=large), 100)) == 100
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is in kilobytes on Linux")
def test_memory_of_large_samples(fresh_python):
    out = fresh_python(MEMORY)
    assert out.returncode == 0, out.stderr
    assert float(out.stdout) < 100.0


INTERRUPTED = """
import _thread, threading, time
import numpy as np
from sklearn_sparsemap import n_best
from sklearn_sparsemap.structures import *
rng = np.random.default_rng(0)
cases = (LinearChain(), (40, 9)), (Matching(), (40, 40)), (Subset(), (400,))
for structure, shape in cases:
    scores = rng.normal(size=shape)
    expected = n_best(structure, scores, 2)
    threading.Timer(0.2, _thread.interrupt_main).start()
    began = time.perf_counter()
    try:
        n_best(structure, scores, 10**8)
        print("finished")
    except KeyboardInterrupt:
        print("interrupted" if time.perf_counter() - began < 20 else "late")
    assert [value for _, value in n_best(structure, scores, 2)] == [value for _, value in expected]
"""


def test_ctrl_c_ends_a_search(fresh_python):
    out = fresh_python(INTERRUPTED)
    assert out.returncode == 0, out.stderr
    assert out.stdout.split() == ["interrupted"] * 3


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


def test_the_searches_of_a_graph_have_one_time_limit(monkeypatch):
    clock, limits = [100.0], []

    def slow(problem, n_jobs, tol, time_limit):
        limits.append(time_limit)
        clock[0] += 4.0
        return search(problem, n_jobs, tol, None)

    replace(monkeypatch, "inference", "working_time", lambda: clock[0])
    search = replace(monkeypatch, "inference", "best_assignments", slow)
    graph = FactorGraph()
    graph.add(Or(graph.variables(3)))
    scores = [[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]
    with pytest.warns(ConvergenceWarning, match=r"for 2 samples \(0, 1\)"):
        best = n_best(graph, scores, 5, map_time_limit=10.0)
    assert limits == [10.0, 6.0, 2.0] * 2 and [[value for _, value in own] for own in best] == [[6.0, 5.0, 4.0]] * 2
    assert len(n_best(graph, scores[0], 5, map_time_limit=None)) == 5


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
    replace(monkeypatch, "inference", "MAX_NODES", 1)
    # No limit of time is no limit of relaxations either.
    again = map_inference(graph, scores, map_time_limit=None)
    assert again.value == best.value and again.bound - again.value <= 1e-9
    with pytest.warns(ConvergenceWarning, match=r"1 samples \(0\).*no assignment was found"):
        assert map_inference(graph, scores).value == -np.inf
    with pytest.warns(ConvergenceWarning, match="no assignment was found"):
        assert n_best(graph, scores, 2) == []
    with pytest.warns(ConvergenceWarning, match="no assignment was found"):
        normalized_regret(scores[None], np.zeros((1, 25)), graph)


def test_a_margin_keeps_the_structures_close_to_the_best():
    rng = np.random.default_rng(7)
    n_compared = 0
    for name in ("chain", "tree", "subset", "hyperpath", "matching"):
        for _ in range(10):
            instance = RANDOM[name](rng, forbid=True)
            everything = n_best(instance.structure, instance.scores, 10**9, **instance.additional)
            values = np.array([value for _, value in everything])
            for margin in (0, 0.5, 2.0):
                k = int(rng.integers(1, 30))
                found = n_best(instance.structure, instance.scores, k, margin=margin, **instance.additional)
                close = int((values >= values[0] - margin).sum())
                assert [as_key(s) for s, _ in found] == [as_key(s) for s, _ in everything[: min(k, close)]]
                n_compared += close < k
    assert n_compared > 50
    scores = [[0.5, 0.2, -1.0], [0.1, 0.1, 0.1]]
    lists = n_best(Subset(), scores, 8, margin=0.25)
    assert [len(own) for own in lists] == [2, 7]
    graph = FactorGraph()
    graph.add(AtMost(graph.variables(3), 2))
    assert [value for _, value in n_best(graph, scores[0], 8, margin=0.25)] == pytest.approx([0.7, 0.5])
    for margin in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="margin must be a non-negative number"):
            n_best(Subset(), scores, 8, margin=margin)
