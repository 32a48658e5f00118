"""Streams whose labels or features change: averages over the last part, evidence of changes, bounded records."""

import io
import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from internals import OnlineOptimizer, replace
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier
from sklearn.multioutput import MultiOutputClassifier

from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.estimators import average_states
from sklearn_sparsemap.factors import AtMost, FactorGraph, Implies, Pair
from sklearn_sparsemap.score_models import Network

N_BATCHES, SIZE, N_FEATURES = 100, 50, 6
CHANGES = ("sudden", "gradual", "recurring", "new labels", "scale")
LOSSES = ("sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf")


@cache
def path(n):
    graph = FactorGraph()
    u = graph.variables(n, name="u")
    graph.add(Pair(u[:-1], u[1:], name="same", tied=True))
    return graph


def graph_of(x):
    return path(len(x))


def batches(change, length=1, seed=0, kind="dense", n_batches=N_BATCHES):
    """Yield mini-batches of a stream that changes in its middle; with a length, of sequences."""
    rng = np.random.default_rng(seed)
    weights, half = rng.normal(size=(2, N_FEATURES, 3)), n_batches // 2
    for k in range(n_batches):
        fraction = {"sudden": k >= half, "recurring": k // (half // 2) % 2}.get(change, 0.0)
        if change == "gradual":
            fraction = np.clip((k - half) / 20, 0.0, 1.0)
        X = rng.normal(size=(SIZE * length, N_FEATURES))
        which = (rng.random(len(X)) < fraction).astype(int)
        scores = np.einsum("nf,nfl->nl", X, weights[which]) + 0.5 * rng.normal(size=(len(X), 3))
        scores[:, 2] = scores[:, 2] if change == "new labels" and k >= half else -np.inf
        y, X = scores.argmax(axis=1), X * (10.0 if change == "scale" and k >= half else 1.0)
        X = sparse.csr_array(X) if kind == "csr" else X
        yield (X, y) if length == 1 else (np.split(X, SIZE), np.split(y, SIZE))


def curve_of(model, stream, classes=(0, 1), flat=False, **options):
    """Return the accuracy on each mini-batch before it is learned, except the first."""
    found = []
    for number, (X, y) in enumerate(stream):
        if flat and isinstance(X, list):
            X, y = np.vstack(X), np.concatenate(y)
        if number:
            found.append(np.mean([np.mean(a == b) for a, b in zip(model.predict(X), y, strict=True)]))
        model.partial_fit(X, y, **({} if classes is None else {"classes": list(classes)}), **options)
    return np.array(found)


def summary(curve, change):
    """Return the accuracy before the change, ten batches after it, and at the end."""
    half = N_BATCHES // 2
    first, last = {"gradual": (half, half + 20), "recurring": (half // 2, half + half // 2)}.get(change, (half, half))
    return curve[first - 15 : first - 1].mean(), curve[last + 7 : last + 12].mean(), curve[-15:].mean()


@cache
def summary_of_peer(change, length, kind="dense"):
    """Return the summary of plain stochastic gradient descent, the same for all models of one stream."""
    classes = (0, 1, 2) if change == "new labels" or kind == "csr" else (0, 1)
    peer = SGDClassifier(loss="log_loss", random_state=0)
    return summary(curve_of(peer, batches(change, length, kind=kind), classes, flat=True), change)


def model_of(name, average="recent"):
    kind, _, loss = name.partition(" ")
    structure = {"flat": "auto", "chain": "chain", "graph": graph_of, "csr": "auto"}.get(kind)
    if kind == "groups":
        return GroupLassoPerceptron(budget=3, average=average)
    solver = "mira" if loss == "mira" else "auto"
    loss = "hinge" if loss == "mira" else loss
    return StructuredSparseMAPClassifier(structure, loss=loss, solver=solver, average=average)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *((name, change) for name in ("flat sparsemap", "flat mira", "chain crf") for change in CHANGES),
        *((f"flat {loss}", "sudden") for loss in LOSSES[1:]),
        *((name, "sudden") for name in ("chain sparsemap", "chain mira", "csr sparsemap")),
    ],
)
def test_streams_recover_from_changes(name, change, monkeypatch):
    kind, length = ("csr" if name.startswith("csr") else "dense"), 4 if name.startswith("chain") else 1
    if kind == "csr":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 1)
    classes = (0, 1, 2) if change == "new labels" or kind == "csr" else (0, 1)
    stream = list(batches(change, length, kind=kind))
    model = model_of(name)
    ours = summary(curve_of(model, stream, classes), change)
    all_steps = summary(curve_of(model_of(name, True), stream, classes), change)
    peer = summary_of_peer(change, length, kind)
    assert ours[0] > all_steps[0] - 0.01
    assert ours[1] > peer[1] - 0.1 and ours[2] > peer[2] - 0.05
    assert change not in ("sudden", "gradual") or ours[1] > all_steps[1] + 0.1
    assert sparse.issparse(model.coef_) == (kind == "csr")


@pytest.mark.parametrize("name", ["groups", "graph sparsemap"])
def test_groups_and_graphs_recover_from_a_sudden_change(name):
    length = 4 if name.startswith("graph") else 1
    stream = list(batches("sudden", length))
    ours = summary(curve_of(model_of(name), stream, None if length > 1 else (0, 1)), "sudden")
    peer = summary_of_peer("sudden", length)
    assert ours[1] > peer[1] - 0.1 and ours[2] > peer[2] - 0.05


def label_batches(seed, size, n_samples=2000, drifts=False):
    rng = np.random.default_rng(seed)
    X, weights = rng.normal(size=(n_samples, 8)), rng.normal(size=(2, 8, 5))
    scores = X @ weights[0]
    if drifts:
        scores[n_samples // 2 :] = X[n_samples // 2 :] @ weights[1]
    Y = (scores + 0.5 * rng.normal(size=scores.shape) > 0.8).astype(int)
    return [(X[k : k + size], Y[k : k + size]) for k in range(0, n_samples, size)]


@pytest.mark.parametrize(("size", "drifts"), [(10, False), (50, False), (500, False), (50, True)])
def test_streams_of_label_sets_are_as_good_as_independent_peers(size, drifts):
    for seed in (3, 4):
        stream = label_batches(seed, size, drifts=drifts)
        peer = MultiOutputClassifier(SGDClassifier(loss="log_loss", random_state=0))
        theirs = curve_of(peer, stream, [np.array([0, 1])] * 5)
        ours = curve_of(MultilabelLPSparseMAP(random_state=0), stream, None)
        assert ours.mean() >= theirs.mean() - 0.02 * drifts
        if drifts:
            half = len(stream) // 2
            assert ours[half + 7 : half + 12].mean() > theirs[half + 7 : half + 12].mean() - 0.1


def test_default_rounds_of_mixing_are_as_good_as_fit():
    (X, Y), (X_test, Y_test) = (label_batches(seed, 3000, 3000)[0] for seed in (5, 5))
    X, Y, X_test, Y_test = X[:2000], Y[:2000], X_test[2000:], Y_test[2000:]
    fitted = MultilabelLPSparseMAP(score_model="linear").fit(X, Y)
    mixed = ParameterMixing(MultilabelLPSparseMAP(random_state=0), random_state=0).fit(X, Y)
    assert np.mean(mixed.predict(X_test) == Y_test) >= 0.99 * np.mean(fitted.predict(X_test) == Y_test)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("solver", ["adagrad", "mira"])
def test_an_average_has_the_weights_of_its_steps(kind, solver, monkeypatch):
    """A slow twin: the weights after each step times the weight of the step, by their definition."""
    if kind == "csr":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 1)
    options = {"loss": "hinge", "solver": solver} if solver == "mira" else {"alpha": 0.0}
    mean = StructuredSparseMAPClassifier(average="recent", **options)
    current, total, clock, window, n_restarts = clone(mean).set_params(average=False), 0.0, 0.0, 0.0, 0
    growth = 1.0
    # The step sizes of both models must be equal.
    monkeypatch.setattr(OnlineOptimizer, "_fade", lambda self, n_steps: None)
    for X, y in batches("sudden", kind=kind, n_batches=50):
        X, y = X[:12], y[:12]
        mean.partial_fit(X, y, classes=[0, 1, 2])
        restarted = mean._learned.optimizer.recency.window < window
        n_restarts += restarted
        window, growth = (1.0, 3.0) if restarted else (window, growth)
        rate = clock * ((1.0 + len(y) / window) ** growth - 1.0) / len(y) if window else 1.0
        window += len(y)
        for i in range(len(y)):
            current.partial_fit(X[i : i + 1], y[i : i + 1], classes=[0, 1, 2])
            clock += rate
            total = total + rate * (current.coef_.toarray() if kind == "csr" else current.coef_)
        found = mean.coef_.toarray() if kind == "csr" else mean.coef_
        np.testing.assert_allclose(found, total / clock, rtol=1e-7, atol=1e-9)
    assert n_restarts >= 1


def saved(model, how):
    if how == "pickle":
        return pickle.loads(pickle.dumps(model))
    if how == "state":
        return clone(model).set_training_state(model.get_training_state())
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    return type(model).from_arrays(np.load(file))


def test_a_training_state_shares_nothing_and_leaves_nothing():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, "yes", "no")
    fitted = StructuredSparseMAPClassifier("auto", solver="adagrad", early_stopping=True, tol=1.0).fit(X, y)
    stream = StructuredSparseMAPClassifier("auto").partial_fit(X, y, classes=["no", "yes"])
    state = stream.get_training_state()
    fitted.set_training_state(state)
    assert not hasattr(fitted, "validation_scores_") and fitted.loss_curve_ == stream.loss_curve_
    state.attributes["classes_"][:] = "?"
    assert fitted.classes_.tolist() == stream.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", ["flat crf", "flat mira", "chain sparsemap", "csr sparsemap", "groups"])
def test_a_stream_goes_on_where_it_was_saved(name, monkeypatch):
    """Save before the change, and about when the average restarts, which lies between the other two."""
    kind, length = ("csr" if name.startswith("csr") else "dense"), 4 if name.startswith("chain") else 1
    if kind == "csr":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 1)
    model, others, windows = model_of(name), {}, []
    for number, (X, y) in enumerate(batches("sudden", length, kind=kind, n_batches=40)):
        for each in (model, *others.values()):
            each.partial_fit(X, y, classes=[0, 1, 2])
        windows.append(model._learned.optimizer.recency.window)
        if number == 12:
            others = {how: model for how in ("pickle", "state", "file")}
        if number in (12, 20, 24):
            others = {how: saved(other, how) for how, other in others.items()}
    assert np.diff(windows).min() < 0.0
    for how, other in others.items():
        difference = np.abs(model.coef_ - other.coef_).max()
        assert difference == 0.0 if how == "pickle" else difference < 1e-12
        np.testing.assert_array_equal(model._learned.optimizer.recency.state, other._learned.optimizer.recency.state)


@pytest.mark.parametrize("name", ["flat crf", "chain sparsemap"])
def test_the_number_of_threads_does_not_change_a_stream(name):
    length = 4 if name.startswith("chain") else 1
    models = [model_of(name).set_params(n_jobs=n_jobs) for n_jobs in (1, 2)]
    for X, y in batches("sudden", length, n_batches=40):
        for model in models:
            model.partial_fit(X, y, classes=[0, 1])
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


def test_fit_averages_over_all_steps():
    X, y = map(np.concatenate, zip(*batches("sudden"), strict=True))
    recent, all_steps = (
        StructuredSparseMAPClassifier(solver="adagrad", average=average, random_state=0).fit(X, y)
        for average in ("recent", True)
    )
    np.testing.assert_array_equal(recent.coef_, all_steps.coef_)


def test_workers_of_a_stream_are_averaged():
    stream, n_compared = list(batches("sudden")), 0
    model = model_of("flat sparsemap")
    for X, y in stream[:70]:
        model.partial_fit(X, y, classes=[0, 1])
    for X, y in stream[70:80]:
        start = model.get_training_state()
        workers = [saved(model, "state").set_training_state(start.without_history()) for _ in range(2)]
        states = [w.partial_fit(X[k::2], y[k::2]).get_training_state() for k, w in enumerate(workers)]
        model.set_training_state(average_states(states, start=start))
        n_compared += 1
    assert n_compared == 10 and model.score(*stream[80]) > 0.85


def test_the_clock_of_a_long_stream_is_reset(monkeypatch):
    models = [model_of("flat sparsemap"), model_of("flat sparsemap")]
    for number, model in enumerate(models):
        if number:
            replace(monkeypatch, "_training", "_LARGEST_CLOCK", 1e4)
        for X, y in batches("recurring"):
            model.partial_fit(X, y, classes=[0, 1])
    assert models[1]._learned.optimizer.clock <= 1e4 < models[0]._learned.optimizer.clock
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["flat sparsemap", "labels"])
def test_the_loss_curve_of_a_stream_is_bounded(name, monkeypatch):
    assert replace(monkeypatch, "_training", "MAX_ENTRIES", 128) == 2048
    X, y = np.eye(2), np.array([0, 1])
    model = MultilabelLPSparseMAP(random_state=0) if name == "labels" else model_of(name)
    target = np.eye(2, dtype=int) if name == "labels" else y
    options = {} if name == "labels" else {"classes": [0, 1]}
    losses = []
    for number in range(270):
        model.partial_fit(X, target, **options)
        if number < 128:
            losses.append(model.loss_curve_[-1])
            assert len(model.loss_curve_) == number + 1
        if number == 200:
            model = saved(model, "state")
    assert len(model.loss_curve_) <= 128 and model.n_iter_ == 270
    np.testing.assert_allclose(model.loss_curve_[:32], np.reshape(losses, (32, 4)).mean(axis=1))
    model.fit(X, target)
    n_iter = model.n_iter_
    assert len(model.loss_curve_) == n_iter
    before = list(model.loss_curve_)
    model.partial_fit(X, target)
    assert model.loss_curve_[:n_iter] == before and len(model.loss_curve_) == n_iter + 1


def named_sets(X, names):
    return [{name for name, value in zip(names, x, strict=False) if value > 0} for x in X]


# Samples with four labels violate the constraint.
@pytest.mark.filterwarnings("ignore:the labels of .* violate the constraints")
@pytest.mark.parametrize(
    "options",
    [{}, {"label_graph": "full"}, {"constraints": [AtMost(3)]}, {"score_model": Network((5,), dropout=0.0)}],
)
def test_new_labels_of_sets_begin_at_zero(options):
    X = np.random.default_rng(0).normal(size=(400, 4))
    model = MultilabelLPSparseMAP(random_state=0, **options)
    for k in range(0, 200, 20):
        model.partial_fit(X[k : k + 20], named_sets(X[k : k + 20], "cab"), on_new_labels="add")
    assert model.classes_.tolist() == ["a", "b", "c"]
    before = saved(model, "pickle")
    with pytest.raises(ValueError, match="label"):
        model.partial_fit(X[:2], [{"0"}, {"a"}])
    model.partial_fit(X[200:201], [{"0"}], on_new_labels="add")
    assert model.classes_.tolist() == ["a", "b", "c", "0"]
    # The other labels learn from the sample as if the new one did not exist, because it begins at zero.
    before.partial_fit(X[200:201], [set()])
    np.testing.assert_allclose(model.decision_function(X)[:, :3], before.decision_function(X), atol=1e-6)
    assert np.abs(model.decision_function(X)[:, 3]).max() < 0.2
    for k in range(200, 400, 20):
        model.partial_fit(X[k : k + 20], named_sets(X[k : k + 20], "cab0"), on_new_labels="add")
    assert model.decision_function(X)[:, 3].std() > 0.1


def test_new_labels_are_columns_and_classes():
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(300, 3))
    frame = pandas.DataFrame((X > 0).astype(int), columns=["c", "a", "b"])
    model = MultilabelLPSparseMAP(random_state=0).partial_fit(X, frame[["c", "a"]], on_new_labels="add")
    for _ in range(5):
        model.partial_fit(X, frame[["b", "c", "a"]], on_new_labels="add")
    assert model.classes_.tolist() == ["c", "a", "b"]
    assert np.mean(model.predict(X) == frame.to_numpy()) > 0.9
    y = np.where(X[:, 0] > 0, "u", "v")
    model = MultilabelLPSparseMAP(random_state=0).partial_fit(X[:100], y[:100], on_new_labels="add")
    model.partial_fit(X[100:], np.where(X[100:, 1] > 1, "a", y[100:]), on_new_labels="add")
    assert model.classes_.tolist() == ["a", "u", "v"]
    with pytest.raises(ValueError, match="on_new_labels"):
        model.partial_fit(X, y, on_new_labels="ignore")


def test_constraints_hold_for_new_labels():
    X = np.random.default_rng(0).normal(size=(200, 3))
    sets = [s | ({"c"} if "a" in s else set()) for s in named_sets(X, "cab")]
    model = MultilabelLPSparseMAP(constraints=[Implies("a", "c")], random_state=0)
    for k in range(0, 100, 20):
        model.partial_fit(X[k : k + 20], sets[k : k + 20], on_new_labels="add")
    for k in range(100, 200, 20):
        later = [s | ({"d"} if x[0] > 0.5 else set()) for s, x in zip(sets[k : k + 20], X[k : k + 20], strict=True)]
        model.partial_fit(X[k : k + 20], later, on_new_labels="add")
    predicted = [set(labels) for labels in model.predict(X)]
    assert all("c" in labels for labels in predicted if "a" in labels) and any("d" in labels for labels in predicted)


def test_few_rounds_that_lower_the_loss_warn():
    X, Y = label_batches(6, 1000, 1000)[0]
    slow = MultilabelLPSparseMAP(eta0=1e-3, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ParameterMixing(slow, n_rounds=5, random_state=0).fit(X, Y)
    assert any("raise n_rounds" in str(each.message) for each in caught)
