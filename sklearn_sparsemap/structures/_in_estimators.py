"""InEstimators: how estimators learn and predict structures, beyond the protocol of `Structure`.

Used by `estimators`, `structures/_chain`, `structures/_path`, `structures/_segmentation`, `structures/_tree`,
`_base.py`, `_custom.py` and `_linear_program.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._core.annotations import Any, NDArray, Sequence


@dataclass(frozen=True)
class InEstimators:
    """How estimators learn and predict structures of one kind. The defaults fit most structures.

    A structure that differs has another object as its attribute or property `in_estimators`, if need be of a subclass.

    Attributes
    ----------
    row_outputs : int or None
        Number of scores that a linear model computes for a row of features, if structures are not `labelled`: the
        length of the last axis of scores. None means a single score, and scores without such an axis.
    predicts_arrays : bool
        Whether all structures are arrays of one shape, which `predict` returns as one array.
    trains_on_pool : bool
        Whether `DecisionFocusedRegressor` trains over the solutions found so far, because a call of the oracle takes
        long.
    """

    row_outputs: int | None = None
    predicts_arrays: bool = False
    trains_on_pool: bool = False

    # A method ``bound_message(structure, predicted)``, which returns a warning about predicted structures that a limit
    # bounds, or None; if there is none, nothing is asked. See `Segmentation`.
    bound_message = None

    def misfits(self, structure: Any, gold: Any) -> tuple[str, ...]:
        """Return the reasons why a true structure is not allowed, if `repair` can repair it."""
        return ()

    def repair(self, structure: Any, gold: Any) -> Any:
        """Return an allowed structure close to a true structure that has `misfits`; other structures as they are."""
        return gold

    def encode_all(self, structure: Any, structures: Sequence[Any], dims: NDArray[Any]) -> Any:
        """Return structures of one problem as a list of pairs (slots, additional_slots).

        A subclass may encode all of them together, and need not check them.
        """
        return [structure.encode(each, dims) for each in structures]

    def for_training(self, structure: Any) -> Any:
        """Return the structure over which losses are computed."""
        return structure
