"""SparseMAP over matchings in batched operations of PyTorch: Newton's method on the multipliers of the columns.

The method of the compiled solver, for all samples at once. Conventions: scores have shape (n_samples, n_rows,
n_columns), with the shorter axis of each sample as rows, and -inf for forbidden pairs and in the padding, so padded
rows are all -inf. The sum of a column is at most 1, and exactly 1 in samples that are `square`; `columns` is a mask of
the real columns.
"""

import torch

from ...numerics.support import FEASIBLE
from .._simplex.tensors import sparsemax

_MOST_STEPS, _MOST_TRIALS = 60, 40
_RESIDUAL = 1e-13
# A cut whose multiplier is at most this does not bind.
_BINDING = 1e-10


def _evaluate(scores, multipliers, columns):
    """Return the dual value, the columns' violations and the projections of all rows."""
    u, threshold = sparsemax(scores - multipliers.unsqueeze(1))
    exists = scores.amax(-1) > -torch.inf
    value = -torch.where(exists, 0.5 * (u * u).sum(-1) + threshold, 0.0).sum(-1) - multipliers.sum(-1)
    return value, torch.where(columns, u.sum(1) - 1.0, 0.0), u


def _curvature(u):
    """Return minus the Hessian of the dual: the sum of diag(s) - s s' / |s| over rows with supports s."""
    support = (u > 0.0).to(u.dtype)
    share = support / support.sum(-1, keepdim=True).clamp(min=1.0)
    return torch.diag_embed(support.sum(1)) - support.transpose(1, 2) @ share


def _violation(multipliers, slope, free):
    counted = free | (multipliers > 0.0) | (slope > 0.0)
    return torch.where(counted, slope.abs(), 0.0).amax(-1)


def _ascent(curvature, ridge, slope, lower, chosen):
    """Maximise ``slope'd - d'(curvature + ridge) d / 2`` over d >= lower, fixing all entries below at once.

    Returns d, and a mask of the entries at their bound.
    """
    fixed, d = torch.zeros_like(chosen), torch.zeros_like(slope)
    matrix = curvature + torch.diag_embed(ridge.unsqueeze(-1).expand_as(slope))
    for _ in range(slope.shape[-1] + 1):
        open_ = chosen & ~fixed
        d = torch.where(fixed, lower, 0.0)
        right = torch.where(open_, slope - (matrix @ d.unsqueeze(-1)).squeeze(-1), 0.0)
        both = open_.unsqueeze(1) & open_.unsqueeze(2)
        system = torch.where(both, matrix, 0.0) + torch.diag_embed((~open_).to(slope.dtype))
        factor, failed = torch.linalg.cholesky_ex(system)
        x = torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)
        d = torch.where(open_ & (failed == 0).unsqueeze(-1), x, d)
        below = open_ & (d < lower)
        if not below.any():
            break
        fixed = fixed | below
    return torch.where(fixed, lower, d), fixed


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
    goal = (4e-16 * (finite.amax((1, 2)) - finite.amin((1, 2)))).clamp(min=_RESIDUAL)
    multipliers = torch.zeros_like(scores[:, 0])
    value, slope, u = _evaluate(scores, multipliers, columns)
    for _ in range(_MOST_STEPS):
        violation = _violation(multipliers, slope, free)
        left = violation > goal
        if not left.any():
            break
        chosen = free | (columns & ((multipliers > 0.0) | (slope > 0.0)))
        curvature = _curvature(u)
        largest = torch.where(chosen, curvature.diagonal(dim1=1, dim2=2), 0.0).amax(-1)
        ridge = (0.01 * violation.clamp(max=1.0)).clamp(min=1e-12) * (0.1 + largest)
        lower = torch.where(free, -torch.inf, -multipliers)
        d, fixed = _ascent(curvature, ridge, slope, lower, chosen & left.unsqueeze(-1))
        multipliers, value, slope, u = _search(
            scores, columns, free, (multipliers, value, slope, u), d, fixed, violation, left
        )
    # Real rows sum to 1 by construction. Samples that fail are solved by another method.
    solved = (_violation(multipliers, slope, free) <= FEASIBLE) & torch.isfinite(value)
    return u, free | (multipliers > _BINDING), solved


def _search(scores, columns, free, state, d, fixed, violation, left):
    """Search along `d` in the unsolved samples, as in the compiled method; return the new state.

    Parameters
    ----------
    scores, columns
        See `solve_matchings`.
    free : bool Tensor
        Mask of the columns whose sums are exactly 1.
    state : (multipliers, value, slope, u)
        See `_evaluate`.
    d, fixed : Tensors of the shape of the multipliers
        The direction, and a mask of its entries at their bounds.
    violation : Tensor of shape (n_samples,)
        Largest violation of each sample.
    left : bool Tensor of shape (n_samples,)
        Mask of the unsolved samples.
    """
    multipliers, value, slope, _ = state
    rise, slack = (slope * d).sum(-1), 1e-12 * (1.0 + value.abs())
    t, searching, best = torch.ones_like(value), left.clone(), list(state)
    for attempt in range(_MOST_TRIALS):
        moved = multipliers + t.unsqueeze(-1) * d
        at_bound = ~free & ((moved < 0.0) | (fixed & (t >= 1.0).unsqueeze(-1)))
        trial = torch.where(at_bound, 0.0, moved)
        new, new_slope, new_u = _evaluate(scores, trial, columns)
        after = _violation(trial, new_slope, free)
        for k, part in enumerate((trial, new, new_slope, new_u)):
            here = searching.reshape(-1, *[1] * (part.dim() - 1))
            best[k] = torch.where(here, part, best[k])
        there = (torch.where(free | (trial > 0.0) | (d > 0.0), new_slope, 0.0) * d).sum(-1)
        halved = (after <= 0.5 * violation) & (new >= value - slack)
        flat = (there >= 0.9 * rise) & (t >= 1.0) & (rise > 1e-10) & ~halved & (attempt < 8)
        enough = (new >= value + 1e-4 * t * rise) | ((after < violation) & (new >= value - slack))
        searching = searching & (flat | ~(halved | enough))
        if not searching.any():
            break
        secant = torch.where(there < 0.0, t * rise / (rise - there).clamp(min=1e-300), 0.5 * t)
        t = torch.where(flat, 4.0 * t, torch.minimum(torch.maximum(secant, 0.1 * t), 0.7 * t))
    return best


def project_on_face(u, tight, directions):
    """Multiply directions, shape (n_directions, *shape of u), with the Jacobian at `u`."""
    support = (u > 0.0).to(u.dtype)
    size = support.sum(-1, keepdim=True).clamp(min=1.0)

    def centre(values):
        values = values * support
        return values - support * values.sum(-1, keepdim=True) / size

    both = tight.unsqueeze(1) & tight.unsqueeze(2)
    # The constraints of columns may be dependent.
    inverse = torch.linalg.pinv(torch.where(both, _curvature(u), 0.0), rtol=1e-10, hermitian=True)
    directions = centre(directions)
    # The second round removes rounding errors of the first.
    for _ in range(2):
        sums = torch.where(tight, directions.sum(-2), 0.0)
        x = (inverse @ sums.unsqueeze(-1)).squeeze(-1)
        directions = directions - centre(x.unsqueeze(-2).expand_as(directions))
    return directions


def solve(batch):
    """Solve a padded batch; see `Structure.tensor_solver`.

    Samples with more rows than columns are transposed, so that the shorter axis has the rows.
    """
    scores, lengths = batch.scores, batch.lengths
    turned, (n, m) = lengths[:, 0] > lengths[:, 1], scores.shape[1:]
    if turned.any() and not turned.all():
        # The batch contains both orientations, so pad to a square.
        padding = (0, max(n, m) - m, 0, max(n, m) - n)
        scores = torch.nn.functional.pad(scores, padding, value=-torch.inf)

    def turn(values):
        if not turned.any():
            return values
        if turned.all():
            return values.transpose(-1, -2)
        return torch.where(turned[:, None, None], values.transpose(-1, -2), values)

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
