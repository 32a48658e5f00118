"""Slow, obvious twins of the marginals: enumeration of everything, and determinants for larger trees."""

from itertools import product

import numpy as np


def log_sum(theta):
    """Return the log of the sum of exponentials; -inf for none."""
    top = np.max(theta, initial=-np.inf)
    return top if top == -np.inf else top + np.log(np.exp(theta - top).sum())


def expectation(parts, theta):
    """Return (log-partition, expected parts) for columns of part counts and their total scores."""
    log_partition = log_sum(theta)
    p = np.exp(theta - np.max(theta))
    return log_partition, parts @ (p / p.sum())


def is_tree(heads):
    """Tell whether every word gets to the root; heads[m - 1] is the head of word m, 0 the root."""
    for start in range(1, len(heads) + 1):
        v = start
        for _ in heads:
            v = heads[v - 1] if v else 0
        if v:
            return False
    return True


def is_projective(heads):
    """Tell whether no two arcs cross, the root being to the left of all words."""
    arcs = [tuple(sorted((h, m))) for m, h in enumerate(heads, 1)]
    return not any(a < c < b < d for a, b in arcs for c, d in arcs)


def all_trees(n, projective, single_root):
    """Return the heads of all trees over n words."""
    everything = product(*[[h for h in range(n + 1) if h != m] for m in range(1, n + 1)])
    return [
        heads
        for heads in everything
        if is_tree(heads) and not (projective and not is_projective(heads)) and not (single_root and heads.count(0) > 1)
    ]


def tree_parts(trees, scores):
    """Return (arc counts, total scores), one column for each tree."""
    n = scores.shape[1]
    parts = np.zeros((scores.size, len(trees)))
    theta = np.zeros(len(trees))
    for s, heads in enumerate(trees):
        for m, h in enumerate(heads):
            parts[h * n + m, s] = 1.0
            theta[s] += scores[h, m]
    return parts, theta


def subset_parts(scores, min_size, max_size):
    """Return (item counts, total scores), one column for each subset of an allowed size."""
    chosen = [c for c in product((0.0, 1.0), repeat=len(scores)) if min_size <= sum(c) <= max_size]
    parts = np.array(chosen).T
    return parts, np.array([sum((s for s, c in zip(scores, column) if c), 0.0) for column in chosen])


def matrix_tree(scores, single_root):
    """Return the log-partition of non-projective trees as a determinant (Koo et al. 2007)."""
    w = np.exp(scores)
    n = w.shape[1]
    root, arcs = w[0].copy(), w[1:].copy()
    arcs[np.arange(n), np.arange(n)] = 0.0
    laplacian = np.diag(arcs.sum(axis=0)) - arcs
    if single_root:
        laplacian[0] = root
    else:
        laplacian += np.diag(root)
    return np.linalg.slogdet(laplacian)[1]


def chain_in_logs(scores, transitions, start, end):
    """Return (log-partition, marginals of states, of transitions) of a chain by sums of logarithms.

    `transitions` has one matrix for each pair of neighbours.
    """
    scores = scores.copy()
    scores[0] += start
    scores[-1] += end
    n_steps, n_states = scores.shape
    forward, backward = scores.copy(), np.zeros_like(scores)
    for t in range(1, n_steps):
        for j in range(n_states):
            forward[t, j] += log_sum(forward[t - 1] + transitions[t - 1][:, j])
    for t in range(n_steps - 2, -1, -1):
        for i in range(n_states):
            backward[t, i] = log_sum(transitions[t][i] + scores[t + 1] + backward[t + 1])
    log_partition = log_sum(forward[-1])
    if log_partition == -np.inf:
        return log_partition, None, None
    both = [
        forward[t][:, None] + transitions[t] + scores[t + 1] + backward[t + 1] - log_partition
        for t in range(n_steps - 1)
    ]
    counts = np.exp(both) if both else np.zeros((0, n_states, n_states))
    return log_partition, np.exp(forward + backward - log_partition), counts


def all_parts(instance):
    """Return (unary and additional counts, total scores), one column for each structure."""
    found, unary, theta = instance.enumerate()
    structure = instance.structure
    dims = structure.dims(instance.scores.shape, {name: a.shape for name, a in instance.additional.items()})
    counts = np.zeros((sum(a.size for a in instance.additional.values()), len(found)))
    for p, one in enumerate(found):
        parts = structure.encode(np.array(one), dims)[1]
        np.add.at(counts[:, p], parts[parts >= 0], 1.0)
    return np.vstack([unary, counts]), theta
