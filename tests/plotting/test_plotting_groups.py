"""Pictures of groups: every budget, tooth and edge is where it belongs, and nothing is on top of another."""

import re
from itertools import combinations, pairwise

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from pictures import assert_nothing_overlaps, texts_of, visible_texts

from sklearn_sparsemap import GroupLassoPerceptron, StructuredGroupLassoCV, perceptron_path
from sklearn_sparsemap.estimators import GroupPath
from sklearn_sparsemap.features import chunking_templates, ngrams
from sklearn_sparsemap.penalties import GroupOrder, GroupTree
from sklearn_sparsemap.plotting import GroupOrderDisplay, GroupPathDisplay, MemoryCurveDisplay

GROUP_OF = np.repeat(np.arange(5), 4)
STEPS, WEIGHTS = [10, 10, 20, 20], [8, 3, 9, 3]
TEMPLATES = ["pos[0]", "word[0]", "pos[-1]|pos[0]", "pos[-1]|word[0]", "word[-1]|word[0]", "pos[-1]", "word[-1]"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def sensors(n=300):
    X = np.random.default_rng(0).normal(size=(n, 20))
    return X, np.where(X[:, 4:8].sum(axis=1) + 0.5 * X[:, 12] > 0, "a", "b")


def quick(**params):
    return GroupLassoPerceptron(**{"groups": GROUP_OF, "shrink_every": 50, "random_state": 0, **params})


# -- Paths ---------------------------------------------------------------------------------------------------------


def test_paths_are_drawn_by_their_number_of_weights():
    X, y = sensors()
    paths = {
        weights: perceptron_path(quick(group_weights=weights), X, y, [5, 1, None, 2], cv=3)
        for weights in ("uniform", "sqrt")
    }
    display = GroupPathDisplay.from_path(paths, full=(20, 0.9), score_name="accuracy")
    assert set(display.lines_) == set(paths) and display.figure_ is display.ax_.figure
    for name, path in paths.items():
        # By budget: 1, 2, 5 and all.
        points = np.column_stack([path.n_nonzero_coefs, path.scores])[[1, 3, 0, 2]]
        np.testing.assert_allclose(display.lines_[name].get_xydata(), points)
    texts = [text.get_text() for text in display.ax_.texts]
    labels = [["best: " * (i == path.best_index) + path.labels[i] for i in range(4)] for path in paths.values()]
    assert sorted(texts) == sorted(labels[0] + labels[1])
    rings = [line.get_xydata() for line in display.ax_.lines if line.get_markersize() == 11.0]
    best = [[(path.n_nonzero_coefs[i], path.scores[i])] for path in paths.values() for i in [path.best_index]]
    np.testing.assert_allclose(rings, best)
    assert texts_of(display.legend_) == ["uniform", "sqrt", "all groups"]
    assert display.ax_.get_xscale() == "log" and display.ax_.get_ylabel() == "accuracy"
    # Standard errors of the splits.
    assert len(display.ax_.containers) == 2


def test_one_path_has_no_legend_and_no_errors():
    X, y = sensors()
    path = perceptron_path(quick(), X[:200], y[:200], [1, 2, 5], X_val=X[200:], y_val=y[200:])
    figure, ax = plt.subplots()
    display = GroupPathDisplay(path).plot(ax)
    assert display.ax_ is ax and display.figure_ is figure
    assert display.legend_ is None and not ax.containers
    assert texts_of(GroupPathDisplay({"named": path}).plot().legend_) == ["named"]


def test_ticks_are_plain_numbers():
    scores = np.array([0.1, 0.2, 0.3])
    for largest in (900, 9_000_000):
        path = GroupPath([1, 2, 3], scores, scores[:, None], np.array([0, 300, largest]), [], [])
        display = GroupPathDisplay(path).plot()
        # A model without weights has no place on the axis.
        assert display.lines_[""].get_xdata().tolist() == [300, largest]
        boxes = [text for text, _ in visible_texts(display.figure_)]
        assert any(re.fullmatch(r"[1-9]0{2,}|[125]?0{0,2},000(,000)?|1,000|1,000,000", text) for text in boxes)
        assert not any("times" in text or "10^" in text for text in boxes)


@pytest.mark.parametrize("low, high", [(7, 900), (8, 25), (11, 14), (1, 9_000_000), (100, 101)])
def test_narrow_and_wide_axes_have_ticks(low, high):
    scores = np.array([0.1, 0.2, 0.3])
    path = GroupPath([1, 2, 3], scores, scores[:, None], np.array([low, low, high]), [], [])
    ax = GroupPathDisplay(path).plot().ax_
    ticks = ax.get_xticks()
    left, right = ax.get_xlim()
    # Whole numbers, at the ends rounded.
    assert (ticks % 1 == 0).all() and ((ticks > left - 0.5) & (ticks < right + 0.5)).all()
    assert min(4, 1 + high - low) <= len(ticks) <= 12
    assert_nothing_overlaps(ax.figure)


def test_labels_of_close_points_do_not_overlap():
    n = np.unique(np.geomspace(1, 100, 50).astype(int))
    scores = 1 - np.exp(-n / 20) - (n / 200) ** 2
    path = GroupPath(n.tolist(), scores, scores[:, None], 700 * n, [], [])
    display = GroupPathDisplay(path).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert f"best: {path.best_budget}" in texts and 5 < len(texts) < len(n)
    assert_nothing_overlaps(display.figure_)


def test_labels_of_two_curves_do_not_overlap():
    """As of two kinds of group weights that reach one score with the same groups."""
    n, scores = np.array([100, 300, 1000]), np.array([0.5, 0.7, 0.8])
    curves = {
        "first": GroupPath([1, 3, 40], scores, scores[:, None], n, [], []),
        "second": GroupPath([1, 3, 40], scores - 0.03, scores[:, None] - 0.03, n, [], []),
        "third": GroupPath([1, 3, 40], scores + 0.01, scores[:, None] + 0.01, n, [], []),
    }
    display = GroupPathDisplay(curves).plot()
    assert len(display.ax_.texts) >= 6
    assert_nothing_overlaps(display.figure_)


def test_strengths_are_drawn_like_budgets():
    X, y = sensors()
    model = StructuredGroupLassoCV(groups=GROUP_OF, n_alphas=4, cv=3, loss="crf").fit(X, y)
    display = GroupPathDisplay(model.path_).plot()
    shown = model.path_.n_nonzero_coefs > 0
    assert len(display.lines_[""].get_xdata()) == shown.sum() >= 2
    assert display.ax_.get_xlabel() == "nonzero weights; at the points, alpha"
    texts = [text.get_text() for text in display.ax_.texts]
    assert f"best: {model.alpha_:.3g}" in texts
    # Labels that would cover that of the best strength are left out.
    assert f"{np.array(model.path_.budgets)[shown][0]:.3g}" in texts


# -- Memory --------------------------------------------------------------------------------------------------------


def test_the_sawtooth_is_that_of_the_estimator():
    X, y = sensors()
    model, full = quick(budget=2).fit(X, y), quick().fit(X, y)
    display = MemoryCurveDisplay.from_estimator(model, full=full)
    line = display.lines_[""].get_xydata()
    np.testing.assert_array_equal(line[1:], np.column_stack([model.memory_steps_, model.memory_curve_]))
    assert line[0].tolist() == [0, 0] and display.full == full.n_nonzero_coefs_ and display.legend_ is None
    assert f"all groups: {full.n_nonzero_coefs_}" in [text.get_text() for text in display.ax_.texts]
    low, high = display.ax_.get_ylim()
    assert low == 0 and high > display.full
    assert_nothing_overlaps(display.figure_)


def test_several_curves_have_a_legend():
    display = MemoryCurveDisplay({"a": (STEPS, WEIGHTS), "b": (STEPS, [1, 1, 1, 1])}, full=12).plot()
    assert texts_of(display.legend_) == ["a", "b"]
    assert display.lines_["b"].get_ydata().tolist() == [0, 1, 1, 1, 1]
    assert_nothing_overlaps(display.figure_)


def test_teeth_that_are_too_many_become_a_band():
    steps = np.repeat(np.arange(1, 1001), 2)
    weights = np.tile([50, 20], 1000)
    display = MemoryCurveDisplay({"": (steps, weights)}).plot()
    line = display.lines_[""]
    assert len(line.get_xdata()) == 150 and line.get_xdata()[[0, -1]].tolist() == [0, 1000]
    assert (line.get_ydata() == 50).all()
    (band,) = display.ax_.collections
    heights = np.unique(band.get_paths()[0].vertices[:, 1])
    # The first place holds the beginning, too.
    assert heights.tolist() == [0, 20, 50]


# -- Orders --------------------------------------------------------------------------------------------------------


def orders():
    yield GroupOrder.from_templates(TEMPLATES)
    yield GroupOrder.from_templates(chunking_templates())
    yield GroupTree({"all": None, "left": "all", "right": "all", "leaf": "left", "$x_1$": "right", "alone": None})
    yield GroupOrder([("a", "b"), ("b", "c"), ("c", "d"), ("a", "e"), ("f", "d"), ("e", "d")])
    yield GroupOrder([], names=["only"])
    rng = np.random.default_rng(0)
    yield GroupOrder([(int(a), int(b)) for a, b in np.sort(rng.integers(60, size=(90, 2)), axis=1) if a < b])


def test_some_edges_skip_columns():
    assert sum(order.levels[fine] - order.levels[coarse] > 1 for order in orders() for coarse, fine in order.covers) > 5


@pytest.mark.parametrize("order", orders(), ids=str)
def test_diagrams_show_every_group_and_cover(order):
    selected = np.arange(0, order.n_groups, 3)
    display = GroupOrderDisplay(order, selected).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert all(str(name) in texts for name in order.names)
    assert len(display.boxes_) == order.n_groups and len(display.lines_) == len(order.covers)
    filled = [i for i, box in enumerate(display.boxes_) if to_rgb(box.get_facecolor()) != (1.0, 1.0, 1.0)]
    assert filled == selected.tolist()
    assert texts_of(display.legend_)[0] == f"selected: {len(selected)} of {order.n_groups}"
    x0, y0, x1, y1 = np.array([box.get_path().get_extents().extents for box in display.boxes_]).T
    # Boxes are apart, in columns by level, and edges run from the right of one to the left of a finer one.
    is_apart = (x1[:, None] < x0) | (x0[:, None] > x1) | (y1[:, None] < y0) | (y0[:, None] > y1)
    np.testing.assert_array_equal(is_apart, ~np.eye(order.n_groups, dtype=bool))
    np.testing.assert_array_equal(x0[:, None] == x0, order.levels[:, None] == order.levels)
    for (coarse, fine), line in zip(order.covers, display.lines_):
        first, last = line.get_path().vertices[[0, -1]]
        np.testing.assert_allclose(first, (x1[coarse], y0[coarse] / 2 + y1[coarse] / 2))
        np.testing.assert_allclose(last, (x0[fine], y0[fine] / 2 + y1[fine] / 2))
        # Through no other box: between columns all are free, and edges that skip columns are level within these.
        skipped = list(zip(line.get_path().vertices[3::4], line.get_path().vertices[4::4]))
        assert len(skipped) == order.levels[fine] - order.levels[coarse] - 1
        for start, end in skipped:
            assert start[1] == end[1]
            assert not ((x0 == start[0]) & (y0 < start[1]) & (start[1] < y1)).any()
    if order.n_groups > 3:
        assert_nothing_overlaps(display.figure_)


def test_diagrams_of_estimators():
    X, y = sensors()
    order = GroupOrder([("a", "b"), ("b", "c"), ("d", "e")], columns=dict(zip("abcde", np.arange(20).reshape(5, 4))))
    model = quick(groups=order, budget=3, debias=None).fit(X, y)
    display = GroupOrderDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.selected, model.selected_groups_)
    assert display.order is order
    renamed = GroupOrderDisplay.from_estimator(model, order, names="vwxyz")
    assert {"v", "z"} <= {text.get_text() for text in renamed.ax_.texts}
    # Nothing known of a selection: no legend, nothing filled.
    bare = GroupOrderDisplay(order).plot()
    assert bare.legend_ is None and all(to_rgb(box.get_facecolor()) == (1, 1, 1) for box in bare.boxes_)
    assert texts_of(GroupOrderDisplay(order, []).plot().legend_) == ["selected: 0 of 5", "discarded"]
    assert texts_of(GroupOrderDisplay(order, range(5)).plot().legend_) == ["selected: 5 of 5"]


def test_diagrams_shrink_into_axes():
    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    display = GroupOrderDisplay(GroupOrder.from_templates([*TEMPLATES, *ngrams("pos", 3, 3)]), [0]).plot(axes[0])
    assert display.figure_ is figure
    (left, right), (bottom, top) = sorted(axes[0].get_xlim()), sorted(axes[0].get_ylim())
    for box in display.boxes_:
        extent = box.get_path().get_extents()
        assert left <= extent.x0 and extent.x1 <= right and bottom <= extent.y0 and extent.y1 <= top


def count_crossings(display):
    """Count the pairs of edges that cross between two neighbouring levels."""
    steps, levels = [], display.order.levels
    for (coarse, fine), line in zip(display.order.covers, display.lines_, strict=True):
        # A curve to each next level, and from the second one on a straight line through its column before that.
        vertices = line.get_path().vertices
        heights = [vertices[0][1], *vertices[3::4, 1]]
        assert len(heights) == levels[fine] - levels[coarse] + 1
        steps += [(levels[coarse] + k, y, next_y) for k, (y, next_y) in enumerate(pairwise(heights))]
    return sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in combinations(steps, 2))


def test_layouts_cross_little_and_are_the_same_each_time():
    parents = [-1, *(int(np.random.default_rng(i).integers(i)) for i in range(1, 40))]
    # A tree can be drawn without crossings.
    for order, most in ((GroupOrder.from_templates(chunking_templates()), 60), (GroupTree(parents), 3)):
        display, again = (GroupOrderDisplay(order).plot() for _ in range(2))
        boxes, same = ([box.get_path().get_extents() for box in one.boxes_] for one in (display, again))
        bottoms, tops = np.array([(box.y0, box.y1) for box in boxes]).T
        np.testing.assert_array_equal(bottoms, [box.y0 for box in same])
        low, high = sorted(display.ax_.get_ylim())
        assert low <= bottoms.min() and tops.max() <= high
        # Groups of one level are apart.
        for level in range(order.levels.max() + 1):
            rows = np.argsort(bottoms[order.levels == level])
            below, above = bottoms[order.levels == level][rows], tops[order.levels == level][rows]
            assert (below[1:] > above[:-1]).all()
        assert count_crossings(display) <= most


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GroupPathDisplay({}), "there are no paths to draw"),
        (
            lambda: GroupPathDisplay({"a": [1, 2]}),
            r"paths\['a'\] must be a result of perceptron_path, .*; got list",
        ),
        (lambda: MemoryCurveDisplay({}), "there are no curves to draw"),
        (lambda: MemoryCurveDisplay({"a": ([1, 2], [1])}), r"curves\['a'\] must be steps and weights of one length"),
        (lambda: MemoryCurveDisplay({"a": ([], [])}), r"curves\['a'\] is empty"),
        (lambda: MemoryCurveDisplay({"a": ([2, 1], [1, 1])}), r"the steps of curves\['a'\] must not decrease"),
        (
            lambda: MemoryCurveDisplay.from_estimator(GroupLassoPerceptron()),
            "GroupLassoPerceptron has no memory_curve_",
        ),
        (lambda: MemoryCurveDisplay({"a": (STEPS, WEIGHTS)}, full=1.5), "full must be a positive int; got 1.5"),
        (lambda: MemoryCurveDisplay.from_estimator(quick(budget=2).fit(*sensors()), full=quick()), "full must be a"),
        (lambda: GroupOrderDisplay([("a", "b")]), "order must be a GroupOrder or GroupTree; got list"),
        (lambda: GroupOrderDisplay(GroupTree([-1] * 201)), "201 groups; a picture of more than 200 cannot be read"),
        (
            lambda: GroupOrderDisplay(GroupTree([-1, 0]), [2]),
            r"selected must be numbers of groups, from 0 to 1; got \[2\]",
        ),
        (lambda: GroupOrderDisplay(GroupTree([-1, 0]), ["0"]), "selected must be numbers of groups"),
        (lambda: GroupOrderDisplay(GroupTree([-1, 0]), names=["a"]), "names must be 2 names; got 1"),
        (lambda: GroupOrderDisplay.from_estimator(quick()), "must be fitted and have selected_groups_"),
        (lambda: GroupOrderDisplay.from_estimator(quick(budget=2).fit(*sensors())), "order must be a GroupOrder"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
