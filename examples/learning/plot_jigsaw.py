"""
Solve jigsaw puzzles of digits
==============================

Images of digits are cut into eight pieces and shuffled. A model that places each piece by itself may put two pieces
into the same place. A matching gives each piece a place of its own, and `StructuredSparseMAPClassifier` is trained
with it. For ambiguous puzzles it returns *a few whole solutions with their probabilities*.

The images are part of scikit-learn.
"""

from math import factorial
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PolynomialFeatures

from sklearn_sparsemap import StructuredSparseMAPClassifier

# %%
# Cut and shuffle
# ---------------
# Two rows of four pieces, each of 4 x 2 pixels. Piece i of a puzzle belongs to place ``y[i]``.

N_ROWS, N_COLS, SIDE = 2, 4, 8
N_PIECES = N_ROWS * N_COLS
PIECE = SIDE // N_ROWS, SIDE // N_COLS
rng = np.random.default_rng(0)

images = load_digits().data.reshape(-1, SIDE, SIDE) / 16.0
places = np.array([rng.permutation(N_PIECES) for _ in images])
cut = (
    images.reshape(-1, N_ROWS, PIECE[0], N_COLS, PIECE[1])
    .swapaxes(2, 3)
    .reshape(-1, N_PIECES, *PIECE)
)
pieces = np.take_along_axis(cut, places[:, :, None, None], axis=1)
train, test = train_test_split(np.arange(len(images)), train_size=600, random_state=0)

# %%
# Features
# --------
# A piece is described by its pixels and their products. A pair of a piece and a place has these features in the block
# of the place, so that each place learns weights of its own: a sample has shape (n_pieces, n_places, n_features).

pixels = pieces.reshape(len(pieces) * N_PIECES, -1)
look = PolynomialFeatures(2).fit_transform(pixels).reshape(len(pieces), N_PIECES, -1)
pairs = np.zeros((len(pieces), N_PIECES, N_PIECES, N_PIECES, look.shape[-1]))
for place in range(N_PIECES):
    pairs[:, :, place, place] = look
pairs = pairs.reshape(len(pieces), N_PIECES, N_PIECES, -1)


def put_together(pieces, placed):
    """Put the pieces of a puzzle into their places; where none was put, NaN;
    where several, their mean.
    """
    cells = np.full((N_PIECES, *PIECE), np.nan)
    for place in set(placed.tolist()):
        cells[place] = pieces[placed == place].mean(axis=0)
    return cells.reshape(N_ROWS, N_COLS, *PIECE).swapaxes(1, 2).reshape(SIDE, SIDE)


# %%
# Piece by piece, or the whole puzzle
# -----------------------------------
# A piece counts as right if it looks like the one that belongs there: many are blank, and so exchangeable.

matching = StructuredSparseMAPClassifier(structure="matching", alpha=1e-3)
matching.fit(list(pairs[:2]), places[:2]).predict_structures(list(pairs[:2]))

print(f"{len(train)} puzzles to learn from, {len(test)} to solve.\n")
alone = LogisticRegression(solver="newton-cg")
start = perf_counter()
alone.fit(look[train].reshape(-1, look.shape[-1]), places[train].ravel())
alone_time = perf_counter() - start
log_proba = alone.predict_log_proba(look[test].reshape(-1, look.shape[-1])).reshape(
    -1, N_PIECES, N_PIECES
)
start = perf_counter()
matching.fit(list(pairs[train]), list(places[train]))
matching_time = perf_counter() - start

answers = {
    "LogisticRegression, piece by piece": (log_proba.argmax(axis=2), alone_time),
    "the same, then assigned": (
        np.array([linear_sum_assignment(-p)[1] for p in log_proba]),
        alone_time,
    ),
    "SparseMAP, whole puzzle": (
        np.array(list(matching.predict(list(pairs[test])))),
        matching_time,
    ),
}
print(f"{'':36}{'pieces right':>13}{'puzzles solved':>16}{'fit':>9}")
for name, (placed, seconds) in answers.items():
    right = [
        (cut[i][chosen] == pieces[i]).all(axis=(1, 2))
        for i, chosen in zip(test, placed)
    ]
    solved = [
        np.array_equal(put_together(pieces[i], chosen), images[i])
        for i, chosen in zip(test, placed)
    ]
    print(f"{name:36}{np.mean(right):13.1%}{np.mean(solved):16.1%}{seconds:7.1f} s")

# %%
# A few solutions
# ---------------
# Solutions that exchange pieces which look the same make one picture, whose probability is the sum of theirs.


def selected_pictures(i, structures):
    """Return the pictures that SparseMAP selects for image i, most probable
    first, with their probabilities.
    """
    pictures = {}
    for placed, probability in structures:
        picture = put_together(pieces[i], placed)
        _, total = pictures.get(picture.tobytes(), (picture, 0.0))
        pictures[picture.tobytes()] = picture, total + probability
    return sorted(pictures.values(), key=lambda pair: -pair[1])


selected = [
    selected_pictures(i, s)
    for i, s in zip(test, matching.predict_structures(list(pairs[test])))
]
n_selected = np.array([len(pictures) for pictures in selected])
is_right = [
    [np.array_equal(picture, images[i]) for picture, _ in pictures]
    for i, pictures in zip(test, selected)
]
highest = np.array([pictures[0][1] for pictures in selected])
first_right = np.array([right[0] for right in is_right])
print(
    f"\nThere are {factorial(N_PIECES):,} solutions. SparseMAP selects "
    f"{np.median(n_selected):.0f} pictures ",
    end="",
)
share = np.mean([any(right) for right in is_right])
print(f"(median),\nand for {share:.1%} of the puzzles the right one is among them.")
for low, high in ((0.0, 0.5), (0.5, 0.8), (0.8, 1.01)):
    among = (highest >= low) & (highest < high)
    print(
        f"Where the first one has a probability of {low:.1f} to {min(high, 1):.1f} "
        f"({among.sum()} puzzles), ",
        end="",
    )
    print(f"it is correct {first_right[among].mean():.1%} of the time.")

# %%
# The picture
# -----------
# Each row is a puzzle. Pieces at a wrong place are framed; places that the pieces alone left empty are hatched, and
# where several pieces want the same place, their mean is shown.

INK, RIGHT, WRONG = "#222222", "#00594c", "#d55e00"
N_SHOWN = 3
alone_placed = answers["LogisticRegression, piece by piece"][0]


def show(ax, picture, truth=None):
    """Show an image with the cuts, and frames around what differs from the truth."""
    extent = (0, N_COLS, N_ROWS, 0)
    ax.imshow(
        np.nan_to_num(picture),
        cmap="Greys",
        vmin=0,
        vmax=1,
        extent=extent,
        aspect="auto",
        zorder=0,
    )
    for place in range(N_PIECES):
        row, column = divmod(place, N_COLS)
        rows = slice(row * PIECE[0], (row + 1) * PIECE[0])
        columns = slice(column * PIECE[1], (column + 1) * PIECE[1])
        part = picture[rows, columns]
        cell = (column, row), 1, 1
        ax.add_patch(
            Rectangle(*cell, fill=False, edgecolor="#bbbbbb", lw=0.6, zorder=1)
        )
        if np.isnan(part).any():
            ax.add_patch(
                Rectangle(
                    *cell,
                    facecolor="white",
                    edgecolor="#bbbbbb",
                    hatch="/////",
                    lw=0,
                    zorder=1,
                )
            )
        if truth is not None and not np.array_equal(part, truth[rows, columns]):
            inside = (column + 0.05, row + 0.04), 0.9, 0.92
            ax.add_patch(
                Rectangle(*inside, fill=False, edgecolor=WRONG, lw=2.2, zorder=3)
            )
    ax.set(xlim=(0, N_COLS), ylim=(N_ROWS, 0), xticks=[], yticks=[])
    ax.set_box_aspect(1)
    ax.spines[:].set_color("#888888")


def pick(wanted, count):
    """Return puzzles of a kind, those whose second and third picture are the
    most probable.
    """
    kind = [k for k in range(len(test)) if n_selected[k] >= N_SHOWN and wanted(k)]
    return sorted(kind, key=lambda k: -selected[k][1][1] * selected[k][2][1])[:count]


rows = pick(lambda k: is_right[k][0] and highest[k] > 0.5, 2)
rows += pick(lambda k: is_right[k][1] and highest[k] > 0.4, 1)
rows += pick(lambda k: not any(is_right[k]), 1)
titles = ["shuffled", "each alone", "selected by SparseMAP", "", "", "original"]
figure, axes = plt.subplots(
    len(rows),
    len(titles),
    figsize=(9.6, 7.0),
    layout="constrained",
)
for row, k in zip(axes, rows):
    i = test[k]
    show(row[0], put_together(pieces[i], np.arange(N_PIECES)))
    show(row[1], put_together(pieces[i], alone_placed[k]), images[i])
    show(row[-1], images[i])
    for place, (picture, probability) in enumerate(selected[k][:N_SHOWN]):
        ax, right = row[2 + place], is_right[k][place]
        show(ax, picture, images[i])
        style = {"color": RIGHT, "fontweight": "bold"} if right else {"color": INK}
        ax.set_xlabel(
            f"{probability:.2f}" + (", correct" if right else ""), fontsize=11, **style
        )
    rest = n_selected[k] - N_SHOWN
    if rest:
        row[-2].set_xlabel(f"{row[-2].get_xlabel()}   (+ {rest} more)", fontsize=11)
for ax, title in zip(axes[0], titles):
    ax.set_title(title, fontsize=12, color=INK, loc="left")

plt.show()
