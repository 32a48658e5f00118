"""The expected cost of a structure that is drawn from the Gibbs distribution of the scores: minimum-risk training.

A cost of parts makes it ``cost . marginals`` plus a constant. Its gradient is the derivative of the marginals along the
cost, because the covariance of the parts is symmetric.

Used by `_training` and `_fenchel_young.py`.
"""

import numpy as np
from numba import types

from .._core.jit import ORACLE, entry, kernel, new_constants, new_floats, new_parts
from .._numerics.competence import SOLVERS
from .._numerics.covariance import derivative_of_marginals
from .._numerics.loops import PROBLEMS
from .._numerics.support import parts_repeat, score
from ._kernel import GOLD, LOSS_FORM, LOSSES_TYPE, MEMORY, add_cost, divided, target_of


@kernel
def expected_cost_of_sample(oracle, form, target, step_weights, residual, additional_residual):
    """Compute the expected cost of a sample and its gradient.

    Parameters
    ----------
    oracle : marginal oracle
    form : LossForm
        Scores are divided by its temperature, and the cost is not.
    target : Target
    step_weights : array of shape (n_rows,), or empty
        Factors of the costs of the labels of each step.
    residual, additional_residual
        As in `loss_of_sample`.

    Returns
    -------
    loss : float
        NaN if the scores forbid all structures; infinite if they forbid only the gold structure.
    """
    n_parts, n_additional = target.scores.shape[0], target.additional.shape[0]
    scores = divided(target.scores, form.temperature)
    additional = divided(target.additional, form.temperature)
    direction = new_constants(n_parts + n_additional, 0.0)
    add_cost(direction[:n_parts], target.gold_slots, form.cost, form.missing, parts_repeat(target.sizes))
    if step_weights.shape[0]:
        n_labels = n_parts // step_weights.shape[0]
        for j in range(n_parts):
            direction[j] *= step_weights[j // n_labels]
    work = new_floats(target.sizes[3])
    none = new_parts(np.int64(0))
    is_feasible = oracle(scores, additional, target.dims, work, none, none) > -np.inf
    loss = 0.0
    for j in range(n_parts):
        loss += direction[j] * work[j] if is_feasible else 0.0
        residual[j] = 0.0
    if not is_feasible:
        return np.nan
    for part in target.gold_slots:
        loss += form.missing if part >= 0 else 0.0
    slopes = derivative_of_marginals(oracle, scores, additional, target.dims, target.sizes, direction, work)
    for j in range(n_parts):
        residual[j] = slopes[j] / form.temperature
    for a in range(n_additional):
        additional_residual[a] += target.weight * slopes[n_parts + a] / form.temperature
    if score(scores, additional, target.gold_slots, target.gold_additional) == -np.inf:
        return np.inf
    # Rounding can make the cost of a certain structure negative.
    return max(loss, 0.0)


@entry(
    types.void(ORACLE, SOLVERS, LOSS_FORM, PROBLEMS, GOLD, types.float64, MEMORY, types.int64, types.int64, LOSSES_TYPE)
)
def expected_costs_of_range(oracle, solvers, form, problems, gold, tol, memory, start, stop, out):
    """Compute the expected costs and gradients of samples start..stop; see `losses_of_range`."""
    offset = 0
    for i in range(start):
        offset += problems.additional_stop[i] - problems.additional_start[i]
    all_alike = new_floats(np.int64(0))
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        target = target_of(problems, gold, i)
        n_additional = target.additional.shape[0]
        additional_residual = out.additional_residuals[offset : offset + n_additional]
        # The range may be computed again.
        for a in range(n_additional):
            additional_residual[a] = 0.0
        out.losses[i] = expected_cost_of_sample(
            oracle, form, target, all_alike, out.residuals[first:last], additional_residual
        )
        offset += n_additional
