"""Names of labels in all calls, as columns and as collections, and missing entries of every type."""

import pickle

import numpy as np
import pytest
from internals import expected_cuts
from scipy import sparse
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer, StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.distributed import ParameterMixing
from sklearn_sparsemap.factors import Hierarchy, Implies
from sklearn_sparsemap.metrics import example_f1_score, example_f1_scorer, hierarchical_f1_score, precision_at_k

pd = pytest.importorskip("pandas")
NAMES = ["live", "jazz", "music"]
ORDERS = [["music", "live", "jazz"], ["jazz", "live", "music"]]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    Z = (X[:, :3] + 0.3 * rng.normal(size=(120, 3)) > [0.0, 0.5, 1.0]).astype(int)
    return X, pd.DataFrame(Z, columns=NAMES)


@pytest.fixture(scope="module")
def model(data):
    return MultilabelLPSparseMAP(random_state=0).fit(*data)


@pytest.mark.parametrize("order", ORDERS)
def test_columns_in_another_order_are_put_in_order(data, model, order):
    X, Y = data
    assert model.score(X, Y[order]) == model.score(X, Y) == model.score(X, Y.to_numpy()) > 0.6
    pipeline = make_pipeline(StandardScaler(), MultilabelLPSparseMAP(score_model="linear", random_state=0)).fit(X, Y)
    assert pipeline.score(X, Y[order]) == pipeline.score(X, Y)
    partly = Y.astype(float)
    partly.iloc[3, 1] = np.nan
    assert model.score(X, partly[order]) == model.score(X, partly)

    def calibrated(Y):
        return ConformalStructures(model).conformalize(X, Y)

    sets = calibrated(Y)
    assert calibrated(Y[order]).threshold_ == sets.threshold_
    np.testing.assert_array_equal(sets.covers(X, Y[order]), sets.covers(X, Y))
    np.testing.assert_array_equal(sets.nonconformity(X, Y[order]), sets.nonconformity(X, Y))


@pytest.mark.parametrize("order", ORDERS)
def test_streams_and_partitions_are_put_in_order(data, order):
    X, Y = data

    def stream(second, **first):
        model = MultilabelLPSparseMAP(score_model="linear", random_state=0, threshold="auto").partial_fit(
            X[:60], Y[:60], **first
        )
        return model.partial_fit(X[60:], second)

    wanted = stream(Y[60:]).predict_proba(X)
    np.testing.assert_array_equal(stream(Y[order][60:]).predict_proba(X), wanted)
    np.testing.assert_array_equal(stream(Y.to_numpy()[60:]).predict_proba(X), wanted)

    def partitions(second, **options):
        model = MultilabelLPSparseMAP(
            score_model="linear", random_state=0, shuffle=False, max_iter=3, tol=1e9, n_iter_no_change=1
        )
        return model.fit_partitions([(X[:60], Y[:60]), (X[60:], second)], **options)

    wanted = partitions(Y[60:], validation=(X, Y)).predict_proba(X)
    np.testing.assert_array_equal(partitions(Y[order][60:], validation=(X, Y[order])).predict_proba(X), wanted)
    found = partitions(Y[order][60:], classes=order, validation=(X, Y))
    assert found.classes_.tolist() == order
    assert found.score(X, Y) == found.score(X, Y[order]) == found.score(X, Y[order].to_numpy())


@pytest.mark.parametrize("order", ORDERS)
def test_classes_put_columns_in_order_and_do_not_rename(data, order):
    X, Y = data
    model = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, Y, classes=order)
    assert model.classes_.tolist() == order
    wanted = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, Y[order])
    np.testing.assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    assert model.score(X, Y) == model.score(X, Y[order].to_numpy()) > 0.6
    constraints = [Implies("jazz", "music")]
    closed = Y.assign(music=Y["music"] | Y["jazz"])
    found = (
        MultilabelLPSparseMAP(score_model="linear", constraints=constraints, random_state=0)
        .fit(X, closed, classes=order)
        .predict(X)
    )
    assert (found[:, order.index("jazz")] <= found[:, order.index("music")]).all()
    stream = MultilabelLPSparseMAP(score_model="linear", random_state=0).partial_fit(X, Y, classes=order)
    assert stream.classes_.tolist() == order
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        stream.partial_fit(X, Y, classes=NAMES)


def test_unknown_columns_are_refused(data, model):
    X, Y = data
    renamed, fewer, more = Y.rename(columns={"jazz": "rock"}), Y[NAMES[:2]], Y.assign(rock=0)
    conformal = ConformalStructures(model).conformalize(X, Y)
    stream = MultilabelLPSparseMAP(score_model="linear", random_state=0).partial_fit(X, Y)
    calls = (
        model.score,
        stream.partial_fit,
        conformal.covers,
        ConformalStructures(model).conformalize,
        conformal.nonconformity,
        lambda X, Y: MultilabelLPSparseMAP().fit_partitions([(X, data[1]), (X, Y)]),
        lambda X, Y: MultilabelLPSparseMAP(max_iter=1).fit_partitions([(X, data[1])], validation=(X, Y)),
    )
    for call in calls:
        for own, message in (
            (renamed, "y has the column 'rock', .*; y has no column 'jazz'"),
            (fewer, "y has no column 'music'"),
            (more, "y has the column 'rock', which is not among the labels that the model was fitted with"),
        ):
            with pytest.raises(ValueError, match=message):
                call(X, own)
    for call in (MultilabelLPSparseMAP().fit, MultilabelLPSparseMAP().partial_fit):
        with pytest.raises(
            ValueError, match="y has the column 'live', which is not among classes; y has no column 'x'"
        ):
            call(X, Y, classes=["x", "jazz", "music"])


def test_columns_of_one_name_are_refused(data, model):
    X, Y = data
    twice = pd.concat([Y, Y["jazz"]], axis=1)
    calls = (
        model.score,
        MultilabelLPSparseMAP().fit,
        MultilabelLPSparseMAP().partial_fit,
        ConformalStructures(model).conformalize,
        lambda X, Y: MultilabelLPSparseMAP().fit_partitions([(X, Y)]),
    )
    for call in calls:
        with pytest.raises(ValueError, match="y has two columns 'jazz'; two labels have the same name"):
            call(X, twice)
    with pytest.raises(ValueError, match="two labels have the same name"):
        MultilabelLPSparseMAP().fit(X, Y.to_numpy(), classes=["a", "b", "a"])


def test_columns_without_names_are_taken_in_their_order(data, model):
    X, Y = data
    unnamed = pd.DataFrame(Y.to_numpy())
    assert model.score(X, unnamed) == model.score(X, Y)
    assert (
        MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, unnamed, classes=NAMES).classes_.tolist()
        == NAMES
    )
    plain = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, Y.to_numpy())
    assert plain.classes_.tolist() == [0, 1, 2]
    assert plain.score(X, Y) == plain.score(X, Y.to_numpy()) == plain.score(X, unnamed[[2, 0, 1]])
    hierarchy = Hierarchy.from_edges([("jazz", "music"), ("live", "music")])
    found = MultilabelLPSparseMAP(score_model="linear", constraints=hierarchy, random_state=0).fit(
        X, pd.DataFrame(hierarchy.close(Y.to_numpy()))
    )
    assert found.classes_.tolist() == hierarchy.labels


def test_names_of_several_types(data):
    X, Y = data
    for names in (["a", 1, 2.5], [("a", 1), ("a", 2), ("b", 1)], ["a\0", "a", "b"], [3, 1, 2]):
        table = Y.set_axis(pd.Index(names, tupleize_cols=False), axis=1)
        model = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, table)
        assert model.classes_.tolist() == names
        assert model.score(X, table[[names[k] for k in (2, 0, 1)]]) == model.score(X, table) > 0.6


TYPES = ["Int64", "Float64", "boolean", "UInt8", "float32", object]


@pytest.mark.parametrize("kind", TYPES)
def test_missing_entries_of_every_type_are_unknown(data, model, kind):
    X, Y = data
    values = np.array(Y, float)
    values[[5, 7, 7], [1, 0, 2]] = np.nan
    table = pd.DataFrame(values, columns=NAMES).astype(kind)
    assert table.isna().to_numpy().sum() == 3
    wanted = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, values)
    found = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, table)
    assert found.classes_.tolist() == NAMES
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    assert found.score(X, table[ORDERS[0]]) == wanted.score(X, values)
    objects = [[pd.NA if np.isnan(entry) else int(entry) for entry in row] for row in values.tolist()]
    nones = [[None if np.isnan(entry) else bool(entry) for entry in row] for row in values.tolist()]
    for own in (objects, nones, np.array(objects, object)):
        found = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, own)
        np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    stream, same = (
        MultilabelLPSparseMAP(score_model="linear", random_state=0).partial_fit(X, own) for own in (table, values)
    )
    np.testing.assert_array_equal(stream.predict_proba(X), same.predict_proba(X))
    assert (
        len(cross_val_score(MultilabelLPSparseMAP(score_model="linear", random_state=0), X, values, cv=KFold(3))) == 3
    )
    with pytest.raises(ValueError, match=r"y\[5\] has unknown labels .*; leave the sample out"):
        ConformalStructures(model).conformalize(X, table)


def test_missing_text_is_refused(data):
    X, Y = data
    table = Y.astype("string")
    table.iloc[2, 0] = pd.NA
    with pytest.raises(ValueError, match=r"y holds text, such as '[01]'; it must be an indicator matrix"):
        MultilabelLPSparseMAP().fit(X, table)


def test_displays_match_names(data, model):
    pytest.importorskip("matplotlib")
    from sklearn_sparsemap.plotting import LabelCalibrationDisplay

    X, Y = data
    wanted = LabelCalibrationDisplay.from_estimator(model, X, Y)
    found = LabelCalibrationDisplay.from_estimator(model, X, Y[ORDERS[0]])
    np.testing.assert_array_equal(found.frequencies, wanted.frequencies)
    table = Y.astype("Int64")
    table.iloc[4, 0] = pd.NA
    assert LabelCalibrationDisplay.from_predictions(table, model.predict_proba(X)).counts.sum() == 359


def collections_of(Y, names=NAMES):
    """Return the rows of a table as sets, lists, tuples, and sequences of these."""
    sets = [{name for name, entry in zip(names, row) if entry} for row in np.asarray(Y).tolist()]
    lists = [[name for name, entry in zip(names, row) if entry] for row in np.asarray(Y).tolist()]
    tuples = np.empty(len(lists), object)
    tuples[:] = [tuple(own) for own in lists]
    return {
        "sets": sets,
        "frozen sets": tuple(map(frozenset, sets)),
        "lists": lists,
        "lists with repeats": [own + own[:1] for own in lists],
        "object array of tuples": tuples,
        "Series of lists": pd.Series(lists),
        "arrays": [np.array(own, str) for own in lists],
    }


FORMS = ["sets", "frozen sets", "lists", "lists with repeats", "object array of tuples", "Series of lists", "arrays"]


@pytest.fixture(scope="module")
def reference(data):
    X, Y = data
    return MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, Y[sorted(NAMES)])


@pytest.mark.parametrize("form", FORMS)
def test_collections_of_names_equal_indicators(data, reference, form):
    X, Y = data
    y = collections_of(Y)[form]
    model = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, y)
    assert model.classes_.tolist() == sorted(NAMES)
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))
    named = model.predict(X)
    assert named.dtype == object and named.shape == (len(X),)
    assert named.tolist() == reference.predict(X, names=True).tolist()
    assert any(own == () for own in named) and any(len(own) > 1 for own in named)
    np.testing.assert_array_equal(model.predict(X, names=False), reference.predict(X))
    assert model.score(X, y) == model.score(X, Y) == reference.score(X, y) == reference.score(X, Y)
    assert model.score(X, named) == 1.0 and model.score(X, Y[sorted(NAMES)].to_numpy().tolist()) == model.score(X, y)
    weights = np.arange(len(X))
    assert model.score(X, y, weights) == reference.score(X, Y, weights)
    again = pickle.loads(pickle.dumps(model))
    for other in (again, MultilabelLPSparseMAP.from_arrays(model.to_arrays())):
        assert other.predict(X).tolist() == named.tolist()


def test_collections_equal_those_of_multilabelbinarizer(data):
    X, _ = data
    rng = np.random.default_rng(1)
    names = np.array(["z", "a", "é", "ab", "B", "10", "9"])
    y = [set(names[rng.random(7) < 0.3].tolist()) for _ in X]
    binarizer = MultiLabelBinarizer().fit(y)
    model, peer = (
        MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, own) for own in (y, binarizer.transform(y))
    )
    assert model.classes_.tolist() == binarizer.classes_.tolist()
    np.testing.assert_array_equal(model.predict_proba(X), peer.predict_proba(X))
    assert model.predict(X).tolist() == binarizer.inverse_transform(peer.predict(X))
    f1 = f1_score(binarizer.transform(y), peer.predict(X), average="samples", zero_division=1.0)
    assert example_f1_score(y, model.predict(X)) == pytest.approx(f1)


def test_collections_in_tools_of_scikit_learn(data):
    X, Y = data
    y, lists = collections_of(Y)["sets"], collections_of(Y)["lists"]
    table = Y[sorted(NAMES)]
    folds, model = (
        KFold(3),
        make_pipeline(StandardScaler(), MultilabelLPSparseMAP(score_model="linear", random_state=0)),
    )
    wanted = cross_val_score(model, X, table, cv=folds)
    np.testing.assert_array_equal(cross_val_score(model, X, y, cv=3), wanted)
    np.testing.assert_array_equal(cross_val_score(model, X, lists, cv=folds), wanted)
    scores = [cross_val_score(model, X, own, cv=folds, scoring=example_f1_scorer) for own in (y, table)]
    np.testing.assert_array_equal(*scores)
    predicted = cross_val_predict(model, X, y, cv=3)
    indicators = cross_val_predict(model, X, table, cv=folds)
    assert predicted.tolist() == [tuple(np.array(sorted(NAMES))[row > 0].tolist()) for row in indicators]
    search = GridSearchCV(model, {"multilabellpsparsemap__alpha": [1e-3, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"multilabellpsparsemap__alpha": 1e-3} and {*map(type, search.predict(X))} == {tuple}
    X_train, X_test, y_train, y_test = train_test_split(X, lists, random_state=0)
    assert model.fit(X_train, y_train).score(X_test, y_test) > 0.5
    # A label that a fold lacks has to be named.
    rare = [own | {"rare"} if i == 0 else own for i, own in enumerate(y)]
    with pytest.raises(ValueError, match=r"y\[0\] has the label 'rare', .* pass all labels that can occur"):
        cross_val_score(model, X, rare, cv=3, error_score="raise")
    params = {"multilabellpsparsemap__classes": [*sorted(NAMES), "rare"]}
    assert (cross_val_score(model, X, rare, cv=3, params=params) > 0.5).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_collections_in_streams_and_partitions(data):
    X, Y = data
    y = collections_of(Y)["lists"]

    def stream(*parts, classes=NAMES):
        model = MultilabelLPSparseMAP(score_model="linear", random_state=0, threshold="auto")
        for rows, own in zip((slice(60), slice(60, None)), parts):
            model.partial_fit(X[rows], own, classes=classes)
        return model

    wanted, model = stream(Y.to_numpy()[:60], Y.to_numpy()[60:]), stream(y[:60], y[60:])
    assert model.classes_.tolist() == NAMES
    np.testing.assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    assert model.predict(X).tolist() == wanted.predict(X, names=True).tolist()
    # Lists of one name each, and of none, hold names as the earlier ones did.
    model.partial_fit(X[:2], [["jazz"], ["music"]]).partial_fit(X[:2], [[], []])
    np.testing.assert_array_equal(stream(y[:60], Y[60:]).predict_proba(X), wanted.predict_proba(X))
    with pytest.raises(ValueError, match="classes must be given at the first call of partial_fit"):
        MultilabelLPSparseMAP().partial_fit(X, y)
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        model.partial_fit(X, y, classes=ORDERS[0])

    def partitions(*parts, **options):
        model = MultilabelLPSparseMAP(
            score_model="linear", random_state=0, shuffle=False, max_iter=3, tol=1e9, n_iter_no_change=1
        )
        return model.fit_partitions([(X[:60], parts[0]), (X[60:], parts[1])], **options)

    table = Y[sorted(NAMES)]
    fits = [
        MultilabelLPSparseMAP(solver="adam", early_stopping=True, max_iter=5, tol=1e9, random_state=0).fit(
            X[:60], own[:60], X_val=X[60:], y_val=own[60:]
        )
        for own in (y, table)
    ]
    assert fits[0].validation_scores_ == fits[1].validation_scores_
    wanted = partitions(table[:60], table[60:], validation=(X, table))
    model = partitions([own[:1] for own in y[:60]], y[60:], validation=(X, y))
    assert model.classes_.tolist() == sorted(NAMES) and {*map(type, model.predict(X))} == {tuple}
    model = partitions(y[:60], y[60:], validation=(X, y))
    np.testing.assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    mixed = ParameterMixing(MultilabelLPSparseMAP(score_model="linear", random_state=0), n_rounds=1, random_state=0)
    assert mixed.fit(X, y).predict(X).tolist() == mixed.fit(X, table).estimator_.predict(X, names=True).tolist()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_collections_with_constraints(data):
    X, Y = data
    y = collections_of(Y.assign(music=Y["music"] | Y["jazz"]))["sets"]
    model = MultilabelLPSparseMAP(label_graph=[("jazz", "music")], constraints=[Implies("jazz", "music")], max_iter=5)
    named = model.fit(X, y).predict(X)
    assert any("jazz" in own for own in named) and all("music" in own for own in named if "jazz" in own)
    assert model.strongest_edges(1)[0][:2] == ("jazz", "music")
    hierarchy = Hierarchy.from_edges([("jazz", "music"), ("bebop", "jazz"), ("live", "event")])
    leaves = [own - {"music"} for own in y]
    model = MultilabelLPSparseMAP(score_model="linear", constraints=hierarchy, random_state=0).fit(X, leaves)
    assert model.classes_.tolist() == ["bebop", "event", "jazz", "live", "music"]
    named = model.predict(X)
    assert any("jazz" in own for own in named) and all("music" in own for own in named if "jazz" in own)
    assert model.score(X, leaves) == model.score(X, [own | {"music"} if "jazz" in own else own for own in leaves])
    f1 = hierarchical_f1_score(leaves, named, hierarchy)
    assert f1 == hierarchical_f1_score(hierarchy.binarize(leaves), hierarchy.binarize(named), hierarchy) > 0.8
    # The labels of a hierarchy of paths have an order.
    paths = Hierarchy(["music", "music/jazz", "live"])
    of_paths = [[{"jazz": "music/jazz"}.get(name, name) for name in own] for own in leaves]
    for fit in (
        lambda model: model.fit(X, of_paths),
        lambda model: model.set_params(max_iter=2).fit_partitions([(X, of_paths)]),
    ):
        model = fit(MultilabelLPSparseMAP(score_model="linear", constraints=paths, random_state=0))
        assert model.classes_.tolist() == paths.labels
        assert all("music" in own for own in model.predict(X) if "music/jazz" in own)


def test_collections_in_conformal_sets_and_structures(data, reference):
    X, Y = data
    y = collections_of(Y)["lists"]
    model = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, y)
    sets, wanted = (ConformalStructures(own).conformalize(X, own_y) for own, own_y in ((model, y), (reference, Y)))
    assert sets.threshold_ == wanted.threshold_
    np.testing.assert_array_equal(sets.covers(X, y), wanted.covers(X, Y))
    names = np.array(sorted(NAMES))
    for own, other in zip(sets.predict_set(X), wanted.predict_set(X), strict=True):
        assert own == [(tuple(names[labels > 0].tolist()), value) for labels, value in other]
    for own, other in zip(model.predict_structures(X, 3), reference.predict_structures(X, 3), strict=True):
        assert own == [(tuple(names[labels > 0].tolist()), p) for labels, p in other]
    parts = [ConformalStructures(own, risk="parts").conformalize(X, y).predict_set(X) for own in (model, reference)]
    np.testing.assert_array_equal(*parts)


def test_numbers_as_names(data):
    X, Y = data
    numbers = collections_of(Y, [5, 0, 1])
    for form in ("sets", "lists"):
        model = MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X, numbers[form])
        assert model.classes_.tolist() == [0, 1, 5]
        assert model.predict(X).tolist() == [tuple(sorted(own)) for own in model.predict(X)]
        assert model.score(X, numbers["sets"]) == model.score(X, numbers["lists"])
        assert model.score(X[:2], [[5, 1], [0, 1]]) == model.score(X[:2], [{5, 1}, {0, 1}])
    # Lists of 0 and 1 are rows of an indicator matrix, and sets are not.
    rows, sets = [[0, 1], [1, 0]] * 30, [{0}, {1}] * 30
    assert MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X[:60], rows).predict(X).shape == (120, 2)
    assert {*MultilabelLPSparseMAP(score_model="linear", random_state=0).fit(X[:60], sets).predict(X)} <= {
        (),
        (0,),
        (1,),
        (0, 1),
    }
    assert MultilabelLPSparseMAP(score_model="linear").fit(X[:60], [[0, None], [1, 0]] * 30).predict(X).shape == (
        120,
        2,
    )


def test_wrong_collections_are_refused(data):
    X, _ = data
    fitted = MultilabelLPSparseMAP(score_model="linear").fit(X[:60], [{"a"}, {"b"}, {"a", "b"}] * 20)
    for y, message in (
        ([["a"], "b", ["c"]], r"y\[1\] is 'b', while other samples are collections of labels"),
        ([["a"], None, ["c"]], r"y\[1\] is None, while"),
        ([["a"], [None], []], "y has the label None"),
        ([["a"], [np.nan], []], "y contains NaN as a label"),
        ([[], [], []], "y has no labels, because all of its collections are empty"),
        ([[3, 5], [2, 1], [0, 0]], r"Y\[0, 0\] is 3; .* if numbers are names of labels, pass a set"),
        (
            [["0", "1", "1"], ["1", "0", "1"], ["0", "0", "1"]],
            "Y is a 2-D array of <U1; it must be an indicator matrix",
        ),
        ([[0, 1], [1], [0, 1]], "pass an indicator matrix of 0 and 1, or a set of names for each sample"),
        ([[["a"]], [["b"]], []], "legacy multi-label|inhomogeneous"),
    ):
        with pytest.raises(ValueError, match=message):
            MultilabelLPSparseMAP().fit(X[:3], y)
    for call in (fitted.score, fitted.partial_fit, ConformalStructures(fitted).conformalize):
        with pytest.raises(ValueError, match=r"y\[1\] has the label 'c', which is not among the labels that the model"):
            call(X[:3], [["a"], ["b", "c"], []])
    with pytest.raises(ValueError, match=r"y\[0\] has the label 'a', which is not among classes"):
        MultilabelLPSparseMAP().fit(X[:3], [["a"], ["b"], []], classes=["b", "c"])
    single = MultilabelLPSparseMAP(score_model="linear").fit(X[:60], ["a", "b", "c"] * 20)
    with pytest.raises(ValueError, match="legacy multi-label"):
        single.partial_fit(X[:3], [{"a"}, {"b"}, {"c"}])


def test_metrics_of_collections():
    true, pred = [{"a", "b"}, {"c"}, set()], [("a",), ("a", "c"), ()]
    rows = [[1, 1, 0], [0, 0, 1], [0, 0, 0]], [[1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert example_f1_score(true, pred) == example_f1_score(*rows)
    binarizer = MultiLabelBinarizer().fit([*true, *pred])
    peer = f1_score(binarizer.transform(true), binarizer.transform(pred), average="samples", zero_division=0.0)
    assert example_f1_score(true, pred, zero_division=0.0) == pytest.approx(peer)
    assert example_f1_score([set()], [()]) == 1.0
    with pytest.raises(ValueError, match="both be indicator matrices, or both hold collections of names"):
        example_f1_score(true, rows[1])
    assert example_f1_score([{5}, {3}], [(5,), (5,)]) == 0.5
    with pytest.raises(ValueError, match="the order of scores is unknown"):
        precision_at_k(true, np.eye(3), 1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_displays_of_collections(data):
    pytest.importorskip("matplotlib")
    from sklearn_sparsemap.plotting import HierarchyDisplay, LabelCalibrationDisplay, LabelGraphDisplay

    X, Y = data
    y = collections_of(Y)["sets"]
    model = make_pipeline(StandardScaler(), MultilabelLPSparseMAP(score_model="linear", random_state=0)).fit(X, y)
    shown = LabelCalibrationDisplay.from_estimator(model, X, y)
    wanted = LabelCalibrationDisplay.from_estimator(model, X, Y)
    of_sparse = LabelCalibrationDisplay.from_estimator(model, X, sparse.csr_array(Y[sorted(NAMES)].to_numpy()))
    for own in (shown, of_sparse):
        np.testing.assert_array_equal(own.frequencies, wanted.frequencies)
    with pytest.raises(ValueError, match="y_true holds names of labels; use from_estimator"):
        LabelCalibrationDisplay.from_predictions(y, model.predict_proba(X))
    edges = MultilabelLPSparseMAP("full", max_iter=1).fit(X, y)
    assert LabelGraphDisplay.from_estimator(edges).labels == sorted(NAMES)
    hierarchy = Hierarchy.from_edges([("jazz", "music"), ("live", "music")])
    model.set_params(multilabellpsparsemap__constraints=hierarchy)
    search = GridSearchCV(model, {"multilabellpsparsemap__alpha": [1e-3]}, cv=3).fit(X, y)
    names = search.predict(X[:1])[0]
    assert HierarchyDisplay.from_estimator(search, X[:1]).predicted.tolist() == [c in names for c in sorted(NAMES)]


@pytest.mark.parametrize("decision", ["observed_sets", "expected_f1", "threshold", "map"])
@pytest.mark.parametrize("label_graph", [None, "full"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_known_labels_are_kept(data, decision, label_graph):
    X, Y = data
    y = collections_of(Y.assign(music=Y["music"] | Y["jazz"]))["sets"]
    options = {"constraints": [Implies("jazz", "music")], "max_iter": 20, "random_state": 0, "alpha": 1e-2}
    model = MultilabelLPSparseMAP(label_graph, decision=decision, **options).fit(X, y)
    free, rng = model.predict(X, names=False), np.random.default_rng(0)
    classes = model.classes_.tolist()
    allowed = np.array([[0, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0], [0, 1, 1], [1, 1, 1]])
    known = np.where(rng.random((120, 3)) < 0.5, np.nan, allowed[rng.integers(0, 6, 120)])
    found = model.predict(X, known, names=False)
    is_known = ~np.isnan(known)
    assert (found[is_known] == known[is_known]).all() and not model._graph.violated(found).any()
    same = ((free == known) | ~is_known).all(axis=1)
    np.testing.assert_array_equal(found[same], free[same])
    assert 20 < same.sum() < 100
    # The others are the best of all sets that agree.
    p, cuts = model.predict_proba(X), np.full((120, 1), 0.5)
    if decision == "expected_f1":
        cuts = expected_cuts(p, 0.5)[:, None]
    values = (p - cuts) @ allowed.T
    if decision == "map":
        both = allowed[:, model.edges_].all(axis=2) @ model.edge_scores_ if label_graph else 0.0
        values = (model.decision_function(X) - 0.5) @ allowed.T + both
    for i in np.flatnonzero(~same):
        agree = (allowed[:, is_known[i]] == known[i, is_known[i]]).all(axis=1)
        of_found = values[i, (allowed == found[i]).all(axis=1)]
        assert of_found == pytest.approx(values[i, agree].max(), abs=1e-9)
    dicts = [{classes[j]: bool(row[j]) for j in np.flatnonzero(~np.isnan(row))} or None for row in known]
    for form in (dicts, pd.DataFrame(known[:, ::-1], columns=classes[::-1])):
        np.testing.assert_array_equal(model.predict(X, known=form, names=False), found)
    assert model.predict(X, known=dicts).tolist() == [tuple(np.array(classes)[row > 0].tolist()) for row in found]


def test_wrong_known_labels_are_refused(data):
    X, Y = data
    model = MultilabelLPSparseMAP(constraints=[Implies("jazz", "music")], decision="threshold")
    model.fit(X, collections_of(Y.assign(music=1))["sets"])
    for known, message in (
        ([{"jazz": True, "music": False}], r"known\[0\]: no set of labels satisfies .*Implies\('jazz', 'music'\)"),
        ([{"rock": True}], r"known\[0\] has 'rock': True; it must map labels in classes_ to bools"),
        ([{"jazz": 2}], r"known\[0\] has 'jazz': 2"),
        ([["jazz"]], r"known\[0\] is \['jazz'\]; it must be a dict such as \{'jazz': True\}, or None"),
        ([None, None], "known has 2 entries for 1 samples"),
        (np.zeros((1, 2)), r"known has shape \(1, 2\), but there are \(1, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(X[:1], known=known)
    single = MultilabelLPSparseMAP(score_model="linear").fit(X[:60], ["a", "b"] * 30)
    with pytest.raises(ValueError, match="known is for label sets"):
        single.predict(X[:1], known=[{"a": True}])
