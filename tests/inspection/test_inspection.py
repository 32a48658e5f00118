"""Tables of what was learned, and explanations that add up."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from samples import make_chains
from scipy.special import logit
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_sparsemap import (
    GroupLassoPerceptron,
    MultilabelLPSparseMAP,
    StructuredGroupLasso,
    StructuredSparseMAPClassifier,
)
from sklearn_sparsemap.factors import AtLeast, AtMost, FactorGraph, Hierarchy, Implies
from sklearn_sparsemap.features import TemplateVectorizer
from sklearn_sparsemap.inspection import explain, feature_table, label_table, transition_table
from sklearn_sparsemap.pipeline import make_structured_pipeline
from sklearn_sparsemap.score_models import Network
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
            assert why.score_difference >= -1e-12 and "over" in repr(why) and "<table" in why._repr_html_()
            assert np.array_equal(why.predicted, model.predict([x])[0])
            against = explain(model, x, against=best[-1][0])
            assert against.score_difference == pytest.approx(why.score_difference, abs=1e-9)
            places = {label for label in why.labels if str(label).startswith("[")}
            assert bool(places) == isinstance(model._structure, DependencyTree | Matching)
            kinds.add(type(model._structure))
            sizes += "size" in why.names
            table = why.table(3)
            assert (np.diff(np.abs(table["contribution"])) <= 0).all() and len(table) <= 3
    assert len(kinds) == 6 and sizes > 3
    assert list(why.table(output="pandas").columns) == ["name", "row", "label", "contribution", "part_of"]


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


def make_sets(n=150):
    """Return a table with a column of text, and label sets of its rows as names."""
    own = np.random.default_rng(3)
    X = pd.DataFrame({"tempo": own.normal(size=n), "volume": own.normal(size=n), "place": own.choice(["a", "b"], n)})
    noise = 0.3 * own.normal(size=(2, n))
    on = {"jazz": X["tempo"] + noise[0] > 0.3, "live": (X["place"] == "a") & (X["volume"] + noise[1] > -0.5)}
    on["music"] = on["jazz"] | (X["tempo"] + noise[1] < -1.0)
    return X, [{name for name, column in on.items() if column[i]} for i in range(n)]


def with_columns(*steps):
    columns = make_column_transformer((StandardScaler(), ["tempo", "volume"]), (OneHotEncoder(), ["place"]))
    return make_pipeline(columns, *steps)


HIERARCHY = Hierarchy.from_edges([("jazz", "music"), ("live", "music")])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "logistic"},
        {"decision": "map", "constraints": [Implies("jazz", "music"), AtMost(2)]},
        {"constraints": HIERARCHY},
        {"label_graph": "full", "max_iter": 20},
        {"score_model": Network((5,), dropout=0.0, batch_size=64), "max_iter": 20},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:the labels of")
def test_explanations_of_label_sets_add_up(options):
    X, y = make_sets()
    model = with_columns(MultilabelLPSparseMAP(random_state=0, **{"score_model": "linear", **options})).fit(X, y)
    last, names = model[-1], set(model[:-1].get_feature_names_out())
    classes, n_negative, seen = last.classes_.tolist(), 0, set()
    evidence = last._inference.evidence(last._learned.model, model[:-1].transform(X))
    odds = last._calibration.log_odds(evidence)
    if not last._graph.constraints:
        np.testing.assert_allclose(odds, logit(model.predict_proba(X)), atol=1e-9)
    everything = [set(own) for size in range(4) for own in combinations(classes, size)]
    allowed = [own for own in everything if not last._graph.violated(last._in_order([own]).toarray()).any()]
    for i in range(0, 150, 10):
        why = explain(model, X.iloc[i])
        assert why.predicted == model.predict(X.iloc[[i]])[0]
        assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
        value = {frozenset(own): sum(odds[i][classes.index(name)] for name in own) for own in allowed}
        others = [number for own, number in value.items() if own != frozenset(why.predicted)]
        assert value[frozenset(why.rival)] == pytest.approx(max(others))
        assert why.score_difference == pytest.approx(value[frozenset(why.predicted)] - max(others), abs=1e-9)
        changed = set(why.predicted) ^ set(why.rival)
        assert {*why.labels} <= changed and (why.rows <= 0).all() and "<table" in why._repr_html_()
        extra = {"intercept", "network", "rules", "calibration", *(f"edge[{name}]" for name in classes)}
        assert {*why.names} <= names | extra
        n_negative += why.score_difference < 0
        seen |= {*why.names}
        for against in ([], ["music"], ("jazz", "music")):
            if set(against) in allowed:
                why = explain(model, X.iloc[[i]], against=against)
                assert set(why.rival) == set(against)
                assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
    assert ("network" in seen) == ("score_model" in options) and n_negative < 8
    assert any(name.startswith("edge[") for name in seen) == ("label_graph" in options)


def test_explanations_of_single_labels_and_indicators():
    X, y = make_sets()
    single = with_columns(MultilabelLPSparseMAP(random_state=0)).fit(
        X, ["jazz" if "jazz" in own else "no" for own in y]
    )
    for i in range(5):
        why = explain(single, X.iloc[i])
        log_odds = np.log(single.predict_proba(X.iloc[[i]])[0])
        assert why.predicted == single.predict(X.iloc[[i]])[0] != why.rival
        assert why.score_difference == pytest.approx(log_odds.max() - log_odds.min())
        assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
        assert explain(single, X.iloc[i], against=why.rival).score_difference == pytest.approx(why.score_difference)
    table = pd.DataFrame({name: [int(name in own) for own in y] for name in ("jazz", "music")})
    model = with_columns(MultilabelLPSparseMAP(constraints=[Implies("jazz", "music")])).fit(X, table)
    assert explain(model, X.iloc[0], against=[0, 1]).rival == ("music",)
    for call, message in (
        (lambda: explain(model, X.iloc[0], against=[1, 0]), "against violates the constraints"),
        (lambda: explain(model, X.iloc[0], against=[1, 0, 1]), "it must be labels in classes_"),
        (lambda: explain(model, X.iloc[0], against={"rock"}), "has the label 'rock', which is not among"),
        (lambda: explain(single, X.iloc[0], against="rock"), "it must be labels in classes_"),
        (lambda: explain(model, X.iloc[:2]), r"x is a sequence of samples, 2 in all; .* such as X.iloc\[0\]$"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    pytest.importorskip("matplotlib")
    from sklearn_sparsemap.plotting import ExplanationDisplay

    assert ExplanationDisplay.from_estimator(model, X.iloc[0], n=4).ax_.get_xlabel().startswith("contribution")


def test_names_of_columns_behind_a_column_transformer():
    X, y = make_sets()
    label = ["jazz" if "jazz" in own else "no" for own in y]
    names = ["standardscaler__tempo", "standardscaler__volume", "onehotencoder__place_a", "onehotencoder__place_b"]
    sets = with_columns(MultilabelLPSparseMAP(score_model="linear", random_state=0)).fit(X, y)
    search = GridSearchCV(sets, {"multilabellpsparsemap__alpha": [1e-3]}, cv=2).fit(X, y)
    for model in (sets, search):
        table = label_table(model, X.iloc[[3]], n_features=9)
        assert {*table["name"][table["source"] == "feature"]} <= {*names, "others"}
        assert {*table["label"]} == {"jazz", "live", "music"}
        last = model if model is sets else model.best_estimator_
        of_label = last[-1].label_table(last[:-1].transform(X.iloc[[3]]), 9, names)
        assert table.tolist() == of_label and label_table(model, X.iloc[3], 9).tolist() == of_label
    assert list(label_table(sets, X.iloc[3], output="pandas").columns) == ["label", "source", "name", "amount"]
    for last in (
        StructuredSparseMAPClassifier(),
        GroupLassoPerceptron(budget=2, random_state=0),
        StructuredGroupLasso(alpha=1e-3),
        MultilabelLPSparseMAP(score_model="linear", random_state=0),
    ):
        model = with_columns(last).fit(X, y if isinstance(last, MultilabelLPSparseMAP) else label)
        assert {*feature_table(model)["feature"]} <= set(names)
        for x in (X.iloc[3], X.iloc[[3]]):
            why = explain(model, x)
            assert {*why.names} <= {*names, "intercept"}
            assert why.contributions.sum() == pytest.approx(why.score_difference, abs=1e-9)
        # Without its pipeline, a model has the names only if the transformer returns a table.
        model[0].set_params(onehotencoder__sparse_output=False).set_output(transform="pandas")
        model.fit(X, y if isinstance(last, MultilabelLPSparseMAP) else label)
        if hasattr(last, "selected_group_names_"):
            assert last.selected_group_names_ and {*last.selected_group_names_} <= set(names)
            assert last.selected_group_names_ == model[:-1].get_feature_names_out()[last.selected_groups_].tolist()
    with pytest.raises(ValueError, match="label_table is for MultilabelLPSparseMAP; got StructuredGroupLasso"):
        label_table(with_columns(StructuredGroupLasso(alpha=1e-3)).fit(X, label), X.iloc[0])


def test_one_text_in_any_container():
    texts = ["a jazz tour", "the law of rock", "jazz law", "rock tour"] * 5
    y = [{word for word in text.split() if word in ("jazz", "law", "rock")} for text in texts]
    model = make_pipeline(TfidfVectorizer(), MultilabelLPSparseMAP(alpha=0.01)).fit(texts, y)
    wanted, why = label_table(model, texts[0]).tolist(), explain(model, texts[0], against={"law"})
    series = pd.Series(texts, index=range(7, 27))
    assert "jazz" in why.names
    for x in ([texts[0]], (texts[0],), np.array(texts[:1]), np.array(texts[:1], object), series[:1]):
        assert label_table(model, x).tolist() == wanted
        assert explain(model, x, against={"law"}).table().tolist() == why.table().tolist()
    for several in (texts[:2], series[:2]):
        for call in (label_table, explain):
            with pytest.raises(ValueError, match=r"cannot read x as one sample .*; pass a single text"):
                call(model, several)
    # A row of a table with one column of text is still a row.
    table = pd.DataFrame({"text": texts})
    model = make_pipeline(
        make_column_transformer((TfidfVectorizer(), "text")), MultilabelLPSparseMAP(score_model="linear", alpha=0.01)
    )
    model = model.fit(table, y)
    assert label_table(model, table.iloc[0]).tolist() == label_table(model, table[:1]).tolist()
    dicts = [dict.fromkeys(text.split(), 1) for text in texts]
    model = make_pipeline(DictVectorizer(), MultilabelLPSparseMAP(alpha=0.01)).fit(dicts, y)
    for x in (dicts[:1], pd.Series(dicts[:1])):
        assert label_table(model, x).tolist() == label_table(model, dicts[0]).tolist()
        assert explain(model, x).table().tolist() == explain(model, dicts[0]).table().tolist()


@pytest.mark.parametrize("kind", ["graph", "chain", "label set"])
def test_an_explanation_says_what_rules_changed(kind):
    rng = np.random.default_rng(5)
    n_changed = 0
    if kind == "graph":
        graph = FactorGraph()
        shifts = graph.variables(4, name="shifts")
        graph.add(AtMost(shifts, 1, name="one shift"))
        X = rng.normal(size=(60, 4, 2))
        y = (X[..., 0] == X[..., 0].max(axis=1, keepdims=True)) & (X[..., 0] > 0)
        model = StructuredSparseMAPClassifier(graph).fit(X, y)
        # Equal weights, such that several shifts would be chosen.
        model.coef_, model.intercept_ = [[2.0, 0.0]], [1.0]
        samples = [X[i : i + 1][0] for i in range(10)]
        best = [scores > 0 for scores in model.decision_function(X[:10])]
        breaks = [["one shift"] if own.sum() > 1 else [] for own in best]
    elif kind == "chain":
        labels = ["B-X", "I-X", "O"]
        samples = [rng.normal(size=(n, 3)) for n in (4, 5, 3, 6) * 3]
        y = [["O", "B-X", "I-X", *["O"] * (len(x) - 3)] for x in samples]
        model = StructuredSparseMAPClassifier("chain", constraints="bio").fit(samples, y)
        model.coef_, model.intercept_ = 2.0 * np.eye(3), np.zeros(3)
        free = StructuredSparseMAPClassifier("chain").fit(samples, y)
        for name in ("coef_", "intercept_", "transitions_", "start_", "end_"):
            values = np.where(np.isfinite(getattr(model, name)), getattr(model, name), 0.0)
            setattr(free, name, values)
        best = list(free.predict(samples))
        breaks = []
        for own in best:
            before = ["the sides", *own[:-1]]
            pairs = [(a, b) for a, b in zip(before, own) if b == "I-X" and a not in ("B-X", "I-X")]
            breaks.append(list(dict.fromkeys(f"I-X after {a}" for a, _ in pairs)))
        assert labels == model.classes_.tolist()
    else:
        X = rng.normal(size=(80, 3))
        y = np.eye(3, dtype=int)[X.argmax(axis=1)]
        model = MultilabelLPSparseMAP(
            constraints=[AtMost(1)], label_graph=None, decision="threshold", threshold=0.5, random_state=0
        ).fit(X, y)
        samples = [3.0 * X[i : i + 1] for i in range(10)]
        odds = [model.predict_proba(x)[0] > 0.5 for x in samples]
        best = [tuple(np.flatnonzero(own).tolist()) for own in odds]
        breaks = [[repr(AtMost(1))] if len(own) > 1 else [] for own in best]
    for x, own, rules in zip(samples, best, breaks, strict=True):
        why = explain(model, x)
        np.testing.assert_array_equal(why.without_rules, own)
        assert why.broken_rules == rules
        has_changed = not np.array_equal(why.without_rules, why.predicted)
        assert bool(why.broken_rules) >= has_changed
        assert ("without rules: " in why.title) == bool(why.broken_rules)
        for rule in why.broken_rules:
            assert rule in why._repr_html_()
        n_changed += has_changed
    assert n_changed > 0


@pytest.mark.parametrize("options", [{}, {"decision": "expected_f1"}, {"decision": "threshold", "threshold": 0.05}])
def test_labels_without_rules_are_decided_in_the_same_way(options):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3))
    y = np.eye(3, dtype=int)[X.argmax(axis=1)]
    model = MultilabelLPSparseMAP(constraints=[AtLeast(1)], label_graph=None, score_model="linear", **options).fit(X, y)
    for x in X[:20]:
        why = explain(model, x)
        assert why.broken_rules or tuple(why.without_rules) == tuple(why.predicted)


def test_without_rules_nothing_is_said_of_them():
    X = [np.eye(2)[[0, 1, 1]], np.eye(2)[[1, 0, 0]]]
    why = explain(StructuredSparseMAPClassifier("chain").fit(X, [["a", "b", "b"], ["b", "a", "a"]]), X[0])
    assert why.without_rules is None and list(why.broken_rules) == [] and "rules" not in why.title
