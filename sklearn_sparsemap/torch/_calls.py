"""The steps between a call of a layer and its operator: the check of the input, the backend, and the operator."""

from operator import index

import torch

from .._core.validation import check_choice
from .._layers import forms, tensors
from .._layers.forms import Form, form_of_structure
from .._layers.register import operator_of
from . import _forms
from ._native import native_operator


def prepare(is_graph, what, scores, additional, lengths, temperature, mask):
    """Check the user's input; see `tensors.prepare`.

    Returns
    -------
    dtype : torch.dtype
        Dtype of the results: that of the scores, or float32 for half precision under autocast.
    batch : (scores, additional, rows)
    form : Form
    """
    form_of = _form_of_graph if is_graph else form_of_structure
    batch, form = tensors.prepare(_forms, form_of, what, scores, additional, lengths, temperature, mask)
    first = next(iter(scores.values())) if isinstance(scores, dict) else scores
    in_single = first.dtype in _forms.HALF and torch.is_autocast_enabled(first.device.type)
    return torch.float32 if in_single else first.dtype, batch, form


def _form_of_graph(*shapes):
    return Form(*_tuple_of_graph(*shapes))


@torch.compiler.assume_constant_result
def _tuple_of_graph(*shapes):
    # A plain tuple, because compiled programs support only numbers, strings and tuples as constants.
    return tuple(forms.form_of_graph(*shapes))


def use_native(backend, device, obstacle=None):
    """Tell whether to use operations of PyTorch. An `obstacle` says why they are not possible.

    Raises
    ------
    ValueError
        If the backend is unknown, or requires operations that are not possible.
    """
    check_choice("backend", backend, ("auto", "compiled", "native"))
    if backend == "native" and obstacle is not None:
        raise ValueError(f"backend='native' {obstacle}")
    return obstacle is None and (backend == "native" or (backend == "auto" and device.type not in ("cpu", "mps")))


@torch.compiler.assume_constant_result
def handle_of(what, extra, tol, max_iter, n_jobs, native):
    """Return the number of the operator of a structure or a graph."""
    make = native_operator if native else operator_of
    return make(what, extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


def handle_of_structure(structure, *options):
    """Return the number of a structure's operator. In a compiled function, the structure may have been made there."""
    if not torch.compiler.is_compiling() or not _is_bare(structure):
        return handle_of(structure, *options)
    params = ()
    for name, value in vars(structure).items():
        if value is not None and not isinstance(value, int | float | str):
            raise ValueError(f"{type(structure).__name__} cannot be made in a compiled function; make it outside")
        # Compiled programs treat an int that differs between two calls as a symbol; `index` makes it a number again.
        if isinstance(value, bool):
            value = bool(index(value))
        elif isinstance(value, int):
            value = index(value)
        params += ((name, value),)
    return _handle_of_made(type(structure), params, *options)


@torch.compiler.assume_constant_result
def _is_bare(structure):
    # The tracer stores the attributes of an object that is made in the traced function separately.
    return not vars(structure)


@torch.compiler.assume_constant_result
def _handle_of_made(kind, params, *options):
    structure = kind.__new__(kind)
    vars(structure).update(params)
    return handle_of(structure, *options)
