"""Dynamic time warping with windows, open ends and subsequences, as other libraries have them, by masks and frames."""

import numpy as np
import pytest

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.structures import Alignment

A = np.array([0.3, -1.2, 2.0, 0.7, 0.1, 1.9, -0.4])
B = np.array([-1.0, 0.2, 1.8, 2.2, 0.0])


def distance(scores):
    return np.sqrt(-map_inference(Alignment(), scores).value)


def costs_of(a, b):
    return -((a[:, None] - b) ** 2)


def in_band(scores, radius):
    """Forbid cells outside a band around the diagonal, which is wider by the difference of the lengths."""
    n, m = scores.shape
    lag = np.arange(m) - np.arange(n)[:, None]
    near = (lag <= max(0, m - n) + radius) & (lag >= -max(0, n - m) - radius)
    return np.where(near, scores, -np.inf)


def with_open_ends(scores, psi):
    """Add a frame of zeros, along which steps at both ends of either sequence are skipped."""
    n, m = scores.shape
    a_begin, a_end, b_begin, b_end = psi
    framed = np.full((n + 2, m + 2), -np.inf)
    framed[1:-1, 1:-1] = scores
    framed[0, : b_begin + 1] = framed[-1, m + 1 - b_end :] = 0.0
    framed[: a_begin + 1, 0] = framed[n + 1 - a_end :, -1] = 0.0
    return framed


def naive_warping(costs, radius=None, psi=(0, 0, 0, 0)):
    """Return the least cost over all beginnings and ends that `psi` allows, one table for each beginning."""
    n, m = costs.shape
    a_begin, a_end, b_begin, b_end = psi
    # Skipped steps are at the beginning, and at the end, of one of the two sequences.
    begins = {(i, 0) for i in range(a_begin + 1)} | {(0, j) for j in range(b_begin + 1)}
    ends = {(n - 1 - i, m - 1) for i in range(a_end + 1)} | {(n - 1, m - 1 - j) for j in range(b_end + 1)}
    best = np.inf
    for begin in begins:
        total = np.full((n + 1, m + 1), np.inf)
        for i in range(begin[0], n):
            for j in range(begin[1], m):
                lag = j - i
                if radius is not None and not -max(0, n - m) - radius <= lag <= max(0, m - n) + radius:
                    continue
                before = 0.0 if (i, j) == begin else min(total[i - 1, j], total[i, j - 1], total[i - 1, j - 1])
                total[i, j] = costs[i, j] + before
        best = min(best, *(total[end] for end in ends))
    return np.sqrt(best)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        (costs_of(A, B), 2.3430749027719964),
        (in_band(costs_of(A, B), 0), 2.835489375751565),
        (with_open_ends(costs_of(A, B), (1, 2, 0, 1)), 1.6062378404209008),
        (with_open_ends(costs_of(B, A), (0, 0, 7, 7)), 1.216552506059644),
    ],
    ids=["whole", "band", "open ends", "part"],
)
def test_distances_of_other_libraries(scores, expected):
    """The figures are those of dtaidistance 2.5 and tslearn 0.10."""
    assert distance(scores) == pytest.approx(expected, rel=1e-12)


def test_windows_and_open_ends_agree_with_a_search_over_all_ends():
    rng, n_compared = np.random.default_rng(0), 0
    for _ in range(150):
        n, m = rng.integers(3, 9, 2)
        scores = costs_of(rng.normal(size=n), rng.normal(size=m))
        radius = int(rng.integers(0, 4))
        psi = rng.integers(0, 3, 4).tolist()
        assert distance(scores) == pytest.approx(naive_warping(-scores))
        assert distance(in_band(scores, radius)) == pytest.approx(naive_warping(-scores, radius))
        assert distance(with_open_ends(scores, psi)) == pytest.approx(naive_warping(-scores, psi=psi))
        whole = naive_warping(-scores, psi=(0, 0, m - 1, m - 1))
        frame = np.zeros((1, m))
        assert distance(np.vstack([frame, scores, frame])) == pytest.approx(whole)
        n_compared += 4
    assert n_compared == 600


def test_grids_of_all_sizes_equal_one_table_of_sums():
    """Rows are filled in four at a time, after the first one, so sizes around multiples of four matter."""
    rng = np.random.default_rng(0)
    shapes = [(n, m) for n in (1, 2, 4, 5, 6, 8, 9, 13) for m in (1, 3, 4, 5, 11)]
    grids = [rng.integers(-3, 3, shape).astype(float) for shape in shapes]
    for scores in grids[::3]:
        scores.flat[1:-1][rng.random(scores.size - 2 if scores.size > 1 else 0) < 0.1] = -np.inf
    feasible = 0
    for scores in grids:
        totals = np.full((len(scores) + 1, scores.shape[1] + 1), -np.inf)
        totals[0, 0] = 0.0
        for i, j in np.ndindex(scores.shape):
            totals[i + 1, j + 1] = max(totals[i, j + 1], totals[i, j], totals[i + 1, j]) + scores[i, j]
            totals[0, 0] = -np.inf
        if totals[-1, -1] == -np.inf:
            with pytest.raises(ValueError, match="forbid"):
                map_inference(Alignment(), scores)
            continue
        path, value = map_inference(Alignment(), scores)
        assert value == totals[-1, -1] == sum(scores[tuple(cell)] for cell in path)
        feasible += 1
    assert feasible > 30
