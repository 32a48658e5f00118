"""Averages over the last part of a stream: the weights of the steps, and the evidence on which an average restarts.

While labels keep their meaning, an average over all steps is better than the current weights, which are noisy. After a
change it holds weights for the old meaning, and the current weights are better. So each mini-batch is predicted with
both, before it is learned. The difference is evidence for or against a change.

Used by `estimators/_state`.
"""

import numpy as np

# The average of n steps gives step t a weight of about ``t ** (GROWTH - 1)``. Larger values forget the first steps
# faster, and average fewer.
GROWTH = 3.0
# Fractions of the wealth that are staked on a sample. Large ones detect large changes soon, small ones small changes.
_STAKES = np.array([0.5, 0.1])
# The average restarts if the mean wealth exceeds this number. Larger values restart later, and less often by chance.
_LEAST_WEALTH = 1000.0
# Maximum number of samples of a mini-batch that are predicted.
MAX_COMPARED = 64


class Recency:
    """The length of an average, and the evidence against it.

    The evidence is a bet (e-detector of Shin, Ramdas and Rinaldo 2023). On each sample, fractions of a wealth are
    staked on more wrong parts of the average than of the current weights. The wealth grows only if the average is
    worse, and never falls below 1.

    Attributes
    ----------
    window : float
        Number of steps in the average, up to the last mini-batch.
    wealth : array of shape (n_stakes,)

    Files hold these by their names; see `estimators/_state/state.py`.
    """

    def __init__(self, window=0.0, wealth=None):
        self.window, self.wealth = window, np.ones(len(_STAKES)) if wealth is None else np.array(wealth)

    def bet(self, of_average, of_current):
        """Bet on samples, given their numbers of wrong parts; return whether the average should restart."""
        gains = (of_average - of_current) / np.maximum(of_average + of_current, 1.0)
        for gain in gains.tolist():
            self.wealth = np.maximum(self.wealth * (1.0 + gain * _STAKES), 1.0)
            if self.wealth.mean() >= _LEAST_WEALTH:
                self.wealth = np.ones(len(_STAKES))
                return True
        return False
