"""Trees that violate a structure's constraints, by several roots or crossing arcs: dropped, or repaired."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np

from .._fitting import warn_user

CHOICES = ("raise", "drop", "projectivise")


def fit_trees(choice, structure, X, codes, weights, stream=False):
    """Drop or repair the trees that violate the structure's constraints, with a warning that counts them.

    Parameters
    ----------
    choice : {"raise", "drop", "projectivise"}
        The parameter `unfit`.
    structure : what `resolve_structure` returns
    X : RaggedArray
    codes : object array
        The heads of each sample.
    weights : array of shape (n_samples,)
    stream : bool, default=False
        Whether these are only a part of the data, so that it is no error if all are dropped.

    Returns
    -------
    X, codes, weights
        Those of the remaining samples, which in a stream may be none.
    """
    if choice == "raise":
        return X, codes, weights
    if not structure.can_repair:
        raise ValueError(f"unfit={choice!r} is for trees; leave it at 'raise' with {structure!r}")
    reasons = [structure.misfits(tree) for tree in codes]
    unfit = np.array([bool(why) for why in reasons])
    if not unfit.any():
        return X, codes, weights
    how = "they are left out" if choice == "drop" else "arcs are moved so that they do"
    counts = ", ".join(f"{n} with {why}" for why, n in Counter(chain.from_iterable(reasons)).items())
    warn_user(f"{unfit.sum()} of {len(codes)} trees do not fit {structure!r} ({counts}); {how}")
    if choice == "drop":
        kept = np.flatnonzero(~unfit)
        if stream:
            return X[kept], codes[kept], weights[kept]
        if not len(kept):
            raise ValueError(
                f"none of the {len(codes)} trees fits {structure!r}; use unfit='projectivise', or a structure that "
                "allows several roots and arcs that cross"
            )
        if not weights[kept].any():
            raise ValueError(f"all sample weights of the {len(kept)} trees that fit {structure!r} are zero")
        return X[kept], codes[kept], weights[kept]
    codes = codes.copy()
    for i in np.flatnonzero(unfit):
        codes[i] = structure.repair(codes[i])
    return X, codes, weights
