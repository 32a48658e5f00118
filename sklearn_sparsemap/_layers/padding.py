"""Padded batches: which entries belong to the samples, by their shapes.

An array of a batch has shape (n_samples, *padded); that of a sample stands at the beginning of each axis. Flat arrays
have the entries of all samples, one after the other, in C order.
"""

from math import prod

import numpy as np


def check_lengths(lengths, padded, n_samples, n_lengths, what):
    """Return lengths as an int64 array of shape (n_samples, n_lengths).

    Parameters
    ----------
    lengths : array of int
        Of shape (n_samples,) or (n_samples, k) for k among `n_lengths`.
    padded : tuple of int
        The largest length of each kind; of those that have (n_samples,) the first.
    n_lengths : tuple of int
        Which k are possible; 1 goes without an axis, too.
    what : str
        What is counted, for messages.

    Raises
    ------
    ValueError
        If the lengths are no ints, of another shape, or out of range.
    """
    lengths = np.asarray(lengths)
    if lengths.dtype.kind not in "iu":
        raise ValueError(f"lengths must be integers ({what}); got dtype {lengths.dtype}")
    if lengths.ndim == 1 and 1 in n_lengths:
        lengths = lengths[:, None]
    if lengths.ndim != 2 or len(lengths) != n_samples or lengths.shape[1] not in n_lengths:
        accepted = " or ".join(f"({n_samples},)" if k == 1 else f"({n_samples}, {k})" for k in n_lengths)
        raise ValueError(f"lengths has shape {np.shape(lengths)}; for {what} it must have {accepted}")
    lengths = lengths.astype(np.int64)
    wrong = (lengths < 1) | (lengths > np.array(padded[: lengths.shape[1]]))
    if wrong.any():
        i, axis = (int(place) for place in np.argwhere(wrong)[0])
        raise ValueError(
            f"lengths[{i}] is {lengths[i].squeeze().tolist()}, but the padded scores have room for 1 to {padded[axis]} "
            f"({what})"
        )
    return lengths


def block_mask(padded, shape):
    """Tell which entries of a padded array, flat, belong to a sample: bool array."""
    mask = np.zeros(padded, bool)
    mask[tuple(slice(n) for n in shape)] = True
    return mask.ravel()


class Places:
    """Where the entries of samples stand in padded arrays.

    Parameters
    ----------
    masks : list of bool array
        For each kind of sample.
    kinds : int array of shape (n_samples,)
        Of which kind each sample is.
    """

    def __init__(self, masks, kinds):
        self.sizes = np.array([mask.sum() for mask in masks], np.int64)[kinds]
        self.n_padded = len(masks[0])
        self._mask = None if all(mask.all() for mask in masks) else np.array(masks)[kinds]

    @property
    def is_full(self):
        """Whether there is no padding."""
        return self._mask is None

    def take(self, padded):
        """Return the entries of all samples, flat; `padded` has shape (n_samples, n_padded)."""
        return padded.ravel() if self._mask is None else padded[self._mask]

    def put(self, flat):
        """Return a padded array with these entries, and zeros in the padding."""
        if self._mask is None:
            return flat.reshape(len(self.sizes), self.n_padded)
        padded = np.zeros(self._mask.shape)
        padded[self._mask] = flat
        return padded


def kinds_of(shapes):
    """Return the different rows of an int array, as tuples, and which of them each row is."""
    if len(shapes) and (shapes == shapes[0]).all():
        return [tuple(shapes[0].tolist())], np.zeros(len(shapes), np.int64)
    different, kinds = np.unique(shapes, axis=0, return_inverse=True)
    return [tuple(row) for row in different.tolist()], kinds.reshape(-1)


def flat_size(shapes):
    """Return how many entries arrays of these shapes have together."""
    return sum(prod(shape) for shape in shapes)
