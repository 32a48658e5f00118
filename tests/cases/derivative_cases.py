"""Derivatives of SparseMAP against finite differences, for structures that are drawn at random."""

import numpy as np

from sklearn_sparsemap import sparsemap


def compare_derivatives(draw, n, rng):
    """Compare `vjp` with differences for n instances; return how many of several structures were compared.

    `draw(rng)` returns an instance with a structure and its scores.
    """
    compared = 0
    for _ in range(n):
        instance = draw(rng)
        structure, scores = instance.structure, instance.scores
        result, step = sparsemap(structure, scores), 1e-5
        direction = rng.normal(size=len(scores))
        sides = [sparsemap(structure, scores + sign * step * direction) for sign in (1.0, -1.0)]
        # At a kink the supports of the two sides differ.
        if len({frozenset(map(bytes, side.structures)) for side in (*sides, result)}) > 1:
            continue
        slope = (sides[0].marginals - sides[1].marginals) / (2.0 * step)
        np.testing.assert_allclose(result.vjp(direction)["scores"], slope, atol=1e-6)
        compared += len(result.weights) > 1
    return compared
