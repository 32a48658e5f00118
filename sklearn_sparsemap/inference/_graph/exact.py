"""The best assignment of a graph of logic factors and pairs, by exact branch and bound or by HiGHS, with a time limit.

Used by `_layers`, `_training` and `inference`.
"""

import warnings
from typing import NamedTuple

import numpy as np
from scipy import optimize, sparse
from sklearn.exceptions import ConvergenceWarning

from ..._core.highs import milp
from ..._core.jit import working_time
from ..._core.whole_rows import NO_BOUND
from ..._graphs.arrays import FORBIDDEN
from ..._numerics.zero_one import FREE, UNLIMITED, ZeroOne, best_zero_one
from .branch import MAX_NODES

_OPTIMAL, _NO_SOLUTION = 0, 2  # status of scipy's milp
_MIN_TIME = 1e-3  # seconds; with less time left, no search begins
# HiGHS stops at an absolute gap of 1e-6. Scores are scaled to this maximum, so that the gap is negligible.
_LARGEST_SCORE = 1e3
# Coefficients up to this size are given to HiGHS as whole numbers, so that its tolerance is no violation.
_LARGEST_COEF = 1e6
# Operations, of a few nanoseconds each, of the first search, and of those with a solution of HiGHS.
_FEW, _MANY = 1_000_000, 20_000_000
_MAX_REJECTED = 20  # solutions of HiGHS that violate a rule, each of which is excluded; then the own search goes on


class Assignment(NamedTuple):
    """The best assignment of a graph without structures.

    Attributes
    ----------
    u, joint : arrays
        The assignment, and which pairs are on.
    value, bound : float
        The score of the assignment, and an upper bound of the scores of all assignments. They are equal if the search
        is complete. Both are -inf if there is no assignment. If a search of `max_nodes` is not complete, they are
        infinite.
    relaxed_bound : float
        The upper bound by the multipliers of the linear relaxation.
    """

    u: np.ndarray
    joint: np.ndarray
    value: float
    bound: float
    relaxed_bound: float


def assign_exactly(problem, start, known, deadline=None, max_nodes=None, multipliers=None):
    """Find the best assignment of a graph without structures.

    A search in exact arithmetic comes first, and usually ends soon. If it does not, HiGHS searches. Its solutions are
    verified. One that violates a rule by less than the tolerance of HiGHS is excluded, and HiGHS searches again.

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
        Maximum number of nodes of the search by HiGHS.
    multipliers : array of shape (n_rows + n_pairs,), default=None
        Multipliers of the linear relaxation.

    Returns
    -------
    best : Assignment
    """
    program = AssignmentProgram(problem, start, known, multipliers)
    found = program.search(deadline=deadline)
    relaxed_bound = found.root_bound
    if not found.is_complete:
        found = program.search_on(found, deadline, max_nodes)
    if not found.is_complete and max_nodes is not None:
        return program.as_assignment(found, relaxed_bound)._replace(value=-np.inf, bound=np.inf)
    if not found.is_complete and not len(found.values):
        # Without scores of pairs, finding a feasible assignment is fast.
        found = program.find_feasible(found)
    return program.as_assignment(found, relaxed_bound)


class AssignmentProgram:
    """The program for the best assignment of the free variables of one sample.

    Known and forbidden variables are fixed, and pairs without a score are left out.

    Parameters
    ----------
    problem, start, known, multipliers
        As in `assign_exactly`.
    """

    def __init__(self, problem, start, known, multipliers=None):
        self._problem, arrays, forbidden = problem, problem.layout.arrays, problem.scores[0] < 0.5 * FORBIDDEN
        self.start = np.where(forbidden, 0.0, start)
        self._pair_indices = arrays.additional_ptr[arrays.pairs]
        self._ends, self._signs, self._off = arrays.pair_ends, arrays.pair_signs, 0.5 * (1.0 - arrays.pair_signs)
        pair_scores = problem.additional[0][self._pair_indices]
        used, self._rows = np.flatnonzero(pair_scores), problem.layout.whole_rows
        if multipliers is None:
            multipliers = np.zeros(len(self._rows.low) + len(pair_scores))
        self._zero_one = ZeroOne(
            *self._rows,
            scores=np.where(forbidden, 0.0, problem.scores[0]),
            pair_ends=arrays.pair_ends[used],
            pair_signs=arrays.pair_signs[used],
            pair_scores=pair_scores[used],
            fixed=np.where(known | forbidden, self.start, FREE),
            start=self.start,
            multipliers=np.concatenate(
                [multipliers[: len(self._rows.low)], multipliers[len(self._rows.low) :][used]],
            ),
        )

    def search(self, k=1, deadline=None, max_operations=_FEW, **changes):
        """Return `Found` of the search in exact arithmetic; `changes` are fields of its program."""
        return best_zero_one(self._zero_one._replace(**changes), k, max_operations, deadline)

    def search_on(self, found, deadline, max_nodes=None):
        """Return `Found` of a search by HiGHS, given that of a search that is not complete."""
        excluded, bound = [], found.bound
        while len(excluded) <= _MAX_REJECTED:
            left = None if deadline is None else deadline - working_time()
            if left is not None and left <= _MIN_TIME:
                break
            part = _OpenPart(self._zero_one, found.fixed)
            result = part.solve(left, max_nodes, excluded)
            if result.status == _NO_SOLUTION:
                # No assignment is better than the one that is known.
                return found._replace(is_complete=True)
            bound = min(bound, part.bound(result))
            if result.x is None:
                break
            u = part.assignment(result.x)
            if self._rows.violated(u).any():
                excluded.append(u)
                continue
            # The search in exact arithmetic proves that the assignment is the best one, or improves it.
            start = u if not len(found.values) or self.value(u) > found.values[0] else found.assignments[0]
            found = self.search(1, deadline, _MANY, start=start, multipliers=found.multipliers)
            is_complete = found.is_complete or result.status == _OPTIMAL
            return found._replace(is_complete=is_complete, bound=min(found.bound, bound))
        if len(excluded) > _MAX_REJECTED:
            found = self.search(1, deadline, UNLIMITED, multipliers=found.multipliers)
        return found._replace(bound=min(found.bound, bound))

    def find_feasible(self, found):
        """Return `Found` with any assignment that satisfies all rules, if there is one."""
        program, excluded = self._zero_one, []
        part = _OpenPart(program._replace(pair_scores=np.zeros_like(program.pair_scores)), program.fixed)
        while len(excluded) <= _MAX_REJECTED:
            result = part.solve(None, None, excluded)
            if result.x is None:
                return found._replace(is_complete=True)
            u = part.assignment(result.x)
            if not self._rows.violated(u).any():
                u = self.climb(u)
                return found._replace(assignments=u[None], values=np.array([self.value(u)]))
            excluded.append(u)
        return found

    def as_assignment(self, found, relaxed_bound):
        """Return the best assignment that was found; the start if there is none."""
        if not len(found.values):
            bound = -np.inf if found.is_complete else found.bound
            return Assignment(self.start, self.joint(self.start), -np.inf, bound, relaxed_bound)
        u = found.assignments[0].astype(np.float64)
        if not found.is_complete:
            u = self.climb(u)
        value = float(found.values[0]) if found.is_complete else self.value(u)
        bound = value if found.is_complete else max(found.bound, value)
        return Assignment(u, self.joint(u), value, bound, relaxed_bound)

    def joint(self, u):
        """Return which pairs are on."""
        joint = np.zeros(self._problem.layout.n_additional)
        joint[self._pair_indices] = (self._off + self._signs * u[self._ends]).prod(axis=1)
        return joint

    def value(self, u):
        """Return the score of an assignment."""
        return self._problem.values(u[None], self.joint(u)[None])[0]

    def climb(self, u):
        """Flip one free variable at a time while the score rises (local search); return the assignment."""
        program = self._zero_one
        ends, signs, n, u = program.pair_ends, program.pair_signs, len(u), u.copy()
        for _ in range(n * n):
            on = 0.5 * (1.0 - signs) + signs * u[ends]
            fields = program.scores.copy()
            for end, other in ((0, 1), (1, 0)):
                fields += np.bincount(ends[:, end], signs[:, end] * program.pair_scores * on[:, other], n)
            gains = np.where(program.fixed == FREE, np.where(u > 0.5, -fields, fields), 0.0)
            min_gain = 1e-12 * np.abs(fields).max(initial=0.0)
            for i in np.argsort(-gains)[: np.count_nonzero(gains > min_gain)]:
                u[i] = 1.0 - u[i]
                if not self._rows.violated(u).any():
                    break
                u[i] = 1.0 - u[i]
            else:
                break
        return u


class _OpenPart:
    """The mixed-integer program over the free variables of a `ZeroOne`, for HiGHS.

    A pair with a fixed variable adds its score to that of the other variable, or nothing. The other pairs have a
    variable of their own.

    Parameters
    ----------
    program : ZeroOne
    fixed : int array
        Values of fixed variables; FREE for the others.
    """

    def __init__(self, program, fixed):
        self._fixed, is_free = fixed, fixed == FREE
        self._free, u = np.flatnonzero(is_free), np.where(is_free, 0, fixed).astype(np.int64)
        ends, signs, pair_scores = program.pair_ends, program.pair_signs, program.pair_scores
        off, scores = 0.5 * (1.0 - signs), program.scores.copy()
        self._constant = scores @ u
        for end, other in ((0, 1), (1, 0)):
            chosen = np.flatnonzero(~is_free[ends[:, other]] & (is_free[ends[:, end]] | (end == 0)))
            weight = pair_scores[chosen] * (off[chosen, other] + signs[chosen, other] * u[ends[chosen, other]])
            at = ends[chosen, end]
            self._constant += weight @ (off[chosen, end] + signs[chosen, end] * u[at])
            np.add.at(scores, at, np.where(is_free[at], weight * signs[chosen, end], 0.0))
        both = np.flatnonzero(is_free[ends].all(axis=1) & (pair_scores != 0.0))
        self._pair_scores, self._scores = pair_scores[both], scores[self._free]
        place = np.cumsum(is_free) - 1
        self._add_rows(program, u, place[ends[both]], signs[both], off[both])
        # The solver's tolerances are absolute.
        sizes = (np.abs(values).max(initial=0.0) for values in (self._scores, self._pair_scores))
        self._unit = (max(sizes) or 1.0) / _LARGEST_SCORE

    def _add_rows(self, program, u, ends, signs, off):
        """Make the constraints of the program: those of pairs, and the rows with a free variable."""
        n, m = len(self._free), len(ends)
        up, down = np.flatnonzero(self._pair_scores > 0), np.flatnonzero(self._pair_scores <= 0)
        # A pair with a positive score is on only if both literals are on, a pair with a negative score if both are on.
        blocks = [_rows(n + m, (n + up, 1.0), (ends[up, c], -signs[up, c])) for c in (0, 1)]
        blocks.append(_rows(n + m, *((ends[down, c], signs[down, c]) for c in (0, 1)), (n + down, -1.0)))
        shape = len(program.low), len(u)
        rows = sparse.csr_array((program.coefs, program.variables, program.ptr), shape=shape)
        taken = rows @ u
        rows = rows[:, self._free]
        low, high = (np.where(b == none, sign * np.inf, b - taken) for b, none, sign in
                     ((program.low, -NO_BOUND, -1.0), (program.high, NO_BOUND, 1.0)))  # fmt: skip
        used = np.diff(rows.indptr) > 0
        rows, low, high = rows[used].astype(np.float64), low[used], high[used]
        largest = abs(rows).max(axis=1).toarray().ravel() if len(low) else np.zeros(0)
        scale = np.maximum(1.0, largest / _LARGEST_COEF)
        blocks.append(sparse.hstack([sparse.diags_array(1.0 / scale) @ rows, sparse.csr_array((len(low), m))]))
        self._low = np.concatenate([np.full(2 * len(up) + len(down), -np.inf), low / scale])
        self._high = np.concatenate([*(off[up, c] for c in (0, 1)), 1.0 - off[down].sum(axis=1), high / scale])
        self._matrix = sparse.vstack(blocks, format="csr")

    def solve(self, time_limit, max_nodes, excluded):
        """Return scipy's result; `excluded` are assignments that are none."""
        n, m, (matrix, low, high) = len(self._free), len(self._pair_scores), (self._matrix, self._low, self._high)
        if excluded:
            # At least one variable differs.
            signs = 1.0 - 2.0 * np.array(excluded)[:, self._free]
            matrix = sparse.vstack([matrix, sparse.hstack([sparse.csr_array(signs), sparse.csr_array((len(signs), m))])])
            low = np.concatenate([low, 1.0 - (signs < 0.0).sum(axis=1)])
            high = np.concatenate([high, np.full(len(signs), np.inf)])
        limits = {"time_limit": time_limit, "node_limit": max_nodes}
        return milp(
            -np.concatenate([self._scores, self._pair_scores]) / self._unit,
            integrality=np.concatenate([np.ones(n), np.zeros(m)]),
            bounds=optimize.Bounds(np.zeros(n + m), np.ones(n + m)),
            constraints=optimize.LinearConstraint(matrix, low, high) if len(low) else (),
            options={"mip_rel_gap": 0.0} | {name: limit for name, limit in limits.items() if limit is not None},
        )

    def assignment(self, x):
        """Return the assignment of all variables in a solution."""
        u = self._fixed.astype(np.float64)
        u[self._free] = x[: len(self._free)] > 0.5
        return u

    def bound(self, result):
        """Return the upper bound of scores that a result proves; infinite if it proves none."""
        proven = result.get("mip_dual_bound")
        return np.inf if proven is None else self._constant - self._unit * proven


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
