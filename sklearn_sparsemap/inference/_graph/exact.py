"""The best assignment of a graph of logic factors and pairs, by a mixed-integer program with a time limit.

Used by `_layers`, `_training` and `inference`.
"""

import warnings

import numpy as np
from scipy import optimize, sparse
from sklearn.exceptions import ConvergenceWarning

from ..._core.highs import milp
from ..._core.jit import working_time
from ..._graphs.arrays import FORBIDDEN
from .branch import MAX_NODES

# Largest violation of a row by an assignment. Entries of rows are integers.
_TOL = 1e-6
_COMPLETE = (0, 2)  # status of scipy's milp if the result is optimal, or there is none
_MIN_TIME = 1e-3  # seconds; with less time left, no search begins


def assign_exactly(problem, start, known, deadline=None, max_nodes=None):
    """Find the best assignment of a graph without structures.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    start : float array of shape (n_variables,)
        0 and 1: the values of known variables, and a possible result if time runs out.
    known : bool array of shape (n_variables,)
        Mask of the variables that are fixed.
    deadline : float or None
        The `working_time` at which the search ends.
    max_nodes : int, default=None
        Maximum number of nodes of the search.

    Returns
    -------
    u, joint : arrays
        The assignment, and which pairs are on.
    value, bound : float
        The score of the assignment, and an upper bound of the scores of all assignments. They are equal if the search
        is complete. Both are -inf if there is no assignment. If a search of `max_nodes` is not complete, they are
        infinite.
    """
    program = AssignmentProgram(problem, start, known)
    left, assignments, bound = None if deadline is None else deadline - working_time(), [], None
    is_complete = False
    if left is None or left > _MIN_TIME:
        result = program.solve(left, max_nodes)
        assignments, bound, is_complete = (
            program.assignments_of(result),
            result.get("mip_dual_bound"),
            result.status in _COMPLETE,
        )
    if is_complete and assignments:
        u = assignments[0]
        return u, program.joint(u), program.value(u), program.value(u)
    if not is_complete:
        if max_nodes is not None:
            return program.start, program.joint(program.start), -np.inf, np.inf
        if program.satisfies(program.start):
            assignments.append(program.start)
        if not assignments:
            # Without scores of pairs, finding a feasible assignment is fast.
            assignments = program.assignments_of(program.solve(with_pairs=False))
    if not assignments:
        return program.start, program.joint(program.start), -np.inf, -np.inf
    u = program.climb(max(assignments, key=program.value))
    value = program.value(u)
    return u, program.joint(u), value, max(program.bound(u, bound), value)


class AssignmentProgram:
    """The mixed-integer program for the best assignment of the free variables of one sample.

    Known and forbidden variables are fixed. A pair with a fixed variable adds its score to that of the other variable,
    or nothing. So the program has only the pairs of free variables with a score, each with a variable of its own.

    Parameters
    ----------
    problem, start, known
        As in `assign_exactly`.
    """

    def __init__(self, problem, start, known):
        self._problem, arrays, forbidden = problem, problem.layout.arrays, problem.scores[0] < 0.5 * FORBIDDEN
        self._free, self.start = ~(known | forbidden), np.where(forbidden, 0.0, start)
        self._ends, self._signs, self._off = arrays.pair_ends, arrays.pair_signs, 0.5 * (1.0 - arrays.pair_signs)
        self._scores = np.where(self._free, problem.scores[0], 0.0)
        self._pair_indices = arrays.additional_ptr[arrays.pairs]
        self._use_pairs(problem.additional[0][self._pair_indices])
        self._add_rows(arrays)

    def _use_pairs(self, pair_scores):
        """Add the scores of pairs with a fixed variable to those of variables; keep the other pairs."""
        ends, free, used = self._ends, self._free, np.flatnonzero(pair_scores)
        for end, other in ((0, 1), (1, 0)):
            chosen = used[free[ends[used, end]] & ~free[ends[used, other]]]
            is_on = self._off[chosen, other] + self._signs[chosen, other] * self.start[ends[chosen, other]]
            np.add.at(self._scores, ends[chosen, end], self._signs[chosen, end] * pair_scores[chosen] * is_on)
        self._used = used[free[ends[used]].all(axis=1)]
        self._pair_scores = pair_scores[self._used]
        # The solver's tolerances are absolute.
        sizes = (np.abs(scores).max(initial=0.0) for scores in (self._scores, self._pair_scores))
        self._unit = max(sizes) or 1.0

    def _add_rows(self, arrays):
        """Make the constraints of the program: those of pairs, and the rows of the graph."""
        n, m, ends, signs, off = len(self._scores), len(self._used), self._ends, self._signs, self._off
        up, down = np.flatnonzero(self._pair_scores > 0), np.flatnonzero(self._pair_scores <= 0)
        first, second = self._used[up], self._used[down]
        # A pair with a positive score is on only if both literals are on, a pair with a negative score if both are on.
        blocks = [_rows(n + m, (n + up, 1.0), (ends[first, c], -signs[first, c])) for c in (0, 1)]
        blocks.append(_rows(n + m, *((ends[second, c], signs[second, c]) for c in (0, 1)), (n + down, -1.0)))
        self._rows = sparse.csr_array(
            (arrays.row_coefs, arrays.row_vars, arrays.row_ptr), shape=(len(arrays.row_bounds), n)
        )
        wide = self._rows.data, self._rows.indices, self._rows.indptr
        blocks.append(sparse.csr_array(wide, shape=(self._rows.shape[0], n + m)))
        self._row_low = np.where(arrays.row_low < 0.0, arrays.row_bounds, -np.inf)
        self._row_high = np.where(arrays.row_high > 0.0, arrays.row_bounds, np.inf)
        low = np.concatenate([np.full(2 * len(up) + len(down), -np.inf), self._row_low])
        high = np.concatenate([*(off[first, c] for c in (0, 1)), 1.0 - off[second].sum(axis=1), self._row_high])
        self._constraints = ()
        if len(low):
            self._constraints = optimize.LinearConstraint(sparse.vstack(blocks, format="csr"), low, high)

    def solve(self, time_limit=None, max_nodes=None, with_pairs=True):
        """Return scipy's result of the program; its status is not among `_COMPLETE` if it ended at a limit."""
        limits = {"time_limit": time_limit, "node_limit": max_nodes}
        n, m = len(self._scores), len(self._used)
        pair_scores = self._pair_scores if with_pairs else np.zeros(m)
        return milp(
            -np.concatenate([self._scores, pair_scores]) / self._unit,
            integrality=np.concatenate([np.ones(n), np.zeros(m)]),
            bounds=optimize.Bounds(
                np.concatenate([np.where(self._free, 0.0, self.start), np.zeros(m)]),
                np.concatenate([np.where(self._free, 1.0, self.start), np.ones(m)]),
            ),
            constraints=self._constraints,
            options={"mip_rel_gap": 0.0} | {name: limit for name, limit in limits.items() if limit is not None},
        )

    def assignments_of(self, result):
        """Return a list with the assignment of a result of the program; empty if there is none."""
        return [] if result.x is None else [(result.x[: len(self._scores)] > 0.5).astype(np.float64)]

    def satisfies(self, u):
        """Tell whether an assignment satisfies all rows of the graph."""
        sums = self._rows @ u
        return ((sums <= self._row_high + _TOL) & (sums >= self._row_low - _TOL)).all()

    def joint(self, u):
        """Return which pairs are on."""
        joint = np.zeros(self._problem.layout.n_additional)
        joint[self._pair_indices] = (self._off + self._signs * u[self._ends]).prod(axis=1)
        return joint

    def value(self, u):
        """Return the score of an assignment."""
        return self._problem.values(u[None], self.joint(u)[None])[0]

    def bound(self, u, program_bound):
        """Return an upper bound of the scores of all assignments, given one of them and the solver's bound or None."""
        pairs = (self._off[self._used] + self._signs[self._used] * u[self._ends[self._used]]).prod(axis=1)
        # The program omits scores of fixed variables and their pairs, which are the same for all its assignments.
        omitted = self.value(u) - self._scores @ u - self._pair_scores @ pairs
        largest = np.maximum(self._scores, 0.0).sum() + np.maximum(self._pair_scores, 0.0).sum()
        return omitted + (largest if program_bound is None else min(largest, -self._unit * program_bound))

    def climb(self, u):
        """Flip one free variable at a time while the score rises (local search); return the assignment."""
        ends, signs, n, u = self._ends[self._used], self._signs[self._used], len(u), u.copy()
        for _ in range(n * n):
            on = 0.5 * (1.0 - signs) + signs * u[ends]
            fields = self._scores.copy()
            for end, other in ((0, 1), (1, 0)):
                fields += np.bincount(ends[:, end], signs[:, end] * self._pair_scores * on[:, other], n)
            gains = np.where(self._free, np.where(u > 0.5, -fields, fields), 0.0)
            min_gain = 1e-12 * np.abs(fields).max(initial=0.0)
            for i in np.argsort(-gains)[: np.count_nonzero(gains > min_gain)]:
                u[i] = 1.0 - u[i]
                if self.satisfies(u):
                    break
                u[i] = 1.0 - u[i]
            else:
                break
        return u


def _rows(n_columns, *entries):
    """Make sparse rows with one entry from each pair of columns and values."""
    n = len(entries[0][0])
    columns = np.concatenate([columns for columns, _ in entries])
    values = np.concatenate([np.broadcast_to(value, n) for _, value in entries])
    return sparse.csr_array((values, (np.tile(np.arange(n), len(entries)), columns)), shape=(n, n_columns))


def warn_of_time_limit(late, time_limit):
    """Warn of samples whose search is not complete; `late` maps their indices to the possible loss."""
    if not late:
        return
    samples, gap = sorted(late), max(late.values())
    which = ", ".join(map(str, samples[:5])) + (", ..." if len(samples) > 5 else "")
    loss = f"the scores of the assignments found are at most {gap:.3g} below the best"
    if gap == np.inf:
        loss = (
            "for at least one, no assignment was found (its value is -inf), or how far it is from the best is unknown, "
            "because not even the relaxation was solved"
        )
    if time_limit is None:
        end, remedy = "did not solve all relaxations", "scale the scores to similar sizes"
    else:
        end = f"ended after {MAX_NODES} relaxations, or at map_time_limit={time_limit:g} seconds"
        remedy = "raise map_time_limit, or set it to None for an unlimited search"
    warnings.warn(
        f"the search for the best assignment {end} for {len(samples)} samples ({which}): {loss}; {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
