"""Training where some labels are unknown."""

import numpy as np
import pytest
from internals import UNKNOWN, PartialTask
from samples import make_chains
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_sparsemap import GroupLassoPerceptron, RaggedArray, StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap.estimators import Monitor
from sklearn_sparsemap.structures import LinearChain, Segmentation


def hide(y, share, seed=0):
    rng = np.random.default_rng(seed)
    return [[None if rng.random() < share else str(label) for label in labels] for labels in y]


def best_value(loss, scores, additional, temperature):
    """Return the largest value of the scores and the regulariser: of all paths, by inference that is tested itself."""
    given = {name: a / temperature for name, a in additional.items()}
    if loss == "sparsemap":
        return temperature * sparsemap(LinearChain(), scores / temperature, **given).objective
    from naive import enumerate_chain

    theta = enumerate_chain(scores / temperature, **given)[2]
    return temperature * (logsumexp(theta) if loss == "crf" else theta.max())


@pytest.mark.parametrize("loss", ["crf", "sparsemap", "perceptron"])
def test_the_loss_is_that_of_the_completions(loss):
    rng = np.random.default_rng(0)
    lengths, m, temperature = [4, 1, 3, 2], 3, 0.7
    indptr = np.cumsum([0, *lengths])
    codes = rng.integers(m, size=indptr[-1])
    codes[rng.random(len(codes)) < 0.5] = UNKNOWN
    codes[:4] = [0, UNKNOWN, UNKNOWN, 2]
    codes[4] = UNKNOWN
    codes[8:] = [1, 0]
    X = RaggedArray(np.zeros((indptr[-1], 1)), indptr)
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    task = PartialTask(LinearChain(), X, m).learn(RaggedArray(codes, indptr), weights, loss, temperature)
    scores, additional = rng.normal(size=(indptr[-1], m)), rng.normal(size=task.n_additional)
    names = {"transitions": additional[: m * m].reshape(m, m), "start": additional[m * m : -m], "end": additional[-m:]}

    def expected(scores, names):
        total = 0.0
        for i, weight in enumerate(weights):
            own = scores[indptr[i] : indptr[i + 1]]
            allowed = own.copy()
            for t, code in enumerate(codes[indptr[i] : indptr[i + 1]]):
                if code != UNKNOWN:
                    allowed[t, np.arange(m) != code] = -np.inf
            total += weight * (
                best_value(loss, own, names, temperature) - best_value(loss, allowed, names, temperature)
            )
        return total

    found, residuals, joined, inexact = task.loss_gradient(scores, additional, None)
    assert found == pytest.approx(expected(scores, names), abs=1e-8) and not inexact
    for _ in range(6):
        d, e = rng.normal(size=scores.shape), rng.normal(size=additional.shape)
        step = 1e-6
        sides = [task.loss_gradient(scores + s * d, additional + s * e, None)[0] for s in (step, -step)]
        assert (sides[0] - sides[1]) / (2 * step) == pytest.approx((residuals * d).sum() + joined @ e, abs=1e-4)
    part = task.take(np.array([2, 0]))
    rows = np.r_[5:8, 0:4]
    assert np.allclose(part.loss_gradient(scores[rows], additional, None)[1], residuals[rows])
    # The convex problem of a round lies above, and touches.
    linear = task.linearized(scores, additional, None)
    assert linear.loss_gradient(scores, additional, None)[0] == pytest.approx(found)
    for _ in range(5):
        other = scores + rng.normal(size=scores.shape), additional + rng.normal(size=additional.shape)
        assert linear.loss_gradient(*other, None)[0] >= task.loss_gradient(*other, None)[0] - 1e-9


@pytest.mark.parametrize("options", [{"loss": "crf"}, {}, {"loss": "perceptron", "max_iter": 30, "tol": 1.0}])
def test_half_of_the_labels_are_nearly_as_good(options):
    X, y = make_chains(150)
    X_test, y_test = make_chains(100, seed=1)
    model = StructuredSparseMAPClassifier("chain", alpha=1e-2, random_state=0, **{"tol": 1e-3, **options})
    full = clone(model).fit(X, y).score(X_test, y_test)
    half = clone(model).fit(X, hide(y, 0.5))
    assert half.classes_.tolist() == ["x", "y", "z"]
    assert half.score(X_test, y_test) > full - 0.04
    # Hidden labels do not count.
    assert half.score(X_test, hide(y_test, 0.5)) == pytest.approx(half.score(X_test, y_test), abs=0.06)


def test_parameters_go_along_with_unknown_labels():
    X, y = make_chains(40)
    hidden = hide(y, 0.4)
    hidden[0] = [None] * len(hidden[0])
    options = {"class_weight": "balanced"}, {"class_weight": {"x": 2.0}}, {"early_stopping": True, "random_state": 0}
    for own in (*options, {"solver": "adagrad", "tol": 1.0}):
        model = StructuredSparseMAPClassifier("chain", loss="crf", alpha=0.1, **own).fit(X, hidden)
        assert model.score(X, y) > 0.6
    for model, message in (
        (
            StructuredSparseMAPClassifier("chain", loss="margin_crf"),
            "y has labels of None, for which the cost of loss='margin",
        ),
        (GroupLassoPerceptron("chain"), "only fit of StructuredSparseMAPClassifier learns from samples with unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, hidden)
    with pytest.raises(ValueError, match="only fit of Structured"):
        StructuredSparseMAPClassifier("chain").partial_fit(X, hidden, classes=["x", "y", "z"])
    with pytest.raises(ValueError, match="all labels of y are None"):
        StructuredSparseMAPClassifier("chain").fit(X, [[None] * len(labels) for labels in y])
    model = StructuredSparseMAPClassifier("chain", loss="crf", alpha=0.1).fit(X, y)
    with pytest.raises(ValueError, match="all labels of y are None"):
        model.score(X, [[None] * len(labels) for labels in y])


@pytest.mark.parametrize("loss", ["crf", "sparsemap"])
def test_any_completion_will_do(loss):
    X = [np.arange(3.0)[:, None]] * 3
    model = StructuredSparseMAPClassifier(Segmentation(2), loss)
    # The only label between is 1: three steps of 0 are longer than a span may be.
    partly = clone(model).fit(X, [[0, 0, 1], [0, 1, 1], [0, None, 0]])
    whole = clone(model).fit(X, [[0, 0, 1], [0, 1, 1], [0, 1, 0]])
    assert partly.loss_curve_[-1] == pytest.approx(whole.loss_curve_[-1], rel=1e-4)
    with pytest.raises(ValueError, match=r"no structure agrees with the known labels of y\[2\]"):
        model.fit([*X[:2], np.arange(4.0)[:, None]], [[0, 0, 1], [0, 1, 1], [0, 0, 0, None]])


def test_a_sample_needs_a_label():
    for y in (["a", None, "b", "a"], np.array([0, None, 1, 0], dtype=object)):
        with pytest.raises(ValueError, match=r"y\[1\] is None; leave out samples without a label"):
            StructuredSparseMAPClassifier().fit(np.eye(4), y)


@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
def test_a_monitor_ends_training_at_once(loss):
    class Twice(Monitor):
        def on_iteration(self, loss):
            return super().on_iteration(loss) or len(self.losses) == 2

    class Short(StructuredSparseMAPClassifier):
        monitor_class = Twice

    X, y = make_chains(12, 3)
    assert Short("chain", loss=loss).fit(X, hide(y, 0.3)).n_iter_ == 2
