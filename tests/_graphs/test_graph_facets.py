"""Structures in graphs by their facets, and graphs that are one matching, against structures and other solvers."""

from collections import Counter

import naive_facets
import numpy as np
import pytest
from facet_cases import FAMILIES, LIMIT, NO_ROWS, run
from internals import (
    BY_FACETS,
    FLOATS_2D_OUT,
    FORBIDDEN,
    PARTS,
    entry,
    matching_multipliers_range,
    project_on_tight_face,
    readonly,
    tight_face,
    with_modules,
)
from numba import types
from numpy.testing import assert_allclose
from registry import Instance

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, Imply, Or, StructureFactor, Xor
from sklearn_sparsemap.structures import DependencyTree, Matching, Simplex, Subset


# As an entry, it is compiled once for all runs of the tests.
@entry(types.void(PARTS, types.int64, PARTS, PARTS, FLOATS_2D_OUT))
def project(block, n_blocks, ends, parts, directions):
    ints, factor, shares = tight_face(block, n_blocks, ends, parts)
    for d in range(directions.shape[0]):
        project_on_tight_face(ints, factor, shares, directions[d], 2)


FACES = {"tree": DependencyTree(), "matching": Matching(), "subset": Subset(), "simplex": Simplex()}


def equations_of(name, shape, facets):
    """Return what each facet that a solution holds says of the parts, one a row."""
    size, found = int(np.prod(shape)), []
    parts = np.arange(size).reshape(shape)

    def add(*chosen):
        found.append(np.isin(np.arange(size), np.concatenate([np.ravel(c) for c in chosen])))

    if name == "tree":
        for word in range(shape[1]):
            add(parts[:, word])
        for words in facets[0]:
            words = words[words >= 0]
            add(parts[np.ix_(words, words - 1)])
    elif name == "matching":
        wide = parts if shape[0] <= shape[1] else parts.T
        for line in wide:
            add(line)
        for c, column in enumerate(wide.T):
            if shape[0] == shape[1] or facets[2][c] > 1e-10:
                add(column)
    elif name == "simplex" or abs(facets[2][0]) > 1e-10:
        add(parts)
    return np.array(found).reshape(len(found), size)


@pytest.mark.parametrize("name", FACES)
def test_the_face_of_facets_is_that_of_their_equations(name):
    rng, counts = np.random.default_rng(0), Counter()
    polytope_solver = FACES[name].polytope_solver
    for family, scores_of in FAMILIES.items():
        for n in (1, 3, 6):
            shape = {"tree": (n + 1, n), "matching": (n, int(rng.integers(1, 8)))}.get(name, (n,))
            scores = scores_of(rng, shape)
            if name == "simplex":
                p, dims = naive_facets.sparsemax(scores), np.array([n])
                facets = np.empty((0, 0), np.int32), None, np.empty(0)
            else:
                structure = {
                    "tree": DependencyTree(single_root=n == 3), "matching": Matching(), "subset": Subset(1, 1 + n // 2)
                }[name]  # fmt: skip
                found, p, (_, _, dims, _) = run(polytope_solver.solve, Instance(structure, scores, {}))
                if found[3] != BY_FACETS:
                    counts["not solved"] += 1
                    continue
                facets = found[0], found[1], found[2]
            free = (p > 0.0) & ((p < 1.0) | (name != "subset"))
            if name == "subset" and facets[0].size:
                # With ties, the solution says which items are free.
                assert (facets[0][0][free] == 0).all() or (facets[0] < 0).all()
                free, counts["subset with ties"] = facets[0][0] == 0, counts["subset with ties"] + 1
            directions = rng.normal(size=(2, p.size))
            expected = directions @ naive_facets.projector(equations_of(name, shape, facets), free).T
            *face, _ = polytope_solver.equations(dims, p, p, facets[0].ravel(), facets[2])
            project(*face, directions)
            assert_allclose(directions, expected, atol=1e-10, err_msg=family)
            counts["moves"] += np.abs(expected).max() > 1e-3
    assert counts["moves"] > 15 and counts["not solved"] < 5, counts


@pytest.mark.parametrize("structure", [DependencyTree(), DependencyTree(single_root=True), Matching()])
def test_solvers_by_facets_start_where_they_ended(structure):
    rng, counts = np.random.default_rng(1), Counter()
    solver = structure.polytope_solver.solve
    for scale in (0.1, 1.0, 5.0):
        for n in (2, 5, 12):
            scores = scale * rng.normal(size=(n + 1, n))
            cold, u, problem = run(solver, Instance(structure, scores, {}))
            w = np.empty_like(u)
            warm = solver(structure.oracle, *problem, 1e-12, 1e-9, LIMIT, cold[0], NO_ROWS, cold[2], w)
            assert warm[3] == cold[3] == BY_FACETS
            assert_allclose(w, u, atol=1e-12)
            assert warm[6] <= min(cold[6], 1)
            counts["fewer steps"] += warm[6] < cold[6]
            moved = Instance(structure, scores + 1e-3 * rng.normal(size=scores.shape), {}).problem()
            found = solver(structure.oracle, *moved, 1e-12, 1e-9, LIMIT, cold[0], NO_ROWS, cold[2], w)
            expected = solver(structure.oracle, *moved, 1e-12, 1e-9, LIMIT, NO_ROWS, NO_ROWS, np.empty(0), u)
            assert found[3] == expected[3] == BY_FACETS
            assert_allclose(w, u, atol=1e-11)
    assert counts["fewer steps"] > 5


def by_structures(graph):
    """Make a graph forget that it knows of facets."""
    layout = graph.layout({})
    layout.polytope_solvers, layout.matching = [None] * len(layout.polytope_solvers), None
    return graph


def budgeted_tree(n, rng):
    graph = FactorGraph()
    u = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(single_root=bool(rng.random() < 0.5)), u))
    if n > 2:
        graph.add(*[Budget(u[h, [m for m in range(n) if m != h - 1]], 1) for h in (1, 2)])
    return graph


def limited_matching(n, rng):
    graph = FactorGraph()
    m = int(rng.integers(2, 8))
    u = graph.variables((n, m))
    graph.add(StructureFactor(Matching(), u), AtMostOne([u[0, 0], u[-1, 1]]), Imply([u[0, 1], u[-1, 0]]))
    return graph


def negated_matching(n, rng):
    graph = FactorGraph()
    u = graph.variables((n, n + 1))
    graph.add(StructureFactor(Matching(), ~u), AtMostOne([~u[0, 0], ~u[-1, 1]]))
    return graph


def choices(n, rng):
    graph = FactorGraph()
    u = graph.variables((2, n + 2))
    graph.add(StructureFactor(Subset(1, 1 + n // 2), u[0]), StructureFactor(Simplex(), u[1]))
    graph.add(AtMostOne([u[0, 0], u[1, 0], u[1, 1]]), Imply([u[0, 1], u[1, 2]]))
    return graph


def tree_and_matching(n, rng):
    graph = FactorGraph()
    u = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), u), StructureFactor(Matching(), u[:n]))
    return graph


TIED = ("exact distances", "integers", "bits", "zeros", "distances")


@pytest.mark.parametrize("make", [budgeted_tree, limited_matching, negated_matching, choices, tree_and_matching])
def test_facets_in_graphs_equal_structures(make):
    rng, counts = np.random.default_rng(2), Counter()
    for family in [name for name in FAMILIES if name != "normal 10000.0"]:
        for n in (2, 5, 9):
            seed = int(rng.integers(1 << 30))
            graph, other = (make(n, np.random.default_rng(seed)) for _ in range(2))
            by_structures(other)
            (shape,) = graph.shapes.values()
            scores, v = FAMILIES[family](rng, shape), rng.normal(size=shape)
            options = {"tol": 1e-9, "max_iter": 5000}
            try:
                expected = lp_sparsemap(other, scores, **options)
            except ValueError:
                with pytest.raises(ValueError, match="infeasible"):
                    lp_sparsemap(graph, scores, **options)
                counts["infeasible"] += 1
                continue
            found = lp_sparsemap(graph, scores, **options)
            assert found.converged, (family, n)
            if expected.converged:
                assert_allclose(found.marginals, expected.marginals, atol=1e-8)
                assert found.objective == pytest.approx(expected.objective, abs=1e-8)
                counts["compared"] += 1
            if family not in TIED:
                assert_allclose(found.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-6, err_msg=family)
                assert_allclose(found.jvp(scores=v), expected.vjp(v)["scores"], atol=1e-6, err_msg=family)
                counts["by facets"] += found._jacobian._face_arrays[5].any()
            else:
                # One matrix, whatever it is.
                w = rng.normal(size=shape)
                assert np.sum(found.vjp(v)["scores"] * w) == pytest.approx(np.sum(v * found.vjp(w)["scores"]), abs=1e-6)
            warm = lp_sparsemap(graph, scores + 1e-3, warm_start=found, **options)
            assert warm.converged
            assert_allclose(warm.marginals, lp_sparsemap(other, scores + 1e-3, **options).marginals, atol=1e-8)
    assert counts["compared"] > 25 and counts["by facets"] > 1, counts


@pytest.mark.parametrize("structure", [DependencyTree(), Matching(), Subset(2, 4), Simplex()])
def test_at_ties_the_face_is_that_of_the_structures(structure):
    rng, counts = np.random.default_rng(5), Counter()
    for family in FAMILIES:
        n = 8
        shape = (n + 1, n) if structure.score_ndim == 2 else (n,)
        graphs = [FactorGraph() for _ in range(2)]
        for graph in graphs:
            graph.add(StructureFactor(structure, graph.variables(shape)))
        by_structures(graphs[1])
        scores, v = FAMILIES[family](rng, shape), rng.normal(size=shape)
        found, expected = (lp_sparsemap(graph, scores) for graph in graphs)
        assert_allclose(found.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-7, err_msg=family)
        counts["by facets"] += found._jacobian._face_arrays[5].any()
        counts["tied"] += not found._jacobian._face_arrays[5].any() and family in TIED
    # The facets of subsets tell the face at ties, too.
    assert counts["by facets"] > 3 and (counts["tied"] > 0) != isinstance(structure, Subset), counts


def test_structures_of_a_factor_that_was_solved_by_facets():
    rng = np.random.default_rng(3)
    graph = FactorGraph()
    u = graph.variables((10, 9))
    graph.add(StructureFactor(DependencyTree(), u, name="tree"), Budget(u[0], 2))
    result = lp_sparsemap(graph, 0.1 * rng.normal(size=(10, 9)))
    total = np.zeros((10, 9))
    for heads, weight in result.structures["tree"]:
        total[heads, np.arange(9)] += weight
    assert_allclose(total, result.marginals, atol=1e-6)
    result.vjp(np.ones((10, 9)))
    assert result._jacobian._face_arrays[5].all()


def table(n, m, factors, rng, keep=1.0):
    """Make a graph of rows and columns, in any order; not all of its cells need exist."""
    cells = np.flatnonzero(rng.random(n * m) < keep)
    graph = FactorGraph()
    u = graph.variables(len(cells))
    place = dict(zip(cells.tolist(), range(len(cells)), strict=True))
    lines = [[place[r * m + c] for c in range(m) if r * m + c in place] for r in range(n)]
    lines += [[place[r * m + c] for r in range(n) if r * m + c in place] for c in range(m)]
    made = [factor(u[rng.permutation(line)]) for factor, line in zip(factors, lines, strict=True) if line]
    graph.add(*[made[i] for i in rng.permutation(len(made))])
    return graph


def violation_of_multipliers(layout, scores):
    """Return by how much the multipliers that the facets of a matching give violate the optimality conditions."""
    arrays, n_rows = layout.arrays, len(layout.arrays.row_bounds)
    given = np.where(scores == -np.inf, FORBIDDEN, scores)[None]
    mu, n_steps = np.zeros((1, n_rows)), np.zeros((1, 1))
    matching_multipliers_range(layout.matching, readonly(given), np.zeros((0, 0)), np.array([1000]), 0, 1, mu, n_steps)
    assert n_steps[0, 0] <= 60
    matrix = np.zeros((n_rows, len(scores)))
    matrix[np.repeat(np.arange(n_rows), np.diff(arrays.row_ptr)), arrays.row_vars] = 1.0
    rest = 1.0 - matrix @ np.clip(scores - mu[0] @ matrix, 0.0, 1.0)
    at_most = arrays.row_low == 0.0
    assert (mu[0][at_most] >= 0.0).all()
    return np.abs(np.where(at_most & (mu[0] == 0.0), np.minimum(rest, 0.0), rest)).max()


def test_graphs_that_are_matchings_equal_block_coordinate_ascent(draws):
    rng, counts = np.random.default_rng(4), Counter()
    for _ in range(draws(150)):
        n, m = rng.integers(1, 7, size=2)
        rows, columns = rng.choice(["xor", "at most", "mixed"], size=2)
        kinds = {"xor": lambda: Xor, "at most": lambda: AtMostOne, "mixed": lambda: [Xor, AtMostOne][rng.integers(2)]}
        factors = [kinds[rows]() for _ in range(n)] + [kinds[columns]() for _ in range(m)]
        graph = table(n, m, factors, rng, keep=rng.choice([0.8, 1.0]))
        assert graph.n_variables == 0 or graph.layout({}).matching is not None
        if graph.n_variables == 0:
            continue
        family = rng.choice([name for name in FAMILIES if name != "normal 10000.0"])
        scores = FAMILIES[family](rng, (graph.n_variables, 1))[:, 0]
        options = {"tol": 1e-9, "max_iter": 20_000}
        try:
            expected = lp_sparsemap(graph, scores, solver="block", **options)
        except ValueError:
            with pytest.raises(ValueError, match="infeasible"):
                lp_sparsemap(graph, scores, **options)
            counts["infeasible"] += 1
            continue
        found = lp_sparsemap(graph, scores, **options)
        assert found.converged and found.residual <= 1e-9 and found.gap <= 1e-9 * max(1.0, abs(found.objective))
        if expected.converged:
            assert_allclose(found.marginals, expected.marginals, atol=2e-6)
            counts[rows, columns] += 1
        # Newton's method of the graph starts from the solution.
        violation = violation_of_multipliers(graph.layout({}), scores)
        counts["right"] += violation <= 1e-9
        counts["wrong"] += violation > 1e-9
        by_rows = lp_sparsemap(by_structures(graph), scores, **options)
        if by_rows.converged:
            assert_allclose(found.marginals, by_rows.marginals, atol=1e-8)
            counts["newton"] += 1
    assert counts["infeasible"] > 20 and counts["newton"] > 60 and len(counts) >= 12, counts
    assert counts["wrong"] < 5, counts


def test_which_graphs_are_matchings():
    def is_matching(shape, *factors):
        graph = FactorGraph()
        u = graph.variables(shape)
        graph.add(*[factor(u) for factor in factors])
        return graph.layout({}).matching is not None

    def rows(kind):
        return (lambda u: kind(u[0])), (lambda u: kind(u[1]))

    columns = tuple(lambda u, c=c: AtMostOne(u[:, c]) for c in range(3))
    assert is_matching((2, 3), *columns, *rows(Xor))
    assert is_matching((2, 3), *rows(AtMostOne), *columns)
    assert not is_matching((2, 3), *rows(Or), *columns)
    assert not is_matching((2, 3), *rows(Xor))
    assert not is_matching((2, 3), *rows(Xor), *columns[:2])
    assert not is_matching((2, 3), *rows(Xor), *columns, lambda u: AtMostOne(u[:, 0]))
    assert not is_matching((2, 3), *rows(lambda line: Budget(line, 2)), *columns)
    assert not is_matching((2, 3), lambda u: Xor([~u[0, 0], u[0, 1], u[0, 2]]), rows(Xor)[1], *columns)
    # A triangle has no two sides; two variables in the same two factors are no cells.
    assert not is_matching(3, *[lambda u, k=k: Xor([u[k], u[(k + 1) % 3]]) for k in range(3)])
    assert not is_matching(2, lambda u: Xor([u[0], u[1]]), lambda u: AtMostOne([u[0], u[1]]))
    # Many small matchings are a large table with few cells.
    assert not is_matching(20, *[lambda u, k=k: Xor([u[k]]) for k in range(20)] * 2)


def test_what_graphs_compile(fresh_python):
    code = with_modules("""
import numpy as np
from sklearn_sparsemap import lp_sparsemap
from {jit} import _entries
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.structures import LinearChain

def used():
    return {e.__name__ for e in _entries if e._dispatcher is not None}

graph = FactorGraph()
u = graph.variables(3)
graph.add(Budget(u, 2))
lp_sparsemap(graph, np.ones(3)).vjp(np.ones(3))
assert not [name for name in used() if "facets" in name or "matching" in name], used()
graph = FactorGraph()
u = graph.variables((3, 2))
graph.add(StructureFactor(LinearChain(), u), Budget(u[0], 1))
lp_sparsemap(graph, np.ones((3, 2))).vjp(np.ones((3, 2)))
assert not [name for name in used() if "facets" in name or "interior" in name], used()
graph = FactorGraph()
u = graph.variables((2, 2))
graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
lp_sparsemap(graph, np.eye(2))
assert "matching_multipliers_range" in used()
""")
    out = fresh_python(code)
    assert out.returncode == 0, out.stderr
