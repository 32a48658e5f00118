"""Random factor graphs, and slow, obvious twins of what the package does with them."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import naive
import numpy as np
from scipy.optimize import nnls

from sklearn_sparsemap.factors import (
    AndOut,
    AtLeast,
    AtMost,
    AtMostOne,
    Budget,
    Exactly,
    Exclusive,
    FactorGraph,
    Implies,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    PairTable,
    StructureFactor,
    Xor,
    XorOut,
)
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching

# The meaning of a factor for its literals, most of them the output last.
MEANING = {
    Exclusive: lambda p: sum(p) <= 1,
    OrOut: lambda p: p[-1] == any(p[:-1]),
    XorOut: lambda p: sum(p[:-1]) == p[-1],
    AndOut: lambda p: p[-1] == all(p[:-1]),
    Implies: lambda p: p[-1] or not all(p[:-1]),
}


@dataclass
class Case:
    """A graph with one array of variables, and scores for it."""

    graph: Any
    scores: np.ndarray
    additional: dict

    def __repr__(self):
        return f"{self.graph!r}, {self.scores.shape}"


def holds(factor, p):
    """Tell whether a 0/1 assignment of a logic factor's literals is allowed."""
    counted = {AtMost: sum(p) <= getattr(factor, "k", 0), AtLeast: sum(p) >= getattr(factor, "k", 0)}
    if isinstance(factor, Exactly):
        return sum(p) == factor.k
    if type(factor) in counted:
        return counted[type(factor)]
    if type(factor).__name__ == "Count":
        low, high = factor.bounds()
        return low <= sum(p) <= high
    return bool(MEANING[type(factor)](list(p)))


def variables_of(literals, p):
    """Turn assignments of literals, one a row, into those of the variables."""
    return np.where(literals.negated, 1.0 - p, p)


def polytopes(case):
    """Return for each factor (each pair by itself) its variables, vertices over them (rows), and linear values.

    A knapsack has no vertices but a row ``(costs, bound)`` over the variables.
    """
    found = []
    for factor in case.graph.factors:
        literals = factor.literals
        n = literals.size
        if isinstance(factor, Pair):
            scores = np.broadcast_to(case.additional[factor.name], factor.shape).ravel()
            p = np.array(list(product([0.0, 1.0], repeat=2)))
            for e, score in enumerate(scores):
                pair = literals[2 * e : 2 * e + 2]
                found.append((pair.indices, variables_of(pair, p), score * p.prod(axis=1), None))
        elif isinstance(factor, StructureFactor):
            enumerate_all = {
                LinearChain: naive.enumerate_chain,
                DependencyTree: naive.enumerate_trees,
                Matching: naive.enumerate_matchings,
            }
            options = vars(factor.structure)
            given = case.additional.get(factor.name, {})
            _, M, theta = enumerate_all[type(factor.structure)](np.zeros(factor.shape), **given, **options)
            found.append((literals.indices, variables_of(literals, M.T), theta, None))
        elif isinstance(factor, PairTable):
            k = factor.n_states
            tables = np.broadcast_to(case.additional[factor.name], (*factor.pairs_shape, k, k)).reshape(-1, k * k)
            cells = np.hstack([np.repeat(np.eye(k), k, axis=0), np.tile(np.eye(k), (k, 1))])
            found += [(own, cells, table, None) for own, table in zip(literals.indices.reshape(-1, 2 * k), tables)]
        elif type(factor).__name__ == "ExactlyOne":
            k = factor.n_states
            found += [(own, np.eye(k), np.zeros(k), None) for own in literals.indices.reshape(-1, k)]
        elif isinstance(factor, Knapsack):
            costs = np.where(literals.negated, -factor.weights, factor.weights)
            found.append((literals.indices, None, None, (costs, factor.k - factor.weights[literals.negated].sum())))
        else:
            p = np.array([p for p in product([0.0, 1.0], repeat=n) if holds(factor, p)])
            found.append((literals.indices, variables_of(literals, p), np.zeros(len(p)), None))
    return found


def check_certificate(case, result, tol):
    """Check by enumeration that a result is within `tol` of the optimum, and that it says so itself.

    The marginals must be mixtures of vertices of every factor, and the dual at the result's own dual variables, with
    MAP values by enumeration, must not be above the objective by more than `tol`.
    """
    u, scores = result.marginals.ravel(), case.scores.ravel()
    start, objective, dual = 0, scores @ u - 0.5 * u @ u, 0.0
    rest = scores.copy()
    touched = np.zeros(len(u), bool)
    assert u.min() >= -1e-12 and u.max() <= 1 + 1e-12
    for variables, vertices, values, row in polytopes(case):
        links = result._links[start : start + len(variables)]
        start += len(variables)
        rest[variables] -= links
        touched[variables] = True
        if row is not None:
            costs, bound = row
            assert costs @ u[variables] <= bound + tol * (1 + np.abs(costs).sum())
            dual += best_in_knapsack(links, costs, bound)
            continue
        # The best mixture for these marginals: a small linear program, by penalties on what must hold.
        weights, off = best_mixture(vertices, values, u[variables])
        assert off <= 10 * tol, f"marginals are {off} off the polytope"
        objective += values @ weights
        dual += (vertices @ links + values).max()
    free = np.clip(scores[~touched], 0, 1)
    np.testing.assert_allclose(u[~touched], free, atol=1e-12)
    dual += 0.5 * rest[touched] @ rest[touched] + free @ scores[~touched] - 0.5 * free @ free
    size = max(1.0, abs(objective))
    assert dual - objective <= tol * size * 20, f"the gap is {dual - objective}"
    assert abs(objective - result.objective) <= tol * size * 20
    assert abs(abs(result.gap) - abs(dual - objective)) <= tol * size * 20
    assert result.residual <= tol


def off_factors(case, result):
    """Return how far marginals are off the polytopes of the factors, by enumeration."""
    u = result.marginals.ravel()
    worst = max(u.max() - 1.0, -u.min())
    for variables, vertices, values, row in polytopes(case):
        if row is not None:
            worst = max(worst, row[0] @ u[variables] - row[1])
        else:
            worst = max(worst, best_mixture(vertices, np.zeros(len(values)), u[variables])[1])
    return worst


def best_value(case):
    """Return the total score of the best assignment, over all that satisfy the factors."""
    factors, best = polytopes(case), -np.inf
    for assignment in product([0.0, 1.0], repeat=case.scores.size):
        u = np.array(assignment)
        value = case.scores.ravel() @ u
        for variables, vertices, values, row in factors:
            if row is not None:
                value = value if row[0] @ u[variables] <= row[1] + 1e-12 else -np.inf
            else:
                value += values[(vertices == u[variables]).all(axis=1)].max(initial=-np.inf)
        best = max(best, value)
    return best


def best_mixture(vertices, values, u):
    """Return weights of vertices whose mixture is `u` with the best value, and how far off it is."""
    from scipy.optimize import linprog

    A = np.vstack([vertices.T, np.ones(len(vertices))])
    b = np.append(u, 1.0)
    weights, off = nnls(A, b)
    if values.any():
        found = linprog(-values, A_eq=A, b_eq=A @ weights, method="highs")
        if found.status == 0:
            weights = found.x
    return weights, off


def best_in_knapsack(gains, costs, bound):
    """Return the best value of ``gains @ u`` over ``costs @ u <= bound, 0 <= u <= 1``."""
    from scipy.optimize import linprog

    found = linprog(-np.asarray(gains), A_ub=costs[None], b_ub=[bound], bounds=(0, 1), method="highs")
    return -found.fun


def random_logic_graph(rng, scale=1.0, knapsacks=True):
    """A mixture of factors with negation, satisfied by a random assignment."""
    n = int(rng.integers(3, 8))
    graph = FactorGraph()
    u = graph.variables(n)
    planted = rng.integers(0, 2, n)
    additional = {}
    kinds = [Xor, AtMostOne, Or, OrOut, XorOut, AndOut, Imply, Budget, Pair] + [Knapsack] * knapsacks
    for number in range(int(rng.integers(1, 6))):
        for _ in range(50):
            kind = kinds[rng.integers(len(kinds))]
            chosen = rng.permutation(n)[: rng.integers(2, min(n, 5) + 1)]
            negated = rng.random(len(chosen)) < 0.4
            literals = [~u[int(i)] if off else u[int(i)] for i, off in zip(chosen, negated)]
            p = np.where(negated, 1 - planted[chosen], planted[chosen])
            if kind is Pair:
                name = f"pairs {number}"
                graph.add(Pair(literals[:1], literals[1:2], name=name))
                additional[name] = rng.normal(size=1) * scale
                break
            if kind is Knapsack:
                costs = rng.random(len(chosen))
                factor = Knapsack(literals, costs, float(costs @ p + 0.3 * rng.random()))
                graph.add(factor)
                break
            factor = Budget(literals, int(rng.integers(0, len(chosen) + 1))) if kind is Budget else kind(literals)
            if holds(factor, p):
                graph.add(factor)
                break
    return Case(graph, rng.normal(size=n) * scale, additional)


def random_pairs(rng, scale=1.0):
    n = int(rng.integers(2, 8))
    graph = FactorGraph()
    u = graph.variables(n)
    i, j = np.triu_indices(n, 1)
    kept = rng.random(len(i)) < 0.8
    kept[0] = True
    graph.add(Pair(u[i[kept]], u[j[kept]], name="pairs"))
    return Case(graph, rng.normal(size=n) * scale, {"pairs": rng.normal(size=kept.sum()) * scale})


def random_matching(rng, scale=1.0):
    n, m = sorted(int(k) for k in rng.integers(2, 7, size=2))
    graph = FactorGraph()
    u = graph.variables((n, m))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return Case(graph, rng.normal(size=(n, m)) * scale, {})


def random_sequence(rng, scale=1.0, budgets=False):
    """A chain in which each state is used at most once (there are as many states as steps), or within a budget."""
    n = int(rng.integers(2, 5))
    m = n + int(rng.integers(0, 2)) if not budgets else int(rng.integers(2, 5))
    graph = FactorGraph()
    u = graph.variables((n, m))
    graph.add(StructureFactor(LinearChain(), u, name="chain"))
    if budgets:
        # Something is left over for the first state, so that there is a path.
        graph.add(*[Budget(u[:, s], int(rng.integers(0, n + 1))) for s in range(1, m)])
    else:
        graph.add(*[AtMostOne(u[:, s]) for s in range(m)])
    additional = {"chain": {"transitions": rng.normal(size=(m, m)) * scale}}
    return Case(graph, rng.normal(size=(n, m)) * scale, additional)


def random_budgeted_sequence(rng, scale=1.0):
    return random_sequence(rng, scale, budgets=True)


def random_budgeted_tree(rng, scale=1.0):
    n = int(rng.integers(2, 5))
    graph = FactorGraph()
    u = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), u))
    # The root may have all words, so that there is a tree.
    for h in range(1, n + 1):
        graph.add(Budget(u[h, [m for m in range(n) if m != h - 1]], int(rng.integers(0, min(n, 3)))))
    return Case(graph, rng.normal(size=(n + 1, n)) * scale, {})


def random_shared_structures(rng, scale=1.0):
    """Two chains over the same variables, along the rows and along the columns, and pairs."""
    n = int(rng.integers(2, 4))
    graph = FactorGraph()
    u = graph.variables((n, n))
    graph.add(StructureFactor(LinearChain(), u, name="rows"), StructureFactor(LinearChain(), u.T, name="columns"))
    graph.add(Pair(u[0, :-1], u[1, 1:], name="pairs"))
    additional = {
        "rows": {"transitions": rng.normal(size=(n, n)) * scale},
        "columns": {"transitions": rng.normal(size=(n, n)) * scale},
        "pairs": rng.normal(size=n - 1) * scale,
    }
    return Case(graph, rng.normal(size=(n, n)) * scale, additional)


RANDOM_GRAPHS = {
    "logic": random_logic_graph,
    "pairs": random_pairs,
    "matching": random_matching,
    "sequence, each state once": random_sequence,
    "sequence, budgets": random_budgeted_sequence,
    "tree, budgets": random_budgeted_tree,
    "shared structures": random_shared_structures,
}


def literals_of(u, negated):
    return [~u[i] if off else u[i] for i, off in enumerate(negated)]


def vertices_of(case):
    """Return the vertices of a graph with one factor as columns, with the values that are linear in them."""
    variables, vertices, values, row = polytopes(case)[0]
    assert variables.tolist() == list(range(case.graph.n_variables))
    if row is not None:
        # The corners of a box that is cut by a plane: those inside, and where an edge meets the plane.
        costs, bound = row
        corners = []
        for p in product([0.0, 1.0], repeat=len(costs)):
            if costs @ p <= bound + 1e-12:
                corners.append(p)
            for i in range(len(costs)):
                others = np.array(p)
                others[i] = 0.0
                moved = (bound - costs @ others) / costs[i]
                if 0 < moved < 1:
                    others[i] = moved
                    corners.append(tuple(others))
        vertices = np.unique(np.round(corners, 13), axis=0)
        values = np.zeros(len(vertices))
    return vertices.T, values
