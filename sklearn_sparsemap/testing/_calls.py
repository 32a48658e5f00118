"""Calls of an oracle like those of solvers, with checks that it writes its arrays completely, and nothing else.

`_case.py` calls `call_map`, and `_marginals.py` calls `call_marginals`.

Used by `_case.py` and `_marginals.py`.
"""

from functools import lru_cache

import numpy as np

_MARGIN = 8  # entries on each side of the arrays of an oracle, which it must not write
UNWRITTEN = 2**30  # content of a slot before the oracle is called; no part has this index


def guarded(n, fill, dtype):
    """Return an array for an oracle to write into, with a margin on both sides that it must not write."""
    whole = np.full(n + 2 * _MARGIN, UNWRITTEN, dtype)
    inside = whole[_MARGIN : _MARGIN + n]
    inside[:] = fill
    return inside


def _is_intact(inside):
    # Bytes are compared several times faster than arrays.
    return inside.base[:_MARGIN].tobytes() == inside.base[-_MARGIN:].tobytes() == _untouched(inside.dtype)


@lru_cache
def _untouched(dtype):
    return np.full(_MARGIN, UNWRITTEN, dtype).tobytes()


def call_map(case, values, work):
    """Call the MAP oracle; return its value, slots and additional slots."""
    slots, extra = (guarded(n, UNWRITTEN, np.int32) for n in case.sizes[:2])
    arrays = {"work": work, "slots": slots, "additional_slots": extra}
    remedy = "correct it; or, if scores cannot have this shape, refuse it in dims, or pass shapes"
    value = _call(case, "the oracle", case.structure.oracle, values, arrays, remedy, "sizes")
    return value, slots, extra


def call_marginals(case, values, dirt):
    """Call the marginal oracle with `work` full of `dirt`; return its value and the marginals of all parts."""
    work = guarded(case.n_marginal_work, dirt, np.float64)
    nothing = guarded(0, 0, np.int32)
    arrays = {"work": work, "slots": nothing, "additional_slots": nothing}
    remedy = "correct it; it must neither write to its scores nor use its slots"
    oracle = case.structure.marginal_oracle
    value = _call(case, "the marginal oracle", oracle, values, arrays, remedy, "marginal_work")
    return value, work[: case.n]


def _call(case, who, oracle, values, arrays, remedy, sized_by):
    """Call an oracle and check its writes; return its value.

    Parameters
    ----------
    case : Case
    who : str
        Name of the oracle in messages.
    oracle : callable
    values : array of shape (n,)
        Scores of all parts.
    arrays : dict of str -> array
        The arrays that the oracle writes: work, slots and additional slots.
    remedy : str
        The remedy if the oracle raises an exception.
    sized_by : str
        Name of the method that sets the lengths of these arrays.
    """
    given = values.copy()
    unary, additional = given[: case.n_unary], given[case.n_unary :]
    try:
        value = oracle(unary, additional, case.dims, *arrays.values())
    except Exception as error:
        what = "raised"
        if "read-only" in str(error) or "readonly" in str(error):
            what, remedy = "writes to its scores: it raised", "let it work on a copy, or in work"
        case.fail(f"{who} {what} {type(error).__name__}: {error}", remedy, values, error)
    if given.tobytes() != values.tobytes():
        name = "additional" if np.array_equal(unary, values[: case.n_unary]) else "scores"
        case.fail(
            f"{who} writes to its {name}: {values.tolist()} became {given.tolist()}",
            "let it work on a copy, or in work; solvers need the scores again",
            values,
        )
    for name, array in arrays.items():
        if not _is_intact(array):
            case.fail(
                f"{who} writes outside of {name}, which has {len(array)} entries by {sized_by}",
                f"let {sized_by} return the number of entries that {who} uses",
                values,
            )
    return float(value)
