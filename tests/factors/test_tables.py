"""Variables of several values, tables of scores for pairs of them, and names that factors share."""

import pickle
import warnings
from functools import cache, partial
from itertools import pairwise, product

import numpy as np
import pytest
from internals import ROUGH, SolutionMemory, as_graph_problems, gold_parts, graph_losses
from naive_exact import GraphOptimum, LocalPolytope
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier, lp_sparsemap, map_inference, n_best
from sklearn_sparsemap.factors import Budget, FactorGraph, Pair, PairTable, StructureFactor, grid_graph
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain

grid = cache(grid_graph)


def random_grid(rng, height=3, width=2, n_states=3, scale=1.0):
    """Return a grid graph, scores, and a table for each direction."""
    tables = {name: scale * rng.normal(size=(n_states, n_states)) for name in ("horizontal", "vertical")}
    return grid(height, width, n_states), scale * rng.normal(size=(height, width, n_states)), tables


def neighbours_of(u):
    """Return the pairs of a grid's variables by direction: dict of name -> (first, second)."""
    return {"horizontal": (u[:, :-1], u[:, 1:]), "vertical": (u[:-1], u[1:])}


def edges_of(height, width):
    """Return the edges of a grid, each as (direction, first, second)."""
    places = np.arange(height * width).reshape(height, width)
    for name, (first, second) in neighbours_of(places).items():
        for i, j in zip(first.ravel(), second.ravel(), strict=True):
            yield name, i, j


def one_of_each(*shape):
    """Return a graph of variables of several values, with no tables."""
    graph = FactorGraph()
    graph.categorical(shape[:-1], shape[-1])
    return graph


def relaxed_value(u, tables):
    """Return what tables add to the score of marginals of a grid, each by a linear program of its own."""
    height, width, n = u.shape
    u, total = u.reshape(-1, n), 0.0
    sums = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    for name, i, j in edges_of(height, width):
        found = linprog(-tables[name].ravel(), A_eq=sums, b_eq=np.concatenate([u[i], u[j]]), method="highs")
        total -= found.fun
    return total


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_a_grid_is_certified_and_agrees_with_chains_of_two_steps(scale):
    """The other solver knows the tables as structures; and the objective is that of linear programs."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        graph, scores, tables = random_grid(rng, scale=scale)
        result = lp_sparsemap(graph, scores, additional=tables)
        u = result.marginals
        assert result.converged and result.residual < 1e-12
        assert result.gap <= 1e-7 * max(1.0, abs(result.objective))
        value = (scores * u).sum() - 0.5 * (u * u).sum() + relaxed_value(u, tables)
        assert_allclose(result.objective, value, atol=1e-6 * max(1.0, scale))
        twin = lp_sparsemap(graph, scores, additional=tables, solver="block", tol=1e-9, max_iter=20_000)
        assert_allclose(u, twin.marginals, atol=1e-6)
        for name, (first, second) in neighbours_of(u).items():
            assert_allclose(result.additional_marginals[name].sum(axis=-1), first, atol=1e-12)
            assert_allclose(result.additional_marginals[name].sum(axis=-2), second, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3, 1e6])
def test_tables_are_exact_at_any_scale(scale):
    """Against the quadratic program over the vertices of all tables, with ties and masks."""
    shape = (2, 2, 2)
    graph, rng = grid(*shape), np.random.default_rng(19)

    def split(values):
        return {"horizontal": values[:4].reshape(2, 2), "vertical": values[4:].reshape(2, 2)}

    polytope, n_inside = LocalPolytope(graph, shape, split, 8), 0
    for kind in range(12):
        values = scale * (rng.normal(size=16) if kind % 2 else rng.integers(-1, 2, 16))
        mask = (None, -1e10, -np.inf)[kind % 3]
        if mask is not None:
            values[[0, 6]] = mask
        exact = GraphOptimum(polytope, values)
        assert exact.is_certified
        scores, additional = values[:8].reshape(shape), split(values[8:])
        result = lp_sparsemap(graph, scores, additional=additional, solver="tables", tol=1e-10)
        assert result.converged
        assert_allclose(result.marginals.ravel(), exact.marginals, atol=1e-6)
        n_inside += ((exact.marginals > 1e-6) & (exact.marginals < 1 - 1e-6)).any()
    assert n_inside > 1


def test_without_scores_of_pairs_each_variable_is_by_itself():
    scores = np.random.default_rng(1).normal(size=(2, 3, 4))
    zero = {name: np.zeros((4, 4)) for name in ("horizontal", "vertical")}
    alone = lp_sparsemap(one_of_each(2, 3, 4), scores).marginals
    assert_allclose(lp_sparsemap(grid(2, 3, 4), scores, additional=zero).marginals, alone, atol=1e-12)


def test_tables_of_several_sizes_agree_with_chains_of_two_steps():
    """More edges than lanes, in blocks of unlike widths."""
    rng = np.random.default_rng(13)
    graph = FactorGraph()
    few, many = graph.categorical((4, 4), 2, name="few"), graph.categorical(3, 4, name="many")
    graph.add(PairTable(few[:-1], few[1:], name="down"))
    graph.add(PairTable(many[:-1], many[1:], name="near"))
    graph.add(PairTable(few[:, :-1], few[:, 1:], name="across", tied=True))
    scores = {"few": rng.normal(size=(4, 4, 2)), "many": 0.3 * rng.normal(size=(3, 4))}
    tables = {
        "down": rng.normal(size=(3, 4, 2, 2)),
        "near": 0.3 * rng.normal(size=(2, 4, 4)),
        "across": rng.normal(size=(2, 2)),
    }
    result = lp_sparsemap(graph, scores, additional=tables)
    twin = lp_sparsemap(graph, scores, additional=tables, solver="block", tol=1e-9, max_iter=20_000)
    assert result.converged and twin.converged
    for name, own in result.marginals.items():
        assert_allclose(own, twin.marginals[name], atol=1e-6)


@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap"])
def test_rough_losses_are_as_near_as_they_say(name):
    rng, n_ended_early = np.random.default_rng(14), 0
    for scale in (0.1, 1.0, 5.0):
        graph, scores, tables = random_grid(rng, 5, 5, scale=scale)
        problems, _ = as_graph_problems(graph, [scores], tables)
        y = rng.integers(0, 3, (5, 5))
        gold = tuple(part[None] for part in gold_parts(graph, problems.layout, y))
        (exact,), (u,), _, _ = graph_losses(name, 0.5, problems, gold, accuracy=1e-10)
        (rough,), (own,), _, inexact = graph_losses(name, 0.5, problems, gold, accuracy=ROUGH)
        allowed = ROUGH * max(exact / 0.5, 1.0) + 1e-9
        assert not inexact.any()
        # The objective is that of marginals that satisfy the factors: never too large.
        assert exact - 0.5 * allowed <= rough <= exact + 1e-6
        assert 0.5 * ((u - own) ** 2).sum() <= allowed
        n_ended_early += abs(u - own).max() > 1e-6
    assert n_ended_early >= 2


def test_steps_without_a_system_come_near_a_solution():
    """Newton's method would hide that they do not."""
    rng = np.random.default_rng(16)
    for scale in (0.1, 1.0, 5.0):
        graph, scores, tables = random_grid(rng, 6, 5, scale=scale)
        result = lp_sparsemap(graph, scores, additional=tables, tol=0.02, max_iter=1000)
        # 16 looks at the gap, after 25 steps each, are all that there may be.
        assert result.n_iter < 400 and result.n_iter % 25 == 0
        assert result.converged


def test_solutions_are_kept_in_so_many_bytes():
    memory, rows = SolutionMemory(48), np.arange(12.0).reshape(3, 4)
    assert memory.recall(np.arange(3)) == {}
    memory.keep(np.arange(3), {"warm": rows})
    found = memory.recall(np.arange(4))["warm"]
    assert_array_equal(found[:3], rows)
    assert np.isnan(found[3]).all()
    memory.keep(np.array([3, 1]), {"warm": -rows[:2]})
    found = memory.recall(np.arange(4))["warm"]
    assert_array_equal(found[1], -rows[1])
    assert np.isnan(found[3]).all()


def test_samples_of_which_some_are_known_start_from_these():
    rng = np.random.default_rng(15)
    graph, scores, tables = random_grid(rng, 4, 4)
    problems, _ = as_graph_problems(graph, [scores, scores[::-1]], tables)
    golds = [gold_parts(graph, problems.layout, y) for y in rng.integers(0, 3, (2, 4, 4))]
    gold, memory = tuple(map(np.array, zip(*golds, strict=True))), {}
    cold = graph_losses("sparsemap", 1.0, problems, gold, memory=memory)
    memory["warm"][1] = np.nan
    warm = graph_losses("sparsemap", 1.0, problems, gold, memory=memory)
    assert_allclose(warm[0], cold[0], rtol=1e-4)
    assert_array_equal(warm[1][1], cold[1][1])
    assert not np.array_equal(warm[1][0], cold[1][0])


def test_what_is_forbidden_stays_off():
    rng = np.random.default_rng(2)
    graph, scores, tables = random_grid(rng, 2, 2)
    scores[0, 0, 1] = scores[1, 1, :2] = -np.inf
    tables["horizontal"][0, 0] = tables["vertical"][2, 1] = -np.inf
    result = lp_sparsemap(graph, scores, additional=tables)
    twin = lp_sparsemap(graph, scores, additional=tables, solver="block", tol=1e-9, max_iter=20_000)
    assert result.converged
    assert_allclose(result.marginals, twin.marginals, atol=1e-6)
    assert result.marginals[scores == -np.inf].max() == 0.0
    assert result.additional_marginals["horizontal"][..., 0, 0].max() == 0.0
    scores[0, 1] = -np.inf
    with pytest.raises(ValueError, match="infeasible"):
        lp_sparsemap(graph, scores, additional=tables)


def test_tables_that_nothing_satisfies_are_named():
    graph = FactorGraph()
    u = graph.categorical(2, 2)
    graph.add(PairTable(u[:1], u[1:], name="never"))
    with pytest.raises(ValueError, match=r"infeasible.*never"):
        lp_sparsemap(graph, np.zeros((2, 2)), additional={"never": np.full((1, 2, 2), -np.inf)})


def test_the_derivative_is_that_of_differences():
    rng = np.random.default_rng(3)
    graph, scores, tables = random_grid(rng, 2, 2)
    v, step = rng.normal(size=scores.shape), 1e-5

    def moved(direction=0.0, **more):
        tables_now = {name: table + more.get(name, 0.0) for name, table in tables.items()}
        return (lp_sparsemap(graph, scores + direction, additional=tables_now, tol=1e-9).marginals * v).sum()

    gradients = lp_sparsemap(graph, scores, additional=tables).vjp(v)
    for _ in range(3):
        d = rng.normal(size=scores.shape)
        difference = (moved(step * d) - moved(-step * d)) / (2 * step)
        assert_allclose((gradients["scores"] * d).sum(), difference, atol=1e-5)
        d = rng.normal(size=(3, 3))
        difference = (moved(vertical=step * d) - moved(vertical=-step * d)) / (2 * step)
        assert_allclose((gradients["additional"]["vertical"] * d).sum(), difference, atol=1e-5)


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_derivatives_of_tables_are_those_of_chains_of_two_steps(scale):
    """The other way goes through a face for each table; both ways through the Jacobian are the same one."""
    rng = np.random.default_rng(17)
    graph, scores, tables = random_grid(rng, 3, 3, scale=scale)
    result = lp_sparsemap(graph, scores, additional=tables)
    v, d = rng.normal(size=(2, *scores.shape))
    own = result.vjp(v)
    # The paper's iteration knows no tables.
    twin = result.vjp(v, method="average", tol=1e-13, max_iter=100_000)
    assert_allclose(own["scores"], twin["scores"], atol=1e-7)
    change = {name: rng.normal(size=(3, 3)) for name in tables}
    for name in tables:
        assert_allclose(own["additional"][name], twin["additional"][name], atol=1e-7)
    forward = (result.jvp(d, change) * v).sum()
    backward = (own["scores"] * d).sum() + sum((own["additional"][name] * change[name]).sum() for name in tables)
    assert_allclose(forward, backward, atol=1e-10)
    assert_allclose(result.jvp(own["scores"]), own["scores"], atol=1e-10)
    batch = lp_sparsemap(graph, [scores, scores], additional=tables)
    assert_allclose(batch.vjp([v, v])["additional"]["vertical"], 2.0 * own["additional"]["vertical"], atol=1e-9)


def test_derivatives_where_tables_have_ties():
    """Without scores of pairs any table with the right marginals will do, and all of its cells are in use."""
    rng = np.random.default_rng(18)
    scores, v = rng.normal(size=(2, 4, 5, 3))
    for level in (0.0, 1.0):
        tables = {name: np.full((3, 3), level) for name in ("horizontal", "vertical")}
        result = lp_sparsemap(grid(4, 5, 3), scores, additional=tables)
        alone = lp_sparsemap(one_of_each(4, 5, 3), scores)
        own = result.vjp(v)
        assert_allclose(own["scores"], alone.vjp(v)["scores"], atol=1e-10)
        for name, (first, second) in neighbours_of(own["scores"]).items():
            found = own["additional"][name]
            assert_allclose(found.sum(axis=1), first.sum(axis=(0, 1)), atol=1e-9)
            assert_allclose(found.sum(axis=0), second.sum(axis=(0, 1)), atol=1e-9)


def test_warm_starts_end_at_the_same_marginals():
    graph, scores, tables = random_grid(np.random.default_rng(4))
    cold = lp_sparsemap(graph, scores, additional=tables)
    warm = lp_sparsemap(graph, scores + 0.01, additional=tables, warm_start=cold)
    assert_allclose(warm.marginals, cold.marginals, atol=1e-6)


def test_features_of_pairs_weigh_tables():
    rng = np.random.default_rng(5)
    features, weights, scores = rng.normal(size=(3, 2)), rng.normal(size=(2, 3, 3)), rng.normal(size=(4, 3))
    results = []
    for options, given in (
        ({"features": features}, weights),
        ({}, np.einsum("ef,fxy->exy", features, weights)),
    ):
        graph = FactorGraph()
        u = graph.categorical(4, 3)
        graph.add(PairTable(u[:-1], u[1:], name="near", **options))
        results.append(lp_sparsemap(graph, scores, additional={"near": given}))
    assert_allclose(results[0].marginals, results[1].marginals, atol=1e-12)
    v = rng.normal(size=(4, 3))
    own, of_pairs = (result.vjp(v)["additional"]["near"] for result in results)
    assert_allclose(own, np.einsum("ef,exy->fxy", features, of_pairs), atol=1e-12)


def test_other_factors_go_with_tables():
    rng = np.random.default_rng(6)
    graph = FactorGraph()
    u = graph.categorical(4, 3)
    graph.add(PairTable(u[:-1], u[1:], name="near", tied=True), Budget(u[:, 0], 1))
    result = lp_sparsemap(graph, rng.normal(size=(4, 3)) + [2.0, 0.0, 0.0], additional={"near": np.eye(3)})
    assert result.converged
    assert_allclose(result.marginals[:, 0].sum(), 1.0, atol=1e-6)
    assert_allclose(result.marginals.sum(axis=1), 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="solver='tables'"):
        lp_sparsemap(graph, np.zeros((4, 3)), additional={"near": np.eye(3)}, solver="tables")


def test_the_best_values_are_those_of_an_enumeration():
    rng = np.random.default_rng(7)
    n_searched, values = 0, np.array(list(product(range(3), repeat=9)))
    for _ in range(15):
        graph, scores, tables = random_grid(rng, 3, 3)
        tables = {name: 3.0 * table for name, table in tables.items()}
        found = map_inference(graph, scores, additional=tables)
        totals = scores.reshape(9, 3)[np.arange(9), values].sum(axis=1)
        totals += sum(tables[name][values[:, i], values[:, j]] for name, i, j in edges_of(3, 3))
        best = totals.max()
        assert_allclose(found.value, best, atol=1e-8)
        assert found.bound >= best - 1e-8
        assert_array_equal(found.structure.sum(axis=-1), 1)
        n_searched += not found.integral
    assert n_searched >= 1


def draw_forbidding_grid(seed, side, n_values):
    """Return a graph of tables on a grid, its scores, many of them -inf, and the scores of all assignments."""
    rng, n = np.random.default_rng(seed), side * side
    places = np.arange(n).reshape(side, side)
    first = np.concatenate([places[:, :-1].ravel(), places[:-1].ravel()])
    second = np.concatenate([places[:, 1:].ravel(), places[1:].ravel()])
    graph = FactorGraph()
    u = graph.categorical(n, n_values)
    graph.add(PairTable([u[i] for i in first], [u[i] for i in second], name="t"))
    p, q = rng.choice([0.05, 0.2, 0.35], 2)
    scores = np.where(rng.random((n, n_values)) < p, -np.inf, rng.normal(size=(n, n_values)).round(1))
    tables = np.where(rng.random((len(first), n_values, n_values)) < q, -np.inf, 0.0)
    tables += rng.normal(size=tables.shape).round(1)
    values = np.indices((n_values,) * n).reshape(n, -1)
    totals = sum(own[v] for own, v in zip(scores, values, strict=True))
    totals = totals + sum(t[values[i], values[j]] for t, i, j in zip(tables, first, second, strict=True))
    return graph, scores, {"t": tables}, totals


@pytest.mark.parametrize(
    "side, n_values, n_seeds, counts", [(2, 2, 160, (61, 99)), (2, 3, 40, (8, 32)), (3, 3, 40, (9, 31))]
)
def test_assignments_that_are_forbidden_are_never_returned(side, n_values, n_seeds, counts):
    """The value left the scores of forbidden variables out, and -inf became a finite number."""
    found = [0, 0]
    for seed in range(n_seeds):
        graph, scores, additional, totals = draw_forbidding_grid(seed, side, n_values)
        is_feasible = totals.max() > -np.inf
        found[int(is_feasible)] += 1
        if not is_feasible:
            for infer in (map_inference, partial(n_best, k=3)):
                with pytest.raises(ValueError, match=r"^infeasible: under scores"):
                    infer(graph, scores, additional=additional)
            continue
        result = map_inference(graph, scores, additional=additional)
        assert result.value == pytest.approx(totals.max(), abs=1e-9)
        assert (scores[result.structure > 0.5] > -np.inf).all()
        if side == 2 and seed < 40:
            best = [value for _, value in n_best(graph, scores, 3, additional=additional)]
            wanted = np.sort(totals[totals > -np.inf])[::-1][:3]
            assert_allclose(best, wanted, atol=1e-9)
    assert tuple(found) == counts


def test_infeasible_tables_are_named_at_once():
    """One sample of many: the message names it, and the tables that leave no value."""
    graph = FactorGraph()
    u = graph.categorical(3, 2)
    graph.add(PairTable(u[:1], u[1:2], name="left"), PairTable(u[1:2], u[2:], name="right"))
    tables = {"left": [[0.0, -np.inf], [-np.inf, 0.0]], "right": [[0.0, -np.inf], [-np.inf, 0.0]]}
    scores = np.zeros((2, 3, 2))
    scores[1, 0, 1] = scores[1, 2, 0] = -np.inf
    with pytest.raises(ValueError, match=r"^infeasible: under scores\[1\] .* 'left' .* 'right'"):
        map_inference(graph, scores, additional=tables)
    # No value is left, without any table at fault.
    scores[1, 0] = -np.inf
    with pytest.raises(ValueError, match=r"^infeasible: under scores\[1\] .* satisfy all factors"):
        map_inference(graph, list(scores), additional=tables)


def test_values_that_single_tables_leave_may_contradict_each_other():
    """Each of four tables leaves every value, but together they leave no marginals; the search proves it."""
    graph = FactorGraph()
    u = graph.categorical(2, 3)
    graph.add(PairTable([u[0]] * 4, [u[1]] * 4, name="t"))
    tables = np.full((4, 3, 3), -np.inf)
    for table, chosen in zip(tables, ([0], [0, 1], [1], [2]), strict=True):
        inside = np.isin(np.arange(3), chosen)
        table[(np.arange(3) == 0)[:, None] == inside] = 0.5
    for call in (lp_sparsemap, map_inference):
        with pytest.raises(ValueError, match=r"^infeasible: under scores"):
            call(graph, np.zeros((2, 3)), additional={"t": tables})


def test_a_search_without_time_returns_what_it_has():
    graph, scores, tables = random_grid(np.random.default_rng(0), 4, 4, 5, scale=3.0)
    with pytest.warns(UserWarning, match="map_time_limit"):
        found = map_inference(graph, scores, additional=tables, map_time_limit=1e-9)
    assert not found.integral and found.bound > found.value
    assert_array_equal(found.structure.sum(axis=-1), 1)


def test_a_search_without_time_says_when_the_loss_is_unknown():
    """With forbidden cells, the first bounds are infinite, and sums of -inf and inf would be NaN."""
    n_unknown = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        graph, scores, tables = random_grid(rng, 4, 4)
        for table in tables.values():
            table[rng.random((3, 3)) < 0.2] = -np.inf
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = map_inference(graph, [scores, -scores], additional=tables, map_time_limit=1e-9)
        assert all(issubclass(own.category, ConvergenceWarning) for own in said)
        messages = [str(own.message) for own in said]
        for result in found:
            assert result.value <= result.bound
            if result.bound == np.inf:
                n_unknown += 1
                assert "is unknown, because not even the relaxation was solved" in messages[0]
    assert n_unknown >= 2


def make_pictures(n, seed, n_states=3):
    """Rectangles on a ground, seen through noise."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        labels = np.zeros(rng.integers(4, 7, 2), int)
        for state in range(1, n_states):
            top, left = rng.integers(0, np.array(labels.shape) - 2)
            labels[top : top + 3, left : left + 3] = state
        X.append(np.eye(n_states)[labels] + 0.8 * rng.normal(size=(*labels.shape, n_states)))
        y.append(labels)
    return X, y


def fit(function, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return StructuredSparseMAPClassifier(function, alpha=0.03, max_iter=12).fit(X, y)


@pytest.fixture(scope="module")
def pictures():
    X, y = make_pictures(16, 0)
    return X, y, fit(grid_of, X[:10], y[:10])


def grid_of(x):
    return grid(*x.shape[:2], 3)


def grid_of_shape(x, shape):
    assert x.ndim == 2
    return grid(*shape, 3)


def test_pictures_are_learned(pictures):
    X, y, model = pictures
    predicted = model.predict(X[10:])
    assert [p.shape for p in predicted] == [labels.shape for labels in y[10:]]
    right = np.concatenate([(p == labels).ravel() for p, labels in zip(predicted, y[10:], strict=True)])
    alone = np.concatenate([(x.argmax(axis=-1) == labels).ravel() for x, labels in zip(X[10:], y[10:], strict=True)])
    assert right.mean() > alone.mean() + 0.05
    assert_allclose(model.score(X[10:], y[10:]), right.mean())
    assert model.coef_.shape == (3, 3) and model.intercept_.shape == (3,)
    assert set(model.additional_scores_) == {"horizontal", "vertical"}
    marginals = model.predict_marginals(X[10:11])[0]
    assert marginals.shape == X[10].shape
    assert_allclose(marginals.sum(axis=-1), 1.0)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X[:1])[0], model.predict(X[:1])[0])


def test_the_function_gets_what_comes_with_a_sample(pictures):
    X, y, model = pictures
    samples = [(x.reshape(-1, 3), x.shape[:2]) for x in X]
    twin = fit(grid_of_shape, samples[:10], y[:10])
    assert_allclose(twin.coef_, model.coef_)
    assert_array_equal(twin.predict(samples[10:12])[1], model.predict(X[10:12])[1])
    with pytest.raises(ValueError, match=r"X\[1\] is not a tuple"):
        twin.predict([samples[0], X[1].reshape(-1, 3)])
    with pytest.raises(ValueError, match=r"y\[0\]: labels must hold whole numbers from 0 to 2"):
        twin.fit(samples[:1], [y[0] + 1])
    with pytest.raises(ValueError, match=r"y\[0\]: labels has shape"):
        twin.fit(samples[:1], [y[0].ravel()])


def test_the_gradient_of_a_loss_is_that_of_differences():
    rng = np.random.default_rng(8)
    graph, scores, tables = random_grid(rng, 2, 2)
    y, loss, step = rng.integers(0, 3, (2, 2)), FenchelYoungLoss(graph), 1e-4

    def value(table):
        return loss.loss_gradient(scores, y, additional={**tables, "horizontal": table})[0]

    own, gradient = loss.loss_gradient(scores, y, additional=tables)
    one_of_each = np.eye(3)[y] > 0
    assert_allclose(loss.loss_gradient(scores, one_of_each, additional=tables)[0], own)
    d = rng.normal(size=(3, 3))
    difference = (value(tables["horizontal"] + step * d) - value(tables["horizontal"] - step * d)) / (2 * step)
    assert_allclose((gradient["additional"]["horizontal"] * d).sum(), difference, atol=1e-3)


def test_factors_of_one_name_share_scores():
    graph, scores = FactorGraph(), np.random.default_rng(9).normal(size=(2, 3, 2))
    u = graph.variables((2, 3, 2))
    graph.add(*[StructureFactor(LinearChain(), row, name="rows") for row in u])
    additional = {"rows": {"transitions": np.array([[0.5, 0.0], [-0.5, 0.2]])}}
    result = lp_sparsemap(graph, scores, additional=additional)
    single = FactorGraph()
    single.add(StructureFactor(LinearChain(), single.variables((3, 2)), name="rows"))
    alone = [lp_sparsemap(single, own, additional=additional) for own in scores]
    assert_allclose(result.marginals, [own.marginals for own in alone], atol=1e-9)
    counts = [own.additional_marginals["rows"]["transitions"] for own in alone]
    assert_allclose([own["transitions"] for own in result.additional_marginals["rows"]], counts, atol=1e-9)
    assert len(result.structures["rows"]) == 2
    batch = lp_sparsemap(graph, [scores, scores[::-1]], additional=additional)
    assert [len(found["rows"]) for found in batch.structures] == [2, 2]
    assert repr(batch.structures[0]) == repr(batch[0].structures)
    v = np.ones_like(scores) * [1.0, -2.0]
    summed = sum(own.vjp(v[0])["additional"]["rows"]["transitions"] for own in alone)
    assert_allclose(result.vjp(v)["additional"]["rows"]["transitions"], summed, atol=1e-9)
    undirected = grid_graph(2, 2, 2, neighbours=8, directed=False)
    assert repr(undirected) == "FactorGraph(labels (2, 2, 2); 4 ExactlyOne, 6 PairTable)"
    assert lp_sparsemap(undirected, np.zeros((2, 2, 2)), additional={"neighbours": np.eye(2)}).converged
    # Scores of their own cannot be shared.
    with pytest.raises(ValueError, match="'rows' already"):
        graph.add(Pair(u[0, 0], u[0, 1], name="rows", tied=True))


def test_wrong_tables_are_refused():
    graph = FactorGraph()
    u, w, binary = graph.categorical(3, 2, name="u"), graph.categorical(3, 4, name="w"), graph.variables((3, 2))
    other = FactorGraph().categorical(3, 2)
    for function, message in [
        (lambda: graph.categorical(2, 1), "at least 2"),
        (lambda: graph.categorical(2, "a"), "must be an int"),
        (lambda: graph.categorical("a", 2), "tuple of ints"),
        (lambda: PairTable(u[0], w[0], name="t"), "entry by entry"),
        (lambda: PairTable(u[0], u[0], name="t"), "with itself"),
        (lambda: PairTable(u[0], binary[0], name="t"), "several values"),
        (lambda: PairTable(u[0], ~u[1], name="t"), "several values"),
        (lambda: PairTable(w[0, :2], w[1, :2], name="t"), "several values"),
        (lambda: PairTable(u[0], other[1], name="t"), "two graphs"),
        (lambda: PairTable(u[:2], u[1:], name=""), "needs a name"),
        (lambda: PairTable(u[:2], u[1:], name="t", features=[[1.0]]), "one row for each pair"),
        (lambda: PairTable(u[:2], u[1:], name="t", features=[[1.0], [np.nan]]), "NaN"),
        (lambda: PairTable(u[:2], u[1:], name="t", features=[[1.0], [2.0]], tied=True), "leave it at False"),
        (lambda: grid_graph(2, 2, 2, neighbours=6), "4 or 8"),
        (lambda: grid_graph(2.5, 2, 2), "must be ints"),
        (lambda: grid_graph(0, 2, 2), "at least one"),
    ]:
        with pytest.raises(ValueError, match=message):
            function()
    with pytest.raises(ValueError, match="tables of"):
        lp_sparsemap(grid(2, 2, 3), np.zeros((2, 2, 3)), additional={"horizontal": 1.0, "vertical": np.eye(3)})
    with pytest.raises(ValueError, match="need scores"):
        lp_sparsemap(grid(2, 2, 3), np.zeros((2, 2, 3)))


def test_a_grid_of_one_row_has_nothing_below():
    graph, scores = grid(1, 3, 2), np.random.default_rng(10).normal(size=(1, 3, 2))
    tables = {"horizontal": np.eye(2), "vertical": np.eye(2)}
    chain = FactorGraph()
    chain.add(StructureFactor(LinearChain(), chain.variables((3, 2)), name="chain"))
    twin = lp_sparsemap(chain, scores[0], additional={"chain": {"transitions": np.eye(2)}})
    assert lp_sparsemap(graph, scores, additional=tables).converged
    # The relaxation of a chain by edges is exact if it is an assignment.
    sharp = lp_sparsemap(graph, 50 * scores, additional={name: 50 * t for name, t in tables.items()})
    best = lp_sparsemap(chain, 50 * scores[0], additional={"chain": {"transitions": 50 * np.eye(2)}})
    assert twin.converged
    assert_allclose(sharp.marginals[0], best.marginals, atol=1e-6)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("shape", [(1, 3), (3, 1), (1, 1)])
def test_directions_without_pairs_need_no_tables(shape, directed):
    graph, rng = grid_graph(*shape, 2, directed=directed), np.random.default_rng(11)
    scores, table = rng.normal(size=(*shape, 2)), rng.normal(size=(2, 2))
    name = ("horizontal" if shape[0] == 1 else "vertical") if directed else "neighbours"
    needed = {} if shape == (1, 1) else {name: table}
    chain = scores.reshape(-1, 2)
    totals = {
        path: sum(own[v] for own, v in zip(chain, path, strict=True)) + sum(table[pair] for pair in pairwise(path))
        for path in product(range(2), repeat=len(chain))
    }
    best = map_inference(graph, scores, additional=needed)
    assert best.value == pytest.approx(max(totals.values()))
    everything = {name: table for name in ("horizontal", "vertical")} if directed else {name: table}
    assert lp_sparsemap(graph, scores, additional=needed).converged
    assert map_inference(graph, scores, additional=everything).value == best.value
    assert len(n_best(graph, scores, 2, additional=needed)) == 2
    if needed:
        with pytest.raises(ValueError, match="need scores"):
            map_inference(graph, scores)


def test_masks_of_tables_cost_no_digits():
    """The method of multipliers measured its steps by the masks; joint marginals of 1e-16 times a mask were its gap."""
    rng, n_compared = np.random.default_rng(0), 0
    graph = FactorGraph()
    u = graph.categorical((2, 2), 2)
    graph.add(PairTable(u[:, :-1], u[:, 1:], name="across"), PairTable(u[:-1], u[1:], name="down", tied=True))
    for scale in (1e-4, 1.0, 1e3):
        for _ in range(20):
            scores = scale * rng.normal(size=(2, 2, 2))
            across, down = scale * rng.normal(size=(2, 1, 2, 2)), scale * rng.normal(size=(2, 2))
            masked = rng.random(across.shape) < 0.2
            scores[1, 1, 0] = across[0, 0, 1, 1] = -1e14
            across[masked] = -1e14
            forbidden = {"across": np.where(across < -1e9, -np.inf, across), "down": down}
            try:
                expected = lp_sparsemap(graph, np.where(scores < -1e9, -np.inf, scores), additional=forbidden)
            except ValueError:
                continue
            result = lp_sparsemap(graph, scores, additional={"across": across, "down": down}, tol=1e-9)
            assert result.converged
            np.testing.assert_allclose(result.marginals, expected.marginals, atol=1e-6)
            assert result.objective == pytest.approx(expected.objective, abs=1e-6 * max(scale, 1.0))
            n_compared += 1
    assert n_compared > 40
