"""Derivatives of the marginals of tables, by the method of multipliers on the values and cells in use.

The Jacobian projects onto the directions of values in use that are consistent with a change of cells in use. The face
is fixed, so the problem of the solver is quadratic here. Newton's system is factorised once, and one Newton step solves
each step of the method of multipliers.

The arguments `values` and `cells` are flags, 1 for those in use; the fields of `tables` with these names are indices.
`limits[0]` is the maximum number of steps. `GraphJacobian.products` (`_graphs/jacobian.py`) calls
`tables_products_range`, in threads over the samples.

Used by `_graphs`.
"""

import numpy as np
from numba import types

from ..._core.jit import FLOATS_2D, INTS, copy_into, entry, kernel
from ..faces import OPTIMA
from ..projection import PRODUCTS
from ..samples import row_of
from ..table_arrays import TABLE_ARRAYS
from .state import add_messages, largest, largest_move, new_state
from .system import build_system, solve_system

_SIGMA, _DAMPING = 1e3, 1e-7  # with a larger sigma there are fewer steps, with larger rounding errors
_FINER = 1e3  # marginals have converged if their change times this is below the tolerance


@kernel
def _mark_in_use(tables, optima, i, values, cells):
    """Set entries of values and cells to 1 if they are in use, otherwise to 0."""
    additional = row_of(optima.additional, i)
    links = optima.links[i]
    snap = optima.snaps[i]
    for k in range(values.shape[0]):
        values[k] = 1.0 if optima.marginals[i, k] > snap else 0.0
    for e in range(tables.ends.shape[0]):
        start, begin, end = tables.messages[e], tables.cells[e], tables.cells[e + 1]
        n, highest = (tables.messages[e + 1] - start) // 2, -np.inf
        for cell in range(begin, end):
            a, b = start + (cell - begin) // n, start + n + (cell - begin) % n
            cells[cell] = additional[cell] + (links[tables.links[a]] + links[tables.links[b]])
            highest = max(highest, cells[cell])
        for cell in range(begin, end):
            a, b = start + (cell - begin) // n, start + n + (cell - begin) % n
            near = optima.joint[i, cell] > snap or cells[cell] >= highest - snap
            is_on = near and values[tables.values[a]] > 0.0 and values[tables.values[b]] > 0.0
            cells[cell] = 1.0 if is_on else 0.0


@kernel
def _respond(tables, direction, change, values, cells, before, state):
    """Set the response of the state to a direction of the scores and a change of the tables, on the face.

    Parameters
    ----------
    tables : TableArrays
    direction : array of shape (n_variables,)
    change : array of shape (n_additional,)
    values, cells : arrays of shape (n_variables,) and (n_additional,)
        1.0 if in use, otherwise 0.0.
    before : array of shape (n_additional,)
        The multipliers: changes of the joint marginals.
    state : State
        Contains the messages; the other arrays are set.
    """
    messages, z, u, joint, gradient = state.messages, state.z, state.u, state.joint, state.gradient
    add_messages(tables, direction, state)
    for i in range(tables.order.shape[0]):
        total, count = 0.0, 0.0
        for k in range(tables.nodes[i], tables.nodes[i + 1]):
            total += values[k] * z[k]
            count += values[k]
        for k in range(tables.nodes[i], tables.nodes[i + 1]):
            u[k] = z[k] - total / count if values[k] > 0.0 else 0.0
    for k in range(gradient.shape[0]):
        gradient[k] = u[tables.values[k]]
    for e in range(tables.ends.shape[0]):
        start, cell = tables.messages[e], tables.cells[e]
        n = (tables.messages[e + 1] - start) // 2
        for x in range(n):
            for y in range(n):
                p = 0.0
                if cells[cell] > 0.0:
                    p = before[cell] + _SIGMA * (change[cell] - messages[start + x] - messages[start + n + y])
                joint[cell] = p
                gradient[start + x] -= p
                gradient[start + n + y] -= p
                cell += 1


@entry(
    types.void(
        TABLE_ARRAYS, OPTIMA, FLOATS_2D, FLOATS_2D, types.float64, INTS, types.int64, types.int64, PRODUCTS
    )
)  # fmt: skip
def tables_products_range(tables, optima, directions, changes, tol, limits, start, stop, out):
    """Multiply directions and changes of the tables with the Jacobians of samples start..stop.

    Parameters
    ----------
    tables : TableArrays
    optima : Optima
    directions : array of shape (n_samples, n_variables)
    changes : array of shape (n_samples, n_additional)
    tol : float
        Tolerance, relative to the largest entry of a direction and a change.
    limits : int array
        Maximum number of steps.
    start, stop : int
    out : Products
        Gets the changes of marginals and joint marginals, and the numbers of steps.
    """
    state = new_state(tables)
    before = np.zeros(tables.cells[-1])
    last = np.zeros(tables.nodes[-1])
    values = np.zeros(tables.nodes[-1])
    cells = np.zeros(tables.cells[-1])
    w = np.zeros(tables.nodes[-1])
    step = np.zeros(tables.messages[-1])
    scratch = np.zeros(tables.messages[-1])
    for i in range(start, stop):
        direction, change = directions[i], changes[i]
        size = tol * max(largest(direction), largest(change))
        _mark_in_use(tables, optima, i, values, cells)
        system = build_system(tables, cells, values, _SIGMA, _DAMPING)
        for array in (state.messages, before, last):
            array[:] = 0.0
        for n in range(limits[0]):
            _respond(tables, direction, change, values, cells, before, state)
            solve_system(tables, system, state.gradient, w, step, scratch)
            for k in range(step.shape[0]):
                state.messages[k] += step[k]
            _respond(tables, direction, change, values, cells, before, state)
            out.n_iter[i] = n + 1
            # The changes of tables need not converge, but those of marginals do.
            moved = min(largest_move(state.joint, before), _FINER * largest_move(state.u, last))
            if max(largest(state.gradient), moved) <= size:
                break
            copy_into(before, state.joint)
            copy_into(last, state.u)
        copy_into(out.marginals[i], state.u)
        copy_into(out.joint[i], state.joint)
