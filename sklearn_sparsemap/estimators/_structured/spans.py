"""Spans with their marginal probabilities, for `predict_spans` of linear structured models.

Used by `base.py`.
"""

from functools import partial
from itertools import pairwise, repeat
from numbers import Real

import numpy as np
from scipy import sparse

from ..._core.offsets import offsets, ragged_indices
from ..._core.spans import NAMED_SCHEMES
from ..._core.tables import by_samples
from ..._core.validation import check_positive, check_same_length, quoted
from ...losses._recipes import TRAINED
from ...spans import Span
from ...spans._tokens import read_tokens
from .._failures import warn_of_gaps

# Smallest probability of the spans of a Gibbs distribution by default, because all spans have a positive one; and that
# in sequences with few possible spans. Smaller values list more: 75 spans for a sentence of CoNLL-2000 at 1e-3, 400 at
# 1e-6. There are at most sqrt(2 n_types / LEAST) for each step, because the spans of a sequence do not overlap.
_LEAST, _LEAST_OF_FEW, _FEW = 1e-3, 1e-6, 200
# Smallest probability of the alternatives of a predicted span.
_LIKELY = 0.01


def predict_spans(model, X, min_probability, tokens):
    """Return the spans of each sample; see `LinearStructuredModel.predict_spans`."""
    is_number = isinstance(min_probability, Real) and not isinstance(min_probability, bool)
    if not is_number or not 0.0 <= min_probability <= 1.0:
        raise ValueError(f"min_probability must be a number between 0 and 1; got {min_probability!r}")
    tokens = None if tokens is None else by_samples(tokens, X, "tokens")
    structure, X = model._check_predict(X)
    reader = _reader_of(model, structure)
    if tokens is not None:
        tokens = _check_tokens(tokens, X)
    with_rows = np.flatnonzero(X.lengths)
    threshold = float(min_probability)

    argmax = "gibbs" if TRAINED[model._loss].argmax == "gibbs" else "sparsemap"
    best = []
    found = [(np.zeros((0, 5), np.int64), np.zeros(0))]

    def predict(task, scores, additional):
        best.extend(_best_structures(task, task.predict(scores, additional, model.n_jobs)))
        if structure.fixed_size:
            # Scores of a distribution are those of the best structure, divided by the temperature.
            check_positive("temperature", model.temperature)
            find_spans(task, scores / model.temperature, additional / model.temperature)
        return best

    def find_spans(task, scores, additional):
        predicted = reader.find_in(best)
        if argmax == "gibbs":
            least = _thresholds(X.grids[with_rows, 0], len(reader.names), threshold)
            found[0] = task.likely_spans(scores, additional, reader, least, predicted, model.n_jobs)
        else:
            distributions, gaps, objectives = task.distributions(scores, additional, model.n_jobs)
            warn_of_gaps(gaps, objectives)
            found[0] = _mixture(distributions, reader, predicted, task.row_ptr)
        return best

    model._infer(X, "map", None, predict)
    if not structure.fixed_size:
        # The regulariser shifts these scores.
        model._infer(X, argmax, None, find_spans)
    rows, chances = _sorted(*found[0], threshold)
    if len(with_rows) < len(X):
        rows[:, 0] = with_rows[rows[:, 0]]
    return _spans_of(rows, chances, reader.names, tokens, len(X))


def _thresholds(n_steps, n_types, given):
    """Return the smallest probability of a span of each sample under a Gibbs distribution."""
    if given > 0.0:
        return np.full(len(n_steps), given)
    n_spans = n_types * n_steps * (n_steps + 1) / 2
    return np.where(n_spans <= _FEW, _LEAST_OF_FEW, _LEAST)


def _best_structures(task, found):
    """Return predicted structures as a list; label sequences are in one array."""
    return [found[i:j] for i, j in pairwise(task.row_ptr.tolist())] if task.structure.labelled else list(found)


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
    check_same_length(X, tokens, ("X", "tokens"), "list of tokens")
    found = [read_tokens(own, f"tokens[{i}]") for i, own in enumerate(tokens)]
    for i, (own, grid) in enumerate(zip(found, X.grids.tolist())):
        if len(own.words) != grid[0]:
            raise ValueError(f"tokens[{i}] has {len(own.words)} tokens, but X[{i}] has {grid[0]} steps")
    return found


def _mixture(distributions, reader, predicted, row_ptr):
    """Return the spans of the structures of each sample, with the sums of their weights, and the predicted ones.

    Parameters
    ----------
    distributions : list of lists of (structure, weight)
    reader : object
        See `Structure.span_reader`.
    predicted : tuple of arrays (samples, starts, lasts, types)
        They may be outside of the support of SparseMAP.
    row_ptr : int array
        The first step of each sample among all.

    Returns
    -------
    rows, probabilities : arrays
        As those of `Structure.likely_spans`, in the order of samples and first steps.
    """
    of_structure = np.repeat(np.arange(len(distributions)), [len(own) for own in distributions])
    weights = np.array([weight for own in distributions for _, weight in own])
    which, *places = reader.find_in([structure for own in distributions for structure, _ in own])
    columns = [np.concatenate(pair) for pair in zip((of_structure[which], *places), predicted)]
    samples, starts, lasts, types = columns
    n_types = int(types.max(initial=0)) + 1
    # A row of a sparse matrix for each first step of a span, and a column for each length and type; it adds weights.
    shape = int(row_ptr[-1]), (int((lasts - starts).max(initial=0)) + 1) * n_types
    places = row_ptr[samples] + starts, (lasts - starts) * n_types + types
    weights = np.concatenate([weights[which], np.zeros(len(predicted[0]))])
    sums = sparse.coo_array((weights, places), shape=shape).tocsr()
    firsts = np.repeat(np.arange(shape[0]), np.diff(sums.indptr))
    lengths, types = np.divmod(sums.indices.astype(np.int64), n_types)
    n_predicted = len(predicted[0])
    codes = firsts * shape[1] + sums.indices
    is_predicted = np.isin(codes, places[0][-n_predicted:] * shape[1] + places[1][-n_predicted:]) & (n_predicted > 0)
    samples = np.searchsorted(row_ptr, firsts, side="right") - 1
    starts = firsts - row_ptr[samples]
    return np.column_stack([samples, starts, starts + lengths, types, is_predicted]), sums.data


def _sorted(rows, chances, threshold):
    """Return spans by sample and first step, without those that are less probable than the threshold."""
    if threshold > 0.0:
        kept = chances >= threshold
        rows, chances = rows[kept], chances[kept]
    places = _in_line(rows, rows[:, 1])
    if (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        rows, chances = rows[order], chances[order]
    return rows, np.minimum(chances, 1.0)


def _in_line(rows, steps):
    """Return the places of steps in a line of all samples, in which spans of different samples do not overlap."""
    return rows[:, 0] * (int(rows[:, 2].max(initial=0)) + 1) + steps


def _spans_of(rows, chances, names, tokens, n_samples):
    """Return the spans of each sample: list of lists of `Span`.

    Parameters
    ----------
    rows, chances : arrays
        As those of `Structure.likely_spans`, in the order of samples and first steps.
    names : sequence
        Types by their numbers.
    tokens : list of Offsets or None
    n_samples : int
    """
    samples, starts, lasts, types, flags = rows.T.tolist()
    stops = [last + 1 for last in lasts]
    kinds = map(names.__getitem__, types)
    places = [repeat(None)] * 3
    if tokens is not None and samples:
        places = zip(*(tokens[i].fields(start, stop) for i, start, stop in zip(samples, starts, stops)))
    fields = zip(starts, stops, kinds, chances.tolist(), *places, map(bool, flags), repeat(()))
    # `Span` itself takes three times as long.
    spans = list(map(partial(tuple.__new__, Span), fields))
    alternatives, ends = (places.tolist() for places in _alternatives(rows, chances))
    others = [spans[k] for k in alternatives]
    for k, begin, end in zip(np.flatnonzero(rows[:, 4]).tolist(), ends, ends[1:]):
        if begin < end:
            spans[k] = tuple.__new__(Span, (*spans[k][:-1], tuple(others[begin:end])))
    bounds = np.searchsorted(rows[:, 0], np.arange(n_samples + 1)).tolist()
    return [spans[first:last] for first, last in pairwise(bounds)]


def _alternatives(rows, chances):
    """Return, for each predicted span, the places of the likely others that share a step with it, as two arrays.

    They are the places of all these, the most probable of each predicted span first, and the ends of its part.
    """
    is_own = rows[:, 4] > 0
    starts, lasts = (_in_line(rows, rows[:, column]) for column in (1, 2))
    likely = np.flatnonzero(~is_own & (chances >= _LIKELY))
    own_starts, own_lasts = starts[is_own], lasts[is_own]
    starts, lasts = starts[likely], lasts[likely]
    longest = int((lasts - starts).max(initial=0))
    begins = np.searchsorted(starts, own_starts - longest)
    lengths = np.searchsorted(starts, own_lasts, side="right") - begins
    others = ragged_indices(begins, lengths)
    which = np.repeat(np.arange(len(lengths)), lengths)
    kept = lasts[others] >= own_starts[which]
    which = which[kept]
    by_chance = np.argsort(-chances[likely], kind="stable")
    ranks = np.empty_like(by_chance)
    ranks[by_chance] = np.arange(len(likely))
    order = np.sort(which * len(likely) + ranks[others[kept]])
    found = likely[by_chance[order % max(len(likely), 1)]]
    return found, offsets(np.bincount(which, minlength=len(lengths)))
