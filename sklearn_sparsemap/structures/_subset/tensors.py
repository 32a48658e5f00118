"""SparseMAP over subsets in batched operations of PyTorch: scores minus a threshold, clipped to [0, 1]."""

import torch

from ..._numerics.facets import BINDING, TIE
from ..._numerics.support import FEASIBLE


def _threshold(scores, goal):
    """Return the t at which ``sum(clip(scores - t, 0, 1))`` is `goal`, for each row; -inf and inf do not occur in it.

    The sum is piecewise linear in t. As t falls, its slope rises by 1 at each score, where an item enters, and falls by
    1 at each score minus 1, where an item reaches 1. Cumulative sums over the sorted breakpoints give the sum at each
    of them, and so the segment that contains the goal.
    """
    top = scores.amax(-1, keepdim=True)
    top = torch.where(top > -torch.inf, top, 0.0)
    shifted = scores - top
    breakpoints, order = torch.cat([shifted, shifted - 1.0], -1).sort(dim=-1, descending=True, stable=True)
    entering = torch.where(order < scores.shape[-1], 1.0, -1.0).to(scores)
    slope = entering.cumsum(-1)[:, :-1]
    drop = breakpoints[:, :-1] - breakpoints[:, 1:]
    rise = torch.where((slope > 0.0) & torch.isfinite(drop), slope * drop, 0.0)
    total = torch.nn.functional.pad(rise.cumsum(-1), (1, 0))
    place = (total < goal.unsqueeze(-1)).sum(-1, keepdim=True).clamp(1, slope.shape[-1]) - 1
    left = goal.unsqueeze(-1) - total.gather(-1, place)
    t = breakpoints.gather(-1, place) - left / slope.gather(-1, place).clamp(min=1.0)
    # One step of Newton's method removes the rounding errors of the sums.
    u = (shifted - t).clamp(0.0, 1.0)
    inside = ((u > 0.0) & (u < 1.0)).sum(-1, keepdim=True)
    error = torch.where(inside > 0, u.sum(-1, keepdim=True) - goal.unsqueeze(-1), 0.0)
    t = t + error / inside.clamp(min=1)
    return (t + top).squeeze(-1)


def _free(shifted, u, shift, min_size, most):
    """Return a mask of the items that only some of the best subsets have, and whether their number is fixed.

    The rule is that of `facets._mark_free`: items at ties are free, unless the bounds on the size leave all or none.
    """
    free = ((u > 0.0) & (u < 1.0)) | ((shifted - u).abs() <= TIE)
    n_free = free.sum(-1)
    n_full = (~free & (shifted > 0.0)).sum(-1)
    lowest = (min_size - n_full).clamp(min=0)
    highest = torch.minimum(most - n_full, n_free)
    low = torch.where(shift > BINDING, highest, lowest)
    high = torch.where(shift < -BINDING, lowest, highest)
    free &= ((high > 0) & (low < n_free)).unsqueeze(-1)
    return free.to(u.dtype), (shift.abs() > BINDING) | (low == high)


def solve(structure, batch):
    """Solve a padded batch; see `Structure.tensor_solver`."""
    scores, min_size, max_size = batch.scores, structure.min_size, structure.max_size
    most = batch.lengths[:, 0] if max_size is None else batch.lengths[:, 0].clamp(max=max_size)
    total = scores.clamp(0.0, 1.0).sum(-1)
    goal = torch.minimum(total.clamp(min=min_size), most)
    shift = torch.where(goal == total, 0.0, _threshold(scores, goal))
    u = (scores - shift.unsqueeze(-1)).clamp(0.0, 1.0)
    inside, binds = _free(scores - shift.unsqueeze(-1), u, shift, min_size, most)
    share = binds.unsqueeze(-1) / inside.sum(-1, keepdim=True).clamp(min=1.0)

    def multiply(directions, extra):
        directions = directions * inside
        return directions - inside * share * directions.sum(-1, keepdim=True), extra

    enough = (scores > -torch.inf).sum(-1) >= min_size
    solved = enough & ((u.sum(-1) - goal).abs() <= FEASIBLE * (1.0 + goal))
    return u, batch.additional, multiply, solved
