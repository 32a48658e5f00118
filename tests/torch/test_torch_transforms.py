"""Transforms and compilers of PyTorch: all layers against finite differences, and the tables of doc/layers.rst."""

import warnings

import numpy as np
import pytest
from transform_cases import LAYERS, TRANSFORMS, WEIGHTS, compiled_layers, expected, links, table

from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.structures import LinearChain, Matching, SequenceBudget, Simplex, Subset

torch = pytest.importorskip("torch")

from torch.autograd import forward_ad, gradcheck  # noqa: E402

from sklearn_sparsemap.torch import (  # noqa: E402
    FenchelYoungLoss,
    LPSparseMAP,
    PerturbedFenchelYoungLoss,
    SparseMAP,
    SPOPlusLoss,
    lp_sparsemap,
    map_inference,
    sparsemap,
)

# PyTorch's own, in forward mode under vmap and in tracing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]


@pytest.fixture(autouse=True)
def _without_compiled_code():
    torch._dynamo.reset()


def compiled(function, backend="aot_eager", **options):
    """Without a C++ compiler: "aot_eager" traces forward and backward, and generates no code."""
    return torch.compile(function, backend=backend, **options)


def layer_of(name, **options):
    what, additional, _ = LAYERS[name]
    additional = {key: torch.tensor(value) for key, value in additional.items()}
    if isinstance(what, FactorGraph):
        return lambda scores: lp_sparsemap(what, scores, **options)
    return lambda scores: sparsemap(what, scores, **options, **additional)


def dual(f, a, direction):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(a, direction))).tangent


def transforms_of(w):
    """Return functions of a layer by the names of transforms, for weights of the marginals."""
    t = torch.func

    def of_sample(f):
        return lambda a, own: (f(a) * own).sum()

    return {
        "grad": lambda f: t.grad(lambda a: (f(a) * w).sum()),
        "vjp": lambda f: lambda a: t.vjp(f, a)[1](w)[0],
        "jvp": lambda f: lambda a: t.jvp(f, (a,), (w,))[1],
        "jacrev": t.jacrev,
        "jacfwd": t.jacfwd,
        "hessian": lambda f: t.hessian(lambda a: (f(a).square() * w).sum()),
        "vmap": t.vmap,
        "vmap of grad": lambda f: lambda a: t.vmap(t.grad(of_sample(f)))(a, w),
        "dual_level": lambda f: lambda a: dual(f, a, w),
    }


def cell(function, scores, wanted):
    """Return a cell of a table: whether the values are right, or the error."""
    try:
        found = function(scores)
    except Exception as error:
        return type(error).__name__
    return "right" if found is not None and np.allclose(found.detach(), wanted, atol=1e-7) else "wrong"


PLACES = {
    "eager": lambda transform, f: transform(f),
    "compiled inside": lambda transform, f: transform(compiled(f)),
    "compiled outside": lambda transform, f: compiled(transform(f), fullgraph=True),
}


@pytest.mark.parametrize("transform", [*TRANSFORMS, "dual_level"])
def test_the_table_of_transforms_is_true(transform, request):
    with_compiler = compiled_layers(transform, request.config)
    found = {place: set() for place in PLACES}
    for name, (_, _, scores) in LAYERS.items():
        wanted, scores = expected(name)["jvp" if transform == "dual_level" else transform], torch.tensor(scores)
        own = transforms_of(torch.tensor(WEIGHTS[name]))[transform]
        for place, of in PLACES.items():
            if place != "eager" and name not in with_compiler:
                continue
            torch._dynamo.reset()
            found[place].add(cell(of(own, layer_of(name)), scores, wanted))
            # The eager layer is as before, in particular after an error.
            assert cell(own(layer_of(name)), scores, wanted) == "right"
    assert {place: " or ".join(sorted(cells)) for place, cells in found.items()} == table("PyTorch")[transform]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("transform", ["jvp", "jacfwd", "dual_level"])
def test_forward_mode_in_compiled_functions(transform, backend):
    for name, options in (("Simplex", {}), ("Matching", {"backend": "native"}), ("FactorGraph", {"backend": "native"})):
        wanted, scores = (
            expected(name)["jvp" if transform == "dual_level" else transform],
            torch.tensor(LAYERS[name][2]),
        )
        own = transforms_of(torch.tensor(WEIGHTS[name]))[transform]
        assert cell(compiled(own(layer_of(name, **options)), backend), scores, wanted) == "right"


def test_forward_mode_in_generated_code():
    scores, direction = torch.tensor([0.3, 0.2, -1.0]), torch.tensor([1.0, 0.0, 0.0])

    def product(scores):
        return torch.func.jvp(lambda s: sparsemap(Simplex(), s), (scores,), (direction,))[1]

    try:
        found = torch.compile(product, fullgraph=True)(scores)
    except torch._dynamo.exc.BackendCompilerFailed as error:
        # Inductor generates C++ code.
        assert "compiler" in str(error).lower() or "CppCompileError" in str(error)
        found = product(scores)
    assert found.tolist() == [0.5, -0.5, 0.0]


def test_tangents_are_never_lost_by_operators():
    scores, direction = torch.tensor([[0.3, 0.2, -1.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    layer = SparseMAP(Simplex())
    exported = torch.export.export(layer, (scores,)).module()
    for program in (exported, compiled(layer)):
        with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
            dual(program, scores, direction)
    with pytest.raises(RuntimeError, match="no forward-mode derivatives"):
        torch.func.jvp(exported, (scores,), (direction,))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("transform", ["grad", "jacrev", "jvp"])
def test_transforms_of_compiled_layers_change_nothing_that_lasts(transform, backend):
    layer, scores = layer_of("Simplex"), torch.tensor(LAYERS["Simplex"][2])
    own, wanted = transforms_of(torch.tensor(WEIGHTS["Simplex"]))[transform], expected("Simplex")[transform]
    before = layer(scores)
    for options in ({}, {"fullgraph": True}):
        assert cell(own(compiled(layer, backend, **options)), scores, wanted) in ("right", "Unsupported")
        assert torch.equal(layer(scores), before)
        assert cell(own(layer), scores, wanted) == "right"
        moved = scores.clone().requires_grad_()
        map_inference(Simplex(), moved).sum().backward()
        assert torch.isfinite(moved.grad).all()


SHAPED = {
    "Matching": (Matching(), [(2, 2, 3), (3, 2, 3), (4, 3, 3)], None),
    "Subset": (Subset(1, 2), [(2, 3), (3, 3), (4, 4)], None),
    "Simplex": (Simplex(), [(2, 3), (3, 3), (4, 4)], None),
    "SequenceBudget": (SequenceBudget(2), [(2, 3, 2), (3, 3, 2), (4, 4, 2)], None),
    "LinearChain": (LinearChain(), [(2, 3, 3), (3, 3, 3), (4, 4, 3)], lambda shape: shape[-1:] * 2),
    "steps": (LinearChain(), [(2, 3, 3), (3, 3, 3), (4, 4, 3)], lambda shape: (1, shape[1] - 1, *shape[-1:] * 2)),
    "graph": (links(), [(2, 2, 3), (3, 2, 3), (4, 2, 3)], None),
    "function": (lambda shape: _rows(shape), [(2, 2, 3), (3, 2, 3), (4, 3, 3)], None),
}


def _rows(shape):
    graph = FactorGraph()
    graph.add(*[Xor(row) for row in graph.variables(shape)])
    return graph


def pytest_generate_tests(metafunc):
    """Compile for any size at once (True) two layers, or all with --thorough; the others from the second size on."""
    if "dynamic" in metafunc.fixturenames:
        at_once = SHAPED if metafunc.config.getoption("thorough") else ("steps", "graph")
        cases = [*((name, None) for name in SHAPED), *((name, True) for name in at_once)]
        metafunc.parametrize(("name", "dynamic"), cases)


def test_compiled_layers_take_other_sizes(name, dynamic):
    what, shapes, transitions = SHAPED[name]
    is_graph = name in ("graph", "function")
    layer = (LPSparseMAP if is_graph else SparseMAP)(what, temperature=0.7, n_jobs=2)
    program, rng = compiled(layer, fullgraph=True, dynamic=dynamic), np.random.default_rng(0)
    for shape in shapes:
        additional = {} if transitions is None else {"transitions": torch.tensor(rng.normal(size=transitions(shape)))}
        scores = torch.tensor(rng.normal(size=shape))
        assert torch.equal(program(scores, **additional), layer(scores, **additional))


def _gold(name):
    return {
        "Simplex": torch.tensor([2, 0]),
        "LinearChain": torch.tensor([[0, 1, 2], [2, 2, 0]]),
        "Matching": torch.tensor([[0, 1], [2, 0]]),
        "FactorGraph": torch.tensor([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]]]),
    }[name]


COST = [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]
LOSSES = {
    "Simplex": {},
    "LinearChain": {"loss": "margin_sparsemap", "cost": COST},
    "Matching": {"loss": "hinge"},
    "FactorGraph": {"temperature": 0.5},
}


def assert_has_transforms(loss, scores, *rest):
    """Compare all transforms of a loss of each sample with those that autograd and loops make."""
    t, scores = torch.func, scores.double()

    def total(s):
        return loss(s, *rest).sum()

    slopes = torch.autograd.grad(total(scores.requires_grad_()), scores)[0]
    scores = scores.detach()
    found = {
        "grad": t.grad(total),
        "vjp": lambda s: t.vjp(total, s)[1](torch.ones((), dtype=s.dtype))[0],
        "jacrev": t.jacrev(total),
        "jacfwd": t.jacfwd(total),
        "vmap of grad": lambda s: t.vmap(t.grad(loss))(s, *rest),
    }
    for name, function in found.items():
        assert torch.allclose(function(scores), slopes, atol=1e-9)
        if name in ("jacfwd", "vmap of grad"):
            assert torch.allclose(compiled(function, fullgraph=True)(scores), slopes, atol=1e-9)
    values = loss(scores, *rest)
    assert torch.equal(t.vmap(loss)(scores, *rest), values)
    assert torch.equal(compiled(loss, fullgraph=True)(scores, *rest), values)


@pytest.mark.parametrize("name", LAYERS)
def test_losses_have_transforms_and_are_part_of_compiled_functions(name):
    what, _, scores = LAYERS[name]
    assert_has_transforms(FenchelYoungLoss(what, reduction="none", **LOSSES[name]), torch.tensor(scores), _gold(name))


def test_losses_of_decisions_have_transforms():
    predicted, values = (
        torch.tensor([[1.0, 2.0, 3.0], [0.5, 0.1, 0.3]]),
        torch.tensor([[3.0, 1.0, 2.0], [0.0, 1.0, 2.0]]),
    )
    best = torch.tensor([[1, 0, 1], [0, 1, 1]])
    assert_has_transforms(SPOPlusLoss(Subset(2, 2), reduction="none"), predicted, values.double())
    assert_has_transforms(SPOPlusLoss(Subset(2, 2), 0.5, reduction="none"), predicted, values.double(), best)
    perturbed = PerturbedFenchelYoungLoss(Subset(2, 2), 1e-9, 2, reduction="none")
    slopes = torch.func.vmap(torch.func.grad(perturbed), randomness="different")(predicted, best)
    assert slopes.tolist() == [[-1.0, 1.0, 0.0], [1.0, -1.0, 0.0]]


def test_gold_in_lists_has_transforms_except_in_whole_graphs():
    loss, scores = FenchelYoungLoss(Simplex(), reduction="sum"), torch.tensor(LAYERS["Simplex"][2])
    wanted = torch.func.grad(lambda s: loss(s, torch.tensor([2, 0])))(scores)
    assert torch.equal(torch.func.grad(lambda s: loss(s, [2, 0]))(scores), wanted)
    assert torch.equal(compiled(loss)(scores, [2, 0]), loss(scores, [2, 0]))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="pass a tensor"):
        compiled(loss, fullgraph=True)(scores, [2, 0])
    # Two copies of both samples, with the same gold.
    both = torch.stack([scores, 2.0 * scores])
    found = torch.func.vmap(lambda s: loss(s, [2, 0]))(both)
    assert torch.equal(found, torch.stack([loss(own, [2, 0]) for own in both]))


@pytest.mark.parametrize("surrogate", ["spigot", "straight_through"])
def test_surrogates_have_transforms_in_reverse_mode(surrogate):
    t = torch.func
    for name in ("Simplex", "Matching"):
        what, _, scores = LAYERS[name]
        # With this sign, neither vertex is best for the step of SPIGOT.
        scores, w = torch.tensor(scores), -3.0 * torch.tensor(WEIGHTS[name])

        def best(s, what=what):
            return map_inference(what, s, surrogate=surrogate)

        wanted = torch.autograd.grad((best(scores.requires_grad_()) * w).sum(), scores)[0]
        scores = scores.detach()
        # Straight through, the gradient of the vertices is taken as that of the scores.
        assert wanted.any() and torch.equal(wanted, w) == (surrogate == "straight_through")
        for function in (
            t.grad(lambda s: (best(s) * w).sum()),
            lambda s: t.vjp(best, s)[1](w)[0],
            lambda s: t.vmap(t.grad(lambda own, v: (best(own) * v).sum()))(s, w),
        ):
            assert torch.allclose(function(scores), wanted, atol=1e-12)
            assert torch.allclose(compiled(function, fullgraph=True)(scores), wanted, atol=1e-12)
        assert torch.equal(t.vmap(best)(scores), best(scores))
        assert torch.equal(t.jacrev(best)(scores), torch.autograd.functional.jacobian(best, scores))
        with pytest.raises(NotImplementedError, match="no forward mode"):
            t.jacfwd(best)(scores)
        with pytest.raises(torch._dynamo.exc.Unsupported, match="no forward mode"):
            compiled(t.jacfwd(best), fullgraph=True)(scores)


def test_decisions_are_compared_with_the_constraints():
    u, v = torch.zeros(1, 4), torch.tensor([[3.0, 1.0, 2.0, 0.0]])
    for what, wrong, right in (
        (Subset(2, 2), torch.ones(1, 4), [[1, 0, 1, 0]]),
        (Subset(2, 2), torch.zeros(1, 4), [[1, 0, 1, 0]]),
        (Matching(), torch.tensor([[[1, 1], [0, 0]]]), [[[1, 0], [0, 1]]]),
        (links(), torch.tensor([[[1, 1, 0], [0, 0, 1]]]), [[[1, 0, 0], [0, 1, 0]]]),
    ):
        shape = torch.tensor(right).shape
        u, v = torch.zeros(shape), torch.linspace(1.0, 2.0, int(np.prod(shape))).reshape(shape)
        for loss in (SPOPlusLoss(what), SPOPlusLoss(what, 0.5)):
            assert torch.isfinite(loss(u, v, torch.tensor(right)))
            with pytest.raises(ValueError, match=r"decisions\[0\]"):
                loss(u, v, wrong)
    with pytest.raises(ValueError, match=r"decisions\[0\]"):
        PerturbedFenchelYoungLoss(Subset(2, 2))(torch.zeros(1, 4), torch.ones(1, 4))
    lengths, part = torch.tensor([3]), torch.tensor([[1, 0, 0, 1]])
    with pytest.raises(ValueError, match=r"decisions\[0\]"):
        SPOPlusLoss(Subset(2, 2))(torch.zeros(1, 4), torch.zeros(1, 4), part, lengths)
    assert (
        SPOPlusLoss(Subset(2, 2), reduction="sum")(torch.zeros(1, 4), torch.zeros(1, 4), part, torch.tensor([0])) == 0
    )


def test_temperatures_are_learned():
    rng = np.random.default_rng(0)
    scores, transitions, t = (torch.tensor(own, requires_grad=True) for own in (
        rng.normal(size=(4, 3, 2)), rng.normal(size=(2, 2)), np.array(0.7)
    ))  # fmt: skip
    lengths = torch.tensor([3, 2, 0, 1])

    def layer(scores, transitions, t):
        return sparsemap(LinearChain(), scores, lengths, t, transitions=transitions)

    assert torch.equal(layer(scores, transitions, t), layer(scores, transitions, 0.7))
    assert gradcheck(layer, (scores, transitions, t), check_forward_ad=True, check_batched_grad=True)
    y = torch.tensor([[0, 1, 0]] * 4)
    loss = FenchelYoungLoss(LinearChain(), "margin_sparsemap", temperature=torch.nn.Parameter(t.detach().clone()))
    assert [name for name, _ in loss.named_parameters()] == ["temperature"]
    loss(scores, y, lengths, transitions=transitions).backward()
    (slope,) = (own.grad for own in loss.parameters())
    values = [
        FenchelYoungLoss(LinearChain(), "margin_sparsemap", temperature=own)(
            scores, y, lengths, transitions=transitions
        )
        for own in (0.7 + 1e-6, 0.7 - 1e-6)
    ]
    assert slope.item() == pytest.approx((values[0] - values[1]).item() / 2e-6, abs=1e-6)
    # Neither forbidden parts nor the padding make its gradient NaN.
    odd = scores.detach().clone()
    odd[0, 0, 0], odd[1, 2:], odd[3, 1:] = -torch.inf, torch.inf, torch.nan
    slope = torch.func.grad(lambda own: layer(odd, transitions.detach(), own).square().sum())
    assert torch.isfinite(slope(t.detach()))
    values = [layer(odd, transitions, t + step).square().sum() for step in (1e-6, -1e-6)]
    assert slope(t.detach()).item() == pytest.approx((values[0] - values[1]).item() / 2e-6, abs=1e-6)
    program = compiled(layer, fullgraph=True)
    assert torch.allclose(program(scores, transitions, t), layer(scores, transitions, t))
    graph = lp_sparsemap(links(), torch.zeros(2, 3), temperature=torch.tensor([2.0]))
    assert torch.equal(graph, lp_sparsemap(links(), torch.zeros(2, 3), temperature=2.0))
    for wrong, message in ((-t, "must be positive; got -0.7"), (torch.ones(4), "divide all scores")):
        with pytest.raises(ValueError, match=message):
            layer(scores, transitions, wrong)
    # In compiled functions and transforms the solver says it.
    with pytest.raises(ValueError, match="nan"):
        program(scores, transitions, -t)


def test_tensors_that_hold_no_dense_numbers_are_named():
    scores = torch.zeros(2, 3)
    empty = torch.ones(2, dtype=torch.int64, device="meta")
    with pytest.raises(ValueError, match="lengths is on meta"):
        sparsemap(Simplex(), scores, empty)
    chain = torch.zeros(2, 3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call, message in (
            (lambda: sparsemap(Simplex(), scores.to_sparse()), r"scores must be a dense tensor.*to_dense\(\)"),
            (lambda: sparsemap(LinearChain(), chain, transitions=scores.T.mm(scores).to_sparse()), "transitions must"),
            (lambda: sparsemap(Simplex(), scores, mask=(scores == 0).to_sparse()), "mask must be a dense"),
            (lambda: lp_sparsemap(links(), torch.zeros(2, 3).to_sparse()), "scores must be a dense"),
        ):
            with pytest.raises(ValueError, match=message):
                call()
    # Lengths and scores on one device, whichever it is.
    found = sparsemap(Simplex(), torch.empty(2, 3, device="meta"), empty)
    assert found.device.type == "meta" and found.shape == (2, 3)


def test_a_label_to_ignore_is_explained():
    with pytest.raises(ValueError, match=r"y\[1\]: .*-100.*lengths 0"):
        FenchelYoungLoss(Simplex())(torch.zeros(2, 10), torch.tensor([3, -100]))
    loss = FenchelYoungLoss(Simplex(), reduction="none")
    assert loss(torch.zeros(2, 10), torch.tensor([3, -100]), torch.tensor([10, 0]))[1] == 0.0
