"""Layers in JAX: derivatives, transforms, padded batches."""

import numpy as np
import pytest
from layer_cases import FUNCTIONS, all_cases, masked, masked_twin, nested

import sklearn_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, Xor
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402

# Programs run once, so that most of the time is XLA's for making them fast.
jax.config.update("jax_disable_most_optimizations", True)

from internals import jax_states as _states  # noqa: E402
from internals import replace  # noqa: E402

from sklearn_sparsemap.jax import lp_sparsemap, map_inference, sparsemap  # noqa: E402

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


def marginals_and_gradient(function):
    """Return a program that finds the marginals, and the gradient of their sum, multiplied by weights."""

    @jax.jit
    def program(scores, weights, *values):
        u, pull = jax.vjp(lambda s: function(s, *values)[0], scores)
        return u, pull(weights)[0]

    return program


@pytest.mark.parametrize("name", SOME)
def test_derivatives_and_transforms_agree(name):
    case, rng = CASES[name], np.random.default_rng(0)
    function, (scores, *values) = function_of(case)
    inputs = scores, *values
    axes = (0, 0, *(0 if key in case.own else None for key in case.additional))
    two = jnp.array(np.stack([scores, 0.5 * np.asarray(scores)], -1))
    directions = tuple(rng.normal(size=value.shape) for value in inputs)
    weights, rest = jax.tree.map(lambda out: rng.normal(size=out.shape), jax.eval_shape(function, *inputs))

    def loss(scores, weights, *values):
        return (function(scores, *values)[0] * weights).sum()

    def slopes(*inputs):
        return jax.vjp(function, *inputs)[1]((weights, rest))

    def slope(*inputs):
        return jax.jvp(function, inputs, directions)[1]

    def transformed(*inputs):
        # Compiled as one program, which is sooner done than many.
        scores, *values = inputs
        alone = lambda s: function(s, *values)[0]  # noqa: E731
        return {
            "plain": function(*inputs),
            "slopes": slopes(*inputs),
            "slope": slope(*inputs),
            "zeros": [jax.jvp(slope, inputs, directions)[1], jax.jvp(slopes, inputs, directions)[1],
                      jax.vjp(slope, *inputs)[1]((weights, rest)), jax.vjp(slopes, *inputs)[1](directions)],
            "gradient": jax.grad(loss)(scores, weights, *values),
            "each": jax.vmap(jax.grad(loss), axes)(scores, weights, *values),
            "forward": jax.jvp(alone, [scores], [weights])[1],
            "reverse": jax.jacrev(alone)(scores),
            "both": jax.vmap(alone, -1)(two),
            "half": function(0.5 * scores, *values)[0],
            "nested": jax.vmap(jax.jacfwd(alone), -1)(two)[0],
        }  # fmt: skip

    program = jax.jit(transformed)
    found = in_numpy(program(*inputs))
    for a, b in zip(jax.tree.leaves(in_numpy(function(*inputs))), jax.tree.leaves(found["plain"]), strict=True):
        assert np.array_equal(a, b)
    # The derivatives are those of finite differences, and piecewise constant.
    ahead, behind = (
        in_numpy(program(*[np.asarray(value) + step * own for value, own in zip(inputs, directions)])["plain"])
        for step in (1e-4, -1e-4)
    )
    total = 0.0
    for a, b, own, weight in zip(*map(jax.tree.leaves, (ahead, behind, found["slope"], (weights, rest))), strict=True):
        np.testing.assert_allclose((a - b) / 2e-4, own, atol=1e-6, rtol=1e-6)
        total += (own * weight).sum()
    backward = sum((own * direction).sum() for own, direction in zip(found["slopes"], directions, strict=True))
    np.testing.assert_allclose(backward, total, rtol=1e-9)
    assert not any(part.any() for part in jax.tree.leaves(found["zeros"]))
    assert np.allclose(found["each"], found["gradient"], atol=1e-13)
    # The Jacobian is symmetric.
    assert np.allclose(found["forward"], found["gradient"], atol=1e-12)
    wanted = np.tensordot(found["reverse"], weights, scores.ndim)
    assert np.allclose(wanted, found["gradient"], atol=1e-12)
    assert np.array_equal(found["both"][1], found["half"])
    assert np.allclose(found["nested"], found["reverse"], atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name):
    case = CASES[name]
    function, (scores, *values) = function_of(case)
    weights = np.random.default_rng(0).normal(size=scores.shape)
    u, gradient = in_numpy(marginals_and_gradient(function)(scores, weights, *values))
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
    u, gradient = in_numpy(marginals_and_gradient(function)(scores, weights, *values))
    assert not u[~mask].any() and not gradient[~mask].any()

    def alone(own, additional):
        if case.is_graph:
            return lp_sparsemap(what, own[None], nested(additional))[0]
        return sparsemap(what, own, additional=additional)

    samples = [case.sample(i) for i in range(len(case.shapes))]
    singles = jax.jit(lambda samples: [alone(*sample) for sample in samples])(samples)
    for i, (single, shape) in enumerate(zip(singles, case.shapes, strict=True)):
        assert np.array_equal(single, u[(i, *[slice(n) for n in shape])])


@pytest.mark.parametrize("name", FEW)
def test_single_precision_temperature_and_few_iterations(name):
    case = CASES[name]
    function, inputs = function_of(case)
    warm, capped = (function_of(case, **options)[0] for options in ({"temperature": 0.5}, {"max_iter": 2}))

    @jax.jit
    def program(scores, *values):
        exact, doubled = (function(*[factor * value for value in (scores, *values)])[0] for factor in (1.0, 2.0))
        single, pull = jax.vjp(lambda s: function(s, *values)[0], scores.astype(np.float32))
        slope = jax.vjp(lambda s: capped(s, *values)[0], scores)[1](exact)[0]
        return exact, doubled, warm(scores, *values)[0], single, pull(jnp.ones_like(single))[0], slope

    exact, doubled, warmed, single, gradient, slope = in_numpy(program(*inputs))
    assert single.dtype == gradient.dtype == np.float32 and np.allclose(single, exact, atol=1e-5)
    assert np.array_equal(warmed, doubled) and np.isfinite(slope).all()


def test_solutions_are_kept_for_derivatives(monkeypatch):
    solved = []
    again = replace(monkeypatch, "jax", "_as_solved", lambda *args: solved.append(1) or again(*args))
    scores = jnp.array(np.random.default_rng(0).normal(size=(3, 4, 4)))
    jax.grad(lambda s: sparsemap(Matching(), s)[:, 0].sum())(scores)
    assert len(solved) == 1
    jacobian = jax.jit(jax.jacrev(lambda s: sparsemap(Matching(), s)))
    reverse = np.asarray(jacobian(scores))
    assert len(solved) == 2
    replace(monkeypatch, "jax", "recall", lambda *_: None)
    assert np.array_equal(jacobian(scores), reverse) and len(solved) > 2


def test_few_solutions_are_kept(monkeypatch):
    replace(monkeypatch, "jax", "_MAX_BYTES", 1000)
    for seed in range(8):
        scores = jnp.array(np.random.default_rng(seed).normal(size=(2, 4, 4)))
        sparsemap(Matching(), scores)
    assert 1 <= len(_states._states) <= 3


def test_what_is_wrong_is_said_or_nan():
    good = np.zeros((2, 3, 3))
    unknown, forbidden = good.copy(), good.copy()
    unknown[1], forbidden[1] = np.nan, -np.inf
    for arguments, options, message in (
        ((LinearChain(), np.zeros(3)), {}, "have 2 axes"),
        ((LinearChain(), good), {"transitions": np.zeros((2, 2))}, "transitions has shape"),
        ((LinearChain(), unknown), {}, r"scores\[1\] contains nan"),
        ((LinearChain(), forbidden), {}, r"infeasible: scores\[1\]"),
        ((LinearChain(), good), {"lengths": np.array([1, 4])}, r"lengths\[1\] is 4"),
        ((LinearChain(), good), {"lengths": np.array([1.0, 2.0])}, "must be integers"),
        ((LinearChain(), good), {"lengths": np.array([1, 2, 3])}, r"lengths has shape \(3,\); with these"),
        ((Simplex(), np.zeros((2, 3), int)), {}, "floating point"),
        ((Simplex(), np.zeros((2, 3))), {"temperature": 0.0}, "temperature"),
    ):
        with pytest.raises(ValueError, match=message):
            sparsemap(arguments[0], jnp.array(arguments[1]), **options)
    with pytest.raises(ValueError, match="no factor takes"):
        lp_sparsemap(CASES["logic"].what, jnp.array(np.zeros((2, 3))), {"pairs": np.zeros(3)})
    # Callbacks cannot raise: of a traced batch the sample that is wrong is NaN, and no other.
    program = jax.jit(lambda s: sparsemap(LinearChain(), s))
    u, whole = in_numpy([program(scores) for scores in (unknown, good)])
    assert np.isnan(u[1]).all() and np.array_equal(u[0], whole[0])


def test_graphs_of_several_arrays_take_and_give_dicts():
    graph = FactorGraph()
    a, b = graph.variables(3, name="a"), graph.variables((2, 2), name="b")
    graph.add(Xor(a), Xor([a[0], b[0, 0]]))
    rng = np.random.default_rng(0)
    scores = {"a": jnp.array(rng.normal(size=(2, 3))), "b": jnp.array(rng.normal(size=(2, 2, 2)))}
    one = {name: values[1] for name, values in scores.items()}
    u, single = in_numpy(jax.jit(lambda *given: [lp_sparsemap(graph, own) for own in given])(scores, one))
    for name in scores:
        assert u[name].shape == scores[name].shape and np.array_equal(u[name][1], single[name])


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

    def found(*inputs):
        u, tangent = jax.jvp(lambda s: function(s, *inputs[1:])[0], inputs[:1], inputs[:1])
        return *function(*inputs), u, tangent, jax.grad(total, tuple(range(len(inputs))))(*inputs)

    # One of them operation by operation.
    wrap = (lambda f: f) if name == "custom" and not padded else jax.jit
    u, v, again, tangent, gradients = wrap(found)(scores, *values)
    assert u.shape == again.shape == tangent.shape == scores.shape
    assert all(len(part) == 0 for part in jax.tree.leaves(v))
    for gradient, value in zip(gradients, (scores, *values), strict=True):
        assert gradient.shape == value.shape and not np.any(np.asarray(gradient))


def test_empty_batches_of_several_arrays():
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(Xor([*u, *v.ravel()]))
    found = lp_sparsemap(graph, {"u": jnp.array(np.zeros((0, 2))), "v": jnp.array(np.zeros((0, 2, 3)))})
    assert found["u"].shape == (0, 2) and found["v"].shape == (0, 2, 3)
    for shape in (0, (2, 0), (0, 0)):
        with pytest.raises(ValueError, match="scores is empty"):
            sparsemap(Simplex(), jnp.array(np.zeros(shape)))


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
        both = jax.vmap(lambda m: function(scores, m, *values))(jnp.stack([mask, jnp.zeros_like(mask)]))
        whole = jnp.nan_to_num(scores)
        return u, pull(weights), both, jax.jvp(lambda s: function(s, mask, *values), [whole], [weights])[1]

    u, found, both, forward = in_numpy(solved(scores, mask, *values))
    marginals, gradient, sums, n_solved = masked_twin(name, batch, weights)
    assert n_solved >= 6 and u.shape == batch.scores.shape
    assert np.allclose(u, marginals, atol=1e-8) and np.allclose(found[0], gradient, atol=1e-8)
    for own, key in zip(found[1:], batch.additional, strict=True):
        assert np.allclose(own, sums[key], atol=1e-8)
    empty = [np.unravel_index(i, batch.lead) for i, shape in enumerate(batch.shape_of) if shape is None]
    assert len(empty) + n_solved == 9
    for place in empty:
        assert not u[place].any() and not found[0][place].any()
    assert np.array_equal(both[0], u) and not both[1].any()
    assert np.allclose(forward, gradient, atol=1e-8)


def test_masks_broadcast_and_wrong_samples_are_named():
    scores = jnp.array(np.random.default_rng(0).normal(size=(2, 3, 4)))
    rows = np.array([[True], [False], [True]])
    u, whole = in_numpy(jax.jit(lambda s: [sparsemap(Simplex(), s, mask=mask) for mask in (rows, None)])(scores))
    assert not u[:, 1].any() and np.array_equal(u[:, 0], whole[:, 0])
    for mask, message in (
        (np.ones((2, 4), bool), r"mask has shape \(2, 4\), which does not broadcast"),
        (np.ones(4), "mask must be bool"),
        ({"u": rows}, "they must go together"),
    ):
        with pytest.raises(ValueError, match=message):
            sparsemap(Simplex(), scores, mask=mask)
    trees, mask = jnp.array(np.zeros((2, 2, 4, 3))), np.ones((2, 2, 4, 3), bool)
    mask[1, 0, :, 2] = False
    with pytest.raises(ValueError, match=r"infeasible: scores\[1, 0\]"):
        sparsemap(DependencyTree(), trees, mask=mask)
    traced = np.asarray(jax.jit(lambda s: sparsemap(DependencyTree(), s, mask=mask))(trees))
    assert np.isnan(traced[1, 0]).all() and np.isfinite(traced[0]).all() and np.isfinite(traced[1, 1]).all()
    for shape in ((0, 2, 4), (2, 0, 4)):
        assert sparsemap(Simplex(), jnp.array(np.zeros(shape)), mask=np.ones(4, bool)).shape == shape
    graph = FactorGraph()
    u, v = graph.variables(2, name="u"), graph.variables((2, 3), name="v")
    graph.add(AtMostOne([*u, *v.ravel()]))
    arrays = {"u": jnp.array(np.ones((2, 3, 2))), "v": jnp.array(np.ones((2, 3, 2, 3)))}
    mask = {"v": np.zeros((3, 1, 1), bool)}
    found = in_numpy(jax.jit(lambda given: lp_sparsemap(graph, given, mask=mask))(arrays))
    assert np.allclose(found["u"], 0.5) and not found["v"].any()
    with pytest.raises(ValueError, match="they must go together"):
        lp_sparsemap(graph, arrays, mask=rows)


@pytest.mark.parametrize("function", [sparsemap, map_inference])
def test_additional_scores_that_are_given_twice_are_refused(function):
    scores = jnp.zeros((2, 2))
    with pytest.raises(ValueError, match="transitions is given both as a keyword and in additional"):
        function(LinearChain(), scores, additional={"transitions": scores}, transitions=scores)
