"""Linear-chain CRFs by L-BFGS on CoNLL-2000, compared with sklearn-crfsuite on the same features and objective.

    python benchmarks/crf.py --data DIR

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. Ten templates of one and two fields. CRFsuite gets all
states and all transitions, as ours has, and features for the first and the last token of a sentence, in place of
our weights `start_` and `end_`. With ``alpha = 2 c2 / n`` and no intercept, n times our objective is
CRFsuite's. Training times are those of the iterations alone on its side, of the whole fit on ours.
"""

import argparse
import resource
import warnings
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time

import results
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import load_conll
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.metrics import span_f1_score

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = ["word[-1]", "word[0]", "word[1]", "pos[-1]", "pos[0]", "pos[1]",
             "word[-1]|word[0]", "word[0]|word[1]", "pos[-1]|pos[0]", "pos[0]|pos[1]"]  # fmt: skip
MEASURES, UNITS = ("objective", "span F1", "CPU time of an iteration"), ("", "%", "ms")
HEADER = "| sentences | model | threads | objective | span F1 | iterations | training | an iteration | CPU |"


def fit_ours(X, y, c2, n_jobs, max_iter):
    """Return a fitted model, and its wall and CPU seconds."""
    model = StructuredSparseMAPClassifier(
        "chain", "crf", solver="lbfgs", alpha=2.0 * c2 / len(y), fit_intercept=False, tol=1e-6, max_iter=max_iter,
        n_jobs=n_jobs,
    )  # fmt: skip
    began, cpu = perf_counter(), process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, perf_counter() - began, process_time() - cpu


def names_of(columns, ends):
    """Return the features of each token of a sentence as CRFsuite takes them."""
    tokens = [list(map(str, own)) for own in columns]
    if ends:
        tokens[0].append("BEGIN")
        tokens[-1].append("END")
    return tokens


def sentences_of(X):
    values = X.values
    for first, stop in pairwise(X.indptr):
        rows = values.indptr[first : stop + 1].tolist()
        yield names_of([values.indices[a:b].tolist() for a, b in pairwise(rows)], ends=True)


def fit_crfsuite(X, y, c2, max_iter):
    """Return a fitted model, the log of its iterations, and the CPU seconds of one."""
    from pycrfsuite import Trainer
    from sklearn_crfsuite import CRF

    ticks = []

    class Clock(Trainer):
        def message(self, message):
            super().message(message)
            if len(self.logparser.iterations) > len(ticks):
                ticks.append(process_time())

    model = CRF(
        algorithm="lbfgs", c1=0.0, c2=c2, all_possible_states=True, all_possible_transitions=True,
        max_iterations=max_iter, epsilon=1e-6, delta=1e-8, trainer_cls=Clock,
    )  # fmt: skip
    model.fit(list(sentences_of(X)), y)
    return model, model.training_log_.iterations, (ticks[-1] - ticks[0]) / (len(ticks) - 1)


def row(n, name, threads, objective, f1, n_iter, wall, cpu):
    print(
        f"| {n:,} | {name} | {threads} | {objective:.3f} | {100 * f1:.2f} | {n_iter} | {wall:.2f} s | "
        f"{1e3 * wall / n_iter:.1f} ms | {1e3 * cpu / n_iter:.1f} ms |",
        flush=True,
    )


def compare(n, data, c2, jobs, max_iter, peer):
    (X, y), (X_test, y_test) = ([part[:limit] for part in sets] for sets, limit in zip(data, (n, None)))
    vectorizer = TemplateVectorizer(TEMPLATES)
    rows, rows_test = vectorizer.fit_transform(X), vectorizer.transform(X_test)
    theirs = None
    if peer:
        model, log, cpu = fit_crfsuite(rows, y, c2, max_iter)
        seconds = sum(iteration["time"] for iteration in log)
        f1 = span_f1_score(y_test, model.predict(list(sentences_of(rows_test))))
        row(n, "CRFsuite", 1, log[-1]["loss"], f1, len(log), seconds, cpu * len(log))
        theirs = log[-1]["loss"], 100 * f1, cpu * 1e3
    for n_jobs in jobs:
        model, wall, cpu = fit_ours(rows, y, c2, n_jobs, max_iter)
        f1 = span_f1_score(y_test, model.predict(rows_test))
        row(n, "ours", n_jobs, n * model.loss_curve_[-1], f1, model.n_iter_, wall, cpu)
        if theirs is None or n_jobs > 1:
            continue
        own = n * model.loss_curve_[-1], 100 * f1, 1e3 * cpu / model.n_iter_
        for measure, unit, a, b in zip(MEASURES, UNITS, own, theirs):
            results.record("CRF by L-BFGS", f"CoNLL-2000, {n:,} sentences", measure, a, unit, "CRFsuite", b,
                           package="sklearn-crfsuite")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--sentences", type=int, nargs="+", default=[1000, 8936])
    parser.add_argument("--c2", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--max-iter", type=int, default=1000)
    parser.add_argument("--skip-peer", action="store_true", help="run our model only")
    arguments = results.parse(parser)
    data = [load_conll(arguments.data / "conll2000" / f"{part}.txt.gz") for part in ("train", "test")]
    # Compiles the kernels, or loads them.
    few = [part[:20] for part in data[0]]
    fit_ours(TemplateVectorizer(TEMPLATES).fit_transform(few[0]), few[1], arguments.c2, 2, 3)
    print(f"{HEADER}\n|{HEADER.count(' | ') * '---|'}---|")
    for n in arguments.sentences:
        compare(n, data, arguments.c2, arguments.jobs, arguments.max_iter, not arguments.skip_peer)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"\ntraining, and an iteration: wall time; CPU: an iteration's, of all threads; peak memory {peak:.0f} MB")


if __name__ == "__main__":
    main()
