"""Training on few long sequences: the choice of the solver, the end of training, and the default strength."""

import warnings

import numpy as np
import pytest
from internals import Inference, StructureTask
from sklearn.exceptions import ConvergenceWarning

from sklearn_sparsemap import RaggedArray, StructuredGroupLasso, StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap.structures import LinearChain


class Paths(LinearChain):
    """A chain that only the active set solves."""

    polytope_solver = None


def recordings(n_steps, noise, n=6, n_labels=3):
    """Return recordings whose labels stay for ten steps; without noise the features say nothing."""
    rng = np.random.default_rng(0)
    y = [np.repeat(rng.integers(n_labels, size=n_steps // 10), 10) for _ in range(n)]
    signal = 0.0 if noise is None else 1.0 / noise
    return [signal * np.eye(n_labels, 4)[z] + rng.normal(size=(n_steps, 4)) for z in y], y


@pytest.fixture
def prepared(monkeypatch):
    """Return a list that grows whenever training gets the specialised solver."""
    calls, original = [], Inference.prepare
    monkeypatch.setattr(Inference, "prepare", lambda self, memory: (calls.append(self), original(self, memory))[1])
    return calls


KINDS = {
    "lbfgs": lambda: StructuredSparseMAPClassifier("chain", max_iter=30),
    "adagrad": lambda: StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=5, random_state=0),
    "margin": lambda: StructuredSparseMAPClassifier("chain", "margin_sparsemap", max_iter=30),
    "partial": lambda: StructuredSparseMAPClassifier("chain", max_iter=30),
    "groups": lambda: StructuredGroupLasso("chain", alpha=0.5, max_iter=30),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_training_leave_the_active_set_where_it_is_slow(kind, prepared):
    X, y = recordings(60, None)
    if kind == "partial":
        y = [[None, *labels[1:].tolist()] for labels in y]
    model = KINDS[kind]().fit(X, y)
    # Rough inference of online training seldom needs it.
    assert len(prepared) <= 1 if kind == "adagrad" else len(prepared) == 1
    if kind in ("lbfgs", "adagrad"):
        twin = KINDS[kind]().set_params(structure=Paths()).fit(X, y)
        assert model.loss_curve_[-1] == pytest.approx(twin.loss_curve_[-1], rel=2e-3)


def test_informative_features_compile_no_other_solver(prepared):
    X, y = recordings(60, 0.2)
    StructuredSparseMAPClassifier("chain").fit(X, y)
    assert not prepared


# The second fit asks for more than rounding allows.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lbfgs_at_kinks_ends_near_the_minimum_in_few_evaluations():
    X, y = recordings(60, None)
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    best = StructuredSparseMAPClassifier("chain", tol=1e-6).fit(X, y)
    assert model.loss_curve_[-1] < best.loss_curve_[-1] * (1.0 + 5e-4)
    assert model.n_iter_ < 60


@pytest.mark.parametrize(("n_labels", "spread"), [(3, 0.3), (5, 0.3), (10, 1.0)])
def test_a_warm_start_of_the_flow_changes_no_loss(n_labels, spread):
    rng = np.random.default_rng(0)
    X = RaggedArray(rng.normal(size=(200, 4)), np.arange(0, 201, 50))
    gold = RaggedArray(np.repeat(rng.integers(n_labels, size=20), 10), X.indptr)

    def new_task():
        task = StructureTask(LinearChain(), X, n_labels).learn(gold, np.ones(4), "sparsemap")
        task.inference.prepare(task._of_all_samples[1])
        return task

    warm, n_warm = new_task(), 0
    scores, additional = spread * rng.normal(size=(200, n_labels)), 0.1 * rng.normal(size=warm.n_additional)
    for step in range(12):
        n_warm += int((warm._of_all_samples[1].n_facets > 0).sum())
        loss, residuals, joined, _ = warm.loss_gradient(scores.copy(), additional, 1)
        cold_loss, cold_residuals, cold_joined, _ = new_task().loss_gradient(scores.copy(), additional, 1)
        assert loss == pytest.approx(cold_loss, rel=1e-9)
        np.testing.assert_allclose(residuals, cold_residuals, atol=1e-5)
        np.testing.assert_allclose(joined, cold_joined, atol=1e-4)
        scale = 0.1 if step == 6 else 0.01
        scores = scores + scale * rng.normal(size=scores.shape)
        additional = additional + scale * rng.normal(size=additional.shape)
    assert n_warm > 20


def test_neighbours_do_not_undo_the_pivots_of_each_other_forever():
    rng = np.random.default_rng(0)
    n_solved = 0
    for _ in range(5):
        scores = 0.5 * rng.normal(size=(320, 6))
        transitions = 2.0 * np.eye(6) + 0.05 * rng.normal(size=(6, 6))
        found = sparsemap(LinearChain(), scores, transitions=transitions, solver="flow")
        n_solved += int(found.n_iter) < 600
    assert n_solved == 5


@pytest.mark.parametrize(("n_steps", "n_labels", "noise"), [(20, 6, None), (80, 4, 3.0), (80, 6, 3.0), (80, 6, None)])
def test_the_default_fit_needs_few_evaluations_if_features_tell_little(n_steps, n_labels, noise):
    X, y = recordings(n_steps, noise, n=10, n_labels=n_labels)
    X = [np.hstack([x, x[:, :1] ** 2]) for x in X]
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    best = StructuredSparseMAPClassifier("chain", tol=3e-5).fit(X, y)
    assert model.loss_curve_[-1] < best.loss_curve_[-1] * (1.0 + 5e-4)
    assert model.n_iter_ < 150


def test_recordings_have_a_weaker_default_penalty():
    strengths = {}
    for n_steps in (30, 320):
        X, y = recordings(n_steps, 1.0)
        y = [np.repeat([0, 1], n_steps // 2) for _ in y]
        for loss in ("sparsemap", "crf", "margin_sparsemap"):
            model = StructuredSparseMAPClassifier("chain", loss, max_iter=1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                strengths[loss, n_steps] = model.fit(X, y).alpha_ / np.var(np.vstack(X), axis=0).sum()
    for loss, factor in (("sparsemap", 0.01), ("margin_sparsemap", 0.01)):
        assert strengths[loss, 320] == pytest.approx(factor * strengths[loss, 30])
    assert strengths["crf", 320] > strengths["crf", 30]


@pytest.mark.parametrize("loss", ["sparsemap", "perceptron", "hinge"])
def test_documents_have_the_penalty_and_the_epochs_of_their_sentences(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 16, 4)), rng.integers(3, size=(40, 16))
    model, joined = (StructuredSparseMAPClassifier("chain", loss, max_iter=1) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(list(X), list(y))
        joined.fit(list(X.reshape(4, 160, 4)), list(y.reshape(4, 160)))
    # There are a tenth as many samples, each with ten times the loss.
    assert joined.alpha_ == pytest.approx(10.0 * model.alpha_)


def test_a_recording_counts_as_often_as_its_weight():
    X, y = recordings(100, 1.0, n=4)
    # Labels of the last one change at each step.
    y[-1] = np.arange(100) % 3
    weights = np.array([3.0, 2.0, 1.0, 1.0])
    model, twin = (StructuredSparseMAPClassifier("chain", max_iter=1) for _ in range(2))
    repeated = [i for i, weight in enumerate(weights) for _ in range(int(weight))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y, sample_weight=weights)
        twin.fit([X[i] for i in repeated], [y[i] for i in repeated])
    assert _factor(model, X, weights) == pytest.approx(_factor(twin, [X[i] for i in repeated], np.ones(7)))
    assert _factor(model, X, weights) > 1.0


def _factor(model, X, weights):
    """Return the factor by which the penalty is weaker than the usual one."""
    steps = np.repeat(weights, [len(x) for x in X])
    rows = np.vstack(X)
    mean = np.average(rows, axis=0, weights=steps)
    variance = np.average((rows - mean) ** 2, axis=0, weights=steps).sum()
    return np.sqrt(0.15 * variance / weights.sum() / model.alpha_)


def test_adagrad_does_not_stop_early_on_few_long_samples_without_a_word():
    X, y = recordings(300, 3.0, n=5)
    best = StructuredSparseMAPClassifier("chain").fit(X, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0).fit(X, y)
    assert model.n_iter_ > 18
    assert model.loss_curve_[-1] < 1.1 * best.loss_curve_[-1] or any(
        issubclass(each.category, ConvergenceWarning) for each in caught
    )
