"""MultilabelLPSparseMAP without hidden layers: the exact minimum, thresholds by cross-validation, seen sets."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from internals import (
    GRID,
    SET_GRID,
    BatchObjective,
    Calibration,
    LabelTask,
    LinearModel,
    ObservedLabelSets,
    Tuning,
    expected_cuts,
    folds_of,
    minimize_lbfgs,
    replace,
    row_words,
    total_variance,
)
from naive_multilabel import naive_curves, naive_expected, naive_lift, naive_linear, naive_seen, naive_shares
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.factors import AtMost, Implies
from sklearn_sparsemap.metrics import example_f1_score
from sklearn_sparsemap.plotting import LabelCalibrationDisplay
from sklearn_sparsemap.score_models import Network


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(120, 8, n_classes=5, n_labels=2, random_state=0)
    return X / 10.0, Y


@pytest.mark.parametrize("loss, constraints", [("sparsemap", None), ("logistic", None), ("sparsemap", [Implies(0, 1)])])
def test_the_minimum_is_that_of_a_slow_twin(loss, constraints):
    rng = np.random.default_rng(1)
    n, m = 30, 3
    X, weights = rng.normal(size=(n, 4)), rng.uniform(0.5, 2.0, n)
    Y = (X[:, :m] + 0.7 * rng.normal(size=(n, m)) > 0.2).astype(int)
    if constraints:
        Y[:, 1] |= Y[:, 0]
    model = MultilabelLPSparseMAP(constraints=constraints, loss=loss, alpha=0.05, tol=1e-7)
    model.fit(X, Y, sample_weight=weights)
    coef, intercept = naive_linear(X, Y, weights, 0.05, loss, 1.0, implies=bool(constraints))
    assert_allclose(model.coefs_[0], coef, atol=2e-6)
    assert_allclose(model.intercepts_[0], intercept, atol=2e-6)


@pytest.mark.parametrize("loss", ["sparsemap", "logistic"])
def test_a_temperature_is_a_scale_of_the_penalty(data, loss):
    X, Y = data
    coef, intercept = naive_linear(X[:40], Y[:40], np.ones(40), 0.05, loss, 0.5)
    model = MultilabelLPSparseMAP(score_model="linear", loss=loss, alpha=0.05 * 0.5, tol=1e-7).fit(X[:40], Y[:40])
    assert_allclose(0.5 * model.coefs_[0], coef, atol=5e-6)
    assert_allclose(0.5 * model.intercepts_[0], intercept, atol=5e-6)


def test_the_minimum_does_not_depend_on_the_start(data):
    X, Y = StandardScaler().fit_transform(data[0]), data[1]
    model = MultilabelLPSparseMAP(alpha=0.1, tol=1e-7).fit(X, Y)
    assert model.n_iter_ == len(model.loss_curve_) > 5 and (np.diff(model.loss_curve_) <= 1e-12).all()
    task = LabelTask(model._graph, model._loss, gold=Y.astype(float), weights=np.ones(len(Y)))
    rng = np.random.default_rng(0)
    for _ in range(3):
        start = LinearModel(rng.normal(size=(8, 5)), rng.normal(size=5), np.zeros(0))
        objective = BatchObjective(task, X, start, alpha=0.1, fit_intercept=True, n_jobs=None)
        found, *_ = minimize_lbfgs(objective, start, max_iter=2000, tol=1e-7, after_iteration=lambda *_: False)
        assert_allclose(found.coef, model.coefs_[0], atol=1e-6)
        assert_allclose(found.intercept, model.intercepts_[0], atol=1e-6)


@pytest.mark.parametrize("threshold", [0.5, "auto"])
def test_the_order_does_not_matter(data, threshold):
    X, Y = data
    rows = np.random.default_rng(0).permutation(len(Y))
    model = MultilabelLPSparseMAP(threshold=threshold, tol=1e-6)
    first = clone(model).fit(X, Y)
    second = clone(model).set_params(n_jobs=2, random_state=3).fit(sparse.csr_array(X[rows]), Y[rows])
    assert_allclose(first.coefs_[0], second.coefs_[0], atol=1e-6)
    assert first.threshold_ == second.threshold_
    assert_array_equal(first.predict(X), second.predict(X))


def test_weights_are_repetitions_if_the_strength_is_given(data):
    # Held-out parts differ, so calibration does, too.
    X, Y = data
    counts = np.random.default_rng(0).integers(0, 4, len(Y))
    rows = np.repeat(np.arange(len(Y)), counts)
    model = MultilabelLPSparseMAP(score_model="linear", alpha=0.1, tol=1e-7)
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    assert_allclose(weighted.coefs_[0], clone(model).fit(X[rows], Y[rows]).coefs_[0], atol=1e-6)
    without = clone(model).fit(X[counts > 0], Y[counts > 0], sample_weight=counts[counts > 0])
    assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))


def test_the_penalty_suits_features_at_any_scale(data):
    X, Y = data
    model = MultilabelLPSparseMAP(tol=1e-6).fit(X, Y)
    other = MultilabelLPSparseMAP(tol=1e-6).fit(10.0 * X + 3.0, Y)
    # Cross-validation ends early, so it depends on the scale a little.
    assert abs(np.log10(other.alpha_ / model.alpha_) - 2.0) < 0.5
    other.set_params(alpha=100.0 * model.alpha_).fit(10.0 * X + 3.0, Y)
    assert_allclose(other.predict_marginals(10.0 * X + 3.0), model.predict_marginals(X), atol=1e-4)


@pytest.mark.parametrize(
    "losses, chosen",
    [
        ([10.0, 9.0, 8.0, 8.1], 2),
        # Hardly any progress.
        ([10.0, 9.0, 8.995], 1),
        # While there are hardly any weights, the loss can rise at first, but not twice.
        ([10.0, 10.3, 8.0, 7.0, 7.1], 3),
        ([10.0, 9.95, 10.0, 9.96], 1),
        (np.arange(10.0, 1.0, -1.0), 8),
    ],
)
def test_strengths_are_tried_until_the_loss_no_longer_falls(data, losses, chosen, monkeypatch):
    left = iter([*losses, 0.0])
    monkeypatch.setattr(Calibration, "losses", lambda *_: np.array([next(left)]))
    X, Y = data
    model = MultilabelLPSparseMAP(score_model="linear", max_iter=2, threshold=0.4, decision="threshold")
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, Y)
    # A weaker strength has to lower the loss by a thousandth. The choice is the vertex of a parabola.
    raised = losses * 1.001 ** np.arange(len(losses))
    middle = min(chosen, len(losses) - 2)
    places = np.arange(middle - 1, middle + 2)
    curvature, slope, _ = np.polyfit(places, raised[places], 2)
    place = min(-0.5 * slope / curvature, len(losses) - 1.0) if curvature > 1e-9 else chosen
    usual = 0.02 * total_variance(X, np.ones(len(X))) / np.sqrt(len(X))
    assert abs(place - chosen) <= 0.5
    assert model.alpha_ == pytest.approx(usual * 10.0 ** (2.0 - 0.5 * place), rel=1e-6)
    assert list(left) == []


def test_words_tell_rows_apart():
    X = sparse.random_array((500, 30), density=0.1, random_state=0, format="csr").tocsr()
    X.data[:] = 1.0
    dense = X.toarray()
    words = row_words(X)
    assert_array_equal(words, row_words(dense))
    order = np.random.default_rng(0).permutation(500)
    assert_array_equal(words[order], row_words(X[order]))
    assert len(np.unique(words)) == len(np.unique(dense, axis=0))


def test_folds_are_few_and_even():
    assert folds_of(np.arange(5)) == []
    assert [len(folds_of(np.arange(n))) for n in (6, 8, 500, 600, 626)] == [3, 4, 5, 4, 3]
    assert min(len(held) for _, held in folds_of(np.arange(7))) == 2
    folds = folds_of(np.random.default_rng(0).permutation(500), 3)
    assert sorted(np.concatenate([held for _, held in folds])) == list(range(500))
    assert all(len(held) > 120 and not set(train) & set(held) for train, held in folds)


@pytest.mark.parametrize("n_likely", [4, 32])
def test_the_seen_set_is_the_one_to_expect_most_from(n_likely, monkeypatch):
    rng = np.random.default_rng(0)
    gold, weights = (rng.random((14, 5)) < 0.4).astype(float), rng.integers(1, 5, 14).astype(float)
    probabilities = np.clip(rng.normal(0.4, 0.3, (60, 5)), 0.01, 0.99)
    replace(monkeypatch, "estimators", "N_LIKELY", n_likely)
    replace(monkeypatch, "estimators", "_MAX_COMPARED", 2 * n_likely)
    sets = ObservedLabelSets.of_samples(sparse.csr_array(gold), weights)
    assert_allclose(sets.lifts, [naive_lift(y, gold, weights) for y in sets.sets.toarray()])
    seen = {tuple(row) for row in gold.astype(int).tolist()}
    assert n_likely > len(seen) or n_likely < len(seen) - 3
    found = sets.choose(probabilities, 0.37)
    assert_array_equal(found, naive_seen(probabilities, 0.37, gold, weights, n_likely))
    assert (found != (probabilities > 0.37)).any(axis=1).sum() > 5
    for p, own in zip(probabilities[:5], sets.likeliest(probabilities[:5], 0.37, 4), strict=True):
        shares = naive_shares(p, 0.37, gold, weights)
        assert_allclose([share for _, share in own], sorted(shares.values())[:-5:-1])
        assert_allclose([shares[tuple(y)] for y, _ in own], [share for _, share in own])


@pytest.mark.parametrize("n_samples", [100, 400])
def test_curves_are_those_of_a_slow_twin(n_samples):
    rng = np.random.default_rng(0)
    scores = rng.normal(0.3, 0.4, (n_samples, 4))
    gold = (rng.random((n_samples, 4)) < 1.0 / (1.0 + np.exp(2.0 - [5.0, 3.0, 8.0, 1.0] * scores))).astype(float)
    gold[:, 3] = 0.0
    weights = rng.uniform(0.5, 2.0, (n_samples, 1)) * (rng.random(gold.shape) < 0.9)
    found = Calibration.unfitted("sparsemap", 4, False).fit(scores, gold, weights)
    wanted = naive_curves(scores, gold, weights)
    # If there are more samples than bins, those with nearly equal scores are summed up.
    tolerance = 1e-5 if n_samples == 100 else 2e-2
    assert_allclose(np.log(found.slopes), wanted[:, 0], atol=tolerance)
    assert_allclose(found.offsets, wanted[:, 1], atol=tolerance)
    loss = -np.log(np.where(gold > 0.0, found.probabilities(scores), 1.0 - found.probabilities(scores)))
    assert found.losses(scores, gold, weights).sum() == pytest.approx((weights * loss).sum())


def test_a_single_label_has_a_temperature():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 4))
    gold = np.eye(4)[[rng.choice(4, p=softmax(3.0 * row)) for row in scores]]
    unfitted = Calibration.unfitted("logistic", 4, True)
    found = unfitted.fit(scores, gold, np.ones((300, 1)))

    def objective(t):
        return 0.5 * t**2 - np.log(softmax(np.exp(t) * scores, axis=1)[gold > 0.0]).sum()

    wanted = np.exp(minimize_scalar(objective, (0.0, 1.0)).x)
    assert_allclose(found.slopes, wanted, rtol=1e-5)
    assert_allclose(found.probabilities(scores), softmax(wanted * scores, axis=1), rtol=1e-4)
    ones = np.ones((300, 1))
    assert found.losses(scores, gold, ones).sum() < unfitted.losses(scores, gold, ones).sum()


@pytest.mark.parametrize("single", [False, True])
def test_calibrations_in_early_pickles_are_those_of_one_label_or_of_sets(single):
    scores = np.random.default_rng(0).normal(size=(5, 3))
    wanted = Calibration.unfitted("logistic", 3, single)
    early = Calibration(wanted.slopes, wanted.offsets)
    vars(early)["single"] = single
    found = pickle.loads(pickle.dumps(early))
    assert type(found) is type(wanted) and found.single is single
    assert np.allclose(found.probabilities(scores).sum(axis=1), 1.0) is single
    assert found.probabilities(scores).tolist() == wanted.probabilities(scores).tolist()
    assert type(copy.copy(found)) is type(wanted)


@pytest.mark.parametrize(
    "params", [{}, {"loss": "logistic"}, {"score_model": Network((20,), dropout=0.0), "max_iter": 60}]
)
def test_probabilities_are_monotone_without_ties_and_calibrated(params):
    X, Y = make_multilabel_classification(900, 20, n_classes=6, n_labels=2, random_state=3)
    X = StandardScaler().fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MultilabelLPSparseMAP(random_state=0, **params).fit(X[:300], Y[:300])
    far = np.concatenate([X[300:], 100.0 * X[300:310]])
    scores, found = model.decision_function(far), model.predict_proba(far)
    assert (found > 0.0).all() and (found < 1.0).all()
    for j in range(6):
        order = np.argsort(scores[:, j])
        assert (np.diff(found[order, j])[np.diff(scores[order, j]) > 1e-9] > 0.0).all()
    display = LabelCalibrationDisplay.from_predictions(Y[300:], found[:600], n_bins=5)
    assert display.calibration_error < 0.05
    probabilities = np.where(Y[300:] > 0, found[:600], 1.0 - found[:600])
    prior = np.clip(Y[:300].mean(axis=0), 0.01, 0.99)
    assert -np.log(probabilities).mean() < -np.log(np.where(Y[300:] > 0, prior, 1.0 - prior)).mean() - 0.02


def test_sets_with_probabilities(data):
    X, Y = data
    model = MultilabelLPSparseMAP().fit(X, Y)
    found = model.predict_structures(X[:10], n_sets=100)
    seen = {tuple(row) for row in Y.tolist()}
    for own in found:
        assert {tuple(y.tolist()) for y, _ in own} == seen and sum(p for _, p in own) == pytest.approx(1.0)
        assert [p for _, p in own] == sorted((p for _, p in own), reverse=True)
    short = model.predict_structures(X[:10], n_sets=2)
    assert all(len(own) == 2 and own[1][1] == long[1][1] for own, long in zip(short, found, strict=True))
    with pytest.raises(ValueError, match="n_sets must be"):
        model.predict_structures(X, n_sets=0)


def test_the_expected_set_is_the_best_of_all():
    rng = np.random.default_rng(0)
    probabilities = np.concatenate([rng.random((40, 5)), 0.1 * rng.random((10, 5))])
    found = probabilities > expected_cuts(probabilities)[:, None]
    assert_array_equal(found, [naive_expected(p) for p in probabilities])
    assert 0 < (~found.any(axis=1)).sum() < 50 and (found.sum(axis=1) == 5).any()
    # A lower threshold is a higher prior.
    assert (expected_cuts(probabilities, 0.3) <= expected_cuts(probabilities)).all()
    assert (probabilities > expected_cuts(probabilities, 0.0)[:, None]).all()


def scores_of(chosen, gold, weights):
    """Return the example F1, the subset accuracy, and the micro F1."""
    hits, sizes = (gold * chosen).sum(axis=1), gold.sum(axis=1) + chosen.sum(axis=1)
    f1 = np.where(sizes > 0, 2.0 * hits / np.maximum(sizes, 1.0), 1.0)
    whole = (gold == chosen).all(axis=1)
    return np.array(
        [*(np.average(value, weights=weights) for value in (f1, whole)), 2 * weights @ hits / (weights @ sizes)]
    )


def best_of_rule(rule, found):
    """Return the scores at the best threshold, given those at all thresholds of a rule."""
    if rule != "observed_sets":
        return found[found[:, 0].argmax()]
    # The most whole sets among the thresholds within a point of the highest F1.
    return found[np.argmax(np.where(found[:, 0] >= found[:, 0].max() - 0.01, found[:, 1], -1.0))]


def keeps_sets(found, half):
    """Tell at which thresholds at most two points of whole sets are lost, or less than the F1 that is gained."""
    loss = half[1] - found[:, 1]
    return (loss <= 0.02) | (found[:, 0] - half[0] > loss)


def test_each_rule_is_tuned_by_itself_and_the_best_one_is_chosen():
    chosen_rules, n_left_out = [], 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        gold = (rng.random((80, 5)) < 0.3).astype(float)
        scale = (0.1, 0.25, 0.4)[seed % 3]
        marginals = np.clip(0.4 * gold + rng.normal(0.25, scale, gold.shape), 0.01, 0.99)
        n_seen = (15, 60)[seed % 2]
        weights = rng.uniform(0.5, 2.0, len(gold))
        sets = ObservedLabelSets.of_samples(sparse.csr_array(gold[:n_seen]), np.ones(n_seen))
        choices = {
            "observed_sets": lambda t, p=marginals, sets=sets: sets.choose(p, t),
            "expected_f1": lambda t, p=marginals: p > expected_cuts(p, t)[:, None],
            "threshold": lambda t, p=marginals: p > t,
        }
        half = scores_of(marginals > 0.5, gold, weights)
        for fixed in ("auto", 0.4):
            tried = {}
            for rule, choose in choices.items():
                grid = ({"threshold": GRID}.get(rule, SET_GRID)) if fixed == "auto" else [fixed]
                tried[rule] = found = np.array([scores_of(choose(t), gold, weights) for t in grid])
                best = best_of_rule(rule, found)
                tuning = Tuning([rule], fixed)
                tuning.add(marginals, gold, weights, sets)
                threshold, own, f1 = tuning.best()
                own_scores = scores_of(choose(threshold), gold, weights)
                assert own == rule and own_scores[0] == pytest.approx(f1)
                assert own_scores[rule == "observed_sets"] == pytest.approx(best[rule == "observed_sets"])
            tuning = Tuning(choices, fixed)
            tuning.add(marginals, gold, weights, sets)
            threshold, rule, f1 = tuning.best()
            found = scores_of(choices[rule](threshold), gold, weights)
            assert found[0] == pytest.approx(f1)
            # Several rules are not chosen where they lose whole sets for less F1.
            kept = {name: rows[keeps_sets(rows, half)] for name, rows in tried.items()}
            if any(len(rows) for rows in kept.values()):
                tried = {name: rows for name, rows in kept.items() if len(rows)}
                n_left_out += len(tried) < len(choices)
            best = {name: best_of_rule(name, rows) for name, rows in tried.items()}
            means = {name: 0.5 * (own[0] + own[2]) for name, own in best.items()}
            near = [name for name, mean in means.items() if mean >= max(means.values()) - 0.01]
            assert found[1] >= max(best[name][1] for name in near) - 1e-6
            assert 0.5 * (found[0] + found[2]) >= max(means.values()) - 0.01
            chosen_rules.append(rule)
    assert set(chosen_rules) == set(choices) and n_left_out > 3
    # Without seen sets, the others are compared.
    tuning = Tuning(choices, 0.4)
    tuning.add(marginals, gold, weights)
    assert tuning.best()[1] != "observed_sets"
    alone = Tuning(["observed_sets"])
    alone.add(marginals, gold, weights)
    assert alone.best()[0] in SET_GRID


def test_decisions(data):
    X, Y = data
    model = MultilabelLPSparseMAP(constraints=[AtMost(3)], decision="observed_sets")
    model.fit(*(a[Y.sum(axis=1) <= 3] for a in (X, Y)))
    seen = {tuple(row) for row in Y.tolist()}
    found = model.predict(X)
    assert all(tuple(row) in seen for row in found.tolist()) and found.sum(axis=1).max() <= 3
    three = clone(model).fit(X, Y * (np.arange(5) < 3))
    assert not three.predict(X)[:, 3:].any()
    plain = model.set_params(decision="threshold").predict(X)
    assert (plain != found).any()
    stream = MultilabelLPSparseMAP().partial_fit(X, Y)
    assert_array_equal(stream.predict(X), stream.predict_marginals(X) > 0.5)
    with pytest.raises(ValueError, match="the model keeps no label sets"):
        stream.set_params(decision="observed_sets").predict(X)


def sparse_sets(n, p, seed):
    """Draw labels of which few sets occur twice: X, Y, X_test, Y_test."""
    X, Y = make_multilabel_classification(n + 1000, p, n_classes=20, n_labels=3, random_state=seed)
    scaler = StandardScaler().fit(X[:n])
    return scaler.transform(X[:n]), Y[:n], scaler.transform(X[n:]), Y[n:]


@pytest.mark.parametrize("n, p", [(300, 200), (1000, 200), (300, 50), (100, 100)])
def test_the_default_is_as_good_as_its_rules_if_most_sets_are_distinct(n, p):
    X, Y, X_test, Y_test = sparse_sets(n, p, 0)
    model = MultilabelLPSparseMAP().fit(X, Y)
    rules = ("auto", "observed_sets", "expected_f1", "threshold")
    found = np.array([scores_of(model.set_params(decision=d).predict(X_test), Y_test, np.ones(1000)) for d in rules])
    f1 = found[:, [0, 2]]
    assert (f1[0] > f1.max(axis=0) - 0.02).all()
    # Other rules differ much.
    assert (f1[1] < f1.max(axis=0) - 0.05).all()


@pytest.mark.parametrize("params", [{}, {"score_model": Network((20,), dropout=0.0), "max_iter": 50}])
def test_a_tuned_threshold_does_not_lower_the_f1_of_expected_sets(params):
    f1 = []
    for n, p in ((300, 50), (100, 100)):
        X, Y, X_test, Y_test = sparse_sets(n, p, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MultilabelLPSparseMAP(decision="expected_f1", threshold="auto", random_state=0, **params).fit(X, Y)
        assert model.threshold_ in SET_GRID
        for threshold in (0.5, "auto"):
            f1.append(example_f1_score(Y_test, model.set_params(threshold=threshold).predict(X_test)))
    before, after = np.mean(np.reshape(f1, (2, 2)), axis=0)
    assert after > before - 0.005


@pytest.mark.parametrize("decision", ["observed_sets", "threshold"])
def test_a_tuned_threshold_serves_example_f1(decision):
    train, test, f1, subset = slice(300), slice(300, None), [], []
    for seed in range(4):
        X, Y = make_multilabel_classification(1300, 20, n_classes=8, n_labels=2, random_state=seed + 1)
        tuned = MultilabelLPSparseMAP(decision=decision, threshold="auto").fit(X[train], Y[train])
        found = [tuned.set_params(threshold=threshold).predict(X[test]) for threshold in (0.5, "auto")]
        f1.append([example_f1_score(Y[test], labels) for labels in found])
        subset.append([(labels == Y[test]).all(axis=1).mean() for labels in found])
    fixed = clone(tuned).set_params(threshold=0.5).fit(X[train], Y[train])
    assert_array_equal(fixed.coefs_[0], tuned.coefs_[0])
    assert_array_equal(fixed.predict(X[test]), found[0])
    (before, after), (exact, exact_after) = np.mean(f1, axis=0), np.mean(subset, axis=0)
    if decision == "threshold":
        # A label is predicted even if it is less likely than not.
        assert after > before - 0.01 and tuned.threshold_ < 0.5
    else:
        # Up to a point of F1, on average, is given for whole sets.
        assert after > before - 0.01 and exact_after > exact + 0.02


@pytest.mark.parametrize(
    "params, named",
    [
        ({"score_model": "network", "loss": "hinge"}, "a network and loss='hinge'"),
        ({"label_graph": "tree"}, "label_graph"),
        ({"early_stopping": True}, "early_stopping"),
    ],
)
def test_what_has_no_smooth_objective_is_refused(data, params, named):
    with pytest.raises(ValueError, match=f"it cannot be used with {named}; use solver='auto'"):
        MultilabelLPSparseMAP(solver="lbfgs", **params).fit(*data)


def test_what_labels_owe_adds_up(data):
    X, Y = data
    model = MultilabelLPSparseMAP(constraints=[Implies(0, 1)])
    model.fit(*(a[Y[:, 0] <= Y[:, 1]] for a in (X, Y)), classes=list("abcde"))
    table = model.label_table(X[:1], n_features=2, feature_names=[f"f{i}" for i in range(8)])
    scores, seen = model.decision_function(X[:1])[0], set()
    for j, label in enumerate("abcde"):
        own = [row for row in table if row[0] == label]
        amounts = [amount for _, source, _, amount in own if source in ("feature", "intercept")]
        assert sum(amounts) == pytest.approx(scores[j])
        assert len(own) == 5 and own[0][2].startswith("f") and abs(own[0][3]) >= abs(own[1][3])
        seen |= {source for _, source, _, _ in own}
    rules = {label: amount for label, source, _, amount in table if source == "rules"}
    free = np.clip(scores, 0.0, 1.0)
    assert_allclose(list(rules.values()), model.predict_marginals(X[:1])[0] - free, atol=1e-12)
    with pytest.raises(ValueError, match=r"x must be one sample, of shape \(1, 8\); got 120"):
        model.label_table(X)
    edges = MultilabelLPSparseMAP([(0, 1)], score_model=Network((3,)), tol=1.0, n_iter_no_change=1, random_state=0)
    edges.fit(X, Y)
    sources = {(label, source) for label, source, *_ in edges.label_table(sparse.csr_array(X[:1]))}
    assert sources >= {(j, "score") for j in range(5)} and not {source for _, source in sources} - {"score", "label"}


def test_reliability_of_probabilities_and_marginals(data):
    X, Y = data
    model = make_pipeline(StandardScaler(), MultilabelLPSparseMAP()).fit(X, Y)
    display = LabelCalibrationDisplay.from_estimator(model, X, Y, n_bins=5)
    wanted = LabelCalibrationDisplay.from_predictions(Y, model.predict_proba(X), n_bins=5)
    assert_array_equal(display.marginals, wanted.marginals)
    assert display.calibration_error == wanted.calibration_error < 0.1
    assert len(display.line_.get_xdata()) == len(display.counts) and display.ax_.get_xlabel() == "probability"
    one_vs_rest = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    display = LabelCalibrationDisplay.from_estimator(one_vs_rest, X, Y)
    assert display.counts.sum() == Y.size
    marginals = model[-1].predict_marginals(model[0].transform(X))
    display = LabelCalibrationDisplay.from_predictions(Y, marginals, n_bins=5)
    assert display.counts.sum() == Y.size and (np.diff(display.marginals) > 0).all()
    assert display.marginals[0] == 0.0 and display.counts[0] == (marginals == 0.0).sum()
    assert display.frequencies[0] == Y[marginals == 0.0].mean()
    assert display.calibration_error != wanted.calibration_error
    partly = np.where(np.arange(5) < 3, Y, np.nan)
    assert LabelCalibrationDisplay.from_predictions(partly, marginals).counts.sum() == 3 * len(Y)
    with pytest.raises(ValueError, match="give equal numbers"):
        LabelCalibrationDisplay.from_predictions(Y, marginals[:3])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_features_are_selected_as_with_independent_classifiers(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 12))
    Y = (X[:, [2, 5, 9]] + 0.3 * X[:, [5, 9, 2]] + 0.5 * rng.normal(size=(200, 3)) > 0.3).astype(int)
    model = MultilabelLPSparseMAP(score_model="linear", loss="logistic", alpha=0.05).fit(kind(X), Y)
    peer = OneVsRestClassifier(LogisticRegression(C=1.0 / (0.05 * len(X)))).fit(X, Y)
    coef = np.vstack([each.coef_ for each in peer.estimators_])
    assert model.coef_.shape == (3, 12)
    assert_allclose(model.coef_, coef, atol=1e-3)
    assert_allclose(model.feature_importances_, np.abs(coef).sum(axis=0), atol=1e-3)
    chosen = SelectFromModel(clone(model), max_features=3, threshold=-np.inf).fit(kind(X), Y)
    assert chosen.get_support(indices=True).tolist() == [2, 5, 9]
    assert chosen.transform(kind(X)).shape == (200, 3)
    # RFE of scikit-learn adds up squares over the labels.
    left = list(range(12))
    while len(left) > 3:
        fitted = OneVsRestClassifier(LogisticRegression(C=1.0 / (0.05 * len(X)))).fit(X[:, left], Y)
        left.pop(int(np.square(np.vstack([each.coef_ for each in fitted.estimators_])).sum(axis=0).argmin()))
    for options in ({}, {"importance_getter": "feature_importances_"}):
        rfe = RFE(clone(model), n_features_to_select=3, **options).fit(kind(X), Y)
        assert rfe.get_support(indices=True).tolist() == left == [2, 5, 9]
    assert rfe.score(kind(X), Y) == rfe.estimator_.score(kind(X)[:, left], Y)


def test_features_of_networks_and_of_single_labels_are_selected_too():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 6))
    Y = (X[:, :2] + 0.3 * rng.normal(size=(150, 2)) > 0).astype(int)
    model = MultilabelLPSparseMAP(
        score_model=Network((8,), dropout=0.0, eta0=0.02), solver="adam", tol=0.02, random_state=0
    )
    model.fit(X, Y)
    first, last = map(np.abs, model.coefs_)
    expected = [sum(first[j, k] * last[k, c] for k in range(8) for c in range(2)) for j in range(6)]
    assert_allclose(model.feature_importances_, expected)
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match="coef_ is for linear scores, and this model has scores of Network"):
        model.coef_  # noqa: B018
    for selector in (
        SelectFromModel(model, prefit=True, max_features=2, threshold=-np.inf),
        RFE(model, step=2, n_features_to_select=2),
    ):
        assert selector.fit(X, Y).get_support(indices=True).tolist() == [0, 1]
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 4], [-0.5, 0.5])]
    linear = MultilabelLPSparseMAP(score_model="linear", alpha=0.05)
    assert SelectFromModel(linear, max_features=1, threshold=-np.inf).fit(X, labels).get_support(indices=True) == [4]
    assert RFECV(linear, cv=2, min_features_to_select=1).fit(X, labels).support_[4]
