"""Losses of decisions as modules; see `sklearn_sparsemap.losses`."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.annotations import Any, Callable
from .._core.validation import check_positive
from .._layers.losses import Gold
from .._layers.register import register
from ..factors import FactorGraph
from ..structures import Structure
from ._calls import constant
from ._functions import solver
from ._gold import read_gold
from ._losses import BatchLoss


class _DecisionLoss(BatchLoss):
    """Base of the losses of decisions: Fenchel-Young losses against decisions that are given as tensors of 0 and 1."""

    def __init__(self, structure, temperature, reduction, max_iter, n_jobs, tol):
        name = "sparsemap" if temperature > 0.0 else "perceptron"
        super().__init__(structure, name, temperature or 1.0, reduction, max_iter=max_iter, n_jobs=n_jobs, tol=tol)

    def _best(self, scores, lengths, mask):
        """Return the best decisions, like the scores."""
        _, tensors, form = self._prepare(scores.detach(), lengths, mask, {})
        best = solver()(*tensors, form.lead, self._handle_of_map(form.extra))
        return best[0].detach().reshape(scores.shape)

    def _checked(self, decisions, scores, lengths, mask):
        """Return decisions like the scores; raise ValueError unless they are decisions."""
        decisions = torch.as_tensor(decisions).to(scores)
        _, (values, *rest), form = self._prepare(scores, lengths, mask, {})
        reader = constant(_handle_of_reader, self.structure, *self._options(form.extra))
        return read_gold(decisions, values, *rest, form.lead, reader).parts.reshape(scores.shape)

    def _compare(self, scores, decisions, lengths, mask):
        """Return the loss of each sample, with the leading axes of the scores."""
        dtype, tensors, form = self._prepare(scores, lengths, mask, {})
        first = tensors[0]
        none = torch.zeros_like(tensors[1])
        parts = decisions.to(first).reshape(first.shape)
        gold = Gold(parts, none, 0.0, torch.zeros_like(first))
        losses = self._losses(*tensors, gold, self._handle(form.extra), form.lead)
        return losses.to(dtype).reshape(form.lead)


def _handle_of_reader(structure, *options):
    return register("decisions", structure, *options).handle


def _check_shape(name, tensor, other, scores):
    """Raise ValueError unless a tensor has the shape of the scores."""
    if tensor.shape != scores.shape:
        raise ValueError(f"{name} have shape {tuple(tensor.shape)}, but {other} {tuple(scores.shape)}")


class SPOPlusLoss(_DecisionLoss):
    """SPO+ of predicted values, and its smooth version by SparseMAP; see `sklearn_sparsemap.losses.SPOPlusLoss`.

    Parameters
    ----------
    structure : Structure, FactorGraph, or callable
        The possible decisions. A function makes a graph from the shape of a sample, as in `lp_sparsemap`.
    temperature : float, default=0.0
        Factor of SparseMAP's regulariser, in units of the values; larger is smoother. 0 is SPO+ itself.
    reduction : {"mean", "sum", "none"}, default="mean"
        Over the samples.
    max_iter : int, default=None
        Maximum number of oracle calls for a sample, at a positive temperature. None is exact.
    n_jobs : int, default=None
        Number of threads over the samples.
    tol : float, default=1e-9
        Duality gap.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import Subset
    >>> from sklearn_sparsemap.torch import SPOPlusLoss
    >>> predicted = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    >>> loss = SPOPlusLoss(Subset(2, 2))(predicted, torch.tensor([[3.0, 1.0, 2.0]]))
    >>> loss.backward()
    >>> loss.item(), predicted.grad.tolist()
    (4.0, [[-2.0, 2.0, 0.0]])
    """

    def __init__(
        self,
        structure: Structure | FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
        temperature: float = 0.0,
        reduction: str = "mean",
        *,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        tol: float = 1e-9,
    ) -> None:
        check_positive("temperature", temperature, zero=True)
        super().__init__(structure, temperature, reduction, max_iter, n_jobs, tol)

    def forward(
        self, predicted: Tensor, values: Tensor, decisions: Any = None, lengths: Any = None, *, mask: Any = None
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        predicted : Tensor of shape (..., shape of one sample)
            Predicted values.
        values : Tensor, shape of `predicted`
            True values, which are maximised; -inf forbids a part.
        decisions : Tensor of 0 and 1, shape of `predicted`; default=None
            Optimal decisions for the true values. By default they are computed in each call; of graphs, those of the
            linear relaxation, whose fractional decisions are not compared with the factors.
        lengths, mask : Tensor, default=None
            As in `FenchelYoungLoss`.

        Returns
        -------
        loss : Tensor
            A number; or with the leading axes of the values if ``reduction="none"``.

        Raises
        ------
        ValueError
            If shapes do not match, numbers are NaN or +inf, or decisions are forbidden or violate the constraints.
        """
        _check_shape("values", values, "predicted", predicted)
        if decisions is None:
            decisions = self._best(values, lengths, mask)
        else:
            decisions = torch.as_tensor(decisions)
            _check_shape("decisions", decisions, "the values", values)
            decisions = self._checked(decisions, values, lengths, mask)
        scores = torch.where(values > -torch.inf, 2.0 * predicted - values, -torch.inf)
        # A NaN is not above -inf.
        scores = torch.where(values.isnan(), values, scores)
        losses = self._compare(scores, decisions, lengths, mask)
        return self._reduced(losses, losses.shape)


class PerturbedFenchelYoungLoss(_DecisionLoss):
    """The perturbed Fenchel-Young loss; see `sklearn_sparsemap.losses.PerturbedFenchelYoungLoss`.

    Parameters
    ----------
    structure : Structure or FactorGraph
        The possible decisions.
    sigma : float, default=1.0
        Standard deviation of the noise, in units of the values; larger is smoother.
    n_samples : int, default=10
        Number of draws of the noise for each sample.
    reduction : {"mean", "sum", "none"}, default="mean"
        Over the samples.
    n_jobs : int, default=None
        Number of threads over the samples.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import Subset
    >>> from sklearn_sparsemap.torch import PerturbedFenchelYoungLoss
    >>> _ = torch.manual_seed(0)
    >>> loss = PerturbedFenchelYoungLoss(Subset(1, 1), sigma=0.1, n_samples=5)
    >>> loss(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[0, 0, 1]])).item()
    0.0
    """

    def __init__(
        self,
        structure: Structure | FactorGraph,
        sigma: float = 1.0,
        n_samples: int = 10,
        reduction: str = "mean",
        *,
        n_jobs: int | None = None,
    ) -> None:
        check_positive("sigma", sigma)
        check_positive("n_samples", n_samples, integer=True)
        super().__init__(structure, 0.0, reduction, None, n_jobs, 1e-9)
        self.sigma, self.n_samples = sigma, n_samples

    def forward(
        self,
        predicted: Tensor,
        decisions: Any,
        lengths: Any = None,
        *,
        mask: Any = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        predicted : Tensor of shape (..., shape of one sample)
            Predicted values; -inf forbids a part.
        decisions : Tensor of 0 and 1, shape of `predicted`
            Optimal decisions.
        lengths, mask : Tensor, default=None
            As in `FenchelYoungLoss`.
        generator : torch.Generator, default=None
            Draws the noise. Default: PyTorch's own, which `torch.manual_seed` seeds.

        Returns
        -------
        loss : Tensor
            As in `SPOPlusLoss`.

        Raises
        ------
        ValueError
            As in `SPOPlusLoss`.
        """
        shape = self.n_samples, *predicted.shape
        noise = torch.randn(shape, generator=generator, dtype=predicted.dtype, device=predicted.device)
        decisions = torch.as_tensor(decisions, device=predicted.device)
        _check_shape("decisions", decisions, "predicted", predicted)
        decisions = self._checked(decisions, predicted, lengths, mask)
        lengths = None if lengths is None else torch.as_tensor(lengths)[None]
        scores = predicted + self.sigma * noise
        losses = self._compare(scores, decisions.expand(shape), lengths, mask).mean(0)
        return self._reduced(losses, losses.shape)
