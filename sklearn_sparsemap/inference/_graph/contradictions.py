"""Factors of a graph that contradict each other, as few as possible, and how messages list them.

Used by `map.py` and `solve.py`.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ..._graphs.arrays import FORBIDDEN, SCORED

# Status of scipy's linprog for a program without a solution.
_NO_SOLUTION = 2


def least_contradiction(layout, scores, factors):
    """Return factors of which each is needed for the contradiction: without any one of them there are marginals.

    A deletion filter: parts of the list are left out, first large ones, then single factors, as long as the linear
    program of the others has no solution.

    Parameters
    ----------
    layout : Layout
    scores : array of shape (n_variables,)
        The scores of the sample, in which FORBIDDEN replaces -inf.
    factors : list of int
        Numbers of factors that contradict each other, the most important ones first.

    Returns
    -------
    factors : list of int
        In the same order. All of them, if some are structures or tables that the contradiction needs.
    """
    arrays = layout.arrays
    kept = [f for f in factors if arrays.factor_types[f] not in SCORED]
    program = _Program(arrays, scores)
    if program.has_solution(kept):
        return factors
    size = len(kept)
    while size:
        # From the end, because the first factors are the most important ones.
        for start in range((len(kept) - 1) // size * size, -1, -size):
            others = kept[:start] + kept[start + size :]
            if not program.has_solution(others):
                kept = others
        size //= 2
    return kept


class _Program:
    """The linear program of the factors that are inequalities.

    Parameters
    ----------
    arrays : GraphArrays
    scores : array of shape (n_variables,)
    """

    def __init__(self, arrays, scores):
        shape = len(arrays.row_bounds), len(scores)
        rows = sparse.csr_array((arrays.row_coefs, arrays.row_vars, arrays.row_ptr), shape=shape)
        # An inequality for each finite bound.
        above = arrays.row_high > 0.0
        below = arrays.row_low < 0.0
        self._rows = sparse.vstack([rows[above], -rows[below]], format="csr")
        self._bounds = np.concatenate([arrays.row_bounds[above], -arrays.row_bounds[below]])
        self._factors = np.concatenate([arrays.row_factors[above], arrays.row_factors[below]])
        self._most = np.where(scores <= FORBIDDEN, 0.0, 1.0)

    def has_solution(self, factors):
        """Tell whether marginals satisfy some factors."""
        chosen = np.flatnonzero(np.isin(self._factors, factors))
        if not len(chosen):
            return True
        rows = self._rows[chosen]
        limits = np.stack([np.zeros_like(self._most), self._most], axis=1)
        result = linprog(np.zeros(rows.shape[1]), A_ub=rows, b_ub=self._bounds[chosen], bounds=limits)
        return result.status != _NO_SOLUTION


def list_rules(factors):
    """List factors for a message, grouped by name."""
    by_name = {}
    for factor in dict.fromkeys(factors):
        by_name.setdefault(factor.name, []).append(repr(factor).replace(f", name={factor.name!r}", ""))
    unnamed = by_name.pop(None, [])
    named = [f"{name!r} ({', '.join(rules)})" for name, rules in by_name.items()]
    return ", ".join([*named, *unnamed])
