"""Branch and bound for the best values of variables in tables, if the linear relaxation is fractional."""

from itertools import pairwise

import numpy as np

from ..._core.jit import working_time
from ...graphs.arrays import FORBIDDEN

# Maximum number of relaxations of a search.
_MOST_NODES = 200
# Maximum number of sweeps of coordinate ascent.
_MOST_SWEEPS = 50


def search_values(problem, u, bound, tol, size, relax, deadline=None):
    """Find the best assignment of a graph of tables, from a solution `u` of its relaxation.

    Depth first. Each branch gives the least decided variable its likeliest value, or forbids that value. There is
    always an assignment: each relaxation is rounded, and improved one variable at a time.

    Parameters
    ----------
    problem : GraphProblems
        A single sample.
    u : array of shape (n_variables,)
    bound : float
        Upper bound of the scores of all assignments.
    tol, size : float
        The search ends if the possible gain is less than their product.
    relax : callable
        See `sklearn_sparsemap.inference._graph.map.relax`.
    deadline : float or None
        The `working_time` at which the search ends.

    Returns
    -------
    u, joint : arrays
        The assignment, and the cells of the tables that are on.
    value, bound : float
        Both are -inf if no assignment is allowed.
    """
    tables, given = problem.layout.tables, problem.scores[0]
    best = _Climber(problem).climb(u)
    best_value = _value(problem, best)
    nodes, n_nodes, end = [(bound, given)], 0, np.inf if deadline is None else deadline
    while nodes and n_nodes < _MOST_NODES and working_time() < end:
        bound, scores = nodes.pop()
        if bound <= best_value + tol * size:
            continue
        n_nodes += 1
        own = problem._replace(scores=scores[None])
        found, _, values, gaps = relax(own, tol, deadline=deadline)
        if np.isnan(gaps[0]):
            continue
        bound = min(bound, values[0] + gaps[0])
        rounded = _Climber(own).climb(found[0])
        value = _value(problem, rounded)
        if value > best_value:
            best, best_value = rounded, value
        highest = np.maximum.reduceat(found[0], tables.nodes[:-1])
        allowed = np.add.reduceat(scores > 0.5 * FORBIDDEN, tables.nodes[:-1])
        highest[allowed < 2] = 2.0
        node = int(highest.argmin())
        if bound <= best_value + tol * size or highest[node] > 1.0:
            continue
        values_of = slice(tables.nodes[node], tables.nodes[node + 1])
        likeliest = int(found[0][values_of].argmax())
        with_it, without = scores.copy(), scores.copy()
        with_it[values_of] = FORBIDDEN
        with_it[tables.nodes[node] + likeliest] = scores[tables.nodes[node] + likeliest]
        without[tables.nodes[node] + likeliest] = FORBIDDEN
        nodes += [(bound, without), (bound, with_it)]
    bound = max([best_value, *(node[0] for node in nodes)])
    return best, _cells(problem, best), best_value, bound


def _cells(problem, u):
    """Return the cells of the tables that an assignment selects."""
    tables, joint = problem.layout.tables, np.zeros(problem.layout.n_additional)
    on = np.add.reduceat(u * np.arange(len(u)), tables.nodes[:-1]).astype(np.int64) - tables.nodes[:-1]
    n = np.diff(tables.nodes)[tables.ends[:, 0]]
    joint[tables.cells[:-1] + on[tables.ends[:, 0]] * n + on[tables.ends[:, 1]]] = 1.0
    return joint


def _value(problem, u):
    return problem.values(u[None], _cells(problem, u)[None])[0]


class _Climber:
    """Improves assignments of a sample, one variable at a time."""

    def __init__(self, problem):
        self.tables, self.scores = problem.layout.tables, problem.scores[0]
        additional = problem.additional[0]
        self.neighbours = [[] for _ in self.tables.order]
        for e, (i, j) in enumerate(self.tables.ends.tolist()):
            table = additional[self.tables.cells[e] : self.tables.cells[e + 1]]
            n = int(np.sqrt(len(table)))
            self.neighbours[i].append((j, table.reshape(n, n).T))
            self.neighbours[j].append((i, table.reshape(n, n)))

    def climb(self, u):
        """Round marginals and change values while the score rises; return an assignment, as 0 and 1."""
        nodes = self.tables.nodes.tolist()
        allowed = np.where(self.scores > 0.5 * FORBIDDEN, u, -1.0)
        values = [int(allowed[a:b].argmax()) for a, b in pairwise(nodes)]
        for _ in range(_MOST_SWEEPS):
            changed = False
            for i, near in enumerate(self.neighbours):
                fields = self.scores[nodes[i] : nodes[i + 1]].copy()
                for j, table in near:
                    fields += table[values[j]]
                best = int(fields.argmax())
                if fields[best] > fields[values[i]] + 1e-12 * abs(fields[best]):
                    values[i], changed = best, True
            if not changed:
                break
        found = np.zeros(len(u))
        found[self.tables.nodes[:-1] + values] = 1.0
        return found
