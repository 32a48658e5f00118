"""On the workers of a local cluster of two processes: what exists, and ParameterMixing."""

import os
import pickle
import signal
import warnings

import numpy as np
import pytest
from internals import replace
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    perceptron_path,
    stability_selection,
)
from sklearn_sparsemap.distributed import ParameterMixing

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
joblib = pytest.importorskip("joblib")
# Sockets that the cluster leaves to the garbage collector, and what dask and its parts say of each other.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def chains(seed, n=40):
    """Lists of CSR matrices: chains of two labels by the sign of the second of five features."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(k, 5)) for k in rng.integers(1, 6, n)]
    return [sparse.csr_array(x) for x in X], [np.where(x[:, 1] > 0, "b", "a").tolist() for x in X]


def flat(seed, n=120):
    X = np.random.default_rng(seed).normal(size=(n, 6))
    return X, (X[:, 1] + X[:, 0] > 0).astype(int)


CHAIN = StructuredSparseMAPClassifier("chain", solver="adagrad", tol=1.0, n_iter_no_change=2, random_state=0)
GROUPS = GroupLassoPerceptron("chain", budget=1, shrink_every=7, debias_max_iter=2, random_state=0)
SETS = MultilabelLPSparseMAP(random_state=0)
FLAT = StructuredSparseMAPClassifier(alpha=1e-2, random_state=0)
FLAT_GROUPS = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], shrink_every=20, max_iter=2, debias=None, random_state=0)


@pytest.fixture(scope="module")
def client():
    """Two workers, each a process with one thread, forked from one that has imported what they need."""
    settings = {"distributed.worker.memory.terminate": False, "distributed.admin.log-format": "%(message)s"}
    settings["distributed.worker.multiprocessing-method"] = "forkserver"
    with dask.config.set(settings):
        # Each new worker would import for seconds.
        context = distributed.utils.get_mp_context()
        context.set_forkserver_preload(["distributed", "sklearn_sparsemap.distributed", "sklearn_sparsemap.inference"])
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


@pytest.fixture(scope="module")
def on_threads():
    """What the mixture on threads is, where no client is current."""
    found = {}
    for name, (estimator, data) in MIXED.items():
        mixing = ParameterMixing(estimator, n_shards=3, n_rounds=2, random_state=0, n_jobs=2)
        # By the engine of threads, whatever client is current.
        with pytest.MonkeyPatch.context() as patch:
            replace(patch, "distributed", "current_client", lambda: None)
            found[name] = mixing.fit(*data)
        assert found[name].client_ is None
    return found


def sets(seed):
    X, _ = flat(seed, 40)
    return X, (X[:, :3] > 0).astype(int)


MIXED = {"chains": (CHAIN, chains(0)), "groups": (GROUPS, chains(0)), "sets": (SETS, sets(0))}


def scores_of(model, X):
    scores = model.decision_function(X)
    return np.concatenate(scores) if scores.dtype == object else scores


def assert_same(one, other, X):
    np.testing.assert_array_equal(scores_of(one, X), scores_of(other, X))
    assert one.loss_curve_ == other.loss_curve_


@pytest.mark.parametrize("name", MIXED)
def test_workers_learn_what_threads_learn(client, on_threads, name):
    X, y = MIXED[name][1]
    expected = on_threads[name]
    mixing = clone(expected).set_params(n_jobs=None)
    # The client that is current.
    assert_same(mixing.fit(X, y), expected, X)
    assert mixing.client_ is client
    again = pickle.loads(pickle.dumps(mixing))
    assert not hasattr(again, "client_") and again.client is None
    np.testing.assert_array_equal(scores_of(again, X), scores_of(expected, X))


@pytest.mark.parametrize("name", MIXED)
def test_the_number_of_workers_changes_nothing(client, name):
    estimator, (X, y) = MIXED[name]
    mixing = ParameterMixing(estimator, n_shards=5, n_rounds=2, random_state=0)
    expected, n_compared = clone(mixing).set_params(client=client).fit(X, y), 0
    for n_workers in (1, 4):
        # Threads of this process, which begin at once, are workers, too.
        with (
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=50
            ) as cluster,
            distributed.Client(cluster, set_as_default=False) as own,
        ):
            found = clone(mixing).set_params(client=own).fit(X, y)
            assert found.client_ is own and len(own.scheduler_info()["workers"]) == n_workers
            assert_same(found, expected, X)
            n_compared += 1
    assert n_compared == 2


def test_data_that_lie_on_workers_already(client):
    parts = [chains(seed, 12) for seed in range(3)]
    mixing = ParameterMixing(CHAIN, n_rounds=2, random_state=0, client=client)
    expected, X = clone(mixing).fit(parts), parts[0][0]
    assert clone(mixing).client is client
    delayed = [dask.delayed(chains)(seed, 12) for seed in range(3)]
    futures = client.map(chains, range(3), n=12)
    apart = [[dask.delayed(part[k], pure=False) for part in parts] for k in range(2)]
    bag = pytest.importorskip("dask.bag")
    bags = [bag.from_delayed(own) for own in apart]
    pairs = bag.from_delayed([dask.delayed(list)(dask.delayed(zip)(*part)) for part in parts])
    for data in [(delayed,), (futures,), apart, bags, (pairs,)]:
        assert_same(clone(mixing).fit(*data), expected, X)
    assert_same(clone(mixing).set_params(client=None).fit(futures), expected, X)
    # Without a client they are computed by dask's own threads.
    with pytest.MonkeyPatch.context() as patch:
        replace(patch, "distributed", "current_client", lambda: None)
        found = clone(mixing).set_params(client=None).fit(*apart)
        assert found.client_ is None
        assert_same(found, expected, X)
    with pytest.raises(ValueError, match="X has 3 partitions, but y has 2"):
        clone(mixing).fit(apart[0], apart[1][:2])


def test_blocks_of_arrays(client):
    array = pytest.importorskip("dask.array")
    X, y = flat(0)
    mixing = ParameterMixing(FLAT, n_rounds=2, random_state=0)
    found = clone(mixing).fit(array.from_array(X, chunks=(40, 6)), array.from_array(y, chunks=40))
    expected = clone(mixing).fit([(X[k : k + 40], y[k : k + 40]) for k in (0, 40, 80)])
    assert_same(found, expected, X)
    with pytest.raises(ValueError, match="rechunk it to one"):
        clone(mixing).fit(array.from_array(X, chunks=(40, 3)), array.from_array(y, chunks=40))


def test_errors_come_back(client):
    X, y = chains(0)
    with pytest.raises(ValueError, match=r"partitions\[1\]: X\[0\] has"):
        ParameterMixing(CHAIN, client=client).fit([(X, y), (X[:1], [["a"] * 9])])


# -- What exists -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("halving", [False, True])
def test_searches_by_joblib(client, halving):
    X, y = chains(0)
    parameters = {"alpha": [1e-4, 1e2]}
    if halving:
        from sklearn.experimental import enable_halving_search_cv  # noqa: F401
        from sklearn.model_selection import HalvingGridSearchCV

        search = HalvingGridSearchCV(CHAIN, parameters, cv=2, min_resources=20, random_state=0)
    else:
        search = GridSearchCV(CHAIN, parameters, cv=2)
    with joblib.parallel_config(backend="dask"):
        found = clone(search).fit(X, y)
    expected = search.fit(X, y)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert found.best_params_ == {"alpha": 1e-4}


def test_groups_by_joblib(client):
    X, y = flat(0)
    with joblib.parallel_config(backend="dask"):
        path = perceptron_path(FLAT_GROUPS, X, y, [1, 2], cv=2)
        stability = stability_selection(clone(FLAT_GROUPS).set_params(budget=1), X, y, n_resamples=4, random_state=0)
    expected = perceptron_path(FLAT_GROUPS, X, y, [1, 2], cv=2)
    np.testing.assert_array_equal(path.split_scores, expected.split_scores)
    assert stability.frequencies.tolist() == [1.0, 0.0, 0.0]


def blocks():
    """Return ragged samples, and arrays of dask that hold them in three blocks."""
    array = pytest.importorskip("dask.array")
    X, y = chains(0, 30)
    columns = []
    for samples in (X, y):
        column = np.empty(30, dtype=object)
        column[:] = [s.toarray() if sparse.issparse(s) else s for s in samples]
        columns.append(column)
    return columns, [array.from_array(column, chunks=10) for column in columns]


def test_dask_ml_passes_blocks_on(client):
    wrappers = pytest.importorskip("dask_ml.wrappers")
    (X, y), (X_blocks, y_blocks) = blocks()
    model = wrappers.Incremental(clone(CHAIN), shuffle_blocks=False, assume_equal_chunks=True)
    model.fit(X_blocks, y_blocks, classes=["a", "b"])
    expected = clone(CHAIN)
    for start in (0, 10, 20):
        expected.partial_fit(X[start : start + 10], y[start : start + 10], classes=["a", "b"])
    np.testing.assert_array_equal(model.estimator_.coef_, expected.coef_)
    # dask-ml predicts by block where samples are rows; other samples do without it.
    found = X_blocks.map_blocks(expected.predict, dtype=object).compute()
    assert [labels.tolist() for labels in found] == [labels.tolist() for labels in expected.predict(X)]
    parts = client.gather(client.map(expected.predict, [X[:10], X[10:]]))
    assert [labels.tolist() for labels in np.concatenate(parts)] == [labels.tolist() for labels in expected.predict(X)]
    # ParallelPostFit takes a column of samples.
    parallel = wrappers.ParallelPostFit(expected, predict_meta=np.empty(0, object))
    for blocks_of, own in ((X_blocks, X), (X_blocks[:7], X[:7])):
        found = parallel.predict(blocks_of[:, None])
        assert found.dtype == object and found.npartitions == blocks_of.npartitions
        assert [labels.tolist() for labels in found.compute()] == [labels.tolist() for labels in expected.predict(own)]
    array, (X, y) = pytest.importorskip("dask.array"), flat(0)
    parallel = wrappers.ParallelPostFit(clone(FLAT)).fit(X, y)
    for method in ("predict", "predict_proba"):
        found = getattr(parallel, method)(array.from_array(X, chunks=(40, 6)))
        assert found.npartitions == 3
        np.testing.assert_array_equal(found.compute(), getattr(parallel.estimator, method)(X))


def test_dask_ml_searches(client):
    selection = pytest.importorskip("dask_ml.model_selection")
    array = pytest.importorskip("dask.array")
    X, y = flat(0)
    search = selection.HyperbandSearchCV(FLAT, {"alpha": [1e-3, 1e-2, 1e4]}, max_iter=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            search.fit(array.from_array(X, chunks=(40, 6)), array.from_array(y, chunks=40), classes=[0, 1])
        except RuntimeError as error:
            # In dask-ml itself, with any estimator.
            if "asynchronous Client" not in str(error):
                raise
            pytest.skip(f"the searches of this dask-ml do not work with this dask: {error}")
    assert search.best_params_["alpha"] < 1 and search.best_score_ > 0.8


# -- Workers that die: last, for new ones take seconds to come ---------------------------------------------------------


def dies_once(path, seed):
    """Kill the worker in the middle of a task, the first time."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return chains(seed, 12)


def test_a_worker_that_is_killed_changes_nothing(client, tmp_path):
    mark = str(tmp_path / "killed")
    parts = [lambda seed=seed: chains(seed, 12) for seed in range(3)]
    mixing = ParameterMixing(CHAIN, n_rounds=3, random_state=0, client=client)
    expected = clone(mixing).fit(parts, classes=["a", "b"])
    counted = []

    def killing(seed):
        # One of its visits: there is one in the beginning and one in each round.
        counted.append(seed)
        path = mark + str(len(counted) == 3)
        return dies_once(path, seed) if path.endswith("True") else chains(seed, 12)

    found = clone(mixing).fit([*parts[:2], lambda: killing(2)], classes=["a", "b"])
    assert_same(found, expected, chains(0)[0])
    assert os.path.exists(mark + "True")


def test_a_worker_may_die_between_rounds(client):
    X, y = chains(0)
    mixing = ParameterMixing(CHAIN, n_shards=3, n_rounds=3, random_state=0, client=client)
    expected = clone(mixing).fit(X, y)

    class Kill:
        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "iteration" and context.task_id == 0:
                pids = client.run(os.getpid)
                os.kill(next(iter(pids.values())), signal.SIGKILL)

        def teardown(self, estimator, context):
            pass

    mixing = clone(mixing)
    if not hasattr(mixing, "set_callbacks"):
        pytest.skip("scikit-learn has no callbacks")
    assert_same(mixing.set_callbacks(Kill()).fit(X, y), expected, X)
