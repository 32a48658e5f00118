"""Label sets by conditional edges: each label from the features and the other labels, as a yardstick for label graphs.

Pseudo-likelihood of a pairwise model: the log odds of label j are its linear score plus ``sum_k W[j, k] y[k]`` over the
other gold labels. W is symmetric: all its entries, of low rank, or a linear function of some principal components of
the features. The prediction is the label set seen in training with the largest expected score under the model, as in
`MultilabelLPSparseMAP`.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.decomposition import TruncatedSVD

# Rank of each of the two factors, and principal components.
RANK, N_COMPONENTS = 3, 3
# Penalties that are tried: of the linear scores, and of the edges.
PENALTIES = [(a, e) for a in (0.3, 1.0, 3.0) for e in (0.3, 3.0, 30.0)]


class ConditionalLabels:
    """Pairwise model of label sets; `edges` is "none", "full", "low rank" or "by input"."""

    def __init__(self, edges, random_state=0):
        self.edges, self.random_state = edges, random_state

    def fit(self, X, Y):
        """Choose the penalties by the held-out pseudo-likelihood, then fit to all."""
        Y = np.asarray(Y, np.float64)
        if self.edges == "by input":
            self.components = TruncatedSVD(N_COMPONENTS, random_state=self.random_state).fit(X)
            self.scale = self.components.transform(X).std(axis=0)
        held = np.random.default_rng(self.random_state).permutation(len(Y)) < len(Y) // 3
        penalties = PENALTIES if self.edges != "none" else PENALTIES[::3]
        tried = [(self._loss(self._learn(X[~held], Y[~held], p), X[held], Y[held])[0], p) for p in penalties]
        self.penalties = min(tried)[1]
        self.weights = self._learn(X, Y, self.penalties)
        self.sets, counts = np.unique(Y, axis=0, return_counts=True)
        self.sets = self.sets[np.argsort(-counts, kind="stable")]
        return self

    def predict(self, X):
        """Return of the sets seen the one of the highest expected F1 plus probability."""
        coef, intercept, graphs = self._unpack(self.weights, X.shape[1], self.sets.shape[1])
        pairs = np.stack([0.5 * ((self.sets @ W) * self.sets).sum(axis=1) for W in graphs])
        shares = softmax((X @ coef + intercept) @ self.sets.T + self._inputs(X) @ pairs, axis=1)
        sizes = self.sets.sum(axis=1)
        total = sizes[:, None] + sizes
        mutual = np.where(total > 0, 2.0 * (self.sets @ self.sets.T) / np.maximum(total, 1.0), 1.0)
        return self.sets[(shares @ mutual + shares).argmax(axis=1)].astype(int)

    def _inputs(self, X):
        """Return the factors of the graphs in each sample: 1, and the components if there are any."""
        ones = np.ones((X.shape[0], 1))
        return np.hstack([ones, self.components.transform(X) / self.scale]) if self.edges == "by input" else ones

    def _unpack(self, flat, n_features, n_labels):
        coef, rest = flat[: n_features * n_labels].reshape(n_features, n_labels), flat[n_features * n_labels :]
        intercept, edges = rest[:n_labels], rest[n_labels:]
        if self.edges == "none":
            return coef, intercept, np.zeros((1, n_labels, n_labels))
        if self.edges == "low rank":
            left, right = edges.reshape(2, n_labels, RANK)
            graph = left @ right.T + right @ left.T
            np.fill_diagonal(graph, 0.0)
            return coef, intercept, graph[None]
        first, second = np.triu_indices(n_labels, 1)
        graphs = np.zeros((len(edges) // len(first), n_labels, n_labels))
        graphs[:, first, second] = graphs[:, second, first] = edges.reshape(len(graphs), -1)
        return coef, intercept, graphs

    def _loss(self, flat, X, Y):
        """Return the mean negative log pseudo-likelihood, and its gradient."""
        (n, m), inputs = Y.shape, self._inputs(X)
        coef, intercept, graphs = self._unpack(flat, X.shape[1], m)
        odds = X @ coef + intercept
        for z, W in zip(inputs.T, graphs, strict=True):
            odds += z[:, None] * (Y @ W)
        residuals = (expit(odds) - Y) / n
        parts = [(X.T @ residuals).ravel(), residuals.sum(axis=0)]
        slopes = [Y.T @ (z[:, None] * residuals) for z in inputs.T]
        slopes = [slope + slope.T for slope in slopes]
        if self.edges == "low rank":
            np.fill_diagonal(slopes[0], 0.0)
            left, right = flat[(X.shape[1] + 1) * m :].reshape(2, m, RANK)
            parts += [(slopes[0] @ right).ravel(), (slopes[0] @ left).ravel()]
        elif self.edges != "none":
            parts += [slope[np.triu_indices(m, 1)] for slope in slopes]
        return (np.logaddexp(0.0, odds) - Y * odds).sum() / n, np.concatenate(parts)

    def _learn(self, X, Y, penalties):
        (n, m), d = Y.shape, X.shape[1]
        n_edges = {"none": 0, "low rank": 2 * m * RANK, "full": m * (m - 1) // 2}
        n_edges["by input"] = (1 + N_COMPONENTS) * n_edges["full"]
        squares = X.multiply(X) if sparse.issparse(X) else X * X
        strength = 0.02 * squares.sum() / n / np.sqrt(n)
        alphas = np.concatenate([
            np.full(d * m, penalties[0] * strength), np.zeros(m), np.full(n_edges[self.edges], penalties[1] / n)
        ])  # fmt: skip
        start = np.zeros(len(alphas))
        if self.edges == "low rank":
            start[(d + 1) * m :] = 0.1 * np.random.default_rng(self.random_state).normal(size=n_edges["low rank"])

        def objective(flat):
            loss, gradient = self._loss(flat, X, Y)
            return loss + 0.5 * alphas @ (flat * flat), gradient + alphas * flat

        return minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7}).x
