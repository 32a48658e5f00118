"""Chains on long recordings: the default fit by length, labels and noise, and accuracy by loss and strength.

    python benchmarks/recordings.py

`times`: CPU seconds of the default fit and of loss="crf", for 14 recordings whose features say everything (noise 0.3),
little (3) or nothing. `accuracy`: held-out accuracy for ten recordings of 300 steps with four states, raw and scaled
features, of the default and of both losses at four strengths. hmmlearn, where it is installed, gets the means of the
labelled steps, as a reference that knows the model.
"""

import argparse
import warnings
from importlib.util import find_spec
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier

STRENGTHS = (0.3, 0.03, 0.003, 0.0003)
N_FEATURES = 6


def make(n_recordings, n_steps, n_labels, noise, rng):
    """Return recordings and their labels, which stay for some steps; without noise the features say nothing."""
    means, X, y = np.random.default_rng(9).normal(size=(n_labels, N_FEATURES)), [], []
    for _ in range(n_recordings):
        labels, own = [], int(rng.integers(n_labels))
        while len(labels) < n_steps:
            labels += [own] * int(rng.integers(3, max(5, n_steps // 4)))
            own = int((own + rng.integers(1, n_labels)) % n_labels)
        y.append(np.array(labels[:n_steps]))
        signal = 0.0 if noise is None else means[y[-1]]
        X.append(signal + (1.0 if noise is None else noise) * rng.normal(size=(n_steps, N_FEATURES)))
    return X, y


def timed_fit(X, y, **parameters):
    began = process_time()
    model = StructuredSparseMAPClassifier("chain", n_jobs=1, **parameters).fit(X, y)
    return process_time() - began, model


def times(args):
    print("| steps, labels, noise | default, s | crf, s | ratio |\n|---|---|---|---|")
    for n_labels in (2, 6):
        for n_steps in args.steps:
            for noise in (0.3, 3.0, None):
                X, y = make(14, n_steps, n_labels, noise, np.random.default_rng(0))
                fits = [(timed_fit(X, y)[0], timed_fit(X, y, loss="crf")[0]) for _ in range(args.rounds)]
                ours, theirs = np.min(fits, axis=0)
                name = f"{n_steps} steps, {n_labels} labels, noise {'only' if noise is None else noise}"
                print(f"| {name} | {ours:.3f} | {theirs:.3f} | {ours / theirs:.1f} |", flush=True)
                results.record("Recordings", name, "CPU time of fit", ours, "s", "crf", theirs)


def accuracy(args):
    for noise in (1.0, 3.0):
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            X, y = make(10, 300, 4, noise, rng)
            X_test, y_test = make(20, 300, 4, noise, rng)
            steps = np.vstack(X)
            for kind in ("raw", "scaled"):
                mean, scale = (0.0, 1.0) if kind == "raw" else (steps.mean(axis=0), steps.std(axis=0))
                train, test = ([(x - mean) / scale for x in part] for part in (X, X_test))
                default = 100.0 * timed_fit(train, y)[1].score(test, y_test)
                best = max(
                    100.0 * timed_fit(train, y, loss=loss, alpha=alpha)[1].score(test, y_test)
                    for loss in ("sparsemap", "crf")
                    for alpha in STRENGTHS
                )
                name = f"noise {noise}, {kind}, seed {seed}"
                known = known_model(train, y, test, y_test) if find_spec("hmmlearn") else None
                shown = "not installed" if known is None else f"{known:.1f}"
                print(f"{name}: default {default:.1f}, best of 8 {best:.1f}, hmmlearn {shown}", flush=True)
                results.record("Recordings", name, "accuracy", default, "%", "best of two losses, four strengths", best)
                if known is not None:
                    results.record("Recordings", name, "accuracy", default, "%", "hmmlearn, fitted by counting", known,
                                   package="hmmlearn")  # fmt: skip


def known_model(X, y, X_test, y_test):
    """Return the accuracy of a Gaussian HMM whose parameters are the means, covariances and counts of the labels."""
    from hmmlearn.hmm import GaussianHMM

    steps, labels = np.vstack(X), np.concatenate(y)
    model = GaussianHMM(4, covariance_type="full")
    model.startprob_ = np.full(4, 0.25)
    model.means_ = np.array([steps[labels == k].mean(axis=0) for k in range(4)])
    model.covars_ = np.array([np.cov(steps[labels == k].T) for k in range(4)])
    counts = np.ones((4, 4))
    for own in y:
        np.add.at(counts, (own[:-1], own[1:]), 1)
    model.transmat_ = counts / counts.sum(axis=1, keepdims=True)
    hits = np.concatenate([model.predict(x) == z for x, z in zip(X_test, y_test)])
    return 100.0 * hits.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["times", "accuracy"], choices=["times", "accuracy"])
    parser.add_argument("--steps", nargs="+", type=int, default=[20, 80, 320])
    parser.add_argument("--rounds", type=int, default=3, help="fits of which the fastest counts")
    parser.add_argument("--seeds", type=int, default=3)
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    timed_fit(*make(4, 60, 2, None, np.random.default_rng(0)))
    timed_fit(*make(4, 20, 2, 0.3, np.random.default_rng(0)), loss="crf")
    for which in args.only:
        {"times": times, "accuracy": accuracy}[which](args)


if __name__ == "__main__":
    main()
