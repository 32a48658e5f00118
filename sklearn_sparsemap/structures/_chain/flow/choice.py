"""The flow solver of chains, and the rule when it is faster than the active set, which works with single paths.

Used by `structures/_chain`.
"""

import numpy as np

from ...._core.jit import kernel
from ...._numerics.competence import AT_ONCE, as_competence, at_most_rounds
from ...._numerics.polytope_solver import PolytopeSolver
from ..map import NO_TRANSITIONS
from .paths import flow_paths
from .solver import chain_flow_solver, chain_products

# `PolytopeSolver.few_parts`. There the flow saves at most some 100 us, and only if scores are small.
_FEW_PARTS = 60
# Calls of the active set before the flow is considered. In training, before the flow is compiled, which takes seconds.
_FIRST_CALLS, _FEW_CALLS = 7, 40
# Factors of the calls until the next decision: the second one if the paths so far have few states in common, so that
# there may be many more. Each decision costs a warm start of the active set.
_PATIENCE, _CURIOSITY = 6, 2
# The flow is faster from this value of `_gain_of_flow`. Fitted to chains of 5 to 500 steps with 2 to 20 states: random
# ones at scales 0.1 to 3, and sticky ones.
_ENOUGH = 4.6
# The flow is also faster if at least this fraction of the states has weight: scores are nearly tied.
_SPREAD = 0.9
_CHANGED = 1e-6  # least difference of squared norms of marginals between steps whose flows differ
# Factor of the expected number of rounds after which the flow gives up. If it is smaller, more chains that the flow
# would solve in time go back to the active set.
_LATE = 4.0


@kernel
def _gain_of_flow(n_steps, n_states, n_on, n_events, n_calls):
    """Return a number that grows with the time that the flow saves.

    The active set needs about one path for each step at which paths split or merge. If few of the steps are such steps,
    paths keep together for long. Then the flow, which changes few arcs of a step in a round, needs many rounds.

    Parameters
    ----------
    n_steps, n_states : int
    n_on : float
        Number of states with weight.
    n_events : float
        Number of steps at which paths split or merge.
    n_calls : int
        Number of calls of the active set so far. The more there are, the sooner it may end.
    """
    meeting = min(1.0, n_events / max(min(n_on - n_steps, n_steps), 1.0))
    of_size = np.exp(n_on / (n_steps * n_states) + np.log(n_states) / 3.0)
    return n_events * of_size * np.sqrt(np.sqrt(meeting) / (n_steps * n_calls))


@kernel
def _rounds_of_flow(n_steps, n_states, n_on):
    """Return the number of rounds of the flow for a chain of this size without long common ways of its paths."""
    width = n_on / n_steps
    fraction = width / n_states
    return 2.0 + width * (1.0 + 3.2 * fraction * fraction)


@as_competence
def calls_before_flow(scores, additional, dims, marginals, gap, n_calls):
    """Return the calls that are worth less than compiling the flow. Without transitions, it is a closed form."""
    return AT_ONCE if dims[2] == NO_TRANSITIONS else np.int64(_FEW_CALLS)


@as_competence
def calls_of_flow(scores, additional, dims, marginals, gap, n_calls):
    """Return the calls until the next decision, or `at_most_rounds` if the flow is next."""
    if dims[2] == NO_TRANSITIONS:
        return AT_ONCE
    if n_calls == 0:
        return np.int64(_FIRST_CALLS)
    n_steps, n_states = dims[0], dims[1]
    n_on, n_events, before = 0.0, 0.0, 0.0
    for t in range(n_steps):
        norm = 0.0
        for u in marginals[t * n_states : (t + 1) * n_states]:
            norm += u * u
            n_on += 1.0 if u > 0.0 else 0.0
        n_events += 1.0 if t > 0 and abs(norm - before) > _CHANGED else 0.0
        before = norm
    gain = _gain_of_flow(n_steps, n_states, n_on, n_events, n_calls)
    if gain < _ENOUGH and n_on < _SPREAD * n_steps * n_states:
        return np.int64((_CURIOSITY if 2.0 * n_on > n_steps * n_calls else _PATIENCE) * n_calls)
    # The more the active set would take, the more rounds the flow may take.
    return at_most_rounds(_LATE * max(gain / _ENOUGH, 1.0) * _rounds_of_flow(n_steps, n_states, n_on))


FLOW = PolytopeSolver(
    "flow",
    chain_flow_solver,
    chain_products,
    _FEW_PARTS,
    before=calls_before_flow,
    after=calls_of_flow,
    paths=flow_paths,
    # The third entry of `dims` tells whether there are transitions.
    soon_exact=lambda problems: not problems.dims[:, 2].any(),
    coupled_by="transitions",
)
