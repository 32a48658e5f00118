"""Averages over the last part of a stream: the weights of the steps, and the evidence of a change.

While labels keep their meaning, an average over all steps is better than the current weights, which are noisy. After a
change it holds weights for the old meaning, and the current weights are better. So each mini-batch is predicted with
both, before it is learned. If the average is worse, it restarts; until then it is over all steps. If the current
weights are worse than before, the step sizes grow.

Evidence is the wealth of a bettor (e-detectors of Shin, Ramdas and Rinaldo 2023). On each sample, fractions of the
wealth are staked on a loss that is positive on average only after a change. So a large wealth is unlikely without one.

Used by `estimators`, `groups.py` and `optimizer.py`.
"""

import numpy as np

# After a restart, the average of n steps gives step t a weight of about ``t ** (GROWTH - 1)``, because the first steps
# still learn the change. Larger values forget them faster, and average fewer.
GROWTH = 3.0
# Fractions of the wealth that are staked on a sample. Large ones detect large changes soon, small ones small changes.
_STAKES = 0.9, 0.3
# A change is detected if the mean wealth exceeds this number. Larger values detect later, and less often by chance.
_LEAST_WEALTH = 100.0
# Increase of the fraction of wrong parts that is no evidence. Larger values are robust to samples that differ.
_TOLERATED = 0.05
# Number of samples from which on their mean number of wrong parts is known well enough to bet.
_FEW = 64
# Maximum number of samples of a mini-batch that are predicted.
MAX_COMPARED = 64


class Recency:
    """The length of an average, and the evidence of a change.

    Attributes
    ----------
    state : array of shape (10,)
        See `WINDOW`. Files hold it; see `estimators/_state/state.py`.
    """

    def __init__(self, state=None):
        self.state = np.ones(N_STATE) if state is None else np.array(state)
        if state is None:
            self.state[:_GROWTH] = 0.0

    @property
    def window(self):
        """Number of steps in the average, up to the last mini-batch."""
        return self.state[WINDOW]

    def restart(self):
        """Begin again: the average so far counts as a single step."""
        self.state[WINDOW] = min(self.state[WINDOW], 1.0)
        self.state[_GROWTH] = GROWTH

    def factor(self, n_new):
        """Return the factor by which `n_new` steps raise the sum of the weights of all steps."""
        return (1.0 + n_new / self.state[WINDOW]) ** self.state[_GROWTH]

    def rate(self, clock, n_new):
        """Return the weight of each of `n_new` steps, given the sum of the weights of all earlier ones."""
        if self.state[_GROWTH] == 1.0:
            return clock / self.state[WINDOW]
        return clock * (self.factor(n_new) - 1.0) / n_new

    def is_outdated(self, of_average, of_current):
        """Bet on samples that the average is worse; return whether it should restart.

        Parameters
        ----------
        of_average, of_current : arrays of shape (n_samples,)
            Numbers of wrong parts.
        """
        return self._bet(_OUTDATED, (of_average - of_current) / np.maximum(of_average + of_current, 1.0))

    def is_surprised(self, of_current):
        """Bet on samples that the current weights are worse than before; return whether they are."""
        state = self.state
        known = state[_SEEN] >= _FEW
        state[_MOST] = max(state[_MOST], of_current.max(initial=0.0))
        surprised = known and self._bet(_WORSE, (of_current - state[_MEAN]) / max(state[_MOST], 1.0) - _TOLERATED)
        if surprised:
            state[_SEEN] = 0.0
            return True
        # Numbers of Python, because arrays of one or two numbers cost more than the rest of the comparison.
        seen, mean = state[[_SEEN, _MEAN]].tolist()
        for number in of_current.tolist():
            seen += 1.0
            mean += min(1.0, GROWTH / (seen + GROWTH - 1.0)) * (number - mean)
        state[[_SEEN, _MEAN]] = seen, mean
        return False

    def _bet(self, place, gains):
        wealth = self.state[place].tolist()
        for gain in gains.tolist():
            wealth = [max(own * (1.0 + gain * stake), 1.0) for own, stake in zip(wealth, _STAKES, strict=True)]
            if sum(wealth) >= _LEAST_WEALTH * len(wealth):
                self.state[place] = 1.0
                return True
        self.state[place] = wealth
        return False


# Entries of the state of `Recency`.
# WINDOW: number of steps in the average, up to the last mini-batch
# _FADING: number of steps since AdaGrad's sums faded
# _SEEN, _MEAN, _MOST: number of samples, and their mean and maximum number of wrong parts, by the current weights
# _GROWTH: `GROWTH` after a restart, before that 1
# _WORSE, _OUTDATED: the wealths of two bets, on the current weights and on the average
WINDOW, FADING, _SEEN, _MEAN, _MOST, _GROWTH = range(6)
_WORSE = slice(6, 8)
_OUTDATED = slice(8, 10)
N_STATE = 10
