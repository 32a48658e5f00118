"""LabelGraphDisplay: the strongest pairs of a label graph."""

from __future__ import annotations

from collections.abc import Sized
from typing import Literal

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from ..._core.validation import check_choice, check_positive
from .._base import Drawing, unwrap_fitted
from .._style import ATTRACTS, INK, REPELS, import_library, size_in_points, text_width, write

MAX_LABELS = 200
_SIGNS = (None, "attraction", "repulsion")
_FONT, _MARGIN, _GAP, _DOT = 10.0, 8.0, 5.0, 2.6
_ROW = 1.35 * _FONT  # points; the least distance of names on one side
_WIDEST = 2.0  # factor by which a ring grows at most in large axes
_BELOW = 24.0  # points for the legend
_MIN_ROWS, _MAX_ROWS_ACROSS = 12.0, 34.0  # rows of text; the least height of a ring, and its largest width
_THINNEST, _THICKEST, _IN_LEGEND = 0.8, 4.4, 2.4


class LabelGraphDisplay(Drawing):
    """The strongest edges of a label graph: attractions and repulsions between labels.

    The labels of these edges are on a ring, with labels of strong edges near each other. Attractions are blue,
    repulsions are dashed and orange. Stronger edges are wider. Labels without a strong edge are not drawn.

    Parameters
    ----------
    labels : sequence of length n_labels
        Names of all labels.
    edges : array-like of shape (n_edges, 2)
        Indices of the two labels of each edge, from 0.
    scores : array-like of shape (n_edges,)
        Positive if labels attract each other, negative if they repel.

    Attributes
    ----------
    labels : list of str
    edges : int ndarray of shape (n_edges, 2)
    scores : ndarray of shape (n_edges,)
        As above, the strongest edge first, without edges of score zero.
    shown_labels_ : int ndarray of shape (n_shown,)
        After `plot`: the labels that are drawn, clockwise from the top.
    texts_ : list of Text
        Their names, in this order.
    shown_edges_ : int ndarray of shape (n_shown_edges,)
        The edges that are drawn: their places in `edges`.
    lines_ : list of Line2D
        One for each of these.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If there are no edges with a score other than zero, or the arrays are not as described.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import LabelGraphDisplay
    >>> display = LabelGraphDisplay(["jazz", "rock", "live"], [[0, 1], [1, 2]], [-0.5, 1.25])
    >>> display.edges.tolist(), display.scores.tolist()
    ([[1, 2], [0, 1]], [1.25, -0.5])
    >>> display.plot().figure_.savefig("labels.png")  # doctest: +SKIP
    """

    def __init__(self, labels: Sequence[Any], edges: ArrayLike, scores: ArrayLike) -> None:
        if isinstance(labels, str) or not isinstance(labels, Sized):
            raise ValueError(f"labels must be the names of all labels; got {labels!r}")
        self.labels = [str(label) for label in labels]
        edges, scores = _check_edges(edges, scores, len(self.labels))
        order = np.argsort(-np.abs(scores), kind="stable")
        order = order[scores[order] != 0.0]
        if not len(order):
            what = "all scores are zero" if len(scores) else "the label graph has no edges"
            raise ValueError(f"{what}; there is nothing to draw")
        self.edges, self.scores = edges[order], scores[order]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_edges: int = 20,
        min_strength: float = 0.05,
        sign: Literal["attraction", "repulsion"] | None = None,
        order: Sequence[Any] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the strongest edges that an estimator has learned.

        Parameters
        ----------
        estimator : MultilabelLPSparseMAP
            Fitted, with a label graph; or a pipeline or a search around it. (Any object with ``classes_``, ``edges_``
            and ``edge_scores_``.)
        n_edges, min_strength, sign, order, ax
            As for `plot`.

        Returns
        -------
        display : LabelGraphDisplay
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the estimator has no such attributes, or learned no edges: with ``loss="logistic"``,
            ``label_graph=None``, or one label a sample.
        """
        _, estimator = unwrap_fitted(estimator, "classes_", "edges_", "edge_scores_")
        if not len(estimator.edges_):
            raise ValueError(
                'the estimator has learned no edges: it was fitted with loss="logistic", label_graph=None, or one '
                'label a sample; fit it with label_graph="full" and loss="sparsemap"'
            )
        display = cls(np.asarray(estimator.classes_).tolist(), estimator.edges_, estimator.edge_scores_)
        return display.plot(ax=ax, n_edges=n_edges, min_strength=min_strength, sign=sign, order=order)

    def plot(
        self,
        ax: Any = None,
        *,
        n_edges: int = 20,
        min_strength: float = 0.05,
        sign: Literal["attraction", "repulsion"] | None = None,
        order: Sequence[Any] | None = None,
    ) -> Self:
        """Draw the strongest edges, and the labels that they join.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In smaller axes everything is scaled down.
        n_edges : int, default=20
            Maximum number of edges; the strongest ones are drawn.
        min_strength : float, default=0.05
            Edges weaker than this fraction of the strongest one are left out; the legend counts them.
        sign : {"attraction", "repulsion"}, default=None
            The kind of edges. By default, both.
        order : sequence of labels, default=None
            The labels clockwise from the top, so that several plots have the same positions. All of these labels are
            drawn, even without a strong edge. By default, labels of strong edges are near each other.

        Returns
        -------
        display : LabelGraphDisplay

        Raises
        ------
        ValueError
            If no edge has the sign, the edges join more than 200 labels, `order` lacks one of these or names one twice,
            or `min_strength` is not from 0 to 1.
        """
        shown, n_weak = self._strongest(n_edges, min_strength, sign)
        used, joined = np.unique(self.edges[shown], return_inverse=True)
        if order is not None:
            used = self._given_order(order, used)
        if len(used) > MAX_LABELS:
            raise ValueError(
                f"the {len(shown)} strongest edges join {len(used)} labels; a picture of more than {MAX_LABELS} "
                "cannot be read. Lower n_edges"
            )
        if order is None:
            used = used[order_by_strength(len(used), joined.reshape(-1, 2), np.abs(self.scores[shown]))]
        self.shown_edges_, self.shown_labels_ = shown, used
        names = [self.labels[i] for i in self.shown_labels_]
        places, sides = _ring(len(used))
        widths = sides * [text_width(name, _FONT) + _GAP + _DOT + _MARGIN for name in names]
        above = np.array([0.0, _FONT + _MARGIN])
        if ax is not None:
            # The ring is stretched to the available space, horizontally and vertically.
            available = size_in_points(ax)
            across = (available[0] - widths.max(initial=0.0) + widths.min(initial=0.0)) / np.ptp(places[:, 0])
            down = (available[1] - 2 * above[1] - _BELOW) / max(np.ptp(places[:, 1]), 1.0)
            across = np.clip(across, 1.0, _WIDEST)
            places *= across, np.clip(down, 1.0, min(_WIDEST, 1.4 * across))
        ends = np.concatenate([places, places + np.column_stack([widths, np.zeros(len(used))])])
        entries = self._entries(self.scores[shown])
        if n_weak:
            entries.append((f"{n_weak} below {100 * min_strength:g} % of the largest not drawn", {"lw": 0.0}))
        scale = self._start_drawing(ax, ends.min(axis=0) - above, ends.max(axis=0) + above, entries)
        ax = self.ax_
        self._draw_edges(shown, dict(zip(used.tolist(), places)), scale)
        self.texts_ = []
        ax.plot(*places.T, "o", ms=2 * _DOT * scale, mfc=INK, mec="white", mew=0.6 * scale, zorder=4)
        for name, place, side in zip(names, places, sides):
            style = {"ha": "left" if side > 0 else "right", "va": "center_baseline", "zorder": 5}
            start = place[0] + (_GAP + _DOT) * side, place[1]
            self.texts_.append(write(ax, start, name, _FONT * scale, **style))
        return self

    def _strongest(self, n_edges, min_strength, sign):
        """Return the edges that are drawn, and the number of edges that are left out because they are weak."""
        check_positive("n_edges", n_edges, integer=True)
        check_positive("min_strength", min_strength, zero=True)
        if min_strength > 1.0:
            raise ValueError(f"min_strength must be a fraction from 0 to 1; got {min_strength!r}")
        check_choice("sign", sign, _SIGNS)
        wanted = {"attraction": self.scores > 0, "repulsion": self.scores < 0}.get(sign, self.scores != 0)
        shown = np.flatnonzero(wanted)[:n_edges]
        if not len(shown):
            raise ValueError(f"the label graph has no {sign}; draw it with sign=None")
        is_weak = np.abs(self.scores[shown]) < min_strength * np.abs(self.scores[shown[0]])
        return shown[~is_weak], int(is_weak.sum())

    def _draw_edges(self, shown, positions, scale):
        """Draw edges between the places of their labels, the strongest on top."""
        self.lines_ = []
        largest = np.abs(self.scores[shown]).max()
        # Many edges are drawn with thinner lines.
        thin = min(1.0, (40 / len(shown)) ** 0.5)
        for rank, edge in enumerate(shown):
            path = _curve(*(positions[label] for label in self.edges[edge].tolist()))
            score = self.scores[edge]
            lw = (_THINNEST + (_THICKEST - _THINNEST) * abs(score) / largest) * thin * scale
            look = ATTRACTS if score > 0 else {**REPELS, "linestyle": _dashes(lw)}
            caps = {"dash_capstyle": "butt", "solid_capstyle": "butt"}
            self.lines_ += self.ax_.plot(*path.T, lw=lw, zorder=3.0 - rank / len(shown), **caps, **look)

    def _given_order(self, order, used):
        """Return the numbers of the labels of an order, which must have those that edges join."""
        names = [str(label) for label in order]
        if not set(names) <= set(self.labels) or len(set(names)) < len(names):
            raise ValueError(f"order must name labels, each once; got {list(order)!r}")
        lacking = sorted({self.labels[i] for i in used} - set(names))
        if lacking:
            raise ValueError(f"order lacks {lacking[0]!r}, which a strong edge joins; name it, too, or lower n_edges")
        return np.array([self.labels.index(name) for name in names])

    def _entries(self, scores):
        """Return the entries of the legend: list of (label, style of a line)."""
        entries = []
        for what, style, some in (
            ("attract", ATTRACTS, scores[scores > 0]),
            ("repel", {**REPELS, "linestyle": _dashes(_IN_LEGEND)}, scores[scores < 0]),
        ):
            if len(some):
                weakest = f"{some[np.abs(some).argmin()]:.2g}"
                strongest = f"{some[np.abs(some).argmax()]:.2g}"
                text = weakest if weakest == strongest else f"{weakest} to {strongest}"
                text = text.replace("-", "\N{MINUS SIGN}")
                entries.append((f"{what} ({text})", {**style, "lw": _IN_LEGEND}))
        return entries


def order_by_strength(n, edges, strengths):
    """Order labels around a ring such that labels of strong edges are near each other. The order is deterministic.

    Connected components are adjacent, the largest first.
    """
    networkx = import_library("networkx")
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(zip(*edges.T.tolist(), (strengths / strengths.max()).tolist()))
    if networkx.is_connected(graph):
        places = networkx.spectral_layout(graph)
        return np.array(sorted(graph, key=lambda label: np.arctan2(*places[label])))
    groups = sorted(networkx.connected_components(graph), key=lambda group: (-len(group), min(group)))
    parts = [graph.subgraph(sorted(group)) for group in groups]
    ordered = [list(part) if len(part) < 3 else networkx.spectral_ordering(part, seed=0) for part in parts]
    return np.concatenate(ordered).astype(int)


def _ring(n):
    """Return the places of labels around a ring, clockwise from the top, and their sides: 1 right, -1 left.

    Each name on one side has a separate row. So names, which are written outwards, do not overlap, and edges, which are
    inside, do not cross a name.
    """
    n_right = (n + 1) // 2
    sides = np.where(np.arange(n) < n_right, 1.0, -1.0)
    height = max(n_right, _MIN_ROWS) * _ROW
    # A circle, or for very many labels an oval, which is no wider than a page.
    width = min(height, _MAX_ROWS_ACROSS * _ROW)
    down = [(np.arange(n_side) + 0.5) / max(n_side, 1) for n_side in (n_right, n - n_right)]
    y = np.concatenate([1.0 - 2.0 * down[0], 2.0 * down[1] - 1.0])
    x = np.sqrt(1.0 - y**2) * sides
    return np.column_stack([0.5 * width * x, 0.5 * height * y]), sides


def _curve(a, b):
    """Return the course of an edge, bent towards the middle of the ring: array of shape (n_points, 2)."""
    t = np.linspace(0.0, 1.0, 40)[:, None]
    middle = (a + b) / 2
    length = np.linalg.norm(a - b)
    # An edge between neighbours is a separate small arc, and does not reach the crowded middle.
    apart = max(np.linalg.norm(middle), 1e-9)
    control = middle * (1.0 - min(0.6, 0.9 * length / apart))
    return (1 - t) ** 2 * a + 2 * t * (1 - t) * control + t**2 * b


def _dashes(lw):
    """Return dashes, in units of the line width, that are visible in thin lines and in short thick ones."""
    dash = max(1.8, 4.0 / lw)
    return 0, (dash, 0.5 * dash)


def _check_edges(edges, scores, n_labels):
    """Return edges and scores as arrays, after checking them."""
    edges = np.asarray(edges)
    scores = np.asarray(scores, dtype=np.float64)
    if edges.size == 0:
        edges = edges.reshape(0, 2).astype(np.int64)
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.dtype.kind not in "iu":
        raise ValueError(
            f"edges must be an int array of shape (n_edges, 2), the indices of two labels each; got {edges.dtype} of "
            f"shape {edges.shape}"
        )
    if scores.shape != (len(edges),):
        raise ValueError(f"there are {len(edges)} edges, but scores of shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(f"scores[{np.flatnonzero(~np.isfinite(scores))[0]}] is not finite")
    wrong = np.flatnonzero(((edges < 0) | (edges >= n_labels)).any(axis=1) | (edges[:, 0] == edges[:, 1]))
    if len(wrong):
        raise ValueError(
            f"edges[{wrong[0]}] is {edges[wrong[0]].tolist()}; it must join two different of the {n_labels} labels, by "
            "indices from 0"
        )
    return edges.astype(np.int64), scores
