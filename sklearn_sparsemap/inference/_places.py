"""Structures with some parts for sure: by forbidding the alternatives at their places, or by a bonus."""

import numpy as np


def require(scores, places, parts, bonus):
    """Make each structure have some parts, by forbidding what else there is at their places, or by a bonus.

    Parameters
    ----------
    scores : array of shape (n_parts,)
        Changed in place.
    places : int array of shape (n_places, n_alternatives), or None
    parts : iterable of int
    bonus : float
        More than any two structures differ by; used where there are no places.
    """
    for part in parts:
        if places is None:
            scores[part] += bonus
        else:
            kept = scores[part]
            scores[places[(places == part).any(axis=1)][0]] = -np.inf
            scores[part] = kept


def bonus_for(problem):
    """Return more than the scores of two structures of a problem can differ by."""
    arrays = [a[np.isfinite(a)] for a in (problem.scores, problem.additional)]
    # An additional part may be there as often as there are places for it.
    slots = max(1, int(problem.sizes[1]))
    return 1.0 + 2.0 * (np.abs(arrays[0]).sum() + slots * np.abs(arrays[1]).max(initial=0.0))
