"""Fenchel-Young losses of factor graphs: SparseMAP and MAP in their linear relaxations."""

import numpy as np
from scipy import sparse

from .._core.jit import readonly
from .._graphs.arrays import FORBIDDEN, STRUCTURE
from .._graphs.gold import add_structure_parts
from .._graphs.samples import RESIDUAL
from ..factors._graph_function import check_returned
from ..inference._graph.map import relax
from ..inference._graph.problems import as_graph_problems
from ..inference._graph.solve import check_feasible, solve_graph, start_of
from ._recipes import LOSSES, fenchel_young

# Tolerance of the residual of inference in training, and of the linear relaxation relative to the scores.
_TOL, _MAP_TOL = 1e-7, 1e-9
_MAX_ITER = 1000
# Largest duality gap, relative to 1 + the loss, that counts as accurate.
_INEXACT = 1e-4
# Accuracy of inference in training, in full batches and in mini-batches: with pair tables, it ends at a duality gap of
# this fraction of max(loss, 1). The loss is at least half the squared error of the marginals, so the relative error of
# the gradient is at most the square root of this fraction. If structures have common variables, mini-batches end at a
# residual as large as this error.
EXACT, ROUGH = 5e-5, 1e-3


def gold_parts(graph, layout, y):
    """Return an assignment as marginals of the variables and of the additional scores.

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

    Raises
    ------
    ValueError
        If y is not an assignment of the variables, or violates a factor; the message names the factor.
    """
    arrays, u = layout.arrays, read_assignment(graph, layout, y)
    rows = sparse.csr_array((arrays.row_coefs, arrays.row_vars, arrays.row_ptr), shape=(len(arrays.row_bounds), len(u)))
    excess = rows @ u - arrays.row_bounds
    wrong = ((excess > 1e-9) & (arrays.row_high > 0)) | ((excess < -1e-9) & (arrays.row_low < 0))
    if wrong.any():
        raise ValueError(f"the assignment violates {layout.factor_of(int(arrays.row_factors[np.argmax(wrong)]))!r}")
    joint = np.zeros(layout.n_additional)
    ends = arrays.pair_ends
    p = np.where(arrays.pair_signs > 0, u[ends], 1.0 - u[ends])
    joint[arrays.additional_ptr[arrays.pairs]] = p.prod(axis=1)
    if len(arrays.structures):
        wrong = add_structure_parts(arrays, layout.all_oracles(layout.oracles[0]), readonly(u), joint)
        if wrong >= 0:
            raise ValueError(f"the assignment is not a structure of {layout.factor_of(wrong)!r}")
    return u, joint


def read_assignment(graph, layout, y, partly=False):
    """Convert an assignment in the user's form (see `gold_parts`) to a flat float array.

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
        array = np.asarray(y.get(name, np.full(shape, np.nan)))
        if array.dtype == object:
            # The entries are bools and ints, or None, which becomes NaN.
            array = np.array(array.tolist(), np.float64 if partly else None)
        n_states, whole = graph.n_states.get(name), layout.structured.get(name)
        if whole is not None and (array.shape != shape or array.dtype.kind not in "buif"):
            array = whole.known_parts_of(y[name]) if partly else whole.parts_of(y[name])
        if n_states is not None and array.shape == shape[:-1]:
            array = _one_of_each(array, n_states, name, partly)
        if array.shape != shape:
            wanted = f"{shape}" if n_states is None else f"{shape[:-1]}, for the indices of their values"
            raise ValueError(f"{name} has shape {array.shape}; the graph's variables have {wanted}")
        if array.dtype.kind not in "buif" or not (np.isin(array, (0, 1)) | (partly & (array != array))).all():
            raise ValueError(f"{name} must hold True and False, or 1 and 0")
        parts.append(array.astype(np.float64).ravel())
    return np.concatenate(parts)


def _one_of_each(y, n_states, name, partly):
    """Return indices of values as one-hot vectors; vectors of unknown values are NaN."""
    unknown = partly & (y != y)
    if y.dtype.kind not in "buif" or not (np.isin(y, np.arange(n_states)) | unknown).all():
        raise ValueError(f"{name} must hold whole numbers from 0 to {n_states - 1}, the values of its variables")
    return np.where(unknown[..., None], np.nan, y[..., None] == np.arange(n_states))


def learned_shapes(graph):
    """Return the shapes of the learned additional scores, in the form that `FactorGraph.layout` takes."""
    shapes = {}
    for factor in graph.scored:
        if factor.type == STRUCTURE:
            own = factor.structure.learned_shapes(factor.shape[-1])
            of_features = graph.features.get(factor.name, {})
            names = [name for name in factor.structure.additional_names if name in own or name in of_features]
            shapes[factor.name] = {
                name: of_features[name].shape[1:] if name in of_features else own[name] for name in names
            }
        else:
            shapes[factor.name] = factor.accepted_shapes[None][0]
    return shapes


def graph_loss_gradient(graph, name, temperature, scores, gold, additional, n_jobs):
    """Return the loss and its gradient, for one sample or many; see `FenchelYoungLoss.loss_gradient`.

    Parameters
    ----------
    graph : FactorGraph
    name : str
        A name in LOSSES, but not of a loss with Gibbs marginals.
    temperature : float
    scores, gold, additional, n_jobs
        As in `FenchelYoungLoss.loss_gradient`.
    """
    unknown = sorted(set(additional) - {"additional"})
    if unknown:
        raise TypeError(f"pass the additional scores of a graph by factor: additional={{{unknown[0]!r}: ...}}")
    problems, many = as_graph_problems(graph, scores, additional.get("additional"))
    layout, golds = problems.layout, gold if many else [gold]
    if not hasattr(golds, "__len__") or len(golds) != len(problems.scores):
        raise ValueError(f"gold must hold one assignment for each of {len(problems.scores)} samples")
    parts = []
    for i, own in enumerate(golds):
        try:
            parts.append(gold_parts(graph, layout, own))
        except ValueError as error:
            raise ValueError(f"gold[{i}]: {error}" if many else f"gold: {error}") from error
    u, joint = (np.array(arrays) for arrays in zip(*parts))
    given = np.broadcast_to(problems.additional, joint.shape)
    forbidden = (u * (problems.scores < 0.5 * FORBIDDEN)).any(axis=1) | ((joint > 0.0) & (given == -np.inf)).any(axis=1)
    if forbidden.any():
        which = f"gold[{int(np.argmax(forbidden))}]" if many else "gold"
        raise ValueError(f"{which} is forbidden: one of its parts has a score of -inf")
    losses, residuals, joint_residuals, _ = graph_losses(name, temperature, problems, (u, joint), n_jobs)
    pairs = [
        (float(loss), {"scores": layout.shape_variables(own), "additional": layout.sum_additional(changes)})
        for loss, own, changes in zip(losses, residuals, joint_residuals)
    ]
    return pairs if many else pairs[0]


def graph_losses(name, temperature, problems, gold, n_jobs=None, memory=None, accuracy=EXACT):
    """Compute losses and gradients of samples of one layout.

    Parameters
    ----------
    name : str
        A name in LOSSES, but not of a loss with Gibbs marginals.
    temperature : float
    problems : GraphBatch
    gold : (u, joint)
        As returned by `gold_parts`, with one row for each sample.
    memory : dict, default=None
        Memory of these samples between calls, for graphs with tables or whose structures have common variables.
        Inference starts from ``memory["warm"]``, one row for each sample, unless it is NaN, and stores its solutions
        there.
    accuracy : float
        Accuracy of inference in graphs with tables or whose structures have common variables; see `EXACT`.

    Returns
    -------
    losses : array of shape (n_samples,)
    residuals : array of shape (n_samples, n_variables)
        Gradients with respect to the scores.
    joint_residuals : array of shape (n_samples, n_additional)
    inexact : bool array of shape (n_samples,)
        Whether inference ended too far from the optimum for an accurate loss.
    """
    recipe, layout, (u, joint) = LOSSES[name], problems.layout, gold
    # Each part that is not in gold costs 1. Each missing gold part also costs 1, unless all assignments have the same
    # size.
    missing = recipe.margin and not layout.fixed_size
    scores = problems.scores / temperature
    if recipe.margin:
        scores += 1.0 - 2.0 * u if missing else 1.0 - u
    scaled, most = problems._replace(scores=scores, additional=problems.additional / temperature), _INEXACT
    is_rough = layout.shares_variables and accuracy > EXACT
    tol = np.sqrt(2.0 * accuracy) if is_rough else _TOL
    if recipe.argmax == "map":
        solutions = relax(scaled, accuracy if is_rough else _MAP_TOL, n_jobs)
    else:
        is_tables = layout.tables is not None
        if is_tables:
            scaled = scaled.scaled(np.ones(len(scores)))
            scaled.scales[:, 2] = scaled.values(u, joint) - 0.5 * u.sum(axis=1)
            tol, most = np.sqrt(2.0 * accuracy), max(most, 2.0 * accuracy)
        is_kept = (is_tables or is_rough) and memory is not None
        warm = memory.get("warm") if is_kept else None
        if warm is not None and is_rough:
            # Block coordinate ascent starts from zeros if there is no warm start.
            warm = np.nan_to_num(warm)
        # The solvers of these graphs do not use the multipliers of a warm start.
        start = None if warm is None else (np.zeros((len(scores), len(layout.arrays.row_bounds))), warm)
        solutions = solve_graph(scaled, tol, _MAX_ITER, n_jobs=n_jobs, warm=start)
        if is_kept:
            memory["warm"] = start_of(layout, solutions.links, solutions.joint)
    check_feasible(scaled, solutions)
    gold_scores = problems.values(u, joint) / temperature
    losses = np.maximum(fenchel_young(recipe, solutions.objective, u.sum(axis=1), missing, gold_scores), 0.0)
    inexact = np.abs(solutions.gap) > most * (1.0 + losses)
    if is_rough:
        inexact = solutions.statistics[:, RESIDUAL] > tol
    return temperature * losses, solutions.marginals - u, solutions.joint - joint, inexact


def check_graph(graph, n_rows):
    """Raise ValueError unless `graph` is a factor graph with one variable for each row of a sample.

    Returns
    -------
    n_outputs : int
        Number of scores of a row: 1 or, if rows are variables with several values, the number of values.
    """
    check_returned(graph, "the function `structure`")
    n_values = set(graph.n_states.values())
    if len(n_values) == 1 and set(graph.n_states) == set(graph.names):
        (n,) = n_values
        if graph.n_variables == n_rows * n:
            return n
    if graph.n_variables != n_rows:
        raise ValueError(
            f"the sample has {n_rows} rows, but the graph that `structure` returned for it has {graph.n_variables} "
            "variables; give one row of features for each variable, or for each variable of several values"
        )
    return 1
