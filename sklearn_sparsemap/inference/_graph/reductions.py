"""Reductions: easier samples are solved in place of given ones, and their solutions are converted back.

A reduction has three methods, as in cvxpy:

- ``accepts(out)`` returns the indices of the samples to which it applies, given the solutions so far.
- ``apply(rows)`` returns the easier samples that replace these samples, as `GraphBatch`, and their warm start; also
  their magnitudes, if these are known.
- ``invert(rows, solutions, out)`` converts solutions of the easier samples to solutions of the given ones, and writes
  them to `out`. It returns the indices of the samples that are not yet solved. `apply` is then called for them again.

`GraphSolver` applies `Clipping` (clipping.py) to samples with scores of very different magnitudes, `ZeroScores` and
`GrowingScores` to samples that do not converge, and `OtherSolver` to samples of tables. A fifth reduction, which fixes
variables by bounds on the scores, is part of the kernels (`_graphs/presolve.py`). For structures, masks are reduced in
`inference/_masks.py`.

Used by `solve.py`.
"""

import numpy as np

from ..._graphs.rows import INFEASIBLE, NOT_CONVERGED
from ..._graphs.samples import N_ITER, STATUS

_MAX_EASY = 10.0  # first magnitude of the scores in `GrowingScores`; larger: fewer solves, each with more iterations
_GROWTH = 10.0  # factor from one magnitude of the scores to the next; larger: fewer solves, each with more iterations


def solve_reduced(reduction, solve, out):
    """Replace solutions of samples by those of a reduction.

    Parameters
    ----------
    reduction
        See the head of this file.
    solve : callable
        ``solve(problems, warm, ...)`` returns the solutions of samples.
    out : GraphSolutions
        Solutions of all samples.
    """
    rows = reduction.accepts(out)
    while len(rows):
        rows = reduction.invert(rows, solve(*reduction.apply(rows)), out)


def replace(out, rows, solutions, chosen):
    """Replace the solutions of the chosen samples of `rows`; their numbers of iterations add up."""
    before = out.statistics[rows[chosen], N_ITER]
    out.put(rows[chosen], solutions.take(chosen))
    out.statistics[rows[chosen], N_ITER] += before


class OtherSolver:
    """The same samples, for another solver: those that did not converge."""

    def __init__(self, problems):
        self._problems = problems

    def accepts(self, out):
        return np.flatnonzero(out.statistics[:, STATUS] == NOT_CONVERGED)

    def apply(self, rows):
        return self._problems.take(rows), None

    def invert(self, rows, solutions, out):
        replace(out, rows, solutions, solutions.statistics[:, STATUS] != NOT_CONVERGED)
        return rows[:0]


class ZeroScores(OtherSolver):
    """Samples with all scores zero, which are solved fastest: they are infeasible if and only if the given ones are.

    Parameters
    ----------
    problems : GraphBatch
    far : bool array of shape (n_samples,)
        Samples that are left to `GrowingScores`.
    """

    def __init__(self, problems, far):
        super().__init__(problems)
        self._far = far

    def accepts(self, out):
        return np.flatnonzero((out.statistics[:, STATUS] == NOT_CONVERGED) & ~self._far)

    def apply(self, rows):
        return self._problems.take(rows).scaled(np.zeros(len(rows))), None

    def invert(self, rows, solutions, out):
        replace(out, rows, solutions, solutions.statistics[:, STATUS] == INFEASIBLE)
        return rows[:0]


class GrowingScores:
    """Samples with smaller scores, which grow to the given ones; each starts from the solution before (continuation).

    Large scores need large multipliers, which a solver reaches slowly from zero.

    Parameters
    ----------
    problems : GraphBatch
    sizes : array of shape (n_samples,)
        Magnitudes of the scores.
    far : bool array of shape (n_samples,)
        Samples whose solution so far ended after few iterations, so that it is always replaced.
    """

    def __init__(self, problems, sizes, far):
        self._problems, self._sizes, self._far = problems, sizes, far

    def accepts(self, out):
        rows = np.flatnonzero((out.statistics[:, STATUS] == NOT_CONVERGED) & (self._sizes > _MAX_EASY))
        self._scale, self._warm = _MAX_EASY / self._sizes[rows], None
        return rows

    def apply(self, rows):
        return self._problems.take(rows).scaled(self._scale), self._warm

    def invert(self, rows, solutions, out):
        statistics, scale = solutions.statistics, self._scale
        done = (scale >= 1.0) | (statistics[:, STATUS] == INFEASIBLE)
        better = done & ((statistics[:, STATUS] != NOT_CONVERGED) | self._far[rows])
        replace(out, rows, solutions, better)
        out.statistics[rows[~better], N_ITER] += statistics[~better, N_ITER]
        growth = np.minimum(_GROWTH, 1.0 / scale)[:, None]
        self._warm = tuple((growth * array)[~done] for array in (solutions.multipliers, solutions.links))
        self._scale = np.minimum(scale * _GROWTH, 1.0)[~done]
        return rows[~done]
