"""The state of a training: read, written, averaged."""

import pickle

import naive_training
import numpy as np
import pytest
from internals import replace
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.estimators import TrainingState, average_states
from sklearn_sparsemap.factors import AtMostOne, FactorGraph
from sklearn_sparsemap.score_models import Network


def chains(n, seed, n_features=6):
    """Sparse chains, so that shards do not see the same features."""
    rng = np.random.default_rng(seed)
    X = [sparse.random_array((int(k), n_features), density=0.3, rng=rng, format="csr") for k in rng.integers(1, 6, n)]
    return X, [np.where(x[:, [0]].toarray().ravel() > 0.2, "b", "a").tolist() for x in X]


def picks(n, seed):
    """Samples of a factor graph: at most one of three is on."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    return X, [(x[:, 0] == x[:, 0].max()) & (x[:, 0] > 0.3) for x in X]


GRAPH = FactorGraph()
U = GRAPH.variables(3)
GRAPH.add(AtMostOne(U))


def one_graph(x):
    return GRAPH


def sets(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (X > 0.2).astype(int)


LABELS = {"classes": ["a", "b"]}
CASES = {
    "adagrad": (StructuredSparseMAPClassifier("chain", alpha=1e-2), chains, LABELS),
    "adagrad, last weights": (StructuredSparseMAPClassifier("chain", average=False), chains, LABELS),
    "adagrad, pairs": (StructuredSparseMAPClassifier("chain", alpha=1e-2), chains, {"classes": ["a", "b", "c", "d"]}),
    "mira": (StructuredSparseMAPClassifier("chain", loss="hinge", solver="mira"), chains, LABELS),
    "groups": (GroupLassoPerceptron("chain", budget=3, shrink_every=7), chains, LABELS),
    "groups by strength": (GroupLassoPerceptron("chain", alpha=0.01, shrink_every=5), chains, LABELS),
    "graphs": (StructuredSparseMAPClassifier(one_graph), picks, {}),
    "network": (MultilabelLPSparseMAP(score_model=Network((4,), dropout=0.0), random_state=0), sets, {}),
}


@pytest.fixture(params=CASES)
def case(request, monkeypatch):
    if request.param == "adagrad, pairs":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 1)
    return CASES[request.param]


def learned(model):
    """Return all weights that a model predicts with."""
    if isinstance(model, MultilabelLPSparseMAP):
        return np.concatenate([a.ravel() for a in model._learned.model.arrays])
    current = model._current
    coef = current.coef.toarray() if sparse.issparse(current.coef) else current.coef
    return np.concatenate([coef.ravel(), current.intercept, current.additional])


@pytest.mark.parametrize("through_pickle", [False, True])
def test_training_goes_on_from_a_state(case, through_pickle):
    estimator, draw, classes = case
    model = clone(estimator).partial_fit(*draw(20, 0), **classes).partial_fit(*draw(15, 1))
    state = model.get_training_state()
    if through_pickle:
        state = pickle.loads(pickle.dumps(state))
    other = clone(estimator).set_training_state(state)
    np.testing.assert_allclose(learned(other), learned(model), atol=1e-13)
    for seed in (2, 3):
        model.partial_fit(*draw(9, seed))
        other.partial_fit(*draw(9, seed))
    np.testing.assert_allclose(learned(other), learned(model), atol=1e-12)
    assert np.abs(learned(model)).max() > 1e-3
    one, two = model.get_training_state(), other.get_training_state()
    assert one.counters == two.counters and one.n_steps >= 4
    np.testing.assert_allclose(other.loss_curve_, model.loss_curve_, atol=1e-12)
    assert other.n_iter_ == model.n_iter_ == len(model.loss_curve_) == 4
    assert sorted(one.dense) == sorted(two.dense)
    np.testing.assert_array_equal(one.indices, two.indices)
    if one.groups is not None:
        np.testing.assert_allclose(one.groups["norms"], two.groups["norms"], atol=1e-12)
        np.testing.assert_array_equal(one.groups["curve"], two.groups["curve"])
        assert (one.groups["kept"] == two.groups["kept"]).all()


def test_sums_are_those_of_the_weights_after_each_step():
    # The penalty is taken after a step.
    model, total = StructuredSparseMAPClassifier("chain", alpha=0.0, average=True), 0.0
    X, y = chains(12, 5)
    for x, labels in zip(X, y, strict=True):
        model.partial_fit([x], [labels], classes=["a", "b"])
        state = model.get_training_state()
        total = total + state.coef().toarray()
    np.testing.assert_allclose(state.coef("sums").toarray(), total, atol=1e-12)
    np.testing.assert_allclose(model.coef_.T, total / 12, atol=1e-12)
    with pytest.raises(ValueError, match="no slot 'first'; this state has 'weights'"):
        state.coef("first")


@pytest.mark.parametrize("with_start, share", [(False, None), (True, None), (True, 0.75)])
def test_averages_are_those_of_the_twin(case, with_start, share):
    estimator, draw, classes = case
    model = clone(estimator).partial_fit(*draw(10, 0), **classes)
    start = model.get_training_state() if with_start else None
    states, shares = [], [1.0, 2.5, 0.5]
    for seed in (1, 2, 3):
        worker = clone(estimator)
        if with_start:
            worker.set_training_state(start.without_history())
        states.append(worker.partial_fit(*draw(4 + seed, seed), **classes).get_training_state())
    found = average_states(states, shares, start, share)
    expected, n_steps = naive_training.averaged(states, shares, start, share)
    if found.optimizer == "adam":
        n_steps = max(state.n_steps for state in states)
    assert found.n_steps == n_steps
    n_compared = 0
    for slot, entries in expected.items():
        for place, value in zip(found.indices.tolist(), found.pairs.get(slot, ()), strict=bool(found.pairs)):
            assert value == pytest.approx(entries.pop(place), abs=1e-12)
            n_compared += 1
        for k, value in enumerate(found.dense[slot]):
            assert value == pytest.approx(entries.pop(("dense", k)), abs=1e-12)
            n_compared += 1
        assert not entries
    assert n_compared >= 9
    mixed = clone(estimator).set_training_state(found if with_start else states[0])
    mixed.partial_fit(*draw(5, 9))
    assert np.isfinite(learned(mixed)).all()


def test_a_worker_that_learns_nothing_leaves_no_trace():
    model = StructuredSparseMAPClassifier("chain").partial_fit(*chains(10, 0), classes=["a", "b"])
    start = model.get_training_state()
    same = average_states([start.without_history()] * 3, start=start)
    for slot in start.dense:
        np.testing.assert_allclose(same.dense[slot], start.dense[slot], rtol=1e-15)
        np.testing.assert_allclose(same.pairs[slot], start.pairs[slot], rtol=1e-15)
    assert same.n_steps == start.n_steps and same.progress == start.progress


def test_after_fit_the_state_begins_with_the_model():
    X, y = chains(10, 0)
    model = StructuredSparseMAPClassifier("chain", random_state=0).fit(X, y)
    state = model.get_training_state()
    assert state.n_steps == 0
    np.testing.assert_array_equal(state.coef().toarray(), model.coef_.T)
    np.testing.assert_array_equal(clone(model).set_training_state(state).coef_, model.coef_)


def test_what_is_wrong_is_said():
    model = StructuredSparseMAPClassifier("chain")
    with pytest.raises(NotFittedError):
        model.get_training_state()
    state = model.partial_fit(*chains(5, 0), classes=["a", "b"]).get_training_state()
    assert "optimizer='online'" in repr(state)
    with pytest.raises(ValueError, match="no training state of a MultilabelLPSparseMAP"):
        MultilabelLPSparseMAP().set_training_state(state)
    with pytest.raises(ValueError, match="no training state"):
        clone(model).set_training_state(None)
    bare = TrainingState(**{**vars(state), "attributes": {}})
    with pytest.raises(ValueError, match="has seen no data yet"):
        clone(model).set_training_state(bare)
    with pytest.raises(ValueError, match="no states to average"):
        average_states([])
    for weights in ([1.0], [0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must be 2 numbers"):
            average_states([state, state], weights)
    for fraction in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="fraction must be above 0"):
            average_states([state], fraction=fraction)
    other = clone(model).partial_fit(*chains(5, 0, n_features=7), classes=["a", "b"]).get_training_state()
    with pytest.raises(ValueError, match=r"states\[1\] has shape \(7, 2\), but states\[0\] has \(6, 2\)"):
        average_states([state, other])
