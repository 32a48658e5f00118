"""
Sudoku with handwritten digits
==============================

A classifier reads the digits of a sudoku one by one, and makes mistakes. The rules help: each digit occurs once in
each row, each column and each box. A factor graph combines the scores of the classifier with the rules, in eight
lines. `map_inference` finds the grid with the highest score that satisfies all rules, and `lp_sparsemap` shows which
cells are uncertain.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sklearn_sparsemap import lp_sparsemap, map_inference
from sklearn_sparsemap.factors import Exactly, FactorGraph

# %%
# A grid of pictures
# ------------------
# A valid grid by a formula, with shuffled digits, rows and columns; each cell is a picture of its digit, with noise.

rng = np.random.default_rng(0)
row, column = np.indices((9, 9))
grid = rng.permutation(9)[(3 * row + row // 3 + column) % 9] + 1
grid = grid[[3 * band + i for band in range(3) for i in rng.permutation(3)]].T
grid = grid[[3 * band + i for band in range(3) for i in rng.permutation(3)]].T

digits = load_digits()
images = digits.data + rng.normal(scale=3.0, size=digits.data.shape)
known = rng.random(len(images)) < 0.5
is_used = digits.target > 0
reader = LogisticRegression(C=1e-3, max_iter=1000)
reader.fit(images[known & is_used], digits.target[known & is_used])
places = [rng.choice(np.flatnonzero(~known & (digits.target == d))) for d in grid.flat]
cells = images[places]
scores = reader.predict_log_proba(cells).reshape(9, 9, 9)
alone = scores.argmax(axis=-1) + 1

# %%
# The rules
# ---------
# A variable of nine values for each cell, which is nine binary variables of which one is on.

sudoku = FactorGraph()
u = sudoku.categorical((9, 9), n_states=9, name="digits")
for digit in range(9):
    own = u[:, :, digit]
    sudoku.add(*[Exactly(own[i], 1) for i in range(9)])
    sudoku.add(*[Exactly(own[:, i], 1) for i in range(9)])
    starts = [(i, j) for i in (0, 3, 6) for j in (0, 3, 6)]
    sudoku.add(*[Exactly(own[i : i + 3, j : j + 3], 1) for i, j in starts])

together = map_inference(sudoku, scores).structure.argmax(axis=-1) + 1
# Smaller scores show more of the doubt.
marginals = lp_sparsemap(sudoku, 0.4 * scores).marginals
print(f"wrong digits, read one by one: {(alone != grid).sum()} of 81")
print(f"with the rules:                {(together != grid).sum()} of 81")

# %%
# The picture
# -----------

INK, RED, GREEN = "#222222", "#b3261e", "#00594c"
figure, axes = plt.subplots(1, 3, figsize=(9.6, 3.9), layout="constrained")
mosaic = cells.reshape(9, 9, 8, 8).transpose(0, 2, 1, 3).reshape(72, 72)
axes[0].imshow(-mosaic, cmap="gray", extent=(0, 9, 9, 0))
axes[0].set_title("pictures")
for ax, found, title in (
    (axes[1], alone, "read one by one"),
    (axes[2], together, "with the rules"),
):
    ax.set_title(f"{title}: {(found != grid).sum()} wrong")
    for (i, j), digit in np.ndenumerate(found):
        color = INK if digit == grid[i, j] else RED
        ax.text(j + 0.5, i + 0.5, digit, ha="center", va="center", color=color)
doubt = 1.0 - marginals.max(axis=-1)
axes[2].imshow(doubt, cmap="Greens", vmin=0.0, vmax=1.0, extent=(0, 9, 9, 0))
axes[2].set_xlabel("green: marginals of LP-SparseMAP\nare spread over several digits")
for ax in axes:
    ax.set(xlim=(0, 9), ylim=(9, 0), aspect="equal", xticks=[], yticks=[])
    for k in range(10):
        width = 1.2 if k % 3 == 0 else 0.3
        ax.axhline(k, color=INK, linewidth=width)
        ax.axvline(k, color=INK, linewidth=width)

plt.show()
