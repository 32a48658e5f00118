"""SparseMAP is right: its solutions, their certificates and their derivatives, whichever solver found them."""

import numpy as np

from ..inference import sparsemap
from ._case import join
from ._oracle import check_best
from ._qp import solve_qp

_STEP = 1e-5


def check_solutions(case, values, solvers):
    """Check the solutions of SparseMAP, and their certificates."""
    u = _solve(case, values)
    remedy = "the oracle looks right; see that slots, sizes and dims are as the docstring of Structure has them"
    if case.structure.polytope_solver is not None:
        remedy = "polytope_solver is that of another polytope; None leaves it to the oracle"
    for solver in solvers:
        exact = solver == "active_set"
        # Conditional gradient needs not arrive: its gap bounds the distance.
        result = case.infer(sparsemap, values, solver=solver, **({} if exact else {"max_iter": 300}))
        found = result.marginals.ravel()
        distance = np.abs(found - u).max()
        most = 1e-6 if exact else np.sqrt(2.0 * result.gap) + 1e-6
        if distance > most or (exact and not result.converged):
            case.fail(
                f"sparsemap(solver={solver!r}) has the marginals {found.tolist()} with a gap of {result.gap:.2g}, "
                f"but the best mixture of all structures seen has {u.tolist()}, {distance:.2g} away",
                remedy,
                values,
            )
        encoded = [case.encode(structure, "which sparsemap returned") for structure in result.structures]
        known = [case.know(*slots, "sparsemap chose", values) for slots in encoded]
        parts, mixed = join(result), result.weights @ case.rows[known]
        if np.abs(mixed - parts).max() > 1e-8:
            case.fail(
                f"sparsemap(solver={solver!r}) has the marginals {parts.tolist()}, but its structures, with their "
                f"weights, {mixed.tolist()}",
                remedy,
                values,
            )
        finite = np.isfinite(values)
        here = values[finite] @ parts[finite] - found @ found
        gap = (case.totals(values) - case.rows[:, : case.n_unary] @ found).max() - here
        if gap > result.gap + 100 * case.rounding(values):
            case.fail(
                f"sparsemap(solver={solver!r}) has a gap of {result.gap:.3g}, but over all structures seen it is "
                f"{gap:.3g}",
                "the oracle must return the best structure, whatever the scores",
                values,
            )


def _solve(case, values):
    """Return the SparseMAP marginals over all structures that are known, those among them that this brings up."""
    while True:
        totals = case.totals(values)
        allowed = totals > -np.inf
        unary = case.rows[allowed, : case.n_unary]
        u = solve_qp(unary, totals[allowed]) @ unary
        n_known = len(case.rows)
        tilted = values.copy()
        tilted[: case.n_unary] -= u
        check_best(case, tilted, *case.ask(tilted))
        if len(case.rows) == n_known:
            return u


def check_derivatives(case, values):
    """Check Jacobian products against differences, unless there is a kink here."""
    direction, v = case.rng.normal(size=case.n), case.rng.normal(size=case.shape)
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
    remedy = "SparseMAP is right here, but structures of its face were missed: the oracle must be exact for ties"
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
            f"{direction.tolist()} that makes {backward}, but by differences {(v * expected).sum()}",
            remedy,
            values,
        )
