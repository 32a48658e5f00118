"""The face of a model of label sets.

Used by `base.py`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from copy import copy

import numpy as np
from scipy import sparse

from ..._core.annotations import Any, NDArray
from ..._training._label_task import LabelTask
from ..._training._task import Task
from ...inference._labels import LabelGraph
from .._face import Batch, Explained
from .._structured.explanation import joined
from .._structured.restrictions import explain_infeasible
from .inference import check_finite

_ROUNDING = 1e-12  # largest term of log odds that explanations omit


class LabelSetFace:
    """The face of a fitted `LabelSetClassifier`; see `Face`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.n_jobs: int | None = model.n_jobs
        self.takes_rows = True

    @property
    def learned(self) -> Any:
        return self._model._learned.model

    @property
    def classes(self) -> Any:
        return None if self._model._graph.varies else self._model.classes_

    def problems(self, X: Any, argmax: str, purpose: str = "") -> Batch:
        model = self._model
        X = model._check_predict(X)
        network = model._learned.model
        if argmax == "gibbs":
            # Calibrated log odds include the scores of edges.
            inference = model._inference
            scores = inference.calibration.log_odds(inference.evidence(network, X))
            task = LabelTask(_without_edges(model._graph), "logistic")
            additional = np.zeros(0)
        else:
            scores = check_finite(network.scores(X)) + model._inference.shift(argmax)
            task = LabelTask(model._graph, "sparsemap")
            additional = network.additional
        task.row_ptr = np.arange(len(scores) + 1)
        return Batch(task, scores, additional, np.zeros(len(scores), bool), X)

    def gold(self, task: Task, y: Any) -> NDArray[Any]:
        return self._model._targets.gold(y, self._model._graph, len(task.row_ptr) - 1)

    def decode(self, structures: list[Any]) -> list[Any]:
        return list(self._model._targets.decode(np.array(structures)))

    def named_errors(self, batch: Batch) -> AbstractContextManager[None]:
        return explain_infeasible()

    def explain(self, X: Any, against: Any, names: list[str]) -> Explained:
        """Compare label sets by the sums of their log odds; see `Face`."""
        model = self._model
        X = model._check_one(X)
        network = model._learned.model
        inference = model._inference
        calibration = inference.calibration
        targets = model._targets
        labels = model.classes_.tolist()
        evidence = inference.evidence(network, X)
        (odds,) = calibration.log_odds(evidence)
        (predicted,) = inference.choose(network, X)
        rival = _rival(model._graph, odds, predicted) if against is None else targets.encode(against, model._graph)
        row = sparse.csr_array(X)
        marginals = inference.marginals(network, X)[0] if len(model.edges_) else None
        terms = []
        sides = []
        for j in np.flatnonzero(predicted != rival).tolist():
            sign = 1.0 if predicted[j] else -1.0
            slope = calibration.slopes[j]
            offset = calibration.offsets[j]
            own = model._amounts(row, j, marginals)
            found = [(_name_of(source, name, names, labels), slope * a) for source, name, a in own]
            found = [pair for pair, (source, *_) in zip(found, own) if source != "intercept"]
            # The intercept of a score and the offset of its calibration mostly cancel, so they are a single term.
            found.append(("intercept", offset + slope * sum(a for source, _, a in own if source == "intercept")))
            # Under a hierarchy, the scores of related labels are averaged. Large log odds grow slowly.
            found.append(("rules", slope * (evidence[0, j] - sum(a for _, _, a in own))))
            found.append(("calibration", odds[j] - (slope * evidence[0, j] + offset)))
            of_row = {*names, "network"}
            for name, amount in found:
                if abs(amount) > _ROUNDING:
                    terms.append((name, 0 if name in of_row else -1, labels[j], float(sign * amount)))
                    sides.append(bool(predicted[j]))
        difference = float(odds @ predicted - odds @ rival)
        first = targets.shown(predicted)
        second = targets.shown(rival)
        if self.classes is not None:
            return Explained(first, second, difference, joined(terms, first), None, "log odds")
        free, broken = None, ()
        if model._graph.constraints:
            without = copy(inference)
            without.graph = LabelGraph(model._graph.n_labels, model._graph.edges, [])
            (chosen,) = without.choose(network, X)
            free = targets.shown(chosen)
            broken = [repr(rule) for rule in model._graph.broken(chosen)]
        return Explained(first, second, difference, terms, sides, "log odds", free, broken)

    def in_order(self, y: Any) -> Any:
        return self._model._in_order(y)


def _name_of(source, name, feature_names, labels):
    """Return the name of a term, given its source and its name or index; see `LabelSetClassifier._amounts`."""
    if source == "feature":
        return feature_names[name]
    return f"edge[{labels[name]}]" if source == "label" else name or source


def _without_edges(graph):
    return LabelGraph(graph.n_labels, graph.edges[:0], graph.constraints) if len(graph.edges) else graph


def _rival(graph, odds, predicted):
    """Return the set with the highest sum of log odds that satisfies all constraints, except the predicted set."""
    for labels in _without_edges(graph).n_best(odds, np.zeros(0), 2):
        if (labels != predicted).any():
            return labels
    raise ValueError("there are no other labels that satisfy the constraints, and nothing to compare with")
