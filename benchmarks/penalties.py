"""The group lasso on a flat problem: its proximal operator, and a solution found with it, beside skglm.

    python benchmarks/penalties.py

Without skglm (pip install skglm) only our own figures are shown.
"""

from statistics import median
from time import perf_counter

import numpy as np

from sklearn_sparsemap.penalties import GroupLasso

N_SAMPLES, N_GROUPS, SIZE = 500, 200, 10
TOL = 1e-9


def proximal_gradient(X, y, penalty, max_iter=20_000):
    """Minimise ``|y - X w|^2 / (2 n) + penalty(w)`` by accelerated proximal gradient steps."""
    n = len(y)
    step = n / np.linalg.norm(X, 2) ** 2
    weights = point = np.zeros(X.shape[1])
    momentum, change, n_iter = 1.0, np.inf, 0
    while change > TOL and n_iter < max_iter:
        n_iter += 1
        new = penalty.prox(point - step * (X.T @ (X @ point - y)) / n, step)
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        # Start anew where the momentum points the wrong way.
        if (point - new) @ (new - weights) > 0.0:
            faster = momentum = 1.0
        change = np.abs(new - weights).max()
        point = new + (momentum - 1.0) / faster * (new - weights)
        weights, momentum = new, faster
    return weights, n_iter


def main():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(N_GROUPS), SIZE)
    X = rng.normal(size=(N_SAMPLES, N_GROUPS * SIZE))
    truth = np.where(groups < 10, rng.normal(size=len(groups)), 0.0)
    y = X @ truth + rng.normal(size=N_SAMPLES)
    alpha = 0.1 * np.sqrt(((X.T @ y / N_SAMPLES).reshape(N_GROUPS, SIZE) ** 2).sum(axis=1)).max()
    penalty = GroupLasso(groups, alpha)

    def objective(w):
        return ((y - X @ w) ** 2).sum() / (2 * N_SAMPLES) + penalty.value(w)

    times = []
    for _ in range(20):
        point = rng.normal(size=len(groups))
        start = perf_counter()
        penalty.prox(point, 1.0)
        times.append(perf_counter() - start)
    print(f"prox of {N_GROUPS} groups of {SIZE} features: {1e6 * median(times):.0f} us")
    start = perf_counter()
    ours, n_iter = proximal_gradient(X, y, penalty)
    seconds = perf_counter() - start
    kept = np.unique(groups[ours != 0])
    print(f"proximal gradient: objective {objective(ours):.10f}, {len(kept)} groups, {n_iter} steps, {seconds:.2f} s")
    try:
        from skglm import GroupLasso as Peer
    except ImportError:
        print("skglm is not installed: running without it")
        return
    peer = Peer(groups=SIZE, alpha=alpha, fit_intercept=False, tol=TOL, max_iter=1000)
    peer.fit(X, y)
    start = perf_counter()
    peer.fit(X, y)
    seconds = perf_counter() - start
    kept = np.unique(groups[peer.coef_ != 0])
    print(f"skglm:             objective {objective(peer.coef_):.10f}, {len(kept)} groups, {seconds:.2f} s")
    print(f"largest difference of a weight: {np.abs(peer.coef_ - ours).max():.1e}")


if __name__ == "__main__":
    main()
