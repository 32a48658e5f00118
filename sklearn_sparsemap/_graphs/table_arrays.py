"""Graphs of categorical variables (nodes) with tables of scores for pairs of them (edges) only.

A graph of any other form has no `TableArrays`, and general solvers solve it. The kernels in `tables/` rely on each of
the conditions: exactly one value of each node is on, a node's variables follow one another, and both ends of an edge
have the same number of values, all signs and costs are 1, and cells and messages follow the order of the variables.

Used by `_graphs/tables` and `factors`.
"""

from collections import namedtuple

import numpy as np
from numba import types
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._core.jit import INTS, INTS_2D, readonly
from .._core.offsets import ragged_indices
from .arrays import COUNT, STRUCTURE

# Node i has the variables nodes[i]:nodes[i + 1] of the graph; exactly one of them is on. Edge e joins the nodes
# ends[e]. Its table has the cells cells[e]:cells[e + 1] of the additional scores, row by row. Its messages are
# messages[e]:messages[e + 1], one for each value of the first node, then one for each value of the second. `links` are
# the links of the messages, and `values` their variables. `node_links` are the links of the variables in the factors
# that make the values of a node exclusive. `positions` numbers the nodes such that neighbours have similar numbers;
# `order` lists the nodes by position. `reach` is, by position, the first position of a node and its neighbours.
# `inference/_graph/branch.py` and `consistency.py` read nodes, edges, cells and messages, too.
TableArrays = namedtuple(
    "TableArrays",
    ["nodes", "ends", "cells", "messages", "links", "values", "node_links", "positions", "order", "reach"],
)
TABLE_ARRAYS = types.NamedTuple([INTS, INTS_2D, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS], TableArrays)


def tables_of(arrays, is_table):
    """Return the `TableArrays` of a graph, or None if it has other factors.

    Parameters
    ----------
    arrays : GraphArrays
    is_table : bool array of shape (n_factors,)
        Whether a factor is the table of a pair of variables, as a chain of two steps.
    """
    n = len(arrays.degrees)
    kinds = arrays.factor_types
    lengths = np.diff(arrays.link_ptr)
    exclusive = np.flatnonzero(~is_table)
    first = arrays.links[arrays.link_ptr[exclusive]]
    if not is_table.any() or not (
        (kinds[exclusive] == COUNT).all()
        and (kinds[is_table] == STRUCTURE).all()
        and (arrays.low[exclusive] == 1.0).all()
        and (arrays.high[exclusive] == 1.0).all()
        and (arrays.signs == 1.0).all()
        and (arrays.costs == 1.0).all()
        and lengths[exclusive].sum() == n
    ):
        return None
    exclusive = exclusive[np.argsort(first)]
    nodes = np.concatenate([[0], np.cumsum(lengths[exclusive])])
    node_links = ragged_indices(arrays.link_ptr[exclusive], lengths[exclusive])
    links = ragged_indices(arrays.link_ptr[:-1][is_table], lengths[is_table])
    if not np.array_equal(arrays.links[node_links], np.arange(n)):
        return None
    messages = np.concatenate([[0], np.cumsum(lengths[is_table])])
    steps = np.stack([arrays.links[links[messages[:-1]]], arrays.links[links[(messages[:-1] + messages[1:]) // 2]]], 1)
    ends = np.searchsorted(nodes, steps, side="right") - 1
    n_values = np.diff(nodes)
    values = ragged_indices(nodes[ends].ravel(), (np.diff(messages) // 2).repeat(2))
    if not ((n_values[ends] * 2 == np.diff(messages)[:, None]).all() and np.array_equal(values, arrays.links[links])):
        return None
    starts = arrays.additional_ptr[:-1][is_table]
    cells = np.concatenate([starts, arrays.additional_ptr[1:][is_table][-1:]])
    if not np.array_equal(cells[1:] - cells[:-1], n_values[ends[:, 0]] ** 2):
        return None
    both = np.concatenate([ends, ends[:, ::-1]])
    near = sparse.csr_array((np.ones(len(both)), tuple(both.T)), shape=(len(n_values),) * 2)
    order = reverse_cuthill_mckee(near, symmetric_mode=True).astype(np.int64)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    reach = np.arange(len(order))
    np.minimum.at(reach, places[both[:, 0]], places[both[:, 1]])
    fields = nodes, ends, cells, messages, links, values, node_links, places, order, reach
    return TableArrays(*(readonly(array, np.int64) for array in fields))
