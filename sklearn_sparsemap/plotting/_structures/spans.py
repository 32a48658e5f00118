"""SpansDisplay: a text with its labelled spans, as a picture and as HTML."""

from __future__ import annotations

from html import escape

import numpy as np

from ..._core.annotations import Any, Self, Sequence
from ..._core.html import table
from ..._core.unwrap import single_sample, transformed_sample
from ..._core.validation import check_positive
from ...spans import Span, tokenize
from ...spans._tokens import read_tokens
from .._base import Drawing, unwrap_fitted
from .._style import FAINT, INK, MUTED, as_text, import_library, text_width, write
from .sequences import FILLS

_WORD, _LABEL = 11.0, 8.0  # font sizes in points
_GAP, _PAD = 5.0, 3.5  # points between words, and around the text of a box
_TEXT_ROW, _LABEL_ROW, _BAR_ROW, _LINE_GAP = 18.0, 11.0, 13.0, 9.0  # heights in points
_LINE = 560.0  # points of a line; longer texts are wrapped
_LIKELY = 0.01  # smallest probability of the spans of `from_estimator`
_N_ROWS = 200  # rows of the table of HTML
_N_TITLE = 8  # alternatives in the title of a word


class SpansDisplay(Drawing):
    """A text with its predicted spans, and below them the likely spans that were not predicted.

    A predicted span is a box around its words, with its type and its probability. The stronger the colour, the more
    probable it is. Alternatives are bars below the words.

    Parameters
    ----------
    spans : sequence of Span
        Those of one sample, as `predict_spans` returns them. Spans with ``predicted=None`` are drawn as predicted ones.
    tokens : sequence
        The tokens of the sample: words, or tokens with offsets, as `sklearn_sparsemap.spans.tokenize` makes them.

    Attributes
    ----------
    spans : list of Span
    words : list of str
    ax_, figure_, legend_
        Axes, figure and legend of the plot.

    Raises
    ------
    ValueError
        If a span ends after the last token, or has no tokens.

    Examples
    --------
    >>> from sklearn_sparsemap.plotting import SpansDisplay
    >>> from sklearn_sparsemap.spans import Span
    >>> spans = [Span(0, 2, "PER", 0.8, predicted=True), Span(1, 2, "LOC", 0.2, predicted=False)]
    >>> display = SpansDisplay(spans, ["Ada", "Lovelace", "wrote"])
    >>> display.plot().figure_.savefig("spans.png")  # doctest: +SKIP
    >>> html = display.to_html()
    """

    def __init__(self, spans: Sequence[Span], tokens: Sequence[Any]) -> None:
        self._tokens = read_tokens(tokens)
        self.words = self._tokens.words
        self.spans = list(spans)
        for k, span in enumerate(self.spans):
            if span.start is None or span.stop is None or not 0 <= span.start < span.stop <= len(self.words):
                raise ValueError(
                    f"spans[{k}] is from token {span.start} to token {span.stop}, but there are {len(self.words)} "
                    "tokens"
                )
        self._types = sorted({str(span.type) for span in self.spans})

    @classmethod
    def from_predictions(cls, spans: Sequence[Span], tokens: Sequence[Any], *, ax: Any = None) -> Self:
        """Draw the spans of one sample.

        Parameters
        ----------
        spans, tokens
            As for the class.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : SpansDisplay

        Raises
        ------
        ValueError
            As the class.
        """
        return cls(spans, tokens).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: Any,
        *,
        tokens: Sequence[Any] | None = None,
        min_probability: float = _LIKELY,
        ax: Any = None,
    ) -> Self:
        """Draw the spans that a fitted estimator finds in one sample.

        Parameters
        ----------
        estimator : object
            With ``predict_spans``, such as `StructuredSparseMAPClassifier`; or a pipeline or a search around one.
        x : str, sequence of words or of dicts, or array-like
            One sample: an element of the list that ``predict`` takes. A str is split by `tokenize`, for pipelines that
            take words.
        tokens : sequence, default=None
            The tokens of the sample. By default, its words, the ``"word"`` of its dicts, or numbers from 1.
        min_probability : float, default=0.01
            Smallest probability of the spans that are not predicted.
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.

        Returns
        -------
        display : SpansDisplay

        Raises
        ------
        ValueError
            If the estimator has no spans, or the sample does not fit it.
        """
        if isinstance(x, str):
            tokens = tokenize(x) if tokens is None else tokens
            x = read_tokens(tokens).words
        steps, last = unwrap_fitted(estimator, "predict_spans")
        with single_sample(estimator, x):
            (found,) = last.predict_spans(transformed_sample(steps, last, x, False))
        found = [span for span in found if span.predicted or span.probability >= min_probability]
        n_steps = x.shape[0] if hasattr(x, "shape") else len(x)
        return cls.from_predictions(found, _words_of(x, n_steps) if tokens is None else tokens, ax=ax)

    def plot(self, ax: Any = None, *, max_alternatives: int = 3) -> Self:
        """Draw the text and its spans.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. By default, a new figure of fitting size.
        max_alternatives : int, default=3
            Maximum number of rows of alternatives below a line of text; the most probable ones are drawn.

        Returns
        -------
        display : SpansDisplay
        """
        check_positive("max_alternatives", max_alternatives, integer=True, zero=True)
        lines = self._wrap()
        pieces = []
        bottom = 0.0
        right = 0.0
        for line in lines:
            bottom, edge = self._lay_out(line, bottom, max_alternatives, pieces)
            right = max(right, edge)
        entries = [(name, {"color": self._fill(name), "lw": 8.0}) for name in self._types]
        low = np.array([-8.0, bottom])
        scale = self._start_drawing(ax, low, np.array([right + 8.0, 8.0]), entries)
        for piece in pieces:
            self._draw(piece, scale)
        return self

    def to_html(self) -> str:
        """Return the text with its spans as HTML, for notebooks and pages.

        Returns
        -------
        html : str
            A ``div`` without scripts. All texts are escaped. Predicted spans are coloured by their type, the stronger
            the more probable. The title of a word, which browsers show on hover, lists its alternatives, and so does
            the table below the text. It can be read on light and on dark pages.
        """
        parts = []
        covering = {k: [] for k in range(len(self.words))}
        for span in self._others():
            for k in range(span.start, span.stop):
                covering[k].append(span)
        predicted = {span.start: span for span in self._predicted()}
        k = 0
        while k < len(self.words):
            stop = predicted[k].stop if k in predicted else k + 1
            others = dict.fromkeys(other for j in range(k, stop) for other in covering[j])
            others = sorted(others, key=lambda own: -(own.probability or 0.0))[:_N_TITLE]
            parts.append(self._between(k))
            parts.append(self._html_of(k, stop, predicted.get(k), others))
            k = stop
        rows = []
        for span in sorted(self.spans, key=lambda own: (own.start, own.stop)):
            chance = "" if span.probability is None else as_text(span.probability)
            rows.append((self._text_of(span), span.type, chance, "yes" if span.predicted is not False else ""))
        found = table(("span", "type", "probability", "predicted"), rows[:_N_ROWS], len(rows))
        text = "".join(parts)
        return f'<div><p dir="auto" style="line-height:2.2;white-space:pre-wrap">{text}</p>{found}</div>'

    def _predicted(self):
        """Return the predicted spans in their order; they do not overlap."""
        return sorted((span for span in self.spans if span.predicted is not False), key=lambda own: own.start)

    def _others(self):
        """Return the spans that are not predicted, the most probable first."""
        return sorted(
            (span for span in self.spans if span.predicted is False), key=lambda own: -(own.probability or 0.0)
        )

    def _fill(self, name):
        return FILLS[self._types.index(str(name)) % len(FILLS)]

    def _shade(self, span):
        """Return the colour of a span, mixed with white if it is not certain: (r, g, b) of ints."""
        fill = self._fill(span.type)
        share = 1.0 if span.probability is None else 0.25 + 0.75 * span.probability
        return tuple(round(255 - share * (255 - int(fill[k : k + 2], 16))) for k in (1, 3, 5))

    def _text_of(self, span):
        return self._tokens.fields(span.start, span.stop)[2]

    def _between(self, k):
        """Return the text between a token and the one before it, escaped."""
        if k == 0:
            return ""
        tokens = self._tokens
        if tokens.starts is None:
            return " "
        first, after = tokens.stops[k - 1], tokens.starts[k]
        return escape(tokens.text[first:after] if tokens.text is not None else " " * (after - first))

    def _html_of(self, start, stop, span, others):
        """Return the HTML of a predicted span, or of a word outside of them, with its alternatives as the title."""
        text = escape(self._tokens.fields(start, stop)[2])
        titles = [f"{_name_of(other)}: {self._text_of(other)}" for other in others]
        if span is None:
            style = f"border-bottom:2px dotted {MUTED}"
            title = escape("\n".join(["not predicted:", *titles]))
            return f'<span style="{style}" title="{title}">{text}</span>' if others else text
        title = escape("\n".join([_name_of(span), *titles]))
        red, green, blue = self._shade(span)
        # A span that is broken into lines has all its corners.
        clone = "-webkit-box-decoration-break:clone;box-decoration-break:clone"
        style = f"background:rgb({red},{green},{blue});color:{INK};border-radius:4px;padding:2px 4px;{clone}"
        return f'<mark style="{style}" title="{title}">{text} <small><b>{escape(_name_of(span))}</b></small></mark>'

    def _wrap(self):
        """Return the lines of the text, each a list of (token, left edge, right edge) in points."""
        widths = [text_width(word, _WORD) for word in self.words]
        # A box is at least as wide as its label.
        for span in self._predicted():
            inside = sum(widths[span.start : span.stop]) + _GAP * (span.stop - span.start - 1)
            widths[span.stop - 1] += max(0.0, text_width(_name_of(span), _LABEL) - inside)
        lines = [[]]
        x = 0.0
        for k, width in enumerate(widths):
            if lines[-1] and x + width > _LINE:
                lines.append([])
                x = 0.0
            lines[-1].append((k, x, x + width))
            x += width + _GAP + 2 * _PAD
        return lines

    def _lay_out(self, line, top, max_rows, pieces):
        """Place a line of text, its boxes and bars; return its lower and right edge.

        Parameters
        ----------
        line : list
            As `_wrap` returns it.
        top : float
            The upper edge of the line, in points.
        max_rows : int
            Maximum number of rows of bars.
        pieces : list
            Gets the pieces to draw: tuples of kind, left, right, lower and upper edge, text and span.
        """
        if not line:
            return top, 0.0
        lefts = {k: left for k, left, _ in line}
        rights = {k: right for k, _, right in line}
        first, last = line[0][0], line[-1][0]
        edge = line[-1][2]
        middle = top - _TEXT_ROW
        has_label = False
        for span in self._predicted():
            if span.start <= last and span.stop > first:
                left = lefts[max(span.start, first)]
                right = rights[min(span.stop - 1, last)]
                name = _name_of(span) if span.start >= first else ""
                pieces.append(("box", left - _PAD, right + _PAD, middle, top, name, span))
                has_label = True
        for k, left, right in line:
            pieces.append(("word", left, right, middle, top, self.words[k], None))
        bottom = middle - (_LABEL_ROW if has_label else 2.0)
        rows = []
        for span in self._others():
            if span.start > last or span.stop <= first:
                continue
            left = lefts[max(span.start, first)]
            right = rights[min(span.stop - 1, last)]
            name = _name_of(span)
            reach = max(right, left + text_width(name, _LABEL) + 2 * _PAD)
            free = [n for n, row in enumerate(rows) if all(reach < begin or left > end for begin, end in row)]
            number = free[0] if free else len(rows)
            if number == max_rows:
                continue
            if not free:
                rows.append([])
            rows[number].append((left - 2 * _PAD, reach + 2 * _PAD))
            y = bottom - _BAR_ROW * number
            pieces.append(("bar", left - _PAD, right + _PAD, y - _BAR_ROW + 2.0, y, name, span))
            edge = max(edge, reach)
        return bottom - _BAR_ROW * len(rows) - _LINE_GAP, edge

    def _draw(self, piece, scale):
        kind, left, right, low, high, text, span = piece
        Rectangle = import_library("matplotlib.patches").Rectangle
        if kind == "word":
            write(self.ax_, (left, (low + high) / 2), text, _WORD * scale, ha="left", zorder=3)
            return
        color = np.array(self._shade(span)) / 255
        edge = {"edgecolor": INK, "lw": 1.0 * scale} if kind == "box" else {"edgecolor": FAINT, "lw": 0.8 * scale}
        self.ax_.add_patch(Rectangle((left, low), right - left, high - low, facecolor=color, zorder=2, **edge))
        y = low - _LABEL_ROW / 2 - 0.5 if kind == "box" else (low + high) / 2
        if text:
            write(self.ax_, (left + _PAD, y), text, _LABEL * scale, ha="left", zorder=3)


def _name_of(span):
    """Return the type of a span and its probability."""
    return str(span.type) if span.probability is None else f"{span.type} {as_text(span.probability)}"


def _words_of(x, n_steps):
    """Return the words of a sample, or numbers."""
    if isinstance(x, list | tuple) and all(isinstance(own, str) for own in x):
        return list(x)
    if isinstance(x, list | tuple) and all(isinstance(own, dict) and "word" in own for own in x):
        return [str(own["word"]) for own in x]
    return [str(step) for step in range(1, n_steps + 1)]
