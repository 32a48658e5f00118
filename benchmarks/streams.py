"""Streams whose labels or features change: accuracy before and after the change, beside SGDClassifier.

    python benchmarks/streams.py                      # all models on the held-out streams
    python benchmarks/streams.py --development        # the streams on which the design was chosen
    python benchmarks/streams.py --models "flat crf" --changes sudden
    python benchmarks/streams.py --windows            # other averages, on the streams of --development

Each mini-batch is predicted before it is learned. A label depends linearly on ten features, with noise; that of a step
of a chain also on the previous label. A stream changes in its middle:

- sudden: other weights. gradual: other weights for more and more of the samples, over a quarter of the stream.
- recurring: other weights, and the first ones again, each for a quarter.
- new labels: a third label, for what was one of two. scale: all features are ten times as large.

The columns are the accuracy over the last 20 batches before the (first) change; over the batches 8 to 12 after the
(last) change is complete; and over the last 20 batches. SGDClassifier learns the steps of chains by themselves. On flat
streams river's adaptive random forest is a second peer, if river is installed: its trees detect changes themselves.
`average=True` is the average over all steps.

With `--windows`, the averages of `average="recent"` and `average=True` stand beside averages of the weights after each
mini-batch (`average=False`): exponential ones, with a mean age of 5, 20 or 80 batches, and one over a window that
doubles: it restarts at batches 1, 2, 4, 8 and so on, and until it is as long as a quarter of the stream, the former one
predicts.
"""

import argparse
import warnings
from importlib.util import find_spec

import numpy as np
import results
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.multioutput import MultiOutputClassifier

from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.factors import FactorGraph, Pair
from sklearn_sparsemap.score_models import Network

CHANGES = ("sudden", "gradual", "recurring", "new labels", "scale")
LOSSES = ("sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf")
N_COLUMNS = 2**23  # of the sparse features
# Batches in a stream, samples in a batch, features, noise of the scores, seeds.
DEVELOPMENT = {"n_batches": 160, "size": 50, "n_features": 10, "noise": 1.0, "seeds": (0, 1)}
HELD_OUT = {"n_batches": 240, "size": 20, "n_features": 16, "noise": 0.7, "seeds": (100, 101, 102)}
N_STEPS = 5  # of a chain
WIDTH = 20  # number of batches in the means before the change and at the end


def new_pair(rng, n_features):
    """Draw the weights of three labels, before and after the change."""
    return rng.normal(size=(2, n_features, 3))


def stages(change, n_batches):
    """Return the first batch of the (first) change, the one at which the (last) change is complete, and a function.

    The function maps the index of a batch to the fraction of its samples that have the second weights.
    """
    half, quarter = n_batches // 2, n_batches // 4
    if change == "gradual":
        return half, half + quarter, lambda k: min(max((k - half) / quarter, 0.0), 1.0)
    if change == "recurring":
        return quarter, 3 * quarter, lambda k: float((k // quarter) % 2)
    return half, half, lambda k: float(k >= half and change == "sudden")


def batches(kind, change, seed, n_batches, size, n_features, noise, narrow=False):
    """Yield mini-batches: features, labels. `narrow` leaves out the columns of sparse features that are zero."""
    rng = np.random.default_rng(seed)
    pair = new_pair(rng, n_features)
    half, _, fraction = stages(change, n_batches)
    length = N_STEPS if kind in ("chain", "graph") else 1
    columns = rng.choice(N_COLUMNS, size=40, replace=False)
    columns, n_columns = (np.arange(40), 40) if narrow else (columns, N_COLUMNS)
    meanings = rng.normal(size=(2, 40, 3))
    for k in range(n_batches):
        which = (rng.random(size) < fraction(k)).astype(int)
        which = np.repeat(which, length)
        n = size * length
        if kind == "sparse":
            active = np.array([rng.choice(40, size=8, replace=False) for _ in range(n)])
            X = sparse.csr_array(
                (np.ones(8 * n), columns[active].ravel().astype(np.int32), 8 * np.arange(n + 1, dtype=np.int32)),
                shape=(n, n_columns),
            )
            scores = meanings[which[:, None], active].sum(axis=1)
        else:
            X = rng.normal(size=(n, n_features))
            scores = np.einsum("nf,nfl->nl", X, pair[which])
        scores = scores + noise * rng.normal(size=scores.shape)
        if kind == "labels":
            y = (scores > 0.0).astype(int)
        else:
            if kind != "sparse" and (change != "new labels" or k < half):
                scores[:, 2] = -np.inf
            y = scores.argmax(axis=1)
        if length > 1:
            for i in range(n):
                # Half of the steps have the previous label.
                if i % length and rng.random() < 0.5 and kind == "chain":
                    y[i] = y[i - 1]
        if change == "scale" and k >= half:
            X = X * 10.0
        if length > 1:
            yield np.split(X, size), np.split(y, size)
        else:
            yield X, y


def graph_of(x):
    """Return the graph of a sample: one binary variable a row, and a learned score for each pair of neighbours."""
    graph = FactorGraph()
    u = graph.variables(len(x), name="u")
    graph.add(Pair(u[:-1], u[1:], name="same", tied=True))
    return graph


MODELS = {}
for loss in LOSSES:
    MODELS[f"flat {loss}"] = (
        "flat",
        lambda average, loss=loss: StructuredSparseMAPClassifier(loss=loss, average=average),
    )
    MODELS[f"chain {loss}"] = (
        "chain",
        lambda average, loss=loss: StructuredSparseMAPClassifier("chain", loss=loss, average=average),
    )
MODELS |= {
    "flat mira": ("flat", lambda average: StructuredSparseMAPClassifier(loss="hinge", solver="mira", average=average)),
    "chain mira": (
        "chain",
        lambda average: StructuredSparseMAPClassifier("chain", loss="hinge", solver="mira", average=average),
    ),
    "sparse sparsemap": ("sparse", lambda average: StructuredSparseMAPClassifier(average=average)),
    "sparse perceptron": ("sparse", lambda average: StructuredSparseMAPClassifier(loss="perceptron", average=average)),
    "flat groups": ("flat", lambda average: GroupLassoPerceptron(budget=5, average=average)),
    "chain groups": ("chain", lambda average: GroupLassoPerceptron(structure="chain", budget=5, average=average)),
    "labels": ("labels", lambda average: MultilabelLPSparseMAP(random_state=0)),
    "labels network": (
        "labels",
        lambda average: MultilabelLPSparseMAP(score_model=Network((20,), dropout=0.0), random_state=0),
    ),
    "graph sparsemap": ("graph", lambda average: StructuredSparseMAPClassifier(graph_of, average=average)),
}


class AdaptiveForest:
    """River's adaptive random forest, which learns samples one by one, behind the methods of scikit-learn."""

    def partial_fit(self, X, y, classes):
        from river.forest import ARFClassifier

        if not hasattr(self, "n_iter_"):
            self.model, self.n_iter_ = ARFClassifier(seed=0), 0
        for x, label in zip(X, y):
            self.model.learn_one(dict(enumerate(x)), int(label))
        self.n_iter_ += 1

    def predict(self, X):
        return [self.model.predict_one(dict(enumerate(x))) for x in X]


def peers_of(kind):
    """Return the peers for a kind of stream: functions that make a model, and their distributions, by name."""
    sgd = SGDClassifier(loss="log_loss", random_state=0)
    made = MultiOutputClassifier(sgd) if kind == "labels" else sgd
    found = {"SGDClassifier": (lambda: clone(made), "scikit-learn")}
    if kind == "flat" and find_spec("river"):
        found["adaptive random forest (river)"] = AdaptiveForest, "river"
    return found


def accuracies(model, kind, change, seed, settings, flat=False):
    """Return the accuracy on each mini-batch before it is learned."""
    found = []
    for X, y in batches(kind, change, seed, **settings, narrow=flat):
        if flat and isinstance(X, list):
            X, y = np.vstack(X), np.concatenate(y)
        if found or hasattr(model, "n_iter_") or hasattr(model, "estimators_"):
            predicted = model.predict(X)
            right = [np.mean(a == b) for a, b in zip(predicted, y)]
            found.append(np.mean(right))
        if kind == "labels":
            options = {"classes": [np.array([0, 1])] * 3} if flat and not hasattr(model, "estimators_") else {}
        else:
            options = {"classes": [0, 1, 2]} if change == "new labels" or kind == "sparse" else {"classes": [0, 1]}
            options = {"classes": [0, 1]} if kind == "graph" and not flat else options
        if kind == "graph" and not flat:
            options = {}
        model.partial_fit(X, y, **options)
    return np.array(found)


class Window:
    """An average of the weights after each mini-batch.

    Parameters
    ----------
    age : float or None
        Mean age of the weights of an exponential average, in batches; None for a window that doubles.
    """

    def __init__(self, age):
        self.age, self.total, self.weight, self.former, self.n = age, 0.0, 0.0, None, 0

    def add(self, weights):
        self.n += 1
        if self.age is not None:
            decay = self.age / (self.age + 1.0)
            self.total, self.weight = decay * self.total + weights, decay * self.weight + 1.0
            return
        if self.n & (self.n - 1) == 0:
            self.former = self.mean() if self.weight else weights
            self.total, self.weight = 0.0, 0.0
        self.total, self.weight = self.total + weights, self.weight + 1.0

    def mean(self):
        # A window that has just begun is noisier than the former one.
        is_short = self.age is None and 2 * self.weight < self.n / 2
        return self.former if is_short else self.total / self.weight


WINDOWS = {"exponential, 5 batches": 5.0, "exponential, 20": 20.0, "exponential, 80": 80.0, "doubling": None}


def compare_windows(loss, change, seed, settings):
    """Return the accuracies on each mini-batch before it is learned, by average."""
    models = {f"average={a!r}": StructuredSparseMAPClassifier(loss=loss, average=a) for a in ("recent", True, False)}
    windows, found = {name: Window(age) for name, age in WINDOWS.items()}, {}
    labels = [0, 1, 2] if change == "new labels" else [0, 1]
    for number, (X, y) in enumerate(batches("flat", change, seed, **settings)):
        for name, model in models.items():
            if number:
                found.setdefault(name, []).append(np.mean(model.predict(X) == y))
            model.partial_fit(X, y, classes=labels)
        for name, window in windows.items():
            if number:
                mean = window.mean()
                found.setdefault(name, []).append(np.mean((X @ mean[:, :-1].T + mean[:, -1]).argmax(axis=1) == y))
            window.add(np.column_stack([model.coef_, model.intercept_]))
    return {name: np.array(curve) for name, curve in found.items()}


def print_windows(settings, seeds):
    """Print the accuracies of all averages, and record their means over the changes."""
    print(f"{'loss':12}{'average':24}{'change':12}{'before, +10, end':>26}")
    for loss in ("sparsemap", "crf"):
        means = {}
        for change in CHANGES:
            curves = [compare_windows(loss, change, seed, settings) for seed in seeds]
            for name in curves[0]:
                values = [summary(own[name], change, settings["n_batches"]) for own in curves]
                found = 100 * np.mean(values, axis=0)
                means.setdefault(name, []).append(found)
                print(f"{loss:12}{name:24}{change:12}" + "".join(f"{value:8.1f}" for value in found), flush=True)
        ours = np.mean(means.pop("average='recent'"), axis=0)
        for name, rows in means.items():
            for own, theirs, measure in zip(ours, np.mean(rows, axis=0), ("before", "ten batches after", "end")):
                results.record(
                    f"streams: flat {loss}, development", "mean of five changes", f"accuracy, {measure}", own, "%",
                    peer=name, theirs=theirs, seeds=len(seeds),
                )  # fmt: skip


def summary(curve, change, n_batches):
    """Return the accuracy before the change, ten batches after it, and at the end."""
    first, last, _ = stages(change, n_batches)
    # Entry k of the curve is batch k + 1.
    return curve[first - WIDTH : first - 1].mean(), curve[last + 7 : last + 12].mean(), curve[-WIDTH:].mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=CHANGES)
    parser.add_argument("--development", action="store_true", help="the streams on which the design was chosen")
    parser.add_argument("--windows", action="store_true", help="other averages, on the development streams")
    parser.add_argument("--all-steps", action="store_true", help="measure average=True, too")
    arguments = results.parse(parser)
    settings = dict(DEVELOPMENT if arguments.development else HELD_OUT)
    seeds, n_batches = settings.pop("seeds"), settings["n_batches"]
    warnings.simplefilter("ignore")
    if arguments.windows:
        settings = dict(DEVELOPMENT)
        print_windows(settings, settings.pop("seeds"))
        return
    if not find_spec("river"):
        print("no river: pip install river")
    peers = {}
    print(f"{'model':34}{'change':12}{'before, +10, end':>26}")
    for name in arguments.models:
        kind, make = MODELS[name]
        for change in arguments.changes:
            if change == "new labels" and kind in ("labels", "graph", "sparse"):
                continue

            def measured(make_one, flat=False):
                curves = [accuracies(make_one(), kind, change, seed, settings, flat) for seed in seeds]  # noqa: B023
                return 100 * np.mean([summary(curve, change, n_batches) for curve in curves], axis=0)  # noqa: B023

            def show(who, row):
                print(f"{who:34}{change:12}" + "".join(f"{value:8.1f}" for value in row), flush=True)  # noqa: B023

            for peer, (make_one, _) in peers_of(kind).items():
                if (kind, change, peer) not in peers:
                    peers[kind, change, peer] = measured(make_one, True)
                    show(peer, peers[kind, change, peer])
            for average in ("recent", True) if arguments.all_steps else ("recent",):
                ours, note = measured(lambda: make(average)), "" if average == "recent" else " average=True"  # noqa: B023
                show(name + note, ours)
                if arguments.development:
                    continue
                for peer, (_, package) in peers_of(kind).items():
                    for k, measure in enumerate(("before", "ten batches after", "end")):
                        results.record(
                            f"streams: {name}{note}", change, f"accuracy, {measure}", ours[k], "%", peer=peer,
                            theirs=peers[kind, change, peer][k], seeds=len(seeds), package=package,
                        )  # fmt: skip


if __name__ == "__main__":
    main()
