"""The strength of a penalty: the quantities that usual ones depend on, and the choice by the loss of held-out samples.

Used by `estimators/_multilabel`, `estimators/_structured` and `_decisions.py`.
"""

from collections import namedtuple

import numpy as np
from scipy import sparse

from .._training.score_models import used_columns

# Strengths that are tried, as multiples of a usual one, the strongest first.
PATH = 10.0 ** np.arange(2.0, -2.1, -0.5)
# Smallest relative decrease of the held-out loss that counts as progress: from one strength to the next on a path, or
# between two measurements in training. On bibtex the loss falls by less than this to the end of the path, where fits
# take several times as long.
_MIN_DECREASE = 1e-3
# A path ends at the first strength without progress if the loss has fallen by this fraction since the strongest one,
# else at the second in a row: the loss can rise at first, while there are hardly any weights.
_CLEAR_DECREASE = 0.01
# Number of iterations over which `has_stalled` averages.
_WINDOW = 3

# Fraction of the entries of a dense matrix below which it counts as mostly zero.
_FEW_ENTRIES = 0.1

# Number of rows whose squares are computed at once.
_ROWS = 2**17
# Maximum number of columns whose means are stored if most columns may have no entry: 128 MiB.
_MAX_COLUMNS = 2**24

# The chosen strength, the strengths that were tried with their losses, and the results at the chosen one.
Choice = namedtuple("Choice", ["alpha", "alphas", "losses", "results"])


def total_variance(X, weights):
    """Return the sum of the variances of the columns of a dense or CSR matrix; 1 if it is zero or there are no rows.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    weights : array of shape (n_rows,)
        Equivalent to repetitions of rows.
    """
    n_rows = X.shape[0]
    total = weights.sum()
    squares = 0.0
    is_sparse = sparse.issparse(X)
    if is_sparse and not X.has_canonical_format:
        # It may be the user's matrix.
        X = X.copy()
        X.sum_duplicates()
    if is_sparse and X.shape[1] > _MAX_COLUMNS:
        # Most columns have no entry. The mean of each column would take more memory than the samples.
        _, X = used_columns(X)
    for start in range(0, n_rows, _ROWS):
        stop = min(start + _ROWS, n_rows)
        own = weights[start:stop]
        if is_sparse:
            ends = X.indptr[start : stop + 1]
            squares += np.repeat(own, np.diff(ends)) @ np.square(X.data[ends[0] : ends[-1]])
        else:
            squares += np.sum(own @ np.square(X[start:stop]))
    if not total:
        return 1.0
    mean = weights @ X / total
    variance = float(squares / total - mean @ mean)
    return variance if variance > 0.0 else 1.0


def rows_per_column(X, weights):
    """Return the number of rows of a dense or CSR matrix for each column that is not zero.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_features)
    weights : array of shape (n_rows,)
        Equivalent to repetitions of rows.
    """
    counts = weights > 0.0
    if sparse.issparse(X):
        n_used = len(np.unique(X.indices[np.repeat(counts, np.diff(X.indptr)) & (X.data != 0.0)]))
    else:
        n_used = np.any(X, axis=0, where=counts[:, None]).sum()
    return float(weights.sum() / max(n_used, 1))


def has_few_entries(X):
    """Tell whether features are mostly zero, like those of words, for which linear scores are hard to beat."""
    return sparse.issparse(X) or np.count_nonzero(X) < _FEW_ENTRIES * X.size


def relative(weights):
    """Return sample weights scaled to mean 1, because the objective is a mean over the samples."""
    weights = weights / weights.max()
    return weights / weights.mean()


def try_strengths(alphas, losses, results):
    """Yield strengths in descending order until the loss of held-out samples no longer falls.

    Parameters
    ----------
    alphas : sequence of float
        Descending.
    losses, results : list
        The caller appends the held-out loss of each strength, and a list of arrays. Of `results`, those of the best
        strength and its neighbours are kept.
    """
    for alpha in alphas:
        yield alpha
        raised = _raised(losses)
        best = int(np.argmin(raised))
        results[: max(best - 1, 0)] = [None] * max(best - 1, 0)
        if len(raised) - 1 - best >= (1 if raised[best] < (1.0 - _CLEAR_DECREASE) * raised[0] else 2):
            break


def choose_strength(alphas, losses, results):
    """Choose between the best strength and its neighbours, at the minimum of a parabola through their losses.

    So the choice changes little if two losses are nearly equal.

    Parameters
    ----------
    alphas, losses, results
        As in `try_strengths`.

    Returns
    -------
    choice : Choice
        Between two strengths, results are interpolated.
    """
    lowest = minimum_of_curve(_raised(losses))
    k = int(lowest)
    following = min(int(lowest) + 1, len(losses) - 1)
    fraction = lowest - k
    low, high = alphas[k], alphas[following]
    chosen = [a + fraction * (b - a) for a, b in zip(results[k], results[following])]
    alpha = low * (high / low) ** fraction if fraction else low
    return Choice(float(alpha), np.array(alphas[: len(losses)]), np.array(losses), chosen)


def nearest_to_usual(usual, usual_losses, best, best_losses):
    """Return the strength nearest to the usual one whose held-out loss is within one standard error of the least one.

    The loss is taken as a parabola in the logarithm of the strength, with its minimum at the best strength. So with few
    samples, or without a clear gain, the choice is the usual strength.

    Parameters
    ----------
    usual, best : float
        Strengths.
    usual_losses, best_losses : arrays of shape (n_groups,)
        The sum of the losses of each group of held-out samples.

    Notes
    -----
    This is the rule of one standard error (Breiman, Friedman, Olshen and Stone, Classification and Regression Trees,
    1984, section 3.4.3), for paired differences.
    """
    gains = usual_losses - best_losses
    if not is_clear_gain(gains):
        return usual
    return float(usual * (best / usual) ** (1.0 - np.sqrt(_standard_error(gains) / gains.sum())))


def last_decrease(losses):
    """Return the index of the last clear decrease in a sequence of held-out losses."""
    return int(np.argmin(_raised(losses)))


def _raised(losses):
    """Return losses that are raised a little more with each step, so that tiny decreases do not lower them."""
    return losses * (1.0 + _MIN_DECREASE) ** np.arange(len(losses))


def is_clear_gain(gains, weights=None):
    """Tell whether the sum of some gains exceeds its standard error.

    Parameters
    ----------
    gains : array of shape (n,)
        Gains of samples, or sums over groups of samples, multiplied by their weights.
    weights : array of shape (n,), default=None
        By default, all are equal.
    """
    return bool(gains.sum() > _standard_error(gains, weights))


def _standard_error(gains, weights=None):
    """Return the standard error of the sum of gains; see `is_clear_gain`."""
    n = len(gains)
    if n < 2:
        return np.inf
    weights = np.ones(n) if weights is None else weights
    deviations = gains - weights * (gains.sum() / weights.sum())
    return np.sqrt(n / (n - 1) * (deviations @ deviations))


def minimum_of_curve(losses):
    """Return where the parabola through the lowest of some losses and its neighbours has its minimum: float.

    Parameters
    ----------
    losses : sequence of float
        The curve at 0, 1, and so on.
    """
    best = int(np.argmin(losses))
    last = len(losses) - 1
    if last < 2:
        return float(best)
    middle = min(max(best, 1), last - 1)
    before, here, after = losses[middle - 1 : middle + 2]
    curvature = before - 2.0 * here + after
    if curvature <= 0.0:
        return float(best)
    return float(np.clip(middle + 0.5 * (before - after) / curvature, max(best - 0.5, 0.0), min(best + 0.5, last)))


def has_stalled(tol, losses, loss):
    """Tell whether the loss of L-BFGS, the last of a list, falls by less than `tol` times itself in an iteration."""
    return len(losses) > _WINDOW and losses[-1 - _WINDOW] - loss <= _WINDOW * tol * abs(loss)
