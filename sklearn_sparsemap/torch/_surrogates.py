"""`map_inference` for tensors, with a surrogate in the place of its gradient, which is zero."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.annotations import Any
from .._layers.forms import check_surrogate
from .._layers.register import operator_of
from ..structures import Structure
from ._calls import prepare
from ._functions import solve
from ._public import sparsemap


class _Surrogate(torch.autograd.Function):
    """The best structures, with the gradient that `pull` makes of that of the result."""

    @staticmethod
    def forward(ctx, scores, best, pull):
        ctx.pull = pull
        ctx.save_for_backward(scores, best)
        return best.clone()

    @staticmethod
    def backward(ctx, gradient):
        scores, best = ctx.saved_tensors
        return torch.where(scores > -torch.inf, ctx.pull(scores, best, gradient), 0.0), None, None


def map_inference(
    structure: Structure,
    scores: Tensor,
    lengths: Any = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    surrogate: str = "spigot",
    step: float = 1.0,
) -> Tensor:
    """Find the best structure of each sample, with a surrogate gradient.

    The derivative of the best structure is zero almost everywhere, so a network learns nothing through it. A surrogate
    is no derivative: it is biased, no loss decreases along it for sure, and finite differences do not confirm it [2]_.
    `sparsemap` has exact derivatives; use this where the network needs a single structure in its forward pass.

    Parameters
    ----------
    structure : Structure
    scores : Tensor of shape (..., shape of one sample)
        As in `sparsemap`. There are no additional scores.
    lengths, mask : Tensor, default=None
        As in `sparsemap`.
    n_jobs : int, default=None
        Number of threads over the samples.
    surrogate : {"spigot", "straight_through"}, default="spigot"
        ``"spigot"`` [1]_: the best structure minus the projection of ``best - step * gradient`` onto the mixtures of
        structures, which SparseMAP computes in the backward pass. ``"straight_through"``: the gradient of the result as
        it is, which ignores the constraints, and passes through the padding.
    step : float, default=1.0
        Step size of ``"spigot"``.

    Returns
    -------
    best : Tensor, shape of scores
        1 for the parts of the best structure (the number of occurrences, if parts repeat), else 0.

    Raises
    ------
    ValueError
        If an option is unknown; otherwise as in `sparsemap`.

    References
    ----------
    .. [1] Peng, Thomson and Smith. Backpropagating through Structured Argmax using a SPIGOT. ACL 2018.
    .. [2] Mihaylova, Niculae and Martins. Understanding the Mechanics of SPIGOT: Surrogate Gradients for Latent
       Structure Learning. EMNLP 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import Simplex
    >>> from sklearn_sparsemap.torch import map_inference
    >>> scores = torch.tensor([[1.0, 0.5, 0.0]], requires_grad=True)
    >>> best = map_inference(Simplex(), scores)
    >>> best.tolist()
    [[1.0, 0.0, 0.0]]
    >>> best[0, 0].backward()
    >>> scores.grad.tolist()
    [[0.6666..., -0.3333..., -0.3333...]]
    """
    check_surrogate(surrogate, step, n_jobs)
    with torch.no_grad():
        dtype, batch, form = prepare(False, structure, scores, {}, lengths, 1.0, mask)
        own = operator_of(structure, argmax="map", n_jobs=n_jobs)
        best = solve(*batch, form.lead, own.handle)[0].to(dtype).reshape(scores.shape)

    def project(scores, best, gradient):
        moved = torch.where(scores > -torch.inf, best - step * gradient, -torch.inf)
        return best - sparsemap(structure, moved, lengths, n_jobs=n_jobs, mask=mask)

    return _Surrogate.apply(scores, best, project if surrogate == "spigot" else lambda scores, best, gradient: gradient)
