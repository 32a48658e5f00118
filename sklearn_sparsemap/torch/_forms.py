"""Conversion of user input to the tensors that operators take."""

from functools import partial
from math import prod

import torch

from .._layers.tensors import flat_batch

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


def as_ints(lengths):
    """Return lengths as an int64 tensor, or None; values are not checked."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    return lengths.to(torch.int64)


def shape_of(tensor):
    """Return the shape of a tensor as a tuple; None for None."""
    return None if tensor is None else tuple(tensor.shape)


def as_mask(mask, scores):
    """Return a mask, or a dict of masks, as tensors on the device of the scores."""
    if isinstance(mask, dict):
        return {name: as_mask(own, scores) for name, own in mask.items()}
    return torch.as_tensor(mask, device=scores.device)


def as_additional(value, scores, name):
    """Return additional scores as a tensor with the dtype and on the device of the scores."""
    value = torch.as_tensor(value) if not isinstance(value, torch.Tensor) else value
    if not value.is_floating_point() and value.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be real numbers; got {value.dtype}")
    if value.device != scores.device and value.dim():
        raise ValueError(f"{name} is on {value.device}, but scores are on {scores.device}; move one of them")
    return value.to(scores)


def as_tensors(values, given, form, lengths, temperature, mask):
    """Return the tensors that `_ops.solve` takes; see `flat_batch`."""
    if lengths is not None and mask is not None:
        lengths = lengths.to(mask.device)
    arange = partial(torch.arange, device=values.device)
    return flat_batch(torch, values, given, form, lengths, temperature, mask, arange)


def nest(flat, lead):
    """Return a list with an entry for each sample as lists in lists along the leading axes."""
    if not lead:
        return flat[0]
    step = prod(lead[1:])
    return [nest(flat[k * step : (k + 1) * step], lead[1:]) for k in range(lead[0])] if len(lead) > 1 else flat
