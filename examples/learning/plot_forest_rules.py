"""
A forest under rules
====================

The pump of a greenhouse runs in exactly four of twelve hours of a day, and never in three hours in a row. Whether an
hour suits depends on interactions: power should be cheap if the soil is dry, and the sun should shine if there is no
wind. A forest of trees learns such interactions, but it decides each hour by itself, and breaks the rules. Linear
scores under the rules know no interactions. `StructuredSparseMAPClassifier` takes any classifier of scikit-learn as
`score_model`: the forest scores each hour, and the factor graph decides.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.factors import AtMost, Exactly, FactorGraph

# %%
# Hours of a day, and the rules
# -----------------------------
# One variable for each hour, and a rule for each three hours in a row.

N_HOURS, N_ON = 12, 4
graph = FactorGraph()
on = graph.variables(N_HOURS, name="on")
graph.add(Exactly(on, N_ON))
for first in range(N_HOURS - 2):
    graph.add(AtMost(on[first : first + 3], 2))

# %%
# The gardener's choice is the best one under scores that are unknown to the models.

NAMES = ["price", "dryness", "sun", "wind"]
rng = np.random.default_rng(0)


def simulate(n_days):
    """Return the measurements of some days, and the hours in which the pump runs."""
    X = rng.uniform(-1.0, 1.0, size=(n_days, N_HOURS, len(NAMES)))
    price, dryness, sun, wind = np.moveaxis(X, -1, 0)
    scores = -price * dryness - sun * wind + 0.05 * rng.normal(size=price.shape)
    days = [map_inference(graph, own) for own in scores]
    return list(X), [day.structure for day in days]


X, y = simulate(400)
X_test, y_test = simulate(500)
gold = np.array(y_test, bool)

# %%
# Scores, with and without rules
# ------------------------------

forest = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)
alone = forest.fit(np.vstack(X), np.concatenate(y))
linear = StructuredSparseMAPClassifier(graph).fit(X, y)
ruled = StructuredSparseMAPClassifier(graph, score_model=forest, random_state=0)
ruled.fit(X, y)

predicted = {
    "forest alone": alone.predict(np.vstack(X_test)).reshape(gold.shape).astype(bool),
    "linear scores under rules": np.array(list(linear.predict(X_test)), bool),
    "forest under rules": np.array(list(ruled.predict(X_test)), bool),
}
print(f"{'':28}{'hours right':>12}{'days right':>12}{'rules kept':>12}")
for name, hours in predicted.items():
    right, whole = (hours == gold).mean(), (hours == gold).all(axis=1).mean()
    kept = np.mean([not graph.violations(day) for day in hours])
    print(f"{name:28}{right:12.1%}{whole:12.1%}{kept:12.1%}")

# %%
# The forest is fitted to parts of the days first, and scores the others. On these scores
# a scale and a bias are learned, with the loss of whole days. The forest that is kept
# learns from all days.

scores = ruled.decision_function(X_test[:1])[0]
print("scores of the first day:", np.round(scores.ravel(), 1).tolist())
print("score model:", ruled.score_model_)

# %%
# Two weeks: hours in which the pump runs, and those that a model gets wrong.

figure, axes = plt.subplots(1, 4, figsize=(11, 4.2), sharey=True, layout="constrained")
for ax, (name, hours) in zip(axes, {"gardener": gold, **predicted}.items()):
    ax.imshow(hours[:14], cmap="Blues", vmin=0.0, vmax=1.4, aspect="auto")
    days, wrong = np.nonzero(hours[:14] != gold[:14])
    ax.plot(wrong, days, "x", color="tab:red")
    ax.set(title=name, xlabel="hour")
axes[0].set(ylabel="day")
plt.show()
