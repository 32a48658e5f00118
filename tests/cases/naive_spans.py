"""Spans by their definition: all label sequences, and the spans in each of them."""

from itertools import pairwise, product

import numpy as np

# For each scheme, whether the second of two prefixes starts a span, continues that of the first, and whether the first
# ends one, given whether the types are the same. The scheme None is that of conlleval.
RULES = {
    None: (
        lambda p, q, same: q != "O" and (q in "BS" or p in "OES" or not same),
        lambda p, q, same: p in "BI" and q in "IE" and same,
        lambda p, q, same: p != "O" and not (p in "BI" and q in "IE" and same),
    ),
    "iob1": (
        lambda p, q, same: (q == "I" and (p == "O" or not same)) or (q == "B" and p != "O" and same),
        lambda p, q, same: p != "O" and q == "I" and same,
        lambda p, q, same: p != "O" and not (q == "I" and same),
    ),
    "iob2": (
        lambda p, q, same: q == "B",
        lambda p, q, same: p != "O" and q == "I" and same,
        lambda p, q, same: p != "O" and not (q == "I" and same),
    ),
    "ioe1": (
        lambda p, q, same: q != "O" and (p == "O" or (p == "I" and not same) or (p == "E" and same)),
        lambda p, q, same: p == "I" and q != "O" and same,
        lambda p, q, same: (p == "I" and (q == "O" or not same)) or (p == "E" and q != "O" and same),
    ),
    "ioe2": (
        lambda p, q, same: q != "O" and (p in "OE" or not same),
        lambda p, q, same: p == "I" and q != "O" and same,
        lambda p, q, same: p == "E",
    ),
    "bioes": (
        lambda p, q, same: q in "BS",
        lambda p, q, same: p in "BI" and q in "IE" and same,
        lambda p, q, same: p in "ES",
    ),
    "bilou": (
        lambda p, q, same: q in "BU",
        lambda p, q, same: p in "BI" and q in "IL" and same,
        lambda p, q, same: p in "LU",
    ),
}


def spans_in(labels, scheme):
    """Return the spans (start, stop, type) of one label sequence, by the rules for pairs of labels."""
    starts, continues, ends = RULES[scheme]
    split = ["O", *labels, "O"]
    pairs = [(a[0], b[0], a[1:] == b[1:]) for a, b in pairwise(split)]
    found = set()
    for start in range(len(labels)):
        for stop in range(start + 1, len(labels) + 1):
            inside = all(continues(*pairs[i]) for i in range(start + 1, stop))
            if starts(*pairs[start]) and inside and not continues(*pairs[stop]) and ends(*pairs[stop]):
                found.add((start, stop, labels[start][2:]))
    return found


def runs_in(labels):
    """Return the runs (start, stop, label) of equal labels, except those of O."""
    found = set()
    start = 0
    for i in range(1, len(labels) + 1):
        if i == len(labels) or labels[i] != labels[start]:
            found |= {(start, i, labels[start])} if labels[start] != "O" else set()
            start = i
    return found


class AllSequences:
    """All sequences of some labels of one length, and the spans in them."""

    def __init__(self, labels, n_steps, spans_of):
        self.codes = np.array(list(product(range(len(labels)), repeat=n_steps)))
        each = [spans_of([labels[code] for code in codes]) for codes in self.codes]
        self.spans = sorted(set().union(*each))
        self.incidence = np.array([[span in own for span in self.spans] for own in each]).reshape(len(each), -1)

    def scores(self, unary, transitions, start, end):
        """Return the scores of all sequences under a chain."""
        steps = np.arange(len(unary))
        total = unary[steps, self.codes].sum(axis=1) + start[self.codes[:, 0]] + end[self.codes[:, -1]]
        return total + transitions[self.codes[:, :-1], self.codes[:, 1:]].sum(axis=1)

    def probabilities(self, scores):
        """Return the probability of each span, given the scores of all sequences: dict."""
        weights = np.exp(scores - scores.max())
        return dict(zip(self.spans, (weights / weights.sum()) @ self.incidence))
