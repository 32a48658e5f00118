"""load_multilabel_arff: the format of the multilabel collections of Mulan and Meka."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from io import StringIO
from typing import Literal
from xml.etree import ElementTree

import numpy as np
from scipy import sparse

from .._core.annotations import Any, Sequence
from .._core.validation import check_choice, check_positive, quoted
from ._arff_files import ArffFile, check_headers, domain_of, join_rows, numbers_of, span_of
from ._lines import MAX_BYTES, Source, check_size, is_source, name_of, read_lines, sources_of

# Meka's option in the name of the relation: the first attributes are labels, or with a minus the last ones.
_MEKA = re.compile(r"(?<![^\s:'\"])-[Cc]\s*(?P<minus>-?)(?P<number>[1-9][0-9]{0,8})(?![^\s'\"-]|-(?!weka\.))")
# A filter that Weka has applied, whose name is appended to that of the relation. Filters of rows keep the attributes.
_FILTER = re.compile(r"weka\.filters\.(?!(?:un)?supervised\.instance\.)")
# Pairs of words that mean 0 and 1.
_PAIRS = (
    ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on"), ("absent", "present"),
    ("negative", "positive"), ("neg", "pos"), ("-", "+"),
)  # fmt: skip
_SIDES = {"-": "end", "": "start"}


def load_multilabel_arff(
    path: Source | Sequence[Source],
    n_labels: int | None = None,
    label_names: Sequence[str] | Source | None = None,
    *,
    label_position: Literal["end", "start"] | None = None,
    encoding: str = "utf-8",
    return_names: bool = False,
    return_weights: bool = False,
    max_bytes: int = MAX_BYTES,
) -> Any:
    """Load a multilabel data set in the format ARFF, sparse or dense.

    Attributes are numeric or nominal. A nominal feature of one or two numbers, such as ``{0,1}``, is one column. Any
    other has a column of 0 and 1 for each of its values, also if they are numbers, such as ``{1,2,3}``. Labels are 0 or
    1, or pairs of words such as ``{no,yes}`` or ``{FALSE,TRUE}``.

    Parameters
    ----------
    path : str, path-like or open file, or sequence of these
        The file, plain or compressed by gzip, or several files with the same attributes. An open file is read from its
        position on, and not closed.
    n_labels : int, default=None
        Number of attributes that are labels. By default, the number in Meka's header.
    label_names : sequence of str, or path, default=None
        The names of the labels, which may be anywhere, in the order of the columns of `Y`; or Mulan's XML file, which
        has them. They take precedence over Meka's header.
    label_position : {"end", "start"}, default=None
        Whether the labels are the last attributes, as in Mulan's files, or the first, as in many of Meka's. It takes
        precedence over Meka's header. By default, as this header says, or ``"end"`` without one.
    encoding : str, default="utf-8"
        The encoding of the text. A file that was opened in text mode has its own.
    return_names : bool, default=False
        Whether to return the names of the features and of the labels, too.
    return_weights : bool, default=False
        Whether to return the weights of the samples, too.
    max_bytes : int, default=2**32
        Maximum size in bytes of the text of a file after decompression, and of the indicator matrix of sparse rows.

    Returns
    -------
    X : CSR array or ndarray of shape (n_samples, n_features)
        float64; sparse if the rows of the file are. A missing value, ``?``, is NaN.
    Y : int64 array of shape (n_samples, n_labels)
        The indicator matrix. If the file has missing labels, ``?``, it is float64, and they are NaN, which estimators
        take as unknown.
    feature_names, label_names : list of str
        Only with ``return_names=True``. The column for one value of an attribute has the name ``attribute=value``.
    sample_weight : ndarray of shape (n_samples,)
        Only with ``return_weights=True``. The weight of a row, such as ``{5}`` at its end; 1 for rows without one.

    Raises
    ------
    ValueError
        If the file is not of this form (the message names the line), is not text in this encoding, is too long, or
        is cut off or damaged by its compression; or if a parameter has no meaning, or `n_labels` alone contradicts
        Meka's header.
    TypeError
        If `path` is neither a path nor an open file.
    OSError
        If the file cannot be read.

    Notes
    -----
    In Meka's files, ``-C 3`` in the line ``@relation`` says that the first three attributes are labels, ``-C -3`` that
    the last three are. Weka's filters append their names to this line. Those of attributes may have moved labels since,
    so the place is then ignored, with a UserWarning, if it is not given.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn_sparsemap.datasets import load_multilabel_arff
    >>> path = Path(tempfile.mkdtemp(), "train.arff")
    >>> header = ["@relation texts", "@attribute goal {0,1}", "@attribute vote {0,1}", "@attribute sport {0,1}"]
    >>> _ = path.write_text("\\n".join(header + ["@data", "{0 1,2 1}", "{1 1}"]))
    >>> X, Y = load_multilabel_arff(path, 1)
    >>> X.toarray()
    array([[1., 0.],
           [0., 1.]])
    >>> Y
    array([[1],
           [0]])
    >>> load_multilabel_arff(path, label_names=["sport"], return_names=True)[2:]
    (['goal', 'vote'], ['sport'])
    """
    if n_labels is not None:
        check_positive("n_labels", n_labels, integer=True)
    check_choice("label_position", label_position, ("end", "start", None))
    files = [ArffFile(own, encoding, max_bytes, domain_of) for own in sources_of(path)]
    header = check_headers(files)
    labels = _label_indices(header, n_labels, label_names, label_position, encoding, max_bytes)
    features = np.setdiff1d(np.arange(len(header.names)), labels)
    if not len(features):
        raise ValueError(
            f"{header.name} has {len(header.names)} attributes, which leaves no features with n_labels={len(labels)}; "
            "n_labels is the number of labels alone"
        )
    parts = [_read_data(file, features, labels, max_bytes) for file in files]
    X, Y, weights = (join_rows(own) for own in zip(*parts))
    Y = Y if np.isnan(Y).any() else Y.astype(np.int64)
    names = header.columns(features), [header.names[place] for place in labels]
    return X, Y, *(names if return_names else ()), *([weights] if return_weights else [])


def _read_data(file, features, labels, max_bytes):
    """Return the features, the labels with NaN for missing ones, and the weights of a file."""
    for place in labels:
        file.domains[place] = numbers_of(file.domains[place])
    positive = [_positive_code(file, place) for place in labels]
    table = file.rows.table(file.names, file.domains)
    Y = table[:, span_of(labels)]
    if sparse.issparse(Y):
        check_size(*Y.shape, "labels", file.name, max_bytes)
        Y = Y.toarray()
    elif any(code is not None for code in positive):
        Y = Y.copy()
    for column, code in enumerate(positive):
        if code is not None:
            Y[:, column] = np.where(np.isnan(Y[:, column]), np.nan, Y[:, column] == code)
    is_wrong = (Y != 0) & (Y != 1) & ~np.isnan(Y)
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0].tolist()
        fault = f"has {Y[row, column]:g} for the label {quoted(file.names[labels[column]])}"
        raise file.rows.error(row, fault, "labels are 0 or 1, so check n_labels and label_position")
    return file.expand(table, features, max_bytes), np.ascontiguousarray(Y), file.rows.weights


def _positive_code(file, attribute):
    """Return the index of the word for 1 in the domain of a label; None for a label of numbers."""
    domain = file.domains[attribute]
    if domain is None or not isinstance(domain[0], str):
        return None
    words = [word.strip().lower() for word in domain]
    pair = next((pair for pair in _PAIRS if {*words} <= {*pair}), None)
    if pair is None:
        raise ValueError(
            f"{file.name}: the label {quoted(file.names[attribute])} has the values {quoted(','.join(domain))}; labels "
            "are 0 or 1, or a pair of words such as no and yes, so check n_labels and label_position"
        )
    return words.index(pair[1]) if pair[1] in words else -1


def _label_indices(header, n_labels, label_names, label_position, encoding, max_bytes):
    """Return the indices of the attributes that are labels, in the order of the columns of the indicator matrix."""
    if label_names is not None:
        if label_position is not None:
            raise ValueError("label_position is for labels without label_names; leave out one of them")
        places = _indices_of_names(header, _read_label_names(label_names, encoding, max_bytes))
        if n_labels not in (None, len(places)):
            raise ValueError(f"n_labels={n_labels}, but label_names has {len(places)} names; leave out one of them")
        return places
    option, said, position = _read_option(header, n_labels, label_position)
    if n_labels is None and said is None:
        raise ValueError(
            f"{header.name} does not say which attributes are labels; give n_labels, or label_names (names, or the "
            "path of Mulan's XML file)"
        )
    if None not in (said, n_labels) and label_position is None and said != n_labels:
        raise ValueError(
            f"{header.name}: Meka's header {quoted(option)} says that {said} labels are at the {position}, which "
            f"contradicts n_labels={n_labels}; leave it out, or give label_position, too"
        )
    return list(_at(range(len(header.names)), n_labels or said, label_position or position))


def _read_option(header, n_labels, label_position):
    """Return Meka's option in the header, its number of labels, and their side; None, None and "end" without one."""
    meka = _MEKA.search(header.relation)
    if meka is None:
        return None, None, "end"
    said = int(meka["number"])
    position = _SIDES[meka["minus"]]
    if _FILTER.search(header.relation, meka.end()) is None:
        return meka[0], said, position
    if label_position is None or n_labels is None:
        warnings.warn(
            f"{header.name}: filters of attributes follow Meka's header {quoted(meka[0])}, which may have moved the "
            "labels; it is ignored. Give label_names, or n_labels and label_position",
            UserWarning,
            stacklevel=4,
        )
    # The side may have changed, but hardly the number.
    return meka[0], (said if label_position is not None else None), "end"


def _at(everything, number, position):
    return everything[:number] if position == "start" else everything[max(len(everything) - number, 0) :]


def _indices_of_names(header, wanted):
    places = {}
    counts = Counter(wanted)
    for place, name in enumerate(header.names):
        places.setdefault(name, []).append(place)
    for name in wanted:
        n = len(places.get(name, ()))
        if n != 1 or counts[name] > 1:
            fault = "is twice in label_names" if n == 1 else f"is the name of {n} attributes of {header.name}"
            raise ValueError(f"the label {quoted(name)} {fault}; name each label once, as the file does")
    return [places[name][0] for name in wanted]


def _read_label_names(label_names, encoding, max_bytes):
    """Return the names of labels, given as such or by Mulan's XML file."""
    if not is_source(label_names):
        names = list(label_names)
        odd = next((name for name in names if not isinstance(name, str)), None)
        if odd is not None or not names:
            raise ValueError(f"label_names must be str, or the path of Mulan's XML file; got {names!r:.80}")
        return names
    text = "\n".join(read_lines(label_names, encoding, max_bytes))
    try:
        root = ElementTree.parse(StringIO(text)).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(
            f"{name_of(label_names)} is not XML ({error}); label_names is the path of Mulan's XML file, or a list of "
            "names"
        ) from error
    # Tags may have a namespace. The labels of a hierarchy are nested.
    names = [each.get("name") for each in root.iter() if each.tag.rpartition("}")[2] == "label"]
    if not names or None in names:
        raise ValueError(f"{name_of(label_names)} has no elements <label name=...>; is it Mulan's XML file?")
    return names
