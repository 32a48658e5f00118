"""Assignments of the variables of a graph in the user's form, and the factors that they violate.

Used by `_layers`, `_training`, `losses` and `_graph.py`.
"""

import numpy as np

from .._core.jit import readonly
from .._core.validation import quoted
from .._graphs.gold import add_structure_parts


def gold_parts(graph, layout, y):
    """Return an assignment that satisfies all factors, as marginals of the variables and of the additional scores.

    Parameters and results are those of `parts_and_violations`.

    Raises
    ------
    ValueError
        If y is not an assignment of the variables, or violates a factor; the message names the factor.
    """
    u, joint, wrong = parts_and_violations(graph, layout, y)
    if len(wrong):
        raise ValueError(first_violation(layout, wrong))
    return u, joint


def first_violation(layout, wrong):
    """Return a message about the first of some violated factors."""
    is_structure = np.isin(wrong[0], layout.arrays.structures)
    return f"the assignment {'is not a structure of' if is_structure else 'violates'} {layout.factor_of(wrong[0])!r}"


def parts_and_violations(graph, layout, y):
    """Return an assignment as marginals, and the factors that it violates.

    Parameters
    ----------
    graph : FactorGraph
    layout : Layout
    y : array-like of bool or 0/1, shape of the variables; or dict of str -> array-like
        An assignment. Variables with several values may also be given by the indices of their values, ints in their
        shape without the last axis. An array whose variables are the parts of a structure may also be given as this
        structure.

    Returns
    -------
    u : array of shape (n_variables,)
    joint : array of shape (n_additional,)
        Marginals of the additional scores.
    wrong : int array
        Numbers of the violated factors, in the solvers' count: rules first, then structures. A rule may be there for
        each of its rows.

    Raises
    ------
    ValueError
        If y is not an assignment of the variables.
    """
    arrays = layout.arrays
    u = read_assignment(graph, layout, y)
    wrong = arrays.row_factors[layout.whole_rows.violated(u)]
    joint = np.zeros(layout.n_additional)
    ends = arrays.pair_ends
    p = np.where(arrays.pair_signs > 0, u[ends], 1.0 - u[ends])
    joint[arrays.additional_ptr[arrays.pairs]] = p.prod(axis=1)
    if len(arrays.structures):
        is_wrong = np.zeros(len(arrays.structures))
        add_structure_parts(arrays, layout.all_oracles(layout.oracles[0]), readonly(u), joint, is_wrong)
        wrong = np.concatenate([wrong, arrays.structures[is_wrong > 0.0]])
    if len(wrong):
        # Tables are no rules. Only an assignment whose variables do not have one value each violates them.
        wrong = wrong[~layout.of_tables[wrong]]
    return u, joint, wrong


def read_assignment(graph, layout, y, partly=False):
    """Convert an assignment in the user's form (see `parts_and_violations`) to a flat float array.

    With `partly`, entries that are None and missing arrays are unknown. They become NaN.
    """
    if not isinstance(y, dict):
        if len(graph.shapes) > 1:
            raise ValueError(f"pass a dict with one array for each of the graph's {graph.names}")
        y = {graph.names[0]: y}
    if set(y) != set(graph.shapes) and not (partly and set(y) < set(graph.shapes)):
        raise ValueError(f"found arrays named {sorted(y)}, but the graph has {graph.names}")
    parts = []
    for name, shape in graph.shapes.items():
        n_states = graph.n_states.get(name)
        whole = layout.structured.get(name)
        array = _as_array(y.get(name, np.full(shape, np.nan)), name, shape, n_states)
        if array.dtype == object:
            # The entries are bools and ints, or None, which becomes NaN.
            array = np.array(array.tolist(), np.float64 if partly else None)
        if whole is not None and (array.shape != shape or array.dtype.kind not in "buif"):
            array = whole.known_parts_of(y[name]) if partly else whole.parts_of(y[name])
        if n_states is not None and array.shape == shape[:-1]:
            array = _one_of_each(array, n_states, name, partly)
        if array.shape != shape:
            wanted = f"{shape[:-1]}, for the indices of their values"
            if n_states is None:
                wanted = f"{shape}; give a mask of this shape, True for variables that are on"
            raise ValueError(f"{name} has shape {array.shape}; the graph's variables have {wanted}")
        if array.dtype.kind not in "buif" or not (np.isin(array, (0, 1)) | (partly & (array != array))).all():
            raise ValueError(f"{name} must hold True and False, or 1 and 0: a mask of the variables that are on")
        parts.append(array.astype(np.float64).ravel())
    return np.concatenate(parts)


def _as_array(y, name, shape, n_states):
    """Return an assignment of some variables as an array; raise ValueError with a remedy if it holds names."""
    try:
        array = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"{name} is not an array ({error}); give a mask of shape {shape}") from error
    texts = array.flat if array.dtype.kind in "OUS" else ()
    found = next((text for text in texts if isinstance(text, str | bytes)), None)
    if found is None:
        return array
    remedy = f"give a mask of shape {shape}, such as np.isin(names, chosen)"
    if len(shape) > 1:
        index = ", None" * (len(shape) - 1)
        remedy = f"if the first axis has these names, give the mask np.array(names)[:{index}] == np.array(table)"
    if n_states is not None:
        remedy = "give the index of each value among its names"
    raise ValueError(f"{name} holds names, such as {quoted(found)}; {remedy}")


def _one_of_each(y, n_states, name, partly):
    """Return indices of values as one-hot vectors; vectors of unknown values are NaN."""
    unknown = partly & (y != y)
    if y.dtype.kind not in "buif" or not (np.isin(y, np.arange(n_states)) | unknown).all():
        raise ValueError(f"{name} must hold whole numbers from 0 to {n_states - 1}, the values of its variables")
    return np.where(unknown[..., None], np.nan, y[..., None] == np.arange(n_states))
