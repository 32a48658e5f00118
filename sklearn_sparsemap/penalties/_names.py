"""Groups of the output columns of transformers.

Used by `_groups.py`.
"""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, NDArray, Sequence
from .._core.validation import check_choice


def groups_from(transformer: Any, by: str = "transformer") -> dict[str, NDArray[np.int64]]:
    """Make named groups of the output columns of a fitted transformer.

    Parameters
    ----------
    transformer : ColumnTransformer, FeatureUnion, vectorizer, other transformer, or Pipeline or `OnRows` of these
        A fitted transformer. For a pipeline, the last step is used.
    by : {"transformer", "column"}, default="transformer"
        Unit of grouping of a `ColumnTransformer` or `FeatureUnion`: one group for each transformer, or for each input
        column, so that all categories of a one-hot encoding form a group. Vectorizers of this package always have one
        group for each template or attribute, and other transformers one for each input column.

    Returns
    -------
    groups : dict of name -> int array
        Indices of the columns of each group, for the parameter `groups` of `GroupLassoPerceptron`.

    Raises
    ------
    ValueError
        If the transformer is not fitted, or its output columns have no names that contain those of the input columns.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import ColumnTransformer
    >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
    >>> from sklearn_sparsemap.penalties import groups_from
    >>> columns = ColumnTransformer([("size", StandardScaler(), [0, 1]), ("kind", OneHotEncoder(), [2])])
    >>> X = np.array([[1.0, 3.0, 0], [2.0, 2.0, 1], [0.0, 1.0, 2]])
    >>> groups_from(columns.fit(X))
    {'size': array([0, 1]), 'kind': array([2, 3, 4])}
    >>> list(groups_from(columns, by="column"))
    ['size__x0', 'size__x1', 'kind__x2']
    """
    check_choice("by", by, ("transformer", "column"))
    while (steps := getattr(transformer, "steps", None)) or hasattr(transformer, "transformer_"):
        # A pipeline, or `OnRows`.
        transformer = steps[-1][1] if steps else transformer.transformer_
    if hasattr(transformer, "template_names_") and getattr(transformer, "groups_", None) is not None:
        groups = np.asarray(transformer.groups_)
        by = "transformer"
        parts = {name: np.flatnonzero(groups == g) for g, name in enumerate(transformer.template_names_)}
    elif hasattr(transformer, "output_indices_"):
        ranges = {name: transformer.output_indices_[name] for name, _, _ in transformer.transformers_}
        parts = {name: np.arange(own.start, own.stop) for name, own in ranges.items()}
    elif isinstance(getattr(transformer, "transformer_list", None), list):
        owners = np.array([name.split("__", 1)[0] for name in _names_out(transformer)], object)
        parts = {name: np.flatnonzero(owners == name) for name, _ in transformer.transformer_list}
    else:
        parts, by = {}, "column"
    parts = {name: own.astype(np.int64, copy=False) for name, own in parts.items() if len(own)}
    return parts if by == "transformer" else _by_column(transformer, parts)


def _names_out(transformer):
    try:
        return [str(name) for name in transformer.get_feature_names_out()]
    except Exception as error:
        raise ValueError(
            f"{type(transformer).__name__} has no names of its output columns ({error}); fit it, or pass groups as a "
            "dict from names to columns"
        ) from error


def _by_column(transformer, parts):
    """Group columns by the longest input name that is a prefix of their name, within each part."""
    inputs = getattr(transformer, "feature_names_in_", None)
    if inputs is None:
        inputs = [f"x{i}" for i in range(getattr(transformer, "n_features_in_", 0))]
    try:
        return _group_names(_names_out(transformer), inputs, parts)
    except ValueError as error:
        raise ValueError(
            f"the input columns of {type(transformer).__name__} do not follow from the names of its output columns: "
            f"{error}; use by='transformer', or pass groups as a dict from names to columns"
        ) from error


def groups_by_name(names: Sequence[str], inputs: Sequence[str] | None = None) -> dict[str, NDArray[np.int64]]:
    """Make groups from the names of the output columns of transformers.

    As the parameter `groups` of an estimator, this function is called in each `fit`. So groups follow a
    `ColumnTransformer` within cross-validation, where rare categories may be missing. Pass ``groups="columns"``, or
    with inputs ``groups=functools.partial(groups_by_name, inputs=list(X.columns))``. The transformer must return a
    DataFrame: ``columns.set_output(transform="pandas")``.

    Parameters
    ----------
    names : sequence of str
        Names of columns, such as ``"kind__colour_red"``: the transformer, two underscores, the input column and the
        category.
    inputs : sequence of str, default=None
        Names of the input columns, for one group for each input column of each transformer, so that all categories of a
        one-hot encoding form a group. By default, there is one group for each transformer, and a name without two
        underscores is a separate group.

    Returns
    -------
    groups : dict of name -> int array
        Indices of the columns of each group.

    Raises
    ------
    ValueError
        If a name does not begin with an input.

    Examples
    --------
    >>> from sklearn_sparsemap.penalties import groups_by_name
    >>> names = ["size__width", "size__height", "kind__colour_red", "kind__colour_blue"]
    >>> groups_by_name(names)
    {'size': array([0, 1]), 'kind': array([2, 3])}
    >>> list(groups_by_name(names, inputs=["width", "height", "colour"]))
    ['size__width', 'size__height', 'kind__colour']
    """
    names = [str(name) for name in names]
    prefixes = {name.split("__", 1)[0] for name in names if "__" in name}
    if inputs is not None:
        return _group_names(names, inputs, prefixes)
    found = {}
    for place, name in enumerate(names):
        found.setdefault(name.split("__", 1)[0], []).append(place)
    return {name: np.array(own, dtype=np.int64) for name, own in found.items()}


def resolve_function(groups, feature_names):
    """Return the groups that a function makes of the names of features; "columns" is `groups_by_name`."""
    if isinstance(groups, str):
        groups = groups_by_name
    if feature_names is None:
        raise ValueError(
            "groups='columns', or a function, needs names of features; pass a DataFrame, in a pipeline after "
            "set_output(transform='pandas')"
        )
    return groups(list(feature_names))


def _group_names(names, inputs, parts):
    """Group names by transformer and by the longest input name that follows; `parts` are the transformers."""
    inputs = sorted(map(str, inputs), key=len, reverse=True)
    found = {}
    for place, name in enumerate(names):
        part = next((p for p in parts if name.startswith(f"{p}__")), None)
        rest = name if part is None else name[len(part) + 2 :]
        own = next((i for i in inputs if rest == i or rest.startswith(f"{i}_")), None)
        if own is None:
            raise ValueError(f"the column {name!r} begins with none of the inputs")
        # Several transformers may have an input. With verbose_feature_names_out=False, their names are omitted.
        found.setdefault(own if part is None else f"{part}__{own}", []).append(place)
    return {name: np.array(own, dtype=np.int64) for name, own in found.items()}
