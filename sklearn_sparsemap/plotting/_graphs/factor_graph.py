"""FactorGraphDisplay: variables as circles, and the factors that join them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._core.annotations import Any, Self, Sequence
from ..._core.unwrap import single_sample, transformed_sample
from ..._core.validation import check_choice, check_numbers, quoted
from .._base import Drawing, check_names, unwrap_fitted
from .._style import ATTRACTS, INK, MUTED, REPELS, SHADES, as_text, import_library, text_width, write
from .heat_map import HeatMap
from .layout import FONT, SMALL, Box, GraphLayout

if TYPE_CHECKING:
    from ...factors import FactorGraph

MAX_VARIABLES, MAX_FACTORS = 200, 400
_LAYOUTS = ("auto", "grid", "distance", "heatmap")
_MARGIN, _NARROWEST = 8.0, 80.0  # points
_LARGEST = 18.0, 14.0  # inches
_DOT = 2.6
_NO_SCORE = {"color": INK, "linestyle": "-"}


class FactorGraphDisplay(Drawing):
    """A small factor graph: a circle for each variable, a box for each factor, and lines between them.

    With marginals, a circle is shaded by the marginal of its variable; it is empty if the marginal is zero (below
    1e-9). An open dot at the end of a line marks a negated variable. An arrow marks the output of a factor (the last
    variable of `Imply`, `OrOut`, `XorOut` and `AndOut`). A `Pair` is a line between two circles. With scores, its width
    shows their magnitude; positive scores are blue, negative ones dashed orange. A structure over a whole array of
    variables is a frame around it. A categorical variable is one circle, with its most probable value, and shaded by
    the marginal of that value; a `PairTable` is a line between two of these.

    Parameters
    ----------
    graph : FactorGraph or LPSparseMAPResult
        At most 200 variables and 400 factors, each pair counted separately; a categorical variable counts once.
    marginals : array-like or dict of str -> array-like, default=None
        Marginals of the variables, in the form of a result's marginals. Not needed if `graph` is a result.
    additional : dict, default=None
        Additional scores by the names of factors, as in `lp_sparsemap`; scores of pairs are drawn.
    names : sequence of str, default=None
        Names of the variables in their order in the graph, one for each circle. Default: names such as ``u[0, 1]``.
    axis_names : dict of str -> sequence of sequences of str, default=None
        For heat maps, the names along each axis of arrays of variables; for a single array also without the dict. By
        default, numbers from 0.

    Attributes
    ----------
    graph : FactorGraph
    marginals : ndarray of shape (n_variables,) or None
    pair_scores : list of float or None
        The score of each pair.
    names, axis_names
        As above.
    circles_ : list of Circle
        After `plot`: one for each variable.
    boxes_ : list of patches
        One for each factor except `Pair`.
    frames_ : dict of int -> Rectangle
        Frames by the place of their box.
    lines_ : list of lists of Line2D
        For each box the lines to its variables; none if it has a frame.
    pairs_ : list of Line2D
        One for each pair.
    tables_ : list of Line2D
        One for each pair of a `PairTable`.
    images_ : list of AxesImage
        One for each array of variables, after `plot` as a heat map.
    ax_, figure_, legend_
        Axes, figure and legend of the plot; no legend if there is nothing to explain. Heat maps of several arrays have
        an ndarray of Axes.

    Raises
    ------
    ValueError
        If `graph` is neither a graph nor a result, has no variables, or marginals or names do not match its variables.

    Examples
    --------
    >>> from sklearn_sparsemap import lp_sparsemap
    >>> from sklearn_sparsemap.factors import FactorGraph, Imply, Xor
    >>> from sklearn_sparsemap.plotting import FactorGraphDisplay
    >>> graph = FactorGraph()
    >>> u = graph.variables(3)
    >>> graph.add(Xor(u[:2]), Imply([u[0], ~u[2]]))
    >>> display = FactorGraphDisplay(lp_sparsemap(graph, [1.0, 0.25, 0.5]))
    >>> display.names, display.marginals.round(2).tolist()
    (['u[0]', 'u[1]', 'u[2]'], [0.75, 0.25, 0.25])
    >>> display.plot().figure_.savefig("graph.png")  # doctest: +SKIP
    """

    def __init__(
        self,
        graph: FactorGraph,
        marginals: Any = None,
        *,
        additional: Any = None,
        names: Sequence[Any] | None = None,
        axis_names: Any = None,
    ) -> None:
        pair_scores = None
        # Graphs and results have loaded this module before.
        from ...inference._results.graph import graph_and_pairs

        of_result = graph_and_pairs(graph)
        if of_result is not None:
            if marginals is not None or additional is not None:
                raise ValueError("a result brings its own marginals and scores; pass the result alone")
            marginals = graph.marginals
            graph, pair_scores = of_result
        elif not (hasattr(graph, "factors") and hasattr(graph, "n_variables")):
            raise ValueError(
                "graph must be a FactorGraph, or the result of lp_sparsemap for one sample, such as results[0]; got "
                f"{quoted(graph)}"
            )
        if graph.n_variables == 0:
            raise ValueError("the graph has no variables to draw")
        self._pairs, self._tables, self._boxed = _split_factors(graph)
        self._circles = _number_circles(graph)
        self.graph = graph
        self.marginals = None if marginals is None else _join_marginals(graph, marginals)
        self.pair_scores = _join_pairs(self._pairs, additional or {}) if pair_scores is None else pair_scores
        self.names = check_names("names", names, sum(map(np.size, self._circles)))
        is_short = self.names is None and len(graph.names) == 1
        self.names = self.names or _default_names(graph.names, self._circles)
        # The texts of circles: without the name of the array, if there is only one.
        self._texts = [name.partition("[")[2][:-1] or name for name in self.names] if is_short else self.names
        self.axis_names = _names_by_array(graph, axis_names)

    @classmethod
    def from_result(
        cls, result: Any, *, names: Any = None, axis_names: Any = None, ax: Any = None, layout: str = "auto"
    ) -> Self:
        """Draw a graph with the marginals of `lp_sparsemap`.

        Parameters
        ----------
        result : LPSparseMAPResult
        names, axis_names
            As for the class.
        ax, layout
            As for `plot`.

        Returns
        -------
        display : FactorGraphDisplay
            With `ax_` and `figure_`.
        """
        return cls(result, names=names, axis_names=axis_names).plot(ax=ax, layout=layout)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        *,
        names: Any = None,
        axis_names: Any = None,
        ax: Any = None,
        layout: str = "auto",
    ) -> Self:
        """Draw the graph of a sample with the marginals that a fitted estimator predicts, and learned scores of pairs.

        Parameters
        ----------
        estimator : StructuredSparseMAPClassifier
            Fitted, with a `FactorGraph` or a function to one as `structure`; or a pipeline or a search around it.
        x : array-like, CSR, tuple or dict
            One sample: an element of the list that ``predict`` takes.
        names, axis_names
            As for the class.
        ax, layout
            As for `plot`.

        Returns
        -------
        display : FactorGraphDisplay
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the estimator's structures are no factor graphs, or the sample does not fit it.
        """
        # Only figures of estimators need kernels.
        from ...estimators._face import face_of

        steps, last = unwrap_fitted(estimator, "structure", "predict_marginals")
        face = face_of(last)
        with single_sample(estimator, x):
            X = transformed_sample(steps, last, x, face is not None and face.takes_rows)
            (marginals,) = last.predict_marginals(X)
            graphs = None if face is None else face.problems(X, "map").task.graphs
        if graphs is None:
            raise ValueError(
                f"the structures of the estimator are no factor graphs; its structure is {last.structure!r}"
            )
        (graph,) = graphs
        learned = last.additional_scores_
        display = cls(graph, marginals, additional=learned, names=names, axis_names=axis_names)
        return display.plot(ax=ax, layout=layout)

    def plot(self, ax: Any = None, *, layout: str = "auto") -> Self:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, or sequence of Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In smaller axes everything is scaled down. For
            heat maps one for each array of variables, or one that is divided.
        layout : {"auto", "grid", "distance", "heatmap"}, default="auto"
            - ``"grid"``: arrays of variables keep their shape. Factors over variables of one row or column are at
              its end.
            - ``"distance"``: neighbours in the graph are near each other.
            - ``"auto"``: grid if an array has two axes or more, else distance.
            - ``"heatmap"``: no factors; the cells of each array, shaded by their marginals. The first axes are
              down, the others across, so that the picture is about twice as wide as high.

        Returns
        -------
        display : FactorGraphDisplay

        Raises
        ------
        ValueError
            If a heat map has no marginals, or another layout more than 200 variables or 400 factors (each pair counted
            separately, a categorical variable once).
        """
        check_choice("layout", layout, _LAYOUTS)
        self.circles_, self.boxes_, self.frames_, self.lines_ = [], [], {}, []
        self.pairs_, self.tables_, self.images_ = [], [], []
        if layout == "heatmap":
            return self._draw_heat_maps(ax)
        self._check_size()
        circle_of = self._circle_of()
        boxes = [Box(circle_of[factor.literals.indices], _label(factor), factor) for factor in self._boxed]
        pairs = [circle_of[factor.literals.indices].reshape(-1, 2) for factor in self._pairs]
        n_pairs = sum(map(len, pairs))
        for factor in self._tables:
            ends = [side.indices.reshape(factor.count, -1)[:, 0] for side in (factor.first, factor.second)]
            pairs.append(circle_of[np.column_stack(ends)])
        pairs = [ends for array in pairs for ends in array.tolist()]
        is_grid = any(min(array.shape[-2:]) > 1 for array in self._circles if array.ndim > 1)
        grid = is_grid if layout == "auto" else layout == "grid"
        drawing = GraphLayout(self._circles, boxes, pairs, self._texts, grid=grid)
        low, high = drawing.low - _MARGIN, drawing.high + _MARGIN
        spare = np.array([max(_NARROWEST - (high - low)[0], 0.0) / 2, 0.0])
        scale = self._start_drawing(ax, low - spare, high + spare, self._entries(), most=_LARGEST)
        for i, (name, center) in enumerate(zip(self._texts, drawing.centers)):
            own = None if self.marginals is None else self.marginals[circle_of == i]
            self.circles_.append(self._draw_circle(name, own, center, drawing.radius, scale))
        for box in boxes:
            self._draw_box(box, scale)
        self._draw_pairs(drawing.pair_routes[:n_pairs], scale)
        for route in drawing.pair_routes[n_pairs:]:
            self.tables_ += self.ax_.plot(*route.T, lw=1.4 * scale, zorder=2.5, **_NO_SCORE)
        return self

    def _check_size(self):
        n_factors = len(self._boxed) + sum(factor.count for factor in [*self._pairs, *self._tables])
        n_circles = len(self.names)
        if n_circles > MAX_VARIABLES or n_factors > MAX_FACTORS:
            raise ValueError(
                f"the graph has {n_circles} variables and {n_factors} factors; a picture of more than "
                f'{MAX_VARIABLES} and {MAX_FACTORS} cannot be read. Draw its marginals with layout="heatmap", or a '
                "smaller graph of its kind"
            )

    def _draw_heat_maps(self, ax):
        """Draw the marginals of each array of variables below each other."""
        if self.marginals is None:
            raise ValueError("a heat map shows marginals; pass them, or the result of lp_sparsemap")
        maps, start = [], 0
        for name, shape in self.graph.shapes.items():
            stop = start + int(np.prod(shape))
            maps.append(HeatMap(name, self.marginals[start:stop].reshape(shape), self.axis_names.get(name)))
            start = stop
        widths, heights = zip(*(each.size for each in maps))
        size = np.clip((max(widths), sum(heights)), (3.0, 1.6), (16.0, 30.0))
        axes = [self._start(ax, size)] if len(maps) == 1 else None
        if axes is None:
            axes = self._start_panels(ax, size, len(maps), height_ratios=[len(each.cells) for each in maps])
        self.images_ = [each.draw(panel, len(maps) > 1) for each, panel in zip(maps, axes)]
        self.legend_ = None
        return self

    def _circle_of(self):
        """Return the number of the circle of each variable of the graph."""
        n_states = [self.graph.n_states.get(name, 1) for name in self.graph.names]
        return np.concatenate([np.repeat(own, n) for own, n in zip(self._circles, n_states)])

    def _draw_circle(self, name, marginals, center, radius, scale):
        """Draw a circle: its name, its most probable value if it has several, and its marginal unless that is zero.

        `marginals` are those of its values, or None. Lengths are in points at full size; `scale` is the scale of texts
        and line widths.
        """
        Circle = import_library("matplotlib.patches").Circle

        lines, color, face = [name], INK, "white"
        if marginals is not None and len(marginals) > 1:
            lines.append(f"= {marginals.argmax()}")
        size = FONT * min(1.0, 1.85 * radius / max(max(text_width(line, FONT) for line in lines), 1.0))
        sizes = [size] * len(lines)
        if marginals is not None and marginals.max() > 0.0:
            # The shades of the cells of other displays.
            shade = (marginals.max() - SHADES["vmin"]) / (SHADES["vmax"] - SHADES["vmin"])
            face = import_library("matplotlib.pyplot").get_cmap(SHADES["cmap"])(shade)
            lines.append(as_text(marginals.max()))
            sizes.append(SMALL)
        elif marginals is not None:
            color = MUTED
        circle = Circle(center, radius, facecolor=face, edgecolor=color, lw=0.9 * scale, zorder=4)
        for k, (line, size) in enumerate(zip(lines, sizes)):
            y = center[1] + ((len(lines) - 1) / 2 - k) * 1.12 * FONT
            write(self.ax_, (center[0], y), line, size * scale, color=color, va="center_baseline", zorder=5)
        return self.ax_.add_patch(circle)

    def _draw_box(self, box, scale):
        """Draw a factor: its box, and its frame or its lines."""
        Rectangle = import_library("matplotlib.patches").Rectangle

        if box.frame is not None:
            extent = box.frame[1] - box.frame[0]
            frame = Rectangle(box.frame[0], *extent, fill=False, edgecolor=MUTED, lw=1.1 * scale, zorder=1.5)
            self.frames_[len(self.boxes_)] = self.ax_.add_patch(frame)
        patch = Rectangle(box.corners[0], *box.size, facecolor="#f3f3f3", edgecolor=INK, lw=0.8 * scale, zorder=5)
        self.boxes_.append(self.ax_.add_patch(patch))
        write(self.ax_, box.center, box.label, SMALL * scale, va="center_baseline", zorder=6)
        lines = []
        for place, (route, negated) in enumerate(zip(box.routes, box.factor.literals.negated.tolist())):
            is_output = _has_output(box.factor) and place == len(box.routes) - 1
            lines += self.ax_.plot(*route.T, color=INK, lw=0.9 * scale, zorder=2, solid_joinstyle="round")
            self._mark_end(route, negated, is_output, scale)
        self.lines_.append(lines)

    def _mark_end(self, route, negated, is_output, scale):
        """Mark the end of a line: an open dot at a negated variable, an arrow at an output, before the dot."""
        Circle = import_library("matplotlib.patches").Circle
        Polygon = import_library("matplotlib.patches").Polygon

        direction = route[-1] - route[-2]
        direction = direction / max(np.linalg.norm(direction), 1e-9)
        tip = route[-1]
        if negated:
            dot = Circle(tip - _DOT * direction, _DOT, facecolor="white", edgecolor=INK, lw=0.9 * scale, zorder=4.5)
            self.ax_.add_patch(dot)
            tip = tip - 2 * _DOT * direction
        if is_output:
            normal = np.array([-direction[1], direction[0]])
            base = tip - 6.0 * direction
            self.ax_.add_patch(
                Polygon([tip, base + 2.8 * normal, base - 2.8 * normal], facecolor=INK, edgecolor="none", zorder=4.5)
            )

    def _draw_pairs(self, routes, scale):
        negated = [both for factor in self._pairs for both in factor.literals.negated.reshape(-1, 2).tolist()]
        # Many pairs are drawn with thinner lines.
        thin = min(1.0, (60 / max(len(routes), 1)) ** 0.5)
        largest = max((abs(score) for score in self.pair_scores or []), default=0.0) or 1.0
        for e, (route, (first, second)) in enumerate(zip(routes, negated)):
            style, lw = _NO_SCORE, 1.4
            if self.pair_scores is not None:
                style = ATTRACTS if self.pair_scores[e] >= 0 else REPELS
                lw = 0.8 + 2.6 * abs(self.pair_scores[e]) / largest
            self.pairs_ += self.ax_.plot(*route.T, lw=lw * thin * scale, zorder=2.5, dash_capstyle="butt", **style)
            self._mark_end(route[::-1], first, False, scale)
            self._mark_end(route, second, False, scale)

    def _entries(self):
        """Return the entries of the legend: list of (label, style of a line)."""
        entries = []
        scores = self.pair_scores or []
        if any(score >= 0 for score in scores):
            entries.append(("attract", {**ATTRACTS, "lw": 2.4}))
        if any(score < 0 for score in scores):
            entries.append(("repel", {**REPELS, "lw": 2.4}))
        mark = {"color": INK, "lw": 0.9, "mec": INK, "markersize": 5.0, "markevery": [1]}
        if any(factor.literals.negated.any() for factor in [*self._boxed, *self._pairs]):
            entries.append(("negated", {**mark, "marker": "o", "mfc": "white"}))
        if any(map(_has_output, self._boxed)):
            entries.append(("output", {**mark, "marker": ">", "mfc": INK}))
        return entries


def _split_factors(graph):
    """Return the factors that are drawn as lines, pairs and tables of pairs, and those that have a box."""
    pairs = [factor for factor in graph.factors if hasattr(factor, "n_pairs")]
    tables = [factor for factor in graph.factors if hasattr(factor, "pairs_shape")]
    # ExactlyOne is not drawn: a circle shows the categorical variable.
    boxed = [f for f in graph.factors if not (hasattr(f, "n_pairs") or hasattr(f, "n_states"))]
    return pairs, tables, boxed


def _number_circles(graph):
    """Return the numbers of the circles for each array of variables, in its shape without the axis of values."""
    circles, start = [], 0
    for name, shape in graph.shapes.items():
        own = shape[:-1] if name in graph.n_states else shape
        circles.append(np.arange(start, start + int(np.prod(own))).reshape(own))
        start += circles[-1].size
    return circles


def _default_names(names, circles):
    """Return names such as ``u[0, 1]``, one for each circle."""
    places = [(name, place) for name, own in zip(names, circles) for place in np.ndindex(own.shape)]
    return [f"{name}[{', '.join(map(str, place))}]" if place else name for name, place in places]


def _names_by_array(graph, axis_names):
    """Return the names along the axes of arrays of variables, by the name of the array."""
    if axis_names is None:
        return {}
    if not isinstance(axis_names, dict):
        if len(graph.shapes) > 1:
            raise ValueError(f"axis_names must be a dict with names for some of {list(graph.shapes)}")
        return {next(iter(graph.shapes)): axis_names}
    unknown = [name for name in axis_names if name not in graph.shapes]
    if unknown:
        raise ValueError(f"axis_names has {unknown[0]!r}; the graph has {list(graph.shapes)}")
    return axis_names


def _has_output(factor):
    # By the names of the classes in `factors`, as far as their last variable is an output.
    return type(factor).__name__ in ("Implies", "OrOut", "XorOut", "AndOut")


def _label(factor):
    if hasattr(factor, "structure"):
        return type(factor.structure).__name__
    bound = getattr(factor, "k", getattr(factor, "budget", None))
    return type(factor).__name__ + ("" if bound is None else f" {bound:g}")


def _join_marginals(graph, marginals):
    """Return marginals, in the form of a result's marginals, as one flat array."""
    shapes = graph.shapes
    if not isinstance(marginals, dict):
        if len(shapes) > 1:
            raise ValueError(f"marginals must be a dict with one array for each of {list(shapes)}")
        marginals = {next(iter(shapes)): marginals}
    flat = []
    for name, shape in shapes.items():
        if name not in marginals:
            raise ValueError(f"marginals has no array named {name!r}; it needs {list(shapes)}")
        array = check_numbers(marginals[name], f"marginals of {name!r}")
        if array.shape != shape:
            raise ValueError(f"marginals of {name!r} have shape {array.shape}; the graph's variables have {shape}")
        flat.append(array.ravel())
    flat = np.concatenate(flat)
    if not ((flat >= -1e-6) & (flat <= 1 + 1e-6)).all():
        raise ValueError(f"marginals are from 0 to 1; got {flat.min():g} to {flat.max():g}")
    # A converged solver can return such values in place of zero.
    return np.where(flat < 1e-9, 0.0, flat.clip(0.0, 1.0))


def _join_pairs(pairs, additional):
    """Return the score of each pair; None unless all pairs have one."""
    if not all(factor.name in additional for factor in pairs):
        return None
    scores = []
    for factor in pairs:
        own = np.asarray(additional[factor.name], dtype=np.float64)
        if own.shape not in (factor.shape, ()):
            raise ValueError(
                f"additional[{factor.name!r}] has shape {own.shape}; there must be {factor.shape} pair scores"
            )
        scores += np.broadcast_to(own, factor.shape).ravel().tolist()
    return scores
