"""Cost of SparseMAP inference: against its own MAP oracle on chains, and against entmax on the simplex.

    python benchmarks/inference.py

Batches of random chains, one thread. The ratio is the time of `sparsemap` over (oracle calls a sample, on average, x
the time of `map_inference` on the same batch). `map_inference` also checks its input, which for short chains takes
longer than the oracle itself; so the ratio flatters the solver, and may be below 1. Times are medians of repeats, after
one run that compiles the kernels or loads them.
"""

import argparse
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from sklearn_sparsemap import map_inference, sparsemap
from sklearn_sparsemap.structures import LinearChain, Simplex

SIZES = ((20, 10), (50, 10))
SCALES = (0.1, 0.3, 1.0, 10.0)
SIMPLEX_SHAPE = (1000, 100)
# Seconds that a function is called again and again before it is another's turn.
LEAST_TURN = 0.02


def measure(functions, repeats):
    """Time some functions in turn, so that what else the machine does slows all of them alike.

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
            turn = perf_counter()
            while perf_counter() - turn < LEAST_TURN:
                start = perf_counter()
                function()
                spent.append(perf_counter() - start)
    return [median(spent) for spent in times], results


def measure_chains(n_samples, repeats, rng):
    print(f"Chains: {n_samples} samples, one thread, scores and transitions normal times the scale")
    print(
        f"{'steps x states':>15}{'scale':>7}{'MAP':>12}{'SparseMAP':>12}{'calls':>8}{'most':>6}{'ratio':>7}"
        f"{'structures':>12}{'largest gap':>13}{'converged':>11}"
    )
    chain = LinearChain()
    for n_steps, n_states in SIZES:
        for scale in SCALES:
            scores = list(scale * rng.standard_normal((n_samples, n_steps, n_states)))
            transitions = scale * rng.standard_normal((n_states, n_states))
            problem = {"structure": chain, "scores": scores, "transitions": transitions}
            functions = [partial(map_inference, **problem), partial(sparsemap, **problem)]
            (of_map, of_sparsemap), (_, results) = measure(functions, repeats)
            calls = np.array([r.n_iter for r in results])
            n_structures = np.mean([len(r.weights) for r in results])
            print(
                f"{f'{n_steps} x {n_states}':>15}{scale:>7g}{1e6 * of_map / n_samples:>9.1f} us"
                f"{1e6 * of_sparsemap / n_samples:>9.0f} us{calls.mean():>8.1f}{calls.max():>6}"
                f"{of_sparsemap / (calls.mean() * of_map):>7.2f}{n_structures:>12.1f}"
                f"{max(r.gap for r in results):>13.1e}{np.mean([r.converged for r in results]):>11.0%}",
                flush=True,
            )


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
    times, (results, *theirs) = measure(functions, repeats)
    print(f"  sparsemap(Simplex())     {1e3 * times[0]:8.2f} ms, with a result object for each sample")
    if theirs:
        difference = np.abs(np.array([r.marginals for r in results]) - theirs[0].numpy()).max()
        print(f"  entmax.sparsemax (torch) {1e3 * times[1]:8.2f} ms, one array; largest difference {difference:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=100, help="in a batch of chains")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    measure_chains(args.samples, args.repeats, rng)
    measure_simplex(args.repeats, rng)


if __name__ == "__main__":
    main()
