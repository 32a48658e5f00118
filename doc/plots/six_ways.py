"""Figure 1 of the SparseMAP paper in numbers: three ways of inference, for a choice and for a structure."""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import marginal_inference, n_best, sparsemap
from sklearn_sparsemap.structures import DependencyTree, Simplex

COLORS = {"highest score": "#8c8c8c", "exponential": "#5b7f95", "sparse": "#d55e00"}


def three_ways(structure, scores, n_all):
    """Return the structures by their score, and their probabilities in the three ways."""
    best = n_best(structure, scores, n_all)
    values = np.array([value for _, value in best])
    gibbs = np.exp(values - marginal_inference(structure, scores).log_partition)
    result = sparsemap(structure, scores, solver="active_set")
    selected = {str(found): weight for found, weight in zip(result.structures, result.weights)}
    sparse = np.array([selected.get(str(found), 0.0) for found, _ in best])
    return np.eye(len(best))[0], gibbs, sparse


figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.4), width_ratios=(1, 2.6), layout="constrained")
tree_scores = np.array([[1.2, 1.1, 0.3], [0.0, 0.8, 0.4], [0.7, 0.0, 0.9], [0.1, 0.3, 0.0]])
for ax, structure, scores, n_all, names, title in (
    (left, Simplex(), [1.0, 0.7, 0.1], 3, ("argmax", "softmax", "sparsemax"), "one of three"),
    (
        right,
        DependencyTree(),
        tree_scores,
        16,
        ("MAP", "marginal inference", "SparseMAP"),
        "the 16 trees of three words",
    ),
):
    for place, (name, color, weights) in enumerate(zip(names, COLORS.values(), three_ways(structure, scores, n_all))):
        shown = np.where(weights > 1e-12, weights, np.nan)
        ax.bar(np.arange(n_all) + 0.27 * (place - 1), shown, width=0.25, color=color, label=name)
    ax.set(xticks=range(n_all), xticklabels=range(1, n_all + 1), xlabel="by score, highest first", ylim=(0, 1.05))
    ax.set_title(title, fontsize=11, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="upper right")
left.set_ylabel("probability")
