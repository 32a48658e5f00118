"""The expected cost and the entropy of Gibbs distributions, by enumeration."""

import pickle
from itertools import pairwise

import naive
import numpy as np
import pytest
from internals import PartialTask, StructureTask
from registry import RANDOM, Instance
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from sklearn_sparsemap import (
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
    marginal_inference,
)
from sklearn_sparsemap.factors import AtMostOne, FactorGraph
from sklearn_sparsemap.inference import entropy
from sklearn_sparsemap.losses import ExpectedCost, FenchelYoungLoss
from sklearn_sparsemap.score_models import Network, Trees
from sklearn_sparsemap.structures import (
    DependencyTree,
    LinearChain,
    Matching,
    Path,
    Ranking,
    Simplex,
    Subset,
)

NO_MARGINALS = ("matching", "custom", "ranking", "top two")
KINDS = [kind for kind in RANDOM if kind not in NO_MARGINALS]
SETTINGS = ({}, {"scale": 0.1}, {"scale": 10.0}, {"forbid": True}, {"ties": True})
M = 3


def draw_instances(kind, seed, n=3):
    """Yield instances, with a gold structure that is allowed, its place, all structures, and a generator."""
    rng = np.random.default_rng(seed)
    for options in SETTINGS:
        for _ in range(n):
            instance = RANDOM[kind](rng, **options)
            structures, indicators, theta = instance.enumerate()
            place = int(rng.choice(np.flatnonzero(theta > -np.inf)))
            yield instance, place, (structures, indicators, theta), rng


def slope_in_additional(instance, value_of, rng, step=1e-4):
    """Return a random direction of the additional scores, and the slope of the twin's value along it."""
    direction = {name: rng.normal(size=np.shape(values)) for name, values in instance.additional.items()}

    def moved(size):
        own = {name: values + size * direction[name] for name, values in instance.additional.items()}
        return value_of(Instance(instance.structure, instance.scores, own).enumerate()[2])

    return direction, (8.0 * (moved(step) - moved(-step)) - moved(2 * step) + moved(-2 * step)) / (12.0 * step)


@pytest.mark.parametrize("kind", KINDS)
def test_expected_cost_and_gradient_are_those_of_all_structures(kind):
    for instance, place, (structures, indicators, theta), rng in draw_instances(kind, 0):
        temperature = float(rng.choice([0.4, 1.0, 3.0]))
        cost = naive.hamming_cost(indicators, place)
        loss = ExpectedCost(instance.structure, temperature=temperature)
        value, gradient = loss.loss_gradient(instance.scores, np.array(structures[place]), **instance.additional)
        expected, slopes = naive.expected_cost(indicators, theta, cost, temperature)
        assert value == pytest.approx(expected, abs=1e-10), instance
        np.testing.assert_allclose(gradient["scores"].ravel(), slopes, atol=1e-9, err_msg=repr(instance))
        direction, slope = slope_in_additional(
            instance, lambda t, c=cost, s=temperature: naive.expected_cost(indicators, t, c, s)[0], rng
        )
        found = sum((gradient[name] * d).sum() for name, d in direction.items())
        assert found == pytest.approx(slope, abs=1e-7), instance


@pytest.mark.parametrize("kind", KINDS)
def test_entropy_and_gradient_are_those_of_all_structures(kind):
    samples = list(draw_instances(kind, 1))
    for instance, _, (_, indicators, theta), rng in samples:
        p = naive.probabilities(theta)

        def entropy_of(totals):
            own = naive.probabilities(totals)
            return -(own[own > 0.0] * np.log(own[own > 0.0])).sum()

        value, gradient = entropy(instance.structure, instance.scores, **instance.additional)
        assert value == pytest.approx(entropy_of(theta), abs=1e-9), instance
        surprise = np.where(p > 0.0, np.log(np.maximum(p, 1e-300)), 0.0)
        slopes = -indicators @ (p * (surprise - surprise @ p))
        np.testing.assert_allclose(gradient["scores"].ravel(), slopes, atol=1e-8, err_msg=repr(instance))
        direction, slope = slope_in_additional(instance, entropy_of, rng)
        found = sum((gradient[name] * d).sum() for name, d in direction.items())
        assert found == pytest.approx(slope, abs=1e-6), instance


def test_lists_of_samples_are_those_of_each_alone():
    rng = np.random.default_rng(2)
    scores = [rng.normal(size=(n, M)) for n in (4, 1, 7)]
    transitions = rng.normal(size=(M, M))
    gold = [rng.integers(M, size=len(own)) for own in scores]
    loss = ExpectedCost(LinearChain())
    for n_jobs in (1, 2):
        found = loss.loss_gradient(scores, gold, n_jobs=n_jobs, transitions=transitions)
        entropies = entropy(LinearChain(), scores, n_jobs=n_jobs, transitions=transitions)
        for i, (own, right) in enumerate(zip(scores, gold)):
            value, gradient = loss.loss_gradient(own, right, transitions=transitions)
            alone, slope = entropy(LinearChain(), own, transitions=transitions)
            for (a, given), (b, other) in (((value, gradient), found[i]), ((alone, slope), entropies[i])):
                assert a == b
                for name in ("scores", "transitions"):
                    assert np.array_equal(given[name], other[name])


def test_certain_and_masked_scores():
    # Large masks stand for -inf, and large scores leave one structure, with a cost and slopes of zero.
    scores = np.array([[0.3, -1e9, 0.1], [-0.2, 0.4, -np.inf]])
    value, gradient = ExpectedCost(LinearChain()).loss_gradient(scores, [0, 1])
    expected = 2.0 - marginal_inference(LinearChain(), scores).marginals[[0, 1], [0, 1]].sum()
    assert value == pytest.approx(expected, abs=1e-12)
    assert gradient["scores"][0, 1] == gradient["scores"][1, 2] == 0.0
    steps = [naive.probabilities(row) for row in scores]
    of_steps = -sum((p[p > 0.0] * np.log(p[p > 0.0])).sum() for p in steps)
    assert entropy(LinearChain(), scores)[0] == pytest.approx(of_steps, abs=1e-9)
    for large in (1e3, 1e6):
        sure = large * np.eye(3)
        assert ExpectedCost(LinearChain()).loss_gradient(sure, [0, 1, 2])[0] == 0.0
        assert ExpectedCost(LinearChain()).loss_gradient(sure, [1, 1, 2])[0] == 1.0
        value, gradient = entropy(LinearChain(), sure)
        assert value == 0.0 and not gradient["scores"].any()


@pytest.mark.parametrize("size", [2.0**10, 2.0**30])
def test_common_terms_of_all_structures_change_no_entropy(size):
    # Scores are multiples of 1/8, so that their differences are exact.
    rng = np.random.default_rng(4)

    def draw(*shape):
        return np.round(8.0 * rng.normal(size=shape)) / 8.0

    chain, tree = draw(4, M), draw(4, 3)
    places = size * np.arange(1.0, 5.0)
    # From 0 to 3 by three edges each.
    path = Path([(0, 1), (0, 1), (1, 2), (1, 2), (2, 3), (2, 3)], 0, 3)
    for structure, scores, common in (
        (Simplex(), draw(5), size),
        (LinearChain(), chain, places[:, None]),
        (DependencyTree(), tree, places[:3]),
        (Subset(2, 2), draw(4), -size),
        (path, draw(6), size),
    ):
        value, gradient = entropy(structure, scores)
        moved, other = entropy(structure, scores + common)
        assert moved == pytest.approx(value, abs=1e-12), structure
        np.testing.assert_allclose(other["scores"], gradient["scores"], atol=1e-9, err_msg=repr(structure))


def test_the_gradient_of_the_entropy_keeps_digits_if_scores_are_large():
    # Terms that structures do not share in one place: transitions, and an item that is always taken.
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(4, M))
    transitions = np.round(8.0 * rng.normal(size=(M, M))) / 8.0
    _, gradient = entropy(LinearChain(), scores, transitions=transitions)
    _, moved = entropy(LinearChain(), scores, transitions=transitions + 1024.0)
    for name in ("scores", "transitions"):
        np.testing.assert_allclose(moved[name], gradient[name], atol=2e-9)
    items = rng.normal(size=4)
    _, gradient = entropy(Subset(), items)
    _, more = entropy(Subset(), np.append(items, 1e6))
    np.testing.assert_allclose(more["scores"], np.append(gradient["scores"], 0.0), rtol=1e-9, atol=1e-12)


def test_a_cost_of_labels():
    rng = np.random.default_rng(3)
    for kind in ("simplex", "chain"):
        for _ in range(10):
            instance = RANDOM[kind](rng)
            m = instance.scores.shape[-1]
            matrix = rng.uniform(0, 3, size=(m, m))
            np.fill_diagonal(matrix, 0.0)
            structures, indicators, theta = instance.enumerate()
            gold = np.array(structures[int(rng.integers(len(structures)))])
            cost = np.array([matrix[np.atleast_1d(gold), np.atleast_1d(s)].sum() for s in structures])
            loss = ExpectedCost(instance.structure, cost=matrix)
            value, gradient = loss.loss_gradient(instance.scores, gold, **instance.additional)
            expected, slopes = naive.expected_cost(indicators, theta, cost)
            assert value == pytest.approx(expected, abs=1e-10)
            np.testing.assert_allclose(gradient["scores"].ravel(), slopes, atol=1e-9)


def test_wrong_input_names_the_remedy():
    graph = FactorGraph()
    graph.add(AtMostOne(graph.variables(3)))
    for structure in (Matching(), Ranking(), graph):
        for call in (lambda own: ExpectedCost(own), lambda own: entropy(own, np.zeros((3, 3)))):
            with pytest.raises((ValueError, TypeError), match=r"'sparsemap'|an instance such as"):
                call(structure)
    with pytest.raises(ValueError, match=r"#P-complete.*'hinge', do without"):
        ExpectedCost(Matching())
    with pytest.raises(ValueError, match=r"#P-hard.*'hinge', do without"):
        ExpectedCost(graph)
    with pytest.raises(ValueError, match="not one of 'sparsemap'"):
        FenchelYoungLoss(LinearChain(), "expected_cost")
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        ExpectedCost(LinearChain(), temperature=0.0)
    with pytest.raises(ValueError, match="not negative"):
        ExpectedCost(LinearChain(), cost=[[0.0, -1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="cost is for structures made of labels"):
        ExpectedCost(Subset(), cost=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="gold is forbidden"):
        ExpectedCost(LinearChain()).loss_gradient([[-np.inf, 0.0]], [0])
    for structure in ("chain", LinearChain):
        with pytest.raises(ValueError, match="an instance such as LinearChain"):
            ExpectedCost(structure)
    with pytest.raises(ValueError, match=r"scores\[1\] is infeasible|infeasible"):
        ExpectedCost(LinearChain()).loss_gradient([[[0.0, 0.0]], [[-np.inf, -np.inf]]], [[0], [0]])


# -- Training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partly", [False, True])
def test_tasks_weigh_steps_and_leave_out_unknown_labels(partly):
    rng = np.random.default_rng(4)
    indptr = np.array([0, 4, 5, 8])
    codes = rng.integers(M, size=8)
    weights = rng.choice([0.0, 0.5, 4.0], size=8)
    samples = np.array([1.0, 2.0, 0.5])
    cost = rng.uniform(0.5, 2.0, size=(M, M)) * (1.0 - np.eye(M))
    X = RaggedArray(np.zeros((8, 1)), indptr)
    if partly:
        weights = (weights > 0.0).astype(float)
        given = RaggedArray(np.where(weights > 0.0, codes, -2), indptr)
        task = PartialTask(LinearChain(), X, M).learn(given, samples, "expected_cost", 0.7, cost)
    else:
        task = StructureTask(LinearChain(), X, M)
        task.learn(RaggedArray(codes, indptr), samples, "expected_cost", 0.7, cost)
        task.step_weights = weights
    scores = rng.normal(size=(8, M))
    additional = rng.normal(size=task.n_additional)
    square, start, end = np.split(additional, [M * M, M * M + M])
    names = {"transitions": square.reshape(M, M), "start": start, "end": end}
    total, rows = 0.0, []
    for i, (a, b) in enumerate(pairwise(indptr)):
        paths, indicators, theta = naive.enumerate_chain(scores[a:b], **names)
        own = np.array([(weights[a:b] * cost[codes[a:b], np.array(path)]).sum() for path in paths])
        value, slopes = naive.expected_cost(indicators, theta, own, 0.7)
        total += samples[i] * value
        rows.append(samples[i] * slopes.reshape(-1, M))
    value, residuals, joined, n_inexact = task.loss_gradient(scores.copy(), additional, None)
    assert value == pytest.approx(total, abs=1e-9) and n_inexact == 0
    np.testing.assert_allclose(residuals, np.concatenate(rows), atol=1e-9)
    direction = rng.normal(size=len(additional))
    sides = [task.loss_gradient(scores.copy(), additional + s * direction, None)[0] for s in (1e-5, -1e-5)]
    assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(joined @ direction, abs=1e-6)
    part = task.take(np.array([2, 0]))
    taken = np.r_[5:8, 0:4]
    np.testing.assert_allclose(part.loss_gradient(scores[taken], additional, None)[1], residuals[taken], atol=1e-9)


def make_sequences(n=60, seed=5):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(4, M))
    X = [rng.normal(size=(rng.integers(2, 7), 4)) for _ in range(n)]
    return X, [(x @ weights + 1.5 * rng.normal(size=(len(x), M))).argmax(axis=1).tolist() for x in X]


def mean_cost(model, X, y):
    scores = model.decision_function(X)
    pairs = ExpectedCost(LinearChain()).loss_gradient(list(scores), y, **model.additional_scores_)
    return np.mean([value for value, _ in pairs])


def test_fit_lowers_the_expected_cost_of_a_crf_and_ends_at_a_stationary_point():
    X, y = make_sequences()
    options = {"structure": "chain", "alpha": 1e-2, "tol": 1e-6}
    crf = StructuredSparseMAPClassifier(loss="crf", **options).fit(X, y)
    model = StructuredSparseMAPClassifier(loss="expected_cost", **options).fit(X, y)

    def penalised(own):
        squares = (own.coef_**2).sum() + sum((values**2).sum() for values in own.additional_scores_.values())
        return mean_cost(own, X, y) + 0.5e-2 * squares

    assert penalised(model) < penalised(crf)
    assert model.loss_curve_[-1] == pytest.approx(penalised(model), abs=1e-8)
    assert model.loss_curve_[0] <= penalised(crf) + 1e-8
    # The gradient in the weights is zero.
    pairs = ExpectedCost(LinearChain()).loss_gradient(list(model.decision_function(X)), y, **model.additional_scores_)
    slope = sum(own["scores"].T @ x for x, (_, own) in zip(X, pairs)) / len(X) + 1e-2 * model.coef_
    assert np.abs(slope).max() < 1e-5
    # The same from a fitted crf, and from sparse rows.
    warm = StructuredSparseMAPClassifier(loss="crf", warm_start=True, **options).fit(X, y)
    warm.set_params(loss="expected_cost").fit(X, y)
    np.testing.assert_allclose(warm.coef_, model.coef_, atol=1e-3)
    rows = [sparse.csr_array(x) for x in X]
    of_rows = StructuredSparseMAPClassifier(loss="expected_cost", **options).fit(rows, y)
    np.testing.assert_allclose(of_rows.coef_, model.coef_, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "adagrad", "tol": 0.05},
        {"score_model": Network((8,), dropout=0.0, eta0=0.05)},
        {"score_model": Trees(max_iter=20, max_depth=2)},
        {"score_model": LogisticRegression()},
    ],
    ids=["adagrad", "network", "trees", "classifier"],
)
def test_every_score_model_learns_it(options):
    X, y = make_sequences(40)
    model = StructuredSparseMAPClassifier("chain", "expected_cost", random_state=0, **options).fit(X, y)
    assert model.score(X, y) > 0.55
    assert model.predict_proba(X)[0].shape == (len(X[0]), M)
    assert model.log_likelihood(X, y).max() < 0.0
    again = pickle.loads(pickle.dumps(model))
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), model.predict(X)))
    if "files" in model._learned.model.supports:
        assert StructuredSparseMAPClassifier.from_arrays(model.to_arrays()).score(X, y) == model.score(X, y)


def test_unknown_labels_weights_and_streams():
    X, y = make_sequences()
    rng = np.random.default_rng(6)
    known = [[label if rng.random() < 0.6 else None for label in labels] for labels in y]
    model = StructuredSparseMAPClassifier("chain", "expected_cost").fit(X, known)
    assert model.score(X, y) > 0.6
    online = StructuredSparseMAPClassifier("chain", "expected_cost", solver="adagrad").fit(X, known)
    assert online.score(X, y) > 0.6
    weights = [np.where([label is None for label in labels], 0.0, 1.0) for labels in known]
    heavy = StructuredSparseMAPClassifier("chain", "expected_cost", alpha=0.1, tol=1e-6)
    twice = [*X, *X[:5]], [*y, *y[:5]]
    once = np.ones(len(X))
    once[:5] = 2.0
    np.testing.assert_allclose(heavy.fit(X, y, sample_weight=once).coef_, heavy.fit(*twice).coef_, atol=1e-3)
    assert heavy.fit(X, y, sample_weight=weights).score(X, y) > 0.6
    stream = StructuredSparseMAPClassifier("chain", "expected_cost")
    for start in range(0, len(X), 20):
        stream.partial_fit(X[start : start + 20], y[start : start + 20], classes=[0, 1, 2])
    assert stream.score(X, y) > 0.5


def test_estimators_without_it_say_what_they_have():
    X, y = make_sequences(10)
    for model in (StructuredGroupLasso(loss="expected_cost"), MultilabelLPSparseMAP(loss="expected_cost")):
        with pytest.raises(ValueError, match="'loss' parameter"):
            model.fit(X, y)
    with pytest.raises(ValueError, match="loss='expected_cost' needs Gibbs marginals"):
        StructuredSparseMAPClassifier(Matching(), "expected_cost").fit(np.zeros((1, 2, 2, 1)), [[0, 1]])
    with pytest.raises(ValueError, match="solver='mira' is for loss='hinge'"):
        StructuredSparseMAPClassifier("chain", "expected_cost", solver="mira").fit(X, y)
