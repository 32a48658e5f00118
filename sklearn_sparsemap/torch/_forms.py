"""Conversion of user input to the tensors that operators take."""

from math import prod

import torch

from .._layers.forms import check_mask

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


def apply_mask(mask, scores, label="mask"):
    """Return scores with -inf at masked parts, and the mask in their shape.

    Raises
    ------
    ValueError
        If the mask is not bool, or does not broadcast to the scores.
    """
    mask = torch.as_tensor(mask, device=scores.device)
    if mask.dtype != torch.bool:
        raise ValueError(f"{label} must be bool, True for allowed parts; got {mask.dtype}")
    check_mask(label, tuple(mask.shape), tuple(scores.shape))
    return torch.where(mask, scores, -torch.inf), mask.expand(scores.shape)


def as_rows(lengths, mask, form):
    """Return a row of ints for each sample: whether the mask leaves a part of it, and its lengths.

    Parameters
    ----------
    lengths : int Tensor or None
    mask : bool Tensor with an entry for each score, or None
    form : Form
    """
    n_samples = prod(form.lead)
    if lengths is None:
        lengths = torch.empty((n_samples, 0), dtype=torch.int64, device=None if mask is None else mask.device)
    else:
        with_axis = lengths.reshape(*lengths.shape[: len(form.lead)], form.n_lengths)
        lengths = with_axis.expand(*form.lead, form.n_lengths).reshape(n_samples, form.n_lengths)
    if mask is None:
        return torch.cat([lengths.new_ones((n_samples, 1)), lengths], 1)
    lengths, mask = lengths.to(mask.device), mask.reshape(n_samples, *form.padded)
    for axis, (column, offset) in enumerate(form.bounds):
        size = form.padded[axis]
        inside = torch.arange(size, device=mask.device) < lengths[:, column, None] + offset
        mask = mask & inside.reshape(n_samples, *[1] * axis, size, *[1] * (len(form.padded) - axis - 1))
    present = mask.reshape(n_samples, prod(form.padded)).any(1)
    return torch.cat([present.to(torch.int64).unsqueeze(1), lengths], 1)


def as_additional(value, scores, name):
    """Return additional scores as a tensor with the dtype and on the device of the scores."""
    value = torch.as_tensor(value) if not isinstance(value, torch.Tensor) else value
    if not value.is_floating_point() and value.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"{name} must be real numbers; got {value.dtype}")
    if value.device != scores.device and value.dim():
        raise ValueError(f"{name} is on {value.device}, but scores are on {scores.device}; move one of them")
    return value.to(scores)


def join_additional(given, form, scores):
    """Join additional scores into one tensor of shape (n_samples, n_additional).

    Parameters
    ----------
    given : dict of Tensor
        By their names in `form`.
    form : Form
    scores : Tensor
        Of all samples.
    """
    n_samples, n_axes = scores.shape[0], len(form.lead)
    flat = []
    for (name, shape), is_own in zip(form.extra, form.own):
        array, size = given[name], prod(shape)
        if is_own and any(n != 1 for n in array.shape[:n_axes]):
            flat.append(array.expand(*form.lead, *shape).reshape(n_samples, size))
        else:
            flat.append(array.reshape(1, size))
    if not flat:
        return scores.new_empty((n_samples, 0))
    if any(array.shape[0] != 1 for array in flat):
        flat = [array.expand(n_samples, -1) for array in flat]
    joined = flat[0] if len(flat) == 1 else torch.cat(flat, 1)
    return joined.expand(n_samples, -1)


def as_tensors(values, given, form, lengths, temperature, mask):
    """Return the tensors that `_ops.solve` takes, divided by the temperature.

    Parameters
    ----------
    values : Tensor
        Scores, with -inf at masked parts.
    given : dict of Tensor
        Additional scores, by their names in `form`.
    form : Form
    lengths : int Tensor or None
    temperature : float
    mask : bool Tensor with an entry for each score, or None

    Returns
    -------
    scores, additional, rows : Tensor
    """
    values = values.reshape(prod(form.lead), *form.padded)
    joined = join_additional(given, form, values)
    if temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    return values, joined, as_rows(lengths, mask, form)


def split_joined(flat, shapes, lead):
    """Split a tensor along its last axis into tensors of the given shapes, after the leading axes."""
    if not shapes:
        return []
    parts = flat.split([prod(shape) for shape in shapes], 1)
    return [part.reshape((*lead, *shape)) for part, shape in zip(parts, shapes)]


def nest(flat, lead):
    """Return a list with an entry for each sample as lists in lists along the leading axes."""
    if not lead:
        return flat[0]
    step = prod(lead[1:])
    return [nest(flat[k * step : (k + 1) * step], lead[1:]) for k in range(lead[0])] if len(lead) > 1 else flat
