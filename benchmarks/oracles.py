"""MAP of matchings and trees, compared with the fastest public solvers, in batches, on one thread.

    pip install lapx ufal.chu_liu_edmonds
    python benchmarks/oracles.py

Matchings: `map_inference` over a batch against `lap.lapjvx_batch` and its siblings, the fastest of which counts, and
scipy. Trees: against `ufal.chu_liu_edmonds`, which takes one matrix a call. Scores are standard normal, and for trees
also those of a trained parser: normal scores have many short cycles, the others hardly any. Ours are timed twice:
values alone, and with all structures as arrays. All take turns in one run; the least time of the repeats counts. Values
are first checked to be equal.
"""

import argparse
from functools import partial
from time import process_time

import numpy as np
import results
from scipy.optimize import linear_sum_assignment

from sklearn_sparsemap import map_inference
from sklearn_sparsemap.structures import DependencyTree, Matching

lap = results.peer("lap", "lapx ufal.chu_liu_edmonds")
chu_liu_edmonds = results.peer("ufal.chu_liu_edmonds", "lapx ufal.chu_liu_edmonds").chu_liu_edmonds

SIZES = (10, 20, 40, 50, 80, 100, 150, 200)
LAPX = ("lapjvx_batch", "lapjv", "lapjvs_batch")


def least_times(functions, repeats, least_turn=0.05):
    """Return the least time of a call of each of some functions, called in turn."""
    least = [np.inf] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            turn = process_time()
            while process_time() - turn < least_turn:
                start = process_time()
                function()
                least[k] = min(least[k], process_time() - start)
    return least


def solve_each(solver, problems):
    """Call a solver for one problem after the other."""
    return [solver(problem) for problem in problems]


def own_functions(structure, scores):
    """Return a function for the values of a batch, and one for its structures."""
    return (
        lambda: map_inference(structure, scores).values,
        lambda: map_inference(structure, scores).structures,
    )


def lapx_values(name, costs):
    """Solve all problems of a batch by one of lapx's functions; return the costs."""
    if name == "lapjv":
        return [lap.lapjv(cost)[0] for cost in costs]
    return getattr(lap, name)(costs, n_threads=1)[0]


def arcs_for_ufal(scores):
    """Return scores as ufal takes them: modifiers by heads, with a row and a column of the root."""
    n = scores.shape[1]
    square = np.full((n + 1, n + 1), np.nan)
    square[1:] = scores.T
    np.fill_diagonal(square, np.nan)
    return square


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = results.parse(parser)
    rng = np.random.default_rng(0)
    print("matching, us        values  structures    lapx (which)          scipy   lapx / ours (structures)")
    for n in options.sizes:
        scores = rng.standard_normal((options.batch, n, n))
        costs = -scores
        expected = np.array([cost[linear_sum_assignment(cost)].sum() for cost in costs])
        np.testing.assert_allclose(map_inference(Matching(), scores).values, -expected)
        for name in LAPX:
            np.testing.assert_allclose(lapx_values(name, costs), expected)
        peers = [partial(lapx_values, name, costs) for name in LAPX]
        scipy = partial(solve_each, linear_sum_assignment, costs)
        times = least_times([*own_functions(Matching(), scores), *peers, scipy], options.repeats)
        times = 1e6 * np.array(times) / options.batch
        best = int(np.argmin(times[2:-1]))
        for peer, theirs in (("lapx", times[2 + best]), ("scipy", times[-1])):
            results.record("MAP inference", f"matching {n} x {n}", "CPU time with structures", times[1], "us", peer,
                           theirs, package=peer)  # fmt: skip
        print(
            f"{n:4} x {n:4}       {times[0]:8.1f} {times[1]:10.1f} {times[2 + best]:8.1f} {LAPX[best]:14} "
            f"{times[-1]:8.1f} {times[2 + best] / times[1]:8.2f}"
        )
    print("tree, us             values  structures     ufal   ufal / ours (structures)")
    for n in options.sizes:
        for kind, spread in (("normal", 0.0), ("trained", 4.0)):
            scores = rng.standard_normal((options.batch, n + 1, n))
            for sample in scores:
                heads = [0, *rng.integers(0, np.arange(1, n) + 1)]
                sample[heads, np.arange(n)] += spread
            squares = [arcs_for_ufal(sample) for sample in scores]
            expected = [chu_liu_edmonds(square)[1] for square in squares]
            np.testing.assert_allclose(map_inference(DependencyTree(), scores).values, expected)
            times = least_times(
                [*own_functions(DependencyTree(), scores), partial(solve_each, chu_liu_edmonds, squares)],
                options.repeats,
            )
            times = 1e6 * np.array(times) / options.batch
            data = f"tree, {n} words, {kind} scores"
            results.record("MAP inference", data, "CPU time with structures", times[1], "us",
                           "ufal.chu_liu_edmonds", times[2], package="ufal.chu_liu_edmonds")  # fmt: skip
            print(f"{n:4} words, {kind:8} {times[0]:8.1f} {times[1]:10.1f} {times[2]:10.1f} {times[2] / times[1]:8.2f}")


if __name__ == "__main__":
    main()
