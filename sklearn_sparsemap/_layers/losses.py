"""Losses in layers: their operators, and gold structures as arrays.

Used by `torch`.
"""

from math import prod
from typing import NamedTuple

import numpy as np

from .._core.errors import SampleError
from ..losses._fenchel_young import check_loss, loss_form
from ..losses._recipes import TRAINED
from .entry import Registered
from .padding import distinct_rows
from .register import maker, operator_of
from .samples import naming, nonempty, position


class Gold(NamedTuple):
    """Gold structures of a padded batch.

    Attributes
    ----------
    parts : array of shape (n_samples, n_padded)
        1 for the parts of gold, or their number of occurrences if parts repeat.
    additional : array of shape (n_samples, n_additional)
        Number of occurrences of each additional part.
    missing : array of shape (n_samples,)
        Cost of a missing part.
    cost : array of shape (n_samples, n_padded)
        Terms that losses with a margin add to the scores.

    The operator in `torch/_gold.py` returns these in this order, and repeats their shapes.
    """

    parts: np.ndarray
    additional: np.ndarray
    missing: np.ndarray
    cost: np.ndarray


def loss_operator(what, name, extra, *, cost=None, tol=1e-9, max_iter=None, n_jobs=None):
    """Return the operator of the regularised argmax of a loss.

    Raises
    ------
    ValueError
        If the structure or graph has no such loss.
    """
    argmax = TRAINED[name].argmax
    max_iter = max_iter if argmax == "sparsemap" else None
    operator = operator_of(what, extra, argmax=argmax, tol=tol, max_iter=max_iter, n_jobs=n_jobs)
    check_loss(operator.structure, name, cost)
    return operator


class GoldReader(Registered):
    """Reads the gold structures of a loss. Traced programs refer to it by its `handle`, as to an `Operator`.

    Parameters
    ----------
    operator, name, cost
        As in `gold_of`.
    """

    def __init__(self, operator, name, cost=None):
        self._operator, self._name, self._cost = operator, name, cost

    def read(self, y, scores, additional, rows, lead):
        """Return `Gold`; raise ValueError also if gold is forbidden. See `gold_of` and `solve_samples`."""
        gold = gold_of(self._operator, self._name, y, scores.shape[1:], rows, lead, cost=self._cost)
        _check_allowed(gold.parts, scores, lead, "y")
        _check_allowed(gold.additional, additional, lead, "y")
        return gold


@maker("gold")
def _make_reader(what, cost, name, *args):
    return GoldReader(_make_loss(what, name, cost, *args), name, cost)


@maker("decisions")
def _make_decision_reader(what, name, *args):
    return DecisionReader(_make_loss(what, name, None, *args))


def _make_loss(what, name, cost, extra, tol, max_iter, n_jobs):
    return loss_operator(what, name, extra, cost=cost, tol=tol, max_iter=max_iter, n_jobs=n_jobs)


class ReaderOf(Registered):
    """Reads gold structures that are no arrays; see `GoldReader`.

    Parameters
    ----------
    reader : GoldReader
    y : list of structures
        It is repeated if `vmap` has added samples.
    """

    def __init__(self, reader, y):
        self._reader, self._y = reader, y

    def read(self, _, scores, additional, rows, lead):
        """Return `Gold`."""
        n_times = len(scores) // len(self._y) if self._y else 1
        return self._reader.read(list(self._y) * n_times, scores, additional, rows, lead)


class DecisionReader(Registered):
    """Reads decisions, which are arrays of 0 and 1 in the shape of the scores; see `GoldReader`.

    Graphs also have fractional decisions, those of their linear relaxation. These are not compared with the factors,
    nor are decisions with the oracle of a `CustomStructure`.

    Parameters
    ----------
    operator : StructureOperator or GraphOperator
    """

    def __init__(self, operator):
        self._operator = operator

    def read(self, decisions, scores, additional, rows, lead):
        """Return `Gold`.

        Raises
        ------
        ValueError
            If decisions are no counts, forbidden, or no structures; the message names the sample.
        """
        flat = decisions.reshape(len(scores), prod(scores.shape[1:]))
        wrong = ~(flat >= 0.0) | (flat != np.round(flat))
        if wrong.any() and not self._operator.of_factors:
            place = position(int(np.argwhere(wrong)[0, 0]), lead)
            raise SampleError("decisions", place, "decisions must be 0 and 1; ", f" has {flat[wrong][0]}")
        _check_allowed(flat, scores, lead, "decisions")
        self._operator.check_decisions(flat, np.flatnonzero(nonempty(rows)), scores.shape[1:], rows, lead)
        return Gold(flat, np.zeros(additional.shape), np.zeros(len(flat)), np.zeros(flat.shape))


def _check_allowed(parts, scores, lead, what):
    """Raise ValueError if gold has a part with a score of -inf."""
    wrong = ((parts > 0.0) & (scores.reshape(parts.shape) == -np.inf)).any(axis=1)
    if wrong.any():
        place = position(int(np.argmax(wrong)), lead)
        raise SampleError(what, place, " is forbidden: one of its parts is masked, or has a score of -inf")


def gold_of(operator, name, y, padded, rows, lead, *, cost=None):
    """Write gold structures as arrays.

    Parameters
    ----------
    operator : StructureOperator or GraphOperator
    name : str
        Name of the loss.
    y : sequence
        One structure for each sample; arrays may be padded.
    padded : tuple of int
        Shape of the padded scores of a sample.
    rows : array of shape (n_samples, 1 + n_lengths)
        As in `solve_samples`. Gold structures of empty samples are not read.
    lead : tuple of int
        The leading axes of the scores.
    cost : array-like or None
        As in `losses.FenchelYoungLoss`.

    Raises
    ------
    ValueError
        If the number of gold structures is wrong, or one is not a structure of its problem; the message names it.
    """
    n_samples = len(rows)
    n_padded = int(np.prod(padded))
    if len(y) != n_samples:
        raise ValueError(f"y holds {len(y)} structures for {n_samples} samples; pass one for each")
    gold = Gold(*(np.zeros(shape) for shape in ((n_samples, n_padded), (n_samples, operator.n_additional))),
                np.zeros(n_samples), np.zeros((n_samples, n_padded)))  # fmt: skip
    samples = np.flatnonzero(nonempty(rows))
    if not len(samples):
        return gold
    with naming(samples, lead):
        shapes, kinds = distinct_rows(operator.shapes_of(padded, rows[samples, 1:]))
    structure = operator.structure
    form = None if cost is None else loss_form(structure, name, 1.0, cost, padded[-1])
    for i, k in zip(samples, kinds):
        sample = operator.sample_layout(padded, shapes[k])
        try:
            operator.encode(sample, y[i], shapes[k], gold.parts[i], gold.additional[i])
        except ValueError as error:
            raise SampleError("y", position(i, lead), f": {error}{_remedy(y[i])}") from error
        if TRAINED[name].margin:
            gold.missing[i] = cost is None and (structure.repeats or not sample.fixed_size)
            # If parts can repeat (rankings), only missing parts have a cost. `loss_form` has the same rule.
            wrong = 0.0 if structure.repeats else 1.0
            gold.cost[i, sample.entries] = wrong
            gold.cost[i] -= (wrong + gold.missing[i]) * gold.parts[i]
    if cost is not None:
        m = padded[-1]
        gold.cost[:] = (gold.parts.reshape(-1, m) @ np.reshape(form.cost, (m, m))).reshape(n_samples, -1)
    return gold


def _remedy(structure):
    """Return a remark for the message about a gold structure, if it has the form of a label that others ignore."""
    is_numeric = isinstance(structure, np.ndarray | np.generic | int) and np.asarray(structure).dtype.kind in "if"
    if not is_numeric or not (np.asarray(structure) < 0).any():
        return ""
    return ". No label stands for a sample to ignore: give it lengths 0, or a mask that allows none of its parts"
