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
    """Return the log of a set's smoothed probability in `gold`, divided by that of labels that are independent."""
    total, counts = sum(weights), {}
    for w, row in zip(weights, gold):
        counts[tuple(row)] = counts.get(tuple(row), 0.0) + w
    n_once, n_twice = sum(c == 1.0 for c in counts.values()), sum(c == 2.0 for c in counts.values())
    discount = min(n_once / max(n_once + 2.0 * n_twice, 1.0), 0.98)
    independent = 1.0
    for j, on in enumerate(y):
        p = (sum(w for w, row in zip(weights, gold) if row[j]) + 0.5) / (total + 1.0)
        independent *= p if on else 1.0 - p
    left = sum(discount * min(c, 1.0) for c in counts.values()) / total
    own = counts[tuple(y)]
    return np.log((own - discount * min(own, 1.0)) / total / independent + left)


def naive_shares(p, threshold, gold, weights):
    """Return the probabilities of all sets that were seen, given those of the labels: dict."""
    found = {}
    for y in {tuple(row) for row in gold.astype(int).tolist()}:
        odds = np.prod([q / (1.0 - q) * (1.0 - threshold) / threshold for q, on in zip(p, y) if on])
        found[y] = odds * np.exp(0.5 * naive_lift(y, gold, weights))
    total = sum(found.values())
    return {y: share / total for y, share in found.items()}


def naive_f1(y, z):
    size = sum(y) + sum(z)
    return 2.0 * sum(a * b for a, b in zip(y, z)) / size if size else 1.0


def naive_seen(probabilities, threshold, gold, weights, n_likely):
    """Choose for each sample the seen set of the highest expected F1 plus probability."""
    found = []
    for p in probabilities:
        shares = naive_shares(p, threshold, gold, weights)
        likely = sorted(shares, key=lambda y: -shares[y])[: n_likely if len(shares) > 2 * n_likely else None]
        total = sum(shares[y] for y in likely)
        found.append(max(likely, key=lambda y: (shares[y] + sum(shares[z] * naive_f1(y, z) for z in likely)) / total))
    return np.array(found)


def naive_expected(p):
    """Choose the set of the highest expected F1, approximately, plus probability, if labels are independent."""
    best, highest = None, -np.inf
    for y in product((0, 1), repeat=len(p)):
        probability = np.prod([q if on else 1.0 - q for q, on in zip(p, y)])
        hits, size = sum(q for q, on in zip(p, y) if on), sum(y)
        f1 = 2.0 * hits / (size + sum(p)) if size else probability
        if f1 + probability > highest:
            best, highest = y, f1 + probability
    return np.array(best)


def naive_curve(scores, gold, weights, prior):
    """Fit a logistic curve from several starts; return the objective, and the best logarithm of a slope and offset."""

    def objective(theta):
        z = np.exp(theta[0]) * scores + theta[1]
        return weights @ (np.logaddexp(0.0, z) - gold * z) + 0.5 * ((theta - prior) ** 2).sum()

    starts = [prior, *([a, b] for a in (-6.0, -2.0, 2.0) for b in (-4.0, 0.0, 4.0))]
    found = [minimize(objective, start, method="BFGS", options={"gtol": 1e-9}) for start in starts]
    return objective, min(found, key=lambda each: each.fun).x


def naive_curves(scores, gold, weights):
    """Fit logistic curves label by label: a common one, then each with a normal prior around it."""
    flat = np.broadcast_to(weights, scores.shape)
    _, common = naive_curve(scores.ravel(), gold.ravel(), flat.ravel(), np.array([np.log(4.0), -2.0]))
    return np.array([naive_curve(s, y, w, common)[1] for s, y, w in zip(scores.T, gold.T, flat.T)])


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
