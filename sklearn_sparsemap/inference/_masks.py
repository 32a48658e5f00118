"""Reduction of masks, which are large negative scores that mean "forbidden", so that other scores do not lose digits.

A sum of an ordinary score and -1e10, or the minimum of float32, has few or no digits of the ordinary score. Such masks
form levels. A part of one level outweighs all parts of the levels above it. So a solution has as few parts of the
lowest level as any structure allows, then as few of the next level, and so on. The order of the structures, and hence
the solution, does not change if each level is raised until it just outweighs the levels above it.

Used by `_problems.py`.
"""

from typing import NamedTuple

import numpy as np

from .._core.jit import readonly
from .._core.offsets import ragged_indices

# Smallest ordinary score, which is not changed. In sums with scores of this size, others keep twelve digits.
ORDINARY = -1e4
# Minimum difference between the scores of structures with and without a part of a level, in addition to the regulariser
# and the logarithm of the number of structures. In a Gibbs distribution, exp(-50) is less than rounding.
_MARGIN = 50.0


class MaskOffsets(NamedTuple):
    """The amounts by which the scores of each level were raised.

    Attributes
    ----------
    raises : list of float
        The amount for each level.
    scores, additional : int arrays
        The level of each score and additional score, counted from 1; 0 for scores that were not changed.
    """

    raises: list
    scores: np.ndarray
    additional: np.ndarray

    def of(self, problems, marginals, expected):
        """Return the amounts by which the values of solutions were raised: array of shape (n_problems,)."""
        first = problems.additional_start
        lengths = problems.additional_stop - first
        of_problem = np.repeat(np.arange(len(first)), lengths)
        levels = self.additional[ragged_indices(first, lengths)]
        raised = np.zeros(len(first))
        for level, amount in enumerate(self.raises, 1):
            count = np.add.reduceat(np.where(self.scores == level, marginals, 0.0), problems.score_ptr[:-1])
            count += np.bincount(of_problem, np.where(levels == level, expected, 0.0), minlength=len(first))
            # All structures in the support have the same number of parts of a level.
            raised += amount * np.rint(count)
        return raised


def rescale_masks(problems):
    """Return problems with the same solutions and smaller masks, and the changes (None if there are none).

    The problems of a batch are changed together, because they may have common additional scores.
    """
    values = np.concatenate([problems.scores, problems.additional])
    is_low = (values < ORDINARY) & (values > -np.inf)
    if not is_low.any():
        return problems, None
    n_slots = (problems.sizes[:, 0] + problems.sizes[:, 1]).max()
    sizes = problems.sizes
    n_parts = np.diff(problems.score_ptr).max() + (problems.additional_stop - problems.additional_start).max()
    # The margin includes bounds of the squared norm of a structure, whose parts may repeat, and of the logarithm of the
    # number of structures.
    margin = _MARGIN + n_slots * ((n_parts if sizes.shape[1] > 4 else 1.0) + np.log(n_parts))
    ordinary = np.abs(values[~is_low & (values > -np.inf)]).max(initial=1.0)
    levels, ordinary = _find_levels(np.unique(values[is_low])[::-1], ordinary, float(n_slots), margin)
    if not levels:
        return problems, None
    moved = values.copy()
    number = np.zeros(len(values), np.int64)
    raises = []
    reach = ordinary
    for top, bottom, _ in levels:
        here = is_low & (values <= top) & (values >= bottom)
        enough = n_slots * (2.0 * reach + (top - bottom)) + margin
        moved[here] = (values[here] - top) - enough
        raises.append(-top - enough)
        number[here] = len(raises)
        reach = enough + (top - bottom)
    n = len(problems.scores)
    raised = problems._replace(scores=readonly(moved[:n]), additional=readonly(moved[n:]))
    return raised, MaskOffsets(raises, number[:n], number[n:])


def _find_levels(low, reach, n_slots, margin):
    """Divide low scores into levels. Scores that do not outweigh all scores above them belong to the level above.

    Parameters
    ----------
    low : array
        Low scores, in decreasing order.
    reach : float
        Largest magnitude of the other scores.
    n_slots, margin : float
        See `rescale_masks`.

    Returns
    -------
    levels : list of (top, bottom, reach)
        A level has the scores from `top` down to `bottom`; scores above it have magnitudes of at most `reach`.
    ordinary : float
        The magnitude of the scores above the first level.
    """
    levels, ordinary = [], reach
    for piece in np.split(low, np.flatnonzero(low[1:] < 3.0 * low[:-1]) + 1):
        bottom = float(piece[-1])
        levels.append((float(piece[0]), bottom, reach))
        while levels:
            top, _, above = levels[-1]
            if -top >= n_slots * (2.0 * above + (top - bottom)) + margin:
                break
            levels.pop()
            if levels:
                levels[-1] = (levels[-1][0], bottom, levels[-1][2])
            else:
                ordinary = max(ordinary, -bottom)
        reach = max(reach, -bottom)
    return levels, ordinary
