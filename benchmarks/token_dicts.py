"""Chunking from dicts of features, those of sklearn-crfsuite's tutorial, on CoNLL-2000: the whole run, and CRFsuite's.

    python benchmarks/token_dicts.py --data DIR
    python benchmarks/token_dicts.py --data DIR --lbfgs 60 --losses crf --hide 0.5 --seeds 3 --skip-peer
    python benchmarks/token_dicts.py --data DIR --vectorizer

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. Both sides get the same lists of dicts, and are timed from
there to the labels of the test sentences. CRFsuite by L-BFGS: as it comes (``c2=1``), and as in the tutorial
(``c1=c2=0.1``, 100 iterations). Ours is a CRF of 1.2 million weights by AdaGrad, which ``solver="auto"`` takes for so
many; with --lbfgs by L-BFGS, at most so many iterations. With --hide this fraction of the labels is None, for losses
without a margin, because unknown labels have no cost.

With --vectorizer, CPU seconds of `TokenDictVectorizer` alone, and of scikit-learn's `DictVectorizer` on the list of all
tokens: `fit_transform` of the training tokens and `transform` of the test tokens, the least of three times, and the
test tokens a CPU second of `transform`. The tokens
are those of the tutorial, the same without features that are False (so that tokens differ in their attributes), with
prefixes and letters of words in addition, and lists of strings as python-crfsuite takes them.
"""

import argparse
import warnings
from itertools import chain, product
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import DictVectorizer

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.features import TokenDictVectorizer
from sklearn_sparsemap.metrics import span_f1_score
from sklearn_sparsemap.pipeline import make_structured_pipeline

ROOT = Path(__file__).resolve().parents[1]


def word2features(sentence, i):
    """Return the features of a word, as in the tutorial of sklearn-crfsuite."""
    word, pos = sentence[i]["word"], sentence[i]["pos"]
    features = {
        "bias": 1.0,
        "word.lower()": word.lower(),
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": word.isupper(),
        "word.istitle()": word.istitle(),
        "word.isdigit()": word.isdigit(),
        "postag": pos,
        "postag[:2]": pos[:2],
    }
    for offset, end in ((-1, "BOS"), (1, "EOS")):
        if not 0 <= i + offset < len(sentence):
            features[end] = True
            continue
        word, pos = sentence[i + offset]["word"], sentence[i + offset]["pos"]
        features |= {
            f"{offset:+d}:word.lower()": word.lower(),
            f"{offset:+d}:word.istitle()": word.istitle(),
            f"{offset:+d}:word.isupper()": word.isupper(),
            f"{offset:+d}:postag": pos,
            f"{offset:+d}:postag[:2]": pos[:2],
        }
    return features


def without_false(token):
    return {name: value for name, value in token.items() if value is not False}


def with_letters(token):
    word = token["word.lower()"]
    prefixes = {f"word[:{n}]": word[:n] for n in (1, 2, 3) if len(word) > n}
    return without_false(token) | prefixes | {f"has {letter}": True for letter in word}


def as_strings(token):
    named = without_false(token).items()
    return [f"{name}={value}" if isinstance(value, str) else name for name, value in named]


FORMS = {
    "as in the tutorial": dict,
    "without False": without_false,
    "with letters": with_letters,
    "lists of strings": as_strings,
}


def time_vectorizers(data):
    """Print the table of --vectorizer."""
    (X, _), (X_test, _) = data

    def least(function, sentences, form):
        seconds = []
        for _ in range(3):
            # New tokens each time, because Python keeps the hashes of strings.
            tokens = [[form(token) for token in sentence] for sentence in sentences]
            began = process_time()
            function(tokens)
            seconds.append(process_time() - began)
        return min(seconds)

    n_tokens = sum(map(len, X_test))
    print("| tokens | entries | fit_transform | transform | DictVectorizer | | tokens a s |")
    print("|---|---|---|---|---|---|---|")
    for name, form in FORMS.items():
        vectorizer, peer, times = TokenDictVectorizer(), DictVectorizer(), []
        # Compiles the kernels, or loads them.
        vectorizer.fit([[form(token) for token in X[0]]])
        for own in (vectorizer,) if form is as_strings else (vectorizer, peer):
            for method, sentences in (("fit_transform", X), ("transform", X_test)):
                call = getattr(own, method)
                flat = (lambda s, call=call: call(list(chain.from_iterable(s)))) if own is peer else call
                times.append(f"{least(flat, sentences, form):.3f} s")
        times += ["-"] * (4 - len(times))
        n_entries = sum(len(form(token)) for sentence in X for token in sentence)
        speed = n_tokens / float(times[1][:-2])
        print(f"| {name} | {n_entries:,} | {' | '.join(times)} | {speed:,.0f} |", flush=True)
        if "-" not in times:
            for measure, a, b in zip(("fit_transform", "transform"), times[:2], times[2:]):
                results.record("token dicts", f"tokens {name}", f"CPU time of {measure}", float(a[:-2]), "s",
                               "DictVectorizer (scikit-learn)", float(b[:-2]))  # fmt: skip


def ours(loss, n_jobs, alpha, solver, max_iter):
    return make_structured_pipeline(
        TokenDictVectorizer(),
        StructuredSparseMAPClassifier(
            "chain", loss, solver=solver, alpha=alpha, max_iter=max_iter, n_jobs=n_jobs, random_state=0
        ),
    )


def run(name, model, data):
    """Fit, predict, and print a row of the table."""
    (X, y), (X_test, y_test) = data
    began, cpu = perf_counter(), process_time()
    with warnings.catch_warnings():
        # The number of epochs or iterations is set.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        fitted = process_time()
        predicted = model.predict(X_test)
    seconds, ended = perf_counter() - began, process_time()
    f1 = span_f1_score(y_test, predicted)
    times = f"{seconds:.1f} s | {ended - cpu:.1f} s | {ended - fitted:.2f} s"
    print(f"| {name} | {100 * f1:.2f} | {times} |", flush=True)
    return 100 * f1, ended - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--hide", type=float, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=1, help="with --hide: how often to draw the hidden labels")
    parser.add_argument("--losses", nargs="+", default=["crf", "margin_sparsemap"])
    parser.add_argument("--alpha", type=float, default=1e-5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lbfgs", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--skip-peer", action="store_true", help="run our models only")
    parser.add_argument("--vectorizer", action="store_true", help="time the vectorizer alone")
    arguments = results.parse(parser)
    data = []
    for part in ("train", "test"):
        X, y = load_conll(arguments.data / "conll2000" / f"{part}.txt.gz")
        data.append(([[word2features(s, i) for i in range(len(s))] for s in X], y))
    if arguments.vectorizer:
        time_vectorizers(data)
        return
    solver = ("lbfgs", arguments.lbfgs) if arguments.lbfgs else ("adagrad", arguments.epochs)

    def mine(loss):
        return ours(loss, arguments.jobs, arguments.alpha, *solver)

    # Compiles the kernels, or loads them.
    few, of_few, found = data[0][0][:20], data[0][1][:20], {}
    print("| model | span F1 | whole run | CPU | CPU of predict |\n|---|---|---|---|---|")
    for loss in arguments.losses:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ours(loss, 1, 1e-3, solver[0], 2).fit(few, of_few).predict(few)
        found[loss] = run(f"ours, {loss}, {solver[0]} ({solver[1]})", mine(loss), data)
        if loss.startswith("margin"):
            continue
        for share, seed in product(arguments.hide, range(arguments.seeds)):
            rng = np.random.default_rng(seed)
            X, y = data[0]
            y = [[None if rng.random() < share else label for label in labels] for labels in y]
            run(f"the same, {100 * share:g} % of the labels hidden (seed {seed})", mine(loss), [(X, y), data[1]])
    if not arguments.skip_peer:
        from sklearn_crfsuite import CRF

        tutorial = {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True}
        for name, own in {"as it comes": {}, "as in its tutorial": tutorial}.items():
            theirs = run(f"CRFsuite, L-BFGS, {name}", CRF(algorithm="lbfgs", **own), data)
            for loss, figures in found.items():
                for measure, unit, a, b in zip(("span F1", "CPU time of the whole run"), ("%", "s"), figures, theirs):
                    results.record("token dicts", "CoNLL-2000, features of a tutorial", f"{measure}, {loss}", a, unit,
                                   f"CRFsuite, L-BFGS, {name}", b, package="sklearn-crfsuite")  # fmt: skip


if __name__ == "__main__":
    main()
