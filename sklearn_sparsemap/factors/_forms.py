"""The forms in which users give and get what belongs to a graph: arrays by name there, one flat array here."""

from math import prod

import numpy as np

from .._validation import check_numbers
from ..graphs._arrays import PAIR, STRUCTURE


def check_finite(values, ndim, name):
    """Return `values` as a float64 array; raise ValueError for NaN and infinity. `ndim` is not looked at."""
    array = check_numbers(values, name)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains NaN or infinity")
    return array


class UserForms:
    """Between the flat arrays of a `Layout`, one entry a variable or an additional score, and arrays by name.

    A subclass has the attributes `variable_shapes`, `factors`, `shapes`, `expand` and `n_joined` of a `Layout`.
    """

    @property
    def single(self):
        """Whether there is one array of variables: users then give and get that array, and no dict."""
        return len(self.variable_shapes) == 1

    def shape_variables(self, flat):
        """Give an array of one entry a variable the form in which the user gave the scores."""
        arrays = _cut(flat.copy(), self.variable_shapes)
        return next(iter(arrays.values())) if self.single else arrays

    def join_variables(self, values, name, check=check_finite):
        """Check what goes with the variables; return it flat. Arrays of variables that are left out are zero."""
        shapes = self.variable_shapes
        if not isinstance(values, dict):
            if not self.single:
                raise ValueError(f"{name} must be a dict with one array for each of {list(shapes)}")
            values = {next(iter(shapes)): values}
        unknown = sorted(set(values) - set(shapes), key=str)
        if unknown:
            raise ValueError(f"{name} names {unknown[0]!r}, which the graph does not have; there are {list(shapes)}")
        flat = []
        for array_name, shape in shapes.items():
            label = name if self.single else f"{name}[{array_name!r}]"
            if array_name not in values:
                flat.append(np.zeros(prod(shape)))
                continue
            array = check(values[array_name], len(shape), label)
            if array.shape != shape:
                raise ValueError(f"{label} has shape {array.shape}; the graph's variables have {shape}")
            flat.append(array.ravel())
        return np.concatenate(flat)

    def shape_additional(self, flat):
        """Give one entry for each pair and structure score its place among the additional scores."""
        shapes, shaped = {}, {}
        for factor in self.factors:
            if factor.kind == PAIR:
                shapes[factor.name, None] = factor.shape
            elif factor.kind == STRUCTURE and factor.name is not None:
                # One without scores has an entry, too.
                shaped[factor.name] = {}
                shapes |= {key: shape for key, shape in self.shapes.items() if key[0] == factor.name}
        return _nest(_cut(flat.copy(), shapes), shaped)

    def sum_additional(self, flat):
        """The same, in the shapes of the scores: what belongs to one score is summed."""
        if self.expand is not None:
            flat = np.bincount(self.expand, flat, minlength=self.n_joined)
        return _nest(_cut(flat, self.shapes), {})

    def join_additional(self, given):
        """Join what goes with the additional scores; what is not given is zero."""
        known = {owner for owner, _ in self.shapes}
        unknown = sorted(set(given) - known)
        if unknown:
            raise ValueError(f"no additional scores named {unknown[0]!r} were given; there are {sorted(known)}")
        joined = [np.zeros(0)]
        for (owner, name), shape in self.shapes.items():
            value = given.get(owner, {} if name is not None else 0.0)
            value = value.get(name, 0.0) if name is not None else value
            array = check_numbers(value, owner if name is None else f"{owner}[{name!r}]")
            if array.shape not in (shape, ()):
                raise ValueError(f"{owner} has shape {array.shape}; its scores have {shape}")
            joined.append((array if array.shape == shape else np.full(shape, array)).ravel())
        return self.expanded(np.concatenate(joined))

    def expanded(self, joined):
        """Return joined scores with an entry for each pair, as kernels take them."""
        return joined if self.expand is None else joined[self.expand]


def _cut(flat, shapes):
    """Cut a flat array into arrays of the given shapes, by their keys."""
    arrays, start = {}, 0
    for key, shape in shapes.items():
        stop = start + prod(shape)
        arrays[key] = flat[start:stop].reshape(shape)
        start = stop
    return arrays


def _nest(arrays, nested):
    """Put arrays by (owner, name) into a dict by owner: arrays where the name is None, else dicts of them."""
    for (owner, name), array in arrays.items():
        if name is None:
            nested[owner] = array
        else:
            nested.setdefault(owner, {})[name] = array
    return nested
