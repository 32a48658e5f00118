"""OutOfFoldScores: its folds, its scores against loops over folds, and the forms of samples, labels and estimators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import MultilabelLPSparseMAP, RaggedArray, StructuredSparseMAPClassifier
from sklearn_sparsemap.features import OnRows, OutOfFoldScores, RowUnion
from sklearn_sparsemap.pipeline import make_structured_pipeline

pd = pytest.importorskip("pandas")

EPS = 1e-3
_OTHER_FOLDS = "scores of training rows are those of other fits, which `transform` does not repeat"
WAIVED = {name: _OTHER_FOLDS for name in ("check_transformer_general", "check_transformer_data_not_an_array")}


@parametrize_with_checks([OutOfFoldScores(LogisticRegression())], expected_failed_checks=lambda estimator: WAIVED)
def test_sklearn_checks(estimator, check):
    check(estimator)


def log_bounded(p):
    return np.log(EPS + (1.0 - 2.0 * EPS) * p)


def flat(n=60, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    codes = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, 4)) + np.eye(4)[codes], codes


def sequences(n=20, seed=0):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        x, codes = flat(int(rng.integers(1, 6)), rng.integers(2**31))
        X.append(x)
        y.append(np.array(["a", "b", "c"])[codes])
    return X, y


def label_sets(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, :3] + 0.5 * rng.normal(size=(n, 3)) > [0.0, 0.5, -0.5]).astype(int)


def log_proba(model, X):
    return log_bounded(model.predict_proba(X))


def log_odds(p):
    p = EPS + (1.0 - 2.0 * EPS) * p
    return np.log(p / (1.0 - p))


# Estimators of single labels, and their scores.
SINGLE = {
    "trees": (DecisionTreeClassifier(max_depth=3, random_state=0), log_proba),
    "boosting": (HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5), log_proba),
    "search": (GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, cv=2), log_proba),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), log_proba),
    "margins": (LinearSVC(random_state=0), lambda model, X: model.decision_function(X)),
}
# Estimators of label sets, and the scores of one label by a fit to it alone.
SEVERAL = {
    "trees": (DecisionTreeClassifier(max_depth=1, random_state=0), None),
    "neighbours": (KNeighborsClassifier(), lambda model, X: log_odds(model.predict_proba(X)[:, 1])),
    "one a label": (GaussianNB(), lambda model, X: log_odds(model.predict_proba(X)[:, 1])),
    "margins": (LinearSVC(random_state=0), lambda model, X: model.decision_function(X)),
    "ridge": (RidgeClassifier(), lambda model, X: model.decision_function(X)),
    "regressor": (LinearRegression(), lambda model, X: model.predict(X)),
}


@pytest.mark.parametrize("name", SINGLE)
def test_scores_of_single_labels_are_those_of_a_loop_over_folds(name):
    estimator, scores_of = SINGLE[name]
    X, codes = flat()
    y = np.array(["p", "q", "r"])[codes]
    cv = KFold(3, shuffle=True, random_state=1)
    transformer = OutOfFoldScores(estimator, cv=cv)
    expected = np.empty((len(X), 3))
    for train, test in cv.split(X):
        expected[test] = scores_of(clone(estimator).fit(X[train], codes[train]), X[test])
    assert_allclose(transformer.fit_transform(X, y), expected)
    assert_allclose(transformer.transform(X), scores_of(clone(estimator).fit(X, codes), X))
    assert transformer.classes_.tolist() == ["p", "q", "r"] and len(transformer.estimators_) == 1
    if name != "margins":
        p = cross_val_predict(estimator, X, codes, cv=cv, method="predict_proba")
        assert_allclose(transformer.fit_transform(X, y), log_bounded(p))


@pytest.mark.parametrize("name", SEVERAL)
def test_scores_of_label_sets_are_those_of_a_loop_over_folds_and_labels(name):
    estimator, scores_of = SEVERAL[name]
    X, Y = label_sets()
    cv = KFold(3)
    transformer = OutOfFoldScores(estimator, cv=cv)
    expected = np.empty(Y.shape)
    for train, test in cv.split(X):
        if scores_of is None:
            # Trees are fitted to all labels at once.
            proba = clone(estimator).fit(X[train], Y[train]).predict_proba(X[test])
            expected[test] = log_odds(np.stack([p[:, 1] for p in proba], axis=1))
            continue
        for k in range(Y.shape[1]):
            expected[test, k] = scores_of(clone(estimator).fit(X[train], Y[train, k]), X[test])
    assert_allclose(transformer.fit_transform(X, Y), expected, atol=1e-9)
    assert len(transformer.estimators_) == (3 if name in ("one a label", "margins") else 1)
    names = np.array(["k", "l", "m"])
    as_names = transformer.fit_transform(X, [set(names[own > 0]) for own in Y])
    assert_array_equal(as_names, transformer.fit_transform(X, pd.DataFrame(Y, columns=names)))
    assert_allclose(as_names, expected, atol=1e-9)
    assert transformer.classes_.tolist() == names.tolist()


def test_networks_and_forests_learn_label_sets_at_once():
    X, Y = label_sets()
    for estimator in (
        ExtraTreesClassifier(5, random_state=0),
        MLPClassifier((4,), solver="lbfgs", max_iter=2000, random_state=0),
    ):
        transformer = OutOfFoldScores(estimator).fit(X, Y)
        assert len(transformer.estimators_) == 1 and transformer.transform(X).shape == Y.shape
        assert (np.sign(transformer.transform(X)) == 2 * Y - 1).mean() > 0.8


def test_sequences_are_scored_row_by_row_and_folds_keep_them_whole():
    X, y = sequences()
    Z = RaggedArray.from_list(X)
    y_flat = np.concatenate(y)
    pairs = list(KFold(4).split(X))
    transformer = OutOfFoldScores(GaussianNB(), cv=pairs)
    scores = transformer.fit_transform(X, y)
    assert_array_equal(scores.indptr, Z.indptr)
    for train, test in pairs:
        own = np.concatenate([np.arange(Z.indptr[i], Z.indptr[i + 1]) for i in train])
        model = GaussianNB().fit(Z.values[own], y_flat[own])
        for i in test:
            assert_allclose(scores[i], log_proba(model, X[i]))
    for form in (X, Z, RaggedArray(sparse.csr_array(Z.values), Z.indptr), np.array([*X, None], object)[:-1]):
        estimator = LogisticRegression() if form is not X else GaussianNB()
        found = OutOfFoldScores(estimator).fit(form, y)
        assert_array_equal(found.transform(form).indptr, Z.indptr)
    with pytest.raises(ValueError, match=r"y\[3\] must have one label for each"):
        transformer.fit(X, [*y[:3], y[3][:-1], *y[4:]])


class Seen(ClassifierMixin, BaseEstimator):
    """Remembers its rows: the probability of 1 is 1 for rows that it has learned, else 0."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows_ = {tuple(row) for row in np.asarray(X)}
        return self

    def predict_proba(self, X):
        seen = np.array([tuple(row) in self.rows_ for row in np.asarray(X)], float)
        return np.stack([1.0 - seen, seen], axis=1)


def test_equal_rows_are_in_one_fold_unless_they_join_too_many_samples():
    rng = np.random.default_rng(0)
    rows = rng.integers(9, size=(40, 2)).astype(float)
    X = rows[rng.integers(len(rows), size=120)]
    y = rng.integers(2, size=120)
    assert np.exp(OutOfFoldScores(Seen()).fit_transform(X, y))[:, 1].max() == pytest.approx(EPS)
    assert np.exp(OutOfFoldScores(Seen(), cv=KFold(5)).fit_transform(X, y))[:, 1].max() > 0.5
    assert np.exp(OutOfFoldScores(Seen()).fit(X, y).transform(X))[:, 1].min() > 0.5
    # Pairs of samples with a common row stay together, and so do repeated samples.
    X = [rng.normal(size=(3, 2)) for _ in range(60)]
    for i in range(0, 60, 2):
        X[i][1] = X[i + 1][2]
    X += X[:30]
    y = [rng.integers(2, size=3) for _ in X]
    assert np.exp(OutOfFoldScores(Seen()).fit_transform(X, y).values)[:, 1].max() == pytest.approx(EPS)
    # With a row that all samples have, only repeated samples stay together.
    for x in X[:60]:
        x[0] = 0.0
    seen = np.exp(OutOfFoldScores(Seen()).fit_transform(X, y).values)[:, 1].reshape(-1, 3)
    assert (seen[:, 0] > 0.5).all()
    alone = [x for i, x in enumerate(X) if i % 2 == 0 and i < 60]
    assert len(alone) == 30
    X = [x[[0, 2]] for x in X[:60]]
    X += X[:30]
    found = np.exp(OutOfFoldScores(Seen()).fit_transform(X, [own[:2] for own in y]).values)[:, 1].reshape(-1, 2)
    assert (found[:, 0] > 0.5).all() and found[:, 1].max() == pytest.approx(EPS)


def test_rare_labels_are_spread_over_folds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.zeros(100, int)
    # In turn, each of them would be in a fold of its own.
    y[:25:5] = 1
    y[30:45:5] = 2
    X[y == 1] += 50.0
    X[y == 2] -= 50.0
    scores = OutOfFoldScores(KNeighborsClassifier(1)).fit_transform(X, y)
    assert_array_equal(scores.argmax(axis=1), y)
    # A label that a fold has not seen gets a low score.
    y[:] = 0
    y[0] = 1
    for estimator in (KNeighborsClassifier(1), LinearSVC(), LinearRegression()):
        scores = OutOfFoldScores(estimator).fit_transform(X, y)
        assert np.isfinite(scores).all() and scores[0].argmax() == 0
    assert scores[0].tolist() == [1.0, 0.0]
    # The fit without row 0 knows two of three labels, with scores of any size.
    y[50:] = 2
    y[0] = 1
    X[50:] += 100.0
    cv = [(np.arange(1, 100), [0]), ([0, 99], np.arange(1, 100))]
    scores = OutOfFoldScores(Margins(), cv=cv).fit_transform(X, y)
    assert scores[0].tolist() == [-50.0, -50.0, 50.0]


class Margins(ClassifierMixin, BaseEstimator):
    """A classifier of two labels with large scores for the second one."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.full(len(X), 100.0)


def test_labels_that_do_not_vary_have_constant_scores():
    X, Y = label_sets()
    Y = np.column_stack([Y, np.ones(len(X), int), np.zeros(len(X), int)])
    low = np.log(EPS)
    for estimator, ends in ((GaussianNB(), (-low, low)), (DecisionTreeClassifier(), (-low, low)),
                            (DecisionTreeRegressor(), (1.0, 0.0))):  # fmt: skip
        transformer = OutOfFoldScores(estimator).fit(X, Y)
        scores = transformer.transform(X)
        assert_allclose(scores[:, 3:], np.tile(ends, (len(X), 1)))
        assert_array_equal(scores[:, :3], OutOfFoldScores(estimator).fit(X, Y[:, :3]).transform(X))
    scores = OutOfFoldScores(GaussianNB()).fit_transform(X, ["only"] * len(X))
    assert_array_equal(scores, np.zeros((len(X), 1)))


def test_unknown_labels_are_left_out():
    X, y = sequences()
    Z = np.concatenate(X)
    gold = np.concatenate(y)
    rng = np.random.default_rng(0)
    known = rng.random(len(gold)) < 0.7
    masked = np.where(known, gold, None)
    ends = np.cumsum([len(x) for x in X])[:-1]
    found = OutOfFoldScores(GaussianNB()).fit(X, np.split(masked, ends))
    assert_allclose(found.transform(X).values, log_proba(GaussianNB().fit(Z[known], gold[known]), Z))
    X, Y = label_sets()
    known = rng.random(Y.shape) < 0.7
    found = OutOfFoldScores(GaussianNB()).fit(X, np.where(known, Y, np.nan)).transform(X)
    for k in range(3):
        model = GaussianNB().fit(X[known[:, k]], Y[known[:, k], k])
        assert_allclose(found[:, k], log_odds(model.predict_proba(X)[:, 1]))


def test_a_fitted_estimator_is_used_as_it_is():
    X, codes = flat()
    y = np.array(["p", "q", "r"])[codes]
    fitted = GaussianNB().fit(X[:30], y[:30])
    scores = OutOfFoldScores(FrozenEstimator(fitted)).fit_transform(X, y)
    assert_allclose(scores, log_proba(fitted, X))
    # Classes are matched by their names.
    backwards = LogisticRegression().fit(X, -codes)
    transformer = OutOfFoldScores(FrozenEstimator(backwards))
    assert_allclose(transformer.fit_transform(X, -codes), log_proba(backwards, X))
    assert transformer.get_feature_names_out()[0] == "logisticregression_-2"
    with pytest.raises(ValueError, match=r"must have the labels of y as its classes; .*'q'"):
        OutOfFoldScores(FrozenEstimator(GaussianNB().fit(X, np.where(y == "q", "p", y)))).fit(X, y)


def test_other_columns_follow_the_scores():
    X, y = sequences()
    scores = OutOfFoldScores(GaussianNB(), passthrough=True)
    found = scores.fit_transform(X, y)
    assert_array_equal(found.values[:, 3:], np.concatenate(X))
    names = scores.get_feature_names_out().tolist()
    assert names == ["gaussiannb_a", "gaussiannb_b", "gaussiannb_c", "x0", "x1", "x2", "x3"]
    frames = [pd.DataFrame(x, columns=list("stuv")) for x in X]
    assert_array_equal(scores.fit_transform(frames, y).values, found.values)
    assert scores.get_feature_names_out().tolist()[3:] == list("stuv")
    frame = scores.set_output(transform="pandas").transform(frames)[0]
    assert frame.columns.tolist()[3:] == list("stuv") and len(frame) == len(X[0])
    Z, codes = flat()
    S = sparse.csr_array(Z)
    found = OutOfFoldScores(LogisticRegression(), passthrough=True).fit_transform(S, codes)
    assert sparse.issparse(found) and abs(found[:, 3:] - S).nnz == 0
    table = pd.DataFrame(Z, index=np.arange(len(Z)) + 7)
    found = OutOfFoldScores(GaussianNB()).set_output(transform="pandas").fit_transform(table, codes)
    assert found.index.tolist() == table.index.tolist()
    with pytest.raises(ValueError, match="passthrough=True is for samples of numbers"):
        OutOfFoldScores(make_pipeline(TfidfVectorizer(), GaussianNB()), passthrough=True).fit_transform(
            ["a b"] * 9, codes[:9]
        )


def test_texts_words_and_frames_are_rows_of_what_the_estimator_takes():
    texts = ["good day", "bad night", "good night", "bad day"] * 5
    y = ["good" in text for text in texts]
    text_model = make_pipeline(TfidfVectorizer(), LogisticRegression())
    scores = OutOfFoldScores(text_model).fit_transform(texts, y)
    assert_array_equal(scores.argmax(axis=1), np.array(y, int))
    X = [text.split() for text in texts]
    tags = [[word[0] for word in words] for words in X]
    found = OutOfFoldScores(make_pipeline(TfidfVectorizer(), LogisticRegression())).fit(X, tags)
    assert found.transform(X)[0].shape == (2, 4)
    frames = [pd.DataFrame({"n": [1.0, -1.0], "w": ["x", "y"]}) for _ in range(8)]
    columns = make_column_transformer((StandardScaler(), ["n"]), remainder="drop")
    found = OutOfFoldScores(make_pipeline(columns, GaussianNB())).fit_transform(frames, [["u", "v"]] * 8)
    assert (found.values.argmax(axis=1) == [0, 1] * 8).all()


def test_series_are_read_by_position_and_lists_become_frames():
    texts = ["good day", "bad night", "good night", "bad day"] * 5
    y = ["good" in text for text in texts]
    scores = OutOfFoldScores(make_pipeline(TfidfVectorizer(), LogisticRegression()))
    expected = scores.fit_transform(texts, y)
    series = pd.Series(texts, index=range(5, 25))
    assert_array_equal(scores.fit_transform(series, y), expected)
    frames = scores.set_output(transform="pandas")
    assert_array_equal(frames.fit_transform(texts, y).to_numpy(), expected)
    assert frames.fit_transform(series, y).index.equals(series.index)
    X, tags = sequences(20)
    ragged = OutOfFoldScores(GaussianNB())
    found = ragged.fit_transform(pd.Series(X, index=range(5, 25)), tags)
    assert_array_equal(found.values, ragged.fit_transform(X, tags).values)


def test_scores_join_other_columns_and_feed_models():
    X, y = sequences(60)
    union = RowUnion([("scaled", OnRows(StandardScaler())), ("forest", OutOfFoldScores(ExtraTreesClassifier(10)))])
    assert union.fit_transform(X, y).values.shape[1] == 7
    model = make_structured_pipeline(OutOfFoldScores(ExtraTreesClassifier(20, random_state=0)),
                                     StructuredSparseMAPClassifier("chain"))  # fmt: skip
    search = GridSearchCV(model, {"outoffoldscores__estimator__max_depth": [2, None]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.42
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert_array_equal(np.concatenate(again.predict(X)), np.concatenate(search.predict(X)))
    Z, Y = label_sets()
    sets = make_pipeline(OutOfFoldScores(ExtraTreesClassifier(20, random_state=0)), MultilabelLPSparseMAP())
    assert sets.fit(Z, Y).predict(Z).shape == Y.shape


def test_errors_name_the_remedy():
    X, codes = flat()
    scores = OutOfFoldScores(GaussianNB())
    with pytest.raises(NotFittedError):
        scores.transform(X)
    with pytest.raises(ValueError, match="requires y"):
        scores.fit(X, None)
    for cv, message in ((1, "cv must be a number of folds of at least 2"), ([([0, 1], [2])], "exactly once")):
        with pytest.raises(ValueError, match=message):
            OutOfFoldScores(GaussianNB(), cv=cv).fit_transform(X, codes)
    with pytest.raises(ValueError, match="at least two different samples"):
        scores.fit_transform(np.ones((5, 2)), [0, 1, 0, 1, 0])
    with pytest.raises(ValueError, match=r"GaussianNB fails on the rows of X: .*NaN"):
        scores.fit(np.where(X > 2.0, np.nan, X), codes)
    with pytest.raises(ValueError, match="neither predict_proba nor decision_function"):
        OutOfFoldScores(Predicts()).fit(X, codes)
    with pytest.raises(ValueError, match="indicator matrix of 0 and 1"):
        scores.fit(X, 2.0 * label_sets()[1])
    with pytest.raises(ValueError, match="has 2 features, but"):
        scores.fit(X, codes).transform(X[:, :2])


class Predicts(ClassifierMixin, BaseEstimator):
    """A classifier without scores."""

    _estimator_type = "classifier"

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))
