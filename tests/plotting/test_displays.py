"""Conventions of all displays, and the displays of learned weights and predictions, at few and at many items."""

import inspect
import warnings

import numpy as np
import pytest

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from pictures import assert_nothing_overlaps, texts_of
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredSparseMAPClassifier,
    perceptron_path,
    plotting,
    structured_group_lasso_path,
)
from sklearn_sparsemap.estimators import GroupPath
from sklearn_sparsemap.inspection import Explanation, explain
from sklearn_sparsemap.plotting import (
    ChainDisplay,
    CoefficientPathDisplay,
    ConvergenceDisplay,
    ExplanationDisplay,
    FeatureTableDisplay,
    LabelConfusionDisplay,
    LossCurveDisplay,
    PartsDisplay,
    TransitionsDisplay,
)
from sklearn_sparsemap.structures import Subset

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


def test_displays_are_drawn_in_subfigures():
    figure = plt.figure(figsize=(8, 8), layout="constrained")
    above, below = figure.subfigures(2, 1)
    display = TransitionsDisplay(np.eye(3), ["a", "b", "c"]).plot(above.subplots())
    assert display.figure_ is above
    path = np.zeros(20, int)
    chain = ChainDisplay([(path, 1.0)]).plot(below.subplots())
    assert len(chain.ax_) == 2
    assert_nothing_overlaps(figure)


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


# -- Losses --------------------------------------------------------------------------------------------------------


def problem(n=200):
    X = np.random.default_rng(0).normal(size=(n, 6))
    return X, np.where(X[:, 0] + X[:, 3] > 0, "up", "down")


def test_losses_and_scores_are_those_of_the_estimator():
    X, y = problem()
    model = StructuredSparseMAPClassifier(solver="adagrad", early_stopping=True, max_iter=20, random_state=0)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), model), {"structuredsparsemapclassifier__alpha": [0.01]}, cv=2
    )
    model = search.fit(X, y).best_estimator_[-1]
    display = LossCurveDisplay.from_estimator(search)
    losses, scores = display.lines_[""]
    np.testing.assert_array_equal(losses.get_ydata(), model.loss_curve_)
    np.testing.assert_array_equal(losses.get_xdata(), np.arange(1, len(model.loss_curve_) + 1))
    np.testing.assert_array_equal(scores.get_ydata(), model.validation_scores_)
    assert [ax.get_ylabel() for ax in display.ax_] == ["training loss", "validation score"]
    (dot,) = [line for line in display.ax_[1].lines if line is not scores]
    assert dot.get_xydata().tolist() == [[1 + np.argmax(model.validation_scores_), max(model.validation_scores_)]]
    assert display.legend_ is None
    assert_nothing_overlaps(display.figure_)
    # Without scores there is one panel; several models have names.
    other = clone(model).set_params(early_stopping=False, alpha=1.0).fit(X, y)
    assert len(LossCurveDisplay.from_estimator(other, ax=plt.figure().subplots()).ax_) == 1
    both = LossCurveDisplay.from_estimator({"weak": model, "strong": other})
    assert texts_of(both.legend_) == ["weak", "strong"] and [len(both.lines_[name]) for name in both.lines_] == [2, 1]
    labels = MultilabelLPSparseMAP(max_iter=3, alpha=0.1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels.fit(X, (X[:, :3] > 0).astype(int))
    assert len(LossCurveDisplay.from_estimator(labels).losses[""]) == len(labels.loss_curve_)


def test_wrong_losses_are_named():
    for make, message in (
        (lambda: LossCurveDisplay([]), "no losses to draw"),
        (lambda: LossCurveDisplay({"a": [1.0]}, {"b": [1.0]}), "scores of 'b', but no losses"),
        (lambda: LossCurveDisplay.from_estimator(StandardScaler()), "StandardScaler has no loss_curve_"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


# -- Paths of coefficients -----------------------------------------------------------------------------------------


def test_paths_show_the_norms_of_features_and_groups():
    X, y = problem()
    groups = ["a", "a", "b", "b", "c", "c"]
    path = alphas, coefs, _ = structured_group_lasso_path(X, y, n_alphas=5, eps=0.05, groups=groups)
    display = CoefficientPathDisplay.from_path(path, names=list("uvwxyz"))
    wanted = np.array([np.linalg.norm(coef, axis=0) for coef in coefs])
    np.testing.assert_allclose(display.norms, wanted)
    for line, column in zip(display.lines_, wanted.T, strict=True):
        np.testing.assert_allclose(line.get_xydata(), np.column_stack([alphas, column]))
    assert display.ax_.xaxis.get_inverted() and display.ax_.get_xscale() == "log"
    strongest = np.argsort(-wanted.max(axis=0))
    assert texts_of(display.legend_) == ["uvwxyz"[i] for i in strongest if wanted[:, i].any()]
    sparse_path = structured_group_lasso_path(csr_array(X), y, n_alphas=5, eps=0.05, groups=groups)
    np.testing.assert_allclose(CoefficientPathDisplay.from_path(sparse_path).norms, wanted, atol=1e-6)
    grouped = CoefficientPathDisplay.from_path(path, groups=groups, n_names=1)
    squares = (wanted**2).reshape(5, 3, 2).sum(axis=2)
    np.testing.assert_allclose(grouped.norms, np.sqrt(squares))
    assert grouped.names == ["a", "b", "c"] and len(texts_of(grouped.legend_)) == 1
    assert grouped.legend_.get_title().get_text() == f"largest 1 of {(squares.max(axis=0) > 0).sum()}"


def test_paths_of_budgets_need_their_models():
    X, y = problem()
    model = GroupLassoPerceptron(groups=[0, 0, 1, 1, 2, 2], shrink_every=50, random_state=0)
    options = {"X_val": X[100:], "y_val": y[100:]}
    path = perceptron_path(model, X[:100], y[:100], [None, 1, 2], **options, names=list("abc"), return_estimators=True)
    display = CoefficientPathDisplay.from_path(path)
    assert display.strengths.tolist() == [1, 2, 3] and display.names == ["a", "b", "c"]
    np.testing.assert_array_equal(display.norms, [path.estimators[i].group_norms_ for i in (1, 2, 0)])
    assert ((display.norms > 0).sum(axis=1) == [1, 2, 3]).all()
    # A model without a limit is the largest one, also if budgets count weights.
    path = perceptron_path(model, X[:100], y[:100], [8, None], **options, unit="weights", return_estimators=True)
    assert CoefficientPathDisplay.from_path(path).strengths.tolist() == [8, path.n_nonzero_coefs[1]]
    for wrong, remedy in (
        (perceptron_path(model, X[:100], y[:100], [1, 2], **options), "perceptron_path with return_estimators=True"),
        (
            GroupPath([0.1, 0.2], np.ones(2), np.ones((2, 1)), np.ones(2), [], []),
            r"structured_group_lasso_path\(X, y, ",
        ),
    ):
        with pytest.raises(ValueError, match=f"the path has no weights; call {remedy}"):
            CoefficientPathDisplay.from_path(wrong)
    for make, message in (
        (lambda: CoefficientPathDisplay.from_path([1, 2]), "must be a result of .*; got list"),
        (lambda: CoefficientPathDisplay.from_path(path, groups=[0, 1]), "leave groups at None"),
        (lambda: CoefficientPathDisplay([1, 2], np.ones((3, 2))), "a row for each of the strengths"),
        (lambda: CoefficientPathDisplay([1, 0], np.ones((2, 2))), "strengths must be positive"),
        (lambda: CoefficientPathDisplay([1, 2], np.ones((2, 2)), names="a"), "names must be 2 names"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize("n", [5, 50])
def test_names_of_paths_fit_beside_them(n):
    strengths = np.geomspace(1, 0.01, 30)
    norms = np.maximum(0.0, np.linspace(-3, 1, n) - np.log10(strengths)[:, None])
    display = CoefficientPathDisplay(strengths, norms, [f"group {i}" for i in range(n)]).plot()
    assert len(texts_of(display.legend_)) == min((norms > 0).any(axis=0).sum(), 8) and len(display.lines_) == n
    assert_nothing_overlaps(display.figure_)


# -- Explanations --------------------------------------------------------------------------------------------------


def test_explanations_list_no_bars_of_zero():
    entries = [(f"feature {i}", 0, "a", value) for i, value in enumerate([2.0, -1.0, 0.011, 0.009, 1e-5, 0.0, 0.0])]
    display = ExplanationDisplay(Explanation(["a"], ["b"], 1.02001, entries)).plot()
    names = [text.get_text().partition(" →")[0] for text in display.ax_.get_yticklabels()]
    assert names == ["feature 0", "feature 1", "feature 2", "4 others"]
    widths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(widths, [2.0, -1.0, 0.011, 0.00901])


@pytest.mark.parametrize("n", [3, 50])
def test_explanations_can_be_read(n):
    values = np.random.default_rng(0).normal(size=n)
    entries = [(f"word[{i}]=something", i, "label", value) for i, value in enumerate(values)]
    display = ExplanationDisplay(Explanation(["a"], ["b"], values.sum(), entries)).plot()
    assert len(display.ax_.patches) == min(n, 13)
    assert_nothing_overlaps(display.figure_)


# -- Legends -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "rows"), [(5, 3), (50, 1)])
def test_legends_below_use_the_width(n, rows):
    rng = np.random.default_rng(0)
    parts = [rng.random(n) < 0.3 for _ in range(6)]
    display = PartsDisplay(parts, [0.33, 0.3, 0.12, 0.11, 0.08, 0.06], y_true=parts[0]).plot()
    assert_nothing_overlaps(display.figure_)
    tops = {round(text.get_window_extent().y0) for text in display.legend_.get_texts()}
    assert len(texts_of(display.legend_)) == 6 and len(tops) <= rows
    # The legend takes no room from the bars.
    assert display.ax_.get_window_extent().width > 0.8 * display.figure_.bbox.width


@pytest.mark.parametrize("n", [5, 50])
def test_ticks_of_convergence_do_not_overlap(n):
    n_iter = np.arange(2, n + 2)
    curve = {"n_iter": n_iter, "objective": -np.exp(-0.3 * n_iter), "gap": np.exp(-n_iter), "n_structures": n_iter}
    assert_nothing_overlaps(ConvergenceDisplay({"cg": curve}).plot().figure_)


def test_explanations_say_what_is_compared_and_which_structure_has_each_part():
    """For each kind of structure: flipping the sign of a part of the rival gives its contribution to that part."""
    rng, n_compared = np.random.default_rng(0), 0
    X = [rng.normal(size=(6, 2)) for _ in range(20)]
    y = {
        "chain": [np.where(x[:, 0] > 0, "up", "down") for x in X],
        "tree": [np.array([0, 1]) if x[0, 0] > 0 else np.array([2, 0]) for x in X],
        Subset(1, 2): [np.isin(np.arange(6), np.argsort(-x[:, 0])[:1]) for x in X],
    }
    for structure, gold in y.items():
        model = StructuredSparseMAPClassifier(structure, alpha=1e-2, random_state=0).fit(X, gold)
        for x in X[:5]:
            display = ExplanationDisplay.from_estimator(model, x, n=40)
            why = display.explanation
            first, second = display.ax_.get_title(loc="left").split("\n")
            assert first.startswith("predicted: ") and second.startswith("compared with: ")
            assert first.partition(": ")[2] != second.partition(": ")[2]
            assert display.ax_.get_xlabel().startswith("contribution to the difference of scores, ")
            assert "← for the other" in display.ax_.get_xlabel() and "for the predicted →" in display.ax_.get_xlabel()
            names = [text.get_text() for text in display.ax_.get_yticklabels()]
            for (name, row, label, value, part_of), written in zip(why.table(40).tolist(), names, strict=False):
                if written.endswith(" others"):
                    break
                if name not in ("x0", "x1"):
                    continue
                output = model.classes_.tolist().index(label) if structure == "chain" else 0
                weight = model.coef_[output, int(name[1])]
                sign = 1.0 if part_of == "predicted" else -1.0
                assert value == pytest.approx(sign * weight * x[row, int(name[1])])
                assert ("not " in written) == (part_of == "rival")
                n_compared += 1
    assert n_compared > 40


def test_explanations_of_a_single_label_list_a_feature_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    score = X @ [1.0, -1.0, 0.5]
    for classes in (["no", "yes"], ["high", "low", "middle"]):
        y = np.array(classes)[np.digitize(score, np.linspace(-1, 1, len(classes) + 1)[1:-1])]
        for model in (StructuredSparseMAPClassifier(random_state=0), MultilabelLPSparseMAP(random_state=0)):
            model.fit(X, y)
            why = explain(model, X[0])
            assert len(why.names) == len(set(why.names)) and {"x0", "x1", "x2"} <= set(why.names)
            assert set(why.labels) == {why.predicted} and set(why.parts_of) == {"predicted"}
            assert why.contributions.sum() == pytest.approx(why.score_difference)
            assert f"predicted: {why.predicted}\ncompared with: {why.rival}" == why.title


def test_titles_of_long_structures_show_the_differences():
    entries = [("word=the", 17, "N", 1.0), ("word=the", 17, "V", 0.5)]
    long = ["N"] * 60
    why = Explanation(long, [*long[:17], "V", *long[18:]], 1.5, entries, ["predicted", "rival"])
    assert why.title == "predicted: N, where they differ\ncompared with: V, where they differ"
    assert why.table()["part_of"].tolist() == ["predicted", "rival"]
    assert "compared with: V" in why._repr_html_() and "rival" in why._repr_html_()


def test_a_long_name_of_a_feature_does_not_hide_whose_part_it_is():
    entries = [("word[0]=" + "a" * 60, 0, "delivery", 1.0)]
    display = ExplanationDisplay(Explanation(("refund",), ("delivery",), 1.0, entries, ["rival"])).plot()
    (text,) = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert text.endswith("→ not delivery")
