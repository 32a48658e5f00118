"""The k best structures, by enumeration."""

import numpy as np
import pytest
from registry import RANDOM

from sklearn_sparsemap import map_inference, n_best
from sklearn_sparsemap.factors import FactorGraph
from sklearn_sparsemap.structures import LinearChain, Subset


def as_key(structure):
    return tuple(np.ravel(structure).tolist())


@pytest.mark.parametrize("name", RANDOM)
def test_n_best_is_that_of_all_structures(name):
    rng, counted = np.random.default_rng(0), 0
    n = 120 if name in ("simplex", "chain", "tree", "matching", "subset") else 30
    for i in range(n):
        instance = RANDOM[name](rng, ties=i % 3 == 0, forbid=i % 2 == 0, scale=(0.1, 1.0, 30.0)[i % 3])
        structures, _, theta = instance.enumerate()
        allowed = theta > -np.inf
        k = int(rng.integers(1, 9))
        found = n_best(instance.structure, instance.scores, k, **instance.additional)
        expected = np.sort(theta[allowed])[::-1][:k]
        np.testing.assert_allclose([value for _, value in found], expected, rtol=1e-9, atol=1e-9)
        value_of = {as_key(s): v for s, v in zip(structures, theta, strict=True)}
        assert len({as_key(s) for s, _ in found}) == len(found)
        for structure, value in found:
            assert value_of[as_key(structure)] == pytest.approx(value, rel=1e-9, abs=1e-9)
            counted += 1
    assert counted > 1.2 * n


def test_n_best_of_many_samples_and_long_chains():
    rng = np.random.default_rng(0)
    scores = [rng.normal(size=(n, 4)) for n in (3, 60)]
    T = rng.normal(size=(4, 4))
    found = n_best(LinearChain(), scores, 20, transitions=T)
    for own, best in zip(scores, found, strict=True):
        values = [value for _, value in best]
        assert values == sorted(values, reverse=True) and len(values) == 20
        assert values[0] == pytest.approx(map_inference(LinearChain(), own, transitions=T).value)


def test_what_is_refused():
    with pytest.raises(ValueError, match="k must be a positive int"):
        n_best(Subset(), [1.0], 0)
    with pytest.raises(ValueError, match=r"infeasible: scores\[1\]"):
        n_best(LinearChain(), [[[0.0]], [[-np.inf]]], 2)
    with pytest.raises(ValueError, match="infeasible: scores "):
        n_best(Subset(1), [-np.inf], 2)
    with pytest.raises(ValueError, match="n_best is for structures"):
        n_best(FactorGraph(), [1.0], 2)
