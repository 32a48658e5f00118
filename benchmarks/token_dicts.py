"""Chunking from dicts of features, those of sklearn-crfsuite's tutorial, on CoNLL-2000: the whole run, and CRFsuite's.

    python benchmarks/token_dicts.py --data DIR
    python benchmarks/token_dicts.py --data DIR --hide 0.5

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. Both sides get the same lists of dicts, and are timed from
there to the labels of the test sentences. CRFsuite by L-BFGS: as it comes (``c2=1``), as in the tutorial
(``c1=c2=0.1``, 100 iterations), and with ``c2=0.1`` alone. Ours is a CRF by L-BFGS, too, with ``alpha = 2 c2 / n``.
With ``--hide`` that share of the labels is None.
"""

import argparse
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

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


def ours(n, c2, n_jobs, max_iter, tol):
    return make_structured_pipeline(
        TokenDictVectorizer(),
        StructuredSparseMAPClassifier(
            "chain", "crf", solver="lbfgs", alpha=2.0 * c2 / n, tol=tol, max_iter=max_iter, n_jobs=n_jobs
        ),
    )


def run(name, model, data):
    """Fit, predict, and print a row of the table."""
    (X, y), (X_test, y_test) = data
    began, cpu = perf_counter(), process_time()
    predicted = model.fit(X, y).predict(X_test)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    f1 = span_f1_score(y_test, predicted)
    print(f"| {name} | {100 * f1:.2f} | {seconds:.1f} s | {cpu:.1f} s |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--hide", type=float, default=0.0)
    parser.add_argument("--seeds", type=int, default=1, help="with --hide: how often to draw what is hidden")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--c2", type=float, nargs="+", default=[0.1])
    parser.add_argument("--max-iter", type=int, default=1000)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--skip-peer", action="store_true", help="run our model only")
    arguments = parser.parse_args()
    data = []
    for part in ("train", "test"):
        X, y = load_conll(arguments.data / "conll2000" / f"{part}.txt.gz")
        data.append(([[word2features(s, i) for i in range(len(s))] for s in X], y))
    n = len(data[0][1])

    def mine(jobs, c2):
        return ours(n, c2, jobs, arguments.max_iter, arguments.tol)

    # Compiles the kernels, or loads them.
    ours(20, 1.0, 2, 3, 1.0).fit(*(part[:20] for part in data[0])).predict(data[1][0][:2])
    print("| model | span F1 | whole run | CPU |\n|---|---|---|---|")
    for c2 in arguments.c2:
        for jobs in arguments.jobs:
            run(f"ours, c2={c2:g}, {jobs} threads", mine(jobs, c2), data)
        for seed in range(arguments.seeds if arguments.hide else 0):
            rng = np.random.default_rng(seed)
            X, y = data[0]
            y = [[None if rng.random() < arguments.hide else label for label in labels] for labels in y]
            name = f"ours, c2={c2:g}, {100 * arguments.hide:g} % of the labels hidden (seed {seed})"
            run(name, mine(max(arguments.jobs), c2), [(X, y), data[1]])
    if not (arguments.skip_peer or arguments.hide):
        from sklearn_crfsuite import CRF

        options = {
            "as it comes, c2=1": {},
            "as in the tutorial": {"c1": 0.1, "c2": 0.1, "max_iterations": 100, "all_possible_transitions": True},
            "c2=0.1": {"c2": 0.1, "all_possible_transitions": True},
        }
        for name, own in options.items():
            run(f"CRFsuite, {name}", CRF(algorithm="lbfgs", **own), data)


if __name__ == "__main__":
    main()
