"""Unknown labels: None is left out by all metrics, and what looks like a label by mistake is refused."""

import numpy as np
import pytest
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, cross_val_score

import sklearn_sparsemap.metrics as metrics
from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    RaggedArray,
    StructuredSparseMAPClassifier,
    lp_sparsemap,
    map_inference,
    marginal_inference,
    n_best,
    sparsemap,
)
from sklearn_sparsemap.datasets import save_partition
from sklearn_sparsemap.factors import FactorGraph
from sklearn_sparsemap.features import TemplateVectorizer, TokenDictVectorizer
from sklearn_sparsemap.plotting import LabelConfusionDisplay
from sklearn_sparsemap.structures import LinearChain, Matching, Segmentation, SequenceBudget, Subset

IGNORED = {
    "leading": [[-100, 1, 0, 2], [0, 1, 2]],
    "in the middle": [[0, 1, -100, 2], [0, 1, 2]],
    "trailing": [[0, 1, 2, -100], [0, 1, 2]],
    "all of a sample": [[0, 1, 2, 0], [-100, -100, -100]],
    "subwords": [[-100, 1, -100, 0], [0, 2, -100]],
}


def features(y, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(len(own), 2)) for own in y]


def known(y):
    return [[max(int(label), 0) for label in own] for own in y]


# -- Labels that PyTorch ignores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IGNORED)
@pytest.mark.parametrize("form", [list, np.array, lambda own: np.array(own, float)])
def test_labels_that_pytorch_ignores_are_refused(name, form):
    y = [form(own) for own in IGNORED[name]] * 2
    X, message = features(y), r"y\[\d\] has the label -100 in step \d.*write None.*None if label == -100 else label"
    for structure in ("chain", Segmentation(4), SequenceBudget(3)):
        with pytest.raises(ValueError, match=message):
            StructuredSparseMAPClassifier(structure).fit(X, y)
    model = StructuredSparseMAPClassifier("chain", "crf").fit(X, known(y))
    for call in (
        lambda: GroupLassoPerceptron("chain").fit(X, y),
        lambda: StructuredSparseMAPClassifier("chain").partial_fit(X, y, classes=[0, 1, 2]),
        lambda: model.score(X, y),
        lambda: model.log_likelihood(X, y),
        lambda: StructuredSparseMAPClassifier("chain", early_stopping=True).fit(X, known(y), X_val=X, y_val=y),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"known\[\d\] has the label -100"):
        model.predict(X, known=y)
    with pytest.raises(ValueError, match="classes has the label -100"):
        StructuredSparseMAPClassifier("chain").partial_fit(X, known(y), classes=[0, 1, 2, -100])
    with pytest.raises(ValueError, match="has the label -100"):
        StructuredSparseMAPClassifier("chain").fit_partitions([(X, y)])
    # The remedy of the message.
    remedied = [[None if label == -100 else label for label in own] for own in y]
    assert -100 not in StructuredSparseMAPClassifier("chain").fit(X, remedied).classes_.tolist()


@pytest.mark.parametrize("metric", ["flat_accuracy_score", "flat_f1_score", "flat_classification_report",
                                    "sequence_accuracy_score", "unlabeled_attachment_score", "span_f1_score",
                                    "span_report"])  # fmt: skip
def test_labels_that_pytorch_ignores_are_refused_by_metrics(metric):
    for y in IGNORED.values():
        for y_true, y_pred, name in ((y, known(y), "y_true"), (known(y), y, "y_pred")):
            with pytest.raises(ValueError, match=rf"{name}\[\d\] has the label -100 in step \d"):
                getattr(metrics, metric)(y_true, y_pred)
        with pytest.raises(ValueError, match="has the label -100"):
            LabelConfusionDisplay.from_predictions(y, known(y))


@pytest.mark.parametrize(
    "structure, shape, y",
    [
        ("tree", (4, 3), [0, 1, -100]),
        ("matching", (3, 3), [0, 1, -100]),
        (Matching(), (2, 3), [-100, 1]),
        (Subset(1, 2), (3,), [0, 1, -100]),
    ],
)
def test_negative_codes_of_other_structures_are_no_class(structure, shape, y):
    X = [np.random.default_rng(0).normal(size=(*shape, 2))] * 2
    with pytest.raises(ValueError, match=r"y\[0\]"):
        StructuredSparseMAPClassifier(structure).fit(X, [y] * 2)
    graph = FactorGraph()
    graph.variables(3, name="u")
    with pytest.raises(ValueError, match=r"y\[0\]: u must hold"):
        StructuredSparseMAPClassifier(graph).fit([np.eye(3)] * 2, [[0, 1, -100]] * 2)


def test_minus_one_is_a_label_unless_it_pads():
    y = [[-1, 1, -1], [1, -1, 1, 1]]
    assert StructuredSparseMAPClassifier("chain").fit(features(y), y).classes_.tolist() == [-1, 1]
    with pytest.raises(ValueError, match="labels of -1, which look like padding"):
        StructuredSparseMAPClassifier("chain").fit(features([[0] * 3] * 2), [[0, 1, -1], [1, -1, -1]])
    # One label for each sample is what it is.
    assert StructuredSparseMAPClassifier().fit(np.eye(4), [-100, 0, -100, 0]).classes_.tolist() == [-100, 0]


# -- Metrics of unknown labels -----------------------------------------------------------------------------------------


def draw(seed, n=6):
    """Gold labels of which some are unknown, and predictions."""
    rng, labels = np.random.default_rng(seed), ["O", "B-X", "I-X", "B-Y", "I-Y"]
    lengths = rng.integers(1, 7, n)
    y_pred = [[labels[k] for k in rng.integers(5, size=length)] for length in lengths]
    y_true = [[label if rng.random() < 0.6 else labels[rng.integers(5)] for label in own] for own in y_pred]
    holes = [[None if rng.random() < 0.3 else label for label in own] for own in y_true]
    holes[0][0] = "O"
    return y_true, holes, y_pred, rng.integers(1, 5, n).astype(float)


def without_unknown(holes, *others):
    """The twin: sequences without the steps that are unknown."""
    kept = [[k for k, label in enumerate(own) if label is not None] for own in holes]
    return [[[own[k] for k in places] for own, places in zip(y, kept, strict=True)] for y in (holes, *others)]


@pytest.mark.parametrize("form", [list, lambda own: np.array(own, object)])
def test_flat_metrics_leave_unknown_labels_out(form):
    n_compared = 0
    for seed in range(20):
        _, holes, y_pred, weights = draw(seed)
        true, pred = without_unknown(holes, y_pred)
        n_compared += len(true) and holes != true
        holes = [form(own) for own in holes]
        for options in ({}, {"sample_weight": weights}):
            for metric in (metrics.flat_accuracy_score, metrics.flat_f1_score):
                assert metric(holes, y_pred, **options, **own_options(metric)) == pytest.approx(
                    metric(true, pred, **options, **own_options(metric))
                )
        report = {"zero_division": 0.0, "output_dict": True}
        assert metrics.flat_classification_report(holes, y_pred, **report) == metrics.flat_classification_report(
            true, pred, **report
        )
        by_step = np.repeat(weights, [len(own) for own in y_pred])
        kept = np.repeat(weights, [len(own) for own in true])
        assert metrics.flat_classification_report(holes, y_pred, sample_weight=by_step, **report) == (
            metrics.flat_classification_report(true, pred, sample_weight=kept, **report)
        )
        pairs = [(own, found) for own, found in zip(true, pred, strict=True) if own]
        right = np.array([own == found for own, found in pairs])
        counted = np.array([bool(own) for own in true])
        assert metrics.sequence_accuracy_score(holes, y_pred) == pytest.approx(right.mean())
        assert metrics.sequence_accuracy_score(holes, y_pred, weights) == pytest.approx(
            np.average(right, weights=weights[counted])
        )
    assert n_compared > 15


def test_confusions_leave_unknown_labels_out():
    _, holes, y_pred, _ = draw(0)
    true, pred = without_unknown(holes, y_pred)
    displays = [LabelConfusionDisplay.from_predictions(*pair) for pair in ((holes, y_pred), (true, pred))]
    np.testing.assert_array_equal(displays[0].matrix, displays[1].matrix)
    assert displays[0].matrix.sum() == sum(map(len, true)) > 0


def own_options(metric):
    return {"zero_division": 0.0} if metric is metrics.flat_f1_score else {}


def test_attachment_scores_leave_unknown_heads_out():
    y_true, y_pred = [[2, None, 2, None], [0]], [[2, 0, 1, 4], [0]]
    assert metrics.unlabeled_attachment_score(y_true, y_pred) == pytest.approx(2 / 3)
    assert metrics.unlabeled_attachment_score(y_true, y_pred, ignore=[[True, False, False, True], [False]]) == 0.5
    trees = [[(2, "a"), None, (2, None), (None, "b")], [(0, "c")]]
    found = [[(2, "a"), (0, "b"), (2, "x"), (1, "b")], [(0, "d")]]
    assert metrics.labeled_attachment_score(trees, found) == 0.5
    for y in ([[None]], [[None, None], [None]]):
        heads = [[0] * len(own) for own in y]
        with pytest.raises(ValueError, match="all labels of y_true are None"):
            metrics.unlabeled_attachment_score(y, heads)
        with pytest.raises(ValueError, match=r"y_pred\[0\] has a label of None, which is no prediction"):
            metrics.unlabeled_attachment_score(heads, y)


def spans_of(labels):
    """The twin: spans by the rules of conlleval, for labels B, I and O."""
    spans, start = [], None
    for k, label in enumerate([*labels, "O"]):
        before = labels[k - 1] if k else "O"
        ends = start is not None and (label[0] != "I" or label[1:] != before[1:])
        if ends:
            spans.append((start, k - 1, before[2:]))
            start = None
        if label[0] != "O" and start is None:
            start = k
    return spans


def test_spans_that_touch_unknown_labels_are_left_out():
    n_left_out = 0
    for seed in range(200):
        _, holes, y_pred, _ = draw(seed)
        counts = np.zeros(3)
        for own, found in zip(holes, y_pred, strict=True):
            unknown = [k for k, label in enumerate(own) if label is None]
            sides = []
            for labels in (["O" if label is None else label for label in own], found):
                spans = spans_of(labels)
                kept = [span for span in spans if not any(span[0] - 1 <= k <= span[1] + 1 for k in unknown)]
                n_left_out += len(spans) - len(kept)
                sides.append(set(kept))
            counts += len(sides[0]), len(sides[1]), len(sides[0] & sides[1])
        wanted = 2 * counts[2] / max(counts[0] + counts[1], 1)
        assert metrics.span_f1_score(holes, y_pred) == pytest.approx(wanted)
        report = metrics.span_report(holes, y_pred, output_dict=True)
        assert report["micro avg"]["support"] == counts[0]
        assert metrics.span_precision_recall_f1(holes, y_pred)["overall"]["n_pred"] == counts[1]
    assert n_left_out > 300
    assert metrics.span_f1_score([["B-A", None, "O", "B-B"]], [["B-A", "I-A", "O", "B-B"]], scheme="iob2") == 1.0


def test_scorers_leave_unknown_labels_out_as_score_does():
    y = [["O", None, "B-X", "I-X"], ["B-X", "O", None], [None, "O", "O"], ["O", "B-X", "O"]] * 2
    X = features(y)
    model = StructuredSparseMAPClassifier("chain")
    for name in ("flat_accuracy", "flat_f1", "sequence_accuracy", "span_f1"):
        scores = cross_val_score(model, X, y, scoring=getattr(metrics, f"{name}_scorer"), cv=KFold(2))
        assert np.isfinite(scores).all()
        if name == "flat_accuracy":
            np.testing.assert_allclose(scores, cross_val_score(model, X, y, cv=KFold(2)))
    fitted = model.fit(X, y)
    assert make_scorer(metrics.flat_accuracy_score)(fitted, X, y) == pytest.approx(fitted.score(X, y))


# -- Arrays and lists that say something else --------------------------------------------------------------------------

MASKED = np.ma.masked_array(np.eye(2), np.eye(2) > 0)
GRAPH = FactorGraph()
GRAPH.variables(3, name="u")


@pytest.mark.parametrize(
    "call",
    [
        lambda: map_inference(LinearChain(), MASKED),
        lambda: map_inference(LinearChain(), [MASKED, np.eye(2)]),
        lambda: sparsemap(LinearChain(), np.ma.masked_array(np.ones((2, 2, 2)), False)),
        lambda: map_inference(LinearChain(), np.eye(2), transitions=MASKED),
        lambda: lp_sparsemap(GRAPH, np.ma.masked_array(np.ones(3), [0, 0, 1])),
        lambda: sparsemap(LinearChain(), np.eye(2)).vjp(MASKED),
        lambda: StructuredSparseMAPClassifier("chain").fit([MASKED], [[0, 1]]),
        lambda: StructuredSparseMAPClassifier("chain").fit([np.eye(2)], [np.ma.masked_array([0, 1], [0, 1])]),
        lambda: StructuredSparseMAPClassifier().fit(MASKED, [0, 1]),
        lambda: StructuredSparseMAPClassifier().fit(np.eye(2), np.ma.masked_array([0, 1], [0, 1])),
        lambda: StructuredSparseMAPClassifier(GRAPH).fit([np.eye(3)], [{"u": np.ma.masked_array([1, 0, 1], False)}]),
        lambda: MultilabelLPSparseMAP().fit(MASKED, np.eye(2)),
        lambda: MultilabelLPSparseMAP().fit(np.eye(2), MASKED),
        lambda: RaggedArray(MASKED, [0, 2]),
        lambda: RaggedArray.from_list([MASKED]),
        lambda: metrics.flat_accuracy_score([np.ma.masked_array([0, 1], [0, 1])], [[0, 1]]),
        lambda: metrics.example_f1_score(MASKED, np.eye(2)),
        lambda: metrics.precision_at_k(np.eye(2), MASKED, 1),
        lambda: metrics.parts_f1_score([MASKED > 0], [np.eye(2) > 0]),
        lambda: save_partition("none.npz", MASKED, [0, 1]),
        lambda: TokenDictVectorizer().fit([[{"a": np.ma.masked_array([1.0, 2.0], [0, 1])}]]),
    ],
)
def test_masked_arrays_are_refused(call):
    with pytest.raises(ValueError, match=r"is a masked array, whose mask would be lost; fill it in by .*filled"):
        call()


ENDLESS = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "call",
    [
        lambda: map_inference(LinearChain(), ENDLESS),
        lambda: sparsemap(Segmentation(2), ENDLESS),
        lambda: marginal_inference(LinearChain(), (ENDLESS,)),
        lambda: n_best(LinearChain(), ENDLESS, 2),
        lambda: lp_sparsemap(GRAPH, ENDLESS),
        lambda: map_inference(LinearChain(), np.eye(2), transitions=ENDLESS),
        lambda: StructuredSparseMAPClassifier("chain").fit(ENDLESS, [[0]]),
        lambda: StructuredSparseMAPClassifier("chain").fit([np.eye(2)], ENDLESS),
        lambda: StructuredSparseMAPClassifier("chain").fit([np.eye(2)], [[0, 1]], sample_weight=ENDLESS),
        lambda: StructuredSparseMAPClassifier().fit(ENDLESS, ENDLESS),
        lambda: MultilabelLPSparseMAP().fit(np.eye(2), ENDLESS),
        lambda: TokenDictVectorizer().fit([[{"a": ENDLESS}]]),
        lambda: TokenDictVectorizer().fit(ENDLESS),
        lambda: TemplateVectorizer(["word[0]"]).fit(ENDLESS),
        lambda: RaggedArray.from_list(ENDLESS),
    ],
)
def test_lists_that_contain_themselves_are_refused(call):
    with pytest.raises(ValueError):
        call()


def test_messages_name_the_remedy():
    chain, X = StructuredSparseMAPClassifier("chain"), [np.eye(2)] * 2
    tree, arcs = StructuredSparseMAPClassifier("tree"), [np.random.default_rng(0).normal(size=(4, 3, 2))] * 2
    series = [np.arange(5.0)] * 2
    for call, message in (
        (lambda: chain.fit(X, [[0, 1], None]), r"y\[1\] is None; .* write \[None\] \* 2"),
        (lambda: chain.fit(series, [[0] * 5, [1] * 5]), r"X\[0\]\[:, None\]"),
        (lambda: chain.fit((x for x in X), [[0, 1]] * 2), r"write list\(X\)"),
        (lambda: chain.fit(X, (y for y in [[0, 1]] * 2)), r"write list\(y\)"),
        (lambda: tree.fit(arcs, [[2, 2, 2]] * 2), "word 2 is its own head: .* the head of a sentence's root is 0"),
        (lambda: tree.fit(arcs, [["2", "0", "2"]] * 2), r"write heads as ints: \[int\(head\) for head in heads\]"),
        (lambda: tree.fit(arcs, [[2.0, 0.0, 2.0]] * 2), r"write heads as ints"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    rows, limited = [np.ones((3, 2))] * 2, StructuredSparseMAPClassifier(Segmentation(1))
    for model in (limited, StructuredSparseMAPClassifier("chain", constraints=[(0, 0), (1, 0), (0, 1)])):
        with pytest.raises(ValueError, match=r"no structure agrees with the known labels of y\[0\]") as raised:
            model.fit(rows, [[0, None, 1], [1, 0, 1] if model is limited else [1, 1, 1]])
        # Users of an estimator give no scores.
        assert "-inf" not in str(raised.value)


def test_values_of_arrow():
    arrow = pytest.importorskip("pyarrow")
    X, y = [np.eye(2)] * 2, [["a", "b"], ["b", "a"]]
    chain = StructuredSparseMAPClassifier("chain")
    for given in ([arrow.array(own) for own in y], [list(arrow.array(own)) for own in y], arrow.array(y)):
        assert chain.fit(X, given).classes_.tolist() == ["a", "b"]
        assert chain.score(X, given) == chain.score(X, y)
        assert metrics.flat_accuracy_score(given, y) == 1.0
    assert StructuredSparseMAPClassifier().fit(np.eye(2), list(arrow.array(["a", "b"]))).classes_.tolist() == ["a", "b"]
    tokens = [[{"w": arrow.scalar("x"), "n": arrow.scalar(2.0)}]]
    assert TokenDictVectorizer().fit(tokens).get_feature_names_out().tolist() == ["w:x", "n"]
    words = TemplateVectorizer(["word[0]"]).fit([[{"word": arrow.scalar("x")}]])
    assert words.get_feature_names_out().tolist() == ["word[0]=x"]


# -- Segmentations -----------------------------------------------------------------------------------------------------


def runs(n, length):
    return [np.repeat(np.arange(n) % 2, length)] * 4


def test_predictions_whose_spans_reach_the_limit_warn():
    y = runs(4, 8)
    rng = np.random.default_rng(0)
    X = [own[:, None] + 0.1 * rng.normal(size=(len(own), 1)) for own in y]
    longer = [own[:, None] + 0.1 * rng.normal(size=(len(own), 1)) for own in runs(3, 30)]
    model = StructuredSparseMAPClassifier(Segmentation(10), "crf").fit(X, y)
    model.predict(X)
    message = r"predicted spans reach max_length=10 in 2 of 3 samples, first in X\[1\]; .*open_ended=True"
    with pytest.warns(UserWarning, match=message):
        model.predict([X[0], *longer[:2]])
    opened = StructuredSparseMAPClassifier(Segmentation(10, open_ended=True), "crf").fit(X, y)
    assert opened.predict(longer)[0].tolist() == np.repeat([0, 1, 0], 30).tolist()
    copy = StructuredSparseMAPClassifier.from_arrays(opened.to_arrays())
    assert copy._structure == Segmentation(10, open_ended=True) != Segmentation(10)
    np.testing.assert_array_equal(copy.predict_marginals(longer)[0], opened.predict_marginals(longer)[0])
    for samples in opened.sample(longer[:1], n_samples=3, random_state=0)[0]:
        assert len(samples) == 90


def test_an_open_ended_duration_of_long_sequences():
    # A longest span of one step is then the chain, with durations of single steps and of others.
    rng = np.random.default_rng(0)
    scores, durations = rng.normal(size=(400, 3)), np.zeros((1, 3))
    chain = marginal_inference(LinearChain(), scores)
    found = marginal_inference(Segmentation(1, open_ended=True), scores, durations=durations)
    np.testing.assert_allclose(found.marginals, chain.marginals, atol=1e-9)
    assert found.log_partition == pytest.approx(chain.log_partition)
    with pytest.raises(ValueError, match="open_ended needs parts='steps'"):
        Segmentation(2, "spans", open_ended=True)
    with pytest.raises(ValueError, match="open_ended must be True or False"):
        Segmentation(2, open_ended=1)


def test_durations_are_assigned_like_transitions():
    y = runs(4, 3)
    X = [own[:, None] + 0.0 for own in y]
    model = StructuredSparseMAPClassifier(Segmentation(4, open_ended=True), "crf").fit(X, y)
    durations = np.zeros((4, 2))
    durations[2] = -np.inf
    model.durations_ = durations
    np.testing.assert_array_equal(model.durations_, durations)
    np.testing.assert_array_equal(model.additional_scores_["durations"], durations)
    predicted = model.predict([np.zeros((12, 1))])[0]
    assert 3 not in np.diff(np.flatnonzero(np.concatenate([[1], np.diff(predicted) != 0, [1]])))
    with pytest.raises(ValueError, match="durations_ must have shape"):
        model.durations_ = durations[:2]
    with pytest.raises(AttributeError, match="durations_ is not learned"):
        StructuredSparseMAPClassifier("chain").fit(X, y).durations_ = durations
