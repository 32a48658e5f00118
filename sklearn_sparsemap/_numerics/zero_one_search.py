"""The best 0-1 assignment under linear constraints: search in exact arithmetic, and HiGHS for what it leaves open.

Used by `inference` and `structures`.
"""

import numpy as np
from scipy import optimize, sparse

from .._core.highs import milp
from .._core.jit import working_time
from .._core.whole_rows import NO_BOUND, WholeRows
from .zero_one import FREE, UNLIMITED, best_zero_one

_OPTIMAL, _NO_SOLUTION = 0, 2  # status of scipy's milp
_MIN_TIME = 1e-3  # seconds; with less time left, no search begins
# HiGHS stops at an absolute gap of 1e-6. Scores are scaled to this maximum, so that the gap is negligible.
_LARGEST_SCORE = 1e3
# Coefficients up to this size are given to HiGHS as whole numbers, so that its tolerance of 1e-6 is no violation.
_LARGEST_COEF = 1e6
# Operations, of a few nanoseconds each, of the first search, and of that with a solution of HiGHS.
# With more variables than _SMALL, the first search seldom ends, and gets a fifth of them.
_FEW, _MANY, _SMALL = 1_000_000, 20_000_000, 100
_MAX_REJECTED = 20  # solutions of HiGHS that violate a rule, each of which is excluded; then the other search goes on


def search_with_highs(program, deadline=None, max_nodes=None):
    """Find the best assignment of a program.

    The search in exact arithmetic comes first, and usually ends soon. If it does not, HiGHS searches among the
    variables that it leaves open. Solutions of HiGHS are verified. One that violates a constraint, by less than the
    tolerance of HiGHS, is excluded, and HiGHS searches again.

    Parameters
    ----------
    program : ZeroOne
    deadline : float, default=None
        The `working_time` at which the search ends.
    max_nodes : int, default=None
        Maximum number of nodes of a search by HiGHS.

    Returns
    -------
    found : Found
        With one assignment, or none if there is none, or if the search ended at `max_nodes`. At the deadline any
        assignment is found that satisfies the constraints.
    """
    found = best_zero_one(program, 1, _FEW if len(program.scores) <= _SMALL else _FEW // 5, deadline)
    root_bound = found.root_bound
    if not found.is_complete:
        found = _search_on(program, found, deadline, max_nodes)
    if not found.is_complete and not len(found.values) and max_nodes is None:
        found = _find_feasible(program, found)
    return found._replace(root_bound=root_bound)


def _search_on(program, found, deadline, max_nodes):
    """Return `Found` of a search by HiGHS, given that of a search that is not complete."""
    excluded = []
    bound = found.bound
    rows = WholeRows(*program[:5])
    while len(excluded) <= _MAX_REJECTED:
        left = None if deadline is None else deadline - working_time()
        if left is not None and left <= _MIN_TIME:
            break
        part = _OpenPart(program, found.fixed)
        result = part.solve(left, max_nodes, excluded)
        if result.status == _NO_SOLUTION:
            # No assignment is better than the one that is known.
            return found._replace(is_complete=True)
        bound = min(bound, part.bound(result))
        if result.x is None:
            break
        u = part.assignment(result.x)
        if rows.violated(u).any():
            excluded.append(u)
            continue
        known = best_zero_one(program._replace(fixed=u))
        if not len(found.values) or known.values[0] > found.values[0]:
            found = found._replace(assignments=known.assignments, values=known.values)
        is_complete = result.status == _OPTIMAL
        if not (is_complete and part.is_precise(found.values[0])):
            # The search in exact arithmetic proves that the assignment is the best one, or improves it.
            program = program._replace(start=found.assignments[0], multipliers=found.multipliers)
            found = best_zero_one(program, 1, _MANY, deadline)
        return found._replace(is_complete=found.is_complete or is_complete, bound=min(found.bound, bound))
    if len(excluded) > _MAX_REJECTED:
        found = best_zero_one(program._replace(multipliers=found.multipliers), 1, UNLIMITED, deadline)
    return found._replace(bound=min(found.bound, bound))


def _find_feasible(program, found):
    """Return `Found` with any assignment that satisfies the constraints, or none if there is none."""
    # Without scores of pairs, finding one is fast.
    part = _OpenPart(program._replace(pair_scores=np.zeros_like(program.pair_scores)), program.fixed)
    rows = WholeRows(*program[:5])
    excluded = []
    while len(excluded) <= _MAX_REJECTED:
        result = part.solve(None, None, excluded)
        if result.status == _NO_SOLUTION:
            return found._replace(is_complete=True)
        if result.x is None:
            break
        u = part.assignment(result.x)
        if not rows.violated(u).any():
            return _with_assignment(program, found, u)
        excluded.append(u)
    # HiGHS failed. Without scores, the search in exact arithmetic ends at the first assignment.
    nothing = program._replace(scores=0.0 * program.scores, pair_scores=0.0 * program.pair_scores)
    first = best_zero_one(nothing)
    if not len(first.values):
        return found._replace(is_complete=True)
    return _with_assignment(program, found, first.assignments[0])


def _with_assignment(program, found, u):
    """Return `Found` with one assignment and its value."""
    known = best_zero_one(program._replace(fixed=u))
    return found._replace(assignments=known.assignments, values=known.values)


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
        self._fixed = fixed
        is_free = fixed == FREE
        self._free = np.flatnonzero(is_free)
        u = np.where(is_free, 0, fixed).astype(np.int64)
        ends, signs, pair_scores = program.pair_ends, program.pair_signs, program.pair_scores
        off = 0.5 * (1.0 - signs)
        scores = program.scores.copy()
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
        n = len(self._free)
        m = len(ends)
        up = np.flatnonzero(self._pair_scores > 0)
        down = np.flatnonzero(self._pair_scores <= 0)
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
        rows = rows[used].astype(np.float64)
        low = low[used]
        high = high[used]
        largest = abs(rows).max(axis=1).toarray().ravel() if len(low) else np.zeros(0)
        scale = np.maximum(1.0, largest / _LARGEST_COEF)
        self._is_scaled = bool((scale > 1.0).any())
        blocks.append(sparse.hstack([sparse.diags_array(1.0 / scale) @ rows, sparse.csr_array((len(low), m))]))
        self._low = np.concatenate([np.full(2 * len(up) + len(down), -np.inf), low / scale])
        self._high = np.concatenate([*(off[up, c] for c in (0, 1)), 1.0 - off[down].sum(axis=1), high / scale])
        self._matrix = sparse.vstack(blocks, format="csr")

    def solve(self, time_limit, max_nodes, excluded):
        """Return scipy's result; `excluded` are assignments that are none."""
        n = len(self._free)
        m = len(self._pair_scores)
        (matrix, low, high) = (self._matrix, self._low, self._high)
        if excluded:
            # At least one variable differs.
            signs = 1.0 - 2.0 * np.array(excluded)[:, self._free]
            matrix = sparse.vstack(
                [matrix, sparse.hstack([sparse.csr_array(signs), sparse.csr_array((len(signs), m))])]
            )
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

    def is_precise(self, value):
        """Tell whether the tolerances of HiGHS are negligible, if the best assignment has a value."""
        return not self._is_scaled and self._unit * _LARGEST_SCORE <= abs(value)

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
