"""Conversion of user input to arrays; `_layers.tensors.prepare` calls these functions.

Used by `_public.py`.
"""

import jax
import jax.numpy as jnp

xp = jnp


def as_scores(scores, name="scores"):
    """Return scores as an array of float32 or float64."""
    array = jnp.asarray(scores)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise ValueError(f"{name} must be real floating point numbers; got {array.dtype}")
    return array.astype(jnp.float64 if array.dtype == jnp.float64 else jnp.float32)


def as_additional(value, scores, name):
    """Return additional scores as an array with the dtype of the scores."""
    array = jnp.asarray(value)
    if array.dtype.kind not in "iu":
        array = as_scores(array, name)
    return array.astype(scores.dtype)


def as_temperature(temperature, scores):
    """Return a temperature, an array with one number, as a scalar like the scores; NaN if it is not positive."""
    if temperature.size != 1:
        raise ValueError(
            "temperature must be a positive number, or an array with one number; got shape "
            f"{temperature.shape}. For several temperatures divide all scores, additional ones included"
        )
    temperature = jnp.asarray(temperature).reshape(()).astype(scores.dtype)
    is_positive = (temperature > 0.0) & (temperature < jnp.inf)
    if not isinstance(is_positive, jax.core.Tracer) and not is_positive:
        raise ValueError(f"temperature must be positive; got {temperature}")
    return jnp.where(is_positive, temperature, jnp.nan)


def as_ints(lengths, *_):
    """Return lengths as an int array, or None; values are not checked."""
    if lengths is None:
        return None
    lengths = jnp.asarray(lengths)
    if lengths.dtype.kind not in "iu":
        raise ValueError(f"lengths must be integers; got {lengths.dtype}")
    return lengths.astype(jnp.int32)


def as_mask(mask, _):
    """Return a mask, or a dict of masks, as arrays."""
    return {name: jnp.asarray(own) for name, own in mask.items()} if isinstance(mask, dict) else jnp.asarray(mask)


def arange(size, _):
    """Return the numbers below `size`."""
    return jnp.arange(size)


def ones(size, _):
    """Return ones."""
    return jnp.ones(size, jnp.int32)
