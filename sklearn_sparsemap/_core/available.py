"""Methods that an object has only under a condition.

They are those of scikit-learn's `available_if`, whose message does not have the reason.

Used by `distributed`, `estimators`, `features` and `pipeline`.
"""

from __future__ import annotations

from functools import partial, update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, cast

from .annotations import Any, Callable

if TYPE_CHECKING:
    from typing import TypeVar

    Method = TypeVar("Method")


class _AvailableIf:
    """A method that exists if a check raises no AttributeError.

    Parameters
    ----------
    method : function
    check : callable
        Takes the object.
    """

    def __init__(self, method, check):
        self._method, self._check = method, check
        update_wrapper(self, method)

    def __get__(self, owner, cls=None):
        if owner is None:
            return self._method
        self._check(owner)
        return MethodType(self._method, owner)


def available_if(check: Callable[[Any], Any]) -> Callable[[Method], Method]:
    """Return a decorator of methods that an object has only if `check` of it raises no AttributeError.

    Callers see the message of that error, which names the reason and the remedy.
    """
    return cast("Callable[[Method], Method]", partial(_AvailableIf, check=check))
