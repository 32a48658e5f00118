"""The best non-projective tree: contraction of cycles (Chu and Liu 1965, Edmonds 1967).

Used by `labels.py` and `structure.py`.
"""

import numpy as np

from ..._core.jit import kernel

# States of a node in the contraction algorithm: unvisited, on the current path, known to be reached from the root, or
# merged into a cycle.
_NEW, _ON_PATH, _DONE, _MERGED = 0, 1, 2, 3


@kernel
def _best_heads(scores, n, single_root, best, heads):
    """Find each word's best head separately; with `single_root` the root only if no word can be the head."""
    for m in range(n):
        best[m] = -np.inf if single_root else scores[m]
        heads[m] = 0
    for h in range(1, n + 1):
        row = scores[h * n : (h + 1) * n]
        # The arc from the word to itself is included, so that the loop is vectorised, and undone afterwards.
        before, head_before = best[h - 1], heads[h - 1]
        for m in range(n):
            if row[m] > best[m]:
                heads[m] = h
                best[m] = row[m]
        best[h - 1], heads[h - 1] = before, head_before
    if single_root:
        for m in range(n):
            if best[m] == -np.inf:
                best[m], heads[m] = scores[m], 0


@kernel
def _is_tree(heads, n, single_root, mark):
    """Return whether the heads have no cycle and, with `single_root`, a single word at the root."""
    n_roots = 0
    for m in range(n):
        mark[m] = 0
        n_roots += heads[m] == 0
    if single_root and n_roots > 1:
        return False
    for start in range(1, n + 1):
        v = start
        while v != 0 and mark[v - 1] == 0:
            mark[v - 1] = start
            v = heads[v - 1]
        if v != 0 and mark[v - 1] == start:
            return False
    return True


@kernel
def _read_arcs(scores, n, c, entering, modifiers):
    """Fill in the weights of entering word `c` from each head."""
    for h in range(n + 1):
        entering[h], modifiers[h] = scores[h * n + c - 1], c


@kernel
def _enter(inner, inner_modifiers, offset, entering, modifiers):
    """Update the best weights of entering a cycle from each head by the arcs into a word or an inner cycle."""
    for h in range(inner.shape[0]):
        weight = inner[h] - offset
        if weight > entering[h]:
            modifiers[h] = inner_modifiers[h]
            entering[h] = weight


@kernel
def _best_entry(entering, owner, u, single_root):
    """Return the best head of the node in slot `u`; with `single_root` the root only if there is no other."""
    head = np.int64(0)
    best = -np.inf if single_root else entering[0]
    for h in range(1, entering.shape[0]):
        if entering[h] > best and owner[h] != u:
            head, best = h, entering[h]
    return (head, best) if best > -np.inf else (np.int64(0), entering[0])


@kernel
def _expand(n, n_nodes, parent, entry_arc, slots):
    """Write the arcs of the tree, from the outermost cycles inwards: the arc into a cycle replaces an arc within it."""
    for node in range(n_nodes - 1, n, -1):
        inside = entry_arc[node] % n + 1
        while parent[inside] != node:
            inside = parent[inside]
        entry_arc[inside] = entry_arc[node]
    for m in range(n):
        slots[m] = entry_arc[m + 1]


@kernel
def _score_of(scores, n, single_root, slots):
    """Return the score of a tree; -inf if it has several roots, but only one is allowed."""
    value, n_roots = 0.0, 0
    for m in range(n):
        value += scores[slots[m]]
        n_roots += slots[m] < n
    return -np.inf if single_root and n_roots > 1 else value


@kernel
def _start(n, state, node_of, owner, parent, entry_arc, slots):
    """Set the arrays of the contraction before the first cycle; see `chu_liu_edmonds`.

    Parameters
    ----------
    n : int
        Number of words.
    state, node_of, owner : int arrays of shape (n + 1,)
        State and current node of each slot, and the slot of each word.
    parent, entry_arc : int arrays of shape (2 * n + 2,)
        For each node the cycle that contains it (-1 if there is none), and the arc that enters it.
    slots : int array of shape (n,)
        The best arc of each word.
    """
    for v in range(n + 1):
        state[v], node_of[v], owner[v] = _NEW, v, v
    state[0] = _DONE
    parent[:] = -1
    for m in range(n):
        entry_arc[m + 1] = slots[m]


@kernel
def chu_liu_edmonds(scores, n, single_root, work, slots):
    """Find the best non-projective tree by contraction of cycles, in O(n^2) for dense scores (Tarjan 1977).

    Entering a cycle at word m replaces the arc that m has within it. So in later rounds a cycle is represented by, for
    each head outside, the weight of the best arc into the cycle minus the weight of the replaced arc. Heads remain
    words throughout; `owner` gives the slot into which a word was merged.

    A single root is exact: an arc from the root is taken only if no other head is left, so the number of such arcs is
    minimal. (They rank below all other arcs. The weights of the two ranks are never mixed, because an arc from the root
    is not part of a cycle.)
    """
    best = work[:n]
    heads = work[n : 2 * n].view(np.int64)
    state = work[2 * n : 3 * n + 1].view(np.int64)
    _best_heads(scores, n, single_root, best, heads)
    for m in range(n):
        if best[m] == -np.inf:
            return -np.inf
        slots[m] = heads[m] * n + m
    if not _is_tree(heads, n, single_root, state):
        size = n + 1
        rest = work[3 * n + 1 :]
        entering = rest[: n * size].reshape((n, size))
        modifiers = rest[n * size : 2 * n * size].view(np.int64).reshape((n, size))
        ints = rest[2 * n * size :].view(np.int64)
        # Nodes 1..n are words, later nodes are cycles; `node_of` gives the node that a slot currently represents.
        owner, node_of, path = ints[:size], ints[size : 2 * size], ints[2 * size : 3 * size]
        parent, entry_arc = ints[3 * size : 5 * size], ints[5 * size : 7 * size]
        _start(n, state, node_of, owner, parent, entry_arc, slots)
        n_nodes = size
        for start in range(1, size):
            if state[start] != _NEW:
                continue
            length, v = 1, start
            path[0] = start
            state[start] = _ON_PATH
            while True:
                u = owner[heads[v - 1]]
                if state[u] == _DONE:
                    break
                if state[u] == _NEW:
                    state[u] = _ON_PATH
                    path[length] = u
                    length += 1
                    v = u
                    continue
                # A cycle, from `u` to the end of the path, which is merged into slot `u`.
                first = length
                into, into_modifiers = entering[u - 1], modifiers[u - 1]
                if node_of[u] == u:
                    _read_arcs(scores, n, u, into, into_modifiers)
                for h in range(size):
                    into[h] -= best[u - 1]
                c = -1
                while c != u:
                    first -= 1
                    c = path[first]
                    parent[node_of[c]] = n_nodes
                    if c != u:
                        state[c] = _MERGED
                        if node_of[c] == c:
                            _read_arcs(scores, n, c, entering[c - 1], modifiers[c - 1])
                        _enter(entering[c - 1], modifiers[c - 1], best[c - 1], into, into_modifiers)
                node_of[u] = n_nodes
                for h in range(size):
                    owner[h] = u if state[owner[h]] == _MERGED else owner[h]
                heads[u - 1], best[u - 1] = _best_entry(into, owner, u, single_root)
                if best[u - 1] == -np.inf:
                    return -np.inf
                entry_arc[n_nodes] = heads[u - 1] * n + into_modifiers[heads[u - 1]] - 1
                n_nodes += 1
                length = first + 1
                v = u
            for p in range(length):
                state[path[p]] = _DONE
        _expand(n, n_nodes, parent, entry_arc, slots)
    return _score_of(scores, n, single_root, slots)
