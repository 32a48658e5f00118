"""`sparsemap` over structures, for tensors."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .._layers.forms import check_mask_names, check_options, form_of_structure
from .._layers.structures import structure_operator
from .._layers.tensors import apply_mask, split_joined, with_lead
from ._forms import (
    as_additional,
    as_ints,
    as_mask,
    as_scores,
    as_tensors,
    nest,
    result_dtype,
    shape_of,
)
from ._functions import solver
from ._native import native_operator, prefers_native
from ._weights import structures_and_weights

if TYPE_CHECKING:
    from ..structures import Structure


class SelectedStructures(NamedTuple):
    """The selected structures of `sparsemap`.

    Attributes
    ----------
    marginals : Tensor, shape of scores
    structures : list
        For each sample a list of its selected structures, most probable first; for a single sample just this list, for
        several leading axes lists in lists.
    weights : list of Tensor
        For each sample the probabilities of these, differentiable once; for a single sample just this tensor.
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
    mask: Any = None,
    tol: float = 1e-9,
    backend: str = "auto",
    return_additional: bool = False,
    return_structures: bool = False,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    """Solve SparseMAP for a batch, differentiably: marginals that are mixtures of few structures.

    Maximises ``scores.u + additional.v - temperature / 2 |u|^2`` [1]_. The derivative is exact. The marginals are
    piecewise linear in all scores, so the second derivative is zero. The Jacobian is the same in forward and in reverse
    mode.

    Parameters
    ----------
    structure : Structure
        For example ``LinearChain()``.
    scores : Tensor of shape (..., shape of one sample)
        With any number of leading axes, for example (batch, heads), any of which may have size 0. float32 or float64
        (half precision is converted to float32). Computed in float64, on the CPU unless `backend` says otherwise, and
        returned in its dtype on its device. -inf forbids a part.
    lengths : int Tensor of shape (...,) or (..., 2), default=None
        The size of each sample without padding: steps of chains (or steps and states), words of trees (whose scores
        have shape (..., max_words + 1, max_words)), rows and columns of matchings, parts of others. Has all leading
        axes; size 1 stands for all entries of an axis. A sample of length 0 has zero marginals and gradients.
    temperature : float, default=1.0
        Factor of the regulariser: the larger, the more structures are selected.
    max_iter : int, default=None
        None is exact. Otherwise the maximum number of calls of the MAP oracle; the derivative is then that of mixtures
        of the structures found so far. `Simplex`, `Subset`, `Matching` and chains without transitions are always exact.
    n_jobs : int, default=None
        Number of threads over the samples, forward and backward; -1 uses all cores.
    mask : bool Tensor, default=None
        True for allowed parts; broadcast to the scores, leading axes included. If the mask leaves no part of a sample
        (within its length), its marginals and gradients are zero, and its list of structures is empty. If it leaves
        parts, but no structure, that is an error.
    tol : float, default=1e-9
        Duality gap.
    backend : {"auto", "compiled", "native"}, default="auto"
        ``"compiled"`` computes on the CPU, ``"native"`` (`Simplex`, `Subset`, `Ranking`, `Matching` and `LinearChain`)
        in batched operations of PyTorch, on the device of the scores. ``"auto"`` is native if possible, for scores that
        are not on the CPU.
    return_additional : bool, default=False
        Whether to return the additional marginals, too. They are differentiable like the marginals.
    return_structures : bool, default=False
        Whether to return the selected structures and their weights; not in compiled programs.
    additional : dict of str -> Tensor, default=None
        Additional scores whose names are also names of other parameters.
    **more : Tensor
        Additional scores by name, for example `transitions`, in the shapes that the structure's class documents: for
        all samples, or with all leading axes before, of size 1 where shared. If both are possible, the first axes are
        taken as leading axes; axes of size 1 make shared scores explicit.

    Returns
    -------
    marginals : Tensor, shape of scores
        Zero in the padding.
    additional_marginals : dict of str -> Tensor
        If `return_additional`: with the leading axes, padded like the additional scores.
    found : SelectedStructures
        Instead of both, if `return_structures`.

    Raises
    ------
    ValueError
        If scores, mask, lengths or additional scores are of the wrong shape, NaN or +inf, or forbid every structure of
        a sample; the message names it by its indices along the leading axes.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` is None and a sample does not converge, for example with tied scores of 1e6 and above.

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
    dtype, tensors, form = prepare(structure, scores, mask, lengths, temperature, {**(additional or {}), **more})
    native = use_native(structure, backend, scores.device, return_structures)
    handle = _handle_of(structure, form.extra, tol, max_iter, n_jobs, native)
    u, joint, _, keys = solver()(*tensors, form.lead, handle)
    parts = split_joined(joint.to(dtype), [shape for _, shape in form.extra], form.lead)
    v = {name: part for (name, _), part in zip(form.extra, parts)}
    u = with_lead(u.to(dtype), form)
    if return_structures:
        structures, weights = structures_and_weights(*tensors, handle, keys, dtype)
        return SelectedStructures(u, nest(structures, form.lead), nest(weights, form.lead), v)
    return (u, v) if return_additional else u


def _handle_of(structure, extra, tol, max_iter, n_jobs, native):
    """Return the number of a structure's operator. In a compiled function, the structure may have been made there."""
    if not torch.compiler.is_compiling() or not _is_bare(structure):
        return _handle(structure, extra, tol, max_iter, n_jobs, native)
    params = ()
    for name, value in vars(structure).items():
        if value is not None and not isinstance(value, int | float | str):
            raise ValueError(f"{type(structure).__name__} cannot be made in a compiled function; make it outside")
        # Compiled programs treat an int that differs between two calls as a symbol; `index` makes it a number again.
        if isinstance(value, bool):
            value = bool(index(value))
        elif isinstance(value, int):
            value = index(value)
        params += ((name, value),)
    return _handle_of_made(type(structure), params, extra, tol, max_iter, n_jobs, native)


@torch.compiler.assume_constant_result
def _is_bare(structure):
    # The tracer stores the attributes of an object that is made in the traced function separately.
    return not vars(structure)


@torch.compiler.assume_constant_result
def _handle_of_made(kind, params, *options):
    structure = kind.__new__(kind)
    vars(structure).update(params)
    return _handle(structure, *options)


@torch.compiler.assume_constant_result
def _handle(structure, extra, tol, max_iter, n_jobs, native):
    if native:
        return native_operator(structure, extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle
    return structure_operator(structure, extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


def use_native(structure, backend, device, need_structures=False):
    """Tell whether to use operations of PyTorch; raise ValueError if they are requested but not possible."""
    native = prefers_native(backend, device)
    possible = structure.tensor_solver is not None and not need_structures
    if backend == "native" and not possible:
        what = "return_structures" if need_structures else repr(structure)
        raise ValueError(f"backend='native' has no operations for {what}; use 'auto'")
    return possible and native


def prepare(structure, scores, mask, lengths, temperature, additional):
    """Check the user's input; see `sparsemap`.

    Returns
    -------
    dtype : torch.dtype
        Dtype of the results.
    tensors : (scores, additional, rows)
        In the form of `_ops.solve`, divided by the temperature.
    form : Form
    """
    values, lengths = as_scores(scores), as_ints(lengths)
    given = {name: as_additional(value, values, name) for name, value in additional.items() if value is not None}
    shapes = tuple((name, tuple(array.shape)) for name, array in given.items())
    form = form_of_structure(structure, tuple(values.shape), shapes, shape_of(lengths))
    if mask is not None:
        check_mask_names(mask, scores)
        values, mask = apply_mask(torch, as_mask(mask, values), values)
    return result_dtype(scores), as_tensors(values, given, form, lengths, temperature, mask), form
