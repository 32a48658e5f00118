"""A classifier of scikit-learn as a score model: its gold indicators, its objective, and its learner."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from internals import (
    UNKNOWN,
    GraphTask,
    LabelGraph,
    LabelTask,
    OneLabel,
    OutOfFoldLearner,
    PartialTask,
    ScaleObjective,
    StructureTask,
    fit_out_of_fold,
)
from numpy.testing import assert_allclose, assert_array_equal
from samples import KINDS, make_chains, make_data
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.factors import AtMost, FactorGraph
from sklearn_sparsemap.losses import LOSSES, FenchelYoungLoss
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Segmentation, SequenceBudget, Simplex

M = 3
SMOOTH = [loss for loss in LOSSES if LOSSES[loss].argmax == "gibbs"]


def sequences(loss, structure=None, n=30, seed=0, temperature=1.0):
    X, y = make_chains(n, seed)
    X = RaggedArray.from_list(X)
    codes = np.searchsorted(["x", "y", "z"], np.concatenate(y))
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, n)
    task = StructureTask(structure or LinearChain(), X, M)
    return X, task.learn(RaggedArray(codes, X.indptr), weights, loss, temperature)


def partly_known(loss, n=30, seed=0):
    X, y = make_chains(n, seed)
    X = RaggedArray.from_list(X)
    codes = np.searchsorted(["x", "y", "z"], np.concatenate(y))
    codes[np.random.default_rng(seed).random(len(codes)) < 0.3] = UNKNOWN
    return X, PartialTask(LinearChain(), X, M).learn(RaggedArray(codes, X.indptr), np.ones(n), loss)


def structures(kind, loss, n=20):
    structure = DependencyTree(n_labels=2) if kind == "labelled tree" else KINDS[kind]
    X, y = make_data(structure, n)
    shapes = [x.shape[:-1] for x in X]
    X = RaggedArray.from_list([x.reshape(-1, x.shape[-1]) for x in X])
    X = RaggedArray(X.values, X.indptr, shapes=shapes)
    return X, StructureTask(structure, X, structure.in_estimators.row_outputs or 1).learn(y, np.ones(n), loss)


def label_sets(loss, known=False, single=False, n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    gold = (X[:, :M] + 0.5 * rng.normal(size=(n, M)) > 0.2).astype(float)
    graph = OneLabel(M) if single else LabelGraph(M, np.array([[0, 1], [1, 2]])[: 0 if known or loss == "crf" else 2])
    if single:
        gold = np.eye(M)[gold.argmax(axis=1)]
    mask = rng.random(gold.shape) < 0.7 if known else None
    loss = {"crf": "logistic"}.get(loss, loss)
    return RaggedArray(X, np.arange(n + 1)), LabelTask(graph, loss, 1.0, gold, rng.uniform(0.5, 1.5, n), known=mask)


def graphs(loss, n=20, categorical=False):
    rng = np.random.default_rng(0)
    graph = FactorGraph()
    if categorical:
        graph.categorical(4, n_states=M, name="colours")
        gold = list(rng.integers(M, size=(n, 4)))
        signals = np.eye(M)[np.array(gold)].reshape(-1, M)
    else:
        graph.add(AtMost(graph.variables(4), 2))
        gold = [rng.permutation([1, 1, 0, 0]) for _ in range(n)]
        signals = np.array(gold, float).reshape(-1, 1)
    X = signals + 0.5 * rng.normal(size=signals.shape)
    row_ptr = np.arange(n + 1) * 4
    task = GraphTask(row_ptr, [graph] * n, [graph.layout({})] * n, {}, signals.shape[1])
    return RaggedArray(X, row_ptr), task.learn(gold, np.ones(n), loss, 1.0)


def flat(loss, n=40):
    rng = np.random.default_rng(0)
    codes = rng.integers(M, size=n)
    X = RaggedArray(np.eye(4)[codes] + 0.7 * rng.normal(size=(n, 4)), np.arange(n + 1))
    return X, StructureTask(Simplex(), X, M).learn(list(codes), np.ones(n), loss)


# Samples of every kind: a function of the loss, and whether each row has exactly one label.
TASKS = {
    "chain": (sequences, True),
    "segments": (lambda loss: sequences(loss, Segmentation(8)), True),
    "budget": (lambda loss: sequences(loss, SequenceBudget(8, 0)), True),
    "partly known": (partly_known, True),
    "flat": (flat, True),
    "label sets": (label_sets, False),
    "partly known sets": (lambda loss: label_sets(loss, known=True), False),
    "one label": (lambda loss: label_sets(loss, single=True), True),
    "graph": (graphs, False),
    "categorical graph": (lambda loss: graphs(loss, categorical=True), True),
    "labelled tree": (lambda loss: structures("labelled tree", loss), False),
    **{kind: (lambda loss, kind=kind: structures(kind, loss), False) for kind in KINDS},
}


def estimator(**parameters):
    """Return the parameters of an estimator that learners read."""
    return SimpleNamespace(**{"n_jobs": None, "verbose": 0, **parameters})


def learner(task, scores, model, **parameters):
    given = {"alpha": 0.01, "tol": 1e-5, "max_iter": 500, "n_jobs": None, "fit_intercept": True, **parameters}
    return OutOfFoldLearner(task, scores, model, **given)


def never(loss):
    return False


@pytest.mark.parametrize("kind", TASKS)
def test_gold_indicators_are_the_marginals_minus_the_residuals(kind):
    make, is_single = TASKS[kind]
    X, task = make("sparsemap")
    gold, single = task.gold_rows()
    assert single == is_single and gold.shape == (len(X.values), task.n_outputs)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=gold.shape)
    additional = np.zeros(task.n_additional)
    weights = task.row_weights[:, None]
    marginals, *_ = task.marginals(scores, additional, None)
    _, residuals, *_ = task.loss_gradient(scores.copy(), additional, None)
    is_known = ~np.isnan(gold)
    expected = marginals - residuals / weights
    if kind == "partly known":
        # The marginals of completions agree with the known labels.
        assert not is_known.all() and is_known.any()
    if kind == "partly known sets":
        assert not is_known.all()
    assert_allclose(expected[is_known], gold[is_known], atol=1e-6)
    assert kind == "ranking" or set(np.unique(gold[is_known])) == {0.0, 1.0}
    if single:
        assert (gold[is_known.all(axis=1)].sum(axis=1) == 1.0).all()


def test_weights_of_steps_are_those_of_rows():
    X, task = sequences("crf")
    task.step_weights = np.random.default_rng(0).uniform(size=len(X.values))
    assert_allclose(task.row_weights, np.repeat(task.weights, X.lengths) * task.step_weights)


KINDS_OF_GRADIENTS = {
    "chain": LOSSES,
    "partly known": [loss for loss in LOSSES if not LOSSES[loss].margin],
    "flat": LOSSES,
    "label sets": ["sparsemap", "hinge", "crf"],
    "graph": [loss for loss in LOSSES if loss not in SMOOTH],
    "matching": [loss for loss in LOSSES if loss not in SMOOTH],
    "labelled tree": LOSSES,
}


@pytest.mark.parametrize(("kind", "loss"), [(k, loss) for k, losses in KINDS_OF_GRADIENTS.items() for loss in losses])
def test_gradients_are_differences(kind, loss):
    X, task = TASKS[kind][0](loss)
    rng = np.random.default_rng(0)
    given = rng.normal(size=(len(X.values), task.n_outputs))
    objective = ScaleObjective(task, given, alpha=0.3, learns_scale=True, fit_intercept=True, n_jobs=None)
    _, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    model.scale = 0.7
    model.bias = rng.normal(size=task.n_outputs)
    model.additional = rng.normal(size=task.n_additional)
    vector = objective.pack(model)
    assert objective.unpack(vector).scale == 0.7 and len(vector) == len(objective.penalised)
    _, gradient = objective.loss_gradient(vector)
    step = 1e-6
    for _ in range(5):
        way = rng.normal(size=len(vector))
        values = [objective.loss_gradient(vector + sign * step * way)[0] for sign in (1.0, -1.0)]
        assert (values[0] - values[1]) / (2.0 * step) == pytest.approx(gradient @ way, abs=1e-4)
    held = ScaleObjective(task, given, alpha=0.3, learns_scale=False, fit_intercept=False, n_jobs=None)
    held.pack(model)
    held_gradient = held.loss_gradient(vector)[1]
    assert not held_gradient[: 1 + task.n_outputs].any()
    assert_allclose(held_gradient[1 + task.n_outputs :], gradient[1 + task.n_outputs :], atol=1e-6)


def naive_objective(task, scores, gold, temperature, alpha, loss):
    """Return a function of scale, biases and transitions, by a loop over samples."""
    own = FenchelYoungLoss(LinearChain(), loss, temperature=temperature)
    samples = [slice(a, b) for a, b in zip(task.row_ptr, task.row_ptr[1:])]

    def value(vector):
        scale, bias, additional = vector[0], vector[1 : M + 1], vector[M + 1 :]
        names = {"transitions": additional[: M * M].reshape(M, M), "start": additional[M * M : -M]}
        names["end"] = additional[-M:]
        total = sum(
            weight * own.loss_gradient(scale * scores[rows] + bias, gold[rows], **names)[0]
            for weight, rows in zip(task.weights, samples)
        )
        return total / task.weights.sum() + 0.5 * alpha * additional @ additional

    return value


@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("loss", ["crf", "sparsemap", "margin_sparsemap", "hinge"])
def test_the_learner_finds_the_minimum_of_the_naive_objective(loss, temperature):
    # The slow twin of the sums over all sequences takes ten times as long as the others.
    X, task = sequences(loss, temperature=temperature, n=6 if loss == "crf" else 12)
    scores, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    model.scale = temperature
    own = learner(task, scores, model, alpha=0.05)
    assert not own.has_started
    assert own.run(never) == "" and own.has_started
    found = own.model()
    gold = task.gold_rows()[0].argmax(axis=1)
    value = naive_objective(task, scores, gold, temperature, 0.05, loss)
    vector = np.concatenate([[found.scale], found.bias, found.additional])
    assert own.losses[-1] == pytest.approx(value(vector), abs=1e-6)
    start = np.concatenate([[temperature], np.zeros(len(vector) - 1)])
    if loss in SMOOTH:
        assert own.losses[-1] <= minimize(value, start).fun + 1e-5
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            assert value(vector + size * rng.normal(size=len(vector))) >= own.losses[-1] - 1e-4
    assert own.losses[-1] < value(start) - 0.01
    assert found.fitted is model.fitted and found.public is model.public


def test_the_perceptron_keeps_the_scale_and_a_negative_scale_is_zero():
    X, task = sequences("perceptron")
    scores, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    own = learner(task, scores, model)
    own.run(never)
    assert own.model().scale == 1.0 and own.model().additional.any()
    assert own.losses[-1] < task.loss_gradient(scores.copy(), np.zeros(task.n_additional), None)[0]
    _, task = sequences("sparsemap")
    own = learner(task, -scores, model)
    own.run(never)
    assert own.model().scale == 0.0 and own.model().additional.any()


def test_samples_with_unknown_labels_are_learned_by_upper_bounds():
    X, task = partly_known("sparsemap")
    scores, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    own = learner(task, scores, model)
    own.run(never)
    found = own.model()
    vector = np.concatenate([[found.scale], found.bias, found.additional])
    objective = ScaleObjective(task, scores, alpha=0.01, learns_scale=True, fit_intercept=True, n_jobs=None)
    objective.pack(found)
    value = objective.loss_gradient(vector)[0]
    assert own.losses[-1] == pytest.approx(value, abs=1e-3)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert objective.loss_gradient(vector + 1e-3 * rng.normal(size=len(vector)))[0] >= value - 1e-4
    # Scores of zero are a kink, at which L-BFGS finds no step.
    X, task = partly_known("sparsemap", 12, 1)
    own = learner(task, np.zeros((len(X.values), M)), model)
    own.run(never)
    assert own.losses[-1] < own.losses[0] - 0.1


@pytest.mark.parametrize("loss", ["sparsemap", "hinge", "crf"])
@pytest.mark.parametrize("single", [False, True])
def test_label_sets_have_a_learner(loss, single):
    X, task = label_sets(loss, single=single)
    scores, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    own = learner(task, scores, model)
    own.run(never)
    start = task.loss_gradient(scores.copy(), np.zeros(task.n_additional), None)[0] / task.weights.sum()
    assert own.losses[-1] < start and own.model().scale > 0.0


def test_training_can_be_stopped_and_reports_what_it_does(capsys):
    X, task = sequences("crf")
    scores, model = fit_out_of_fold(GaussianNB(), estimator(verbose=1), task, X, np.random.RandomState(0))
    assert capsys.readouterr().out.count("scores out of fold") == 5
    own = learner(task, scores, model)
    assert own.run(lambda loss: len(own.losses) == 2) == "" and len(own.losses) == 2
    own.restart(0.5)
    assert not own.has_started
    short = learner(task, scores, model, max_iter=1, tol=1e-12)
    assert "raise max_iter" in short.run(never)


@pytest.mark.parametrize("kind", TASKS)
def test_scores_of_every_task_are_out_of_fold(kind):
    X, task = TASKS[kind][0]("sparsemap")
    gold, single = task.gold_rows()
    if kind == "ranking":
        with pytest.raises(ValueError, match="pass a regressor"):
            fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
        scores, _ = fit_out_of_fold(Ridge(), estimator(), task, X, np.random.RandomState(0))
        assert np.corrcoef(scores.ravel(), gold.ravel())[0, 1] > 0.5
        return
    scores, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    assert scores.shape == gold.shape and np.isfinite(scores).all()
    assert model.sizes == (X.values.shape[1], task.n_outputs, task.n_additional)
    assert_array_equal(model.scores(X.values), model.fitted.scores(X.values))
    assert model.scores(X.values[:0]).shape == (0, task.n_outputs)
    if single:
        assert len(model.estimators) == 1 and np.exp(model.scores(X.values)).sum(axis=1) == pytest.approx(1.0, abs=0.01)
    assert model.supports == frozenset()
    copied = model.copy()
    copied.bias += 1.0
    copied.additional += 1.0
    assert not model.bias.any() and not model.additional.any()
    again = pickle.loads(pickle.dumps(copied))
    assert_array_equal(again.scores(X.values), model.scores(X.values) + 1.0)
    copied.bias = np.zeros(task.n_outputs + 1)
    with pytest.raises(ValueError, match="but the classifier scores"):
        copied.sizes  # noqa: B018


class Recorder(ClassifierMixin, BaseEstimator):
    """Records what fits and predictions are given."""

    calls = []

    def __init__(self, random_state=None, n_jobs=None, class_weight=None):
        self.random_state, self.n_jobs, self.class_weight = random_state, n_jobs, class_weight

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        Recorder.calls.append((self.random_state, self.n_jobs, self.class_weight, len(y), sample_weight))
        return self

    def predict_proba(self, X):
        return np.full((len(X), len(self.classes_)), 1.0 / len(self.classes_))


def test_seeds_threads_and_weights_are_handed_on():
    X, task = sequences("crf")

    def calls(model, task=task, **parameters):
        Recorder.calls = []
        fit_out_of_fold(model, estimator(**parameters), task, X, np.random.RandomState(0))
        return Recorder.calls

    own = calls(Recorder(), n_jobs=2)
    seeds, n_jobs, _, n_rows, weights = zip(*own)
    assert len(own) == 6 and len(set(seeds)) == 6 and set(n_jobs) == {2} and sum(n_rows[:5]) == 4 * len(X.values)
    assert_array_equal(weights[5], task.row_weights)
    assert [call[0] for call in calls(Recorder())] == list(seeds)
    seeds, n_jobs, *_ = zip(*calls(Recorder(7, 3), n_jobs=2))
    assert set(seeds) == {7} and set(n_jobs) == {3}
    seeds, n_jobs, *_, weights = zip(*calls(make_pipeline(StandardScaler(), Recorder()), n_jobs=2))
    assert len(set(seeds)) == 6 and set(n_jobs) == {2}
    assert_array_equal(weights[5], task.row_weights)
    # Weights of classes are given by names, and labels are learned as numbers.
    own = calls(Recorder(class_weight={"x": 2.0, "z": 0.5}), classes_=np.array(["x", "y", "z"]))
    assert own[5][2] == {0: 2.0, 2: 0.5}
    equal = task.copy()
    equal.weights = np.ones(len(X))
    assert all(call[4] is None for call in calls(Recorder(), equal))
    # Samples without weight are not learned.
    equal.weights[:3] = 0.0
    assert calls(Recorder(), equal)[5][3] == X.indptr[-1] - X.indptr[3]


def test_folds_depend_on_the_content_of_samples():
    X, task = sequences("crf")
    rng = np.random.default_rng(0)
    scores, _ = fit_out_of_fold(GaussianNB(), estimator(), task, X, None)
    order = rng.permutation(len(X))
    moved, _ = fit_out_of_fold(GaussianNB(), estimator(), task.take(order), X[order], None)
    assert_allclose(moved, RaggedArray(scores, X.indptr)[order].values, rtol=1e-6)
    # Weights are repetitions, and weights of zero no samples.
    times = rng.integers(3, size=len(X))
    task.weights = times.astype(float)
    weighted, model = fit_out_of_fold(GaussianNB(), estimator(), task, X, None)
    places = np.repeat(np.arange(len(X)), times)
    task.weights = np.ones(len(X))
    repeated, other = fit_out_of_fold(GaussianNB(), estimator(), task.take(places), X[places], None)
    assert_allclose(repeated, RaggedArray(weighted, X.indptr)[places].values, rtol=1e-6)
    assert_allclose(model.scores(X.values), other.scores(X.values), rtol=1e-6)


def test_weights_that_a_classifier_cannot_take_are_announced():
    X, task = sequences("crf")
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        fit_out_of_fold(KNeighborsClassifier(3), estimator(), task, X, np.random.RandomState(0))


def test_fitted_classifiers_are_used_as_they_are():
    X, task = sequences("crf")
    names = np.array(["x", "y", "z"])
    labels = names[task.gold_rows()[0].argmax(axis=1)]
    fitted = LogisticRegression().fit(X.values, labels)
    given = estimator(classes_=names)
    scores, model = fit_out_of_fold(FrozenEstimator(fitted), given, task, X, None)
    assert model.public.estimator is fitted
    p = fitted.predict_proba(X.values)
    assert_allclose(scores, np.log(1e-3 + 0.998 * p))
    # The labels of a stream have any order.
    order = [2, 0, 1]
    moved, _ = fit_out_of_fold(FrozenEstimator(fitted), estimator(classes_=names[order]), task, X, None)
    assert_array_equal(moved, scores[:, order])
    other = LogisticRegression().fit(X.values, np.where(labels == "x", "w", labels))
    with pytest.raises(ValueError, match="must have the labels of y as its classes; only one of the two has 'w', 'x'"):
        fit_out_of_fold(FrozenEstimator(other), given, task, X, None)
    X, task = structures("tree", "sparsemap")
    parts = task.gold_rows()[0].ravel()
    fitted = LogisticRegression().fit(X.values, parts > 0)
    scores, _ = fit_out_of_fold(FrozenEstimator(fitted), estimator(), task, X, None)
    assert (scores[parts > 0].mean() - scores[parts == 0].mean()) > 0.5
    with pytest.raises(ValueError, match="must have the classes 0 and 1"):
        wrong = LogisticRegression().fit(X.values, np.where(parts > 0, "in", "out"))
        fit_out_of_fold(FrozenEstimator(wrong), estimator(), task, X, None)


def test_forests_and_regressors_of_label_sets_are_fitted_once():
    X, task = label_sets("sparsemap")
    for model in (RandomForestClassifier(5), Ridge()):
        scores, found = fit_out_of_fold(model, estimator(), task, X, np.random.RandomState(0))
        assert len(found.estimators) == 1 and found.public is found.estimators[0]
        gold = task.gold_rows()[0]
        assert all(scores[gold[:, k] == 1.0, k].mean() > scores[gold[:, k] == 0.0, k].mean() for k in range(M))
    _, found = fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
    assert len(found.public) == M


def test_a_single_sample_cannot_be_held_out():
    X, task = sequences("crf", n=1)
    with pytest.raises(ValueError, match=r"needs at least two different samples.*n_samples=1"):
        fit_out_of_fold(GaussianNB(), estimator(), task, X, np.random.RandomState(0))
