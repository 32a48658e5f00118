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


def test_additional_scores_decode_and_have_the_difference_of_marginals_as_gradient():
    jax = pytest.importorskip("jax")
    from sklearn_sparsemap import map_inference as in_numpy
    from sklearn_sparsemap import sparsemap
    from sklearn_sparsemap.jax import map_inference as in_jax
    from sklearn_sparsemap.structures import LinearChain

    rng, chain = np.random.default_rng(4), LinearChain()
    x, w = rng.normal(size=(2, 3, 4, 2))
    for shape in ((2, 2), (1, 3, 2, 2), (3, 1, 2, 2)):
        t = rng.normal(size=shape)
        scores, moves = (torch.tensor(own, requires_grad=True) for own in (x, t))
        found = map_inference(chain, scores, transitions=moves)
        (found * torch.tensor(w)).sum().backward()
        expected, total = np.zeros_like(x), np.zeros((3, *shape[-3:]) if len(shape) == 4 else (3, 2, 2))
        for i in range(3):
            own = t if t.ndim == 2 else t[0] if shape[0] == 1 else t[i, 0]
            best = in_numpy(chain, x[i], transitions=own).structure
            np.testing.assert_array_equal(found[i].detach().argmax(-1), best)
            target = sparsemap(chain, found[i].detach().numpy() - w[i], transitions=np.zeros(own.shape))
            expected[i] = found[i].detach().numpy() - target.marginals
            u = target.marginals
            joint = np.eye(2)[best[:-1], :, None] * np.eye(2)[best[1:], None] - u[:-1, :, None] * u[1:, None]
            total[i] = joint if own.ndim == 3 else joint.sum(axis=0)
        np.testing.assert_allclose(scores.grad, expected, atol=1e-8)
        wanted = total if shape[0] == 3 else total.sum(axis=0)
        np.testing.assert_allclose(moves.grad, wanted.reshape(shape), atol=1e-8)
        by_jax = jax.grad(lambda a, b: (in_jax(chain, a, transitions=b) * w).sum(), (0, 1))(
            jax.numpy.array(x), jax.numpy.array(t)
        )
        np.testing.assert_allclose(by_jax[1], moves.grad, atol=1e-5)
        straight = map_inference(chain, scores, transitions=moves, surrogate="straight_through")
        assert not torch.autograd.grad(straight.sum(), moves)[0].any()
