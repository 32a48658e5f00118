"""Restrictions of structures: constraints on successive labels, and partially known structures to complete.

Used by `estimators/_multilabel`, `base.py`, `face.py` and `targets.py`.
"""

from collections.abc import Iterable, Sized
from contextlib import contextmanager
from itertools import pairwise
from numbers import Integral

import numpy as np

from ..._core.errors import SampleError, naming
from ..._core.spans import NAMED_SCHEMES, SCHEMES, split_label
from ..._core.tables import column_names
from ..._core.validation import quoted
from ..._training._structure_task import UNKNOWN
from .._failures import warn_user

_ALLOWED = f"{', '.join(map(repr, NAMED_SCHEMES))}, or a list of forbidden pairs (from, to)"
_REMEDY = "correct the labels, leave the sample out, or set constraints=None"


class TransitionMask:
    """Forbidden pairs of successive labels; the sides of a sequence count as a label of None.

    Parameters
    ----------
    constraints : str or list of pairs
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
        self.constraints = constraints
        self.labels = [*classes.tolist(), None]
        self.pairs = np.zeros((len(self.labels), len(self.labels)), bool)
        if isinstance(constraints, str):
            self._forbid_by_scheme(constraints)
        else:
            self._forbid_pairs(constraints)

    def _forbid_by_scheme(self, name):
        if name not in NAMED_SCHEMES:
            raise ValueError(f"constraints={name!r} is not {_ALLOWED}")
        scheme = SCHEMES[NAMED_SCHEMES[name]]
        # Outside of a sequence is like the label "O".
        labels = [*self.labels[:-1], "O"]
        split = [split_label(label, scheme.prefixes) for label in labels]
        if None in split:
            wrong = labels[split.index(None)]
            remedy = "for other labels pass a list of forbidden pairs (from, to)"
            if isinstance(wrong, Integral):
                remedy = (
                    "give integer tags their names: y = [labels_from_tags(tags, names) for tags in y], with "
                    "labels_from_tags of sklearn_sparsemap.spans"
                )
            raise ValueError(
                f"constraints={name!r} need labels that are 'O' or one of {', '.join(sorted(scheme.prefixes[1:]))} "
                f"followed by '-' and a type; got {quoted(wrong)}; {remedy}"
            )
        prefixes, types = (np.array(values) for values in zip(*split))
        pairs = prefixes[:, None], prefixes, (types[:, None] == types).astype(np.int64)
        continues, starts, ends = (scheme.table(rule)[pairs] for rule in ("continues", "starts", "ends"))
        is_outside = prefixes == 0
        self.pairs = ~(continues | ((is_outside[:, None] | ends) & (is_outside | starts)))

    def _forbid_pairs(self, constraints):
        is_table = column_names(constraints, "constraints") is not None
        pairs = list(constraints) if isinstance(constraints, Iterable) and not is_table else [None]
        if any(not isinstance(pair, tuple | list) or len(pair) != 2 or pair[0] is pair[1] is None for pair in pairs):
            raise ValueError(
                f"constraints must be {_ALLOWED}, with None for the start and the end; got {quoted(constraints)}"
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

    def broken(self, codes):
        """Return the forbidden pairs in one sequence of codes, each once, as texts."""
        side = len(self.labels) - 1
        pairs = pairwise([side, *codes.tolist(), side])
        names = [*map(str, self.labels[:-1]), "the sides"]
        return list(dict.fromkeys(f"{names[j]} after {names[i]}" for i, j in pairs if self.pairs[i, j]))

    def check(self, codes):
        """Raise ValueError if gold labels violate the constraints. Pairs with an unknown label are not checked.

        Parameters
        ----------
        codes : RaggedArray of int
        """
        # Each sequence, with its sides: sample i has one more pair than steps.
        first = codes.indptr[:-1]
        side = len(self.labels) - 1
        before = np.insert(codes.values, first, side)
        after = np.insert(codes.values, codes.indptr[1:], side)
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
        raise SampleError(
            "y",
            i,
            f" has the label {fault} in step {step}, which constraints={quoted(self.constraints)} forbid{more}; "
            f"{_REMEDY}",
        )


@contextmanager
def explain_infeasible(indices=None, known=None, constraints=None):
    """Let errors of inference name samples of X, or the known entries or constraints on labels that are at fault.

    Parameters
    ----------
    indices : sequence of int, default=None
        The index in X of each sample that inference gets. By default, it gets all samples.
    known : sequence, default=None
        The argument of `predict`.
    constraints : object, default=None
        The parameter of the estimator.
    """
    try:
        with naming(indices):
            yield
    except SampleError as error:
        if error.argument == "scores":
            error.argument = "X"
            error.remedy = error.model_remedy
            if error.infeasible and known is not None:
                error.argument = "known"
                error.message = (
                    "no structure, or none that the model allows, agrees with ",
                    "; replace more entries by None",
                )
                error.remedy = ""
            elif error.infeasible and constraints is not None:
                error.message = (
                    f"constraints={constraints!r} allow no sequence of labels for ",
                    ", which has too few steps, or too many; give the model more labels to choose from, or set "
                    "constraints=None",
                )
                error.remedy = ""
            else:
                *before, last = error.message
                error.message = (*(text + "the scores of " for text in before), last)
        raise


def check_known_length(known, n_samples):
    """Raise ValueError unless `known` is a sequence with one entry for each sample."""
    if not isinstance(known, Sized) or isinstance(known, str | dict) or hasattr(known, "columns"):
        raise ValueError(
            f"known must be a sequence with one partially known structure for each sample; got {quoted(known)}"
        )
    if len(known) != n_samples:
        raise ValueError(f"known has {len(known)} entries for {n_samples} samples; use None where nothing is known")
