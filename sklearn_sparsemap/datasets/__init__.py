"""Loaders of data sets from files, and generators of artificial data."""

from .._core.partition_files import load_partition, save_partition
from ._arff import load_multilabel_arff
from ._conll import load_conll
from ._conllu import load_conllu
from ._conllu_files import ConlluSentence, dump_conllu
from ._hierarchical import load_hierarchical_arff
from ._ingredients import load_ingredients
from ._listops import load_listops, make_listops
from ._word_vectors import load_word_vectors

__all__ = [
    "ConlluSentence",
    "dump_conllu",
    "load_conll",
    "load_conllu",
    "load_hierarchical_arff",
    "load_ingredients",
    "load_listops",
    "load_multilabel_arff",
    "load_partition",
    "load_word_vectors",
    "make_listops",
    "save_partition",
]
