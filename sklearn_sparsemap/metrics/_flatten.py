"""Conversion of label sequences to flat lists, and weighted means over these.

Used by `_multilabel.py`, `_parts.py`, `_rankings.py`, `_regret.py`, `_sequences.py` and `_spans.py`.
"""

from collections.abc import Sized
from itertools import chain

import numpy as np
from scipy import sparse

from .._core.ragged import RaggedArray
from .._core.tables import by_samples, column_names, refuse_iterator
from .._core.validation import check_not_ignored, check_not_masked, check_sample_weight, plain_list


def flatten_pair(y_true, y_pred):
    """Return the labels of all samples as two flat lists, and the samples' lengths."""
    true, lengths = flatten(y_true, "y_true")
    pred, pred_lengths = flatten(y_pred, "y_pred")
    check_same_lengths(lengths, pred_lengths, "y_pred")
    check_not_ignored(true, lengths, "y_true")
    check_not_ignored(pred, lengths, "y_pred")
    return true, pred, lengths


def flatten_known(y_true, y_pred):
    """Return the labels of all steps whose true label is known; see `known_steps`.

    Returns
    -------
    true, pred : list
    lengths : array of shape (n_samples,)
        Number of these steps in each sample.
    known : bool array, or None
    """
    true, pred, lengths = flatten_pair(y_true, y_pred)
    known = known_steps(true, pred, lengths)
    if known is None:
        return true, pred, lengths, None
    kept = np.flatnonzero(known)
    sample = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.bincount(sample[kept], minlength=len(lengths))
    return [true[k] for k in kept.tolist()], [pred[k] for k in kept.tolist()], counts, known


def known_steps(true, pred, lengths):
    """Tell which steps have a known true label, which is not None: bool array, or None if all have.

    Raises
    ------
    ValueError
        If no true label is known, or a predicted label is None although the true one is known.
    """
    if type(None) not in {*map(type, true), *map(type, pred)}:
        return None
    known, predicted = (np.array([label is not None for label in labels], bool) for labels in (true, pred))
    if not known.any():
        raise ValueError("all labels of y_true are None, which is unknown; at least one must be known")
    absent = np.flatnonzero(known & ~predicted)
    if len(absent):
        i = int(np.searchsorted(np.cumsum(lengths), absent[0], side="right"))
        raise ValueError(f"y_pred[{i}] has a label of None, which is no prediction; predict a label for each step")
    return known


def check_same_lengths(lengths, other_lengths, name):
    if len(lengths) != len(other_lengths):
        raise ValueError(f"y_true has {len(lengths)} samples, but {name} has {len(other_lengths)}")
    differs = np.flatnonzero(lengths != other_lengths)
    if len(differs):
        i = int(differs[0])
        raise ValueError(f"y_true[{i}] has {lengths[i]} labels, but {name}[{i}] has {other_lengths[i]}")


def flatten(y, name):
    if isinstance(y, RaggedArray):
        if y.values.ndim != 1:
            raise ValueError(f"the values of {name} must have one label for each position; got shape {y.values.shape}")
        return y.values.tolist(), y.lengths
    refuse_table(y, name)
    if isinstance(y, str) or not isinstance(y, Sized):
        refuse_iterator(y, name)
        raise ValueError(f"{name} must be a sequence of label sequences; got {y!r}")
    check_not_masked(y, name)
    samples = y.to_pylist() if hasattr(y, "to_pylist") else list(y)
    for i, sample in enumerate(samples):
        check_not_masked(sample, f"{name}[{i}]")
        if isinstance(sample, str) or not isinstance(sample, Sized):
            raise ValueError(
                f"{name}[{i}] is {sample!r}, not a sequence of labels; if each sample has one label, use "
                "sklearn.metrics"
            )
        if getattr(sample, "ndim", 1) != 1:
            raise ValueError(f"{name}[{i}] must have one label for each position; got shape {sample.shape}")
    lengths = np.fromiter(map(len, samples), dtype=np.int64, count=len(samples))
    return plain_list(chain.from_iterable(samples)), lengths


def refuse_table(y, name):
    """Raise ValueError for a DataFrame, which Python iterates by columns, or a sparse matrix, which has no length."""
    if sparse.issparse(y):
        raise ValueError(f"{name} is a sparse matrix, but must be a sequence with one structure a sample")
    if column_names(y, name) is not None:
        raise ValueError(
            f"{name} is a table, but must be a sequence with one structure a sample; if these are its rows, pass "
            f"{name}.to_numpy()"
        )


def weights_of(sample_weight, y_true, n_samples):
    """Return the weights of samples as an array, in the order of `y_true` if both have an index."""
    return check_sample_weight(by_samples(sample_weight, y_true, "sample_weight", "y_true"), n_samples)


def weighted_mean(values, weights):
    """Return the weighted mean as a float; raise ValueError if all weights are zero."""
    total = weights.sum()
    if total == 0:
        raise ValueError("sample_weight gives no weight to any label; make at least one positive")
    return float(values @ weights / total)
