"""Losses of decisions in PyTorch, against those of NumPy."""

import numpy as np
import pytest

from sklearn_sparsemap import losses, map_inference
from sklearn_sparsemap.factors import Budget, FactorGraph
from sklearn_sparsemap.structures import CustomStructure, Matching, Path, Ranking, Subset

torch = pytest.importorskip("torch")

from sklearn_sparsemap.torch import FenchelYoungLoss, PerturbedFenchelYoungLoss, SPOPlusLoss  # noqa: E402

GRID = Path.grid(3, 3)
CASES = [(GRID, (12,)), (Matching(), (3, 4)), (Ranking(), (4,)), (Subset(1, 2), (5,))]


def draw(shape, n=6, seed=0):
    rng = np.random.default_rng(seed)
    v = rng.normal(size=(n, *shape))
    return v, v + rng.normal(size=v.shape)


@pytest.mark.parametrize(("structure", "shape"), CASES, ids=repr)
@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_spo_plus_is_that_of_numpy(structure, shape, temperature, dtype):
    v, u = draw(shape)
    tol = 1e-9 if dtype == "float64" else 1e-4
    expected, gradient = losses.SPOPlusLoss(structure, temperature).loss_gradient(u, v)
    true, predicted = (torch.tensor(a, dtype=getattr(torch, dtype)) for a in (v, u))
    predicted.requires_grad_()
    best = losses._decisions.decisions_of(structure, shape).best(v.reshape(len(v), -1)).reshape(v.shape)
    for decisions in (None, torch.tensor(best), torch.tensor(best).int()):
        loss = SPOPlusLoss(structure, temperature, "none")
        found = loss(predicted, true, decisions)
        np.testing.assert_allclose(found.detach(), expected, atol=tol)
        (slope,) = torch.autograd.grad(found.sum(), predicted)
        np.testing.assert_allclose(slope, gradient, atol=tol)
        assert found.dtype == predicted.dtype
    # Any leading axes, reductions, and a single sample.
    split = loss(predicted.reshape(2, 3, *shape), true.reshape(2, 3, *shape))
    np.testing.assert_allclose(split.detach().flatten(), expected, atol=tol)
    assert SPOPlusLoss(structure, temperature)(predicted, true).item() == pytest.approx(expected.mean(), abs=tol)
    assert loss(predicted[0], true[0]).item() == pytest.approx(expected[0], abs=tol)


def test_forbidden_and_padded_parts_have_no_gradient():
    v, u = draw((5,))
    v[:, 3] = -np.inf
    predicted = torch.tensor(u, requires_grad=True)
    loss = SPOPlusLoss(Subset(1, 2), 0.3, "none")
    found = loss(predicted, torch.tensor(v), lengths=torch.tensor([5, 4, 5, 5, 4, 5]))
    found.sum().backward()
    assert torch.isfinite(predicted.grad).all()
    assert not predicted.grad[:, 3].any() and not predicted.grad[1, 4] and predicted.grad[0].any()
    by_mask = loss(predicted, torch.tensor(np.where(v > -np.inf, v, 0.0)), mask=torch.tensor(v > -np.inf),
                   lengths=torch.tensor([5, 4, 5, 5, 4, 5]))  # fmt: skip
    np.testing.assert_allclose(by_mask.detach(), found.detach())


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
def test_at_most_so_many_calls_of_the_oracle(max_iter):
    calls = []

    def best_three(scores):
        calls.append(1)
        return np.argsort(-scores)[:3]

    v, u = draw((7,), 1)
    decisions = torch.tensor(np.isin(np.arange(7), np.argsort(-v[0])[:3])[None])
    for loss in (
        SPOPlusLoss(CustomStructure(best_three), 2.0, max_iter=max_iter),
        FenchelYoungLoss(CustomStructure(best_three), max_iter=max_iter),
    ):
        calls.clear()
        predicted = torch.tensor(u, requires_grad=True)
        if isinstance(loss, SPOPlusLoss):
            value = loss(predicted, torch.tensor(v), decisions)
        else:
            value = loss(predicted, [np.argsort(-v[0])[:3]])
        value.backward()
        assert 1 <= len(calls) <= max_iter


def test_the_perturbed_loss_is_a_mean_over_draws():
    v, u = draw((12,))
    gold = np.array(list(map_inference(GRID, list(v)).structures))
    predicted = torch.tensor(u, requires_grad=True)
    loss = PerturbedFenchelYoungLoss(GRID, sigma=0.6, n_samples=5, reduction="none")
    found = loss(predicted, torch.tensor(gold), generator=torch.Generator().manual_seed(1))
    found.sum().backward()
    noise = torch.randn((5, *u.shape), generator=torch.Generator().manual_seed(1), dtype=torch.float64).numpy()
    perceptron = losses.SPOPlusLoss(GRID)
    expected, slope = np.zeros(6), np.zeros_like(u)
    for draw_ in noise:
        # SPO+ at true values of zero is the perceptron loss at twice the scores.
        own, gradient = perceptron.loss_gradient(u + 0.6 * draw_, np.zeros_like(u), gold)
        expected += own / 10
        slope += gradient / 10
    np.testing.assert_allclose(found.detach(), expected, atol=1e-12)
    np.testing.assert_allclose(predicted.grad, slope, atol=1e-12)
    with_lengths = PerturbedFenchelYoungLoss(Subset(1, 2), n_samples=2)
    ones = torch.tensor([[1, 0, 0, 0], [0, 1, 0, 0]])
    assert with_lengths(torch.zeros(2, 4), ones, lengths=torch.tensor([2, 3])).item() >= 0.0


def test_graphs_have_the_losses_of_their_relaxation():
    graph = FactorGraph()
    graph.add(Budget(graph.variables(5), 2))
    v, u = draw((5,))
    for temperature in (0.0, 0.4):
        expected, gradient = losses.SPOPlusLoss(graph, temperature).loss_gradient(u, v)
        predicted = torch.tensor(u, requires_grad=True)
        found = SPOPlusLoss(graph, temperature, "none")(predicted, torch.tensor(v))
        found.sum().backward()
        np.testing.assert_allclose(found.detach(), expected, atol=1e-5)
        np.testing.assert_allclose(predicted.grad, gradient, atol=1e-4)


def test_rankings_count_points():
    scores = np.random.default_rng(0).normal(size=(3, 4))
    rankings = [np.array(order) for order in ([2, 0, 1, 3], [0, 1, 2, 3], [3, 2, 1, 0])]
    for name in ("sparsemap", "perceptron", "hinge", "margin_sparsemap"):
        expected = [loss for loss, _ in losses.FenchelYoungLoss(Ranking(), name).loss_gradient(list(scores), rankings)]
        found = FenchelYoungLoss(Ranking(), name, reduction="none")(torch.tensor(scores), rankings)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda u: SPOPlusLoss(GRID, -1.0), "temperature"),
        (lambda u: SPOPlusLoss(GRID)(u, u[:1]), r"values have shape \(1, 12\)"),
        (lambda u: SPOPlusLoss(GRID)(u, u, u[:1]), r"decisions have shape \(1, 12\)"),
        (lambda u: SPOPlusLoss(GRID)(u, u, u), "decisions must be 0 and 1"),
        (lambda u: SPOPlusLoss(GRID)(u, u * torch.nan), "nan|NaN"),
        (lambda u: SPOPlusLoss(GRID)(u, u - torch.inf), "infeasible"),
        (lambda u: SPOPlusLoss(GRID)(u[:, :3], u[:, :3]), "this graph has 12 edges, but there are 3"),
        (lambda u: PerturbedFenchelYoungLoss(GRID, n_samples=0), "n_samples"),
        (lambda u: PerturbedFenchelYoungLoss(GRID)(u, u[:1]), r"decisions have shape \(1, 12\)"),
    ],
)
def test_wrong_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act(torch.zeros(2, 12) - 0.5)


def test_empty_batches_have_a_sum_of_zero():
    none = torch.zeros(0, 4, requires_grad=True)
    for loss in (SPOPlusLoss(Subset(2, 2), reduction="sum"), PerturbedFenchelYoungLoss(Subset(2, 2), reduction="sum")):
        total = loss(none, none.detach())
        total.backward()
        assert total.item() == 0.0 and none.grad.shape == (0, 4)
