"""Slow twins of what is learned and decided of label sets."""

from itertools import product

import numpy as np
from scipy.optimize import minimize, nnls


def naive_linear(X, Y, weights, alpha, loss, temperature, implies=False):
    """Minimise the mean loss of linear scores plus the penalty, from a random start, sample by sample.

    With `implies`, label 0 implies label 1. Returns the weights and intercepts.
    """
    n, d, m = *X.shape, Y.shape[1]

    def marginals(scores):
        found = scores.copy()
        if implies and found[0] > found[1]:
            found[:2] = found[:2].mean()
        return np.clip(found, 0.0, 1.0)

    def objective(flat):
        coef, intercept = flat[: d * m].reshape(d, m), flat[d * m :]
        total, residuals = 0.0, np.zeros((n, m))
        for i in range(n):
            scores = X[i] @ coef + intercept
            if loss == "logistic":
                total += weights[i] * (temperature * np.logaddexp(0.0, scores / temperature).sum() - scores @ Y[i])
                found = 1.0 / (1.0 + np.exp(-scores / temperature))
            else:
                found = marginals(scores / temperature)
                value = scores @ found - temperature * 0.5 * found @ found
                total += weights[i] * (value + temperature * 0.5 * Y[i].sum() - scores @ Y[i])
            residuals[i] = weights[i] * (found - Y[i])
        gradient = np.concatenate([(X.T @ residuals).ravel(), residuals.sum(axis=0)]) / weights.sum()
        gradient[: d * m] += alpha * coef.ravel()
        return total / weights.sum() + 0.5 * alpha * (coef**2).sum(), gradient

    start = np.random.default_rng(0).normal(size=(d + 1) * m)
    found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}).x
    return found[: d * m].reshape(d, m), found[d * m :]


def naive_lift(y, gold, weights):
    """Return the log of how many times more frequent a set is in `gold` than of labels that are independent."""
    total = sum(weights)
    found = np.log(sum(w for w, row in zip(weights, gold) if tuple(row) == tuple(y)) / total)
    for j, on in enumerate(y):
        p = (sum(w for w, row in zip(weights, gold) if row[j]) + 0.5) / (total + 1.0)
        found -= np.log(p if on else 1.0 - p)
    return found


def naive_seen(marginals, threshold, gold, weights, slack, n_likely):
    """Choose for each sample the seen set of the highest expected F1 plus probability, if none is better by far."""
    seen = sorted({tuple(row) for row in gold.astype(int).tolist()})
    lifts = {y: naive_lift(y, gold, weights) for y in seen}
    found = []
    for u in marginals:
        sums = {y: sum(u[j] - threshold for j in range(len(u)) if y[j]) for y in seen}
        logits = {y: 5.0 * sums[y] + lifts[y] / 3.0 for y in seen}
        likely = sorted(seen, key=lambda y: -logits[y])[: n_likely if len(seen) > 2 * n_likely else None]
        total = sum(np.exp(logits[y]) for y in likely)
        shares = {y: np.exp(logits[y]) / total for y in likely}

        def f1(y, z):
            size = sum(y) + sum(z)
            return 2.0 * sum(a * b for a, b in zip(y, z)) / size if size else 1.0

        best = max(likely, key=lambda y: shares[y] + sum(shares[z] * f1(y, z) for z in likely))
        plain = tuple(int(v > threshold) for v in u)
        highest = max(sum(u[j] - threshold for j in range(len(u)) if y[j]) for y in product((0, 1), repeat=len(u)))
        found.append(best if highest - max(sums.values()) <= slack else plain)
    return np.array(found)


def naive_forest(scores, parents, known=None):
    """Find the nearest point where no label exceeds its parent, by non-negative least squares on the multipliers.

    `known` is 1.0 or 0.0 for labels that are fixed, -1.0 for others.
    """
    n = len(scores)
    states = np.full(n, -1.0) if known is None else np.array(known)
    for _ in range(n):
        for child, parent in enumerate(parents):
            if parent >= 0 and states[child] == 1.0:
                states[parent] = 1.0
    for _ in range(n):
        for child, parent in enumerate(parents):
            if parent >= 0 and states[parent] == 0.0:
                states[child] = 0.0
    free = np.flatnonzero(states < 0)
    rows = [(c, p) for c, p in enumerate(parents) if p >= 0 and states[c] < 0 and states[p] < 0]
    found = scores.copy()
    if rows:
        signs = np.zeros((n, len(rows)))
        for k, (child, parent) in enumerate(rows):
            signs[child, k], signs[parent, k] = 1.0, -1.0
        found[free] = (scores - signs @ nnls(signs[free], scores[free])[0])[free]
    return np.where(states >= 0, states, np.clip(found, 0.0, 1.0))
