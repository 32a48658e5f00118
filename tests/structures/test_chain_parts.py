"""Flows of chains, compared with the active set, which knows only paths, and their equations with a dense solver."""

from collections import Counter

import naive_facets
import numpy as np
import pytest
from internals import (
    FLOATS,
    FLOATS_2D_OUT,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    all_states,
    entry,
    grow,
    into,
    link,
    new_chain,
    new_forest,
    new_prices,
    out_of,
    price_backward,
    price_forward,
    price_of,
    solve_forest,
    switch_on,
)
from numba import types

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import LinearChain


def random_chain(rng, scale):
    """Draw scores of all layouts: transitions per step or for all, with or without ends, some of them forbidden."""
    n_steps, n_states = int(rng.integers(2, 40)), int(rng.integers(2, 14))
    shape = (n_steps - 1, n_states, n_states) if rng.random() < 0.5 else (n_states, n_states)
    additional = {"transitions": scale * rng.normal(size=shape)}
    for name in ("start", "end"):
        if rng.random() < 0.5:
            additional[name] = scale * rng.normal(size=n_states)
    if rng.random() < 0.4:
        additional["transitions"][rng.random(shape) < 0.2] = -np.inf
    return scale * rng.normal(size=(n_steps, n_states)), additional


def solve(solver, scores, additional):
    """Return the solution of a chain, or None if all paths are forbidden."""
    try:
        return sparsemap(LinearChain(), scores, solver=solver, **additional)
    except ValueError as error:
        assert "forbid every structure" in str(error)
        return None


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_flows_and_their_derivatives_are_those_of_paths(scale):
    rng, counts = np.random.default_rng(0), Counter()
    for _ in range(20):
        scores, additional = random_chain(rng, scale)
        expected, found = (solve(solver, scores, additional) for solver in ("active_set", "flow"))
        assert (expected is None) == (found is None)
        if expected is None:
            continue
        assert expected.converged and found.converged and found.gap <= 1e-9
        np.testing.assert_allclose(found.marginals, expected.marginals, atol=1e-8)
        for name, values in found.additional_marginals.items():
            # They are not unique, but their score is.
            allowed = np.isfinite(additional[name])
            wanted = expected.additional_marginals[name][allowed] @ additional[name][allowed]
            assert values[allowed] @ additional[name][allowed] == pytest.approx(wanted, abs=1e-7)
            assert (values[~allowed] == 0.0).all()
        direction = rng.normal(size=scores.shape)
        np.testing.assert_allclose(found.vjp(direction)["scores"], expected.vjp(direction)["scores"], atol=1e-6)
        sizes = (found.marginals > 0.0).sum(axis=1)
        counts["compared"] += 1
        counts["cut"] += ((sizes == 1).any() and (sizes > 1).any()) or scale < 1.0
        counts["small sets"] += sizes.max() < scores.shape[1]
    assert counts["compared"] >= 15 and counts["cut"] >= 8 and (counts["small sets"] >= 8 or scale < 0.5)


def weak_transitions(rng, n_steps, n_states):
    """Draw scores of arcs that differ by little, some of them forbidden."""
    shape = (n_steps - 1, n_states, n_states)
    transitions = 3e-5 * rng.normal(size=shape)
    transitions[rng.random(shape) < 0.3] = -np.inf
    return 0.03 * rng.normal(size=(n_steps, n_states)), {"transitions": transitions}


def test_weak_transitions():
    rng, n_compared = np.random.default_rng(3), 0
    for _ in range(30):
        problem = weak_transitions(rng, int(rng.integers(3, 12)), int(rng.integers(3, 7)))
        expected, found = (solve(solver, *problem) for solver in ("active_set", "flow"))
        if expected is None:
            continue
        flow = found.additional_marginals["transitions"]
        np.testing.assert_allclose(flow.sum(axis=2), found.marginals[:-1], atol=1e-9)
        np.testing.assert_allclose(flow.sum(axis=1), found.marginals[1:], atol=1e-9)
        np.testing.assert_allclose(found.marginals, expected.marginals, atol=1e-7)
        n_compared += 1
    assert n_compared > 20


def test_weak_transitions_do_not_need_the_active_set():
    """It would take thousands of paths, and is stopped here after 60."""
    for seed in range(4):
        scores, additional = weak_transitions(np.random.default_rng(seed), 60, 18)
        found = sparsemap(LinearChain(), scores, solver="flow", max_iter=60, **additional)
        assert found.converged and found.gap < 1e-9


def test_the_gradients_of_the_transitions_pass_cuts():
    """Arcs from and to a step with a single state carry what the nodes on their other side carry."""
    scores = np.array([[0.2, 0.1, 0.0], [9.0, 0.0, 0.0], [0.3, 0.0, 0.2], [0.0, 0.1, 0.3], [0.0, 9.0, 0.0]])
    transitions = 0.05 * np.arange(12.0).reshape(4, 3, 1) * np.array([1.0, -1.0, 0.5])
    found = sparsemap(LinearChain(), scores, transitions=transitions, solver="flow")
    assert (found.marginals > 0.0).sum(axis=1).tolist() == [3, 1, 2, 2, 1]
    direction = np.random.default_rng(0).normal(size=scores.shape)
    gradient = found.vjp(direction)
    step = 1e-6
    for index in np.ndindex(transitions.shape):
        ends = []
        for sign in (-1.0, 1.0):
            moved = transitions.copy()
            moved[index] += sign * step
            u = sparsemap(LinearChain(), scores, transitions=moved, solver="active_set").marginals
            ends.append((direction * u).sum())
        assert gradient["transitions"][index] == pytest.approx((ends[1] - ends[0]) / (2.0 * step), abs=1e-6)


@entry(FLOATS_2D_OUT(FLOATS, FLOATS, INTS))
def _priced(scores, additional, dims):
    chain, out = new_chain(scores, additional, dims, -np.inf), np.empty((dims[0], dims[1]))
    forest, prices = new_forest(dims[0], chain.width), new_prices(chain)
    every = all_states(chain.n_steps, chain.n_states)
    price_forward(chain, forest, every, prices, 0.0)
    price_backward(chain, forest, every, prices, 0.0)
    for t in range(dims[0]):
        for i in range(dims[1]):
            out[t, i] = price_of(chain, forest, prices, t * chain.width + i)
    return out


def test_prices_are_the_best_paths_through_each_state():
    rng = np.random.default_rng(1)
    for _ in range(5):
        scores, transitions = rng.normal(size=(4, 3)), rng.normal(size=(3, 3, 3))
        transitions[rng.random(transitions.shape) < 0.2] = -np.inf
        expected = np.full(scores.shape, -np.inf)
        for path in np.ndindex(3, 3, 3, 3):
            value = sum(scores[t, path[t]] for t in range(4)) + sum(
                transitions[t, path[t], path[t + 1]] for t in range(3)
            )
            for t in range(4):
                expected[t, path[t]] = max(expected[t, path[t]], value)
        dims = LinearChain().dims(scores.shape, {"transitions": transitions.shape})
        found = _priced(scores.ravel(), transitions.ravel(), np.array(dims, np.int64))
        np.testing.assert_allclose(found, expected, atol=1e-12)


@entry(FLOATS_OUT(FLOATS, FLOATS, INTS, INTS_2D, types.float64))
def _settled(scores, additional, dims, arcs, total):
    """Return the flow through all nodes, and then along all arcs."""
    chain = new_chain(scores, additional, dims, -np.inf)
    forest, width, n = new_forest(dims[0], chain.width), chain.width, scores.shape[0]
    for a in range(arcs.shape[0]):
        t, i, j = arcs[a, 0], arcs[a, 1], arcs[a, 2]
        if not forest.on[t * width + i]:
            switch_on(chain, forest, t, i)
        if not forest.on[(t + 1) * width + j]:
            switch_on(chain, forest, t + 1, j)
        link(forest, out_of(width, t) + i, into(width, t + 1) + j)
    grow(chain, forest)
    solve_forest(chain, forest, total)
    out = np.empty(n + arcs.shape[0])
    for p in range(n):
        out[p] = forest.u[p // dims[1] * width + p % dims[1]]
    for a in range(arcs.shape[0]):
        x, y = out_of(width, arcs[a, 0]) + arcs[a, 1], into(width, arcs[a, 0] + 1) + arcs[a, 2]
        out[n + a] = forest.flow[x] if forest.parent[x] == y else forest.flow[y]
    return out


def random_forest(rng, n_steps, n_states):
    """Draw arcs without cycles that give each of some nodes an arc on both sides, except at the ends."""
    on = [rng.permutation(n_states)[: rng.integers(1, n_states + 1)] for _ in range(n_steps)]
    arcs = []
    for t in range(n_steps - 1):
        tree = {(side, i): (side, i) for side, states in enumerate((on[t], on[t + 1])) for i in states}
        pairs = [(i, rng.choice(on[t + 1])) for i in on[t]] + [(rng.choice(on[t]), j) for j in on[t + 1]]
        for i, j in pairs:
            a, b = tree[0, i], tree[1, j]
            if a != b:
                arcs.append((t, int(i), int(j)))
                tree = {vertex: a if root == b else root for vertex, root in tree.items()}
    return arcs


@pytest.mark.parametrize("total", [0.0, 1.0])
def test_flows_on_forests_equal_a_dense_solve(total):
    rng = np.random.default_rng(6)
    for n_steps, n_states in ((2, 1), (2, 3), (3, 4), (5, 5), (4, 9), (12, 6)):
        for _ in range(5):
            scores, gains = rng.normal(size=(n_steps, n_states)), rng.normal(size=(n_steps - 1, n_states, n_states))
            arcs = random_forest(rng, n_steps, n_states)
            dims = np.array(LinearChain().dims(scores.shape, {"transitions": gains.shape}), np.int64)
            found = _settled(scores.ravel(), gains.ravel(), dims, np.array(arcs), total)
            u, flow = naive_facets.flow_on_arcs(scores, gains, arcs, total)
            np.testing.assert_allclose(found, np.concatenate([u.ravel(), flow]), atol=1e-10)


def test_the_pivots_of_long_chains_end():
    """Steps that change at the same time can undo each other; some of these chains once did so forever."""
    for seed, (n_steps, n_states, scale) in enumerate([(500, 20, 0.3), (500, 20, 1.0), (200, 5, 0.3), (1000, 12, 2.0)]):
        rng = np.random.default_rng(seed)
        scores, transitions = scale * rng.normal(size=(n_steps, n_states)), scale * rng.normal(size=(n_states,) * 2)
        found = sparsemap(LinearChain(), scores, transitions=transitions, solver="flow", max_iter=1)
        assert found.converged and found.gap < 1e-9 and found.n_iter < 200
        np.testing.assert_allclose(found.marginals.sum(axis=1), 1.0, atol=1e-10)


def test_paths_of_independent_steps_are_few_and_affinely_independent():
    """Each takes the largest remaining weights, so a long sequence needs no more paths than a short one."""
    rng = np.random.default_rng(0)
    counts = []
    for n_steps, n_states in ((2, 3), (7, 3), (12, 8), (40, 3), (4000, 3)):
        found = sparsemap(LinearChain(), 0.3 * rng.normal(size=(n_steps, n_states)), solver="flow")
        mixture = np.zeros((n_steps, n_states))
        for path, weight in zip(found.structures, found.weights, strict=True):
            mixture[np.arange(n_steps), path] += weight
        np.testing.assert_allclose(mixture, found.marginals, atol=1e-11)
        counts.append(len(found.weights))
        if n_steps < 40:
            vertices = np.array([np.eye(n_states)[path].ravel() for path in found.structures])
            assert np.linalg.matrix_rank(vertices) == counts[-1] <= n_steps * (n_states - 1) + 1
    assert counts[-1] < 1.5 * counts[-2] < 100


@pytest.mark.parametrize("transitions", [None, 0.5 * np.eye(3)])
def test_paths_of_a_very_long_chain_need_no_table_of_all_possible_paths(transitions):
    """Space for as many paths as there are nodes would take 30 GB."""
    scores = np.random.default_rng(0).normal(size=(50_000, 3))
    given = {} if transitions is None else {"transitions": transitions}
    found = sparsemap(LinearChain(), scores, solver="flow", **given)
    assert found.weights.sum() == pytest.approx(1.0)
    assert 10 < len(found.structures) < 500
