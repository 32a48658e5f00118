"""
Predict, then optimise
======================

The values of items are unknown, only features are known, and a decision depends on the values: the content of a
knapsack, a path through a grid. The usual way has two stages: a regression predicts values, and a solver decides. But
regression works hardest on large values, which may not matter: some items are taken in any case, some roads are
always avoided. `DecisionFocusedRegressor` minimises the loss of value due to the decisions instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from sklearn_sparsemap import DecisionFocusedRegressor, map_inference
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import LinearProgram, Path

rng = np.random.default_rng(0)

# %%
# Two problems
# ------------
# A knapsack with room for half of the things, and the cheapest way through a grid of 5 x 5 corners, to the right and
# down.

N_THINGS, SIDE = 16, 5
sizes = rng.integers(2, 7, size=N_THINGS)
knapsack = LinearProgram([sizes], [sizes.sum() // 2])
path = Path.grid(SIDE, SIDE)

# %%
# Values and features
# -------------------
# One in five is of a kind apart: precious things, or roads with a toll. With them, a second feature raises the value,
# with others it lowers it; a linear model must choose. The third feature matters little, and three not at all.

N_FEATURES = 6


def draw(n_parts, n, sign):
    """Return features of all things or roads, and their values."""
    X = rng.uniform(-1, 1, size=(n, n_parts, N_FEATURES))
    apart = X[:, :, 0] = rng.uniform(size=X.shape[:2]) < 0.2
    values = 3 - 1.5 * X[:, :, 1] + 0.5 * X[:, :, 2]
    values = np.where(apart, 25 + 10 * X[:, :, 1], values)
    return X, values * sign * rng.uniform(0.9, 1.1, size=values.shape)


# %%
# Train
# -----
# Both models are linear, with the same weights for all things. Their score is minus the normalised regret: the value
# that decisions lose, as a fraction of the best value.

SIZES = [20, 50, 100]
results = {}
for name, structure, n_parts, sign in (
    ("knapsack", knapsack, N_THINGS, 1),
    ("shortest path", path, len(path.edges), -1),
):
    X_test, values_test = draw(n_parts, 100, sign)
    for size in SIZES:
        X, values = draw(n_parts, size, sign)
        two_stages = LinearRegression().fit(X.reshape(-1, N_FEATURES), values.ravel())
        guess = two_stages.predict(X_test.reshape(-1, N_FEATURES)).reshape(100, n_parts)
        decided = np.array(list(map_inference(structure, list(guess)).structures))
        model = DecisionFocusedRegressor(structure).fit(X, values)
        results[name, size] = [
            normalized_regret(values_test, decided, structure),
            -model.score(X_test, values_test),
        ]
    print(f"{name}, regret on 100 test samples")
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

plt.show()
