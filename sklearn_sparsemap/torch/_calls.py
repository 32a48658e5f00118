"""The steps between a call of a layer and its operator: the check of the input, the backend, and the operator.

Used by `_decisions.py`, `_losses.py`, `_public.py` and `_surrogates.py`.
"""

from functools import partial
from operator import index

import torch

from .._core.validation import check_choice
from .._layers import tensors
from .._layers.forms import form_of_graph, form_of_structure
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
    form : InputShapes
    """
    if torch.compiler.is_compiling():
        _watch(is_graph, what)
    form_of = partial(form_of_graph, call=constant) if is_graph else form_of_structure
    batch, form = tensors.prepare(_forms, form_of, what, scores, additional, lengths, temperature, mask)
    first = next(iter(scores.values())) if isinstance(scores, dict) else scores
    in_single = first.dtype in _forms.HALF and torch.is_autocast_enabled(first.device.type)
    return torch.float32 if in_single else first.dtype, batch, form


def _watch(is_graph, what):
    """Read what may change in place, so that a compiled function is compiled again after a change.

    Only numbers and texts are read. `register.operator` notices other changes, and raises an error.
    """
    if is_graph:
        # Functions from shapes to graphs have no revision.
        index(getattr(what, "revision", 0))
    elif hasattr(what, "_params"):
        for value in vars(what).values():
            _as_constant(value)


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


def constant(function, what, *args):
    """Return ``function(what, *args)``, which depends on numbers, strings and tuples of these, and is one of them.

    In compiled programs it is called once, by Python, and its result is a constant.
    """
    if torch.compiler.is_compiling():
        args = [_as_constant(arg) for arg in args]
    return _constant(function, what, args)


def _as_constant(value):
    """Return an argument whose numbers are no symbols, which compiled programs make of those that may vary."""
    if isinstance(value, tuple):
        return tuple([_as_constant(own) for own in value])
    if isinstance(value, bool):
        return bool(index(value))
    if isinstance(value, int):
        return index(value)
    return float.fromhex(value.hex()) if isinstance(value, float) else value


@torch.compiler.assume_constant_result
def _constant(function, what, args):
    return _called(function, what, args)


@torch.compiler.disable
def _called(function, what, args):
    # Dynamo does not trace this either, in functions that it leaves to Python.
    return function(what, *args)


def handle_of(what, extra, tol, max_iter, n_jobs, native=False, argmax="sparsemap"):
    """Return the number of the operator of a structure or a graph; see `operator_of`.

    In a compiled function, the structure may have been made there.
    """
    options = extra, tol, max_iter, n_jobs, native, argmax
    if not torch.compiler.is_compiling() or not _is_bare(what):
        return constant(_handle_of, what, *options)
    params = ()
    for name, value in vars(what).items():
        if value is not None and not isinstance(value, int | float | str):
            raise ValueError(f"{type(what).__name__} cannot be made in a compiled function; make it outside")
        params += ((name, value),)
    return constant(_handle_of_made, type(what), params, *options)


def _handle_of(what, extra, tol, max_iter, n_jobs, native, argmax):
    make = native_operator if native else operator_of
    return make(what, extra, argmax=argmax, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


@torch.compiler.assume_constant_result
def _is_bare(structure):
    # The tracer stores the attributes of an object that is made in the traced function separately. Only structures are
    # known by their parameters.
    return hasattr(structure, "_params") and not vars(structure)


def _handle_of_made(operator_class, params, *options):
    structure = operator_class.__new__(operator_class)
    vars(structure).update(params)
    return _handle_of(structure, *options)
