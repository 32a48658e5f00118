"""Features of tokens and of dependencies: templates over the fields of tokens, and dicts of features, turned into
sparse columns; transformers on the rows of samples; and a filter that selects among columns."""

from ._arcs.large import arc_templates
from ._arcs.templates import ArcTemplate, dependency_templates
from ._arcs.vectorizer import ArcVectorizer
from ._information_gain import InformationGainSelector
from ._rows.frames import sentences_from_frame
from ._rows.on_rows import OnRows
from ._rows.out_of_fold_scores import OutOfFoldScores
from ._rows.row_union import RowUnion
from ._rows.token_dicts import TokenDictVectorizer
from ._tokens.templates import Template, chunking_templates, ner_templates, ngrams
from ._tokens.vectorizer import TemplateVectorizer
from ._triples.templates import GrandparentTemplate, SiblingTemplate, grandparent_templates, sibling_templates
from ._triples.vectorizers import GrandparentVectorizer, SiblingVectorizer
from ._vectors.word_clusters import WordClusters
from ._vectors.word_vectors import WordVectors
from ._words import DERIVED_FIELDS, word_case, word_digits, word_punctuation, word_shape

__all__ = [
    "DERIVED_FIELDS",
    "ArcTemplate",
    "ArcVectorizer",
    "GrandparentTemplate",
    "GrandparentVectorizer",
    "InformationGainSelector",
    "OnRows",
    "OutOfFoldScores",
    "RowUnion",
    "SiblingTemplate",
    "SiblingVectorizer",
    "Template",
    "TemplateVectorizer",
    "TokenDictVectorizer",
    "WordClusters",
    "WordVectors",
    "arc_templates",
    "chunking_templates",
    "dependency_templates",
    "grandparent_templates",
    "ner_templates",
    "ngrams",
    "sentences_from_frame",
    "sibling_templates",
    "word_case",
    "word_digits",
    "word_punctuation",
    "word_shape",
]
