"""Tables of what was learned, and explanations that add up."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from test_structured import make_chains

from sklearn_sparsemap import GroupLassoPerceptron, MultilabelLPSparseMAP, StructuredSparseMAPClassifier
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.inspection import explain, feature_table, transition_table
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.structures import CustomStructure, DependencyTree, Matching, Subset

pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
WORDS = [["the", "dog", "barks"], ["a", "cat"], ["a", "dog"], ["the", "cat", "barks"]] * 3
TAGS = [["D", "N", "V"], ["D", "N"], ["D", "N"], ["D", "N", "V"]] * 3


def best_run(scores, lengths):
    runs = [(scores[i:j].sum() + lengths[j - i - 1], i, j) for i in range(len(scores)) for j in range(i + 1, 5)]
    _, i, j = max(runs)
    return range(i, j), [j - i - 1]


def run_of(parts):
    return parts, [len(parts) - 1]


def structured(structure, targets, shape, **parameters):
    X = [rng.normal(size=(*shape, 3)) for _ in targets]
    return StructuredSparseMAPClassifier(structure, **parameters).fit(X, targets), X


def models():
    """Yield fitted models of each kind, and samples of them."""
    X, y = make_chains(20)
    yield StructuredSparseMAPClassifier("chain", loss="crf").fit(X, y), X
    yield GroupLassoPerceptron("chain", random_state=0).fit(make_chains(20, kind="csr")[0], y), X
    yield StructuredSparseMAPClassifier().fit(np.vstack(X), np.concatenate(y)), np.vstack(X)
    trees = [np.array([0, 1, 2]), np.array([2, 0, 2]), np.array([0, 1, 1])]
    for options in ({}, {"projective": True}, {"single_root": True}):
        yield structured(DependencyTree(**options), trees, (4, 3))
    yield structured(Matching(), [np.array([0, 1]), np.array([1, 2])], (2, 3))
    yield structured(Matching(), [np.array([0, 1, -1]), np.array([1, -1, 0])], (3, 2))
    yield structured(Subset(), [np.array([True, False, True, False])] * 2, (4,), temperature=0.8)
    yield structured(Subset(max_size=2), [np.array([True, False, True, False])] * 2, (4,), loss="crf")
    custom = CustomStructure(best_run, additional={"lengths": (4,)}, encode=run_of)
    yield structured(custom, [[0, 1], [2, 3]], (4,), tol=1.0, solver="adagrad")


def test_contributions_add_up_for_each_kind_of_structure():
    kinds, sizes = set(), 0
    for model, X in models():
        for x in X[:5]:
            why = explain(model, x)
            best = model.predict_n_best([x], 2)[0]
            assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
            assert why.score_difference == pytest.approx(best[0][1] - best[1][1], abs=1e-9)
            assert why.score_difference >= -1e-12 and "over" in repr(why) and "<table>" in why._repr_html_()
            assert np.array_equal(why.predicted, model.predict([x])[0])
            against = explain(model, x, against=best[-1][0])
            assert against.score_difference == pytest.approx(why.score_difference, abs=1e-9)
            kinds.add(type(model._structure))
            sizes += "size" in why.names
            table = why.table(3)
            assert (np.diff(np.abs(table["contribution"])) <= 0).all() and len(table) <= 3
    assert len(kinds) == 6 and sizes > 3
    assert list(why.table(output="pandas").columns) == ["name", "row", "label", "contribution"]


def tagger():
    return make_pipeline(TemplateVectorizer(["word[0]"]), StructuredSparseMAPClassifier("chain", alpha=1e-4, tol=1e-2))


def test_explanations_and_tables_of_pipelines_and_searches():
    plain = tagger().fit(WORDS, TAGS)
    ours = make_structured_pipeline(*(step for _, step in tagger().steps)).fit(WORDS, TAGS)
    search = GridSearchCV(tagger(), {"structuredsparsemapclassifier__alpha": [1e-4]}, cv=2).fit(WORDS, TAGS)
    tables = [feature_table(model, n=2) for model in (plain, ours, search)]
    assert all(np.array_equal(table, tables[0]) for table in tables)
    assert tables[0].dtype.names == ("label", "feature", "weight")
    assert list(dict.fromkeys(tables[0]["label"].tolist())) == ["D", "N", "V"] and len(tables[0]) > 8
    assert tables[0]["feature"][0] in ("word[0]=the", "word[0]=a") and tables[0]["weight"][0] > 0
    why = explain(search, ["the", "dog", "barks"])
    assert why.predicted.tolist() == ["D", "N", "V"] and any(n.startswith("transitions[") for n in why.names)
    assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
    assert set(why.labels) <= {"D", "N", "V", None} and (why.rows[[n[:4] == "word" for n in why.names]] >= 0).all()
    assert len(pickle.loads(pickle.dumps(why)).names) == len(why.names)
    with pytest.raises(ValueError, match="against has the label 'X', which is not in classes_"):
        explain(search, ["the"], against=["X"])


def test_feature_table_has_the_weights():
    X, y = make_chains(20)
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    full = feature_table(model, n=None)
    for k, label in enumerate(model.classes_):
        own = full[full["label"] == label]
        assert own["weight"].tolist() == sorted(model.coef_[k], reverse=True)
        assert all(model.coef_[k, int(f[1:])] == w for f, w in zip(own["feature"], own["weight"]))
        for n in (1, 2, 10):
            few = feature_table(model, list("abcd"), n=n)
            positive, negative = (sorted(w for w in sign * model.coef_[k] if w > 0)[-n:] for sign in (1, -1))
            own = few[few["label"] == label]["weight"].tolist()
            assert own == positive[::-1] + [-w for w in negative]
    named = StructuredSparseMAPClassifier().fit(pd.DataFrame(np.eye(3), columns=["p", "q", "r"]), [0, 1, 2])
    assert set(feature_table(named)["feature"]) == {"p", "q", "r"}
    perceptron = GroupLassoPerceptron("chain", budget=2, groups=None, shrink_every=10, random_state=0).fit(X, y)
    assert set(feature_table(perceptron, n=None)["weight"]) == set(perceptron.coef_.data)
    assert len(feature_table(LogisticRegression().fit(np.eye(4), [0, 1, 0, 1]))) == 4
    assert feature_table(model, output="pandas").shape == (12, 3)
    sets = MultilabelLPSparseMAP(label_graph=None, random_state=0)
    sets.fit(np.vstack(X), np.vstack(X)[:, :2] > 0.5, classes=["p", "q"])
    strongest = feature_table(sets, list("abcd"), n=1)
    assert [row.tolist()[:2] for row in strongest if row["weight"] > 0] == [("p", "a"), ("q", "b")]
    for call, message in (
        (lambda: feature_table(model, ["a"]), "feature_names has 1 entries for 4 features"),
        (lambda: feature_table(StructuredSparseMAPClassifier()), "needs a fitted linear model"),
        (lambda: feature_table(GridSearchCV(model, {})), "has no best_estimator_"),
        (lambda: transition_table(named), "with transitions_"),
        (lambda: explain(LogisticRegression(), [1.0]), "explain is for Structured"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_transition_table_is_sorted():
    X, y = make_chains(20)
    model = StructuredSparseMAPClassifier("chain").fit(X, y)
    table = transition_table(model)
    assert len(table) == 9 and (np.diff(table["weight"]) <= 0).all()
    code = {label: i for i, label in enumerate(model.classes_)}
    for source, target, weight in table.tolist():
        assert model.transitions_[code[source], code[target]] == weight
    assert len(transition_table(model, 2, output="pandas")) == 2


def test_displays_take_models_pipelines_and_searches(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    from sklearn_sparsemap.plotting import (
        ChainDisplay,
        ExplanationDisplay,
        FeatureTableDisplay,
        GroupOrderDisplay,
        LabelConfusionDisplay,
        MemoryCurveDisplay,
        TransitionsDisplay,
    )

    search = GridSearchCV(tagger(), {"structuredsparsemapclassifier__alpha": [1e-4]}, cv=2).fit(WORDS, TAGS)
    table = FeatureTableDisplay.from_estimator(search, n=2, labels=["N", "D"])
    assert [ax.get_title() for ax in table.ax_] == ["N", "D"] and len(table.ax_[0].patches) == 4
    why = ExplanationDisplay.from_estimator(search, ["the", "dog"], n=3)
    widths = sum(bar.get_width() for bar in why.ax_.patches)
    assert widths == pytest.approx(why.explanation.score_difference) and len(why.ax_.patches) == 4
    transitions = TransitionsDisplay.from_estimator(search)
    assert transitions.labels == ["D", "N", "V"] and transitions.image_.get_array().shape == (3, 3)
    right = [["D", None, "V"], ["N", "N"], *TAGS[2:]]
    confusion = LabelConfusionDisplay.from_estimator(search, WORDS, right)
    assert confusion.matrix.tolist() == [[11, 0, 0], [1, 11, 0], [0, 0, 6]]
    assert ChainDisplay.from_estimator(search, ["the", "dog"]).labels == ["D", "N", "V"]
    groups = make_pipeline(
        TemplateVectorizer(["word[0]", "word[-1]"]),
        GroupLassoPerceptron("chain", groups="templates", budget=1, shrink_every=4, random_state=0),
    ).fit(WORDS, TAGS)
    assert MemoryCurveDisplay.from_estimator(groups).lines_
    with pytest.raises(ValueError, match="GroupOrder"):
        GroupOrderDisplay.from_estimator(groups)
    for display in (table, why, transitions, confusion):
        display.figure_.savefig(tmp_path / "picture.png")
        plt.close(display.figure_)
    plt.close("all")
    for call, message in (
        (lambda: TransitionsDisplay([[1.0, 2.0]]), "must be square"),
        (lambda: TransitionsDisplay([[1.0]], ["a", "b"]), "there are 2 labels for 1 rows"),
        (
            lambda: LabelConfusionDisplay.from_predictions([["a"]], [["a", "b"]]),
            r"y_true\[0\] has 1 labels, y_pred\[0\] has 2",
        ),
        (lambda: FeatureTableDisplay([1.0]), "table must be a result of feature_table"),
        (lambda: FeatureTableDisplay.from_estimator(search, labels=["Q"]), "labels must be of"),
        (lambda: ExplanationDisplay(3), "must be a result of explain"),
        (lambda: TransitionsDisplay.from_estimator(LogisticRegression()), "have transitions_"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
