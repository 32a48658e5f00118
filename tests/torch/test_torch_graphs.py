"""Graphs in batched operations of PyTorch against the compiled solvers, on the CPU."""

import numpy as np
import pytest
from internals import replace
from layer_cases import FUNCTIONS, graph_cases, nested, of_one_vector
from naive_graphs import RANDOM_GRAPHS

from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor

torch = pytest.importorskip("torch")

from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

from sklearn_sparsemap.torch import lp_sparsemap  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]
# Without structures as factors.
NATIVE = "logic", "pairs", "matching"


def flattened(additional):
    """Return additional scores under flat names."""
    parts = {name: value if isinstance(value, dict) else {"": value} for name, value in additional.items()}
    return {f"{name}/{key}".rstrip("/"): value for name, own in parts.items() for key, value in own.items()}


def solve_by(backend, graph, scores, additional, lengths=None, dtype=torch.double):
    """Return marginals and additional marginals, and the gradients of a weighted sum of all of them."""
    inputs = [
        torch.tensor(np.asarray(part), dtype=dtype, requires_grad=True) for part in (scores, *additional.values())
    ]
    given = nested(dict(zip(additional, inputs[1:])))
    lengths = None if lengths is None else torch.tensor(lengths)
    u, v = lp_sparsemap(graph, inputs[0], given, lengths, backend=backend, return_additional=True)
    outputs, generator = [u, *flattened(v).values()], torch.Generator().manual_seed(0)
    total = sum((out * torch.randn(out.shape, generator=generator, dtype=dtype)).sum() for out in outputs)
    return [part.detach() for part in (*outputs, *torch.autograd.grad(total, inputs))]


def assert_alike(found, expected, atol=1e-8):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and torch.allclose(one, other, atol=atol, rtol=0.0)


@pytest.mark.parametrize("kind", RANDOM_GRAPHS)
def test_random_graphs_are_solved_as_by_the_compiled_solver(kind, mended):
    rng, n_samples = np.random.default_rng(0), 0
    for scale in (0.1, 1.0, 10.0):
        for trial in range(8 if kind in NATIVE else 2):
            case = RANDOM_GRAPHS[kind](rng, scale)
            scores = np.stack([case.scores, case.scores + rng.normal(size=case.scores.shape), 0.0 * case.scores])
            # All samples share the additional scores.
            given = {key: np.asarray(value)[None] for key, value in flattened(case.additional).items()}
            problem = case.graph, scores, given
            assert_alike(solve_by("native", *problem), solve_by("compiled", *problem))
            n_samples += len(scores)
            if trial < 2:
                # Derivatives of float32 scores are those of neighbouring problems.
                single = [solve_by(name, *problem, dtype=torch.float32)[0] for name in ("native", "compiled")]
                assert torch.allclose(*single, atol=1e-4)
                n_samples += len(scores)
    assert len(mended) <= 0.02 * n_samples if kind in NATIVE else len(mended) == n_samples


@pytest.mark.parametrize("name", ["logic", "pairs", "LP-matching", "LP-sequence"])
def test_functions_of_shapes_forbidden_variables_and_padding(name):
    case = graph_cases()[name]
    scores, outside = case.scores.copy(), np.ones(case.scores.shape, bool)
    for i, shape in enumerate(case.shapes):
        outside[(i, *map(slice, shape))] = False
    scores[(0, *[1] * (scores.ndim - 1))] = -np.inf
    scores[outside] = np.nan
    problem = FUNCTIONS[name], scores, case.additional, case.lengths
    found, expected = (solve_by(backend, *problem) for backend in ("native", "compiled"))
    assert_alike(found, expected)
    assert outside.any() and not found[0][torch.tensor(outside)].any()
    empty = np.array(case.lengths)
    empty[1] = 0
    problem = FUNCTIONS[name], scores, case.additional, empty
    found, expected = (solve_by(backend, *problem) for backend in ("native", "compiled"))
    assert_alike(found, expected)
    assert not found[0][1].any()


@pytest.mark.parametrize("name", ["logic", "pairs", "LP-matching"])
def test_graphs_have_all_derivatives(name, mended):
    case = graph_cases()[name]
    inputs = [torch.tensor(part, requires_grad=True) for part in (case.scores, *case.additional.values())]

    def function(scores, *values):
        given = nested(dict(zip(case.additional, values)))
        u, v = lp_sparsemap(case.what, scores, given, backend="native", return_additional=True)
        return u, *flattened(v).values()

    problem = of_one_vector(function, inputs)
    assert gradcheck(*problem, check_forward_ad=True, check_batched_grad=True, fast_mode=True)
    assert gradgradcheck(*problem, fast_mode=True)
    assert not mended
    if name == "pairs":
        # All graphs are solved in one operator. This one has additional scores.
        torch._dynamo.reset()
        compiled = torch.compile(lambda *parts: function(*parts)[0], fullgraph=True, backend="aot_eager")
        assert torch.allclose(compiled(*inputs), function(*inputs)[0], atol=1e-12)


def test_what_cannot_be_solved_is_named():
    graph = FactorGraph()
    u = graph.variables((2, 2))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    scores = torch.zeros(2, 2, 2, 2)
    scores[1, 0, :, 0] = -torch.inf
    with pytest.raises(ValueError, match=r"infeasible: under scores\[1, 0\]"):
        lp_sparsemap(graph, scores, backend="native")
    scores[1, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"scores\[1, 0\] contains nan"):
        lp_sparsemap(graph, scores, backend="native")
    with pytest.raises(ValueError, match="backend='native' takes no max_iter"):
        lp_sparsemap(graph, torch.zeros(2, 2, 2), backend="native", max_iter=3)
    with pytest.raises(ValueError, match="backend="):
        lp_sparsemap(graph, torch.zeros(2, 2, 2), backend="gpu")


def test_large_batches_are_split(monkeypatch):

    for name in ("logic", "pairs"):
        case = graph_cases()[name]
        problem = case.what, case.scores, case.additional
        whole = solve_by("native", *problem)
        with monkeypatch.context() as patch:
            replace(patch, "_graphs", "_MAX_NUMBERS", 1)
            assert_alike(solve_by("native", *problem), whole, 1e-12)


def test_pairs_without_a_score_are_left_to_the_compiled_solver(mended):
    case = graph_cases()["pairs"]
    additional = {name: np.zeros_like(value) for name, value in case.additional.items()}
    problem = case.what, case.scores, additional
    assert_alike(solve_by("native", *problem), solve_by("compiled", *problem))
    assert mended == [0, 1, 2]
