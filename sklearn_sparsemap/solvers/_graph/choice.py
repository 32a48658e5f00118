"""Which solvers go with the structures of a graph, as kernels take them."""

from ..._jit import as_argument, readonly
from .._facets.batch import FACET_SOLVERS
from .._facets.face import BY_STRUCTURES, FACET_KINDS
from .._polytope.active_set import active_set
from .._polytope.argmax import map_argmax
from .._polytope.batch import PROJECTIONS
from .structures import SolversByOracle, StructureSolvers


def structure_solvers(layout):
    """Return the `StructureSolvers` of a graph: none that it has no use for, as each must be compiled."""
    # Any other one is compiled sooner.
    by_structures = active_set if len(layout.arrays.structures) else map_argmax
    known = FACET_SOLVERS | PROJECTIONS
    names = layout.facets + [None] * (len(SolversByOracle._fields) - len(layout.facets))
    kinds = [FACET_KINDS.get(name, BY_STRUCTURES) for name in names]
    solvers = [known[name] if kind != BY_STRUCTURES else by_structures for name, kind in zip(names, kinds)]
    by_facets = SolversByOracle(*map(as_argument, solvers))
    return StructureSolvers(by_facets, readonly(kinds, "int64"), as_argument(by_structures))
