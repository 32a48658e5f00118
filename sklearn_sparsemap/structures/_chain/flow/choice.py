"""The flow solver of chains, and the rule when it is faster than the active set, which works with single paths.

Used by `structures/_chain`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.competence import as_competence
from ...._numerics.polytope_solver import PolytopeSolver
from ...._numerics.sparsemax import sparsemax
from ..map import NO_TRANSITIONS
from .forest import new_forest
from .paths import flow_paths
from .pricing import max_marginals, new_prices, price_of
from .scores import new_chain
from .solver import chain_flow_solver, chain_products

_AT_FIRST = 0.1  # fraction of the least time of the flow that the active set gets before the scores are looked at
# The active set goes on if it is expected to take less than this fraction of the time of the flow. Its time is lost if
# it needs more calls than expected.
_CLEARLY_LESS = 0.6
# Chains of at most so many parts seldom need more than so many calls, so that they hardly ever compile the flow.
_FEW_PARTS, _FEW_CALLS = 60, 40
_MIN_CALLS = 16  # least number of calls after which the active set is stopped, if it goes on


@kernel
def _spread_of_paths(scores, additional, dims):
    """Return the total support size over all steps if each step is projected by the max-marginals of its states.

    About as many states are on the paths of the solution.
    """
    chain, total = new_chain(scores, additional, dims, -np.inf), 0.0
    forest, prices = new_forest(chain.n_steps, chain.width), new_prices(chain)
    if max_marginals(chain, forest, prices) == -np.inf:
        return 0.0
    here, priced = np.empty(chain.n_states), np.empty(chain.n_states)
    for t in range(chain.n_steps):
        for i in range(chain.n_states):
            priced[i] = price_of(chain, forest, prices, t * chain.width + i)
        _, count = sparsemax(priced, np.inf, here)
        total += count
    return total


@kernel
def _time_of_paths(n_steps, n_states, n_paths):
    """Return the time of a number of paths: a call of the oracle each, and products with all earlier paths."""
    calls = 0.3 * n_steps * n_states**2 * n_paths
    return calls + 1.0 * n_steps * n_paths**2 + 0.25 * n_paths**3


@kernel
def _time_of_flow(n_steps, n_states, spread):
    """Return the time of the flow solver: sweeps over all states, and rounds of pivots.

    `spread` is the result of `_spread_of_paths`. About twice as many states have weight if there are many more. The
    more states have weight, and the larger their fraction, the more rounds are needed.
    """
    width = spread / n_steps
    width *= 1.0 + 1.2 * (1.0 - width / n_states)
    sweeps = 1.75 * n_states**2 + 80.0 * n_states + 1000.0
    rounds = 2.0 + width * (1.0 + 3.2 * (width / n_states) ** 2)
    # If nearly all states have weight, there are few trees, which make up the last term.
    a_round = 250.0 + 80.0 * width + 10.0 * width**2 * (1.0 - 0.5 * width / n_states)
    return n_steps * (sweeps + rounds * a_round)


@kernel
def _calls_in(n_steps, n_states, time):
    """Return the number of calls of the oracle that take the active set a time."""
    calls = np.int64(1)
    while _time_of_paths(n_steps, n_states, calls) < time:
        calls += 1 + calls // 8
    return calls


@as_competence
def calls_before_flow(scores, additional, dims):
    """Return the calls that take a fraction of the least time of the flow, in which most problems are solved."""
    if dims[2] == NO_TRANSITIONS:
        # The flow is a closed form.
        return np.int64(0)
    calls = _calls_in(dims[0], dims[1], _AT_FIRST * _time_of_flow(dims[0], dims[1], float(dims[0])))
    return max(calls, np.int64(_FEW_CALLS)) if scores.shape[0] <= _FEW_PARTS else calls


@as_competence
def calls_of_flow(scores, additional, dims):
    """Return the calls that take the time of the flow, or 0 if the active set is expected to take nearly as long."""
    spread = _spread_of_paths(scores, additional, dims)
    time = _time_of_flow(dims[0], dims[1], spread)
    # The first path has a state of each step, and most others bring one more. Some leave again.
    expected = 1.2 * (spread - dims[0])
    if _time_of_paths(dims[0], dims[1], expected) >= _CLEARLY_LESS * time:
        return np.int64(0)
    return max(_calls_in(dims[0], dims[1], time), np.int64(_MIN_CALLS))


FLOW = PolytopeSolver(
    "flow",
    chain_flow_solver,
    chain_products,
    before=calls_before_flow,
    after=calls_of_flow,
    paths=flow_paths,
)
