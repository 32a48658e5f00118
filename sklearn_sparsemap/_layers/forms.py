"""Checks of the shapes of user input, which work for tensors of any library."""

from math import prod
from operator import index
from typing import NamedTuple

from .._core.validation import check_n_jobs, check_positive
from ..factors import FactorGraph
from ..structures import Structure
from .graphs import graph_operator


class Form(NamedTuple):
    """The properties of a call that follow from the shapes of its arguments.

    Attributes
    ----------
    batched : bool
        Whether scores have an axis of samples.
    n_samples : int
    padded : tuple of int
        Shape of the scores of a sample, joined if there are several arrays.
    extra : tuple of (name, tuple of int)
        The given additional scores, in the order in which they are joined, with their shapes in a sample.
    own : tuple of bool
        Whether each has an axis of samples.
    arrays : tuple of (str, tuple of int), or None
        Names and shapes of arrays of variables, if scores are given by name.
    """

    batched: bool
    n_samples: int
    padded: tuple
    extra: tuple
    own: tuple
    arrays: tuple


def check_options(temperature, tol, max_iter, n_jobs):
    """Raise ValueError for options that are out of range."""
    check_positive("temperature", temperature)
    check_positive("tol", tol)
    if max_iter is not None:
        check_positive("max_iter", max_iter, integer=True)
    check_n_jobs(n_jobs)


def form_of_structure(structure, scores, additional):
    """Return the `Form` of a call of `sparsemap`.

    Parameters
    ----------
    structure : Structure
    scores : tuple of int
        The shape of the scores.
    additional : tuple of (str, tuple of int)
        Names and shapes of the given additional scores.

    Raises
    ------
    ValueError
        If shapes do not fit the structure.
    TypeError
        If it has no additional scores of this name.
    """
    if not isinstance(structure, Structure):
        raise ValueError(f"structure must be an instance such as LinearChain(); got {structure!r}")
    # As a number: `torch.compile` treats attributes that differ between two calls as symbols.
    ndim = index(structure.score_ndim)
    if len(scores) not in (ndim, ndim + 1):
        raise ValueError(
            f"scores of {structure!r} have {ndim} axes, or {ndim + 1} with that of the samples; got shape {scores}"
        )
    batched = len(scores) == ndim + 1
    n_samples, padded = _check_size(scores, batched)
    given, accepted = dict(additional), structure.additional_shapes(padded)
    unknown = sorted(set(given) - set(accepted))
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    names = [name for name in structure.additional_names if name in given]
    found = [_match(name, given[name], accepted[name], n_samples if batched else None) for name in names]
    extra = tuple((name, shape) for name, (_, shape) in zip(names, found))
    return Form(batched, n_samples, padded, extra, tuple(own for own, _ in found), None)


def form_of_graph(graph, scores, additional):
    """Return the `Form` of a call of `lp_sparsemap`.

    Parameters
    ----------
    graph : FactorGraph, or callable
    scores : tuple of int, or tuple of (str, tuple of int)
        The shape of the scores, or names and shapes of several arrays.
    additional : tuple of ((str, str or None), tuple of int)
        Owners, names and shapes of the given additional scores.

    Raises
    ------
    ValueError
        If shapes do not fit the graph.
    """
    if not isinstance(graph, FactorGraph) and not callable(graph):
        raise ValueError(f"graph must be a FactorGraph, or a function from a sample's shape to one; got {graph!r}")
    arrays = scores if len(scores) and isinstance(scores[0], tuple) else None
    if arrays is not None:
        batched, n_samples, padded = _check_arrays(graph, dict(arrays))
        arrays = tuple(graph.shapes.items())
    else:
        batched = _has_samples(graph, scores)
        n_samples, padded = _check_size(scores, batched)
    accepted = {
        (factor.name, name): shapes
        for factor in graph_operator(graph).graph_of(padded).scored
        for name, shapes in factor.accepted_shapes.items()
    }
    given = dict(additional)
    for owner, name in given:
        if (owner, name) not in accepted:
            label = repr(owner) if name is None else f"{owner!r}, {name!r}"
            known = sorted({known for known, _ in accepted})
            raise ValueError(f"additional names {label}, which no factor takes; the named factors are {known}")
    keys = [key for key in accepted if key in given]
    found = [_match(label_of(key), given[key], accepted[key], n_samples if batched else None) for key in keys]
    extra = tuple((key, shape) for key, (_, shape) in zip(keys, found))
    return Form(batched, n_samples, padded, extra, tuple(own for own, _ in found), arrays)


def label_of(key):
    """Return the name of additional scores of a graph in messages."""
    return f"additional[{key[0]!r}]" + ("" if key[1] is None else f"[{key[1]!r}]")


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


def nest_additional(form, parts):
    """Return arrays, in the form's order of additional scores of a graph, as nested dicts."""
    found = {}
    for ((owner, name), _), part in zip(form.extra, parts):
        if name is None:
            found[owner] = part
        else:
            found.setdefault(owner, {})[name] = part
    return found


def _check_size(scores, batched):
    """Return the number of samples, which may be 0, and the shape of one."""
    n_samples, padded = (scores[0], scores[1:]) if batched else (1, scores)
    if prod(padded) == 0:
        raise ValueError(f"scores is empty (shape {scores}); each sample needs a part")
    return n_samples, padded


def _has_samples(graph, scores):
    """Tell whether scores of a graph with one array of variables have an axis of samples."""
    if not isinstance(graph, FactorGraph):
        if len(scores) < 2:
            raise ValueError(f"with a function for graphs, scores need an axis of samples; got shape {scores}")
        return True
    if len(graph.shapes) != 1:
        raise ValueError(f"scores must be a dict with one array for each of {graph.names}")
    (shape,) = graph.shapes.values()
    if scores != shape and scores[1:] != shape:
        raise ValueError(
            f"scores has shape {scores}; the graph's variables have {shape}, maybe with an axis of samples before"
        )
    return scores != shape


def _check_arrays(graph, scores):
    """Check the shapes of several arrays of scores; return the results of `_has_samples` and `_check_size`."""
    if not isinstance(graph, FactorGraph) or set(scores) != set(graph.shapes):
        known = f"those named {graph.names}" if isinstance(graph, FactorGraph) else "one array"
        raise ValueError(f"scores names the arrays {list(scores)}, but the graph has {known}")
    name, shape = next(iter(graph.shapes.items()))
    batched = len(scores[name]) == len(shape) + 1
    n_samples = scores[name][0] if batched else 1
    for name, shape in graph.shapes.items():
        wanted = (n_samples, *shape) if batched else shape
        if scores[name] != wanted:
            raise ValueError(f"scores[{name!r}] has shape {scores[name]}; it must have {wanted}")
    return batched, n_samples, (graph.n_variables,)


def _match(label, shape, accepted, n_samples):
    """Tell whether additional scores have an axis of samples; return that, and their shape without it.

    `n_samples` is None if scores do not have that axis.
    """
    if n_samples is not None and len(shape) and shape[0] in (1, n_samples) and shape[1:] in accepted:
        return True, shape[1:]
    if shape in accepted:
        return False, shape
    wanted = " or ".join(map(str, accepted))
    more = "" if n_samples is None else f", or that with an axis of {n_samples} samples before"
    raise ValueError(f"{label} has shape {shape}; with these scores it must have {wanted}{more}")
