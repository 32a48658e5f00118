"""ParameterMixing on threads, and what holds on any engine."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.datasets import save_partition
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.estimators import average_states
from sklearn_sparsemap.score_models import Network


def chains(seed, n=60):
    """Chains of two labels by the sign of the second of five features."""
    rng = np.random.default_rng(seed)
    X = RaggedArray.from_list([rng.normal(size=(k, 5)) for k in rng.integers(1, 6, n)])
    return X, [np.where(x[:, 1] > 0, "b", "a").tolist() for x in X]


def sets(seed, n=60):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    return X, (X > 0.2).astype(int)


CHAIN = StructuredSparseMAPClassifier("chain", alpha=1e-3)
GROUPS = GroupLassoPerceptron("chain", budget=1, shrink_every=7, debias_max_iter=2)
SETS = MultilabelLPSparseMAP(score_model=Network((4,)), threshold="auto")
CASES = {"adagrad": (CHAIN, chains), "groups": (GROUPS, chains), "sets": (SETS, sets)}


def scores_of(model, X):
    scores = model.decision_function(X)
    return np.concatenate(scores) if scores.dtype == object else scores


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_threads_changes_nothing(name):
    estimator, draw = CASES[name]
    X, y = draw(0)
    mixing = ParameterMixing(estimator, n_shards=3, n_rounds=3, random_state=0, n_mixes=2)
    one, two = (clone(mixing).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 3))
    np.testing.assert_array_equal(scores_of(one, X), scores_of(two, X))
    assert one.loss_curve_ == two.loss_curve_ and one.n_shards_ == 3
    assert name == "sets" or one.score(*draw(1)) > 0.8
    other = clone(mixing).set_params(random_state=1).fit(X, y)
    assert not np.array_equal(scores_of(one, X), scores_of(other, X))


def test_rounds_are_those_by_hand():
    X, y = chains(0)
    mixing = ParameterMixing(CHAIN, n_shards=2, n_rounds=3, random_state=3).fit(X, y)
    # The twin: partial_fit on each shard from common weights, by what is public.
    rng = np.random.RandomState(3)
    rng.randint(2**31 - 1)
    seed, order = rng.randint(2**31 - 1), rng.permutation(len(X))
    shards = [np.sort(order[k::2]) for k in range(2)]
    model = clone(CHAIN).partial_fit(X[:1], y[:1], classes=["a", "b"])
    state = model.get_training_state()
    for slots in (state.dense, state.pairs):
        for name, values in slots.items():
            values[:] = 1e-6 if name == "squares" else 0.0
    state.counters.update(dict.fromkeys(state.counters, 0))
    for number in range(3):
        found = []
        for k, rows in enumerate(shards):
            rows = rows[np.random.RandomState([seed, 0, number, k]).permutation(len(rows))]
            worker = clone(CHAIN).set_training_state(model.get_training_state())
            worker.set_training_state(state.without_history())
            found.append(worker.partial_fit(X[rows], [y[i] for i in rows]).get_training_state())
        # Later rounds count more in averaged weights.
        state = average_states(found, [len(rows) for rows in shards], start=state, fraction=4 / (number + 4))
    twin = clone(CHAIN).set_training_state(state)
    for name in ("coef_", "intercept_", "transitions_"):
        np.testing.assert_allclose(getattr(mixing.estimator_, name), getattr(twin, name), rtol=1e-12)
    assert state.n_steps == 3 * len(X)


@pytest.mark.parametrize("n_columns", [0, 300])
def test_one_shard_is_serial_training(n_columns):
    X, y = chains(0)
    # With many columns the penalty is taken after more samples than there are in a round.
    X = RaggedArray(sparse.hstack([X.values, sparse.csr_array((len(X.values), n_columns))], "csr"), X.indptr)
    mixing = ParameterMixing(CHAIN, n_shards=1, n_rounds=3, random_state=0).fit(X, y)
    rng = np.random.RandomState(0)
    rng.randint(2**31 - 1)
    seed, model = rng.randint(2**31 - 1), clone(CHAIN)
    for number in range(3):
        order = np.random.RandomState([seed, 0, number, 0]).permutation(len(X))
        model.partial_fit(X[order], [y[i] for i in order], classes=["a", "b"])
    np.testing.assert_allclose(mixing.estimator_.coef_, model.coef_, rtol=1e-10)
    np.testing.assert_allclose(mixing.loss_curve_, model.loss_curve_, rtol=1e-10)


def test_later_rounds_count_more():
    X, y = chains(0)
    found = []
    for recency in (0, 3.0, 1e9):
        mixing = ParameterMixing(CHAIN, n_shards=2, n_rounds=4, random_state=0, recency=recency).fit(X, y)
        found.append(mixing.estimator_.coef_)
    same = ParameterMixing(CHAIN, n_shards=2, n_rounds=4, random_state=0).fit(X, y)
    np.testing.assert_array_equal(same.estimator_.coef_, found[1])
    even, cubic, last = found
    # Between the average over all steps and that over the last round, and as near to this as the weights of rounds say.
    apart = np.abs(even - last).max()
    assert 0 < np.abs(cubic - last).max() < 0.8 * apart
    with pytest.raises(ValueError, match="recency"):
        ParameterMixing(CHAIN, recency=-1.0).fit(X, y)


def test_the_budget_holds_after_each_round():
    X = np.random.default_rng(0).normal(size=(600, 12))
    y = np.where(X[:, 3] + X[:, 4] - 2 * X[:, 10] > 0, "up", "down")
    seen = []

    class Watch:
        """A callback of scikit-learn's that looks at the model after each round."""

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if context.task_name == "iteration":
                seen.append(fitted_estimator.to_local().selected_groups_.tolist())

        def teardown(self, estimator, context):
            pass

    estimator = GroupLassoPerceptron(groups=np.repeat(range(4), 3), budget=2, shrink_every=20, debias_max_iter=2)
    mixing = ParameterMixing(estimator, n_shards=4, n_rounds=3, random_state=0)
    if hasattr(mixing, "set_callbacks"):
        mixing.set_callbacks(Watch())
    model = mixing.fit(X, y).to_local()
    assert model.selected_groups_.tolist() == [1, 3] and model.score(X, y) > 0.93
    assert np.flatnonzero(model.coef_.toarray().any(axis=0)).tolist() == [3, 4, 5, 9, 10, 11]
    assert len(mixing.loss_curve_) == len(model.loss_curve_) == 5
    if hasattr(mixing, "set_callbacks"):
        assert len(seen) == 5 and all(len(groups) <= 2 for groups in seen)
    by_strength = clone(estimator).set_params(budget=None, alpha=0.1, debias=None)
    selected = ParameterMixing(by_strength, n_rounds=3, random_state=0).fit(X, y).to_local().selected_groups_
    assert set(selected) <= {1, 3} or len(selected) < 4


def test_where_the_data_are_changes_nothing(tmp_path):
    partitions = [chains(seed, 20) for seed in range(4)]
    for number, partition in enumerate(partitions):
        save_partition(tmp_path / f"{number}.npz", *partition)
    sources = [
        partitions,
        [lambda p=p: p for p in partitions],
        [tmp_path / f"{number}.npz" for number in range(4)],
    ]
    X, _ = chains(9)
    for n_shards in (None, 2):
        mixing = ParameterMixing(CHAIN, n_shards=n_shards, n_rounds=2, random_state=0)
        found = [scores_of(clone(mixing).fit(source), X) for source in sources]
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])
        given = clone(mixing).fit(partitions, classes=["b", "a"])
        np.testing.assert_array_equal(scores_of(given, X), found[0])
        assert given.n_shards_ == (n_shards or 4)


def test_early_stopping_keeps_the_best_round():
    X, y = chains(0, 100)
    mixing = ParameterMixing(CHAIN, n_rounds=30, early_stopping=True, n_iter_no_change=2, random_state=0).fit(X, y)
    scores = mixing.validation_scores_
    assert len(scores) == len(mixing.loss_curve_) == mixing.n_iter_ < 30
    rng = np.random.RandomState(0)
    rng.randint(2**31 - 1, size=2)
    held = np.sort(rng.permutation(100)[:10])
    assert mixing.score(X[held], [y[i] for i in held]) == max(scores)
    parts = [chains(seed, 20) for seed in range(5)]
    of_parts = clone(mixing).set_params(validation_fraction=0.2).fit(parts)
    assert of_parts.n_shards_ == 4 and len(of_parts.validation_scores_) == of_parts.n_iter_


def test_in_scikit_learns_life():
    X, y = chains(0)
    mixing = ParameterMixing(CHAIN, n_rounds=2, random_state=0)
    with pytest.raises(NotFittedError):
        mixing.predict(X)
    with pytest.raises(AttributeError, match="not fitted yet"):
        mixing.classes_  # noqa: B018
    mixing.fit(X, y)
    assert mixing.classes_.tolist() == ["a", "b"] and mixing.n_features_in_ == 5 and mixing.client_ is None
    again = pickle.loads(pickle.dumps(mixing))
    np.testing.assert_array_equal(scores_of(again, X), scores_of(mixing, X))
    assert not hasattr(again, "client_")
    local = mixing.to_local()
    assert type(local) is StructuredSparseMAPClassifier and local.get_params() == CHAIN.get_params()
    assert len(mixing.predict_structures(X[:3])) == len(mixing.predict_marginals(X[:3])) == 3
    assert len(mixing.predict_proba(X[:3])) == 3 and hasattr(clone(mixing), "predict_proba")
    search = GridSearchCV(mixing, {"estimator__alpha": [1e-3, 1e3], "n_shards": [2]}, cv=2).fit(X, y)
    assert search.best_params_["estimator__alpha"] == 1e-3


def test_training_goes_on_from_the_mixture():
    X, y = chains(0)
    model = ParameterMixing(CHAIN, n_rounds=2, random_state=0).fit(X, y).to_local()
    before = model.score(*chains(5))
    assert model.partial_fit(X, y).score(*chains(5)) > before - 0.05
    groups = ParameterMixing(GROUPS, n_rounds=2, random_state=0).fit(X, y).to_local()
    assert groups.partial_fit(X, y).finalize().selected_groups_.tolist() == [1]


def test_what_is_wrong_is_said():
    X, y = chains(0, 12)
    mixing = ParameterMixing(CHAIN, n_rounds=1, random_state=0)
    wide = np.ones((2, 6))
    for arguments, message in [
        ((X, y[:-1]), "inconsistent numbers of samples: 12 and 11"),
        (([x for x in X[:11]] + [wide], y), r"X\[11\]"),
        ((list(X[:3]), y[:3]), "3 samples are left for training, too few for n_shards=4"),
        (([(X, y), (X[:1], [["a"] * 9])],), r"partitions\[1\]: X\[0\] has"),
        (([(X, y), 5],), "must be a pair"),
        (([],), "there are no partitions"),
        (("train",), "must be a list of partitions"),
        ((np.eye(3),), "must be a list of partitions"),
    ]:
        n_shards = 4 if "n_shards" in message else None
        with pytest.raises(ValueError, match=message):
            clone(mixing).set_params(n_shards=n_shards).fit(*arguments)
    for parameters, message in [
        ({"n_rounds": 0}, "n_rounds"),
        ({"estimator": sparse}, "estimator"),
        ({"client": 5}, "client=5 must be a synchronous distributed.Client"),
    ]:
        with pytest.raises(ValueError, match=message):
            clone(mixing).set_params(**parameters).fit(X, y)
    bad = StructuredSparseMAPClassifier("chain", loss="perceptron", solver="adagrad", eta0=1e307)
    huge = RaggedArray(1e90 * X.values, X.indptr)
    with pytest.raises(ValueError, match="diverged"):
        ParameterMixing(bad, random_state=0, n_rounds=3).fit(huge, y)


def test_without_dask_an_address_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    X, y = chains(0, 12)
    assert ParameterMixing(CHAIN, n_rounds=1, random_state=0).fit(X, y).client_ is None
    with pytest.raises(ImportError, match=r"sklearn-sparsemap\[dask\]"):
        ParameterMixing(CHAIN, n_rounds=1, client="tcp://127.0.0.1:8786").fit(X, y)


def test_a_loss_of_zero_no_longer_falls():
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    model = StructuredSparseMAPClassifier(loss="perceptron", solver="adagrad", alpha=0.0)
    mixing = ParameterMixing(model, n_rounds=7, n_shards=2, random_state=2).fit(X, X[:, 0] > 0.0)
    assert mixing.loss_curve_[-1] == 0.0


def test_a_client_by_its_address_is_closed(monkeypatch):
    made = []

    class Client:
        def __init__(self, address, set_as_default=True):
            assert not set_as_default
            made.append(self)
            self.is_open = True

        def submit(self, function, *args, pure):
            raise RuntimeError("no worker")

        def close(self):
            self.is_open = False

    monkeypatch.setitem(__import__("sys").modules, "distributed", SimpleNamespace(Client=Client))
    X, y = chains(0, 12)
    with pytest.raises(RuntimeError, match="no worker"):
        ParameterMixing(CHAIN, n_rounds=1, client="tcp://127.0.0.1:8786").fit(X, y)
    assert len(made) == 1 and not made[0].is_open
