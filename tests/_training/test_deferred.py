"""The schedule "auto": shrinkages to a budget are deferred, against a dense twin; memory, streams and recovery."""

import pickle

import numpy as np
import pytest
from internals import replace
from naive_perceptron import DualAverager, optimizer_of, random_problem, run
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.penalties import as_groups
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Simplex


@pytest.mark.parametrize("entries", [100, 2])
@pytest.mark.parametrize("kind", ["budget", "budget_weights"])
@pytest.mark.parametrize("loss", ["perceptron", "crf"])
@pytest.mark.parametrize("structure", [Simplex(), LinearChain(), DependencyTree()])
def test_deferred_shrinkage_is_the_dense_algorithm(structure, loss, kind, entries, monkeypatch):
    replace(monkeypatch, "_training", "_ENTRIES_PER_SAMPLE", entries)
    rng = np.random.default_rng(4)
    samples, gold, n_outputs = random_problem(structure, rng)
    group_of, d = np.repeat(np.arange(4), 3), np.array([1.0, 0.5, 2.0, 1.5])
    budget = {kind: 2 if kind == "budget" else 7 * n_outputs}
    optimizer = optimizer_of(
        structure, samples, n_outputs, as_groups(group_of), d, eta0=0.5, period=40, shrink_every=None, **budget
    )
    twin = DualAverager(
        structure, loss, 12, n_outputs, [(np.flatnonzero(group_of == g), d[g]) for g in range(4)], eta0=0.5, period=40,
        shrink_every=optimizer.rule.every, alpha=0.0, **{"budget": None, **budget},
    )  # fmt: skip
    assert optimizer.rule.every == 1 if entries == 100 else optimizer.rule.every > 2
    n_shrunk = 0
    for _ in range(3):
        order = rng.permutation(40)
        run(optimizer, structure, loss, samples, gold, n_outputs, order)
        for i in order:
            twin.visit(samples[i], gold[i])
            n_shrunk += bool((twin.factors < 1.0).any())
        selected = np.flatnonzero(optimizer.selected_groups())
        assert_array_equal(selected, twin.selection())
        average = np.where(np.isin(group_of, selected)[:, None], twin.sums / twin.step, 0.0)
        assert_allclose(optimizer.model().coef.toarray(), average, rtol=1e-11, atol=1e-11)
    assert n_shrunk > 50
    assert_allclose(optimizer.store.rho, [(twin.coef[group_of == g] ** 2).sum() for g in range(4)], rtol=1e-10)
    optimizer.shrink()
    assert_array_equal(np.flatnonzero(optimizer.alive_groups()), selected)
    optimizer.average = False
    kept = np.isin(group_of, selected)[:, None]
    assert_allclose(optimizer.model().coef.toarray(), np.where(kept, twin.score_coef(), 0.0), rtol=1e-11, atol=1e-11)


def sensors(n, rho=0.7, seed=0, n_groups=12, size=3, n_telling=3):
    """Groups of sensors that share their noise; some of the groups matter."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(rho) * rng.normal(size=(n, 1, size)) + np.sqrt(1.0 - rho) * rng.normal(size=(n, n_groups, size))
    telling = rng.choice(n_groups, n_telling, replace=False)
    score = (X[:, telling] @ rng.choice([-1.0, 1.0], size)).sum(axis=1) / np.sqrt(1.0 - rho)
    return X.reshape(n, -1), (score + rng.normal(size=n) > 0).astype(int), sorted(telling.tolist())


GROUP_OF = np.repeat(np.arange(12), 3)


def quick(**params):
    return GroupLassoPerceptron(**{"groups": GROUP_OF, "budget": 3, "random_state": 0, **params})


@pytest.mark.parametrize("rho", [0.0, 0.7, 0.95])
def test_recovery_does_not_fall_as_samples_are_added(rho):
    found = [0, 0, 0]
    for place, n in enumerate((100, 1000, 5000)):
        for seed in range(3):
            X, y, truth = sensors(n, rho, seed)
            found[place] += len(set(truth) & set(quick(debias=None).fit(X, y).selected_groups_))
    assert found == sorted(found) and found[-1] == 3 * 3
    # Frequent shrinkages of the weights themselves lose groups.
    if rho == 0.95:
        assert quick(shrink_every=20, debias=None).fit(X, y).selected_groups_.tolist() != truth


def test_a_stream_selects_at_any_time_however_it_is_cut():
    X, y, truth = sensors(400)
    models = []
    for size in (1, 7, 80, 400):
        model = quick()
        for start in range(0, len(X), size):
            model.partial_fit(X[start : start + size], y[start : start + size], classes=[0, 1])
            if size == 80:
                assert len(model.selected_groups_) == 3
                assert set(GROUP_OF[np.unique(model.coef_.tocoo().col)]) <= set(model.selected_groups_)
                model = pickle.loads(pickle.dumps(model))
        assert model.selected_groups_.tolist() == truth
        assert model._learned.optimizer.alive_groups().all(), "no group is lost"
        models.append(model)
    for model in models[1:]:
        assert_array_equal(model.coef_.toarray(), models[0].coef_.toarray())
    assert models[0].score(X, y) > 0.75
    assert models[0].finalize(X, y).selected_groups_.tolist() == truth
    assert models[0].score(X, y) > 0.8


@pytest.mark.parametrize("budget", [{"budget": 3}, {"budget": 20, "budget_unit": "weights"}])
def test_memory_is_bounded(budget, monkeypatch):
    X, y, truth = sensors(4000)
    free = quick(**budget).fit(X, y)
    replace(monkeypatch, "_training", "_MAX_WEIGHTS", 60)
    bounded = quick(**budget).fit(X, y)
    assert free.memory_curve_.max() == 2 * 36 and bounded.memory_curve_[-1] <= 20
    # Only half as many are kept, and the selected ones are among them.
    first = bounded.memory_curve_[bounded.memory_steps_ < 4000]
    assert 18 <= first.min() <= 30 and first.max() == 72
    assert set(truth) == set(free.selected_groups_) == set(bounded.selected_groups_)


def test_fixed_strengths_shrink_as_in_the_paper():
    X, y, _ = sensors(1200)
    one, other = (quick(budget=None, alpha=0.01, shrink_every=schedule).fit(X, y) for schedule in ("auto", 1000))
    assert_array_equal(one.coef_.toarray(), other.coef_.toarray())
    assert_array_equal(one.memory_curve_, other.memory_curve_)
    assert not np.array_equal(quick().fit(X, y).memory_curve_, quick(shrink_every=1000).fit(X, y).memory_curve_)
    with pytest.raises(ValueError, match="'shrink_every' parameter"):
        quick(shrink_every="never").fit(X, y)


def test_features_of_any_scale_without_intercept():
    X, y, truth = sensors(500)
    for scale in (1e-6, 1e6):
        model = quick(fit_intercept=False)
        assert clone(model).fit(scale * X, y).selected_groups_.tolist() == truth
        assert (clone(model).fit(scale * X, y).predict(scale * X) == model.fit(X, y).predict(X)).mean() > 0.99


@pytest.mark.parametrize(("load", "least"), [(load_breast_cancer, [0.93, 0.95]), (load_wine, [0.8, 0.9])])
def test_defaults_select_well_on_tables(load, least):
    X, y = load(return_X_y=True)
    group_of = np.arange(X.shape[1]) % 10 if X.shape[1] == 30 else None
    for budget, floor in zip((2, 4), least, strict=True):
        scores = []
        for seed in range(3):
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
            scaler = StandardScaler().fit(X_train)
            model = GroupLassoPerceptron(groups=group_of, budget=budget, random_state=0)
            scores.append(model.fit(scaler.transform(X_train), y_train).score(scaler.transform(X_test), y_test))
        assert np.mean(scores) > floor
