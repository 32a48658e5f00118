"""StructuredGroupLasso: the minimum, its certificate, and the estimator."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from internals import replace
from naive_group_lasso import NAMES, NaiveGroupLasso
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    RaggedArray,
    StructuredGroupLasso,
    StructuredGroupLassoCV,
    structured_group_lasso_path,
)
from sklearn_sparsemap.estimators import Monitor
from sklearn_sparsemap.factors import FactorGraph, Pair
from sklearn_sparsemap.penalties import GroupLasso, GroupTree
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Simplex

GROUPS = [np.array([0, 1]), np.array([2, 3, 4]), np.array([5]), np.array([6, 7])]
GROUP_OF = [0, 0, 1, 1, 1, 2, 3, 3]


# Stronger and smoother than by default, so that the many fits of the checks take a third of the iterations, and fits
# with weights and with repeated samples agree on all platforms.
@parametrize_with_checks([StructuredGroupLasso(alpha=0.2, loss="crf")])
# Some checks have features with a mean of 100 and a deviation of 1.
@pytest.mark.filterwarnings("ignore:.*standardise X:UserWarning")
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.fixture
def to_tolerance(monkeypatch):
    """Small problems are solved to `tol`, not to rounding, so that gaps are as large as it allows."""
    replace(monkeypatch, "_training", "_SMALL", 0)


def random_problem(kind, rng):
    """Return a structure, samples and gold of which the first and the second group say something."""
    n = int(rng.integers(6, 25))
    if kind == "multiclass":
        X = [rng.normal(size=(1, 8)) for _ in range(n)]
        y = [int(x[0, 0] + x[0, 2] + rng.normal() > 0) + int(x[0, 1] > 0.5) for x in X]
        return Simplex(), X, [i % 3 if i < 3 else label for i, label in enumerate(y)], 3
    if kind == "chain":
        X = [rng.normal(size=(int(rng.integers(1, 6)), 8)) for _ in range(n)]
        y = [(x[:, 0] + 0.5 * x[:, 2] + rng.normal(size=len(x)) > 0).astype(int) for x in X]
        return LinearChain(), [*X, *X[:2]], [*y, np.zeros(len(X[0]), int), np.ones(len(X[1]), int)], 2
    if kind == "tree":
        X = [rng.normal(size=(words + 1, words, 8)) for words in rng.integers(1, 5, size=n)]
        return DependencyTree(), X, [np.array([rng.integers(m + 1) for m in range(x.shape[1])]) for x in X], 1
    X = [rng.normal(size=(3, 3, 8)) for _ in range(n)]
    return Matching(), X, [rng.permutation(3) for _ in range(n)], 1


def fit_both(kind, seed, tol=1e-6, **parameters):
    rng = np.random.default_rng(seed)
    structure, X, y, n_outputs = random_problem(kind, rng)
    alpha = float(np.exp(rng.uniform(np.log(0.01), np.log(0.3))))
    parameters = {"loss": str(rng.choice(["sparsemap", "crf", "margin_sparsemap", "margin_crf"])), **parameters}
    if kind == "matching":
        parameters["loss"] = parameters["loss"].replace("crf", "sparsemap")
    if "l1_ratio" not in parameters:
        parameters["l1_ratio"] = float(rng.choice([0.0, 0.0, 0.4, 1.0]))
    parameters |= {"alpha": alpha, "temperature": float(rng.choice([0.5, 1.0, 2.0]))}
    model = StructuredGroupLasso(structure, groups=GROUP_OF, tol=tol, **parameters)
    model.fit(np.vstack(X) if kind == "multiclass" else X, y)
    naive = NaiveGroupLasso(structure, X, y, n_outputs, GROUPS, np.sqrt([2, 3, 1, 2]), **parameters)
    return model, naive


def weights_of(model):
    additional = model.additional_scores_
    return [model.coef_.T.copy(), model.intercept_.copy(), *(additional[name].copy() for name in NAMES if additional)]


@pytest.mark.parametrize(("kind", "few"), [("multiclass", 15), ("chain", 6), ("tree", 20), ("matching", 20)])
def test_the_gap_bounds_the_distance_to_the_minimum_of_the_twin(kind, few, to_tolerance, draws):
    n_compared = 0
    for seed in range(draws(few)):
        # At kinks of chains, the bound of the smallest gaps takes minutes.
        model, naive = fit_both(kind, seed, **({"tol": 1e-5} if kind == "chain" else {}))
        assert model.dual_gap_ <= (1e-5 if kind == "chain" else 1e-6)
        found = weights_of(model)
        assert naive.objective(found) == pytest.approx(model.objective_, abs=1e-10)
        # Away from the solution, so that the twin must find its own way back.
        start = [0.7 * each for each in found]
        _, value = naive.minimise(start, 6)
        assert value >= model.objective_ - model.dual_gap_ - 1e-10
        _, value = naive.minimise(found, 2)
        assert value >= model.objective_ - model.dual_gap_ - 1e-10
        n_compared += 1
    assert n_compared == draws(few)


@pytest.mark.parametrize("kind", ["multiclass", "chain", "tree", "matching"])
def test_the_gap_bounds_the_distance_of_an_early_end(kind, to_tolerance):
    n_compared = 0
    for seed in range(8):
        loss = {"loss": "crf"} if kind == "chain" else {}
        full, naive = fit_both(kind, seed, **loss)
        X = np.vstack(naive.X) if kind == "multiclass" else naive.X
        for max_iter in (1, 3, 10):
            early = end_early(full, max_iter, X, naive.y)
            distance = early.objective_ - full.objective_
            if distance > 1e-4:
                assert distance <= early.dual_gap_ * (1.0 + 1e-9)
                n_compared += 1
    assert n_compared >= 10


@pytest.mark.parametrize(("kind", "n_problems"), [("multiclass", 3), ("chain", 1), ("tree", 1), ("matching", 2)])
def test_excluded_groups_are_zero_at_the_minimum(kind, n_problems, to_tolerance):
    n_excluded = n_selected = 0
    for seed in range(n_problems):
        full, naive = fit_both(kind, seed, **({"loss": "crf"} if kind == "chain" else {}))
        X = np.vstack(naive.X) if kind == "multiclass" else naive.X
        for factor in (1.0, 3.0):
            full = clone(full).set_params(alpha=factor * full.alpha).fit(X, naive.y)
            for model in (full, end_early(full, 8, X, naive.y)):
                assert not full.group_norms_[model.excluded_groups_].any()
                n_excluded += len(model.excluded_groups_)
            n_selected += len(full.selected_groups_)
    assert n_excluded >= 2 and n_selected >= 2, (n_excluded, n_selected)


def test_graphs_exclude_no_groups():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 8)) for _ in range(4)]
    model = StructuredGroupLasso(ring_of, groups=GROUP_OF, alpha=0.5, tol=1e-3).fit(X, [x[:, 0] > 0 for x in X])
    assert len(model.excluded_groups_) == 0


def end_early(model, max_iter, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).set_params(max_iter=max_iter).fit(X, y)


@pytest.mark.parametrize("alpha", [0.02, 0.1, 10.0])
def test_the_gap_holds_far_from_the_found_transitions(alpha, to_tolerance):
    # In the gold, label 0 never follows label 1, and each sequence begins with label 0: these scores move far.
    rng, X, y = np.random.default_rng(0), [], []
    for length in (3, 5, 2, 4, 6, 3, 5):
        y.append((np.arange(length) >= rng.integers(1, length)).astype(int))
        X.append(rng.normal(size=(length, 8)) + 0.3 * y[-1][:, None])
    full = StructuredGroupLasso("chain", loss="crf", groups=GROUP_OF, alpha=alpha).fit(X, y)
    assert full.dual_gap_ <= 1e-6 and np.abs(full.transitions_).max() > 2.0
    n_compared = 0
    for max_iter in range(1, 25):
        early = end_early(full, max_iter, X, y)
        assert early.objective_ - full.objective_ <= early.dual_gap_
        n_compared += early.objective_ > full.objective_ + 1e-6
    assert n_compared >= 5


def ring_of(x):
    """Return a graph of binary variables in a ring, with one learned score for all pairs."""
    graph = FactorGraph()
    u = graph.variables(len(x), name="on")
    graph.add(Pair(u, u[np.arange(1, len(x) + 1) % len(x)], name="neighbours", tied=True))
    return graph


@pytest.mark.parametrize("loss", ["sparsemap", "margin_sparsemap"])
def test_the_gap_of_factor_graphs(loss, to_tolerance):
    rng, n_compared = np.random.default_rng(0), 0
    X = [rng.normal(size=(n, 8)) for n in rng.integers(3, 6, 5)]
    y = [x[:, 0] + x[:, 1] + rng.normal(size=len(x)) > 0 for x in X]
    full = StructuredGroupLasso(ring_of, loss=loss, groups=GROUP_OF, alpha=0.05).fit(X, y)
    assert full.dual_gap_ <= 1e-6
    for max_iter in range(1, 20, 2):
        early = end_early(full, max_iter, X, y)
        assert early.objective_ - full.objective_ <= early.dual_gap_
        n_compared += early.objective_ > full.objective_ + 1e-6
    assert n_compared >= 4


@pytest.mark.parametrize("kind", ["multiclass", "chain", "tree", "matching"])
def test_from_zero_the_twin_finds_the_same_minimum_and_groups(kind, to_tolerance):
    for seed in range(3):
        loss = "sparsemap" if kind == "matching" else "crf"
        model, naive = fit_both(kind, seed, loss=loss, l1_ratio=0.0)
        twin, value = naive.minimise(naive.zeros(), 60)
        assert value == pytest.approx(model.objective_, abs=2e-6)
        kept = [g for g, rows in enumerate(GROUPS) if np.linalg.norm(twin[0][rows]) > 1e-4]
        assert kept == model.selected_groups_.tolist()


def test_trees_of_groups(to_tolerance):
    rng = np.random.default_rng(0)
    _, X, y, _ = random_problem("multiclass", rng)
    tree = GroupTree({"all": None, "a": "all", "b": "all"}, {"all": [6, 7], "a": [0, 1, 2], "b": [3, 4, 5]})
    nested = [np.arange(8), np.array([0, 1, 2]), np.array([3, 4, 5])]
    for alpha, l1_ratio in ((0.02, 0.0), (0.05, 0.3), (0.1, 0.0)):
        model = StructuredGroupLasso(
            groups=tree, group_weights=[0.5, 1.0, 1.0], alpha=alpha, l1_ratio=l1_ratio, loss="crf"
        ).fit(np.vstack(X), y)
        naive = NaiveGroupLasso(
            Simplex(), X, y, 3, nested, np.array([0.5, 1.0, 1.0]), loss="crf", alpha=alpha, l1_ratio=l1_ratio
        )
        assert model.dual_gap_ <= 1e-6
        assert naive.objective(weights_of(model)) == pytest.approx(model.objective_, abs=1e-10)
        assert naive.minimise(naive.zeros(), 50)[1] >= model.objective_ - 1e-6
        norms = np.linalg.norm(model.coef_.T, axis=1)
        assert model.get_support().tolist() == (norms > 0).tolist()


def kinked():
    """A chain whose minimum is at a kink of the transitions."""
    rng = np.random.default_rng(26)
    X, y = [], []
    for _ in range(47):
        states = np.cumsum(rng.random(int(rng.integers(1, 8))) < 0.3) % 2
        X.append(rng.normal(size=(len(states), 8)) + np.eye(2, 8)[states])
        y.append(states)
    return X, y


@pytest.mark.parametrize("alpha", [0.01, 0.2, 0.4])
def test_at_kinks_averaged_gradients_give_the_bound(alpha):
    X, y = kinked()
    model = StructuredGroupLasso("chain", groups=GROUP_OF, alpha=alpha, temperature=0.6).fit(X, y)
    assert model.dual_gap_ <= 1e-6
    naive = NaiveGroupLasso(
        LinearChain(), X, y, 2, GROUPS, np.sqrt([2, 3, 1, 2]), loss="sparsemap", alpha=alpha, temperature=0.6
    )
    found, rng = weights_of(model), np.random.default_rng(0)
    assert naive.objective(found) == pytest.approx(model.objective_, abs=1e-10)
    for scale in (1e-1, 1e-2, 1e-3):
        for _ in range(10):
            other = [each + scale * rng.normal(size=each.shape) for each in found]
            assert naive.objective(other) >= model.objective_ - model.dual_gap_ - 1e-10


@pytest.mark.parametrize("alpha", [0.2, 0.4])
def test_without_averages_a_kink_has_no_bound(alpha, monkeypatch):
    replace(monkeypatch, "_training", "descend_by_turns", lambda *_: False)
    model = StructuredGroupLasso("chain", groups=GROUP_OF, alpha=alpha, temperature=0.6, max_iter=100)
    with pytest.warns(ConvergenceWarning, match="the duality gap is"):
        model.fit(*kinked())
    assert model.dual_gap_ > 1e-3


def data(n=300, n_features=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    scores = X[:, :9] @ rng.normal(size=(9, 3)) + rng.gumbel(size=(n, 3))
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)]


def test_working_sets_hold_few_columns_and_miss_none():
    X, y = data(400, 1500)
    groups = np.repeat(np.arange(500), 3)
    model = StructuredGroupLasso(groups=groups, alpha=0.06, loss="crf").fit(X, y)
    assert model.dual_gap_ <= 1e-6 and set(model.selected_groups_) >= {0, 1, 2} and len(model.selected_groups_) < 60
    wide = StructuredGroupLasso(groups=groups, alpha=0.06, loss="crf")
    wide.fit(sparse.csr_array(X), y)
    assert wide.objective_ == pytest.approx(model.objective_, abs=2e-6)
    np.testing.assert_array_equal(wide.selected_groups_, model.selected_groups_)


def test_an_early_end_has_a_true_bound_and_a_warning():
    X, y = data()
    full = StructuredGroupLasso(groups=np.arange(30) // 3, loss="crf").fit(X, y)
    bounds = []
    for max_iter in (1, 5, 20):
        model = clone(full).set_params(max_iter=max_iter)
        with pytest.warns(ConvergenceWarning, match=r"it reached max_iter.*duality gap.*raise max_iter"):
            model.fit(X, y)
        assert full.objective_ - 1e-6 <= model.objective_ <= full.objective_ + model.dual_gap_
        assert model.n_iter_ == max_iter == len(model.loss_curve_)
        bounds.append(model.dual_gap_)
    assert bounds[-1] < bounds[0]


def test_a_strong_penalty_leaves_the_intercepts():
    X, y = data()
    model = StructuredGroupLasso(alpha=10.0, loss="crf").fit(X, y)
    assert len(model.selected_groups_) == model.n_nonzero_coefs_ == 0
    shares = np.unique(y, return_counts=True)[1] / len(y)
    np.testing.assert_allclose(model.predict_proba(X[:2]), [shares, shares], atol=1e-6)
    bare = StructuredGroupLasso(alpha=10.0, fit_intercept=False).fit(X, y)
    assert not bare.intercept_.any() and bare.dual_gap_ == 0.0


def test_threads_and_warm_starts_do_not_change_the_minimum():
    X, y = data(2000, 60)
    model = StructuredGroupLasso(groups=np.arange(60) // 3, loss="crf").fit(sparse.csr_array(X), y)
    other = clone(model).set_params(n_jobs=2).fit(sparse.csr_array(X), y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    warm = clone(model).set_params(warm_start=True, alpha=0.012).fit(X, y)
    warm.set_params(alpha=0.01).fit(X, y)
    assert warm.objective_ == pytest.approx(model.objective_, abs=2e-6)
    assert warm.loss_curve_[0] - model.objective_ < 0.1 * (model.loss_curve_[0] - model.objective_)
    with pytest.raises(ValueError, match="warm_start=True needs the features"):
        warm.fit(X[:, :30], y)


def test_names_selection_and_debiasing():
    X, y = data()
    groups = {"true": list(range(9)), "noise": list(range(9, 30))}
    model = StructuredGroupLasso(groups=groups, alpha=0.05).fit(X, y)
    assert model.selected_group_names_ == ["true"] and model.get_support(indices=True).tolist() == list(range(9))
    np.testing.assert_allclose(model.group_norms_, [np.linalg.norm(model.coef_[:, :9]), 0.0])
    refit = clone(model).set_params(debias=True).fit(X, y)
    assert refit.selected_group_names_ == ["true"] and refit.dual_gap_ == model.dual_gap_
    assert np.linalg.norm(refit.coef_) > 1.5 * np.linalg.norm(model.coef_) and refit.score(X, y) >= model.score(X, y)
    stronger = clone(model).set_params(debias=1.0).fit(X, y)
    assert np.linalg.norm(stronger.coef_) < np.linalg.norm(refit.coef_)
    chosen = make_pipeline(SelectFromModel(clone(model), threshold=1e-12), StructuredGroupLasso()).fit(X, y)
    assert chosen[0].get_support().sum() == 9


def test_debiasing_that_does_not_converge_warns():
    X, y = data()
    model = StructuredGroupLasso(loss="crf", tol=1.0, max_iter=2, debias=1e-6)
    with pytest.warns(ConvergenceWarning, match="^debiasing: L-BFGS did not converge"):
        model.fit(X, y)


def test_templates_give_the_groups():
    X = RaggedArray(sparse.csr_array(np.eye(6)), [0, 2, 4, 6])
    X.groups = np.array([0, 0, 0, 1, 1, 1])
    X.group_names = ["word", "shape"]
    model = StructuredGroupLasso("chain", groups="templates", alpha=0.01).fit(X, [[0, 1], [1, 0], [0, 1]])
    assert model.groups_.n_groups == 2 and set(model.selected_group_names_) <= {"word", "shape"}


def test_sample_weights_and_class_weights_count():
    X, y = data(100, 9)
    weights = np.random.default_rng(0).integers(0, 3, size=100)
    weighted = StructuredGroupLasso(loss="crf", tol=1e-9).fit(X, y, weights)
    repeated = StructuredGroupLasso(loss="crf", tol=1e-9).fit(X.repeat(weights, axis=0), y.repeat(weights))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    heavy = StructuredGroupLasso(loss="crf", class_weight={"a": 9.0, "b": 1.0, "c": 1.0}).fit(X, y)
    assert (heavy.predict(X) == "a").sum() > (y == "a").sum()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"groups": [[0, 1], [1, 2], *([j] for j in range(3, 30))]}, "groups overlap without being nested"),
        ({"group_weights": {"a": 1.0}}, "group_weights names the group 'a', which does not exist; groups are 0, 1"),
        ({"group_weights": {0: -1.0}}, r"group_weights\[0\] is -1.0; weights must be finite and not negative"),
        ({"group_weights": [1.0]}, "one weight for each group"),
        ({"groups": "templates"}, "groups='templates' needs features with the groups of their templates"),
        ({"loss": "hinge"}, "'loss' parameter of StructuredGroupLasso must be"),
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"l1_ratio": 1.5}, "'l1_ratio' parameter"),
        ({"structure": "matching", "loss": "crf"}, "loss='crf'"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    X, y = data(50)
    with pytest.raises(ValueError, match=message):
        StructuredGroupLasso(**parameters).fit(X, y)


def naive_objective(X, y, groups, weights, alpha, joined):
    """Softmax loss plus group lasso, for flat weights and intercepts."""
    W, b = joined[:-3].reshape(X.shape[1], 3), joined[-3:]
    scores = X @ W + b
    norms = [np.sqrt((W[own] ** 2).sum()) for own in groups]
    return (logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]).mean() + alpha * np.dot(weights, norms)


@pytest.mark.parametrize("groups", [[[0, 1], [2, 3], [4, 5]], [[0, 1], [0, 1, 2, 3], [4, 5]]])
def test_groups_of_weight_zero_have_no_penalty(groups):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X[:, :3] @ rng.normal(size=(3, 3)) + 0.5 * rng.gumbel(size=(300, 3))).argmax(axis=1)
    weights = [0.0, 1.0, 2.0] if groups[1] == [2, 3] else [1.0, 0.0, 2.0]
    parameters = {"loss": "crf", "groups": groups, "group_weights": weights, "tol": 1e-9}
    model = StructuredGroupLasso(alpha=0.05, **parameters).fit(X, y)
    assert model.dual_gap_ <= 1e-9
    joined = np.concatenate([model.coef_.T.ravel(), model.intercept_])
    found = naive_objective(X, y, groups, weights, 0.05, joined)
    assert found == pytest.approx(model.objective_, abs=1e-6)
    # Smooth in the nonzero weights: no step along the gradient is lower.
    is_nonzero = joined != 0.0
    other = minimize(
        lambda x: naive_objective(X, y, groups, weights, 0.05, np.where(is_nonzero, x, 0.0)), joined, method="L-BFGS-B"
    )
    assert other.fun == pytest.approx(found, abs=1e-7)
    # The score of the loss is zero in the features without a penalty.
    free = [0, 1] if groups[1] == [2, 3] else [2, 3]
    slope = X.T @ (softmax(X @ model.coef_.T + model.intercept_, axis=1) - np.eye(3)[y]) / len(X)
    assert np.abs(slope[free]).max() < 1e-6 < np.abs(slope[4]).max()
    alphas, coefs, gaps = structured_group_lasso_path(X, y, n_alphas=3, eps=0.1, **parameters)
    assert gaps.max() <= 1e-9
    # At the largest strength only these have weights; a little below others have, too.
    assert np.flatnonzero(coefs[0].any(axis=0)).tolist() == free
    first = StructuredGroupLasso(alpha=0.98 * alphas[0], **parameters).fit(X, y)
    assert len(np.flatnonzero(first.coef_.any(axis=0))) > len(free)


def test_no_group_has_a_penalty():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] + rng.logistic(size=200) > 0).astype(int)
    model = StructuredGroupLasso(loss="crf", group_weights=np.zeros(4)).fit(X, y)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(np.diff(model.coef_, axis=0), plain.coef_, atol=1e-4)


def test_weights_of_groups_by_name():
    X, y = data(100)
    n = X.shape[1]
    names = {"first": [0, 1, 2, 3], "second": [4], "rest": list(range(5, n))}
    for given, wanted in (
        ({"second": 0}, [2.0, 0.0, np.sqrt(n - 5)]),
        ({"rest": 3, "first": 0.5}, [0.5, 1.0, 3.0]),
        ({}, [2.0, 1.0, np.sqrt(n - 5)]),
    ):
        model = StructuredGroupLasso(groups=names, group_weights=given).fit(X, y)
        np.testing.assert_allclose(model.group_weights_, wanted)
    online = GroupLassoPerceptron(groups=names, group_weights={"rest": 3.0}, budget=2, random_state=0).fit(X, y)
    assert online.group_weights_.tolist() == [1.0, 1.0, 3.0]
    again = GroupLassoPerceptron.from_arrays(online.to_arrays())
    assert again.group_weights == {"rest": 3.0}
    for model in (GroupLassoPerceptron, StructuredGroupLasso):
        with pytest.raises(ValueError, match="names the group 'last', which does not exist; groups are 'first', 's"):
            model(groups=names, group_weights={"last": 1.0}).fit(X, y)
    words = GroupLasso(names, group_weights={"first": 0.0}).prox(np.ones(n))
    assert words[:4].tolist() == [1.0] * 4 and words[4] == 0.0


def test_names_of_single_columns():
    pd = pytest.importorskip("pandas")
    X, y = data(100)
    table = pd.DataFrame(X[:, :6], columns=[f"sensor {i}" for i in range(6)])
    model = GroupLassoPerceptron(group_weights={"sensor 5": 0.0}, budget=2, random_state=0).fit(table, y)
    assert model.group_weights_.tolist() == [1.0] * 5 + [0.0]
    assert model.selected_group_names_ == [f"sensor {i}" for i in model.selected_groups_] != []
    assert StructuredGroupLasso(alpha=1e-4).fit(table, y).selected_group_names_[0].startswith("sensor ")


def test_interruption_keeps_the_model():
    X, y = data()

    class Interrupts(Monitor):
        def on_iteration(self, loss):
            super().on_iteration(loss)
            if len(self.losses) == 7:
                raise KeyboardInterrupt
            return False

    model = StructuredGroupLasso(groups=np.arange(30) // 3, loss="crf")
    model.monitor_class = Interrupts
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    naive = NaiveGroupLasso(
        Simplex(), [x[None] for x in X], np.searchsorted(model.classes_, y), 3, np.arange(30).reshape(10, 3),
        np.sqrt(np.full(10, 3.0)), loss="crf", alpha=0.01,
    )  # fmt: skip
    assert naive.objective(weights_of(model)) == pytest.approx(model.objective_, abs=1e-10)
    assert model.predict(X).shape == y.shape and len(model.loss_curve_) == 7


def test_verbose_and_stopping(capsys):
    X, y = data()

    class Stops(Monitor):
        def on_iteration(self, loss):
            return super().on_iteration(loss) or len(self.losses) == 4

    model = StructuredGroupLasso(verbose=1)
    model.monitor_class = Stops
    model.fit(X, y)
    assert model.n_iter_ == 4 and "iteration 4: loss" in capsys.readouterr().out


@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_a_path_is_one_fit_for_each_strength(l1_ratio):
    X, y = data(100, 12)
    parameters = {"groups": np.arange(12) // 3, "loss": "crf", "l1_ratio": l1_ratio}
    alphas, coefs, gaps = structured_group_lasso_path(X, y, n_alphas=6, eps=0.1, **parameters)
    assert (np.diff(alphas) < 0).all() and alphas[-1] == pytest.approx(0.1 * alphas[0]) and (gaps <= 1e-6).all()
    assert not coefs[0].any() and coefs[1].any()
    # Slightly below the largest strength the first weights appear.
    assert StructuredGroupLasso(alpha=0.98 * alphas[0], **parameters).fit(X, y).coef_.any()
    for alpha, coef in zip(alphas[1::2], coefs[1::2], strict=True):
        alone = StructuredGroupLasso(alpha=alpha, **parameters).fit(X, y)
        np.testing.assert_allclose(coef, alone.coef_, atol=1e-4)
    given, sparse_coefs, _ = structured_group_lasso_path(sparse.csr_array(X), y, alphas=alphas[3:0:-1], **parameters)
    np.testing.assert_array_equal(given, alphas[1:4])
    np.testing.assert_allclose(sparse_coefs[-1].toarray(), coefs[3], atol=1e-4)


def test_the_path_of_a_chain_begins_with_its_transitions():
    X, y = kinked()
    _, coefs, gaps = structured_group_lasso_path(X, y, structure="chain", groups=GROUP_OF, n_alphas=3, loss="crf")
    assert not coefs[0].any() and coefs[-1].all() and (gaps <= 1e-6).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"eps": 1.0}, r"eps must be a fraction"),
        ({"n_alphas": 0}, "n_alphas must be a positive int"),
        ({"alphas": [0.1, -1.0]}, "alphas must be one or more positive"),
        ({"alphas": []}, "alphas must be one or more positive"),
    ],
)
def test_wrong_paths_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        structured_group_lasso_path(*data(50), **arguments)


def test_of_strengths_that_tie_up_to_rounding_the_largest_is_chosen():
    # The mean of the same scores in another order can differ in the last digit.
    model, first = StructuredGroupLassoCV(), []
    for order in permutations((0.7, 0.1, 0.9)):
        model.split_scores_ = np.array([[0.5, 0.4, 0.6], order, [0.9, 0.7, 0.1], [0.2, 0.3, 0.4]])
        model.mean_scores_ = model.split_scores_.mean(axis=1)
        first.append(model.mean_scores_.argmax())
        assert model._choose() == 1
    assert set(first) == {1, 2}


def test_cross_validation_chooses_the_strength():
    X, y = data(120, 12)
    alphas = [0.2, 0.1, 0.05, 0.02]
    model = StructuredGroupLassoCV(groups=np.arange(12) // 3, loss="crf", alphas=alphas, cv=3).fit(X, y)
    assert model.split_scores_.shape == (4, 3) and model.alpha_ == model.alphas_[model.mean_scores_.argmax()]
    alone = StructuredGroupLasso(groups=np.arange(12) // 3, loss="crf", alpha=model.alpha_).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert model.path_.best_budget in model.alphas_ and "alpha" in str(model.path_).splitlines()[0]
    parts = [train for train, _ in StratifiedKFold(3).split(X, y)]
    for i, alpha in enumerate(model.alphas_):
        found = [clone(alone).set_params(alpha=alpha).fit(X[train], y[train]) for train in parts]
        assert model.path_.n_nonzero_coefs[i] == round(np.mean([each.n_nonzero_coefs_ for each in found]))
        assert set(model.path_.selected_groups[i]) == set.intersection(*(set(each.selected_groups_) for each in found))
    fewer = clone(model).set_params(rule="one_se").fit(X, y)
    assert fewer.alpha_ >= model.alpha_ and len(fewer.selected_groups_) <= len(model.selected_groups_)


def test_cross_validation_of_chains(to_tolerance):
    chains = StructuredGroupLassoCV("chain", groups=GROUP_OF, loss="crf", alphas=[0.5, 0.05], cv=3).fit(*kinked())
    assert chains.alpha_ == 0.05


@pytest.mark.parametrize("scale", [1e-6, 1e7, 1e8])
def test_features_of_any_scale_are_learned(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    model = StructuredGroupLasso(groups=[0, 0, 1, 1, 2, 2], alpha=0.02 * min(scale, 1.0)).fit(scale * X, y)
    assert model.dual_gap_ <= 1e-6 and 0 in model.selected_groups_ and model.score(scale * X, y) > 0.9
    # In an unsuitable scale of the intercepts, it would take thousands.
    assert model.n_iter_ < 1000


def test_paths_and_folds_refuse_what_they_cannot_use():
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    for name in ("alpha", "warm_start"):
        with pytest.raises(TypeError, match=f"has no parameter '{name}'"):
            structured_group_lasso_path(X, y, **{name: 1})
    with pytest.raises(ValueError, match=r"cv=\[\] yields no splits"):
        StructuredGroupLassoCV(cv=[]).fit(X, y)
