"""The probabilities of all spans of a chain whose labels are those of a scheme, such as B-PER.

A span begins, continues and ends by the rules for pairs of successive labels, so its probability is a product along the
chain: that it begins with a label, that each next label continues it, and that the last one ends it. Forward-backward
gives all factors at once. The probability that a span has begun and goes on never grows with its length, so that the
list of likely spans is complete although most spans are never looked at.

Used by `structure.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from ..._core.jit import FLOATS, INTS, by_address, copy_into, entry, kernel, new_constants, new_floats, readonly
from ..._core.offsets import offsets
from ..._numerics.loops import PROBLEMS
from .._span_pool import FOUND, collect, new_pool, put
from .gibbs import NARROW, SMALLEST, add_rows, depart, pass_messages, prepare, sum_over_paths
from .map import PER_STEP, STATIONARY

# How pairs of labels form spans. `starts` and `ends` are 1 if the second label of a pair begins a span, or the first
# one ends it: flat matrices of n_labels + 1 rows, the last of which is the side of a sequence. `labels` are those of
# each type from `label_ptr[type]` on, and `before`, `after` the pairs of a type whose second label continues a span.
Rules = namedtuple("Rules", ["starts", "ends", "labels", "label_ptr", "before", "after", "pair_ptr"])
RULES = by_address([FLOATS, FLOATS, INTS, INTS, INTS, INTS, INTS], Rules)


@kernel
def _mask(rule, moves, m, masked):
    """Write the factors of the transitions, with 0 for pairs of labels to which a rule does not apply."""
    for i in range(m):
        for j in range(m):
            masked[i * m + j] = rule[i * (m + 1) + j] * moves[i * m + j]


@kernel
def _fill(rules, dims, factors, marginals, tables):
    """Fill in the factors of the probabilities of spans.

    Parameters
    ----------
    rules : Rules
    dims : int array
        Numbers of steps and labels.
    factors : tuple of (forward, moves, messages, stride)
        The probability of two successive labels is the product of an entry of each. The factors of the transitions of a
        step begin at a multiple of `stride`.
    marginals : array of shape (n_steps * n_labels,)
    tables : tuple of arrays (begins, goes_on, ends)
        Get the probability that a span begins with a label of a step; for each step and pair of `rules`, that of the
        second label, given the first one in the step before; and that a span ends with the label of a step, given it.
    """
    forward, moves, messages, stride = factors
    begins, goes_on, ends = tables
    n, m = dims[0], dims[1]
    n_pairs = rules.before.shape[0]
    starting = new_floats(m * m)
    ending = new_floats(m * m)
    for j in range(m):
        begins[j] = rules.starts[m * (m + 1) + j] * marginals[j]
        ends[(n - 1) * m + j] = rules.ends[j * (m + 1) + m]
    for t in range(1, n):
        of_step = moves[(t - 1) * stride : (t - 1) * stride + m * m]
        if t == 1 or stride > 0:
            _mask(rules.starts, of_step, m, starting)
            _mask(rules.ends, of_step, m, ending)
        before, message = (t - 1) * m, messages[t * m : (t + 1) * m]
        here = begins[t * m : (t + 1) * m]
        here[:] = 0.0
        add_rows(here, forward, before, np.int64(1), starting)
        ended = ends[before : before + m]
        depart(message, ending, ended)
        for j in range(m):
            here[j] *= message[j]
            ended[j] = forward[before + j] * ended[j] / marginals[before + j] if marginals[before + j] > 0.0 else 0.0
        for k in range(n_pairs):
            i, j = rules.before[k], rules.after[k]
            pair = forward[before + i] * of_step[i * m + j] * message[j]
            goes_on[t * n_pairs + k] = pair / marginals[before + i] if marginals[before + i] > 0.0 else 0.0


@kernel
def _fill_in_logs(scores, additional, dims, rules, tables):
    """Fill in the factors, if scores are too large to multiply, from the probabilities of all pairs of labels."""
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
    _fill(rules, dims, (ones, work[size : size + n_pairs], ones, block), work[:size], tables)
    return log_partition


@kernel
def _fill_tables(scores, additional, dims, rules, tables):
    """Fill in the factors of the probabilities of spans; return the log-partition."""
    n, m = dims[0], dims[1]
    size = n * m
    states = new_floats(size)
    moves = new_constants(m * m, 0.0)
    scratch = new_floats(n * (2 * m + 1) + m)
    shift, lowest, lowest_finite = prepare(scores, additional, dims, states, moves)
    narrow = lowest >= -NARROW
    if shift == -np.inf or not (narrow or lowest_finite >= np.log(SMALLEST)):
        return _fill_in_logs(scores, additional, dims, rules, tables)
    total = pass_messages(dims, states, moves, scratch, narrow)
    if np.isnan(total):
        return _fill_in_logs(scores, additional, dims, rules, tables)
    _fill(rules, dims, (scratch[:size], moves, scratch[size : 2 * size], np.int64(0)), states, tables)
    return total


@kernel
def _walk(rules, dims, tables, place, threshold, wanted, found, chances):
    """List the likely spans of a type that begin with a step; return the pool and the number of its spans.

    Parameters
    ----------
    rules, dims, tables
        As of `_fill`.
    place : tuple of (sample, start, type)
    threshold : float
        Smallest probability of a span.
    wanted : int
        The last step of a span that is listed whatever its probability; -1 for none.
    found : tuple of (pool, n)
    chances : arrays of shape (2, n_labels)
        Scratch space.
    """
    sample, start, kind = place
    begins, goes_on, ends = tables
    pool, n = found
    m = dims[1]
    n_pairs = rules.before.shape[0]
    now, after = chances
    first, last = rules.label_ptr[kind], rules.label_ptr[kind + 1]
    t = start
    for k in range(first, last):
        now[rules.labels[k]] = begins[start * m + rules.labels[k]]
    while True:
        going = chance = 0.0
        for k in range(first, last):
            label = rules.labels[k]
            going += now[label]
            chance += now[label] * ends[t * m + label]
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
            after[rules.after[k]] += now[rules.before[k]] * goes_on[t * n_pairs + k]
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
        tables = (new_floats(n_steps * m), new_floats(n_steps * rules.before.shape[0]), new_floats(n_steps * m))
        chances = new_floats(m), new_floats(m)
        scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        if _fill_tables(scores, additional, dims, rules, tables) == -np.inf:
            continue
        for t in range(n_steps):
            row = row_ptr[i] + t
            for kind in range(n_types):
                wanted = wanted_last[row] if wanted_type[row] == kind else np.int64(-1)
                begun = 0.0
                for k in range(rules.label_ptr[kind], rules.label_ptr[kind + 1]):
                    begun += tables[0][t * m + rules.labels[k]]
                # Most do not begin, and calls take longer.
                if begun >= thresholds[i] or wanted >= 0:
                    pool, n = _walk(rules, dims, tables, (i, t, kind), thresholds[i], wanted, (pool, n), chances)
    return pool[0][:n], pool[1][:n]


def _rules_of(reader):
    """Return the rules of a `SpanReader` as kernels take them."""
    m = len(reader.types)
    continues = reader.pairs("continues")
    ends = reader.pairs("ends") & ~continues
    inside = np.flatnonzero(reader.prefixes)
    labels = inside[np.argsort(reader.types[inside], kind="stable")]
    before, after = np.nonzero(continues[:m, :m])
    order = np.argsort(reader.types[before], kind="stable")
    before = before[order]
    kinds = np.arange(len(reader.names) + 1)
    arrays = (
        labels, np.searchsorted(reader.types[labels], kinds), before, after[order],
        np.searchsorted(reader.types[before], kinds),
    )  # fmt: skip
    masks = [readonly(mask.ravel()) for mask in (reader.pairs("starts"), ends)]
    return Rules(*masks, *(readonly(array, np.int64) for array in arrays))


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
