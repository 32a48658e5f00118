"""Spans with their marginal probabilities, for `predict_spans` of linear structured models."""

from itertools import pairwise
from numbers import Real

import numpy as np

from ..._core.offsets import ragged_indices
from ..._core.spans import NAMED_SCHEMES
from ..._core.validation import check_same_length, quoted
from ...losses import LOSSES
from ...spans import Span
from ...spans._tokens import read_tokens
from .._failures import warn_of_gaps

# Smallest probability of the spans of a Gibbs distribution, under which all spans have a positive one. Their number is at
# most sqrt(2 n_types / LEAST) for each step, because the spans of a sequence do not overlap. Usually there are a few.
_LEAST = 1e-6


def predict_spans(model, X, min_probability, tokens):
    """Return the spans of each sample; see `LinearStructuredModel.predict_spans`."""
    is_number = isinstance(min_probability, Real) and not isinstance(min_probability, bool)
    if not is_number or not 0.0 <= min_probability <= 1.0:
        raise ValueError(f"min_probability must be a number between 0 and 1; got {min_probability!r}")
    structure, X = model._check_predict(X)
    reader = _reader_of(model, structure)
    if tokens is not None:
        tokens = _check_tokens(tokens, X)
    with_rows = np.flatnonzero(X.lengths).tolist()
    threshold = float(min_probability)

    def best_structures(task, scores, additional):
        found = task.predict(scores, additional, model.n_jobs)
        if structure.labelled:
            found = [found[first:last] for first, last in pairwise(task.row_ptr.tolist())]
        return list(found)

    best = [own for own in model._infer(X, "map", None, best_structures) if own is not None]
    predicted = reader.find_in(best)

    def list_spans(task, scores, additional):
        if argmax == "gibbs":
            wanted = predicted if threshold == 0.0 else [own[:0] for own in predicted]
            least = max(threshold, _LEAST)
            rows, chances = task.likely_spans(scores, additional, reader, least, wanted, model.n_jobs)
        else:
            distributions, gaps, objectives = task.distributions(scores, additional, model.n_jobs)
            warn_of_gaps(gaps, objectives)
            rows, chances = _mixture(distributions, reader)
        listed = _sorted(rows, chances, predicted, threshold)
        own_tokens = None if tokens is None else [tokens[i] for i in with_rows]
        return _as_spans(listed, reader.names, own_tokens, len(best))

    argmax = "gibbs" if LOSSES[model._loss].argmax == "gibbs" else "sparsemap"
    results = model._infer(X, argmax, None, list_spans)
    return [[] if own is None else own for own in results]


def _reader_of(model, structure):
    """Return the reader of the spans of a model's structures."""
    classes = vars(model).get("classes_")
    scheme = model.constraints if isinstance(model.constraints, str) else None
    labels = None if classes is None else classes.tolist()
    try:
        return structure.span_reader(labels, None if scheme is None else NAMED_SCHEMES[scheme])
    except ValueError as error:
        raise ValueError(
            f"predict_spans needs labels that are spans: {error}. Spans of equal labels, such as the states of a "
            "recording, are those of structure=Segmentation(max_length)"
        ) from None


def _check_tokens(tokens, X):
    """Return the tokens of all samples, as `Offsets`."""
    if isinstance(tokens, str) or not hasattr(tokens, "__len__"):
        raise ValueError(f"tokens must be a sequence with the tokens of each sample; got {quoted(tokens)}")
    check_same_length(X, tokens)
    found = [read_tokens(own, f"tokens[{i}]") for i, own in enumerate(tokens)]
    for i, (own, grid) in enumerate(zip(found, X.grids.tolist())):
        if len(own.words) != grid[0]:
            raise ValueError(f"tokens[{i}] has {len(own.words)} tokens, but X[{i}] has {grid[0]} steps")
    return found


def _mixture(distributions, reader):
    """Return the spans of the structures of each sample, with the sums of their weights.

    Parameters
    ----------
    distributions : list of lists of (structure, weight)
    reader : object
        See `Structure.span_reader`.

    Returns
    -------
    rows : int array of shape (n_spans, 4)
        Sample, first step, last step and type.
    probabilities : array of shape (n_spans,)
    """
    samples = np.repeat(np.arange(len(distributions)), [len(own) for own in distributions])
    weights = np.array([weight for own in distributions for _, weight in own])
    which, *places = reader.find_in([structure for own in distributions for structure, _ in own])
    rows, inverse = np.unique(np.column_stack([samples[which], *places]), axis=0, return_inverse=True)
    return rows, np.bincount(inverse.ravel(), weights[which], minlength=len(rows))


def _sorted(rows, chances, predicted, threshold):
    """Return spans in order, and which of them are predicted.

    Parameters
    ----------
    rows : int array of shape (n_spans, 4)
        As of `_mixture`.
    chances : array of shape (n_spans,)
    predicted : tuple of arrays (samples, starts, lasts, types)
    threshold : float
        Smallest probability. If it is 0, all predicted spans are included.

    Returns
    -------
    rows : int array of shape (n_spans, 4)
        By sample and first step, then the most probable first.
    probabilities : array of shape (n_spans,)
    is_predicted : bool array of shape (n_spans,)
    """
    best = np.column_stack(predicted)
    together, inverse = np.unique(np.concatenate([rows, best]), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    is_predicted = np.zeros(len(together), bool)
    is_predicted[inverse[len(rows) :]] = True
    # A predicted structure may be outside of the support of SparseMAP.
    sums = np.zeros(len(together))
    sums[inverse[: len(rows)]] = np.minimum(chances, 1.0)
    order = np.lexsort([together[:, 3], together[:, 2], -sums, together[:, 1], together[:, 0]])
    order = order[sums[order] >= threshold]
    return together[order], sums[order], is_predicted[order]


def _alternatives(rows, is_predicted):
    """Return, for each predicted span, the places of the others of its sample that share a step with it."""
    n_steps = int(rows[:, 2].max(initial=0)) + 1
    # Places in a line of all samples, which spans of different samples do not share.
    starts = rows[:, 0] * n_steps + rows[:, 1]
    lasts = rows[:, 0] * n_steps + rows[:, 2]
    longest = (lasts - starts).max(initial=0)
    own = np.flatnonzero(is_predicted)
    begins = np.searchsorted(starts, starts[own] - longest)
    lengths = np.searchsorted(starts, lasts[own], side="right") - begins
    others = ragged_indices(begins, lengths)
    which = np.repeat(np.arange(len(own)), lengths)
    kept = ~is_predicted[others] & (lasts[others] >= starts[own][which])
    return own, others[kept], which[kept]


def _as_spans(listed, names, tokens, n_samples):
    """Return the `Span` of each sample, given spans as `_sorted` returns them."""
    rows, chances, is_predicted = listed
    samples, starts, lasts, types = rows.T.tolist()
    kinds = [names[kind] for kind in types]
    where = [(None, None, None)] * len(rows)
    if tokens is not None:
        where = [tokens[i].fields(start, last + 1) for i, start, last in zip(samples, starts, lasts)]
    columns = zip(starts, lasts, kinds, chances.tolist(), where, is_predicted.tolist())
    spans = [Span(start, last + 1, kind, chance, *place, flag) for start, last, kind, chance, place, flag in columns]
    own, others, which = _alternatives(rows, is_predicted)
    order = np.lexsort([-chances[others], which])
    others = others[order].tolist()
    ends = np.searchsorted(which[order], np.arange(len(own) + 1)).tolist()
    for place, (first, last) in zip(own.tolist(), pairwise(ends)):
        spans[place] = spans[place]._replace(alternatives=tuple([spans[k] for k in others[first:last]]))
    cuts = np.searchsorted(rows[:, 0], np.arange(n_samples + 1)).tolist()
    return [spans[first:last] for first, last in pairwise(cuts)]
