"""Names for annotations.

Used by `conformal`, `datasets`, `distributed`, `estimators`, `factors`, `features`, `inference`, `inspection`, `jax`,
`losses`, `metrics`, `penalties`, `pipeline`, `plotting`, `score_models`, `spans`, `structures`, `testing`, `torch`,
`available.py`, `export.py`, `partition_files.py`, `ragged.py` and `sklearn_bases.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Self

from numpy.typing import ArrayLike, DTypeLike, NDArray

LossName = Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"]
StructureName = Literal["auto", "chain", "tree", "matching"]
ScoreModelName = Literal["linear", "network", "trees", "auto"]


class HasArray(Protocol):
    """An array of any library, or a data frame."""

    def __array__(self) -> Any: ...


# A number or a text is refused, so that type checkers find misspelt options.
AdditionalScores = NDArray[Any] | list[Any] | tuple[Any, ...] | HasArray | None


class HasFit(Protocol):
    """An estimator of scikit-learn."""

    def fit(self, X: Any, y: Any) -> Any: ...


__all__ = [
    "AdditionalScores",
    "Any",
    "ArrayLike",
    "Callable",
    "DTypeLike",
    "HasFit",
    "Iterable",
    "Iterator",
    "LossName",
    "Mapping",
    "NDArray",
    "PathLike",
    "ScoreModelName",
    "Self",
    "Sequence",
    "StructureName",
]
