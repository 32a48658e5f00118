"""The schedule of shrinkages of `GroupLassoPerceptron`: the value "auto" of its parameter `shrink_every`."""

from ...training._online.groups import PAPER_SCHEDULE

AUTO = "auto"


def samples_between(estimator):
    """Return the number of samples between two shrinkages that are not deferred; also the period of the step size."""
    return PAPER_SCHEDULE if estimator.shrink_every == AUTO else estimator.shrink_every


def schedule_of(estimator):
    """Return the number of samples between two shrinkages, or None if they are deferred as far as possible."""
    return None if estimator.shrink_every == AUTO else estimator.shrink_every
