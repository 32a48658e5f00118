"""InformationGainSelector."""

import pickle

import numpy as np
import pytest
from naive_features import naive_information_gain
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_sparsemap import RaggedArray
from sklearn_sparsemap.features import InformationGainSelector, TemplateVectorizer


def random_problem(rng, n_rows=60, n_features=12, n_groups=4, n_labels=3):
    X = np.where(rng.random((n_rows, n_features)) < 0.3, rng.normal(size=(n_rows, n_features)), 0.0)
    # A feature that never occurs, and one that always does.
    X[:, 0], X[:, 1] = 0, 1
    y = rng.integers(0, n_labels, n_rows)
    X[y == 1, 2] = 1
    return X, y, np.append(rng.integers(0, n_groups, n_features - 1), n_groups - 1)


def cut(X, rng):
    """Cut rows into samples."""
    return np.split(X, np.sort(rng.choice(np.arange(1, len(X)), 6, replace=False)))


@parametrize_with_checks([InformationGainSelector()])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_scores_are_those_of_the_twin():
    rng = np.random.default_rng(0)
    for seed in range(5):
        X, y, groups = random_problem(rng)
        gains = naive_information_gain(X.tolist(), y.tolist(), groups.tolist())
        expected = [gains.get(group, 0.0) for group in range(groups.max() + 1)]
        labels = np.array(["a", "b", "c"])[y]
        ragged = RaggedArray.from_list(cut(X, np.random.default_rng(seed)))
        samples = cut(labels, np.random.default_rng(seed))
        in_csr = RaggedArray(sparse.csr_array(X), ragged.indptr, groups)
        for given, target in [
            (X, y),
            (X, labels),
            (sparse.csr_array(X), y),
            (sparse.csc_matrix(X), labels.tolist()),
            (ragged, samples),
            (ragged.tolist(), [sample.tolist() for sample in samples]),
            (in_csr, RaggedArray.from_list(samples)),
            (in_csr.tolist(), samples),
        ]:
            selector = InformationGainSelector(2, groups=groups).fit(given, target)
            np.testing.assert_allclose(selector.scores_, expected, atol=1e-12)
            assert set(selector.selected_groups_) == set(np.argsort(expected)[-2:])
            np.testing.assert_array_equal(selector.get_support(), np.isin(groups, selector.selected_groups_))
        # The groups that the array names itself.
        np.testing.assert_array_equal(InformationGainSelector().fit(in_csr, samples).scores_, selector.scores_)


def test_each_feature_is_a_group_by_default():
    X, y, _ = random_problem(np.random.default_rng(1))
    gains = naive_information_gain(X.tolist(), y.tolist(), list(range(X.shape[1])))
    selector = InformationGainSelector(1).fit(X, y)
    np.testing.assert_allclose(selector.scores_, list(gains.values()), atol=1e-12)
    assert selector.selected_groups_.tolist() == [2]
    np.testing.assert_array_equal(selector.transform(X), X[:, 2:3])


def test_stored_zeros_are_zeros():
    X, y, _ = random_problem(np.random.default_rng(2))
    stored = sparse.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()
    expected = InformationGainSelector().fit(X, y).scores_
    np.testing.assert_allclose(InformationGainSelector().fit(stored, y).scores_, expected)
    assert stored.nnz == X.size


def test_transform():
    rng = np.random.default_rng(3)
    X, y, groups = random_problem(rng)
    X = X.astype(np.float32).astype(np.float64)
    samples = RaggedArray.from_list(cut(X, np.random.default_rng(0)))
    in_csr = RaggedArray(sparse.csr_array(X).astype(np.float32), samples.indptr, groups)
    selector = InformationGainSelector(2, groups=groups).fit(X, y)
    mask = np.isin(groups, selector.selected_groups_)
    assert 0 < mask.sum() < len(mask)
    np.testing.assert_array_equal(selector.transform(X), X[:, mask])
    np.testing.assert_array_equal(selector.transform(sparse.csr_array(X)).toarray(), X[:, mask])
    for given in (samples, samples.tolist(), in_csr, in_csr.tolist()):
        selected = selector.transform(given)
        assert isinstance(selected, RaggedArray)
        values = selected.values.toarray() if sparse.issparse(selected.values) else selected.values
        np.testing.assert_array_equal(values, X[:, mask].astype(values.dtype))
        np.testing.assert_array_equal(selected.indptr, samples.indptr)
        np.testing.assert_array_equal(selected.groups, groups[mask])
    assert selector.transform(in_csr).values.dtype == np.float32
    copy = pickle.loads(pickle.dumps(selector))
    np.testing.assert_array_equal(copy.transform(X), X[:, mask])


@pytest.mark.parametrize(("number", "n_kept"), [(None, 2), (1, 1), (5, 5), (0.5, 2), (0.01, 1), (1.0, 5)])
def test_how_many_groups(number, n_kept):
    X, y, _ = random_problem(np.random.default_rng(4))
    # Number 1 is nobody's: it neither counts nor is selected.
    groups = np.array([0, 2, 3, 4, 5])[np.arange(12) % 5]
    selector = InformationGainSelector(number, groups=groups).fit(X, y)
    assert len(selector.selected_groups_) == n_kept
    assert 1 not in selector.selected_groups_
    assert selector.scores_.shape == (6,)


def test_a_number_without_features_is_not_selected():
    # All gains are zero, and number 0 is nobody's.
    selector = InformationGainSelector(2, groups=[1, 3, 3, 1]).fit(np.ones((6, 4)), [0, 1, 0, 1, 1, 0])
    assert selector.scores_.tolist() == [0, 0, 0, 0]
    assert selector.selected_groups_.tolist() == [1, 3]


def test_equal_scores():
    X, y = np.tile([[0.0], [1.0]], (10, 4)), np.tile([0, 1], 10)
    assert InformationGainSelector(2).fit(X, y).selected_groups_.tolist() == [0, 1]


SENTENCES = [["El", "Madrid", "gana"], ["la", "casa"], ["Ana", "vive", "en", "Roma"], ["no"]] * 5
LABELS = [[int(word[0].isupper()) for word in sentence] for sentence in SENTENCES]


def test_templates():
    vectorizer = TemplateVectorizer(["suffix1[1]", "case[0]", "digits[0]", "punctuation[0]"])
    X = vectorizer.fit_transform(SENTENCES)
    selector = InformationGainSelector(1).fit(X, LABELS)
    assert [vectorizer.template_names_[group] for group in selector.selected_groups_] == ["case[0]"]
    names = selector.get_feature_names_out(vectorizer.get_feature_names_out())
    assert names.tolist() == ["case[0]=initial", "case[0]=lower"]
    assert set(selector.transform(X).groups) == {1}


class MajorityByFeature(BaseEstimator):
    """Gives each feature the mean of its rows' labels."""

    def fit(self, X, y):
        labels = np.concatenate(list(y))
        self.means_ = X.values.T @ labels / np.maximum(X.values.sum(axis=0), 1)
        return self

    def predict(self, X):
        return [(sample @ self.means_ > 0.5).astype(int) for sample in X]

    def score(self, X, y):
        return float(np.mean(np.concatenate(self.predict(X)) == np.concatenate(list(y))))


def test_pipeline_and_grid_search():
    templates = ["case[0]", "word[0]", "word[-1]", "word[1]"]
    pipeline = make_pipeline(TemplateVectorizer(templates), InformationGainSelector(), MajorityByFeature())
    grid = {"informationgainselector__n_groups_to_select": [1, 2, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(SENTENCES, LABELS)
    assert search.best_score_ == 1.0
    names = search.best_estimator_[:-1].get_feature_names_out()
    assert len(names) == search.best_estimator_[-1].means_.shape[0]
    X, y, _ = random_problem(np.random.default_rng(5), n_rows=200)
    flat = make_pipeline(InformationGainSelector(1), LogisticRegression()).fit(sparse.csr_array(X), y == 1)
    assert flat[0].selected_groups_.tolist() == [2]


def test_after_a_data_frame():
    X, y, _ = random_problem(np.random.default_rng(6))
    selector = InformationGainSelector().fit(X, y)
    selector.feature_names_in_ = np.array([f"f{i}" for i in range(X.shape[1])], dtype=object)
    selector.fit([X[:30], X[30:]], [y[:30], y[30:]])
    assert not hasattr(selector, "feature_names_in_")
    assert selector.get_feature_names_out()[0].startswith("x")


ROWS = [np.eye(2), np.eye(2)[:1]]


@pytest.mark.parametrize(
    ("X", "y", "parameters", "message"),
    [
        (ROWS, [[0, 1]], {}, "inconsistent numbers of samples: 2 and 1"),
        (ROWS, [[0, 1], [0, 1]], {}, r"y\[1\] has 2 labels, but X\[1\] has 1 rows; give one label a row"),
        (ROWS, [[0, 1], 0], {}, r"y\[1\] is 0, not a sequence of labels"),
        (ROWS, [[0, 1], "N"], {}, r"y\[1\] is 'N', not a sequence of labels"),
        (ROWS, "NN", {}, "y must be a sequence of label sequences; got 'NN'"),
        (ROWS, None, {}, "y must be a sequence of label sequences; got None"),
        ([np.eye(2), np.eye(3)], [[0, 1], [0, 1, 1]], {}, "features"),
        ([np.eye(2), np.full((1, 2), np.nan)], [[0, 1], [0]], {}, r"X\[1\] contains NaN"),
        (np.eye(3), [0, 1, 0], {"groups": [0, 1]}, r"groups must have shape \(3,\), one group a feature; got \(2,\)"),
        (np.eye(3), [0, 1, 0], {"groups": ["a", "b", "c"]}, "groups must be integers from 0; number others by"),
        (np.eye(3), [0, 1, 0], {"groups": [0, 1, -1]}, "groups must be integers from 0"),
        (np.eye(3), [0, 1, 0], {"n_groups_to_select": 4}, "from 1 to the number of groups, 3, .* got 4"),
        (np.eye(3), [0, 1, 0], {"n_groups_to_select": 0}, "n_groups_to_select must be"),
        (np.eye(3), [0, 1, 0], {"n_groups_to_select": 1.5}, "n_groups_to_select must be"),
        (np.eye(3), [0, 1, 0], {"n_groups_to_select": True}, "n_groups_to_select must be"),
        (np.eye(3), [0, 1, 0], {"n_groups_to_select": "all"}, "n_groups_to_select must be"),
        (np.eye(3), [0.5, 1.5, 0.1], {}, "Unknown label type"),
        (np.eye(3), np.eye(3), {}, "y should be a 1d array"),
    ],
)
def test_wrong_input(X, y, parameters, message):
    with pytest.raises(ValueError, match=message):
        InformationGainSelector(**parameters).fit(X, y)


def test_wrong_input_to_transform():
    samples = [np.eye(3), np.eye(3)[:1]]
    with pytest.raises(NotFittedError):
        InformationGainSelector().transform(samples)
    selector = InformationGainSelector().fit(samples, [[0, 1, 0], [0]])
    with pytest.raises(ValueError, match="features"):
        selector.transform(ROWS)
    with pytest.raises(ValueError, match="X must have rows of 3 features, as in fit; got RaggedArray"):
        selector.transform(RaggedArray.from_list(ROWS))
