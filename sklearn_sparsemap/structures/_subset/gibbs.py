"""Marginals of Subset: a Poisson-binomial distribution, tilted.

Without bounds, items are independent, with probability sigmoid(score). Bounds condition on the number of chosen items,
whose distribution takes one multiplication and addition for each item and count. If the bounds are far out in its tail,
all terms would underflow. But subtracting a constant (a tilt) from all scores changes only the odds between sizes, by a
known factor. So the tilt is chosen such that the expected size is the nearest bound. The recursion never subtracts
probabilities, so small ones keep their relative accuracy.

Used by `structure.py`.
"""

import numpy as np

from ..._core.jit import as_oracle, kernel
from ..._core.select import select_highest


@kernel
def _expected_size(scores, tilt):
    """Return the sum of the sigmoids of scores minus tilt."""
    total = 0.0
    for i in range(scores.shape[0]):
        total += 1.0 / (1.0 + np.exp(-max(scores[i] - tilt, -700.0)))
    return total


@kernel
def _tilt_to(scores, size):
    """Find a tilt whose expected size is within 1/2 of `size`, which is from 1 to n - 1; overwrites the scores.

    It is returned in two parts, a score and the remainder, so that its precision does not depend on the magnitude of
    the scores.
    """
    n = scores.shape[0]
    select_highest(scores, size)
    inside, outside = np.inf, -np.inf
    for i in range(n):
        if i < size:
            inside = min(inside, scores[i])
        else:
            outside = max(outside, scores[i])
    for i in range(n):
        scores[i] -= inside
    # With the lower tilt, `size` + 1 items have a probability of at least n / (n + 1). With the higher tilt, all except
    # `size` - 1 items have a probability of at most 1 / (n + 1). If the gap between scores is wide, the middle is
    # already a solution.
    low = outside - inside - np.log(n)
    high = np.log(n)
    tilt = 0.5 * (low + high)
    while low < tilt < high:
        expected = _expected_size(scores, tilt)
        if abs(expected - size) <= 0.5:
            break
        if expected > size:
            low = tilt
        else:
            high = tilt
        tilt = 0.5 * (low + high)
    return inside, tilt


@kernel
def _probabilities(scores, height, tilt, chosen, left):
    """Fill in the probability of each item and of its absence, with a tilt of `height` + `tilt`.

    Returns the number of scores above the tilt, their sum, and the sum of log(1 + exp(-|score - tilt|)) over all
    scores. These are the terms of sum(log(1 + exp(score - tilt))), so that huge scores and tilts can be summed without
    error.
    """
    n_chosen, total, logs = 0, 0.0, 0.0
    for i in range(scores.shape[0]):
        score = scores[i] - height - tilt
        small = np.exp(-abs(score))
        chosen[i] = (1.0 if score > 0.0 else small) / (1.0 + small)
        left[i] = (small if score > 0.0 else 1.0) / (1.0 + small)
        logs += np.log1p(small)
        if score > 0.0:
            n_chosen += 1
            total += scores[i]
    return n_chosen, total, logs


@kernel(fast_sums=True)
def _condition(yes, no, most, weights, forward, marginals, of_no):
    """Condition the probabilities of independent items, `yes`, on their number, from 0 to `most`.

    Returns the expected weight.

    Parameters
    ----------
    yes, no : arrays of shape (n,)
        Probability of each item, and of its absence.
    most : int
    weights : array of shape (most + 1,)
        The weight of each number of items; overwritten.
    forward : array of shape ((n + 1) * (most + 1),)
        Scratch space.
    marginals : array of shape (n,)
    of_no : bool
        Whether `marginals` gets probabilities of absence.
    """
    n = yes.shape[0]
    width = most + 1
    for c in range(width):
        forward[c] = 1.0 if c == 0 else 0.0
    for i in range(n):
        before, now = forward[i * width : (i + 1) * width], forward[(i + 1) * width : (i + 2) * width]
        now[0] = no[i] * before[0]
        for c in range(1, width):
            now[c] = no[i] * before[c] + yes[i] * before[c - 1]
    norm = 0.0
    for c in range(width):
        norm += forward[n * width + c] * weights[c]
    for i in range(n - 1, -1, -1):
        before = forward[i * width : (i + 1) * width]
        rest = 0.0
        if of_no:
            for c in range(width):
                rest += before[c] * weights[c]
        else:
            for c in range(most):
                rest += before[c] * weights[c + 1]
        marginals[i] = min((no[i] if of_no else yes[i]) * rest / norm, 1.0)
        for c in range(most):
            weights[c] = no[i] * weights[c] + yes[i] * weights[c + 1]
        weights[most] *= no[i]
    return norm


@as_oracle
def subset_marginals(scores, additional, dims, work, slots, additional_slots):
    """Compute each item's probability; return the log-partition."""
    n, low, high = dims[0], dims[1], dims[2]
    allowed = work[n : 2 * n]
    n_allowed, everything = 0, 0.0
    for i in range(n):
        work[i] = 0.0
        if scores[i] > -np.inf:
            allowed[n_allowed] = scores[i]
            everything += scores[i]
            n_allowed += 1
    high = min(high, n_allowed)
    if low > n_allowed:
        return -np.inf
    if high == 0:
        return 0.0
    if low == n_allowed:
        for i in range(n):
            work[i] = 1.0 if scores[i] > -np.inf else 0.0
        return everything

    allowed = allowed[:n_allowed]
    yes, no = work[2 * n : 2 * n + n_allowed], work[3 * n : 3 * n + n_allowed]
    marginals = yes
    bounded = low > 0 or high < n_allowed
    target, height, tilt = 0, 0.0, 0.0
    if bounded:
        expected = _expected_size(allowed, tilt)
        if expected > high + 0.5 or expected < low - 0.5:
            target = high if expected > high else low
            copy = work[4 * n : 4 * n + n_allowed]
            for i in range(n_allowed):
                copy[i] = allowed[i]
            height, tilt = _tilt_to(copy, target)
    n_above, above, logs = _probabilities(allowed, height, tilt, yes, no)
    tilt += height
    log_partition = above + tilt * (target - n_above) + logs
    if bounded:
        # Count the chosen items, or the remaining items if these are fewer.
        count_left = n_allowed - low < high
        most = n_allowed - low if count_left else high
        marginals = work[4 * n : 4 * n + n_allowed]
        weights, forward = work[5 * n : 5 * n + most + 1], work[5 * n + most + 1 :]
        for c in range(most + 1):
            size = n_allowed - c if count_left else c
            weights[c] = np.exp(tilt * (size - target)) if low <= size <= high else 0.0
        if count_left:
            yes, no = no, yes
        log_partition += np.log(_condition(yes, no, most, weights, forward, marginals, count_left))
    k = 0
    for i in range(n):
        if scores[i] > -np.inf:
            work[i] = marginals[k]
            k += 1
    return log_partition
