"""The ways into a span and to its end, from which the k best segmentations are found; see `_numerics/derivations.py`.

Node ``place + 1`` is an entry of the tables of `map.py`, which the oracle keeps in `work` one after the other: first
`entered`, then `ended`, and then, if the last duration is open-ended, `longer`, which is at the end of `work`.

Used by `structure.py`.
"""

import numpy as np

from ..._numerics.derivations import COUNT, NONE, SINK, STEP, entering_arcs, put_arc
from .map import (
    BY_SPANS,
    END,
    MAX_LENGTH,
    N_LABELS,
    N_STEPS,
    OPEN_ENDED,
    TRANSITIONS,
    additional_indices_of,
    longer_of,
    score_spans,
)


@entering_arcs
def ways_of_segmentation(scores, additional, dims, work, node, arcs, totals):
    """List the spans that end with a label at a step, or the labels before a span that begins there."""
    n = dims[N_STEPS]
    m = dims[N_LABELS]
    n_arcs = np.int64(0)
    at_transitions, _, at_end = additional_indices_of(dims)
    # The beginnings of two tables.
    ended, spans = n * m, work[(2 * n + 1) * m :]
    step, label = (node - 1) // m, (node - 1) % m
    if node == SINK:
        for last in range(m):
            put_arc(arcs, last, ended + n * m + last + 1, NONE, NONE, NONE)
            totals[last] = work[ended + n * m + last] + (additional[at_end + last] if dims[END] else 0.0)
        return m
    if step < n:
        # The label may be that of the previous span only if spans are the parts.
        for last in range(m if step > 0 else 0):
            if dims[BY_SPANS] or last != label:
                put_arc(arcs, n_arcs, ended + step * m + last + 1, NONE, NONE, NONE)
                move = additional[at_transitions + last * m + label] if dims[TRANSITIONS] else 0.0
                totals[n_arcs] = work[ended + step * m + last] + move
                n_arcs += 1
        return n_arcs
    end = step - n
    first = np.int64(1)
    # The spans that are longer by one step go on from the table of the step before.
    longer = longer_of(dims)
    if end > n:
        end, first = end - n - 1, dims[MAX_LENGTH]
    if dims[OPEN_ENDED] and work[longer + (end - 1) * m + label] > -np.inf:
        part = (end - 1) * m + label
        put_arc(arcs, n_arcs, (2 * n + 1) * m + part + 1, NONE, end - 1, part)
        totals[n_arcs] = work[longer + part] + scores[part]
        n_arcs += 1
    for length in range(first, score_spans(scores, additional, dims, end, spans) + 1):
        begin = end - length
        part = (begin * dims[MAX_LENGTH] + length - 1 if dims[BY_SPANS] else begin) * m + label
        put_arc(arcs, n_arcs, begin * m + label + 1, NONE, begin, part)
        if not dims[BY_SPANS]:
            arcs[n_arcs, COUNT], arcs[n_arcs, STEP] = length, m
        totals[n_arcs] = spans[(length - 1) * m + label] + work[begin * m + label]
        n_arcs += 1
    return n_arcs
