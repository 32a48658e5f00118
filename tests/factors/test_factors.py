"""The logic factors: their closed forms against the enumerated vertices, and what they refuse."""

from itertools import product
from pathlib import Path

import naive
import numpy as np
import pytest
from internals import threshold
from interpreted import interpreted
from naive_graphs import Case, literals_of, vertices_of
from numpy.testing import assert_allclose

from sklearn_sparsemap import lp_sparsemap, map_inference
from sklearn_sparsemap.factors import (
    AndOut,
    AtMostOne,
    Budget,
    FactorGraph,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    StructureFactor,
    Xor,
    XorOut,
)
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching

DATA = Path(__file__).parents[1] / "data"
FACTORS = {
    "xor": Xor,
    "at most one": AtMostOne,
    "or": Or,
    "or out": OrOut,
    "xor out": XorOut,
    "and out": AndOut,
    "imply": Imply,
    "budget": lambda literals: Budget(literals, max(1, len(literals) // 2)),
    "knapsack": lambda literals: Knapsack(literals, 0.5 + np.arange(len(literals)), 0.4 * len(literals)),
    "pair": lambda literals: Pair(literals[:1], literals[1:], name="pair"),
}


def face_projector(M, theta, u):
    """Return the projector onto the directions of the face of all vertices that are as good as the solution."""
    reduced = theta - M.T @ u
    face = M[:, reduced >= reduced.max() - 1e-9]
    directions = face[:, 1:] - face[:, :1]
    left, singular, _ = np.linalg.svd(directions) if directions.size else (np.zeros((len(u), 0)), np.zeros(0), None)
    basis = left[:, : (singular > 1e-9).sum()]
    return basis @ basis.T


@pytest.mark.parametrize("name", FACTORS)
def test_closed_forms_equal_the_enumerated_polytope(name):
    rng = np.random.default_rng(0)
    for n in (2,) if name == "pair" else (2, 3, 4):
        for negated in product([False, True], repeat=n):
            graph = FactorGraph()
            graph.add(FACTORS[name](literals_of(graph.variables(n), negated)))
            scores = rng.normal(size=(3, n)) * np.array([[0.3], [1.0], [3.0]])
            pair_scores = rng.normal(size=3) if name == "pair" else [None] * 3
            given = [{} if s is None else {"pair": s} for s in pair_scores]
            for row, own in zip(scores, given):
                result = lp_sparsemap(graph, row, additional=own, solver="block", tol=1e-9)
                M, values = vertices_of(Case(graph, row, own))
                theta = row @ M + values
                u, weights = naive.solve_qp(M, theta)
                assert_allclose(result.marginals, u, atol=1e-9, err_msg=f"{graph.factors} {row} {own}")
                J = np.array([result.vjp(e)["scores"] for e in np.eye(n)])
                assert_allclose(J, face_projector(M, theta, u), atol=1e-9, err_msg=f"{graph.factors} {row} {own}")
                if own:
                    assert_allclose(result.additional_marginals["pair"] * own["pair"], values @ weights, atol=1e-9)


def test_reference_cases():
    reference = np.load(DATA / "logic.npz")
    kinds = {
        "XOR": Xor, "ATMOSTONE": AtMostOne, "OR": Or, "OROUT": OrOut, "XOROUT": XorOut, "ANDOUT": AndOut, "IMPLY": Imply
    }  # fmt: skip
    for case in sorted({key.split("__")[0] for key in reference}):
        arrays = {key.split("__")[1]: reference[key] for key in reference if key.startswith(case + "__")}
        kind, n = case.split("_")[0], arrays["scores"].shape[1]
        graph = FactorGraph()
        u = graph.variables(n)
        literals = literals_of(u, arrays.get("negated", np.zeros(n)))
        additional = None
        if kind == "PAIR":
            graph.add(Pair(u[:1], u[1:], name="pair"))
            additional = [{"pair": np.ravel(s)} for s in arrays["pair_scores"]]
        elif kind == "BUDGET":
            graph.add(Budget(literals, int(arrays["budget"])))
        elif kind == "KNAPSACK":
            graph.add(Knapsack(literals, arrays["costs"], float(arrays["budget"])))
        else:
            graph.add(kinds[kind](literals))
        compared = 0
        for i, result in enumerate(lp_sparsemap(graph, arrays["scores"], additional=additional)):
            assert_allclose(result.marginals, arrays["marginals"][i], atol=1e-9, err_msg=case)
            if arrays["margin"][i] > 1e-6:
                compared += 1
                gradients = result.vjp(arrays["v"][i])
                assert_allclose(gradients["scores"], arrays["grad_scores"][i], atol=1e-9, err_msg=case)
                if kind == "PAIR":
                    assert_allclose(gradients["additional"]["pair"], np.ravel(arrays["grad_pair_scores"][i]), atol=1e-9)
        assert compared > 0, case


def test_threshold_solves_its_equation():
    rng, solve = np.random.default_rng(1), interpreted(threshold)
    for scale in (1e-3, 1.0, 1e6):
        for _ in range(300):
            n = int(rng.integers(1, 8))
            z = np.round(rng.normal(size=n) * 2, rng.integers(0, 3)) * scale
            c = rng.choice([-2.0, -1.0, 0.5, 1.0, 3.0], size=n)
            low, high = c[c < 0].sum(), c[c > 0].sum()
            b = float(rng.choice([low, high, 0.5 * (low + high), low + rng.random() * (high - low)]))
            mu = solve(z, c, b, float(rng.normal()) * scale, -np.inf, np.inf)
            reached = c @ np.clip(z - c * mu, 0, 1)
            assert abs(reached - b) <= 1e-13 * max(1, scale) * n, (z, c, b, mu)
    # Bounds, and equations without a root.
    assert solve(np.array([0.5]), np.ones(1), 0.25, 0.0, 0.5, np.inf) == 0.5
    assert solve(np.array([0.5]), np.ones(1), 2.0, 0.0, -np.inf, np.inf) == -np.inf


def test_wrong_factors_are_refused():
    graph, other = FactorGraph(), FactorGraph()
    u, v = graph.variables((3, 2), name="u"), other.variables(3)
    w = graph.variables(2)
    assert graph.names == ["u", "u2"]
    for factor, message in [
        (lambda: Xor([]), "no variables or labels"),
        (lambda: Xor(u[:0]), "no variables"),
        (lambda: Xor([u[0, 0], u[0, 0]]), r"u\[0, 0\] more than once"),
        (lambda: Xor([u[0, 0], ~u[0, 0]]), "more than once"),
        (lambda: Xor([u[0, 0], 3]), "got 3"),
        (lambda: Xor(3), "takes variables, or a list of labels"),
        (lambda: Xor([u[0, 0], v[0]]), "two graphs"),
        (lambda: Pair(u[0, 0], v[0], name="p"), "two graphs"),
        (lambda: Imply(w[:1]), "at least 2"),
        (lambda: OrOut(w[:1]), "at least 2"),
        (lambda: Budget(u, -1), "an int that is not negative.*; got -1"),
        (lambda: Budget(u, 1.5), r"AtMost takes variables or labels and then a number, .* AtMost\(u, 2\); got 1.5"),
        (lambda: Budget(2, u), "takes variables or labels and then a number"),
        (lambda: Budget(u, 2, labels=[0]), "both variables and labels"),
        (lambda: Budget(u), "takes variables or labels and then a number"),
        (lambda: Knapsack(w, [1.0], 1), r"costs has shape \(1,\)"),
        (lambda: Knapsack(w, [1.0, -1.0], 1), "not negative"),
        (lambda: Knapsack(w, [1.0, np.nan], 1), "finite"),
        (lambda: Knapsack(w, [1.0, 1.0], -1), "not negative"),
        (lambda: Pair(u[0], u[0], name="p"), "with itself"),
        (lambda: Pair(u[0], u[:, 0], name="p"), "entry by entry"),
        (lambda: Pair(u[0], u[1], name=""), "needs a name"),
        (lambda: StructureFactor(LinearChain, u), "instance"),
        (lambda: StructureFactor(LinearChain(), u[0]), "2 axes"),
        (lambda: StructureFactor(DependencyTree(), u[:2]), "shape"),
        (lambda: graph.add(Xor(v)), "another graph"),
        (lambda: graph.add(3), "takes factors"),
        (lambda: graph.variables(0), "at least one"),
        (lambda: graph.variables("a"), "tuple of ints"),
        (lambda: graph.variables(2.5), "tuple of ints"),
        (lambda: graph.variables(2, name=""), "no other"),
        (lambda: graph.variables(2, name="u"), "no other"),
    ]:
        with pytest.raises(ValueError, match=message):
            factor()
    graph.add(Pair(u[0], u[1], name="p"))
    with pytest.raises(ValueError, match="named 'p' already"):
        graph.add(Pair(u[0], u[2], name="p"))
    with pytest.raises(TypeError, match="no truth value"):
        bool(u[0, 0])
    assert len(graph.factors) == 1


def test_a_graph_shows_itself():
    graph = FactorGraph()
    assert repr(graph) == "FactorGraph(no variables; no factors)"
    u = graph.variables((2, 3), name="<links>")
    graph.add(*[Xor(row) for row in u], Pair(u[:, 0], ~u[:, 1], name="pairs"))
    graph.add(StructureFactor(LinearChain(), u, name="chain"), Budget(u, 2), Knapsack(u[0], [1, 2, 3], 2))
    assert repr(graph) == (
        "FactorGraph(<links> (2, 3); 2 Exactly(1), 2 Pair, 1 LinearChain(), 1 AtMost(2), 1 Knapsack(2))"
    )
    html = graph._repr_html_()
    assert "&lt;links&gt;" in html and "<links>" not in html
    assert html.count("<tr>") == 8 and "Exactly `k` of the labels" in html
    assert repr(graph.factors[0]) == "Exactly([<links>[0, 0], <links>[0, 1], <links>[0, 2]], 1)"
    assert repr(graph.factors[2]).startswith("Pair(<links>[0, 0] - ~<links>[0, 1], <links>[1, 0]")
    assert repr(graph.factors[4]).endswith("... 6 in all], 2)")
    assert (repr(u), repr(~u[1, 2])) == ("Variables(shape=(2, 3))", "~<links>[1, 2]")
    assert (len(u), u.T.shape, (~u).ravel().size, graph["<links>"] is u) == (2, (3, 2), 6, True)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("shape", lambda u: (9, 9)), ("shape", lambda u: (2, 4)), ("literals", lambda u: u[:2]), ("literals", None)],
)
def test_an_edited_structure_factor_is_refused(attribute, value):
    """It made kernels read foreign memory, or crash."""
    graph, other = FactorGraph(), FactorGraph()
    u, foreign = graph.variables(6), other.variables(6)
    factor = StructureFactor(Matching(), u[np.arange(6).reshape(2, 3)])
    graph.add(factor)
    setattr(factor, attribute, foreign if value is None else value(u))
    for function in (lp_sparsemap, map_inference):
        with pytest.raises(ValueError, match=r"StructureFactor .* was edited"):
            function(graph, np.arange(6.0))


def test_an_edited_rule_is_refused():
    graph = FactorGraph()
    u = graph.variables(200)
    knapsack = Knapsack(u, np.ones(200), 6.0)
    graph.add(knapsack)
    knapsack.weights = np.ones(2)
    with pytest.raises(ValueError, match=r"Knapsack .* was edited: it has 200 variables, but 2 by its coefficients"):
        lp_sparsemap(graph, np.ones(200))
