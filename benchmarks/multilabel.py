"""Multilabel classification: SparseMAP, structured hinge and logistic loss of one network, compared with scikit-learn.

    python benchmarks/multilabel.py --data DIR

DIR holds multilabel/*.arff.gz. All three losses have the same network and the same grid of learning rate and dropout;
its point, the epoch and the threshold are chosen by the example F1 of a tenth of the training data that is held out.
The chosen point is then run with several seeds. scikit-learn's models get the same threshold tuning on as many
held-out data. Figures are percent of F1 on the test data, by two measures: "F1 of means" is the harmonic mean of
the mean precision and the mean recall of the samples, which the paper reports, and "mean F1" the mean of the samples'
F1 (`example_f1_score`). ``--published`` is the paper's protocol: scores for all pairs of labels, no penalty, no
held-out part, a fixed number of epochs (``--max-iter``), and prediction by LP-MAP at 0.5. It takes one rate and one
dropout.
"""

import argparse
import warnings
from itertools import product
from pathlib import Path
from statistics import mean, median
from time import perf_counter

import numpy as np
import results
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import Normalizer, StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.datasets import load_multilabel_arff
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.score_models import Network

ROOT = Path(__file__).resolve().parents[1]
N_LABELS = {"bibtex": 159, "tmc2007-500": 22, "yeast": 14, "emotions": 6}
# Rows of word counts are scaled to unit length.
SCALERS = {"bibtex": Normalizer, "tmc2007-500": Normalizer, "yeast": StandardScaler, "emotions": StandardScaler}
PAPER = {"logistic": 42.28, "hinge": 37.70, "sparsemap": 43.43}
ROWS = {"logistic": "unstructured (logistic)", "hinge": "structured hinge", "sparsemap": "LP-SparseMAP"}
THRESHOLDS = np.linspace(0.0, 0.99, 100)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with multilabel/")
    parser.add_argument("--sets", nargs="+", choices=N_LABELS, default=list(N_LABELS))
    parser.add_argument("--losses", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--rates", nargs="+", type=float, default=[5e-4, 1e-3])
    parser.add_argument("--dropouts", nargs="+", type=float, default=[0.5, 0.7])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--hidden", type=int, nargs="+", default=[500], help="units of each hidden layer")
    parser.add_argument("--batch", type=int, default=64, help="samples of a mini-batch")
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--skip-peers", action="store_true")
    parser.add_argument("--published", action="store_true", help="the paper's protocol, at one rate and dropout")
    args = results.parse(parser)
    if args.published and len(args.rates) * len(args.dropouts) > 1:
        parser.error("--published holds out no samples to choose by: give one of --rates and one of --dropouts")
    return args


def f1_of_means(Y, predicted):
    """Return the harmonic mean of the mean precision and the mean recall of the samples (the paper's measure)."""
    precision = precision_score(Y, predicted, average="samples", zero_division=0.0)
    recall = recall_score(Y, predicted, average="samples", zero_division=0.0)
    return 2.0 * precision * recall / max(precision + recall, 1e-12)


def load(args, name):
    folder, n = args.data / "multilabel", N_LABELS[name]
    X, Y = load_multilabel_arff(folder / f"{name}-train.arff.gz", n)
    X_test, Y_test = load_multilabel_arff(folder / f"{name}-test.arff.gz", n)
    if args.published:
        return X, Y, X_test, Y_test
    scaler = SCALERS[name]().fit(X)
    return scaler.transform(X), Y, scaler.transform(X_test), Y_test


def new_model(args, loss, rate, dropout, seed):
    rule = {"threshold": "auto", "early_stopping": True}
    if args.published:
        rule = {"label_graph": None if loss == "logistic" else "full", "decision": "map", "alpha": 0.0, "tol": 0.0}
    return MultilabelLPSparseMAP(
        loss=loss,
        score_model=Network(tuple(args.hidden), dropout=dropout, eta0=rate, batch_size=args.batch),
        n_iter_no_change=6,
        max_iter=args.max_iter,
        random_state=seed,
        n_jobs=args.jobs,
        **rule,
    )


def run_losses(args, name, data):
    X, Y, X_test, Y_test = data
    for loss in args.losses:
        tried = []
        for rate, dropout in product(args.rates, args.dropouts):
            model = new_model(args, loss, rate, dropout, 0)
            start = perf_counter()
            model.fit(X, Y)
            seconds = (perf_counter() - start) / model.n_iter_
            held_out = 0.0 if args.published else max(model.validation_scores_)
            tried.append((held_out, rate, dropout, model, seconds))
            print(f"  {loss}, rate {rate:g}, dropout {dropout:g}: held-out {100 * held_out:.2f}", flush=True)
        _, rate, dropout, first, _ = max(tried, key=lambda t: t[0])
        models = [first] + [new_model(args, loss, rate, dropout, s).fit(X, Y) for s in range(1, args.seeds)]
        predictions = [model.predict(X_test) for model in models]
        scores = [100 * example_f1_score(Y_test, predicted) for predicted in predictions]
        of_means = [100 * f1_of_means(Y_test, predicted) for predicted in predictions]
        form = f", published protocol, layers of {args.hidden}, dropout {dropout:g}" * args.published
        results.record("multilabel networks", name + form, f"mean F1, {ROWS[loss]}", mean(scores), "%",
                       seeds=args.seeds)  # fmt: skip
        peer, theirs = ("Niculae and Martins 2020", PAPER[loss]) if name == "bibtex" else ("", None)
        results.record("multilabel networks", name + form, f"F1 of means, {ROWS[loss]}", mean(of_means), "%", peer,
                       theirs, args.seeds, elsewhere=bool(peer))  # fmt: skip
        paper = f"{PAPER[loss]:6.2f}" if name == "bibtex" else "      "
        print(
            f"{name:12} {ROWS[loss]:32} mean F1 {mean(scores):6.2f} {min(scores):6.2f} to {max(scores):5.2f}  "
            f"F1 of means {mean(of_means):6.2f} {min(of_means):6.2f} to {max(of_means):5.2f}  paper {paper}  "
            f"{median(t[-1] for t in tried):6.2f} s/epoch  {mean(m.n_iter_ for m in models):4.0f} epochs  "
            f"rate {rate:g}, dropout {dropout:g}, threshold {mean(m.threshold_ for m in models):.2f}",
            flush=True,
        )


def run_peers(args, name, data):
    X, Y, X_test, Y_test = data
    one = LogisticRegression(C=10.0, max_iter=1000)
    peers = {
        "OneVsRestClassifier (logistic)": OneVsRestClassifier(one, n_jobs=args.jobs),
        "ClassifierChain (logistic)": ClassifierChain(one, order="random", random_state=0),
        "MLPClassifier": MLPClassifier(tuple(args.hidden), max_iter=args.max_iter, random_state=0),
    }
    train, held = train_test_split(np.arange(len(Y)), test_size=0.1, random_state=0)
    for peer, model in peers.items():
        start = perf_counter()
        model.fit(X[train], Y[train])
        seconds = perf_counter() - start
        marginals = model.predict_proba(X[held])
        tuned = max(THRESHOLDS, key=lambda t: example_f1_score(Y[held], (marginals > t).astype(int)))
        score = 100 * example_f1_score(Y_test, (model.predict_proba(X_test) > tuned).astype(int))
        results.record("multilabel networks", name, f"mean F1, {peer} of scikit-learn", score, "%")
        print(f"{name:12} {peer:32} {score:6.2f}  fit {seconds:.1f} s, threshold {tuned:.2f}", flush=True)


def main():
    args = parse_arguments()
    # The number of epochs is bounded on purpose.
    warnings.simplefilter("ignore", ConvergenceWarning)
    # Some labels of bibtex occur in all or no samples of a part.
    warnings.filterwarnings("ignore", message="Label .* is present in all training examples")
    for name in args.sets:
        data = load(args, name)
        run_losses(args, name, data)
        if not args.skip_peers:
            run_peers(args, name, data)


if __name__ == "__main__":
    main()
