"""
Quick start: read half-hidden digits
====================================

Handwritten digits come in short sequences, and half of most images is hidden. Alone, many of them could be several
digits. But the sequences follow a hidden rule: a digit is usually followed by the one that is 1 or 3 higher (modulo
10). A chain learns this rule together with the shapes of the digits, and uses the neighbours of an image to read it.

For ambiguous sequences SparseMAP returns *a few whole sequences with their probabilities*; all others have
probability zero.

The images are part of scikit-learn.
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.metrics import flat_accuracy_score, sequence_accuracy_score
from sklearn_sparsemap.plotting import ChainDisplay

# %%
# Sequences with a hidden regularity
# ----------------------------------
# Test sequences use other images than training sequences. Of 100 steps, 95 follow the rule; the rest are random
# digits. Of four images, three have one half hidden.

N_STEPS, SIDE = 8, 8
rng = np.random.default_rng(0)


def draw_digits():
    """Draw one sequence of digits that mostly follows the rule."""
    digits = [rng.integers(10)]
    while len(digits) < N_STEPS:
        follows = rng.random() < 0.95
        digits.append(
            (digits[-1] + rng.choice([1, 3])) % 10 if follows else rng.integers(10)
        )
    return np.array(digits)


def draw_hidden():
    """Draw which pixels of one image are hidden: none, or one of its four halves."""
    hidden = np.zeros((SIDE, SIDE), dtype=bool)
    if rng.random() < 0.75:
        half = hidden if rng.random() < 0.5 else hidden.T
        first = SIDE // 2 * rng.integers(2)
        half[first : first + SIDE // 2] = True
    return hidden


def make_sequences(images, labels, n_sequences):
    """Return features (a RaggedArray), labels, and the mask of hidden pixels of
    each sequence.
    """
    of_digit = [images[labels == digit] for digit in range(10)]
    X, y, masks = [], [], []
    for _ in range(n_sequences):
        digits = draw_digits()
        hidden = np.array([draw_hidden() for _ in digits])
        pixels = np.array([rng.choice(of_digit[digit]) for digit in digits]) / 16.0
        X.append(np.where(hidden, 0.0, pixels).reshape(N_STEPS, -1))
        y.append(digits)
        masks.append(hidden)
    return RaggedArray.from_list(X), y, masks


images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, SIDE, SIDE)
train_images, test_images, train_labels, test_labels = train_test_split(
    images, labels, train_size=300, stratify=labels, random_state=0
)
X_train, y_train, _ = make_sequences(train_images, train_labels, 100)
X_test, y_test, masks_test = make_sequences(test_images, test_labels, 500)

# %%
# One digit at a time, or the whole sequence
# ------------------------------------------
# The first two models see single digits; the third sees the same digits as chains. All are linear in the 64 pixels,
# and share one strength of penalty (scikit-learn's C is 1 / (alpha * number of samples)).

ALPHA = 0.005
single = StructuredSparseMAPClassifier(alpha=ALPHA)
chain = StructuredSparseMAPClassifier(structure="chain", alpha=ALPHA)
models = {
    "single digits, LogisticRegression": LogisticRegression(
        C=1 / (ALPHA * len(X_train.values)), max_iter=1000
    ),
    "single digits, SparseMAP": single,
    "chain, SparseMAP": chain,
}

# A tiny fit compiles the kernels, once: later runs load them. The times below are without compilation.
chain.fit(X_train[:2], y_train[:2]).predict(X_test[:2])
chain.predict_structures(X_test[:2])
single.fit(X_train.values[:20], np.concatenate(y_train)[:20]).predict(
    X_test.values[:20]
)
print(
    f"{len(X_train)} training and {len(X_test)} test sequences of {N_STEPS} digits.\n"
)

print(f"{'':35}{'digits':>8}{'sequences':>11}{'fit':>9}{'predict':>9}")
print(f"{'':35}{'right':>8}{'all right':>11}")
predicted = {}
for name, model in models.items():
    start = perf_counter()
    if model is chain:
        model.fit(X_train, y_train)
    else:
        model.fit(X_train.values, np.concatenate(y_train))
    fitted = perf_counter()
    if model is chain:
        found = model.predict(X_test)
    else:
        found = model.predict(X_test.values).reshape(-1, N_STEPS)
    done = perf_counter()
    predicted[name] = found
    digits_right, all_right = (
        flat_accuracy_score(y_test, found),
        sequence_accuracy_score(y_test, found),
    )
    print(
        f"{name:35}{digits_right:8.1%}{all_right:11.1%}{fitted - start:7.2f} "
        f"s{done - fitted:7.3f} s"
    )

# %%
# The rule that the chain has found: the two steps with the highest scores, averaged over all digits.

ahead = np.array([np.roll(row, -digit) for digit, row in enumerate(chain.transitions_)])
best = ahead.mean(axis=0).argsort()[::-1][:2]
print(
    f"\nThe learned transitions favour steps of +{min(best)} and +{max(best)} "
    "(modulo 10)."
)

# %%
# A few sequences instead of one, or of all
# -----------------------------------------
# `predict_structures` returns the sequences that SparseMAP selects, most probable first. There are 100 million
# possible ones; a handful get probability, and together they make up the marginals.

structures = chain.predict_structures(X_test)
n_selected = np.array([len(selected) for selected in structures])
print(
    f"SparseMAP selects {np.median(n_selected):.0f} of {10**N_STEPS:,} sequences "
    "(median of the test set)."
)


def doubt(i):
    """How well test sequence i serves as an example: few sequences, none of
    them near certain, the first right.
    """
    best_sequence, probability = structures[i][0]
    alone = predicted["single digits, SparseMAP"][i]
    is_right = np.array_equal(best_sequence, y_test[i])
    return (
        is_right and n_selected[i] in (3, 4),
        min(np.sum(alone != y_test[i]), 2),
        -probability,
    )


shown = max(range(len(X_test)), key=doubt)
alone = predicted["single digits, SparseMAP"][shown]
print(f"\nAn ambiguous one, test sequence {shown}:")
print(f"  truth                {' '.join(map(str, y_test[shown]))}")
print(f"  single digits        {' '.join(map(str, alone))}")
for sequence, probability in structures[shown]:
    print(f"  probability {probability:.3f}    {' '.join(map(str, sequence))}")

# %%
# The picture
# -----------
# At the top are the images as the models see them; hatched halves are hidden. Below is the marginal probability of each
# digit at each step; in an empty cell it is exactly zero. The lines are the selected sequences, as
# `ChainDisplay` draws them.

INK, WRONG = "#222222", "#c0392b"
marginals = chain.predict_marginals(X_test[[shown]])[0]

# Placed by hand (in inches), so that each image stands above its column, undistorted.
width, height, step_width = 8.2, 7.7, 0.9
figure = plt.figure(figsize=(width, height), facecolor="white")
left, across = 0.7 / width, N_STEPS * step_width / width
top = figure.add_axes((left, 5.8 / height, across, 1.7 * step_width / height))
below = figure.add_axes((left, 1.2 / height, across, 4.6 / height))

for step in range(N_STEPS):
    left, right = step - 0.42, step + 0.42
    pixels = X_test[shown][step].reshape(SIDE, SIDE)
    top.imshow(
        pixels, cmap="Greys", vmin=0, vmax=1, extent=(left, right, 0, 0.84), zorder=1
    )
    rows, columns = np.nonzero(masks_test[shown][step])
    if len(rows):
        cell = 0.84 / SIDE
        corner = left + columns.min() * cell, 0.84 - (rows.max() + 1) * cell
        size = (np.ptp(columns) + 1) * cell, (np.ptp(rows) + 1) * cell
        top.add_patch(
            Rectangle(
                corner,
                *size,
                facecolor="#eeeeee",
                edgecolor="#bbbbbb",
                hatch="////",
                lw=0,
                zorder=2,
            )
        )
    top.add_patch(
        Rectangle(
            (left, 0), 0.84, 0.84, fill=False, edgecolor="#888888", lw=0.8, zorder=3
        )
    )
    top.text(
        step,
        1.02,
        y_test[shown][step],
        ha="center",
        va="center",
        fontsize=12,
        color=INK,
    )
    is_wrong = alone[step] != y_test[shown][step]
    style = {"color": WRONG, "fontweight": "bold"} if is_wrong else {"color": INK}
    top.text(step, -0.2, alone[step], ha="center", va="center", fontsize=12, **style)
for y_text, text in ((1.02, "truth"), (-0.2, "read\nalone")):
    top.text(-0.52, y_text, text, ha="right", va="center", fontsize=10, color=INK)
top.set(xlim=(-0.5, N_STEPS - 0.5), ylim=(-0.5, 1.2), aspect="equal")
top.set_title("Half-hidden digits, read as a chain", fontsize=14, color=INK)
top.axis("off")

# The selected sequences, over the grid of steps and digits.
display = ChainDisplay(structures[shown], marginals=marginals, labels=range(10))
display.plot(ax=below)
below.set(ylabel="digit")
display.legend_.remove()
names = [
    f"{' '.join(map(str, sequence))}    {probability:.3f}"
    for sequence, probability in structures[shown]
]
figure.legend(
    display.paths_,
    names,
    loc="lower center",
    ncols=2,
    frameon=False,
    fontsize=11,
    title="the sequences selected by SparseMAP, and their probabilities",
)

picture = Path(sys.argv[0]).resolve().with_suffix(".png")
figure.savefig(picture, dpi=150)
print(f"\nThe picture is in {picture}")
if plt.get_backend().lower() != "agg":  # which matplotlib takes if there is no display
    plt.show()
