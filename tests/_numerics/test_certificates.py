"""Solutions are certified by a feasible point and a bound, whatever the scores: ties, masks, single states."""

import numpy as np
import pytest
from internals import Problems, rescale_masks

from sklearn_sparsemap import map_inference, marginal_inference, sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, LinearProgram, Matching, Ranking, Simplex, Subset

MASKS = (-1e3, -1e7, -1e10, -1e14, float(np.finfo(np.float32).min))
STRUCTURES = {
    "matching": (Matching(), (5, 5), "facets"),
    "wide matching": (Matching(), (3, 6), "facets"),
    "tree": (DependencyTree(), (5, 4), "facets"),
    "single root": (DependencyTree(single_root=True), (5, 4), "facets"),
    "projective": (DependencyTree(projective=True), (5, 4), "active_set"),
    "ranking": (Ranking(top_k=2), (6,), "facets"),
    "subset": (Subset(1, 3), (6,), "facets"),
    "simplex": (Simplex(), (5,), "facets"),
    "chain": (LinearChain(), (5, 4), "flow"),
}


def draw_masked(name, mask, rng):
    """Return scores and additional scores, some of them masked, and whether any additional scores there are."""
    structure, shape, _ = STRUCTURES[name]
    scores = np.where(rng.random(shape) < 0.25, mask, rng.normal(size=shape))
    if not isinstance(structure, LinearChain):
        return scores, {}
    return scores, {"transitions": np.where(rng.random((4, 4)) < 0.2, mask, rng.normal(size=(4, 4)))}


def forbid(values):
    return np.where(values < -500.0, -np.inf, values)


@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize("mask", MASKS)
def test_masks_are_as_good_as_minus_infinity(name, mask):
    """A structure without masked parts exists: marginals, derivatives, objective and Gibbs marginals are the same."""
    structure, shape, solver = STRUCTURES[name]
    rng, n_compared = np.random.default_rng(0), 0
    for _ in range(12):
        scores, additional = draw_masked(name, mask, rng)
        forbidden = {key: forbid(values) for key, values in additional.items()}
        try:
            expected = sparsemap(structure, forbid(scores), solver="active_set", **forbidden)
        except ValueError:
            continue
        v = rng.normal(size=shape)
        for how in ("auto", solver, "active_set"):
            result = sparsemap(structure, scores, solver=how, **additional)
            assert result.converged
            np.testing.assert_allclose(result.marginals, expected.marginals, atol=1e-8)
            np.testing.assert_allclose(result.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-8)
            assert result.objective == pytest.approx(expected.objective, abs=1e-8)
            n_compared += 1
        if structure.marginal_oracle is not None:
            gibbs = marginal_inference(structure, scores, **additional)
            without = marginal_inference(structure, forbid(scores), **forbidden)
            np.testing.assert_allclose(gibbs.marginals, without.marginals, atol=1e-10)
            assert gibbs.log_partition == pytest.approx(without.log_partition, abs=1e-9)
    assert n_compared >= 12


@pytest.mark.parametrize("solver", ["auto", "facets", "active_set"])
def test_masks_that_cannot_be_avoided_cost_no_digits(solver):
    """All pairs of a row are masked: the row decides by what its masks differ in."""
    rng = np.random.default_rng(1)
    for mask in MASKS[2:4]:
        scores = rng.integers(-8, 8, (4, 4)) / 8.0
        offset = scores.copy()
        offset[1] += mask
        result, expected = sparsemap(Matching(), offset, solver=solver), sparsemap(Matching(), scores)
        exact = np.array_equal(offset[1] - mask, scores[1])
        assert result.converged and (exact or mask < -1e12)
        if exact:
            np.testing.assert_allclose(result.marginals, expected.marginals, atol=1e-10)
            assert result.objective - mask == pytest.approx(expected.objective, abs=1e-9 - 1e-15 * mask)
        np.testing.assert_allclose(result.marginals.sum(axis=0), 1.0, atol=1e-9)


def test_masks_move_only_if_they_outweigh_all_other_scores():
    def raised(scores):
        n = len(scores)
        sizes = np.array([[2, 0, 0, 0]])
        none = np.array([0])
        problems = Problems(np.array(scores), np.array([0, n]), np.zeros(0), none, none, np.zeros((1, 1)), sizes)
        return rescale_masks(problems)[0].scores.tolist()

    def margin(n):
        return 50.0 + 2.0 * (1.0 + np.log(n))

    assert raised([3.0, -1e4, -np.inf]) == [3.0, -1e4, -np.inf]
    # Nothing tells masks from scores.
    assert raised([1e7, -2e7]) == [1e7, -2e7]
    # A level: twice two parts of size 3, the width of the level for two parts, and the margin below zero.
    top = -(2 * (2 * 3.0 + 4.0) + margin(4))
    assert raised([3.0, -np.inf, -1e10, -1e10 - 4.0]) == pytest.approx([3.0, -np.inf, top, top - 4.0])
    # The second level is below two parts of the first one.
    first = -(2 * 2 * 1.0 + margin(3))
    assert raised([1.0, -1e10, -1e20])[1:] == pytest.approx([first, -(2 * 2 * -first + margin(3))])
    # Too wide to be a level of its own: the second joins the first.
    assert raised([1.0, -1e7, -3.5e7])[1:] == [-1e7, -3.5e7]


def test_tied_matchings_are_feasible():
    """Newton's method fails at some of these: the marginals that it leaves are no matching's."""
    rng = np.random.default_rng(2)
    batch = [scale * rng.integers(0, 3, (6, 6)) for scale in (1e2, 1e4, 1e6) for _ in range(60)]
    batch.append(
        1e4
        * np.array(
            [
                [2, 1, 2, 2, 2, 1],
                [2, 1, 0, 2, 0, 0],
                [2, 0, 2, 2, 2, 0],
                [1, 0, 1, 0, 1, 1],
                [1, 1, 2, 1, 2, 2],
                [2, 0, 2, 1, 1, 0],
            ]
        )
    )
    expected = sparsemap(Matching(), batch, solver="active_set")
    for solver in ("auto", "facets"):
        results = sparsemap(Matching(), batch, solver=solver)
        assert results.converged.all()
        for result, other in zip(results, expected):
            np.testing.assert_allclose(result.marginals.sum(axis=0), 1.0, atol=1e-9)
            np.testing.assert_allclose(result.marginals, other.marginals, atol=1e-7)


def test_flows_of_one_state_are_certified():
    for scores, transition in ((1e-4, 1e-4), (0.0, 0.0), (1e3, -1e3)):
        chain = np.full((3, 1), scores)
        result = sparsemap(LinearChain(), chain, transitions=[[transition]], solver="flow")
        assert result.converged
        np.testing.assert_allclose(result.additional_marginals["transitions"], [[2.0]], atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0, 1e4])
def test_structures_of_a_flow_have_its_marginals(scale):
    """Ties leave additional marginals open: structures, weights and additional marginals are of one solution."""
    rng, n_compared = np.random.default_rng(3), 0
    for n_steps, n_states in ((1, 3), (2, 2), (5, 3), (8, 4)):
        for per_step in (False, True):
            shape = (n_steps - 1, n_states, n_states) if per_step else (n_states, n_states)
            transitions = scale * rng.integers(0, 2, shape).astype(float)
            transitions[..., 0, 1] = -np.inf
            scores = scale * rng.integers(0, 3, (n_steps, n_states))
            start = scale * rng.integers(0, 2, n_states)
            options = {"transitions": transitions, "start": start}
            result = sparsemap(LinearChain(), scores, solver="flow", **options)
            assert result.converged and result.weights.sum() == pytest.approx(1.0, abs=1e-9)
            u, joint = np.zeros(scores.shape), np.zeros(shape)
            for path, weight in zip(result.structures, result.weights):
                u[np.arange(n_steps), path] += weight
                place = (np.arange(n_steps - 1), path[:-1], path[1:]) if per_step else (path[:-1], path[1:])
                np.add.at(joint, place, weight)
            np.testing.assert_allclose(u, result.marginals, atol=1e-9)
            np.testing.assert_allclose(joint, result.additional_marginals["transitions"], atol=1e-9)
            np.testing.assert_allclose(u[0], result.additional_marginals["start"], atol=1e-9)
            n_compared += 1
    assert n_compared == 8


def test_forbidden_transitions_are_no_warning():
    """The rounding of large scores was estimated by 0 times infinity."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        transitions = np.where(rng.random((3, 3)) < 0.3, -np.inf, 1e3 * rng.normal(size=(3, 3)))
        np.fill_diagonal(transitions, 0.0)
        result = sparsemap(LinearChain(), 1e3 * rng.normal(size=(6, 3)), transitions=transitions, solver="flow")
        assert result.converged


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_minimum_of_float64_is_a_mask_too(name):
    """Sums of such scores overflow; they count as -1e100."""
    structure, _, _ = STRUCTURES[name]
    rng = np.random.default_rng(5)
    scores, additional = draw_masked(name, np.finfo(np.float64).min, rng)
    bounded = {key: np.maximum(values, -1e100) for key, values in additional.items()}
    result = sparsemap(structure, scores, **additional)
    assert result.converged
    np.testing.assert_array_equal(
        result.marginals, sparsemap(structure, np.maximum(scores, -1e100), **bounded).marginals
    )


def test_flows_of_huge_scores_are_left_to_the_active_set():
    """The potentials of a flow have no digits left for the marginals then."""
    rng, n_compared = np.random.default_rng(6), 0
    for _ in range(40):
        scores, transitions = 1e6 * rng.integers(-2, 3, (5, 2)), 1e6 * rng.integers(0, 3, (2, 2))
        result = sparsemap(LinearChain(), scores, transitions=transitions, solver="flow")
        exact = sparsemap(LinearChain(), scores, transitions=transitions, solver="active_set")
        if result.converged and exact.converged:
            np.testing.assert_allclose(result.marginals, exact.marginals, atol=1e-9)
            n_compared += 1
    assert n_compared >= 38


@pytest.mark.parametrize("solver", ["cg", "away_step", "pairwise"])
@pytest.mark.parametrize("name", ["matching", "tree", "ranking", "subset"])
def test_solvers_of_the_papers_are_exact_once_they_converge(name, solver):
    """At large scores rounding hides a gap that leaves marginals wrong in the fifth digit."""
    structure, shape, _ = STRUCTURES[name]
    rng, n_compared = np.random.default_rng(1), 0
    for _ in range(20):
        scores = 1e6 * rng.integers(0, 3, shape) + rng.normal(size=shape)
        expected, result = sparsemap(structure, scores), sparsemap(structure, scores, solver=solver)
        if result.converged:
            np.testing.assert_allclose(result.marginals, expected.marginals, atol=1e-6)
            n_compared += 1
    assert n_compared >= 10


def test_masks_of_a_program_cost_no_digits():
    """HiGHS keeps nine digits: masks left none to the other scores."""
    structure = LinearProgram([[2.0, 1.0, 3.0, 1.0, 2.0]], [5.0], A_eq=[np.ones(5)], b_eq=[2.0])
    result = sparsemap(structure, [-3.4e38, -1e300, 1e6, 1e6, 1e6])
    np.testing.assert_allclose(result.marginals, [0.0, 0.0, 2 / 3, 2 / 3, 2 / 3], atol=1e-9)
    # If every choice has a masked variable, the best one has as few as possible.
    forced = LinearProgram(A_eq=[[1.0, 1.0, 0.0]], b_eq=[1.0], A=np.zeros((0, 3)), b=[])
    np.testing.assert_allclose(sparsemap(forced, [-1e20, -1e10, 1.0]).marginals, [0.0, 1.0, 1.0], atol=1e-9)


def test_short_chains_of_large_tied_scores_are_exact():
    """Rounding of potentials, for scores of 1e4, left marginals that were off by 3e-6."""
    scores, transitions = [[20000.0, 10000.0], [10000.0, 10000.0]], [[10000.0, 10000.0], [20000.0, 10000.0]]
    result = sparsemap(LinearChain(), scores, transitions=transitions, solver="flow")
    assert result.converged
    np.testing.assert_allclose(result.marginals, 0.5, atol=1e-9)


@pytest.mark.parametrize("structure", [DependencyTree(single_root=True), DependencyTree(), Matching()])
def test_ties_of_large_scores_have_the_derivatives_of_their_face(structure):
    """Rounding hid ties at 1e5: facets that hold the solution were missing, and derivatives off by .6."""
    rng, shape, n_compared = np.random.default_rng(0), (5, 4), 0
    for _ in range(60):
        scores, v = 1e5 * rng.integers(-2, 3, shape), rng.normal(size=shape)
        expected, found = (sparsemap(structure, scores, solver=s) for s in ("active_set", "facets"))
        if found.converged:
            np.testing.assert_allclose(found.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-7)
            n_compared += 1
    assert n_compared > 50


def test_masks_among_scores_of_every_size():
    """A score of -2e4 beside one of 1e6 made a mask outweigh too little; so did one in another sample of the batch."""
    first, second = np.array([[1e6, 0.0], [-1.0, -1e100]]), np.array([[0.0, 0.0], [0.0, -2e4]])
    both = np.array([[1e6, 0.0], [-2e4, -1e100]])
    assert sparsemap(Matching(), both).objective == map_inference(Matching(), both).value - 1.0 == -20001.0
    for batch in ([first], [first, second], [second, first, both]):
        found = sparsemap(Matching(), batch)
        place = next(i for i, scores in enumerate(batch) if scores is first)
        np.testing.assert_array_equal(found[place].marginals, [[0.0, 1.0], [1.0, 0.0]])
    start = {"start": [-2e4, -1e100], "transitions": np.zeros((2, 2))}
    found = marginal_inference(LinearChain(), [[0.0, 1e6], [0.0, 0.0]], **start)
    np.testing.assert_allclose(found.marginals[0], [1.0, 0.0])


@pytest.mark.parametrize("mask", [-1e10, -3.4e38, -1e300])
def test_the_best_structure_under_masks_that_cannot_be_avoided(mask):
    """A mask in the sum left nothing of the other scores, and any structure was a best one."""
    scores = [[1.0, 5.0, 0.0], [mask] * 3, [0.0, 0.0, 3.0]]
    for additional in ({}, {"transitions": 0.5 * np.eye(3)}):
        expected = map_inference(LinearChain(), np.maximum(scores, -100.0), **additional)
        found = map_inference(LinearChain(), scores, **additional)
        assert found.structure.tolist() == expected.structure.tolist()
        assert found.value == pytest.approx(max(mask, -1e100))
