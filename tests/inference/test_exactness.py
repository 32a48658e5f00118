"""The script `benchmarks/exactness.py` in small: every structure, by every solver and the layer, is exact."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from exactness import MAIN, run
from exactness_layouts import EXACT, LAYERS, LAYOUTS, SLOW, GraphLayout, Layout


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_result_that_says_so_is_exact(draws, name):
    tally = run(draws(20), [name], np.random.default_rng(5))
    wrong = [
        f"{category}: {outcome}\n{problem.layout.snippet(problem.values, category[1])}"
        for category, outcome, _, problem in tally.failures
        if outcome != "unconverged" or category[1] not in SLOW
    ]
    assert not wrong, f"{len(wrong)} failures, such as\n{wrong[0]}"
    assert tally.not_certified == 0
    counted = {solver: sum(tally.total(outcome, (solver,)) for outcome in MAIN) for solver in (*EXACT, *SLOW, *LAYERS)}
    assert counted["auto"] == draws(20)
    assert all(counted[library] >= 6 for library in LAYERS)
    assert max(counted[solver] for solver in SLOW) >= 3


def test_the_two_references_agree():
    """One over the structures, one over the vertices of factors, which are the same polytope for these."""
    rng, n_compared = np.random.default_rng(0), 0
    code = "u = graph.variables({})\ngraph.add({})"
    for first, second in (
        (Layout("Simplex()", (4,)), GraphLayout(code.format(4, "Xor(u)"), (4,))),
        (
            Layout("Matching()", (3, 3)),
            GraphLayout(code.format((3, 3), "*[Xor(row) for row in u], *[Xor(column) for column in u.T]"), (3, 3)),
        ),
        (
            Layout("LinearChain()", (3, 2), transitions=(2, 2)),
            GraphLayout(
                code.format((3, 2), "StructureFactor(LinearChain(), u, name='c')"),
                (3, 2),
                {"c": {"transitions": (2, 2)}},
            ),
        ),
    ):
        for scale in (1e-4, 1.0, 1e6):
            for mask in (None, -1e14, -np.inf):
                values = scale * rng.integers(-2, 3, first.n)
                if mask is not None:
                    values[(rng.random(first.n) < 0.3) & ~first.plant(rng)] = mask
                exact, other = first.optimum(values), second.optimum(values)
                assert exact.is_certified and other.is_certified
                assert_allclose(exact.marginals, other.marginals, atol=1e-9)
                if exact.projector is not None and other.projector is not None:
                    assert_allclose(exact.projector, other.projector, atol=1e-9)
                    n_compared += 1
    assert n_compared > 5
