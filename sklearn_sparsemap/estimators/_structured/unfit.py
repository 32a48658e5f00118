"""Trees that a structure does not allow, with several roots or arcs that cross: left out, or made to fit."""

from __future__ import annotations

import numpy as np

from ...structures import DependencyTree
from .._fitting import warn_user

CHOICES = ("raise", "drop", "projectivise")


def fit_trees(choice, structure, X, codes, weights, stream=False):
    """Leave out the trees that do not fit the structure, or make them fit, with a warning that counts them.

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
        Whether these are part of the data, of which it is no error that none fits.

    Returns
    -------
    X, codes, weights
        Of the samples that are left: of a stream that may be none.
    """
    if choice == "raise":
        return X, codes, weights
    if not isinstance(structure, DependencyTree):
        raise ValueError(f"unfit={choice!r} is for trees; leave it at 'raise' with {structure!r}")
    # Of labelled trees, the first column has the heads.
    is_labelled = structure.n_labels is not None
    trees = [_as_tree(tree[:, 0] if is_labelled and np.ndim(tree) == 2 else tree) for tree in map(np.asarray, codes)]
    several = [tree is not None and structure.single_root and (tree == 0).sum() > 1 for tree in trees]
    cross = [tree is not None and structure.projective and _find_unfit_arc(tree) is not None for tree in trees]
    unfit = np.array(several) | np.array(cross)
    if not unfit.any():
        return X, codes, weights
    how = "they are left out" if choice == "drop" else "arcs are moved so that they do"
    warn_user(
        f"{unfit.sum()} of {len(codes)} trees do not fit {structure!r} ({sum(several)} have several roots, of "
        f"{sum(cross)} arcs cross); {how}"
    )
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
        heads = make_fit(trees[i], structure.projective, structure.single_root)
        codes[i] = np.column_stack([heads, np.asarray(codes[i])[:, 1]]) if is_labelled else heads
    return X, codes, weights


def make_fit(heads, projective, single_root):
    """Return the heads of a tree that fits.

    Roots after the first one become its modifiers. Then arcs over words that do not hang on their head are lifted, the
    shortest first, until there are none: the modifier goes to its head's head. (Nivre and Nilsson, Pseudo-Projective
    Dependency Parsing, ACL 2005; without the labels that undo it.) A word that is moved still hangs on what it hung on
    above its head, and not always the fewest are moved. With one root, which all words hang on, none is lifted to
    become another.

    Parameters
    ----------
    heads : int array of shape (n,)
        A tree: 0 is the root, words count from 1.
    projective, single_root : bool

    Returns
    -------
    heads : int array of shape (n,)
    """
    heads = heads.copy()
    if single_root:
        roots = np.flatnonzero(heads == 0)
        heads[roots[1:]] = roots[0] + 1
    while projective and (word := _find_unfit_arc(heads)) is not None:
        heads[word - 1] = heads[heads[word - 1] - 1]
    return heads


def _as_tree(heads):
    """Return the heads of a sample as an array; None if they are no tree, which training reports."""
    heads = np.asarray(heads)
    n = len(heads) if heads.ndim == 1 else 0
    if not n or heads.dtype.kind not in "iu" or heads.min() < 0 or heads.max() > n:
        return None
    above = np.concatenate([[0], heads])
    for _ in range(n.bit_length()):
        above = above[above]
    return None if above.any() else heads.astype(np.int64)


def _find_unfit_arc(heads):
    """Return the modifier of the shortest arc (of these the first) over a word that is not below its head, or None."""
    n = len(heads)
    words = np.arange(1, n + 1)
    above = np.concatenate([[0], heads])
    # Whether word w is below head h: of each word all that is above it, step by step.
    below, place = np.zeros((n + 1, n + 1), bool), np.arange(n + 1)
    while place.any():
        below[place, np.arange(n + 1)] = True
        place = above[place]
    below[0] = True
    for word in words[np.argsort(abs(heads - words), kind="stable")]:
        head = heads[word - 1]
        low, high = min(head, word), max(head, word)
        if not below[head, low + 1 : high].all():
            return int(word)
    return None
