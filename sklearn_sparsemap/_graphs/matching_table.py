"""Graphs that are one matching: each variable is a cell of a table, and each line and column has one factor.

Used by `factors` and `matchings.py`.
"""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import INTS, INTS_2D, readonly
from .arrays import COUNT

# `cells[r, c]` is the variable of line r and column c, -1 if there is none. `lines` and `columns` are the rows of the
# graph (see `GraphArrays`) that bound their sums. The sum of line r is at most 1 if `at_most[r]`, otherwise equal to 1.
# The sums of the first `exact[0]` columns are equal to 1, those of the others at most 1.
MatchingTable = namedtuple("MatchingTable", ["cells", "lines", "columns", "at_most", "exact"])
MATCHING_TABLE = types.NamedTuple([INTS_2D, INTS, INTS, INTS, INTS], MatchingTable)

_MAX_CELLS = 4  # cells per variable; larger tables are mostly empty, and are solved as sparse graphs


def matching_of(arrays):
    """Return the table of a graph whose factors are those of one matching, or None.

    Each factor must be ``sum(u) == 1`` or ``sum(u) <= 1`` over variables that are not negated. Each variable must be in
    two factors, and no two variables in the same two. The factors must divide into lines and columns such that no two
    lines, and no two columns, have a variable in common.
    """
    n = len(arrays.degrees)
    n_factors = len(arrays.factor_types)
    exact = arrays.low == 1.0
    if not (
        len(arrays.links) == 2 * n
        and (arrays.degrees == 2).all()
        and (arrays.factor_types == COUNT).all()
        and (arrays.high == 1.0).all()
        and (exact | (arrays.low == -np.inf)).all()
        and (arrays.signs == 1.0).all()
        and (arrays.costs == 1.0).all()
    ):
        return None
    of_link = np.repeat(np.arange(n_factors), np.diff(arrays.link_ptr))
    # The two factors of each variable.
    ends = of_link[np.argsort(arrays.links, kind="stable")].reshape(n, 2)
    is_column = _sides(ends, arrays.link_ptr, arrays.links, exact)
    if is_column is None:
        return None
    lines = np.flatnonzero(~is_column)
    columns = np.flatnonzero(is_column)
    # Equations come first among the columns.
    columns = columns[np.argsort(~exact[columns], kind="stable")]
    if len(lines) * len(columns) > _MAX_CELLS * n:
        return None
    number_of = np.empty(n_factors, np.int64)
    number_of[lines] = np.arange(len(lines))
    number_of[columns] = np.arange(len(columns))
    ends = np.where(is_column[ends[:, :1]], ends[:, ::-1], ends)
    cells = np.full((len(lines), len(columns)), -1)
    cells[number_of[ends[:, 0]], number_of[ends[:, 1]]] = np.arange(n)
    if (cells >= 0).sum() < n:
        return None
    row_of = np.empty(n_factors, np.int64)
    row_of[arrays.row_factors] = np.arange(n_factors)
    return MatchingTable(
        readonly(cells, np.int64),
        readonly(row_of[lines], np.int64),
        readonly(row_of[columns], np.int64),
        readonly(~exact[lines], np.int64),
        readonly([exact[columns].sum()], np.int64),
    )


def _sides(ends, link_ptr, links, exact):
    """Return whether each factor is a column; None if the factors do not divide into lines and columns.

    In each connected component the lines are the side with equations only, if there is one; otherwise the smaller side.
    """
    side = np.full(len(exact), -1)
    for root in range(len(exact)):
        if side[root] >= 0:
            continue
        side[root], part = 0, [root]
        for f in part:
            sides = ends[links[link_ptr[f] : link_ptr[f + 1]]]
            others = sides.sum(axis=1) - f
            if (side[others] == side[f]).any():
                return None
            new = np.unique(others[side[others] < 0])
            side[new] = 1 - side[f]
            part.extend(new.tolist())
        part = np.array(part)
        lines, columns = (part[side[part] == k] for k in (0, 1))
        if (not exact[lines].all(), len(lines)) > (not exact[columns].all(), len(columns)):
            side[part] = 1 - side[part]
    return side == 1
