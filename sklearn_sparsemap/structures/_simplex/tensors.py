"""SparseMAP over the simplex in batched operations of PyTorch, for tensors that stay on their device.

Used by `structures/_chain` and `structures/_matching`.
"""

import torch


def sparsemax(scores):
    """Project onto the simplex along the last axis; return the projection and the threshold.

    If all scores are -inf, the projection is zero.
    """
    ordered = scores.sort(-1, descending=True).values
    top = ordered[..., :1]
    allowed = top > -torch.inf
    shifted = torch.where(ordered > -torch.inf, ordered - torch.where(allowed, top, 0.0), -torch.inf)
    sums = torch.where(shifted > -torch.inf, shifted, 0.0).cumsum(-1)
    counts = torch.arange(1, scores.shape[-1] + 1, device=scores.device, dtype=scores.dtype)
    inside = shifted * counts > sums - 1.0
    size = inside.sum(-1, keepdim=True).clamp(min=1)
    threshold = (sums.gather(-1, size - 1) - 1.0) / size + torch.where(allowed, top, 0.0)
    return torch.where(allowed, (scores - threshold).clamp(min=0.0), 0.0), threshold.squeeze(-1)


def solve(structure, batch):
    """Solve a padded batch; see `Structure.tensor_solver`."""
    u, _ = sparsemax(batch.scores)
    support = (u > 0.0).to(u.dtype)

    def multiply(directions, extra):
        mean = (directions * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True)
        return support * (directions - mean), extra

    return u, batch.additional, multiply, u.sum(1) > 0.5
