"""The best assignment of a graph of logic factors and pairs, by exact branch and bound or by HiGHS, with a time limit.

Used by `_layers`, `_training`, `inference`, `map.py`, `n_best.py` and `problems.py`.
"""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._graphs.arrays import FORBIDDEN
from ..._numerics.zero_one import FREE, ZeroOne
from ..._numerics.zero_one_search import search_with_highs
from .branch import MAX_NODES


class Assignment(NamedTuple):
    """The best assignment found in a graph.

    Attributes
    ----------
    u, joint : arrays
        The assignment, and which pairs are on.
    value, bound : float
        The score of the assignment, and an upper bound of the scores of all assignments. They are equal if the search
        is complete. Both are -inf if there is no assignment. If a search of `max_nodes` is not complete, they are
        infinite.
    relaxed_bound : float
        The upper bound by the multipliers of the linear relaxation.
    after_nodes : bool
        Whether the number of relaxations ended the search, not the time.
    """

    u: np.ndarray
    joint: np.ndarray
    value: float
    bound: float
    relaxed_bound: float
    after_nodes: bool = False


def assign_exactly(problem, start, known, deadline=None, max_nodes=None, multipliers=None):
    """Find the best assignment of a graph without structures.

    Parameters
    ----------
    problem : GraphBatch
        A single sample.
    start : float array of shape (n_variables,)
        0 and 1: the values of known variables, and a possible result if time runs out.
    known : bool array of shape (n_variables,)
        Mask of the variables that are fixed.
    deadline : float or None
        The `working_time` at which the search ends.
    max_nodes : int, default=None
        Maximum number of nodes of the search by HiGHS.
    multipliers : array of shape (n_rows + n_pairs,), default=None
        Multipliers of the linear relaxation.

    Returns
    -------
    best : Assignment
    """
    program = AssignmentProgram(problem, start, known, multipliers)
    found = search_with_highs(program.zero_one, deadline, max_nodes)
    if not found.is_complete and max_nodes is not None:
        return program.as_assignment(found)._replace(value=-np.inf, bound=np.inf)
    return program.as_assignment(found)


class AssignmentProgram:
    """The program for the best assignment of the free variables of one sample.

    Known and forbidden variables are fixed, and pairs without a score are left out.

    Parameters
    ----------
    problem, start, known, multipliers
        As in `assign_exactly`.

    Attributes
    ----------
    zero_one : ZeroOne
    """

    def __init__(self, problem, start, known, multipliers=None):
        self._problem = problem
        arrays = problem.layout.arrays
        forbidden = problem.scores[0] < 0.5 * FORBIDDEN
        self.start = np.where(forbidden, 0.0, start)
        self._pair_indices = arrays.additional_ptr[arrays.pairs]
        self._ends, self._signs, self._off = arrays.pair_ends, arrays.pair_signs, 0.5 * (1.0 - arrays.pair_signs)
        pair_scores = problem.additional[0][self._pair_indices]
        used = np.flatnonzero(pair_scores)
        self._rows = problem.layout.whole_rows
        if multipliers is None:
            multipliers = np.zeros(len(self._rows.low) + len(pair_scores))
        self.zero_one = ZeroOne(
            *self._rows,
            scores=np.where(forbidden, 0.0, problem.scores[0]),
            pair_ends=arrays.pair_ends[used],
            pair_signs=arrays.pair_signs[used],
            pair_scores=pair_scores[used],
            fixed=np.where(known | forbidden, self.start, FREE),
            start=self.start,
            multipliers=np.concatenate(
                [multipliers[: len(self._rows.low)], multipliers[len(self._rows.low) :][used]],
            ),
        )

    def as_assignment(self, found):
        """Return the best assignment that was found; the start if there is none."""
        if not len(found.values):
            bound = -np.inf if found.is_complete else found.bound
            return Assignment(self.start, self.joint(self.start), -np.inf, bound, found.root_bound)
        u = found.assignments[0].astype(np.float64)
        if not found.is_complete:
            u = self.climb(u)
        value = float(found.values[0]) if found.is_complete else self.value(u)
        bound = value if found.is_complete else max(found.bound, value)
        return Assignment(u, self.joint(u), value, bound, found.root_bound)

    def joint(self, u):
        """Return which pairs are on."""
        joint = np.zeros(self._problem.layout.n_additional)
        joint[self._pair_indices] = (self._off + self._signs * u[self._ends]).prod(axis=1)
        return joint

    def value(self, u):
        """Return the score of an assignment."""
        return self._problem.values(u[None], self.joint(u)[None])[0]

    def climb(self, u):
        """Flip one free variable at a time while the score rises (local search); return the assignment."""
        program = self.zero_one
        ends = program.pair_ends
        signs = program.pair_signs
        n = len(u)
        u = u.copy()
        for _ in range(n * n):
            on = 0.5 * (1.0 - signs) + signs * u[ends]
            fields = program.scores.copy()
            for end, other in ((0, 1), (1, 0)):
                fields += np.bincount(ends[:, end], signs[:, end] * program.pair_scores * on[:, other], n)
            gains = np.where(program.fixed == FREE, np.where(u > 0.5, -fields, fields), 0.0)
            min_gain = 1e-12 * np.abs(fields).max(initial=0.0)
            for i in np.argsort(-gains)[: np.count_nonzero(gains > min_gain)]:
                u[i] = 1.0 - u[i]
                if not self._rows.violated(u).any():
                    break
                u[i] = 1.0 - u[i]
            else:
                break
        return u


class Late(NamedTuple):
    """The end of a search that is not complete.

    Attributes
    ----------
    loss : float
        The largest possible loss; infinite if unknown.
    after_nodes : bool
        Whether the number of relaxations ended the search, not the time.
    """

    loss: float
    after_nodes: bool = False


def warn_of_time_limit(late, time_limit):
    """Warn of samples whose search is not complete; `late` maps their indices to `Late`."""
    if not late:
        return
    samples = sorted(late)
    gap = max(end.loss for end in late.values())
    which = ", ".join(map(str, samples[:5])) + (", ..." if len(samples) > 5 else "")
    loss = f"the scores of the assignments found are at most {gap:.3g} below the best"
    if gap == np.inf:
        loss = (
            "for at least one, no assignment was found (its value is -inf), or how far it is from the best is unknown, "
            "because not even the relaxation was solved"
        )
    if time_limit is None:
        end, remedy = "did not solve all relaxations", "scale the scores to similar sizes"
    else:
        causes = {True: f"after {MAX_NODES} relaxations", False: f"at map_time_limit={time_limit:g} seconds"}
        end = "ended " + " or ".join(causes[cause] for cause in sorted({end.after_nodes for end in late.values()}))
        remedy = "raise map_time_limit, or set it to None for an unlimited search"
        if all(end.after_nodes for end in late.values()):
            remedy = "set map_time_limit to None for an unlimited search"
    warnings.warn(
        f"the search for the best assignment {end} for {len(samples)} samples ({which}): {loss}; {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
