"""Kernels that run side by side on several threads: they wait for each other, and fetch data ahead."""

from ._core.compile.mode import IS_LINKED
from ._jit import kernel

# Integers of 8 bytes in a cache line: each thread of a team has a line for itself.
LINE = 8
# A thread looks for the others so often before it gives up the processor, which takes longer than most waits.
_LOOKS = 4000

if IS_LINKED:
    from ._core.compile.atomics import give_way, load_atomic, prefetch, store_atomic

    # Maximum number of threads; no limit.
    LARGEST_TEAM = 2**31 - 1
else:
    # Without atomic operations threads cannot wait for each other. No result depends on their number.
    LARGEST_TEAM = 1

    @kernel
    def give_way():
        """Let other threads have the processor."""

    @kernel
    def load_atomic(array, place):
        """Read an integer."""
        return array[place]

    @kernel
    def store_atomic(array, place, value):
        """Write an integer."""
        array[place] = value

    @kernel
    def prefetch(array, place):
        """Do nothing."""


@kernel
def meet(signals, me, n_threads):
    """Wait until all threads of a team have come here as often as this one.

    Parameters
    ----------
    signals : int array of shape ((n_threads + 1) * LINE,)
        Zeros at first. A number at the last line's beginning ends all waiting: a thread has failed.
    me, n_threads : int

    Returns
    -------
    all_here : bool
        False if one will not come.
    """
    if n_threads == 1:
        return True
    times = signals[me * LINE] + 1
    store_atomic(signals, me * LINE, times)
    for other in range(n_threads):
        looks = 0
        while load_atomic(signals, other * LINE) < times:
            looks += 1
            if looks > _LOOKS:
                give_way()
                if load_atomic(signals, n_threads * LINE) != 0:
                    return False
    return True
