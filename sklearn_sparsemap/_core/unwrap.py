"""Access to the model within pipelines and searches, of this package or of scikit-learn.

Used by `conformal`, `inspection`, `pipeline` and `plotting`.
"""

from collections.abc import Mapping, Sized
from contextlib import contextmanager

from sklearn.base import BaseEstimator

from .errors import SampleError
from .moments import whole


def unwrap(model):
    """Return the fitted model within pipelines and searches, and the steps before it.

    Parameters
    ----------
    model : estimator
        A model, a search such as `GridSearchCV`, or a `Pipeline`; they may be nested.

    Returns
    -------
    steps : list of transformers
        The steps before the model.
    last : estimator
        The model.

    Raises
    ------
    ValueError
        If a search has no best model yet, or a meta-estimator predicts by its own threshold.
    """
    steps = []
    while True:
        if hasattr(model, "best_estimator_"):
            model = model.best_estimator_
        elif hasattr(model, "estimator_") and hasattr(model, "refit"):
            raise ValueError(
                f"{type(model).__name__} predicts by a threshold on the scores of a fitted model, which has no effect "
                "here; pass the model, its estimator_"
            )
        elif hasattr(model, "estimator") and hasattr(model, "refit"):
            raise ValueError(f"this {type(model).__name__} has no best_estimator_; call fit, with refit=True")
        elif isinstance(getattr(model, "steps", None), list):
            steps += [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
            model = model.steps[-1][1]
        else:
            return steps, model


def unwrap_whole(model):
    """Return the steps and the model as `unwrap` does, the model with the attributes of one moment."""
    steps, last = unwrap(model)
    return steps, whole(last) if isinstance(last, BaseEstimator) else last


def transformed(steps, X):
    """Apply the steps before a model to samples."""
    for step in steps:
        X = step.transform(X)
    return X


@contextmanager
def single_sample(model, x):
    """Let errors about a single sample name it `x`. If the model can predict `x` as several samples, they say so."""
    try:
        yield
    except ValueError as error:
        names_sample = isinstance(error, SampleError)
        if not (names_sample and error.infeasible):
            try:
                n_samples = len(model.predict(x))
            except Exception:
                pass
            else:
                raise ValueError(_about_several(x, n_samples)) from error
        if names_sample and error.argument == "X":
            error.argument = "x"
            error.sample = None
        raise


def _about_several(x, n_samples):
    first = "X.iloc[0]" if hasattr(x, "iloc") else "X[0]"
    return f"x is a sequence of samples, {n_samples} in all; pass a single one, such as {first}"


def transformed_sample(steps, last, x, is_row=False):
    """Apply the steps before a model to a single sample; return it as a sequence of samples.

    `is_row` tells whether samples are rows of a table, with one label or label set each.

    If samples are rows, a table or matrix of one row is such a sequence, and so is a list, array or Series that holds
    one text or one dict.

    Raises
    ------
    ValueError
        If the steps take texts or dicts, and `x` holds several; or if `x` has several rows, and samples are rows.
    """
    try:
        return transformed(steps, _one_sample(x, is_row, columns_in(steps, last)))
    except AttributeError as error:
        # Steps that read texts or dicts call their methods.
        raise ValueError(
            f"the steps before the model cannot read x as one sample ({error}); pass a single text, dict or row"
        ) from error


def _one_sample(x, is_flat, columns):
    """Return a single sample as a sequence of samples; see `transformed_sample`.

    A row of a table that is a Series becomes a table, so that its columns keep their names; `columns` are those of the
    model, if they have names.
    """
    is_series = is_flat and hasattr(x, "to_frame") and hasattr(x, "infer_objects")
    is_row = is_series and columns is not None and list(x.index) == list(columns)
    if is_flat and not is_row and _holds_one(x, str | bytes | Mapping):
        return x
    if is_series:
        return x.to_frame().T.infer_objects()
    is_list = isinstance(x, list) and len(x) == 1 and isinstance(x[0], list | tuple)
    shape = (1, len(x[0])) if is_list else getattr(x, "shape", ())
    if not is_flat or len(shape) != 2:
        return [x]
    if shape[0] != 1:
        raise ValueError(_about_several(x, shape[0]))
    return x


def _holds_one(x, kinds):
    """Tell whether x is a sequence with one element, of one of these types."""
    is_sequence = isinstance(x, Sized) and not isinstance(x, str | bytes | Mapping) and getattr(x, "ndim", 1) == 1
    return is_sequence and len(x) == 1 and isinstance(next(iter(x)), kinds)


def columns_in(steps, last):
    """Return the names of the columns of tables that a model takes, or None if it was not fitted to a table."""
    return getattr([*steps, last][0], "feature_names_in_", None)


def names_out(steps, last):
    """Return the names of the features that a model learns from, or None if they have no names."""
    names = getattr(last, "feature_names_in_", None)
    for i, step in enumerate(steps):
        try:
            names = step.get_feature_names_out() if i == 0 else step.get_feature_names_out(names)
        except (AttributeError, ValueError):
            names = None
    return names
