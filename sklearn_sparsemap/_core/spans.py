"""Schemes of labelled spans: which labels begin, continue and end a span, and the spans of label sequences.

Used by `estimators`, `metrics`, `spans` and `structures`.

`metrics/_spans.py` and `estimators/_structured/restrictions.py` read `prefixes`, and call `table` with the names of
rules.

Used by `estimators` and `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from .validation import quoted

_OUTSIDE = 0  # the index of O in all prefixes


def split_label(label, prefixes):
    """Return the index of the prefix of a label, and its type; None if it is not one of these prefixes and a type.

    The first of the `prefixes` is ``O``, the label of steps outside of all spans, which has no type.
    """
    prefix, _, name = label.partition("-") if isinstance(label, str) else ("", "", "")
    is_inside = len(prefix) == 1 and prefix in prefixes[1:]
    return (prefixes.index(prefix), name) if is_inside or label == prefixes[0] else None


@dataclass(frozen=True)
class SpanScheme:
    """How labels such as ``B-PER`` encode spans: rules for pairs of successive labels, and the letters of a span.

    A pair of prefixes such as ``BI`` is followed by ``=`` if both labels must have the same type, by ``/`` if the types
    must differ, and by nothing if types do not matter. A dot is any prefix. Before and after a sequence is ``O``.

    Attributes
    ----------
    prefixes : str
        All prefixes, one letter each; the first is ``O``.
    starts, continues, ends : str
        The pairs whose second label begins a span, whose second label continues the span of the first, and whose first
        label ends a span.
    first, last, single : str
        The letters of the first and the last step of a span, and of a span of one step. Other steps have ``I``.
    only_between : bool
        Whether these letters are used only between two spans of one type that touch; elsewhere it is ``I``.
    """

    prefixes: str
    starts: str
    continues: str
    ends: str
    first: str
    last: str
    single: str
    only_between: bool = False

    @lru_cache  # noqa: B019, the schemes are constants of this module
    def table(self, rule):
        """Return a rule, such as ``"starts"``, as a bool array of shape (n_prefixes, n_prefixes, 2).

        The last index is 1 if the types of the labels are equal.
        """
        table = np.zeros((len(self.prefixes), len(self.prefixes), 2), bool)
        for pair in getattr(self, rule).split():
            before, after = (slice(None) if letter == "." else self.prefixes.index(letter) for letter in pair[:2])
            table[before, after, {"=": 1, "/": 0}.get(pair[2:], slice(None))] = True
        return table

    def letters(self, length, touches_before, touches_after):
        """Return the prefixes of a span of some length; whether spans of its type touch it before and after."""
        if length == 1:
            is_marked = not self.only_between or (touches_before if self.single == self.first else touches_after)
            return [self.single if is_marked else "I"]
        first = self.first if touches_before or not self.only_between else "I"
        last = self.last if touches_after or not self.only_between else "I"
        return [first, *["I"] * (length - 2), last]


# Labels are read as seqeval reads them with mode="strict". Of "iob1" this holds for sequences that the scheme allows;
# seqeval does not know all that "ioe1" allows, such as a span of one step after "O".
SCHEMES = {
    "iob1": SpanScheme("OIB", "OI II/ BI/ IB= BB=", "BI= II=", "II/ IO IB BO BI/ BB=", "B", "I", "B", True),
    "iob2": SpanScheme("OIB", ".B", "BI= II=", "IO II/ IB BO BI/ BB", "B", "I", "B"),
    "ioe1": SpanScheme("OIE", "OI OE II/ IE/ EI= EE=", "II= IE=", "II/ IO IE/ EI= EE=", "I", "E", "E", True),
    "ioe2": SpanScheme("OIE", "OI OE EI EE II/ IE/", "II= IE=", "EO EI EE", "I", "E", "E"),
    "bioes": SpanScheme("OIBES", ".B .S", "BI= BE= II= IE=", "S. E.", "B", "E", "S"),
    "bilou": SpanScheme("OIBLU", ".B .U", "BI= BL= II= IL=", "U. L.", "B", "L", "U"),
}

# The reading of conlleval, and of seqeval by default: a span begins at B and S, at I or E after O, E or S, and wherever
# the type changes. It reads all schemes but BILOU.
_CONLLEVAL = SpanScheme(
    "OBIES",
    ".B .S OI OE EI EE SI SE BI/ BE/ II/ IE/",
    "BI= BE= II= IE=",
    "S. E. BO BB BS BI/ BE/ IO IB IS II/ IE/",
    "B", "I", "B",
)  # fmt: skip
READINGS = {None: _CONLLEVAL, **SCHEMES}
# Names of schemes in public parameters.
NAMED_SCHEMES = {"bio": "iob2", **{name: name for name in SCHEMES}}


class LabelReader:
    """Base of the readers of spans in sequences of labels, which are given by their numbers."""

    def find_in(self, structures):
        """Find the spans of label sequences.

        Parameters
        ----------
        structures : list of int arrays

        Returns
        -------
        which, starts, lasts, types : int arrays of shape (n_spans,)
            The number of the sequence, the first and the last step of each span, and its type.
        """
        lengths = np.array([len(own) for own in structures], dtype=np.int64)
        starts, lasts, types = self.find(np.concatenate([*structures, np.zeros(0, np.int64)]), lengths)
        which = np.repeat(np.arange(len(lengths)), lengths)[starts]
        before = (np.cumsum(lengths) - lengths)[which]
        return which, starts - before, lasts - before, types


class SpanReader(LabelReader):
    """The spans of sequences of some labels.

    `structures/_chain/spans.py` reads the attributes, and `metrics/_spans.py` and `estimators/_structured/spans.py`
    those for types.

    Parameters
    ----------
    labels : iterable of str
        Distinct labels. Sequences have their numbers.
    scheme : str or None
        A key of `READINGS`.

    Attributes
    ----------
    names : list of str
        The types.
    prefixes, types : int arrays of shape (n_labels,)
        For each label, the index of its prefix in those of the scheme, and the index of its type in `names`.

    Raises
    ------
    ValueError
        If a label is no label of the scheme.
    """

    def __init__(self, labels, scheme):
        self._rules = READINGS[scheme]
        letters = self._rules.prefixes
        numbers = {}
        prefixes = []
        types = []
        for label in labels:
            if not isinstance(label, str):
                raise ValueError(f"labels of spans must be strings such as 'B-NP' or 'O'; got {label!r}")
            split = split_label(label, letters)
            if split is None:
                of_scheme = "" if scheme is None else f" of the scheme {scheme!r}"
                raise ValueError(
                    f"cannot read the label {quoted(label)} as part of a span{of_scheme}: labels are 'O' or one of "
                    f"{', '.join(letters[1:])} followed by '-' and a type, such as 'I-NP'"
                )
            prefixes.append(split[0])
            # The type of an outside label has no effect, because it starts no span.
            types.append(numbers.setdefault(split[1], len(numbers)))
        self.prefixes = np.array(prefixes, dtype=np.int64)
        self.types = np.array(types, dtype=np.int64)
        self.names = list(numbers)

    def pairs(self, rule):
        """Return a rule, such as ``"starts"``, for pairs of labels: bool array of shape (n_labels + 1, n_labels + 1).

        The last row and column are the sides of a sequence.
        """
        prefixes = np.append(self.prefixes, _OUTSIDE)
        types = np.append(self.types, -1)
        return self._rules.table(rule)[prefixes[:, None], prefixes, (types[:, None] == types).astype(np.int64)]

    def find(self, codes, lengths):
        """Find the spans of label sequences, one after the other in one array.

        Parameters
        ----------
        codes : int array
            The numbers of the labels.
        lengths : int array
            Numbers of steps of the sequences.

        Returns
        -------
        starts, lasts, types : int arrays of shape (n_spans,)
            First and last steps, in the array of all sequences, and the types.
        """
        n = len(codes)
        prefixes = self.prefixes[codes]
        types = self.types[codes]
        is_first = np.zeros(n, bool)
        is_first[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
        before = np.full(n, _OUTSIDE)
        same = np.zeros(n, bool)
        before[1:] = prefixes[:-1]
        same[1:] = types[1:] == types[:-1]
        before[is_first], same[is_first] = _OUTSIDE, False
        pairs = before, prefixes, same.astype(np.int64)
        starts = np.flatnonzero(self._rules.table("starts")[pairs])
        # A span ends before the next label that does not continue it.
        breaks = np.append(np.flatnonzero(~self._rules.table("continues")[pairs]), n)
        lasts = breaks[np.searchsorted(breaks, starts, side="right")] - 1
        # The label after the last one of a sequence is outside.
        at_end = lasts == n - 1
        after = np.where(at_end, 0, lasts + 1)
        at_end |= is_first[after] if n else False
        is_end = self._rules.table("ends")[
            prefixes[lasts],
            np.where(at_end, _OUTSIDE, prefixes[after]),
            np.where(at_end, 0, types[lasts] == types[after]),
        ]
        starts, lasts = starts[is_end], lasts[is_end]
        return starts, lasts, types[starts]


class RunReader(LabelReader):
    """The spans of sequences whose spans are runs of equal labels; those of the label ``"O"`` are outside of all.

    It has the methods and the attributes for types of `SpanReader`; each label is a type.
    """

    def __init__(self, labels):
        self.names = list(labels)
        self.is_inside = np.array([not (isinstance(label, str) and label == "O") for label in self.names])

    def find(self, codes, lengths):
        """Find the spans of label sequences; see `SpanReader.find`."""
        starts_run = np.ones(len(codes), bool)
        starts_run[1:] = codes[1:] != codes[:-1]
        starts_run[(np.cumsum(lengths) - lengths)[lengths > 0]] = True
        starts = np.flatnonzero(starts_run)
        lasts = np.append(starts[1:], len(codes))[: len(starts)] - 1
        types = codes[starts]
        inside = self.is_inside[types]
        return starts[inside], lasts[inside], types[inside]


def scheme_of(labels):
    """Return the reading of labels whose scheme is not known: ``"bilou"`` if some have its own letters, else None."""
    letters = SCHEMES["bilou"].prefixes
    own = [
        label for label in labels if isinstance(label, str) and label[:1] in ("L", "U") and split_label(label, letters)
    ]
    return "bilou" if own else None


def write_spans(n_steps, starts, lasts, names, scheme, firsts=(0,)):
    """Return the labels of spans in a scheme.

    Parameters
    ----------
    n_steps : int
    starts, lasts : sequences of int
        First and last steps of the spans, in their order.
    names : sequence of str
        Their types.
    scheme : str
        A key of `SCHEMES`.
    firsts : sequence of int, default=(0,)
        The first steps of sequences, if there are several in one list.

    Returns
    -------
    labels : list of str
    """
    rules = SCHEMES[scheme]
    labels = ["O"] * n_steps
    firsts = set(firsts)
    pairs = zip(starts, lasts, names)
    # Whether each two successive spans touch and have the same type.
    touches = [
        last + 1 == start and before == name and start not in firsts
        for (_, last, before), (start, _, name) in pairwise(pairs)
    ]
    for start, last, name, before, after in zip(starts, lasts, names, [False, *touches], [*touches, False]):
        suffix = f"-{name}" if name else ""
        letters = rules.letters(last + 1 - start, before, after)
        labels[start : last + 1] = [letter + suffix for letter in letters]
    return labels
