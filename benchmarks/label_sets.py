"""Label sets with the defaults: MultilabelLPSparseMAP compared with tuned one-vs-rest, a classifier chain and a forest.

    python benchmarks/label_sets.py --data DIR

DIR holds multilabel/*.arff.gz and hmc/*.arff.gz. Thirteen sets: parts of the text collections and all of them, dense
features, hierarchies (as plain label sets), and three that are generated. All models see the same features: rows of
sparse ones scaled to unit length, dense ones to unit variance. ``--rows`` limits the rows of the training part.

Models: MultilabelLPSparseMAP as it is, and with the logistic loss (on ImCLEF07A both may choose a network);
OneVsRestClassifier(LogisticRegression) with C out of 0.1, 1, 10 and 100 by three folds, once for example F1 and once
for log loss, each column with the better of the two; ClassifierChain with the first of these C in a random order; a
random forest of 300 trees, which is not linear; ours stacked on the out-of-fold probabilities of a forest of 200; and
boosted trees for each label (HistGradientBoostingClassifier), which take long for many labels or features. ``--peers``
chooses among linear ones, trees, stack and boosting.

Columns, on the test part, all but the last in percent: example F1, micro F1, subset accuracy, precision at 1, 3 and 5,
label ranking average precision, mean average precision (over labels that occur), Brier score, log loss (probabilities
within 1e-6 and 1 - 1e-6), and CPU seconds of the fit.
"""

import argparse
import os
import warnings
from pathlib import Path

# One thread for every model: set before the libraries are loaded.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from time import process_time

import numpy as np
import results
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, StackingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, label_ranking_average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import Normalizer, StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.datasets import load_hierarchical_arff, load_multilabel_arff
from sklearn_sparsemap.metrics import example_f1_score, precision_at_k

ROOT = Path(__file__).resolve().parents[1]
N_LABELS = {"bibtex": 159, "tmc2007-500": 22, "yeast": 14, "emotions": 6}
SETS = (
    *(
        "emotions",
        "generated-12",
        "generated-30",
        "generated-100",
        "yeast",
        "tmc2007-500/300",
        "tmc2007-500/1000",
        "bibtex/300",
    ),
    *("Enron_corr", "bibtex/1000", "ImCLEF07A", "bibtex", "tmc2007-500"),
)
PEERS = ("linear", "trees", "stack", "boosting")
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
COLUMNS = ("F1", "micro F1", "subset", "P@1", "P@3", "P@5", "LRAP", "mAP", "Brier", "log loss", "s")


MEASURES = {"F1": "example F1", "s": "CPU time of a fit", "subset": "whole sets"}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="multilabel/ and hmc/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, help="at most so many rows of the training part")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    return results.parse(parser)


def draw_noisy(n_samples=2000, n_features=120, n_labels=100, n_hidden=12):
    """Draw many noisy labels, which depend on binary features through a few hidden numbers."""
    rng = np.random.default_rng(3)
    X = (rng.random((n_samples, n_features)) < 0.1).astype(float)
    hidden = np.tanh(0.5 * X @ rng.normal(size=(n_features, n_hidden)))
    scores = hidden @ rng.normal(size=(n_hidden, n_labels)) + 1.5 * rng.normal(size=(n_samples, n_labels))
    scores += rng.normal(size=n_labels)
    Y = (scores > np.quantile(scores, 0.96)).astype(int)
    return X[:1000], Y[:1000], X[1000:], Y[1000:]


def load(folder, name):
    """Return X, Y, X_test, Y_test, with scaled features."""
    if name == "generated-100":
        parts = draw_noisy()
    elif name.startswith("generated"):
        n_labels = int(name.split("-")[1])
        X, Y = make_multilabel_classification(
            1500, 40, n_classes=n_labels, n_labels=n_labels // 4, length=100, random_state=0
        )
        parts = X[:500], Y[:500], X[500:], Y[500:]
    elif name in ("Enron_corr", "ImCLEF07A"):
        parts = [load_hierarchical_arff(folder / "hmc" / f"{name}.{part}.arff.gz")[:2] for part in ("train", "test")]
        parts = [a for pair in parts for a in pair]
    else:
        base, _, n_rows = name.partition("/")
        files = [folder / "multilabel" / f"{base}-{part}.arff.gz" for part in ("train", "test")]
        parts = [a for path in files for a in load_multilabel_arff(path, N_LABELS[base])]
        if n_rows:
            parts[:2] = [a[: int(n_rows)] for a in parts[:2]]
    X, Y, X_test, Y_test = parts
    if not sparse.issparse(X):
        mean = np.nanmean(X, axis=0)
        X, X_test = (np.where(np.isnan(a), mean, a) for a in (X, X_test))
        if (X == 0.0).mean() > 0.7:
            X, X_test = sparse.csr_array(X), sparse.csr_array(X_test)
    scaler = (Normalizer() if sparse.issparse(X) else StandardScaler()).fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    if sparse.issparse(X):
        # Some of scikit-learn's models take matrices only.
        X, X_test = sparse.csr_matrix(X), sparse.csr_matrix(X_test)
    return X, Y, X_test, Y_test


class LogisticOrConstant(LogisticRegression):
    """Logistic regression that takes labels which all or no samples have, as one-vs-rest does and chains do not."""

    def fit(self, X, y):
        if np.ptp(y) > 0:
            return super().fit(X, y)
        self.classes_, self.coef_ = np.arange(2), np.zeros((1, X.shape[1]))
        self.intercept_, self.n_iter_ = np.array([1.0 if y[0] else -1.0]), np.ones(1, int)
        return self


def as_matrix(found):
    """Return probabilities as a matrix; forests give a list of arrays, one for each label."""
    if not isinstance(found, list):
        return np.asarray(found)
    return np.stack([p[:, 1] if p.shape[1] > 1 else np.zeros(len(p)) for p in found], axis=1)


def log_loss(Y, P):
    P = np.clip(P, 1e-6, 1.0 - 1e-6)
    return -np.log(np.where(Y > 0, P, 1.0 - P)).mean()


def measure(found, P, Y):
    """Return the columns for decisions and probabilities."""
    used, filled = np.flatnonzero(Y.any(axis=0)), Y.any(axis=1)
    return 100.0 * np.array(
        [
            example_f1_score(Y, found),
            f1_score(Y, found, average="micro"),
            (found == Y).all(axis=1).mean(),
            *(precision_at_k(Y, P, k) for k in (1, 3, 5)),
            label_ranking_average_precision_score(Y[filled], P[filled]),
            np.mean([average_precision_score(Y[:, j], P[:, j]) for j in used]),
            ((P - Y) ** 2).mean(),
            log_loss(Y, P),
        ]
    )


def fit(model, X, Y, X_test, Y_test):
    start = process_time()
    model.fit(X, Y)
    seconds = process_time() - start
    found, P = np.asarray(model.predict(X_test)).astype(int), as_matrix(model.predict_proba(X_test))
    return np.append(measure(found, P, Y_test), seconds)


def tuned(data):
    """Fit one-vs-rest with the best C for example F1 and for log loss; return the better of both, and the first C."""
    start, (X, Y, X_test, Y_test), scores = process_time(), data, []
    for C in STRENGTHS:
        model = OneVsRestClassifier(LogisticRegression(C=C, max_iter=1000))
        P = as_matrix(cross_val_predict(model, X, Y, cv=3, method="predict_proba"))
        scores.append((example_f1_score(Y, (P > 0.5).astype(int)), -log_loss(Y, P)))
    best = [STRENGTHS[k] for k in np.argmax(scores, axis=0)]
    found = []
    for C in best:
        model = OneVsRestClassifier(LogisticRegression(C=C, max_iter=1000)).fit(X, Y)
        found.append(measure(np.asarray(model.predict(X_test)), as_matrix(model.predict_proba(X_test)), Y_test))
    better = np.concatenate([np.max(found, axis=0)[:8], np.min(found, axis=0)[8:]])
    return np.append(better, process_time() - start), best[0]


def stacked(data):
    """Fit ours to a forest's out-of-fold probabilities."""
    X, Y, X_test, Y_test = data
    forest = RandomForestClassifier(n_estimators=200, random_state=0)
    model = StackingClassifier([("forest", forest)], MultilabelLPSparseMAP(), cv=3, stack_method="predict_proba")
    start = process_time()
    model.fit(X, Y)
    seconds = process_time() - start
    # The stack's own predict_proba expects a list of arrays, one for each label.
    P = model.final_estimator_.predict_proba(model.transform(X_test))
    return np.append(measure(np.asarray(model.predict(X_test)), P, Y_test), seconds)


def run(args, name):
    data, found = load(args.data, name), {}
    if args.rows:
        # The rows of some sets are in the order of their classes.
        rows = np.random.default_rng(0).permutation(data[0].shape[0])[: args.rows]
        data = *(part[rows] for part in data[:2]), *data[2:]
    found["ours"] = fit(MultilabelLPSparseMAP(), *data)
    found["ours, logistic"] = fit(MultilabelLPSparseMAP(loss="logistic"), *data)
    if "linear" in args.peers:
        found["one-vs-rest, tuned"], C = tuned(data)
        chain = ClassifierChain(LogisticOrConstant(C=C, max_iter=1000), order="random", random_state=0)
        found["chain"] = fit(chain, *data)
    if "trees" in args.peers:
        found["forest"] = fit(RandomForestClassifier(n_estimators=300, random_state=0), *data)
    if "stack" in args.peers:
        found["ours on a forest"] = stacked(data)
    if "boosting" in args.peers:
        X, Y, X_test, Y_test = data
        X, X_test = (part.toarray() if sparse.issparse(part) else part for part in (X, X_test))
        boosting = OneVsRestClassifier(HistGradientBoostingClassifier(random_state=0))
        found["boosting, one-vs-rest"] = fit(boosting, X, Y, X_test, Y_test)
    show(f"{name} ({data[0].shape[0]}, {data[1].shape[1]})", found)
    return found


def show(name, found):
    peers = [kind for kind in ("one-vs-rest, tuned", "chain", "forest", "boosting, one-vs-rest") if kind in found]
    for peer in peers:
        for column, ours, theirs in zip(COLUMNS, found["ours"], found[peer]):
            if name.startswith("mean") or column in ("F1", "micro F1"):
                unit = "s" if column == "s" else "%"
                measure = MEASURES.get(column, column)
                results.record("label sets", name, measure, ours, unit, f"{peer} (scikit-learn)", theirs,
                               package="scikit-learn")  # fmt: skip
    for kind, values in found.items():
        print(f"| {name} | {kind} | " + " | ".join(f"{value:.2f}" for value in values) + " |", flush=True)


def main():
    args = parse_arguments()
    # Labels that all samples of a fold have, or none.
    warnings.simplefilter("ignore")
    print("| set (rows, labels) | model | " + " | ".join(COLUMNS) + " |\n" + "|---" * (len(COLUMNS) + 2) + "|")
    found = [run(args, name) for name in args.sets]
    show(f"mean of {len(found)} sets", {kind: np.mean([each[kind] for each in found], axis=0) for kind in found[0]})


if __name__ == "__main__":
    main()
