"""`FenchelYoungLoss` and `ExpectedCost` as modules: losses between scores and gold structures.

Used by `_decisions.py`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from .._core.annotations import Any, Callable
from .._core.validation import check_choice
from .._layers.forms import check_options, flatten_additional
from .._layers.losses import loss_operator
from .._layers.register import operator_of, register
from .._layers.samples import best_of_samples
from ..factors import FactorGraph
from ..losses._recipes import LOSSES, TRAINED, fenchel_young
from ..structures import Structure
from ._calls import constant, prepare
from ._functions import solver
from ._gold import read_gold
from ._ops import as_numpy, shared_as_numpy
from ._weights import nest


class BatchLoss(nn.Module):
    """Base of the losses of padded batches: their options, and the loss of each sample given its gold structure."""

    _accepted = LOSSES

    def __init__(self, structure, loss, temperature, reduction, *, cost=None, max_iter, n_jobs, tol):
        super().__init__()
        check_choice("loss", loss, self._accepted)
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_options(temperature, tol, max_iter, n_jobs)
        self.structure, self.loss, self.temperature, self.reduction = structure, loss, temperature, reduction
        self.max_iter, self.n_jobs, self.tol = max_iter, n_jobs, tol
        # In compiled programs constants are numbers or tuples of these.
        self.cost = None if cost is None else tuple(map(tuple, np.asarray(cost, np.float64).tolist()))
        # Raises for invalid combinations.
        self._of_factors = loss_operator(structure, loss, (), cost=cost).of_factors

    def _handle(self, extra):
        """Return the name of the operator of the loss."""
        return constant(_handle_of_loss, self.structure, *self._options(extra))

    def _handle_of_map(self, extra):
        """Return the name of the operator of the best structures."""
        tol = 1e-9
        max_iter = None
        return constant(_handle_of_loss, self.structure, "perceptron", extra, tol, max_iter, self.n_jobs)

    def _options(self, extra):
        return self.loss, extra, self.tol, self.max_iter, self.n_jobs

    def _prepare(self, scores, lengths, mask, additional):
        """Return the dtype of the loss, the tensors in the form of `_ops.solve`, and their `InputShapes`."""
        if self._of_factors:
            unknown = sorted(set(additional) - {"additional"})
            if unknown:
                raise TypeError(f"of a graph, additional scores go by factor: additional={{{unknown[0]!r}: ...}}")
            additional = flatten_additional(additional.get("additional"))
        return prepare(self._of_factors, self.structure, scores, additional, lengths, self.temperature, mask)

    def _losses(self, scores, additional, rows, gold, handle, lead):
        """Return the loss of each sample, given its `Gold` as tensors."""
        parts = gold.parts.reshape(scores.shape)
        joint = gold.additional
        # Parts that gold does not contain may have a score of -inf, and 0 * -inf would be NaN.
        gold_scores = (torch.where(parts > 0, scores, 0.0) * parts).flatten(1).sum(1)
        gold_scores = gold_scores + (torch.where(joint > 0, additional, 0.0) * joint).sum(1)
        values = solver()(scores + gold.cost.reshape(scores.shape), additional, rows, lead, handle)[2]
        squares = parts.flatten(1).square().sum(1)
        losses = fenchel_young(LOSSES[self.loss], values, squares, gold.missing, gold_scores)
        # Rounding can make the loss of a fitted sample negative.
        losses = losses + (losses.clamp(min=0.0) - losses).detach()
        return self.temperature * losses

    def _reduced(self, losses, lead):
        if self.reduction == "none":
            return losses.reshape(lead)
        return losses.mean() if self.reduction == "mean" else losses.sum()

    def extra_repr(self) -> str:
        """Return the options in the module's repr."""
        return f"{self.structure!r}, loss={self.loss!r}, temperature={self.temperature}, reduction={self.reduction!r}"


class StructureLoss(BatchLoss):
    """Base of the losses between scores and gold structures: the loss of a batch, and its predictions."""

    def forward(self, scores: Any, y: Any, lengths: Any = None, *, mask: Any = None, **additional: Any) -> Tensor:
        """Return the loss.

        Parameters
        ----------
        scores : Tensor of shape (..., shape of one sample)
            As in `sparsemap` and `lp_sparsemap`.
        y : Tensor, or list of structures
            True structures, in the form in which the structure decodes, padded if samples are: chains (batch, n_steps),
            trees (batch, max_words), matchings (batch, n_rows), subsets (batch, n), `Simplex` (batch,). For graphs, 0
            and 1 in the shape of the variables. For a single sample, its structure; with several leading axes a tensor
            with these axes, or lists in lists.
        lengths : int Tensor, default=None
            As in `sparsemap` and `lp_sparsemap`.
        mask : bool Tensor, default=None
            As in `sparsemap` and `lp_sparsemap`. A sample of which the mask or the length leaves nothing has a loss of
            0, its true structure is not read, and it counts in the mean.
        **additional : Tensor
            As in `sparsemap`; for graphs ``additional``, as in `lp_sparsemap`.

        Returns
        -------
        loss : Tensor
            A number; or with the leading axes of the scores if ``reduction="none"``.

        Raises
        ------
        ValueError
            If an entry of `y` is not a structure of its problem, or is forbidden; otherwise as in `sparsemap`.
        """
        dtype, tensors, form = self._prepare(scores, lengths, mask, additional)
        handle = self._handle(form.extra)
        reader = constant(_handle_of_gold, self.structure, self.cost, *self._options(form.extra))
        gold = read_gold(y, *tensors, form.lead, reader)
        return self._reduced(self._losses(*tensors, gold, handle, form.lead).to(dtype), form.lead)

    @torch.no_grad()
    def predict(self, scores: Any, lengths: Any = None, *, mask: Any = None, **additional: Any) -> Any:
        """Predict the best structures, as estimators do: those that maximise the score minus the regulariser.

        The regulariser of a structure is half the temperature for each part with SparseMAP losses, unless all
        structures have the same number of parts; it is zero with other losses. Costs are for training only.

        Parameters
        ----------
        scores, lengths, mask, **additional
            As in `forward`.

        Returns
        -------
        structures : list
            For each sample its structure in the form in which the structure decodes (a graph: an assignment), without
            padding; None for a sample of which the mask or the length leaves nothing. For a single sample its
            structure, for several leading axes lists in lists.

        Raises
        ------
        ValueError
            As in `sparsemap`.

        Examples
        --------
        >>> import torch
        >>> from sklearn_sparsemap.structures import Subset
        >>> from sklearn_sparsemap.torch import FenchelYoungLoss
        >>> FenchelYoungLoss(Subset()).predict(torch.tensor([[0.6, 0.4, -1.0]]))
        [array([ True, False, False])]
        >>> FenchelYoungLoss(Subset(), "hinge").predict(torch.tensor([[0.6, 0.4, -1.0]]))
        [array([ True,  True, False])]
        """
        _, (values, joined, rows), form = self._prepare(scores, lengths, mask, additional)
        own = operator_of(self.structure, form.extra, argmax="map", n_jobs=self.n_jobs)
        cost = 0.5 if TRAINED[self.loss].argmax == "sparsemap" else 0.0
        batch = as_numpy(values), shared_as_numpy(joined), rows.cpu().numpy()
        return nest(best_of_samples(own, *batch, form.lead, cost), form.lead)


class FenchelYoungLoss(StructureLoss):
    """A loss between scores and true structures of a padded batch; see `sklearn_sparsemap.losses.FenchelYoungLoss`.

    The gradient of SparseMAP losses is differentiable once more. Inference is that of `sparsemap`, and runs in the
    forward pass only.

    Parameters
    ----------
    structure : Structure, FactorGraph, or callable
        A function makes a graph from the shape of a sample, as in `lp_sparsemap`.
    loss : {"sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"}, default="sparsemap"
        The last two are for structures only.
    temperature : float, or Tensor with one number, default=1.0
        Factor of the regulariser and of the cost. A `torch.nn.Parameter` is learned.
    reduction : {"mean", "sum", "none"}, default="mean"
        Over the samples. The mean over an empty batch is NaN, as in PyTorch.
    cost : array-like of shape (n_labels, n_labels), default=None
        Costs for structures of labels, in losses with a margin.
    max_iter : int, default=None
        None is exact; see `sparsemap`.
    n_jobs : int, default=None
        Number of threads over the samples.
    tol : float, default=1e-9
        Duality gap.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> from sklearn_sparsemap.torch import FenchelYoungLoss
    >>> scores = torch.tensor([[[1.0, 0.5], [0.0, 0.0]], [[1.0, 2.0], [9.0, 9.0]]], requires_grad=True)
    >>> loss = FenchelYoungLoss(LinearChain(), reduction="none")
    >>> values = loss(scores, torch.tensor([[0, 1], [0, 0]]), lengths=torch.tensor([2, 1]))
    >>> values.tolist()
    [0.3125, 1.0]
    >>> values.sum().backward()
    >>> scores.grad[1].tolist()
    [[-1.0, 1.0], [0.0, 0.0]]
    """

    def __init__(
        self,
        structure: Structure | FactorGraph | Callable[[tuple[int, ...]], FactorGraph],
        loss: str = "sparsemap",
        temperature: float | Tensor = 1.0,
        reduction: str = "mean",
        *,
        cost: Any = None,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        tol: float = 1e-9,
    ) -> None:
        super().__init__(structure, loss, temperature, reduction, cost=cost, max_iter=max_iter, n_jobs=n_jobs, tol=tol)


class ExpectedCost(StructureLoss):
    """The expected cost of structures of a padded batch; see `sklearn_sparsemap.losses.ExpectedCost`.

    It is smooth but not convex: train with ``FenchelYoungLoss(structure, "crf")`` first. It is not differentiable more
    than once.

    Parameters
    ----------
    structure : Structure
        It needs Gibbs marginals.
    temperature : float, or Tensor with one number, default=1.0
        Divides the scores. A `torch.nn.Parameter` is learned.
    reduction : {"mean", "sum", "none"}, default="mean"
        Over the samples. The mean over an empty batch is NaN, as in PyTorch.
    cost : array-like of shape (n_labels, n_labels), default=None
        Costs for structures of labels.
    n_jobs : int, default=None
        Number of threads over the samples.

    Examples
    --------
    >>> import torch
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> from sklearn_sparsemap.torch import ExpectedCost
    >>> scores = torch.tensor([[[2.0, 0.0], [0.0, 0.0]]], requires_grad=True)
    >>> loss = ExpectedCost(LinearChain())(scores, torch.tensor([[0, 1]]))
    >>> round(loss.item(), 3)
    0.619
    >>> loss.backward()
    >>> [[round(g, 3) for g in row] for row in scores.grad[0].tolist()]
    [[-0.105, 0.105], [0.25, -0.25]]
    """

    _accepted = TRAINED

    def __init__(
        self,
        structure: Structure,
        temperature: float | Tensor = 1.0,
        reduction: str = "mean",
        *,
        cost: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        options = {"max_iter": None, "n_jobs": n_jobs, "tol": 1e-9}
        super().__init__(structure, "expected_cost", temperature, reduction, cost=cost, **options)

    def _losses(self, scores, additional, rows, gold, handle, lead):
        marginals = solver()(scores, additional, rows, lead, handle)[0]
        costs = (marginals * gold.cost.reshape(scores.shape)).flatten(1).sum(1)
        losses = costs + gold.missing * gold.parts.flatten(1).sum(1)
        # Rounding can make the cost of a certain structure negative.
        return losses + (losses.clamp(min=0.0) - losses).detach()


def _handle_of_loss(structure, loss, extra, tol, max_iter, n_jobs):
    return loss_operator(structure, loss, extra, tol=tol, max_iter=max_iter, n_jobs=n_jobs).handle


def _handle_of_gold(structure, cost, *options):
    return register("gold", structure, cost, *options).handle
