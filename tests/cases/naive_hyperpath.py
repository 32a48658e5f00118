"""All derivations of a hypergraph, one after the other: the slow twin of `Hyperpath`."""

import numpy as np


def all_derivations(heads, tails, node):
    """Return the derivations of a node, each a sorted list of its hyperarcs; those used twice are there twice."""
    arcs = [arc for arc, head in enumerate(heads) if head == node]
    if not arcs:
        return [[]]
    found = []
    for arc in arcs:
        ways = [[arc]]
        for tail in tails[arc]:
            if tail != -1:
                ways = [way + rest for way in ways for rest in all_derivations(heads, tails, tail)]
        found += map(sorted, ways)
    return found


def has_repeats(derivations):
    """Return whether a derivation has a hyperarc twice."""
    return any(len(set(arcs)) < len(arcs) for arcs in derivations)


def target_of(heads, tails, target):
    return max(*heads, *(tail for own in tails for tail in own)) if target is None else target


def enumerate_derivations(scores, heads, tails, target=None):
    """Return (bools, unary indicators M, total scores) of all derivations of the target."""
    derivations = all_derivations(heads, tails, target_of(heads, tails, target))
    M = np.array([[arc in arcs for arc in range(len(heads))] for arcs in derivations], float).T
    theta = np.array([sum(scores[arc] for arc in arcs) for arcs in derivations])
    return [tuple(column) for column in M.T.astype(bool).tolist()], M, theta


def random_hypergraph(rng, n_nodes, n_arcs):
    """Return heads, tails and the target of a random hypergraph; nodes have any numbers, and derivations may repeat.

    If the target is the last node, it is None in half of the cases.
    """
    heads = rng.integers(1, n_nodes, n_arcs)
    heads[0] = n_nodes - 1
    # Tails are before heads, where nodes begin with -1 for none.
    tails = np.array([rng.integers(-1, head, 2) for head in heads])
    numbers = rng.choice(20, n_nodes, replace=False)
    order = rng.permutation(n_arcs)
    heads, tails = numbers[heads][order], np.where(tails < 0, -1, numbers[tails])[order]
    last = max(heads.max(), tails.max())
    target = int(numbers[n_nodes - 1])
    return heads.tolist(), tails.tolist(), None if target == last and rng.random() < 0.5 else target


def random_derivable(rng, most=60):
    """Return a random hypergraph without repeats, with at most so many derivations, and these."""
    while True:
        heads, tails, target = random_hypergraph(rng, int(rng.integers(2, 10)), int(rng.integers(1, 11)))
        derivations = all_derivations(heads, tails, target_of(heads, tails, target))
        if len(derivations) <= most and not has_repeats(derivations):
            return heads, tails, target, derivations


def bracketings(n, labels=1):
    """Return heads, tails and a key (first, middle, stop, label) for each hyperarc of all trees over n words."""
    number, heads, tails, keys = {}, [], [], []
    for length in range(1, n + 1):
        for first in range(n - length + 1):
            stop = first + length
            number[first, stop] = len(number)
            for middle in range(first + 1, stop):
                for label in range(labels):
                    heads.append(number[first, stop])
                    tails.append([number[first, middle], number[middle, stop]])
                    keys.append((first, middle, stop, label))
    return heads, tails, keys
