"""Conversion of user input to tensors; `_layers.tensors.prepare` calls these functions."""

import torch

xp = torch
HALF = torch.float16, torch.bfloat16


def as_scores(scores, name="scores"):
    """Return scores as a tensor of float32 or float64; half precision is converted, because it is too coarse."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be real floating point numbers; got {scores.dtype}")
    return scores.float() if scores.dtype in HALF else scores


def as_additional(value, scores, name):
    """Return additional scores as a tensor with the dtype and on the device of the scores."""
    value = torch.as_tensor(value)
    if not value.is_floating_point() and value.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be real numbers; got {value.dtype}")
    if value.device != scores.device and value.dim():
        raise ValueError(f"{name} is on {value.device}, but scores are on {scores.device}; move one of them")
    return value.to(scores)


def as_ints(lengths, like):
    """Return lengths as an int64 tensor, or None; values are not checked. `like` has the device, unless it is None."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    return lengths.to(lengths.device if like is None else like.device, torch.int64)


def as_mask(mask, scores):
    """Return a mask, or a dict of masks, as tensors on the device of the scores."""
    if isinstance(mask, dict):
        return {name: as_mask(own, scores) for name, own in mask.items()}
    return torch.as_tensor(mask, device=scores.device)


def arange(size, like):
    """Return the numbers below `size` on the device of a tensor."""
    return torch.arange(size, device=like.device)
