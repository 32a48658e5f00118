"""SparseMAP over chains in batched operations of PyTorch: the best paths, and chains whose steps are independent."""

import torch

from ...numerics.tensors import active_set
from .._simplex.tensors import sparsemax


def _split(joined, given):
    """Return the parts of a joined array by name, in their shapes, and the place where each begins."""
    parts, places, first = {}, {}, 0
    for name, shape in given.items():
        n = torch.Size(shape).numel()
        parts[name] = joined[..., first : first + n].unflatten(-1, shape)
        places[name] = first
        first += n
    return parts, places


def best_paths(batch):
    """Find the best path of each sample; an oracle of `numerics.tensors`."""
    scores, n_steps = batch.scores, batch.lengths[:, 0]
    _, padded, m = scores.shape
    parts, places = _split(batch.additional, batch.given)
    steps = torch.arange(padded, device=scores.device)
    table, before = scores[:, 0], []
    if "start" in parts:
        table = table + parts["start"]
    for t in range(1, padded):
        arrived = table.unsqueeze(2)
        if "transitions" in parts:
            arrived = arrived + _transitions_at(parts, t)
        top, state = arrived.expand(-1, -1, m).max(1)
        before.append(state)
        table = torch.where((t < n_steps).unsqueeze(1), top + scores[:, t], table)
    if "end" in parts:
        table = table + parts["end"]
    value, last = table.max(1)
    path = [last]
    for t in range(padded - 1, 0, -1):
        earlier = before[t - 1].gather(1, path[0].unsqueeze(1)).squeeze(1)
        path.insert(0, torch.where(t < n_steps, earlier, path[0]))
    path = torch.stack(path, 1)
    inside = steps < n_steps.unsqueeze(1)
    slots = torch.where(inside, steps * m + path, -1)
    extra = []
    if "transitions" in parts:
        stride = m * m if parts["transitions"].dim() == 4 else 0
        pairs = places["transitions"] + steps[:-1] * stride + path[:, :-1] * m + path[:, 1:]
        extra.append(torch.where(inside[:, 1:], pairs, -1))
    if "start" in parts:
        extra.append(places["start"] + path[:, :1])
    if "end" in parts:
        extra.append(places["end"] + last.unsqueeze(1))
    return slots, torch.cat(extra, 1) if extra else slots[:, :0], value


def _transitions_at(parts, t):
    """Return the transitions into step `t`, shape (n_samples, n_states, n_states)."""
    transitions = parts["transitions"]
    return transitions[:, t - 1] if transitions.dim() == 4 else transitions


def _are_independent(batch, parts):
    """Return whether steps are independent: there are no transitions, or all those of a sample have the same score."""
    if "transitions" not in parts:
        return True
    transitions, n_steps, n_states = parts["transitions"], batch.lengths[:, 0], batch.lengths[:, 1]
    inside = torch.arange(transitions.shape[-1], device=n_states.device) < n_states.unsqueeze(1)
    inside = inside.unsqueeze(1) & inside.unsqueeze(2)
    if transitions.dim() == 4:
        pairs = torch.arange(transitions.shape[1], device=n_steps.device) < n_steps.unsqueeze(1) - 1
        inside = inside.unsqueeze(1) & pairs.reshape(*pairs.shape, 1, 1)
    first = transitions[..., :1, :1]
    if transitions.dim() == 4:
        first = first[:, :1]
    alike = (transitions == first) & (transitions > -torch.inf)
    return bool((alike | ~inside).all())


def _solve_independent(batch, parts):
    """Solve chains whose transitions do not matter; see `_layers.independent` for the additional marginals."""
    scores, n_steps = batch.scores, batch.lengths[:, 0]
    _, padded, m = scores.shape
    ends = (n_steps - 1).reshape(-1, 1, 1).expand(-1, 1, m)
    shape = batch.given.get("transitions")

    def at_ends(unary, by_name):
        """Add what belongs to the first and the last state to an array over steps."""
        first, last = (by_name.get(name) for name in ("start", "end"))
        if first is not None:
            unary = torch.cat([unary[..., :1, :] + first.unsqueeze(-2), unary[..., 1:, :]], -2)
        if last is not None:
            places = ends.expand(*unary.shape[:-2], 1, m)
            unary = unary.scatter(-2, places, unary.gather(-2, places) + last.unsqueeze(-2))
        return unary

    def pairs_of(before, after):
        pairs = before[..., :-1, :, None] * after[..., 1:, None, :]
        return pairs.sum(-3) if len(shape) == 2 else pairs

    def join(unary, pairs):
        """Join additional marginals in the order of the additional scores."""
        own = {"transitions": pairs, "start": unary[..., 0, :]}
        own["end"] = unary.gather(-2, ends.expand(*unary.shape[:-2], 1, m))
        joined = [own[name].reshape(*unary.shape[:-2], -1) for name in batch.given]
        return torch.cat(joined, -1) if joined else batch.additional.new_zeros(*unary.shape[:-2], 0)

    u = sparsemax(at_ends(scores, parts))[0]
    inside = torch.arange(padded, device=scores.device) < n_steps.unsqueeze(1)
    solved = ((u.sum(-1) > 0.5) | ~inside).all(1)
    support = (u > 0.0).to(u.dtype)

    def multiply(unary, extra):
        by_name, _ = _split(extra, batch.given)
        unary = at_ends(unary, by_name)
        if shape is not None:
            changes = by_name["transitions"].reshape(*unary.shape[:-2], -1, m, m)
            before = (changes * u[:, 1:, None, :]).sum(-1)
            after = (changes * u[:, :-1, :, None]).sum(-2)
            unary = unary + torch.nn.functional.pad(before, (0, 0, 0, 1)) + torch.nn.functional.pad(after, (0, 0, 1, 0))
        mean = (unary * support).sum(-1, keepdim=True) / support.sum(-1, keepdim=True).clamp(min=1.0)
        w = support * (unary - mean)
        return w, join(w, None if shape is None else pairs_of(w, u.expand(w.shape)) + pairs_of(u.expand(w.shape), w))

    return u, join(u, None if shape is None else pairs_of(u, u)), multiply, solved


def solve(batch):
    """Solve a padded batch; see `Structure.tensor_solver`."""
    parts, _ = _split(batch.additional, batch.given)
    if _are_independent(batch, parts):
        return _solve_independent(batch, parts)
    return active_set(best_paths, batch)
