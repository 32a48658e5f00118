"""LP-SparseMAP of graphs of logic factors and pairs in batched operations of PyTorch.

The dual is that of `rows.py`, in one multiplier for each row; Newton's method solves it for all samples at once.

Used by `_layers`.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._numerics.newton_tensors import maximise, project
from .._numerics.support import FEASIBLE
from .faces import MIN_SNAP, SNAP

_RESIDUAL = 1e-12
# Numbers in the largest tensors of a batch. Larger batches are split.
_MAX_NUMBERS = 2**25


class Rows(NamedTuple):
    """The rows of a graph as dense tensors.

    Attributes
    ----------
    coefs : Tensor of shape (n_logic, n_variables)
    bounds, lower, upper : Tensors of shape (n_logic,)
        Bound of each row; bounds of its multiplier.
    first, second : Tensors of shape (n_pairs, n_variables)
    off_first, off_second : Tensors of shape (n_pairs,)
        The literals of the pairs: ``off_first + first @ u`` is the marginal of the first one of each pair.
    expand : int Tensor of shape (n_pairs,)
        The additional score of each pair.
    """

    coefs: Tensor
    bounds: Tensor
    lower: Tensor
    upper: Tensor
    first: Tensor
    second: Tensor
    off_first: Tensor
    off_second: Tensor
    expand: Tensor


@lru_cache(32)
def rows_of(layout, device):
    """Return the `Rows` of a graph."""
    arrays = layout.arrays
    n_logic = len(layout.arrays.row_bounds)
    coefs = np.zeros((n_logic, layout.n_variables))
    literals = np.zeros((2, len(arrays.pairs), layout.n_variables))
    coefs[np.repeat(np.arange(n_logic), np.diff(arrays.row_ptr)), arrays.row_vars] = arrays.row_coefs
    pairs = np.arange(len(arrays.pairs))
    signs = arrays.pair_signs.reshape(-1, 2).T
    literals[[[0], [1]], pairs, arrays.pair_ends.reshape(-1, 2).T] = signs
    expand = arrays.additional_ptr[arrays.pairs]
    if layout.expand is not None:
        expand = layout.expand[expand]
    parts = coefs, arrays.row_bounds, arrays.row_low, arrays.row_high, *literals, *(0.5 * (1.0 - signs))
    return Rows(
        *(torch.tensor(part, dtype=torch.float64, device=device) for part in parts),
        torch.tensor(expand, dtype=torch.int64, device=device),
    )


def samples_at_once(layout):
    """Return how many samples of a graph to solve together."""
    n_rows = len(layout.arrays.row_bounds) + len(layout.arrays.pairs)
    return max(1, _MAX_NUMBERS // max(1, n_rows * max(n_rows, layout.n_variables)))


def solve(rows, scores, additional):
    """Solve a batch of samples of one graph.

    Parameters
    ----------
    rows : Rows
    scores : float64 Tensor of shape (n_samples, n_variables)
    additional : float64 Tensor of shape (n_samples, n_additional)

    Returns
    -------
    u : Tensor, like `scores`
    joint : Tensor, like `additional`
        Marginals of the pairs; those that share a score are summed.
    multiply : callable
        Multiplies directions of scores and additional scores, with an axis of directions in front, with the Jacobian.
    solved : bool Tensor of shape (n_samples,)
        False for samples that are left to the compiled solver: infeasible ones, those with a pair without a score, and
        those that do not converge.
    """
    pair_scores = additional[:, rows.expand]
    positive = pair_scores > 0.0
    coefs, bounds, lower, upper = _all_rows(rows, pair_scores)
    base = scores + torch.where(positive, pair_scores, 0.0) @ rows.second

    def evaluate(multipliers):
        """Return the dual value, the slopes and the marginals."""
        a = base - (multipliers.unsqueeze(1) @ coefs).squeeze(1)
        u = a.clamp(0.0, 1.0)
        value = -torch.where(u == 0.0, 0.0, u * (a - 0.5 * u)).sum(-1) - (bounds * multipliers).sum(-1)
        return value, _times(coefs, u) - bounds, u

    def curvature_of(u):
        return _curvature(coefs, (u > 0.0) & (u < 1.0))

    finite = torch.where(base > -torch.inf, base, 0.0).abs()
    goal = (4e-16 * finite.amax(-1)).clamp(min=_RESIDUAL)
    largest = (coefs @ coefs.transpose(1, 2)).abs().sum(-1)
    multipliers, slope, u, violation = maximise(evaluate, curvature_of, largest, lower, upper, goal)
    solved = (violation <= FEASIBLE) & (pair_scores != 0.0).all(-1)
    p, q = rows.off_first + u @ rows.first.T, rows.off_second + u @ rows.second.T
    joint = torch.where(positive, torch.minimum(p, q), (p + q - 1.0).clamp(min=0.0))
    # The smallest face that contains u, as in `projection.py`.
    size = torch.cat([finite, pair_scores.abs()], 1).amax(-1, keepdim=True)
    snap = (SNAP * torch.where(size > 0.0, size, 1.0).clamp(max=1.0)).clamp(min=MIN_SNAP)
    tight = slope.abs() <= snap
    inside = (u > snap) & (u < 1.0 - snap)
    curvature = _curvature(coefs, inside)
    # The literals whose marginals make up that of the pair: p, q, both, or none.
    at_top = (multipliers[:, len(rows.bounds) :] > 0.5 * pair_scores.abs()).unsqueeze(-1).to(u.dtype)
    of_positive = at_top * rows.first + (1.0 - at_top) * rows.second
    literals = torch.where(positive.unsqueeze(-1), of_positive, at_top * (rows.first + rows.second))

    def multiply(directions, extra):
        directions = directions + (extra[..., rows.expand].unsqueeze(-2) @ literals).squeeze(-2)
        out = project(
            directions,
            lambda values: values * inside,
            lambda values: _times(coefs, values),
            lambda x: (x.unsqueeze(-2) @ coefs).squeeze(-2),
            curvature,
            tight,
        )
        return out, _summed(rows, _times(literals, out), extra)

    return u, _summed(rows, joint, additional), multiply, solved


def _all_rows(rows, pair_scores):
    """Return coefficients and bounds of the rows of each sample, and bounds of their multipliers.

    A positive score c of literals p and q is added to that of q, and the row q <= p has a multiplier of at most c. A
    negative score c has the row p + q <= 1, with a multiplier of at most -c.
    """
    n = len(pair_scores)
    positive = pair_scores > 0.0
    if not len(rows.expand):
        # Views, which take no memory.
        return tuple(part.expand(n, *part.shape) for part in (rows.coefs, rows.bounds, rows.lower, rows.upper))
    of_pairs = torch.where(positive, -1.0, 1.0).unsqueeze(-1) * rows.first + rows.second
    pair_bounds = torch.where(positive, rows.off_first - rows.off_second, 1.0 - rows.off_first - rows.off_second)
    return (
        torch.cat([rows.coefs.expand(n, *rows.coefs.shape), of_pairs], 1),
        torch.cat([rows.bounds.expand(n, -1), pair_bounds], 1),
        torch.cat([rows.lower.expand(n, -1), torch.zeros_like(pair_scores)], 1),
        torch.cat([rows.upper.expand(n, -1), pair_scores.abs()], 1),
    )


def _curvature(coefs, inside):
    return (coefs * inside.unsqueeze(1)) @ coefs.transpose(1, 2)


def _times(matrices, vectors):
    return (matrices @ vectors.unsqueeze(-1)).squeeze(-1)


def _summed(rows, of_pairs, like):
    """Sum the values of the pairs that share an additional score."""
    return torch.zeros_like(like).index_add(-1, rows.expand, of_pairs)
