"""Reduction of scores of very different magnitudes, such as masks of -1e6 or -1e16, in which other scores lose digits.

A marginal between 0 and 1 is a difference of scores, so its rounding error is that of the largest scores. Two changes
of the scores remove large numbers, and do not change the solution:

- The multiplier of an equality is free. A large number is subtracted from the scores of all its variables.
- Scores beyond a bound are clipped to it. Suppose that in the solution all variables with clipped scores are 0 (for
  negative scores) or 1. Then it also solves the original problem: its objective is the same, and no other objective
  is higher than before.

Used by `map.py` and `solve.py`.
"""

from itertools import pairwise

import numpy as np

from ..._graphs.arrays import FORBIDDEN
from ..._graphs.rows import CONVERGED, INFEASIBLE, TOO_LARGE
from ..._graphs.samples import GAP, N_ITER, OBJECTIVE, RESIDUAL, STATUS

LARGE = 1e3  # largest magnitude of ordinary scores; their marginals lose at most 3 of 16 digits
_MIN_RATIO = 1e3  # minimum ratio of a score that is clipped to the next smaller one; larger: fewer attempts
# Clipping bounds, as multiples of the largest score that is kept. Factors that add up many scores need larger bounds.
_CLIPS = (1e2, 1e4)
_BOUND_TOL = 1e-9  # largest distance from 0 or 1 at which marginals are rounded; the residual includes the difference
MAX_SIZE = 1e9  # largest magnitude of scores; beyond it, the rounding error of marginals exceeds 1e-6


class Clipping:
    """Reduction of samples with large scores; see `reductions.py` for the methods.

    Each sample has several clipped samples, which are attempted in order until one is exact. The last one is not
    clipped.

    Parameters
    ----------
    problems : GraphBatch
    sizes : array of shape (n_samples,)
        Magnitudes of the scores. Samples above LARGE are clipped.
    warm : (multipliers, links), default=None
        Warm start, one row for each sample.
    tol : float, default=0.0
        The tolerance of solutions.
    unit : float, default=1.0
        Lower bound of the magnitude of scores.
    """

    def __init__(self, problems, sizes, warm=None, tol=0.0, unit=1.0):
        self._problems, self._warm, self._tol = problems, warm, tol
        self._left = {i: _clipped_samples(problems, i, unit) for i in np.flatnonzero(sizes > LARGE).tolist()}
        self.n_attempts = max(map(len, self._left.values()), default=1)
        # The clipped samples of the current attempt by index, and the magnitudes of their scores.
        self._current, self._sizes = {}, None

    def accepts(self, out):
        return np.array(list(self._left), np.int64)

    def apply(self, rows):
        reduced = self.clip(rows)
        self._sizes = reduced.sizes()
        return reduced, None if self._warm is None else self._shifted(rows), self._sizes

    def clip(self, rows):
        """Return some of the samples: for those with large scores the next clipped sample, others unchanged."""
        self._current = {i: self._left[i].pop(0) for i in rows.tolist() if i in self._left}
        reduced = self._problems.take(rows)
        if not self._current:
            return reduced
        scores = reduced.scores.copy()
        additional = np.repeat(reduced.additional, len(rows) // len(reduced.additional), axis=0)
        for k, i in enumerate(rows.tolist()):
            if i in self._current:
                scores[k], additional[k] = self._current[i].scores, self._current[i].additional
        return reduced._replace(scores=scores, additional=additional)

    def _offsets(self):
        """Return the terms that convert multipliers and link variables, one row for each clipped sample."""
        return [np.array(terms) for terms in zip(*(clipped.offsets() for clipped in self._current.values()))]

    def _shifted(self, rows):
        """Return the warm start of the clipped samples."""
        warm = [array[rows] for array in self._warm]
        for array, offset in zip(warm, self._offsets()):
            # Joint marginals after the links are not shifted.
            array[:, : offset.shape[1]] -= offset
        return warm

    def is_clipped(self, i):
        """Tell whether the current sample `i` differs from the given one."""
        return i in self._current

    def is_exact(self, i, *solutions):
        """Tell whether all solutions (u, joint) of clipped sample `i` also solve the given sample."""
        clipped = self._current.get(i)
        return clipped is None or not self._left[i] or all(clipped.is_exact(*solution) for solution in solutions)

    def value(self, i, u, joint):
        """Return the score of a solution under the given scores; a difference of large numbers would be inexact."""
        return self._problems.take([i]).values(u[None], joint[None])[0]

    def invert(self, rows, solutions, out):
        solutions.statistics[:, N_ITER] += out.statistics[rows, N_ITER]
        left = np.zeros(len(rows), bool)
        offsets = self._offsets()
        for k, i in enumerate(rows.tolist()):
            u, joint, statistics = solutions.marginals[k], solutions.joint[k], solutions.statistics[k]
            if statistics[STATUS] == INFEASIBLE:
                # Infeasibility does not depend on the scores, and the solution contains its certificate.
                continue
            if self.is_exact(i, (u, joint)):
                statistics[RESIDUAL] += self._current[i].snap(u, joint)
                statistics[OBJECTIVE] = self.value(i, u, joint) - 0.5 * (u @ u)
                if _is_rounded(self._sizes[k], u, statistics, self._tol):
                    statistics[STATUS] = TOO_LARGE
            else:
                left[k] = True
            for array, offset in zip((solutions.multipliers, solutions.links), offsets):
                array[k] += offset[k]
        out.put(rows, solutions)
        return rows[left]


def _is_rounded(size, u, statistics, tol):
    """Tell whether scores are so large that rounding leaves no digits of marginals between 0 and 1."""
    if size <= MAX_SIZE:
        return False
    solved = statistics[STATUS] == CONVERGED and statistics[RESIDUAL] <= tol and statistics[GAP] <= 1e-13 * size
    return not solved or bool((np.minimum(u, 1.0 - u) > _BOUND_TOL).any())


class ClippedSample:
    """A sample with smaller scores. It has the same solution if in it all clipped variables are at their bounds.

    Parameters
    ----------
    layout : Layout
    given, original : arrays of shape (n_additional,) and (n_variables,)
        The additional scores and the scores of the sample.
    scores : array of shape (n_variables,)
        The scores after large numbers in common were subtracted; see `_shift`.
    shifts : list of (row, multiplier)
        The numbers that were subtracted.
    bound : float
        Scores beyond it are clipped.
    mask : float
        Scores below it are masks, whose marginals are rounded to 0 if they are close to it.

    Attributes
    ----------
    scores, additional : arrays
        As in a row of `GraphBatch`.
    """

    def __init__(self, layout, given, original, scores, shifts, bound=np.inf, mask=-np.inf):
        self._layout, self._shifts = layout, shifts
        self.scores = np.where(original == FORBIDDEN, scores, np.clip(scores, -bound, bound))
        forbidden = given == -np.inf
        self.additional = np.where(forbidden, given, np.clip(given, -bound, bound))
        self._excess = scores - self.scores
        self._additional_excess = np.where(forbidden, 0.0, given - np.where(forbidden, 0.0, self.additional))
        self._masked = (scores < mask) & (original != FORBIDDEN), (given < mask) & ~forbidden

    def is_exact(self, u, joint):
        """Tell whether all clipped variables are at their bounds."""
        off = np.where(self._excess < 0.0, u, 1.0 - u)[self._excess != 0.0]
        # A structure can contain an additional part several times, so its marginal has no upper bound.
        joint_off = np.where(self._additional_excess < 0.0, joint, np.inf)
        pairs = self._layout.arrays.additional_ptr[self._layout.arrays.pairs]
        joint_off[pairs] = np.where(self._additional_excess[pairs] < 0.0, joint[pairs], 1.0 - joint[pairs])
        joint_off = joint_off[self._additional_excess != 0.0]
        return off.max(initial=0.0) <= _BOUND_TOL and joint_off.max(initial=0.0) <= _BOUND_TOL

    def snap(self, u, joint):
        """Round clipped variables to their bounds, and masked ones near 0 to 0; return the largest difference.

        Otherwise, the product of a mask and the rounding error of its marginal would dominate the objective.
        """
        largest, parts = 0.0, ((u, self._excess), (joint, self._additional_excess))
        for (values, excess), masked in zip(parts, self._masked):
            at = (excess != 0.0) | (masked & (values <= _BOUND_TOL))
            bounds = (excess[at] > 0.0).astype(np.float64)
            largest = max(largest, np.abs(values[at] - bounds).max(initial=0.0))
            values[at] = bounds
        return largest

    def offsets(self):
        """Return the terms that convert multipliers and link variables to those of the original scores."""
        arrays = self._layout.arrays
        multipliers = np.zeros(len(arrays.row_bounds) + len(arrays.pairs))
        links = np.zeros(len(arrays.links))
        for r, nu in self._shifts:
            entries = slice(arrays.row_ptr[r], arrays.row_ptr[r + 1])
            multipliers[r] += nu
            links[arrays.row_links[entries]] += nu * arrays.row_coefs[entries]
        # The excess of a variable at its bound can be added to the link of any of its factors.
        links[np.unique(arrays.links, return_index=True)[1]] += self._excess[np.unique(arrays.links)]
        return multipliers, links


def _clipped_samples(problems, i, unit):
    """Return the clipped samples for sample `i`, in the order of the attempts; see `Clipping` for `unit`."""
    original = problems.scores[i]
    given = problems.additional[min(i, len(problems.additional) - 1)]
    layout = problems.layout
    scores, shifts = _shift(layout.arrays, original)
    sizes = np.abs(np.concatenate([scores[original != FORBIDDEN], given]))
    sizes = np.sort(np.maximum(sizes[np.isfinite(sizes)], unit))
    bounds = [
        clip * kept
        for kept, next_size in pairwise(sizes)
        if kept > 0.0 and next_size > max(LARGE, _MIN_RATIO * kept)
        for clip in _CLIPS
        if clip * kept < next_size
    ]
    mask = -bounds[0] if bounds else -np.inf
    return [ClippedSample(layout, given, original, scores, shifts, bound, mask) for bound in [*bounds, np.inf]]


def _shift(arrays, scores):
    """Subtract the largest score of each equality's variables from the scores of these variables, if it is large.

    Returns
    -------
    scores : array
    shifts : list of (row, multiplier)
    """
    high = scores.copy()
    low = np.zeros(len(scores))
    shifts = []
    for r in np.flatnonzero((arrays.row_low == -np.inf) & (arrays.row_high == np.inf)):
        entries = slice(arrays.row_ptr[r], arrays.row_ptr[r + 1])
        coefs, variables = arrays.row_coefs[entries], arrays.row_vars[entries]
        if not (np.abs(coefs) == 1.0).all() or not len(coefs):
            continue
        allowed = scores[variables] > 0.5 * FORBIDDEN
        nu = np.where(allowed, coefs * high[variables], -np.inf).max()
        if np.isfinite(nu) and abs(nu) > LARGE:
            shifts.append((r, nu))
            # Sums are exact, as pairs of a sum and its rounding error, because the result can be much smaller.
            for i, taken in zip(variables[allowed], (-nu * coefs)[allowed]):
                total = high[i] + taken
                back = total - high[i]
                low[i] += (high[i] - (total - back)) + (taken - back)
                high[i] = total
    return high + low, shifts
