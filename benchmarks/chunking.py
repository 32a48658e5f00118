"""CoNLL-2000 chunking end to end, compared with sklearn-crfsuite on the same features.

    python benchmarks/chunking.py --data DIR

DIR holds conll2000/train.txt.gz and conll2000/test.txt.gz. Each model runs in a process of its own, one after the
other, so that its peak memory is its own. The features (all 72 chunking templates) are computed once; CRFsuite gets
the numbers of the same columns, as strings. Its times are its own per-iteration times, without the conversion.

Span F1 is that of conlleval, on the test set.

    python benchmarks/chunking.py --data DIR --groups

chooses templates instead: span F1 by number of weights, compared with the paper.

    python benchmarks/chunking.py --data DIR --sizes 60000 71075 158844 389065

does so by numbers of weights, among 96 templates and handmade features; the kind of group weights is chosen on the last
tenth of the training sentences.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

import results

# The process that starts the others imports nothing large: on Linux a child's peak memory begins at its parent's.
ROOT = Path(__file__).resolve().parents[1]
PEERS = {
    "ap-10": ("CRFsuite averaged perceptron, 10 epochs", {"algorithm": "ap", "max_iterations": 10}),
    "ap": ("CRFsuite averaged perceptron, default", {"algorithm": "ap"}),
    "lbfgs": ("CRFsuite L-BFGS, c2=1", {"algorithm": "lbfgs", "c2": 1.0}),
}
OURS = "SparseMAP, AdaGrad"
# Our other models; the worker of each makes its own features.
OTHERS = {
    "perceptron": "averaged perceptron over groups, all kept",
    "sparseptron": "sparseptron, 10 of 72 templates",
}
# Table 1 of the structured-sparsity paper: budget, weights, span F1. Budget None is MIRA with all templates.
PAPER = [(None, 5_300_396, 93.10), (10, 71_075, 92.99), (20, 158_844, 93.28), (30, 389_065, 93.59),
         (40, 662_018, 93.42), (50, 891_378, 93.40)]  # fmt: skip
GRID = [("uniform", (5, 10, 20)), ("log2^0.25", (5, 6, 8)), ("log2^0.5", (8, 12, 15)), ("log2^0.6", (7,)),
        ("log2", (20, 30))]  # fmt: skip
# Beside the 72 chunking templates: with these 24 pairs they are as many as the paper has.
MORE = [f"pos[{i}]|word[{j}]" for j in (-1, 0, 1) for i in range(-2, 3)] + [
    f"pos[{i}]|shape[{j}]" for j in (-1, 0, 1) for i in (-1, 0, 1)
]
ORDERED = [("log2", (5, 10, 15, 20, 30)), ("log2^0.5", (10,))]
N_WARM_UP = 20
DATA = "CoNLL-2000, 72 templates"
# Measure, key of the figures, unit, and factor.
MEASURES = (
    ("span F1", "f1", "%", 100),
    ("an epoch", "epoch", "s", 1),
    ("training", "training", "s", 1),
    ("prediction", "predict", "s", 1),
    ("peak memory", "peak", "MB", 1),
)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with conll2000/")
    parser.add_argument("--epochs", type=int, default=10, help="of the SparseMAP model")
    parser.add_argument("--alpha", type=float, default=1e-3)
    parser.add_argument("--eta0", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, help="use only so many sentences of each set")
    parser.add_argument("--skip-peers", action="store_true", help="run the SparseMAP model only")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="which peers to run")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 2], help="with --groups: orders of the samples")
    parser.add_argument("--sizes", nargs="+", type=int, help="budgets of weights, to choose among 96 templates")
    parser.add_argument("--weights", nargs="+", default=["uniform", "log2^0.5", "log2"], help="with --sizes: kinds")
    parser.add_argument("--min-count", type=int, default=2, help="with --sizes: rarer features are left out")
    parser.add_argument("--order", action="store_true", help="with --groups: from coarse to fine (GroupOrder)")
    parser.add_argument("--groups", action="store_true", help="choose templates by the group lasso")
    # How the script calls itself: which model, and where features and results are handed over.
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--exchange", type=Path, help=argparse.SUPPRESS)
    return results.parse(parser)


def peak_megabytes():
    """Return this process's peak memory so far, or NaN if the system does not report it."""
    try:
        import resource
    except ImportError:
        return float("nan")
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (2**20 if sys.platform == "darwin" else 2**10)


def run_sparsemap(args):
    """Run all stages of our model; leave the features for the peers; return the figures."""
    import logging
    import warnings

    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
    from sklearn_sparsemap.datasets import load_conll
    from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates
    from sklearn_sparsemap.metrics import span_f1_score

    # The number of epochs is fixed, as for the perceptron, so that they are all run and none is reported missing.
    warnings.simplefilter("ignore", ConvergenceWarning)

    class IterationClock(logging.Handler):
        """Note when each epoch ends: with verbose=2 the estimator logs a message after each."""

        def __init__(self):
            super().__init__()
            self.times = []

        def emit(self, record):
            self.times.append(perf_counter())

    clock = IterationClock()
    logger = logging.getLogger("sklearn_sparsemap")
    logger.addHandler(clock)
    logger.setLevel(logging.INFO)
    logger.propagate = False

    def new_model(epochs):
        if args.worker in OTHERS:
            return GroupLassoPerceptron(
                "chain",
                groups="templates",
                budget=10 if args.worker == "sparseptron" else None,
                max_iter=epochs,
                debias=None,
                random_state=args.seed,
                verbose=2,
            )
        return StructuredSparseMAPClassifier(
            structure="chain",
            solver="adagrad",
            eta0=args.eta0,
            alpha=args.alpha,
            temperature=args.temperature,
            max_iter=epochs,
            tol=0.0,
            random_state=args.seed,
            verbose=2,
        )

    seconds = {}
    start = perf_counter()
    X_train, y_train = load_conll(args.data / "conll2000" / "train.txt.gz")
    X_test, y_test = load_conll(args.data / "conll2000" / "test.txt.gz")
    seconds["read"] = perf_counter() - start
    n_read = sum(map(len, y_train)) + sum(map(len, y_test))
    X_train, y_train, X_test, y_test = (part[: args.limit] for part in (X_train, y_train, X_test, y_test))

    start = perf_counter()
    few, labels = X_train[:N_WARM_UP], y_train[:N_WARM_UP]
    vectorizer = TemplateVectorizer(chunking_templates())
    rows = vectorizer.fit_transform(few)
    new_model(1).fit(rows, labels).predict(vectorizer.transform(few))
    seconds["warm up"] = perf_counter() - start

    start = perf_counter()
    vectorizer = TemplateVectorizer(chunking_templates())
    rows_train = vectorizer.fit_transform(X_train)
    rows_test = vectorizer.transform(X_test)
    seconds["features"] = perf_counter() - start

    clock.times.clear()
    start = perf_counter()
    model = new_model(args.epochs).fit(rows_train, y_train)
    seconds["fit"] = perf_counter() - start
    epochs = np.diff(clock.times) if len(clock.times) > 1 else [seconds["fit"]]
    peak = peak_megabytes()

    start = perf_counter()
    predicted = model.predict(rows_test)
    seconds["predict"] = perf_counter() - start
    start = perf_counter()
    f1 = span_f1_score(y_test, predicted)
    seconds["span F1"] = perf_counter() - start

    if args.peers and not args.skip_peers and args.worker == "sparsemap":
        np.savez(
            args.exchange / "features.npz",
            **{
                f"{name}_{part}": array
                for name, rows in (("train", rows_train), ("test", rows_test))
                for part, array in (
                    ("columns", rows.values.indices),
                    ("row_ptr", rows.values.indptr),
                    ("indptr", rows.indptr),
                )
            },
        )
        (args.exchange / "labels.json").write_text(json.dumps({"train": y_train, "test": y_test}))
    return {
        "seconds": seconds,
        "n_sentences": [len(X_train), len(X_test)],
        "n_tokens": [len(rows_train.values.indptr) - 1, len(rows_test.values.indptr) - 1],
        "n_read": n_read,
        "n_columns": rows_train.values.shape[1],
        "n_weights": model.coef_.size + model.intercept_.size + model.transitions_.size + 2 * model.start_.size,
        "n_nonzero": int(getattr(model.coef_, "nnz", None) or np.count_nonzero(model.coef_)),
        "peak": peak,
        "epochs": len(clock.times),
        "epoch": float(median(epochs)),
        "training": seconds["fit"],
        "predict": seconds["predict"],
        "f1": f1,
    }


def run_peer(args):
    """Train and test CRFsuite on the features that our model left; return the figures."""
    import numpy as np
    from sklearn_crfsuite import CRF

    from sklearn_sparsemap.metrics import span_f1_score

    labels = json.loads((args.exchange / "labels.json").read_text())
    features = np.load(args.exchange / "features.npz")

    def sentences(part):
        """Yield each sentence as lists of column numbers, in strings: all of them at once would need gigabytes."""
        columns, row_ptr, indptr = (features[f"{part}_{name}"] for name in ("columns", "row_ptr", "indptr"))
        for first, stop in pairwise(indptr):
            rows = pairwise(row_ptr[first : stop + 1])
            yield [list(map(str, columns[start:end].tolist())) for start, end in rows]

    crf = CRF(**PEERS[args.worker][1])
    start = perf_counter()
    crf.fit(sentences("train"), labels["train"])
    wall = perf_counter() - start
    times = [iteration["time"] for iteration in crf.training_log_.iterations]
    peak = peak_megabytes()
    predicted, predicting = [], 0.0
    for sentence in sentences("test"):
        start = perf_counter()
        predicted.append(crf.predict_single(sentence))
        predicting += perf_counter() - start
    return {
        "n_weights": crf.training_log_.featgen_num_features,
        "peak": peak,
        "epochs": len(times),
        "epoch": median(times),
        "training": sum(times),
        "wall": wall,
        "predict": predicting,
        "f1": span_f1_score(labels["test"], predicted),
    }


def run_in_process(args, worker, exchange):
    """Run one model in a process of its own and return its figures."""
    command = [sys.executable, __file__, *sys.argv[1:], "--worker", worker, "--exchange", str(exchange)]
    subprocess.run(command, check=True)
    return json.loads((exchange / f"{worker}.json").read_text())


def report_ours(args, ours):
    (n_train, n_test), (train_tokens, test_tokens) = ours["n_sentences"], ours["n_tokens"]
    seconds = ours["seconds"]
    print(f"CoNLL-2000: {n_train} training sentences ({train_tokens} tokens), {n_test} test ({test_tokens} tokens)")
    print(f"{ours['n_columns']} columns; {ours['n_weights']} weights, {ours['n_nonzero']} of the columns' not zero")
    print(f"alpha={args.alpha:g}, eta0={args.eta0:g}, temperature={args.temperature:g}, {ours['epochs']} epochs\n")
    print(f"{OURS}: stage by stage")
    work = {
        "read": (ours["n_read"], "both sets"),
        "features": (train_tokens + test_tokens, "both sets"),
        "fit": (train_tokens * ours["epochs"], f"{ours['epoch']:.2f} s an epoch (median)"),
        "predict": (test_tokens, "from features to labels"),
        "span F1": (test_tokens, "from labels to the score"),
    }
    for stage, (n_tokens, note) in work.items():
        print(f"  {stage:9}{seconds[stage]:9.2f} s{n_tokens / seconds[stage]:14,.0f} tokens/s   {note}")
    print(f"  before that, {seconds['warm up']:.1f} s to try all on {N_WARM_UP} sentences: this compiles the kernels,")
    print("  or loads them from the cache\n", flush=True)


def report_table(figures):
    """Print one row a model; ratios are to the SparseMAP model: above 1, the peer is slower or larger."""
    ours = figures[OURS]
    print(
        f"{'':42}{'span F1':>8}{'epochs':>8}{'epoch':>10}{'ratio':>7}{'training':>11}{'ratio':>7}"
        f"{'predict':>10}{'peak':>9}{'weights':>12}"
    )
    for name, row in figures.items():
        print(
            f"{name:42}{100 * row['f1']:8.2f}{row['epochs']:8}{row['epoch']:8.2f} s{row['epoch'] / ours['epoch']:7.2f}"
            f"{row['training']:9.1f} s{row['training'] / ours['training']:7.2f}{row['predict']:8.2f} s"
            f"{row['peak']:6.0f} MB{row['n_weights']:12,}"
        )
    for name, row in figures.items():
        if not name.startswith("CRFsuite"):
            continue
        for measure, key, unit, factor in MEASURES:
            found = [factor * figure[key] for figure in (ours, row)]
            results.record("chunking", DATA, measure, found[0], unit, name, found[1], package="sklearn-crfsuite")
    print("epoch: median; ratios: to the first row. SparseMAP's training is the whole fit, CRFsuite's the sum of its")
    print("iterations. CRFsuite makes weights only for the pairs of column and label that occur in training.")
    for name, key, ratio in (("AP epoch", "ap-10", "epoch"), ("L-BFGS training", "lbfgs", "training")):
        peer = figures.get(PEERS[key][0])
        if peer:
            print(f"ours / {name}: {ours[ratio] / peer[ratio]:.2f}")


def main():
    args = parse_arguments()
    if args.worker:
        figures = run_peer(args) if args.worker in PEERS else run_sparsemap(args)
        (args.exchange / f"{args.worker}.json").write_text(json.dumps(figures))
        return
    if not (args.data / "conll2000" / "train.txt.gz").exists():
        sys.exit(f"no conll2000/train.txt.gz in {args.data}; name the folder that has it with --data")
    if args.sizes:
        from group_front import print_sizes

        from sklearn_sparsemap.features import Template, chunking_templates

        print_sizes(args, "conll2000", [*chunking_templates(), *map(Template.parse, MORE)], "train.txt.gz", None,
                    "test.txt.gz")  # fmt: skip
        return
    if args.groups:
        from group_front import print_front

        from sklearn_sparsemap.features import chunking_templates

        print_front(args, "conll2000", chunking_templates(), "train.txt.gz", {"test": "test.txt.gz"}, PAPER,
                    ORDERED if args.order else GRID)  # fmt: skip
        return
    args.peers = [] if args.skip_peers else args.peers
    if args.peers and find_spec("sklearn_crfsuite") is None:
        print("sklearn-crfsuite is not installed (pip install '.[bench]'): running without it")
        args.peers = []
        sys.argv.append("--skip-peers")
    print(f"{os.cpu_count()} cores; every model uses one\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        exchange = Path(folder)
        figures = {OURS: run_in_process(args, "sparsemap", exchange)}
        report_ours(args, figures[OURS])
        for key, name in OTHERS.items():
            figures[name] = run_in_process(args, key, exchange)
        for key in args.peers:
            figures[PEERS[key][0]] = run_in_process(args, key, exchange)
        report_table(figures)


if __name__ == "__main__":
    main()
