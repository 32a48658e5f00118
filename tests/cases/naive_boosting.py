"""Slow, obvious twin of boosting, and small tasks of all kinds to boost."""

import numpy as np
from internals import GraphTask, LabelGraph, LabelTask, StructureTask
from sklearn.tree import DecisionTreeRegressor

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.factors import AtMostOne, FactorGraph
from sklearn_sparsemap.structures import LinearChain, Matching, Simplex

N_LABELS = 3


def make_task(kind, loss, seed=0, n=12, temperature=0.7):
    """Return a task with gold and weights, and its features.

    Kinds are "simplex", "chain", "matching", "graph" and "labels".
    """
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.5, 1.0, 2.0], n)
    if kind == "labels":
        X = RaggedArray(rng.normal(size=(n, 4)), np.arange(n + 1))
        gold = X.values[:, :N_LABELS] * X.values[:, 1:] > 0.2
        graph = LabelGraph(N_LABELS, np.zeros((0, 2), np.int64), [])
        return LabelTask(graph, loss, temperature, gold.astype(float), weights), X
    if kind == "graph":
        graph = FactorGraph()
        graph.add(AtMostOne(graph.variables(3)))
        X = RaggedArray(rng.normal(size=(3 * n, 4)), 3 * np.arange(n + 1))
        gold = np.eye(3, dtype=int)[X.values[:, 0].reshape(n, 3).argmax(axis=1)]
        return GraphTask(X.indptr, [graph] * n, [graph.layout({})] * n, {}).learn(gold, weights, loss, temperature), X
    lengths = np.ones(n, int) if kind == "simplex" else rng.integers(1, 5, n)
    if kind == "matching":
        sizes = rng.integers(1, 4, n)
        shapes = np.stack([sizes, sizes], axis=1)
        indptr = np.concatenate([[0], np.cumsum(sizes**2)])
        X = RaggedArray(rng.normal(size=(indptr[-1], 4)), indptr, shapes=shapes)
        gold = [rng.permutation(size) for size in sizes]
        return StructureTask(Matching(), X, 1).learn(gold, weights, loss, temperature), X
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = RaggedArray(rng.normal(size=(indptr[-1], 4)), indptr)
    codes = (np.abs(X.values[:, 0]) * 2.0).astype(int) % N_LABELS
    structure = LinearChain() if kind == "chain" else Simplex()
    gold = RaggedArray(codes, indptr) if kind == "chain" else codes
    return StructureTask(structure, X, N_LABELS).learn(gold, weights, loss, temperature), X


def naive_boosting(trees, task, X, base, additional, alpha, seeds, n_columns=10):
    """Boost a task by trees of scikit-learn.

    Parameters
    ----------
    trees : Trees
    task : Task
    X : array of shape (n_rows, n_features)
    base, additional : arrays
        The start.
    alpha : float
    seeds : sequence of int
        The seed of the tree of each round.
    n_columns : int
        Maximum number of columns that a node compares.

    Returns
    -------
    predict : callable
        Maps rows to their scores.
    additional : array
    losses : list of float
        Before each round, and at the end.
    """
    row_weights = np.concatenate([[w] * n for w, n in zip(task.weights, np.diff(task.row_ptr), strict=True)])
    T = task.temperature
    total = task.weights.sum()
    rounds, losses = [], []
    lengths = [0.02 * T] * len(additional)
    before = [0.0] * len(additional)
    additional = additional.copy()

    def predict(rows):
        scores = np.array([base] * len(rows))
        for tree, values in rounds:
            for i, leaf in enumerate(tree.apply(rows.astype(np.float32))):
                scores[i] += trees.learning_rate * values[leaf]
        return scores

    def gradient():
        loss, residuals, joined, _ = task.loss_gradient(predict(X), additional, 1)
        losses.append(loss / total + 0.5 * alpha * np.sum(additional**2))
        return residuals / row_weights[:, None], joined / total + alpha * additional

    for seed in seeds:
        residuals, slope = gradient()
        tree = DecisionTreeRegressor(
            max_depth=trees.max_depth,
            min_samples_leaf=trees.min_samples_leaf,
            max_features=min(X.shape[1], n_columns),
            random_state=seed,
        ).fit(X, -residuals, sample_weight=row_weights)
        leaves = tree.apply(X.astype(np.float32))
        values = {}
        for leaf in set(leaves.tolist()):
            own = np.zeros(residuals.shape[1])
            for j in range(len(own)):
                up, down = 0.0, row_weights.mean() / T
                for i in np.flatnonzero(leaves == leaf):
                    r = residuals[i, j]
                    up -= row_weights[i] * r
                    if task.loss in ("crf", "margin_crf", "logistic"):
                        down += row_weights[i] * abs(r) * (1.0 - abs(r)) / T
                    elif abs(r) > 1e-6:
                        down += row_weights[i] / T
                own[j] = min(max(up / down, -8.0 * T), 8.0 * T)
            values[leaf] = own
        rounds.append((tree, values))
        for k, own in enumerate(slope):
            if own * before[k] > 0.0:
                lengths[k] = min(1.2 * lengths[k], 0.5 * T)
            if own * before[k] < 0.0:
                lengths[k] = max(0.5 * lengths[k], 1e-6 * T)
                own = 0.0
            additional[k] -= np.sign(own) * lengths[k]
            before[k] = own
        # After the first one, inference in boosting is a little less accurate.
        task.accuracy = 1e-10
    gradient()
    return predict, additional, losses
