"""Sentences of the pages whose figures come from records: dashboard.py writes the figures into them.

A quote is a page, the sentence with a field for each figure, and the records that it reads, by script, data, measure
and peer, or by script, task, data, measure and peer. Fields of a record are ours, theirs, ratio, inverse
(theirs / ours), gain (ours - theirs) and interval. A sentence may be broken over lines, and stands in its page once. In
a table the width of a cell is kept. A quote whose records do not exist yet is left as it is.
"""

import re
from string import Formatter
from typing import NamedTuple

import results

NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?: +(?= ))?"


class Quote(NamedTuple):
    """A sentence of a page, and the records that its fields name: tuples of script, data, measure and peer."""

    page: str
    text: str
    records: dict


def fields_of(record):
    """Return the figures of a record that a sentence may name."""
    found = {key: record[key] for key in ("ours", "theirs", "ratio", "interval")}
    if record["theirs"]:
        found |= {"inverse": record["theirs"] / record["ours"], "gain": record["ours"] - record["theirs"]}
    return found


def find(quote, by_script):
    """Return the fields of the records of a quote, by their names in it; None if one does not exist."""
    found = {}
    for name, (script, *identity) in quote.records.items():
        own = [r for r in by_script.get(script, ()) if list(results.identity(r))[-len(identity) :] == list(identity)]
        if not own:
            return None
        found[name] = fields_of(own[0])
    return found


def fill(text, quote, values):
    """Return the text of a page with the figures of a quote."""
    pieces, pattern = list(Formatter().parse(quote.text)), ""
    for literal, field, _, _ in pieces:
        pattern += "(" + re.sub(r"(?:\\\s)+", r"\\s+", re.escape(literal)) + ")" + (f"({NUMBER})" if field else "")
    places = list(re.finditer(pattern, text))
    if len(places) != 1:
        raise ValueError(f"{quote.page} has this sentence {len(places)} times instead of once: {quote.text}")
    (place,) = places
    new, group = "", 0
    for _, field, spec, _ in pieces:
        new += place[group + 1]
        group += 1
        if field:
            older = place[group + 1]
            group += 1
            figure = format(Formatter().get_field(field, (), values)[0], spec)
            new += figure.ljust(len(older)) if older.endswith(" ") else figure
    return text[: place.start()] + new + text[place.end() :]


def pages(by_script):
    """Return the texts of all pages with quotes, with the figures of the records, by path."""
    texts = {}
    for quote in QUOTES:
        path = results.ROOT / quote.page
        text = texts.setdefault(path, path.read_text(encoding="utf-8"))
        values = find(quote, by_script)
        if values is not None:
            texts[path] = fill(text, quote, values)
    return texts


CHUNKING = ("chunking", "CoNLL-2000, 72 templates")
PERCEPTRON = "CRFsuite averaged perceptron, 10 epochs"
DICTS = ("token_dicts", "CoNLL-2000, features of a tutorial")
TUTORIAL = "CRFsuite, L-BFGS, as in its tutorial"
PATHS, KNAPSACKS = (("decisions", f"{kind}, mean of all problems") for kind in ("path", "knapsack"))
SPO = "PyEPO SPO+, rate 0.01"
TEN = "mean of 10 sets"
ONE_VS_REST = "one-vs-rest, tuned (scikit-learn)"
GRAPHS = "SparseMAP, no edges"
SEEN = "SparseMAP, no edges, L-BFGS, seen sets"


def scores_of(model):
    data = f"letters, one fold, {model}"
    return {"a": ("score_models", data, "letters right", ""), "t": ("score_models", data, "CPU time of fit", "")}


def edges_of(data):
    return {
        f"{kind}{place}": ("label_graphs", data, f"{measure}, {what}", GRAPHS)
        for kind, what in (("graph", "SparseMAP, full"), ("seen", SEEN))
        for place, measure in enumerate(("example F1", "whole sets"))
    }


def windows_of(average):
    return {
        f"{loss[0]}{place}": (
            "streams",
            f"streams: flat {loss}, development",
            "mean of five changes",
            f"accuracy, {measure}",
            average,
        )
        for loss in ("sparsemap", "crf")
        for place, measure in enumerate(("before", "ten batches after", "end"))
    }


def vectors_of(features):
    return {
        f"{kind[0]}{n}": (
            "word_vectors",
            f"UD English EWT, {kind}, {size} sentences",
            f"{measure}, {features}",
            "templates",
        )
        for n, size in enumerate(("500", "2,000"))
        for kind, measure in (("tags", "accuracy"), ("names", "span F1"))
    }


def first_uses(task, **names):
    return {key: ("compile", task, name, "CPU time with an empty cache", "") for key, name in names.items()}


EDGES = (
    "{graph0[gain]:+.1f} ± {graph0[interval]:.1f}, {graph1[gain]:+.1f} ± {graph1[interval]:.1f} "
    "{seen0[gain]:+.1f} ± {seen0[interval]:.1f}, {seen1[gain]:+.1f} ± {seen1[interval]:.1f}"
)
FOUR = "{t0[ours]:.1f} {n0[ours]:.1f} {t1[ours]:.1f} {n1[ours]:.1f}"
INDEX = "benchmarks/README.md"
QUOTES = (
    Quote("README.md", "span F1 {f[ours]:.2f} %, and {f[theirs]:.2f} % by CRFsuite's averaged perceptron, which takes "
          "{t[inverse]:.1f} times as long",
          {"f": (*CHUNKING, "span F1", PERCEPTRON), "t": (*CHUNKING, "training", PERCEPTRON)}),
    Quote("README.md", "example F1 {f[ours]:.2f} %, and {f[theirs]:.2f} % by one-vs-rest with tuned penalties",
          {"f": ("label_sets", TEN, "example F1", ONE_VS_REST)}),
    Quote("README.md", "regret (lower is better) {r[ours]:.2f} %, and {r[theirs]:.2f} % by PyEPO's SPO+",
          {"r": (*PATHS, "normalised regret", SPO)}),
    Quote("doc/install.rst", "\nchain {a[ours]:.0f}\nits derivatives {b[ours]:.0f}\nits training {c[ours]:.0f}\n"
          "tree {d[ours]:.0f}\nfactor graph of rules {e[ours]:.0f}\nits derivatives {f[ours]:.0f}\n"
          "label sets {g[ours]:.0f}\ngroup lasso {h[ours]:.0f}\n",
          first_uses("first use", a="chain", b="its vjp", c="chain fit", d="tree", e="logic graph", f="its vjp ",
                     g="multilabel", h="group lasso")),
    Quote("doc/install.rst", "All of them take {a[ours]:.0f} seconds", first_uses("first use", a="all")),
    Quote("doc/install.rst", "the three programs of the README {a[ours]:.0f}, {b[ours]:.0f} and {c[ours]:.0f}, and a "
          "tree with budgets in a factor graph {t[ours]:.0f}",
          first_uses("first use alone", a="README, snippet 1", b="README, snippet 2", c="README, snippet 3",
                     t="tree in a graph")),
    Quote("doc/guide/decisions.rst", "the mean regret is {a[ours]:.1f} %. PyEPO's SPO+ has {a[theirs]:.1f} % and "
          "{b[theirs]:.1f} % with two learning rates, in {t[inverse]:.0f} times the time, and linear regression has "
          "{c[theirs]:.1f} %",
          {"a": (*PATHS, "normalised regret", SPO), "b": (*PATHS, "normalised regret", "PyEPO SPO+, rate 0.1"),
           "t": (*PATHS, "CPU time of training", SPO), "c": (*PATHS, "normalised regret", "linear regression")}),
    *(Quote("doc/guide/score_models.rst", f"\n{cell} {{a[ours]:.1f}} {{t[ours]:.1f}}\n", scores_of(model))
      for cell, model in (
          ("linear", "linear"), ('linear, ``loss="crf"``', "linear, crf"), ("network", "network"),
          ("the same network in PyTorch", "network in PyTorch"), ("trees", "trees"),
          ("``ExtraTreesClassifier(200)``", "ExtraTrees(200) under a chain"),
          ("``ExtraTreesClassifier(200)`` alone", "ExtraTrees(200) alone"))),
    *(Quote("doc/guide/label_sets.rst", f"\n{cell} {EDGES}", edges_of(data))
      for cell, data in (("emotions", "emotions"), ("yeast", "yeast"), ("generated", "generated-12"),
                         ("tmc2007-500, 1,000", "tmc2007-500/1000"), ("Enron_corr", "Enron_corr"))),
    *(Quote("doc/guide/streams.rst", f"\n{cell} {{s0[{of}]:.1f}}, {{s1[{of}]:.1f}}, {{s2[{of}]:.1f}} "
            f"{{c0[{of}]:.1f}}, {{c1[{of}]:.1f}}, {{c2[{of}]:.1f}}\n", windows_of(average))
      for cell, of, average in (
          ('``"recent"``', "ours", "average=True"), ("``True``", "theirs", "average=True"),
          ("``False``", "theirs", "average=False"), ("exponential, mean age 5", "theirs", "exponential, 5 batches"),
          ("exponential, mean age 20", "theirs", "exponential, 20"),
          ("exponential, mean age 80", "theirs", "exponential, 80"), ("windows that double", "theirs", "doubling"))),
    Quote("doc/guide/large_data.rst", "Serial training reaches {a[ours]:.2f} in eight epochs, four shards "
          "{b[ours]:.2f} in eight rounds",
          {"a": ("scale", "CoNLL-2000, mixing", "span F1 after 8 epochs or rounds, serial", ""),
           "b": ("scale", "CoNLL-2000, mixing", "span F1 after 8 epochs or rounds, 4 shards, 1 mixes a round", "")}),
    Quote("doc/guide/feature_groups.rst", "finds more: {a[ours]:.0f} % from 1,000 samples, where batch group lasso of "
          "the same number of groups finds {a[theirs]:.0f} %",
          {"a": ("group_recovery", "1,000 samples, correlation 0.95", "schedule auto", "batch group lasso")}),
    Quote("doc/jobs/serve_and_review.rst", "its probabilities are {a[ours]:.0f} points off on average for phrases, and "
          "{b[ours]:.0f} for names. SparseMAP, whose probabilities are often exactly 0 or 1, is {c[ours]:.0f} and "
          "{d[ours]:.0f} points off",
          {name: ("spans", f"{data}, {loss}", "calibration error", "best temperature")
           for name, loss, data in (("a", "crf", "CoNLL-2000"), ("b", "crf", "CoNLL-2002"),
                                    ("c", "sparsemap", "CoNLL-2000"), ("d", "sparsemap", "CoNLL-2002"))}),
    *(Quote("doc/jobs/word_vectors.rst", f"\n{cell} {FOUR}", vectors_of(features))
      for cell, features in (
          ("and character 2-5-grams", "character n-grams"), ("and clusters, ``window=2``", "clusters, window 2"),
          ("and clusters, ``window=0``", "clusters, window 0"), ("and vectors", "vectors"))),
    Quote(INDEX, "{f[ours]:.2f}, CRFsuite's perceptron {f[theirs]:.2f} in {t[inverse]:.1f} times the time",
          {"f": (*CHUNKING, "span F1", PERCEPTRON), "t": (*CHUNKING, "training", PERCEPTRON)}),
    Quote(INDEX, "{t[ratio]:.2f} of the time of CRFsuite's tutorial, F1 {f[gain]:.2f} higher",
          {"f": (*DICTS, "span F1, crf", TUTORIAL), "t": (*DICTS, "CPU time of the whole run, crf", TUTORIAL)}),
    Quote(INDEX, "{c[ratio]:.1f} times the time of CRFsuite, {s[ratio]:.1f} times that of scikit-learn",
          {"c": ("latency", "sentences of 15 tokens", "CPU time of a prediction, p50", "CRFsuite"),
           "s": ("latency", "sentences of 15 tokens", "CPU time of a prediction, p50",
                 "DictVectorizer, LogisticRegression")}),
    Quote(INDEX, "{t[ratio]:.2f} of its time for an iteration",
          {"t": ("crf", "CoNLL-2000, 1,000 sentences", "CPU time of an iteration", "CRFsuite")}),
    Quote(INDEX, "{a[ours]:.1f} and {a[theirs]:.1f} % of the letters",
          {"a": ("ocr", "OCR letters, fold 0", "letters right", "the same classifier, letter by letter")}),
    Quote(INDEX, "F1 {f[gain]:.0f} points above tuned one-vs-rest on average",
          {"f": ("label_sets", TEN, "example F1", ONE_VS_REST)}),
    Quote(INDEX, "regret {a[ours]:.1f} % on paths, PyEPO {a[theirs]:.1f} % in {t[inverse]:.0f} times the time",
          {"a": (*PATHS, "normalised regret", SPO), "t": (*PATHS, "CPU time of training", SPO)}),
    Quote(INDEX, "{n[ours]:,.0f} examples a second in {m[ours]:.0f} MB",
          {"n": ("stream", "10,000,000 hashed examples", "throughput", ""),
           "m": ("stream", "10,000,000 hashed examples", "peak memory", "")}),
)  # fmt: skip
