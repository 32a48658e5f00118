"""The two PyTorch operators: the solution of a batch, and products with its Jacobian.

Both refer to an `Operator` by its name, and all other arguments are tensors. Tensors are copied to the CPU and back,
except for a `NativeOperator`. Shapes are those of `_layers.operators`, rows those of `_layers.samples`. If all samples
share additional scores, their stride along the axis of samples is 0.

Used by `_forms.py`, `_functions.py`, `_gold.py`, `_losses.py` and `_weights.py`.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .._layers.register import operator
from .._layers.samples import solve_samples
from ._native import NativeOperator, NativeSolution
from ._states import recall, remember

# These are private in PyTorch. If they are missing, all calls use the dispatcher, and tangents are not looked for.
try:
    from torch._C import _dispatch_keys, _is_tracing
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    # The dispatch keys of a plain CPU tensor, without autograd, subclass or functional transform.
    _PLAIN = _dispatch_keys(torch.empty(0, device="cpu")).raw_repr()
except (AttributeError, ImportError):
    _PLAIN = None
try:
    from torch._C import _is_fwd_grad_enabled
    from torch.autograd import forward_ad

    _ = forward_ad._current_level
except (AttributeError, ImportError):
    forward_ad = None


def _refuse_tangents():
    """Raise RuntimeError if an operator is called in forward mode, but not by an autograd function.

    Operators have no forward mode, and PyTorch would take their tangents to be zero.
    """
    if forward_ad is not None and forward_ad._current_level >= 0 and _is_fwd_grad_enabled():
        raise RuntimeError(
            "compiled and exported programs of this layer have no forward-mode derivatives when they are called within "
            "`dual_level`. Compile the function that computes the derivative, for example "
            "torch.compile(lambda x, t: torch.func.jvp(layer, (x,), (t,))), or call the layer itself"
        )


def as_numpy(tensor):
    """Return a tensor as a float64 array, without its gradient."""
    return tensor.detach().to("cpu", torch.float64).numpy()


def shared_as_numpy(additional):
    """Return additional scores as an array, with a single row if all samples share them."""
    is_shared = len(additional) > 1 and additional.stride(0) == 0
    return as_numpy(additional[:1] if is_shared else additional)


def like(array, tensor):
    """Copy an array to a tensor with the dtype and on the device of another one."""
    return torch.from_numpy(array).to(tensor.device, tensor.dtype, copy=True)


# Dynamo would turn arrays of NumPy into tensors, including those in caches.
@torch.compiler.disable
def _solve(scores, additional, rows, lead, handle):
    """See `solve`."""
    if not len(scores):
        return torch.empty_like(scores), torch.empty_like(additional), scores.new_empty(0), remember(None, 0)
    own = operator(handle)
    if isinstance(own, NativeOperator):
        solved = own.solve_tensors(scores.detach().double(), additional.detach().double(), rows, lead)
        found = solved.marginals, solved.additional, solved.values
        u, v, values = (part.to(scores.dtype, copy=True).contiguous() for part in found)
        return u, v, values, remember(solved, len(scores))
    solved = solve_samples(own, as_numpy(scores), shared_as_numpy(additional), rows.cpu().numpy(), lead)
    found = solved.marginals, solved.additional, solved.values
    return *(like(array, scores) for array in found), remember(solved, len(scores))


@torch.library.custom_op("sklearn_sparsemap::solve", mutates_args=())
def solve(
    scores: Tensor, additional: Tensor, rows: Tensor, lead: Sequence[int], handle: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Solve a batch: marginals, additional marginals, objectives, and keys of the solution.

    The product of the leading axes `lead` is the number of samples; messages name samples by them.
    The derivative of an objective, by the envelope theorem, are the marginals and additional marginals.
    """
    _refuse_tangents()
    return _solve(scores, additional, rows, lead, handle)


@solve.register_fake
def _(scores, additional, rows, lead, handle):
    keys = torch.empty(scores.shape[0], dtype=torch.int64, device="cpu")
    n = scores.shape[:1]
    return scores.new_empty(scores.shape), scores.new_empty(additional.shape), scores.new_empty(n), keys


def solution_of(scores, additional, rows, handle, keys):
    """Return the solution of a batch of at least one sample, by its keys; solve again if it is not stored."""
    solved = recall(keys)
    if solved is None:
        # The solution is stored as long as its keys exist.
        keys = _solve(scores, additional, rows, scores.shape[:1], handle)[-1]
        solved = recall(keys)
    return solved


@torch.compiler.disable
def _multiply(scores, additional, rows, keys, unary, extra, handle):
    """See `multiply`."""
    if not len(scores):
        return torch.zeros_like(unary), torch.zeros_like(extra)
    solved = solution_of(scores, additional, rows, handle, keys)
    if isinstance(solved, NativeSolution):
        split = len(unary) // len(scores), len(scores)
        found = solved.multiply(*(directions.double().unflatten(0, split) for directions in (unary, extra)))
        return tuple(out.to(unary.dtype).reshape(own.shape).contiguous() for out, own in zip(found, (unary, extra)))
    n = len(scores)
    unary_array = as_numpy(unary)
    extra_array = as_numpy(extra)
    blocks = [slice(first, first + n) for first in range(0, len(unary), n)]
    found = [solved.products(unary_array[block], extra_array[block]) for block in blocks]
    return tuple(like(parts[0] if len(parts) == 1 else np.concatenate(parts), unary) for parts in zip(*found))


@torch.library.custom_op("sklearn_sparsemap::multiply", mutates_args=())
def multiply(
    scores: Tensor, additional: Tensor, rows: Tensor, keys: Tensor, unary: Tensor, extra: Tensor, handle: str
) -> tuple[Tensor, Tensor]:
    """Multiply directions with the Jacobian of a batch, which is symmetric.

    `unary` and `extra` may have several directions for all samples, one after the other.
    """
    _refuse_tangents()
    return _multiply(scores, additional, rows, keys, unary, extra, handle)


@multiply.register_fake
def _(scores, additional, rows, keys, unary, extra, handle):
    return unary.new_empty(unary.shape), unary.new_empty(extra.shape)


def hold_numbers(*tensors):
    """Tell whether tensors are plain CPU tensors, outside of compilers, transforms, traces and dispatch modes."""
    if torch.compiler.is_compiling() or _PLAIN is None or _get_current_dispatch_mode() is not None or _is_tracing():
        return False
    return all(_dispatch_keys(tensor).raw_repr() == _PLAIN for tensor in tensors)


def solve_for(*tensors):
    """Return the operator `solve` or, for plain tensors, its Python function, which saves the dispatcher's 50 us."""
    return _solve if hold_numbers(*tensors) else solve


def multiply_for(*tensors):
    """Return the operator `multiply`, or its Python function; see `solve_for`."""
    return _multiply if hold_numbers(*tensors) else multiply


def _with_axis(tensor, axis, size):
    """Return a tensor with the new axis first, expanded if it has none."""
    return tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)


def _joined(tensor):
    """Join the first two axes; a tensor that is shared along both remains so."""
    if tensor.stride(0) == 0 and tensor.stride(1) == 0:
        return tensor[0, :1].expand(tensor.shape[0] * tensor.shape[1], *tensor.shape[2:])
    return tensor.flatten(0, 1)


def join_axis(tensor, axis, size):
    """Join an axis of `vmap`, or None, with that of the samples."""
    return _joined(_with_axis(tensor, axis, size))


def split_axis(tensor, size):
    """Undo `join_axis`; the axis of `vmap` is the first."""
    return tensor.unflatten(0, (size, tensor.shape[0] // size))


@solve.register_vmap
def _(info, in_dims, scores, additional, rows, lead, handle):
    size = info.batch_size
    tensors = [join_axis(t, axis, size) for t, axis in zip((scores, additional, rows), in_dims)]
    return tuple(split_axis(out, size) for out in solve(*tensors, [size, *lead], handle)), (0, 0, 0, 0)


@multiply.register_vmap
def _(info, in_dims, scores, additional, rows, keys, unary, extra, handle):
    size, batch, directions = info.batch_size, (scores, additional, rows, keys), (unary, extra)
    directions = [_with_axis(t, axis, size) for t, axis in zip(directions, in_dims[4:6])]
    if all(axis is None for axis in in_dims[:4]):
        # Only directions are batched: more directions for the same samples.
        out = multiply(*batch, *(_joined(t) for t in directions), handle)
        return tuple(split_axis(part, size) for part in out), (0, 0)
    n = scores.shape[0] if in_dims[0] is None else scores.movedim(in_dims[0], 0).shape[1]
    batch = [join_axis(t, axis, size) for t, axis in zip(batch, in_dims[:4])]
    # From (size, directions, samples) to (directions, size, samples).
    n_directions = directions[0].shape[1] // max(n, 1)
    directions = [t.unflatten(1, (n_directions, n)).transpose(0, 1).flatten(0, 2) for t in directions]
    found = (t.unflatten(0, (n_directions, size, n)) for t in multiply(*batch, *directions, handle))
    return tuple(t.transpose(0, 1).flatten(1, 2) for t in found), (0, 0)


def keep_solution(ctx, inputs, output):
    """Save the arguments of `solve_backward` for the backward pass of `solve`."""
    scores, additional, rows, _, ctx.handle = inputs
    u, v, _, keys = output
    saved = scores, additional, rows, keys, u, v
    ctx.save_for_backward(*saved)
    # Gradients that are not requested arrive as None rather than as zeros, and their products are skipped.
    ctx.set_materialize_grads(False)
    return saved


def solve_backward(ctx, product, unary, extra, values):
    """Return gradients of scores and additional scores, given those of the results of `solve`, or None."""
    *batch, u, v = ctx.saved_tensors
    found = None, None
    if unary is not None or extra is not None:
        unary, extra = zeros_for_none(unary, extra, u, v)
        found = product(*batch, unary, extra, ctx.handle)
    if values is not None:
        own = values.reshape(-1, *[1] * (u.dim() - 1)) * u, values.unsqueeze(1) * v
        found = own if found[0] is None else tuple(a + b for a, b in zip(found, own))
    return found


def zeros_for_none(unary, extra, scores, additional):
    """Return directions, with zeros like scores and additional scores in place of None."""
    return (
        torch.zeros_like(scores) if unary is None else unary,
        torch.zeros_like(additional) if extra is None else extra,
    )


def _solve_backward(ctx, unary, extra, values, _):
    return *solve_backward(ctx, multiply, unary, extra, values), None, None, None


def _keep_batch(ctx, inputs, output):
    *batch, _, _, ctx.handle = inputs
    ctx.save_for_backward(*batch)


def refuse_curvature(handle, depends):
    """Raise NotImplementedError if a product depends on the scores by more than the faces of solutions.

    The Jacobian of Gibbs marginals is no piecewise constant function, as that of SparseMAP is.
    """
    if depends and getattr(operator(handle), "argmax", None) == "gibbs":
        raise NotImplementedError(
            "Gibbs marginals can be differentiated once here: crf losses have a second derivative and no third, the "
            "expected cost has no second one"
        )


def _multiply_backward(ctx, unary, extra):
    refuse_curvature(ctx.handle, any(ctx.needs_input_grad[:2]))
    return None, None, None, None, *multiply(*ctx.saved_tensors, unary, extra, ctx.handle), None


solve.register_autograd(_solve_backward, setup_context=keep_solution)
multiply.register_autograd(_multiply_backward, setup_context=_keep_batch)
