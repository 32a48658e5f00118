"""Constraints on neighbouring labels, against enumeration, wherever a tagger learns or predicts."""

import itertools
import pickle
import re
import warnings
from functools import cache, partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_sparsemap import StructuredSparseMAPClassifier
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.inspection import explain, transition_table
from sklearn_sparsemap.losses import FenchelYoungLoss
from sklearn_sparsemap.metrics import convert_spans
from sklearn_sparsemap.structures import LinearChain

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BIO = ["B-A", "B-B", "I-A", "I-B", "O"]
BIOES = ["B-A", "E-A", "I-A", "O", "S-A", "B-B", "E-B"]
PAIRS = [("O", "I-A"), (None, "I-B"), ("B-A", None), ("B-B", "B-B"), ("O", "O"), ("I-A", "B-B")]
LOSSES = ["sparsemap", "margin_sparsemap", "crf", "margin_crf", "perceptron", "hinge"]


def allowed_by_bio(labels):
    """Tell whether each I- follows a label of its type."""
    before = "O"
    for label in labels:
        if label.startswith("I-") and before not in ("B" + label[1:], label):
            return False
        before = label
    return True


def allowed_by_bioes(labels):
    """Read spans from left to right; `inside` is the type of the open span."""
    inside = None
    for label in labels:
        prefix, _, name = label.partition("-")
        if (prefix in "IE") != (inside is not None) or (inside is not None and name != inside):
            return False
        inside = name if prefix in "BI" else None
    return inside is None


def allowed_by_pairs(labels):
    sides = [None, *labels, None]
    return not any((before, after) in PAIRS for before, after in itertools.pairwise(sides))


CASES = {
    "bio": ("bio", BIO, allowed_by_bio),
    "bioes": ("bioes", BIOES, allowed_by_bioes),
    "pairs": (PAIRS, BIO, allowed_by_pairs),
}


@pytest.mark.parametrize(
    ("scheme", "prefixes"),
    {
        "bio": "BI",
        "iob1": "BI",
        "iob2": "BI",
        "ioe1": "IE",
        "ioe2": "IE",
        "bioes": "BIES",
        "bilou": "BILU",
    }.items(),
)
def test_schemes_allow_the_sequences_that_spans_have(scheme, prefixes):
    labels = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in "AB")]
    name = "iob2" if scheme == "bio" else scheme
    model = StructuredSparseMAPClassifier("chain", constraints=scheme)
    model.partial_fit([np.ones((1, 1))], [["O"]], classes=labels)
    index, n_allowed = {label: k for k, label in enumerate(model.classes_.tolist())}, 0
    for sequence in itertools.product(labels, repeat=3):
        steps = [index[label] for label in sequence]
        scores = [model.start_[steps[0]], *model.transitions_[steps[:-1], steps[1:]], model.end_[steps[-1]]]
        is_allowed = bool(np.isfinite(scores).all())
        try:
            is_written = convert_spans([sequence], name, name) == [list(sequence)]
        except ValueError:
            is_written = False
        assert is_allowed == is_written, sequence
        n_allowed += is_allowed
    assert 10 < n_allowed < len(labels) ** 3


def make_data(n_samples, case="bio", seed=0):
    """Draw label sequences that are allowed, and noisy observations of them."""
    _, labels, allowed = CASES[case]
    rng, X, y = np.random.default_rng(seed), [], []
    for n_steps in rng.integers(1, 5, size=n_samples):
        sequence = ["I-B"]
        while not allowed(sequence):
            sequence = [labels[k] for k in rng.integers(len(labels), size=n_steps)]
        y.append(sequence)
        X.append(np.array([[float(label == other) for other in labels] for label in sequence]))
        X[-1] += 1.5 * rng.normal(size=X[-1].shape)
    return X, y


@cache
def allowed_paths(labels, n_steps, allowed):
    """Return the allowed sequences, as places of labels, with their labels."""
    paths = itertools.product(range(len(labels)), repeat=n_steps)
    named = [(path, tuple(labels[k] for k in path)) for path in paths]
    return [(path, names) for path, names in named if allowed(names)]


def enumerate_allowed(model, x, allowed):
    """Return all allowed sequences of a sample, with their scores under weights that know no constraints."""
    scores = x @ model.coef_.T + model.intercept_
    first, last, moves = (np.where(np.isneginf(a), 0.0, a) for a in (model.start_, model.end_, model.transitions_))
    found = {}
    for path, labels in allowed_paths(tuple(model.classes_.tolist()), len(x), allowed):
        value = sum(scores[t, k] for t, k in enumerate(path)) + first[path[0]] + last[path[-1]]
        found[labels] = value + sum(moves[pair] for pair in itertools.pairwise(path))
    return found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
def test_predictions_are_those_of_enumeration(case, loss):
    constraints, _, allowed = CASES[case]
    X, y = make_data(30, case)
    # Noise, under which a model that knows no constraints violates them.
    held = [5.0 * noise for noise in np.random.default_rng(1).normal(size=(40, 4, X[0].shape[1]))]
    free = StructuredSparseMAPClassifier("chain", loss).fit(X, y)
    model = StructuredSparseMAPClassifier("chain", loss, constraints=constraints).fit(X, y)
    assert not all(allowed(labels) for labels in free.predict(held))
    n_best = model.predict_n_best(held, 3)
    for x, labels, best, marginals, structures in zip(
        held, model.predict(held), n_best, model.predict_marginals(held), model.predict_structures(held), strict=True
    ):
        found = enumerate_allowed(model, x, allowed)
        assert found[tuple(labels.tolist())] == pytest.approx(max(found.values()), abs=1e-9)
        expected = sorted(found.values(), reverse=True)[:3]
        np.testing.assert_allclose([value for _, value in best], expected, atol=1e-9)
        assert all(tuple(s.tolist()) in found for s, _ in structures)
        if loss == "crf":
            values = np.array(list(found.values()))
            shares = np.exp(values - values.max())
            shares /= shares.sum()
            own = np.zeros(marginals.shape)
            for path, share in zip(found, shares, strict=True):
                for t, label in enumerate(path):
                    own[t, model.classes_.tolist().index(label)] += share
            np.testing.assert_allclose(marginals, own, atol=1e-9)
    if loss == "crf":
        assert all(allowed(draw) for draws in model.sample(held, 5, random_state=0) for draw in draws)


@pytest.mark.parametrize("loss", ["sparsemap", "margin_sparsemap", "crf", "margin_crf"])
def test_the_objective_is_that_of_the_allowed_sequences(loss):
    X, y = make_data(25)
    alpha = 0.05
    model = StructuredSparseMAPClassifier("chain", loss, alpha=alpha, constraints="bio", tol=1e-7).fit(X, y)
    gold = [np.searchsorted(model.classes_, labels) for labels in y]
    scores = [x @ model.coef_.T + model.intercept_ for x in X]
    additional = {name: getattr(model, f"{name}_") for name in ("transitions", "start", "end")}
    weights = [model.coef_.ravel(), *(a[np.isfinite(a)] for a in additional.values())]
    penalty = 0.5 * alpha * sum(float(w @ w) for w in weights)
    pairs = FenchelYoungLoss(LinearChain(), loss).loss_gradient(scores, gold, **additional)
    assert model.loss_curve_[-1] == pytest.approx(np.mean([value for value, _ in pairs]) + penalty, abs=1e-6)
    slope = alpha * model.coef_ + sum(g["scores"].T @ x for x, (_, g) in zip(X, pairs, strict=True)) / len(X)
    # With constraints, the minimum is not a kink here.
    assert np.abs(slope).max() < 1e-5
    assert np.isneginf(model.transitions_).sum() == 6 and np.isneginf(model.start_).sum() == 2


@pytest.mark.parametrize("solver", ["adagrad", "mira"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_online_learning_never_sees_what_is_forbidden(solver, dtype):
    X, y = make_data(40)
    X = [x.astype(dtype) for x in X]
    held, _ = make_data(60, seed=1)
    for loss in ["hinge"] if solver == "mira" else LOSSES:
        model = StructuredSparseMAPClassifier("chain", loss, solver=solver, random_state=0)
        bound = clone(model).set_params(constraints="bio", max_iter=5).fit(X, y)
        assert all(map(allowed_by_bio, bound.predict(held)))
        # Nothing was learned about forbidden transitions.
        learned = bound._learned.model.additional
        assert not learned[np.isneginf(bound._mask)].any() and np.isfinite(learned).all()
        assert np.isneginf(bound.transitions_).sum() == 6
        threads = clone(bound).set_params(n_jobs=2).fit(X, y)
        np.testing.assert_array_equal(threads.coef_, bound.coef_)
        # The loss of an epoch counts only allowed sequences, so it is smaller.
        free = clone(model).set_params(max_iter=5).fit(X, y)
        assert bound.loss_curve_ != free.loss_curve_


def test_streams_states_pickles_and_partitions():
    X, y = make_data(60)
    held, _ = make_data(60, seed=1)
    model = StructuredSparseMAPClassifier("chain", constraints="bio")
    stream = clone(model)
    for start in range(0, 60, 20):
        stream.partial_fit(X[start : start + 20], y[start : start + 20], classes=BIO)
    expected = [labels.tolist() for labels in stream.predict(held)]
    assert all(map(allowed_by_bio, expected))
    resumed = clone(model).set_training_state(stream.get_training_state())
    copied = pickle.loads(pickle.dumps(stream))
    for other in (resumed, copied):
        assert [labels.tolist() for labels in other.predict(held)] == expected
        np.testing.assert_allclose(other.transitions_, stream.transitions_, atol=1e-15)
    for other in (stream, resumed, copied):
        other.partial_fit(X, y)
    np.testing.assert_allclose(stream.coef_, resumed.coef_, atol=1e-12)
    np.testing.assert_array_equal(stream.coef_, copied.coef_)
    parts = [lambda: (X[:30], y[:30]), lambda: (X[30:], y[30:])]
    partitioned = clone(model).set_params(max_iter=3, random_state=0).fit_partitions(parts)
    mixed = ParameterMixing(clone(model), n_shards=2, n_rounds=2, random_state=0).fit(X, y)
    for other in (partitioned, mixed):
        assert all(map(allowed_by_bio, other.predict(held)))
    with pytest.raises(ValueError, match=r"y\[1\] has the label 'I-A' after 'O' in step 1"):
        stream.partial_fit(X[:2], [["O"] * len(X[0]), ["O", "I-A", "O", "O", "O", "O"][: len(X[1])]])
    warm = clone(model).set_params(warm_start=True).fit(X, y)
    loss = warm.loss_curve_[-1]
    assert warm.fit(X, y).loss_curve_[0] <= loss + 1e-6


def test_grid_searches_early_stopping_and_known_labels():
    X, y = make_data(60)
    held, gold = make_data(60, seed=1)
    model = StructuredSparseMAPClassifier("chain", solver="adagrad", max_iter=10, random_state=0)
    search = GridSearchCV(model, {"constraints": [None, "bio", PAIRS[:2]]}, cv=KFold(3)).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    stopped = clone(model).set_params(constraints="bio", early_stopping=True).fit(X, y)
    assert all(map(allowed_by_bio, stopped.predict(held)))
    assert len(stopped.validation_scores_) > 1
    # Completions: the forced label is in, and its neighbours allow it.
    known = [[None] * (len(x) - 1) + ["I-A"] for x in held if len(x) > 1]
    longer = [x for x in held if len(x) > 1]
    completed = stopped.predict(longer, known=known)
    assert all(labels[-1] == "I-A" and allowed_by_bio(labels) for labels in completed) and len(completed) > 30
    with pytest.raises(ValueError, match=r"no structure, or none that the model allows, agrees with known\[0\]"):
        stopped.predict(longer[:1], known=[["I-A"] + [None] * (len(longer[0]) - 1)])
    assert stopped.score(held, gold) > 0.3


@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
@pytest.mark.parametrize("solver", ["lbfgs", "adagrad"])
def test_partially_labelled_sequences(loss, solver):
    X, y = make_data(40)
    rng = np.random.default_rng(3)
    partial = [[None if rng.random() < 0.4 else label for label in labels] for labels in y]
    model = StructuredSparseMAPClassifier("chain", loss, solver=solver, constraints="bio", max_iter=20, random_state=0)
    model.fit(X, partial)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.loss_curve_).all()
    assert all(map(allowed_by_bio, model.predict(X)))
    # None before I-A can only be B-A or I-A, and so None in the first of two steps is B-A.
    one = clone(model).fit([np.eye(5)[:2], *X], [[None, "I-A"], *partial])
    assert one.predict([np.eye(5)[:2]], known=[[None, "I-A"]])[0].tolist() == ["B-A", "I-A"]
    # The last label can be none.
    no_end = [("B-A", None), ("B-A", "O")]
    with pytest.raises(ValueError, match=r"no structure agrees with the known labels of y\[0\]"):
        clone(model).set_params(constraints=no_end).fit([np.zeros((2, 5)), X[0][:1]], [["B-A", None], ["O"]])


def test_assigned_transitions_stay_within_the_constraints():
    X, y = make_data(30)
    model = StructuredSparseMAPClassifier("chain", constraints="bio").fit(X, y)
    model.transitions_ = model.transitions_
    model.start_ = np.zeros(5)
    assert np.isneginf(model.transitions_).sum() == 6 and np.isneginf(model.start_).tolist() == [
        False,
        False,
        True,
        True,
        False,
    ]
    model.partial_fit(X, y)
    assert all(map(allowed_by_bio, model.predict(X)))
    assert transition_table(model)["weight"][-1] == -np.inf
    why = explain(model, X[0])
    assert allowed_by_bio(why.rival) and why.contributions.sum() == pytest.approx(why.score_difference)
    model._mask = model._mask[:-1]
    with pytest.raises(ValueError, match="the constraints are not on 35 additional scores; fit again"):
        model.predict(X)


def test_gold_that_violates_the_constraints_is_named():
    X = [np.zeros((n, 2)) for n in (1, 3, 2)]
    model = StructuredSparseMAPClassifier("chain", constraints="bio")
    remedy = "; correct the labels, leave the sample out, or set constraints=None"
    cases = [
        ("bio", [["O"], ["O", "B-A", "I-B"], ["I-B", "O"]], "y[1] has the label 'I-B' after 'B-A' in step 2, which "
         "constraints='bio' forbid (2 of 3 samples violate them)" + remedy),
        ("bio", [["O"], ["O"] * 3, ["I-B", "O"]], "y[2] has the label 'I-B' at the start in step 0, which "
         "constraints='bio' forbid" + remedy),
        ("bioes", [["S-A"], ["B-A", "I-A", "E-A"], ["O", "B-A"]], "y[2] has the label 'B-A' at the end in step 1, "
         "which constraints='bioes' forbid" + remedy),
        ([("N", "N")], [["N"], ["D", "N", "N"], ["D", "N"]], "y[1] has the label 'N' after 'N' in step 2, which "
         "constraints=[('N', 'N')] forbid" + remedy),
    ]  # fmt: skip
    for constraints, y, message in cases:
        with pytest.raises(ValueError, match=re.escape(message)):
            clone(model).set_params(constraints=constraints).fit(X, y)


def test_constraints_without_meaning_are_refused():
    X, y = make_data(40)
    for constraints, message in [
        (
            "iob",
            "constraints='iob' is not 'bio', 'iob1', 'iob2', 'ioe1', 'ioe2', 'bioes', 'bilou', or a list of forbidden",
        ),
        ([1], "or a list of forbidden pairs (from, to), with None for the start"),
        ([("O", "B-A", "I-A")], "constraints must be 'bio'"),
        (3, "constraints must be 'bio'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(message)):
            StructuredSparseMAPClassifier("chain", constraints=constraints).fit(X, y)
    with pytest.raises(ValueError, match="constraints='bio' need labels that are 'O' or one of B, I followed by '-'"):
        StructuredSparseMAPClassifier("chain", constraints="bio").fit([np.eye(2)], [["S-A", "O"]])
    with pytest.raises(ValueError, match=r"constraints='bio' need labels .* got 1"):
        StructuredSparseMAPClassifier("chain", constraints="bio").fit([np.eye(2)], [[1, 2]])
    for structure, data in (("auto", (np.eye(2), ["O", "B-A"])), ("tree", ([np.eye(6)[:6]], [[0, 1]]))):
        with pytest.raises(ValueError, match=f"constraints are for structure='chain'; got structure='{structure}'"):
            StructuredSparseMAPClassifier(structure, constraints="bio").fit(*data)
    with pytest.warns(UserWarning, match="constraints name the label 'Z', which is not among the labels of y"):
        StructuredSparseMAPClassifier("chain", constraints=[("Z", "O")]).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        StructuredSparseMAPClassifier("chain", constraints=[("I-A", "I-B")]).fit(X, y)


def test_sentences_that_no_labels_fit_are_named():
    model = StructuredSparseMAPClassifier("chain", constraints="bioes").fit([np.ones((2, 1))] * 3, [["B-P", "E-P"]] * 3)
    X = [np.ones((2, 1)), np.ones((1, 1))]
    for ask in (model.predict, model.predict_marginals, model.predict_structures, lambda X: model.predict_n_best(X, 2)):
        with pytest.raises(ValueError, match=r"constraints='bioes' allow no sequence of labels for X\[1\]"):
            ask(X)


def test_no_pairs_forbid_nothing():
    X, y = [np.eye(2)] * 2, [["a", "b"]] * 2
    free, none = (StructuredSparseMAPClassifier("chain", constraints=c).fit(X, y) for c in (None, []))
    np.testing.assert_array_equal(free.transitions_, none.transitions_)
    with pytest.raises(ValueError, match="list of forbidden pairs"):
        StructuredSparseMAPClassifier("chain", constraints=[(None, None)]).fit(X, y)


def test_messages_count_samples_without_steps():
    """They counted the samples with steps. `sample` drew forbidden labels, and `score` named ``scores[1]``."""
    X, y = [np.eye(2)] * 4, [["B", "I"]] * 4
    constraints = [("B", "B"), ("I", "B"), ("I", "I"), (None, "I")]
    model = StructuredSparseMAPClassifier("chain", loss="crf", constraints=constraints).fit(X, y)
    sets = ConformalStructures(model, confidence_level=0.5).conformalize(X, y)
    few, many = [X[0], X[0][:0], X[0][:0], X[0]], [X[0], X[0][:0], X[0][:0], np.ones((3, 2))]
    known, own = [None, None, None, ["I", None]], [y[0], [], [], ["B", "I", "I"]]
    for infer in (
        model.predict,
        model.predict_marginals,
        model.predict_structures,
        model.sample,
        partial(model.predict_n_best, k=2),
    ):
        with pytest.raises(ValueError, match=r"agrees with known\[3\]"):
            infer(few, known=known)
        with pytest.raises(ValueError, match=r"allow no sequence of labels for X\[3\]"):
            infer(many)
    for act in (partial(model.score, many, own), partial(sets.predict_set, many)):
        with pytest.raises(ValueError, match=r"allow no sequence of labels for X\[3\]"):
            act()
    stopped = StructuredSparseMAPClassifier("chain", solver="adagrad", early_stopping=True, constraints=constraints)
    with pytest.raises(ValueError, match=r"allow no sequence of labels for X_val\[3\]"):
        stopped.fit(X, y, X_val=many, y_val=own)
