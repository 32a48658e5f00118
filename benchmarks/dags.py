"""Acyclic graphs learned over orders of variables: structural Hamming distances on Sachs and SynTReN.

    python benchmarks/dags.py --data DIR

DIR holds dags/sachs and dags/syntren. The learner is that of examples/learning/plot_dag_orderings.py and its defaults:
a Gaussian model with equal noise, parents by the Bayesian information criterion, on variables of unit variance. Rows
of "coefficients of 0.3 or more" keep only such edges. The baselines are the empty graph, and the same regressions along
the order of the raw variances (what grows along the edges is sorted by them) and along random orders. Nothing is chosen
by the true graphs.

Distances are means over data sets and seeds. SHD is the number of pairs of variables whose edges differ, so that a
reversed edge counts once. SHD-C is the same for the graphs of the Markov equivalence classes (CPDAG), in which an edge
that is directed in one graph and not in the other counts once, too.
"""

import argparse
import sys
import warnings
from itertools import permutations
from pathlib import Path
from time import process_time

import numpy as np
import results

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "learning"))

from plot_dag_orderings import Regressions, learn_order, structural_distance  # noqa: E402

SMALLEST = 0.3


def equivalence_class(graph):
    """Return the CPDAG of a graph: v-structures and the edges that follow (Meek's rules 1 to 3) are directed."""
    adjacent = (graph + graph.T) > 0
    directed = np.zeros_like(adjacent)
    n = len(graph)
    for a, b in permutations(range(n), 2):
        if graph[a, b]:
            directed[a, b] = any(graph[c, b] and c != a and not adjacent[a, c] for c in range(n))
    while True:
        before = directed.sum()
        for a, b in permutations(range(n), 2):
            if adjacent[a, b] and not directed[a, b] and not directed[b, a]:
                directed[a, b] = is_forced(a, b, adjacent, directed)
        if directed.sum() == before:
            return (directed | (adjacent & ~directed.T)).astype(int)


def is_forced(a, b, adjacent, directed):
    """Tell whether an edge that is open must go from a to b."""
    free = adjacent & ~directed & ~directed.T
    if (directed[:, a] & ~adjacent[:, b] & (np.arange(len(adjacent)) != b)).any():
        return True
    if (directed[a] & directed[:, b]).any():
        return True
    pairs = permutations(np.flatnonzero(free[a] & directed[:, b]), 2)
    return any(not adjacent[c, d] for c, d in pairs)


def strong_edges(X, graph):
    """Return a graph without the edges of small coefficients."""
    kept = np.zeros_like(graph)
    for node in range(len(graph)):
        parents = np.flatnonzero(graph[:, node])
        coefficients = np.linalg.lstsq(X[:, parents], X[:, node], rcond=None)[0]
        kept[parents[np.abs(coefficients) >= SMALLEST], node] = 1
    return kept


def graphs_of(raw, seed):
    """Return a graph for each method, and the CPU seconds of learning the order."""
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    regressions, begin = Regressions(X), process_time()
    learned = regressions.graph(learn_order(regressions, seed=seed)[0])
    seconds = process_time() - begin
    by_variance = regressions.graph(np.argsort(raw.var(axis=0)))
    by_chance = regressions.graph(np.random.default_rng(seed).permutation(X.shape[1]))
    found = {"empty": np.zeros_like(learned)}
    for name, graph in (("learned order", learned), ("order of variances", by_variance), ("random order", by_chance)):
        found[name] = graph
        found[f"{name}, coefficients of {SMALLEST} or more"] = strong_edges(X, graph)
    return found, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with dags/")
    parser.add_argument("--seeds", type=int, default=3, help="number of initial scores")
    args = results.parse(parser)
    # The files were written by Python 2.
    warnings.filterwarnings("ignore", message="Reading `.npy`")
    print("| data | graph | edges (true) | SHD | SHD-C |\n|---|---|---|---|---|")
    for name in ("sachs", "syntren"):
        rows, n_true, times = {}, [], []
        for path in sorted((args.data / "dags" / name).glob("data*.npy")):
            number = path.stem.removeprefix("data")
            true, true_class = (np.load(path.with_name(f"{k}{number}.npy")).astype(int) for k in ("DAG", "CPDAG"))
            assert np.array_equal(equivalence_class(true), true_class), f"another CPDAG than that of {path}"
            n_true.append(true.sum())
            for seed in range(args.seeds):
                found, seconds = graphs_of(np.load(path), seed)
                times.append(seconds)
                for method, graph in found.items():
                    distances = (
                        structural_distance(graph, true),
                        structural_distance(equivalence_class(graph), true_class),
                    )
                    rows.setdefault(method, []).append((graph.sum(), *distances))
        for method, values in rows.items():
            edges, distance, class_distance = np.mean(values, axis=0)
            for measure, value in (("SHD", distance), ("SHD of the equivalence classes", class_distance)):
                results.record("acyclic graphs", name, f"{measure}, {method}", value, "edges", seeds=args.seeds)
            print(
                f"| {name} | {method} | {edges:.1f} ({np.mean(n_true):.1f}) | {distance:.1f} | {class_distance:.1f} |"
            )
        print(f"| {name} | CPU seconds for an order: {np.mean(times):.1f} | | | |", flush=True)


if __name__ == "__main__":
    main()
