"""Boosting of the scores of any task, against a plain loop over scikit-learn's trees."""

import numpy as np
import pytest
from internals import Booster, BoostingLearner, HeldOutRounds, RegressorsModel, TreesModel, folds_of_samples, replace
from naive_boosting import make_task, naive_boosting
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR
from sklearn.tree import ExtraTreeRegressor

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.estimators import Monitor
from sklearn_sparsemap.score_models import Trees

SMALL = {"max_depth": 3, "min_samples_leaf": 2}
TASKS = [
    ("simplex", "crf"),
    ("simplex", "sparsemap"),
    ("chain", "crf"),
    ("chain", "sparsemap"),
    ("chain", "margin_sparsemap"),
    ("chain", "hinge"),
    ("matching", "sparsemap"),
    ("matching", "perceptron"),
    ("graph", "sparsemap"),
    ("labels", "logistic"),
    ("labels", "sparsemap"),
    ("labels", "hinge"),
]


def booster_of(task, X, trees=None, seed=0, **options):
    options = {"alpha": 0.01, "n_jobs": 1} | options
    return Booster(Trees(**SMALL) if trees is None else trees, task, X, rng=np.random.RandomState(seed), **options)


def boosted(task, X, n_rounds, trees=None, **options):
    booster = booster_of(task, X, trees, **options)
    for _ in range(n_rounds):
        booster.step()
    return booster


@pytest.mark.parametrize(("kind", "loss"), TASKS)
def test_boosting_equals_a_plain_loop(kind, loss, monkeypatch):
    # Rough inference depends on rounding.
    replace(monkeypatch, "estimators", "_ROUGH", 0.0)
    replace(monkeypatch, "estimators", "_LEAST_COLUMNS", 2)
    task, X = make_task(kind, loss)
    booster = booster_of(task, X.values)
    losses = [booster.loss]
    seeds = np.random.RandomState(0)
    start = booster.base.copy(), booster.additional.copy()
    for _ in range(5):
        booster.step()
        losses.append(booster.loss)
    # Each round draws one seed.
    seeds = [seeds.randint(2**31 - 1) for _ in range(5)]
    predict, additional, wanted = naive_boosting(booster.trees, task.copy(), X.values, *start, 0.01, seeds, 2)
    assert_allclose(losses, wanted, rtol=1e-9, atol=1e-12)
    model = booster.model()
    assert isinstance(model, TreesModel)
    rows = np.random.default_rng(1).normal(size=(30, 4))
    accuracy = 1e-12 if kind != "chain" or loss == "crf" else 1e-8
    assert_allclose(model.scores(rows), predict(rows), rtol=0, atol=accuracy)
    assert_array_equal(model.scores(X.values), booster.scores)
    assert_allclose(model.additional, additional, rtol=0, atol=1e-8)
    # The gold structures are the best ones of the perceptron's zero scores only by chance.
    assert losses[-1] < 0.9 * losses[0] or loss == "perceptron"


@pytest.mark.parametrize(("kind", "loss"), TASKS)
def test_results_depend_on_the_seed_alone(kind, loss, monkeypatch):
    replace(monkeypatch, "estimators", "_LEAST_COLUMNS", 2)
    task, X = make_task(kind, loss, n=30)
    models = [boosted(task, X.values, 4, n_jobs=n_jobs, seed=seed).model() for n_jobs, seed in [(1, 0), (2, 0), (1, 1)]]
    assert_array_equal(models[0].values, models[1].values)
    assert_array_equal(models[0].additional, models[1].additional)
    assert any(
        len(one) != len(other) or (one != other).any()
        for one, other in ((models[0].threshold, models[2].threshold), (models[0].feature, models[2].feature))
    )


def test_sparse_features_give_the_same_trees():
    task, X = make_task("chain", "crf", n=30)
    dense = np.where(X.values > 0.0, X.values, 0.0)
    models = [boosted(task, form, 4).model() for form in (dense, sparse.csr_array(dense))]
    assert_allclose(models[0].scores(dense), models[1].scores(dense), atol=1e-10)


@pytest.mark.parametrize(("kind", "loss"), TASKS)
def test_samples_of_weight_zero_are_ignored(kind, loss):
    task, X = make_task(kind, loss, n=20)
    task.weights = np.where(np.arange(20) % 3 == 0, 0.0, task.weights)
    kept = np.flatnonzero(task.weights)
    models = [boosted(task, X.values, 3).model(), boosted(task.take(kept), X[kept].values, 3).model()]
    assert_allclose(models[0].scores(X.values), models[1].scores(X.values), atol=1e-6)
    assert_allclose(models[0].additional, models[1].additional, atol=1e-6)


def test_only_ratios_of_weights_matter():
    task, X = make_task("chain", "crf", n=20)
    models = [boosted(task, X.values, 3).model()]
    task.weights = 8.0 * task.weights
    models.append(boosted(task, X.values, 3).model())
    assert_allclose(models[0].scores(X.values), models[1].scores(X.values), atol=1e-9)


def test_a_round_draws_a_limited_number_of_rows_and_leaves_get_their_values_from_all(monkeypatch):
    task, X = make_task("labels", "logistic", n=200)
    task.weights[:] = 1.0
    whole = booster_of(task, X.values, Trees(max_depth=1))
    replace(monkeypatch, "estimators", "_MAX_ROWS", 50)
    booster = booster_of(task, X.values, Trees(max_depth=1))
    residuals = booster._state.residuals.copy()
    model = booster.step()
    assert booster.rng.randint(2**31 - 1) != whole.rng.randint(2**31 - 1)
    at = X.values[:, model.feature[0]].astype(np.float32) <= model.threshold[0]
    sizes = np.abs(residuals)
    for leaf in (at, ~at):
        curvature = (sizes[leaf] * (1.0 - sizes[leaf])).sum(axis=0) / task.temperature + 1.0 / task.temperature
        wanted = -0.1 * residuals[leaf].sum(axis=0) / curvature
        assert_allclose(model.scores(X.values)[leaf], np.tile(wanted, (leaf.sum(), 1)), rtol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        ExtraTreeRegressor(max_depth=3),
        RandomForestRegressor(4, max_depth=3),
        ExtraTreesRegressor(4, max_depth=3),
        Ridge(),
        LinearRegression(),
        KNeighborsRegressor(3),
        MultiOutputRegressor(SVR()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize(("kind", "loss"), [("chain", "crf"), ("labels", "sparsemap"), ("matching", "sparsemap")])
def test_any_regressor_can_be_boosted(estimator, kind, loss):
    task, X = make_task(kind, loss, n=20)
    task.weights[:] = 1.0
    before = estimator.get_params()
    if isinstance(estimator, MultiOutputRegressor) and kind == "matching":
        estimator = SVR()
    boosters = [boosted(task, X.values, 4, Trees(estimator=estimator, learning_rate=0.5)) for _ in range(2)]
    models = [booster.model() for booster in boosters]
    is_tree = "Tree" in type(estimator).__name__ or "Forest" in type(estimator).__name__
    assert isinstance(models[0], TreesModel if is_tree else RegressorsModel)
    # All seeds are drawn.
    assert_array_equal(models[0].scores(X.values), models[1].scores(X.values))
    assert_allclose(models[0].scores(X.values), boosters[0].scores, atol=1e-12)
    start = booster_of(task, X.values, Trees(estimator=estimator))
    assert boosters[0].loss < 0.98 * start.loss
    assert isinstance(estimator, SVR) or estimator.get_params().keys() == before.keys()


def test_unsuitable_regressors_are_refused_with_a_remedy():
    task, X = make_task("labels", "logistic")
    with pytest.raises(ValueError, match=r"KNeighborsRegressor\(\) of Trees takes no sample_weight"):
        booster_of(task, X.values, Trees(estimator=KNeighborsRegressor())).step()
    task.weights[:] = 1.0
    with pytest.raises(ValueError, match=r"SVR\(\) of Trees must be a regressor with 3 outputs \(MultiOutputRegressor"):
        booster_of(task, X.values, Trees(estimator=SVR())).step()


def test_features_beyond_float32_are_refused():
    task, X = make_task("labels", "logistic")
    X.values[3, 1] = 1e300
    for form in (X.values, sparse.csr_array(X.values)):
        with pytest.raises(ValueError, match="beyond"):
            booster_of(task, form)


def test_additional_scores_reach_about_their_optimum():
    task, X = make_task("chain", "crf", n=40)
    booster = boosted(task, X.values, 60, alpha=0.1)
    slope = booster.additional
    _, _, joined, _ = task.loss_gradient(booster.scores.copy(), booster.additional, 1)
    slope = joined / task.weights.sum() + 0.1 * booster.additional
    assert np.abs(booster.additional).max() > 0.1
    assert np.abs(slope).max() < 0.05


@pytest.mark.parametrize(("kind", "loss"), [("chain", "crf"), ("chain", "sparsemap"), ("labels", "logistic")])
def test_held_out_rounds_are_those_of_models_of_the_training_parts(kind, loss):
    task, X = make_task(kind, loss, n=45)
    folds = folds_of_samples(task.weights, np.random.RandomState(0))
    assert len(folds) == 3
    assert_array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(45))
    trees = Trees(max_iter=30, learning_rate=0.3, **SMALL)
    calls = []
    options = {"alpha": 0.01, "n_jobs": 1}
    rounds = HeldOutRounds(trees, task, X, folds, rng=np.random.RandomState(0), **options).run(
        lambda number, loss: calls.append((number, loss))
    )
    assert calls == list(enumerate(rounds.losses, 1))
    assert rounds.n_rounds == 1 + int(np.argmin(rounds.losses))
    # The folds draw their seeds in turn.
    search = HeldOutRounds(trees, task, X, folds, rng=np.random.RandomState(0), **options)
    for _ in range(rounds.n_rounds):
        for booster in search.boosters:
            booster.step()
    total = 0.0
    for booster, (_, held), scores, additional in zip(
        search.boosters, folds, rounds.scores, rounds.additional, strict=True
    ):
        model = booster.model()
        assert_allclose(model.scores(X[held].values), scores, atol=1e-12)
        assert_array_equal(model.additional, additional)
        total += task.take(held).loss_gradient(scores.copy(), additional, 1)[0]
    assert total / task.weights.sum() == pytest.approx(rounds.losses[rounds.n_rounds - 1], rel=0.02)


def learner_of(task, X, trees, **options):
    options = {"alpha": 0.01, "n_jobs": 1, "rng": np.random.RandomState(0)} | options
    return BoostingLearner(trees, task, X, **options)


def test_the_learner_takes_as_many_rounds_as_held_out_samples_choose():
    task, X = make_task("labels", "logistic", n=60)
    folds = folds_of_samples(task.weights, np.random.RandomState(0))
    learner = learner_of(task, X, Trees(max_iter=200, learning_rate=0.5, **SMALL), folds=folds)
    assert not learner.has_started
    losses = []
    assert learner.run(lambda loss: losses.append(loss)) == ""
    assert len(losses) == learner.rounds.n_rounds == learner.max_iter < 100
    assert len(learner.model().roots) == len(losses)
    fixed = learner_of(task, X, Trees(max_iter=200, **SMALL), n_rounds=7)
    fixed.run(lambda loss: False)
    assert len(fixed.model().roots) == 7


def test_noise_gets_no_rounds():
    task, X = make_task("labels", "logistic", n=60)
    X = RaggedArray(np.zeros_like(X.values), X.indptr)
    folds = folds_of_samples(task.weights, np.random.RandomState(0))
    learner = learner_of(task, X, Trees(max_iter=50), folds=folds)
    learner.run(lambda loss: False)
    assert np.ptp(learner.model().scores(X.values), axis=0).max() == 0.0


def test_interrupted_training_keeps_the_last_complete_round():
    task, X = make_task("chain", "crf", n=20)
    learner = learner_of(task, X, Trees(**SMALL))
    seen = []

    def on_iteration(loss):
        seen.append(learner.model().scores(X.values))
        return len(seen) == 3

    learner.run(on_iteration)
    assert len(seen) == 3
    assert_array_equal(learner.model().scores(X.values), seen[-1])
    booster = booster_of(task, X.values)
    booster.step()
    before = booster.model()

    def interrupt(*args):
        raise KeyboardInterrupt

    booster.task.loss_gradient = interrupt
    with pytest.raises(KeyboardInterrupt):
        booster.step()
    assert_array_equal(booster.model().scores(X.values), before.scores(X.values))
    assert_array_equal(booster.model().additional, before.additional)


def test_few_or_weightless_samples_are_not_held_out():
    rng = np.random.RandomState(0)
    assert folds_of_samples(np.ones(9), rng) == []
    (split,) = folds_of_samples(np.ones(1000), rng)
    assert [len(part) for part in split] == [800, 200]
    weights = np.where(np.arange(40) % 2, 1.0, 0.0)
    for train, held in folds_of_samples(weights, rng):
        assert (weights[train] > 0.0).all()
        assert (weights[held] > 0.0).all()


def test_an_interrupted_fit_keeps_the_last_complete_round(capsys):
    class Interrupting(Monitor):
        def on_iteration(self, loss):
            if len(self.losses) == 2:
                raise KeyboardInterrupt
            return super().on_iteration(loss)

    X = np.random.default_rng(0).normal(size=(40, 3))
    y = X[:, 0] > 0.0
    model = StructuredSparseMAPClassifier(score_model=Trees(max_iter=5, **SMALL), random_state=0, verbose=2)
    model.monitor_class = Interrupting
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.score_model_.roots) == 3
    assert model.score(X, y) > 0.8
    shown = capsys.readouterr().out
    assert "round on held-out samples 1, loss" in shown
    assert "round 2: loss" in shown


def test_models_that_files_cannot_hold_say_so():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = StructuredSparseMAPClassifier(score_model=Trees(estimator=Ridge(), max_iter=3), random_state=0)
    with pytest.raises(ValueError, match=r"RegressorsModel.*pickle it"):
        model.fit(X, X[:, 0] > 0.0).to_arrays()
    model.set_params(score_model=Trees(estimator=ExtraTreeRegressor(max_depth=3), max_iter=3))
    arrays = model.fit(X, X[:, 0] > 0.0).to_arrays()
    again = StructuredSparseMAPClassifier.from_arrays(arrays, score_model="trees")
    assert_array_equal(again.decision_function(X), model.decision_function(X))
