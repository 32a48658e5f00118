"""SparseMAP over chains as a flow: states are nodes of a layered network, transitions its arcs.

If scores are small, a solution mixes hundreds of paths, but it is a single flow. Conventions of all files here: a chain
has T steps of M states. ``flow`` (T - 1, M, M) is the flow v >= 0 of each arc from one step to the next, and ``u`` (T,
M) the flow through each node. ``scores`` (T, M) and ``gains`` (T - 1, M, M) are the scores of nodes and arcs. Scores of
the start and the end are part of `scores`; scores of forbidden nodes and arcs are set to 0. ``allowed`` (T - 1, M, M)
is 1 for arcs on an allowed path, else 0; ``on`` (T, M) is the same for nodes. The potentials ``out`` (T, M) and
``into`` (T, M) belong to the flow that leaves and enters a node. ``slack = -(gains + out + into)`` is the reduced cost
of an arc. The potentials solve a block tridiagonal system of 2 (T - 1) blocks, in the order out of step 0, into step 1,
out of step 1 and so on.

Rows of states are padded with zeros to P >= M numbers, a multiple of the width in `_core/lanes.py`. Arrays are (T, P)
and (T - 1, M, P).
"""
