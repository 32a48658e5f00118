"""The PyTorch operator that reads gold structures.

Used by `_decisions.py` and `_losses.py`.
"""

from collections.abc import Sequence, Sized
from math import prod

import torch
from torch import Tensor

from .._layers.losses import Gold, ReaderOf
from .._layers.register import enroll, operator
from ._ops import as_numpy, join_axis, like, split_axis


@torch.library.custom_op("sklearn_sparsemap::read_gold", mutates_args=())
def _read(
    y: Tensor, scores: Tensor, additional: Tensor, rows: Tensor, lead: Sequence[int], handle: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return `Gold` as tensors, given a `GoldReader` by its name."""
    arrays = y.cpu().numpy(), as_numpy(scores), as_numpy(additional), rows.cpu().numpy()
    return tuple(like(array, scores) for array in operator(handle).read(*arrays, tuple(lead)))


@_read.register_fake
def _(y, scores, additional, rows, lead, handle):
    n = scores.shape[0]
    shapes = (n, prod(scores.shape[1:])), additional.shape, (n,), (n, prod(scores.shape[1:]))
    return tuple(scores.new_empty(shape) for shape in shapes)


@_read.register_vmap
def _(info, in_dims, y, scores, additional, rows, lead, handle):
    size = info.batch_size
    tensors = [join_axis(t, axis, size) for t, axis in zip((y, scores, additional, rows), in_dims)]
    return tuple(split_axis(out, size) for out in _read(*tensors, [size, *lead], handle)), (0, 0, 0, 0)


def read_gold(y, scores, additional, rows, lead, handle):
    """Return `Gold` as tensors like the scores.

    Parameters
    ----------
    y : Tensor, or list of structures
        With the leading axes of the scores, or one structure for each sample.
    scores, additional, rows, lead
        As in `_ops.solve`.
    handle : str
        Name of a `GoldReader`.
    """
    # Gold has no derivative. Detached tensors keep the operator out of autograd.
    batch = scores.detach(), additional.detach(), rows, lead
    if not isinstance(y, Tensor):
        return Gold(*_read_list(y, *batch, handle))
    if y.shape[: len(lead)] != lead:
        _refuse_number(y.shape[0] if y.dim() else 1, lead)
    return Gold(*_read(y.detach().reshape(scores.shape[0], *y.shape[len(lead) :]), *batch, handle))


@torch.compiler.disable(reason="gold structures that are no tensor are read in Python; pass a tensor")
def _read_list(y, scores, additional, rows, lead, handle):
    reader = enroll(ReaderOf(operator(handle), as_structures(y, lead)))
    return _read(scores.new_empty(scores.shape[0]), scores, additional, rows, lead, reader.handle)


def _refuse_number(n_structures, lead):
    if len(lead) > 1:
        raise ValueError(f"y must hold one structure for each sample, along the axes {tuple(lead)} of the scores")
    raise ValueError(f"y holds {n_structures} structures for {prod(lead)} samples; pass one for each")


def as_structures(y, lead):
    """Return gold structures as a list, in the form in which the structure decodes."""
    if not lead:
        y = [y]
    if not isinstance(y, Sized) or isinstance(y, dict):
        raise ValueError(f"y must hold one structure for each sample; got {type(y).__name__}")
    for axis in range(1, len(lead)):
        if len(y) != prod(lead[:axis]) or any(len(own) != lead[axis] for own in y):
            _refuse_number(len(y), lead)
        y = [own for several in y for own in several]
    if len(y) != prod(lead):
        _refuse_number(len(y), lead[:1])
    return [own.detach().cpu().numpy() if isinstance(own, Tensor) else own for own in y]
