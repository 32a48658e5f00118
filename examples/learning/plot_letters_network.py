"""
Letters with a network
======================

Strips of handwritten characters are read character by character. Some strips are negatives: light ink on dark paper.
Whether a pixel speaks for a character then depends on the other pixels, which linear scores cannot express. A hidden
layer can. With ``score_model="network"`` a network computes the scores, and is trained together with the transitions of
the chain: which characters follow one another.

The images are the digits of scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.score_models import Network

# %%
# Strips of six characters
# ------------------------
# A character is often followed by itself, or by the next one.

images, labels = load_digits(return_X_y=True)
rng = np.random.default_rng(0)


def draw_strips(n, chosen):
    """Return images of strips, and their characters."""
    X, y = [], []
    for _ in range(n):
        characters = (rng.integers(10) + np.cumsum(rng.integers(0, 2, size=6))) % 10
        rows = [rng.choice(chosen[labels[chosen] == own]) for own in characters]
        strip = images[rows] / 16.0
        strip = 1.0 - strip if rng.random() < 0.5 else strip
        X.append(strip + 0.3 * rng.normal(size=strip.shape))
        y.append(characters)
    return X, y


order = rng.permutation(len(labels))
X, y = draw_strips(400, order[:900])
X_test, y_test = draw_strips(300, order[900:])

# %%
# Scores and structure
# --------------------
# Both help, and each helps the other.

network = Network(hidden_layer_sizes=(128,))
options = {"score_model": network, "random_state": 0}
models = {
    "linear, characters alone": StructuredSparseMAPClassifier("auto"),
    "linear, chain": StructuredSparseMAPClassifier("chain"),
    "network, characters alone": StructuredSparseMAPClassifier("auto", **options),
    "network, chain": StructuredSparseMAPClassifier("chain", **options),
}
for name, model in models.items():
    if model.structure == "chain":
        accuracy = model.fit(X, y).score(X_test, y_test)
    else:
        model.fit(np.vstack(X), np.concatenate(y))
        accuracy = model.score(np.vstack(X_test), np.concatenate(y_test))
    print(f"{name:26}{accuracy:.1%}")

# %%
# The network stops when its loss hardly falls. Everything else works as with linear scores: probabilities, known
# characters, transitions that can be read and assigned.

best = models["network, chain"]
print("epochs:", best.n_iter_, "  scores of", best.score_model_)
marginals = best.predict_marginals(X_test[:1])[0]
print("probabilities of the first character:", np.round(marginals[0], 2).tolist())
known = [[None, None, y_test[0][2], None, None, None]]
(completed,) = best.predict(X_test[:1], known=known)
print("with its third character known:", completed.tolist())

# %%
# Some strips with their readings, and the learned transitions.

figure = plt.figure(figsize=(10, 4.2), layout="constrained")
strips, table = figure.subfigures(1, 2, width_ratios=[1.6, 1])
axes = strips.subplots(4, 6)
read = best.predict(X_test[:4])
for row, strip, own, gold in zip(axes, X_test, read, y_test):
    for ax, image, character, true in zip(row, strip, own, gold):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=1.0)
        color = "black" if character == true else "tab:red"
        ax.set_title(str(character), color=color, fontsize=9, pad=2)
        ax.axis("off")
ax = table.subplots()
ax.imshow(best.transitions_, cmap="RdBu_r", vmin=-3.0, vmax=3.0)
ax.set(title="transitions", xlabel="next character", ylabel="character")
ax.set(xticks=range(10), yticks=range(10))
plt.show()
