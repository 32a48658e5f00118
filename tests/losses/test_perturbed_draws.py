"""The perturbed loss, against a mean over the same draws of noise."""

import numpy as np
import pytest

from sklearn_sparsemap.losses import PerturbedFenchelYoungLoss
from sklearn_sparsemap.structures import Subset


@pytest.mark.parametrize("sigma", [0.3, 2.0])
def test_the_loss_is_a_mean_over_draws(sigma):
    predicted, gold = np.array([[0.4, -0.2, 1.0]]), np.array([[0, 1, 0]])
    loss = PerturbedFenchelYoungLoss(Subset(1, 1), sigma=sigma, n_samples=5, random_state=0)
    (value,), (gradient,) = loss.loss_gradient(predicted, gold)
    rng = np.random.RandomState(0)
    scores = [predicted[0] + sigma * rng.normal(size=(1, 3))[0] for _ in range(5)]
    assert value == pytest.approx(np.mean([own.max() - own[1] for own in scores]))
    best = np.mean([np.eye(3)[own.argmax()] for own in scores], axis=0)
    np.testing.assert_allclose(gradient, best - gold[0], atol=1e-12)
