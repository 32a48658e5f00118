"""LinearChain: one state for each step, with scores for the transitions between neighbours.

Used by `structures/_sequence_budget`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.spans import SpanReader, scheme_of
from ..._numerics.inside_outside import fill_sums
from .._base import InEstimators, Structure, as_ints, solver_in_tensors
from .entering import ways_of_chain
from .flow.choice import FLOW
from .gibbs import chain_marginals
from .map import NO_TRANSITIONS, PER_STEP, STATIONARY, viterbi
from .spans import likely_spans

_N_DIMS = 5  # entries of `dims`; `SequenceBudget` has more


class _ChainsInEstimators(InEstimators):
    """Paths are encoded together."""

    def encode_all(self, structure: Any, structures: Any, dims: NDArray[Any]) -> Any:
        paths = np.asarray(structures)
        n_steps, m, layout, has_start, has_end = map(int, dims[:_N_DIMS])
        additional = [np.zeros((len(paths), 0), np.int64)]
        n_transitions = count_transitions(n_steps, m, layout)
        if layout != NO_TRANSITIONS:
            moves = paths[:, :-1] * m + paths[:, 1:]
            if layout == PER_STEP:
                moves += np.arange(n_steps - 1) * m * m
            additional.append(moves)
        if has_start:
            additional.append(n_transitions + paths[:, :1])
        if has_end:
            additional.append(n_transitions + has_start * m + paths[:, -1:])
        parts = np.arange(n_steps) * m + paths
        joined = np.concatenate(additional, axis=1)
        return list(zip(parts.astype(np.int32), joined.astype(np.int32)))


class LinearChain(Structure):
    """A sequence of steps with one of n_states at each: the structure of taggers and linear-chain CRFs.

    Scores have shape (n_steps, n_states). Additional scores, each optional:

    - `transitions`, shape (n_states, n_states), ``[from, to]``, the same at every step; or
      (n_steps - 1, n_states, n_states), one matrix for each pair of neighbours;
    - `start`, shape (n_states,), for the state of the first step;
    - `end`, shape (n_states,), for the state of the last step.

    A structure is an int array of shape (n_steps,). -inf forbids a state or a transition. See `Structure` for the
    conventions, [1]_ for SparseMAP over it.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> path, value = map_inference(LinearChain(), [[1.0, 0.0], [0.4, 0.5]], transitions=[[1.0, 0.0], [0.0, 1.0]])
    >>> path.tolist(), value
    ([0, 0], 2.4)
    """

    score_ndim = 2
    decodes_stacks = True
    additional_names = ("transitions", "start", "end")
    oracle = viterbi
    entering = ways_of_chain
    tensor_solver = solver_in_tensors(__package__)
    polytope_solver = FLOW
    marginal_oracle = chain_marginals
    sums_for_entering = True
    labelled = True
    strict_encode = True
    in_estimators = _ChainsInEstimators()
    _rows_of_samples = "a chain has one row for each step"

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        n_steps, m = shape
        return {"transitions": ((m, m), (n_steps - 1, m, m)), "start": ((m,),), "end": ((m,),)}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        layout = NO_TRANSITIONS
        if "transitions" in given:
            layout = STATIONARY if len(given["transitions"]) == 2 else PER_STEP
        return (*shape, layout, int("start" in given), int("end" in given))

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_steps, n_states, layout, has_start, has_end = dims
        n_transitions = n_steps - 1 if layout != NO_TRANSITIONS else 0
        return n_steps, n_transitions + has_start + has_end, n_steps * n_states

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n_steps, n_states, layout, has_start, has_end = map(int, dims)
        n_additional = count_transitions(n_steps, n_states, layout) + n_states * (has_start + has_end)
        return n_steps * n_states + n_additional + n_states**2 + n_steps * (2 * n_states + 1) + 2 * n_states

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.arange(dims[0] * dims[1]).reshape(dims[0], dims[1])

    def _log_sums(self, sample):
        # The marginal oracle multiplies, and its table is another one.
        table = np.ones(int(sample.sizes[2]))
        fill_sums(self.entering, sample.scores, sample.additional, sample.dims, table)
        return table

    def span_reader(self, labels: Sequence[Any] | None, scheme: str | None) -> Any:
        scheme = scheme_of(labels) if scheme is None else scheme
        is_text = all(isinstance(label, str) for label in labels)
        return _reader_of(tuple(labels), scheme) if is_text else SpanReader(labels, scheme)

    def likely_spans(self, problems: Any, reader: Any, thresholds: Any, wanted: Any, n_jobs: int | None) -> Any:
        return likely_spans(problems, reader, thresholds, wanted, n_jobs)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n_steps = int(dims[0])
        m = int(dims[1])
        form = f"a path is {n_steps} ints from 0 to {m - 1}, one for each step"
        path = as_ints(structure, (n_steps,), 0, m - 1, form)
        return self.in_estimators.encode_all(self, path[None], dims)[0]

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots.astype(np.int64) - np.arange(slots.shape[-1]) * int(dims[1])

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        # The constraints of estimators (`TransitionMask`) rely on this order, and `transitions_`, `start_` and `end_`
        # on the names.
        return {"transitions": (n_outputs, n_outputs), "start": (n_outputs,), "end": (n_outputs,)}


@lru_cache(64)
def _reader_of(labels, scheme):
    """Return the reader of labels; making one takes longer than the prediction of a sentence."""
    return SpanReader(labels, scheme)


def count_transitions(n_steps, n_states, layout):
    """Return the number of scores of transitions, also for `SequenceBudget`."""
    return {NO_TRANSITIONS: 0, STATIONARY: 1, PER_STEP: n_steps - 1}[layout] * n_states**2
