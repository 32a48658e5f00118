"""Marginals and log-partitions against enumeration, finite differences and closed forms."""

from functools import lru_cache

import naive
import naive_gibbs
import numpy as np
import pytest
from internals import batch_of, draw_structures, readonly
from naive_gibbs import all_parts
from registry import RANDOM, listed, random_chain, random_segmentation, random_spans
from scipy.special import expit, gammaln, softmax

from sklearn_sparsemap.structures import DependencyTree, LinearChain, Segmentation, Simplex, Subset

NO_SLOTS = np.zeros(0, dtype=np.int32)
TREES = pytest.mark.parametrize("projective", [0, 1], ids=["non_projective", "projective"])
ROOTS = pytest.mark.parametrize("single_root", [0, 1], ids=["many_roots", "single_root"])


def call(structure, scores, dims, additional=()):
    """Return (log-partition, marginals, expected additional parts), and check that `work` was long enough."""
    additional = np.asarray(additional, dtype=float)
    n_work = structure.marginal_work(dims)
    work = np.full(n_work + 8, np.nan)
    work[n_work:] = 7.0
    inputs = readonly(scores).ravel(), readonly(additional), readonly(dims, np.int64)
    log_partition = structure.marginal_oracle(*inputs, work[:n_work], NO_SLOTS, NO_SLOTS)
    assert (work[n_work:] == 7.0).all()
    n_scores = np.size(scores)
    return log_partition, work[:n_scores], work[n_scores : n_scores + len(additional)]


def in_order(given):
    """Return a chain's additional scores in the order in which they are joined."""
    return {name: given[name] for name in LinearChain.additional_names if name in given}


def chain(scores, **given):
    given = in_order(given)
    joined = np.concatenate([np.zeros(0)] + [a.ravel() for a in given.values()])
    dims = LinearChain().dims(np.shape(scores), {name: a.shape for name, a in given.items()})
    return call(LinearChain(), scores, dims, joined)


def tree(scores, projective, single_root):
    dims = scores.shape[1], projective, single_root
    log_partition, marginals, _ = call(DependencyTree(), scores, dims)
    return log_partition, marginals.reshape(scores.shape)


def subset(scores, low, high):
    return call(Subset(), scores, (len(scores), low, high))[:2]


def check(found, expected, tol):
    """Compare (log-partition, marginals) of a kernel with those of a twin."""
    assert found[0] == pytest.approx(expected[0], rel=tol, abs=tol)
    np.testing.assert_allclose(found[1].ravel(), expected[1], rtol=0, atol=tol)
    assert (found[1] >= 0).all()


def check_derivatives(log_partition, marginals, x, rng, tol=1e-7):
    """Hold marginals to finite differences of the log-partition, in some coordinates and a random direction."""
    directions = np.zeros((6, *x.shape))
    directions.reshape(6, -1)[np.arange(5), rng.choice(x.size, 5)] = 1.0
    directions[5] = rng.normal(size=x.shape)
    step = 1e-4
    for direction in directions:
        difference = (log_partition(x + step * direction) - log_partition(x - step * direction)) / (2 * step)
        assert (marginals * direction).sum() == pytest.approx(difference, abs=tol)


# --- Simplex


def test_simplex_is_softmax():
    rng = np.random.default_rng(0)
    for scale in (0.1, 10.0, 1e8, 1e100):
        scores = rng.normal(size=6) * scale
        scores[2] = -np.inf
        log_partition, marginals, _ = call(Simplex(), scores, (6,))
        check((log_partition, marginals), (naive_gibbs.log_sum(scores), softmax(scores)), 1e-14)
    assert call(Simplex(), np.full(3, -np.inf), (3,))[0] == -np.inf


# --- LinearChain


@pytest.mark.parametrize(
    "options, tol",
    [
        ({"scale": 0.1}, 1e-13),
        ({}, 1e-13),
        ({"scale": 10.0}, 1e-13),
        ({"scale": 100.0}, 1e-12),
        ({"ties": True}, 1e-13),
        ({"forbid": True}, 1e-13),
        ({"forbid": True, "scale": 100.0}, 1e-12),
        ({"scale": 1e8}, 1e-7),
        ({"scale": 1e8, "ties": True}, 1e-7),
        ({"scale": 1e100}, 1e-7),
    ],
    ids=str,
)
def test_chain_is_the_expectation_over_all_paths(options, tol):
    rng = np.random.default_rng(1)
    for _ in range(30):
        instance = random_chain(rng, **options, most_paths=300)
        instance.additional = in_order(instance.additional)
        log_partition, marginals, counts = chain(instance.scores, **instance.additional)
        check((log_partition, np.append(marginals, counts)), naive_gibbs.expectation(*all_parts(instance)), tol)


def test_chain_of_one_step_is_softmax_whatever_transitions_are_given():
    rng = np.random.default_rng(2)
    scores, start, end = rng.normal(size=(1, 4)), rng.normal(size=4), rng.normal(size=4)
    p = softmax(scores[0] + start + end)
    for transitions in (rng.normal(size=(4, 4)), np.full((4, 4), -np.inf), np.zeros((0, 4, 4))):
        _, marginals, counts = chain(scores, transitions=transitions, start=start, end=end)
        np.testing.assert_allclose(marginals, p, atol=1e-15)
        np.testing.assert_allclose(counts, np.concatenate([np.zeros(transitions.size), p, p]), atol=1e-15)


def test_chain_without_any_path():
    assert chain(np.zeros((3, 2)), transitions=np.full((2, 2), -np.inf))[0] == -np.inf
    assert chain(np.array([[0.0, 0.0], [-np.inf, -np.inf]]))[0] == -np.inf
    # Each step has a state and each matrix a transition, but they do not meet; the last case is done in logs.
    one_way = np.array([[-np.inf, 0.0], [-np.inf, -np.inf]])
    for low in (0.0, -1000.0):
        assert chain(np.array([[0.0, low]] * 3), transitions=one_way)[0] == -np.inf


@pytest.mark.parametrize("n_steps", [60, 400])
def test_chain_whose_best_states_are_cut_off(n_steps):
    # No way between the two states: the better one is far ahead, at one end it turns out to be forbidden.
    apart = np.where(np.eye(2, dtype=bool), 0.0, -np.inf)
    scores = np.tile([0.0, -5.0], (n_steps, 1))
    for name in ("start", "end"):
        log_partition, marginals, counts = chain(scores, transitions=apart, **{name: np.array([-np.inf, 0.0])})
        assert log_partition == pytest.approx(-5.0 * n_steps)
        np.testing.assert_allclose(marginals.reshape(-1, 2), np.tile([0.0, 1.0], (n_steps, 1)), atol=1e-12)
        np.testing.assert_allclose(counts, [0, 0, 0, n_steps - 1, 0, 1], atol=1e-9)


@pytest.mark.parametrize("per_step", [False, True])
def test_chain_in_logs_agrees_with_the_fast_way(per_step):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(30, 4))
    transitions = rng.normal(size=(29, 4, 4) if per_step else (4, 4))
    low = transitions.copy()
    low[..., 1, 2] = -500.0
    forbidden = np.where(low == -500.0, -np.inf, low)
    in_logs, fast = chain(scores, transitions=low), chain(scores, transitions=forbidden)
    assert in_logs[0] == pytest.approx(fast[0], rel=1e-14)
    np.testing.assert_allclose(in_logs[1], fast[1], atol=1e-13)
    np.testing.assert_allclose(in_logs[2], fast[2], atol=1e-12)


# Scales of states and of transitions, and the share of scores that are -inf.
CHAIN_FAMILIES = [
    (1e-4, 1e-4, 0.0),
    (1.0, 1.0, 0.0),
    (10.0, 1.0, 0.0),
    (1.0, 10.0, 0.2),
    (30.0, 30.0, 0.0),
    (100.0, 1.0, 0.0),
    (1.0, 100.0, 0.0),
    (100.0, 100.0, 0.3),
    (1e3, 1.0, 0.0),
    (1e3, 1e3, 0.2),
    (1.0, 1e4, 0.0),
    (1e4, 1e4, 0.0),
    (1e4, 1e-4, 0.3),
]


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("scale, transition_scale, forbidden", CHAIN_FAMILIES)
def test_chain_is_the_twin_in_logs_at_any_scale(scale, transition_scale, forbidden, per_step):
    rng, compared = np.random.default_rng(14), 0
    for n_steps, n_states in [(1, 3), (2, 1), (2, 9), (7, 4), (9, 5), (12, 17), (40, 6), (150, 3)]:
        for ties in (False, True):
            scores = rng.normal(size=(n_steps, n_states))
            moves = rng.normal(size=(n_steps - 1, n_states, n_states) if per_step else (n_states, n_states))
            ends = rng.normal(size=(2, n_states))
            for array, own in ((scores, scale), (moves, transition_scale), (ends, scale)):
                array *= own
                if ties:
                    array[...] = np.round(array)
                array[rng.random(array.shape) < forbidden] = -np.inf
            each = moves if per_step else np.broadcast_to(moves, (n_steps - 1, n_states, n_states))
            log_partition, marginals, counts = naive_gibbs.chain_in_logs(scores, each, *ends)
            found = chain(scores, transitions=moves, start=ends[0], end=ends[1])
            if log_partition == -np.inf:
                assert found[0] == -np.inf
                continue
            compared += 1
            assert found[0] == pytest.approx(log_partition, rel=1e-10, abs=1e-10)
            if not per_step:
                counts = counts.sum(axis=0)
            expected = np.concatenate([counts.ravel(), marginals[0], marginals[-1]])
            # The twin adds up numbers as large as the log-partition, and takes their exponentials.
            tol = 1e-10 + 1e-15 * np.abs(log_partition) * n_steps
            np.testing.assert_allclose(found[1], marginals.ravel(), rtol=0, atol=tol)
            np.testing.assert_allclose(found[2], expected, rtol=0, atol=tol * n_steps)
            assert (found[1].reshape(scores.shape)[scores == -np.inf] == 0.0).all()
    assert compared >= 6


def test_exponentials_of_many_numbers():
    # With two steps, the marginals of one are the exponentials of its scores, divided by their sum.
    rng = np.random.default_rng(15)
    for n in (1, 2, 3, 4, 5, 31, 64, 1000):
        scores = np.stack([-rng.uniform(0.0, 90.0, size=n), np.zeros(n)])
        scores[0, 0] = 0.0
        marginals = chain(scores, transitions=np.zeros((n, n)))[1].reshape(2, n)
        np.testing.assert_allclose(marginals[0], softmax(scores[0]), rtol=1e-14)
    # Even the smallest number is one too many here.
    edge = np.array([0.0, -707.9, -708.1, -745.0, -1e5, -1e300, -np.inf])
    marginals = chain(np.stack([edge, np.zeros(7)]), transitions=np.zeros((7, 7)))[1].reshape(2, 7)
    np.testing.assert_allclose(marginals[0], np.exp(edge), rtol=1e-14, atol=1e-307)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_chain_derivatives_and_shifts(scale):
    rng = np.random.default_rng(4)
    scores, transitions = rng.normal(size=(40, 6)) * scale, rng.normal(size=(6, 6)) * scale
    log_partition, marginals, counts = chain(scores, transitions=transitions)
    check_derivatives(lambda x: chain(x, transitions=transitions)[0], marginals.reshape(40, 6), scores, rng, 1e-6)
    check_derivatives(lambda x: chain(scores, transitions=x)[0], counts.reshape(6, 6), transitions, rng, 1e-6)
    assert counts.sum() == pytest.approx(39.0, rel=1e-12)
    shifts = rng.normal(size=(40, 1))
    shifted = chain(scores + shifts, transitions=transitions + 3.0)
    assert shifted[0] == pytest.approx(log_partition + shifts.sum() + 39 * 3.0, rel=1e-13)
    np.testing.assert_allclose(shifted[1], marginals, atol=1e-11)


# --- Segmentation


def segmentation(structure, scores, given):
    dims = structure.dims(scores.shape, {name: a.shape for name, a in given.items()})
    joined = np.concatenate([np.zeros(0)] + [a.ravel() for a in given.values()])
    return call(structure, scores, dims, joined)


@pytest.mark.parametrize("draw", [random_segmentation, random_spans])
@pytest.mark.parametrize(
    "options, tol",
    [
        ({}, 1e-13),
        ({"scale": 100.0}, 1e-11),
        ({"ties": True}, 1e-13),
        ({"forbid": True}, 1e-13),
        ({"scale": 1e8}, 1e-6),
    ],
    ids=str,
)
def test_segmentation_is_the_expectation_over_all_segmentations(draw, options, tol):
    rng, counted = np.random.default_rng(17), 0
    for _ in range(20):
        instance = draw(rng, **options)
        found = segmentation(instance.structure, instance.scores, instance.additional)
        log_partition, expected = naive_gibbs.expectation(*all_parts(instance))
        check(found[:2], (log_partition, expected[: found[1].size]), tol)
        np.testing.assert_allclose(found[2], expected[found[1].size :], rtol=0, atol=tol)
        counted += found[2].size
    assert counted > 150
    forbidden = np.full((2, 2), -np.inf)
    assert segmentation(Segmentation(2), forbidden, {})[0] == -np.inf


def test_segmentation_derivatives():
    rng, structure = np.random.default_rng(18), Segmentation(7)
    scores = rng.normal(size=(30, 5))
    given = {name: rng.normal(size=own[0]) for name, own in structure.additional_shapes(scores.shape).items()}
    _, marginals, counts = segmentation(structure, scores, given)
    np.testing.assert_allclose(marginals.reshape(30, 5).sum(axis=1), 1.0, rtol=1e-12)
    check_derivatives(lambda x: segmentation(structure, x, given)[0], marginals.reshape(30, 5), scores, rng)
    durations = given["durations"]
    check_derivatives(
        lambda x: segmentation(structure, scores, {**given, "durations": x})[0],
        counts[: durations.size].reshape(durations.shape), durations, rng,
    )  # fmt: skip


# --- DependencyTree


@lru_cache
def all_trees(n, projective, single_root):
    return naive_gibbs.all_trees(n, projective, single_root)


def test_numbers_of_trees():
    # Cayley's formula, and the known number of projective trees: the twins themselves.
    assert [len(all_trees(n, 0, 0)) for n in range(1, 6)] == [(n + 1) ** (n - 1) for n in range(1, 6)]
    assert [len(all_trees(n, 0, 1)) for n in range(1, 6)] == [n ** (n - 1) for n in range(1, 6)]
    assert [len(all_trees(n, 1, 0)) for n in range(1, 6)] == [1, 3, 12, 55, 273]
    assert [len(all_trees(n, 1, 1)) for n in range(1, 6)] == [1, 2, 7, 30, 143]


@TREES
@ROOTS
@pytest.mark.parametrize(
    "scale, forbidden, ties, tol",
    [
        (0.1, 0.0, False, 1e-13),
        (1.0, 0.0, True, 1e-13),
        (10.0, 0.0, False, 1e-13),
        (100.0, 0.0, False, 1e-12),
        (1000.0, 0.0, False, 1e-12),
        (1.0, 0.4, False, 1e-13),
        (1.0, 0.7, False, 1e-13),
        (1000.0, 0.5, False, 1e-12),
        (1e8, 0.0, False, 1e-7),
        (1e8, 0.3, True, 1e-7),
    ],
)
def test_tree_is_the_expectation_over_all_trees(projective, single_root, scale, forbidden, ties, tol):
    rng = np.random.default_rng(5)
    compared = 0
    for _ in range(60):
        n = int(rng.integers(1, 6))
        scores = rng.normal(size=(n + 1, n))
        scores = (np.round(scores) if ties else scores) * scale
        scores[rng.random(scores.shape) < forbidden] = -np.inf
        parts, theta = naive_gibbs.tree_parts(all_trees(n, projective, single_root), scores)
        # A word is never its own head, whatever score stands there.
        scores[np.arange(1, n + 1), np.arange(n)] = rng.choice([0.0, 1e12, -1e12, -np.inf])
        found = tree(scores, projective, single_root)
        if theta.max() == -np.inf:
            assert found[0] == -np.inf
        else:
            compared += 1
            check(found, naive_gibbs.expectation(parts, theta), tol)
            assert (found[1][scores == -np.inf] == 0).all()
    assert compared > 5


@ROOTS
@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_non_projective_log_partition_is_a_determinant(single_root, scale):
    rng = np.random.default_rng(6)
    for n in (10, 30):
        scores = rng.normal(size=(n + 1, n)) * scale
        assert tree(scores, 0, single_root)[0] == pytest.approx(naive_gibbs.matrix_tree(scores, single_root), rel=1e-11)


@pytest.mark.parametrize("low", [0.0, -1000.0])
def test_single_root_inside_the_words_that_are_eliminated_first(low):
    # Words 3 and 4 lead to each other and to the others, and nothing leads back to them: one is at the root.
    scores = np.full((5, 4), -np.inf)
    scores[0] = [5.0, 6.0, 0.5, 1.0]
    scores[3, 3], scores[4, 2] = 0.3, 0.2
    scores[3, 0], scores[4, 1], scores[1, 1], scores[2, 0] = 0.1, -0.2, 0.4, low
    parts, theta = naive_gibbs.tree_parts(all_trees(4, 0, 1), scores)
    check(tree(scores, 0, 1), naive_gibbs.expectation(parts, theta), 1e-13)
    scores[0, 2:] = -np.inf
    assert tree(scores, 0, 1)[0] == -np.inf


@ROOTS
def test_non_projective_weights_that_leave_the_range_of_floats_on_the_way(single_root):
    # All words' best head is word 1, whose only head is the last of a chain of bad arcs: weights underflow.
    far = np.full((6, 5), -np.inf)
    far[0, 4] = far[5, 3] = far[4, 2] = far[3, 1] = -250.0
    far[1, 1:] = far[2, 0] = 0.0
    # Nested cycles, each with a bad arc into it: with a single root, the weights of the root overflow.
    near = np.full((6, 5), -np.inf)
    near[4, 4] = near[5, 3] = near[4, 2] = near[3, 1] = near[2, 0] = near[0, 3] = 0.0
    near[3, 3] = near[2, 2] = near[1, 1] = -250.0
    near[0, 0] = -100.0
    for scores in (far, near):
        parts, theta = naive_gibbs.tree_parts(all_trees(5, 0, single_root), scores)
        check(tree(scores, 0, single_root), naive_gibbs.expectation(parts, theta), 1e-12)


def test_projective_trees_that_all_have_a_terrible_arc():
    def marginals(n, low):
        scores = np.zeros((n + 1, n))
        scores[:, :2] = -np.inf
        scores[0, :2] = low
        scores[1, 1] = scores[2, 0] = 0.0
        return tree(scores, 1, 0)[1]

    np.testing.assert_allclose(marginals(130, -1e20), marginals(130, -1e3), atol=1e-12)
    # The number of trees is out of the range of a value here, and the power too large to take it up.
    np.testing.assert_allclose(marginals(260, -1e20).sum(axis=0), 1.0, atol=1e-12)


@TREES
@ROOTS
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_tree_derivatives_and_shifts(projective, single_root, scale):
    rng = np.random.default_rng(7)
    scores = rng.normal(size=(26, 25)) * scale
    log_partition, marginals = tree(scores, projective, single_root)
    check_derivatives(lambda x: tree(x, projective, single_root)[0], marginals, scores, rng, 1e-6)
    shifts = rng.normal(size=25)
    shifted = tree(scores + shifts, projective, single_root)
    assert shifted[0] == pytest.approx(log_partition + shifts.sum(), rel=1e-13)
    np.testing.assert_allclose(shifted[1], marginals, atol=1e-11)


@TREES
@ROOTS
def test_tree_over_a_wide_range_agrees_with_a_narrow_one(projective, single_root):
    rng = np.random.default_rng(8)
    narrow = rng.normal(size=(41, 40))
    narrow[rng.random(narrow.shape) < 0.1] = -np.inf
    wide = np.where(narrow == -np.inf, -2000.0, narrow)
    expected, found = tree(narrow, projective, single_root), tree(wide, projective, single_root)
    assert found[0] == pytest.approx(expected[0], rel=1e-13)
    np.testing.assert_allclose(found[1], expected[1], atol=1e-12)


@TREES
@ROOTS
@pytest.mark.parametrize("scale", [0.0, 100.0, 1000.0, 1e8, 1e100])
def test_tree_of_100_words(projective, single_root, scale):
    rng = np.random.default_rng(9)
    scores = rng.uniform(-scale, scale, size=(101, 100))
    log_partition, marginals = tree(scores, projective, single_root)
    assert np.isfinite(log_partition)
    assert (marginals >= 0).all() and (marginals <= 1).all()
    np.testing.assert_allclose(marginals.sum(axis=0), 1.0, atol=1e-11)
    if single_root:
        assert marginals[0].sum() == pytest.approx(1.0, abs=1e-7)
    if scale == 100.0:
        check_derivatives(lambda x: tree(x, projective, single_root)[0], marginals, scores, rng, 1e-6)


# --- Subset


@pytest.mark.parametrize("scale, tol", [(0.1, 1e-13), (1.0, 1e-13), (10.0, 1e-13), (1000.0, 1e-12), (1e8, 1e-7)])
@pytest.mark.parametrize("options", ["plain", "ties", "forbid"])
def test_subset_is_the_expectation_over_all_subsets(scale, tol, options):
    rng = np.random.default_rng(10)
    compared = 0
    for _ in range(100):
        n = int(rng.integers(1, 9))
        low, high = (int(k) for k in np.sort(rng.integers(0, n + 1, 2)))
        scores = rng.normal(size=n) + rng.choice([0.0, 5.0, -5.0])
        scores = (np.round(scores) if options == "ties" else scores) * scale
        if options == "forbid":
            scores[rng.random(n) < 0.3] = -np.inf
        parts, theta = naive_gibbs.subset_parts(scores, low, high)
        found = subset(scores, low, high)
        if theta.max() == -np.inf:
            assert found[0] == -np.inf
        else:
            compared += 1
            check(found, naive_gibbs.expectation(parts, theta), tol)
            assert (found[1][scores == -np.inf] == 0).all() and (found[1] <= 1).all()
    assert compared > 40


@pytest.mark.parametrize("height", [0.0, 3.0, -300.0, 1e8, -1e100])
@pytest.mark.parametrize("size", [1, 7, 1000, 2999])
def test_subset_of_many_equal_items(height, size):
    n = 3000
    log_partition, marginals = subset(np.full(n, height), size, size)
    np.testing.assert_allclose(marginals, size / n, rtol=1e-10)
    count = gammaln(n + 1) - gammaln(size + 1) - gammaln(n - size + 1)
    assert log_partition == pytest.approx(size * height + count, rel=1e-11)


def test_subset_without_bounds_is_independent():
    scores = np.append(np.random.default_rng(11).normal(size=20) * 10, [-np.inf, 1e100, -1e100])
    log_partition, marginals = subset(scores[:20], 0, 20)
    assert log_partition == pytest.approx(np.logaddexp(0.0, scores[:20]).sum(), rel=1e-14)
    np.testing.assert_allclose(subset(scores, 0, 23)[1], expit(scores), rtol=1e-14)
    np.testing.assert_array_equal(marginals, subset(scores, 0, 23)[1][:20])
    # A bound that hardly ever matters changes hardly anything.
    np.testing.assert_allclose(subset(np.full(40, -8.0), 0, 20)[1], expit(-8.0), rtol=1e-12)


@pytest.mark.parametrize("low, high", [(0, 3), (20, 50), (57, 60), (10, 10)])
def test_subset_derivatives_and_shifts(low, high):
    rng = np.random.default_rng(12)
    scores = rng.normal(size=60) * 3
    log_partition, marginals = subset(scores, low, high)
    check_derivatives(lambda x: subset(x, low, high)[0], marginals, scores, rng)
    assert low - 1e-12 <= marginals.sum() <= high + 1e-12
    if low == high:
        shifted = subset(scores + 100.0, low, high)
        assert shifted[0] == pytest.approx(log_partition + 100.0 * low, rel=1e-14)
        np.testing.assert_allclose(shifted[1], marginals, atol=1e-13)


def test_twin_of_the_chain_scores_paths():
    # `chain_parts` takes the counts from encode; total scores must be the same sums.
    rng = np.random.default_rng(13)
    instance = random_chain(rng)
    parts, theta = all_parts(instance)
    joined = np.concatenate([instance.scores.ravel()] + [a.ravel() for a in instance.additional.values()])
    paths = instance.enumerate()[0]
    np.testing.assert_allclose(joined @ parts, theta, atol=1e-12)
    assert theta[0] == pytest.approx(naive.chain_score(paths[0], instance.scores, **instance.additional))


def test_samples_of_dynamic_programs_have_the_frequencies_of_gibbs():
    rng, n, counts = np.random.default_rng(5), 2000, {}
    for kind, draw in RANDOM.items():
        for i in range(6):
            instance = draw(rng, ties=i % 2 == 0, forbid=i == 0)
            if not instance.structure.sums_for_entering:
                break
            structures, _, theta = instance.enumerate()
            ((sample,), _, _) = batch_of(instance.structure, instance.scores, instance.additional)
            drawn = draw_structures(instance.structure, sample, n, np.random.RandomState(i))
            found = np.bincount([structures.index(listed(each)) for each in drawn], minlength=len(structures)) / n
            p = softmax(theta)
            assert (found[theta == -np.inf] == 0.0).all(), instance
            assert (abs(found - p) < 5.0 * np.sqrt(p * (1.0 - p) / n) + 3.0 / n).all(), instance
            counts[kind] = counts.get(kind, 0) + (p.max() < 0.9)
    # All dynamic programs except trees, whose marginals are computed without logarithms.
    assert len(counts) == 13 and min(counts.values()) >= 1 and sum(counts.values()) > 50, counts
