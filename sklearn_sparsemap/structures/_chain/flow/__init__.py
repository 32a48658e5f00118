"""SparseMAP over chains as a flow: states are nodes of a layered network, transitions its arcs.

If scores are small, a solution mixes hundreds of paths, but it is a single flow. Conventions of all files here: a chain
has T steps of M states. ``flow`` is the flow v >= 0 of each arc from one step to the next, and ``u`` the flow through
each node. ``scores`` and ``gains`` are the scores of nodes and arcs. Scores of the start and the end are part of
`scores`; scores of forbidden nodes and arcs are set to 0. ``allowed`` is 1 for arcs on an allowed path, else 0; ``on``
is the same for nodes. The potentials of a step belong to the flow into its nodes, and out of them. ``slack = -(gains +
out + into)`` is the reduced cost of an arc. The potentials solve a block tridiagonal system of 2 (T - 1) blocks, in the
order out of step 0, into step 1, out of step 1 and so on.

A network may have its own number of states at each step, M_t. Its arrays are flat, and `layout.py` tells where each
step begins. Rows are padded with zeros to P_t >= M_t numbers, a multiple of the width in `_core/lanes.py`: the nodes of
step t are a row of P_t numbers, its arcs to the next step M_t rows of P_{t+1} numbers, and its potentials two rows of
P_t numbers, those of the flow into it first. Nothing flows into the first step, nor out of the last: these two rows of
potentials are 0.
"""
