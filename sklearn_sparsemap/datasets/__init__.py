"""Loaders of data sets from files."""

from ._arff import load_multilabel_arff
from ._conll import load_conll
from ._conllu import load_conllu

__all__ = ["load_conll", "load_conllu", "load_multilabel_arff"]
