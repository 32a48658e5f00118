"""
One matching, two graphs
========================

A matching can be written as *one* factor with an assignment algorithm, or as *many* small factors: each row takes
exactly one column (`Xor`), each column at most one row (`AtMostOne`). Both describe the same polytope, so the
marginals are equal; only the time differs. These are the two graphs of Figure 2 of the LP-SparseMAP paper.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import lp_sparsemap
from sklearn_sparsemap.factors import AtMostOne, FactorGraph, StructureFactor, Xor
from sklearn_sparsemap.plotting import FactorGraphDisplay
from sklearn_sparsemap.structures import Matching

# %%
# Coarse and fine
# ---------------


def coarse(n_rows, n_cols):
    """Return a graph with one factor for the whole matching."""
    graph = FactorGraph()
    u = graph.variables((n_rows, n_cols))
    graph.add(StructureFactor(Matching(), u))
    return graph


def fine(n_rows, n_cols):
    """Return a graph with one factor for each row and each column; there are at
    least as many columns as rows.
    """
    graph = FactorGraph()
    u = graph.variables((n_rows, n_cols))
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return graph


lp_sparsemap(coarse(2, 3), np.eye(2, 3))
lp_sparsemap(fine(2, 3), np.eye(2, 3))

# %%
# The same marginals, in different times
# --------------------------------------
# Each graph is laid out once and then solves a list of problems with random scores.

print(
    f"\n{'size':>8}{'largest difference':>21}{'largest gap':>14}{'coarse, ms':>13}"
    f"{'fine, ms':>11}"
)
rng = np.random.default_rng(0)
for n_rows, n_cols, n_problems in ((5, 8, 200), (10, 15, 100), (20, 30, 20)):
    problems = list(rng.normal(size=(n_problems, n_rows, n_cols)))
    graphs, times, results = (coarse(n_rows, n_cols), fine(n_rows, n_cols)), [], []
    for graph in graphs:
        start = perf_counter()
        results.append(lp_sparsemap(graph, problems))
        times.append(1e3 * (perf_counter() - start) / n_problems)
    apart = max(np.abs(a.marginals - b.marginals).max() for a, b in zip(*results))
    gap = max(abs(result.gap) for solved in results for result in solved)
    print(
        f"{n_rows:>4} x {n_cols:<2}{apart:>20.1e}{gap:>14.1e}{times[0]:>13.2f}"
        f"{times[1]:>11.2f}"
    )
    if n_rows == 10:
        shown = [solved[0] for solved in results]

# %%
# The picture
# -----------
# Above, one of the problems of 10 x 15; an empty cell is zero. Below, the fine graph of a tiny problem.

INK = "#222222"
figure = plt.figure(figsize=(13, 8.4), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=(1.0, 1.1))
titles = "one factor: Matching", "10 Xor, 15 AtMostOne"
for ax, title, result in zip(above.subplots(1, 2), titles, shown):
    FactorGraphDisplay.from_result(result, layout="heatmap", ax=ax)
    ax.set_title(title, fontsize=13, color=INK)
apart = np.abs(shown[0].marginals - shown[1].marginals).max()
above.supxlabel(f"largest difference of the two: {apart:.0e}", fontsize=11, color=INK)
ax = below.subplots()
ax.set_title("the fine graph of 3 x 4", fontsize=13, color=INK)
tiny = lp_sparsemap(fine(3, 4), rng.normal(size=(3, 4)))
FactorGraphDisplay.from_result(tiny, ax=ax)

plt.show()
