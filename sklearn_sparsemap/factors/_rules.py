"""The rules on labels and on variables of a factor graph, and their names in the papers.

Used by `_graph.py` and `_layout.py`.
"""

from __future__ import annotations

import numbers

import numpy as np

from .._core.annotations import Any, ArrayLike, Iterable, NDArray
from .._core.validation import check_numbers
from .._core.whole_rows import NO_BOUND, as_whole
from ._label_constraints import Label, LabelConstraint
from ._logic import shown
from ._variables import Condition, Variables, WeightedSum, as_condition, as_literals


def _documented(summary, examples):
    """Return the docstring of a bound: a summary, the sections of `_Counted`, and examples."""
    shared = (_Counted.__doc__ or "").partition("\n")[2].rstrip()
    return f"{summary}\n{shared}\n\n    Examples\n    --------{examples}"


class _Counted(LabelConstraint):
    """A bound on the number of labels, or of variables of a factor graph, that are on.

    Parameters
    ----------
    variables : Variables, or list of variables, label names or indices
        Negated ones count if they are off: ``~u[0]``, ``~Label(name)``, ``~index``. If only a number is given, the rule
        is about all labels. Variables can also be a weighted sum, such as ``[2.0, 3.0, -1.0] @ u``. The vertices of its
        linear relaxation can have a fractional variable. Sums of whole weights (up to 2**53) and of decimal fractions
        with up to 9 digits after the point are exact: .1 + .2 is at most .3. Sums of other weights have a tolerance of
        1e-12, relative to the sum of all absolute weights.
    k : int
        The bound, not negative. For a weighted sum any number.
    labels : list of label names or indices, default=None
        The labels, as a keyword: ``AtMost(2, labels=["jazz", "rock"])``.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If `k` is not an int or negative, a variable occurs twice, or no weighted sum satisfies it; at `fit`, if a label
        is unknown, or no set of labels satisfies it.
    """

    # Files hold a rule by `labels`, `k` and `name` (`estimators/_state/plain.py`), and `plotting` shows `k`.
    # For a weighted sum: the weights of the literals, their unit, and their sum minus the sum of the variables.
    weights, unit, offset = None, 1.0, 0.0

    def __init__(
        self,
        variables: Iterable[Any] | Variables | int,
        k: int | None = None,
        *,
        labels: Iterable[Any] | None = None,
        name: str | None = None,
    ) -> None:
        what = type(self).__name__
        if k is None:
            variables, k = labels, variables
        elif labels is not None:
            raise ValueError(f"{what} got both variables and labels; give one of them")
        if isinstance(variables, WeightedSum):
            if isinstance(k, bool) or not isinstance(k, numbers.Real) or not np.isfinite(k):
                raise ValueError(f"{what} takes a weighted sum and then a number; got {k!r} as the number")
            self.k = float(k)
            self.weights = variables.weights
            self.offset = variables.offset
            # The weights are divided by their largest one, so that rounding does not depend on their unit.
            self.unit = self.weights.max() or 1.0
            self.whole = self._in_whole_numbers(variables.flipped)
            variables = variables.literals
        else:
            if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 0:
                raise ValueError(
                    f"{what} takes variables or labels and then a number, an int that is not negative, such as "
                    f"{what}(u, 2); got {k!r} as the number"
                )
            self.k = int(k)
        super().__init__(variables, name=name)

    def _in_whole_numbers(self, flipped):
        """Return the weights of the literals as whole numbers, the interval of their sum, and its tolerance."""
        signed = np.where(flipped, -self.weights, self.weights)
        whole, low, high, tol = as_whole(signed, *self._interval(self.k))
        offset = -int(whole[flipped].sum())
        low = low if low == -NO_BOUND else low + offset
        high = high if high == NO_BOUND else high + offset
        return np.abs(whole), low, high, tol

    def bounds(self) -> tuple[float, float]:
        low, high = self._interval(self.k + self.offset)
        if self.whole is None:
            return low, high
        # A bound above the sum of all literals is vacuous, and a large one would cost precision.
        total = self.coefficients.sum()
        low = self._without_rounding(low / self.unit, total)
        high = self._without_rounding(high / self.unit, total)
        return low, min(high, total) if high < np.inf else high

    def _without_rounding(self, bound, total):
        """Return a bound without rounding errors if it is the smallest or the largest sum, `total`."""
        weights, low, high, tol = self.whole
        for extreme, sum_of_literals in ((0.0, 0), (total, int(weights.sum()))):
            is_exact = sum_of_literals in (low, high)
            if np.isfinite(bound) and (is_exact if tol == 0.0 else abs(bound - extreme) <= tol * total):
                return extreme
        return bound

    @property
    def coefficients(self) -> NDArray[np.float64]:
        return super().coefficients if self.weights is None else self.weights / self.unit

    def _check_count(self, n, what):
        if self.whole is None:
            super()._check_count(n, what)
            return
        weights, low, high, _ = self.whole
        if high < 0 or low > weights.sum():
            least = 0.0 - self.offset
            most = self.weights.sum() - self.offset
            raise ValueError(f"{self!r} asks for {self.k:g}, but the sum is between {least:g} and {most:g}")

    @property
    def title(self) -> str:
        return f"{type(self).__name__}({self.k:g})"

    def _arguments(self):
        return f", {self.k + self.offset:g}"

    def _sum(self):
        if self.weights is None:
            return super()._sum()
        terms = [f"{weight:g} {literal!r}" for weight, literal in zip(self.weights[:4], self.literals)]
        return " + ".join(terms) + (f" + ... {self.literals.size} in all" if self.literals.size > 4 else "")


class AtMost(_Counted):
    __doc__ = _documented(
        "At most `k` of the labels, or of the variables of a factor graph, are on.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtMost, FactorGraph
    >>> AtMost(["jazz", "rock", "pop"], 2)
    AtMost(['jazz', 'rock', 'pop'], 2)
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(AtMost(u, 2))
    >>> lp_sparsemap(graph, [1.0, 1.0, 0.75]).marginals.round(3).tolist()
    [0.75, 0.75, 0.5]
    """,
    )

    def _interval(self, k):
        return -np.inf, float(k)


class AtLeast(_Counted):
    __doc__ = _documented(
        "At least `k` of the labels, or of the variables of a factor graph, are on.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import AtLeast, FactorGraph
    >>> AtLeast(["jazz", "rock"], 1)
    AtLeast(['jazz', 'rock'], 1)
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(AtLeast(u, 1))
    >>> lp_sparsemap(graph, [0.25, 0.0, -1.0]).marginals.round(3).tolist()
    [0.625, 0.375, 0.0]
    """,
    )

    def _interval(self, k):
        return float(k), np.inf


class Exactly(_Counted):
    __doc__ = _documented(
        "Exactly `k` of the labels, or of the variables of a factor graph, are on.",
        """
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import Exactly, FactorGraph
    >>> Exactly(["a", "b", "c"], 2, name="two of three")
    Exactly(['a', 'b', 'c'], 2, name='two of three')
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Exactly(u, 1))
    >>> lp_sparsemap(graph, [1.0, 1.0, 0.0]).marginals
    array([0.5, 0.5, 0. ])
    """,
    )

    def _interval(self, k):
        return float(k), float(k)


class Exclusive(LabelConstraint):
    """At most one of the labels, or of the variables of a factor graph, is on.

    Parameters
    ----------
    labels : list of label names or indices, or Variables
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If the labels are not a list; at `fit`, if a label is named twice or unknown.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Exclusive
    >>> Exclusive(["quiet", "loud"])
    Exclusive(['quiet', 'loud'])
    """

    def __init__(self, labels: Iterable[Any] | Variables, *, name: str | None = None) -> None:
        if labels is None:
            raise ValueError("Exclusive needs its labels: a list of names or indices")
        super().__init__(labels, name=name)

    def bounds(self) -> tuple[float, float]:
        return -np.inf, 1.0


class Implies(LabelConstraint):
    """If label `a` (or all of several labels) is on, label `b` is on; likewise for variables of a factor graph.

    Parameters
    ----------
    a : label name or index, Variables, or a list of these
        Negated ones hold if they are off: ``~Label(name)``, ``~index``, ``~u[0]``.
    b : label name or index, or a variable
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If `b` is a list; at `fit`, if a label is unknown, or both are the same.

    Examples
    --------
    >>> from sklearn_sparsemap.factors import Implies, Label
    >>> Implies(["rain", ~Label("umbrella")], "wet")
    Implies(['rain', ~'umbrella'], 'wet')
    """

    def __init__(self, a: Any, b: Any, *, name: str | None = None) -> None:
        self.a, self.b = a, b
        several = isinstance(a, list) or (isinstance(a, Variables) and a.ndim > 0)
        if several and not len(a):
            raise ValueError("Implies needs at least 2 variables or labels: one that implies, and one that is implied")
        if isinstance(b, list | tuple | set):
            name_of_one = f", or write Label({b!r}) for a label with this name" if isinstance(b, tuple) else ""
            raise ValueError(f"Implies has one label that is implied; got {b!r}; add a rule for each{name_of_one}")
        super().__init__([*(a if several else [a]), b], name=name)

    def _polarities(self, n):
        return np.append(-np.ones(n - 1), 1.0)

    def bounds(self) -> tuple[float, float]:
        return 1.0, np.inf

    def __repr__(self):
        name = "" if self.name is None else f", name={self.name!r}"
        if self.literals is None:
            return f"Implies({self.a!r}, {self.b!r}{name})"
        return f"Implies([{shown(self.literals[:-1])}], {self.literals[-1]!r}{name})"


class Knapsack(AtMost):
    """The total cost of the variables that are on does not exceed `budget`: ``AtMost(costs @ variables, budget)``.

    The vertices of its linear relaxation can have one fractional variable.

    Parameters
    ----------
    variables : Variables or list of Variables
    costs : array-like of shape (n_variables,)
        The cost of each variable, not negative. The cost of a negated variable counts if the variable is off.
    budget : float
        The largest total cost, not negative.
    name : str, default=None
        Name in error messages; several rules may share one.

    Raises
    ------
    ValueError
        If costs are not one finite, nonnegative number for each variable, the budget is negative, or a variable
        occurs twice.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import Knapsack, FactorGraph
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Knapsack(u, [2.0, 1.0, 1.0], 2.0))
    >>> lp_sparsemap(graph, [1.0, 1.0, 0.5]).marginals.round(3).tolist()
    [0.5, 0.75, 0.25]
    """

    def __init__(
        self, variables: Variables | Iterable[Variables], costs: ArrayLike, budget: float, *, name: str | None = None
    ) -> None:
        literals = as_literals(variables, "Knapsack")
        costs = check_numbers(costs, "costs")
        if costs.shape != (literals.size,):
            raise ValueError(f"costs has shape {costs.shape} for {literals.size} variables; give one for each")
        if not (np.isfinite(costs).all() and (costs >= 0).all()):
            raise ValueError(f"costs must be finite and not negative; got {costs.tolist()}")
        if isinstance(budget, bool) or not isinstance(budget, numbers.Real) or not 0 <= budget < np.inf:
            raise ValueError(f"the budget must be a number that is not negative; got {budget!r}")
        super().__init__(WeightedSum(costs, literals), budget, name=name)


def Iff(a: Any, b: Any, *, name: str | None = None) -> Exactly | Condition:
    """Label `a` is on exactly if label `b` is; for variables or conditions, one holds exactly if the other does.

    Parameters
    ----------
    a, b : label name or index, or variables or conditions
        Arrays of variables are joined entry by entry.
    name : str, default=None
        Name in error messages, for labels. A condition is named by ``graph.add(Iff(a, b), name=...)``.

    Returns
    -------
    rule : Exactly for labels, Condition for variables and conditions

    Raises
    ------
    ValueError
        If a condition is given a name.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference
    >>> from sklearn_sparsemap.factors import FactorGraph, Iff
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Iff(u[0], u[1] | u[2]))
    >>> map_inference(graph, [-1.0, 2.0, -0.5]).structure.tolist()
    [True, True, False]
    """
    if isinstance(a, Variables | Condition) or isinstance(b, Variables | Condition):
        if name is not None:
            raise ValueError(f"Iff of variables has no name; write graph.add(Iff(a, b), name={name!r})")
        one = as_condition(a)
        other = as_condition(b)
        return (one >> other) & (other >> one)
    return Exactly([a, ~(b if isinstance(b, Label) else Label(b))], 1, name=name)


# The names of the papers.
Budget = AtMost
AtMostOne = Exclusive


def Xor(variables: Variables | Iterable[Variables], *, name: str | None = None) -> Exactly:
    """Exactly one of the variables is on: ``Exactly(variables, 1)``."""
    return Exactly(variables, 1, name=name)


def Or(variables: Variables | Iterable[Variables], *, name: str | None = None) -> AtLeast:
    """At least one of the variables is on: ``AtLeast(variables, 1)``."""
    return AtLeast(variables, 1, name=name)


def Imply(variables: Variables | Iterable[Variables], *, name: str | None = None) -> Implies:
    """All variables except the last imply the last: ``Implies(variables[:-1], variables[-1])``."""
    literals = as_literals(variables, "Imply")
    return Implies(literals[:-1], literals[-1], name=name)
