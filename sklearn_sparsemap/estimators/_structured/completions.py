"""What is known of structures: some labels, heads or partners, and what that forbids."""

import re
from contextlib import contextmanager

import numpy as np

from ..._validation import quoted
from ...structures import DependencyTree, Matching
from ...training._structure_task import UNKNOWN
from .labels import codes_of, flatten_labels


@contextmanager
def blamed_on_known(known):
    """Within this context it is said that what is known of a sample goes with no structure, not that scores do not."""
    try:
        yield
    except ValueError as error:
        sample = re.match(r"infeasible: scores(?:\[(\d+)\])?", str(error))
        if known is None or sample is None:
            raise
        raise ValueError(
            f"known[{sample.group(1) or 0}] goes with no structure, or with none that the model allows; leave more of "
            "it open by None"
        ) from error


def codes_where_known(labels, classes):
    """Return the codes of labels as `codes_of` does; of None it is `UNKNOWN`."""
    codes = codes_of(labels, classes)
    codes[[i for i, label in enumerate(labels) if label is None]] = UNKNOWN
    return codes


def forbid_others(structure, X, classes, known, scores):
    """Return scores in which is forbidden what goes against what is known.

    Parameters
    ----------
    structure : Structure
    X : RaggedArray
    classes : array or None
    known : sequence
        For each sample a structure in which None stands for what is open; or None for a sample of which nothing is
        known.
    scores : array of shape (n_rows, n_outputs)

    Returns
    -------
    scores : array of shape (n_rows, n_outputs)

    Raises
    ------
    ValueError
        If `known` does not go with the samples.
    """
    if not hasattr(known, "__len__") or isinstance(known, str | dict):
        raise ValueError(f"known must be a sequence with what is known of each sample; got {known!r}")
    if len(known) != len(X):
        raise ValueError(f"known has {len(known)} entries for {len(X)} samples; use None where nothing is known")
    scores = scores.copy()
    if structure.labelled:
        filled = [[None] * n if own is None else own for own, n in zip(known, X.lengths.tolist())]
        try:
            labels = flatten_labels(filled, X.lengths)
        except ValueError as error:
            raise ValueError(str(error).replace("y[", "known[")) from None
        codes = codes_where_known(labels, classes)
        if (codes == -1).any():
            row = int(np.argmax(codes == -1))
            i = int(np.searchsorted(X.indptr, row, side="right") - 1)
            raise ValueError(f"known[{i}] has the label {quoted(labels[row])}, which is not in classes_; use None")
        rows = np.flatnonzero(codes != UNKNOWN)
        kept = scores[rows, codes[rows]]
        scores[rows] = -np.inf
        scores[rows, codes[rows]] = kept
        return scores
    if not isinstance(structure, DependencyTree | Matching) or structure.row_outputs is not None:
        raise ValueError(
            f"known is for structures made of labels, trees without labels, and matchings; got {structure!r}"
        )
    for i, own in enumerate(known):
        if own is None:
            continue
        shape = structure.scores_shape(tuple(X.grids[i].tolist()), 1)
        first, last = X.indptr[i], X.indptr[i + 1]
        try:
            forbidden = _forbidden(structure, shape, list(own))
        except ValueError as error:
            raise ValueError(f"known[{i}]: {error}") from None
        scores[first:last][forbidden.reshape(-1)] = -np.inf
    return scores


def _forbidden(structure, shape, own):
    """Return the parts of a tree or a matching that go against what is known: bool array of this shape."""
    is_tree = isinstance(structure, DependencyTree)
    n, m = shape
    n_places, lowest, highest = (m, 0, n - 1) if is_tree else (n, -1, m - 1)
    if len(own) != n_places:
        raise ValueError(f"there are {n_places} {'words' if is_tree else 'rows'}; got {len(own)} entries")
    forbidden = np.zeros(shape, bool)
    for place, choice in enumerate(own):
        if choice is None:
            continue
        if isinstance(choice, bool) or int(choice) != choice or not lowest <= choice <= highest:
            what = "the head of a word" if is_tree else "the column of a row"
            raise ValueError(f"{what} is None, or an int from {lowest} to {highest}; got {choice!r}")
        if is_tree:
            forbidden[:, place] = np.arange(n) != choice
        else:
            forbidden[place] |= np.arange(m) != choice
            if choice >= 0:
                forbidden[:, int(choice)] |= np.arange(n) != place
    return forbidden
