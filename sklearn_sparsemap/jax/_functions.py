"""The solution of a batch as a JAX function whose derivative is the solution of a symmetric linear system.

All work is done by callbacks, which take and return NumPy arrays and never raise: errors become NaN. The Jacobian over
scores and additional scores together is symmetric. JAX sees it as the solution of a linear system with a symmetric
matrix, which is sufficient for forward mode, reverse mode and higher derivatives.

Used by `_public.py`.
"""

from functools import cache, partial
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .._layers.register import operator
from .._layers.samples import solve_valid
from ._states import recall, remember


@cache
def _callback(function, n_axes):
    """Return the same object for equal arguments: outside of `jax.jit`, JAX compiles and keeps each new object.

    So the number of the operator is one of the arrays.
    """
    return partial(function, n_axes)


def _flat(array, n_axes):
    """Return an array in which the axes that `vmap` has added are joined with the axis of samples."""
    first = array.ndim - n_axes + 1
    return np.asarray(array).reshape(prod(array.shape[:first]), *array.shape[first:])


def _as_solved(handle, scores, additional, rows):
    """Solve a flat batch of at least one sample. Results of invalid samples are NaN."""
    shared = len(additional) > 1 and (additional == additional[:1]).all()
    scores = scores.astype(np.float64)
    additional = additional.astype(np.float64)
    additional = additional[:1] if shared else additional
    return solve_valid(operator(int(handle.flat[0])), scores, additional, rows.astype(np.int64))


def _solve_on_host(n_axes, handle, scores, additional, rows):
    lead = scores.shape[: scores.ndim - n_axes + 1]
    own = _flat(scores, n_axes)
    extra = _flat(additional, 2)
    flat_rows = _flat(rows, 2)
    if not len(own):
        found = (own, extra, np.zeros(0))
        keys = np.zeros((0, 2), np.int32)
    else:
        solved = _as_solved(np.asarray(handle), own, extra, flat_rows)
        found = (solved.marginals, solved.additional, solved.values)
        keys = remember(solved, own)
    found = [part.astype(scores.dtype).reshape(*lead, *part.shape[1:]) for part in found]
    return *found, keys.reshape(*lead, 2)


def _multiply_on_host(n_axes, handle, scores, additional, rows, keys, directions):
    own = _flat(scores, n_axes)
    joined = _flat(directions, 2).astype(np.float64)
    if not len(own):
        return np.zeros_like(directions)
    n_parts = prod(own.shape[1:])
    out = np.empty(joined.shape)
    known = recall(_flat(keys, 2), own)
    if known is None:
        solved = _as_solved(np.asarray(handle), own, _flat(additional, 2), _flat(rows, 2))
        known = solved, np.arange(len(own))[None]
    solved, blocks = known
    for block in blocks:
        unary = joined[block, :n_parts].reshape(-1, *own.shape[1:])
        extra = joined[block, n_parts:]
        w, joint = solved.products(unary, extra)
        out[block] = np.column_stack([w.reshape(len(w), -1), joint])
    return out.astype(directions.dtype).reshape(directions.shape)


def _called(function, shapes, arrays, n_axes):
    """Call a function on the host; return arrays of these shapes, which vary along the axes of the arguments."""
    results = jax.pure_callback(_callback(function, n_axes), shapes, *arrays, vmap_method="broadcast_all")
    return jax.tree.map(lambda own: varying(own, arrays) if jnp.issubdtype(own.dtype, jnp.floating) else own, results)


def varying(array, others):
    """Return an array that is marked to vary along the axes of `shard_map` along which any of the others varies.

    Results of callbacks are not, and their derivatives would be summed over the devices.
    """
    axes = frozenset().union(*(_axes_of(other) for other in others)) - _axes_of(array)
    if not axes:
        return array
    axes = tuple(sorted(axes))
    return jax.lax.pcast(array, axes, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(array, axes)


def _axes_of(array):
    """Return the axes of `shard_map` along which an array varies. JAX has renamed this attribute."""
    if not isinstance(array, jax.core.Tracer):
        return frozenset()
    kind = getattr(array.aval, "mat", None)
    return getattr(array.aval, "vma", frozenset()) if kind is None else kind.varying


def gather(arrays):
    """Move arrays that are on several devices, outside of a program, to one of them.

    There, the results of a callback have no sharding that other operations take.

    Returns
    -------
    arrays : list of Array
    put_back : callable
        Puts a result on all of these devices.
    """
    # Without derivatives, arrays outside of a program are no tracers.
    plain = [jax.lax.stop_gradient(own) if isinstance(own, jax.core.Tracer) else own for own in arrays]
    spread = [own.sharding for own in plain if isinstance(own, jax.Array) and not isinstance(own, jax.core.Tracer)]
    spread = [own for own in spread if len(own.device_set) > 1]
    if not spread:
        return arrays, lambda result: result
    devices = sorted(spread[0].device_set, key=lambda device: device.id)
    mesh = spread[0].mesh if isinstance(spread[0], NamedSharding) else Mesh(np.array(devices), ("devices",))
    everywhere = NamedSharding(mesh, PartitionSpec())
    here = [jax.device_put(own, devices[0], src=everywhere) for own in arrays]
    return here, lambda result: jax.device_put(result, everywhere, src=devices[0])


@jax.custom_jvp
def solve(handle, scores, additional, rows):
    """Solve a batch: marginals, additional marginals, objectives, and keys of the solution.

    Only the first two have derivatives.

    Parameters
    ----------
    handle : int32 array
        Number of an `Operator`.
    scores, additional, rows : arrays
        As in `solve_samples`, except that each sample has its own additional scores.
    """
    shapes = (
        jax.ShapeDtypeStruct(scores.shape, scores.dtype),
        jax.ShapeDtypeStruct(additional.shape, scores.dtype),
        jax.ShapeDtypeStruct(scores.shape[:1], scores.dtype),
        jax.ShapeDtypeStruct((scores.shape[0], 2), jnp.int32),
    )
    return _called(_solve_on_host, shapes, (handle, scores, additional, rows), scores.ndim)


@solve.defjvp
def _(primals, tangents):
    scores = primals[1]
    found = solve(*primals)
    u, keys = found[0], found[3]
    _, unary, extra, _ = tangents
    # The product is piecewise constant in these. Within `multiply`, JAX would look for their derivatives all the same.
    batch = jax.lax.stop_gradient((*primals, keys))

    def multiply(_, directions):
        shape = jax.ShapeDtypeStruct(directions.shape, directions.dtype)
        return _called(_multiply_on_host, shape, (*batch, directions), scores.ndim)

    # Joined in one array, because the system is not linear in both if one of the two is constant.
    n_parts = prod(u.shape[1:])
    joined = jnp.concatenate([unary.reshape(len(u), n_parts), extra], 1)
    product = jax.lax.custom_linear_solve(lambda x: x, joined, multiply, symmetric=True)
    w = product[:, :n_parts].reshape(u.shape)
    joint = product[:, n_parts:]
    zeros = varying(jnp.zeros(len(u), scores.dtype), found)
    return found, (w, joint, zeros, np.zeros(keys.shape, jax.dtypes.float0))
