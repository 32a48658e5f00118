"""The edges that lie on paths from the source to the target, in the order in which dynamic programs visit them."""

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
    leaving = {}
    for tail, head in edges.tolist():
        leaving.setdefault(tail, []).append(head)
        leaving.setdefault(head, [])
    order = _topological_order(leaving)
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


def _topological_order(leaving):
    """Return the nodes in an order in which all edges lead forward; raise ValueError if there is a cycle."""
    n_entering = dict.fromkeys(leaving, 0)
    for heads in leaving.values():
        for head in heads:
            n_entering[head] += 1
    order = [node for node, n in n_entering.items() if n == 0]
    for node in order:
        for head in leaving[node]:
            n_entering[head] -= 1
            if n_entering[head] == 0:
                order.append(head)
    if len(order) < len(leaving):
        cycle = " -> ".join(map(str, _cycle(leaving, n_entering)))
        raise ValueError(
            f"the graph has a cycle, {cycle}; paths need a directed acyclic graph, so remove one of its edges"
        )
    return order


def _cycle(leaving, n_entering):
    """Return the nodes of a cycle, the first one also at the end."""
    entered_from = {}
    for node, heads in leaving.items():
        for head in heads:
            # Each node that is left is entered from another one that is left.
            if n_entering[node] > 0:
                entered_from[head] = node
    node = next(node for node, n in n_entering.items() if n > 0)
    walked = [node]
    while entered_from[node] not in walked:
        node = entered_from[node]
        walked.append(node)
    start = walked.index(entered_from[node])
    return [walked[start], *walked[start:][::-1]]
