"""Names for annotations.

Used by `conformal`, `datasets`, `distributed`, `estimators`, `factors`, `features`, `inference`, `inspection`, `jax`,
`losses`, `metrics`, `penalties`, `pipeline`, `plotting`, `score_models`, `spans`, `structures`, `testing`, `torch`,
`export.py`, `partition_files.py` and `ragged.py`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, Self

from numpy.typing import ArrayLike, DTypeLike, NDArray

LossName = Literal["sparsemap", "margin_sparsemap", "perceptron", "hinge", "crf", "margin_crf"]
StructureName = Literal["auto", "chain", "tree", "matching"]
ScoreModelName = Literal["linear", "network", "trees", "auto"]


class HasFit(Protocol):
    """An estimator of scikit-learn."""

    def fit(self, X: Any, y: Any) -> Any: ...


__all__ = [
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
