"""GroupLassoPerceptron: the estimator and its storage, against dense twins."""

import pickle
from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from internals import (
    COUNT,
    FRONT,
    TOP,
    BoundedCurve,
    highest_of,
    mean_of,
    replace,
)
from naive_perceptron import DenseLearner, optimizer_of, random_problem, run
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import GroupLassoPerceptron
from sklearn_sparsemap.features import TemplateVectorizer, chunking_templates
from sklearn_sparsemap.penalties import GroupOrder, GroupTree, as_groups
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Simplex

# The order of samples matters. `test_weights_that_are_integers_repeat_samples` has the same order, and is exact.
WAIVED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "the weighted samples are in another order than the repeated ones",
)


@parametrize_with_checks([GroupLassoPerceptron()], expected_failed_checks=lambda estimator: WAIVED)
# Some checks have features with a mean of 100 and a deviation of 1.
@pytest.mark.filterwarnings("ignore:.*standardise X:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_estimator_checks(estimator, check):
    check(estimator)


# -- The storage ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [{"budget": 2}, {"alpha": 0.01}, {}])
@pytest.mark.parametrize("loss", ["perceptron", "hinge", "sparsemap", "crf"])
@pytest.mark.parametrize("structure", [Simplex(), LinearChain(), DependencyTree()])
def test_scaled_storage_is_the_dense_algorithm(structure, loss, strength):
    rng = np.random.default_rng(0)
    samples, gold, n_outputs = random_problem(structure, rng)
    group_of = np.repeat(np.arange(4), 3)
    d = np.array([1.0, 0.5, 2.0, 1.5])
    settings = dict(eta0=0.5, period=40, shrink_every=7)
    optimizer = optimizer_of(structure, samples, n_outputs, as_groups(group_of), d, **settings, **strength)
    twin = DenseLearner(
        structure,
        loss,
        12,
        n_outputs,
        [(np.flatnonzero(group_of == g), d[g]) for g in range(4)],
        **settings,
        budget=strength.get("budget"),
        alpha=strength.get("alpha", 0.0),
    )
    # A thousand steps of one case, some hundred of the others.
    for _ in range(25 if loss == "hinge" and isinstance(structure, LinearChain) and "budget" in strength else 3):
        order = rng.permutation(40)
        run(optimizer, structure, loss, samples, gold, n_outputs, order)
        for i in order:
            twin.visit(samples[i], gold[i])
    # Inference of the sparse losses is exact to 1e-8 only, and what follows depends on it.
    exact = loss in ("perceptron", "hinge", "crf")
    tol = dict(rtol=1e-12, atol=1e-11) if exact else dict(rtol=1e-5, atol=1e-6)
    optimizer.average = False
    model = optimizer.model()
    assert_allclose(model.coef.toarray(), twin.coef, **tol)
    assert_allclose(model.intercept, twin.intercept, **tol)
    for name, value in zip(("additional",), (model.additional,)):
        joined = [a.ravel() for a in twin.additional.values()]
        assert_allclose(value, np.concatenate(joined) if joined else [], err_msg=name, **tol)
    assert_allclose(optimizer.group_norms(), [np.linalg.norm(twin.coef[group_of == g]) for g in range(4)], **tol)
    # Averages: where no group ever died they are those of the twin.
    optimizer.average = True
    if "budget" not in strength:
        assert_allclose(optimizer.model().coef.toarray(), twin.sums / twin.step, **tol)


@pytest.mark.parametrize("structure", [Simplex(), LinearChain(), DependencyTree()])
def test_mira_is_the_dense_algorithm(structure):
    rng = np.random.default_rng(1)
    samples, gold, n_outputs = random_problem(structure, rng)
    settings = dict(eta0=1.0, period=40, shrink_every=1000)
    optimizer = optimizer_of(
        structure, samples, n_outputs, as_groups(np.zeros(12, int)), np.zeros(1), mira=True, C=0.3, **settings
    )
    twin = DenseLearner(structure, "hinge", 12, n_outputs, [], **settings, budget=None, alpha=0.0)
    for _ in range(5):
        order = rng.permutation(40)
        run(optimizer, structure, "hinge", samples, gold, n_outputs, order)
        for i in order:
            twin.visit(samples[i], gold[i], mira=0.3)
    assert_allclose(optimizer.model().coef.toarray(), twin.sums / twin.step, rtol=1e-10, atol=1e-11)


def test_weights_that_exist_are_counted_and_given_back():
    rng = np.random.default_rng(2)
    samples, gold, n_outputs = random_problem(Simplex(), rng, n=300, n_features=60, n_labels=9)
    groups = as_groups(np.repeat(np.arange(20), 3))
    optimizer = optimizer_of(
        Simplex(), samples, n_outputs, groups, np.ones(20), eta0=1.0, period=300, shrink_every=20, budget=3
    )
    sizes = []
    for _ in range(20):
        run(optimizer, Simplex(), "perceptron", samples, gold, n_outputs, rng.permutation(300))
        optimizer.shrink()
        assert optimizer.alive_groups().sum() == 3
        store = optimizer.store
        assert optimizer.n_held == np.abs(store.features[:, COUNT]).sum()
        # Blocks of living features do not overlap, and hold each output once.
        used = np.zeros(len(store.values), int)
        for head, count, _, atom in store.features[store.features[:, 0] >= 0]:
            assert optimizer.alive()[atom]
            block = slice(head, head + (n_outputs if count < 0 else count))
            used[block] += 1
            assert count < 0 or len(set(store.outputs[block])) == count
        assert used.max() == 1
        optimizer.average = False
        assert_allclose(groups.norms(optimizer.model().coef.toarray()), optimizer.group_norms(), rtol=1e-9)
        optimizer.average = True
        sizes.append(int(optimizer.counters[FRONT]))
    # Blocks are used again: memory does not grow with the number of samples.
    assert sizes[-1] == sizes[10]


@pytest.mark.parametrize("n_labels", [2, 3, 4, 7, 13, 25, 26, 50, 97, 193])
def test_the_arena_has_space_for_all_labels_of_a_few_features(monkeypatch, n_labels):
    for name in ("_MIN_PLACES", "_MAX_PLACES"):
        replace(monkeypatch, "_training", name, 0)
    rng = np.random.default_rng(n_labels)
    labels = np.arange(n_labels)
    for n_features in (1, 2, 5):
        X = [rng.normal(size=(3, n_features)) * (rng.random((3, n_features)) < 0.5) for _ in range(12)]
        y = [rng.integers(n_labels, size=3) for _ in X]
        # The marginals of crf change the weights of all labels.
        model = GroupLassoPerceptron("chain", loss="crf", random_state=0)
        for rows in (slice(1), slice(1, 4), slice(4, None)):
            model.partial_fit(X[rows], y[rows], classes=labels)
            loaded = clone(model).set_training_state(model.get_training_state())
            copies = [loaded, *(pickle.loads(pickle.dumps(own)) for own in (model, loaded))]
            for own in (model, *copies):
                optimizer = own._learned.optimizer
                assert optimizer.counters[TOP] <= optimizer.counters[FRONT] <= len(optimizer.store.values)
            for own in copies:
                assert_array_equal(own.coef_.toarray(), model.coef_.toarray())
                own.partial_fit(X[:4], y[:4])
                assert_allclose(own.coef_.toarray(), copies[0].coef_.toarray(), rtol=1e-9, atol=1e-12)


def test_streams_without_weights_are_stored():
    rng, options = np.random.default_rng(0), {"groups": [0, 0, 1, 1], "budget": 1, "structure": "tree"}
    heads = [np.array([0, 1, 1]), np.array([2, 0, 2])]
    model = GroupLassoPerceptron(**options).partial_fit([np.zeros((12, 4))] * 2, heads)
    loaded, X = pickle.loads(pickle.dumps(model)), [rng.normal(size=(12, 4)) for _ in heads]
    assert_array_equal(loaded.partial_fit(X, heads).coef_.toarray(), model.partial_fit(X, heads).coef_.toarray())
    assert model.coef_.nnz


# -- The estimator -------------------------------------------------------------------------------------------------


def sensors(n=400, seed=0):
    """Five groups of four sensors, of which groups 1 and 3 matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 20))
    scores = np.stack([X[:, 4:8].sum(axis=1), X[:, 12:16] @ [1, -1, 1, -1], np.zeros(n)], axis=1)
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


GROUP_OF = np.repeat(np.arange(5), 4)


def quick(**params):
    return GroupLassoPerceptron(**{"groups": GROUP_OF, "shrink_every": 50, "random_state": 0, **params})


@pytest.mark.parametrize("loss", ["perceptron", "hinge", "sparsemap", "crf"])
@pytest.mark.parametrize("debias", ["mira", "crf", None])
def test_the_groups_that_matter_are_found(loss, debias):
    X, y = sensors()
    model = quick(loss=loss, debias=debias, budget=2).fit(X, y)
    assert model.selected_groups_.tolist() == [1, 3]
    # Without debiasing what is left is too small, but for the crf.
    assert model.score(X, y) > (0.7 if debias is None else 0.9)
    used = np.unique(model.coef_.tocoo().col)
    assert set(GROUP_OF[used]) <= {1, 3}
    assert model.n_nonzero_coefs_ == model.coef_.nnz
    assert (model.group_norms_[[1, 3]] > 0).all() and not model.group_norms_[[0, 2, 4]].any()
    assert model.sigma_ > 0
    assert len(model.memory_curve_) == len(model.memory_steps_)
    assert model.memory_curve_.max() <= 60
    assert len(model.loss_curve_) == (5 if debias is None else 15)


@pytest.mark.parametrize("structure", ["auto", "chain"])
def test_predictions_do_not_depend_on_the_step_size(structure):
    X, y = sensors()
    if structure == "chain":
        X, y = list(X.reshape(100, 4, 20)), list(y.reshape(100, 4))
    models = [quick(structure=structure, budget=3, debias=None, eta0=eta0).fit(X, y) for eta0 in (1.0, 0.3, 128.0)]
    for other, eta0 in zip(models[1:], (0.3, 128.0)):
        assert_allclose(other.coef_.toarray(), eta0 * models[0].coef_.toarray(), rtol=1e-9, atol=1e-12 * eta0)
        for found, wanted in zip(other.predict(X), models[0].predict(X), strict=True):
            assert_array_equal(found, wanted)


def test_a_fixed_strength_is_that_which_the_budget_implied():
    X, y = sensors(2000)
    budgeted = quick(budget=2, debias=None, loss="crf", max_iter=20).fit(X, y)
    fixed = quick(alpha=budgeted.sigma_, debias=None, loss="crf", max_iter=20).fit(X, y)
    assert fixed.selected_groups_.tolist() == budgeted.selected_groups_.tolist()
    assert fixed.sigma_ == budgeted.sigma_


def test_the_implied_strength_is_the_mean_over_all_shrinkages():
    X, y = sensors(600)
    stream, strengths = quick(budget=2, shrink_every=100, debias=None), []
    for start in range(0, 600, 100):
        stream.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.unique(y))
        strengths.append(stream.sigma_)
    # Each shrinkage had a strength of its own, so the last one is that of its block.
    assert len(set(strengths)) == 6
    assert stream.implied_alpha_ == pytest.approx(np.mean(strengths), rel=1e-12)
    assert pickle.loads(pickle.dumps(stream)).implied_alpha_ == stream.implied_alpha_
    deferred = quick(budget=2, shrink_every="auto", debias=None).fit(X, y)
    assert deferred.implied_alpha_ == deferred.sigma_ > 0.0


@pytest.mark.parametrize("weights", ["uniform", "log2", "sqrt", [3.0, 1.0, 0.2, 1.0, 2.0]])
@pytest.mark.parametrize("budget", [1, 2, 4, 5])
def test_just_the_budget_survives(budget, weights):
    X, y = sensors()
    model = quick(budget=budget, group_weights=weights, debias=None).fit(X, y)
    assert len(model.selected_groups_) == budget


def test_nothing_survives_too_high_a_strength():
    X, y = sensors(100)
    with pytest.warns(UserWarning, match="no group of features has survived"):
        model = quick(alpha=1e3).fit(X, y)
    assert model.n_nonzero_coefs_ == 0 and len(model.selected_groups_) == 0
    # The rest is the intercept.
    assert len(np.unique(model.predict(X))) == 1


def test_tied_groups_do_not_all_die():
    X, y = sensors()
    X = np.tile(X[:, 4:8], 5)
    for budget in (1, 3):
        model = quick(budget=budget).fit(X, y)
        assert model.selected_groups_.tolist() == list(range(budget))


def test_weights_are_counted_once():
    rng = np.random.default_rng(0)
    X = np.ones((2000, 20))
    X[:, 1::2] = 0.0
    stored = sparse.csr_matrix(np.ones((2000, 20)))
    stored.data[:] = X.ravel()
    y = rng.integers(0, 3, 2000)
    for features in (X, stored):
        model = quick(groups=None, shrink_every=100, debias="mira", budget=20).fit(features, y)
        assert model.memory_curve_.max() <= 30
    chain = quick(structure="chain", groups=None, budget=2, debias="mira")
    sequences = list(rng.normal(size=(30, 6, 5)).round(1))
    chain.fit(sequences, list(rng.integers(0, 4, size=(30, 6))))
    assert chain.memory_curve_.max() <= 20
    assert chain.memory_curve_[-1] >= chain.n_nonzero_coefs_


def test_what_cannot_change_in_a_stream():
    X, y = sensors(100)
    model = quick().partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="average cannot change"):
        model.set_params(average=False).partial_fit(X, y)
    with pytest.raises(ValueError, match="budget=9 is more than the 5 groups"):
        model.set_params(average=True, budget=9).partial_fit(X, y)
    fitted = quick(budget=2).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="budget=2 is more than the 1 groups"):
        fitted.set_params(groups=[0, 0]).fit(X[:, :2], y)
    assert_array_equal(fitted.predict(X), before)


def test_all_forms_of_groups():
    X, y = sensors(200)
    names = [f"g{g}" for g in range(5)]
    columns = [np.flatnonzero(g == GROUP_OF) for g in range(5)]
    first = quick(budget=2).fit(X, y)
    for groups in (dict(zip(names, columns)), columns, [c.tolist() for c in columns], as_groups(GROUP_OF)):
        model = quick(groups=groups, budget=2).fit(sparse.csr_matrix(X), y)
        assert_allclose(model.coef_.toarray(), first.coef_.toarray(), rtol=1e-12)
    assert quick(groups=dict(zip(names, columns)), budget=2).fit(X, y).groups_.names == tuple(names)
    # A group for each feature.
    model = quick(groups=None, budget=8).fit(X, y)
    assert len(set(model.selected_groups_) & {4, 5, 6, 7, 12, 13, 14, 15}) >= 6
    # Overlapping groups and trees.
    overlapping = quick(groups=[[0, 1, 2, 3, 8, 9], [4, 5, 6, 7, 8], list(range(9, 20))], budget=2).fit(X, y)
    assert 1 in overlapping.selected_groups_
    parents = {"root": None, "left": "root", "right": "root"}
    tree = GroupTree(parents, {"root": [0], "left": range(1, 8), "right": range(8, 20)})
    model = quick(groups=tree, budget=3, debias=None).fit(X, y)
    assert len(model.selected_groups_) == 3


@pytest.mark.filterwarnings("ignore:no group of features has survived")
def test_coarse_to_fine_drops_what_is_finer():
    X, y = sensors()
    order = GroupOrder([("a", "b"), ("b", "c"), ("d", "e")], columns=dict(zip("abcde", np.arange(20).reshape(5, 4))))
    sizes = []
    for budget in (1, 2, 3, 4):
        model = quick(groups=order, budget=budget, debias=None).fit(X, y)
        selected = {model.groups_.names[g] for g in model.selected_groups_}
        assert len(selected) <= budget
        sizes.append(len(selected))
        for coarse, fine in (("a", "b"), ("b", "c"), ("d", "e")):
            assert coarse in selected or fine not in selected
    assert max(sizes) > 2


def sentences(n=150, seed=0):
    rng = np.random.default_rng(seed)
    words = {"D": ["the", "a"], "N": ["dog", "cat", "house", "idea"], "V": ["sees", "likes", "is"]}
    X, y = [], []
    for _ in range(n):
        tags = list("DNV") + (["D", "N"] if rng.random() < 0.5 else [])
        X.append([{"word": str(rng.choice(words[t])), "pos": t if rng.random() < 0.9 else "N"} for t in tags])
        y.append([{"D": "B", "N": "I", "V": "O"}[t] for t in tags])
    return X, y


def test_templates_in_a_pipeline():
    X, y = sentences()
    pipeline = make_pipeline(
        TemplateVectorizer(chunking_templates()),
        GroupLassoPerceptron("chain", groups="templates", budget=5, shrink_every=50, random_state=0),
    ).fit(X, y)
    assert pipeline.score(X, y) > 0.95
    model = pipeline[-1]
    assert len(model.selected_groups_) == 5
    assert model.groups_.n_groups == len(pipeline[0].template_names_)
    grid = GridSearchCV(pipeline, {"grouplassoperceptron__budget": [1, 5]}, cv=2).fit(X, y)
    assert set(grid.best_params_) == {"grouplassoperceptron__budget"}
    again = pickle.loads(pickle.dumps(pipeline))
    assert [a.tolist() for a in again.predict(X)] == [a.tolist() for a in pipeline.predict(X)]


def test_a_stream_of_hashed_features():
    X, y = sentences(600)
    vectorizer = TemplateVectorizer(chunking_templates(), n_features=2**14)
    model = GroupLassoPerceptron("chain", groups="templates", budget=4, shrink_every=50)
    for start in range(0, 500, 25):
        model.partial_fit(vectorizer.fit_transform(X[start : start + 25]), y[start : start + 25], classes=list("BIO"))
    assert model.n_iter_ == 20 and len(model.loss_curve_) == 20
    held_out = vectorizer.transform(X[500:])
    assert model.score(held_out, y[500:]) > 0.9
    again = pickle.loads(pickle.dumps(model))
    again.partial_fit(vectorizer.transform(X[:25]), y[:25])
    model.partial_fit(vectorizer.transform(X[:25]), y[:25])
    assert_array_equal(again.coef_.toarray(), model.coef_.toarray())
    assert len(model.memory_curve_) > 10 and model.group_norms_.shape == (72,)
    with pytest.raises(ValueError, match=r"classes=.* differ from those of the first call"):
        model.partial_fit(held_out, y[500:], classes=list("BIOX"))
    with pytest.raises(ValueError, match="has the label 'X', which is not in classes"):
        model.partial_fit(held_out, [["X"] * len(s) for s in y[500:]])
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        clone(model).partial_fit(held_out, y[500:])


def test_fit_leaves_little_behind():
    X, y = sensors()
    model = quick(budget=2).fit(X, y)
    assert len(pickle.dumps(model)) < 20_000
    before, predicted = model.coef_.toarray(), model.predict(X[:1])
    wrong = np.where(predicted == "a", "b", "a")
    # Training goes on from there: where it is right nothing moves, else the two labels do.
    model.partial_fit(X[:1], predicted)
    assert_array_equal(model.coef_.toarray(), before)
    assert model.score(X, y) > 0.8
    model.partial_fit(X[:1], wrong)
    step = (model.classes_ == wrong).astype(float) - (model.classes_ == predicted)
    change = model.coef_.toarray() - before
    assert_allclose(change, np.outer(step, X[0]) * (np.abs(change).max() / np.abs(X[0]).max()), atol=1e-12)
    assert np.abs(change).max() > 0.1


def test_digits_by_rows_of_pixels():
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    rows = np.repeat(np.arange(8), 8)
    model = GroupLassoPerceptron(groups=rows, budget=5, shrink_every=200, random_state=0).fit(X[:1200], y[:1200])
    assert len(model.selected_groups_) == 5
    assert model.score(X[1200:], y[1200:]) > 0.75
    found = cross_val_predict(clone(model), X[:600], y[:600], cv=3)
    assert (found == y[:600]).mean() > 0.7


@pytest.mark.parametrize(
    "params, message",
    [
        ({"budget": 0}, r"'budget' parameter .* must be an int in the range \[1, inf\) or None. Got 0"),
        ({"budget": 6}, "budget=6 is more than the 5 groups"),
        ({"budget": 2.0}, r"'budget' parameter .* must be an int in the range \[1, inf\) or None"),
        ({"budget": 2, "alpha": 0.1}, "budget and alpha both set"),
        ({"alpha": -1.0}, r"'alpha' parameter .* must be a float in the range \[0.0, inf\)"),
        ({"groups": "templates"}, "groups='templates' needs features with the groups of their templates"),
        ({"groups": "words"}, "groups='words' is not one of"),
        ({"groups": np.arange(3)}, "groups"),
        ({"groups": -GROUP_OF}, "groups"),
        ({"groups": [[0, 1], [25]]}, "25"),
        ({"groups": [[0, 1], [2, 3]]}, "in no group"),
        ({"groups": [list(range(20)), []]}, "empty"),
        ({"groups": GROUP_OF * 2}, "group 1 is empty"),
        ({"group_weights": "size"}, "group_weights='size' is not one of"),
        ({"group_weights": [1.0, 2.0]}, "group_weights has shape"),
        ({"group_weights": [1.0, 2.0, -1.0, 1.0, 1.0]}, r"group_weights\[2\] is -1.0"),
        ({"loss": "log"}, "'loss' parameter .* must be a str among .* Got 'log'"),
        ({"debias": "svm"}, "'debias' parameter .* must be a str among .* or None. Got 'svm'"),
        ({"shrink_every": 0}, r"'shrink_every' parameter .* must be an int in the range \[1, inf\)"),
        ({"eta0": 0.0}, r"'eta0' parameter .* must be a float in the range \(0.0, inf\)"),
        ({"eta0": 1e-300}, "eta0 must lie between 1e-50 and 1e[+]50.*; got 1e-300"),
        ({"eta0": 1e300}, "eta0 must lie between"),
        ({"structure": "ring"}, "structure='ring' is not one of"),
        ({"C": -1.0}, r"'C' parameter .* must be a float in the range \(0.0, inf\]"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(*sensors(60))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_is_learned_may_be_assigned(kind):
    X, y = sensors(60)
    fitted = quick(budget=2).fit(X, y)
    streamed = quick(budget=2).partial_fit(X, y, classes=np.unique(y))
    rng = np.random.default_rng(0)
    for model in (fitted, streamed):
        selected = model.selected_groups_.tolist()
        coef = np.where(rng.random(model.coef_.shape) < 0.5, rng.normal(size=model.coef_.shape), 0.0)
        intercept = rng.normal(size=len(model.classes_))
        model.coef_ = coef if kind == "dense" else sparse.coo_array(coef)
        model.intercept_ = intercept
        assert_array_equal(model.coef_.toarray(), coef)
        assert model.n_nonzero_coefs_ == np.count_nonzero(coef)
        assert_array_equal(model.predict(X), model.classes_[(X @ coef.T + intercept).argmax(axis=1)])
        assert model.selected_groups_.tolist() == selected, "what training has selected"
        model.partial_fit(X[:1], y[:1])
        for wrong, message in [(np.eye(3), "coef_ must have shape"), (coef * np.nan, "coef_ contains NaN")]:
            with pytest.raises(ValueError, match=message):
                model.coef_ = wrong


def test_cycles_are_refused():
    with pytest.raises(ValueError, match="cycle"):
        GroupOrder([("a", "b"), ("b", "a")])


def test_the_same_seed_gives_the_same_model():
    X, y = sensors()
    models = [quick(budget=2, n_jobs=n).fit(X, y) for n in (1, 2)]
    assert_array_equal(models[0].coef_.toarray(), models[1].coef_.toarray())
    assert (models[0].predict(X) == models[1].predict(X)).all()


def test_a_stream_reports_the_last_shrinkage():
    X, y = sensors()
    model = quick(budget=2, shrink_every=100)
    with pytest.warns(UserWarning, match="groups have not been shrunk yet.*every shrink_every=100 samples"):
        assert model.partial_fit(X[:90], y[:90], classes=["a", "b", "c"]).selected_groups_.tolist() == [0, 1, 2, 3, 4]
    for start in range(90, 350, 35):
        model.partial_fit(X[start : start + 35], y[start : start + 35])
        assert len(model.selected_groups_) == 2
    assert model._learned.optimizer.alive_groups().sum() > 2, "others compete until the next shrinkage"
    assert model.selected_groups_.tolist() == [1, 3]
    assert pickle.loads(pickle.dumps(model)).selected_groups_.tolist() == [1, 3]
    # After fit, too; and where nothing is ever shrunk there is nothing to warn of.
    model = quick(budget=2, shrink_every=10**6).fit(X, y).partial_fit(X[:5], y[:5])
    assert model.selected_groups_.tolist() == [1, 3]
    assert len(quick().fit(X, y).selected_groups_) == 5


def test_fewer_samples_than_between_two_shrinkages():
    X, y = sensors(60)
    for params in ({}, {"max_iter": 1}, {"debias": None}):
        assert len(quick(budget=2, shrink_every=1000, **params).fit(X, y).selected_groups_) == 2


@pytest.mark.parametrize("debias", ["mira", "crf", None])
def test_finalize_shrinks_and_debiases(debias):
    X, y = sensors()

    def stream(shrink_every=1000):
        model = quick(budget=2, shrink_every=shrink_every, debias=debias)
        for start in range(0, 400, 50):
            model.partial_fit(X[start : start + 50], y[start : start + 50], classes=["a", "b", "c"])
        return model

    shrunk = stream().finalize()
    assert shrunk.selected_groups_.tolist() == [1, 3]
    assert set(GROUP_OF[np.unique(shrunk.coef_.tocoo().col)]) == {1, 3}
    assert (shrunk.n_iter_, len(shrunk.loss_curve_)) == (8, 8)
    model = stream().finalize(X, y)
    assert model.selected_groups_.tolist() == [1, 3]
    assert set(GROUP_OF[np.unique(model.coef_.tocoo().col)]) == {1, 3}
    if debias is None:
        assert_array_equal(model.coef_.toarray(), shrunk.coef_.toarray())
    else:
        assert model.score(X, y) > 0.9
        # Debiasing is all that is left to do after it.
        again = shrunk.finalize(X, y)
        assert_array_equal(again.coef_.toarray(), model.coef_.toarray())
    assert model.partial_fit(X, y).score(X, y) > 0.7
    with pytest.raises(ValueError, match="both X and y"):
        model.finalize(X)
    with pytest.raises(ValueError, match="has the label 'd', which is not"):
        model.finalize(X, np.where(y == "a", "d", y))
    with pytest.raises(NotFittedError):
        quick(budget=2).finalize()
    # Edited weights count, in a stream as well.
    edited = stream()
    edited.coef_ = 2.0 * edited.coef_
    assert edited.finalize(X, y).score(X, y) > 0.6


@pytest.mark.parametrize(
    ("params", "n_classes"),
    [
        ({}, 2),
        ({}, 3),
        ({"debias": "crf"}, 3),
        ({"loss": "crf", "debias": "crf"}, 2),
        ({"average": False}, 3),
        ({"shrink_every": 200}, 3),
        ({"budget": 36, "budget_unit": "weights"}, 3),
        ({"budget": None, "alpha": 0.02}, 2),
    ],
)
def test_debiasing_on_the_last_samples_keeps_what_the_stream_has_learned(params, n_classes):
    rng, group_of = np.random.default_rng(0), np.repeat(np.arange(10), 6)
    X = rng.normal(size=(6000, 60))
    scores = X[:, 12:24] @ rng.normal(size=(12, n_classes)) + 3.0 * rng.normal(size=(6000, n_classes))
    y = scores.argmax(axis=1)

    def stream():
        given = {"groups": group_of, "budget": 2, "random_state": 0, "debias_max_iter": 5} | params
        model = GroupLassoPerceptron(**given)
        for start in range(0, 3000, 100):
            model.partial_fit(X[start : start + 100], y[start : start + 100], classes=np.arange(n_classes))
        return model

    streamed = stream()
    ended = deepcopy(streamed).finalize()
    plain = ended.score(X[3000:], y[3000:])
    assert plain > 0.45
    for model, last in product((deepcopy(streamed), ended), (20, 100)):
        n_steps = model.memory_steps_[-1]
        model.finalize(X[3000 - last : 3000], y[3000 - last : 3000])
        assert model.score(X[3000:], y[3000:]) > plain - 0.02
        assert (np.diff(model.memory_steps_) >= 0).all() and n_steps <= model.memory_steps_[-1] <= n_steps + 5 * last
    assert streamed.finalize(X[:3000], y[:3000]).score(X[3000:], y[3000:]) > plain - 0.01


def test_curves_are_bounded(monkeypatch):
    course, records, rng = BoundedCurve(mean_of), BoundedCurve(highest_of), np.random.default_rng(0)
    values = rng.normal(size=1000)
    with monkeypatch.context() as patch:
        replace(patch, "_training", "MAX_ENTRIES", 8)
        for n, value in enumerate(values, 1):
            course.append(value)
            assert len(course.entries) == -(-n // course._per_entry) <= 8
            cuts = np.arange(0, n, course._per_entry)
            assert_allclose(course.entries, np.add.reduceat(values[:n], cuts) / np.diff([*cuts, n]), atol=1e-12)
        for step, count in enumerate(rng.permutation(1000).tolist()):
            records.append((step, (count, 0)))
    assert course.last == values[-1]
    assert len(records.entries) <= 8 and max(counts[0] for _, counts in records.entries) == 999
    X, y = sensors(3000)
    model = quick(budget=2, shrink_every=1, max_iter=2).fit(X, y)
    assert len(model.memory_curve_) == len(model.memory_steps_) < 9000
    assert (np.diff(model.memory_steps_) >= 0).all() and model.memory_curve_[-1] == model.n_nonzero_coefs_
    replace(monkeypatch, "_training", "MAX_ENTRIES", 16)
    stream = quick(shrink_every=2)
    for i in range(0, 300, 3):
        stream.partial_fit(X[i : i + 3], y[i : i + 3], classes=["a", "b", "c"])
        assert len(stream.loss_curve_) <= 16 and len(stream.memory_curve_) <= 17
    assert stream.n_iter_ == 100 and stream.memory_steps_[-1] == 300


@pytest.mark.parametrize("groups", [None, "templates"])
def test_more_columns_than_there_is_memory_for(groups):
    X = sparse.csr_array((np.ones(2), ([0, 1], [0, 5])), shape=(2, 2**31))
    with pytest.raises(ValueError, match=r"X has 2147483648 columns; at most 2147483647 .* into fewer columns"):
        GroupLassoPerceptron("chain", groups=groups).fit([X, X], [[0, 1], [1, 0]])


def test_finalize_keeps_to_the_budget_without_new_samples():
    X = np.random.default_rng(0).normal(size=(200, 6))
    y = np.where(X[:, 0] > 0, "a", "b")
    parameters = {"groups": [0, 0, 1, 1, 2, 2], "shrink_every": 50, "random_state": 0}
    model = GroupLassoPerceptron(budget=1, **parameters).fit(X, y)
    coef = model.coef_.toarray()
    coef[:, 4] = 0.01
    model.coef_ = coef
    assert model.finalize().selected_groups_.tolist() == [0]
    assert model.group_norms_[2] == 0.0
    model = GroupLassoPerceptron(budget=3, **parameters).fit(X, y)
    assert len(model.selected_groups_) == 3
    assert model.set_params(budget=1).finalize(X, y).selected_groups_.tolist() == [0]
    assert model.score(X, y) > 0.9


OPTIONS = [
    {},
    {"budget": 2},
    {"alpha": 0.02, "shrink_every": 7, "loss": "hinge"},
    {"budget": 2, "loss": "crf", "debias": "crf", "shuffle": False},
    {"budget": 12, "budget_unit": "weights", "loss": "sparsemap", "average": False},
]


def learned(model):
    names = ("coef_", "intercept_", "transitions_", "group_norms_", "selected_groups_", "memory_curve_", "loss_curve_")
    found = [getattr(model, name) for name in names]
    return [value.toarray() if sparse.issparse(value) else np.asarray(value) for value in found]


def weighted_chains(n=40, seed=0):
    """Return chains, integer weights whose mean is 1, and the number of each sample as often as its weight."""
    rng = np.random.default_rng(seed)
    samples, codes = [], []
    for _ in range(n):
        states = rng.integers(3, size=rng.integers(1, 5))
        samples.append(np.eye(3)[states] @ rng.normal(size=(3, 9)) + 0.5 * rng.normal(size=(len(states), 9)))
        codes.append(states)
    weights = rng.permutation(np.repeat([0.0, 1.0, 2.0, 3.0], [n // 4 + n // 8, n // 4 + n // 8, n // 8, n // 8]))
    return samples, codes, weights, np.repeat(np.arange(n), weights.astype(int))


@pytest.mark.filterwarnings("ignore:groups have not been shrunk:UserWarning")
@pytest.mark.parametrize("options", OPTIONS)
def test_weights_that_are_integers_repeat_samples(options):
    X, y, weights, repeated = weighted_chains()
    assert weights.mean() == 1.0 and len(repeated) == len(X)
    model = GroupLassoPerceptron("chain", groups=np.arange(9) // 3, random_state=0, **options)
    often = [X[i] for i in repeated], [y[i] for i in repeated]
    weighted, twin = clone(model).fit(X, y, weights), clone(model).fit(*often)
    for first, second in zip(learned(weighted), learned(twin), strict=True):
        np.testing.assert_array_equal(first, second)
    # In fit, only ratios of weights matter.
    for first, second in zip(learned(clone(model).fit(X, y, 0.25 * weights)), learned(weighted), strict=True):
        np.testing.assert_array_equal(first, second)
    # In a stream weights are absolute. Here the mean is 1.5.
    weights[:20] += 1.0
    repeated = np.repeat(np.arange(len(X)), weights.astype(int))
    streams = []
    for steps, of_samples in ((np.arange(len(X)), weights), (repeated, None)):
        stream = clone(model)
        for part in (steps[steps < 15], steps[steps >= 15]):
            own = None if of_samples is None else of_samples[part]
            stream.partial_fit([X[i] for i in part], [y[i] for i in part], [0, 1, 2], own)
        streams.append(stream)
    for first, second in zip(*map(learned, streams), strict=True):
        np.testing.assert_array_equal(first, second)
    last = [0.0, 2.0, 1.0, 1.0]
    streams[0].finalize(X[:4], y[:4], last)
    streams[1].finalize([X[i] for i in (1, 1, 2, 3)], [y[i] for i in (1, 1, 2, 3)])
    for first, second in zip(*map(learned, streams), strict=True):
        np.testing.assert_array_equal(first, second)


def test_weights_between_integers_shorten_steps():
    X, y, _, _ = weighted_chains(8)
    of_samples = np.array([0.5, 1.0, 2.5, 0.0, 1.0, 4.0, 1e-12, 1.0])
    model = GroupLassoPerceptron("chain", random_state=0).partial_fit(X, y, [0, 1, 2], of_samples)
    n_steps, learner = np.array([1, 1, 3, 0, 1, 4, 1, 1]), None
    learner = DenseLearner(
        LinearChain(), "perceptron", 9, 3, [([j], 1.0) for j in range(9)], eta0=1.0, period=1000, shrink_every=1000,
        budget=None, alpha=0.0,
    )  # fmt: skip
    for i, k in enumerate(n_steps.tolist()):
        for _ in range(k):
            learner.eta0 = of_samples[i] / k
            learner.visit(X[i], y[i])
    coef = learner.coef - (learner.coef * n_steps.sum() - learner.sums) / n_steps.sum()
    np.testing.assert_allclose(model.coef_.toarray().T, coef, atol=1e-10)
    assert model.memory_curve_.shape == (0,)
    # More visits than the limit: one step has the length of several.
    model.partial_fit(X[:1], y[:1], sample_weight=[1e8])
    assert np.isfinite(model.coef_.data).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 7, "sample_weight has 7 entries for 8 samples"),
        ([-1.0] + [1.0] * 7, r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
        ([0.0] * 8, "all sample weights are zero"),
        ([[1.0, 2.0]] * 8, "only StructuredSparseMAPClassifier learns from weights of steps"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    X, y, _, _ = weighted_chains(8)
    for call in (GroupLassoPerceptron("chain").fit, GroupLassoPerceptron("chain").partial_fit):
        options = {"classes": [0, 1, 2]} if call.__name__ == "partial_fit" else {}
        with pytest.raises(ValueError, match=message):
            call(X, y, sample_weight=weights, **options)
