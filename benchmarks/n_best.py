"""Times of the k best structures, as multiples of the time of MAP inference of the same scores.

    python benchmarks/n_best.py
    python benchmarks/n_best.py --only growth memory

One process, one thread, CPU time, the least of several calls. `acceptance` has one problem of each kind of structure;
`growth` raises k to 1,000; `peers` compares paths with scipy's k shortest paths (Yen's algorithm); `memory` is the peak
of a process of its own with 20,000 scores and k = 100.
"""

import argparse
import subprocess
import sys
from functools import partial
from time import process_time

import numpy as np
import results
from scipy.sparse import csr_array
from scipy.sparse.csgraph import yen

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference, n_best
from sklearn_sparsemap.structures import (
    Alignment,
    DependencyTree,
    HeadAutomaton,
    LinearChain,
    Matching,
    Path,
    Ranking,
    Segmentation,
    SequenceBudget,
    Subset,
)

# `memory` comes first, because a process starts with the peak of the one that starts it.
PARTS = ("memory", "acceptance", "growth", "peers")
MEMORY = """
import resource, sys
import numpy as np
from sklearn_sparsemap import map_inference, n_best
from sklearn_sparsemap.structures import *
structure, shape, small = {structure}, {shape}, {small}
rng = np.random.default_rng(0)
scores = rng.normal(size=shape)
n_best(structure, rng.normal(size=small), 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
n_best(structure, scores, 100)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def least_time(function, repeats):
    """Return the least CPU time of a call in seconds; the first call only loads code."""
    function()
    least = np.inf
    for _ in range(repeats):
        start = process_time()
        function()
        least = min(least, process_time() - start)
    return least


def cases(rng):
    """Yield the name of a case, its structure, its scores and additional scores, and numbers of structures."""
    moves = rng.normal(size=(8, 8))
    yield "chain 500 x 8", LinearChain(), rng.normal(size=(500, 8)), {"transitions": moves}, (1, 5)
    yield "chain 40 x 8", LinearChain(), rng.normal(size=(40, 8)), {"transitions": moves}, (5,)
    yield "budget 100 x 3", SequenceBudget(10), rng.normal(size=(100, 3)), {}, (5,)
    yield "segmentation 40 x 5", Segmentation(6), rng.normal(size=(40, 5)), {"transitions": moves[:5, :5]}, (5,)
    yield "alignment 50 x 50", Alignment(), rng.normal(size=(50, 50)), {}, (5,)
    yield "alignment 60 x 60", Alignment(), rng.normal(size=(60, 60)), {}, (3,)
    yield "global alignment 50 x 50", Alignment("global"), rng.normal(size=(50, 50)), {"gaps": [-0.5, -0.5]}, (5,)
    yield "local alignment 50 x 50", Alignment("local"), rng.normal(size=(50, 50)), {"gaps": [-0.5, -0.5]}, (5,)
    yield "path 20 x 20", Path.grid(20, 20), rng.normal(size=760), {}, (5,)
    yield "projective tree 25", DependencyTree(projective=True), rng.normal(size=(26, 25)), {}, (5,)
    yield "head automaton 25", HeadAutomaton(), rng.normal(size=25), {"siblings": rng.normal(size=(26, 26))}, (5,)
    yield "tree 25", DependencyTree(), rng.normal(size=(26, 25)), {}, (5,)
    yield "tree 25, single root", DependencyTree(single_root=True), rng.normal(size=(26, 25)), {}, (5,)
    yield "matching 25 x 25", Matching(), rng.normal(size=(25, 25)), {}, (5,)
    yield "subset of 100", Subset(max_size=20), rng.normal(size=100), {}, (5,)
    yield "ranking of 25", Ranking(), rng.normal(size=25), {}, (5,)


def acceptance(repeats):
    for name, structure, scores, additional, ks in cases(np.random.default_rng(0)):
        once = least_time(partial(map_inference, structure, scores, **additional), 10 * repeats)
        for k in ks:
            found = least_time(partial(n_best, structure, scores, k, **additional), repeats)
            print(f"{name:26} k = {k}: {1e6 * found:10.0f} us, {found / once:8.1f} times MAP", flush=True)
            results.record("n_best", name, f"time, k = {k}", 1e6 * found, "us", "MAP", 1e6 * once)
    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(20, 5)) for _ in range(500)], [rng.integers(8, size=20) for _ in range(500)]
    model = StructuredSparseMAPClassifier("chain", max_iter=3, tol=1.0).fit(X, y)
    once, found = (least_time(f, repeats) for f in (partial(model.predict, X), partial(model.predict_n_best, X, 3)))
    print(f"{'predict_n_best, 500 chains':26} k = 3: {1e6 * found:10.0f} us, {found / once:8.1f} times predict")
    results.record("n_best", "500 chains of 20 x 8", "predict_n_best, k = 3", 1e6 * found, "us", "predict", 1e6 * once)


def growth(repeats):
    for name, structure, scores, additional, _ in cases(np.random.default_rng(0)):
        times = []
        for k in (10, 100, 1000):
            times.append(1e6 * least_time(partial(n_best, structure, scores, k, **additional), repeats))
            results.record("n_best", name, f"growth, k = {k}", times[-1], "us")
        print(f"{name:26} us at k = 10, 100, 1000:", *(f"{t:10.0f}" for t in times), flush=True)


def peers(repeats):
    structure, lengths = Path.grid(20, 20), np.random.default_rng(0).exponential(size=760)
    graph = csr_array((lengths, structure.edges.T.astype(np.int32)), shape=(400, 400))
    for k in (5, 100):
        found, other = n_best(structure, -lengths, k), yen(graph, 0, 399, k)
        np.testing.assert_allclose([-value for _, value in found], other)
        ours, theirs = (
            1e6 * least_time(f, repeats)
            for f in (partial(n_best, structure, -lengths, k), partial(yen, graph, 0, 399, k))
        )
        print(f"{'path 20 x 20':26} k = {k}: {ours:10.0f} us, scipy {theirs:10.0f} us", flush=True)
        results.record("n_best", "path 20 x 20", f"time, k = {k}", ours, "us", "scipy", theirs, package="scipy")


def memory(repeats):
    shapes = {
        "Subset()": ((20_000,), (8,)),
        "Simplex()": ((20_000,), (8,)),
        "Ranking(5)": ((20_000,), (8,)),
        "LinearChain()": ((5_000, 4), (3, 4)),
        "Segmentation(4)": ((5_000, 4), (3, 4)),
        "Alignment()": ((140, 140), (3, 3)),
        "Alignment('local')": ((140, 140), (3, 3)),
        "DependencyTree(projective=True)": ((141, 140), (4, 3)),
        "DependencyTree()": ((141, 140), (4, 3)),
        "Matching()": ((140, 140), (3, 3)),
    }
    for structure, (shape, small) in shapes.items():
        code = MEMORY.format(structure=structure, shape=shape, small=small)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        megabytes = float(out.stdout) if out.returncode == 0 else np.nan
        print(f"{structure:34} {shape}: {megabytes:6.0f} MB", out.stderr[-200:], flush=True)
        results.record("n_best", structure, "memory, k = 100", megabytes, "MB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    options = results.parse(parser)
    for part in options.only:
        globals()[part](options.repeats)


if __name__ == "__main__":
    main()
