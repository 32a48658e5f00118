"""Specialised solvers of a structure's polytope.

Used by `inference`, `losses`, `structures` and `testing`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from .._core.jit import Entry
from .competence import READY, REPLACED, Solvers, always, never
from .loops import SOLVERS_BY_NAME


class PolytopeSolver(NamedTuple):
    """The specialised solver of a structure, which uses more than a MAP oracle.

    Attributes
    ----------
    name : {"facets", "flow"}
        The name of the solver in ``solver=``.
    solve : Entry
        See `solver` for the signature, and `facets` for what it returns.
    products : Entry or None
        The matching Jacobian product; None if `solve` returns structures.
    few_parts : int, default=0
        The active set solves all problems with at most this number of parts. There it takes at most about the time of
        the specialised solver, whose compilation takes seconds.
    before : Entry, default=always
        The competence for larger problems as long as this solver is not compiled, in training; see `competence`. It
        compiles in a fraction of a second.
    after : Entry, default=None
        The competence otherwise; None for the same. Inference always uses it, so that its result does not depend on
        what is compiled already.
    paths : Entry, default=None
        Decomposes a solution into structures and weights. If None, the active set does it.
    equations : Entry, default=None
        Returns the equations of a solution's face, for factor graphs; see `tight_face`. None means the active set.
    soon_exact : callable, default=None
        ``soon_exact(problems)`` tells whether this solver takes no longer than a few oracle calls. Layers with
        `max_iter` are then exact. By default, whether `before` is `always`.
    coupled_by : str, default=None
        Name of the first additional scores, without which the rows of scores are independent choices.
    of_many : callable, default=None
        Jacobian products of a closed form that returns structures, if these are many: ``of_many(problems, marginals,
        unary)`` in NumPy, for all problems at once.

    `inference`, `_graphs/choice.py` and `_layers` read these, too.
    """

    name: str
    solve: Entry
    products: Entry | None
    few_parts: int = 0
    before: Entry = always
    after: Entry | None = None
    paths: Entry | None = None
    equations: Entry | None = None
    soon_exact: Callable[[Any], bool] | None = None
    coupled_by: str | None = None
    of_many: Callable[..., Any] | None = None

    def is_soon_exact(self, problems):
        """Return whether exact inference of `Problems` takes no longer than a few calls of the oracle."""
        return self.before is always if self.soon_exact is None else self.soon_exact(problems)

    @property
    def alone(self):
        """This solver for all problems, whatever their size and scores."""
        return self._replace(few_parts=-1, before=always, after=None)


@cache
def solver_of(own, solver="auto"):
    """Return a compiled solver that never gives up: a structure's closed form, or a solver over structures.

    Parameters
    ----------
    own : PolytopeSolver or None
        The `polytope_solver` of the structure.
    solver : str, default="auto"
    """
    if own is not None and own.products is None and solver in ("auto", "active_set", "facets"):
        return own.solve
    return SOLVERS_BY_NAME["active_set" if solver == "auto" else solver]


@cache
def solvers_of(own, by_structures, readiness=READY):
    """Return the `Solvers` of a structure, for kernels.

    Parameters
    ----------
    own : PolytopeSolver or None
    by_structures : Entry
        The active set, or another solver that never gives up.
    readiness : int, default=READY
        If it is READY, kernels get the specialised solver, which is then compiled; see `competence`.
    """
    if own is None or own.products is None:
        return Solvers(never, by_structures, by_structures, 0, READY)
    competence = own.before if readiness == REPLACED else own.after or own.before
    solver = own.solve if readiness == READY else by_structures
    return Solvers(competence, solver, by_structures, own.few_parts, readiness)
