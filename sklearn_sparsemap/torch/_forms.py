"""Conversion of user input to tensors; `_layers.tensors.prepare` calls these functions.

Used by `_calls.py`.
"""

import torch

from ._ops import hold_numbers

xp = torch
HALF = torch.float16, torch.bfloat16


def as_scores(scores, name="scores"):
    """Return scores as a tensor of float32 or float64; half precision is converted, because it is too coarse."""
    if not isinstance(scores, torch.Tensor):
        raise TypeError(f"{name} must be a torch.Tensor; got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise ValueError(f"{name} must be real floating point numbers; got {scores.dtype}")
    _check_dense(scores, name)
    return scores.float() if scores.dtype in HALF else scores


def _check_dense(tensor, name):
    """Raise ValueError for sparse tensors."""
    if tensor.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor; got {tensor.layout}. Pass {name}.to_dense()")


def as_temperature(temperature, scores):
    """Return a temperature, a tensor with one number, as a scalar like the scores; NaN if it is not positive."""
    if not isinstance(temperature, torch.Tensor) or temperature.numel() != 1:
        raise ValueError(
            "temperature must be a positive number, or a tensor with one number that may be learned; got shape "
            f"{tuple(temperature.shape)}. For several temperatures divide all scores, additional ones included"
        )
    _check_dense(temperature, "temperature")
    temperature = temperature.reshape(()).to(scores)
    is_positive = (temperature > 0.0) & (temperature < torch.inf)
    if hold_numbers(temperature) and not is_positive:
        raise ValueError(f"temperature must be positive; got {temperature.item()}")
    # Within transforms and compiled functions no number can be read. The solver refuses scores that are NaN.
    return torch.where(is_positive, temperature, torch.nan)


def as_additional(value, scores, name):
    """Return additional scores as a tensor with the dtype and on the device of the scores."""
    value = torch.as_tensor(value)
    if not value.is_floating_point() and value.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be real numbers; got {value.dtype}")
    _check_dense(value, name)
    if value.device != scores.device and value.dim():
        raise ValueError(f"{name} is on {value.device}, but scores are on {scores.device}; move one of them")
    return value.to(scores)


def as_ints(lengths, scores, move):
    """Return lengths as an int64 tensor, or None; values are not checked. If `move`, on the device of the scores."""
    if lengths is None:
        return None
    lengths = torch.as_tensor(lengths)
    _check_dense(lengths, "lengths")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    if lengths.is_meta and not scores.is_meta:
        raise ValueError(f"lengths is on meta, without numbers, but scores are on {scores.device}; pass numbers")
    return lengths.to(scores.device if move else lengths.device, torch.int64)


def as_mask(mask, scores):
    """Return a mask, or a dict of masks, as tensors on the device of the scores."""
    if isinstance(mask, dict):
        return {name: as_mask(own, scores) for name, own in mask.items()}
    mask = torch.as_tensor(mask, device=scores.device)
    _check_dense(mask, "mask")
    return mask


def arange(size, like):
    """Return the numbers below `size` on the device of a tensor."""
    return torch.arange(size, device=like.device)


def ones(size, like):
    """Return ones on the device of a tensor, or on the CPU for None."""
    return torch.ones(size, dtype=torch.int32, device="cpu" if like is None else like.device)
