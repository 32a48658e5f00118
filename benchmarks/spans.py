"""Probabilities of spans: their reliability by data and loss, and the time of `predict_spans`.

    python benchmarks/spans.py

`reliability`: models of some hundred sentences of CoNLL-2000 (phrases), CoNLL-2002 (names) and recipes (the lines of
the package), and the spans of others with a probability of at least 0.01. The calibration error is the mean distance of
the probability and the fraction of spans that are in the gold labels, over ten groups by probability. Half of the other
sentences choose the temperature that has the least squared error of the probabilities, and the rest is the test.
`times`: CPU time compared with `predict`: of a pipeline from words, of the model from features, and for one sentence.
"read" includes that the spans of all sentences are made, which happens when they are read. With SparseMAP,
`predict_marginals`, which solves the same problems, is the peer that the last column names.
"""

import argparse
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll, load_ingredients
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.spans import spans_from_labels

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = [
    *(f"{name}[{k}]" for name in ("word", "shape") for k in (-1, 0, 1)), "suffix3[0]", "prefix2[0]", "word[-1]|word[0]",
]  # fmt: skip
TEMPERATURES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
LOSSES = ("crf", "sparsemap")
LEAST = 0.01


def sentences(name, args):
    """Return sentences and labels to train with, and others."""
    if name == "recipes":
        X, y = load_ingredients()
        return X[:150], y[:150], X[150:], y[150:]
    if name == "CoNLL-2000":
        files = [args.data / "conll2000" / f"{part}.txt.gz" for part in ("train", "test")]
        options = {}
    else:
        files = [args.data / "conll2002" / part for part in ("esp.train.gz", "esp.testb.gz")]
        options = {"encoding": "latin-1"}
    parts = []
    for file, n in zip(files, (args.train, args.test)):
        X, y = load_conll(file, **options)
        parts += [X[:n], y[:n]]
    return parts


def check(model, X, y):
    """Return the probabilities of the listed spans, whether they are in the gold labels, and whether predicted."""
    rows = []
    for found, gold in zip(model.predict_spans(X, min_probability=LEAST), y):
        true = {span[:3] for span in spans_from_labels(gold)}
        rows += [(span.probability, span[:3] in true, span.predicted) for span in found]
    return np.array(rows, float).T


def error_of(chances, hits):
    """Return the calibration error in percent."""
    groups = np.minimum((10 * chances).astype(int), 9)
    counts, sums, found = (np.bincount(groups, w, minlength=10) for w in (np.ones(len(hits)), chances, hits))
    return 100.0 * np.abs(sums - found).sum() / counts.sum()


def reliability(args):
    print("| data, loss | spans | error, % | predicted: mean probability, precision, % | temperature | error, % |")
    print("|---|---|---|---|---|---|")
    for name in args.sets:
        X_train, y_train, X, y = sentences(name, args)
        vectorizer = TemplateVectorizer(TEMPLATES).fit(X_train)
        half = len(X) // 2
        held, test = vectorizer.transform(X[:half]), vectorizer.transform(X[half:])
        for loss in LOSSES:
            model = StructuredSparseMAPClassifier("chain", loss=loss, random_state=0)
            model.fit(vectorizer.transform(X_train), y_train)
            chances, hits, predicted = check(model, test, y[half:])
            before = error_of(chances, hits)
            own = predicted > 0
            errors = []
            for temperature in TEMPERATURES:
                model.set_params(temperature=temperature)
                p, found, _ = check(model, held, y[:half])
                # Spans below the limit, which differ by temperature, count as probability 0.
                n_true = sum(len(spans_from_labels(gold)) for gold in y[:half])
                errors.append(((p - found) ** 2).sum() + n_true - found.sum())
            best = TEMPERATURES[int(np.argmin(errors))]
            model.set_params(temperature=best)
            after = error_of(*check(model, test, y[half:])[:2])
            means = f"{100 * chances[own].mean():.1f}, {100 * hits[own].mean():.1f}"
            print(f"| {name}, {loss} | {len(hits)} | {before:.1f} | {means} | {best} | {after:.1f} |", flush=True)
            results.record("Spans", f"{name}, {loss}", "calibration error", before, "%", "best temperature", after)


def least_time(call, rounds):
    times = []
    for _ in range(rounds):
        began = process_time()
        call()
        times.append(process_time() - began)
    return 1000.0 * min(times)


def times(args):
    print("| data, loss, part | predict, ms | predict_spans | ratio | read, ratio | predict_marginals, ratio |")
    print("|---|---|---|---|---|---|")
    for name in args.sets:
        X_train, y_train, X, _ = sentences(name, args)
        vectorizer = TemplateVectorizer(TEMPLATES).fit(X_train)
        test = vectorizer.transform(X)
        for loss in LOSSES:
            model = StructuredSparseMAPClassifier("chain", loss=loss, random_state=0, n_jobs=1)
            model.fit(vectorizer.transform(X_train), y_train)
            tagger = make_structured_pipeline(vectorizer, model)
            cases = {
                "pipeline": (tagger, X, 0.0),
                "pipeline, from 0.05": (tagger, X, 0.05),
                "model": (model, test, 0.0),
                "model, from 0.05": (model, test, 0.05),
                "model, one sentence": (model, test[:1], 0.0),
            }
            for what, (estimator, part, least) in cases.items():
                rounds = args.rounds * (1 if len(part) > 1 else 20)
                ours = least_time(partial(estimator.predict_spans, part, min_probability=least), rounds)
                theirs = least_time(partial(estimator.predict, part), rounds)
                spans = partial(estimator.predict_spans, part, min_probability=least)
                read = least_time(lambda spans=spans: list(spans()), rounds)
                marginals = least_time(partial(estimator.predict_marginals, part), rounds)
                ratios = " | ".join(f"{time / theirs:.1f}" for time in (ours, read, marginals))
                print(f"| {name}, {loss}, {what} | {theirs:.2f} | {ours:.2f} | {ratios} |", flush=True)
                results.record("Spans", f"{name}, {loss}, {what}", "CPU time", ours, "ms", "predict", theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data")
    parser.add_argument("--only", nargs="+", default=["reliability", "times"], choices=["reliability", "times"])
    parser.add_argument("--sets", nargs="+", default=["CoNLL-2000", "CoNLL-2002", "recipes"])
    parser.add_argument("--train", type=int, default=600, help="sentences to train with")
    parser.add_argument("--test", type=int, default=600, help="other sentences")
    parser.add_argument("--rounds", type=int, default=5, help="of which the fastest counts")
    args = results.parse(parser)
    for which in args.only:
        {"reliability": reliability, "times": times}[which](args)


if __name__ == "__main__":
    main()
