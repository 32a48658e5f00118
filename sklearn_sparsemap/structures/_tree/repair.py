"""Repair of gold trees that have several roots or crossing arcs.

Used by `structure.py`.
"""

import numpy as np


def misfits_of(heads, projective, single_root):
    """Return the constraints that the heads of a tree violate: tuple of str."""
    heads = _as_tree(heads)
    reasons = []
    if heads is not None and single_root and (heads == 0).sum() > 1:
        reasons.append("several roots")
    if heads is not None and projective and _find_unfit_arc(heads) is not None:
        reasons.append("arcs that cross")
    return tuple(reasons)


def make_fit(heads, projective, single_root):
    """Return the heads of a tree that satisfies the constraints.

    The other roots become modifiers of the first one. Then arcs over words that are not descendants of their head are
    lifted, the shortest first, until there are none: the modifier is attached to its head's head. (Nivre and Nilsson,
    Pseudo-Projective Dependency Parsing, ACL 2005; without the labels that undo it.) A lifted word keeps its higher
    ancestors. The number of lifts is not always minimal. In a tree with one root, which all words descend from, no word
    is lifted to become another root.

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
    """Return the heads of a sample as an array, or None if they are not a tree, which training reports."""
    heads = np.asarray(heads)
    n = len(heads) if heads.ndim == 1 else 0
    if not n or heads.dtype.kind not in "iu" or heads.min() < 0 or heads.max() > n:
        return None
    return None if len(words_in_cycles(heads)) else heads.astype(np.int64)


def words_in_cycles(heads):
    """Return the words whose heads do not lead to the root."""
    # After k doublings `above` is the ancestor 2^k steps up. In a tree, this becomes the root for all words.
    above = np.concatenate([[0], heads])
    for _ in range(len(heads).bit_length()):
        above = above[above]
    return np.flatnonzero(above)


def _find_unfit_arc(heads):
    """Return the modifier of the shortest, then first arc over a word that does not descend from its head, or None."""
    n = len(heads)
    words = np.arange(1, n + 1)
    above = np.concatenate([[0], heads])
    # Whether word w is a descendant of head h: walk up from all words at once, and mark all ancestors.
    below = np.zeros((n + 1, n + 1), bool)
    place = np.arange(n + 1)
    while place.any():
        below[place, np.arange(n + 1)] = True
        place = above[place]
    below[0] = True
    for word in words[np.argsort(abs(heads - words), kind="stable")]:
        head = heads[word - 1]
        low = min(head, word)
        high = max(head, word)
        if not below[head, low + 1 : high].all():
            return int(word)
    return None
