"""Batches of sentences of similar lengths, for the scripts that train networks."""

import numpy as np
from torch.optim.lr_scheduler import ExponentialLR

# Sentences are sorted within so many batches: batches differ from epoch to epoch.
_POOL = 50


def batches_by_length(lengths, size, rng):
    """Return all places, in random batches of about `size` with similar lengths: a list of int arrays.

    Little is then padding, and a layer over graphs, which solves samples of one shape together, sees few shapes.
    """
    lengths, found = np.asarray(lengths), []
    order = rng.permutation(len(lengths))
    for pool in np.array_split(order, max(1, round(len(order) / (size * _POOL)))):
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        found += np.array_split(pool, max(1, round(len(pool) / size)))
    return [found[i] for i in rng.permutation(len(found))]


def in_order(lengths, size):
    """Return all places in batches of about `size`, from short to long."""
    order = np.argsort(lengths, kind="stable")
    return np.array_split(order, max(1, round(len(order) / size)))


def decayed(optimizer, n_epochs):
    """Return a scheduler that lowers an optimizer's rate by equal factors, to a tenth after the last epoch."""
    return ExponentialLR(optimizer, 0.1 ** (1.0 / max(1, n_epochs - 1)))
