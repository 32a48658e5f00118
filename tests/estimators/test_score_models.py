"""Score models that are not linear, under every structure and loss. Another kind of score model is a row of `MODELS`.

A model "streams" if `partial_fit` can train it. It is "random" if it depends on `random_state`. "files" can hold it,
and it keeps the type of "narrow" features. A classifier learns no "rankings", whose parts are numbers. A model "fits
lines" if it learns linear scores from few samples.
"""

import pickle
import warnings
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from internals import MinibatchOptimizer, NetworkModel
from numpy.testing import assert_allclose, assert_array_equal
from samples import KINDS, graph_of, make_chains, make_data, make_rings
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.inspection import explain, feature_table
from sklearn_sparsemap.losses import LOSSES
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.score_models import Network, Trees
from sklearn_sparsemap.structures import Segmentation, SequenceBudget

_NETWORK = {"streams", "random", "files", "narrow", "rankings", "fits lines"}
# Each kind of score model: a description, and what it can do beyond the contract.
MODELS = {
    "network": (Network((16,), dropout=0.1, eta0=0.01, batch_size=8, max_iter=40), _NETWORK),
    "two layers": (Network((16, 8), dropout=0.0, eta0=0.01, batch_size=8, max_iter=40), _NETWORK),
    "trees": (Trees(learning_rate=0.3, min_samples_leaf=2, max_iter=40), {"random", "files", "rankings"}),
    "classifier": (LogisticRegression(), {"fits lines"}),
    "regressor": (Ridge(), {"rankings", "fits lines"}),
}
NAMES = pytest.mark.parametrize("name", MODELS)


@cache
def data_of(kind, seed=0):
    """Return samples of a structure, a factor graph, or single labels."""
    if kind == "labels":
        X = np.random.default_rng(seed).normal(size=(80, 2))
        return X, np.where((X > 0).all(axis=1), "both", np.where((X > 0).any(axis=1), "one", "none"))
    if kind == "rings":
        return make_rings(40, seed)
    if kind in KINDS:
        return make_data(KINDS[kind], seed=seed)
    return make_chains(40, seed)


STRUCTURES = {
    "labels": "auto",
    "chain": "chain",
    "budget": SequenceBudget(8, 0),
    "segments": Segmentation(8),
    "rings": graph_of,
    **KINDS,
}


def new_model(name, kind="chain", loss="sparsemap", **options):
    options = {"random_state": 0, **options}
    return StructuredSparseMAPClassifier(STRUCTURES[kind], loss, score_model=clone(MODELS[name][0]), **options)


def fitted(model, X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, **options)


@cache
def pickled_model(name, kind, loss):
    return pickle.dumps(fitted(new_model(name, kind, loss), *data_of(kind)))


def model_of(name, kind="chain", loss="sparsemap"):
    """Return a fitted model, a copy of the one that other tests of these data get."""
    return pickle.loads(pickled_model(name, kind, loss))


def have_loss(kind, loss):
    return LOSSES[loss].argmax != "gibbs" or kind not in ("matching", "ranking", "rings")


def flat(found):
    """Return the numbers or labels of predictions one after the other, as strings."""
    return [str(np.asarray(own).tolist()) for own in found]


def pytest_generate_tests(metafunc):
    """Choose models, structures and losses that are tried together.

    Learners ask their task for losses and gradients, and never which structure it has. So all pairs are tried for one
    network, with --thorough also for trees, and for the other models all structures with one loss, and all losses with
    one structure.
    """
    if metafunc.function is test_every_loss_learns_every_structure:
        all_pairs = ("network", "trees") if metafunc.config.getoption("thorough") else ("network",)
        cells = [
            (name, kind, loss)
            for name, kind, loss in product(MODELS, STRUCTURES, LOSSES)
            if name in all_pairs or kind == "chain" or loss == "sparsemap"
        ]
        metafunc.parametrize(("name", "kind", "loss"), cells)


def test_every_loss_learns_every_structure(name, kind, loss):
    X, y = data_of(kind)
    model = new_model(name, kind, loss)
    if kind == "ranking" and "rankings" not in MODELS[name][1] and have_loss(kind, loss):
        with pytest.raises(ValueError, match="pass a regressor"):
            model.fit(X, y)
        return
    if not have_loss(kind, loss):
        with pytest.raises(ValueError, match=r"#P-complete|no way is known|factor graphs"):
            model.fit(X, y)
        return
    model = model_of(name, kind, loss)
    is_high = kind in ("labels", *KINDS) and loss != "perceptron" and MODELS[name][1] is _NETWORK
    least = 0.8 if is_high else 0.6
    if "fits lines" not in MODELS[name][1]:
        least -= 0.3
    assert model.score(*data_of(kind, 1)) > least
    assert model.n_iter_ == len(model.loss_curve_)
    # The loss of the perceptron is small at small scores, too, with which trees begin.
    is_small = loss == "perceptron" and name == "trees"
    assert model.n_iter_ == 1 or model.loss_curve_[-1] < model.loss_curve_[0] or is_small


@pytest.mark.parametrize("kind", STRUCTURES)
@NAMES
def test_outputs_agree(name, kind):
    if kind == "ranking" and "rankings" not in MODELS[name][1]:
        return
    X, y = data_of(kind)
    model = model_of(name, kind)
    X = X[:6]
    predicted = model.predict(X)
    best = model.predict_n_best(X, 2)
    assert flat(predicted) == flat([own[0][0] for own in best])
    assert all(first[1] >= second[1] - 1e-9 for first, second in (own for own in best if len(own) == 2))
    marginals = model.predict_marginals(X)
    if kind == "rings":
        assert all(np.shape(u) == np.shape(own) for u, own in zip(marginals, y))
        return
    for own, u in zip(model.predict_structures(X), marginals, strict=True):
        assert abs(sum(weight for _, weight in own) - 1.0) < 1e-8
        assert np.all(u >= -1e-9)
    if kind != "labels":
        scores = model.decision_function(X)
        assert [s.shape for s in scores] == [u.shape for u in marginals]


@NAMES
def test_known_labels_and_constraints_hold(name):
    X, y = data_of("chain")
    model = fitted(new_model(name, constraints=[("x", "z"), (None, "z")]), X, y_allowed := allowed(y))
    found = model.predict(X)
    assert all(own[0] != "z" for own in found)
    assert not any(pair == ("x", "z") for own in found for pair in pairwise(own))
    known = [[None] * len(own) for own in y_allowed]
    known[3][0] = "y"
    assert model.predict(X, known=known)[3][0] == "y"
    assert model.predict_marginals(X, known=known)[3][0].tolist() == [0.0, 1.0, 0.0]
    assert np.isneginf(model.transitions_[0, 2]) and np.isneginf(model.start_[2])


def allowed(y):
    """Return label sequences without x before z, and without z at the beginning."""
    changed = []
    for own in y:
        own = own.copy()
        own[0] = "x" if own[0] == "z" else own[0]
        for t in range(1, len(own)):
            if (own[t - 1], own[t]) == ("x", "z"):
                own[t] = "y"
        changed.append(own)
    return changed


@NAMES
def test_additional_scores_can_be_assigned(name):
    X, _ = data_of("chain")
    model = model_of(name)
    assert model.transitions_.shape == (3, 3)
    transitions = model.transitions_.copy()
    transitions[0, 1] = -np.inf
    model.transitions_ = transitions
    assert not any(pair == ("x", "y") for own in model.predict(X) for pair in pairwise(own))
    assert [*model.additional_scores_] == ["transitions", "start", "end"]


@NAMES
def test_gibbs_losses_have_probabilities(name):
    X, y = data_of("chain")
    model = model_of(name, loss="crf")
    log_likelihood = model.log_likelihood(X, y)
    assert log_likelihood.shape == (len(X),) and (log_likelihood <= 0.0).all()
    assert_allclose([own.sum() for own in model.predict_proba(X)], [len(own) for own in y])
    drawn = model.sample(X[:2], 3, random_state=0)
    assert [len(own) for own in drawn] == [3, 3]


@NAMES
def test_conformal_sets_contain_gold(name):
    model = model_of(name, loss="crf")
    X_new, y_new = data_of("chain", 2)
    sets = ConformalStructures(model, 0.8).conformalize(*data_of("chain", 1))
    found = [any(np.array_equal(own, s) for s, *_ in many) for own, many in zip(y_new, sets.predict_set(X_new))]
    assert np.mean(found) > 0.6
    model.fit(X_new, y_new)
    with pytest.warns(UserWarning, match="fitted again"):
        sets.predict_set(X_new[:2])


@NAMES
def test_weights_of_samples_steps_and_classes(name):
    X, y = data_of("chain")
    only = fitted(new_model(name, shuffle=False), X[:20], y[:20])
    weights = np.repeat([1.0, 0.0], 20)
    model = fitted(new_model(name, shuffle=False), X, y, sample_weight=weights)
    assert only.score(X[:20], y[:20]) > 0.8 and model.score(X[:20], y[:20]) > 0.8
    steps = [np.linspace(1.0, 2.0, len(own)) for own in y]
    assert fitted(new_model(name), X, y, sample_weight=steps).score(X, y) > 0.8
    assert fitted(new_model(name, class_weight="balanced"), X, y).score(X, y) > 0.8


@pytest.mark.parametrize("loss", ["sparsemap", "perceptron", "crf"])
@NAMES
def test_unknown_labels(name, loss):
    X, y = data_of("chain")
    rng = np.random.default_rng(0)
    partly = [[None if rng.random() < 0.3 else label for label in own.tolist()] for own in y]
    partly[0][0] = "x"
    least = 0.8 if "fits lines" in MODELS[name][1] else 0.6
    least = 0.7 if loss == "perceptron" and "streams" in MODELS[name][1] else least
    assert fitted(new_model(name, loss=loss), X, partly).score(*data_of("chain", 1)) > least


@NAMES
def test_early_stopping(name):
    X, y = data_of("chain")
    model = fitted(new_model(name, early_stopping=True, n_iter_no_change=3), X, y)
    assert len(model.validation_scores_) == model.n_iter_
    X_val, y_val = data_of("chain", 1)
    model = fitted(new_model(name, n_iter_no_change=3), X, y, X_val=X_val, y_val=y_val)
    assert model.score(X_val, y_val) == max(model.validation_scores_)


@NAMES
def test_copies(name):
    X, y = data_of("chain")
    model = model_of(name)
    scores = np.concatenate(model.decision_function(X))
    assert not hasattr(clone(model), "classes_")
    with pytest.raises(NotFittedError):
        _ = clone(model).score_model_
    copies = [pickle.loads(pickle.dumps(model)), fitted(clone(model), X, y)]
    if "files" in MODELS[name][1]:
        copies.append(StructuredSparseMAPClassifier.from_arrays(model.to_arrays()))
    else:
        with pytest.raises(ValueError, match="pickle"):
            model.to_arrays()
    for copy in copies:
        assert_array_equal(np.concatenate(copy.decision_function(X)), scores)
        assert copy.get_params().keys() == model.get_params().keys()
    again = clone(model).set_params(random_state=1)
    assert "random" not in MODELS[name][1] or not np.array_equal(
        np.concatenate(fitted(again, X, y).decision_function(X)), scores
    )


@NAMES
def test_results_do_not_depend_on_threads(name):
    X, y = data_of("chain")
    usual = np.concatenate(model_of(name).decision_function(X))
    for n_jobs in (1, 2):
        model = fitted(new_model(name, n_jobs=n_jobs), X, y)
        assert_array_equal(np.concatenate(model.decision_function(X)), usual)


@NAMES
def test_types_and_forms_of_features(name):
    X, y = data_of("chain")
    dense = model_of(name)
    wide = fitted(new_model(name), [sparse.csr_array(x) for x in X], y)
    # Rounding errors differ, and grow in the course of training. A tree may choose another one of two equal splits.
    most = 1.0 if "fits lines" in MODELS[name][1] else 0.9
    differences = np.abs(np.concatenate(wide.decision_function(X)) - np.concatenate(dense.decision_function(X)))
    assert np.quantile(differences, most) < 0.1
    narrow = fitted(new_model(name), [x.astype(np.float32) for x in X], y)
    if "narrow" not in MODELS[name][1]:
        assert narrow.transitions_.dtype == np.float64
        differences = np.abs(np.concatenate(narrow.decision_function(X)) - np.concatenate(dense.decision_function(X)))
        assert np.quantile(differences, most) < 0.1
        return
    assert narrow.transitions_.dtype == narrow.score_model_.dtype == np.float32
    assert narrow.score(X, y) > 0.8
    sparse_narrow = fitted(new_model(name), [sparse.csr_array(x.astype(np.float32)) for x in X], y)
    differences = np.concatenate(sparse_narrow.decision_function(X)) - np.concatenate(narrow.decision_function(X))
    assert np.quantile(np.abs(differences), most) < 0.3


@NAMES
def test_linear_attributes_name_another_way(name):
    X, _ = data_of("chain")
    model = model_of(name)
    for attribute in ("coef_", "intercept_"):
        assert not hasattr(model, attribute)
        with pytest.raises(AttributeError, match=f"{attribute} is for score_model='linear'.*permutation_importance"):
            getattr(model, attribute)
        with pytest.raises(AttributeError, match="score_model='linear'"):
            setattr(model, attribute, np.zeros(3))
    for method in ("sparsify", "densify"):
        assert not hasattr(model, method) and not hasattr(clone(model), method)
    with pytest.raises(ValueError, match="explain is for score_model='linear'"):
        explain(model, X[0])
    with pytest.raises(ValueError, match="permutation_importance"):
        feature_table(model)


@NAMES
def test_streams(name):
    X, y = data_of("chain")
    model = new_model(name)
    if "streams" not in MODELS[name][1]:
        assert not hasattr(model, "partial_fit")
        with pytest.raises(
            AttributeError, match=r"partial_fit, .* are for score_model='linear' and 'network'; .* call"
        ):
            make_structured_pipeline(model).partial_fit(X, y, classes=["x", "y", "z"])
        with pytest.raises(ValueError, match=r"partial_fit, fit_partitions and .* call fit"):
            model.fit_partitions([(X, y)])
        # The parameter alone does not change the fitted model.
        fitted(model, X, y).set_params(score_model="linear")
        with pytest.raises(
            AttributeError, match=r"the fitted score model needs all samples .* clone with score_model="
        ):
            model.partial_fit(X, y)
        return
    for _ in range(20):
        for start in range(0, 40, 10):
            model.partial_fit(X[start : start + 10], y[start : start + 10], classes=["x", "y", "z"])
    assert model.score(X, y) > 0.8 and len(model.loss_curve_) == 80
    state = model.get_training_state()
    other = clone(model).set_training_state(state)
    copies = other, pickle.loads(pickle.dumps(model)), StructuredSparseMAPClassifier.from_arrays(model.to_arrays())
    for copy in copies[1:]:
        assert_array_equal(np.concatenate(copy.decision_function(X)), np.concatenate(model.decision_function(X)))
        copy.partial_fit(X, y)
    other.partial_fit(X, y)
    model.partial_fit(X, y)
    for copy in copies[1:]:
        assert_allclose(np.concatenate(copy.decision_function(X)), np.concatenate(model.decision_function(X)))
    assert other.score(X, y) > 0.8
    fitted_model = fitted(clone(model), X, y)
    assert fitted_model.partial_fit(X, y).score(X, y) > 0.8
    with pytest.raises(ValueError, match="on_new_labels='add'"):
        model.partial_fit(X[:1], [["new"] * len(X[0])], on_new_labels="add")
    with pytest.raises(ValueError, match="differs from that of the fitted model"):
        model.set_params(score_model="linear").partial_fit(X, y)


@NAMES
def test_partitions(name):
    if "streams" not in MODELS[name][1]:
        pytest.skip("the model does not learn from streams")
    X, y = data_of("chain")
    parts = [(X[start : start + 10], y[start : start + 10]) for start in range(0, 40, 10)]
    assert fitted_partitions(new_model(name, max_iter=30), parts).score(X, y) > 0.8


@NAMES
def test_rounds_on_shards(name):
    X, y = data_of("chain")
    mixing = ParameterMixing(new_model(name), n_shards=2, n_rounds=10, random_state=0)
    if "streams" not in MODELS[name][1]:
        with pytest.raises(ValueError, match=r"partial_fit, fit_partitions and distributed training"):
            mixing.fit(X, y)
        return
    assert fitted(mixing, X, y).estimator_.score(*data_of("chain", 1)) > 0.7


def fitted_partitions(model, parts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit_partitions(parts)


@NAMES
def test_warm_start(name):
    X, y = data_of("chain")
    model = fitted(new_model(name, warm_start=True), X, y)
    if "streams" not in MODELS[name][1]:
        with pytest.raises(ValueError, match="warm_start=True is for"):
            model.fit(X, y)
        return
    first = model.loss_curve_
    assert fitted(model, X, y).loss_curve_[0] < first[0]
    with pytest.raises(ValueError, match="differs from that of the fitted model"):
        model.set_params(score_model=Network((3,))).fit(X, y)


@NAMES
def test_nested_parameters_are_searched(name):
    X, y = data_of("chain")
    model = new_model(name)
    parameter = next(iter(model.score_model.get_params()))
    value = getattr(model.score_model, parameter)
    search = GridSearchCV(model, {f"score_model__{parameter}": [value], "temperature": [0.5, 1.0]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(X, y)
    assert search.best_score_ > 0.7 and search.best_estimator_.score_model is not model.score_model


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"solver": "lbfgs"}, "solver='lbfgs'"),
        ({"solver": "mira", "loss": "hinge"}, "solver='mira'"),
        ({"eta0": 0.1}, "eta0=0.1"),
        ({"batch_size": 4}, "batch_size=4"),
        ({"fit_intercept": False}, "fit_intercept=False"),
        ({"alpha": "auto"}, "alpha='auto'"),
    ],
)
@NAMES
def test_parameters_of_linear_scores_are_refused(name, options, named):
    with pytest.raises(ValueError, match=f"{named} is for score_model='linear'"):
        new_model(name, **options).fit(*data_of("chain"))


@pytest.mark.parametrize("given", ["forest", 3, None, Network, ["linear"], np.zeros(2)])
def test_an_invalid_score_model_is_refused(given):
    with pytest.raises(ValueError, match=r"score_model=.*must be 'linear', 'network'"):
        StructuredSparseMAPClassifier(score_model=given).fit(*data_of("labels"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hidden_layer_sizes": (0,)}, "positive ints"),
        ({"hidden_layer_sizes": ()}, "score_model='linear'"),
        ({"dropout": 1.0}, "dropout"),
        ({"eta0": 0.0}, "eta0"),
    ],
)
def test_parameters_of_a_network_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        StructuredSparseMAPClassifier(score_model=Network(**options)).fit(*data_of("labels"))


# -- Networks ---------------------------------------------------------------------------------------------------------


def objective(model, task, X, network):
    """Return the mean loss of all samples under a network."""
    ((batch, rows),) = task.batches(X, np.arange(len(X)), len(X), 1e-12)
    layers, _ = network.forward(rows)
    loss, *_ = batch.loss_gradient(layers[-1], network.additional, None, mean=True)
    return loss / task.weights.sum()


class Recorder(MinibatchOptimizer):
    """Records gradients in place of steps."""

    def _step(self, arrays, *options):
        self.gradients = arrays


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", ["chain", "labels", "tree", "subset", "rings"])
def test_the_gradient_of_a_network_is_that_of_the_loss(kind, loss, form):
    """Compare one step's gradients with finite differences along random directions, at weights without ties."""
    if not have_loss(kind, loss):
        return
    rng = np.random.default_rng(0)
    X, y = data_of(kind)
    X, y = X[:7], y[:7]
    model = StructuredSparseMAPClassifier(STRUCTURES[kind], loss, score_model=Network((6, 5)), random_state=0)
    rows, _, _, task = model._training_data(model._check_params(), X, y, rng.random(7) + 0.5)
    if form == "csr":
        rows = RaggedArray(sparse.csr_array(rows.values), rows.indptr, shapes=rows.shapes)
    network = NetworkModel.initial([rows.values.shape[1], 6, 5, task.n_outputs], task.n_additional, rng)
    for array in network.arrays:
        array += 0.3 * rng.normal(size=array.shape)
    optimizer = Recorder(network)
    optimizer.configure(rates=(1.0, 1.0), alphas=(0.0, 0.0), batch_size=7, n_jobs=None)
    optimizer.accept_gap(1e-12)
    optimizer.epoch(task, rows, np.arange(7))
    gradients = [g[0].T @ g[1] if isinstance(g, tuple) else g for g in optimizer.gradients]
    step = 1e-5
    for _ in range(3):
        directions = [rng.normal(size=array.shape) for array in network.arrays]
        values = []
        for sign in (1.0, -1.0):
            moved = network.copy()
            for array, direction in zip(moved.arrays, directions, strict=True):
                array += sign * step * direction
            values.append(objective(model, task, rows, moved))
        slope = sum(float(np.vdot(g, d)) for g, d in zip(gradients, directions, strict=True))
        assert_allclose(slope, (values[0] - values[1]) / (2.0 * step), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_weights_of_absent_features_stay(form):
    """A step is that of plain Adam for the features of the mini-batch, and nothing for all others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 6)) * (rng.random((12, 6)) < 0.3), rng.integers(0, 3, 12)
    X[:4, 2] = 0.0
    model = StructuredSparseMAPClassifier(score_model=Network((5,)), random_state=0)
    rows, _, _, task = model._training_data(model._check_params(), form(X), y)
    network = NetworkModel.initial([6, 5, 3], 0, rng)
    optimizers = [cls(network.copy()) for cls in (MinibatchOptimizer, Recorder)]
    for optimizer, by_presence in zip(optimizers, (True, False), strict=True):
        optimizer.configure(rates=(0.1, 0.1), alphas=(0.2, 0.2), batch_size=4, n_jobs=2, by_presence=by_presence)
    optimizer, recorder = optimizers
    first, second = np.zeros((2, 6, 5))
    for step in range(1, 4):
        recorder.network = optimizer.network.copy()
        before = optimizer.network.coefs[0].copy()
        chosen = np.arange(4 * step - 4, 4 * step)
        optimizer.epoch(task, rows, chosen)
        recorder.epoch(task, rows, chosen)
        found = recorder.gradients[0]
        g = (found[0].T @ found[1] if isinstance(found, tuple) else found) + 0.2 * before
        is_there = X[chosen].any(axis=0)
        first[is_there] = 0.9 * first[is_there] + 0.1 * g[is_there]
        second[is_there] = 0.999 * second[is_there] + 0.001 * g[is_there] ** 2
        scaled = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        expected = np.where(is_there[:, None], before - 0.1 * scaled, before)
        assert_allclose(optimizer.network.coefs[0], expected, rtol=1e-10)
    assert not X[:4].any(axis=0).all()


def test_sparse_and_dense_features_that_are_often_zero_give_one_network():
    X, y = data_of("chain")
    X = [np.hstack([x, np.eye(30)[np.arange(7 * i, 7 * i + len(x)) % 30]]) for i, x in enumerate(X)]
    # The inference of this loss is exact.
    options = {"loss": "crf", "score_model": Network((8,), batch_size=4, max_iter=5), "random_state": 0}
    models = [StructuredSparseMAPClassifier("chain", **options) for _ in range(2)]
    fitted(models[0], X, y)
    fitted(models[1], [sparse.csr_array(x) for x in X], y)
    scores = [np.concatenate(model.decision_function(X)) for model in models]
    assert_allclose(scores[0], scores[1], atol=1e-8)


def products(n_samples, seed=0):
    """Return chains whose labels depend on the sign of a product of two features, which is not linear."""
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(5, 3)) for _ in range(n_samples)]
    return X, [(x[:, 0] * x[:, 1] > 0).astype(int) for x in X]


@cache
def pickled_auto_model(loss):
    model = StructuredSparseMAPClassifier("chain", loss, score_model="auto", random_state=0)
    return pickle.dumps(fitted(model, *products(60)))


def auto_model(loss="sparsemap"):
    return pickle.loads(pickled_auto_model(loss))


@pytest.mark.parametrize("loss", ["sparsemap", "crf", "perceptron"])
def test_auto_chooses_a_score_model_that_is_better_than_linear_scores(loss):
    X, y = products(60)
    model = auto_model(loss)
    assert model.score(*products(60, 1)) > 0.8
    assert isinstance(model.chosen_score_model_, Network | Trees) and "coef_" not in dir(model)
    # The choice holds for what follows: files, pickles and another fit.
    copies = [StructuredSparseMAPClassifier.from_arrays(model.to_arrays()), pickle.loads(pickle.dumps(model))]
    if loss == "sparsemap":
        copies.append(fitted(clone(model), X, y))
    for found in copies:
        assert_array_equal(np.concatenate(found.predict(X)), np.concatenate(model.predict(X)))


@pytest.mark.parametrize("kind", ["sparse", "few", "linear"])
def test_auto_stays_linear_if_nothing_is_gained(kind):
    X, y = products(5 if kind == "few" else 60)
    if kind == "sparse":
        X = [sparse.csr_array(x) for x in X]
    if kind == "linear":
        y = [(x[:, 0] + x[:, 1] > 0).astype(int) for x in X]
    linear = fitted(StructuredSparseMAPClassifier("chain", random_state=0), X, y)
    model = fitted(StructuredSparseMAPClassifier("chain", score_model="auto", random_state=0), X, y)
    assert_array_equal(model.coef_, linear.coef_)


def test_auto_chooses_the_strength_of_linear_scores_once(capsys):
    X, y = products(60)
    y = [(x[:, 0] + x[:, 1] > 0).astype(int) for x in X]
    linear = fitted(StructuredSparseMAPClassifier("chain", alpha="auto", random_state=0), X, y)
    model = StructuredSparseMAPClassifier("chain", alpha="auto", score_model="auto", random_state=0, verbose=1)
    assert fitted(model, X, y).chosen_score_model_ == "linear"
    assert capsys.readouterr().out.count("strength 1 of") == 1
    assert model.alpha_ == linear.alpha_
    assert_array_equal(model.alphas_, linear.alphas_)
    # A fit without a choice of the strength has no path.
    assert not hasattr(fitted(model, *products(60)), "alphas_") and model.chosen_score_model_ != "linear"


def test_streams_of_auto_are_linear():
    X, y = products(20)
    model = StructuredSparseMAPClassifier("chain", score_model="auto").partial_fit(X, y, classes=[0, 1])
    linear = StructuredSparseMAPClassifier("chain").partial_fit(X, y, classes=[0, 1])
    assert_array_equal(model.coef_, linear.coef_)
    # A choice of an earlier fit does not hold for a new stream.
    model = auto_model()
    assert model.chosen_score_model_ != "linear"
    assert fitted_partitions(model, [(X, y)]).chosen_score_model_ == "linear"


_RANDOM = "mini-batches of a sample of weight 2, or 0, are not those of the sample twice, or of the others"
WAIVED = {f"check_sample_weight_equivalence_on_{kind}_data": _RANDOM for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [
        StructuredSparseMAPClassifier(score_model=Network((16,), eta0=0.01), random_state=0),
        StructuredSparseMAPClassifier(score_model=LogisticRegression(max_iter=1000)),
    ],
    expected_failed_checks=lambda estimator: WAIVED if isinstance(estimator.score_model, Network) else {},
)
def test_sklearn_checks(estimator, check):
    check(estimator)
