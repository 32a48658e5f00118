"""Situations of other libraries' test suites: logic factors at edge points, bands of transitions, ignored samples."""

from itertools import product

import naive
import numpy as np
import pytest
from naive_graphs import Case, holds, literals_of, vertices_of
from numpy.testing import assert_allclose

from sklearn_sparsemap import lp_sparsemap, map_inference, n_best, sparsemap
from sklearn_sparsemap.factors import (
    AndOut,
    AtLeast,
    AtMost,
    AtMostOne,
    Budget,
    Exactly,
    FactorGraph,
    Iff,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    Xor,
    XorOut,
)
from sklearn_sparsemap.structures import LinearChain

COSTS = np.array([1.0, 2.0, 1.5])
FACTORS = {
    "xor": Xor,
    "or": Or,
    "at most one": AtMostOne,
    "imply": Imply,
    "xor out": XorOut,
    "or out": OrOut,
    "and out": AndOut,
    "budget": lambda literals: Budget(literals, 2),
    "at most": lambda literals: AtMost(literals, 1),
    "at least": lambda literals: AtLeast(literals, 2),
    "exactly": lambda literals: Exactly(literals, 2),
    "knapsack": lambda literals: Knapsack(literals, COSTS, 2.5),
}
NEGATIONS = [(False,) * 3, (True, False, False), (False, False, True), (True,) * 3]
# Vertices, midpoints and the centre of the cube, points outside of it, and halves of ties.
POINTS = np.unique(
    [*product([0.0, 0.5, 1.0], repeat=3), *product([-1.0, 2.0], repeat=3), *product([0.25, 0.75], repeat=3)]
    + [point for value in (-1.0, 2.0) for point in np.full((3, 3), 0.5) + (value - 0.5) * np.eye(3)],
    axis=0,
)


def is_allowed(factor, literals):
    return COSTS @ literals <= 2.5 if isinstance(factor, Knapsack) else holds(factor, literals)


@pytest.mark.parametrize("name", FACTORS)
def test_factors_at_edge_points(name):
    """Ties everywhere: marginals against the quadratic program, MAP and n-best against enumeration."""
    n_compared = 0
    for negated in NEGATIONS:
        graph = FactorGraph()
        graph.add(FACTORS[name](literals_of(graph.variables(3), negated)))
        M, values = vertices_of(Case(graph, POINTS[0], {}))
        allowed = [
            p for p in product([0, 1], repeat=3) if is_allowed(graph.factors[0], np.abs(np.subtract(p, negated)))
        ]
        best, results = map_inference(graph, POINTS), lp_sparsemap(graph, POINTS, tol=1e-9)
        for point, result, assignment in zip(POINTS, results, best, strict=True):
            u, _ = naive.solve_qp(M, point @ M + values)
            assert_allclose(result.marginals, u, atol=1e-9, err_msg=f"{graph.factors} {point}")
            totals = sorted((float(point @ p) for p in allowed), reverse=True)
            assert assignment.value == pytest.approx(totals[0], abs=1e-9)
            assert tuple(assignment.structure.astype(int)) in allowed
            n_compared += 1
        for point in POINTS[::7]:
            totals = sorted((float(point @ p) for p in allowed), reverse=True)
            found = n_best(graph, point, len(allowed) + 1)
            assert_allclose([value for _, value in found], totals, atol=1e-9)
            assert len({tuple(p.tolist()) for p, _ in found}) == len(allowed)
    assert n_compared == len(NEGATIONS) * len(POINTS)


@pytest.mark.parametrize("negated", list(product([False, True], repeat=2)))
def test_pairs_at_edge_points(negated):
    for score in (-1.0, -0.5, 0.0, 0.5, 1.0):
        graph = FactorGraph()
        literals = literals_of(graph.variables(2), negated)
        graph.add(Pair(literals[:1], literals[1:], name="pair"))
        for point in product([-0.5, 0.0, 0.5, 1.0, 1.5], repeat=2):
            given = {"pair": np.array([score])}
            M, values = vertices_of(Case(graph, np.array(point), given))
            u, _ = naive.solve_qp(M, point @ M + values)
            assert_allclose(lp_sparsemap(graph, point, additional=given, tol=1e-9).marginals, u, atol=1e-9)
            assert map_inference(graph, point, additional=given).value == pytest.approx((point @ M + values).max())


def test_overlapping_factors_share_variables():
    """Two Xor of one variable in common, once as it is and once negated, at all edge points."""
    vertices = np.array([p for p in product([0.0, 1.0], repeat=3) if p[0] + p[1] == 1 and (1 - p[1]) + p[2] == 1]).T
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u[:2]), Xor([~u[1], u[2]]))
    for point, result in zip(POINTS, lp_sparsemap(graph, POINTS, tol=1e-9), strict=True):
        assert_allclose(result.marginals, naive.solve_qp(vertices, point @ vertices)[0], atol=1e-8)


def test_copies_give_a_variable_a_larger_quadratic_weight():
    """k equal copies, each with 1/k of the score, are a variable with the penalty k/2 u^2."""
    rng, vertices = np.random.default_rng(1), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for _ in range(20):
        scores, k = rng.normal(size=2) * 2.0, int(rng.integers(2, 5))
        graph = FactorGraph()
        first, second = graph.variables(k, name="first"), graph.variables(1, name="second")
        graph.add(AtMostOne([first[0], second[0]]), *(Iff(first[0], first[i]) for i in range(1, k)))
        own = {"first": np.full(k, scores[0] / k), "second": scores[1:]}
        result = lp_sparsemap(graph, own, tol=1e-9)
        # The norm of a vertex is that of its copies.
        weighted = np.sqrt([[k], [1.0]]) * vertices
        u = np.array([k, 1.0]) ** -0.5 * naive.solve_qp(weighted, scores @ vertices)[0]
        assert_allclose(result.marginals["first"], u[0], atol=1e-8)
        assert_allclose(result.marginals["second"], u[1], atol=1e-8)


def test_transitions_that_depend_on_the_distance():
    """A weight for each distance of two states, in a band: its gradient is the sum over the entries of the band."""
    rng, n_states, width, n_kinks = np.random.default_rng(0), 5, 2, 0
    distance = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states)))
    for _ in range(20):
        weights, scores = rng.normal(size=width + 1), rng.normal(size=(4, n_states))

        def solve(weights, scores=scores):
            transitions = np.where(distance <= width, weights[np.minimum(distance, width)], -np.inf)
            return sparsemap(LinearChain(), scores, transitions=transitions)

        result, v = solve(weights), rng.normal(size=scores.shape)
        assert all((np.abs(np.diff(path)) <= width).all() for path in result.structures)
        inside, gradient = distance <= width, result.vjp(v)["transitions"]
        own = np.bincount(distance[inside], gradient[inside], width + 1)
        steps = 1e-6 * np.eye(width + 1)
        differences = [((solve(weights + h).marginals - solve(weights - h).marginals) * v).sum() / 2e-6 for h in steps]
        is_kink = np.abs(own - differences).max() > 1e-5
        n_kinks += is_kink
        assert abs(gradient[~inside]).max() == 0.0
    assert n_kinks == 0


def test_samples_of_no_length_are_ignored():
    """Their marginals, losses and gradients are zero, and the others are as without them."""
    torch = pytest.importorskip("torch")
    from sklearn_sparsemap import torch as layers
    from sklearn_sparsemap.structures import Simplex

    scores = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
    lengths, v = torch.tensor([3, 0, 3, 0]), torch.arange(12.0).reshape(4, 3)
    u = layers.sparsemap(Simplex(), scores, lengths=lengths)
    (u * v).sum().backward()
    chosen = scores.detach()[::2].clone().requires_grad_()
    alone = layers.sparsemap(Simplex(), chosen)
    (alone * v[::2]).sum().backward()
    assert torch.equal(u[::2], alone) and torch.equal(scores.grad[::2], chosen.grad)
    assert not u[1::2].any() and not scores.grad[1::2].any()
