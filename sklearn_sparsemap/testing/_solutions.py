"""Checks of SparseMAP: the solutions of all solvers, their certificates and their derivatives.

Used by `_check.py`.
"""

import numpy as np

from ..inference import sparsemap
from ._case import join
from ._oracle import check_best

_STEP = 1e-5
_TOL = 1e-9  # tolerance of the objective; the default of sparsemap


def check_solutions(case, values, solvers):
    """Check solutions of SparseMAP: they are mixtures of structures, with the gap over all known structures.

    The objective is strongly concave in the marginals, so the error of marginals is at most the square root of twice
    the gap.
    """
    remedy = "the oracle seems correct; check slots, sizes and dims against the docstring of Structure"
    if case.structure.polytope_solver is not None:
        remedy = "polytope_solver is that of another polytope; set it to None to use the oracle"
    for solver in solvers:
        is_exact = solver == "active_set"
        # Variants of conditional gradient need not converge.
        result = case.infer(sparsemap, values, solver=solver, **({} if is_exact else {"max_iter": 300}))
        found = result.marginals.ravel()
        parts = join(result)
        # The best structure at these marginals may be new.
        tilted = values.copy()
        tilted[: case.n_unary] -= found
        check_best(case, tilted, *case.call_oracle(tilted))
        finite = np.isfinite(values)
        gap = case.totals(tilted).max() - tilted[finite] @ parts[finite]
        rounding = case.rounding(values)
        most = result.gap + 100 * rounding
        if is_exact:
            most = min(most, _TOL + rounding)
        # The gap is negative only outside of the polytope.
        if not -100 * rounding <= gap <= most or (is_exact and not result.converged):
            case.fail(
                f"sparsemap(solver={solver!r}) has the marginals {found.tolist()} with a gap of {result.gap:.3g}, "
                f"converged={result.converged}, but over all structures seen the gap is {gap:.3g}",
                remedy,
                values,
            )
        encoded = [case.encode(structure, "which sparsemap returned") for structure in result.structures]
        known = [case.know(*slots, "sparsemap chose", values) for slots in encoded]
        mixed = result.weights @ case.rows[known]
        if np.abs(mixed - parts).max() > 1e-8:
            case.fail(
                f"sparsemap(solver={solver!r}) has the marginals {parts.tolist()}, but its structures, with their "
                f"weights, {mixed.tolist()}",
                remedy,
                values,
            )


def check_derivatives(case, values):
    """Check Jacobian products against differences, unless the marginals have a kink at these scores."""
    direction = case.rng.normal(size=case.n)
    v = case.rng.normal(size=case.shape)
    result = case.infer(sparsemap, values)
    ahead, behind = (
        (case.infer(sparsemap, values + step * direction).marginals - result.marginals) / step
        for step in (_STEP, -_STEP)
    )
    if np.abs(ahead - behind).max() > 1e-5:
        return
    expected = (ahead + behind) / 2
    along, additional = case.split(direction)
    forward = result.jvp(scores=along, **additional)
    gradients = result.vjp(v)
    backward = sum((gradients[name] * d).sum() for name, d in {"scores": along, **additional}.items())
    remedy = "SparseMAP is correct here, but structures of its face are missing: the oracle must be exact for ties"
    if np.abs(forward - expected).max() > 1e-4:
        case.fail(
            f"jvp in the direction {direction.tolist()} is {forward.tolist()}, but by differences of the marginals "
            f"{expected.tolist()}",
            remedy,
            values,
        )
    if abs(backward - (v * expected).sum()) > 1e-4 * (1 + np.abs(v).sum()):
        case.fail(
            f"vjp of {v.tolist()} is { {name: g.tolist() for name, g in gradients.items()} }; in the direction "
            f"{direction.tolist()} this gives {backward}, but by differences {(v * expected).sum()}",
            remedy,
            values,
        )
