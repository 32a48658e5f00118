"""Layers in JAX: derivatives, transforms, padded batches."""

import numpy as np
import pytest
from layer_cases import FUNCTIONS, all_cases, masked, masked_twin, nested

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

# Programs run once, so that most of the time is XLA's for making them fast.
jax.config.update("jax_disable_most_optimizations", True)

from sklearn_sparsemap.jax import _functions, _states, lp_sparsemap, sparsemap  # noqa: E402

CASES = all_cases()
# The program that JAX compiles is the same for all; these have all kinds of arguments.
SOME = ["chain", "tree", "matching", "custom", "pairs", "LP-sequence"]
FEW = ["chain", "custom", "LP-sequence"]


@pytest.fixture(autouse=True)
def double():
    """Compute in float64."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def in_numpy(arrays):
    """Return the arrays in NumPy, where slices and comparisons are not compiled anew for each shape."""
    return jax.tree.map(np.asarray, arrays)


def function_of(case, what=None, **options):
    """Return the layer as a function of all scores to all marginals, and arrays to try it on."""
    what = case.what if what is None else what

    def function(scores, *values):
        additional = dict(zip(case.additional, values))
        if case.is_graph:
            u, v = lp_sparsemap(what, scores, nested(additional), return_additional=True, **options)
        else:
            u, v = sparsemap(what, scores, additional=additional, return_additional=True, **options)
        return u, v

    return function, [jnp.array(case.scores), *(jnp.array(value) for value in case.additional.values())]


@pytest.mark.parametrize("name", SOME)
def test_derivatives_of_first_and_second_order(name):
    function, inputs = function_of(CASES[name])
    # Below, Hessians are zero, and the derivatives of all structures are compared with those of NumPy.
    order = 2 if name == "chain" else 1
    check_grads(jax.jit(function), inputs, order=order, modes=["fwd", "rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", SOME)
def test_transforms_agree(name):
    case = CASES[name]
    function, (scores, *values) = function_of(case)
    weights = jnp.array(np.random.default_rng(0).normal(size=scores.shape))
    axes = (0, 0, *(0 if key in case.own else None for key in case.additional))
    two = jnp.array(np.stack([scores, 0.5 * np.asarray(scores)], -1))

    def loss(scores, weights, *values):
        return (function(scores, *values)[0] * weights).sum()

    def transformed(scores, *values):
        # Compiled as one program, which is sooner done than many.
        alone = lambda s: function(s, *values)[0]  # noqa: E731
        return {
            "plain": function(scores, *values),
            "gradient": jax.grad(loss)(scores, weights, *values),
            "each": jax.vmap(jax.grad(loss), axes)(scores, weights, *values),
            "forward": jax.jvp(alone, [scores], [weights])[1],
            "reverse": jax.jacrev(alone)(scores),
            "hessian": jax.hessian(loss)(scores, weights, *values),
            "both": jax.vmap(alone, -1)(two),
            "half": function(0.5 * scores, *values)[0],
            "nested": jax.vmap(jax.jacfwd(alone), -1)(two)[0],
        }

    found = in_numpy(jax.jit(transformed)(scores, *values))
    for a, b in zip(jax.tree.leaves(in_numpy(function(scores, *values))), jax.tree.leaves(found["plain"]), strict=True):
        assert np.array_equal(a, b)
    assert np.allclose(found["each"], found["gradient"], atol=1e-13)
    # The Jacobian is symmetric.
    assert np.allclose(found["forward"], found["gradient"], atol=1e-12)
    wanted = np.tensordot(found["reverse"], weights, scores.ndim)
    assert np.allclose(wanted, found["gradient"], atol=1e-12) and not found["hessian"].any()
    assert np.array_equal(found["both"][1], found["half"])
    assert np.allclose(found["nested"], found["reverse"], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name):
    case = CASES[name]
    function, (scores, *values) = function_of(case)
    weights = np.random.default_rng(0).normal(size=scores.shape)
    u, pull = jax.vjp(lambda s: function(s, *values)[0], scores)
    u, gradient = in_numpy((u, pull(jnp.array(weights))[0]))
    for i, scores in enumerate(case.scores):
        own = {key: value[i] if key in case.own else value for key, value in case.additional.items()}
        if case.is_graph:
            result = sklearn_sparsemap.lp_sparsemap(case.what, scores, additional=nested(own), tol=1e-10)
        else:
            result = sklearn_sparsemap.sparsemap(case.what, scores, **own)
        assert np.allclose(u[i], result.marginals, atol=1e-9)
        assert np.allclose(gradient[i], result.vjp(weights[i])["scores"], atol=1e-8)


@pytest.mark.parametrize("name", SOME)
def test_a_padded_batch_is_its_samples_one_by_one(name):
    case = CASES[name]
    what, mask = FUNCTIONS.get(name, case.what), np.zeros(case.scores.shape, bool)
    for i, shape in enumerate(case.shapes):
        mask[(i, *[slice(n) for n in shape])] = True
    function, (scores, *values) = function_of(case, what, lengths=jnp.array(case.lengths))
    scores = jnp.array(np.where(mask, scores, np.nan))
    weights = np.random.default_rng(1).normal(size=scores.shape)

    @jax.jit
    def marginals_gradient(scores):
        u, pull = jax.vjp(lambda s: function(s, *values)[0], scores)
        return u, pull(weights)[0]

    u, gradient = in_numpy(marginals_gradient(scores))
    assert not u[~mask].any() and not gradient[~mask].any()
    for i, shape in enumerate(case.shapes):
        own, additional = case.sample(i)
        if case.is_graph:
            single = lp_sparsemap(what, jnp.array(own)[None], nested(additional))[0]
        else:
            single = sparsemap(what, jnp.array(own), additional=additional)
        assert np.array_equal(single, u[(i, *[slice(n) for n in shape])])


@pytest.mark.parametrize("name", FEW)
def test_single_precision_temperature_and_few_iterations(name):
    case = CASES[name]
    function, (scores, *values) = function_of(case)
    exact = np.asarray(function(scores, *values)[0])
    single, pull = jax.vjp(lambda s: function(s, *values)[0], jnp.array(np.float32(scores)))
    assert single.dtype == np.float32 and np.allclose(single, exact, atol=1e-5)
    assert pull(jnp.array(np.ones(scores.shape, np.float32)))[0].dtype == np.float32
    warm = function_of(case, temperature=0.5)[0](scores, *values)[0]
    doubled = [jnp.array(2.0 * np.asarray(value)) for value in (scores, *values)]
    assert np.array_equal(warm, function(*doubled)[0])
    capped = function_of(case, max_iter=2)[0]
    _, pull = jax.vjp(lambda s: capped(s, *values)[0], scores)
    assert np.isfinite(pull(jnp.array(exact))[0]).all()


def test_solutions_are_kept_for_derivatives(monkeypatch):
    solved, again = [], _functions._as_solved
    monkeypatch.setattr(_functions, "_as_solved", lambda *args: solved.append(1) or again(*args))
    scores = jnp.array(np.random.default_rng(0).normal(size=(3, 4, 4)))
    jax.grad(lambda s: sparsemap(Matching(), s)[:, 0].sum())(scores)
    assert len(solved) == 1
    reverse = jax.jacrev(lambda s: sparsemap(Matching(), s))(scores)
    assert len(solved) == 2
    monkeypatch.setattr(_functions, "recall", lambda *_: None)
    assert jnp.array_equal(jax.jacrev(lambda s: sparsemap(Matching(), s))(scores), reverse) and len(solved) > 2


def test_few_solutions_are_kept(monkeypatch):
    monkeypatch.setattr(_states, "_MOST_BYTES", 1000)
    for seed in range(8):
        scores = jnp.array(np.random.default_rng(seed).normal(size=(2, 4, 4)))
        sparsemap(Matching(), scores)
    assert 1 <= len(_states._states) <= 3


def test_what_is_wrong_is_said_or_nan():
    good = jnp.zeros((2, 3, 3))
    for arguments, options, message in (
        ((LinearChain(), jnp.zeros(3)), {}, "have 2 axes"),
        ((LinearChain(), good), {"transitions": jnp.zeros((2, 2))}, "transitions has shape"),
        ((LinearChain(), good.at[1].set(jnp.nan)), {}, r"scores\[1\] contains nan"),
        ((LinearChain(), good.at[1].set(-jnp.inf)), {}, r"infeasible: scores\[1\]"),
        ((LinearChain(), good), {"lengths": jnp.array([1, 4])}, r"lengths\[1\] is 4"),
        ((LinearChain(), good), {"lengths": jnp.array([1.0, 2.0])}, "must be integers"),
        ((LinearChain(), good), {"lengths": jnp.array([1, 2, 3])}, r"lengths has shape \(3,\); with these"),
        ((Simplex(), jnp.zeros((2, 3), int)), {}, "floating point"),
        ((Simplex(), jnp.zeros((2, 3))), {"temperature": 0.0}, "temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            sparsemap(*arguments, **options)
    with pytest.raises(ValueError, match="no factor takes"):
        lp_sparsemap(CASES["logic"].what, jnp.zeros((2, 3)), {"pairs": jnp.zeros(3)})
    # Callbacks cannot raise: of a traced batch the sample that is wrong is NaN, and no other.
    u = jax.jit(lambda s: sparsemap(LinearChain(), s))(good.at[1].set(jnp.nan))
    assert jnp.isnan(u[1]).all() and jnp.array_equal(u[0], sparsemap(LinearChain(), good)[0])


def test_graphs_of_several_arrays_take_and_give_dicts():
    graph = FactorGraph()
    a, b = graph.variables(3, name="a"), graph.variables((2, 2), name="b")
    graph.add(Xor(a), Xor([a[0], b[0, 0]]))
    rng = np.random.default_rng(0)
    scores = {"a": jnp.array(rng.normal(size=(2, 3))), "b": jnp.array(rng.normal(size=(2, 2, 2)))}
    u = lp_sparsemap(graph, scores)
    single = lp_sparsemap(graph, {name: values[1] for name, values in scores.items()})
    for name in scores:
        assert u[name].shape == scores[name].shape and jnp.array_equal(u[name][1], single[name])


def test_calls_outside_of_jit_compile_once():
    """Each compiled callback stays in memory for as long as the process."""
    events = []
    scores, v = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2, 2))), jnp.ones((3, 2, 2))

    def listen(event, _, **__):
        events.append(event)

    def call():
        u, pull = jax.vjp(lambda s: sparsemap(Matching(), s), scores)
        return u, pull(v)

    call()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in range(3):
            call()
        assert not any("backend_compile" in event for event in events)
        jax.jit(lambda x: x + 1.0)(v)
        assert any("backend_compile" in event for event in events)
    finally:
        jax.monitoring.clear_event_listeners()


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("padded", [False, True])
def test_empty_batches(name, padded):
    case, options = CASES[name], {}
    what = case.what
    if padded:
        what, options["lengths"] = FUNCTIONS.get(name, what), jnp.array(case.lengths[:0])
    function, _ = function_of(case, what, **options)
    scores = jnp.array(case.scores[:0])
    values = [jnp.array(value[:0] if key in case.own else value) for key, value in case.additional.items()]

    def total(scores, *values):
        return sum(part.sum() for part in jax.tree.leaves(function(scores, *values)))

    places, wrap = tuple(range(1 + len(values))), jax.jit if padded else lambda f: f
    u, v = wrap(function)(scores, *values)
    assert u.shape == scores.shape and all(len(part) == 0 for part in jax.tree.leaves(v))
    for gradient, value in zip(wrap(jax.grad(total, places))(scores, *values), (scores, *values), strict=True):
        assert gradient.shape == value.shape and not np.any(np.asarray(gradient))
    assert jax.jvp(lambda s: function(s, *values)[0], [scores], [scores])[1].shape == scores.shape


def test_empty_batches_of_several_arrays():
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(Xor([*u, *v.ravel()]))
    found = lp_sparsemap(graph, {"u": jnp.zeros((0, 2)), "v": jnp.zeros((0, 2, 3))})
    assert found["u"].shape == (0, 2) and found["v"].shape == (0, 2, 3)
    for scores in (jnp.zeros(0), jnp.zeros((2, 0)), jnp.zeros((0, 0))):
        with pytest.raises(ValueError, match="scores is empty"):
            sparsemap(Simplex(), scores)


@pytest.mark.parametrize(
    ("name", "from_function"), [(name, False) for name in SOME] + [("logic", True), ("LP-sequence", True)]
)
def test_masked_batches_are_their_samples_one_by_one(name, from_function):
    batch = masked(name, from_function)
    lengths = None if batch.lengths is None else jnp.array(batch.lengths)
    # Scores of masked parts are not read.
    scores, mask = jnp.array(np.where(batch.mask, batch.scores, np.nan)), jnp.array(batch.mask)
    values = [jnp.array(value) for value in batch.additional.values()]
    weights = np.random.default_rng(0).normal(size=batch.scores.shape)

    def function(scores, mask, *values):
        additional = dict(zip(batch.additional, values))
        if batch.flat.is_graph:
            return lp_sparsemap(batch.what, scores, nested(additional), lengths, mask=mask)
        return sparsemap(batch.what, scores, lengths, mask=mask, additional=additional)

    @jax.jit
    def solved(scores, mask, *values):
        u, pull = jax.vjp(lambda s, *v: function(s, mask, *v), scores, *values)
        return u, pull(weights)

    u, found = in_numpy(solved(scores, mask, *values))
    marginals, gradient, sums, n_solved = masked_twin(name, batch, weights)
    assert n_solved >= 6 and u.shape == batch.scores.shape
    assert np.allclose(u, marginals, atol=1e-8) and np.allclose(found[0], gradient, atol=1e-8)
    for own, key in zip(found[1:], batch.additional, strict=True):
        assert np.allclose(own, sums[key], atol=1e-8)
    empty = [np.unravel_index(i, batch.lead) for i, shape in enumerate(batch.shape_of) if shape is None]
    assert len(empty) + n_solved == 9
    for place in empty:
        assert not u[place].any() and not found[0][place].any()
    if name in FEW:
        masks = jnp.array(np.stack([batch.mask, np.zeros_like(batch.mask)]))
        both = np.asarray(jax.vmap(lambda m: function(scores, m, *values))(masks))
        assert np.array_equal(both[0], u) and not both[1].any()
        whole = jnp.array(np.nan_to_num(scores))
        forward = jax.jvp(lambda s: function(s, mask, *values), [whole], [jnp.array(weights)])[1]
        assert np.allclose(forward, gradient, atol=1e-8)


def test_masks_broadcast_and_wrong_samples_are_named():
    scores = jnp.array(np.random.default_rng(0).normal(size=(2, 3, 4)))
    rows = jnp.array([[True], [False], [True]])
    u, whole = in_numpy((sparsemap(Simplex(), scores, mask=rows), sparsemap(Simplex(), scores)))
    assert not u[:, 1].any() and np.array_equal(u[:, 0], whole[:, 0])
    for mask, message in (
        (jnp.ones((2, 4), bool), r"mask has shape \(2, 4\), which does not broadcast"),
        (jnp.ones(4), "mask must be bool"),
        ({"u": rows}, "they must go together"),
    ):
        with pytest.raises(ValueError, match=message):
            sparsemap(Simplex(), scores, mask=mask)
    trees, mask = jnp.zeros((2, 2, 4, 3)), jnp.ones((2, 2, 4, 3), bool).at[1, 0, :, 2].set(False)
    with pytest.raises(ValueError, match=r"infeasible: scores\[1, 0\]"):
        sparsemap(DependencyTree(), trees, mask=mask)
    traced = jax.jit(lambda s: sparsemap(DependencyTree(), s, mask=mask))(trees)
    assert jnp.isnan(traced[1, 0]).all() and jnp.isfinite(traced[0]).all() and jnp.isfinite(traced[1, 1]).all()
    for shape in ((0, 2, 4), (2, 0, 4)):
        assert sparsemap(Simplex(), jnp.zeros(shape), mask=jnp.ones(4, bool)).shape == shape
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(AtMostOne([*u, *v.ravel()]))
    arrays = {"u": jnp.ones((2, 3, 2)), "v": jnp.ones((2, 3, 2, 3))}
    found = lp_sparsemap(graph, arrays, mask={"v": jnp.zeros((3, 1, 1), bool)})
    assert jnp.allclose(found["u"], 0.5) and not found["v"].any()
    with pytest.raises(ValueError, match="they must go together"):
        lp_sparsemap(graph, arrays, mask=rows)
