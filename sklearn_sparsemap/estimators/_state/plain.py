"""The plain form of values: JSON text and NumPy arrays, from which only objects of listed classes are made."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ... import factors, penalties, structures
from ..._core.indices import check_sparse
from ...inference._labels import LabelGraph, OneLabel
from ...training._curve import Course, mean_of
from ...training._data import LinearModel
from ...training._network import Network
from .._multilabel.calibration import Calibration
from .._multilabel.sets import SeenSets
from .._multilabel.threshold import Tuning
from .._structured.graphs_of import GraphsOf
from .state import TrainingState


class Form(NamedTuple):
    """The plain form of the objects of a class.

    Attributes
    ----------
    make : callable
        Makes an object from keyword arguments.
    arguments : callable
        Maps an object to these arguments, a dict.
    attributes : tuple of str
        Attributes that are assigned to the object afterwards.
    """

    make: Callable[..., Any]
    arguments: Callable[[Any], dict[str, Any]]
    attributes: tuple[str, ...] = ()


def _by_constructor(cls, renamed=None):
    """Return the form of a class with an attribute for each argument of its constructor; `renamed` maps their names."""
    names = renamed or {name: name for name in signature(cls).parameters}
    return Form(cls, lambda value: {argument: getattr(value, name) for argument, name in names.items()})


def _arguments_of_program(program):
    given = {name: getattr(program, name) for name in signature(structures.LinearProgram).parameters}
    # The constructor stores omitted rows as empty arrays.
    for rows in ("A", "b"), ("A_eq", "b_eq"):
        if not len(given[rows[1]]):
            given.update(dict.fromkeys(rows))
    return given


def _arguments_of_hierarchy(hierarchy):
    entries = dict(hierarchy.entries)
    return {"parents": entries if hierarchy._is_dict else list(entries.values())}


def _arguments_of_order(order):
    pairs = [(order.names[coarse], order.names[fine]) for coarse, fine in order.covers.tolist()]
    return {"pairs": pairs, "names": order.names, "columns": order.columns}


def _arguments_of_tree(tree):
    parents = [None if parent < 0 else tree.names[parent] for parent in tree.parents.tolist()]
    columns = None if tree.columns is None else dict(zip(tree.names, tree.columns, strict=True))
    return {"parents": dict(zip(tree.names, parents, strict=True)), "columns": columns}


def _arguments_of_tuning(tuning):
    return {"plain": tuning._is_plain, "seen": tuning._is_seen, "decay": tuning._decay}


_COUNTED = {"variables": "labels", "k": "k", "name": "name"}
_STRUCTURES = (
    "Alignment", "DependencyTree", "HeadAutomaton", "LinearChain", "Matching", "Path", "Ranking", "Segmentation",
    "SequenceBudget", "Simplex", "Subset",
)  # fmt: skip
# Parts of fitted models.
_PARTS = (LinearModel, Network, TrainingState, LabelGraph, OneLabel, Calibration, GraphsOf)
# Forms by the names of classes in files, which never change. No object of another class is made.
FORMS = {
    **{f"structures.{name}": _by_constructor(getattr(structures, name)) for name in _STRUCTURES},
    "structures.LinearProgram": Form(structures.LinearProgram, _arguments_of_program),
    **{
        f"factors.{name}": _by_constructor(getattr(factors, name), _COUNTED)
        for name in ("AtLeast", "AtMost", "Exactly")
    },
    **{f"factors.{name}": _by_constructor(getattr(factors, name)) for name in ("Exclusive", "Implies", "Label")},
    "factors.Hierarchy": Form(factors.Hierarchy, _arguments_of_hierarchy, ("labels",)),
    "penalties.Groups": _by_constructor(penalties.Groups),
    "penalties.GroupOrder": Form(penalties.GroupOrder, _arguments_of_order),
    "penalties.GroupTree": Form(penalties.GroupTree, _arguments_of_tree),
    **{cls.__name__: _by_constructor(cls) for cls in _PARTS},
    "SeenSets": Form(SeenSets.of_sets, lambda sets: {"sets": sets.sets, "lifts": sets.lifts}),
    "Losses": Form(lambda: Course(mean_of), lambda course: {}, ("entries", "last", "_per_entry", "_in_last")),
    "Tuning": Form(Tuning, _arguments_of_tuning, ("_plain", "_seen", "_weight")),
}
_CLASSES = {cls: name for name, form in FORMS.items() if isinstance(cls := form.make, type)}
_CLASSES |= {SeenSets: "SeenSets", Course: "Losses"}
# Kinds of NumPy types that a file holds as an array: numbers, text, bytes, times.
_KINDS = "biufcUSMm"


class NotPlainError(ValueError):
    """A value has no plain form."""


class Writer:
    """Writes values as JSON trees, and their arrays into a dict.

    Attributes
    ----------
    arrays : dict of str -> ndarray
        Copies of the arrays, by their place in the tree.
    """

    def __init__(self):
        self.arrays = {}
        self._parameters = {}

    def parameter(self, name, value):
        """Return the tree of a parameter. One without a plain form is stored by name; later values may refer to it."""
        try:
            return self.write(value, f"parameters.{name}")
        except NotPlainError:
            # The reference keeps the object alive, so that no other object gets its id.
            self._parameters[id(value)] = name, value
            return {"absent": repr(value)[:200]}

    def write(self, value, place):
        """Return the tree of a value at a place, such as ``"fitted.classes_"``.

        Raises
        ------
        NotPlainError
            If it contains an object that is neither a parameter nor of one of the listed classes.
        """
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if id(value) in self._parameters:
            return {"parameter": self._parameters[id(value)][0]}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, place)
        if sparse.issparse(value):
            csr = sparse.csr_array(value)
            parts = {name: self._array(getattr(csr, name), f"{place}.{name}") for name in ("data", "indices", "indptr")}
            return {"csr": {**parts, "shape": list(csr.shape)}}
        if type(value) is list:
            return self._all(value, place)
        if type(value) is tuple:
            return {"tuple": self._all(value, place)}
        if type(value) is range:
            return {"range": [value.start, value.stop, value.step]}
        if type(value) is dict:
            return {"dict": [[self.write(k, f"{place}.key"), self.write(v, f"{place}.{k}")] for k, v in value.items()]}
        if type(value) in _CLASSES:
            return self._object(value, place)
        raise NotPlainError(f"{place} is {value!r:.200}, which has no plain form")

    def _all(self, values, place):
        return [self.write(value, f"{place}.{i}") for i, value in enumerate(values)]

    def _array(self, value, place):
        array = np.array(value)
        if array.dtype == object:
            return {"objects": self._all(array.ravel().tolist(), place), "shape": list(array.shape)}
        if array.dtype.kind not in _KINDS:
            raise NotPlainError(f"{place} is an array of {array.dtype}, which has no plain form")
        if place in self.arrays:
            place = f"{place}#{len(self.arrays)}"
        self.arrays[place] = array
        return {"array" if isinstance(value, np.ndarray) else "scalar": place}

    def _object(self, value, place):
        name = _CLASSES[type(value)]
        form = FORMS[name]
        given = {**form.arguments(value), **{each: getattr(value, each) for each in form.attributes}}
        return {"object": name, "values": {each: self.write(v, f"{place}.{each}") for each, v in given.items()}}


class Reader:
    """Makes values from JSON trees and arrays.

    Parameters
    ----------
    arrays : mapping of str -> ndarray
    parameters : dict
        Parameters to which trees refer.
    """

    def __init__(self, arrays, parameters):
        self._arrays, self._parameters = arrays, parameters

    def read(self, tree):
        """Return the value of a tree.

        Raises
        ------
        ValueError
            If the tree is not from a `Writer`, or names a class that is not listed. A damaged tree may cause other
            exceptions, too.
        """
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.read(each) for each in tree]
        if "object" in tree:
            return self._object(tree)
        if "objects" in tree:
            values = np.empty(len(tree["objects"]), object)
            for i, each in enumerate(tree["objects"]):
                values[i] = self.read(each)
            return values.reshape(tree["shape"])
        ((kind, given),) = tree.items()
        if kind not in _READERS:
            raise ValueError(f"{kind!r} is no kind of value")
        return _READERS[kind](self, given)

    def array(self, place):
        found = self._arrays[place]
        if not isinstance(found, np.ndarray) or found.dtype.kind not in _KINDS:
            raise ValueError(f"{place} must be an array of numbers or text")
        return np.array(found)

    def _csr(self, given):
        arrays = [self.read(given[name]) for name in ("data", "indices", "indptr")]
        if not all(array.ndim == 1 for array in arrays) or any(array.dtype.kind != "i" for array in arrays[1:]):
            raise ValueError("the arrays of a sparse matrix must have one axis, and its indices must be integers")
        found = sparse.csr_array(tuple(arrays), shape=tuple(given["shape"]))
        check_sparse(found, "the model")
        return found

    def _object(self, tree):
        form = FORMS.get(tree["object"])
        if form is None:
            raise ValueError(f"{tree['object']!r} is no class that a file may hold")
        values = {name: self.read(each) for name, each in tree["values"].items()}
        found = form.make(**{name: value for name, value in values.items() if name not in form.attributes})
        for name in form.attributes:
            setattr(found, name, values[name])
        return found


_READERS = {
    "float": lambda reader, text: float(text),
    "parameter": lambda reader, name: reader._parameters[name],
    "array": Reader.array,
    "scalar": lambda reader, place: reader.array(place)[()],
    "csr": Reader._csr,
    "tuple": lambda reader, trees: tuple(map(reader.read, trees)),
    "range": lambda reader, ends: range(*ends),
    "dict": lambda reader, pairs: {reader.read(key): reader.read(value) for key, value in pairs},
}


def as_text(tree):
    """Return a JSON tree as an array that holds a single text."""
    return np.array(json.dumps(tree, allow_nan=False))


def read_text(array):
    """Return the JSON tree of an array by `as_text`."""
    return json.loads(str(np.asarray(array)[()]))
