"""Masks, leading axes and empty samples in PyTorch, compared with loops over single samples in NumPy."""

import numpy as np
import pytest
from layer_cases import FUNCTIONS, all_cases, masked, masked_twin, nested, of_one_vector

from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

torch = pytest.importorskip("torch")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.func import grad, vmap  # noqa: E402

from sklearn_sparsemap.torch import FenchelYoungLoss, LPSparseMAP, SparseMAP, lp_sparsemap, sparsemap  # noqa: E402

CASES = [(name, False) for name in all_cases()] + [(name, True) for name in FUNCTIONS]
# PyTorch's own, in forward mode under vmap and in tracing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]


def function_of(batch, **options):
    """Return the layer as a function of scores, mask and additional scores, and double tensors to try it on."""
    lengths = None if batch.lengths is None else torch.tensor(batch.lengths)

    def function(scores, mask, *values):
        additional = dict(zip(batch.additional, values))
        if batch.flat.is_graph:
            return lp_sparsemap(batch.what, scores, nested(additional), lengths, mask=mask, **options)
        return sparsemap(batch.what, scores, lengths, mask=mask, additional=additional, **options)

    values = [torch.tensor(value, requires_grad=True) for value in batch.additional.values()]
    return function, torch.tensor(batch.scores, requires_grad=True), torch.tensor(batch.mask), values


def n_empty(batch):
    return sum(shape is None for shape in batch.shape_of)


@pytest.mark.parametrize(("name", "from_function"), CASES)
def test_masked_batches_are_their_samples_one_by_one(name, from_function):
    batch = masked(name, from_function)
    function, scores, mask, values = function_of(batch)
    # Scores of masked parts are not read.
    scores = torch.where(mask, scores, torch.nan).detach().requires_grad_()
    weights = np.random.default_rng(0).normal(size=batch.scores.shape)
    u = function(scores, mask, *values)
    found = torch.autograd.grad((u * torch.tensor(weights)).sum(), [scores, *values])
    marginals, gradient, sums, n_solved = masked_twin(name, batch, weights)
    assert n_solved + n_empty(batch) == 9 and n_solved >= 6
    assert u.shape == batch.scores.shape and np.allclose(u.detach(), marginals, atol=1e-8)
    assert np.allclose(found[0], gradient, atol=1e-8)
    for own, key in zip(found[1:], batch.additional, strict=True):
        assert np.allclose(own, sums[key], atol=1e-8)
    for i, shape in enumerate(batch.shape_of):
        if shape is None:
            place = np.unravel_index(i, batch.lead)
            assert not u[place].any() and not found[0][place].any()


@pytest.mark.parametrize(("name", "from_function"), CASES)
def test_derivatives_of_masked_batches(name, from_function):
    batch = masked(name, from_function)
    function, scores, mask, values = function_of(batch)

    def unmasked(scores, *values):
        return function(scores, mask, *values)

    problem = of_one_vector(unmasked, (scores, *values))
    assert gradcheck(*problem, fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(*problem, fast_mode=True)


@pytest.mark.parametrize(("name", "from_function"), [("chain", False), ("pairs", True)])
def test_compiled_programs_and_transforms_take_masks(name, from_function):
    batch = masked(name, from_function)
    function, scores, mask, values = function_of(batch)
    u = function(scores, mask, *values)
    weights = torch.randn(u.shape, dtype=torch.double)
    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    found = compiled(scores, mask, *values)
    assert torch.equal(found, u)
    gradients = [torch.autograd.grad((out * weights).sum(), [scores, *values]) for out in (found, u)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-13)
    # Another mask meets the same program.
    assert not compiled(scores, torch.zeros_like(mask), *values).any()
    plain, constants = scores.detach(), [value.detach() for value in values]
    two, masks = torch.stack([plain, 0.5 * plain]), torch.stack([mask, torch.zeros_like(mask)], -1)
    both = vmap(lambda s, m: function(s, m, *constants), (0, -1))(two, masks)
    assert torch.equal(both[0], u) and not both[1].any()
    one = grad(lambda s: (function(s, mask, *constants) * weights).sum())(plain)
    assert torch.allclose(one, gradients[1][0], atol=1e-14)


@pytest.mark.parametrize("name", ["chain", "matching", "subset", "custom"])
def test_structures_and_additional_marginals_of_empty_samples(name):
    batch = masked(name)
    function, scores, mask, values = function_of(batch, return_structures=True)
    found = function(scores, mask, *values)
    compared = 0
    for i, shape in enumerate(batch.shape_of):
        a, b = np.unravel_index(i, batch.lead)
        structures, weights = found.structures[a][b], found.weights[a][b]
        assert len(structures) == len(weights)
        if shape is None:
            assert structures == [] and weights.shape == (0,)
            assert not any(part[a, b].any() for part in found.additional_marginals.values())
            compared += 1
        else:
            assert torch.isclose(weights.sum(), torch.ones((), dtype=torch.double))
    assert compared == n_empty(batch) == 3
    total = sum((w * w).sum() for row in found.weights for w in row)
    (gradient,) = torch.autograd.grad(total, scores)
    assert torch.isfinite(gradient).all() and not gradient[1].any()
    nothing = function(scores, torch.zeros_like(mask), *values)
    assert nothing.structures == [[[]] * 3] * 3 and not nothing.marginals.any()
    assert not any(part.any() for part in nothing.additional_marginals.values())
    (gradient,) = torch.autograd.grad(sum(w.sum() for row in nothing.weights for w in row), scores)
    assert not gradient.any()


def test_masks_broadcast():
    scores = torch.randn(2, 3, 4, 5, dtype=torch.double)
    keys = torch.rand(2, 1, 1, 5) < 0.5
    compared = 0
    for structure in (Simplex(), Subset(max_size=2)):
        for mask in (keys, torch.rand(5) < 0.5, torch.rand(4, 1) < 0.5, torch.rand(3, 1, 1) < 0.5, torch.tensor(True)):
            wanted = sparsemap(structure, scores, mask=mask.expand(scores.shape).clone())
            assert torch.equal(sparsemap(structure, scores, mask=mask), wanted)
            assert torch.equal(SparseMAP(structure)(scores, mask=mask.tolist()), wanted)
            compared += 1
    assert compared == 10
    # Rows that are wholly masked are empty, one by one.
    rows = sparsemap(Simplex(), scores, mask=torch.tensor([[True], [False], [True], [True]]))
    assert not rows[:, :, 1].any() and torch.equal(rows[:, :, 0], sparsemap(Simplex(), scores)[:, :, 0])


@pytest.mark.parametrize("structure", [Matching(), Simplex()], ids=repr)
def test_native_operations_take_masks(structure):
    ndim = structure.score_ndim
    batch = masked("matching" if ndim == 2 else "simplex")
    _, scores, mask, _ = function_of(batch)
    weights, found = torch.randn(scores.shape, dtype=torch.double), []
    for backend in ("compiled", "native"):
        u = function_of(batch, backend=backend)[0](scores, mask)
        found.append((u, *torch.autograd.grad((u * weights).sum(), scores)))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-9, rtol=0.0)
    native = function_of(batch, backend="native")[0]
    assert gradcheck(lambda s: native(s, mask), (scores,), check_forward_ad=True, fast_mode=True)
    assert not native(scores, torch.zeros_like(mask)).any()
    lengths = np.full((2, 2, ndim), 3)
    lengths[1, 0] = 9
    with pytest.raises(ValueError, match=r"lengths\[1, 0\] is"):
        sparsemap(structure, torch.zeros(2, 2, *[3] * ndim), torch.tensor(lengths), backend="native")
    wrong = torch.zeros(2, 2, *[3] * ndim)
    wrong[1, 0] = torch.nan
    with pytest.raises(ValueError, match=r"scores\[1, 0\] contains NaN"):
        sparsemap(structure, wrong, backend="native")
    with pytest.raises(ValueError, match=r"infeasible: scores\[1, 0\]"):
        sparsemap(structure, torch.where(wrong.isnan(), -torch.inf, wrong), backend="native")


def test_wrong_samples_are_named_by_their_indices():
    scores, lengths = torch.zeros(2, 3, 5, 4), torch.full((2, 3), 4)
    lengths[0, 0] = 0
    mask = torch.ones(2, 3, 5, 4, dtype=torch.bool)
    # A word without a head.
    mask[1, 1, :, 2] = False
    nan, long = scores.clone(), lengths.clone()
    nan[1, 2, 0, 0], long[1, 1] = torch.nan, 5
    for arguments, options, message in (
        ((scores, lengths), {"mask": mask}, r"infeasible: scores\[1, 1\].*lengths, not by a mask"),
        ((nan, lengths), {}, r"scores\[1, 2\] contains nan"),
        ((scores, long), {}, r"lengths\[1, 1\] is 5"),
        ((nan[1, 2],), {}, r"scores contains nan"),
    ):
        with pytest.raises(ValueError, match=message):
            sparsemap(DependencyTree(), *arguments, **options)
    torch._dynamo.reset()
    compiled = torch.compile(lambda s: sparsemap(DependencyTree(), s), fullgraph=True, backend="aot_eager")
    with pytest.raises(ValueError, match=r"scores\[1, 2\] contains nan"):
        compiled(nan)
    with pytest.raises(ValueError, match=r"additional\[0, 1\] contains nan"):
        sparsemap(LinearChain(), torch.zeros(2, 2, 3, 1), start=torch.tensor([[[0.0], [torch.nan]], [[0.0], [0.0]]]))
    graph = FactorGraph()
    graph.add(Xor(graph.variables(3)))
    forbidden = torch.zeros(2, 2, 3)
    forbidden[1, 0] = -torch.inf
    with pytest.raises(ValueError, match=r"infeasible: under scores\[1, 0\]"):
        lp_sparsemap(graph, forbidden)


def test_shapes_that_do_not_fit_are_explained():
    scores, mask = torch.zeros(2, 3, 4), torch.ones(2, 4, dtype=torch.bool)
    for options, message in (
        ({"mask": mask}, r"mask has shape \(2, 4\), which does not broadcast to the scores' \(2, 3, 4\)"),
        ({"mask": torch.ones(5, 2, 3, 4, dtype=torch.bool)}, r"mask has shape \(5, 2, 3, 4\)"),
        ({"mask": mask.float()}, "mask must be bool"),
        ({"mask": {"u": mask}}, "they must go together"),
        ({"lengths": torch.tensor([1, 2, 3])}, r"lengths has shape \(3,\); with these scores it must have \(2, 3\)"),
        ({"additional": {"transitions": torch.zeros(3)}}, "takes: none"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            sparsemap(Simplex(), scores, **options)
    with pytest.raises(ValueError, match=r"start has shape \(3, 4\); .* after the axes \(2, 3\)"):
        sparsemap(LinearChain(), torch.zeros(2, 3, 5, 4), start=torch.zeros(3, 4))
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(AtMostOne([*u, *v.ravel()]))
    arrays = {"u": torch.ones(2, 3, 2), "v": torch.ones(2, 3, 2, 3)}
    for wrong in (mask, {"w": mask}):
        with pytest.raises(ValueError, match="they must go together"):
            lp_sparsemap(graph, arrays, mask=wrong)
    only = {"v": torch.zeros(3, 1, 1, dtype=torch.bool)}
    found = LPSparseMAP(graph)(arrays, mask=only)
    assert torch.allclose(found["u"], torch.tensor(0.5)) and not found["v"].any()
    both = {**only, "u": torch.tensor([[True], [False], [True]])}
    found = lp_sparsemap(graph, arrays, mask=both)
    assert not found["u"][:, 1].any() and found["u"][:, 0].all()


@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0,), (2, 0, 3)])
def test_empty_leading_axes_pass_through(shape):
    graph = FactorGraph()
    graph.add(Xor(graph.variables(4)))
    for call, what in ((sparsemap, Simplex()), (sparsemap, Subset()), (lp_sparsemap, graph)):
        scores = torch.zeros(*shape, 4, requires_grad=True)
        for mask in (None, torch.ones(4, dtype=torch.bool)):
            u = call(what, scores, mask=mask)
            u.sum().backward()
            assert u.shape == scores.shape and scores.grad.shape == scores.shape
    found = sparsemap(Simplex(), torch.zeros(*shape, 4), return_structures=True)
    assert np.shape(found.structures) == shape[: shape.index(0) + 1]


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_of_masked_batches(loss):
    batch = masked("chain")
    scores, mask = torch.tensor(batch.scores, requires_grad=True), torch.tensor(batch.mask)
    # Gold on allowed states.
    y = mask.to(torch.int64).argmax(-1)
    y[1] = 99
    layer = FenchelYoungLoss(LinearChain(), loss, reduction="none")
    lengths, transitions = torch.tensor(batch.lengths), torch.randn(3, 1, 3, 3, dtype=torch.double)
    values = layer(scores, y, lengths, mask=mask, transitions=transitions)
    (gradient,) = torch.autograd.grad(values.sum(), scores)
    assert values.shape == (3, 3) and not values[1].any() and not gradient[1].any()
    compared = 0
    for i, shape in enumerate(batch.shape_of):
        a, b = np.unravel_index(i, batch.lead)
        if shape is None:
            continue
        own = torch.where(mask, scores, -torch.inf)[a, b, : shape[0]].detach().requires_grad_()
        wanted = layer(own, y[a, b, : shape[0]], transitions=transitions[a, 0])
        assert torch.isclose(values[a, b], wanted)
        found = torch.autograd.grad(wanted, own)[0]
        assert torch.allclose(gradient[a, b, : shape[0]], found, atol=1e-12)
        compared += 1
    assert compared == 6
    mean = FenchelYoungLoss(LinearChain(), loss)(scores, y.tolist(), lengths, mask=mask, transitions=transitions)
    assert torch.isclose(mean, values.mean())
    with pytest.raises(ValueError, match=r"y\[0, 0\]: "):
        layer(scores, torch.full((3, 3, 4), 99), lengths, mask=mask)
    with pytest.raises(ValueError, match=r"along the axes \(3, 3\)"):
        layer(scores, y[:, :2], lengths, mask=mask)
    mask[2, 0, 0, y[2, 0, 0]] = False
    with pytest.raises(ValueError, match=r"y\[2, 0\] is forbidden: one of its parts is masked"):
        layer(scores, y, lengths, mask=mask)
