"""The face of a fitted model: all that other rooms may know of it.

Used by `conformal`, `estimators/_multilabel`, `estimators/_structured`, `inspection` and `plotting`.

A face is an object beside the estimator, not a set of its attributes, so that users do not see these names in `dir`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from .._core.annotations import Any, NDArray, Sequence
from .._training._task import Task


class Batch(NamedTuple):
    """Samples with the scores of a model.

    Attributes
    ----------
    task : Task
        The samples that have rows.
    scores : array of shape (n_rows, n_outputs)
    additional : array of shape (n_additional,)
    is_empty : bool array of shape (n_samples,)
        Whether a sample has no rows.
    rows : array or CSR of shape (n_rows, n_features)
    """

    task: Task
    scores: NDArray[Any]
    additional: NDArray[Any]
    is_empty: NDArray[Any]
    rows: Any


class Explained(NamedTuple):
    """The difference of the scores of two structures of a sample, as a sum of terms; see `inspection.explain`.

    Attributes
    ----------
    predicted, rival : structures
        As `predict` shows them.
    difference : float
    terms : list of (name, row, label, amount)
    sides : list of bool, or None
        Whether the predicted structure has the part of a term; the rival has it otherwise. None if a structure is a
        single label.
    quantity : str
        The quantity that is compared.
    without_rules : structure or None
        The one with the highest score if no rule held, as `predict` shows it. None if the model has no rules, or if
        these are not separate from the structure.
    broken : list of str
        The rules that it violates.
    """

    predicted: Any
    rival: Any
    difference: float
    terms: list[tuple[Any, ...]]
    sides: list[bool] | None
    quantity: str
    without_rules: Any = None
    broken: Sequence[str] = ()


class Face(Protocol):
    """A fitted model.

    Structures have the form in which a task predicts them; `gold` and `decode` convert those of users.
    """

    @property
    def learned(self) -> Any:
        """The score model: a `ScoreModel`."""

    @property
    def classes(self) -> Any:
        """The labels, if a structure is one of them, else None."""

    @property
    def n_jobs(self) -> int | None:
        """The number of threads."""

    @property
    def takes_rows(self) -> bool:
        """Whether samples are rows of a table, with one label or label set each."""

    def problems(self, X: Any, argmax: str, purpose: str = "") -> Batch:
        """Check samples, and compute their scores.

        Parameters
        ----------
        X : as in `predict`
        argmax : {"map", "sparsemap", "gibbs"}
            The kind of inference. The marginals of the task are those of SparseMAP, or of the Gibbs distribution.
        purpose : str, default=""
            Names the caller in the message that there is no Gibbs distribution.

        Returns
        -------
        batch : Batch

        Raises
        ------
        ValueError
            If `X` is invalid, or the model has no Gibbs distribution.
        """

    def gold(self, task: Task, y: Any) -> Any:
        """Check one structure for each sample of a task; return them as `Task.parts` takes them."""

    def decode(self, structures: list[Any]) -> list[Any]:
        """Return structures of one sample as `predict` shows them."""

    def named_errors(self, batch: Batch) -> AbstractContextManager[None]:
        """Let errors of inference name samples of X, or the constraints of the model."""

    def explain(self, X: Any, against: Any, names: list[str]) -> Explained:
        """Compare the predicted structure of one sample with another one.

        Parameters
        ----------
        X : as in `predict`
        against : structure as `fit` takes it, or None
            By default, the one with the highest score among all others.
        names : list of str
            The names of the features.
        """

    def in_order(self, y: Any) -> Any:
        """Return label sets as an indicator matrix in the order of `classes_`, and other `y` as they are."""


def face_of(model: Any) -> Face | None:
    """Return the face of an estimator; None for those of other packages, and others without parts."""
    make = getattr(model, "_face", None)
    return None if make is None else make()
