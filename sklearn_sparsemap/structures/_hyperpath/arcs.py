"""The hyperarcs that derivations of the target can use, in the order in which dynamic programs visit them.

Used by `structure.py`.
"""

from typing import NamedTuple

import numpy as np

from .._path.arcs import topological_order
from .map import PART, SLOT, TAIL


class UsableArcs(NamedTuple):
    """The usable part of a hypergraph.

    Attributes
    ----------
    arcs : int array of shape (n_usable, 4)
        For each usable hyperarc its index, the numbers of its tails, and its slot. Sorted by the numbers of their
        heads. The target has number 0, and tails have larger numbers than heads. A tail that is given, or none, has
        the number ``n_nodes``.
    place_of : int array of shape (n_arcs,)
        The row of each hyperarc in `arcs`; -1 if it is not usable.
    begins : int array of shape (n_nodes + 1,)
        The hyperarcs into node k are those from ``begins[k]`` to ``begins[k + 1]``.
    n_slots : int
    is_fixed : bool
        Whether all derivations have the same number of hyperarcs.
    nodes : list of int
        The node of each number.
    """

    arcs: np.ndarray
    place_of: np.ndarray
    begins: np.ndarray
    n_slots: int
    is_fixed: bool
    nodes: list

    def heads(self):
        """Return the number of the head of each hyperarc."""
        return np.repeat(np.arange(len(self.nodes)), np.diff(self.begins))


def usable_arcs(heads, tails, target):
    """Return the `UsableArcs` of a hypergraph.

    Parameters
    ----------
    heads : int array of shape (n_arcs,)
    tails : int array of shape (n_arcs, 2)
        -1 for no tail.
    target : int
        A head.

    Raises
    ------
    ValueError
        If the hypergraph has a cycle, or if a derivation could use a hyperarc twice; the message names it.
    """
    arcs_into = {}
    for arc, head in enumerate(heads.tolist()):
        arcs_into.setdefault(head, []).append(arc)
    # The other nodes are given.
    tails_of = [[tail for tail in own if tail in arcs_into] for own in tails.tolist()]
    below = {head: [tail for arc in arcs for tail in tails_of[arc]] for head, arcs in arcs_into.items()}
    order = topological_order(
        below, "derivations need a directed acyclic hypergraph, so remove one of the hyperarcs along it"
    )
    reached, nodes = {target}, []
    for node in reversed(order):
        if node in reached:
            nodes.append(node)
            reached.update(below[node])
    number = {node: place for place, node in enumerate(nodes)}
    own_arcs = [arcs_into[node] for node in nodes]
    tails_of = {arc: [number[tail] for tail in tails_of[arc]] for arcs in own_arcs for arc in arcs}
    is_path = all(len(own) < 2 for own in tails_of.values())
    if not is_path:
        _refuse_repeats(own_arcs, tails_of, nodes)
    fewest = [0] * len(nodes)
    most = [0] * len(nodes)
    depth = [0] * len(nodes)
    for place in range(len(nodes) - 1, -1, -1):
        fewest[place] = 1 + min(sum(fewest[tail] for tail in tails_of[arc]) for arc in own_arcs[place])
        most[place] = 1 + max(sum(most[tail] for tail in tails_of[arc]) for arc in own_arcs[place])
    for place, arcs in enumerate(own_arcs):
        for arc in arcs:
            for tail in tails_of[arc]:
                depth[tail] = max(depth[tail], depth[place] + 1)
    # A derivation has each node at most once, and if it is a path, each depth.
    slots = depth if is_path else range(len(nodes))
    rows = [
        (arc, *tails_of[arc], *[len(nodes)] * (2 - len(tails_of[arc])), slots[place])
        for place, arcs in enumerate(own_arcs)
        for arc in arcs
    ]
    arcs = np.array(rows, np.int64)
    place_of = np.full(len(heads), -1)
    place_of[arcs[:, PART]] = np.arange(len(arcs))
    begins = np.cumsum([0, *map(len, own_arcs)])
    return UsableArcs(arcs, place_of, begins, max(slots) + 1, fewest[0] == most[0], nodes)


def _refuse_repeats(own_arcs, tails_of, nodes):
    """Raise ValueError if a derivation could have a node twice: if both tails of a hyperarc lead to it."""
    # The nodes below each node, as the bits of an int.
    below = [0] * len(nodes)
    for place in range(len(nodes) - 1, -1, -1):
        below[place] = 1 << place
        for arc in own_arcs[place]:
            own = [below[tail] for tail in tails_of[arc]]
            if len(own) == 2 and own[0] & own[1]:
                twice = own[0] & own[1]
                node = nodes[(twice & -twice).bit_length() - 1]
                raise ValueError(
                    f"both tails of hyperarc {arc} lead to node {node}, so a derivation could use the hyperarcs into "
                    f"node {node} twice; make a copy of the node for one of the tails"
                )
            for nodes_below in own:
                below[place] |= nodes_below


def reaches(layout, place):
    """Return whether each node leads to the node with the number `place`: a bool array, the last entry for no node."""
    found = np.zeros(len(layout.nodes) + 1, bool)
    found[place] = True
    for node in range(place - 1, -1, -1):
        found[node] = found[layout.arcs[layout.begins[node] : layout.begins[node + 1], TAIL:SLOT]].any()
    return found
