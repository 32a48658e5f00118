"""The k best paths of a chain, by Viterbi with k paths into each state."""

import numpy as np

from .counts import ANY_COUNT, after_step


def best_paths(sample, k, counted=ANY_COUNT):
    """Return the slots and values of the `k` best paths of a `Problem`; for `counted`, see `counts.py`."""
    counted_state, fewest, most = counted
    scores = sample.scores.reshape(sample.shape)
    n, m = scores.shape
    given = sample.split_additional(sample.additional)
    transitions = given.get("transitions", np.zeros((m, m)))
    transitions = np.broadcast_to(transitions, (n - 1, m, m))
    # values[count, j, r] is the score of the r-th best path with this count that ends in state j.
    values = np.full((most + 1, m), -np.inf)
    values[0] = 0.0
    values, before = after_step(values, counted_state)[:, :, None], []
    values = values + (scores[0] + given.get("start", 0.0))[:, None]
    for t in range(1, n):
        into = (values[:, :, :, None] + transitions[t - 1][:, None, :]).reshape(most + 1, -1, m)
        order = _largest(into, k)
        before.append((order, values.shape[2]))
        arrived = after_step(np.take_along_axis(into, order, axis=1), counted_state)
        values = np.swapaxes(arrived + scores[t], 1, 2)
    values = values[fewest:] + np.asarray(given.get("end", 0.0)).reshape(-1, 1)
    order = _largest(values.reshape(1, -1, 1), k)[0, :, 0]
    order = order[values.ravel()[order] > -np.inf]
    paths = np.empty((len(order), n), np.int64)
    count, state, rank = np.unravel_index(order, values.shape)
    count = count + fewest
    for t in range(n - 1, -1, -1):
        paths[:, t] = state
        if t:
            chosen, width = before[t - 1]
            count = count - (state == counted_state)
            place = chosen[count, rank, state]
            state, rank = place // width, place % width
    slots = (paths + np.arange(n) * m).astype(np.int32)
    return list(zip(slots, values.ravel()[order].tolist()))


def _largest(values, k):
    """Return the places along axis 1 of the `k` largest entries, the largest first."""
    n = values.shape[1]
    order = np.argpartition(-values, k - 1, axis=1)[:, :k] if k < n else np.arange(n)[:, None]
    order = np.broadcast_to(order, (len(values), order.shape[-2], values.shape[2]))
    best = np.argsort(-np.take_along_axis(values, order, axis=1), axis=1, kind="stable")
    return np.take_along_axis(order, best, axis=1)
