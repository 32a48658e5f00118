"""Large negative scores that stand for "forbidden", made so small that they cost the other scores no digits.

A score of -1e10, or of float32's minimum, leaves nothing of the scores that it is added to. Such scores form levels. A
part of one level outweighs all parts of the levels above it, so a solution has as few of the lowest level as any
structure allows, then as few of the next one, and so on. The order of the structures, and hence the solution, stays as
it is if each level moves up until it outweighs the levels above it by just enough.
"""

from typing import NamedTuple

import numpy as np

from .._jit import readonly

# Scores from here on are left as they are; solvers keep twelve digits of the others.
_ORDINARY = -1e4
# By how much structures with a part of a level are worse than others, at least, beyond the regulariser and the
# logarithm of their number: in a Gibbs distribution, exp(-50) is less than rounding.
_MARGIN = 50.0


class _Level(NamedTuple):
    """Scores from `top` down to `bottom`; those above it are of size `reach` at most."""

    top: float
    bottom: float
    reach: float


class Moved(NamedTuple):
    """By how much scores and additional scores have been raised, flat."""

    scores: np.ndarray
    additional: np.ndarray

    def of(self, problems, marginals, expected):
        """Return by how much solutions are worth more: array of shape (n_problems,)."""
        first = problems.additional_start
        lengths = problems.additional_stop - first
        of_problem = np.repeat(np.arange(len(first)), lengths)
        ends = np.cumsum(lengths)
        places = np.repeat(first - (ends - lengths), lengths) + np.arange(len(of_problem))
        raised = np.add.reduceat(self.scores * marginals, problems.score_ptr[:-1])
        return raised + np.bincount(of_problem, self.additional[places] * expected, minlength=len(first))


def _lowest(values):
    """Return the lowest finite value, 0 if none is below."""
    lowest = values.min(initial=0.0)
    return lowest if lowest > -np.inf else values.min(initial=0.0, where=values > -np.inf)


def raise_masks(problems):
    """Return problems with the same solutions whose masks are small, and how far they moved (None if there are none).

    The problems of a batch move together, because they may share additional scores.
    """
    if _lowest(problems.scores) >= _ORDINARY and _lowest(problems.additional) >= _ORDINARY:
        return problems, None
    values = np.concatenate([problems.scores, problems.additional])
    is_low = (values < _ORDINARY) & (values > -np.inf)
    n_slots, sizes = (problems.sizes[:, 0] + problems.sizes[:, 1]).max(), problems.sizes
    n_parts = np.diff(problems.score_ptr).max() + (problems.additional_stop - problems.additional_start).max()
    # The squared norm of a structure, whose parts may repeat, and the logarithm of the number of structures.
    margin = _MARGIN + n_slots * ((n_parts if sizes.shape[1] > 4 else 1.0) + np.log(n_parts))
    ordinary = np.abs(values[~is_low & (values > -np.inf)]).max(initial=1.0)
    levels, ordinary = _find_levels(np.unique(values[is_low])[::-1], ordinary, float(n_slots), margin)
    if not levels:
        return problems, None
    raised, reach = np.zeros(len(values)), ordinary
    for level in levels:
        here = is_low & (values <= level.top) & (values >= level.bottom)
        enough = n_slots * (2.0 * reach + (level.top - level.bottom)) + margin
        moved = (values[here] - level.top) - enough
        raised[here] = moved - values[here]
        values[here] = moved
        reach = enough + (level.top - level.bottom)
    n = len(problems.scores)
    moved = problems._replace(scores=readonly(values[:n]), additional=readonly(values[n:]))
    return moved, Moved(raised[:n], raised[n:])


def _find_levels(low, reach, n_slots, margin):
    """Return the levels of low scores, given in decreasing order, and the size of the scores above the first one.

    Scores that do not outweigh all scores above them belong to the level above.
    """
    levels, ordinary = [], reach
    for piece in np.split(low, np.flatnonzero(low[1:] < 3.0 * low[:-1]) + 1):
        top, bottom = float(piece[0]), float(piece[-1])
        levels.append(_Level(top, bottom, reach))
        while levels:
            level = levels[-1]
            if -level.top >= n_slots * (2.0 * level.reach + (level.top - level.bottom)) + margin:
                break
            levels.pop()
            if levels:
                levels[-1] = levels[-1]._replace(bottom=bottom)
            else:
                ordinary = -bottom
        reach = -bottom
    return levels, ordinary
