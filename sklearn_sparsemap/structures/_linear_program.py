"""LinearProgram: 0-1 variables under linear constraints, solved by HiGHS."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from .._core.annotations import Any, ArrayLike, NDArray, Sequence
from .._core.jit import working_time
from .._core.keys import as_key
from .._core.validation import check_numbers, check_positive
from .._core.whole_rows import whole_rows
from .._numerics.zero_one import FREE, ZeroOne
from .._numerics.zero_one_search import search_with_highs
from ._base import InEstimators, as_bools, as_flag, as_parts
from ._custom import CustomStructure

# Largest distance from 0 or 1 of a relaxed solution that is rounded, if `integer` is False.
_FRACTIONAL = 1e-4
# If a score exceeds the others by more than this factor, HiGHS's tolerance leaves too few digits for the others.
_FAR = 1e5
# The tolerances of HiGHS are absolute. Scores are scaled to this maximum, so that they are negligible.
_LARGEST_SCORE = 1e3
_LARGEST_COEF = 1e6  # maximum of the coefficients that HiGHS gets
_FEASIBLE = 1e-6  # largest violation of a constraint by the relaxation


class _ProgramsInEstimators(InEstimators):
    """Losses are over the pool of a program, if it says so."""

    def for_training(self, structure: Any) -> Any:
        return structure.on_pool() if self.trains_on_pool else structure


class LinearProgram(CustomStructure):
    """Choices of 0-1 variables x with ``A @ x <= b``: knapsacks, paths, schedules, and other integer programs.

    Scores have shape (n_variables,). The MAP oracle solves the linear relaxation by HiGHS, and searches the choices
    that its reduced costs leave open [3]_. If these are many, HiGHS branches (`scipy.optimize.milp`), in a process of
    its own, which Ctrl-C ends. Most calls take milliseconds. A structure is a bool array of shape (n_variables,), also
    given as 0 and 1; `predict` of an estimator returns an array (n_samples, n_variables). -inf forbids a variable.

    Solutions satisfy the constraints exactly if the coefficients of a constraint are whole numbers up to 2**53, or
    decimal fractions with up to 9 digits after the point. Other coefficients have a tolerance of 1e-12, relative to the
    sum of their absolute values.

    Parameters
    ----------
    A : array-like or sparse matrix of shape (n_constraints, n_variables), default=None
    b : array-like of shape (n_constraints,), default=None
    A_eq, b_eq : array-like, default=None
        Equality constraints ``A_eq @ x == b_eq``, in the same form. At least one kind of constraints must be given.
    integer : bool, default=True
        False states that the linear relaxation always has integer solutions (paths, assignments). A fractional solution
        is then an error.
    fixed_size : bool, default=False
        Whether all structures have the same number of variables that are 1; see `Structure`.
    train_on_pool : bool, default=True
        Whether estimators compute their losses over the solutions in the pool, those of the training samples included,
        which takes a small part of the time (see `on_pool`). The loss is then a lower bound of that over all solutions.
        Prediction is over all solutions.
    map_time_limit : float, default=None
        Maximum number of seconds of the search in each call of the MAP oracle, after the linear relaxation. When it
        ends a search, a `ConvergenceWarning` says how far the solution can be from the best. By default, the search has
        no limit.

    Attributes
    ----------
    pool : bool array of shape (n_keys, n_variables)
        The distinct solutions found so far, in the order of their discovery, including the structures in `y`. See
        `on_pool`.

    Notes
    -----
    See [1]_ for SparseMAP over a structure, and [2]_ for learning from a pool of solutions.

    References
    ----------
    .. [1] Niculae, Martins, Blondel and Cardie. SparseMAP: Differentiable Sparse Structured Inference. ICML 2018.
    .. [2] Mulamba, Mandi, Diligenti, Lombardi, Bucarey and Guns. Contrastive Losses and Solution Caching for
       Predict-and-Optimize. IJCAI 2021.
    .. [3] Balas and Zemel. An Algorithm for Large Zero-One Knapsack Problems. Operations Research, 1980.

    Examples
    --------
    >>> from sklearn_sparsemap import map_inference, sparsemap
    >>> from sklearn_sparsemap.structures import LinearProgram
    >>> knapsack = LinearProgram([[3.0, 2.0, 2.0]], [4.0])
    >>> chosen, value = map_inference(knapsack, [3.0, 2.0, 2.5])
    >>> chosen.tolist(), value
    ([False, True, True], 4.5)
    >>> sparsemap(knapsack, [1.0, 0.5, 0.2]).marginals.round(3).tolist()
    [0.75, 0.25, 0.2]
    """

    # Copies of the constraints, and these in whole numbers.
    _whole: tuple[list[Any], Any] | None = None
    strict_encode = True
    no_marginals = "an integer program does not tell how to sum over all of its solutions"

    def __init__(
        self,
        A: ArrayLike | None = None,
        b: ArrayLike | None = None,
        *,
        A_eq: ArrayLike | None = None,
        b_eq: ArrayLike | None = None,
        integer: bool = True,
        fixed_size: bool = False,
        train_on_pool: bool = True,
        map_time_limit: float | None = None,
    ) -> None:
        if A is None and A_eq is None:
            raise ValueError("a LinearProgram needs constraints: A and b, A_eq and b_eq, or all four")
        given = _check_constraints(A, b, "A", "b")
        given_eq = _check_constraints(A_eq, b_eq, "A_eq", "b_eq")
        n = (given or given_eq)[0].shape[1]
        none = np.zeros((0, n)), np.zeros(0)
        (self.A, self.b), (self.A_eq, self.b_eq) = given or none, given_eq or none
        if self.A_eq.shape[1] != n:
            raise ValueError(f"A is for {n} variables, but A_eq for {self.A_eq.shape[1]}")
        self.integer = as_flag("integer", integer)
        self.fixed_size = as_flag("fixed_size", fixed_size)
        self.train_on_pool = as_flag("train_on_pool", train_on_pool)
        if map_time_limit is not None:
            check_positive("map_time_limit", map_time_limit)
        self.map_time_limit = map_time_limit
        # The constructor of `CustomStructure` is not called. The attributes that it sets, except `map_oracle`, are set
        # here.
        self.n_parts, self.additional, self.max_additional_parts = n, {}, None
        self._encode = self._decode = None
        # The keys are text, because skops can save it.
        self._enumerated: dict[str, Any] = {}

    @property
    def in_estimators(self) -> InEstimators:
        return _ProgramsInEstimators(predicts_arrays=True, trains_on_pool=self.train_on_pool)

    @property
    def pool(self) -> NDArray[np.bool_]:
        found = np.array(list(self._enumerated.values()), bool).reshape(-1, self.n_parts)
        # The constraints may have changed since.
        return found[~self._whole_rows().violated(found.T).any(axis=0)]

    def on_pool(self) -> CustomStructure:
        """Return a structure restricted to the solutions in the pool, which is much faster.

        Returns
        -------
        structure : CustomStructure
            Its structures have the same form. Solutions that are found later are not added.

        Raises
        ------
        ValueError
            If the pool is empty.

        Examples
        --------
        >>> from sklearn_sparsemap import map_inference
        >>> from sklearn_sparsemap.structures import LinearProgram
        >>> knapsack = LinearProgram([[3.0, 2.0, 2.0]], [4.0])
        >>> _ = map_inference(knapsack, [[3.0, 2.0, 2.5], [1.0, 0.0, 0.0]])
        >>> map_inference(knapsack.on_pool(), [0.0, 2.0, -1.0])[0].tolist()
        [False, True, True]
        """
        pool = self.pool
        if not len(pool):
            raise ValueError("no solution was found yet; ask map_inference for those of some scores first")
        return CustomStructure(
            partial(_best_of_pool, pool),
            n_parts=self.n_parts,
            encode=np.flatnonzero,
            decode=partial(np.isin, np.arange(self.n_parts)),
            fixed_size=self.fixed_size,
        )

    def map_oracle(self, scores: NDArray[np.float64]) -> NDArray[np.int64] | None:
        """Return the variables that are 1 in a best solution; None if there is none."""
        allowed = scores > -np.inf
        masked = _masked(scores)
        if masked.any():
            chosen = self._best_of(scores, allowed & ~masked)
            if chosen is not None:
                return chosen
        return self._best_of(scores, allowed)

    def _best_of(self, scores, allowed):
        """Return the best choice of the allowed variables, or None if there is none."""
        costs = np.where(allowed, -scores, 0.0)
        largest = np.abs(costs).max()
        # Divide first: `_LARGEST_SCORE / largest` could overflow.
        unit = largest / _LARGEST_SCORE if largest > 0.0 else 1.0
        A, b, A_eq, b_eq = self._constraints()
        scale = _row_scales(A)
        scale_eq = _row_scales(A_eq)
        relaxed = linprog(
            costs / unit,
            A / scale[:, None],
            b / scale,
            A_eq / scale_eq[:, None],
            b_eq / scale_eq,
            bounds=np.column_stack([np.zeros(len(costs)), allowed]),
            options={"primal_feasibility_tolerance": _FEASIBLE},
        )
        if relaxed.x is None:
            # There is no solution, or its sums need more digits than HiGHS has.
            chosen = self._best_near(-costs, allowed, np.zeros(len(costs), bool), np.zeros(len(scale) + len(scale_eq)))
        else:
            chosen = relaxed.x > 0.5
            off = np.abs(relaxed.x - chosen).max()
            if off > _FRACTIONAL and not self.integer:
                raise ValueError(
                    "integer=False, but with these constraints a linear program has a solution that is not integer: "
                    f"{relaxed.x.round(4).tolist()}; use integer=True"
                )
            duals = np.concatenate([relaxed.ineqlin.marginals / scale, relaxed.eqlin.marginals / scale_eq])
            chosen = self._best_near(-costs, allowed, chosen, -unit * duals)
        if chosen is not None:
            self._enumerated.setdefault(chosen.tobytes().hex(), chosen)
        return None if chosen is None else np.flatnonzero(chosen)

    def _best_near(self, scores, allowed, start, multipliers):
        """Return the best choice, given a choice of the relaxation and its multipliers; None if there is none."""
        program = ZeroOne(
            *self._whole_rows(),
            scores=scores,
            pair_ends=np.zeros((0, 2), np.int64),
            pair_signs=np.zeros((0, 2)),
            pair_scores=np.zeros(0),
            fixed=np.where(allowed, FREE, 0),
            start=start & allowed,
            multipliers=multipliers,
        )
        limit = self.map_time_limit
        found = search_with_highs(program, None if limit is None else working_time() + limit)
        if not found.is_complete:
            end = "before it was complete" if limit is None else f"at map_time_limit={limit:g} seconds"
            if not len(found.values):
                raise RuntimeError(f"the search of {self!r} ended {end}, without a solution; simplify the constraints")
            warnings.warn(
                f"the search for the best solution of {self!r} ended {end}: its score is at most "
                f"{found.bound - found.values[0]:.3g} below the best; raise map_time_limit, or set it to None for an "
                "unlimited search",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found.assignments[0] > 0 if len(found.values) else None

    def _constraints(self):
        """Return the constraints as arrays; users may replace them, by lists, too."""
        return [np.asarray(array, float) for array in (self.A, self.b, self.A_eq, self.b_eq)]

    def _whole_rows(self):
        """Return the constraints in whole numbers, first those of A; they are kept until an array changes."""
        given = A, b, A_eq, b_eq = self._constraints()
        if self._whole is None or not all(map(np.array_equal, given, self._whole[0])):
            matrix = np.vstack([A, A_eq])
            bounds = np.concatenate([b, b_eq])
            low = np.where(np.arange(len(bounds)) < len(b), -np.inf, bounds)
            self._whole = [array.copy() for array in given], whole_rows(matrix, low, bounds)
        return self._whole[1]

    def encode(self, structure: Any, dims: NDArray[np.int64]) -> Any:
        form = f"a solution is {self.n_parts} bools, or 0 and 1, one for each variable"
        x = as_bools(structure, self.n_parts, form)
        wrong = np.flatnonzero(self._whole_rows().violated(x))
        if len(wrong):
            name, r = ("A", wrong[0]) if wrong[0] < len(self.A) else ("A_eq", wrong[0] - len(self.A))
            A, b, A_eq, b_eq = self._constraints()
            off = A[r] @ x - b[r] if name == "A" else A_eq[r] @ x - b_eq[r]
            raise ValueError(f"constraint {r} of {name} is violated, by {abs(off):.6g}")
        # Gold solutions join the pool, so that training over the pool can find them.
        self._enumerated.setdefault(x.tobytes().hex(), x)
        return as_parts(np.where(x, np.arange(self.n_parts), -1)), as_parts([])

    def decode(self, slots: NDArray[np.int32], dims: NDArray[np.int64]) -> Any:
        return slots >= 0

    def example_shapes(self) -> Sequence[tuple[int, ...]]:
        return ((self.n_parts,),)

    def __getstate__(self):
        return {name: value for name, value in super().__getstate__().items() if name != "_whole"}

    def _params(self):
        arrays = {name: getattr(self, name).tolist() for name in ("A", "b", "A_eq", "b_eq")}
        names = ("integer", "fixed_size", "train_on_pool", "map_time_limit")
        return {**arrays, **{name: getattr(self, name) for name in names}}

    def content(self) -> Any:
        # Without the pool.
        return *map(as_key, self._constraints()), self.integer, self.fixed_size, self.train_on_pool, self.map_time_limit

    def __repr__(self):
        n = len(self.A) + len(self.A_eq)
        constraints = "1 constraint" if n == 1 else f"{n} constraints"
        return f"LinearProgram({constraints} of {self.n_parts} variables, integer={self.integer})"


def _best_of_pool(pool, scores):
    """Return the variables that are 1 in the best solution of a pool; None if all are forbidden."""
    allowed = scores > -np.inf
    totals = pool @ np.where(allowed, scores, 0.0)
    totals[(pool & ~allowed).any(axis=1)] = -np.inf
    best = int(np.argmax(totals))
    return None if totals[best] == -np.inf else np.flatnonzero(pool[best])


def _row_scales(A):
    """Return the numbers by which rows are divided for HiGHS, whose tolerances are absolute: 1, or powers of 2."""
    sizes = np.abs(A).max(axis=1, initial=1.0)
    return np.where(sizes > _LARGEST_COEF, np.exp2(np.ceil(np.log2(sizes / _LARGEST_COEF))), 1.0)


def _masked(scores):
    """Return a mask of variables whose scores are so low that every choice without them beats every choice with one.

    Only if the other scores are of much smaller magnitude.
    """
    values = np.sort(scores[scores > -np.inf])
    # Magnitudes of the higher scores.
    sizes = np.append(np.abs(values[1:]), 0.0)[::-1]
    total = np.cumsum(sizes)[::-1]
    largest = np.maximum.accumulate(sizes)[::-1]
    is_far = (values < -2.0 * total) & (values < -_FAR * largest) & (largest > 0.0)
    return scores <= values[np.flatnonzero(is_far)[-1]] if is_far.any() else np.zeros(len(scores), bool)


def _check_constraints(A, b, A_name, b_name):
    """Return both sides of constraints as arrays; None if there are none."""
    if A is None and b is None:
        return None
    if A is None or b is None:
        raise ValueError(f"{A_name} and {b_name} go together; pass both, or neither")
    A = A.toarray() if sparse.issparse(A) else A
    A = check_numbers(A, A_name).copy()
    b = check_numbers(b, b_name).copy()
    if A.ndim != 2 or A.shape[1] == 0 or b.shape != A.shape[:1]:
        raise ValueError(
            f"{A_name} has shape (n_constraints, n_variables), {b_name} (n_constraints,); got {A.shape} and {b.shape}"
        )
    if not np.isfinite(A).all() or not np.isfinite(b).all():
        raise ValueError(f"{A_name} and {b_name} must be finite; leave out constraints that are none")
    return A, b
