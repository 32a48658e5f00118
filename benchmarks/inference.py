"""Cost of SparseMAP inference by structure and size: time, calls of the MAP oracle, structures, gap.

    python benchmarks/inference.py

Batches of random problems, one thread. The ratio is the time of `sparsemap` over (oracle calls a sample, on average,
x the time of `map_inference` on the same batch), by the active set. `map_inference` also checks its input, which for
small problems takes longer than the oracle itself; so the ratio flatters the solver, and may be below 1. Times are
medians of repeats, after one run that compiles the kernels or loads them. Times of C++ libraries that no longer build
are of another machine, for orientation only. The simplex is timed against entmax in the same run.
MAP inference compared with other libraries is in oracles.py.
"""

import argparse
from functools import partial
from statistics import median
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import map_inference, sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex, Subset

# Name, structure, shape of the scores, shape of the transitions, and by scale the milliseconds of another library
# on another machine of this kind: lp-sparsemap for chains and trees, vene/sparsemap for matchings.
PROBLEMS = (
    ("chain 20 x 10", LinearChain(), (20, 10), (10, 10), {1.0: 0.79}),
    ("chain 50 x 10", LinearChain(), (50, 10), (10, 10), {1.0: 5.3, 0.3: 31.0}),
    ("tree, 20 words", DependencyTree(), (21, 20), None, {1.0: 2.3}),
    ("tree, 40 words", DependencyTree(), (41, 40), None, {1.0: 17.5, 0.3: 55.0}),
    ("tree, 20 words, single root", DependencyTree(single_root=True), (21, 20), None, {}),
    ("tree, 20 words, projective", DependencyTree(projective=True), (21, 20), None, {}),
    ("tree, 40 words, projective", DependencyTree(projective=True), (41, 40), None, {}),
    ("matching 10 x 10", Matching(), (10, 10), None, {1.0: 0.073}),
    ("matching 20 x 20", Matching(), (20, 20), None, {1.0: 0.74}),
    ("matching 30 x 50", Matching(), (30, 50), None, {}),
    ("subset, at most 10 of 100", Subset(max_size=10), (100,), None, {}),
)
SCALES = (0.3, 1.0, 10.0)
SIMPLEX_SHAPE = (1000, 100)
# Seconds that a function is called again and again before it is another's turn.
LEAST_TURN = 0.02


def measure(functions, repeats):
    """Time some functions in turn, so that other work of the machine slows all of them.

    Returns
    -------
    times : list of float
        The median time of a call of each, in seconds. Short calls are repeated more often.
    results : list
        What each returns.
    """
    results = [function() for function in functions]
    times = [[] for _ in functions]
    for _ in range(repeats):
        for function, spent in zip(functions, times):
            turn = process_time()
            while process_time() - turn < LEAST_TURN:
                start = process_time()
                function()
                spent.append(process_time() - start)
    return [median(spent) for spent in times], results


def measure_structures(n_samples, repeats, rng):
    print(f"{n_samples} samples a batch, one thread, scores and transitions normal times the scale")
    print(
        f"{'':>28}{'scale':>7}{'MAP':>12}{'SparseMAP':>13}{'calls':>8}{'most':>6}{'ratio':>7}{'structures':>12}"
        f"{'largest gap':>13}{'converged':>11}{'C++':>9}{'times as fast':>15}"
    )
    for name, structure, shape, transitions_shape, others in PROBLEMS:
        for scale in SCALES:
            problem = {"structure": structure, "scores": list(scale * rng.standard_normal((n_samples, *shape)))}
            if transitions_shape:
                problem["transitions"] = scale * rng.standard_normal(transitions_shape)
            functions = [partial(map_inference, **problem), partial(sparsemap, solver="active_set", **problem)]
            (of_map, of_sparsemap), (_, found) = measure(functions, repeats)
            calls = np.array([r.n_iter for r in found])
            n_structures = np.mean([len(r.weights) for r in found])
            peer, theirs = "", None
            if scale in others:
                peer = "vene/sparsemap (C++)" if isinstance(structure, Matching) else "lp-sparsemap (C++)"
                theirs = 1e3 * others[scale]
            results.record("SparseMAP by the active set", f"{name}, scale {scale:g}", "CPU time of a sample",
                           1e6 * of_sparsemap / n_samples, "us", peer, theirs, elsewhere=bool(peer))  # fmt: skip
            other = f"{'':>9}"
            if scale in others:
                other = f"{others[scale]:>6g} ms{1e-3 * others[scale] * n_samples / of_sparsemap:>15.1f}"
            print(
                f"{name:>28}{scale:>7g}{1e6 * of_map / n_samples:>9.1f} us"
                f"{1e6 * of_sparsemap / n_samples:>10.0f} us{calls.mean():>8.1f}{calls.max():>6}"
                f"{of_sparsemap / (calls.mean() * of_map):>7.2f}{n_structures:>12.1f}"
                f"{max(r.gap for r in found):>13.1e}{np.mean([r.converged for r in found]):>11.0%}{other}",
                flush=True,
            )


# Problems that are solved by facets or by flow: name, structure, shape of the scores, and the smallest scale at which
# the active set is timed, too.
BY_SCALE = (
    ("tree, 20 words", DependencyTree(), (21, 20), 0.01),
    ("tree, 40 words", DependencyTree(), (41, 40), 0.1),
    ("tree, 80 words", DependencyTree(), (81, 80), 1.0),
    ("matching 10 x 10", Matching(), (10, 10), 0.01),
    ("matching 20 x 20", Matching(), (20, 20), 0.1),
    ("matching 30 x 50", Matching(), (30, 50), 1.0),
    ("matching 100 x 100", Matching(), (100, 100), 10.0),
    ("subset, at most 10 of 100", Subset(max_size=10), (100,), 0.1),
    ("subset of 10,000", Subset(2000, 3000), (10_000,), np.inf),
    ("chain 20 x 10", LinearChain(), (20, 10), 0.1),
    ("chain 50 x 10", LinearChain(), (50, 10), 0.1),
)


def measure_scales(n_samples, repeats, rng):
    print("\nThe solver chosen by the scores against the active set: time a sample forward, and of a vjp")
    heads = f"{'auto':>12}{'vjp':>12}{'active set':>13}{'vjp':>13}{'times as fast':>15}{'largest gap':>13}"
    print(f"{'':>28}{'scale':>7}{heads}")
    for name, structure, shape, smallest in BY_SCALE:
        for scale in (10.0, 1.0, 0.1, 0.01):
            n = n_samples if np.prod(shape) < 2000 else max(n_samples // 10, 1)
            problem = {"structure": structure, "scores": list(scale * rng.standard_normal((n, *shape)))}
            vs = list(rng.standard_normal((n, *shape)))
            if isinstance(structure, LinearChain):
                problem["transitions"] = scale * rng.standard_normal((shape[1], shape[1]))
            solvers = ("auto", "active_set") if scale >= smallest else ("auto",)
            batches = [sparsemap(solver=solver, **problem) for solver in solvers]
            forward, _ = measure([partial(sparsemap, solver=solver, **problem) for solver in solvers], repeats)
            backward, _ = measure([partial(batch.vjp, vs) for batch in batches], repeats)
            times = "".join(f"{1e3 * f / n:>9.3f} ms{1e3 * b / n:>9.3f} ms" for f, b in zip(forward, backward))
            peer, theirs = ("active set", 1e3 * forward[1] / n) if len(solvers) > 1 else ("", None)
            results.record("SparseMAP, solver chosen by the scores", f"{name}, scale {scale:g}",
                           "CPU time of a sample", 1e3 * forward[0] / n, "ms", peer, theirs)  # fmt: skip
            faster = f"{forward[1] / forward[0]:>16.1f}" if len(solvers) > 1 else f"{'':>41}"
            print(f"{name:>28}{scale:>7g}{times}{faster}{batches[0].gap.max():>13.1e}", flush=True)


def measure_simplex(repeats, rng):
    n_samples, n_parts = SIMPLEX_SHAPE
    print(f"\nSimplex: {n_samples} samples of {n_parts} scores, one thread")
    scores = rng.standard_normal(SIMPLEX_SHAPE)
    rows = list(scores)
    functions = [partial(sparsemap, Simplex(), rows)]
    try:
        import torch
        from entmax import sparsemax
    except ImportError:
        print("  entmax is not installed: nothing to compare with")
    else:
        torch.set_num_threads(1)
        functions.append(partial(sparsemax, torch.from_numpy(scores), dim=1))
    times, (found, *theirs) = measure(functions, repeats)
    print(f"  sparsemap(Simplex())     {1e3 * times[0]:8.2f} ms, with a result object for each sample")
    if theirs:
        results.record("SparseMAP by the active set", f"simplex, {n_samples} x {n_parts}", "CPU time of a batch",
                       1e3 * times[0], "ms", "entmax", 1e3 * times[1], package="entmax")  # fmt: skip
        difference = np.abs(np.array([r.marginals for r in found]) - theirs[0].numpy()).max()
        print(f"  entmax.sparsemax (torch) {1e3 * times[1]:8.2f} ms, one array; largest difference {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=100, help="in a batch")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    args = results.parse(parser)
    rng = np.random.default_rng(args.seed)
    measure_structures(args.samples, args.repeats, rng)
    measure_scales(args.samples, args.repeats, rng)
    measure_simplex(args.repeats, rng)


if __name__ == "__main__":
    main()
