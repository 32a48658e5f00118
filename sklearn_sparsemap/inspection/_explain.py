"""`explain`: contributions to the difference of the scores of two structures."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.annotations import Any, Sequence
from .._core.html import as_html, short, table
from .._core.unwrap import transformed, unwrap
from .._core.validation import check_positive
from ._tables import as_table, check_feature_names

_ENTRY = [("name", object), ("row", np.int64), ("label", object), ("contribution", np.float64)]


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
        entries = np.array(entries, dtype=_ENTRY)
        self.names, self.labels = entries["name"].tolist(), entries["label"].tolist()
        self.rows, self.contributions = entries["row"], entries["contribution"]
        self._entries = entries

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
        return as_table(self._entries[order], output)

    def __repr__(self):
        return (
            f"Explanation({short(self.predicted)} over {short(self.rival)} by {self.score_difference:.4g}, "
            f"{len(self.contributions)} contributions)"
        )

    def _repr_html_(self):
        rows = [
            (name, "" if row < 0 else row, "" if label is None else label, f"{value:+.4g}")
            for name, row, label, value in self.table(20).tolist()
        ]
        heading = f"{short(self.predicted)} over {short(self.rival)} by {self.score_difference:.4g}"
        return as_html(heading, table(("name", "row", "label", "contribution"), rows, len(self.contributions)))


def explain(model: Any, x: Any, *, against: Any = None, feature_names: Sequence[str] | None = None) -> Explanation:
    """Explain why a model predicts a structure and not the second best one.

    The score of a structure is a sum of contributions of features and additional scores. So is the difference of two
    scores, where only the parts in which the structures differ contribute.

    Parameters
    ----------
    model : estimator
        A fitted `StructuredSparseMAPClassifier` or `GroupLassoPerceptron`; or a pipeline or a search around one, also
        scikit-learn's own.
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
    >>> tagger = StructuredSparseMAPClassifier("chain", alpha=1e-4)
    >>> model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), tagger)
    >>> model = model.fit([["the", "dog"], ["the", "cat"]], [["D", "N"], ["D", "N"]])
    >>> why = explain(model, ["the", "dog"])
    >>> why.predicted.tolist(), bool(abs(why.contributions.sum() - why.score_difference) < 1e-9)
    (['D', 'N'], True)
    >>> "word[0]=dog" in why.names
    True
    """
    steps, last = unwrap(model)
    if not hasattr(last, "_check_gibbs"):
        raise ValueError(
            f"explain is for StructuredSparseMAPClassifier and GroupLassoPerceptron; got {type(last).__name__}"
            f"{'; call its method label_table' * hasattr(last, 'label_table')}"
        )
    structure, X = last._check_predict(transformed(steps, [x]))
    if not X.indptr[-1]:
        raise ValueError("x has no steps, and so there is nothing to explain")
    task = last._task(X)
    scores, additional = last._scores(task, X, last._current, "map")
    (best,) = task.n_best(scores, additional, 1 if against is not None else 2, None)
    if against is None:
        if len(best) < 2:
            raise ValueError("there is only one structure that is not forbidden, and nothing to compare it with")
        rival = best[1][0]
    else:
        rival = _as_codes(last, structure, against)
    first = best[0][0]
    parts, joint = (_nonzero(signs) for signs in task.difference(first, rival))
    names = check_feature_names(steps, last, feature_names, last.n_features_in_)
    entries = _of_parts(last, X, scores, parts, names, bool(np.any(task.varies)))
    values = [sign * float(scores.flat[part]) for part, sign in parts]
    classes = last.classes_.tolist() if structure.labelled else None
    shown = _names_of(task.additional_shapes, classes)
    values += [sign * float(additional[part]) for part, sign in joint]
    entries += [(shown[part], -1, None, sign * float(additional[part])) for part, sign in joint if additional[part]]
    return Explanation(last._as_labels(first), last._as_labels(rival), float(sum(values)), entries)


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


def _names_of(shapes, classes):
    """Return a name for each additional score, such as ``transitions[N, V]``."""
    names = []
    for name, shape in shapes.items():
        if isinstance(shape, dict):
            names += [f"{name}.{own}" for own in _names_of(shape, classes)]
        else:
            places = (
                ", ".join(str(i if classes is None else classes[i]) for i in index) for index in np.ndindex(shape)
            )
            names += [f"{name}[{place}]" for place in places]
    return names


def _of_parts(last, X, scores, parts, names, varies):
    """Return the contributions of features and intercepts."""
    rows = sparse.csr_array(X.values)
    coef, intercepts = last._current.coef, last._current.intercept.tolist()
    classes = last.classes_.tolist() if last._structure.labelled else range(len(intercepts))
    entries = []
    for part, sign in parts:
        row, output = divmod(part, len(intercepts))
        x, weights = rows[[row]], coef[:, [output]]
        weights = weights.toarray() if sparse.issparse(weights) else weights
        products = x.data * weights[x.indices, 0]
        label, intercept = classes[output] if len(intercepts) > 1 else None, intercepts[output]
        entries += [(names[f], row, label, sign * p) for f, p in zip(x.indices.tolist(), products.tolist()) if p]
        if intercept:
            entries.append(("intercept", row, label, sign * intercept))
        if varies:
            # Inference adds this to the linear score of a part if structures differ in their number of parts.
            rest = float(scores.flat[part]) - float(products.sum()) - intercept
            entries.append(("size", row, label, sign * rest))
    return entries
