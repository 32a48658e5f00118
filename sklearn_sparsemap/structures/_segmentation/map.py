"""The best segmentation.

Two tables have an entry for each step and label. `entered` holds the best score of segmentations of the earlier steps
plus the transition into a span that begins at this step. `ended` holds the best score of segmentations whose last span
ends just before this step.

If the last duration is open-ended, a third table `longer` holds for each step the best score of segmentations whose
last span ends just before this step, and has at least the maximum length. Such a span has this length, or continues one
that ends a step earlier, so the table takes constant time for each entry.

Used by `entering.py`, `gibbs.py`, `spans.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import add_logs, highest_sum, log_sum, where_highest

# The entries of dims. BY_SPANS is 1 if spans are the parts, and 0 if steps are. The next four tell which additional
# scores are given, in the order in which they are joined. OPEN_ENDED is 1 if spans may be longer than MAX_LENGTH; their
# durations are those of MAX_LENGTH.
N_STEPS, MAX_LENGTH, N_LABELS, BY_SPANS, DURATIONS, TRANSITIONS, START, END, OPEN_ENDED = range(9)


@kernel
def additional_indices_of(dims):
    """Return the beginnings of transitions, start and end in the additional scores; durations come first."""
    m = dims[N_LABELS]
    transitions = dims[DURATIONS] * dims[MAX_LENGTH] * m
    start = transitions + dims[TRANSITIONS] * m * m
    return transitions, start, start + dims[START] * m


@kernel
def longer_of(dims):
    """Return the beginning of the table `longer` in the work of the oracle."""
    return (2 * dims[N_STEPS] + 1 + min(dims[MAX_LENGTH], dims[N_STEPS])) * dims[N_LABELS]


@kernel
def tables_of(dims, work):
    """Return the tables `entered`, `ended` and `longer`, and space for spans, at the beginning of `work`."""
    n, m = dims[N_STEPS], dims[N_LABELS]
    first = longer_of(dims)
    longer = work[first : first + dims[OPEN_ENDED] * (n + 1) * m]
    return work[: n * m], work[n * m : (2 * n + 1) * m], longer, work[(2 * n + 1) * m : first]


@kernel
def score_spans(scores, additional, dims, end, spans):
    """Fill ``spans[(length - 1) * n_labels + label]`` with the scores of the spans that end just before step `end`.

    Returns the largest length of these spans.
    """
    m = dims[N_LABELS]
    longest = min(dims[MAX_LENGTH], end)
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
def ways_in(additional, dims):
    """Return the scores of the transitions, a flat matrix with a row for each label that is entered.

    Without transitions, they are zeros. If steps are the parts, a label cannot follow itself, because adjacent steps
    with the same label form one span.
    """
    m = dims[N_LABELS]
    at = additional_indices_of(dims)[0]
    into = np.zeros(m * m)
    for label in range(m):
        for last in range(m if dims[TRANSITIONS] else 0):
            into[label * m + last] = additional[at + last * m + label]
        if not dims[BY_SPANS]:
            into[label * m + label] = -np.inf
    return into


@kernel
def continue_spans(scores, dims, end, entered, spans, longer, now, in_logs):
    """Fill in `longer` for the spans that end just before step `end`; add those that are too long to `now`.

    Parameters
    ----------
    scores, dims, entered, spans, longer, in_logs
        As of `fill_tables`; `spans` are those that end here.
    end : int
    now : array of shape (n_labels,)
        The best scores, or log-sums, of segmentations whose last span is not too long.
    """
    m, length = dims[N_LABELS], dims[MAX_LENGTH]
    for label in range(m):
        here = end * m + label
        goes_on = longer[here - m] + scores[here - m]
        if end < length:
            longer[here] = -np.inf
            continue
        begun = spans[(length - 1) * m + label] + entered[(end - length) * m + label]
        longer[here] = add_logs(begun, goes_on) if in_logs else max(begun, goes_on)
        now[label] = add_logs(now[label], goes_on) if in_logs else max(now[label], goes_on)


@kernel
def fill_tables(scores, additional, dims, into, entered, ended, spans, longer, in_logs):
    """Fill in the best scores of segmentations of the first steps, or if `in_logs` the log-sums over them.

    Parameters
    ----------
    scores, additional, dims
        As of the oracle.
    into
        See `ways_in`.
    entered, ended
        The tables; see the docstring of the module.
    spans
        See `score_spans`.
    longer
        See the docstring of the module; empty unless the last duration is open-ended.
    in_logs : bool
    """
    m = dims[N_LABELS]
    at_start = additional_indices_of(dims)[1]
    for label in range(m):
        entered[label] = additional[at_start + label] if dims[START] else 0.0
    if dims[OPEN_ENDED]:
        longer[:m] = -np.inf
    for end in range(1, dims[N_STEPS] + 1):
        longest = score_spans(scores, additional, dims, end, spans)
        now = ended[end * m : (end + 1) * m]
        now[:] = -np.inf
        for length in range(1, longest + 1):
            own, before = spans[(length - 1) * m : length * m], entered[(end - length) * m : (end - length + 1) * m]
            for label in range(m):
                total = own[label] + before[label]
                now[label] = total if total > now[label] else now[label]
        if in_logs:
            _add_log_norms(entered, dims, end, longest, spans, now)
        if dims[OPEN_ENDED]:
            continue_spans(scores, dims, end, entered, spans, longer, now, in_logs)
        if end == dims[N_STEPS]:
            break
        for label in range(m):
            into_label = into[label * m : (label + 1) * m]
            entered[end * m + label] = log_sum(now, into_label) if in_logs else highest_sum(now, into_label)


@kernel
def _add_log_norms(entered, dims, end, longest, spans, now):
    """Turn maxima into log-sums, for the spans that end just before step `end`.

    Parameters
    ----------
    entered, dims, spans : arrays
        As of `fill_tables`.
    end, longest : int
        The step after the spans, and their largest length.
    now : array of shape (n_labels,)
        For each label, the maximum over the spans; becomes the log-sum.
    """
    m = dims[N_LABELS]
    for label in range(m):
        if now[label] > -np.inf:
            norm = 0.0
            for length in range(1, longest + 1):
                norm += np.exp(spans[(length - 1) * m + label] + entered[(end - length) * m + label] - now[label])
            now[label] += np.log(norm)


@kernel
def put_span(dims, begin, end, label, slots, additional_slots):
    """Write a span to its slots, and the duration's part to the slot of its first step.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    begin, end, label : int
        The first step of the span, the step after its last one, and its label.
    slots, additional_slots : arrays
        As of the oracle.
    """
    m = dims[N_LABELS]
    if dims[BY_SPANS]:
        slots[begin] = (begin * dims[MAX_LENGTH] + end - begin - 1) * m + label
    else:
        for step in range(begin, end):
            slots[step] = step * m + label
    if dims[DURATIONS]:
        additional_slots[begin] = (min(end - begin, dims[MAX_LENGTH]) - 1) * m + label


@kernel
def _begin_of_longer(scores, additional, dims, entered, spans, longer, end, label):
    """Return the first step of the best span of at least the maximum length that ends just before step `end`."""
    m, length = dims[N_LABELS], dims[MAX_LENGTH]
    while True:
        score_spans(scores, additional, dims, end, spans)
        here = end * m + label
        begun = spans[(length - 1) * m + label] + entered[(end - length) * m + label]
        if begun >= longer[here - m] + scores[here - m]:
            return end - length
        end -= 1


@as_oracle
def best_segmentation(scores, additional, dims, work, slots, additional_slots):
    """Find the best sequence of adjacent labelled spans from the first step to the last one.

    `entering.py` reads the tables in `work` afterwards, and uses the rest of it.
    """
    n, m = dims[N_STEPS], dims[N_LABELS]
    entered, ended, longer, spans = tables_of(dims, work)
    at_transitions, at_start, at_end = additional_indices_of(dims)
    into = ways_in(additional, dims)
    fill_tables(scores, additional, dims, into, entered, ended, spans, longer, False)
    value = -np.inf
    label = np.int64(0)
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
        if dims[OPEN_ENDED] and longer[(end - 1) * m + label] + scores[(end - 1) * m + label] > best:
            begin = _begin_of_longer(scores, additional, dims, entered, spans, longer, end - 1, label)
        put_span(dims, begin, end, label, slots, additional_slots)
        if begin == 0:
            break
        source = where_highest(ended[begin * m : (begin + 1) * m], into[label * m : (label + 1) * m])
        if dims[TRANSITIONS]:
            additional_slots[before_transitions + begin] = at_transitions + source * m + label
        end, label = begin, source
    if dims[START]:
        additional_slots[last_slot - dims[END]] = at_start + label
    return value
