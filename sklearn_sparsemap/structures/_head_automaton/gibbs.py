"""Marginals of the modifiers of a head: log-sums in place of the maxima of `map.py`, and then their derivatives.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from .._sums import add_logs
from .map import (
    GRANDPARENTS,
    N_CANDIDATES,
    N_MODIFIERS,
    SIBLINGS,
    index_of_grandparents,
    score_modifiers,
    siblings_of,
    sum_paths,
)


@kernel
def _pass_back(dims, siblings, modifier_scores, arrived, probability, passed, counts):
    """Write the probability of passing each modifier, and add to the counts of siblings.

    The probability of each modifier is distributed over the modifiers before it.

    Parameters
    ----------
    dims : int array
        As of the oracle.
    siblings : array
        See `siblings_of`.
    modifier_scores : array of shape (n,)
        Scores of the modifiers.
    arrived : array of shape (n + 1,)
        The table of `sum_paths`.
    probability : float
        That of all paths to the end.
    passed : array of shape (n + 1,)
        Gets the probabilities of the modifiers.
    counts : array
        Not changed if there are no scores of siblings.
    """
    n = dims[N_MODIFIERS]
    passed[:n] = 0.0
    passed[n] = probability
    for j in range(n, -1, -1):
        for before in range(j + 1 if passed[j] > 0.0 else 0):
            so_far = 0.0 if before == 0 else arrived[before - 1] + modifier_scores[before - 1]
            share = passed[j] * np.exp(so_far + siblings[before * (n + 1) + j] - arrived[j])
            if dims[SIBLINGS]:
                counts[before * (n + 1) + j] += share
            if before > 0:
                passed[before - 1] += share


def modifier_work(dims):
    """Return the length of `work` that `modifier_marginals` needs: the marginals of all parts, and four tables."""
    n, n_candidates, siblings, grandparents = (int(d) for d in dims)
    n_keys = n_candidates + n + (n + 1) ** 2 * siblings + n_candidates * n * grandparents
    return n_keys + n + (n + 1) + (n + 1) + max(n_candidates, 1)


@as_oracle
def modifier_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute the probabilities of the parts and the expected counts of additional parts; return log Z."""
    n, n_candidates, n_parts = dims[N_MODIFIERS], dims[N_CANDIDATES], scores.shape[0]
    n_keys = n_parts + additional.shape[0]
    own, arrived = work[n_keys : n_keys + n], work[n_keys + n : n_keys + 2 * n + 1]
    passed, logs = work[n_keys + 2 * n + 1 : n_keys + 3 * n + 2], work[n_keys + 3 * n + 2 :]
    siblings = siblings_of(additional, dims)
    work[:n_keys] = 0.0
    log_partition = -np.inf
    for candidate in range(max(n_candidates, 1)):
        score_modifiers(scores, additional, dims, candidate, own)
        sum_paths(siblings, own, arrived)
        logs[candidate] = arrived[n] + (scores[candidate] if n_candidates else 0.0)
        log_partition = add_logs(log_partition, logs[candidate])
    if log_partition == -np.inf:
        return log_partition
    at = n_parts + index_of_grandparents(dims)
    for candidate in range(max(n_candidates, 1)):
        probability = np.exp(logs[candidate] - log_partition)
        if n_candidates:
            work[candidate] = probability
        if probability > 0.0:
            score_modifiers(scores, additional, dims, candidate, own)
            sum_paths(siblings, own, arrived)
            _pass_back(dims, siblings, own, arrived, probability, passed, work[n_parts:])
            for j in range(n):
                work[n_candidates + j] += passed[j]
                if dims[GRANDPARENTS]:
                    work[at + candidate * n + j] = passed[j]
    return log_partition
