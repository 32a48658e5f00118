"""Calls of an oracle like those of solvers, with checks that it writes its arrays completely, and nothing else."""

import numpy as np

# Entries around the arrays that an oracle gets, which it must leave alone.
_MARGIN = 8
# Content of a slot before the oracle is called; no part has this index.
UNWRITTEN = 2**30


class Guarded:
    """An array for an oracle to write into, with a margin on both sides that it must leave alone."""

    def __init__(self, n, fill, dtype):
        self._whole = np.full(n + 2 * _MARGIN, UNWRITTEN, dtype)
        self.inside = self._whole[_MARGIN : _MARGIN + n]
        self.inside[:] = fill
        self._margins = self._bytes_of_margins()

    def _bytes_of_margins(self):
        return self._whole[:_MARGIN].tobytes() + self._whole[-_MARGIN:].tobytes()

    def is_intact(self):
        return self._bytes_of_margins() == self._margins


def call_map(case, values, work):
    """Ask the MAP oracle; return its value, slots and additional slots."""
    slots, extra = (Guarded(n, UNWRITTEN, np.int32) for n in case.sizes[:2])
    arrays = {"work": work, "slots": slots, "additional_slots": extra}
    remedy = "mend it; or, if scores cannot have this shape, refuse it in dims, or pass shapes"
    value = _call(case, "the oracle", case.structure.oracle, values, arrays, remedy, "sizes")
    return value, slots.inside, extra.inside


def call_marginals(case, values, dirt):
    """Ask the marginal oracle, with `dirt` in its work; return its value and the marginals of all parts."""
    nothing = Guarded(0, 0, np.int32)
    arrays = {"work": Guarded(case.n_marginal_work, dirt, np.float64), "slots": nothing, "additional_slots": nothing}
    remedy = "mend it; it must neither write to its scores nor use its slots"
    oracle = case.structure.marginal_oracle
    value = _call(case, "the marginal oracle", oracle, values, arrays, remedy, "marginal_work")
    return value, arrays["work"].inside[: case.n]


def _call(case, who, oracle, values, arrays, remedy, who_asks):
    given = values.copy()
    unary, additional = given[: case.n_unary], given[case.n_unary :]
    try:
        value = oracle(unary, additional, case.dims, *(array.inside for array in arrays.values()))
    except Exception as error:
        what = "raised"
        if "read-only" in str(error) or "readonly" in str(error):
            what, remedy = "writes to its scores: it raised", "let it work on a copy, or in work"
        case.fail(f"{who} {what} {type(error).__name__}: {error}", remedy, values, error)
    if given.tobytes() != values.tobytes():
        name, now, before = "scores", unary, values[: case.n_unary]
        if np.array_equal(now, before):
            name, now, before = "additional", additional, values[case.n_unary :]
        case.fail(
            f"{who} writes to its {name}: {before.tolist()} became {now.tolist()}",
            "let it work on a copy, or in work; solvers need the scores again",
            values,
        )
    for name, array in arrays.items():
        if not array.is_intact():
            case.fail(
                f"{who} writes outside of {name}, for which {who_asks} asks {len(array.inside)} entries",
                f"let {who_asks} ask for as many as {who} uses",
                values,
            )
    return float(value)
