"""SequenceBudget: a chain with a limited number of steps in one state."""

from __future__ import annotations

import numbers

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.jit import in_python
from ..._core.lanes import padded
from ..._core.validation import check_positive
from .._base import Structure, as_flag, solver_in_tensors
from .._chain.structure import LinearChain, count_transitions
from .entering import ways_within
from .gibbs import marginals_within
from .map import FEWEST, MOST, STATE, best_path_within, has_counts

# The number of entries of dims that describe the chain.
_OF_CHAIN = STATE


class SequenceBudget(LinearChain):
    """A sequence of steps, of which at most `budget` are in one state: rationales that select words in runs.

    Scores and additional scores (`transitions`, `start`, `end`) are those of `LinearChain`, and so are structures: int
    arrays of shape (n_steps,). With two states and transitions that favour equal neighbours, the steps in `state` are a
    few runs, as in the rationales of [1]_ and the sequential retrieval of [2]_.

    Parameters
    ----------
    budget : int or float
        Maximum number of steps in `state`. A float in (0, 1) is a fraction of the length of each sample, rounded down,
        but at least one step, so that short samples can also select something. An int that is at least the number of
        steps does not restrict a sample, except with `exactly`.
    state : int, default=1
        The state that is counted. In an estimator, an index of `classes_`.
    exactly : bool, default=False
        Whether exactly `budget` steps are in `state`, instead of at most that many. Samples with fewer steps than
        `budget` are then an error.

    Raises
    ------
    ValueError
        If `budget` is neither a non-negative int nor a float between 0 and 1, or `state` is no non-negative int. With
        a sample, if `state` is not one of its states, or no sequence of its length keeps the budget.

    See Also
    --------
    Subset : Items without an order.
    Segmentation : Scores for the durations of runs.

    Notes
    -----
    MAP and Gibbs marginals take O(n_steps budget n_states^2), by dynamic programs over pairs of a state and a count.
    MAP first tries the best path of the chain, which is the solution if its count is allowed. SparseMAP is computed by
    the active set. Without transitions and with two states, `Subset` has the same solutions in a closed form.

    References
    ----------
    .. [1] Guerreiro and Martins. SPECTRA: Sparse Structured Text Rationalization. EMNLP 2021.
    .. [2] Santos, Niculae, McNamee and Martins. Sparse and Structured Hopfield Networks. ICML 2024.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import SequenceBudget
    >>> scores = [[0.0, 2.0], [0.0, 0.5], [0.0, 1.5], [0.0, 1.25]]
    >>> for budget in (2, 0.75, 4):
    ...     print(map_inference(SequenceBudget(budget), scores).structure.tolist())
    [1, 0, 1, 0]
    [1, 0, 1, 1]
    [1, 1, 1, 1]
    >>> runs = [[0.5, -0.5], [-0.5, 0.5]]
    >>> map_inference(SequenceBudget(2), scores, transitions=runs).structure.tolist()
    [0, 0, 1, 1]
    """

    oracle = best_path_within
    # The budget couples distant spans.
    likely_spans = Structure.likely_spans
    entering = ways_within
    tensor_solver = solver_in_tensors(__package__)
    marginal_oracle = marginals_within
    # A budget couples the steps, and its polytope is not that of the flow of a chain.
    polytope_solver = None

    def __init__(self, budget: float, state: int = 1, exactly: bool = False) -> None:
        is_count = isinstance(budget, numbers.Integral) and not isinstance(budget, bool) and budget >= 0
        is_fraction = isinstance(budget, numbers.Real) and not isinstance(budget, numbers.Integral) and 0 < budget < 1
        if not (is_count or is_fraction):
            raise ValueError(
                "budget must be a non-negative int (a number of steps), or a float between 0 and 1 (a fraction of the "
                f"length of each sample); got {budget!r}"
            )
        check_positive("state", state, integer=True, zero=True)
        self.budget = int(budget) if is_count else float(budget)
        self.state = int(state)
        self.exactly = as_flag("exactly", exactly)

    def budget_of(self, n_steps: int) -> int:
        """Return the largest allowed number of steps in `state` for a sample of this length."""
        if isinstance(self.budget, int):
            return self.budget
        # Rounding of the product must not cost a step, as for 0.29 of 100 steps.
        return max(1, int(self.budget * n_steps + 1e-9))

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n_steps, n_states = shape
        budget = self.budget_of(n_steps)
        if self.state >= n_states:
            raise ValueError(f"state={self.state} does not exist: scores have the {n_states} states from 0 on")
        if self.exactly and budget > n_steps:
            raise ValueError(
                f"a sequence of {n_steps} steps cannot have exactly budget={budget} of them in state {self.state}; "
                "leave it out, lower budget, or set exactly=False"
            )
        if n_states == 1 and budget < n_steps:
            raise ValueError(
                f"with a single state all {n_steps} steps are in it, more than budget={budget}; raise budget"
            )
        most = min(budget, n_steps)
        return (*super().dims(shape, given), self.state, most if self.exactly else 0, most)

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_slots, n_additional, n_work = super().sizes(dims[:_OF_CHAIN])
        if in_python(has_counts)(dims):
            # One entry more for a row that moves, and one that `entering` uses.
            n_work = n_work * in_python(padded)(int(dims[MOST]) + 2) + 2
        return n_slots, n_additional, n_work

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n_steps, n_states, layout, has_start, has_end = (int(d) for d in dims[:_OF_CHAIN])
        size = n_states * in_python(padded)(int(dims[MOST]) + 2)
        n_transitions = count_transitions(n_steps, n_states, layout)
        n_keys = n_steps * n_states + n_transitions + n_states * (has_start + has_end)
        n_work = n_keys + max(n_transitions, n_states**2) + (n_steps + 2) * size + n_steps + n_states + 2
        return max(n_work, super().marginal_work(dims[:_OF_CHAIN]))

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        parts = super().encode(structure, dims[:_OF_CHAIN])
        count = int((np.asarray(structure) == self.state).sum())
        fewest = int(dims[FEWEST])
        most = int(dims[MOST])
        if count > most:
            raise ValueError(
                f"{count} of the {int(dims[0])} steps are in state {self.state}, more than the budget of {most}; raise "
                "budget, or correct the sequence"
            )
        if count < fewest:
            raise ValueError(
                f"{count} of the {int(dims[0])} steps are in state {self.state}, but exactly {fewest} must be; set "
                "exactly=False, or correct the sequence"
            )
        return parts

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        least = self.budget if self.exactly and isinstance(self.budget, int) else 1
        n_steps = max(1, least)
        n_states = max(2, self.state + 1)
        return tuple((n, m) for n in (n_steps, n_steps + 1, n_steps + 2) for m in (n_states, n_states + 1))
