"""Graphs that are one matching: every variable is a cell of a table whose lines and columns each have one factor."""

from collections import namedtuple

import numpy as np
from numba import types

from .._core.jit import INTS, INTS_2D, readonly
from .arrays import COUNT

# `cells[r, c]` is the variable of line r and column c, -1 where there is none. `lines` and `columns` are the rows of
# the graph (see `GraphArrays`) that bound their sums by 1. The sum of line r is at most 1 where `at_most[r]`, else 1;
# that of a column is 1 for those of `exact`, which come first, and at most 1 for the others.
MatchingTable = namedtuple("MatchingTable", ["cells", "lines", "columns", "at_most", "exact"])
MATCHING_TABLE = types.NamedTuple([INTS_2D, INTS, INTS, INTS, INTS], MatchingTable)

# A table with more cells than this for each variable is better solved as the sparse graph that it is.
_MOST_CELLS = 4


def matching_of(arrays):
    """Return the table of a graph whose factors are those of one matching, or None.

    They are if each is ``sum(u) == 1`` or ``sum(u) <= 1`` over variables that are not negated, each variable is in two
    of them, no two variables in the same two, and the factors are of two sorts: no two of a sort share a variable.
    """
    n, n_factors = len(arrays.degrees), len(arrays.kinds)
    exact = arrays.low == 1.0
    if not (
        len(arrays.links) == 2 * n
        and (arrays.degrees == 2).all()
        and (arrays.kinds == COUNT).all()
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
    lines, columns = np.flatnonzero(~is_column), np.flatnonzero(is_column)
    # Equations come first among the columns.
    columns = columns[np.argsort(~exact[columns], kind="stable")]
    if len(lines) * len(columns) > _MOST_CELLS * n:
        return None
    place = np.empty(n_factors, np.int64)
    place[lines], place[columns] = np.arange(len(lines)), np.arange(len(columns))
    ends = np.where(is_column[ends[:, :1]], ends[:, ::-1], ends)
    cells = np.full((len(lines), len(columns)), -1)
    cells[place[ends[:, 0]], place[ends[:, 1]]] = np.arange(n)
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
    """Tell for each factor whether it is a column; None if two that share a variable would be of one sort.

    In each connected part the lines are those that are all equations, if one sort is; else the smaller sort.
    """
    side = np.full(len(exact), -1)
    for root in range(len(exact)):
        if side[root] >= 0:
            continue
        side[root], part = 0, [root]
        for f in part:
            own = ends[links[link_ptr[f] : link_ptr[f + 1]]]
            others = own.sum(axis=1) - f
            if (side[others] == side[f]).any():
                return None
            new = np.unique(others[side[others] < 0])
            side[new] = 1 - side[f]
            part.extend(new.tolist())
        part = np.array(part)
        sorts = [part[side[part] == k] for k in (0, 1)]
        # The first one has the lines.
        if (not exact[sorts[0]].all(), len(sorts[0])) > (not exact[sorts[1]].all(), len(sorts[1])):
            side[part] = 1 - side[part]
    return side == 1
