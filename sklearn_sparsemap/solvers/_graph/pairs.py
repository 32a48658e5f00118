"""SparseMAP and MAP of pairs of labels: most labels are settled by bounds, and the others by coordinate ascent.

A label graph has one variable a label and one score a pair of labels, and nothing else. Its solution is sparse: of
hundreds of labels a handful is on. A label whose score is negative even if all that attract it were on is off in every
solution, and its pairs with it; one that all its rivals together cannot push below 1 is on. What remains is a small
graph of open labels, for which the coordinates of the dual are solved in turn: a number t for each pair, by which its
score is shared out. Where s > 0, t goes to the first label and s - t to the second; where s < 0, t goes off both.

Pairs are stored twice, as the neighbours of both their labels: `Neighbours`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from ..._jit import FLOATS, FLOATS_2D, FLOATS_2D_OUT, FLOATS_OUT, INTS, entry, kernel

OFF, ON, OPEN = 0, 1, 2
# Columns of the statistics of a batch.
OBJECTIVE, GAP, N_ITER = 0, 1, 2
# In the proximal point method for MAP: the first step's scores are so large, and grow by this factor.
_SHARPNESS, _GROWTH, _MOST_STEPS = 4.0, 2.0, 40


class Neighbours(NamedTuple):
    """The pairs of a label graph: those of label i from ptr[i] to ptr[i + 1], its slots."""

    ptr: np.ndarray
    labels: np.ndarray  # the other label
    pairs: np.ndarray  # the number of the pair


class PairScores(NamedTuple):
    """Scores of pairs, laid out for the kernels."""

    slots: np.ndarray  # one for each entry of `Neighbours`
    attraction: np.ndarray  # sums of the positive scores of a label's pairs
    repulsion: np.ndarray  # and of the negative ones


_NEIGHBOURS = types.NamedUniTuple(INTS, 3, Neighbours)
_PAIR_SCORES = types.NamedUniTuple(FLOATS, 3, PairScores)


class OpenGraph(NamedTuple):
    """Space for the labels that bounds leave open, and their pairs."""

    state: np.ndarray  # of each label of the whole graph: OFF, ON or OPEN
    place: np.ndarray  # of each label of the whole graph among the open ones
    labels: np.ndarray  # the open ones
    base: np.ndarray  # their scores, with what the labels that are on give
    a: np.ndarray  # the same, with what their pairs give; u = clip(a, 0, 1)
    centre: np.ndarray  # of the quadratic term, in MAP
    first: np.ndarray  # of each open pair: places of its labels
    second: np.ndarray
    slots: np.ndarray
    scores: np.ndarray
    shares: np.ndarray  # t


@kernel
def new_open_graph(n_labels, n_pairs):
    """Make space for the open part of a graph."""
    return OpenGraph(
        np.empty(n_labels, np.int64),
        np.empty(n_labels, np.int64),
        np.empty(n_labels, np.int64),
        np.empty(n_labels),
        np.empty(n_labels),
        np.empty(n_labels),
        np.empty(n_pairs, np.int64),
        np.empty(n_pairs, np.int64),
        np.empty(n_pairs, np.int64),
        np.empty(n_pairs),
        np.empty(n_pairs),
    )


@kernel
def find_open(scores, neighbours, pair_scores, level, graph):
    """Settle labels by bounds until none is left that they settle; lay out the others and their pairs.

    Parameters
    ----------
    scores : array of shape (n_labels,)
    neighbours : Neighbours
    pair_scores : PairScores
    level : float
        A label is on if its score is at least this whatever the others do: 1.0 in SparseMAP, 0.0 in MAP.

    Returns
    -------
    n_open, n_pairs : int
    """
    state, ptr, others, slot_scores = graph.state, neighbours.ptr, neighbours.labels, pair_scores.slots
    n_open = 0
    for i in range(scores.shape[0]):
        if scores[i] + pair_scores.attraction[i] <= 0.0:
            state[i] = OFF
        elif scores[i] + pair_scores.repulsion[i] >= level:
            state[i] = ON
        else:
            state[i] = OPEN
            graph.labels[n_open] = i
            n_open += 1
    changed = True
    while changed:
        changed = False
        left = 0
        for place in range(n_open):
            i = graph.labels[place]
            base = scores[i]
            high, low = 0.0, 0.0
            for slot in range(ptr[i], ptr[i + 1]):
                other = state[others[slot]]
                if other != OFF:
                    s = slot_scores[slot]
                    if other == ON:
                        base += s
                    elif s > 0.0:
                        high += s
                    else:
                        low += s
            if base + high <= 0.0:
                state[i] = OFF
                changed = True
            elif base + low >= level:
                state[i] = ON
                changed = True
            else:
                graph.labels[left] = i
                graph.base[left] = base
                left += 1
        n_open = left
    for place in range(n_open):
        graph.place[graph.labels[place]] = place
    n_pairs = 0
    for place in range(n_open):
        i = graph.labels[place]
        for slot in range(ptr[i], ptr[i + 1]):
            j = others[slot]
            if j > i and state[j] == OPEN and slot_scores[slot] != 0.0:
                graph.first[n_pairs] = place
                graph.second[n_pairs] = graph.place[j]
                graph.slots[n_pairs] = slot
                graph.scores[n_pairs] = slot_scores[slot]
                n_pairs += 1
    return n_open, n_pairs


@kernel
def start_shares(graph, n_open, n_pairs, scale):
    """Set `a` to what scores times `scale` and the shares make."""
    for i in range(n_open):
        graph.a[i] = scale * graph.base[i] + graph.centre[i]
    for e in range(n_pairs):
        s, t = scale * graph.scores[e], graph.shares[e]
        if s > 0.0:
            graph.a[graph.first[e]] += t
            graph.a[graph.second[e]] += s - t
        else:
            graph.a[graph.first[e]] -= t
            graph.a[graph.second[e]] -= t


@kernel
def sweep_shares(graph, n_pairs, scale):
    """Solve for each share in turn; return the largest change of one that matters to u."""
    largest = 0.0
    a = graph.a
    for e in range(n_pairs):
        i, j, s, t = graph.first[e], graph.second[e], scale * graph.scores[e], graph.shares[e]
        if s > 0.0:
            new = min(max(t + 0.5 * (a[j] - a[i]), 0.0), s)
            change = new - t
            a[i] += change
            a[j] -= change
        else:
            new = min(max(t + 0.5 * (a[i] + a[j] - 1.0), 0.0), -s)
            change = new - t
            a[i] -= change
            a[j] -= change
        graph.shares[e] = new
        largest = max(largest, abs(change))
    return largest


@kernel
def open_gap(graph, n_pairs, scale):
    """Return the duality gap: what each pair's shares promise above what it pays."""
    gap = 0.0
    for e in range(n_pairs):
        s, t = scale * graph.scores[e], graph.shares[e]
        p = min(max(graph.a[graph.first[e]], 0.0), 1.0)
        q = min(max(graph.a[graph.second[e]], 0.0), 1.0)
        if s > 0.0:
            gap += t * p + (s - t) * q - s * min(p, q)
        else:
            gap += t * (1.0 - p - q) - s * max(0.0, p + q - 1.0)
    return gap


@kernel
def solve_open(graph, n_open, n_pairs, scale, tol, max_iter):
    """Sweep until the duality gap is at most `tol`; return the gap and the number of sweeps."""
    start_shares(graph, n_open, n_pairs, scale)
    gap = open_gap(graph, n_pairs, scale)
    n_iter = 0
    while gap > tol and n_iter < max_iter:
        sweep_shares(graph, n_pairs, scale)
        n_iter += 1
        gap = open_gap(graph, n_pairs, scale)
    return gap, n_iter


@kernel
def pair_marginal(s, p, q):
    """Return the best marginal of a pair's being on together; where it has no score, that of independent labels."""
    if s > 0.0:
        return min(p, q)
    if s < 0.0:
        return max(0.0, p + q - 1.0)
    return p * q


@kernel
def value_of(scores, neighbours, pair_scores, u, quadratic):
    """Return the objective at marginals of the labels."""
    value, ptr, slot_scores = 0.0, neighbours.ptr, pair_scores.slots
    for i in range(scores.shape[0]):
        if u[i] > 0.0:
            value += scores[i] * u[i] - quadratic * 0.5 * u[i] * u[i]
            for slot in range(ptr[i], ptr[i + 1]):
                j = neighbours.labels[slot]
                if j > i and u[j] > 0.0:
                    value += slot_scores[slot] * pair_marginal(slot_scores[slot], u[i], u[j])
    return value


@kernel
def write_labels(graph, n_open, u):
    """Write the marginals of all labels."""
    for i in range(u.shape[0]):
        u[i] = 1.0 if graph.state[i] == ON else 0.0
    for place in range(n_open):
        u[graph.labels[place]] = min(max(graph.a[place], 0.0), 1.0)


# Both loops take scores of the labels, one row a sample; the pairs and their scores; the gap to reach and most sweeps;
# which samples; and where to write marginals and what they are worth.
_LOOP = types.void(
    FLOATS_2D, _NEIGHBOURS, _PAIR_SCORES, types.float64, types.int64, types.int64, types.int64, FLOATS_2D_OUT,
    FLOATS_2D_OUT,
)  # fmt: skip


@entry(_LOOP)
def label_sparsemap_range(scores, neighbours, pair_scores, tol, max_iter, start, stop, out, statistics):
    """Solve SparseMAP for samples `start` to `stop`: marginals into `out`, and what they are worth."""
    graph = new_open_graph(scores.shape[1], neighbours.labels.shape[0] // 2)
    graph.centre[:] = 0.0
    for row in range(start, stop):
        n_open, n_pairs = find_open(scores[row], neighbours, pair_scores, 1.0, graph)
        for e in range(n_pairs):
            graph.shares[e] = 0.5 * abs(graph.scores[e]) if graph.scores[e] > 0.0 else 0.0
        gap, n_iter = solve_open(graph, n_open, n_pairs, 1.0, tol, max_iter)
        write_labels(graph, n_open, out[row])
        statistics[row, OBJECTIVE] = value_of(scores[row], neighbours, pair_scores, out[row], 1.0)
        statistics[row, GAP] = gap
        statistics[row, N_ITER] = n_iter


@entry(_LOOP)
def label_map_range(scores, neighbours, pair_scores, tol, max_iter, start, stop, out, statistics):
    """Solve the linear relaxation of MAP for samples `start` to `stop`, by the proximal point method."""
    graph = new_open_graph(scores.shape[1], neighbours.labels.shape[0] // 2)
    for row in range(start, stop):
        n_open, n_pairs = find_open(scores[row], neighbours, pair_scores, 0.0, graph)
        graph.centre[:] = 0.0
        size = 1e-100
        for place in range(n_open):
            size = max(size, abs(graph.base[place]))
        for e in range(n_pairs):
            size = max(size, abs(graph.scores[e]))
            graph.shares[e] = 0.0
        scale, total, n_iter, gap = _SHARPNESS / size, tol * size, 0, 0.0
        for e in range(n_pairs):
            graph.shares[e] = 0.5 * scale * graph.scores[e] if graph.scores[e] > 0.0 else 0.0
        if n_open:
            gap = np.inf
        for _ in range(_MOST_STEPS):
            if gap <= total:
                break
            inner, sweeps = solve_open(graph, n_open, n_pairs, scale, 0.1 * total * scale, max_iter)
            n_iter += sweeps
            # The shares, scaled back, bound the value of the linear programme from above.
            gap = 0.0
            for place in range(n_open):
                a, centre = graph.a[place], graph.centre[place]
                u = min(max(a, 0.0), 1.0)
                gap += max(0.0, a - centre) - (a - centre) * u
                graph.centre[place] = u
            gap = (gap + inner) / scale
            for e in range(n_pairs):
                graph.shares[e] *= _GROWTH
            scale *= _GROWTH
        write_labels(graph, n_open, out[row])
        statistics[row, OBJECTIVE] = value_of(scores[row], neighbours, pair_scores, out[row], 0.0)
        statistics[row, GAP] = gap
        statistics[row, N_ITER] = n_iter


@entry(types.void(FLOATS_2D, FLOATS_2D, FLOATS, _NEIGHBOURS, _PAIR_SCORES, FLOATS_OUT, FLOATS_OUT))
def add_pair_residuals(marginals, gold, weights, neighbours, pair_scores, out, gold_scores):
    """Compare the pairs of marginals with those of gold labels.

    Adds up by how much the marginals of the pairs differ, into `out`, and writes what the gold pairs score.
    """
    n_labels = marginals.shape[1]
    support = np.empty(n_labels, np.int64)
    used = np.zeros(n_labels, np.bool_)
    for row in range(marginals.shape[0]):
        u, y, weight = marginals[row], gold[row], weights[row]
        n = 0
        for i in range(n_labels):
            used[i] = u[i] > 0.0 or y[i] > 0.0
            if used[i]:
                support[n] = i
                n += 1
        for k in range(n):
            i = support[k]
            for slot in range(neighbours.ptr[i], neighbours.ptr[i + 1]):
                j = neighbours.labels[slot]
                if j > i and used[j]:
                    s, both = pair_scores.slots[slot], y[i] * y[j]
                    out[neighbours.pairs[slot]] += weight * (pair_marginal(s, u[i], u[j]) - both)
                    gold_scores[row] += s * both
