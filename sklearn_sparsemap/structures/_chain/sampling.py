"""Samples of the Gibbs distribution of a chain: backward messages, then one state after the other."""

import numpy as np
from scipy.special import logsumexp

from ...numerics.draw import draw_rows


def draw_paths(sample, n, rng):
    """Draw paths: compute backward messages, then draw each state given the previous one."""
    scores = sample.scores.reshape(sample.shape)
    n_steps, m = scores.shape
    given = sample.split_additional(sample.additional)
    transitions = np.broadcast_to(given.get("transitions", np.zeros((m, m))), (n_steps - 1, m, m))
    after = np.zeros((n_steps, m))
    after[-1] = given.get("end", 0.0)
    with np.errstate(divide="ignore"):
        for t in range(n_steps - 2, -1, -1):
            after[t] = logsumexp(transitions[t] + scores[t + 1] + after[t + 1], axis=1)
    paths = np.empty((n, n_steps), np.int64)
    logits = np.tile(scores[0] + given.get("start", 0.0) + after[0], (n, 1))
    for t in range(n_steps):
        paths[:, t] = draw_rows(logits, rng)
        if t + 1 < n_steps:
            logits = transitions[t][paths[:, t]] + scores[t + 1] + after[t + 1]
    return paths
