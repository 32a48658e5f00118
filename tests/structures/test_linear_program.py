"""Integer programs as structures: against enumeration, and learned end to end."""

import copy
import pickle
from functools import partial
from itertools import product

import naive
import numpy as np
import pytest
from internals import replace
from naive_exact import Optimum, Vertices
from scipy import sparse

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, n_best, sparsemap
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import CustomStructure, LinearProgram
from sklearn_sparsemap.testing import check_structure

KNAPSACK = LinearProgram([[3.0, 2.0, 2.0, 1.0]], [4.0])


def test_constraints_that_contradict_each_other_are_blamed():
    """The message blamed scores, all of which were finite."""
    never, choice = (
        LinearProgram([[1.0, 1.0]], [1.0], A_eq=[[1.0, 1.0]], b_eq=[2.0]),
        LinearProgram([[1.0, 1.0]], [1.0]),
    )
    one = LinearProgram(A_eq=[[1.0, 1.0]], b_eq=[1.0])
    for call in (map_inference, sparsemap, partial(n_best, k=2)):
        with pytest.raises(ValueError, match=r"^infeasible: LinearProgram\(2 constraints .* contradict each other$"):
            call(never, [1.0, -np.inf])
        with pytest.raises(ValueError, match=r"^infeasible: LinearProgram.*\(for scores\[0\]\)"):
            call(never, [[1.0, 0.5]])
        with pytest.raises(ValueError, match=r"^infeasible: scores\[1\] forbid every structure"):
            call(one, [[1.0, 0.5], [-np.inf, -np.inf]])
    assert map_inference(choice, [-np.inf, -np.inf]).structure.tolist() == [False, False]
    with pytest.raises(ValueError, match=r"^infeasible: CustomStructure.* contradict each other$"):
        map_inference(CustomStructure(lambda scores: None, n_parts=2), [0.0, 0.0])


def solutions(A, b, A_eq=(), b_eq=()):
    """Return all solutions, one a row."""
    n = np.shape(A)[1]
    A_eq = np.reshape(A_eq, (-1, n))
    return np.array(
        [x for x in product((False, True), repeat=n) if (A @ np.array(x) <= b).all() and np.allclose(A_eq @ x, b_eq)]
    )


def grid_paths(side):
    """Return the incidence of the edges of a grid, to the right and down, and what flows in and out."""
    nodes = {(i, j): i * side + j for i in range(side) for j in range(side)}
    edges = [((i, j), (i, j + 1)) for i in range(side) for j in range(side - 1)]
    edges += [((i, j), (i + 1, j)) for i in range(side - 1) for j in range(side)]
    A = np.zeros((len(nodes), len(edges)))
    for e, (start, end) in enumerate(edges):
        A[nodes[start], e], A[nodes[end], e] = 1.0, -1.0
    b = np.zeros(len(nodes))
    b[0], b[-1] = 1.0, -1.0
    return A, b


def test_inference_is_that_of_all_solutions():
    rng, counted = np.random.default_rng(0), 0
    for _ in range(8):
        n = int(rng.integers(2, 7))
        A, b = rng.integers(-2, 4, size=(2, n)), rng.integers(1, 5, size=2)
        everything = solutions(A, b)
        structure, scores = LinearProgram(A, b), rng.normal(size=n) * rng.choice([1e-4, 1.0, 50.0])
        chosen, value = map_inference(structure, scores)
        assert value == pytest.approx((everything @ scores).max()) and (everything == chosen).all(axis=1).any()
        M = everything.T.astype(float)
        u, _ = naive.solve_qp(M, everything @ scores)
        result = sparsemap(structure, scores)
        assert result.converged
        np.testing.assert_allclose(result.marginals, u, atol=1e-6)
        place = int(rng.integers(len(everything)))
        value, gradient = FenchelYoungLoss(structure).loss_gradient(scores, everything[place])
        expected, slope = naive.loss_by_enumeration(M, everything @ scores, place, "sparsemap")
        assert value == pytest.approx(max(expected, 0.0), abs=1e-6)
        np.testing.assert_allclose(gradient["scores"], slope, atol=1e-6)
        counted += len(result.weights)
        found = {x.tobytes() for x in structure.pool}
        assert {x.tobytes() for x in result.structures} <= found <= {x.tobytes() for x in everything}
    assert counted > 10


def test_each_way_to_a_solution_is_exact(draws, monkeypatch):
    """The relaxation, the search in exact arithmetic, and HiGHS with a search that may not go on."""
    rng, counts = np.random.default_rng(6), []
    everything = np.array(list(product((False, True), repeat=12)))
    search_on = replace(monkeypatch, "_numerics", "_search_on", lambda *args: counts.append(1) or search_on(*args))
    for trial in range(draws(90)):
        if trial % 3 == 0:
            replace(monkeypatch, "_numerics", "_FEW", 1 if trial % 2 else 1_000_000)
        n, m = 12, int(rng.integers(1, 4))
        A = rng.uniform(1.0, 4.0, size=(m, n)) if trial % 4 else np.ones((1, n))
        scores = A[0] + rng.normal(scale=0.3, size=n) if trial % 3 else rng.integers(-1, 9, size=n).astype(float)
        equal = {"A_eq": [np.arange(n) % 2], "b_eq": [2.0]} if trial % 2 else {}
        structure = LinearProgram(A, np.floor(A.sum(axis=1) * rng.uniform(0.3, 0.6)), **equal)
        is_solution = (everything @ structure.A.T <= structure.b).all(axis=1)
        is_solution &= (everything @ structure.A_eq.T == structure.b_eq).all(axis=1)
        scores[rng.integers(n)] = -np.inf if trial % 5 == 0 else 1.0
        totals = np.where(everything[is_solution], scores, 0.0).sum(axis=1)
        assert scores[structure.map_oracle(scores)].sum() == pytest.approx(totals.max(), abs=1e-9)
    assert 5 < len(counts) < draws(90)


@pytest.mark.parametrize("mask", [None, -1e5, -1e10, float(np.finfo(np.float32).min), -np.inf])
def test_ties_and_masks_are_exact_at_any_scale(mask):
    rng, n_mixed = np.random.default_rng(3), 0
    everything = solutions(KNAPSACK.A, KNAPSACK.b)
    vertices = Vertices(list(everything), everything.astype(float), np.zeros((len(everything), 0)))
    for scale in (1e-4, 1.0, 1e3, 1e6):
        for kind in range(4):
            scores = scale * (rng.normal(size=4) if kind % 2 else rng.integers(0, 3, 4))
            if mask is not None:
                scores[rng.integers(4)] = mask
            exact = Optimum(vertices, scores)
            assert exact.is_certified
            result = sparsemap(KNAPSACK, scores)
            assert result.converged
            np.testing.assert_allclose(result.marginals, exact.marginals, atol=1e-6)
            n_mixed += len(result.weights) > 1
    assert n_mixed > 0


def test_it_passes_the_check():
    program = LinearProgram([[3.0, 2.0, 2.0]], [4.0])
    check_structure(program, structures=list(solutions(program.A, program.b)), n_instances=1)


def test_paths_are_integer_by_themselves():
    A_eq, b_eq = grid_paths(3)
    n = A_eq.shape[1]
    program = LinearProgram(np.zeros((0, n)), np.zeros(0), A_eq=A_eq, b_eq=b_eq, integer=False, fixed_size=True)
    rng = np.random.default_rng(1)
    everything = solutions(np.zeros((1, n)), np.zeros(1), A_eq, b_eq)
    assert len(everything) == 6
    for _ in range(5):
        scores = rng.normal(size=n)
        assert map_inference(program, scores).value == pytest.approx((everything @ scores).max())
    scores[:] = -np.inf
    with pytest.raises(ValueError, match="infeasible"):
        map_inference(program, scores)
    with pytest.raises(ValueError, match="use integer=True"):
        map_inference(LinearProgram([[2.0, 2.0]], [3.0], integer=False), [1.0, 0.5])


def test_the_pool_satisfies_constraints_that_have_changed():
    program = LinearProgram(np.ones((1, 3)), [2.0])
    scores = [1.0, 2.0, 3.0]
    assert map_inference(program, scores).value == 5.0
    program.b[0] = 1.0
    assert not len(program.pool)
    with pytest.raises(ValueError, match="no solution was found yet"):
        program.on_pool()
    assert map_inference(program, scores).value == map_inference(program.on_pool(), scores).value == 3.0


def test_it_is_learned_end_to_end_and_from_its_pool():
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 5, size=6)
    program, w = LinearProgram([sizes], [8.0]), np.array([2.0, -1.0, 1.0])
    X = [rng.normal(size=(6, 3)) + 0.5 for _ in range(50)]
    y = map_inference(program, [x @ w for x in X]).structures
    model = StructuredSparseMAPClassifier(program, "hinge", solver="mira")
    model.partial_fit(X[:30], y[:30])
    model.partial_fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) > 0.9
    pooled = program.on_pool()
    quick = StructuredSparseMAPClassifier(pooled, alpha=1e-2, tol=1e-2).fit(X[:30], y[:30])
    assert quick.score(X[30:], y[30:]) > 0.9
    again = pickle.loads(pickle.dumps(quick))
    assert np.array_equal(again.predict(X[:1])[0], quick.predict(X[:1])[0])
    assert len(program.pool) <= len(solutions([sizes], 8.0))


def test_it_is_a_value():
    other = pickle.loads(pickle.dumps(KNAPSACK))
    assert other == KNAPSACK == copy.deepcopy(KNAPSACK) != LinearProgram([[3.0, 2.0, 2.0, 1.0]], [5.0])
    assert len({other, KNAPSACK}) == 1 and "4 variables" in repr(KNAPSACK)
    assert map_inference(other, [1.0, 1.0, 1.0, 1.0]).value == 2.0
    assert LinearProgram(sparse.csr_array(other.A), other.b) == other


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearProgram([1.0], [1.0]), r"A has shape \(n_constraints, n_variables\)"),
        (lambda: LinearProgram([[1.0]], [np.inf]), "must be finite"),
        (lambda: LinearProgram([[1.0]], [1.0], A_eq=[[1.0]]), "A_eq and b_eq go together"),
        (lambda: LinearProgram([[1.0]]), "A and b go together"),
        (lambda: LinearProgram([[1.0], [1.0, 2.0]], [1.0]), "A must be an array of numbers"),
        (lambda: LinearProgram(), "needs constraints"),
        (lambda: LinearProgram([[1.0]], [1.0], train_on_pool=1), "train_on_pool must be True or False"),
        (lambda: LinearProgram([[1.0]], [1.0], A_eq=[[1.0, 2.0]], b_eq=[1.0]), "but A_eq for 2"),
        (lambda: LinearProgram([[1.0]], [1.0], integer=2), "integer must be True or False"),
        (lambda: LinearProgram([[1.0]], [1.0]).on_pool(), "no solution was found yet"),
        (lambda: map_inference(KNAPSACK, [1.0]), "this structure has 4 parts"),
        (lambda: KNAPSACK.encode([True] * 4, (4, 0)), "constraint 0 of A is violated, by 4"),
        (lambda: KNAPSACK.encode([0, 1], (4, 0)), "a solution is 4 bools, or 0 and 1"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_estimators_learn_from_the_pool_and_predict_exactly(monkeypatch):
    rng = np.random.default_rng(4)
    sizes, w, calls = rng.integers(1, 5, size=8), np.array([2.0, -1.0, 1.0]), []
    asked = LinearProgram.map_oracle
    monkeypatch.setattr(LinearProgram, "map_oracle", lambda *args: calls.append(1) or asked(*args))
    X = [rng.normal(size=(8, 3)) + 0.5 for _ in range(25)]
    found = {}
    for pool in (True, False):
        program = LinearProgram([sizes], [9.0], train_on_pool=pool)
        y = np.array(list(map_inference(program, [x @ w for x in X]).structures))
        calls.clear()
        model = StructuredSparseMAPClassifier(program, "margin_sparsemap", alpha=1e-2, tol=1e-2).fit(X[:15], y[:15])
        found[pool] = len(calls), model.score(X[15:], y[15:])
        calls.clear()
        decisions = model.predict(X[15:])
        assert len(calls) == 10 and decisions.dtype == bool and decisions.shape == (10, 8)
        assert (decisions @ sizes <= 9.0).all()
    assert found[True][0] == 0 < 15 < found[False][0]
    assert found[True][1] > 0.9 and found[False][1] > 0.9


def test_decisions_are_given_as_bools_or_as_ones_and_zeros():
    rng, fits = np.random.default_rng(5), []
    X = rng.normal(size=(20, 4, 2))
    y = map_inference(KNAPSACK, list(X[:, :, 0])).structures
    for decisions in (list(y), np.array(list(y)), np.array(list(y)).astype(int), np.array(list(y)).astype(float)):
        model = StructuredSparseMAPClassifier(LinearProgram([[3.0, 2.0, 2.0, 1.0]], [4.0]), tol=1e-2)
        fits.append(model.fit(X, decisions).coef_)
    assert all(np.array_equal(fits[0], coef) for coef in fits[1:])
    with pytest.raises(ValueError, match=r"y\[0\]: a solution is 4 bools, or 0 and 1"):
        model.fit(X, 2 * np.array(list(y)))
    wrong = np.array(list(y)).astype(int)
    wrong[7] = 1
    with pytest.raises(ValueError, match=r"y\[7\]: constraint 0 of A is violated, by 4"):
        model.fit(X, wrong)


def test_equalities_are_enough():
    program = LinearProgram(A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0])
    assert map_inference(program, [1.0, 3.0, 2.0]).structure.tolist() == [False, True, False]
    assert program == LinearProgram(np.zeros((0, 3)), np.zeros(0), A_eq=[[1.0, 1.0, 1.0]], b_eq=[1.0])
    assert repr(program) == "LinearProgram(1 constraint of 3 variables, integer=True)"
