"""Loaders of data sets from files."""

from ._conll import load_conll

__all__ = ["load_conll"]
