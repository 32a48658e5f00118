"""The register of operators, by numbers.

`torch` also registers native operators, and readers of gold structures and of decisions. A compiled or exported program
contains the number of its operator.

Used by `jax` and `torch`.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import partial, singledispatch
from itertools import count
from weakref import WeakValueDictionary

from ..factors._graph_function import as_graph
from ..structures import Structure
from .graphs import GraphOperator
from .structures import StructureOperator

# Number of operators that are kept, the most recently used. Code that needs one for longer keeps a reference, as
# modules do.
_MOST = 1024

_lock, _numbers = threading.RLock(), count()
_by_handle, _recent = WeakValueDictionary(), OrderedDict()


def enroll(operator, key=None):
    """Return an operator after giving it a number, by which it is found as long as it exists."""
    operator.handle, operator.key = next(_numbers), key
    _by_handle[operator.handle] = operator
    return operator


def register(key, make):
    """Return the operator with this key; make it if necessary."""
    with _lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key]
        operator = _recent[key] = enroll(make(), key)
        while len(_recent) > _MOST:
            _recent.popitem(last=False)
        return operator


def operator_of(what, extra=(), *, argmax="sparsemap", tol=1e-9, max_iter=None, n_jobs=None):
    """Return the operator of a structure, a graph, or a function from shapes to graphs; see `StructureOperator`."""
    options = argmax, tol, max_iter, n_jobs
    # Equal structures have the same operator. The operator holds an object that is found by its id, so that no new
    # object gets this id.
    key = what if isinstance(what, Hashable) else id(what)
    return register((type(what), key, extra, *options), partial(_new_operator, what, extra, options))


@singledispatch
def _new_operator(what, extra, options):
    return GraphOperator(as_graph(what), extra, options)


@_new_operator.register
def _(what: Structure, extra, options):
    return StructureOperator(what, extra, options)


def operator(handle):
    """Return the operator with this number."""
    try:
        found = _by_handle[handle]
    except KeyError:
        raise RuntimeError(
            f"the SparseMAP operator {handle} of a compiled or exported program does not exist in this process; "
            "compile it again, or hold the module in which it was made"
        ) from None
    with _lock:
        if found.key in _recent:
            _recent.move_to_end(found.key)
    return found
