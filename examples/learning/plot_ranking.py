"""
Learn to rank
=============

Guests rank the hotels of a town. A cheap hotel of one town is expensive in another, so only differences within a town
matter. A model that predicts the points of each hotel by itself cannot use this. `Ranking` learns from whole orders,
which do not depend on anything that all hotels of a town have in common. For uncertain orders it returns the
*expected points of each hotel*, a soft ranking.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.structures import Ranking

# %%
# Towns and hotels
# ----------------
# Prices have a level of their own in each town, distances less so, stars do not. The best of eight hotels has 7 points,
# the last one none.

N_HOTELS, FEATURES = 8, ("price", "distance", "stars")
rng = np.random.default_rng(0)


def draw_towns(n):
    """Return the features of the hotels of some towns, and their orders."""
    hotels = rng.normal(size=(n, N_HOTELS, 3))
    wanted = hotels @ [-1.5, -1.0, 0.7] + 0.7 * rng.gumbel(size=(n, N_HOTELS))
    level = rng.normal(size=(n, 1, 3)) * [3.0, 1.0, 0.0]
    return hotels + level, np.argsort(-wanted, axis=1)


def points_of(orders):
    """Return the points of each hotel."""
    return N_HOTELS - 1 - np.argsort(orders, axis=1)


X_test, y_test = draw_towns(500)

# %%
# Hotel by hotel, or the whole order
# ----------------------------------
# `score` is the fraction of pairs of hotels that are in the correct order.


def pairs_right(points, orders):
    """Return the fraction of pairs of hotels in the correct order."""
    right = points_of(orders)
    better = right[:, :, None] > right[:, None, :]
    return (points[:, :, None] > points[:, None, :])[better].mean()


sizes = [5, 10, 20, 50, 100, 200]
found = {"points of each hotel (ridge)": [], "whole orders (SparseMAP)": []}
for size in sizes:
    scores = []
    for _ in range(5):
        X, y = draw_towns(size)
        ridge = RidgeCV(np.logspace(-2, 3, 11))
        ridge.fit(X.reshape(-1, 3), points_of(y).ravel())
        alone = ridge.predict(X_test.reshape(-1, 3)).reshape(-1, N_HOTELS)
        ranker = StructuredSparseMAPClassifier(Ranking(), alpha=1e-2).fit(X, list(y))
        scores.append((pairs_right(alone, y_test), ranker.score(X_test, list(y_test))))
    for own, score in zip(found.values(), np.mean(scores, axis=0)):
        own.append(score)
print(f"{'towns':36}" + "".join(f"{size:>8}" for size in sizes))
for name, scores in found.items():
    print(f"{name:36}" + "".join(f"{score:8.1%}" for score in scores))
weights = [ridge.coef_ / np.abs(ridge.coef_).sum()]
weights.append(ranker.coef_[0] / np.abs(ranker.coef_[0]).sum())
print("\nWhat counts, by both models of the last size:")
for j, feature in enumerate(FEATURES):
    print(f"{feature:10}{weights[0][j]:8.2f}{weights[1][j]:8.2f}")

# %%
# The picture
# -----------
# Left, how both learn. Right, the points that the hotels of one town may expect, and how many they got.

INK, ALONE, WHOLE = "#222222", "#d55e00", "#00594c"
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for (name, scores), color, marker in zip(found.items(), (ALONE, WHOLE), "so"):
    axes[0].plot(sizes, scores, color=color, marker=marker, label=name)
axes[0].set(xscale="log", xlabel="towns to learn from")
axes[0].set_ylabel("pairs in the correct order")
axes[0].set_xticks(sizes, sizes)
axes[0].minorticks_off()
axes[0].legend(frameon=False, labelcolor=INK)

expected = np.array(list(ranker.predict_marginals(X_test)))
unsure = np.abs(expected - expected.round()).sum(axis=1)
town = int(np.argsort(unsure)[len(unsure) // 2])
order = np.argsort(-expected[town])
places = np.arange(N_HOTELS)
axes[1].bar(places, expected[town][order], color="#8cc8ee", label="expected")
got = points_of(y_test)[town][order]
axes[1].plot(places, got, "o", mfc="none", mec=INK, ms=9, label="got")
axes[1].set(xlabel="hotel, the best one first", ylabel="points")
axes[1].set_xticks(places, places + 1)
axes[1].legend(frameon=False, labelcolor=INK)
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)

plt.show()
