"""`map_inference` for arrays of JAX, with a surrogate in the place of its gradient, which is zero.

`torch/_surrogates.py` has the same rule; `tests/losses/test_surrogates.py` compares them.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from .._core.annotations import Any
from .._layers.forms import check_surrogate, form_of_structure, join_keywords
from ..structures import Structure
from ._public import call, sparsemap


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _through(options, scores, additional, lengths, mask):
    return _solve(options, scores, additional, lengths, mask)[0]


def _solve(options, scores, additional, lengths, mask):
    structure, n_jobs, _ = options
    inputs = scores, additional, lengths, 1.0, mask
    return call(form_of_structure, structure, *inputs, argmax="map", tol=1e-9, max_iter=None, n_jobs=n_jobs)


def _forward(options, scores, additional, lengths, mask):
    best, joint = _solve(options, scores, additional, lengths, mask)
    return best, (scores, additional, best, joint, lengths, mask)


def _backward(options, kept, gradient):
    (structure, n_jobs, step), (scores, additional, best, joint, lengths, mask) = options, kept
    extra = jax.tree.map(jnp.zeros_like, additional)
    if step is not None:
        moved = jnp.where(scores > -jnp.inf, best - step * gradient, -jnp.inf)
        none = {name: jnp.where(own > -jnp.inf, 0.0, -jnp.inf).astype(own.dtype) for name, own in additional.items()}
        options = {"n_jobs": n_jobs, "mask": mask, "additional": none, "return_additional": True}
        u, v = sparsemap(structure, moved, lengths, **options)
        gradient = best - u
        extra = {
            name: jnp.where(own > -jnp.inf, _summed(joint[name] - v[name], own.shape), 0.0).astype(own.dtype)
            for name, own in additional.items()
        }
    return jnp.where(scores > -jnp.inf, gradient, 0.0), extra, None, None


def _summed(gradient, shape):
    """Return the gradient of shared scores: its sum over the axes that these do not have, or of which they have one."""
    gradient = gradient.sum(tuple(range(gradient.ndim - len(shape))))
    shared = tuple(axis for axis, (n, own) in enumerate(zip(gradient.shape, shape)) if own == 1 < n)
    return gradient.sum(shared, keepdims=True)


_through.defvjp(_forward, _backward)


def map_inference(
    structure: Structure,
    scores: Array,
    lengths: Any = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    surrogate: str = "spigot",
    step: float = 1.0,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Array:
    """Find the best structure of each sample, with a surrogate gradient; see `torch.map_inference`.

    Parameters
    ----------
    structure : Structure
    scores : Array of shape (..., shape of one sample)
        As in `sparsemap`.
    lengths, mask : Array, default=None
        As in `sparsemap`.
    n_jobs : int, default=None
        Number of threads over the samples.
    surrogate : {"spigot", "straight_through"}, default="spigot"
        In reverse mode only.
    step : float, default=1.0
        Step size of ``"spigot"``.
    additional, **more
        Additional scores, as in `sparsemap`; real numbers of floating point.

    Returns
    -------
    best : Array, shape of scores
        1 for the parts of the best structure, else 0.

    Raises
    ------
    ValueError
        If an option is unknown; otherwise as in `sparsemap`.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from sklearn_sparsemap.jax import map_inference
    >>> from sklearn_sparsemap.structures import Simplex
    >>> gradient = jax.grad(lambda scores: map_inference(Simplex(), scores)[0])
    >>> [round(float(part), 2) for part in gradient(jnp.array([1.0, 0.5, 0.0]))]
    [0.67, -0.33, -0.33]
    """
    check_surrogate(surrogate, step, n_jobs)
    joined = join_keywords(additional, more)
    given = {name: jnp.asarray(own) for name, own in joined.items() if own is not None}
    return _through((structure, n_jobs, step if surrogate == "spigot" else None), scores, given, lengths, mask)
