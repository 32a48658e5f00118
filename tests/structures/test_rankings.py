"""Rankings against isotonic regression, and their closed forms against the general solver."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, sparsemap
from sklearn_sparsemap.factors import FactorGraph, StructureFactor
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import Ranking


def points_of(n, top_k):
    return np.maximum((n - 1 if top_k is None else top_k) - np.arange(n), 0.0)


def project(scores, top_k):
    """Project onto the permutahedron by scikit-learn's isotonic regression."""
    order = np.argsort(-scores, kind="stable")
    levels = IsotonicRegression(increasing=False).fit_transform(
        np.arange(len(scores)), scores[order] - points_of(len(scores), top_k)
    )
    u = np.empty(len(scores))
    u[order] = scores[order] - levels
    return u


@pytest.mark.parametrize("top_k", [None, 1, 4])
@pytest.mark.parametrize("scale", [0.01, 1.0, 10.0, 100.0])
def test_marginals_are_the_isotonic_projection(top_k, scale):
    rng = np.random.default_rng(0)
    for n in (4, 5, 17, 100, 300):
        for ties in (False, True):
            scores = scale * rng.normal(size=n)
            scores = np.round(scores) if ties else scores
            result = sparsemap(Ranking(top_k), scores)
            np.testing.assert_allclose(result.marginals, project(scores, top_k), rtol=0, atol=1e-12 * max(scale, 1.0))
            assert result.converged and result.marginals.sum() == pytest.approx(points_of(n, top_k).sum())
            # Equal scores have equal points, to the last bit.
            for value in np.unique(scores):
                assert len(np.unique(result.marginals[scores == value])) == 1


LONG = {
    "ties": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "constant": lambda rng, n: np.full(n, 0.3),
    "levels": lambda rng, n: (rng.normal(size=n) > 0.0).astype(float),
    "relu": lambda rng, n: np.maximum(rng.normal(size=n), 0.0),
    "rounded": lambda rng, n: np.round(2.0 * rng.normal(size=n)),
    "normal": lambda rng, n: rng.normal(size=n),
    "far": lambda rng, n: 1e6 * rng.normal(size=n),
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("n, top_k", [(1050, None), (2000, None), (2000, 10), (2000, 500), (100_000, None)])
def test_long_rankings_need_no_active_set(kind, n, top_k):
    """The rounding of the gap, a difference of values of size n^3, sent them to an active set without end."""
    for seed in range(3 if n < 10_000 else 1):
        scores = LONG[kind](np.random.default_rng(seed), n)
        result = sparsemap(Ranking(top_k), scores)
        assert result.converged and result.n_iter == 1
        top = points_of(n, top_k)[0]
        np.testing.assert_allclose(
            result.marginals, project(scores, top_k), rtol=0, atol=1e-11 * (top + np.ptp(scores))
        )
        # The derivative is symmetric, and equal shifts of all scores change nothing.
        v = np.random.default_rng(seed).normal(size=n)
        gradient = result.vjp(v)["scores"]
        assert abs(gradient.sum()) < 1e-9 * n and np.array_equal(gradient, result.jvp(v))


def test_a_million_tied_items():
    scores = LONG["ties"](np.random.default_rng(0), 1_000_000)
    result = sparsemap(Ranking(), scores)
    assert result.converged and result.gap <= 1e-13 * (result.marginals @ result.marginals)
    assert all(np.ptp(result.marginals[scores == value]) == 0.0 for value in range(5))


def test_the_gap_is_that_of_the_best_ranking():
    """The certificate adds up differences; its twin subtracts the values, in exact numbers."""
    rng = np.random.default_rng(5)
    for i in range(30):
        n = int(rng.integers(2, 40))
        top_k = None if i % 2 else int(rng.integers(1, n + 1))
        scores = np.round(3.0 * rng.normal(size=n), i % 3)
        result = sparsemap(Ranking(top_k), scores)
        u = [Fraction(value) for value in result.marginals]
        reduced = sorted((Fraction(s) - p for s, p in zip(scores, u, strict=True)), reverse=True)
        best = sum(r * int(p) for r, p in zip(reduced, points_of(n, top_k), strict=True))
        gap = best - sum((Fraction(s) - p) * p for s, p in zip(scores, u, strict=True))
        size = np.abs(scores) @ points_of(n, top_k) + result.marginals @ result.marginals
        assert abs(float(result.gap - gap)) <= 1e-15 * (1.0 + size)


@pytest.mark.parametrize("top_k", [None, 3])
def test_closed_forms_are_those_of_the_general_solver(top_k):
    rng, counted = np.random.default_rng(1), 0
    for i in range(40):
        n = int(rng.integers(4, 12))
        # Halves and wholes have kinks: blocks of one level, which are a face together.
        scores = np.round(2.0 * rng.normal(size=n)) / 2 if i % 2 else 2.0 * rng.normal(size=n)
        if i % 4 == 3:
            scores[rng.integers(n)] = -np.inf
        closed, general = (sparsemap(Ranking(top_k), scores, solver=s) for s in ("auto", "active_set"))
        np.testing.assert_allclose(closed.marginals, general.marginals, atol=1e-9)
        assert closed.objective == pytest.approx(general.objective, abs=1e-9)
        v = rng.normal(size=n)
        np.testing.assert_allclose(closed.vjp(v)["scores"], general.vjp(v)["scores"], atol=1e-8)
        np.testing.assert_allclose(closed.jvp(v), closed.vjp(v)["scores"], atol=1e-12)
        counted += len(general.weights) > 1
        mixture = np.zeros(n)
        for items, weight in zip(closed.structures, closed.weights, strict=True):
            mixture[items] += weight * points_of(n, top_k)[: len(items)]
        np.testing.assert_allclose(mixture, closed.marginals, atol=1e-9)
    assert counted > 20


def test_many_rankings_at_once():
    rng = np.random.default_rng(2)
    scores = [rng.normal(size=n) for n in (3, 1, 8)]
    batch, v = sparsemap(Ranking(), scores), [rng.normal(size=n) for n in (3, 1, 8)]
    for own, one, gradient, direction in zip(scores, batch, batch.vjp(v)["scores"], v, strict=True):
        alone = sparsemap(Ranking(), own)
        assert np.array_equal(one.marginals, alone.marginals)
        np.testing.assert_allclose(gradient, alone.vjp(direction)["scores"], atol=1e-14)
    weights = batch.weights_vjp([np.ones(len(one.weights)) for one in batch])["scores"]
    assert all(np.abs(own).max() < 1e-12 for own in weights)


def test_the_best_ranking_is_sorted():
    rng = np.random.default_rng(3)
    for n in (1, 2, 3, 31, 32, 100):
        values = np.round(rng.normal(size=n))
        assert np.array_equal(map_inference(Ranking(), values)[0], np.argsort(-values, kind="stable"))


def test_what_may_not_have_points():
    scores = [1.0, -np.inf, 0.5, -np.inf]
    assert sparsemap(Ranking(2), scores).marginals.tolist() == [1.75, 0.0, 1.25, 0.0]
    for call in (map_inference, sparsemap):
        with pytest.raises(ValueError, match="infeasible"):
            call(Ranking(3), scores)
    graph = FactorGraph()
    with pytest.raises(ValueError, match="may have a part several times"):
        StructureFactor(Ranking(), graph.variables(3))


def test_a_margin_is_half_of_the_squared_distance():
    points = np.array([0.0, 2.0, 3.0, 1.0])
    value, _ = FenchelYoungLoss(Ranking(), "hinge").loss_gradient(np.zeros(4), [2, 1, 3, 0])
    # The other way round is worst.
    assert value == 0.5 * ((points - (3.0 - points)) ** 2).sum()


def test_score_is_the_share_of_pairs():
    dims = np.array([4, 3])
    assert Ranking().agreement([2, 1, 3, 0], [2, 1, 0, 3], dims) == (5, 6, 6)
    assert Ranking(2).agreement([2, 1], [2, 3], np.array([4, 2])) == (3, 5, 5)
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(8, 3)) for _ in range(40)]
    y = [np.argsort(-(x @ [2.0, -1.0, 0.5]))[:3] for x in X]
    model = StructuredSparseMAPClassifier(Ranking(3), alpha=1e-3, tol=1e-2).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) > 0.95 and model.predict(X[:1])[0].shape == (3,)


@pytest.mark.parametrize("top_k", [float("nan"), float("-inf"), -1, 2.5])
def test_an_edited_ranking_is_refused(top_k):
    """NaN as a size never came back."""
    ranking = Ranking()
    ranking.top_k = top_k
    with pytest.raises(ValueError, match="must be non-negative ints"):
        sparsemap(ranking, [1.0, 0.5, 0.2])
