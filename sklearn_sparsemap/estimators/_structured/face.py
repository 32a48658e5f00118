"""`StructuredFace`: all that `conformal`, `inspection` and `plotting` know of a fitted model of structures.

Used by `base.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from ..._core.annotations import Any, NDArray
from ..._core.errors import SampleError
from ..._training._structure_task import UNKNOWN
from ..._training._task import Task
from .._face import Batch, Explained
from .explanation import joined, not_linear, terms_of_difference
from .restrictions import explain_infeasible
from .targets import targets_of


class StructuredFace:
    """The face of a fitted `LinearStructuredModel`; see `Face`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.n_jobs: int | None = model.n_jobs
        self.learned: Any = model._learned.model

    @property
    def takes_rows(self) -> bool:
        return bool(self._model._structure.is_flat)

    @property
    def classes(self) -> Any:
        return self._model.classes_ if self.takes_rows else None

    def problems(self, X: Any, argmax: str, purpose: str = "") -> Batch:
        model = self._model
        if argmax == "gibbs":
            model._check_gibbs(purpose)
        _, X = model._check_predict(X)
        task = model._task(X)
        if argmax == "sparsemap":
            task.loss = "sparsemap"
        scores = np.zeros((0, task.n_outputs))
        additional = np.zeros(task.n_additional)
        if X.indptr[-1]:
            scores, additional = model._scores(task, X, model._learned.model, argmax)
        return Batch(task, scores, additional, X.lengths == 0, X.values)

    def gold(self, task: Task, y: Any) -> NDArray[Any]:
        gold = self._model._read_gold(y, np.diff(task.row_ptr))
        if gold.dtype != object and (gold == UNKNOWN).any():
            i = int(np.searchsorted(task.row_ptr, np.argmax(gold == UNKNOWN), side="right")) - 1
            raise SampleError("y", i, " has a label of None, which is unknown; leave the sample out")
        return gold

    def decode(self, structures: list[Any]) -> list[Any]:
        model = self._model
        return list(targets_of(model._structure).named(structures, vars(model).get("classes_")))

    def named_errors(self, batch: Batch) -> AbstractContextManager[None]:
        return explain_infeasible(np.flatnonzero(~batch.is_empty), constraints=self._model.constraints)

    def explain(self, X: Any, against: Any, names: list[str]) -> Explained:
        if "explain" not in self.learned.supports:
            raise ValueError(not_linear("explain"))
        batch = self.problems(X, "map")
        if batch.is_empty.all():
            raise ValueError("x has no steps, and so there is nothing to explain")
        with self.named_errors(batch):
            (best,) = batch.task.n_best(batch.scores, batch.additional, 2 if against is None else 1, None)
        targets = targets_of(self._model._structure)
        classes = vars(self._model).get("classes_")
        if against is not None:
            rival = targets.encode(against, classes)
        elif len(best) == 2:
            rival = best[1][0]
        else:
            raise ValueError("there is only one structure that is not forbidden, and nothing to compare it with")
        first = best[0][0]
        if self._model._structure.labelled and np.shape(rival) != np.shape(first):
            raise ValueError(f"against has {np.size(rival)} labels, but x has {np.size(first)} steps")
        labels = targets.labels(classes)
        difference, terms, sides = terms_of_difference(batch, self.learned, first, rival, names, labels)
        predicted, rival = self.decode([first, rival])
        if self.classes is not None:
            return Explained(predicted, rival, difference, joined(terms, predicted), None, "scores")
        found = self._without_rules(batch, classes)
        free, broken = (None, ()) if found is None else (self.decode([found[0]])[0], found[1])
        return Explained(predicted, rival, difference, terms, sides, "scores", free, broken)

    def _without_rules(self, batch: Batch, classes: Any) -> Any:
        """Return the best structure of one sample without rules, and the rules that it violates; None for no rules."""
        model = self._model
        if model.constraints is None:
            return batch.task.without_rules(batch.scores, batch.additional)
        codes = batch.task.predict(batch.scores, self.learned.additional.astype(np.float64), None)
        return codes, model._transition_mask(model._structure, classes).broken(codes)

    def in_order(self, y: Any) -> Any:
        return y
