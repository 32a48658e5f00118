"""
Sensors with trees under a chain
================================

A machine tool is idle, warms up, cuts or is cleaned. Its sensors measure a temperature, a current, a vibration and a
pressure, each minute, in their own units. No single sensor tells the state: an idle machine that charges its battery
takes more current than one that cuts, and vibrates as much. Trees learn such bands and interactions, and need no
scaling, but a forest decides each minute by itself. Linear scores under a chain know that states last.
``score_model="trees"`` has both: trees and transitions are learned together, with the loss of the chain.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.metrics import flat_accuracy_score

# %%
# Measurements
# ------------
# A state lasts some minutes, and is followed by one of those that are possible after it. All measurements are noisy.

NEXT = {
    "idle": ["warm-up", "cleaning"],
    "warm-up": ["cutting"],
    "cutting": ["cleaning", "idle"],
    "cleaning": ["idle"],
}
LENGTHS = {"idle": (4, 20), "warm-up": (3, 8), "cutting": (5, 25), "cleaning": (3, 10)}
NAMES = ["temperature (mK)", "current (A)", "vibration (um)", "pressure (Pa)"]
rng = np.random.default_rng(0)


def shift(n_minutes=120):
    """Return the measurements of a shift, and the state in each minute."""
    states = []
    state = "idle"
    while len(states) < n_minutes:
        states += [state] * int(rng.integers(*LENGTHS[state]))
        state = str(rng.choice(NEXT[state]))
    states = np.array(states[:n_minutes])
    is_busy = np.isin(states, ["cutting", "cleaning"])
    # Idle machines take hardly any current, or much while their battery is charged.
    charges = (states == "idle") & (rng.random(n_minutes) < 0.5)
    current = np.where(is_busy, 12.0, np.where(charges, 20.0, 4.0))
    current += rng.normal(0.0, 3.0, n_minutes)
    shakes = (states == "cutting") ^ charges
    vibration = 30.0 * rng.lognormal(0.0, 0.5, n_minutes) * np.where(shakes, 3.0, 1.0)
    is_warm = np.isin(states, ["cutting", "idle"])
    temperature = np.where(is_warm, 330e3, 300e3) + rng.normal(0.0, 25e3, n_minutes)
    wet = (states == "cleaning") | ((states == "warm-up") & (temperature < 300e3))
    pressure = np.where(wet, 2.2e5, 1.2e5) + rng.normal(0.0, 6e4, n_minutes)
    return np.column_stack([temperature, current, vibration, pressure]), states


X, y = map(list, zip(*[shift() for _ in range(30)]))
X_test, y_test = map(list, zip(*[shift() for _ in range(30)]))

# %%
# Models
# ------
# Linear scores need columns of similar scales. Trees take the sensors as they are.

scaler = StandardScaler().fit(np.vstack(X))
scaled = [scaler.transform(x) for x in X]
scaled_test = [scaler.transform(x) for x in X_test]

alone = ExtraTreesClassifier(200, min_samples_leaf=3, random_state=0)
alone.fit(np.vstack(X), np.concatenate(y))
linear = StructuredSparseMAPClassifier("chain", "crf").fit(scaled, y)
trees = StructuredSparseMAPClassifier(
    "chain", "crf", score_model="trees", random_state=0
)
trees.fit(X, y)

predicted = {
    "a forest, each minute by itself": [alone.predict(x) for x in X_test],
    "linear scores under a chain": linear.predict(scaled_test),
    "trees under a chain": trees.predict(X_test),
}

# %%
# Minutes with the right state, and the number of changes of the state.


def n_changes(states):
    return sum(int((own[1:] != own[:-1]).sum()) for own in states)


print(f"{'':33}{'minutes right':>14}{'changes':>9}")
for name, found in predicted.items():
    print(f"{name:33}{flat_accuracy_score(y_test, found):14.3f}{n_changes(found):9}")
print(f"{'true':33}{'':14}{n_changes(y_test):9}")

# %%
# Training
# --------
# The number of rounds was chosen on held-out shifts. The transitions were learned along with the trees: from the state
# of a row to that of a column.

print(f"rounds: {trees.n_iter_}")
print(" " * 9 + "".join(f"{name:>10}" for name in trees.classes_))
for name, scores in zip(trees.classes_, trees.transitions_):
    print(f"{name:>9}" + "".join(f"{score:10.1f}" for score in scores))

# %%
# The picture
# -----------
# The sensors of the shift in which linear scores err most, and the states that are found.

found = predicted["linear scores under a chain"]
i = int(np.argmax([np.sum(own != other) for own, other in zip(y_test, found)]))

colors = dict(zip(NEXT, ["0.85", "tab:orange", "tab:red", "tab:blue"]))
figure, axes = plt.subplots(
    5,
    1,
    figsize=(9, 6),
    sharex=True,
    layout="constrained",
    height_ratios=[1, 1, 1, 1, 2],
)
for axis, name, values in zip(axes, NAMES, X_test[i].T):
    axis.plot(np.arange(len(values)) + 0.5, values, linewidth=0.8, color="0.3")
    axis.set_ylabel(name.split()[0], fontsize="small")
rows = {"true": y_test[i], **{name: found[i] for name, found in predicted.items()}}
for place, states in enumerate(rows.values()):
    for minute, state in enumerate(states):
        axes[-1].barh(place, 1, left=minute, align="center", color=colors[state])
axes[-1].set_yticks(range(len(rows)), rows)
axes[-1].invert_yaxis()
axes[-1].set_xlabel("minutes")
axes[-1].set_xlim(0, len(y_test[i]))
handles = [plt.Rectangle((0, 0), 1, 1, color=color) for color in colors.values()]
figure.legend(handles, colors, loc="outside upper right", ncols=len(colors))

plt.show()
