"""Times of rankings, alignments, segmentations, sequence budgets and integer programs, compared with public peers.

    python benchmarks/structures.py

CPU microseconds a sample in batches, on one thread, the best of some rounds. Peers: scikit-learn's isotonic regression
(with the sorting), and for time warping tslearn and dtaidistance, where they are installed (``pip install tslearn
dtaidistance``); from two series to the path, the table of distances included. The active set for rankings is timed up
to 30 items: of 100 items it takes seconds for one sample.
"""

import argparse
from importlib.util import find_spec
from time import process_time

import numpy as np
import results
from sklearn.isotonic import isotonic_regression

from sklearn_sparsemap import map_inference, marginal_inference, sparsemap
from sklearn_sparsemap.structures import Alignment, LinearChain, LinearProgram, Ranking, Segmentation, SequenceBudget


def best_time(call, n, rounds=5):
    """Return the microseconds a sample that a call for n samples takes, after one that may compile."""
    call()
    seconds = []
    for _ in range(rounds):
        started = process_time()
        call()
        seconds.append(process_time() - started)
    return 1e6 * min(seconds) / n


def as_text(time):
    return "" if time is None else f"{time:,.0f}" if time >= 10 else f"{time:.1f}"


def print_table(task, head, rows, peers=()):
    """Print rows of microseconds; the first column is compared with those whose heads are in `peers`."""
    print("\n| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for name, *times in rows:
        print(f"| {name} | " + " | ".join(map(as_text, times)) + " |", flush=True)
        for peer, theirs in zip(head[2:], times[1:]):
            if peer in peers and theirs is not None:
                results.record(task, name, f"CPU time, {head[1]}", times[0], "us", peer, theirs,
                               package=peers[peer])  # fmt: skip
        if not peers:
            for function, time in zip(head[1:], times):
                results.record(task, f"{head[0]}: {name}", f"CPU time, {function}", time, "us")


def rankings(rng, n_samples=100):
    for n in (10, 30, 100, 1000):
        scores = list(n / 10 * rng.normal(size=(n_samples, n)))
        batch = sparsemap(Ranking(), scores)
        points = np.arange(n - 1, -1, -1.0)

        def by_isotonic_regression():
            for own in scores:  # noqa: B023
                order = np.argsort(-own)
                isotonic_regression(own[order] - points, increasing=False)  # noqa: B023

        times = [best_time(lambda: sparsemap(Ranking(), scores), n_samples)]  # noqa: B023
        times.append(best_time(lambda: batch.vjp(scores), n_samples))  # noqa: B023
        times.append(best_time(by_isotonic_regression, n_samples))
        few, by_structures = scores[:5], None
        if n <= 30:
            by_structures = best_time(lambda: sparsemap(Ranking(), few, solver="active_set"), len(few), 1)  # noqa: B023
        yield f"{n} items", *times, by_structures


def alignments(rng, n_samples=20):
    peers = [find_spec(name) is not None for name in ("tslearn", "dtaidistance")]
    for n in (20, 100, 400):
        pairs = [(rng.normal(size=n).cumsum(), rng.normal(size=n).cumsum()) for _ in range(n_samples)]

        def ours():
            return map_inference(Alignment(), [-((a[:, None] - b) ** 2) for a, b in pairs]).structures  # noqa: B023

        def by_tslearn():
            from tslearn.metrics import dtw_path

            return [dtw_path(a, b) for a, b in pairs]  # noqa: B023

        def by_dtaidistance():
            from dtaidistance import dtw

            return [dtw.warping_path_fast(a, b) for a, b in pairs]  # noqa: B023

        times = [best_time(ours, n_samples)]
        for peer, installed in zip((by_tslearn, by_dtaidistance), peers):
            times.append(best_time(peer, n_samples) if installed else None)
        value = map_inference(Alignment(), -((pairs[0][0][:, None] - pairs[0][1]) ** 2)).value
        if peers[0]:
            assert np.isclose(by_tslearn()[0][1] ** 2, -value)
        yield f"{n} x {n}", *times


def segmentations(rng, n_samples=50):
    n, m = 40, 8
    scores = list(rng.normal(size=(n_samples, n, m)))
    transitions = rng.normal(size=(m, m))
    kinds = [("chain", LinearChain(), {})]
    for longest in (2, 5, 20):
        durations = rng.normal(size=(longest, m))
        kinds.append((f"spans of up to {longest}", Segmentation(longest), {"durations": durations}))
    for name, structure, additional in kinds:
        given = {"transitions": transitions, **additional}
        yield (
            name,
            *(
                best_time(lambda: function(structure, scores, **given), n_samples, 3)  # noqa: B023
                for function in (map_inference, marginal_inference, sparsemap)
            ),
        )


def budgets(rng, n_samples=64):
    n, m, runs = 50, 2, np.array([[0.5, -0.5], [-0.5, 0.5]])
    structures = {
        "LinearChain()": LinearChain(),
        "SequenceBudget(10)": SequenceBudget(10),
        "SequenceBudget(0.4)": SequenceBudget(0.4),
        "SequenceBudget(10, exactly=True)": SequenceBudget(10, exactly=True),
    }
    for scale in (0.3, 1.0, 3.0):
        scores = list(scale * rng.normal(size=(n_samples, n, m)))
        for name, structure in structures.items():
            batch = sparsemap(structure, scores, transitions=scale * runs)
            functions = map_inference, marginal_inference, sparsemap
            times = [
                best_time(lambda: function(structure, scores, transitions=scale * runs), n_samples)  # noqa: B023
                for function in functions
            ]
            yield f"{name}, scale {scale:g}", *times, best_time(lambda: batch.vjp(scores), n_samples)  # noqa: B023


def programs(rng, n_samples=50):
    for n in (10, 20, 40):
        sizes = rng.integers(2, 9, size=n)
        knapsack = LinearProgram([sizes], [sizes.sum() // 2])
        scores = list(rng.uniform(size=(n_samples, n)))
        time = best_time(lambda: map_inference(knapsack, scores), n_samples, 2)  # noqa: B023
        pooled = knapsack.on_pool()
        times = [best_time(lambda: f(pooled, scores), n_samples, 2) for f in (map_inference, sparsemap)]  # noqa: B023
        yield f"knapsack of {n}", time, *times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results.parse(parser)
    rng = np.random.default_rng(0)
    print("microseconds a sample")
    head = ["rankings", "SparseMAP", "derivative", "scikit-learn's isotonic regression", "active set"]
    print_table("rankings", head, rankings(rng), {head[3]: "scikit-learn", head[4]: None})
    head = ["time warping", "Alignment", "tslearn", "dtaidistance (C)"]
    print_table("time warping", head, alignments(rng), {"tslearn": "tslearn", "dtaidistance (C)": "dtaidistance"})
    print_table("segmentations", ["40 steps, 8 labels", "MAP", "Gibbs", "SparseMAP"], segmentations(rng))
    head = ["50 steps, 2 states, runs", "MAP", "Gibbs", "SparseMAP", "derivative"]
    print_table("sequence budgets", head, budgets(rng))
    head = ["knapsacks", "MAP by HiGHS", "MAP in the pool", "SparseMAP over the pool"]
    print_table("integer programs", head, programs(rng))


if __name__ == "__main__":
    main()
