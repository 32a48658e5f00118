"""Fenchel-Young losses: how far scores are from a gold structure, and the gradient that training follows (S 4).

A loss is a regulariser Omega with its regularised argmax q*::

    loss(scores; gold) = max_q [scores.q - Omega(q)] + Omega(gold) - scores.gold,     gradient = q* - gold

Value and gradient are written once, in `loss_of_sample`; the public class and the training kernels both call it. The
regularised argmax goes in as a first-class function: SparseMAP, MAP or Gibbs marginals.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ._jit import (
    FLOATS,
    FLOATS_OUT,
    INTS,
    INTS_OUT,
    ORACLE,
    PARTS,
    PARTS_OUT,
    copy_into,
    entry,
    kernel,
    readonly,
)
from ._threads import over_ranges
from ._validation import check_choice, check_positive, check_same_length
from .inference import as_samples, check_feasible, check_structure, join_problems, marginal_oracle_of, solver_of
from .solvers._argmax import gibbs_argmax, map_argmax
from .solvers._batch import PROBLEMS
from .solvers._protocol import SOLVER
from .solvers._support import score

# What makes a loss: its regularised argmax, and whether the cost of a wrong structure is part of its regulariser.
Recipe = namedtuple("Recipe", ["argmax", "margin"])
LOSSES = {
    "sparsemap": Recipe("sparsemap", False),
    "margin_sparsemap": Recipe("sparsemap", True),
    "perceptron": Recipe("map", False),
    "hinge": Recipe("map", True),
    "crf": Recipe("gibbs", False),
    "margin_crf": Recipe("gibbs", True),
}

# The same for the kernels. `quadratic` is 1 where the regulariser has 1/2 |u|^2, `margin` is 1 where it has the cost:
# `cost[g * m + j]` for label j in the place of g, or nothing for the number of parts that are not gold (Hamming).
LossForm = namedtuple("LossForm", ["temperature", "quadratic", "margin", "cost"])
LOSS_FORM = types.NamedTuple([types.float64, types.float64, types.float64, FLOATS], LossForm)

# The gold structures of many samples, as in structures/_base.py: sample i has slots[slot_ptr[i]:slot_ptr[i + 1]].
Gold = namedtuple("Gold", ["slots", "slot_ptr", "additional", "additional_ptr"])
GOLD = types.NamedTuple([PARTS, INTS, PARTS, INTS], Gold)

# The structures of each sample's last solution, from which its next one starts: up to `capacity` of them, at
# slots[slot_start[i]:] and so on; capacity 0 remembers nothing.
Memory = namedtuple(
    "Memory", ["capacity", "counts", "slots", "slot_start", "additional", "additional_start", "weights"]
)
MEMORY = types.NamedTuple([types.int64, INTS_OUT, PARTS_OUT, INTS, PARTS_OUT, INTS, FLOATS_OUT], Memory)

# Most calls of the oracle for a loss. Scores near zero with structures that all but tie would take many more, for a
# gain that no training would notice.
_MAX_ITER = 1000
# A loss with a larger gap than this, relative to 1 + loss, counts as not converged.
INEXACT = 1e-4


@kernel
def _remember(memory, i, slots, additional_slots, weights, k):
    """Keep the weightiest structures of a solution for the next one."""
    n_slots, n_additional = slots.shape[1], additional_slots.shape[1]
    kept = min(k, memory.capacity)
    chosen = np.zeros(k, np.bool_)
    for place in range(kept):
        s = place
        if k > kept:
            s = -1
            for r in range(k):
                if not chosen[r] and (s < 0 or weights[r] > weights[s]):
                    s = r
            chosen[s] = True
        copy_into(memory.slots[memory.slot_start[i] + place * n_slots :], slots[s])
        copy_into(memory.additional[memory.additional_start[i] + place * n_additional :], additional_slots[s])
        memory.weights[i * memory.capacity + place] = weights[s]
    memory.counts[i] = kept


@kernel
def _add_cost(scores, gold_slots, cost):
    """Add to each part what it costs to have it when this is the gold structure."""
    if cost.shape[0] == 0:
        for i in range(scores.shape[0]):
            scores[i] += 1.0
        for part in gold_slots:
            if part >= 0:
                scores[part] -= 1.0
        return
    n_labels = np.int64(round(np.sqrt(cost.shape[0])))
    for part in gold_slots:
        row, gold = part // n_labels, part % n_labels
        for j in range(n_labels):
            scores[row * n_labels + j] += cost[gold * n_labels + j]


@kernel
def loss_of_sample(
    oracle,
    solver,
    form,
    scores,
    additional,
    dims,
    sizes,
    gold_slots,
    gold_additional,
    tol,
    memory,
    i,
    weight,
    residual,
    additional_residual,
):
    """Compute the loss of sample `i` and its gradient.

    `residual` is overwritten with the gradient with respect to the scores; `weight` times the gradient with respect
    to the additional scores is added to `additional_residual`.

    Returns
    -------
    loss : float
        NaN if the scores forbid all structures, infinite if they forbid gold only.
    gap : float
        Duality gap of the inference, by which the loss may be too small.
    """
    n_slots, n_additional = sizes[0], sizes[1]
    if form.temperature != 1.0:
        scores = scores / form.temperature
        additional = additional / form.temperature
    gold_score = score(scores, additional, gold_slots, gold_additional)
    if form.margin != 0.0:
        scores = scores.copy()
        _add_cost(scores, gold_slots, form.cost)
    n_warm, first_weight = 0, 0
    if memory.capacity > 0:
        n_warm, first_weight = memory.counts[i], i * memory.capacity
    first, first_additional = memory.slot_start[i], memory.additional_start[i]
    slots, additional_slots, weights, k, objective, gap, _ = solver(
        oracle,
        scores,
        additional,
        dims,
        sizes,
        tol,
        _MAX_ITER,
        memory.slots[first : first + n_warm * n_slots].reshape((n_warm, n_slots)),
        memory.additional[first_additional : first_additional + n_warm * n_additional].reshape((n_warm, n_additional)),
        memory.weights[first_weight : first_weight + n_warm],
        residual,
    )
    if k < 0:
        objective = np.nan
        residual[:] = 0.0
    else:
        if memory.capacity > 0:
            _remember(memory, i, slots, additional_slots, weights, k)
        for s in range(k):
            share = weight * weights[s]
            for part in additional_slots[s]:
                if part >= 0:
                    additional_residual[part] += share
    gold_norm_squared = 0.0
    for part in gold_slots:
        if part >= 0:
            residual[part] -= 1.0
            gold_norm_squared += 1.0
    for part in gold_additional:
        if part >= 0:
            additional_residual[part] -= weight
    # The cost of gold itself is zero.
    loss = objective + 0.5 * form.quadratic * gold_norm_squared - gold_score
    # Rounding can make the loss of a fitted sample negative; NaN stays NaN.
    return form.temperature * (loss if not loss < 0.0 else 0.0), form.temperature * gap


@entry(
    types.void(
        ORACLE, SOLVER, LOSS_FORM, PROBLEMS, GOLD, types.float64, MEMORY, types.int64, types.int64,
        FLOATS_OUT, FLOATS_OUT, FLOATS_OUT
    )
)
def losses_of_range(
    oracle, solver, form, problems, gold, tol, memory, start, stop, losses, residuals, additional_residuals
):
    """Compute the losses and gradients of samples start..stop, each sample's additional gradient by itself."""
    offset = 0
    for i in range(start):
        offset += problems.additional_stop[i] - problems.additional_start[i]
    for i in range(start, stop):
        n_additional = problems.additional_stop[i] - problems.additional_start[i]
        losses[i], _ = loss_of_sample(
            oracle,
            solver,
            form,
            problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
            problems.dims[i],
            problems.sizes[i],
            gold.slots[gold.slot_ptr[i] : gold.slot_ptr[i + 1]],
            gold.additional[gold.additional_ptr[i] : gold.additional_ptr[i + 1]],
            tol,
            memory,
            i,
            1.0,
            residuals[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            additional_residuals[offset : offset + n_additional],
        )
        offset += n_additional


class FenchelYoungLoss:
    """A loss between scores and a gold structure, with its gradient.

    Parameters
    ----------
    structure : Structure
        What is predicted.
    name : {"sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"}, default="sparsemap"
        The regulariser Omega, and with it q*: ``1/2 |u|^2`` and `sparsemap`; zero and `map_inference` (perceptron,
        hinge); negative entropy and `marginal_inference` (crf). Those named ``margin_``, and the structured hinge loss,
        have the cost of a wrong structure taken off: gold must then be ahead of others by their cost.
    temperature : float, default=1.0
        Multiplies the regulariser, costs included: ``loss_t(scores) = t * loss_1(scores / t)``. Small values approach
        the structured perceptron.
    cost : array-like of shape (n_labels, n_labels), default=None
        For structures made of labels: what it costs to predict the label of the column where that of the row is right,
        not negative, and 0 on the diagonal. None costs 1 for each part that is not gold (the Hamming cost).
    tol : float, default=1e-9
        Duality gap of the inference.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the structure has no marginals, which crf losses need.

    Examples
    --------
    >>> from sklearn_sparsemap.losses import FenchelYoungLoss
    >>> from sklearn_sparsemap.structures import Simplex
    >>> loss, gradient = FenchelYoungLoss(Simplex()).loss_gradient([1.0, 0.5, -2.0], 0)
    >>> loss, gradient["scores"].tolist()
    (0.0625, [-0.25, 0.25, 0.0])
    """

    def __init__(self, structure, name="sparsemap", *, temperature=1.0, cost=None, tol=1e-9):
        check_choice("loss", name, LOSSES)
        check_structure(structure)
        check_positive("temperature", temperature)
        check_positive("tol", tol)
        self.structure = structure
        self.name = name
        self.temperature = float(temperature)
        self.cost = cost
        self.tol = tol
        self._form = loss_form(structure, name, temperature, cost)
        self._inference = inference_of(structure, name)

    def loss_gradient(self, scores, gold, *, n_jobs=None, **additional):
        """Return the loss and its gradient.

        Parameters
        ----------
        scores : array-like, or a list of them
            As in `sparsemap`.
        gold : structure, or a list of them
            In the form in which the structure decodes.
        n_jobs : int, default=None
            Number of threads over the samples of a list.
        **additional : array-like
            Additional scores, as in `sparsemap`.

        Returns
        -------
        loss : float
        gradient : dict of str -> ndarray
            With respect to ``"scores"`` and to each additional score that was given. Where a list came in, a list of
            such pairs is returned.

        Raises
        ------
        ValueError
            If the scores are not as `sparsemap` wants them, or `gold` is not a structure of the problem.
        """
        samples, many = as_samples(self.structure, scores, additional)
        golds = gold if many else [gold]
        check_same_length(samples, golds)
        problems = join_problems(samples)
        encoded = []
        for i, (sample, structure) in enumerate(zip(samples, golds)):
            try:
                encoded.append(self.structure.encode(structure, sample.dims))
            except ValueError as error:
                raise ValueError(f"gold[{i}]: {error}" if many else f"gold: {error}") from error
            self._check_labels(sample)
        n_additional = [len(s.additional) for s in samples]
        losses = np.empty(len(samples))
        residuals, additional_residuals = np.empty(len(problems.scores)), np.zeros(sum(n_additional))
        memory = new_memory(problems.sizes, 0)
        joined = join_gold(encoded)
        over_ranges(
            lambda start, stop: losses_of_range(
                *self._inference,
                self._form,
                problems,
                joined,
                self.tol,
                memory,
                start,
                stop,
                losses,
                residuals,
                additional_residuals,
            ),
            np.diff(problems.score_ptr),
            n_jobs,
        )
        check_feasible(~np.isnan(losses), many)
        if np.isinf(losses).any():
            which = f"gold[{int(np.argmax(np.isinf(losses)))}]" if many else "gold"
            raise ValueError(f"{which} is forbidden: one of its parts has a score of -inf")
        ends = np.cumsum(n_additional)
        pairs = [
            (
                float(losses[i]),
                {
                    "scores": residuals[problems.score_ptr[i] : problems.score_ptr[i + 1]].reshape(sample.shape),
                    **sample.split_additional(additional_residuals[ends[i] - n_additional[i] : ends[i]]),
                },
            )
            for i, sample in enumerate(samples)
        ]
        return pairs if many else pairs[0]

    def _check_labels(self, sample):
        if self.cost is not None and len(self._form.cost) != sample.shape[-1] ** 2:
            raise ValueError(f"cost has shape {np.shape(self.cost)}, but there are {sample.shape[-1]} labels")


def inference_of(structure, name):
    """Return the oracle and the solver, both compiled, that compute the regularised argmax of a loss."""
    argmax = LOSSES[name].argmax
    if argmax == "map":
        return structure.oracle, map_argmax
    if argmax == "gibbs":
        return marginal_oracle_of(structure, f"loss={name!r}"), gibbs_argmax
    return structure.oracle, solver_of(structure)


def loss_form(structure, name, temperature, cost, n_labels=None):
    """Check the cost, and lay a loss out for the kernels.

    Raises
    ------
    ValueError
        If the cost is not what `FenchelYoungLoss` asks for, or the loss has no margin for it.
    """
    flat = np.zeros(0)
    if cost is not None:
        if not LOSSES[name].margin:
            raise ValueError(f"loss={name!r} takes no cost; use one with a margin, such as 'margin_sparsemap'")
        if not structure.labelled:
            raise ValueError(f"cost is for structures made of labels, which {structure!r} is not; leave it at None")
        matrix = np.asarray(cost, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or n_labels not in (None, len(matrix)):
            wanted = "(n_labels, n_labels)" if n_labels is None else f"({n_labels}, {n_labels})"
            raise ValueError(f"cost must have shape {wanted}; got {matrix.shape}")
        if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diagonal(matrix).any():
            raise ValueError("cost must be finite, not negative, and 0 on the diagonal")
        flat = matrix.ravel()
    recipe = LOSSES[name]
    return LossForm(float(temperature), float(recipe.argmax == "sparsemap"), float(recipe.margin), readonly(flat))


def join_gold(encoded):
    """Join encoded gold structures, a list of ``(slots, additional_slots)``, for the kernels."""
    slots, additional = zip(*encoded)
    return Gold(
        readonly(np.concatenate(slots), np.int32),
        readonly(np.cumsum([0] + [len(s) for s in slots]), np.int64),
        readonly(np.concatenate(additional), np.int32),
        readonly(np.cumsum([0] + [len(a) for a in additional]), np.int64),
    )


def new_memory(sizes, max_bytes, most=16):
    """Make the memory of the samples' last solutions.

    Parameters
    ----------
    sizes : array with one row a sample
        See `Structure.layout`.
    max_bytes : int
        The memory allowed. If not even two structures a sample fit, nothing is remembered.
    most : int, default=16
        Most structures to remember of a sample.
    """
    n = len(sizes)
    a_structure = 4 * int(sizes[:, :2].sum()) + 8 * n
    capacity = min(most, max_bytes // max(a_structure, 1))
    if capacity < 2:
        capacity = 0
    starts = [readonly(np.concatenate([[0], np.cumsum(capacity * sizes[:, c])[:-1]]), np.int64) for c in (0, 1)]
    return Memory(
        capacity,
        np.zeros(n, np.int64),
        np.empty(capacity * int(sizes[:, 0].sum()), np.int32),
        starts[0],
        np.empty(capacity * int(sizes[:, 1].sum()), np.int32),
        starts[1],
        np.empty(capacity * n),
    )
