"""Which solvers go with the structures of a graph, as kernels take them."""

from .._core.jit import as_argument, readonly, table_of
from ..numerics.active_set import active_set
from ..numerics.argmax import map_argmax
from ..numerics.polytope_solver import never, solvers_of
from ..numerics.tight_face import BY_STRUCTURES
from .structures import PREFERENCES, SOLVERS, StructureSolvers


def structure_solvers(layout):
    """Return the `StructureSolvers` of a graph: none that it has no use for, as each must be compiled."""
    # Any other one is compiled sooner.
    by_structures = active_set if len(layout.arrays.structures) else map_argmax
    kinds = [BY_STRUCTURES if solver is None else solver.face for solver in layout.polytope_solvers]
    chosen = [
        solvers_of(solver if kind != BY_STRUCTURES else None, by_structures)
        for solver, kind in zip(layout.polytope_solvers, kinds, strict=True)
    ]
    return StructureSolvers(
        table_of(PREFERENCES, [solvers.prefers for solvers in chosen], never),
        table_of(SOLVERS, [solvers.by_facets for solvers in chosen], by_structures),
        readonly(kinds, "int64"),
        as_argument(by_structures),
    )
