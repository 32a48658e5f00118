"""Scores of very different magnitudes, such as finite masks of -1e6 or -1e16, in which the other scores lose digits.

A marginal between 0 and 1 is a difference of scores, so its rounding error is that of the largest scores. Two changes
of the scores remove large numbers, and do not change the solution:

- The multiplier of an equality is free. A large number is subtracted from the scores of all its variables.
- Scores beyond a bound are clipped to it. Suppose that in the solution all variables with clipped scores are 0 (for
  negative scores) or 1. Then it also solves the original problem: its objective is the same, and no other objective
  is higher than before.
"""

from itertools import pairwise

import numpy as np

from ...graphs.arrays import FORBIDDEN

# Largest magnitude of ordinary scores, and minimum ratio of scores that are clipped to those that are kept.
LARGE, _FAR = 1e3, 1e3
# Clipping bounds, as multiples of the largest score that is kept. Factors that add up many scores need larger bounds.
_CLIPS = (1e2, 1e4)
# Largest distance from 0 or 1 at which marginals are rounded; the residual includes the difference.
_AT_BOUND = 1e-9


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
        As in a row of `GraphProblems`.
    """

    def __init__(self, layout, given, original, scores, shifts, bound=np.inf, mask=-np.inf):
        self._layout, self._shifts = layout, shifts
        self.scores = np.where(original == FORBIDDEN, scores, np.clip(scores, -bound, bound))
        forbidden = given == -np.inf
        self.additional = np.where(forbidden, given, np.clip(given, -bound, bound))
        self._excess = scores - self.scores
        self._additional_excess = np.where(forbidden, 0.0, given - np.where(forbidden, 0.0, self.additional))
        self._masked = (scores < mask) & (original != FORBIDDEN), (given < mask) & ~forbidden

    def accepts(self, u, joint):
        """Tell whether all clipped variables are at their bounds."""
        off = np.where(self._excess < 0.0, u, 1.0 - u)[self._excess != 0.0]
        # A structure can contain an additional part several times, so its marginal has no upper bound.
        own = np.where(self._additional_excess < 0.0, joint, np.inf)
        pairs = self._layout.arrays.additional_ptr[self._layout.arrays.pairs]
        own[pairs] = np.where(self._additional_excess[pairs] < 0.0, joint[pairs], 1.0 - joint[pairs])
        own = own[self._additional_excess != 0.0]
        return off.max(initial=0.0) <= _AT_BOUND and own.max(initial=0.0) <= _AT_BOUND

    def snap(self, u, joint):
        """Round clipped variables to their bounds, and masked ones near 0 to 0; return the largest difference.

        Otherwise, the product of a mask and the rounding error of its marginal would dominate the objective.
        """
        moved, parts = 0.0, ((u, self._excess), (joint, self._additional_excess))
        for (values, excess), masked in zip(parts, self._masked):
            at = (excess != 0.0) | (masked & (values <= _AT_BOUND))
            bounds = (excess[at] > 0.0).astype(np.float64)
            moved = max(moved, np.abs(values[at] - bounds).max(initial=0.0))
            values[at] = bounds
        return moved

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


def clipped_samples(problems, rows, unit=1.0):
    """Return samples with smaller scores that replace samples with large scores.

    Parameters
    ----------
    problems : GraphProblems
    rows : array of int
        The samples with scores above LARGE.
    unit : float
        Lower bound of the magnitude of scores.

    Returns
    -------
    trials : dict of int -> list of ClippedSample
        Replacements by row, to be solved in this order until one is accepted. The last one is not clipped.
    """
    trials, layout = {}, problems.layout
    for i in rows.tolist():
        original, given = problems.scores[i], problems.additional[min(i, len(problems.additional) - 1)]
        scores, shifts = _shift(layout.arrays, original)
        sizes = np.abs(np.concatenate([scores[original != FORBIDDEN], given]))
        sizes = np.sort(np.maximum(sizes[np.isfinite(sizes)], unit))
        bounds = [
            clip * kept
            for kept, next_size in pairwise(sizes)
            if kept > 0.0 and next_size > max(LARGE, _FAR * kept)
            for clip in _CLIPS
            if clip * kept < next_size
        ]
        mask = -bounds[0] if bounds else -np.inf
        trials[i] = [ClippedSample(layout, given, original, scores, shifts, bound, mask) for bound in [*bounds, np.inf]]
    return trials


def with_trials(problems, rows, current):
    """Return some samples; those in `current` have the scores of their `ClippedSample`."""
    own = problems.take(rows)
    if not current:
        return own
    scores, additional = own.scores.copy(), np.repeat(own.additional, len(rows) // len(own.additional), axis=0)
    for k, i in enumerate(rows.tolist()):
        if i in current:
            scores[k], additional[k] = current[i].scores, current[i].additional
    return own._replace(scores=scores, additional=additional)


def _shift(arrays, scores):
    """Subtract the largest score of each equality's variables from the scores of these variables, if it is large.

    Returns
    -------
    scores : array
    shifts : list of (row, multiplier)
    """
    high, low = scores.copy(), np.zeros(len(scores))
    shifts = []
    for r in np.flatnonzero((arrays.row_low == -np.inf) & (arrays.row_high == np.inf)):
        entries = slice(arrays.row_ptr[r], arrays.row_ptr[r + 1])
        coefs, variables = arrays.row_coefs[entries], arrays.row_vars[entries]
        if not (np.abs(coefs) == 1.0).all() or not len(coefs):
            continue
        allowed = scores[variables] > 0.5 * FORBIDDEN
        own = np.where(allowed, coefs * high[variables], -np.inf)
        nu = own.max()
        if np.isfinite(nu) and abs(nu) > LARGE:
            shifts.append((r, nu))
            # Sums are exact, as pairs of a sum and its rounding error, because the result can be much smaller.
            for i, taken in zip(variables[allowed], (-nu * coefs)[allowed]):
                total = high[i] + taken
                back = total - high[i]
                low[i] += (high[i] - (total - back)) + (taken - back)
                high[i] = total
    return high + low, shifts
