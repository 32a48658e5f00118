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

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import Ranking

# %%
# The loss of an order
# --------------------
# Parents are selected among the variables before, one at a time, while the Bayesian information criterion improves.


class Regressions:
    """Regressions of variables on some of those before them, each computed once."""

    def __init__(self, X):
        self.penalty, self.found = np.log(len(X)) / len(X), {}
        self.covariance = np.cov(X.T, bias=True)

    def fit(self, node, before):
        """Return the residual variance of a variable, and its parents."""
        key = node, frozenset(before)
        if key not in self.found:
            C, parents, rest = self.covariance, [], list(before)
            while rest:
                gains = C[rest, node] ** 2 / C[rest, rest]
                best = rest[int(gains.argmax())]
                if np.log(C[node, node] / (C[node, node] - gains.max())) < self.penalty:
                    break
                # Covariance of the residuals, given one more variable.
                C = C - np.outer(C[:, best], C[best]) / C[best, best]
                parents.append(best)
                rest.remove(best)
            self.found[key] = C[node, node], parents
        return self.found[key]

    def loss(self, order):
        """Return the criterion of a Gaussian model with equal noise."""
        fits = [self.fit(node, order[:i]) for i, node in enumerate(order)]
        n_edges = sum(len(parents) for _, parents in fits)
        noise = np.mean([variance for variance, _ in fits])
        return len(order) * np.log(noise) + self.penalty * n_edges

    def graph(self, order):
        """Return the adjacency matrix: entry (i, j) is 1 if i acts on j."""
        graph = np.zeros((len(order), len(order)), int)
        for i, node in enumerate(order):
            graph[self.fit(node, order[:i])[1], node] = 1
        return graph


# %%
# The expected loss over few orders
# ---------------------------------
# ``weights_vjp`` differentiates the weights of the mixture. The steps are those of Adam.


def learn_order(regressions, n_steps=100, rate=0.2, seed=0):
    """Return the best order that was found, and the expected loss of each step."""
    n = len(regressions.covariance)
    scores = np.random.default_rng(seed).normal(scale=0.3, size=n)
    mean, square, curve, best = np.zeros(n), np.zeros(n), [], (np.inf, None)
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


def structural_distance(first, second):
    """Return the number of pairs of variables whose edges differ."""
    return int(np.triu((first != second) | (first != second).T, 1).sum())


# %%
# A linear model of ten variables
# -------------------------------
# Variables in a random order depend on three in ten of those before them, with equal noise.


def draw_model(n_samples, n_variables, rng):
    """Return samples of a linear structural model, and its graph."""
    order = rng.permutation(n_variables)
    graph = np.zeros((n_variables, n_variables), int)
    X = np.zeros((n_samples, n_variables))
    for i, node in enumerate(order):
        graph[order[:i], node] = rng.random(i) < 0.3
        weights = rng.uniform(0.5, 1.5, n_variables) * rng.choice([-1, 1], n_variables)
        X[:, node] = X @ (weights * graph[:, node]) + rng.normal(size=n_samples)
    return X, graph


if __name__ == "__main__":
    X, graph = draw_model(500, 10, np.random.default_rng(0))
    regressions = Regressions(X)
    order, curve = learn_order(regressions)
    found = regressions.graph(order)
    print(f"{graph.sum()} edges, {found.sum()} found, distance", end=" ")
    print(structural_distance(found, graph))

    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), layout="constrained")
    # In the order that was found, all edges are above the diagonal.
    panels = zip(("true graph", "found graph"), (graph, found))
    for ax, (title, matrix) in zip(axes, panels):
        ax.imshow(matrix[np.ix_(order, order)], cmap="gray_r")
        ax.set(title=title, xlabel="effect", ylabel="cause", xticks=[], yticks=[])
    axes[2].plot(np.arange(1, len(curve) + 1), curve, color="#00594d")
    axes[2].set(xlabel="step", ylabel="expected loss")
    axes[2].spines[["top", "right"]].set_visible(False)
    plt.show()
