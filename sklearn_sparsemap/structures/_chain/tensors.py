"""SparseMAP over chains in batched operations of PyTorch: the active set, and chains whose steps are independent.

Used by `structures/_sequence_budget`.
"""

import numpy as np
import torch

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, SOURCE, Hypergraph, derivations_of
from .._simplex.tensors import sparsemax


def _split(joined, given):
    """Return the parts of a joined array by name, in their shapes."""
    sizes = [torch.Size(shape).numel() for shape in given.values()]
    parts = joined.split(sizes, -1)
    return {name: part.unflatten(-1, shape) for (name, shape), part in zip(given.items(), parts)}


def chain_program(shape, given, state=-1, counts=None):
    """Return the `Hypergraph` of chains, with a final node for each number of steps; see `derivations_of`.

    `structures/_sequence_budget/tensors.py` calls this with `state` and `counts`.

    Parameters
    ----------
    shape : tuple of int
        Numbers of steps and states.
    given : tuple of (name, shape)
        The additional scores.
    state : int
        The state that is counted; -1 for none.
    counts : tuple of (fewest, most), default=None
        For each number of steps, the allowed numbers of steps in `state`. By default 0.
    """
    graph = Hypergraph(shape, given)
    n, m = shape
    counts = np.array([(0, 0)] * n if counts is None else counts)
    size = counts.max() + 1
    counted = np.arange(m) == state
    moves = graph.extra.get("transitions")
    # Node [t, i, k] stands for the paths to state i of step t with k steps in the counted state.
    nodes = np.full((n, m, size), NEVER)
    before = np.where(np.arange(size) == 0, SOURCE, NEVER)[:, None]
    scores = graph.extra.get("start")
    scores = None if scores is None else scores[:, None]
    for t in range(n):
        if t:
            before, scores = nodes[t - 1].T, None
            if moves is not None:
                scores = (moves if moves.ndim == 2 else moves[t - 1]).T
        shifted = np.vstack([np.full_like(before[:1], NEVER), before[:-1]])
        tails = np.where(counted[:, None, None], shifted, before).reshape(m * size, -1)
        arcs = None if scores is None else np.repeat(scores, size, axis=0)
        nodes[t] = graph.add(tails, arcs, np.repeat(graph.parts[t], size)).reshape(m, size)
    count = np.arange(size)
    fewest, most = counts.T[:, :, None, None]
    allowed = np.where((fewest <= count) & (count <= most), nodes, NEVER).reshape(n, m * size)
    end = graph.extra.get("end")
    graph.sinks = graph.add(allowed, None if end is None else np.repeat(end, size))
    return graph


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
    """Solve chains whose transitions do not matter.

    `_layers/independent.py` has the same rule for the additional marginals, so a change belongs in both.
    """
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
        by_name = _split(extra, batch.given)
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


def solve(structure, batch):
    """Solve a padded batch; see `Structure.tensor_solver`."""
    parts = _split(batch.additional, batch.given)
    if _are_independent(batch, parts):
        return _solve_independent(batch, parts)
    return active_set(derivations_of(chain_program, batch).best, batch)
