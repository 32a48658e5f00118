"""The public functions: one sample, many samples, what they accept and what they refuse."""

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from internals import with_modules
from scipy import sparse

from sklearn_sparsemap import RaggedArray, map_inference, marginal_inference, sparsemap
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.penalties import GroupLasso
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, LinearChain, Matching, Simplex, Subset

CHAIN = LinearChain()


def batch(seed=0, n=7, m=3):
    rng = np.random.default_rng(seed)
    scores = [rng.normal(size=(length, m)) for length in rng.integers(1, 9, size=n)]
    return scores, rng.normal(size=(m, m))


def assert_same(a, b):
    assert np.array_equal(a.marginals, b.marginals)
    assert np.array_equal(a.weights, b.weights)
    assert all(np.array_equal(s, t) for s, t in zip(a.structures, b.structures))
    assert (a.objective, a.gap, a.n_iter, a.converged) == (b.objective, b.gap, b.n_iter, b.converged)


@pytest.mark.parametrize("container", [list, tuple, RaggedArray.from_list], ids=["list", "tuple", "ragged"])
def test_a_batch_equals_its_samples(container):
    scores, transitions = batch()
    start = np.array([0.5, 0.0, -0.5])
    many = sparsemap(CHAIN, container(scores), transitions=transitions, start=start)
    paths = map_inference(CHAIN, container(scores), transitions=transitions, start=start)
    assert isinstance(many, Sequence) and len(many) == len(scores)
    for s, result, (path, value) in zip(scores, many, paths, strict=True):
        assert_same(result, sparsemap(CHAIN, s, transitions=transitions, start=start))
        alone = map_inference(CHAIN, s, transitions=transitions, start=start)
        assert np.array_equal(path, alone.structure) and value == alone.value


BATCHES = {
    "chain": (LinearChain(), [(1, 3), (4, 3), (6, 3)]),
    "tree": (DependencyTree(), [(2, 1), (5, 4), (9, 8)]),
    "matching": (Matching(), [(2, 2), (3, 5), (6, 4)]),
    "simplex": (Simplex(), [(1,), (4,), (9,)]),
    "subset": (Subset(1, 3), [(3,), (5,), (9,)]),
    "custom": (CustomStructure(lambda scores: [int(np.argmax(scores)), int(np.argmin(scores))]), [(4,), (6,), (5,)]),
}


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("kind, own", [*[(kind, False) for kind in BATCHES], ("chain", True)])
def test_a_batch_has_the_arrays_and_derivatives_of_its_samples(kind, own, n_jobs):
    structure, shapes = BATCHES[kind]
    rng = np.random.default_rng(3)
    scores = [rng.normal(size=shape) for shape in shapes]
    additional = {}
    if kind == "chain":
        additional["start"] = rng.normal(size=3)
        additional["transitions"] = [rng.normal(size=(3, 3)) for _ in shapes] if own else rng.normal(size=(3, 3))
    result = sparsemap(structure, scores, n_jobs=n_jobs, **additional)
    single = [
        sparsemap(structure, s, **{**additional, **({"transitions": additional["transitions"][i]} if own else {})})
        for i, s in enumerate(scores)
    ]
    for name in ("gap", "objective", "n_iter", "converged"):
        assert np.array_equal(getattr(result, name), [getattr(r, name) for r in single])
    assert np.array_equal(result.marginals.values, np.concatenate([r.marginals.ravel() for r in single]))
    assert np.array_equal(result.marginals.grids, shapes)
    for a, b in zip(result, single, strict=True):
        assert_same(a, b)
    assert result[-1] is result[len(shapes) - 1] and len(result[1:]) == len(shapes) - 1
    vs = [rng.normal(size=shape) for shape in shapes]
    expected = [r.vjp(v) for r, v in zip(single, vs)]
    joined = RaggedArray(np.concatenate([v.ravel() for v in vs]), result.marginals.indptr)
    for given in (vs, joined):
        found = result.vjp(given)
        np.testing.assert_allclose(
            found["scores"].values, np.concatenate([e["scores"].ravel() for e in expected]), atol=1e-10
        )
        assert found.keys() == expected[0].keys()
        for name in additional:
            each = [e[name] for e in expected]
            if name == "transitions" and own:
                assert all(np.allclose(a, b, atol=1e-10) for a, b in zip(found[name], each, strict=True))
            else:
                np.testing.assert_allclose(found[name], np.sum(each, axis=0), atol=1e-10)
    directions = {name: rng.normal(size=np.shape(a)) for name, a in additional.items()}
    moved = result.jvp(scores=vs, **directions)
    for i, r in enumerate(single):
        of_sample = {name: d[i] if name == "transitions" and own else d for name, d in directions.items()}
        np.testing.assert_allclose(moved[i], r.jvp(scores=vs[i], **of_sample).ravel(), atol=1e-10)
    ws = [rng.normal(size=len(r.weights)) for r in single]
    found = result.weights_vjp(ws)
    expected = [r.weights_vjp(w)["scores"].ravel() for r, w in zip(single, ws)]
    np.testing.assert_allclose(found["scores"].values, np.concatenate(expected), atol=1e-10)
    if kind != "custom":
        again = pickle.loads(pickle.dumps(result))
        assert_same(again[1], single[1])
        assert np.array_equal(again.vjp(vs)["scores"].values, result.vjp(vs)["scores"].values)


@pytest.mark.parametrize(
    ("structure", "few", "more", "names"),
    [
        (LinearChain(), [(5, 3), (6, 5), (1, 30), (10, 3)], (40, 4), {"transitions": (5, 5)}),
        (LinearChain(), [(5, 3), (6, 5), (2, 2)], (40, 4), {}),
        (DependencyTree(), [(5, 4), (4, 3), (2, 1)], (9, 8), {}),
        (Matching(), [(3, 4), (2, 6), (3, 3)], (8, 8), {}),
    ],
    ids=["chain", "steps", "tree", "matching"],
)
def test_small_problems_go_to_the_active_set(structure, few, more, names):
    rng, n_other = np.random.default_rng(0), 0
    for scale in (0.0, 0.01, 0.3, 1.0, 10.0):
        scores = [scale * rng.normal(size=shape) for shape in (*few, more)]
        additional = {name: [scale * rng.normal(size=(s.shape[1],) * len(size)) for s in scores]
                      for name, size in names.items()}  # fmt: skip
        many = sparsemap(structure, scores, **additional)
        for i, s in enumerate(scores):
            own = {name: arrays[i] for name, arrays in additional.items()}
            auto, by_structures = (sparsemap(structure, s, solver=solver, **own) for solver in ("auto", "active_set"))
            assert np.array_equal(many[i].marginals, auto.marginals) and many[i].n_iter == auto.n_iter
            if s.shape == more:
                # Small scores of a large problem go to the other solver.
                n_other += auto.n_iter != by_structures.n_iter
            else:
                assert_same(auto, by_structures)
    assert n_other > 0


def test_a_small_problem_compiles_no_solver_of_its_polytope(fresh_python):
    used = fresh_python(SMALL_PROBLEMS).stdout.split()
    assert {"active_set", "viterbi"} <= set(used)
    specialised = {
        "chain_flow_solver", "chain_products", "flow_paths", "tree_facets",
        "prefers_cuts", "matching_facets", "prefers_multipliers", "calls_of_flow", "support_products_range",
    }  # fmt: skip
    assert not specialised & set(used)


SMALL_PROBLEMS = with_modules("""
import numpy as np
from sklearn_sparsemap import sparsemap
from {jit} import _entries
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching
sparsemap(LinearChain(), np.eye(5, 3), transitions=np.eye(3)).vjp(np.eye(5, 3))
sparsemap(DependencyTree(), np.eye(4, 3)).vjp(np.eye(4, 3))
sparsemap(Matching(), np.eye(3)).vjp(np.eye(3))
print(*[entry.__name__ for entry in _entries if entry._dispatcher is not None])
""")


def test_a_batch_says_what_is_wrong():
    scores, transitions = batch()
    result = sparsemap(CHAIN, scores, transitions=transitions)
    with pytest.raises(IndexError, match="there are 7 results"):
        result[7]
    vs = [np.zeros_like(s) for s in scores]
    with pytest.raises(ValueError, match="vs holds 6 arrays for 7 samples"):
        result.vjp(vs[:-1])
    with pytest.raises(ValueError, match=r"vs\[2\] has shape \(99,\)"):
        result.vjp([*vs[:2], np.zeros(99), *vs[3:]])
    with pytest.raises(ValueError, match=r"ws\[0\] has shape"):
        result.weights_vjp([np.zeros(50)] * 7)
    for call in (result.vjp, lambda vs: result.jvp(scores=vs)):
        with pytest.raises(ValueError, match=r"\[2\] contains NaN or infinity"):
            call([*vs[:2], np.full_like(vs[2], np.nan), *vs[3:]])
    with pytest.raises(ValueError, match=r"additional\[0\] contains NaN or infinity"):
        result.jvp(transitions=np.full((3, 3), np.inf))
    assert marginal_inference(CHAIN, scores).log_partition.shape == (7,)
    best = map_inference(CHAIN, scores)
    assert best.values.shape == (7,)
    assert [s.tolist() for s in best.structures] == [map_inference(CHAIN, s)[0].tolist() for s in scores]
    assert [r.structure.tolist() for r in best] == [s.tolist() for s in best.structures]


@pytest.mark.parametrize("structure", [CHAIN, Matching(), DependencyTree(), Subset(1, 2), Simplex()], ids=repr)
def test_structures_of_a_batch_with_equal_and_with_unlike_shapes(structure):
    rng = np.random.default_rng(3)
    shape = {1: (4,), 2: (5, 4)}[structure.score_ndim]
    stacked = rng.normal(size=(6, *shape))
    expected = [np.asarray(map_inference(structure, s).structure).tolist() for s in stacked]
    smaller = stacked[0][..., 1:] if structure.score_ndim == 1 else stacked[0][1:, 1:]
    last = np.asarray(map_inference(structure, smaller).structure).tolist()
    for batch, of_batch in ((stacked, expected), ([*stacked, smaller], [*expected, last])):
        assert [np.asarray(s).tolist() for s in map_inference(structure, batch).structures] == of_batch


def test_a_stacked_batch_and_object_arrays():
    stacked = np.random.default_rng(0).normal(size=(4, 5, 3))
    for a, b in zip(sparsemap(CHAIN, stacked), sparsemap(CHAIN, list(stacked)), strict=True):
        assert_same(a, b)
    as_objects = np.empty(4, dtype=object)
    as_objects[:] = list(stacked)
    assert_same(sparsemap(CHAIN, as_objects)[3], sparsemap(CHAIN, stacked[3]))
    assert len(sparsemap(Simplex(), np.zeros((4, 2)))) == 4


def test_additional_scores_of_each_sample():
    rng = np.random.default_rng(1)
    scores, _ = batch()
    own = [rng.normal(size=(len(s) - 1, 3, 3)) for s in scores]
    for s, t, result in zip(scores, own, sparsemap(CHAIN, scores, transitions=own), strict=True):
        assert_same(result, sparsemap(CHAIN, s, transitions=t))
        assert result.additional_marginals["transitions"].shape == t.shape
        # One transition is taken at each step.
        np.testing.assert_allclose(result.additional_marginals["transitions"].sum(axis=(1, 2)), 1.0, atol=1e-9)
    with pytest.raises(ValueError, match="list of 6 arrays for 7 samples"):
        sparsemap(CHAIN, [np.zeros((2, 3))] * 7, transitions=[np.zeros((3, 3))] * 6)


def test_additional_marginals_agree_with_marginals():
    scores, transitions = batch()
    for result in sparsemap(CHAIN, scores, transitions=transitions, start=np.zeros(3), end=np.ones(3)):
        additional = result.additional_marginals
        np.testing.assert_allclose(additional["start"], result.marginals[0], atol=1e-9)
        np.testing.assert_allclose(additional["end"], result.marginals[-1], atol=1e-9)
        np.testing.assert_allclose(additional["transitions"].sum(axis=1), result.marginals[:-1].sum(axis=0), atol=1e-9)
        np.testing.assert_allclose(additional["transitions"].sum(axis=0), result.marginals[1:].sum(axis=0), atol=1e-9)


def test_additional_marginals_of_a_chain_of_one_step_are_floats():
    results = sparsemap(CHAIN, [np.zeros((1, 3)), np.zeros((2, 3))], transitions=np.zeros((3, 3)))
    for result in (results[0], sparsemap(CHAIN, np.zeros((1, 3)), transitions=np.zeros((3, 3)))):
        moves = result.additional_marginals["transitions"]
        assert moves.dtype == np.float64 and moves.shape == (3, 3) and not moves.any()


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(n_jobs):
    scores, transitions = batch(n=60)
    one = sparsemap(CHAIN, scores, transitions=transitions)
    for a, b in zip(one, sparsemap(CHAIN, scores, transitions=transitions, n_jobs=n_jobs), strict=True):
        assert_same(a, b)
    one = map_inference(CHAIN, scores, transitions=transitions)
    for a, b in zip(one, map_inference(CHAIN, scores, transitions=transitions, n_jobs=n_jobs), strict=True):
        assert np.array_equal(a.structure, b.structure) and a.value == b.value


def test_any_layout_of_the_input():
    scores, transitions = batch()
    scores = np.round(scores[0], 1)
    expected = sparsemap(CHAIN, scores, transitions=transitions)
    frozen = scores.copy()
    frozen.flags.writeable = False
    for layout in (scores.tolist(), np.asfortranarray(scores), frozen, np.repeat(scores, 2, axis=1)[:, ::2]):
        assert_same(sparsemap(CHAIN, layout, transitions=transitions), expected)
    integers = sparsemap(CHAIN, np.array([[1, 0], [0, 2]]))
    assert_same(integers, sparsemap(CHAIN, np.array([[1, 0], [0, 2]], dtype=np.float32)))


def test_memory_mapped_scores(tmp_path):
    np.save(tmp_path / "scores.npy", batch()[0][0])
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    assert_same(sparsemap(CHAIN, mapped), sparsemap(CHAIN, np.array(mapped)))


def test_a_result_pickles_and_differentiates():
    scores, transitions = batch()
    result = sparsemap(CHAIN, scores[0], transitions=transitions)
    copy = pickle.loads(pickle.dumps(result))
    assert_same(copy, result)
    v = np.ones(result.marginals.shape)
    np.testing.assert_array_equal(copy.vjp(v)["transitions"], result.vjp(v)["transitions"])
    assert "n_iter=" in repr(result)


def test_hostile_scores():
    assert sparsemap(CHAIN, [[3.0]]).structures[0].tolist() == [0]
    zeros = sparsemap(CHAIN, np.zeros((30, 4)))
    np.testing.assert_allclose(zeros.marginals, 0.25, atol=1e-9)
    huge = sparsemap(CHAIN, np.random.default_rng(0).normal(size=(30, 4)) * 1e8)
    assert huge.converged
    np.testing.assert_array_equal(np.sort(huge.marginals.sum(axis=1)), 1.0)
    one_left = np.full((4, 3), -np.inf)
    one_left[np.arange(4), [0, 2, 1, 1]] = -1e8
    result = sparsemap(CHAIN, one_left, transitions=np.zeros((3, 3)))
    assert [s.tolist() for s in result.structures] == [[0, 2, 1, 1]]
    assert np.array_equal(result.vjp(np.ones((4, 3)))["scores"], np.zeros((4, 3)))


def test_times_are_no_scores():
    scores = np.zeros((3, 2))
    for kind in ("datetime64[s]", "timedelta64[D]"):
        for function in (
            lambda own: sparsemap(LinearChain(), own),
            lambda own: sparsemap(LinearChain(), [scores, own.tolist()]),
            lambda own: map_inference(LinearChain(), scores, start=own[0]),
            lambda own: FenchelYoungLoss(LinearChain()).loss_gradient(np.stack([own, own]), [[0, 0, 0]] * 2),
        ):
            with pytest.raises(ValueError, match="must be an array of numbers"):
                function(scores.astype(kind))


def test_complex_numbers_are_refused():
    scores, transitions = np.eye(3, 2), np.eye(2)
    result = sparsemap(LinearChain(), scores, transitions=transitions)
    loss = FenchelYoungLoss(LinearChain())
    for function in (
        *(lambda f=f: f(LinearChain(), scores * 1j) for f in (map_inference, sparsemap, marginal_inference)),
        lambda: sparsemap(LinearChain(), scores.astype(complex).tolist()),
        lambda: sparsemap(LinearChain(), np.stack([scores, scores]) * 1j),
        lambda: sparsemap(LinearChain(), [scores, scores * 1j]),
        lambda: sparsemap(LinearChain(), scores, transitions=transitions * 1j),
        lambda: result.vjp(scores * 1j),
        lambda: result.jvp(scores * 1j),
        lambda: result.jvp(transitions=transitions * 1j),
        lambda: result.weights_vjp(1j * result.weights),
        lambda: result.weights_jvp(scores * 1j),
        lambda: loss.loss_gradient(scores * 1j, [0, 0, 0]),
        lambda: example_f1_score([[1]], [[1]], sample_weight=[1j]),
        lambda: GroupLasso().prox([1j, 2.0]),
    ):
        with pytest.raises(ValueError, match="Complex data not supported"):
            function()


@pytest.mark.parametrize("function", [map_inference, sparsemap])
def test_wrong_scores_are_refused(function):
    cases = [
        (np.zeros(3), "must have 2 axes"),
        (np.zeros((0, 3)), "is empty"),
        ([], "is empty"),
        (RaggedArray.from_list([]), "is empty"),
        ([[1.0, np.nan]], r"scores\[0, 1\] is nan"),
        ([[1.0, np.inf]], r"scores\[0, 1\] is inf"),
        ([["a", "b"]], "must be an array of numbers"),
        ([[1.0], [1.0, 2.0]], "must be an array of numbers"),
        (sparse.csr_array(np.eye(3)), "toarray"),
        ([np.zeros((2, 2)), np.array([[0.0, np.nan]])], r"scores\[1\]\[0, 1\] is nan"),
        ([np.zeros((2, 2)), np.zeros((0, 2))], r"scores\[1\] is empty"),
        (np.full((2, 2), -np.inf), "infeasible: scores"),
        ([np.zeros((2, 2)), np.full((2, 2), -np.inf)], r"infeasible: scores\[1\]"),
    ]
    for scores, message in cases:
        with pytest.raises(ValueError, match=message):
            function(CHAIN, scores)
    with pytest.raises(ValueError, match="infeasible"):
        function(CHAIN, np.zeros((2, 2)), transitions=np.full((2, 2), -np.inf))
    with pytest.raises(ValueError, match=r"transitions has shape \(2, 3\)"):
        function(CHAIN, np.zeros((2, 2)), transitions=np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"transitions\[0, 1\] is nan"):
        function(CHAIN, np.zeros((2, 2)), transitions=[[0.0, np.nan], [0.0, 0.0]])
    with pytest.raises(TypeError, match="no additional scores named 'transition'; it takes: transitions, start, end"):
        function(CHAIN, np.zeros((2, 2)), transition=np.zeros((2, 2)))
    with pytest.raises(TypeError, match="it takes: none"):
        function(Simplex(), np.zeros(2), start=np.zeros(2))


def test_wrong_parameters_are_refused():
    with pytest.raises(ValueError, match="solver='newton' is not one of 'auto'"):
        sparsemap(CHAIN, np.zeros((2, 2)), solver="newton")
    for name, value in [("tol", 0.0), ("tol", np.nan), ("max_iter", 0), ("max_iter", 2.5)]:
        with pytest.raises(ValueError, match=f"{name} must be a positive"):
            sparsemap(CHAIN, np.zeros((2, 2)), **{name: value})
    result = sparsemap(CHAIN, np.zeros((2, 2)), start=np.zeros(2))
    with pytest.raises(ValueError, match=r"v has shape \(3,\)"):
        result.vjp(np.zeros(3))
    with pytest.raises(ValueError, match=r"start has shape \(3,\)"):
        result.jvp(start=np.zeros(3))
    with pytest.raises(TypeError, match="no 'end' were given"):
        result.jvp(end=np.zeros(2))


@pytest.mark.parametrize(("bad", "message"), [(np.nan, r"scores\[2\]\[7\] is nan"), (1e200, r"scores\[2\] has values")])
def test_large_batches_are_checked_to_the_last_score(bad, message):
    """They are copied and checked in pieces."""
    scores = [np.zeros(50_000) for _ in range(3)]
    scores[1][5] = -np.inf
    scores[0][3] = 1.0
    assert map_inference(Simplex(), scores).structures[0] == 3
    scores[2][7] = bad
    with pytest.raises(ValueError, match=message):
        map_inference(Simplex(), scores)
