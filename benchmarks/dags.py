"""Acyclic graphs learned over orders of variables: structural Hamming distances on Sachs and SynTReN.

    python benchmarks/dags.py --data DIR

DIR holds dags/sachs and dags/syntren. The learner is that of examples/learning/plot_dag_orderings.py and its defaults,
on variables transformed by Box and Cox. The model was chosen by the likelihood of held-out samples (doc/notes/dags.md).
Nothing was chosen by the true graphs. The baselines are the empty graph and graphs of one order by all samples, learned
or random.

Distances are means over data sets and seeds, with 95 % intervals: over the sets of SynTReN, over the seeds of Sachs.
SHD is the number of pairs of variables whose edges differ, so that a reversed edge counts once. SHD-C is the same for
the graphs of the Markov equivalence classes (CPDAG). There an edge that is directed in one graph and not in the other
counts once, too.
"""

import argparse
import sys
import warnings
from itertools import permutations
from pathlib import Path
from time import process_time

import numpy as np
import results
from scipy import stats
from sklearn.preprocessing import PowerTransformer

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "learning"))

from plot_dag_orderings import Regressions, learn_graph, learn_order, structural_distance  # noqa: E402

# Smaller values, relative to the median of a variable, are raised to this, because Box-Cox is steep near zero.
SMALLEST = 1e-3


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


def graphs_of(X, seed):
    """Return a graph for each method, and the CPU seconds of learning the first."""
    begin = process_time()
    found = {"learned": learn_graph(X, seed)}
    seconds, rng = process_time() - begin, np.random.default_rng(seed)
    regressions = Regressions(X)
    found["one learned order"] = regressions.graph(learn_order(regressions, rng)[0])
    found["one random order"] = regressions.graph(rng.permutation(X.shape[1]).tolist())
    found["empty"] = np.zeros_like(found["learned"])
    return found, seconds


def interval(values):
    """Return the mean of values of shape (n_sets, n_seeds), and half the width of its 95 % interval."""
    values = values.mean(axis=1) if len(values) > 1 else values[0]
    return values.mean(), stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5


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
            number, raw = path.stem.removeprefix("data"), np.load(path).astype(float)
            X = PowerTransformer("box-cox").fit_transform(np.maximum(raw, SMALLEST * np.median(raw, axis=0)))
            true, true_class = (np.load(path.with_name(f"{k}{number}.npy")).astype(int) for k in ("DAG", "CPDAG"))
            assert np.array_equal(equivalence_class(true), true_class), f"another CPDAG than that of {path}"
            n_true.append(true.sum())
            for seed in range(args.seeds):
                found, seconds = graphs_of(X, seed)
                times.append(seconds)
                for method, graph in found.items():
                    distances = (
                        structural_distance(graph, true),
                        structural_distance(equivalence_class(graph), true_class),
                    )
                    rows.setdefault(method, []).append((graph.sum(), *distances))
        for method, values in rows.items():
            cells = []
            table = np.reshape(values, (len(n_true), args.seeds, 3)).astype(float)
            for place, measure in ((1, "SHD"), (2, "SHD of the equivalence classes")):
                mean, half = interval(table[..., place])
                cells.append(f"{mean:.1f} ± {half:.1f}")
                results.record(
                    "acyclic graphs", name, f"{measure}, {method}", mean, "edges", seeds=args.seeds, interval=half
                )
            edges = f"{table[..., 0].mean():.1f} ({np.mean(n_true):.1f})"
            print(f"| {name} | {method} | {edges} | {' | '.join(cells)} |")
        print(f"| {name} | CPU seconds for a graph: {np.mean(times):.1f} | | | |", flush=True)


if __name__ == "__main__":
    main()
