"""`sparsemap` over structures and `lp_sparsemap` over factor graphs, for tensors.

Used by `_modules.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from .._core.annotations import Any, Callable
from .._layers.forms import check_options, flatten_additional, join_keywords
from .._layers.tensors import results_of
from ..factors import FactorGraph
from ..structures import Structure
from ._calls import handle_of, prepare, use_native
from ._functions import solver
from ._weights import structures_and_weights


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
    temperature: float | Tensor = 1.0,
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
    temperature : float, or Tensor with one number, default=1.0
        Factor of the regulariser: the larger, the more structures are selected. A tensor may be
        learned, and must be positive.
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
        ``"compiled"`` computes on the CPU, ``"native"`` in batched operations of PyTorch on the device of the scores,
        for all structures except `HeadAutomaton`, `LinearProgram`, `CustomStructure`, and a `Hyperpath` of a function.
        ``"auto"`` is native if possible, for scores that are not on the CPU.
    return_additional : bool, default=False
        Whether to return the additional marginals, too. They are differentiable like the marginals.
    return_structures : bool, default=False
        Whether to return the selected structures and their weights; not in compiled programs.
    additional : dict of str -> Tensor, default=None
        Additional scores whose names are also names of other parameters. Names must differ from those in `more`.
    **more : Tensor
        Additional scores by name, for example `transitions`, in the shapes that the structure's class documents: for
        all samples, or with all leading axes before, of size 1 where shared. If the number of axes allows both, the
        shape is refused: pass ``transitions[None]`` for scores of each step that all samples share, and
        ``transitions[:, None]`` for scores of each sample that all steps share.

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
    additional = join_keywords(additional, more)
    dtype, batch, form = prepare(False, structure, scores, additional, lengths, temperature, mask)
    obstacle = None
    if structure.tensor_solver is None or return_structures:
        without = "return_structures" if return_structures else type(structure).__name__
        obstacle = f"has no operations for {without}; use 'auto'"
    native = use_native(backend, scores.device, obstacle)
    handle = handle_of(structure, form.extra, tol, max_iter, n_jobs, native)
    u, joint, _, keys = solver()(*batch, form.lead, handle)
    u, v = results_of(form, u.to(dtype), joint.to(dtype))
    if return_structures:
        structures, weights = structures_and_weights(*batch, handle, keys, dtype, form.lead)
        return SelectedStructures(u, structures, weights, v)
    return (u, v) if return_additional else u


def lp_sparsemap(
    graph: FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
    scores: Any,
    additional: dict[str, Any] | None = None,
    lengths: Any = None,
    temperature: float | Tensor = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    tol: float = 1e-10,
    return_additional: bool = False,
    backend: str = "auto",
) -> Any:
    """Solve LP-SparseMAP for a batch, differentiably: sparse marginals that satisfy all factors of a graph.

    The method is that of [1]_.

    Parameters
    ----------
    graph : FactorGraph, or callable
        One graph for all samples, or a function that makes one from the shape of a sample, with one array of variables
        in that shape. The function is called once for each shape; its graphs are kept as long as the function.
    scores : Tensor of shape (..., shape of the variables); or dict of str -> Tensor
        With any number of leading axes, for example (batch, heads); with a function there is exactly one. A dict for
        graphs with several arrays of variables. float32 or float64; computed in float64 on the CPU, and returned in its
        dtype on its device. -inf keeps a variable off.
    additional : dict, default=None
        By the names of factors: scores of pairs, or a dict of a structure's additional scores. For all samples, or with
        all leading axes before, of size 1 where shared. If the number of axes allows both, the shape is refused: for n
        pairs that are not tied, pass (1, n) for scores that all samples share, and (batch, 1) for one score of each
        sample.
    lengths : int Tensor of shape (batch,) or (batch, n_axes), default=None
        With a function: the shape of each sample; the rest is padding. With shape (batch,), the size of the first axis
        or, if the variables are those of a tree, the number of words. Pair scores, and a structure's, are padded in the
        same way. A sample of length 0 has zero marginals and gradients.
    temperature : float, or Tensor with one number, default=1.0
        Factor of the regulariser. A tensor may be
        learned, and must be positive.
    max_iter : int, default=None
        None is exact. Otherwise the maximum number of sweeps and Newton steps. The marginals may then violate factors,
        and the derivative is that of the faces reached so far.
    n_jobs : int, default=None
        Number of threads over the samples, forward and backward; -1 uses all cores.
    mask : bool Tensor, or dict of str -> bool Tensor, default=None
        True for variables that may be on; broadcast to the scores. A dict if scores are one; arrays that it does not
        name have no mask. If it leaves no variable of a sample, the marginals and gradients of this sample are zero.
    tol : float, default=1e-10
        Tolerance of the residual and the duality gap.
    return_additional : bool, default=False
        Whether to return the additional marginals, too. They are differentiable like the marginals.
    backend : {"auto", "compiled", "native"}, default="auto"
        ``"native"`` computes in operations of PyTorch on the device of the scores: Newton's method on the multipliers,
        for graphs of logic factors and pairs. Other graphs, and samples that do not converge, are solved on the CPU.
        ``"auto"`` chooses ``"native"`` for scores on a device, unless there is a `max_iter`.

    Returns
    -------
    marginals : Tensor, like `scores`
        Zero in the padding.
    additional_marginals : dict
        If `return_additional`: like `additional`, with the leading axes. The marginal of a score that several pairs
        share is the sum of theirs.

    Raises
    ------
    ValueError
        If scores, mask, lengths or additional scores are of the wrong shape, NaN or +inf, or if no marginals of a
        sample satisfy all factors; the message names it by its indices along the leading axes.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` is None and a sample does not converge, for example with tied scores of 1e6 and above.

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
    additional = flatten_additional(additional)
    dtype, batch, form = prepare(True, graph, scores, additional, lengths, temperature, mask)
    obstacle = None if max_iter is None else "takes no max_iter, because it is exact; omit one of them"
    native = use_native(backend, batch[0].device, obstacle)
    u, joint, *_ = solver()(*batch, form.lead, handle_of(graph, form.extra, tol, max_iter, n_jobs, native))
    u, v = results_of(form, u.to(dtype), joint.to(dtype))
    return (u, v) if return_additional else u
