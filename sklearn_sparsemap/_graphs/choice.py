"""The choice of the kernels for a graph, and of the solvers for its structures.

Used by `inference` and `jacobian.py`.
"""

import numpy as np

from .._core.jit import as_argument, readonly, table_of
from .._numerics.active_set import active_set
from .._numerics.argmax import map_argmax
from .._numerics.competence import AT_ONCE, always, never
from .._numerics.solver import BY_FACETS, BY_STRUCTURES
from .._numerics.tight_face import no_equations
from .arrays import FORBIDDEN
from .batch import GRAPH_SOLVERS, LOGIC_SOLVERS
from .small import small_block_range, small_logic_range, small_rows_range
from .structures import COMPETENCES, FACE_EQUATIONS, SOLVERS, PlainSolvers, StructureSolvers


def _facet_solvers(layout):
    """Return the solvers by facets of the structures of a graph, None if there is none, by the number of the oracle."""
    return [solver if solver is not None and solver.equations else None for solver in layout.polytope_solvers]


def structure_solvers(layout):
    """Return the `StructureSolvers` of a graph; solvers that it does not need are left out, and not compiled."""
    # A graph without structures never calls the solver, and this one compiles fastest.
    by_structures = active_set if len(layout.arrays.structures) else map_argmax
    facet_solvers = _facet_solvers(layout)
    chosen = [(never, by_structures) if solver is None else (solver.before, solver.solve) for solver in facet_solvers]
    equations = [no_equations if solver is None else solver.equations for solver in facet_solvers]
    return StructureSolvers(
        table_of(COMPETENCES, [before for before, _ in chosen], never),
        table_of(SOLVERS, [solve for _, solve in chosen], by_structures),
        table_of(FACE_EQUATIONS, equations, no_equations),
        readonly([BY_STRUCTURES if solver is None else BY_FACETS for solver in facet_solvers], "int64"),
        as_argument(by_structures),
    )


def graph_solver(layout, method, spare):
    """Return the kernel for a graph by the public name of its solver, and its first arguments.

    `spare` is a MAP oracle for graphs without one; see `table_of`.
    """
    if method == "tables":
        return GRAPH_SOLVERS[method], (layout.tables,)
    if method in LOGIC_SOLVERS and not len(layout.arrays.structures):
        return LOGIC_SOLVERS[method], (layout.arrays,)
    if "all" not in layout.arguments:
        layout.arguments["all"] = layout.arrays, layout.all_oracles(spare), structure_solvers(layout)
    return GRAPH_SOLVERS[method], layout.arguments["all"]


# The solvers of small graphs without structures, and with structures, by their public names.
_SMALL_LOGIC = {"newton": small_logic_range}
_SMALL = {"newton": small_rows_range, "block": small_block_range}


def small_solver(layout, method, spare, samples):
    """Return the kernel for these samples of a small graph, and its first arguments, or None.

    It does not converge if a sample needs more than it has; `graph_solver` then starts again. For the other parameters
    see `graph_solver`.
    """
    if layout.small is None:
        return None
    graph, structures = layout.small
    if structures is None:
        return (_SMALL_LOGIC[method], (graph,)) if method in _SMALL_LOGIC else None
    if "small" not in layout.arguments:
        layout.arguments["small"] = _small_arguments(layout, graph, structures, spare)
    arguments, competences = layout.arguments["small"]
    if method not in _SMALL or arguments is None or _would_fail(structures, competences, samples):
        return None
    return _SMALL[method], arguments


def _would_fail(structures, competences, samples):
    """Return whether a structure prefers facets under the scores of a single sample, so that an attempt would fail.

    For many samples, and if the first scores of structures are not those of the variables, the kernel decides.
    """
    if len(samples.scores) > 1 or len(samples.warm) or all(before is never for before in competences):
        return False
    for f in structures.structures.tolist():
        links = slice(*structures.link_ptr[f : f + 2])
        z = samples.scores[0, structures.links[links]]
        dims = structures.dims[slice(*structures.dims_ptr[f : f + 2])]
        is_plain = structures.signs[links].min() > 0.0 and z.min() > 0.5 * FORBIDDEN
        if is_plain and competences[structures.oracles[f]](z, z[:0], dims, z, np.inf, 0) == AT_ONCE:
            return True
    return False


def _small_arguments(layout, graph, structures, spare):
    """Return the first arguments of the solvers of small graphs with structures, and the competences of facets.

    The former are None if a structure always goes by facets.
    """
    facet_solvers = _facet_solvers(layout)
    if any(solver is not None and solver.before is always for solver in facet_solvers):
        return None, []
    are_few = [
        solver is None or n <= solver.few_parts for solver, n in zip(facet_solvers, layout.most_parts, strict=True)
    ]
    competences = [never if few else solver.before for few, solver in zip(are_few, facet_solvers, strict=True)]
    solvers = PlainSolvers(table_of(COMPETENCES, competences, never), as_argument(active_set))
    return (graph, structures, layout.all_oracles(spare), solvers), competences
