"""LinearChain: one state a step, with scores for the transitions between neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._jit import as_oracle
from ._base import Structure, as_parts
from ._gibbs_chain import chain_marginal_work, chain_marginals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# How the transitions of a problem are laid out: dims[2].
_NO_TRANSITIONS, _STATIONARY, _PER_STEP = 0, 1, 2


@as_oracle
def viterbi(scores, additional, dims, work, slots, additional_slots):
    """Find the best path; `work` holds the best score of a path that ends in each state of each step.

    Only scores are kept on the way forward, so that the inner loop is a plain maximum over a row; the predecessors
    are found again on the way back, for the one state a step that needs them.
    """
    n_steps, n_states, layout = dims[0], dims[1], dims[2]
    has_start, has_end = dims[3], dims[4]
    block = n_states * n_states
    stride = block if layout == _PER_STEP else 0
    n_transitions = 0
    if layout == _STATIONARY:
        n_transitions = block
    elif layout == _PER_STEP:
        n_transitions = block * (n_steps - 1)
    at_start = n_transitions
    at_end = n_transitions + n_states * has_start

    for j in range(n_states):
        work[j] = scores[j] + additional[at_start + j] if has_start else scores[j]
    for t in range(1, n_steps):
        before = work[(t - 1) * n_states : t * n_states]
        now = work[t * n_states : (t + 1) * n_states]
        here = scores[t * n_states : (t + 1) * n_states]
        if layout == _NO_TRANSITIONS:
            best = before[0]
            for i in range(1, n_states):
                best = before[i] if before[i] > best else best
            for j in range(n_states):
                now[j] = best
        else:
            first = (t - 1) * stride
            into = additional[first : first + n_states]
            for j in range(n_states):
                now[j] = before[0] + into[j]
            for i in range(1, n_states):
                into = additional[first + i * n_states : first + (i + 1) * n_states]
                arrived = before[i]
                for j in range(n_states):
                    candidate = arrived + into[j]
                    now[j] = candidate if candidate > now[j] else now[j]
        for j in range(n_states):
            now[j] += here[j]

    last = work[(n_steps - 1) * n_states : n_steps * n_states]
    state, value = 0, -np.inf
    for j in range(n_states):
        total = last[j] + additional[at_end + j] if has_end else last[j]
        if total > value:
            state, value = j, total
    if has_end:
        additional_slots[additional_slots.shape[0] - 1] = at_end + state
    for t in range(n_steps - 1, -1, -1):
        slots[t] = t * n_states + state
        if t > 0:
            before = work[(t - 1) * n_states : t * n_states]
            first = (t - 1) * stride + state
            source, best = 0, -np.inf
            for i in range(n_states):
                total = before[i] if layout == _NO_TRANSITIONS else before[i] + additional[first + i * n_states]
                # Selects rather than a branch that no processor can predict.
                source = i if total > best else source
                best = total if total > best else best
            if layout != _NO_TRANSITIONS:
                additional_slots[t - 1] = first + source * n_states
            state = source
    if has_start:
        additional_slots[additional_slots.shape[0] - 1 - has_end] = at_start + state
    return value


class LinearChain(Structure):
    """A sequence of steps with one of n_states at each (S 3; the structure of taggers and linear-chain CRFs).

    Scores have shape (n_steps, n_states). Additional scores, each optional:

    - `transitions`, shape (n_states, n_states), ``[from, to]``, the same at every step; or
      (n_steps - 1, n_states, n_states), one matrix for each pair of neighbours;
    - `start`, shape (n_states,), for the state of the first step;
    - `end`, shape (n_states,), for the state of the last step.

    A structure is an int array of shape (n_steps,). -inf forbids a state or a transition. See `Structure` for the
    conventions.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> path, value = map_inference(LinearChain(), [[1.0, 0.0], [0.4, 0.5]], transitions=[[1.0, 0.0], [0.0, 1.0]])
    >>> path.tolist(), value
    ([0, 0], 2.4)
    """

    score_ndim = 2
    additional_names = ("transitions", "start", "end")
    oracle = viterbi
    marginal_oracle = chain_marginals
    labelled = True
    strict_encode = True

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        n_steps, m = shape
        return {"transitions": ((m, m), (n_steps - 1, m, m)), "start": ((m,),), "end": ((m,),)}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        layout = _NO_TRANSITIONS
        if "transitions" in given:
            layout = _STATIONARY if len(given["transitions"]) == 2 else _PER_STEP
        return (*shape, layout, int("start" in given), int("end" in given))

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_steps, n_states, layout, has_start, has_end = dims
        n_transitions = n_steps - 1 if layout != _NO_TRANSITIONS else 0
        return n_steps, n_transitions + has_start + has_end, n_steps * n_states

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        return chain_marginal_work(dims)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n_steps, m, layout, has_start, has_end = (int(d) for d in dims)
        path = np.asarray(structure)
        if path.shape != (n_steps,) or path.dtype.kind not in "iu" or path.min() < 0 or path.max() >= m:
            raise ValueError(f"a path is {n_steps} ints from 0 to {m - 1}, one for each step; got {structure!r}")
        path = path.astype(np.int64)
        additional = []
        n_transitions = 0
        if layout != _NO_TRANSITIONS:
            parts = path[:-1] * m + path[1:]
            n_transitions = m * m
            if layout == _PER_STEP:
                parts = parts + np.arange(n_steps - 1) * m * m
                n_transitions *= n_steps - 1
            additional.append(parts)
        if has_start:
            additional.append([n_transitions + path[0]])
        if has_end:
            additional.append([n_transitions + has_start * m + path[-1]])
        slots = np.arange(n_steps) * m + path
        return as_parts(slots), as_parts(np.concatenate(additional) if additional else [])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots.astype(np.int64) - np.arange(len(slots)) * int(dims[1])

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if len(rows) != 1:
            raise ValueError(f"a sample of a chain has one row for each step; got shape {rows}")
        return (*rows, n_outputs)

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        return {"transitions": (n_outputs, n_outputs), "start": (n_outputs,), "end": (n_outputs,)}
