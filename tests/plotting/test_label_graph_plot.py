"""The picture of a label graph: the strongest edges and their labels, all names readable, strong partners near."""

from itertools import permutations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("networkx")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from pictures import assert_nothing_overlaps, texts_of

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.plotting import LabelGraphDisplay

WORDS = "rock jazz live acoustic metal techno ambient choral vocal brass strings piano".split()


def random_graph(n, seed=0):
    rng = np.random.default_rng(seed)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    return [f"{WORDS[i % 12]} {i}" for i in range(n)], edges, rng.normal(size=len(edges)) ** 3


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.mark.parametrize("sign", [None, "attraction", "repulsion"])
def test_the_strongest_edges_are_drawn_by_sign_and_strength(sign):
    labels, edges, scores = random_graph(9)
    display = LabelGraphDisplay(labels, edges, scores).plot(n_edges=12, min_strength=0.0, sign=sign)
    of_sign = {"attraction": scores > 0, "repulsion": scores < 0}.get(sign, scores != 0)
    wanted = np.sort(np.abs(scores[of_sign]))[::-1][:12]
    shown = display.shown_edges_
    np.testing.assert_array_equal(np.abs(display.scores[shown]), wanted)
    for edge in shown:
        (place,) = np.flatnonzero((edges == display.edges[edge]).all(axis=1))
        assert display.scores[edge] == scores[place]
    widths = [line.get_linewidth() for line in display.lines_]
    assert len(widths) == 12 and widths == sorted(widths, reverse=True) and widths[-1] > 0.5
    blue, orange = to_rgb("#0a6fb8"), to_rgb("#d55e00")
    for edge, line in zip(shown, display.lines_):
        assert to_rgb(line.get_color()) == (blue if display.scores[edge] > 0 else orange)
        assert line.get_linestyle() == ("-" if display.scores[edge] > 0 else "--")
    legend = texts_of(display.legend_)
    assert len(legend) == (2 if sign is None else 1)
    assert all(text.startswith(("attract (", "repel (\N{MINUS SIGN}")) for text in legend)


def test_weak_edges_are_cut_and_counted():
    edges, scores = [[0, 1], [1, 2], [2, 3], [3, 4], [0, 2]], [-2.0, 0.5, -0.1, 0.099, 1e-4]
    display = LabelGraphDisplay(list("abcde"), edges, scores).plot()
    assert display.scores[display.shown_edges_].tolist() == [-2.0, 0.5, -0.1]
    assert display.shown_labels_.size == 4
    note = "2 below 5 % of the largest not drawn"
    assert texts_of(display.legend_) == ["attract (0.5)", "repel (\N{MINUS SIGN}0.1 to \N{MINUS SIGN}2)", note]
    assert_nothing_overlaps(display.figure_)
    assert len(display.plot(min_strength=0.0).lines_) == 5 and len(texts_of(display.legend_)) == 2
    # The largest of the sign that is drawn counts.
    assert len(display.plot(sign="attraction", min_strength=0.1).lines_) == 2
    with pytest.raises(ValueError, match="min_strength must be a fraction from 0 to 1; got 5"):
        display.plot(min_strength=5)


def test_lines_end_at_their_labels():
    display = LabelGraphDisplay(*random_graph(7)).plot(n_edges=8)
    dots = display.ax_.lines[-1].get_xydata()
    place_of = {label: dots[place] for place, label in enumerate(display.shown_labels_)}
    assert set(place_of) == set(display.edges[display.shown_edges_].ravel())
    assert [text.get_text() for text in display.texts_] == [display.labels[i] for i in display.shown_labels_]
    for edge, line in zip(display.shown_edges_, display.lines_):
        ends = line.get_xydata()[[0, -1]]
        np.testing.assert_allclose(ends, [place_of[i] for i in display.edges[edge]])
    for text, dot in zip(display.texts_, dots):
        # Names are outside of the ring, in the height of their dots.
        assert text.get_position()[1] == dot[1] and abs(text.get_position()[0]) > abs(dot[0])


@pytest.mark.parametrize(("n", "n_edges"), [(3, 3), (5, 20), (12, 30), (40, 20), (200, 20), (200, 90)])
def test_names_do_not_overlap(n, n_edges):
    display = LabelGraphDisplay(*random_graph(n)).plot(n_edges=n_edges)
    assert_nothing_overlaps(display.figure_)
    # Nor do edges run over names.
    boxes = [text.get_window_extent() for text in display.texts_]
    for line in display.lines_:
        x, y = display.ax_.transData.transform(line.get_xydata()).T
        for box in boxes:
            assert not ((x > box.x0) & (x < box.x1) & (y > box.y0) & (y < box.y1)).any()


def test_two_labels_make_a_picture():
    display = LabelGraphDisplay(["a", "b", "c"], [[2, 0]], [0.5]).plot()
    assert [text.get_text() for text in display.texts_] == ["a", "c"]
    assert texts_of(display.legend_) == ["attract (0.5)"]
    assert np.isfinite(display.lines_[0].get_xydata()).all()


def test_it_shrinks_into_given_axes():
    figure, axes = plt.subplots(1, 2, figsize=(6, 2))
    axes[0].axis("off")
    display = LabelGraphDisplay(*random_graph(20)).plot(ax=axes[1])
    assert display.ax_ is axes[1] and display.figure_ is figure and not axes[0].lines
    assert display.texts_[0].get_fontsize() < 10.0
    assert_nothing_overlaps(figure)
    assert display.plot().ax_ is not axes[1]


def test_dollars_are_no_formulas():
    display = LabelGraphDisplay(["$a", "b$"], [[0, 1]], [1.0]).plot()
    display.figure_.canvas.draw()
    assert {text.get_text() for text in display.texts_} == {"$a", "b$"}


def test_scores_of_zero_are_no_edges():
    display = LabelGraphDisplay(list("abc"), [[0, 1], [1, 2]], [0.0, -1.0])
    assert display.edges.tolist() == [[1, 2]] and display.scores.tolist() == [-1.0]


def order_of(n, edges, strengths):
    """Return the order of labels around the ring."""
    display = LabelGraphDisplay(list(map(str, range(n))), edges, strengths).plot(n_edges=len(edges), min_strength=0.0)
    assert len(display.shown_edges_) == len(edges) and len(display.shown_labels_) == n
    return np.asarray(display.shown_labels_)


def test_orders_are_close_to_the_best():
    shares = [share_of_the_mean(np.random.default_rng(seed)) for seed in range(8)]
    assert np.mean(shares) < 0.35 and max(shares) < 0.8


def share_of_the_mean(rng, n=7):
    """Return the cost of the order of a random label graph: 0 is that of the best order, 1 the mean of all."""
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = edges[rng.random(len(edges)) < 0.5]
    edges = np.concatenate([edges, [[i, i + 1] for i in range(n - 1) if [i, i + 1] not in edges.tolist()]])
    strengths = rng.random(len(edges)) ** 2

    def cost(order):
        steps = np.abs(np.diff(np.argsort(order)[edges], axis=1)[:, 0])
        return np.sqrt(np.minimum(steps, n - steps)) @ strengths

    costs = [cost((0, *rest)) for rest in permutations(range(1, n))]
    found = cost(order_of(n, edges, strengths))
    assert found >= min(costs) - 1e-9
    return (found - min(costs)) / (np.mean(costs) - min(costs))


def test_groups_stand_together():
    edges = np.array([[0, 4], [4, 8], [1, 5], [5, 9], [2, 6], [3, 7]])
    order = order_of(10, edges, np.ones(6))
    assert sorted(order.tolist()) == list(range(10))
    assert [sorted(group % 4) for group in (order[:3], order[3:6], order[6:8], order[8:])] == [
        [0, 0, 0],
        [1, 1, 1],
        [2, 2],
        [3, 3],
    ]
    assert order[1] == 4 and order[4] == 5
    np.testing.assert_array_equal(order, order_of(10, edges, np.ones(6)))


def test_labels_stand_in_a_given_order():
    names, edges, scores = random_graph(8)
    order = names[::-1]
    first = LabelGraphDisplay(names, edges, scores).plot(n_edges=6, order=order)
    second = LabelGraphDisplay(names, edges, -scores[::-1]).plot(n_edges=9, order=order)
    for display in (first, second):
        assert [names[label] for label in display.shown_labels_] == order
        assert [text.get_text() for text in display.texts_] == order
        assert len(display.lines_) == len(display.shown_edges_)
    places = np.array([[text.get_position() for text in display.texts_] for display in (first, second)])
    np.testing.assert_allclose(places[0, :, 1], places[1, :, 1])
    # A wide legend may make a ring a little wider.
    np.testing.assert_allclose(places[0, :, 0], places[1, :, 0], rtol=0.1)
    # Lines still end at their labels.
    dots = dict(zip(first.shown_labels_.tolist(), first.ax_.lines[-1].get_xydata()))
    for edge, line in zip(first.shown_edges_, first.lines_):
        for label, end in zip(first.edges[edge], (line.get_xydata()[0], line.get_xydata()[-1])):
            np.testing.assert_allclose(end, dots[label])
    with pytest.raises(ValueError, match=r"order lacks .*, which a strong edge joins"):
        first.plot(n_edges=6, order=[names[first.edges[0, 0]]])
    for wrong in ([*names, "no label"], [*names, names[0]]):
        with pytest.raises(ValueError, match="order must name labels, each once"):
            first.plot(order=wrong)


def test_from_a_fitted_estimator():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    on = X[:, :3] > 0.3
    Y = np.stack([on[:, 0], on[:, 0] | on[:, 1], on[:, 2], ~on[:, 2]], axis=1).astype(int)
    names = ["cat", "pet", "day", "night"]
    model = MultilabelLPSparseMAP("full", edge_eta0=0.01, max_iter=20)
    with pytest.warns(UserWarning, match="still improving"):
        model.set_params(random_state=0).fit(X, Y, classes=names)
    display = LabelGraphDisplay.from_estimator(model, n_edges=3)
    found = [(*(display.labels[i] for i in display.edges[e]), display.scores[e]) for e in display.shown_edges_]
    assert found == model.strongest_edges(3)
    # Without edges the problem is smooth, and solved.
    model.set_params(loss="logistic").fit(X, Y)
    with pytest.raises(ValueError, match='learned no edges: it was fitted with loss="logistic", label_graph=None'):
        LabelGraphDisplay.from_estimator(model)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LabelGraphDisplay("ab", [[0, 1]], [1.0]), "labels must be the names of all labels; got 'ab'"),
        (lambda: LabelGraphDisplay(["a", "b"], [], []), "the label graph has no edges"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [0.0]), "all scores are zero; there is nothing to draw"),
        (
            lambda: LabelGraphDisplay(["a", "b"], [[0, 1, 0]], [1.0]),
            r"shape \(n_edges, 2\).* got int64 of shape \(1, 3\)",
        ),
        (lambda: LabelGraphDisplay(["a", "b"], [["a", "b"]], [1.0]), r"edges must be an int array"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [1.0, 2.0]), r"1 edges, but scores of shape \(2,\)"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [np.nan]), r"scores\[0\] is not finite"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1], [0, 2]], [1.0, 1.0]), r"edges\[1\] is \[0, 2\]"),
        (lambda: LabelGraphDisplay(["a", "b"], [[1, 1]], [1.0]), "two different of the 2 labels"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [1.0]).plot(sign="repulsion"), "has no repulsion"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [1.0]).plot(sign="both"), "sign='both' is not one of"),
        (lambda: LabelGraphDisplay(["a", "b"], [[0, 1]], [1.0]).plot(n_edges=0), "n_edges must be"),
        (lambda: LabelGraphDisplay(*random_graph(300)).plot(n_edges=4000), "join 300 labels; .* Lower n_edges"),
        (lambda: LabelGraphDisplay.from_estimator(MultilabelLPSparseMAP()), "have classes_; .* has no classes_"),
    ],
)
def test_wrong_label_graphs_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
