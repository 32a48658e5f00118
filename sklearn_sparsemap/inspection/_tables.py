"""Tables of learned weights.

Used by `_explain.py`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from .._core.annotations import Any, Sequence
from .._core.html import N_ROWS, as_html, table
from .._core.unwrap import names_out, transformed_sample, unwrap_whole
from .._core.validation import check_choice, check_matrix, check_positive


class Table(np.ndarray):
    """A structured array that notebooks show as a table."""

    def _repr_html_(self):
        # A column of a table is of this class, too. Notebooks show it as an array.
        if self.dtype.names is None or self.ndim != 1:
            return None
        return as_html(f"{len(self)} rows", table(self.dtype.names, self[:N_ROWS].tolist(), len(self)))


def feature_table(
    model: Any, feature_names: Sequence[str] | None = None, n: int | None = 10, *, output: str = "array"
) -> Any:
    """List the features with the largest weights for and against each label.

    Parameters
    ----------
    model : estimator
        Fitted and linear, with `coef_`, or a `MultilabelLPSparseMAP` without hidden layers; or a pipeline or a search
        around one, also scikit-learn's own.
    feature_names : sequence of str, default=None
        Names of the features of the model. By default, those of the steps of a pipeline, or `feature_names_in_`, or
        ``x0``, ``x1``, ...
    n : int, default=10
        Maximum number of features for each label, and of features against it: those with the largest positive and the
        largest negative weights. None lists all features, including those with weight zero, except
        if `coef_` is sparse.
    output : {"array", "pandas"}, default="array"

    Returns
    -------
    table : structured array, or DataFrame, with the columns label, feature and weight
        Label by label, the largest weights first: evidence for the label, then against it. If structures have no
        labels, the label is "" in all rows.

    Raises
    ------
    ValueError
        If the model is not fitted or has no `coef_`, or the numbers of names and of its features differ.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.features import TemplateVectorizer
    >>> from sklearn_sparsemap.inspection import feature_table
    >>> from sklearn_sparsemap.pipeline import make_structured_pipeline
    >>> model = make_structured_pipeline(TemplateVectorizer(["word[0]"]), StructuredSparseMAPClassifier("chain"))
    >>> model = model.fit([["the", "dog"], ["the", "cat"]], [["D", "N"], ["D", "N"]])
    >>> table = feature_table(model, n=1)
    >>> table["label"].tolist(), (table["weight"] > 0).tolist(), table["feature"][0]
    (['D', 'D', 'N', 'N'], [True, False, True, False], 'word[0]=the')
    """
    if n is not None:
        check_positive("n", n, integer=True)
    steps, last = unwrap_whole(model)
    coef = _weights_of(last)
    coef = sparse.csr_array(check_matrix(coef, "coef_")) if sparse.issparse(coef) else np.atleast_2d(coef)
    names = check_feature_names(steps, last, feature_names, coef.shape[1])
    labels = _labels_of(last, coef.shape[0])
    rows = []
    for k, label in enumerate(labels):
        if sparse.issparse(coef):
            places, weights = (a[coef.indptr[k] : coef.indptr[k + 1]] for a in (coef.indices, coef.data))
        else:
            places = np.arange(coef.shape[1])
            weights = coef[k]
        if n is not None and 2 * n < len(weights):
            kept = np.unique(np.concatenate([np.argpartition(side, n - 1)[:n] for side in (-weights, weights)]))
            places, weights = places[kept], weights[kept]
        # Ties: the first feature first.
        order = np.lexsort((places, -weights))
        if n is not None:
            signs = np.sign(weights[order])
            order = np.concatenate([order[signs > 0][:n], order[signs < 0][-n:]])
        rows += [(label, names[places[i]], float(weights[i])) for i in order]
    return as_table(np.array(rows, [("label", object), ("feature", object), ("weight", np.float64)]), output)


def transition_table(model: Any, n: int | None = None, *, output: str = "array") -> Any:
    """List the scores of transitions between labels, the largest first.

    Parameters
    ----------
    model : estimator
        Fitted, of chains; or a pipeline or a search around one, also scikit-learn's own.
    n : int, default=None
        Maximum number of transitions. By default, all.
    output : {"array", "pandas"}, default="array"

    Returns
    -------
    table : structured array, or DataFrame, with the columns from, to and weight

    Raises
    ------
    ValueError
        If the model has no transitions.

    Examples
    --------
    >>> from sklearn_sparsemap import StructuredSparseMAPClassifier
    >>> from sklearn_sparsemap.inspection import transition_table
    >>> model = StructuredSparseMAPClassifier("chain").fit([[[0.0], [1.0]]], [["D", "N"]])
    >>> transition_table(model)[["from", "to"]][0].tolist()
    ('D', 'N')
    """
    if n is not None:
        check_positive("n", n, integer=True)
    _, last = unwrap_whole(model)
    if not hasattr(last, "transitions_"):
        raise ValueError(f"transition_table needs a fitted model of chains, with transitions_; got {last!r}")
    weights = last.transitions_
    labels = last.classes_.tolist()
    order = np.argsort(-weights, axis=None, kind="stable")[:n]
    rows = [(labels[i // len(labels)], labels[i % len(labels)], float(weights.flat[i])) for i in order.tolist()]
    return as_table(np.array(rows, [("from", object), ("to", object), ("weight", np.float64)]), output)


def label_table(
    model: Any,
    x: Any,
    n_features: int = 3,
    *,
    feature_names: Sequence[str] | None = None,
    output: str = "array",
) -> Any:
    """List the contributions of features, other labels and constraints to the labels of a sample.

    Parameters
    ----------
    model : estimator
        A fitted `MultilabelLPSparseMAP`; or a pipeline or a search around one, also scikit-learn's own.
    x : array-like, table or sparse matrix of shape (1, n_features), or Series; str or dict
        One sample, such as a row of a table, or the text or the dict that the first step of a pipeline takes; also in a
        list or Series, as ``predict`` takes it.
    n_features : int, default=3
        Number of features that are listed for each label; the others are summed up.
    feature_names : sequence of str, default=None
        As in `feature_table`.
    output : {"array", "pandas"}, default="array"

    Returns
    -------
    table : structured array, or DataFrame, with the columns label, source, name and amount
        As `MultilabelLPSparseMAP.label_table` returns them.

    Raises
    ------
    ValueError
        If the model is another one, or `x` is not one sample.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_sparsemap import MultilabelLPSparseMAP
    >>> from sklearn_sparsemap.inspection import label_table
    >>> X = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 2)), columns=["tempo", "volume"])
    >>> y = [{"jazz"} if tempo > 0 else set() for tempo in X["tempo"]]
    >>> model = make_pipeline(StandardScaler(), MultilabelLPSparseMAP()).fit(X, y)
    >>> label_table(model, X.iloc[0])[["label", "source", "name"]].tolist()[:2]
    [('jazz', 'feature', 'tempo'), ('jazz', 'feature', 'volume')]
    """
    steps, last = unwrap_whole(model)
    if not hasattr(last, "label_table"):
        raise ValueError(f"label_table is for MultilabelLPSparseMAP; got {type(last).__name__}")
    X = transformed_sample(steps, last, x, is_row=True)
    names = check_feature_names(steps, last, feature_names, X.shape[1] if hasattr(X, "shape") else len(X[0]))
    rows = last.label_table(X, n_features, names)
    columns = [("label", object), ("source", object), ("name", object), ("amount", np.float64)]
    return as_table(np.array(rows, columns), output)


def as_table(rows, output):
    """Return a structured array as a `Table` or a DataFrame."""
    check_choice("output", output, ("array", "pandas"))
    if output == "array":
        return rows.view(Table)
    import pandas as pd

    return pd.DataFrame({name: rows[name] for name in rows.dtype.names})


def check_feature_names(steps, last, given, n_features):
    """Return a name for each feature."""
    names = names_out(steps, last) if given is None else given
    if names is None:
        return [f"x{i}" for i in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} entries for {n_features} features; give one for each")
    return [str(name) for name in names]


def _weights_of(last):
    """Return the weights of a linear model, one row for each output."""
    if not hasattr(last, "coef_"):
        what = "it has hidden layers" if hasattr(last, "coefs_") else f"{type(last).__name__} has none"
        raise ValueError(
            f"feature_table needs a fitted linear model, with coef_; {what}. For other models, "
            "sklearn.inspection.permutation_importance tells how much each feature matters"
        )
    return last.coef_


def _labels_of(last, n_outputs):
    """Return a name for each output of a linear model."""
    classes = getattr(last, "classes_", None)
    if classes is None or n_outputs not in (len(classes), 1):
        return [""] if n_outputs == 1 else list(range(n_outputs))
    labels = np.asarray(classes).tolist()
    # With two classes, scikit-learn's linear models have one row of weights, that of the second class.
    return labels if n_outputs == len(labels) else labels[-1:]
