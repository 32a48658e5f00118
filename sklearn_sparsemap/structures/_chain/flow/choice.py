"""The flow solver of chains, and the rule when it is faster than the active set, which works with single paths.

Used by `structures/_chain`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.competence import ALL, as_competence
from ...._numerics.polytope_solver import PolytopeSolver
from ..map import NO_TRANSITIONS
from .paths import flow_paths
from .solver import chain_flow_solver, chain_products

_AT_FIRST = 0.4  # fraction of the least time of the flow that the active set gets before the scores are looked at
# The active set goes on if it is expected to take less than this fraction of the time of the flow. Its time is lost if
# it needs more calls than expected.
_CLEARLY_LESS = 0.8
# Chains of at most so many parts seldom need more than so many calls, so that they hardly ever compile the flow.
_FEW_PARTS, _FEW_CALLS = 60, 40
# With n calls so far and this factor c, the active set is expected to need n (1 + c gap n / sqrt(steps)) calls. Fitted
# to chains of 10 to 320 steps with 2 to 20 states, at scales 0.1 to 3, and to scores of trained models.
_CALLS_BY_GAP = 2.5


@kernel
def _time_of_paths(n_steps, n_states, n_paths):
    """Return the time of a number of paths: a call of the oracle each, and products with all earlier paths."""
    calls = 0.3 * n_steps * n_states * n_states * n_paths
    return calls + (1.0 * n_steps + 0.25 * n_paths) * n_paths * n_paths


@kernel
def _time_of_flow(n_steps, n_states, spread):
    """Return the time of the flow solver: sweeps over all states, and rounds of pivots.

    `spread` is the number of states with weight. The more they are, and the larger their fraction, the more rounds are
    needed.
    """
    width = spread / n_steps
    sweeps = 1.75 * n_states * n_states + 80.0 * n_states + 1000.0
    rounds = 2.0 + width * (1.0 + 3.2 * width * width / (n_states * n_states))
    # If nearly all states have weight, there are few trees, which make up the last term.
    a_round = 250.0 + 80.0 * width + 10.0 * width * width * (1.0 - 0.5 * width / n_states)
    return n_steps * (sweeps + rounds * a_round)


@kernel
def _calls_in(n_steps, n_states, time):
    """Return the number of calls of the oracle that take the active set a time."""
    calls = np.int64(1)
    while _time_of_paths(n_steps, n_states, calls) < time:
        calls += 1 + calls // 8
    return calls


@as_competence
def calls_before_flow(scores, additional, dims, marginals, gap, n_calls):
    """Return the calls that take a fraction of the least time of the flow, in which most problems are solved."""
    if dims[2] == NO_TRANSITIONS:
        # The flow is a closed form.
        return np.int64(0) if scores.shape[0] > _FEW_PARTS else np.int64(ALL)
    calls = _calls_in(dims[0], dims[1], _AT_FIRST * _time_of_flow(dims[0], dims[1], float(dims[0])))
    return max(calls, np.int64(_FEW_CALLS)) if scores.shape[0] <= _FEW_PARTS else calls


@as_competence
def calls_of_flow(scores, additional, dims, marginals, gap, n_calls):
    """Return the calls that take the time of the flow, or 0 if the active set is expected to take nearly as long."""
    n_steps, n_states = dims[0], dims[1]
    expected = n_calls * (1.0 + _CALLS_BY_GAP * gap * n_calls / np.sqrt(n_steps))
    # The first path has a state of each step, and most others bring one more. Some leave again.
    # If neighbours mostly have the same label, a path brings many.
    n_on = 0
    for u in marginals:
        n_on += u > 0.0
    spread = min(max(float(n_on), n_steps + expected / 1.2), float(n_steps * n_states))
    time = _time_of_flow(n_steps, n_states, spread)
    # With a third of its structures the active set goes on in any case, because the flow can need hundreds of rounds.
    # But near ties it can need many more calls than the gap lets expect, so it is always stopped.
    if not (expected < 3 * n_calls or _time_of_paths(n_steps, n_states, expected) < _CLEARLY_LESS * time):
        return np.int64(0)
    return max(_calls_in(n_steps, n_states, time), 4 * n_calls)


FLOW = PolytopeSolver(
    "flow",
    chain_flow_solver,
    chain_products,
    before=calls_before_flow,
    after=calls_of_flow,
    paths=flow_paths,
)
