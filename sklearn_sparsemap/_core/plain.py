"""The plain form of values: JSON text and NumPy arrays, from which only objects of listed classes are made.

Used by `estimators`, `features`, `pipeline` and `export.py`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .indices import check_sparse


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


def by_constructor(cls, renamed=None, **stored):
    """Return the form of a class with an attribute for each argument of its constructor; `renamed` maps their names.

    `stored` maps arguments to the names that they have in files, where these differ.
    """
    names = renamed or {name: name for name in signature(cls).parameters}
    argument_of = {name: argument for argument, name in stored.items()}
    return Form(
        lambda **values: cls(**{argument_of.get(name, name): value for name, value in values.items()}),
        lambda value: {stored.get(argument, argument): getattr(value, name) for argument, name in names.items()},
    )


# Forms by the names of classes in files, which never change. No object of another class is made.
_FORMS: dict[str, Form] = {}
_NAMES: dict[type, str] = {}
# Subpackages whose objects a file of another one may hold. Their import adds their forms.
_ROOMS = ("estimators", "features", "pipeline")


def add_form(name, cls, form=None):
    """Let files hold objects of a class, under a name, by default in the form of its constructor."""
    _FORMS[name] = form or by_constructor(cls)
    _NAMES[cls] = name


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
        known = dict(self.arrays)
        try:
            return self.write(value, f"parameters.{name}")
        except NotPlainError:
            self.arrays = known
            # The reference keeps the object alive, so that no other object gets its id.
            self._parameters[id(value)] = name, value
            return {"absent": repr(value)[:200]}

    def write(self, value, path):
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
            return self._array(value, path)
        if sparse.issparse(value) and value.format == "coo":
            names = {"data": value.data, "row": value.row, "col": value.col}
            parts = {name: self._array(array, f"{path}.{name}") for name, array in names.items()}
            return {"coo": {**parts, "shape": list(value.shape)}}
        if sparse.issparse(value):
            csr = sparse.csr_array(value)
            parts = {name: self._array(getattr(csr, name), f"{path}.{name}") for name in ("data", "indices", "indptr")}
            return {"csr": {**parts, "shape": list(csr.shape)}}
        if type(value) is list:
            return self._all(value, path)
        if type(value) is tuple:
            return {"tuple": self._all(value, path)}
        if type(value) is range:
            return {"range": [value.start, value.stop, value.step]}
        if type(value) is dict:
            places = [k if isinstance(k, str) and k.isidentifier() else i for i, k in enumerate(value)]
            pairs = zip(places, value.items())
            return {"dict": [[self.write(k, f"{path}.key"), self.write(v, f"{path}.{own}")] for own, (k, v) in pairs]}
        if type(value) in _NAMES:
            return self._object(value, path)
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, type) and _type_of(value.__name__) is value:
            return {"type": value.__name__}
        raise NotPlainError(f"{path} is {value!r:.200}, which has no plain form")

    def _all(self, values, path):
        return [self.write(value, f"{path}.{i}") for i, value in enumerate(values)]

    def _array(self, value, path):
        array = np.array(value)
        if array.dtype == object:
            return {"objects": self._all(array.ravel().tolist(), path), "shape": list(array.shape)}
        if array.dtype.kind not in _KINDS:
            raise NotPlainError(f"{path} is an array of {array.dtype}, which has no plain form")
        if path in self.arrays:
            path = f"{path}#{len(self.arrays)}"
        self.arrays[path] = array
        return {"array" if isinstance(value, np.ndarray) else "scalar": path}

    def _object(self, value, path):
        name = _NAMES[type(value)]
        form = _FORMS[name]
        given = {**form.arguments(value), **{each: getattr(value, each) for each in form.attributes}}
        return {"object": name, "values": {each: self.write(v, f"{path}.{each}") for each, v in given.items()}}


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

    def array(self, path):
        found = self._arrays[path]
        if not isinstance(found, np.ndarray) or found.dtype.kind not in _KINDS:
            raise ValueError(f"{path} must be an array of numbers or text")
        return np.array(found)

    def _csr(self, given):
        found = sparse.csr_array(tuple(self._parts(given, "data", "indices", "indptr")), shape=tuple(given["shape"]))
        check_sparse(found, "the model")
        return found

    def _coo(self, given):
        data, *coords = self._parts(given, "data", "row", "col")
        found = sparse.coo_array((data, tuple(coords)), shape=tuple(given["shape"]))
        check_sparse(found, "the model")
        return found

    def _parts(self, given, *names):
        arrays = [self.read(given[name]) for name in names]
        if not all(array.ndim == 1 for array in arrays) or any(array.dtype.kind != "i" for array in arrays[1:]):
            raise ValueError("the arrays of a sparse matrix must have one axis, and its indices must be integers")
        return arrays

    def _object(self, tree):
        name = tree["object"]
        room = name.partition(".")[0]
        if room in _ROOMS:
            import_module(f"..{room}", __package__)
        if name not in _FORMS:
            raise ValueError(f"{name!r} is no class that a file may hold")
        form = _FORMS[name]
        values = {name: self.read(each) for name, each in tree["values"].items()}
        found = form.make(**{name: value for name, value in values.items() if name not in form.attributes})
        for name in form.attributes:
            setattr(found, name, values[name])
        return found


def _type_of(name):
    """Return the type of numbers with a name, such as float or float32, or None."""
    found = {"int": int, "float": float}.get(name) or getattr(np, name, None)
    return found if isinstance(found, type) and issubclass(found, int | float | np.generic) else None


_READERS = {
    "float": lambda reader, text: float(text),
    "parameter": lambda reader, name: reader._parameters[name],
    "array": Reader.array,
    "scalar": lambda reader, place: reader.array(place)[()],
    "csr": Reader._csr,
    "coo": Reader._coo,
    "tuple": lambda reader, trees: tuple(map(reader.read, trees)),
    "range": lambda reader, ends: range(*ends),
    "dtype": lambda reader, text: np.dtype(text),
    "type": lambda reader, name: _type_of(name),
    "dict": lambda reader, pairs: {reader.read(key): reader.read(value) for key, value in pairs},
}


def as_text(tree):
    """Return a JSON tree as an array that holds a single text."""
    # Escapes would make one character of two surrogates.
    return np.array(json.dumps(tree, allow_nan=False, ensure_ascii=False))


def read_text(array):
    """Return the JSON tree of an array by `as_text`."""
    return json.loads(str(np.asarray(array)[()]))
