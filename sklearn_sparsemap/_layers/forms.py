"""Checks of the shapes of user input, which work for tensors of any library.

Used by `jax`, `torch` and `tensors.py`.
"""

import numbers
from math import prod
from operator import index
from typing import NamedTuple

from .._core.validation import LARGEST_SCORE, check_choice, check_n_jobs, check_positive
from ..structures._base import check_structure
from .register import operator_of
from .structures import bounds_of_structure


class InputShapes(NamedTuple):
    """The properties of a call that follow from the shapes of its arguments.

    Attributes
    ----------
    lead : tuple of int
        The leading axes of the scores; empty for a single sample.
    padded : tuple of int
        Shape of the scores of a sample, joined if there are several arrays.
    extra : tuple of (name, tuple of int)
        The given additional scores, in the order in which they are joined, with their shapes in a sample.
    has_lead : tuple of bool
        Whether each has the leading axes, which may have size 1.
    padded_extra : tuple of tuple of int
        Their shapes in a sample as given, which may have more axes of size 1.
    arrays : tuple of (str, tuple of int), or None
        Names and shapes of arrays of variables, if scores are given by name.
    n_lengths : int
        Number of lengths of a sample.
    bounds : tuple of (int, int)
        How lengths bound the axes of a sample; see `shapes_within`.
    """

    lead: tuple
    padded: tuple
    extra: tuple
    has_lead: tuple
    padded_extra: tuple
    arrays: tuple
    n_lengths: int
    bounds: tuple


def is_array(temperature):
    """Tell whether a temperature is an array or a tensor; see `tensors.prepare`."""
    return not isinstance(temperature, numbers.Real) and hasattr(temperature, "shape")


def check_options(temperature, tol, max_iter, n_jobs):
    """Raise ValueError for options that are out of range. Temperatures that are arrays are not checked."""
    if not is_array(temperature):
        check_positive("temperature", temperature)
        if temperature < 1.0 / LARGEST_SCORE:
            # Quotients of scores would overflow to -inf, which forbids parts.
            raise ValueError(f"temperature must be at least {1.0 / LARGEST_SCORE:g}; got {temperature!r}")
    check_positive("tol", tol)
    if max_iter is not None:
        check_positive("max_iter", max_iter, integer=True)
    check_n_jobs(n_jobs)


def check_surrogate(surrogate, step, n_jobs):
    """Raise ValueError for options of `map_inference` that are out of range."""
    check_choice("surrogate", surrogate, ("spigot", "straight_through"))
    check_positive("step", step)
    check_n_jobs(n_jobs)


def form_of_structure(structure, scores, additional, lengths=None):
    """Return the `InputShapes` of a call of `sparsemap`.

    Parameters
    ----------
    structure : Structure
    scores : tuple of int
        The shape of the scores.
    additional : tuple of (str, tuple of int)
        Names and shapes of the given additional scores.
    lengths : tuple of int, default=None
        Their shape.

    Raises
    ------
    ValueError
        If shapes do not fit the structure.
    TypeError
        If it has no additional scores of this name.
    """
    check_structure(structure)
    # As a number: `torch.compile` treats attributes that differ between two calls as symbols.
    ndim = index(structure.score_ndim)
    if len(scores) < ndim:
        raise ValueError(
            f"scores of {structure!r} have {ndim} axes, after those of the samples, if any; got shape {scores}"
        )
    lead, padded = _split_shape(scores, ndim)
    accepted = structure.additional_shapes(padded)
    unknown = sorted({name for name, _ in additional} - set(accepted))
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    accepted = {name: accepted[name] for name in structure.additional_names}
    n_lengths = _count_lengths(lengths, lead)
    bounds = bounds_of_structure(structure, padded, n_lengths)
    return InputShapes(lead, padded, *_match_all(accepted, additional, lead), None, n_lengths, bounds)


def form_of_graph(graph, scores, additional, lengths=None, call=lambda question, graph, *args: question(graph, *args)):
    """Return the `InputShapes` of a call of `lp_sparsemap`.

    Parameters
    ----------
    graph : FactorGraph, or callable
    scores : tuple of int, or tuple of (str, tuple of int)
        The shape of the scores, or names and shapes of several arrays.
    additional : tuple of ((str, str or None), tuple of int)
        Owners, names and shapes of the given additional scores.
    lengths : tuple of int, default=None
        Their shape.
    call : callable, default=a call
        ``call(question, graph, *args)`` returns ``question(graph, *args)``. No argument is the size of a leading axis.

    Raises
    ------
    ValueError
        If shapes do not fit the graph.
    """
    arrays = scores if len(scores) and isinstance(scores[0], tuple) else None
    known = call(_arrays_of, graph)
    if arrays is not None:
        lead, padded = _check_arrays(known, dict(arrays))
    else:
        lead, padded = _split_shape(scores, _count_axes(known, scores))
    accepted = dict(call(_accepted_by, graph, padded))
    for owner, name in dict(additional):
        if (owner, name) not in accepted:
            label = repr(owner) if name is None else f"{owner!r}, {name!r}"
            names = sorted({own for own, _ in accepted})
            raise ValueError(f"additional names {label}, which no factor takes; the named factors are {names}")
    n_lengths = _count_lengths(lengths, lead)
    bounds = call(_bounds_of, graph, padded, n_lengths)
    arrays = None if arrays is None else known
    return InputShapes(lead, padded, *_match_all(accepted, additional, lead), arrays, n_lengths, bounds)


def _arrays_of(graph):
    """Return names and shapes of the arrays of variables; None for a function."""
    shapes = operator_of(graph).structure.shapes
    return None if shapes is None else tuple(shapes.items())


def _accepted_by(graph, padded):
    """Return the keys of the additional scores, each with the shapes that they may have."""
    return tuple(
        ((factor.name, name), tuple(shapes))
        for factor in operator_of(graph).structure.of_shape(padded).scored
        for name, shapes in factor.accepted_shapes.items()
    )


def _bounds_of(graph, padded, n_lengths):
    return operator_of(graph).bounds(padded, n_lengths)


def check_mask(label, mask, scores):
    """Raise ValueError if the shape of a mask does not broadcast to that of the scores."""
    first = len(scores) - len(mask)
    if first < 0 or any(own not in (1, n) for own, n in zip(mask, scores[first:])):
        raise ValueError(
            f"{label} has shape {mask}, which does not broadcast to the scores' {scores}; their last axes must agree, "
            "or be 1 in the mask. Give axes that the mask lacks the size 1, for example mask[:, None]"
        )


def check_mask_names(masks, arrays):
    """Raise ValueError if masks do not go with scores by name; both are dicts, or neither is."""
    of_mask = set(masks) if isinstance(masks, dict) else None
    of_scores = set(arrays) if isinstance(arrays, dict) else None
    if (of_mask is None) != (of_scores is None) or not (of_mask or set()) <= (of_scores or set()):
        given = "one array" if of_mask is None else f"arrays named {sorted(of_mask)}"
        known = "one array" if of_scores is None else f"arrays named {sorted(of_scores)}"
        raise ValueError(f"mask has {given}, but scores have {known}; they must go together")


def label_of(key):
    """Return the name of additional scores in messages."""
    if isinstance(key, str):
        return key
    return f"additional[{key[0]!r}]" + ("" if key[1] is None else f"[{key[1]!r}]")


def join_keywords(additional, keywords):
    """Return the additional scores of a structure, which are given by a dict and by keywords; raise if one is twice."""
    additional = additional or {}
    for name in keywords:
        if name in additional:
            raise ValueError(f"{name} is given both as a keyword and in additional; pass it once")
    return {**additional, **keywords}


def flatten_additional(additional):
    """Return nested additional scores of a graph by (owner, name), without those that are None."""
    additional = {} if additional is None else additional
    if not isinstance(additional, dict):
        raise ValueError(f"additional must be a dict by the names of factors; got {type(additional).__name__}")
    flat = {}
    for owner, value in additional.items():
        pairs = value.items() if isinstance(value, dict) else [(None, value)]
        flat |= {(owner, name): own for name, own in pairs if own is not None}
    return flat


def _split_shape(scores, ndim):
    """Return the leading axes of scores, any of which may be 0, and the shape of a sample."""
    first = len(scores) - ndim
    if prod(scores[first:]) == 0:
        raise ValueError(f"scores is empty (shape {scores}); each sample needs a part")
    return scores[:first], scores[first:]


def _count_axes(arrays, scores):
    """Return the number of axes of the variables of a graph that has one array of them; see `_arrays_of`."""
    if arrays is None:
        if len(scores) < 2:
            raise ValueError(f"with a function for graphs, scores need an axis of samples; got shape {scores}")
        return len(scores) - 1
    if len(arrays) != 1:
        raise ValueError(f"scores must be a dict with one array for each of {[name for name, _ in arrays]}")
    ((_, shape),) = arrays
    if len(scores) < len(shape) or scores[len(scores) - len(shape) :] != shape:
        raise ValueError(
            f"scores has shape {scores}; the graph's variables have {shape}, maybe with axes of samples before"
        )
    return len(shape)


def _check_arrays(arrays, scores):
    """Check the shapes of several arrays of scores; return the leading axes, and the joint shape of all variables."""
    if arrays is None or set(scores) != {name for name, _ in arrays}:
        known = "one array" if arrays is None else f"those named {[name for name, _ in arrays]}"
        raise ValueError(f"scores names the arrays {list(scores)}, but the graph has {known}")
    name, shape = arrays[0]
    lead = scores[name][: max(len(scores[name]) - len(shape), 0)]
    for name, shape in arrays:
        if scores[name] != (*lead, *shape):
            raise ValueError(f"scores[{name!r}] has shape {scores[name]}; it must have {(*lead, *shape)}")
    return lead, (sum(prod(shape) for _, shape in arrays),)


def _spreads(shape, lead):
    """Tell whether a shape begins with the leading axes, or with 1 in place of some."""
    return len(shape) >= len(lead) and all(own in (1, n) for own, n in zip(shape, lead))


def _count_lengths(lengths, lead):
    """Check the shape of lengths; return their number for a sample, which is 0 for None."""
    if lengths is None:
        return 0
    if len(lengths) not in (len(lead), len(lead) + 1) or not _spreads(lengths, lead):
        raise ValueError(
            f"lengths has shape {lengths}; with these scores it must have {lead}, or {lead} and an axis of the lengths "
            "of a sample (1 in place of axes that share them)"
        )
    return 1 if len(lengths) == len(lead) else lengths[-1]


def _match_all(accepted, additional, lead):
    """Return additional scores with their shapes, and whether each has the leading axes; see `InputShapes`."""
    given = dict(additional)
    keys = [key for key in accepted if key in given]
    found = [_match(label_of(key), given[key], accepted[key], lead) for key in keys]
    shapes, has_lead, padded = zip(*found) if found else ((), (), ())
    return tuple(zip(keys, shapes)), has_lead, padded


def _match(label, shape, accepted, lead):
    """Tell by the number of their axes whether additional scores have the leading axes.

    Returns
    -------
    own : tuple of int
        Their shape in a sample, as the structure or graph accepts it.
    has_lead : bool
    padded : tuple of int
        Their given shape in a sample, which has more axes of size 1 if samples share the scores along these.

    Raises
    ------
    ValueError
        If no reading fits the shape, or their number of axes allows both readings.
    """
    n = len(lead)
    axes = {len(own) for own in accepted}
    # Axes of size 1 are shared in both readings.
    if n and len(shape) in axes and len(shape) - n in axes and shape[:n] != (1,) * n:
        raise ValueError(_both_readings(label, shape, accepted, lead))
    has_lead = n > 0 and len(shape) - n in axes
    padded = shape[n:] if has_lead else shape
    own = _without_ones(padded, accepted)
    if own is None or (has_lead and not _spreads(shape, lead)):
        wanted = " or ".join(map(str, accepted))
        more = f", or that after the axes {lead} (1 in place of those that share them)" if lead else ""
        raise ValueError(f"{label} has shape {shape}; with these scores it must have {wanted}{more}")
    return own, has_lead, padded


def _without_ones(shape, accepted):
    """Return the accepted shape that this one is, maybe with axes of size 1 before; None if there is none."""
    if shape in accepted:
        return shape
    longest = max(map(len, accepted))
    fits = [own for own in accepted if len(own) < longest == len(shape) and shape == _with_ones(own, longest)]
    return fits[0] if fits else None


def _with_ones(shape, n_axes):
    return (1,) * (n_axes - len(shape)) + shape


def _both_readings(label, shape, accepted, lead):
    """Return the message about a number of axes that allows two readings, whatever the number of samples is."""
    n = len(lead)
    whole = next(own for own in accepted if len(own) == len(shape))
    short = next(own for own in accepted if len(own) == len(shape) - n)
    return (
        f"{label} has shape {shape}, and its {len(shape)} axes can be read in two ways. For scores of shape {whole} "
        f"that all samples share, pass shape {(1,) * n + whole}: {label}[{', '.join(['None'] * n)}]. For scores of "
        f"shape {short} of each sample, pass shape {(*lead, *_with_ones(short, len(whole)))}"
    )
