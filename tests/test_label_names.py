"""Names of the columns of indicator matrices in all calls, and missing entries of every type."""

import numpy as np
import pytest
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import MultilabelLPSparseMAP
from sklearn_sparsemap.conformal import ConformalStructures
from sklearn_sparsemap.factors import Hierarchy, Implies

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
    pipeline = make_pipeline(StandardScaler(), MultilabelLPSparseMAP(random_state=0)).fit(X, Y)
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
        model = MultilabelLPSparseMAP(random_state=0, threshold="auto").partial_fit(X[:60], Y[:60], **first)
        return model.partial_fit(X[60:], second)

    wanted = stream(Y[60:]).predict_proba(X)
    np.testing.assert_array_equal(stream(Y[order][60:]).predict_proba(X), wanted)
    np.testing.assert_array_equal(stream(Y.to_numpy()[60:]).predict_proba(X), wanted)

    def partitions(second, **options):
        model = MultilabelLPSparseMAP(random_state=0, shuffle=False, max_iter=3, tol=1e9, n_iter_no_change=1)
        return model.fit_partitions([(X[:60], Y[:60]), (X[60:], second)], **options)

    wanted = partitions(Y[60:], validation=(X, Y)).predict_proba(X)
    np.testing.assert_array_equal(partitions(Y[order][60:], validation=(X, Y[order])).predict_proba(X), wanted)
    found = partitions(Y[order][60:], classes=order, validation=(X, Y))
    assert found.classes_.tolist() == order
    assert found.score(X, Y) == found.score(X, Y[order]) == found.score(X, Y[order].to_numpy())


@pytest.mark.parametrize("order", ORDERS)
def test_classes_put_columns_in_order_and_do_not_rename(data, order):
    X, Y = data
    model = MultilabelLPSparseMAP(random_state=0).fit(X, Y, classes=order)
    assert model.classes_.tolist() == order
    wanted = MultilabelLPSparseMAP(random_state=0).fit(X, Y[order])
    np.testing.assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    assert model.score(X, Y) == model.score(X, Y[order].to_numpy()) > 0.6
    constraints = [Implies("jazz", "music")]
    closed = Y.assign(music=Y["music"] | Y["jazz"])
    found = MultilabelLPSparseMAP(constraints=constraints, random_state=0).fit(X, closed, classes=order).predict(X)
    assert (found[:, order.index("jazz")] <= found[:, order.index("music")]).all()
    stream = MultilabelLPSparseMAP(random_state=0).partial_fit(X, Y, classes=order)
    assert stream.classes_.tolist() == order
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        stream.partial_fit(X, Y, classes=NAMES)


def test_unknown_columns_are_refused(data, model):
    X, Y = data
    renamed, fewer, more = Y.rename(columns={"jazz": "rock"}), Y[NAMES[:2]], Y.assign(rock=0)
    conformal = ConformalStructures(model).conformalize(X, Y)
    stream = MultilabelLPSparseMAP(random_state=0).partial_fit(X, Y)
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
    assert MultilabelLPSparseMAP(random_state=0).fit(X, unnamed, classes=NAMES).classes_.tolist() == NAMES
    plain = MultilabelLPSparseMAP(random_state=0).fit(X, Y.to_numpy())
    assert plain.classes_.tolist() == [0, 1, 2]
    assert plain.score(X, Y) == plain.score(X, Y.to_numpy()) == plain.score(X, unnamed[[2, 0, 1]])
    hierarchy = Hierarchy.from_edges([("jazz", "music"), ("live", "music")])
    found = MultilabelLPSparseMAP(constraints=hierarchy, random_state=0).fit(
        X, pd.DataFrame(hierarchy.close(Y.to_numpy()))
    )
    assert found.classes_.tolist() == hierarchy.labels


def test_names_of_several_types(data):
    X, Y = data
    for names in (["a", 1, 2.5], [("a", 1), ("a", 2), ("b", 1)], ["a\0", "a", "b"], [3, 1, 2]):
        table = Y.set_axis(pd.Index(names, tupleize_cols=False), axis=1)
        model = MultilabelLPSparseMAP(random_state=0).fit(X, table)
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
    wanted = MultilabelLPSparseMAP(random_state=0).fit(X, values)
    found = MultilabelLPSparseMAP(random_state=0).fit(X, table)
    assert found.classes_.tolist() == NAMES
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    assert found.score(X, table[ORDERS[0]]) == wanted.score(X, values)
    objects = [[pd.NA if np.isnan(entry) else int(entry) for entry in row] for row in values.tolist()]
    nones = [[None if np.isnan(entry) else bool(entry) for entry in row] for row in values.tolist()]
    for own in (objects, nones, np.array(objects, object)):
        found = MultilabelLPSparseMAP(random_state=0).fit(X, own)
        np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    stream, same = (MultilabelLPSparseMAP(random_state=0).partial_fit(X, own) for own in (table, values))
    np.testing.assert_array_equal(stream.predict_proba(X), same.predict_proba(X))
    assert len(cross_val_score(MultilabelLPSparseMAP(random_state=0), X, values, cv=KFold(3))) == 3
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
