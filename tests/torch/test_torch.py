"""Layers in PyTorch: derivatives, transforms, compiled programs, padded batches, losses."""

import copy
import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from layer_cases import FUNCTIONS, RUNS, all_cases, graph_cases, nested, of_one_vector, structure_cases

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Pair, Xor
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.structures import (
    CustomStructure,
    DependencyTree,
    HeadAutomaton,
    LinearChain,
    Matching,
    Ranking,
    Simplex,
    Subset,
)

torch = pytest.importorskip("torch")

from internals import (  # noqa: E402
    _states,
    operator_of,
    replace,
)
from internals import native as _native  # noqa: E402
from internals import torch_ops as _ops  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.func import grad, hessian, jacfwd, jacrev, vmap  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from sklearn_sparsemap.torch import (  # noqa: E402
    ExpectedCost,
    FenchelYoungLoss,
    LPSparseMAP,
    SparseMAP,
    lp_sparsemap,
    map_inference,
    sparsemap,
)

CASES = all_cases()
# PyTorch's own, in forward mode under vmap and in tracing.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]


def solve(case, scores, values, **options):
    """Call the layer of a case with additional scores in the order of `case.additional`."""
    additional = dict(zip(case.additional, values))
    if case.is_graph:
        return lp_sparsemap(case.what, scores, nested(additional), **options)
    return sparsemap(case.what, scores, additional=additional, **options)


def function_of(case, n_samples=None, **options):
    """Return the layer as a function of all scores to all marginals, and double tensors to try it on."""

    def function(scores, *values):
        u, v = solve(case, scores, values, return_additional=True, **options)
        flat = [part for own in v.values() for part in (own.values() if isinstance(own, dict) else [own])]
        return u, *flat

    inputs = [case.scores, *case.additional.values()]
    if n_samples is not None:
        own = [True] + [name in case.own for name in case.additional]
        inputs = [value[:n_samples] if cut else value for value, cut in zip(inputs, own)]
    return function, tuple(torch.tensor(value, requires_grad=True) for value in inputs)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_of_first_and_second_order(name):
    # In all scores, of all marginals; forward, batched, and the derivatives of the derivatives.
    function, vector = of_one_vector(*function_of(CASES[name], 2))
    everything = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(function, vector, fast_mode=True, **everything)
    assert gradgradcheck(function, vector, check_fwd_over_rev=True, check_batched_grad=True, fast_mode=True)


@pytest.mark.parametrize("name", CASES)
def test_transforms_agree_with_autograd(name):
    case = CASES[name]
    function, inputs = function_of(case)
    scores, *values = [t.detach() for t in inputs]
    weights = torch.randn(scores.shape, dtype=torch.double, generator=torch.Generator().manual_seed(0))

    def loss(scores, *values):
        return (function(scores, *values)[0] * weights).sum()

    wanted = torch.autograd.grad(loss(*inputs), inputs)
    places = tuple(range(len(inputs)))
    for found, own in zip(grad(loss, places)(scores, *values), wanted, strict=True):
        assert torch.equal(found, own)
    reverse, forward = (jac(lambda s: function(s, *values)[0])(scores) for jac in (jacrev, jacfwd))
    assert torch.allclose(reverse, forward, atol=1e-12)
    n = scores[0].numel()
    for i, block in enumerate(reverse.reshape(len(scores), n, len(scores), n).unbind()):
        # Samples know nothing of each other, and the Jacobian of each is a projection.
        assert torch.allclose(block[:, i] @ block[:, i], block[:, i], atol=1e-9)
        assert torch.equal(block[:, i], block[:, i].T) or torch.allclose(block[:, i], block[:, i].T, atol=1e-12)
        assert not block[:, [j for j in range(len(scores)) if j != i]].any()
    assert not hessian(loss)(scores, *values).any()
    # One sample at a time, over axes of samples before and behind, with and without that of the batch.
    own = [0] + [0 if name in case.own else None for name in case.additional]
    assert torch.equal(vmap(function, tuple(own))(scores, *values)[0], function(scores, *values)[0])
    doubled = [torch.stack([value, 0.5 * value], -1) for value in (scores, *values)]
    for k, factor in enumerate((1.0, 0.5)):
        wanted_there = function(factor * scores, *[factor * value for value in values])[0]
        assert torch.equal(vmap(function, -1)(*doubled)[0][k], wanted_there)
    found = vmap(grad(lambda s, w, *v: (function(s, *v)[0] * w).sum()), (0, 0, *own[1:]))(scores, weights, *values)
    assert torch.allclose(found, wanted[0], atol=1e-14)


# All kinds of arguments. The exported programs below trace all structures; graphs are solved in one operator.
TRACED_PADDED = "chain of steps", "labelled tree", "matching", "custom", "pairs"
TRACED_FULL = ("LP-sequence",)


@pytest.mark.parametrize(
    ("name", "padded"), [(name, True) for name in TRACED_PADDED] + [(name, False) for name in TRACED_FULL]
)
def test_compiled_programs_equal_eager_ones(name, padded):
    case = CASES[name]
    if case.is_graph and padded:
        case = copy.copy(case)
        case.what, options = FUNCTIONS[name], {}
        function, inputs = _with_function(case)
    else:
        options = {"lengths": torch.tensor(case.lengths)} if padded else {}
        function, inputs = function_of(case, **options)
    torch._dynamo.reset()
    # Without a C++ compiler: "aot_eager" traces forward and backward, and does not generate code.
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for found, wanted in zip(compiled(*inputs), function(*inputs), strict=True):
        assert torch.equal(found, wanted)
    weights = torch.randn(case.scores.shape, dtype=torch.double)
    gradients = [torch.autograd.grad((f(*inputs)[0] * weights).sum(), inputs) for f in (compiled, function)]
    for found, wanted in zip(*gradients, strict=True):
        assert torch.allclose(found, wanted, atol=1e-13)


def _with_function(case):
    def function(scores, *values):
        return (
            lp_sparsemap(
                case.what, scores, nested(dict(zip(case.additional, values))), lengths=torch.tensor(case.lengths)
            ),
        )

    inputs = (case.scores, *case.additional.values())
    return function, tuple(torch.tensor(value, requires_grad=True) for value in inputs)


class Whole(torch.nn.Module):
    def __init__(self, layer, case):
        super().__init__()
        self.layer, self.case = layer, case

    def forward(self, scores, values):
        additional = dict(zip(self.case.additional, values))
        if self.case.is_graph:
            return self.layer(scores, nested(additional))
        return self.layer(scores, **additional)


@pytest.mark.parametrize("name", [name for name in CASES if name != "custom"])
def test_exported_programs_equal_eager_ones(name):
    case = CASES[name]
    layer = LPSparseMAP(case.what) if case.is_graph else SparseMAP(case.what)
    inputs = torch.tensor(case.scores), tuple(torch.tensor(value) for value in case.additional.values())
    module = Whole(layer, case)
    exported = torch.export.export(module, inputs)
    assert torch.equal(exported.module()(*inputs), module(*inputs))


@pytest.mark.parametrize("name", ["chain", "LP-sequence"])
def test_operators_keep_their_promises(name):
    case = CASES[name]
    shapes = tuple((key, value.shape) for key, value in case.additional.items())
    if case.is_graph:
        shapes = tuple(((key.partition("/")[0], key.partition("/")[2] or None), shape) for key, shape in shapes)
    handle = operator_of(case.what, shapes).handle
    joined = np.concatenate([value.ravel() for value in case.additional.values()] or [np.zeros(0)])
    scores = torch.tensor(case.scores, requires_grad=True)
    additional = torch.tensor(np.tile(joined, (3, 1)), requires_grad=True)
    batch = scores, additional, torch.ones((3, 1), dtype=torch.int64)
    assert set(torch.library.opcheck(_ops.solve, (*batch, (3,), handle)).values()) == {"SUCCESS"}
    u, v, _, keys = (out.detach() for out in _ops.solve(*batch, (3,), handle))
    directions = torch.randn_like(u).requires_grad_(), torch.randn_like(v).requires_grad_()
    found = torch.library.opcheck(_ops.multiply, (*batch, keys, *directions, handle))
    assert set(found.values()) == {"SUCCESS"}


class Listening(TorchDispatchMode):
    """Collects the names of the operators that are called."""

    def __init__(self):
        super().__init__()
        self.heard = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.heard.append(str(function))
        return function(*args, **(kwargs or {}))


def test_other_versions_of_pytorch_always_meet_operators(monkeypatch):
    scores = torch.tensor([[1.0, 0.5, 0.0]], requires_grad=True)
    expected = sparsemap(Simplex(), scores)
    called = []
    monkeypatch.setattr(_ops, "_PLAIN", None)
    monkeypatch.setattr(_ops, "solve", lambda *args, solve=_ops.solve: called.append(1) or solve(*args))
    assert torch.equal(sparsemap(Simplex(), scores), expected)
    assert called


def test_trees_of_scores_near_zero_are_exact_whatever_the_cap():
    scores = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    scores[0, 0, 0] = -torch.inf
    for scale, is_exact in ((1e-3, True), (1.0, False)):
        few = sparsemap(DependencyTree(), scale * scores[1:], max_iter=2)
        assert torch.equal(few, sparsemap(DependencyTree(), scale * scores[1:])) == is_exact
        # Not where an arc is forbidden.
        assert not torch.equal(*(sparsemap(DependencyTree(), scale * scores, max_iter=n) for n in (2, 1000)))


def test_modes_and_tensors_without_numbers_meet_operators():
    def gradient(scores):
        u = sparsemap(Simplex(), scores)
        return torch.autograd.grad((u * torch.tensor([1.0, 0.0, 0.0])).sum(), scores)[0]

    scores = torch.tensor([[1.0, 0.5, 0.0]], requires_grad=True)
    expected = gradient(scores)
    with Listening() as mode:
        assert torch.equal(gradient(scores), expected)
    assert {"sklearn_sparsemap.solve.default", "sklearn_sparsemap.multiply.default"} <= set(mode.heard)
    # A trace of numbers would hold those of its example.
    traced = make_fx(gradient)(torch.zeros(1, 3, requires_grad=True))
    assert torch.equal(traced(scores), expected)
    with FakeTensorMode():
        assert gradient(torch.empty(1, 3, requires_grad=True)).shape == (1, 3)
    assert sparsemap(Simplex(), torch.empty(2, 3, device="meta")).device.type == "meta"
    with torch.inference_mode():
        assert torch.equal(sparsemap(Simplex(), scores), sparsemap(Simplex(), scores.detach().clone()))


@pytest.mark.parametrize("name", CASES)
def test_a_padded_batch_is_its_samples_one_by_one(name):
    case = CASES[name]
    lengths, what = torch.tensor(case.lengths), FUNCTIONS.get(name, case.what)
    # Whatever stands in the padding has no part in anything.
    scores = torch.tensor(case.scores)
    mask = torch.zeros(scores.shape, dtype=torch.bool)
    for i, shape in enumerate(case.shapes):
        mask[(i, *[slice(n) for n in shape])] = True
    scores[~mask] = torch.tensor([torch.nan, 1e3, torch.inf], dtype=torch.double).repeat(20)[: int((~mask).sum())]
    scores.requires_grad_()
    values = [torch.tensor(value, requires_grad=True) for value in case.additional.values()]
    additional = dict(zip(case.additional, values))
    if case.is_graph:
        u = lp_sparsemap(what, scores, nested(additional), lengths)
    else:
        u = sparsemap(what, scores, lengths, additional=additional)
    weights = torch.randn_like(u)
    gradients = torch.autograd.grad((u * weights).sum(), [scores, *values])
    assert not u[~mask].any() and not gradients[0][~mask].any()
    sums = [torch.zeros_like(value) for value in values]
    for i, shape in enumerate(case.shapes):
        place = (i, *[slice(n) for n in shape])
        own, extra = case.sample(i)
        own = torch.tensor(own, requires_grad=True)
        extra = {key: torch.tensor(value, requires_grad=True) for key, value in extra.items()}
        if case.is_graph:
            single = lp_sparsemap(what, own[None], nested(extra))[0]
        else:
            single = sparsemap(what, own, additional=extra)
        assert torch.equal(single, u[place])
        found = torch.autograd.grad((single * weights[place]).sum(), [own, *extra.values()], allow_unused=True)
        assert torch.equal(found[0], gradients[0][place])
        for total, part, key in zip(sums, found[1:], extra, strict=True):
            target = total[i] if key in case.own else total
            target[tuple(slice(n) for n in part.shape)] += part
    for total, wanted in zip(sums, gradients[1:], strict=True):
        assert torch.allclose(total, wanted, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name):
    case = CASES[name]
    values = [torch.tensor(value) for value in case.additional.values()]
    u, v = solve(case, torch.tensor(case.scores), values, return_additional=True)
    for i in range(len(case.scores)):
        own = {key: value[i] if key in case.own else value for key, value in case.additional.items()}
        if case.is_graph:
            result = sklearn_sparsemap.lp_sparsemap(case.what, case.scores[i], additional=nested(own), tol=1e-10)
        else:
            result = sklearn_sparsemap.sparsemap(case.what, case.scores[i], **own)
            for key in own:
                assert np.allclose(v[key][i], result.additional_marginals[key], atol=1e-9)
        assert np.allclose(u[i], result.marginals, atol=1e-9)


def test_additional_scores_of_each_sample_are_those_of_a_loop():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(4, 5, 3, dtype=torch.double, generator=generator)
    transitions = torch.randn(4, 3, 3, dtype=torch.double, generator=generator, requires_grad=True)
    start = torch.randn(3, dtype=torch.double, generator=generator, requires_grad=True)
    own = transitions[:, None]
    u, v = sparsemap(LinearChain(), scores, transitions=own, start=start, return_additional=True)
    for i in range(4):
        single, alone = sparsemap(
            LinearChain(), scores[i], transitions=transitions[i], start=start, return_additional=True
        )
        assert torch.equal(single, u[i]) and torch.equal(alone["transitions"], v["transitions"][i, 0])
    shared, again = (
        sparsemap(LinearChain(), scores, transitions=t, start=start)
        for t in (transitions[0], own[:1].expand(4, 1, 3, 3).contiguous())
    )
    assert torch.equal(shared, again)
    per_step = torch.randn(4, 3, 3, dtype=torch.double, generator=generator)
    assert torch.equal(sparsemap(LinearChain(), scores, transitions=per_step[None])[1], sparsemap(
        LinearChain(), scores[1], transitions=per_step
    ))  # fmt: skip


def test_one_pair_score_of_each_sample_is_that_of_a_loop():
    graph = FactorGraph()
    u = graph.variables(4)
    graph.add(Pair(u[:-1], u[1:], name="near", tied=True))
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 4, dtype=torch.double, generator=generator)
    near = torch.tensor([0.5, -0.5, 0.0], dtype=torch.double, requires_grad=True)
    found = lp_sparsemap(graph, scores, {"near": near})
    for i in range(3):
        assert torch.equal(found[i], lp_sparsemap(graph, scores[i], {"near": near[i]}))
    found[0].sum().backward()
    assert near.grad[0] != 0.0 and not near.grad[1:].any()


@pytest.mark.parametrize("name", ["chain", "tree", "custom", "LP-sequence"])
def test_dtypes_temperature_and_masks(name):
    case = CASES[name]
    values = [torch.tensor(value) for value in case.additional.values()]
    exact = solve(case, torch.tensor(case.scores), values)
    single = torch.tensor(case.scores, dtype=torch.float32, requires_grad=True)
    u = solve(case, single, values)
    assert u.dtype == torch.float32 and torch.allclose(u.double(), exact, atol=1e-5)
    u[:, 0].sum().backward()
    assert single.grad.dtype == torch.float32
    half = torch.tensor(case.scores, dtype=torch.bfloat16)
    assert solve(case, half, values).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert solve(case, half, values).dtype == torch.float32
        assert torch.equal(solve(case, single, values), u)
    warm = solve(case, torch.tensor(case.scores), values, temperature=0.5)
    scaled = solve(case, 2.0 * torch.tensor(case.scores), [2.0 * value for value in values])
    assert torch.equal(warm, scaled)
    masked = torch.tensor(case.scores)
    masked.view(3, -1)[:, 1] = -torch.inf
    masked.requires_grad_()
    u = solve(case, masked, values)
    (gradient,) = torch.autograd.grad((u * torch.randn_like(u)).sum(), masked)
    assert not u.view(3, -1)[:, 1].any() and not gradient.view(3, -1)[:, 1].any() and torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", CASES)
def test_few_iterations_give_a_mixture_that_nears_the_solution(name):
    case = CASES[name]
    values = [torch.tensor(value) for value in case.additional.values()]
    exact = solve(case, torch.tensor(case.scores), values)
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for max_iter in (2, 5, 1000):
            scores = torch.tensor(case.scores, requires_grad=True)
            u = solve(case, scores, values, max_iter=max_iter)
            (gradient,) = torch.autograd.grad((u * exact).sum(), scores)
            assert torch.isfinite(gradient).all()
            errors.append(float((u - exact).detach().abs().max()))
    assert errors[-1] < 1e-6 and errors[0] >= errors[-1]


def test_the_capped_derivative_is_that_of_the_structures_found():
    case = CASES["chain"]
    scores, values = torch.tensor(case.scores), [torch.tensor(value) for value in case.additional.values()]
    additional = dict(zip(case.additional, values))
    found = sparsemap(case.what, scores, max_iter=3, additional=additional, return_structures=True)
    jacobian = jacrev(lambda s: sparsemap(case.what, s, max_iter=3, additional=additional))(scores)
    for i, structures in enumerate(found.structures):
        assert 1 < len(structures) <= 3
        M = np.array([np.eye(3)[path].ravel() for path in structures])
        span = M[1:] - M[0]
        projection = span.T @ np.linalg.pinv(span.T)
        assert np.allclose(jacobian[i, :, :, i].reshape(12, 12), projection, atol=1e-10)


def test_structures_and_their_weights():
    case = CASES["chain"]
    scores = torch.tensor(case.scores, requires_grad=True)
    transitions = torch.tensor(case.additional["transitions"], requires_grad=True)
    lengths = torch.tensor(case.lengths)

    def select(scores, transitions):
        return sparsemap(case.what, scores, lengths, transitions=transitions, return_structures=True)

    found = select(scores, transitions)
    for i, (structures, weights) in enumerate(zip(found.structures, found.weights, strict=True)):
        mixture = sum(w * torch.eye(3, dtype=torch.double)[path] for w, path in zip(weights, structures, strict=True))
        assert torch.allclose(mixture, found.marginals[i, : len(structures[0])])
        assert torch.all(weights[:-1] >= weights[1:])
    assert gradcheck(lambda s, t: tuple(select(s, t).weights), (scores, transitions))
    single = sparsemap(Matching(), torch.randn(3, 3, dtype=torch.double), return_structures=True)
    assert isinstance(single.weights, torch.Tensor) and len(single.structures) == len(single.weights)
    few = sparsemap(case.what, scores, transitions=transitions, max_iter=2, return_structures=True)
    assert max(map(len, few.structures)) <= 2


def test_solutions_are_kept_for_the_backward_pass_and_no_longer(monkeypatch):
    scores = torch.randn(3, 4, 4, requires_grad=True)
    before = len(_states)
    u = sparsemap(Matching(), scores)
    assert len(_states) == before + 1
    solved, again = [], _ops.operator
    monkeypatch.setattr(_ops, "operator", lambda handle: solved.append(1) or again(handle))
    weights = torch.randn_like(u)
    (gradient,) = torch.autograd.grad((u * weights).sum(), scores, retain_graph=True)
    assert not solved
    del u
    assert len(_states) == before
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        u = sparsemap(Matching(), scores)
    solved.clear()
    (other,) = torch.autograd.grad((u * weights).sum(), scores)
    assert solved and torch.equal(gradient, other)


def test_zero_scores_have_a_derivative():
    for case in structure_cases().values():
        tensors = [torch.zeros(value.shape, dtype=torch.double) for value in (case.scores, *case.additional.values())]
        directions = torch.randn_like(tensors[0])
        for tensor in tensors:
            tensor.requires_grad_()
        u = sparsemap(case.what, tensors[0], additional=dict(zip(case.additional, tensors[1:])))
        gradients = torch.autograd.grad((u * directions).sum(), tensors, retain_graph=True)
        assert all(torch.isfinite(gradient).all() for gradient in gradients)
        # A projection, and not one onto a point, unless nothing at all is chosen.
        (again,) = torch.autograd.grad((u * gradients[0]).sum(), tensors[:1])
        assert gradients[0].any() or not u.any()
        assert torch.allclose(again, gradients[0], atol=1e-9)


WORKERS = """
import torch
from sklearn_sparsemap.structures import Matching
from sklearn_sparsemap.torch import sparsemap

class Aligned(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        scores = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(i), dtype=torch.double)
        return sparsemap(Matching(), scores, n_jobs=2)

def batches(**options):
    return [batch.clone() for batch in torch.utils.data.DataLoader(Aligned(), batch_size=None, **options)]

# Forked after this process has solved something, with threads.
expected = batches()
found = batches(num_workers=2, multiprocessing_context="fork")
print(len(found), all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)))
"""


def test_workers_of_a_data_loader_solve_too(fresh_python):
    # In a process of its own: where JAX has threads, too, none should be forked.
    out = fresh_python(WORKERS)
    assert out.stdout.split() == ["4", "True"], out.stderr


def test_results_do_not_depend_on_threads():
    for name in ("chain", "tree", "LP-sequence"):
        case = CASES[name]
        scores = torch.tensor(np.tile(case.scores, (8, *[1] * (case.scores.ndim - 1))), requires_grad=True)
        values = [torch.tensor(value) for value in case.additional.values()]
        one, two = (solve(case, scores, values, n_jobs=n) for n in (1, 2))
        assert torch.equal(one, two)
        weights = torch.randn_like(one)
        found = [torch.autograd.grad((u * weights).sum(), scores)[0] for u in (one, two)]
        assert torch.equal(*found)


def test_what_is_soon_solved_keeps_to_one_thread(monkeypatch):
    asked = []
    run = replace(
        monkeypatch, "inference", "over_ranges", lambda *args, **more: asked.append(args[2]) or run(*args, **more)
    )
    for n in (10, 4000):
        sparsemap(Simplex(), torch.randn(n, 8), n_jobs=2)
    assert asked == [1, 2]


def test_modules_travel():
    layer = SparseMAP(LinearChain(), temperature=2.0, max_iter=7)
    scores = torch.randn(2, 4, 3)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(scores), layer(scores)) and repr(other) == repr(layer)
    graph = graph_cases()["LP-matching"].what
    layer = LPSparseMAP(graph)
    scores = torch.randn(2, 2, 3)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(scores), layer(scores))


def test_graphs_of_several_arrays_take_and_give_dicts():
    graph = FactorGraph()
    a, b = graph.variables(3, name="a"), graph.variables((2, 2), name="b")
    graph.add(Xor(a), AtMostOne([b[0, 0], b[0, 1], b[1, 0]]), Xor([a[0], b[0, 0]]))
    scores = {"a": torch.randn(2, 3, dtype=torch.double), "b": torch.randn(2, 2, 2, dtype=torch.double)}
    u = lp_sparsemap(graph, scores)
    single = lp_sparsemap(graph, {name: values[1] for name, values in scores.items()})
    arrays = {name: values[1].numpy() for name, values in scores.items()}
    wanted = sklearn_sparsemap.lp_sparsemap(graph, arrays).marginals
    for name, shape in graph.shapes.items():
        assert u[name].shape == (2, *shape) and torch.equal(u[name][1], single[name])
        assert np.allclose(single[name], wanted[name], atol=1e-9)


def test_functions_make_a_graph_once_for_each_shape():
    shapes = []

    def make(shape):
        shapes.append(shape)
        return FUNCTIONS["LP-matching"](shape)

    scores, lengths = torch.randn(4, 2, 3), torch.tensor([[1, 2], [2, 3], [1, 2], [2, 2]])
    for _ in range(2):
        lp_sparsemap(make, scores, lengths=lengths)
    assert sorted(set(shapes)) == sorted([(1, 2), (2, 2), (2, 3)]) and shapes.count((1, 2)) == 1


RIGHT = torch.zeros(2, 3, 3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((LinearChain(), torch.zeros(3)), {}, "have 2 axes"),
        ((LinearChain(), torch.zeros(2, 0, 3)), {}, "empty"),
        ((LinearChain(), RIGHT), {"transitions": torch.zeros(2, 2)}, "transitions has shape"),
        ((LinearChain(), RIGHT), {"transitions": torch.full((3, 3), torch.nan)}, "contains nan"),
        ((LinearChain(), RIGHT.clone().fill_(torch.nan)), {}, r"scores\[0\] contains nan"),
        ((LinearChain(), torch.tensor([[[0.0]], [[torch.inf]]])), {}, r"scores\[1\] contains inf"),
        ((LinearChain(), torch.tensor([[[0.0]], [[-torch.inf]]])), {}, r"infeasible: scores\[1\]"),
        ((LinearChain(), RIGHT), {"lengths": torch.tensor([1, 4])}, r"lengths\[1\] is 4"),
        ((LinearChain(), RIGHT), {"lengths": torch.tensor([-1, 3])}, r"lengths\[0\] is -1"),
        ((LinearChain(), RIGHT), {"lengths": torch.tensor([1, 2, 3])}, r"lengths has shape \(3,\); with these"),
        ((LinearChain(), RIGHT), {"lengths": torch.tensor([1.0, 2.0])}, "must be integers"),
        (
            (LinearChain(), RIGHT),
            {"lengths": torch.tensor([[1, 1, 1], [1, 1, 1]])},
            "2 lengths for each sample, not 3",
        ),
        ((Matching(), RIGHT), {"lengths": torch.tensor([1, 2])}, "lengths must have 2 lengths for each sample, not 1"),
        ((DependencyTree(), RIGHT), {}, "DependencyTree|n_words|shape"),
        ((DependencyTree(), torch.zeros(2, 4, 3)), {"lengths": torch.tensor([3, 4])}, r"lengths\[1\] is 4"),
        ((Simplex(), torch.zeros(2, 3, dtype=torch.int64)), {}, "floating point"),
        ((Simplex(), torch.zeros(2, 3)), {"temperature": 0.0}, "temperature"),
        ((Simplex(), torch.ones(2, 3)), {"temperature": 1e-310}, "temperature must be at least 1e-100"),
        ((Simplex(), torch.zeros(2, 3)), {"max_iter": 0}, "max_iter"),
    ],
)
def test_wrong_input_says_what_is_wrong(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        sparsemap(*arguments, **options)


def test_wrong_input_of_graphs_says_what_is_wrong():
    graph, make = graph_cases()["pairs"].what, FUNCTIONS["LP-matching"]
    pairs = {"pairs": torch.zeros(1, 4), "far": torch.zeros(())}
    for arguments, message in (
        ((graph, torch.zeros(2, 4), pairs), "variables have"),
        ((graph, torch.zeros(2, 5)), "need scores"),
        ((graph, torch.zeros(2, 5), {**pairs, "pairs": torch.zeros(1, 3)}), "must have"),
        ((graph, torch.zeros(2, 5), {**pairs, "pairs": torch.full((1, 4), -torch.inf)}), "must be finite"),
        ((graph, torch.zeros(2, 5), {**pairs, "none": torch.zeros(3)}), "no factor takes"),
        ((graph, torch.full((2, 5), torch.nan), pairs), r"scores\[0\] contains nan"),
        ((graph, torch.zeros(2, 5), pairs, torch.tensor([5, 4])), "function from shapes"),
        ((make, torch.zeros(2, 2, 3), None, torch.tensor([[2, 3], [2, 4]])), r"lengths\[1\]"),
        ((make, torch.full((2, 2, 3), -torch.inf)), r"infeasible: under scores\[0\]"),
        ((lambda shape: shape, torch.zeros(2, 3)), "must return a FactorGraph"),
        ((7, torch.zeros(2, 3)), "must be a FactorGraph"),
    ):
        with pytest.raises(ValueError, match=message):
            lp_sparsemap(*arguments)
    with pytest.raises(TypeError, match="takes: none"):
        sparsemap(Simplex(), torch.zeros(2, 3), transitions=torch.zeros(3, 3))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        sparsemap(Simplex(), [1.0, 2.0])


GOLD = {
    "chain": [[0, 1, 2, 0], [1, 1, 0, 0], [2, 0, 0, 0]],
    "tree": [[0, 1, 1, 2], [2, 0, 0, 0], [0, 0, 0, 0]],
    "matching": [[1, 0, 3], [2, 0, 0], [0, 0, 0]],
    "simplex": [4, 2, 0],
    "subset": [[1, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]],
    "custom": None,
}


def gold_of(name, i):
    """Return the gold structure of a sample as the core takes it."""
    case = CASES[name]
    if name == "custom":
        return [0, 1]
    gold = np.asarray(GOLD[name][i])
    if gold.ndim == 0:
        return int(gold)
    own = gold[: case.shapes[i][1] if name == "tree" else case.shapes[i][0]]
    return own.astype(bool) if name == "subset" else own


@pytest.mark.parametrize("loss", [*LOSSES, "expected_cost"])
@pytest.mark.parametrize("name", GOLD)
def test_losses_are_those_of_the_core(name, loss):
    case = CASES[name]
    is_expected = loss == "expected_cost"
    kind = ExpectedCost if is_expected else partial(FenchelYoungLoss, loss=loss)
    if (is_expected or LOSSES[loss].argmax == "gibbs") and case.what.marginal_oracle is None:
        with pytest.raises(ValueError, match="marginals"):
            kind(case.what)
        return
    layer = kind(case.what, temperature=0.7, reduction="none")
    scores = torch.tensor(case.scores, requires_grad=True)
    values = [torch.tensor(value, requires_grad=True) for value in case.additional.values()]
    y = [[0, 1]] * 3 if GOLD[name] is None else torch.tensor(GOLD[name])
    if name == "custom":
        found = [layer(scores[i, :n], [0, 1], lengths=None, sizes=values[0]) for i, n in enumerate((5, 4, 3))]
        found = torch.stack(found)
    else:
        found = layer(scores, y, torch.tensor(case.lengths), **dict(zip(case.additional, values)))
    gradients = torch.autograd.grad(found.sum(), [scores, *values])
    core = sklearn_sparsemap.losses
    own_kind = core.ExpectedCost if is_expected else partial(core.FenchelYoungLoss, name=loss)
    reference = own_kind(case.what, temperature=0.7)
    totals = [np.zeros(value.shape) for value in values]
    for i in range(3):
        own, additional = case.sample(i)
        wanted, wanted_gradient = reference.loss_gradient(own, gold_of(name, i), **additional)
        assert np.isclose(found[i].item(), wanted, atol=1e-8)
        place = (i, *[slice(n) for n in case.shapes[i]])
        assert np.allclose(gradients[0][place], wanted_gradient["scores"], atol=1e-7)
        for total, key in zip(totals, additional, strict=True):
            total += wanted_gradient[key]
    for total, gradient in zip(totals, gradients[1:], strict=True):
        assert np.allclose(gradient, total, atol=1e-7)


@pytest.mark.parametrize("loss", ["sparsemap", "margin_sparsemap", "perceptron", "hinge"])
@pytest.mark.parametrize("name", ["pairs", "LP-matching", "LP-sequence"])
def test_losses_of_graphs_are_those_of_the_core(name, loss):
    case = CASES[name]
    y = {
        "pairs": [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]],
        "LP-matching": [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]], [[0, 0, 1], [0, 1, 0]]],
        "LP-sequence": [np.eye(4)[[0, 2, 3]], np.eye(4)[[3, 2, 1]], np.eye(4)[[1, 0, 2]]],
    }[name]
    layer = FenchelYoungLoss(case.what, loss, temperature=0.7, reduction="none")
    scores = torch.tensor(case.scores, requires_grad=True)
    additional = {key: torch.tensor(value, requires_grad=True) for key, value in case.additional.items()}
    found = layer(scores, y, additional=nested(additional))
    gradients = torch.autograd.grad(found.sum(), [scores, *additional.values()], allow_unused=True)
    pairs = sklearn_sparsemap.losses.FenchelYoungLoss(case.what, loss, temperature=0.7).loss_gradient(
        list(case.scores), y, additional=nested(case.additional)
    )
    assert np.allclose(found.detach(), [value for value, _ in pairs], atol=1e-6)
    assert np.allclose(gradients[0], [own["scores"] for _, own in pairs], atol=1e-6)
    flat = {}
    for key in additional:
        owner, _, part = key.partition("/")
        flat[key] = sum(own["additional"][owner][part] if part else own["additional"][owner] for _, own in pairs)
    for (_, total), gradient in zip(flat.items(), gradients[1:], strict=True):
        assert np.allclose(gradient, total, atol=1e-6)
    assert layer.reduction == "none" and np.isclose(
        FenchelYoungLoss(case.what, loss, temperature=0.7)(scores, y, additional=nested(additional)).item(),
        found.mean().item(),
    )


def test_losses_of_a_function_for_graphs_take_lengths():
    scores, lengths = torch.randn(3, 2, 3, dtype=torch.double), torch.tensor([[2, 3], [1, 2], [1, 1]])
    y = torch.tensor([[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]]])
    losses = FenchelYoungLoss(FUNCTIONS["LP-matching"], reduction="none")(scores, y, lengths)
    for i, (r, c) in enumerate(lengths.tolist()):
        own = FenchelYoungLoss(FUNCTIONS["LP-matching"]((r, c)))(scores[i, :r, :c], y[i, :r, :c])
        assert torch.isclose(own, losses[i])


def test_losses_have_second_derivatives_where_the_layer_has():
    case = CASES["chain"]
    y, lengths = torch.tensor(GOLD["chain"]), torch.tensor(case.lengths)
    inputs = tuple(torch.tensor(v, requires_grad=True) for v in (case.scores, case.additional["transitions"]))
    layer = FenchelYoungLoss(LinearChain(), temperature=2.0)
    assert gradcheck(lambda s, t: layer(s, y, lengths, transitions=t), inputs, check_forward_ad=True)
    assert gradgradcheck(lambda s, t: layer(s, y, lengths, transitions=t), inputs, fast_mode=True)
    crf = FenchelYoungLoss(LinearChain(), "crf")
    assert gradcheck(lambda s, t: crf(s, y, lengths, transitions=t), inputs, check_forward_ad=True)
    assert gradgradcheck(lambda s, t: crf(s, y, lengths, transitions=t), inputs, fast_mode=True)


def test_the_expected_cost_is_differentiated_once_and_refuses_more():
    case = CASES["chain"]
    y = torch.tensor(GOLD["chain"])
    scores = torch.tensor(case.scores, requires_grad=True)
    layer = ExpectedCost(LinearChain(), cost=[[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    assert gradcheck(lambda s: layer(s, y), scores)
    (gradient,) = torch.autograd.grad(layer(scores, y), scores, create_graph=True)
    for differentiate in (
        lambda: gradient.sum().backward(),
        lambda: hessian(lambda s: layer(s, y))(scores.detach()),
        lambda: jacrev(jacrev(lambda s: layer(s, y)))(scores.detach()),
    ):
        with pytest.raises(NotImplementedError, match="can be differentiated once"):
            differentiate()
    crf = FenchelYoungLoss(LinearChain(), "crf")
    assert hessian(lambda s: crf(s, y))(scores.detach()).shape == 2 * scores.shape
    compiled = torch.compile(lambda s: layer(s, y))(scores)
    assert torch.isclose(compiled, layer(scores, y))
    assert [own.tolist() for own in layer.predict(scores)] == [own.tolist() for own in crf.predict(scores)]
    with pytest.raises(ValueError, match="is not one of"):
        FenchelYoungLoss(LinearChain(), "expected_cost")


def test_gradients_that_are_tiny_or_missing_stay_so():
    # The inverse of 1e-320 overflows. In the first sample it must not lead to a loop without end, or to NaN.
    case = CASES["chain"]
    y = torch.tensor(GOLD["chain"])
    scores = torch.tensor(case.scores, requires_grad=True)
    crf = FenchelYoungLoss(LinearChain(), "crf", reduction="none")
    (residuals,) = torch.autograd.grad(crf(scores, y).sum(), scores, create_graph=True)
    random = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0), dtype=scores.dtype)
    outputs = {
        "SparseMAP": (sparsemap(LinearChain(), scores) * random).flatten(1).sum(1),
        "expected cost": ExpectedCost(LinearChain(), reduction="none")(scores, y),
        "crf, second derivative": (residuals * random).flatten(1).sum(1),
    }
    for name, values in outputs.items():
        (wanted,) = torch.autograd.grad(values.sum(), scores, retain_graph=True)
        for factor in (1e-320, torch.nan):
            upstream = torch.ones_like(values)
            upstream[0] = factor
            (found,) = torch.autograd.grad(values, scores, upstream, retain_graph=True)
            assert torch.equal(found[1:], wanted[1:]), name
            assert (found[0].abs() < 1e-300).all() if factor == 1e-320 else found[0].isnan().any(), name


def test_gradients_of_forbidden_parts_do_not_matter():
    # As 0 * log(0) gives in networks.
    scores = torch.tensor([[[0.3, -torch.inf], [0.1, 0.4]]], requires_grad=True, dtype=torch.float64)
    crf = FenchelYoungLoss(LinearChain(), "crf")
    y = torch.tensor([[0, 1]])
    (residuals,) = torch.autograd.grad(crf(scores, y), scores, create_graph=True)
    found = []
    for own in (0.0, torch.nan):
        upstream = torch.tensor([[[1.0, own], [0.0, 2.0]]], dtype=torch.float64)
        found.append(torch.autograd.grad(residuals, scores, upstream, retain_graph=True)[0])
    assert found[0].abs().max() > 0.1
    assert torch.equal(*found)


def test_a_cost_of_labels_enters_the_loss():
    cost = [[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    case = CASES["chain"]
    layer = FenchelYoungLoss(LinearChain(), "margin_sparsemap", cost=cost, reduction="none")
    found = layer(torch.tensor(case.scores), torch.tensor(GOLD["chain"]))
    reference = sklearn_sparsemap.losses.FenchelYoungLoss(LinearChain(), "margin_sparsemap", cost=cost)
    wanted = [loss for loss, _ in reference.loss_gradient(list(case.scores), [np.array(g) for g in GOLD["chain"]])]
    assert np.allclose(found, wanted)


def test_wrong_gold_says_what_is_wrong():
    layer, scores = FenchelYoungLoss(LinearChain()), torch.zeros(2, 3, 2)
    for y, message in (
        ([[0, 1, 5], [0, 0, 0]], r"y\[0\]: a path"),
        ([[0, 1, 1]], "1 structures for 2 samples"),
        (torch.tensor([[0, 1, 1], [0, 0, 2]]), r"y\[1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            layer(scores, y)
    forbidden = torch.tensor([[[0.0, -torch.inf]], [[0.0, 0.0]]])
    with pytest.raises(ValueError, match=r"y\[0\] is forbidden"):
        layer(forbidden, [[1], [1]])
    for options, message in (({"loss": "ramp"}, "loss="), ({"reduction": "max"}, "reduction=")):
        with pytest.raises(ValueError, match=message):
            FenchelYoungLoss(Subset(), **options)
    with pytest.raises(ValueError, match="Gibbs"):
        FenchelYoungLoss(graph_cases()["pairs"].what, "crf")
    for structure in (LinearChain, "chain"):
        for loss in (FenchelYoungLoss, ExpectedCost):
            with pytest.raises(ValueError, match=r"such as LinearChain\(\); got"):
                loss(structure)


def test_a_small_network_learns():
    # A matching as a hidden layer: scores from a linear map, the marginals compared with a hidden permutation.
    torch.manual_seed(0)
    net = torch.nn.Linear(4, 4)
    x = torch.randn(16, 4, 4)
    target = torch.eye(4)[[1, 2, 3, 0]].expand(16, 4, 4)
    optimizer = torch.optim.Adam(net.parameters(), 0.1)
    layer, losses = SparseMAP(Matching()), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (layer(net(x)) - target).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.9 * losses[0]


def test_custom_structures_may_be_named_like_parameters():
    scores, sizes = torch.randn(2, 5, dtype=torch.double), torch.randn(2, 2, dtype=torch.double)
    assert torch.equal(sparsemap(RUNS, scores, sizes=sizes), sparsemap(RUNS, scores, additional={"sizes": sizes}))


def _natives():
    """Yield structures, scores and lengths on which both backends are tried."""
    rng = np.random.default_rng(0)
    for shape in ((4, 4), (3, 6), (6, 3), (1, 5), (12, 12), (8, 20)):
        for scale in (0.0, 1e-3, 0.1, 1.0, 10.0):
            yield Matching(), scale * rng.normal(size=(5, *shape)), None
    lengths = np.array([[4, 6], [3, 3], [5, 2], [1, 1], [5, 6]])
    yield Matching(), rng.normal(size=(5, 5, 6)), lengths
    masked = rng.normal(size=(5, 4, 5))
    masked[:, [0, 1, 2], [1, 0, 4]] = -np.inf
    yield Matching(), masked, None
    yield Simplex(), rng.normal(size=(5, 7)), None
    yield Simplex(), rng.normal(size=(5, 7)), np.array([7, 3, 1, 2, 5])
    lines = Subset(), Subset(2), Subset(1, 3), Subset(3, 3), Subset(0, 0), Ranking(), Ranking(3)
    for structure in lines:
        for n, scale in ((3, 1.0), (9, 0.0), (9, 1e-3), (9, 1.0), (9, 10.0), (9, 1e4), (60, 1.0), (60, 0.1)):
            yield structure, scale * rng.normal(size=(5, n)), None
        # Ties, padding and forbidden items.
        yield structure, np.round(rng.normal(size=(5, 9))), None
        masked = rng.normal(size=(5, 9))
        masked[:, [1] if structure == Ranking() else [1, 2, 5]] = -np.inf
        yield structure, masked, np.array([9, 8, 7, 9, 6])


def test_native_operations_find_what_compiled_ones_do(monkeypatch):
    mended = []
    monkeypatch.setattr(_native.NativeSolution, "replace_failed", lambda *args: mended.append(args))
    compared = 0
    for structure, scores, lengths in _natives():
        found, weights = [], torch.randn(scores.shape, dtype=torch.double)
        for backend in ("compiled", "native"):
            own = torch.tensor(scores, requires_grad=True)
            u = sparsemap(structure, own, None if lengths is None else torch.tensor(lengths), backend=backend)
            found.append((u, *torch.autograd.grad((u * weights).sum(), own)))
        for one, other in zip(*found, strict=True):
            assert torch.allclose(one, other, atol=1e-9, rtol=0.0), (structure, scores.shape, np.abs(scores).max())
            compared += 1
    assert compared == 2 * (34 + 70) and not mended


@pytest.mark.parametrize("structure", [Matching(), Simplex(), Subset(1, 2), Ranking(), Ranking(2)], ids=repr)
def test_native_operations_have_all_derivatives(structure):
    shape = (2, 2, 3) if isinstance(structure, Matching) else (2, 5)
    scores = torch.randn(shape, dtype=torch.double, generator=torch.Generator().manual_seed(0), requires_grad=True)

    def function(s):
        return sparsemap(structure, s, backend="native")

    assert gradcheck(function, (scores,), fast_mode=True, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, (scores,), fast_mode=True)
    plain = scores.detach()
    assert torch.allclose(jacrev(function)(plain), jacfwd(function)(plain), atol=1e-12)
    assert torch.allclose(vmap(function)(plain), function(plain), atol=1e-12)


@pytest.mark.parametrize("structure", [Matching(), LinearChain()], ids=repr)
def test_native_operations_are_part_of_compiled_functions(structure):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, 3, dtype=torch.double, generator=generator, requires_grad=True)
    additional = {name: torch.randn(3, 3, dtype=torch.double) for name in structure.additional_names[:1]}

    def function(s):
        return sparsemap(structure, s, backend="native", additional=additional)

    torch._dynamo.reset()
    compiled, expected = torch.compile(function, fullgraph=True, backend="aot_eager")(scores), function(scores)
    assert torch.equal(compiled, expected)
    gradients = [torch.autograd.grad((u * scores.detach()).sum(), scores)[0] for u in (compiled, expected)]
    assert torch.allclose(*gradients, atol=1e-13)


def test_native_operations_leave_to_compiled_ones_what_they_cannot_do():
    for structure in (Subset(3), Ranking(3), Simplex()):
        with pytest.raises(ValueError, match=r"infeasible: scores\[1\]"):
            sparsemap(structure, torch.tensor([[0.0] * 4, [-torch.inf] * 4]), backend="native")
    with pytest.raises(ValueError, match="fewer than min_size=3"):
        sparsemap(Subset(3), torch.zeros(2, 5), torch.tensor([4, 2]), backend="native")
    forbidden = torch.zeros(2, 3, 3)
    forbidden[1, :2] = -torch.inf
    with pytest.raises(ValueError, match="infeasible"):
        sparsemap(Matching(), forbidden, backend="native")
    with pytest.raises(ValueError, match=r"scores\[1\] contains NaN"):
        sparsemap(Simplex(), torch.tensor([[0.0, 1.0], [0.0, torch.nan]]), backend="native")
    with pytest.raises(ValueError, match="no operations for HeadAutomaton"):
        sparsemap(HeadAutomaton(), torch.zeros(2, 3), backend="native")
    with pytest.raises(ValueError, match="backend="):
        sparsemap(Simplex(), torch.zeros(2, 3), backend="gpu")


def test_a_sample_that_native_operations_fail_at_is_mended(monkeypatch):
    scores = torch.randn(4, 3, 5, dtype=torch.double, requires_grad=True)

    def fail(*args):
        u, tight, solved = solve(*args)
        u[2] = 0.0
        return u, tight, solved & (torch.arange(4) != 2)

    weights = torch.randn(4, 3, 5, dtype=torch.double)
    expected = sparsemap(Matching(), scores)
    solve = replace(monkeypatch, "structures", "solve_matchings", fail)
    u = sparsemap(Matching(), scores, backend="native")
    assert torch.allclose(u, expected, atol=1e-9)
    gradients = [torch.autograd.grad((out * weights).sum(), scores)[0] for out in (u, expected)]
    assert torch.allclose(*gradients, atol=1e-9)


@pytest.mark.parametrize("per_step", [False, True])
def test_transitions_that_all_score_the_same_leave_steps_independent(per_step):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(4, 5, 3, dtype=torch.double, generator=generator, requires_grad=True)
    start = torch.randn(3, dtype=torch.double, generator=generator, requires_grad=True)
    lengths = torch.tensor([5, 3, 2, 2])
    transitions = torch.full((4, 4, 3, 3) if per_step else (3, 3), 0.7, dtype=torch.double, requires_grad=True)

    def layer(scores, start, transitions):
        u, v = sparsemap(LinearChain(), scores, lengths, transitions=transitions, start=start, return_additional=True)
        return u, v["transitions"], v["start"]

    u, pairs, _ = layer(scores, start, transitions)
    for i, n in enumerate(lengths.tolist()):
        own = transitions[i, : n - 1] if per_step else transitions
        wanted = sklearn_sparsemap.sparsemap(
            LinearChain(), scores[i, :n].detach(), transitions=own.detach(), start=start.detach()
        )
        assert np.allclose(u[i, :n].detach(), wanted.marginals, atol=1e-12)
        # Additional marginals that belong to these.
        steps = pairs[i, : n - 1].sum(0) if per_step else pairs[i]
        assert torch.allclose(steps.sum(1), u[i, : n - 1].sum(0)) and torch.allclose(steps.sum(0), u[i, 1:n].sum(0))
    # Exact in the scores; over all scores together symmetric, as everywhere.
    assert gradcheck(lambda s, b: layer(s, b, transitions)[0], (scores, start))
    inputs = scores.detach(), start.detach(), transitions.detach()
    weights, directions = (
        tuple(torch.randn(part.shape, dtype=torch.double, generator=generator) for part in inputs) for _ in range(2)
    )

    def potential(*inputs):
        u, pairs, first = layer(*inputs)
        pairs, first = (pairs if per_step else pairs.sum(0)), first.sum(0)
        return u, first, pairs

    _, forward = torch.func.jvp(potential, inputs, directions)
    _, pull = torch.func.vjp(potential, *inputs)
    left = sum((a * b).sum() for a, b in zip(forward, weights, strict=True))
    right = sum((a * b).sum() for a, b in zip(pull(weights), directions, strict=True))
    assert torch.isclose(left, right)
    loss = FenchelYoungLoss(LinearChain(), reduction="none")
    y = torch.zeros(4, 5, dtype=torch.long)
    wanted = sklearn_sparsemap.losses.FenchelYoungLoss(LinearChain()).loss_gradient(
        scores[0].detach().numpy(), np.zeros(5, int), transitions=np.full((3, 3), 0.7)
    )[0]
    same = torch.full((3, 3), 0.7, dtype=torch.double)
    assert np.isclose(loss(scores, y, transitions=same)[0].item(), wanted)
    found = sparsemap(LinearChain(), scores, lengths, transitions=transitions, start=start, return_structures=True)
    one_hot = torch.eye(3, dtype=torch.double)
    mixture = sum(w * one_hot[path] for w, path in zip(found.weights[0], found.structures[0], strict=True))
    assert torch.allclose(mixture, u[0])


# Compiled functions and the structures that they are given or make.


def _made(structure, k):
    """Return a structure that depends on an int."""
    if structure is Subset:
        return Subset(max_size=k)
    return DependencyTree(single_root=k > 1) if structure is DependencyTree else structure()


@pytest.mark.parametrize("structure", [DependencyTree, LinearChain, Subset])
def test_a_compiled_function_may_make_its_structure(structure):
    shape = (2, 5, 4) if structure().score_ndim == 2 else (2, 5)
    scores = torch.randn(shape, dtype=torch.double, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.randn(shape, dtype=torch.double, generator=torch.Generator().manual_seed(1))

    def function(scores, k):
        return sparsemap(_made(structure, k), scores)

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for k in (1, 2, 3):
        found, wanted = compiled(scores, k), function(scores, k)
        assert torch.equal(found, wanted)
        gradients = [torch.autograd.grad((u * weights).sum(), scores)[0] for u in (found, wanted)]
        assert torch.allclose(*gradients, atol=1e-13)
    # Three values of the parameter are three structures.
    assert structure is not Subset or not torch.equal(function(scores, 1), function(scores, 2))


def test_labelled_trees_and_losses_are_made_in_compiled_functions():
    def labelled(scores):
        return sparsemap(DependencyTree(n_labels=2), scores)

    def loss(scores, y):
        return FenchelYoungLoss(DependencyTree(single_root=True))(scores, y)

    scores, y = torch.randn(2, 4, 3, 2, dtype=torch.double), torch.tensor([[0, 1, 2], [2, 0, 2]])
    torch._dynamo.reset()
    assert torch.equal(torch.compile(labelled, fullgraph=True, backend="aot_eager")(scores), labelled(scores))
    assert torch.equal(torch.compile(loss, backend="eager")(scores[..., 0], y), loss(scores[..., 0], y))


def test_what_cannot_be_made_in_a_compiled_function_is_named():
    def function(scores):
        return sparsemap(CustomStructure(lambda scores: [int(scores.argmax())]), scores)

    torch._dynamo.reset()
    with pytest.raises(Exception, match="CustomStructure"):
        torch.compile(function, fullgraph=True, backend="aot_eager")(torch.zeros(2, 3))


def test_one_compiled_function_takes_all_structures():
    def function(structure, scores):
        return sparsemap(structure, scores)

    torch._dynamo.reset()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    generator, compared = torch.Generator().manual_seed(0), 0
    for structure, shape in (
        (DependencyTree(), (5, 4)),
        (Subset(max_size=1), (6,)),
        (Subset(max_size=3), (6,)),
        (LinearChain(), (4, 3)),
    ):
        scores = torch.randn(2, *shape, dtype=torch.double, generator=generator)
        assert torch.equal(compiled(structure, scores), function(structure, scores))
        compared += 1
    assert compared == 4


# Empty batches


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("padded", [False, True])
def test_empty_batches(name, padded):
    case = copy.copy(CASES[name])
    options = {}
    if padded:
        case.what = FUNCTIONS[name] if case.is_graph else case.what
        options["lengths"] = torch.tensor(case.lengths)[:0]
    own = [True] + [key in case.own for key in case.additional]
    values = [case.scores, *case.additional.values()]
    inputs = [torch.tensor(v[:0] if cut else v, requires_grad=True) for v, cut in zip(values, own)]
    call = lp_sparsemap if name in FUNCTIONS else sparsemap
    extra = dict(zip(case.additional, inputs[1:]))
    extra = {"additional": nested(extra) if name in FUNCTIONS else extra}

    def function(*inputs):
        extra = dict(zip(case.additional, inputs[1:]))
        extra = nested(extra) if name in FUNCTIONS else extra
        return call(case.what, inputs[0], additional=extra, **options)

    u, v = call(case.what, inputs[0], return_additional=True, **extra, **options)
    assert u.shape == inputs[0].shape and u.dtype == torch.double
    flat = [part for own in v.values() for part in (own.values() if isinstance(own, dict) else [own])]
    assert len(flat) == len(case.additional) and all(len(part) == 0 for part in flat)
    found = torch.autograd.grad(u.sum() + sum(part.sum() for part in flat), inputs)
    for gradient, value in zip(found, inputs, strict=True):
        assert gradient.shape == value.shape and not gradient.any()
    _, tangent = torch.func.jvp(lambda s: function(s, *inputs[1:]), (inputs[0],), (inputs[0],))
    assert tangent.shape == u.shape
    if (name, padded) in (("chain", True), ("pairs", False)):
        wrapped = vmap(lambda s: function(s, *inputs[1:]))(torch.zeros(2, *u.shape, dtype=torch.double))
        assert wrapped.shape == (2, *u.shape)
        torch._dynamo.reset()
        assert torch.compile(function, fullgraph=True, backend="aot_eager")(*inputs).shape == u.shape
    if name not in FUNCTIONS:
        selected = call(case.what, inputs[0], return_structures=True, **extra, **options)
        assert selected.marginals.shape == u.shape and selected.structures == [] and selected.weights == []


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["chain", "tree", "subset", "LP-matching"])
def test_losses_of_empty_batches(name, loss):
    case = CASES[name]
    if "crf" in loss and name not in ("chain", "tree"):
        return
    scores = torch.tensor(case.scores[:0], requires_grad=True)
    shape = {"chain": (0, 4), "tree": (0, 4), "subset": (0, 6), "LP-matching": (0, 2, 3)}[name]
    y = torch.zeros(shape, dtype=torch.long)
    for reduction, wanted in (("none", []), ("sum", 0.0)):
        value = FenchelYoungLoss(case.what, loss, reduction=reduction)(scores, y)
        assert value.tolist() == wanted
        value.sum().backward()
        assert scores.grad.shape == scores.shape
    # As those of PyTorch's own losses, the mean of nothing is no number.
    assert FenchelYoungLoss(case.what, loss)(scores, y).isnan()
    with pytest.raises(ValueError, match="y holds 1 structures for 0 samples"):
        FenchelYoungLoss(case.what, loss)(scores, torch.zeros(1, *shape[1:], dtype=torch.long))


def test_empty_batches_of_native_operations_and_of_several_arrays():
    for structure, shape in ((Matching(), (0, 3, 4)), (Simplex(), (0, 5)), (Subset(1), (0, 5)), (Ranking(), (0, 5))):
        scores = torch.zeros(shape, requires_grad=True)
        u = sparsemap(structure, scores, backend="native")
        u.sum().backward()
        assert u.shape == shape and scores.grad.shape == shape
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(Xor([*u, *v.ravel()]))
    found = lp_sparsemap(graph, {"u": torch.zeros(0, 2), "v": torch.zeros(0, 2, 3)})
    assert found["u"].shape == (0, 2) and found["v"].shape == (0, 2, 3)
    # A sample without parts is none.
    for scores in (torch.zeros(0), torch.zeros(2, 0), torch.zeros(0, 0)):
        with pytest.raises(ValueError, match="scores is empty"):
            sparsemap(Simplex(), scores)
    with pytest.raises(ValueError, match="scores is empty"):
        sparsemap(LinearChain(), torch.zeros(0, 3, 0))
    with pytest.raises(ValueError, match=r"lengths has shape \(2,\); with these scores it must have \(0,\)"):
        sparsemap(Simplex(), torch.zeros(0, 3), torch.tensor([1, 2]))


def test_training_goes_on_after_an_empty_batch():
    network = torch.nn.Linear(4, 3)
    for n in (2, 0, 3):
        u = sparsemap(LinearChain(), network(torch.randn(n, 5, 4)))
        network.zero_grad()
        u.square().sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in network.parameters())


@pytest.mark.parametrize("function", [sparsemap, map_inference])
def test_additional_scores_that_are_given_twice_are_refused(function):
    scores = torch.zeros(2, 2)
    with pytest.raises(ValueError, match="transitions is given both as a keyword and in additional"):
        function(LinearChain(), scores, additional={"transitions": torch.ones(2, 2)}, transitions=torch.zeros(2, 2))
