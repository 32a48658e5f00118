"""
A forest under rules
====================

The pump of a greenhouse runs in exactly four of twelve hours of a day, if possible without breaks. Whether an hour
suits depends on interactions: cheap power matters if the soil is dry, and sun if there is no wind. A forest of trees
learns such interactions, but it decides each hour by itself, and keeps no rule. Linear scores under the rule
keep it, but know no interactions. `StructuredSparseMAPClassifier` takes any classifier of scikit-learn as
`score_model`: the forest scores each hour, and the factor graph decides.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from sklearn_sparsemap import StructuredSparseMAPClassifier, map_inference
from sklearn_sparsemap.factors import Exactly, FactorGraph, Pair

# %%
# Hours of a day, and the rule
# ----------------------------
# One variable for each hour, and one learned score for any two adjacent hours that are both on.

N_HOURS, N_ON = 12, 4
graph = FactorGraph()
on = graph.variables(N_HOURS, name="on")
graph.add(Exactly(on, N_ON), Pair(on[:-1], on[1:], name="adjacent", tied=True))

# %%
# Three years of days. The gardener's choice is the best one under scores that are unknown to the models.

NAMES = ["price", "dryness", "sun", "wind"]
rng = np.random.default_rng(0)


def simulate(n_days):
    """Return what is measured in each hour of some days, and the hours in which the pump runs."""
    X = rng.uniform(-1.0, 1.0, size=(n_days, N_HOURS, len(NAMES)))
    price, dryness, sun, wind = np.moveaxis(X, -1, 0)
    suits = 2.0 * ((price < 0.0) == (dryness > 0.0)) + 2.0 * ((sun > 0.0) == (wind < 0.0))
    scores = suits + 0.5 * rng.normal(size=suits.shape)
    days = [map_inference(graph, own, additional={"adjacent": 1.0}) for own in scores]
    return list(X), [day.structure for day in days]


X, y = simulate(300)
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
print(f"{'':28}{'hours right':>12}{'days right':>12}{'rule kept':>12}")
for name, hours in predicted.items():
    right, whole = (hours == gold).mean(), (hours == gold).all(axis=1).mean()
    kept = (hours.sum(axis=1) == N_ON).mean()
    print(f"{name:28}{right:12.1%}{whole:12.1%}{kept:12.1%}")

# %%
# The forest is fitted to parts of the days first, and scores the others. On these scores
# a scale, a bias and the score of adjacent hours are learned, with the loss of whole
# days. The forest that is kept learns from all days.

print(f"score of adjacent hours: {np.sum(ruled.additional_scores_['adjacent']):.2f}")
print(f"score model: {ruled.score_model_}")

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
