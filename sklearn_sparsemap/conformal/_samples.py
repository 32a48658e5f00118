"""Samples of a fitted model as scores of the parts of structures."""

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d

from .._core.errors import SampleError
from .._core.indicators import read_known
from .._core.offsets import split_flat
from .._core.validation import check_same_length, keep_text
from .._training._data import encode_gold
from ..estimators._multilabel.data import add_ancestors, read_indicator
from ..estimators._structured.data import codes_of, flatten_labels, rows_only
from ..estimators._structured.restrictions import explain_infeasible
from ..factors._assignments import gold_parts
from ..inference import map_inference, marginal_inference, n_best, sparsemap
from ..inference._labels import LabelGraph


def samples_of(model, X, argmax):
    """Lay out samples of a fitted model.

    Parameters
    ----------
    model : estimator
    X : as in `predict` of the model
    argmax : {"sparsemap", "gibbs"}
        The kind of inference for which scores are computed.

    Returns
    -------
    samples : ScoredStructures, ScoredGraphs or ScoredLabelSets

    Raises
    ------
    ValueError
        If the model is not from this package, is not fitted, or `X` is invalid.
    """
    if hasattr(model, "_check_gibbs"):
        if argmax == "gibbs":
            model._check_gibbs("score='log_loss'")
        structure, X = model._check_predict(X)
        return (ScoredGraphs if structure.uses_graphs else ScoredStructures)(model, X, argmax)
    if hasattr(model, "_evidence"):
        return ScoredLabelSets(model, model._check_predict(X), argmax)
    raise ValueError(
        "ConformalStructures is for StructuredSparseMAPClassifier, GroupLassoPerceptron and MultilabelLPSparseMAP, and "
        f"pipelines and searches that contain them; got {type(model).__name__}"
        + ("; pass its estimator_" if hasattr(model, "estimator_") else "")
    )


def sums_of_weights(model):
    """Return the sums of the weights of a fitted model, and of their squares: they differ after another fit."""
    sums = []
    for arrays in vars(model._learned.model).values():
        for array in arrays if isinstance(arrays, list) else [arrays]:
            values = np.asarray(array.data if sparse.issparse(array) else array, np.float64)
            sums += [float(values.sum()), float((values * values).sum())]
    return sums


class ScoredStructures:
    """Samples of one structure.

    All classes of samples have the same methods. *Parts* are a representation of a structure from which its score is
    computed; they differ between the classes.

    Parameters
    ----------
    model : LinearStructuredClassifier
    X : RaggedArray
    argmax : {"sparsemap", "gibbs"}

    Attributes
    ----------
    is_empty : bool array
        Whether a sample has no steps. All other attributes and methods are of the samples that have steps.
    scores : list of flat arrays
        Scores of the unary parts of each sample, divided by the temperature.
    varies : list of bool
        Whether the structures of a sample differ in their number of parts.
    has_classes : bool
        Whether a structure is a single label.
    """

    def __init__(self, model, X, argmax):
        self.model = model
        self.structure = model._structure
        self.is_empty = X.lengths == 0
        self.has_classes = self.structure.is_flat
        if self.is_empty.all():
            self.scores = []
            return
        X = X if X.lengths.all() else rows_only(X)
        self.task = model._task(X)
        scores, additional = model._scores(self.task, X, model._current, argmax)
        shaped = list(self.task.in_shapes(scores))
        self.scores = [s.ravel() for s in shaped]
        self.shapes = [s.shape for s in shaped]
        self.additional = split_flat(additional, self.task.additional_shapes)
        self._joined = additional
        self.varies = [not self.structure.fixed_size] * len(shaped)

    def _infer(self, inference, scores):
        shaped = [s.reshape(shape) for s, shape in zip(scores, self.shapes)]
        with explain_infeasible(np.flatnonzero(~self.is_empty), constraints=self.model.constraints):
            return inference(self.structure, shaped, n_jobs=self.model.n_jobs, **self.additional)

    def marginals(self):
        """Return the marginals of SparseMAP: list of flat arrays."""
        return [result.marginals.ravel() for result in self._infer(sparsemap, self.scores)]

    def log_partitions(self):
        """Return the logarithms of the sums of ``exp(score)`` over all structures: array."""
        return self._infer(marginal_inference, self.scores).log_partition

    def maxima(self, scores):
        """Return the maximum total score over the structures of each sample, for given scores of unary parts: array."""
        return self._infer(map_inference, scores).values

    def additional_bound(self, i):
        """Return an upper bound of the sum of the additional scores of any structure of sample i."""
        n_additional = self.structure.sizes(self.task.layout[0][i])[1]
        return n_additional * np.abs(self._joined[np.isfinite(self._joined)]).max(initial=0.0)

    def unary_parts(self, parts):
        """Return the indices of the unary parts of a structure, given its parts."""
        if self.structure.repeats:
            raise ValueError("parts are counted for structures that have each part once; use risk='structure'")
        return parts[0][parts[0] >= 0]

    def in_shape(self, i, values):
        """Return flat values of the unary parts of sample i in the shape of its scores."""
        return values.reshape(self.shapes[i])

    def n_best(self, chosen, scores, k):
        """Return the `k` best structures of each chosen sample, and their total scores: pairs of lists.

        `chosen` are the indices of the samples, and `scores` those of the unary parts of all samples.
        """
        found = []
        flat = np.concatenate(scores)
        for i, own in zip(chosen, self.task.n_best(flat, self._joined, k, self.model.n_jobs, chosen)):
            structures = [structure for structure, _ in own]
            totals = self._totals(i, scores[i], structures)
            if self.structure.labelled:
                # The labels of all structures together: one at a time takes most of the time.
                structures = list(self.model._as_labels(np.array(structures)))
            found.append((structures, totals))
        return found

    def _totals(self, i, scores, structures):
        """Return the total scores of structures of sample i, with the same rounding as those of `value`."""
        pairs = self.structure.encode_all(structures, self.task.layout[0][i])
        if len({(len(slots), len(additional_slots)) for slots, additional_slots in pairs}) == 1:
            slots = np.array([parts[0] for parts in pairs])
            extra = np.array([parts[1] for parts in pairs])
            if np.minimum.reduce(slots, None, initial=0) == np.minimum.reduce(extra, None, initial=0) == 0:
                return np.add.reduce(scores[slots], 1) + np.add.reduce(self._joined[extra], 1)
        return [self.value(i, scores, parts) for parts in pairs]

    def value(self, i, scores, parts):
        """Return the total score of a structure of sample i, given its parts."""
        slots, additional_slots = parts
        return scores[slots[slots >= 0]].sum() + self._joined[additional_slots[additional_slots >= 0]].sum()

    def parts(self, y):
        """Return the parts of gold structures, one for each sample; None if the model cannot predict a structure."""
        check_same_length(self.scores, y)
        structure = self.structure
        possible = np.ones(len(self.scores), bool)
        if structure.is_flat:
            codes = codes_of(column_or_1d(keep_text(y)).tolist(), self.model.classes_)
            possible = codes >= 0
            codes[~possible] = 0
        elif structure.labelled:
            lengths = np.array([shape[0] for shape in self.shapes])
            labels = flatten_labels(y, lengths)
            if None in labels:
                i = int(np.searchsorted(np.cumsum(lengths), labels.index(None), side="right"))
                raise SampleError("y", i, " has a label of None, which is unknown; leave the sample out")
            flat = codes_of(labels, self.model.classes_)
            codes = np.split(np.maximum(flat, 0), np.cumsum(lengths)[:-1])
            possible = np.minimum.reduceat(flat, np.cumsum(lengths) - lengths) >= 0
        else:
            codes = [structure.repair(tree) for tree in y]
            possible = np.array([not structure.misfits(tree) for tree in y])
        gold = encode_gold(structure, self.task.layout, self.task.n_outputs, codes)
        slots, extra = (np.split(values, ends[1:-1]) for values, ends in (gold[:2], gold[2:]))
        return [parts if is_possible else None for parts, is_possible in zip(zip(slots, extra), possible)]


class ScoredGraphs:
    """Samples with a factor graph each; the methods are those of `ScoredStructures`."""

    has_classes = False

    def __init__(self, model, X, argmax):
        self.model = model
        self.task = model._task(X)
        scores, self._additional = model._scores(self.task, X, model._current, argmax)
        self._matrix, self._ends = scores, self.task.row_ptr
        self.scores = [scores[a:b].ravel() for a, b in zip(self._ends[:-1], self._ends[1:])]
        self.additional = split_flat(self._additional, self.task.additional_shapes)
        self.varies = [not layout.fixed_size for layout in self.task.layouts]

    def marginals(self):
        with explain_infeasible():
            marginals, _, _ = self.task.marginals(self._matrix, self._additional, self.model.n_jobs)
        return [layout.join_variables(u, "marginals") for layout, u in zip(self.task.layouts, marginals)]

    def maxima(self, scores):
        shaped = [layout.shape_variables(own) for layout, own in zip(self.task.layouts, scores)]
        options = {"additional": self.additional, "n_jobs": self.model.n_jobs, "map_time_limit": None}
        with explain_infeasible():
            return np.array([result.value for result in map_inference(self.task.graphs, shaped, **options)])

    def n_best(self, chosen, scores, k):
        lists = []
        for i in chosen:
            graph, layout = self.task.graphs[i], self.task.layouts[i]
            own = layout.shape_variables(scores[i])
            found = n_best(graph, own, k, additional=self.additional, map_time_limit=None)
            assignments = [assignment for assignment, _ in found]
            totals = [self.value(i, scores[i], gold_parts(graph, layout, assignment)) for assignment in assignments]
            lists.append((assignments, totals))
        return lists

    def additional_bound(self, i):
        values = self.task.layouts[i].expanded(self._additional)
        return np.abs(values[np.isfinite(values)]).sum()

    def unary_parts(self, parts):
        return np.flatnonzero(parts[0] > 0.5)

    def in_shape(self, i, values):
        return self.task.layouts[i].shape_variables(values)

    def value(self, i, scores, parts):
        u, joint = parts
        return scores @ u + self.task.layouts[i].expanded(self._additional) @ joint

    def parts(self, y):
        check_same_length(self.scores, y)
        return [None if len(wrong) else (u, joint) for u, joint, wrong in self.task.parts(y)]


class ScoredLabelSets:
    """Samples of label sets, or of a single label; the methods are those of `ScoredStructures`."""

    def __init__(self, model, X, argmax):
        self.model, self.graph, network = model, model._graph, model._learned.model
        if argmax == "gibbs":
            # Calibrated log odds include the scores of edges.
            scores = model._calibration.log_odds(model._evidence(network, X))
            self.edge_scores = np.zeros(0)
            if len(self.graph.edges):
                self.graph = LabelGraph(self.graph.n_labels, self.graph.edges[:0], self.graph.constraints)
        else:
            # The regulariser of the SparseMAP loss subtracts 1/2 for each label. Other losses compensate for that.
            tilt = 0.0 if model._single or model._loss == "sparsemap" else 0.5
            scores = model._finite(network.scores(X)) + tilt
            self.edge_scores = network.additional
        self.scores = list(scores)
        self.has_classes = model._single
        self.varies = [not model._single] * len(self.scores)

    def marginals(self):
        with explain_infeasible():
            return list(self.graph.solve(np.array(self.scores), self.edge_scores, n_jobs=self.model.n_jobs).marginals)

    def log_partitions(self):
        found = self.graph.log_partitions(np.array(self.scores))
        if found is None:
            raise ValueError(
                "score='log_loss' needs constraints by which each label implies at most one other label; use "
                "score='reduced_cost'"
            )
        return found

    def maxima(self, scores):
        best = self.graph.assign(np.array(scores), self.edge_scores, n_jobs=self.model.n_jobs)
        return np.array([self.value(i, own, labels) for i, (own, labels) in enumerate(zip(scores, best))])

    def n_best(self, chosen, scores, k):
        lists = [self.graph.n_best(scores[i], self.edge_scores, k) for i in chosen]
        return [
            ([self._shown(labels) for labels in own], [self.value(i, scores[i], labels) for labels in own])
            for i, own in zip(chosen, lists)
        ]

    def _shown(self, labels):
        if self.model._single:
            return self.model.classes_[labels.argmax()]
        return self.model._names_of(labels) if self.model._named else labels.astype(np.int64)

    def additional_bound(self, i):
        return np.abs(self.edge_scores).sum()

    def unary_parts(self, parts):
        return np.flatnonzero(parts)

    def in_shape(self, i, values):
        return values

    def value(self, i, scores, parts):
        return scores[parts].sum() + self.edge_scores[parts[self.graph.edges].all(axis=1)].sum()

    def parts(self, y):
        n_labels = self.graph.n_labels
        if self.model._single:
            codes = codes_of(column_or_1d(keep_text(y)).tolist(), self.model.classes_)
            check_same_length(self.scores, codes)
            return [np.arange(n_labels) == code if code >= 0 else None for code in codes]
        y, known = read_known(self.model._in_order(y))
        if known is not None:
            i = int(np.argmin(known.all(axis=1)))
            raise SampleError("y", i, " has unknown labels (NaN), and sets hold whole label sets; leave the sample out")
        y = y if sparse.issparse(y) else np.asarray(y)
        if y.shape != (len(self.scores), n_labels):
            raise ValueError(
                f"y has shape {y.shape}; it must be an indicator matrix of shape {(len(self.scores), n_labels)}"
            )
        closed, _ = add_ancestors(read_indicator(y), self.graph.constraints)
        rows = closed.toarray() > 0.0
        wrong = self.graph.violated(closed)
        return [None if is_wrong else row for row, is_wrong in zip(rows, wrong)]
