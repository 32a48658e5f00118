"""SparseMAP over chains as a flow: states are nodes of a layered network, transitions its arcs.

If scores are small, a solution mixes hundreds of paths, but it is a single flow. Conventions of all files here: a chain
has T steps of M states. ``flow`` is the flow v >= 0 of each arc from one step to the next, and ``u`` the flow through
each node. ``scores`` and ``gains`` are the scores of nodes and arcs; scores of the start and the end are part of
`scores`. Rows are padded to P >= M numbers, a multiple of the width in `_core/lanes.py`.

The potentials of a step belong to the flow into its nodes, and out of them. ``gains + out + into`` is the reduced gain
of an arc, 0 if the arc has flow, and ``u = scores - into - out``. Transitions have no penalty, so an optimal flow needs
no cycles: its arcs form trees (`forest.py`), which pivots find (`pivots.py`) from a guess by sweeps (`start.py`).
"""
