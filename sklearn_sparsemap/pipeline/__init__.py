"""Pipelines that hand through what structured models can do beyond `predict`."""

from ._pipeline import StructuredPipeline, make_structured_pipeline

__all__ = ["StructuredPipeline", "make_structured_pipeline"]
