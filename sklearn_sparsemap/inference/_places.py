"""Scores that require parts: alternatives at their places are forbidden, or the parts get a bonus."""

import numpy as np


def require(scores, places, parts, bonus):
    """Change scores so that the best structure has some parts: forbid alternatives or, without places, add a bonus.

    Parameters
    ----------
    scores : array of shape (n_parts,)
        Modified in place.
    places : int array of shape (n_places, n_alternatives), or None
    parts : iterable of int
    bonus : float
        A number larger than any difference of two structures' scores.
    """
    for part in parts:
        if places is None:
            scores[part] += bonus
        else:
            kept = scores[part]
            scores[places[(places == part).any(axis=1)][0]] = -np.inf
            scores[part] = kept


def bonus_for(problem):
    """Return a number that exceeds any difference of the scores of two structures of a problem."""
    arrays = [a[np.isfinite(a)] for a in (problem.scores, problem.additional)]
    # An additional part can be in each additional slot.
    slots = max(1, int(problem.sizes[1]))
    return 1.0 + 2.0 * (np.abs(arrays[0]).sum() + slots * np.abs(arrays[1]).max(initial=0.0))
