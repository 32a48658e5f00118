"""LP-SparseMAP in factor graphs: certificates by enumeration, identities, derivatives, and wrong input."""

import pickle
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from naive_graphs import RANDOM_GRAPHS, Case, best_value, check_certificate, off_factors, polytopes, random_matching
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.isotonic import IsotonicRegression

from sklearn_sparsemap import RaggedArray, lp_sparsemap, map_inference, sparsemap
from sklearn_sparsemap.factors import (
    AndOut,
    AtMost,
    AtMostOne,
    Budget,
    Exclusive,
    FactorGraph,
    Implies,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    PairTable,
    StructureFactor,
    Xor,
    XorOut,
)
from sklearn_sparsemap.structures import (
    Alignment,
    CustomStructure,
    DependencyTree,
    HeadAutomaton,
    LinearChain,
    Matching,
    Simplex,
    Subset,
)

DATA = Path(__file__).parents[1] / "data"


def solve(case, **options):
    return lp_sparsemap(case.graph, case.scores, additional=case.additional, **options)


def test_long_paths_of_implications_are_clipped_isotonic_regressions():
    """Steps that clipped many variables kept 18 of 80 such paths from a solution, most of those with ties."""
    n = 3000
    graph = FactorGraph()
    u = graph.variables(n)
    graph.add(u[1:] >> u[:-1])
    isotonic = IsotonicRegression(increasing=False)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for scores in (rng.normal(size=n), rng.integers(-2, 3, n).astype(float)):
            result = lp_sparsemap(graph, scores)
            expected = np.clip(isotonic.fit_transform(np.arange(n), scores), 0.0, 1.0)
            assert result.converged
            assert_allclose(result.marginals, expected, atol=1e-6)


@pytest.mark.parametrize("kind", RANDOM_GRAPHS)
@pytest.mark.parametrize("solver", ["auto", "block", "admm"])
def test_solutions_are_certified_by_enumeration(kind, solver):
    rng = np.random.default_rng(0)
    tol, certified = 1e-6 if solver == "admm" else 1e-9, 0
    for scale in (0.3, 1.0, 3.0):
        for _ in range(5):
            case = RANDOM_GRAPHS[kind](rng, scale)
            result = solve(case, solver=solver, tol=tol, max_iter=20_000)
            if solver == "admm" and not result.converged:
                # Its rate can be as slow as one over the number of sweeps.
                assert max(result.residual, abs(result.gap)) > tol
                continue
            assert result.converged, (case, result)
            check_certificate(case, result, tol)
            certified += 1
    assert certified >= 10


def test_certificates_notice():
    case = random_matching(np.random.default_rng(1))
    result = solve(case)
    check_certificate(case, result, 1e-8)
    result._u[0] += 1e-3
    with pytest.raises(AssertionError):
        check_certificate(case, result, 1e-8)
    early = solve(case, solver="admm", max_iter=3)
    assert not early.converged and max(early.residual, abs(early.gap)) > 1e-6


@pytest.mark.parametrize("kind", RANDOM_GRAPHS)
@pytest.mark.parametrize("solver", ["auto", "block"])
def test_jacobian_products_equal_differences(kind, solver):
    rng = np.random.default_rng(2)
    compared = 0
    for _ in range(12):
        case = RANDOM_GRAPHS[kind](rng)
        result = solve(case, solver=solver)
        d, directions = rng.normal(size=case.scores.shape), {}
        for name, value in case.additional.items():
            if isinstance(value, dict):
                directions[name] = {key: rng.normal(size=array.shape) for key, array in value.items()}
            else:
                directions[name] = rng.normal(size=value.shape)

        def marginals_at(step):
            moved = {}
            for name, value in case.additional.items():
                change = directions[name]
                if isinstance(value, dict):
                    moved[name] = {key: value[key] + step * change[key] for key in value}
                else:
                    moved[name] = value + step * change
            options = {"additional": moved, "tol": 1e-10, "solver": solver, "max_iter": 20_000}
            return lp_sparsemap(case.graph, case.scores + step * d, **options).marginals

        middle = marginals_at(0.0)
        ahead, behind = (marginals_at(1e-5) - middle) / 1e-5, (middle - marginals_at(-1e-5)) / 1e-5
        if np.abs(ahead - behind).max() > 1e-5:
            continue  # a kink
        compared += 1
        expected = (ahead + behind) / 2
        assert_allclose(result.jvp(d, directions), expected, atol=2e-6, err_msg=repr(case))
        v = rng.normal(size=case.scores.shape)
        gradients = result.vjp(v)
        total = (gradients["scores"] * d).sum()
        for name, change in directions.items():
            if isinstance(change, dict):
                total += sum((gradients["additional"][name][key] * change[key]).sum() for key in change)
            else:
                total += (gradients["additional"][name] * change).sum()
        assert total == pytest.approx((v * expected).sum(), abs=1e-5)
        averaged = result.vjp(v, method="average", max_iter=200_000)
        assert_allclose(averaged["scores"], gradients["scores"], atol=1e-6)
    assert compared > 6


def six_kinds(as_logic):
    """Six kinds of structures, coupled by budgets; those that logic factors can say are logic if `as_logic`."""
    graph = FactorGraph()
    simplex, subset, matching = (
        graph.variables(4, name="a"),
        graph.variables(4, name="b"),
        graph.variables((3, 3), name="c"),
    )
    chain, tree, path = (
        graph.variables(shape, name=name) for shape, name in (((3, 2), "d"), ((3, 2), "e"), ((3, 3), "f"))
    )
    graph.add(StructureFactor(LinearChain(), chain), StructureFactor(DependencyTree(), tree))
    graph.add(StructureFactor(Alignment(), path))
    if as_logic:
        graph.add(Xor(simplex), Budget(subset, 2), *[Xor(line) for line in (*matching, *matching.T)])
    else:
        graph.add(StructureFactor(Simplex(), simplex), StructureFactor(Subset(0, 2), subset))
        graph.add(StructureFactor(Matching(), matching))
    graph.add(AtMostOne([simplex[0], subset[0], matching[0, 0]]), AtMostOne([chain[1, 1], tree[0, 1], path[1, 1]]))
    graph.add(Imply([matching[1, 1], chain[0, 0]]), Imply([path[1, 0], subset[1]]))
    return graph


@pytest.mark.parametrize("solver", ["newton", "block"])
def test_a_graph_can_hold_any_number_of_kinds_of_structures(solver):
    rng = np.random.default_rng(12)
    graph, logic = six_kinds(False), six_kinds(True)
    n_mixed = 0
    for scale in (0.5, 1.0, 3.0):
        scores, v = ({name: scale * rng.normal(size=shape) for name, shape in graph.shapes.items()} for _ in range(2))
        result, expected = (lp_sparsemap(g, scores, solver=s, tol=1e-9) for g, s in ((graph, solver), (logic, "auto")))
        gradients, wanted = result.vjp(v)["scores"], expected.vjp(v)["scores"]
        for name in scores:
            assert_allclose(result.marginals[name], expected.marginals[name], atol=1e-6)
            assert_allclose(gradients[name], wanted[name], atol=1e-5)
            n_mixed += np.count_nonzero(np.abs(result.marginals[name] - 0.5) < 0.49)
    assert n_mixed > 30


@pytest.mark.parametrize("solver", ["auto", "block", "admm"])
def test_one_factor_is_sparsemap(solver):
    rng = np.random.default_rng(3)
    for structure, shape, given in [
        (Simplex(), (5,), {}),
        (LinearChain(), (5, 3), {"transitions": rng.normal(size=(3, 3)), "start": rng.normal(size=3)}),
        (DependencyTree(), (5, 4), {}),
        (Matching(), (3, 4), {}),
        (Subset(1, 2), (5,), {}),
    ]:
        graph = FactorGraph()
        u = graph.variables(shape)
        graph.add(StructureFactor(structure, u, name="all"))
        scores, v = rng.normal(size=shape), rng.normal(size=shape)
        expected = sparsemap(structure, scores, **given)
        result = lp_sparsemap(graph, scores, additional={"all": given}, solver=solver)
        assert_allclose(result.marginals, expected.marginals, atol=1e-7)
        assert result.objective == pytest.approx(expected.objective, abs=1e-7)
        assert result.converged and result.n_iter <= 2
        gradients, wanted = result.vjp(v), expected.vjp(v)
        assert_allclose(gradients["scores"], wanted["scores"], atol=1e-8)
        for name in given:
            assert_allclose(gradients["additional"]["all"][name], wanted[name], atol=1e-8)
        found = result.structures["all"]
        assert sum(p for _, p in found) == pytest.approx(1.0)
        assert_array_equal(found[0][0], expected.structures[0])
        # A negated part is what its opposite is not.
        graph = FactorGraph()
        opposite = graph.variables(shape)
        graph.add(StructureFactor(structure, ~opposite, name="all"))
        result = lp_sparsemap(graph, 1 - scores, additional={"all": given}, solver=solver)
        assert_allclose(1 - result.marginals, expected.marginals, atol=1e-7)


def test_coarse_matching_equals_fine_matching():
    rng = np.random.default_rng(4)
    for shape in [(5, 5), (4, 7)]:
        scores = rng.normal(size=shape)
        coarse, fine = FactorGraph(), FactorGraph()
        coarse.add(StructureFactor(Matching(), coarse.variables(shape)))
        u = fine.variables(shape)
        fine.add(*[Xor(row) for row in u])
        fine.add(*[Xor(column) if shape[0] == shape[1] else AtMostOne(column) for column in u.T])
        a, b = lp_sparsemap(coarse, scores), lp_sparsemap(fine, scores)
        assert_allclose(a.marginals, b.marginals, atol=1e-9)
        v = rng.normal(size=shape)
        assert_allclose(a.vjp(v)["scores"], b.vjp(v)["scores"], atol=1e-9)


def test_tree_shaped_pairs_equal_the_chain():
    # A chain of two states penalises both of them: twice the graph's problem, but for what is linear.
    rng = np.random.default_rng(5)
    for _ in range(10):
        n = int(rng.integers(2, 8))
        graph = FactorGraph()
        u = graph.variables(n)
        graph.add(Pair(u[:-1], u[1:], name="pairs"))
        scores, pairs = rng.normal(size=n), rng.normal(size=n - 1)
        transitions = np.zeros((n - 1, 2, 2))
        transitions[:, 1, 1] = 2 * pairs
        chain = sparsemap(LinearChain(), np.stack([np.zeros(n), 2 * scores - 1], axis=1), transitions=transitions)
        for solver in ("auto", "pairwise", "block"):
            result = lp_sparsemap(graph, scores, additional={"pairs": pairs}, solver=solver, tol=1e-9)
            assert_allclose(result.marginals, chain.marginals[:, 1], atol=1e-8)


def test_reference_graphs():
    reference = np.load(DATA / "graphs.npz")
    for case in sorted({key.split("__")[0] for key in reference}):
        arrays = {key.split("__")[1]: reference[key] for key in reference if key.startswith(case + "__")}
        scores, additional = arrays["scores"], None
        graph = FactorGraph()
        u = graph.variables(scores.shape)
        if case.startswith("birkhoff"):
            graph.add(*[Xor(row) for row in u], *[Xor(column) for column in u.T])
        elif case.startswith("lpmatching"):
            graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
        elif case.startswith("pairwise"):
            i, j = np.triu_indices(len(scores), 1)
            graph.add(Pair(u[i], u[j], name="given"))
            additional = {"given": arrays["additional_scores"]}
        elif case.startswith("lpsequence"):
            graph.add(StructureFactor(LinearChain(), u, name="given"), *[AtMostOne(column) for column in u.T])
            additional = {"given": {"transitions": arrays["additional_scores"]}}
        else:
            budget, n = int(case.split("_B")[1].split("_")[0]), scores.shape[1]
            graph.add(StructureFactor(DependencyTree(), u))
            graph.add(*[Budget(u[h, [m for m in range(n) if m != h - 1]], budget) for h in range(1, n + 1)])
        for solver in ("auto", "block"):
            result = lp_sparsemap(graph, scores, additional=additional, solver=solver)
            assert result.converged
            assert_allclose(result.marginals, arrays["marginals"], atol=1e-6, err_msg=case)
            gradients = result.vjp(arrays["v"])
            assert_allclose(gradients["scores"], arrays["grad_scores"], atol=1e-9, err_msg=case)
            if additional is not None:
                given = gradients["additional"]["given"]
                given = given["transitions"] if isinstance(given, dict) else given
                assert_allclose(given.ravel(), arrays["grad_additional_scores"].ravel(), atol=1e-9, err_msg=case)


def test_matching_of_20_takes_few_sweeps():
    scores = 3 * np.random.default_rng(6).normal(size=(20, 20))
    graph = FactorGraph()
    u = graph.variables((20, 20))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    for solver in ("auto", "block"):
        result = lp_sparsemap(graph, scores, solver=solver, tol=1e-9, max_iter=149)
        assert result.converged and result.residual <= 1e-9


def test_batches_threads_and_warm_starts():
    rng = np.random.default_rng(7)
    graph = FactorGraph()
    u, w = graph.variables((3, 4), name="u"), graph.variables(2, name="w")
    graph.add(*[Xor(row) for row in u], Imply([u[0, 0], w[0]]), Pair(u[0], u[1], name="pairs"))
    graph.add(StructureFactor(LinearChain(), u[1:], name="chain"))
    scores = [{"u": rng.normal(size=(3, 4)), "w": rng.normal(size=2)} for _ in range(9)]
    own = [{"pairs": rng.normal(size=4), "chain": {"transitions": rng.normal(size=(4, 4))}} for _ in range(9)]
    for solver in ("auto", "block", "admm"):
        options = {"solver": solver, "max_iter": 50_000}
        many = lp_sparsemap(graph, scores, additional=own, **options)
        for result, s, a in zip(many, scores, own, strict=True):
            alone = lp_sparsemap(graph, s, additional=a, **options)
            assert_array_equal(alone.marginals["u"], result.marginals["u"])
            assert alone.gap == result.gap and set(alone.marginals) == {"u", "w"}
        threads = lp_sparsemap(graph, scores, additional=own, n_jobs=2, **options)
        assert all(np.array_equal(a.marginals["u"], b.marginals["u"]) for a, b in zip(many, threads, strict=True))
        warm = lp_sparsemap(graph, scores, additional=own, warm_start=many, **options)
        assert sum(r.n_iter for r in warm) < 0.5 * sum(r.n_iter for r in many)
        for a, b in zip(many, warm, strict=True):
            assert_allclose(a.marginals["u"], b.marginals["u"], atol=1e-5)
    gradients = many[0].vjp({"u": np.ones((3, 4)), "w": np.zeros(2)})
    assert set(gradients["scores"]) == {"u", "w"} and set(gradients["additional"]) == {"pairs", "chain"}
    # One set of additional scores for all, and pairs that share one score.
    shared = lp_sparsemap(graph, scores, additional=own[0])
    assert_array_equal(shared[0].marginals["u"], lp_sparsemap(graph, scores[0], additional=own[0]).marginals["u"])
    one = lp_sparsemap(graph, scores, additional={"pairs": 0.5})
    each = lp_sparsemap(graph, scores, additional={"pairs": np.full(4, 0.5)})
    assert_array_equal(one[3].marginals["u"], each[3].marginals["u"])
    v = {"u": rng.normal(size=(3, 4)), "w": np.zeros(2)}
    total = each[3].vjp(v)["additional"]["pairs"].sum()
    assert one[3].vjp(v)["additional"]["pairs"] == pytest.approx(total)
    again = pickle.loads(pickle.dumps(many[0]))
    assert_allclose(again.vjp(v)["scores"]["u"], many[0].vjp(v)["scores"]["u"], atol=1e-9)
    layout = pickle.loads(pickle.dumps(graph)).layout({"pairs": (4,), "chain": {}})
    assert_array_equal(layout.arrays.links[:4], range(4))
    with pytest.raises(ValueError, match="warm_start holds 1 results for 9"):
        lp_sparsemap(graph, scores, additional=own, warm_start=many[:1])
    with pytest.raises(ValueError, match="not a result of this graph"):
        lp_sparsemap(graph, scores[0], additional=own[0], warm_start=[3])


@pytest.mark.parametrize("solver", ["auto", "block", "admm"])
def test_forbidden_variables(solver):
    rng = np.random.default_rng(8)
    for _ in range(10):
        graph, smaller = FactorGraph(), FactorGraph()
        u = graph.variables(5)
        graph.add(Xor(u[:3]), Pair(u[1:4], u[2:5], name="pairs"), XorOut([u[0], u[3], u[4]]))
        scores, pairs = rng.normal(size=5), rng.normal(size=3)
        scores[0] = -np.inf
        options = {"additional": {"pairs": pairs}, "solver": solver, "max_iter": 20_000}
        result = lp_sparsemap(graph, scores, **options)
        w = smaller.variables(4)
        smaller.add(Xor(w[:2]), Pair(w[:3], w[1:], name="pairs"), XorOut([w[2], w[3]]))
        expected = lp_sparsemap(smaller, scores[1:], **options)
        assert result.marginals[0] == 0.0 and result.converged
        assert_allclose(result.marginals[1:], expected.marginals, atol=1e-5)
        assert result.objective == pytest.approx(expected.objective, abs=1e-5)
        assert result.vjp(np.ones(5))["scores"][0] == 0.0
    chain = FactorGraph()
    c = chain.variables((3, 2))
    chain.add(StructureFactor(LinearChain(), c), Budget(c[:, 1], 2))
    result = lp_sparsemap(chain, [[0, -np.inf], [0, 5], [0, 5]], solver=solver)
    assert_allclose(result.marginals, [[1, 0], [0, 1], [0, 1]], atol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "block", "admm"])
def test_a_structure_has_the_parts_whose_variables_are_forbidden(solver):
    rng = np.random.default_rng(16)
    options = {"solver": solver, "tol": 1e-7, "max_iter": 20_000}
    for structure, shape, must, rivals in [
        (LinearChain(), (3, 3), (1, 2), [(1, 0), (1, 1)]),
        (DependencyTree(), (4, 3), (2, 0), [(0, 0), (3, 0)]),
        (Matching(), (3, 3), (0, 1), [(0, 0), (0, 2), (1, 1), (2, 1)]),
    ]:
        graph, negated = FactorGraph(), FactorGraph()
        u, off = graph.variables(shape), negated.variables(shape)
        graph.add(StructureFactor(structure, u, name="s"), Budget(u[0], 1))
        negated.add(StructureFactor(structure, ~off, name="s"), Budget(~off[0], 1))
        for scale in (1.0, 10.0):
            scores = scale * rng.normal(size=shape)
            additional = {"s": {"transitions": scale * rng.normal(size=(3, 3))} if shape == (3, 3) else {}}
            if not isinstance(structure, LinearChain):
                additional = None
            without, forced = scores.copy(), 1.0 - scores
            for rival in rivals:
                without[rival] = -np.inf
            forced[must] = -np.inf
            expected = lp_sparsemap(graph, without, additional=additional, **options)
            result = lp_sparsemap(negated, forced, additional=additional, **options)
            assert result.converged and result.marginals[must] == 0.0
            assert_allclose(1.0 - result.marginals, expected.marginals, atol=1e-5)
            v = rng.normal(size=shape)
            assert_allclose(result.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-6)
            best = map_inference(graph, without, additional=additional).structure
            assert_array_equal(~map_inference(negated, forced, additional=additional).structure, best)
        forced[rivals[0]] = -np.inf
        with pytest.raises(ValueError, match="infeasible"):
            lp_sparsemap(negated, forced, additional=additional, **options)


@pytest.mark.parametrize("kind", RANDOM_GRAPHS)
def test_the_gap_is_never_negative(kind):
    rng = np.random.default_rng(12)
    for solver in ("auto", "block", "admm"):
        for _ in range(8):
            assert solve(RANDOM_GRAPHS[kind](rng, 3.0), solver=solver, max_iter=200).gap >= 0.0


def test_derivatives_at_ties_are_those_of_one_matrix():
    # Pairs without a score between equal ends: where learning starts.
    rng = np.random.default_rng(13)
    for _ in range(10):
        graph = FactorGraph()
        u = graph.variables(6)
        i, j = np.triu_indices(6, 1)
        graph.add(Pair(u[i], u[j], name="pairs"), Budget(u[:2], 1))
        scores, zeros = np.repeat(rng.choice([0.25, 0.5], size=2), 3), np.zeros(len(i))
        result = lp_sparsemap(graph, scores, additional={"pairs": zeros})
        v, d, changes = rng.normal(size=6), rng.normal(size=6), rng.normal(size=len(i))
        gradients = result.vjp(v)
        total = gradients["scores"] @ d + gradients["additional"]["pairs"] @ changes
        assert v @ result.jvp(d, {"pairs": changes}) == pytest.approx(total, abs=1e-10)


def test_derivatives_do_not_depend_on_the_unit_of_scores():
    # Factors that allow all variables to be off, and no others that matter near that: solutions grow with the scores.
    rng = np.random.default_rng(14)
    for solver in ("auto", "block"):
        for _ in range(40):
            graph = FactorGraph()
            u = graph.variables(6)
            for kind in rng.choice([AtMostOne, Imply, OrOut, XorOut, AndOut], size=4):
                graph.add(kind(u[rng.permutation(6)[: rng.integers(2, 5)]]))
            graph.add(Pair(u[:3], u[3:], name="pairs"))
            scores, pairs, v = rng.normal(size=6), rng.normal(size=3), rng.normal(size=6)
            large, small = (
                lp_sparsemap(graph, size * scores, additional={"pairs": size * pairs}, solver=solver).vjp(v)
                for size in (1e-2, 1e-8)
            )
            assert_allclose(small["scores"], large["scores"], atol=1e-7)
            assert_allclose(small["additional"]["pairs"], large["additional"]["pairs"], atol=1e-7)


@pytest.mark.parametrize("solver", ["auto", "block", "admm"])
def test_contradictions_are_named(solver):
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(Xor(u[:2]), Xor(u[2:]), Budget(u, 1))
    named = r"infeasible: under scores .*no marginals satisfy all factors.* each other: .*AtMost\(\[u\[0\]"
    with pytest.raises(ValueError, match=named):
        lp_sparsemap(graph, np.zeros(4), solver=solver, max_iter=5000)
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u))
    with pytest.raises(ValueError, match=r"under scores\[1\].*contradict each other: Exactly\("):
        lp_sparsemap(graph, [np.zeros(3), np.full(3, -np.inf)], solver=solver)
    graph.add(Budget(u, 0))
    with pytest.raises(ValueError, match="infeasible"):
        lp_sparsemap(graph, np.zeros(3), solver=solver, max_iter=5000)
    chain = FactorGraph()
    c = chain.variables((3, 2))
    chain.add(StructureFactor(LinearChain(), c, name="chain"), Budget(c[:, 0], 1), Budget(c[:, 1], 1))
    with pytest.raises(ValueError, match="infeasible"):
        lp_sparsemap(chain, np.zeros((3, 2)), solver=solver, max_iter=5000)
    chain = FactorGraph()
    c = chain.variables((3, 2))
    chain.add(StructureFactor(LinearChain(), c, name="chain"), Or(c[:, 1]))
    with pytest.raises(ValueError, match="infeasible"):
        lp_sparsemap(chain, [[-np.inf, -np.inf], [0, 0], [0, 0]], solver=solver)


def test_hostile_numbers():
    graph = FactorGraph()
    u = graph.variables(6)
    graph.add(Xor(u[:3]), AtMostOne(u[2:]), Pair(u[:1], u[5:], name="pairs"))
    for solver in ("auto", "block"):
        # The variables of one block move by 1 in a sweep at most, so that "block" is not for such scores.
        for scale in (0.0, 1e-8, 1.0) + (1e4, 1e8) * (solver == "auto"):
            result = lp_sparsemap(graph, np.arange(6.0) * scale, additional={"pairs": [scale]}, solver=solver)
            assert result.converged
            assert result.marginals[:3].sum() == pytest.approx(1.0, abs=1e-6)
            assert np.isfinite(result.vjp(np.ones(6))["scores"]).all()
        # The score of the pair makes up for what u[0] lacks.
        if scale > 0.5:
            assert_allclose(result.marginals, [0.5, 0.5, 0, 0, 0, 1], atol=1e-6)
    alone = FactorGraph()
    alone.variables(4)
    result = lp_sparsemap(alone, [-1.0, 0.25, 3.0, -np.inf])
    assert_array_equal(result.marginals, [0.0, 0.25, 1.0, 0.0])
    assert_array_equal(result.vjp(np.ones(4))["scores"], [0, 1, 0, 0])
    assert result.converged and not result.integral


def test_arrays_that_are_left_out_of_derivatives_are_zero_and_of_scores_must_be_said_to_be():
    graph = FactorGraph()
    u, w = graph.variables(3, name="u"), graph.variables((2, 2), name="w")
    graph.add(Xor([u[0], w[0, 0], w[1, 1]]), Budget(u, 2), Pair(u[:2], w[0], name="pairs"))
    rng = np.random.default_rng(0)
    zeros = {"u": np.zeros(3), "w": np.zeros((2, 2))}
    whole = {"u": rng.normal(size=3), "w": rng.normal(size=(2, 2))}
    pairs = {"pairs": [0.3, -0.4]}
    for names in [("u",), ("w",), ()]:
        some = {name: whole[name] for name in names}
        filled, declared = {**zeros, **some}, {"u": 0.0, "w": 0, **some}
        results = [lp_sparsemap(graph, scores, additional=pairs) for scores in (declared, filled)]
        for name in zeros:
            assert_array_equal(results[0].marginals[name], results[1].marginals[name])
        best = [map_inference(graph, scores, additional=pairs) for scores in (declared, filled)]
        with pytest.raises(ValueError, match=f"scores has no '{next(name for name in zeros if name not in names)}'"):
            lp_sparsemap(graph, some, additional=pairs)
        assert best[0].value == best[1].value
        result = lp_sparsemap(graph, whole, additional=pairs)
        for name in zeros:
            found, wanted = result.vjp(some), result.vjp(filled)
            assert_array_equal(found["scores"][name], wanted["scores"][name])
            assert_array_equal(found["additional"]["pairs"], wanted["additional"]["pairs"])
            assert_array_equal(result.jvp(some)[name], result.jvp(filled)[name])
    several = lp_sparsemap(graph, [{"u": whole["u"], "w": 0.0}, {"u": 0.0, "w": whole["w"]}], additional=pairs)
    assert len(several) == 2
    with pytest.raises(ValueError, match=r"v names 'x', which the graph does not have; there are \['u', 'w'\]"):
        result.vjp({"x": 1.0})


@pytest.mark.parametrize("budget", [4, 5, 10**12])
@pytest.mark.parametrize("solver", ["newton", "block", "admm"])
def test_a_budget_that_always_holds(budget, solver):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=5)
    found = []
    for has_budget in (False, True):
        graph = FactorGraph()
        u = graph.variables(5)
        graph.add(Xor([~u[0], u[3], u[4]]))
        if has_budget:
            graph.add(Budget(u[:4], budget))
            graph.add(Budget([~u[0], u[1]], budget))
        result = lp_sparsemap(graph, scores, solver=solver)
        assert result.converged
        found.append((result.marginals, result.vjp(scores)["scores"], map_inference(graph, scores).structure))
    for one, other in zip(*found, strict=True):
        assert_allclose(one, other, atol=1e-6)


def test_complex_numbers_are_refused():
    graph = FactorGraph()
    u = graph.variables((2, 3), name="links")
    graph.add(Pair(u[0], u[1], name="pairs"), StructureFactor(LinearChain(), u, name="chain"))
    scores, pairs = np.eye(2, 3), {"pairs": np.zeros(3)}
    result = lp_sparsemap(graph, scores, additional=pairs)
    for function in (
        lambda: lp_sparsemap(graph, scores * 1j, additional=pairs),
        lambda: lp_sparsemap(graph, [scores, scores * 1j], additional=pairs),
        lambda: lp_sparsemap(graph, scores.astype(complex).tolist(), additional=pairs),
        lambda: lp_sparsemap(graph, scores, additional={"pairs": 1j}),
        lambda: lp_sparsemap(graph, scores, additional={**pairs, "chain": {"transitions": np.eye(3) * 1j}}),
        lambda: map_inference(graph, scores * 1j, additional=pairs),
        lambda: result.vjp(scores * 1j),
        lambda: result.jvp(scores * 1j),
        lambda: result.jvp(additional={"pairs": 1j}),
        lambda: Knapsack(u[0], [1j, 1.0, 1.0], 2.0),
    ):
        with pytest.raises(ValueError, match="Complex data not supported"):
            function()


def test_wrong_input_is_refused():
    graph = FactorGraph()
    u = graph.variables((2, 3), name="links")
    graph.add(Pair(u[0], u[1], name="pairs"), StructureFactor(LinearChain(), u, name="chain"))
    good, pairs = np.zeros((2, 3)), {"pairs": np.zeros(3)}
    for scores, additional, options, message in [
        (good, None, {}, "'pairs' need scores"),
        (good, {"pairs": np.zeros(2)}, {}, r"shape \(2,\)"),
        (good, {"pairs": [0, np.nan, 0]}, {}, "contains nan; pair scores must be finite"),
        (good, {"pairs": [0, -1e308, 0]}, {}, r"beyond 1e\+100"),
        (good, {"pairs": [0, -np.inf, 0]}, {}, "AtMostOne"),
        (good, {**pairs, "other": 1}, {}, "names 'other'"),
        (good, {**pairs, "chain": np.zeros((3, 3))}, {}, "must be a dict"),
        (good, {**pairs, "chain": {"transitions": np.zeros((2, 2))}}, {}, r"shape \(2, 2\)"),
        (good, {**pairs, "chain": {"stay": np.zeros((2, 2))}}, {}, "no additional scores named 'stay'"),
        (good, [pairs, pairs], {}, "list of 2 for one sample"),
        ([good, good], [pairs], {}, "list of 1 for 2"),
        ([good, good], [{"pairs": 0.0}, pairs], {}, "make all alike"),
        ([good, good], [pairs, {}], {}, r"additional\[1\]: the pairs named 'pairs' need scores"),
        (np.zeros((3, 3)), pairs, {}, r"scores has shape \(3, 3\)"),
        (np.zeros(3), pairs, {}, "2 axes"),
        ([good, np.zeros((3, 3))], pairs, {}, r"scores\[1\] has shape"),
        ([], pairs, {}, "at least one sample"),
        (good + np.nan, pairs, {}, r"scores\[0, 0\] is nan"),
        (good + np.inf, pairs, {}, "inf"),
        ({"link": good}, pairs, {}, r"names 'link', which the graph does not have; there are \['links'\]"),
        ({"links": good, "more": good}, pairs, {}, "names 'more'"),
        (good, pairs, {"solver": "fast"}, "solver='fast'"),
        (good, pairs, {"solver": "pairwise"}, "whose factors are all Pair"),
        (None, pairs, {}, "scores must be an array"),
        (good, pairs, {"warm_start": 3}, "warm_start must be"),
        (good + 1j, pairs, {}, "complex"),
        (good, pairs, {"tol": 0}, "tol must be"),
        (good, pairs, {"max_iter": 0}, "max_iter must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            lp_sparsemap(graph, scores, additional=additional, **options)
    with pytest.raises(ValueError, match="must be a FactorGraph"):
        lp_sparsemap(LinearChain(), good)
    with pytest.raises(ValueError, match="no variables"):
        lp_sparsemap(FactorGraph(), good)
    with pytest.raises(TypeError, match=r"additional=\{'pairs': ...\}"):
        map_inference(graph, good, pairs=np.zeros(3))
    result = lp_sparsemap(graph, good, additional=pairs)
    with pytest.raises(ValueError, match="v has shape"):
        result.vjp(np.zeros(3))
    with pytest.raises(ValueError, match="method="):
        result.vjp(good, method="exact")
    with pytest.raises(ValueError, match="no additional scores named"):
        result.jvp(additional={"other": 1})
    shared = FactorGraph()
    s = shared.variables((2, 2))
    shared.add(StructureFactor(LinearChain(), s), StructureFactor(LinearChain(), s.T))
    with pytest.raises(ValueError, match="no variable is in two structures"):
        lp_sparsemap(shared, np.zeros((2, 2)), solver="newton")


@pytest.mark.parametrize("kind", RANDOM_GRAPHS)
def test_map_equals_enumeration(kind):
    rng = np.random.default_rng(10)
    fractional = compared = 0
    while compared < 12:
        case = RANDOM_GRAPHS[kind](rng)
        if case.scores.size > 9:
            continue
        compared += 1
        result = map_inference(case.graph, case.scores, additional=case.additional)
        best = best_value(case)
        assert result.value == pytest.approx(best, abs=1e-7)
        assert result.bound == pytest.approx(best, abs=1e-6)
        assert result.structure.dtype == bool and result.structure.shape == case.scores.shape
        # The structure has the value: it is the only one left where all others are forbidden or paid for.
        forced = np.where(result.structure, case.scores + 100, -np.inf)
        again = map_inference(case.graph, forced, additional=case.additional)
        assert_array_equal(again.structure, result.structure)
        assert again.value - 100 * result.structure.sum() == pytest.approx(best, abs=1e-6)
        fractional += not result.integral
    assert fractional > 0 or kind not in ("logic", "shared structures")


def test_map_of_batches_and_forbidden_variables():
    graph = FactorGraph()
    u, w = graph.variables(2), graph.variables(2, name="w")
    graph.add(Xor(u), Imply([u[0], w[0]]), Pair(u, w, name="pairs"))
    many = [{"u": [1.0, 0.0], "w": [-3.0, 0.0]}, {"u": [-np.inf, -5.0], "w": [1.0, 1.0]}]
    first, second = map_inference(graph, many, additional={"pairs": [0.0, 1.0]})
    assert first.structure["u"].tolist() == [False, True] and first.structure["w"].tolist() == [False, True]
    assert (first.value, second.value) == (pytest.approx(1.0), pytest.approx(-2.0))
    assert first.integral and set(first.marginals) == {"u", "w"}
    with pytest.raises(ValueError, match=r"under scores\[1\]"):
        map_inference(graph, [many[0], {"u": [-np.inf, -np.inf], "w": [0, 0]}], additional={"pairs": 0.0})


def test_map_of_contradictions_that_fractions_satisfy():
    graph = FactorGraph()
    u = graph.variables(5)
    graph.add(Xor([u[0], u[1]]), Xor([u[1], u[2]]), Xor([u[2], u[0]]), Xor(u[3:]))
    assert_allclose(lp_sparsemap(graph, np.zeros(5)).marginals, 0.5)
    named = r"infeasible: under scores .*no assignment satisfies all factors.*: Exactly\(\[u\[0\], u\[1\]\], 1\)"
    with pytest.raises(ValueError, match=named):
        map_inference(graph, [0.3, 0.2, 0.1, 1.0, 0.0])
    with pytest.raises(ValueError, match=r"infeasible: under scores\[0\]"):
        map_inference(graph, np.zeros((2, 5)))


def test_map_with_negated_parts_of_structures():
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(AndOut([u[3], u[2]]), StructureFactor(Matching(), ~u[np.array([[3, 1], [0, 2]])]))
    assert map_inference(graph, np.zeros(4)).value == pytest.approx(0.0)
    graph.add(AndOut([~u[0], u[3], u[1], ~u[2]]), Pair(u[3:], ~u[2:3], name="p"))
    result = map_inference(graph, np.zeros(4), additional={"p": 0.23859})
    assert result.value == pytest.approx(0.0, abs=1e-6) and result.bound == pytest.approx(0.0, abs=1e-6)


def timetable(kept=None):
    """Seven lessons for two slots, because only the last of five days is open; the names of the rules to keep."""
    graph = FactorGraph()
    lesson, opened = graph.variables((7, 10), name="lesson"), graph.variables(5, name="open")
    rules = {f"lesson {number}": Xor(slots, name=f"lesson {number}") for number, slots in enumerate(lesson)}
    rules |= {f"room {slot}": AtMostOne(lessons, name=f"room {slot}") for slot, lessons in enumerate(lesson.T)}
    for d, day in enumerate(opened):
        rules[f"day {d}"] = OrOut([*lesson[:, 2 * d], *lesson[:, 2 * d + 1], day], name=f"day {d}")
    rules["heating"] = Knapsack(opened, [1.5, 1.0, 1.0, 1.0, 2.0], 5.0, name="heating")
    rules["closed"] = Budget(opened[:4], 0, name="closed")
    graph.add(*[rule for name, rule in rules.items() if kept is None or name in kept])
    return graph


@pytest.mark.parametrize(
    "solve_it",
    [lp_sparsemap, partial(lp_sparsemap, solver="block", max_iter=5000), map_inference],
)
def test_contradictions_are_minimal(solve_it):
    scores = {"lesson": np.random.default_rng(0).normal(size=(7, 10)), "open": np.full(5, -1.0)}
    with pytest.raises(ValueError, match="contradict each other") as error:
        solve_it(timetable(), scores)
    named = re.findall(r"'((?:lesson|room|day|heating|closed)[ 0-9]*)' \(", str(error.value))
    # Three lessons for two slots.
    lessons = [name for name in named if name.startswith("lesson")]
    assert len(lessons) == 3 and len(named) == len(set(named))
    assert {*named} - {*lessons} == {"room 8", "room 9", "closed", "day 0", "day 1", "day 2", "day 3"}
    # Without any of these rules there are marginals.
    for name in named:
        assert lp_sparsemap(timetable({*named} - {name}), scores).residual < 1e-4


def test_forbidden_variables_count_in_contradictions():
    graph = FactorGraph()
    u = graph.variables(6)
    graph.add(Xor(u[:3], name="first"), Xor(u[3:], name="second"), Budget(u, 2, name="two"))
    scores = np.array([-np.inf, -np.inf, 1.0, -np.inf, -np.inf, -np.inf])
    with pytest.raises(ValueError, match=r"contradict each other: 'second' \(Exactly\([^']*\)\)\. Remove"):
        lp_sparsemap(graph, scores, solver="block")


def test_large_scores_are_certified_honestly():
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u))
    for size in (1e8, 1e12, 1e16, 1e100):
        result = lp_sparsemap(graph, [size, -size, 1.0])
        assert result.converged and result.residual <= 1e-6
        assert_allclose(result.marginals, [1.0, 0.0, 0.0], atol=1e-6)
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(Xor(u[:2]), Or(u[2:]), Budget(u, 1))
    rng = np.random.default_rng(11)
    for solver in ("auto", "block"):
        for scale in (1e3, 1e6):
            for _ in range(5):
                with pytest.raises(ValueError, match="contradict each other"):
                    lp_sparsemap(graph, scale * rng.normal(size=4), solver=solver)
    # Feasible ones are solved, whatever the scale.
    case = random_matching(rng)
    for solver in ("auto", "block"):
        assert lp_sparsemap(case.graph, 1e4 * case.scores, solver=solver).converged


@pytest.mark.parametrize("solver", ["auto", "block"])
def test_large_negative_scores_are_as_good_as_infinite_ones(solver):
    rng = np.random.default_rng(17)
    compared = refused = 0
    for kind in RANDOM_GRAPHS:
        for size in (1e6, 1e9, 1e12, 1e16, 1e50):
            case = RANDOM_GRAPHS[kind](rng)
            masked = rng.random(case.scores.shape) < 0.3
            # Equal ones, and ones of very different sizes.
            values = -size if rng.random() < 0.5 else -(10.0 ** rng.uniform(5, np.log10(size), size=masked.shape))
            options = {"additional": case.additional, "solver": solver, "max_iter": 20_000}
            finite, infinite = np.where(masked, values, case.scores), np.where(masked, -np.inf, case.scores)
            try:
                expected = lp_sparsemap(case.graph, infinite, **options)
            except ValueError:
                refused += 1
                try:
                    result = lp_sparsemap(case.graph, finite, **options)
                except ValueError:
                    continue
                # Violations that cannot be avoided are shared as the factors say.
                assert not result.converged or off_factors(case, result) <= 1e-6
                continue
            result = lp_sparsemap(case.graph, finite, **options)
            compared += 1
            assert result.converged
            assert_allclose(result.marginals, expected.marginals, atol=1e-6)
            assert result.objective == pytest.approx(expected.objective, abs=1e-5)
            v = rng.normal(size=masked.shape)
            assert_allclose(result.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-5)
            if case.scores.size <= 9:
                found = map_inference(case.graph, finite, additional=case.additional)
                best = map_inference(case.graph, infinite, additional=case.additional)
                assert found.value == pytest.approx(best.value, abs=1e-6)
                assert found.bound == pytest.approx(best.bound, abs=1e-5)
    assert compared >= 20 and refused >= 2


def test_values_under_masks_have_all_digits():
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor([~u[0], ~u[1], ~u[2]]))
    for mask in (-1e5, -1e10, -1e13, -1e16, -3.4e38, -1e99):
        found, relaxed = (function(graph, [0.169, 0.282, mask]) for function in (map_inference, lp_sparsemap))
        assert found.value == found.bound == pytest.approx(0.451, abs=1e-14)
        assert relaxed.objective == pytest.approx(0.451 - 1.0, abs=1e-14)
    rng, compared = np.random.default_rng(5), 0
    for kind in RANDOM_GRAPHS:
        for size in (1e6, 1e10, 1e13, 1e16, 1e50):
            case = RANDOM_GRAPHS[kind](rng)
            masked = rng.random(case.scores.shape) < 0.3
            if case.scores.size > 9:
                continue
            given = case.scores
            case.scores = np.where(masked, -1e6, given)
            best = best_value(case)
            if best < -1e5:
                continue
            case.scores, finite = (np.where(masked, mask, given) for mask in (-np.inf, -size))
            found = map_inference(case.graph, finite, additional=case.additional)
            assert found.value == pytest.approx(best, abs=1e-12)
            assert found.value <= found.bound <= best + 1e-6
            relaxed, expected = (
                lp_sparsemap(case.graph, scores, additional=case.additional) for scores in (finite, case.scores)
            )
            assert relaxed.objective == pytest.approx(expected.objective, abs=1e-9)
            compared += 1
    assert compared >= 8


def test_large_scores_in_common_are_taken_away():
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(Xor(u[:3]), Imply([u[0], u[3]]))
    for size in (1e6, 1e12, 1e16, 1e99):
        result = lp_sparsemap(graph, [-size, -size, -size, 0.2])
        assert result.converged
        assert_allclose(result.marginals, [0.28, 0.36, 0.36, 0.28], atol=1e-9)
        result = lp_sparsemap(graph, [size, size, 0.0, 0.2])
        assert_allclose(result.marginals, [0.4, 0.6, 0.0, 0.4], atol=1e-9)
        assert result.objective == pytest.approx(size - 0.26, rel=1e-12)
        # One that is warm, and one for which nothing is in common.
        again = lp_sparsemap(graph, [size, size, 0.0, 0.2], warm_start=result)
        assert_allclose(again.marginals, result.marginals, atol=1e-9)
    either = FactorGraph()
    either.add(Or(either.variables(3)))
    with pytest.raises(ValueError, match=r"scores\[1\] .* so large.*use -inf"):
        lp_sparsemap(either, [np.zeros(3), np.full(3, -1e12)])


def test_scores_above_100_are_solved_by_way_of_smaller_ones():
    rng = np.random.default_rng(18)
    graph = FactorGraph()
    u = graph.variables((12, 15))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    for scale in (1e4, 1e5):
        for solver in ("auto", "block") if scale == 1e4 else ("auto",):
            result = lp_sparsemap(graph, scale * rng.normal(size=u.shape), solver=solver)
            assert result.converged and result.n_iter < 500


def test_long_paths_and_trees_of_implications():
    rng = np.random.default_rng(19)
    n = 1500
    path, tree = range(n - 1), [int(rng.integers(0, i)) for i in range(1, n)]
    for parents in (path, tree):
        graph = FactorGraph()
        u = graph.variables(n)
        graph.add(*[Imply([u[i], u[parent]]) for i, parent in enumerate(parents, start=1)])
        for scale in (1.0, 10.0):
            scores = scale * rng.normal(size=n)
            result = lp_sparsemap(graph, scores, max_iter=300)
            assert result.converged and result.residual <= 1e-9
            if parents is path:
                expected = np.clip(IsotonicRegression(increasing=False).fit_transform(np.arange(n), scores), 0, 1)
                assert_allclose(result.marginals, expected, atol=1e-8)


def test_the_unit_of_costs_does_not_matter():
    # The multiplier is 0.7: 1 - 0.7 and 2 - 2 * 0.7.
    expected = [0.3, 0.6, 0.3]
    for unit in (1e-200, 1e-12, 1.0, 1e200):
        graph = FactorGraph()
        graph.add(Knapsack(graph.variables(3), unit * np.array([1.0, 2.0, 0.0]), 1.5 * unit))
        result = lp_sparsemap(graph, [1.0, 2.0, 0.3])
        assert result.converged
        assert_allclose(result.marginals, expected, atol=1e-9)
    with pytest.raises(ValueError, match="differ by more than"):
        Knapsack(FactorGraph().variables(2), [1e-300, 1e300], 1)


def test_results_stay_what_they_were():
    graph = FactorGraph()
    u = graph.variables((2, 2))
    graph.add(Pair(u[0], u[1], name="p"))
    result = lp_sparsemap(graph, [[1, 0.2], [0.3, 0.4]], additional={"p": [0.5, -0.2]})
    before, gradient = result.marginals, result.vjp(np.ones((2, 2)))["scores"]
    result.marginals[0, 0] = 77.0
    w = graph.variables(2)
    graph.add(Pair(w[:1], u[0, :1], name="q"))
    assert w._graph.names == ["u", "u2"]
    assert_array_equal(result.marginals, before)
    assert set(result.additional_marginals) == {"p"}
    again = pickle.loads(pickle.dumps(result))
    assert_array_equal(again.vjp(np.ones((2, 2)))["scores"], gradient)
    for options in ({"tol": -1}, {"max_iter": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            result.vjp(np.ones((2, 2)), **options)
    with pytest.raises(ValueError, match="NaN"):
        result.vjp(np.full((2, 2), np.nan))


def test_custom_structures_join_graphs():
    # The best run of neighbours of length two, in plain Python.
    def best_run(scores):
        return max(([i, i + 1] for i in range(len(scores) - 1)), key=lambda p: scores[p].sum())

    structure = CustomStructure(best_run)
    graph = FactorGraph()
    u = graph.variables(5)
    graph.add(StructureFactor(structure, u, name="run"), Budget(u[:2], 1))
    result = lp_sparsemap(graph, [3.0, 3.0, 0.0, 0.0, 0.0])
    assert result.converged and result.marginals[:2].sum() == pytest.approx(1.0)
    assert {tuple(s) for s, _ in result.structures["run"]} <= {(0, 1), (1, 2), (2, 3), (3, 4)}


def test_large_graphs():
    rng = np.random.default_rng(9)
    graph = FactorGraph()
    u = graph.variables(10_000)
    pairs = rng.integers(0, 10_000, size=(100_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    graph.add(Pair(u[pairs[:, 0]], u[pairs[:, 1]], name="pairs"))
    graph.add(*[Budget(u[k : k + 10], 3) for k in range(0, 10_000, 10)])
    result = lp_sparsemap(graph, rng.normal(size=10_000), additional={"pairs": 0.1 * rng.normal(size=len(pairs))})
    assert result.converged and result.residual <= 1e-6


def two_arrays():
    graph = FactorGraph()
    a, b = graph.variables((2, 3), name="a"), graph.variables(2, name="b")
    graph.add(*[Xor(row) for row in a], Pair(a[:, 0], b, name="pairs"))
    return graph


def lp_matching(n, m):
    graph = FactorGraph()
    u = graph.variables((n, m))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(u[:, j]) for j in range(m)])
    return graph


def tree_with_budgets(n, budget):
    graph = FactorGraph()
    arcs = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), arcs), *[Budget(row, budget) for row in arcs])
    return graph


def test_derivatives_of_many_graphs_do_not_depend_on_threads():
    """With at least two graphs for each thread, graphs are shared out to threads."""
    rng = np.random.default_rng(0)
    graphs = [lp_matching(n, n + 1) for n in range(1, 6)]
    scores, vs = ([rng.normal(size=next(iter(g.shapes.values()))) for g in graphs] for _ in range(2))
    one, two = (lp_sparsemap(graphs, scores, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert_array_equal(one.vjp(vs)["scores"].values, two.vjp(vs)["scores"].values)
    assert_array_equal(one.jvp(scores=vs).values, two.jvp(scores=vs).values)


def test_a_batch_of_graphs_has_the_arrays_and_derivatives_of_its_samples():
    rng = np.random.default_rng(0)
    graphs = [lp_matching(3, 4), tree_with_budgets(4, 2)]
    chosen = [graphs[i] for i in (0, 1, 1, 0, 1)]
    scores = [rng.normal(size=next(iter(g.shapes.values()))) for g in chosen]
    batch = lp_sparsemap(chosen, scores, n_jobs=2)
    single = [lp_sparsemap(g, s) for g, s in zip(chosen, scores)]
    assert len(batch) == 5 and batch[-1] is batch[4]
    for name in ("gap", "objective", "residual", "n_iter", "converged"):
        assert_array_equal(getattr(batch, name), [getattr(r, name) for r in single])
    for i, r in enumerate(single):
        assert_array_equal(batch[i].marginals, r.marginals)
        assert_array_equal(batch.marginals[i], r.marginals.ravel())
    vs = [rng.normal(size=s.shape) for s in scores]
    found = batch.vjp(vs)
    again = batch.vjp(RaggedArray(np.concatenate([v.ravel() for v in vs]), batch.marginals.indptr))
    assert_array_equal(found["scores"].values, again["scores"].values)
    moved = batch.jvp(scores=vs)
    for i, r in enumerate(single):
        assert_allclose(found["scores"][i], r.vjp(vs[i])["scores"].ravel(), atol=1e-12)
        assert_allclose(moved[i], r.jvp(scores=vs[i]).ravel(), atol=1e-12)
    warm = lp_sparsemap(chosen, scores, warm_start=batch)
    assert_allclose(warm.marginals.values, batch.marginals.values, atol=1e-8)


@pytest.mark.parametrize("own", [False, True])
def test_a_batch_of_one_graph_sums_what_is_shared(own):
    rng, graph = np.random.default_rng(1), two_arrays()
    scores = [{"a": rng.normal(size=(2, 3)), "b": rng.normal(size=2)} for _ in range(3)]
    additional = [{"pairs": rng.normal(size=2)} for _ in scores] if own else {"pairs": rng.normal(size=2)}
    batch = lp_sparsemap(graph, scores, additional=additional)
    single = [lp_sparsemap(graph, s, additional=additional[i] if own else additional) for i, s in enumerate(scores)]
    found = batch.vjp(scores)
    expected = [r.vjp(s) for r, s in zip(single, scores)]
    for name in ("a", "b"):
        assert_array_equal(batch.marginals[name].values, np.concatenate([r.marginals[name].ravel() for r in single]))
        assert_allclose(found["scores"][name].values, np.concatenate([e["scores"][name].ravel() for e in expected]))
    each = [e["additional"]["pairs"] for e in expected]
    if own:
        assert_allclose([f["pairs"] for f in found["additional"]], each)
    else:
        assert_allclose(found["additional"]["pairs"], np.sum(each, axis=0))


def test_lists_of_graphs_say_what_is_wrong():
    graph = two_arrays()
    with pytest.raises(ValueError, match=r"graph\[1\] must be a FactorGraph"):
        lp_sparsemap([graph, None], [{}, {}])
    with pytest.raises(ValueError, match="with a list of 2 graphs, scores must be a list"):
        lp_sparsemap([graph, graph], [{}])
    given = {"additional": {"pairs": 0.0}}
    with pytest.raises(ValueError, match=r"scores\[2\]\['a'\] has shape"):
        zeros = dict.fromkeys(graph.names, 0.0)
        lp_sparsemap([graph, two_arrays(), graph], [zeros, zeros, {**zeros, "a": np.zeros((1, 3))}], **given)
    with pytest.raises(ValueError, match="holds 1 arrays for 2 samples"):
        lp_sparsemap(graph, [zeros, zeros], **given).vjp([{}])


def test_a_batch_of_graphs_of_different_forms():
    flat, square = FactorGraph(), FactorGraph()
    flat.add(Budget(flat.variables(3), 2))
    square.add(Budget(square.variables((2, 2)), 2))
    batch = lp_sparsemap([flat, square], [np.ones(3), np.ones((2, 2))])
    assert_array_equal(batch.marginals.values, np.concatenate([batch[0].marginals, batch[1].marginals.ravel()]))
    found = batch.vjp([np.arange(3.0), np.arange(4.0).reshape(2, 2)])
    assert_allclose(found["scores"][1], batch[1].vjp(np.arange(4.0).reshape(2, 2))["scores"].ravel())
    named = FactorGraph()
    named.add(Xor([named.variables(2, name="a")[0], named.variables(2, name="b")[0]]))
    batch = lp_sparsemap([flat, named], [np.ones(3), {"a": 0.0, "b": 0.0}])
    assert batch.objective.shape == (2,)
    with pytest.raises(ValueError, match="the graphs differ in their arrays of variables"):
        _ = batch.marginals


@pytest.mark.parametrize("name", RANDOM_GRAPHS)
def test_violations_are_the_factors_without_such_a_vertex(name):
    rng, n_violated = np.random.default_rng(0), 0
    for _ in range(25):
        case = RANDOM_GRAPHS[name](rng)
        y = (rng.random(case.scores.shape) < rng.choice([0.2, 0.5])).astype(int)
        if rng.random() < 0.3:
            y = map_inference(case.graph, case.scores, additional=case.additional).structure
        found = case.graph.violations(y)
        expected = [factor for factor in case.graph.factors if not allows(factor, case, np.ravel(y))]
        assert list(map(id, found)) == list(map(id, expected))
        n_violated += len(found)
    assert n_violated > 15 or name == "pairs"


def allows(factor, case, y):
    """Tell whether a factor alone allows an assignment."""
    for indices, vertices, _, knapsack in polytopes(
        Case(SimpleNamespace(factors=[factor]), case.scores, case.additional)
    ):
        if knapsack is not None:
            costs, bound = knapsack
            return costs @ y[indices] <= bound + 1e-9
        if not (vertices == y[indices]).all(axis=1).any():
            return False
    return True


def test_violations_in_all_forms_of_assignments():
    graph = FactorGraph()
    colours, chosen = graph.categorical((2, 2), 3, name="colours"), graph.variables(4, name="chosen")
    arcs = graph.structured(DependencyTree(), (3, 2), name="arcs")
    first, second = Implies(colours[0, 0, 1], chosen[0]), AtMost(chosen, 1, name="few")
    graph.add(first, second, PairTable(colours[0], colours[1], name="alike"), Exclusive(arcs[0]))
    fine = {"colours": [[0, 2], [1, 1]], "chosen": [0, 0, 1, 0], "arcs": [0, 1]}
    assert graph.violations(fine) == []
    assert graph.violations({**fine, "arcs": [[1, 0], [0, 1], [0, 0]]}) == []
    assert graph.violations({**fine, "colours": [[1, 2], [1, 1]]}) == [first]
    assert graph.violations({**fine, "chosen": [0, 1, 1, 1]}) == [second]
    assert graph.violations({**fine, "colours": [[1, 2], [1, 1]], "chosen": [0, 1, 1, 1]}) == [first, second]
    cells = np.zeros((2, 2, 3), int)
    cells[..., 0] = 1
    cells[1, 1, 2] = 1
    assert graph.violations({**fine, "colours": cells}) == [graph.factors[0]]
    assert graph.violations({**fine, "arcs": [0, 0]}) == [graph.factors[-1]]
    assert graph.violations({**fine, "arcs": [[1, 0], [0, 0], [0, 0]]}) == [graph.factors[1]]
    for wrong, message in (
        ({"chosen": [0, 0, 1, 0]}, "found arrays named"),
        ({**fine, "chosen": [0, 1]}, "chosen has shape"),
        ({**fine, "chosen": [0, 0, 2, 0]}, "chosen must hold True and False"),
        ({**fine, "colours": [[0, 3], [0, 0]]}, "colours must hold whole numbers from 0 to 2"),
        ([0, 1], "pass a dict"),
    ):
        with pytest.raises(ValueError, match=message):
            graph.violations(wrong)
    # Structures with additional scores.
    automata = FactorGraph()
    u = automata.variables((2, 3))
    automata.add(StructureFactor(HeadAutomaton(), u[0], name="head"), StructureFactor(LinearChain(), u.T, name="chain"))
    assert automata.violations([[1, 0, 1], [0, 1, 0]]) == []
    assert automata.violations([[1, 0, 1], [1, 1, 0]]) == [automata.factors[1]]
