"""
Predict, then optimise: what goes into the knapsack
===================================================

The values of things are predicted from features, such that the decisions by them are good. Later samples have larger
weights, and training stops when the decisions on validation samples no longer improve.
"""

import numpy as np

from sklearn_sparsemap import DecisionFocusedRegressor
from sklearn_sparsemap.structures import LinearProgram

rng = np.random.default_rng(0)
sizes = rng.integers(2, 7, size=12)
knapsack = LinearProgram([sizes], [sizes.sum() // 2])
X = rng.normal(size=(120, 12, 4))
values = np.exp(X @ [1.0, -0.5, 0.5, 0.0] + 0.3 * rng.normal(size=(120, 12)))
model = DecisionFocusedRegressor(knapsack)
model.fit(X[:60], values[:60], np.linspace(0.5, 1.5, 60), X_val=X[60:80], y_val=values[60:80])
print("taken:", model.predict(X[80:])[0])
print(f"share of the best value that is lost: {-model.score(X[80:], values[80:]):.1%}")
