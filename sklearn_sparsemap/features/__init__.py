"""Features of tokens and of dependencies: templates over the fields of tokens, turned into sparse columns,
and a filter that selects among them."""

from ._arcs.templates import ArcTemplate, dependency_templates
from ._arcs.vectorizer import ArcVectorizer
from ._information_gain import InformationGainSelector
from ._tokens.templates import Template, chunking_templates, ner_templates, ngrams
from ._tokens.vectorizer import TemplateVectorizer
from ._words import DERIVED_FIELDS, word_case, word_digits, word_punctuation, word_shape

__all__ = [
    "DERIVED_FIELDS",
    "ArcTemplate",
    "ArcVectorizer",
    "InformationGainSelector",
    "Template",
    "TemplateVectorizer",
    "chunking_templates",
    "dependency_templates",
    "ner_templates",
    "ngrams",
    "word_case",
    "word_digits",
    "word_punctuation",
    "word_shape",
]
