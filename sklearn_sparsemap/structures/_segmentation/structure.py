"""Segmentation: a sequence of adjacent labelled spans (semi-Markov)."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, Mapping, NDArray, Sequence
from ..._core.spans import RunReader
from ..._core.validation import check_choice, check_positive
from .._base import InEstimators, Structure, as_flag, as_ints, as_parts, solver_in_tensors
from .entering import ways_of_segmentation
from .gibbs import segmentation_marginals
from .map import best_segmentation
from .spans import BlockReader, likely_spans

_PARTS = ("steps", "spans")


class _BoundedInEstimators(InEstimators):
    """Predicted spans as long as `max_length` may be parts of longer ones."""

    def bound_message(self, structure: Any, predicted: Sequence[Any]) -> str | None:
        max_length = structure.max_length
        by_spans = structure.parts == "spans"
        long = []
        for i, own in enumerate(predicted):
            spans = own if by_spans else _runs(np.asarray(own))
            if len(spans) and (spans[:, 1] - spans[:, 0]).max() >= max_length:
                long.append(i)
        if not long:
            return None
        remedy = "raise max_length" if by_spans else "raise max_length, or set open_ended=True"
        return (
            f"predicted spans reach max_length={max_length} in {len(long)} of {len(predicted)} samples, first in "
            f"X[{long[0]}]; longer spans are cut into pieces, so {remedy} if there are any"
        )


class Segmentation(Structure):
    """A sequence cut into labelled spans, each of at most `max_length` steps: the structure of semi-Markov models.

    Unlike in a chain, durations have scores, and scores of spans can depend on all of their steps at once.

    Parameters
    ----------
    max_length : int
        Maximum length of a span.
    parts : {"steps", "spans"}, default="steps"
        The parts that have scores and marginals.

        - ``"steps"``: scores have shape (n_steps, n_labels). The score of a span is the sum of its steps' scores for
          its label. A structure is an int array of shape (n_steps,), the label of each step. Adjacent steps with the
          same label form one span, so adjacent spans differ in their labels.
        - ``"spans"``: scores have shape (n_steps, max_length, n_labels): ``scores[t, length - 1, label]`` is the score
          of a span of this length from step t on. Scores of spans that would end after the last step are ignored. A
          structure is an int array of shape (n_spans, 3), with the first step of each span, the step after its last
          one, and its label.

    open_ended : bool, default=False
        Whether spans may be longer than `max_length`. The last row of `durations` is then the score of all spans of at
        least `max_length` steps, and work does not grow. Only for ``parts="steps"``.

    Notes
    -----
    Additional scores, each optional:

    - `durations`, shape (max_length, n_labels): ``durations[length - 1, label]`` for each span;
    - `transitions`, shape (n_labels, n_labels), ``[from, to]``, for each two adjacent spans;
    - `start` and `end`, shape (n_labels,), for the labels of the first span and of the last one.

    -inf forbids a label, a span, a duration or a transition. MAP and marginals take O(n_steps n_labels (max_length +
    n_labels)), by the dynamic programs of [1]_. See `Structure` for the conventions, [2]_ for SparseMAP over a
    structure.

    References
    ----------
    .. [1] Sarawagi and Cohen. Semi-Markov Conditional Random Fields for Information Extraction. NeurIPS 2004.
    .. [2] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.structures import Segmentation
    >>> scores = [[1.0, 0.0], [0.0, 0.5], [1.0, 0.0], [0.0, 1.0]]
    >>> labels, value = map_inference(Segmentation(3), scores, durations=[[-2.0, -2.0], [0.0, 0.0], [0.0, 0.0]])
    >>> labels.tolist(), value  # no span of a single step
    ([0, 0, 1, 1], 2.0)
    """

    additional_names = ("durations", "transitions", "start", "end")
    oracle = best_segmentation
    entering = ways_of_segmentation
    tensor_solver = solver_in_tensors(__package__)
    marginal_oracle = segmentation_marginals
    sums_for_entering = True
    strict_encode = True
    _rows_of_samples = "a segmentation has one row for each step"

    # An attribute of instances only if it is True, so that the others equal those of earlier pickles.
    open_ended = False

    def __init__(self, max_length: int, parts: str = "steps", *, open_ended: bool = False) -> None:
        check_positive("max_length", max_length, integer=True)
        check_choice("parts", parts, _PARTS)
        self.max_length = int(max_length)
        self.parts = parts
        if as_flag("open_ended", open_ended):
            if parts == "spans":
                raise ValueError("open_ended needs parts='steps'; with parts='spans' longer spans have no scores")
            self.open_ended = True

    @property
    def labelled(self) -> bool:
        return self.parts == "steps"

    @property
    def score_ndim(self) -> int:
        return 2 if self.parts == "steps" else 3

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        return {name: (own,) for name, own in self._shapes(shape[-1]).items()}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        n, m = shape[0], shape[-1]
        by_spans = self.parts == "spans"
        if by_spans and shape[1] != self.max_length:
            raise ValueError(
                f"scores of spans have shape (n_steps, {self.max_length}, n_labels), as max_length={self.max_length}; "
                f"got {shape}"
            )
        if m == 1 and not by_spans and n > self.max_length and not self.open_ended:
            raise ValueError(
                f"with a single label all {n} steps are one span, longer than max_length={self.max_length}; raise it, "
                "or set open_ended=True"
            )
        are_given = (int(name in given) for name in self.additional_names)
        return (n, self.max_length, m, int(by_spans), *are_given, int(self.open_ended))

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n, longest, m, _, durations, transitions, start, end, is_open = dims
        n_work = (2 * n + 1 + min(longest, n) + is_open * (n + 1)) * m
        return n, n * durations + (n - 1) * transitions + start + end, n_work

    def marginal_work(self, dims: NDArray[np.int64]) -> int:
        n, longest, m, by_spans, durations, transitions, start, end, is_open = (int(d) for d in dims)
        n_parts = n * longest * m if by_spans else n * m
        n_additional = (durations * longest + transitions * m + start + end) * m
        return n_parts + n_additional + self.sizes(dims)[2] + (2 + is_open) * (n + 1) * m

    def exclusive_parts(self, dims: NDArray[np.int64]) -> NDArray[np.int64] | None:
        return np.arange(dims[0] * dims[2]).reshape(dims[0], dims[2]) if self.labelled else None

    def span_reader(self, labels: Sequence[Any] | None, scheme: str | None) -> Any:
        return BlockReader() if labels is None else RunReader(labels)

    def likely_spans(self, problems: Any, reader: Any, thresholds: Any, wanted: Any, n_jobs: int | None) -> Any:
        return likely_spans(problems, reader, thresholds, wanted, n_jobs)

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n, longest, m, by_spans, durations, transitions, start, end, is_open = (int(d) for d in dims)
        spans = self._spans_of(structure, n, m) if by_spans else _runs_of(structure, n, m)
        first, after, labels = spans.T
        too_long = np.flatnonzero(after - first > longest)
        if len(too_long) and not is_open:
            i = too_long[0]
            raise ValueError(
                f"the span of label {labels[i]} from step {first[i]} on has {after[i] - first[i]} steps, more than "
                f"max_length={longest}; raise max_length, or set open_ended=True"
            )
        if by_spans:
            slots = np.full(n, -1)
            slots[first] = (first * longest + after - first - 1) * m + labels
        else:
            slots = np.arange(n) * m + np.repeat(labels, after - first)
        lengths = np.full(n, -1)
        moves = np.full(n - 1, -1)
        lengths[first] = (np.minimum(after - first, longest) - 1) * m + labels
        moves[first[1:] - 1] = labels[:-1] * m + labels[1:]
        ends = (labels[:1], start * m), (labels[-1:], end * m)
        additional = _join_slots([(lengths, durations * longest * m), (moves, transitions * m * m), *ends])
        return as_parts(slots), additional

    def _spans_of(self, structure, n, m):
        """Return the given spans, checked except for their lengths."""
        spans = np.asarray(structure)
        if spans.ndim != 2 or spans.shape[1] != 3 or not len(spans) or spans.dtype.kind not in "iu":
            raise ValueError(
                "a segmentation is an int array of shape (n_spans, 3): first step, step after the last one, label; got "
                f"shape {spans.shape}"
            )
        spans = spans.astype(np.int64)
        first, after, labels = spans.T
        if first[0] != 0 or after[-1] != n or (first[1:] != after[:-1]).any() or (after <= first).any():
            raise ValueError(f"spans follow each other from step 0 to step {n}; got {spans[:, :2].tolist()}")
        if labels.min() < 0 or labels.max() >= m:
            raise ValueError(f"labels of spans are ints from 0 to {m - 1}; got {labels.tolist()}")
        return spans

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        n, longest, m = (int(d) for d in dims[:3])
        parts = slots.astype(np.int64)
        if self.parts == "steps":
            return parts - np.arange(n) * m
        parts = parts[parts >= 0]
        first, length = parts // (longest * m), parts // m % longest + 1
        return np.column_stack([first, first + length, parts % m])

    @property
    def in_estimators(self) -> InEstimators:
        return InEstimators() if self.open_ended else _BoundedInEstimators()

    def scores_shape(self, rows: tuple[int, ...], n_outputs: int) -> tuple[int, ...]:
        if self.parts == "steps":
            return super().scores_shape(rows, n_outputs)
        if len(rows) != 3:
            raise ValueError(
                f"with parts='spans' a sample has a row for each span and label; got shape {rows}, so pass a sample of "
                "shape (n_steps, max_length, n_labels, n_features), or a RaggedArray with `shapes`"
            )
        return rows

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        # If spans are the parts, each part has its own features, and the model does not know the number of labels.
        return self._shapes(n_outputs) if self.parts == "steps" else {}

    def _shapes(self, m):
        # `transitions_`, `start_` and `end_` of estimators rely on these names.
        return {"durations": (self.max_length, m), "transitions": (m, m), "start": (m,), "end": (m,)}

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        if self.parts == "steps":
            return (1, 1), (1, 3), (3, 2), (2, 3)
        return tuple((n, self.max_length, m) for n, m in ((1, 1), (1, 3), (3, 1), (3, 2)))


def _runs_of(structure, n, m):
    """Return the runs of equal labels as spans."""
    form = f"a segmentation is {n} ints from 0 to {m - 1}, the label of each step"
    labels = as_ints(structure, (n,), 0, m - 1, form)
    return _runs(labels)


def _runs(labels):
    """Return the runs of equal labels in an int array as spans."""
    first = np.flatnonzero(np.concatenate([[len(labels) > 0], labels[1:] != labels[:-1]]))
    return np.column_stack([first, np.append(first[1:], len(labels))[: len(first)], labels[first]])


def _join_slots(groups):
    """Return the additional slots of a structure.

    Parameters
    ----------
    groups : list of (parts, size)
        For each name of additional scores, in their order: the parts, numbered from 0 and -1 for empty slots, and the
        number of scores, 0 if they are not given.
    """
    slots, first = [], 0
    for parts, size in groups:
        if size:
            slots.append(parts + first * (parts >= 0) if first else parts)
            first += size
    return as_parts(np.concatenate(slots) if slots else [])
