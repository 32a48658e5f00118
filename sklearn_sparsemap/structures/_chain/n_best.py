"""The k best paths of a chain, by Viterbi with k paths into each state."""

import numpy as np


def best_paths(sample, k):
    """Return the slots and values of the `k` best paths of a `Problem`."""
    scores = sample.scores.reshape(sample.shape)
    n, m = scores.shape
    given = sample.split_additional(sample.additional)
    transitions = given.get("transitions", np.zeros((m, m)))
    transitions = np.broadcast_to(transitions, (n - 1, m, m))
    # values[j, r] is the score of the r-th best path that ends in state j.
    values, before = (scores[0] + given.get("start", 0.0))[:, None], []
    for t in range(1, n):
        into = (values[:, :, None] + transitions[t - 1][:, None, :]).reshape(-1, m)
        order = _largest(into, k)
        before.append((order, values.shape[1]))
        values = (np.take_along_axis(into, order, axis=0) + scores[t]).T
    values = values + np.asarray(given.get("end", 0.0)).reshape(-1, 1)
    order = _largest(values.reshape(-1, 1), k)[:, 0]
    order = order[values.ravel()[order] > -np.inf]
    paths = np.empty((len(order), n), np.int64)
    state, rank = order // values.shape[1], order % values.shape[1]
    for t in range(n - 1, -1, -1):
        paths[:, t] = state
        if t:
            chosen, width = before[t - 1]
            place = chosen[rank, state]
            state, rank = place // width, place % width
    slots = (paths + np.arange(n) * m).astype(np.int32)
    return list(zip(slots, values.ravel()[order].tolist()))


def _largest(values, k):
    """Return the places of the `k` largest entries of each column, the largest first."""
    order = np.argpartition(-values, k - 1, axis=0)[:k] if k < len(values) else np.arange(len(values))[:, None]
    order = np.broadcast_to(order, (len(order), values.shape[1]))
    return np.take_along_axis(order, np.argsort(-np.take_along_axis(values, order, axis=0), axis=0, kind="stable"), 0)
