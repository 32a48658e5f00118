"""TreeDisplay: dependency trees as arcs above a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._style import (
    INK,
    MUTED,
    as_text,
    halo,
    import_pyplot,
    legend_inside,
    size_in_points,
    text_width,
    width_of_legend,
)
from .base import StructuresDisplay, as_ints, check_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike
    from typing_extensions import Self

# All lengths are in points, at the display's own size.
_FONT, _SMALL, _LINE = 12.0, 9.0, 15.0
_LEVEL, _LOWEST = 19.0, 17.0
_END_GAP, _WORD_GAP = 9.0, 14.0
_THICKEST, _THINNEST = 3.0, 0.9
_ROOT_GAP = 26.0
_ARROW = 6.0
_MARGIN = 10.0
_LEGEND = 22.0
_GOLD = {"color": MUTED, "linestyle": (0, (3.0, 2.0))}


class TreeDisplay(StructuresDisplay):
    """The selected dependency trees of a sentence, as arcs from head to modifier above its words.

    The width of an arc is its marginal probability. It consists of strands, one for each tree that contains the arc, in
    the colour of the tree; arcs in all trees are black. Arcs that are not certain are labelled with their probability.

    Parameters
    ----------
    structures : SparseMAPResult, list of (structure, probability), or list of structures
        Trees as int arrays: the head of each word, 0 for the root; with labelled arcs, of shape (n_words, 2), with the
        label of each word's arc next to its head.
    weights : array-like of shape (n_structures,), default=None
        Probabilities, if `structures` come without them.
    marginals : array-like of shape (n_words + 1, n_words), or (n_words + 1, n_words, n_labels), default=None
        Probability of each arc, or of each with each label. By default, those of the mixture of the trees.
    y_true : array-like of shape (n_words,), default=None
        The right tree, drawn dashed below the words.
    words : sequence of str, default=None
        The words; None numbers them. A word may have more lines, for example its part of speech.
    labels : sequence of str, default=None
        Names of the labels of arcs; None numbers them from 0. An arc that has several is named by all of them, the most
        probable one first.

    Attributes
    ----------
    structures, weights, marginals, y_true, words, labels
        As above, the most probable structure first; marginals are those of arcs, summed over labels.
    arcs_ : dict of (head, modifier) -> list of Line2D
        The strands of each arc, after `plot`.
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If a structure is not the heads of all words, a word is its own head, or weights are not probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import TreeDisplay
    >>> display = TreeDisplay([[2, 0, 2], [2, 0, 1]], [0.75, 0.25], words=["She", "saw", "them"])
    >>> display.marginals[:, 2].tolist()
    [0.0, 0.25, 0.75, 0.0]
    >>> display.plot().figure_.savefig("trees.png")  # doctest: +SKIP
    """

    def __init__(
        self, structures: Any, weights: ArrayLike | None = None, *, marginals: Any = None, y_true: Any = None,
        words: Sequence[Any] | None = None, labels: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        self.labels = None if labels is None else list(map(str, labels))
        if weights is None and np.ndim(getattr(structures, "marginals", None)) == 3:
            marginals = structures.marginals if marginals is None else marginals
            structures, weights = structures.structures, structures.weights
        if np.ndim(marginals) == 3:
            marginals = np.sum(marginals, axis=-1)
        super().__init__(structures, weights, marginals=marginals, y_true=y_true)
        n = len(self.structures[0])
        self.words = check_names("words", words, n) or [str(m) for m in range(1, n + 1)]

    def _read(self, structures, marginals, name="structures"):
        n = len(self.structures[0]) if name == "y_true" else len(np.atleast_1d(structures[0]))
        what = f"{name}: a tree is {n} ints from 0 (root) to {n}, the head of each word"
        most = None if self.labels is None else len(self.labels) - 1
        trees = []
        for tree in structures:
            heads, labels = tree, None
            if np.ndim(tree) == 2 and np.shape(tree)[1] == 2:
                heads, labels = np.asarray(tree).T
                below = "" if most is None else f" to {most}"
                labels = as_ints(labels, (n,), 0, most, f"{name}: the labels of arcs are {n} ints from 0{below}")
            heads = as_ints(heads, (n,), 0, n, what)
            if (heads == np.arange(1, n + 1)).any():
                raise ValueError(f"{name}: no word is its own head; got {heads.tolist()}")
            trees.append(heads if labels is None else np.column_stack([heads, labels]))
        return trees

    def _mix(self, marginals):
        n = len(self.structures[0])
        mixture = np.zeros((n + 1, n))
        for tree, weight in zip(self.structures, self.weights):
            mixture[_heads_of(tree), np.arange(n)] += weight
        return mixture

    def _name_of(self, tree, m):
        """Return the name of the label of the arc to word `m` of a tree; None without labels."""
        if tree.ndim == 1:
            return None
        return str(tree[m, 1]) if self.labels is None else self.labels[tree[m, 1]]

    def plot(self, ax: Any = None, *, max_structures: int | None = 4) -> Self:
        """Draw the trees.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In smaller axes everything is scaled down.
        max_structures : int, default=4
            Number of trees drawn separately, the most probable ones; the others are drawn as one group.

        Returns
        -------
        display : TreeDisplay
        """
        plt = import_pyplot()
        strands = self._strands(max_structures)
        arcs = self._arcs(strands)
        entries = self._entries(strands, arcs)
        gold = self._gold()
        drawing = _Layout(self.words, arcs, gold, width_of_legend(label for label, _ in entries))
        if ax is None:
            title = 24.0
            width, height = drawing.width, drawing.height + title
            figure = plt.figure(figsize=(width / 72, height / 72))
            ax = figure.add_axes((0, 0, 1, drawing.height / height))
        width, height = size_in_points(ax)
        scale = min(width / drawing.width, height / drawing.height, 1.0)
        # One data unit is one point, or less in smaller axes; the drawing is centred.
        spare = (width / scale - drawing.width) / 2, (height / scale - drawing.height) / 2
        ax.set_xlim(-spare[0], drawing.width + spare[0])
        ax.set_ylim(drawing.bottom - spare[1], drawing.bottom + drawing.height + spare[1])
        ax.axis("off")

        self.ax_, self.figure_, self.arcs_ = ax, ax.figure, {}
        for x, word in zip(drawing.centres, self.words):
            # Line by line, so that all words stand on the same lines.
            for k, line in enumerate(word.split("\n")):
                style = {"color": INK if k == 0 else MUTED, "parse_math": False}
                ax.text(x, -_FONT - k * _LINE, line, ha="center", va="baseline", fontsize=_FONT * scale, **style)
        for arc in sorted(arcs, key=lambda arc: arc.probability):
            self.arcs_[arc.head, arc.modifier] = _draw_arc(ax, arc, drawing.path(arc), scale)
        if self.y_true is not None:
            for arc in drawing.gold:
                arc.strands = [(1.0, _GOLD)]
                _draw_arc(ax, arc, drawing.path(arc), scale, upward=False, thickest=1.4)
        self.legend_ = legend_inside(ax, entries, (drawing.width / 2, drawing.bottom), scale) if entries else None
        return self

    def _arcs(self, strands):
        """Return the arcs of all trees, with their strands from the innermost to the outermost."""
        arcs = {}
        for places, _, style in strands:
            for k in places:
                for m, head in enumerate(_heads_of(self.structures[k]).tolist()):
                    arc = arcs.setdefault((head, m + 1), _Arc(head, m + 1, self.marginals[head, m]))
                    arc.trees.append(k)
                    arc.add_name(self._name_of(self.structures[k], m), self.weights[k])
                    if arc.strands and arc.strands[-1][1] is style:
                        arc.strands[-1] = arc.strands[-1][0] + self.weights[k], style
                    else:
                        arc.strands.append((self.weights[k], style))
        for arc in arcs.values():
            total = sum(weight for weight, _ in arc.strands)
            if len(arc.trees) == len(self.structures):
                arc.strands = [(arc.probability, {"color": INK, "linestyle": "-"})]
            else:
                # Marginals can be those of a distribution other than the mixture.
                arc.strands = [(arc.probability * weight / total, style) for weight, style in arc.strands]
        return list(arcs.values())

    def _gold(self):
        """Return the arcs of the right tree."""
        arcs = []
        for m, head in enumerate([] if self.y_true is None else _heads_of(self.y_true).tolist()):
            arcs.append(_Arc(head, m + 1, 1.0))
            arcs[-1].add_name(self._name_of(self.y_true, m), 1.0)
        return arcs

    def _entries(self, strands, arcs):
        """Return the entries of the legend: list of (label, style of a line)."""
        entries = []
        if len(strands) > 1:
            entries += [(style["label"], _in_legend(style, probability)) for _, probability, style in strands]
            if any(len(arc.trees) == len(self.structures) for arc in arcs):
                entries.append(("in all", _in_legend({"color": INK, "linestyle": "-"}, 1.0)))
        if self.y_true is not None:
            entries.append(("truth", _in_legend(_GOLD, 0.5)))
        return entries


def _in_legend(style, probability):
    """Return the style of a line in the legend."""
    return {**style, "lw": max(1.6, _THICKEST * probability)}


def _heads_of(tree):
    return tree if tree.ndim == 1 else tree[:, 0]


class _Arc:
    """An arc with its strands: (width as a probability, style)."""

    def __init__(self, head, modifier, probability):
        self.head, self.modifier, self.probability = head, modifier, float(probability)
        self.trees, self.strands = [], []
        self.level, self._names = 0, {}

    def add_name(self, name, weight):
        """Add the name of the label that it has in some tree, or None."""
        if name is not None:
            self._names[name] = self._names.get(name, 0.0) + weight

    @property
    def name(self):
        """The names of its labels, the most probable one first."""
        return "/".join(sorted(self._names, key=lambda name: -self._names[name]))

    @property
    def span(self):
        """First and last word, counted from 1; for an arc from the root both are the word itself."""
        ends = (self.head or self.modifier), self.modifier
        return min(ends), max(ends)


class _Layout:
    """Positions of words and arcs such that no labels overlap.

    Arcs that share a stretch of the sentence get different heights. The ends of arcs at a word are adjacent, left arcs
    on the left, and higher arcs inside, so that arcs of one tree do not cross.
    """

    def __init__(self, words, arcs, gold, legend_width):
        n, self.gold = len(words), gold
        levels = [_set_levels(arcs), _set_levels(self.gold)]
        self._offset = {}
        ends = np.zeros(n + 1)
        for group in (arcs, self.gold):
            for word, at_word in _ends(group, n).items():
                # The label of an arc from the root needs more room than an arrow.
                room = np.array([_END_GAP if arc.head else _room_of_root(arc) for arc in at_word])
                for arc, place in zip(at_word, np.cumsum(room) - room / 2 - room.sum() / 2):
                    self._offset[arc, word] = place
                ends[word] = max(ends[word], room.sum())
        widths = [
            max(text_width(word, _FONT) + _WORD_GAP, ends[m + 1] + 0.6 * _END_GAP) for m, word in enumerate(words)
        ]
        for arc in (*arcs, *self.gold):
            # Its name stands over the words between its ends.
            first, last = arc.span
            short = text_width(_text_of(arc), _SMALL) + 2 * _END_GAP - (sum(widths[first - 1 : last]) - 2 * _WORD_GAP)
            if arc.head and arc.name and short > 0.0:
                for word in range(first - 1, last):
                    widths[word] += short / (last - first + 1)
        edges = np.concatenate([[0.0], np.cumsum(widths)])
        self.width = max(edges[-1], legend_width, 200.0) + 2 * _MARGIN
        self.centres = (edges[:-1] + edges[1:]) / 2 + (self.width - edges[-1]) / 2
        n_lines = max(word.count("\n") for word in words) + 1
        self._text = _FONT + (n_lines - 1) * _LINE + 5.0
        top = _LOWEST + _LEVEL * (levels[0] - 1) + 1.6 * _SMALL
        below = self._text + (_LOWEST + _LEVEL * (levels[1] - 1) + 10.0 if self.gold else 0.0) + _LEGEND + 4.0
        self.bottom, self.height = -below, top + below

    def path(self, arc):
        """Return the path of an arc: x of its head (None for the root) and modifier, base and top."""
        base, height = 3.0, _LOWEST + _LEVEL * (arc.level - 1)
        if arc in self.gold:
            base, height = -self._text - 1.0, -height
        x = [self.centres[word - 1] + self._offset[arc, word] if word else None for word in (arc.head, arc.modifier)]
        return *x, base, base + height


def _set_levels(arcs):
    """Set each arc's level, from 1 up; return the highest."""
    placed = []
    # Arcs from the root come last, above all that cover their word.
    for arc in sorted(arcs, key=lambda arc: (arc.head == 0, arc.span[1] - arc.span[0], arc.span, -arc.probability)):
        first, last = arc.span
        below = [a.level for a in placed if max(first, a.span[0]) < min(last, a.span[1])]
        if arc.head == 0:
            below = [a.level for a in placed if a.span[0] < first < a.span[1]]
        arc.level = 1 + max(below, default=0)
        placed.append(arc)
    # The label of an arc from the root has up to two lines.
    return max((arc.level + (0.7 if arc.head == 0 else 0.0) for arc in placed), default=0)


def _ends(arcs, n):
    """Return the arcs that end at each word, from left to right."""
    ends = {word: [] for word in range(1, n + 1)}
    for arc in arcs:
        for word in {arc.head, arc.modifier} - {0}:
            ends[word].append(arc)

    def place(arc, word):
        if arc.head == 0:
            return 0, 0
        other = arc.head + arc.modifier - word
        return (-1, arc.level) if other < word else (1, -arc.level)

    return {word: sorted(at_word, key=lambda arc: place(arc, word)) for word, at_word in ends.items()}


def _text_of(arc, is_certain=False):
    """Return the text above an arc between words: its label, and its probability unless it is certain."""
    is_certain = is_certain or arc.probability >= 1.0 - 1e-9
    return " ".join(filter(None, [arc.name, "" if is_certain else as_text(arc.probability)]))


def _room_of_root(arc):
    """Return the width that the label of an arc from the root takes."""
    return max(_ROOT_GAP, text_width(arc.name, _SMALL) + 6.0) if arc.name else _ROOT_GAP


def _draw_arc(ax, arc, path, scale, upward=True, thickest=_THICKEST):
    """Draw the strands of an arc, its arrow head and its label; return the strands."""
    from matplotlib.patches import Polygon

    x_head, x_modifier, base, top = path
    sign = 1.0 if upward else -1.0
    widths = [max(thickest * weight, _THINNEST) for weight, _ in arc.strands]
    zorder = 3 + arc.probability
    offset, lines = -sum(widths) / 2, []
    for width, (_, style) in zip(widths, arc.strands):
        d = offset + width / 2
        offset += width
        if x_head is None:
            x, y = np.array([x_modifier + d] * 2), np.array([top, base + sign * _ARROW * 0.8])
        else:
            x, y = _arch(x_head, x_modifier, base, top, d, sign)
        style = {key: style[key] for key in ("color", "linestyle")}
        lines += ax.plot(x, y, lw=width * scale, zorder=zorder, solid_capstyle="butt", dash_capstyle="butt", **style)
    half = max(0.5 * _ARROW, 0.5 * sum(widths) + 1.4)
    tip = [(x_modifier, base), (x_modifier - half, base + sign * _ARROW), (x_modifier + half, base + sign * _ARROW)]
    color = max(arc.strands, key=lambda strand: strand[0])[1]["color"]
    ax.add_patch(Polygon(tip, facecolor=color, edgecolor="none", zorder=zorder + 0.01))

    is_certain = not upward or arc.probability >= 1.0 - 1e-9
    # Over an arc there is room for a single line.
    label = [arc.name or "root"] if x_head is None else [_text_of(arc, is_certain)]
    if x_head is None and not is_certain:
        label.append(as_text(arc.probability))
    label = [line for line in label if line]
    if label:
        middle = x_modifier if x_head is None else (x_head + x_modifier) / 2
        place = middle, top + sign * (sum(widths) / 2 + 1.0)
        style = {"ha": "center", "va": "bottom" if upward else "top", "linespacing": 1.05}
        text = ax.text(*place, "\n".join(label), fontsize=_SMALL * scale, color=INK, zorder=6, **style)
        text.set_path_effects(halo(3.0 * scale))
    return lines


def _arch(x_head, x_modifier, base, top, d, sign):
    """Return the course of a strand: up, flat and down, `d` outside of the middle of the arc."""
    left, right = min(x_head, x_modifier), max(x_head, x_modifier)
    height, half = abs(top - base), (right - left) / 2
    corner = min(half, max(0.75 * height, 12.0))
    turn = np.pi / 2 * np.linspace(0.0, 1.0, 40) ** 2
    # A superellipse: rounder than a box, with steeper ends than an ellipse.
    rise, along = np.sin(turn) ** 0.8 * (height + d), (1 - np.cos(turn) ** 0.8) * (corner + d)
    x = np.concatenate([left - d + along, (right + d - along)[::-1]])
    y = base + sign * np.concatenate([rise, rise[::-1]])
    if x_head > x_modifier:
        x, y = x[::-1], y[::-1]
    # The modifier's end stops within the arrow head.
    stop = 0.8 * _ARROW
    inside = np.abs(y - base) < stop
    inside[: len(y) // 2] = False
    return np.append(x[~inside], x[-1]), np.append(y[~inside], base + sign * stop)
