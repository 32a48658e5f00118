"""SparseMAP over matchings in batched operations of PyTorch: Newton's method on the multipliers of the columns.

The method of the compiled solver, for all samples at once. Conventions: scores have shape (n_samples, n_rows,
n_columns), with the shorter axis of each sample as rows, and -inf for forbidden pairs and in the padding, so padded
rows are all -inf. The sum of a column is at most 1, and exactly 1 in samples that are `square`; `columns` is a mask of
the real columns.
"""

import torch

from ..._numerics.newton_tensors import maximise, project
from ..._numerics.support import FEASIBLE
from .._simplex.tensors import sparsemax

_RESIDUAL = 1e-13
# A cut whose multiplier is at most this does not bind.
_BINDING = 1e-10


def _curvature(u):
    """Return minus the Hessian of the dual: the sum of diag(s) - s s' / |s| over rows with supports s."""
    support = (u > 0.0).to(u.dtype)
    share = support / support.sum(-1, keepdim=True).clamp(min=1.0)
    return torch.diag_embed(support.sum(1)) - support.transpose(1, 2) @ share


def solve_matchings(scores, columns, square):
    """Solve a batch of matchings.

    Parameters
    ----------
    scores : float64 Tensor of shape (n_samples, n_rows, n_columns)
    columns : bool Tensor of shape (n_samples, n_columns)
    square : bool Tensor of shape (n_samples,)

    Returns
    -------
    u : Tensor, shape of scores
    tight : bool Tensor of shape (n_samples, n_columns)
        The columns whose constraint binds.
    solved : bool Tensor of shape (n_samples,)
    """
    free = square.unsqueeze(-1) & columns
    finite = torch.where(scores > -torch.inf, scores, 0.0)
    top = scores.amax(-1, keepdim=True)
    scores = scores - torch.where(top > -torch.inf, top, 0.0)
    exists = scores.amax(-1) > -torch.inf

    def evaluate(multipliers):
        """Return the dual value, the violations of the columns, and the projections of all rows."""
        u, threshold = sparsemax(scores - multipliers.unsqueeze(1))
        value = -torch.where(exists, 0.5 * (u * u).sum(-1) + threshold, 0.0).sum(-1) - multipliers.sum(-1)
        return value, torch.where(columns, u.sum(1) - 1.0, 0.0), u

    goal = (4e-16 * (finite.amax((1, 2)) - finite.amin((1, 2)))).clamp(min=_RESIDUAL)
    lower, upper = (
        torch.zeros_like(scores[:, 0]).masked_fill(*own) for own in ((free, -torch.inf), (columns, torch.inf))
    )
    n_rows = exists.sum(-1, keepdim=True).to(scores.dtype).expand_as(lower)
    multipliers, _, u, violation = maximise(evaluate, _curvature, n_rows, lower, upper, goal)
    # Real rows sum to 1 by construction. Samples that fail are solved by another method.
    return u, free | (multipliers > _BINDING), violation <= FEASIBLE


def project_on_face(u, tight, directions):
    """Multiply directions, shape (n_directions, *shape of u), with the Jacobian at `u`."""
    support = (u > 0.0).to(u.dtype)
    size = support.sum(-1, keepdim=True).clamp(min=1.0)

    def centre(values):
        values = values * support
        return values - support * values.sum(-1, keepdim=True) / size

    def spread(x):
        return x.unsqueeze(-2).expand(*x.shape[:-1], *u.shape[1:])

    return project(directions, centre, lambda values: values.sum(-2), spread, _curvature(u), tight)


def solve(structure, batch):
    """Solve a padded batch; see `Structure.tensor_solver`.

    Samples with more rows than columns are transposed, so that the shorter axis has the rows.
    """
    scores, lengths = batch.scores, batch.lengths
    n, m = scores.shape[1:]
    is_turned = lengths[:, 0] > lengths[:, 1]
    n_turned = int(is_turned.sum())
    if 0 < n_turned < len(scores):
        # The batch contains both orientations, so pad to a square.
        padding = (0, max(n, m) - m, 0, max(n, m) - n)
        scores = torch.nn.functional.pad(scores, padding, value=-torch.inf)

    def turn(values):
        if not n_turned:
            return values
        if n_turned == len(scores):
            return values.transpose(-1, -2)
        return torch.where(is_turned[:, None, None], values.transpose(-1, -2), values)

    rows = turn(scores)
    columns = torch.arange(rows.shape[2], device=scores.device) < lengths.amax(1, keepdim=True)
    u, tight, solved = solve_matchings(rows, columns, lengths[:, 0] == lengths[:, 1])
    n_matched = torch.minimum(lengths[:, 0], lengths[:, 1])
    solved = solved & ((u.sum((1, 2)) - n_matched).abs() < 1e-6)

    def multiply(directions, extra):
        if scores.shape[1:] != (n, m):
            directions = torch.nn.functional.pad(directions, padding)
        return turn(project_on_face(u, tight, turn(directions)))[..., :n, :m], extra

    return turn(u)[:, :n, :m], batch.additional, multiply, solved
