"""SparseMAP by facets and by flows, against the active set, enumeration and dense twins."""

from collections import Counter

import naive_facets
import numpy as np
import pytest
from facet_cases import FAMILIES, run
from internals import (
    BY_FACETS,
    GAVE_UP,
    HIDES_TIES,
    INFEASIBLE,
    WIDTH,
    Direction,
    active_set,
    add_set,
    certify_rows,
    complete_face,
    copy_into,
    evaluate,
    fill_rows,
    larger,
    largest,
    load,
    minimum_cuts,
    new_cuts,
    new_rows,
    pick,
    readonly,
    sparsemax,
    spread,
    store,
    total,
)
from interpreted import interpreted
from numba import njit
from registry import RANDOM, Instance
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from sklearn_sparsemap import map_inference, sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Subset


@interpreted
def project_rows(rows, guesses, out):
    for r in range(rows.shape[0]):
        sparsemax(rows[r], guesses[r], out[r])


def test_sparsemax_from_any_guess_equals_sorting():
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        rows = np.vstack([scale * rng.normal(size=(20, n)) for scale in (1e-6, 0.1, 1.0, 100.0)])
        rows[::7] = np.round(rows[::7])
        rows[::5, 1:] = np.where(rng.random((len(rows[::5]), n - 1)) < 0.3, -np.inf, rows[::5, 1:])
        guesses = rng.choice([np.inf, -1e6, 0.0, 1.0, 1e6], size=len(rows))
        out = np.empty_like(rows)
        project_rows(rows, guesses, out)
        np.testing.assert_allclose(out, [naive_facets.sparsemax(row) for row in rows], atol=1e-13)


@interpreted
def separate(u, sets):
    return minimum_cuts(u, sets)


def test_separation_finds_a_violated_set_where_there_is_one():
    rng = np.random.default_rng(1)
    outcomes = Counter()
    for _ in range(250):
        n = int(rng.integers(1, 8))
        # From spread to concentrated: bounds settle the first.
        u = rng.random((n, n + 1)) ** rng.choice([0.2, 1.0, 3.0]) * (rng.random((n, n + 1)) < rng.choice([0.6, 1.0]))
        u[np.arange(n), np.arange(1, n + 1)] = 0.0
        u[:, 0] *= rng.choice([0.1, 1.0])
        u[u.sum(axis=1) == 0.0, 0] = 1.0
        u /= u.sum(axis=1, keepdims=True)
        sets = np.zeros((n + 1, n + 1), np.bool_)
        found, violated = separate(u, sets)
        least = naive_facets.least_inflow(u)
        assert (violated > 0) == (least < 1.0 - 1e-10)
        outcomes[violated > 0] += 1
        for nodes in sets[:found]:
            words = np.flatnonzero(nodes)
            inflow = u[words - 1][:, ~nodes].sum()
            assert inflow <= 1.0 + 1e-9 and not nodes[0]
    assert min(outcomes[True], outcomes[False]) > 40


@njit
def combine_lanes(a, b, out, totals, tops, seconds):
    for i in range(a.shape[0]):
        row = load(a, i * WIDTH)
        row += load(b, i * WIDTH) * 2.0 - 3.0 / load(a, i * WIDTH)
        store(out, i * WIDTH, larger(spread(0.5), row))
        totals[i], tops[i], seconds[i] = total(row), largest(row), pick(a, i * WIDTH + WIDTH // 3)


def test_lanes_equal_numpy():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, WIDTH))
    a[1, WIDTH // 2], b[2, WIDTH // 3], b[3, 0] = np.nan, np.inf, -np.inf
    out, (totals, tops, seconds) = np.empty(a.shape), np.empty((3, len(a)))
    combine_lanes(a, b, out, totals, tops, seconds)
    rows = a + b * 2.0 - 3.0 / a
    np.testing.assert_allclose(out, np.fmax(rows, 0.5), rtol=1e-14)
    np.testing.assert_allclose(totals, rows.sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(tops[[0, 2, 3]], rows[[0, 2, 3]].max(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(seconds, a[:, WIDTH // 3])


def products_of_face(instance, problem, found, marginals, direction):
    """Multiply with the Jacobian: the projector onto the face that structures span, from an active set's solution."""
    extra = readonly(np.zeros(len(problem[1])))
    slots, _ = complete_face(
        instance.structure.oracle, *problem, readonly(marginals), (found[0].copy(), found[1].copy()),
        Direction(readonly(direction), extra, False), extra, (np.empty(len(direction)), np.empty(len(extra))),
    )  # fmt: skip
    vertices = np.array([np.bincount(row[row >= 0], minlength=len(problem[0])) for row in slots])
    edges = (vertices[1:] - vertices[0]).T
    return edges @ np.linalg.lstsq(edges, direction, rcond=None)[0] if edges.size else np.zeros(len(direction))


def compare(instance, counts, name, rng):
    polytope_solver = instance.structure.polytope_solver
    found, u, problem = run(polytope_solver.solve, instance)
    expected, w, _ = run(active_set, instance)
    message = f"{name}: {instance!r} {instance.scores.tolist()} {instance.additional}"
    if expected[3] == INFEASIBLE:
        assert found[3] == expected[3], message
        return
    largest = np.abs(instance.scores[np.isfinite(instance.scores)]).max(initial=1.0)
    assert found[5] <= 1e-9 * largest, message
    if expected[5] <= 1e-9 * largest:
        np.testing.assert_allclose(u, w, atol=1e-9, err_msg=message)
        counts["marginals"] += 1
    if found[3] != BY_FACETS:
        counts["by structures"] += 1
        return
    if found[2][-1]:
        counts["ties"] += 1
        return
    direction, zero = readonly(rng.normal(size=len(u))), readonly(np.zeros(len(problem[1])))
    out, additional_out = np.zeros(len(u)), np.zeros(len(problem[1]))
    rows = found[0].ravel(), found[1].ravel(), found[2]
    polytope_solver.products(problem[2], readonly(u), *rows, direction, zero, out, additional_out)
    unary = products_of_face(instance, problem, expected, w, direction)
    np.testing.assert_allclose(out, unary, atol=1e-7, err_msg=message)
    counts["derivatives"] += 1


def random_instances(kind, rng, sizes=(1, 2, 3, 5, 8)):
    """Draw problems of many families of scores."""
    for family in FAMILIES:
        for n in sizes:
            if kind is DependencyTree:
                structure = DependencyTree(single_root=bool(rng.random() < 0.5))
                shape = (n + 1, n)
            elif kind is Matching:
                structure, shape = Matching(), (n, int(rng.integers(1, 9)))
            else:
                low = int(rng.integers(0, n + 1))
                structure, shape = Subset(low, int(rng.integers(low, n + 1)) if rng.random() < 0.7 else None), (n,)
            yield family, Instance(structure, np.ascontiguousarray(FAMILIES[family](rng, shape)), {})


@pytest.mark.parametrize("kind", [DependencyTree, Matching, Subset])
def test_facets_equal_structures(kind):
    rng, counts = np.random.default_rng(3), Counter()
    for _ in range(3):
        for family, instance in random_instances(kind, rng):
            compare(instance, counts, family, rng)
    assert counts["marginals"] > 180 and counts["derivatives"] > 100, counts
    assert counts["by structures"] < 10, counts


def test_cuts_of_labelled_trees_equal_structures():
    rng, counts = np.random.default_rng(4), Counter()
    for family, draw in FAMILIES.items():
        # The last sizes have more than 64 pairs of a head and a label.
        for n, n_labels in ((1, 3), (2, 2), (3, 4), (5, 3), (8, 2), (5, 14)):
            scores = draw(rng, (n + 1, n * n_labels)).reshape(n + 1, n, n_labels)
            structure = DependencyTree(single_root=bool(rng.random() < 0.5), n_labels=n_labels)
            compare(Instance(structure, np.ascontiguousarray(scores), {}), counts, family, rng)
    assert counts["marginals"] > 75 and counts["derivatives"] > 45, counts
    assert counts["by structures"] < 5, counts


def test_multipliers_of_a_matching_bound_its_gap():
    # Also on the way, where gaps are large.
    rng, n_open = np.random.default_rng(6), 0
    for family, instance in random_instances(Matching, rng):
        for limit in (1, 2, 60):
            found, u, _ = run(Matching.polytope_solver.solve, instance, readonly(np.array([limit]), np.int64))
            if found[3] not in (BY_FACETS, GAVE_UP):
                continue
            reduced = instance.scores - u.reshape(instance.scores.shape)
            gap = map_inference(Matching(), reduced).value - np.sum(reduced[u.reshape(reduced.shape) > 0] * u[u > 0])
            assert found[5] >= gap - 1e-12 * (1.0 + np.abs(reduced[np.isfinite(reduced)]).max()), family
            n_open += gap > 1e-6
    assert n_open > 20


def test_matchings_without_ties_are_not_taken_for_ties():
    # If supports fall apart, the multipliers that Newton's method ends with may say so.
    rng, counts = np.random.default_rng(7), Counter()
    for shape in ((6, 6), (12, 12), (5, 9), (12, 18), (18, 12)):
        for scale in (0.5, 1.0, 2.0):
            for _ in range(4):
                instance = Instance(Matching(), scale * rng.normal(size=shape), {})
                found, u, _ = run(Matching.polytope_solver.solve, instance)
                assert found[3] == BY_FACETS and not found[2][-1]
                links = csr_array(u.reshape(shape) > 0.0)
                counts["parts"] += connected_components(block_array([[None, links], [links.T, None]]))[0] > 1
                compare(instance, counts, f"{shape} {scale}", rng)
    assert counts["derivatives"] == 60 and counts["parts"] > 30, counts
    tied = Instance(Matching(), np.zeros((4, 4)) + np.eye(4), {})
    assert run(Matching.polytope_solver.solve, tied)[0][2][-1]


def test_trees_are_taken_for_ties_at_kinks_only():
    # If arcs have all the weight of their words, or sets cross, the multipliers that Newton's method ends with may
    # say so.
    rng, counts = np.random.default_rng(8), Counter()
    for _ in range(2):
        for family, instance in random_instances(DependencyTree, rng, sizes=(2, 3, 4, 5, 6)):
            found, u, _ = run(instance.structure.polytope_solver.solve, instance)
            if found[3] != BY_FACETS:
                continue
            u = u.reshape(instance.scores.shape)
            strictness = naive_facets.strictness_of_tree(instance.scores, u, instance.structure.single_root)
            assert strictness <= 1e-8 or strictness >= 1e-6, family
            tied = bool(found[2][-1])
            if tied and np.ptp(instance.scores[np.isfinite(instance.scores)]) > HIDES_TIES:
                counts["may hide ties"] += 1
            else:
                counts[tied, strictness > 1e-7] += 1
            compare(instance, counts, family, rng)
    assert 0 < counts["may hide ties"] < 20, counts
    assert counts[True, True] == 0 and counts[True, False] > 4 and counts[False, True] > 110, counts
    assert counts["derivatives"] > 110, counts
    for scale, n_words in ((0.5, 12), (1.0, 12), (2.0, 12), (1.0, 20), (2.0, 20)):
        for _ in range(4):
            instance = Instance(DependencyTree(), scale * rng.normal(size=(n_words + 1, n_words)), {})
            assert not run(instance.structure.polytope_solver.solve, instance)[0][2][-1]
            compare(instance, counts, f"{n_words} {scale}", rng)


@interpreted
def certify_trees(scores, sets, multipliers, marginals):
    n = sets.shape[1] - 1
    rows, cuts, k = new_rows(n, n + 1), new_cuts(sets.shape[0] + 1, n + 1, True), 0
    fill_rows(rows, scores, n)
    for s in range(sets.shape[0]):
        k = add_set(cuts, k, sets[s])
    evaluate(rows, cuts, k, multipliers, cuts.slope)
    copy_into(cuts.multiplier, multipliers[:k])
    for h in range(n + 1):
        for m in range(n):
            marginals[h * n + m] = rows.u[m, h]
    return certify_rows(scores, marginals, rows, cuts, k)[1]


def test_multipliers_of_cuts_bound_the_gap_of_a_tree():
    rng, n_open = np.random.default_rng(9), 0
    for n in (2, 3, 6, 9):
        for scale in (0.1, 1.0, 10.0):
            scores, sets = scale * rng.normal(size=(n + 1, n)), rng.random((4, n + 1)) < 0.6
            sets[0], sets[:, 0] = True, False
            for multipliers in (np.zeros(4), scale * rng.random(4) / n):
                u = np.empty(scores.size)
                gap = certify_trees(scores.ravel(), sets, multipliers, u)
                reduced = scores - u.reshape(scores.shape)
                best = map_inference(DependencyTree(), reduced).value - reduced.ravel() @ u
                assert gap >= best - 1e-12 * scale
                n_open += gap > 1e-6
    assert n_open > 6


def test_flows_equal_structures():
    rng, counts = np.random.default_rng(4), Counter()
    options = [{}, {"scale": 0.1}, {"scale": 0.01}, {"scale": 10.0}, {"ties": True}, {"forbid": True}]
    for option in options:
        for _ in range(25):
            compare(RANDOM["chain"](rng, **option), counts, str(option), rng)
    assert counts["marginals"] > 120 and counts["derivatives"] > 100, counts
    assert counts["by structures"] < 5, counts


def test_long_chains_with_small_scores_are_exact():
    rng = np.random.default_rng(5)
    # The last one keeps the active set from ever ending.
    for shape, unary, transitions in (((60, 5), 0.03, 0.03), ((20, 8), 1e-3, 1e-5)):
        scores, table = unary * rng.normal(size=shape), transitions * rng.normal(size=(shape[1], shape[1]))
        found, u, _ = run(LinearChain.polytope_solver.solve, Instance(LinearChain(), scores, {"transitions": table}))
        assert found[3] == BY_FACETS and found[5] <= 1e-11
        np.testing.assert_allclose(u.reshape(shape).sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("scale", "seed"), [(1.0, 3), (3.0, 4)])
def test_chains_of_a_thousand_steps_are_exact(scale, seed):
    # The guess after the interior point lacks paths through nodes without flow (the first), or settles slowly.
    rng = np.random.default_rng(seed)
    scores, table = scale * rng.normal(size=(1000, 20)), scale * rng.normal(size=(20, 20))
    found, u, _ = run(LinearChain.polytope_solver.solve, Instance(LinearChain(), scores, {"transitions": table}))
    assert found[3] == BY_FACETS and found[5] <= 1e-12 * found[4]
    np.testing.assert_allclose(u.reshape(scores.shape).sum(axis=1), 1.0, atol=1e-11)


def test_the_choice_between_facets_and_structures():
    rng, counts = np.random.default_rng(6), Counter()
    cases = (
        (DependencyTree(), (15, 14), {}),
        (Matching(), (14, 14), {}),
        (LinearChain(), (20, 8), {"transitions": rng.normal(size=(8, 8))}),
        (Subset(2, 5), (30,), {}),
    )
    for structure, shape, additional in cases:
        base = [rng.normal(size=shape) for _ in range(6)]
        for scales in ((0.01, 100.0) * 3, (0.01,) * 6, (100.0,) * 6):
            scores = [scale * one for scale, one in zip(scales, base)]
            given = {name: [scale * table for scale in scales] for name, table in additional.items()}
            auto = sparsemap(structure, scores, **given)
            exact = sparsemap(structure, scores, solver="active_set", **given)
            np.testing.assert_allclose(auto.marginals.values, exact.marginals.values, atol=1e-9)
            assert auto.converged.all()
            if exact.converged.all():
                for a, b in zip(auto, exact):
                    # Asked for, the structures are those of the active set, or the paths of the flow.
                    if isinstance(structure, LinearChain):
                        mixture = np.zeros(shape)
                        for path, weight in zip(a.structures, a.weights):
                            mixture[np.arange(len(path)), path] += weight
                        np.testing.assert_allclose(mixture, a.marginals, atol=1e-9)
                    else:
                        np.testing.assert_allclose(a.weights, b.weights, atol=1e-8)
                    counts[type(structure)] += 1
            vs = [rng.normal(size=shape) for _ in scores]
            found, expected = auto.vjp(vs), exact.vjp(vs)
            for name in found:
                for a, b, v, one in zip(found[name], expected[name], vs, auto):
                    np.testing.assert_allclose(a, b, atol=1e-7)
                    np.testing.assert_allclose(np.ravel(one.vjp(v)[name]), np.ravel(a), atol=1e-9)
    assert min(counts.values()) >= 12 and len(counts) == 4, counts


def test_structures_are_sought_with_the_callers_limit():
    scores = 0.1 * np.random.default_rng(0).normal(size=(6, 6))
    every, few = (sparsemap(Matching(), scores, solver="facets", max_iter=limit) for limit in (None, 3))
    assert every.converged and few.converged
    assert len(few.structures) <= 3 < len(every.structures)
