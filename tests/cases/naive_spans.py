"""Spans by their definition: all label sequences, and the spans in each of them."""

from itertools import product

import numpy as np
from internals import READINGS, split_label


def spans_in(labels, scheme):
    """Return the spans (start, stop, type) of one label sequence, by the rules for pairs of labels."""
    rules = READINGS[scheme]
    split = [(0, None), *(split_label(label, rules.prefixes) for label in labels), (0, None)]

    def holds(rule, i):
        """Tell whether the rule holds for label i - 1 and the one before it."""
        (before, one), (after, other) = split[i - 1], split[i]
        is_side = i in (1, len(split) - 1)
        return rules.table(rule)[before, after, int(one == other and not is_side)]

    found = set()
    for start in range(1, len(split) - 1):
        for stop in range(start + 1, len(split)):
            inside = all(holds("continues", i) for i in range(start + 1, stop))
            if holds("starts", start) and inside and not holds("continues", stop) and holds("ends", stop):
                found.add((start - 1, stop - 1, split[start][1]))
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
