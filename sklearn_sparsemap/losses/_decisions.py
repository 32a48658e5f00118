"""Losses of predicted values that measure the resulting decisions: SPO+, its smooth version, and the perturbed loss.

All are Fenchel-Young losses whose gold structure is the optimal decision for the true values v. Their scores depend on
the predicted values u: they are 2 u - v (SPO+), or u plus noise.

Used by `estimators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import check_random_state

from .._core.annotations import Any, ArrayLike, NDArray
from .._core.validation import check_n_jobs, check_positive, check_scores
from ..inference._decisions import check_decisions, check_values, decisions_of
from ._recipes import Recipe, check_quotient, fenchel_young

if TYPE_CHECKING:
    from ..factors import FactorGraph
    from ..structures import Structure


class SPOPlusLoss:
    """SPO+, a convex upper bound of the regret of decisions, and its smooth version by SparseMAP.

    The regret of predicted values u is the value that is lost if decisions maximise u instead of the true values v.
    SPO+ [1]_ is the perceptron loss at the scores ``2 u - v``; the true structure is the best one for v. Its smooth
    version is the SparseMAP loss [2]_ at these scores.

    Parameters
    ----------
    structure : Structure, FactorGraph, or list of these
        The set of possible decisions, of all samples or a list with that of each sample. For a graph, the losses are
        those of its linear relaxation.
    temperature : float, default=0.0
        Factor of SparseMAP's regulariser, in units of the values. Larger values are smoother; 0 gives SPO+ itself.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    .. [1] Elmachtoub and Grigas. Smart "Predict, then Optimize". Management Science, 2022.
    .. [2] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap.losses import SPOPlusLoss
    >>> from sklearn_sparsemap.structures import Subset
    >>> two_of_three = Subset(2, 2)
    >>> losses, gradient = SPOPlusLoss(two_of_three).loss_gradient([[1.0, 2.0, 3.0]], [[3.0, 1.0, 2.0]])
    >>> losses.tolist(), gradient.tolist()
    ([4.0], [[-2.0, 2.0, 0.0]])
    """

    def __init__(self, structure: Structure | FactorGraph | list[Any], temperature: float = 0.0) -> None:
        check_positive("temperature", temperature, zero=True)
        self.structure = structure
        self.temperature = float(temperature)

    def loss_gradient(
        self, predicted: ArrayLike, values: ArrayLike, decisions: ArrayLike | None = None, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the losses and their gradients.

        Parameters
        ----------
        predicted : array-like of shape (n_samples, n_parts)
            Predicted values. If the scores of the structure have several axes, these replace the axis of parts, in all
            arrays.
        values : array-like of shape (n_samples, n_parts)
            True values, which are maximised; -inf forbids a part.
        decisions : array-like of shape (n_samples, n_parts), default=None
            Optimal decisions for the true values, 0 and 1. By default, they are computed at each call.
        n_jobs : int, default=None
            Number of threads over the samples.

        Returns
        -------
        losses : array of shape (n_samples,)
        gradient : array of shape (n_samples, n_parts)
            With respect to `predicted`.

        Raises
        ------
        ValueError
            If shapes do not match, numbers are not finite, or all decisions of a sample are forbidden.
        """
        check_n_jobs(n_jobs)
        v = check_values(self.structure, values, "values")
        u = _check_predicted(predicted, v)
        if self.temperature > 0.0:
            check_quotient(self.temperature, u, v)
        problems = decisions_of(self.structure, v.shape[1:])
        flat = v.reshape(len(v), -1)
        gold = problems.best(flat, n_jobs) if decisions is None else _flat_decisions(decisions, v)
        losses, gradient = spo_plus(problems, u.reshape(flat.shape), flat, gold, self.temperature, n_jobs)
        return losses, gradient.reshape(v.shape)


class PerturbedFenchelYoungLoss:
    """The perturbed Fenchel-Young loss: the mean of the perceptron loss under normal noise of the scores.

    Its gradient [1]_ is the mean of the optimal decisions under noise, minus the true decision. It needs the true
    decisions, but no true values.

    Parameters
    ----------
    structure : Structure, FactorGraph, or list of these
        As in `SPOPlusLoss`.
    sigma : float, default=1.0
        Standard deviation of the noise, in units of the values. Larger values are smoother.
    n_samples : int, default=10
        Number of draws of the noise for each sample. Time is proportional to it.
    random_state : int, RandomState or None, default=None
        Seed of the noise. With an int, all calls use the same noise.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    References
    ----------
    .. [1] Berthet, Blondel, Teboul, Cuturi, Vert and Bach. Learning with Differentiable Perturbed Optimizers. NeurIPS
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap.losses import PerturbedFenchelYoungLoss
    >>> from sklearn_sparsemap.structures import Subset
    >>> loss = PerturbedFenchelYoungLoss(Subset(1, 1), sigma=0.1, n_samples=5, random_state=0)
    >>> losses, gradient = loss.loss_gradient([[1.0, 2.0, 3.0]], [[0, 0, 1]])
    >>> losses.tolist(), gradient.tolist()
    ([0.0], [[0.0, 0.0, 0.0]])
    """

    def __init__(
        self,
        structure: Structure | FactorGraph | list[Any],
        sigma: float = 1.0,
        n_samples: int = 10,
        *,
        random_state: Any = None,
    ) -> None:
        check_positive("sigma", sigma)
        check_positive("n_samples", n_samples, integer=True)
        self.structure, self.sigma, self.n_samples, self.random_state = structure, sigma, n_samples, random_state

    def loss_gradient(
        self, predicted: ArrayLike, decisions: ArrayLike, *, n_jobs: int | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the losses and their gradients.

        Parameters
        ----------
        predicted : array-like of shape (n_samples, n_parts)
            Predicted values; -inf forbids a part.
        decisions : array-like of shape (n_samples, n_parts)
            Gold decisions, 0 and 1: those that are optimal for the true values.
        n_jobs : int, default=None
            Number of threads over the samples.

        Returns
        -------
        losses : array of shape (n_samples,)
        gradient : array of shape (n_samples, n_parts)
            With respect to `predicted`.

        Raises
        ------
        ValueError
            As in `SPOPlusLoss.loss_gradient`.
        """
        check_n_jobs(n_jobs)
        u = check_values(self.structure, predicted, "predicted")
        gold = _flat_decisions(decisions, u)
        flat = u.reshape(len(u), -1)
        problems = decisions_of(self.structure, u.shape[1:])
        rng = check_random_state(self.random_state)
        losses, gradient = perturbed(problems, flat, gold, self.sigma, self.n_samples, rng, n_jobs)
        return losses, gradient.reshape(u.shape)


def spo_plus(problems, predicted, values, gold, temperature, n_jobs=None):
    """Compute SPO+ losses; at a positive temperature, their smooth version.

    Parameters
    ----------
    problems : StructureDecisions or another class of inference/_decisions.py
    predicted, values, gold : arrays of shape (n_samples, n_parts)
        Predicted values, true values, and optimal decisions for the true values.
    temperature : float
    n_jobs : int or None

    Returns
    -------
    losses : array of shape (n_samples,)
    gradient : array of shape (n_samples, n_parts)
        With respect to `predicted`.
    """
    scores = np.where(values > -np.inf, 2.0 * predicted - values, -np.inf)
    losses, residuals = _fenchel_young(problems, scores, gold, temperature, n_jobs)
    return losses, 2.0 * residuals


def perturbed(problems, predicted, gold, sigma, n_draws, rng, n_jobs=None):
    """Compute perturbed Fenchel-Young losses: means over `n_draws` draws of the noise.

    Parameters
    ----------
    problems, predicted, gold, n_jobs
        As in `spo_plus`.
    sigma : float
        Standard deviation of the noise.
    n_draws : int
    rng : RandomState

    Returns
    -------
    losses, gradient
        As in `spo_plus`.
    """
    losses = np.zeros(len(predicted))
    gradient = np.zeros_like(predicted)
    for _ in range(n_draws):
        scores = predicted + sigma * rng.normal(size=predicted.shape)
        own, residuals = _fenchel_young(problems, scores, gold, 0.0, n_jobs)
        losses += own / n_draws
        gradient += residuals / n_draws
    return losses, gradient


def _fenchel_young(problems, scores, gold, temperature, n_jobs):
    """Return losses and their gradients with respect to the scores: of SparseMAP or, at temperature 0, of MAP."""
    argmax, scale = ("sparsemap", temperature) if temperature > 0.0 else ("map", 1.0)
    scores = scores / scale
    marginals, optima = problems.argmax(argmax, scores, n_jobs)
    gold_scores = (np.where(gold > 0.0, scores, 0.0) * gold).sum(axis=1)
    losses = fenchel_young(Recipe(argmax, False), optima, (gold**2).sum(axis=1), 0.0, gold_scores)
    # Rounding can make the loss of a fitted sample negative.
    return scale * np.maximum(losses, 0.0), marginals - gold


def _check_predicted(predicted, values):
    found = check_scores(predicted, values.ndim, "predicted")
    if found.shape != values.shape:
        raise ValueError(f"predicted has shape {found.shape}, but the values have {values.shape}")
    return found


def _flat_decisions(decisions, values):
    return check_decisions(decisions, values).reshape(len(values), -1)
