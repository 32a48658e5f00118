"""HeadAutomaton against enumeration: many small problems, with forbidden parts, ties and single words."""

from functools import cache

import naive
import naive_gibbs
import numpy as np
import pytest
from registry import RANDOM, listed

from sklearn_sparsemap import lp_sparsemap, map_inference, marginal_inference, n_best, sparsemap
from sklearn_sparsemap.factors import AtMost, FactorGraph, StructureFactor
from sklearn_sparsemap.plotting import PartsDisplay
from sklearn_sparsemap.structures import HeadAutomaton

KINDS = "modifiers", "grandparents"
N_PROBLEMS = 500
# Maximum number of problems without the property that a test is about.
FEW = 100


def problems(kind, seed, n=N_PROBLEMS, **fixed):
    """Draw problems; a quarter have forbidden parts, a quarter ties."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        options = {"forbid": i % 4 == 1, "ties": i % 4 == 2, "scale": (0.3, 1.0, 10.0)[i % 3]}
        yield rng, RANDOM[kind](rng, **(options | fixed))


def infer(function, instance, **options):
    return function(instance.structure, instance.scores, **instance.additional, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_map_is_the_best_of_all(kind):
    single = none = 0
    for _, instance in problems(kind, 0):
        structures, _, theta = instance.enumerate()
        found, value = infer(map_inference, instance)
        assert value == pytest.approx(theta.max(), abs=1e-11), instance
        assert theta[structures.index(listed(found))] == pytest.approx(theta.max(), abs=1e-11), instance
        n_candidates = len(instance.additional.get("grandparents", ()))
        single += len(found) - n_candidates == 1
        none += not found[n_candidates:].any()
    assert single >= 50 and none >= 50


@pytest.mark.parametrize("kind", KINDS)
def test_sparsemap_is_the_projection(kind):
    mixed = 0
    for _, instance in problems(kind, 1):
        structures, M, theta = instance.enumerate()
        expected, _ = naive.solve_qp(M, theta)
        result = infer(sparsemap, instance)
        assert result.converged
        np.testing.assert_allclose(result.marginals, expected, atol=1e-8, err_msg=repr(instance))
        places = [structures.index(listed(structure)) for structure in result.structures]
        np.testing.assert_allclose(M[:, places] @ result.weights, expected, atol=1e-8)
        mixed += len(places) > 1
    assert mixed >= 100


@cache
def counts_of_additional(structure, dims, n_additional):
    """Return how often each additional part is in each structure, by `encode`."""
    n, n_candidates = dims[:2]
    given = {} if n_candidates == 0 else {"grandparents": np.zeros((n_candidates, n))}
    structures = naive.enumerate_modifiers(np.zeros(n_candidates + n), **given)[0]
    counts = np.zeros((n_additional, len(structures)))
    for s, one in enumerate(structures):
        parts = structure.encode(np.array(one), dims)[1]
        np.add.at(counts[:, s], parts[parts >= 0], 1.0)
    return counts


@pytest.mark.parametrize("kind", KINDS)
def test_gibbs_marginals_are_expectations(kind):
    for _, instance in problems(kind, 2):
        _, M, theta = instance.enumerate()
        structure, given = instance.structure, {name: a.shape for name, a in instance.additional.items()}
        dims = structure.dims(instance.scores.shape, given)
        counts = counts_of_additional(structure, dims, sum(a.size for a in instance.additional.values()))
        log_partition, expected = naive_gibbs.expectation(np.vstack([M, counts]), theta)
        result = infer(marginal_inference, instance)
        assert result.log_partition == pytest.approx(log_partition, abs=1e-11)
        found = np.concatenate([result.marginals, *(a.ravel() for a in result.additional_marginals.values())])
        np.testing.assert_allclose(found, expected, atol=1e-11, err_msg=repr(instance))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_those_of_the_projection(kind):
    compared, step = 0, 1e-5
    for rng, instance in problems(kind, 3, ties=False, scale=0.5):
        arrays = {"scores": instance.scores, **instance.additional}
        direction = {name: rng.normal(size=array.shape) for name, array in arrays.items()}
        found = infer(sparsemap, instance)

        def projected(move):
            moved = {name: array + move * direction[name] for name, array in arrays.items()}
            scores = moved.pop("scores")
            _, M, theta = type(instance)(instance.structure, scores, moved).enumerate()
            return naive.solve_qp(M, theta)[0]

        ahead, behind = (projected(step) - found.marginals) / step, (found.marginals - projected(-step)) / step
        if np.abs(ahead - behind).max() > 1e-4:
            continue  # a kink
        compared += 1
        expected = (ahead + behind) / 2
        np.testing.assert_allclose(found.jvp(**direction), expected, atol=1e-4, err_msg=repr(instance))
        v = rng.normal(size=expected.shape)
        gradients = found.vjp(v)
        total = sum((gradients[name] * direction[name]).sum() for name in direction)
        assert total == pytest.approx(v @ expected, abs=1e-3)
    assert compared >= N_PROBLEMS - FEW


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_ones_in_order(kind):
    for _, instance in problems(kind, 4, n=50):
        theta = np.sort(instance.enumerate()[2])[::-1][:5]
        theta = theta[theta > -np.inf]
        pairs = infer(n_best, instance, k=5)
        np.testing.assert_allclose([value for _, value in pairs], theta, atol=1e-10)


def test_without_siblings_words_are_independent():
    scores = np.array([0.3, -0.2, 1.5, 0.0])
    np.testing.assert_allclose(sparsemap(HeadAutomaton(), scores).marginals, np.clip(scores, 0, 1), atol=1e-12)
    np.testing.assert_allclose(marginal_inference(HeadAutomaton(), scores).marginals, 1 / (1 + np.exp(-scores)))


def test_a_root_has_no_candidates():
    rng = np.random.default_rng(7)
    for n in (1, 3):
        scores, siblings = rng.normal(size=n), rng.normal(size=(n + 1, n + 1))
        plain = sparsemap(HeadAutomaton(), scores, siblings=siblings)
        root = sparsemap(HeadAutomaton(True), scores, siblings=siblings, grandparents=np.zeros((0, n)))
        assert np.array_equal(plain.marginals, root.marginals)
        assert root.additional_marginals["grandparents"].shape == (0, n)


def test_entries_before_the_diagonal_are_not_used():
    rng = np.random.default_rng(5)
    scores, siblings = rng.normal(size=4), rng.normal(size=(5, 5))
    changed = np.triu(siblings) + np.tril(rng.normal(size=(5, 5)), -1)
    first, second = (sparsemap(HeadAutomaton(), scores, siblings=own) for own in (siblings, changed))
    assert np.array_equal(first.marginals, second.marginals)
    assert not np.tril(first.additional_marginals["siblings"], -1).any()


@pytest.mark.parametrize("grandparents", [False, True])
def test_in_graphs_it_is_like_an_enumerated_structure(grandparents):
    """One automaton whose words are bounded in number: the relaxation is that of the enumerated subsets if tight."""
    rng, integral = np.random.default_rng(6), 0
    for _ in range(30):
        n_candidates, n = (2 if grandparents else 0), 4
        given = {"siblings": rng.normal(size=(n + 1, n + 1))}
        if grandparents:
            given["grandparents"] = rng.normal(size=(n_candidates, n))
        graph, structure = FactorGraph(), HeadAutomaton(grandparents)
        u = graph.variables(n_candidates + n)
        graph.add(StructureFactor(structure, u, name="head"), AtMost(u[n_candidates:], 2))
        scores = 2.0 * rng.normal(size=n_candidates + n)
        best = map_inference(graph, scores, additional={"head": given})
        structures, _, theta = naive.enumerate_modifiers(scores, **given)
        allowed = [sum(one[n_candidates:]) <= 2 for one in structures]
        assert best.value == pytest.approx(theta[allowed].max(), abs=1e-8)
        result = lp_sparsemap(graph, scores, additional={"head": given})
        assert result.converged and result.gap < 1e-5
        integral += result.integral
    assert integral >= 3


@pytest.mark.parametrize(
    "structure, scores, given, message",
    [
        (HeadAutomaton(), [1.0, 2.0], {"siblings": np.zeros((2, 2))}, "siblings"),
        (HeadAutomaton(True), [1.0, 2.0], {}, "pass grandparents"),
        (HeadAutomaton(True), [1.0], {}, "pass grandparents"),
        (HeadAutomaton(True), np.zeros(4), {"grandparents": np.zeros((2, 2)), "siblings": np.eye(2)}, "siblings"),
        (HeadAutomaton(), [1.0, np.nan], {}, "must be finite"),
        (HeadAutomaton(), [0.0], {"siblings": np.full((2, 2), -np.inf)}, "infeasible"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(structure, scores, given, message):
    with pytest.raises(ValueError, match=message):
        map_inference(structure, scores, **given)


def test_pictures_show_its_words():
    result = sparsemap(HeadAutomaton(), [0.6, 0.3, -1.0])
    display = PartsDisplay(result, names=["dogs", "bark", "here"])
    assert display.marginals.tolist() == result.marginals.tolist()


def test_structures_that_are_none():
    dims = HeadAutomaton(True).dims((4,), {"grandparents": (2, 2)})
    for wrong in ([True, True, False, False], [False, False, True, True], [True, False, True], [2, 0, 0, 0]):
        with pytest.raises(ValueError, match="candidates"):
            HeadAutomaton(True).encode(wrong, dims)
    with pytest.raises(ValueError, match="True or False"):
        HeadAutomaton(2)
