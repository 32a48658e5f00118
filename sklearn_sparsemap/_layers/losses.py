"""Losses in layers: their operators, and gold structures as arrays."""

from typing import NamedTuple

import numpy as np

from ..factors import FactorGraph
from ..inference._batch import marginal_oracle_of
from ..losses._fenchel_young import loss_form
from ..losses._graphs import check_graph_loss, gold_parts
from ..losses._recipes import LOSSES
from .graphs import GraphOperator, put_joint
from .padding import kinds_of
from .register import operator_of
from .samples import naming, nonempty, place_of


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
    argmax, is_graph = LOSSES[name].argmax, isinstance(what, FactorGraph) or callable(what)
    if is_graph:
        check_graph_loss(name, cost)
    elif argmax == "gibbs":
        marginal_oracle_of(what, f"loss={name!r}")
    max_iter = max_iter if argmax == "sparsemap" else None
    return operator_of(what, extra, argmax=argmax, tol=tol, max_iter=max_iter, n_jobs=n_jobs)


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
    n_samples, n_padded = len(rows), int(np.prod(padded))
    if len(y) != n_samples:
        raise ValueError(f"y holds {len(y)} structures for {n_samples} samples; pass one for each")
    gold = Gold(*(np.zeros(shape) for shape in ((n_samples, n_padded), (n_samples, operator.n_additional))),
                np.zeros(n_samples), np.zeros((n_samples, n_padded)))  # fmt: skip
    samples = np.flatnonzero(nonempty(rows))
    if not len(samples):
        return gold
    with naming(samples, lead):
        shapes, kinds = kinds_of(operator.shapes_of(padded, rows[samples, 1:]))
    of_graphs = isinstance(operator, GraphOperator)
    if not of_graphs:
        form = loss_form(operator.structure, name, 1.0, cost, padded[-1] if cost is not None else None)
    for i, k in zip(samples, kinds):
        kind = operator.kind_of(padded, shapes[k])
        try:
            if of_graphs:
                own = y[i] if isinstance(y[i], dict) else _cut(y[i], shapes[k])
                parts, joint = gold_parts(kind.layout.graph, kind.layout, own)
                gold.parts[i, kind.columns] = parts
                put_joint(kind, np.array([i]), joint[None], gold.additional)
            else:
                own = _cut(y[i], shapes[k][1:2] if operator.structure.extra_rows else shapes[k][:1])
                slots, extra_slots = operator.structure.encode(own, np.array(kind.plan.dims, np.int64))
                np.add.at(gold.parts[i], np.flatnonzero(kind.mask)[slots[slots >= 0]], 1.0)
                np.add.at(gold.additional[i], np.flatnonzero(kind.extra_mask)[extra_slots[extra_slots >= 0]], 1.0)
        except ValueError as error:
            raise ValueError(f"y{place_of(i, lead)}: {error}") from error
        if not LOSSES[name].margin:
            continue
        if of_graphs:
            gold.missing[i], wrong = not kind.layout.fixed_size, 1.0
            gold.cost[i, kind.columns] = 1.0
        else:
            gold.missing[i] = form.missing
            # If parts can repeat (rankings), only missing parts have a cost.
            wrong = 0.0 if operator.structure.repeats else 1.0
            gold.cost[i, kind.mask] = wrong
        gold.cost[i] -= (wrong + gold.missing[i]) * gold.parts[i]
    if cost is not None:
        m = padded[-1]
        gold.cost[:] = (gold.parts.reshape(-1, m) @ np.reshape(form.cost, (m, m))).reshape(n_samples, -1)
    return gold


def _cut(structure, shape):
    """Return a structure without its padding, if it is an array."""
    array = np.asarray(structure)
    if array.ndim == 0 or array.ndim < len(shape):
        return structure if array.ndim else array[()]
    return array[tuple(slice(n) for n in shape)]
