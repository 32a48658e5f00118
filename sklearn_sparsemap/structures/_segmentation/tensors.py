"""SparseMAP over segmentations in batched operations of PyTorch, by the dynamic program of `map.py`."""

import numpy as np

from ..._numerics.tensors import active_set
from .._hypergraph.tensors import NEVER, SOURCE, Hypergraph, derivations_of


def segmentation_program(shape, given, max_length, by_spans, open_ended=False):
    """Return the `Hypergraph` of segmentations, with a final node for each number of steps; see `derivations_of`.

    Parameters
    ----------
    shape : tuple of int
        Of the scores.
    given : tuple of (name, shape)
        The additional scores.
    max_length : int
        Maximum length of a span.
    by_spans : bool
        Whether spans are the parts, instead of steps.
    open_ended : bool, default=False
        Whether the last node of a step also stands for longer spans.
    """
    graph = Hypergraph(shape, given)
    n = shape[0]
    m = shape[-1]
    start, durations, moves, end = (graph.extra.get(name) for name in ("start", "durations", "transitions", "end"))
    labels = np.arange(m)
    parts = graph.parts
    entered = np.full((n, m), NEVER)
    ended = np.full((n, m), NEVER)
    entered[0] = graph.add(np.full((m, 1), SOURCE), None if start is None else start[:, None])
    spans = np.full((0, m), NEVER)
    for t in range(n):
        lengths = np.arange(1, min(max_length, t + 1) + 1)
        if by_spans:
            # Spans that end with this step, by their lengths.
            before, scores = entered[t + 1 - lengths], parts[t + 1 - lengths, lengths - 1]
        else:
            # A span of several steps continues one of the previous step.
            before = np.vstack([entered[t : t + 1], spans[: len(lengths) - 1]])
            scores = np.tile(parts[t], (len(lengths), 1))
        tails = before.reshape(-1, 1)
        if open_ended and len(spans) == max_length:
            # Spans of the maximum length, or longer ones, go on.
            longer = np.full((len(lengths), m), NEVER)
            longer[-1] = spans[-1]
            tails = np.column_stack([tails, longer.reshape(-1, 1)])
        spans = graph.add(tails, None, scores.ravel()).reshape(-1, m)
        ended[t] = graph.add(spans.T, None if durations is None else durations[lengths - 1].T)
        if t + 1 < n:
            tails = np.tile(ended[t], (m, 1))
            if not by_spans:
                # Adjacent steps with equal labels are one span.
                tails[labels, labels] = NEVER
            entered[t + 1] = graph.add(tails, None if moves is None else moves.T)
    graph.sinks = graph.add(ended, end)
    return graph


def solve(structure, batch):
    """Solve a padded batch of a `Segmentation`; see `Structure.tensor_solver`."""
    program = derivations_of(
        segmentation_program, batch, structure.max_length, structure.parts == "spans", structure.open_ended
    )
    return active_set(program.best, batch)
