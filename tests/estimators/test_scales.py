"""The warning of estimators that select features if scales decide the selection."""

import warnings

import numpy as np
import pytest
from internals import column_scales, warn_of_scales
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_sparsemap import GroupLassoPerceptron, StructuredGroupLasso, StructuredGroupLassoCV


def sensors():
    X = np.random.default_rng(0).normal(size=(300, 6))
    y = np.where(X[:, 0] + X[:, 2] > 0, "a", "b")
    return X, y, X * [1, 1000, 0.01, 1, 1, 1] + [0, 20000, 0.2, 0, 0, 50]


def learners():
    yield lambda X, y: GroupLassoPerceptron(budget=2, random_state=0).fit(X, y)
    yield lambda X, y: GroupLassoPerceptron(budget=2).partial_fit(X, y, classes=["a", "b"])
    yield lambda X, y: GroupLassoPerceptron(budget=2).fit_partitions([(X, y)])
    yield lambda X, y: StructuredGroupLasso(alpha=0.1).fit(X, y)
    yield lambda X, y: StructuredGroupLassoCV(n_alphas=2, cv=2).fit(X, y)
    yield lambda X, y: make_pipeline(GroupLassoPerceptron(budget=2)).fit(X, y)


@pytest.mark.parametrize("learn", learners())
def test_raw_units_cause_a_warning(learn):
    X, y, raw = sensors()
    with pytest.warns(UserWarning, match=r"column 1 has .* times the scale of column 2, .* standardise X"):
        learn(raw, y)
    with pytest.warns(UserWarning, match=r"column 1 has .* times the scale of column 2"):
        learn(sparse.csr_array(raw), y)
    with pytest.warns(UserWarning, match=r"the mean of column 5 is \d+\.?\d* times its standard deviation"):
        learn(X + [0, 0, 0, 0, 0, 50], y)
    for fine in (X, sparse.csr_array(X), StandardScaler().fit_transform(raw), 1e-5 * X):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            learn(fine, y)


def test_only_the_first_call_of_a_stream_warns():
    _, y, raw = sensors()
    model = GroupLassoPerceptron(budget=2)
    with pytest.warns(UserWarning, match="scale of column"):
        model.partial_fit(raw[:100], y[:100], classes=["a", "b"])
    model.partial_fit(raw[100:], y[100:])


def test_scales_of_counts_are_those_of_their_nonzero_values():
    rng = np.random.default_rng(0)
    X = rng.normal(3.0, 2.0, (200, 7))
    X[:, 1] = rng.random(200) < 0.1
    X[:, 2] = 5.0
    X[:, 3] = 1000.0 * (np.arange(200) < 9)
    X[:, 4] = 0.1 + 1e-17 * rng.normal(size=200)
    X[:, 5] = 0.0
    columns, scales, offsets = column_scales(X)
    assert_array_equal(columns, [0, 1, 6])
    assert_allclose(scales, [X[:, 0].std(), 1.0, X[:, 6].std()])
    assert_allclose(offsets, [X[:, 0].mean() / X[:, 0].std(), 0.0, X[:, 6].mean() / X[:, 6].std()])
    for found, wanted in zip(column_scales(sparse.csr_array(X)), (columns, scales, offsets), strict=True):
        assert_allclose(found, wanted)
    wide = sparse.csr_array((np.ones(40), (np.arange(40), np.full(40, 2**30))), shape=(40, 2**31 - 1))
    assert_array_equal(column_scales(wide)[0], [])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for fine in (X, np.zeros((0, 3)), np.zeros((4, 0)), wide, load_digits().data, load_iris().data):
            warn_of_scales(fine)
        # Few samples tell nothing.
        warn_of_scales(load_wine().data[:9])
    with pytest.warns(UserWarning, match="scale of column"):
        warn_of_scales(load_wine().data)
