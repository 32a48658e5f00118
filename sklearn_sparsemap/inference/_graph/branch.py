"""Branch and bound for the best assignment of a graph with tables or structures whose relaxation is fractional.

Used by `inference/_results`, `exact.py` and `map.py`.
"""

from itertools import pairwise

import numpy as np

from ..._core.jit import working_time
from ..._graphs.arrays import FORBIDDEN

# Maximum number of relaxations of a search with a deadline.
MAX_NODES = 500
# Maximum number of sweeps of coordinate ascent.
_MAX_SWEEPS = 50
# Marginals within this distance of 0 or 1 count as integral.
INTEGRAL = 1e-6


def branch(problem, u, joint, bound, tol, size, relax, deadline=None):
    """Find the best assignment of a graph with tables or structures, depth first.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    u, joint : arrays of shape (n_variables,) and (n_additional,)
        A solution of its relaxation.
    bound : float
        Upper bound of the scores of all assignments.
    tol, size : float
        The search ends if the possible gain is at most ``tol * size``; `size` is the magnitude of the scores.
    relax : callable
        See `sklearn_sparsemap.inference._graph.map.relax`.
    deadline : float or None
        The `working_time` at which the search ends, if it has found an assignment. It also ends after `MAX_NODES`
        relaxations. None searches until the result is proven to be optimal.

    Returns
    -------
    u, joint : arrays
        The assignment, and the marginals of the additional scores. If none is found, they may violate factors.
    value : float
        The score of the assignment; -inf if none is found.
    bound : float
        Upper bound of the scores of all assignments; `value` if the search is complete.
    after_nodes : bool
        Whether the number of relaxations ended the search.
    """
    branching = _TableBranching(problem) if problem.layout.tables is not None else _StructureBranching(problem, size)
    best, best_joint, best_value = branching.round(u, joint)
    nodes = [(bound, problem.scores[0])]
    n_nodes = 0
    unsolved = -np.inf
    end = np.inf if deadline is None else deadline
    max_nodes = np.inf if deadline is None else MAX_NODES
    # Without an assignment to return, the search continues after the deadline.
    while nodes and n_nodes < max_nodes and (best_value == -np.inf or working_time() < end):
        bound, scores = nodes.pop()
        if bound <= best_value + tol * size:
            continue
        n_nodes += 1
        until = None if best_value == -np.inf else deadline
        solutions = relax(problem._replace(scores=scores[None]), tol, deadline=until)
        u, gap = solutions.marginals[0], solutions.gap[0]
        if np.isnan(gap) or (gap <= size and branching.is_contradicted(scores, u)):
            continue
        rounded, rounded_joint, value = branching.round(u, solutions.joint[0])
        if value > best_value:
            best, best_joint, best_value = rounded, rounded_joint, value
        children = branching.split(scores, u)
        if gap <= size:
            bound = min(bound, problem.values(solutions.marginals, solutions.joint)[0] + gap)
        elif not children:
            unsolved = max(unsolved, bound)
        nodes.extend((bound, child) for child in children)
    bound = max([best_value, unsolved, *(node[0] for node in nodes)])
    return best, best_joint, best_value, bound, bool(nodes) and n_nodes >= max_nodes


class _StructureBranching:
    """Branching on the variable that is farthest from 0 and 1, fixed by a score that outweighs all others."""

    def __init__(self, problem, size):
        self.problem = problem
        self.reward = 10.0 * size * max(problem.layout.n_variables + problem.layout.n_additional, 10)

    def _fixed(self, scores):
        """Return 1.0 for variables that are fixed to be on, -1.0 for those fixed to be off, else 0.0."""
        return np.sign(scores - self.problem.scores[0])

    def is_contradicted(self, scores, u):
        """Tell whether the factors and the fixed variables contradict each other."""
        fixed = self._fixed(scores)
        return np.where(fixed > 0, 1.0 - u, np.where(fixed < 0, u, 0.0)).max() > INTEGRAL

    def round(self, u, joint):
        """Return an assignment and its value, which is -inf if the marginals are fractional or violate a rule."""
        if fractional(u).any():
            return u, joint, -np.inf
        u = rounded(u)
        joint = rounded(joint)
        if self.problem.layout.whole_rows.violated(u).any():
            return u, joint, -np.inf
        return u, joint, self.problem.values(u[None], joint[None])[0]

    def split(self, scores, u):
        """Return the scores of two branches, of which the last one is examined first; none if all are decided."""
        is_free = self._fixed(scores) == 0.0
        undecided = np.where(is_free, np.minimum(u, 1.0 - u), -1.0)
        i = int(undecided.argmax())
        if undecided[i] <= INTEGRAL:
            # The relaxation is integral, but may violate a rule by less than its tolerance.
            rows = self.problem.layout.whole_rows
            wrong = np.flatnonzero(rows.violated(rounded(u)))
            entries = np.concatenate([np.arange(*rows.ptr[r : r + 2]) for r in wrong]) if len(wrong) else wrong
            entries = entries[is_free[rows.variables[entries]]]
            if not len(entries):
                return []
            i = int(rows.variables[entries[np.abs(rows.coefs[entries]).argmax()]])
        on = scores.copy()
        off = scores.copy()
        on[i] += self.reward
        off[i] -= self.reward
        return [off, on]


class _TableBranching:
    """Branching on the least decided variable: it takes its most probable value, or this value is forbidden.

    Rounding always yields an assignment, which coordinate ascent improves.
    """

    def __init__(self, problem):
        self.problem, self.tables, self.scores = problem, problem.layout.tables, problem.scores[0]
        additional = problem.additional[0]
        self.neighbours = [[] for _ in self.tables.order]
        for e, (i, j) in enumerate(self.tables.ends.tolist()):
            table = additional[self.tables.cells[e] : self.tables.cells[e + 1]]
            n = int(np.sqrt(len(table)))
            self.neighbours[i].append((j, table.reshape(n, n).T))
            self.neighbours[j].append((i, table.reshape(n, n)))

    def is_contradicted(self, scores, u):
        return False

    def round(self, u, joint):
        """Round marginals, then change single values while the score rises; return the assignment and its value."""
        nodes = self.tables.nodes.tolist()
        tables = self.tables
        allowed = np.where(self.scores > 0.5 * FORBIDDEN, u, -1.0)
        values = [int(allowed[a:b].argmax()) for a, b in pairwise(nodes)]
        for _ in range(_MAX_SWEEPS):
            changed = False
            for i, near in enumerate(self.neighbours):
                fields = self.scores[nodes[i] : nodes[i + 1]].copy()
                for j, table in near:
                    fields += table[values[j]]
                best = int(fields.argmax())
                # If tables forbid all values, none is better than another.
                if fields[best] > -np.inf and fields[best] > fields[values[i]] + 1e-12 * abs(fields[best]):
                    values[i], changed = best, True
            if not changed:
                break
        u = np.zeros(len(u))
        joint = np.zeros(len(joint))
        on = np.array(values)
        u[tables.nodes[:-1] + on] = 1.0
        n = np.diff(tables.nodes)[tables.ends[:, 0]]
        joint[tables.cells[:-1] + on[tables.ends[:, 0]] * n + on[tables.ends[:, 1]]] = 1.0
        return u, joint, self.problem.values(u[None], joint[None])[0]

    def split(self, scores, u):
        """Return the scores of two branches, of which the last one is examined first; none if all are decided."""
        nodes = self.tables.nodes
        highest = np.maximum.reduceat(u, nodes[:-1])
        highest[np.add.reduceat(scores > 0.5 * FORBIDDEN, nodes[:-1]) < 2] = np.inf
        node = int(highest.argmin())
        if highest[node] > 1.0:
            return []
        values_of = slice(nodes[node], nodes[node + 1])
        best = nodes[node] + int(u[values_of].argmax())
        with_it = scores.copy()
        without = scores.copy()
        with_it[values_of] = FORBIDDEN
        with_it[best] = scores[best]
        without[best] = FORBIDDEN
        return [without, with_it]


def rounded(u):
    """Round marginals, or counts, that are close to integers; large scores would amplify the difference."""
    return np.where(fractional(u % 1.0), u, np.rint(u))


def fractional(u):
    """Tell which marginals are neither 0 nor 1."""
    return np.minimum(u, 1.0 - u) > INTEGRAL
