"""Schemes of labelled spans: which labels begin, continue and end a span.

`metrics/_spans.py` and `estimators/_structured/restrictions.py` read `prefixes`, and call `table` with the names of
rules.

Used by `estimators` and `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np


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
