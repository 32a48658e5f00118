"""CustomStructure: a structure given by a user's MAP oracle, in plain Python or compiled with `numba.njit`.

Used by `_linear_program.py`.
"""

from __future__ import annotations

import itertools
import weakref

import numpy as np
from numba import objmode

from .._core.annotations import Any, Callable, Mapping, NDArray, Sequence
from .._core.jit import as_oracle, is_compiled, readonly, wrap_oracle
from .._core.threads import deferred_errors
from .._core.validation import check_positive
from ._base import TAKEN_NAMES, InEstimators, Structure, as_flag, as_parts

# The structures whose Python oracle is called from kernels, by the number that identifies them in `dims`.
_called = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _call_oracle(number, scores, additional, slots, additional_slots):
    """Call a Python oracle; fill the slots with its answer, and return the answer's score.

    If it fails, it reports that no structure is allowed, at this and all later calls of the same kernel; see
    `deferred_errors`.
    """
    errors = deferred_errors()
    if errors is None:
        return _call_map_oracle(number, scores, additional, slots, additional_slots)
    if not errors:
        try:
            return _call_map_oracle(number, scores, additional, slots, additional_slots)
        except BaseException as error:
            errors.append(error)
    slots[:] = additional_slots[:] = -1
    return -np.inf


def _call_map_oracle(number, scores, additional, slots, additional_slots):
    structure = _called[int(number)]
    scores = readonly(scores)
    found = structure.map_oracle(scores, readonly(additional)) if structure.additional else structure.map_oracle(scores)
    if found is None:
        slots[:] = additional_slots[:] = -1
        return -np.inf
    parts, additional_parts = structure.check_parts(found, len(scores), len(additional), "map_oracle returned")
    slots.fill(-1)
    slots[parts] = parts
    value = float(np.add.reduce(scores[parts]))
    if structure.additional:
        additional_slots.fill(-1)
        additional_slots[: len(additional_parts)] = additional_parts
        value += float(additional[additional_parts].sum())
    return value


@as_oracle(calls_python=True)
def python_oracle(scores, additional, dims, work, slots, additional_slots):
    """Call the Python function of the structure with the number dims[1]."""
    with objmode(value="float64"):
        value = _call_oracle(dims[1], scores, additional, slots, additional_slots)
    return value


class CustomStructure(Structure):
    """A structure that is given by its MAP oracle: any function that finds the best choice of parts.

    Scores have shape (n_parts,). It works with every solver, with derivatives, and in estimators, where a sample has
    one row of features for each part. `sklearn_sparsemap.testing.check_structure` tests an oracle.

    Parameters
    ----------
    map_oracle : callable
        ``map_oracle(scores)`` returns the indices of the parts of a structure of highest total score, each once: a
        sequence of ints. Scores must not be changed, and may be -inf (the part is forbidden). The structure must be
        complete even then; a Python oracle may return None to say that no structure is allowed. With `additional`,
        ``map_oracle(scores, additional)`` returns two sequences: the unary parts, and the additional parts as indices
        into `additional`, all additional scores flattened and joined in their order (repeats count). A function made by
        `numba.njit` is called without the interpreter, by several threads at once; it must return int arrays, and says
        that no structure is allowed by choosing a forbidden part.
    n_parts : int, default=None
        The number of parts, if it is always the same.
    additional : dict of str -> tuple of int, default=None
        Names and shapes of the additional scores. A linear model learns them.
    max_additional_parts : int, default=None
        Largest number of additional parts of a structure, with repeats. By default the number of all scores.
    encode : callable, default=None
        Converts a structure, as given in `y`, to the form that `map_oracle` returns. By default, a structure is a
        sequence of parts. Needed with `additional`.
    decode : callable, default=None
        Converts the sorted int array of a structure's parts to the form that `predict` returns. By default, that array.
    fixed_size : bool, default=False
        Whether all structures of a problem have the same number of parts, so that the number need not be predicted; see
        `Structure`.

    Examples
    --------
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.structures import CustomStructure
    >>> def two_neighbours(scores):
    ...     first = max(range(len(scores) - 1), key=lambda i: scores[i] + scores[i + 1])
    ...     return [first, first + 1]
    >>> result = sparsemap(CustomStructure(two_neighbours), [1.0, 0.5, 0.0, 1.0])
    >>> [parts.tolist() for parts in result.structures], result.weights.round(3).tolist()
    ([[0, 1], [2, 3]], [0.625, 0.375])
    """

    score_ndim = 1
    # An instance attribute here, set by a parameter.
    fixed_size = False
    _rows_of_samples = "a custom structure has one row for each part"
    no_marginals = "a MAP oracle does not tell how to sum over all structures"

    def __init__(
        self,
        map_oracle: Callable[..., Any],
        *,
        n_parts: int | None = None,
        additional: Mapping[str, tuple[int, ...]] | None = None,
        max_additional_parts: int | None = None,
        encode: Callable[..., Any] | None = None,
        decode: Callable[..., Any] | None = None,
        fixed_size: bool = False,
    ) -> None:
        for name, function in (("map_oracle", map_oracle), ("encode", encode), ("decode", decode)):
            if not callable(function) and (function is not None or name == "map_oracle"):
                raise ValueError(f"{name} must be a function; got {function!r}")
        for name, number in (("n_parts", n_parts), ("max_additional_parts", max_additional_parts)):
            if number is not None:
                check_positive(name, number, integer=True)
        is_dict = additional is None or isinstance(additional, dict)
        if not is_dict or not all(isinstance(shape, tuple) for shape in (additional or {}).values()):
            raise ValueError(f"additional must map names to shapes, which are tuples of int; got {additional!r}")
        taken = sorted(TAKEN_NAMES & set(additional or {}))
        if taken:
            raise ValueError(f"additional scores cannot be named {taken[0]!r}, like a parameter of inference")
        if additional and encode is None:
            raise ValueError("with additional scores, encode must say which additional parts a structure has")
        self.map_oracle = map_oracle
        self.n_parts = n_parts
        self.additional = dict(additional or {})
        self.max_additional_parts = max_additional_parts
        self._encode = encode
        self._decode = decode
        self.fixed_size = as_flag("fixed_size", fixed_size)

    @property
    def additional_names(self) -> tuple[str, ...]:
        return tuple(self.additional)

    @property
    def oracle(self) -> Any:
        return wrap_oracle(self.map_oracle, bool(self.additional)) if is_compiled(self.map_oracle) else python_oracle

    @property
    def in_estimators(self) -> InEstimators:
        return InEstimators(trains_on_pool=not is_compiled(self.map_oracle))

    @property
    def _n_additional(self):
        return sum(int(np.prod(shape)) for shape in self.additional.values())

    def additional_shapes(self, shape: tuple[int, ...]) -> dict[str, tuple[tuple[int, ...], ...]]:
        return {name: (s,) for name, s in self.additional.items()}

    def dims(self, shape: tuple[int, ...], given: Mapping[str, tuple[int, ...]]) -> NDArray[Any]:
        if self.n_parts is not None and shape[0] != self.n_parts:
            raise ValueError(f"this structure has {self.n_parts} parts, but there are {shape[0]} scores")
        missing = [name for name in self.additional if name not in given]
        if missing:
            raise ValueError(f"this structure needs the additional scores {missing[0]!r}; pass zeros if it has none")
        if "_number" not in vars(self):
            # `_params` leaves this attribute out by its name.
            self._number = next(_numbers)
            _called[self._number] = self
        return shape[0], self._number

    def sizes(self, dims: NDArray[np.int64]) -> tuple[int, ...]:
        n_additional = self._n_additional
        most = dims[0] + n_additional if self.max_additional_parts is None else self.max_additional_parts
        return dims[0], most if n_additional else 0, 0

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        n_parts = int(dims[0])
        n_slots, n_additional_slots, _ = self.sizes((n_parts,))
        found = structure if self._encode is None else self._encode(structure)
        parts, additional_parts = self.check_parts(found, n_parts, self._n_additional, "a structure has")
        slots = np.full(n_slots, -1)
        additional_slots = np.full(n_additional_slots, -1)
        slots[parts] = parts
        additional_slots[: len(additional_parts)] = additional_parts
        return as_parts(slots), as_parts(additional_slots)

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        parts = slots[slots >= 0].astype(np.int64)
        return parts if self._decode is None else self._decode(parts)

    def learned_shapes(self, n_outputs: int) -> dict[str, tuple[int, ...]]:
        return dict(self.additional)

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return ((2,), (3,), (5,)) if self.n_parts is None else ((self.n_parts,),)

    def check_parts(self, answered, n_parts, n_additional, what):
        """Return an answer of an oracle or `encode` as two int arrays; errors begin with `what`."""
        additional_parts = ()
        if self.additional:
            if not isinstance(answered, tuple) or len(answered) != 2:
                raise ValueError(
                    f"{what} {answered!r}; with additional scores that is a pair (parts, additional parts)"
                )
            answered, additional_parts = answered
        parts = _as_ints(answered, n_parts, what, "parts")
        # Its cost is a third of that of `np.unique`; an oracle is called thousands of times.
        if np.count_nonzero(np.bincount(parts)) < len(parts):
            raise ValueError(f"{what} a part more than once: {parts.tolist()}")
        if not self.additional:
            return parts, ()
        additional_parts = _as_ints(additional_parts, n_additional, what, "additional parts")
        most = self.sizes((n_parts,))[1]
        if len(additional_parts) > most:
            n = len(additional_parts)
            raise ValueError(f"{what} {n} additional parts, more than {most}; set max_additional_parts")
        return parts, additional_parts

    def __getstate__(self):
        # The number is valid for this object in this process only.
        return {name: value for name, value in vars(self).items() if name != "_number"}


def _as_ints(indices, n, what, part_name):
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype == bool:
        raise ValueError(f"{what} a mask; {part_name} are a sequence of ints: give np.flatnonzero(mask)")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{what} {indices!r}; {part_name} are a sequence of ints (indices)")
    array = array.astype(np.int64, copy=False)
    # As unsigned ints, negative ones are large.
    if np.maximum.reduce(array.view(np.uint64)) >= n:
        raise ValueError(f"{what} {part_name} {array.tolist()}; they must lie between 0 and {n - 1}")
    return array
