"""Marginals of segmentations: forward and backward tables as in `map.py`, with log-sums instead of maxima."""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._exp import add_logs
from .map import (
    BY_SPANS,
    DURATIONS,
    END,
    MAX_LENGTH,
    N_LABELS,
    N_STEPS,
    START,
    TRANSITIONS,
    places_of_additional,
    score_spans,
    way_in,
)


@kernel
def _log_sum(values, shifts, skipped):
    """Return the log of the sum of ``exp(values + shifts)``, except for one entry."""
    top, norm = -np.inf, 0.0
    for i in range(values.shape[0]):
        top = max(top, values[i] + shifts[i] if i != skipped else -np.inf)
    if top == -np.inf:
        return top
    for i in range(values.shape[0]):
        if i != skipped:
            norm += np.exp(values[i] + shifts[i] - top)
    return top + np.log(norm)


@kernel
def _transpose_transitions(additional, dims, into):
    """Write the transitions into each label as a row; zeros if there are none."""
    m, at = dims[N_LABELS], places_of_additional(dims)[0]
    for label in range(m):
        for last in range(m):
            into[label * m + last] = additional[at + last * m + label] if dims[TRANSITIONS] else 0.0


@kernel
def _sum_forward(scores, additional, dims, entered, ended, spans):
    """Fill in the log-sums over segmentations of the first steps."""
    m, at_start = dims[N_LABELS], places_of_additional(dims)[1]
    into = np.empty(m * m)
    _transpose_transitions(additional, dims, into)
    for label in range(m):
        entered[label] = additional[at_start + label] if dims[START] else 0.0
    for end in range(1, dims[N_STEPS] + 1):
        longest = score_spans(scores, additional, dims, end, spans)
        for label in range(m):
            top, norm = -np.inf, 0.0
            for length in range(1, longest + 1):
                spans[(length - 1) * m + label] += entered[(end - length) * m + label]
                top = max(top, spans[(length - 1) * m + label])
            if top > -np.inf:
                for length in range(1, longest + 1):
                    norm += np.exp(spans[(length - 1) * m + label] - top)
                top += np.log(norm)
            ended[end * m + label] = top
        if end == dims[N_STEPS]:
            break
        now = ended[end * m : (end + 1) * m]
        for label in range(m):
            # Adjacent steps with the same label form one span.
            skipped = -1 if dims[BY_SPANS] else label
            entered[end * m + label] = _log_sum(now, into[label * m : (label + 1) * m], skipped)


@kernel
def _sum_backward(scores, additional, dims, begun, after, spans):
    """Fill in the log-sums over completions that begin with a span at a step, and after a span that ended there."""
    n, m = dims[N_STEPS], dims[N_LABELS]
    at_transitions, _, at_end = places_of_additional(dims)
    zeros = np.zeros(m)
    begun[:] = -np.inf
    for end in range(n, 0, -1):
        for label in range(m):
            total = additional[at_end + label] if dims[END] else 0.0
            if end < n:
                at = at_transitions + label * m
                row = additional[at : at + m] if dims[TRANSITIONS] else zeros
                total = _log_sum(begun[end * m : (end + 1) * m], row, -1 if dims[BY_SPANS] else label)
            after[end * m + label] = total
        longest = score_spans(scores, additional, dims, end, spans)
        for length in range(1, longest + 1):
            for label in range(m):
                at = (end - length) * m + label
                begun[at] = add_logs(begun[at], spans[(length - 1) * m + label] + after[end * m + label])


@kernel
def _count_spans(scores, additional, dims, log_partition, tables, spans, work):
    """Write the probabilities of spans or of the labels of steps, and the expected count of each duration."""
    entered, after = tables
    m, n_parts = dims[N_LABELS], scores.shape[0]
    for end in range(1, dims[N_STEPS] + 1):
        longest = score_spans(scores, additional, dims, end, spans)
        for label in range(m):
            covering = 0.0
            # A step is covered by all spans that begin at it or before it.
            for length in range(longest, 0, -1):
                row, step = (length - 1) * m + label, end - length
                share = np.exp(entered[step * m + label] + spans[row] + after[end * m + label] - log_partition)
                covering += share
                if dims[BY_SPANS]:
                    work[(step * dims[MAX_LENGTH] + length - 1) * m + label] = share
                else:
                    work[step * m + label] += covering
                if dims[DURATIONS]:
                    work[n_parts + row] += share


@as_oracle
def segmentation_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probabilities of the parts and the expected counts of additional parts; return log Z."""
    n, m, n_parts, n_found = dims[N_STEPS], dims[N_LABELS], scores.shape[0], scores.shape[0] + additional.shape[0]
    for i in range(n_found):
        work[i] = 0.0
    size = (n + 1) * m
    entered, ended = work[n_found : n_found + size], work[n_found + size : n_found + 2 * size]
    begun, after = work[n_found + 2 * size : n_found + 3 * size], work[n_found + 3 * size : n_found + 4 * size]
    spans = work[n_found + 4 * size :]
    at_transitions, at_start, at_end = places_of_additional(dims)
    _sum_forward(scores, additional, dims, entered, ended, spans)
    log_partition = -np.inf
    for label in range(m):
        ended[n * m + label] += additional[at_end + label] if dims[END] else 0.0
        log_partition = add_logs(log_partition, ended[n * m + label])
    if log_partition == -np.inf:
        return log_partition
    _sum_backward(scores, additional, dims, begun, after, spans)
    _count_spans(scores, additional, dims, log_partition, (entered, after), spans, work)
    for label in range(m):
        if dims[START]:
            work[n_parts + at_start + label] = np.exp(entered[label] + begun[label] - log_partition)
        if dims[END]:
            work[n_parts + at_end + label] = np.exp(ended[n * m + label] - log_partition)
        if not dims[TRANSITIONS]:
            continue
        for step in range(1, n):
            for last in range(m):
                total = ended[step * m + last] + way_in(additional, dims, last, label) + begun[step * m + label]
                work[n_parts + at_transitions + last * m + label] += np.exp(total - log_partition)
    return log_partition


def segmentation_marginal_work(dims):
    """Return the length of `work` that `segmentation_marginals` needs."""
    n, longest, m, by_spans, durations, transitions, start, end = (int(d) for d in dims)
    n_parts = n * longest * m if by_spans else n * m
    n_additional = (durations * longest + transitions * m + start + end) * m
    return n_parts + n_additional + 4 * (n + 1) * m + min(longest, n) * m
