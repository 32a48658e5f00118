"""Fenchel-Young losses of factor graphs: SparseMAP and MAP in their linear relaxations.

Used by `_training`, `estimators` and `_fenchel_young.py`.
"""

from collections.abc import Sized

import numpy as np

from .._core.errors import SampleError
from .._graphs.arrays import FORBIDDEN, STRUCTURE
from .._graphs.samples import RESIDUAL
from ..factors._assignments import gold_parts
from ..factors._graph_function import check_returned
from ..inference._graph.map import best_or_relaxed, relax
from ..inference._graph.problems import as_graph_problems
from ..inference._graph.solve import check_feasible, solve_graph, start_of
from ._recipes import LOSSES, check_quotient, fenchel_young

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
    check_quotient(temperature, problems.scores[problems.scores > 0.5 * FORBIDDEN], problems.additional)
    layout = problems.layout
    golds = gold if many else [gold]
    if not isinstance(golds, Sized) or len(golds) != len(problems.scores):
        raise ValueError(f"gold must hold one assignment for each of {len(problems.scores)} samples")
    parts = []
    for i, own in enumerate(golds):
        try:
            parts.append(gold_parts(graph, layout, own))
        except ValueError as error:
            raise SampleError("gold", i if many else None, f": {error}") from error
    u, joint = (np.array(arrays) for arrays in zip(*parts))
    given = np.broadcast_to(problems.additional, joint.shape)
    forbidden = (u * (problems.scores < 0.5 * FORBIDDEN)).any(axis=1) | ((joint > 0.0) & (given == -np.inf)).any(axis=1)
    if forbidden.any():
        i = int(np.argmax(forbidden))
        raise SampleError("gold", i if many else None, " is forbidden: one of its parts has a score of -inf")
    losses, residuals, joint_residuals, _ = graph_losses(name, temperature, problems, (u, joint), n_jobs)
    pairs = [
        (float(loss), {"scores": layout.shape_variables(own), "additional": layout.sum_additional(changes)})
        for loss, own, changes in zip(losses, residuals, joint_residuals)
    ]
    return pairs if many else pairs[0]


def graph_losses(name, temperature, problems, gold, n_jobs=None, memory=None, accuracy=EXACT, relaxed=True):
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
    relaxed : bool, default=True
        Whether the perceptron loss is that of the linear relaxation; else that of the best assignment, if a short
        search finds it.

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
    scaled = problems._replace(scores=scores, additional=problems.additional / temperature)
    most = _INEXACT
    is_rough = layout.shares_variables and accuracy > EXACT
    tol = np.sqrt(2.0 * accuracy) if is_rough else _TOL
    if recipe.argmax == "map":
        solve = relax if relaxed or recipe.margin else best_or_relaxed
        solutions = solve(scaled, accuracy if is_rough else _MAP_TOL, n_jobs)
    else:
        is_tables = layout.tables is not None
        if is_tables:
            scaled = scaled.scaled(np.ones(len(scores)))
            scaled.scales[:, 2] = scaled.values(u, joint) - 0.5 * u.sum(axis=1)
            tol = np.sqrt(2.0 * accuracy)
            most = max(most, 2.0 * accuracy)
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
            f"the sample has {n_rows} rows, but the graph by `structure` has {graph.n_variables} variables; "
            "give one row of features for each variable, or for each variable of several values"
        )
    return 1
