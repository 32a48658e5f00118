"""Constraints on label sequences: forbidden transitions, first labels and last labels."""

import numpy as np

from ..._core.validation import quoted
from ...training._structure_task import UNKNOWN
from .._failures import warn_user
from .labels import codes_of

# The prefixes of labels in each scheme. The label "O" is outside of all spans.
_PREFIXES = {"bio": "BI", "bioes": "BIES"}
_REMEDY = "correct the labels, leave the sample out, or set constraints=None"


class Forbidden:
    """Forbidden pairs of successive labels, and labels that must not be first or last.

    Parameters
    ----------
    constraints : {"bio", "bioes"} or list of pairs
        As the parameter of `StructuredSparseMAPClassifier`.
    classes : array of shape (n_classes,)

    Attributes
    ----------
    transitions : bool array of shape (n_classes, n_classes)
        Whether the label of the column must not follow the label of the row.
    start, end : bool arrays of shape (n_classes,)
        Whether a label must not be first, or last.

    Raises
    ------
    ValueError
        If the constraints are not of that form, or do not fit the labels.
    """

    def __init__(self, constraints, classes):
        self.constraints, self.labels = constraints, classes.tolist()
        n = len(classes)
        self.transitions, self.start, self.end = np.zeros((n, n), bool), np.zeros(n, bool), np.zeros(n, bool)
        if isinstance(constraints, str):
            self._forbid_by_scheme(constraints)
        else:
            self._forbid_pairs(constraints, classes)

    def _forbid_by_scheme(self, scheme):
        if scheme not in _PREFIXES:
            raise ValueError(f"constraints={scheme!r} is not 'bio', 'bioes', or a list of forbidden pairs (from, to)")
        prefixes, types = np.array([_split_label(label, scheme) for label in self.labels]).T
        is_inside = np.isin(prefixes, ("B", "I"))
        continues = np.isin(prefixes, ("I", "E"))
        same_type = types[:, None] == types
        self.transitions = continues & ~(is_inside[:, None] & same_type)
        self.start = continues
        if scheme == "bioes":
            self.transitions |= is_inside[:, None] & ~continues
            self.end = is_inside

    def _forbid_pairs(self, constraints, classes):
        pairs = list(constraints) if hasattr(constraints, "__iter__") else [None]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] is pair[1] is None for pair in pairs):
            raise ValueError(
                "constraints must be 'bio', 'bioes', or a list of forbidden pairs (from, to), with None for the start "
                f"and the end; got {quoted(constraints)}"
            )
        unknown = []
        for pair in pairs:
            before, after = codes_of(pair, classes).tolist()
            unknown += [label for label in pair if label is not None and label not in self.labels]
            if None not in pair and min(before, after) >= 0:
                self.transitions[before, after] = True
            elif pair[0] is None and after >= 0:
                self.start[after] = True
            elif pair[1] is None and before >= 0:
                self.end[before] = True
        if unknown:
            warn_user(f"constraints name the label {quoted(unknown[0])}, which is not among the labels of y")

    def mask(self):
        """Return additional scores of a chain: -inf for forbidden transitions and labels, else 0."""
        flat = np.concatenate([self.transitions.ravel(), self.start, self.end])
        return np.where(flat, -np.inf, 0.0)

    def check(self, codes):
        """Raise ValueError if gold labels violate the constraints. Pairs with an unknown label are not checked.

        Parameters
        ----------
        codes : RaggedArray of int
        """
        flat, first = codes.values, codes.indptr[:-1]
        known, last = flat != UNKNOWN, codes.indptr[1:] - 1
        both = np.flatnonzero(known[1:] & known[:-1])
        wrong = np.zeros(len(flat), bool)
        wrong[both + 1] = self.transitions[flat[both], flat[both + 1]]
        wrong[first] = known[first] & self.start[flat[first]]
        ends = known[last] & self.end[flat[last]]
        if not wrong.any() and not ends.any():
            return
        steps = np.append(np.flatnonzero(wrong), last[ends])
        samples = np.searchsorted(codes.indptr, steps, side="right") - 1
        k = int(np.argmin(samples))
        i, step = int(samples[k]), int(steps[k] - first[samples[k]])
        label = quoted(self.labels[flat[steps[k]]])
        if k >= wrong.sum():
            place = "at the end"
        elif step == 0:
            place = "at the start"
        else:
            place = f"after {quoted(self.labels[flat[steps[k] - 1]])}"
        n_wrong = len(np.unique(samples))
        more = f" ({n_wrong} of {len(first)} samples violate them)" if n_wrong > 1 else ""
        raise ValueError(
            f"y[{i}] has the label {label} {place} in step {step}, which constraints={quoted(self.constraints)} "
            f"forbid{more}; {_REMEDY}"
        )


def _split_label(label, scheme):
    """Return the prefix and the type of a label of a scheme."""
    prefix, _, name = label.partition("-") if isinstance(label, str) else ("", "", "")
    if label == "O" or (prefix in _PREFIXES[scheme] and len(prefix) == 1):
        return prefix, name
    prefixes = ", ".join(_PREFIXES[scheme])
    raise ValueError(
        f"constraints={scheme!r} need labels that are 'O' or one of {prefixes} followed by '-' and a type; got "
        f"{quoted(label)}; for other labels pass a list of forbidden pairs (from, to)"
    )
