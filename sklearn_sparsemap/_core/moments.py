"""Estimators that some threads read while another one trains them: readers see the attributes of one moment.

A method that trains works on a copy of the estimator, and replaces the dict of the attributes at its end. A method that
reads keeps the dict with which it began. Only the optimiser of a stream changes in place: `partial_fit` and the readers
of an optimiser take turns.

Used by `conformal`, `estimators`, `features`, `export.py`, `pickles.py` and `unwrap.py`.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import wraps
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    Method = TypeVar("Method")

_COURTESY = 1.0  # maximum number of seconds that training waits for threads that want to read
_FORK_PATIENCE = 60.0  # seconds that a fork waits for a mini-batch


class _Turn:
    """Whose turn it is to use an optimiser: the thread that trains it, or threads that read it.

    Attributes
    ----------
    changed : threading.Condition
        Held while an optimiser is read, not while it is trained.
    trainer : int or None
        Identifier of the thread that trains.
    n_waiting, n_served : int
        Number of threads that wait for their turn, and number of turns so far.
    """

    def __init__(self):
        self.changed = threading.Condition()
        self.trainer = None
        self.n_waiting = 0
        self.n_served = 0

    def wait(self, seconds=None):
        """Wait until no other thread trains."""
        self.n_waiting += 1
        try:
            return self.changed.wait_for(lambda: self.trainer in (None, get_ident()), seconds)
        finally:
            self.n_waiting -= 1
            self.n_served += 1
            self.changed.notify_all()

    def let_others_read(self):
        """Wait for those who are waiting: a stream of mini-batches without a pause would leave no turn to them."""
        target = self.n_served + self.n_waiting
        self.changed.wait_for(lambda: self.n_served >= target, _COURTESY)


# The turns of optimisers, which are not among their attributes because locks cannot be pickled.
_turns = WeakKeyDictionary()


def _turn_of(optimizer):
    return _turns.get(optimizer) or _turns.setdefault(optimizer, _Turn())


def _optimizer_of(estimator):
    return getattr(vars(estimator).get("_learned"), "optimizer", None)


def view_of(estimator):
    """Return a copy of an estimator that shares its attributes."""
    view = object.__new__(type(estimator))
    view.__dict__ = vars(estimator).copy()
    return view


@contextmanager
def at_rest(estimator):
    """Return a view of an estimator whose optimiser, if any, no other thread trains within this context."""
    while (optimizer := _optimizer_of(estimator)) is not None:
        turn = _turn_of(optimizer)
        with turn.changed:
            turn.wait()
            # The other thread may have published a new optimiser.
            if _optimizer_of(estimator) is optimizer:
                yield view_of(estimator)
                return
    yield view_of(estimator)


@contextmanager
def turn_to_train(estimator):
    """Let only this thread train the optimiser of an estimator, if it has one, within this context."""
    turn, is_outer = None, False
    try:
        while (optimizer := _optimizer_of(estimator)) is not None:
            turn = _turn_of(optimizer)
            with turn.changed:
                turn.wait()
                turn.let_others_read()
                if _optimizer_of(estimator) is optimizer and turn.trainer in (None, get_ident()):
                    is_outer = turn.trainer is None
                    turn.trainer = get_ident()
                    break
        yield
    finally:
        if is_outer:
            with turn.changed:
                turn.trainer = None
                turn.changed.notify_all()


def whole(estimator):
    """Return a view of an estimator, with the attributes and the model of one moment.

    Methods that read several attributes begin with this: ``self = whole(self)``.
    """
    view = object.__new__(type(estimator))
    # Training replaces this dict and never changes it, so it need not be copied.
    view.__dict__ = attributes = vars(estimator)
    # A state without its model reads the optimiser.
    if "_learned" in attributes and "model" not in vars(attributes["_learned"]):
        with at_rest(estimator) as view:
            _ = view._learned.model
    return view


def in_one_step(method: Method) -> Method:
    """Decorate a method that fits an object: other threads see it before or after the fit; an error changes nothing."""

    @wraps(method)
    def fit(estimator, *args, **kwargs):
        working = view_of(estimator)
        result = method(working, *args, **kwargs)
        estimator.__dict__ = vars(working)
        return estimator if result is working else result

    return fit


class _Forks:
    """Holds all turns while a process forks, so that no optimiser is copied in the middle of a step."""

    held = []

    @classmethod
    def before(cls):
        end = perf_counter() + _FORK_PATIENCE
        for turn in list(_turns.values()):
            if turn.changed.acquire(timeout=max(0.0, end - perf_counter())):
                turn.wait(max(0.0, end - perf_counter()))
                cls.held.append(turn)

    @classmethod
    def in_parent(cls):
        while cls.held:
            cls.held.pop().changed.release()

    @classmethod
    def in_child(cls):
        for turn in list(_turns.values()):
            turn.__init__()
        cls.held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_Forks.before, after_in_parent=_Forks.in_parent, after_in_child=_Forks.in_child)
