"""The pictures show what they are given: every arc, path, frame and bar, its label, and nothing on top of another."""

import sys
from itertools import combinations, pairwise

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.patches import Circle, Polygon
from pictures import assert_nothing_overlaps, texts_of, visible_texts
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP, StructuredSparseMAPClassifier, lp_sparsemap, sparsemap
from sklearn_sparsemap.factors import (
    AndOut,
    AtMostOne,
    Budget,
    FactorGraph,
    Implies,
    Imply,
    Knapsack,
    Or,
    OrOut,
    Pair,
    PairTable,
    StructureFactor,
    Xor,
)
from sklearn_sparsemap.inspection import explain, label_table
from sklearn_sparsemap.plotting import (
    ChainDisplay,
    ConvergenceDisplay,
    FactorGraphDisplay,
    MatchingDisplay,
    PartsDisplay,
    RankingDisplay,
    SegmentationDisplay,
    TreeDisplay,
)
from sklearn_sparsemap.structures import DependencyTree, LinearChain, Matching, Ranking, Segmentation, Subset

WORDS = "The old man saw a girl with the telescope .".split()
GOLD = [3, 3, 4, 0, 6, 4, 4, 9, 7, 4]
OTHER = [3, 3, 4, 0, 6, 4, 6, 9, 7, 4]
THIRD = [2, 4, 2, 0, 6, 4, 6, 9, 7, 4]
CURVE = {"n_iter": [1, 2], "objective": [0, 1], "gap": [2, 1], "n_structures": [1, 2]}
STRUCTURES = {
    "tree": (DependencyTree(), (6, 5), TreeDisplay),
    "chain": (LinearChain(), (6, 4), ChainDisplay),
    "matching": (Matching(), (4, 5), MatchingDisplay),
    "segmentation": (Segmentation(3), (6, 3), SegmentationDisplay),
    "subset": (Subset(1, 3), (6,), PartsDisplay),
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("kind", STRUCTURES)
def test_a_result_its_pairs_and_its_pieces_make_one_picture(kind):
    structure, shape, Display = STRUCTURES[kind]
    result = sparsemap(structure, np.random.default_rng(1).normal(size=shape))
    pairs = list(zip(result.structures, result.weights.tolist()))
    displays = [
        Display.from_result(result),
        Display.from_predictions(pairs, marginals=result.marginals, ax=plt.figure().subplots()),
        Display.from_predictions(
            result.structures[::-1], result.weights[::-1], marginals=result.marginals, ax=plt.figure().subplots()
        ),
    ]
    assert len(result.weights) > 1
    for display in displays:
        np.testing.assert_allclose(display.marginals, result.marginals, atol=1e-9)
        np.testing.assert_array_equal(display.weights, result.weights)
        for found, expected in zip(display.structures, result.structures, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert texts_of(display.legend_) == texts_of(displays[0].legend_)
        assert display.figure_ is display.ax_.figure


@pytest.mark.parametrize("kind", STRUCTURES)
def test_marginals_are_those_of_the_mixture_unless_given(kind):
    structure, shape, Display = STRUCTURES[kind]
    result = sparsemap(structure, np.random.default_rng(2).normal(size=shape))
    names = {"matching": {"col_names": "abcde"}, "subset": {"names": "abcdef"}, "chain": {"labels": [0, 1, 2, 3]}}
    display = Display(result.structures, result.weights, **names.get(kind, {}))
    np.testing.assert_allclose(display.marginals, result.marginals, atol=1e-9)
    flat = np.full(shape, 0.25)
    assert (Display(result.structures, result.weights, marginals=flat).marginals == 0.25).all()


@pytest.mark.parametrize("kind", STRUCTURES)
def test_draws_into_given_axes(kind):
    structure, shape, Display = STRUCTURES[kind]
    result = sparsemap(structure, np.random.default_rng(3).normal(size=shape))
    figure, axes = plt.subplots(1, 2, figsize=(12, 4))
    display = Display.from_predictions(result, ax=axes[1])
    assert display.ax_ is axes[1] and display.figure_ is figure
    assert not axes[0].lines and not axes[0].patches and not axes[0].texts
    assert plt.get_fignums() == [figure.number]
    # A display can be plotted again, elsewhere.
    assert display.plot().ax_ is not axes[1]


@pytest.mark.parametrize("kind", [kind for kind in STRUCTURES if kind != "segmentation"])
def test_the_less_probable_are_one_group(kind):
    structure, shape, Display = STRUCTURES[kind]
    result = sparsemap(structure, 0.3 * np.random.default_rng(4).normal(size=shape))
    n = len(result.weights)
    assert n > 3
    display = Display.from_predictions(result, max_structures=2)
    labels = [label for label in texts_of(display.legend_) if label != "in all"]
    assert labels[:2] == [f"p = {weight:.2f}" for weight in result.weights[:2]]
    assert labels[2] == f"p = {result.weights[2:].sum():.2f}  ({n - 2} others)" and len(labels) == 3
    with pytest.raises(ValueError, match="max_structures must be a positive int"):
        display.plot(max_structures=0)


def test_trees_have_their_arcs_and_labels():
    display = TreeDisplay.from_predictions([(GOLD, 0.55), (OTHER, 0.33), (THIRD, 0.12)], words=WORDS)
    arcs = {(head, m + 1) for tree in (GOLD, OTHER, THIRD) for m, head in enumerate(tree)}
    assert set(display.arcs_) == arcs
    arrows = [patch for patch in display.ax_.patches if isinstance(patch, Polygon)]
    assert len(arrows) == len(arcs) and len(display.ax_.lines) == sum(map(len, display.arcs_.values()))
    # One strand for each tree that has the arc, or a single one if all have it.
    assert len(display.arcs_[0, 4]) == 1 and len(display.arcs_[4, 7]) == 1 and len(display.arcs_[6, 7]) == 2
    certain, doubtful = display.arcs_[4, 6][0], display.arcs_[4, 7][0]
    assert certain.get_linewidth() > doubtful.get_linewidth()
    assert certain.get_color() != doubtful.get_color()
    texts = [text.get_text() for text in display.ax_.texts]
    assert [text for text in texts if text in WORDS] == WORDS
    assert texts.count("root") == 1 and texts.count("0.55") == 1 and texts.count("0.88") == 3
    assert texts_of(display.legend_) == ["p = 0.55", "p = 0.33", "p = 0.12", "in all"]


def test_arcs_run_from_head_to_modifier_within_the_axes():
    display = TreeDisplay.from_predictions([(GOLD, 0.6), (OTHER, 0.4)], words=WORDS)
    place = {text.get_text(): text.get_position()[0] for text in display.ax_.texts}
    x, y = display.arcs_[9, 8][0].get_data()
    assert abs(x[0] - place["telescope"]) < abs(x[0] - place["with"])
    assert x[0] > x[-1] and y.max() > y[0]
    (left, right), (bottom, top) = display.ax_.get_xlim(), display.ax_.get_ylim()
    for line in display.ax_.lines:
        x, y = line.get_data()
        assert left < x.min() and x.max() < right and bottom < y.min() and y.max() < top


def test_the_right_tree_hangs_below():
    display = TreeDisplay.from_predictions([(OTHER, 1.0)], words=WORDS, y_true=GOLD)
    above = {line for strands in display.arcs_.values() for line in strands}
    below = [line for line in display.ax_.lines if line not in above]
    assert len(below) == len(GOLD) == len(above)
    assert max(line.get_ydata().max() for line in below) < min(line.get_ydata().min() for line in above)
    assert texts_of(display.legend_) == ["truth"]


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_trees_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(len(WORDS) + 1, len(WORDS)))
    result = sparsemap(DependencyTree(single_root=bool(seed % 2)), scores)
    words = [f"{word}\nX" for word in WORDS] if seed else WORDS
    display = TreeDisplay.from_predictions(result, words=words, y_true=GOLD)
    # Labels of arcs may touch; those of words and of the legend never do.
    figure = display.figure_
    for text in list(display.ax_.texts):
        if text.get_path_effects():
            text.set_visible(False)
    assert_nothing_overlaps(figure)


def test_arc_labels_do_not_overlap():
    assert_nothing_overlaps(
        TreeDisplay.from_predictions([(GOLD, 0.55), (OTHER, 0.33), (THIRD, 0.12)], words=WORDS, y_true=GOLD).figure_
    )


def test_trees_shrink_into_small_axes():
    _, ax = plt.subplots(figsize=(3, 2))
    display = TreeDisplay.from_predictions([(GOLD, 0.6), (OTHER, 0.4)], words=WORDS, ax=ax)
    sizes = {text.get_fontsize() for text in ax.texts if text.get_text() in WORDS}
    assert len(sizes) == 1 and sizes.pop() < 8
    assert_nothing_overlaps(display.figure_)


def test_dollars_are_no_formulas():
    figure = TreeDisplay.from_predictions([([0, 1], 1.0)], words=["$a", "b$"]).figure_
    assert {"$a", "b$"} <= {text for text, _ in visible_texts(figure)}


@pytest.mark.parametrize(("n", "limit"), [(5, 24), (12, 24), (26, 52)])
def test_trees_with_many_ties_are_limited(n, limit):
    rng = np.random.default_rng(0)
    words = np.arange(n)
    trees = [(words + 1 + rng.integers(1, n + 1, size=n)) % (n + 1) for _ in range(40)]
    weights = np.linspace(2, 1, 40) / 60
    display = TreeDisplay(trees, weights)
    everything = display.plot(max_arcs=n * n + 1)
    probability = {arc: display.marginals[arc[0], arc[1] - 1] for arc in everything.arcs_}
    assert len(probability) > limit and len(texts_of(everything.legend_)) == 5
    display.plot()
    shown = set(display.arcs_)
    first = {(int(head), m + 1) for m, head in enumerate(trees[0])}
    assert len(shown) == limit and first <= shown
    left = max(p for arc, p in probability.items() if arc not in shown)
    assert all(probability[arc] >= left for arc in shown - first)
    left = f"{left:.2f}"
    assert texts_of(display.legend_)[-1] == f"{len(probability) - limit} arcs up to {left} not drawn"
    assert max(display.figure_.get_size_inches()) < 12 if n < 26 else True
    with pytest.raises(ValueError, match="max_arcs must be a positive int; got 0"):
        display.plot(max_arcs=0)


def test_chains_have_their_paths():
    labels = ["sun", "rain", "snow"]
    paths = [(["sun", "rain", "rain"], 0.7), (["sun", "sun", "rain"], 0.3)]
    display = ChainDisplay.from_predictions(paths, labels=labels, words=["Mon", "Tue", "Wed"], y_true=["sun"] * 3)
    ax = display.ax_
    assert [text.get_text() for text in ax.get_yticklabels()] == labels
    assert [text.get_text() for text in ax.get_xticklabels()] == ["Mon", "Tue", "Wed"]
    rows = [line.get_ydata().round().astype(int).tolist() for line in display.paths_]
    assert rows == [[0, 1, 1], [0, 0, 1]]
    first, second = display.paths_
    assert first.get_linewidth() > second.get_linewidth() and first.get_zorder() > second.get_zorder()
    # Cells that are exactly zero are empty.
    empty = [[False, False, True], [True, False, False], [True, True, True]]
    np.testing.assert_array_equal(ax.images[0].get_array().mask, empty)
    assert sorted(text.get_text() for text in ax.texts) == ["0.30", "0.70", "1.00", "1.00"]
    assert ax.get_ylim() == (2.5, -0.5)
    assert texts_of(display.legend_) == ["p = 0.70", "p = 0.30", "truth"]
    assert_nothing_overlaps(display.figure_)


def test_names_of_states_are_strokes_and_numbers_are_lines():
    numbers = ChainDisplay([([0, 2, 0], 0.6), ([0, 1, 0], 0.4)]).plot()
    assert all(line.get_marker() == "o" for line in numbers.paths_) and not numbers.ax_.collections
    names = ChainDisplay([(list("aca"), 0.6), (list("aba"), 0.4)], labels=list("abc")).plot()
    assert len(names.ax_.collections) == 2
    strokes = names.ax_.collections[0].get_segments()
    assert [segment[:, 1].round().astype(int).tolist() for segment in strokes] == [[0, 0], [2, 2], [0, 0]]
    assert all(thin.get_linewidth() < 0.5 * thick.get_linewidth() for thin, thick in zip(names.paths_, numbers.paths_))


@pytest.mark.parametrize(
    ("n", "lengths", "labels"),
    [
        (5, [5], ["sun", "rain", "snow"]),
        (12, [12], ["sun", "rain", "snow"]),
        (13, [7, 6], ["sun", "rain", "snow"]),
        (50, [10] * 5, ["sun", "rain", "snow"]),
        # Lines do not depend on the names of states.
        (12, [12], None),
        (49, [10] * 4 + [9], None),
    ],
)
def test_long_chains_are_wrapped_into_lines(n, lengths, labels):
    rng = np.random.default_rng(0)
    paths = [(rng.integers(0, 3, n), 0.6), (rng.integers(0, 3, n), 0.4)]
    named = [([labels[i] for i in path], p) for path, p in paths] if labels else paths
    words = [f"word {i}" for i in range(n)]
    truth = named[0][0]
    display = ChainDisplay(named, labels=labels, words=words, y_true=truth).plot()
    axes = np.ravel(display.ax_)
    first = 0
    for k, (ax, length) in enumerate(zip(axes, lengths, strict=True)):
        steps = np.arange(first, first + length)
        assert [text.get_text() for text in ax.get_xticklabels()] == words[first : first + length]
        np.testing.assert_allclose(ax.images[0].get_array().filled(0.0), display.marginals[steps].T)
        # Cells are as wide in all lines.
        assert ax.get_xlim() == (-0.5, lengths[0] - 0.5)
        for line, (path, _) in zip(display.paths_[2 * k : 2 * k + 2], paths, strict=True):
            x = line.get_xdata()
            assert set(range(length)) <= set(x.tolist())
            np.testing.assert_array_equal(line.get_ydata().round(), path[first + x])
            # It goes on towards the next line.
            assert (x[-1] == length) == (first + length < n) and (x[0] == -1) == (first > 0)
        first += length
    assert texts_of(display.legend_) == ["p = 0.60", "p = 0.40", "truth"]
    if labels:
        assert_nothing_overlaps(display.figure_)
    one = display.plot(max_steps=None)
    assert isinstance(one.ax_, plt.Axes) and len(one.paths_) == 2


def test_lines_of_a_chain_divide_given_axes():
    figure, (left, right) = plt.subplots(1, 2)
    display = ChainDisplay([(np.zeros(20, int), 1.0)]).plot(right)
    assert len(display.ax_) == 2 and display.figure_ is figure and not left.lines and not right.lines
    assert ChainDisplay([(np.zeros(20, int), 1.0)]).plot(max_steps=5, ax=figure.subplots(4)).ax_.shape == (4,)
    with pytest.raises(ValueError, match="ax must be 2 axes, or one"):
        ChainDisplay([(np.zeros(20, int), 1.0)]).plot(figure.subplots(1, 3))
    with pytest.raises(ValueError, match="max_steps must be a positive int; got 0"):
        ChainDisplay([(np.zeros(20, int), 1.0)]).plot(max_steps=0)


def test_long_sequences_are_cut_with_a_note():
    # Few more than the steps that are drawn by default: 60 of a chain, 100 of a segmentation.
    path = np.arange(120) // 7 % 3
    display = ChainDisplay([(path, 0.7), (path[::-1], 0.3)])
    for options, shown, note in (
        ({}, range(60), "only steps 1 to 60 of 120 are drawn"),
        ({"start": 80, "max_lines": 2, "max_steps": 10}, range(80, 100), "only steps 81 to 100 of 120 are drawn"),
        ({"start": 110}, range(110, 120), "only steps 111 to 120 of 120 are drawn"),
        ({"max_lines": 9, "max_steps": 50}, range(120), None),
    ):
        axes = np.ravel(display.plot(**options).ax_)
        words = [label.get_text() for ax in axes for label in ax.get_xticklabels()]
        assert words == [str(step + 1) for step in shown]
        assert texts_of(display.legend_) == ["p = 0.70", "p = 0.30", *([note] if note else [])]
        plt.close(display.figure_)
    spans = [[0, 103, 0], [103, 107, 1], [107, 120, 2]]
    for structure in (spans, np.repeat([0, 1, 2], [103, 4, 13])):
        strips = SegmentationDisplay([(structure, 1.0)])
        for options, blocks in (
            ({}, [(0, 100)]),
            ({"start": 98, "max_steps": 10}, [(0, 5), (5, 4), (9, 1)]),
            ({"max_steps": None}, [(0, 103), (103, 4), (107, 13)]),
        ):
            drawn = strips.plot(**options).blocks_[0]
            assert [(round(bar.get_x() + 0.5), round(bar.get_width())) for bar in drawn] == blocks
            notes = [text for text in texts_of(strips.legend_) if "are drawn" in text]
            assert len(notes) == (options != {"max_steps": None})
            plt.close(strips.figure_)
    for wrong in (-1, 120, 0.5):
        with pytest.raises(ValueError, match="start must be a step, an int from 0 to 119"):
            display.plot(start=wrong)


@pytest.mark.parametrize("n", [5, 12, 50])
def test_probabilities_of_rankings_do_not_overlap(n):
    rng, base = np.random.default_rng(0), np.arange(n)
    rankings = [rng.permutation(base[:3]).tolist() + base[3:].tolist() for _ in range(8)]
    display = RankingDisplay(rankings, [0.6, 0.3, 0.08, 0.004, 0.004, 0.004, 0.004, 0.004]).plot()
    assert isinstance(display.ax_, plt.Axes) and len(display.ax_.texts) > n
    assert_nothing_overlaps(display.figure_)


def test_probabilities_of_cells_keep_away_from_lines():
    rng = np.random.default_rng(0)
    for _ in range(3):
        display = ChainDisplay([(path, 1 / 3) for path in rng.integers(0, 6, size=(3, 6))])
        ax = display.plot().ax_
        display.figure_.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        lines = [line.get_transform().transform(line.get_xydata()) for line in display.paths_]
        # One of the four corners is mostly free; where lines cross in a cell none may be.
        crossed = 0
        for box in boxes:
            inner = box.padded(-0.2 * box.height)
            along = np.linspace(0, 1, 60)[:, None]
            points = np.concatenate([a + along * (b - a) for line in lines for a, b in pairwise(line)])
            crossed += bool(inner.count_contains(points))
        assert len(boxes) > 10 and crossed <= 0.25 * len(boxes)


def test_states_without_probability_can_be_left_out():
    display = ChainDisplay(sparsemap(LinearChain(), [[0.0, 9.0, 0.0, 8.5], [0.0, 9.0, 0.0, 0.0]]), labels="abcd")
    assert [text.get_text() for text in display.plot().ax_.get_yticklabels()] == list("abcd")
    display.plot(all_states=False)
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["b", "d"]
    assert [line.get_ydata().round().tolist() for line in display.paths_] == [[0.0, 0.0], [1.0, 0.0]]


def test_matchings_have_their_frames():
    columns = ["this", "is", "wider", "than", "a cell"]
    alignments = [([0, 1, 2], 0.5), ([0, 2, 1], 0.3), ([0, 4, 3], 0.2)]
    display = MatchingDisplay.from_predictions(alignments, col_names=columns, y_true=[1, 0, 2])
    pairs = [[(round(f.get_y() + 0.3), round(f.get_x() + 0.3)) for f in frames] for frames in display.outlines_]
    assert pairs == [[(1, 1), (2, 2)], [(1, 2), (2, 1)], [(1, 4), (2, 3)], [(0, 0)]]
    assert texts_of(display.legend_) == ["p = 0.50", "p = 0.30", "p = 0.20", "in all", "truth"]
    marks = [patch for patch in display.ax_.patches if isinstance(patch, Polygon)]
    assert len(marks) == 3
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == columns
    written = sorted(text.get_text() for text in display.ax_.texts)
    assert written == ["0.20"] * 2 + ["0.30"] * 2 + ["0.50"] * 2 + ["1.00"]
    assert_nothing_overlaps(display.figure_)


@pytest.mark.parametrize(
    "display",
    [
        MatchingDisplay([([0, 1], 1.0)], col_names=["a very, very long name", "b"]),
        PartsDisplay([([0, 1], 1.0)], names=["a very, very long name, and some more", "b"]),
        ChainDisplay([([0, 1], 1.0)], words=["a very, very long name, and some more", "b"]),
    ],
)
def test_long_names_are_set_aslant(display):
    labels = display.plot().ax_.get_xticklabels()
    assert [label.get_rotation() for label in labels] == [45.0, 45.0]
    legend, label = display.legend_.get_window_extent(), labels[0].get_window_extent()
    assert legend.y1 <= label.y0 or label.y0 > display.ax_.get_window_extent().y0


def test_rows_without_a_column_have_no_frame():
    display = MatchingDisplay.from_predictions([([0, -1, 1], 1.0)])
    assert len(display.outlines_[0]) == 2 and display.marginals.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_frames_in_one_cell_are_nested():
    display = MatchingDisplay.from_predictions([([0, 1, 2], 0.5), ([0, 2, 1], 0.3), ([1, 0, 2], 0.2)])
    outer, inner = display.outlines_[0][0], display.outlines_[1][0]
    assert outer.get_bbox().x0 < inner.get_bbox().x0 and inner.get_bbox().x1 < outer.get_bbox().x1


def test_bars_are_stacked_to_the_marginals():
    structures = [([True, True, False], 0.75), ([False, True, False], 0.25)]
    display = PartsDisplay.from_predictions(structures, names=["tea", "milk", "juice"], y_true=[1])
    heights = np.array([[bar.get_height() for bar in bars] for bars in display.bars_])
    np.testing.assert_allclose(heights, [[0.75, 0.75, 0.0], [0.0, 0.25, 0.0]])
    np.testing.assert_allclose(display.bars_[1][1].get_y(), 0.75)
    hatches = {bars[0].get_hatch() for bars in display.bars_}
    assert len(hatches) == 2
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["tea", "milk", "juice"]
    assert_nothing_overlaps(display.figure_)


def test_bars_take_classes_and_other_marginals():
    display = PartsDisplay([(2, 0.5), (0, 0.5)])
    assert display.marginals.tolist() == [0.5, 0.0, 0.5]
    display = PartsDisplay.from_predictions([(2, 0.5), (0, 0.5)], marginals=[0.25, 0.0, 0.75])
    tops = sum(np.array([bar.get_height() for bar in bars]) for bars in display.bars_)
    np.testing.assert_allclose(tops, [0.25, 0.0, 0.75])


def test_structures_of_probability_zero_are_not_drawn():
    display = TreeDisplay.from_predictions([([0, 1], 0.5), ([2, 0], 0.5), ([0, 0], 0.0)])
    assert len(display.structures) == 2 and texts_of(display.legend_) == ["p = 0.50", "p = 0.50"]


class Estimator:
    """Answers as an estimator does, for one sample."""

    classes_ = np.array(["a", "b"])

    def predict_structures(self, X):
        assert len(X) == 1
        return [[(np.array(["a", "b"]), 0.75), (np.array(["b", "b"]), 0.25)]]

    def predict_marginals(self, X):
        return [np.array([[0.75, 0.25], [0.0, 1.0]])]


def test_from_an_estimator_by_what_it_can_do():
    display = ChainDisplay.from_estimator(Estimator(), [[1.0]], ["a", "a"])
    assert display.labels == ["a", "b"] and display.y_true.tolist() == [0, 0]
    assert [path.tolist() for path in display.structures] == [[0, 1], [1, 1]]
    with pytest.raises(ValueError, match="have predict_structures; object has no predict_structures"):
        ChainDisplay.from_estimator(object(), [[1.0]])
    tree = StructuredSparseMAPClassifier("tree").fit([np.eye(2)], [[0]])
    with pytest.raises(ValueError, match="made of labels, but the estimator has no classes_"):
        ChainDisplay.from_estimator(tree, np.eye(2))


def test_rankings_are_paths_over_places_and_items():
    items = ["tea", "milk", "juice", "water", "beer"]
    result = sparsemap(Ranking(), [0.2, 0.9, 0.4, 1.1, -0.5])
    display = RankingDisplay.from_predictions(result, items=items, y_true=[3, 1, 2, 0, 4])
    places = np.zeros((5, 5))
    for ranking, weight in zip(result.structures, result.weights, strict=True):
        places[np.arange(5), ranking] += weight
    order = [items.index(name) for name in display.items]
    np.testing.assert_allclose(display.marginals, places[:, order])
    np.testing.assert_allclose((4 - np.arange(5)) @ display.marginals, result.marginals[order], atol=1e-9)
    assert [display.items[i] for i in display.y_true] == ["water", "milk", "juice", "tea", "beer"]
    assert (np.diff(np.arange(5) @ display.marginals) >= -1e-12).all()
    assert len(display.paths_) == len(result.weights) and texts_of(display.legend_)[-1] == "truth"
    top = RankingDisplay([([2, 0], 0.5), ([2, 1], 0.5)], items="abcd")
    assert top.items[0] == "c" and top.items[-1] == "d" and top.marginals.shape == (2, 4)


def test_labelled_trees_name_their_arcs():
    labels = ["root", "subj", "obj"]
    one, other = [[2, 1], [0, 0], [2, 2]], [[2, 2], [0, 0], [1, 2]]
    display = TreeDisplay.from_predictions([(one, 0.75), (other, 0.25)], words="abc", labels=labels, y_true=one)
    assert_nothing_overlaps(display.figure_)
    assert display.marginals[:, 2].tolist() == [0.0, 0.25, 0.75, 0.0]
    written = [text.get_text() for text in display.ax_.texts]
    assert {"subj/obj", "root", "obj 0.75", "obj 0.25", "subj", "obj"} <= set(written)
    result = sparsemap(DependencyTree(n_labels=3), np.random.default_rng(3).normal(size=(4, 3, 3)))
    np.testing.assert_allclose(TreeDisplay(result).marginals, result.marginals.sum(axis=-1))
    with pytest.raises(ValueError, match="the labels of arcs are 3 ints from 0 to 2"):
        TreeDisplay([[[2, 3], [0, 0], [2, 2]]], [1.0], labels=labels)


def test_segmentations_are_strips_of_blocks():
    rng, structure = np.random.default_rng(4), Segmentation(3, "spans")
    result = sparsemap(structure, rng.normal(size=(7, 3, 2)))
    display = SegmentationDisplay.from_predictions(result, y_true=[[0, 3, 1], [3, 5, 0], [5, 7, 1]], words="abcdefg")
    assert_nothing_overlaps(display.figure_)
    assert display.marginals.shape == (7, 2)
    np.testing.assert_allclose(display.marginals.sum(axis=1), 1.0)
    alone = SegmentationDisplay(result.structures, result.weights)
    np.testing.assert_allclose(alone.marginals, display.marginals, atol=1e-9)
    drawn = [[(round(b.get_x() + 0.5), round(b.get_width())) for b in strip] for strip in display.blocks_]
    shown = [[[0, 3, 1], [3, 5, 0], [5, 7, 1]], *result.structures[:4]]
    assert drawn == [[(i, j - i) for i, j, _ in np.array(spans).tolist()] for spans in shown]
    assert [t.get_text() for t in display.ax_.get_yticklabels()][0 :: len(drawn)] == ["truth", "marginals"]
    names = SegmentationDisplay.from_predictions([(["x", "x", "y"], 1.0)], labels=["x", "y"])
    assert [b.get_width() for b in names.blocks_[0]] == [2.0, 1.0] and texts_of(names.legend_) == ["x", "y"]


@pytest.mark.parametrize(
    "structure, shape, y, Display, names",
    [
        ("chain", (2, 3), [["a", "b"], ["b", "a"]], ChainDisplay, {"words": ["x", "y"]}),
        ("tree", (6, 3), [np.array([0, 1]), np.array([2, 0])], TreeDisplay, {"words": ["x", "y"]}),
        ("matching", (2, 3, 3), [np.array([0, 2]), np.array([1, 0])], MatchingDisplay, {"row_names": ["x", "y"]}),
    ],
)
def test_from_a_fitted_estimator(structure, shape, y, Display, names):
    X = list(np.random.default_rng(0).normal(size=(2, *shape)))
    model = StructuredSparseMAPClassifier(structure, alpha=0.5).fit(X, y)
    display = Display.from_estimator(model, X[0], y[0], **names)
    np.testing.assert_allclose(display.marginals, model.predict_marginals([X[0]])[0])
    np.testing.assert_allclose(display.weights, [p for _, p in model.predict_structures([X[0]])[0]])
    assert texts_of(display.legend_)[-1] == "truth"
    search = GridSearchCV(model, {"alpha": [0.5]}, cv=[([0, 1], [0, 1])]).fit(X, y)
    for draw in (Display.from_estimator, explain):
        for several in (X[:1], X, np.array(X)[:1]):
            with pytest.raises(ValueError, match=f"^x is a sequence of samples, {len(several)} in all; pass a single"):
                draw(search, several)
        with pytest.raises(ValueError, match=r"^x (has|contains)") as error:
            draw(model, np.full(np.shape(X[0]), np.nan)[..., :1])
        assert "X[" not in str(error.value)


def test_batches_are_refused_with_a_remedy():
    results, graph = sparsemap(LinearChain(), np.ones((2, 4, 3))), matching_graph(2, 2)
    for draw in (ChainDisplay.from_result, MatchingDisplay.from_result, ChainDisplay):
        for several in (results, list(results)):
            with pytest.raises(ValueError, match=r"the result of sparsemap for one sample, such as results\[0\]"):
                draw(several)
    several = lp_sparsemap(graph, np.ones((2, *graph.shapes[graph.names[0]])))
    with pytest.raises(ValueError, match=r"the result of lp_sparsemap for one sample, such as results\[0\]"):
        FactorGraphDisplay.from_result(several)
    with pytest.raises(ValueError, match=r"marginals of .* must be an array of numbers"):
        FactorGraphDisplay(graph, several.marginals)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TreeDisplay([], []), "no structures to draw"),
        (lambda: TreeDisplay([[0, 1]]), "or a list of structures with their weights; got .* without weights"),
        (lambda: TreeDisplay(5, [0.5]), "structures must be the result of sparsemap"),
        (lambda: TreeDisplay([[0, 1]], [0.5, 0.5]), r"there are 1 structures, but weights of shape \(2,\)"),
        (lambda: TreeDisplay([[0, 1]], [1.5]), "weights are probabilities"),
        (lambda: TreeDisplay([[0, 1]], [np.nan]), "weights are probabilities"),
        (lambda: TreeDisplay([[0, 3]], [1.0]), "a tree is 2 ints from 0 .* to 2"),
        (lambda: TreeDisplay([[0, 2]], [1.0]), "no word is its own head"),
        (lambda: TreeDisplay([[0, 1], [0]], [0.5, 0.5]), r"a tree is 2 ints .*; got \[0\]"),
        (lambda: TreeDisplay([[0, 1]], [1.0], words=["a"]), "words must be 2 names"),
        (lambda: TreeDisplay([[0, 1]], [1.0], y_true=[0]), "y_true: a tree is 2 ints"),
        (lambda: TreeDisplay([[0, 1]], [1.0], marginals=np.ones((2, 2))), r"\(2, 2\); these structures need \(3, 2\)"),
        (lambda: TreeDisplay(sparsemap(DependencyTree(), np.ones((3, 2))), [1.0]), "a result brings its own weights"),
        (lambda: ChainDisplay([["a", "b"]], [1.0]), "a path is 2 ints"),
        (lambda: ChainDisplay([["a", "c"]], [1.0], labels=["a", "b"]), "'c' is not among the labels"),
        (
            lambda: ChainDisplay([[0, 1]], [1.0], labels=[0, 1], marginals=np.ones((2, 3))),
            r"shape \(2, 3\); .* need \(2, 2\)",
        ),
        (lambda: SegmentationDisplay([[[0, 2, 0], [1, 3, 1]]], [1.0]), "spans follow each other from step 0 to step 3"),
        (lambda: SegmentationDisplay([[[0, 2, 2]]], [1.0], labels="ab"), "ints from 0 below 2"),
        (lambda: RankingDisplay([[0, 0]], [1.0]), "each item is ranked once"),
        (lambda: RankingDisplay([[0, 2]], [1.0], items="ab"), "below 2"),
        (lambda: MatchingDisplay([[0, 3]], [1.0], col_names="abc"), "an alignment is 2 ints from -1 below 3"),
        (lambda: PartsDisplay([[True, False], [True]], [0.5, 0.5]), "there are 2 parts"),
        (lambda: PartsDisplay([[3]], [1.0], names="abc"), "there are 3 parts"),
        (lambda: PartsDisplay(["ab"], [1.0]), "a bool array, or indices"),
        (lambda: ConvergenceDisplay({}), "no curves"),
        (lambda: ConvergenceDisplay({"cg": {"n_iter": [1]}}), r"curves\['cg'\] lacks 'objective'"),
        (lambda: ConvergenceDisplay({"cg": {**CURVE, "n_iter": [2, 1]}}), "must increase"),
        (lambda: ConvergenceDisplay({"cg": {**CURVE, "gap": [1]}}), "must be of one length"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_solvers_converge_in_the_picture():
    scores = np.random.default_rng(0).normal(size=(9, 8))
    solvers = ("active_set", "pairwise", "cg")
    grid = np.unique(np.geomspace(2, 200, 40).round().astype(int)).tolist()
    results = {
        solver: [sparsemap(DependencyTree(), scores, solver=solver, max_iter=k) for k in grid] for solver in solvers
    }
    display = ConvergenceDisplay.from_result(results)
    assert list(display.lines_) == list(display.curves) == list(solvers)
    best = sparsemap(DependencyTree(), scores)
    np.testing.assert_allclose(display.best_objective, best.objective)
    for solver in solvers:
        curve, distance = display.curves[solver], display.distance(solver)
        assert (np.diff(curve["n_iter"]) > 0).all() and curve["n_iter"][-1] <= 200
        assert (distance >= 0).all() and (distance <= display.distance(solver, "gap") + 1e-9).all()
        left, right = display.lines_[solver]
        np.testing.assert_array_equal(right.get_ydata(), curve["n_structures"])
        assert (left.get_ydata() > 0).all()
    assert display.curves["active_set"]["n_iter"][-1] == best.n_iter
    assert display.curves["active_set"]["n_structures"][-1] == len(best.weights)
    assert display.distance("active_set")[-1] < 1e-9 < display.distance("cg")[-1]
    assert texts_of(display.legend_) == ["active set", "pairwise", "conditional gradient"]
    assert_nothing_overlaps(display.figure_)


def test_convergence_takes_one_or_two_axes():
    results = [sparsemap(LinearChain(), np.eye(4), solver="cg", max_iter=k) for k in (2, 4, 8)]
    figure, axes = plt.subplots(1, 2)
    display = ConvergenceDisplay.from_result({"mine": results}, quantity="gap", ax=axes)
    assert display.figure_ is figure and display.ax_[0] is axes[0] and axes[0].get_ylabel() == "duality gap"
    # One is divided.
    assert len(display.plot(ax=plt.figure().subplots()).ax_) == 2
    with pytest.raises(ValueError, match="ax must be 2 axes, or one, which is divided; got 3 axes"):
        display.plot(ax=plt.figure().subplots(1, 3))
    with pytest.raises(ValueError, match="quantity='loss' is not one of"):
        display.plot(quantity="loss")


def matching_graph(n_rows=3, n_cols=4):
    graph = FactorGraph()
    u = graph.variables((n_rows, n_cols), name="links")
    graph.add(*[Xor(row) for row in u], *[AtMostOne(column) for column in u.T])
    return graph


def mixed_graph():
    """A graph of every kind of factor, on three arrays of variables that belong together."""
    graph = FactorGraph()
    u, on, more = graph.variables((4, 3), name="shift"), graph.variables(4, name="on"), graph.variables(3, name="k")
    graph.add(*[OrOut([*u[i], on[i]]) for i in range(4)], *[Xor(column) for column in u.T])
    graph.add(*[AndOut([u[0, j], ~u[2, j], more[j]]) for j in range(3)])
    graph.add(Imply([u[0, 0], ~u[1, 2]]), Pair(u[:-1], u[1:], name="pairs", tied=True), Knapsack(on, [1, 2, 3, 4], 5.5))
    return graph


def flat_graph():
    graph = FactorGraph()
    u = graph.variables(6)
    graph.add(Pair(u[:-1], u[1:], name="pairs"), Imply([u[0], u[3], ~u[5]]), Budget(u, 3), OrOut([~u[1], u[2], ~u[4]]))
    return graph


def structure_graph():
    graph = FactorGraph()
    u = graph.variables((4, 3))
    graph.add(StructureFactor(DependencyTree(), u), *[Budget(row, 1) for row in u[1:]])
    return graph


def crowded_graph():
    """A graph with four factors on each row and on each column."""
    graph = FactorGraph()
    u = graph.variables((3, 3))
    for line in (*u, *u.T):
        graph.add(Or(line), AtMostOne([line[0], ~line[1], line[2]]), Budget(line, 2), OrOut(line))
    return graph


GRAPHS = {f.__name__: f for f in (matching_graph, mixed_graph, flat_graph, structure_graph, crowded_graph)}


def literals_of(graph):
    """Return the literals of each factor that is no pair."""
    return [factor.literals for factor in graph.factors if not isinstance(factor, Pair)]


@pytest.mark.parametrize("layout", ["grid", "distance"])
@pytest.mark.parametrize("make", GRAPHS.values(), ids=GRAPHS)
def test_graphs_are_drawn_as_they_are(make, layout):
    graph = make()
    display = FactorGraphDisplay(graph).plot(layout=layout)
    centers = np.array([circle.get_center() for circle in display.circles_])
    radius = display.circles_[0].get_radius()
    assert len(centers) == graph.n_variables
    apart = np.linalg.norm(centers[:, None] - centers, axis=2) + 1e9 * np.eye(len(centers))
    assert apart.min() > 2 * radius

    assert len(display.boxes_) == len(display.lines_) == len(literals_of(graph))
    for k, (box, lines, literals) in enumerate(zip(display.boxes_, display.lines_, literals_of(graph))):
        corner = np.array(box.get_xy())
        middle = corner + [box.get_width() / 2, box.get_height() / 2]
        nearest = np.clip(centers, corner, 2 * middle - corner)
        assert np.linalg.norm(centers - nearest, axis=1).min() > radius, "a box is on a circle"
        if k in display.frames_:
            frame = display.frames_[k].get_bbox()
            inside = [frame.contains(*center) for center in centers[literals.indices]]
            assert not lines and all(inside)
            continue
        # Each variable has a line that ends at its rim; one at least comes from the box, the others may branch off it.
        assert len(lines) == literals.size
        ends = np.array([line.get_xydata()[-1] for line in lines])
        np.testing.assert_allclose(np.linalg.norm(ends - centers[literals.indices], axis=1), radius, rtol=1e-4)
        starts = np.array([line.get_xydata()[0] for line in lines])
        assert (np.abs(starts - middle) <= middle - corner).all(axis=1).any()
    pairs = [factor.literals.indices.reshape(-1, 2) for factor in graph.factors if isinstance(factor, Pair)]
    pairs = np.concatenate([*pairs, np.zeros((0, 2), int)])
    assert len(display.pairs_) == len(pairs)
    for line, ends in zip(display.pairs_, pairs):
        found = line.get_xydata()[[0, -1]]
        np.testing.assert_allclose(np.linalg.norm(found - centers[ends], axis=1), radius, rtol=1e-4)
    boxes = [box.get_bbox() for box in display.boxes_]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    if layout != "distance" or graph.n_variables < 12:
        assert_nothing_overlaps(display.figure_)
    # The same each time, and the one or the other by itself.
    if layout == ("distance" if make is flat_graph else "grid"):
        again = FactorGraphDisplay(make()).plot()
        np.testing.assert_array_equal(centers, [circle.get_center() for circle in again.circles_])


@pytest.mark.parametrize("make", [mixed_graph, crowded_graph])
def test_lanes_keep_off_the_circles(make):
    display = FactorGraphDisplay(make()).plot()
    straight = [
        line
        for lines, factor in zip(display.lines_, [f for f in display.graph.factors if not isinstance(f, Pair)])
        if not isinstance(factor, Implies)
        for line in lines
    ]
    centers, radius = [circle.get_center() for circle in display.circles_], display.circles_[0].get_radius()
    assert len(straight) > 20
    for line in straight:
        corners = line.get_xydata()
        # Along rows and columns only.
        assert (np.abs(np.diff(corners, axis=0)).min(axis=1) < 1e-9).all()
        points = np.concatenate([np.linspace(a, b, 200) for a, b in pairwise(corners)])
        assert np.linalg.norm(points[:, None] - centers, axis=2).min() > radius - 1e-6


def test_circles_are_shaded_by_their_marginals():
    graph = matching_graph()
    result = lp_sparsemap(graph, np.random.default_rng(0).normal(size=(3, 4)))
    display = FactorGraphDisplay.from_result(result)
    np.testing.assert_array_equal(display.marginals, result.marginals.ravel())
    light = np.array([sum(to_rgb(circle.get_facecolor())) for circle in display.circles_])
    assert (np.diff(light[np.argsort(display.marginals)]) <= 1e-9).all()
    zero = display.marginals == 0
    assert zero.any() and (light[zero] == 3.0).all() and (light[~zero] < 3.0).all()
    texts = [text.get_text() for text in display.ax_.texts]
    assert (
        texts.count("Exactly 1") == 3
        and texts.count("Exclusive") == 4
        and texts.count("1, 3") == 1
        and "links[1, 3]" in display.names
    )
    numbers = [f"{u:.2f}" for u in display.marginals if u >= 0.005]
    assert sorted(numbers) == sorted(text for text in texts if text[:2] == "0.")
    assert display.legend_ is None
    assert_nothing_overlaps(display.figure_)
    # Rounding leaves none.
    assert not FactorGraphDisplay(graph, np.full((3, 4), 1e-11)).marginals.any()


def test_variables_of_several_values_are_one_circle_each():
    graph = FactorGraph()
    u, w = graph.categorical((2, 3), 4, name="pixel"), graph.variables(2, name="w")
    graph.add(PairTable(u[:-1], u[1:], name="down"), PairTable(u[:, :-1], u[:, 1:], name="across", tied=True))
    graph.add(Budget([w[0], w[1], u[0, 0, 0]], 1))
    tables = {"down": np.random.default_rng(0).normal(size=(1, 3, 4, 4)), "across": np.eye(4)}
    scores = {"pixel": np.eye(4)[[[0, 1, 2], [3, 2, 1]]], "w": np.zeros(2)}
    display = FactorGraphDisplay(graph, {"pixel": scores["pixel"], "w": np.ones(2)}, additional=tables).plot()
    assert display.names == [*(f"pixel[{i}, {j}]" for i in range(2) for j in range(3)), "w[0]", "w[1]"]
    assert len(display.circles_) == 8 and len(display.tables_) == 3 + 4 and display.pairs_ == []
    assert len(display.boxes_) == 1 and len(display.lines_[0]) == 3
    written = [text.get_text() for text in display.ax_.texts]
    assert [written.count(f"= {value}") for value in range(4)] == [1, 2, 2, 1]


def test_a_result_and_its_pieces_make_one_picture():
    graph = mixed_graph()
    rng = np.random.default_rng(0)
    scores = {name: rng.normal(size=shape) for name, shape in graph.shapes.items()}
    result = lp_sparsemap(graph, scores, additional={"pairs": -0.5})
    displays = [
        FactorGraphDisplay.from_result(result),
        FactorGraphDisplay(result).plot(),
        FactorGraphDisplay(graph, result.marginals, additional={"pairs": -0.5}).plot(),
    ]
    for display in displays:
        assert display.pair_scores == [-0.5] * 9
        np.testing.assert_array_equal(display.marginals, displays[0].marginals)
        assert texts_of(display.legend_) == ["repel", "negated", "output"]
        assert [c.get_facecolor() for c in display.circles_] == [c.get_facecolor() for c in displays[0].circles_]


def test_negations_and_outputs_are_marked():
    display = FactorGraphDisplay(flat_graph(), additional={"pairs": [1.0, -2.0, 0.5, 0.0, 1.0]}).plot()
    dots = [patch for patch in display.ax_.patches if isinstance(patch, Circle) and patch not in display.circles_]
    arrows = [patch for patch in display.ax_.patches if isinstance(patch, Polygon)]
    assert len(dots) == 3 and len(arrows) == 2
    centers = np.array([circle.get_center() for circle in display.circles_])
    radius, dot = display.circles_[0].get_radius(), dots[0].get_radius()
    for patch, variable in zip(dots, (5, 1, 4)):
        apart = np.linalg.norm(patch.get_center() - centers[variable])
        np.testing.assert_allclose(apart, radius + dot, rtol=0.02)
    assert texts_of(display.legend_) == ["attract", "repel", "negated", "output"]
    widths = [line.get_linewidth() for line in display.pairs_]
    assert np.argsort(widths)[-1] == 1 and widths[3] < widths[2] < widths[0] == widths[4]
    colors = {line.get_color() for line in display.pairs_}
    assert len(colors) == 2 and display.pairs_[1].get_color() != display.pairs_[0].get_color()
    # Without scores, no signs.
    display = FactorGraphDisplay(flat_graph()).plot()
    assert display.pair_scores is None and len({line.get_color() for line in display.pairs_}) == 1


def test_graphs_in_which_all_pairs_are_joined_are_circles():
    graph = FactorGraph()
    u = graph.variables(7)
    i, j = np.triu_indices(7, 1)
    graph.add(Pair(u[i], u[j], name="pairs"))
    display = FactorGraphDisplay(graph).plot()
    centers = np.array([circle.get_center() for circle in display.circles_])
    radii = np.linalg.norm(centers - centers.mean(axis=0), axis=1)
    np.testing.assert_allclose(radii, radii[0])
    assert all(len(line.get_xdata()) == 2 for line in display.pairs_)


def test_parts_of_a_graph_stand_apart():
    graph = FactorGraph()
    u, v, _ = graph.variables(3), graph.variables(2), graph.variables(1)
    graph.add(Xor(u), Or(v))
    display = FactorGraphDisplay(graph, names=list("abcdef")).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert set("abcdef") <= set(texts) and display.legend_ is None
    assert_nothing_overlaps(display.figure_)


def test_graphs_shrink_into_small_axes():
    figure, axes = plt.subplots(1, 2, figsize=(5, 2))
    display = FactorGraphDisplay(mixed_graph()).plot(ax=axes[1])
    assert display.ax_ is axes[1] and display.figure_ is figure and not axes[0].patches
    left, right = axes[1].get_xlim()
    bottom, top = axes[1].get_ylim()
    for circle in display.circles_:
        x, y = circle.get_center()
        assert left < x < right and bottom < y < top
    assert max(text.get_fontsize() for text in axes[1].texts) < 6
    figure.delaxes(axes[0])
    assert_nothing_overlaps(figure)


def test_large_graphs_are_refused():
    with pytest.raises(ValueError, match=r"has 210 variables and 29 factors; .* 200 and 400 cannot be read.*heatmap"):
        FactorGraphDisplay(matching_graph(14, 15)).plot()
    graph = FactorGraph()
    u = graph.variables(30)
    i, j = np.triu_indices(30, 1)
    graph.add(Pair(u[i], u[j], name="pairs"))
    with pytest.raises(ValueError, match="has 30 variables and 435 factors"):
        FactorGraphDisplay(graph).plot()
    FactorGraphDisplay(matching_graph(10, 20)).plot()


DAYS, STAFF = ["Mon", "Tue", "Wed"], ["Ann", "Bob", "Eve", "Max"]


def shift_graph():
    """A schedule of three axes, and a row of days."""
    graph = FactorGraph()
    shift, opened = graph.variables((3, 2, 4), name="shift"), graph.variables(3, name="open")
    graph.add(*[OrOut([*shift[day].ravel(), opened[day]]) for day in range(3)])
    return graph


def test_schedules_are_heat_maps():
    graph = shift_graph()
    rng = np.random.default_rng(0)
    marginals = {"shift": rng.random((3, 2, 4)) * (rng.random((3, 2, 4)) < 0.6), "open": np.array([1.0, 0.25, 0.0])}
    axis_names = {"shift": (DAYS, ["am", "pm"], STAFF), "open": [DAYS]}
    display = FactorGraphDisplay(graph, marginals, axis_names=axis_names).plot(layout="heatmap")
    first, second = display.images_
    np.testing.assert_allclose(first.get_array().filled(0.0), marginals["shift"].reshape(6, 4))
    np.testing.assert_allclose(second.get_array().filled(0.0), marginals["open"][None])
    names = [[text.get_text() for text in axis.get_ticklabels()] for ax in display.ax_ for axis in (ax.yaxis, ax.xaxis)]
    assert names == [[f"{day} {time}" for day in DAYS for time in ("am", "pm")], STAFF, ["open"], DAYS]
    assert [text.get_text() for text in display.ax_[1].texts] == ["1.00", "0.25"]
    assert display.circles_ == display.boxes_ == [] and display.legend_ is None
    assert_nothing_overlaps(display.figure_)
    # The same from a result, in one part of a figure, with indices for names.
    result = lp_sparsemap(graph, {"shift": rng.normal(size=(3, 2, 4)), "open": np.zeros(3)})
    figure, (left, right) = plt.subplots(1, 2)
    again = FactorGraphDisplay.from_result(result, layout="heatmap", ax=right)
    assert again.figure_ is figure and not left.images
    np.testing.assert_allclose(again.images_[0].get_array().filled(0.0), result.marginals["shift"].reshape(6, 4))
    assert [text.get_text() for text in again.ax_[0].get_yticklabels()][:3] == ["0, 0", "0, 1", "1, 0"]


def test_large_schedules_are_heat_maps():
    u = np.random.default_rng(0).random((7, 3, 20))
    graph = FactorGraph()
    graph.variables((7, 3, 20))
    display = FactorGraphDisplay(graph, u).plot(layout="heatmap")
    assert isinstance(display.ax_, plt.Axes) and len(display.ax_.texts) == u.size
    assert_nothing_overlaps(display.figure_)
    named = FactorGraphDisplay(graph, u, axis_names=("abcdefg", "xyz", range(20))).plot(layout="heatmap")
    assert named.ax_.get_yticklabels()[4].get_text() == "b y"


def test_schedules_of_people_have_a_row_for_each():
    graph = FactorGraph()
    graph.variables((3, 5, 2), name="works")
    u = np.random.default_rng(0).random((3, 5, 2))
    days = ["Mon", "Tue", "Wed", "Thu", "Fri"]
    names = {"works": (["Ann", "Ben", "Cem"], days, ["early", "late"])}
    display = FactorGraphDisplay(graph, u, axis_names=names).plot(layout="heatmap")
    np.testing.assert_allclose(display.images_[0].get_array().filled(0.0), u.reshape(3, 10))
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == names["works"][0]
    columns = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert columns == [f"{day}\n{time}" for day in days for time in ("early", "late")]
    assert_nothing_overlaps(display.figure_)


@pytest.mark.parametrize("is_constant", [False, True])
def test_graphs_of_estimators(is_constant):
    rng = np.random.default_rng(0)
    graph = matching_graph(2, 3)
    X = [rng.normal(size=(6, 2)) for _ in range(30)]
    best = [x[:, 0].reshape(2, 3) for x in X]
    y = [
        np.isin(np.arange(6).reshape(2, 3), [b[0].argmax(), 3 + np.delete(np.arange(3), b[0].argmax())[0]])
        for b in best
    ]
    graph.add(Pair(graph[graph.names[0]][0], graph[graph.names[0]][1], name="same", tied=True))
    model = StructuredSparseMAPClassifier(graph if is_constant else lambda x: graph, alpha=0.01).fit(X, y)
    marginals = model.predict_marginals(X[:1])[0]
    display = FactorGraphDisplay.from_estimator(model, X[0], layout="heatmap", axis_names=(["a", "b"], "xyz"))
    np.testing.assert_allclose(display.images_[0].get_array().filled(0.0), np.asarray(marginals).reshape(2, 3))
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["x", "y", "z"]
    shown = FactorGraphDisplay.from_estimator(model, X[0])
    assert len(shown.circles_) == 6 and shown.pair_scores == [float(model.additional_scores_["same"])] * 3
    shaped = FactorGraphDisplay.from_estimator(model, X[0].reshape(2, 3, 2))
    np.testing.assert_array_equal(shaped.marginals, shown.marginals)
    chain = StructuredSparseMAPClassifier("chain").fit(X[:2], [[0, 1] * 3, [1, 0] * 3])
    with pytest.raises(ValueError, match=r"the structures of the estimator are no factor graphs; .* 'chain'"):
        FactorGraphDisplay.from_estimator(chain, X[0])
    # Without a fixed shape, a single sample in a list is a grid.
    for several in (X[: 1 if is_constant else 2], X, np.array(X)[:2]):
        with pytest.raises(ValueError, match=f"^x is a sequence of samples, {len(several)} in all; pass a single one"):
            FactorGraphDisplay.from_estimator(model, several)
    pairs = StructuredSparseMAPClassifier(lambda x, graph: graph).fit([(x, graph) for x in X], y)
    drawn = FactorGraphDisplay.from_estimator(pairs, (X[0].tolist(), graph))
    np.testing.assert_array_equal(drawn.marginals, pairs.predict_marginals([(X[0], graph)])[0].ravel())
    with pytest.raises(ValueError, match=r"^x is a sequence of samples, 1 in all"):
        FactorGraphDisplay.from_estimator(pairs, [(X[0], graph)])
    with pytest.raises(ValueError, match=r"^x: the function `structure` failed on this sample: TypeError"):
        FactorGraphDisplay.from_estimator(pairs, X[0])


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: FactorGraphDisplay([1.0]),
            r"graph must be a FactorGraph, or the result of lp_sparsemap .*; got \[1.0\]",
        ),
        (lambda: FactorGraphDisplay(FactorGraph()), "no variables to draw"),
        (lambda: FactorGraphDisplay(matching_graph(), np.zeros(3)), r"shape \(3,\); .* have \(3, 4\)"),
        (lambda: FactorGraphDisplay(matching_graph(), np.full((3, 4), 2.0)), "from 0 to 1; got 2 to 2"),
        (lambda: FactorGraphDisplay(matching_graph(), {"u": 0}), "no array named 'links'"),
        (lambda: FactorGraphDisplay(mixed_graph(), np.zeros(3)), "must be a dict with one array for each"),
        (lambda: FactorGraphDisplay(flat_graph(), additional={"pairs": [1.0]}), r"there must be \(5,\) pair scores"),
        (lambda: FactorGraphDisplay(matching_graph(), names=["a"]), "names must be 12 names"),
        (lambda: FactorGraphDisplay(matching_graph()).plot(layout="round"), "layout='round' is not one of"),
        (lambda: FactorGraphDisplay(matching_graph()).plot(layout="heatmap"), "a heat map shows marginals"),
        (lambda: FactorGraphDisplay(shift_graph(), axis_names=[DAYS]), r"must be a dict .* \['shift', 'open'\]"),
        (lambda: FactorGraphDisplay(shift_graph(), axis_names={"u": [DAYS]}), "has 'u'; the graph has"),
        (
            lambda: FactorGraphDisplay(matching_graph(), np.zeros((3, 4)), axis_names=[DAYS]).plot(layout="heatmap"),
            "axis_names of 'links' must be 2 lists",
        ),
        (
            lambda: FactorGraphDisplay(matching_graph(), np.zeros((3, 4)), axis_names=[DAYS, DAYS]).plot(
                layout="heatmap"
            ),
            "axis_names of 'links' for axis 1 must be 4 names; got 3",
        ),
        (
            lambda: FactorGraphDisplay(lp_sparsemap(matching_graph(), np.ones((3, 4))), np.zeros((3, 4))),
            "a result brings its own marginals",
        ),
    ],
)
def test_wrong_graphs_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("line", ["raise ImportError('libcudart.so')", "import another_absent_library"])
def test_errors_of_a_library_that_is_installed_are_kept(line, tmp_path, monkeypatch):
    display = FactorGraphDisplay(flat_graph())
    (tmp_path / "networkx.py").write_text(line)
    for name in list(sys.modules):
        if name.partition(".")[0] == "networkx":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"libcudart|another_absent_library") as caught:
        display.plot()
    assert "not installed" not in str(caught.value)


@pytest.mark.parametrize(
    ("library", "make"),
    [
        ("matplotlib", lambda: TreeDisplay([[0, 1]], [1.0])),
        ("matplotlib", lambda: ChainDisplay([[0, 1]], [1.0])),
        ("matplotlib", lambda: RankingDisplay([[1, 0]], [1.0])),
        ("matplotlib", lambda: SegmentationDisplay([[[0, 2, 0]]], [1.0])),
        ("matplotlib", lambda: MatchingDisplay([[0, 1]], [1.0])),
        ("matplotlib", lambda: PartsDisplay([[True, False]], [1.0])),
        ("matplotlib", lambda: ConvergenceDisplay({"facets": CURVE})),
        ("matplotlib", lambda: FactorGraphDisplay(flat_graph())),
        ("networkx", lambda: FactorGraphDisplay(flat_graph())),
    ],
)
def test_without_a_library_the_command_that_installs_it_is_named(monkeypatch, library, make):
    display = make()
    for name in [library, *sys.modules]:
        if name.partition(".")[0] == library:
            monkeypatch.setitem(sys.modules, name, None)
    message = rf"this plot needs {library}, .*pip install '\.\[plot\]' .*'sklearn-sparsemap\[plot\]'"
    with pytest.raises(ImportError, match=message):
        display.plot()


@pytest.mark.parametrize(
    "classes", [[0, 1, 2], [1, 2, 3], [30, 10, 20], ["b", "a", "c"], [0.0, 2.0, 4.0], [True, False]]
)
def test_parts_are_the_classes_of_an_estimator(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 2 * np.eye(3)[np.arange(90) % 3, :2]
    y = np.array(classes)[np.arange(90) % len(classes)]
    for model in (StructuredSparseMAPClassifier(), make_pipeline(StandardScaler(), StructuredSparseMAPClassifier())):
        model.fit(X, y)
        display = PartsDisplay.from_estimator(model, X[0], y_true=y[0])
        np.testing.assert_allclose(display.marginals, model.predict_proba(X[:1])[0])
        assert display.names == [str(label) for label in model.classes_]
        assert np.flatnonzero(display.y_true).tolist() == [sorted(classes).index(y[0])]
        assert [text.get_text() for text in display.ax_.get_xticklabels()] == display.names
        with pytest.raises(ValueError, match="'other' is no class of the estimator"):
            PartsDisplay.from_estimator(model, X[0], y_true="other")
    plt.close("all")


@pytest.mark.parametrize("make", [tuple, list, set, frozenset])
def test_parts_are_named_by_collections_of_labels(make):
    class Estimator:
        classes_ = np.array(["jazz", "live", "music"], dtype=object)

        def predict_structures(self, X):
            return [[(make(["jazz", "music"]), 0.75), (make([]), 0.25)]]

        def predict_marginals(self, X):
            return np.array([[0.75, 0.0, 0.75]])

    display = PartsDisplay.from_estimator(Estimator(), [1.0], y_true=make(["live"]))
    assert [structure.tolist() for structure in display.structures] == [[True, False, True], [False] * 3]
    assert display.y_true.tolist() == [False, True, False]
    rows = PartsDisplay.from_estimator(Estimator(), [1.0], y_true=[0, 1, 1])
    assert rows.y_true.tolist() == [False, True, True]
    with pytest.raises(ValueError, match="a label that the estimator does not know"):
        PartsDisplay.from_estimator(Estimator(), [1.0], y_true=make(["rock"]))


def test_parts_are_the_labels_of_label_sets():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    Y = (X + 0.3 * rng.normal(size=X.shape) > 0).astype(int)
    model = MultilabelLPSparseMAP(random_state=0).fit(X, Y, classes=["live", "jazz", "music"])
    display = PartsDisplay.from_estimator(model, X[0], y_true=Y[0])
    assert display.names == ["live", "jazz", "music"] and display.y_true.tolist() == Y[0].astype(bool).tolist()
    sets = [(labels.astype(bool).tolist(), p) for labels, p in model.predict_structures(X[:1])[0]]
    assert [(mask.tolist(), p) for mask, p in zip(display.structures, display.weights)] == sets
    np.testing.assert_array_equal(PartsDisplay.from_estimator(model, X[:1]).marginals, display.marginals)
    for draw in (PartsDisplay.from_estimator, explain, label_table):
        with pytest.raises(ValueError, match=r"^x is a sequence of samples, 2 in all; pass a single one"):
            draw(model, X[:2])
    plt.close("all")
