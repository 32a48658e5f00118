"""The probabilities of all spans of a chain whose labels are those of a scheme, such as B-PER.

A span begins, continues and ends by the rules for pairs of successive labels, so its probability is a product along the
chain: that it begins with a label, that each next label continues it, and that the last one ends it. Forward-backward
gives all factors at once. The probability that a span has begun and goes on never grows with its length, so that the
list of likely spans is complete although most spans are never looked at.

Used by `structure.py`.
"""

from collections import namedtuple
from functools import lru_cache

import numpy as np
from numba import types

from ..._core.jit import FLOATS, INTS, by_address, copy_into, entry, kernel, new_constants, new_floats, readonly
from ..._core.offsets import offsets
from ..._numerics.loops import PROBLEMS
from .._span_pool import FOUND, collect, listed, new_pool, put
from .gibbs import NARROW, SMALLEST, pass_messages, prepare, sum_over_paths
from .map import PER_STEP, STATIONARY

# How pairs of labels form spans. `labels` are those of each type from `label_ptr[type]` on, and `before`, `after` the
# pairs of a type whose second label continues a span. `first` and `last` are 1 if a label begins a span as the first
# of a sequence, or ends it as the last one. Most labels begin a span after nearly all labels, or after few ones:
# `begins_after` is 1 if the labels in `entered_from` (of label j from `entered_ptr[j]` on) are those after which it
# does not, and 0 if they are those after which it does. `ends_before` and `left_for` tell the same of the labels after
# it.
Rules = namedtuple(
    "Rules",
    ["first", "last", "begins_after", "entered_from", "entered_ptr", "ends_before", "left_for", "left_ptr", "labels",
     "label_ptr", "before", "after", "pair_ptr"],
)  # fmt: skip
RULES = by_address([FLOATS, FLOATS, FLOATS, INTS, INTS, FLOATS, *[INTS] * 7], Rules)
# The probability of two successive labels is the product of an entry of `forward`, of `moves` and of `messages`. The
# factors of the transitions of a step begin at a multiple of `stride`.
Factors = namedtuple("Factors", ["marginals", "forward", "moves", "messages", "stride"])


@kernel
def _in_logs(scores, additional, dims):
    """Return the log-partition and factors, if scores are too large to multiply: the probabilities of all pairs."""
    n, m = dims[0], dims[1]
    size, block = n * m, m * m
    n_pairs = (n - 1) * block
    spread = new_floats(n_pairs + additional.shape[0] - block)
    for t in range(n - 1):
        copy_into(spread[t * block :], additional[:block])
    copy_into(spread[n_pairs:], additional[block:])
    of_steps = dims.copy()
    of_steps[2] = PER_STEP
    work = new_floats(size + spread.shape[0] + block + n * (2 * m + 1) + 2 * m)
    log_partition = sum_over_paths(scores, spread, of_steps, work)
    ones = new_constants(size, 1.0)
    return log_partition, Factors(work[:size], ones, work[size : size + n_pairs], ones, block)


@kernel
def _factors_of(scores, additional, dims):
    """Return the log-partition, and the factors of the probabilities of pairs of labels."""
    n, m = dims[0], dims[1]
    size = n * m
    states = new_floats(size)
    moves = new_constants(m * m, 0.0)
    scratch = new_floats(n * (2 * m + 1) + m)
    shift, lowest, lowest_finite = prepare(scores, additional, dims, states, moves)
    narrow = lowest >= -NARROW
    if shift == -np.inf or not (narrow or lowest_finite >= np.log(SMALLEST)):
        return _in_logs(scores, additional, dims)
    total = pass_messages(dims, states, moves, scratch, narrow)
    if np.isnan(total):
        return _in_logs(scores, additional, dims)
    return total, Factors(states, scratch[:size], moves, scratch[size : 2 * size], np.int64(0))


@kernel
def _pair(factors, m, t, i, j):
    """Return the probability of label i in step t - 1 and label j in step t."""
    move = factors.moves[(t - 1) * factors.stride + i * m + j]
    return factors.forward[(t - 1) * m + i] * move * factors.messages[t * m + j]


@kernel
def _begun(rules, dims, factors, t, label):
    """Return the probability that a span begins with a label of a step."""
    m = dims[1]
    here = factors.marginals[t * m + label]
    if t == 0:
        return rules.first[label] * here
    total = 0.0
    for k in range(rules.entered_ptr[label], rules.entered_ptr[label + 1]):
        total += _pair(factors, m, t, rules.entered_from[k], label)
    return max(here - total, 0.0) if rules.begins_after[label] > 0.0 else total


@kernel
def _ended(rules, dims, factors, t, label):
    """Return the probability that a span ends with the label of a step, given the label."""
    m = dims[1]
    if t == dims[0] - 1:
        return rules.last[label]
    here = factors.marginals[t * m + label]
    if here <= 0.0:
        return 0.0
    total = 0.0
    for k in range(rules.left_ptr[label], rules.left_ptr[label + 1]):
        total += _pair(factors, m, t + 1, label, rules.left_for[k])
    return (max(here - total, 0.0) if rules.ends_before[label] > 0.0 else total) / here


@kernel
def _walk(rules, dims, factors, place, threshold, wanted, found, chances):
    """List the likely spans of a type that begin with a step; return the pool and the number of its spans.

    Parameters
    ----------
    rules, dims, factors
    place : tuple of (sample, start, type)
    threshold : float
        Smallest probability of a span.
    wanted : int
        The last step of a span that is listed whatever its probability; -1 for none.
    found : tuple of (pool, n)
    chances : arrays of shape (2, n_labels)
        Scratch space. The first one has the probabilities that a span begins with the labels.
    """
    sample, start, kind = place
    pool, n = found
    m = dims[1]
    now, after = chances
    first, last = rules.label_ptr[kind], rules.label_ptr[kind + 1]
    t = start
    while True:
        going = chance = 0.0
        for k in range(first, last):
            label = rules.labels[k]
            going += now[label]
            if now[label] > 0.0:
                chance += now[label] * _ended(rules, dims, factors, t, label)
        if going < threshold and t > wanted:
            break
        if chance >= threshold or t == wanted:
            pool = put(pool, n, sample, start, t, kind, t == wanted, chance)
            n += 1
        t += 1
        if t == dims[0]:
            break
        for k in range(first, last):
            after[rules.labels[k]] = 0.0
        for k in range(rules.pair_ptr[kind], rules.pair_ptr[kind + 1]):
            i, j = rules.before[k], rules.after[k]
            if now[i] > 0.0:
                after[j] += now[i] * _pair(factors, m, t, i, j) / factors.marginals[(t - 1) * m + i]
        now, after = after, now
    return pool, n


@entry(FOUND(PROBLEMS, RULES, FLOATS, INTS, INTS, INTS, types.int64, types.int64))
def _likely_spans(problems, rules, thresholds, row_ptr, wanted_last, wanted_type, start, stop):
    """List the spans of problems start..stop that have at least some probability, or are wanted.

    Parameters
    ----------
    problems : Problems
        Chains with one matrix of transitions for all steps.
    rules : Rules
    thresholds : array of shape (n_problems,)
    row_ptr : int array of shape (n_problems + 1,)
        The first step of each problem among all.
    wanted_last, wanted_type : int arrays of shape (n_steps,)
        For each step, the last step (within its problem) and the type of a wanted span that begins there; -1 for none.
    start, stop : int

    Returns
    -------
    rows, chances : arrays
    """
    pool = new_pool()
    n = np.int64(0)
    n_types = rules.label_ptr.shape[0] - 1
    for i in range(start, stop):
        dims = problems.dims[i]
        n_steps, m = dims[0], dims[1]
        chances = new_floats(m), new_floats(m)
        scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        log_partition, factors = _factors_of(scores, additional, dims)
        if log_partition == -np.inf:
            continue
        for t in range(n_steps):
            row = row_ptr[i] + t
            for kind in range(n_types):
                wanted = wanted_last[row] if wanted_type[row] == kind else np.int64(-1)
                first, last = rules.label_ptr[kind], rules.label_ptr[kind + 1]
                # Most labels are unlikely, and most likely ones begin no span.
                begun = 0.0
                for k in range(first, last):
                    begun += factors.marginals[t * m + rules.labels[k]]
                if begun < thresholds[i] and wanted < 0:
                    continue
                begun = 0.0
                for k in range(first, last):
                    label = rules.labels[k]
                    chances[0][label] = _begun(rules, dims, factors, t, label)
                    begun += chances[0][label]
                if begun >= thresholds[i] or wanted >= 0:
                    pool, n = _walk(rules, dims, factors, (i, t, kind), thresholds[i], wanted, (pool, n), chances)
    return listed(pool, n)


@lru_cache(64)
def _rules_of(reader):
    """Return the rules of a `SpanReader` as kernels take them."""
    m = len(reader.types)
    starts = reader.pairs("starts")
    continues = reader.pairs("continues")
    ends = reader.pairs("ends") & ~continues
    inside = np.flatnonzero(reader.prefixes)
    labels = inside[np.argsort(reader.types[inside], kind="stable")]
    before, after = np.nonzero(continues[:m, :m])
    order = np.argsort(reader.types[before], kind="stable")
    before = before[order]
    kinds = np.arange(len(reader.names) + 1)
    begins_after, entered_from, entered_ptr = _fewer(starts[:m, :m].T)
    ends_before, left_for, left_ptr = _fewer(ends[:m, :m])
    floats = starts[m, :m], ends[:m, m], begins_after, ends_before
    ints = (
        entered_from, entered_ptr, left_for, left_ptr, labels, np.searchsorted(reader.types[labels], kinds), before,
        after[order], np.searchsorted(reader.types[before], kinds),
    )  # fmt: skip
    first, last, begins_after, ends_before = map(readonly, floats)
    entered_from, entered_ptr, left_for, left_ptr, *of_types = (readonly(array, np.int64) for array in ints)
    return Rules(first, last, begins_after, entered_from, entered_ptr, ends_before, left_for, left_ptr, *of_types)


def _fewer(mask):
    """Tell which rows of a mask are mostly true; list the columns of the other entries, with the bounds of each row."""
    mostly = 2 * mask.sum(axis=1) > mask.shape[1]
    differ = mask != mostly[:, None]
    return mostly, np.nonzero(differ)[1], offsets(differ.sum(axis=1))


def likely_spans(problems, reader, thresholds, wanted, n_jobs):
    """List the spans of chains that have at least some probability; see `Structure.likely_spans`."""
    if not (problems.dims[:, 2] == STATIONARY).all():
        raise ValueError("spans need one matrix of transitions for all steps")
    samples, starts, lasts, kinds = wanted
    row_ptr = offsets(problems.dims[:, 0])
    last_steps = np.full(row_ptr[-1], -1)
    types_there = np.full(row_ptr[-1], -1)
    last_steps[row_ptr[samples] + starts] = lasts
    types_there[row_ptr[samples] + starts] = kinds
    given = problems, _rules_of(reader), readonly(thresholds), row_ptr, last_steps, types_there
    return collect(lambda start, stop: _likely_spans(*given, start, stop), problems, n_jobs)
