"""Entries of the register: the names of operators in compiled and exported programs.

Used by `torch`, `losses.py`, `operators.py` and `register.py`.
"""

import json
from functools import cached_property
from weakref import WeakValueDictionary

from .._core.keys import HasContent
from .digest import digest_of

# characters of the description of a structure or graph in a name
_SHOWN = 80

# Operators by their numbers and names.
by_handle = WeakValueDictionary()


class RegisterEntry:
    """The entry of an operator, or of a reader of gold structures, in the register.

    Parameters
    ----------
    kind : str
        The name of the function that makes it, see `register.maker`.
    what : Structure, FactorGraph, or callable
    args : tuple
        Other arguments of that function: numbers, texts, None, and tuples of these.
    number : int
        The number by which programs of JAX refer to it, in this process only.
    """

    def __init__(self, kind, what, args, number):
        self.kind, self.what, self.args, self.number = kind, what, args, number
        self._version = _version_of(what)

    def is_current(self):
        """Tell whether the structure or graph has not changed."""
        return _version_of(self.what) == self._version

    @cached_property
    def digest(self):
        """The digest of the structure or graph."""
        return digest_of(self.what)

    @cached_property
    def name(self):
        """The name by which programs of PyTorch refer to it, in all processes: its kind, digest and arguments."""
        shown = f"{self.what!r:.{_SHOWN}}" if isinstance(self.what, HasContent) else "a function"
        return json.dumps([self.kind, self.digest, shown, self.args], default=lambda number: number.item())


class Registered:
    """Base class of all that the register contains."""

    entry = None

    @property
    def handle(self):
        """Its name, by which `register.operator` finds it as long as it exists."""
        name = self.entry.name
        # An equal structure may have the same name, and may have changed since.
        by_handle[name] = self
        return name

    @property
    def number(self):
        """Its number, by which `register.operator` finds it as long as it exists."""
        return self.entry.number


def _version_of(what):
    return what.version() if isinstance(what, HasContent) else None
