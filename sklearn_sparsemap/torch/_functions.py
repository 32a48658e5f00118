"""The operators as PyTorch autograd functions, which support forward mode and the transforms of `torch.func`.

A custom operator alone has zero tangents in forward mode, and no other transforms. Dynamo, which traces Python for
`torch.compile`, refuses autograd functions with a forward mode. So `_solve_as_node` is a single node of its graph; the
next stage of the compiler traces the autograd function within it down to the operators, forward and backward.

Used by `_decisions.py`, `_losses.py`, `_public.py` and `_surrogates.py`.
"""

from inspect import signature

import torch

from ..torch import _ops


def _signed(function):
    """Cache the signature of a function, which `torch.autograd.Function.apply` reads at each call."""
    function.__signature__ = signature(function)
    return function


class _Multiply(torch.autograd.Function):
    """Products with the Jacobian: linear in the directions, and piecewise constant in the other arguments.

    Those of Gibbs marginals are not, and refuse derivatives in the others.
    """

    generate_vmap_rule = True

    @staticmethod
    @_signed
    def forward(scores, additional, rows, keys, unary, extra, handle):
        batch = scores, additional, rows, keys, unary, extra
        return _ops.multiply_for(*batch)(*batch, handle)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *batch, _, _, ctx.handle = inputs
        ctx.save_for_backward(*batch)
        ctx.save_for_forward(*batch)

    @staticmethod
    def backward(ctx, unary, extra):
        _ops.refuse_curvature(ctx.handle, any(ctx.needs_input_grad[:2]))
        return None, None, None, None, *_Multiply.apply(*ctx.saved_tensors, unary, extra, ctx.handle), None

    @staticmethod
    def jvp(ctx, scores, additional, rows, keys, unary, extra, handle):
        batch = ctx.saved_tensors
        _ops.refuse_curvature(ctx.handle, scores is not None or additional is not None)
        return _Multiply.apply(*batch, *_ops.zeros_for_none(unary, extra, *batch[:2]), ctx.handle)


class _Solve(torch.autograd.Function):
    """The solution of a batch."""

    generate_vmap_rule = True

    @staticmethod
    @_signed
    def forward(scores, additional, rows, lead, handle):
        return _ops.solve_for(scores, additional, rows)(scores, additional, rows, lead, handle)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[3])
        ctx.save_for_forward(*_ops.keep_solution(ctx, inputs, output))

    @staticmethod
    def backward(ctx, unary, extra, values, _):
        return *_ops.solve_backward(ctx, _Multiply.apply, unary, extra, values), None, None, None

    @staticmethod
    def jvp(ctx, scores, additional, rows, lead, handle):
        *batch, u, v = ctx.saved_tensors
        unary, extra = _ops.zeros_for_none(scores, additional, *batch[:2])
        values = (u * unary).sum(tuple(range(1, u.dim()))) + (v * extra).sum(1)
        return *_Multiply.apply(*batch, unary, extra, ctx.handle), values, None


@torch.compiler.allow_in_graph
def _solve_as_node(scores, additional, rows, lead, handle):
    return _Solve.apply(scores, additional, rows, lead, handle)


def solver():
    """Return the differentiable function that solves a batch, with the arguments of `_ops.solve`."""
    return _solve_as_node if torch.compiler.is_compiling() else _Solve.apply
