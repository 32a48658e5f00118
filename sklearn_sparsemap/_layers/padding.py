"""Padded batches: masks of the entries that belong to the samples, by their shapes.

An array of a batch has shape (n_samples, *padded); each sample is at the beginning of each axis. Flat arrays contain
the entries of all samples, one after the other, in C order.

Used by `torch`, `graphs.py`, `losses.py` and `structures.py`.
"""

import numpy as np

from .._core.errors import SampleError


def check_lengths(lengths, room, n_lengths, what):
    """Check lengths of samples with parts.

    Parameters
    ----------
    lengths : int array of shape (n_samples, k)
    room : tuple of int
        The largest value of each column. The smallest is 1, because `samples.py` leaves out samples of length 0.
    n_lengths : tuple of int
        The possible k.
    what : str
        The name of the counted items, for messages.

    Raises
    ------
    ValueError
        If there are more or fewer lengths, or they are out of range.
    """
    if lengths.shape[1] not in n_lengths:
        accepted = " or ".join("one length" if k == 1 else f"{k} lengths" for k in n_lengths)
        raise ValueError(f"lengths must have {accepted} for each sample, not {lengths.shape[1]}: {what}")
    wrong = (lengths < 1) | (lengths > np.array(room[: lengths.shape[1]]))
    if wrong.any():
        i, axis = (int(place) for place in np.argwhere(wrong)[0])
        raise SampleError(
            "lengths",
            i,
            f" is {lengths[i].squeeze().tolist()}, but the padded scores have room for 0 to {room[axis]} ({what})",
        )


def shapes_within(padded, lengths, bounds):
    """Return the shape of each sample without its padding: int array of shape (n_samples, n_axes).

    `bounds` has a pair (column, offset) for each of the first axes: this column of the lengths, plus the offset, is the
    size of the sample along the axis.
    """
    shapes = np.tile(np.array(padded, np.int64), (len(lengths), 1))
    for axis, (column, offset) in enumerate(bounds):
        shapes[:, axis] = lengths[:, column] + offset
    return shapes


def block_mask(padded, shape):
    """Return a mask of the entries of a flat padded array that belong to a sample of this shape."""
    mask = np.zeros(padded, bool)
    mask[tuple(slice(n) for n in shape)] = True
    return mask.ravel()


class PaddedEntries:
    """The positions of the samples' entries in padded arrays.

    Parameters
    ----------
    masks : list of bool array
        One mask for each kind of sample.
    shape_ids : int array of shape (n_samples,)
        The mask of each sample.
    """

    def __init__(self, masks, shape_ids):
        self.sizes = np.array([mask.sum() for mask in masks], np.int64)[shape_ids]
        self.masks = masks
        self.n_padded = len(masks[0])
        self._mask = None if all(mask.all() for mask in masks) else np.array(masks)[shape_ids]

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


def distinct_rows(shapes):
    """Return the distinct rows of an int array, as tuples, and the index of each row among them."""
    if len(shapes) and (shapes == shapes[0]).all():
        return [tuple(shapes[0].tolist())], np.zeros(len(shapes), np.int64)
    different, kinds = np.unique(shapes, axis=0, return_inverse=True)
    return [tuple(row) for row in different.tolist()], kinds.reshape(-1)
