"""`sparsemap` and `lp_sparsemap` for arrays of JAX.

Used by `_surrogates.py`.
"""

from __future__ import annotations

import jax
import numpy as np
from jax import Array

from .._core.annotations import Any, Callable
from .._layers.forms import check_options, flatten_additional, form_of_graph, form_of_structure, join_keywords
from .._layers.register import operator_of
from .._layers.samples import solve_samples
from .._layers.tensors import prepare, results_of
from ..factors import FactorGraph
from ..structures import Structure
from . import _forms
from ._functions import gather, solve, varying


def sparsemap(
    structure: Structure,
    scores: Array,
    lengths: Any = None,
    temperature: float | Array = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    tol: float = 1e-9,
    return_additional: bool = False,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Solve SparseMAP for a batch, differentiably: marginals that are mixtures of few structures.

    Works with `jax.jit`, `jax.vmap`, `jax.grad`, `jax.jvp` and their combinations; it is a callback to the CPU. The
    arguments are those of `sklearn_sparsemap.torch.sparsemap`, with arrays in place of tensors, and without
    `return_structures`.

    Parameters
    ----------
    structure : Structure
    scores : Array of shape (..., shape of one sample)
        With any number of leading axes, any of which may have size 0. Computed in float64, returned in its dtype. -inf
        forbids a part.
    lengths : int Array, default=None
        The size of each sample without padding. A sample of length 0 has zero marginals and gradients.
    temperature : float, or Array with one number, default=1.0
        Factor of the regulariser. An array may be traced; results are NaN if it is not positive.
    max_iter : int, default=None
        None is exact. Otherwise the maximum number of calls of the MAP oracle.
    n_jobs : int, default=None
        Number of threads over the samples; -1 uses all cores.
    mask : bool Array, default=None
        True for allowed parts; broadcast to the scores, leading axes included. If it leaves no part of a sample, the
        marginals and gradients of this sample are zero.
    tol : float, default=1e-9
        Duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too.
    additional : dict of str -> Array, default=None
        Additional scores whose names are also names of other parameters. Names must differ from those in `more`.
    **more : Array
        Additional scores by name, for all samples, or with all leading axes before, of size 1 where shared. Shapes
        whose number of axes allows both are refused.

    Returns
    -------
    marginals : Array, shape of scores
        Zero in the padding. In a traced program, NaN for samples with NaN, lengths out of range, or scores that
        forbid every structure.
    additional_marginals : dict of str -> Array
        If `return_additional`.

    Raises
    ------
    ValueError
        If shapes are wrong. Outside of traced programs also if scores are NaN or +inf, lengths out of range, or
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
    inputs = scores, join_keywords(additional, more), lengths, temperature, mask
    u, v = call(form_of_structure, structure, *inputs, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return (u, v) if return_additional else u


def lp_sparsemap(
    graph: FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
    scores: Any,
    additional: dict[str, Any] | None = None,
    lengths: Any = None,
    temperature: float | Array = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
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
    temperature : float, or Array with one number, default=1.0
        Factor of the regulariser. An array may be traced; results are NaN if it is not positive.
    max_iter : int, default=None
        None is exact. Otherwise the maximum number of sweeps and Newton steps.
    n_jobs : int, default=None
        Number of threads over the samples; -1 uses all cores.
    mask : bool Array, or dict of str -> bool Array, default=None
        True for variables that may be on; a dict if scores are one.
    tol : float, default=1e-10
        Tolerance of the residual and the duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too.

    Returns
    -------
    marginals : Array or dict, like `scores`
    additional_marginals : dict
        If `return_additional`: like `additional`, with the leading axes.

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
    inputs = scores, flatten_additional(additional), lengths, temperature, mask
    u, v = call(form_of_graph, graph, *inputs, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    return (u, v) if return_additional else u


def call(form_of, what, scores, additional, lengths, temperature, mask, *, argmax="sparsemap", tol, max_iter, n_jobs):
    """Solve a batch of the user; return marginals and additional marginals. See `prepare` and `sparsemap`."""
    check_options(temperature, tol, max_iter, n_jobs)
    batch, form = prepare(_forms, form_of, what, scores, additional, lengths, temperature, mask)
    own = operator_of(what, form.extra, argmax=argmax, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    # Additional scores that all devices share have gradients of all devices.
    batch, put_back = gather([varying(array, batch) for array in batch])
    u, v, objectives, _ = solve(np.int32(own.number), *batch)
    if not any(isinstance(array, jax.core.Tracer) for array in (u, objectives)) and np.isnan(objectives).any():
        # Raises an error with the cause.
        scores, joined, rows = (np.asarray(array) for array in batch)
        solve_samples(own, scores.astype(np.float64), joined.astype(np.float64), rows, form.lead)
    return results_of(form, put_back(u), put_back(v))
