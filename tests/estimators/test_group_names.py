"""Groups by the names of columns, from transformers, and what was selected, by name."""

import pickle
from functools import partial

import numpy as np
import pytest
from samples import make_chains
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron, StructuredGroupLasso
from sklearn_sparsemap.features import OnRows, TemplateVectorizer, TokenDictVectorizer
from sklearn_sparsemap.penalties import GroupOrder, GroupTree, as_groups, groups_by_name, groups_from

pd = pytest.importorskip("pandas")

rng = np.random.default_rng(0)
NAMES = ["a", "b", "c", "d", "e", "f"]


def quick(**parameters):
    return GroupLassoPerceptron(**{"shrink_every": 40, "max_iter": 3, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def table():
    X = pd.DataFrame(rng.normal(size=(120, 6)), columns=NAMES)
    return X, np.where(X["c"] - X["d"] > 0, "up", "down")


FORMS = {
    "dict": ({"ab": ["a", "b"], "cd": ["d", "c"], "ef": ["e", "f"]}, {"ab": [0, 1], "cd": [2, 3], "ef": [4, 5]}),
    "mixed": ({"ab": [0, "b"], "cd": ["c", 3], "e": "e", "f": 5}, {"ab": [0, 1], "cd": [2, 3], "e": [4], "f": [5]}),
    "list": ([["a", "b"], ["c", "d"], ["e", "f"]], [[0, 1], [2, 3], [4, 5]]),
    "tree": (
        GroupTree({"all": None, "cd": "all", "rest": "all"}, {"cd": ["c", "d"], "rest": ["a", "b", "e", "f"]}),
        GroupTree({"all": None, "cd": "all", "rest": "all"}, {"cd": [2, 3], "rest": [0, 1, 4, 5]}),
    ),
    "nested": (
        GroupTree.from_nested({"all": {"cd": ["c", "d"], "rest": ["a", "b", "e", "f"]}}),
        GroupTree.from_nested({"all": {"cd": [2, 3], "rest": [0, 1, 4, 5]}}),
    ),
    "order": (
        GroupOrder([("cd", "x")], columns={"cd": ["c", "d"], "x": ["a", "b", "e", "f"]}),
        GroupOrder([("cd", "x")], columns={"cd": [2, 3], "x": [0, 1, 4, 5]}),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_names_mean_their_places(form, table):
    by_name, by_part = FORMS[form]
    groups, expected = as_groups(by_name, 6, feature_names=NAMES), as_groups(by_part, 6)
    assert np.array_equal(groups.atom_of, expected.atom_of) and list(groups.names) == list(expected.names)
    model = quick(groups=by_name, budget=2 if form in ("tree", "nested") else 1).fit(*table)
    assert model.feature_names_in_.tolist() == NAMES
    chosen = {"list": [1], "tree": ["all", "cd"], "nested": ["all", "cd"]}.get(form, ["cd"])
    assert model.selected_group_names_ == chosen
    assert model.get_support().tolist() == [name in "cd" for name in NAMES]
    assert model.get_support(indices=True).tolist() == [2, 3]
    assert pickle.loads(pickle.dumps(model)).selected_group_names_ == chosen
    assert np.array_equal(np.unique(model.coef_.indices), [2, 3])


def test_messages_name_group_and_feature(table):
    X, y = table
    for groups, data, message in (
        ({"g": ["a", "q"]}, X, "group 'g' has 'q', but there is no feature of this name; features are 'a', 'b'"),
        ({"g": ["a"]}, X.to_numpy(), "the groups name columns, but the features have no names: fit on a DataFrame"),
        (GroupTree({"r": None}, {"r": ["a"]}), X.to_numpy(), "the groups name columns, but"),
    ):
        with pytest.raises(ValueError, match=message):
            quick(groups=groups).fit(data, y)
    with pytest.raises(ValueError, match="there are several features of this name"):
        as_groups({"g": ["a"]}, 2, feature_names=["a", "a"])


def test_groups_from_transformers():
    X = pd.DataFrame({"n": [1.0, 2.0, 3.0], "n_2": [0.0, 1.0, 0.0], "k": ["x", "y", "z"], "off": [1, 2, 3]})
    parts = [("num", StandardScaler(), ["n", "n_2"]), ("cat", OneHotEncoder(), ["k"]), ("none", "drop", ["off"])]
    columns = ColumnTransformer(parts).fit(X)
    found = groups_from(columns)
    assert {name: own.tolist() for name, own in found.items()} == {"num": [0, 1], "cat": [2, 3, 4]}
    by_column = groups_from(make_pipeline(columns), by="column")
    assert {name: own.tolist() for name, own in by_column.items()} == {
        "num__n": [0], "num__n_2": [1], "cat__k": [2, 3, 4],
    }  # fmt: skip
    on_rows = OnRows(ColumnTransformer(parts)).fit([X, X[:2]])
    for by in ("transformer", "column"):
        assert {n: own.tolist() for n, own in groups_from(on_rows, by).items()} == {
            n: own.tolist() for n, own in groups_from(columns, by).items()
        }
    plain = ColumnTransformer(parts, verbose_feature_names_out=False, remainder="passthrough").fit(X)
    assert list(groups_from(plain, by="column")) == ["n", "n_2", "k"]
    assert list(groups_from(OneHotEncoder().fit(X[["k"]]))) == ["k"]
    union = FeatureUnion([("s", StandardScaler()), ("m", MinMaxScaler())]).fit(X[["n", "n_2"]])
    assert {n: own.tolist() for n, own in groups_from(union).items()} == {"s": [0, 1], "m": [2, 3]}
    assert list(groups_from(union, by="column")) == ["s__n", "s__n_2", "m__n", "m__n_2"]
    words = TemplateVectorizer(["word[0]", "word[-1]"]).fit([["a", "b"]])
    assert {n: own.tolist() for n, own in groups_from(words).items()} == {"word[0]": [0, 1], "word[-1]": [2, 3]}
    dicts = TokenDictVectorizer().fit([[{"w": "a", "n": 1}, {"w": "b"}]])
    assert {n: own.tolist() for n, own in groups_from(dicts).items()} == {"w": [0, 1], "n": [2]}
    for transformer, message in (
        (ColumnTransformer(parts), "fit it, or pass groups"),
        (X, "has no names of its output columns"),
    ):
        with pytest.raises(ValueError, match=message):
            groups_from(transformer)
    with pytest.raises(ValueError, match="by='row' is not one of"):
        groups_from(columns, by="row")


def test_templates_are_selected_by_name():
    words = [["a", "b", "c"], ["b", "a"], ["c", "c", "a"]] * 8
    y = [["x" if w == "a" else "y" for w in s] for s in words]
    X = TemplateVectorizer(["word[-1]", "word[0]"]).fit_transform(words)
    model = quick(structure="chain", groups="templates", budget=1).fit(X, y)
    assert model.selected_group_names_ == ["word[0]"] and X[:2].group_names == ["word[-1]", "word[0]"]
    assert model.get_support().tolist() == (X.groups == 1).tolist()


def test_a_group_that_goes_for_its_size_is_named(table):
    X, y = table
    groups = {"large": ["b", "c", "d", "e", "f"], "small": ["a"]}
    mixed = np.where(X["c"] - X["d"] + 0.6 * X["a"] > 0, "up", "down")
    with pytest.warns(UserWarning, match=r"group_weights='log2' discards 'large' \(5 features\) for its size only"):
        model = quick(groups=groups, budget=1, group_weights="log2").fit(X, mixed)
    assert model.selected_group_names_ == ["small"]
    assert quick(groups=groups, budget=1).fit(X, mixed).selected_group_names_ == ["large"]
    # Nothing to say where the sizes are equal, or all are kept.
    quick(groups={"ab": ["a", "b"], "cd": ["c", "d"], "ef": ["e", "f"]}, budget=1, group_weights="log2").fit(X, y)
    quick(groups=groups, budget=2, group_weights="sqrt").fit(X, mixed)


def test_lists_of_frames_have_names_too():
    X, y = make_chains(30)
    frames = [pd.DataFrame(x, columns=list("pqrs")) for x in X]
    model = quick(structure="chain", groups={"good": ["p", "q", "r"], "bias": ["s"]}, budget=1).fit(frames, y)
    assert model.selected_group_names_ == ["good"] and model.feature_names_in_.tolist() == list("pqrs")


def make_table(n=90):
    """A table with a category that occurs once, and so not in all folds."""
    own = np.random.default_rng(5)
    X = pd.DataFrame(own.normal(size=(n, 3)), columns=["width", "height", "colour_code"])
    X["colour"], X["kind"] = own.choice(["red", "blue", "green"], size=n), own.choice(["a", "b"], size=n)
    X.loc[3, "colour"] = "rare"
    y = np.where((X["colour"] == "red") ^ (own.random(n) < 0.1), "yes", "no")
    one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    scaled = ["width", "height", "colour_code"]
    columns = ColumnTransformer([("size", StandardScaler(), scaled), ("sort", one_hot, ["colour", "kind"])])
    return X, y, columns.set_output(transform="pandas")


def test_groups_follow_the_transformer_of_each_fold():
    X, y, columns = make_table()
    folds = KFold(3)
    sizes = set()
    by_input = partial(groups_by_name, inputs=list(X.columns))
    for form, selected in (("columns", "sort"), (by_input, "sort__colour")):
        model = make_pipeline(columns, quick(groups=form, budget=1))
        assert np.isfinite(cross_val_score(model, X, y, cv=folds, error_score="raise")).all()
        for train, _ in folds.split(X):
            model.fit(X.iloc[train], y[train])
            sizes.add(model[-1].n_features_in_)
            by = "transformer" if form == "columns" else "column"
            expected = groups_from(model[0], by=by)
            assert list(model[-1].groups_.names) == list(expected)
            assert all(np.array_equal(own, expected[name]) for name, own in by_name(model[-1]).items())
        assert model.fit(X, y)[-1].selected_group_names_ == [selected]
        search = GridSearchCV(model, {"grouplassoperceptron__budget": [1, 2]}, cv=folds, n_jobs=2).fit(X, y)
        assert search.best_score_ > 0.7
        again = pickle.loads(pickle.dumps(model))
        assert again[-1].selected_group_names_ == [selected] and again.score(X, y) == model.score(X, y)
    assert len(sizes) == 2


def by_name(model):
    """Return the columns of each group of a model without overlap."""
    return {name: np.flatnonzero(model.groups_.atom_of == g) for g, name in enumerate(model.groups_.names)}


def test_groups_by_name():
    names = ["n__a_b", "n__a", "m__a_b_c", "alone", "m__a_x"]
    assert {name: own.tolist() for name, own in groups_by_name(names).items()} == {
        "n": [0, 1], "m": [2, 4], "alone": [3],
    }  # fmt: skip
    found = groups_by_name(names, inputs=["a", "a_b", "alone"])
    assert {name: own.tolist() for name, own in found.items()} == {
        "n__a_b": [0], "n__a": [1], "m__a_b": [2], "alone": [3], "m__a": [4],
    }  # fmt: skip
    with pytest.raises(ValueError, match="the column 'n__a_b' begins with none of the inputs"):
        groups_by_name(names, inputs=["b"])
    with pytest.raises(ValueError, match="groups='columns', or a function, needs names of features; pass a D"):
        quick(groups="columns").fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="is not one of 'templates', 'columns'"):
        as_groups("rows", 3)
    own = quick(groups=lambda names: [[0, 1], [2, 3, 4, 5]], budget=1).fit(
        pd.DataFrame(rng.normal(size=(20, 6)), columns=NAMES), [0, 1] * 10
    )
    assert own.groups_.sizes.tolist() == [2, 4]


def test_the_selected_columns_alone(table):
    X, y = table
    lasso = StructuredGroupLasso(groups=FORMS["dict"][0], alpha=0.2)
    for model in (quick(groups=FORMS["dict"][0], budget=1), lasso):
        for data in (X, X.to_numpy()):
            model.set_params(groups=FORMS["dict"][data is not X]).fit(data, y)
            kept = model.get_support()
            assert kept.tolist() == [False, False, True, True, False, False]
            selected = X.loc[:, kept] if data is X else data[:, kept]
            with pytest.raises(
                ValueError, match=r"(X has 2 features|names should match).*\. As many are selected: .*get_support"
            ):
                model.predict(selected)
            # The remedy: other columns do not count.
            filled = np.where(kept, X, 0.0)
            filled = pd.DataFrame(filled, columns=NAMES) if data is X else filled
            assert model.predict(filled).tolist() == model.predict(data).tolist()
            with pytest.raises(ValueError, match=r"(?s)(X has 3|now missing)") as caught:
                model.predict(X.iloc[:, :3] if data is X else data[:, :3])
            assert "As many" not in str(caught.value)
    rows, labels = make_chains(20)
    groups = [[0, 1], list(range(2, rows[0].shape[1]))]
    model = quick(structure="chain", groups=groups, budget=1).fit(rows, labels)
    with pytest.raises(ValueError, match=r"X\[0\] has \d features, but the model .*\. As many are selected"):
        model.predict([x[:, model.get_support()] for x in rows])
