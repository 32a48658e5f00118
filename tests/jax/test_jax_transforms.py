"""Transforms of JAX: all layers against finite differences, the table of doc/layers.rst, invalid samples, memory."""

import numpy as np
import pytest
from transform_cases import LAYERS, TRANSFORMS, WEIGHTS, compiled_layers, expected, links, table

from sklearn_sparsemap.factors import FactorGraph
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

jax = pytest.importorskip("jax")

import jax.numpy as jnp  # noqa: E402
from internals import jax_states as _states  # noqa: E402
from internals import layers_register as register  # noqa: E402
from internals import replace  # noqa: E402

from sklearn_sparsemap.jax import lp_sparsemap, sparsemap  # noqa: E402


@pytest.fixture(autouse=True)
def _double():
    # For all threads, those of callbacks too.
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def layer_of(name):
    what, additional, _ = LAYERS[name]
    if isinstance(what, FactorGraph):
        return lambda scores: lp_sparsemap(what, scores)
    return lambda scores: sparsemap(what, scores, **additional)


def transforms_of(w):
    """Return functions of a layer by the names of transforms, for weights of the marginals."""
    return {
        "grad": lambda f: jax.grad(lambda a: (f(a) * w).sum()),
        "vjp": lambda f: lambda a: jax.vjp(f, a)[1](w)[0],
        "jvp": lambda f: lambda a: jax.jvp(f, (a,), (w,))[1],
        "jacrev": jax.jacrev,
        "jacfwd": jax.jacfwd,
        "hessian": lambda f: jax.hessian(lambda a: (f(a) ** 2 * w).sum()),
        "vmap": jax.vmap,
        "vmap of grad": lambda f: lambda a: jax.vmap(jax.grad(lambda own, v: (f(own) * v).sum()))(a, w),
    }


def over_samples(f):
    """Return a layer that takes both samples, or one, by a loop."""
    return lambda a: jax.lax.scan(lambda _, own: (None, f(own)), None, jnp.stack([a, a]))[1][1]


PLACES = {
    "eager": lambda transform, f: transform(f),
    "jit inside": lambda transform, f: transform(jax.jit(f)),
    "jit outside": lambda transform, f: jax.jit(transform(f)),
    "scan": lambda transform, f: jax.jit(transform(over_samples(f))),
    "pmap": lambda transform, f: transform(lambda a: jax.pmap(f)(a[None])[0]),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_table_of_transforms_is_true(transform, request):
    with_compiler = compiled_layers(transform, request.config)
    found = {place: set() for place in PLACES}
    for name, (_, _, scores) in LAYERS.items():
        wanted, own = expected(name)[transform], transforms_of(WEIGHTS[name])[transform]
        for place, of in PLACES.items():
            if place != "eager" and name not in with_compiler:
                continue
            try:
                value = np.asarray(of(own, layer_of(name))(jnp.asarray(scores)))
            except Exception as error:
                found[place].add(type(error).__name__)
            else:
                found[place].add("right" if np.allclose(value, wanted, atol=1e-7) else "wrong")
    assert {place: " or ".join(sorted(cells)) for place, cells in found.items()} == table("JAX")[transform]


def test_second_derivatives_of_scans_are_forward_over_forward():
    scores, w = jnp.asarray(LAYERS["Simplex"][2]), WEIGHTS["Simplex"]

    def loss(a):
        return (over_samples(layer_of("Simplex"))(a) ** 2 * w).sum()

    assert np.allclose(jax.jacfwd(jax.jacfwd(loss))(scores), expected("Simplex")["hessian"], atol=1e-7)


# Structures, and the shape of a sample's scores; NaN, infeasible scores and lengths out of range.
SHAPES = [
    (Simplex(), (4,)),
    (Subset(1, 2), (4,)),
    (LinearChain(), (3, 2)),
    (DependencyTree(), (4, 3)),
    (Matching(), (2, 3)),
    (links(), (2, 3)),
]


@pytest.mark.parametrize(("what", "shape"), SHAPES, ids=repr)
@pytest.mark.parametrize("wrong", ["nan", "infeasible", "length"])
def test_invalid_samples_have_derivatives_of_their_own_only(what, shape, wrong):
    is_graph = isinstance(what, FactorGraph)
    if is_graph and wrong == "length":
        return
    rng = np.random.default_rng(0)
    scores, w = 0.3 * rng.normal(size=(4, *shape)), rng.normal(size=(4, *shape))
    bad = scores.copy()
    if wrong != "length":
        bad[1] = np.nan if wrong == "nan" else -np.inf
    n = shape[-1] if what == DependencyTree() else shape[0]
    lengths = np.full(4, n)
    if wrong == "length":
        lengths[1] = n + 1
    if what == Matching():
        lengths = np.stack([lengths, np.full(4, 3)], axis=1)
    valid = np.array([0, 2, 3])

    def layer(a, rows=None):
        if is_graph:
            return lp_sparsemap(what, a)
        return sparsemap(what, a, lengths if rows is None else rows)

    def loss(a, own):
        return (layer(a) * own).sum()

    u = np.asarray(jax.jit(layer)(bad))
    right = np.asarray(layer(scores[valid], lengths[valid]))
    assert np.isnan(u[1]).any() and np.array_equal(u[valid], right)
    gradient = np.asarray(jax.jit(jax.grad(lambda a: (layer(a, lengths[valid]) * w[valid]).sum()))(scores[valid]))
    assert np.abs(gradient).max() > 0.01
    masked = w * (np.arange(4) != 1).reshape(4, *[1] * len(shape))
    for weights, wanted in ((w, np.isnan), (masked, lambda own: own == 0.0)):
        found = np.asarray(jax.jit(jax.grad(loss))(bad, weights))
        assert np.allclose(found[valid], gradient, atol=1e-12) and wanted(found[1]).any()
        assert not np.isinf(found).any()
        tangents = np.asarray(jax.jit(lambda a, v: jax.jvp(layer, (a,), (v,))[1])(bad, weights))
        assert np.allclose(tangents[valid], gradient, atol=1e-12) and wanted(tangents[1]).any()
    if wrong != "length":

        def loss_of_sample(a, own):
            return ((lp_sparsemap(what, a) if is_graph else sparsemap(what, a)) * own).sum()

        found = np.asarray(jax.jit(jax.vmap(jax.grad(loss_of_sample)))(bad, w))
        assert np.allclose(found[valid], gradient, atol=1e-12) and np.isnan(found[1]).any()


def test_shared_scores_have_the_gradient_of_the_valid_samples():
    rng = np.random.default_rng(1)
    scores, transitions = 0.3 * rng.normal(size=(4, 3, 2)), 0.3 * rng.normal(size=(2, 2))
    bad = scores.copy()
    bad[1], bad[2, 0] = np.nan, -np.inf
    ok, w = np.array([True, False, False, True]), rng.normal(size=(4, 3, 2))

    def loss(t, a, keep):
        u = sparsemap(LinearChain(), a, transitions=t)
        return (jnp.where(keep[:, None, None], u, 0.0) * w[: len(a)]).sum()

    wanted = np.asarray(jax.grad(loss)(transitions, scores, ok))
    assert np.abs(wanted).max() > 0.01
    for function in (jax.jit(jax.grad(loss)), jax.jit(jax.jacrev(loss))):
        assert np.allclose(function(transitions, bad, ok), wanted, atol=1e-12)
    assert np.isnan(jax.jit(jax.grad(loss))(transitions, bad, np.ones(4, bool))).all()
    # The solution is computed again.
    _states._states.clear()
    _, pull = jax.vjp(jax.jit(lambda t: sparsemap(LinearChain(), bad, transitions=t)), transitions)
    _states._states.clear()
    assert np.allclose(pull(jnp.asarray(np.where(ok[:, None, None], w, 0.0)))[0], wanted, atol=1e-12)


def test_temperatures_are_traced():
    scores = jnp.asarray(0.3 * np.random.default_rng(0).normal(size=(3, 4)))

    def loss(t):
        return (sparsemap(Simplex(), scores, temperature=t) ** 2).sum()

    values = [float(loss(0.7 + step)) for step in (1e-6, -1e-6)]
    for function in (jax.grad(loss), jax.jit(jax.grad(loss))):
        assert float(function(0.7)) == pytest.approx((values[0] - values[1]) / 2e-6, abs=1e-6)
    assert np.isnan(jax.jit(loss)(-0.7))
    for wrong, message in ((jnp.array(-0.7), "must be positive"), (jnp.ones(3), "divide all scores")):
        with pytest.raises(ValueError, match=message):
            loss(wrong)


def test_graphs_made_in_each_call_compile_and_keep_nothing(monkeypatch):
    events, scores = [], jnp.zeros((2, 3))
    replace(monkeypatch, "_layers", "_MOST", 8)
    replace(monkeypatch, "jax", "_MOST", 4)

    def listen(event, _, **__):
        events.append(event)

    pull = jax.vjp(lambda s: lp_sparsemap(links(), s), scores)[1]
    wanted = pull(jnp.eye(2, 3))
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for _ in range(12):
            found = jax.vjp(lambda s: lp_sparsemap(links(), s), scores)[1](jnp.eye(2, 3))
        assert not any("backend_compile" in event for event in events)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert np.allclose(found, wanted) and len(register._recent) <= 8 and len(_states._states) <= 4


def test_an_operator_in_use_is_kept(monkeypatch):
    replace(monkeypatch, "_layers", "_MOST", 3)
    graph = links()
    program = jax.jit(lambda s: lp_sparsemap(graph, s))
    wanted = program(jnp.zeros((2, 3)))
    for _ in range(6):
        lp_sparsemap(links(), jnp.zeros((2, 3)))
        assert np.array_equal(program(jnp.zeros((2, 3))), wanted)
