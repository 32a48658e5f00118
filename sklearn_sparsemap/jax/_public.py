"""`sparsemap` and `lp_sparsemap` for arrays of JAX."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from .._core.annotations import Any, Callable
from .._layers.forms import (
    check_options,
    flatten_additional,
    form_of_graph,
    form_of_structure,
    label_of,
    nest_additional,
)
from .._layers.graphs import graph_operator
from .._layers.structures import structure_operator
from ._functions import solve

if TYPE_CHECKING:
    from jax import Array

    from ..factors import FactorGraph
    from ..structures import Structure


def sparsemap(
    structure: Structure,
    scores: Array,
    lengths: Any = None,
    temperature: float = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    tol: float = 1e-9,
    return_additional: bool = False,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Solve SparseMAP for a padded batch, differentiably: marginals that are mixtures of few structures.

    Works with `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jvp` and their combinations; it is a callback to the CPU. The
    arguments are those of `sklearn_sparsemap.torch.sparsemap`, with arrays in place of tensors, and without
    `return_structures`.

    Parameters
    ----------
    structure : Structure
    scores : Array of shape (batch, ...) or of the shape of one sample
        Computed in float64, returned in its dtype. -inf forbids a part. The batch may be empty.
    lengths : int Array, default=None
        The size of each sample without padding.
    temperature : float, default=1.0
        Factor of the regulariser.
    max_iter : int, default=None
        None is exact. Otherwise the maximum number of calls of the MAP oracle.
    n_jobs : int, default=None
        Number of threads over the samples; -1 uses all cores.
    tol : float, default=1e-9
        Duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too.
    additional : dict of str -> Array, default=None
        Additional scores whose names are also names of other parameters.
    **more : Array
        Additional scores by name, for all samples, or with a leading axis of samples.

    Returns
    -------
    marginals : Array, shape of scores
        Zero in the padding. In a traced programme, NaN for samples with NaN, lengths out of range, or scores that
        forbid every structure.
    additional_marginals : dict of str -> Array
        If `return_additional`.

    Raises
    ------
    ValueError
        If shapes are wrong. Outside of traced programmes also if scores are NaN or +inf, lengths out of range, or
        scores forbid every structure.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` is None and a sample does not converge, for example with tied scores of 1e6 and above.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from sklearn_sparsemap.jax import sparsemap
    >>> from sklearn_sparsemap.structures import Matching
    >>> scores = jnp.array([[1.0, 0.5], [0.5, 1.0]])
    >>> sparsemap(Matching(), scores).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> @jax.jit
    ... @jax.grad
    ... def gradient(scores):
    ...     return sparsemap(Matching(), scores)[0, 0]
    >>> gradient(scores).tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    check_options(temperature, tol, max_iter, n_jobs)
    values = _as_floats(scores, "scores")
    given = {
        name: _as_floats(value, name, values.dtype)
        for name, value in {**(additional or {}), **more}.items()
        if value is not None
    }
    form = form_of_structure(structure, values.shape, tuple((name, array.shape) for name, array in given.items()))
    own = structure_operator(structure, form.extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    u, parts = _call(own, form, values, given, lengths, temperature)
    return (u, {name: part for (name, _), part in zip(form.extra, parts)}) if return_additional else u


def lp_sparsemap(
    graph: FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
    scores: Any,
    additional: dict[str, Any] | None = None,
    lengths: Any = None,
    temperature: float = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    tol: float = 1e-10,
    return_additional: bool = False,
) -> Any:
    """Solve LP-SparseMAP for a batch, differentiably: sparse marginals that satisfy all factors of a graph.

    The arguments are those of `sklearn_sparsemap.torch.lp_sparsemap`, with arrays in place of tensors; `sparsemap`
    describes the differences.

    Parameters
    ----------
    graph : FactorGraph, or callable
        One graph for all samples, or a function that makes one from the shape of a sample.
    scores : Array, or dict of str -> Array
        A dict for graphs with several arrays of variables.
    additional : dict, default=None
        By the names of factors: scores of pairs, or a dict of a structure's additional scores.
    lengths : int Array, default=None
        With a function: the shape of each sample.
    temperature : float, default=1.0
    max_iter : int, default=None
    n_jobs : int, default=None
    tol : float, default=1e-10
    return_additional : bool, default=False

    Returns
    -------
    marginals : Array or dict, like `scores`
    additional_marginals : dict
        If `return_additional`: like `additional`, with an axis of samples.

    Raises
    ------
    ValueError
        As in `sparsemap`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from sklearn_sparsemap.factors import Budget, FactorGraph
    >>> from sklearn_sparsemap.jax import lp_sparsemap
    >>> graph = FactorGraph()
    >>> graph.add(Budget(graph.variables(2), 1))
    >>> @jax.jit
    ... def layer(scores):
    ...     return lp_sparsemap(graph, scores)
    >>> layer(jnp.array([[0.75, 0.5], [0.25, 0.5]])).tolist()
    [[0.625, 0.375], [0.25, 0.5]]
    """
    check_options(temperature, tol, max_iter, n_jobs)
    given = flatten_additional(additional)
    if isinstance(scores, dict):
        arrays = {name: _as_floats(value, f"scores[{name!r}]") for name, value in scores.items()}
        values, shape = next(iter(arrays.values())), tuple((name, array.shape) for name, array in arrays.items())
    else:
        values = _as_floats(scores, "scores")
        shape = values.shape
    given = {key: _as_floats(value, label_of(key), values.dtype) for key, value in given.items()}
    form = form_of_graph(graph, shape, tuple((key, array.shape) for key, array in given.items()))
    if form.arrays is not None:
        values = [arrays[name].reshape(form.n_samples, prod(own)) for name, own in form.arrays]
        values = jnp.concatenate(values, 1)
        values = values if form.batched else values[0]
    own = graph_operator(graph, form.extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    u, parts = _call(own, form, values, given, lengths, temperature)
    if form.arrays is not None:
        shapes = [shape for _, shape in form.arrays]
        u = dict(zip([name for name, _ in form.arrays], _split(u if form.batched else u[None], shapes, form.batched)))
    return (u, nest_additional(form, parts)) if return_additional else u


def _as_floats(values, name, dtype=None):
    """Return values as an array of float32 or float64, or of the given dtype."""
    array = jnp.asarray(values)
    if not (jnp.issubdtype(array.dtype, jnp.floating) or (dtype is not None and array.dtype.kind in "iu")):
        raise ValueError(f"{name} must be real floating point numbers; got {array.dtype}")
    return array.astype(dtype or (jnp.float64 if array.dtype == jnp.float64 else jnp.float32))


def _call(own, form, values, given, lengths, temperature):
    """Solve with an operator; return marginals and the list of additional marginals, in the user's shapes."""
    if not form.batched:
        values = values[None]
    n = form.n_samples
    flat = [
        jnp.broadcast_to(given[name].reshape(len(given[name]) if is_own else 1, prod(shape)), (n, prod(shape)))
        for (name, shape), is_own in zip(form.extra, form.own)
    ]
    joined = jnp.concatenate(flat, 1) if flat else jnp.zeros((n, 0), values.dtype)
    if temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    rows = _as_lengths(lengths, n, form.batched)
    u, v, objectives, _ = solve(own.handle, values, joined, rows)
    if not any(isinstance(array, jax.core.Tracer) for array in (u, objectives)) and np.isnan(objectives).any():
        # Raises an error with the cause.
        own.solve(*(np.asarray(array, np.float64) for array in (values, joined)), np.asarray(rows, np.int64))
    shapes = [shape for _, shape in form.extra]
    return (u if form.batched else u[0]), _split(v, shapes, form.batched)


def _as_lengths(lengths, n_samples, batched):
    """Return lengths as an int array with one row for each sample, without columns for None; values are not checked."""
    if lengths is None:
        return jnp.zeros((n_samples, 0), jnp.int32)
    lengths = jnp.asarray(lengths)
    if lengths.dtype.kind not in "iu":
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    lengths = lengths if batched else lengths[None]
    if lengths.ndim not in (1, 2) or lengths.shape[0] != n_samples:
        raise ValueError(f"lengths has shape {lengths.shape}; there must be one row for each of {n_samples} samples")
    return lengths.reshape(n_samples, 1 if lengths.ndim == 1 else lengths.shape[1]).astype(jnp.int32)


def _split(flat, shapes, batched):
    """Split an array along its last axis into arrays of the given shapes."""
    ends = np.cumsum([prod(shape) for shape in shapes])
    parts = [
        flat[:, end - prod(shape) : end].reshape(flat.shape[0], *shape) for shape, end in zip(shapes, ends.tolist())
    ]
    return parts if batched else [part[0] for part in parts]
