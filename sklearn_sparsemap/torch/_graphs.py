"""`lp_sparsemap` over factor graphs, for tensors."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import torch

from .._layers.graphs import accepted_shapes, graph_operator, named_factors
from ..factors import FactorGraph
from ._forms import (
    as_additional,
    as_lengths,
    as_scores,
    check_options,
    join_additional,
    result_dtype,
    split_additional,
)
from ._functions import solve

if TYPE_CHECKING:
    from collections.abc import Callable


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
    """Solve LP-SparseMAP for a batch, differentiably: sparse marginals that satisfy all factors of a graph [1]_.

    Parameters
    ----------
    graph : FactorGraph, or callable
        One for all samples; or a function that makes one from the shape of a sample, with one array of variables in
        that shape. It is called once for each shape; its graphs are kept as long as the function.
    scores : Tensor of shape (batch, ...), or of the shape of the variables; or dict of str -> Tensor
        A dict for graphs with several arrays of variables. With a function there is always an axis of samples. float32
        or float64; computed in float64 on the CPU, returned in its dtype on its device. -inf keeps a variable off.
    additional : dict, default=None
        By the names of factors: scores of pairs, or a dict of a structure's additional scores. For all samples, or with
        an axis of samples before.
    lengths : int Tensor of shape (batch,) or (batch, n_axes), default=None
        With a function: the shape of each sample; the rest is padding. Of shape (batch,), the size of the first axis;
        or, if the variables are those of a tree, the number of words. Pair scores, and a structure's, are padded in the
        same way.
    temperature : float, default=1.0
        Multiplies the regulariser.
    max_iter : int, default=None
        None is exact. Else there are at most so many sweeps and Newton steps, the marginals may violate factors, and
        the derivative is that of the faces to which they have come.
    n_jobs : int, default=None
        Number of threads over the samples, forward and backward; -1 uses all cores.
    tol : float, default=1e-10
        For the residual and the duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too; they have derivatives as the marginals do.

    Returns
    -------
    marginals : Tensor, like `scores`
        Zero in the padding.
    additional_marginals : dict
        If `return_additional`: like `additional`, with an axis of samples. That of a single score which many pairs
        share is the sum of theirs.

    Raises
    ------
    ValueError
        If scores, lengths or additional scores are of the wrong shape, NaN or +inf, or if no marginals satisfy all
        factors.

    References
    ----------
    .. [1] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
    >>> from sklearn_sparsemap.torch import lp_sparsemap
    >>> def links(shape):
    ...     graph = FactorGraph()
    ...     u = graph.variables(shape)
    ...     graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    ...     return graph
    >>> scores = torch.tensor([[[1.0, 0.5, 0.0], [1.0, 0.0, 0.0]], [[0.5, 0.0, 9.0], [9.0, 9.0, 9.0]]])
    >>> u = lp_sparsemap(links, scores, lengths=torch.tensor([[2, 3], [1, 2]]))
    >>> u[1].tolist()
    [[0.75, 0.25, 0.0], [0.0, 0.0, 0.0]]
    """
    check_options(temperature, tol, max_iter, n_jobs)
    dtype, tensors, call = prepare_graph(
        graph, scores, additional, lengths, temperature, tol, max_iter, n_jobs
    )
    u, joint, *_ = solve(*tensors, call.handle)
    u = call.split_scores(u.to(dtype))
    return (u, call.split_additional(joint.to(dtype))) if return_additional else u


class GraphCall:
    """How what goes with flat tensors of a batch is cut into the user's forms.

    Attributes
    ----------
    handle : int
    keys : tuple of ((factor, name), shape)
        Of the joined additional scores.
    batched : bool
    shapes : dict of str -> tuple of int, or None
        Of the arrays of variables, where scores were given as a dict.
    """

    def __init__(self, handle, keys, batched, shapes):
        self.handle, self.keys, self.batched, self.shapes = handle, keys, batched, shapes

    def split_scores(self, values):
        """Return what goes with the scores in their form."""
        if self.shapes is None:
            return values if self.batched else values.squeeze(0)
        parts = split_additional(values, list(self.shapes.values()), self.batched)
        return dict(zip(self.shapes, parts))

    def split_additional(self, flat):
        """Return what goes with the additional scores in their form."""
        found = {}
        if self.keys:
            parts = split_additional(flat, [shape for _, shape in self.keys], self.batched)
            for ((owner, name), _), part in zip(self.keys, parts):
                if name is None:
                    found[owner] = part
                else:
                    found.setdefault(owner, {})[name] = part
        return found


@torch.compiler.assume_constant_result
def _handle(graph, keys, tol, max_iter, n_jobs):
    return graph_operator(graph, keys, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


@torch.compiler.assume_constant_result
def _accepted(graph, padded):
    """Return the shapes that additional scores may have: tuple of ((factor, name), shapes)."""
    own = graph_operator(graph).graph_of(padded)
    return tuple(
        ((owner, name), tuple(accepted_shapes(factor, name)))
        for owner, factor in named_factors(own).items()
        for name in ((None,) if not hasattr(factor, "structure") else factor.structure.additional_names)
    )


@torch.compiler.assume_constant_result
def _variable_shapes(graph):
    """Return the shapes of the arrays of variables; None for a function."""
    return tuple(graph.shapes.items()) if isinstance(graph, FactorGraph) else None


def prepare_graph(graph, scores, additional, lengths, temperature, tol, max_iter, n_jobs):
    """Check what the user gave; see `lp_sparsemap`.

    Returns
    -------
    dtype : torch.dtype
        That of the results.
    tensors : (scores, additional, lengths)
        As `_ops.solve` takes them, divided by the temperature.
    call : GraphCall
    """
    if not isinstance(graph, FactorGraph) and not callable(graph):
        raise ValueError(f"graph must be a FactorGraph, or a function from a sample's shape to one; got {graph!r}")
    shapes = _variable_shapes(graph)
    shapes = None if shapes is None else dict(shapes)
    if isinstance(scores, dict):
        values, dtype, batched = _join_arrays(scores, shapes)
    else:
        values, dtype, batched = _check_one(scores, shapes)
        shapes = None
    if values.numel() == 0:
        raise ValueError("scores is empty; there must be a sample, and each needs a variable")
    n_samples, padded = values.shape[0], tuple(values.shape[1:])
    arrays, keys = [], []
    given = _flatten({} if additional is None else additional)
    accepted = dict(_accepted(graph, padded))
    unknown = [key for key in given if key not in accepted]
    if unknown:
        owner, name = unknown[0]
        label = repr(owner) if name is None else f"{owner!r}, {name!r}"
        known = sorted({owner for owner, _ in accepted})
        raise ValueError(f"additional names {label}, which no factor takes; the named factors are {known}")
    for key, wanted in accepted.items():
        if given.get(key) is None:
            continue
        label = f"additional[{key[0]!r}]" + ("" if key[1] is None else f"[{key[1]!r}]")
        array = as_additional(given[key], values, label)
        shape = tuple(array.shape)
        own = batched and len(shape) > 0 and shape[0] in (1, n_samples) and shape[1:] in wanted
        if not own and shape not in wanted:
            more = f", or that with an axis of {n_samples} samples before" if batched else ""
            raise ValueError(f"{label} has shape {shape}; it must have {' or '.join(map(str, wanted))}{more}")
        arrays.append((array, own))
        keys.append((key, shape[1:] if own else shape))
    joined = join_additional(arrays, values)
    if temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    keys = tuple(keys)
    call = GraphCall(_handle(graph, keys, tol, max_iter, n_jobs), keys, batched, shapes)
    return dtype, (values, joined, as_lengths(lengths, n_samples, batched)), call


def _flatten(additional):
    """Return nested additional scores by (factor, name)."""
    if not isinstance(additional, dict):
        raise ValueError(f"additional must be a dict by the names of factors; got {type(additional).__name__}")
    flat = {}
    for owner, value in additional.items():
        if isinstance(value, dict):
            for name, own in value.items():
                flat[owner, name] = own
        else:
            flat[owner, None] = value
    return flat


def _check_one(scores, shapes):
    """Check one tensor of scores: with an axis of samples, its dtype, and whether it had that axis."""
    values = as_scores(scores)
    if shapes is None:
        if values.dim() < 2:
            raise ValueError(f"with a function for graphs, scores need an axis of samples; got {tuple(values.shape)}")
        return values, result_dtype(scores), True
    if len(shapes) != 1:
        raise ValueError(f"scores must be a dict with one tensor for each of {list(shapes)}")
    (shape,) = shapes.values()
    if tuple(values.shape) == shape:
        return values.unsqueeze(0), result_dtype(scores), False
    if tuple(values.shape[1:]) != shape:
        raise ValueError(
            f"scores has shape {tuple(values.shape)}; the graph's variables have {shape}, maybe with an axis of "
            "samples before"
        )
    return values, result_dtype(scores), True


def _join_arrays(scores, shapes):
    """Join the scores of several arrays of variables; see `_check_one`."""
    if shapes is None or set(scores) != set(shapes):
        known = "one array" if shapes is None else f"those named {list(shapes)}"
        raise ValueError(f"scores names the arrays {list(scores)}, but the graph has {known}")
    tensors = {name: as_scores(scores[name], f"scores[{name!r}]") for name in shapes}
    first = next(iter(shapes))
    batched = tensors[first].dim() == len(shapes[first]) + 1
    n_samples = tensors[first].shape[0] if batched else 1
    for name, shape in shapes.items():
        wanted = (n_samples, *shape) if batched else shape
        if tuple(tensors[name].shape) != wanted:
            raise ValueError(f"scores[{name!r}] has shape {tuple(tensors[name].shape)}; it must have {wanted}")
    flat = [tensors[name].reshape(n_samples, prod(shape)) for name, shape in shapes.items()]
    return torch.cat(flat, 1), result_dtype(scores[first]), batched
