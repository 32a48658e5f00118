"""The strength of the squared penalty of StructuredSparseMAPClassifier: its default, and `alpha="auto"`."""

import io
import pickle
import statistics
import warnings

import numpy as np
import pytest
from internals import (
    choose_strength,
    is_clear_gain,
    last_decrease,
    nearest_to_usual,
    replace,
    rows_per_column,
    total_variance,
    try_strengths,
)
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import FactorGraph, Xor
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.structures import LinearChain


def make_chains(n_samples=40, seed=0, n_features=4):
    """Sticky sequences of two labels, of which the first feature is a noisy reading."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n_samples):
        states = np.cumsum(rng.random(rng.integers(2, 6)) < 0.3) % 2
        x = rng.normal(size=(len(states), n_features))
        x[:, 0] = states + 0.7 * x[:, 0]
        X.append(x)
        y.append(np.array(["a", "b"])[states])
    return X, y


@pytest.mark.parametrize(
    "loss, penalty", [("sparsemap", 0.15), ("hinge", 0.15), ("perceptron", 1.5), ("crf", 0.01), ("margin_crf", 0.01)]
)
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_the_usual_strength_is_a_prior_on_scores(loss, penalty, kind):
    X, y = make_chains()
    # A column of zeros does not count as a column.
    n_columns = X[0].shape[1]
    X = [np.pad(x, ((0, 0), (0, 1))) for x in X]

    def fraction(n_rows):
        return penalty * (n_rows / n_columns / 2.0) ** 0.5 if "crf" in loss else penalty

    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    rows = np.repeat(weights, [len(x) for x in X])
    variance = np.trace(np.cov(np.concatenate(X).T, aweights=rows, ddof=0))
    if kind == "csr":
        X = [sparse.csr_array(x) for x in X]
    model = StructuredSparseMAPClassifier("chain", loss, random_state=0).fit(X, y, sample_weight=weights)
    # A weight below one counts as a sample.
    repetitions = np.maximum(weights, 1.0)
    usual = fraction(repetitions @ [x.shape[0] for x in X]) * variance / repetitions.sum()
    assert model.alpha is None and model.alpha_ == pytest.approx(usual)
    stream = clone(model).partial_fit(X, y, classes=["a", "b"])
    variance = np.trace(np.cov(np.concatenate([x.toarray() if kind == "csr" else x for x in X]).T, ddof=0))
    usual = fraction(sum(x.shape[0] for x in X)) * variance / 10_000
    assert stream.alpha_ == pytest.approx(usual)
    # Later mini-batches keep the strength.
    assert stream.partial_fit([7.0 * x for x in X], y).alpha_ == pytest.approx(usual)


@pytest.mark.parametrize("n_columns, fraction", [(1, 0.15), (30, 0.01 * 10.0**0.5), (300, 0.01), (6_000, 0.01)])
def test_log_losses_need_a_weak_penalty_if_features_are_many(n_columns, fraction):
    X = np.random.default_rng(0).normal(size=(600, n_columns))
    y = np.arange(600) % 2
    model = StructuredSparseMAPClassifier(loss="crf", max_iter=1, solver="adagrad")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.alpha_ == pytest.approx(fraction * min(X.var(axis=0).sum(), 100.0) / 600)


def test_rows_per_column_of_dense_and_sparse_features():
    X = np.array([[1.0, 0.0, 0.0, 0.0], [2.0, 0.0, 3.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    stored_zero = sparse.csr_array(X + np.eye(3, 4, 3))
    stored_zero.data[1] = 0.0
    for form in (X, sparse.csr_array(X), stored_zero):
        assert rows_per_column(form, np.array([1.0, 2.0, 3.0])) == 2.0
        # The column of a sample without weight does not count.
        assert rows_per_column(form, np.array([1.0, 3.0, 0.0])) == 2.0
        assert rows_per_column(form, np.zeros(3)) == 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_units_of_features_do_not_matter():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "crf", solver="lbfgs").fit(X, y)
    other = clone(model).fit([3.0 * x + 5.0 for x in X], y)
    assert other.alpha_ == pytest.approx(9.0 * model.alpha_)
    # So does the temperature.
    colder = clone(model).set_params(temperature=0.25, tol=1e-6).fit(X, y)
    assert colder.alpha_ == pytest.approx(4.0 * model.alpha_)
    np.testing.assert_allclose(4.0 * colder.coef_, model.set_params(tol=1e-6).fit(X, y).coef_, atol=1e-3)
    # Transitions have the same penalty, and do not grow with the features.
    fraction = 0.01 * (sum(map(len, X)) / X[0].shape[1] / 2.0) ** 0.5
    assert clone(model).fit([1e5 * x for x in X], y).alpha_ == pytest.approx(fraction * 100.0 / len(X))


def test_rows_in_blocks_have_the_same_variance(monkeypatch):
    X, weights = np.random.default_rng(0).normal(size=(50, 3)) + 3.0, np.random.default_rng(1).uniform(size=50)
    wanted = np.trace(np.cov(X.T, aweights=weights, ddof=0))
    replace(monkeypatch, "estimators", "_ROWS", 7)
    assert total_variance(X, weights) == pytest.approx(wanted)
    for form in (sparse.csr_array(X), sparse.csr_array(X.astype(np.float32))):
        assert total_variance(form, weights) == pytest.approx(wanted, rel=1e-6)
    halves = sparse.csr_array(
        (np.repeat(X.ravel() / 2.0, 2), np.tile(np.repeat(np.arange(3), 2), 50), 6 * np.arange(51))
    )
    assert total_variance(halves, weights) == pytest.approx(wanted) and halves.nnz == 300
    assert total_variance(np.ones((4, 2)), np.ones(4)) == 1.0


def walk(alphas, evaluate):
    """Return the choice among strengths by a function from a strength to the losses of groups of samples."""
    losses, results = [], []
    for alpha in try_strengths(alphas, losses, results):
        results.append([np.array(evaluate(alpha))])
        losses.append(results[-1][0].sum())
    return choose_strength(alphas, losses, results)


def test_the_best_strength_is_the_minimum_of_a_parabola():
    losses = {10.0: [3.0], 1.0: [2.0], 0.1: [2.1], 0.01: [1.9]}
    alphas = np.array(sorted(losses, reverse=True))
    found = walk(alphas, losses.get)
    # A path ends where the loss rises. A tenth of the strength must lower it by a thousandth.
    np.testing.assert_array_equal(found.losses, [3.0, 2.0, 2.1])
    raised = np.array([3.0, 2.0 * 1.001, 2.1 * 1.001**2])
    place = -np.polyfit(range(3), raised, 2)[1] / (2.0 * np.polyfit(range(3), raised, 2)[0])
    assert found.alpha == pytest.approx(10.0 ** (1.0 - place))
    losses[0.1] = [1.99]
    assert len(walk(alphas, losses.get).losses) == 4


def scan(usual, usual_losses, best, best_losses):
    """Return the first of many strengths, from the usual one to the best, within one standard error of the best."""
    gains = [a - b for a, b in zip(usual_losses, best_losses)]
    gain, error = sum(gains), statistics.stdev(gains) * len(gains) ** 0.5
    for way in np.linspace(0.0, 1.0, 100_001):
        # On a parabola whose minimum is at the best strength.
        if gain * (1.0 - way) ** 2 <= error:
            return usual ** (1.0 - way) * best**way
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_within_one_standard_error_of_the_best(seed):
    rng = np.random.default_rng(seed)
    usual, best, least = 0.3, 10.0 ** rng.uniform(-3.0, 1.0), rng.uniform(size=20)
    for gain in (-1.0, 0.0, 0.1, 1.0, 10.0):
        losses = least + gain / 20 + 0.1 * rng.normal(size=20)
        found = nearest_to_usual(usual, losses, best, least)
        assert found == pytest.approx(scan(usual, losses, best, least), rel=1e-3)
        assert min(usual, best) <= found <= max(usual, best)
        # A little more noise changes it little.
        near = nearest_to_usual(usual, losses + 1e-7 * rng.normal(size=20), best, least)
        assert near == pytest.approx(found, rel=1e-4)
    # Without a gain that exceeds the noise, the usual strength remains; without noise, the best one is taken.
    assert nearest_to_usual(usual, least, best, least) == usual
    assert nearest_to_usual(usual, np.full(20, 1.0), best, np.zeros(20)) == pytest.approx(best)
    assert nearest_to_usual(usual, np.arange(20.0), best, np.full(20, 9.0)) == usual


def parts_of(n_samples):
    """Return the held-out parts: the samples that are learned from, and groups of those that are not."""
    order = np.random.default_rng(0).permutation(n_samples)
    parts = np.array_split(order, 3) if n_samples < 200 else np.array_split(order, 5)[:1]
    groups = [np.array_split(held, min(20, len(held))) for held in parts]
    return [([i for i in range(n_samples) if i not in held], own) for held, own in zip(parts, groups)]


def held_out_loss(model, X, y, loss):
    """Return the sum of the losses of samples."""
    codes = [np.searchsorted(model.classes_, labels) for labels in y]
    return sum(
        value
        for value, _ in FenchelYoungLoss(LinearChain(), loss).loss_gradient(
            [x @ model.coef_.T + model.intercept_ for x in X], codes, **model.additional_scores_
        )
    )


@pytest.mark.parametrize("loss", ["crf", "sparsemap", "margin_crf"])
def test_the_choice_is_that_of_a_twin_that_refits_each_strength(loss, monkeypatch):
    X, y = make_chains(n_features=20)
    model = StructuredSparseMAPClassifier("chain", loss, alpha="auto", solver="lbfgs", tol=1e-5)
    rough = clone(model).fit(X, y)
    replace(monkeypatch, "estimators", "_LOSS_TOL", 0.0)
    model.fit(X, y)
    parts = parts_of(len(X))
    assert sorted(np.concatenate([i for _, groups in parts for i in groups])) == list(range(len(X)))

    def evaluate(alpha):
        losses = []
        for train, groups in parts:
            twin = clone(model).set_params(alpha=float(alpha)).fit([X[i] for i in train], [y[i] for i in train])
            losses += [held_out_loss(twin, [X[i] for i in held], [y[i] for i in held], loss) for held in groups]
        return [value / len(X) for value in losses]

    usual = clone(model).set_params(alpha=None).fit(X, y).alpha_
    twin = walk(usual * 10.0 ** np.arange(1, -3, -1), evaluate)
    np.testing.assert_allclose(model.alphas_, twin.alphas)
    np.testing.assert_allclose(model.held_out_losses_, twin.losses, rtol=2e-3)
    wanted = scan(usual, evaluate(usual), twin.alpha, *twin.results)
    assert model.alpha_ == pytest.approx(wanted, rel=0.05) and model.alpha_ != usual
    # L-BFGS ends early on the path.
    np.testing.assert_allclose(rough.held_out_losses_[0], twin.losses[0], rtol=0.05)
    assert model.alphas_[-1] < model.alpha_ <= model.alphas_[0]


@pytest.mark.parametrize("n_samples", [40, 201])
def test_a_path_of_adagrad_is_that_of_warm_starts(n_samples):
    X, y = make_chains(n_samples, n_features=60)
    parameters = {"loss": "crf", "solver": "adagrad", "shuffle": False, "n_iter_no_change": 50}
    model = StructuredSparseMAPClassifier("chain", alpha="auto", **parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
        losses, n_held = [[] for _ in model.alphas_], 0
        for train, groups in parts_of(n_samples):
            twin = StructuredSparseMAPClassifier("chain", warm_start=True, max_iter=4, **parameters)
            n_held += sum(map(len, groups))
            for alpha, found in zip(model.alphas_, losses):
                twin.set_params(alpha=alpha).fit([X[i] for i in train], [y[i] for i in train])
                found += [held_out_loss(twin, [X[i] for i in held], [y[i] for i in held], "crf") for held in groups]
    losses = np.array(losses)
    np.testing.assert_allclose(model.held_out_losses_, losses.sum(axis=1) / n_held, rtol=1e-10)
    best = choose_strength(model.alphas_, model.held_out_losses_, [[found] for found in losses])
    wanted = scan(model.alphas_[1], losses[1], best.alpha, *best.results)
    assert model.alpha_ == pytest.approx(wanted, rel=1e-3) and model.alpha_ != model.alphas_[1]
    assert n_held == (40 if n_samples == 40 else 41)


@pytest.mark.parametrize("kind", ["lbfgs", "adagrad", "csr", "early stopping", "unknown labels", "flat", "graphs"])
def test_all_samples_are_learned_with_the_chosen_strength(kind):
    X, y = make_chains()
    parameters = {"structure": "chain", "solver": "lbfgs" if kind == "lbfgs" else "adagrad", "random_state": 0}
    if kind == "csr":
        X = [sparse.csr_array(np.hstack([x > 0.5, x > 0.5]).astype(float)) for x in X]
    elif kind == "early stopping":
        parameters["early_stopping"] = True
    elif kind == "unknown labels":
        y = [[label if i else None for i, label in enumerate(labels)] for labels in y]
    elif kind == "flat":
        X, y, parameters["structure"] = np.concatenate(X), np.concatenate(y), "auto"
    elif kind == "graphs":
        graph = FactorGraph()
        u = graph.variables(2)
        graph.add(Xor(u))
        X, y = [x[:2] for x in X], [np.arange(2) == x[:2, 0].argmax() for x in X]
        parameters["structure"] = lambda x: graph
    model = StructuredSparseMAPClassifier(alpha="auto", **parameters).fit(X, y)
    again, other = clone(model).fit(X, y), clone(model).set_params(random_state=1, n_jobs=2).fit(X, y)
    given = clone(model).set_params(alpha=model.alpha_).fit(X, y)
    assert isinstance(model.alpha_, float) and (np.diff(model.alphas_) < 0).all()
    assert len(model.alphas_) == len(model.held_out_losses_) >= 2
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(given.coef_, model.coef_)
    # The choice has a seed of its own. Early stopping holds out other samples.
    assert other.alpha_ == model.alpha_ or kind == "early stopping"
    assert given.alpha_ == model.alpha_ and not hasattr(given, "alphas_")


@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_nearly_equal_samples_give_nearly_equal_strengths(solver):
    X, y = make_chains(n_features=60)
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto", solver=solver, random_state=0).fit(X, y)
    assert model.alphas_[1] < model.alpha_ < model.alphas_[0]
    for size in (1e-9, 1e-4):
        noise = np.random.default_rng(1)
        near = [x + size * noise.normal(size=x.shape) for x in X]
        other = clone(model).fit(near, y)
        assert other.alpha_ == pytest.approx(model.alpha_, rel=100 * size)
        np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6 + 100 * size)


def test_the_perceptron_is_judged_by_wrong_parts():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "perceptron", alpha="auto", random_state=0).fit(X, y)
    n_steps = sum(map(len, y))
    # Each sample has the fraction of wrong steps in its part.
    assert (model.held_out_losses_ < 0.5).all() and (n_steps * model.held_out_losses_ > 0.1).all()


def test_samples_without_weight_and_few_samples():
    X, y = make_chains()
    weights = np.arange(40) % 2
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto", random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=weights)
    without = clone(model).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(weighted.held_out_losses_, without.held_out_losses_)
    few = clone(model).fit(X[:5], y[:5])
    assert few.alpha_ == clone(model).set_params(alpha=None).fit(X[:5], y[:5]).alpha_
    # `fit` forgets an earlier choice.
    weighted.fit(X[:5], y[:5])
    assert weighted.alpha_ == few.alpha_


def test_a_warm_start_chooses_as_a_cold_one():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto", warm_start=True).fit(X, y)
    alpha = model.alpha_
    # The weights of the last fit have seen the held-out samples.
    assert model.fit(X, y).alpha_ == alpha and model.n_iter_ <= 3


def test_streams_continue_with_the_chosen_strength():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto", random_state=0)
    stream = clone(model).partial_fit(X, y, classes=["a", "b"])
    usual = clone(model).set_params(alpha=None).partial_fit(X, y, classes=["a", "b"])
    assert stream.alpha_ == usual.alpha_
    np.testing.assert_array_equal(stream.coef_, usual.coef_)
    parts = clone(model).fit_partitions([(X, y)])
    assert parts.alpha_ == usual.alpha_
    model.fit(X, y)
    given = clone(model).set_params(alpha=model.alpha_).fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(clone_of(model).partial_fit(X, y).coef_, given.coef_)
    assert model.partial_fit(X, y).alpha_ == given.alpha_
    assert model.set_params(alpha=0.5).partial_fit(X, y).alpha_ == 0.5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stream_keeps_the_strength_of_its_first_samples():
    """Also where its optimiser has done no step yet: in files, in partitions, and on the workers of a mixture."""
    X, y = make_chains()
    large = [10.0 * x for x in X]
    model = StructuredSparseMAPClassifier("chain", solver="adagrad", random_state=0, max_iter=2)
    alpha = clone(model).partial_fit(X, y, classes=["a", "b"]).alpha_
    # Samples that no structure fits are left out, and the strength waits for the next mini-batch.
    graph = FactorGraph()
    graph.add(Xor(graph.variables(3)))
    pick, choices = clone(model).set_params(structure=graph), [x[[0, 0, 0]] * [[1], [2], [3]] for x in X]
    with pytest.warns(UserWarning, match="left out"):
        stream = clone(pick).partial_fit(choices[:1], [[1, 1, 0]])
    assert not hasattr(stream, "alpha_") and not stream.coef_.any()
    valid = np.eye(3, dtype=int)[np.arange(len(X)) % 3]
    assert stream.partial_fit(choices, valid).alpha_ == clone(pick).partial_fit(choices, valid).alpha_

    fitted = clone(model).fit(X, y)
    copied = clone(model).set_training_state(fitted.get_training_state()).partial_fit(large, y)
    assert copied.alpha_ == fitted.alpha_

    # The second partition is visited first in one of these epochs.
    seeds = [clone(model).set_params(random_state=seed) for seed in range(4)]
    found = [one.fit_partitions([(X, y), (large, y)], classes=["a", "b"]) for one in seeds]
    assert [one.alpha_ for one in found] == [alpha] * 4

    # All workers have the strength of the first shard.
    given = clone(model).set_params(alpha=alpha)
    mixtures = [ParameterMixing(one, n_rounds=2, random_state=0) for one in (model, given)]
    first, second = (one.fit([(X, y), (large, y), (large, y)]) for one in mixtures)
    assert first.estimator_.alpha_ == alpha
    np.testing.assert_array_equal(first.estimator_.coef_, second.estimator_.coef_)


def clone_of(model):
    """Return a copy of a fitted model from its arrays."""
    file = io.BytesIO()
    np.savez(file, **model.to_arrays())
    file.seek(0)
    return type(model).from_arrays(np.load(file))


def test_copies_and_searches():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto").fit(X, y)
    for copied in (pickle.loads(pickle.dumps(model)), clone_of(model)):
        assert copied.alpha_ == model.alpha_
        np.testing.assert_array_equal(copied.held_out_losses_, model.held_out_losses_)
    state = StructuredSparseMAPClassifier("chain", "crf", alpha="auto").set_training_state(model.get_training_state())
    assert state.alpha_ == model.alpha_
    assert not hasattr(clone(model), "alpha_") and clone(model).alpha == "auto"
    search = GridSearchCV(clone(model), {"alpha": ["auto", None, 100.0]}, cv=2).fit(X, y)
    assert search.best_params_["alpha"] != 100.0


def test_a_gain_is_clear_if_it_exceeds_its_standard_error():
    rng = np.random.default_rng(0)
    gains, weights = rng.normal(size=50), rng.integers(1, 4, size=50).astype(float)
    error = gains.std(ddof=1) / np.sqrt(50)
    mean = gains @ weights / weights.sum()
    variance = sum((w * (g - mean)) ** 2 for w, g in zip(weights, gains, strict=True)) / weights.sum() ** 2
    weighted_error = np.sqrt(50 / 49 * variance)
    for factor, is_clear in ((0.99, False), (1.01, True)):
        assert is_clear_gain(gains - gains.mean() + factor * error) == is_clear
        for scale in (1.0, 7.0):
            moved = scale * weights * (gains - mean + factor * weighted_error)
            assert is_clear_gain(moved, scale * weights) == is_clear


def test_decreases_of_less_than_a_thousandth_are_not_clear():
    assert last_decrease([1.0, 0.9, 0.8995, 0.899, 0.95]) == 1
    assert last_decrease([1.0, 0.9, 0.8995, 0.89, 0.95]) == 3
    assert last_decrease([1.0]) == 0


def test_verbose_reports_the_strengths(capsys):
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "crf", alpha="auto", verbose=1).fit(X, y)
    told = [line for line in capsys.readouterr().out.splitlines() if "held-out samples" in line]
    assert len(told) == len(model.alphas_) and "held-out samples, strength 1 of at most 4" in told[0]


def test_mira_has_no_strength_to_choose():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", "hinge", alpha="auto", solver="mira", random_state=0).fit(X, y)
    assert not hasattr(model, "alphas_")


@pytest.mark.parametrize("alpha", ["best", -1.0, [0.1], np.nan])
def test_other_strengths_are_refused(alpha):
    X, y = make_chains(6)
    with pytest.raises(ValueError, match="'alpha' parameter"):
        StructuredSparseMAPClassifier("chain", alpha=alpha).fit(X, y)


def test_divergence_on_the_path_leaves_the_model_as_it_was():
    X, y = make_chains()
    model = StructuredSparseMAPClassifier("chain", alpha="auto", solver="adagrad", eta0=1e308, shuffle=False)
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="training diverged"):
        model.fit(X, y)
    assert not hasattr(model, "classes_") and not hasattr(model, "alpha_")


def test_held_out_samples_without_any_known_label():
    X, y = make_chains()
    y = [labels if i % 3 else [None] * len(labels) for i, labels in enumerate(y)]
    model = StructuredSparseMAPClassifier("chain", "perceptron", alpha="auto", random_state=0).fit(X, y)
    assert (model.held_out_losses_ < 0.5).all()
