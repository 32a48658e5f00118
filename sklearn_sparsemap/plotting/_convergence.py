"""ConvergenceDisplay: distance of solvers to the optimum, and number of structures, by iteration."""

from __future__ import annotations

import numpy as np

from .._core.annotations import Any, NDArray, Self
from .._core.validation import check_choice
from ._base import Display
from ._style import INK, clean_axes, tick_whole_numbers

_QUANTITIES = {"objective": "distance to the best objective", "gap": "duality gap"}
_FIELDS = ("n_iter", "objective", "gap", "n_structures")
# Each solver has the same style in all plots. Dashes and lightness distinguish the solvers in greyscale.
_LOOKS = {
    "active_set": {"label": "active set", "color": "#d55e00", "linestyle": "-", "lw": 2.6},
    "pairwise": {"label": "pairwise", "color": "#00594c", "linestyle": (0, (5, 1.5)), "lw": 1.8},
    "away_step": {"label": "away-step", "color": "#a676d6", "linestyle": (0, (1.3, 1.1)), "lw": 2.0},
    "cg": {"label": "conditional gradient", "color": "#555555", "linestyle": (0, (6, 1.5, 1.3, 1.5)), "lw": 1.5},
    "facets": {"label": "facets", "color": "#0a6fb8", "linestyle": "-", "lw": 1.8},
    "flow": {"label": "flow", "color": "#0a6fb8", "linestyle": "-", "lw": 1.8},
}


class ConvergenceDisplay(Display):
    """How solvers converge on one problem: distance to the optimum, and number of structures, by iteration.

    Parameters
    ----------
    curves : dict of str -> dict of str -> array-like
        For each solver, by the name in the legend, a dict of four arrays of one length: ``"n_iter"``, increasing
        numbers of iterations, and ``"objective"``, ``"gap"`` and ``"n_structures"`` of its solutions after these.

    Attributes
    ----------
    curves : dict of str -> dict of ndarray
        As above.
    best_objective : float
        The highest objective of all.
    ax_ : ndarray of two Axes
    figure_, legend_
        Axes, figure and legend of the plot.
    lines_ : dict of str -> tuple of two Line2D
        The curves of each solver.

    Raises
    ------
    ValueError
        If there are no curves, or one lacks a field, has fields of several lengths, or steps that do not increase.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_sparsemap import sparsemap
    >>> from sklearn_sparsemap.plotting import ConvergenceDisplay
    >>> from sklearn_sparsemap.structures import LinearChain
    >>> scores, stay = np.random.default_rng(0).normal(size=(6, 3)), np.eye(3)
    >>> results = [sparsemap(LinearChain(), scores, transitions=stay, max_iter=k) for k in range(2, 20)]
    >>> display = ConvergenceDisplay.from_result({"active_set": results})  # doctest: +SKIP
    >>> display.figure_.savefig("convergence.png")  # doctest: +SKIP
    """

    def __init__(self, curves: Any) -> None:
        if not curves:
            raise ValueError("there are no curves to draw")
        self.curves = {}
        for name, curve in curves.items():
            missing = [field for field in _FIELDS if field not in curve]
            if missing:
                raise ValueError(f"curves[{name!r}] lacks {missing[0]!r}; it needs {', '.join(map(repr, _FIELDS))}")
            arrays = {field: np.asarray(curve[field], dtype=np.float64) for field in _FIELDS}
            lengths = {array.shape for array in arrays.values()}
            if len(lengths) > 1 or arrays["n_iter"].ndim != 1 or not len(arrays["n_iter"]):
                raise ValueError(f"the fields of curves[{name!r}] must be of one length, at least 1; got {lengths}")
            if (np.diff(arrays["n_iter"]) < 0).any():
                raise ValueError(f"n_iter of curves[{name!r}] must increase")
            self.curves[name] = arrays
        self.best_objective = max(float(curve["objective"].max()) for curve in self.curves.values())

    @classmethod
    def from_result(cls, results: Any, *, quantity: str = "objective", ax: Any = None) -> Self:
        """Draw the curves of solutions of one problem.

        Parameters
        ----------
        results : dict of str -> list of SparseMAPResult
            For each solver, by the name in the legend, its solutions of the same problem with increasing `max_iter`,
            such as ``{"cg": [sparsemap(structure, scores, solver="cg", max_iter=k) for k in (2, 4, 8, 16)]}``. Of
            solutions with equal `n_iter` (after convergence) the first counts. A solver whose intermediate results are
            no mixtures of structures, ``"facets"`` or ``"flow"``, has one solution, which is a point.
        quantity, ax
            As in `plot`.

        Returns
        -------
        display : ConvergenceDisplay

        Raises
        ------
        ValueError
            If there are no results, or `ax` is given and is not one or two axes.
        """
        curves = {}
        for name, solved in results.items():
            n_iter, first = np.unique([result.n_iter for result in solved], return_index=True)
            kept = [solved[i] for i in first]
            curves[name] = {
                "n_iter": n_iter,
                "objective": [result.objective for result in kept],
                "gap": [result.gap for result in kept],
                "n_structures": [len(result.weights) for result in kept],
            }
        return cls(curves).plot(ax=ax, quantity=quantity)

    def distance(self, solver: str, quantity: str = "objective") -> NDArray[np.float64]:
        """Return how far a solver's solutions are from the optimum.

        Parameters
        ----------
        solver : str
        quantity : {"objective", "gap"}, default="objective"

        Returns
        -------
        distance : ndarray
            In the order of ``curves[solver]["n_iter"]``.
        """
        check_choice("quantity", quantity, _QUANTITIES)
        curve = self.curves[solver]
        return self.best_objective - curve["objective"] if quantity == "objective" else curve["gap"]

    def plot(self, ax: Any = None, *, quantity: str = "objective") -> Self:
        """Draw the curves: the distance to the optimum on the left, the number of structures on the right.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of two Axes, default=None
            Axes for the distance and for the number of structures, or one that is divided. By default, a new figure.
        quantity : {"objective", "gap"}, default="objective"
            The distance: the best objective of all solvers minus the objective, or the duality gap of each solution.

        Returns
        -------
        display : ConvergenceDisplay

        Raises
        ------
        ValueError
            If `ax` is given and is not one or two axes.
        """
        check_choice("quantity", quantity, _QUANTITIES)
        axes = self._start_panels(ax, (8.4, 3.4), 2, 2)
        self.lines_ = {}
        # Distances below this are rounding errors.
        floor = 1e-14 * max(1.0, abs(self.best_objective))
        spare = [look for name, look in _LOOKS.items() if name not in self.curves] or list(_LOOKS.values())
        for place, (name, curve) in enumerate(self.curves.items()):
            look = _LOOKS.get(name, {**spare[place % len(spare)], "label": name})
            distance = np.maximum(self.distance(name, quantity), floor)
            # A curve ends when it reaches the floor.
            n_points = np.argmin(distance) + 1 if distance.min() == floor else len(distance)
            style = {**look, "zorder": 4 - 0.1 * place, "solid_capstyle": "round"}
            if len(distance) == 1:
                style.update(marker="D", ms=6, linestyle="none", zorder=6)
            left = axes[0].plot(curve["n_iter"][:n_points], distance[:n_points], **style)[0]
            right = axes[1].plot(curve["n_iter"], curve["n_structures"], **style)[0]
            if len(distance) > 1:
                # Mark the last iteration of the solver.
                axes[1].plot(curve["n_iter"][-1], curve["n_structures"][-1], "o", color=look["color"], ms=5, zorder=5)
            self.lines_[name] = left, right
        axes[0].set(xscale="log", yscale="log", ylabel=_QUANTITIES[quantity])
        axes[1].set(xscale="log", yscale="log", ylabel="number of structures")
        for each in axes:
            each.set_xlabel("iteration")
            clean_axes(each)
            tick_whole_numbers(each.xaxis)
        tick_whole_numbers(axes[1].yaxis)
        # The numbers of structures grow with the iterations, so this corner is free.
        self.legend_ = axes[1].legend(loc="upper left", frameon=False, fontsize=9, labelcolor=INK, handlelength=3)
        return self
