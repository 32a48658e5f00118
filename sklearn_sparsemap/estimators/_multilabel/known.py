"""Label sets of which some labels are known at prediction.

`targets.py` calls `read_known_labels`, and `inference.py` calls `agree`.

Used by `inference.py` and `targets.py`.
"""

import numpy as np
from scipy import sparse

from ..._core.errors import SampleError
from ..._core.indicators import read_known
from ...factors import Exactly, Label
from ...inference._labels import LabelGraph
from .._structured.restrictions import check_known_length
from .data import read_constraints, read_indicator


def read_known_labels(known, classes, n_samples, in_order):
    """Return the argument `known` of `predict` as an int array of shape (n_samples, n_labels): 1, 0, and -1 if unknown.

    Parameters
    ----------
    known : object
        In the user's form.
    classes : array of shape (n_labels,)
    n_samples : int
    in_order : callable
        Puts the columns of a table in the order of `classes`.

    Raises
    ------
    ValueError
        If `known` is not as described for `predict`; the message names the sample.
    """
    labels = classes.tolist()
    values = np.full((n_samples, len(classes)), -1)
    if len(getattr(known, "shape", ())) == 2:
        filled, mask = read_known(in_order(known))
        filled = read_indicator(filled if sparse.issparse(filled) else np.asarray(filled)).toarray()
        if filled.shape != values.shape:
            raise ValueError(f"known has shape {filled.shape}, but there are {values.shape} samples and labels")
        return np.where(True if mask is None else mask, filled, -1).astype(np.int64)
    check_known_length(known, n_samples)
    for i, own in enumerate(known):
        if own is not None and not isinstance(own, dict):
            raise SampleError("known", i, f" is {own!r}; it must be a dict such as {{{labels[0]!r}: True}}, or None")
        for name, value in (own or {}).items():
            if name not in labels or value not in (True, False):
                raise SampleError("known", i, f" has {name!r}: {value!r}; it must map labels in classes_ to bools")
            values[i, labels.index(name)] = value
    return values


def agree(chosen, known, graph, classes, best):
    """Replace label sets that contradict known labels by the best ones that agree with them, in place.

    Parameters
    ----------
    chosen : bool array of shape (n_samples, n_labels)
    known : int array of shape (n_samples, n_labels)
        As `read_known_labels` returns.
    graph : LabelGraph
    classes : array of shape (n_labels,)
    best : callable
        Returns the best label sets of some samples under a graph.

    Returns
    -------
    chosen

    Raises
    ------
    ValueError
        If no set that satisfies the constraints agrees with the known labels of a sample.
    """
    labels = classes.tolist()
    wrong = np.flatnonzero(((known >= 0) & (chosen != known)).any(axis=1))
    patterns, which = np.unique(known[wrong], axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = wrong[which.ravel() == number]
        fixed = np.flatnonzero(pattern >= 0)
        rule = Exactly([Label(labels[j], negated=pattern[j] == 0) for j in fixed], len(fixed))
        with_known = LabelGraph(len(labels), graph.edges, [*graph.constraints, *read_constraints([rule], classes)])
        try:
            with_known.check_feasible()
        except ValueError as error:
            raise SampleError("known", rows[0], f": {error}") from error
        chosen[rows] = best(with_known, rows)
    return chosen
