"""The names that annotations are written with."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike, DTypeLike, NDArray

if TYPE_CHECKING:
    from typing_extensions import Self
else:
    # Only Python 3.11 and later have it, and annotations are not evaluated.
    Self = Any

LossName = Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"]

__all__ = [
    "Any",
    "ArrayLike",
    "Callable",
    "DTypeLike",
    "Iterable",
    "Iterator",
    "LossName",
    "Mapping",
    "NDArray",
    "PathLike",
    "Self",
    "Sequence",
]
