"""How time and memory grow: labels, lengths, sentences and features; our losses and CRFsuite on the same sequences.

    python benchmarks/growth.py                       # all tables
    python benchmarks/growth.py --only inference

The sequences are drawn from a Markov chain of labels. A token has ten features of a vocabulary; each label prefers some
of them. Training makes ten passes over the data, from zero weights: ten iterations of L-BFGS for the CRFs, ten epochs
of AdaGrad for SparseMAP. Each fit is a process of its own, which compiles its kernels first. Its memory is
that above the peak before.

- inference: SparseMAP of random chains as a multiple of the Gibbs marginals of the same scores, one thread, batches.
- labels, lengths, sentences, features: CPU seconds and peak memory of training, with the exponent of the growth: the
  slope of a line through the logarithms of the three largest sizes.
"""

import argparse
import json
import subprocess
import sys
import warnings
from functools import partial
from time import process_time

import numpy as np
import results

N_PASSES, N_ACTIVE = 10, 10
# Sizes that the tables vary, one at a time.
BASE = {"labels": 10, "lengths": 20, "sentences": 1000, "features": 20_000}
SIZES = {
    "labels": (5, 10, 30, 100, 300),
    "lengths": (10, 30, 100, 300, 1000),
    "sentences": (300, 1000, 3000, 10_000),
    "features": (3000, 10_000, 30_000, 100_000, 300_000),
}
MODELS = ("sparsemap", "margin_sparsemap", "crf", "CRFsuite")
# Labels, steps, scale of the scores, chains in a batch.
CHAINS = (
    (30, 20, 0.3, 50), (100, 20, 0.3, 10), (100, 20, 2.0, 20), (300, 20, 0.3, 2), (20, 500, 0.3, 2), (20, 500, 2.0, 4),
    (20, 2000, 2.0, 2), (20, 2000, 5.0, 2), (10, 20, 1.0, 100), (10, 50, 1.0, 50),
)  # fmt: skip


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("inference", *SIZES))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--limit", type=int, help="leave out this many of the largest sizes", default=0)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return results.parse(parser)


# -- Inference ---------------------------------------------------------------------------------------------------------


def least_time(function, n_rounds=3):
    function()
    times = []
    for _ in range(n_rounds):
        begun = process_time()
        function()
        times.append(process_time() - begun)
    return min(times)


def measure_inference():
    from sklearn_sparsemap import marginal_inference, sparsemap
    from sklearn_sparsemap.structures import LinearChain

    print(
        f"\n{'labels':>8}{'steps':>8}{'scale':>8}{'ms a chain':>12}{'us a token':>12}{'Gibbs, ms':>12}{'multiple':>10}"
    )
    for n_states, n_steps, scale, n in CHAINS:
        rng = np.random.default_rng(0)
        scores = [scale * rng.normal(size=(n_steps, n_states)) for _ in range(n)]
        transitions = scale * rng.normal(size=(n_states, n_states))
        chain, found = LinearChain(), sparsemap(LinearChain(), scores, transitions=transitions)
        assert all(result.converged and result.gap < 1e-7 for result in found)
        ours, gibbs = (
            least_time(partial(solve, chain, scores, transitions=transitions, n_jobs=1)) / n
            for solve in (sparsemap, marginal_inference)
        )
        print(
            f"{n_states:>8}{n_steps:>8}{scale:>8}{1e3 * ours:>12.3f}{1e6 * ours / n_steps:>12.1f}{1e3 * gibbs:>12.3f}"
            f"{ours / gibbs:>10.1f}",
            flush=True,
        )
        data = f"{n_states} labels, {n_steps} steps, scale {scale:g}"
        results.record("growth, inference", data, "CPU time of a chain", 1e3 * ours, "ms", "Gibbs marginals",
                       1e3 * gibbs)  # fmt: skip


# -- Training ----------------------------------------------------------------------------------------------------------


def draw(n_labels, n_steps, n_sentences, n_features):
    """Draw sequences: the features of all tokens, (n_tokens, `N_ACTIVE`), and their labels."""
    rng = np.random.default_rng(0)
    shape = (n_sentences, n_steps)
    # The next label is mostly the one after this one.
    moves = np.where(rng.random(shape) < 0.6, 1, rng.integers(n_labels, size=shape))
    labels = moves.cumsum(axis=1) % n_labels
    # Common features are drawn more often, and begin at another place for each label.
    places = (n_features * rng.random((*shape, N_ACTIVE)) ** 3).astype(int)
    places = (places + labels[..., None] * (n_features // n_labels)) % n_features
    return places, labels


def prepare_ours(loss, places, labels, n_features):
    from scipy.sparse import csr_matrix

    from sklearn_sparsemap import StructuredSparseMAPClassifier

    n_sentences, n_steps, _ = places.shape
    indptr = np.arange(n_steps + 1) * N_ACTIVE
    X = [csr_matrix((np.ones(n_steps * N_ACTIVE), own.ravel(), indptr), (n_steps, n_features)) for own in places]
    solver = "lbfgs" if loss == "crf" else "adagrad"

    def fit(n):
        model = StructuredSparseMAPClassifier(
            "chain", loss, solver=solver, max_iter=N_PASSES, tol=0.0, alpha=1e-3, n_jobs=1, random_state=0
        )
        model.fit(X[:n], list(labels[:n]))

    fit(min(20, n_sentences))
    return partial(fit, n_sentences)


def prepare_crfsuite(places, labels):
    from sklearn_crfsuite import CRF

    X = [[list(map(str, token)) for token in sentence] for sentence in places]
    y = [[str(label) for label in sentence] for sentence in labels]
    model = CRF(algorithm="lbfgs", c1=0.0, c2=1.0, max_iterations=N_PASSES, all_possible_transitions=True)
    return partial(model.fit, X, y)


def work(task):
    """Train one model; print its CPU seconds and megabytes."""
    from chunking import peak_megabytes

    name, *size = json.loads(task)
    places, labels = draw(*size)
    warnings.simplefilter("ignore")
    fit = prepare_crfsuite(places, labels) if name == "CRFsuite" else prepare_ours(name, places, labels, size[-1])
    before, begun = peak_megabytes(), process_time()
    fit()
    print(json.dumps([process_time() - begun, peak_megabytes() - before]))


def exponent(sizes, values):
    """Return the slope of the logarithms of the last three values."""
    return float(np.polyfit(np.log(sizes[-3:]), np.log(values[-3:]), 1)[0])


def measure_training(table, models, limit):
    sizes, found_by = SIZES[table][: len(SIZES[table]) - limit], {}
    print(f"\n{table:<18}" + "".join(f"{size:>18,}" for size in sizes) + f"{'exponents':>18}")
    for name in models:
        found = []
        for size in sizes:
            task = json.dumps([name, *(BASE | {table: size}).values()])
            command = [sys.executable, __file__, "--worker", task]
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        seconds, megabytes = zip(*found)
        slopes = f"{exponent(sizes, seconds):.2f}, {exponent(sizes, megabytes):.2f}"
        cells = "".join(f"{f'{s:.2f} s, {m:.0f} MB':>18}" for s, m in found)
        print(f"{name:<18}{cells}{slopes:>18}", flush=True)
        found_by[name] = found
    peers = found_by.pop("CRFsuite", None)
    for name, found in found_by.items():
        for place, size in enumerate(sizes):
            theirs = (None, None) if peers is None else peers[place]
            for measure, unit, a, b in zip(("CPU time", "memory"), ("s", "MB"), found[place], theirs):
                results.record("growth, training", f"{size:,} {table}", f"{measure}, {name}", a, unit,
                               "CRFsuite" if peers else "", b, package="sklearn-crfsuite")  # fmt: skip


def main():
    args = parse_args()
    if args.worker:
        work(args.worker)
        return
    if args.only in (None, "inference"):
        measure_inference()
    for table in SIZES:
        if args.only in (None, table):
            measure_training(table, args.models, args.limit)


if __name__ == "__main__":
    main()
