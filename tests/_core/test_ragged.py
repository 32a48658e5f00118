"""RaggedArray: access, and life inside scikit-learn's splitters."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import KFold, train_test_split

from sklearn_sparsemap import RaggedArray

LENGTHS = [2, 1, 4, 3, 1]


def make(kind):
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 3, size=(n, 4)).astype(float) for n in LENGTHS]
    if kind == "csr":
        return [sparse.csr_array(a) for a in arrays]
    return [a[:, 0] for a in arrays] if kind == "1-D" else arrays


def dense(x):
    return x.toarray() if sparse.issparse(x) else x


@pytest.mark.parametrize("kind", ["dense", "csr", "1-D"])
def test_round_trip_and_access(kind):
    arrays = make(kind)
    ragged = RaggedArray.from_list(arrays)
    assert len(ragged) == 5
    assert ragged.shape == (5,)
    assert ragged.lengths.tolist() == LENGTHS
    for keys in (range(5), [-1, -5]):
        for i in keys:
            assert np.array_equal(dense(ragged[i]), dense(arrays[i]))
    for a, b in zip(ragged.tolist(), arrays):
        assert type(a) is type(b)
        assert np.array_equal(dense(a), dense(b))
    assert all(np.array_equal(dense(a), dense(b)) for a, b in zip(ragged, arrays))
    selections = [[3, 0, 0], slice(1, 4), slice(None, None, -2), np.array([True, False, True, False, False]), []]
    for key in selections:
        expected = np.arange(5)[key if len(np.shape(key)) == 0 or len(key) else np.array([], int)]
        found = ragged[key]
        assert isinstance(found, RaggedArray)
        assert len(found) == len(expected)
        for a, i in zip(found, expected, strict=True):
            assert np.array_equal(dense(a), dense(arrays[i]))


def test_bad_keys_and_bad_parts():
    ragged = RaggedArray.from_list(make("dense"))
    for key in (5, -6, [7], "a", (0, 1), [0.5]):
        with pytest.raises(IndexError):
            ragged[key]
    with pytest.raises(IndexError, match="boolean index did not match"):
        ragged[np.array([True, False])]
    with pytest.raises(ValueError, match="indptr must run from 0"):
        RaggedArray(np.zeros(3), [0, 2])
    with pytest.raises(ValueError, match="must not decrease"):
        RaggedArray(np.zeros(3), [0, 3, 2, 3])
    with pytest.raises(ValueError, match="sample 1 has shape"):
        RaggedArray.from_list([np.zeros((2, 3)), np.zeros((2, 4))])
    with pytest.raises(ValueError, match="sample 1 is dense"):
        RaggedArray.from_list([sparse.csr_array(np.eye(2)), np.eye(2)])
    with pytest.raises(ValueError, match="groups"):
        RaggedArray(np.zeros((3, 2)), [0, 3], groups=[0, 1, 2])


@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_scikit_learn_splits_it(kind):
    arrays = make(kind)
    ragged = RaggedArray.from_list(arrays)
    ragged.groups = np.arange(4)
    train, test, _, y_test = train_test_split(ragged, np.arange(5), test_size=2, random_state=0)
    assert isinstance(train, RaggedArray)
    assert train.groups is ragged.groups
    for a, i in zip(test, y_test):
        assert np.array_equal(dense(a), dense(arrays[i]))
    for _, test_index in KFold(5).split(ragged):
        assert np.array_equal(dense(ragged[test_index][0]), dense(arrays[test_index[0]]))


def test_becomes_an_object_array_and_pickles():
    ragged = RaggedArray.from_list(make("dense"))
    array = np.asarray(ragged)
    assert array.shape == (5,)
    assert array.dtype == object
    assert np.array_equal(array[2], ragged[2])
    with pytest.raises(ValueError, match="object array"):
        np.asarray(ragged, dtype=float)
    assert np.array_equal(pickle.loads(pickle.dumps(ragged)).values, ragged.values)
    assert repr(ragged) == "RaggedArray(n_samples=5, n_rows=11, n_features=4, dense)"
    assert len(RaggedArray.from_list([])) == 0
