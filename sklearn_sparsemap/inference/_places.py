"""Required parts of structures, by forbidding the alternatives at their places, or by a bonus."""

import numpy as np


def require(scores, places, parts, bonus):
    """Require parts, by forbidding the alternatives at their places or, without places, by a bonus.

    Parameters
    ----------
    scores : array of shape (n_parts,)
        Modified in place.
    places : int array of shape (n_places, n_alternatives), or None
    parts : iterable of int
    bonus : float
        More than the largest difference of two structures' scores; used if there are no places.
    """
    for part in parts:
        if places is None:
            scores[part] += bonus
        else:
            kept = scores[part]
            scores[places[(places == part).any(axis=1)][0]] = -np.inf
            scores[part] = kept


def bonus_for(problem):
    """Return a number that exceeds the difference of the scores of any two structures of a problem."""
    arrays = [a[np.isfinite(a)] for a in (problem.scores, problem.additional)]
    # An additional part can occur as often as there are additional slots.
    slots = max(1, int(problem.sizes[1]))
    return 1.0 + 2.0 * (np.abs(arrays[0]).sum() + slots * np.abs(arrays[1]).max(initial=0.0))
