"""The flow solver of chains, and the rule when it is faster than the active set, which works with single paths.

Used by `structures/_chain`.
"""

import numpy as np
from numba import types

from ...._core.jit import INTS_OUT, entry, kernel
from ...._numerics.loops import PROBLEMS
from ...._numerics.polytope_solver import PolytopeSolver, never
from ...._numerics.sparsemax import sparsemax
from ..map import NO_TRANSITIONS
from .forest import new_forest
from .paths import flow_paths
from .pricing import max_marginals, new_prices, price_of
from .scores import new_chain
from .solver import chain_flow_solver, chain_products

# The active set is tried if it is expected to take less than this fraction of the time of the flow. Its time is lost if
# it needs more calls than expected.
_CLEARLY_LESS = 0.6
_FEW_PARTS = 60  # `PolytopeSolver.few_parts`; up to here the active set takes at most 1.06 of the time with a choice
_MIN_CALLS = 16  # least number of calls after which the active set is stopped, if it is tried


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


@entry(types.void(PROBLEMS, types.int64, types.int64, INTS_OUT, INTS_OUT))
def calls_of_active_set_range(problems, start, stop, most, is_tried):
    """Decide for the chains start..stop how long the active set works; see `PolytopeSolver.budget`.

    All constants are nanoseconds on one machine; only their ratios matter.
    """
    for i in range(start, stop):
        dims = problems.dims[i]
        most[i], is_tried[i] = 0, False
        if dims[2] == NO_TRANSITIONS:
            # The flow is a closed form.
            continue
        spread = _spread_of_paths(
            problems.scores[problems.score_ptr[i] : problems.score_ptr[i + 1]],
            problems.additional[problems.additional_start[i] : problems.additional_stop[i]],
            dims,
        )
        time = _time_of_flow(dims[0], dims[1], spread)
        calls = _MIN_CALLS
        while _time_of_paths(dims[0], dims[1], calls) < time:
            calls += 1 + calls // 8
        most[i] = calls
        # The first path has a state of each step, and most others bring one more. Some leave again.
        expected = 1.2 * (spread - dims[0])
        is_tried[i] = _time_of_paths(dims[0], dims[1], expected) < _CLEARLY_LESS * time


# Losses solve chains by the active set, which can start from the paths of the previous epoch.
FLOW = PolytopeSolver(
    "flow",
    chain_flow_solver,
    chain_products,
    few_parts=_FEW_PARTS,
    prefers=never,
    budget=calls_of_active_set_range,
    paths=flow_paths,
)
