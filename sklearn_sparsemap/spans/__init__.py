"""Labelled spans of texts: tokens with offsets, spans to labels and back, and files of annotation tools."""

from ._files import dump_jsonl, load_jsonl
from ._labels import labels_from_spans, labels_from_tags, spans_from_labels
from ._tokens import Token, tokenize
from ._types import Span

__all__ = [
    "Span",
    "Token",
    "dump_jsonl",
    "labels_from_spans",
    "labels_from_tags",
    "load_jsonl",
    "spans_from_labels",
    "tokenize",
]
