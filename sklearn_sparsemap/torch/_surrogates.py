"""`map_inference` for tensors, with a surrogate in the place of its gradient, which is zero.

`jax/_surrogates.py` has the same rule; `tests/losses/test_surrogates.py` compares them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.annotations import Any
from .._layers.forms import check_surrogate, join_keywords
from ..structures import Structure
from ._calls import handle_of, prepare
from ._functions import solver


class _Surrogate(torch.autograd.Function):
    """The best structures, with a surrogate for the gradient.

    Arguments are those of `_ops.solve`, with the handle of MAP. ``project``, the handle of SparseMAP, is None for
    ``"straight_through"``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores, additional, rows, lead, handle, project, step):
        return tuple(solver()(scores, additional, rows, lead, handle)[:2])

    @staticmethod
    def setup_context(ctx, inputs, output):
        scores, additional, rows, ctx.lead, _, ctx.project, ctx.step = inputs
        ctx.save_for_backward(scores, additional, rows, *output)

    @staticmethod
    def backward(ctx, gradient, _):
        scores, additional, rows, best, joint = ctx.saved_tensors
        allowed = scores > -torch.inf
        in_use = additional > -torch.inf
        extra = torch.zeros_like(joint)
        if ctx.project is not None:
            moved = torch.where(allowed, best - ctx.step * gradient, -torch.inf)
            none = torch.where(in_use, 0.0, -torch.inf).to(additional)
            u, v, *_ = solver()(moved, none, rows, moved.shape[:1], ctx.project)
            gradient = best - u
            extra = torch.where(in_use, joint - v, 0.0)
        return torch.where(allowed, gradient, 0.0), extra, None, None, None, None, None

    @staticmethod
    def jvp(ctx, *tangents):
        raise NotImplementedError(
            "map_inference has no forward mode: a surrogate replaces the gradient in reverse mode only, as by grad, "
            "vjp and jacrev. sparsemap has exact derivatives in both modes"
        )


@torch.compiler.allow_in_graph
def _through(*args):
    return _Surrogate.apply(*args)


def map_inference(
    structure: Structure,
    scores: Tensor,
    lengths: Any = None,
    n_jobs: int | None = None,
    *,
    mask: Any = None,
    surrogate: str = "spigot",
    step: float = 1.0,
    additional: dict[str, Any] | None = None,
    **more: Any,
) -> Tensor:
    """Find the best structure of each sample, with a surrogate gradient.

    The derivative of the best structure is zero almost everywhere, so a network learns nothing through it. A surrogate
    is no derivative: it is biased, no loss decreases along it for sure, and finite differences do not confirm it [2]_.
    `sparsemap` has exact derivatives; use this where the network needs a single structure in its forward pass.

    Parameters
    ----------
    structure : Structure
    scores : Tensor of shape (..., shape of one sample)
        As in `sparsemap`.
    lengths, mask : Tensor, default=None
        As in `sparsemap`.
    n_jobs : int, default=None
        Number of threads over the samples.
    surrogate : {"spigot", "straight_through"}, default="spigot"
        ``"spigot"`` [1]_: the best structure minus the projection of ``best - step * gradient`` onto the mixtures of
        structures, which SparseMAP computes in the backward pass. Likewise the gradient of additional scores is the
        difference of the additional marginals. ``"straight_through"``: the gradient of the result as it is, which
        ignores the constraints, and passes through the padding. Additional scores get none.
    step : float, default=1.0
        Step size of ``"spigot"``.
    additional, **more
        Additional scores, as in `sparsemap`.

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
    additional = join_keywords(additional, more)
    dtype, batch, form = prepare(False, structure, scores, additional, lengths, 1.0, mask)
    handle = handle_of(structure, form.extra, 1e-9, None, n_jobs, argmax="map")
    project = handle_of(structure, form.extra, 1e-9, None, n_jobs) if surrogate == "spigot" else None
    return _through(*batch, form.lead, handle, project, step)[0].to(dtype).reshape(scores.shape)
