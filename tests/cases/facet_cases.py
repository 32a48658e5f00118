"""Families of problems on which the solvers by facets and the active set are compared."""

import numpy as np

NO_ROWS, NO_WEIGHTS = np.empty((0, 0), np.int32), np.empty(0)


LIMIT = np.array([100_000])


def run(solver, instance, limit=LIMIT):
    """Solve with a compiled solver; return what it returns, the marginals, and the problem."""
    problem = instance.problem()
    marginals = np.empty(instance.scores.size)
    found = solver(instance.structure.oracle, *problem, 1e-12, 1e-9, limit, NO_ROWS, NO_ROWS, NO_WEIGHTS, marginals)
    return found, marginals, problem


def low_rank(rng, shape):
    factors = rng.normal(size=(shape[0], 2)), rng.normal(size=(2, shape[-1]))
    return factors[0] @ factors[1] if len(shape) == 2 else factors[1][0]


def distances(rng, shape):
    grid = np.indices(shape)
    return -np.abs(grid[0] - grid[-1] - 1.0) + 0.1 * rng.normal(size=shape)


def pruned(rng, shape):
    scores = rng.normal(size=shape)
    scores[rng.random(shape) < 0.3] = -np.inf
    return scores


def dear_root(rng, shape):
    scores = 0.3 * rng.normal(size=shape)
    scores[0] -= 1.0
    return scores


FAMILIES = {
    **{f"normal {s}": lambda rng, shape, s=s: s * rng.normal(size=shape) for s in (1e-4, 0.1, 1.0, 10.0, 1e4)},
    "low rank": low_rank,
    "low rank 0.1": lambda rng, shape: 0.1 * low_rank(rng, shape),
    "distances": distances,
    "exact distances": lambda rng, shape: np.round(distances(rng, shape)),
    "integers": lambda rng, shape: rng.integers(0, 4, shape).astype(float),
    "bits": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "zeros": lambda rng, shape: np.zeros(shape),
    "pruned": pruned,
    "pruned 0.1": lambda rng, shape: 0.1 * pruned(rng, shape),
    "dear root": dear_root,
}  # fmt: skip
