"""The edges that lie on paths from the source to the target, in the order in which dynamic programs visit them.

Used by `structures/_hyperpath` and `structure.py`.
"""

from graphlib import CycleError, TopologicalSorter

import numpy as np


def usable_arcs(edges, source, target):
    """Order the edges that lie on a path from the source to the target.

    Parameters
    ----------
    edges : int array of shape (n_edges, 2)
        The tail and the head of each edge.
    source, target : int
        Different nodes.

    Returns
    -------
    arcs : int array of shape (n_usable, 4)
        For each usable edge its index, the numbers of its tail and its head, and the largest number of edges between
        the source and its tail. Nodes of usable edges are numbered so that edges lead from smaller to larger numbers;
        the source is 0, the target has the highest number. Sorted by head.
    is_fixed : bool
        Whether all paths have the same number of edges.

    Raises
    ------
    ValueError
        If the graph has a cycle, which the message names, or no path from the source to the target.
    """
    leaving, entering = {}, {}
    for tail, head in edges.tolist():
        leaving.setdefault(tail, []).append(head)
        leaving.setdefault(head, [])
        entering.setdefault(head, []).append(tail)
    order = topological_order(entering, "paths need a directed acyclic graph, so remove one of its edges")
    shortest, longest = {source: 0}, {source: 0}
    for node in order:
        for head in leaving[node] if node in shortest else ():
            shortest[head] = min(shortest.get(head, shortest[node] + 1), shortest[node] + 1)
            longest[head] = max(longest.get(head, 0), longest[node] + 1)
    if target not in shortest:
        raise ValueError(f"no path leads from source {source} to target {target}; add edges that connect them")
    leads = {target}
    for node in reversed(order):
        if any(head in leads for head in leaving[node]):
            leads.add(node)
    number = {}
    for node in order:
        if node in leads and node in shortest:
            number[node] = len(number)
    arcs = [
        (edge, number[tail], number[head], longest[tail])
        for edge, (tail, head) in enumerate(edges.tolist())
        if tail in number and head in number
    ]
    arcs.sort(key=lambda arc: (arc[2], arc[0]))
    return np.array(arcs, np.int64), shortest[target] == longest[target]


def topological_order(entering, need):
    """Return the nodes in an order in which all edges lead forward.

    Parameters
    ----------
    entering : dict of int -> list of int
        The nodes from which edges lead to each node.
    need : str
        The requirement and the remedy, for the message.

    Raises
    ------
    ValueError
        If there is a cycle, which the message names.
    """
    try:
        return list(TopologicalSorter(entering).static_order())
    except CycleError as error:
        cycle = " -> ".join(map(str, error.args[1]))
        raise ValueError(f"the graph has a cycle, {cycle}; {need}") from None
