"""The budget of weights: comparison with slow twins, and its limits."""

import numpy as np
import pytest
from naive_penalties import shrink_in_order
from naive_perceptron import DenseLearner, optimizer_of, random_problem, run
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, perceptron_path
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.penalties import GroupTree, as_groups
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Simplex


@pytest.mark.parametrize("loss", ["perceptron", "crf"])
@pytest.mark.parametrize("structure", [Simplex(), LinearChain(), DependencyTree()])
def test_shrinkage_is_the_greedy_knapsack_of_the_twin(structure, loss):
    rng = np.random.default_rng(3)
    samples, gold, n_outputs = random_problem(structure, rng)
    group_of = np.repeat(np.arange(5), [1, 2, 2, 3, 4])
    settings = dict(eta0=0.5, period=40, shrink_every=7)
    n_skipped = n_dead = n_kept = 0
    for budget in (3 * n_outputs, 5 * n_outputs + 1, 8 * n_outputs):
        for d in ([1.0, 0.5, 2.0, 1.5, 0.7], [0.0, 1.0, 1.0, 1.7, 2.0]):
            groups = as_groups(group_of)
            optimizer = optimizer_of(structure, samples, n_outputs, groups, d, **settings, budget_weights=budget)
            twin = DenseLearner(
                structure, loss, 12, n_outputs, [(np.flatnonzero(group_of == g), d[g]) for g in range(5)], **settings,
                budget=None, alpha=0.0, budget_weights=budget,
            )  # fmt: skip
            for _ in range(3):
                order = rng.permutation(40)
                run(optimizer, structure, loss, samples, gold, n_outputs, order)
                for i in order:
                    twin.visit(samples[i], gold[i])
            optimizer.average = False
            model = optimizer.model()
            assert_allclose(model.coef.toarray(), twin.coef, rtol=1e-11, atol=1e-11)
            assert optimizer.n_held == twin.exists.sum()
            optimizer.shrink()
            twin.shrink()
            assert_array_equal(optimizer.held, twin.most)
            kept = optimizer.alive_groups()
            assert_array_equal(kept, [twin.exists[group_of == g].any() for g in range(5)])
            assert optimizer.held[kept].sum() <= budget and optimizer.n_held <= budget
            n_kept, n_dead = n_kept + kept.sum(), n_dead + (~kept).sum()
            n_skipped += bool(kept.any()) and twin.most[~kept].max(initial=0) > budget - twin.most[kept].sum() >= 0
    assert n_kept > 5 and n_dead > 5 and n_skipped > 0


def test_groups_that_overlap_die_by_the_least_strength():
    rng = np.random.default_rng(1)
    samples, gold, n_outputs = random_problem(Simplex(), rng, n=60)
    tree = GroupTree([-1, 0, 0, 1, 1], [[0, 1], [2, 3, 4], [5, 6], [7, 8], [9, 10, 11]])
    groups = as_groups(tree, 12)
    d = np.array([0.5, 1.0, 2.0, 0.7, 0.3])
    n_compared = 0
    for budget in (4, 9, 15, 25, 40):
        optimizer = optimizer_of(
            Simplex(), samples, n_outputs, groups, d, eta0=1.0, period=60, shrink_every=1000, budget_weights=budget
        )
        run(optimizer, Simplex(), "perceptron", samples, gold, n_outputs, np.arange(60))
        norms, n_before = np.sqrt(optimizer.store.rho), optimizer.n_held
        optimizer.shrink()
        held, sigma = optimizer.held, 60 * float(optimizer.sigma[0])
        atoms = [groups.group_atoms[groups.group_indptr[g] : groups.group_indptr[g + 1]] for g in groups.order]

        def count(strength):
            left = shrink_in_order(norms, atoms, strength * d[groups.order])
            return held[left > 0].sum()

        assert held.sum() == n_before > budget
        assert_allclose(count(sigma * (1 + 1e-9)), held[optimizer.alive()].sum())
        assert count(sigma * (1 + 1e-9)) <= budget < count(sigma * (1 - 1e-9))
        n_compared += optimizer.alive().any()
    assert n_compared > 2


def sensors(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 4:8].sum(axis=1) + X[:, 12:16] @ [1, -1, 1, -1], [-1, 1])]
    return X, y


GROUP_OF = np.repeat(np.arange(5), 4)


@pytest.mark.parametrize("debias", ["mira", "crf", None])
def test_no_more_weights_than_the_budget(debias):
    X, y = sensors()
    sizes = []
    for budget in (1, 12, 24, 25, 40, 1000):
        model = GroupLassoPerceptron(
            groups=GROUP_OF, budget=budget, budget_unit="weights", shrink_every=100, debias=debias, random_state=0
        )
        if budget == 1:
            with pytest.warns(UserWarning, match="no group of features has survived: .* raise the budget"):
                model.fit(X, y)
        else:
            model.fit(X, y)
        assert model.n_nonzero_coefs_ <= budget
        sizes.append(len(model.selected_groups_))
        if budget == 24:
            assert model.selected_groups_.tolist() == [1, 3] and model.score(X, y) > 0.8
            assert model.sigma_ > 0.0
    assert sizes[0] == 0 and sizes[2] == 2 and sizes[-1] == 5 and sizes == sorted(sizes)


def test_the_smallest_weights_go_where_debiasing_makes_more():
    # Before debiasing few weights exist, as few samples were seen; it makes others.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 8)), rng.integers(6, size=300)
    parameters = {"groups": np.repeat([0, 1], 4), "shrink_every": 5, "max_iter": 1, "random_state": 0}
    model = GroupLassoPerceptron(budget=24, budget_unit="weights", **parameters).fit(X, y)
    free = GroupLassoPerceptron(budget=len(model.selected_groups_), **parameters).fit(X, y)
    assert 0 < model.n_nonzero_coefs_ <= 24 < 48 == free.n_nonzero_coefs_ * 2 or free.n_nonzero_coefs_ > 24
    ready = clone(model).set_params(debias=None).fit(X, y)
    assert_array_equal(ready.selected_groups_, model.selected_groups_)


def test_streams_rounds_and_partitions_keep_to_it():
    X, y = sensors()
    model = GroupLassoPerceptron(groups=GROUP_OF, budget=25, budget_unit="weights", shrink_every=50, random_state=0)
    stream = clone(model)
    for start in range(0, 400, 40):
        stream.partial_fit(X[start : start + 40], y[start : start + 40], classes=["a", "b", "c"])
    state = stream.get_training_state()
    assert (state.groups["held"] > 0).any()
    assert stream.finalize().n_nonzero_coefs_ <= 25
    assert stream.finalize(X, y).n_nonzero_coefs_ <= 25 and stream.score(X, y) > 0.8
    parts = clone(model).fit_partitions([(X[:200], y[:200]), (X[200:], y[200:])])
    assert parts.n_nonzero_coefs_ <= 25 and parts.score(X, y) > 0.8
    mixed = ParameterMixing(clone(model), n_shards=3, n_rounds=3, random_state=0).fit(X, y).to_local()
    assert 0 < mixed.n_nonzero_coefs_ <= 25 and mixed.score(X, y) > 0.8
    assert parts.set_params(budget=12, budget_unit="weights").finalize(X, y).n_nonzero_coefs_ <= 12


def test_searches_and_paths_know_it():
    X, y = sensors(200)
    model = GroupLassoPerceptron(groups=GROUP_OF, shrink_every=50, max_iter=2, random_state=0)
    search = GridSearchCV(clone(model).set_params(budget_unit="weights"), {"budget": [12, 24]}, cv=2).fit(X, y)
    assert search.best_estimator_.n_nonzero_coefs_ <= 24
    assert search.best_params_["budget"] == 24
    path = perceptron_path(model, X, y, [12, 24, None], unit="weights", X_val=X, y_val=y, return_estimators=True)
    assert [each.budget for each in path.estimators] == [12, 24, None]
    assert {each.budget_unit for each in path.estimators} == {"weights"}
    assert (path.n_nonzero_coefs[:2] <= [12, 24]).all() and path.best_budget in (24, None)
    assert "24" in str(path)
    # The estimator's own code for budgets is not used.
    again = perceptron_path(clone(model).set_params(budget=3, budget_unit="weights"), X, y, [2], X_val=X, y_val=y)
    assert len(again.selected_groups[0]) == 2
    with pytest.raises(ValueError, match="unit='pairs' is not one of"):
        perceptron_path(model, X, y, [2], unit="pairs")
    with pytest.raises(ValueError, match="both set the strength"):
        clone(model).set_params(budget=3, budget_unit="weights", alpha=0.1).fit(X, y)
    for wrong in (0, (3, "weights"), "3"):
        with pytest.raises(ValueError, match=r"'budget' parameter .* must be an int in the range \[1, inf\)"):
            clone(model).set_params(budget=wrong).fit(X, y)
    with pytest.raises(ValueError, match=r"'budget_unit' parameter .* Got 'pairs'"):
        clone(model).set_params(budget=3, budget_unit="pairs").fit(X, y)


def test_trees_and_chains_take_it():
    rng = np.random.default_rng(0)
    for structure in (LinearChain(), DependencyTree()):
        samples, gold, n_outputs = random_problem(structure, rng, n=60)
        y = [np.asarray(each).tolist() if n_outputs > 1 else each for each in gold]
        model = GroupLassoPerceptron(
            structure,
            groups=np.repeat(np.arange(4), 3),
            budget=5 * n_outputs,
            budget_unit="weights",
            shrink_every=20,
            random_state=0,
        ).fit(RaggedArray.from_list(samples), y)
        assert 0 < model.n_nonzero_coefs_ <= 5 * n_outputs


@pytest.mark.filterwarnings("ignore:no group of features has survived")
@pytest.mark.parametrize(("budget", "unit"), [(2, "groups"), (3, "weights")])
def test_budgets_hold_after_a_frozen_strength(budget, unit):
    X = np.random.default_rng(0).normal(size=(50, 4))
    y = X[:, 0] > 0
    model = GroupLassoPerceptron(budget=budget, budget_unit=unit, shrink_every=10, debias=None, random_state=8)
    model.partial_fit(X, y, classes=[False, True])
    strength = model.sigma_
    model.set_params(budget=None, alpha=strength)
    for _ in range(4):
        model.partial_fit(X, y)
    assert model.sigma_ == strength > 0.0
    model.set_params(budget=budget, alpha=0.0).finalize()
    assert len(model.selected_groups_) <= 2 and model.n_nonzero_coefs_ <= (4 if budget == 2 else 3)


def test_groups_of_weight_0_are_warned_of_where_they_exceed_the_budget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    with pytest.warns(UserWarning, match="groups of weight 0 are never discarded"):
        GroupLassoPerceptron(group_weights="log2", budget=2, shrink_every=10).fit(X, X[:, 0] > 0)
