"""Score models of label sets: linear scores, networks, trees and classifiers, and the choice of score_model="auto"."""

import pickle
import re
import warnings
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from internals import boosting_trees, multilabel_comparison, multilabel_trials, replace
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.tree import DecisionTreeRegressor

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import AtMost, Hierarchy, Implies
from sklearn_sparsemap.score_models import Network, Trees

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Each kind of score model, and what it can do.
MODELS = {
    "linear": ("linear", {"streams", "explains", "files"}),
    "network": (Network((16,), dropout=0.0, eta0=0.02, max_iter=40), {"streams", "files"}),
    "trees": (Trees(max_iter=20, learning_rate=0.3, max_depth=4), {"files"}),
    "forest": (RandomForestClassifier(10, random_state=0), set()),
    "regression": (LogisticRegression(), set()),
}
NAMES = pytest.mark.parametrize("name", MODELS)


@cache
def make(kind="curved", n_samples=150, seed=0):
    """Draw three labels of four features, which depend on sums, products and squares, or signs. 1 implies 0."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_samples, 4))
    a, b, c, d = X.T
    scores = {
        "linear": [a + b, b - c, c + d - 1.0],
        "curved": [a * b, c * d, b * b - 1.0],
        "signs": [np.sign(a * b), np.minimum(np.sign(c), np.sign(0.5 - d)), np.sign(np.abs(b) - 1.0)],
    }
    Y = (np.stack(scores[kind], axis=1) + 0.3 * rng.normal(size=(n_samples, 3)) > 0.0).astype(int)
    Y[:, 0] |= Y[:, 1]
    return X, Y


def new_model(name, **options):
    return MultilabelLPSparseMAP(score_model=MODELS[name][0], **{"random_state": 0, **options})


KINDS = {
    "plain": {},
    "logistic": {"loss": "logistic"},
    "hinge": {"loss": "hinge"},
    "edges": {"label_graph": "full"},
    "implication": {"constraints": [Implies(1, 0)]},
    "at most one": {"constraints": [AtMost([0, 1], 1)]},
    "hierarchy": {"constraints": Hierarchy([None, 0, None])},
    "threshold": {"threshold": "auto"},
    "map": {"decision": "map"},
    "unknown": {},
    "one label": {},
    "weights": {},
    "sparse": {},
}


def data_of(kind):
    """Return features, targets and weights."""
    X, Y = make()
    rng = np.random.default_rng(1)
    weights = None
    if kind == "unknown":
        Y = np.where(rng.random(Y.shape) < 0.8, Y, np.nan)
    if kind == "one label":
        Y = Y @ [4, 2, 1]
    if kind == "at most one":
        Y = Y * [1, 0, 1]
    if kind == "weights":
        weights = rng.integers(0, 3, len(X)).astype(float)
    return (sparse.csr_array(X) if kind == "sparse" else X), Y, weights


@cache
def fitted(name, kind="plain"):
    X, Y, weights = data_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return new_model(name, max_iter=60, **KINDS[kind]).fit(X, Y, weights)


@NAMES
@pytest.mark.parametrize("kind", KINDS)
def test_each_score_model_learns_all_kinds_of_label_sets(name, kind):
    X, Y, _ = data_of(kind)
    model = fitted(name, kind)
    predicted = model.predict(X)
    probabilities = model.predict_proba(X)
    assert np.isfinite(probabilities).all() and (probabilities > 0.0).all() and (probabilities < 1.0).all()
    if kind in ("implication", "hierarchy"):
        assert (predicted[:, 1] <= predicted[:, 0]).all() and (probabilities[:, 1] <= probabilities[:, 0]).all()
    if kind == "at most one":
        assert (predicted[:, :2].sum(axis=1) <= 1).all()
    if kind == "edges":
        assert (model.edge_scores_ != 0.0).any()
    assert model.predict_marginals(X).shape == probabilities.shape
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X), probabilities)
    if kind not in ("one label", "edges"):
        known = np.full(Y.shape, np.nan)
        known[:, 0] = 0.0
        assert not model.predict(X, known=known)[:, 0].any()


@NAMES
def test_files_hold_score_models_without_scikit_learn(name):
    X, _ = make()
    model = fitted(name)
    if "files" not in MODELS[name][1]:
        with pytest.raises(ValueError, match=r"has no plain form, so the model cannot be written as arrays; pickle it"):
            model.to_arrays()
        return
    again = MultilabelLPSparseMAP.from_arrays(model.to_arrays())
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert str(again.chosen_score_model_) == str(model.chosen_score_model_)


@NAMES
def test_streams_continue_score_models_or_say_that_they_cannot(name):
    X, Y = make()
    model = pickle.loads(pickle.dumps(fitted(name)))
    if "streams" in MODELS[name][1]:
        before = model.predict_proba(X)
        assert (model.partial_fit(X, Y).predict_proba(X) != before).any()
        new_model(name).partial_fit(X, Y).predict(X)
        return
    assert not hasattr(model, "partial_fit") and not hasattr(new_model(name), "partial_fit")
    with pytest.raises(AttributeError, match=r"the fitted score model needs all samples .* clone with score_model="):
        model.partial_fit(X, Y)
    with pytest.raises(
        AttributeError, match=r"partial_fit, .* are for score_model='linear' and 'network'; .* call fit"
    ):
        new_model(name).partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"partial_fit, fit_partitions and .* call fit"):
        new_model(name).fit_partitions([(X, Y)])
    with pytest.raises(ValueError, match="whose training cannot continue"):
        model.get_training_state()


@NAMES
def test_what_a_score_model_cannot_tell_is_an_error_with_another_way(name):
    X, _ = make()
    model = fitted(name)
    table = model.label_table(X[:1])
    if "explains" in MODELS[name][1]:
        assert model.coef_.shape == (3, 4) and "feature" in {source for _, source, *_ in table}
        return
    assert {source for _, source, *_ in table} == {"score"}
    assert_allclose([amount for *_, amount in table], model.decision_function(X[:1])[0], rtol=0, atol=1e-12)
    with pytest.raises(AttributeError, match=r"coef_ is for linear scores, .*permutation_importance"):
        model.coef_  # noqa: B018
    if name != "network":
        for attribute in ("coefs_", "intercepts_", "feature_importances_"):
            with pytest.raises(AttributeError, match=f"{attribute} .*permutation_importance"):
                getattr(model, attribute)


@NAMES
def test_conformal_sets_of_each_score_model(name):
    X, Y = make(n_samples=200, seed=1)
    sets = ConformalStructures(fitted(name), 0.8).conformalize(X[:100], Y[:100])
    assert sets.covers(X[100:], Y[100:]).mean() > 0.6


@pytest.mark.parametrize("name", ["network", "trees", "forest"])
def test_results_depend_on_the_seed_but_not_on_threads(name):
    X, Y = make()
    probabilities = fitted(name).predict_proba(X)
    options = {"max_iter": 60}
    assert_array_equal(new_model(name, n_jobs=2, **options).fit(X, Y).predict_proba(X), probabilities)
    if name == "network":
        assert (new_model(name, random_state=1, **options).fit(X, Y).predict_proba(X) != probabilities).any()


def test_parameters_of_score_models_are_set_by_searches():
    X, Y = make()
    model = MultilabelLPSparseMAP(score_model=Trees(max_iter=3))
    search = GridSearchCV(model, {"score_model__max_depth": [1, 4]}, cv=2).fit(X, Y)
    assert search.best_estimator_.chosen_score_model_.max_depth == search.best_params_["score_model__max_depth"]


@pytest.mark.parametrize(
    "options, named",
    [({"solver": "lbfgs"}, "solver='lbfgs'"), ({"early_stopping": True}, "early_stopping=True")],
)
@pytest.mark.parametrize("name", ["trees", "forest"])
def test_steps_of_adam_are_for_linear_scores_and_networks(name, options, named):
    X, Y = make()
    with pytest.raises(ValueError, match=f"{named} cannot be used with score_model=.*use score_model='linear'"):
        new_model(name, **options).fit(X, Y)
    with pytest.raises(ValueError, match="X_val cannot be used"):
        new_model(name).fit(X, Y, X_val=X, y_val=Y)


def test_few_samples_have_no_folds():
    X, Y = make()
    model = new_model("trees").fit(X[:5], Y[:5])
    assert model.n_iter_ == 20 and model.predict(X).shape == Y.shape


# -- score_model="auto" -----------------------------------------------------------------------------------------------


@cache
def chosen(kind):
    X, Y = make(kind, 400)
    return MultilabelLPSparseMAP(random_state=0).fit(X, Y)


def log_loss(Y, P):
    return -np.log(np.where(Y > 0, P, 1.0 - P)).mean()


@pytest.fixture
def no_trials(monkeypatch):
    def refuse(*args):
        raise AssertionError("another score model was trained")

    replace(monkeypatch, "estimators", "new_forest", refuse)


@pytest.mark.parametrize("kind, kind_of_model", [("curved", Network), ("signs", Trees)])
def test_another_score_model_is_chosen_if_labels_are_not_linear(kind, kind_of_model):
    X, Y = make(kind, 400)
    model = chosen(kind)
    assert isinstance(model.chosen_score_model_, kind_of_model)
    X_test, Y_test = make(kind, 1000, seed=1)
    linear = MultilabelLPSparseMAP(score_model="linear").fit(X, Y)
    assert linear.chosen_score_model_ == "linear"
    assert log_loss(Y_test, model.predict_proba(X_test)) < 0.7 * log_loss(Y_test, linear.predict_proba(X_test))
    assert model.score(X_test, Y_test) > linear.score(X_test, Y_test) + 0.2


@pytest.mark.parametrize("kind", ["curved", "signs"])
def test_it_is_the_score_model_that_may_be_asked_for(kind):
    X, Y = make(kind, 400)
    model = chosen(kind)
    given = clone(model.chosen_score_model_).set_params(max_iter=model.n_iter_)
    with pytest.MonkeyPatch.context() as patch:
        # The number of rounds is known.
        patch.setattr(multilabel_trials.Trials, "n_steps", model.n_iter_)
        again = MultilabelLPSparseMAP(score_model=given, random_state=0, tol=0.0).fit(X, Y)
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert len(model.loss_curve_) == model.n_iter_ == again.n_iter_


def test_linear_scores_are_chosen_if_they_are_as_good():
    X, Y = make("linear", 400)
    model = chosen("linear")
    linear = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, Y)
    assert model.chosen_score_model_ == "linear"
    assert_array_equal(model.predict_proba(X), linear.predict_proba(X))
    assert_array_equal(model.coef_, linear.coef_)


def test_the_choice_does_not_depend_on_the_seed(monkeypatch):
    found = []
    replace(monkeypatch, "estimators", "is_clear_gain", lambda gains, weights: found.append(gains.copy()))
    X, Y = make("curved", 80)
    for seed in (0, 1):
        MultilabelLPSparseMAP(random_state=seed).fit(X, Y)
    assert len(found) > 2
    for one, two in zip(found[::2] if found[0] is found[1] else found[: len(found) // 2], found[len(found) // 2 :]):
        assert_array_equal(one, two)


@pytest.mark.parametrize(
    "params",
    [{"loss": "hinge"}, {"label_graph": "full"}, {"solver": "adam"}, {"solver": "lbfgs"}, {"early_stopping": True}],
    ids=str,
)
def test_without_the_choice_of_a_solver_scores_are_linear(params, no_trials):
    X, Y = make()
    model = MultilabelLPSparseMAP(random_state=0, tol=0.1, max_iter=5, **params).fit(X, Y)
    assert model.chosen_score_model_ == "linear"


def test_sparse_features_and_streams_are_linear(no_trials):
    X, Y = make()
    for model in (
        MultilabelLPSparseMAP().fit(sparse.csr_array(X), Y),
        MultilabelLPSparseMAP(random_state=0).partial_fit(X, Y),
        MultilabelLPSparseMAP(random_state=0, tol=0.1).fit_partitions([(X[:100], Y[:100]), (X[100:], Y[100:])]),
    ):
        assert model.chosen_score_model_ == "linear"


@pytest.mark.parametrize("kind", ["linear", "curved", "signs"])
def test_a_chosen_model_is_stored(kind):
    X, _ = make(kind, 400)
    model = chosen(kind)
    for again in pickle.loads(pickle.dumps(model)), MultilabelLPSparseMAP.from_arrays(model.to_arrays()):
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert str(again.chosen_score_model_) == str(model.chosen_score_model_)
    assert clone(model).score_model == "auto"


def test_the_same_samples_in_another_order_give_the_same_model():
    X, Y = make("signs", 400)
    order = np.random.default_rng(3).permutation(len(X))
    model = MultilabelLPSparseMAP(random_state=0).fit(X[order], Y[order])
    assert_allclose(model.predict_proba(X), chosen("signs").predict_proba(X), rtol=0, atol=1e-9)


def test_units_of_features_do_not_matter_to_trees():
    X, Y = make("signs", 400)
    factors = np.array([1e-3, 1.0, 1e3, 2.0**20])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MultilabelLPSparseMAP(random_state=0).fit(X * factors, Y)
    assert isinstance(model.chosen_score_model_, Trees)
    assert model.score(X * factors, Y) > 0.7


def scripted(monkeypatch, curves):
    """Let trials of score models have given losses at their measurements, by the names of their classes."""

    def measure(self, model, n_done):
        curve = curves[type(self._description.estimator).__name__ if hasattr(self._description, "estimator") else "net"]
        self.steps.append(n_done)
        self.evidence.append(np.zeros((len(self._held), 3)))
        self.losses.append(np.full(len(self._held), curve[min(len(self.losses), len(curve) - 1)]))

    monkeypatch.setattr(multilabel_trials.Trial, "_measure", measure)


@pytest.mark.parametrize(
    "rival, curve, n_measured, best",
    [
        (np.inf, [1.0, 0.9, 0.8, 0.8, 0.8], 5, 2),
        (np.inf, [1.0, 0.9, 0.8, 0.7999, 0.7998], 5, 2),
        (np.inf, [1.0, 1.0, 1.0], 3, 0),
        (np.inf, [0.5, 0.6, 0.7], 3, 0),
        # It cannot reach the rival.
        (0.5, [1.0, 0.95, 0.1], 2, 1),
        (0.5, [1.0, 0.8, 0.6, 0.5, 0.5, 0.5], 6, 3),
    ],
)
def test_a_trial_ends_when_the_loss_no_longer_falls_or_cannot_reach_a_rival(
    monkeypatch, rival, curve, n_measured, best
):
    X, Y = make()
    estimator = MultilabelLPSparseMAP(random_state=0)
    data, task = estimator._validate_fit(X, Y, None, None, first=True)
    scripted(monkeypatch, {"DecisionTreeRegressor": curve})
    description = Trees(learning_rate=1.0, estimator=DecisionTreeRegressor(max_depth=1))
    solver = multilabel_comparison.TreesTraining(estimator, estimator._inference, data, task, description)
    trials = multilabel_trials.Trials(solver, description)
    n_held = len(solver.folds[0][1])
    assert trials.add(rival * n_held)
    assert len(trials.trials[0].steps) == n_measured
    assert trials.n_steps == best + 1
    assert trials.add()
    assert trials.trials[1].steps[-1] == trials.trials[0].steps[-1]


def test_a_network_is_cheap_if_its_first_epochs_take_four_times_the_products_of_the_linear_fit():
    n_train, n_features, n_labels = 10_000, 77, 96
    # Five epochs, which is the least, over all samples and all pairs of a hidden unit with a feature or a label.
    n_products = 5 * n_train * 300 * (n_features + n_labels)
    for factor, is_cheap in ((0.249, False), (0.251, True)):
        linear = SimpleNamespace(
            folds=[(np.arange(n_train), np.arange(20))],
            X=SimpleNamespace(values=np.zeros((1, n_features))),
            task=SimpleNamespace(n_outputs=n_labels),
            n_products=factor * n_products,
        )
        assert multilabel_comparison._is_cheap(Network((300,)), linear) == is_cheap


def test_losses_are_calibrated_on_the_other_half():
    X, Y = make()
    estimator = MultilabelLPSparseMAP(random_state=0)
    _, task = estimator._validate_fit(X, Y, None, None, first=True)
    gold = task.gold.toarray()
    evidence = np.random.default_rng(0).normal(size=gold.shape)
    found = multilabel_comparison.calibrated_losses(estimator._inference, evidence, task)
    for half in (0, 1):
        other = [i for i in range(len(gold)) if i % 2 != half]
        curves = estimator._calibration.fit(evidence[other], gold[other], np.ones((len(other), 1)))
        for i in range(half, len(gold), 20):
            (p,) = curves.probabilities(evidence[[i]])
            assert found[i] == pytest.approx(-np.log(np.where(gold[i] > 0, p, 1.0 - p)).sum())


# -- Trees of each label ----------------------------------------------------------------------------------------------


def test_trees_of_each_output_change_no_other_output():
    X, Y = make()
    trees = MultiOutputRegressor(DecisionTreeRegressor(max_depth=2, random_state=0)).fit(X, Y)
    assert boosting_trees.trees_by_output(trees) is trees.estimators_
    assert boosting_trees.trees_by_output(MultiOutputRegressor(Ridge()).fit(X, Y)) is None
    assert boosting_trees.trees_by_output(trees.estimators_[0]) is None
    together = Trees(max_iter=5, learning_rate=0.3, estimator=trees)
    alone = Trees(max_iter=5, learning_rate=0.3, estimator=DecisionTreeRegressor(max_depth=2, random_state=0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multilabel_trials.Trials, "n_steps", 5)
        scores = MultilabelLPSparseMAP(score_model=together, random_state=0).fit(X, Y).decision_function(X)
        for k in range(3):
            own = MultilabelLPSparseMAP(score_model=alone, random_state=0).fit(X, Y[:, [k]], classes=["a"])
            assert_allclose(scores[:, k], own.decision_function(X)[:, 0], rtol=0, atol=1e-12)


# -- Units of features ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MultilabelLPSparseMAP(score_model="linear", max_iter=1),
        StructuredSparseMAPClassifier(max_iter=1, solver="lbfgs"),
    ],
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_warning_of_no_convergence_names_columns_of_other_scales(model, form):
    X, Y = make("linear")
    X = X * [1.0, 2e5, 1e-3, 0.0]
    y = Y if isinstance(model, MultilabelLPSparseMAP) else Y[:, 0]
    scaler = r"StandardScaler\(\)" if form is np.asarray else r"StandardScaler\(with_mean=False\)"
    low, high = (f"{np.abs(X[:, k]).max():.3g}" for k in (2, 1))
    wanted = re.escape(f"largest absolute value is {low} in column 2 of X, and {high} in column 1; ") + f".*{scaler}"
    with pytest.warns(ConvergenceWarning, match=wanted):
        clone(model).fit(form(X), y)
    with pytest.warns(ConvergenceWarning, match="raise alpha or scale the features$"):
        clone(model).fit(form(X[:, :1]), y)


# -- Earlier versions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "former, wanted",
    [
        ({"hidden_layer_sizes": "auto"}, "auto"),
        ({"hidden_layer_sizes": (), "dropout": None}, "linear"),
        ({"hidden_layer_sizes": (5,)}, Network((5,), dropout=0.0, batch_size=64)),
        (
            {"hidden_layer_sizes": (5, 3), "dropout": 0.4, "eta0": 0.1, "batch_size": 7},
            Network((5, 3), dropout=0.4, eta0=0.1, batch_size=7),
        ),
    ],
    ids=str,
)
def test_pickles_of_earlier_parameters_are_read(former, wanted):
    X, Y = make()
    model = MultilabelLPSparseMAP(score_model="linear").fit(X, Y)
    state = model.__getstate__()
    del state["score_model"]
    again = MultilabelLPSparseMAP.__new__(MultilabelLPSparseMAP)
    again.__setstate__({**state, **former})
    assert str(again.score_model) == str(wanted)
    assert not {"hidden_layer_sizes", "dropout"} & set(vars(again))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_former_parameter_is_an_unexpected_argument():
    with pytest.raises(TypeError, match="unexpected keyword argument 'hidden_layer_sizes'"):
        MultilabelLPSparseMAP(hidden_layer_sizes=(5,))


def test_dropout_continues_from_files():
    X, Y = make()
    model = MultilabelLPSparseMAP(score_model=Network((8,), dropout=0.5), random_state=3)
    for _ in range(3):
        model.partial_fit(X, Y)
    restored = MultilabelLPSparseMAP.from_arrays(model.to_arrays())
    assert_array_equal(restored.partial_fit(X, Y).decision_function(X), model.partial_fit(X, Y).decision_function(X))
