"""The solver that ``solver="auto"`` chooses for each sample, compared with each single solver.

    python benchmarks/auto.py

CPU microseconds a sample, the least of some rounds in which the solvers take turns. Cases: chains, matchings and
trees of several sizes, by the scale of random normal scores; batches of 1, 60 and 1,000 samples of mixed sizes; and
scores of trained models for held-out samples: taggers of recipes, a tagger of noisy recordings, and an assignment.
The marginals of all solvers must be equal. The last column should be at most 1.15.
"""

import argparse
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching

SCALES = (0.1, 0.3, 1.0, 3.0, 10.0)
# Sizes of chains (steps, labels), matchings (rows) and trees (words).
SIZES = {
    "chain": ((6, 4), (10, 8), (20, 2), (20, 20), (60, 8), (200, 4)),
    "matching": (4, 6, 10, 20, 40),
    "tree": (5, 9, 15, 25, 40),
}
STRUCTURES = {"chain": LinearChain(), "matching": Matching(), "tree": DependencyTree()}
SPECIAL = {"chain": "flow", "matching": "facets", "tree": "facets"}
SECONDS = 0.3  # least time of all rounds of a case; more steady the figures
ROUNDS = 3, 40  # least and largest number of rounds


def shape_of(kind, size):
    return size if kind == "chain" else (size, size) if kind == "matching" else (size + 1, size)


def random_case(kind, sizes, scale, rng):
    scores = [scale * rng.normal(size=shape_of(kind, size)) for size in sizes]
    labels = scores[0].shape[1]
    return scores, {"transitions": scale * rng.normal(size=(labels, labels))} if kind == "chain" else {}


def random_cases(rng):
    for kind, sizes in SIZES.items():
        for size in sizes:
            for scale in SCALES:
                name = f"{kind} {size}, scale {scale}"
                yield name, kind, *random_case(kind, [size] * 20, scale, rng)
    for n in (1, 60, 1000):
        for kind, few in (
            ("chain", [(5, 6), (9, 6), (14, 6), (70, 6)]),
            ("matching", [4, 8, 15]),
            ("tree", [5, 12, 30]),
        ):
            weights = np.array([2.0**-k for k in range(len(few))])
            for scale in SCALES:
                sizes = [few[k] for k in rng.choice(len(few), n, p=weights / weights.sum())]
                yield f"{n} {kind}s of mixed sizes, scale {scale}", kind, *random_case(kind, sizes, scale, rng)


def trained_cases(rng):
    from sklearn_sparsemap.datasets import load_ingredients
    from sklearn_sparsemap.features import TemplateVectorizer

    X, y = load_ingredients()
    vectorizer = TemplateVectorizer(["word[0]", "word[-1]", "word[1]", "suffix3[0]"])
    rows = vectorizer.fit_transform(X[:200]), vectorizer.transform(X[200:])
    means = rng.normal(size=(4, 6))
    labels = [np.repeat(rng.integers(4, size=20), 10) for _ in range(20)]
    recordings = [means[z] + 3.0 * rng.normal(size=(200, 6)) for z in labels]
    for loss in ("sparsemap", "crf"):
        model = StructuredSparseMAPClassifier("chain", loss).fit(rows[0], y[:200])
        yield f"recipes, {loss}", "chain", *scores_of(model, rows[1])
        model = StructuredSparseMAPClassifier("chain", loss).fit(recordings[:10], labels[:10])
        yield f"recordings, {loss}", "chain", *scores_of(model, recordings[10:])
    weights = rng.normal(size=4)
    pairs = [rng.normal(size=(n, n, 4)) for n in rng.integers(3, 12, 120)]
    gold = [sparsemap(Matching(), 9.0 * (x @ weights) + 3.0 * rng.normal(size=x.shape[:2])) for x in pairs]
    gold = [result.structures[np.argmax(result.weights)] for result in gold]
    model = StructuredSparseMAPClassifier("matching").fit(pairs[:60], gold[:60])
    yield "assignments, sparsemap", "matching", *scores_of(model, pairs[60:])


def scores_of(model, X):
    additional = {name: np.asarray(value) for name, value in model.additional_scores_.items()}
    return [np.asarray(scores) for scores in model.decision_function(X)], additional


def times_of(structure, special, scores, additional):
    """Return the least microseconds a sample of auto, the active set and the specialised solver, which take turns."""
    solvers = ("auto", "active_set", special)
    calls = [lambda s=s: sparsemap(structure, scores, solver=s, n_jobs=1, **additional) for s in solvers]
    found, least, spent, n = [call() for call in calls], np.full(3, np.inf), 0.0, 0
    for other in found[1:]:
        error = max(np.abs(a.marginals - b.marginals).max() for a, b in zip(found[0], other))
        assert error < 1e-6, error
    while n < ROUNDS[0] or (spent < SECONDS and n < ROUNDS[1]):
        # In another order each time: a call is faster after one that used the same code and data.
        for k in np.random.default_rng(n).permutation(len(calls)):
            began = process_time()
            calls[k]()
            own = process_time() - began
            least[k] = min(least[k], own)
            spent += own
        n += 1
    return 1e6 * least / len(scores)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["trained", "random"], choices=["trained", "random"])
    args = results.parse(parser)
    print("| case | auto | active set | special | auto / best |\n|---|---|---|---|---|")
    cases = {"trained": trained_cases, "random": random_cases}
    for which in args.only:
        for name, kind, scores, additional in cases[which](np.random.default_rng(0)):
            times = times_of(STRUCTURES[kind], SPECIAL[kind], scores, additional)
            best = times[1:].min()
            print(f"| {name} | {times[0]:.1f} | {times[1]:.1f} | {times[2]:.1f} | {times[0] / best:.2f} |", flush=True)
            results.record(
                "Choice of the solver", name, "CPU time a sample", times[0], "us", "best single solver", best
            )


if __name__ == "__main__":
    main()
