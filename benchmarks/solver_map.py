"""A map of time: every solver of SparseMAP by structure, size and scale of the scores.

    python benchmarks/solver_map.py [picture.png]

Batches of random problems (normal scores; those of a chain's transitions are of the same scale), one thread, medians of
three runs in turn. A solver is stopped after MAX_CALLS calls of the oracle; it is marked if its gap is
above 1e-9 then. With a path, the map is also drawn (matplotlib).
"""

import argparse
import warnings
from statistics import median
from time import process_time

import numpy as np
import results

from sklearn_sparsemap import sparsemap
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching

SCALES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
STRUCTURES = (
    ("trees", DependencyTree(), [(n + 1, n) for n in (10, 20, 40, 80)], "facets", "{1} words"),
    ("matchings", Matching(), [(n, n) for n in (10, 20, 50, 100)], "facets", "{0} x {1}"),
    ("chains", LinearChain(), [(10, 5), (20, 10), (50, 10), (100, 20)], "flow", "{0} x {1}"),
)
BY_STRUCTURES = ("active_set", "pairwise", "away_step", "cg")
MAX_CALLS, TOL, REPEATS = 1000, 1e-9, 3
# Seconds for one problem; a solver that needs more is run once, on the first.
PATIENCE = 0.05


def measure(structure, shape, scale, solver, rng):
    """Return milliseconds for a problem, and whether all were solved."""
    n = 20 if np.prod(shape) < 2000 else 5
    problem = {"scores": list(scale * rng.standard_normal((n, *shape)))}
    if isinstance(structure, LinearChain):
        problem["transitions"] = scale * rng.standard_normal((shape[1], shape[1]))
    if solver in BY_STRUCTURES:
        problem["max_iter"] = MAX_CALLS
    first = {**problem, "scores": problem["scores"][:1]}
    start = process_time()
    batch = sparsemap(structure, solver=solver, tol=TOL, **first)
    elapsed = process_time() - start
    if elapsed < PATIENCE:
        times = []
        for _ in range(REPEATS):
            start = process_time()
            batch = sparsemap(structure, solver=solver, tol=TOL, **problem)
            times.append((process_time() - start) / n)
        elapsed = median(times)
    return 1e3 * elapsed, bool(batch.converged.all())


def draw(found, path):
    """Draw a grid of heat maps, a row for each structure and a column for each solver."""
    import matplotlib.pyplot as plt
    from matplotlib.colors import LogNorm

    norm = LogNorm(0.01, 1000.0)
    n_columns = len(BY_STRUCTURES) + 2
    figure, axes = plt.subplots(len(STRUCTURES), n_columns, figsize=(2.35 * n_columns, 6.8), layout="constrained")
    for row, (name, _, shapes, _, form) in zip(axes, STRUCTURES):
        for ax, solver in zip(row, found[name]):
            table = found[name][solver]
            times = np.array([[table[shape, scale][0] for scale in SCALES] for shape in shapes])
            image = ax.imshow(times, norm=norm, cmap="cividis_r", aspect="auto")
            for i, shape in enumerate(shapes):
                for j, scale in enumerate(SCALES):
                    ms, solved = table[shape, scale]
                    text = f"{ms:.2g}" if ms < 10 else f"{ms:.0f}"
                    ax.text(
                        j, i, text if solved else f"({text})", ha="center", va="center", fontsize=8,
                        color="white" if norm(ms) > 0.55 else "black",
                    )  # fmt: skip
            ax.set_xticks(range(len(SCALES)), [f"{scale:g}" for scale in SCALES], fontsize=8)
            ax.set_yticks(range(len(shapes)), [], fontsize=8)
            ax.set_title(solver.replace("_", " "), fontsize=10)
            ax.tick_params(length=0)
        row[0].set_yticks(range(len(shapes)), [form.format(*shape) for shape in shapes], fontsize=8)
        row[0].set_ylabel(name, fontsize=10)
    for ax in axes[-1]:
        ax.set_xlabel("scale of the scores", fontsize=9)
    figure.colorbar(image, ax=axes, label="ms a problem", shrink=0.6, pad=0.01)
    figure.suptitle(f"Time of one problem in ms; in brackets: gap above {TOL:g} after {MAX_CALLS} calls", fontsize=11)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("picture", nargs="?", help="where to draw the map")
    args = results.parse(parser)
    warnings.simplefilter("ignore")
    found = {}
    for name, structure, shapes, own, form in STRUCTURES:
        solvers = ("auto", own, *BY_STRUCTURES)
        found[name] = {solver: {} for solver in solvers}
        print(f"\n{name:>12}{'scale':>8}" + "".join(f"{solver:>16}" for solver in solvers))
        for solver in solvers:
            measure(structure, shapes[0], 1.0, solver, np.random.default_rng(0))
        for shape in shapes:
            for scale in SCALES:
                line = f"{form.format(*shape):>12}{scale:>8g}"
                for solver in solvers:
                    ms, solved = measure(structure, shape, scale, solver, np.random.default_rng(1))
                    found[name][solver][shape, scale] = ms, solved
                    line += f"{f'{ms:.3f}' if solved else f'({ms:.3f})':>16}"
                ours, theirs = found[name]["auto"][shape, scale][0], found[name]["active_set"][shape, scale]
                peer = "active set" if theirs[1] else f"active set, not solved after {MAX_CALLS:,} calls"
                results.record("solvers", f"{name} {form.format(*shape)}, scale {scale:g}", "CPU time of solver='auto'",
                               ours, "ms", peer, theirs[0])  # fmt: skip
                print(line, flush=True)
    if args.picture:
        draw(found, args.picture)


if __name__ == "__main__":
    main()
