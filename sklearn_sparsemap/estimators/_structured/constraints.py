"""Constraints on label sequences: forbidden transitions, first labels and last labels."""

import numpy as np

from ..._core.validation import quoted
from ...training._structure_task import UNKNOWN
from .._failures import warn_user

# The prefixes of labels in each scheme. The label "O" is outside of all spans.
_PREFIXES = {"bio": "BI", "bioes": "BIES"}
_REMEDY = "correct the labels, leave the sample out, or set constraints=None"


class Forbidden:
    """Forbidden pairs of successive labels; the sides of a sequence count as a label of None.

    Parameters
    ----------
    constraints : {"bio", "bioes"} or list of pairs
        As the parameter of `StructuredSparseMAPClassifier`.
    classes : array of shape (n_classes,)

    Attributes
    ----------
    pairs : bool array of shape (n_classes + 1, n_classes + 1)
        Whether the label of the column must not follow the label of the row. The last row and column are the sides.

    Raises
    ------
    ValueError
        If the constraints are not of that form, or do not fit the labels.
    """

    def __init__(self, constraints, classes):
        self.constraints, self.labels = constraints, [*classes.tolist(), None]
        self.pairs = np.zeros((len(self.labels), len(self.labels)), bool)
        if isinstance(constraints, str):
            self._forbid_by_scheme(constraints)
        else:
            self._forbid_pairs(constraints)

    def _forbid_by_scheme(self, scheme):
        if scheme not in _PREFIXES:
            raise ValueError(f"constraints={scheme!r} is not 'bio', 'bioes', or a list of forbidden pairs (from, to)")
        # Outside of a sequence is like the label "O".
        labels = [*self.labels[:-1], "O"]
        prefixes, types = np.array([_split_label(label, scheme) for label in labels]).T
        is_inside = np.isin(prefixes, ("B", "I"))
        continues = np.isin(prefixes, ("I", "E"))
        self.pairs = continues & ~(is_inside[:, None] & (types[:, None] == types))
        if scheme == "bioes":
            self.pairs |= is_inside[:, None] & ~continues

    def _forbid_pairs(self, constraints):
        pairs = list(constraints) if hasattr(constraints, "__iter__") else [None]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] is pair[1] is None for pair in pairs):
            raise ValueError(
                "constraints must be 'bio', 'bioes', or a list of forbidden pairs (from, to), with None for the start "
                f"and the end; got {quoted(constraints)}"
            )
        unknown = [label for pair in pairs for label in pair if label not in self.labels]
        for before, after in pairs:
            if before in self.labels and after in self.labels:
                self.pairs[self.labels.index(before), self.labels.index(after)] = True
        if unknown:
            warn_user(f"constraints name the label {quoted(unknown[0])}, which is not among the labels of y")

    def mask(self):
        """Return additional scores of a chain: -inf for forbidden transitions and labels, else 0."""
        flat = np.concatenate([self.pairs[:-1, :-1].ravel(), self.pairs[-1, :-1], self.pairs[:-1, -1]])
        return np.where(flat, -np.inf, 0.0)

    def check(self, codes):
        """Raise ValueError if gold labels violate the constraints. Pairs with an unknown label are not checked.

        Parameters
        ----------
        codes : RaggedArray of int
        """
        # Each sequence, with its sides: sample i has one more pair than steps.
        first, side = codes.indptr[:-1], len(self.labels) - 1
        before, after = np.insert(codes.values, first, side), np.insert(codes.values, codes.indptr[1:], side)
        wrong = np.flatnonzero((before != UNKNOWN) & (after != UNKNOWN) & self.pairs[before, after])
        if not len(wrong):
            return
        samples = np.searchsorted(codes.indptr + np.arange(len(codes.indptr)), wrong, side="right") - 1
        i = int(samples[0])
        step = int(wrong[0] - first[i] - i)
        labels = [quoted(self.labels[side_codes[wrong[0]]]) for side_codes in (before, after)]
        if after[wrong[0]] == side:
            step, fault = step - 1, f"{labels[0]} at the end"
        else:
            fault = f"{labels[1]} at the start" if step == 0 else f"{labels[1]} after {labels[0]}"
        n_wrong = len(np.unique(samples))
        more = f" ({n_wrong} of {len(first)} samples violate them)" if n_wrong > 1 else ""
        raise ValueError(
            f"y[{i}] has the label {fault} in step {step}, which constraints={quoted(self.constraints)} forbid{more}; "
            f"{_REMEDY}"
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
