"""`sparsemap` over structures, for tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .._layers.structures import check_additional, structure_operator
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
from ._weights import structures_and_weights

if TYPE_CHECKING:
    from ..structures import Structure


class SelectedStructures(NamedTuple):
    """What `sparsemap` selects.

    Attributes
    ----------
    marginals : Tensor, shape of scores
    structures : list
        For each sample a list of its selected structures, most probable first; that list itself for a single sample.
    weights : list of Tensor
        For each sample the probabilities of these, differentiable once; that tensor itself for a single sample.
    additional_marginals : dict of str -> Tensor
    """

    marginals: Tensor
    structures: list[Any]
    weights: Any
    additional_marginals: dict[str, Tensor]


def sparsemap(
    structure: Structure,
    scores: Tensor,
    lengths: Any = None,
    temperature: float = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    tol: float = 1e-9,
    return_additional: bool = False,
    return_structures: bool = False,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Solve SparseMAP for a padded batch, differentiably: marginals that are mixtures of few structures.

    Maximises ``scores.u + additional.v - temperature / 2 |u|^2`` [1]_. The derivative is exact: the marginals are
    piecewise linear in all scores, and the second derivative is zero. It is the same in forward and in reverse mode.

    Parameters
    ----------
    structure : Structure
        For example ``LinearChain()``.
    scores : Tensor of shape (batch, ...) or of the shape of one sample
        float32 or float64 (half precision goes by float32); computed in float64 on the CPU, returned in its dtype on
        its device. -inf forbids a part.
    lengths : int Tensor of shape (batch,) or (batch, 2), default=None
        Which part of each sample is no padding: steps of chains (or steps and states), words of trees (whose scores
        have shape (batch, max_words + 1, max_words)), rows and columns of matchings, parts of others.
    temperature : float, default=1.0
        Multiplies the regulariser: the larger, the more structures are selected.
    max_iter : int, default=None
        None is exact. Else at most so many structures are looked for (calls of the MAP oracle), and the derivative is
        that of the mixtures of those that were found. `Simplex`, `Subset`, `Matching` and chains without transitions
        are exact always.
    n_jobs : int, default=None
        Number of threads over the samples, forward and backward; -1 uses all cores.
    tol : float, default=1e-9
        Duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too; they have derivatives as the marginals do.
    return_structures : bool, default=False
        Whether to return the selected structures and their weights; not in compiled programmes.
    additional : dict of str -> Tensor, default=None
        Additional scores, where their names are those of other parameters.
    **more : Tensor
        Additional scores by name, for example `transitions`: in the shapes that the structure's class documents, for
        all samples, or with an axis of samples before. Where both could be meant, it is the axis of samples; an axis of
        size 1 makes it clear.

    Returns
    -------
    marginals : Tensor, shape of scores
        Zero in the padding.
    additional_marginals : dict of str -> Tensor
        If `return_additional`: with an axis of samples, padded as the additional scores are.
    found : SelectedStructures
        In place of both, if `return_structures`.

    Raises
    ------
    ValueError
        If scores, lengths or additional scores are of the wrong shape, NaN or +inf, or forbid every structure.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> from sklearn_sparsemap.torch import sparsemap
    >>> scores = torch.tensor([[[1.0, 0.9], [0.0, 0.5]], [[1.0, 0.0], [7.0, 7.0]]], requires_grad=True)
    >>> stay = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> u = sparsemap(LinearChain(), scores, lengths=torch.tensor([2, 1]), transitions=stay)
    >>> [[[round(p, 2) for p in step] for step in sample] for sample in u.tolist()]
    [[[0.4, 0.6], [0.4, 0.6]], [[1.0, 0.0], [0.0, 0.0]]]
    >>> u[0, 0, 0].backward()
    >>> scores.grad[0].tolist()
    [[0.25, -0.25], [0.25, -0.25]]
    """
    check_options(temperature, tol, max_iter, n_jobs)
    dtype, tensors, names, handle, batched = prepare(
        structure, scores, lengths, temperature, {**(additional or {}), **more}, tol, max_iter, n_jobs
    )
    u, joint, _, keys = solve(*tensors, handle)
    shapes = [shape for _, shape in names]
    parts = split_additional(joint.to(dtype), shapes, batched) if shapes else []
    v = {name: part for (name, _), part in zip(names, parts)}
    if return_structures:
        structures, weights = structures_and_weights(*tensors, handle, keys, dtype)
        if not batched:
            structures, weights = structures[0], weights[0]
    u = u.to(dtype) if batched else u.to(dtype).squeeze(0)
    if return_structures:
        return SelectedStructures(u, structures, weights, v)
    return (u, v) if return_additional else u


@torch.compiler.assume_constant_result
def _handle(structure, names, tol, max_iter, n_jobs):
    return structure_operator(structure, names, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


def prepare(structure, scores, lengths, temperature, additional, tol, max_iter, n_jobs):
    """Check what the user gave; see `sparsemap`.

    Returns
    -------
    dtype : torch.dtype
        That of the results.
    tensors : (scores, additional, lengths)
        As `_ops.solve` takes them, divided by the temperature.
    names : tuple of (str, tuple of int)
        Names and shapes of the joined additional scores.
    handle : int
    batched : bool
        Whether there was an axis of samples.
    """
    values = as_scores(scores)
    ndim = structure.score_ndim
    if values.dim() not in (ndim, ndim + 1):
        raise ValueError(
            f"scores of {structure!r} have {ndim} axes, or {ndim + 1} with that of the samples; got shape "
            f"{tuple(values.shape)}"
        )
    batched = values.dim() == ndim + 1
    if not batched:
        values = values.unsqueeze(0)
    if values.numel() == 0:
        shape = tuple(scores.shape)
        raise ValueError(f"scores is empty (shape {shape}); there must be a sample, and each needs a part")
    padded, n_samples = tuple(values.shape[1:]), values.shape[0]
    arrays, names = [], []
    unknown = sorted(set(additional) - set(structure.additional_names))
    if unknown:
        takes = ", ".join(structure.additional_names) or "none"
        raise TypeError(f"{structure!r} has no additional scores named {unknown[0]!r}; it takes: {takes}")
    for name in structure.additional_names:
        if additional.get(name) is not None:
            array = as_additional(additional[name], values, name)
            own, shape = check_additional(
                structure, tuple(array.shape), padded, name, n_samples if batched else None
            )
            arrays.append((array, own))
            names.append((name, shape))
    joined = join_additional(arrays, values)
    if temperature != 1.0:
        values, joined = values / temperature, joined / temperature
    names = tuple(names)
    handle = _handle(structure, names, tol, max_iter, n_jobs)
    return result_dtype(scores), (values, joined, as_lengths(lengths, n_samples, batched)), names, handle, batched
