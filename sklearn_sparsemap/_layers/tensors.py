"""Batches of the user as flat batches, for tensors of PyTorch and arrays of JAX.

`xp` is the module `torch` or `jax.numpy`. Leading axes become one axis of samples, masks become scores of -inf, and
samples are described by the rows of `samples`.

Used by `jax` and `torch`.
"""

from math import prod

from .forms import check_mask, check_mask_names, is_array, label_of
from .operators import nested


def prepare(library, form_of, what, scores, additional, lengths, temperature, mask):
    """Check and convert the input of the user.

    Parameters
    ----------
    library : module
        Functions of PyTorch or JAX, with the same names: ``torch._forms`` or ``jax._forms``.
    form_of : callable
        `form_of_structure`, or `form_of_graph`.
    what : Structure, FactorGraph, or callable
    scores : array, or dict of arrays
    additional : dict
        By their names, or for graphs by (factor, name); those that are None are left out.
    lengths, mask
        As in `sparsemap`.
    temperature : float, or array with one number
        An array may be learned.

    Returns
    -------
    batch : (scores, additional, rows)
        The arrays that operators take, divided by the temperature.
    form : InputShapes
    """
    xp = library.xp
    arrays = scores if isinstance(scores, dict) else None
    if arrays is None:
        values = library.as_scores(scores)
        shape = tuple(values.shape)
    else:
        arrays = {name: library.as_scores(array, f"scores[{name!r}]") for name, array in scores.items()}
        values = next(iter(arrays.values()))
        shape = tuple((name, tuple(array.shape)) for name, array in arrays.items())
    # Lengths stay where they are, unless a mask is compared with them.
    lengths = library.as_ints(lengths, values, mask is not None)
    given = {key: own for key, own in additional.items() if own is not None}
    given = {key: library.as_additional(own, values, label_of(key)) for key, own in given.items()}
    shapes = tuple((key, tuple(array.shape)) for key, array in given.items())
    form = form_of(what, shape, shapes, None if lengths is None else tuple(lengths.shape))
    if mask is not None:
        check_mask_names(mask, scores)
        mask = library.as_mask(mask, values)
    if form.arrays is not None:
        values, mask = _join_arrays(xp, form, arrays, mask)
    elif mask is not None:
        values, mask = apply_mask(xp, mask, values)
    return _flat_batch(library, values, given, form, lengths, temperature, mask), form


def results_of(form, marginals, additional):
    """Return marginals with the leading axes, and additional marginals by name, as the user gave the scores."""
    parts = split_joined(additional, form.padded_extra, form.lead)
    additional = nested(dict(zip([key for key, _ in form.extra], parts)))
    if form.arrays is None:
        return marginals if len(form.lead) == 1 else marginals.reshape((*form.lead, *form.padded)), additional
    names, shapes = zip(*form.arrays)
    return dict(zip(names, split_joined(marginals, shapes, form.lead))), additional


def apply_mask(xp, mask, scores, label="mask"):
    """Return scores with -inf at masked parts, and the mask in their shape.

    Raises
    ------
    ValueError
        If the mask is not bool, or does not broadcast to the scores.
    """
    if mask.dtype != xp.bool:
        raise ValueError(f"{label} must be bool, True for allowed parts; got {mask.dtype}")
    check_mask(label, tuple(mask.shape), tuple(scores.shape))
    return xp.where(mask, scores, -xp.inf), xp.broadcast_to(mask, scores.shape)


def _join_arrays(xp, form, arrays, masks):
    """Join arrays of variables, given by name; return masked scores, and the mask in their shape or None."""
    flat = []
    flat_masks = []
    n_samples = prod(form.lead)
    for name, shape in form.arrays:
        values = arrays[name]
        mask = xp.ones_like(arrays[name], dtype=xp.bool)
        if masks is not None and name in masks:
            values, mask = apply_mask(xp, masks[name], values, f"mask[{name!r}]")
        flat.append(values.reshape(n_samples, prod(shape)))
        flat_masks.append(mask.reshape(n_samples, prod(shape)))
    return xp.concatenate(flat, 1), None if masks is None else xp.concatenate(flat_masks, 1)


def _flat_batch(library, values, given, form, lengths, temperature, mask):
    """Return the arrays that operators take, divided by the temperature; see `prepare`.

    The first axis of the scores, the additional scores and the rows is that of the samples. `values` are scores with
    -inf at masked parts; `given` has additional scores by their names in `form`.
    """
    if len(form.lead) != 1:
        values = values.reshape((prod(form.lead), *form.padded))
    joined = _join_additional(library.xp, given, form, values)
    if is_array(temperature):
        temperature = library.as_temperature(temperature, values)
        values = _divide(library.xp, values, temperature)
        joined = _divide(library.xp, joined, temperature)
    elif temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    return values, joined, _as_rows(library, lengths, mask, form)


def _divide(xp, scores, temperature):
    """Divide scores by an array whose gradient forbidden parts and padding do not enter, not even as 0 * inf."""
    finite = xp.isfinite(scores)
    return xp.where(finite, xp.where(finite, scores, 0.0) / temperature, scores)


def _join_additional(xp, given, form, scores):
    """Join additional scores into one array of shape (n_samples, n_additional)."""
    n_samples = scores.shape[0]
    n_axes = len(form.lead)
    flat = []
    for (name, _), shape, has_lead in zip(form.extra, form.padded_extra, form.has_lead):
        array, n_rows = given[name], 1
        if has_lead and any(n != 1 for n in array.shape[:n_axes]):
            array = xp.broadcast_to(array, (*form.lead, *shape))
            n_rows = n_samples
        flat.append(array.reshape(n_rows, prod(shape)))
    if not flat:
        return xp.zeros_like(scores.reshape(n_samples, prod(form.padded))[:, :0])
    if any(array.shape[0] != 1 for array in flat):
        flat = [xp.broadcast_to(array, (n_samples, array.shape[1])) for array in flat]
    # Without a copy if all samples share them.
    joined = flat[0] if len(flat) == 1 else xp.concatenate(flat, 1)
    return xp.broadcast_to(joined, (n_samples, joined.shape[1]))


def _as_rows(library, lengths, mask, form):
    """Return a row of ints for each sample: whether the mask leaves a part of it, and its lengths."""
    xp = library.xp
    n_samples = prod(form.lead)
    if lengths is not None:
        lengths = lengths.reshape(*lengths.shape[: len(form.lead)], form.n_lengths)
        lengths = xp.broadcast_to(lengths, (*form.lead, form.n_lengths)).reshape(n_samples, form.n_lengths)
    if mask is None:
        present = library.ones(n_samples, lengths)[:, None]
    else:
        mask = mask.reshape((n_samples, *form.padded))
        for axis, (column, offset) in enumerate(form.bounds):
            size = form.padded[axis]
            inside = library.arange(size, mask) < lengths[:, column, None] + offset
            mask = mask & inside.reshape(n_samples, *[1] * axis, size, *[1] * (len(form.padded) - axis - 1))
        present = xp.where(mask.reshape(n_samples, prod(form.padded)).any(1), 1, 0)[:, None]
    return present if lengths is None else xp.concatenate([present, lengths], 1)


def split_joined(flat, shapes, lead):
    """Split an array along its last axis into arrays of the given shapes, after the leading axes."""
    parts, first = [], 0
    for shape in shapes:
        parts.append(flat[:, first : first + prod(shape)].reshape((*lead, *shape)))
        first += prod(shape)
    return parts
