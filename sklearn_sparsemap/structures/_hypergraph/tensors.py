"""Best derivations of hypergraphs in batched operations of PyTorch: the MAP oracle of every dynamic program [1]_.

A node is an entry of a table of the dynamic program. Its value is the maximum, over the hyperarcs that enter it, of
the score of the hyperarc plus the values of its tails, plus the score of the node. A hyperarc with one tail is an arc,
and a derivation then a path. The nodes of a level do not depend on each other, so PyTorch computes them for all samples
at once.

References
----------
.. [1] Huang. Advanced Dynamic Programming in Semiring and Hypergraph Frameworks. COLING 2008 (tutorial).

Used by `structures/_alignment`, `structures/_chain`, `structures/_hyperpath`, `structures/_path`,
`structures/_segmentation`, `structures/_sequence_budget` and `structures/_tree`.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

# Nodes of value 0 and of value -inf; and the number of a score of 0.
SOURCE, NEVER, NO_SCORE = 0, 1, -1


class _Level(NamedTuple):
    """Nodes that do not depend on each other, all entered by the same number of hyperarcs.

    Attributes
    ----------
    first, stop : int
        The range of the nodes.
    tails, others : int array or Tensor of shape (n_nodes, n_entering)
        The tails of the hyperarcs; `others` is None if they have one tail. All nodes may share one row of `tails`.
    arcs : int array or Tensor of shape (n_nodes, n_entering), or None
    nodes : int array or Tensor of shape (n_nodes, 1), or None
        The numbers of the scores, None for scores of 0.
    has_parts : bool
        Whether the scores of the hyperarcs are those of parts; otherwise they are additional scores.
    """

    first: int
    stop: int
    tails: object
    others: object
    arcs: object
    nodes: object
    has_parts: bool


class Hypergraph:
    """A dynamic program over scores of one padded shape, built level by level.

    Parameters
    ----------
    shape : tuple of int
        Shape of the scores.
    given : tuple of (name, shape)
        The additional scores.

    Attributes
    ----------
    parts : int array, shape of the scores
    extra : dict of str -> int array
        The numbers of the scores and of the additional scores, for `add`.
    slot_of : int array, shape of the scores
        The slot of each part. By default, its index along the first axis.
    sinks : int array
        Final nodes, by the size of a sample along the first axes of its scores: ``sinks[n - 1]`` for n steps. The file
        `tensors.py` of a structure sets these two.
    """

    def __init__(self, shape, given=()):
        self.parts = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
        self.extra, self.n_scores = {}, self.parts.size
        for name, own in given:
            size = int(np.prod(own, dtype=np.int64))
            self.extra[name] = self.n_scores + np.arange(size).reshape(own)
            self.n_scores += size
        rows = np.arange(shape[0]).reshape(-1, *[1] * (len(shape) - 1))
        self.slot_of = np.broadcast_to(rows, shape)
        self.sinks = None
        self.levels = []
        self.depth = np.zeros(2, np.int64)

    def add(self, tails, arcs=None, nodes=None, others=None):
        """Add a level of nodes. Along a derivation, additional scores belong to hyperarcs with one tail.

        Parameters
        ----------
        tails, others : int array of shape (n_nodes, n_entering)
            The tails of the hyperarcs that enter each node; by default, they have a single one.
        arcs : int array that broadcasts to the shape of tails, default=None
            The number of the score of each hyperarc: all of scores, or all of additional scores.
        nodes : int array of shape (n_nodes,), default=None
            The number of the score of each node.

        Returns
        -------
        numbers : int array of shape (n_nodes,)
        """
        first = len(self.depth)
        self.depth = np.append(self.depth, self.depth[tails].max(1) + 1)
        stop = first + len(tails)
        nodes = None if nodes is None else nodes[:, None]
        arcs = None if arcs is None or np.max(arcs) == NO_SCORE else np.broadcast_to(arcs, tails.shape)
        has_parts = arcs is not None and arcs.max() < self.parts.size
        self.levels.append(_Level(first, stop, tails, others, arcs, nodes, has_parts))
        return np.arange(first, stop)


class Derivations:
    """A hypergraph on a device.

    Parameters
    ----------
    graph : Hypergraph
    device : torch.device
    """

    def __init__(self, graph, device):
        self._n_parts = graph.parts.size
        self._n_scores = graph.n_scores
        self._n_nodes = len(graph.depth)

        def move(array):
            return torch.tensor(array, dtype=torch.int64, device=device)

        def numbers(array):
            # The last row of the table of scores is zero.
            return None if array is None else move(np.where(array == NO_SCORE, self._n_scores, array))

        self._levels, steps = [], []
        for level in graph.levels:
            # Equal rows are read once.
            tails = level.tails[:1] if (level.tails == level.tails[:1]).all() else level.tails
            others = None if level.others is None else move(level.others)
            arcs = numbers(level.arcs)
            nodes = numbers(level.nodes)
            self._levels.append(level._replace(tails=move(tails), others=others, arcs=arcs, nodes=nodes))
            if arcs is not None and not level.has_parts:
                steps.append(graph.depth[level.first : level.stop])
        self._n_slots = int(graph.slot_of.max()) + 1
        # The slot after the last one takes the scores that no derivation uses.
        self._slot_of = move(np.append(graph.slot_of.ravel(), self._n_slots))
        # The depths of the nodes of a path differ, so they number the slots of its additional scores.
        depths, rows = np.unique(np.concatenate(steps[::-1] or [[]]), return_inverse=True)
        self._extra_slot_of = move(rows)
        self._n_extra = len(depths)
        self._sinks = move(graph.sinks)

    def best(self, batch):
        """Find the best derivation of each sample of a `TensorBatch`; an oracle of `_numerics.tensors`."""
        zero = batch.scores.new_zeros(len(batch.scores), 1)
        # A row for each score, because rows are what the levels gather.
        table = torch.cat([batch.scores.flatten(1), batch.additional, zero], 1).T.contiguous()
        values = table.new_full((self._n_nodes, table.shape[1]), -torch.inf)
        values[SOURCE] = 0.0
        choices = []
        for level in self._levels:
            total = values[level.tails]
            if level.others is not None:
                total = total + values[level.others]
            if level.arcs is not None:
                total = total + table[level.arcs]
            top, choice = total.max(1)
            if level.nodes is not None:
                top = top + table[level.nodes[:, 0]]
            values[level.first : level.stop] = top
            choices.append(choice)
        places = tuple(size - 1 for size in batch.lengths.T[: self._sinks.dim()])
        last = self._sinks[places].expand(1, len(batch.scores))
        return *self._trace(last, choices), values.gather(0, last).squeeze(0)

    def _trace(self, last, choices):
        """Mark the nodes of the best derivations, from the last one back; return slots and additional slots."""
        used = torch.zeros(self._n_nodes, last.shape[1], dtype=torch.int32, device=last.device)
        used.scatter_(0, last, 1)
        parts, extra = [], []
        for level, choice in zip(reversed(self._levels), reversed(choices)):
            here = used[level.first : level.stop].clone()
            choice = choice.expand(here.shape)
            for tails in (level.tails, level.others):
                if tails is not None:
                    used.scatter_add_(0, tails.expand(len(here), -1).gather(1, choice), here)
            if level.nodes is not None:
                parts.append(torch.where(here > 0, level.nodes, self._n_scores))
            if level.arcs is not None:
                numbers = torch.where(here > 0, level.arcs.gather(1, choice), self._n_scores)
                (parts if level.has_parts else extra).append(numbers)
        parts = torch.cat(parts).clamp(max=self._n_parts)
        slots = _fill(self._n_slots + 1, self._slot_of[parts], parts)[:-1]
        if not extra:
            return slots.T, slots.T[:, :0]
        extra = torch.cat(extra) - self._n_parts
        extra = torch.where(extra < self._n_scores - self._n_parts, extra, -1)
        return slots.T, _fill(self._n_extra, self._extra_slot_of.unsqueeze(1).expand(extra.shape), extra).T


def _fill(n_slots, slot_of, numbers):
    """Write each number to its slot, -1 to the others; all have an axis of samples at the end."""
    slots = numbers.new_full((n_slots, numbers.shape[1]), -1)
    return slots.scatter_reduce_(0, slot_of, numbers, "amax")


@lru_cache(256)
def _derivations(build, shape, given, options, device):
    return Derivations(build(shape, given, *options), device)


def derivations_of(build, batch, *options):
    """Return the `Derivations` of a batch; ``build(shape, given, *options)`` makes the `Hypergraph` of a shape."""
    shape = tuple(batch.scores.shape[1:])
    given = tuple(batch.given.items())
    return _derivations(build, shape, given, options, batch.scores.device)
