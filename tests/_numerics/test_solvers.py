"""The active set and its parts against dense, enumerated twins; certificates; derivatives."""

from pathlib import Path

import naive
import numpy as np
import pytest
from internals import (
    BY_FACETS,
    GAVE_UP,
    INFEASIBLE,
    ORACLE,
    active_set,
    append_column,
    away_step,
    pairwise,
    readonly,
    remove_column,
    solve_constrained,
    solve_lower,
)
from interpreted import interpreted
from registry import RANDOM, Instance, check_solution, listed

from sklearn_sparsemap import map_inference, sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

OPTIONS = [{}, {"scale": 0.1}, {"scale": 10.0}, {"ties": True}, {"forbid": True}]


class SlowSimplex(Simplex):
    """The simplex without its closed form."""

    polytope_solver = None


@interpreted
def follow_updates(K, theta):
    """Append columns 0..n-1 of K, remove 2, 0 and the last, append 2 again; return the constrained solution."""
    n = K.shape[0]
    factor, rhs = np.empty((n, n)), np.empty((2, n))
    scratch, column, z = np.empty(n), np.empty(n), np.empty(n)
    present = np.empty(n, np.int64)
    k = 0
    for j in range(n + 1):
        c = j if j < n else 2
        if j == n:
            for gone in (2, 0, n - 3):
                remove_column(factor, rhs, k, gone, scratch)
                for s in range(gone, k - 1):
                    present[s] = present[s + 1]
                k -= 1
        for s in range(k):
            column[s] = K[present[s], c]
        solve_lower(factor, k, column)
        pivot = K[c, c]
        for s in range(k):
            pivot -= column[s] ** 2
        append_column(factor, rhs, k, column, pivot, theta[c])
        present[k] = c
        k += 1
    solve_constrained(factor, rhs, k, z)
    out = np.zeros(n)
    for s in range(k):
        out[present[s]] = z[s]
    return out


def test_incremental_cholesky_equals_a_dense_solve():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 6))
    K, theta = A.T @ A, rng.normal(size=6)
    left = [1, 3, 4, 2]
    bordered = np.zeros((5, 5))
    bordered[:4, :4] = K[np.ix_(left, left)]
    bordered[4, :4] = bordered[:4, 4] = 1.0
    expected = np.zeros(6)
    expected[left] = np.linalg.solve(bordered, np.append(theta[left], 1.0))[:4]
    np.testing.assert_allclose(follow_updates(K, theta), expected, atol=1e-12)


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_sparsemap_equals_the_enumerated_qp(kind, options):
    rng = np.random.default_rng(2)
    for _ in range(12):
        instance = RANDOM[kind](rng, **options)
        check_solution(instance, sparsemap(instance.structure, instance.scores, **instance.additional))


def test_a_closed_form_equals_the_general_solver():
    rng = np.random.default_rng(3)
    for scale in (0.1, 1.0, 100.0, 1e8):
        for _ in range(30):
            scores = rng.normal(size=rng.integers(1, 30)) * scale
            closed, general = sparsemap(Simplex(), scores), sparsemap(SlowSimplex(), scores)
            np.testing.assert_allclose(closed.marginals, general.marginals, atol=1e-7 if scale > 1e6 else 1e-11)
            assert general.converged and closed.converged


@pytest.mark.parametrize("solver", ["cg", "away_step", "pairwise"])
@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conditional_gradient_reaches_the_same_solution(solver, kind, options):
    rng = np.random.default_rng(9)
    converged = 0
    for _ in range(4):
        instance = RANDOM[kind](rng, **options)
        structures, M, theta = instance.enumerate()
        u, _ = naive.solve_qp(M, theta)
        result = sparsemap(instance.structure, instance.scores, solver=solver, max_iter=3000, **instance.additional)
        places = [structures.index(listed(s)) for s in result.structures]
        np.testing.assert_allclose(M[:, places] @ result.weights, result.marginals.ravel(), atol=1e-9)
        assert result.weights.sum() == pytest.approx(1.0, abs=1e-9)
        linear, norm = theta[places] @ result.weights, (result.marginals**2).sum()
        gap = (theta - M.T @ result.marginals.ravel())[theta > -np.inf].max() - (linear - norm)
        assert result.gap == pytest.approx(max(gap, 0.0), abs=1e-9 * max(1.0, abs(linear)))
        # The gap bounds the distance, converged or not.
        assert np.abs(result.marginals.ravel() - u).max() <= np.sqrt(2 * result.gap) + 1e-6
        converged += result.converged
        if solver != "cg":
            assert result.converged, instance
            np.testing.assert_allclose(result.marginals.ravel(), u, atol=1e-6)
    assert converged > 0


@pytest.mark.parametrize(
    "scores", [[0.35, 0.55, -0.04999999999999998], [0.267394, 0.036014, -0.34829599999999994], [0.5, 0.5, -0.0, 0.0]]
)
def test_a_score_at_the_threshold_of_the_simplex(scores):
    # Rounding puts the last score above the threshold of all three, and below that of the first two.
    result = sparsemap(Simplex(), scores)
    assert result.converged
    expected, _ = naive.solve_qp(np.eye(len(scores)), np.array(scores))
    np.testing.assert_allclose(result.marginals, expected, atol=1e-12)


def test_vanilla_conditional_gradient_takes_the_steps_of_its_twin():
    rng = np.random.default_rng(12)
    compared = 0
    for _ in range(20):
        scores, transitions = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
        _, M, theta = naive.enumerate_chain(scores, transitions)
        for n_steps in (1, 2, 7, 30):
            result = sparsemap(LinearChain(), scores, transitions=transitions, solver="cg", max_iter=n_steps + 2)
            if not result.converged:
                compared += 1
                expected, _ = naive.frank_wolfe(M, theta, "cg", n_steps)
                np.testing.assert_allclose(result.marginals.ravel(), expected, atol=1e-9)
    assert compared > 40


@pytest.mark.parametrize("solver", ["away_step", "pairwise"])
def test_conditional_gradient_is_as_fast_as_its_twin(solver):
    # An exact line search makes two structures equally bad, and rounding says which is the worst: the steps differ.
    rng = np.random.default_rng(13)
    log_ratios = []
    for _ in range(20):
        scores, transitions = 0.3 * rng.normal(size=(5, 3)), 0.3 * rng.normal(size=(3, 3))
        _, M, theta = naive.enumerate_chain(scores, transitions)
        result = sparsemap(LinearChain(), scores, transitions=transitions, solver=solver, tol=1e-3)
        _, taken = naive.frank_wolfe(M, theta, solver, 10_000, tol=1e-6)
        log_ratios.append(np.log((result.n_iter - 1) / (taken + 1)))
    assert abs(np.mean(log_ratios)) < 0.2


def test_the_active_set_needs_the_fewest_calls():
    rng = np.random.default_rng(10)
    scores, transitions = rng.normal(size=(20, 5)), rng.normal(size=(5, 5))
    calls = {
        solver: sparsemap(LinearChain(), scores, transitions=transitions, solver=solver).n_iter
        for solver in ("active_set", "pairwise", "away_step", "cg")
    }
    assert calls["active_set"] < min(calls["pairwise"], calls["away_step"]) <= calls["cg"]


def test_conditional_gradient_starts_warm():
    rng = np.random.default_rng(11)
    structure, scores, transitions = LinearChain(), rng.normal(size=(8, 4)), rng.normal(size=(4, 4))
    cold = sparsemap(structure, scores, transitions=transitions)
    problem = Instance(structure, scores, {"transitions": transitions}).problem()
    marginals = np.empty(32)
    for solver in (away_step, pairwise):
        found = solver(
            structure.oracle,
            *problem,
            1e-12,
            1e-12,
            np.array([10_000]),
            *cold.support[:2],
            cold.support[2],
            marginals,
        )
        assert found[-1] < 5
        np.testing.assert_allclose(marginals.reshape(8, 4), cold.marginals, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "structure"), [("chain", LinearChain()), ("matching", Matching()), ("tree", DependencyTree())]
)
def test_reference_solutions(name, structure):
    arrays = np.load(Path(__file__).parents[1] / "data" / f"{name}.npz")
    cases = sorted({key.split("__")[0] for key in arrays})
    assert len(cases) > 2
    for case in cases:
        get = {key.split("__")[1]: arrays[key] for key in arrays if key.startswith(case + "__")}
        additional = {name: get[name] for name in structure.additional_names if name in get}
        result = sparsemap(structure, get["scores"], **additional)
        np.testing.assert_allclose(result.marginals, get["marginals"], atol=1e-8)
        gradients = result.vjp(get["v"])
        np.testing.assert_allclose(gradients["scores"], get["grad_scores"], atol=1e-6)
        for name in additional:
            found = result.additional_marginals[name]
            np.testing.assert_allclose(found, get[f"{name.removesuffix('s')}_marginals"], atol=1e-8)
            np.testing.assert_allclose(gradients[name], get[f"grad_{name}"], atol=1e-6)


TREES = [
    DependencyTree(projective=projective, single_root=single_root)
    for projective in (False, True)
    for single_root in (False, True)
]


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize(
    ("structure", "shape"), [*((tree, (41, 40)) for tree in TREES), (Matching(), (30, 50))], ids=repr
)
def test_large_structures_converge(structure, shape, scale):
    scores = np.random.default_rng(15).normal(size=shape) * scale
    result = sparsemap(structure, scores)
    u = result.marginals
    gap = map_inference(structure, scores - u).value - ((scores - u) * u).sum()
    assert result.converged and gap <= 1e-9
    assert len(result.weights) > 5


EDGES = [
    *((Simplex(), shape) for shape in [(1,), (5,)]),
    *((LinearChain(), shape) for shape in [(1, 1), (1, 5), (5, 1), (4, 3)]),
    *((tree, shape) for tree in TREES for shape in [(2, 1), (6, 5)]),
    *((Matching(), shape) for shape in [(1, 1), (1, 5), (5, 1), (3, 5), (4, 4)]),
    *((Subset(), shape) for shape in [(1,), (5,)]),
    (Subset(2, 3), (5,)),
]


@pytest.mark.parametrize(("structure", "shape"), EDGES, ids=repr)
def test_scores_that_tie(structure, shape):
    rng = np.random.default_rng(16)
    all_the_same = np.full(shape, rng.normal())
    a_kind_of_row = np.broadcast_to(rng.normal(size=shape[-1]), shape)
    of_two_values = rng.choice([-0.7, 0.2], size=shape)
    for scores in (np.zeros(shape), all_the_same, a_kind_of_row, of_two_values):
        check_solution(Instance(structure, scores, {}), sparsemap(structure, scores))


@pytest.mark.parametrize(("structure", "shape"), EDGES, ids=repr)
def test_scores_of_a_hundred_million(structure, shape):
    rng = np.random.default_rng(17)
    scores = rng.normal(size=shape)
    _, M, theta = Instance(structure, 1e8 * scores, {}).enumerate()
    result = sparsemap(structure, 1e8 * scores)
    assert result.converged
    np.testing.assert_array_equal(result.marginals.ravel(), M[:, np.argmax(theta)])
    if len(set(M.sum(axis=0))) == 1:
        # All structures have as many parts, so that it changes nothing to raise all scores; but for rounding.
        raised = sparsemap(structure, 1e8 + scores)
        assert raised.converged
        np.testing.assert_allclose(raised.marginals, sparsemap(structure, scores).marginals, atol=1e-6)


@pytest.mark.parametrize(("structure", "shape"), EDGES, ids=repr)
def test_all_but_one_structure_forbidden(structure, shape):
    rng = np.random.default_rng(18)
    scores = rng.normal(size=shape)
    structures, M, _ = Instance(structure, scores, {}).enumerate()
    for place in rng.permutation(len(structures))[:10]:
        mine = M[:, place].reshape(shape) > 0
        instance = Instance(structure, np.where(mine, scores, -np.inf), {})
        result = sparsemap(structure, instance.scores)
        check_solution(instance, result)
        if isinstance(structure, Subset):
            continue  # others are within this one
        np.testing.assert_array_equal(result.marginals, mine)
        assert np.array_equal(map_inference(structure, instance.scores).structure, structures[place])
        # Nothing can change while one structure is left.
        np.testing.assert_allclose(result.vjp(scores)["scores"], 0.0, atol=1e-14)


@pytest.mark.parametrize(
    ("structure", "allowed", "only"),
    [
        # A word hangs on the one before it or on a later one; the last one has no choice, so nobody has.
        *((tree, np.tri(6, 5, -2, dtype=bool) | np.eye(6, 5, dtype=bool), np.eye(6, 5)) for tree in TREES),
        # The last row has one column, so that the row before it has one left.
        (Matching(), np.triu(np.ones((5, 5), bool)), np.eye(5)),
    ],
    ids=repr,
)
def test_parts_that_fit_no_structure(structure, allowed, only):
    # A part that is allowed, but in no structure, looks best.
    scores = np.where(allowed, 5.0, -np.inf)
    scores[only > 0] = -5.0
    result = sparsemap(structure, scores)
    check_solution(Instance(structure, scores, {}), result)
    np.testing.assert_array_equal(result.marginals, only)


def test_affinely_dependent_structures():
    # 00 and 11 have the same unary parts as 01 and 10 together; only the transitions tell the pairs apart.
    scores = np.zeros((2, 2))
    for transitions in ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]):
        result = sparsemap(LinearChain(), scores, transitions=np.array(transitions))
        np.testing.assert_allclose(result.marginals, np.full((2, 2), 0.5), atol=1e-12)
        assert result.objective == pytest.approx(np.max(transitions) - 0.5)
    # Started at the wrong pair, the solver has to exchange both structures.
    structure = LinearChain()
    problem = Instance(structure, scores, {"transitions": [[1.0, 0.0], [0.0, 1.0]]}).problem()
    marginals = np.empty(4)
    _, _, weights, status, objective, gap, _ = active_set(
        structure.oracle,
        *problem,
        1e-12,
        1e-12,
        np.array([100]),
        np.array([[0, 3], [1, 2]], np.int32),
        np.array([[1], [2]], np.int32),
        np.array([0.5, 0.5]),
        marginals,
    )
    assert objective == pytest.approx(0.5)
    assert gap <= 1e-12
    assert status not in (BY_FACETS, INFEASIBLE, GAVE_UP) and weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("shape", "transitions"), [((10, 5), 1e-5), ((20, 10), 1e-2)])
def test_slow_problems_ask_near_the_best_dual_point(shape, transitions):
    # 1,270 and 558 calls without that.
    scale, rng = max(1e-3, transitions), np.random.default_rng(0)
    problem = {"scores": scale * rng.normal(size=shape), "transitions": transitions * rng.normal(size=(shape[1],) * 2)}
    found = sparsemap(LinearChain(), solver="active_set", **problem)
    expected = sparsemap(LinearChain(), solver="flow", **problem)
    assert found.gap <= 1e-12 and 100 < found.n_iter < 480
    np.testing.assert_allclose(found.marginals, expected.marginals, atol=1e-9)
    stopped = sparsemap(LinearChain(), solver="active_set", max_iter=101, **problem)
    assert stopped.n_iter == 101 and stopped.gap >= expected.objective - stopped.objective > 0.0


def test_warm_start_reaches_the_same_solution():
    rng = np.random.default_rng(4)
    structure = LinearChain()
    for _ in range(20):
        scores, transitions = rng.normal(size=(8, 4)), rng.normal(size=(4, 4))
        old = sparsemap(structure, scores + 0.3 * rng.normal(size=(8, 4)), transitions=transitions)
        cold = sparsemap(structure, scores, transitions=transitions)
        problem = Instance(structure, scores, {"transitions": transitions}).problem()
        marginals = np.empty(32)
        arguments = structure.oracle, *problem, 1e-12, 1e-12
        slots, additional_slots, _ = old.support
        active_set(*arguments, np.array([1000]), slots, additional_slots, np.ones(len(slots)) / len(slots), marginals)
        np.testing.assert_allclose(marginals.reshape(8, 4), cold.marginals, atol=1e-10)
        weights = np.ones(len(cold.support[0])) / len(cold.support[0])
        again = active_set(*arguments, np.array([1000]), *cold.support[:2], weights, marginals)
        assert again[-1] == 1, "started at its own support, a solution is recognised at the first call of the oracle"


def test_stopping_early_is_reported():
    rng = np.random.default_rng(5)
    scores, transitions = rng.normal(size=(20, 5)), rng.normal(size=(5, 5))
    full = sparsemap(LinearChain(), scores, transitions=transitions)
    early = sparsemap(LinearChain(), scores, transitions=transitions, max_iter=5)
    assert early.n_iter == 5 < full.n_iter
    assert not early.converged and full.converged
    assert early.objective <= full.objective <= early.objective + early.gap + 1e-12
    loose = sparsemap(LinearChain(), scores, transitions=transitions, tol=100.0)
    assert loose.converged and loose.n_iter < full.n_iter


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_long_chains_converge(scale):
    rng = np.random.default_rng(6)
    scores = [rng.normal(size=(50, 10)) * scale for _ in range(5)]
    for result in sparsemap(LinearChain(), scores, transitions=rng.normal(size=(10, 10)) * scale):
        assert result.converged and result.gap <= 1e-9


@pytest.mark.parametrize(
    "structure, shape", [(LinearChain(), (300, 20)), (DependencyTree(), (101, 100)), (Matching(), (125, 125))]
)
@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_large_supports_end_where_rounding_does(structure, shape, scale):
    # Beyond a gap of some 1e-11 all that changes in the factor is rounding, and structures are swapped without end.
    rng = np.random.default_rng(0)
    additional = {"transitions": scale * rng.normal(size=(20, 20))} if isinstance(structure, LinearChain) else {}
    scores = scale * rng.normal(size=shape)
    # A tolerance of 1e-6 aims at a gap of 1e-9.
    first = sparsemap(structure, scores, tol=1e-6, solver="active_set", **additional)
    result = sparsemap(structure, scores, solver="active_set", max_iter=10 * first.n_iter, **additional)
    assert result.converged and result.gap <= 1e-9
    assert result.n_iter <= 2 * first.n_iter
    assert len(result.weights) > 50


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("options", [{}, {"scale": 0.3}, {"forbid": True}], ids=str)
def test_jacobian_products_equal_differences(kind, options):
    rng = np.random.default_rng(7)
    compared = 0
    for _ in range(15):
        instance = RANDOM[kind](rng, **options)
        result = sparsemap(instance.structure, instance.scores, **instance.additional)
        direction = {name: rng.normal(size=a.shape) for name, a in instance.additional.items()}
        direction["scores"] = rng.normal(size=instance.scores.shape)

        def marginals_at(step):
            moved = {name: a + step * direction[name] for name, a in instance.additional.items()}
            scores = instance.scores + step * direction["scores"]
            return sparsemap(instance.structure, scores, **moved).marginals

        ahead, behind = (marginals_at(1e-6) - result.marginals) / 1e-6, (result.marginals - marginals_at(-1e-6)) / 1e-6
        if np.abs(ahead - behind).max() > 1e-6:
            continue  # a kink: the one-sided derivatives differ
        compared += 1
        expected = (ahead + behind) / 2
        forward = result.jvp(**direction)
        np.testing.assert_allclose(forward, expected, atol=1e-6, err_msg=repr(instance))
        v = rng.normal(size=instance.scores.shape)
        gradients = result.vjp(v)
        assert set(gradients) == set(direction)
        total = sum((gradients[name] * direction[name]).sum() for name in direction)
        assert total == pytest.approx((v * expected).sum(), abs=1e-5)
    assert compared >= 10


def test_jacobian_is_an_orthogonal_projector():
    rng = np.random.default_rng(8)
    for scale in (0.3, 1.0):
        scores, transitions = rng.normal(size=(6, 3)) * scale, rng.normal(size=(3, 3)) * scale
        result = sparsemap(LinearChain(), scores, transitions=transitions)
        J = np.array([result.vjp(e.reshape(6, 3))["scores"].ravel() for e in np.eye(18)])
        np.testing.assert_allclose(J, J.T, atol=1e-10)
        np.testing.assert_allclose(J @ J, J, atol=1e-10)
        assert np.trace(J) == pytest.approx(round(np.trace(J)), abs=1e-9)


def test_the_face_is_completed():
    # At this vertex every structure but one has weight zero, yet all four lie on the face: u = scores at a corner
    # of the support that the solver happens to return.
    scores = np.array([[0.5, 0.5], [0.5, 0.5]])
    result = sparsemap(LinearChain(), scores)
    J = np.array([result.vjp(e.reshape(2, 2))["scores"].ravel() for e in np.eye(4)])
    block = np.array([[0.5, -0.5], [-0.5, 0.5]])
    np.testing.assert_allclose(J, np.kron(np.eye(2), block), atol=1e-12)
    assert len(result.weights) < 3


@pytest.mark.parametrize("kind", RANDOM)
def test_products_with_a_face_that_the_solution_does_not_span(kind):
    # A batch looks for structures of weight zero along the direction of each product only; a single result for all.
    rng = np.random.default_rng(21)
    larger, n_along_all = 0, 0
    for _ in range(20):
        instance = RANDOM[kind](rng, ties=True)
        additional = {name: [a] for name, a in instance.additional.items()}
        batch = sparsemap(instance.structure, [instance.scores], solver="active_set", **additional)
        _, M, theta = instance.enumerate()
        reduced = theta - M.T @ batch[0].marginals.ravel()
        face = M[:, reduced >= reduced.max() - 1e-8]
        moves = face[:, 1:] - face[:, :1]
        n_moves = np.linalg.matrix_rank(moves) if moves.size else 0
        larger += n_moves + 1 > len(batch[0].weights)
        v = rng.normal(size=instance.scores.shape)
        expected = moves @ np.linalg.pinv(moves) @ v.ravel()
        for factor in (1.0, 1e-14):
            found = batch.vjp([factor * v])["scores"].values / factor
            np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=repr(instance))
        if additional and n_moves == moves.shape[1]:
            # The weights on the face are unique, and so is how they follow additional scores.
            n_along_all += 1
            along = {name: rng.normal(size=a.shape) for name, a in instance.additional.items()}
            of_batch = batch.jvp(**{name: [d] for name, d in along.items()})
            np.testing.assert_allclose(of_batch[0], batch[0].jvp(**along).ravel(), atol=1e-9, err_msg=repr(instance))
    assert larger >= 2
    assert n_along_all >= 2 or not instance.additional


def test_first_class_oracles_are_what_structures_hold():
    assert LinearChain.oracle._signature == ORACLE.signature
    assert readonly([1]).flags.writeable is False


@pytest.mark.parametrize("kind", RANDOM)
def test_derivatives_of_the_weights_equal_differences(kind):
    rng = np.random.default_rng(14)
    compared = 0
    for _ in range(25):
        instance = RANDOM[kind](rng)
        result = sparsemap(instance.structure, instance.scores, **instance.additional)
        direction = {name: rng.normal(size=a.shape) for name, a in instance.additional.items()}
        direction["scores"] = rng.normal(size=instance.scores.shape)

        def weights_at(step):
            moved = {name: a + step * direction[name] for name, a in instance.additional.items()}
            there = sparsemap(instance.structure, instance.scores + step * direction["scores"], **moved)
            found = {listed(s): w for s, w in zip(there.structures, there.weights)}
            selected = [listed(s) for s in result.structures]
            return np.array([found[s] for s in selected]) if set(found) == set(selected) else None

        ahead, behind = weights_at(1e-6), weights_at(-1e-6)
        if ahead is None or behind is None:
            continue  # another choice of structures
        compared += 1
        forward = result.weights_jvp(**direction)
        np.testing.assert_allclose(forward, (ahead - behind) / 2e-6, atol=1e-5, err_msg=repr(instance))
        assert forward.sum() == pytest.approx(0.0, abs=1e-9)
        v = rng.normal(size=len(result.weights))
        gradients = result.weights_vjp(v)
        assert sum((gradients[n] * direction[n]).sum() for n in direction) == pytest.approx(v @ forward, abs=1e-9)
    assert compared > 10


@pytest.mark.parametrize("solver", ["auto", "active_set"])
@pytest.mark.parametrize("kind", ["simplex", "chain", "tree", "matching", "top two"])
def test_gradients_of_weights_equal_differences(kind, solver):
    """Entry by entry, for scores and all additional scores."""
    rng, n_compared = np.random.default_rng(18), 0
    for _ in range(6):
        instance = RANDOM[kind](rng)
        given = {"scores": instance.scores, **instance.additional}

        def solve(given, structure=instance.structure):
            result = sparsemap(structure, solver=solver, tol=1e-13, **given)
            return result, {listed(s): w for s, w in zip(result.structures, result.weights)}

        result, found = solve(given)
        v = dict(zip(found, rng.normal(size=len(found))))
        gradients = result.weights_vjp(list(v.values()))
        assert set(gradients) == set(given)
        for name, values in given.items():
            for place in np.ndindex(values.shape):
                step = np.zeros(values.shape)
                step[place] = 1e-5
                moved = [solve({**given, name: values + sign * step})[1] for sign in (1, -1)]
                if any(set(own) != set(found) for own in moved):
                    continue  # another choice of structures
                slope = sum(v[s] * (moved[0][s] - moved[1][s]) for s in found) / 2e-5
                assert gradients[name][place] == pytest.approx(slope, abs=1e-6), (instance, name, place)
                n_compared += 1
    assert n_compared > 20


def test_weights_that_are_not_unique_have_no_derivative():
    result = sparsemap(LinearChain(), np.zeros((2, 2)))
    assert result.weights_jvp(scores=np.eye(2)).shape == result.weights.shape
    with pytest.raises(ValueError, match="v has shape"):
        result.weights_vjp(np.ones(17))
    rng = np.random.default_rng(3)
    loose = sparsemap(LinearChain(), 0.1 * rng.normal(size=(4, 3)), solver="cg", max_iter=60)
    with pytest.raises(ValueError, match="affinely dependent"):
        loose.weights_vjp(np.ones(len(loose.weights)))
