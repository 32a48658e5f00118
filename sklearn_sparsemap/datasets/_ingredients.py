"""Lines of recipes, a small data set that comes with the package."""

from __future__ import annotations

import csv
from importlib.resources import files
from itertools import groupby
from operator import itemgetter
from typing import Literal, overload

from .._core.annotations import Any

_FILE = "ingredients.csv"


@overload
def load_ingredients(*, as_frame: Literal[False] = False) -> tuple[list[list[str]], list[list[str]]]: ...
@overload
def load_ingredients(*, as_frame: Literal[True]) -> Any: ...
def load_ingredients(*, as_frame: bool = False) -> Any:
    """Load 316 lines of recipes, with a label for each word.

    Labels are the spans AMOUNT, UNIT, FOOD and NOTE in the scheme BIO. The lines were written for this package.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether to return a DataFrame with a row for each word; this needs pandas.

    Returns
    -------
    X : list of lists of str
        The words of each line.
    y : list of lists of str
        Their labels.
    frame : DataFrame of shape (n_words, 3)
        With `as_frame`, instead of `X` and `y`: the columns sentence (the number of the line, from 1), word and label.

    See Also
    --------
    sklearn_sparsemap.features.sentences_from_frame : Makes sentences of a DataFrame.

    Examples
    --------
    >>> from sklearn_sparsemap.datasets import load_ingredients
    >>> X, y = load_ingredients()
    >>> len(X), X[0], y[0]
    (316, ['2', 'strips', 'lemon', 'zest'], ['B-AMOUNT', 'B-UNIT', 'B-FOOD', 'I-FOOD'])
    """
    path = files(__package__) / _FILE
    if as_frame:
        import pandas as pd

        with path.open(encoding="utf-8") as file:
            return pd.read_csv(file)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    lines = [list(line) for _, line in groupby(rows, key=itemgetter("sentence"))]
    X = [[row["word"] for row in line] for line in lines]
    y = [[row["label"] for row in line] for line in lines]
    return X, y
