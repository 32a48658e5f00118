"""Figure 1 of the SparseMAP paper: three ways of inference, for a choice and for a structure."""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial import ConvexHull

from sklearn_sparsemap import marginal_inference, n_best, sparsemap
from sklearn_sparsemap.structures import DependencyTree, Simplex

COLORS = {"highest score": "#8c8c8c", "exponential": "#5b7f95", "sparse": "#d55e00"}
INK = "#444444"


def three_ways(structure, scores, n_all):
    """Return the structures by their score, as vectors, and their probabilities in the three ways."""
    best = n_best(structure, scores, n_all)
    values = np.array([value for _, value in best])
    gibbs = np.exp(values - marginal_inference(structure, scores).log_partition)
    result = sparsemap(structure, scores, solver="active_set")
    selected = {str(found): weight for found, weight in zip(result.structures, result.weights)}
    sparse = np.array([selected.get(str(found), 0.0) for found, _ in best])
    return [found for found, _ in best], (np.eye(len(best))[0], gibbs, sparse)


def draw_polytope(ax, corners, names, ways):
    """Draw the convex hull of points of the plane, the means of three distributions over them, and a legend."""
    hull = corners[ConvexHull(corners).vertices]
    ax.fill(*hull.T, facecolor="#f2f2f2", edgecolor=INK, lw=1.0)
    ax.plot(*corners.T, "o", ms=3.5, color=INK)
    for name, color, weights in zip(names, COLORS.values(), ways):
        ax.plot(*(weights @ corners), "o", ms=9, color=color, mec="white", label=name)
    ax.set_aspect("equal")
    ax.axis("off")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


figure, axes = plt.subplots(2, 2, figsize=(11, 6.2), width_ratios=(1, 2.6), layout="constrained")
tree_scores = np.array([[1.2, 1.1, 0.3], [0.0, 0.8, 0.4], [0.7, 0.0, 0.9], [0.1, 0.3, 0.0]])
for (above, below), structure, scores, n_all, names, title in (
    (axes[:, 0], Simplex(), np.array([1.0, 0.7, 0.1]), 3, ("argmax", "softmax", "sparsemax"), "one of three"),
    (
        axes[:, 1],
        DependencyTree(),
        tree_scores,
        16,
        ("MAP", "marginal inference", "SparseMAP"),
        "the 16 trees of three words",
    ),
):
    structures, ways = three_ways(structure, scores, n_all)
    if n_all == 3:
        corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])[np.ravel(structures)]
    else:
        parts = np.array([np.eye(4)[heads].ravel() for heads in structures])
        solution = ways[2] @ parts
        # No tree is above the face of the solution in the direction of the scores minus the solution.
        normal, to_best = scores.T.ravel() - solution, parts[0] - solution
        corners = parts @ np.linalg.qr(np.array([normal, to_best]).T)[0]
    draw_polytope(above, corners, names, ways)
    above.set_title(title, fontsize=11, loc="left")
    for place, (name, color, weights) in enumerate(zip(names, COLORS.values(), ways)):
        shown = np.where(weights > 1e-12, weights, np.nan)
        below.bar(np.arange(n_all) + 0.27 * (place - 1), shown, width=0.25, color=color, label=name)
    below.set(xticks=range(n_all), xticklabels=range(1, n_all + 1), xlabel="by score, highest first", ylim=(0, 1.05))
    below.spines[["top", "right"]].set_visible(False)
axes[1, 0].set_ylabel("probability")
