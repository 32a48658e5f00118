"""Oracles that misbehave, and models that were edited: errors or an honest certificate, never a crash or a hang."""

import gc
import tracemalloc

import numba
import numpy as np
import pytest

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier, map_inference, sparsemap
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import CustomStructure, LinearChain, Matching


@pytest.mark.parametrize("solver", ["active_set", "cg", "away_step", "pairwise"])
def test_an_oracle_that_changes_its_mind_certifies_nothing(solver):
    calls = []

    def tired(scores):
        calls.append(1)
        return [int(np.argmax(scores))] if len(calls) <= 2 else None

    result = sparsemap(CustomStructure(tired), [1.0, 0.9, 0.8, 0.7], solver=solver)
    assert not result.converged and result.gap == np.inf


def test_an_oracle_that_finds_nothing_while_a_face_is_completed():
    n_refused = 0
    for n in range(4, 24):
        answers = []

        def oracle(scores):
            nonlocal n_refused
            n_refused += len(answers)
            return None if answers else [int(np.argmax(scores))]

        result = sparsemap(CustomStructure(oracle), np.linspace(1.0, 1.001, n))
        answers.append("none")
        gradient = result.vjp(np.arange(float(n)))["scores"]
        assert np.isfinite(gradient).all()
    assert n_refused > 5


def test_probabilities_are_not_negative():
    rng = np.random.default_rng(0)
    for _ in range(100):
        result = sparsemap(Matching(), rng.normal(size=(3, 3)), solver="away_step", tol=1e-12)
        assert (result.marginals >= 0.0).all()


def test_edited_weights_are_checked_when_they_are_used():
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(3, 3, 2)) for _ in range(10)], [rng.permutation(3) for _ in range(10)]
    model = StructuredSparseMAPClassifier("matching", alpha=0.1).fit(X, y)
    for value, message in [(1e308, "the scores of all rows of X"), (np.nan, "is nan")]:
        model.coef_[:] = value
        for method in (model.predict, model.predict_marginals, model.predict_structures):
            with pytest.raises(ValueError, match=message if method != model.predict_structures else "scores"):
                method(X)
    model.coef_[:] = 1.0
    with pytest.raises(ValueError, match="temperature must be a positive"):
        model.set_params(temperature=-1.0).predict_marginals(X)
    with pytest.raises(ValueError, match="temperature must be a positive"):
        model.predict_structures(X)


def test_what_a_custom_structure_is_made_with():
    def oracle(scores, additional):
        return [0], [0] * 10

    def encode(parts):
        return parts, [0] * 10

    for wrong, message in [
        ({"additional": {"a": 3}, "encode": encode}, "must map names to shapes"),
        ({"additional": ["a"], "encode": encode}, "must map names to shapes"),
        ({"additional": {"tol": (1,)}, "encode": encode}, "cannot be named 'tol'"),
        ({"additional": {"a": (1,)}}, "encode must say"),
        ({"n_parts": "a"}, "n_parts must be a positive int"),
        ({"decode": 3}, "decode must be a function"),
    ]:
        with pytest.raises(ValueError, match=message):
            CustomStructure(oracle, **wrong)
    with pytest.raises(ValueError, match="set max_additional_parts"):
        map_inference(CustomStructure(oracle, additional={"a": (1,)}, encode=encode), [1.0], a=[1.0])
    enough = CustomStructure(oracle, additional={"a": (1,)}, encode=encode, max_additional_parts=10)
    assert map_inference(enough, [1.0], a=[1.0]).value == 11.0


def test_a_compiled_oracle_of_the_wrong_kind():
    @numba.njit
    def floats(scores):
        return np.zeros(1)

    with pytest.raises(ValueError, match=r"map_oracle does not compile .* or does not return a 1-D int array"):
        map_inference(CustomStructure(floats), [1.0, 2.0])


def test_shapes_that_do_not_fit():
    rows = np.zeros((6, 2))
    for shapes in ([[-2, -3]], [[2, 2]], [[2.0, 3.0]], [2, 3]):
        with pytest.raises(ValueError, match="shapes"):
            RaggedArray(rows, [0, 6], shapes=shapes)
    X = RaggedArray(rows, [0, 6], shapes=[[2, 3]])
    with pytest.raises(ValueError, match=r"X\[0\]: a sample of a chain has one row for each step"):
        StructuredSparseMAPClassifier(LinearChain(), alpha=1.0).fit(X, [[0, 1] * 3])
    with pytest.raises(ValueError, match="the samples of X have several; name a structure"):
        StructuredSparseMAPClassifier().fit(X, [0])


class OracleError(Exception):
    """What an oracle raises, from its `n_calls`-th call on."""


def failing(n_calls):
    left = [n_calls]

    def oracle(scores):
        left[0] -= 1
        if left[0] <= 0:
            raise OracleError
        return [int(np.argmax(scores))]

    return CustomStructure(oracle), left


@pytest.mark.parametrize("solver", ["active_set", "cg", "away_step", "pairwise"])
def test_an_exception_in_an_oracle_ends_inference_at_once(solver):
    scores, refused = np.linspace(1.0, 1.001, 6), 0
    for n in (1, 2, 3, 4):
        structure, left = failing(n)
        with pytest.raises(OracleError):
            sparsemap(structure, scores, solver=solver)
        # No call after the one that failed.
        assert left[0] == 0
        structure, left = failing(n)
        with pytest.raises(OracleError):
            sparsemap(structure, [scores] * 5, solver=solver, n_jobs=2)
        refused += 1
    structure, left = failing(10**6)
    result = sparsemap(structure, scores, solver="active_set")
    left[0] = 1
    with pytest.raises(OracleError):
        map_inference(structure, scores)
    left[0] = 10**6
    assert map_inference(structure, scores)[1] == 1.001 and result.converged and refused == 4


def test_exceptions_in_oracles_leak_nothing():
    structure, left = failing(0)
    loss = FenchelYoungLoss(structure)
    calls = [
        lambda: map_inference(structure, np.zeros(4)),
        lambda: sparsemap(structure, [np.zeros(4)] * 2),
        lambda: loss.loss_gradient(np.zeros(4), [0]),
    ]
    for call in calls:

        def fail(n):
            for _ in range(n):
                left[0] = 0
                # `pytest.raises` takes longer than all else here.
                try:
                    call()
                except OracleError:
                    continue
                raise AssertionError("the error of the oracle was lost")
            gc.collect()

        fail(20)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        fail(400)
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        # It was 1.3 kB for each, and more that is not traced.
        assert grown < 500 * 400
