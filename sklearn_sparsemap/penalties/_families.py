"""Overlapping groups, split into families that do not overlap."""

import numpy as np
from scipy import sparse


def color_families(group_indptr, group_atoms, n_atoms):
    """Assign groups to families of disjoint groups, such that a group comes after all groups inside it.

    Greedy: from the smallest group to the largest, each joins the first family in which it overlaps no group. If A is
    inside B, every group that keeps A out of a family overlaps B, too, so B is in a later family than A. This also
    orders trees from the leaves to the root, and partial orders from fine to coarse.

    Returns
    -------
    family : int64 array of shape (n_groups,)
        From 0; the families of the smallest groups first.
    """
    n_groups = len(group_indptr) - 1
    family = np.zeros(n_groups, dtype=np.int64)
    if len(group_atoms) == n_atoms:
        # No groups overlap.
        return family
    # For each atom, a bit set of the families that contain it already.
    taken = [0] * n_atoms
    atoms = group_atoms.tolist()
    bounds = group_indptr.tolist()
    for g in np.argsort(np.diff(group_indptr), kind="stable").tolist():
        own = atoms[bounds[g] : bounds[g + 1]]
        union = 0
        for a in own:
            union |= taken[a]
        first_free = ~union & (union + 1)
        family[g] = first_free.bit_length() - 1
        for a in own:
            taken[a] |= first_free
    return family


def membership(group_indptr, group_atoms, n_atoms):
    """Return the sparse 0/1 matrix of groups and atoms."""
    shape = len(group_indptr) - 1, n_atoms
    return sparse.csr_matrix((np.ones(len(group_atoms), np.int64), group_atoms, group_indptr), shape=shape)


def all_nested(group_indptr, group_atoms, n_atoms):
    """Tell whether any two groups are disjoint or nested."""
    if len(group_atoms) == n_atoms:
        return True
    matrix = membership(group_indptr, group_atoms, n_atoms)
    common = (matrix @ matrix.T).tocoo()
    sizes = np.diff(group_indptr)
    return bool((common.data == np.minimum(sizes[common.row], sizes[common.col])).all())
