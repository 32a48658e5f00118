"""The choice of the solvers for the structures of a graph."""

from .._core.jit import as_argument, readonly, table_of
from ..numerics.active_set import active_set
from ..numerics.argmax import map_argmax
from ..numerics.polytope_solver import never, solvers_of
from ..numerics.solver import BY_FACETS, BY_STRUCTURES
from ..numerics.tight_face import no_equations
from .structures import FACE_EQUATIONS, PREFERENCES, SOLVERS, StructureSolvers


def structure_solvers(layout):
    """Return the `StructureSolvers` of a graph; solvers that it does not need are left out, and not compiled."""
    # A graph without structures never calls the solver, and this one compiles fastest.
    by_structures = active_set if len(layout.arrays.structures) else map_argmax
    own = [solver if solver is not None and solver.equations else None for solver in layout.polytope_solvers]
    chosen = [solvers_of(solver, by_structures) for solver in own]
    equations = [no_equations if solver is None else solver.equations for solver in own]
    return StructureSolvers(
        table_of(PREFERENCES, [solvers.prefers for solvers in chosen], never),
        table_of(SOLVERS, [solvers.by_facets for solvers in chosen], by_structures),
        table_of(FACE_EQUATIONS, equations, no_equations),
        readonly([BY_STRUCTURES if solver is None else BY_FACETS for solver in own], "int64"),
        as_argument(by_structures),
    )
