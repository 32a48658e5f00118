"""Factor graphs in the classifier: a graph for each sample, with additional scores that are tied by name."""

import numpy as np
from sklearn.utils import check_random_state

from ..._validation import check_scores
from ...inference._graph.map import best_assignments
from ...inference._graph.problems import GraphProblems
from ...inference._graph.solve import check_feasible, solve_graph
from ...losses import LOSSES
from ...losses._graphs import check_graph, gold_parts, learned_shapes
from ...solvers._graph.batch import GAP, OBJECTIVE
from ...training._data import LinearModel
from ...training._graph_task import GraphObjective, GraphOptimizer, GraphTask
from ...training._lbfgs import minimize_lbfgs


class GraphsOf:
    """What the parameter `structure` means where it is a function from a sample to a `FactorGraph`.

    It stands where a `Structure` does, and knows how to lay out, learn and predict samples.

    Parameters
    ----------
    function : callable
        From the features of a sample, an array or CSR matrix with one row a variable, to its graph.
    """

    labelled = False
    # Each layout tells for itself.
    fixed_size = False
    score_ndim = 1
    additional_names = ()

    def __init__(self, function):
        self.function = function

    def __eq__(self, other):
        return isinstance(other, GraphsOf) and self.function == other.function

    def __hash__(self):
        return hash(self.function)

    def __repr__(self):
        return f"a graph of each sample by {getattr(self.function, '__name__', self.function)!r}"

    def graphs(self, X, shapes=None):
        """Make the graph of each sample.

        Parameters
        ----------
        X : RaggedArray
        shapes : dict, default=None
            Shapes of the additional scores that the model has; None takes those of the first graph.

        Returns
        -------
        graphs : list of FactorGraph
        layouts : list of Layout
        shapes : dict

        Raises
        ------
        ValueError
            Naming the sample for which the function fails, or whose graph has other variables than the sample has rows,
            or other additional scores than the first one.
        """
        graphs, layouts = [], []
        for i in range(len(X)):
            sample = X[i]
            graph = self._graph(i, sample)
            try:
                check_graph(graph, sample.shape[0])
                own = learned_shapes(graph)
                shapes = own if shapes is None else shapes
                self._check_shapes(own, shapes)
                layouts.append(graph.layout(own))
            except ValueError as error:
                raise ValueError(f"X[{i}]: {error}") from error
            graphs.append(graph)
        return graphs, layouts, shapes

    def _graph(self, i, sample):
        """Call the user's function; whatever goes wrong there, say for which sample."""
        try:
            return self.function(sample)
        except ValueError as error:
            raise ValueError(f"X[{i}]: {error}") from error
        except Exception as error:
            raise ValueError(
                f"X[{i}]: the function `structure` failed on this sample: {type(error).__name__}: {error}"
            ) from error

    @staticmethod
    def _check_shapes(own, shapes):
        for name, shape in shapes.items():
            if name not in own:
                raise ValueError(f"its graph has no factor named {name!r}, which the first graph has")
            if own[name] != shape:
                raise ValueError(
                    f"the scores named {name!r} have shape {own[name]}, in other graphs {shape}; scores are tied by "
                    "name: use Pair(..., tied=True) for one score for all pairs"
                )
        unknown = [name for name in own if name not in shapes]
        if unknown:
            raise ValueError(f"its graph has a factor named {unknown[0]!r}, which the first graph does not have")

    def new_model(self, n_features, shapes):
        """Return a model of zeros."""
        return LinearModel.zeros(n_features, 1, sum(_size(shape) for shape in shapes.values()))

    def split_additional(self, flat, shapes):
        """Return a model's additional scores by name, as views: dict of name -> array, or -> dict for structures."""
        split, start = {}, 0
        for name, shape in shapes.items():
            if isinstance(shape, dict):
                split[name] = {}
                for own, s in shape.items():
                    stop = start + int(np.prod(s))
                    split[name][own] = flat[start:stop].reshape(s)
                    start = stop
            else:
                stop = start + int(np.prod(shape))
                split[name] = flat[start:stop].reshape(shape)
                start = stop
        return split

    def task(self, X, y, weights, shapes=None):
        """Lay out training samples; also return the shapes of the additional scores."""
        graphs, layouts, shapes = self.graphs(X, shapes)
        gold = []
        for i, (graph, layout) in enumerate(zip(graphs, layouts)):
            try:
                gold.append(gold_parts(graph, layout, y[i]))
            except ValueError as error:
                raise ValueError(f"y[{i}]: {error}") from error
        return GraphTask(X, graphs, layouts, gold, weights), shapes

    def problems(self, X, model, shapes, tilt, temperature=1.0):
        """Lay out samples to predict, in groups that share a layout: list of (places, GraphProblems).

        Where the number of variables that are on varies, `tilt` is added to all scores over `temperature`.
        """
        _, layouts, _ = self.graphs(X, shapes)
        scores = ((X.values @ model.coef)[:, 0] + model.intercept[0]) / temperature
        check_scores(scores, 1, "the scores of all rows of X")
        joined = model.additional / temperature
        groups, found = {}, []
        for i, layout in enumerate(layouts):
            groups.setdefault(id(layout), []).append(i)
        for places in groups.values():
            layout = layouts[places[0]]
            own = scores[X.indptr[places][:, None] + np.arange(layout.n_variables)]
            found.append((places, GraphProblems(layout, _tilted(layout, own, tilt), layout.expanded(joined)[None])))
        return found

    def predict(self, X, model, shapes, tilt, n_jobs):
        """Return the best assignment of each sample, in the shape of its variables."""
        found = np.empty(len(X), dtype=object)
        for places, problems in self.problems(X, model, shapes, tilt):
            for i, structure in zip(places, best_assignments(problems, n_jobs).structures):
                found[i] = problems.layout.shape_variables(structure)
        return found

    def marginals(self, X, model, shapes, temperature, tilt, n_jobs):
        """Return the marginals of each sample in the shape of its variables, and arrays of gaps and objectives."""
        found = np.empty(len(X), dtype=object)
        gaps, objectives = np.empty(len(X)), np.empty(len(X))
        for places, problems in self.problems(X, model, shapes, tilt, temperature):
            solutions = solve_graph(problems, 1e-8, 5000, n_jobs=n_jobs)
            check_feasible(problems.layout, solutions)
            gaps[places], objectives[places] = np.abs(solutions.statistics[:, GAP]), solutions.statistics[:, OBJECTIVE]
            for i, u in zip(places, solutions.marginals):
                found[i] = problems.layout.shape_variables(u)
        return found, gaps, objectives

    def encode(self, X, shapes, gold, predicted):
        """Write assignments as `Structure.encode` does, a slot for each variable.

        Returns
        -------
        pairs : list of (slots, slots)
            Of the right and the predicted assignment of each sample.
        fixed_size : bool
            Whether all assignments of each sample have the same number of variables on.
        """
        graphs, layouts, _ = self.graphs(X, shapes)
        pairs = []
        for i, (graph, layout) in enumerate(zip(graphs, layouts)):
            try:
                both = [gold_parts(graph, layout, y[i])[0] for y in (gold, predicted)]
            except ValueError as error:
                raise ValueError(f"y[{i}]: {error}") from error
            pairs.append(tuple(np.where(u > 0.0, np.arange(len(u)), -1) for u in both))
        return pairs, all(layout.fixed_size for layout in layouts)

    def decision(self, X, shapes, scores, tilt):
        """Return the scores of the variables of each sample, in their shape."""
        _, layouts, _ = self.graphs(X, shapes)
        found = np.empty(len(X), dtype=object)
        for i, layout in enumerate(layouts):
            own = _tilted(layout, scores[X.indptr[i] : X.indptr[i + 1]], tilt)
            found[i] = layout.shape_variables(own)
        return found

    @staticmethod
    def check_loss(loss):
        """Raise ValueError for losses that graphs do not have."""
        if LOSSES[loss].argmax == "gibbs":
            raise ValueError(
                f"loss={loss!r} needs marginals of a Gibbs distribution, which are #P-hard in factor graphs; use "
                "'sparsemap' or 'hinge'"
            )


def _tilted(layout, scores, tilt):
    return scores if layout.fixed_size else scores + tilt


def _size(shape):
    return sum(map(_size, shape.values())) if isinstance(shape, dict) else int(np.prod(shape))


def fit_graphs(estimator, task, model, solver, max_iter, monitor):
    """Minimise the objective over all samples by L-BFGS or AdaGrad; return whether it converged and its message."""
    if solver == "lbfgs":
        objective = GraphObjective(
            task,
            estimator.loss,
            estimator.temperature,
            model,
            alpha=estimator.alpha,
            fit_intercept=estimator.fit_intercept,
            n_jobs=estimator.n_jobs,
        )

        def after_iteration(current, loss):
            monitor.latest = lambda: current
            return monitor.iteration(loss)

        found, loss, message = minimize_lbfgs(
            objective, model, max_iter=max_iter, tol=estimator.tol, after_iteration=after_iteration
        )
        monitor.latest = lambda: found
        if not monitor.losses:
            monitor.losses.append(loss)
        return objective.unconverged, message
    optimizer = new_graph_optimizer(estimator, model)
    monitor.latest, monitor.begun = optimizer.model, lambda: optimizer.n_steps > 0
    rng = check_random_state(estimator.random_state)
    order = np.arange(len(task.weights))
    total_weight = task.weights.sum()
    for _ in range(max_iter):
        if estimator.shuffle:
            rng.shuffle(order)
        total = optimizer.epoch(task, estimator.loss, estimator.temperature, order, estimator.n_jobs)
        if monitor.iteration(total / total_weight + optimizer.penalty()):
            return optimizer.unconverged, ""
    return optimizer.unconverged, f"AdaGrad was still improving after max_iter={max_iter} epochs"


def new_graph_optimizer(estimator, model):
    """Make the online optimiser that an estimator's parameters ask for."""
    optimizer = GraphOptimizer(model, average=estimator.average)
    return configure_graph_optimizer(estimator, optimizer)


def configure_graph_optimizer(estimator, optimizer):
    """Take over the parameters of an estimator, which may have changed; return the optimiser."""
    if optimizer.average != estimator.average:
        raise ValueError("average cannot change between calls of partial_fit; fit a clone")
    optimizer.configure(alpha=estimator.alpha, eta0=estimator.eta0, fit_intercept=estimator.fit_intercept)
    return optimizer
