"""Features of tokens and of dependencies: templates over the fields of tokens, turned into sparse columns."""

from ._arc_templates import ArcTemplate, dependency_templates
from ._arcs import ArcVectorizer
from ._fields import word_shape
from ._templates import Template, chunking_templates, ngrams
from ._vectorizer import TemplateVectorizer

__all__ = [
    "ArcTemplate",
    "ArcVectorizer",
    "Template",
    "TemplateVectorizer",
    "chunking_templates",
    "dependency_templates",
    "ngrams",
    "word_shape",
]
