"""Checks of a structure's attributes and shapes, before the first call of its oracle.

They are part of `check_structure`, and raise AssertionError. `_check.py` calls them; `_case.py` and `_oracle.py` use
`is_ints`.

Used by `_case.py`, `_check.py` and `_oracle.py`.
"""

from itertools import combinations, product

import numpy as np

from .._core.jit import Entry, is_compiled
from .._numerics.polytope_solver import PolytopeSolver
from ..structures._base import TAKEN_NAMES, is_structure


def require(structure, condition, what, remedy):
    """Fail, unless `condition`, with a message that needs no scores."""
    if not condition:
        raise AssertionError(f"{structure!r}: {what}; {remedy}")


def is_ints(values, least=0):
    """Return whether all of `values` are ints of at least `least`."""
    kinds = (int, np.integer)
    return all(isinstance(v, kinds) and not isinstance(v, bool) and v >= least for v in values)


def check_attributes(structure):
    """Check the attributes that do not depend on the scores."""
    remedy = "pass an instance of a subclass of sklearn_sparsemap.structures.Structure, such as LinearChain()"
    if isinstance(structure, type):
        raise AssertionError(f"{structure.__name__} is a class; {remedy}")
    require(structure, is_structure(structure), "it is not a Structure", remedy)
    ndim, names = structure.score_ndim, structure.additional_names
    require(structure, is_ints([ndim], 1), f"score_ndim is {ndim!r}", "it is the number of axes of scores, an int")
    is_names = isinstance(names, tuple) and all(isinstance(name, str) and name.isidentifier() for name in names)
    require(structure, is_names, f"additional_names is {names!r}", "make it a tuple of names")
    bad = sorted(TAKEN_NAMES & set(names)) or [name for name in names if names.count(name) > 1]
    require(structure, not bad, f"additional_names has {bad}", "names must differ, and not be a keyword of sparsemap")
    remedy = "make it with sklearn_sparsemap._core.jit.as_oracle, or give a Python function to CustomStructure"
    for name in ("oracle", "marginal_oracle"):
        oracle = getattr(structure, name)
        is_fine = isinstance(oracle, Entry) or is_compiled(oracle) or (oracle is None and name == "marginal_oracle")
        require(structure, is_fine, f"{name} is {oracle!r}, which kernels cannot call", remedy)
    for name in ("fixed_size", "repeats", "strict_encode"):
        value = getattr(structure, name)
        require(structure, isinstance(value, bool | np.bool_), f"{name} is {value!r}", "it is True or False")
    require(
        structure,
        structure.fixed_size or not structure.labelled,
        "it is labelled, but not of fixed_size",
        "a structure made of labels has one part for each; leave fixed_size as it is",
    )
    own = structure.polytope_solver
    is_fine = own is None or isinstance(own, PolytopeSolver)
    remedy = "it is that of a structure with the same polytope, or None to solve SparseMAP by the oracle"
    require(structure, is_fine, f"polytope_solver is {own!r}", remedy)


def check_shape(structure, shape):
    """Check that scores can have this shape; return it."""
    remedy = f"a shape of scores is a tuple of {structure.score_ndim} positive ints"
    is_shape = isinstance(shape, tuple) and len(shape) == structure.score_ndim and is_ints(shape, 1)
    require(structure, is_shape, f"the shape {shape!r} is not a shape of its scores", remedy)
    return shape


def check_linear_model(structure, shape):
    """Check the methods for estimators. Structures without estimators need not define `scores_shape`."""
    has_outputs = structure.labelled or structure.in_estimators.row_outputs is not None
    rows, n_outputs = (shape, 1) if not has_outputs else (shape[:-1] or (1,), shape[-1])
    try:
        found = structure.scores_shape(rows, n_outputs)
    except NotImplementedError:
        return
    except ValueError as error:
        found = f"refused ({error})"
    call = f"scores_shape({rows}, {n_outputs})"
    remedy = "it must be the shape of the scores that a linear model makes of such a sample"
    require(structure, found == shape, f"{call} is {found}, not {shape}", remedy)
    accepted = structure.additional_shapes(shape)
    for name, s in structure.learned_shapes(n_outputs).items():
        fits = name in accepted and s in accepted[name]
        remedy = f"additional_shapes({shape}) must have it: {accepted}"
        require(structure, fits, f"learned_shapes({n_outputs}) has {name!r} of shape {s}", remedy)


def choices_of_additional(structure, shape):
    """Return the combinations of additional scores for a shape, as dicts of shapes; the first one has all."""
    accepted = structure.additional_shapes(shape)
    names = structure.additional_names
    remedy = f"it must have one entry for each of additional_names, {names}: a tuple of the accepted shapes"
    fits = isinstance(accepted, dict) and set(accepted) == set(names)
    fits = fits and all(
        isinstance(shapes, tuple) and shapes and all(isinstance(s, tuple) and is_ints(s) for s in shapes)
        for shapes in accepted.values()
    )
    require(structure, fits, f"additional_shapes({shape}) is {accepted!r}", remedy)
    choices, error = [], None
    # All of them, each alone, and none.
    for k in sorted({len(names), min(1, len(names)), 0}, reverse=True):
        for chosen in combinations(names, k):
            for alternative in product(*(accepted[name] for name in chosen)):
                given = dict(zip(chosen, alternative))
                try:
                    structure.dims(shape, given)
                except ValueError as e:
                    # Required additional scores may be missing in this combination.
                    error = error or e
                else:
                    choices.append(given)
    remedy = "pass shapes that fit, or return such shapes from example_shapes()"
    require(structure, choices, f"dims refuses scores of shape {shape} ({error})", remedy)
    return choices
