"""Batched operations of PyTorch against the compiled solvers, on the CPU: all structures, then chains."""

import numpy as np
import pytest
from internals import replace
from layer_cases import of_one_vector, structure_cases
from registry import RANDOM

from sklearn_sparsemap.structures import HeadAutomaton, LinearChain, Matching, Ranking, Subset

torch = pytest.importorskip("torch")

from internals import Derivations, TensorBatch  # noqa: E402
from internals import native as _native  # noqa: E402
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402
from torch.func import jacfwd, jacrev, vmap  # noqa: E402

from sklearn_sparsemap.torch import SparseMAP, sparsemap  # noqa: E402

# PyTorch's own, in forward mode under vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch"),
]
KINDS = ("none", "all", "step", "constant")
NAMES = [name for name, draw in RANDOM.items() if draw(np.random.default_rng(0)).structure.tensor_solver is not None]
PADDED = {name: case for name, case in structure_cases().items() if case.what.tensor_solver is not None}


def batch_of(name, seed):
    """Return a structure and the scores of three samples: one of the registry, one moved and one enlarged."""
    rng = np.random.default_rng(seed)
    ties = seed % 4 == 3
    instance = RANDOM[name](rng, ties=ties, forbid=seed % 2 == 1, scale=(1.0, 0.2, 5.0)[seed % 3])
    own = instance.scores
    scores = np.stack([own, own if ties else own + rng.normal(size=own.shape), 3.0 * own])
    # All samples share the additional scores.
    return instance.structure, scores, {key: value[None] for key, value in instance.additional.items()}, ties


def test_almost_all_structures_have_operations():
    assert set(RANDOM) - set(NAMES) == {"modifiers", "grandparents", "custom"}


@pytest.mark.parametrize("name", NAMES)
def test_every_structure_is_solved_as_by_the_compiled_solver(name, mended):
    n_gradients = 0
    # Each scale with and without ties and forbidden parts; the other seeds below 12 repeat these.
    for seed in (0, 1, 2, 3, 4, 5, 7, 9, 11):
        *case, ties = batch_of(name, seed)
        found, expected = (solve_by(backend, *case) for backend in ("native", "compiled"))
        if ties:
            # Additional marginals and their derivatives are then not unique.
            found, expected = found[:1], expected[:1]
        n_gradients += len(found) > 1
        assert_alike(found, expected, 1e-8)
        if seed % 5 == 0:
            single = [solve_by(backend, *case, dtype=torch.float32)[:1] for backend in ("native", "compiled")]
            assert_alike(*single, 1e-4)
    assert n_gradients == 6 and not mended


@pytest.mark.parametrize("name", NAMES)
def test_every_structure_has_derivatives_at_ties(name):
    for seed in (0, 2):
        structure, scores, additional, _ = batch_of(name, seed)
        given = {key: torch.tensor(value) for key, value in additional.items()}
        whole = torch.zeros(scores.shape, dtype=torch.double, requires_grad=True)
        weights = torch.randn(scores.shape, dtype=torch.double, generator=torch.Generator().manual_seed(0))
        gradients = []
        for backend in ("native", "compiled"):
            u = sparsemap(structure, whole, backend=backend, additional={key: 0.0 * v for key, v in given.items()})
            gradients.append(torch.autograd.grad((u * weights).sum(), whole)[0])
        assert torch.allclose(*gradients, atol=1e-8, rtol=0.0)


@pytest.mark.parametrize("name", NAMES)
def test_every_structure_passes_gradcheck(name):
    structure, scores, additional, _ = batch_of(name, 4)
    inputs = [torch.tensor(part, requires_grad=True) for part in (scores[:1], *additional.values())]

    def function(scores, *values):
        given = dict(zip(additional, values))
        u, v = sparsemap(structure, scores, backend="native", additional=given, return_additional=True)
        return u, *v.values()

    assert gradcheck(*of_one_vector(function, inputs), fast_mode=True, check_forward_ad=True)


def counted(function, monkeypatch):
    """Call a function; return its result, and the number of times that it reads from the device."""
    reads = []

    def record(owner, name):
        method = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda own, *args: reads.append(name) or method(own, *args))

    with monkeypatch.context() as monkeypatch:
        for name in ("__bool__", "__float__", "__int__", "cpu", "item", "nonzero", "numpy", "tolist"):
            record(torch.Tensor, name)
        found = function()
    return found, len(reads)


def tensor_batch_of(name):
    """Return the structure of a case, and its samples as a `TensorBatch` without padding."""
    case = structure_cases()[name]
    scores = torch.tensor(case.scores)
    joined = torch.tensor(np.concatenate([np.zeros(0), *[value.ravel() for value in case.additional.values()]]))
    lengths = torch.tensor([scores.shape[1:]]).expand(len(scores), -1)
    given = {key: value.shape for key, value in case.additional.items()}
    return case.what, TensorBatch(scores, lengths, joined.expand(len(scores), -1), given, None, 1e-9)


@pytest.mark.parametrize("name", ["chain", "projective tree", "segmentation", "tree"])
def test_a_round_of_the_active_set_reads_from_the_device_once(name, monkeypatch):
    structure, batch = tensor_batch_of(name)
    rounds, plain = [], {}
    # Trees are found by contraction; each of its rounds reads a flag, too.
    best = Derivations.best
    monkeypatch.setattr(Derivations, "best", lambda *args: rounds.append(1) or best(*args))
    for step in ("_best_trees", "_cycles"):
        own = replace(monkeypatch, "structures", step, lambda *args, step=step: rounds.append(1) or plain[step](*args))
        plain[step] = own
    (_, _, multiply, solved), reads = counted(lambda: structure.tensor_solver()(batch), monkeypatch)
    # At the start it reads which samples are feasible; chains with transitions also whether these are all equal.
    assert solved.all() and len(rounds) > 4 and reads <= len(rounds) + 1
    rounds.clear()
    directions = batch.scores[None], batch.additional[None]
    _, reads = counted(lambda: multiply(*directions), monkeypatch)
    assert len(rounds) > 1 and reads <= len(rounds) + 1
    # The face is known by then.
    assert not counted(lambda: multiply(*directions), monkeypatch)[1]


@pytest.mark.parametrize("name", ["simplex", "subset", "ranking", "matching"])
def test_other_solvers_read_flags_only(name, monkeypatch):
    structure, batch = tensor_batch_of(name)
    steps, plain = [], {}
    for step in ("_direction", "_search", "_newton_steps"):
        own = replace(monkeypatch, "_numerics", step, lambda *args, step=step: steps.append(1) or plain[step](*args))
        plain[step] = own
    (_, _, multiply, solved), reads = counted(lambda: structure.tensor_solver()(batch), monkeypatch)
    assert solved.all()
    # Matchings read their orientation, and flags of the repetitions within a step, which are few.
    assert 0 < reads <= 1 + 3 * len(steps) if name == "matching" else not reads
    directions = batch.scores[None], batch.additional[None]
    assert not counted(lambda: multiply(*directions), monkeypatch)[1]


def test_matchings_at_kinks_have_the_derivative_of_one_of_the_sides():
    compared = 0
    for scores in ([1.0, 0.0], [0.0, 1.0], [0.5, -0.5, -2.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, -0.5]):
        scores = torch.tensor([scores], dtype=torch.double)
        marginals, jacobians = [], []
        layers = [SparseMAP(Matching(), backend=backend) for backend in ("native", "compiled")]
        for layer in layers:
            marginals.append(layer(scores))
            jacobians.append(torch.autograd.functional.jacobian(layer, scores).squeeze(0, 2))
        native, compiled = jacobians
        assert torch.allclose(*marginals, atol=1e-12)
        # Native: a step that no marginal of zero survives. Compiled: one to the middle of all columns that tie.
        support = (marginals[0] > 0.0).double()
        ties = (scores - marginals[0]) >= (scores - marginals[0]).max() - 1e-9
        middle = ties / ties.sum()
        for step, jacobian in ((support, native), (middle - marginals[0], compiled)):
            moved = scores + 1e-3 * step
            for layer in layers:
                change = (layer(moved) - marginals[0]) / 1e-3
                assert torch.allclose(change, step @ jacobian, atol=1e-9)
                there = torch.autograd.functional.jacobian(layer, moved).squeeze(0, 2)
                assert torch.allclose(there, jacobian, atol=1e-9)
        compared += not torch.allclose(native, compiled, atol=1e-3)
    assert compared == 5


@pytest.mark.parametrize("name", PADDED)
def test_no_structure_reads_its_padding(name, mended):
    case = PADDED[name]
    scores, outside = case.scores.copy(), np.ones(case.scores.shape, bool)
    for i, shape in enumerate(case.shapes):
        outside[(i, *map(slice, shape))] = False
    scores[outside] = np.nan
    results = []
    for backend in ("native", "compiled"):
        own = torch.tensor(scores, requires_grad=True)
        given = {key: torch.tensor(value) for key, value in case.additional.items()}
        u = sparsemap(case.what, own, torch.tensor(case.lengths), backend=backend, additional=given)
        weights = torch.linspace(-1.0, 1.0, u.numel(), dtype=torch.double).reshape(u.shape)
        results.append((u.detach(), torch.autograd.grad((u * weights).sum(), own)[0]))
    assert_alike(*results, 1e-8)
    for part in results[0]:
        assert not part[torch.tensor(outside)].any()
    assert outside.any() and not mended


def random_chains(rng, shape, kind, scale=1.0):
    """Return scores and additional scores; start scores are shared, those of the end are not."""
    n_samples, n, m = shape
    additional = {"start": scale * rng.normal(size=m), "end": scale * rng.normal(size=(n_samples, m))}
    if kind == "all":
        additional["transitions"] = rng.normal(size=(m, m))
    if kind == "step":
        additional["transitions"] = rng.normal(size=(n_samples, n - 1, m, m))
    if kind == "constant":
        additional["transitions"] = np.full((m, m), 0.3)
    return scale * rng.normal(size=shape), additional


def solve_by(backend, structure, scores, additional, lengths=None, dtype=torch.double, **options):
    """Return marginals, additional marginals, and the gradients of a weighted sum of all of them."""
    inputs = [torch.tensor(part, dtype=dtype, requires_grad=True) for part in (scores, *additional.values())]
    lengths = None if lengths is None else torch.tensor(lengths)
    given = dict(zip(additional, inputs[1:]))
    u, v = sparsemap(
        structure, inputs[0], lengths, backend=backend, additional=given, return_additional=True, **options
    )
    outputs, generator = [u, *v.values()], torch.Generator().manual_seed(0)
    total = sum((out * torch.randn(out.shape, generator=generator, dtype=dtype)).sum() for out in outputs)
    return [part.detach() for part in (*outputs, *torch.autograd.grad(total, inputs))]


def assert_alike(found, expected, atol):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and torch.allclose(one, other, atol=atol, rtol=0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_chains_are_those_of_the_compiled_solver(kind, mended):
    rng, compared = np.random.default_rng(0), 0
    for shape in ((3, 1, 3), (3, 2, 2), (3, 5, 4)):
        for scale in (0.1, 1.0, 20.0):
            scores, additional = random_chains(rng, shape, kind, scale)
            case = LinearChain(), scores, additional
            assert_alike(solve_by("native", *case), solve_by("compiled", *case), 1e-8)
            single = [solve_by(name, *case, dtype=torch.float32) for name in ("native", "compiled")]
            assert_alike(*single, 1e-4)
            compared += 1
    assert compared == 9 and not mended


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[6, 3, 1, 0], [[6, 4], [3, 2], [1, 1], [5, 3]]], ids=["steps", "both"])
def test_padding_of_chains_is_never_read(kind, lengths, mended):
    scores, additional = random_chains(np.random.default_rng(1), (4, 6, 4), kind)
    scores[1, :2, 0] = -np.inf
    expected = solve_by("compiled", LinearChain(), scores, additional, lengths)
    assert_alike(solve_by("native", LinearChain(), scores, additional, lengths), expected, 1e-8)
    scores[2, 2:] = np.nan
    if kind == "step":
        additional["transitions"][2] = np.nan
    found = solve_by("native", LinearChain(), scores, additional, lengths)
    assert not mended
    assert_alike(found, expected, 1e-8)


def test_forbidden_states_and_transitions(mended):
    scores, additional = random_chains(np.random.default_rng(2), (4, 6, 4), "step")
    scores[:, 1:4, 2] = -np.inf
    additional["transitions"][..., 1, 2] = -np.inf
    case = LinearChain(), scores, additional
    assert_alike(solve_by("native", *case), solve_by("compiled", *case), 1e-8)
    # Scores that tie do not determine the additional marginals.
    tied = [np.round(part) for part in (scores, additional["transitions"])]
    found = [
        sparsemap(LinearChain(), torch.tensor(tied[0]), transitions=torch.tensor(tied[1]), backend=name)
        for name in ("native", "compiled")
    ]
    assert torch.allclose(*found, atol=1e-8, rtol=0.0)
    assert not mended


def test_equal_scores_have_the_derivative_of_the_whole_face(mended):
    rng = np.random.default_rng(3)
    transitions = rng.normal(size=3)[:, None] + rng.normal(size=3)
    # All paths tie after the transitions are moved into the scores of the steps.
    scores = np.zeros((1, 4, 3))
    scores[:, :-1] -= transitions[:, :1].T
    scores[:, 1:] -= transitions[:1] - transitions[0, 0]
    case = LinearChain(), scores, {"transitions": transitions}
    inputs = torch.tensor(scores, requires_grad=True)
    jacobians = [
        torch.autograd.functional.jacobian(
            lambda s, name=name: sparsemap(
                LinearChain(), s, transitions=torch.tensor(case[2]["transitions"]), backend=name
            ),
            inputs,
        )
        for name in ("native", "compiled")
    ]
    assert torch.allclose(*jacobians, atol=1e-8) and not mended
    rank = torch.linalg.matrix_rank(jacobians[0].reshape(12, 12))
    assert rank == 8


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_limit_of_calls_stops_at_the_same_mixture(most, mended):
    scores, additional = random_chains(np.random.default_rng(4), (4, 6, 4), "all", scale=0.1)
    case = LinearChain(), scores, additional
    exact = solve_by("native", *case)
    found = [solve_by(name, *case, max_iter=most) for name in ("native", "compiled")]
    assert_alike(*found, 1e-8)
    assert not torch.allclose(found[0][0], exact[0], atol=1e-3) and not mended


@pytest.mark.parametrize("kind", KINDS)
def test_chains_have_all_derivatives(kind):
    scores, additional = random_chains(np.random.default_rng(5), (2, 3, 3), kind)
    inputs = [torch.tensor(part, requires_grad=True) for part in (scores, *additional.values())]

    def function(scores, *values):
        given = dict(zip(additional, values))
        u, v = sparsemap(LinearChain(), scores, backend="native", additional=given, return_additional=True)
        return u, *(v.values() if kind != "constant" else ())

    # A step away from equal transitions leads to another solution of the additional marginals.
    fixed = [inputs.pop().detach()] if kind == "constant" else []
    problem = of_one_vector(lambda *moved: function(*moved, *fixed), inputs)
    assert gradcheck(*problem, check_forward_ad=True, check_batched_grad=True, fast_mode=True)
    assert gradgradcheck(*problem, fast_mode=True)
    plain, *rest = [part.detach() for part in (*inputs, *fixed)]

    def marginals(s):
        return function(s, *rest)[0]

    assert torch.allclose(jacrev(marginals)(plain), jacfwd(marginals)(plain), atol=1e-12)
    whole = torch.stack([marginals(plain), marginals(2.0 * plain)])
    assert torch.allclose(vmap(marginals)(torch.stack([plain, 2.0 * plain])), whole, atol=1e-12)


def test_infeasible_chains_and_wrong_scores_are_named():
    scores, transitions = torch.zeros(2, 2, 3, 2), torch.randn(2, 2)
    scores[1, 0, 1] = -torch.inf
    for extra in ({}, {"transitions": transitions}):
        with pytest.raises(ValueError, match=r"infeasible: scores\[1, 0\]"):
            sparsemap(LinearChain(), scores, backend="native", **extra)
    scores[1, 0, 1] = torch.nan
    with pytest.raises(ValueError, match=r"scores\[1, 0\] contains NaN"):
        sparsemap(LinearChain(), scores, backend="native", transitions=transitions)
    own = torch.zeros(2, 2, 2, 2)
    own[0, 1, 0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"additional\[0, 1\] contains NaN or inf"):
        sparsemap(LinearChain(), torch.zeros(2, 2, 3, 2), backend="native", transitions=own)
    with pytest.raises(ValueError, match="no operations for HeadAutomaton"):
        sparsemap(HeadAutomaton(), torch.zeros(2, 3), backend="native")


def test_samples_that_need_too_many_structures_are_left_to_the_compiled_solver(mended, monkeypatch):
    scores, additional = random_chains(np.random.default_rng(6), (4, 7, 4), "all", scale=0.05)
    additional["transitions"] *= 0.05
    scores[1:3] *= 400.0
    replace(monkeypatch, "_numerics", "_MAX_WIDTH", 8)
    case = LinearChain(), scores, additional
    assert_alike(solve_by("native", *case), solve_by("compiled", *case), 1e-8)
    assert set(mended) == {0, 3}


def test_scores_on_the_cpu_keep_the_compiled_solver(monkeypatch):
    def refuse(*args):
        raise AssertionError("the compiled solver is faster there")

    monkeypatch.setattr(_native.NativeOperator, "solve_tensors", refuse)
    for structure, shape in ((LinearChain(), (2, 3, 2)), (Subset(1), (2, 4)), (Ranking(), (2, 4))):
        SparseMAP(structure)(torch.randn(shape))
        with pytest.raises(AssertionError, match="faster"):
            SparseMAP(structure, backend="native")(torch.randn(shape))


def test_large_rankings_are_split(monkeypatch):

    scores = torch.randn(7, 40, dtype=torch.double)
    whole = sparsemap(Ranking(), scores, backend="native")
    replace(monkeypatch, "structures", "_MAX_MEANS", 2 * 40 * 40)
    assert torch.equal(sparsemap(Ranking(), scores, backend="native"), whole)


def test_a_dependent_path_replaces_another_one(mended, monkeypatch):
    cases = [(LinearChain(), *random_chains(np.random.default_rng(7 + k), (60, 4, 3), "step", 0.3)) for k in range(20)]
    expected = [solve_by("compiled", *case) for case in cases]
    for case, wanted in zip(cases, expected, strict=True):
        assert_alike(solve_by("native", *case), wanted, 1e-8)
    assert not mended
    # Without the replacement some samples fail, and are left to the compiled solver. It depends on rounding which ones.
    replace(monkeypatch, "_numerics", "_NO_SHARE", np.inf)
    for case, wanted in zip(cases, expected, strict=True):
        assert_alike(solve_by("native", *case), wanted, 1e-8)
    assert mended
