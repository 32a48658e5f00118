"""Jacobian products of all problems of a batch; one compiled call for each thread.

Used by `inference` and `facet_loops.py`.
"""

from collections import namedtuple

from numba import types

from .._core.jit import FLOATS, FLOATS_OUT, INTS, INTS_OUT, ORACLE, PARTS, entry, kernel, new_floats
from .face import FACE_TOLERANCE, Direction, multiply, respond, span_face
from .loops import PROBLEMS
from .support import independent_support_of, mix, parts_repeat

# Conventions: problem i is as in `Problems`. Its support has the structures first[i]..first[i + 1], each with sizes[i,
# 0] slots from slot_ptr[i] on and sizes[i, 1] additional slots. Directions have `unary`, laid out like the scores, and
# `extra`, which begins at extra_ptr[i] for problem i. Products are written in the same layout. `inference/_results`
# makes all three by the order of their fields.
Supports = namedtuple("Supports", ["slots", "slot_ptr", "additional", "additional_ptr", "first"])
SUPPORTS = types.NamedTuple([PARTS, INTS, PARTS, INTS, INTS], Supports)
Directions = namedtuple("Directions", ["unary", "extra", "extra_ptr"])
DIRECTIONS = types.NamedTuple([FLOATS, FLOATS, INTS], Directions)
Products = namedtuple("Products", ["unary", "extra"])
PRODUCTS = types.NamedUniTuple(FLOATS_OUT, 2, Products)


@kernel
def _support_of(supports, sizes, i):
    """Return the slots and additional slots of the structures of problem `i`, one a row."""
    k, n_slots, n_additional = supports.first[i + 1] - supports.first[i], sizes[i, 0], sizes[i, 1]
    at, at_additional = supports.slot_ptr[i], supports.additional_ptr[i]
    slots = supports.slots[at : at + k * n_slots].copy()
    additional_slots = supports.additional[at_additional : at_additional + k * n_additional].copy()
    return slots.reshape((k, n_slots)), additional_slots.reshape((k, n_additional))


@kernel
def _part_of(problems, extra_ptr, i, arrays):
    """Return the entries of problem `i` in directions or products: for the scores, and for the additional scores."""
    unary = arrays.unary[problems.score_ptr[i] : problems.score_ptr[i + 1]]
    return unary, arrays.extra[extra_ptr[i] : extra_ptr[i + 1]]


@kernel
def _multiply(support, k, problems, directions, i, out):
    """Multiply the direction of problem `i` with the Jacobian of mixtures of `k` structures.

    Parameters
    ----------
    support : Support
    k : int
    problems : Problems
    directions : Directions
    i : int
    out : Products
    """
    unary, extra = _part_of(problems, directions.extra_ptr, i, directions)
    out_unary, out_extra = _part_of(problems, directions.extra_ptr, i, out)
    multiply(support, k, unary, extra, out_unary, out_extra)


@entry(types.void(ORACLE, PROBLEMS, types.int64, types.int64, SUPPORTS, FLOATS, DIRECTIONS, PRODUCTS))
def marginal_products_range(oracle, problems, start, stop, supports, marginals, directions, out):
    """Multiply directions with the Jacobians of the marginals and additional marginals of problems start..stop.

    Parameters
    ----------
    oracle : MAP oracle
    problems : Problems
    start, stop : int
    supports : Supports
        The solutions.
    marginals : array
        Marginals of all problems, flat.
    directions : Directions
    out : Products
    """
    for i in range(start, stop):
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        unary, extra = _part_of(problems, directions.extra_ptr, i, directions)
        additional = problems.additional[problems.additional_start[i] : problems.additional_stop[i]]
        support, k = span_face(
            oracle, problems.scores[first:last], additional, problems.dims[i], problems.sizes[i], marginals[first:last],
            slots, additional_slots, Direction(unary, extra, True), FACE_TOLERANCE,
        )  # fmt: skip
        _multiply(support, k, problems, directions, i, out)


@entry(types.void(PROBLEMS, types.int64, types.int64, SUPPORTS, DIRECTIONS, PRODUCTS))
def support_products_range(problems, start, stop, supports, directions, out):
    """Multiply with Jacobians of supports that need not span a face, such as those of a solver that was stopped.

    Parameters
    ----------
    problems : Problems
    start, stop : int
    supports : Supports
    directions : Directions
    out : Products
    """
    for i in range(start, stop):
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        support, k = independent_support_of(slots, additional_slots, parts_repeat(problems.sizes[i]))
        _multiply(support, k, problems, directions, i, out)


@entry(types.void(PROBLEMS, types.int64, types.int64, SUPPORTS, FLOATS, INTS, FLOATS_OUT, FLOATS_OUT, INTS_OUT))
def weight_products_range(problems, start, stop, supports, upstream, extra_ptr, out, extra_out, dependent):
    """Multiply `upstream`, one entry for each structure, with the Jacobians of the weights of problems start..stop.

    `dependent[i]` is set to 1 if the structures are affinely dependent; then there is no Jacobian.

    Parameters
    ----------
    problems : Problems
    start, stop : int
    supports : Supports
    upstream : array
        One entry for each structure.
    extra_ptr : int array of shape (n_problems + 1,)
        As in `Directions`.
    out, extra_out : arrays
        Get the products for the scores and for the additional scores.
    dependent : int array of shape (n_problems,)
    """
    for i in range(start, stop):
        slots, additional_slots = _support_of(supports, problems.sizes, i)
        support, k = independent_support_of(slots, additional_slots, parts_repeat(problems.sizes[i]))
        dependent[i] = k < slots.shape[0]
        products = new_floats(k)
        for s in range(k):
            products[s] = upstream[supports.first[i] + s]
        respond(support, k, products)
        first, last = problems.score_ptr[i], problems.score_ptr[i + 1]
        mix(support.slots, k, products, out[first:last])
        mix(support.additional, k, products, extra_out[extra_ptr[i] : extra_ptr[i + 1]])
