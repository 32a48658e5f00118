"""Data of linear structured estimators, and assigned weights: checks, and conversion to the internal form.

Features become a `RaggedArray` with one row of features for each label or part. Labels, which are hashable objects,
become integer codes. Label sequences without steps are left out of training, and their predictions are empty.

Used by `estimators/_multilabel`, `base.py`, `new_labels.py` and `targets.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from contextlib import suppress
from itertools import chain

import numpy as np
from scipy import sparse
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..._core.errors import Place, SampleError
from ..._core.ordering import sorted_set
from ..._core.ragged import RaggedArray, ragged_of_checked
from ..._core.tables import error_of_iterator
from ..._core.validation import (
    IGNORED,
    check_magnitude,
    check_matrix,
    check_names_of_features,
    check_no_missing,
    check_not_ignored,
    check_not_masked,
    check_not_negative,
    check_numbers,
    check_same_length,
    check_sample_weight,
    check_samples,
    first_of,
    keep_text,
    name_array,
    plain_list,
    quoted,
)
from ..._training._structure_task import UNKNOWN
from ..._training.score_models import sparse_weights
from .._failures import warn_user

# The remedy in messages about samples with several labels.
SEVERAL_LABELS = "for sets of labels use MultilabelLPSparseMAP; for sequences name a structure, such as 'chain'"
# Arguments of `validate_data` for flat data.
_CHECKS = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C"}
# Types with a length that are not sequences of labels.
_NO_SEQUENCES = (str, bytes, dict, set, frozenset)


def have_rows(X):
    """Tell whether samples have several rows of features each, by the first one."""
    if isinstance(X, RaggedArray) or getattr(X, "ndim", None) == 3:
        return True
    if sparse.issparse(X) or hasattr(X, "columns") or not hasattr(X, "__getitem__") or not hasattr(X, "__len__"):
        return False
    if isinstance(X, str | bytes | dict) or getattr(X, "ndim", 1) != 1 or len(X) == 0:
        return False
    first = next(iter(X))
    if isinstance(first, list | tuple):
        return len(first) > 0 and (isinstance(first[0], list | tuple) or getattr(first[0], "ndim", 0) == 1)
    return getattr(first, "ndim", 0) == 2


def check_flat(estimator, X, y=None, *, reset):
    """Check X of flat data and, in training, labels; return the rows as samples, and the labels.

    Parameters
    ----------
    estimator : LinearStructuredModel
        With `reset`, it gets `n_features_in_` and, if the features have names, `feature_names_in_`.
    X, y : object
        In the user's form.
    reset : bool
        Whether the features may differ from those of earlier calls.
    """
    if getattr(X, "ndim", 0) != 2 and have_rows(X):
        raise ValueError(
            "structure='auto' takes one row of features for each sample, but the samples of X have several; name a "
            "structure, such as 'chain' for a label of each row, or Simplex() to choose one row of each sample"
        )
    X = check_matrix(X)
    if y is None:
        values = validate_data(estimator, X, **_CHECKS, reset=reset)
    else:
        check_target(y, SEVERAL_LABELS)
        y = plain_list(y) if isinstance(y, list | tuple) and len(y) and hasattr(y[0], "as_py") else y
        values, y = validate_data(estimator, X, keep_text(y), **_CHECKS, reset=reset, multi_output=False)
        check_classification_targets(y)
    dtype = (estimator._dtype if reset else estimator._learned.model.dtype) or values.dtype
    # Dense rows get the type of the weights; sparse rows are not copied.
    values = values if sparse.issparse(values) else values.astype(dtype, copy=False)
    X = ragged_of_checked(values, np.arange(values.shape[0] + 1))
    check_magnitude(X, dtype)
    return X, y


def check_rows(estimator, score_ndim, X, y=None, *, reset, allow_empty=False):
    """Check structured samples; return them as a RaggedArray.

    Parameters
    ----------
    estimator : LinearStructuredModel
        With `reset`, it gets `n_features_in_` and, if the features have names, `feature_names_in_`.
    score_ndim : int or None
        Number of axes of the scores of a sample, without the axis of outputs. The rows of a sample have these axes.
    X, y : object
        In the user's form. Only the number of samples of `y` is checked.
    reset : bool
        Whether the features may differ from those of earlier calls.
    allow_empty : bool, default=False
        Whether a sample may have no rows.
    """
    if y is not None and isinstance(X, np.ndarray) and X.dtype != object and X.ndim == 2:
        raise ValueError(
            "X is one 2-D array, but this structure takes a list of them; for a single sample pass [X] and [y]"
        )
    check_names_of_features(estimator, X, reset=reset)
    dtype = estimator._dtype if reset else estimator._learned.model.dtype
    X = check_samples(X, None if reset else estimator.n_features_in_, score_ndim, dtype, allow_empty)
    if y is not None:
        check_same_length(X, y)
    check_magnitude(X, dtype or X.values.dtype)
    if reset:
        estimator.n_features_in_ = X.values.shape[1]
    return X


def combine_weights(X, gold, classes, sample_weight, class_weight):
    """Combine sample weights and class weights into one weight for each sample."""
    weights = check_sample_weight(sample_weight, len(X))
    if class_weight is None:
        return weights
    if classes is None:
        raise ValueError("class_weight is for structures made of labels; leave it at None")
    flat = gold.values if isinstance(gold, RaggedArray) else gold
    known = flat != UNKNOWN
    if isinstance(class_weight, str):
        of_class = compute_class_weight("balanced", classes=np.arange(len(classes)), y=flat[known])
    else:
        labels = set(classes.tolist())
        unknown = [label for label in class_weight if label not in labels]
        # As in scikit-learn, a label may be absent from this y. If other labels of y have no weight, it is probably
        # a typing error.
        if unknown and not labels <= set(class_weight):
            raise ValueError(f"class_weight names the label {unknown[0]!r}, which is not in y")
        of_class = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
        if not ((of_class >= 0) & (of_class < np.inf)).all():
            raise ValueError("class_weight must be finite and not negative")
    # An unknown label has weight 1.
    weights = weights * np.add.reduceat(np.where(known, of_class[flat], 1.0), X.indptr[:-1]) / X.lengths
    if not weights.any():
        raise ValueError("class_weight and sample_weight leave no sample with a positive weight")
    return weights


def split_step_weights(sample_weight, lengths):
    """Split weights of steps into the mean weight of each sample, and the weights of steps divided by it.

    Parameters
    ----------
    sample_weight : sequence of arrays with one weight for each step
    lengths : array of shape (n_samples,)
        Number of steps of each sample.

    Returns
    -------
    sample_weight : array of shape (n_samples,)
    step_weights : array of shape (n_rows,), or None
        None if all steps of each sample have the same weight.

    Raises
    ------
    ValueError
        If weights are invalid; the message names the sample.
    """
    if len(sample_weight) != len(lengths):
        raise ValueError(f"sample_weight has {len(sample_weight)} entries for {len(lengths)} samples")
    arrays = []
    for i, (own, n_steps) in enumerate(zip(sample_weight, lengths.tolist())):
        own = check_numbers(own, Place("sample_weight", i))
        if own.shape != (n_steps,):
            remedy = "give one weight for each step, or one for each sample"
            message = "", f" has shape {own.shape}, but ", f" has {n_steps} steps; {remedy}"
            raise SampleError("sample_weight", i, *message, names=(None, "X"))
        check_not_negative(own, Place("sample_weight", i), "weights")
        arrays.append(own)
    values = np.concatenate(arrays)
    full = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[full]
    lowest = np.minimum.reduceat(values, starts)
    highest = np.maximum.reduceat(values, starts)
    # The mean of equal weights is exact, so they are equivalent to one weight for the sample.
    means = np.where(lowest == highest, lowest, np.add.reduceat(values, starts) / lengths[full])
    of_samples = np.zeros(len(lengths))
    of_samples[full] = means
    if (lowest == highest).all():
        return of_samples, None
    divisors = np.repeat(means, lengths[full])
    return of_samples, np.divide(values, divisors, out=np.ones(len(values)), where=divisors > 0.0)


def are_of_steps(sample_weight):
    """Tell whether the weight of a sample is a sequence of weights."""
    if isinstance(sample_weight, RaggedArray):
        return True
    if np.isscalar(sample_weight) or not isinstance(sample_weight, Sized) or getattr(sample_weight, "ndim", 1) == 0:
        return False
    first = next(iter(sample_weight), None)
    return isinstance(first, Sized) and not isinstance(first, str | bytes) and getattr(first, "ndim", 1) > 0


def without_violations(X, gold, task, stream=False):
    """Leave out training samples whose assignments violate factors, with a warning that counts them and names rules.

    Parameters
    ----------
    X : RaggedArray
    gold : object array
    task : GraphTask
        With gold, some of which violate factors.
    stream : bool, default=False
        Whether no sample may be left.

    Returns
    -------
    X, gold, task
    """
    wrong = [i for i, factors in enumerate(task.violated) if factors]
    counts = Counter()
    for i in wrong:
        # A name stands for several factors.
        counts.update({repr(factor if factor.name is None else factor.name) for factor in task.violated[i]})
    rules = [f"{rule} ({n} sample{'s' * (n > 1)})" for rule, n in counts.most_common()]
    rules = first_of(rules)
    samples = first_of([f"y[{i}]" for i in wrong])
    kept = np.setdiff1d(np.arange(len(X)), wrong)
    if not stream and not task.weights[kept].any():
        first = task.violated[wrong[0]][0]
        raise ValueError(f"all samples violate rules of their factor graph: {rules}; y[{wrong[0]}] violates {first!r}")
    warn_user(
        f"{len(wrong)} of {len(X)} samples violate rules of their factor graph, and are left out of training: {rules}; "
        f"graph.violations lists those of an assignment; correct {samples}, or remove the rules"
    )
    return X[kept], gold[kept], task.take(kept)


def rows_only(X):
    """Return a RaggedArray without the samples that have no rows; the rows are not copied."""
    return ragged_of_checked(X.values, np.unique(X.indptr))


def with_empty(X, results, of_empty):
    """Return the results of all samples, given those of the samples with rows, and that of a sample without rows."""
    if X.lengths.all():
        return results
    results = iter(results)
    return [next(results) if n_rows else of_empty for n_rows in X.lengths.tolist()]


def label_array(labels):
    """Return labels as a 1-D array of their common type, or of objects if there is none."""
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for kind, dtype in ((str, None), (bool, bool), (int, np.int64), (float, np.float64)):
        if all(type(label) is kind for label in labels):
            with suppress(OverflowError):
                return name_array(labels) if kind is str else np.array(labels, dtype=dtype)
    array = np.empty(len(labels), dtype=object)
    for i, label in enumerate(labels):
        array[i] = label
    return array


def sorted_labels(labels):
    """Return the distinct labels, sorted if they can be compared, else in order of appearance."""
    different = list(dict.fromkeys(labels))
    with suppress(TypeError):
        different = sorted(different)
    return label_array(different)


def _check_classes(classes):
    """Return the parameter `classes` of `partial_fit` as an array of labels."""
    if isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.dtype != object:
        found = np.unique(classes)
        check_no_missing(found[-1:].tolist(), "classes")
        return found
    if isinstance(classes, str | bytes | dict) or not isinstance(classes, Iterable):
        raise ValueError(f"classes must be a sequence of labels; got {classes!r}")
    classes = sorted_set(classes) if isinstance(classes, set | frozenset) else list(classes)
    if classes and hasattr(classes[0], "as_py"):
        classes = plain_list(classes)
    if any(label is None for label in classes):
        raise ValueError("classes has None, which is an unknown label; leave it out")
    try:
        check_no_missing(classes, "classes")
        return sorted_labels(classes)
    except TypeError as error:
        raise ValueError(f"classes must be a 1-D sequence of hashable labels: {error}") from error


def flatten_labels(y, lengths):
    """Join label sequences, one label for each step of a sample.

    Parameters
    ----------
    y : sequence of sequences of hashable
    lengths : array of shape (n_samples,)
        Number of steps of each sample.

    Returns
    -------
    labels : list
        Python objects, so that equal labels of different array types are equal.

    Raises
    ------
    ValueError
        If a sample is not a sequence, has the wrong length, or a label that PyTorch ignores; the message names the
        sample.
    """
    if isinstance(y, RaggedArray) and y.values.ndim == 1:
        samples, found = None, y.lengths
    else:
        samples = []
        for i, sequence in enumerate(y):
            if sequence is None:
                remedy = f"for a sample of which no label is known write [None] * {lengths[i]}, a None for each step"
                raise SampleError("y", i, f" is None; {remedy}")
            if isinstance(sequence, _NO_SEQUENCES) or not isinstance(sequence, Sized):
                fault = f" is {quoted(sequence)}; it must be a sequence, one label for each step of "
                raise SampleError("y", i, "", fault, "", names=(None, "X"))
            if getattr(sequence, "ndim", 1) != 1:
                raise SampleError("y", i, f" has shape {sequence.shape}; it must be 1-D, one label for each step")
            if hasattr(sequence, "to_pylist") or (len(sequence) and hasattr(next(iter(sequence)), "as_py")):
                # Arrow's arrays and scalars are read as Python's.
                sequence = plain_list(sequence)
            samples.append(sequence.tolist() if hasattr(sequence, "tolist") else sequence)
        found = np.array([len(s) for s in samples])
    wrong = np.flatnonzero(found != lengths)
    if len(wrong):
        i = int(wrong[0])
        message = "", f" has {lengths[i]} steps, but ", f" has {found[i]} labels; give one for each step"
        raise SampleError("y", i, *message, names=("X", None))
    labels = y.values.tolist() if samples is None else list(chain.from_iterable(samples))
    try:
        check_no_missing(labels)
    except TypeError as error:
        raise ValueError(f"labels must be hashable: {error}") from error
    if IGNORED in labels:
        check_not_ignored(labels, lengths)
    return labels


def check_padding(labels, lengths):
    """Raise ValueError if sequences of one length end with -1, which is the padding of batches.

    Parameters
    ----------
    labels : list
        Labels of all steps. Without a label 0, -1 is not padding.
    lengths : array of shape (n_samples,)
    """
    different = set(labels)
    if not {-1, 0} <= different or len(lengths) < 2 or len(set(lengths.tolist())) > 1:
        return
    is_padded = np.array([label == -1 for label in labels]).reshape(len(lengths), -1)
    if (is_padded[:, :-1] > is_padded[:, 1:]).any():
        return
    i = int(np.argmax(is_padded[:, -1]))
    n = int((~is_padded[i]).sum())
    n_last = len(is_padded[i]) - n
    fault = f" ends with {n_last} labels of -1, which look like padding; pass sequences of their own lengths, here "
    message = "", fault, f"[:{n}] and ", f"[:{n}], or rename this label"
    raise SampleError("y", i, *message, names=(None, "X", None))


def check_target(y, remedy):
    """Raise ValueError for labels of flat samples that NumPy or scikit-learn would silently convert.

    Parameters
    ----------
    y : object
        In the user's form. Only containers that can hold objects are checked.
    remedy : str
        Advice for samples with several labels, which ends the message.

    Raises
    ------
    ValueError
        If a label is None or missing (NumPy writes NaN among str as "nan"), or is a set or a sequence of labels. Also
        if only some labels are text (NumPy writes 1 among str as "1").
    """
    if isinstance(y, Iterator):
        raise error_of_iterator(y, "y")
    if isinstance(y, np.ma.MaskedArray):
        check_not_masked(y, "y")
    if (hasattr(y, "ndim") and y.ndim != 1) or isinstance(y, str | bytes) or not isinstance(y, Sized):
        return
    if isinstance(y, np.ndarray) and y.dtype != object:
        return
    labels = plain_list(y)
    kinds = set(map(type, labels))
    if type(None) in kinds:
        unlabelled = next(i for i, label in enumerate(labels) if label is None)
        raise SampleError("y", unlabelled, " is None; leave out samples without a label")
    several = []
    if any(issubclass(kind, set | frozenset) for kind in kinds):
        several = [i for i, label in enumerate(labels) if isinstance(label, set | frozenset)]
    elif any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds) and not _is_rectangular(labels):
        several = [i for i, label in enumerate(labels) if isinstance(label, list | tuple | np.ndarray)]
    if several:
        i = several[0]
        raise SampleError("y", i, f" is {quoted(labels[i])}, a legacy multi-label representation; {remedy}")
    with suppress(TypeError):
        check_no_missing(labels)
    others = sorted(kind.__name__ for kind in kinds if not issubclass(kind, str))
    if others and len(others) < len(kinds):
        raise ValueError(f"y has labels of type str and of type {others[0]}; give all labels one type")


def _is_rectangular(labels):
    """Tell whether labels form an array with one or two axes."""
    lengths = {len(label) if isinstance(label, list | tuple | np.ndarray) else None for label in labels}
    return len(lengths) == 1


def given_classes(classes, known):
    """Return the labels of a stream.

    Parameters
    ----------
    classes : array-like or None
        The argument of `partial_fit`.
    known : array or None
        The labels of the first call; None in the first call.
    """
    if classes is None:
        if known is None:
            raise ValueError("classes must be given at the first call of partial_fit: all labels that will occur")
        return known
    given = _check_classes(classes)
    if known is not None and given.tolist() != known.tolist():
        raise ValueError(f"classes={given.tolist()} differ from those of the first call, {known.tolist()}; fit a clone")
    return given


def codes_of(labels, classes, unknown=False):
    """Return the codes of labels: -1 for labels that are not in `classes`; with `unknown`, `UNKNOWN` for None."""
    code_of = {label: code for code, label in enumerate(classes.tolist())}
    if unknown:
        code_of[None] = UNKNOWN
    return np.fromiter((code_of.get(label, -1) for label in labels), np.int64, len(labels))


def encode_labels(labels, classes, indptr, unknown=False):
    """Return the codes of labels, as `codes_of`; a ValueError names the first label that is not in `classes`."""
    codes = codes_of(labels, classes, unknown)
    unseen = np.flatnonzero(codes == -1)
    if len(unseen):
        i = int(np.searchsorted(indptr, unseen[0], side="right") - 1)
        raise SampleError(
            "y",
            i,
            f" has the label {quoted(labels[unseen[0]])}, which is not in classes; name every label in "
            "partial_fit(..., classes=...) at the first call, or pass on_new_labels='add' to a "
            "StructuredSparseMAPClassifier",
        )
    return codes


def check_coef(values, coef):
    """Return assigned values of `coef_`, checked and in the form of the present `coef`, its transpose."""
    shape = coef.shape[::-1]
    if not sparse.issparse(coef):
        return np.ascontiguousarray(check_weights("coef_", values, shape, finite=True).T, coef.dtype)
    values = check_matrix(values, "coef_") if sparse.issparse(values) else check_numbers(values, "coef_")
    values = sparse.csr_array(values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(f"coef_ must have shape {shape}; got {values.shape}")
    check_weights("coef_", values.data, values.data.shape, finite=True)
    values = values.tocoo()
    held = np.flatnonzero(values.data)
    # Entries are by output. A stable sort leaves those of a feature in this order.
    held = held[np.argsort(values.col[held], kind="stable")]
    weights = values.data[held].astype(coef.dtype, copy=False)
    return sparse_weights(values.col[held], values.row[held], weights, coef.shape)


def check_weights(name, values, shape, finite=False):
    """Return a checked copy of assigned weights. Unless `finite`, -inf is allowed, which forbids a part."""
    array = check_numbers(values, name).copy()
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}; got {array.shape}")
    if np.isnan(array).any() or (array == np.inf).any() or (finite and np.isinf(array).any()):
        wanted = "finite" if finite else "finite, or -inf to forbid a part"
        raise ValueError(f"{name} contains NaN or infinity; weights must be {wanted}")
    return array
