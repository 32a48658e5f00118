"""Working sets of columns: minimise over few columns, then add those with a large gradient.

References: Massias, Gramfort and Salmon, Celer: a fast solver for the lasso with dual extrapolation. ICML 2018.
Bertrand, Klopfenstein, Bannier, Gidel and Massias, Beyond L1: faster and better sparse models with skglm. NeurIPS 2022.

Used by `estimators`.
"""

from functools import cached_property

import numpy as np

from .._objective import features_of
from ..score_models import LinearModel
from .descent import SupportDescent
from .kinks import descend_by_turns
from .problem import WorkingProblem
from .scaling import COST, MAX_WEIGHTS, curvature_of, find_scale, minimize_smooth_unpenalized
from .screening import excluded_groups, squared_norms

# Columns with which a working set begins, and the factor by which it may grow.
_FIRST_COLUMNS, _GROWTH = 100, 2
# The problem of a working set is solved to these fractions of the current gap and of the tolerance.
_OF_GAP, _OF_TOL = 0.1, 0.3
# Up to `_SMALL` rows times weights, the objective is minimised to the gap `_EXACT`, with at most `_MORE` iterations in
# addition to those for `tol`. This takes milliseconds, and equal problems in another form get equal weights.
_SMALL, _EXACT, _MORE = 2**14, 1e-14, 300
# Evaluations between two minimisations over the free weights alone.
_BETWEEN = 20


class GroupLassoSolver:
    """Minimises ``mean loss + penalty`` over all columns, by minimisation on growing working sets.

    Parameters
    ----------
    task : Task
    X : ndarray or CSR of shape (n_rows, n_features)
    penalty : GroupPenalty
    fit_intercept : bool
    n_jobs : int or None
    model : LinearModel
        The start.

    Attributes
    ----------
    objective : float
    gap : float
        Upper bound of the distance of the objective from the minimum.
    n_iter, unconverged : int

    `StructuredGroupLasso` runs it, and calls `excluded`. A path of strengths (`estimators/_selection/strengths.py`)
    calls `slopes` after a run, and reads `penalty`.
    """

    def __init__(self, task, X, penalty, *, fit_intercept, n_jobs, model):
        self.task, self.X, self.penalty = task, X, penalty
        self.fit_intercept, self.n_jobs = fit_intercept, n_jobs
        self._features = features_of(X, task.n_outputs, n_jobs)
        self.objective, self.n_iter, self.unconverged = np.inf, 0, 0
        # The largest proven lower bound of the minimum.
        self._bound = -np.inf
        self._model, self._problem, self._descent = model, None, None
        # Whether there was a kink, where rounding is not reached.
        self._by_turns = False
        self._columns = self._begin()
        self._step = 1.0
        self._working = self._columns  # the columns of the last descent
        # The scale of the free weights, and the number of evaluations after which it is computed again.
        self._scale, self._patience = None, COST

    @property
    def gap(self):
        return max(self.objective - self._bound, 0.0)

    def restart(self, penalty):
        """Continue with another penalty; `run` then counts iterations from zero."""
        self._model = self.model()
        self.penalty, self.objective, self.n_iter, self._bound = penalty, np.inf, 0, -np.inf
        self._descent, self._by_turns = None, False
        self._columns = self._begin()

    def _begin(self):
        """Return the columns of the first working set, with all that no norm penalises."""
        return np.flatnonzero(self._model.coef.any(axis=1) | self.penalty.is_free)

    def model(self):
        """Return the current model of all columns."""
        if self._descent is not None:
            found = self._problem.unpack(self._descent.point.x)
            coef = np.zeros_like(self._model.coef)
            coef[self._working] = found.coef
            self._model = LinearModel(coef, found.intercept.copy(), found.additional.copy())
        return self._model

    def run(self, tol, max_iter, watch):
        """Minimise until the gap is at most `tol`.

        Parameters
        ----------
        tol : float
        max_iter : int
            Maximum number of iterations, over all working sets.
        watch : callable
            Called with the objective after each iteration; a true result stops.

        Returns
        -------
        message : str
            The reason for a failure; empty if the gap is at most `tol`, or training was stopped.
        """
        small = self.X.shape[0] * self._model.coef.size <= _SMALL
        goal = _EXACT if small else tol
        target = np.inf
        stuck = False
        while True:
            moved, stopped = self._descend(target, _OF_TOL * tol, max_iter, watch)
            slopes = self.slopes()
            n_before = len(self._columns)
            gap = self._problem.gap(self._descent.point, self.penalty.scale_into_ball(slopes))
            self._bound = max(self._bound, self.objective - gap)
            if stopped or gap <= min(goal, tol):
                return ""
            if self.n_iter >= max_iter:
                return "" if self.gap <= tol else "it reached max_iter"
            if self._by_turns and self.gap <= tol:
                return ""
            self._grow(slopes)
            if stuck and not moved and len(self._columns) == n_before:
                return "" if self.gap <= tol else "the objective no longer moves"
            target = max(_OF_GAP * gap, _OF_TOL * min(goal, tol))
            stuck = not moved
            if self.gap <= tol:
                max_iter = min(max_iter, self.n_iter + _MORE)

    def excluded(self):
        """Return a mask of the groups that have no weights at any minimum, as far as the gap proves it."""
        penalty = self.penalty
        if self._squares is None:
            return np.zeros(penalty.groups.n_groups, bool)
        point = self._descent.point
        slopes = self.slopes()
        largest = penalty.scale_into_ball(slopes)
        slopes *= self._problem.dual_factor(point, largest)
        gap = self._problem.gap(point, largest)
        return excluded_groups(penalty, slopes, self._squares, gap)

    @cached_property
    def _squares(self):
        """The argument `squares` of `excluded_groups`, the same for all penalties; None if it is unknown."""
        task = self.task
        smoothness = task.smoothness()
        if smoothness is None:
            return None
        of_samples = smoothness * task.weights / task.weights.sum()
        return squared_norms(self.X, np.repeat(of_samples, np.diff(task.row_ptr)))

    def _descend(self, target, least, max_iter, watch):
        """Descend on the working set until its gap is at most `target`, at a kink at most `least`.

        Returns
        -------
        moved : bool
            False if no step lowers the objective.
        stopped : bool
            Whether `watch` stopped training.
        """
        X = self.X[:, self._columns]
        model = self.model()
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        problem = WorkingProblem(
            self.task, X, self.penalty.restrict(self._columns), fit_intercept=self.fit_intercept, n_jobs=self.n_jobs,
            scale=self._scale,
        )  # fmt: skip
        start = problem.pack(LinearModel(model.coef[self._columns], model.intercept, model.additional))
        descent = SupportDescent(problem, start, self._step)
        if self._scale is not None:
            self._balance(problem, descent)
        self._problem, self._descent, self._working = problem, descent, self._columns
        self.objective = descent.point.value
        stopped, last, n_before, before = False, descent.point, self.n_iter, self.objective

        def is_done(point):
            nonlocal stopped, last
            if point is not last:
                last, self.n_iter, self.objective = point, self.n_iter + 1, point.value
                stopped = watch(point.value)
            if stopped or self.n_iter >= max_iter:
                return True
            # The exact factor takes longer.
            return problem.gap(point, 1.0) <= target and problem.gap(point) <= target

        settled_at = 0
        has_kinks = self.task.has_kinks
        can_scale = len(problem.ridge) <= MAX_WEIGHTS and not self.task.has_kinks

        def is_slow():
            return can_scale and problem.n_evaluations > self._patience

        def is_unsettled(point):
            if problem.scale is None or problem.n_evaluations - settled_at < _BETWEEN:
                return False
            others, of_free = problem.gap_parts(point, 1.0)
            return others <= 0.5 * target < of_free and problem.gap_parts(point)[0] <= 0.5 * target

        def pauses(point):
            return is_done(point) or (has_kinks and descent.creeps) or is_slow() or is_unsettled(point)

        moved = descent.run(pauses)
        while not is_done(descent.point):
            if is_slow():
                self._patience = 2 * self._patience
                self._scale = find_scale(problem, descent.point)
                self._balance(problem, descent)
                settled_at = problem.n_evaluations = 0
            elif is_unsettled(descent.point):
                step, settled_at = descent.step, problem.n_evaluations
                descent.move_to(minimize_smooth_unpenalized(problem, descent.point, 0.2 * target))
                descent.step = step
            else:
                break
            last = descent.point
            self.objective = last.value
            moved |= descent.run(pauses)
        if has_kinks and not stopped and self.n_iter < max_iter and problem.gap(descent.point) > target:
            self._by_turns = True
            target = max(target, least)
            moved |= descend_by_turns(problem, descent, target, is_done)
            self.objective = descent.point.value
        self._step, self.unconverged = descent.step, problem.unconverged
        # A start whose gap is small enough on the working set, though not on all columns, takes no step.
        return moved and (self.n_iter > n_before or self.objective < before), stopped

    def _balance(self, problem, descent):
        """Continue with free weights in a scale that fits the weights of features."""
        curvature = curvature_of(problem, descent.point)
        descent.move_to(problem.in_scale(descent.point, np.sqrt(curvature) * self._scale))
        descent.step = 1.0 / curvature

    def slopes(self):
        """Return the gradient of the loss with respect to the weights of all columns."""
        coef = self._model.coef
        slopes = np.empty_like(coef)
        share = 1.0 / self._problem.total_weight
        self._features.gradient(self._descent.point.residuals, share, 0.0, coef, slopes)
        return slopes

    def _grow(self, slopes):
        """Add the columns that a proximal gradient step would make nonzero, the strongest atoms first.

        At most, the working set grows by `_GROWTH`.
        """
        coef = self.model().coef
        groups = self.penalty.groups
        moved = self.penalty.prox(coef - self._step * slopes, self._step)
        moved[self._columns] = 0.0
        norms = groups.atom_norms(moved)
        strongest = np.argsort(-norms, kind="stable")[: np.count_nonzero(norms)]
        sizes = np.cumsum(np.bincount(groups.atom_of, minlength=groups.n_atoms)[strongest])
        room = max(_FIRST_COLUMNS, _GROWTH * len(self._columns)) - len(self._columns)
        n_added = max(1, np.searchsorted(sizes, room, side="right"))
        chosen = np.zeros(groups.n_atoms, bool)
        chosen[strongest[:n_added]] = True
        chosen = chosen[groups.atom_of]
        chosen[self._columns] = True
        self._columns = np.flatnonzero(chosen)
