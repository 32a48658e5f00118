"""The active set in batched operations of PyTorch: SparseMAP for all samples of a batch at once.

The method is that of `active_set.py`. Each sample has slots for structures, and a mask of the used slots. In a round,
each sample that has not converged solves for the weights of its structures. If a weight would be negative, the sample
drops the structure that blocks the step; otherwise it calls the oracle. In each round, the host reads two numbers from
the device, in one transfer: how many samples are left, and how many structures they have.

An oracle is a function ``best(batch)`` of a `TensorBatch` that returns the slots (n_samples, n_slots) and additional
slots (n_samples, n_additional_slots) of best structures, -1 where empty, and their values (n_samples,). No structure
may have a part twice, and a part must always be in the same slot.

Used by `structures`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .face import FACE_TOLERANCE
from .support import DEPENDENT, EPS

# Initial and largest number of structures of a sample. Samples that need more are left to the compiled solver.
_WIDTH, _MAX_WIDTH = 8, 256
# Samples that have not converged after this many rounds are left to the compiled solver.
_MAX_ROUNDS = 2000
# A structure whose coefficient in an affinely dependent one is at most this cannot be replaced by it.
_NO_SHARE = 1e-6
# Steps along a direction in which structures on the face of a solution are sought: the smaller one for samples in
# which a structure close to the face hides those on it.
_TILT, _SMALL_TILT = 1e-6, 1e-8


class _Support(NamedTuple):
    """Structures of a batch, in arrays with an axis of samples and one of `width` structures."""

    slots: Tensor
    extra: Tensor
    theta: Tensor
    weights: Tensor
    used: Tensor
    # The Gram matrix of the unary indicators plus 1 in each entry, which is definite if no structure is dependent.
    gram: Tensor

    def take(self, samples):
        return _Support(*(part[samples] for part in self))

    def widened(self, width):
        """Return the support with room for `width` structures."""
        more = width - self.used.shape[1]
        pad = torch.nn.functional.pad
        return _Support(
            pad(self.slots, (0, 0, 0, more), value=-1),
            pad(self.extra, (0, 0, 0, more), value=-1),
            *(pad(part, (0, more)) for part in (self.theta, self.weights, self.used)),
            pad(self.gram, (0, more, 0, more)),
        )


def _gather(values, slots):
    """Return the sum of the values (..., n_parts) at the slots (..., width, n_slots) of each structure."""
    lead = torch.broadcast_shapes(values.shape[:-1], slots.shape[:-2])
    if not slots.shape[-1]:
        return values.new_zeros(*lead, slots.shape[-2])
    values = values.expand(*lead, -1)
    slots = slots.expand(*lead, *slots.shape[-2:])
    found = values.gather(-1, slots.clamp(min=0).flatten(-2)).reshape(slots.shape)
    return torch.where(slots >= 0, found, 0.0).sum(-1)


def _spread(weights, slots, n_parts):
    """Return the sum of the indicators of structures, times their weights: the adjoint of `_gather`."""
    lead = weights.shape[:-1]
    slots = slots.expand(*lead, *slots.shape[-2:])
    shares = torch.where(slots >= 0, weights.unsqueeze(-1), 0.0)
    return weights.new_zeros(*lead, n_parts).scatter_add(-1, slots.clamp(min=0).flatten(-2), shares.flatten(-2))


def _column(support, slots):
    """Return the column of the Gram matrix that belongs to a new structure, shape (..., n_samples, width)."""
    slots = slots.unsqueeze(-2)
    common = ((support.slots == slots) & (slots >= 0)).sum(-1)
    return torch.where(support.used, common + 1.0, 0.0).to(support.theta)


def _factor(support):
    """Return the Cholesky factor of the Gram matrix, with the identity for unused slots, and whether it failed."""
    both = support.used.unsqueeze(1) & support.used.unsqueeze(2)
    matrix = torch.where(both, support.gram, 0.0) + torch.diag_embed((~support.used).to(support.gram))
    factor, failed = torch.linalg.cholesky_ex(matrix)
    return factor, failed != 0


def _solve(factor, columns):
    return torch.cholesky_solve(columns.unsqueeze(-1), factor).squeeze(-1)


def _respond(used, factor, products, total):
    """Return the weights that sum to `total`, and give all used structures the same reduced score, from `products`."""
    own = _solve(factor, torch.where(used, products, 0.0))
    ones = _solve(factor, used.to(products).expand(own.shape))
    return own + ones * ((total - own.sum(-1, keepdim=True)) / ones.sum(-1, keepdim=True))


def _append(support, chosen, structure, theta, weight):
    """Add a structure in the chosen samples, each of which has an unused slot."""
    slots, extra = structure
    place = (support.used.to(torch.int8)).argmin(1)
    here = chosen.unsqueeze(1) & (torch.arange(support.used.shape[1], device=place.device) == place.unsqueeze(1))
    column = _column(support, slots)
    diagonal = ((slots >= 0).sum(-1, keepdim=True) + 1.0).to(column)
    column = torch.where(here, diagonal, column)
    gram = torch.where(here.unsqueeze(2), column.unsqueeze(1), support.gram)
    gram = torch.where(here.unsqueeze(1), column.unsqueeze(2), gram)
    return _Support(
        torch.where(here.unsqueeze(2), slots.unsqueeze(1), support.slots),
        torch.where(here.unsqueeze(2), extra.unsqueeze(1), support.extra),
        torch.where(here, theta.unsqueeze(1), support.theta),
        torch.where(here, weight.unsqueeze(1), support.weights),
        support.used | here,
        gram,
    )


def _pivot(support, factor, slots):
    """Project a new structure on each support; return its coefficients, and whether it is independent."""
    column = _column(support, slots)
    shares = _solve(factor, column)
    diagonal = ((slots >= 0).sum(-1) + 1.0).to(column)
    return shares, diagonal - (column * shares).sum(-1) > DEPENDENT * diagonal


def _leave(support, direction, blocks, chosen):
    """Move the weights along minus `direction` until one of `blocks` is zero, and drop it; return also the step."""
    ratio = torch.where(blocks, support.weights / torch.where(blocks, direction, 1.0), torch.inf)
    step, leaving = ratio.min(1)
    chosen = chosen & torch.isfinite(step)
    step = torch.where(chosen, step, 0.0)
    places = torch.arange(ratio.shape[1], device=ratio.device)
    gone = chosen.unsqueeze(1) & (places == leaving.unsqueeze(1))
    weights = (support.weights - step.unsqueeze(1) * direction).clamp(min=0.0)
    weights = torch.where(chosen.unsqueeze(1), weights, support.weights)
    return support._replace(weights=torch.where(gone, 0.0, weights), used=support.used & ~gone), step


def _first(best, batch):
    """Return supports of one structure each, the reference score, the rounding of gaps, and the feasible samples."""
    scores = batch.scores.flatten(1)
    slots, extra, value = best(batch)
    feasible = torch.isfinite(value)
    slots = slots.unsqueeze(1)
    extra = extra.unsqueeze(1)
    size = _gather(torch.where(scores > -torch.inf, scores.abs(), 0.0), slots)
    size = size + _gather(torch.where(batch.additional > -torch.inf, batch.additional.abs(), 0.0), extra)
    reference = torch.where(feasible.unsqueeze(1), _gather(scores, slots) + _gather(batch.additional, extra), 0.0)
    ones = torch.ones_like(reference)
    gram = ((slots >= 0).sum(-1, keepdim=True) + 1.0).to(scores)
    support = _Support(slots, extra, torch.zeros_like(reference), ones, ones > 0.0, gram).widened(_WIDTH)
    return support, reference.squeeze(1), 8.0 * EPS * (1.0 + slots.shape[-1] + size.squeeze(1)), feasible


def _round(best, batch, support, state):
    """Do one round of the samples that have not converged.

    Returns
    -------
    support : _Support
    asks : bool Tensor of shape (n_samples,)
        The samples that called the oracle.
    ended, solved : bool Tensor of shape (n_samples,)
    """
    reference, floor, calls = state
    factor, failed = _factor(support)
    target = torch.where(support.used, _respond(support.used, factor, support.theta, 1.0), 0.0)
    negative = support.used & (target < 0.0)
    blocked = negative.any(1) & ~failed
    support, _ = _leave(support, support.weights - target, negative, blocked)
    moved = ~blocked & ~failed
    support = support._replace(weights=torch.where(moved.unsqueeze(1), target, support.weights))
    # The answer to the last call would only certify the mixture.
    asks = moved if batch.max_iter is None else moved & (calls + 1 < batch.max_iter)
    u = _spread(support.weights, support.slots, batch.scores[0].numel())
    reduced = batch.scores.flatten(1) - u
    slots, extra, value = best(batch._replace(scores=reduced.reshape(batch.scores.shape)))
    here = (support.weights * support.theta).sum(1) + reference - (u * u).sum(1)
    gap = torch.where(asks & torch.isfinite(value), (value - here).clamp(min=0.0), torch.inf)
    known = (support.slots == slots.unsqueeze(1)).all(-1) & (support.extra == extra.unsqueeze(1)).all(-1)
    gains = asks & torch.isfinite(gap) & (gap > floor) & ~(known & support.used).any(1)
    # A dependent structure replaces one of those with a positive coefficient.
    shares, independent = _pivot(support, factor, slots)
    support, weight = _leave(support, shares, support.used & (shares > _NO_SHARE), gains & ~independent)
    theta = _gather(batch.scores.flatten(1), slots.unsqueeze(1)) + _gather(batch.additional, extra.unsqueeze(1))
    new = gains & ~support.used.all(1)
    support = _append(support, new, (slots, extra), torch.where(new, theta.squeeze(1) - reference, 0.0), weight)
    good = (gap <= (4.0 * floor).clamp(min=batch.tol)) | (moved & ~asks)
    return support, asks, ~blocked & ~new, good


def _count(ended, support):
    """Return how many samples have not ended, and the largest number of structures of a sample, in one transfer."""
    return torch.stack([(~ended).sum(), support.used.sum(1).max()]).tolist()


def find_supports(best, batch):
    """Run the active set; return the supports, and a mask of the samples that are solved."""
    done, reference, floor, feasible = _first(best, batch)
    solved = torch.zeros_like(feasible)
    live = feasible.nonzero().squeeze(1)
    own = batch.take(live)
    support = done.take(live)
    state = reference[live], floor[live], torch.ones_like(live)
    n_used = 1
    for _ in range(_MAX_ROUNDS):
        if not len(live):
            break
        if n_used == support.used.shape[1] < _MAX_WIDTH:
            support = support.widened(2 * n_used)
        support, asks, ended, good = _round(best, own, support, state)
        state = *state[:2], state[2] + asks
        n_left, n_used = _count(ended, support)
        if n_left == len(live):
            continue
        order = ended.int().argsort(stable=True)
        kept, gone = order[:n_left], order[n_left:]
        if support.used.shape[1] > done.used.shape[1]:
            done = done.widened(support.used.shape[1])
        final = support.widened(done.used.shape[1]).take(gone)
        done = _Support(*(whole.index_copy(0, live[gone], part) for whole, part in zip(done, final)))
        solved = solved.index_copy(0, live[gone], good[gone])
        live = live[kept]
        own = own.take(kept)
        support = support.take(kept)
        state = tuple(part[kept] for part in state)
    return done, solved


def _grow(best, batch, support, factor, tilt):
    """Add a structure on the face of each solution, if the oracle finds one along `tilt` or minus `tilt`.

    Returns the support, the samples that grew, and those where a structure close to the face may hide one on it.
    """
    scores = batch.scores.flatten(1)
    samples = torch.arange(len(tilt), device=tilt.device)
    reduced = scores - _spread(support.weights, support.slots, scores.shape[1])
    on_face = _gather(reduced, support.slots) + _gather(batch.additional, support.extra)
    on_face = torch.where(support.used, on_face, -torch.inf).amax(1)
    both = batch.take(samples.repeat(2))
    tilted = torch.cat([reduced + tilt, reduced - tilt]).reshape(both.scores.shape)
    found = best(both._replace(scores=tilted))[:2]
    slots, extra = (part.unflatten(0, (2, len(tilt))) for part in found)
    here = _gather(reduced, slots.unsqueeze(-2)) + _gather(batch.additional, extra.unsqueeze(-2))
    _, independent = _pivot(support, factor, slots)
    tolerance = (1e-15 * slots.shape[-1] * (1.0 + on_face.abs())).clamp(min=FACE_TOLERANCE)
    ties = on_face - here.squeeze(-1) <= tolerance
    grows = ties & independent & ~support.used.all(1)
    slots, extra = (_chosen(grows[0], *part) for part in (slots, extra))
    zero = torch.zeros_like(on_face)
    return _append(support, grows.any(0), (slots, extra), zero, zero), grows.any(0), (independent & ~ties).any(0)


def span_faces(best, batch, support):
    """Add structures of weight zero until each support spans the face of its solution; see `face.span_face`."""
    scores = batch.scores.flatten(1)
    done = support
    live = torch.arange(len(scores), device=scores.device)
    generator = torch.Generator(scores.device).manual_seed(0)
    fruitless = torch.zeros_like(live)
    small = torch.zeros_like(live, dtype=torch.bool)
    n_left, n_used = _count(small, support)
    while n_left and done.used.shape[1] <= _MAX_WIDTH:
        if n_used == done.used.shape[1]:
            done = done.widened(2 * n_used)
        own = batch.take(live)
        support = done.take(live)
        factor, _ = _factor(support)
        noise = torch.rand(scores.shape[1], dtype=scores.dtype, device=scores.device, generator=generator) - 0.5
        noise = noise.expand(len(live), -1)
        weights = _respond(support.used, factor, _gather(noise, support.slots), 0.0)
        direction = noise - _spread(torch.where(support.used, weights, 0.0), support.slots, scores.shape[1])
        tilt = torch.where(small, _SMALL_TILT, _TILT).unsqueeze(1) * direction
        support, grew, hides = _grow(best, own, support, factor, tilt)
        done = _Support(*(whole.index_copy(0, live, part) for whole, part in zip(done, support)))
        fruitless = torch.where(grew | (hides & ~small), 0, fruitless + 1)
        small = small | (hides & ~grew)
        n_left, n_used = _count(fruitless == 2, support)
        kept = fruitless.argsort(stable=True)[:n_left]
        live, fruitless, small = live[kept], fruitless[kept], small[kept]
    return done


def _chosen(mask, new, old):
    return torch.where(mask.reshape(-1, *[1] * (new.dim() - 1)), new, old)


def active_set(best, batch):
    """Solve a padded batch by its oracle; see `Structure.tensor_solver`."""
    support, solved = find_supports(best, batch)
    shape = batch.scores.shape
    n_parts = batch.scores[0].numel()
    n_additional = batch.additional.shape[1]
    faces = []

    def multiply(unary, extra):
        if not faces:
            face = support if batch.max_iter is not None else span_faces(best, batch, support)
            faces.extend((face, _factor(face)[0]))
        face, factor = faces
        products = _gather(unary.flatten(2), face.slots) + _gather(extra, face.extra)
        weights = torch.where(face.used, _respond(face.used, factor, products, 0.0), 0.0)
        out = _spread(weights, face.slots, n_parts).reshape(unary.shape)
        return out, _spread(weights, face.extra, n_additional)

    weights = torch.where(support.used, support.weights, 0.0)
    u = _spread(weights, support.slots, n_parts).reshape(shape)
    return u, _spread(weights, support.extra, n_additional), multiply, solved
