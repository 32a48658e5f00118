"""Span: a labelled part of a sequence of tokens, or of a text.

Used by `_files.py` and `_labels.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from .._core.annotations import Any


class Span(NamedTuple):
    """A labelled part of a sequence of tokens, such as the name of a person in a sentence.

    Parameters
    ----------
    start, stop : int or None
        Positions of its first token and of the token after its last one. None if only the offsets are known.
    type : str
        Such as ``"PER"``. Another hashable if the labels of a segmentation are no strings.
    probability : float, default=None
        Its marginal probability.
    start_char, stop_char : int, default=None
        Offsets of its first character in the text, and of the character after its last one.
    text : str, default=None
        Its text.
    predicted : bool, default=None
        Whether it belongs to the predicted labels. None if it is not of a model.
    alternatives : tuple of Span, default=()
        Of a predicted span: the spans of a probability of at least 0.01 that are not predicted and share a token with
        it, the most probable first.

    See Also
    --------
    sklearn_sparsemap.StructuredSparseMAPClassifier.predict_spans : Spans with their probabilities.

    Examples
    --------
    >>> from sklearn_sparsemap.spans import Span
    >>> Span(0, 2, "PER", 0.9).to_dict()
    {'start': 0, 'stop': 2, 'type': 'PER', 'probability': 0.9}
    """

    start: int | None
    stop: int | None
    type: Any
    probability: float | None = None
    start_char: int | None = None
    stop_char: int | None = None
    text: str | None = None
    predicted: bool | None = None
    alternatives: tuple[Span, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that `json.dumps` can write.

        Returns
        -------
        fields : dict
            The fields that are not None, by name. A predicted span also has ``alternatives``, a list of dicts.
        """
        fields = {name: value for name, value in zip(self._fields[:-1], self) if value is not None}
        if self.predicted:
            fields["alternatives"] = [span.to_dict() for span in self.alternatives]
        return fields
