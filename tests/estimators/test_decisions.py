"""Losses of decisions, the regret, and the estimator that learns from them, against their definitions."""

import pickle
import warnings

import naive
import numpy as np
import pytest
from internals import Pool, replace
from registry import RANDOM
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import DecisionFocusedRegressor, map_inference, sparsemap
from sklearn_sparsemap.factors import AtMostOne, Budget, FactorGraph
from sklearn_sparsemap.losses import PerturbedFenchelYoungLoss, SPOPlusLoss
from sklearn_sparsemap.metrics import normalized_regret
from sklearn_sparsemap.structures import CustomStructure, LinearProgram, Matching, Path, Ranking, Subset

# Structures without additional scores.
KINDS = ("simplex", "tree", "matching", "subset", "ranking", "path", "warping")
GRID = Path.grid(3, 3)
NEVER = LinearProgram(np.ones((1, 12)), [1.0], A_eq=np.ones((1, 12)), b_eq=[2.0])


def random_problem(kind, rng):
    """Return a structure, all decisions one a row, true values and predicted ones."""
    instance = RANDOM[kind](rng, forbid=rng.random() < 0.4)
    values = instance.scores
    _, M, theta = instance.enumerate()
    predicted = values + rng.normal(size=values.shape)
    predicted[values == -np.inf] = rng.normal()
    return instance.structure, M.T[theta > -np.inf], values, predicted


def dot(vertices, scores):
    return np.where(vertices > 0, vertices * np.where(vertices > 0, scores.ravel(), 0.0), 0.0).sum(axis=1)


@pytest.mark.parametrize("kind", KINDS)
def test_spo_plus_is_its_definition(kind):
    rng, n_regrets = np.random.default_rng(0), 0
    for _ in range(30):
        structure, vertices, v, u = random_problem(kind, rng)
        true, guess = dot(vertices, v), dot(vertices, u)
        best = int(np.argmax(true))
        expected = (2.0 * guess - true).max() - 2.0 * guess[best] + true[best]
        losses, gradient = SPOPlusLoss(structure).loss_gradient(u[None], v[None])
        assert losses[0] == pytest.approx(expected, abs=1e-9)
        # An upper bound of the regret of each best decision.
        regret = true[best] - true[guess > guess.max() - 1e-9].min()
        assert losses[0] >= regret - 1e-9
        n_regrets += regret > 1e-9
        decided = vertices[np.argmax(2.0 * guess - true)] - vertices[best]
        np.testing.assert_allclose(gradient.ravel(), 2.0 * decided, atol=1e-9)
        for temperature in (0.1, 2.0):
            loss = SPOPlusLoss(structure, temperature)
            losses, gradient = loss.loss_gradient(u[None], v[None], vertices[best].reshape(v[None].shape))
            scaled = (2.0 * guess - true) / temperature
            q, _ = naive.solve_qp(vertices.T, scaled)
            np.testing.assert_allclose(gradient.ravel(), 2.0 * (q - vertices[best]), atol=1e-6)
            value, _ = naive.loss_by_enumeration(vertices.T, scaled, best, "sparsemap")
            assert losses[0] == pytest.approx(temperature * max(value, 0.0), abs=1e-6)
    assert n_regrets > 3 or kind == "simplex"


def test_gradients_are_slopes():
    rng, step = np.random.default_rng(1), 1e-6
    for kind in KINDS:
        structure, _, v, u = random_problem(kind, rng)
        direction = rng.normal(size=u.shape)
        for loss in (SPOPlusLoss(structure, 0.5), SPOPlusLoss(structure)):
            high, low = (loss.loss_gradient((u + s * step * direction)[None], v[None])[0][0] for s in (1.0, -1.0))
            slope = (loss.loss_gradient(u[None], v[None])[1][0] * direction).sum()
            assert (high - low) / (2.0 * step) == pytest.approx(slope, abs=1e-4)


def test_the_perturbed_loss_is_a_mean_over_draws():
    u = np.random.default_rng(2).normal(size=(5, 12))
    gold = np.array(map_inference(GRID, list(u + 0.5)).structures)
    loss = PerturbedFenchelYoungLoss(GRID, sigma=0.7, n_samples=4, random_state=3)
    losses, gradient = loss.loss_gradient(u, gold)
    rng, expected, slopes = np.random.RandomState(3), np.zeros(5), np.zeros((5, 12))
    for _ in range(4):
        noisy = u + 0.7 * rng.normal(size=u.shape)
        for i in range(5):
            decision, value = map_inference(GRID, noisy[i])
            expected[i] += (value - noisy[i] @ gold[i]) / 4
            slopes[i] += (decision.astype(float) - gold[i]) / 4
    np.testing.assert_allclose(losses, expected, atol=1e-12)
    np.testing.assert_allclose(gradient, slopes, atol=1e-12)
    np.testing.assert_array_equal(loss.loss_gradient(u, gold)[1], gradient)


def best_decisions(structure, scores):
    """Return how often the best structure of each sample has each part."""
    found = np.zeros(scores.shape)
    for own, sample in zip(found, scores, strict=True):
        best = map_inference(structure, sample).structure
        slots, _ = structure.encode(best, structure.dims(sample.shape, {}))
        np.add.at(own.reshape(-1), slots[slots >= 0], 1.0)
    return found


def test_regret_is_the_lost_value():
    rng = np.random.default_rng(3)
    for structure, shape in ((GRID, (12,)), (Matching(), (3, 4)), (Ranking(), (4,)), (Subset(1, 2), (5,))):
        v = rng.normal(size=(6, *shape))
        best, other = (best_decisions(structure, s) for s in (v, rng.normal(size=v.shape)))
        assert normalized_regret(v, best, structure) == pytest.approx(0.0, abs=1e-12)
        found = np.array([map_inference(structure, own).value for own in v])
        expected = (found.sum() - (other * v).sum()) / np.abs(found).sum()
        assert normalized_regret(v, other, structure) == pytest.approx(expected)
        assert normalized_regret(v, other, [structure] * 6) == pytest.approx(expected)


def test_a_pool_is_all_of_its_solutions():
    rng = np.random.default_rng(4)
    for _ in range(40):
        n = int(rng.integers(1, 7))
        solutions = np.unique(rng.random((int(rng.integers(1, 9)), n)) < 0.5, axis=0)
        scores = rng.normal(size=(3, n))
        scores[rng.random(scores.shape) < 0.2] = -np.inf
        totals = np.array([dot(solutions.astype(float), own) for own in scores])
        keep = totals.max(axis=1) > -np.inf
        if not keep.any():
            continue
        best = best_decisions(Pool(solutions), scores[keep])
        assert all((solutions == row).all(axis=1).any() for row in best)
        np.testing.assert_allclose([dot(b[None], s)[0] for b, s in zip(best, scores[keep])], totals[keep].max(axis=1))
        marginals = [sparsemap(Pool(solutions), own).marginals for own in scores[keep]]
        for total, u in zip(totals[keep], marginals):
            allowed = total > -np.inf
            np.testing.assert_allclose(u, naive.solve_qp(solutions[allowed].T * 1.0, total[allowed])[0], atol=1e-7)


def data(structure=GRID, shape=(12,), n=60, shared=False, seed=0):
    """Return features and negative values, which are not linear in the features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, *shape, 4) if shared else (n, 4))
    if not shared:
        return X, -np.exp(0.7 * (X @ rng.normal(size=(4, int(np.prod(shape)))))).reshape(n, *shape) * 10.0
    # A few parts are dear, and among these another feature has the opposite effect.
    dear = X[..., 0] = rng.random(X.shape[:-1]) < 0.2
    return X, -np.where(dear > 0, 25.0 + 5.0 * X[..., 1], 3.0 - 0.7 * X[..., 1])


@pytest.mark.parametrize("loss", ["spo_plus", "sparsemap", "perturbed"])
@pytest.mark.parametrize("shared", [False, True])
def test_decisions_are_better_than_those_of_regression(loss, shared):
    X, V = data(n=400, shared=shared)
    train, test = slice(0, 200), slice(200, 400)
    model = DecisionFocusedRegressor(GRID, loss, random_state=0).fit(X[train], V[train])
    values = model.predict_values(X[test])
    decisions = model.predict(X[test])
    assert values.shape == decisions.shape == (200, 12) and decisions.dtype == np.int64
    for value, decision in zip(values, decisions):
        assert map_inference(GRID, value).value == pytest.approx(value @ decision)
    assert model.score(X[test], V[test]) == -normalized_regret(V[test], decisions, GRID)
    rows = (lambda A: A.reshape(-1, 4)) if shared else (lambda A: A)
    targets = V[train].ravel() if shared else V[train]
    guess = LinearRegression().fit(rows(X[train]), targets).predict(rows(X[test])).reshape(200, 12)
    by_regression = normalized_regret(V[test], np.array(map_inference(GRID, list(guess)).structures), GRID)
    assert -model.score(X[test], V[test]) < by_regression
    assert model.coef_.shape == ((4,) if shared else (12, 4))


def test_the_smooth_loss_is_minimal():
    X, V = data(n=30)
    model = DecisionFocusedRegressor(GRID, temperature=0.5, alpha=0.2, tol=1e-7).fit(X, V)
    start = DecisionFocusedRegressor(GRID, alpha=1e8).fit(X, V)
    # A ridge regression of the same strength, by its normal equations.
    centred, targets = X - X.mean(axis=0), V / model.scale_
    W_0 = np.linalg.solve(centred.T @ centred + 0.2 * 30 * np.eye(4), centred.T @ (targets - targets.mean(axis=0))).T
    loss = SPOPlusLoss(GRID, 0.5 * model.scale_)

    def objective(coef, intercept):
        losses, _ = loss.loss_gradient(X @ coef.T + intercept, V)
        return losses.mean() / model.scale_ + 0.1 * ((coef / model.scale_ - W_0) ** 2).sum()

    least, rng = objective(model.coef_, model.intercept_), np.random.default_rng(0)
    assert least == pytest.approx(model.loss_curve_[-1], rel=1e-6)
    for _ in range(20):
        moved = model.coef_ + 0.05 * model.scale_ * rng.normal(size=model.coef_.shape)
        assert objective(moved, model.intercept_ + 0.05 * model.scale_ * rng.normal(size=12)) > least
    assert not np.allclose(start.coef_, model.coef_)


def best_three(scores):
    """Return the three parts of highest score, in plain Python."""
    return np.argsort(-scores)[:3]


STRUCTURES = {
    "subset": (Subset(1, 2), (6,)),
    "matching": (Matching(), (3, 3)),
    "ranking": (Ranking(), (5,)),
    "program": (LinearProgram([[3.0, 2.0, 2.0, 1.0]], [4.0]), (4,)),
    "exact program": (LinearProgram([[3.0, 2.0, 2.0, 1.0]], [4.0], train_on_pool=False), (4,)),
    "custom": (CustomStructure(best_three), (6,)),
    "path": (GRID, (12,)),
}


def budget_graph():
    graph = FactorGraph()
    graph.add(Budget(graph.variables(5), 2))
    return graph


@pytest.mark.parametrize("name", [*STRUCTURES, "graph"])
@pytest.mark.parametrize("loss", ["spo_plus", "sparsemap", "perturbed"])
def test_any_structure_is_learned(name, loss):
    structure, shape = STRUCTURES[name] if name != "graph" else (budget_graph(), (5,))
    for shared in (False, True):
        X, V = data(structure, shape, 10, shared)
        V = V + 15.0
        model = DecisionFocusedRegressor(structure, loss, max_iter=5, n_samples=2, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, V)
        assert model.predict(X).shape == V.shape
        assert -1.0 < model.score(X, V) <= 1e-12


def test_python_oracles_are_called_a_few_times_for_each_sample():
    calls = []

    def counted(scores):
        calls.append(1)
        return best_three(scores)

    X, V = data(shape=(6,), n=40)
    model = DecisionFocusedRegressor(CustomStructure(counted), tol=1e-3).fit(X, V)
    assert model.n_iter_ > 5 and 40 < len(calls) <= 2 * 40
    exact = DecisionFocusedRegressor(Subset(3, 3), tol=1e-3).fit(X, V)
    assert model.score(X, V) == pytest.approx(exact.score(X, V), abs=0.02)


def test_constraints_may_differ():
    X, V = data(shape=(6,), n=50)
    V = V + 20.0
    X[:, 0] = np.random.default_rng(0).integers(1, 4, 50)

    def of_size(x):
        return Subset(0, int(x[0]))

    model = DecisionFocusedRegressor(of_size, alpha=0.01).fit(X[:40], V[:40])
    decisions = model.predict(X[40:])
    assert (decisions.sum(axis=1) <= X[40:, 0]).all() and (decisions.sum(axis=1) == X[40:, 0]).any()
    assert model.score(X[40:], V[40:]) > -0.5
    forbidden = np.random.default_rng(1).random(V.shape) < 0.3
    V[forbidden] = -np.inf
    masked = DecisionFocusedRegressor(Subset(0, 3), early_stopping=0.3, random_state=0).fit(X, V)
    assert not masked.predict(X, ~forbidden)[forbidden].any() and masked.predict(X)[forbidden].any()
    assert np.isfinite(masked.coef_).all() and masked.score(X, V) > -0.5
    assert max(masked.validation_scores_) <= 0.0


def test_messages_name_the_infeasible_sample():
    """Samples with a structure of their own are solved in groups, but messages count all samples."""
    structures = [Subset(1, 1), Subset(1, 2)]
    X, values = np.random.default_rng(0).normal(size=(2, 20, 3))
    model = DecisionFocusedRegressor(lambda x: structures[int(x[0] > 0.0)]).fit(X, values)
    alone = DecisionFocusedRegressor(structures[0]).fit(X, values)
    mask = np.ones((20, 3), bool)
    mask[7] = False
    forbidden = np.where(mask, values, -np.inf)
    for act, name in (
        (lambda: model.predict(X, mask), "mask"),
        (lambda: alone.predict(X, mask), "mask"),
        (lambda: model.score(X, forbidden), "y"),
        (lambda: clone(model).fit(X, forbidden), "y"),
        (lambda: normalized_regret(forbidden, np.zeros((20, 3)), structures[0]), "V"),
    ):
        with pytest.raises(ValueError, match=rf"^infeasible: {name}\[7\]"):
            act()


@pytest.mark.parametrize("loss", ["spo_plus", "sparsemap", "perturbed"])
def test_results_repeat_whatever_n_jobs(loss):
    X, V = data(n=50)
    model = DecisionFocusedRegressor(GRID, loss, max_iter=4, random_state=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = model.fit(X, V).coef_
        for n_jobs in (1, 2):
            assert np.array_equal(clone(model).set_params(n_jobs=n_jobs).fit(X, V).coef_, first)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_values_scale_with_their_unit():
    X, V = data(n=40)
    first, second = (DecisionFocusedRegressor(GRID).fit(X, unit * V) for unit in (1.0, 1000.0))
    np.testing.assert_allclose(second.coef_, 1000.0 * first.coef_, rtol=1e-3, atol=1e-3)
    without = DecisionFocusedRegressor(GRID, fit_intercept=False).fit(X, V)
    assert not without.intercept_.any()


WAIVED = {"check_regressor_multioutput": "predictions are decisions, ints"}


@parametrize_with_checks(
    [DecisionFocusedRegressor(Subset(), max_iter=20)], expected_failed_checks=lambda estimator: WAIVED
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)


X_60, V_60 = data()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: DecisionFocusedRegressor("chain").fit(X_60, V_60), "structure must be a Structure"),
        (lambda: DecisionFocusedRegressor(Subset).fit(X_60, V_60), "structure must be a Structure"),
        (
            lambda: DecisionFocusedRegressor(lambda x: 3).fit(X_60, V_60),
            r"X\[0\]: the function `structure` must return",
        ),
        (lambda: DecisionFocusedRegressor(GRID, "hinge").fit(X_60, V_60), "'loss' parameter"),
        (lambda: DecisionFocusedRegressor(GRID, "spo_plus", solver="lbfgs").fit(X_60, V_60), "is not smooth"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, V_60[:, :3]), "this graph has 12 edges, but there are 3"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, V_60[:9]), "60|inconsistent"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, V_60 * np.nan), r"y\[0, 0\] is nan"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, np.full((60, 12), -np.inf)), r"infeasible: y\[0\]"),
        (
            lambda: DecisionFocusedRegressor(NEVER).fit(X_60, np.zeros((60, 12))),
            "^infeasible: LinearProgram.* contradict",
        ),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60[:, None], V_60), r"X has shape \(60, 1, 4\), but y has"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, V_60).predict(X_60[:, :2]), "4 features"),
        (lambda: DecisionFocusedRegressor(GRID).fit(X_60, V_60).predict(X_60, V_60), "mask must be bool of shape"),
        (lambda: SPOPlusLoss(GRID, -1.0), "temperature"),
        (lambda: SPOPlusLoss("a").loss_gradient(V_60, V_60), "structure must be an instance"),
        (lambda: SPOPlusLoss([GRID]).loss_gradient(V_60, V_60), "1 structures for 60 samples"),
        (lambda: SPOPlusLoss(GRID).loss_gradient(V_60[:2], V_60), r"predicted has shape \(2, 12\)"),
        (lambda: SPOPlusLoss(GRID).loss_gradient(V_60, V_60, V_60), r"decisions\[0, 0\] is .*; decisions are 0 and 1"),
        (lambda: PerturbedFenchelYoungLoss(GRID, sigma=0.0), "sigma"),
        (lambda: normalized_regret(V_60, np.zeros((60, 3)), GRID), r"decisions has shape \(60, 3\)"),
        (
            lambda: normalized_regret(np.zeros((2, 12)), np.zeros((2, 12)), GRID),
            "the optimal values of all samples are 0",
        ),
    ],
)
def test_wrong_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_the_score_compares_as_many_values_as_samples():
    X, V = np.random.default_rng(0).normal(size=(2, 10, 4))
    model = DecisionFocusedRegressor(Subset(1, 2)).fit(X, V)
    with pytest.raises(ValueError, match="inconsistent numbers of samples: 10 and 3"):
        model.score(X, V[:3])


def test_the_best_decision_in_a_graph_warns_if_time_runs_out(monkeypatch):
    graph = FactorGraph()
    u = graph.variables(3)
    graph.add(*[AtMostOne(u[pair]) for pair in ([0, 1], [1, 2], [2, 0])])
    replace(monkeypatch, "inference", "MAP_TIME_LIMIT", 1e-9)
    with pytest.warns(ConvergenceWarning, match=r"map_time_limit=1e-09 seconds for 1 samples \(1\)"):
        normalized_regret([[1.0, -1.0, -1.0], [1.0, 1.0, 1.0]], np.eye(3)[:2], graph)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("loss", ["sparsemap", "spo_plus"])
def test_weights_repeat_samples(loss, shared):
    X, V = data(n=60, shared=shared)
    V[np.random.default_rng(0).random(V.shape) < 0.05] = -np.inf
    structure, weights = Subset(2, 4), np.random.default_rng(1).choice([0.0, 1.0, 2.0, 3.0], 60)
    often = np.repeat(np.arange(60), weights.astype(int))
    model = DecisionFocusedRegressor(structure, loss, solver="auto" if loss == "sparsemap" else "adagrad", tol=1e-6)
    model.set_params(batch_size=1000, max_iter=200 if loss == "sparsemap" else 20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted, twin = clone(model).fit(X, V, 5.0 * weights), clone(model).fit(X[often], V[often])
        plain = clone(model).fit(X, V)
    assert weighted.scale_ == pytest.approx(twin.scale_)
    np.testing.assert_allclose(weighted.coef_, twin.coef_, atol=2e-4)
    assert np.abs(weighted.coef_ - plain.coef_).max() > 0.01
    assert weighted.loss_curve_[-1] == pytest.approx(twin.loss_curve_[-1], rel=1e-5)
    assert weighted.score(X, V, weights) == pytest.approx(weighted.score(X[often], V[often]))
    decisions = weighted.predict(X, ~np.isneginf(V))
    regret = normalized_regret(V, decisions, structure, sample_weight=weights)
    assert regret == pytest.approx(normalized_regret(V[often], decisions[often], structure))
    # Of held-out samples only those of positive weight count.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        stopped = clone(model).set_params(early_stopping=0.3).fit(X, V, weights)
        none = clone(model).set_params(early_stopping=0.3).fit(X[weights > 0], V[weights > 0], weights[weights > 0])
    np.testing.assert_allclose(stopped.coef_, none.coef_, atol=1e-8)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_features(kind):
    X, V = data(n=50)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.6)
    weights = np.random.default_rng(1).random(50)
    for loss, options in (("sparsemap", {"tol": 1e-7}), ("spo_plus", {"max_iter": 3}), ("perturbed", {"max_iter": 3})):
        model = DecisionFocusedRegressor(GRID, loss, random_state=0, early_stopping=loss == "perturbed", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first, second = clone(model).fit(X, V, weights), clone(model).fit(kind(X), V, weights)
        np.testing.assert_allclose(second.coef_, first.coef_, atol=1e-4)
        np.testing.assert_allclose(second.predict_values(kind(X)), first.predict_values(X), atol=1e-3)
        assert second.score(kind(X), V) == second.score(X, V)
    X[:, 0] = np.random.default_rng(0).integers(1, 4, 50)
    several = DecisionFocusedRegressor(lambda x: Subset(0, int(x[0])), alpha=0.01, tol=1e-6)
    V = np.abs(V[:, :6])
    first, second = clone(several).fit(X, V), clone(several).fit(kind(X), V)
    np.testing.assert_array_equal(second.predict(kind(X)), first.predict(X))
    with pytest.raises(ValueError, match="X and y have inconsistent numbers of samples: 50 and 49"):
        several.fit(kind(X), V[:-1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), "sample_weight has 9 entries for 10 samples"),
        (np.zeros(10), "all sample weights are zero"),
        (-np.ones(10), r"sample_weight\[0\] is -1.0; weights must be finite and not negative"),
    ],
)
def test_invalid_weights_are_refused(weights, message):
    X, V = data(n=10)
    model = DecisionFocusedRegressor(GRID, max_iter=2)
    with pytest.raises(ValueError, match=message):
        model.fit(X, V, weights)
    with pytest.raises(ValueError, match=message):
        normalized_regret(V, np.array(map_inference(GRID, list(V)).structures), GRID, sample_weight=weights)
