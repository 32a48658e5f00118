"""Cost of LP-SparseMAP by solver, graph and size: time, sweeps, residual, and the distance to an exact solution.

    python benchmarks/factor_graphs.py

Batches of random problems at the default tolerance, one thread; times are a sample's, result objects untouched, medians
of repeats after one run that compiles the kernels or loads them. `warm` starts from the solutions of the same problems
before their scores moved a little, as in training. `backward` is one `vjp` of the batch. "by structures" is "auto"
without facets: structures are solved by the active set, and no graph is taken for a matching. The error is that of the
marginals against solver="auto" at tol=1e-10. C++ is the time of lp-sparsemap, which no longer builds, on another
machine of this kind, for orientation only.
"""

import argparse
from functools import partial
from statistics import median
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph, Pair, StructureFactor, Xor
from sklearn_sparsemap.inference._graph.problems import as_graph_problems
from sklearn_sparsemap.structures import DependencyTree, LinearChain

SOLVERS = ("auto", "by structures", "block", "pairwise", "admm")


def matching(n, m):
    graph = FactorGraph()
    u = graph.variables((n, m))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return graph, lambda rng: None


def pairs(n):
    graph = FactorGraph()
    u = graph.variables(n)
    i, j = np.triu_indices(n, 1)
    graph.add(Pair(u[i], u[j], name="pairs"))
    return graph, lambda rng: {"pairs": 0.3 * rng.normal(size=len(i))}


def budgeted_tree(n, budget):
    graph = FactorGraph()
    u = graph.variables((n + 1, n))
    graph.add(StructureFactor(DependencyTree(), u))
    graph.add(*[Budget(u[h, [m for m in range(n) if m != h - 1]], budget) for h in range(1, n + 1)])
    return graph, lambda rng: None


def sequence(n, m):
    graph = FactorGraph()
    u = graph.variables((n, m))
    graph.add(StructureFactor(LinearChain(), u, name="chain"), *[AtMostOne(column) for column in u.T])
    return graph, lambda rng: {"chain": {"transitions": rng.normal(size=(n - 1, m, m))}}


# Graphs in which facets are known.
FACETED = ("matching", "tree")
# Name, graph and its additional scores, scale of the scores, and the milliseconds of C++.
PROBLEMS = (
    ("matching 20 x 20", matching(20, 20), 1.0, None),
    ("matching 20 x 20", matching(20, 20), 3.0, None),
    ("matching 20 x 30", matching(20, 30), 1.0, 36),
    ("matching 100 x 100", matching(100, 100), 1.0, None),
    ("pairs, 30 labels", pairs(30), 1.0, 13.3),
    ("pairs, 159 labels", pairs(159), 1.0, None),
    ("tree + budgets of 2, 20 words", budgeted_tree(20, 2), 1.0, 41),
    ("tree + budgets of 2, 20 words", budgeted_tree(20, 2), 0.1, None),
    ("tree + budgets of 5, 40 words", budgeted_tree(40, 5), 1.0, None),
    ("tree + budgets of 1, 40 words", budgeted_tree(40, 1), 1.0, None),
    ("tree + budgets of 1, 40 words", budgeted_tree(40, 1), 0.1, None),
    ("LP-sequence 20 x 30", sequence(20, 30), 1.0, 168),
)


def forget_facets(graph, additional, known=None):
    """Remove the solvers by facets from a graph, or restore them; return those that it had."""
    layout = as_graph_problems(graph, np.zeros(next(iter(graph.shapes.values()))), additional)[0].layout
    before = layout.polytope_solvers, layout.matching
    layout.polytope_solvers, layout.matching = ([None] * len(layout.polytope_solvers), None) if known is None else known
    return before


def timed(function, repeats):
    times = []
    for _ in range(repeats + 1):
        started = process_time()
        result = function()
        times.append(process_time() - started)
    return median(times[1:]), result


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS)
    parser.add_argument("--graphs", default="", help="only those with this in their name")
    arguments = results.parse(parser)
    n = arguments.samples
    columns = "graph", "scale", "solver", "forward", "warm", "backward", "n_iter (most)", "converged", "error", "C++"
    print_row(*columns, "times as fast")
    print_row(*["---"] * (len(columns) + 1))
    for name, (graph, additional_of), scale, other in PROBLEMS:
        if arguments.graphs not in name:
            continue
        rng = np.random.default_rng(0)
        shape = next(iter(graph.shapes.values()))
        scores = [scale * rng.normal(size=shape) for _ in range(n)]
        moved = [s + 0.02 * scale * rng.normal(size=shape) for s in scores]
        additional = [additional_of(rng) for _ in range(n)]
        v = rng.normal(size=(n, *shape))
        exact = lp_sparsemap(graph, moved, additional=additional, tol=1e-10, max_iter=20_000)
        for solver in arguments.solvers:
            if (solver == "pairwise") > ("pairs" in name) or (solver == "by structures") > name.startswith(FACETED):
                continue
            known = forget_facets(graph, additional[0]) if solver == "by structures" else None
            options = {"additional": additional, "solver": "auto" if known else solver}
            repeats = arguments.repeats if solver != "admm" else 1
            solve = partial(lp_sparsemap, graph, moved, **options)
            forward, found = timed(solve, repeats)
            start = lp_sparsemap(graph, scores, **options)
            warm, _ = timed(partial(solve, warm_start=start), repeats)
            error = max(np.abs(a.marginals - b.marginals).max() for a, b in zip(found, exact))
            sweeps = [r.n_iter for r in found]
            backward = ""
            if solver == SOLVERS[0] or known:
                seconds = []
                for _ in range(repeats + 1):
                    # Faces are found once for a solution.
                    found = solve()
                    started = process_time()
                    found.vjp(v)
                    seconds.append(process_time() - started)
                backward = f"{1e3 * median(seconds[1:]) / n:.3f} ms"
                if known:
                    forget_facets(graph, additional[0], known)
            compared = other is not None and solver == "auto"
            peer, ours = ("lp-sparsemap (C++)" if compared else ""), 1e3 * forward / n
            if solver == "auto":
                results.record("LP-SparseMAP", f"{name}, scale {scale:g}", "CPU time forward", ours, "ms", peer,
                               other, elsewhere=compared)  # fmt: skip
            print_row(
                name,
                f"{scale:g}",
                solver,
                f"{1e3 * forward / n:.3f} ms",
                f"{1e3 * warm / n:.3f} ms",
                backward,
                f"{np.mean(sweeps):.0f} ({max(sweeps)})",
                f"{np.mean([r.converged for r in found]):.0%}",
                f"{error:.0e}",
                f"{other} ms" if compared else "",
                f"{other / (1e3 * forward / n):.0f}" if compared else "",
            )


if __name__ == "__main__":
    main()
