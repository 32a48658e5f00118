"""Conversion of user input to the tensors that operators take."""

from math import prod

import torch

_HALF = torch.float16, torch.bfloat16


def as_scores(scores, name="scores"):
    """Return scores as a tensor of float32 or float64; half precision is converted, because it is too coarse."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be real floating point numbers; got {scores.dtype}")
    return scores.float() if scores.dtype in _HALF else scores


def result_dtype(scores):
    """Return the dtype of results: that of the scores, or float32 for half precision under autocast."""
    is_half = scores.dtype in _HALF
    return torch.float32 if is_half and torch.is_autocast_enabled(scores.device.type) else scores.dtype


def as_lengths(lengths, n_samples, batched):
    """Return lengths as an int tensor, one row a sample, without columns for None; values are not checked."""
    if lengths is None:
        return torch.empty((n_samples, 0), dtype=torch.int64)
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    if not batched:
        lengths = lengths.unsqueeze(0)
    if lengths.dim() not in (1, 2) or lengths.shape[0] != n_samples:
        raise ValueError(f"lengths has shape {tuple(lengths.shape)}; there must be one row for each of {n_samples}")
    return lengths.to(torch.int64).reshape(n_samples, 1 if lengths.dim() == 1 else lengths.shape[1])


def as_additional(value, scores, name):
    """Return additional scores as a tensor with the dtype and on the device of the scores."""
    value = torch.as_tensor(value) if not isinstance(value, torch.Tensor) else value
    if not value.is_floating_point() and value.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be real numbers; got {value.dtype}")
    if value.device != scores.device and value.dim():
        raise ValueError(f"{name} is on {value.device}, but scores are on {scores.device}; move one of them")
    return value.to(scores)


def join_additional(arrays, own, scores):
    """Join additional scores into one tensor of shape (n_samples, n_additional).

    Parameters
    ----------
    arrays : list of Tensor
    own : sequence of bool
        Whether each has an axis of samples, which may have size 1.
    scores : Tensor
    """
    n_samples = scores.shape[0]
    # A new axis, because one score for each sample has no other.
    flat = [array.unsqueeze(-1).flatten(1) if is_own else array.reshape(1, -1) for array, is_own in zip(arrays, own)]
    if not flat:
        return scores.new_empty((n_samples, 0))
    if any(array.shape[0] != 1 for array in flat):
        flat = [array.expand(n_samples, -1) for array in flat]
    joined = flat[0] if len(flat) == 1 else torch.cat(flat, 1)
    return joined.expand(n_samples, -1)


def as_tensors(values, given, form, lengths, temperature):
    """Return the tensors that `_ops.solve` takes, divided by the temperature.

    Parameters
    ----------
    values : Tensor
        Scores, with an axis of samples.
    given : dict of Tensor
        Additional scores, by their names in `form`.
    form : Form
    lengths, temperature
        In the user's form.

    Returns
    -------
    scores, additional, lengths : Tensor
    """
    joined = join_additional([given[name] for name, _ in form.extra], form.own, values)
    if temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    return values, joined, as_lengths(lengths, form.n_samples, form.batched)


def split_joined(flat, shapes, batched):
    """Split a tensor along its last axis into tensors of the given shapes."""
    if not shapes:
        return []
    parts = flat.split([prod(shape) for shape in shapes], 1)
    parts = [part.reshape(flat.shape[0], *shape) for part, shape in zip(parts, shapes)]
    return parts if batched else [part.squeeze(0) for part in parts]
