"""check_structure: whether a structure, of the package or your own, does what solvers, losses and estimators expect."""

import copy
import pickle
from itertools import combinations, product

import numpy as np
from sklearn.utils import check_random_state

from ._jit import Entry, is_compiled, readonly
from .inference import map_inference, marginal_inference, sparsemap
from .solvers._batch import PROJECTIONS, SOLVERS
from .structures import Structure

# Entries around the arrays that an oracle gets, which it must leave alone.
_MARGIN = 8
# What a slot holds before the oracle is called: no part has this index.
_UNWRITTEN = 2**30
# Most structures, or parts, that a check looks at one by one.
_MOST = 40
# Keywords of the inference functions, which additional scores cannot be named after.
_TAKEN = {"structure", "scores", "solver", "tol", "max_iter", "n_jobs"}
_STEP = 1e-5


def check_structure(structure, *, shapes=None, structures=None, n_instances=6, random_state=0):
    """Check that a structure keeps to the protocol of `Structure`, and that its oracles are right.

    What there is to predict is learned by asking the MAP oracle about many scores. An oracle that does not maximise
    gives itself away: a structure that it returned before scores higher than what it returns now. With `structures`
    the comparison is with everything there is.

    - **Protocol**: attributes, `additional_shapes`, `dims`, `sizes`, `scores_shape`, `learned_shapes`, `agreement`.
    - **MAP oracle**: the value is the score of the parts returned; parts exist, and each has a slot of its own; all
      slots are written, and nothing else; the same answer every time, also with what the last call left in `work`, in
      threads, and from a copy of the structure; the best structure, also with ties, scores of 1e8, and -inf.
    - **encode and decode** are inverse.
    - **SparseMAP**, with all solvers: equal to a plain quadratic program over the structures seen, with the gap
      recomputed; derivatives equal to differences.
    - **Marginal oracle**, if there is one: equal to the sum over all structures, where these are known; else to
      differences of its log-partition, which must keep within bounds.

    Parameters
    ----------
    structure : Structure
        What to check. For a `CustomStructure`, its oracle, encode and decode are what is checked.
    shapes : sequence of tuple of int, default=None
        Shapes of `scores` to try; None is ``structure.example_shapes()``. Small ones: the fewer structures there are,
        the more certainly all of them are seen.
    structures : callable or iterable, default=None
        All structures there are, as a user writes them: a function from the shape of `scores` to an iterable of them;
        or the iterable itself, if `shapes` is a single one.
    n_instances : int, default=6
        Number of random problems for each check, shape and choice of additional scores.
    random_state : int, RandomState instance or None, default=0
        Where the scores come from.

    Raises
    ------
    AssertionError
        At the first thing that is wrong. The message says which scores show it, what was found, what would have been
        right, and the remedy.

    Examples
    --------
    >>> from sklearn_sparsemap.structures import CustomStructure
    >>> from sklearn_sparsemap.testing import check_structure
    >>> def greedy(scores):
    ...     first = max(range(2), key=lambda i: scores[i])
    ...     return [first, first + 2] if scores[first + 2] > scores[4] else [first, 4]
    >>> check_structure(CustomStructure(greedy, n_parts=5))
    Traceback (most recent call last):
    AssertionError: ...
    """
    _check_attributes(structure)
    rng = check_random_state(random_state)
    if shapes is None:
        shapes = structure.example_shapes()
    shapes = [_check_shape(structure, shape) for shape in shapes]
    _require(structure, shapes, "there are no shapes to try", "return some from example_shapes(), or pass shapes")
    if structures is not None and not callable(structures):
        message = f"structures is one list for {len(shapes)} shapes"
        _require(structure, len(shapes) == 1, message, "pass a single shape, or a function from a shape to a list")
        everything = list(structures)
        structures = lambda shape: everything  # noqa: E731
    n_dims = set()
    for shape in shapes:
        choices = _choices(structure, shape)
        _check_linear_model(structure, shape)
        for i, given in enumerate(choices):
            # Most problems for all additional scores together, which come first.
            n = n_instances if i == 0 else min(2, n_instances)
            case = _Case(structure, shape, given, None if structures is None else structures(shape), rng)
            n_dims.add(len(case.dims))
            remedy = "make it the same for all shapes, so that many problems fit into one array"
            _require(structure, len(n_dims) == 1, f"dims has {sorted(n_dims)} entries", remedy)
            case.check_oracle(n)
            case.check_forms()
            for k in range(n):
                values = case.draw(k)
                if case.ask(values)[0] > -np.inf:
                    case.check_sparsemap(values, SOLVERS if k < 2 else ("active_set",))
                    case.check_derivatives(values)
            if structure.marginal_oracle is not None:
                case.check_marginals(n)
            if i == 0:
                case.check_public(n)


def _require(structure, condition, what, remedy):
    if not condition:
        raise AssertionError(f"{structure!r}: {what}; {remedy}")


def _is_ints(values, least=0):
    kinds = (int, np.integer)
    return all(isinstance(v, kinds) and not isinstance(v, bool) and v >= least for v in values)


def _check_attributes(structure):
    """Check what does not depend on the scores."""
    remedy = "pass an instance of a subclass of sklearn_sparsemap.structures.Structure, such as LinearChain()"
    if isinstance(structure, type) and issubclass(structure, Structure):
        raise AssertionError(f"{structure.__name__} is a class; {remedy}")
    _require(structure, isinstance(structure, Structure), "it is no Structure", remedy)
    ndim, names = structure.score_ndim, structure.additional_names
    _require(structure, _is_ints([ndim], 1), f"score_ndim is {ndim!r}", "it is the number of axes of scores, an int")
    is_names = isinstance(names, tuple) and all(isinstance(name, str) and name.isidentifier() for name in names)
    _require(structure, is_names, f"additional_names is {names!r}", "make it a tuple of names")
    bad = sorted(_TAKEN & set(names)) or [name for name in names if names.count(name) > 1]
    _require(structure, not bad, f"additional_names has {bad}", "names must differ, and not be a keyword of sparsemap")
    remedy = "make it with sklearn_sparsemap._jit.as_oracle, or give a Python function to CustomStructure"
    for name in ("oracle", "marginal_oracle"):
        oracle = getattr(structure, name)
        is_fine = isinstance(oracle, Entry) or is_compiled(oracle) or (oracle is None and name == "marginal_oracle")
        _require(structure, is_fine, f"{name} is {oracle!r}, which kernels cannot call", remedy)
    projection = structure.projection
    remedy = "there are " + ", ".join(map(repr, PROJECTIONS)) + "; None solves SparseMAP with the oracle alone"
    _require(structure, projection is None or projection in PROJECTIONS, f"projection is {projection!r}", remedy)


def _check_shape(structure, shape):
    remedy = f"a shape of scores is a tuple of {structure.score_ndim} positive ints"
    is_shape = isinstance(shape, tuple) and len(shape) == structure.score_ndim and _is_ints(shape, 1)
    _require(structure, is_shape, f"the shape {shape!r} is none of its scores", remedy)
    return shape


def _check_linear_model(structure, shape):
    """Check what estimators ask for. A structure that does without may leave `scores_shape` as it is."""
    rows, n_outputs = (shape, 1) if not structure.labelled else (shape[:-1] or (1,), shape[-1])
    try:
        found = structure.scores_shape(rows, n_outputs)
    except NotImplementedError:
        return
    except ValueError as error:
        found = f"refused ({error})"
    call = f"scores_shape({rows}, {n_outputs})"
    remedy = "it must be the shape of the scores that a linear model makes of such a sample"
    _require(structure, found == shape, f"{call} is {found}, not {shape}", remedy)
    accepted = structure.additional_shapes(shape)
    learned = structure.learned_shapes(n_outputs)
    for name, s in learned.items():
        fits = name in accepted and s in accepted[name]
        remedy = f"additional_shapes({shape}) must have it: {accepted}"
        _require(structure, fits, f"learned_shapes({n_outputs}) has {name!r} of shape {s}", remedy)


def _choices(structure, shape):
    """Return the choices of additional scores that go with a shape, as dicts of shapes; the first one is of all."""
    accepted, names = structure.additional_shapes(shape), structure.additional_names
    remedy = f"it must have one entry for each of additional_names, {names}: a tuple of the accepted shapes"
    fits = isinstance(accepted, dict) and set(accepted) == set(names)
    if fits:
        fits = all(isinstance(a, tuple) and a and all(isinstance(s, tuple) and _is_ints(s) for s in a)
                   for a in accepted.values())  # fmt: skip
    _require(structure, fits, f"additional_shapes({shape}) is {accepted!r}", remedy)
    choices, error = [], None
    # All of them, each alone, and none.
    for k in sorted({len(names), min(1, len(names)), 0}, reverse=True):
        for chosen in combinations(names, k):
            for alternative in product(*(accepted[name] for name in chosen)):
                given = dict(zip(chosen, alternative))
                try:
                    structure.dims(shape, given)
                except ValueError as e:
                    # Scores that must be given may be missing here.
                    error = error or e
                else:
                    choices.append(given)
    remedy = "pass shapes that fit, or return such shapes from example_shapes()"
    _require(structure, choices, f"dims refuses scores of shape {shape} ({error})", remedy)
    return choices


class _Case:
    """A structure with one shape of scores and one choice of additional scores; and all that it was seen to predict.

    `values` are the scores of all parts in one array: the unary ones, then the additional ones. A structure is a row
    of counts of the same length.
    """

    def __init__(self, structure, shape, given, listed, rng):
        self.structure, self.shape, self.given, self.rng = structure, shape, given, rng
        self.n_unary = int(np.prod(shape))
        self.n = self.n_unary + sum(int(np.prod(s)) for s in given.values())
        dims = structure.dims(shape, given)
        if not (isinstance(dims, tuple) and _is_ints(dims)):
            self.fail(f"dims returned {dims!r}", "return a tuple of non-negative ints")
        sizes = structure.sizes(dims)
        if not (isinstance(sizes, tuple) and len(sizes) == 3 and _is_ints(sizes)):
            self.fail(f"sizes returned {sizes!r}", "return (n_slots, n_additional_slots, n_work), three ints")
        self.dims, self.sizes = readonly(dims, np.int64), sizes
        self.n_marginal_work = structure.marginal_work(dims)
        if structure.marginal_oracle is not None and not _is_ints([self.n_marginal_work], self.n):
            self.fail(
                f"marginal_work returned {self.n_marginal_work!r}",
                f"return an int, at least {self.n}: the marginals of all unary and additional parts go there",
            )
        self.rows, self.slots, self.index_of, self.slot_of = [], [], {}, {}
        self.answers = []
        self.is_complete = False
        if listed is not None:
            for decoded in listed:
                self._list(decoded)
            self.is_complete = True

    # What is wrong, and where.

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
        """Return a structure as a user reads it."""
        try:
            decoded = self.structure.decode(slots.copy(), self.dims)
        except Exception:
            decoded = f"with the slots {slots.tolist()}"
        return repr(decoded.tolist() if isinstance(decoded, np.ndarray) else decoded)

    def name(self, part):
        return f"part {part}" if part < self.n_unary else f"additional part {part - self.n_unary}"

    # Scores, and what structures score.

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
        # No -0.0, which would be printed.
        return values + 0.0

    def sample(self, n):
        """Return the numbers below `n`, or some of them."""
        return range(n) if n <= _MOST else np.sort(self.rng.choice(n, _MOST, replace=False))

    def totals(self, values):
        """Return the score of each structure that is known."""
        rows, forbidden = np.array(self.rows).reshape(-1, self.n), np.isneginf(values)
        totals = rows @ np.where(forbidden, 0.0, values)
        totals[rows[:, forbidden].any(axis=1)] = -np.inf
        return totals

    def rounding(self, values):
        """Return what rounding may add to the score of a structure."""
        largest = np.abs(values[np.isfinite(values)]).max(initial=0.0)
        return 1e-10 * (1.0 + largest * (1 + self.sizes[0] + self.sizes[1]))

    # Asking the oracle.

    def ask(self, values):
        """Ask the oracle, check the answer by itself, and return its value and the number of the structure.

        It is asked as solvers do: with `work` zero at first, and then as the last call for the same problem left it,
        while the unary scores change.
        """
        value, slots, extra = self._call(values, self._new_work())
        work = self._new_work()
        again = self._call(values, work)
        same = np.array_equal(value, again[0], equal_nan=True)
        if value > -np.inf:
            same &= np.array_equal(slots, again[1]) and np.array_equal(extra, again[2])
        if not same:
            self.fail(
                f"the oracle is not deterministic: asked twice, it returned {self.show(slots)} with the value {value}, "
                f"then {self.show(again[1])} with the value {again[0]}",
                "break ties in a fixed way, draw no random numbers, and keep nothing between calls but in work",
                values,
            )
        i = self._accept(values, value, slots, extra)
        if i is not None:
            tilted = values.copy()
            tilted[: self.n_unary] -= self.rng.uniform(size=self.n_unary)
            self._accept(tilted, *self._call(tilted, work))
            later = self._call(values, work)
            self._accept(values, *later)
            # What is kept in work may break ties in another way, but no more than that.
            if abs(later[0] - value) > self.rounding(values):
                self.fail(
                    f"the oracle returned {self.show(slots)} with the value {value}, but asked again after similar "
                    f"scores {self.show(later[1])} with the value {later[0]}",
                    "what the last call left in work may help to find the best structure, not change which one that is",
                    values,
                )
        return value, i

    def _new_work(self):
        return _Guarded(self.sizes[2], 0.0, np.float64)

    def _call(self, values, work):
        unary, additional = values[: self.n_unary].copy(), values[self.n_unary :].copy()
        slots, extra = (_Guarded(n, _UNWRITTEN, np.int32) for n in self.sizes[:2])
        try:
            value = self.structure.oracle(unary, additional, self.dims, work.inside, slots.inside, extra.inside)
        except Exception as error:
            what, remedy = "raised", "mend it; or, if scores cannot have this shape, refuse it in dims, or pass shapes"
            if "read-only" in str(error) or "readonly" in str(error):
                what, remedy = "writes to its scores: it raised", "let it work on a copy, or in work"
            self.fail(f"the oracle {what} {type(error).__name__}: {error}", remedy, values, error)
        self._check_untouched("the oracle", values, unary, additional)
        for array, name in ((work, "work"), (slots, "slots"), (extra, "additional_slots")):
            if not array.is_intact():
                self.fail(
                    f"the oracle writes outside of {name}, for which sizes asks {len(array.inside)} entries",
                    "let sizes ask for as many as the oracle uses",
                    values,
                )
        return float(value), slots.inside, extra.inside

    def _check_untouched(self, who, values, unary, additional):
        for name, now, before in (
            ("scores", unary, values[: self.n_unary]),
            ("additional", additional, values[self.n_unary :]),
        ):
            if not np.array_equal(now, before):
                self.fail(
                    f"{who} writes to its {name}: {before.tolist()} became {now.tolist()}",
                    "let it work on a copy, or in work; solvers need the scores again",
                    values,
                )

    def _accept(self, values, value, slots, extra):
        """Check an answer by itself; return the number of its structure, None if it says that there is none."""
        if not value < np.inf:
            self.fail(f"the oracle's value is {value}", "return the score of a structure, or -inf for none", values)
        if value == -np.inf:
            return None
        i = self._know(slots, extra, "the oracle returned", values)
        used = self.rows[i] > 0
        forbidden = np.flatnonzero(used & np.isneginf(values))
        if len(forbidden):
            self.fail(
                f"the oracle returned {self.show(slots)} with the value {value}, although {self.name(forbidden[0])} is "
                "forbidden",
                "parts whose score is -inf are forbidden: choose among the others, and return -inf if none is left",
                values,
            )
        total = float(self.rows[i][used] @ values[used])
        if abs(total - value) > self.rounding(values):
            self.fail(
                f"the oracle returned the value {value}, but the structure in its slots, {self.show(slots)}, scores "
                f"{total}: unary parts {slots[slots >= 0].tolist()}, additional parts {extra[extra >= 0].tolist()}",
                "return the sum of scores[part] and additional[part] over all slots that are filled",
                values,
            )
        return i

    def _know(self, slots, extra, whence, values=None):
        """Remember a structure, and return its number."""
        for name, found, n in (("slots", slots, self.n_unary), ("additional_slots", extra, self.n - self.n_unary)):
            if (found == _UNWRITTEN).any():
                self.fail(
                    f"{whence} {name} of which entry {int(np.argmax(found == _UNWRITTEN))} is not written",
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
        for slot, part in enumerate(slots.tolist()):
            home = self.slot_of.setdefault(part, slot)
            if part >= 0 and home != slot:
                and_where = "and in" if np.count_nonzero(slots == part) > 1 else "but for other scores in"
                self.fail(
                    f"{whence} part {part} in slot {slot}, {and_where} slot {home} (slots {slots.tolist()})",
                    "give each part one slot in which it always stands, as structures share the parts that are in the "
                    "same slot of both; with as many slots as parts, part i may stand in slot i",
                    values,
                )
        parts = np.concatenate([slots[slots >= 0], extra[extra >= 0] + self.n_unary])
        row = np.bincount(parts, minlength=self.n).astype(np.float64)
        i = self.index_of.setdefault(row.tobytes(), len(self.rows))
        if i == len(self.rows):
            if self.is_complete:
                self.fail(
                    f"{whence} {self.show(slots)} (slots {slots.tolist()}, additional slots {extra.tolist()}), which "
                    "is none of the structures given",
                    "an oracle may return nothing else; or complete the list of structures",
                    values,
                )
            self.rows.append(row)
            self.slots.append((slots.copy(), extra.copy()))
        return i

    def _list(self, decoded):
        """Remember a structure that the user gave."""
        n_known = len(self.rows)
        slots, extra = self._encode(decoded, "one of the structures given")
        i = self._know(slots, extra, f"encode({decoded!r}) returned")
        if i < n_known:
            self.fail(
                f"{decoded!r} has the same parts as {self.show(self.slots[i][0])}, which comes before it in structures",
                "list each structure once, and let encode tell them apart",
            )
        back = self.structure.decode(slots.copy(), self.dims)
        if not _same(back, decoded):
            self.fail(f"decode(encode({decoded!r})) is {back!r}", "decode must be the inverse of encode")

    def _encode(self, decoded, whence):
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

    # The checks.

    def check_oracle(self, n_instances):
        """Ask about scores of all kinds, then look whether any answer was not the best."""
        probes = [np.zeros(self.n), *(self.draw(k) for k in range(6 * n_instances))]
        probes += [-values for values in probes[1:] if np.isfinite(values).all()]
        # Many ties, and scores that cost digits.
        probes += [np.sign(self.draw()) for _ in range(n_instances)]
        probes += [np.round(1e8 * self.draw(2 * k)) for k in range(n_instances)]
        for part in self.sample(self.n):
            for bonus in (10.0, -10.0, -np.inf):
                values = self.draw(3)
                values[part] += bonus
                probes.append(values)
        no_unary = self.draw()
        no_unary[: self.n_unary] = -np.inf
        self._ask_all([*probes, no_unary, np.full(self.n, -np.inf)])
        if not self.rows:
            self.fail(
                "the oracle says that no structure is allowed, whatever the scores",
                "return -inf only if all structures have a forbidden part, and refuse shapes without any in dims",
                probes[0],
            )
        # Forbid all parts but those of one structure: with high scores, it is the best; with very low ones, still
        # better than what is forbidden, which a penalty in the place of -inf may get wrong.
        for i in self.sample(len(self.rows)):
            mine = self.rows[i] > 0
            self._ask_all(np.where(mine, own, other) for own, other in ((1.0, -1.0), (1.0, -np.inf), (-1e8, -np.inf)))
        for values, value, i in self.answers:
            self.check_best(values, value, i)

    def _ask_all(self, probes):
        self.answers += [(values, *self.ask(values)) for values in probes]

    def check_best(self, values, value, i):
        """Check an answer against all structures that are known."""
        totals = self.totals(values)
        best = int(np.argmax(totals))
        if totals[best] <= (value + self.rounding(values) if value > -np.inf else value):
            return
        other = f"{self.show(self.slots[best][0])}, "
        other += "one of the structures given" if self.is_complete else "which it returned for other scores"
        if i is None:
            self.fail(
                f"the oracle says that no structure is allowed (its value is -inf, or it chose a forbidden part), but "
                f"{other}, has no forbidden part and scores {totals[best]}",
                "leave out parts whose score is -inf, and choose the best structure without them",
                values,
            )
        self.fail(
            f"the oracle does not find the maximum: it returned {self.show(self.slots[i][0])} with a score of {value}, "
            f"but {other}, scores {totals[best]}",
            "an oracle must return a structure of highest total score; being greedy or pruning is not enough",
            values,
        )

    def check_forms(self):
        """Check that decode and encode are inverse, for the structures that are known."""
        for i in self.sample(len(self.rows)):
            slots, extra = self.slots[i]
            try:
                decoded, again = (self.structure.decode(slots.copy(), self.dims) for _ in range(2))
            except Exception as error:
                self.fail(
                    f"decode raised {type(error).__name__}: {error} for the slots {slots.tolist()}",
                    "it must take whatever slots the oracle returns",
                    cause=error,
                )
            if not _same(decoded, again):
                self.fail(
                    f"decode returned {decoded!r}, then {again!r} for the same slots, which are not equal",
                    "return something that can be compared: an array, numbers, or a class with __eq__",
                )
            new_slots, new_extra = self._encode(decoded, "which decode returned")
            # The order of additional slots means nothing.
            if not (np.array_equal(slots, new_slots) and np.array_equal(np.sort(extra), np.sort(new_extra))):
                self.fail(
                    f"the oracle returned the slots {slots.tolist()} and additional slots {extra.tolist()}; decode "
                    f"makes {decoded!r} of them, and encode {new_slots.tolist()} and {new_extra.tolist()} of that",
                    "encode must return the same parts as the oracle; decode sees the unary slots only, so that these "
                    "must determine the additional ones",
                )
            right = np.asarray(self.structure.agreement(decoded, decoded, self.dims))
            if right.dtype != bool or not right.all():
                self.fail(
                    f"agreement of {decoded!r} with itself is {right!r}",
                    "return one bool for each slot, True where it is the right one",
                )

    def infer(self, function, values, **options):
        """Call a public function of inference on these scores."""
        scores, additional = self.split(values)
        try:
            return function(self.structure, scores, **additional, **options)
        except Exception as error:
            self.fail(
                f"{function.__name__} raised {type(error).__name__}: {error}",
                "the oracle alone gave an answer, so look at the sizes, and at what it keeps between calls",
                values,
                error,
            )

    def solve(self, values):
        """Return the SparseMAP marginals over all structures that are known, those among them that this brings up."""
        while True:
            totals = self.totals(values)
            allowed = np.flatnonzero(totals > -np.inf)
            unary = np.array(self.rows)[allowed, : self.n_unary]
            u = _solve_qp(unary, totals[allowed]) @ unary
            n_known = len(self.rows)
            tilted = values.copy()
            tilted[: self.n_unary] -= u
            self.check_best(tilted, *self.ask(tilted))
            if len(self.rows) == n_known:
                return u

    def check_sparsemap(self, values, solvers):
        """Check the solutions of SparseMAP, and their certificates."""
        u, projection = self.solve(values), self.structure.projection
        remedy = "the oracle looks right; see that slots, sizes and dims are as the docstring of Structure has them"
        if projection is not None:
            remedy = f"projection={projection!r} is the closed form of one structure; None leaves it to the oracle"
        for solver in solvers:
            exact = solver == "active_set"
            # Conditional gradient needs not arrive: its gap bounds the distance.
            result = self.infer(sparsemap, values, solver=solver, **({} if exact else {"max_iter": 300}))
            found = result.marginals.ravel()
            distance = np.abs(found - u).max()
            most = 1e-6 if exact else np.sqrt(2.0 * result.gap) + 1e-6
            if distance > most or (exact and not result.converged):
                self.fail(
                    f"sparsemap(solver={solver!r}) has the marginals {found.tolist()} with a gap of {result.gap:.2g}, "
                    f"but the best mixture of all structures seen has {u.tolist()}, {distance:.2g} away",
                    remedy,
                    values,
                )
            known = [self._know(*self._encode(s, "which sparsemap returned"), "sparsemap chose", values)
                     for s in result.structures]  # fmt: skip
            parts = np.concatenate([found, *(a.ravel() for a in result.additional_marginals.values())])
            mixed = result.weights @ np.array(self.rows)[known]
            if np.abs(mixed - parts).max() > 1e-8:
                self.fail(
                    f"sparsemap(solver={solver!r}) has the marginals {parts.tolist()}, but its structures, with their "
                    f"weights, {mixed.tolist()}",
                    remedy,
                    values,
                )
            finite = np.isfinite(values)
            here = values[finite] @ parts[finite] - found @ found
            gap = (self.totals(values) - np.array(self.rows)[:, : self.n_unary] @ found).max() - here
            if gap > result.gap + 100 * self.rounding(values):
                self.fail(
                    f"sparsemap(solver={solver!r}) has a gap of {result.gap:.3g}, but over all structures seen it is "
                    f"{gap:.3g}",
                    "the oracle must return the best structure, whatever the scores",
                    values,
                )

    def check_derivatives(self, values):
        """Check Jacobian products against differences, unless there is a kink here."""
        direction, v = self.rng.normal(size=self.n), self.rng.normal(size=self.shape)
        result = self.infer(sparsemap, values)
        ahead, behind = (
            (self.infer(sparsemap, values + step * direction).marginals - result.marginals) / step
            for step in (_STEP, -_STEP)
        )
        if np.abs(ahead - behind).max() > 1e-5:
            return
        expected = (ahead + behind) / 2
        along, additional = self.split(direction)
        forward = result.jvp(scores=along, **additional)
        gradients = result.vjp(v)
        backward = sum((gradients[name] * d).sum() for name, d in {"scores": along, **additional}.items())
        remedy = "SparseMAP is right here, but structures of its face were missed: the oracle must be exact for ties"
        if np.abs(forward - expected).max() > 1e-4:
            self.fail(
                f"jvp in the direction {direction.tolist()} is {forward.tolist()}, but by differences of the marginals "
                f"{expected.tolist()}",
                remedy,
                values,
            )
        if abs(backward - (v * expected).sum()) > 1e-4 * (1 + np.abs(v).sum()):
            self.fail(
                f"vjp of {v.tolist()} is { {name: g.tolist() for name, g in gradients.items()} }; in the direction "
                f"{direction.tolist()} that makes {backward}, but by differences {(v * expected).sum()}",
                remedy,
                values,
            )

    def check_marginals(self, n_instances):
        """Check the marginal oracle: against the sum over all structures where they are known, else by differences."""
        count, _ = self._gibbs(np.zeros(self.n))
        if count < np.log(len(self.rows)) - 1e-9:
            self.fail(
                "the log-partition with scores of zero is the logarithm of the number of structures; the marginal "
                f"oracle has {count}, that is {np.exp(count):.6g} structures, but {len(self.rows)} are known",
                "it must sum over all structures that the MAP oracle can return",
                np.zeros(self.n),
            )
        is_complete = self.is_complete or abs(count - np.log(len(self.rows))) < 1e-9
        # With scores this large the best structure is almost alone, whatever else is summed over; two parts that no
        # structure has together show if something has.
        pairs = [(a, b) for a in range(self.n) for b in range(a)]
        problems = [scale * self.draw(k) for k in range(n_instances) for scale in (1.0, 1000.0)]
        problems += [self.draw() + 1000.0 * np.isin(range(self.n), pairs[p]) for p in self.sample(len(pairs))]
        for k, values in enumerate(problems):
            best, _ = self.ask(values)
            if best > -np.inf:
                why = f"as there are {np.exp(count):.6g} structures, by its log-partition with scores of zero"
                by_differences = k < 2 * n_instances and k % 2 == 0
                self._check_gibbs(values, best + count, why, is_complete, by_differences)
        # Forbid all parts but those of one structure, so that any other one is far behind.
        for i in self.sample(len(self.rows)):
            values = np.where(self.rows[i] > 0, 1000.0 * (1.0 + np.abs(self.draw())), -np.inf)
            if self.ask(values)[1] == i and np.count_nonzero(self.totals(values) > self.totals(values)[i] - 50.0) == 1:
                why = "as there is no other structure of these parts"
                self._check_gibbs(values, self.totals(values)[i], why, is_complete, by_differences=False)
        nothing = np.full(self.n, -np.inf)
        if self.ask(nothing)[0] == -np.inf:
            value, _ = self._gibbs(nothing)
            if value > -np.inf:
                self.fail(
                    f"the marginal oracle has the log-partition {value}, but all structures are forbidden",
                    "return -inf if no structure is allowed",
                    nothing,
                )

    def _gibbs(self, values):
        """Ask the marginal oracle twice; return its value and the marginals of all parts."""
        answers = []
        for dirt in (np.nan, 1e300):
            unary, additional = values[: self.n_unary].copy(), values[self.n_unary :].copy()
            work, none = _Guarded(self.n_marginal_work, dirt, np.float64), np.empty(0, np.int32)
            try:
                value = self.structure.marginal_oracle(unary, additional, self.dims, work.inside, none, none)
            except Exception as error:
                what = f"the marginal oracle raised {type(error).__name__}: {error}"
                self.fail(what, "mend it; it must neither write to its scores nor use its slots", values, error)
            self._check_untouched("the marginal oracle", values, unary, additional)
            if not work.is_intact():
                n = len(work.inside)
                what = f"the marginal oracle writes outside of work, for which marginal_work asks {n} entries"
                self.fail(what, "let marginal_work ask for as many as it uses", values)
            answers.append((float(value), work.inside[: self.n]))
        (value, expected), again = answers
        is_fine = value == -np.inf or (np.isfinite([value, *expected]).all() and np.array_equal(expected, again[1]))
        if value != again[0] or not is_fine:
            self.fail(
                f"asked twice, the marginal oracle returned {value} with the marginals {expected.tolist()}, then "
                f"{again[0]} with {again[1].tolist()}",
                "return finite numbers, always the same; work comes with anything in it",
                values,
            )
        return value, expected

    def _check_gibbs(self, values, most, why, is_complete, by_differences):
        value, expected = self._gibbs(values)
        totals = self.totals(values)
        p = np.exp(totals - totals.max())
        least = totals.max() + np.log(p.sum())
        tolerance = 1e-9 + 10 * self.rounding(values)
        if value < least - tolerance or (is_complete and value > least + tolerance):
            known = "all structures have" if is_complete else "the structures seen alone have"
            self.fail(
                f"the marginal oracle has the log-partition {value}, but {known} {least}",
                "return the logarithm of the sum of exp(score) over all structures that the MAP oracle can return",
                values,
            )
        if value > most + tolerance:
            self.fail(
                f"the marginal oracle has the log-partition {value}, but it is at most {most}, {why}",
                "sum over what the MAP oracle can return, and nothing else",
                values,
            )
        if is_complete:
            wanted, how = (p / p.sum()) @ np.array(self.rows), "the sum over all structures is"
        elif by_differences:
            wanted, how = expected.copy(), "the derivative of the log-partition is"
            for part in self.sample(self.n):
                step = np.zeros(self.n)
                step[part] = _STEP
                rise = self._gibbs(values + step)[0] - self._gibbs(values - step)[0] if values[part] > -np.inf else 0.0
                wanted[part] = rise / (2 * _STEP)
        else:
            return
        wrong = int(np.argmax(np.abs(wanted - expected)))
        if abs(wanted[wrong] - expected[wrong]) > 1e-6:
            self.fail(
                f"the marginal oracle has {expected[wrong]} for {self.name(wrong)}, but {how} {wanted[wrong]} (for all "
                f"parts {expected.tolist()}, not {wanted.tolist()})",
                "leave the expected count of each part at the beginning of work, the unary ones first",
                values,
            )
        public = self.infer(marginal_inference, values)
        joined = np.concatenate([public.marginals.ravel(), *(a.ravel() for a in public.additional_marginals.values())])
        if public.log_partition != value or not np.array_equal(joined, expected):
            self.fail(
                f"marginal_inference returned {public}, but the marginal oracle alone {value} with {expected.tolist()}",
                "the marginal oracle must depend on its arguments only",
                values,
            )

    def check_public(self, n_instances):
        """Check that the answers are the same in a batch, in threads, and from copies of the structure."""
        problems = [self.draw(k) for k in range(4 * n_instances)]
        answers = [(values, *self.ask(values)) for values in problems]
        answers = [(values, value, i) for values, value, i in answers if i is not None]
        problems, values_found, places = zip(*answers)
        expected = [self.structure.decode(self.slots[i][0].copy(), self.dims) for i in places]
        found = {"map_inference": [self.infer(map_inference, values) for values in problems]}
        scores, additional = zip(*(self.split(values) for values in problems))
        lists = {name: [given[name] for given in additional] for name in self.given}
        found["map_inference in two threads"] = map_inference(self.structure, list(scores), n_jobs=2, **lists)
        found["a deep copy"] = map_inference(copy.deepcopy(self.structure), list(scores), **lists)
        try:
            unpickled = pickle.loads(pickle.dumps(self.structure))
        except (pickle.PicklingError, AttributeError, TypeError):
            # Lambdas and local classes cannot be pickled, and need not be.
            pass
        else:
            found["an unpickled copy"] = map_inference(unpickled, list(scores), **lists)
        for who, results in found.items():
            for values, value, decoded, result in zip(problems, values_found, expected, results):
                if result.value != value or not _same(result.structure, decoded):
                    self.fail(
                        f"{who} found {result.structure!r} with the value {result.value}, but the oracle alone "
                        f"{decoded!r} with {value}",
                        "the oracle must depend on its arguments only and keep nothing between calls, as threads share "
                        "it; what the structure depends on must be in its attributes",
                        values,
                    )
        nothing = np.full(self.n, -np.inf)
        if self.ask(nothing)[0] == -np.inf:
            unary, given = self.split(nothing)
            try:
                result = map_inference(self.structure, unary, **given)
            except ValueError:
                return
            self.fail(f"map_inference returned {result}", "the value must be -inf if no structure is allowed", nothing)


class _Guarded:
    """An array for an oracle to write into, with a margin on both sides that it must leave alone."""

    def __init__(self, n, fill, dtype):
        self._whole = np.full(n + 2 * _MARGIN, _UNWRITTEN, dtype)
        self.inside = self._whole[_MARGIN : _MARGIN + n]
        self.inside[:] = fill

    def is_intact(self):
        return (self._whole[:_MARGIN] == _UNWRITTEN).all() and (self._whole[-_MARGIN:] == _UNWRITTEN).all()


def _same(a, b):
    """Tell whether two decoded structures are equal, whatever they are made of."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    sequences = (list, tuple)
    if isinstance(a, sequences) and isinstance(b, sequences):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    return bool(a == b)


def _solve_qp(M, theta):
    """Maximise ``theta.y - 1/2 |M'y|^2`` over the simplex, for the rows of M; the plain active set, dense.

    Each round solves the optimality conditions on the support by least squares. They are symmetric, so that what is
    left over lies in their null space: moving along it changes no marginal, and gains.
    """
    support, y = [int(np.argmax(theta))], np.ones(1)
    tolerance = 1e-11 * (1.0 + np.abs(theta).max() + M.shape[1])
    while True:
        k = len(support)
        conditions = np.ones((k + 1, k + 1))
        conditions[:k, :k] = M[support] @ M[support].T
        conditions[k, k] = 0.0
        wanted = np.append(theta[support], 1.0)
        z = np.linalg.lstsq(conditions, wanted, rcond=1e-11)[0]
        left_over = wanted - conditions @ z
        if np.abs(left_over).max() > tolerance:
            direction, longest = left_over[:k], np.inf
        else:
            direction, longest = z[:k] - y, 1.0
        steps = np.full(k, np.inf)
        shrinking = direction < -1e-14 * (1.0 + np.abs(direction).max())
        steps[shrinking] = y[shrinking] / -direction[shrinking]
        first = int(np.argmin(steps))
        if steps[first] < longest:
            y = np.maximum(y + steps[first] * direction, 0.0)
            y = np.delete(y, first)
            del support[first]
            continue
        y = np.maximum(y + longest * direction, 0.0)
        reduced = theta - M @ (y @ M[support])
        best = int(np.argmax(reduced))
        if reduced[best] - reduced[support] @ y <= tolerance or best in support:
            solution = np.zeros(len(theta))
            solution[support] = y / y.sum()
            return solution
        support.append(best)
        y = np.append(y, 0.0)
