"""The register of operators.

`torch` also registers native operators, and readers of gold structures and of decisions. A program of JAX contains the
number of its operator. A compiled or exported program of PyTorch contains its name: the digest of the structure or
graph, and the options. So a program that another process has exported finds an equal structure, or none.

Used by `jax`, `torch`, `forms.py` and `losses.py`.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import singledispatch
from itertools import count

from .._core.forks import hold_around_forks
from ..factors._graph_function import as_graph
from ..structures import Structure
from .entry import RegisterEntry, by_handle
from .graphs import GraphOperator
from .structures import StructureOperator

# Number of operators that are kept, the most recently used. Code that needs one for longer keeps a reference, as
# modules do.
_MOST = 1024

_lock = hold_around_forks(threading.RLock())
_numbers = count()
_recent = OrderedDict()
_makers = {}


def maker(kind):
    """Return a decorator of the function ``make(what, *args)`` of a kind of operators."""

    def add(make):
        _makers[kind] = make
        return make

    return add


def enroll(operator, entry=None):
    """Return an operator after giving it an entry, by which it is found as long as it exists."""
    if entry is None:
        number = next(_numbers)
        entry = RegisterEntry("single", None, (number,), number)
    operator.entry = entry
    by_handle[entry.number] = operator
    return operator


def register(kind, what, *args):
    """Return the operator of a structure, a graph, or a function from shapes to graphs, for its present version.

    Parameters
    ----------
    kind : str
        See `maker`.
    what : Structure, FactorGraph, or callable
    *args
        See `RegisterEntry`.
    """
    # Equal structures have the same operator. The operator holds an object that is found by its id, so that no new
    # object gets this id.
    key = kind, type(what), what if isinstance(what, Hashable) else id(what), args
    with _lock:
        found = _recent.get(key)
        if found is None or not found.entry.is_current():
            # The operator of a former version is no longer kept.
            entry = RegisterEntry(kind, what, args, next(_numbers))
            found = _recent[key] = enroll(_makers[kind](what, *args), entry)
            while len(_recent) > _MOST:
                _recent.popitem(last=False)
        _recent.move_to_end(key)
        return found


def operator_of(what, extra=(), *, argmax="sparsemap", tol=1e-9, max_iter=None, n_jobs=None):
    """Return the operator of a structure, a graph, or a function from shapes to graphs; see `StructureOperator`."""
    return register("solve", what, extra, argmax, tol, max_iter, n_jobs)


@maker("solve")
@singledispatch
def _make_operator(what, extra, *options):
    return GraphOperator(as_graph(what), extra, options)


@_make_operator.register
def _(what: Structure, extra, *options):
    return StructureOperator(what, extra, options)


def operator(handle):
    """Return the operator with this number or name, for use in a program.

    Raises
    ------
    RuntimeError
        If its structure or graph has changed since, or does not exist in this process.
    """
    found = by_handle.get(handle)
    if found is None or not found.entry.is_current():
        found = _find_equal(handle, found)
    return found


def _find_equal(handle, stale):
    """Return the operator with this name of a structure, graph or function with the same digest."""
    shown = "a structure or graph"
    if isinstance(handle, str):
        kind, digest, shown, args = json.loads(handle)
        with _lock:
            entries = [operator.entry for operator in _recent.values()]
        for entry in entries:
            if entry.is_current() and entry.digest == digest:
                return by_handle[register(kind, entry.what, *_as_tuple(args)).handle]
    if stale is not None:
        raise RuntimeError(
            f"{shown} has changed since this program was compiled or exported; do this again, after "
            "torch.compiler.reset() or jax.clear_caches()"
        )
    raise RuntimeError(
        f"this program was compiled or exported for {shown}, but no layer of this process has used the same one, with "
        "equal parameters or factors. Call a layer with it once before; if it has changed since, compile or export "
        "again"
    )


def _as_tuple(value):
    """Return a list from a name, and the lists in it, as tuples."""
    return tuple(_as_tuple(own) if isinstance(own, list) else own for own in value)
