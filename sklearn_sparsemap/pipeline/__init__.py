"""Pipelines that forward the methods of structured models beyond `predict`."""

from ._pipeline import StructuredPipeline, make_structured_pipeline

__all__ = ["StructuredPipeline", "make_structured_pipeline"]
