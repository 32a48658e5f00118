"""Forked processes: locks that other threads hold at the moment of a fork.

Used by `_layers`, `jax` and `jit.py`.
In this folder, `jit.py` uses it for the locks of the compiler.
"""

import os

_PATIENCE = 60.0  # seconds that a fork waits for a lock; after that the child gets a new one, and may see half a change


class _AroundForks:
    """Holds a lock while a process forks, so that the child sees the data that it protects as a whole."""

    def __init__(self, lock):
        self._lock, self._is_held = lock, False

    def before(self):
        self._is_held = self._lock.acquire(timeout=_PATIENCE)

    def in_parent(self):
        if self._is_held:
            self._lock.release()

    def in_child(self):
        if self._is_held:
            self._lock.release()
        else:
            # As the standard library does: the thread that holds the lock does not exist in the child.
            self._lock._at_fork_reinit()


def hold_around_forks(lock):
    """Let forks wait until no other thread holds a lock of a module (`Lock` or `RLock`); return the lock.

    A thread that holds two such locks must have taken them in the opposite order of these calls.
    """
    if hasattr(os, "register_at_fork"):
        around = _AroundForks(lock)
        os.register_at_fork(before=around.before, after_in_parent=around.in_parent, after_in_child=around.in_child)
    return lock
