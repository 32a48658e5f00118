"""Checks of the MAP oracle: no known structure has a higher score than an answer; decode and encode match it.

Used by `_check.py`, `_public.py` and `_solutions.py`.
"""

import numpy as np

from ._case import INCOMPLETE
from ._protocol import is_ints


def check_oracle(case, n_instances):
    """Call the oracle with scores of all kinds, then check all answers against all structures that it returned."""
    probes = [np.zeros(case.n), *(case.draw(k) for k in range(6 * n_instances))]
    probes += [-values for values in probes[1:] if np.isfinite(values).all()]
    # Many ties, and scores that cost digits.
    probes += [np.sign(case.draw()) for _ in range(n_instances)]
    probes += [np.round(1e8 * case.draw(2 * k)) for k in range(n_instances)]
    for part in case.some_of(case.n):
        for bonus in (10.0, -10.0, -np.inf):
            values = case.draw(3)
            values[part] += bonus
            probes.append(values)
    no_unary = case.draw()
    no_unary[: case.n_unary] = -np.inf
    probes += [no_unary, np.full(case.n, -np.inf)]
    answers = [(values, *case.call_oracle(values)) for values in probes]
    if not len(case.rows):
        case.fail(
            "the oracle says that no structure is allowed, with any scores",
            "return -inf only if all structures have a forbidden part, and refuse shapes without any in dims",
            probes[0],
        )
    # Forbid all parts except those of one structure. With high scores it is optimal; with very low ones it is still
    # better than forbidden parts, which a penalty in place of -inf may get wrong.
    for i in case.some_of(len(case.rows)):
        for own, other in ((1.0, -1.0), (1.0, -np.inf), (-1e8, -np.inf)):
            values = np.where(case.rows[i] > 0, own, other)
            answers.append((values, *case.call_oracle(values)))
    for answer in answers:
        check_best(case, *answer)


def check_best(case, values, value, i):
    """Check that no known structure has a higher score than the answer."""
    totals = case.totals(values)
    best = int(np.argmax(totals))
    if totals[best] <= (value + case.rounding(values) if value > -np.inf else value):
        return
    _check_complete(case, best)
    other = f"{case.show(case.slots[best][0])}, "
    other += "one of the structures given" if case.is_complete else "which it returned for other scores"
    if i is None:
        case.fail(
            f"the oracle says that no structure is allowed (its value is -inf, or it chose a forbidden part), but "
            f"{other}, has no forbidden part and scores {totals[best]}",
            "leave out parts whose score is -inf, and choose the best structure without them",
            values,
        )
    case.fail(
        f"the oracle does not find the maximum: it returned {case.show(case.slots[i][0])} with a score of {value}, "
        f"but {other}, scores {totals[best]}",
        "an oracle must return a structure of highest total score; being greedy or pruning is not enough",
        values,
    )


def _check_complete(case, i):
    """Check that a structure that was returned only for scores with -inf is not an incomplete one.

    An oracle that has no structure left may return the parts that it found. They then seem better than all structures
    for other scores, so they must be the answer for finite scores that favour them.
    """
    values = case.returned_for[i]
    if case.is_complete or values is None or np.isfinite(values).all():
        return
    favoured = np.where(case.rows[i] > 0, 1.0, -1.0)
    value, other = case.call_oracle(favoured)
    if other is None or value + case.rounding(favoured) >= case.totals(favoured)[i]:
        return
    found = case.show(case.slots[i][0])
    case.fail(
        f"the oracle returned {found} for scores of which some are -inf, but never for finite scores; with 1 for the "
        f"parts of {found} and -1 for all others it returned {case.show(case.slots[other][0])}. So {found} is no "
        "complete structure, or the oracle does not find the maximum",
        INCOMPLETE,
        values,
    )


def check_forms(case):
    """Check that decode and encode are inverse, for the structures that are known."""
    for i in case.some_of(len(case.rows)):
        slots, extra = case.slots[i]
        try:
            decoded, again = (case.structure.decode(slots.copy(), case.dims) for _ in range(2))
        except Exception as error:
            case.fail(
                f"decode raised {type(error).__name__}: {error} for the slots {slots.tolist()}",
                "it must accept all slots that the oracle returns",
                cause=error,
            )
        if not is_same(decoded, again):
            case.fail(
                f"decode returned {decoded!r}, then {again!r} for the same slots, which are not equal",
                "return something that can be compared: an array, numbers, or a class with __eq__",
            )
        new_slots, new_extra = case.encode(decoded, "which decode returned")
        # The order of additional slots means nothing.
        if not (np.array_equal(slots, new_slots) and np.array_equal(np.sort(extra), np.sort(new_extra))):
            case.fail(
                f"the oracle returned the slots {slots.tolist()} and additional slots {extra.tolist()}; decode "
                f"makes {decoded!r} of them, and encode {new_slots.tolist()} and {new_extra.tolist()} of that",
                "encode must return the same parts as the oracle; decode sees the unary slots only, so that these "
                "must determine the additional ones",
            )
        counts = case.structure.agreement(decoded, decoded, case.dims)
        if not (isinstance(counts, tuple) and len(counts) == 3 and is_ints(counts) and len(set(counts)) == 1):
            case.fail(
                f"agreement of {decoded!r} with itself is {counts!r}",
                "return the numbers of common parts, of gold parts and of predicted parts, three ints",
            )


def check_places(case):
    """Check `exclusive_parts`, by which n-best lists and samples are found, with the structures that are known."""
    places = case.structure.exclusive_parts(case.dims)
    if places is None:
        return
    if not (isinstance(places, np.ndarray) and places.ndim == 2 and places.dtype.kind in "iu"):
        case.fail(
            f"exclusive_parts returned {places!r}",
            "return an int array of shape (n_positions, n_alternatives), or None if structures do not have this form",
        )
    if places.size and not 0 <= places.min() <= places.max() < case.n_unary:
        case.fail(
            f"exclusive_parts has the parts {places.tolist()}, but parts go from 0 to {case.n_unary - 1}",
            "a row has the indices of the parts that are alternatives, into the flat scores",
        )
    counts = case.rows[:, places].sum(axis=2)
    outside = case.rows[:, : case.n_unary].sum(axis=1) - counts.sum(axis=1)
    wrong = np.flatnonzero((counts != 1).any(axis=1) | (outside != 0))
    if len(wrong):
        slots = case.slots[wrong[0]][0]
        case.fail(
            f"exclusive_parts says that a structure has one part of each row of {places.tolist()} and no other parts, "
            f"but {case.show(slots)} has the parts {slots[slots >= 0].tolist()}",
            "return None if structures are not one choice at each place",
        )


def check_list(case, listed):
    """Add the structures of the user as the complete list of structures; check that encode distinguishes them."""
    for decoded in listed:
        n_known = len(case.rows)
        slots, extra = case.encode(decoded, "one of the structures given")
        i = case.know(slots, extra, f"encode({decoded!r}) returned")
        if i < n_known:
            case.fail(
                f"{decoded!r} has the same parts as {case.show(case.slots[i][0])}, which comes before it in structures",
                "list each structure once, and let encode distinguish them",
            )
        back = case.structure.decode(slots.copy(), case.dims)
        if not is_same(back, decoded):
            case.fail(f"decode(encode({decoded!r})) is {back!r}", "decode must be the inverse of encode")
    case.is_complete = True


def is_same(a, b):
    """Return whether two decoded structures of any type are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a)
    sequences = (list, tuple)
    if isinstance(a, sequences) and isinstance(b, sequences):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)
