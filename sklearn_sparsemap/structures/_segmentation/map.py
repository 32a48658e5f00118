"""The best segmentation.

Two tables have an entry for each step and label. `entered` holds the best score of segmentations of the earlier steps
plus the transition into a span that begins at this step. `ended` holds the best score of segmentations whose last span
ends just before this step.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel

# The entries of dims. BY_SPANS is 1 if spans are the parts, and 0 if steps are. The last four tell which additional
# scores are given, in the order in which they are joined.
N_STEPS, MAX_LENGTH, N_LABELS, BY_SPANS, DURATIONS, TRANSITIONS, START, END = range(8)


@kernel
def places_of_additional(dims):
    """Return the beginnings of transitions, start and end in the additional scores; durations come first."""
    m = dims[N_LABELS]
    transitions = dims[DURATIONS] * dims[MAX_LENGTH] * m
    start = transitions + dims[TRANSITIONS] * m * m
    return transitions, start, start + dims[START] * m


@kernel
def score_spans(scores, additional, dims, end, spans):
    """Fill ``spans[(length - 1) * n_labels + label]`` with the scores of the spans that end just before step `end`.

    Returns the largest length of these spans.
    """
    m, longest = dims[N_LABELS], min(dims[MAX_LENGTH], end)
    for length in range(1, longest + 1):
        row = (length - 1) * m
        if dims[BY_SPANS]:
            at = ((end - length) * dims[MAX_LENGTH] + length - 1) * m
            for label in range(m):
                spans[row + label] = scores[at + label]
        else:
            # The sum of the scores of its steps, from the last one back.
            at = (end - length) * m
            for label in range(m):
                spans[row + label] = scores[at + label] + (spans[row - m + label] if length > 1 else 0.0)
    if dims[DURATIONS]:
        for i in range(longest * m):
            spans[i] += additional[i]
    return longest


@kernel
def way_in(additional, dims, before, label):
    """Return the score of the transition from label `before` to `label`; -inf if it is not allowed."""
    # Adjacent steps with the same label form one span.
    if before == label and not dims[BY_SPANS]:
        return -np.inf
    if not dims[TRANSITIONS]:
        return 0.0
    return additional[places_of_additional(dims)[0] + before * dims[N_LABELS] + label]


@kernel
def _raise(best, before, row, first, stop):
    """Raise a range of entries to ``before + row`` if that is higher."""
    for label in range(first, stop):
        total = before + row[label]
        best[label] = total if total > best[label] else best[label]


@kernel
def best_ways_in(additional, dims, ended, zeros, entered):
    """Fill in the best score of entering a span of each label, from the scores of spans that have ended."""
    m, at = dims[N_LABELS], places_of_additional(dims)[0]
    for label in range(m):
        entered[label] = -np.inf
    for last in range(m):
        row = additional[at + last * m : at + (last + 1) * m] if dims[TRANSITIONS] else zeros
        if dims[BY_SPANS]:
            _raise(entered, ended[last], row, np.int64(0), m)
        else:
            _raise(entered, ended[last], row, np.int64(0), last)
            _raise(entered, ended[last], row, last + 1, m)


@kernel
def _fill_tables(scores, additional, dims, entered, ended, spans):
    """Fill in the best scores of segmentations of the first steps."""
    zeros = np.zeros(dims[N_LABELS])
    m, at_start = dims[N_LABELS], places_of_additional(dims)[1]
    for label in range(m):
        entered[label] = additional[at_start + label] if dims[START] else 0.0
    for end in range(1, dims[N_STEPS] + 1):
        longest = score_spans(scores, additional, dims, end, spans)
        now = ended[end * m : (end + 1) * m]
        for label in range(m):
            now[label] = -np.inf
        for length in range(1, longest + 1):
            own, before = spans[(length - 1) * m : length * m], entered[(end - length) * m : (end - length + 1) * m]
            for label in range(m):
                total = own[label] + before[label]
                now[label] = total if total > now[label] else now[label]
        if end == dims[N_STEPS]:
            break
        best_ways_in(additional, dims, now, zeros, entered[end * m : (end + 1) * m])


@kernel
def _put_span(dims, begin, end, label, slots, additional_slots):
    """Write a span to its slots, and the duration's part to the slot of its first step."""
    m = dims[N_LABELS]
    if dims[BY_SPANS]:
        slots[begin] = (begin * dims[MAX_LENGTH] + end - begin - 1) * m + label
    else:
        for step in range(begin, end):
            slots[step] = step * m + label
    if dims[DURATIONS]:
        additional_slots[begin] = (end - begin - 1) * m + label


@as_oracle
def best_segmentation(scores, additional, dims, work, slots, additional_slots):
    """Find the best sequence of adjacent labelled spans from the first step to the last one."""
    n, m = dims[N_STEPS], dims[N_LABELS]
    entered, ended, spans = work[: n * m], work[n * m : (2 * n + 1) * m], work[(2 * n + 1) * m :]
    at_transitions, at_start, at_end = places_of_additional(dims)
    _fill_tables(scores, additional, dims, entered, ended, spans)
    value, label = -np.inf, np.int64(0)
    for last in range(m):
        total = ended[n * m + last] + (additional[at_end + last] if dims[END] else 0.0)
        if total > value:
            value, label = total, last
    slots[:] = -1
    additional_slots[:] = -1
    if value == -np.inf:
        return value
    # Durations have a slot for each step, and transitions for each step except the first.
    before_transitions, last_slot = n * dims[DURATIONS] - 1, additional_slots.shape[0] - 1
    if dims[END]:
        additional_slots[last_slot] = at_end + label
    end = n
    while True:
        longest = score_spans(scores, additional, dims, end, spans)
        best, begin = -np.inf, end - 1
        for length in range(1, longest + 1):
            total = spans[(length - 1) * m + label] + entered[(end - length) * m + label]
            if total > best:
                best, begin = total, end - length
        _put_span(dims, begin, end, label, slots, additional_slots)
        if begin == 0:
            break
        best, source = -np.inf, np.int64(0)
        for last in range(m):
            total = ended[begin * m + last] + way_in(additional, dims, last, label)
            if total > best:
                best, source = total, last
        if dims[TRANSITIONS]:
            additional_slots[before_transitions + begin] = at_transitions + source * m + label
        end, label = begin, source
    if dims[START]:
        additional_slots[last_slot - dims[END]] = at_start + label
    return value
