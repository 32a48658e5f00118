"""load_hierarchical_arff: the format of hierarchical multilabel data, with classes as paths."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import numpy as np

from .._core.annotations import Any, PathLike
from .._core.validation import quoted
from ._arff import Rows, domain_of, read_attributes
from ._lines import MAX_BYTES, check_size, read_lines

_HIERARCHICAL = re.compile(r"hierarchical\s+(?P<classes>\S.*)", re.IGNORECASE | re.ASCII)
# The name of the root in some files. It is not a class, because all rows have it.
_ROOT = "root"
_MOST_LEVELS = 100  # levels of a path; the memory for the names of classes grows with the square of the levels


def load_hierarchical_arff(
    path: str | PathLike[str], *, encoding: str = "utf-8", max_bytes: int = MAX_BYTES
) -> tuple[Any, Any, list[str], list[list[int]]]:
    """Load multilabel data whose classes are a hierarchy, in the format ARFF of Clus.

    The last attribute is ``class hierarchical a,a/b,c``. It lists the classes as paths, or as edges ``parent/child``
    with ``root`` at the top; then a class may have several parents. A row ends with its classes, such as ``a/b@c``, and
    also has all of their ancestors. Paths may have up to 100 levels, edges any number.

    Parameters
    ----------
    path : str or path-like
        The file, plain or compressed by gzip.
    encoding : str, default="utf-8"
        The encoding of the text.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text after decompression, of `X`, and of `Y`.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        A missing value, ``?``, is NaN. A nominal attribute has a column of 0 and 1 for each of its values.
    Y : int64 array of shape (n_samples, n_classes)
        The indicator matrix, including all ancestors.
    class_names : list of str
        Paths, or the names of nodes. Parents come before their children.
    parents : list of list of int
        For each class the indices of its parents, for `sklearn_sparsemap.factors.Hierarchy`.

    Raises
    ------
    ValueError
        If the file is not of this form (the message names the line), is not text in this encoding, or is too long.
    TypeError
        If `path` is not a path.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_hierarchical_arff
    >>> path = Path(tempfile.mkdtemp(), "train.arff")
    >>> header = ["@relation genes", "@attribute length numeric", "@attribute class hierarchical 1,1/2,1/3,2"]
    >>> _ = path.write_text("\\n".join(header + ["@data", "0.5,1/2@2", "?,1"]))
    >>> X, Y, names, parents = load_hierarchical_arff(path)
    >>> names, parents
    (['1', '2', '1/2', '1/3'], [[], [], [0], [0]])
    >>> Y
    array([[1, 1, 1, 0],
           [1, 0, 0, 0]])
    """
    lines = list(read_lines(path, encoding, max_bytes))
    names, domains, classes, first = _read_header(lines, path)
    table = Rows(lines, first, path)
    class_names, parents = _hierarchy(classes, path)
    check_size(len(table.rows), len(class_names), "classes", path, max_bytes)
    n_columns = sum(1 if domain is None else len(domain) for domain in domains)
    check_size(len(table.rows), n_columns, "features", path, max_bytes)
    cut = [row.rpartition(",") for row in table.rows]
    columns = _columns(table, [features for features, _, _ in cut], names, domains)
    Y = _indicator(table, [own.strip() for _, _, own in cut], class_names, parents)
    return columns, Y, class_names, parents


def _read_header(lines, path):
    """Return names of attributes, their values (None if numeric), the listed classes, and the first line of data."""
    names, domains, classes = [], [], None

    def read_type(name, kind, where):
        nonlocal classes
        if classes is not None:
            raise ValueError(f"{where}: an attribute after the one of the classes, which must be the last")
        found = _HIERARCHICAL.fullmatch(kind)
        if found is not None:
            classes = [name.strip() for name in found["classes"].split(",") if name.strip()]
            return
        names.append(name)
        if kind.startswith("{") and kind.endswith("}"):
            domains.append([value.strip() for value in kind[1:-1].split(",")])
        else:
            domains.append(domain_of(name, kind, where))

    _, first = read_attributes(lines, path, read_type)
    if classes is None or not names:
        raise ValueError(f"{path}, line {first}: no features and a last attribute 'class hierarchical' before @data")
    return names, domains, classes, first


def _columns(table, rows, names, domains):
    """Return the features; nominal ones have a column for each value."""
    cells = [row.split(",") for row in rows]
    for i, row in enumerate(cells):
        if len(row) != len(names):
            raise table.error(i, f"has {len(row)} values for {len(names)} features", "give one for each, and classes")
    parts = []
    for place, domain in enumerate(domains):
        column = [row[place].strip() for row in cells]
        if domain is None:
            parts.append(table.parse(column, np.arange(1, len(column) + 1))[:, None])
            continue
        index = {"?": -1, **{value: k for k, value in enumerate(domain)}}
        odd = next((i for i, cell in enumerate(column) if cell not in index), None)
        if odd is not None:
            fault = f"has {quoted(column[odd])} for the attribute {quoted(names[place])}"
            raise table.error(odd, fault, "correct it, or declare it")
        chosen = np.array([index[cell] for cell in column])[:, None]
        parts.append(np.where(chosen >= 0, chosen == np.arange(len(domain)), np.nan))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def _hierarchy(classes, path):
    """Return the classes' names and the indices of the parents of each, parents first."""
    as_edges = any(name.partition("/")[0] == _ROOT for name in classes)
    # The parents of each class as the keys of a dict: edges may be listed twice.
    above = {}
    for name in classes:
        for parent, child in [_read_edge(name, path)] if as_edges else _edges_of_path(name, path):
            above.setdefault(child, {})
            if parent != _ROOT:
                above.setdefault(parent, {})
                above[child][parent] = None
    depths, places = {}, {name: i for i, name in enumerate(above)}
    try:
        for name in TopologicalSorter(above).static_order():
            depths[name] = 1 + max((depths[parent] for parent in above[name]), default=-1)
    except CycleError as error:
        raise ValueError(f"{path}: the class {quoted(error.args[1][0])} is above itself") from None
    names = sorted(above, key=lambda name: (depths[name], places[name] if as_edges else name))
    index = {name: i for i, name in enumerate(names)}
    return names, [sorted(index[parent] for parent in above[name]) for name in names]


def _read_edge(name, path):
    parent, _, child = name.partition("/")
    if not child or "/" in child:
        raise ValueError(f"{path}: the class {quoted(name)} is not an edge parent/child, like others")
    return parent, child


def _edges_of_path(name, path):
    """Return the edges from the root down to a class that is given as a path."""
    steps = name.split("/")
    if len(steps) > _MOST_LEVELS:
        raise ValueError(
            f"{path}: the class {quoted(name)} has {len(steps)} levels, but paths are read up to {_MOST_LEVELS}; "
            f"list edges parent/child, with {_ROOT!r} at the top"
        )
    prefixes = ["/".join(steps[:depth]) for depth in range(1, len(steps) + 1)]
    return zip([_ROOT, *prefixes], prefixes)


def _indicator(table, rows, names, parents):
    index, Y = {name: i for i, name in enumerate(names)}, np.zeros((len(rows), len(names)), np.int64)
    for i, row in enumerate(rows):
        for name in row.split("@"):
            place = index.get(name.strip())
            if place is None and name.strip() != _ROOT:
                raise table.error(i, f"has the class {quoted(name)}, which is not declared", "correct it")
            if place is not None:
                Y[i, place] = 1
    for child in range(len(names) - 1, -1, -1):
        for parent in parents[child]:
            Y[:, parent] |= Y[:, child]
    return Y
