"""The probabilities of all spans of a segmentation, from the tables of its marginals.

Used by `structure.py`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS, INTS, entry, kernel, new_floats, readonly
from ..._core.offsets import offsets
from ..._numerics.loops import PROBLEMS
from .._span_pool import FOUND, collect, listed, new_pool, put
from .gibbs import probabilities_of, sum_over_segmentations
from .map import MAX_LENGTH, N_LABELS, N_STEPS, OPEN_ENDED, score_spans, tables_of


@kernel
def _tables_of(dims, work):
    """Return the probabilities that a span ends just before each step, and the tables of `map.py` in logarithms."""
    entered, ended, longer, spans = tables_of(dims, work)
    return probabilities_of(dims, work)[1], entered, ended, longer, spans


@kernel
def _list_longer(scores, additional, dims, tables, place, threshold, wanted, found):
    """List the likely spans of a label that end with a step and have more steps than the maximum length.

    At each step back such a span has exactly the maximum length, or is longer still. The parameters are those of
    `_list_ending`, but `place` is (sample, end, label).
    """
    sample, end, label = place
    ends, entered, ended, longer, spans = tables
    pool, n = found
    m, length = dims[N_LABELS], dims[MAX_LENGTH]
    here = end * m + label
    stop = end - 1
    going = ends[here] * np.exp(longer[here - m] + scores[here - m] - ended[here])
    while going >= threshold or 0 <= wanted <= stop - length:
        if stop < length or not longer[stop * m + label] > -np.inf:
            break
        score_spans(scores, additional, dims, stop, spans)
        begun = entered[(stop - length) * m + label] + spans[(length - 1) * m + label]
        chance = going * np.exp(begun - longer[stop * m + label])
        if chance >= threshold or stop - length == wanted:
            pool = put(pool, n, sample, stop - length, end - 1, label, stop - length == wanted, chance)
            n += 1
        back = (stop - 1) * m + label
        going *= np.exp(longer[back] + scores[back] - longer[stop * m + label])
        stop -= 1
    return pool, n


@kernel
def _list_ending(scores, additional, dims, tables, place, inside, threshold, wanted, found):
    """List the likely spans that end just before a step.

    Parameters
    ----------
    scores, additional, dims
        As of the oracle.
    tables
        See `_tables_of`.
    place : tuple of (sample, end)
    inside : int array of shape (n_labels,)
        1 for labels whose spans are listed.
    threshold : float
    wanted : tuple of (start, label)
        The span that is listed whatever its probability; -1 for none.
    found : tuple of (pool, n)

    Returns
    -------
    pool, n
    """
    sample, end = place
    ends, entered, ended, _, spans = tables
    pool, n = found
    m = dims[N_LABELS]
    longest = score_spans(scores, additional, dims, end, spans)
    for label in range(m):
        here = end * m + label
        wanted_start = wanted[0] if wanted[1] == label else np.int64(-1)
        if inside[label] == 0 or (ends[here] < threshold and wanted_start < 0):
            continue
        for length in range(1, longest + 1):
            start = end - length
            chance = 0.0
            if ends[here] > 0.0:
                begun = entered[start * m + label] + spans[(length - 1) * m + label]
                chance = ends[here] * np.exp(begun - ended[here])
            if chance >= threshold or start == wanted_start:
                pool = put(pool, n, sample, start, end - 1, label, start == wanted_start, chance)
                n += 1
        if dims[OPEN_ENDED] and ends[here] > 0.0:
            place = sample, end, label
            pool, n = _list_longer(scores, additional, dims, tables, place, threshold, wanted_start, (pool, n))
            score_spans(scores, additional, dims, end, spans)
    return pool, n


@entry(FOUND(PROBLEMS, INTS, FLOATS, INTS, INTS, INTS, types.int64, types.int64))
def _likely_spans(problems, inside, thresholds, row_ptr, wanted_start, wanted_label, start, stop):
    """List the spans of problems start..stop that have at least some probability, or are wanted.

    Parameters
    ----------
    problems : Problems
    inside
        As in `_list_ending`.
    thresholds : array of shape (n_problems,)
    row_ptr : int array of shape (n_problems + 1,)
        The first step of each problem among all.
    wanted_start, wanted_label : int arrays of shape (n_steps,)
        For each step, the first step (within its problem) and the label of a wanted span whose last step it is; -1 for
        none.
    start, stop : int

    Returns
    -------
    rows, chances : arrays
    """
    pool = new_pool()
    n = np.int64(0)
    for i in range(start, stop):
        dims = problems.dims[i]
        scores = problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]]
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        work = new_floats(problems.sizes[i, 3])
        if sum_over_segmentations(scores, additional, dims, work) == -np.inf:
            continue
        tables = _tables_of(dims, work[scores.shape[0] + additional.shape[0] :])
        for end in range(1, dims[N_STEPS] + 1):
            row = row_ptr[i] + end - 1
            wanted = wanted_start[row], wanted_label[row]
            pool, n = _list_ending(scores, additional, dims, tables, (i, end), inside, thresholds[i], wanted, (pool, n))
    return listed(pool, n)


class BlockReader:
    """The spans of segmentations whose parts are spans; their types are the numbers of labels.

    It has the methods and attributes of `RunReader`.
    """

    names = range(2**31)
    is_inside = None

    def find_in(self, structures):
        """Find the spans of segmentations; see `LabelReader.find_in`."""
        which = np.repeat(np.arange(len(structures)), [len(own) for own in structures])
        rows = np.concatenate([*structures, np.zeros((0, 3), np.int64)])
        return which, rows[:, 0], rows[:, 1] - 1, rows[:, 2]


def likely_spans(problems, reader, thresholds, wanted, n_jobs):
    """List the spans of segmentations that have at least some probability; see `Structure.likely_spans`."""
    samples, starts, lasts, kinds = wanted
    row_ptr = offsets(problems.dims[:, N_STEPS])
    first_steps = np.full(row_ptr[-1], -1)
    labels = np.full(row_ptr[-1], -1)
    first_steps[row_ptr[samples] + lasts] = starts
    labels[row_ptr[samples] + lasts] = kinds
    is_inside = np.ones(problems.dims[:, N_LABELS].max()) if reader.is_inside is None else reader.is_inside
    given = problems, readonly(is_inside, np.int64), readonly(thresholds), row_ptr, first_steps, labels
    return collect(lambda start, stop: _likely_spans(*given, start, stop), problems, n_jobs)
