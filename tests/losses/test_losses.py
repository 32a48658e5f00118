"""Fenchel-Young losses compared with their definition over all structures."""

from collections import Counter
from copy import copy

import naive
import numpy as np
import pytest
from internals import readonly
from registry import RANDOM

from sklearn_sparsemap import map_inference, marginal_inference, sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Pair, StructureFactor, Xor
from sklearn_sparsemap.losses import LOSSES, ExpectedCost, FenchelYoungLoss, SPOPlusLoss
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

NO_MARGINALS = ("matching", "custom", "ranking", "top two")
SMOOTH = [name for name, recipe in LOSSES.items() if recipe.argmax != "map"]


def pairs(losses):
    """All losses for all structures that have them."""
    return [
        pytest.param(name, kind, id=f"{name}-{kind}")
        for name in losses
        for kind in RANDOM
        if LOSSES[name].argmax != "gibbs" or kind not in NO_MARGINALS
    ]


def random_gold(instance, rng):
    """Return a random structure that is not forbidden, its place among all, and all indicators and scores."""
    structures, M, theta = instance.enumerate()
    allowed = np.flatnonzero(theta > -np.inf)
    p = int(rng.choice(allowed))
    return np.array(structures[p]), p, M, theta


@pytest.mark.parametrize(("name", "kind"), pairs(LOSSES))
def test_loss_and_gradient_equal_their_definition(name, kind):
    rng = np.random.default_rng(0)
    for options in ({}, {"scale": 0.1}, {"scale": 10.0}, {"forbid": True}, {"temperature": 0.4}, {"temperature": 3.0}):
        temperature = options.pop("temperature", 1.0)
        for _ in range(4):
            instance = RANDOM[kind](rng, **options)
            gold, place, M, theta = random_gold(instance, rng)
            loss = FenchelYoungLoss(instance.structure, name, temperature=temperature)
            value, gradient = loss.loss_gradient(instance.scores, gold, **instance.additional)
            expected, slope = naive.loss_by_enumeration(M, theta, place, name, temperature)
            assert value >= 0.0
            assert value == pytest.approx(max(0.0, expected), abs=1e-8, rel=1e-9), instance
            np.testing.assert_allclose(gradient["scores"].ravel(), slope, atol=1e-8, err_msg=repr(instance))


def without_facets(structure):
    """Return the structure without its specialised solver."""
    kind = type(structure)
    plain = copy(structure)
    plain.__class__ = type(kind.__name__, (kind,), {"polytope_solver": None})
    return plain


@pytest.mark.parametrize("structure", [DependencyTree(single_root=True), Matching(), Subset(1, 6)], ids=repr)
def test_losses_by_facets_equal_those_by_structures(structure):
    rng, counts = np.random.default_rng(5), Counter()
    for scale in (0.0, 0.01, 0.3, 1.0, 10.0):
        for _ in range(3):
            shape = {DependencyTree: (13, 12), Matching: (10, 13), Subset: (20,)}[type(structure)]
            scores = scale * rng.normal(size=shape)
            gold = map_inference(structure, rng.normal(size=shape)).structure
            for name in ("sparsemap", "margin_sparsemap"):
                loss = FenchelYoungLoss(structure, name)
                value, gradient = loss.loss_gradient(scores, gold)
                dims = readonly(structure.dims(shape, {}), np.int64)
                z, none = readonly(scores.ravel()), np.zeros(0)
                counts[structure.polytope_solver.before(z, none, dims, none, np.inf, 0)] += 1
                by_structures = FenchelYoungLoss(without_facets(structure), name)
                expected, slope = by_structures.loss_gradient(scores, gold)
                assert value == pytest.approx(expected, abs=1e-9)
                np.testing.assert_allclose(gradient["scores"], slope["scores"], atol=1e-9)
    assert counts[0] >= 18


def test_losses_by_flow_equal_those_by_paths():
    rng, n_by_flow = np.random.default_rng(6), 0
    for layout in ({}, {"start": (3,), "end": (3,)}, {"start": (3,)}):
        for scale in (0.0, 0.05, 0.3, 1.0):
            for name in ("sparsemap", "margin_sparsemap"):
                shape = (40, 3)
                scores, gold = scale * rng.normal(size=shape), rng.integers(3, size=40)
                own = {name: scale * rng.normal(size=s) for name, s in {"transitions": (3, 3), **layout}.items()}
                loss = FenchelYoungLoss(LinearChain(), name)
                value, gradient = loss.loss_gradient(scores, gold, **own)
                expected, slopes = FenchelYoungLoss(without_facets(LinearChain()), name).loss_gradient(
                    scores, gold, **own
                )
                n_by_flow += not sparsemap(LinearChain(), scores, **own).n_iter >= 16
                assert value == pytest.approx(expected, abs=1e-9)
                assert gradient.keys() == slopes.keys()
                np.testing.assert_allclose(gradient["scores"], slopes["scores"], atol=1e-7)
                for each, slope in slopes.items():
                    if each != "scores" and scale > 0.0:
                        np.testing.assert_allclose(gradient[each], slope, atol=1e-6)
    assert n_by_flow >= 6


@pytest.mark.parametrize(("name", "kind"), pairs(LOSSES))
def test_loss_is_zero_exactly_at_an_optimal_gold(name, kind):
    rng = np.random.default_rng(1)
    for _ in range(8):
        instance = RANDOM[kind](rng)
        gold, place, M, theta = random_gold(instance, rng)
        loss = FenchelYoungLoss(instance.structure, name)
        value, _ = loss.loss_gradient(instance.scores, gold, **instance.additional)
        # Gold is a solution of the regularised problem where no structure's reduced score, costs included, is higher.
        cost = naive.hamming_cost(M, place) * LOSSES[name].margin
        reduced = theta + cost - M.T @ M[:, place] * (LOSSES[name].argmax == "sparsemap")
        is_optimal = reduced.max() <= reduced[place] and (LOSSES[name].argmax != "gibbs" or len(theta) == 1)
        assert (value <= 1e-12) == is_optimal, instance
        raised = instance.scores + 1e3 * (2 * M[:, place] - 1).reshape(instance.scores.shape)
        value, gradient = loss.loss_gradient(raised, gold, **instance.additional)
        assert value == pytest.approx(0.0, abs=1e-9)
        for g in gradient.values():
            np.testing.assert_allclose(g, 0.0, atol=1e-12 if LOSSES[name].argmax == "gibbs" else 0.0)


def along_a_line(instance, name, rng):
    """Return the loss of a random gold structure as a function of a step in a random direction, with its value and
    slope at 0.
    """
    gold, _, _, _ = random_gold(instance, rng)
    loss = FenchelYoungLoss(instance.structure, name, temperature=float(rng.choice([0.5, 1.0, 3.0])))
    direction = {n: rng.normal(size=a.shape) for n, a in instance.additional.items()}
    across = rng.normal(size=instance.scores.shape)

    def value_at(step):
        moved = {n: a + step * direction[n] for n, a in instance.additional.items()}
        return loss.loss_gradient(instance.scores + step * across, gold, **moved)[0]

    here, gradient = loss.loss_gradient(instance.scores, gold, **instance.additional)
    slope = (gradient["scores"] * across).sum() + sum((gradient[n] * d).sum() for n, d in direction.items())
    return value_at, here, slope


@pytest.mark.parametrize(("name", "kind"), pairs(LOSSES))
def test_loss_is_convex(name, kind):
    rng = np.random.default_rng(2)
    for _ in range(4):
        instance = RANDOM[kind](rng)
        value_at, here, slope = along_a_line(instance, name, rng)
        for step in (-3.0, -0.7, 0.3, 2.0):
            there = value_at(step)
            assert there >= here + step * slope - 1e-8
            assert value_at(step / 2) <= (here + there) / 2 + 1e-8


@pytest.mark.parametrize(("name", "kind"), pairs(SMOOTH))
def test_gradient_equals_differences(name, kind):
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(15):
        instance = RANDOM[kind](rng)
        value_at, here, slope = along_a_line(instance, name, rng)
        ahead, behind = (value_at(1e-5) - here) / 1e-5, (here - value_at(-1e-5)) / 1e-5
        if kind in ("chain", "custom") and abs(ahead - behind) > 1e-3:
            continue  # a kink in the additional scores
        compared += 1
        assert (ahead + behind) / 2 == pytest.approx(slope, abs=1e-5)
    assert compared >= 8


@pytest.mark.parametrize(("name", "kind"), pairs(LOSSES))
def test_temperature_scales_the_regulariser(name, kind):
    rng = np.random.default_rng(4)
    for t in (0.37, 2.5):
        instance = RANDOM[kind](rng)
        gold, _, _, _ = random_gold(instance, rng)
        scaled = {n: a / t for n, a in instance.additional.items()}
        tempered = FenchelYoungLoss(instance.structure, name, temperature=t)
        value, gradient = tempered.loss_gradient(instance.scores, gold, **instance.additional)
        plain, plain_gradient = FenchelYoungLoss(instance.structure, name).loss_gradient(
            instance.scores / t, gold, **scaled
        )
        assert value == pytest.approx(t * plain, abs=1e-10)
        for n, g in gradient.items():
            np.testing.assert_allclose(g, plain_gradient[n], atol=1e-9)


@pytest.mark.parametrize("name", ["hinge", "margin_crf", "margin_sparsemap"])
@pytest.mark.parametrize("kind", ["simplex", "chain"])
def test_a_cost_matrix(name, kind):
    rng = np.random.default_rng(5)
    for _ in range(20):
        instance = RANDOM[kind](rng)
        m = instance.scores.shape[-1]
        matrix = rng.uniform(0, 3, size=(m, m))
        np.fill_diagonal(matrix, 0.0)
        gold, place, M, theta = random_gold(instance, rng)
        structures = instance.enumerate()[0]
        cost = np.array([matrix[np.atleast_1d(gold), np.atleast_1d(s)].sum() for s in structures])
        expected, slope = naive.loss_by_enumeration(M, theta, place, name, cost=cost)
        loss = FenchelYoungLoss(instance.structure, name, cost=matrix)
        value, gradient = loss.loss_gradient(instance.scores, gold, **instance.additional)
        assert value == pytest.approx(expected, abs=1e-8)
        np.testing.assert_allclose(gradient["scores"].ravel(), slope, atol=1e-8)
        hamming, _ = FenchelYoungLoss(instance.structure, name, cost=1.0 - np.eye(m)).loss_gradient(
            instance.scores, gold, **instance.additional
        )
        default, _ = FenchelYoungLoss(instance.structure, name).loss_gradient(
            instance.scores, gold, **instance.additional
        )
        assert hamming == pytest.approx(default, abs=1e-10)


def test_crf_of_a_chain_is_a_gibbs_distribution():
    rng = np.random.default_rng(6)
    instance = RANDOM["chain"](rng)
    paths, M, theta = instance.enumerate()
    result = marginal_inference(instance.structure, instance.scores, **instance.additional)
    p = np.exp(theta - result.log_partition)
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(result.marginals.ravel(), M @ p, atol=1e-12)
    loss, _ = FenchelYoungLoss(instance.structure, "crf").loss_gradient(
        instance.scores, np.array(paths[3]), **instance.additional
    )
    assert loss == pytest.approx(-np.log(p[3]))


def test_many_samples_at_once():
    rng = np.random.default_rng(4)
    scores = [rng.normal(size=(n, 3)) for n in (1, 4, 2)]
    golds = [rng.integers(3, size=len(s)) for s in scores]
    transitions = rng.normal(size=(3, 3))
    loss = FenchelYoungLoss(LinearChain())
    for n_jobs in (1, 2):
        many = loss.loss_gradient(scores, golds, transitions=transitions, n_jobs=n_jobs)
        for s, g, (value, gradient) in zip(scores, golds, many, strict=True):
            alone = loss.loss_gradient(s, g, transitions=transitions)
            assert value == alone[0]
            for name in ("scores", "transitions"):
                assert np.array_equal(gradient[name], alone[1][name])


def test_wrong_input():
    with pytest.raises(ValueError, match="loss='ramp' is not one of"):
        FenchelYoungLoss(Simplex(), "ramp")
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        FenchelYoungLoss(Simplex(), temperature=0.0)
    with pytest.raises(ValueError, match=r"needs Gibbs marginals, which Matching.* does not have: .*#P-complete"):
        FenchelYoungLoss(Matching(), "crf")
    for wrong, message in [
        (np.ones((2, 2)), "0 on the diagonal"),
        (np.zeros((2, 3)), "shape"),
        ([[0.0, -1.0], [1.0, 0.0]], "not negative"),
        ([[0.0, np.nan], [1.0, 0.0]], "finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            FenchelYoungLoss(LinearChain(), "hinge", cost=wrong)
    with pytest.raises(ValueError, match="loss='crf' takes no cost"):
        FenchelYoungLoss(LinearChain(), "crf", cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="cost is for structures made of labels"):
        FenchelYoungLoss(DependencyTree(), "hinge", cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"cost has shape \(3, 3\), but there are 2 labels"):
        FenchelYoungLoss(LinearChain(), "hinge", cost=np.zeros((3, 3))).loss_gradient(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match="gold is forbidden"):
        FenchelYoungLoss(LinearChain()).loss_gradient([[0.0, -np.inf]], [1])
    loss = FenchelYoungLoss(LinearChain())
    with pytest.raises(ValueError, match="gold: a path is 2 ints from 0 to 1"):
        loss.loss_gradient(np.zeros((2, 2)), [0, 2])
    with pytest.raises(ValueError, match=r"gold\[1\]: a path is 3 ints"):
        loss.loss_gradient([np.zeros((2, 2)), np.zeros((3, 2))], [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="scores and gold have inconsistent numbers of samples: 2 and 1; gold needs"):
        loss.loss_gradient([np.zeros((2, 2)), np.zeros((3, 2))], [[0, 1]])


def test_quotients_of_scores_and_temperature_that_overflow_are_refused():
    graph = FactorGraph()
    graph.add(AtMostOne(graph.variables(3)))
    large = np.array([1e5, 2.0, 3.0])
    for call in (
        lambda: FenchelYoungLoss(Subset(), temperature=1e-305).loss_gradient(large, [1, 0, 0]),
        lambda: FenchelYoungLoss(Subset(), "crf", temperature=1e-305).loss_gradient([large, large], [[1, 0, 0]] * 2),
        lambda: ExpectedCost(Subset(), temperature=1e-305).loss_gradient(large, [1, 0, 0]),
        lambda: FenchelYoungLoss(graph, temperature=1e-305).loss_gradient(large, [1, 0, 0]),
        lambda: SPOPlusLoss(Subset(2, 2), 1e-305).loss_gradient([large], [[3.0, 1.0, 2.0]]),
    ):
        with pytest.raises(ValueError, match=r"divided by temperature=1e-305 are beyond 1e\+100.*higher temperature"):
            call()


@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap", "perceptron", "hinge"])
def test_losses_of_a_graph_that_is_a_structure_are_those_of_the_structure(name):
    # A graph with a single factor, a chain, is this chain, including its additional scores.
    rng = np.random.default_rng(5)
    graph = FactorGraph()
    u = graph.variables((4, 3))
    graph.add(StructureFactor(LinearChain(), u, name="chain"))
    loss, own = (FenchelYoungLoss(what, name, temperature=0.7) for what in (graph, LinearChain()))
    scores, transitions = rng.normal(size=(5, 4, 3)), rng.normal(size=(3, 3))
    paths = rng.integers(3, size=(5, 4))
    found = loss.loss_gradient(list(scores), list(np.eye(3)[paths]), additional={"chain": {"transitions": transitions}})
    wanted = own.loss_gradient(list(scores), list(paths), transitions=transitions)
    for (value, gradient), (other, other_gradient) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, other, atol=1e-6)
        np.testing.assert_allclose(gradient["scores"], other_gradient["scores"], atol=1e-6)
        found_there = gradient["additional"]["chain"]["transitions"]
        np.testing.assert_allclose(found_there, other_gradient["transitions"], atol=1e-6)
    single, _ = loss.loss_gradient(scores[0], np.eye(3)[paths[0]], additional={"chain": {"transitions": transitions}})
    np.testing.assert_allclose(single, found[0][0], atol=1e-9)


@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap", "hinge"])
def test_gradients_of_losses_of_graphs_are_right(name):
    # At these scores the losses are smooth enough for differences. They are zero for gold with a large margin.
    rng = np.random.default_rng(7)
    graph = FactorGraph()
    u = graph.variables((2, 3))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T], Pair(u[0], u[1], name="pairs"))
    loss, gold = FenchelYoungLoss(graph, name, temperature=1.3), np.eye(3)[[0, 2]]
    scores, pairs, step = rng.normal(size=(2, 3)), rng.normal(size=3), 1e-4
    value, gradient = loss.loss_gradient(scores, gold, additional={"pairs": pairs})
    assert value > 0.0
    for array, own in ((scores, gradient["scores"]), (pairs, gradient["additional"]["pairs"])):
        for place in np.ndindex(array.shape):
            sides = []
            for sign in (1.0, -1.0):
                array[place] += sign * step
                sides.append(loss.loss_gradient(scores, gold, additional={"pairs": pairs})[0])
                array[place] -= sign * step
            np.testing.assert_allclose((sides[0] - sides[1]) / (2 * step), own[place], atol=1e-3)
    ahead, _ = loss.loss_gradient(100.0 * gold, gold, additional={"pairs": np.zeros(3)})
    assert ahead == pytest.approx(0.0, abs=1e-6)


def test_losses_of_graphs_say_what_is_wrong():
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(Xor(u))
    loss = FenchelYoungLoss(graph)
    for name in ("crf", "margin_crf"):
        with pytest.raises(ValueError, match="Gibbs marginals"):
            FenchelYoungLoss(graph, name)
    with pytest.raises(ValueError, match="leave it at None"):
        FenchelYoungLoss(graph, "hinge", cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"gold\[1\]: the assignment violates Exactly"):
        loss.loss_gradient(np.zeros((2, 3)), [[1, 0, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match="each of 2 samples"):
        loss.loss_gradient(np.zeros((2, 3)), [[1, 0, 0]])
    with pytest.raises(ValueError, match="gold is forbidden"):
        loss.loss_gradient([-np.inf, 0.0, 0.0], [1, 0, 0])
    with pytest.raises(TypeError, match="of a graph by factor"):
        loss.loss_gradient(np.zeros(3), [1, 0, 0], transitions=np.zeros((3, 3)))
