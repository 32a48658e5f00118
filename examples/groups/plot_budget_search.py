"""
Search for the budget
=====================

The number of groups is a parameter like any other: scikit-learn's `GridSearchCV` chooses it, in a pipeline, together
with the loss. The question of this example is which parts of an image are needed to read digits. The images are part
of scikit-learn.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_sparsemap import GroupLassoPerceptron

# %%
# Blocks of pixels are groups
# ---------------------------
# Each image has 4 x 4 blocks of 2 x 2 pixels. The features of a block are its pixels and their products, 14 in all.
# They come and go together.

N_BLOCKS, ROWS, COLUMNS = 16, *np.triu_indices(4)


def block_features(X):
    """Return the pixels of each block, and their products: shape (n, 16 * 14)."""
    blocks = (X / 16.0).reshape(-1, 4, 2, 4, 2).swapaxes(2, 3).reshape(-1, N_BLOCKS, 4)
    products = blocks[:, :, ROWS] * blocks[:, :, COLUMNS]
    return np.concatenate([blocks, products], axis=2).reshape(len(X), -1)


images, digits = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    images, digits, test_size=600, stratify=digits, random_state=0
)
block_of = np.repeat(np.arange(N_BLOCKS), 4 + len(ROWS))

# %%
# The search
# ----------

pipeline = make_pipeline(
    FunctionTransformer(block_features),
    GroupLassoPerceptron(groups=block_of, shrink_every=200, random_state=0),
)
budgets, losses = [2, 4, 6, 8, 10, 12, 16], ["perceptron", "crf"]
grid = {"grouplassoperceptron__budget": budgets, "grouplassoperceptron__loss": losses}
start = perf_counter()
search = GridSearchCV(pipeline, grid, cv=5).fit(X_train, y_train)
print(f"{len(budgets) * len(losses) * 5 + 1} fits in {perf_counter() - start:.1f} s.\n")

means = search.cv_results_["mean_test_score"].reshape(len(budgets), -1)
errors = search.cv_results_["std_test_score"].reshape(len(budgets), -1) / np.sqrt(5)
print(f"{'budget':>6}" + "".join(f"{loss:>20}" for loss in losses))
for budget, mean, error in zip(budgets, means, errors):
    print(f"{budget:6}" + "".join(f"{m:12.3f} +- {e:.3f}" for m, e in zip(mean, error)))

# %%
# The best, or a smaller one that is nearly as good
# -------------------------------------------------
# A customary rule takes the smallest budget whose score is within one standard error of the best.

at = np.unravel_index(means.argmax(), means.shape)
enough = int(np.argmax(means[:, at[1]] >= means[at] - errors[at]))
chosen = {"best": at[0], "within one standard error": enough}
print()
for name, place in chosen.items():
    names = dict(zip(grid, (budgets[place], losses[at[1]])))
    model = pipeline.set_params(**names).fit(X_train, y_train)
    n_weights = model[-1].n_nonzero_coefs_
    print(
        f"{name}: {budgets[place]} blocks, {losses[at[1]]}, {n_weights:,} weights, "
        "test accuracy "
        f"{model.score(X_test, y_test):.3f}"
    )

# %%
# The picture
# -----------
# On the right, the blocks that each budget selects from all training data, on the mean image. The corners are needed
# last.

figure = plt.figure(figsize=(10, 4), layout="constrained", facecolor="white")
left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1))
ax = left.subplots()
for place, (loss, color, style) in enumerate(
    zip(losses, ("#d55e00", "#00594c"), ("-", "--"))
):
    ax.errorbar(
        budgets,
        means[:, place],
        errors[:, place],
        color=color,
        linestyle=style,
        marker="o",
        ms=4,
        label=loss,
    )
rule = {"color": "#8c8c8c", "lw": 1, "linestyle": (0, (4, 3))}
ax.axvline(budgets[enough], **rule, label="smallest within one standard error")
ax.set(xlabel="budget: number of blocks", ylabel="accuracy, 5 folds", xticks=budgets)
ax.set_title("Five folds of the training data", fontsize=11)
ax.grid(color="#dddddd", lw=0.8)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, loc="lower right")

mean_image = X_train.mean(axis=0).reshape(8, 8)
right.suptitle("Selected blocks (green frames), by budget", fontsize=11)
for ax, budget in zip(right.subplots(2, 3).flat, budgets):
    model = pipeline.set_params(grouplassoperceptron__budget=budget).fit(
        X_train, y_train
    )[-1]
    ax.imshow(mean_image, cmap="Greys", vmax=24)
    for block in range(N_BLOCKS):
        row, column = divmod(block, 4)
        if block in model.selected_groups_:
            style = {"facecolor": "none", "edgecolor": "#00594c", "lw": 2.0}
        else:
            style = {"facecolor": "white", "alpha": 0.85, "edgecolor": "none"}
        ax.add_patch(
            Rectangle((2 * column - 0.44, 2 * row - 0.44), 1.88, 1.88, **style)
        )
    ax.set_title(f"budget {budget}", fontsize=10)
    ax.set(xticks=[], yticks=[], xlim=(-0.7, 7.7), ylim=(7.7, -0.7))
    ax.spines[:].set_color("#bbbbbb")

plt.show()
