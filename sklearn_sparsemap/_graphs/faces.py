"""The faces of the structures in solved samples, given by tight facets or by structures that span them.

`jacobian.py` finds them once for a batch of solutions. `projection.py` projects onto their directions, which is the
product with the Jacobian of the marginals. The layout of `Faces` is known here and in `jacobian.py`,
which joins the ranges. `SNAP` says at which kinks a derivative is taken.

Used by `_graphs/tables`, `jacobian.py`, `projection.py` and `tensors.py`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from .._core.jit import (
    FLOATS,
    FLOATS_2D,
    FLOATS_OUT,
    INTS,
    INTS_2D,
    INTS_2D_OUT,
    PARTS,
    PARTS_2D_OUT,
    PARTS_OUT,
    copy_into,
    entry,
    kernel,
)
from .._numerics.cholesky import solve_lower
from .._numerics.face import FACE_TOLERANCE, Direction, span_face
from .._numerics.loops import pour
from .._numerics.solver import BY_STRUCTURES, STRUCTURE_TOL
from .._numerics.tight_face import tight_face
from .arrays import GRAPH_ARRAYS, ORACLES, oracle_at
from .certificate import literal_scores
from .samples import row_of
from .structures import (
    STRUCTURE_SOLVERS,
    equations_of,
    force_parts,
    new_structures,
    solve_structure,
    use_active_set,
)

# A marginal this close to a bound lies on it, and a structure with so small a reduced cost is in the face. Both are
# relative to the scores if these are below 1. Solutions are computed with a tenth of it before faces are read from
# them. The other two are lower bounds of the tolerances, near rounding errors.
SNAP, MIN_SNAP, _MIN_TOLERANCE = 1e-9, 1e-13, 1e-12


class Optima(NamedTuple):
    """Samples of one graph with their solutions, one row each."""

    scores: np.ndarray
    additional: np.ndarray  # a single row is for all samples
    marginals: np.ndarray
    links: np.ndarray
    joint: np.ndarray
    snaps: np.ndarray  # distance from a bound within which a marginal lies on it


class Faces(NamedTuple):
    """The faces of the structures of all samples, one after the other.

    A face is given by affinely independent structures that span it, the Cholesky factor R of their Gram matrix (see
    `_numerics/support.py`), and ``R'^{-1} 1``; or by its tight facets, as the result of `tight_face`.
    """

    slots: np.ndarray
    additional: np.ndarray
    factors: np.ndarray
    ones: np.ndarray
    counts: np.ndarray  # number of structures or tight facets; shape (n_samples, n_structure_factors)
    by_facets: np.ndarray  # whether a face is given by its facets; same shape
    starts: np.ndarray  # beginnings of each face in the first four, one row a face; then the ends of the last one


# One face of `Faces`.
class _Face(NamedTuple):
    slots: np.ndarray
    additional: np.ndarray
    factor: np.ndarray
    ones: np.ndarray


OPTIMA = types.NamedTuple([FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS_2D, FLOATS], Optima)
FACES = types.NamedTuple([PARTS, PARTS, FLOATS, FLOATS, INTS_2D, INTS_2D, INTS_2D], Faces)


@kernel
def _literals_of(graph, optima, i, f):
    """Return the scores of the literals of a structure factor of sample `i`, and its additional scores."""
    z = np.empty(graph.link_ptr[f + 1] - graph.link_ptr[f])
    literal_scores(graph, f, optima.scores[i], optima.marginals[i], optima.links[i], z)
    factor_additional = row_of(optima.additional, i)[graph.additional_ptr[f] : graph.additional_ptr[f + 1]]
    force_parts(z, factor_additional, graph.sizes[f])
    return z, factor_additional


@entry(
    types.Tuple((PARTS_2D_OUT, FLOATS_OUT))(
        GRAPH_ARRAYS, ORACLES.type, STRUCTURE_SOLVERS, OPTIMA, types.int64, types.int64, INTS
    )
)
def support_of_structure(graph, oracles, solvers, optima, i, index, limits):
    """Return the structures that a structure factor selects in a sample, one row each, and their weights.

    Parameters
    ----------
    graph, oracles, solvers, i, index, limits
        See `_graphs/__init__.py`.
    optima : Optima
    """
    structures = new_structures(graph, oracles, solvers)
    z, _ = _literals_of(graph, optima, i, graph.structures[index])
    use_active_set(structures, index)
    solve_structure(structures, row_of(optima.additional, i), index, z, np.empty(z.shape[0]), STRUCTURE_TOL, limits)
    return structures.slots[index], structures.weights[index]


@kernel
def _complete_face(structures, optima, i, index, direction, tolerance, limits):
    """Return the face of one structure factor in a sample, and whether it is given by facets; see `Faces`.

    Parameters
    ----------
    structures, i, index, limits
        See `_graphs/__init__.py`.
    optima : Optima
    direction : array of shape (n_variables,)
        The direction along which the face is completed first.
    tolerance : float
        Largest reduced cost of a structure in the face.
    """
    graph = structures.graph
    f = graph.structures[index]
    z, factor_additional = _literals_of(graph, optima, i, f)
    p = np.empty(z.shape[0])
    dims = graph.dims[graph.dims_ptr[f] : graph.dims_ptr[f + 1]]
    additional = row_of(optima.additional, i)
    solve_structure(structures, additional, index, z, p, STRUCTURE_TOL, limits)
    if structures.solver_ids[index] != BY_STRUCTURES:
        block, n_blocks, ends, parts, is_tied = equations_of(structures, index, z, p)
        if not is_tied:
            ints, factor, ones = tight_face(block, n_blocks, ends, parts)
            return _Face(ints, np.empty((0, 0), np.int32), factor, ones), True
        use_active_set(structures, index)
        solve_structure(structures, additional, index, z, p, STRUCTURE_TOL, limits)
    upstream = np.empty(z.shape[0])
    for link in range(upstream.shape[0]):
        start = graph.link_ptr[f]
        upstream[link] = graph.signs[start + link] * direction[graph.links[start + link]]
    support, k = span_face(
        oracle_at(structures.oracles, graph.oracles[f]), z, factor_additional, dims, graph.sizes[f], p,
        structures.slots[index], structures.additional[index],
        Direction(upstream, np.zeros(factor_additional.shape[0]), False), tolerance,
    )  # fmt: skip
    ones = np.ones(k)
    solve_lower(support.factor, k, ones)
    factor = np.empty((k, k))
    for s in range(k):
        copy_into(factor[s], support.factor[s, :k])
    return _Face(support.slots[:k].copy(), support.additional[:k].copy(), factor, ones), False


@entry(
    types.Tuple((PARTS_OUT, PARTS_OUT, FLOATS_OUT, FLOATS_OUT, INTS_2D_OUT, INTS_2D_OUT, INTS_2D_OUT))(
        GRAPH_ARRAYS, ORACLES.type, STRUCTURE_SOLVERS, OPTIMA, FLOATS_2D, INTS, types.int64, types.int64
    )
)
def find_faces_range(graph, oracles, solvers, optima, directions, limits, start, stop):
    """Complete the faces of all structures of samples start..stop, and return them as the arrays of `Faces`.

    Parameters
    ----------
    graph, oracles, solvers, limits, start, stop
        See `_graphs/__init__.py`.
    optima : Optima
    directions : array of shape (n_samples, n_variables)
        The directions along which the faces are completed first.
    """
    n = graph.structures.shape[0]
    slot_pool = np.empty(64, np.int32)
    additional_pool = np.empty(64, np.int32)
    factor_pool = np.empty(64)
    one_pool = np.empty(16)
    counts = np.empty((stop - start, n), np.int64)
    by_facets = np.empty((stop - start, n), np.int64)
    starts = np.empty(((stop - start) * n, 4), np.int64)
    used = np.zeros(4, np.int64)
    for i in range(start, stop):
        tolerance = max(FACE_TOLERANCE * optima.snaps[i] / SNAP, _MIN_TOLERANCE)
        structures = new_structures(graph, oracles, solvers)
        for index in range(n):
            copy_into(starts[(i - start) * n + index], used)
            face, known = _complete_face(structures, optima, i, index, directions[i], tolerance, limits)
            counts[i - start, index], by_facets[i - start, index] = face.factor.shape[0], known
            slot_pool, used[0] = pour(slot_pool, used[0], face.slots.reshape(face.slots.size))
            additional_pool, used[1] = pour(additional_pool, used[1], face.additional.reshape(face.additional.size))
            factor_pool, used[2] = pour(factor_pool, used[2], face.factor.reshape(face.factor.size))
            one_pool, used[3] = pour(one_pool, used[3], face.ones)
    return (
        slot_pool[: used[0]].copy(), additional_pool[: used[1]].copy(), factor_pool[: used[2]].copy(),
        one_pool[: used[3]].copy(), counts, by_facets, starts,
    )  # fmt: skip


@kernel
def face_of(graph, faces, i, index):
    """Return the face of one structure factor in sample `i`, and the number of its structures or tight facets."""
    k, n = faces.counts[i, index], graph.structures.shape[0]
    begin, end = faces.starts[i * n + index], faces.starts[i * n + index + 1]
    n_rows = 1 if faces.by_facets[i, index] else k
    slots, additional = faces.slots[begin[0] : end[0]], faces.additional[begin[1] : end[1]]
    face = _Face(
        slots.reshape((n_rows, slots.shape[0] // n_rows)),
        additional.reshape((n_rows, additional.shape[0] // n_rows)),
        faces.factors[begin[2] : end[2]].reshape((k, k)),
        faces.ones[begin[3] : end[3]],
    )
    return face, k
