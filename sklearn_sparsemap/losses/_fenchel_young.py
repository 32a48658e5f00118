"""Losses between scores and a gold structure, and their gradients: Fenchel-Young losses and the expected cost.

A Fenchel-Young loss (Niculae et al. 2018, section 4) is defined by a regulariser Omega and its regularised argmax q*::

    loss(scores; gold) = max_q [scores.q - Omega(q)] + Omega(gold) - scores.gold,     gradient = q* - gold

Value and gradient are implemented once, in _kernel.py, for the public class and the training kernels. The regularised
argmax (SparseMAP, MAP or Gibbs marginals) is passed as a first-class function. The expected cost is in
_expected_cost.py.

Used by `_layers`, `_training` and `estimators`.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from functools import partial, singledispatch
from typing import Literal, overload

import numpy as np

from .._core.annotations import AdditionalScores, Any, ArrayLike, NDArray
from .._core.errors import SampleError
from .._core.jit import readonly
from .._core.offsets import offsets
from .._core.tables import aligned
from .._core.threads import over_ranges
from .._core.validation import check_choice, check_n_jobs, check_numbers, check_positive, check_same_length
from .._numerics.competence import READY, REPLACED, always
from .._numerics.polytope_solver import solver_of, solvers_of
from ..factors import FactorGraph
from ..inference._batch import OTHER_ARGMAXES, check_feasible, marginal_oracle_of
from ..inference._problems import batch_of
from ..structures import Structure
from ..structures._base import check_structure
from ._expected_cost import expected_costs_of_range
from ._graphs import graph_loss_gradient
from ._kernel import Losses, LossForm, join_gold, losses_of_range, new_memory
from ._recipes import LOSSES, TRAINED, check_quotient


class FenchelYoungLoss:
    """A loss between scores and a true structure, with its gradient.

    The loss is ``max_q [scores.q - Omega(q)] + Omega(gold) - scores.gold`` for a regulariser Omega. Its gradient is the
    regularised argmax minus the true structure.

    Parameters
    ----------
    structure : Structure or FactorGraph
        The structure. For a graph, SparseMAP and MAP are those of its linear relaxation.
    name : {"sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"}, default="sparsemap"
        The regulariser, and with it the inference that computes the argmax: ``1/2 |u|^2`` and `sparsemap`; zero and
        `map_inference` (perceptron, hinge); negative entropy and `marginal_inference` (crf). In the losses named
        ``margin_``, and the structured hinge loss, the regulariser also subtracts the cost of wrong structures, so
        inference adds the cost to the scores. The loss is then zero only if the true structure's score exceeds that of
        each other structure by its cost.
    temperature : float, default=1.0
        Factor of the regulariser and of the cost: ``loss_t(scores) = t * loss_1(scores / t)``. Small values approach
        the structured perceptron.
    cost : array-like of shape (n_labels, n_labels), default=None
        For structures made of labels: the cost of predicting the label of the column if the label of the row is true,
        not negative, and 0 on the diagonal. By default, each part that the true structure lacks costs 1. If structures
        differ in their number of parts, each missing true part costs 1, too. (Otherwise a wrong part implies a missing
        one.)
    tol : float, default=1e-9
        Largest duality gap of the inference.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the loss is a crf loss and the structure has no Gibbs marginals.

    Examples
    --------
    >>> from sklearn_sparsemap.losses import FenchelYoungLoss
    >>> from sklearn_sparsemap.structures import Simplex
    >>> loss, gradient = FenchelYoungLoss(Simplex()).loss_gradient([1.0, 0.5, -2.0], 0)
    >>> loss, gradient["scores"].tolist()
    (0.0625, [-0.25, 0.25, 0.0])
    """

    def __init__(
        self,
        structure: Structure | FactorGraph,
        name: Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"] = "sparsemap",
        *,
        temperature: float = 1.0,
        cost: ArrayLike | None = None,
        tol: float = 1e-9,
    ) -> None:
        check_choice("loss", name, LOSSES)
        check_positive("temperature", temperature)
        check_positive("tol", tol)
        self.structure = structure
        self.name = name
        self.temperature = float(temperature)
        self.cost = cost
        self.tol = tol
        self._loss_gradient = _loss_of(structure, name, self.temperature, cost, tol)

    @overload
    def loss_gradient(
        self,
        scores: NDArray[Any],
        gold: Any,
        *,
        n_jobs: int | None = None,
        **additional: AdditionalScores | dict[str, Any],
    ) -> tuple[float, dict[str, Any]]: ...
    @overload
    def loss_gradient(
        self, scores: Any, gold: Any, *, n_jobs: int | None = None, **additional: AdditionalScores | dict[str, Any]
    ) -> Any: ...
    def loss_gradient(self, scores: Any, gold: Any, *, n_jobs: int | None = None, **additional: Any) -> Any:
        """Return the loss and its gradient.

        Parameters
        ----------
        scores : array-like, or a list of them
            The scores of a sample, or of several, as in `sparsemap`.
        gold : structure, or a list of them
            The true structure, in the form that inference returns. For a graph: an assignment, True and False or 1 and
            0, in the shape of the variables, or a dict of these.
        n_jobs : int, default=None
            Number of threads over the samples of a list.
        **additional : array-like
            Additional scores, as in `sparsemap`. For a graph ``additional``, as in `lp_sparsemap`.

        Returns
        -------
        loss : float
        gradient : dict of str -> ndarray
            Gradients with respect to ``"scores"`` and to each given additional score; for a graph to ``"scores"`` and
            ``"additional"``. For a list of samples, a list of pairs (loss, gradient) is returned.

        Raises
        ------
        ValueError
            If the scores are invalid for `sparsemap`, or `gold` is not a structure of the problem.
        """
        check_n_jobs(n_jobs)
        return self._loss_gradient(scores, gold, additional, n_jobs)


class ExpectedCost:
    """The expected cost of a structure drawn from the Gibbs distribution of the scores: minimum-risk training.

    The loss is that of [1]_.

    It is ``sum_s p(s) cost(s, gold)`` with ``p(s) = exp(score(s) / temperature) / Z``, in the unit of the cost. So
    unlike the losses of `FenchelYoungLoss` it depends on the cost of wrong structures directly, and it is at most the
    largest cost. It is smooth, but not convex: where the distribution is certain of a wrong structure, the gradient
    vanishes. Start from the scores of a model that was trained with another loss, such as crf.

    Parameters
    ----------
    structure : Structure
        The structure. It needs Gibbs marginals, see `marginal_inference`.
    temperature : float, default=1.0
        Divides the scores. At small values the loss approaches the cost of the best structure.
    cost : array-like of shape (n_labels, n_labels), default=None
        As in `FenchelYoungLoss`. By default, wrong parts are counted, and missing parts, too, if structures differ in
        their number of parts.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the structure has no Gibbs marginals.

    References
    ----------
    .. [1] Smith and Eisner. Minimum Risk Annealing for Training Log-Linear Models. COLING/ACL 2006.

    Examples
    --------
    >>> from sklearn_sparsemap.losses import ExpectedCost
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> loss, gradient = ExpectedCost(LinearChain()).loss_gradient([[2.0, 0.0], [0.0, 0.0]], [0, 1])
    >>> round(loss, 3), gradient["scores"].round(3).tolist()
    (0.619, [[-0.105, 0.105], [0.25, -0.25]])
    """

    def __init__(
        self,
        structure: Structure,
        *,
        temperature: float = 1.0,
        cost: ArrayLike | None = None,
    ) -> None:
        check_positive("temperature", temperature)
        self.structure = structure
        self.temperature = float(temperature)
        self.cost = cost
        self._loss_gradient = _loss_of(structure, "expected_cost", self.temperature, cost, 0.0)

    def loss_gradient(
        self, scores: Any, gold: Any, *, n_jobs: int | None = None, **additional: AdditionalScores
    ) -> Any:
        """Return the expected cost and its gradient.

        Parameters
        ----------
        scores, gold, n_jobs, **additional
            As in `FenchelYoungLoss.loss_gradient`.

        Returns
        -------
        loss : float
        gradient : dict of str -> ndarray
            As `FenchelYoungLoss.loss_gradient` returns it; its relative error is about 1e-10. For a list of samples, a
            list of pairs (loss, gradient) is returned.

        Raises
        ------
        ValueError
            As in `FenchelYoungLoss.loss_gradient`.
        """
        check_n_jobs(n_jobs)
        return self._loss_gradient(scores, gold, additional, n_jobs)


@singledispatch
def _loss_of(structure, name, temperature, cost, tol):
    """Return a function of scores, gold, additional scores and `n_jobs`: the loss and its gradient."""
    check_structure(structure)


@_loss_of.register(Structure)
def _(structure, name, temperature, cost, tol):
    form = loss_form(structure, name, temperature, cost)
    return partial(structure_loss_gradient, structure, Inference(structure, name), form, tol)


@_loss_of.register(FactorGraph)
def _(graph, name, temperature, cost, tol):
    check_loss(graph, name, cost)
    return partial(graph_loss_gradient, graph, name, temperature)


def structure_loss_gradient(structure, inference, form, tol, scores, gold, additional, n_jobs):
    """Return the loss and its gradient, for one sample or many; see `FenchelYoungLoss.loss_gradient`.

    Parameters
    ----------
    structure : Structure
    inference : Inference
    form : LossForm
    tol : float
    scores, gold, additional, n_jobs
        As in `FenchelYoungLoss.loss_gradient`.
    """
    batch, many, _ = batch_of(structure, scores, additional)
    problems = batch.problems
    golds = gold if many else [gold]
    encoded = []
    check_same_length(batch, golds, ("scores", "gold"))
    check_quotient(form.temperature, problems.scores, problems.additional)
    for i, (dims, own) in enumerate(zip(problems.dims, golds)):
        try:
            encoded.append(structure.encode(own, dims))
        except ValueError as error:
            raise SampleError("gold", i if many else None, f": {error}") from error
    n_labels = math.isqrt(len(form.cost))
    for shape in batch.problem_shapes:
        if n_labels not in (0, shape.shape[-1]):
            raise ValueError(f"cost has shape {(n_labels, n_labels)}, but there are {shape.shape[-1]} labels")
    extra_ptr = offsets(problems.additional_stop - problems.additional_start)
    out = Losses(np.empty(len(batch)), np.empty(len(problems.scores)), np.empty(extra_ptr[-1]))
    losses, residuals, additional_residuals = out
    memory = new_memory(problems.sizes, 0)
    joined = join_gold(encoded)

    of_range = expected_costs_of_range if inference.is_expectation else losses_of_range

    def run():
        arguments = *inference.arguments, form, problems, joined, tol, memory
        over_ranges(
            lambda start, stop: of_range(*arguments, start, stop, out),
            np.diff(problems.score_ptr),
            n_jobs,
            limit=memory.limit,
        )

    run()
    if memory.later[0]:
        inference.prepare(memory)
        run()
    check_feasible(~np.isnan(losses), many, structure, problems)
    if np.isinf(losses).any():
        i = int(np.argmax(np.isinf(losses)))
        raise SampleError("gold", i if many else None, " is forbidden: one of its parts has a score of -inf")
    pairs = []
    for i, (loss, shape) in enumerate(zip(losses.tolist(), batch.shapes)):
        unary = residuals[problems.score_ptr[i] : problems.score_ptr[i + 1]].reshape(shape)
        extra = additional_residuals[extra_ptr[i] : extra_ptr[i + 1]]
        pairs.append((loss, {"scores": unary, **batch.split_additional(extra, i)}))
    return pairs if many else pairs[0]


class Inference:
    """The compiled functions of the regularised argmax of a loss, or of the distribution of an expected cost.

    A specialised solver takes seconds to compile, and many losses never need it. So kernels get it only after
    `prepare`, when a sample needed it. Until then the active set solves all samples.

    Parameters
    ----------
    structure : Structure
    name : str
        Name of the loss.

    Attributes
    ----------
    arguments : tuple
        The oracle and the `Solvers`, as kernels take them.
    is_expectation : bool
        Whether the loss is the expected cost, which needs the oracle only.
    """

    def __init__(self, structure, name):
        argmax, _, self.is_expectation = TRAINED[name]
        self._own = None
        self._by_structures = OTHER_ARGMAXES.get(argmax)
        self._oracle = structure.oracle
        if argmax == "sparsemap":
            self._own = structure.polytope_solver
            self._by_structures = solver_of(self._own)
        elif argmax == "gibbs":
            self._oracle = marginal_oracle_of(structure, f"loss={name!r}")
        # Closed forms solve all samples, and compile fast.
        is_closed_form = self._own is not None and self._own.before is always
        readiness = READY if is_closed_form else REPLACED
        self.arguments = self._oracle, solvers_of(self._own, self._by_structures, readiness)

    def prepare(self, memory):
        """Give kernels the specialised solver from now on; reset the flags of the memory."""
        memory.later[:] = 0
        self.arguments = self._oracle, solvers_of(self._own, self._by_structures)


def check_loss(structure, name, cost=None):
    """Raise ValueError for a loss that a structure or a graph does not have; its cost is None, or any other."""
    if TRAINED[name].argmax == "gibbs":
        marginal_oracle_of(structure, f"loss={name!r}")
    if cost is not None and not structure.labelled:
        raise ValueError(f"cost is for structures made of labels, which {structure!r} is not; leave it at None")
    if cost is not None and not TRAINED[name].margin:
        raise ValueError(f"loss={name!r} takes no cost; use one with a margin, such as 'margin_sparsemap'")


def loss_form(structure, name, temperature, cost, n_labels=None):
    """Check the cost, and return a loss in the form that kernels take.

    Raises
    ------
    ValueError
        If the cost is invalid (see `FenchelYoungLoss`), or is given for a loss without margin.
    """
    flat = np.zeros(0)
    check_loss(structure, name, cost)
    if cost is not None:
        labels = list(range(len(cost))) if isinstance(cost, Sized) else []
        whose = "the numbers of the labels, which have no names here"
        matrix = check_numbers(aligned(cost, labels, labels, name="cost", whose=whose), "cost")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or n_labels not in (None, len(matrix)):
            wanted = "(n_labels, n_labels)" if n_labels is None else f"({n_labels}, {n_labels})"
            raise ValueError(f"cost must have shape {wanted}; got {matrix.shape}")
        if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diagonal(matrix).any():
            raise ValueError("cost must be finite, not negative, and 0 on the diagonal")
        flat = matrix.ravel()
    recipe = TRAINED[name]
    # If all structures have the same size, each wrong part implies a missing one, so only wrong parts are counted.
    # Otherwise, and if parts can repeat, missing parts count, too. `_layers/losses.py` has the same rule.
    missing = recipe.margin and cost is None and (structure.repeats or not structure.fixed_size)
    return LossForm(
        float(temperature), float(recipe.argmax == "sparsemap"), float(recipe.margin), float(missing), readonly(flat)
    )
