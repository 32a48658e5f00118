"""What hangs together: parts of a graph, by representatives that point to one another."""

from .._core.jit import kernel


@kernel
def representative(parents, i):
    """Return the representative of what `i` hangs together with, shortening the way to it."""
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i
