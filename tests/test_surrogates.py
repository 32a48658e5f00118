"""Surrogate gradients of MAP against their definitions."""

import naive
import numpy as np
import pytest
from registry import RANDOM

from sklearn_sparsemap.structures import Path, Subset

torch = pytest.importorskip("torch")

from sklearn_sparsemap.torch import map_inference  # noqa: E402


def cases(rng):
    for kind in ("simplex", "tree", "matching", "subset", "ranking", "path", "warping"):
        for _ in range(4):
            instance = RANDOM[kind](rng, forbid=rng.random() < 0.4)
            _, M, theta = instance.enumerate()
            yield instance.structure, instance.scores, M[:, theta > -np.inf], theta[theta > -np.inf]


def test_gradients_are_those_of_their_definitions():
    rng, moved = np.random.default_rng(0), 0
    for structure, scores, M, theta in cases(rng):
        target, best = rng.normal(size=scores.shape), M[:, np.argmax(theta)]
        for surrogate, step in (("spigot", 1.0), ("spigot", 0.2), ("straight_through", 1.0)):
            own = torch.tensor(scores, requires_grad=True)
            found = map_inference(structure, own, surrogate=surrogate, step=step)
            np.testing.assert_allclose(found.detach().numpy().ravel(), best, atol=1e-12)
            (found * torch.tensor(target)).sum().backward()
            if surrogate == "spigot":
                projected, _ = naive.solve_qp(M, M.T @ (best - step * target.ravel()))
                expected = (best - projected).reshape(scores.shape)
            else:
                expected = np.where(scores > -np.inf, target, 0.0)
            np.testing.assert_allclose(own.grad, expected, atol=1e-6)
            moved += bool(np.abs(expected).max() > 1e-6)
    assert moved > 40


def test_padding_has_no_gradient_and_gradients_serve_learning():
    scores = torch.tensor(np.random.default_rng(1).normal(size=(3, 5)), requires_grad=True)
    lengths = torch.tensor([5, 3, 0])
    found = map_inference(Subset(0, 2), scores, lengths)
    (found * torch.arange(15.0).reshape(3, 5)).sum().backward()
    assert not scores.grad[1, 3:].any() and not scores.grad[2].any() and not found[2].any()
    grid = Path.grid(3, 3)
    costs, own = torch.tensor(np.random.default_rng(2).random(12)), torch.zeros(12, dtype=torch.float64)
    own.requires_grad_()
    losses = []
    for _ in range(30):
        loss = (map_inference(grid, own) * costs).sum()
        own.grad = None
        loss.backward()
        own.data -= 0.3 * own.grad
        losses.append(loss.item())
    assert losses[-1] == pytest.approx(-map_inference(grid, -costs).mul(-costs).sum().item())
    with pytest.raises(ValueError, match="surrogate"):
        map_inference(grid, own, surrogate="none")
    with pytest.raises(ValueError, match="step"):
        map_inference(grid, own, step=0.0)


def test_jax_agrees():
    jax = pytest.importorskip("jax")
    from sklearn_sparsemap.jax import map_inference as in_jax

    rng, grid = np.random.default_rng(3), Path.grid(3, 3)
    scores, target = rng.normal(size=(2, 2, 12)).astype(np.float32)
    for surrogate in ("spigot", "straight_through"):
        own = torch.tensor(scores, requires_grad=True)
        (map_inference(grid, own, surrogate=surrogate) * torch.tensor(target)).sum().backward()

        def loss(x, surrogate=surrogate):
            return (in_jax(grid, x, surrogate=surrogate) * target).sum()

        for function in (jax.grad(loss), jax.jit(jax.grad(loss))):
            np.testing.assert_allclose(function(jax.numpy.array(scores)), own.grad, atol=1e-5)
    lengths = jax.numpy.array([4, 2])
    gradient = jax.grad(lambda x: (in_jax(Subset(1, 2), x, lengths) * x[:, ::-1]).sum())(jax.numpy.array(scores[:, :4]))
    assert np.isfinite(gradient).all()
