"""
Restore noisy images on a grid
==============================

Each pixel of an image has one of four colours, seen through strong noise. The most likely colour of a single pixel is
often wrong. A grid of variables also has a score for each pair of colours of two neighbours, learned from a few
images.
"""

import warnings
from functools import cache
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.factors import grid_graph

# %%
# Draw pictures
# -------------
# A sea with a sun, an island and a tree. Each pixel shows its colour as three numbers, with noise on each.

SIZE, NOISE = 14, 0.3
COLOURS = np.array(
    [[0.35, 0.6, 0.85], [0.95, 0.8, 0.25], [0.75, 0.55, 0.4], [0.2, 0.5, 0.3]]
)
NAMES = ["sea", "sun", "sand", "tree"]
rng = np.random.default_rng(0)


def draw():
    rows, columns = np.mgrid[:SIZE, :SIZE]
    y = np.zeros((SIZE, SIZE), int)
    sun, island = rng.integers(2, SIZE - 2), rng.integers(4, SIZE - 4)
    y[(rows - 2) ** 2 + (columns - sun) ** 2 <= rng.integers(3, 8)] = 1
    y[rows >= SIZE - 4 + ((columns - island) / rng.uniform(2, 4)) ** 2] = 2
    tree = abs(columns - island) <= (rows - 5) / 2
    y[tree & (rows >= 5) & (rows < SIZE - 4)] = 3
    return y


y = [draw() for _ in range(22)]
X = [COLOURS[labels] + NOISE * rng.normal(size=(SIZE, SIZE, 3)) for labels in y]
train, test = slice(0, 12), slice(12, 22)

# %%
# Learn
# -----
# The graph of a picture follows from its shape. Pictures of one shape share a graph.

grid = cache(grid_graph)
model = StructuredSparseMAPClassifier(
    lambda x: grid(*x.shape[:2], n_states=4), alpha=0.01, max_iter=30
)
warnings.simplefilter("ignore", ConvergenceWarning)  # Thirty steps are enough.
model.fit(X[:2], y[:2])
start = perf_counter()
model.fit(X[train], y[train])
print(f"learned {len(y[train])} pictures in {perf_counter() - start:.1f} s\n")

alone = LogisticRegression().fit(
    np.concatenate(X[train]).reshape(-1, 3), np.concatenate(y[train]).ravel()
)

# %%
# Restore
# -------

restored = list(model.predict(X[test]))
by_pixel = [alone.predict(x.reshape(-1, 3)).reshape(SIZE, SIZE) for x in X[test]]
right = {
    "pixel by pixel": np.mean(np.array(by_pixel) == y[test]),
    "on a grid": np.mean(np.array(restored) == y[test]),
}
for name, share in right.items():
    print(f"{name:16} {share:.1%} of the pixels right")
print(f"the grid gains {right['on a grid'] - right['pixel by pixel']:.1%}\n")

print("learned scores of neighbours side by side:")
print(f"{'':6}" + "".join(f"{name:>7}" for name in NAMES))
for name, row in zip(NAMES, model.additional_scores_["horizontal"]):
    print(f"{name:6}" + "".join(f"{score:7.2f}" for score in row))

# %%
# The last column shows where the model has doubts: elsewhere its sparse marginals are
# exactly one.

marginals = model.predict_marginals(X[test][:3])
fig, axes = plt.subplots(3, 5, figsize=(9, 5.6), layout="constrained")
colours = ListedColormap(COLOURS)
for row, axs in enumerate(axes):
    pictures = y[test][row], X[test][row].clip(0, 1), by_pixel[row], restored[row]
    for ax, picture in zip(axs, pictures):
        ax.imshow(picture, cmap=colours, vmin=0, vmax=3)
    unsure = 1.0 - marginals[row].max(axis=-1)
    doubt = axs[4].imshow(unsure, cmap="Greys", vmin=0, vmax=0.5)
shares = [f"{name}\n{share:.1%} correct" for name, share in right.items()]
titles = ["drawn", "seen", *shares, "doubt on the grid"]
for ax, title in zip(axes[0], titles):
    ax.set_title(title, fontsize=10)
for ax in axes.flat:
    ax.set(xticks=[], yticks=[])
fig.colorbar(doubt, ax=axes[:, 4], shrink=0.5, label="1 - largest marginal")

plt.show()
