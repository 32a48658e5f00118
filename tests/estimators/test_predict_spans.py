"""`predict_spans`: probabilities of spans against the sum over all label sequences."""

import json
from functools import lru_cache
from itertools import groupby, pairwise

import numpy as np
import pytest
from naive_spans import AllSequences, runs_in, spans_in
from sklearn.linear_model import LogisticRegression

from sklearn_sparsemap import GroupLassoPerceptron, StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.score_models import Network, Trees
from sklearn_sparsemap.spans import Span, spans_from_labels, tokenize
from sklearn_sparsemap.structures import Segmentation, SequenceBudget

# Labels of each scheme, whether deduced from the labels or from the constraints.
LABELS = {
    "bio": ["B-X", "B-Y", "I-X", "I-Y", "O"],
    "iob1": ["B-X", "I-X", "I-Y", "O"],
    "ioe1": ["E-X", "I-X", "I-Y", "O"],
    "ioe2": ["E-X", "E-Y", "I-X", "I-Y", "O"],
    "bioes": ["B-X", "E-X", "I-X", "O", "S-X", "S-Y"],
    "bilou": ["B-X", "I-X", "L-X", "O", "U-X", "U-Y"],
}
READING = {"bio": "iob2"}
LONGEST = 5


@lru_cache
def all_sequences(labels, n_steps, scheme):
    return AllSequences(labels, n_steps, (lambda own: spans_in(own, scheme)) if scheme != "runs" else runs_in)


def fitted(structure, loss, labels, constraints=None):
    """Return a model of two features that knows all labels; its weights are replaced afterwards."""
    model = StructuredSparseMAPClassifier(structure, loss=loss, max_iter=1, solver="adagrad", constraints=constraints)
    model.partial_fit([np.zeros((1, 2))], [["O"]], classes=labels)
    return model


def randomise(model, rng, scale):
    """Give a model random weights."""
    m = len(model.classes_)
    model.coef_ = rng.normal(scale=scale, size=(m, 2))
    model.intercept_ = rng.normal(scale=scale, size=m)
    for name in model.additional_scores_:
        shape = model.additional_scores_[name].shape
        setattr(model, f"{name}_", rng.normal(scale=scale, size=shape))


def check_listed(found, expected, least=1e-6):
    """Compare listed spans with the probabilities of all spans."""
    listed = {(span.start, span.stop, span.type): span.probability for span in found}
    assert len(listed) == len(found)
    missing = [chance for span, chance in expected.items() if span not in listed]
    assert max(missing, default=0.0) < least * (1 + 1e-9)
    for span, chance in listed.items():
        assert abs(chance - expected.get(span, 0.0)) < 1e-9, (span, chance, expected.get(span))
    return len(listed)


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("scheme", LABELS)
def test_probabilities_are_sums_over_all_label_sequences(scheme, constrained):
    labels = LABELS[scheme]
    rng = np.random.default_rng(7)
    model = fitted("chain", "crf", labels, scheme if constrained else None)
    # Without constraints, labels other than BILOU are read as conlleval reads them.
    reading = READING.get(scheme, scheme) if constrained or scheme == "bilou" else None
    n_compared = 0
    for _ in range(85):
        scale = rng.choice([0.3, 1.0, 4.0, 300.0])
        randomise(model, rng, scale)
        model.temperature = rng.choice([0.5, 1.0])
        X = [rng.normal(size=(n, 2)) for n in rng.integers(1, LONGEST + 1, 2)]
        least = rng.choice([0.0, 1e-12])
        for x, found, best in zip(X, model.predict_spans(X, min_probability=least), model.predict(X)):
            sequences = all_sequences(tuple(labels), len(x), reading)
            unary = (x @ model.coef_.T + model.intercept_) / model.temperature
            moves, start, end = (
                getattr(model, f"{name}_") / model.temperature for name in ("transitions", "start", "end")
            )
            expected = sequences.probabilities(sequences.scores(unary, moves, start, end))
            n_compared += check_listed(found, expected, least or 1e-6)
            predicted = {(span.start, span.stop, span.type) for span in found if span.predicted}
            assert predicted == spans_in(best.tolist(), reading)
    assert n_compared > 300


@pytest.mark.parametrize("constraints", [None, "bio", [("B-X", "I-Y"), (None, "I-X")]])
@pytest.mark.parametrize("loss", ["sparsemap", "perceptron"])
def test_with_other_losses_they_are_sums_over_the_structures(loss, constraints):
    rng = np.random.default_rng(8)
    model = fitted("chain", loss, LABELS["bio"], constraints)
    reading = "iob2" if constraints == "bio" else None
    n_compared = 0
    for _ in range(40):
        randomise(model, rng, rng.choice([0.1, 1.0]))
        X = [rng.normal(size=(n, 2)) for n in rng.integers(1, 8, 3)]
        structures = model.predict_structures(X)
        for own, found, best in zip(structures, model.predict_spans(X), model.predict(X)):
            expected = {span: 0.0 for span in spans_in(best.tolist(), reading)}
            for labels, weight in own:
                for span in spans_in(labels.tolist(), reading):
                    expected[span] = expected.get(span, 0.0) + weight
            n_compared += check_listed(found, expected, least=1e-300)
            assert {(s.start, s.stop, s.type) for s in found if s.predicted} == spans_in(best.tolist(), reading)
    assert n_compared > 200


@pytest.mark.filterwarnings("ignore:predicted spans reach max_length")
@pytest.mark.parametrize("open_ended", [False, True])
@pytest.mark.parametrize("loss", ["crf", "sparsemap"])
def test_segments_are_spans_of_a_segmentation(loss, open_ended):
    labels = ["O", "X", "Y"]
    rng = np.random.default_rng(9)
    model = fitted(Segmentation(2, open_ended=open_ended), loss, labels)
    n_compared = 0
    for _ in range(100):
        randomise(model, rng, rng.choice([0.3, 1.0, 4.0]))
        x = rng.normal(size=(rng.integers(1, LONGEST + 1), 2))
        (found,) = model.predict_spans([x])
        (best,) = model.predict([x])
        if loss == "crf":
            sequences = all_sequences(tuple(labels), len(x), "runs")
            expected = sequences.probabilities(segment_scores(model, x, sequences.codes, open_ended))
            n_compared += check_listed(found, expected)
        else:
            expected = {span: 0.0 for span in runs_in(best.tolist())}
            for own, weight in model.predict_structures([x])[0]:
                for span in runs_in(own.tolist()):
                    expected[span] = expected.get(span, 0.0) + weight
            n_compared += check_listed(found, expected, least=1e-300)
        assert {(s.start, s.stop, s.type) for s in found if s.predicted} == runs_in(best.tolist())
    assert n_compared > 300


def segment_scores(model, x, codes, open_ended):
    """Return the scores of all segmentations, given by the labels of their steps."""
    unary = x @ model.coef_.T + model.intercept_
    scores = []
    for own in codes:
        runs = [(label, len(list(run))) for label, run in groupby(own)]
        total = unary[np.arange(len(x)), own].sum() + model.start_[own[0]] + model.end_[own[-1]]
        for label, length in runs:
            too_long = length > 2 and not open_ended
            total += -np.inf if too_long else model.durations_[min(length, 2) - 1, label]
        total += sum(model.transitions_[a, b] for (a, _), (b, _) in pairwise(runs))
        scores.append(total)
    return np.array(scores)


@pytest.mark.filterwarnings("ignore:predicted spans reach max_length")
def test_spans_as_parts_have_their_marginals():
    rng = np.random.default_rng(10)
    X = [rng.normal(size=(4, 3, 2, 2)) for _ in range(6)]
    y = [np.array([[0, 2, 1], [2, 4, 0]]), np.array([[0, 3, 0], [3, 4, 1]])] * 3
    for loss in ("crf", "sparsemap"):
        model = StructuredSparseMAPClassifier(Segmentation(3, parts="spans"), loss=loss).fit(X, y)
        found = model.predict_spans(X, min_probability=1e-12)
        marginals = model.predict_marginals(X)
        for own, table, best in zip(found, marginals, model.predict(X)):
            assert sum(span.probability for span in own) == pytest.approx(
                sum(table[t, n - 1, c] for t in range(4) for n in range(1, min(3, 4 - t) + 1) for c in range(2)),
                abs=1e-4,
            )
            for span in own:
                assert span.probability == pytest.approx(
                    table[span.start, span.stop - span.start - 1, span.type], abs=1e-9
                )
            assert [[s.start, s.stop, s.type] for s in own if s.predicted] == best.tolist()


def tagger(loss="crf"):
    X = [["Ada", "Lovelace", "saw", "London"], ["London", "calls"], ["Ada", "calls"]] * 3
    y = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "O"], ["B-PER", "O"]] * 3
    model = StructuredSparseMAPClassifier("chain", loss=loss, constraints="bio", alpha=0.05)
    return make_structured_pipeline(TemplateVectorizer(["word[0]", "word[-1]"]), model).fit(X, y)


@pytest.mark.parametrize("loss", ["crf", "sparsemap"])
def test_a_pipeline_names_spans_with_offsets_and_alternatives(loss):
    model = tagger(loss)
    texts = ["Ada Lovelace  saw London", "", "London"]
    tokens = [tokenize(text) for text in texts]
    words = [[token.text for token in own] for own in tokens]
    found = model.predict_spans(words, tokens=tokens)
    assert found[1] == []
    for text, own, best in zip(texts, found, model.predict(words)):
        predicted = [span for span in own if span.predicted]
        assert [span[:3] for span in predicted] == [span[:3] for span in spans_from_labels(best.tolist())]
        for span in own:
            assert text[span.start_char : span.stop_char] == span.text
            others = [other for other in own if other.start < span.stop and other.stop > span.start]
            others = [other for other in others if not other.predicted and other.probability >= 0.01]
            others = others if span.predicted else []
            assert {other[:3] for other in span.alternatives} == {other[:3] for other in others}
            chances = [other.probability for other in span.alternatives]
            assert chances == sorted(chances, reverse=True)
        assert [span.start for span in own] == sorted(span.start for span in own)
        json.loads(json.dumps([span.to_dict() for span in own]))
    assert "alternatives" in next(span for span in found[0] if span.predicted).to_dict()


def test_a_smallest_probability_applies_to_all_spans():
    model = tagger()
    X = [["Ada", "Lovelace", "saw", "Paris"]]
    everything = model.predict_spans(X)[0]
    for least in (1e-3, 0.1, 0.5):
        found = model.predict_spans(X, min_probability=least)[0]
        assert [s[:4] for s in found] == [s[:4] for s in everything if s.probability >= least]


def test_long_sequences_have_likely_spans_by_default():
    model = fitted("chain", "crf", LABELS["bio"])
    randomise(model, np.random.default_rng(0), 0.5)
    X = [np.zeros((n, 2)) for n in (4, 40)]
    short, long = model.predict_spans(X)
    everything = model.predict_spans(X, min_probability=1e-7)
    for found, own, least in ((short, everything[0], 1e-6), (long, everything[1], 1e-3)):
        likely = {span[:3] for span in own if span.probability >= least}
        assert {span[:3] for span in found} == likely | {span[:3] for span in own if span.predicted}
    assert len(long) < 0.5 * len(everything[1])


def test_predicted_spans_are_listed_however_improbable():
    model = fitted("chain", "crf", LABELS["bio"])
    # All labels are alike, so that each span of a long sequence is improbable.
    x = np.zeros((60, 2))
    model.coef_ = np.zeros((5, 2))
    model.transitions_ = np.zeros((5, 5))
    model.start_ = model.end_ = np.zeros(5)
    model.intercept_ = np.array([0.0, 0.0, 1e-9, 0.0, 0.0])
    (found,) = model.predict_spans([x])
    (predicted,) = [span for span in found if span.predicted]
    assert (predicted.start, predicted.stop, predicted.type) == (0, 60, "X")
    assert 0.0 < predicted.probability < 1e-30


@pytest.mark.filterwarnings("ignore:Adam was still improving")
@pytest.mark.parametrize("score_model", ["linear", Network((8,), max_iter=3), Trees(max_iter=3), LogisticRegression()])
@pytest.mark.parametrize("loss", ["crf", "sparsemap"])
def test_spans_cover_each_step_as_often_as_its_labels(loss, score_model):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(6, 3)) for _ in range(20)]
    y = [["O" if value < 0 else "B-X" if i % 2 else "B-Y" for i, value in enumerate(x[:, 0])] for x in X]
    model = StructuredSparseMAPClassifier("chain", loss=loss, score_model=score_model, random_state=0).fit(X, y)
    outside = model.classes_.tolist().index("O")
    for found, chances in zip(model.predict_spans(X, min_probability=1e-12), model.predict_proba(X)):
        covered = np.zeros(6)
        for span in found:
            covered[span.start : span.stop] += span.probability
        np.testing.assert_allclose(covered, 1.0 - chances[:, outside], atol=1e-9)


@pytest.mark.parametrize(
    ("structure", "y", "message"),
    [
        ("chain", [["a", "b"]] * 4, "labels that are spans"),
        ("matching", [np.array([1, 0])] * 4, "LinearChain and Segmentation"),
    ],
)
def test_structures_and_labels_without_spans_are_refused(structure, y, message):
    x = np.zeros((2, 2)) if structure == "chain" else np.zeros((2, 2, 1))
    model = StructuredSparseMAPClassifier(structure).fit([x] * 4, y)
    with pytest.raises(ValueError, match=message):
        model.predict_spans([x])


def test_a_budget_has_spans_of_sparsemap_only():
    X = [np.eye(3)] * 4
    y = [["O", "B-X", "O"]] * 4
    model = StructuredSparseMAPClassifier(SequenceBudget(1, state=0)).fit(X, y)
    assert [span[:3] for span in model.predict_spans(X)[0] if span.predicted] == [(1, 2, "X")]
    model = StructuredSparseMAPClassifier(SequenceBudget(1, state=0), loss="crf").fit(X, y)
    with pytest.raises(ValueError, match="use loss='sparsemap'"):
        model.predict_spans(X)


def test_group_lasso_perceptron_has_spans():
    X, y = [np.eye(3)] * 4, [["O", "B-X", "I-X"]] * 4
    model = GroupLassoPerceptron("chain", budget=2, groups=[0, 1, 2], random_state=0).fit(X, y)
    found = model.predict_spans(X[:1])[0]
    assert [span[:3] for span in found if span.predicted] == [
        span[:3] for span in spans_from_labels(model.predict(X)[0])
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_probability": 1.5}, "min_probability must be"),
        ({"min_probability": True}, "min_probability must be"),
        ({"tokens": [["a"]]}, r"tokens\[0\] has 1 tokens, but X\[0\] has 2 steps"),
        ({"tokens": [["a", "b"], ["c"]]}, "length|samples"),
        ({"tokens": [["a", 3]]}, r"tokens\[0\] must be words"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    model = fitted("chain", "crf", LABELS["bio"])
    with pytest.raises(ValueError, match=message):
        model.predict_spans([np.zeros((2, 2))], **arguments)


def test_spans_are_plain_tuples_of_python():
    (found,) = tagger().predict_spans([["Ada"]])
    assert isinstance(found[0], Span)
    assert [type(value) for value in found[0][:4]] == [int, int, str, float]


def test_spans_of_samples_are_a_sequence_of_lists():
    rng = np.random.default_rng(3)
    model = fitted("chain", "crf", LABELS["bio"])
    randomise(model, rng, 1.0)
    X = [rng.normal(size=(n, 2)) for n in (3, 0, 5)]
    found = model.predict_spans(X)
    assert len(found) == 3 and found[1] == [] and type(found[2]) is list
    assert found[2] is found[2] and found[-1] is found[2] and found[1:] == [[], found[2]]
    assert found == list(found) and list(found) == found and found == model.predict_spans(X)
    assert found != model.predict_spans(X[:2]) and found != 3
    with pytest.raises(IndexError):
        found[3]


def test_alternatives_are_the_likely_spans_that_overlap_in_the_order_of_their_probabilities():
    rng = np.random.default_rng(4)
    n_compared = 0
    for loss in ("crf", "sparsemap"):
        model = fitted("chain", loss, LABELS["bioes"])
        for _ in range(10):
            randomise(model, rng, 0.5)
            for spans in model.predict_spans([rng.normal(size=(n, 2)) for n in (12, 1, 7)]):
                for span in spans:
                    others = [
                        other for other in spans
                        if not other.predicted and other.probability >= 0.01
                        and other.start < span.stop and span.start < other.stop
                    ]  # fmt: skip
                    expected = sorted(others, key=lambda other: -other.probability) if span.predicted else []
                    assert list(span.alternatives) == expected
                    n_compared += len(expected)
    assert n_compared > 200
