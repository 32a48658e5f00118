"""Probabilities of labels from their scores: a logistic curve for each label, fitted on held-out samples.

Used by `estimators/_state`, `classifier.py`, `cross_validation.py` and `inference.py`.
"""

import numpy as np
from scipy.special import expit, log_expit, logsumexp, softmax

from ..._core.blocks import blocks

# Slope and offset of the log odds for each loss, if no samples were held out. SparseMAP's marginals rise from 0 to 1
# over an interval of length 1, in which a logistic curve of slope 4 does most of its rise. With the hinge loss, a label
# is uncertain at scores from -1 to 1.
_UNFITTED = {"sparsemap": (4.0, -2.0), "logistic": (1.0, 0.0), "hinge": (2.0, 0.0)}
# Log odds beyond which the curve grows only logarithmically. Fewer than a million samples contain no information about
# larger log odds, and the slow growth keeps probabilities distinct in double precision.
_STEEP_UP_TO = 14.0
# Fisher scoring ends if no parameter changes by more than `_PRECISION`; no step exceeds `_LONGEST_STEP`.
_PRECISION, _LONGEST_STEP, _MAX_STEPS = 1e-6, 2.0, 100
# Maximum number of halvings of a step, and the relative rise of the objective that is taken for rounding.
_MAX_HALVINGS, _ROUNDING = 40, 1e-13
# Number of bins for the scores of a label (samples in a bin count as one), and number of scores in a block of labels.
_N_BINS, _CELLS = 128, 2**18
# Maximum of the logarithm of a slope divided by the common slope, or of its inverse. It avoids overflow.
_STEEPEST = 30.0


class Calibration:
    """Log odds of the labels of sets: linear in their scores, with a positive slope.

    Files hold it, and a `SoftmaxCalibration`, by these names and `single`; see `estimators/_state/plain.py`.

    Parameters
    ----------
    slopes, offsets : arrays of shape (n_labels,)

    Attributes
    ----------
    single : bool
        Whether each sample has exactly one label.
    """

    single = False

    def __init__(self, slopes, offsets):
        self.slopes, self.offsets = slopes, offsets

    def __setstate__(self, state):
        state = dict(state)
        if state.pop("single", False):
            # In early pickles one class had both forms.
            self.__class__ = SoftmaxCalibration
        vars(self).update(state)

    @staticmethod
    def unfitted(loss, n_labels, single):
        """Return the default of a loss, for models without held-out samples.

        If `single`, each sample has exactly one label.
        """
        slope, offset = _UNFITTED[loss]
        slopes = np.full(n_labels, slope)
        if single:
            return SoftmaxCalibration(slopes, np.zeros(n_labels))
        return Calibration(slopes, np.full(n_labels, offset))

    def grown(self, loss, n_labels, positions):
        """Return the calibration of more labels.

        Parameters
        ----------
        loss : str
        n_labels : int
        positions : int array
            The new index of each label of this one. The others have the default of the loss.
        """
        found = self.unfitted(loss, n_labels, self.single)
        found.slopes[positions] = self.slopes
        found.offsets[positions] = self.offsets
        return found

    def fit(self, scores, gold, weights):
        """Fit the curves to held-out samples; return a new `Calibration`.

        Each label has a curve of its own, by Platt's method [1]_. The logarithm of its slope and its offset have a
        normal prior of variance 1 around those of one curve for all labels. So the curve of a rare label is close to
        the common curve.

        Parameters
        ----------
        scores, gold : arrays of shape (n_samples, n_labels)
        weights : array of shape (n_samples, n_labels) or (n_samples, 1)
            Zero for unknown labels. Samples with exactly one label each have one weight.

        References
        ----------
        .. [1] Platt. Probabilistic outputs for support vector machines and comparisons to regularized likelihood
           methods. 1999.
        """
        binned = _binned(scores, gold, weights)
        common = _fit_curves(*(values.reshape(-1, 1) for values in binned), (np.log(self.slopes[:1]), self.offsets[:1]))
        steepness, offsets = _fit_curves(*binned, common)
        return Calibration(np.exp(steepness), offsets)

    def log_odds(self, scores):
        """Return the log odds of each label."""
        values = scores * self.slopes + self.offsets
        beyond = np.abs(values) - _STEEP_UP_TO
        if (beyond <= 0.0).all():
            return values
        return np.where(beyond > 0.0, np.sign(values) * (_STEEP_UP_TO + np.log1p(np.maximum(beyond, 0.0))), values)

    def probabilities(self, scores):
        """Return the probability of each label, strictly between 0 and 1."""
        return np.clip(expit(self.log_odds(scores)), np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))

    def losses(self, scores, gold, weights):
        """Return the weighted sum of the log losses of all labels, for each sample."""
        signs = 2.0 * gold - 1.0
        return -(weights * log_expit(signs * self.log_odds(scores))).sum(axis=1)


class SoftmaxCalibration(Calibration):
    """Log odds if each sample has exactly one label: all have the same slope, and no offset.

    Probabilities are a softmax. The parameters are those of `Calibration`.
    """

    single = True

    def grown(self, loss, n_labels, positions):
        return SoftmaxCalibration(np.full(n_labels, self.slopes[0]), np.zeros(n_labels))

    def fit(self, scores, gold, weights):
        slope = _softmax_slope(scores, gold, weights)
        return SoftmaxCalibration(np.full_like(self.slopes, slope), self.offsets)

    def log_odds(self, scores):
        """Return the log odds of each label, up to a constant for each sample."""
        return scores * self.slopes + self.offsets

    def probabilities(self, scores):
        values = self.log_odds(scores)
        values = np.exp(values - values.max(axis=1)[:, None])
        return values / values.sum(axis=1)[:, None]

    def losses(self, scores, gold, weights):
        return -(weights * gold * np.log(np.maximum(self.probabilities(scores), 1e-300))).sum(axis=1)


def _binned(scores, gold, weights):
    """Merge samples whose scores of a label are nearly equal.

    Returns
    -------
    means, positives, counts : arrays of shape (n_bins, n_labels)
        The mean score in each bin, the weight of its samples that have the label, and the weight of all its samples.
    """
    weights = np.broadcast_to(weights, scores.shape)
    if len(scores) <= _N_BINS:
        return scores, weights * gold, weights
    sums = np.zeros((3, scores.shape[1], _N_BINS))
    for columns in blocks(scores.shape[1], len(scores), _CELLS):
        values = scores[:, columns]
        weight = weights[:, columns].ravel()
        lowest = values.min(axis=0)
        n = values.shape[1]
        widths = np.maximum(values.max(axis=0) - lowest, np.finfo(np.float64).tiny) / _N_BINS
        bins = np.minimum((values - lowest) / widths, _N_BINS - 1).astype(np.int64) + _N_BINS * np.arange(n)
        terms = values.ravel() * weight, gold[:, columns].ravel() * weight, weight
        for k, term in enumerate(terms):
            sums[k, columns] = np.bincount(bins.ravel(), term, minlength=n * _N_BINS).reshape(n, _N_BINS)
    totals, positives, counts = np.ascontiguousarray(sums.transpose(0, 2, 1))
    return totals / np.where(counts > 0.0, counts, 1.0), positives, counts


def _fit_curves(scores, positives, counts, prior):
    """Fit a logistic curve to each column by penalised maximum likelihood, with Fisher scoring and a line search.

    Parameters
    ----------
    scores, positives, counts : arrays of shape (n_bins, n_labels)
        As `_binned` returns.
    prior : (array, array)
        Means of the logarithms of the slopes and of the offsets, of variance 1.

    Returns
    -------
    steepness : array of shape (n_labels,)
        Logarithms of the slopes.
    offsets : array of shape (n_labels,)
    """
    means = np.stack([np.broadcast_to(values, scores.shape[1:]) for values in prior])

    def values_at(curves):
        z = np.exp(curves[0]) * scores + curves[1]
        losses = counts * np.logaddexp(0.0, z) - positives * z
        return losses.sum(axis=0) + 0.5 * ((curves - means) ** 2).sum(axis=0)

    def steps_at(curves):
        rising = np.exp(curves[0]) * scores
        p = expit(rising + curves[1])
        residuals, curvature = counts * p - positives, counts * (p * (1.0 - p))
        data = np.stack([(residuals * rising).sum(axis=0), residuals.sum(axis=0)])
        gradient, curvature_rising = data + curves - means, curvature * rising
        aa = (curvature_rising * rising).sum(axis=0) + 1.0
        ab = curvature_rising.sum(axis=0)
        # The part of the Hessian beyond the Fisher information. It speeds up the way to small slopes.
        aa += np.maximum(data[0], 0.0)
        bb = curvature.sum(axis=0) + 1.0
        steps = np.stack([ab * gradient[1] - bb * gradient[0], ab * gradient[0] - aa * gradient[1]])
        return steps / (aa * bb - ab * ab)

    lowest, highest = means - [[_STEEPEST], [np.inf]], means + [[_STEEPEST], [np.inf]]
    return _descend(means, values_at, steps_at, lowest, highest)


def _descend(start, values_at, steps_at, lowest, highest):
    """Minimise functions side by side, one a column; halve each step until its function does not rise.

    Parameters
    ----------
    start : array of shape (n_parameters, n_functions)
    values_at, steps_at : callable
        Return the values of the functions, shape (n_functions,), and descent directions, of the shape of `start`.
    lowest, highest : arrays of shape (n_parameters, n_functions)
        Bounds.
    """
    point = start
    values = values_at(start)
    for _ in range(_MAX_STEPS):
        steps = steps_at(point)
        steps *= np.minimum(1.0, _LONGEST_STEP / np.maximum(np.abs(steps).max(axis=0), _PRECISION))
        for _ in range(_MAX_HALVINGS):
            tried = np.clip(point + steps, lowest, highest)
            tried_values = values_at(tried)
            rises = tried_values > values + _ROUNDING * np.abs(values)
            if not rises.any():
                break
            steps = np.where(rises, 0.5 * steps, steps)
        moved = np.where(rises, 0.0, tried - point)
        point = point + moved
        values = np.where(rises, values, tried_values)
        if np.abs(moved).max(initial=0.0) <= _PRECISION:
            break
    return point


def _softmax_slope(scores, gold, weights):
    """Return the factor of the scores that maximises the likelihood of the softmax (temperature scaling).

    The logarithm of the slope has a normal prior of variance 1.
    """
    spread = scores - scores.mean(axis=1)[:, None]
    of_gold = (spread * gold).sum(axis=1)
    weights = weights[:, 0]

    def values_at(steepness):
        slope = np.exp(steepness[0])
        losses = logsumexp(slope * spread, axis=1) - slope * of_gold
        return np.array([weights @ losses]) + 0.5 * steepness[0] ** 2

    def steps_at(steepness):
        slope = np.exp(steepness[0])
        p = softmax(slope * spread, axis=1)
        mean = (p * spread).sum(axis=1)
        variance = (p * spread * spread).sum(axis=1) - mean * mean
        gradient = slope * (weights @ (mean - of_gold)) + steepness
        return -gradient / (slope * slope * (weights @ variance) + 1.0)

    bound = np.full((1, 1), np.inf)
    return np.exp(_descend(np.zeros((1, 1)), values_at, steps_at, -bound, bound)[0, 0])
