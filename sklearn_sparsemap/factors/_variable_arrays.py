"""Conversion between the user's arrays by name and flat arrays of a graph.

Used by `inference` and `_layout.py`.
"""

from numbers import Real

import numpy as np

from .._core.errors import error_at, part_of
from .._core.offsets import size_of, split_flat
from .._core.validation import check_numbers
from .._graphs.arrays import PAIR, SCORED, TABLE


def check_finite(values, ndim, name):
    """Return `values` as a float64 array; raise ValueError for NaN and infinity. `ndim` is not used."""
    array = check_numbers(values, name)
    if not np.isfinite(array).all():
        raise error_at(name, " contains NaN or infinity")
    return array


class VariableArrays:
    """Conversion between the flat arrays of a `Layout` (of variables or additional scores) and arrays by name.

    A subclass has the attributes `variable_shapes`, `single`, `n_states`, `factors`, `shapes`, `expand`, `mixes` and
    `n_joined` of a `Layout`. Results and problems of graphs (`inference`), tasks, losses, layers and `conformal` call
    the methods.
    """

    def shape_variables(self, flat):
        """Return a flat array of the variables in the form of the user's scores."""
        arrays = split_flat(flat.copy(), self.variable_shapes)
        return next(iter(arrays.values())) if self.single else arrays

    def shape_assignment(self, flat):
        """Return an assignment in the user's form: indices of values, structures of arrays that are `structured`."""
        arrays = split_flat(flat.copy(), self.variable_shapes)
        for name, array in arrays.items():
            if name in self.n_states:
                arrays[name] = array.argmax(axis=-1)
            elif name in self.structured:
                arrays[name] = self.structured[name].best_structure(np.where(array, 1.0, -1.0))
        return next(iter(arrays.values())) if self.single else arrays

    def join_variables(self, values, name, check=None):
        """Check arrays of the variables; return them flat.

        A number stands for an array of it. With `check`, each array must be given; otherwise omitted ones are zero.
        """
        shapes = self.variable_shapes
        if not isinstance(values, dict):
            if not self.single:
                raise error_at(name, f" must be a dict with one array for each of {list(shapes)}")
            values = {next(iter(shapes)): values}
        if not values.keys() <= shapes.keys():
            unknown = sorted(values.keys() - shapes.keys(), key=str)
            raise error_at(name, f" names {unknown[0]!r}, which the graph does not have; there are {list(shapes)}")
        flat = []
        for array_name, shape in shapes.items():
            label = name if self.single else part_of(name, array_name)
            if check and array_name not in values:
                raise error_at(name, f" has no {array_name!r}; pass its scores, or 0.0 if all of them are zero")
            value = values.get(array_name, 0.0)
            if isinstance(value, Real):
                value = np.full(shape, value)
            array = (check or check_finite)(value, len(shape), label)
            if array.shape != shape:
                raise error_at(label, f" has shape {array.shape}; the graph's variables have {shape}")
            flat.append(array.ravel())
        return np.concatenate(flat)

    def shape_additional(self, flat):
        """Return a flat array of pairs and structure scores in the form of the additional scores.

        If factors share a name, there is a list with the array of each of them.
        """
        shaped = {}
        start = 0
        flat = flat.copy()
        for factor in self.factors:
            if factor.type not in SCORED or factor.name is None:
                continue
            if factor.type == PAIR:
                shapes = {(factor.name, None): factor.shape}
            elif factor.type == TABLE:
                shapes = {(factor.name, None): (*factor.pairs_shape, factor.n_states, factor.n_states)}
            else:
                given = {name: shape for (owner, name), shape in self.shapes.items() if owner == factor.name}
                kernel_shapes = factor.kernel_shapes(given, self.featured.get(factor.name, ()))
                shapes = {(factor.name, name): shape for name, shape in kernel_shapes.items()}
            size = size_of(shapes)
            # A structure without scores also has an (empty) entry.
            arrays = _nest(split_flat(flat[start : start + size], shapes), {factor.name: {}})[factor.name]
            shaped.setdefault(factor.name, []).append(arrays)
            start += size
        return {name: parts[0] if len(parts) == 1 else parts for name, parts in shaped.items()}

    def sum_additional(self, flat):
        """Sum flat values of all entries into the shapes of the additional scores: the transpose of `expanded`."""
        return _nest(split_flat(self.summed(flat), self.shapes), {})

    def summed(self, flat):
        """Sum flat values of all entries into joined additional scores: the transpose of `expanded`."""
        if self.expand is None:
            return flat
        if not self.mixes:
            return np.bincount(self.expand, flat, minlength=self.n_joined)
        plain = flat.copy()
        mixed = np.zeros(self.n_joined)
        for indices, first, features in self.mixes:
            products = features.T @ flat[indices].reshape(features.shape[0], _width(flat[indices], features))
            mixed[first : first + products.size] += products.ravel()
            plain[indices] = 0.0
        return mixed + np.bincount(self.expand, plain, minlength=self.n_joined) if plain.any() else mixed

    def join_additional(self, given):
        """Join arrays in the form of the additional scores; omitted ones are zero."""
        known = {owner for owner, _ in self.shapes}
        unknown = sorted(set(given) - known, key=str)
        if unknown:
            raise ValueError(
                f"no additional scores named {unknown[0]!r} were given; there are {sorted(known, key=str)}"
            )
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
        """Return joined scores with an entry for each pair, in the form that kernels take."""
        if self.expand is None:
            return joined
        flat = joined[self.expand]
        for indices, first, features in self.mixes:
            scores, n_features = flat[indices], features.shape[1]
            width = _width(scores, features)
            weights = joined[first : first + n_features * width].reshape(n_features, width)
            flat[indices] = (features @ weights).reshape(scores.shape)
        return flat


def _width(scores, features):
    """Return the number of scores for each row of features."""
    return len(scores) // max(features.shape[0], 1)


def _nest(arrays, nested):
    """Nest arrays by (owner, name) in a dict by owner: arrays if the name is None, else dicts of them."""
    for (owner, name), array in arrays.items():
        if name is None:
            nested[owner] = array
        else:
            nested.setdefault(owner, {})[name] = array
    return nested
