"""Samples of the Gibbs distribution of segmentations: log-sums over beginnings, then spans from the last one back.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, FLOATS_OUT, INTS, PARTS_2D_OUT, entry, kernel
from ..._numerics.sparsemax import highest
from .map import (
    DURATIONS,
    END,
    MAX_LENGTH,
    N_LABELS,
    N_STEPS,
    OPEN_ENDED,
    additional_indices_of,
    fill_tables,
    longer_of,
    put_span,
    score_spans,
    ways_in,
)

_MOST_NOISE = 1_000_000  # random numbers that are drawn together; they take 8 MB


@kernel
def _draw(logits, uniform):
    """Draw an index with probabilities proportional to the exponentials of `logits`, which are overwritten."""
    top = highest(logits)
    norm = 0.0
    for k in range(logits.shape[0]):
        logits[k] = np.exp(logits[k] - top)
        norm += logits[k]
    left = uniform * norm
    drawn = np.int64(0)
    for k in range(logits.shape[0]):
        if logits[k] > 0.0:
            drawn = k
            left -= logits[k]
            if left < 0.0:
                break
    return drawn


@kernel
def _split(dims, work):
    """Return the tables `entered`, `ended` and `longer` of `map.py`, and space for spans, in the work of the oracle."""
    n, m = dims[N_STEPS], dims[N_LABELS]
    first = longer_of(dims)
    longer = work[first : first + dims[OPEN_ENDED] * (n + 1) * m]
    return work[: n * m], work[n * m : (2 * n + 1) * m], longer, work[(2 * n + 1) * m : first]


@entry(types.void(FLOATS, FLOATS, INTS, FLOATS_OUT))
def _sum_beginnings(scores, additional, dims, work):
    """Fill in the log-sums over all segmentations of the first steps."""
    entered, ended, longer, spans = _split(dims, work)
    fill_tables(scores, additional, dims, ways_in(additional, dims), entered, ended, spans, longer, True)


@kernel
def _draw_begin(scores, additional, dims, work, end, label, logits, uniforms):
    """Draw the first step of the span that ends just before step `end`.

    Parameters
    ----------
    scores, additional, dims : arrays
        As of the oracle.
    work : array
        The tables.
    end, label : int
    logits : array of shape (max_length + 1,)
        Scratch space.
    uniforms : array
        As of `_draw_segmentations`, of one draw.
    """
    m = dims[N_LABELS]
    longest = min(dims[MAX_LENGTH], end)
    size = dims[N_STEPS] + 1
    entered, _, longer, spans = _split(dims, work)
    score_spans(scores, additional, dims, end, spans)
    for length in range(1, longest + 1):
        logits[length - 1] = spans[(length - 1) * m + label] + entered[(end - length) * m + label]
    n_ways = longest + dims[OPEN_ENDED]
    if dims[OPEN_ENDED]:
        logits[longest] = longer[(end - 1) * m + label] + scores[(end - 1) * m + label]
    drawn = _draw(logits[:n_ways], uniforms[end])
    if drawn < longest:
        return end - 1 - drawn
    # The span is longer than the maximum length. At each step back, it has this length or is longer still.
    stop = end - 1
    while True:
        score_spans(scores, additional, dims, stop, spans)
        logits[0] = spans[(longest - 1) * m + label] + entered[(stop - longest) * m + label]
        logits[1] = longer[(stop - 1) * m + label] + scores[(stop - 1) * m + label]
        if _draw(logits[:2], uniforms[2 * size + stop]) == 0:
            return stop - longest
        stop -= 1


@entry(types.void(FLOATS, FLOATS, INTS, FLOATS_OUT, FLOATS, PARTS_2D_OUT))
def _draw_segmentations(scores, additional, dims, work, uniforms, slots):
    """Draw segmentations, a row of `slots` for each, from the last span to the first one.

    Parameters
    ----------
    scores, additional, dims : arrays
        As of the oracle.
    work : array
        The tables.
    uniforms : array of shape (n_draws * 3 * (n_steps + 1),)
        Random numbers in [0, 1), by draw, purpose and step.
    slots : array of shape (n_draws, n_steps)
        Gets the unary parts.
    """
    n, m = dims[N_STEPS], dims[N_LABELS]
    _, ended, _, _ = _split(dims, work)
    into = ways_in(additional, dims)
    at_end = additional_indices_of(dims)[2]
    logits = np.empty(max(m, dims[MAX_LENGTH] + 1, 2))
    durations = np.empty(n * dims[DURATIONS], np.int32)
    size = n + 1
    for i in range(slots.shape[0]):
        own = uniforms[3 * i * size : 3 * (i + 1) * size]
        slots[i, :] = -1
        for last in range(m):
            logits[last] = ended[n * m + last] + (additional[at_end + last] if dims[END] else 0.0)
        end = n
        label = _draw(logits[:m], own[size + n])
        while True:
            begin = _draw_begin(scores, additional, dims, work, end, label, logits, own)
            put_span(dims, begin, end, label, slots[i], durations)
            if begin == 0:
                break
            for last in range(m):
                logits[last] = ended[begin * m + last] + into[label * m + last]
            end = begin
            label = _draw(logits[:m], own[size + begin])


def draw_segmentations(sample, n, rng):
    """Draw segmentations of a `StructureBatch` of one problem from the Gibbs distribution.

    Returns
    -------
    slots : int32 array of shape (n, n_steps)
    """
    given = sample.scores, sample.additional, sample.dims
    work = np.empty(int(sample.sizes[2]))
    _sum_beginnings(*given, work)
    n_steps = int(sample.dims[N_STEPS])
    slots = np.empty((n, n_steps), np.int32)
    n_together = max(1, _MOST_NOISE // (3 * (n_steps + 1)))
    for start in range(0, n, n_together):
        part = slots[start : start + n_together]
        _draw_segmentations(*given, work, rng.random_sample(3 * len(part) * (n_steps + 1)), part)
    return slots
