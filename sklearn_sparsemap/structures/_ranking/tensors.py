"""SparseMAP over rankings in batched operations of PyTorch: isotonic regression by its minimax formula.

With items sorted by score, the marginals are the scores minus the nonincreasing sequence nearest to y, scores minus
points. Its level at place j is the minimum over a <= j of the maximum over b >= j of the mean of y from a to b (Barlow,
Bartholomew, Bremner and Brunk: Statistical Inference under Order Restrictions, 1972). This takes O(n^2) operations for
n items, without a loop over items.
"""

import torch

from ..._numerics.facets import TIE
from ..._numerics.support import EPS, FEASIBLE

# Largest number of means in memory at once; larger batches are split.
_MAX_MEANS = 2**23


def _levels(y, allowed):
    """Return the nearest nonincreasing sequence to each row of `y`, zero where `allowed` is False; and its rounding."""
    n_samples, n = y.shape
    sums = torch.nn.functional.pad(torch.where(allowed, y, 0.0).cumsum(-1), (1, 0))
    place = torch.arange(n, device=y.device)
    size = (place + 1 - place.unsqueeze(1)).clamp(min=1)
    levels = torch.zeros_like(y)
    step = max(1, _MAX_MEANS // (n * n))
    for first in range(0, n_samples, step):
        chosen = slice(first, first + step)
        means = (sums[chosen, None, 1:] - sums[chosen, :-1, None]) / size
        means = torch.where((place >= place.unsqueeze(1)) & allowed[chosen, None], means, -torch.inf)
        highest = means.flip(-1).cummax(-1).values.flip(-1)
        highest = torch.where(place >= place.unsqueeze(1), highest, torch.inf)
        levels[chosen] = highest.amin(1)
    return torch.where(allowed, levels, 0.0), 4.0 * EPS * sums.abs().amax(-1, keepdim=True)


def _block_means(values, block):
    """Return the mean of the values of each entry's block; `block` broadcasts to the values."""
    block = block.expand(values.shape)
    sums = torch.zeros_like(values).scatter_add(-1, block, values)
    sizes = torch.zeros_like(values).scatter_add(-1, block, torch.ones_like(values))
    return sums.gather(-1, block) / sizes.gather(-1, block)


def _is_majorised(u, points, allowed):
    """Return for each row whether nonincreasing marginals are in the permutahedron: the points majorise them."""
    total = u.cumsum(-1)
    most = points.cumsum(-1)
    slack = FEASIBLE * (1.0 + most)
    falls = torch.where(allowed[:, 1:], u.diff(dim=-1), 0.0) <= slack[:, 1:]
    return (total <= most + slack).all(-1) & falls.all(-1) & (total[:, -1] >= (most - slack)[:, -1])


def solve(structure, batch):
    """Solve a padded batch; see `Structure.tensor_solver`."""
    ordered, order = batch.scores.sort(dim=-1, descending=True, stable=True)
    back = order.argsort(-1)
    allowed = ordered > -torch.inf
    n_allowed = allowed.sum(-1)
    n_points = batch.lengths[:, 0] - 1 if structure.top_k is None else torch.full_like(n_allowed, structure.top_k)
    place = torch.arange(ordered.shape[-1], device=ordered.device)
    points = (n_points.unsqueeze(-1) - place).clamp(min=0).to(ordered)
    shifted = torch.where(allowed, ordered - torch.where(allowed, ordered, 0.0)[:, :1], 0.0)
    y = torch.where(allowed, shifted - points, 0.0)
    levels, rounding = _levels(y, allowed)
    # Blocks with equal levels form one face.
    ends = (levels[:, :-1] - levels[:, 1:] > rounding.clamp(min=TIE)) | (allowed[:, :-1] & ~allowed[:, 1:])
    block = torch.nn.functional.pad(ends.cumsum(-1), (1, 0))
    # The scores relative to the best one of their block lose no digits in the sums.
    best = torch.full_like(shifted, -torch.inf).scatter_reduce(-1, block, shifted, "amax").gather(-1, block)
    relative = shifted - best
    u = (relative - _block_means(relative, block) + _block_means(points, block)).clamp(min=0.0)
    has_points = _block_means(points, block) > 0.0
    u = torch.where(has_points & allowed, u, 0.0)

    def multiply(directions, extra):
        ranked = directions.gather(-1, order.expand(directions.shape))
        ranked = torch.where(has_points, ranked - _block_means(ranked, block), 0.0)
        return ranked.gather(-1, back.expand(directions.shape)), extra

    solved = (n_allowed >= n_points) & _is_majorised(u, points, allowed)
    # Optimal if scores minus marginals are nonincreasing, up to rounding.
    rise = torch.where(allowed[:, 1:], (shifted - u).diff(dim=-1), 0.0)
    solved = solved & (rise <= rounding.clamp(min=TIE)).all(-1)
    return u.gather(-1, back), batch.additional, multiply, solved
