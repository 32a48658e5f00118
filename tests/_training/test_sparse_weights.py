"""Large models hold only the weights that exist: the same weights as dense models, in less memory."""

import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from internals import TOP, replace
from numpy.testing import assert_allclose, assert_array_equal
from samples import make_chains
from scipy import sparse
from sklearn.base import clone

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
DENSE, Y = make_chains(25)
X, _ = make_chains(25, kind="csr")
FLAT = sparse.vstack(X).tocsr(), np.concatenate(Y)
# If SparseMAP learns transitions, its loss has kinks, and rounding chooses between gradients.
KINDS = [
    ("auto", "sparsemap", "adagrad"),
    ("auto", "margin_sparsemap", "adagrad"),
    ("chain", "perceptron", "adagrad"),
    ("chain", "hinge", "adagrad"),
    ("chain", "hinge", "mira"),
]


def new_model(**parameters):
    options = {"structure": "chain", "loss": "perceptron", "solver": "adagrad", "max_iter": 4, "tol": 0.0}
    return StructuredSparseMAPClassifier(**options | {"random_state": 0} | parameters)


@pytest.fixture(params=["pointers of all features", "features seen", "features seen, few weights"])
def as_large(monkeypatch, request):
    """Return a function that takes the models that it calls for large, in each form of sparse weights."""
    is_few = request.param == "features seen, few weights"

    def call(function):
        with monkeypatch.context() as patch:
            replace(patch, "estimators", "_MAX_DENSE_WEIGHTS", 0)
            if request.param != "pointers of all features":
                replace(patch, "_training", "MANY_FEATURES", 0)
                replace(patch, "_training", "_FEATURES_PER_WEIGHT", 0 if is_few else 10**9)
            result = function()
            if isinstance(result, StructuredSparseMAPClassifier):
                # The form of the weights that predictions read; `coef_` is always CSR.
                form = type(result._current.coef).__name__
                assert form in ("ndarray", "coo_array" if is_few else "csr_array")
            return result

    return call


def assert_same(large, small, X=X):
    assert isinstance(large.coef_, sparse.csr_array) and isinstance(small.coef_, np.ndarray)
    assert_allclose(large.coef_.toarray(), small.coef_, rtol=1e-9, atol=1e-12)
    assert np.abs(small.coef_).max() > 0.01
    for name in ("intercept_", "loss_curve_"):
        assert_allclose(getattr(large, name), getattr(small, name), rtol=1e-9, atol=1e-12)
    for name, scores in small.additional_scores_.items():
        assert_allclose(large.additional_scores_[name], scores, rtol=1e-9, atol=1e-12)
    for found, expected in zip(large.decision_function(X), small.decision_function(X), strict=True):
        assert_allclose(found, expected, atol=1e-9)
    for found, expected in zip(large.predict(X), small.predict(X), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(("structure", "loss", "solver"), KINDS)
def test_weights_that_exist_are_those_of_a_dense_model(structure, loss, solver, average, as_large):
    model = new_model(structure=structure, loss=loss, solver=solver, average=average, alpha=0.01)
    data = FLAT if structure == "auto" else (X, Y)
    assert_same(as_large(lambda: model.fit(*data)), clone(model).fit(*data), data[0])


def test_streams_early_stopping_and_warm_starts(as_large):
    def stream():
        model = new_model()
        for start in (0, 10, 20):
            model.partial_fit(X[start : start + 10], Y[start : start + 10], classes=["x", "y", "z"])
            model = pickle.loads(pickle.dumps(model))
        return model

    assert_same(as_large(stream), stream())
    for parameters in ({"early_stopping": True, "validation_fraction": 0.2}, {"warm_start": True}):
        large, small = as_large(lambda p=parameters: new_model(**p).fit(X, Y).fit(X, Y)), new_model(**parameters)
        assert_same(large, small.fit(X, Y).fit(X, Y))
    # L-BFGS continues from any weights, and makes them dense.
    assert isinstance(large.set_params(loss="sparsemap", solver="lbfgs").fit(X, Y).coef_, np.ndarray)


def test_sparse_weights_may_be_assigned(as_large):
    large = as_large(lambda: new_model().fit(X, Y))
    coef = large.coef_.toarray()
    predicted = [found.tolist() for found in large.predict(X)]
    for values in (coef, sparse.csc_array(coef)):
        large.coef_ = 2.0 * values
        assert isinstance(large.coef_, sparse.csr_array)
        assert_array_equal(large.coef_.toarray(), 2.0 * coef)
    large.coef_ = coef
    assert [found.tolist() for found in large.predict(DENSE)] == predicted
    as_large(lambda: large.partial_fit(X, Y))
    assert isinstance(large.coef_, sparse.csr_array) and (large.coef_.toarray() != coef).any()
    with pytest.raises(ValueError, match=r"coef_ must have shape \(3, 4\); got \(4, 3\)"):
        large.coef_ = coef.T
    with pytest.raises(ValueError, match="NaN or infinity"):
        large.coef_ = coef + np.nan


def test_only_large_sparse_problems_with_few_updates_have_sparse_weights(as_large):
    assert isinstance(new_model().fit(X, Y).coef_, np.ndarray)
    for parameters in ({"loss": "crf"}, {"loss": "sparsemap", "solver": "lbfgs"}):
        assert isinstance(as_large(lambda p=parameters: new_model(**p).fit(X, Y)).coef_, np.ndarray)
    assert isinstance(as_large(lambda: new_model().fit(DENSE, Y)).coef_, np.ndarray)


def test_many_labels_have_sparse_weights_earlier(monkeypatch):
    replace(monkeypatch, "estimators", "_MAX_DENSE_OF_MANY", 0)
    small = new_model().fit(X, Y)
    replace(monkeypatch, "estimators", "_MANY_OUTPUTS", 3)
    assert_same(new_model().fit(X, Y), small)


def test_memory_grows_with_the_weights_that_exist(as_large):
    rng = np.random.default_rng(0)
    n_features, n_labels = 300_000, 20
    shape = {"shape": (6, n_features), "density": 5 / n_features, "format": "csr"}
    rows = [sparse.random_array(**shape, random_state=rng) for _ in range(30)]
    labels = [rng.integers(n_labels, size=6) for _ in rows]
    model = as_large(lambda: new_model().partial_fit(rows, labels, classes=np.arange(n_labels)))
    optimizer = model._learned.optimizer
    n_entries = sum(x.nnz for x in rows)
    assert model.coef_.shape == (n_labels, n_features)
    assert 0 < model.coef_.nnz <= optimizer.n_held <= optimizer.counters[TOP] <= 2 * n_entries * n_labels
    # The arena has unused places behind those of the weights, which take no memory, and are not stored.
    stored = pickle.loads(pickle.dumps(optimizer)).store
    assert optimizer.counters[TOP] <= len(stored.values) < 0.02 * n_features * n_labels
    assert len(stored.values) == len(stored.sums) == len(stored.state) == len(stored.outputs)


def test_training_in_merged_columns_holds_the_weights_of_all_columns_once():
    rng = np.random.default_rng(0)
    n_rows, n_different, n_copies, n_labels = 2**11, 2**12, 2**4, 40
    entries = sparse.random_array((n_rows, n_different), density=9 / n_different, format="csr", random_state=rng)
    rows = sparse.csr_array(sparse.hstack([entries] * n_copies))
    labels = rng.integers(n_labels, size=(n_rows // 8, 8))
    data = RaggedArray(rows, np.arange(0, n_rows + 1, 8)), list(labels)
    new_model(loss="sparsemap").fit(data[0][:9], data[1][:9])
    tracemalloc.start()
    model = new_model(loss="sparsemap", max_iter=1).fit(*data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(model.coef_, np.ndarray) and model.coef_.any()
    assert peak < 1.6 * model.coef_.nbytes


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_full_arenas_grow(as_large, monkeypatch, n_jobs):
    def train():
        model = new_model(loss="sparsemap", n_jobs=n_jobs).fit(X, Y)
        stored, fitted = pickle.dumps(model.partial_fit(X[:9], Y[:9])), model.coef_.toarray()
        again = [own.partial_fit(X[9:], Y[9:]).coef_.toarray() for own in (model, pickle.loads(stored))]
        return fitted, *again

    expected, grown = as_large(train), []
    grow = replace(monkeypatch, "_training", "grow", lambda *args: grow(*args) or grown.append(args))
    replace(monkeypatch, "_training", "_MAX_PLACES", 8)
    found = as_large(train)
    assert len(grown) > 2
    assert_array_equal(found, expected)
    assert_array_equal(expected[1], expected[2])
    assert np.abs(expected[0] - expected[1]).max() > 0.01


SEEN = """
import pickle, resource
import numpy as np
from scipy import sparse
from sklearn_sparsemap import StructuredSparseMAPClassifier

LARGE = 2**28


def samples(n):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.choice(n, 40, replace=False))
    which = [rng.integers(0, 40, 5) for _ in range(50)]
    X = [sparse.csr_array((np.ones(5), (np.arange(5), columns[own])), shape=(5, n)) for own in which]
    return X, [own % 3 for own in which]


def work(n):
    X, y = samples(n)
    fitted = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=9, random_state=0).fit(X, y)
    scores = [fitted.score(X, y)]
    stream = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0)
    for start in range(0, 50, 10):
        stream.partial_fit(X[start : start + 10], y[start : start + 10], classes=[0, 1, 2])
    for model in (fitted, stream, pickle.loads(pickle.dumps(stream)), type(stream).from_arrays(stream.to_arrays())):
        model.predict(X), model.predict(X[:1]), model.predict_marginals(X[:2])
        model.coef_ = model.coef_
        model.set_training_state(model.partial_fit(X, y).get_training_state())
        scores.append(model.score(X, y))
    return scores


work(2**10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scores = work(LARGE)
print(min(scores), 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / LARGE)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units")
def test_memory_follows_the_features_that_were_seen(fresh_python):
    done = fresh_python(SEEN)
    score, n_bytes = map(float, done.stdout.split())
    # An array of numbers of features would take 4 or 8 bytes for each of them.
    assert score > 0.95 and n_bytes < 1.0, done.stdout + done.stderr
