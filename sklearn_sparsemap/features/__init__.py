"""Features of sequences: templates over the fields of tokens, turned into sparse columns."""

from ._fields import word_shape
from ._templates import Template, chunking_templates, ngrams
from ._vectorizer import TemplateVectorizer

__all__ = ["Template", "TemplateVectorizer", "chunking_templates", "ngrams", "word_shape"]
