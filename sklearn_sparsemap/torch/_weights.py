"""The selected structures of a batch, and their weights.

Used by `_losses.py` and `_public.py`.
"""

from math import prod

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from ..torch import _ops


class _Weights(torch.autograd.Function):
    """The weights of all selected structures, one sample after the other."""

    @staticmethod
    def forward(ctx, scores, additional, solved, flat):
        ctx.solved = solved
        ctx.n_shared = len(additional)
        return _ops.like(flat, scores)

    @staticmethod
    @once_differentiable
    def backward(ctx, upstream):
        unary, extra = ctx.solved.weight_products(_ops.as_numpy(upstream).ravel())
        return _ops.like(unary, upstream), _ops.like(extra, upstream), None, None


def structures_and_weights(scores, additional, rows, handle, keys, dtype, lead):
    """Return the selected structures of each sample, most probable first, and their weights as tensors.

    Both are lists, with lists in lists along the leading axes.
    """
    if torch.compiler.is_compiling():
        raise ValueError("return_structures is not for compiled programs; call it outside")
    if not len(scores):
        return nest([], lead), nest([], lead)
    solved = _ops.solution_of(scores, additional, rows, handle, keys)
    results = solved.batch[:]
    weights = [result.weights for result in results]
    flat = _Weights.apply(scores, additional, solved, np.concatenate([np.zeros(0), *weights]))
    split = flat.to(dtype).split([len(own) for own in weights])
    return nest([result.structures for result in results], lead), nest(list(split), lead)


def nest(flat, lead):
    """Return a list with an entry for each sample as lists in lists along the leading axes."""
    if not lead:
        return flat[0]
    step = prod(lead[1:])
    return [nest(flat[k * step : (k + 1) * step], lead[1:]) for k in range(lead[0])] if len(lead) > 1 else flat
