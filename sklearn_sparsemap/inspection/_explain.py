"""`explain`: contributions to the difference of the scores of two structures."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.annotations import Any, Sequence
from .._core.html import as_html, short, table
from .._core.unwrap import single_sample, transformed_sample, unwrap_whole
from .._core.validation import check_positive
from ._tables import as_table, check_feature_names

_ENTRY = [("name", object), ("row", np.int64), ("label", object), ("contribution", np.float64), ("part_of", object)]
PREDICTED, RIVAL = "predicted", "rival"
# Maximum number of characters of a structure in a title. Of longer ones, only the differences are shown.
_TITLE = 60


class Explanation:
    """The difference of the scores of two structures, as a sum of contributions; see `explain`.

    A positive contribution speaks for the predicted structure, and a negative one for the rival. If a feature speaks
    against a part of the rival, such as a label that is not predicted, its contribution is positive.

    Attributes
    ----------
    predicted, rival : structures
        As `predict` returns them.
    score_difference : float
        Score of the first minus score of the second.
    quantity : str
        The quantity that is compared: ``"scores"``, or ``"log odds"`` of label sets.
    contributions : ndarray of shape (n_contributions,)
        These add up to `score_difference`.
    names : list of str
        The source of each contribution: the name of a feature, ``intercept``, an additional score such as
        ``transitions[N, V]``, or ``size`` (the amount that the objective of the loss subtracts from each part). For
        label sets also ``edge[jazz]`` (the edge to this label), ``network`` (the score of a label by hidden layers),
        ``rules`` (of a hierarchy), and ``calibration`` (the excess of large log odds, which grow slowly).
    rows : ndarray of shape (n_contributions,)
        The row of features, step or part; -1 for additional scores.
    labels : list
        The label of the weight; of factor graphs the variable, such as ``links[0, 1]``; of other structures whose
        scores have two axes the position in these, such as ``[0, 1]``; else None.
    parts_of : list of {"predicted", "rival"}
        The structure that has the part of each contribution. The other structure does not have it. If samples have a
        single label, the contribution of a feature to both labels is one entry, under the predicted label.
    """

    def __init__(self, predicted, rival, score_difference, entries, parts_of=None, quantity="scores"):
        self.predicted, self.rival, self.score_difference = predicted, rival, score_difference
        self.quantity = quantity
        self.parts_of = [PREDICTED] * len(entries) if parts_of is None else list(parts_of)
        entries = np.array([(*entry, part_of) for entry, part_of in zip(entries, self.parts_of, strict=True)], _ENTRY)
        self.names = entries["name"].tolist()
        self.labels = entries["label"].tolist()
        self.rows, self.contributions = entries["row"], entries["contribution"]
        self._entries = entries

    @property
    def title(self) -> str:
        """The two structures in two lines; of long ones the parts in which they differ."""
        texts = [_text_of(structure) for structure in (self.predicted, self.rival)]
        if max(map(len, texts)) > _TITLE or texts[0] == texts[1]:
            texts = [self._own_parts(side) for side in (PREDICTED, RIVAL)]
        return f"predicted: {texts[0]}\ncompared with: {texts[1]}"

    def _own_parts(self, side):
        """Return as text the parts that only one of the structures has."""
        entries = [entry for entry in self._entries.tolist() if entry[4] == side]
        rows = {(row, label) for _, row, label, *_ in self._entries.tolist() if row >= 0}
        has_places = len({label for _, label in rows}) < len(rows)
        parts = {}
        for name, row, label, *_ in entries:
            where = f" at {row}" if has_places else ""
            if row >= 0:
                parts[f"part {row}" if label is None else f"{label}{where}"] = None
            elif not any(entry[1] >= 0 for entry in entries):
                parts[name if label is None else str(label)] = None
        text = ", ".join(parts)
        text = text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"
        return f"{text}, where they differ" if parts else "without these"

    def table(self, n: int | None = None, *, output: str = "array") -> Any:
        """List the contributions, the largest in size first.

        Parameters
        ----------
        n : int, default=None
            Maximum number of contributions. By default, all.
        output : {"array", "pandas"}, default="array"

        Returns
        -------
        table : structured array, or DataFrame, with the columns name, row, label, contribution and part_of
        """
        if n is not None:
            check_positive("n", n, integer=True)
        order = np.argsort(-np.abs(self.contributions), kind="stable")[:n]
        return as_table(self._entries[order], output)

    def __repr__(self):
        return (
            f"Explanation({short(self.predicted)} over {short(self.rival)} by {self.score_difference:.4g}, "
            f"{len(self.contributions)} contributions)"
        )

    def _repr_html_(self):
        rows = [
            (name, "" if row < 0 else row, "" if label is None else label, f"{value:+.4g}", part_of)
            for name, row, label, value, part_of in self.table(20).tolist()
        ]
        heading = f"{self.title.replace(chr(10), '; ')}. Difference of {self.quantity}: {self.score_difference:.4g}"
        columns = ("name", "row", "label", "contribution", "part of")
        return as_html(heading, table(columns, rows, len(self.contributions)))


def _text_of(structure):
    """Return a structure as text for a title: names, numbers, or the positions of the parts of a mask."""
    if isinstance(structure, dict):
        return "; ".join(f"{name}: {_text_of(own)}" for name, own in structure.items())
    array = np.asarray(structure)
    if array.dtype == bool:
        places = np.argwhere(array).tolist()
        chosen = [str(place[0] if len(place) == 1 else place) for place in places]
        return ", ".join(chosen) or "nothing"
    if array.ndim == 0:
        return str(structure)
    return ", ".join(map(str, array.tolist())) or "nothing"


def explain(model: Any, x: Any, *, against: Any = None, feature_names: Sequence[str] | None = None) -> Explanation:
    """Explain why a model predicts a structure and not the second best one.

    The score of a structure is a sum of contributions of features and additional scores. So is the difference of two
    scores, where only the parts in which the structures differ contribute.

    The score of a label set is the sum of the log odds of its labels, by `predict_proba` before rules are applied. With
    most decision rules `predict` may choose another set than the one with the highest score; the difference is then
    negative.

    Parameters
    ----------
    model : estimator
        A fitted `StructuredSparseMAPClassifier`, `GroupLassoPerceptron` or `MultilabelLPSparseMAP`; or a pipeline or a
        search around one, also scikit-learn's own.
    x : a sample
        A sample: an element of the list that ``predict`` takes; of a table also a single row, as a table or a Series;
        a text or a dict also in a list or Series.
    against : structure, default=None
        The structure to compare with, such as a set of names of labels. Default: the structure with the highest score
        among those that are not predicted.
    feature_names : sequence of str, default=None
        As in `feature_table`.

    Returns
    -------
    explanation : Explanation
        Its `contributions` add up to its `score_difference`.

    Raises
    ------
    ValueError
        If the model is not a linear structured one, `against` is not a structure of the sample, or there is only one.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.inspection import explain
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> tagger = StructuredSparseMAPClassifier("chain", alpha=1e-4)
    >>> model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), tagger)
    >>> model = model.fit([["the", "dog"], ["the", "cat"]], [["D", "N"], ["D", "N"]])
    >>> why = explain(model, ["the", "dog"])
    >>> why.predicted.tolist(), bool(abs(why.contributions.sum() - why.score_difference) < 1e-9)
    (['D', 'N'], True)
    >>> "word[0]=dog" in why.names
    True
    """
    steps, last = unwrap_whole(model)
    is_label_set = hasattr(last, "label_table")
    if not is_label_set and not hasattr(last, "_check_gibbs"):
        raise ValueError(
            "explain is for StructuredSparseMAPClassifier, GroupLassoPerceptron and MultilabelLPSparseMAP; got "
            f"{type(last).__name__}"
        )
    if is_label_set:
        X = transformed_sample(steps, last, x)
        names = check_feature_names(steps, last, feature_names, X.shape[1] if hasattr(X, "shape") else len(X[0]))
        predicted, rival, difference, terms = last._explain(X, against, names)
        of_row = {*names, "network"}
        entries = [(name, 0 if name in of_row else -1, label, amount) for name, label, _, amount in terms]
        sides = [PREDICTED if is_predicted else RIVAL for *_, is_predicted, _ in terms]
        if isinstance(predicted, list | tuple | np.ndarray):
            return Explanation(predicted, rival, difference, entries, sides, "log odds")
        return Explanation(predicted, rival, difference, _joined(entries, predicted), None, "log odds")
    return _of_structures(model, x, against, feature_names)


def _of_structures(model, x, against, feature_names):
    """Explain the prediction of a model of structures; see `explain`."""
    steps, last = unwrap_whole(model)

    def run(task, scores, additional):
        (best,) = task.n_best(scores, additional, 1 if against is not None else 2, None)
        return [(task, scores, additional, best)]

    with single_sample(model, x):
        structure, X = last._check_predict(transformed_sample(steps, last, x))
        if not X.indptr[-1]:
            raise ValueError("x has no steps, and so there is nothing to explain")
        ((task, scores, additional, best),) = last._infer(X, "map", None, run)
    if against is None:
        if len(best) < 2:
            raise ValueError("there is only one structure that is not forbidden, and nothing to compare it with")
        rival = best[1][0]
    else:
        rival = _as_codes(last, structure, against)
    first = best[0][0]
    parts, joint = (_nonzero(signs) for signs in task.difference(first, rival))
    names = check_feature_names(steps, last, feature_names, last.n_features_in_)
    graph = task.graphs[0] if structure.uses_graphs else None
    label_of = _labels_of_parts(last, structure, X, graph)
    entries = _of_parts(last, X, scores, parts, names, bool(np.any(task.varies)), label_of)
    values = [sign * float(scores.flat[part]) for part, sign in parts]
    classes = last.classes_.tolist() if structure.labelled else None
    shown = _names_of(task.additional_shapes, classes, graph)
    values += [sign * float(additional[part]) for part, sign in joint]
    own = [((shown[part], -1, None, sign * float(additional[part])), sign) for part, sign in joint if additional[part]]
    entries += own
    sides = [PREDICTED if sign > 0.0 else RIVAL for _, sign in entries]
    entries = [entry for entry, _ in entries]
    first = last._as_labels(first)
    rival = last._as_labels(rival)
    if structure.is_flat:
        return Explanation(first, rival, float(sum(values)), _joined(entries, first))
    return Explanation(first, rival, float(sum(values)), entries, sides)


def _joined(entries, predicted):
    """Return one entry for each source of a single label: its contributions to both labels together."""
    totals = {}
    for name, row, _, amount in entries:
        totals[name, row] = totals.get((name, row), 0.0) + amount
    return [(name, row, predicted, amount) for (name, row), amount in totals.items()]


def _as_codes(last, structure, given):
    """Return a structure as a user gives it in the form in which structures are encoded."""
    if not structure.labelled:
        return given
    code = {label: i for i, label in enumerate(last.classes_.tolist())}
    flat = structure.score_ndim == 1
    labels = [given] if flat else given.tolist() if hasattr(given, "tolist") else list(given)
    unknown = [label for label in labels if label not in code]
    if unknown:
        raise ValueError(f"against has the label {unknown[0]!r}, which is not in classes_")
    return code[given] if flat else np.array([code[label] for label in labels])


def _nonzero(signs):
    """Return the parts in which two structures differ, with their signs; repeated parts are counted."""
    return [(part, float(signs[part])) for part in np.flatnonzero(signs).tolist()]


def _names_of(shapes, classes, graph=None):
    """Return a name for each additional score, such as ``transitions[N, V]``, or ``pairs[u[0], u[1]]`` in a graph."""
    ends = {} if graph is None else {factor.name: factor for factor in graph.scored if hasattr(factor, "n_pairs")}
    names = []
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            names += [f"{name}.{own}" for own in _names_of(shape, classes)]
        elif shape == ():
            names.append(name)
        elif name in ends:
            names += [f"{name}[{a!r}, {b!r}]" for a, b in zip(ends[name].first, ends[name].second)]
        else:
            places = (
                ", ".join(str(i if classes is None else classes[i]) for i in index) for index in np.ndindex(shape)
            )
            names += [f"{name}[{place}]" for place in places]
    return names


def _labels_of_parts(last, structure, X, graph):
    """Return a function from the number of a part to its label: a name or, of several axes, its position."""
    n_outputs = len(last._current.intercept)
    if graph is not None:
        return graph.describe
    if structure.labelled:
        classes = last.classes_.tolist()
        return lambda part: classes[part % n_outputs]
    if n_outputs > 1 or structure.score_ndim == 1:
        return lambda part: part % n_outputs if n_outputs > 1 else None
    shape = structure.scores_shape(tuple(X.grids[0].tolist()), 1)
    return lambda part: str([int(i) for i in np.unravel_index(part, shape)])


def _of_parts(last, X, scores, parts, names, varies, label_of):
    """Return the contributions of features and intercepts, each with the sign of its part."""
    rows = sparse.csr_array(X.values)
    coef = last._current.coef
    intercepts = last._current.intercept.tolist()
    entries = []
    for part, sign in parts:
        row, output = divmod(part, len(intercepts))
        x, weights = rows[[row]], coef[:, [output]]
        weights = weights.toarray() if sparse.issparse(weights) else weights
        products = x.data * weights[x.indices, 0]
        label = label_of(part)
        intercept = intercepts[output]
        found = [(names[f], row, label, sign * p) for f, p in zip(x.indices.tolist(), products.tolist()) if p]
        if intercept:
            found.append(("intercept", row, label, sign * intercept))
        if varies:
            # Inference adds this to the linear score of a part if structures differ in their number of parts.
            rest = float(scores.flat[part]) - float(products.sum()) - intercept
            found.append(("size", row, label, sign * rest))
        entries += [(entry, sign) for entry in found]
    return entries
