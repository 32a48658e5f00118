"""
Predict, then optimise
======================

The values of things are not known, only features of them, and with the values a problem is to be solved: what goes
into the knapsack, which way leads through the grid? Two stages are common: a regression predicts values, and a solver
decides. But regression works hardest on what is large, and that may not matter: some things are so precious that they
are taken in any case, some roads so expensive that they are avoided. Here the solver is part of the training:
`LinearProgram` asks it, and the loss compares *decisions*.

The path of the picture may be given on the command line; otherwise it is saved beside this script.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.structures import LinearProgram

rng = np.random.default_rng(0)

# %%
# Two problems
# ------------
# A knapsack with room for half of the things; and the cheapest way through a grid of 5 x 5 corners, to the right and
# down, where what goes into each corner comes out again. The solutions of its linear programme are integer by
# themselves.

N_THINGS, SIDE = 16, 5
sizes = rng.integers(2, 7, size=N_THINGS)
knapsack = LinearProgram([sizes], [sizes.sum() // 2])

corners = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
ends = np.vstack(
    [
        np.column_stack([corners[:, :-1].ravel(), corners[:, 1:].ravel()]),
        np.column_stack([corners[:-1].ravel(), corners[1:].ravel()]),
    ]
)
flow = np.zeros((SIDE * SIDE, len(ends)))
flow[ends[:, 0], np.arange(len(ends))] = 1
flow[ends[:, 1], np.arange(len(ends))] = -1
balance = np.zeros(SIDE * SIDE)
balance[[0, -1]] = 1, -1
path = LinearProgram(A_eq=flow, b_eq=balance, integer=False, fixed_size=True)

# %%
# Values and features
# -------------------
# One in five is of a kind apart: precious things, or roads with a toll. With them, a second feature raises the value,
# with others it lowers it; a linear model must choose. The third feature matters little, and three not at all.

N_FEATURES = 6


def draw(structure, n, sign):
    """Return features of all variables, their values, and the best decisions."""
    X = rng.uniform(-1, 1, size=(n, structure.n_parts, N_FEATURES))
    apart = X[:, :, 0] = rng.uniform(size=X.shape[:2]) < 0.2
    values = 3 - 1.5 * X[:, :, 1] + 0.5 * X[:, :, 2]
    values = np.where(apart, 25 + 10 * X[:, :, 1], values)
    values *= sign * rng.uniform(0.9, 1.1, size=values.shape)
    return X, values, map_inference(structure, list(values)).structures


def regret(values, decisions, best):
    """Return the share of the best value that decisions lose."""
    decisions, best = np.array(decisions), np.array(best)
    return ((best - 1.0 * decisions) * values).sum() / np.abs((best * values).sum())


# %%
# Train
# -----
# Training compares the decisions that were best for some sample, the pool of the programme, which is quick. `predict`
# asks the programme itself.

SIZES = [20, 50, 100, 200]
results = {}
for name, structure, sign in (("knapsack", knapsack, 1), ("shortest path", path, -1)):
    X_test, values_test, best_test = draw(structure, 200, sign)
    for size in SIZES:
        X, values, best = draw(structure, size, sign)
        model = LinearRegression().fit(X.reshape(-1, N_FEATURES), values.ravel())
        guess = model.predict(X_test.reshape(-1, N_FEATURES)).reshape(len(X_test), -1)
        two_stages = map_inference(structure, list(guess)).structures
        learner = StructuredSparseMAPClassifier(
            structure, "margin_sparsemap", alpha=1e-3, max_iter=60, tol=1e-2
        )
        learner.fit(X, best)
        decided = learner.predict(X_test)
        results[name, size] = [
            regret(values_test, decisions, best_test)
            for decisions in (two_stages, decided)
        ]
    print(f"{name}, regret on 200 test samples")
    for which, label in enumerate(("two stages", "decisions")):
        row = "".join(f"{results[name, size][which]:8.1%}" for size in SIZES)
        print(f"  {label:12}{row}")

# %%
# The picture
# -----------

INK, COLORS = "#222222", ("#d55e00", "#00594c")
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for ax, name in zip(axes, ("knapsack", "shortest path")):
    for which, label in enumerate(("two stages: regression, then solve", "decisions")):
        regrets = [100 * results[name, size][which] for size in SIZES]
        ax.plot(SIZES, regrets, "so"[which] + "-", color=COLORS[which], label=label)
    ax.set(title=name, xscale="log", xlabel="samples to learn from", ylim=(0, None))
    ax.set_xticks(SIZES, SIZES)
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("regret, % of the best value")
axes[0].legend(frameon=False, labelcolor=INK)

beside = Path(sys.argv[0]).with_name("predict_then_optimise.png")
picture = sys.argv[1] if len(sys.argv) > 1 else beside
figure.savefig(picture, dpi=110)
print(f"\nPicture: {picture}")
