"""A structure with scores of one shape: random scores, calls of its oracle, and all structures that it returned.

Used by `_check.py`, `_marginals.py`, `_oracle.py` and `_solutions.py`.
"""

import numpy as np

from .._core.jit import readonly
from ._calls import UNWRITTEN, call_map, guarded
from ._protocol import is_ints

_MOST = 40  # largest number of structures, or parts, that a check examines one by one; more take longer
# The remedy if parts of a structure are returned because scores are -inf.
INCOMPLETE = (
    "scores may be -inf: return a complete structure even then, never only some of its parts; if each structure has a "
    "forbidden part, return any of them, or None in a Python oracle"
)


class Case:
    """A structure with one shape of scores and one choice of additional scores, and all structures that it returned.

    `values` are the scores of all parts in one array: the unary ones, then the additional ones. A row of `rows` has the
    number of occurrences of each part in one structure. With `is_complete`, which `_oracle.py` sets, all structures are
    known.
    """

    def __init__(self, structure, shape, given, rng):
        self.structure, self.shape, self.given, self.rng = structure, shape, given, rng
        self.n_unary = int(np.prod(shape))
        self.n = self.n_unary + sum(int(np.prod(s)) for s in given.values())
        dims = structure.dims(shape, given)
        if not (isinstance(dims, tuple | np.ndarray) and is_ints(dims)):
            self.fail(f"dims returned {dims!r}", "return a tuple, or an int64 array, of non-negative ints")
        sizes = structure.sizes(dims)
        if not (isinstance(sizes, tuple) and len(sizes) == 3 and is_ints(sizes)):
            self.fail(f"sizes returned {sizes!r}", "return (n_slots, n_additional_slots, n_work), three ints")
        self.dims = readonly(dims, np.int64)
        self.sizes = sizes
        self.n_marginal_work = structure.marginal_work(dims)
        if structure.marginal_oracle is not None and not is_ints([self.n_marginal_work], self.n):
            self.fail(
                f"marginal_work returned {self.n_marginal_work!r}",
                f"return an int, at least {self.n}: the marginals of all unary and additional parts go there",
            )
        self.rows = np.empty((0, self.n))
        self.slots = []
        # Scores for which the oracle returned each structure, finite ones if there are any; None if it was given.
        self.returned_for = []
        # The number of a structure, by its parts and by its slots; the slot of each part.
        self._index_of, self._index_of_form, self._slot_of = {}, {}, {}
        self.is_complete = False

    # Reports of failures: what failed, for which scores, and the remedy.

    def fail(self, what, remedy, values=None, cause=None):
        where = f"{self.structure!r}, scores of shape {self.shape}"
        if self.given:
            where += f" with {', '.join(f'{name} {shape}' for name, shape in self.given.items())}"
        lines = [f"{where}:", f"  {what}.", f"  Remedy: {remedy}."]
        if values is not None:
            scores, additional = self.split(values)
            for name, array in {"scores": scores, **additional}.items():
                text = repr(array.tolist()) if array.size <= 200 else np.array2string(array, threshold=20)
                lines.append(f"  {name} = {text}")
        raise AssertionError("\n".join(lines)) from cause

    def show(self, slots):
        """Return the text of a structure in the user's form."""
        try:
            decoded = self.structure.decode(slots.copy(), self.dims)
        except Exception:
            decoded = f"with the slots {slots.tolist()}"
        return repr(decoded.tolist() if isinstance(decoded, np.ndarray) else decoded)

    def name(self, part):
        return f"part {part}" if part < self.n_unary else f"additional part {part - self.n_unary}"

    # Scores of parts and of structures.

    def split(self, values):
        """Return `values` as scores and additional scores, in the form of the public functions."""
        additional, start = {}, self.n_unary
        for name, shape in self.given.items():
            stop = start + int(np.prod(shape))
            additional[name] = values[start:stop].reshape(shape)
            start = stop
        return values[: self.n_unary].reshape(self.shape), additional

    def draw(self, k=0):
        """Return random scores of kind `k`; with few digits, so that a message can be read."""
        values = np.round(self.rng.normal(size=self.n), 3)
        kind = k % 6
        if kind == 1:
            values[self.rng.uniform(size=self.n) < 0.25] = -np.inf
        elif kind == 2:
            values = np.round(values)
        elif kind > 2:
            values = np.round(values * (0.3, 4.0, 0.05)[kind - 3], 3)
        # Adding zero turns -0.0 into 0.0, for messages.
        return values + 0.0

    def some_of(self, n):
        """Return the numbers below `n`, or some of them."""
        return range(n) if n <= _MOST else np.sort(self.rng.choice(n, _MOST, replace=False))

    def totals(self, values):
        """Return the score of each known structure."""
        forbidden = np.isneginf(values)
        totals = self.rows @ np.where(forbidden, 0.0, values)
        totals[self.rows[:, forbidden].any(axis=1)] = -np.inf
        return totals

    def rounding(self, values):
        """Return the largest rounding error of the score of a structure."""
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        return 1e-10 * (1.0 + largest * (1 + self.sizes[0] + self.sizes[1]))

    # Asking.

    def call_oracle(self, values):
        """Call the oracle, check the answer, and return its value and the number of the structure.

        As in solvers, `work` is zero in the first call for a problem. Later calls, with other unary scores, get `work`
        as the previous call left it.
        """
        first_work, work = (guarded(self.sizes[2], 0.0, np.float64) for _ in range(2))
        value, slots, extra = call_map(self, values, first_work)
        again = call_map(self, values, work)
        same = value == again[0] or (np.isnan(value) and np.isnan(again[0]))
        if not same or (value > -np.inf and _bytes_of(slots, extra) != _bytes_of(*again[1:])):
            self.fail(
                f"the oracle is not deterministic: asked twice, it returned {self.show(slots)} with the value {value}, "
                f"then {self.show(again[1])} with the value {again[0]}",
                "break ties in a fixed way, draw no random numbers, and keep nothing between calls except in work",
                values,
            )
        i = self._accept(values, value, slots, extra)
        if i is not None:
            tilted = values.copy()
            tilted[: self.n_unary] -= self.rng.uniform(size=self.n_unary)
            self._accept(tilted, *call_map(self, tilted, work))
            later = call_map(self, values, work)
            self._accept(values, *later)
            # Data kept in `work` may change how ties are broken, but not the value.
            if abs(later[0] - value) > self.rounding(values):
                self.fail(
                    f"the oracle returned {self.show(slots)} with the value {value}, but asked again after similar "
                    f"scores {self.show(later[1])} with the value {later[0]}",
                    "the content of work from the last call may speed up the search, but must not change the maximum",
                    values,
                )
        return value, i

    def _accept(self, values, value, slots, extra):
        """Check an answer; return the number of its structure, or None if the oracle found none."""
        if not value < np.inf:
            self.fail(f"the oracle's value is {value}", "return the score of a structure, or -inf for none", values)
        if value == -np.inf:
            return None
        i = self.know(slots, extra, "the oracle returned", values)
        if np.isfinite(values).all():
            self.returned_for[i] = values
        used = np.flatnonzero(self.rows[i])
        total = float(self.rows[i][used] @ values[used])
        if total == -np.inf:
            forbidden = self.name(used[np.argmin(values[used])])
            self.fail(
                f"the oracle returned {self.show(slots)} with the value {value}, although {forbidden} is forbidden",
                "parts whose score is -inf are forbidden: choose among the others, and return -inf if none is left",
                values,
            )
        if abs(total - value) > self.rounding(values):
            self.fail(
                f"the oracle returned the value {value}, but the structure in its slots, {self.show(slots)}, scores "
                f"{total}: unary parts {slots[slots >= 0].tolist()}, additional parts {extra[extra >= 0].tolist()}",
                "return the sum of scores[part] and additional[part] over all slots that are filled",
                values,
            )
        return i

    def infer(self, function, values, **options):
        """Call a public function of inference on these scores."""
        scores, additional = self.split(values)
        try:
            result = function(self.structure, scores, **additional, **options)
            # The structures are computed at the first access.
            getattr(result, "structures", None)
            return result
        except Exception as error:
            self.fail(
                f"{function.__name__} raised {type(error).__name__}: {error}",
                "the oracle alone returned a structure, so check the sizes, the data that it keeps between calls, and "
                "whether polytope_solver is that of a structure with the same polytope",
                values,
                error,
            )

    # Structures that are known.

    def know(self, slots, extra, whence, values=None):
        """Check the slots of a structure, remember it, and return its number."""
        form = _bytes_of(slots, extra)
        if form in self._index_of_form:
            return self._index_of_form[form]
        for name, found, n in (("slots", slots, self.n_unary), ("additional_slots", extra, self.n - self.n_unary)):
            if (found == UNWRITTEN).any():
                self.fail(
                    f"{whence} {name} of which entry {int(np.argmax(found == UNWRITTEN))} is not written",
                    "fill all slots that sizes asks for, with -1 where there is no part",
                    values,
                )
            if not ((found >= -1) & (found < n)).all():
                self.fail(
                    f"{whence} the {name} {found.tolist()}, but "
                    + (f"parts go from 0 to {n - 1}" if n else "there are no such parts"),
                    "a slot holds -1, or the index of a part into the flat scores (into `additional` for "
                    "additional_slots)",
                    values,
                )
        if self.structure.repeats and ((slots < 0).any() or (np.diff(slots) < 0).any()):
            self.fail(
                f"{whence} the slots {slots.tolist()}, which are not in the order of their parts, or not all filled",
                "if parts may repeat, sort the slots by their parts, and let sizes ask for no more than are filled",
                values,
            )
        for slot, part in enumerate([] if self.structure.repeats else slots.tolist()):
            home = self._slot_of.setdefault(part, slot)
            if part >= 0 and home != slot:
                and_where = "and in" if np.count_nonzero(slots == part) > 1 else "but with other scores in"
                self.fail(
                    f"{whence} part {part} in slot {slot}, {and_where} slot {home} (slots {slots.tolist()})",
                    "give each part a fixed slot, because common parts of two structures are found by comparing their "
                    "slots; with as many slots as parts, part i may have slot i",
                    values,
                )
        parts = np.concatenate([slots[slots >= 0], extra[extra >= 0] + self.n_unary])
        row = np.bincount(parts, minlength=self.n).astype(np.float64)
        i = self._index_of.setdefault(row.tobytes(), len(self.rows))
        if i == len(self.rows):
            self._check_size(slots, whence, values)
            if self.is_complete:
                self.fail(
                    f"{whence} {self.show(slots)} (slots {slots.tolist()}, additional slots {extra.tolist()}), which "
                    "is not among the structures given",
                    f"an oracle may return nothing else; or complete the list of structures{_if_forbidden(values)}",
                    values,
                )
            self.rows = np.vstack([self.rows, row])
            self.slots.append((slots.copy(), extra.copy()))
            self.returned_for.append(values)
        self._index_of_form[form] = i
        return i

    def _check_size(self, slots, whence, values):
        """Check that a new structure has as many unary parts as the first one, if `fixed_size` says so."""
        if self.structure.fixed_size and len(self.slots):
            first = self.slots[0][0]
            n_parts = int((slots >= 0).sum())
            n_first = int((first >= 0).sum())
            if n_parts != n_first:
                remedy = "set fixed_size to False if structures differ in their number of unary parts"
                self.fail(
                    f"{whence} {self.show(slots)} with {n_parts} unary parts, but {self.show(first)} has {n_first}, "
                    "although fixed_size is True",
                    remedy + _if_forbidden(values),
                    values,
                )

    def encode(self, decoded, whence):
        """Return a structure as slots and additional slots."""
        try:
            encoded = self.structure.encode(decoded, self.dims)
        except Exception as error:
            self.fail(
                f"encode refuses {decoded!r}, {whence}: {type(error).__name__}: {error}",
                "it must take all structures that decode returns and a user may write",
                cause=error,
            )
        wanted = [((n,), np.int32) for n in self.sizes[:2]]
        if not isinstance(encoded, tuple) or [(np.shape(a), getattr(a, "dtype", None)) for a in encoded] != wanted:
            self.fail(
                f"encode returned {encoded!r} for {decoded!r}, {whence}",
                f"return (slots, additional_slots), two int32 arrays of lengths {self.sizes[0]} and {self.sizes[1]}",
            )
        return encoded


def _if_forbidden(values):
    """Return a further remedy for a structure that an oracle returned for scores of which some are -inf."""
    return "" if values is None or np.isfinite(values).all() else f"; {INCOMPLETE}"


def _bytes_of(slots, extra):
    """Return slots in a form that is compared faster than arrays."""
    return slots.tobytes(), extra.tobytes()


def join(result):
    """Return the marginals of all parts of a result in one array, the unary ones first."""
    return np.concatenate([result.marginals.ravel(), *(a.ravel() for a in result.additional_marginals.values())])
