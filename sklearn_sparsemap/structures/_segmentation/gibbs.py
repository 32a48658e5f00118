"""Marginals of segmentations: the tables of `map.py` with log-sums instead of maxima, and then their derivatives.

Used by `spans.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import add_logs
from .map import (
    BY_SPANS,
    DURATIONS,
    END,
    MAX_LENGTH,
    N_LABELS,
    N_STEPS,
    OPEN_ENDED,
    START,
    TRANSITIONS,
    additional_indices_of,
    fill_tables,
    longer_of,
    score_spans,
    tables_of,
    ways_in,
)


@kernel
def _pass_longer(scores, dims, here, spans, tables, passed, work):
    """Pass on the probability of spans that end at an entry of the tables, or go on there, and have too many steps.

    Returns the probability that a span of exactly the maximum length ends here and goes on.
    """
    entered, ended, longer = tables
    begins, ends, goes_on = passed
    m, length = dims[N_LABELS], dims[MAX_LENGTH]
    share, before = 0.0, here - m
    if goes_on[here] > 0.0:
        begin = here - length * m
        begun = entered[begin] + spans[(length - 1) * m + here % m]
        share = goes_on[here] * np.exp(begun - longer[here])
        begins[begin] += share
        for k in range(length):
            work[begin + k * m] += share
    if longer[before] > -np.inf:
        total, passed_on = longer[before] + scores[before], 0.0
        if ends[here] > 0.0:
            passed_on += ends[here] * np.exp(total - ended[here])
        if goes_on[here] > 0.0:
            passed_on += goes_on[here] * np.exp(total - longer[here])
        goes_on[before] += passed_on
        work[before] += passed_on
    return share


@kernel
def _pass_spans(scores, additional, dims, into, tables, passed, spans, work):
    """Write the probabilities of spans or of the labels of steps, and the expected counts of durations and transitions.

    The derivative of log Z by an entry of a table is the probability that a span of the label ends or begins there.
    Each is distributed over the summands of its sum.

    Parameters
    ----------
    scores, additional, dims, into, spans
        As in `map.fill_tables`.
    tables : tuple of arrays
        `entered`, `ended` and `longer`, as log-sums.
    passed : tuple of arrays
        The probabilities that a span begins, that it ends, and that it goes on with at least the maximum length. The
        ends of the last span are given.
    work : array
        Gets the results.
    """
    entered, ended, _ = tables
    begins, ends, _ = passed
    m = dims[N_LABELS]
    n_parts = scores.shape[0]
    at_transitions = scores.shape[0] + additional_indices_of(dims)[0]
    for end in range(dims[N_STEPS], 0, -1):
        for label in range(m):
            here = end * m + label
            for last in range(m if begins[here] > 0.0 else 0):
                total = ended[end * m + last] + into[label * m + last]
                share = begins[here] * np.exp(total - entered[here])
                ends[end * m + last] += share
                if dims[TRANSITIONS]:
                    work[at_transitions + last * m + label] += share
        longest = score_spans(scores, additional, dims, end, spans)
        for label in range(m):
            here, covering = end * m + label, 0.0
            if dims[OPEN_ENDED]:
                share = _pass_longer(scores, dims, here, spans, tables, passed, work)
                if dims[DURATIONS]:
                    work[n_parts + (dims[MAX_LENGTH] - 1) * m + label] += share
            # A step is covered by all spans that begin at it or before it.
            for length in range(longest if ends[here] > 0.0 else 0, 0, -1):
                row, step = (length - 1) * m + label, end - length
                share = ends[here] * np.exp(entered[step * m + label] + spans[row] - ended[here])
                begins[step * m + label] += share
                covering += share
                if dims[BY_SPANS]:
                    work[(step * dims[MAX_LENGTH] + length - 1) * m + label] = share
                else:
                    work[step * m + label] += covering
                if dims[DURATIONS]:
                    work[n_parts + row] += share


@kernel
def probabilities_of(dims, work):
    """Return the arrays `passed` of `_pass_spans`, which follow the tables in `work`."""
    size = (dims[N_STEPS] + 1) * dims[N_LABELS]
    first = longer_of(dims) + dims[OPEN_ENDED] * size
    goes_on = work[first + 2 * size : first + (2 + dims[OPEN_ENDED]) * size]
    return work[first : first + size], work[first + size : first + 2 * size], goes_on


@kernel
def sum_over_segmentations(scores, additional, dims, work):
    """Compute the probabilities of the parts and the expected counts of additional parts; return log Z.

    `spans.py`, and `entering.py` for samples, read the tables in `work` afterwards.
    """
    n, m, n_parts, n_keys = dims[N_STEPS], dims[N_LABELS], scores.shape[0], scores.shape[0] + additional.shape[0]
    work[:n_keys] = 0.0
    entered, ended, longer, spans = tables_of(dims, work[n_keys:])
    begins, ends, goes_on = probabilities_of(dims, work[n_keys:])
    for array in (begins, ends, goes_on):
        array[:] = 0.0
    _, at_start, at_end = additional_indices_of(dims)
    into = ways_in(additional, dims)
    fill_tables(scores, additional, dims, into, entered, ended, spans, longer, True)
    log_partition = -np.inf
    for label in range(m):
        ends[n * m + label] = ended[n * m + label] + (additional[at_end + label] if dims[END] else 0.0)
        log_partition = add_logs(log_partition, ends[n * m + label])
    if log_partition == -np.inf:
        return log_partition
    for label in range(m):
        ends[n * m + label] = np.exp(ends[n * m + label] - log_partition)
    passed = begins, ends, goes_on
    _pass_spans(scores, additional, dims, into, (entered, ended, longer), passed, spans, work)
    for label in range(m):
        if dims[START]:
            work[n_parts + at_start + label] = begins[label]
        if dims[END]:
            work[n_parts + at_end + label] = ends[n * m + label]
    return log_partition


@as_oracle
def segmentation_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probabilities of the parts and the expected counts of additional parts; return log Z."""
    return sum_over_segmentations(scores, additional, dims, work)
