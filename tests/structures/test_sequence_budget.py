"""SequenceBudget: everything against enumeration, what it refuses, and its place in layers, graphs and estimators."""

import math
import pickle

import naive
import naive_gibbs
import numpy as np
import pytest
from internals import batch_of, draw_structures
from naive_gibbs import all_parts
from numpy.testing import assert_allclose
from registry import check_solution, random_budget
from scipy.special import logsumexp

from sklearn_sparsemap import (
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.factors import AtMost, FactorGraph, StructureFactor
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.plotting import ChainDisplay
from sklearn_sparsemap.structures import LinearChain, SequenceBudget, Subset

N_PROBLEMS = 500


def problems(seed, **options):
    """Yield random problems of all kinds, with a count of each kind that must come up often."""
    rng, counts = np.random.default_rng(seed), dict.fromkeys(("exact", "zero", "above", "forbidden", "one step"), 0)
    for i in range(N_PROBLEMS):
        scale = (0.1, 1.0, 1.0, 30.0)[i % 4]
        instance = random_budget(
            rng, exactly=i % 3 == 0, forbid=i % 5 < 2, ties=i % 7 == 0, scale=scale, most_paths=130, **options
        )
        structure, n_steps = instance.structure, len(instance.scores)
        counts["exact"] += structure.exactly
        counts["zero"] += structure.budget == 0
        counts["above"] += structure.budget > n_steps
        counts["forbidden"] += bool(np.isneginf(instance.scores).any())
        counts["one step"] += n_steps == 1
        yield instance
    assert all(count >= 25 for count in counts.values()), counts


def test_map_equals_enumeration():
    n_bound = 0
    for instance in problems(0):
        paths, _, theta = instance.enumerate()
        path, value = map_inference(instance.structure, instance.scores, **instance.additional)
        assert value == pytest.approx(theta.max(), rel=1e-12, abs=1e-12), instance
        assert theta[paths.index(tuple(path.tolist()))] == pytest.approx(value, rel=1e-12, abs=1e-12)
        n_bound += value < map_inference(LinearChain(), instance.scores, **instance.additional).value - 1e-9
    assert n_bound > 100


def test_sparsemap_equals_enumeration():
    for instance in problems(1):
        check_solution(instance, sparsemap(instance.structure, instance.scores, **instance.additional))


def test_gibbs_marginals_equal_enumeration():
    for instance in problems(2):
        found = marginal_inference(instance.structure, instance.scores, **instance.additional)
        instance.additional = {name: instance.additional[name] for name in found.additional_marginals}
        log_partition, expected = naive_gibbs.expectation(*all_parts(instance))
        assert found.log_partition == pytest.approx(log_partition, rel=1e-12, abs=1e-12)
        of_parts = [found.marginals, *found.additional_marginals.values()]
        assert_allclose(np.concatenate([array.ravel() for array in of_parts]), expected, atol=1e-11)


def test_derivatives_equal_those_on_the_face():
    """The Jacobian projects onto the moves of the face of the solution."""
    rng, n_compared = np.random.default_rng(0), 0
    for instance in problems(3):
        _, M, theta = instance.enumerate()
        result = sparsemap(instance.structure, instance.scores, **instance.additional)
        reduced = theta - M.T @ result.marginals.ravel()
        behind = reduced.max() - reduced
        if ((behind > 1e-9) & (behind < 1e-6)).any() or np.abs(instance.scores[instance.scores > -np.inf]).max() > 20:
            continue  # nearly a kink, or scores that cost digits
        face = M[:, behind <= 1e-9]
        moves = face[:, 1:] - face[:, :1]
        v = rng.normal(size=instance.scores.shape)
        expected = (moves @ np.linalg.pinv(moves) @ v.ravel()).reshape(v.shape)
        assert_allclose(result.vjp(v)["scores"], expected, atol=1e-8)
        assert_allclose(result.jvp(scores=v), expected, atol=1e-8)
        n_compared += 1
    assert n_compared > 300


def test_derivatives_by_additional_scores_equal_differences():
    rng, n_compared = np.random.default_rng(4), 0
    for instance in problems(4):
        if not instance.additional or any(np.isneginf(a).any() for a in instance.additional.values()):
            continue
        direction = {name: rng.normal(size=a.shape) for name, a in instance.additional.items()}

        def marginals_at(step, instance=instance, direction=direction):
            moved = {name: a + step * direction[name] for name, a in instance.additional.items()}
            return sparsemap(instance.structure, instance.scores, **moved).marginals

        result = sparsemap(instance.structure, instance.scores, **instance.additional)
        ahead = (marginals_at(1e-6) - result.marginals) / 1e-6
        behind = (result.marginals - marginals_at(-1e-6)) / 1e-6
        if np.abs(ahead - behind).max() > 1e-6:
            continue  # a kink
        assert_allclose(result.jvp(**direction), ahead, atol=1e-5)
        v = rng.normal(size=instance.scores.shape)
        gradients = result.vjp(v)
        total = sum((gradients[name] * direction[name]).sum() for name in direction)
        assert total == pytest.approx((v * ahead).sum(), abs=1e-4)
        n_compared += 1
    assert n_compared > 150


def test_n_best_equal_enumeration():
    rng, n_compared = np.random.default_rng(5), 0
    for instance in problems(5):
        paths, _, theta = instance.enumerate()
        k = int(rng.integers(1, 9))
        found = n_best(instance.structure, instance.scores, k, **instance.additional)
        expected = np.sort(theta[theta > -np.inf])[::-1][:k]
        assert_allclose([value for _, value in found], expected, rtol=1e-9, atol=1e-9)
        assert len({tuple(path.tolist()) for path, _ in found}) == len(found)
        for path, value in found:
            assert theta[paths.index(tuple(path.tolist()))] == pytest.approx(value, rel=1e-9, abs=1e-9)
            n_compared += 1
    assert n_compared > 1000


def test_samples_come_from_the_gibbs_distribution():
    rng, n_draws, n_compared = np.random.RandomState(0), 1000, 0
    for instance in problems(6):
        paths, _, theta = instance.enumerate()
        p = np.exp(theta - logsumexp(theta))
        samples, _, _ = batch_of(instance.structure, instance.scores, instance.additional)
        drawn = draw_structures(instance.structure, samples[0], n_draws, rng)
        counts = dict.fromkeys(paths, 0)
        for path in drawn:
            counts[tuple(path.tolist())] += 1
        error = np.array(list(counts.values())) - n_draws * p
        assert (np.abs(error) <= 6.0 * np.sqrt(n_draws * p * (1 - p)) + 2e-3 * n_draws).all(), instance
        n_compared += len(p)
    assert n_compared > 5000


def twin_of_gibbs(scores, transitions, fewest, most):
    """Return the log-partition and the marginals of two states by sums over counts in logarithms, one at a time."""
    n = len(scores)
    forward = np.full((n, n + 2, 2), -np.inf)
    backward = np.full((n, n + 2, 2), -np.inf)
    forward[0, 0, 0], forward[0, 1, 1] = scores[0]
    backward[-1, fewest : most + 1] = 0.0
    for t in range(1, n):
        for k in range(n + 1):
            for j in range(2):
                if k >= j:
                    forward[t, k, j] = np.logaddexp.reduce(forward[t - 1, k - j] + transitions[:, j]) + scores[t, j]
    for t in range(n - 2, -1, -1):
        for k in range(n + 1):
            for i in range(2):
                ways = [transitions[i, j] + scores[t + 1, j] + backward[t + 1, k + j, j] for j in range(2)]
                backward[t, k, i] = np.logaddexp.reduce(ways)
    both = forward + backward
    log_partition = logsumexp(both[0])
    return log_partition, np.exp(both - log_partition).sum(axis=1)


@pytest.mark.parametrize("scale", [0.1, 3.0, 30.0, 1000.0])
@pytest.mark.parametrize("fewest, most", [(0, 10), (10, 10), (0, 0), (55, 55)])
def test_gibbs_marginals_of_long_sequences_at_any_scale(scale, fewest, most):
    """Products underflow at the larger scales, where sums of logarithms take over."""
    rng = np.random.default_rng(int(scale))
    scores, transitions = scale * rng.normal(size=(60, 2)), scale * rng.normal(size=(2, 2))
    found = marginal_inference(SequenceBudget(most, exactly=fewest > 0), scores, transitions=transitions)
    with np.errstate(divide="ignore"):
        log_partition, marginals = twin_of_gibbs(scores, transitions, fewest, most)
    assert found.log_partition == pytest.approx(log_partition, rel=1e-12)
    assert_allclose(found.marginals, marginals, atol=1e-9)
    assert found.additional_marginals["transitions"].sum() == pytest.approx(59.0)


def test_a_budget_as_long_as_the_sequence_is_a_chain():
    rng = np.random.default_rng(7)
    scores, given = rng.normal(size=(9, 3)), {"transitions": rng.normal(size=(3, 3)), "end": rng.normal(size=3)}
    for budget in (9, 100):
        structure = SequenceBudget(budget, state=2)
        for function in (sparsemap, marginal_inference):
            expected = function(LinearChain(), scores, **given).marginals
            assert_allclose(function(structure, scores, **given).marginals, expected, atol=1e-9)
        assert map_inference(structure, scores, **given).value == map_inference(LinearChain(), scores, **given).value


def test_two_states_without_transitions_are_a_subset():
    rng = np.random.default_rng(8)
    for scale in (0.1, 1.0):
        scores = scale * rng.normal(size=(12, 2))
        chosen = sparsemap(SequenceBudget(4), scores).marginals[:, 1]
        # Each step has two marginals, u and 1 - u, and so twice the penalty.
        as_subset = sparsemap(Subset(max_size=4), (scores[:, 1] - scores[:, 0] + 1.0) / 2.0).marginals
        assert_allclose(chosen, as_subset, atol=1e-9)


@pytest.mark.parametrize(
    "fraction, n_steps, expected",
    [(0.3, 10, 3), (0.3, 13, 3), (0.29, 100, 29), (0.07, 100, 7), (0.5, 1, 1), (0.01, 5, 1), (np.float32(0.5), 9, 4)],
)
def test_a_fraction_is_rounded_down_but_allows_a_step(fraction, n_steps, expected):
    scores = np.tile([0.0, 1.0], (n_steps, 1))
    assert map_inference(SequenceBudget(fraction), scores).structure.sum() == expected
    assert map_inference(SequenceBudget(fraction, exactly=True), -scores[:, ::-1]).structure.sum() == expected
    assert SequenceBudget(fraction).budget_of(n_steps) == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((-1,), "budget must be a non-negative int"),
        ((1.0,), "a float between 0 and 1"),
        ((0.0,), "a float between 0 and 1"),
        ((math.nan,), "a float between 0 and 1"),
        ((True,), "budget must be"),
        (("3",), "budget must be"),
        ((None,), "budget must be"),
        ((2, -1), "state must be a non-negative int"),
        ((2, 1.0), "state must be a non-negative int"),
        ((2, 1, "yes"), "exactly must be True or False"),
    ],
)
def test_arguments_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        SequenceBudget(*arguments)


def test_problems_without_a_sequence_are_refused_by_name():
    scores = [np.zeros((n, 2)) for n in (4, 2, 3)]
    with pytest.raises(ValueError, match=r"scores\[1\]: a sequence of 2 steps cannot have exactly budget=3"):
        sparsemap(SequenceBudget(3, exactly=True), scores)
    with pytest.raises(ValueError, match=r"state=2 does not exist: scores have the 2 states"):
        sparsemap(SequenceBudget(1, state=2), scores)
    with pytest.raises(ValueError, match=r"with a single state all 4 steps are in it, more than budget=3"):
        sparsemap(SequenceBudget(3, state=0), [np.zeros((2, 1)), np.zeros((4, 1))])
    # All steps must be in the state, or none of them can be.
    scores[2][:, 0] = -np.inf
    for function in (map_inference, sparsemap, marginal_inference):
        with pytest.raises(ValueError, match=r"infeasible: scores\[2\]"):
            function(SequenceBudget(2), scores)
        with pytest.raises(ValueError, match=r"infeasible: scores "):
            function(SequenceBudget(1, exactly=True), [[0.0, -np.inf], [0.0, -np.inf]])
    with pytest.raises(ValueError, match=r"infeasible: scores\[2\]"):
        n_best(SequenceBudget(2), scores, 3)
    structure = SequenceBudget(2)
    structure.budget = -5
    with pytest.raises(ValueError, match="Make a new structure instead of editing one"):
        sparsemap(structure, np.zeros((3, 2)))


def test_gold_sequences_over_the_budget_are_refused_by_name():
    rng = np.random.default_rng(9)
    X, y = [rng.normal(size=(5, 3)) for _ in range(4)], [[0, 1, 0, 0, 1]] * 4
    StructuredSparseMAPClassifier(SequenceBudget(2)).fit(X, y)
    y[2] = [1, 1, 0, 0, 1]
    message = r"y\[2\]: 3 of the 5 steps are in state 1, more than the budget of 2; raise budget, or correct"
    with pytest.raises(ValueError, match=message):
        StructuredSparseMAPClassifier(SequenceBudget(2)).fit(X, y)
    with pytest.raises(ValueError, match=r"y\[0\]: 2 of the 5 steps are in state 1, but exactly 3 must be"):
        StructuredSparseMAPClassifier(SequenceBudget(3, exactly=True)).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[0\]: a sequence of 5 steps cannot have exactly budget=6"):
        StructuredSparseMAPClassifier(SequenceBudget(6, exactly=True)).fit(X, y)
    with pytest.raises(ValueError, match="state=7 does not exist"):
        StructuredSparseMAPClassifier(SequenceBudget(2, state=7)).fit(X, y)


@pytest.mark.parametrize("loss", ["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"])
def test_losses_equal_enumeration(loss):
    rng, n_compared = np.random.default_rng(10), 0
    for i in range(40):
        instance = random_budget(rng, exactly=i % 2 == 0, most_paths=130)
        paths, M, theta = instance.enumerate()
        gold = int(rng.integers(len(paths)))
        value, gradient = naive.loss_by_enumeration(M, theta, gold, loss)
        found = FenchelYoungLoss(instance.structure, loss).loss_gradient(
            instance.scores, np.array(paths[gold]), **instance.additional
        )
        assert found[0] == pytest.approx(value, abs=1e-8)
        assert_allclose(found[1]["scores"].ravel(), gradient, atol=1e-6)
        n_compared += 1
    assert n_compared == 40


@pytest.mark.parametrize(
    "loss, solver", [("sparsemap", "lbfgs"), ("crf", "lbfgs"), ("sparsemap", "adagrad"), ("hinge", "mira")]
)
def test_the_classifier_learns_and_predicts_within_the_budget(loss, solver):
    rng = np.random.default_rng(11)
    X = [rng.normal(size=(int(rng.integers(3, 9)), 4)) for _ in range(40)]
    y = []
    for x in X:
        labels = np.array(["no"] * len(x), dtype=object)
        labels[np.argsort(-x[:, 0])[:2]] = "yes"
        y.append(labels.tolist())
    model = StructuredSparseMAPClassifier(
        SequenceBudget(2, state=1), loss=loss, solver=solver, alpha=1e-3, random_state=0
    ).fit(X, y)
    predicted = model.predict(X)
    assert all(list(own).count("yes") <= 2 for own in predicted)
    assert model.score(X, y) > 0.85
    again = pickle.loads(pickle.dumps(model)).predict(X)
    assert all(np.array_equal(a, b) for a, b in zip(predicted, again, strict=True))
    # Two known labels use up the budget.
    known = [["yes", "yes"] + [None] * (len(x) - 2) for x in X]
    completed = model.predict(X, known=known)
    assert all(list(own[:2]) == ["yes", "yes"] and list(own).count("yes") == 2 for own in completed)
    with pytest.raises(ValueError, match=r"agrees with known\[1\]"):
        model.predict(X[:2], known=[None, ["yes"] * len(X[1])])


def test_partially_known_gold_sequences():
    rng = np.random.default_rng(12)
    X = [rng.normal(size=(6, 3)) for _ in range(20)]
    y = [[int(v) if rng.random() < 0.6 else None for v in x[:, 0] > 0.8] for x in X]
    model = StructuredSparseMAPClassifier(SequenceBudget(3)).fit(X, y)
    assert all(own.sum() <= 3 for own in model.predict(X))


def test_inside_a_graph():
    rng, n_compared = np.random.default_rng(13), 0
    for trial in range(12):
        n_steps, n_columns = int(rng.integers(2, 5)), 3
        graph = FactorGraph()
        u = graph.variables((n_steps, n_columns))
        budget = SequenceBudget(int(rng.integers(1, n_steps + 1)), exactly=trial % 2 == 0)
        graph.add(StructureFactor(budget, u, name="chain"), AtMost(u[0], n_columns))
        scores, transitions = rng.normal(size=u.shape), rng.normal(size=(n_columns, n_columns))
        result = lp_sparsemap(graph, scores, additional={"chain": {"transitions": transitions}}, tol=1e-9)
        expected = sparsemap(budget, scores, transitions=transitions)
        assert_allclose(result.marginals, expected.marginals, atol=1e-6)
        v = rng.normal(size=scores.shape)
        assert_allclose(result.vjp(v)["scores"], expected.vjp(v)["scores"], atol=1e-5)
        n_compared += 1
    assert n_compared == 12
    with pytest.raises(ValueError, match="cannot have exactly budget=9"):
        graph.add(StructureFactor(SequenceBudget(9, exactly=True), u, name="other"))


def test_its_display_is_that_of_a_chain():
    result = sparsemap(SequenceBudget(2), [[0.0, 0.4], [0.0, 0.3], [0.1, 0.2], [0.0, 0.1]])
    display = ChainDisplay(result, labels=["skip", "read"], words=list("abcd"))
    assert all(path.sum() <= 2 for path in display.structures)
    assert repr(SequenceBudget(0.5)) == "SequenceBudget(budget=0.5, exactly=False, state=1)"
    assert SequenceBudget(np.int32(2)) == SequenceBudget(2) != SequenceBudget(2, exactly=True)


def test_layers_take_the_fraction_of_each_length():
    torch = pytest.importorskip("torch")
    from sklearn_sparsemap.torch import sparsemap as layer

    rng = np.random.default_rng(14)
    padded, transitions = rng.normal(size=(2, 2, 8, 2)), np.array([[0.5, -0.5], [-0.5, 0.5]])
    lengths, structure = np.array([[8, 5], [2, 0]]), SequenceBudget(0.25)
    scores = torch.tensor(padded, requires_grad=True)
    found = layer(structure, scores, lengths=torch.tensor(lengths), transitions=torch.tensor(transitions))
    v = rng.normal(size=padded.shape)
    (found * torch.tensor(v)).sum().backward()
    for place in np.ndindex(2, 2):
        n = lengths[place]
        assert not found[place][n:].any() and not scores.grad[place][n:].any()
        if n:
            own = sparsemap(structure, padded[place][:n], transitions=transitions)
            assert own.marginals[:, 1].sum() <= max(1, n // 4) + 1e-9
            assert_allclose(found[place][:n].detach(), own.marginals, atol=1e-9)
            assert_allclose(scores.grad[place][:n], own.vjp(v[place][:n])["scores"], atol=1e-8)
    # A masked entry forbids a state of a step, and does not change the length.
    mask = torch.ones(2, 2, 8, 2, dtype=torch.bool)
    mask[..., 0, 1] = False
    masked = layer(structure, scores, mask=mask, lengths=torch.tensor(lengths), transitions=torch.tensor(transitions))
    assert not masked[..., 0, 1].any() and masked[0, 0, :, 1].sum() > 0
    with pytest.raises(ValueError, match=r"scores\[0, 1\]: a sequence of 5 steps cannot have exactly budget=6"):
        layer(SequenceBudget(6, exactly=True), scores[:1], lengths=torch.tensor(lengths[:1]))
    with pytest.raises(ValueError, match=r"state=2 does not exist"):
        layer(SequenceBudget(6, state=2), scores)
