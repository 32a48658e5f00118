"""TreeDisplay: dependency trees as arcs above a sentence."""

from __future__ import annotations

import numpy as np

from ..._core.annotations import Any, ArrayLike, Self, Sequence
from ..._core.validation import check_positive
from .._base import Drawing, check_names
from .._style import INK, MAX_STRUCTURES, MUTED, as_text, import_library, text_width, write
from .base import StructuresDisplay, as_ints

# All lengths are in points, at the display's own size.
_FONT, _SMALL, _LINE = 12.0, 9.0, 15.0
_LEVEL, _LOWEST = 19.0, 17.0
_END_GAP, _WORD_GAP = 9.0, 14.0
_THICKEST, _THINNEST = 3.0, 0.9
_ROOT_GAP = 26.0
_ARROW = 6.0
_MARGIN = 10.0
_NARROWEST = 200.0
_TITLE = 24.0
_FEW_ARCS = 24  # always drawn
_IN_ALL = {"color": INK, "linestyle": "-", "label": "in all"}
_GOLD = {"color": MUTED, "linestyle": (0, (3.0, 2.0)), "label": "truth"}


class TreeDisplay(StructuresDisplay, Drawing):
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
        The true tree, drawn dashed below the words.
    words : sequence of str, default=None
        The words. By default, numbers. A word may have more lines, for example its part of speech.
    labels : sequence of str, default=None
        Names of the labels of arcs. By default, numbers from 0. An arc with several labels shows all of them, the most
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
        super().__init__(structures, weights, marginals=marginals, y_true=y_true)
        n = len(self.structures[0])
        self.words = check_names("words", words, n) or [str(m) for m in range(1, n + 1)]

    def _read_marginals(self, marginals):
        return marginals.sum(axis=-1) if marginals.ndim == 3 else marginals

    def _read(self, structure, name):
        n = self._count(structure)
        heads = labels = structure
        is_labelled = np.ndim(structure) == 2 and np.shape(structure)[1] == 2
        if is_labelled:
            heads, labels = np.asarray(structure).T
        heads = as_ints(heads, n, 0, n + 1, f"{name}: a tree is {n} ints from 0 (root) to {n}, the head of each word")
        if (heads == np.arange(1, n + 1)).any():
            raise ValueError(f"{name}: no word is its own head; got {heads.tolist()}")
        if not is_labelled:
            return heads
        below, n_labels = "", None
        if self.labels is not None:
            n_labels = len(self.labels)
            below = f" to {n_labels - 1}"
        labels = as_ints(labels, n, 0, n_labels, f"{name}: the labels of arcs are {n} ints from 0{below}")
        return np.column_stack([heads, labels])

    def _cells(self, structure):
        return _heads_of(structure), np.arange(self._n_items)

    def _shape(self):
        return self._n_items + 1, self._n_items

    def _name_of(self, tree, m):
        """Return the name of the label of the arc to word `m` of a tree; None without labels."""
        if tree.ndim == 1:
            return None
        return str(tree[m, 1]) if self.labels is None else self.labels[tree[m, 1]]

    def plot(self, ax: Any = None, *, max_structures: int = MAX_STRUCTURES, max_arcs: int | None = None) -> Self:
        """Draw the trees.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size. In smaller axes everything is scaled down.
        max_structures : int, default=4
            Number of trees drawn separately, the most probable ones; the others are drawn as one group.
        max_arcs : int, default=None
            Maximum number of arcs, by default twice the number of words, or 24 if that is more. The arcs of the most
            probable tree come first, then the most probable ones. The legend says how many are not drawn, and up to
            which probability.

        Returns
        -------
        display : TreeDisplay
        """
        strands = self._strands(max_structures)
        arcs, left_out = self._limit(self._arcs(strands), max_arcs)
        gold = self._gold()
        centres, low, high = _arrange(self.words, [*arcs, *gold])
        scale = self._start_drawing(ax, low, high, self._entries(strands, arcs, left_out), title=_TITLE)
        self.arcs_ = {}
        for x, word in zip(centres, self.words):
            # Each line is a separate text, so that the lines of all words have the same baselines.
            for k, line in enumerate(word.split("\n")):
                color = INK if k == 0 else MUTED
                write(self.ax_, (x, -_FONT - k * _LINE), line, _FONT * scale, color=color, va="baseline")
        for arc in sorted(arcs, key=lambda arc: arc.probability):
            self.arcs_[arc.head, arc.modifier] = _draw_arc(self.ax_, arc, scale)
        for arc in gold:
            _draw_arc(self.ax_, arc, scale)
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
                arc.strands = [(arc.probability, _IN_ALL)]
            else:
                # Marginals can be those of a distribution other than the mixture.
                arc.strands = [(arc.probability * weight / total, style) for weight, style in arc.strands]
        return list(arcs.values())

    def _limit(self, arcs, max_arcs):
        """Return the arcs that are drawn, and those left out."""
        if max_arcs is None:
            max_arcs = max(_FEW_ARCS, 2 * len(self.words))
        check_positive("max_arcs", max_arcs, integer=True)
        arcs = sorted(arcs, key=lambda arc: (0 not in arc.trees, -arc.probability))
        return arcs[:max_arcs], arcs[max_arcs:]

    def _gold(self):
        """Return the arcs of the gold tree."""
        arcs = []
        for tree in self._truth():
            for m, head in enumerate(_heads_of(tree).tolist()):
                arc = _Arc(head, m + 1, 1.0, side=-1)
                arc.add_name(self._name_of(tree, m), 1.0)
                arc.strands = [(0.5, _GOLD)]
                arcs.append(arc)
        return arcs

    def _entries(self, strands, arcs, left_out):
        """Return the entries of the legend: list of (label, style of a line)."""
        shown = []
        if len(strands) > 1:
            shown += [(probability, style) for _, probability, style in strands]
            if any(len(arc.trees) == len(self.structures) for arc in arcs):
                shown.append((1.0, _IN_ALL))
        if self.y_true is not None:
            shown.append((0.5, _GOLD))
        entries = [(style["label"], {**style, "lw": max(1.6, _THICKEST * weight)}) for weight, style in shown]
        if left_out:
            note = f"{len(left_out)} arcs up to {as_text(max(arc.probability for arc in left_out))} not drawn"
            entries.append((note, {"lw": 0.0}))
        return entries


def _heads_of(tree):
    return tree if tree.ndim == 1 else tree[:, 0]


class _Arc:
    """An arc with its strands: (width as a probability, style). `side` is 1 above the words, and -1 below.

    `_arrange` sets its `level`, from 1 up, the x of its head (None for the root) and modifier, its base and its top.
    """

    def __init__(self, head, modifier, probability, side=1):
        self.head = head
        self.modifier = modifier
        self.probability = float(probability)
        self.side = side
        self.trees, self.strands = [], []
        self._names = {}
        self.offsets = {0: 0.0}

    def add_name(self, name, weight):
        """Add the name of the label that it has in some tree, or None."""
        if name is not None:
            self._names[name] = self._names.get(name, 0.0) + weight

    @property
    def name(self):
        """The names of its labels, the most probable one first."""
        return "/".join(sorted(self._names, key=lambda name: -self._names[name]))

    @property
    def lines(self):
        """The lines of its text: at most one, or two for an arc from the root."""
        number = "" if self.probability >= 1.0 - 1e-9 else as_text(self.probability)
        if self.head == 0:
            return [self.name or "root", *filter(None, [number])]
        return [" ".join(filter(None, [self.name, number]))]

    @property
    def span(self):
        """First and last word, counted from 1; for an arc from the root both are the word itself."""
        ends = (self.head or self.modifier), self.modifier
        return min(ends), max(ends)

    @property
    def room(self):
        """The width of its end at a word, in points."""
        if self.head:
            return _END_GAP
        return max(_ROOT_GAP, text_width(self.name, _SMALL) + 6.0)

    def order_at(self, word):
        """Key by which arcs are adjacent at a word: left arcs on the left, and higher arcs inside."""
        if self.head == 0:
            return 0, 0
        other = self.head + self.modifier - word
        return (-1, self.level) if other < word else (1, -self.level)


def _arrange(words, arcs):
    """Place words and arcs such that no labels overlap; return the middles of words, and the corners of the drawing.

    Arcs over common words get different heights. The ends of arcs at a word are adjacent, in an order in which arcs of
    one tree do not cross.
    """
    rooms = np.zeros(len(words))
    heights = {}
    for side in (1, -1):
        own = [arc for arc in arcs if arc.side == side]
        heights[side] = _LOWEST + _LEVEL * (_set_levels(own) - 1)
        rooms = np.maximum(rooms, _set_offsets(own, len(words)))
    widths = [max(text_width(word, _FONT) + _WORD_GAP, room + 0.6 * _END_GAP) for word, room in zip(words, rooms)]
    for arc in arcs:
        # The words between its ends are widened if its name is longer.
        first, last = arc.span
        between = sum(widths[first - 1 : last]) - 2 * _WORD_GAP
        short = text_width(arc.lines[0], _SMALL) + 2 * _END_GAP - between
        if arc.head and arc.name and short > 0.0:
            for word in range(first - 1, last):
                widths[word] += short / (last - first + 1)
    edges = np.concatenate([[0.0], np.cumsum(widths)])
    width = max(edges[-1], _NARROWEST) + 2 * _MARGIN
    centres = (edges[:-1] + edges[1:]) / 2 + (width - edges[-1]) / 2
    below_words = _FONT + max(word.count("\n") for word in words) * _LINE + 5.0
    for arc in arcs:
        arc.x_head, arc.x_modifier = (
            centres[word - 1] + arc.offsets[word] if word else None for word in (arc.head, arc.modifier)
        )
        arc.base = 3.0 if arc.side == 1 else -below_words - 1.0
        arc.top = arc.base + arc.side * (_LOWEST + _LEVEL * (arc.level - 1))
    bottom = below_words + 6.0
    if any(arc.side == -1 for arc in arcs):
        bottom += heights[-1] + 10.0
    return centres, np.array([0.0, -bottom]), np.array([width, heights[1] + 1.6 * _SMALL])


def _set_levels(arcs):
    """Set each arc's level, from 1 up; return the highest."""
    placed = []
    # Arcs from the root come last, because they are above all arcs that cover their word.
    for arc in sorted(arcs, key=lambda arc: (arc.head == 0, arc.span[1] - arc.span[0], arc.span, -arc.probability)):
        first, last = arc.span
        below = [a.level for a in placed if max(first, a.span[0]) < min(last, a.span[1])]
        if arc.head == 0:
            below = [a.level for a in placed if a.span[0] < first < a.span[1]]
        arc.level = 1 + max(below, default=0)
        placed.append(arc)
    # The label of an arc from the root has up to two lines.
    return max((arc.level + (0.7 if arc.head == 0 else 0.0) for arc in placed), default=0)


def _set_offsets(arcs, n_words):
    """Set the places of each arc's ends relative to the middles of their words; return the room that words need."""
    rooms = np.zeros(n_words)
    for m in range(n_words):
        at_word = [arc for arc in arcs if m + 1 in (arc.head, arc.modifier)]
        at_word.sort(key=lambda arc: arc.order_at(m + 1))
        room = np.array([arc.room for arc in at_word])
        for arc, offset in zip(at_word, np.cumsum(room) - room / 2 - room.sum() / 2):
            arc.offsets[m + 1] = offset
        rooms[m] = room.sum()
    return rooms


def _draw_arc(ax, arc, scale):
    """Draw the strands of an arc, its arrow head and its label; return the strands."""
    Polygon = import_library("matplotlib.patches").Polygon

    widths = [max(_THICKEST * weight, _THINNEST) for weight, _ in arc.strands]
    zorder = 3 + arc.probability
    offset = -sum(widths) / 2
    lines = []
    x, base = arc.x_modifier, arc.base
    for width, (_, style) in zip(widths, arc.strands):
        course = _arch(arc, offset + width / 2)
        offset += width
        style = {key: style[key] for key in ("color", "linestyle")}
        lines += ax.plot(*course, lw=width * scale, zorder=zorder, solid_capstyle="butt", dash_capstyle="butt", **style)
    half = max(0.5 * _ARROW, 0.5 * sum(widths) + 1.4)
    tip = [(x, base), (x - half, base + arc.side * _ARROW), (x + half, base + arc.side * _ARROW)]
    color = max(arc.strands, key=lambda strand: strand[0])[1]["color"]
    ax.add_patch(Polygon(tip, facecolor=color, edgecolor="none", zorder=zorder + 0.01))
    middle = x if arc.x_head is None else (arc.x_head + x) / 2
    if arc.lines[0]:
        place = middle, arc.top + arc.side * (sum(widths) / 2 + 1.0)
        style = {"va": "bottom" if arc.side == 1 else "top", "linespacing": 1.05, "zorder": 6}
        write(ax, place, "\n".join(arc.lines), _SMALL * scale, halo=3.0 * scale, **style)
    return lines


def _arch(arc, d):
    """Return the course of a strand: up, flat and down, `d` outside of the middle of the arc; from the root, down."""
    stop = 0.8 * _ARROW
    if arc.x_head is None:
        return np.array([arc.x_modifier + d] * 2), np.array([arc.top, arc.base + arc.side * stop])
    left = min(arc.x_head, arc.x_modifier)
    right = max(arc.x_head, arc.x_modifier)
    height = abs(arc.top - arc.base)
    half = (right - left) / 2
    corner = min(half, max(0.75 * height, 12.0))
    turn = np.pi / 2 * np.linspace(0.0, 1.0, 40) ** 2
    # A superellipse: rounder than a box, with steeper ends than an ellipse.
    rise = np.sin(turn) ** 0.8 * (height + d)
    along = (1 - np.cos(turn) ** 0.8) * (corner + d)
    x = np.concatenate([left - d + along, (right + d - along)[::-1]])
    y = arc.base + arc.side * np.concatenate([rise, rise[::-1]])
    if arc.x_head > arc.x_modifier:
        x, y = x[::-1], y[::-1]
    # The modifier's end stops within the arrow head.
    inside = np.abs(y - arc.base) < stop
    inside[: len(y) // 2] = False
    return np.append(x[~inside], x[-1]), np.append(y[~inside], arc.base + arc.side * stop)
