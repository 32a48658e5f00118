"""Results that are computed on demand: the common part of all batches.

Used by `graph_batch.py` and `structure_batch.py`.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar, overload

from ..._core.html import N_ROWS, as_html, table

Result = TypeVar("Result")


class LazyResults(Sequence[Result]):
    """A sequence of results, each of which is computed at its first access.

    Subclasses define `__len__` and `_make`.
    """

    _columns = ()  # names of attributes with a number for each sample, which the HTML representation shows

    # `SparseMAPBatch.__getstate__` leaves it out by this name.
    @cached_property
    def _made(self):
        return [None] * len(self)

    def _make(self, i):
        raise NotImplementedError

    @overload
    def __getitem__(self, key: int) -> Result: ...
    @overload
    def __getitem__(self, key: slice) -> list[Result]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(len(self))[key]]
        try:
            i = range(len(self))[key]
        except IndexError:
            raise IndexError(f"there are {len(self)} results; got index {key}") from None
        if self._made[i] is None:
            self._made[i] = self._make(i)
        return self._made[i]

    def __iter__(self) -> Iterator[Result]:
        return (self[i] if made is None else made for i, made in enumerate(self._made))

    def __repr__(self):
        return f"{type(self).__name__}(n_samples={len(self)})"

    def _repr_html_(self):
        arrays = [getattr(self, name)[:N_ROWS] for name in self._columns]
        rows = [[i, *values] for i, values in enumerate(zip(*arrays))]
        return as_html(repr(self), table(["sample", *self._columns], rows, len(self)))
