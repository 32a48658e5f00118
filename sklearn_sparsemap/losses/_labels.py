"""Losses of label sets: SparseMAP, the structured hinge, and the logistic loss of independent labels.

Used by `_training` and `estimators`.
"""

import numpy as np

LABEL_LOSSES = ("sparsemap", "hinge", "logistic")
# Tolerances of inference in training: of LP-SparseMAP, whose solver is more accurate than asked, and of the relaxation
# of MAP.
_TOL, _RELAX_TOL = 1e-3, 1e-5
# Largest duality gap, relative to 1 + the loss, that counts as accurate.
_INEXACT = 1e-3


def partly_known_losses(name, temperature, graph, scores, gold, known, weights, n_jobs=None):
    """Compute losses and gradients of label sets in which some labels are unknown.

    The SparseMAP loss is the unconstrained regularised maximum minus the maximum with the known labels fixed. Graphs
    with edges are not supported.

    Parameters
    ----------
    known : bool array of shape (n_samples, n_labels)
        Whether a label is known.
    name, temperature, graph, scores, gold, weights, n_jobs
        As in `label_losses`.

    Returns
    -------
    losses, residuals
        As in `label_losses`.
    """
    own = scores / temperature
    if name == "sparsemap":
        free = graph.solve(own, None, n_jobs=n_jobs)
        fixed = graph.solve_known(own, gold, known, n_jobs=n_jobs)
        losses, residuals = free.objective - fixed.objective, free.marginals - fixed.marginals
    elif name == "logistic":
        losses = (np.where(known, np.logaddexp(0.0, own) - own * gold, 0.0)).sum(axis=1)
        residuals = np.where(known, graph.gibbs(own)[1] - gold, 0.0)
    else:
        raise ValueError(f"loss={name!r} takes no labels that are NaN; use 'sparsemap' or 'logistic'")
    return temperature * np.maximum(losses, 0.0), residuals * weights[:, None]


def label_losses(name, temperature, graph, scores, edge_scores, gold, weights, n_jobs=None):
    """Compute losses and gradients of label sets.

    Parameters
    ----------
    name : {"sparsemap", "hinge", "logistic"}
        The cost of hinge is the number of wrong labels, missing or superfluous.
    temperature : float
    graph : LabelGraph or OneLabel
    scores : array of shape (n_samples, n_labels)
    edge_scores : array of shape (n_edges,)
    gold : array of shape (n_samples, n_labels)
        Gold labels, 1.0 and 0.0.
    weights : array of shape (n_samples,)
        Weights of the samples, which multiply the gradients.

    Returns
    -------
    losses : array of shape (n_samples,)
        Unweighted losses.
    residuals : array of shape (n_samples, n_labels)
        Weighted gradients with respect to the scores.
    edge_gradient : array of shape (n_edges,)
        Weighted sum of the gradients with respect to the edge scores.
    inexact : int
        Number of samples whose inference ended too far from the optimum for an accurate loss.
    """
    gold_scores = (scores * gold).sum(axis=1)
    if name == "logistic":
        values, found = graph.gibbs(scores / temperature)
        losses = temperature * values - gold_scores
        return losses, (found - gold) * weights[:, None], np.zeros(len(edge_scores)), 0
    own, pairs = scores / temperature, edge_scores / temperature
    if name == "hinge":
        solution = graph.relax(own + 1.0 - 2.0 * gold, pairs, tol=_RELAX_TOL, n_jobs=n_jobs)
        constant = gold.sum(axis=1)
    else:
        solution = graph.solve(own, pairs, tol=_TOL, n_jobs=n_jobs)
        constant = 0.5 * gold.sum(axis=1)
    edge_gradient, pair_scores = graph.pair_residuals(solution, gold, weights, pairs)
    losses = temperature * (solution.objective + constant - pair_scores) - gold_scores
    inexact = solution.gap > _INEXACT * (1.0 + np.abs(losses) / temperature)
    return np.maximum(losses, 0.0), (solution.marginals - gold) * weights[:, None], edge_gradient, int(inexact.sum())
