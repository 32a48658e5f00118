"""Slow, obvious twins of the metrics: the state machine of conlleval, label by label."""

from collections import Counter


def naive_accuracy(y_true, y_pred):
    """Fraction of positions and fraction of samples that are right."""
    n_right = n_labels = n_right_samples = 0
    for true, pred in zip(y_true, y_pred):
        all_right = True
        for a, b in zip(true, pred):
            n_labels += 1
            if a == b:
                n_right += 1
            else:
                all_right = False
        n_right_samples += all_right
    return n_right / n_labels, n_right_samples / len(y_true)


def naive_attachment(y_true, y_pred, ignore=None, weights=None):
    """Fraction of words with the right head, word by word."""
    n_right = n_words = 0
    for i, sentence in enumerate(y_true):
        for m, head in enumerate(sentence):
            if ignore is None or not ignore[i][m]:
                weight = 1 if weights is None else weights[i]
                n_words += weight
                n_right += weight * (y_pred[i][m] == head)
    return n_right / n_words


def split_label(label):
    """Cut a label into its prefix and its type."""
    if "-" in label:
        prefix, kind = label.split("-", 1)
        return prefix, kind
    return label, ""


def ends_chunk(prefix_before, prefix, kind_before, kind):
    """Whether a chunk ends between two labels."""
    if prefix_before in ("E", "S"):
        return True
    if prefix_before == "B" and prefix in ("B", "S", "O"):
        return True
    if prefix_before == "I" and prefix in ("B", "S", "O"):
        return True
    return prefix_before != "O" and kind_before != kind


def starts_chunk(prefix_before, prefix, kind_before, kind):
    """Whether a chunk starts at the second of two labels."""
    if prefix in ("B", "S"):
        return True
    if prefix_before in ("E", "S", "O") and prefix in ("E", "I"):
        return True
    return prefix != "O" and kind_before != kind


def naive_span_counts(y_true, y_pred):
    """For each type, the numbers of true, predicted and right spans: three counters."""
    n_true, n_pred, n_right = Counter(), Counter(), Counter()
    for true, pred in zip(y_true, y_pred):
        in_right = False
        before = ("O", ""), ("O", "")
        for labels in [*zip(true, pred), ("O", "O")]:
            now = split_label(labels[0]), split_label(labels[1])
            ends = [ends_chunk(b[0], n[0], b[1], n[1]) for b, n in zip(before, now)]
            starts = [starts_chunk(b[0], n[0], b[1], n[1]) for b, n in zip(before, now)]
            if in_right:
                if ends[0] and ends[1] and before[0][1] == before[1][1]:
                    n_right[before[0][1]] += 1
                    in_right = False
                elif ends[0] != ends[1] or now[0][1] != now[1][1]:
                    in_right = False
            if starts[0] and starts[1] and now[0][1] == now[1][1]:
                in_right = True
            if starts[0]:
                n_true[now[0][1]] += 1
            if starts[1]:
                n_pred[now[1][1]] += 1
            before = now
    return n_true, n_pred, n_right


# For each scheme, pairs of prefixes and whether the types are equal (None: it does not matter): where a span starts,
# goes on, and ends before the second label.
STRICT = {
    "iob2": ([("*", "B", None)], [("BI", "I", True)], [("I", "OB", None), ("I", "I", False), ("B", "OB", None),
             ("B", "I", False)]),
    "ioe2": ([("OE", "IE", None), ("I", "IE", False)], [("I", "IE", True)], [("E", "*", None)]),
    "bioes": ([("*", "BS", None)], [("BI", "IE", True)], [("SE", "*", None)]),
    "bilou": ([("*", "BU", None)], [("BI", "IL", True)], [("UL", "*", None)]),
}  # fmt: skip


def naive_strict_spans(labels, scheme):
    """The spans of a sequence, as a set of (first, after the last, type), label by label."""

    def fits(pairs, before, now):
        (prefix_before, kind_before), (prefix, kind) = split_label(before), split_label(now)
        return any(
            (first == "*" or prefix_before in first)
            and (second == "*" or prefix in second)
            and same in (None, kind == kind_before)
            for first, second, same in pairs
        )

    starts, inside, ends = STRICT[scheme]
    padded, spans, i = ["O", *labels, "O"], set(), 1
    while i <= len(labels):
        stop = i + 1
        if fits(starts, padded[i - 1], padded[i]):
            while stop <= len(labels) and fits(inside, padded[stop - 1], padded[stop]):
                stop += 1
            if fits(ends, padded[stop - 1], padded[stop]):
                spans.add((i - 1, stop - 1, split_label(labels[i - 1])[1]))
        i = stop
    return spans


def naive_f1(n_true, n_pred, n_right):
    """F1 from precision and recall, 0 where one is undefined."""
    if n_right == 0:
        return 0.0
    precision, recall = n_right / n_pred, n_right / n_true
    return 2 * precision * recall / (precision + recall)


def naive_example_f1(y_true, y_pred, weights=None, empty=1.0):
    """F1 of the sets of labels of each sample, from precision and recall; None for `empty` leaves such rows out."""
    total = n = 0
    for i, (true_row, pred_row) in enumerate(zip(y_true, y_pred)):
        true = {j for j, value in enumerate(true_row) if value}
        pred = {j for j, value in enumerate(pred_row) if value}
        if not true and not pred and empty is None:
            continue
        weight = 1 if weights is None else weights[i]
        n += weight
        total += weight * (naive_f1(len(true), len(pred), len(true & pred)) if true or pred else empty)
    return total / n


def naive_precision_at_k(y_true, y_score, k, propensity=None, weights=None):
    """Precision of the k best labels of each row; with propensities relative to the best possible."""
    n_labels, found, best, total = len(y_true[0]), 0.0, 0.0, 0.0
    for i, (row, scores) in enumerate(zip(y_true, y_score)):
        weight = 1.0 if weights is None else weights[i]
        worth = [value / (1.0 if propensity is None else propensity[j]) for j, value in enumerate(row)]
        order = sorted(range(n_labels), key=lambda j: (-scores[j], j))
        found += weight * sum(worth[j] for j in order[:k])
        best += weight * sum(sorted(worth, reverse=True)[:k])
        total += weight * k
    return found / (total if propensity is None else best)


def naive_hierarchical_f1(y_true, y_pred, above):
    """F1 over all rows of the labels with all that are above them; `above` maps a label to its parents."""

    def closed(row):
        found = {j for j, value in enumerate(row) if value}
        while more := {p for j in found for p in above.get(j, ())} - found:
            found |= more
        return found

    rows = [(closed(true), closed(pred)) for true, pred in zip(y_true, y_pred)]
    return naive_f1(*(sum(map(len, sets)) for sets in zip(*rows)), sum(len(true & pred) for true, pred in rows))
