"""Score models under one structure: letters of words, trained on one fold and tested on two others, or on nine folds.

    python benchmarks/score_models.py --data DIR [--part one] [--part nine]

DIR holds ocr_letters/letters.npz. Models: linear scores, a network, boosted trees and ExtraTrees under a chain, all
with their defaults; ExtraTrees alone; and the same network in PyTorch with `sklearn_sparsemap.torch.FenchelYoungLoss`,
for as many epochs. CPU seconds are those of the fit, on one thread.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

# One thread for every model: set before the libraries are loaded.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

from time import process_time

import numpy as np
import results
from ocr import ROOT, load_letters
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.score_models import Network

TASK = "Score models"


class TorchNetwork:
    """The network of `Network()` in PyTorch, with transitions, and the loss of SparseMAP for padded batches."""

    def __init__(self, seed, max_iter):
        self.seed, self.max_iter = seed, max_iter

    def fit(self, X, y):
        import torch

        from sklearn_sparsemap.structures import LinearChain
        from sklearn_sparsemap.torch import FenchelYoungLoss

        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        given, n_labels = Network(), int(y.values.max()) + 1
        (units,) = given.hidden_layer_sizes
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(X.values.shape[1], units), torch.nn.ReLU(), torch.nn.Dropout(given.dropout),
            torch.nn.Linear(units, n_labels),
        )  # fmt: skip
        shapes = {"transitions": (n_labels, n_labels), "start": (n_labels,), "end": (n_labels,)}
        self.additional = {name: torch.zeros(shape, requires_grad=True) for name, shape in shapes.items()}
        loss = FenchelYoungLoss(LinearChain())
        optimizer = torch.optim.Adam([*self.layers.parameters(), *self.additional.values()], given.eta0)
        lengths = torch.as_tensor(np.diff(X.indptr))
        rows = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(x, dtype=torch.float32) for x in X], batch_first=True)
        gold = torch.nn.utils.rnn.pad_sequence([torch.as_tensor(np.asarray(own)) for own in y], batch_first=True)
        self.layers.train()
        for _ in range(self.max_iter):
            for chosen in torch.randperm(len(lengths)).split(given.batch_size):
                longest = lengths[chosen].max()
                scores = self.layers(rows[chosen, :longest])
                value = loss(scores, gold[chosen, :longest], lengths[chosen], **self.additional)
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
        return self

    def score(self, X, y):
        import torch

        from sklearn_sparsemap import map_inference
        from sklearn_sparsemap.structures import LinearChain

        self.layers.eval()
        additional = {name: values.detach().numpy() for name, values in self.additional.items()}
        with torch.no_grad():
            scores = [self.layers(torch.as_tensor(x, dtype=torch.float32)).numpy() for x in X]
        found = map_inference(LinearChain(), scores, **additional)
        return float(np.mean(np.concatenate([result.structure for result in found]) == y.values))


class Alone:
    """A classifier of single letters."""

    def __init__(self, classifier):
        self.classifier = classifier

    def fit(self, X, y):
        self.classifier.fit(X.values, y.values)
        return self

    def score(self, X, y):
        return self.classifier.score(X.values, y.values)


def models(seed, part):
    """Yield the name and the model of each row of the table."""

    def chain(score_model, loss="sparsemap"):
        return StructuredSparseMAPClassifier("chain", loss, score_model=score_model, random_state=seed, n_jobs=1)

    if part == "one":
        yield "linear", chain("linear")
        yield "linear, crf", chain("linear", "crf")
    yield "network", chain("network")
    if part == "one":
        yield "trees", chain("trees")
        yield "ExtraTrees(200) under a chain", chain(ExtraTreesClassifier(200))
        yield "ExtraTrees(200) alone", Alone(ExtraTreesClassifier(200, random_state=seed))


def run(model, train, test):
    """Return the accuracy in percent, the CPU seconds of the fit, and the model."""
    began = process_time()
    model.fit(*train)
    seconds = process_time() - began
    return 100.0 * model.score(*test), seconds, model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with ocr_letters/")
    parser.add_argument("--part", choices=["one", "nine"], action="append", help="folds for training")
    parser.add_argument("--seeds", type=int, default=3)
    args = results.parse(parser)
    path = args.data / "ocr_letters" / "letters.npz"
    if not path.exists():
        sys.exit(f"no {path}; name the folder that has ocr_letters/ with --data")
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y, folds = load_letters(path)
    parts = {
        "one": ("one fold", folds == 0, (folds == 1) | (folds == 2)),
        "nine": ("nine folds", folds != 0, folds == 0),
    }
    for part in args.part or parts:
        title, chosen, held = parts[part]
        train, test = (X[chosen], y[chosen]), (X[held], y[held])
        StructuredSparseMAPClassifier("chain", score_model="network", max_iter=1).fit(X[:50], y[:50])
        found = {}
        for seed in range(args.seeds if part == "one" else 1):
            for name, model in models(seed, part):
                accuracy, seconds, model = run(model, train, test)
                n_iter = getattr(model, "n_iter_", 1)
                found.setdefault(name, []).append((accuracy, seconds, n_iter))
                print(f"{title}, seed {seed}, {name}: {accuracy:.1f} %, {seconds:.1f} s, {n_iter}", flush=True)
                if name == "network":
                    accuracy, seconds, _ = run(TorchNetwork(seed, n_iter), train, test)
                    found.setdefault("network in PyTorch", []).append((accuracy, seconds, n_iter))
                    print(f"{title}, seed {seed}, in PyTorch: {accuracy:.1f} %, {seconds:.1f} s", flush=True)
        print(f"\n| trained on {title} | letters right, % | CPU time of fit, s |\n|---|---|---|")
        for name, rows in found.items():
            accuracy, seconds, _ = np.mean(rows, axis=0)
            print(f"| {name} | {accuracy:.1f} | {seconds:.1f} |")
            width = results.half_width([row[0] for row in rows])
            data = f"letters, {title}, {name}"
            results.record(TASK, data, "letters right", accuracy, "%", seeds=len(rows), interval=width)
            results.record(TASK, data, "CPU time of fit", seconds, "s", seeds=len(rows))
        own, theirs = (np.array([s / n for _, s, n in found[name]]) for name in ("network", "network in PyTorch"))
        print(f"\nCPU time of an epoch: {own.min():.2f} s, in PyTorch {theirs.min():.2f} s", flush=True)
        results.record(
            TASK, f"letters, {title}", "CPU time of an epoch of the network", own.min(), "s", "the same in PyTorch",
            theirs.min(), seeds=len(own), package="torch",
        )  # fmt: skip


if __name__ == "__main__":
    main()
