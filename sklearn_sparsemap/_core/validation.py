"""Checks of all user input, with one style of message.

A message says what is wrong, which value, and the remedy.

Most rooms use this file.
"""

import numbers
from collections.abc import Iterator, Sized
from functools import partial

import numpy as np
from numpy.ma import MaskedArray
from scipy import sparse
from sklearn.utils._param_validation import (
    Interval,
    InvalidParameterError,
    validate_parameter_constraints,
)
from sklearn.utils.validation import _check_feature_names

from .errors import Place, SampleError, error_at
from .indices import check_not_masked, check_sparse
from .ragged import RaggedArray
from .tables import check_equal_columns, error_of_iterator, refuse_iterator, refuse_names

LARGEST_SCORE = 1e100  # largest absolute score or feature, so that squares and sums do not overflow
# Largest feature, by the type of the weights: training keeps sums of squared features in that type.
_LARGEST_FEATURE = {"float64": LARGEST_SCORE, "float32": 1e15}
_LONGEST_QUOTE = 80  # characters of a value that messages quote
_MAX_SHOWN = 5  # values that messages list
_MAX_DEPTH = 64  # largest number of axes of an array of NumPy


class Number(Interval):
    """scikit-learn's interval of numbers, except that bools, which are ints in Python, are refused."""

    def is_satisfied_by(self, val):
        return not isinstance(val, bool | np.bool_) and super().is_satisfied_by(val)


# Constraints that several estimators use in their `_parameter_constraints`.
POSITIVE = Number(numbers.Real, 0, None, closed="neither")
NOT_NEGATIVE = Number(numbers.Real, 0, None, closed="left")
POSITIVE_OR_INF = Number(numbers.Real, 0, np.inf, closed="right")
POSITIVE_INT = Number(numbers.Integral, 1, None, closed="left")
NOT_NEGATIVE_INT = Number(numbers.Integral, 0, None, closed="left")
FRACTION = Number(numbers.Real, 0, 1, closed="neither")
N_JOBS = (numbers.Integral, None)


def check_parameters(estimator, names=None):
    """Check the parameters of an estimator by its `_parameter_constraints`, with scikit-learn's messages.

    Parameters
    ----------
    estimator : estimator
    names : sequence of str, default=None
        The parameters to check. By default, all.

    Raises
    ------
    InvalidParameterError
        A ValueError that names the parameter, its allowed values, and its value.
    """
    if names is None:
        parameters = estimator.get_params(deep=False)
    else:
        # Not by `get_params`: it reads the signature, which takes longer than a small prediction.
        parameters = {name: getattr(estimator, name) for name in names}
    try:
        validate_parameter_constraints(estimator._parameter_constraints, parameters, type(estimator).__name__)
    except InvalidParameterError as error:
        # scikit-learn quotes the whole value, which may be an array.
        rule, got, value = str(error).partition(" Got ")
        value = value.removesuffix(" instead.")
        if len(value) <= _LONGEST_QUOTE:
            raise
        raise InvalidParameterError(f"{rule}{got}{shorten(value)} instead.") from None


def check_n_jobs(n_jobs):
    """Raise ValueError unless `n_jobs` is an int or None."""
    if n_jobs is not None and not isinstance(n_jobs, numbers.Integral):
        raise InvalidParameterError(f"n_jobs must be an instance of 'int' or None; got {n_jobs!r}")


def quoted(value):
    """Return the repr of a value from the data, shortened if it is long."""
    return shorten(repr(value[: _LONGEST_QUOTE + 1] if isinstance(value, str | bytes) else value))


def shorten(text):
    """Return a text with its end replaced by dots if it is long."""
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def first_of(values, n=None):
    """Join the first texts or numbers of a sequence, and say how many there are if there are more.

    `n` is the number of all values, if the sequence has only the first ones.
    """
    shown = values[:_MAX_SHOWN]
    n = len(values) if n is None else n
    return ", ".join(map(str, shown)) + (f", ... {n} in all" if n > len(shown) else "")


def check_choice(name, value, allowed):
    """Raise ValueError unless the parameter `name` has one of the `allowed` values."""
    # Only strings are compared by `==`: other objects may be unhashable, or arrays that compare entry by entry.
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        raise ValueError(f"{name}={value!r} is not one of {', '.join(map(repr, allowed))}")


def check_positive(name, value, *, integer=False, zero=False):
    """Raise ValueError unless `value` is a positive number (or zero, if that is allowed)."""
    kind = numbers.Integral if integer else numbers.Real
    # NaN and infinity fail the comparisons, too.
    if isinstance(value, bool) or not isinstance(value, kind) or not (0 <= value < np.inf) or not (zero or value > 0):
        wanted = f"a {'non-negative' if zero else 'positive'} {'int' if integer else 'number'}"
        raise ValueError(f"{name} must be {wanted}; got {value!r}")


def is_batch(scores, ndim):
    """Return whether `scores` is a sequence of samples rather than one sample of `ndim` axes.

    Raises
    ------
    ValueError
        If it is a RaggedArray with inconsistent attributes.
    """
    if isinstance(scores, RaggedArray):
        scores._check("scores")
        return True
    if isinstance(scores, np.ndarray) and scores.dtype != object:
        return scores.ndim == ndim + 1
    if sparse.issparse(scores):
        # It has no length. As a sample, it is refused with a remedy.
        return False
    depth = 0
    while not hasattr(scores, "ndim") and isinstance(scores, list | tuple) and len(scores):
        scores = scores[0]
        depth += 1
        if depth > _MAX_DEPTH:
            raise ValueError("scores are a list that is nested too deeply, or contains itself; pass arrays of numbers")
    if isinstance(scores, np.ndarray) and scores.dtype == object:
        return True
    return depth + getattr(scores, "ndim", 0) == ndim + 1


def check_numbers(values, name, named=False):
    """Return `values` as a C-contiguous float64 array.

    Parameters
    ----------
    values : object
        An argument in the user's form.
    name : str or Place
        The argument, for messages.
    named : bool, default=False
        Whether it may be a table with names, because it defines an order and does not follow another one.

    Raises
    ------
    ValueError
        If they are not real numbers, or have names. (NumPy would drop the imaginary parts of complex numbers, and the
        units of times.)
    """
    if not named and hasattr(values, "to_numpy"):
        refuse_names(values, name)
    if isinstance(values, MaskedArray):
        check_not_masked(values, name)
    if not isinstance(values, np.ndarray) and sparse.issparse(values):
        raise error_at(name, "", " must be dense; got a sparse matrix. Use ", ".toarray()")
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            # The conversion of objects to floats fails for complex numbers, as it should.
            array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        refuse_iterator(values, name)
        raise error_at(name, f" must be an array of numbers: {error}") from error
    if array.dtype.kind in "mM":
        raise error_at(name, f" must be an array of numbers; got {array.dtype}, times")
    if array.dtype.kind == "c":
        raise error_at(name, "Complex data not supported: ", " is complex; pass the real part, or the modulus")
    try:
        return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)
    except (TypeError, ValueError) as error:
        raise error_at(name, f" must be an array of numbers: {error}") from error


def check_not_negative(array, name, entries):
    """Raise ValueError unless all entries of a 1-D array are finite and not negative."""
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        i = int(bad.argmax())
        raise error_at(name, f"[{i}] is {array[i]}; {entries} must be finite and not negative")


def check_scores(scores, ndim, name="scores"):
    """Return `scores` as a float64 array with `ndim` axes, C-contiguous.

    -inf is allowed (it forbids a part); NaN, +inf and empty arrays are not. Finite masks such as the minimum of float64
    become -1e100, so that sums of them are finite.
    """
    array = check_numbers(scores, name, named=True)
    if array.size == 0:
        raise error_at(name, f" is empty (shape {array.shape}); there must be a sample, and it needs a part")
    if array.ndim != ndim:
        raise error_at(name, f" must have {ndim} axes; got shape {array.shape}")
    if not are_scores(array) and not are_scores(array := bound_masks(array)):
        bad = np.isnan(array) | (array == np.inf)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise error_at(name, f"{list(where)} is {array[where]}; scores must be finite, or -inf to forbid a part")
        raise error_at(
            name, f" has values beyond {LARGEST_SCORE:g}, with which sums overflow; rescale them, or forbid by -inf"
        )
    return array


def bound_masks(array):
    """Return scores with finite values below -1e100 replaced by -1e100; a copy if there are any."""
    if not array.min(initial=0.0) < -LARGEST_SCORE:
        return array
    return np.where((array < -LARGEST_SCORE) & (array > -np.inf), -LARGEST_SCORE, array)


def are_scores(array, size=None):
    """Return whether all entries of a float64 array are -inf, or finite with finite sums of `size` (default: all)."""
    # Fast path for finite scores, without temporary arrays. With NaN both comparisons are False.
    most = LARGEST_SCORE / max(array.size if size is None else size, 1)
    with np.errstate(invalid="ignore"):
        if array.min(initial=0.0) >= -most and array.max(initial=0.0) <= most:
            return True
    finite = np.isfinite(array)
    return bool((array[~finite] == -np.inf).all()) and np.abs(array[finite]).max(initial=0.0) <= LARGEST_SCORE


def check_matrix(X, name="X"):
    """Check X if it is a sparse matrix, a RaggedArray or a masked array, before any other code reads it."""
    if isinstance(X, Iterator):
        raise error_of_iterator(X, name)
    if isinstance(X, MaskedArray):
        check_not_masked(X, name)
    if isinstance(X, RaggedArray):
        X._check(name)
    elif sparse.issparse(X):
        check_sparse(X, name)
    return X


_SAMPLES_REMEDY = "pass a list with one 2-D array (or CSR matrix) a sample"
# The remedy if a table stands for a sequence of samples.
_FRAME_REMEDY = (
    "cut a table of tokens into sentences by sklearn_sparsemap.features.sentences_from_frame, with frames=True if its "
    "columns are numbers"
)


# Values too large for float32 become infinite in the conversion; the check for finite values then reports them.
@np.errstate(over="ignore")
def check_samples(X, n_features=None, n_axes=1, dtype=np.float64, allow_empty=False):
    """Return structured features as a RaggedArray of rows (dense of float64, or CSR of float64 or float32).

    Parameters
    ----------
    X : sequence of array-like or sparse matrices of shape (n_rows_i, n_features)
        List, tuple, 1-D object array (or a column of one), Series, RaggedArray, or a stack of samples of equal shape
        (an array with one more axis).
    n_features : int, default=None
        Number of features the model was fitted with.
    n_axes : int or None, default=1
        With 2, samples may have two axes of rows: a list of 3-D arrays, or one 4-D array. With None, they may have any
        number of axes of rows. The result has `shapes`.
    dtype : {float64, float32} or None, default=float64
        With float32 all values are converted to float32. None is float32 if all of X is float32, else float64.
    allow_empty : bool, default=False
        Whether samples may have no rows.

    Raises
    ------
    ValueError
        Names the first invalid sample.
    """
    if isinstance(X, RaggedArray):
        X._check("X")
    else:
        X = _as_sequence(X, n_axes)
        if n_axes != 1:
            X, shapes = _flatten_grids(X, n_axes)
            X = check_samples(X, n_features, dtype=dtype)
            return X if shapes is None else RaggedArray(X.values, X.indptr, shapes=shapes)
        X = _join_samples(X, n_features, dtype, allow_empty)
    if len(X) == 0:
        raise ValueError(f"X holds 0 samples, while at least 1 is required: {_SAMPLES_REMEDY}")
    values = X.values
    if dtype is None:
        dtype = np.float32 if values.dtype == np.float32 else np.float64
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(f"X must hold rows of numbers; got {values.dtype} values of shape {values.shape}")
    if n_features is not None and values.shape[1] != n_features:
        raise ValueError(f"X has {values.shape[1]} features, but the model was fitted with {n_features}")
    empty = np.flatnonzero(X.lengths == 0)
    if len(empty) and (not allow_empty or (n_features is None and len(empty) == len(X))):
        raise SampleError("X", empty[0], " has no steps; leave out empty samples")
    if not sparse.issparse(values):
        values = np.ascontiguousarray(values, dtype)
    elif values.dtype not in (dtype, np.float32):
        values = values.astype(dtype)
    _check_finite_rows(values, X.indptr)
    return X if values is X.values else RaggedArray(values, X.indptr, X.groups, X.shapes, X.group_names)


def check_names_of_features(estimator, X, *, reset):
    """Store the names of the features of structured samples, or check them as scikit-learn does for flat data.

    Samples have names if they are data frames with equal columns.

    Parameters
    ----------
    estimator : estimator
        With `reset`, it gets `feature_names_in_` if the samples have names.
    X : sequence of samples
        In the user's form.
    reset : bool
        Whether to store the names, in a fit, or to check them.

    Raises
    ------
    ValueError
        If the columns of the first sample differ from those of the fit. `check_samples` compares the samples.
    """
    if isinstance(X, np.ndarray):
        X = X.ravel() if X.dtype == object else ()
    is_sequence = isinstance(X, Sized) and not isinstance(X, RaggedArray) and not sparse.issparse(X)
    first = next(iter(X), None) if is_sequence else None
    if not hasattr(first, "columns"):
        if reset and hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    _check_feature_names(estimator, first, reset=reset)


def _join_samples(X, n_features, dtype, allow_empty):
    """Return a sequence of samples as a RaggedArray; see `check_samples`."""
    empty = are_empty(X) if allow_empty else np.zeros(len(X), bool)
    if empty.any() and not (n_features is None and empty.all()):
        # Samples without rows get the type and columns of the first sample that has rows.
        first = np.zeros((0, n_features)) if empty.all() else X[int(np.argmin(empty))]
        none = first[:0] if hasattr(first, "shape") else np.asarray(first)[:0]
        X = [none if without_rows else x for x, without_rows in zip(X, empty.tolist())]
    if hasattr(X[0], "columns"):
        check_equal_columns(X, partial(Place, "X"))
    samples = [_check_sample(x, i) for i, x in enumerate(X)]
    widths = np.array([x.shape[1] for x in samples])
    if n_features is not None:
        expected, whose = n_features, "the model was fitted with"
    else:
        values, counts = np.unique(widths, return_counts=True)
        expected = int(values[counts.argmax()])
        whose = "other samples have"
    wrong = np.flatnonzero(widths != expected)
    if len(wrong):
        raise SampleError("X", wrong[0], f" has {widths[wrong[0]]} features, but {whose} {expected}")
    is_single = all(x.dtype == np.float32 for x in samples)
    if is_single and (dtype is None or all(map(sparse.issparse, samples))):
        dtype = np.float32
    are_numbers = all(x.dtype.kind in "fiub" for x in samples)
    return RaggedArray._join(samples, (dtype or np.float64) if are_numbers else None, "X")


def _check_finite_rows(values, indptr):
    """Raise ValueError that names the sample and the row of the first value that is not finite."""
    data = values.data if sparse.issparse(values) else values
    with np.errstate(over="ignore", invalid="ignore"):
        total = data.sum()
    if np.isfinite(total) or np.isfinite(data).all():
        return
    at = np.argwhere(~np.isfinite(data))[0][0]
    row = np.searchsorted(values.indptr, at, side="right") - 1 if sparse.issparse(values) else at
    sample = int(np.searchsorted(indptr, row, side="right") - 1)
    row -= indptr[sample]
    raise SampleError("X", sample, f" contains NaN or infinity, at row {row}; impute or drop such values")


def _as_sequence(X, n_axes):
    """Return samples as a sequence: those of a stack, a Series or an object column too.

    Raises
    ------
    ValueError
        If X is not a sequence of samples, with a remedy for common mistakes.
    """
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2 and X.shape[1:] == (1,) and len(X):
        # Other tools that pass blocks of samples may support 2-D arrays only, hence the object array of one column.
        X = X[:, 0] if getattr(X[0, 0], "ndim", 0) > 1 else X
    elif isinstance(X, np.ndarray) and X.dtype != object and X.ndim >= 3:
        if X.ndim == 3 or n_axes in (None, X.ndim - 2):
            X = list(X)
    elif hasattr(X, "iloc") and getattr(X, "ndim", 0) == 1:
        X = X.tolist()
    if sparse.issparse(X) or (isinstance(X, np.ndarray) and X.dtype != object) or hasattr(X, "iloc"):
        shape = getattr(X, "shape", ())
        remedy = _FRAME_REMEDY if hasattr(X, "columns") else _SAMPLES_REMEDY
        raise ValueError(f"X must be a sequence of samples; got one {len(shape)}-D array, {shape}: {remedy}")
    is_grouped = type(X).__name__.endswith("GroupBy")
    if is_grouped or isinstance(X, str | bytes | dict) or not isinstance(X, Sized) or not hasattr(X, "__getitem__"):
        remedy = _FRAME_REMEDY if is_grouped else "write list(X)" if isinstance(X, Iterator) else _SAMPLES_REMEDY
        raise ValueError(f"X must be a sequence of samples; got {type(X).__name__}: {remedy}")
    if len(X) == 0:
        raise ValueError(f"X holds 0 samples, while at least 1 is required: {_SAMPLES_REMEDY}")
    return X


def _flatten_grids(X, n_axes):
    """Flatten the row axes of each sample; return the samples and their shapes, or None if they had one axis."""
    samples = []
    for i, x in enumerate(X):
        try:
            samples.append(x if hasattr(x, "ndim") else np.asarray(x))
        except ValueError as error:
            raise _no_array(i, error) from error
    n_axes = max(2, *(x.ndim - 1 for x in samples)) if n_axes is None else n_axes
    grids = [i for i, x in enumerate(samples) if x.ndim == n_axes + 1]
    if not grids:
        return samples, None
    if len(grids) < len(samples):
        odd = next(i for i, x in enumerate(samples) if (x.ndim == n_axes + 1) != (samples[0].ndim == n_axes + 1))
        found, first = samples[odd].ndim, samples[0].ndim
        raise SampleError("X", odd, f" has {found} axes, but X[0] has {first}; make all samples alike")
    for i, x in enumerate(samples):
        if 0 in x.shape[:-1]:
            raise SampleError("X", i, f" has no rows (shape {x.shape}); leave out empty samples")
    shapes = np.array([x.shape[:-1] for x in samples])
    return [x.reshape(-1, x.shape[-1]) for x in samples], shapes


def are_empty(samples):
    """Return a bool array: whether each sample, in the user's form, has no rows or labels."""
    if isinstance(samples, RaggedArray):
        return samples.lengths == 0
    lengths = [x.shape[0] if getattr(x, "shape", ()) else len(x) if isinstance(x, Sized) else 1 for x in samples]
    return np.array(lengths) == 0


def _no_array(i, error):
    return SampleError("X", i, f" is not an array of numbers ({error}): {_SAMPLES_REMEDY}")


def _check_sample(x, i):
    if sparse.issparse(x):
        return x
    if isinstance(x, MaskedArray):
        check_not_masked(x, Place("X", i))
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise _no_array(i, error) from error
    if array.dtype.kind in "OUS":
        if array.dtype.kind == "O" and array.ndim == 2:
            try:
                return array.astype(np.float64)
            except (TypeError, ValueError):
                pass
        kind = type(array.flat[0]).__name__ if array.size else str(array.dtype)
        if array.size and not isinstance(array.flat[0], str | bytes | dict):
            raise SampleError("X", i, f" holds {kind} values, not numbers: {_SAMPLES_REMEDY}")
        vectorizer = "TokenDictVectorizer" if kind == "dict" else "TemplateVectorizer"
        raise SampleError(
            "X",
            i,
            f" holds {kind} values, not numbers; turn raw tokens into features first, for example with "
            f"sklearn_sparsemap.features.{vectorizer}",
        )
    if array.shape in ((0,), (0, 0)):
        raise SampleError("X", i, " has no steps; leave out empty samples")
    if array.ndim != 2:
        remedy = ("; for one feature write ", "[:, None]") if array.ndim == 1 else ("",)
        fault = f" has shape {array.shape}; a sample has two axes, steps and features{remedy[0]}"
        raise SampleError("X", i, "", fault, *remedy[1:])
    return array


def check_magnitude(X, dtype=np.float64):
    """Raise ValueError if squares of the features would overflow in this type."""
    data = X.values.data if sparse.issparse(X.values) else X.values
    largest = _LARGEST_FEATURE[np.dtype(dtype).name]
    if data.size and max(float(data.max()), -float(data.min())) > largest:
        raise ValueError(f"X contains values beyond {largest:g}; rescale the features, for example to unit variance")


def is_missing(label):
    """Return whether a label is a missing value: NaN of any type, NaT, or pandas' NA."""
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        # The comparison with pandas' NA has no truth value. Nor has that with an array, which is not a label.
        return type(label).__name__ == "NAType"


def keep_text(labels):
    """Return labels as given, but lists of text that ends with NUL, which NumPy's text omits, as arrays of objects."""
    if not isinstance(labels, list | tuple):
        return labels
    if not any(isinstance(label, str) and label.endswith("\0") for label in labels):
        return labels
    found = np.empty(len(labels), object)
    found[:] = labels
    return found


def name_array(names):
    """Return names as an array, of objects if `keep_text` says so."""
    return np.asarray(keep_text(names))


def check_no_missing(labels, what="y"):
    """Raise ValueError if one of the labels, hashable Python objects, is missing."""
    for label in dict.fromkeys(labels):
        if is_missing(label):
            raise ValueError(
                f"Input {what} contains NaN as a label ({label!r}); drop these samples or give them a label"
            )


def plain_list(labels):
    """Return labels as a list of Python objects. NumPy's and Arrow's scalars have other types."""
    if hasattr(labels, "to_pylist"):
        return labels.to_pylist()
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    are_scalars = any(hasattr(kind, "as_py") for kind in set(map(type, labels)))
    return [label.as_py() if hasattr(label, "as_py") else label for label in labels] if are_scalars else labels


IGNORED = -100  # the label of steps that PyTorch's losses leave out by default, and so Hugging Face's tokenised data


def check_not_ignored(labels, lengths, name="y"):
    """Raise ValueError if a label of a step is `IGNORED`, which would become a class.

    -1 is a label, because it is the usual class of outliers, and one of two signs.

    Parameters
    ----------
    labels : list
        Labels of all steps, one sample after the other.
    lengths : array of shape (n_samples,)
    name : str, default="y"
    """
    try:
        at = labels.index(IGNORED)
    except (ValueError, TypeError):
        # Not among them, or a label that cannot be compared.
        return
    i = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
    step = at - int(np.sum(lengths[:i]))
    raise SampleError(
        name,
        i,
        f" has the label {IGNORED} in step {step}, with which PyTorch marks steps to ignore; write None, which is an "
        f"unknown label: {name} = [[None if label == {IGNORED} else label for label in own] for own in {name}]",
    )


def check_same_length(X, y, names=("X", "y"), each="structure"):
    """Raise ValueError unless X and y have the same number of samples, or if y is a table, which is read by columns.

    Parameters
    ----------
    X, y : sequences
    names : (str, str), default=("X", "y")
        The arguments, for messages.
    each : str, default="structure"
        The entries of y, for messages.
    """
    first, name = names
    if not isinstance(y, Sized) or isinstance(y, dict) or sparse.issparse(y):
        remedy = ""
        if isinstance(y, dict):
            remedy = f"; write [{{name: {name}[name][i] for name in {name}}} for i in range(len({first}))]"
        remedy = f"; write list({name})" if isinstance(y, Iterator) else remedy
        raise ValueError(
            f"{name} must be a sequence with one {each} a sample, such as a list; got {type(y).__name__}{remedy}"
        )
    if hasattr(y, "columns"):
        raise ValueError(
            f"{name} is a table, of shape {y.shape}, but must be a sequence with one {each} a sample; if these are its "
            f"rows, pass {name}.to_numpy()"
        )
    if isinstance(y, MaskedArray):
        check_not_masked(y, name)
    for i, own in enumerate(y):
        for array in own.values() if isinstance(own, dict) else (own,):
            if isinstance(array, MaskedArray):
                check_not_masked(array, Place(name, i))
    if len(X) != len(y):
        raise ValueError(
            f"{first} and {name} have inconsistent numbers of samples: {len(X)} and {len(y)}; "
            f"{name} needs one {each} a sample"
        )


def check_sample_weight(sample_weight, n_samples):
    """Return sample weights as a float64 array. None means all ones, and a number applies to all samples."""
    if sample_weight is None:
        return np.ones(n_samples)
    weights = check_numbers(sample_weight, "sample_weight")
    if weights.ndim == 0:
        weights = np.full(n_samples, float(weights))
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; got shape {weights.shape}")
    if len(weights) != n_samples:
        raise ValueError(f"sample_weight has {len(weights)} entries for {n_samples} samples")
    check_not_negative(weights, "sample_weight", "weights")
    if not weights.any():
        raise ValueError("all sample weights are zero; at least one must be positive")
    return weights
