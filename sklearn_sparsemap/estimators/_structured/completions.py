"""Partially known structures: the parts that known labels, heads or partners forbid."""

import re
from contextlib import contextmanager

import numpy as np

from ..._core.validation import quoted
from ...training._structure_task import UNKNOWN
from .labels import codes_of, flatten_labels


@contextmanager
def blamed_on_known(known, constraints=None):
    """Replace errors of infeasible scores by messages about the known entries, or about the constraints on labels."""
    try:
        yield
    except ValueError as error:
        sample = re.match(r"infeasible: (?:under )?scores(?:\[(\d+)\])?", str(error))
        if sample is None or (known is None and constraints is None):
            raise
        if known is None:
            raise ValueError(
                f"constraints={constraints!r} allow no sequence of labels for X[{sample.group(1) or 0}], which has too "
                "few steps, or too many; give the model more labels to choose from, or set constraints=None"
            ) from error
        raise ValueError(
            f"no structure, or none that the model allows, agrees with known[{sample.group(1) or 0}]; replace more "
            "entries by None"
        ) from error


@contextmanager
def blamed_on_gold():
    """Let messages about known entries, and about gold structures of a loss, name the structures `y`."""
    try:
        yield
    except ValueError as error:
        message = re.sub(r"\b(?:known|gold)\[", "y[", str(error))
        if message == str(error):
            raise
        raise ValueError(message) from error


def check_known_length(known, n_samples):
    """Raise ValueError unless `known` is a sequence with one entry for each sample."""
    if not hasattr(known, "__len__") or isinstance(known, str | dict):
        raise ValueError(f"known must be a sequence with one partially known structure for each sample; got {known!r}")
    if len(known) != n_samples:
        raise ValueError(f"known has {len(known)} entries for {n_samples} samples; use None where nothing is known")


def forbid_others(structure, X, classes, known, scores):
    """Return a copy of the scores, with -inf for parts that contradict the known entries.

    Parameters
    ----------
    structure : Structure
    X : RaggedArray
    classes : array or None
    known : sequence
        For each sample, a structure with None for unknown entries, or None if nothing is known.
    scores : array of shape (n_rows, n_outputs)

    Returns
    -------
    scores : array of shape (n_rows, n_outputs)

    Raises
    ------
    ValueError
        If `known` does not match the samples.
    """
    check_known_length(known, len(X))
    scores = scores.copy()
    if structure.labelled:
        filled = [[None] * n if own is None else own for own, n in zip(known, X.lengths.tolist())]
        try:
            labels = flatten_labels(filled, X.lengths)
        except ValueError as error:
            raise ValueError(str(error).replace("y[", "known[")) from None
        codes = codes_of(labels, classes, unknown=True)
        if (codes == -1).any():
            row = int(np.argmax(codes == -1))
            i = int(np.searchsorted(X.indptr, row, side="right") - 1)
            raise ValueError(f"known[{i}] has the label {quoted(labels[row])}, which is not in classes_; use None")
        rows = np.flatnonzero(codes != UNKNOWN)
        kept = scores[rows, codes[rows]]
        scores[rows] = -np.inf
        scores[rows, codes[rows]] = kept
        return scores
    if not structure.parts_can_be_known:
        raise ValueError(
            f"known is for structures made of labels, trees without labels, and matchings; got {structure!r}"
        )
    for i, own in enumerate(known):
        if own is None:
            continue
        shape = structure.scores_shape(tuple(X.grids[i].tolist()), 1)
        first, last = X.indptr[i], X.indptr[i + 1]
        try:
            forbidden = structure.forbidden_by(list(own), shape)
        except ValueError as error:
            raise ValueError(f"known[{i}]: {error}") from None
        scores[first:last][forbidden.reshape(-1)] = -np.inf
    return scores
