import numpy as np
import pytest
import sklearn.metrics
from naive_metrics import (
    naive_accuracy,
    naive_attachment,
    naive_example_f1,
    naive_f1,
    naive_hierarchical_f1,
    naive_precision_at_k,
    naive_span_counts,
    naive_strict_spans,
)
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score

from sklearn_sparsemap import MultilabelLPSparseMAP, RaggedArray
from sklearn_sparsemap.factors import Hierarchy
from sklearn_sparsemap.metrics import (
    convert_spans,
    example_f1_score,
    example_f1_scorer,
    flat_accuracy_score,
    flat_accuracy_scorer,
    flat_classification_report,
    flat_f1_score,
    flat_f1_scorer,
    hierarchical_f1_score,
    labeled_attachment_score,
    labeled_attachment_scorer,
    parts_f1_score,
    parts_f1_scorer,
    precision_at_3_scorer,
    precision_at_k,
    propensity_scored_precision_at_k,
    sequence_accuracy_score,
    sequence_accuracy_scorer,
    span_f1_score,
    span_f1_scorer,
    span_precision_recall_f1,
    span_report,
    unlabeled_attachment_score,
    unlabeled_attachment_scorer,
)

REPORT = """\
              precision    recall  f1-score   support

         LOC       1.00      1.00      1.00         1
        MISC       0.50      0.50      0.50         2
         PER       1.00      1.00      1.00         1

   micro avg       0.75      0.75      0.75         4
   macro avg       0.83      0.83      0.83         4
weighted avg       0.75      0.75      0.75         4
"""
STRICT_REPORT = """\
              precision    recall  f1-score   support

         LOC      0.000     0.000     0.000         1
        MISC      0.500     0.500     0.500         2
         PER      1.000     1.000     1.000         1

   micro avg      0.667     0.500     0.571         4
   macro avg      0.500     0.500     0.500         4
weighted avg      0.500     0.500     0.500         4
"""
PREFIXES = {"IOB": "OBI", "IOE": "OIE", "IOBES": "OBIES"}


def random_labels(rng, prefixes, types, n_samples=40):
    tags = [f"{p}-{t}" if t else p for p in prefixes if p != "O" for t in types] + ["O"]
    lengths = rng.integers(1, 12, n_samples)
    y_true = [rng.choice(tags, n).tolist() for n in lengths]
    # Close to the truth, so that whole spans agree.
    y_pred = [[tag if rng.random() < 0.8 else str(rng.choice(tags)) for tag in sample] for sample in y_true]
    return y_true, y_pred


def object_array(samples):
    array = np.empty(len(samples), dtype=object)
    for i, sample in enumerate(samples):
        array[i] = sample
    return array


@pytest.mark.parametrize("scheme", PREFIXES)
@pytest.mark.parametrize("types", [["NP", "VP"], ["A", "B-C", "D"], [""]])
def test_spans_are_those_of_conlleval(scheme, types):
    rng = np.random.default_rng(len(types))
    y_true, y_pred = random_labels(rng, PREFIXES[scheme], types)
    n_true, n_pred, n_right = naive_span_counts(y_true, y_pred)
    assert 0 < n_right.total() < n_true.total()
    table = span_precision_recall_f1(y_true, y_pred)
    assert list(table) == ["overall", *sorted(types)]
    for name in types:
        row = table[name]
        counts = n_true[name], n_pred[name], n_right[name]
        assert (row["n_true"], row["n_pred"], row["n_correct"]) == counts
        assert row["precision"] == pytest.approx(n_right[name] / n_pred[name])
        assert row["recall"] == pytest.approx(n_right[name] / n_true[name])
        assert row["f1"] == pytest.approx(naive_f1(*counts))
    total = [counter.total() for counter in (n_true, n_pred, n_right)]
    f1 = [naive_f1(n_true[name], n_pred[name], n_right[name]) for name in types]
    assert span_f1_score(y_true, y_pred) == pytest.approx(naive_f1(*total))
    assert span_f1_score(y_true, y_pred, average="macro") == pytest.approx(np.mean(f1))
    weights = [n_true[name] for name in types]
    assert span_f1_score(y_true, y_pred, average="weighted") == pytest.approx(np.average(f1, weights=weights))


@pytest.mark.parametrize(("scheme", "prefixes"), {"iob2": "BI", "ioe2": "IE", "bioes": "BIES", "bilou": "BILU"}.items())
def test_strict_spans_are_those_of_the_scheme(scheme, prefixes):
    y_true, y_pred = random_labels(np.random.default_rng(1), prefixes, ["A", "B"])
    true, pred = ([naive_strict_spans(sample, scheme) for sample in y] for y in (y_true, y_pred))
    counts = sum(map(len, true)), sum(map(len, pred)), sum(len(a & b) for a, b in zip(true, pred))
    row = span_precision_recall_f1(y_true, y_pred, scheme=scheme)["overall"]
    assert 10 < counts[2] < counts[0]
    assert (row["n_true"], row["n_pred"], row["n_correct"]) == counts
    # Some of these labels are part of no span.
    with pytest.raises(ValueError, match=r"y\[\d+\] has the label '.*' in step \d+, which is part of no span"):
        convert_spans(y_true, scheme, "bioes")


def random_spans(rng):
    """Sequences in IOB2, in which spans of one type often touch."""
    samples = []
    for n in rng.integers(0, 9, size=20):
        sample = []
        while len(sample) < n:
            kind, length = rng.choice(["A", "B", ""]), rng.integers(1, 4)
            sample += ["O"] if not kind else [f"B-{kind}", *[f"I-{kind}"] * (length - 1)]
        samples.append(sample)
    return samples


def test_spans_survive_the_conversion_between_schemes(draws):
    schemes, n_changed = ["iob1", "iob2", "ioe1", "ioe2", "bioes", "bilou"], 0
    for seed in range(draws(10)):
        y = random_spans(np.random.default_rng(seed))
        counts = span_precision_recall_f1(y, y)["overall"]
        for source in schemes:
            converted = convert_spans(y, "iob2", source)
            assert convert_spans(converted, source, "iob2") == y
            assert span_precision_recall_f1(converted, converted, scheme=source)["overall"] == counts
            n_changed += converted != y
            for target in schemes:
                assert convert_spans(convert_spans(converted, source, target), target, source) == converted
    assert n_changed == 5 * draws(10)


def test_conversion_of_spans():
    y = [["B-A", "B-A", "I-A", "O", "B-B", "B-A"], []]
    expected = {
        "iob1": ["I-A", "B-A", "I-A", "O", "I-B", "I-A"],
        "ioe1": ["E-A", "I-A", "I-A", "O", "I-B", "I-A"],
        "ioe2": ["E-A", "I-A", "E-A", "O", "E-B", "E-A"],
        "bioes": ["S-A", "B-A", "E-A", "O", "S-B", "S-A"],
        "bilou": ["U-A", "B-A", "L-A", "O", "U-B", "U-A"],
    }
    for target, labels in expected.items():
        assert convert_spans(y, "iob2", target) == [labels, []]
    # As conlleval reads them, labels of no scheme have spans, too.
    assert convert_spans([["I-A", "I-B", "E-B"], ["I"]], None, "bioes") == [["S-A", "B-B", "E-B"], ["S"]]
    with pytest.raises(ValueError, match="cannot read the label 'L-A' as part of a span of the scheme 'bioes'"):
        convert_spans([["L-A"]], "bioes", "bilou")
    with pytest.raises(ValueError, match="target"):
        convert_spans([["O"]], "iob2", "bio")


def test_report_of_spans_is_that_of_seqeval():
    y_true = [["O", "O", "B-MISC", "I-MISC", "B-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"], ["B-LOC"]]
    y_pred = [["O", "O", "B-MISC", "I-MISC", "B-MISC", "I-MISC", "I-MISC"], ["B-PER", "I-PER", "O"], ["I-LOC"]]
    # Printed by classification_report of seqeval 1.2.2, the second with mode="strict" and scheme=IOB2.
    assert span_report(y_true, y_pred) == REPORT
    assert span_report(y_true, y_pred, scheme="iob2", digits=3) == STRICT_REPORT
    table = span_report(y_true, y_pred, output_dict=True)
    assert table["micro avg"] == {"precision": 0.75, "recall": 0.75, "f1-score": 0.75, "support": 4}
    assert table["MISC"]["support"] == 2
    assert span_report([["O"]], [["O"]], output_dict=True)["macro avg"]["f1-score"] == 0.0


def test_flat_f1_and_report_are_those_of_scikit_learn_over_all_steps():
    y_true, y_pred = [["N", "V", "N"], ["V", "X"]], [["N", "N", "N"], ["V", "V"]]
    flat = [*y_true[0], *y_true[1]], [*y_pred[0], *y_pred[1]]
    assert flat_f1_score(y_true, y_pred) == sklearn.metrics.f1_score(*flat, average="weighted")
    macro = sklearn.metrics.f1_score(*flat, labels=["N", "V"], average="macro")
    assert flat_f1_score(y_true, y_pred, labels=["N", "V"], average="macro") == macro
    weighted = sklearn.metrics.f1_score(*flat, average="micro", sample_weight=[2, 2, 2, 1, 1])
    assert flat_f1_score(y_true, y_pred, average="micro", sample_weight=[2, 1]) == weighted
    report = sklearn.metrics.classification_report(*flat, labels=["N", "V"], digits=3)
    assert flat_classification_report(y_true, y_pred, labels=["N", "V"], digits=3) == report
    with pytest.raises(ValueError, match=r"y_true\[0\] has 3 labels, but y_pred\[0\] has 1"):
        flat_f1_score(y_true, [["N"], ["V", "V"]])


@pytest.mark.parametrize(
    ("sample", "n_spans"),
    [
        (["B-X", "I-X", "I-X"], 1),
        (["I-X", "I-X", "B-X"], 2),
        (["I-X", "I-Y"], 2),
        (["B-X", "E-X", "B-X", "E-X"], 2),
        (["S-X", "S-X", "I-X"], 3),
        (["I-X", "E-X", "E-X"], 2),
        (["O", "O"], 0),
        (["B-X", "O", "I-X"], 2),
        (["B", "I", "O", "I"], 2),
    ],
)
def test_where_spans_begin(sample, n_spans):
    row = span_precision_recall_f1([sample], [sample])["overall"]
    assert row["n_true"] == row["n_pred"] == row["n_correct"] == n_spans


def test_spans_end_with_their_sample():
    joined = span_precision_recall_f1([["B-X", "I-X", "I-X"]], [["B-X", "I-X", "I-X"]])
    apart = span_precision_recall_f1([["B-X"], ["I-X", "I-X"]], [["B-X"], ["I-X", "I-X"]])
    assert joined["overall"]["n_true"] == 1
    assert apart["overall"]["n_true"] == apart["overall"]["n_correct"] == 2


def test_span_needs_both_ends_and_the_type():
    y_true = [["B-X", "I-X", "O"]]
    for wrong in (["B-X", "O", "O"], ["B-X", "I-X", "I-X"], ["O", "I-X", "O"], ["B-Y", "I-Y", "O"]):
        assert span_f1_score(y_true, [wrong]) == 0.0
    assert span_f1_score(y_true, [["I-X", "I-X", "O"]]) == 1.0


def test_span_f1_of_chosen_types():
    y_true = [["B-X", "B-Y", "B-Y"]]
    y_pred = [["B-X", "B-Z", "B-Y"]]
    assert span_f1_score(y_true, y_pred, labels=["X"]) == 1.0
    assert span_f1_score(y_true, y_pred, labels=["Y"]) == pytest.approx(2 / 3)
    assert span_f1_score(y_true, y_pred, labels=["X", "unseen"], average="macro") == 0.5
    assert list(span_precision_recall_f1(y_true, y_pred, labels=["Y", "X"])) == ["overall", "Y", "X"]


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_no_spans_score_zero(average):
    assert span_f1_score([["O", "O"]], [["O", "O"]], average=average) == 0.0
    assert span_f1_score([["O", "O"]], [["O", "B-X"]], average=average) == 0.0
    assert span_f1_score([["B-X", "O"]], [["O", "O"]], average=average) == 0.0
    assert span_f1_score([], [], average=average) == 0.0


@pytest.mark.parametrize("label", ["NP", "X-NP", "", "-NP", "O-NP", 3, ("B", "NP")])
def test_span_labels_are_checked(label):
    with pytest.raises(ValueError, match="label"):
        span_f1_score([[label, "O"]], [["O", "O"]])


def test_span_average_is_checked():
    with pytest.raises(ValueError, match="average='binary' is not one of"):
        span_f1_score([["O"]], [["O"]], average="binary")


def test_accuracies():
    rng = np.random.default_rng(0)
    y_true, y_pred = random_labels(rng, "OBI", ["X"])
    flat, whole = naive_accuracy(y_true, y_pred)
    assert 0 < whole < flat < 1
    assert flat_accuracy_score(y_true, y_pred) == pytest.approx(flat)
    assert sequence_accuracy_score(y_true, y_pred) == pytest.approx(whole)
    assert type(flat_accuracy_score(y_true, y_pred)) is float


def test_sample_weight_counts_samples_repeatedly():
    y_true, y_pred = [[1, 2, 3], [4], [5, 6]], [[1, 2, 0], [4], [0, 0]]
    repeated = [0, 0, 1, 2, 2, 2]
    weights = [2, 1, 3]
    for metric in (flat_accuracy_score, sequence_accuracy_score):
        expected = metric([y_true[i] for i in repeated], [y_pred[i] for i in repeated])
        assert metric(y_true, y_pred, sample_weight=weights) == pytest.approx(expected)
        assert metric(y_true, y_pred) != pytest.approx(expected)


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [1.0, np.nan], [0.0, 0.0]])
def test_sample_weight_is_checked(weights):
    for metric in (flat_accuracy_score, sequence_accuracy_score):
        with pytest.raises(ValueError, match=r"sample.weight"):
            metric([[1], [2]], [[1], [2]], sample_weight=weights)


@pytest.mark.parametrize("metric", [flat_accuracy_score, sequence_accuracy_score, span_f1_score])
def test_containers(metric):
    y_true = [["B-X", "I-X", "O"], ["O"], ["B-X", "O"]]
    y_pred = [["B-X", "O", "O"], ["O"], ["B-X", "O"]]
    expected = metric(y_true, y_pred)
    assert 0 < expected < 1
    containers = (tuple, object_array, RaggedArray.from_list, lambda y: [np.array(s) for s in y])
    for wrap in containers:
        assert metric(wrap(y_true), y_pred) == expected
        assert metric(y_true, wrap(y_pred)) == expected
        assert metric(wrap(y_true), wrap(y_pred)) == expected


@pytest.mark.parametrize("metric", [flat_accuracy_score, sequence_accuracy_score, span_f1_score])
def test_wrong_input(metric):
    with pytest.raises(ValueError, match="y_true has 2 samples, but y_pred has 1"):
        metric([["O"], ["O"]], [["O"]])
    with pytest.raises(ValueError, match=r"y_true\[1\] has 2 labels, but y_pred\[1\] has 1"):
        metric([["O"], ["O", "O"]], [["O"], ["O"]])
    with pytest.raises(ValueError, match=r"y_pred\[0\] is 'O', not a sequence"):
        metric([["O"]], ["O"])
    with pytest.raises(ValueError, match=r"y_true\[0\] is .*1.*, not a sequence"):
        metric(np.array([1, 2]), np.array([1, 2]))
    with pytest.raises(ValueError, match=r"y_true\[0\] must have one label for each position"):
        metric([np.zeros((2, 3))], [np.zeros((2, 3))])
    with pytest.raises(ValueError, match="y_true must be a sequence"):
        metric("OO", ["O"])


@pytest.mark.parametrize("metric", [flat_accuracy_score, sequence_accuracy_score])
def test_accuracy_of_nothing(metric):
    with pytest.raises(ValueError, match="undefined"):
        metric([], [])


def random_heads(rng, n_samples=30):
    lengths = rng.integers(1, 9, n_samples)
    y_true = [rng.integers(0, n + 1, n) for n in lengths]
    y_pred = [np.where(rng.random(len(h)) < 0.7, h, rng.integers(0, len(h) + 1, len(h))) for h in y_true]
    ignore = [rng.random(n) < 0.4 for n in lengths]
    return y_true, y_pred, ignore


def test_attachment_is_that_of_the_twin():
    rng = np.random.default_rng(0)
    y_true, y_pred, ignore = random_heads(rng)
    weights = rng.integers(0, 4, len(y_true))
    plain = unlabeled_attachment_score(y_true, y_pred)
    assert plain == pytest.approx(naive_attachment(y_true, y_pred))
    scores = [plain]
    for options in ({"ignore": ignore}, {"sample_weight": weights}, {"ignore": ignore, "sample_weight": weights}):
        scores.append(unlabeled_attachment_score(y_true, y_pred, **options))
        expected = naive_attachment(y_true, y_pred, options.get("ignore"), options.get("sample_weight"))
        assert scores[-1] == pytest.approx(expected)
    assert len(set(scores)) == 4
    assert type(plain) is float


def test_labelled_attachment_counts_heads_with_their_labels():
    rng = np.random.default_rng(4)
    y_true, y_pred, ignore = random_heads(rng)
    trees = [[np.column_stack([h, rng.integers(0, 2, len(h))]) for h in y] for y in (y_true, y_pred)]
    right = [(a == b).all(axis=1) for a, b in zip(*trees, strict=True)]
    kept = [~own for own in ignore]
    expected = sum(r[k].sum() for r, k in zip(right, kept, strict=True)) / sum(k.sum() for k in kept)
    assert labeled_attachment_score(*trees, ignore=ignore) == pytest.approx(expected)
    assert labeled_attachment_score(*trees) < unlabeled_attachment_score(y_true, y_pred)
    named = [[[(h, "ab"[label]) for h, label in tree.tolist()] for tree in y] for y in trees]
    assert labeled_attachment_score(*named, ignore=ignore) == pytest.approx(expected)
    model = Parrot().fit(None, None)
    assert labeled_attachment_scorer(model, trees[1], trees[0]) == labeled_attachment_score(*trees)
    for wrong, message in (([[0, 1]], r"y_pred\[0\] must hold a pair"), ([[(3, 0), (0, 0)]], "has the head 3")):
        with pytest.raises(ValueError, match=message):
            labeled_attachment_score([[(0, 0), (1, 1)]], wrong)
    with pytest.raises(ValueError, match="y_true has no words"):
        labeled_attachment_score([], [])


def test_attachment_containers():
    y_true, y_pred, ignore = random_heads(np.random.default_rng(1))
    expected = unlabeled_attachment_score(y_true, y_pred, ignore=ignore)
    for wrap in (object_array, RaggedArray.from_list, lambda y: [s.tolist() for s in y]):
        assert unlabeled_attachment_score(wrap(y_true), wrap(y_pred), ignore=wrap(ignore)) == expected
    assert unlabeled_attachment_score(y_true, [np.uint8(h) for h in y_pred], ignore=ignore) == expected


@pytest.mark.parametrize(
    ("y_true", "y_pred", "options", "message"),
    [
        ([], [], {}, "y_true has no words"),
        ([[0, 1]], [[0]], {}, r"y_true\[0\] has 2 labels, but y_pred\[0\] has 1"),
        ([[0], [2, 0]], [[0], [3, 0]], {}, r"y_pred\[1\] has the head 3, but 2 words"),
        ([[0], [-1, 0]], [[0], [2, 0]], {}, r"y_true\[1\] has the head -1, but 2 words"),
        ([["NP"]], [[0]], {}, "y_true must hold heads, which are integers; got 'NP'"),
        ([[0]], [[0.0]], {}, "y_pred must hold heads, which are integers; got 0.0"),
        ([[0]], [[True]], {}, "y_pred must hold heads, which are integers; got True"),
        ([[0]], [[0]], {"ignore": [[True]]}, "no word is left"),
        ([[0], [0]], [[0], [0]], {"ignore": [[True], [False]], "sample_weight": [1, 0]}, "no word is left"),
        ([[0]], [[0]], {"ignore": [[1]]}, "ignore must hold True .* got 1"),
        ([[0]], [[0]], {"ignore": [[True, False]]}, r"y_true\[0\] has 1 labels, but ignore\[0\] has 2"),
        ([[0]], [[0]], {"ignore": []}, "y_true has 1 samples, but ignore has 0"),
        ([[0]], [[0]], {"sample_weight": [-1]}, r"sample_weight\[0\] is -1.* must be finite and not negative"),
    ],
)
def test_wrong_attachment_input(y_true, y_pred, options, message):
    with pytest.raises(ValueError, match=message):
        unlabeled_attachment_score(y_true, y_pred, **options)


def random_indicators(rng, n_samples=40, n_labels=6):
    y_true = (rng.random((n_samples, n_labels)) < 0.2).astype(int)
    y_pred = np.where(rng.random(y_true.shape) < 0.8, y_true, 1 - y_true)
    # Every kind of row: both empty, either empty, equal, disjoint.
    y_true[:5] = y_pred[:5] = 0
    y_true[1, 0] = y_pred[2, 0] = y_true[3, 1] = y_pred[3, 1] = y_true[4, 2] = y_pred[4, 3] = 1
    return y_true, y_pred


def test_example_f1_is_that_of_the_twin():
    rng = np.random.default_rng(0)
    for _ in range(5):
        y_true, y_pred = random_indicators(rng)
        weights = rng.integers(0, 4, len(y_true))
        scores = [example_f1_score(y_true, y_pred), example_f1_score(y_true, y_pred, sample_weight=weights)]
        expected = [naive_example_f1(y_true, y_pred), naive_example_f1(y_true, y_pred, weights)]
        for empty in (0.0, 0.25, None):
            zero_division = np.nan if empty is None else empty
            scores.append(example_f1_score(y_true, y_pred, sample_weight=weights, zero_division=zero_division))
            expected.append(naive_example_f1(y_true, y_pred, weights, empty))
        assert scores == pytest.approx(expected)
        assert len(set(scores)) == len(scores)


def test_example_f1_is_that_of_scikit_learn():
    y_true, y_pred = random_indicators(np.random.default_rng(1))
    for zero_division in (0.0, 1.0, np.nan):
        expected = f1_score(y_true, y_pred, average="samples", zero_division=zero_division)
        assert example_f1_score(y_true, y_pred, zero_division=zero_division) == pytest.approx(expected)
    kept = y_true.any(axis=1) | y_pred.any(axis=1)
    expected = f1_score(y_true[kept], y_pred[kept], average="samples")
    assert example_f1_score(y_true[kept], y_pred[kept]) == pytest.approx(expected)


def test_example_f1_containers():
    y_true, y_pred = random_indicators(np.random.default_rng(2))
    expected = example_f1_score(y_true, y_pred)
    assert type(expected) is float
    wraps = [np.ndarray.tolist, np.float32, np.bool_, sparse.csr_array, sparse.csc_matrix, sparse.coo_array]
    for wrap in wraps:
        assert example_f1_score(wrap(y_true), y_pred) == expected
        assert example_f1_score(y_true, wrap(y_pred)) == expected
        assert example_f1_score(wrap(y_true), wrap(y_pred)) == expected
    with_zeros = sparse.csr_array(np.ones_like(y_pred))
    with_zeros.data[:] = y_pred.ravel()
    assert example_f1_score(y_true, with_zeros) == expected
    assert with_zeros.nnz == y_pred.size


@pytest.mark.parametrize(
    ("y_true", "y_pred", "options", "message"),
    [
        ([[0, 1]], [[0, 1, 0]], {}, r"y_true has shape \(1, 2\), but y_pred has \(1, 3\)"),
        ([0, 1], [0, 1], {}, r"y_true must be an indicator matrix .* got shape \(2,\); make it by"),
        ([[0, 1]], [[0, 0.5]], {}, "y_pred must hold zeros and ones; apply a threshold to marginals first"),
        ([[0, 2]], [[0, 1]], {}, "y_true must hold zeros and ones"),
        ([[0, 1]], sparse.csr_array([[0, 2]]), {}, "y_pred must hold zeros and ones"),
        ([["a", "b"]], [[0, 1]], {}, "both be indicator matrices, or both hold collections of names"),
        (np.zeros((0, 2)), np.zeros((0, 2)), {}, "y_true has no samples"),
        ([[0]], [[0]], {"zero_division": np.nan}, "no sample is left to count"),
        ([[0]], [[0]], {"zero_division": "warn"}, "zero_division must be a number from 0 to 1, or nan"),
        ([[0]], [[0]], {"zero_division": 2}, "zero_division must be"),
        ([[0]], [[0]], {"sample_weight": [1, 2]}, "sample_weight has 2 entries for 1 samples"),
    ],
)
def test_wrong_example_f1_input(y_true, y_pred, options, message):
    with pytest.raises(ValueError, match=message):
        example_f1_score(y_true, y_pred, **options)


class Parrot(BaseEstimator):
    """Predicts its input."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return X


def test_scorers():
    y_true, y_pred = random_labels(np.random.default_rng(1), "OBI", ["X", "Y"])
    model = Parrot().fit(None, None)
    assert flat_accuracy_scorer(model, y_pred, y_true) == flat_accuracy_score(y_true, y_pred)
    assert sequence_accuracy_scorer(model, y_pred, y_true) == sequence_accuracy_score(y_true, y_pred)
    assert flat_f1_scorer(model, y_pred, y_true) == flat_f1_score(y_true, y_pred)
    assert span_f1_scorer(model, y_pred, y_true) == span_f1_score(y_true, y_pred)
    heads, predicted, _ = random_heads(np.random.default_rng(2))
    expected = unlabeled_attachment_score(heads, predicted)
    assert unlabeled_attachment_scorer(model, predicted, heads) == expected
    indicators, predicted = random_indicators(np.random.default_rng(3))
    assert example_f1_scorer(model, predicted, indicators) == example_f1_score(indicators, predicted)
    bools = predicted.astype(bool)
    assert parts_f1_scorer(model, bools, indicators) == parts_f1_score(indicators, bools) > 0


def test_parts_f1_equals_that_of_all_parts_in_one_row():
    rng = np.random.default_rng(0)
    y_true = [rng.random((int(n), 2)) < 0.3 for n in rng.integers(1, 6, 30)]
    y_pred = [y ^ (rng.random(y.shape) < 0.2) for y in y_true]
    weights = rng.random(30)
    rows = [np.concatenate([y.ravel() for y in side]) for side in (y_true, y_pred)]
    expected = f1_score(*rows, sample_weight=np.repeat(weights, [y.size for y in y_true]))
    assert 0.3 < expected < 0.9
    forms = [
        (y_true, y_pred),
        (object_array(y_true), object_array(y_pred)),
        # Zeros and ones on one side; lists; dicts by name.
        ([y.astype(int) for y in y_true], y_pred),
        ([y.tolist() for y in y_true], [y.astype(float) for y in y_pred]),
        ([{"a": y[:, 0], "b": y[:, 1]} for y in y_true], [{"a": y[:, 0], "b": y[:, 1].tolist()} for y in y_pred]),
        # Parts by number, as pairs, and as sets.
        ([np.flatnonzero(y) for y in y_true], [np.flatnonzero(y).tolist() for y in y_pred]),
        *[([kind(map(tuple, np.argwhere(y).tolist())) for y in y_true], [list(map(tuple, np.argwhere(y).tolist())) for
            y in y_pred]) for kind in (set, tuple)],
    ]  # fmt: skip
    for true, pred in forms:
        assert parts_f1_score(true, pred, sample_weight=weights) == pytest.approx(expected)
    assert parts_f1_score(y_true, y_true) == 1.0
    with pytest.raises(ValueError, match="all sample weights are zero"):
        parts_f1_score(y_true, y_pred, sample_weight=np.zeros(30))
    assert parts_f1_score([[], []], [[], []]) == 1.0
    assert parts_f1_score([[], [3]], [[2], []]) == 0.0
    assert parts_f1_score(np.zeros((2, 3), bool), np.zeros((2, 3), bool)) == 1.0


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message"),
    [
        ([[1]], [[1], [2]], "y_true has 1 samples, but y_pred has 2"),
        ([], [], "no samples"),
        ("ab", "ab", "y_true must be a sequence"),
        ([[1]], 3, "y_pred must be a sequence"),
        ([[1], [1, 0, 1]], [[1], [0, 1]], "sample 1: y_true has a part more than once; pass distinct parts"),
        ([["a"], "ab"], [["a"], ["b"]], "sample 1: y_true must be an array of bool, or a sequence of parts"),
        ([[1], [[1, 2]]], [[1], [3]], "sample 1: y_true is not an array of bool, and its parts are not hashable"),
        ([[True, False]], [[0, 2]], "sample 0: .* y_pred must hold zeros and ones"),
        ([[True, False]], [[True]], r"sample 0: y_true has shape \(2,\), but y_pred has \(1,\)"),
        ([{"a": [True]}], [{"b": [True]}], "sample 0: .* dicts, with the same keys"),
        ([{"a": [True]}], [[True]], "sample 0: .* dicts"),
    ],
)
def test_structures_that_parts_f1_cannot_compare(y_true, y_pred, message):
    with pytest.raises(ValueError, match=message):
        parts_f1_score(y_true, y_pred)


def test_parts_in_a_sparse_matrix_are_those_of_the_mask():
    y_true = np.array([[1, 0, 1], [0, 1, 0]])
    y_pred = np.array([[0, 0, 1], [0, 1, 1]])
    expected = parts_f1_score(y_true.astype(bool), y_pred)
    for pair in ((sparse.csr_array(y_true), y_pred), (sparse.coo_array(y_true), sparse.csr_array(y_pred))):
        assert parts_f1_score(*pair) == expected


def test_precision_at_k_is_that_of_the_twin():
    rng = np.random.default_rng(0)
    for k in (1, 3, 7):
        y_true, weights = (rng.random((25, 7)) < 0.3).astype(int), rng.uniform(0.5, 2.0, 25)
        # Some scores tie.
        scores, propensity = rng.integers(0, 5, (25, 7)) / 5.0, rng.uniform(0.1, 1.0, 7)
        for wrap in (np.asarray, sparse.csr_array):
            found = precision_at_k(wrap(y_true), scores, k, sample_weight=weights)
            assert found == pytest.approx(naive_precision_at_k(y_true, scores, k, weights=weights))
            found = propensity_scored_precision_at_k(wrap(y_true), scores, k, propensity, sample_weight=weights)
            assert found == pytest.approx(naive_precision_at_k(y_true, scores, k, propensity, weights))
    best = propensity_scored_precision_at_k(y_true, y_true / propensity, 3, propensity)
    assert best == pytest.approx(1.0)


def test_hierarchical_f1_is_that_of_the_twin():
    rng = np.random.default_rng(0)
    hierarchy = Hierarchy([None, 0, 1, None, 3, 3])
    above = {1: [0], 2: [1], 4: [3], 5: [3]}
    y_true, y_pred = (rng.random((2, 30, 6)) < 0.25).astype(int)
    expected = naive_hierarchical_f1(y_true, y_pred, above)
    assert expected > naive_hierarchical_f1(y_true, y_pred, {}) + 0.02
    for wrap in (np.asarray, sparse.csr_array, np.ndarray.tolist):
        assert hierarchical_f1_score(wrap(y_true), wrap(y_pred), hierarchy) == pytest.approx(expected)
    repeated = hierarchical_f1_score(np.repeat(y_true, 2, axis=0), np.repeat(y_pred, 2, axis=0), hierarchy)
    assert repeated == hierarchical_f1_score(y_true, y_pred, hierarchy, sample_weight=np.full(30, 2.0))
    samples = hierarchical_f1_score(y_true, y_pred, hierarchy, average="samples")
    assert samples == example_f1_score(hierarchy.close(y_true), hierarchy.close(y_pred))
    with pytest.raises(ValueError, match=r"hierarchy must be a .*Hierarchy; got None"):
        hierarchical_f1_score(y_true, y_pred, None)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: precision_at_k([[1, 0]], [[0.1]], 1), "y_true has shape .1, 2., but y_score has .1, 1."),
        (lambda: precision_at_k([[1, 0]], [[0.1, np.nan]], 1), "y_score.0. has NaN"),
        (lambda: precision_at_k([[1, 0]], [[0.1, 0.2]], 3), "k=3, but there are only 2 labels"),
        (lambda: precision_at_k([[1, 0]], [[0.1, 0.2]], 0), "k must be"),
        (lambda: precision_at_k(np.zeros((0, 2)), np.zeros((0, 2)), 1), "y_true has no samples"),
        (lambda: propensity_scored_precision_at_k([[1]], [[0.1]], 1, [0.0]), "propensity.0. is 0; propensities are"),
        (lambda: propensity_scored_precision_at_k([[1]], [[0.1]], 1, [1.0, 1.0]), "propensity has shape"),
        (lambda: propensity_scored_precision_at_k([[0]], [[0.1]], 1, [1.0]), "no sample has a label"),
        (lambda: hierarchical_f1_score([[0]], [[0]], Hierarchy([None])), "no gold and no predicted labels"),
        (lambda: hierarchical_f1_score([[0]], [[0], [1]], Hierarchy([None])), "y_true has shape"),
        (lambda: hierarchical_f1_score([[1]], [[0]], Hierarchy([None]), average="macro"), "average='macro' is not"),
    ],
)
def test_wrong_rankings_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_scorers_of_rankings_take_probabilities():
    X, Y = make_multilabel_classification(60, 5, n_classes=4, random_state=0)
    model = MultilabelLPSparseMAP().fit(X, Y)
    assert precision_at_3_scorer(model, X, Y) == precision_at_k(Y, model.predict_proba(X), 3)


def test_labels_of_spans_that_cannot_be_hashed_are_named():
    with pytest.raises(ValueError, match=r"must be strings such as 'B-NP' or 'O'; got \[1\]"):
        span_f1_score([["O", [1]]], [["O", "O"]])


def test_a_type_named_overall_is_refused():
    y_true, y_pred = [["B-overall", "B-X"]], [["O", "B-X"]]
    for labels in (None, ["overall"], ["X", "overall"]):
        with pytest.raises(ValueError, match=r"a type of spans has the name 'overall'.*span_f1_score"):
            span_precision_recall_f1(y_true, y_pred, labels=labels)
    assert span_precision_recall_f1(y_true, y_pred, labels=["X"])["overall"]["n_true"] == 1
    assert span_f1_score(y_true, y_pred) == pytest.approx(2 / 3)
    assert span_f1_score(y_true, y_pred, labels=["overall"]) == 0.0
