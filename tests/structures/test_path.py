"""Paths through directed acyclic graphs, against enumeration."""

import pickle

import naive
import numpy as np
import pytest
from derivative_cases import compare_derivatives
from registry import random_path
from scipy.special import logsumexp, softmax

from sklearn_sparsemap import lp_sparsemap, map_inference, marginal_inference, sparsemap
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.structures import LinearProgram, Path

DIAMOND = Path([(0, 1), (1, 3), (0, 2), (2, 3), (0, 3)], 0, 3)


def test_500_problems_are_those_of_all_paths():
    rng, counts = np.random.default_rng(0), {"mixed": 0, "forbidden": 0, "unused": 0, "parallel": 0}
    for i in range(500):
        instance = random_path(rng, ties=i % 5 == 0, forbid=i % 3 == 0, scale=(0.3, 1.0, 10.0)[i % 3])
        structure, scores = instance.structure, instance.scores
        paths, M, theta = instance.enumerate()
        found, value = map_inference(structure, scores)
        assert value == pytest.approx(theta.max()) and theta[paths.index(tuple(found))] == pytest.approx(value)
        allowed = theta > -np.inf
        u, _ = naive.solve_qp(M[:, allowed], theta[allowed])
        result = sparsemap(structure, scores)
        assert result.converged
        np.testing.assert_allclose(result.marginals, u, atol=1e-6)
        gibbs = marginal_inference(structure, scores)
        np.testing.assert_allclose(gibbs.marginals, M @ softmax(theta), atol=1e-12)
        assert gibbs.log_partition == pytest.approx(logsumexp(theta))
        assert structure.fixed_size == (len({sum(path) for path in paths}) == 1)
        counts["mixed"] += len(result.weights) > 1
        counts["forbidden"] += not allowed.all()
        counts["unused"] += not M.any(axis=1).all()
        counts["parallel"] += len(np.unique(structure.edges, axis=0)) < len(structure.edges)
    assert min(counts.values()) > 80, counts


def test_derivatives_are_those_of_finite_differences():
    assert compare_derivatives(random_path, 500, np.random.default_rng(1)) > 100


def test_grids_have_the_order_of_rows():
    grid = Path.grid(3, 2)
    assert grid.edges.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3], [2, 4], [3, 5], [4, 5]]
    assert (grid.source, grid.target, grid.fixed_size) == (0, 5, True)
    n_edges = len(Path.grid(5, 5).edges)
    assert n_edges == 40 and map_inference(Path.grid(5, 5), -np.ones(n_edges)).value == -8.0
    flow = np.zeros((25, n_edges))
    flow[Path.grid(5, 5).edges[:, 0], np.arange(n_edges)] = 1.0
    flow[Path.grid(5, 5).edges[:, 1], np.arange(n_edges)] = -1.0
    balance = np.zeros(25)
    balance[[0, -1]] = 1.0, -1.0
    program, rng = LinearProgram(A_eq=flow, b_eq=balance, integer=False), np.random.default_rng(2)
    for _ in range(5):
        scores = rng.normal(size=n_edges)
        expected, value = map_inference(program, scores)
        assert map_inference(Path.grid(5, 5), scores).value == pytest.approx(value)
        np.testing.assert_array_equal(map_inference(Path.grid(5, 5), scores).structure, expected)


def test_a_budget_holds_in_a_graph():
    rng, grid, n_changed = np.random.default_rng(3), Path.grid(3, 3), 0
    paths = [np.array(p) for p in naive.enumerate_paths(np.zeros(12), **grid._params())[0]]
    for _ in range(20):
        scores, tolls = rng.normal(size=12), rng.integers(0, 2, 12)
        limit = int(np.median([tolls @ path for path in paths]))
        graph = FactorGraph()
        u = graph.variables(12)
        graph.add(StructureFactor(grid, u), Budget([u[e] for e in np.flatnonzero(tolls)], limit))
        allowed = [path for path in paths if tolls @ path <= limit]
        found = map_inference(graph, scores)
        assert found.value == pytest.approx(max(path @ scores for path in allowed))
        n_changed += found.value < max(path @ scores for path in paths) - 1e-9
        assert tolls @ lp_sparsemap(graph, scores).marginals <= limit + 1e-6
    assert n_changed > 3


def test_it_is_a_value():
    other = pickle.loads(pickle.dumps(DIAMOND))
    assert other == DIAMOND != Path.grid(2, 2) and len({other, DIAMOND}) == 1
    assert map_inference(other, np.ones(5)).value == 2.0
    assert repr(DIAMOND) == "Path(5 edges, source=0, target=3)"
    assert DIAMOND.encode([1, 1, 0, 0, 0], DIAMOND._dims)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Path([0, 1], 0, 1), r"edges must be ints of shape \(n_edges, 2\)"),
        (lambda: Path([(0.0, 1.0)], 0, 1), "edges must be ints"),
        (lambda: Path(np.zeros((0, 2), int), 0, 1), "edges must be ints"),
        (lambda: Path([(0, 1), (0, -1)], 0, 1), r"edges\[1\] has a negative node"),
        (lambda: Path(np.array([(0, 1), (1, 2**63 + 2)], np.uint64), 0, 1), "edges has the node 9223372036854775810"),
        (lambda: Path(np.ma.masked_equal([(0, 1), (1, 2)], 2), 0, 1), "edges is a masked array"),
        (lambda: DIAMOND.edges.__setitem__(0, 1), "read-only"),
        (lambda: Path([(0, 1)], 0, 2), "target must be a node of the edges; got 2"),
        (lambda: Path([(0, 1)], True, 1), "source must be a node of the edges; got True"),
        (lambda: Path([(0, 1)], "a", 1), "source must be a node of the edges; got 'a'"),
        (lambda: Path([(0, 1)], 1, 1), "source and target are both 1"),
        (lambda: Path([(0, 1), (2, 1)], 0, 2), "no path leads from source 0 to target 2"),
        (
            lambda: Path([(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)], 0, 4),
            "has a cycle, 1 -> 2 -> 3 -> 1|cycle, 3 -> 1 -> 2 -> 3",
        ),
        (lambda: Path([(0, 1), (1, 1)], 0, 1), "has a cycle, 1 -> 1"),
        (lambda: Path.grid(0, 3), "height"),
        (lambda: map_inference(DIAMOND, [1.0]), "this graph has 5 edges, but there are 1 scores"),
        (lambda: map_inference(DIAMOND, [-np.inf] * 5), "infeasible"),
        (lambda: map_inference(DIAMOND, np.array([[1.0] * 5, [-np.inf] * 5])), r"infeasible: scores\[1\]"),
        (lambda: DIAMOND.encode([0, 1], DIAMOND._dims), "a path is 5 bools, or 0 and 1"),
        (lambda: DIAMOND.encode([1, 0, 0, 1, 0], DIAMOND._dims), r"edges \[0, 3\] are no path from node 0 to node 3"),
        (lambda: DIAMOND.encode([1, 1, 0, 0, 1], DIAMOND._dims), "are no path"),
        (lambda: DIAMOND.encode([0] * 5, DIAMOND._dims), "are no path"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
