"""StructuredSparseMAPClassifier with a factor graph for each sample."""

import pickle
import re
import warnings
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from internals import (
    BatchObjective,
    GraphTask,
    LinearModel,
    as_graph_problems,
    best_or_relaxed,
    gold_parts,
    graph_map,
    learned_shapes,
    relax,
    replace,
)
from numpy.testing import assert_allclose, assert_array_equal
from samples import WEIGHTS, graph_of, make_rings, ring
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

from sklearn_sparsemap import RaggedArray, StructuredSparseMAPClassifier, lp_sparsemap, map_inference
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import (
    AtMost,
    AtMostOne,
    Budget,
    Exactly,
    FactorGraph,
    Knapsack,
    OrOut,
    Pair,
    PairTable,
    StructureFactor,
    Xor,
    XorOut,
)
from sklearn_sparsemap.features import InformationGainSelector
from sklearn_sparsemap.inspection import explain, feature_table
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import parts_f1_score
from sklearn_sparsemap.plotting import LabelConfusionDisplay
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Subset

pd = pytest.importorskip("pandas")


def tree_graph(x):
    n = round(np.sqrt(x.shape[0] + 0.25) - 0.5)
    graph = FactorGraph()
    graph.add(StructureFactor(DependencyTree(), graph.variables((n + 1, n))))
    return graph


@cache
def chain_graph(n):
    graph = FactorGraph()
    u = graph.variables((n, 2), name="states")
    w = graph.variables(2, name="seen")
    graph.add(StructureFactor(LinearChain(), u, name="chain"), Pair(w, u[0], name="first"))
    return graph


def test_learns_and_predicts():
    X, y = make_rings(60, 0)
    held, gold = make_rings(40, 1)
    stopped = {"loss": "hinge", "max_iter": 20, "tol": 0.0, "random_state": 0}
    for options in ({}, {"solver": "adagrad", "random_state": 0}, stopped):
        model = StructuredSparseMAPClassifier(graph_of, alpha=1e-3, **options)
        with pytest.warns(Warning) if "loss" in options else nothing():
            model.fit(X, y)
        assert model.score(held, gold) > 0.75
        assert model.additional_scores_["neighbours"] > 0.0
        assert_allclose(np.sign(model.coef_[0]), np.sign(WEIGHTS))
        assert not hasattr(model, "classes_") and model.coef_.shape == (1, 3)
        for x, found, scores in zip(held, model.predict(held), model.decision_function(held), strict=True):
            assert found.dtype == bool and found.sum() <= len(x) // 2
            # The SparseMAP loss takes half the temperature off each variable that is on.
            off = 0.0 if "loss" in options else 0.5
            assert_allclose(scores, x @ model.coef_[0] + model.intercept_[0] - off)
            assert_array_equal(found, map_inference(graph_of(x), scores, additional=model.additional_scores_).structure)
        for x, u in zip(held[:5], model.predict_marginals(held[:5]), strict=True):
            scores = x @ model.coef_[0] + model.intercept_[0] + (0.5 if "loss" in options else 0.0)
            expected = lp_sparsemap(graph_of(x), scores, additional=model.additional_scores_, tol=1e-8)
            assert_allclose(u, expected.marginals, atol=1e-7)
    with pytest.raises(ValueError, match=r"the factor graph of X\[0\] is not a single structure .* predict_n_best"):
        model.predict_structures(held)


def nothing():
    import contextlib

    return contextlib.nullcontext()


def test_the_tree_as_a_graph_learns_what_the_tree_does():
    rng = np.random.default_rng(2)
    X = [rng.normal(size=(4, 3, 2)) for _ in range(15)]
    heads = [map_inference(DependencyTree(), x @ [1.0, -1.0]).structure for x in X]
    flat = [x.reshape(12, 2) for x in X]
    y = [np.arange(4)[:, None] == h for h in heads]
    tree = StructuredSparseMAPClassifier("tree", alpha=1e-2, tol=1e-8).fit(X, heads)
    graph = StructuredSparseMAPClassifier(tree_graph, alpha=1e-2, tol=1e-8).fit(flat, y)
    assert_allclose(graph.coef_, tree.coef_, atol=1e-5)
    assert graph.loss_curve_[-1] == pytest.approx(tree.loss_curve_[-1], abs=1e-8)


@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap", "hinge", "perceptron"])
def test_losses_and_gradients(name):
    rng = np.random.default_rng(3)
    graph = chain_graph(3)
    y = {"states": np.array([[1, 0], [0, 1], [0, 1]]), "seen": [True, False]}
    shapes = {"transitions": (2, 2), "start": (2,), "end": (2,)}
    for temperature in (1.0, 2.0):
        of_graph = FenchelYoungLoss(graph, name, temperature=temperature)

        def loss(point):
            states, seen, *chain, first = np.split(point, [6, 8, 12, 14, 16])
            of_chain = {key: values.reshape(shapes[key]) for key, values in zip(shapes, chain, strict=True)}
            scores = {"states": states.reshape(3, 2), "seen": seen}
            value, slopes = of_graph.loss_gradient(scores, y, additional={"chain": of_chain, "first": first})
            of_scores, of_factors = slopes["scores"], slopes["additional"]
            arrays = [of_scores["states"], of_scores["seen"]]
            arrays += [of_factors["chain"][key] for key in shapes] + [of_factors["first"]]
            return value, np.concatenate([array.ravel() for array in arrays])

        for _ in range(4):
            point, direction = rng.normal(size=(2, 18))
            value, gradient = loss(point)
            assert value >= 0
            step = 1e-5
            difference = (loss(point + step * direction)[0] - loss(point - step * direction)[0]) / (2 * step)
            assert gradient @ direction == pytest.approx(difference, abs=1e-4)
            # Convex along the line.
            ends = loss(point + direction)[0] + loss(point - direction)[0]
            assert ends >= 2 * value - 1e-6
        gold = np.concatenate([np.ravel(y["states"]), y["seen"]])
        far = np.concatenate([20.0 * (2 * gold - 1), np.zeros(10)])
        assert loss(far)[0] == pytest.approx(0.0, abs=1e-6)


def structure_of(make):
    """Return the form in which an estimator has graphs of samples."""
    X, y = make_rings(2, 0)
    return StructuredSparseMAPClassifier(make).partial_fit(X, y)._structure


def test_the_objective_has_the_gradient_it_says():
    X, y = make_rings(8, 4)
    ragged = RaggedArray.from_list(X)
    weights = np.random.default_rng(5).random(8)
    template = LinearModel(np.array([[0.5], [-0.2], [0.1]]), np.array([0.3]), np.array([0.4]))
    for values in (ragged, RaggedArray(sparse.csr_array(ragged.values), ragged.indptr)):
        task = structure_of(graph_of).new_task(values).learn(y, weights, "sparsemap", 1.0, None)
        objective = BatchObjective(task, values.values, template, alpha=0.1, fit_intercept=True, n_jobs=2)
        x = objective.pack(template)
        _, gradient = objective.loss_gradient(x)
        for j in range(len(x)):
            e = np.eye(len(x))[j] * 1e-5
            difference = (objective.loss_gradient(x + e)[0] - objective.loss_gradient(x - e)[0]) / 2e-5
            assert gradient[j] == pytest.approx(difference, abs=1e-6)


def test_parts_and_means_of_graphs():
    X, y = make_rings(9, 4)
    ragged, rng = RaggedArray.from_list(X), np.random.default_rng(5)
    weights, additional, places = rng.random(9), np.array([0.4]), np.array([7, 2, 3, 0])
    whole = structure_of(graph_of).new_task(ragged).learn(y, weights, "sparsemap", 1.0)
    whole.loss_gradient(rng.normal(size=(len(ragged.values), 1)), additional, None)
    part = (
        structure_of(graph_of).new_task(ragged[places]).learn([y[i] for i in places], weights[places], "sparsemap", 1.0)
    )
    scores = rng.normal(size=(len(ragged[places].values), 1))
    loss, residuals, joined, n_inexact = part.loss_gradient(scores, additional, None)
    assert loss > 0.0 and n_inexact == 0
    for one, other in zip(whole.take(places).loss_gradient(scores, additional, None), (loss, residuals, joined, 0)):
        assert_array_equal(one, other)
    same_loss, mean, mean_joined, _ = part.loss_gradient(scores, additional, None, mean=True)
    assert same_loss == loss
    assert_allclose(mean * weights[places].sum(), residuals)
    assert_allclose(mean_joined * weights[places].sum(), joined)


@pytest.mark.parametrize("options", [{}, {"solver": "adagrad"}, {"solver": "adagrad", "early_stopping": True}])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_function_of_the_user_runs_once_a_sample_and_call(options):
    X, y = make_rings(20, 0)
    calls = []

    def counted(x):
        calls.append(len(x))
        return ring(len(x))

    model = StructuredSparseMAPClassifier(counted, alpha=1e-2, max_iter=3, random_state=0, **options)
    for call in (
        lambda: model.fit(X, y),
        lambda: model.predict(X),
        lambda: model.predict_marginals(X),
        lambda: model.decision_function(X),
        lambda: model.score(X, y),
        lambda: model.partial_fit(X, y),
        lambda: clone(model).partial_fit(X, y),
        lambda: model.set_params(warm_start=True).fit(X, y),
    ):
        calls.clear()
        call()
        assert calls == [len(x) for x in X]


def test_scikit_learn_tools():
    X, y = make_rings(24, 6)
    model = StructuredSparseMAPClassifier(graph_of, alpha=1e-2, random_state=0)
    grid = GridSearchCV(model, {"alpha": [1e-2, 1.0]}, cv=2).fit(X, y)
    assert grid.best_params_ == {"alpha": 1e-2}
    model.fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), model.predict(X), strict=True))
    assert_array_equal(clone(model).set_params(n_jobs=2).fit(X, y).coef_, model.coef_)
    stream = StructuredSparseMAPClassifier(graph_of, alpha=1e-3)
    for _ in range(15):
        for first in range(0, 24, 8):
            stream.partial_fit(X[first : first + 8], y[first : first + 8])
    assert stream.score(X, y) > 0.75 and stream.n_iter_ == 45
    held = StructuredSparseMAPClassifier(graph_of, solver="adagrad", early_stopping=True, random_state=0).fit(X, y)
    assert len(held.validation_scores_) == held.n_iter_
    csr = [sparse.csr_array(x) for x in X]
    assert_allclose(clone(model).fit(csr, y).coef_, model.coef_, atol=1e-6)
    weights = np.ones(24)
    weights[12:] = 0
    half = clone(model).set_params(tol=1e-8, max_iter=200).fit(X[:12], y[:12])
    assert_allclose(clone(half).fit(X, y, sample_weight=weights).coef_, half.coef_, atol=1e-4)


def test_structures_with_scores_and_several_arrays():
    rng = np.random.default_rng(7)
    X, y = [], []
    for _ in range(30):
        x = rng.normal(size=(8, 2))
        given = {"chain": {"transitions": [[1.0, -1.0], [-1.0, 1.0]]}, "first": [1.0, 0.0]}
        scores = x @ [1.0, -0.5]
        split = {"states": scores[:6].reshape(3, 2), "seen": scores[6:]}
        found = map_inference(chain_graph(3), split, additional=given)
        X.append(x)
        y.append(found.structure)
    model = StructuredSparseMAPClassifier(lambda x: chain_graph(3), alpha=1e-3).fit(X, y)
    learned = model.additional_scores_
    assert set(learned) == {"chain", "first"} and set(learned["chain"]) == {"transitions", "start", "end"}
    transitions = learned["chain"]["transitions"]
    assert transitions[0, 0] + transitions[1, 1] > transitions[0, 1] + transitions[1, 0]
    assert model.score(X, y) > 0.9
    assert set(model.predict(X[:1])[0]) == {"states", "seen"}


@pytest.mark.parametrize("error", [KeyError("oops"), ZeroDivisionError("by zero"), ValueError("no such")])
def test_errors_in_the_function_of_the_user_name_the_sample(error):
    X, y = make_rings(6, 0)
    longest = max(len(x) for x in X)
    wrong = next(i for i, x in enumerate(X) if len(x) == longest)

    def graph_or_error(x):
        if len(x) == longest and failing:
            raise error
        return ring(len(x))

    failing = False
    model = StructuredSparseMAPClassifier(graph_or_error, alpha=0.1).fit(X, y)
    failing = True
    message = rf"^X\[{wrong}\]: .*" + re.escape(str(error))
    for method in (
        lambda: model.predict(X),
        lambda: model.predict_marginals(X),
        lambda: model.decision_function(X),
        lambda: model.score(X, y),
        lambda: clone(model).fit(X, y),
        lambda: clone(model).partial_fit(X, y),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            method()
        assert raised.value.__cause__ is error
        assert type(error) is ValueError or type(error).__name__ in str(raised.value)


def test_wrong_graphs_and_assignments_are_refused():
    X, y = make_rings(6, 8)

    def untied(x):
        graph = FactorGraph()
        u = graph.variables(x.shape[0])
        graph.add(Pair(u[:-1], u[1:], name="neighbours"))
        return graph

    def fit(function=graph_of, y=y, **options):
        StructuredSparseMAPClassifier(function, **options).fit(X, y)

    lengths = [len(x) for x in X]
    assert len(set(lengths)) > 1
    for call, message in [
        (lambda: fit(lambda x: ring(7)), r"X\[0\]: the sample has . rows, but the graph .* has 7 variables"),
        (lambda: fit(lambda x: None), "must return a FactorGraph; got NoneType"),
        (lambda: fit(untied), "use Pair"),
        (lambda: fit(y=[np.ones(n) for n in lengths]), r"all samples .* \(\d samples?\).*; y\[0\] violates AtMost"),
        (lambda: fit(y=[*y[:2], np.full(lengths[2], 0.5), *y[3:]]), r"y\[2\]: .* must hold True and False"),
        (lambda: fit(y=[*y[:2], [True], *y[3:]]), r"y\[2\]: on has shape"),
        (lambda: fit(loss="crf"), "#P-hard"),
        (lambda: fit(loss="hinge", solver="mira"), "not for factor graphs"),
        (lambda: fit(loss="sparsemap", cost=[[0.0]]), "cost is for"),
        (lambda: fit(class_weight="balanced"), "class_weight is for"),
        (lambda: fit(3), "is not one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    model = StructuredSparseMAPClassifier(graph_of, alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="differs from that of the fitted model"):
        model.set_params(structure=tree_graph).partial_fit(X, y)
    chain = [np.zeros((8, 2))]
    with pytest.raises(ValueError, match=r"all samples violate rules of .*: 'chain' \(1 sample\); y\[0\]"):
        y = [{"states": np.ones((3, 2)), "seen": [0, 0]}]
        StructuredSparseMAPClassifier(lambda x: chain_graph(3)).fit(chain, y)


@pytest.mark.parametrize("loss", ["margin_sparsemap", "sparsemap", "hinge"])
def test_a_graph_whose_assignments_are_of_one_size_learns_and_scores_as_the_structure_does(loss):
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(4, 3, 2)) for _ in range(12)]
    heads = [map_inference(DependencyTree(), x @ [1.0, -1.0] + rng.normal(size=(4, 3))).structure for x in X]
    flat = [x.reshape(12, 2) for x in X]
    y = [np.arange(4)[:, None] == h for h in heads]
    tree = StructuredSparseMAPClassifier("tree", alpha=1e-2, tol=1e-8).fit(X, heads)
    graph = StructuredSparseMAPClassifier(tree_graph, loss, alpha=1e-2, solver="adagrad", max_iter=1)
    with pytest.warns(Warning):
        graph.fit(flat, y)
    # Under the same weights, all is the same.
    graph._learned = tree._learned
    scores = [(x @ graph.coef_[0] + graph.intercept_[0]).reshape(4, 3) for x in flat]
    losses = FenchelYoungLoss(tree_graph(flat[0]), loss, temperature=graph.temperature).loss_gradient(scores, y)
    for x, (own, _), gold in zip(X, losses, heads, strict=True):
        value, _ = FenchelYoungLoss(DependencyTree(), loss).loss_gradient(x @ tree.coef_[0] + tree.intercept_[0], gold)
        assert own == pytest.approx(value, abs=1e-5)
    for a, b in zip(graph.predict(flat), tree.predict(X), strict=True):
        assert_array_equal(a, np.arange(4)[:, None] == b)
    for s, x in zip(graph.decision_function(flat), X, strict=True):
        assert_allclose(s, x @ tree.coef_[0] + tree.intercept_[0])
    assert graph.score(flat, y) == pytest.approx(tree.score(X, heads))


@pytest.mark.parametrize("name", ["sparsemap", "margin_sparsemap", "hinge", "perceptron"])
def test_losses_of_a_budget_are_those_of_its_subsets(name):
    rng = np.random.default_rng(10)
    graph = FactorGraph()
    graph.add(Budget(graph.variables(5), 3))
    for temperature in (1.0, 0.3):
        of_graph = FenchelYoungLoss(graph, name, temperature=temperature)
        loss = FenchelYoungLoss(Subset(max_size=3), name, temperature=temperature)
        for _ in range(10):
            scores, y = 2 * rng.normal(size=5), rng.permutation(5) < rng.integers(0, 4)
            value, gradient = of_graph.loss_gradient(scores, y)
            expected, slope = loss.loss_gradient(scores, y)
            assert value == pytest.approx(expected, abs=1e-6)
            assert_allclose(gradient["scores"], slope["scores"], atol=1e-5)


def test_which_graphs_have_assignments_of_one_size():
    def size(*make):
        graph = FactorGraph()
        u = graph.variables((2, 3))
        graph.add(*(factor(u) for factor in make))
        return graph.layout({}).fixed_size

    def row(i):
        return lambda u: Xor(u[i])

    def column(j):
        return lambda u: AtMostOne(u[:, j])

    assert not size()
    assert not size(row(0))
    assert size(row(0), row(1))
    assert size(column(0), row(0), column(1), column(2), row(1))
    assert size(lambda u: Xor([u[0, 0], u[1, 1]]), row(0), row(1))
    assert not size(lambda u: Xor([u[0, 0], *u[1]]), row(0))
    assert size(lambda u: Xor(~u[0]), row(1))
    negated = lambda u: Xor([~u[0, 0], u[0, 1], u[0, 2]])  # noqa: E731
    assert not size(negated, row(1))
    assert size(negated, row(1), lambda u: Xor([u[0, 1], u[0, 2]]))
    assert not size(lambda u: Budget(u, 3))
    assert size(lambda u: StructureFactor(Matching(), u))
    assert size(lambda u: StructureFactor(Subset(2, 2), [*u[0], *u[1]]))
    assert not size(lambda u: StructureFactor(Subset(1, 2), [*u[0], *u[1]]))
    assert not size(lambda u: Knapsack([*u[0], *u[1]], [1, 2, 3, 4, 5, 6], 5))
    assert not size(lambda u: OrOut(u[0]), row(1))
    assert not size(row(1), lambda u: Pair(u[0, :2], u[0, 1:], name="pairs"))


def test_a_model_bounds_the_time_for_an_assignment():
    n = 30
    first, second = np.triu_indices(n, 1)
    graph = FactorGraph()
    u = graph.variables(n)
    graph.add(Pair(u[first], u[second], name="pairs"))
    rng = np.random.default_rng(0)
    X = list(rng.normal(size=(3, n, 2)))
    y = [np.arange(n) % 2 == 0] * 3
    model = StructuredSparseMAPClassifier(lambda x: graph, loss="sparsemap", max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    # Pairs that cannot all be satisfied.
    model.coef_ = np.zeros((1, 2))
    model.additional_scores_["pairs"][...] = rng.normal(size=len(first))
    with pytest.warns(ConvergenceWarning, match=r"map_time_limit=1e-09 seconds for 3 samples \(0, 1, 2\)"):
        found = model.predict(X, map_time_limit=1e-9)
    assert [labels.shape for labels in found] == [(n,)] * 3
    with pytest.raises(ValueError, match="map_time_limit"):
        model.predict(X, map_time_limit=0.0)


def test_map_of_a_list_of_graphs():
    rng = np.random.default_rng(0)
    mixed = [ring(5), ring(4), ring(5), ring(3)]
    scores, additional = [rng.normal(size=graph.n_variables) for graph in mixed], {"neighbours": -1.0}
    together = map_inference(mixed, scores, additional=additional)
    for graph, own, result in zip(mixed, scores, together, strict=True):
        alone = map_inference(graph, own, additional=additional)
        assert_array_equal(result.structure, alone.structure)
        assert result.value == alone.value and result.bound == alone.bound
    each = [{"neighbours": value} for value in (-1.0, 1.0, 2.0, 0.0)]
    together = map_inference(mixed, scores, additional=each)
    for graph, own, extra, result in zip(mixed, scores, each, together, strict=True):
        assert result.value == map_inference(graph, own, additional=extra).value
    with pytest.raises(ValueError, match=r"graph\[1\] must be a FactorGraph"):
        map_inference([ring(5), 3], scores[:2], additional=additional)
    with pytest.raises(ValueError, match="scores must be a list"):
        map_inference(mixed, scores[:2], additional=additional)


@cache
def grid(height, width):
    graph = FactorGraph()
    u = graph.categorical((height, width), 3, name="colour")
    graph.add(PairTable(u[:, :-1], u[:, 1:], name="right", tied=True))
    return graph


@cache
def fitted_graphs():
    """Return three models with samples, and their graph and assignments: binary, categorical, with a structure."""
    rng = np.random.default_rng(0)
    X, y = make_rings(20, 0)
    rings = StructuredSparseMAPClassifier(graph_of, alpha=0.1).fit(X, y)
    models = [(rings, X, graph_of, lambda graph: product([0, 1], repeat=graph.n_variables))]
    X = [rng.normal(size=(2, 2, 2)) for _ in range(12)]
    y = [x.argmax(axis=-1) + (x[..., 0] > 1) for x in X]
    grids = StructuredSparseMAPClassifier(lambda x: grid(*x.shape[:2]), alpha=0.1).fit(X, y)
    colours = [np.reshape(c, (2, 2)) for c in product(range(3), repeat=4)]
    models.append((grids, X, lambda x: grid(*x.shape[:2]), lambda graph: colours))
    X = [rng.normal(size=(8, 2)) for _ in range(12)]
    y = [{"states": np.eye(2, dtype=int)[(x[:6:2, 0] > x[1:6:2, 0]).astype(int)], "seen": [0, 1]} for x in X]
    chains = StructuredSparseMAPClassifier(lambda x: chain_graph(3), alpha=0.1).fit(X, y)
    states = [{"states": np.eye(2, dtype=int)[list(s)], "seen": w} for s in product([0, 1], repeat=3)
              for w in product([0, 1], repeat=2)]  # fmt: skip
    return [*models, (chains, X, lambda x: chain_graph(3), lambda graph: states)]


def value_of(model, graph, x, y):
    """Return the score of an assignment; None if it is not allowed."""
    (scores,), (shapes,) = model.decision_function([x]), [learned_shapes(graph)]
    layout = graph.layout(shapes)
    try:
        u, joint = gold_parts(graph, layout, y)
    except ValueError:
        return None
    flat = layout.join_variables(scores, "scores")
    return float(u @ flat + layout.summed(joint) @ model._current.additional)


def plain(y):
    return {name: np.asarray(a).tolist() for name, a in y.items()} if isinstance(y, dict) else np.asarray(y).tolist()


def agrees(known, y):
    """Tell whether an assignment has the known entries."""
    if isinstance(known, dict):
        return all(agrees(part, y[name]) for name, part in known.items())
    known, y = np.asarray(known, object).ravel(), np.asarray(y).ravel()
    return all(k is None or k == own for k, own in zip(known, y, strict=True))


def test_the_best_and_the_known_assignments_are_those_of_enumeration():
    rng, compared = np.random.default_rng(1), 0
    for model, X, graph_of_x, everything in fitted_graphs():
        for x in X[:2]:
            graph = graph_of_x(x)
            valued = [(value, y) for y in everything(graph) if (value := value_of(model, graph, x, y)) is not None]
            valued.sort(key=lambda pair: -pair[0])
            (best,) = model.predict_n_best([x], 4)
            assert_allclose([value for _, value in best], [value for value, _ in valued[:4]], atol=1e-8)
            assert plain(best[0][0]) == plain(model.predict([x])[0]) == plain(valued[0][1])
            for _ in range(3):
                hidden = valued[int(rng.integers(len(valued)))][1]
                known = known_part(hidden, rng)
                allowed = [pair for pair in valued if agrees(known, pair[1])]
                assert plain(model.predict([x], known=[known])[0]) == plain(allowed[0][1])
                (found,) = model.predict_n_best([x], 6, known=[known])
                assert_allclose([value for _, value in found], [value for value, _ in allowed[:6]], atol=1e-8)
                compared += 1
            marginals = model.predict_marginals([x, x], known=[known, None])
            assert plain(marginals[1]) == plain(model.predict_marginals([x])[0])
    assert compared == 18


def test_fixed_variables_change_a_task_that_has_predicted_and_no_copy_of_it():
    graph = FactorGraph()
    graph.add(AtMost(graph.variables(3), 2))
    task = GraphTask(np.array([0, 3, 6]), [graph] * 2, [graph.layout({})] * 2, {})
    copied = task.copy()
    scores = np.array([[3.0], [2.0], [-1.0]] * 2)
    none = np.zeros(0)
    free = [[1, 1, 0], [1, 1, 0]]
    assert [y.tolist() for y in task.predict(scores, none, 1)] == free
    fixed = task.restrict(scores, [[None, None, 1], None])
    assert [y.tolist() for y in task.predict(fixed, none, 1)] == [[1, 0, 1], [1, 1, 0]]
    assert [y.tolist() for y in copied.predict(scores, none, 1)] == free


def known_part(y, rng):
    """Return an assignment with None for about half of its entries."""
    if isinstance(y, dict):
        return {name: known_part(part, rng) for name, part in y.items() if rng.random() < 0.8}
    known = np.array(y, object)
    known[rng.random(known.shape) < 0.5] = None
    return known


def test_wrong_knowledge_of_graphs_is_named():
    model, X, _, _ = fitted_graphs()[0]
    n = len(X[0])
    for known, message in (
        ([[1] * n], "agrees with known\\[0\\]"),
        ([[1] * (n + 1)], r"known\[0\]: on has shape"),
        ([[2] * n], r"known\[0\]: on must hold True and False"),
        ([{"off": [1]}], r"known\[0\]: found arrays named \['off'\]"),
        ([None, None], "known has 2 entries for 1 samples"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(X[:1], known=known)


def test_explanations_of_graphs_add_up():
    compared = 0
    for model, X, _, _ in fitted_graphs():
        for x in X[:3]:
            why = explain(model, x)
            (best,) = model.predict_n_best([x], 2)
            assert plain(why.predicted) == plain(best[0][0]) and plain(why.rival) == plain(best[1][0])
            assert why.score_difference == pytest.approx(best[0][1] - best[1][1], abs=1e-8)
            assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-8)
            against = explain(model, x, against=best[1][0])
            assert against.score_difference == pytest.approx(why.score_difference)
            # Variables have their names.
            graph, flat = model._task(model._check_predict([x])[1]).graphs[0], np.arange(len(why.names))
            changed = {graph.describe(i) for i in range(graph.n_variables)}
            assert {*np.array(why.labels, object)[flat[why.rows >= 0]]} <= changed
            compared += any(name.startswith(("neighbours", "right[", "chain.", "first[")) for name in why.names)
    assert compared >= 4


def test_names_of_features_of_graphs():
    X, y = make_rings(20, 0)
    frames = [pd.DataFrame(x, columns=["a", "b", "c"]) for x in X]
    of_frames = StructuredSparseMAPClassifier(graph_of).fit(frames, y)
    pairs = [(frame, len(frame)) for frame in frames]
    of_pairs = StructuredSparseMAPClassifier(lambda x, n: ring(n)).fit(pairs, y)
    for model, samples in ((of_frames, frames), (of_pairs, pairs)):
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        assert {"a", "b", "c"} & set(explain(model, samples[0]).names)
        assert set(feature_table(model)["feature"]) <= {"a", "b", "c"}
    with pytest.raises(ValueError, match=r"X\[1\] has other columns than X\[0\]"):
        of_pairs.fit([pairs[0], (frames[1][["a", "c", "b"]], len(frames[1]))], y[:2])


def test_tables_of_names_in_place_of_masks():
    """The message is an expression that makes the mask."""
    names = np.array(["Ann", "Ben", "Cem"])
    week = FactorGraph()
    works = week.variables((3, 2, 2), name="works")
    week.add(*[Exactly(works[:, day, time], 1, name="one") for day, time in np.ndindex(2, 2)])
    table = pd.DataFrame([["Ann", "Cem"], ["Ben", "Ann"]], index=["Mon", "Tue"], columns=["early", "late"])
    X = np.random.default_rng(0).normal(size=(4, 3, 2, 2, 1))
    with pytest.raises(ValueError, match=r"works holds names, such as 'Ann'; .* give the mask") as error:
        week.violations(table)
    mask = eval(str(error.value).partition("give the mask ")[2], {"np": np, "names": names, "table": table})
    assert mask.shape == (3, 2, 2) and week.violations(mask) == []
    assert week.violations(mask[::-1] & mask)[0].name == "one"
    model = StructuredSparseMAPClassifier(week).fit(X, [mask] * 4)
    for act, place in (
        (lambda y: week.violations({"works": y[0]}), ""),
        (lambda y: clone(model).fit(X, y), r"y\[0\]: "),
        (lambda y: model.score(X, y), r"y\[0\]: "),
        (lambda y: model.predict(X, known=y), r"known\[0\]: "),
        (lambda y: FenchelYoungLoss(week).loss_gradient(X[0, ..., 0], y[0]), "gold: "),
    ):
        for given in (table, table.to_numpy(), table.to_numpy().tolist()):
            with pytest.raises(ValueError, match=f"^{place}works holds names, such as 'Ann'; if the first axis"):
                act([given] * 4)
    with pytest.raises(ValueError, match=r"works is not an array .*; give a mask of shape \(3, 2, 2\)"):
        week.violations([[["Ann", "Ben"], ["Cem"]], [["Ann"], ["Ben"]]])
    with pytest.raises(
        ValueError, match=r"on holds names, such as 'Ann'; give a mask of shape \(3,\), such as np.isin"
    ):
        ring(3).violations(["Ann", "Ben"])
    with pytest.raises(ValueError, match="colour holds names, such as 'red'; give the index of each value"):
        graph = FactorGraph()
        graph.categorical(2, 3, name="colour")
        graph.violations(["red", "blue"])


def test_tables_in_place_of_sequences():
    """A table was read by its columns, whose names became labels."""
    graph, X = ring(3), np.random.default_rng(0).normal(size=(5, 3, 3))
    masks = np.eye(3, dtype=bool)[[0, 1, 2, 0, 1]]
    model = StructuredSparseMAPClassifier(graph).fit(X, masks)
    table, frames = pd.DataFrame(masks), [pd.Series(mask) for mask in masks]
    assert_array_equal(clone(model).fit(X, table.to_numpy()).coef_, model.coef_)
    assert_array_equal(clone(model).fit(X, frames).coef_, model.coef_)
    assert parts_f1_score(frames, list(model.predict(X))) == model.score(X, frames) == model.score(X, masks)
    chain, labels = StructuredSparseMAPClassifier("chain", loss="crf"), [["a", "b", "a"]] * 5
    chain.fit(X, labels)
    sets = ConformalStructures(chain, confidence_level=0.5)
    for act, y in (
        (lambda y: clone(model).fit(X, y), table),
        (lambda y: model.score(X, y), table),
        (lambda y: clone(chain).fit(X, y), pd.DataFrame(labels)),
        (lambda y: chain.log_likelihood(X, y), pd.DataFrame(labels)),
        (lambda y: sets.conformalize(X, y), pd.DataFrame(labels)),
    ):
        with pytest.raises(ValueError, match=r"^y is a table, of shape \(5, 3\), .*pass y.to_numpy\(\)"):
            act(y)
    with pytest.raises(ValueError, match="known must be a sequence with one partially known structure"):
        model.predict(X, known=table)
    columns = [pd.DataFrame({"label": own}) for own in labels]
    for act, place in (
        (lambda y: clone(chain).fit(X, y), "y"),
        (lambda y: chain.score(X, y), "y"),
        (lambda y: sets.conformalize(X, y), "y"),
        (lambda y: InformationGainSelector(1).fit(X, y), "y"),
        (lambda y: LabelConfusionDisplay.from_predictions(y, labels), "y_true"),
    ):
        with pytest.raises(
            ValueError, match=rf"(?s)^{place}\[0\] (has shape \(3, 1\); it must be 1-D|is .*, not a sequence)"
        ):
            act(columns)


def test_samples_in_a_list_in_place_of_a_tuple():
    """The message was about tokens."""
    X, y = make_rings(6, 0)
    pairs = [(x, len(x)) for x in X]
    model = StructuredSparseMAPClassifier(lambda x, n: ring(n)).fit(pairs, y)
    frames = [[pd.DataFrame(x), len(x)] for x in X]
    of_objects = np.empty((6, 2), object)
    of_objects[:] = pairs
    remedy = "holds arrays and other values; a sample that is not one array is a tuple of features and further arg"
    for samples in (list(map(list, pairs)), frames, pd.Series(frames, index=range(3, 9)), of_objects):
        for call in (partial(clone(model).fit, y=y), model.predict, partial(model.score, y=y)):
            with pytest.raises(ValueError, match=rf"^X\[0\], of type (list|ndarray), {remedy}"):
                call(samples)
    with pytest.raises(ValueError, match=rf"^X\[1\], of type list, {remedy}"):
        model.predict([X[0], [X[1], sparse.csr_array(X[1])]])
    with pytest.raises(ValueError, match=r"^X\[0\] begins with a FactorGraph; a tuple begins with the features"):
        model.predict([(ring(len(x)), x) for x in X])
    with pytest.raises(ValueError, match=r"missing 1 required .* further arguments, make the sample a tuple"):
        model.predict(X)
    alike = [x for x in X if len(x) == len(X[0])]
    fixed = StructuredSparseMAPClassifier(ring(len(X[0])))
    for kind in (list, tuple):
        with pytest.raises(ValueError, match=rf"^X\[0\], of type {kind.__name__}, .* its features alone"):
            fixed.fit([kind([x, 2]) for x in alike], y[: len(alike)])
    with pytest.raises(ValueError, match=r"^X\[1\] is not an array of numbers .*inhomogeneous"):
        StructuredSparseMAPClassifier("matching").fit([np.ones((2, 2, 1)), [[[1], [2]], [[3]]]], [[0, 1]] * 2)
    # Rows in lists and tuples are features.
    wanted = model.predict(pairs)[0]
    assert_array_equal(model.predict([(X[0].tolist(), len(X[0]))])[0], wanted)
    assert_array_equal(model.predict([(tuple(map(tuple, X[0])), len(X[0]))])[0], wanted)


def test_messages_name_the_infeasible_sample():
    """Samples of one graph are solved together, but messages count all samples. They named ``scores[4]``."""

    def graph_of(x):
        graph = FactorGraph()
        u = graph.variables(len(x))
        graph.add(Xor(u))
        if x[0, 0] > 100.0:
            graph.add(Xor(u[:1]), Xor(u[1:2]))
        return graph

    rng = np.random.default_rng(0)
    X, y = [rng.normal(size=(3, 2)) for _ in range(6)], [np.eye(3)[i % 3] for i in range(6)]
    model = StructuredSparseMAPClassifier(graph_of, max_iter=500).fit(X, y)
    stopped = StructuredSparseMAPClassifier(graph_of, solver="adagrad", early_stopping=True, max_iter=2)
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, y)
    infeasible = list(X)
    infeasible[4] = X[4] + [[1000.0, 0.0]] * 3
    for infer, name in (
        (model.predict, "X[4]"),
        (model.predict_marginals, "X[4]"),
        (lambda X: model.predict_n_best(X, 2), "X[4]"),
        (lambda X: model.score(X, y), "X[4]"),
        (lambda X: explain(model, X[4]), "x"),
        (sets.predict_set, "X[4]"),
        (lambda X: clone(sets).conformalize(X, y), "X[4]"),
        (lambda X: stopped.fit(X[:4], y[:4], X_val=X, y_val=y), "X_val[4]"),
    ):
        with pytest.raises(ValueError, match=rf"^infeasible: under the scores of {re.escape(name)} .*Remove a factor$"):
            infer(infeasible)
    model = StructuredSparseMAPClassifier(ring(3), max_iter=500).fit(X, y)
    large = list(X)
    large[4] = np.tile([1e30, 0.0], (3, 1))
    with pytest.raises(ValueError, match=r"^the scores of X\[4\] .* are so large.*Scale the features$"):
        model.predict_marginals(large)


@cache
def roster():
    """Return a graph of shifts on two days, with samples that satisfy it."""
    graph = FactorGraph()
    shifts = graph.variables((2, 3, 4), name="shifts")
    for day in shifts:
        graph.add(*[Exactly(shift, 1, name="one worker a shift") for shift in day])
        graph.add(*[AtMost(worker, 1, name="one shift a day") for worker in day.T])
    graph.add(Pair(shifts[0], shifts[1], name="same worker", tied=True))
    rng = np.random.default_rng(0)
    X, additional = rng.normal(size=(30, 2, 3, 4, 3)), {"same worker": 0.5}
    return graph, X, [map_inference(graph, x @ WEIGHTS, additional=additional).structure for x in X]


def test_a_graph_is_a_structure():
    graph, X, y = roster()
    model = StructuredSparseMAPClassifier(graph, alpha=1e-2).fit(X, y)
    wanted = StructuredSparseMAPClassifier(lambda x: graph, alpha=1e-2).fit([x.reshape(24, 3) for x in X], y)
    for found in (
        model,
        clone(model).fit([x.reshape(24, 3) for x in X], np.array(y)),
        clone(model).fit(list(X), y),
        clone(model).fit([sparse.csr_array(x.reshape(24, 3)) for x in X], y),
        pickle.loads(pickle.dumps(model)),
        StructuredSparseMAPClassifier.from_arrays(model.to_arrays(), structure=graph),
    ):
        assert_allclose(found.coef_, wanted.coef_, atol=1e-12)
        assert found.additional_scores_.keys() == {"same worker"}
        assert_array_equal(
            np.array(found.predict(X).tolist()), np.array(wanted.predict([*X.reshape(30, 24, 3)]).tolist())
        )
    assert model.predict(X[:1])[0].shape == model.predict_marginals(X[:1])[0].shape == (2, 3, 4)
    assert 0.9 < model.score(X, y) == model.score(X, np.array(y))
    assert GridSearchCV(model, {"alpha": [1e-2, 10.0]}, cv=2).fit(X, y).best_params_ == {"alpha": 1e-2}
    assert repr(graph) in repr(model) and not any(map(graph.violations, model.predict(X)))
    # A stream continues with an equal graph, and not with another one.
    stream = clone(model).partial_fit(X, y)
    stream.set_params(structure=pickle.loads(pickle.dumps(graph))).partial_fit(X, y)
    other = FactorGraph()
    other.add(AtMost(other.variables((2, 3, 4), name="shifts"), 6))
    with pytest.raises(ValueError, match="differs from that of the fitted model, FactorGraph"):
        stream.set_params(structure=other).partial_fit(X, y)


def test_samples_have_the_shape_of_the_variables():
    graph, X, y = roster()
    model = StructuredSparseMAPClassifier(graph, alpha=1e-2).fit(X, y)
    for samples, message in (
        (X.transpose(0, 2, 1, 3, 4), r"X\[0\] has the shape \(3, 2, 4, 3\), but the variables .* have \(2, 3, 4\)"),
        ([X[0], X[1][0]], r"X\[1\] has 3 axes, but X\[0\] has 4"),
        (X[..., :2], r"X\[0\] has 2 features, but the model was fitted with 3"),
        ([X[0].reshape(24, 3)[:5]], r"X\[0\]: the sample has 5 rows, but the graph by `structure` has 24 variables"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(samples)
    # Functions get samples with any number of axes, too.
    shapes = set()

    def graph_of_cube(x):
        shapes.add(x.shape)
        return graph

    assert_allclose(StructuredSparseMAPClassifier(graph_of_cube, alpha=1e-2).fit(X, y).coef_, model.coef_)
    assert shapes == {(2, 3, 4, 3)}
    # Variables of several values have a row for each, or for each of their values.
    pixels = grid(3, 4)
    pictures = np.random.default_rng(0).normal(size=(10, 3, 4, 2))
    values = [(x[..., 0] > 0) + 0 + (x[..., 1] > 1) for x in pictures]
    painter = StructuredSparseMAPClassifier(pixels, alpha=1e-2).fit(pictures, values)
    assert painter.predict(pictures[:1])[0].shape == (3, 4) and painter.score(pictures, values) > 0.7
    with pytest.raises(ValueError, match=r"has the shape \(4, 3, 2\), but the variables of the graph have \(3, 4\)"):
        painter.predict(pictures.transpose(0, 2, 1, 3))
    several = chain_graph(3)
    X = [np.random.default_rng(i).normal(size=(8, 2)) for i in range(6)]
    y = [{"states": np.eye(2)[[0, 1, 0]], "seen": [1, 0]}, {"states": np.eye(2)[[1, 1, 0]], "seen": [0, 1]}] * 3
    assert StructuredSparseMAPClassifier(several).fit(X, y).predict(X)[0]["states"].shape == (3, 2)


def test_samples_that_violate_rules_are_left_out():
    graph, X, y = roster()
    wrong = [own.copy() for own in y]
    wrong[3][0, 0] = False
    wrong[7][1] = False
    wrong[7][1, :, 2] = True
    wrong[9][:] = True
    kept = np.setdiff1d(np.arange(30), [3, 7, 9])
    message = (
        r"^3 of 30 samples violate rules of their factor graph, and are left out of training: 'one worker a shift' "
        r"\(2 samples\), 'one shift a day' \(2 samples\); graph.violations lists those of an assignment; "
        r"correct y\[3\], y\[7\], y\[9\], or remove the rules"
    )
    weights = np.random.default_rng(0).random(30)
    for options, fit_options in (({}, {}), ({"solver": "adagrad", "random_state": 0}, {"sample_weight": weights})):
        model = StructuredSparseMAPClassifier(graph, alpha=1e-2, tol=1e-2, **options)
        with pytest.warns(UserWarning, match=message):
            model.fit(X, wrong, **fit_options)
        own = {name: values[kept] for name, values in fit_options.items()}
        assert_array_equal(model.coef_, clone(model).fit(X[kept], [y[i] for i in kept], **own).coef_)
    # Scores compare such samples as they are.
    found = model.predict(X)
    assert model.score(X, wrong) == pytest.approx(parts_f1_score(wrong, list(found)))
    with pytest.warns(UserWarning, match="samples violate rules"):
        assert (cross_val_score(model, X, wrong, cv=3, error_score="raise") > 0.6).all()
    held = StructuredSparseMAPClassifier(graph, early_stopping=0.5, max_iter=3, tol=1.0, random_state=0)
    with pytest.warns(UserWarning, match="3 of 30 samples"):
        assert len(held.fit(X, wrong).validation_scores_) > 0
    with pytest.raises(ValueError, match=r"all samples .*'one worker a shift' \(2 samples\).* y\[0\] violates"):
        clone(model).fit(X[:2], [wrong[3], wrong[9]])
    with pytest.raises(ValueError, match="all samples violate rules"):
        clone(model).fit(X[:2], [wrong[3], y[1]], sample_weight=[1.0, 0.0])


@pytest.mark.filterwarnings("ignore:. of . samples violate rules", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_streams_leave_out_samples_that_violate_rules():
    graph, X, y = roster()
    wrong = np.zeros((2, 3, 4), bool)
    wanted = StructuredSparseMAPClassifier(graph).partial_fit(X[:4], y[:4]).partial_fit(X[4:8], y[4:8])
    stream = StructuredSparseMAPClassifier(graph)
    with pytest.warns(UserWarning, match="1 of 1 samples violate rules"):
        stream.partial_fit(X[:1], [wrong])
    assert stream.n_iter_ == 0 and stream.loss_curve_ == []
    stream.partial_fit(X[:4], y[:4]).partial_fit(X[:1], [wrong]).partial_fit(X[3:8], [wrong, *y[4:8]])
    assert_array_equal(stream.coef_, wanted.coef_)
    parts = [(X[:1], [wrong]), (X[:4], y[:4]), (X[4:8], y[4:8])]
    models = [StructuredSparseMAPClassifier(graph, shuffle=False, max_iter=2) for _ in range(2)]
    assert_array_equal(models[0].fit_partitions(parts).coef_, models[1].fit_partitions(parts[1:]).coef_)


def test_conformal_sets_lack_assignments_that_violate_rules():
    graph, X, y = roster()
    model = StructuredSparseMAPClassifier(graph, alpha=1e-2).fit(X[:10], y[:10])
    wrong = [*y[10:19], np.zeros((2, 3, 4), bool)]
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X[10:20], wrong)
    assert sets.nonconformity_[-1] == np.inf and np.isfinite(sets.nonconformity_[:-1]).all()
    assert not sets.covers(X[19:20], wrong[-1:])[0]


def test_structures_of_a_graph_that_is_one():
    rng = np.random.default_rng(0)
    for structure, shape, name in (
        (LinearChain(), (4, 3), "chain"),
        (Matching(), (3, 3), None),
        (DependencyTree(), (4, 3), None),
        (Subset(max_size=2), (5,), None),
    ):
        X = rng.normal(size=(20, *shape, 2))
        y = [map_inference(structure, x @ [1.0, -1.0]).structure for x in X]
        for is_structured in (False, True):
            if is_structured and name:
                continue
            graph = FactorGraph()
            u = graph.structured(structure, shape) if is_structured else graph.variables(shape)
            if not is_structured:
                graph.add(StructureFactor(structure, u, name=name))
            (factor,) = graph.factors
            masks = y if is_structured else [factor.parts_of(own) for own in y]
            model = StructuredSparseMAPClassifier(graph, alpha=0.1).fit(X, masks)
            marginals, n_several, n_best = model.predict_marginals(X), 0, 0
            for own, u, best in zip(model.predict_structures(X), marginals, model.predict(X), strict=True):
                parts = [factor.parts_of(found) if is_structured else found for found, _ in own]
                weights = [p for _, p in own]
                assert sum(weights) == pytest.approx(1.0) and weights == sorted(weights, reverse=True)
                assert_allclose(sum(p * part for p, part in zip(weights, parts)), u, atol=1e-6)
                assert not any(map(graph.violations, parts))
                # The best structure is nearly always one of those that are selected, but need not be.
                n_best += any(plain(found) == plain(best) for found, _ in own)
                n_several += len(own) > 1
            assert n_several > 3 and n_best >= 19


def rota():
    """Return a graph of three workers and two days with two shifts, and one variable for each worker and day."""
    graph = FactorGraph()
    works, duty = graph.variables((3, 2, 2), name="works"), graph.variables((3, 2), name="duty")
    graph.add(*(Exactly(works[:, d, s], 1) for d, s in np.ndindex(2, 2)))
    graph.add(*(XorOut([*works[w, d], duty[w, d]]) for w, d in np.ndindex(3, 2)))
    graph.add(Pair(duty[:, 0], duty[:, 1], name="stay", tied=True))
    return graph


@pytest.mark.parametrize("make", [np.asarray, lambda x: sparse.csr_array(x.reshape(-1, 2))])
def test_samples_are_dicts_by_array(make):
    graph, draw = rota(), np.random.default_rng(0).normal
    X = [{"duty": 0.0 * draw(size=(3, 2, 2)), "works": draw(size=(3, 2, 2, 2))} for _ in range(20)]
    rows = [np.concatenate([x[name].reshape(-1, 2) for name in ("works", "duty")]) for x in X]
    y = [map_inference(graph, {n: x[n][..., 0] for n in graph.names}, additional={"stay": 0.5}).structure for x in X]
    wanted = StructuredSparseMAPClassifier(graph, alpha=0.1).fit(rows, y)
    X = [{name: make(array) for name, array in x.items()} for x in X]
    model = StructuredSparseMAPClassifier(graph, alpha=0.1).fit(X, y)
    assert_allclose(model.coef_, wanted.coef_)
    for found, right in zip(model.predict(X), wanted.predict(rows), strict=True):
        assert {name: array.tolist() for name, array in found.items()} == {n: a.tolist() for n, a in right.items()}
    assert explain(model, X[0]).score_difference == pytest.approx(explain(wanted, rows[0]).score_difference)


def test_dicts_of_several_values():
    graph = FactorGraph()
    first, second = graph.categorical(2, 3, name="first"), graph.categorical((2, 2), 3, name="second")
    graph.add(PairTable(first, second[0], name="alike", tied=True))
    draw = np.random.default_rng(0).normal
    X = [{"first": draw(size=(2, 1)), "second": draw(size=(2, 2, 1))} for _ in range(9)]
    y = [{name: (x[..., 0] > 0).astype(int) for name, x in sample.items()} for sample in X]
    model = StructuredSparseMAPClassifier(graph, alpha=0.1).fit(X, y)
    rows = [np.concatenate([x["first"], x["second"].reshape(4, 1)]) for x in X]
    assert_allclose(model.coef_, StructuredSparseMAPClassifier(graph, alpha=0.1).fit(rows, y).coef_)


def test_wrong_dicts_of_samples():
    graph = rota()
    works, duty = np.zeros((3, 2, 2, 1)), np.zeros((3, 2, 1))
    scores = {"works": works[..., 0], "duty": duty[..., 0]}
    y = [map_inference(graph, scores, additional={"stay": 0.0}).structure]
    for x, message in (
        ({"works": works}, r"X\[0\] must be a dict with features for each of \['works', 'duty'\]; got arrays named"),
        ({"works": works, "duty": duty[..., 0]}, r"X\[0\]\['duty'\] has shape \(3, 2\), but these .* have \(3, 2\)"),
        ({"works": works, "duty": np.zeros((3, 2, 4))}, r"different numbers of features, \{'works': 1, 'duty': 4\}"),
        ({"works": works, "duty": [["a"]]}, r"X\[0\]\['duty'\] must be an array of numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            StructuredSparseMAPClassifier(graph).fit([x], y)
    with pytest.raises(ValueError, match=r"X\[1\] must be a dict .*; got ndarray"):
        StructuredSparseMAPClassifier(graph).fit([{"works": works, "duty": duty}, works], y * 2)
    sample = {"works": works, "duty": duty}
    for x, function in ((sample, lambda x: graph), ((sample, 1), lambda x, _: graph)):
        with pytest.raises(ValueError, match=r"X\[0\] has a dict of features; if `structure` is a .* np.concatenate"):
            StructuredSparseMAPClassifier(function).fit([x], y)


def test_a_dict_of_stacked_arrays_is_no_list_of_samples():
    graph = rota()
    X = {"works": np.random.default_rng(0).normal(size=(5, 3, 2, 2, 1)), "duty": np.zeros((5, 3, 2, 1))}
    samples = [{name: X[name][i] for name in X} for i in range(5)]
    scores = [{name: array[..., 0] for name, array in x.items()} for x in samples]
    y = [map_inference(graph, each, additional={"stay": 0.0}).structure for each in scores]
    model = StructuredSparseMAPClassifier(graph)
    message = r"X is one dict; .* \['works', 'duty'\], so write (\[.*\]); or .* order of the calls of graph.variables"
    for call in (model.fit, clone(model).set_params(solver="adagrad").partial_fit):
        with pytest.raises(ValueError, match=message) as raised:
            call(X, y)
    assert str(eval(re.search(message, str(raised.value))[1], {"X": X, "n_samples": 5})) == str(samples)
    stacked_y = {name: np.array([each[name] for each in y]) for name in graph.names}
    message = r"y must be a sequence with one structure a sample.*; got dict; write (.*)"
    with pytest.raises(ValueError, match=message) as raised:
        model.fit(samples, stacked_y)
    again = eval(re.search(message, str(raised.value))[1], {"X": samples, "y": stacked_y})
    model.fit(samples, again)
    for call in (model.predict, model.predict_marginals):
        with pytest.raises(ValueError, match="X is one dict"):
            call(X)
    with pytest.raises(ValueError, match="got dict; write"):
        model.score(samples, stacked_y)


def test_indices_instead_of_a_mask():
    for y, message in (
        ([0, 2], r"y\[0\]: on has shape \(2,\); .* have \(4,\); give a mask of this shape, True for variables that"),
        ([0, 2, 3, 1], r"y\[0\]: on must hold True and False, or 1 and 0: a mask of the variables"),
    ):
        with pytest.raises(ValueError, match=message):
            StructuredSparseMAPClassifier(ring(4)).fit([np.zeros((4, 1))], [y])


def preferring_graph():
    """Return a graph of three workers, three days and two shifts, and a score for working on two days in a row."""
    graph = FactorGraph()
    u = graph.variables((3, 3, 2))
    graph.add(
        *(Exactly(u[:, d, s], 1) for d, s in np.ndindex(3, 2)), *(AtMost(u[w, d], 1) for w, d in np.ndindex(3, 3))
    )
    first, second = zip(*((u[w, d, s], u[w, d + 1, t]) for w, d, s, t in np.ndindex(3, 2, 2, 2)))
    graph.add(Pair(first, second, name="stay", tied=True))
    return graph


def test_the_perceptron_learns_from_the_best_assignment():
    # In the relaxation, half a worker in each of two shifts of a day earns a preference for two days twice.
    graph = preferring_graph()
    X = np.random.default_rng(0).normal(size=(50, 3, 3, 2, 1))
    y = np.array([map_inference(graph, x[..., 0], additional={"stay": 0.8}).structure for x in X])
    model = StructuredSparseMAPClassifier(graph, loss="perceptron", alpha=1e-3, random_state=0).fit(X[:30], y[:30])
    assert 0.6 < model.additional_scores_["stay"] / model.coef_[0, 0] < 1.0
    assert np.array(list(model.predict(X[30:])))[y[30:]].mean() > 0.95
    again = clone(model).set_params(n_jobs=2).fit(X[:30], y[:30])
    assert_array_equal(again.coef_, model.coef_)


def test_a_search_that_is_not_complete_leaves_the_relaxation(monkeypatch):
    graph = preferring_graph()
    scores = np.random.default_rng(0).normal(size=(4, 3, 3, 2))
    problems, _ = as_graph_problems(graph, list(scores), {"stay": 0.8})
    relaxed, best = relax(problems), best_or_relaxed(problems)
    assert (np.minimum(relaxed.marginals, 1.0 - relaxed.marginals) > 0.1).any(axis=1).sum() >= 2
    right = map_inference(graph, list(scores), additional={"stay": 0.8})
    assert_array_equal(best.marginals, [each.structure.ravel() for each in right])
    values = best.joint.sum(axis=1) * 0.8 + (best.marginals * scores.reshape(4, -1)).sum(axis=1)
    assert_allclose(values, [each.value for each in right])
    monkeypatch.setattr(graph_map, "_MAX_NODES", 0)
    replace(monkeypatch, "_numerics", "_FEW", 0)
    for array, wanted in zip(best_or_relaxed(problems), relax(problems), strict=True):
        assert_allclose(array, wanted, atol=1e-12)
