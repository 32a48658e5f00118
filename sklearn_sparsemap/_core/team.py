"""Kernels that run in parallel on several threads: barriers, and prefetching.

Used by `_training`.
"""

from .compile.mode import IS_LINKED
from .jit import kernel

LINE = 8  # integers of 8 bytes in a cache line; each thread of a team writes to a separate line
_LOOKS = 4000  # polls of a waiting thread before it yields the processor, which takes longer than most waits

if IS_LINKED:
    from .compile.atomics import give_way, load_atomic, prefetch, store_atomic

    # Maximum number of threads; no limit.
    LARGEST_TEAM = 2**31 - 1
else:
    # Without atomic operations threads cannot wait for each other, so one is used. Results do not depend on their
    # number.
    LARGEST_TEAM = 1

    @kernel
    def give_way():
        """Yield the processor to other threads."""

    @kernel
    def load_atomic(array, index):
        """Read an integer."""
        return array[index]

    @kernel
    def store_atomic(array, index, value):
        """Write an integer."""
        array[index] = value

    @kernel
    def prefetch(array, index):
        """Do nothing."""


@kernel
def barrier_wait(signals, me, n_threads):
    """Wait at a barrier until all threads of a team have called this as often as this thread.

    Parameters
    ----------
    signals : int array of shape ((n_threads + 1) * LINE,)
        Zeros at the start. A nonzero number at the beginning of the last line means that a thread has failed
        (`FAILED` in `_training/_online/epoch.py`).
    me, n_threads : int
        Number of this thread, and of threads.

    Returns
    -------
    all_here : bool
        False if a thread has failed.
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
