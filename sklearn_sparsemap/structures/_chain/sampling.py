"""Samples of the Gibbs distribution of a chain: backward messages, then one state after the other."""

import numpy as np
from scipy.special import logsumexp

from ..._numerics.draw import draw_rows
from .counts import ANY_COUNT, after_step


def draw_paths(sample, n, rng, counted=ANY_COUNT):
    """Draw paths: compute backward messages, then draw each state given the previous one.

    For `counted`, see `counts.py`. Messages are by the count that the rest of the path may still have.
    """
    counted_state, fewest, most = counted
    scores = sample.scores.reshape(sample.shape)
    n_steps, m = scores.shape
    given = sample.split_additional(sample.additional)
    transitions = np.broadcast_to(given.get("transitions", np.zeros((m, m))), (n_steps - 1, m, m))
    into = np.full((n_steps, most + 1, m), -np.inf)
    after = np.full((most + 1, m), -np.inf)
    after[: most - fewest + 1] = given.get("end", 0.0)
    with np.errstate(divide="ignore"):
        for t in range(n_steps - 1, -1, -1):
            into[t] = after_step(scores[t] + after, counted_state)
            if t:
                after = logsumexp(transitions[t - 1] + into[t][:, None, :], axis=2)
    paths = np.empty((n, n_steps), np.int64)
    logits = np.tile(into[0, most] + given.get("start", 0.0), (n, 1))
    left = np.full(n, most)
    for t in range(n_steps):
        paths[:, t] = draw_rows(logits, rng)
        if t + 1 < n_steps:
            left = left - (paths[:, t] == counted_state)
            logits = transitions[t][paths[:, t]] + into[t + 1, left]
    return paths
