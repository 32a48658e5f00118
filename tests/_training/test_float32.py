"""Weights of float32: they equal those of float64 except for rounding, and no intermediate state is wider."""

import pickle

import numpy as np
import pytest
from internals import GRADIENT_STEPS, replace, squared_norm
from internals import online_optimizer as _online
from internals import training_columns as _columns
from numpy.testing import assert_allclose, assert_array_equal
from samples import LABELS, make_text
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.datasets import save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.estimators import average_states
from sklearn_sparsemap.factors import AtMostOne, FactorGraph

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
# Relative to the largest weight: some hundred steps, each rounded.
ERROR = 1e-4


def model_of(structure="chain", **parameters):
    options = {"solver": "adagrad", "max_iter": 4, "alpha": 1e-3, "random_state": 0} | parameters
    return StructuredSparseMAPClassifier(structure, **options)


def narrowed(X):
    """Return features as float32."""
    if isinstance(X, RaggedArray):
        return RaggedArray(X.values.astype(np.float32), X.indptr)
    return [x.astype(np.float32) for x in X] if isinstance(X, list) else X.astype(np.float32)


def fit_both(X, y, *args, **parameters):
    """Return a model fitted to features of float64, and one to the same features of float32."""
    return [model_of(*args, **parameters).fit(own, y) for own in (X, narrowed(X))]


def arrays_of(optimizer):
    """Return the arrays of the state of an optimiser."""
    if hasattr(optimizer, "store"):
        return [getattr(optimizer.store, name) for name in ("values", "sums", "state")]
    return [*optimizer.network.arrays, *optimizer.rule.squares, *optimizer.rule.sums]


def weights_of(model):
    return [model._current.coef, model.intercept_, *model.additional_scores_.values()]


def assert_close(wide, narrow):
    """Compare all weights, and check their types."""
    for one, other in zip(weights_of(wide), weights_of(narrow), strict=True):
        assert one.dtype == np.float64 and other.dtype == np.float32
        one, other = (w.toarray() if sparse.issparse(w) else w for w in (one, other))
        assert np.abs(one).max(initial=0.0) > 1e-3
        assert_allclose(other, one, atol=ERROR * np.abs(one).max())


@pytest.fixture(params=["dense", "pairs", "merged"])
def store(request, monkeypatch):
    """Select how weights are stored."""
    if request.param != "dense":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 0)
        replace(monkeypatch, "estimators", "_MAX_DENSE", 0)
    if request.param == "merged":
        monkeypatch.setattr(_columns, "_MANY", 0)


@pytest.mark.parametrize("ones", [True, False])
def test_weights_are_those_of_float64(store, ones):
    X, y = make_text(ones=ones)
    wide, narrow = fit_both(X, y, tol=0.0)
    assert_close(wide, narrow)
    assert_allclose(narrow.loss_curve_, wide.loss_curve_, rtol=ERROR)
    scores, marginals = narrow.decision_function(X), narrow.predict_marginals(X)
    assert scores[0].dtype == marginals[0].dtype == np.float64
    assert_allclose(np.concatenate(marginals), np.concatenate(wide.predict_marginals(X)), atol=10 * ERROR)
    assert_array_equal(np.concatenate(narrow.predict(X)), np.concatenate(wide.predict(X)))
    # Features of either type are the same, and those of float32 are not copied.
    single = narrowed(X)
    assert_array_equal(np.concatenate(narrow.decision_function(single)), np.concatenate(scores))
    assert np.shares_memory(narrow._check_predict(single)[1].values.data, single.values.data)
    assert narrow._check_predict(X)[1].values.dtype == np.float32


def test_other_solvers_and_structures(monkeypatch):
    X, y = make_text()
    wide, narrow = fit_both(X, y, solver="lbfgs", max_iter=200)
    assert_close(wide, narrow)
    assert_array_equal(narrow.coef_, wide.coef_.astype(np.float32))
    rows = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32).astype(np.float64)
    labels = np.digitize(rows[:, 0] + 0.3 * rows[:, 1], [-0.5, 0.5])
    for solver in ("lbfgs", "adagrad"):
        wide, narrow = fit_both(rows, labels, "auto", solver=solver, max_iter=50)
        assert_close(wide, narrow)
        assert_allclose(narrow.predict_proba(rows), wide.predict_proba(rows), atol=10 * ERROR)
    graph = FactorGraph()
    graph.add(AtMostOne(graph.variables(3)))
    picks = [rows[3 * k : 3 * k + 3] for k in range(20)]
    wide, narrow = fit_both(picks, [x[:, 0] == x[:, 0].max() for x in picks], lambda x: graph, tol=0.0)
    assert_close(wide, narrow)
    replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 0)
    wide, narrow = fit_both(X, y, loss="hinge", solver="mira", tol=0.0)
    assert_close(wide, narrow)


@pytest.mark.parametrize("kind", ["dense", "pairs", "graphs"])
def test_the_state_stays_narrow(kind, monkeypatch, tmp_path):
    X, y = make_text(40)
    structure, classes = "chain", {"classes": LABELS}
    if kind == "pairs":
        replace(monkeypatch, "estimators", "_MAX_DENSE_WEIGHTS", 0)
    if kind == "graphs":
        graph = FactorGraph()
        graph.add(AtMostOne(graph.variables(2)))
        X = [np.eye(2, 3, k % 2) for k in range(40)]
        structure, y, classes = (lambda x: graph), [x[:, 1] > 0 for x in X], {}
    halves = slice(0, 20), slice(20, 40)
    wide, narrow = (
        model_of(structure).partial_fit(own[halves[0]], y[halves[0]], **classes) for own in (X, narrowed(X))
    )
    again = (
        pickle.loads(pickle.dumps(narrow))
        if kind != "graphs"
        else clone(narrow).set_training_state(narrow.get_training_state())
    )
    resumed = clone(narrow).set_training_state(narrow.get_training_state())
    for model in (wide, narrow, again, resumed):
        model.partial_fit(X[halves[1]], y[halves[1]])
        arrays = arrays_of(model._learned.optimizer)
        assert len(arrays) >= 3 and {a.dtype.name for a in arrays} == {"float64" if model is wide else "float32"}
    assert_close(wide, narrow)
    for one, other, third in zip(*map(weights_of, (narrow, again, resumed)), strict=True):
        assert abs(one - other).max() <= (1e-6 if kind == "graphs" else 0.0) and abs(one - third).max() < 1e-6
    states = [model.get_training_state() for model in (narrow, wide)]
    assert all(a.dtype == np.float32 for slots in (states[0].dense, states[0].pairs) for a in slots.values())
    assert states[0].nbytes < states[1].nbytes
    mean = average_states([states[0], states[0]], start=states[0].without_history())
    assert all(a.dtype == np.float32 for slots in (mean.dense, mean.pairs) for a in slots.values())
    if kind == "graphs":
        return
    from_memory, from_files, mixed = [], [], []
    # With SparseMAP losses, rounding breaks ties in inference, so mixtures of a third of the texts differ by up to 1 %.
    smooth = {"loss": "crf"}
    for own in (X, narrowed(X)):
        parts, folder = [(own[half], y[half]) for half in halves], tmp_path / own.values.dtype.name
        folder.mkdir()
        for place, part in enumerate(parts):
            save_partition(folder / f"{place}.npz", *part)
        from_memory.append(model_of(tol=0.0, **smooth).fit_partitions(parts))
        from_files.append(model_of(tol=0.0, **smooth).fit_partitions(sorted(folder.glob("*.npz"))))
        mixed.append(ParameterMixing(model_of(**smooth), 2, 3, random_state=0).fit(own, y).to_local())
    for both in (from_memory, from_files, mixed):
        assert_close(*both)


def test_threads_have_the_same_weights(monkeypatch):
    monkeypatch.setattr(_online, "_MANY", 0)
    monkeypatch.setattr(_online, "_WORTH_THREADS", 0)
    monkeypatch.setattr(_online, "count_threads", lambda n_jobs: 4 if n_jobs == -1 else n_jobs or 1)
    X, y = make_text(60, dtype=np.float32)
    one, two = (model_of(n_jobs=n_jobs, batch_size=2).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(np.concatenate(one.decision_function(X)), np.concatenate(two.decision_function(X)))


def test_scores_are_of_float64():
    rng = np.random.default_rng(0)
    X, coef, intercept = rng.normal(size=(30, 8)), rng.normal(size=(8, 3)), rng.normal(size=3)
    expected, coef = X @ coef + intercept, coef.astype(np.float32)
    model = StructuredSparseMAPClassifier(solver="adagrad")
    model.partial_fit(np.zeros((3, 8), np.float32), np.arange(3), classes=np.arange(3))
    model.coef_, model.intercept_ = coef.T, intercept
    assert model.coef_.dtype == np.float32
    for form in (model.densify, model.sparsify):
        form()
        for features in (X, sparse.csr_array(X), X.astype(np.float32), sparse.csr_array(X).astype(np.float32)):
            scores = [model.set_params(n_jobs=n_jobs).decision_function(features) for n_jobs in (1, 2)]
            assert scores[0].dtype == np.float64
            assert_allclose(scores[0], expected, atol=1e-5)
            assert_array_equal(*scores)
    many = np.full(2**20, 0.1, np.float32)
    assert squared_norm(many) == pytest.approx(float(many[0]) ** 2 * len(many), rel=1e-12)


def test_weights_that_are_assigned_take_the_type():
    X, y = make_text()
    model = model_of().fit(narrowed(X), y)
    for name in ("coef_", "intercept_", "transitions_"):
        setattr(model, name, getattr(model, name).astype(np.float64) / 3)
        assert getattr(model, name).dtype == np.float32
    model.sparsify().coef_ = model.coef_.astype(np.float64)
    assert model.coef_.dtype == np.float32 and model.densify().coef_.dtype == np.float32
    # A stream keeps the type of its weights, and `fit` takes that of its features.
    assert model.partial_fit(X, y).coef_.dtype == np.float32
    assert model.set_params(warm_start=True).fit(X, y).coef_.dtype == np.float64
    assert model.fit(narrowed(X), y).coef_.dtype == np.float32


@pytest.mark.parametrize("kind", ["matrix", "csr", "list", "ragged", "grid"])
def test_the_type_is_float32_only_if_all_of_X_is(kind):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(12, 3)), np.arange(12) % 2
    make = {
        "matrix": lambda: rows, "csr": lambda: sparse.csr_array(rows), "list": lambda: list(rows.reshape(4, 3, 3)),
        "ragged": lambda: RaggedArray(rows, [0, 3, 6, 9, 12]), "grid": lambda: list(rng.normal(size=(4, 2, 2, 3))),
    }[kind]  # fmt: skip
    flat = kind in ("matrix", "csr")
    model = model_of({"grid": "matching"}.get(kind, "auto" if flat else "chain"), solver="auto", max_iter=2)
    gold = y if flat else [[1, 0]] * 4 if kind == "grid" else list(y.reshape(4, 3))
    for features, expected in ((make(), np.float64), (narrowed(make()), np.float32)):
        classes = None if kind == "grid" else [0, 1]
        for fitted in (clone(model).fit(features, gold), clone(model).partial_fit(features, gold, classes)):
            assert all(array.dtype == expected for array in weights_of(fitted))
    if kind == "list":
        mixed = [*narrowed(make())[:3], make()[3]]
        assert model.fit(mixed, gold).coef_.dtype == np.float64
        integers = [np.eye(3, dtype=np.int64)] * 4
        assert model.fit(integers, gold).coef_.dtype == np.float64


def test_what_is_wrong_is_said():
    X, y = make_text()
    wide, narrow = (model_of().partial_fit(own, y, classes=LABELS) for own in (X, narrowed(X)))
    with pytest.raises(ValueError, match="dtype"):
        average_states([wide.get_training_state(), narrow.get_training_state()])
    # The type of a state is that of its weights.
    assert narrow.set_training_state(wide.get_training_state()).partial_fit(X, y).coef_.dtype == np.float64
    large = RaggedArray(1e20 * X.values, X.indptr)
    with pytest.raises(ValueError, match=r"beyond 1e\+15"):
        model_of().fit(narrowed(large), y)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"X\[0\] contains NaN or infinity"):
        model_of().fit([(1e40 * np.ones((2, 1))).astype(np.float32)], [["p", "q"]])
    assert model_of().fit(large, y).coef_.dtype == np.float64


def test_groups_are_not_shrunk_in_float32():
    # Unused code is not there to be compiled.
    functions = {function for steps in GRADIENT_STEPS.values() for function in steps}
    assert len(functions) == 3 and not any("float32" in str(function._signature) for function in functions)
