"""Samples that are held out of training, or given, for early stopping.

An `estimator` here has the parameters `early_stopping` and `validation_fraction`.

Used by `distributed`, `estimators`, `estimators/_multilabel` and `estimators/_structured`.
"""

import numpy as np
from sklearn.model_selection import train_test_split


def held_out_fraction(estimator):
    """Return the fraction of the samples that early stopping holds out; 0.0 without early stopping."""
    stops = estimator.early_stopping
    return estimator.validation_fraction * stops if isinstance(stops, bool | np.bool_) else float(stops)


def check_validation(estimator, X_val, y_val):
    """Raise ValueError if only one of the arguments X_val and y_val of `fit` is given, or samples are held out, too."""
    for given, name, other in ((X_val, "X_val", "y_val"), (y_val, "y_val", "X_val")):
        if given is None:
            raise ValueError(f"{other} is given, but {name} is not; pass both, or neither")
    stops = estimator.early_stopping
    if not isinstance(stops, bool | np.bool_):
        raise ValueError(
            f"early_stopping={stops!r} holds out a fraction of the samples, but X_val and y_val are given; set "
            "early_stopping=True, or leave X_val and y_val out"
        )


def hold_out(estimator, n_samples, rng, stratify=None):
    """Return the indices of the samples to learn from, and of those that early stopping holds out."""
    return train_test_split(
        np.arange(n_samples),
        test_size=held_out_fraction(estimator),
        random_state=rng.randint(2**31 - 1),
        stratify=stratify,
    )
