"""Kinds of wrong input that are common, each with a message that names the place and the remedy; and known labels."""

from itertools import pairwise, product

import numpy as np
import pytest
from scipy import sparse

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier, sparsemap
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.inspection import explain
from sklearn_sparsemap.metrics import flat_accuracy_score, span_f1_score
from sklearn_sparsemap.structures import LinearChain, Segmentation

RNG = np.random.default_rng(0)
X = [RNG.normal(size=(n, 3)) for n in (5, 4, 6, 3)]
Y = [["a" if value > 0 else "b" for value in x[:, 0]] for x in X]
ARCS = [RNG.normal(size=(n + 1, n, 2)) for n in (3, 4)]
HEADS = [np.arange(3), np.arange(4)]


@pytest.fixture(scope="module")
def tagger():
    return StructuredSparseMAPClassifier("chain").fit(X, Y)


@pytest.fixture(scope="module")
def parser():
    return StructuredSparseMAPClassifier("tree").fit(ARCS, HEADS)


def once(values):
    return (value for value in values)


CALLS_WITH_ITERATORS = {
    "X": lambda tagger: StructuredSparseMAPClassifier("chain").fit(once(X), Y),
    "y": lambda tagger: tagger.score(X, once(Y)),
    "sample_weight": lambda tagger: StructuredSparseMAPClassifier("chain").fit(X, Y, sample_weight=once([1.0] * 4)),
    "known": lambda tagger: tagger.predict(X, known=once(Y)),
    "tokens": lambda tagger: tagger.predict_spans(X, tokens=once(Y)),
    "X of flat data": lambda tagger: StructuredSparseMAPClassifier().fit(once(np.eye(4)), list("abab")),
    "y of flat data": lambda tagger: StructuredSparseMAPClassifier().fit(np.eye(4), once("abab")),
    "X of label sets": lambda tagger: MultilabelLPSparseMAP().fit(once(np.eye(3)), np.eye(3)),
    "y of label sets": lambda tagger: MultilabelLPSparseMAP().fit(np.eye(3), once(np.eye(3))),
    "scores": lambda tagger: sparsemap(LinearChain(), once(X)),
    "transitions": lambda tagger: sparsemap(LinearChain(), X, transitions=once(X)),
    "y_true": lambda tagger: flat_accuracy_score(once(Y), Y),
    "y_pred": lambda tagger: span_f1_score([["O"]], once([["O"]])),
    "X of a vectorizer": lambda tagger: TemplateVectorizer(["word[0]"]).fit(once([["a"]])),
}


@pytest.mark.parametrize("argument", CALLS_WITH_ITERATORS)
def test_iterators_are_refused_by_name(argument, tagger):
    name = argument.split()[0]
    with pytest.raises(ValueError, match=rf"^{name}.*write list\({name}\)"):
        CALLS_WITH_ITERATORS[argument](tagger)


@pytest.mark.parametrize("i", [0, 3])
def test_a_sequence_without_any_known_label_names_the_remedy(i):
    y = list(Y)
    y[i] = None
    with pytest.raises(ValueError, match=rf"y\[{i}\] is None.*write \[None\] \*"):
        StructuredSparseMAPClassifier("chain").fit(X, y)


def test_series_of_numbers_need_a_second_axis(tagger):
    for samples in ([x[:, 0] for x in X], [x[:3, 0] for x in X]):
        with pytest.raises(ValueError, match=r"X\[0\] has shape .*write X\[0\]\[:, None\]"):
            tagger.predict(samples)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (lambda heads: np.r_[1, heads[1:]], "word 1 is its own head"),
        (lambda heads: [str(head) for head in heads], r"write heads as ints"),
        (lambda heads: heads.astype(float), r"write heads as ints"),
        (lambda heads: heads + 0.5, r"write heads as ints"),
    ],
)
def test_heads_that_are_no_tree(wrong, message):
    with pytest.raises(ValueError, match=rf"y\[0\].*{message}"):
        StructuredSparseMAPClassifier("tree").fit(ARCS, [wrong(heads) for heads in HEADS])


@pytest.mark.parametrize("kind", [str, float])
def test_scores_of_heads_need_ints(kind, parser):
    y = [np.array([kind(head) for head in heads]) for heads in HEADS]
    with pytest.raises(ValueError, match=r"y\[0\]: there are 3 words, whose heads are 3 ints from 0 to 3"):
        parser.score(ARCS, y)


@pytest.mark.parametrize("options", [{}, {"loss": "crf"}, {"loss": "hinge", "solver": "mira"}])
def test_known_labels_that_no_structure_has(options):
    y = [["b"] * (len(x) - 2) + ["a", None] for x in X]
    model = StructuredSparseMAPClassifier("chain", constraints=[("a", "a"), ("a", "b")], **options)
    with pytest.raises(ValueError, match=r"^no structure agrees with the known labels of y\[0\]; correct them"):
        model.fit(X, y)


def test_learned_scores_of_a_fitted_model_can_be_assigned():
    model = StructuredSparseMAPClassifier(Segmentation(5)).fit(X, Y)
    before = model.decision_function(X)[0]
    model.durations_ = np.full_like(model.durations_, -7.0)
    assert (model.additional_scores_["durations"] == -7.0).all() and "durations_" not in vars(model)
    np.testing.assert_array_equal(model.decision_function(X)[0], before)
    with pytest.raises(ValueError, match="durations_ must have shape"):
        model.durations_ = np.zeros(3)


def test_scalars_of_arrow_are_read(tagger):
    class Scalar:
        def __init__(self, value):
            self._value = value

        def as_py(self):
            return self._value

    y = [[Scalar(label) for label in own] for own in Y]
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    assert model.classes_.tolist() == ["a", "b"] and model.score(X, y) == tagger.score(X, Y)
    words = [["a", "b"], ["b"]]
    vectorizer = TemplateVectorizer(["word[0]"])
    expected = vectorizer.fit_transform(words).values.toarray()
    found = vectorizer.fit_transform([[Scalar(word) for word in own] for own in words]).values.toarray()
    np.testing.assert_array_equal(found, expected)


def test_integer_tags_need_names_for_a_scheme():
    with pytest.raises(ValueError, match=r"constraints='bio' need labels.*labels_from_tags"):
        StructuredSparseMAPClassifier("chain", constraints="bio").fit(X, [[0] * len(x) for x in X])


@pytest.mark.parametrize("loss", ["sparsemap", "crf"])
def test_known_may_hold_sets_of_allowed_labels(loss):
    rng = np.random.default_rng(2)
    labels = list("abc")
    y = [[labels[k] for k in rng.integers(0, 3, len(x))] for x in X]
    model = StructuredSparseMAPClassifier("chain", loss=loss).fit(X, y)
    n_changed = 0
    for x, best in zip(X, model.predict(X), strict=True):
        sets = [set(own) for own in rng.permuted([labels] * len(x), axis=1)[:, :2].tolist()]
        known = [(own, None, "b")[kind] for own, kind in zip(sets, rng.choice(3, len(x), p=[0.6, 0.2, 0.2]))]
        (found,) = model.predict([x], known=[known])
        (marginals,) = model.predict_marginals([x], known=[np.array([*known, None], object)[:-1]])
        # The best of all sequences that have the allowed labels.
        choices = [labels if own is None else sorted(own) for own in known]
        scores = x @ model.coef_.T + model.intercept_

        def value(path, scores=scores):
            codes = [labels.index(label) for label in path]
            moves = sum(model.transitions_[i, j] for i, j in pairwise(codes))
            return scores[np.arange(len(codes)), codes].sum() + moves + model.start_[codes[0]] + model.end_[codes[-1]]

        assert value(found) == pytest.approx(max(map(value, product(*choices))))
        allowed = np.array([[label in own for label in labels] for own in choices])
        assert (marginals[~allowed] == 0).all()
        n_changed += list(found) != list(best)
    assert n_changed > 0
    with pytest.raises(ValueError, match=r"known\[0\] allows 'x', 'y' in step 1, none of which is in classes_"):
        model.predict(X[:1], known=[[None, {"x", "y"}, None, None, None]])
    flat = StructuredSparseMAPClassifier().fit(np.eye(3), labels)
    assert flat.predict(np.eye(3), known=[{"b", "c"}, None, "a"]).tolist()[1:] == ["b", "a"]
    assert flat.predict(np.eye(3), known=[{"b", "c"}, None, "a"])[0] in ("b", "c")


MISREAD = {
    "y has labels of type str and of type int": lambda tagger: StructuredSparseMAPClassifier().fit(np.eye(2), ["a", 1]),
    "y has labels of type str and of type float": lambda tagger: StructuredSparseMAPClassifier().fit(
        np.eye(2), np.array(["a", 0.5], object)
    ),
    r"y\[1\] is None; leave out samples without a label": lambda tagger: StructuredSparseMAPClassifier().fit(
        np.eye(3), pytest.importorskip("pandas").Series(["a", None, "b"], dtype=object)
    ),
    r"y\[2\] is None; leave out samples without a label": lambda tagger: MultilabelLPSparseMAP().fit(
        np.eye(3), ["a", "b", None]
    ),
    "classes has None, which is an unknown label": lambda tagger: StructuredSparseMAPClassifier("chain").partial_fit(
        X, Y, classes=["a", "b", None]
    ),
    "a label has no name": lambda tagger: MultilabelLPSparseMAP().fit(np.eye(3), np.eye(3), classes=["a", "b", None]),
    "against has 4 labels, but x has 5 steps": lambda tagger: explain(tagger, X[0], against=Y[1]),
    "y must be a sequence with one structure a sample": lambda tagger: tagger.score(X, sparse.eye_array(4)),
    "y_true is a sparse matrix": lambda tagger: flat_accuracy_score(sparse.eye_array(4), Y),
    "all sample weights are zero": lambda tagger: (
        MultilabelLPSparseMAP(score_model="linear")
        .fit(np.eye(3), np.eye(3))
        .score(np.eye(3), np.diag([np.nan, 1.0, 1.0]), sample_weight=[0, 0, 0])
    ),
}


@pytest.mark.parametrize("message", MISREAD)
def test_inputs_that_were_misread_are_refused_by_name(message, tagger):
    with pytest.raises(ValueError, match=message):
        MISREAD[message](tagger)
