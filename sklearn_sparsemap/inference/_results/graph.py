"""The result of inference in a factor graph.

Used by `inference/_graph`, `plotting` and `graph_batch.py`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from ..._core.annotations import Any, Mapping
from ..._core.html import as_html, attributes
from ..._graphs.jacobian import GraphJacobian, has_converged, structures_of
from .._graph.branch import fractional


class LPSparseMAPResult:
    """The solution of LP-SparseMAP for one sample.

    The problem is defined in [1]_, section 3.

    Attributes
    ----------
    marginals : ndarray, shape of the variables; or dict of str -> ndarray
        Marginals of the variables: one array if the graph has one array of variables, else a dict by name.
    additional_marginals : dict
        Marginals of the additional parts by the name of the factor. For pairs, an array with the probabilities that
        both variables are on, or a table of the values' probabilities; for structures, a dict of arrays, the expected
        counts. They may not be unique. If several factors have a name, a list with the values of each.
    objective : float
        ``scores.marginals + additional.additional_marginals - 1/2 |marginals|^2``.
    gap : float
        Absolute difference between the values of dual and objective. If the residual is zero, it bounds the
        suboptimality.
    residual : float
        Largest violation of the factors: the difference between a marginal and the same marginal in one of its factors.
    n_iter : int
        Number of sweeps and Newton steps.
    converged : bool
        Whether residual and gap (relative to the objective, if that is above 1) are within the tolerance.
    integral : bool
        Whether all marginals are 0 or 1 up to 1e-6.

    References
    ----------
    .. [1] Niculae and Martins. LP-SparseMAP: Differentiable Relaxed Optimization for Sparse Structured Prediction. ICML
       2020.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import FactorGraph, Xor
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Xor(u))
    >>> result = lp_sparsemap(graph, [0.5, 1.0, -1.0])
    >>> result.marginals.tolist(), result.integral, result.converged
    ([0.25, 0.75, 0.0], False, True)
    """

    def __init__(self, problem, solution, tol, again):
        # Problem and solution are batches of one sample; for `again` see `GraphJacobian`. A warm start
        # (`inference/_graph/problems.py`) reads `_layout`, `_joint`, `_multipliers` and `_links`.
        self._problem, self._solution, self._layout = problem, solution, problem.layout
        self._tol, self._again = tol, again
        self._u, self._joint, self._multipliers, self._links, statistics = (array[0] for array in solution)
        self.objective, self.gap, self.residual, n_iter, _ = statistics.tolist()
        self.n_iter = int(n_iter)

    @cached_property
    def _jacobian(self):
        return GraphJacobian(self._problem, self._solution, self._again)

    @property
    def converged(self) -> bool:
        return bool(has_converged(self.objective, self.gap, self.residual, self._tol))

    @property
    def marginals(self) -> Any:
        return self._layout.shape_variables(self._u)

    @property
    def additional_marginals(self) -> dict[str, Any]:
        return self._layout.shape_additional(self._joint)

    @property
    def integral(self) -> bool:
        return not fractional(self._u).any()

    @property
    def structures(self) -> dict[str, list[tuple[Any, float]]]:
        """The support of each named structure factor: dict of str -> list of (structure, probability).

        If several factors have a name, a list with such a list for each factor.
        """
        found = {}
        for f in self._layout.arrays.structures[~self._layout.of_tables[self._layout.arrays.structures]]:
            if (name := self._layout.factor_of(f).name) is not None:
                found.setdefault(name, []).append(structures_of(self._problem, self._solution, f))
        return {name: own[0] if len(own) == 1 else own for name, own in found.items()}

    def vjp(
        self, v: Any, *, method: Literal["cg", "average"] = "cg", tol: float = 1e-12, max_iter: int = 10_000
    ) -> dict[str, Any]:
        """Multiply a vector with the Jacobian of the marginals (reverse mode).

        Parameters
        ----------
        v : array-like or dict, like `marginals`
            Gradient of some loss with respect to the marginals. Arrays that are missing in a dict are zero.
        method : {"cg", "average"}, default="cg"
            Method: conjugate gradients, or the iteration of Niculae and Martins 2020, algorithm 2.
        tol : float, default=1e-12
            Relative tolerance of the method.
        max_iter : int, default=10_000
            Maximum number of iterations of the method.

        Returns
        -------
        gradients : dict
            The gradients ``"scores"``, in the form of the marginals, and ``"additional"``, in the form of the
            additional scores.
        """
        if method not in ("cg", "average"):
            raise ValueError(f"method={method!r} is not one of 'cg', 'average'")
        if not (tol > 0 and max_iter >= 1):
            raise ValueError(f"tol and max_iter must be positive; got {tol!r} and {max_iter!r}")
        v = self._layout.join_variables(v, "v")
        average = method == "average"
        (w,), (joint,) = self._jacobian.products(v[None], average=average, tol=tol, max_iter=max_iter)
        return {"scores": self._layout.shape_variables(w), "additional": self._layout.sum_additional(joint)}

    def jvp(self, scores: Any = None, additional: Mapping[str, Any] | None = None) -> Any:
        """Compute the directional derivative of the marginals (forward mode).

        Parameters
        ----------
        scores : array-like or dict, like `marginals`, default=None
            Direction of the scores. Default: zero.
        additional : dict, default=None
            Directions of the additional scores, by name. Default: zero.

        Returns
        -------
        derivative : like `marginals`
        """
        layout = self._layout
        direction = np.zeros(len(self._u)) if scores is None else layout.join_variables(scores, "scores")
        (w,), _ = self._jacobian.products(direction[None], layout.join_additional(additional or {})[None])
        return layout.shape_variables(w)

    def __repr__(self):
        return (
            f"LPSparseMAPResult(objective={self.objective:.6g}, gap={self.gap:.2g}, residual={self.residual:.2g}, "
            f"n_iter={self.n_iter}, integral={self.integral}, converged={self.converged})"
        )

    def _repr_html_(self):
        names = ("objective", "gap", "residual", "n_iter", "integral", "converged")
        return as_html("LPSparseMAPResult", attributes(self, *names))


def graph_and_pairs(result):
    """Return the factor graph of an `LPSparseMAPResult`, and the scores of its pairs: list; None for other results."""
    if not isinstance(result, LPSparseMAPResult):
        return None
    arrays = result._layout.arrays
    return result._layout.graph, result._problem.additional[0][arrays.additional_ptr[arrays.pairs]].tolist()
