"""Conventions of all displays, and the displays of learned weights and predictions, at few and at many items."""

import inspect

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from test_plotting import assert_nothing_overlaps, texts_of

from sklearn_sparsemap import plotting
from sklearn_sparsemap.plotting import FeatureTableDisplay, LabelConfusionDisplay, TransitionsDisplay

CONSTRUCTORS = {"from_estimator", "from_predictions", "from_result", "from_path"}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def written(display):
    return [text.get_text() for text in display.ax_.texts]


# -- Conventions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", plotting.__all__)
def test_constructors_have_one_naming_and_take_axes(name):
    display = getattr(plotting, name)
    makers = {key for key, value in inspect.getmembers(display, inspect.ismethod) if not key.startswith("_")}
    assert makers and makers <= CONSTRUCTORS
    for maker in makers:
        ax = inspect.signature(getattr(display, maker)).parameters["ax"]
        assert ax.kind is ax.KEYWORD_ONLY and ax.default is None
    assert list(inspect.signature(display.plot).parameters)[:2] == ["self", "ax"]


# -- Pairs of labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "values_format", "texts"),
    [
        ([[0.0317, -0.1621], [0.1175, 0.0188]], None, ["0.03", "-0.16", "0.12", "0.02"]),
        ([[0.0317, -0.0021], [0.0175, -0.0001]], None, ["0.032", "-0.002", "0.018", "0.000"]),
        ([[12.3, -0.4], [0.0, 99.4]], None, ["12", "0", "0", "99"]),
        ([[1.25, -np.inf], [0.0, -3.0]], None, ["1.2", "", "0.0", "-3.0"]),
        ([[2e-7, 0.0], [0.0, -1e-7]], None, ["2.0e-07", "0.0e+00", "0.0e+00", "-1.0e-07"]),
        ([[0.0, 0.0], [0.0, 0.0]], None, ["0.0", "0.0", "0.0", "0.0"]),
        ([[0.0317, -0.1621], [0.1175, 3.0]], ".3f", ["0.032", "-0.162", "0.117", "3.000"]),
    ],
)
def test_transitions_have_two_significant_digits(matrix, values_format, texts):
    display = TransitionsDisplay(matrix, ["B", "I"], values_format=values_format).plot()
    assert written(display) == texts


def test_forbidden_transitions_are_hatched():
    matrix = np.zeros((3, 3))
    matrix[0, 1] = matrix[2, 1] = -np.inf
    display = TransitionsDisplay(matrix).plot()
    (cells,) = [each for each in display.ax_.collections if each.get_hatch()]
    corners = [path.vertices.min(axis=0).tolist() for path in cells.get_paths()]
    assert corners == [[0.5, -0.5], [0.5, 1.5]]
    assert texts_of(display.legend_) == ["forbidden"]
    assert TransitionsDisplay(np.zeros((3, 3))).plot().legend_ is None


def luminance(color):
    return np.dot(matplotlib.colors.to_rgb(color), (0.299, 0.587, 0.114))


@pytest.mark.parametrize("n", [5, 50])
def test_values_can_be_read_on_their_cells(n):
    matrix = np.random.default_rng(0).normal(size=(n, n))
    displays = [TransitionsDisplay(matrix).plot(), LabelConfusionDisplay(np.abs(matrix), normalize="pred").plot()]
    for display in displays:
        cells = display.image_.cmap(display.image_.norm(display.matrix)).reshape(-1, 4)
        assert len(display.ax_.texts) == n * n
        for text, cell in zip(display.ax_.texts, cells, strict=True):
            assert abs(luminance(text.get_color()) - luminance(cell[:3])) > 0.35
            assert text.get_fontsize() >= 5.0
        if n == 5:
            assert_nothing_overlaps(display.figure_)


@pytest.mark.parametrize("normalize", [None, "true", "pred", "all"])
def test_confusion_is_that_of_scikit_learn(normalize):
    rng = np.random.default_rng(0)
    y_true = [rng.choice(list("abc"), size=4) for _ in range(30)]
    y_pred = [np.where(rng.random(4) < 0.8, y, rng.choice(list("abc"), size=4)) for y in y_true]
    display = LabelConfusionDisplay.from_predictions(y_true, y_pred, normalize=normalize)
    flat = np.concatenate(y_true), np.concatenate(y_pred)
    wanted = confusion_matrix(*flat, normalize=normalize)
    np.testing.assert_allclose(display.matrix, wanted)
    assert written(display) == [f"{value:.2f}" if normalize else f"{value}" for value in wanted.ravel()]
    theirs = ConfusionMatrixDisplay(wanted).plot(values_format=".3g").text_.ravel()
    ours = LabelConfusionDisplay.from_predictions(y_true, y_pred, normalize=normalize, values_format=".3g")
    assert written(ours) == [text.get_text() for text in theirs]
    counts = LabelConfusionDisplay.from_predictions(y_true, y_pred, values_format="d")
    assert written(counts) == [str(value) for value in confusion_matrix(*flat).ravel()]
    with pytest.raises(ValueError, match="normalize='rows' is not one of None, 'true', 'pred', 'all'"):
        LabelConfusionDisplay.from_predictions(y_true, y_pred, normalize="rows")


# -- Tables of features --------------------------------------------------------------------------------------------


def table_of(n_labels, n_features=4):
    rows = [(f"label {i}", f"feature {j}", 1.0 - j) for i in range(n_labels) for j in range(n_features)]
    return np.array(rows, dtype=[("label", object), ("feature", object), ("weight", float)])


@pytest.mark.parametrize(("n_labels", "columns"), [(1, 1), (3, 3), (4, 2), (5, 3), (50, 3)])
def test_tables_have_rows_of_similar_lengths(n_labels, columns):
    display = FeatureTableDisplay(table_of(n_labels)).plot()
    assert len(display.ax_) == n_labels
    assert display.ax_[0].get_gridspec().ncols == columns


def test_tables_are_drawn_on_given_axes():
    table, (figure, axes) = FeatureTableDisplay(table_of(4)), plt.subplots(2, 3)
    table.plot(axes.ravel()[:4])
    assert all(len(ax.patches) == 4 for ax in axes.ravel()[:4]) and not axes[1, 1].patches
    # One is divided, and does not cover the others.
    table.plot(axes[1, 2], labels=["label 2", "label 0"])
    assert [ax.get_title() for ax in table.ax_] == ["label 2", "label 0"] and table.figure_ is figure
    outer = axes[1, 2].get_position()
    assert all(outer.contains(*ax.get_position().p0) and outer.contains(*ax.get_position().p1) for ax in table.ax_)
    with pytest.raises(ValueError, match="ax must be 4 axes, or one, which is divided; got 3 axes"):
        table.plot(axes[0])
    with pytest.raises(ValueError, match="no place in a grid that could be divided; give 4 axes"):
        table.plot(figure.add_axes((0, 0, 1, 1)))
