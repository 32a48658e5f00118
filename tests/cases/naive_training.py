"""Slow, obvious twins of the parts of training."""

import numpy as np
from internals import BatchObjective, LinearModel, StructureTask

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.structures import Simplex


def two_loops(pairs, gradient):
    """Return L-BFGS's product of the inverse Hessian with a gradient (Nocedal 1980), from (step, change) pairs."""
    q, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append(step @ q / (step @ change))
        q -= shares[-1] * change
    if pairs:
        step, change = pairs[-1]
        q *= step @ change / (change @ change)
    for (step, change), share in zip(pairs, reversed(shares)):
        q += (share - change @ q / (step @ change)) * step
    return q


def merge_columns(X):
    """Return the groups of columns of a dense array that are the same in all rows, without those of zeros."""
    groups = {}
    for j, column in enumerate(X.T):
        if column.any():
            groups.setdefault(tuple(column.tolist()), []).append(j)
    return [tuple(group) for group in groups.values()]


def averaged(states, shares, start=None, share=None):
    """Average training states by dictionaries: of each slot, a dict of place -> value, with the dense ones by name.

    Also returned: how many steps the sums are of.
    """
    total, found = sum(shares), {}
    n_own, n_before = sum(state.n_steps for state in states), 0 if start is None else start.n_steps
    of_own, of_before = (1.0, 1.0) if share is None else (share, 1.0 - share)
    if share is not None and n_before:
        of_own, of_before = (part * (n_own + n_before) / n for part, n in ((of_own, n_own), (of_before, n_before)))
    places = sorted(set().union(*(state.indices.tolist() for state in states)))
    for slot in states[0].dense:
        blank, entries = {"squares": 1e-6}.get(slot, 0.0), {}
        tables = [dict(zip(state.indices.tolist(), state.pairs.get(slot, ()))) for state in states]
        for state, table in zip(states, tables):
            table.update({("dense", k): value for k, value in enumerate(state.dense[slot])})
        known = {} if start is None else dict(zip(start.indices.tolist(), start.pairs.get(slot, ())))
        if start is not None:
            known.update({("dense", k): value for k, value in enumerate(start.dense[slot])})
        for place in [*(places if tables[0].keys() != {} and states[0].pairs else []), *tables[0]]:
            values = [table.get(place, blank) for table in tables]
            if slot == "sums":
                entries[place] = of_own * sum(values) + of_before * known.get(place, 0.0)
            else:
                entries[place] = sum(share * value for share, value in zip(shares, values)) / total
        found[slot] = entries
    return found, n_own + n_before


N_FEATURES, N_LABELS = 4, 3


def make_problem(structure, seed=0, n_samples=6):
    rng = np.random.default_rng(seed)
    lengths = np.ones(n_samples, int) if isinstance(structure, Simplex) else rng.integers(1, 5, size=n_samples)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = rng.normal(size=(indptr[-1], N_FEATURES)) * (rng.random((indptr[-1], N_FEATURES)) < 0.7)
    codes = rng.integers(N_LABELS, size=indptr[-1])
    gold = list(codes) if isinstance(structure, Simplex) else np.split(codes, indptr[1:-1])
    weights = rng.uniform(0.5, 1.5, size=n_samples)
    X = RaggedArray(X, indptr)
    targets = StructureTask(structure, X, N_LABELS).learn(gold, weights, "sparsemap").targets
    n_additional = sum(int(np.prod(s)) for s in structure.learned_shapes(N_LABELS).values())
    model = LinearModel(
        rng.normal(size=(N_FEATURES, N_LABELS)), rng.normal(size=N_LABELS), rng.normal(size=n_additional)
    )
    return X, gold, targets, model


def make_objective(structure, X, gold, targets, model, loss, temperature, **parameters):
    task = StructureTask(structure, X, N_LABELS).learn(gold, targets.weights, loss, temperature, None)
    return BatchObjective(task, X.values, model, **parameters)
