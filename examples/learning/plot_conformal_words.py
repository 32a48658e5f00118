"""
Conformal sets of readings
==========================

House numbers are read digit by digit from noisy images. Instead of one reading, `ConformalStructures` returns a set
of readings that contains the correct one in nine of ten cases. This works for any model, because some of the images are
used only to measure how far correct readings are from the best ones. Easy numbers have sets of one reading.

The images are part of scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.plotting import ConformalCoverageDisplay

# %%
# Numbers of three digits
# -----------------------
# Numbers along a street: a digit is often followed by itself, or by the next one. The noise differs from number to
# number.

images, labels = load_digits(return_X_y=True)
rng = np.random.default_rng(0)


def draw_numbers(n, chosen):
    """Return images of numbers, and their digits."""
    X, y = [], []
    for _ in range(n):
        digits = (rng.integers(10) + np.cumsum(rng.integers(0, 2, size=3))) % 10
        rows = [rng.choice(chosen[labels[chosen] == digit]) for digit in digits]
        noise = rng.uniform(0.0, 0.8) * rng.normal(size=(3, images.shape[1]))
        X.append(images[rows] / 16.0 + noise)
        y.append(digits)
    return X, y


order = rng.permutation(len(labels))
X_train, y_train = draw_numbers(300, order[:600])
X_new, y_new = draw_numbers(1500, order[600:])
X_cal, y_cal, X_test, y_test = X_new[:700], y_new[:700], X_new[700:], y_new[700:]

# %%
# Train, calibrate, predict sets
# ------------------------------
# ``covers`` says whether a structure is in the set of its sample.

model = StructuredSparseMAPClassifier("chain", alpha=1e-2).fit(X_train, y_train)
right = [np.array_equal(p, t) for p, t in zip(model.predict(X_test), y_test)]
conformal = ConformalStructures(model, confidence_level=0.9).conformalize(X_cal, y_cal)
covered = conformal.covers(X_test, y_test)
print(f"read correctly:              {np.mean(right):.0%}")
print(f"correct reading in the set:  {covered.mean():.0%}")

# %%
# An easy and a difficult number, with the first readings of their sets.

sets = conformal.predict_set(X_test)
sizes = np.array([len(own) for own in sets])
distances = np.where(covered, np.abs(sizes - 6), np.inf)
easy, difficult = int(np.argmin(sizes)), int(np.argmin(distances))
figure, axes = plt.subplots(1, 2, figsize=(6.5, 2.2), layout="constrained")
for ax, i in zip(axes, (easy, difficult)):
    readings = ["".join(map(str, digits)) for digits, _ in sets[i]]
    print("".join(map(str, y_test[i])), "is read as", " ".join(readings))
    ax.imshow(np.hstack(X_test[i].reshape(3, 8, 8)), cmap="gray_r")
    ax.set_title("set: " + ", ".join(readings[:3]) + (", ..." if sizes[i] > 3 else ""))
    ax.axis("off")

# %%
# At every level
# --------------
# The coverage is close to the level, except that it is never below the fraction of numbers that are correct at once.

ConformalCoverageDisplay.from_estimator(conformal, X_test, y_test)
plt.show()
