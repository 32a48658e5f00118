"""Small graphs have solvers with less code: the same marginals, or the complete solver if it is needed."""

import numpy as np
import pytest
from internals import replace, with_modules
from naive_graphs import RANDOM_GRAPHS
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import AtMost, Budget, FactorGraph, Imply, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree


@pytest.fixture
def counted(monkeypatch):
    """Count the calls of complete solvers."""
    calls = []

    def graph_solver(layout, method, spare):
        calls.append(method)
        return complete(layout, method, spare)

    complete = replace(monkeypatch, "inference", "graph_solver", graph_solver)
    return calls


def results_of(graph, scores, additional=None, n_jobs=None, **options):
    """Return two arrays for each sample: what may differ in the last digit, and what is the same up to rounding."""
    found = []
    for one in lp_sparsemap(graph, list(scores), additional=additional, n_jobs=n_jobs, **options):
        exact = one.marginals.ravel(), one._multipliers, [one.n_iter, one.converged]
        rounded = one._links, one._joint, [one.objective, one.gap, one.residual]
        found.append((np.concatenate(exact), np.concatenate(rounded)))
    return found


def results_without(monkeypatch, *args, **options):
    """Return the results of the complete solvers."""
    with monkeypatch.context() as patch:
        replace(patch, "inference", "small_solver", lambda *args: None)
        return results_of(*args, **options)


def assert_same(found, wanted):
    for (exact, rounded), (wanted_exact, wanted_rounded) in zip(found, wanted, strict=True):
        # Code that is compiled into different kernels may round the last digit differently.
        assert_allclose(exact, wanted_exact, rtol=0.0, atol=4e-16)
        assert_allclose(rounded, wanted_rounded, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", ["newton", "block"])
@pytest.mark.parametrize("name", RANDOM_GRAPHS)
def test_results_are_those_of_the_complete_solver(name, solver, monkeypatch):
    if name == "shared structures" and solver == "newton":
        solver = "auto"
    for seed in range(6):
        rng = np.random.default_rng(seed)
        case = RANDOM_GRAPHS[name](rng, scale=10.0 ** rng.integers(-2, 3))
        scores = [case.scores, 0.1 * case.scores, np.round(case.scores)]
        args = case.graph, scores, case.additional
        assert_same(results_of(*args, solver=solver), results_without(monkeypatch, *args, solver=solver))


def test_variables_without_factors(monkeypatch):
    graph = FactorGraph()
    u = graph.variables(5)
    graph.add(Xor(u[:2]), Imply([u[0], u[1]]))
    scores = [[0.3, 0.4, 0.5, 2.0, -1.0], [-np.inf, 1e3, 1e8, -1e8, 1.0], [0.1, 0.2, -np.inf, 0.0, 1e-3]]
    found = results_of(graph, scores)
    assert_same(found, results_without(monkeypatch, graph, scores))
    assert_array_equal([exact[2:5] for exact, _ in found], np.clip(np.array(scores)[:, 2:], 0.0, 1.0))


def make_tree(n):
    graph = FactorGraph()
    arcs = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 2) for row in arcs])
    return graph


def test_trees_that_prefer_facets_get_them(counted, monkeypatch):
    graph, rng = make_tree(6), np.random.default_rng(0)
    large, small = rng.normal(size=(2, 7, 6)) * np.array([30.0, 0.01])[:, None, None]
    mixed = results_of(graph, [large, small, large])
    assert counted == ["newton"]
    assert_same(mixed, results_without(monkeypatch, graph, [large, small, large]))
    assert_same(mixed, results_of(graph, [large, small, large], n_jobs=2))
    for i, scores in enumerate([large, small, large]):
        assert_same(results_of(graph, [scores]), [mixed[i]])
    counted.clear()
    results_of(graph, [large])
    results_of(make_tree(3), [0.01 * large[:4, :3]])
    assert counted == []


def test_long_chains_of_implications_get_the_preconditioner(counted, monkeypatch):
    graph = FactorGraph()
    u = graph.variables(400)
    graph.add(*[Imply([u[i], u[i + 1]]) for i in range(399)])
    # Each implication binds, and a plain Newton step takes as many conjugate gradients as there are variables.
    scores = [np.linspace(0.9, 0.1, 400)]
    found = results_of(graph, scores)
    assert counted == ["newton"]
    assert_same(found, results_without(monkeypatch, graph, scores))
    assert found[0][0][-1]


def test_many_links_need_no_attempt(counted):
    graph = FactorGraph()
    graph.add(AtMost(graph.variables(1001), 3))
    results_of(graph, [np.linspace(0.0, 1.0, 1001)])
    assert counted == ["newton"]


def test_contradictions_are_named(counted):
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u), Budget(u[:2], 0, name="none"))
    with pytest.raises(ValueError, match=r"infeasible.*'none'"):
        lp_sparsemap(graph, [0.5, 0.5, -np.inf])
    assert counted
    assert lp_sparsemap(graph, [0.5, 0.5, 0.5]).marginals.tolist() == [0.0, 0.0, 1.0]


USED = with_modules("""
from sklearn_sparsemap import lp_sparsemap
import {jit} as jit
from sklearn_sparsemap.factors import Budget, FactorGraph, Imply, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree
graph = FactorGraph()
u = graph.variables(4)
graph.add(Xor(u[:3]), Imply([u[0], u[3]]), Budget(u, 2))
lp_sparsemap(graph, [0.5, 0.2, 0.1, 0.0]).vjp([1.0, 0.0, 0.0, 0.0])
print(*[entry.__name__ for entry in jit._entries if entry._dispatcher is not None])
graph = FactorGraph()
arcs = graph.variables((4, 3))
graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, 1) for row in arcs])
lp_sparsemap(graph, [[2.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.0, 0.3], [0.0, 0.0, 0.0]])
print(*[entry.__name__ for entry in jit._entries if entry._dispatcher is not None])
""")


def test_small_graphs_compile_little(fresh_python):
    logic, both = map(set, map(str.split, fresh_python(USED).stdout.splitlines()))
    assert logic == {"small_logic_range", "small_project_range"}
    assert both - logic == {"small_rows_range", "active_set", "best_tree", "never"}
