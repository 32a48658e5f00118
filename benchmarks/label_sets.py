"""Label sets with the defaults: MultilabelLPSparseMAP beside tuned one-vs-rest, a classifier chain and a network.

    python benchmarks/label_sets.py --data DIR

DIR holds multilabel/*.arff.gz and hmc/*.arff.gz. Twelve sets: parts of the text collections and all of them, dense
features, hierarchies (as plain label sets), and two that are generated. All models see the same features: rows of
sparse ones scaled to unit length, dense ones to unit variance. Peers: OneVsRestClassifier(LogisticRegression) with C
out of 0.1, 1, 10 and 100 by three folds (for example F1), ClassifierChain with that C in a random order, and
MLPClassifier as it is. Percent of example F1 and of whole sets that are right on the test part, seconds of a fit.
"""

import argparse
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import Normalizer, StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.datasets import load_hierarchical_arff, load_multilabel_arff
from sklearn_sparsemap.metrics import example_f1_score, example_f1_scorer

ROOT = Path(__file__).resolve().parents[1]
N_LABELS = {"bibtex": 159, "tmc2007-500": 22, "yeast": 14, "emotions": 6}
SETS = (
    *("emotions", "generated-12", "generated-30", "yeast", "tmc2007-500/300", "tmc2007-500/1000", "bibtex/300"),
    *("Enron_corr", "bibtex/1000", "ImCLEF07A", "bibtex", "tmc2007-500"),
)
PEERS = ("one-vs-rest", "chain", "network")
OURS = {"defaults": {}, "tuned threshold": {"threshold": "auto"}}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="multilabel/ and hmc/")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--skip-peers", action="store_true")
    return parser.parse_args()


def load(folder, name):
    """Return X, Y, X_test, Y_test, with scaled features."""
    if name.startswith("generated"):
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


def measure(model, X, Y, X_test, Y_test):
    start = perf_counter()
    model.fit(X, Y)
    seconds, found = perf_counter() - start, model.predict(X_test)
    right = (np.asarray(found) == Y_test).all(axis=1).mean()
    return 100 * example_f1_score(Y_test, np.asarray(found).astype(int)), 100 * right, seconds, model


def run(args, name):
    data, found = load(args.data, name), {}
    if not args.skip_peers:
        one = OneVsRestClassifier(LogisticRegression(max_iter=1000))
        grid = GridSearchCV(one, {"estimator__C": [0.1, 1.0, 10.0, 100.0]}, cv=3, scoring=example_f1_scorer)
        *found["one-vs-rest"], grid = measure(grid, *data)
        C = grid.best_params_["estimator__C"]
        chain = ClassifierChain(LogisticOrConstant(C=C, max_iter=1000), order="random", random_state=0)
        found["chain"] = measure(chain, *data)[:3]
        found["network"] = measure(MLPClassifier(random_state=0), *data)[:3]
    for kind, params in OURS.items():
        found[kind] = measure(MultilabelLPSparseMAP(n_jobs=args.jobs, **params), *data)[:3]
    cells = [f"{f1:.1f} / {right:.1f} / {seconds:.1f}" for f1, right, seconds in found.values()]
    print(f"| {name} ({data[0].shape[0]}, {data[1].shape[1]}) | " + " | ".join(cells) + " |", flush=True)
    return found


def main():
    args = parse_arguments()
    # Labels that all samples of a fold have, or none; 200 epochs of the network.
    warnings.simplefilter("ignore")
    kinds = [*(() if args.skip_peers else PEERS), *OURS]
    print("| set (rows, labels): F1 / sets right / s | " + " | ".join(kinds) + " |\n" + "|---" * (len(kinds) + 1) + "|")
    found = [run(args, name) for name in args.sets]
    means = [np.mean([each[kind][:2] for each in found], axis=0) for kind in kinds]
    print("| mean | " + " | ".join(f"{f1:.2f} / {right:.2f}" for f1, right in means) + " |")


if __name__ == "__main__":
    main()
