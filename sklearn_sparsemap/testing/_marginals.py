"""Checks that the marginal oracle sums over exactly the structures that the MAP oracle can return.

Used by `_check.py`.
"""

import numpy as np

from ..inference import marginal_inference
from ..inference._problems import batch_of
from ..inference._sampling import draw_structures
from ._calls import call_marginals
from ._case import join

_STEP = 1e-5
_N_SAMPLES = 10
_REMEDY = "check exclusive_parts, and draw if the structure has one"


def check_marginals(case, n_instances):
    """Check the marginal oracle: against the sum over all structures if these are known, else by differences."""
    # The log-partition with scores of zero is the logarithm of the number of structures.
    count, _ = _call_twice(case, np.zeros(case.n))
    if count < np.log(len(case.rows)) - 1e-9:
        case.fail(
            "the log-partition with scores of zero is the logarithm of the number of structures; the marginal "
            f"oracle has {count}, that is {np.exp(count):.6g} structures, but {len(case.rows)} are known",
            "it must sum over all structures that the MAP oracle can return",
            np.zeros(case.n),
        )
    is_complete = case.is_complete or abs(count - np.log(len(case.rows))) < 1e-9
    _check_random(case, n_instances, count, is_complete)
    _check_alone(case, is_complete)
    _check_samples(case)
    nothing = np.full(case.n, -np.inf)
    if case.call_oracle(nothing)[0] == -np.inf:
        value, _ = _call_twice(case, nothing)
        if value > -np.inf:
            case.fail(
                f"the marginal oracle has the log-partition {value}, but all structures are forbidden",
                "return -inf if no structure is allowed",
                nothing,
            )


def _check_samples(case):
    """Check that samples are structures, and that all of them are the best one if it has nearly all probability."""
    for scale in (1.0, 1000.0):
        values = scale * case.draw()
        best, i = case.call_oracle(values)
        scores, additional = case.split(values)
        batch, _, _ = batch_of(case.structure, scores, additional)
        try:
            drawn = draw_structures(case.structure, batch[0], _N_SAMPLES, np.random.RandomState(0))
        except Exception as error:
            case.fail(f"drawing samples raised {type(error).__name__}: {error}", _REMEDY, values, error)
        known = [case.know(*case.encode(each, "which was drawn"), "drawing samples returned", values) for each in drawn]
        is_clear = _call_twice(case, values)[0] - best < 1e-12
        if len(known) != _N_SAMPLES or (is_clear and set(known) != {i}):
            case.fail(
                f"{_N_SAMPLES} samples are {len(known)} structures, the first of them {drawn[0]!r}, but nearly all of "
                f"the probability is that of {case.show(case.slots[i][0])}",
                _REMEDY,
                values,
            )


def _check_random(case, n_instances, count, is_complete):
    """Check with scores of all kinds: the log-partition is at most `count` plus the score of the best structure.

    With scores of thousands, the best structure dominates the sum. High scores of two parts that are in no common
    structure show whether the oracle also sums over invalid structures.
    """
    why = f"as there are {np.exp(count):.6g} structures, by its log-partition with scores of zero"
    problems = [(scale * case.draw(k), scale == 1.0) for k in range(n_instances) for scale in (1.0, 1000.0)]
    pairs = [(a, b) for a in range(case.n) for b in range(a)]
    problems += [(case.draw() + 1000.0 * np.isin(range(case.n), pairs[p]), False) for p in case.some_of(len(pairs))]
    for values, is_drawn in problems:
        best, _ = case.call_oracle(values)
        if best > -np.inf:
            _check_sum(case, values, best + count, why, is_complete, is_drawn)


def _check_alone(case, is_complete):
    """Check with all parts except those of one structure forbidden, so that all other structures are far worse."""
    for i in case.some_of(len(case.rows)):
        values = np.where(case.rows[i] > 0, 1000.0 * (1.0 + np.abs(case.draw())), -np.inf)
        if case.call_oracle(values)[1] == i:
            totals = case.totals(values)
            if np.count_nonzero(totals > totals[i] - 50.0) == 1:
                _check_sum(case, values, totals[i], "as there is no other structure of these parts", is_complete)


def _call_twice(case, values):
    """Call the marginal oracle twice; return its value and the marginals of all parts."""
    (value, expected), again = (call_marginals(case, values, dirt) for dirt in (np.nan, 1e300))
    is_fine = value == -np.inf or (np.isfinite([value, *expected]).all() and np.array_equal(expected, again[1]))
    if value != again[0] or not is_fine:
        case.fail(
            f"asked twice, the marginal oracle returned {value} with the marginals {expected.tolist()}, then "
            f"{again[0]} with {again[1].tolist()}",
            "return finite numbers, always the same; the initial content of work is arbitrary",
            values,
        )
    return value, expected


def _check_sum(case, values, most, why, is_complete, is_drawn=False):
    """Check the marginal oracle's value and marginals; for random scores also the result of the public function.

    Parameters
    ----------
    case : Case
    values : array of shape (n,)
        Scores of all parts.
    most : float
        Upper bound of the log-partition.
    why : str
        The reason of the bound, for messages.
    is_complete : bool
        Whether all structures are known, so that results are compared with sums over them.
    is_drawn : bool, default=False
        Whether scores are random and small: differences of the log-partition then tell its derivative.
    """
    value, expected = _call_twice(case, values)
    totals = case.totals(values)
    p = np.exp(totals - totals.max())
    least = totals.max() + np.log(p.sum())
    tolerance = 1e-9 + 10 * case.rounding(values)
    if value < least - tolerance or (is_complete and value > least + tolerance):
        known = "all structures have" if is_complete else "the structures seen alone have"
        case.fail(
            f"the marginal oracle has the log-partition {value}, but {known} {least}",
            "return the logarithm of the sum of exp(score) over all structures that the MAP oracle can return",
            values,
        )
    if value > most + tolerance:
        case.fail(
            f"the marginal oracle has the log-partition {value}, but it is at most {most}, {why}",
            "sum over the structures that the MAP oracle can return, and nothing else",
            values,
        )
    if is_complete:
        _compare(case, values, expected, (p / p.sum()) @ case.rows, "the sum over all structures is")
    elif is_drawn:
        _compare(case, values, expected, _differences(case, values, expected), "the derivative of the log-partition is")
    if not is_drawn:
        return
    public = case.infer(marginal_inference, values)
    if public.log_partition != value or not np.array_equal(join(public), expected):
        case.fail(
            f"marginal_inference returned {public}, but the marginal oracle alone {value} with {expected.tolist()}",
            "the marginal oracle must depend on its arguments only",
            values,
        )


def _differences(case, values, expected):
    """Return the derivatives of the log-partition for some parts, and `expected` for the others."""
    wanted = expected.copy()
    for part in case.some_of(case.n):
        step = np.zeros(case.n)
        step[part] = _STEP
        rise = (
            _call_twice(case, values + step)[0] - _call_twice(case, values - step)[0] if values[part] > -np.inf else 0.0
        )
        wanted[part] = rise / (2 * _STEP)
    return wanted


def _compare(case, values, expected, wanted, how):
    wrong = int(np.argmax(np.abs(wanted - expected)))
    if abs(wanted[wrong] - expected[wrong]) > 1e-6:
        case.fail(
            f"the marginal oracle has {expected[wrong]} for {case.name(wrong)}, but {how} {wanted[wrong]} (for all "
            f"parts {expected.tolist()}, not {wanted.tolist()})",
            "leave the expected count of each part at the beginning of work, the unary ones first",
            values,
        )
