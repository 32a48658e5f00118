"""`explain`: why this structure, and not that one."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .._core.unwrap import transformed, unwrap
from .._core.validation import check_positive
from ..inference import n_best
from ._tables import as_table, check_feature_names

if TYPE_CHECKING:
    from collections.abc import Sequence


class Explanation:
    """The difference of the scores of two structures, as a sum of contributions; see `explain`.

    Attributes
    ----------
    predicted, rival : structures
        As `predict` returns them.
    score_difference : float
        Score of the first minus score of the second.
    contributions : ndarray of shape (n_contributions,)
        These add up to `score_difference`.
    names : list of str
        The source of each contribution: the name of a feature, ``intercept``, an additional score such as
        ``transitions[N, V]``, or ``size`` (the amount that the objective of the loss subtracts from each part).
    rows : ndarray of shape (n_contributions,)
        The row of features, step or part; -1 for additional scores.
    labels : list
        The label of the weight, or None.
    """

    def __init__(self, predicted, rival, score_difference, entries):
        self.predicted, self.rival, self.score_difference = predicted, rival, score_difference
        self.contributions = np.array([value for *_, value in entries], dtype=np.float64)
        self.names = [name for name, *_ in entries]
        self.rows = np.array([row for _, row, *_ in entries], dtype=np.int64)
        self.labels = [label for _, _, label, _ in entries]

    def table(self, n: int | None = None, *, output: str = "array") -> Any:
        """List the contributions, the largest in size first.

        Parameters
        ----------
        n : int, default=None
            Maximum number of contributions. By default, all.
        output : {"array", "pandas"}, default="array"

        Returns
        -------
        table : structured array, or DataFrame, with the columns name, row, label and contribution
        """
        if n is not None:
            check_positive("n", n, integer=True)
        order = np.argsort(-np.abs(self.contributions), kind="stable")[:n]
        rows = [
            (self.names[i], int(self.rows[i]), self.labels[i], float(self.contributions[i])) for i in order.tolist()
        ]
        dtype = [("name", object), ("row", np.int64), ("label", object), ("contribution", np.float64)]
        return as_table(rows, dtype, output)

    def __repr__(self):
        return (
            f"Explanation({_short(self.predicted)} over {_short(self.rival)} by {self.score_difference:.4g}, "
            f"{len(self.contributions)} contributions)"
        )

    def _repr_html_(self):
        cells = "".join(
            f"<tr><td>{escape(str(name))}</td><td>{'' if row < 0 else row}</td>"
            f"<td>{'' if label is None else escape(str(label))}</td><td>{value:+.4g}</td></tr>"
            for name, row, label, value in self.table(20).tolist()
        )
        return (
            f"<div><b>{escape(_short(self.predicted))}</b> over <b>{escape(_short(self.rival))}</b> by "
            f"{self.score_difference:.4g}<table><thead><tr><th>name</th><th>row</th><th>label</th>"
            f"<th>contribution</th></tr></thead><tbody>{cells}</tbody></table></div>"
        )


def explain(model: Any, x: Any, *, against: Any = None, feature_names: Sequence[str] | None = None) -> Explanation:
    """Say why a model predicts this structure for a sample, and not the runner-up.

    The score of a structure is a sum over features and additional scores, so that the difference of two scores is one,
    too: of those in which the structures differ.

    Parameters
    ----------
    model : estimator
        A fitted `StructuredSparseMAPClassifier` or `GroupLassoPerceptron`, not of factor graphs; or a pipeline or a
        search around one, also scikit-learn's own.
    x : a sample
        A sample: an element of the list that ``predict`` takes.
    against : structure, default=None
        The structure to compare with. Default: the structure with the second highest score.
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
    >>> model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), StructuredSparseMAPClassifier("chain"))
    >>> model = model.fit([["the", "dog"], ["the", "cat"]], [["D", "N"], ["D", "N"]])
    >>> why = explain(model, ["the", "dog"])
    >>> why.predicted.tolist(), bool(abs(why.contributions.sum() - why.score_difference) < 1e-9)
    (['D', 'N'], True)
    >>> "word[0]=dog" in why.names
    True
    """
    steps, last = unwrap(model)
    if not hasattr(last, "_problems_of"):
        raise ValueError(
            f"explain is for StructuredSparseMAPClassifier and GroupLassoPerceptron; got {type(last).__name__}"
        )
    X = transformed(steps, [x])
    structure, (scores,), additional = last._problems_of(X, "map", None, "explain")
    dims = structure.dims(scores.shape, {name: array.shape for name, array in additional.items()})
    best = n_best(structure, scores, 1 if against is not None else 2, **additional)
    if against is None:
        if len(best) < 2:
            raise ValueError("there is only one structure that is not forbidden, and nothing to compare it with")
        rival = best[1][0]
    else:
        rival = _as_codes(last, structure, against)
    first = best[0][0]
    sides = [structure.encode(s, np.array(dims)) for s in (first, rival)]
    names = check_feature_names(steps, last, feature_names, last.n_features_in_)
    entries = _of_parts(last, X, scores, sides, names) + _of_additional(last, structure, additional, sides)
    difference = _score(sides[0], scores, additional) - _score(sides[1], scores, additional)
    return Explanation(last._as_labels(first), last._as_labels(rival), difference, entries)


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


def _score(side, scores, additional):
    parts, joint = side
    flat = np.concatenate([a.ravel() for a in additional.values()]) if additional else np.zeros(0)
    return float(scores.ravel()[parts[parts >= 0]].sum() + flat[joint[joint >= 0]].sum())


def _difference(first, second):
    """Return the parts in which two sides differ, with +1 or -1 for each; repeated parts are counted."""
    parts = np.concatenate([first[first >= 0], second[second >= 0]])
    signs = np.concatenate([np.ones((first >= 0).sum()), -np.ones((second >= 0).sum())])
    values, which = np.unique(parts, return_inverse=True)
    sums = np.bincount(which, signs, minlength=len(values))
    return [(int(part), float(total)) for part, total in zip(values, sums) if total]


def _of_parts(last, X, scores, sides, names):
    """Return the contributions of features and intercepts."""
    checked = last._check_predict(X)[1]
    rows, varies = checked.values, bool(np.any(last._task(checked).varies))
    model = last._current
    n_outputs = len(model.intercept)
    classes = last.classes_.tolist() if last._structure.labelled else [None]
    coef = sparse.csc_array(model.coef) if sparse.issparse(model.coef) else model.coef
    entries, flat = [], scores.ravel()
    for part, sign in _difference(sides[0][0], sides[1][0]):
        row, output = part // n_outputs, part % n_outputs
        x = rows[[row]]
        columns, values = (x.indices, x.data) if sparse.issparse(x) else (np.flatnonzero(x[0]), x[0][x[0] != 0])
        weights = np.asarray((coef[:, [output]].toarray() if sparse.issparse(coef) else coef[:, [output]])[columns])
        products = sign * values * weights.ravel()
        label = classes[output]
        entries += [(names[f], row, label, p) for f, p in zip(columns.tolist(), products.tolist()) if p]
        if model.intercept[output]:
            entries.append(("intercept", row, label, sign * float(model.intercept[output])))
        if varies:
            # Inference adds this to the linear score of a part if structures differ in their number of parts.
            rest = float(flat[part]) - float((values * weights.ravel()).sum()) - float(model.intercept[output])
            entries.append(("size", row, label, sign * rest))
    return entries


def _of_additional(last, structure, additional, sides):
    """Return the contributions of additional scores."""
    places = [(name, index) for name, array in additional.items() for index in np.ndindex(array.shape)]
    classes = last.classes_.tolist() if structure.labelled else None
    entries = []
    for part, sign in _difference(sides[0][1], sides[1][1]):
        name, index = places[part]
        shown = ", ".join(str(i if classes is None else classes[i]) for i in index)
        value = sign * float(additional[name][index])
        if value:
            entries.append((f"{name}[{shown}]", -1, None, value))
    return entries


def _short(structure):
    text = str(structure.tolist() if hasattr(structure, "tolist") else structure)
    return text if len(text) <= 60 else text[:57] + "..."
