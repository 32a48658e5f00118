"""SparseMAP over dependency trees in batched operations of PyTorch: the active set over the best trees of a batch.

Projective trees are derivations of Eisner's dynamic program. Non-projective ones are found by contraction of cycles,
as in `edmonds.py`, but all cycles of all samples are contracted at once. This takes few rounds, and the host reads one
flag in each of them.
"""

import numpy as np
import torch

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, SOURCE, Hypergraph, derivations_of


def eisner_program(shape, given, single_root):
    """Return the `Hypergraph` of projective trees, with a final node for each number of words; see `derivations_of`.

    The tables are those of `eisner.py`: the best spans from i to j that are headed by i (right) or j (left), complete
    or with an arc between both ends.
    """
    graph = Hypergraph(shape, given)
    n = shape[1]
    graph.slot_of = np.broadcast_to(np.arange(n), shape)
    right, left, to_right, to_left = (np.full((n + 1, n + 1), NEVER) for _ in range(4))
    for table in (right, left):
        np.fill_diagonal(table, SOURCE)
    first = int(single_root)
    for width in range(1, n + 1 - first):
        i = np.arange(first, n + 1 - width)
        j = i + width
        inner = i > 0
        offset = np.arange(width)
        splits = i[:, None] + offset
        pairs = graph.add(right[i[:, None], splits], others=left[splits + 1, j[:, None]])
        # No arc leads to the root.
        arcs = np.append(graph.parts[i, j - 1], graph.parts[j[inner], i[inner] - 1])
        nodes = graph.add(np.append(pairs, pairs[inner])[:, None], nodes=arcs)
        to_right[i, j] = nodes[: len(i)]
        to_left[i[inner], j[inner]] = nodes[len(i) :]
        tails = np.vstack([to_right[i[:, None], splits + 1], left[i[:, None], splits]])
        others = np.vstack([right[splits + 1, j[:, None]], to_left[splits, j[:, None]]])
        right[i, j], left[i, j] = graph.add(tails, others=others).reshape(2, -1)
    words = np.arange(1, n + 1)
    last = right[0, 1:]
    if single_root:
        # Left and right dependents of the only word at the root.
        tails = np.broadcast_to(left[1, words], (n, n))
        others = right[words, words[:, None]]
        spans = graph.add(tails.reshape(-1, 1), others=others.reshape(-1, 1), nodes=np.tile(graph.parts[0], n))
        last = graph.add(spans.reshape(n, n))
    graph.sinks = np.broadcast_to(last, shape)
    return graph


def _best_entries(weights, owner, single_root):
    """Return the best weight of an arc into each component, and its head; as in `edmonds.py`.

    Parameters
    ----------
    weights : Tensor of shape (n_samples, n_words + 1, n_words + 1)
        By the head, and the component that the arc enters.
    owner : int Tensor of shape (n_samples, n_words + 1)
        The component of each head.
    single_root : bool
        Whether to take an arc from the root only if there is no other.
    """
    inner = owner.unsqueeze(2) == torch.arange(owner.shape[1], device=owner.device)
    weights = torch.where(inner, -torch.inf, weights)
    best, head = weights.max(1)
    if single_root:
        others, other = weights[:, 1:].max(1)
        best = torch.where(others > -torch.inf, others, best)
        head = torch.where(others > -torch.inf, other + 1, head)
    return best, head


def _cycles(parent):
    """Return the lowest component of the cycle of each component, or itself if it is on no cycle; 0 is the root."""
    n_jumps = parent.shape[1].bit_length()
    itself = torch.arange(parent.shape[1], device=parent.device).expand_as(parent)
    jump, lowest = parent, itself
    for _ in range(n_jumps):
        lowest = torch.minimum(lowest, lowest.gather(1, jump))
        jump = jump.gather(1, jump)
    # After this many steps each walk is at the root or on a cycle, and each component of a cycle is the end of a walk.
    reached = torch.zeros_like(parent, dtype=torch.bool).scatter_(1, jump, True)
    return torch.where(reached, lowest, itself), reached & (itself > 0)


def _merge(weights, modifiers, on_cycle, best, group):
    """Give each group of components the best weights of its members, and the words that these arcs enter."""
    values = torch.where(on_cycle.unsqueeze(1), weights - best.unsqueeze(1), weights)
    group = group.unsqueeze(1).expand_as(values)
    merged = torch.full_like(values, -torch.inf).scatter_reduce_(2, group, values, "amax")
    members = torch.arange(values.shape[2], device=values.device).expand_as(values)
    members = torch.where(values == merged.gather(2, group), members, values.shape[2] - 1)
    chosen = torch.full_like(members, values.shape[2] - 1).scatter_reduce_(2, group, members, "amin")
    return merged, modifiers.gather(2, chosen)


def best_heads(arcs, n_words, single_root):
    """Return the heads of the best non-projective tree of each sample.

    Parameters
    ----------
    arcs : Tensor of shape (n_samples, n + 1, n)
        Scores, -inf in the padding.
    n_words : int Tensor of shape (n_samples,)
    single_root : bool

    Returns
    -------
    heads : int Tensor of shape (n_samples, n)
        If no tree is allowed, it contains an arc of score -inf, or several words at the root.
    """
    weights = torch.nn.functional.pad(arcs, (1, 0), value=-torch.inf)
    itself = torch.arange(weights.shape[1], device=arcs.device).expand(len(arcs), -1)
    owner = itself
    modifiers = itself.unsqueeze(1).expand_as(weights)
    live = (itself > 0) & (itself <= n_words.unsqueeze(1))
    rounds = []
    while True:
        best, head = _best_entries(weights, owner, single_root)
        modifier = modifiers.gather(1, head.unsqueeze(1)).squeeze(1)
        parent = torch.where(live & (best > -torch.inf), owner.gather(1, head), 0)
        group, on_cycle = _cycles(parent)
        if not on_cycle.any():
            break
        rounds.append((head, modifier, owner, group))
        weights, modifiers = _merge(weights, modifiers, on_cycle, best, group)
        owner = group.gather(1, owner)
        live = live & (group == itself)
    for own_head, own_modifier, owner, group in reversed(rounds):
        # The arc that enters a cycle replaces the arc within it to the same component.
        head = head.gather(1, group)
        modifier = modifier.gather(1, group)
        enters = owner.gather(1, modifier) == itself
        head = torch.where(enters, head, own_head)
        modifier = torch.where(enters, modifier, own_modifier)
    return head[:, 1:]


def _best_trees(batch, single_root):
    """Find the best non-projective tree of each sample; an oracle of `_numerics.tensors`."""
    arcs, n_words = batch.scores, batch.lengths[:, 1]
    n = arcs.shape[2]
    words = torch.arange(n, device=arcs.device)
    heads = best_heads(arcs, n_words, single_root)
    inside = words < n_words.unsqueeze(1)
    slots = torch.where(inside, heads * n + words, -1)
    value = torch.where(inside, arcs.flatten(1).gather(1, slots.clamp(min=0)), 0.0).sum(1)
    if single_root:
        value = torch.where((inside & (heads == 0)).sum(1) > 1, -torch.inf, value)
    return slots, slots[:, :0], value


def solve(structure, batch):
    """Solve a padded batch of a `DependencyTree`; see `Structure.tensor_solver`."""
    n_labels, single_root = structure.n_labels, structure.single_root
    arcs = batch if n_labels is None else batch._replace(scores=batch.scores[..., 0])
    program = derivations_of(eisner_program, arcs, single_root) if structure.projective else None

    def best(problems):
        label = None
        if n_labels is not None:
            scores, label = problems.scores.max(-1)
            problems = problems._replace(scores=scores)
        if program is None:
            slots, extra, value = _best_trees(problems, single_root)
        else:
            slots, extra, value = program.best(problems)
        if label is not None:
            labels = label.flatten(1).gather(1, slots.clamp(min=0))
            slots = torch.where(slots >= 0, slots * n_labels + labels, -1)
        return slots, extra, value

    return active_set(best, batch)
