"""load_hierarchical_arff: the format of hierarchical multilabel data, with classes as paths."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import numpy as np

from .._core.annotations import Any, Sequence
from .._core.validation import quoted
from ._arff_files import ArffFile, check_headers, join_rows, split_cells, text_of, words_of
from ._lines import MAX_BYTES, Source, check_size, sources_of

_HIERARCHICAL = re.compile(r"hierarchical\s+(?P<classes>\S.*)", re.IGNORECASE | re.ASCII)
# The name of the root in some files. It is not a class, because all rows have it.
_ROOT = "root"
_MAX_LEVELS = 100  # levels of a path; the memory for the names of classes grows with the square of the levels


def load_hierarchical_arff(
    path: Source | Sequence[Source],
    *,
    encoding: str = "utf-8",
    return_weights: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Load multilabel data whose classes are a hierarchy, in the format ARFF of Clus.

    The last attribute is ``class hierarchical a,a/b,c``. It lists the classes as paths, or as edges ``parent/child``
    with ``root`` at the top; then a class may have several parents. A row ends with its classes, such as ``a/b@c``, and
    also has all of their ancestors. Paths may have up to 100 levels, edges any number.

    Parameters
    ----------
    path : str, path-like or open file, or sequence of these
        The file, plain or compressed by gzip, or several files with the same attributes. An open file is read from its
        position on, and not closed.
    encoding : str, default="utf-8"
        The encoding of the text. A file that was opened in text mode has its own.
    return_weights : bool, default=False
        Whether to return the weights of the samples, too.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text after decompression, of `X`, and of `Y`.

    Returns
    -------
    X : CSR array or ndarray of shape (n_samples, n_features)
        Sparse if the rows of the file are. A missing value, ``?``, is NaN. A nominal attribute has a column of 0 and 1
        for each of its values.
    Y : int64 array of shape (n_samples, n_classes)
        The indicator matrix, including all ancestors.
    class_names : list of str
        Paths, or the names of nodes. Parents come before their children.
    parents : list of list of int
        For each class the indices of its parents, for `sklearn_sparsemap.factors.Hierarchy`.
    sample_weight : ndarray of shape (n_samples,)
        Only with ``return_weights=True``. The weight of a row, such as ``{5}`` at its end; 1 for rows without one.

    Raises
    ------
    ValueError
        If the file is not of this form (the message names the line), is not text in this encoding, or is too long.
    TypeError
        If `path` is neither a path nor an open file.
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
    files = [ArffFile(own, encoding, max_bytes, _type_reader()) for own in sources_of(path)]
    header = check_headers(files)
    classes = _classes_of(header)
    class_names, parents = _hierarchy(classes, header.name)
    parts = [_read_data(file, class_names, parents, max_bytes) for file in files]
    X, Y, weights = (join_rows(own) for own in zip(*parts))
    return (X, Y, class_names, parents, weights) if return_weights else (X, Y, class_names, parents)


class _Classes(tuple):
    """The listed classes, as the domain of their attribute."""


def _type_reader():
    """Return a function that reads the values of an attribute as words, None if it is numeric, or the classes."""
    has_classes = False

    def read_type(name, declared, where):
        nonlocal has_classes
        if has_classes:
            raise ValueError(f"{where}: an attribute after the one of the classes, which must be the last")
        found = _HIERARCHICAL.fullmatch(declared)
        if found is None:
            return words_of(name, declared, where)
        has_classes = True
        listed = found["classes"].strip()
        # The whole list may be in quotes, or each class.
        listed = text_of(listed) if len(split_cells(listed)) == 1 else listed
        return _Classes(name for name in map(text_of, split_cells(listed)) if name)

    return read_type


def _classes_of(header):
    """Return the listed classes, the last attribute."""
    if len(header.names) == 1 or not isinstance(header.domains[-1], _Classes):
        where = f"{header.name}, line {header.first}"
        raise ValueError(f"{where}: no features and a last attribute 'class hierarchical' before @data")
    return header.domains[-1]


def _read_data(file, class_names, parents, max_bytes):
    """Return the features, the indicator matrix and the weights of a file."""
    rows = file.rows
    last = len(file.names) - 1
    check_size(len(rows.rows), len(class_names), "classes", file.name, max_bytes)
    texts, columns, ends = rows.entries(file.names, ends_with_classes=True)
    is_class = columns == last
    counts = np.diff(np.concatenate([[0], np.cumsum(is_class)])[np.concatenate([[0], ends])])
    if (counts != 1).any():
        raise rows.error(int(np.argmax(counts != 1)), f"has no value of {quoted(file.names[last])}", "give its classes")
    own = [texts[k] for k in np.flatnonzero(is_class).tolist()]
    others = [texts[k] for k in np.flatnonzero(~is_class).tolist()]
    ends = ends - np.arange(1, len(ends) + 1)
    names, domains = file.names[:last], file.domains[:last]
    table = rows.assemble(others, columns[~is_class], ends, names, domains)
    X = file.expand(table, np.arange(last), max_bytes)
    return X, _indicator(rows, [text_of(text) for text in own], class_names, parents), rows.weights


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
    depths = {}
    places = {name: i for i, name in enumerate(above)}
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
    if "" in steps:
        raise ValueError(f"{path}: the class {quoted(name)} has an empty level; write levels as a/b")
    if len(steps) > _MAX_LEVELS:
        raise ValueError(
            f"{path}: the class {quoted(name)} has {len(steps)} levels, but paths are read up to {_MAX_LEVELS}; "
            f"list edges parent/child, with {_ROOT!r} at the top"
        )
    prefixes = ["/".join(steps[:depth]) for depth in range(1, len(steps) + 1)]
    return zip([_ROOT, *prefixes], prefixes)


def _indicator(table, rows, names, parents):
    index = {name: i for i, name in enumerate(names)}
    Y = np.zeros((len(rows), len(names)), np.int64)
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
