"""
Learn a causal graph over orders of its variables
=================================================

Which variables act on which? A directed acyclic graph has an order, in which each variable comes after those that act
on it. Once the order is known, the graph is a few regressions: of each variable on some of those before it. So the
search is over orders. `sparsemap` over `Ranking` turns one score a variable into a mixture of a few orders, and the
expected loss of these orders has a gradient with respect to the scores (Zantedeschi et al., `DAG learning on the
permutahedron <https://arxiv.org/abs/2301.11898>`_, ICLR 2023). Unlike in methods that relax acyclicity, each graph on
the way is acyclic.

The data are simulated. ``benchmarks/dags.py`` uses the functions below on real data.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import SplineTransformer, StandardScaler

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import Ranking

# %%
# The loss of an order
# --------------------
# A variable is a sum of splines of its parents, plus normal noise of its own variance. Parents are selected among the
# variables before, one at a time, while the Bayesian information criterion improves.


class Regressions:
    """Regressions of variables on some of those before them, each computed once."""

    def __init__(self, X):
        n, self.d = X.shape
        X = StandardScaler().fit_transform(X)
        basis = SplineTransformer(4, knots="quantile", include_bias=False)
        splines = basis.fit_transform(X)
        self.p, self.found = splines.shape[1] // self.d, {}
        covariance = np.cov(np.hstack([X, splines]).T, bias=True)
        self.covariance = covariance + 1e-6 * np.eye(len(covariance))
        self.penalty = self.p * np.log(n) / n

    def fit(self, node, before):
        """Return the residual variance of a variable, and its parents."""
        key = node, frozenset(before)
        if key not in self.found:
            left, parents, columns = list(before), [], np.arange(self.p)
            rows = self.d + self.p * np.array(before, int)[:, None] + columns
            used = np.append(node, rows)
            C = self.covariance[np.ix_(used, used)]
            blocks = 1 + self.p * np.arange(len(before))[:, None] + columns
            while left:
                own = C[blocks[:, :, None], blocks[:, None]]
                slopes = np.linalg.solve(own, C[0, blocks, None])[..., 0]
                gains = (C[0, blocks] * slopes).sum(axis=1)
                best = int(gains.argmax())
                if np.log(C[0, 0] / (C[0, 0] - gains[best])) < self.penalty:
                    break
                # Covariance of the residuals, given one more variable.
                chosen = blocks[best]
                C = C - C[:, chosen] @ np.linalg.solve(own[best], C[chosen])
                parents.append(left.pop(best))
                blocks = np.delete(blocks, best, axis=0)
            self.found[key] = C[0, 0], parents
        return self.found[key]

    def loss(self, order):
        """Return the Bayesian information criterion for each sample, on average."""
        fits = [self.fit(node, order[:i]) for i, node in enumerate(order)]
        n_edges = sum(len(parents) for _, parents in fits)
        return sum(np.log(noise) for noise, _ in fits) + self.penalty * n_edges

    def graph(self, order):
        """Return the adjacency matrix: entry (i, j) is 1 if i acts on j."""
        graph = np.zeros((self.d, self.d), int)
        for i, node in enumerate(order):
            graph[self.fit(node, order[:i])[1], node] = 1
        return graph


# %%
# The expected loss over few orders
# ---------------------------------
# ``weights_vjp`` differentiates the weights of the mixture. The steps are those of Adam.


def learn_order(regressions, rng, n_steps=25, rate=0.2):
    """Return the best order that was found, and the expected loss of each step."""
    scores = rng.normal(scale=0.3, size=regressions.d)
    mean, square, curve, best = 0.0, 0.0, [], (np.inf, None)
    for step in range(1, n_steps + 1):
        mixture = sparsemap(Ranking(), scores)
        losses = [regressions.loss(order) for order in mixture.structures]
        best = min(best, *zip(losses, mixture.structures), key=lambda pair: pair[0])
        curve.append(mixture.weights @ losses)
        gradient = mixture.weights_vjp(losses)["scores"]
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        size = np.sqrt(square / (1.0 - 0.99**step)) + 1e-12
        scores = scores - rate * mean / (1.0 - 0.9**step) / size
    return best[1], curve


# %%
# Edges of most halves
# --------------------
# Graphs of one sample have edges that others do not have. Ten graphs are learned from random halves of the samples. Of
# the three states of a pair of variables, an edge in either direction or none, the most frequent one has the lowest
# expected distance.


def learn_graph(X, seed=0, n_cuts=5):
    """Return the adjacency matrix of the edges of most halves of the samples."""
    rng, frequency = np.random.default_rng(seed), np.zeros((X.shape[1], X.shape[1]))
    for _ in range(n_cuts):
        rows = rng.permutation(len(X))
        for half in (rows[::2], rows[1::2]):
            regressions = Regressions(X[half])
            order, _ = learn_order(regressions, rng)
            frequency += regressions.graph(order) / (2 * n_cuts)
    missing = 1.0 - frequency - frequency.T
    return ((frequency > frequency.T) & (frequency > missing)).astype(int)


def structural_distance(first, second):
    """Return the number of pairs of variables whose edges differ."""
    return int(np.triu((first != second) | (first != second).T, 1).sum())


# %%
# A model of ten variables
# ------------------------
# Variables in a random order depend on three in ten of those before them, by sines.


def draw_model(n_samples, n_variables, rng):
    """Return samples of a structural model, and its graph."""
    order = rng.permutation(n_variables)
    graph = np.zeros((n_variables, n_variables), int)
    X = np.zeros((n_samples, n_variables))
    for i, node in enumerate(order):
        graph[order[:i], node] = rng.random(i) < 0.3
        X[:, node] = 2.0 * np.sin(2.0 * X) @ graph[:, node] + rng.normal(size=n_samples)
    return X, graph


if __name__ == "__main__":
    X, graph = draw_model(500, 10, np.random.default_rng(0))
    found = learn_graph(X)
    print(f"{graph.sum()} edges, {found.sum()} found, distance", end=" ")
    print(structural_distance(found, graph))
    order, curve = learn_order(Regressions(X), np.random.default_rng(0), n_steps=100)

    figure, axes = plt.subplots(1, 2, figsize=(6.5, 3.4), layout="constrained")
    for ax, title, matrix in zip(axes, ("true graph", "found graph"), (graph, found)):
        ax.imshow(matrix[np.ix_(order, order)], cmap="gray_r")
        ax.set(title=title, xlabel="effect", ylabel="cause", xticks=[], yticks=[])
    figure, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    ax.plot(np.arange(1, len(curve) + 1), curve, color="#00594d")
    ax.set(xlabel="step", ylabel="expected loss")
    ax.spines[["top", "right"]].set_visible(False)
    plt.show()
