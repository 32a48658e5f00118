"""CPU time of the prediction of one sentence: ours, CRFsuite's, and scikit-learn's labels of single tokens.

    python benchmarks/latency.py

Sentences are lists of dicts, as CRFsuite takes them. Each is passed to all models in turn, so that they share the
conditions of the machine. scikit-learn's pipeline of `DictVectorizer` and `LogisticRegression` labels each token alone.
The table has the median and the 99th percentile over all sentences and rounds, in microseconds, and the number of calls
of Python functions in one prediction.
"""

import argparse
import sys
import warnings
from itertools import chain
from time import process_time_ns

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TokenDictVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline

N_WORDS = 2000


def draw(n_sentences, n_tokens, rng):
    """Return sentences of dicts with eleven features a token, and their labels."""
    X, y = [], []
    for _ in range(n_sentences):
        words = [f"w{k}" for k in rng.integers(0, N_WORDS, n_tokens)]
        X.append([token(words, i) for i in range(n_tokens)])
        y.append([("O", "B-X", "B-Y")[int(word[1:]) % 3] for word in words])
    return X, y


def token(words, i):
    word = words[i]
    features = {
        "bias": 1.0,
        "word.lower()": word,
        "word[-3:]": word[-3:],
        "word[-2:]": word[-2:],
        "word.isupper()": False,
        "word[-1:].is3": word[-1] == "3",
        "postag": word[1],
    }
    for offset, end in ((-1, "BOS"), (1, "EOS")):
        if 0 <= i + offset < len(words):
            features |= {f"{offset:+d}:word": words[i + offset], f"{offset:+d}:postag": words[i + offset][1]}
        else:
            features[end] = True
    return features


def count_calls(function):
    """Return the number of calls of Python functions."""
    n = 0

    def record(frame, event, _):
        nonlocal n
        n += event == "call"

    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(None)
    return n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = results.parse(parser)
    X, y = draw(arguments.sentences, arguments.tokens, np.random.default_rng(0))
    model = make_structured_pipeline(TokenDictVectorizer(), StructuredSparseMAPClassifier("chain"))
    alone = make_pipeline(DictVectorizer(), LogisticRegression())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        alone.fit(list(chain.from_iterable(X)), list(chain.from_iterable(y)))
    calls = {"ours": lambda x: model.predict([x]), "DictVectorizer, LogisticRegression": alone.predict}
    try:
        from sklearn_crfsuite import CRF
    except ImportError:
        print("CRFsuite is left out, because sklearn-crfsuite is not installed")
    else:
        crf = CRF(max_iterations=20).fit(X, y)
        calls["CRFsuite"] = lambda x: crf.predict([x])
    times = {name: [] for name in calls}
    for call in calls.values():
        for x in X[:30]:
            call(x)
    for _ in range(arguments.rounds):
        for x in X:
            for name, call in calls.items():
                began = process_time_ns()
                call(x)
                times[name].append((process_time_ns() - began) / 1e3)
    print("| model | p50, us | p99, us | p50 / ours | calls of Python |\n|---|---|---|---|---|")
    data = f"sentences of {arguments.tokens} tokens"
    figures = {name: np.percentile(own, [50, 99]) for name, own in times.items()}
    for name, (median, high) in figures.items():
        n_calls = count_calls(lambda call=calls[name]: call(X[0]))
        print(f"| {name} | {median:.0f} | {high:.0f} | {median / figures['ours'][0]:.2f} | {n_calls} |")
        if name != "ours":
            for measure, ours, theirs in zip(("p50", "p99"), figures["ours"], (median, high)):
                results.record("latency", data, f"CPU time of a prediction, {measure}", ours, "us", name, theirs,
                               package="sklearn-crfsuite" if name == "CRFsuite" else "scikit-learn")  # fmt: skip


if __name__ == "__main__":
    main()
