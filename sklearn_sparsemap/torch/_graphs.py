"""`lp_sparsemap` over factor graphs, for tensors."""

from __future__ import annotations

from .._core.annotations import Any, Callable
from .._layers.forms import check_options, flatten_additional
from .._layers.tensors import results_of
from ..factors import FactorGraph
from ._calls import handle_of, prepare, use_native
from ._functions import solver


def lp_sparsemap(
    graph: FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
    scores: Any,
    additional: dict[str, Any] | None = None,
    lengths: Any = None,
    temperature: float = 1.0,
    max_iter: int | None = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    tol: float = 1e-10,
    return_additional: bool = False,
    backend: str = "auto",
) -> Any:
    """Solve LP-SparseMAP for a batch, differentiably: sparse marginals that satisfy all factors of a graph [1]_.

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
        all leading axes before, of size 1 where shared.
    lengths : int Tensor of shape (batch,) or (batch, n_axes), default=None
        With a function: the shape of each sample; the rest is padding. With shape (batch,), the size of the first axis
        or, if the variables are those of a tree, the number of words. Pair scores, and a structure's, are padded in the
        same way. A sample of length 0 has zero marginals and gradients.
    temperature : float, default=1.0
        Multiplies the regulariser.
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
