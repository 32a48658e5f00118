"""MAP oracles against enumeration; structures as parts and back."""

import pickle

import naive
import numpy as np
import pytest
from registry import RANDOM

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.structures import LinearChain, Simplex


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("options", [{}, {"ties": True}, {"forbid": True}, {"scale": 1e8}], ids=str)
def test_map_is_the_best_of_all(kind, options):
    rng = np.random.default_rng(0)
    for _ in range(100):
        instance = RANDOM[kind](rng, **options)
        structures, _, theta = instance.enumerate()
        found, value = map_inference(instance.structure, instance.scores, **instance.additional)
        best = theta.max()
        assert value == pytest.approx(best, rel=1e-12, abs=1e-12), instance
        # The structure itself, not only its value, must be a best one.
        as_listed = tuple(found) if np.ndim(found) else found
        assert theta[structures.index(as_listed)] == pytest.approx(best, rel=1e-12, abs=1e-12), instance


@pytest.mark.parametrize("kind", RANDOM)
def test_encode_and_decode_are_inverse_and_agree_with_scores(kind):
    rng = np.random.default_rng(1)
    for _ in range(50):
        instance = RANDOM[kind](rng)
        structure = instance.structure
        given = {name: a.shape for name, a in instance.additional.items()}
        dims = structure.dims(instance.scores.shape, given)
        flat = np.concatenate([np.zeros(0)] + [instance.additional[n].ravel() for n in given])
        structures, M, theta = instance.enumerate()
        p = rng.integers(len(structures))
        slots, additional_slots = structure.encode(np.array(structures[p]), dims)
        assert (len(slots), len(additional_slots)) == tuple(structure.sizes(dims)[:2])
        assert np.array_equal(structure.decode(slots, np.array(dims)), structures[p])
        assert np.array_equal(np.flatnonzero(M[:, p]), np.sort(slots[slots >= 0]))
        total = instance.scores.ravel()[slots[slots >= 0]].sum() + flat[additional_slots[additional_slots >= 0]].sum()
        assert total == pytest.approx(theta[p])


def test_a_path_is_checked_when_encoded():
    chain = LinearChain()
    dims = chain.dims((3, 2), {})
    for wrong in ([0, 1], [0, 1, 2], [0, -1, 0], [0.0, 1.0, 1.0], 0):
        with pytest.raises(ValueError, match="a path is 3 ints from 0 to 1"):
            chain.encode(wrong, dims)
    with pytest.raises(ValueError, match="a choice is an int from 0 to 3"):
        Simplex().encode(4, (4,))


def test_single_step_uses_start_and_end_whatever_transitions_are_given():
    scores, start, end = np.array([[0.0, 1.0]]), np.array([3.0, 0.0]), np.array([0.0, 1.0])
    for transitions in (np.full((2, 2), 7.0), np.zeros((0, 2, 2))):
        found, value = map_inference(LinearChain(), scores, transitions=transitions, start=start, end=end)
        assert found.tolist() == [0]
        assert value == naive.chain_score([0], scores, transitions, start, end) == 3.0


def test_structures_are_values():
    assert Simplex() == Simplex() != LinearChain()
    assert len({Simplex(), Simplex(), LinearChain()}) == 2
    assert repr(LinearChain()) == "LinearChain()"
    assert pickle.loads(pickle.dumps(LinearChain())) == LinearChain()
