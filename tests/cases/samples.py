"""Small data sets that tests of several rooms learn: sequences, rings, structures of every kind, text, a treebank."""

from functools import cache

import numpy as np
from scipy import sparse

from sklearn_sparsemap import RaggedArray, map_inference
from sklearn_sparsemap.factors import Budget, FactorGraph, Pair
from sklearn_sparsemap.structures import DependencyTree, Matching, Ranking, Subset


def make_chains(n_samples=40, seed=0, kind="dense"):
    """Noisy observations of a sticky sequence of three labels, which the transitions help to read."""
    rng = np.random.default_rng(seed)
    labels = np.array(["x", "y", "z"])
    X, y = [], []
    for _ in range(n_samples):
        n = int(rng.integers(1, 9))
        states = np.cumsum(rng.random(n) < 0.3) % 3
        x = np.eye(3)[states] + 0.6 * rng.normal(size=(n, 3))
        x = np.hstack([x, np.ones((n, 1))])
        X.append(sparse.csr_array(x) if kind == "csr" else x)
        y.append(labels[states])
    return X, y


WEIGHTS = np.array([1.0, -1.0, 0.5])


@cache
def ring(n):
    graph = FactorGraph()
    u = graph.variables(n, name="on")
    graph.add(Pair(u, u[np.arange(1, n + 1) % n], name="neighbours", tied=True), Budget(u, n // 2))
    return graph


def graph_of(x):
    return ring(x.shape[0])


@cache
def make_rings(n_samples, seed):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_samples):
        x = rng.normal(size=(int(rng.integers(3, 7)), 3))
        scores = x @ WEIGHTS + 0.3 * rng.normal(size=len(x))
        X.append(x)
        y.append(map_inference(graph_of(x), scores, additional={"neighbours": 1.0}).structure)
    return X, y


N_FEATURES = 5


def make_data(structure, n_samples=40, seed=0):
    """Samples whose gold structure is the best one under hidden weights, with some noise; one row a part."""
    rng = np.random.default_rng(seed)
    w = np.random.default_rng(99).normal(size=N_FEATURES)
    X, y = [], []
    for _ in range(n_samples):
        n, m = (int(k) for k in rng.integers(1, 5, size=2))
        shape = {DependencyTree: (n + 1, n), Matching: (n, m)}.get(type(structure), (n + 3,))
        x = rng.normal(size=(*shape, N_FEATURES))
        X.append(x)
        scores = x @ (w if structure.in_estimators.row_outputs is None else np.stack([w, w[::-1]], axis=1))
        y.append(map_inference(structure, scores + 0.1 * rng.normal(size=scores.shape))[0])
    return X, y


KINDS = {
    "tree": DependencyTree(),
    "projective": DependencyTree(projective=True, single_root=True),
    "matching": Matching(),
    "subset": Subset(min_size=1, max_size=2),
    "ranking": Ranking(),
}


LABELS = ["p", "q", "r", "s"]


def make_text(n=30, ones=True, dtype=np.float64, seed=0):
    """Make sequences with many columns that are equal in all rows, like those of rare words."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 8, n)
    rows = lengths.sum()
    common = sparse.random_array((rows, 12), density=0.3, rng=rng, format="csc")
    rare = sparse.csc_array((np.ones(rows), (np.arange(rows), rng.permutation(rows))), shape=(rows, rows))
    X = sparse.hstack([rare, common, rare, common[:, :4], sparse.csc_array((rows, 3)), rare]).tocsr()
    X.data[:] = 1.0 if ones else np.round(4 * X.data) + 1.0
    X.sort_indices()
    values = sparse.csr_array(X).astype(dtype)
    y = [[LABELS[(j + k) % 4] for k in range(length)] for j, length in enumerate(lengths)]
    return RaggedArray(values, np.concatenate([[0], np.cumsum(lengths)])), y


TREE = """\
# text = Don't see Ann
1-2 Don't _ _ _ _ _ _ _ _
1 Do do AUX VBP Mood=Imp 3 aux _ _
2 n't not PART RB _ 3 advmod _ _
2.1 you you PRON PRP _ _ _ 3:nsubj _
3 see see VERB VB _ 0 root _ SpaceAfter=No
4 Ann Ann PROPN NNP _ 3 obj _ _

# a comment alone

1 # # SYM SYM _ 0 root _ _
""".replace(" ", "\t")
