"""The result of a sample does not depend on the number of samples in its batch: it is that alone, or refused."""

import numpy as np
import pytest
from layer_cases import all_cases, nested

import sklearn_sparsemap
from sklearn_sparsemap.factors import FactorGraph, Pair, PairTable
from sklearn_sparsemap.structures import LinearChain, Segmentation, SequenceBudget

torch = pytest.importorskip("torch")

import sklearn_sparsemap.torch as layers  # noqa: E402


def pairs(shape):
    graph = FactorGraph()
    u = graph.variables((*shape, 2))
    graph.add(Pair(u[..., 0], u[..., 1], name="x"))
    return graph


def tables(tied=False):
    graph = FactorGraph()
    u = graph.categorical(4, 2)
    graph.add(PairTable(u[:-1], u[1:], name="x", tied=tied))
    return graph


def problems():
    """Return what is solved, the shape of scores, and the name and shapes of additional scores of one sample."""
    yield pairs((4,)), (4, 2), "x", [(4,), ()]
    yield pairs((2, 3)), (2, 3, 2), "x", [(2, 3), ()]
    yield tables(), (4, 2), "x", [(3, 2, 2), (2, 2)]
    yield tables(True), (4, 2), "x", [(2, 2)]
    for structure in (LinearChain(), SequenceBudget(2)):
        yield structure, (4, 2), "transitions", [(3, 2, 2), (2, 2)]
        yield structure, (3, 2), "start", [(2,)]
    yield Segmentation(2), (4, 2), "transitions", [(2, 2)]


def call(what, scores, name, value):
    """Solve by a layer of PyTorch."""
    if isinstance(what, FactorGraph):
        return layers.lp_sparsemap(what, scores, {name: value})
    return layers.sparsemap(what, scores, additional={name: value})


def test_each_sample_has_its_result_alone_or_the_call_is_refused():
    rng, refused, compared = np.random.default_rng(0), set(), 0
    for number, (what, shape, name, own_shapes) in enumerate(problems()):
        for own in own_shapes:
            whole = max(own_shapes, key=len)
            ones = (1,) * (len(whole) - len(own))
            for n in range(1, 7):
                scores = rng.normal(size=(n, *shape))
                shared, each = rng.normal(size=own), rng.normal(size=(n, *own))
                # Each form with the additional scores of a sample alone, and whether it must be accepted.
                forms = [
                    ("shared", shared, [shared] * n, False),
                    ("each", each, each, False),
                    ("one axis", shared[None], [shared] * n, len(own) == len(whole)),
                    ("ones", each.reshape(n, *ones, *own), each, True),
                ]
                for form, value, alone, must in forms:
                    try:
                        found = call(what, torch.tensor(scores), name, torch.tensor(value))
                    except ValueError as error:
                        assert not must and ("two ways" in str(error) or "must have" in str(error))
                        if "two ways" in str(error):
                            refused.add((number, form, len(own), n))
                        continue
                    for i in range(n):
                        single = call(what, torch.tensor(scores[i]), name, torch.tensor(alone[i]))
                        assert torch.allclose(found[i], single, atol=1e-9)
                    compared += n
    assert compared > 500
    # Refusal does not depend on the number of samples, except that of one, whose axis of size 1 is shared.
    kinds = {key[:3] for key in refused}
    assert len(kinds) >= 8
    for kind in kinds:
        assert {n for *key, n in refused if tuple(key) == kind} >= {2, 3, 4, 5, 6}


@pytest.mark.parametrize("name", all_cases())
def test_cases_of_layers_have_the_results_of_each_sample_alone(name):
    case = all_cases()[name]
    values = [torch.tensor(value) for value in case.additional.values()]
    for n in range(1, 7):
        some = np.arange(n) % 3
        scores = torch.tensor(case.scores[some])
        given = {key: v[some] if key in case.own else v for key, v in zip(case.additional, values, strict=True)}
        alone = [{key: v[i] if key in case.own else v for key, v in given.items()} for i in range(n)]
        if case.is_graph:
            found = layers.lp_sparsemap(case.what, scores, nested(given))
            singles = [layers.lp_sparsemap(case.what, scores[i], nested(alone[i])) for i in range(n)]
        else:
            found = layers.sparsemap(case.what, scores, additional=given)
            singles = [layers.sparsemap(case.what, scores[i], additional=alone[i]) for i in range(n)]
        assert torch.allclose(found, torch.stack(singles), atol=1e-9)


def test_messages_say_how_to_write_both_readings():
    graph, z = pairs((4,)), torch.zeros(4, 4, 2)
    with pytest.raises(ValueError, match=r"two ways.*\(4,\) that all.*\(1, 4\).*of each sample.*\(4, 1\)"):
        layers.lp_sparsemap(graph, z, {"x": torch.zeros(4)})
    with pytest.raises(ValueError, match=r"pass shape \(1, 3, 2, 2\): transitions\[None\].*pass shape \(3, 1, 2, 2\)"):
        layers.sparsemap(LinearChain(), torch.zeros(3, 4, 2), transitions=torch.zeros(3, 2, 2))
    jax = pytest.importorskip("jax")
    import sklearn_sparsemap.jax as in_jax

    with pytest.raises(ValueError, match="two ways"):
        in_jax.sparsemap(LinearChain(), jax.numpy.zeros((3, 4, 2)), transitions=jax.numpy.zeros((3, 2, 2)))


@pytest.mark.parametrize("function", [sklearn_sparsemap.sparsemap, sklearn_sparsemap.map_inference])
def test_lists_of_samples_in_numpy(function):
    rng = np.random.default_rng(0)
    for n in range(1, 7):
        scores, shared, each = rng.normal(size=(n, 4, 2)), rng.normal(size=(3, 2, 2)), rng.normal(size=(n, 2, 2))
        for value in (shared, shared.tolist(), each, each.tolist()):
            with pytest.raises(ValueError, match=r"two ways.*\[transitions\] \* .*a list of arrays"):
                function(LinearChain(), list(scores), transitions=value)
        for value in ([shared] * n, list(each), np.stack([shared] * n)):
            found = function(LinearChain(), list(scores), transitions=value)
            for i in range(n):
                alone = function(LinearChain(), scores[i], transitions=value[i])
                own, expected = (getattr(r, "marginals", None) for r in (found[i], alone))
                if own is None:
                    own, expected = found[i][0], alone[0]
                np.testing.assert_allclose(own, expected, atol=1e-9)
