"""Hierarchies of labels: rules in training and prediction, in prediction only, and none, compared with scikit-learn.

    python benchmarks/hierarchies.py --data DIR
    python benchmarks/hierarchies.py --speed

DIR holds hmc/*.arff.gz. Features at zero mean and unit variance, missing ones are the mean; a training set's valid part
is added to it. With --shares less than 1, this fraction of the training labels is known, the others are NaN for the
model. Area under the precision-recall curve over all pairs of a sample and a class, AU(PRC), by predict_proba; example
F1, with a threshold of 0.5 (rules in prediction: of the projected probabilities); fraction of the predictions with a
class but not its parent. By default, the estimator chooses between linear scores and a network; --hidden alone means
linear scores.

--speed times projections onto trees of 4,000 classes, and fits with and without rules.
"""

import argparse
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import results
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.datasets import load_hierarchical_arff
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.inference._forests import Forest
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.score_models import Network

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "ImCLEF07A": ("train", "test"),
    "Enron_corr": ("train", "test"),
    "cellcycle_FUN": ("train", "valid", "test"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with hmc/")
    parser.add_argument("--sets", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.01, 0.1, 1.0])
    parser.add_argument("--hidden", nargs="*", type=int, help="hidden layers; without numbers, linear scores")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--max-iter", type=int)
    parser.add_argument("--loss", choices=("sparsemap", "logistic"), default="sparsemap")
    parser.add_argument("--decision", choices=("threshold", "observed_sets"), default="threshold")
    parser.add_argument("--peers", action="store_true", help="one-vs-rest logistic regression, too")
    parser.add_argument("--speed", action="store_true", help="only times")
    return results.parse(parser)


def load(folder, name):
    loaded = [load_hierarchical_arff(folder / "hmc" / f"{name}.{part}.arff.gz") for part in PARTS[name]]
    X, Y = (np.concatenate([part[k] for part in loaded[:-1]]) for k in (0, 1))
    X_test, Y_test, _, parents = loaded[-1]
    mean = np.nanmean(X, axis=0)
    scaler = StandardScaler().fit(np.where(np.isnan(X), mean, X))
    X, X_test = (scaler.transform(np.where(np.isnan(a), mean, a)) for a in (X, X_test))
    return X, Y, X_test, Y_test, parents


def show(name, share, what, marginals, found, parents, Y_test, seconds):
    data = f"{name}, {100 * share:g} % of the labels"
    area = average_precision_score(Y_test.ravel(), marginals.ravel())
    results.record("hierarchies", data, f"AU(PRC), {what}", area, "")
    results.record("hierarchies", data, f"example F1, {what}", 100 * example_f1_score(Y_test, found), "%")
    incoherent = np.mean([any(row[c] > row[p] for c in np.flatnonzero(row) for p in parents[c]) for row in found])
    print(
        f"| {name} | {share:g} | {what} | {area:.3f} | "
        f"{100 * example_f1_score(Y_test, found):.1f} | {100 * incoherent:.1f} % | {seconds:.1f} |",
        flush=True,
    )


def run(args, name, share):
    X, Y, X_test, Y_test, parents = load(args.data, name)
    rules, known = Hierarchy(parents), np.random.default_rng(0).random(Y.shape) < share
    options = {"decision": args.decision, "loss": args.loss, "random_state": 0}
    if args.hidden:
        network = Network(tuple(args.hidden), dropout=args.dropout, batch_size=64, max_iter=args.max_iter)
        options["score_model"] = network
    elif args.hidden is not None:
        options["score_model"] = "linear"
    partly = np.where(known, Y, np.nan) if share < 1.0 else Y
    plain = MultilabelLPSparseMAP(**options)
    start = perf_counter()
    trained = MultilabelLPSparseMAP(constraints=rules, **options).fit(X, partly)
    seconds = perf_counter() - start
    say = (parents, Y_test)
    show(name, share, "rules in training", trained.predict_proba(X_test), trained.predict(X_test), *say, seconds)
    start = perf_counter()
    plain.fit(X, partly)
    seconds = perf_counter() - start
    marginals = plain.predict_proba(X_test)
    show(name, share, "no rules", marginals, plain.predict(X_test), *say, seconds)
    forest = Forest([above[0] if above else -1 for above in parents])
    projected, _ = forest.project(marginals)
    show(name, share, "rules in prediction", projected, (projected > 0.5).astype(int), *say, seconds)
    if args.peers and share == 1.0:
        start = perf_counter()
        peer = OneVsRestClassifier(LogisticRegression(C=0.1, max_iter=1000)).fit(X, Y)
        seconds = perf_counter() - start
        show(name, share, "one-vs-rest", peer.predict_proba(X_test), peer.predict(X_test), *say, seconds)


def speed():
    rng = np.random.default_rng(0)
    parents = np.concatenate([np.full(10, -1), rng.integers(0, np.arange(10, 4000))])
    forest, scores = Forest(parents), rng.normal(-0.5, 1.0, size=(100, 4000))
    forest.project(scores[:1])
    start = process_time()
    forest.project(scores)
    taken = 10.0 * (process_time() - start)
    results.record("hierarchies", "4,000 classes", "CPU time of a projection", taken, "ms")
    print(f"4,000 classes: {taken:.3f} ms of CPU time a projection")
    X = rng.normal(size=(300, 50))
    Y = (X @ rng.normal(size=(50, 4000)) > 12.0).astype(int)
    for child in range(3999, 9, -1):
        Y[:, parents[child]] |= Y[:, child]
    for rules in (None, Hierarchy(parents.tolist())):
        model = MultilabelLPSparseMAP(constraints=rules, max_iter=20, tol=0.0)
        times = []
        for _ in range(3):
            start = process_time()
            model.fit(X, Y)
            times.append(process_time() - start)
        with_rules = "with" if rules else "without"
        results.record("hierarchies", "4,000 classes", f"CPU time of 20 iterations {with_rules} rules", min(times), "s")
        print(f"20 iterations on 300 samples, {'with' if rules else 'without'} rules: {min(times):.2f} s of CPU time")


def main():
    args = parse_arguments()
    warnings.simplefilter("ignore")
    if args.speed:
        speed()
        return
    print("| set | labels known | | AU(PRC) | example F1 | incoherent | fit, s |\n|---|---|---|---|---|---|---|")
    for name in args.sets:
        for share in args.shares:
            run(args, name, share)


if __name__ == "__main__":
    main()
