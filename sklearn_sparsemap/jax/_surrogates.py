"""`map_inference` for arrays of JAX, with a surrogate in the place of its gradient, which is zero.

`torch/_surrogates.py` has the same rule; `tests/test_surrogates.py` compares them.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from .._core.annotations import Any
from .._layers.forms import check_surrogate, form_of_structure
from ..structures import Structure
from ._public import call, sparsemap


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _through(options, scores, lengths, mask):
    structure, n_jobs, _ = options
    inputs = scores, {}, lengths, 1.0, mask
    return call(form_of_structure, structure, *inputs, argmax="map", tol=1e-9, max_iter=None, n_jobs=n_jobs)[0]


def _forward(options, scores, lengths, mask):
    best = _through(options, scores, lengths, mask)
    return best, (scores, best, lengths, mask)


def _backward(options, kept, gradient):
    (structure, n_jobs, step), (scores, best, lengths, mask) = options, kept
    if step is not None:
        moved = jnp.where(scores > -jnp.inf, best - step * gradient, -jnp.inf)
        gradient = best - sparsemap(structure, moved, lengths, n_jobs=n_jobs, mask=mask)
    return jnp.where(scores > -jnp.inf, gradient, 0.0), None, None


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
) -> Array:
    """Find the best structure of each sample, with a surrogate gradient; see `torch.map_inference`.

    Parameters
    ----------
    structure : Structure
    scores : Array of shape (..., shape of one sample)
        As in `sparsemap`. There are no additional scores.
    lengths, mask : Array, default=None
        As in `sparsemap`.
    n_jobs : int, default=None
        Number of threads over the samples.
    surrogate : {"spigot", "straight_through"}, default="spigot"
        In reverse mode only.
    step : float, default=1.0
        Step size of ``"spigot"``.

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
    return _through((structure, n_jobs, step if surrogate == "spigot" else None), scores, lengths, mask)
