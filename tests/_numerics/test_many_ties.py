"""Closed forms at sizes and with ties at which an active set of thousands of structures would take hours."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import LinearChain, Simplex, Subset

SCORES = {
    "ties": lambda rng, shape: rng.integers(0, 5, shape).astype(float),
    "constant": lambda rng, shape: np.full(shape, 0.3),
    "levels": lambda rng, shape: (rng.normal(size=shape) > 0.0).astype(float),
    "relu": lambda rng, shape: np.maximum(rng.normal(size=shape), 0.0),
    "rounded": lambda rng, shape: np.round(2.0 * rng.normal(size=shape)),
    "small": lambda rng, shape: 0.01 * np.round(rng.normal(size=shape)),
    "offset": lambda rng, shape: 1e9 + rng.integers(0, 5, shape),
}


def threshold_of(scores, size):
    """Return the number that is subtracted from scores before clipping, so that the sum is `size`, by bisection."""
    low, high = scores.min() - 2.0, scores.max() + 1.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.clip(scores - middle, 0.0, 1.0).sum() > size else (low, middle)
    return 0.5 * (low + high)


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("n", [10_000, 100_000])
def test_subsets_of_many_items_are_clipped_scores(kind, n):
    scores = SCORES[kind](np.random.default_rng(0), n)
    for structure in (Subset(max_size=n // 4), Subset(n // 4, n // 4), Subset(10, 10), Subset(3 * n // 4), Subset()):
        result = sparsemap(structure, scores)
        assert result.converged and result.n_iter == 1
        # Differences of large scores keep their digits.
        low, high = structure.min_size, n if structure.max_size is None else structure.max_size
        total = np.clip(scores, 0.0, 1.0).sum()
        if low <= total <= high:
            expected = np.clip(scores, 0.0, 1.0)
        else:
            top = scores.max()
            expected = np.clip((scores - top) - threshold_of(scores - top, min(max(total, low), high)), 0.0, 1.0)
        assert_allclose(result.marginals, expected, rtol=0, atol=1e-9)
        v = np.random.default_rng(1).normal(size=n)
        assert np.array_equal(result.vjp(v)["scores"], result.jvp(v))


@pytest.mark.parametrize("kind", SCORES)
def test_derivatives_of_many_tied_choices_are_centred(kind):
    scores = SCORES[kind](np.random.default_rng(0), 50_000)
    v, batch = np.random.default_rng(1).normal(size=50_000), sparsemap(Simplex(), [scores, scores[:3]])
    gradients = batch.vjp([v, v[:3]])["scores"]
    assert batch.converged.all()
    reduced = (scores - scores.max()) - batch[0].marginals
    face = reduced >= reduced.max() - 1e-9
    assert_allclose(gradients[0], np.where(face, v - v[face].mean(), 0.0), atol=1e-12)
    assert_allclose(gradients[1], sparsemap(Simplex(), scores[:3]).vjp(v[:3])["scores"], atol=1e-12)
    assert np.array_equal(batch[0].jvp(v), batch[0].vjp(v)["scores"])


def test_derivatives_of_subsets_with_ties_are_those_of_the_general_solver():
    """Ties, and sizes that bind with a multiplier of zero, of which the derivative once ignored the size."""
    n_compared, n_tied = 0, 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 8))
        low = int(rng.integers(0, n + 1))
        structure, scores = Subset(low, int(rng.integers(low, n + 1))), rng.integers(-2, 4, n) * (0.5, 1.0)[seed % 2]
        if seed % 5 == 0 and low < n:
            scores[rng.integers(n)] = -np.inf
        closed, general = (sparsemap(structure, scores, solver=solver) for solver in ("auto", "active_set"))
        v = rng.normal(size=n)
        assert_allclose(closed.marginals, general.marginals, atol=1e-9)
        assert_allclose(closed.vjp(v)["scores"], general.vjp(v)["scores"], atol=1e-8)
        n_compared += 1
        n_tied += bool((np.abs(closed.marginals - 0.5) == 0.5).any())
    assert n_compared == 300 and n_tied > 200
    half = sparsemap(Subset(1, 1), [0.5, 0.5])
    assert_allclose(half.vjp([1.0, 0.0])["scores"], [0.5, -0.5])


@pytest.mark.parametrize("kind", sorted(SCORES.keys() - {"offset"}))
def test_long_chains_converge(kind):
    """The gap was the difference of two sums of 10,000 terms, of which the rounding is above the tolerance."""
    rng, n = np.random.default_rng(0), 10_000
    scores = SCORES[kind](rng, (n, 5))
    result = sparsemap(LinearChain(), scores)
    assert result.converged and result.gap < 1e-9
    assert_allclose(result.marginals[:50], [sparsemap(Simplex(), own).marginals for own in scores[:50]], atol=1e-12)
    assert sparsemap(LinearChain(), scores, transitions=SCORES[kind](rng, (5, 5))).converged
