"""What edges between labels add: losses and label graphs on the same parts of the data, with intervals.

    python benchmarks/label_graphs.py --data DIR

DIR holds multilabel/*.arff.gz and hmc/*.arff.gz. Linear models on random halves of the training part, the same for all
models. Differences to SparseMAP without edges by Adam, in points of example F1 and of whole sets that are right on the
test part: mean and 95 % interval over the halves. "conditional": logistic models of each label from the features and
the other labels (`conditional_labels.py`), whose joint decision is among the sets seen, as that of the last SparseMAP.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
import results
from conditional_labels import ConditionalLabels
from label_sets import load
from scipy import sparse
from scipy.stats import t

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.datasets import load_hierarchical_arff
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.metrics import example_f1_score

ROOT = Path(__file__).resolve().parents[1]
SETS = ["emotions", "yeast", "generated-12", "tmc2007-500/1000", "Enron_corr"]
MODELS = {
    "SparseMAP, no edges": {},
    "SparseMAP, tree": {"label_graph": "tree"},
    "SparseMAP, full": {"label_graph": "full"},
    "logistic": {"loss": "logistic"},
    "hinge, no edges": {"loss": "hinge"},
    "hinge, tree": {"loss": "hinge", "label_graph": "tree"},
    "SparseMAP, no edges, L-BFGS": {"solver": "lbfgs"},
    "SparseMAP, no edges, L-BFGS, rules": {"solver": "lbfgs", "constraints": "hierarchy"},
    "SparseMAP, no edges, L-BFGS, seen sets": {"solver": "lbfgs", "decision": "observed_sets"},
    "SparseMAP, full, seen sets": {"label_graph": "full", "decision": "observed_sets"},
    **{f"conditional, {edges}": edges for edges in ("none", "full", "low rank", "by input")},
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="multilabel/ and hmc/")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--halves", type=int, default=5)
    parser.add_argument("--max-iter", type=int, default=60)
    return results.parse(parser)


def new_model(args, params, seed, rules):
    """Return a model; None where it needs rules, and there are none."""
    if isinstance(params, str):
        return ConditionalLabels(params, random_state=seed)
    own = {"solver": "adam", "decision": "threshold", "random_state": seed, **params}
    own["max_iter"] = None if own["solver"] == "lbfgs" else args.max_iter
    if "constraints" in own:
        own["constraints"] = rules
    return None if "constraints" in own and rules is None else MultilabelLPSparseMAP(**own)


def run(args, name):
    X, Y, X_test, Y_test = load(args.data, name)
    Y, Y_test = (np.asarray(a.todense() if sparse.issparse(a) else a) for a in (Y, Y_test))
    path = args.data / "hmc" / f"{name}.train.arff.gz"
    rules = Hierarchy(load_hierarchical_arff(path)[3]) if path.exists() else None
    found = np.zeros((len(MODELS), args.halves, 2))
    for h in range(args.halves):
        rows = np.random.default_rng(h).permutation(len(Y))[: len(Y) // 2]
        for m, params in enumerate(MODELS.values()):
            model = new_model(args, params, h, rules)
            if model is None:
                found[m, h] = np.nan
                continue
            predicted = model.fit(X[rows], Y[rows]).predict(X_test)
            right = (predicted == Y_test).all(axis=1).mean()
            found[m, h] = 100 * example_f1_score(Y_test, predicted), 100 * right
    print(f"| {name} | {found[0].mean(axis=0)[0]:.1f} | {found[0].mean(axis=0)[1]:.1f} | SparseMAP, no edges |")
    for m, what in list(enumerate(MODELS))[1:]:
        if np.isnan(found[m]).any():
            continue
        gains = found[m] - found[0]
        radii = t.ppf(0.975, args.halves - 1) * gains.std(axis=0, ddof=1) / np.sqrt(args.halves)
        cells = [f"{gain:+.1f} ± {radius:.1f}" for gain, radius in zip(gains.mean(axis=0), radii)]
        for place, measure in enumerate(("example F1", "whole sets")):
            results.record("edges between labels", name, f"{measure}, {what}", found[m][:, place].mean(), "%",
                           "SparseMAP, no edges", found[0][:, place].mean(), args.halves, radii[place])  # fmt: skip
        print(f"| {name} | {cells[0]} | {cells[1]} | {what} |", flush=True)


def main():
    args = parse_arguments()
    warnings.simplefilter("ignore")
    print("| set | example F1 | whole sets | |\n|---|---|---|---|")
    for name in args.sets:
        run(args, name)


if __name__ == "__main__":
    main()
