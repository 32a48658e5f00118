"""Connected components by union-find: representatives that point to one another.

Used by `_graphs`.
"""

from .._core.jit import kernel


@kernel
def representative(parents, i):
    """Return the representative of the component of `i`, with path halving."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i
