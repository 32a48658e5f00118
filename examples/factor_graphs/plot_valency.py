"""
Trees with valency
==================

A verb takes a limited number of complements, its *valency*. A parser that scores arcs one by one ignores this limit,
and finding the best tree under such limits is NP-hard. In a factor graph the tree is one factor, and the budget of
each head is another. LP-SparseMAP solves the relaxation. This is Figure 1 of the LP-SparseMAP paper.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_sparsemap import lp_sparsemap, sparsemap
from sklearn_sparsemap.factors import Budget, FactorGraph, StructureFactor
from sklearn_sparsemap.plotting import TreeDisplay
from sklearn_sparsemap.structures import DependencyTree

# %%
# A sentence, and the scores of its arcs
# --------------------------------------
# The phrases with a preposition would rather belong to the verb than to a noun. Arcs that are not listed score -1.

words = ["she", "sent", "the", "letter", "to", "him", "from", "Paris", "on", "Monday"]
n = len(words)
LIKELY = {
    "sent": {"she": 2.0, "letter": 2.0, "to": 1.6, "from": 1.3, "on": 1.3},
    "letter": {"the": 2.0, "to": 0.4, "from": 0.8, "on": 0.2},
    "him": {"from": 0.4},
    "Paris": {"on": 0.7},
    "to": {"him": 2.0},
    "from": {"Paris": 2.0},
    "on": {"Monday": 2.0},
}
scores = np.full((n + 1, n), -1.0)
scores[0, words.index("sent")] = 2.0
for head, modifiers in LIKELY.items():
    for modifier, score in modifiers.items():
        scores[words.index(head) + 1, words.index(modifier)] = score

# %%
# The same tree, without and with budgets
# ---------------------------------------
# Row h of the variables holds the arcs from head h: the verb may have three modifiers, a noun two, a preposition one.

BUDGETS = {"sent": 3, "letter": 2, "him": 1, "Paris": 1, "to": 1, "from": 1, "on": 1}
tree = DependencyTree(single_root=True)
free = sparsemap(tree, scores)

graph = FactorGraph()
arcs = graph.variables((n + 1, n), name="arcs")
graph.add(StructureFactor(tree, arcs, name="tree"))
for head, budget in BUDGETS.items():
    h = words.index(head) + 1
    graph.add(Budget([arcs[h, m] for m in range(n) if m + 1 != h], budget))
limited = lp_sparsemap(graph, scores)
print(graph)
print(limited)

solutions = {
    "the tree alone": (list(zip(free.structures, free.weights)), free.marginals),
    "with a budget for each head": (limited.structures["tree"], limited.marginals),
}
for title, (trees, _) in solutions.items():
    print(f"\n{title}:")
    for heads, probability in trees:
        attached = [
            f"{words[m]} <- {words[heads[m] - 1]}"
            for m in range(n)
            if words[m] in ("to", "from", "on")
        ]
        print(
            f"  {probability:.2f}  {', '.join(attached)}; 'sent' has "
            f"{(heads == 2).sum()} modifiers"
        )

# %%
# The picture
# -----------
# Budgets bound the expected number of modifiers. Single trees of the mixture may have more: the relaxation knows the
# marginals of the trees, not the trees.

INK = "#222222"
figure, axes = plt.subplots(
    4, 1, figsize=(8.6, 9.2), height_ratios=(3, 1, 3.5, 1), layout="constrained"
)
axes = axes.reshape(2, 2).T
for (top, bottom), (title, (trees, marginals)) in zip(axes.T, solutions.items()):
    TreeDisplay.from_predictions(
        trees, marginals=marginals, words=words, ax=top, max_structures=3
    )
    top.set_title(title, fontsize=13, color=INK, pad=14)
    modifiers = marginals[1:].sum(axis=1)
    allowed = np.array([BUDGETS.get(word, np.nan) for word in words])
    bottom.bar(
        words,
        modifiers,
        width=0.6,
        color=np.where(modifiers > allowed + 1e-6, "#d55e00", "#9ecae1"),
    )
    bottom.hlines(
        allowed,
        np.arange(n) - 0.4,
        np.arange(n) + 0.4,
        color=INK,
        lw=1.4,
        label="budget",
    )
    bottom.set(ylim=(0, 5.4), yticks=range(6))
    bottom.spines[["top", "right"]].set_visible(False)
    bottom.tick_params(axis="x", length=0)
axes[1, 0].set_ylabel("expected modifiers", color=INK)
axes[1, 0].legend(frameon=False, labelcolor=INK)

plt.show()
