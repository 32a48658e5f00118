"""Structures as choices: the places at which exactly one of some parts is chosen."""

import numpy as np

from ..structures import DependencyTree, LinearChain, Matching, Segmentation, Simplex


def places_of(structure, dims):
    """Return the parts among which a structure chooses at each place.

    Parameters
    ----------
    structure : Structure
    dims : int array
        Of the problem, as `Structure.dims` has it.

    Returns
    -------
    places : int array of shape (n_places, n_alternatives), or None
        Each structure has exactly one part of each row, and no others; None where structures are not like that.
    """
    dims = [int(d) for d in dims]
    if isinstance(structure, Simplex):
        return np.arange(dims[0])[None]
    if isinstance(structure, LinearChain):
        return np.arange(dims[0] * dims[1]).reshape(dims[0], dims[1])
    if isinstance(structure, Segmentation) and structure.labelled:
        return np.arange(dims[0] * dims[2]).reshape(dims[0], dims[2])
    if type(structure) is DependencyTree and len(dims) == 3:
        n = dims[0]
        return np.arange((n + 1) * n).reshape(n + 1, n).T
    if type(structure) is DependencyTree:
        n, n_labels = dims[0], dims[3]
        return np.arange((n + 1) * n * n_labels).reshape(n + 1, n, n_labels).swapaxes(0, 1).reshape(n, -1)
    if isinstance(structure, Matching):
        # Of rows or of columns, the fewer all have a partner.
        cells = np.arange(dims[0] * dims[1]).reshape(dims[0], dims[1])
        return cells if dims[0] <= dims[1] else cells.T
    return None


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
