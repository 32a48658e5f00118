"""Exact searches: rules and scores of any ratio against enumeration in exact arithmetic, limits, and signals."""

import itertools
import os
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from internals import replace
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import MultilabelLPSparseMAP, lp_sparsemap, map_inference, n_best
from sklearn_sparsemap.factors import (
    AtLeast,
    AtMost,
    Exactly,
    FactorGraph,
    Implies,
    Knapsack,
    Pair,
    PairTable,
    StructureFactor,
)
from sklearn_sparsemap.structures import LinearChain, LinearProgram

HARD = np.random.default_rng(5).integers(10, 100, size=(8, 60)).astype(float)


def as_written(x):
    """Return a number as the decimal fraction that it was written as."""
    return Fraction(repr(float(x)))


def random_weights(rng, n):
    """Return weights of one of the kinds that people use: mixed magnitudes, large numbers, money, big-M, decimals."""
    kind = rng.integers(5)
    if kind == 0:
        return np.round(rng.integers(1, 10, size=n) * 10.0 ** rng.integers(0, 9, size=n)) * rng.choice([-1, 1], size=n)
    if kind == 1:
        return rng.integers(1, 10**9, size=n).astype(float)
    if kind == 2:
        return np.round(rng.uniform(0.01, 2e6, size=n), 2)
    if kind == 3:
        weights = rng.integers(-5, 6, size=n).astype(float)
        weights[0] = rng.choice([-1, 1]) * 10.0 ** rng.integers(3, 10)
        return weights
    return np.round(rng.uniform(-1.0, 1.0, size=n), int(rng.integers(1, 4)))


def holds(rule, total, k):
    return {AtMost: total <= k, AtLeast: total >= k, Exactly: total == k}[rule]


class RandomGraph:
    """A graph with weighted rules and pairs, and the feasible assignments with their values as fractions."""

    def __init__(self, rng, with_scores):
        n, self.graph, rules = int(rng.integers(2, 9)), FactorGraph(), []
        u, self.additional = self.graph.variables(n), None
        for _ in range(rng.integers(0 if with_scores else 1, 3)):
            where = np.sort(rng.choice(n, int(rng.integers(1, n + 1)), replace=False))
            weights, chosen = random_weights(rng, len(where)), rng.random(len(where)) < 0.6
            k = float(np.round(weights[chosen].sum() + rng.choice([0.0, 0.0, 1.0, -1.0]), 4))
            rule = (AtMost, AtMost, AtLeast, Exactly)[rng.integers(4)]
            try:
                self.graph.add(rule(weights @ u[where], k))
            except ValueError:
                # No assignment satisfies the rule alone.
                continue
            rules.append((rule, where, list(map(as_written, weights)), as_written(k)))
        self.scores = self._draw(rng, n, with_scores)
        ends, pair_scores = np.zeros((0, 2), int), []
        if rng.random() < 0.3 and n > 2:
            ends = np.array([rng.choice(n, 2, replace=False) for _ in range(2)])
            self.graph.add(Pair(u[ends[:, 0]], ~u[ends[:, 1]], name="p"))
            pair_scores = self._draw(rng, 2, with_scores)
            self.additional = {"p": pair_scores}
        self.values = {}
        for x in itertools.product((0, 1), repeat=n):
            sums = ((rule, sum(w for w, i in zip(ws, where) if x[i]), k) for rule, where, ws, k in rules)
            if all(holds(*one) for one in sums):
                pairs = (Fraction(float(s)) for s, (i, j) in zip(pair_scores, ends) if x[i] and not x[j])
                own = (Fraction(float(s)) for s, on in zip(self.scores, x) if on)
                self.values[x] = sum(own, sum(pairs, Fraction()))

    @staticmethod
    def _draw(rng, n, with_scores):
        if with_scores:
            scores = rng.normal(size=n) * 10.0 ** rng.uniform(-6.0, 6.0, size=n)
            if rng.random() < 0.3:
                scores[rng.integers(n)] = -(10.0 ** rng.integers(2, 9))
            return scores
        return rng.normal(size=n) if rng.random() < 0.7 else rng.integers(-3, 4, size=n).astype(float)


def is_close(value, expected):
    return abs(Fraction(float(value)) - expected) <= Fraction(1, 10**9) * abs(expected)


@pytest.mark.parametrize("with_scores", [False, True], ids=["weights", "scores"])
def test_searches_equal_enumeration_in_exact_arithmetic(draws, with_scores):
    n_compared = n_infeasible = 0
    for draw in range(draws(100)):
        case = RandomGraph(np.random.default_rng([draw, with_scores]), with_scores)
        given = (case.graph, case.scores), {"additional": case.additional}
        if not case.values:
            with pytest.raises(ValueError, match=r"^infeasible"):
                map_inference(*given[0], **given[1])
            n_infeasible += 1
            continue
        expected = sorted(case.values.values(), reverse=True)[:5]
        best, found = map_inference(*given[0], **given[1]), n_best(*given[0], 5, **given[1])
        for number, (structure, value) in enumerate([(best.structure, best.value), *found]):
            assert case.graph.violations(structure) == []
            own = case.values[tuple(map(int, structure))]
            wanted = expected[max(number - 1, 0)]
            assert is_close(value, own) and abs(own - wanted) <= Fraction(1, 10**9) * abs(wanted)
        assert best.value <= best.bound and is_close(best.bound, expected[0])
        assert len(found) == len(expected) == len({tuple(structure) for structure, _ in found})
        assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)
        n_compared += 1
    assert n_compared > 0.6 * draws(100) and (with_scores or n_infeasible > 0)


@pytest.mark.parametrize(
    ("weights", "k", "scores", "chosen"),
    [
        ([9486361.0, 1.0], 9486361.0, [5.0, 1.0], [1, 0]),
        ([1999999.0, 1.0, 1.0, 750000.0], 2000000.0, [5.0, 1.0, 1.0, 1.0], [1, 1, 0, 0]),
        ([2.0**53 - 1.0, 1.0], 2.0**53 - 1.0, [5.0, 1.0], [1, 0]),
        ([-0.02, 0.03, -0.06], -0.08, [1.0, 1.0, 1.0], [1, 0, 1]),
        ([-0.7, 0.3, -0.1], -0.8, [1.0, 1.0, 1.0], [1, 0, 1]),
        ([0.1, 0.2, 0.3], 0.3, [1.0, 1.0, 1.5], [1, 1, 0]),
        ([19999.99, 0.01, 0.01], 20000.0, [5.0, 1.0, 0.5], [1, 1, 0]),
        ([1.0, 1.0, -1e9], 0.0, [1.0, 1.0, -0.5], [1, 1, 1]),
        ([np.pi, np.e, 1.0], np.pi + np.e, [1.0, 1.0, 0.5], [1, 1, 0]),
    ],
)
def test_weighted_rules_are_read_as_written(weights, k, scores, chosen):
    graph = FactorGraph()
    graph.add(AtMost(weights @ graph.variables(len(weights)), k))
    assert map_inference(graph, scores).structure.tolist() == chosen
    assert n_best(graph, scores, 1)[0][0].tolist() == chosen and graph.violations(chosen) == []
    assert map_inference(LinearProgram([weights], [k]), scores).structure.tolist() == chosen
    assert lp_sparsemap(graph, scores).objective >= np.dot(scores, chosen) - 0.5 * sum(chosen) - 1e-6
    structure = FactorGraph()
    u = structure.variables((len(weights), 2))
    structure.add(StructureFactor(LinearChain(), u), AtMost(weights @ u[:, 1], k))
    found = map_inference(structure, np.stack([np.zeros(len(weights)), scores], axis=1)).structure
    assert found[:, 1].tolist() == chosen


def test_assignments_beside_a_low_score_are_in_order():
    rng = np.random.default_rng(0)
    for largest in (1e2, 1e3, 1e8):
        graph = FactorGraph()
        graph.add(AtMost(graph.variables(7), 6))
        scores = np.append(-largest, rng.normal(size=6) * [1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0])
        values = sorted((sum(x) for x in itertools.product(*((0.0, s) for s in scores))), reverse=True)
        np.testing.assert_allclose([value for _, value in n_best(graph, scores, 8)], values[:8], rtol=1e-9)


@pytest.mark.parametrize("rule", [AtMost, Exactly])
def test_an_integral_relaxation_ends_the_search(rule, monkeypatch):
    replace(monkeypatch, "_numerics", "milp", lambda *args, **options: pytest.fail("HiGHS is not needed"))
    rng = np.random.default_rng(0)
    for n in (3_000, 20_000):
        graph, scores = FactorGraph(), rng.normal(size=n)
        graph.add(rule(graph.variables(n), n // 10))
        best = map_inference(graph, scores, map_time_limit=None)
        assert best.integral and best.value == best.bound
        assert best.value == pytest.approx(np.sort(scores)[-(n // 10) :].sum())
    two = FactorGraph()
    u, scores = two.variables((2, 3_000)), rng.normal(size=(2, 3_000))
    two.add(AtMost(u[0], 300), AtMost(u[1], 500))
    best = map_inference(two, scores, map_time_limit=None)
    assert best.integral and best.bound == best.value
    assert best.value == pytest.approx(np.sort(scores[0])[-300:].sum() + np.sort(scores[1])[-500:].sum())


def test_a_failure_of_highs_is_no_proof(monkeypatch):
    """Status 4 of scipy says that HiGHS failed, not that there is no solution."""
    rng = np.random.default_rng(0)
    A = rng.integers(50, 100, size=(2, 14))
    scores = rng.normal(size=14)
    b = A[:, ::3].sum(axis=1)
    expected = map_inference(LinearProgram(A_eq=A, b_eq=b), scores)
    calls = []
    failed = optimize.OptimizeResult(x=None, status=4, message="HiGHS failed", mip_dual_bound=None)
    replace(monkeypatch, "_numerics", "milp", lambda *args, **options: calls.append(1) or failed)
    replace(monkeypatch, "_numerics", "_FEW", 1)
    with pytest.warns(ConvergenceWarning, match="before it was complete"):
        found = map_inference(LinearProgram(A_eq=A, b_eq=b), scores)
    assert (A @ found.structure == b).all() and found.value <= expected.value
    with pytest.raises(ValueError, match="no solution"):
        map_inference(LinearProgram(A_eq=2 * A, b_eq=b // 2 * 2 + 1), scores)
    assert len(calls) >= 4


def test_labels_satisfy_weighted_rules():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), np.zeros((40, 3), int)
    Y[:, 0] = X[:, 0] > -0.5
    Y[:, 1] = (X[:, 1] > 0.0) & (Y[:, 0] == 1)
    model = MultilabelLPSparseMAP(constraints=[Implies(1, 0), AtMost(2)]).fit(X, Y)
    found = model.predict(X, known=[{1: True}] * 40)
    assert (found[:, 1] == 1).all() and (found[:, 0] == 1).all() and (found.sum(axis=1) <= 2).all()


def test_infeasible_problems_name_rules_and_tables():
    graph = FactorGraph()
    shifts = graph.variables((7, 3, 4), name="shifts")
    graph.add(*[AtLeast(shifts[d, k, :1], 1, name="a senior a shift") for d in range(7) for k in range(3)])
    graph.add(*[AtMost(shifts[:, :, p].ravel(), 2, name="two a week") for p in range(4)])
    scores = np.random.default_rng(0).normal(size=(7, 3, 4))
    for call in (map_inference, lambda *args: n_best(*args, 2), lp_sparsemap):
        with pytest.raises(ValueError, match=r"^infeasible: under scores no .*'a senior a shift'.*'two a week'"):
            call(graph, scores)


def test_contradictory_tables_are_named():
    graph, differ = FactorGraph(), np.array([[[-np.inf, 0.0], [0.0, -np.inf]]])
    colours = graph.categorical(3, 2, name="colours")
    for name, i, j in (("left", 0, 1), ("right", 1, 2), ("across", 0, 2)):
        graph.add(PairTable(colours[[i]], colours[[j]], name=name))
    with pytest.raises(ValueError, match=r"^infeasible: .*'left'.*'right'.*'across'") as error:
        map_inference(graph, np.zeros((3, 2)), additional=dict.fromkeys(("left", "right", "across"), differ))
    assert "ExactlyOne" not in str(error.value) and "(with the additional scores)" in str(error.value)


def test_a_time_limit_says_that_seconds_ended_the_search():
    scores = HARD.mean(axis=0) + np.random.default_rng(1).normal(size=60) * 3.0
    limited = LinearProgram(HARD, HARD.sum(axis=1) / 2.0, map_time_limit=0.3)
    began = time.monotonic()
    with pytest.warns(ConvergenceWarning, match=r"map_time_limit=0.3 seconds: its score is at most .* below the best"):
        chosen, _ = map_inference(limited, scores)
    assert time.monotonic() - began < 20.0
    assert (HARD @ chosen <= HARD.sum(axis=1) / 2.0).all()
    graph = FactorGraph()
    u = graph.variables(60)
    graph.add(*[Knapsack(u, row, row.sum() / 2.0) for row in HARD])
    with pytest.warns(ConvergenceWarning, match=r"ended at map_time_limit=0.3 seconds for 1 samples"):
        best = map_inference(graph, scores, map_time_limit=0.3)
    assert graph.violations(best.structure) == [] and best.bound > best.value
    with pytest.raises(ValueError, match="map_time_limit"):
        LinearProgram([[1.0]], [1.0], map_time_limit=0.0)


_INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
from sklearn_sparsemap import map_inference
from sklearn_sparsemap.factors import FactorGraph, Knapsack
from sklearn_sparsemap.structures import LinearProgram

class Asked(Exception):
    pass

def ask(*_):
    raise Asked

rng, kind = np.random.default_rng(5), sys.argv[1]
A = rng.integers(10, 100, size=(8, 60)).astype(float)
scores = A.mean(axis=0) + rng.normal(size=60) * 3.0
program = LinearProgram(A, A.sum(axis=1) / 2.0)
graph = FactorGraph()
u = graph.variables(60)
graph.add(*[Knapsack(u, row, row.sum() / 2.0) for row in A])
for structure in (LinearProgram(A[:1, :4], [100.0]), LinearProgram(A[:, :4], A.sum(axis=1))):
    map_inference(structure, scores[:4])
map_inference(graph, scores, map_time_limit=0.2) if kind == "graph" else None
def press(number):
    time.sleep(1.5)
    pressed.append(time.monotonic())
    os.kill(os.getpid(), number)
for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM):
    if number != signal.SIGINT:
        signal.signal(number, ask)
    before, pressed = signal.getsignal(number), []
    threading.Thread(target=press, args=(number,)).start()
    try:
        if kind == "graph":
            map_inference(graph, scores, map_time_limit=None)
        else:
            map_inference(program, scores)
    except (Asked, KeyboardInterrupt):
        print(time.monotonic() - pressed[0], signal.getsignal(number) is before)
"""


@pytest.mark.skipif(os.name != "posix", reason="os.kill sends no signals on Windows")
@pytest.mark.parametrize("kind", ["graph", "program"])
def test_signals_end_an_integer_search_within_a_second(kind, fresh_python):
    done = fresh_python(_INTERRUPTED, kind)
    ends = [line.split() for line in done.stdout.splitlines()]
    assert len(ends) == 3 and all(float(seconds) < 1.0 and kept == "True" for seconds, kept in ends), done


@pytest.mark.filterwarnings("ignore:.*map_time_limit:sklearn.exceptions.ConvergenceWarning")
def test_a_search_leaves_the_standard_output_alone(capfd):
    """HiGHS prints a line when it repairs a solution; the file behind the standard output was replaced meanwhile."""
    rng, seen = np.random.default_rng(1), set()
    A = np.round(rng.uniform(size=(4, 40)) * 1e7)
    program = LinearProgram(A, A @ (rng.random(40) < 0.5), map_time_limit=1.0)
    scores, stdout, ended = A.sum(axis=0) / A.sum() + 0.01 * rng.normal(size=40), os.fstat(1), threading.Event()

    def look():
        while not ended.wait(0.01):
            seen.add((os.fstat(1).st_dev, os.fstat(1).st_ino))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        map_inference(program, scores)
    finally:
        ended.set()
        thread.join()
    assert seen == {(stdout.st_dev, stdout.st_ino)}
    assert capfd.readouterr().out == ""
