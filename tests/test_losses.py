"""Fenchel-Young losses against their definition over all structures."""

import naive
import numpy as np
import pytest
from registry import RANDOM

from sklearn_sparsemap.losses import LOSSES, FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain, Simplex


def random_gold(instance, rng):
    structures, M, theta = instance.enumerate()
    p = int(rng.integers(len(structures)))
    return np.array(structures[p]), M[:, p], theta[p]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", RANDOM)
def test_loss_is_non_negative_and_zero_exactly_at_an_optimal_gold(name, kind):
    rng = np.random.default_rng(0)
    for _ in range(40):
        instance = RANDOM[kind](rng)
        gold, indicator, _ = random_gold(instance, rng)
        loss = FenchelYoungLoss(instance.structure, name)
        value, _ = loss.loss_gradient(instance.scores, gold, **instance.additional)
        assert value >= 0.0
        # Gold is optimal once it is ahead of everything else by half the squared distance.
        raised = instance.scores + 1e3 * indicator.reshape(instance.scores.shape)
        value, gradient = loss.loss_gradient(raised, gold, **instance.additional)
        assert value == pytest.approx(0.0, abs=1e-9)
        assert all(np.array_equal(g, np.zeros(g.shape)) for g in gradient.values())


def test_sparsemap_loss_equals_its_definition():
    rng = np.random.default_rng(1)
    for _ in range(40):
        instance = RANDOM["chain"](rng)
        gold, _, _ = random_gold(instance, rng)
        temperature = float(rng.choice([0.3, 1.0, 2.5]))
        value, _ = FenchelYoungLoss(LinearChain(), temperature=temperature).loss_gradient(
            instance.scores, gold, **instance.additional
        )
        expected = naive.sequence_loss(instance.scores, gold, temperature=temperature, **instance.additional)
        assert value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_gradient_equals_differences_and_loss_is_convex(kind, temperature):
    rng = np.random.default_rng(2)
    for _ in range(20):
        instance = RANDOM[kind](rng)
        gold, _, _ = random_gold(instance, rng)
        loss = FenchelYoungLoss(instance.structure, temperature=temperature)
        direction = {name: rng.normal(size=a.shape) for name, a in instance.additional.items()}
        across = rng.normal(size=instance.scores.shape)

        def value_at(step):
            moved = {name: a + step * direction[name] for name, a in instance.additional.items()}
            return loss.loss_gradient(instance.scores + step * across, gold, **moved)[0]

        value, gradient = loss.loss_gradient(instance.scores, gold, **instance.additional)
        slope = (gradient["scores"] * across).sum() + sum((gradient[n] * d).sum() for n, d in direction.items())
        assert (value_at(1e-5) - value_at(-1e-5)) / 2e-5 == pytest.approx(slope, abs=1e-5)
        assert value_at(0.3) >= value + 0.3 * slope - 1e-9
        assert value_at(-0.7) >= value - 0.7 * slope - 1e-9


def test_temperature_scales_the_regulariser():
    rng = np.random.default_rng(3)
    scores, transitions = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
    t = 0.37
    cold, gradient = FenchelYoungLoss(LinearChain(), temperature=t).loss_gradient(
        scores, [0, 1, 2, 0, 0], transitions=transitions
    )
    plain, plain_gradient = FenchelYoungLoss(LinearChain()).loss_gradient(
        scores / t, [0, 1, 2, 0, 0], transitions=transitions / t
    )
    assert cold == pytest.approx(t * plain)
    np.testing.assert_allclose(gradient["transitions"], plain_gradient["transitions"], atol=1e-12)


def test_many_samples_at_once():
    rng = np.random.default_rng(4)
    scores = [rng.normal(size=(n, 3)) for n in (1, 4, 2)]
    golds = [rng.integers(3, size=len(s)) for s in scores]
    transitions = rng.normal(size=(3, 3))
    loss = FenchelYoungLoss(LinearChain())
    for n_jobs in (1, 2):
        many = loss.loss_gradient(scores, golds, transitions=transitions, n_jobs=n_jobs)
        for s, g, (value, gradient) in zip(scores, golds, many):
            alone = loss.loss_gradient(s, g, transitions=transitions)
            assert value == alone[0]
            for name in ("scores", "transitions"):
                assert np.array_equal(gradient[name], alone[1][name])


def test_wrong_input():
    with pytest.raises(ValueError, match="loss='ramp' is not one of"):
        FenchelYoungLoss(Simplex(), "ramp")
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        FenchelYoungLoss(Simplex(), temperature=0.0)
    loss = FenchelYoungLoss(LinearChain())
    with pytest.raises(ValueError, match="gold: a path is 2 ints from 0 to 1"):
        loss.loss_gradient(np.zeros((2, 2)), [0, 2])
    with pytest.raises(ValueError, match=r"gold\[1\]: a path is 3 ints"):
        loss.loss_gradient([np.zeros((2, 2)), np.zeros((3, 2))], [[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 2 and 1"):
        loss.loss_gradient([np.zeros((2, 2)), np.zeros((3, 2))], [[0, 1]])
