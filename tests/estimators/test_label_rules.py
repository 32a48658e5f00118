"""The choice of ``decision="auto"`` of label sets: F1, without many whole sets lost."""

import numpy as np
import pytest
from internals import GRID, Tuning
from sklearn.datasets import make_multilabel_classification

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.metrics import example_f1_score

RULES = "observed_sets", "expected_f1", "threshold"


def simple_choice(totals, at_half, weight):
    """Return the rule, by the words of the documentation; each rule has one threshold."""
    f1_at_half, whole_at_half = at_half[0] / weight, at_half[1] / weight
    allowed = []
    for rule in RULES:
        f1, whole, hits, n_labels = totals[rule][:, 0] / weight
        loss = whole_at_half - whole
        if loss <= 0.02 or f1 - f1_at_half > loss:
            allowed.append((rule, 0.5 * (f1 + 2.0 * hits / n_labels), whole))
    highest = max(f1 for _, f1, _ in allowed)
    near = [each for each in allowed if each[1] >= highest - 0.01]
    return max(near, key=lambda each: each[2] + 1e-6 * each[1])[0]


def test_the_rule_is_that_of_the_documentation():
    rng, chosen = np.random.default_rng(0), []
    for _ in range(300):
        tuning = Tuning(RULES, 0.5)
        tuning.weight = 100.0
        for rule in RULES:
            n_labels = rng.integers(100, 400)
            tuning.totals[rule] = np.array(
                [[rng.uniform(50, 65)], [rng.uniform(10, 30)], [n_labels * rng.uniform(0.25, 0.33)], [n_labels]]
            )
        tuning.at_half = tuning.totals["threshold"][:, 0]
        threshold, rule, f1 = tuning.best()
        assert rule == simple_choice(tuning.totals, tuning.at_half, 100.0)
        assert threshold == 0.5 and f1 == pytest.approx(tuning.totals[rule][0, 0] / 100.0)
        chosen.append(rule)
    assert all(chosen.count(rule) > 30 for rule in RULES)


def test_with_thresholds_of_their_own_a_threshold_of_one_half_remains():
    """All thresholds of other rules lose whole sets, and the best F1 of the labels above a threshold does, too."""
    tuning = Tuning(RULES)
    tuning.weight, tuning.at_half = 1.0, np.array([0.6, 0.3, 0.3, 1.0])
    for rule in RULES:
        n = len(tuning.thresholds[rule])
        tuning.totals[rule] = np.repeat([[0.65], [0.2], [0.3], [1.0]], n, axis=1)
    half = int(np.argmin(np.abs(GRID - 0.5)))
    tuning.totals["threshold"][:, half] = tuning.at_half
    assert tuning.best()[:2] == (GRID[half], "threshold")


@pytest.mark.parametrize(("n_classes", "seed"), [(10, 0), (10, 1), (8, 2), (12, 3)])
@pytest.mark.parametrize("threshold", [0.5, "auto"])
def test_whole_sets_are_not_lost_for_less_f1(n_classes, seed, threshold):
    X, Y = make_multilabel_classification(1500, 30, n_classes=n_classes, random_state=seed)
    model = MultilabelLPSparseMAP(score_model="linear", threshold=threshold, random_state=0).fit(X[:750], Y[:750])
    predicted, at_half = model.predict(X[750:]), model.predict_proba(X[750:]) > 0.5
    loss = (at_half == Y[750:]).all(axis=1).mean() - model.score(X[750:], Y[750:])
    gain = example_f1_score(Y[750:], predicted) - example_f1_score(Y[750:], at_half)
    # The test part is noisy: 750 samples.
    assert loss <= max(0.02, gain) + 0.02
