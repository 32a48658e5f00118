"""Conformal sets of structures."""

import pickle
from itertools import product

import naive
import numpy as np
import pytest
from internals import Forest, n_best_in_forest
from naive_conformal import naive_reduced_costs, naive_risk_threshold, naive_threshold
from samples import KINDS, make_chains, make_data, make_rings, ring
from samples import graph_of as ring_of
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
)
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import AtMost, Hierarchy
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, Matching, Ranking, SequenceBudget, Subset

N_TRAIN = 20


def make_label_sets(n_samples=80, seed=0, closed=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    Y = (X @ np.random.default_rng(9).normal(size=(4, 5)) + 0.7 * rng.normal(size=(n_samples, 5)) > 0).astype(int)
    if closed:
        # Label 0 is above 1 and 2, label 3 above 4.
        Y[:, 0] |= Y[:, 1] | Y[:, 2]
        Y[:, 3] |= Y[:, 4]
    return X, Y


HIERARCHY = Hierarchy([None, 0, 0, None, 3])


def draw_kind(kind):
    """Return an unfitted estimator, and samples."""
    if kind in KINDS:
        return StructuredSparseMAPClassifier(KINDS[kind], alpha=1e-2), *make_data(KINDS[kind], 80)
    if kind in ("chain", "crf"):
        loss = "crf" if kind == "crf" else "sparsemap"
        return StructuredSparseMAPClassifier("chain", loss=loss, temperature=0.7), *make_chains(80)
    if kind == "budget":
        return StructuredSparseMAPClassifier(SequenceBudget(50)), *make_chains(80)
    if kind == "perceptron":
        return GroupLassoPerceptron("chain", random_state=0), *make_chains(80)
    if kind == "classes":
        X, y = make_chains(40)
        return StructuredSparseMAPClassifier(), np.vstack(X), np.concatenate(y)
    if kind == "rings":
        return StructuredSparseMAPClassifier(ring_of), *make_rings(80, 0)
    if kind == "single label":
        X, y = make_chains(40)
        return MultilabelLPSparseMAP(), np.vstack(X), np.concatenate(y)
    options = {
        "label sets": {},
        "hinge": {"loss": "hinge", "tol": 1.0},
        "logistic": {"loss": "logistic"},
        "hierarchy": {"constraints": HIERARCHY},
        "edges": {"label_graph": "tree", "tol": 1.0},
        "at most": {"constraints": AtMost(4)},
    }[kind]
    X, Y = make_label_sets(closed=kind == "hierarchy")
    if kind == "at most":
        X, Y = X[Y.sum(axis=1) <= 4], Y[Y.sum(axis=1) <= 4]
    return MultilabelLPSparseMAP(random_state=0, **options), X, Y


STRUCTURED = ["chain", "crf", "budget", "perceptron", *KINDS, "classes", "rings"]
ALL = [*STRUCTURED, "single label", "label sets", "hinge", "logistic", "hierarchy", "edges", "at most"]


@pytest.fixture(scope="module")
def fitted():
    """Return a function that returns a fitted estimator, and two parts of samples that it has not seen."""
    made = {}

    def fit(kind):
        if kind not in made:
            estimator, X, y = draw_kind(kind)
            middle = (len(y) + N_TRAIN) // 2
            made[kind] = (
                estimator.fit(X[:N_TRAIN], y[:N_TRAIN]), X[N_TRAIN:middle], y[N_TRAIN:middle], X[middle:], y[middle:],
            )  # fmt: skip
        return made[kind]

    return fit


def as_key(structure):
    return np.asarray(structure).tolist() if np.ndim(structure) else structure


@pytest.mark.parametrize("kind", ALL)
def test_covered_is_what_the_set_contains(fitted, kind):
    model, X_cal, y_cal, X, y = fitted(kind)
    if kind in ("at most", "edges", "hinge", "rings"):
        # Assignments of graphs are searched for one at a time.
        n = {"edges": 2, "rings": 8}.get(kind, 4)
        X, y = X[:n], y[:n]
    n_inside = n_outside = 0
    for level in (0.5, 0.8):
        conformal = ConformalStructures(model, level, max_size=4000).conformalize(X_cal, y_cal)
        sets, covered = conformal.predict_set(X), conformal.covers(X, y)
        assert not conformal.truncated_.any() and len(sets) == len(covered) == len(y)
        for own, gold, is_covered in zip(sets, y, covered, strict=True):
            listed = [as_key(structure) for structure, _ in own]
            assert (as_key(gold) in listed) == is_covered
            values = [value for _, value in own]
            assert values == sorted(values) and values[0] == pytest.approx(0.0, abs=1e-9)
            assert values[-1] <= conformal.threshold_ and len({str(s) for s in listed}) == len(listed)
            n_inside += is_covered
            n_outside += not is_covered
        # Each member of a set is covered, with the nonconformity that is listed.
        for rank in (0, 1, -1):
            chosen = [own[min(rank, len(own) - 1)] for own in sets]
            structures = [structure for structure, _ in chosen]
            structures = np.array(structures) if isinstance(model, MultilabelLPSparseMAP) else structures
            assert conformal.covers(X, structures).all()
            assert np.array_equal(conformal.nonconformity(X, structures), [value for _, value in chosen])
    assert n_inside > 2 and (n_outside > 0 or kind == "edges")


def enumerate_of(structure, shape, **options):
    """Return all structures and the indicators of their parts."""
    enumerate_all = {
        DependencyTree: naive.enumerate_trees,
        Matching: naive.enumerate_matchings,
        Subset: naive.enumerate_subsets,
        Ranking: naive.enumerate_rankings,
    }[type(structure)]
    return enumerate_all(np.zeros(shape), **options)[:2]


@pytest.mark.parametrize("kind", KINDS)
def test_nonconformity_of_structures_is_the_reduced_cost(fitted, kind):
    model, X, y, _, _ = fitted(kind)
    structure, found = KINDS[kind], ConformalStructures(model).nonconformity(X, y)
    n_positive = 0
    for x, gold, nonconformity in zip(X, y, found, strict=True):
        scores = x @ model.coef_[0] + model.intercept_[0]
        structures, M = enumerate_of(structure, scores.shape, **vars(structure))
        expected = naive_reduced_costs(M, scores.ravel() @ M, not structure.fixed_size)
        place = [as_key(s) for s in structures].index(as_key(gold))
        assert nonconformity == pytest.approx(expected[place], abs=1e-7)
        n_positive += nonconformity > 1e-6
    assert n_positive > 0


@pytest.mark.parametrize("kind", ["chain", "crf"])
def test_nonconformity_of_chains(fitted, kind):
    model, X, y, _, _ = fitted(kind)
    reduced = ConformalStructures(model).nonconformity(X, y)
    additional = {name: a / 0.7 for name, a in model.additional_scores_.items()}
    code, n_positive = {label: i for i, label in enumerate(model.classes_.tolist())}, 0
    for i, (x, gold) in enumerate(zip(X, y, strict=True)):
        if len(x) > 5:
            continue
        scores = model.decision_function([x])[0] / 0.7
        structures, M, totals = naive.enumerate_chain(scores, **additional)
        place = structures.index(tuple(code[label] for label in gold.tolist()))
        assert reduced[i] == pytest.approx(naive_reduced_costs(M, totals, varies=False)[place], abs=1e-7)
        n_positive += reduced[i] > 1e-6
        if kind == "crf":
            loss = ConformalStructures(model, score="log_loss").nonconformity([x], [gold])
            assert loss == pytest.approx(logsumexp(totals) - totals[place], abs=1e-9)
    assert n_positive > 3


@pytest.mark.parametrize("kind", ["tree", "projective", "matching", "subset", "chain", "crf"])
def test_parts_are_missed_where_no_structure_of_the_set_has_them(fitted, kind):
    model, X, y, X_test, y_test = fitted(kind)
    conformal, n_positive = ConformalStructures(model, 0.7, risk="parts").conformalize(X, y), 0
    for i, (x, gold, found) in enumerate(zip(X, y, conformal.part_nonconformity_, strict=True)):
        if kind in KINDS:
            scores = x @ model.coef_[0] + model.intercept_[0]
            structures, M = enumerate_of(KINDS[kind], scores.shape, **vars(KINDS[kind]))
            expected = naive_reduced_costs(M, scores.ravel() @ M, not KINDS[kind].fixed_size)
            place = [as_key(s) for s in structures].index(as_key(gold))
        elif len(x) > 5:
            continue
        else:
            additional = {name: a / 0.7 for name, a in model.additional_scores_.items()}
            structures, M, totals = naive.enumerate_chain(model.decision_function([x])[0] / 0.7, **additional)
            expected = naive_reduced_costs(M, totals, varies=False)
            place = structures.index(tuple(np.searchsorted(model.classes_, gold).tolist()))
        least = [expected[M[part] > 0].min() for part in np.flatnonzero(M[:, place])]
        np.testing.assert_allclose(np.sort(found), np.sort(least), atol=1e-7)
        assert conformal.nonconformity_[i] >= found.max(initial=0.0) - 1e-7
        n_positive += (found > 1e-6).sum()
    assert n_positive > 0
    assert conformal.threshold_ == naive_risk_threshold(conformal.part_nonconformity_, 0.7)
    missed, covered = conformal.missed(X_test, y_test), conformal.covers(X_test, y_test)
    assert (missed[covered] == 0.0).all() and 0.0 < missed.mean() < 1.0
    whole = ConformalStructures(model, 0.7).conformalize(X, y)
    assert whole.threshold_ >= conformal.threshold_ and (whole.missed(X_test, y_test) <= missed).all()


@pytest.mark.parametrize("kind", ["chain", "crf", "subset", "rings", "label sets"])
def test_sets_of_parts_have_the_parts_of_all_structures_within_the_threshold(fitted, kind):
    model, X, y, X_test, y_test = fitted(kind)
    conformal = ConformalStructures(model, 0.7, risk="parts").conformalize(X, y)
    sets, missed = conformal.predict_set(X_test), conformal.missed(X_test, y_test)
    whole = ConformalStructures(model, 0.7, max_size=10_000).conformalize(X, y)
    whole.nonconformity_[:] = conformal.threshold_
    sizes = []
    for inside, own, gold, fraction in zip(sets, whole.predict_set(X_test), y_test, missed, strict=True):
        if kind in ("chain", "crf"):
            structures = [np.asarray(path)[:, None] == model.classes_ for path, _ in [*own, (gold, 0.0)]]
        else:
            structures = [np.asarray(structure, bool) for structure, _ in [*own, (gold, 0.0)]]
        is_part = structures.pop()
        assert inside.dtype == bool and inside.tolist() == np.any(structures, axis=0).tolist()
        if is_part.any() and fraction < 1.0:
            assert fraction == pytest.approx(1.0 - inside[is_part].mean())
        sizes.append(inside.mean())
    assert 0.0 < np.mean(sizes) < 1.0
    # Several levels in one call.
    levels = [0.5, 0.7, 0.8]
    conformal.set_params(confidence_level=levels)
    several, fractions, thresholds = (
        conformal.predict_set(X_test),
        conformal.missed(X_test, y_test),
        conformal.threshold_,
    )
    assert fractions.shape == (len(X_test), 3) and conformal.covers(X_test, y_test).shape == (len(X_test), 3)
    for k, level in enumerate(levels):
        conformal.set_params(confidence_level=level)
        assert thresholds[k] == conformal.threshold_
        assert fractions[:, k].tolist() == conformal.missed(X_test, y_test).tolist()
        for one, inside in zip(several, conformal.predict_set(X_test), strict=True):
            assert one[..., k].tolist() == inside.tolist()


def test_the_risk_is_that_of_the_level():
    X, y = make_chains(1060, seed=3)
    model = StructuredSparseMAPClassifier("chain", loss="crf").fit(X[:60], y[:60])
    conformal, rng = ConformalStructures(model, risk="parts").conformalize(X[60:], y[60:]), np.random.default_rng(0)
    of_parts, conformal.groups_ = conformal.part_nonconformity_, [None] * 200
    for level in (0.9, 0.95):
        risks = []
        conformal.set_params(confidence_level=level)
        for _ in range(50):
            order = rng.permutation(1000)
            conformal.part_nonconformity_ = [of_parts[i] for i in order[:200]]
            threshold = conformal.threshold_
            risks.append(np.mean([np.mean(of_parts[i] > threshold) for i in order[200:]]))
        assert 1.0 - level - 0.015 < np.mean(risks) < 1.0 - level + 0.004


def test_nonconformity_of_graphs(fitted):
    model, X, y, _, _ = fitted("rings")
    found, n_positive = ConformalStructures(model).nonconformity(X, y), 0
    weight = float(model.additional_scores_["neighbours"])
    for x, gold, nonconformity in zip(X, y, found, strict=True):
        n = len(x)
        everything = [a for a in product((0.0, 1.0), repeat=n) if sum(a) <= n // 2]
        scores, M = x @ model.coef_[0] + model.intercept_[0], np.array(everything).T
        totals = scores @ M + weight * (M * np.roll(M, -1, axis=0)).sum(axis=0)
        u = lp_sparsemap(ring(n), scores, additional={"neighbours": weight}, tol=1e-9).marginals
        expected = naive_reduced_costs(M, totals, True, u)[everything.index(tuple(gold * 1.0))]
        assert nonconformity == pytest.approx(expected, abs=1e-6)
        n_positive += nonconformity > 1e-6
    assert n_positive > 0


@pytest.mark.parametrize("kind", ["label sets", "hinge", "logistic", "hierarchy", "edges", "at most"])
def test_nonconformity_of_label_sets(fitted, kind):
    model, X, y, _, _ = fitted(kind)
    found, n_positive = ConformalStructures(model).nonconformity(X, y), 0
    sets = np.array(list(product((0.0, 1.0), repeat=5)))
    if kind == "hierarchy":
        sets = sets[(sets[:, 0] >= sets[:, 1]) & (sets[:, 0] >= sets[:, 2]) & (sets[:, 3] >= sets[:, 4])]
    if kind == "at most":
        sets = sets[sets.sum(axis=1) <= 4]
    for scores, gold, nonconformity in zip(model.decision_function(X), y, found, strict=True):
        scores = scores + (0.5 if kind in ("hinge", "logistic") else 0.0)
        pairs = (sets[:, model.edges_].prod(axis=2) * model.edge_scores_).sum(axis=1)
        u = lp_sparsemap(model._graph.graph, scores, additional={"edges": model.edge_scores_}, tol=1e-9).marginals
        expected = naive_reduced_costs(sets.T, sets @ scores + pairs, True, u)
        assert nonconformity == pytest.approx(expected[(sets == gold).all(axis=1)][0], abs=1e-6)
        n_positive += nonconformity > 1e-6
    assert n_positive > 3


@pytest.mark.parametrize("kind", ["label sets", "hierarchy", "edges", "single label"])
def test_log_losses_of_label_sets(fitted, kind):
    model, X, y, _, _ = fitted(kind)
    conformal = ConformalStructures(model, 0.8, score="log_loss").conformalize(X, y)
    sets = np.array(list(product((0.0, 1.0), repeat=len(model.classes_))))
    if kind == "hierarchy":
        sets = sets[(sets[:, 0] >= sets[:, 1]) & (sets[:, 0] >= sets[:, 2]) & (sets[:, 3] >= sets[:, 4])]
    if kind == "single label":
        sets, y = np.eye(3), (y[:, None] == model.classes_) * 1
    odds = model._calibration.log_odds(model._inference.evidence(model._learned.model, X))
    listed = conformal.predict_set(X)
    for own, gold, nonconformity, found in zip(odds, y, conformal.nonconformity_, listed, strict=True):
        losses = logsumexp(sets @ own) - sets @ own
        assert nonconformity == pytest.approx(losses[(sets == gold).all(axis=1)][0], abs=1e-9)
        assert len(found) == (losses <= conformal.threshold_ + 1e-12).sum()
    if kind != "single label":
        assert np.array_equal(conformal.covers(X, y), conformal.nonconformity_ <= conformal.threshold_)


@pytest.mark.parametrize("parents", [[-1] * 6, [-1, 0, 1, 2, 3, 4], [-1, 0, 0, 1, 1, -1], [3, 3, 1, -1, 5, -1]])
def test_best_label_sets_equal_enumeration(parents):
    rng, forest = np.random.default_rng(0), Forest(parents)
    sets = np.array(list(product((False, True), repeat=6)))
    sets = sets[~forest.violated(sets * 1.0)]
    for k in (1, 2, 5, 64, 100):
        scores = rng.normal(size=6)
        found = n_best_in_forest(scores, forest, k)
        assert len(np.unique(found, axis=0)) == len(found) == min(k, len(sets))
        assert not forest.violated(found * 1.0).any()
        np.testing.assert_allclose(found @ scores, -np.sort(-(sets @ scores))[:k], atol=1e-12)


@pytest.mark.parametrize("level", [0.3, 0.75, 0.8, 0.9, 0.99])
def test_the_threshold_is_the_quantile(fitted, level):
    model, X, y, _, _ = fitted("chain")
    conformal = ConformalStructures(model, level)
    if level == 0.99:
        with pytest.warns(UserWarning, match=r"needs at least 99 calibration samples, and there are 30"):
            conformal.conformalize(X, y)
        conformal.max_size = 5
        assert conformal.covers(X, y).all()
        with pytest.warns(UserWarning, match="lists are cut at max_size=5"):
            assert {len(own) for own in conformal.predict_set(X)} <= {3, 5} and conformal.truncated_.any()
    else:
        conformal.conformalize(X, y)
    assert conformal.threshold_ == naive_threshold(conformal.nonconformity_, level)
    # The level may change later.
    conformal.set_params(confidence_level=0.5)
    assert conformal.threshold_ == naive_threshold(conformal.nonconformity_, 0.5)


@pytest.mark.parametrize("score", ["reduced_cost", "log_loss"])
def test_coverage_is_that_of_the_level(score):
    X, y = make_chains(1060, seed=3)
    model = StructuredSparseMAPClassifier("chain", loss="crf").fit(X[:60], y[:60])
    rng, rates = np.random.default_rng(0), []
    nonconformity = ConformalStructures(model, score=score).nonconformity(X[60:], y[60:])
    for level in (0.8, 0.9):
        conformal = ConformalStructures(model, level, score=score).conformalize(X[60:460], y[60:460])
        covered = conformal.covers(X[460:], y[460:])
        # Three standard deviations of the beta-binomial distribution of the coverage.
        bound = 3.0 * np.sqrt(level * (1.0 - level) * (1 / 400 + 1 / 600))
        assert abs(covered.mean() - level) < bound
        assert np.array_equal(covered, nonconformity[400:] <= conformal.threshold_)
        for _ in range(200):
            order = rng.permutation(1000)
            rates.append((nonconformity[order[400:]] <= naive_threshold(nonconformity[order[:400]], level)).mean())
        assert level - 0.005 < np.mean(rates[-200:]) < level + 0.01


def test_groups_have_thresholds_of_their_own(fitted):
    model, X_cal, y_cal, X, y = fitted("chain")
    lengths = [len(x) > 4 for x in X_cal]
    conformal = ConformalStructures(model, 0.7, groups=lambda x: len(x) > 4).conformalize(X_cal, y_cal)
    given = ConformalStructures(model, 0.7).conformalize(X_cal, y_cal, groups=lengths)
    nonconformity = given.nonconformity_
    assert (
        given.threshold_
        == conformal.threshold_
        == {group: naive_threshold(nonconformity[np.array(lengths) == group], 0.7) for group in dict.fromkeys(lengths)}
    )
    new = [len(x) > 4 for x in X]
    limits = np.array([conformal.threshold_[group] for group in new])
    covered = conformal.covers(X, y)
    assert np.array_equal(covered, given.nonconformity(X, y) <= limits)
    assert np.array_equal(covered, given.covers(X, y, groups=new))
    sets = given.predict_set(X, groups=new)
    assert [len(own) for own in sets] == [len(own) for own in conformal.predict_set(X)]
    assert all(own[-1][1] <= limit for own, limit in zip(sets, limits, strict=True))
    with pytest.raises(ValueError, match="groups must be passed, because"):
        given.covers(X, y)
    with pytest.raises(ValueError, match="the parameter groups names them already; leave them out here"):
        conformal.predict_set(X, groups=new)
    with pytest.raises(ValueError, match="use only one"):
        conformal.conformalize(X_cal, y_cal, groups=lengths)
    with pytest.raises(ValueError, match=r"the group of X\[0\] is \[1\]; a group is a number"):
        given.conformalize(X_cal, y_cal, groups=[[1]] * len(X_cal))
    with pytest.raises(ValueError, match=r"the group of X\[0\] is nan, a missing value"):
        given.conformalize(X_cal, y_cal, groups=[np.nan] * len(X_cal))
    with pytest.raises(ValueError, match=r"groups has 1 entries for \d+ samples"):
        given.covers(X, y, groups=[True])
    with pytest.warns(UserWarning, match="no calibration sample is of group 7"):
        assert given.covers(X, y, groups=[7] * len(X)).all()
    with pytest.raises(ValueError, match=r"the group of X\[0\] is \[\]; a group is a number"):
        ConformalStructures(model, groups=lambda x: []).conformalize(X_cal, y_cal)
    with pytest.warns(UserWarning, match="of group 'rare', and there are 1,"):
        given.conformalize(X_cal, y_cal, groups=["rare"] + ["usual"] * (len(X_cal) - 1))
    with pytest.warns(UserWarning, match="no calibration sample is of group 'never seen'"):
        assert given.covers(X[:2], y[:2], groups=["rare", "never seen"]).all()


@pytest.mark.parametrize("kind", ["chain", "label sets", "classes"])
def test_lists_that_are_cut_are_counted_in_one_warning(fitted, kind):
    model, X_cal, y_cal, X, y = fitted(kind)
    conformal = ConformalStructures(model, 0.9).conformalize(X_cal, y_cal)
    # No warning, because all lists are complete.
    whole, covered = conformal.predict_set(X), conformal.covers(X, y)
    assert not conformal.truncated_.any()
    size = max(map(len, whole)) - 1
    n_cut = sum(len(own) > size for own in whole)
    assert 0 < n_cut < len(whole)
    conformal.set_params(max_size=size)
    message = (
        rf"{n_cut} of {len(whole)} lists are cut at max_size={size} .* do not keep the level; choose a larger max_size"
        ", a lower confidence_level, .* risk='parts'"
    )
    with pytest.warns(UserWarning, match=message) as caught:
        lists = conformal.predict_set(X)
    assert len(caught) == 1 and caught[0].filename == __file__
    assert str(lists) == str([own[:size] for own in whole])
    assert conformal.truncated_.tolist() == [len(own) > size for own in whole]
    # `covers` is about the sets that are not cut.
    assert np.array_equal(conformal.covers(X, y), covered)
    with pytest.warns(UserWarning, match="lists are cut at max_size=1 "):
        lists = conformal.set_params(max_size=1).predict_set(X)
    assert np.mean([as_key(own[0][0]) == as_key(gold) for own, gold in zip(lists, y, strict=True)]) < covered.mean()
    # Sets of parts are not lists. Nothing is cut, whatever the lists of an earlier call.
    conformal.set_params(risk="parts").conformalize(X_cal, y_cal).predict_set(X)


def test_sets_of_classes_are_cut_after_their_thresholds(fitted):
    model, X_cal, y_cal, X, _ = fitted("classes")
    conformal = ConformalStructures(model, 0.7, groups="class").conformalize(X_cal, y_cal)
    # The third class is always in the set, the others only if they are the best one.
    conformal.nonconformity_ = np.where(y_cal == model.classes_[2], 100.0, 0.0)
    whole = conformal.predict_set(X)
    assert not conformal.truncated_.any() and {len(own) for own in whole} == {1, 2}
    conformal.set_params(max_size=1)
    with pytest.warns(UserWarning, match="lists are cut at max_size=1 "):
        lists = conformal.predict_set(X)
    assert str(lists) == str([own[:1] for own in whole])
    assert conformal.truncated_.tolist() == [len(own) > 1 for own in whole]
    # With two at most, no set is cut.
    assert str(conformal.set_params(max_size=2).predict_set(X)) == str(whole) and not conformal.truncated_.any()


def test_an_array_of_groups_belongs_to_the_methods(fitted):
    model, X, y, _, _ = fitted("chain")
    groups = np.array(["long" if len(x) > 4 else "short" for x in X])
    for given in (groups, groups.tolist(), np.repeat(groups, 100), pytest.importorskip("pandas").Series(groups)):
        with pytest.raises(ValueError, match=r"conformalize\(X, y, groups=\.\.\.\) and predict_set") as error:
            ConformalStructures(model, groups=given).conformalize(X, y)
        assert f"'{groups[0]}', '{groups[1]}', " in str(error.value) and f"{len(given)} in all" in str(error.value)
        assert len(str(error.value)) < 300


@pytest.mark.parametrize("kind", ["classes", "single label"])
def test_classes_have_thresholds_of_their_own(fitted, kind):
    model, X_cal, y_cal, X, y = fitted(kind)
    conformal = ConformalStructures(model, 0.7, groups="class").conformalize(X_cal, y_cal)
    nonconformity = conformal.nonconformity_
    expected = {label: naive_threshold(nonconformity[y_cal == label], 0.7) for label in np.unique(y_cal)}
    assert conformal.threshold_ == expected and len(expected) == 3
    sets, covered = conformal.predict_set(X), conformal.covers(X, y)
    for own, label, is_covered in zip(sets, y, covered, strict=True):
        assert (label in [other for other, _ in own]) == is_covered
        assert all(value <= expected[other] for other, value in own)
    with pytest.raises(ValueError, match="groups='class' is for one label a sample"):
        ConformalStructures(fitted("chain")[0], groups="class").conformalize(*fitted("chain")[1:3])


def test_what_cannot_be_predicted_is_not_covered(fitted):
    model, X, y, _, _ = fitted("chain")
    strange = [np.array(["?", *labels[1:]]) for labels in y[:20]] + list(y[20:])
    conformal = ConformalStructures(model, 0.3).conformalize(X, strange)
    assert np.isinf(conformal.nonconformity_[:20]).all() and np.isfinite(conformal.nonconformity_[20:]).all()
    assert not conformal.covers(X, strange)[:20].any()
    conformal.set_params(confidence_level=0.5)
    assert conformal.threshold_ == np.inf and not conformal.covers(X, strange)[:20].any()
    for risk in ("structure", "parts"):
        conformal = ConformalStructures(model, 0.5, risk=risk)
        with pytest.warns(UserWarning, match="cannot predict the structures of 20 of 30 calibration samples, such as"):
            assert conformal.conformalize(X, strange).threshold_ == np.inf
        with pytest.warns(UserWarning, match="of 15 of 15 calibration samples of group 1, such as") as caught:
            thresholds = conformal.conformalize(X, strange, groups=[1] * 15 + [2] * 15).threshold_
        assert len(caught) == 1 and thresholds[1] == np.inf > thresholds[2]
    model, X, y, _, _ = fitted("at most")
    full = np.ones_like(y)
    assert np.isinf(ConformalStructures(model).nonconformity(X, full)).all()
    model, X, y, _, _ = fitted("classes")
    assert np.isinf(ConformalStructures(model).nonconformity(X[:2], ["?", y[1]])).tolist() == [True, False]
    model, X, y, _, _ = fitted("projective")
    trees = [heads.copy() for heads in y]
    long = [i for i, heads in enumerate(trees) if len(heads) > 1]
    for i in long:
        # Several roots.
        trees[i][:] = 0
    assert np.isinf(ConformalStructures(model).nonconformity(X, trees))[long].all() and long


def test_constraints_on_labels_hold_in_sets():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(60)]
    y = [["O", "B-A", "I-A", "O"] if x[1, 0] + 0.5 * rng.normal() > 0 else ["O", "O", "B-A", "O"] for x in X]
    model = StructuredSparseMAPClassifier("chain", constraints="bio").fit(X[:20], y[:20])
    conformal = ConformalStructures(model, 0.9).conformalize(X[20:40], y[20:40])
    wrong = [["I-A", "O", "O", "O"]] * 20
    assert np.isinf(conformal.nonconformity(X[40:], wrong)).all()
    conformal.set_params(confidence_level=0.99, max_size=100)
    assert not conformal.covers(X[40:], wrong).any() and conformal.covers(X[40:], y[40:]).all()
    for own in conformal.predict_set(X[40:]):
        # 34 of 81 sequences have no I-A without a label of the entity before it.
        assert len(own) == 34 and wrong[0] not in [labels.tolist() for labels, _ in own]


def test_ancestors_of_labels_are_added(fitted):
    model, X, y, _, _ = fitted("hierarchy")
    leaves = y.copy()
    leaves[:, 0] &= ~(y[:, 1] | y[:, 2])
    assert (leaves != y).any()
    conformal = ConformalStructures(model)
    expected = conformal.nonconformity(X, y)
    assert np.array_equal(conformal.nonconformity(X, leaves), expected)
    np.testing.assert_allclose(conformal.nonconformity(sparse.csr_array(X), sparse.csr_array(y)), expected, atol=1e-12)


def test_bad_input_is_named(fitted):
    model, X, y, _, _ = fitted("chain")
    conformal = ConformalStructures(model).conformalize(X, y)
    with pytest.raises(ValueError, match="numbers of samples: 30 and 29"):
        conformal.covers(X, y[:-1])
    with pytest.raises(ValueError, match=r"X\[1\] has \d+ steps, but y\[1\]"):
        conformal.covers(X, [y[0], np.repeat(y[1], 2), *y[2:]])
    unknown = [y[0], [*y[1][:-1], None], *y[2:]]
    for call in (conformal.covers, conformal.conformalize, conformal.nonconformity):
        with pytest.raises(ValueError, match=r"y\[1\] has a label of None, which is unknown; leave the sample out"):
            call(X, unknown)
    for level in (0.0, 1.0, -1, "high", None):
        with pytest.raises(ValueError, match="'confidence_level' parameter"):
            ConformalStructures(model, level).conformalize(X, y)
    with pytest.raises(ValueError, match="'max_size' parameter"):
        ConformalStructures(model, max_size=0).conformalize(X, y)
    with pytest.raises(ValueError, match="'score' parameter"):
        ConformalStructures(model, score="aps").conformalize(X, y)
    with pytest.raises(ValueError, match=r"score='log_loss' is for models of a Gibbs distribution"):
        ConformalStructures(model, score="log_loss").conformalize(X, y)
    with pytest.raises(
        ValueError, match="score='log_loss' needs constraints by which each label implies at most one other"
    ):
        ConformalStructures(fitted("at most")[0], score="log_loss").conformalize(*fitted("at most")[1:3])
    with pytest.raises(NotFittedError):
        ConformalStructures(StructuredSparseMAPClassifier("chain")).conformalize(X, y)
    with pytest.raises(NotFittedError):
        ConformalStructures(MultilabelLPSparseMAP()).conformalize(*fitted("label sets")[1:3])
    with pytest.raises(NotFittedError, match="call conformalize"):
        ConformalStructures(model).covers(X, y)
    with pytest.raises(ValueError, match="got StandardScaler"):
        ConformalStructures(StandardScaler()).conformalize(X, y)
    with pytest.raises(ValueError, match="groups has 2 entries for 30 samples"):
        conformal.conformalize(X, y, groups=[0, 1])
    tree, X_tree, y_tree, _, _ = fitted("tree")
    with pytest.raises(ValueError, match=r"y\[0\]"):
        ConformalStructures(tree).conformalize(X_tree, [np.append(y_tree[0], 0), *y_tree[1:]])
    with pytest.raises(ValueError, match="'risk' parameter"):
        ConformalStructures(model, risk="tags").conformalize(X, y)
    with pytest.raises(ValueError, match="use risk='structure'"):
        ConformalStructures(fitted("ranking")[0], risk="parts").conformalize(*fitted("ranking")[1:3])
    with pytest.raises(ValueError, match="several levels of confidence are for risk='parts'"):
        ConformalStructures(model, [0.8, 0.9]).conformalize(X, y)
    with pytest.raises(ValueError, match="between 0 and 1, or a list of such"):
        ConformalStructures(model, [0.8, 1.2], risk="parts").conformalize(X, y)
    rings, X_ring, y_ring, _, _ = fitted("rings")
    with pytest.raises(ValueError, match=r"y\[1\]"):
        ConformalStructures(rings).conformalize(X_ring, [y_ring[0], np.ones(len(y_ring[1]) + 1, bool), *y_ring[2:]])
    # An assignment that violates a factor is in no set.
    wrong = [y_ring[0], np.ones(len(y_ring[1]), bool), *y_ring[2:]]
    assert np.flatnonzero(ConformalStructures(rings).conformalize(X_ring, wrong).nonconformity_ == np.inf).tolist() == [
        1
    ]
    labels, X_labels, y_labels, _, _ = fitted("label sets")
    with pytest.raises(ValueError, match=r"y has shape \(30, 4\)"):
        ConformalStructures(labels).conformalize(X_labels, y_labels[:, :4])
    with pytest.raises(ValueError, match="holds 0 and 1 only"):
        ConformalStructures(labels).conformalize(X_labels, 2 * y_labels)


def test_pipelines_and_searches():
    words, tags = [["the", "dog"], ["a", "cat", "barks"]] * 20, [["D", "N"], ["D", "N", "V"]] * 20
    model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), StructuredSparseMAPClassifier("chain"))
    conformal = ConformalStructures(model.fit(words[:20], tags[:20])).conformalize(words[20:], tags[20:])
    assert [path.tolist() for path, _ in conformal.predict_set([["the", "cat"]])[0]] == [["D", "N"]]
    X, Y = make_label_sets()
    search = GridSearchCV(make_pipeline(StandardScaler(), MultilabelLPSparseMAP()), {
        "multilabellpsparsemap__alpha": [0.01, 0.1]
    }, cv=2).fit(X[:40], Y[:40])  # fmt: skip
    conformal = ConformalStructures(search, 0.8).conformalize(X[40:], Y[40:])
    assert 0.8 <= conformal.covers(X[40:], Y[40:]).mean() < 0.9


def test_it_follows_scikit_learn(fitted):
    model, X, y, X_new, y_new = fitted("chain")
    conformal = ConformalStructures(model, 0.8, max_size=7).conformalize(X, y)
    again = clone(conformal)
    assert again.get_params(deep=False) == conformal.get_params(deep=False)
    assert again.fitted_estimator is model and not hasattr(again, "nonconformity_")
    again = pickle.loads(pickle.dumps(conformal))
    assert np.array_equal(again.covers(X_new, y_new), conformal.covers(X_new, y_new))
    with pytest.warns(UserWarning, match="lists are cut at max_size=7"):
        sets = again.predict_set(X_new), conformal.predict_set(X_new)
    assert str(sets[0]) == str(sets[1])
    assert max(map(len, sets[0])) == 7 and again.truncated_.any()
    for n_jobs in (1, 2):
        model.set_params(n_jobs=n_jobs)
        assert np.array_equal(conformal.nonconformity(X, y), conformal.nonconformity_)
    model.set_params(n_jobs=None)


def test_structures_of_users():
    structure = CustomStructure(lambda scores: [int(np.argmax(scores))])
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(60)]
    y = [[int(np.argmax(x @ [1.0, -1.0] + 0.5 * rng.normal(size=3)))] for x in X]
    model = StructuredSparseMAPClassifier(structure).fit(X[:20], y[:20])
    conformal = ConformalStructures(model, 0.8).conformalize(X[20:40], y[20:40])
    for own, gold, covered in zip(conformal.predict_set(X[40:]), y[40:], conformal.covers(X[40:], y[40:]), strict=True):
        assert any(np.array_equal(s, gold) for s, _ in own) == covered


def test_coverage_is_drawn(fitted):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    from sklearn_sparsemap.plotting import ConformalCoverageDisplay

    model, X_cal, y_cal, X, y = fitted("chain")
    conformal = ConformalStructures(model, 0.9).conformalize(X_cal, y_cal)
    display = ConformalCoverageDisplay.from_estimator(conformal, X, y, levels=[0.5, 0.9])
    assert conformal.confidence_level == 0.9 and display.coverages[1] == conformal.covers(X, y).mean()
    assert display.sizes[1] == np.median([len(own) for own in conformal.predict_set(X)])
    assert np.array_equal(display.coverage_line_.get_xydata(), np.stack([[0.5, 0.9], display.coverages], axis=1))
    assert np.array_equal(display.size_line_.get_ydata(), display.sizes)
    # The band is that of many simulated splits: a sample is covered if its rank among calibration samples is low.
    rng, n_cal, n = np.random.default_rng(0), len(X_cal), len(X)
    limits = np.quantile(rng.random((4000, n_cal)), np.ceil((n_cal + 1) * 0.9) / n_cal, axis=1, method="inverted_cdf")
    simulated = np.quantile(rng.binomial(n, limits) / n, [0.025, 0.975])
    np.testing.assert_allclose(display.bands[1], simulated, atol=1.5 / n)
    assert display.band_ is not None
    # A median is known if fewer than half of the lists are cut.
    sizes = np.sort([len(own) for own in conformal.predict_set(X)])
    conformal.set_params(max_size=int(sizes[n // 2]))
    levels = [0.5, 0.9]
    assert (
        ConformalCoverageDisplay.from_estimator(conformal, X, y, levels=levels).sizes.tolist() == display.sizes.tolist()
    )
    conformal.set_params(max_size=int(sizes[n // 2]) - 1)
    with pytest.warns(UserWarning, match=r"max_size=\d+ at confidence levels 0.9, so the median sizes") as caught:
        ConformalCoverageDisplay.from_estimator(conformal, X, y, levels=levels)
    assert len(caught) == 1 and caught[0].filename == __file__
    of_parts = ConformalStructures(model, 0.9, risk="parts").conformalize(X_cal, y_cal)
    display_of_parts = ConformalCoverageDisplay.from_estimator(of_parts, X, y, levels=[0.5, 0.9])
    assert display_of_parts.band_ is None
    assert display_of_parts.coverages[1] == pytest.approx(1.0 - of_parts.missed(X, y).mean())
    assert display_of_parts.sizes[1] == np.median([own.sum() for own in of_parts.predict_set(X)])
    # Each of two groups has a threshold of its own, so the coverage of all samples has another distribution.
    grouped = ConformalStructures(model, 0.5, groups=lambda x: len(x) > 3).conformalize(X_cal, y_cal)
    assert ConformalCoverageDisplay.from_estimator(grouped, X, y, levels=[0.5]).band_ is None
    again = ConformalCoverageDisplay([0.5, 0.9], [0.5, 0.9], [1, 2]).plot(ax=display.ax_)
    assert again.band_ is None
    with pytest.raises(ValueError, match="a row of two numbers for each level"):
        ConformalCoverageDisplay([0.5, 0.9], [0.5, 0.9], [1, 2], [0.4, 0.6])
    assert again.figure_ is display.figure_ and len(display.ax_) == 2
    plt.close("all")
    with pytest.raises(ValueError, match="inconsistent numbers"):
        ConformalCoverageDisplay([0.5, 0.9], [0.5], [1, 2])


@pytest.mark.parametrize("score", ["reduced_cost", "log_loss"])
def test_samples_that_equal_calibration_samples_are_covered_like_them(score):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(240, 8)), rng.random((240, 3)) < 0.4
    model = MultilabelLPSparseMAP().fit(X[:120], Y[:120])
    conformal = ConformalStructures(model, 0.6, score=score).conformalize(X[120:], Y[120:])
    covered, threshold = conformal.covers(X[120:], Y[120:]), conformal.threshold_
    at = np.flatnonzero(conformal.nonconformity_ == threshold)
    assert covered[at].all() and 60 < covered.sum() < 100
    for change in (1.0 + 1e-15, 1.0 - 1e-15):
        again = X[120:] * change
        np.testing.assert_array_equal(conformal.covers(again, Y[120:]), covered)
        for i in at:
            sets = conformal.predict_set(again[i : i + 1])[0]
            assert any(np.array_equal(structure, Y[120 + i]) for structure, _ in sets)


@pytest.mark.parametrize("kind", ALL)
def test_parts_values_and_maxima_of_tasks_agree(fitted, kind):
    model, _, _, X, _ = fitted(kind)
    X = X[:4]
    face = model._face()
    task, scores, additional, is_empty, _ = face.problems(X, "sparsemap")
    assert not is_empty.any()
    best = task.n_best(scores, additional, 3, None)
    assert np.array_equal(task.maxima(scores, additional, None), task.maxima(scores, additional, 2))
    flat = np.split(scores.ravel(), task.row_ptr[1:-1] * task.n_outputs)
    n_compared = 0
    for rank in range(3):
        ranked = [own[min(rank, len(own) - 1)] for own in best]
        users = [face.decode([structure])[0] for structure, _ in ranked]
        users = np.array(users) if isinstance(model, MultilabelLPSparseMAP) else users
        parts = task.parts(face.gold(task, users))
        for i, ((_, value), own) in enumerate(zip(ranked, parts, strict=True)):
            total = task.value(i, flat[i], additional, own)
            assert total == pytest.approx(value, abs=1e-9)
            # Alone and among others, with the same rounding.
            totals = task.values(i, flat[i], additional, [each for each, _ in best[i]])
            assert totals[min(rank, len(totals) - 1)] == total
            n_compared += 1
    assert n_compared == 12
    np.testing.assert_allclose(task.maxima(scores, additional, None), [own[0][1] for own in best], atol=1e-9)
    marginals, _, _ = task.marginals(scores, additional, None)
    assert marginals.shape == scores.shape and len(task.in_shapes(marginals)) == 4
